//! Makes targets of what the configuration says of them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Target;
use super::alertmanager::{Alertmanager, AlertmanagerSettings, Watchdog};
use super::dingtalk::{DingTalk, DingTalkSettings};
use super::discord::discord;
use super::email::{BadEmail, Email, EmailSettings, Security, SmtpServer};
use super::feishu::{Feishu, FeishuSettings};
use super::fresh::{Fresh, has_files};
use super::heartbeat::Heartbeat;
use super::http::{BadHttp, HttpClient, HttpSettings, Proxy};
use super::kubernetes_event::{KubernetesEvent, KubernetesEventSettings, Token};
use super::pagerduty::PagerDuty;
use super::preview::Preview;
use super::resolver::Resolver;
use super::secret::{BadUrl, Secret, SecretUrl};
use super::slack::slack;
use super::teams::teams;
use super::telegram::Telegram;
use super::tls::{ClientCertificate, TlsSettings};
use super::tunnel::ProxyAddress;
use super::webhook::{Authorization, BadKey, Format, SigningKey, Webhook, WebhookSettings};
use super::wecom::wecom;
use crate::clock::Clock;
use crate::config::{
    ConnectionConfig, EmailConfig, KindSettings, KubernetesEventConfig, Login, SecretError, SecretSource, SmtpSecurity,
    TargetSettings, WebhookConfig, WebhookFormat,
};

/// Longest time until a connection stands; within the target's whole time limit.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// What Kubernetes gives to each pod that has a service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Why a target cannot be made. Holds no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotBuilt {
    /// A secret cannot be had.
    Secret(&'static str, SecretError),
    /// An address is none.
    Url(&'static str, BadUrl),
    /// A signing key is none.
    Key(&'static str, BadKey),
    /// The HTTP client's settings.
    Http(BadHttp),
    /// The mail's settings.
    Email(BadEmail),
    /// No code for this kind.
    Kind(&'static str),
    /// Not in a pod of Kubernetes.
    NoPod,
}

impl fmt::Display for NotBuilt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotBuilt::Secret(key, error) => write!(out, "`{key}`: {error}; {}", error.cure()),
            NotBuilt::Url(key, error) => write!(out, "`{key}` {error}"),
            NotBuilt::Key(key, error) => write!(out, "`{key}`: {error}"),
            NotBuilt::Http(error) => error.fmt(out),
            NotBuilt::Email(error) => error.fmt(out),
            NotBuilt::NoPod => {
                out.write_str("this is no pod of Kubernetes: set `url` to the address of the API server")
            }
            NotBuilt::Kind(kind) => write!(out, "kind `{kind}` cannot be sent to by this version"),
        }
    }
}

impl std::error::Error for NotBuilt {}

impl From<BadHttp> for NotBuilt {
    fn from(error: BadHttp) -> Self {
        NotBuilt::Http(error)
    }
}

impl From<BadEmail> for NotBuilt {
    fn from(error: BadEmail) -> Self {
        NotBuilt::Email(error)
    }
}

/// Makes targets that share one resolver. Clones share it, too.
#[derive(Clone)]
pub struct Builder {
    resolver: Resolver,
    clock: Arc<dyn Clock>,
    preview: Option<Arc<Preview>>,
    cluster: String,
    namespace: Option<String>,
}

