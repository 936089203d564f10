//! Flink's configuration for one process of a small cluster on loopback.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::installation::Installation;
use crate::kubernetes::NAMESPACE;

/// Who keeps the leaders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HighAvailability {
    /// Flink's own ZooKeeper.
    ZooKeeper,
    /// ConfigMaps of the Kubernetes API.
    Kubernetes,
    /// Nobody: one leader for good.
    None,
}

/// How soon a dead process is missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeouts {
    /// Flink's defaults: ZooKeeper session 60 s, heartbeat 50 s.
    Default,
    /// ZooKeeper session 2 s, heartbeat 5 s.
    Short,
    /// ZooKeeper session 15 s, heartbeat 30 s: nobody is missed for being slow on a machine with other work.
    Moderate,
}

impl Timeouts {
    /// (lease, time to renew it, pause between two tries) of Kubernetes in milliseconds; none where Flink's own hold, which
    /// are 15, 15 and 5 s.
    fn of_kubernetes_in_ms(self) -> Option<(u32, u32, u32)> {
        (self == Timeouts::Short).then_some((3000, 2000, 500))
    }

    /// (ZooKeeper session, heartbeat interval, heartbeat timeout) in milliseconds; none where Flink's own hold.
    fn in_ms(self) -> Option<(u32, u32, u32)> {
        match self {
            Timeouts::Default => None,
            Timeouts::Short => Some((2000, 1000, 5000)),
            Timeouts::Moderate => Some((15_000, 5000, 30_000)),
        }
    }
}

/// What all processes of a cluster share.
#[derive(Debug, Clone)]
pub struct Shared<'a> {
    /// Flink and Java.
    pub installation: &'a Installation,
    /// Folder of the cluster; storage, uploads and scratch files go below it.
    pub folder: &'a Path,
    /// Who keeps the leaders.
    pub high_availability: HighAvailability,
    /// How soon a dead process is missed.
    pub timeouts: Timeouts,
    /// Port of the ZooKeeper server.
    pub zookeeper_port: u16,
    /// `high-availability.cluster-id`.
    pub cluster_id: &'a str,
    /// More settings, which win.
    pub more: &'a [(String, String)],
}

/// Small enough for two cores beside other work: class-data sharing stays on, one collector thread, C1 only.
const SMALL_JVM: &str = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1";

/// The settings of a JobManager that serves REST and RPC on the given ports. `java_options` go to its JVM.
pub fn job_manager(shared: &Shared, rest_port: u16, rpc_port: u16, java_options: &str) -> BTreeMap<String, String> {
    let mut settings = common(shared);
    let rpc_key = match shared.high_availability {
        HighAvailability::ZooKeeper => "high-availability.jobmanager.port",
        HighAvailability::Kubernetes | HighAvailability::None => "jobmanager.rpc.port",
    };
    set(
        &mut settings,
        &[
            ("rest.port", &rest_port.to_string()),
            ("rest.bind-port", &rest_port.to_string()),
            (rpc_key, &rpc_port.to_string()),
            ("env.java.opts.jobmanager", &java_options_of(shared, java_options)),
        ],
    );
    with_more(settings, shared)
}

/// The settings of a TaskManager. `java_options` go to its JVM; `rpc_port` is the JobManager's where nobody keeps leaders.
pub fn task_manager(shared: &Shared, rpc_port: u16, java_options: &str) -> BTreeMap<String, String> {
    let mut settings = common(shared);
    set(
        &mut settings,
        &[
            ("jobmanager.rpc.port", &rpc_port.to_string()),
            ("env.java.opts.taskmanager", &java_options_of(shared, java_options)),
        ],
    );
    with_more(settings, shared)
}

/// The options of a JVM. Where all classes are to be verified, or are rewritten by another agent, none comes from an archive.
fn java_options_of(shared: &Shared, own: &str) -> String {
    let is_plain = !own.contains("-Xverify") && !own.contains("-javaagent");
    let archive = shared.installation.class_archive.as_ref().filter(|_| is_plain);
    let archive = archive.map(|file| format!("-XX:SharedArchiveFile={} ", file.display())).unwrap_or_default();
    format!("{SMALL_JVM} {archive}{own}").trim().to_owned()
}

/// Writes the configuration folder of one process: Flink's own, with our settings and with the log lines that
/// [`crate::oracle`] reads.
///
/// # Errors
/// Where a file cannot be read or written.
pub fn write(installation: &Installation, settings: &BTreeMap<String, String>, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    let shipped = installation.flink_home.join("conf");
    for file in fs::read_dir(&shipped).with_context(|| format!("{}", shipped.display()))?.flatten() {
        fs::copy(file.path(), folder.join(file.file_name()))?;
    }
    for file in ["log4j.properties", "log4j-console.properties"] {
        let path = folder.join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        fs::write(&path, text + LEADER_LINES)?;
    }
    let file = folder.join(file_name(installation));
    let text: String = settings.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
    fs::write(&file, text).with_context(|| format!("{}", file.display()))
}

const LEADER_LINES: &str = "
logger.leader1.name = org.apache.flink.runtime.taskexecutor.DefaultJobLeaderService
logger.leader1.level = DEBUG
logger.leader2.name = org.apache.flink.runtime.taskexecutor.JobLeaderService
logger.leader2.level = DEBUG
";

fn file_name(installation: &Installation) -> &'static str {
    if installation.line() >= (2, 0) { "config.yaml" } else { "flink-conf.yaml" }
}

