//! Email by SMTP.
//!
//! Delivered is a 2xx after the message (RFC 5321, 4.2.5); 4xx and a broken connection are tried again, 5xx is not. Every
//! attempt carries the same Message-ID, so that a message whose acknowledgement was lost is known as a repeat. A recipient
//! who has the message does not get it again while others are retried. A password is only ever sent over TLS with a
//! certificate that was checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lettre::address::Address;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message, SinglePart};
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, CertificateStore, TlsParameters, TlsParametersBuilder};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::Response;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use reqwest::Url;
use tokio::time::timeout;

use super::mail_stream::MailStream;
use super::preview::{Letter, Preview};
use super::resolver::Resolver;
use super::secret::Secret;
use super::text::{cut_characters, one_line};
use super::tls::{BadTls, TlsSettings, client_config, smtp_parameters};
use super::tunnel::{ProxyAddress, connect};
use super::{Manner, Notice, Outcome, Sending, Target};

/// Characters of a subject: some clients show no more than the first 70, and none needs more than this.
const SUBJECT_CHARACTERS: usize = 200;
/// Messages whose recipients are remembered while some of them are retried.
const MESSAGES_IN_PART: usize = 100;

/// An email target.
#[derive(Debug, Clone)]
pub struct EmailSettings {
    /// The user's name for it.
    pub name: String,
    /// Where to hand it in.
    pub server: SmtpServer,
    /// The sender: an address, or `Name <address>`.
    pub from: String,
    /// The recipients, in the same form.
    pub to: Vec<String>,
    /// Longest time for one connection.
    pub connect_timeout: Duration,
    /// Longest time for the whole send.
    pub timeout: Duration,
    /// Trust and own certificate.
    pub tls: TlsSettings,
    /// The name in the server's certificate, where it is another than the one that is connected to.
    pub server_name: Option<String>,
    /// The way out; none: straight.
    pub proxy: Option<ProxyAddress>,
}

/// A mail server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmtpServer {
    /// When TLS begins.
    pub security: Security,
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// User and password.
    pub credentials: Option<(String, Secret)>,
}

/// When TLS begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// `smtp://`: by STARTTLS where the server offers it. Without a password, the certificate is not checked then: the
    /// same message would go in clear to a server that offers nothing, and the mail server of many hosts has a
    /// certificate that nobody can check.
    StartTlsWhereOffered,
    /// `smtp+starttls://`: by STARTTLS, or nothing is sent.
    StartTls,
    /// `smtps://`: from the first byte.
    Tls,
}

/// A setting that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadEmail {
    /// The server's address. Does not hold it, as a password may stand in it.
    Server(String),
    /// An address of a person.
    Address(String),
    /// Nobody to write to.
    NoRecipient,
    /// The address of a proxy.
    Proxy,
    /// Trust or own certificate.
    Tls(BadTls),
}

impl fmt::Display for BadEmail {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadEmail::Server(why) => {
                write!(out, "`smtp` {why}: smtp://host:port, smtps://host:port or smtp+starttls://host:port is needed")
            }
            BadEmail::Address(address) => write!(out, "`{address}` is no email address: name@host is needed"),
            BadEmail::Proxy => out.write_str(
                "`proxy` is not the address of a proxy for mail: http://, socks5:// or socks5h:// with host and port are",
            ),
            BadEmail::NoRecipient => out.write_str("`to` is empty: at least one recipient is needed"),
            BadEmail::Tls(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for BadEmail {}

impl From<BadTls> for BadEmail {
    fn from(error: BadTls) -> Self {
        BadEmail::Tls(error)
    }
}

impl SmtpServer {
    /// Reads `smtp://`, `smtps://` or `smtp+starttls://` with host, and port and `user:password@` where needed. The ports
    /// are 25, 465 and 587 if none is given.
    pub fn parse(text: &str) -> Result<SmtpServer, BadEmail> {
        let url = Url::parse(text.trim()).map_err(|error| BadEmail::Server(format!("is no address ({error})")))?;
        let (security, usual_port) = match url.scheme() {
            "smtp" => (Security::StartTlsWhereOffered, 25),
            "smtp+starttls" => (Security::StartTls, 587),
            "smtps" => (Security::Tls, 465),
            other => return Err(BadEmail::Server(format!("begins with `{other}://`"))),
        };
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| BadEmail::Server("has no host".into()))?.to_owned();
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let credentials = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => Some((decode(user), Secret::new(decode(password.unwrap_or_default())))),
        };
        Ok(SmtpServer { security, host, port: url.port().unwrap_or(usual_port), credentials })
    }
}