impl Builder {
    /// Looks names up as the system does.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { resolver: Resolver::default(), clock, preview: None, cluster: String::new(), namespace: None }
    }

    /// Names the cluster, for what a target says without an alert.
    pub fn of_cluster(self, cluster: &str, namespace: Option<&str>) -> Self {
        Self { cluster: cluster.to_owned(), namespace: namespace.map(str::to_owned), ..self }
    }

    /// Makes targets that send nothing and hand to `preview` what they would send.
    pub fn with_preview(self, preview: Arc<Preview>) -> Self {
        Self { preview: Some(preview), ..self }
    }

    /// Makes one target. Reads the files of its secrets and certificates; secrets in files are looked at again before each
    /// attempt.
    pub fn build(&self, settings: &TargetSettings) -> Result<Arc<dyn Target>, NotBuilt> {
        if has_files(settings) {
            return Ok(Arc::new(Fresh::new(settings, self.clone())?));
        }
        self.build_once(settings)
    }

    /// Makes one target with its secrets as they are now.
    pub(super) fn build_once(&self, settings: &TargetSettings) -> Result<Arc<dyn Target>, NotBuilt> {
        let connection = &settings.connection;
        match &settings.kind {
            KindSettings::Webhook(config) => self.webhook(&settings.name, config, connection),
            KindSettings::Email(config) => self.email(&settings.name, config, connection),
            kind => self.service(&settings.name, kind, connection),
        }
    }

    /// The services that are spoken to over HTTP and need little.
    fn service(
        &self,
        name: &str,
        kind: &KindSettings,
        connection: &ConnectionConfig,
    ) -> Result<Arc<dyn Target>, NotBuilt> {
        if let KindSettings::KubernetesEvent(config) = kind {
            return self.kubernetes_event(name, config, connection);
        }
        let (name, http, clock) =
            (name.to_owned(), self.http(connection, Proxy::Environment)?, Arc::clone(&self.clock));
        let target: Arc<dyn Target> = match kind {
            KindSettings::Slack(config) => Arc::new(slack(name, url("url", &config.url)?, http)),
            KindSettings::Teams(config) => Arc::new(teams(name, url("url", &config.url)?, http)),
            KindSettings::Discord(config) => Arc::new(discord(name, url("url", &config.url)?, http)),
            KindSettings::WeCom(config) => Arc::new(wecom(name, url("url", &config.url)?, http)),
            KindSettings::DingTalk(config) => {
                let settings = DingTalkSettings {
                    name,
                    url: url("url", &config.url)?,
                    secret: config.secret.as_ref().map(|source| secret("secret", source)).transpose()?,
                    keywords: config.keywords.clone(),
                    at_mobiles: config.at_mobiles.clone(),
                    at_user_ids: config.at_user_ids.clone(),
                    at_all: config.at_all,
                };
                Arc::new(DingTalk::new(settings, http, clock))
            }
            KindSettings::Feishu(config) => {
                let settings = FeishuSettings {
                    name,
                    url: url("url", &config.url)?,
                    secret: config.secret.as_ref().map(|source| secret("secret", source)).transpose()?,
                    keywords: config.keywords.clone(),
                };
                Arc::new(Feishu::new(settings, http, clock))
            }
            KindSettings::Telegram(config) => {
                let (api, token) = (url("url", &config.url)?, secret("token", &config.token)?);
                Arc::new(Telegram::new(name, &api, &token, &config.chat_id, http))
            }
            KindSettings::PagerDuty(config) => {
                let routing_key = secret("routing_key", &config.routing_key)?;
                Arc::new(PagerDuty::new(name, url("url", &config.url)?, routing_key, http))
            }
            KindSettings::Alertmanager(config) => {
                let settings = AlertmanagerSettings {
                    name,
                    urls: config.urls.iter().map(|source| url("urls", source)).collect::<Result<_, _>>()?,
                    authorization: authorization(config.token.as_ref(), config.login.as_ref())?,
                    watchdog: config.watchdog.map(|every| Watchdog {
                        every,
                        cluster: self.cluster.clone(),
                        namespace: self.namespace.clone(),
                    }),
                };
                Arc::new(Alertmanager::new(settings, http, clock)?)
            }
            KindSettings::Heartbeat(config) => {
                Arc::new(Heartbeat::new(name, url("url", &config.url)?, config.interval, http))
            }
            other => return Err(NotBuilt::Kind(other.name())),
        };
        Ok(target)
    }

    /// Where the settings name no server or token, those of the pod: the environment and the files that Kubernetes gives to
    /// each pod.
    fn kubernetes_event(
        &self,
        name: &str,
        config: &KubernetesEventConfig,
        connection: &ConnectionConfig,
    ) -> Result<Arc<dyn Target>, NotBuilt> {
        let api = match &config.url {
            Some(source) => url("url", source)?,
            None => pod_api().ok_or(NotBuilt::NoPod)?,
        };
        let token = match &config.token {
            Some(source) => Token::Given(secret("token", source)?),
            None => Token::File(Path::new(SERVICE_ACCOUNT).join("token")),
        };
        let mut connection = connection.clone();
        let pod_ca = Path::new(SERVICE_ACCOUNT).join("ca.crt");
        if connection.ca_file.is_none() && pod_ca.exists() {
            connection.ca_file = Some(pod_ca);
        }
        let settings =
            KubernetesEventSettings { name: name.to_owned(), api, token, namespace: config.namespace.clone() };
        // The API server is inside the cluster, and a proxy leads out of it.
        let http = self.http(&connection, Proxy::None)?;
        Ok(Arc::new(KubernetesEvent::new(settings, http, Arc::clone(&self.clock))))
    }

    fn webhook(
        &self,
        name: &str,
        config: &WebhookConfig,
        connection: &ConnectionConfig,
    ) -> Result<Arc<dyn Target>, NotBuilt> {
        let key =
            |source| SigningKey::parse(secret("secret", source)?.expose()).map_err(|e| NotBuilt::Key("secret", e));
        let header = |(header, source): &(String, SecretSource)| Ok((header.clone(), secret("headers", source)?));
        let settings = WebhookSettings {
            name: name.to_owned(),
            url: url("url", &config.url)?,
            keys: config.secrets.iter().map(key).collect::<Result<_, _>>()?,
            authorization: authorization(config.token.as_ref(), config.login.as_ref())?,
            headers: config.headers.iter().map(header).collect::<Result<_, NotBuilt>>()?,
            format: match config.format {
                WebhookFormat::Plain => Format::Plain,
                WebhookFormat::CloudEvents => Format::CloudEvents,
            },
        };
        let http = self.http(connection, Proxy::Environment)?;
        Ok(Arc::new(Webhook::new(settings, http, Arc::clone(&self.clock))?))
    }

    fn email(
        &self,
        name: &str,
        config: &EmailConfig,
        connection: &ConnectionConfig,
    ) -> Result<Arc<dyn Target>, NotBuilt> {
        let login = |login: &Login| -> Result<_, NotBuilt> {
            Ok((login.username.clone(), secret("password", &login.password)?))
        };
        let server = SmtpServer {
            security: match config.smtp.security {
                SmtpSecurity::Opportunistic => Security::StartTlsWhereOffered,
                SmtpSecurity::StartTls => Security::StartTls,
                SmtpSecurity::Implicit => Security::Tls,
            },
            host: config.smtp.host.clone(),
            port: config.smtp.port,
            credentials: config.login.as_ref().map(login).transpose()?,
        };
        let settings = EmailSettings {
            name: name.to_owned(),
            server,
            from: config.from.clone(),
            to: config.to.clone(),
            connect_timeout: CONNECT_TIMEOUT.min(connection.timeout),
            timeout: connection.timeout,
            tls: TlsSettings { server_name: None, ..tls(connection) },
            server_name: connection.server_name.clone(),
            proxy: match &connection.proxy {
                Some(source) => Some(mail_proxy(source)?),
                None => usual_mail_proxy(&config.smtp.host, |name| std::env::var(name).ok()),
            },
        };
        Ok(Arc::new(Email::new(settings, self.resolver.clone())?.with_preview(self.preview.clone())))
    }

    fn http(&self, connection: &ConnectionConfig, usual_proxy: Proxy) -> Result<HttpClient, NotBuilt> {
        let proxy = match &connection.proxy {
            Some(source) => Proxy::Url(secret("proxy", source)?),
            None => usual_proxy,
        };
        let settings = HttpSettings {
            connect_timeout: CONNECT_TIMEOUT.min(connection.timeout),
            timeout: connection.timeout,
            proxy,
            tls: tls(connection),
            ..HttpSettings::default()
        };
        Ok(HttpClient::new(&settings, &self.resolver)?.with_preview(self.preview.clone()))
    }
}

