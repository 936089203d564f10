//! Against the programs that users run: Prometheus Alertmanager, and a mail server with TLS and passwords (aiosmtpd).
//!
//! `LEADERWATCH_ALERTMANAGER` names the program of Debian's `prometheus-alertmanager`, `LEADERWATCH_AIOSMTPD` a folder with
//! the Python package `aiosmtpd`; whoever runs the ignored tests sets both.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use leaderwatch_agent::clock::SystemClock;
use leaderwatch_agent::target::alertmanager::{Alertmanager, AlertmanagerSettings, Watchdog};
use leaderwatch_agent::target::email::{Email, EmailSettings, SmtpServer};
use leaderwatch_agent::target::http::{HttpClient, HttpSettings, Proxy};
use leaderwatch_agent::target::resolver::Resolver;
use leaderwatch_agent::target::secret::SecretUrl;
use leaderwatch_agent::target::tls::TlsSettings;
use leaderwatch_agent::target::{Action, Notice, Outcome, Target};
use serde_json::{Value, json};

fn notice(id: &str) -> Notice {
    let alert = json!({
        "schema": 1, "id": id, "class": "failover", "severity": "critical", "cluster": "orders",
        "occurred_at": Timestamp::now(), "title": "leader moved 领导者", "text": "第一行\n.\nlast line", "members": [],
        "observer": {"host": "host", "pid": 1, "role": "taskmanager"}, "labels": {"team": "streaming"},
    });
    Notice { message_id: id.into(), action: Action::Raise, alert: serde_json::from_value(alert).unwrap() }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn wait_for_port(port: u16) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "nothing listens on {port}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn send(target: &dyn Target, notice: &Notice) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(target.send(notice))
}

mod alertmanager {
    use super::*;

    fn start(folder: &Path, port: u16, webhook_port: u16) -> Server {
        let program = std::env::var("LEADERWATCH_ALERTMANAGER").expect("LEADERWATCH_ALERTMANAGER names the program");
        let config = format!(
            "route:\n  receiver: hook\n  group_by: ['...']\n  group_wait: 500ms\n  group_interval: 1s\n  repeat_interval: 1h\n\
             receivers:\n- name: hook\n  webhook_configs:\n  - url: http://127.0.0.1:{webhook_port}/\n    send_resolved: true\n"
        );
        std::fs::write(folder.join("alertmanager.yml"), config).unwrap();
        let child = Command::new(program)
            .arg(format!("--config.file={}", folder.join("alertmanager.yml").display()))
            .arg(format!("--storage.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--cluster.listen-address=")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for_port(port);
        Server(child)
    }

    /// Notes the alerts of each notification.
    fn webhook() -> (u16, Arc<Mutex<Vec<Value>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
        let noted = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let body: Value = serde_json::from_slice(&read_body(&stream)).unwrap();
                noted.lock().unwrap().extend(body["alerts"].as_array().unwrap().iter().cloned());
                (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
            }
        });
        (port, seen)
    }

    fn read_body(stream: &TcpStream) -> Vec<u8> {
        let mut request = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            request.read_line(&mut line).unwrap();
            if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        request.read_exact(&mut body).unwrap();
        body
    }

    #[test]
    #[ignore = "needs LEADERWATCH_ALERTMANAGER"]
    fn two_agents_raise_one_alert_and_its_end_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let (webhook_port, seen) = webhook();
        let port = free_port();
        let _server = start(folder.path(), port, webhook_port);
        let watchdog = || Watchdog { every: Duration::from_secs(60), cluster: "orders".into(), namespace: None };
        let agent = || {
            let http = HttpSettings { proxy: Proxy::None, ..HttpSettings::default() };
            let http = HttpClient::new(&http, &Resolver::default()).unwrap();
            let urls = vec![SecretUrl::parse(&format!("http://127.0.0.1:{port}")).unwrap()];
            let settings =
                AlertmanagerSettings { name: "am".into(), urls, authorization: None, watchdog: Some(watchdog()) };
            Alertmanager::new(settings, http, Arc::new(SystemClock::new())).unwrap()
        };
        let notice = notice("0123abcd");
        let delivered = Outcome::Delivered { receipt: Some("1 of 1 members".into()) };
        assert_eq!(send(&agent(), &notice), delivered);
        assert_eq!(send(&agent(), &notice), delivered);

        let firing = within(Duration::from_secs(20), "the alert", || seen.lock().unwrap().first().cloned());
        assert_eq!(firing["status"], "firing");
        let labels = json!({
            "alertname": "FlinkLeadership", "class": "failover", "severity": "critical", "cluster": "orders",
            "leaderwatch_id": "0123abcd", "team": "streaming",
        });
        assert_eq!(firing["labels"], labels);
        assert_eq!(firing["annotations"]["description"], "第一行\n.\nlast line");

        let mut resolved = notice.clone();
        resolved.action = Action::Resolve;
        resolved.alert = serde_json::from_value({
            let mut alert = serde_json::to_value(&notice.alert).unwrap();
            (alert["class"], alert["severity"]) = ("resolved".into(), "info".into());
            alert
        })
        .unwrap();
        assert_eq!(send(&agent(), &resolved), delivered);
        within(Duration::from_secs(20), "the end", || (seen.lock().unwrap().len() > 1).then_some(()));
        // Whatever else it had to tell would have come with its next round.
        thread::sleep(Duration::from_secs(3));
        let told: Vec<Value> =
            seen.lock().unwrap().iter().map(|alert| json!([alert["status"], alert["labels"]])).collect();
        assert_eq!(told, [json!(["firing", labels]), json!(["resolved", labels])]);

        // Last, so that it does not mix with what is told of the alert.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert_eq!(runtime.block_on(agent().beat()), delivered);
        let labels = json!({"alertname": "FlinkLeadershipWatchdog", "severity": "none", "cluster": "orders"});
        let watchdog = within(Duration::from_secs(20), "the watchdog", || seen.lock().unwrap().get(2).cloned());
        assert_eq!((&watchdog["status"], &watchdog["labels"]), (&json!("firing"), &labels));
    }
}

