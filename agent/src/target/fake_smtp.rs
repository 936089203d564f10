//! A mail server on loopback for tests: it answers as told, and notes what it got.

use std::collections::BTreeMap;
use std::io::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::fake::TestCertificate;

/// What a mail server does.
#[derive(Default)]
pub(crate) struct Script {
    /// Offers STARTTLS; without a certificate the handshake fails.
    pub(crate) starttls: bool,
    pub(crate) implicit_tls: bool,
    pub(crate) tls: Option<TestCertificate>,
    /// Offers AUTH PLAIN and wants these.
    pub(crate) credentials: Option<(String, String)>,
    /// Answers by the beginning of a command; `CONNECT` stands for the greeting, `.` for the end of the message. The
    /// answers `close`, `silence`, `half` (of a reply, and gone), `endless` and `drip` (a byte now and then) are acts.
    pub(crate) answers: BTreeMap<String, (String, bool)>,
}

impl Script {
    pub(crate) fn answer(mut self, command: &str, reply: &str) -> Script {
        self.answers.insert(command.to_owned(), (reply.to_owned(), false));
        self
    }

    pub(crate) fn answer_once(mut self, command: &str, reply: &str) -> Script {
        self.answers.insert(command.to_owned(), (reply.to_owned(), true));
        self
    }
}

#[derive(Default)]
struct Seen {
    transcript: String,
    messages: Vec<String>,
    recipients: Vec<Vec<String>>,
    encrypted: Vec<bool>,
}

/// A mail server.
pub(crate) struct FakeSmtp {
    port: u16,
    ca_file: Option<PathBuf>,
    seen: Arc<Mutex<Seen>>,
    script: Arc<Mutex<Script>>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

struct Session {
    script: Arc<Mutex<Script>>,
    seen: Arc<Mutex<Seen>>,
    acceptor: Option<TlsAcceptor>,
    stream: BufReader<Box<dyn Stream>>,
    is_encrypted: bool,
}

impl FakeSmtp {
    pub(crate) async fn start(script: Script) -> FakeSmtp {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = script.tls.as_ref().map(TestCertificate::acceptor);
        let ca_file = script.tls.as_ref().map(TestCertificate::ca_file);
        let is_encrypted = script.implicit_tls;
        let (seen, script) = (Arc::<Mutex<Seen>>::default(), Arc::new(Mutex::new(script)));
        let server = FakeSmtp { port, ca_file, seen: Arc::clone(&seen), script: Arc::clone(&script) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let stream: Box<dyn Stream> = match &acceptor {
                    Some(acceptor) if is_encrypted => match acceptor.accept(stream).await {
                        Ok(stream) => Box::new(stream),
                        Err(_) => continue,
                    },
                    _ => Box::new(stream),
                };
                let session = Session {
                    script: Arc::clone(&script),
                    seen: Arc::clone(&seen),
                    acceptor: acceptor.clone(),
                    stream: BufReader::new(stream),
                    is_encrypted,
                };
                // A session ends with an error when the client goes, as some tests want it to.
                tokio::spawn(session.run());
            }
        });
        server
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn ca_file(&self) -> Option<PathBuf> {
        self.ca_file.clone()
    }

    pub(crate) fn messages(&self) -> Vec<String> {
        self.seen.lock().messages.clone()
    }

    /// The recipients of each message.
    pub(crate) fn recipients(&self) -> Vec<Vec<String>> {
        self.seen.lock().recipients.clone()
    }

    /// Whether each message came over TLS.
    pub(crate) fn encrypted(&self) -> Vec<bool> {
        self.seen.lock().encrypted.clone()
    }

    pub(crate) fn transcript(&self) -> String {
        // The script lives as long as the server, and with it the folder of its certificate.
        let _ = &self.script;
        self.seen.lock().transcript.clone()
    }
}