/// The receiver.
pub struct Email {
    settings: EmailSettings,
    from: Mailbox,
    to: Vec<Mailbox>,
    /// What STARTTLS begins.
    start_tls: TlsParameters,
    /// TLS from the first byte, where the server wants that.
    tls: Option<Arc<rustls::ClientConfig>>,
    hello: ClientId,
    resolver: Resolver,
    preview: Option<Arc<Preview>>,
    /// Who has a message of which others are still to get theirs.
    in_part: Mutex<BTreeMap<String, BTreeSet<Address>>>,
}

/// Why a send did not come to its end.
enum Failure {
    /// The server's word, or a fault of the connection.
    Smtp(&'static str, SmtpError),
    /// Before there was a connection.
    Unreachable(String),
    /// Sending would break a promise about TLS.
    Unsafe(String),
    /// The message cannot be built.
    Message(String),
}

impl Email {
    /// Makes the receiver.
    pub fn new(settings: EmailSettings, resolver: Resolver) -> Result<Email, BadEmail> {
        let from = mailbox(&settings.from)?;
        let to = settings.to.iter().map(|address| mailbox(address)).collect::<Result<Vec<_>, _>>()?;
        if to.is_empty() {
            return Err(BadEmail::NoRecipient);
        }
        let server = &settings.server;
        let tls = (server.security == Security::Tls).then(|| {
            let server_name = settings.server_name.clone();
            client_config(&TlsSettings { server_name, ..settings.tls.clone() }).map(Arc::new)
        });
        let tls = tls.transpose()?;
        let name = settings.server_name.as_deref().unwrap_or(&server.host);
        let is_checked = server.security != Security::StartTlsWhereOffered || server.credentials.is_some();
        let start_tls = if is_checked { smtp_parameters(&settings.tls, name)? } else { unchecked(name)? };
        let (hello, in_part) = (ClientId::default(), Mutex::default());
        Ok(Email { settings, from, to, start_tls, tls, hello, resolver, preview: None, in_part })
    }

    /// Sends nothing: hands to `preview` what would be sent, where there is one.
    pub fn with_preview(self, preview: Option<Arc<Preview>>) -> Email {
        Email { preview, ..self }
    }

    fn letter(&self, notice: &Notice) -> Letter {
        let to: Vec<String> = self.to.iter().map(Mailbox::to_string).collect();
        let subject = cut_characters(&one_line(&notice.alert.title), SUBJECT_CHARACTERS);
        let headers = [("From", self.from.to_string()), ("To", to.join(", ")), ("Subject", subject)];
        let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Letter { to: format!("mail to {}", self.host()), headers, body: notice.alert.text.clone() }
    }

    async fn deliver(&self, notice: &Notice) -> Outcome {
        if let Some(preview) = &self.preview {
            return preview.take(self.letter(notice));
        }
        let limit = self.settings.timeout;
        match timeout(limit, self.send_to_those_without(notice)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(failure)) => self.outcome(failure),
            Err(_) => {
                Outcome::retry(format!("{} did not take the message within {} ms", self.host(), limit.as_millis()))
            }
        }
    }

