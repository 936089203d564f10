//! A Flink cluster on loopback: ZooKeeper (the server in Flink's own jars), JobManagers and TaskManagers, the latter two
//! started by Flink's own `bin/jobmanager.sh` and `bin/taskmanager.sh`, as a user would.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::alert_log::{self, Record};
use crate::installation::{Installation, source_root};
use crate::kubernetes::Kubernetes;
use crate::oracle;
use crate::ports;
use crate::process::{Guard, Process};
use crate::rest::{Job, Rest};
use crate::settings::{self, Shared};
pub use crate::settings::{HighAvailability, Timeouts};
use crate::wait;

/// Longest time for a process of the cluster to be ready on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(240);

/// What a cluster is to be like; every field has a sound default.
#[derive(Debug, Clone)]
pub struct Builder {
    installation: Installation,
    job_managers: usize,
    task_managers: usize,
    high_availability: HighAvailability,
    timeouts: Timeouts,
    cluster_id: String,
    java_options: String,
    java_options_of: BTreeMap<usize, String>,
    job_manager_java_options: String,
    settings: Vec<(String, String)>,
    task_manager_settings: Vec<(String, String)>,
    zookeeper_port: u16,
    user: Option<u32>,
    installer: Vec<String>,
    wrapper: Vec<String>,
    wrapper_of: BTreeMap<usize, Vec<String>>,
    remove_when_killed: bool,
}

impl Builder {
    /// Port of the ZooKeeper server that will be started.
    pub fn zookeeper_port(&self) -> u16 {
        self.zookeeper_port
    }

    /// How many JobManagers there may be, of which one is started; 2 by default.
    pub fn job_managers(mut self, count: usize) -> Self {
        self.job_managers = count;
        self
    }

    /// How many TaskManagers; 1 by default.
    pub fn task_managers(mut self, count: usize) -> Self {
        self.task_managers = count;
        self
    }

    /// Who keeps the leaders; ZooKeeper by default.
    pub fn high_availability(mut self, high_availability: HighAvailability) -> Self {
        self.high_availability = high_availability;
        self
    }

    /// How soon a dead process is missed; short by default.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// `high-availability.cluster-id`; `orders` by default.
    pub fn cluster_id(mut self, id: &str) -> Self {
        self.cluster_id = id.to_owned();
        self
    }

    /// JVM options of every TaskManager, such as `-agentpath:...`.
    pub fn java_options(mut self, options: &str) -> Self {
        self.java_options = options.to_owned();
        self
    }

    /// JVM options of one TaskManager, in place of those of all.
    pub fn java_options_of(mut self, task_manager: usize, options: &str) -> Self {
        self.java_options_of.insert(task_manager, options.to_owned());
        self
    }

    /// JVM options of every JobManager.
    pub fn job_manager_java_options(mut self, options: &str) -> Self {
        self.job_manager_java_options = options.to_owned();
        self
    }

