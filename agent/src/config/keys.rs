//! Every key of the file and of the options, once: name, form, default, meaning. The reader, the checks of unknown
//! keys, the example file, the JSON Schema and the reference all come from here, so none of them can drift.

use std::time::Duration;

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// A text.
    Text,
    /// Several texts.
    Texts,
    /// True or false.
    Flag,
    /// A path.
    Path,
    /// One of some words.
    Choice(&'static [&'static str]),
    /// Several of some words.
    Choices(&'static [&'static str]),
    /// A duration between the two ends, both included.
    Duration(Duration, Duration),
    /// A table of texts, its names being label names.
    Labels,
    /// A table of HTTP headers, their values being secret.
    Headers,
    /// A name of the IANA time zone database.
    TimeZone,
    /// Where claims are kept.
    ClaimStore,
    /// A mail server.
    Smtp,
    /// An email address.
    Address,
    /// Several email addresses.
    Addresses,
    /// A number or a text.
    ChatId,
    /// A secret: also as `X_file` and `X_env`.
    Secret,
    /// A secret, or an old and a new one: also as `X_file` and `X_env`.
    Secrets,
    /// A secret `http` or `https` URL: also as `X_file` and `X_env`.
    SecretUrl,
    /// Several of them.
    SecretUrls,
    /// A secret URL of a proxy: also as `X_file` and `X_env`.
    ProxyUrl,
}

impl Shape {
    /// Whether the key has the variants `X_file` and `X_env`, and its value is masked.
    pub fn is_secret(self) -> bool {
        use Shape::{ProxyUrl, Secret, SecretUrl, SecretUrls, Secrets};
        matches!(self, Secret | Secrets | SecretUrl | SecretUrls | ProxyUrl)
    }
}

/// A key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub shape: Shape,
    /// What holds where it is not given, as it would be written; none where nothing holds or the default is computed.
    pub default: Option<&'static str>,
    /// Whether its table means nothing without it.
    pub required: bool,
    /// Its meaning, for people: one sentence, without the default.
    pub doc: &'static str,
    /// A value as it stands in the file.
    pub example: &'static str,
}

impl Key {
    const fn new(name: &'static str, shape: Shape, example: &'static str, doc: &'static str) -> Self {
        Self { name, shape, default: None, required: false, doc, example }
    }

