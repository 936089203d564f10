//! What the agent is to do: its options, the configuration file, secrets, and what Flink's own configuration tells.
//!
//! [`load`] makes [`Settings`] of all of it. Nothing in here fails as a whole: what is not sound is a [`Problem`], and
//! everything else takes effect.

mod check;
mod duration;
mod environment;
mod example;
mod file;
mod flink;
pub mod flink_edit;
mod flink_version;
pub mod keys;
mod mounts;
mod nearest;
mod options;
mod problem;
mod reader;
mod readiness;
mod salvage;
mod schema;
mod secret;
mod strict_yaml;
mod target;
mod value;
mod watch;
mod yaml;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;

pub use check::{Hindrance, Report, check_file, check_flink_conf};
pub use duration::{DurationError, format_duration, parse_duration};
#[cfg(test)]
pub(crate) use environment::FakeEnvironment;
pub use environment::{Environment, SystemEnvironment, cure_of_reading, read_regular_file};
pub use example::example;
pub use file::{AlertSettings, ClaimSettings, FileSettings, Language, MailDefaults, parse as parse_file};
pub use flink::{FlinkConf, HighAvailability, pod_namespace};
pub use flink_version::{flink_version, major};
pub use options::{Options, behind_agentpath, first_unsafe, parse as parse_options};
pub use problem::{Effect, Fault, Place, Problem, Weight};
pub use reader::EffectiveTable;
pub use readiness::{Circumstances, Finding, Readiness, assess, default_alert_settings};
pub use schema::schema;
pub use secret::{MASK, Secret, SecretError, SecretSource};
pub use strict_yaml::{YamlFault, first_fault};
pub use target::{
    AlertmanagerConfig, ClientCertificate, ConnectionConfig, DingTalkConfig, EmailConfig, FeishuConfig,
    HeartbeatConfig, KindSettings, KubernetesEventConfig, Login, PagerDutyConfig, TargetSettings, TelegramConfig,
    UrlConfig, WebhookConfig, WebhookFormat,
};
pub(crate) use value::host_and_port;
pub use value::{ClaimStore, SmtpSecurity, SmtpServer};
pub use watch::{Change, Watch};

use crate::alert::OwnTexts;
use crate::process::{JvmFacts, Observer, Role};

/// Name of the cluster where nothing names it.
const DEFAULT_CLUSTER: &str = "default";
/// Names of the targets that the options make.
const WEBHOOK_TARGET: &str = "webhook";
const EMAIL_TARGET: &str = "email";

/// All that the agent goes by, defaults included.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Name of the Flink cluster in alerts and ids.
    pub cluster: String,
    /// Kubernetes namespace, where there is one.
    pub namespace: Option<String>,
    /// Labels of the user.
    pub labels: BTreeMap<String, String>,
    /// Language of alerts for people.
    pub language: Language,
    /// Time zone of alerts for people.
    pub time_zone: TimeZone,
    /// The alert log; none: records go to standard error.
    pub log: Option<PathBuf>,
    /// Folder of the outbox, that of this user, namespace and cluster; none: nothing is kept on disk.
    pub state: Option<PathBuf>,
    /// File for the textfile collector of Prometheus.
    pub metrics_file: Option<PathBuf>,
    /// When to alert.
    pub alert: AlertSettings,
    /// Who sends for the cluster.
    pub claim: ClaimSettings,
    /// The user's own words.
    pub texts: OwnTexts,
    /// Who receives, in the order of the configuration.
    pub targets: Vec<TargetSettings>,
    /// What Flink's own configuration tells.
    pub flink: FlinkConf,
    /// What this process is, for alerts.
    pub observer: Observer,
    /// The configuration file, whether it could be read or not.
    pub config_file: Option<PathBuf>,
    /// Files that the configuration names and whose content matters: secrets, certificates.
    pub named_files: Vec<PathBuf>,
}