    /// One more setting of Flink's, in every process.
    pub fn setting(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// One more setting of Flink's, in the TaskManagers only.
    pub fn task_manager_setting(mut self, key: &str, value: &str) -> Self {
        self.task_manager_settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Before the start this command, with a Flink home as its last argument, is run for each process of Flink.
    pub fn installer(mut self, words: &[&str]) -> Self {
        self.installer = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Kubernetes keeps the leaders, and every process of Flink runs as in a pod.
    ///
    /// # Errors
    /// Where a file for Flink cannot be written.
    pub fn kubernetes(mut self, kubernetes: &Kubernetes) -> Result<Self> {
        self.high_availability = HighAvailability::Kubernetes;
        self.wrapper = kubernetes.pod();
        Ok(self.setting("kubernetes.config.file", &kubernetes.kubeconfig()?.display().to_string()))
    }

    /// Words to put before the command of one TaskManager, such as `unshare --mount`.
    pub fn wrapper_of(mut self, task_manager: usize, words: &[&str]) -> Self {
        self.wrapper_of.insert(task_manager, words.iter().map(|word| (*word).to_owned()).collect());
        self
    }

    /// Runs all processes as this user instead of the present one; needs to be root.
    pub fn user(mut self, user: u32) -> Self {
        self.user = Some(user);
        self
    }

    /// Removes the cluster's folder, too, if this process is killed.
    pub fn remove_when_killed(mut self) -> Self {
        self.remove_when_killed = true;
        self
    }

    /// Starts ZooKeeper, one JobManager and the TaskManagers, and returns when the TaskManagers are registered.
    ///
    /// # Errors
    /// Where a process does not start; the folder is kept then, and its path printed.
    pub fn start(self) -> Result<Cluster> {
        let mut cluster = Cluster::prepare(self)?;
        if let Some(zookeeper) = &mut cluster.zookeeper {
            zookeeper.start()?;
        }
        cluster.job_managers[0].start()?;
        // Two at a time: more of them starting at once on two cores run into Flink's own time limits.
        for started in 1..=cluster.task_managers.len() {
            cluster.task_managers[started - 1].start()?;
            let expected = if started == cluster.task_managers.len() { started } else { started - 1 };
            wait::until("the TaskManagers to register", START_LIMIT, || {
                cluster.check_all_run()?;
                // No TaskManager is expected until the second starts, and REST need not answer until then.
                Ok((expected == 0 || cluster.rest()?.task_managers()? >= expected as u64).then_some(()))
            })?;
        }
        Ok(cluster)
    }
}

/// One process of the cluster, with its own configuration and log folder. It can be stopped and started again.
pub struct Server {
    /// `jobmanager-1`, ...
    pub name: String,
    /// Folder of everything that is this process's own: `conf`, `log`, `pids`, `console.txt`.
    pub folder: PathBuf,
    /// Port of the REST interface, of a JobManager.
    pub rest_port: u16,
    /// Port of the remote procedure calls, of a JobManager; of its clients, of ZooKeeper.
    pub rpc_port: u16,
    environment: Vec<(String, PathBuf)>,
    command: Vec<String>,
    wrapper: Vec<String>,
    user: Option<u32>,
    guard: Arc<Guard>,
    process: Option<Process>,
}

impl Server {
    /// Starts it in the foreground: by `start-foreground`, where it is one of Flink's.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(&mut self) -> Result<()> {
        let command = self.command("start-foreground")?;
        self.process = Some(Process::start(&self.name, command, &self.guard)?);
        Ok(())
    }

    /// Starts it as a daemon, by the script's `start`.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start_daemon(&mut self) -> Result<()> {
        let command = self.command("start")?;
        let pids = self.folder.join("pids");
        self.process = Some(Process::start_daemon(&self.name, command, &self.guard, || daemon_pid(&pids))?);
        Ok(())
    }

    /// Stops the daemon by the script's `stop`; returns how long that took.
    ///
    /// # Errors
    /// Where the script fails or the process is there after it.
    pub fn stop_daemon(&mut self) -> Result<Duration> {
        let begin = Instant::now();
        let status = self.command("stop")?.status()?;
        let took = begin.elapsed();
        let mut process = self.process.take().with_context(|| format!("{} does not run", self.name))?;
        if !status.success() || process.ended()?.is_none() {
            bail!("{}: stop ended with {status} after {took:?}, and the process still runs", self.name);
        }
        Ok(took)
    }

    /// `kill -9`.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().with_context(|| format!("{} does not run", self.name))?.kill()
    }

    /// SIGTERM; returns how long it took to go.
    ///
    /// # Errors
    /// Where it does not run or does not go within `limit`.
    pub fn terminate(&mut self, limit: Duration) -> Result<Duration> {
        self.process.take().with_context(|| format!("{} does not run", self.name))?.terminate(limit)
    }

    /// SIGSTOP.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn freeze(&self) -> Result<()> {
        self.running()?.signal(Signal::STOP)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn thaw(&self) -> Result<()> {
        self.running()?.signal(Signal::CONT)
    }

    /// The process id.
    ///
    /// # Errors
    /// Where it does not run.
    pub fn pid(&self) -> Result<i32> {
        Ok(self.running()?.pid())
    }