    async fn send_to_those_without(&self, notice: &Notice) -> Result<Outcome, Failure> {
        let message = self.message(notice)?;
        let has_it = self.in_part.lock().get(&notice.message_id).cloned().unwrap_or_default();
        let recipients: Vec<&Address> =
            self.to.iter().map(|to| &to.email).filter(|address| !has_it.contains(address)).collect();
        let mut connection = self.connect().await?;
        connection
            .command(Mail::new(Some(self.from.email.clone()), Vec::new()))
            .await
            .map_err(|error| Failure::Smtp("the sender", error))?;
        let (mut accepted, mut later, mut never) = (Vec::new(), Vec::new(), Vec::new());
        for recipient in recipients {
            match connection.command(Rcpt::new(recipient.clone(), Vec::new())).await {
                Ok(_) => accepted.push(recipient.clone()),
                Err(error) if error.is_transient() => later.push(format!("{recipient}: {error}")),
                Err(error) if error.is_permanent() => never.push(format!("{recipient}: {error}")),
                Err(error) => return Err(Failure::Smtp("a recipient", error)),
            }
        }
        let mut receipt = None;
        if !accepted.is_empty() {
            connection.command(Data).await.map_err(|error| Failure::Smtp("the message", error))?;
            let response = connection.message(&message).await.map_err(|error| Failure::Smtp("the message", error))?;
            receipt = Some(text(&response));
        }
        // The message is handed in; what becomes of the connection does not matter any more.
        let _ = timeout(Duration::from_secs(1), connection.quit()).await;
        Ok(self.settle(notice, accepted, receipt, &later, &never))
    }

    fn settle(
        &self,
        notice: &Notice,
        accepted: Vec<Address>,
        receipt: Option<String>,
        later: &[String],
        never: &[String],
    ) -> Outcome {
        let mut in_part = self.in_part.lock();
        if later.is_empty() {
            in_part.remove(&notice.message_id);
            if never.is_empty() {
                return Outcome::Delivered { receipt };
            }
            let others = if never.len() < self.to.len() { "; the other recipients have it" } else { "" };
            return Outcome::reject(format!("{} refuses {}{others}", self.host(), never.join(", ")));
        }
        while in_part.len() >= MESSAGES_IN_PART && !in_part.contains_key(&notice.message_id) {
            in_part.pop_first();
        }
        in_part.entry(notice.message_id.clone()).or_default().extend(accepted);
        Outcome::retry(format!("{} puts off {}", self.host(), later.join(", ")))
    }

    /// A connection that is ready for a message: with TLS and a user as the settings ask for.
    async fn connect(&self) -> Result<AsyncSmtpConnection, Failure> {
        let server = &self.settings.server;
        let is_tls = server.security == Security::Tls;
        let mut connection = self.open().await?;
        if !is_tls {
            connection = self.start_tls(connection).await?;
        }
        let Some((user, password)) = &server.credentials else { return Ok(connection) };
        if !is_tls && !connection.is_encrypted() {
            return Err(Failure::Unsafe(format!(
                "{} offers no STARTTLS, and a password is never sent without TLS",
                self.host()
            )));
        }
        let credentials = Credentials::new(user.clone(), password.expose().to_owned());
        connection
            .auth(DEFAULT_MECHANISMS, &credentials)
            .await
            .map_err(|error| Failure::Smtp("user and password", error))?;
        Ok(connection)
    }

    async fn start_tls(&self, mut connection: AsyncSmtpConnection) -> Result<AsyncSmtpConnection, Failure> {
        let server = &self.settings.server;
        let may_be_clear = server.security == Security::StartTlsWhereOffered;
        if !connection.can_starttls() {
            return match may_be_clear {
                true => Ok(connection),
                false => Err(Failure::Unsafe(format!("{} offers no STARTTLS", self.host()))),
            };
        }
        match connection.starttls(self.start_tls.clone(), &self.hello).await {
            Ok(()) => Ok(connection),
            // Offered, but unusable; where nothing secret is sent, a message in clear beats none.
            Err(_) if may_be_clear && server.credentials.is_none() => self.open().await,
            Err(error) => Err(Failure::Smtp("STARTTLS", error)),
        }
    }

