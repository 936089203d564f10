//! Makes targets of what the configuration says of them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Target;
use super::email::{BadEmail, Email, EmailSettings, Security, SmtpServer};
use super::http::{BadHttp, HttpClient, HttpSettings, Proxy};
use super::resolver::Resolver;
use super::secret::{BadUrl, Secret, SecretUrl};
use super::tls::{ClientCertificate, TlsSettings};
use super::webhook::{Authorization, BadKey, SigningKey, Webhook, WebhookSettings};
use crate::clock::Clock;
use crate::config::{
    ConnectionConfig, EmailConfig, KindSettings, Login, SecretError, SecretSource, SmtpSecurity, TargetSettings,
    WebhookConfig,
};

/// Longest time until a connection stands; within the target's whole time limit.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

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
}

impl fmt::Display for NotBuilt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotBuilt::Secret(key, error) => write!(out, "`{key}`: {error}; {}", error.cure()),
            NotBuilt::Url(key, error) => write!(out, "`{key}` {error}"),
            NotBuilt::Key(key, error) => write!(out, "`{key}`: {error}"),
            NotBuilt::Http(error) => error.fmt(out),
            NotBuilt::Email(error) => error.fmt(out),
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

/// Makes targets that share one resolver.
pub struct Builder {
    resolver: Resolver,
    clock: Arc<dyn Clock>,
}

impl Builder {
    /// Looks names up as the system does.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { resolver: Resolver::default(), clock }
    }

    /// Makes one target. Reads the files of its secrets and certificates.
    pub fn build(&self, settings: &TargetSettings) -> Result<Arc<dyn Target>, NotBuilt> {
        let connection = &settings.connection;
        match &settings.kind {
            KindSettings::Webhook(config) => self.webhook(&settings.name, config, connection),
            KindSettings::Email(config) => self.email(&settings.name, config, connection),
            other => Err(NotBuilt::Kind(other.name())),
        }
    }

    fn webhook(
        &self,
        name: &str,
        config: &WebhookConfig,
        connection: &ConnectionConfig,
    ) -> Result<Arc<dyn Target>, NotBuilt> {
        let client_certificate = config
            .client_certificate
            .as_ref()
            .map(|own| ClientCertificate { certificate_file: own.cert_file.clone(), key_file: own.key_file.clone() });
        let key =
            |source| SigningKey::parse(secret("secret", source)?.expose()).map_err(|e| NotBuilt::Key("secret", e));
        let header = |(header, source): &(String, SecretSource)| Ok((header.clone(), secret("headers", source)?));
        let settings = WebhookSettings {
            name: name.to_owned(),
            url: url("url", &config.url)?,
            keys: config.secrets.iter().map(key).collect::<Result<_, _>>()?,
            authorization: authorization(config.token.as_ref(), config.login.as_ref())?,
            headers: config.headers.iter().map(header).collect::<Result<_, NotBuilt>>()?,
        };
        let http = self.http(connection, client_certificate)?;
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
            tls: TlsSettings { ca_file: connection.ca_file.clone(), client_certificate: None },
            server_name: None,
        };
        Ok(Arc::new(Email::new(settings, self.resolver.clone())?))
    }

    fn http(
        &self,
        connection: &ConnectionConfig,
        client_certificate: Option<ClientCertificate>,
    ) -> Result<HttpClient, NotBuilt> {
        let proxy = match &connection.proxy {
            Some(source) => Proxy::Url(secret("proxy", source)?),
            None => Proxy::Environment,
        };
        let settings = HttpSettings {
            connect_timeout: CONNECT_TIMEOUT.min(connection.timeout),
            timeout: connection.timeout,
            proxy,
            tls: TlsSettings { ca_file: connection.ca_file.clone(), client_certificate },
        };
        Ok(HttpClient::new(&settings, &self.resolver)?)
    }
}

fn secret(key: &'static str, source: &SecretSource) -> Result<Secret, NotBuilt> {
    let secret = source.current().map_err(|error| NotBuilt::Secret(key, error))?;
    Ok(Secret::new(secret.expose()))
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
