//! A mail server that keeps what it gets: `tests/receivers/smtp.py` in a process of its own.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use crate::{installation, ports, wait};

/// How the server wants to be talked to.
#[derive(Debug, Clone)]
pub enum Security {
    /// No TLS, no log-in.
    Plain,
    /// STARTTLS and a log-in, or nothing.
    StartTls(Login),
    /// TLS from the first byte, and a log-in.
    Tls(Login),
}

/// The server's certificate and the one user that it knows.
#[derive(Debug, Clone)]
pub struct Login {
    /// File of the certificate, PEM.
    pub certificate: std::path::PathBuf,
    /// File of its key, PEM.
    pub key: std::path::PathBuf,
    /// Name of the user.
    pub user: String,
    /// The user's password.
    pub password: String,
}

/// The server, which ends when it is dropped.
pub struct MailReceiver {
    port: u16,
    security: Security,
    mails: Arc<Mutex<Vec<Value>>>,
    process: Option<Child>,
}

impl MailReceiver {
    /// Listens on a free loopback port.
    ///
    /// # Errors
    /// Where its modules cannot be fetched or it does not start.
    pub fn start(security: Security) -> Result<Self> {
        let mut receiver = Self { port: ports::free(), security, mails: Arc::default(), process: None };
        receiver.come_up()?;
        Ok(receiver)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Every mail that it accepted: `from`, `to`, `subject`, `text` (decoded), `tls`, `authenticated`, `message` (raw).
    pub fn mails(&self) -> Vec<Value> {
        self.mails.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until `count` mails came, and returns all that did.
    ///
    /// # Errors
    /// Where fewer came within `limit`.
    pub fn wait_for(&self, count: usize, limit: Duration) -> Result<Vec<Value>> {
        wait::until(&format!("{count} alert(s) by mail"), limit, || {
            let mails = self.mails();
            Ok((mails.len() >= count).then_some(mails))
        })
    }

    /// Ends the server; its port refuses connections.
    pub fn go_down(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It is gone already, or it goes now.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Listens (again) on its port.
    ///
    /// # Errors
    /// Where it does not start.
    pub fn come_up(&mut self) -> Result<()> {
        self.go_down();
        let (python, modules) = installation::mail_receiver()?;
        let script = installation::source_root().join("tests/receivers/smtp.py");
        let mut command = Command::new(python);
        command.arg(script).arg(self.port.to_string()).args(arguments(&self.security));
        command.env("PYTHONPATH", modules).env("PYTHONDONTWRITEBYTECODE", "1");
        // Its own group: Ctrl-C is for us alone, and it ends with our end of its standard input.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().context("smtp.py")?;
        let lines = BufReader::new(process.stdout.take().ok_or_else(|| anyhow!("no standard output"))?).lines();
        self.process = Some(process);
        let ready = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (mails, is_ready) = (Arc::clone(&self.mails), Arc::clone(&ready));
        std::thread::spawn(move || {
            for fact in lines.map_while(Result::ok).filter_map(|line| serde_json::from_str::<Value>(&line).ok()) {
                if fact["ready"] == true {
                    is_ready.store(true, std::sync::atomic::Ordering::SeqCst);
                } else {
                    mails.lock().unwrap_or_else(PoisonError::into_inner).push(fact);
                }
            }
        });
        wait::until("the mail receiver to listen", Duration::from_secs(20), || {
            Ok(ready.load(std::sync::atomic::Ordering::SeqCst).then_some(()))
        })
    }
}

impl Drop for MailReceiver {
    fn drop(&mut self) {
        self.go_down();
    }
}

fn arguments(security: &Security) -> Vec<String> {
    let text = |path: &Path| path.display().to_string();
    let (mode, login) = match security {
        Security::Plain => return vec!["plain".to_owned()],
        Security::StartTls(login) => ("starttls", login),
        Security::Tls(login) => ("tls", login),
    };
    vec![mode.to_owned(), text(&login.certificate), text(&login.key), login.user.clone(), login.password.clone()]
}