/// The API server as Kubernetes names it to each pod.
fn pod_api() -> Option<SecretUrl> {
    let host = std::env::var("KUBERNETES_SERVICE_HOST").ok().filter(|host| !host.is_empty())?;
    let port = std::env::var("KUBERNETES_SERVICE_PORT").unwrap_or_else(|_| "443".to_owned());
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    SecretUrl::parse(&format!("https://{host}:{port}")).ok()
}

fn secret(key: &'static str, source: &SecretSource) -> Result<Secret, NotBuilt> {
    let secret = source.current().map_err(|error| NotBuilt::Secret(key, error))?;
    Ok(Secret::new(secret.expose()))
}

fn mail_proxy(source: &SecretSource) -> Result<ProxyAddress, NotBuilt> {
    ProxyAddress::parse(secret("proxy", source)?.expose()).ok_or(NotBuilt::Email(BadEmail::Proxy))
}

/// The way out for mail that the environment names: `all_proxy`, as curl takes it for what is not HTTP, unless `no_proxy` names
/// the host or a domain of it. One that is not for mail, such as `https://`, is none.
fn usual_mail_proxy(host: &str, variable: impl Fn(&str) -> Option<String>) -> Option<ProxyAddress> {
    let of = |name: &str| variable(name).or_else(|| variable(&name.to_uppercase())).filter(|value| !value.is_empty());
    let host = host.trim_matches(['[', ']']).to_lowercase();
    let is_local = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let is_spared = |spared: &str| {
        let spared = spared.trim().trim_start_matches("*.").trim_start_matches('.').to_lowercase();
        spared == "*" || (!spared.is_empty() && (host == spared || host.ends_with(&format!(".{spared}"))))
    };
    if is_local || of("no_proxy").is_some_and(|list| list.split(',').any(is_spared)) {
        return None;
    }
    ProxyAddress::parse(&of("all_proxy")?)
}

