//! Targets as the configuration gives them: plain data, one struct for each kind. What sends is made from these.

use std::path::PathBuf;
use std::time::Duration;

use super::secret::SecretSource;
use super::value::SmtpServer;
use crate::alert::Class;

/// A target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetSettings {
    /// The user's name for it; distinct from all others.
    pub name: String,
    /// Classes of alerts that go to it. None: it is a mere fallback.
    pub classes: Vec<Class>,
    /// Name of the target that is told when this one refuses for good; always one that works, never in a loop.
    pub fallback: Option<String>,
    /// How to connect.
    pub connection: ConnectionConfig,
    /// What is special to its kind.
    pub kind: KindSettings,
}

/// How to connect to a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionConfig {
    /// URL of a proxy.
    pub proxy: Option<SecretSource>,
    /// PEM file with certificates of authorities to trust beside the system's.
    pub ca_file: Option<PathBuf>,
    /// What to show to the receiver.
    pub client_certificate: Option<ClientCertificate>,
    /// Name in the certificate, where it is another than the one that is connected to.
    pub server_name: Option<String>,
    /// Longest time that one attempt may take in all.
    pub timeout: Duration,
}

/// What is special to a kind of target.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // The variants are the kinds of the contract, each documented at its struct.
pub enum KindSettings {
    Webhook(WebhookConfig),
    Email(EmailConfig),
    Slack(UrlConfig),
    Teams(UrlConfig),
    Discord(UrlConfig),
    DingTalk(DingTalkConfig),
    Feishu(FeishuConfig),
    WeCom(UrlConfig),
    Telegram(TelegramConfig),
    PagerDuty(PagerDutyConfig),
    Alertmanager(AlertmanagerConfig),
    KubernetesEvent(KubernetesEventConfig),
    Heartbeat(HeartbeatConfig),
}

impl KindSettings {
    /// The kind's name in the configuration.
    pub fn name(&self) -> &'static str {
        match self {
            KindSettings::Webhook(_) => "webhook",
            KindSettings::Email(_) => "email",
            KindSettings::Slack(_) => "slack",
            KindSettings::Teams(_) => "teams",
            KindSettings::Discord(_) => "discord",
            KindSettings::DingTalk(_) => "dingtalk",
            KindSettings::Feishu(_) => "feishu",
            KindSettings::WeCom(_) => "wecom",
            KindSettings::Telegram(_) => "telegram",
            KindSettings::PagerDuty(_) => "pagerduty",
            KindSettings::Alertmanager(_) => "alertmanager",
            KindSettings::KubernetesEvent(_) => "kubernetes_event",
            KindSettings::Heartbeat(_) => "heartbeat",
        }
    }
}

/// A receiver that needs nothing but its URL: Slack, Teams, Discord, WeCom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlConfig {
    /// The URL, which is the secret.
    pub url: SecretSource,
}

/// How a generic webhook's body is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookFormat {
    /// The alert's JSON as it is.
    Plain,
    /// In a CloudEvents 1.0 envelope.
    CloudEvents,
}

/// A user and a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub username: String,
    /// The password.
    pub password: SecretSource,
}

/// A client certificate: two PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Certificate and its chain.
    pub cert_file: PathBuf,
    /// Its key.
    pub key_file: PathBuf,
}

/// A generic webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookConfig {
    /// Where to POST.
    pub url: SecretSource,
    /// Keys that sign each message, the newest first; none: unsigned.
    pub secrets: Vec<SecretSource>,
    /// Bearer token.
    pub token: Option<SecretSource>,
    /// Basic authentication.
    pub login: Option<Login>,
    /// Headers added to each request.
    pub headers: Vec<(String, SecretSource)>,
    /// The body.
    pub format: WebhookFormat,
}

/// Email.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmailConfig {
    /// The mail server.
    pub smtp: SmtpServer,
    /// Sender: an address, or `Name <address>`.
    pub from: String,
    /// Recipients, at least one.
    pub to: Vec<String>,
    /// Authentication.
    pub login: Option<Login>,
}

/// A DingTalk custom robot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DingTalkConfig {
    /// URL with `access_token`.
    pub url: SecretSource,
    /// Signing key.
    pub secret: Option<SecretSource>,
    /// Words of which the robot wants one in each message.
    pub keywords: Vec<String>,
    /// Phone numbers of people to mention.
    pub at_mobiles: Vec<String>,
    /// User ids of people to mention.
    pub at_user_ids: Vec<String>,
    /// Whether to mention everybody.
    pub at_all: bool,
}

/// A Feishu or Lark custom bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeishuConfig {
    /// URL with the token in its path.
    pub url: SecretSource,
    /// Signing key.
    pub secret: Option<SecretSource>,
    /// Words of which the bot wants one in each message.
    pub keywords: Vec<String>,
}

/// A Telegram bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelegramConfig {
    /// Base URL of the Bot API.
    pub url: SecretSource,
    /// Token of the bot.
    pub token: SecretSource,
    /// A number, or `@name` of a public channel.
    pub chat_id: String,
}

/// PagerDuty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagerDutyConfig {
    /// Events API v2.
    pub url: SecretSource,
    /// Integration key.
    pub routing_key: SecretSource,
}

/// An Alertmanager cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertmanagerConfig {
    /// Base URL of each member, at least one.
    pub urls: Vec<SecretSource>,
    /// Bearer token.
    pub token: Option<SecretSource>,
    /// Basic authentication.
    pub login: Option<Login>,
    /// How often the watchdog is kept firing; none: there is none.
    pub watchdog: Option<Duration>,
}

/// Events of the Kubernetes API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubernetesEventConfig {
    /// The API server; none: the pod's own cluster.
    pub url: Option<SecretSource>,
    /// Token; none: that of the pod's service account.
    pub token: Option<SecretSource>,
    /// Namespace; none: that of the alert.
    pub namespace: Option<String>,
}

/// A URL that is called while the agent lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatConfig {
    /// The URL.
    pub url: SecretSource,
    /// How often.
    pub interval: Duration,
}