    const fn or(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// The names under which the key may be written: its own and, for a secret, `X_file` and `X_env`.
    pub fn names(&self) -> Vec<String> {
        let mut names = vec![self.name.to_owned()];
        if self.shape.is_secret() {
            names.push(format!("{}_file", self.name));
            names.push(format!("{}_env", self.name));
        }
        names
    }

    /// The key as it is written in the file.
    pub fn line(&self) -> String {
        format!("{} = {}", self.name, self.example)
    }
}

const ZERO: Duration = Duration::ZERO;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn hours(count: u64) -> Duration {
    Duration::from_secs(count * 3600)
}

/// The classes that a user can ask for; `test` is sent on demand only.
pub const CLASSES: [&str; 4] = ["failover", "no_leader", "flapping", "resolved"];
/// The languages of alerts.
pub const LANGUAGES: [&str; 4] = ["en", "zh-CN", "zh-TW", "ko"];
/// Bodies of a generic webhook.
pub const FORMATS: [&str; 2] = ["plain", "cloudevents"];

/// Name of the Flink cluster.
pub const CLUSTER: Key = Key::new(
    "cluster",
    Shape::Text,
    r#""orders-prod""#,
    "Name of the Flink cluster in alerts and ids; by default Flink's `high-availability.cluster-id` or `kubernetes.cluster-id`, else `default`.",
);
/// Kubernetes namespace.
pub const NAMESPACE: Key = Key::new(
    "namespace",
    Shape::Text,
    r#""flink""#,
    "Kubernetes namespace in alerts and ids; by default that of the pod's service account, else none.",
);
/// Labels of the user.
pub const LABELS: Key = Key::new(
    "labels",
    Shape::Labels,
    r#"{ env = "prod", region = "eu-1" }"#,
    "Labels added to every alert; names are letters, digits and `_`, not starting with a digit.",
);
/// Language of alerts.
pub const LANGUAGE: Key =
    Key::new("language", Shape::Choice(&LANGUAGES), r#""en""#, "Language of alerts for people.").or("en");
/// Time zone of alerts.
pub const TIME_ZONE: Key = Key::new(
    "time_zone",
    Shape::TimeZone,
    r#""Asia/Shanghai""#,
    "Time zone of alerts for people, by its IANA name; machines always get UTC.",
)
.or("UTC");
/// The alert log.
pub const LOG: Key = Key::new(
    "log",
    Shape::Path,
    r#""/var/log/flink/leaderwatch.jsonl""#,
    "The alert log; by default beside Flink's own log (system property `log.file`), with `.log` replaced by `.leaderwatch.jsonl`, else in `java.io.tmpdir`.",
);
/// Folder of the outbox.
pub const STATE: Key = Key::new(
    "state",
    Shape::Path,
    r#""/var/lib/leaderwatch""#,
    "Folder of the outbox and of what is remembered over restarts; by default `leaderwatch` beside the alert log. Inside it is one folder for each user, namespace and cluster.",
);
/// File for Prometheus's textfile collector.
pub const METRICS_FILE: Key = Key::new(
    "metrics_file",
    Shape::Path,
    r#""/var/lib/node_exporter/leaderwatch.prom""#,
    "File for the textfile collector of Prometheus, replaced atomically; none by default. The second process with the same file takes the name with `.2`.",
);

/// Classes of alerts.
pub const ALERT_CLASSES: Key = Key::new(
    "classes",
    Shape::Choices(&CLASSES),
    r#"["failover", "no_leader", "flapping", "resolved"]"#,
    "Classes of alerts that are raised at all; all by default.",
);
/// How long an election gathers its members.
pub const GROUP_WAIT: Key = Key::new(
    "group_wait",
    Shape::Duration(ZERO, seconds(300)),
    r#""2s""#,
    "How long an election gathers its members (jobs and components that moved) before the alert.",
)
.or("2s");
/// When members that came late are told.
pub const GROUP_INTERVAL: Key = Key::new(
    "group_interval",
    Shape::Duration(seconds(1), hours(24)),
    r#""5m""#,
    "How long after an alert the members that joined it later are told to targets that do not update in place, once.",
)
.or("5m");
/// When an empty seat is an alert.
pub const NO_LEADER_AFTER: Key = Key::new(
    "no_leader_after",
    Shape::Duration(seconds(1), hours(24)),
    r#""30s""#,
    "How long the ResourceManager's seat stays empty, or its heartbeat timed out, before `no_leader`.",
)
.or("30s");
/// When a failover is over.
pub const RESOLVE_AFTER: Key = Key::new(
    "resolve_after",
    Shape::Duration(seconds(1), hours(168)),
    r#""15m""#,
    "How long after a failover it counts as resolved where the jobs' recovery is not seen.",
)
.or("15m");
/// How long a leader is remembered.
pub const REMEMBER_FOR: Key = Key::new(
    "remember_for",
    Shape::Duration(ZERO, hours(168)),
    r#""10m""#,
    "How long ago a remembered leader may have been seen alive for a first sight of another one to be a failover.",
)
.or("10m");
/// When an alert is old.
pub const MAX_AGE: Key = Key::new(
    "max_age",
    Shape::Duration(seconds(60), hours(720)),
    r#""1h""#,
    "Alerts older than this go out as a digest, never as a page.",
)
.or("1h");

/// Where claims are kept.
pub const STORE: Key = Key::new(
    "store",
    Shape::ClaimStore,
    r#""auto""#,
    "Where the agents of a cluster agree on who sends: `auto` (Flink's own ZooKeeper, in-cluster Kubernetes, or HA storage), `none`, `zookeeper://zk1:2181,zk2:2181/leaderwatch`, `kubernetes://NAMESPACE` or `file:///shared/folder`.",
)
.or("auto");
/// How long a claim lives unrenewed.
pub const LEASE: Key = Key::new(
    "lease",
    Shape::Duration(seconds(5), hours(1)),
    r#""30s""#,
    "How long a claim may stay unrenewed before another agent takes over; never less than twice the target's `timeout` and 5s.",
)
.or("30s");

/// Name of a target.
pub const NAME: Key = Key::new(
    "name",
    Shape::Text,
    r#""ops-chat""#,
    "Name of the target in the alert log and in `fallback`; by default its kind.",
);
/// Kind of a target.
pub const KIND: Key = Key::new("kind", Shape::Choice(&KIND_NAMES), r#""slack""#, "Kind of receiver.").required();
/// Classes that a target receives.
pub const TARGET_CLASSES: Key = Key::new(
    "classes",
    Shape::Choices(&CLASSES),
    r#"["failover", "no_leader"]"#,
    "Classes of alerts that go to this target; by default all of `alert.classes`. An empty list makes it a mere fallback.",
);
/// The target that is told when this one refuses.
pub const FALLBACK: Key =
    Key::new("fallback", Shape::Text, r#""mail""#, "Name of the target that is told when this one refuses for good.");
/// Proxy of a target.
pub const PROXY: Key = Key::new(
    "proxy",
    Shape::ProxyUrl,
    r#""http://proxy.example:3128""#,
    "Proxy: `http://`, `https://`, `socks5://` or `socks5h://` with host and port, and user and password where it needs them.",
);
/// Certificates that a target is checked against.
pub const CA_FILE: Key = Key::new(
    "ca_file",
    Shape::Path,
    r#""/etc/ssl/private-ca.pem""#,
    "PEM file with certificates of authorities to trust beside the system's.",
);
/// Name in a target's certificate.
pub const SERVER_NAME: Key = Key::new(
    "server_name",
    Shape::Text,
    r#""hooks.example""#,
    "Name that the receiver's certificate is checked for, where it is not the host that is connected to (a tunnel, an alias).",
);
/// Longest time that a send may take.
pub const TIMEOUT: Key = Key::new(
    "timeout",
    Shape::Duration(seconds(1), seconds(120)),
    r#""10s""#,
    "Longest time that one attempt to send may take in all.",
)
.or("10s");

/// Keys that every target takes.
pub const SHARED: [Key; 10] =
    [NAME, KIND, TARGET_CLASSES, FALLBACK, PROXY, CA_FILE, CLIENT_CERT, CLIENT_KEY, SERVER_NAME, TIMEOUT];

/// URL of a target.
pub const URL: Key =
    Key::new("url", Shape::SecretUrl, r#""https://receiver.example/XXXX""#, "URL as copied from the receiver.")
        .required();
/// URLs of an Alertmanager cluster.
pub const URLS: Key = Key::new(
    "urls",
    Shape::SecretUrls,
    r#"["http://alertmanager-0:9093", "http://alertmanager-1:9093"]"#,
    "Base URL of every member of the Alertmanager cluster: no load balancer, since each keeps its own alerts.",
)
.required();
/// Signing keys of a webhook.
pub const WEBHOOK_SECRETS: Key = Key::new(
    "secret",
    Shape::Secrets,
    r#""whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw""#,
    "Key that signs each message (Standard Webhooks); while it is being changed, the new and the old one as a list.",
);
/// Signing key of a chat robot.
pub const SECRET: Key = Key::new(
    "secret",
    Shape::Secret,
    r#""SECexample0123456789""#,
    "Signing key, where the robot's safety setting is one.",
);
/// Bearer token.
pub const TOKEN: Key = Key::new("token", Shape::Secret, r#""example-token""#, "Token sent as `Authorization: Bearer`.");
/// User name.
pub const USERNAME: Key = Key::new("username", Shape::Text, r#""leaderwatch""#, "User to log in as.");
/// Password.
pub const PASSWORD: Key = Key::new("password", Shape::Secret, r#""example-password""#, "Password of that user.");
/// Headers of a webhook.
pub const HEADERS: Key = Key::new(
    "headers",
    Shape::Headers,
    r#"{ "X-Team" = "data", "X-Api-Key" = { file = "/run/secrets/api-key" } }"#,
    "Headers added to each request: a text, or `{ file = \"...\" }` or `{ env = \"...\" }`; all are masked.",
);
/// Body of a webhook.
pub const FORMAT: Key = Key::new(
    "format",
    Shape::Choice(&FORMATS),
    r#""plain""#,
    "Body: the alert's JSON as it is, or in a CloudEvents 1.0 envelope.",
)
.or("plain");
/// Client certificate.
pub const CLIENT_CERT: Key = Key::new(
    "client_cert",
    Shape::Path,
    r#""/etc/leaderwatch/client.pem""#,
    "PEM file with the certificate (and its chain) to show to the receiver.",
);
/// Key of the client certificate.
pub const CLIENT_KEY: Key = Key::new(
    "client_key",
    Shape::Path,
    r#""/etc/leaderwatch/client-key.pem""#,
    "PEM file with the key of `client_cert`.",
);
/// Mail server.
pub const SMTP: Key = Key::new(
    "smtp",
    Shape::Smtp,
    r#""smtp+starttls://mail.example:587""#,
    "Mail server: `smtp://host:port` (STARTTLS where offered; a password is never sent without TLS), `smtps://host:port` (TLS from the first byte) or `smtp+starttls://host:port` (STARTTLS or nothing).",
)
.or("smtp://127.0.0.1:25");
/// Sender.
pub const FROM: Key = Key::new(
    "from",
    Shape::Address,
    r#""Leaderwatch <leaderwatch@example.org>""#,
    "Sender; by default `leaderwatch@` and the host name.",
);
/// Recipients.
pub const TO: Key = Key::new("to", Shape::Addresses, r#"["oncall@example.org"]"#, "Recipients.").required();
/// Words that a chat robot wants in each message.
pub const KEYWORDS: Key = Key::new(
    "keywords",
    Shape::Texts,
    r#"["Flink"]"#,
    "Words of the robot's safety setting; one that the text lacks is added.",
);
/// People to mention by phone number.
pub const AT_MOBILES: Key =
    Key::new("at_mobiles", Shape::Texts, r#"["13800000000"]"#, "Phone numbers of people to mention.");
/// People to mention by user id.
pub const AT_USER_IDS: Key = Key::new("at_user_ids", Shape::Texts, r#"["user123"]"#, "User ids of people to mention.");
/// Whether to mention everybody.
pub const AT_ALL: Key = Key::new("at_all", Shape::Flag, "false", "Whether to mention everybody.").or("false");
/// Token of a Telegram bot.
pub const BOT_TOKEN: Key =
    Key::new("token", Shape::Secret, r#""123456:EXAMPLE""#, "Token of the bot, from @BotFather.").required();
/// Chat that a Telegram bot writes to.
pub const CHAT_ID: Key = Key::new(
    "chat_id",
    Shape::ChatId,
    "-1001234567890",
    "Chat to write to: its number, or `@name` of a public channel.",
)
.required();
/// Telegram's API.
pub const TELEGRAM_URL: Key =
    Key::new("url", Shape::SecretUrl, r#""https://api.telegram.org""#, "Base URL of the Bot API.")
        .or("https://api.telegram.org");
/// Key of a PagerDuty integration.
pub const ROUTING_KEY: Key = Key::new(
    "routing_key",
    Shape::Secret,
    r#""0123456789abcdef0123456789abcdef""#,
    "Integration key of the service (Events API v2).",
)
.required();
/// PagerDuty's API.
pub const PAGERDUTY_URL: Key =
    Key::new("url", Shape::SecretUrl, r#""https://events.pagerduty.com/v2/enqueue""#, "Events API v2.")
        .or("https://events.pagerduty.com/v2/enqueue");
/// Kubernetes API server.
pub const KUBERNETES_URL: Key = Key::new(
    "url",
    Shape::SecretUrl,
    r#""https://kubernetes.default.svc""#,
    "Kubernetes API server; by default the pod's own cluster.",
);
/// Token for the Kubernetes API.
pub const KUBERNETES_TOKEN: Key = Key::new(
    "token",
    Shape::Secret,
    r#""example-token""#,
    "Token for the Kubernetes API; by default that of the pod's service account.",
);
/// Namespace of events.
pub const EVENT_NAMESPACE: Key =
    Key::new("namespace", Shape::Text, r#""flink""#, "Namespace that events go to; by default that of the alert.");
/// Interval of a heartbeat.
pub const INTERVAL: Key = Key::new(
    "interval",
    Shape::Duration(seconds(10), hours(24)),
    r#""1m""#,
    "How often the agent says that it is alive.",
)
.or("1m");

/// Interval of a watchdog.
pub const WATCHDOG: Key = Key::new(
    "watchdog",
    Shape::Duration(seconds(10), hours(1)),
    r#""1m""#,
    "How often the alert `FlinkLeadershipWatchdog` is kept firing while an agent lives, for a dead man's switch; else it is not.",
);

/// A kind of target.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// What it is, for people.
    pub doc: &'static str,
    /// The keys that it takes beside [`SHARED`].
    pub keys: &'static [Key],
}

macro_rules! kinds {
    ($($name:literal, $doc:literal, [$($key:ident),*];)*) => {
        /// Names of all kinds.
        pub const KIND_NAMES: [&str; 13] = [$($name),*];
        /// All kinds of target.
        pub const KINDS: [Kind; 13] = [$(Kind { name: $name, doc: $doc, keys: &[$($key),*] }),*];
    };
}

kinds! {
    "webhook", "Generic JSON by HTTP POST.",
        [URL, WEBHOOK_SECRETS, TOKEN, USERNAME, PASSWORD, HEADERS, FORMAT];
    "email", "Email by SMTP.", [SMTP, FROM, TO, USERNAME, PASSWORD];
    "slack", "Slack incoming webhook.", [URL];
    "teams", "Microsoft Teams by a Workflows webhook.", [URL];
    "discord", "Discord webhook.", [URL];
    "dingtalk", "DingTalk custom robot.", [URL, SECRET, KEYWORDS, AT_MOBILES, AT_USER_IDS, AT_ALL];
    "feishu", "Feishu or Lark custom bot.", [URL, SECRET, KEYWORDS];
    "wecom", "WeCom group robot.", [URL];
    "telegram", "Telegram bot.", [BOT_TOKEN, CHAT_ID, TELEGRAM_URL];
    "pagerduty", "PagerDuty Events API v2.", [ROUTING_KEY, PAGERDUTY_URL];
    "alertmanager", "Prometheus Alertmanager, API v2.", [URLS, TOKEN, USERNAME, PASSWORD, WATCHDOG];
    "kubernetes_event", "Events of the Kubernetes API.", [KUBERNETES_URL, KUBERNETES_TOKEN, EVENT_NAMESPACE];
    "heartbeat", "A URL that is called while the agent lives, for a dead man's switch.", [URL, INTERVAL];
}

/// The user's own title.
pub const OWN_TITLE: Key = Key::new(
    "title",
    Shape::Text,
    r#""Flink {{ cluster }}: {{ class }}""#,
    "Template (minijinja) of an alert's title, instead of the built-in one.",
);
/// The user's own text.
pub const OWN_BODY: Key = Key::new(
    "body",
    Shape::Text,
    r#""{{ time }}: from {{ old.place }} to {{ new.place }}, {{ job_count }} jobs""#,
    "Template (minijinja) of an alert's text, instead of the built-in one.",
);
/// A link below the text.
pub const DASHBOARD_URL: Key = Key::new(
    "dashboard_url",
    Shape::Text,
    r#""https://grafana.example.org/d/flink?var-cluster={{ cluster|urlencode }}""#,
    "Template (minijinja) of a link below an alert's built-in text.",
);

/// Keys at the top of the file.
pub const TOP: [Key; 8] = [CLUSTER, NAMESPACE, LABELS, LANGUAGE, TIME_ZONE, LOG, STATE, METRICS_FILE];
/// Keys of `[alert]`.
pub const ALERT: [Key; 7] =
    [ALERT_CLASSES, GROUP_WAIT, GROUP_INTERVAL, NO_LEADER_AFTER, RESOLVE_AFTER, REMEMBER_FOR, MAX_AGE];
/// Keys of `[claim]`.
pub const CLAIM: [Key; 2] = [STORE, LEASE];
/// Keys of `[text]`.
pub const TEXT: [Key; 3] = [OWN_TITLE, OWN_BODY, DASHBOARD_URL];
/// Tables of the file.
pub const TABLES: [&str; 4] = ["alert", "claim", "text", "target"];

/// Path of the file.
pub const CONFIG: Key = Key::new(
    "config",
    Shape::Path,
    "/etc/leaderwatch.toml",
    "Path of the TOML file; the options beside it win over it.",
);
/// URL of the target `webhook`. As an option it has the variant `webhook_file` only: an environment variable would be
/// no shorter than the file.
pub const WEBHOOK: Key = Key::new(
    "webhook",
    Shape::SecretUrl,
    "http://alerts.example/flink",
    "URL of a generic webhook (JVM options show in `ps` and in Flink's log: a secret URL belongs in a file).",
);
/// File with the URL of the target `webhook`.
pub const WEBHOOK_FILE: Key =
    Key::new("webhook_file", Shape::Path, "/run/secrets/webhook-url", "File that holds the URL of a generic webhook.");
/// Recipients of the target `email`.
pub const EMAIL: Key =
    Key::new("email", Shape::Addresses, "oncall@example.org+data@example.org", "Recipients, joined by `+`.");
/// Sender of the target `email`.
pub const EMAIL_FROM: Key = Key::new(
    "email_from",
    Shape::Address,
    "leaderwatch@example.org",
    "Sender; by default `leaderwatch@` and the host name.",
);

/// Options of the agent.
pub const OPTIONS: [Key; 11] =
    [CONFIG, WEBHOOK, WEBHOOK_FILE, EMAIL, SMTP, EMAIL_FROM, LOG, STATE, CLUSTER, NAMESPACE, GROUP_WAIT];

/// The kind of that name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// All names under which keys may be written.
pub fn names(keys: &[Key]) -> Vec<String> {
    keys.iter().flat_map(Key::names).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_table_has_a_name_twice() {
        let mut tables: Vec<Vec<Key>> =
            vec![TOP.to_vec(), ALERT.to_vec(), CLAIM.to_vec(), TEXT.to_vec(), OPTIONS.to_vec()];
        tables.extend(KINDS.iter().map(|kind| [&SHARED[..], kind.keys].concat()));
        for table in tables {
            let all = names(&table);
            let distinct: BTreeSet<&String> = all.iter().collect();
            // `webhook` and `webhook_file` of the options are told apart by hand.
            let doubled = if table.contains(&WEBHOOK) { 1 } else { 0 };
            assert_eq!(distinct.len() + doubled, all.len(), "{all:?}");
        }
    }

    #[test]
    fn every_key_is_documented_in_whole_sentences() {
        let all = TOP.iter().chain(&ALERT).chain(&CLAIM).chain(&TEXT).chain(&OPTIONS).chain(&SHARED);
        for key in all.chain(KINDS.iter().flat_map(|kind| kind.keys)) {
            assert!(key.doc.ends_with(['.', ')']), "{}", key.name);
            assert!(!key.example.is_empty(), "{}", key.name);
        }
    }
}