    /// Whether it runs (a frozen process does).
    pub fn runs(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| matches!(process.ended(), Ok(None)))
    }

    /// Whether it was started and nobody stopped it since, though it may have ended by itself.
    pub fn started(&self) -> bool {
        self.process.is_some()
    }

    /// Flink's log of this process, rotated files too, oldest first.
    pub fn log(&self) -> String {
        let mut files: Vec<(std::time::SystemTime, PathBuf)> = files_in(&self.folder.join("log"))
            .into_iter()
            .filter(|path| file_name(path).contains(".log"))
            .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
            .collect();
        files.sort();
        files
            .iter()
            .filter_map(|(_, path)| fs::read(path).ok())
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .collect()
    }

    /// What it wrote to standard output and error: the job's lines and the agent's words.
    pub fn console(&self) -> String {
        let mut texts = vec![self.folder.join("console.txt")];
        // A daemon's goes to a file beside its log.
        texts.extend(files_in(&self.folder.join("log")).into_iter().filter(|path| file_name(path).contains(".out")));
        texts
            .iter()
            .filter_map(|path| fs::read(path).ok())
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .collect()
    }

    /// What is on the console beside Flink's own log lines, which go there, too: the JVM's, the agent's and the job's words.
    pub fn words(&self) -> String {
        self.console().split_inclusive('\n').filter(|line| !line.starts_with("20")).collect()
    }

    /// The records of the alert log beside Flink's log, rotated files too.
    ///
    /// # Errors
    /// Where a line is no record.
    pub fn alert_log(&self) -> Result<Vec<Record>> {
        alert_log::read_folder(&self.folder.join("log"))
    }

    /// Waits until the log holds `text`.
    ///
    /// # Errors
    /// Where it does not within the limit of a start.
    pub fn wait_for_log(&self, text: &str) -> Result<()> {
        let what = format!("`{text}` in the log of {}", self.name);
        wait::until(&what, START_LIMIT, || Ok(self.log().contains(text).then_some(())))
    }

    fn running(&self) -> Result<&Process> {
        self.process.as_ref().with_context(|| format!("{} does not run", self.name))
    }

    fn command(&self, verb: &str) -> Result<Command> {
        let console = File::options().create(true).append(true).open(self.folder.join("console.txt"))?;
        let mut words = self.wrapper.clone();
        if let Some(user) = self.user.map(|user| user.to_string()) {
            words.extend(["setpriv", "--clear-groups", "--reuid", &user, "--regid", &user].map(str::to_owned));
        }
        words.extend(self.command.iter().map(|word| if word == VERB { verb.to_owned() } else { word.clone() }));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(&self.folder).stdin(Stdio::null());
        command.stdout(console.try_clone()?).stderr(console);
        // What the caller's shell says about Java and Flink must not reach the cluster.
        for name in [
            "JAVA_TOOL_OPTIONS",
            "JDK_JAVA_OPTIONS",
            "JVM_ARGS",
            "FLINK_ENV_JAVA_OPTS",
            "FLINK_ENV_JAVA_OPTS_TM",
            "HADOOP_CLASSPATH",
            "HADOOP_CONF_DIR",
        ] {
            command.env_remove(name);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }
}

/// Stands for the script's verb in a server's command.
const VERB: &str = "{verb}";

/// A running cluster. All of its processes are killed when it goes; its folder is removed by [`Cluster::finish`] only.
pub struct Cluster {
    /// Flink and Java.
    pub installation: Installation,
    /// The ZooKeeper server, where it keeps the leaders.
    pub zookeeper: Option<Server>,
    /// The JobManagers; all but the first are standbys that are started one by one.
    pub job_managers: Vec<Server>,
    /// The TaskManagers.
    pub task_managers: Vec<Server>,
    /// Folder of everything.
    pub folder: PathBuf,
    // Taken by finish; kept on disk otherwise.
    temporary: Option<TempDir>,
}

impl Cluster {
    /// A cluster of this Flink.
    pub fn builder(installation: &Installation) -> Builder {
        Builder {
            installation: installation.clone(),
            job_managers: 2,
            task_managers: 1,
            high_availability: HighAvailability::ZooKeeper,
            timeouts: Timeouts::Short,
            cluster_id: "orders".to_owned(),
            java_options: String::new(),
            java_options_of: BTreeMap::new(),
            job_manager_java_options: String::new(),
            settings: Vec::new(),
            task_manager_settings: Vec::new(),
            zookeeper_port: ports::free(),
            user: None,
            installer: Vec::new(),
            wrapper: Vec::new(),
            wrapper_of: BTreeMap::new(),
            remove_when_killed: false,
        }
    }

    /// The cluster is done with and its folder is of no more use.
    pub fn finish(mut self) {
        self.zookeeper = None;
        self.job_managers.clear();
        self.task_managers.clear();
        self.temporary = None;
    }

    /// Starts one more JobManager, which becomes a standby, and returns when it takes part in the election.
    ///
    /// # Errors
    /// Where it does not start.
    pub fn start_standby(&mut self, index: usize) -> Result<()> {
        let server = &mut self.job_managers[index];
        // Log lines of an earlier run of the same process do not count.
        let seen = server.log().matches(ELECTION_STARTED).count();
        server.start()?;
        wait::until(&format!("{} to stand for election", server.name), START_LIMIT, || {
            Ok((server.log().matches(ELECTION_STARTED).count() > seen).then_some(()))
        })?;
        let rest = Rest::new(server.rest_port);
        wait::until(&format!("{} to answer", server.name), START_LIMIT, || rest.jobs().map(Some))?;
        Ok(())
    }