    /// A connection that has greeted.
    async fn open(&self) -> Result<AsyncSmtpConnection, Failure> {
        let stream = self.stream().await.map_err(Failure::Unreachable)?;
        AsyncSmtpConnection::connect_with_transport(Box::new(stream), &self.hello)
            .await
            .map_err(|error| Failure::Smtp("the connection", error))
    }

    async fn stream(&self) -> Result<MailStream, String> {
        let SmtpServer { host, port, .. } = &self.settings.server;
        let (limit, resolver) = (self.settings.connect_timeout, &self.resolver);
        let stream = match &self.settings.proxy {
            Some(proxy) => proxy.open(host, *port, resolver, limit).await?,
            None => {
                let stream = connect(host, *port, resolver, limit).await;
                stream.map_err(|why| format!("no connection to {}: {why}", self.host()))?
            }
        };
        let Some(config) = &self.tls else { return Ok(MailStream::clear(stream)) };
        let opened = timeout(limit, MailStream::tls(stream, host, Arc::clone(config))).await;
        let opened = opened.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        opened.map_err(|error| format!("no TLS with {}: {error}", self.host()))
    }

    fn message(&self, notice: &Notice) -> Result<Vec<u8>, Failure> {
        let alert = &notice.alert;
        let id = |id: &str| format!("<{id}@{}>", self.from.email.domain());
        let mut builder = Message::builder()
            .from(self.from.clone())
            .subject(cut_characters(&one_line(&alert.title), SUBJECT_CHARACTERS))
            .message_id(Some(id(&notice.message_id)))
            .date(SystemTime::UNIX_EPOCH + Duration::try_from(alert.occurred_at.as_duration()).unwrap_or_default())
            .header(AutoSubmitted);
        for to in &self.to {
            builder = builder.to(to.clone());
        }
        if notice.message_id != alert.id {
            // What follows an alert is shown with it.
            builder = builder.in_reply_to(id(&alert.id)).references(id(&alert.id));
        }
        let body = SinglePart::builder().header(ContentType::TEXT_PLAIN).body(alert.text.clone());
        builder.singlepart(body).map(|message| message.formatted()).map_err(|error| Failure::Message(error.to_string()))
    }

    fn outcome(&self, failure: Failure) -> Outcome {
        let host = self.host();
        match failure {
            Failure::Smtp(what, error) if error.is_permanent() || error.is_client() => {
                Outcome::reject(format!("{host} refuses {what}: {error}"))
            }
            Failure::Smtp(what, error) => Outcome::retry(format!("{host}: {what}: {error}")),
            Failure::Unreachable(why) => Outcome::retry(why),
            Failure::Unsafe(why) => Outcome::reject(why),
            Failure::Message(why) => Outcome::reject(format!("the message cannot be built: {why}")),
        }
    }

    fn host(&self) -> String {
        format!("{}:{}", self.settings.server.host, self.settings.server.port)
    }
}

impl Target for Email {
    fn name(&self) -> &str {
        &self.settings.name
    }
    fn kind(&self) -> &'static str {
        "email"
    }
    fn manner(&self) -> Manner {
        // A limit of our own: relays block senders that flood.
        Manner::people(30, Duration::from_secs(60))
    }
    fn send<'a>(&'a self, notice: &'a Notice) -> Sending<'a> {
        Box::pin(self.deliver(notice))
    }
}

/// Keeps absence notes from answering (RFC 3834, 5).
#[derive(Debug, Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }
    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(AutoSubmitted)
    }
    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".into())
    }
}

fn mailbox(text: &str) -> Result<Mailbox, BadEmail> {
    text.trim().parse().map_err(|_| BadEmail::Address(text.to_owned()))
}

fn unchecked(host: &str) -> Result<TlsParameters, BadTls> {
    TlsParametersBuilder::new(host.to_owned())
        .certificate_store(CertificateStore::None)
        .dangerous_accept_invalid_certs(true)
        .dangerous_accept_invalid_hostnames(true)
        .build()
        .map_err(|error| BadTls { file: None, reason: error.to_string() })
}