impl Session {
    async fn run(mut self) -> Result<()> {
        self.answer("CONNECT", "220 fake ESMTP").await?;
        let mut recipients = Vec::new();
        loop {
            let line = self.line().await?;
            let verb = line.split([' ', ':']).next().unwrap_or_default().to_uppercase();
            match verb.as_str() {
                "EHLO" => {
                    let hello = self.hello();
                    self.answer("EHLO", &hello).await?;
                }
                "STARTTLS" => {
                    self.answer("STARTTLS", "220 go").await?;
                    self = self.encrypt().await?;
                }
                "AUTH" => {
                    let reply = if self.knows(&line) { "235 welcome" } else { "535 5.7.8 wrong user or password" };
                    self.answer("AUTH", reply).await?;
                }
                "RCPT" => {
                    if self.answer(&line, "250 ok").await? {
                        let address = line.split(['<', '>']).nth(1).unwrap_or_default();
                        recipients.push(address.to_owned());
                    }
                }
                "DATA" => {
                    if self.answer("DATA", "354 go").await? {
                        let message = self.message().await?;
                        if self.answer(".", "250 queued as 1").await? {
                            let mut seen = self.seen.lock();
                            seen.messages.push(message);
                            seen.recipients.push(std::mem::take(&mut recipients));
                            seen.encrypted.push(self.is_encrypted);
                        }
                    }
                }
                "QUIT" => {
                    self.answer("QUIT", "221 bye").await?;
                    return Ok(());
                }
                _ => {
                    self.answer(&line, "250 ok").await?;
                }
            }
        }
    }

    fn hello(&self) -> String {
        let script = self.script.lock();
        let mut hello = "250-fake\r\n".to_owned();
        if script.starttls && !self.is_encrypted {
            hello.push_str("250-STARTTLS\r\n");
        }
        if script.credentials.is_some() {
            hello.push_str("250-AUTH PLAIN LOGIN\r\n");
        }
        hello + "250 8BITMIME"
    }

    fn knows(&self, line: &str) -> bool {
        let script = self.script.lock();
        let Some((user, password)) = &script.credentials else { return false };
        line.ends_with(&BASE64_STANDARD.encode(format!("\0{user}\0{password}")))
    }

    async fn encrypt(self) -> Result<Session> {
        let acceptor = self.acceptor.clone().ok_or_else(|| Error::other("no certificate"))?;
        let stream: Box<dyn Stream> = Box::new(acceptor.accept(self.stream.into_inner()).await?);
        Ok(Session { stream: BufReader::new(stream), is_encrypted: true, ..self })
    }

    /// Answers a command as the script says, or as usual. Says whether the answer is positive.
    async fn answer(&mut self, command: &str, usual: &str) -> Result<bool> {
        let reply = {
            let mut script = self.script.lock();
            let key = script.answers.keys().find(|key| command.starts_with(key.as_str())).cloned();
            match key.as_ref().and_then(|key| script.answers.get(key)).cloned() {
                Some((reply, is_once)) => {
                    if let (true, Some(key)) = (is_once, &key) {
                        script.answers.remove(key);
                    }
                    reply
                }
                None => usual.to_owned(),
            }
        };
        match reply.as_str() {
            "close" => return Err(Error::other("told to close")),
            "silence" => tokio::time::sleep(Duration::from_secs(3600)).await,
            "half" => {
                self.stream.write_all(b"250-ha").await?;
                self.stream.flush().await?;
                return Err(Error::other("told to go in the middle"));
            }
            "endless" => loop {
                self.stream.write_all(format!("250-{}\r\n", "and so on ".repeat(40)).as_bytes()).await?;
            },
            "drip" => loop {
                self.stream.write_all(b"2").await?;
                self.stream.flush().await?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            },
            reply => self.stream.write_all(format!("{reply}\r\n").as_bytes()).await?,
        }
        self.stream.flush().await?;
        Ok(reply.starts_with(['2', '3']))
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err(Error::other("the client has gone"));
        }
        self.seen.lock().transcript.push_str(&line);
        Ok(line.trim_end().to_owned())
    }

    async fn message(&mut self) -> Result<String> {
        let mut message = String::new();
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).await? == 0 {
                return Err(Error::other("the client has gone"));
            }
            if line == ".\r\n" {
                return Ok(message);
            }
            message.push_str(&line);
        }
    }
}