/// Reads options, file and Flink's own configuration. Never fails, never panics, uses no network; may block for as long
/// as the file system does.
pub fn load(facts: &JvmFacts, role: Role, options: &str, env: &dyn Environment) -> (Settings, Vec<Problem>) {
    let (options, problems) = options::parse(options, env);
    load_parsed(facts, role, options, problems, env)
}

/// As [`load`] outside a JVM, with this file whatever the options name: its path may hold what options may not.
pub fn load_file(path: &Path, options: &str, env: &dyn Environment) -> (Settings, Vec<Problem>) {
    let (mut options, problems) = options::parse(options, env);
    options.config = Some(path.to_owned());
    load_parsed(&JvmFacts::default(), Role::TaskManager, options, problems, env)
}

fn load_parsed(
    facts: &JvmFacts,
    role: Role,
    options: Options,
    mut problems: Vec<Problem>,
    env: &dyn Environment,
) -> (Settings, Vec<Problem>) {
    let mail = MailDefaults { smtp: options.smtp.clone(), from: sender(&options, env) };
    let file = read_file(&options, &mail, env, &mut problems);
    let (flink, flink_problems) = FlinkConf::discover(facts, env);
    problems.extend(flink_problems);
    (settle(facts, role, options, file, flink, env, &mut problems), problems)
}

fn read_file(
    options: &Options,
    mail: &MailDefaults,
    env: &dyn Environment,
    problems: &mut Vec<Problem>,
) -> FileSettings {
    let read = options.config.as_deref().map(|path| (path, env.read(path)));
    let (path, text) = match read {
        None => (Path::new(""), String::new()),
        Some((path, Ok(text))) => (path, text),
        Some((path, Err(error))) => {
            problems.push(Problem {
                place: Place::Options,
                key: keys::CONFIG.name.to_owned(),
                fault: Fault::unreadable(path, &error),
                effect: Effect::FileIgnored,
                weight: Weight::Error,
            });
            (path, String::new())
        }
    };
    let (file, found) = file::parse(&text, path, mail, env);
    problems.extend(found);
    file
}

/// Puts together what each source says: the options win over the file, the file over Flink's configuration.
fn settle(
    facts: &JvmFacts,
    role: Role,
    options: Options,
    file: FileSettings,
    flink: FlinkConf,
    env: &dyn Environment,
    problems: &mut Vec<Problem>,
) -> Settings {
    let (targets, _) = targets(&options, &file, env, problems);
    let mut named_files = file.named_files;
    if let Some(SecretSource::File(path)) = options.webhook {
        named_files.push(path);
    }
    let cluster = options.cluster.or(file.cluster).or_else(|| flink.cluster_id());
    let cluster = cluster.unwrap_or_else(|| DEFAULT_CLUSTER.to_owned());
    let namespace = options.namespace.or(file.namespace).or_else(|| pod_namespace(env));
    let log = options.log.or(file.log).or_else(|| default_log(facts));
    let state = options.state.or(file.state).or_else(|| Some(log.as_ref()?.parent()?.join("leaderwatch")));
    let state = state.map(|folder| folder.join(state_folder_name(env.user_id(), namespace.as_deref(), &cluster)));
    let mut alert = file.alert;
    alert.group_wait = options.group_wait.unwrap_or(alert.group_wait);
    Settings {
        cluster,
        namespace,
        labels: file.labels,
        language: file.language,
        time_zone: file.time_zone,
        log,
        state,
        metrics_file: file.metrics_file,
        alert,
        claim: file.claim,
        texts: file.texts,
        targets,
        flink,
        observer: observer(facts, role, env),
        config_file: options.config,
        named_files,
    }
}