fn text(response: &Response) -> String {
    one_line(&format!("{} {}", response.code(), response.message().collect::<Vec<_>>().join(" ")))
}

#[cfg(test)]
mod tests {
    use super::super::fake::TestCertificate;
    use super::super::fake_smtp::{FakeSmtp, Script};
    use super::*;
    use crate::delivery::test_notice;

    async fn email(server: &FakeSmtp, url: &str, change: impl FnOnce(&mut EmailSettings)) -> Email {
        let mut smtp = SmtpServer::parse(url).unwrap();
        smtp.port = server.port();
        let mut settings = EmailSettings {
            name: "mail".into(),
            server: smtp,
            from: "Leaderwatch <leaderwatch@example.com>".into(),
            to: vec!["ops@example.com".into(), "dev@example.com".into()],
            connect_timeout: Duration::from_secs(2),
            timeout: Duration::from_secs(2),
            tls: TlsSettings { ca_file: server.ca_file(), ..TlsSettings::default() },
            server_name: None,
            proxy: None,
        };
        change(&mut settings);
        Email::new(settings, Resolver::default()).unwrap()
    }

    fn delivered() -> Outcome {
        Outcome::Delivered { receipt: Some("250 queued as 1".into()) }
    }

    fn reason(outcome: Outcome) -> String {
        match outcome {
            Outcome::Retry { reason, .. } => format!("retry {reason}"),
            Outcome::Reject { reason } => format!("reject {reason}"),
            Outcome::Delivered { .. } => panic!("delivered"),
        }
    }

    #[tokio::test]
    async fn a_message_is_handed_in_with_all_that_people_need() {
        let server = FakeSmtp::start(Script::default()).await;
        let mut notice = test_notice("0123abcd", "第一行\nsecond line");
        notice.alert.title = "领导者 moved\r\nBcc: evil@example.com".into();
        assert_eq!(email(&server, "smtp://localhost", |_| {}).await.send(&notice).await, delivered());
        let message = server.messages().remove(0);
        assert!(message.contains("From: Leaderwatch <leaderwatch@example.com>\r\n"), "{message}");
        assert!(message.contains("Message-ID: <0123abcd@example.com>\r\n"));
        assert!(message.contains("Auto-Submitted: auto-generated\r\n"));
        assert!(message.contains("Date: Thu, 01 Jan 1970 00:00:00 +0000\r\n"));
        assert!(message.contains("Content-Type: text/plain; charset=utf-8\r\n"));
        assert!(message.contains("To: ops@example.com, dev@example.com\r\n"));
        assert!(message.is_ascii() && !message.contains("\r\nBcc:"), "{message}");
        assert!(message.contains("Subject: =?utf-8?b?"), "{message}");
        assert_eq!(server.recipients(), [["ops@example.com", "dev@example.com"]]);
    }

    #[tokio::test]
    async fn what_follows_an_alert_refers_to_it() {
        let server = FakeSmtp::start(Script::default()).await;
        let mut notice = test_notice("0123abcd", "text");
        notice.message_id = "0123abcd-resolved".into();
        assert_eq!(email(&server, "smtp://localhost", |_| {}).await.send(&notice).await, delivered());
        let message = server.messages().remove(0);
        assert!(message.contains("Message-ID: <0123abcd-resolved@example.com>\r\n"));
        assert!(message.contains("References: <0123abcd@example.com>\r\n"));
    }

    #[tokio::test]
    async fn starttls_is_used_where_it_is_offered_even_with_a_certificate_that_nobody_can_check() {
        let tls = Some(TestCertificate::new("other.example"));
        let server = FakeSmtp::start(Script { starttls: true, tls, ..Script::default() }).await;
        let email = email(&server, "smtp://localhost", |settings| settings.tls = TlsSettings::default()).await;
        assert_eq!(email.send(&test_notice("1", "text")).await, delivered());
        assert_eq!(server.encrypted(), [true]);
    }