    /// Runs the tests' job, which lets one number pass every `pause_ms`; returns its id when all of its tasks run.
    ///
    /// # Errors
    /// Where it is refused or does not come to run.
    pub fn submit(&mut self, name: &str, pause_ms: u32) -> Result<String> {
        let jar = source_root().join("tests/java/job.jar");
        let jar = fs::read(&jar).with_context(|| format!("{}", jar.display()))?;
        let rest = self.rest()?;
        let named = || -> Result<Vec<String>> {
            Ok(rest.jobs()?.into_iter().filter(|job| job.name == name).map(|job| job.id).collect())
        };
        // The Dispatcher may not be the leader yet when REST answers.
        let before = wait::until("REST to list the jobs", START_LIMIT, || named().map(Some))?;
        let id = wait::until("the job to be taken", START_LIMIT, || {
            // One that was taken though the answer was lost.
            if let Some(taken) = named()?.into_iter().find(|id| !before.contains(id)) {
                return Ok(Some(taken));
            }
            rest.run(&jar, &[name, &pause_ms.to_string()]).map(Some)
        })?;
        self.wait_for_job(&id, START_LIMIT)?;
        Ok(id)
    }

    /// Waits until all tasks of the job run.
    ///
    /// # Errors
    /// Where they do not within `limit`.
    pub fn wait_for_job(&mut self, id: &str, limit: Duration) -> Result<()> {
        wait::until(&format!("job {id} to run"), limit, || {
            let jobs = self.jobs()?;
            Ok(jobs.iter().any(|job| job.id == id && job.state == "RUNNING" && job.all_tasks_run).then_some(()))
        })
    }

    /// All jobs that the leader knows.
    ///
    /// # Errors
    /// Where no JobManager answers.
    pub fn jobs(&mut self) -> Result<Vec<Job>> {
        self.rest()?.jobs()
    }

    /// Cancels a job and waits until it is.
    ///
    /// # Errors
    /// Where it is not canceled.
    pub fn cancel(&mut self, id: &str) -> Result<()> {
        self.rest()?.cancel(id)?;
        wait::until(&format!("job {id} to be canceled"), START_LIMIT, || {
            Ok(self.jobs()?.iter().any(|job| job.id == id && job.state == "CANCELED").then_some(()))
        })
    }

    /// The REST endpoint of a JobManager that runs.
    ///
    /// # Errors
    /// Where none does.
    pub fn rest(&mut self) -> Result<Rest> {
        let port = self.job_managers.iter_mut().find_map(|server| server.runs().then_some(server.rest_port));
        Ok(Rest::new(port.ok_or_else(|| anyhow!("no JobManager runs"))?))
    }

    /// Which JobManager leads, as the first TaskManager's log tells: by the port of its ResourceManager.
    ///
    /// # Errors
    /// Where that log names none.
    pub fn leader(&self) -> Result<usize> {
        let log = self.task_managers[0].log();
        let seen = oracle::resource_managers(&log);
        let (_, address) = seen.last().ok_or_else(|| anyhow!("the TaskManager's log names no ResourceManager"))?;
        let index = self.job_managers.iter().position(|server| address.contains(&format!(":{}/", server.rpc_port)));
        index.ok_or_else(|| anyhow!("{address} is none of the JobManagers"))
    }

    /// The last lines of every process's log and console, for a person who looks for what went wrong.
    pub fn tails(&self) -> String {
        let servers = self.zookeeper.iter().chain(&self.job_managers).chain(&self.task_managers);
        servers
            .map(|server| {
                let records: String =
                    server.alert_log().unwrap_or_default().iter().map(|record| format!("{record}\n")).collect();
                let log = server.log();
                // Checkpoints, once a second, would be all that is seen.
                let log: String = log.split_inclusive('\n').filter(|line| !line.contains("heckpoint ")).collect();
                [("log", log), ("console", server.words()), ("alert log", records)]
                    .map(|(what, text)| tail(&server.name, what, &text))
                    .concat()
            })
            .collect()
    }

    fn check_all_run(&mut self) -> Result<()> {
        let servers = self.zookeeper.iter_mut().chain(&mut self.job_managers).chain(&mut self.task_managers);
        for server in servers.filter(|server| server.process.is_some()) {
            if !server.runs() {
                bail!("{} ended by itself: {}", server.name, tail(&server.name, "console", &server.words()));
            }
        }
        Ok(())
    }