fn tls(connection: &ConnectionConfig) -> TlsSettings {
    let own = connection
        .client_certificate
        .as_ref()
        .map(|own| ClientCertificate { certificate_file: own.cert_file.clone(), key_file: own.key_file.clone() });
    TlsSettings {
        ca_file: connection.ca_file.clone(),
        client_certificate: own,
        server_name: connection.server_name.clone(),
    }
}

fn url(key: &'static str, source: &SecretSource) -> Result<SecretUrl, NotBuilt> {
    SecretUrl::parse(secret(key, source)?.expose()).map_err(|error| NotBuilt::Url(key, error))
}

fn authorization(token: Option<&SecretSource>, login: Option<&Login>) -> Result<Option<Authorization>, NotBuilt> {
    if let Some(token) = token {
        return Ok(Some(Authorization::Bearer(secret("token", token)?)));
    }
    let Some(login) = login else { return Ok(None) };
    let password = secret("password", &login.password)?;
    Ok(Some(Authorization::Basic { user: login.username.clone(), password }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_takes_the_way_out_that_the_environment_names() {
        let proxied = |host: &str, variables: &[(&str, &str)]| {
            let variable =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            usual_mail_proxy(host, variable).is_some()
        };
        let all = ("ALL_PROXY", "socks5://proxy:1080");
        assert!(proxied("mail.example.org", &[all]));
        assert!(proxied("mail.example.org", &[("all_proxy", "http://proxy:3128")]));
        assert!(!proxied("mail.example.org", &[("HTTPS_PROXY", "http://proxy:3128")]), "that is for HTTP");
        assert!(!proxied("mail.example.org", &[("ALL_PROXY", "https://proxy")]), "no way for mail");
        for host in ["localhost", "127.0.0.1", "[::1]"] {
            assert!(!proxied(host, &[all]), "{host}");
        }
        for list in ["example.org", ".example.org", "*.example.org", "a, MAIL.example.org", "*"] {
            assert!(!proxied("mail.example.org", &[all, ("NO_PROXY", list)]), "{list}");
        }
        assert!(proxied("mail.example.org", &[all, ("no_proxy", "ample.org,example.com,")]));
    }
}