    #[tokio::test]
    async fn where_starttls_is_offered_but_broken_the_message_goes_in_clear_unless_there_is_a_password() {
        let script = || Script { starttls: true, tls: None, ..Script::default() };
        let server = FakeSmtp::start(script()).await;
        let open = email(&server, "smtp://localhost", |_| {}).await;
        assert_eq!(open.send(&test_notice("1", "text")).await, delivered());
        assert_eq!(server.encrypted(), [false]);

        let server = FakeSmtp::start(script()).await;
        let secret = email(&server, "smtp://user:hunter2@localhost", |_| {}).await;
        let reason = reason(secret.send(&test_notice("1", "text")).await);
        assert!(reason.starts_with("retry localhost:") && reason.contains("STARTTLS"), "{reason}");
        assert!(!server.transcript().contains("AUTH"));
    }

    #[tokio::test]
    async fn a_password_goes_over_checked_tls_only() {
        let credentials = Some(("user".to_owned(), "hunter2".to_owned()));
        let plain = FakeSmtp::start(Script { credentials: credentials.clone(), ..Script::default() }).await;
        let sent = email(&plain, "smtp://user:hunter2@localhost", |_| {}).await.send(&test_notice("1", "text")).await;
        let expected =
            format!("reject localhost:{} offers no STARTTLS, and a password is never sent without TLS", plain.port());
        assert_eq!(reason(sent), expected);
        assert!(!plain.transcript().contains("AUTH"));

        let tls = || Some(TestCertificate::new("localhost"));
        let script = Script { starttls: true, tls: tls(), credentials: credentials.clone(), ..Script::default() };
        let server = FakeSmtp::start(script).await;
        let known = email(&server, "smtp://user:hunter2@localhost", |_| {}).await;
        assert_eq!(known.send(&test_notice("1", "text")).await, delivered());
        let unknown =
            email(&server, "smtp://user:hunter2@localhost", |settings| settings.tls = TlsSettings::default()).await;
        let reason_unknown = reason(unknown.send(&test_notice("1", "text")).await);
        assert!(reason_unknown.starts_with("retry ") && reason_unknown.contains("certificate"), "{reason_unknown}");
        assert_eq!(server.encrypted(), [true]);
    }

    #[tokio::test]
    async fn tls_from_the_first_byte_and_a_password_that_is_wrong() {
        let script = Script {
            implicit_tls: true,
            tls: Some(TestCertificate::new("localhost")),
            credentials: Some(("user".into(), "right".into())),
            ..Script::default()
        };
        let server = FakeSmtp::start(script).await;
        let right = email(&server, "smtps://user:right@localhost", |_| {}).await;
        assert_eq!(right.send(&test_notice("1", "text")).await, delivered());
        let wrong = email(&server, "smtps://user:hunter2@localhost", |_| {}).await;
        let reason = reason(wrong.send(&test_notice("1", "text")).await);
        assert!(reason.starts_with("reject ") && reason.contains("535"), "{reason}");
        assert!(!reason.contains("hunter2"));
    }