    fn prepare(builder: Builder) -> Result<Self> {
        let temporary = TempDir::with_prefix("leaderwatch-flink-")?;
        let folder = temporary.path().canonicalize()?;
        for name in ["upload", "tmp", "checkpoints", "high-availability"] {
            fs::create_dir(folder.join(name))?;
        }
        let guard = Guard::new(&folder, builder.remove_when_killed.then_some(folder.as_path()))?;
        let shared = Shared {
            installation: &builder.installation,
            folder: &folder,
            high_availability: builder.high_availability,
            timeouts: builder.timeouts,
            zookeeper_port: builder.zookeeper_port,
            cluster_id: &builder.cluster_id,
            more: &builder.settings,
        };
        let make = Maker { shared: &shared, wrapper: &builder.wrapper, user: builder.user, guard: &guard };
        let zookeeper =
            (builder.high_availability == HighAvailability::ZooKeeper).then(|| make.zookeeper()).transpose()?;
        let job_managers = (0..builder.job_managers)
            .map(|index| make.job_manager(index, &builder.job_manager_java_options))
            .collect::<Result<Vec<_>>>()?;
        let rpc_port = job_managers[0].rpc_port;
        let task_managers = (0..builder.task_managers)
            .map(|index| {
                let options = builder.java_options_of.get(&index).unwrap_or(&builder.java_options);
                let mut server = make.task_manager(index, rpc_port, options, &builder.task_manager_settings)?;
                server.wrapper = builder.wrapper_of.get(&index).unwrap_or(&builder.wrapper).clone();
                Ok(server)
            })
            .collect::<Result<Vec<_>>>()?;
        if !builder.installer.is_empty() {
            for server in job_managers.iter().chain(&task_managers) {
                install(&builder.installer, &builder.installation, &server.folder)?;
            }
        }
        if let Some(user) = builder.user {
            hand_over(&folder, user)?;
        }
        let installation = builder.installation.clone();
        Ok(Self { installation, zookeeper, job_managers, task_managers, folder, temporary: Some(temporary) })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let Some(temporary) = self.temporary.take() else { return };
        eprintln!("{}\nthe cluster's folder is kept: {}", self.tails(), temporary.keep().display());
    }
}

/// What both kinds of JobManager log when they stand for election: 1.14 as `ZooKeeperLeaderElectionDriver`, 1.15 on as
/// `ZooKeeperMultipleComponentLeaderElectionDriver`, 1.18 on again by the first name; with Kubernetes the same words.
const ELECTION_STARTED: &str = "LeaderElectionDriver";

struct Maker<'a> {
    shared: &'a Shared<'a>,
    wrapper: &'a [String],
    user: Option<u32>,
    guard: &'a Arc<Guard>,
}