fn common(shared: &Shared) -> BTreeMap<String, String> {
    let version = shared.installation.line();
    let below = |name: &str| shared.folder.join(name).display().to_string();
    let mut settings = BTreeMap::new();
    set(
        &mut settings,
        &[
            ("jobmanager.rpc.address", "127.0.0.1"),
            ("jobmanager.bind-host", "127.0.0.1"),
            ("jobmanager.memory.heap.size", "192m"),
            ("jobmanager.memory.off-heap.size", "64m"),
            ("jobmanager.memory.jvm-metaspace.size", "128m"),
            ("jobmanager.memory.jvm-overhead.min", "64m"),
            ("jobmanager.memory.jvm-overhead.max", "64m"),
            ("rest.address", "127.0.0.1"),
            ("rest.bind-address", "127.0.0.1"),
            ("taskmanager.host", "127.0.0.1"),
            ("taskmanager.bind-host", "127.0.0.1"),
            ("taskmanager.numberOfTaskSlots", "2"),
            ("taskmanager.memory.framework.heap.size", "64m"),
            ("taskmanager.memory.task.heap.size", "64m"),
            ("taskmanager.memory.framework.off-heap.size", "64m"),
            ("taskmanager.memory.task.off-heap.size", "16m"),
            ("taskmanager.memory.managed.size", "16m"),
            ("taskmanager.memory.network.min", "16m"),
            ("taskmanager.memory.network.max", "16m"),
            ("taskmanager.memory.jvm-metaspace.size", "128m"),
            ("taskmanager.memory.jvm-overhead.min", "64m"),
            ("taskmanager.memory.jvm-overhead.max", "64m"),
            // Flink's default of 3 s makes the job states that REST tells 3 s old.
            ("web.refresh-interval", "200"),
            // Shared, so that a jar uploaded through one JobManager is found by the other.
            ("web.upload.dir", &below("upload")),
            ("io.tmp.dirs", &below("tmp")),
            ("parallelism.default", "1"),
        ],
    );
    let url = |name: &str| format!("file://{}", below(name));
    let (checkpoints, restarts) = match version {
        (2.., _) => ("execution.checkpointing.dir", "restart-strategy.type"),
        _ => ("state.checkpoints.dir", "restart-strategy"),
    };
    set(
        &mut settings,
        &[
            (checkpoints, &url("checkpoints")),
            (restarts, "fixed-delay"),
            ("restart-strategy.fixed-delay.attempts", "100000"),
            ("restart-strategy.fixed-delay.delay", "500 ms"),
        ],
    );
    if let Some(options) = shipped_java_options(shared.installation) {
        settings.insert("env.java.opts.all".to_owned(), options);
    }
    if shared.high_availability == HighAvailability::ZooKeeper {
        let key = if version >= (1, 17) { "high-availability.type" } else { "high-availability" };
        set(
            &mut settings,
            &[
                (key, "zookeeper"),
                ("high-availability.zookeeper.quorum", &format!("127.0.0.1:{}", shared.zookeeper_port)),
                ("high-availability.storageDir", &url("high-availability")),
                ("high-availability.cluster-id", shared.cluster_id),
                ("zookeeper.sasl.disable", "true"),
            ],
        );
    }
    // Flink 1.x takes bare milliseconds only where 2.x wants a unit.
    let ms = |count: u32| if version >= (2, 0) { format!("{count}ms") } else { count.to_string() };
    if shared.high_availability == HighAvailability::Kubernetes {
        let (key, value) = match version {
            (2.., _) | (1, 17..) => ("high-availability.type", "kubernetes"),
            _ => ("high-availability", "org.apache.flink.kubernetes.highavailability.KubernetesHaServicesFactory"),
        };
        set(
            &mut settings,
            &[
                (key, value),
                ("high-availability.storageDir", &url("high-availability")),
                ("kubernetes.cluster-id", shared.cluster_id),
                ("kubernetes.namespace", NAMESPACE),
            ],
        );
        if let Some((lease, renew, retry)) = shared.timeouts.of_kubernetes_in_ms() {
            let key = |name: &str| format!("high-availability.kubernetes.leader-election.{name}");
            for (name, count) in [("lease-duration", lease), ("renew-deadline", renew), ("retry-period", retry)] {
                settings.insert(key(name), format!("{count} ms"));
            }
        }
    }
    if let Some((session, heartbeat, heartbeat_timeout)) = shared.timeouts.in_ms() {
        let client = |key: &str| format!("high-availability.zookeeper.client.{key}");
        set(
            &mut settings,
            &[
                (&client("session-timeout"), &ms(session)),
                (&client("connection-timeout"), &ms(session)),
                (&client("retry-wait"), &ms(500)),
                // With the default of 3 a ZooKeeper outage of a few seconds ends Flink's processes.
                (&client("max-retry-attempts"), "1000"),
                ("heartbeat.interval", &ms(heartbeat)),
                ("heartbeat.timeout", &ms(heartbeat_timeout)),
            ],
        );
    }
    settings
}

/// From 1.18 on the shipped configuration opens Java's modules; what replaces it must say the same. Flink 1.19 and 1.20
/// ship another file than the one that is written here.
fn shipped_java_options(installation: &Installation) -> Option<String> {
    let conf = installation.flink_home.join("conf");
    let texts = ["flink-conf.yaml", "config.yaml"].map(|name| fs::read_to_string(conf.join(name)).unwrap_or_default());
    let mut lines = texts.iter().flat_map(|text| text.lines()).map(str::trim);
    let line = lines.find(|line| !line.starts_with('#') && line.contains(": --add-"))?;
    Some(line.split_once(": ")?.1.to_owned())
}

fn set(settings: &mut BTreeMap<String, String>, more: &[(&str, &str)]) {
    settings.extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
}

fn with_more(mut settings: BTreeMap<String, String>, shared: &Shared) -> BTreeMap<String, String> {
    settings.extend(shared.more.iter().cloned());
    settings
}
