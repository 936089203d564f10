//! Is this cluster ready to fail over? Judged from Flink's own configuration.
//!
//! Measured figures are of Flink 1.14.6 and 2.3.0 on one machine; the defaults are those of `HighAvailabilityOptions`,
//! `HeartbeatManagerOptions` and `KubernetesHighAvailabilityOptions` of Flink 2.3.0.

use std::path::Path;
use std::time::Duration;

use super::duration::format_duration;
use super::flink::{FlinkConf, HighAvailability};
use super::flink_version::major;
use super::keys;
use super::nearest::nearest;
use super::options::{first_unsafe, parse as parse_options};
use super::problem::{Fault, Weight};
use super::{AlertSettings, Environment};

/// Keys of Flink and what holds where they are not given.
const SESSION_TIMEOUT: (&str, Duration) =
    ("high-availability.zookeeper.client.session-timeout", Duration::from_secs(60));
const RETRY_WAIT: (&str, Duration) = ("high-availability.zookeeper.client.retry-wait", Duration::from_secs(5));
/// From 2.0.1, 2.1.1 and 2.2.0 on (FLINK-38499); before, nothing caps the wait.
const MAX_RETRY_WAIT: (&str, Duration) = ("high-availability.zookeeper.client.max-retry-wait", Duration::from_secs(60));
const MAX_RETRIES: (&str, u32) = ("high-availability.zookeeper.client.max-retry-attempts", 3);
const LEASE_DURATION: (&str, Duration) =
    ("high-availability.kubernetes.leader-election.lease-duration", Duration::from_secs(15));
const RENEW_DEADLINE: (&str, Duration) =
    ("high-availability.kubernetes.leader-election.renew-deadline", Duration::from_secs(15));
const RETRY_PERIOD: (&str, Duration) =
    ("high-availability.kubernetes.leader-election.retry-period", Duration::from_secs(5));
/// Values of `high-availability.type`.
const KINDS: [&str; 3] = ["NONE", "zookeeper", "kubernetes"];
const HEARTBEAT_TIMEOUT: (&str, Duration) = ("heartbeat.timeout", Duration::from_secs(50));

/// What an election itself takes once the old leader is given up; measured 0.35 s to 0.5 s.
const ELECTION: Duration = Duration::from_secs(1);
/// What an alert may take to be sent: one attempt within the default `timeout` of a target.
const SENDING: Duration = Duration::from_secs(10);
/// Most retries that Curator makes, whatever is asked for (`ExponentialBackoffRetry.MAX_RETRIES_LIMIT`).
const MOST_RETRIES: u32 = 29;
/// Name of the library in a JVM option.
const LIBRARY: &str = "libleaderwatch";

/// Something that is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub weight: Weight,
    /// Flink's key.
    pub key: String,
    /// What is wrong, and why that matters.
    pub reason: String,
    /// What to do about it.
    pub cure: String,
}

/// The judgement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readiness {
    /// What is known: a name and a value, for people.
    pub figures: Vec<(String, String)>,
    /// What is not ready.
    pub findings: Vec<Finding>,
}

/// What the judgement goes by, beside Flink's configuration.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    /// Flink's version, where known.
    pub version: Option<&'a str>,
    /// JobManagers in the file `masters`, where there is one.
    pub masters: Option<usize>,
    /// When the agent alerts.
    pub alert: &'a AlertSettings,
}

/// Judges a configuration. `env` serves to check the agent's own options, as far as that can be done elsewhere.
pub fn assess(conf: &FlinkConf, circumstances: Circumstances<'_>, env: &dyn Environment) -> Readiness {
    let mut judge = Judge { conf, circumstances, readiness: Readiness::default() };
    judge.availability();
    judge.agent_option(env);
    judge.readiness
}

struct Judge<'a> {
    conf: &'a FlinkConf,
    circumstances: Circumstances<'a>,
    readiness: Readiness,
}

