//! Whatever is wrong with the agent's options, its disk or its receivers, Flink's job runs on at the same rate and the
//! TaskManager stops as fast; and what is sound works on.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use leaderwatch_tests::cluster::{Cluster, Server};
use leaderwatch_tests::installation::Installation;
use leaderwatch_tests::watched::LIMIT;
use leaderwatch_tests::webhook::{Behavior, WebhookReceiver};
use leaderwatch_tests::{agent, alert_log, wait};

/// How much longer than without the agent a TaskManager may take to stop.
const STOP_GRACE: Duration = Duration::from_secs(3);
/// Over which the job's rate is measured.
const MEASURED: Duration = Duration::from_secs(10);
/// The pause between two numbers of the job.
const PAUSE_MS: u32 = 100;
/// `nobody` on Debian and Ubuntu.
const ORDINARY_USER: u32 = 65_534;

/// Wrong things of a kind, in one TaskManager.
struct Case {
    name: &'static str,
    options: Vec<(&'static str, String)>,
    /// What its alert log must hold: events and a word in each. Empty where it has no log; then it must say so.
    logged: &'static [(&'static str, &'static str)],
    /// Its alert must reach the sound receiver all the same.
    delivers: bool,
}

/// The receivers of one TaskManager: one hangs, one has a name that never resolves, one answers 500 for ever.
const BAD_RECEIVERS: &str = "a webhook that never answers, a name that never resolves, a target that fails for ever";

fn targets(hanging: &str, failing: &str) -> String {
    let urls = [("hangs", hanging), ("nowhere", "http://receiver.invalid:8080/"), ("fails", failing)];
    urls.map(|(name, url)| format!("[[target]]\nname = \"{name}\"\nkind = \"webhook\"\nurl = \"{url}\"\n")).concat()
}

/// A small disk with no room left. Unmounted when it goes.
struct FullDisk(PathBuf);

impl FullDisk {
    fn mount(at: &Path) -> Self {
        fs::create_dir(at).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k,mode=777", "tmpfs"]).arg(at).status().unwrap();
        assert!(mounted.success(), "a tmpfs could not be mounted");
        let disk = Self(at.to_owned());
        // Ends by the error that is wanted.
        let _ = fs::write(at.join("filler"), vec![0; 1 << 20]);
        disk
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        // Lazily: a process may still have a file open there.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0)
}

fn flink_runs_on(version: &str, user: Option<u32>) {
    if !is_root() {
        println!("not run: needs root, to mount a full disk and to run as another user");
        return;
    }
    let ground = tempfile::Builder::new().prefix("leaderwatch-bad-").tempdir().unwrap();
    let ground = ground.path();
    open_to_all(ground);
    let full = FullDisk::mount(&ground.join("full"));
    let (sound, hanging, failing) =
        (WebhookReceiver::start().unwrap(), WebhookReceiver::start().unwrap(), WebhookReceiver::start().unwrap());
    hanging.behave(Behavior::Hang);
    failing.behave(Behavior::Answer(500));
    // A name server that takes every question and answers none.
    let silent = UdpSocket::bind(("127.0.0.53", 53)).or_else(|_| UdpSocket::bind(("127.0.0.77", 53))).unwrap();
    let resolver = ground.join("resolv.conf");
    fs::write(&resolver, format!("nameserver {}\n", silent.local_addr().unwrap().ip())).unwrap();

    // Nothing can be written there: by permission for an ordinary user, by the kind of file system for root.
    let unwritable = if user.is_some() { "/usr/leaderwatch.jsonl" } else { "/proc/leaderwatch.jsonl" };
    let (sound_url, in_full) = (sound.url(), |name: &str| full.0.join(name).display().to_string());
    let bad_receivers = ground.join("bad-receivers.toml");
    fs::write(&bad_receivers, targets(&hanging.url(), &failing.url())).unwrap();
    let cases = [
        Case {
            name: "a missing config file and bad options",
            options: vec![
                ("config", "/nonexistent/leaderwatch.toml".to_owned()),
                ("webhok", "x".to_owned()),
                ("group_wait", "soon".to_owned()),
                ("webhook", sound_url.clone()),
            ],
            logged: &[
                ("agent.problem", "/nonexistent/leaderwatch.toml"),
                ("agent.problem", "webhok"),
                ("agent.problem", "soon"),
            ],
            delivers: true,
        },
        Case {
            name: "an unwritable log folder",
            options: vec![("log", unwritable.to_owned()), ("webhook", sound_url.clone())],
            logged: &[],
            delivers: true,
        },
        Case {
            name: "a full disk",
            options: vec![("log", in_full("log.jsonl")), ("state", in_full("state")), ("webhook", sound_url.clone())],
            logged: &[],
            delivers: true,
        },
        Case {
            name: BAD_RECEIVERS,
            options: vec![("config", bad_receivers.display().to_string())],
            logged: &[("alert.raised", ""), ("alert.retrying", "500")],
            delivers: false,
        },
    ];

    // The first TaskManager has no agent: what the others are held against.
    let library = reachable(&agent::library().unwrap(), ground);
    let installation = reachable_installation(version, user, ground);
    let mut builder = Cluster::builder(&installation)
        .task_managers(1 + cases.len())
        .setting("taskmanager.numberOfTaskSlots", "1")
        // Eight JVMs on two cores stand still for a while now and then.
        .setting("heartbeat.timeout", if version.starts_with('1') { "15000" } else { "15000ms" })
        .setting(
            "high-availability.zookeeper.client.session-timeout",
            if version.starts_with('1') { "6000" } else { "6000ms" },
        );
    for (index, case) in cases.iter().enumerate() {
        let mut options: Vec<(&str, &str)> = case.options.iter().map(|(key, value)| (*key, value.as_str())).collect();
        // Each its own cluster, so that none sends for another.
        let cluster = format!("case-{index}");
        options.push(("cluster", &cluster));
        builder = builder.java_options_of(index + 1, &agent::java_option(&library, &options));
        if case.name == BAD_RECEIVERS {
            let bind = format!("mount --bind {} /etc/resolv.conf && exec \"$@\"", resolver.display());
            builder = builder.wrapper_of(index + 1, &["unshare", "--mount", "sh", "-c", &bind, "sh"]);
        }
    }
    if let Some(user) = user {
        builder = builder.user(user);
    }
    let mut cluster = builder.start().unwrap();
    let jobs: Vec<String> =
        (0..=cases.len()).map(|index| cluster.submit(&format!("job-{index}"), PAUSE_MS).unwrap()).collect();
    cluster.start_standby(1).unwrap();
    let leading = cluster.leader().unwrap();
    cluster.job_managers[leading].kill().unwrap();

    for (index, case) in cases.iter().enumerate() {
        let server = &cluster.task_managers[index + 1];
        for (event, word) in case.logged {
            let found = || {
                let records = server.alert_log()?;
                Ok(alert_log::of(&records, event).iter().any(|record| record.to_string().contains(word)).then_some(()))
            };
            wait::until(&format!("{event} with `{word}` at {}", case.name), LIMIT, found).unwrap();
        }
        if case.logged.is_empty() {
            let said = || Ok(server.console().lines().any(|line| line.contains("leaderwatch")).then_some(()));
            wait::until(&format!("a line on standard error at {}", case.name), LIMIT, said).unwrap();
        }
        let came = || sound.delivered().iter().any(|alert| alert["cluster"] == format!("case-{index}").as_str());
        if case.delivers {
            wait::until(&format!("the alert at {}", case.name), LIMIT, || Ok(came().then_some(()))).unwrap();
        } else {
            assert!(!came(), "{}: its receiver is another one", case.name);
        }
    }
    for job in &jobs {
        cluster.wait_for_job(job, LIMIT).unwrap();
    }

    let rates = rates(&cluster.task_managers);
    println!("numbers in {MEASURED:?}: {rates:?}");
    for (case, rate) in cases.iter().zip(&rates[1..]) {
        assert!(*rate * 10 >= rates[0] * 9, "with {} {rate} numbers passed, without the agent {}", case.name, rates[0]);
    }
    let stops: Vec<Duration> =
        cluster.task_managers.iter_mut().map(|server| server.terminate(Duration::from_secs(60)).unwrap()).collect();
    println!("stopped in {stops:?}");
    for (case, stop) in cases.iter().zip(&stops[1..]) {
        assert!(
            *stop <= stops[0] + STOP_GRACE,
            "with {} it took {stop:?} to stop, without the agent {:?}",
            case.name,
            stops[0]
        );
    }
    cluster.finish();
}

/// How many numbers the job on each TaskManager let pass in the measured time.
fn rates(servers: &[Server]) -> Vec<usize> {
    let count =
        || servers.iter().map(|server| server.console().lines().filter(|line| line.starts_with("job-")).count());
    let begin = Instant::now();
    let before: Vec<usize> = count().collect();
    std::thread::sleep(MEASURED.saturating_sub(begin.elapsed()));
    count().zip(before).map(|(after, before)| after - before).collect()
}

fn open_to_all(folder: &Path) {
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
}

/// A copy that an ordinary user can read, wherever the tree lies.
fn reachable(library: &Path, ground: &Path) -> PathBuf {
    let copy = ground.join("libleaderwatch.so");
    fs::copy(library, &copy).unwrap();
    copy
}

/// The installation, where needed as a copy that an ordinary user can read: root's home is closed to others.
fn reachable_installation(version: &str, user: Option<u32>, ground: &Path) -> Installation {
    let mut installation = Installation::fetch(version).unwrap();
    if user.is_some() {
        // It names its jars by their paths.
        installation.class_archive = None;
        for (path, name) in [(&mut installation.flink_home, "flink"), (&mut installation.java_home, "java")] {
            let copy = ground.join(name);
            // Hard links where the file system allows.
            let linked =
                |option: &str| Command::new("cp").arg(option).arg(&*path).arg(&copy).status().unwrap().success();
            assert!(linked("-al") || linked("-a"), "{} could not be copied", path.display());
            *path = copy;
        }
    }
    installation
}

#[test]
fn flink_runs_on_as_root_1_14() {
    flink_runs_on("1.14.6", None);
}

#[test]
fn flink_runs_on_as_root_2_3() {
    flink_runs_on("2.3.0", None);
}

#[test]
fn flink_runs_on_as_an_ordinary_user_1_14() {
    flink_runs_on("1.14.6", Some(ORDINARY_USER));
}

#[test]
fn flink_runs_on_as_an_ordinary_user_2_3() {
    flink_runs_on("2.3.0", Some(ORDINARY_USER));
}
