//! The cluster that faults befall: two JobManagers, TaskManagers whose agents keep log and state on a small disk each, jobs,
//! receivers.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::fault::{Fault, Subject};
use crate::alert_log::Record;
use crate::cluster::{Cluster, Server};
use crate::installation::Installation;
use crate::mail::{MailReceiver, Security};
use crate::webhook::WebhookReceiver;
use crate::{agent, alert_log, wait};

/// Room on the disk of one agent.
pub const DISK_BYTES: usize = 8 << 20;
/// The longest that an election gathers: for the ResourceManager, for jobs and for the disk, and some to spare.
const LONGEST_GATHERING: jiff::SignedDuration = jiff::SignedDuration::from_secs(20);
/// Longest time for a healed cluster to be whole again.
const CALM_LIMIT: Duration = Duration::from_secs(300);
/// Longest time for what is left to be delivered: the back-off's ceiling of five minutes, and the lease of a claim.
const DELIVERY_LIMIT: Duration = Duration::from_secs(420);

/// One small disk for each agent, unmounted when this goes.
struct Disks(Vec<PathBuf>);

impl Drop for Disks {
    fn drop(&mut self) {
        for disk in &self.0 {
            // Lazily: a process may still have a file open there.
            let _ = Command::new("umount").arg("-l").arg(disk).status();
        }
    }
}

/// The cluster, and what is told of it.
pub struct Ground {
    /// The cluster.
    pub cluster: Cluster,
    /// Takes each alert.
    pub webhook: WebhookReceiver,
    /// Takes each alert, too.
    pub mail: MailReceiver,
    jobs: Vec<String>,
    disks: Disks,
    active: Vec<(Fault, Instant)>,
    /// Processes that ended though nobody struck them: name, and what Flink's log said last.
    pub ended: Vec<(String, String)>,
    // Goes last, after what lies in it.
    _folder: TempDir,
}

impl Ground {
    /// Starts it: `task_managers` of them with one slot each, and a job for each slot.
    ///
    /// # Errors
    /// Where anything does not start, or a disk cannot be mounted (needs root).
    pub fn start(version: &str, task_managers: usize) -> Result<Self> {
        let installation = Installation::fetch(version)?;
        let folder = TempDir::with_prefix("leaderwatch-chaos-")?;
        let (webhook, mail) = (WebhookReceiver::start()?, MailReceiver::start(Security::Plain)?);
        let config = folder.path().join("leaderwatch.toml");
        fs::write(&config, config_text(&webhook, &mail))?;
        // The agent warns of a configuration that others can read.
        fs::set_permissions(&config, fs::Permissions::from_mode(0o600))?;
        let mut disks = Disks(Vec::new());
        let mut builder = Cluster::builder(&installation)
            .task_managers(task_managers)
            .setting("taskmanager.numberOfTaskSlots", "1")
            .setting("restart-strategy.fixed-delay.attempts", "1000000");
        for index in 0..task_managers {
            let disk = folder.path().join(format!("disk-{index}"));
            disks.0.push(mount(&disk)?);
            let paths = [("log", disk.join("log.jsonl")), ("state", disk.join("state")), ("config", config.clone())]
                .map(|(key, path)| (key, path.display().to_string()));
            let options: Vec<(&str, &str)> = paths.iter().map(|(key, path)| (*key, path.as_str())).collect();
            builder = builder.java_options_of(index, &agent::java_option(&agent::library()?, &options));
        }
        let mut cluster = builder.start()?;
        let jobs: Vec<String> =
            (0..task_managers).map(|index| cluster.submit(&format!("job-{index}"), 200)).collect::<Result<_>>()?;
        cluster.start_standby(1)?;
        Ok(Self { cluster, webhook, mail, jobs, disks, active: Vec::new(), ended: Vec::new(), _folder: folder })
    }

    /// Where an agent keeps its log and state.
    pub fn disk(&self, index: usize) -> &Path {
        &self.disks.0[index]
    }

    /// The subjects that are struck now.
    pub fn taken(&self) -> Vec<Subject> {
        self.active.iter().map(|(fault, _)| fault.subject).collect()
    }

    /// The process of a subject.
    ///
    /// # Errors
    /// Where it has none.
    pub fn server(&mut self, subject: Subject) -> Result<&mut Server> {
        match subject {
            Subject::JobManager(index) => Ok(&mut self.cluster.job_managers[index]),
            Subject::TaskManager(index) => Ok(&mut self.cluster.task_managers[index]),
            Subject::ZooKeeper => self.cluster.zookeeper.as_mut().context("no ZooKeeper"),
            other => bail!("{other:?} is no process"),
        }
    }

    /// Begins a fault.
    ///
    /// # Errors
    /// Where its means fail.
    pub fn strike(&mut self, fault: Fault) -> Result<()> {
        fault.strike(self)?;
        self.active.push((fault, Instant::now() + fault.lasts));
        Ok(())
    }

    /// Heals what has lasted long enough, or everything; returns what was healed.
    ///
    /// # Errors
    /// Where something does not come back.
    pub fn heal(&mut self, everything: bool) -> Result<Vec<Fault>> {
        let now = Instant::now();
        let (due, still): (Vec<_>, Vec<_>) = self.active.drain(..).partition(|(_, end)| everything || *end <= now);
        self.active = still;
        for (fault, _) in &due {
            fault.heal(self)?;
        }
        Ok(due.into_iter().map(|(fault, _)| fault).collect())
    }