    /// A proxy that takes one CONNECT and carries bytes to and fro; and what it was asked for.
    async fn connect_proxy(port: u16) -> (ProxyAddress, tokio::task::JoinHandle<String>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = ProxyAddress::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let task = tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let request = super::super::fake::read_request(&mut client).await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut client, b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let mut server = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            // Ends as the two do.
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            format!("{} {}", request.method, request.target)
        });
        (address, task)
    }

    #[tokio::test]
    async fn through_a_proxy_it_goes_by_starttls_with_a_checked_certificate() {
        let tls = Some(TestCertificate::new("mail.example"));
        let credentials = Some(("user".to_owned(), "right".to_owned()));
        let server = FakeSmtp::start(Script { starttls: true, tls, credentials, ..Script::default() }).await;
        let (proxy, proxied) = connect_proxy(server.port()).await;
        // Only the proxy knows the way to this name.
        let email = email(&server, "smtp+starttls://user:right@mail.example", |email| email.proxy = Some(proxy)).await;
        assert_eq!(email.send(&test_notice("abc", "text")).await, delivered());
        assert_eq!(proxied.await.unwrap(), format!("CONNECT mail.example:{}", server.port()));
    }

    #[tokio::test]
    async fn through_a_proxy_it_goes_by_tls_from_the_first_byte() {
        let tls = Some(TestCertificate::new("mail.example"));
        let credentials = Some(("user".to_owned(), "right".to_owned()));
        let server = FakeSmtp::start(Script { implicit_tls: true, tls, credentials, ..Script::default() }).await;
        let (proxy, proxied) = connect_proxy(server.port()).await;
        let through = |proxy| move |email: &mut EmailSettings| email.proxy = Some(proxy);
        let right = email(&server, "smtps://user:right@mail.example", through(proxy)).await;
        assert_eq!(right.send(&test_notice("abc", "text")).await, delivered());
        assert_eq!(proxied.await.unwrap(), format!("CONNECT mail.example:{}", server.port()));
        // The password does not go to somebody else.
        let (proxy, _proxied) = connect_proxy(server.port()).await;
        let other = email(&server, "smtps://user:right@other.example", through(proxy)).await;
        let reason = reason(other.send(&test_notice("abc", "text")).await);
        assert!(reason.contains("no TLS with other.example") && reason.contains("certificate"), "{reason}");
    }

    #[tokio::test]
    async fn a_server_that_asks_who_we_are_is_shown_our_certificate() {
        for (scheme, implicit_tls) in [("smtps", true), ("smtp+starttls", false)] {
            let tls = Some(TestCertificate::new("localhost").asking_for_clients());
            let client = tls.as_ref().unwrap().client_certificate();
            let script = Script { starttls: !implicit_tls, implicit_tls, tls, ..Script::default() };
            let server = FakeSmtp::start(script).await;
            let url = format!("{scheme}://localhost");
            let known = email(&server, &url, |email| email.tls.client_certificate = Some(client)).await;
            assert_eq!(known.send(&test_notice("abc", "text")).await, delivered(), "{scheme}");
            let unknown = email(&server, &url, |_| {}).await;
            let reason = reason(unknown.send(&test_notice("abc", "text")).await);
            assert!(reason.starts_with("retry "), "{scheme}: {reason}");
        }
    }

    #[tokio::test]
    async fn a_proxy_that_is_gone_may_be_back_later() {
        let server = FakeSmtp::start(Script::default()).await;
        let proxy = ProxyAddress::parse("http://127.0.0.1:1");
        let email = email(&server, "smtp://mail.example", |email| email.proxy.clone_from(&proxy)).await;
        let Outcome::Retry { reason, .. } = email.send(&test_notice("abc", "text")).await else { panic!("no retry") };
        assert!(reason.starts_with("no connection to the proxy 127.0.0.1:1"), "{reason}");
    }

    #[tokio::test]
    async fn starttls_or_nothing() {
        let server = FakeSmtp::start(Script::default()).await;
        let email = email(&server, "smtp+starttls://localhost", |_| {}).await;
        let reason = reason(email.send(&test_notice("1", "text")).await);
        assert_eq!(reason, format!("reject localhost:{} offers no STARTTLS", server.port()));
        assert!(server.messages().is_empty());
    }

    #[tokio::test]
    async fn a_name_of_its_own_can_be_given_for_the_certificate() {
        let tls = Some(TestCertificate::new("mail.example.com"));
        let server = FakeSmtp::start(Script { implicit_tls: true, tls, ..Script::default() }).await;
        let named =
            email(&server, "smtps://localhost", |settings| settings.server_name = Some("mail.example.com".into()))
                .await;
        assert_eq!(named.send(&test_notice("1", "text")).await, delivered());
    }

    #[tokio::test]
    async fn refusals_are_told_from_troubles() {
        for (command, reply, expected) in [
            ("MAIL", "451 try later", "retry"),
            ("MAIL", "550 no", "reject"),
            ("DATA", "452 full", "retry"),
            ("DATA", "554 spam", "reject"),
            (".", "451 try later", "retry"),
            (".", "552 too big", "reject"),
            ("EHLO", "421 busy", "retry"),
            ("CONNECT", "554 no service", "reject"),
            ("CONNECT", "421 busy", "retry"),
            (".", "close", "retry"),
            ("MAIL", "silence", "retry"),
            ("CONNECT", "endless", "retry"),
            ("EHLO", "endless", "retry"),
            (".", "endless", "retry"),
            ("CONNECT", "drip", "retry"),
            (".", "drip", "retry"),
            ("EHLO", "half", "retry"),
            (".", "half", "retry"),
            (".", "nonsense", "retry"),
        ] {
            let server = FakeSmtp::start(Script::default().answer(command, reply)).await;
            let email =
                email(&server, "smtp://localhost", |settings| settings.timeout = Duration::from_millis(500)).await;
            let reason = reason(email.send(&test_notice("1", "text")).await);
            assert!(reason.starts_with(&format!("{expected} localhost:")), "{command} {reply}: {reason}");
        }
    }

    /// Not for as long as the whole send may take, and without keeping what it says.
    #[tokio::test]
    async fn a_server_that_talks_without_end_is_left() {
        let tls = || Some(TestCertificate::new("localhost"));
        for (scheme, implicit_tls, starttls) in
            [("smtp", false, false), ("smtps", true, false), ("smtp+starttls", false, true)]
        {
            let script = Script { implicit_tls, starttls, tls: tls(), ..Script::default() };
            let server = FakeSmtp::start(script.answer(".", "endless")).await;
            let patient = |settings: &mut EmailSettings| settings.timeout = Duration::from_secs(600);
            let email = email(&server, &format!("{scheme}://localhost"), patient).await;
            let reason = reason(email.send(&test_notice("1", "text")).await);
            assert!(reason.starts_with("retry ") && reason.contains("says more than 48 KB"), "{scheme}: {reason}");
        }
    }

    #[tokio::test]
    async fn one_bad_recipient_does_not_cost_the_others_their_message() {
        let server = FakeSmtp::start(Script::default().answer("RCPT TO:<ops@example.com>", "550 no such user")).await;
        let email = email(&server, "smtp://localhost", |_| {}).await;
        let reason = reason(email.send(&test_notice("1", "text")).await);
        assert!(reason.contains("ops@example.com") && reason.ends_with("; the other recipients have it"), "{reason}");
        assert_eq!(server.recipients(), [["dev@example.com"]]);
    }

    #[tokio::test]
    async fn who_has_the_message_does_not_get_it_again_while_others_are_retried() {
        let script = Script::default().answer_once("RCPT TO:<ops@example.com>", "452 mailbox full");
        let server = FakeSmtp::start(script).await;
        let email = email(&server, "smtp://localhost", |_| {}).await;
        let reason = reason(email.send(&test_notice("1", "text")).await);
        assert!(reason.starts_with("retry ") && reason.contains("ops@example.com"), "{reason}");
        assert_eq!(email.send(&test_notice("1", "text")).await, delivered());
        assert_eq!(server.recipients(), [["dev@example.com"], ["ops@example.com"]]);
    }

    #[test]
    fn addresses_of_servers_are_read() {
        let server = SmtpServer::parse("smtps://user%40example.com:p%3Aw@mail.example.com").unwrap();
        assert_eq!((server.security, server.port, server.host.as_str()), (Security::Tls, 465, "mail.example.com"));
        assert_eq!(server.credentials, Some(("user@example.com".into(), Secret::new("p:w"))));
        assert_eq!(SmtpServer::parse("smtp://127.0.0.1:25").unwrap().port, 25);
        assert_eq!(SmtpServer::parse("smtp+starttls://h").unwrap().port, 587);
        for bad in ["mail.example.com:25", "http://h", "smtp://", "smtp://h:99999"] {
            assert!(matches!(SmtpServer::parse(bad), Err(BadEmail::Server(_))), "{bad}");
        }
        let error = SmtpServer::parse("imap://user:hunter2@h").unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }
}