impl Maker<'_> {
    fn zookeeper(&self) -> Result<Server> {
        let folder = self.shared.folder.join("zookeeper");
        fs::create_dir_all(folder.join("log"))?;
        let session_max_ms = 60_000;
        // The server caps a session at 20 ticks unless told otherwise, and sees an expired one at a tick's end.
        let tick_ms = if self.shared.timeouts == Timeouts::Short { 100 } else { 500 };
        let file = folder.join("zoo.cfg");
        let lines = format!(
            "tickTime={tick_ms}\nmaxSessionTimeout={session_max_ms}\nclientPort={}\nclientPortAddress=127.0.0.1\n\
             dataDir={}\nadmin.enableServer=false\n",
            self.shared.zookeeper_port,
            folder.join("data").display()
        );
        fs::write(&file, lines)?;
        let conf = folder.join("conf");
        settings::write(self.shared.installation, &BTreeMap::new(), &conf)?;
        let mut server = self.server("zookeeper", folder.clone(), Vec::new());
        server.rpc_port = self.shared.zookeeper_port;
        server.command = vec![
            self.shared.installation.java_home.join("bin/java").display().to_string(),
            "-Xmx64m".to_owned(),
            "-XX:+UseSerialGC".to_owned(),
            "-XX:TieredStopAtLevel=1".to_owned(),
            "-Dzookeeper.jmx.log4j.disable=true".to_owned(),
            format!("-Dlog.file={}", folder.join("log/zookeeper.log").display()),
            format!("-Dlog4j.configurationFile=file:{}", conf.join("log4j.properties").display()),
            "-cp".to_owned(),
            self.shared.installation.class_path()?,
            "org.apache.flink.shaded.zookeeper3.org.apache.zookeeper.server.ZooKeeperServerMain".to_owned(),
            file.display().to_string(),
        ];
        Ok(server)
    }

    fn job_manager(&self, index: usize, java_options: &str) -> Result<Server> {
        let name = format!("jobmanager-{}", index + 1);
        let (rest_port, rpc_port) = (ports::free(), ports::free());
        let settings = settings::job_manager(self.shared, rest_port, rpc_port, &self.with_needs(java_options)?);
        let mut server = self.flink(&name, "jobmanager.sh", &settings)?;
        (server.rest_port, server.rpc_port) = (rest_port, rpc_port);
        server.wrapper = self.wrapper.to_vec();
        Ok(server)
    }

    fn task_manager(
        &self,
        index: usize,
        rpc_port: u16,
        java_options: &str,
        more: &[(String, String)],
    ) -> Result<Server> {
        let name = format!("taskmanager-{}", index + 1);
        let mut settings = settings::task_manager(self.shared, rpc_port, &self.with_needs(java_options)?);
        settings.extend(more.iter().cloned());
        self.flink(&name, "taskmanager.sh", &settings)
    }

    fn with_needs(&self, java_options: &str) -> Result<String> {
        Ok(format!("{java_options} {}", self.shared.installation.java_needs()?).trim().to_owned())
    }

    fn flink(&self, name: &str, script: &str, settings: &BTreeMap<String, String>) -> Result<Server> {
        let folder = self.shared.folder.join(name);
        fs::create_dir_all(folder.join("log"))?;
        settings::write(self.shared.installation, settings, &folder.join("conf"))?;
        let script = self.shared.installation.flink_home.join("bin").join(script).display().to_string();
        Ok(self.server(name, folder, vec![script, VERB.to_owned()]))
    }

    fn server(&self, name: &str, folder: PathBuf, command: Vec<String>) -> Server {
        let installation = self.shared.installation;
        let environment = vec![
            ("JAVA_HOME".to_owned(), installation.java_home.clone()),
            ("FLINK_HOME".to_owned(), installation.flink_home.clone()),
            ("FLINK_CONF_DIR".to_owned(), folder.join("conf")),
            ("FLINK_LOG_DIR".to_owned(), folder.join("log")),
            ("FLINK_PID_DIR".to_owned(), folder.join("pids")),
            // Flink keeps the logs of ten starts; a test reads those of all.
            ("MAX_LOG_FILE_NUMBER".to_owned(), PathBuf::from("1000")),
        ];
        let (user, guard) = (self.user, Arc::clone(self.guard));
        Server {
            name: name.to_owned(),
            folder,
            rest_port: 0,
            rpc_port: 0,
            environment,
            command,
            wrapper: Vec::new(),
            user,
            guard,
            process: None,
        }
    }
}

/// Runs an installer on what a process of Flink sees as its home: jars and scripts of all, a configuration of its own.
fn install(words: &[String], installation: &Installation, folder: &Path) -> Result<()> {
    let home = folder.join("home");
    fs::create_dir(&home)?;
    for name in ["bin", "lib"] {
        std::os::unix::fs::symlink(installation.flink_home.join(name), home.join(name))?;
    }
    std::os::unix::fs::symlink(folder.join("conf"), home.join("conf"))?;
    let output = Command::new(&words[0]).args(&words[1..]).arg(&home).output()?;
    if !output.status.success() {
        bail!("{words:?} {}: {}", home.display(), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn daemon_pid(folder: &Path) -> Result<i32> {
    let files = files_in(folder);
    let file = files.iter().find(|path| file_name(path).ends_with(".pid"));
    let file = file.ok_or_else(|| anyhow!("no pid file in {}", folder.display()))?;
    let text = fs::read_to_string(file)?;
    text.lines().last().unwrap_or_default().trim().parse().with_context(|| format!("{}: `{text}`", file.display()))
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn hand_over(path: &Path, user: u32) -> Result<()> {
    std::os::unix::fs::chown(path, Some(user), Some(user)).with_context(|| format!("{}", path.display()))?;
    if path.is_dir() {
        for child in files_in(path) {
            hand_over(&child, user)?;
        }
    }
    Ok(())
}

fn tail(name: &str, what: &str, text: &str) -> String {
    const LINES: usize = 12;
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    if last.is_empty() { String::new() } else { format!("--- {name}, end of its {what} ---\n{}\n", last.join("\n")) }
}