    /// Starts again what ended by itself, and notes it.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn revive(&mut self) -> Result<()> {
        let taken = self.taken();
        let free = |subject: Subject| !taken.contains(&subject);
        let job_managers = self.cluster.job_managers.iter_mut().enumerate();
        let task_managers = self.cluster.task_managers.iter_mut().enumerate();
        let servers = job_managers
            .map(|(index, server)| (Subject::JobManager(index), server))
            .chain(task_managers.map(|(index, server)| (Subject::TaskManager(index), server)));
        for (_, server) in servers.filter(|(subject, server)| free(*subject) && server.started()) {
            if server.runs() {
                continue;
            }
            self.ended.push((server.name.clone(), last_words(server)));
            server.start()?;
        }
        Ok(())
    }

    /// Heals everything and waits until the cluster is whole: every TaskManager registered, every job running.
    ///
    /// # Errors
    /// Where it does not become whole.
    pub fn calm(&mut self) -> Result<()> {
        self.heal(true)?;
        let jobs = self.jobs.clone();
        let task_managers = self.cluster.task_managers.len() as u64;
        wait::until("the cluster to be whole again", CALM_LIMIT, || {
            self.revive()?;
            let rest = self.cluster.rest()?;
            let known = rest.jobs()?;
            let runs =
                |id: &String| known.iter().any(|job| &job.id == id && job.state == "RUNNING" && job.all_tasks_run);
            Ok((rest.task_managers()? >= task_managers && jobs.iter().all(runs)).then_some(()))
        })
    }

    /// Waits until no election gathers its members any more: what the agents saw last is older than that may take.
    ///
    /// # Errors
    /// Where leaders go on moving.
    pub fn wait_for_elections(&self) -> Result<()> {
        wait::until("the last election to be told", CALM_LIMIT, || {
            let records = self.records()?;
            let moves = alert_log::of(&records, "leader.moved").into_iter().filter_map(|record| record["ts"].as_str());
            let last = moves.filter_map(|ts| ts.parse::<jiff::Timestamp>().ok()).max();
            let now = jiff::Timestamp::now();
            Ok(last.is_none_or(|last| now.duration_since(last) > LONGEST_GATHERING).then_some(()))
        })
    }

    /// Waits until each alert that was raised is at both receivers. Several that wait may come as one mail, which then names
    /// their leaders instead of their ids.
    ///
    /// # Errors
    /// Where one is not.
    pub fn wait_for_deliveries(&self) -> Result<()> {
        let raised = raised(&self.records()?);
        wait::until("what was raised to be delivered", DELIVERY_LIMIT, || {
            let delivered = self.webhook.delivered();
            let mails = self.mail.mails();
            let by_mail = |text: &str| {
                let holds = |mail: &Record, part: &str| mail[part].as_str().is_some_and(|it| it.contains(text));
                mails.iter().any(|mail| holds(mail, "message") || holds(mail, "text"))
            };
            for (id, leader) in &raised {
                if !delivered.iter().any(|alert| alert["id"] == id.as_str()) {
                    bail!("{id} is not delivered by webhook");
                }
                if !by_mail(id) && !by_mail(leader) {
                    bail!("{id} is not delivered by mail");
                }
            }
            Ok(Some(()))
        })
    }

    /// All records of all agents.
    ///
    /// # Errors
    /// Where a log cannot be read.
    pub fn records(&self) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        for disk in &self.disks.0 {
            records.extend(alert_log::read_folder_of(disk, "log.jsonl")?);
        }
        Ok(records)
    }

    /// Copies the logs of the agents into the cluster's folder, which is kept: the small disks are not.
    pub fn keep_agent_logs(&self) {
        for (index, disk) in self.disks.0.iter().enumerate() {
            for file in alert_log::files_of(disk, "log.jsonl") {
                let name = format!("agent-{}-{}", index + 1, file.file_name().unwrap_or_default().to_string_lossy());
                if let Err(problem) = fs::copy(&file, self.cluster.folder.join(&name)) {
                    eprintln!("{name} could not be kept: {problem}");
                }
            }
        }
    }

    /// Everything is well: the cluster's folder is of no more use.
    pub fn finish(self) {
        self.cluster.finish();
    }
}

/// Id and new leader of each failover that was raised.
fn raised(records: &[Record]) -> BTreeMap<String, String> {
    let alerts = alert_log::of(records, "alert.raised").into_iter().map(|record| &record["alert"]);
    let failovers = alerts.filter(|alert| alert["class"] == "failover");
    let text = |value: &Record| value.as_str().unwrap_or_default().to_owned();
    failovers.map(|alert| (text(&alert["id"]), text(&alert["new_leader"]["id"]))).collect()
}

/// `failover` alone: `flapping` would stand in place of each election.
fn config_text(webhook: &WebhookReceiver, mail: &MailReceiver) -> String {
    format!(
        "[alert]\nclasses = [\"failover\"]\ngroup_interval = \"10s\"\n\n\
         [[target]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"{}\"\n\n\
         [[target]]\nname = \"mail\"\nkind = \"email\"\nsmtp = \"smtp://127.0.0.1:{}\"\nto = [\"ops@example.org\"]\n",
        webhook.url(),
        mail.port()
    )
}

fn mount(at: &Path) -> Result<PathBuf> {
    fs::create_dir(at)?;
    let size = format!("size={DISK_BYTES},mode=755");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).status()?;
    if !mounted.success() {
        bail!("a tmpfs could not be mounted at {}; chaos needs root", at.display());
    }
    Ok(at.to_owned())
}

/// The lines by which Flink says why it ends, else the end of the console.
fn last_words(server: &Server) -> String {
    let log = server.log();
    let fatal: Vec<&str> =
        log.lines().filter(|line| line.contains("Fatal error") || line.contains("exit code")).collect();
    match fatal.last() {
        Some(line) => (*line).to_owned(),
        None => server.words().lines().rev().take(5).collect::<Vec<_>>().join(" / "),
    }
}