/// The targets of the options, then those of the file, with fallbacks that hold; and where each stands.
fn targets(
    options: &Options,
    file: &FileSettings,
    env: &dyn Environment,
    problems: &mut Vec<Problem>,
) -> (Vec<TargetSettings>, Vec<Place>) {
    let mut targets = Vec::new();
    let mut places = Vec::new();
    for target in option_targets(options, file, env) {
        targets.push(target);
        places.push(Place::Options);
    }
    let made_by_options: Vec<String> = targets.iter().map(|target| target.name.clone()).collect();
    for (target, place) in file.targets.iter().zip(&file.places) {
        if made_by_options.contains(&target.name) {
            problems.push(Problem {
                place: place.clone(),
                key: format!("target.{}", target.name),
                fault: Fault::ReplacedByOptions,
                effect: Effect::TargetDisabled(target.name.clone()),
                weight: Weight::Error,
            });
            continue;
        }
        targets.push(target.clone());
        places.push(place.clone());
    }
    file::check_routes(&mut targets, &places, &file.alert.classes, problems);
    (targets, places)
}

fn option_targets(options: &Options, file: &FileSettings, env: &dyn Environment) -> Vec<TargetSettings> {
    let target = |name: &str, kind: KindSettings| TargetSettings {
        name: name.to_owned(),
        classes: file.alert.classes.clone(),
        fallback: None,
        connection: ConnectionConfig {
            proxy: None,
            ca_file: None,
            client_certificate: None,
            server_name: None,
            timeout: default_timeout(),
        },
        kind,
    };
    let webhook = options.webhook.clone().map(|url| {
        let webhook = WebhookConfig {
            url,
            secrets: Vec::new(),
            token: None,
            login: None,
            headers: Vec::new(),
            format: WebhookFormat::Plain,
        };
        target(WEBHOOK_TARGET, KindSettings::Webhook(webhook))
    });
    let email = options.email.clone().map(|to| {
        let smtp = options.smtp.clone().unwrap_or_else(default_smtp);
        let email = EmailConfig { smtp, from: sender(options, env), to, login: None };
        target(EMAIL_TARGET, KindSettings::Email(email))
    });
    webhook.into_iter().chain(email).collect()
}

fn default_timeout() -> std::time::Duration {
    let text = keys::TIMEOUT.default.unwrap_or_default();
    parse_duration(text).expect("the default of `timeout` is a duration, which a test holds")
}

fn default_smtp() -> SmtpServer {
    value::smtp(keys::SMTP.default.unwrap_or_default()).expect("the default of `smtp` is one, which a test holds")
}

/// The sender of mails: as the options say, else `leaderwatch@` and the host name.
fn sender(options: &Options, env: &dyn Environment) -> String {
    let by_host = || value::address(&format!("leaderwatch@{}", env.hostname())).ok();
    // A host name need not be one that mail allows.
    options.email_from.clone().or_else(by_host).unwrap_or_else(|| "leaderwatch@localhost".to_owned())
}

/// The alert log where none is named: beside Flink's own log, so that Flink's web UI lists it; else among temporary
/// files, under a name that processes do not share.
fn default_log(facts: &JvmFacts) -> Option<PathBuf> {
    if let Some(log_file) = facts.log_file.as_deref().filter(|file| !file.is_empty()) {
        let stem = log_file.strip_suffix(".log").unwrap_or(log_file);
        return Some(PathBuf::from(format!("{stem}.leaderwatch.jsonl")));
    }
    let folder = facts.tmpdir.as_deref().filter(|folder| !folder.is_empty())?;
    Some(Path::new(folder).join(format!("flink-{}.leaderwatch.jsonl", std::process::id())))
}

/// Name of the folder of one user, namespace and cluster: `1000.flink.orders-prod`. Distinct for distinct ones, whatever
/// characters their names hold.
fn state_folder_name(user_id: Option<u32>, namespace: Option<&str>, cluster: &str) -> String {
    let user = user_id.map_or_else(|| "user".to_owned(), |id| id.to_string());
    format!("{user}.{}.{}", safe_name(namespace.unwrap_or("")), safe_name(cluster))
}