mod mail {
    use super::*;

    const SERVER: &str = r#"
import json, ssl, sys
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

mode, port, certificate, key = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(certificate, key)

class Handler:
    async def handle_DATA(self, server, session, envelope):
        tls = mode == "smtps" or session.ssl is not None
        print(json.dumps({"to": envelope.rcpt_tos, "tls": tls, "user": session.authenticated,
                          "content": envelope.content.decode()}), flush=True)
        return "250 OK: queued as 42"

def authenticate(server, session, envelope, mechanism, data):
    good = isinstance(data, LoginPassword) and (data.login, data.password) == (b"user", b"right")
    return AuthResult(success=good, handled=good)

options = dict(hostname="127.0.0.1", port=port, authenticator=authenticate, auth_required=True)
if mode == "smtps":
    controller = Controller(Handler(), ssl_context=context, auth_require_tls=False, **options)
else:
    controller = Controller(Handler(), tls_context=context, require_starttls=True, **options)
controller.start()
print("ready", flush=True)
sys.stdin.read()
"#;

    struct MailServer {
        port: u16,
        ca_file: PathBuf,
        output: BufReader<std::process::ChildStdout>,
        _server: Server,
        _folder: tempfile::TempDir,
    }

    fn start(mode: &str) -> MailServer {
        let package = std::env::var("LEADERWATCH_AIOSMTPD").expect("LEADERWATCH_AIOSMTPD names a folder");
        let folder = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let own = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        let (certificate_file, key_file) = (folder.path().join("own.pem"), folder.path().join("key.pem"));
        std::fs::write(&certificate_file, own.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        let port = free_port();
        let mut child = Command::new("python3")
            .args(["-c", SERVER, mode, &port.to_string()])
            .args([&certificate_file, &key_file])
            .env("PYTHONPATH", package)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut server =
            MailServer { port, ca_file: certificate_file, output, _server: Server(child), _folder: folder };
        assert_eq!(server.line(), "ready");
        server
    }

    impl MailServer {
        fn line(&mut self) -> String {
            let mut line = String::new();
            self.output.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        }

        fn email(&self, scheme: &str, password: &str) -> Email {
            let url = format!("{scheme}://user:{password}@localhost:{}", self.port);
            let settings = EmailSettings {
                name: "mail".into(),
                server: SmtpServer::parse(&url).unwrap(),
                from: "leaderwatch@example.com".into(),
                to: vec!["ops@example.com".into(), "dev@example.com".into()],
                connect_timeout: Duration::from_secs(5),
                timeout: Duration::from_secs(20),
                tls: TlsSettings { ca_file: Some(self.ca_file.clone()), ..TlsSettings::default() },
                server_name: None,
                proxy: None,
            };
            Email::new(settings, Resolver::default()).unwrap()
        }
    }

    fn takes_the_right_password_and_refuses_the_wrong_one(mode: &str) {
        let mut server = start(mode);
        let outcome = send(&server.email(mode, "right"), &notice("0123abcd"));
        assert_eq!(outcome, Outcome::Delivered { receipt: Some("250 OK: queued as 42".into()) });
        let mail: Value = serde_json::from_str(&server.line()).unwrap();
        assert_eq!(mail["to"], json!(["ops@example.com", "dev@example.com"]));
        assert_eq!((&mail["tls"], &mail["user"]), (&true.into(), &true.into()));
        assert!(mail["content"].as_str().unwrap().contains("Message-ID: <0123abcd@example.com>"));

        let outcome = send(&server.email(mode, "wrong"), &notice("0123abcd"));
        let Outcome::Reject { reason } = outcome else { panic!("{outcome:?}") };
        assert!(reason.contains("535") && !reason.contains("wrong"), "{reason}");
    }

    #[test]
    #[ignore = "needs LEADERWATCH_AIOSMTPD"]
    fn tls_from_the_first_byte() {
        takes_the_right_password_and_refuses_the_wrong_one("smtps");
    }

    #[test]
    #[ignore = "needs LEADERWATCH_AIOSMTPD"]
    fn starttls() {
        takes_the_right_password_and_refuses_the_wrong_one("smtp+starttls");
    }

    #[test]
    #[ignore = "needs LEADERWATCH_AIOSMTPD"]
    fn starttls_where_it_is_offered() {
        takes_the_right_password_and_refuses_the_wrong_one("smtp");
    }
}