impl Judge<'_> {
    fn availability(&mut self) {
        match self.conf.high_availability() {
            HighAvailability::None => self.no_availability(),
            HighAvailability::ZooKeeper => self.zookeeper(),
            HighAvailability::Kubernetes => self.kubernetes(),
            HighAvailability::Other(class) if !class.contains('.') => {
                let near = nearest(&class, KINDS.iter().copied()).map(|name| format!("did you mean `{name}`? "));
                let cure = format!(
                    "{}allowed: {}, or the name of a factory class",
                    near.unwrap_or_default(),
                    KINDS.join(", ")
                );
                self.error(
                    self.availability_key(),
                    &format!("`{class}` is none that Flink knows: it does not start"),
                    &cure,
                );
            }
            HighAvailability::Other(class) => {
                self.figure("High availability", &format!("{class}: nothing is known of its times"));
                self.storage();
            }
        }
        let heartbeat = self.duration(HEARTBEAT_TIMEOUT);
        self.figure(
            "A TaskManager gives up a dead JobManager after",
            &format!("{} ({})", format_duration(heartbeat), HEARTBEAT_TIMEOUT.0),
        );
    }

    fn no_availability(&mut self) {
        self.figure("High availability", "none");
        self.figure("Worst time to a new leader", "for ever: there is one leader for good");
        let kubernetes = match self.circumstances.version.and_then(major) {
            Some(0..2) => "org.apache.flink.kubernetes.highavailability.KubernetesHaServicesFactory",
            _ => "kubernetes",
        };
        self.error(
            self.availability_key(),
            "no high availability: a JobManager that dies takes all jobs with it, and no other one ever leads. There is \
             no failover to alert on",
            &format!("set it to `zookeeper` or `{kubernetes}`, and set `high-availability.storageDir`"),
        );
    }

    fn zookeeper(&mut self) {
        self.figure("High availability", "ZooKeeper");
        if self.conf.zookeeper_quorum().is_none_or(|quorum| quorum.trim().is_empty()) {
            self.error(
                "high-availability.zookeeper.quorum",
                "no server of ZooKeeper is named: Flink does not start",
                "name them: `zk1:2181,zk2:2181,zk3:2181`",
            );
        }
        let session = self.duration(SESSION_TIMEOUT);
        self.times(
            session + ELECTION,
            &format!(
                "{} + the election; ZooKeeper's server may cap it at 20 x tickTime, 40s by default",
                SESSION_TIMEOUT.0
            ),
        );
        self.storage();
        self.cluster_id();
        self.standby_by_masters();
        self.loss_of_zookeeper();
    }

    fn kubernetes(&mut self) {
        self.figure("High availability", "Kubernetes");
        let (lease, renew, retry) =
            (self.duration(LEASE_DURATION), self.duration(RENEW_DEADLINE), self.duration(RETRY_PERIOD));
        self.times(lease + retry + ELECTION, &format!("{} + {} + the election", LEASE_DURATION.0, RETRY_PERIOD.0));
        if renew > lease {
            self.error(
                RENEW_DEADLINE.0,
                "longer than the lease: a leader may go on leading after another one took over",
                &format!("make it at most {} ({})", format_duration(lease), LEASE_DURATION.0),
            );
        }
        if retry >= renew {
            self.error(
                RETRY_PERIOD.0,
                "not shorter than the deadline to renew: a leader gives up after its first failure",
                &format!("make it a third of {} ({})", format_duration(renew), RENEW_DEADLINE.0),
            );
        }
        if self.conf.get("kubernetes.cluster-id").is_none() && self.conf.get("high-availability.cluster-id").is_none() {
            self.error("kubernetes.cluster-id", "no cluster id: Flink's leader records have no name", "set it");
        }
        self.storage();
        let replicas = self.conf.get("kubernetes.jobmanager.replicas").and_then(|text| text.trim().parse::<u32>().ok());
        if replicas.unwrap_or(1) < 2 {
            self.warn(
                "kubernetes.jobmanager.replicas",
                "no standby JobManager: there is no new leader before Kubernetes started a new pod, and that time comes \
                 on top of the worst time above",
                "set it to 2 (with Flink Kubernetes Operator: `spec.jobManager.replicas`)",
            );
        }
    }

    fn times(&mut self, to_leader: Duration, how: &str) {
        self.figure("Worst time to a new leader", &format!("{} ({how})", format_duration(to_leader)));
        let wait = self.circumstances.alert.group_wait;
        self.figure(
            "Worst time to the alert",
            &format!("{} + sending (group_wait {} on top)", format_duration(to_leader + wait), format_duration(wait)),
        );
    }

    fn storage(&mut self) {
        const KEY: &str = "high-availability.storageDir";
        match self.conf.storage_dir() {
            None => self.error(
                KEY,
                "missing: a new leader cannot find the jobs of the old one; Flink does not start",
                "name a folder that all JobManagers reach: `s3://...`, `hdfs://...`",
            ),
            Some(folder) if folder.starts_with('/') || folder.starts_with("file:") => self.warn(
                KEY,
                "a local path: a JobManager on another machine finds no jobs, unless it is a shared mount",
                "make sure that it is shared by all JobManagers, or name `s3://...` or `hdfs://...`",
            ),
            Some(_) => {}
        }
    }

    fn cluster_id(&mut self) {
        if self.conf.cluster_id().is_none() {
            self.warn(
                "high-availability.cluster-id",
                "not set: every cluster without one is `/default` in the same ZooKeeper, and two of them disturb each \
                 other (YARN and native Kubernetes set it themselves)",
                "give each cluster its own, such as `/orders-prod`",
            );
        }
    }

    fn standby_by_masters(&mut self) {
        if let Some(count @ 0..2) = self.circumstances.masters {
            self.warn(
                "masters",
                &format!("the file `masters` names {count} JobManager: no standby takes over, unless others are started by hand"),
                "name two or more, each as `host:web-port`",
            );
        }
    }

    /// What happens when ZooKeeper goes away. From 2.x on a TaskManager whose client gives up ends itself: measured on
    /// 2.3.0 after 5.5 s with retries of 500 ms and after 50 s to 52 s with the defaults; on 1.14.6 the JobManagers end.
    fn loss_of_zookeeper(&mut self) {
        let wait = self.duration(RETRY_WAIT);
        let attempts = self.number(MAX_RETRIES);
        let cap = self.duration(MAX_RETRY_WAIT);
        let (who, cap) = match self.circumstances.version.and_then(major) {
            Some(0..2) => ("JobManagers", Duration::MAX),
            _ => ("TaskManagers", cap),
        };
        let (typical, longest) = (typical_retries(wait, cap, attempts), longest_retries(wait, cap, attempts));
        self.figure(
            "Without ZooKeeper the client gives up after",
            &format!("{} typically, {} at most; {who} end then", rounded(typical), rounded(longest)),
        );
        let alert = self.circumstances.alert;
        let needed = alert.no_leader_after + alert.group_wait + SENDING;
        if typical >= 2 * needed {
            return;
        }
        let reason = format!(
            "when ZooKeeper is away, {who} end {} later typically, {} at most. The alert `no_leader` needs {} \
             (no_leader_after {}, sending): it may have to go out while the process ends",
            rounded(typical),
            rounded(longest),
            rounded(needed),
            format_duration(alert.no_leader_after),
        );
        // Who ends on 1.x is not who alerts.
        let weight = if who == "TaskManagers" { Weight::Error } else { Weight::Warning };
        self.find(
            weight,
            MAX_RETRIES.0,
            &reason,
            "set it to 10 or more, so that Flink outlives an outage of ZooKeeper",
        );
    }

    fn agent_option(&mut self, env: &dyn Environment) {
        let mut reaches_task_managers = false;
        let mut is_there = false;
        let conf = self.conf;
        for (key, value) in conf.iter().filter(|(key, _)| key.starts_with("env.java.")) {
            for option in agent_options(value) {
                is_there = true;
                reaches_task_managers |= self.agent_key(key);
                self.agent_arguments(key, option, env);
            }
        }
        if !is_there {
            self.warn(
                "env.java.opts.taskmanager",
                "the agent is not in this configuration; it may still be in FLINK_ENV_JAVA_OPTS_TM or a pod template",
                "add `-agentpath:/path/libleaderwatch.so=config=/path/leaderwatch.toml`",
            );
        } else if !reaches_task_managers {
            self.error(
                "env.java.opts.taskmanager",
                "the agent is on no key that reaches a TaskManager, where leaders are announced",
                "put the same option there",
            );
        }
    }

    /// Judges the key that the agent's option stands on; answers whether it reaches TaskManagers.
    fn agent_key(&mut self, key: &str) -> bool {
        match key {
            "env.java.opts.taskmanager" => true,
            "env.java.opts.jobmanager" => false,
            "env.java.opts" | "env.java.opts.all" => {
                self.warn(
                    key,
                    "the agent is loaded into every JVM that Flink's scripts start, `bin/flink` too, where it does nothing",
                    "put it on `env.java.opts.taskmanager` and `env.java.opts.jobmanager`",
                );
                true
            }
            "env.java.default-opts.all" | "env.java.default-opts.taskmanager" | "env.java.default-opts.jobmanager" => {
                self.warn(
                    key,
                    "this key replaces options that Flink needs on Java 17 by default",
                    "put the agent on `env.java.opts.taskmanager` and `env.java.opts.jobmanager`",
                );
                key != "env.java.default-opts.jobmanager"
            }
            _ => {
                self.error(
                    key,
                    "the agent does nothing in the JVMs that this key is for",
                    "put it on `env.java.opts.taskmanager` and `env.java.opts.jobmanager`",
                );
                false
            }
        }
    }

    /// Judges what stands behind `-agentpath:`.
    fn agent_arguments(&mut self, key: &str, option: &str, env: &dyn Environment) {
        let (path, arguments) = option.split_once('=').unwrap_or((option, ""));
        if let Some((character, harm)) = first_unsafe(path) {
            let reason = format!("the character `{character}` in the library's path {harm} in some start scripts");
            self.error(key, &reason, "use letters, digits and : / . _ - + @ only");
        }
        let (options, problems) = parse_options(arguments, env);
        let named = [(Some(Path::new(path)), "the JVM does not start"), (options.config.as_deref(), "nobody is told")];
        for (file, harm) in named.into_iter().filter_map(|(file, harm)| Some((file?, harm))) {
            if env.mode(file).is_none() {
                let reason = format!("`{}` is not on this machine; where it is missing, {harm}", file.display());
                self.warn(key, &reason, "see that it is there on each machine or in the image");
            }
        }
        for problem in problems {
            // Files and variables are those of the machine that Flink runs on.
            if matches!(
                problem.fault,
                Fault::SecretUnavailable(_) | Fault::WorldReadable { .. } | Fault::Unreadable { .. }
            ) {
                continue;
            }
            let reason = format!("the agent's option `{}`: {}", problem.key, problem.fault.reason());
            self.find(problem.weight, key, &reason, &problem.fault.cure());
        }
    }

    fn availability_key(&self) -> &'static str {
        match self.circumstances.version.and_then(major) {
            Some(0..2) => "high-availability",
            _ => "high-availability.type",
        }
    }

    fn duration(&mut self, (key, default): (&'static str, Duration)) -> Duration {
        let Some(text) = self.conf.get(key).map(str::to_owned) else { return default };
        parse_flink_duration(&text).unwrap_or_else(|| {
            self.not_readable(key, &text, "a number with `ms`, `s`, `min` or `h`");
            default
        })
    }

    fn number(&mut self, (key, default): (&'static str, u32)) -> u32 {
        let Some(text) = self.conf.get(key).map(str::to_owned) else { return default };
        text.trim().parse().unwrap_or_else(|_| {
            self.not_readable(key, &text, "a whole number");
            default
        })
    }

    fn not_readable(&mut self, key: &str, text: &str, wanted: &str) {
        // Asked for twice, told once.
        if !self.readiness.findings.iter().any(|finding| finding.key == key) {
            self.error(
                key,
                &format!("`{text}` cannot be read, so that Flink does not start"),
                &format!("write {wanted}"),
            );
        }
    }

    fn figure(&mut self, name: &str, value: &str) {
        self.readiness.figures.push((name.to_owned(), value.to_owned()));
    }

    fn error(&mut self, key: &str, reason: &str, cure: &str) {
        self.find(Weight::Error, key, reason, cure);
    }

    fn warn(&mut self, key: &str, reason: &str, cure: &str) {
        self.find(Weight::Warning, key, reason, cure);
    }

    fn find(&mut self, weight: Weight, key: &str, reason: &str, cure: &str) {
        let finding = Finding { weight, key: key.to_owned(), reason: reason.to_owned(), cure: cure.to_owned() };
        self.readiness.findings.push(finding);
    }
}

/// Our agent's options among the options of a JVM: what stands behind `-agentpath:`.
fn agent_options(jvm_options: &str) -> impl Iterator<Item = &str> {
    let unquoted = jvm_options.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    unquoted.filter_map(|word| word.strip_prefix("-agentpath:")).filter(|option| option.contains(LIBRARY))
}

/// The longest time that Curator's exponential back-off takes over all its attempts: before attempt k (from 0) it
/// sleeps `wait` times a random whole number from 1 to 2^(k+1) - 1, at most `cap`.
fn longest_retries(wait: Duration, cap: Duration, attempts: u32) -> Duration {
    sum_of_sleeps(attempts, |bound| (wait.as_secs_f64() * (bound - 1.0)).min(cap.as_secs_f64()))
}

/// The same on average. The number is `max(1, random(n))` for n = 2^(k+1), every value from 0 to n - 1 equally likely.
fn typical_retries(wait: Duration, cap: Duration, attempts: u32) -> Duration {
    let (wait, cap) = (wait.as_secs_f64(), cap.as_secs_f64());
    sum_of_sleeps(attempts, |bound| {
        // Values up to `uncapped` are not capped: they sum up to 1 (for the 0) + 1 + 2 + ... + uncapped.
        let uncapped = (cap / wait.max(f64::MIN_POSITIVE)).floor().min(bound - 1.0);
        let sum_uncapped = wait.min(cap) + wait * uncapped * (uncapped + 1.0) / 2.0;
        (sum_uncapped + cap.min(f64::MAX) * (bound - 1.0 - uncapped)) / bound
    })
}

/// The sum over all attempts of a sleep in seconds, made from 2^(k+1).
fn sum_of_sleeps(attempts: u32, sleep: impl Fn(f64) -> f64) -> Duration {
    let seconds: f64 = (1..=attempts.min(MOST_RETRIES)).map(|k| sleep(f64::from(k).exp2())).sum();
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// A duration for people, without false precision.
fn rounded(duration: Duration) -> String {
    match duration.as_secs() {
        0..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..300 => format!("{}s", duration.as_secs()),
        300..7200 => format!("{} min", duration.as_secs() / 60),
        7200..172_800 => format!("{} h", duration.as_secs() / 3600),
        _ => "more than two days".to_owned(),
    }
}

/// A duration as Flink writes it (`TimeUtils.parseDuration`): a whole number and a unit, milliseconds where none is
/// given.
fn parse_flink_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let scaled = |factor: u64| number.checked_mul(factor);
    match unit.trim().to_ascii_lowercase().as_str() {
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => Some(Duration::from_millis(number)),
        "s" | "sec" | "secs" | "second" | "seconds" => Some(Duration::from_secs(number)),
        "m" | "min" | "minute" | "minutes" => scaled(60).map(Duration::from_secs),
        "h" | "hour" | "hours" => scaled(3600).map(Duration::from_secs),
        "d" | "day" | "days" => scaled(86_400).map(Duration::from_secs),
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => Some(Duration::from_nanos(number)),
        "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => Some(Duration::from_micros(number)),
        _ => None,
    }
}

/// The agent's own defaults, for a judgement without its file.
pub fn default_alert_settings(env: &dyn Environment) -> AlertSettings {
    let mail = super::MailDefaults::default();
    super::parse_file("", std::path::Path::new(keys::CONFIG.name), &mail, env).0.alert
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::environment::FakeEnvironment;
    use super::super::yaml::{parse_legacy, parse_standard};
    use super::*;

    /// What Flink 1.14.6 ships, without its comments.
    const SHIPPED_1_14: &str = "\
jobmanager.rpc.address: localhost
jobmanager.rpc.port: 6123
jobmanager.memory.process.size: 1600m
taskmanager.memory.process.size: 1728m
taskmanager.numberOfTaskSlots: 1
parallelism.default: 1
jobmanager.execution.failover-strategy: region
";
    /// What Flink 2.3.0 ships, without its comments and with its list of JVM options cut.
    const SHIPPED_2_3: &str = "\
env:
  java:
    opts:
      all: --add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED --add-opens=java.base/java.lang=ALL-UNNAMED
jobmanager:
  bind-host: localhost
  rpc:
    address: localhost
    port: 6123
  memory:
    process:
      size: 1600m
  execution:
    failover-strategy: region
taskmanager:
  bind-host: localhost
  host: localhost
  numberOfTaskSlots: 1
parallelism:
  default: 1
rest:
  address: localhost
";
    const AGENT: &str = "env.java.opts.taskmanager: -agentpath:/lw/libleaderwatch.so=config=/lw.toml\n";

    fn told(conf: FlinkConf, version: &str, masters: Option<usize>) -> String {
        let env = FakeEnvironment::default().with_file("/lw/libleaderwatch.so", "").with_file("/lw.toml", "");
        told_on(&env, conf, version, masters)
    }

    fn told_on(env: &FakeEnvironment, conf: FlinkConf, version: &str, masters: Option<usize>) -> String {
        let alert = default_alert_settings(env);
        let circumstances = Circumstances { version: Some(version), masters, alert: &alert };
        let readiness = assess(&conf, circumstances, env);
        let figures = readiness.figures.iter().map(|(name, value)| format!("{name}: {value}"));
        let findings = readiness.findings.iter().map(|f| format!("{:?} {}: {}; {}", f.weight, f.key, f.reason, f.cure));
        figures.chain(findings).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_kind_of_high_availability_that_flink_does_not_know_is_told() {
        let told = |kind: &str| {
            told(FlinkConf::of_values(parse_legacy(&format!("{AGENT}high-availability: {kind}\n"))), "1.14.6", None)
        };
        assert!(told("zookeper").contains("did you mean `zookeeper`?"), "{}", told("zookeper"));
        assert!(told("org.example.Factory").contains("nothing is known of its times"));
    }

    /// A JVM does not start where the library that its options name is missing.
    #[test]
    fn files_of_the_agent_that_are_missing_are_told() {
        let conf = FlinkConf::of_values(parse_legacy(AGENT));
        let told = told_on(&FakeEnvironment::default(), conf, "1.14.6", None);
        for words in [
            "`/lw/libleaderwatch.so` is not on this machine; where it is missing, the JVM does not start",
            "`/lw.toml` is not on this machine; where it is missing, nobody is told",
        ] {
            assert!(told.contains(words), "{told}");
        }
    }

    fn flat(text: &str) -> FlinkConf {
        FlinkConf::of_values(parse_standard(text))
    }

    #[test]
    fn what_flink_ships_is_not_ready() {
        insta::assert_snapshot!(
            "shipped_1_14_6",
            told(FlinkConf::of_values(parse_legacy(SHIPPED_1_14)), "1.14.6", Some(1))
        );
        insta::assert_snapshot!("shipped_2_3_0", told(flat(SHIPPED_2_3), "2.3.0", Some(1)));
    }

    /// The settings under which a TaskManager of 2.3.0 was seen to end 50 s to 52 s after ZooKeeper went away.
    #[test]
    fn zookeeper_with_default_retries_ends_task_managers() {
        let conf = format!(
            "{AGENT}high-availability.type: zookeeper\nhigh-availability.zookeeper.quorum: zk:2181\n\
             high-availability.storageDir: s3://b/ha\nhigh-availability.cluster-id: /orders\n"
        );
        insta::assert_snapshot!("zookeeper_defaults", told(flat(&conf), "2.3.0", Some(2)));
        let more = format!("{conf}high-availability.zookeeper.client.max-retry-attempts: 1000\n");
        assert!(!told(flat(&more), "2.3.0", Some(2)).contains("Error"));
    }

    #[test]
    fn kubernetes_needs_a_standby_and_a_lease_that_holds() {
        let conf = format!(
            "{AGENT}high-availability.type: kubernetes\nkubernetes.cluster-id: orders\n\
             high-availability.storageDir: /ha\nhigh-availability.kubernetes.leader-election:\n  \
             lease-duration: 3 s\n  renew-deadline: 5 s\n  retry-period: 5000\n"
        );
        insta::assert_snapshot!("kubernetes", told(flat(&conf), "2.3.0", None));
    }

    #[test]
    fn the_agent_on_a_wrong_key_is_told() {
        let on = |key: &str, arguments: &str| {
            let told =
                told(flat(&format!("{key}: -Xmx1g -agentpath:/lw/libleaderwatch.so{arguments}\n")), "2.3.0", None);
            told.lines().filter(|line| line.contains("env.java")).collect::<Vec<_>>().join("\n")
        };
        let cases = [
            ("env.java.opts.taskmanager", "=config=/lw.toml"),
            ("env.java.opts.jobmanager", "=config=/lw.toml"),
            ("env.java.opts.all", ""),
            ("env.java.default-opts.taskmanager", ""),
            ("env.java.opts.client", ""),
            ("env.java.opts.taskmanager", "=confg=/lw.toml"),
            ("env.java.opts.taskmanager", "=cluster=a;b"),
        ];
        let told: Vec<String> =
            cases.iter().map(|(key, arguments)| format!("{key} {arguments}\n{}\n", on(key, arguments))).collect();
        insta::assert_snapshot!("agent_keys", told.join("\n"));
    }

    /// Curator's bounds against what was measured: 5.5 s with 500 ms and 3 attempts.
    #[test]
    fn retries_add_up_as_curator_does() {
        let (half, five, cap) = (Duration::from_millis(500), Duration::from_secs(5), Duration::from_secs(60));
        assert_eq!(longest_retries(half, cap, 3), Duration::from_millis(5500));
        assert_eq!(longest_retries(five, cap, 3), Duration::from_secs(55));
        // 5 s, 8.75 s and 18.125 s on average.
        assert_eq!(typical_retries(five, cap, 3), Duration::from_millis(31_875));
        assert_eq!(typical_retries(five, Duration::MAX, 3), Duration::from_millis(31_875));
        // Capped at 10 s: 5 s, then (5 + 5 + 10 + 10) / 4, then (5 + 5 + 6 x 10) / 8.
        assert_eq!(typical_retries(five, Duration::from_secs(10), 3), Duration::from_millis(21_250));
        assert_eq!(longest_retries(five, Duration::from_secs(10), 3), Duration::from_secs(25));
        assert_eq!(longest_retries(five, cap, 0), Duration::ZERO);
        assert_eq!(rounded(longest_retries(five, Duration::MAX, 1000)), "more than two days");
        assert_eq!(rounded(typical_retries(Duration::MAX, Duration::MAX, 1000)), "more than two days");
        assert_eq!(typical_retries(Duration::ZERO, cap, 3), Duration::ZERO);
    }

    #[test]
    fn flinks_durations_have_units_or_are_milliseconds() {
        let milliseconds = |text| parse_flink_duration(text).map(|duration| duration.as_millis());
        assert_eq!(milliseconds("60000"), Some(60_000));
        assert_eq!(milliseconds("3000ms"), Some(3_000));
        assert_eq!(milliseconds("15 s"), Some(15_000));
        assert_eq!(milliseconds("1 min"), Some(60_000));
        assert_eq!(milliseconds("PT5S"), None);
        assert_eq!(milliseconds(""), None);
    }

    #[test]
    fn a_value_that_flink_cannot_read_is_told_once() {
        let conf = "high-availability.type: zookeeper\nhigh-availability.zookeeper.client.session-timeout: soon\n";
        let told = told(flat(conf), "2.3.0", None);
        assert_eq!(told.matches("`soon` cannot be read").count(), 1, "{told}");
    }
}