/// A name that is safe as a part of a path. Where that changes it, a checksum of the name keeps it apart from others.
pub(crate) fn safe_name(name: &str) -> String {
    /// Longest part taken over, in characters: with checksum and user well below the 255 bytes of file systems.
    const LONGEST: usize = 64;
    let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let safe: String = name.chars().take(LONGEST).map(|c| if is_safe(c) { c } else { '_' }).collect();
    if safe == name { safe } else { format!("{safe}~{:08x}", crc32fast::hash(name.as_bytes())) }
}

fn observer(facts: &JvmFacts, role: Role, env: &dyn Environment) -> Observer {
    let host = env.hostname();
    // A pod's host name is its own name, unless it has `hostname` or `hostNetwork` set; POD_NAME is what the downward
    // API is customarily given as.
    let in_pod = env.var("KUBERNETES_SERVICE_HOST").is_some();
    let pod = env.var("POD_NAME").or_else(|| in_pod.then(|| env.var("HOSTNAME").unwrap_or_else(|| host.clone())));
    let flink_version = facts.class_path.as_deref().and_then(flink_version);
    Observer { host, pid: std::process::id(), pod, role, flink_version }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::environment::FakeEnvironment;
    use super::*;

    fn facts() -> JvmFacts {
        JvmFacts {
            command: "org.apache.flink.runtime.taskexecutor.TaskManagerRunner --configDir /conf".to_owned(),
            class_path: Some("/opt/flink/lib/flink-dist-2.3.0.jar".to_owned()),
            log_file: Some("/var/log/flink/flink-tm-0.log".to_owned()),
            tmpdir: Some("/tmp".to_owned()),
            ..JvmFacts::default()
        }
    }

    fn loaded(options: &str, env: &FakeEnvironment) -> (Settings, Vec<String>) {
        let (settings, problems) = load(&facts(), Role::TaskManager, options, env);
        (settings, problems.iter().map(Problem::to_string).collect())
    }

    #[test]
    fn nothing_given_means_the_defaults_of_the_contract() {
        let (settings, problems) = loaded("", &FakeEnvironment::default());
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(settings.cluster, "default");
        assert_eq!(settings.namespace, None);
        assert_eq!(settings.log, Some(PathBuf::from("/var/log/flink/flink-tm-0.leaderwatch.jsonl")));
        assert_eq!(settings.state, Some(PathBuf::from("/var/log/flink/leaderwatch/1000..default")));
        assert_eq!(format_duration(settings.alert.group_wait), "2s");
        assert_eq!(format_duration(settings.alert.group_interval), "5m");
        assert_eq!(format_duration(settings.alert.no_leader_after), "30s");
        assert_eq!(format_duration(settings.alert.resolve_after), "15m");
        assert_eq!(format_duration(settings.alert.remember_for), "10m");
        assert_eq!(format_duration(settings.alert.max_age), "1h");
        assert_eq!(format_duration(settings.claim.lease), "30s");
        assert_eq!(settings.claim.store, ClaimStore::Auto);
        assert_eq!(settings.language, Language::English);
        assert_eq!(settings.targets, []);
        assert_eq!(settings.observer.flink_version.as_deref(), Some("2.3.0"));
        assert_eq!(settings.observer.host, "tm-1");
    }

    #[test]
    fn without_a_log_of_flink_the_temporary_folder_serves_and_without_one_nothing() {
        let mut facts = facts();
        facts.log_file = None;
        let env = FakeEnvironment::default();
        let (settings, _) = load(&facts, Role::TaskManager, "", &env);
        assert_eq!(settings.log.unwrap().parent(), Some(Path::new("/tmp")));
        assert_eq!(settings.state, Some(PathBuf::from("/tmp/leaderwatch/1000..default")));
        facts.tmpdir = None;
        let (settings, _) = load(&facts, Role::TaskManager, "", &env);
        assert_eq!((settings.log, settings.state), (None, None));
    }

    #[test]
    fn options_win_over_the_file_and_the_file_over_flink() {
        let file = "cluster = 'of-file'\nnamespace = 'of-file'\n[alert]\ngroup_wait = '7s'\nmax_age = '2h'\n";
        let env = FakeEnvironment::default()
            .with_file("/conf/config.yaml", "kubernetes.cluster-id: of-flink\n")
            .with_file("/lw.toml", file);
        assert_eq!(loaded("", &env).0.cluster, "of-flink");
        let (settings, problems) = loaded("config=/lw.toml,namespace=of-options,group_wait=0s", &env);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(settings.cluster, "of-file");
        assert_eq!(settings.namespace.as_deref(), Some("of-options"));
        assert_eq!(format_duration(settings.alert.group_wait), "0s");
        assert_eq!(format_duration(settings.alert.max_age), "2h");
        assert_eq!(settings.state, Some(PathBuf::from("/var/log/flink/leaderwatch/1000.of-options.of-file")));
    }

    #[test]
    fn options_make_targets_that_win_over_those_of_the_file() {
        let file = "[[target]]\nkind = 'webhook'\nurl = 'http://file/'\n\
                    [[target]]\nkind = 'email'\nname = 'mail'\nto = 'a@x.org'\n";
        let env = FakeEnvironment::default().with_file("/lw.toml", file);
        let (settings, problems) =
            loaded("config=/lw.toml,webhook=http://options/,email=b@x.org,smtp=smtps://mail", &env);
        let names: Vec<&str> = settings.targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["webhook", "email", "mail"]);
        assert!(problems[0].contains("the options make a target of the same name"), "{problems:?}");
        let KindSettings::Email(mail) = &settings.targets[2].kind else { panic!("an email target") };
        assert_eq!(mail.smtp.to_string(), "smtps://mail:465");
        assert_eq!(mail.from, "leaderwatch@tm-1");
    }

    #[test]
    fn a_missing_file_is_a_problem_and_all_else_works_on() {
        let (settings, problems) = loaded("config=/missing.toml,webhook=http://h/", &FakeEnvironment::default());
        let expected = "options: `config`: `/missing.toml` cannot be read: No such file or directory; \
                        check the path and that Flink's user may read it; the file is ignored";
        assert_eq!(problems, [expected]);
        assert_eq!(settings.targets.len(), 1);
    }

    #[test]
    fn state_folders_are_safe_and_distinct() {
        let name = |namespace, cluster| state_folder_name(Some(7), namespace, cluster);
        assert_eq!(name(Some("flink"), "orders-prod"), "7.flink.orders-prod");
        assert_ne!(name(None, "a/b"), name(None, "a_b"));
        assert_ne!(name(Some("a"), "b.c"), name(Some("a.b"), "c"));
        for cluster in ["../../etc", "", ".", "a\0b", "订单", &"x".repeat(500)] {
            let name = name(None, cluster);
            assert!(name.len() < 200 && !name.contains(['/', '\0']) && name.is_ascii(), "{name}");
        }
    }

    #[test]
    fn a_pod_is_known_by_its_name() {
        let pod = |env: &FakeEnvironment| loaded("", env).0.observer.pod;
        let env = FakeEnvironment::default().with_var("HOSTNAME", "orders-taskmanager-1-1");
        assert_eq!(pod(&env), None);
        let env = env.with_var("KUBERNETES_SERVICE_HOST", "10.0.0.1");
        assert_eq!(pod(&env).as_deref(), Some("orders-taskmanager-1-1"));
        assert_eq!(pod(&env.with_var("POD_NAME", "p")).as_deref(), Some("p"));
    }

    #[test]
    fn the_defaults_of_targets_are_sound() {
        assert_eq!(format_duration(default_timeout()), "10s");
        assert_eq!(default_smtp().to_string(), "smtp://127.0.0.1:25");
        assert_eq!(sender(&Options::default(), &FakeEnvironment::default()), "leaderwatch@tm-1");
    }
}
