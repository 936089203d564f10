//! Runs every command of README and docs, in surroundings like those that the documents speak of.
//!
//! What the documents name by absolute paths lies in a folder of the test's own. The command, jq and the small tools are
//! the real ones; Flink, kubectl and sudo are stand-ins. What would build or test all of this project is only looked at.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// Beginnings of absolute paths that the documents use.
const OUTSIDE: [&str; 4] = ["/opt/", "/etc/", "/var/", "/usr/local/"];

/// Stand-ins: name and script.
const STAND_INS: [(&str, &str); 3] = [
    ("kubectl", "case $1 in logs) cat log/*.jsonl ;; get) ;; *) exit 3 ;; esac"),
    // Everything behind the verb is an option of two parts, or the jar.
    (
        "flink",
        "[ $1 = run-application ] || exit 3; shift\nfor word; do case $word in -t | yarn-application | -D?*=?* | *.jar) ;; *) exit 3 ;; esac; done",
    ),
    // The user that owns what is installed is not on this machine.
    (
        "sudo",
        "[ $1 = install ] || exit 3\nfor word; do shift; case $word in -o | flink) ;; *) set -- \"$@\" $word ;; esac; done\n\"$@\"",
    ),
];

/// Programs that may be missing; then their examples are left out, and it is said.
const MAY_BE_MISSING: [&str; 3] = ["jq", "openssl", "objdump"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The code blocks of a language in all documents, with the document's name.
fn blocks(language: &str) -> Vec<(String, String)> {
    let opening = format!("```{language}\n");
    let mut found = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let own = text.split(&opening).skip(1).map(|rest| rest.split("\n```").next().unwrap().to_owned());
        found.extend(own.map(|block| (name.clone(), block)));
    }
    found
}

/// The commands of a block: as many lines at a time as the shell takes for whole.
fn commands(block: &str) -> Vec<String> {
    let is_whole = |text: &str| {
        let checked = Command::new("sh").args(["-n", "-c", text]).stderr(Stdio::null()).status();
        !text.ends_with('\\') && checked.unwrap().success()
    };
    let (mut found, mut open) = (Vec::new(), String::new());
    for line in block.lines() {
        open += line;
        if is_whole(&open) {
            found.push(std::mem::take(&mut open));
        } else {
            open.push('\n');
        }
    }
    assert!(open.is_empty(), "no whole command: {open}");
    found.retain(|command| !command.trim().is_empty());
    found
}

/// Where the commands run.
struct Surroundings {
    folder: tempfile::TempDir,
    sleeper: Child,
}

impl Surroundings {
    fn new() -> Surroundings {
        let sleeper = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let surroundings = Surroundings { folder: tempfile::tempdir().unwrap(), sleeper };
        let write = |path: &str, text: &str| surroundings.write(path, text);
        for (name, script) in STAND_INS {
            write(&format!("bin/{name}"), &format!("#!/bin/sh\n{script}\n"));
        }
        write(
            "work/bin/kubernetes-session.sh",
            "#!/bin/sh\nfor word; do case $word in -D?*=?*) ;; *) exit 3 ;; esac; done\n",
        );
        // A copy, since it looks for the library beside itself.
        fs::copy(env!("CARGO_BIN_EXE_leaderwatch"), surroundings.path("bin/leaderwatch")).unwrap();

        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let target =
            |name: &str| format!("[[target]]\nname = '{name}'\nkind = 'webhook'\nurl = 'http://127.0.0.1:{nobody}/'\n");
        for file in ["work/leaderwatch.toml", "etc/leaderwatch/leaderwatch.toml", "opt/leaderwatch/leaderwatch.toml"] {
            write(file, &(target("ops-chat") + &target("mail")));
        }
        // Any program will do: nobody loads it here.
        let library = fs::read("/bin/sh").unwrap();
        for file in ["work/libleaderwatch.so", "bin/libleaderwatch.so", "opt/leaderwatch/libleaderwatch.so"] {
            fs::write(surroundings.path(file), &library).unwrap();
        }
        write("opt/flink/conf/config.yaml", "high-availability:\n  type: NONE\n");
        write("opt/flink/lib/flink-dist-2.3.0.jar", "");
        for (name, text) in alert_logs() {
            for folder in ["work", "work/log", "opt/flink/log"] {
                write(&format!("{folder}/{name}"), &text);
            }
        }
        write("work/log/flink.out", "leaderwatch: options: `lgo`: unknown key\n");
        write("opt/flink/log/leaderwatch/1000..orders/outbox/keep", "");
        write("opt/flink/log/leaderwatch/1000..orders/agents/tm-1-1/status.json", STATUS);
        for folder in ["etc/bash_completion.d", "usr/local/share/man/man1", "var/lib"] {
            fs::create_dir_all(surroundings.path(folder)).unwrap();
        }
        surroundings
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file that may be run.
    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let mode = if text.starts_with("#!") { 0o755 } else { 0o600 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Why the command does not do what the document says.
    fn fault(&self, command: &str) -> Option<String> {
        let own = self.folder.path().display().to_string();
        let mut here = command
            .replace("target/release/leaderwatch", "leaderwatch")
            .replace("4711", &self.sleeper.id().to_string());
        for outside in OUTSIDE {
            for before in [" ", "=", ":", "'", ";"] {
                here = here.replace(&format!("{before}{outside}"), &format!("{before}{own}{outside}"));
            }
        }
        let path = format!("{own}/bin:{}", std::env::var("PATH").unwrap());
        let output = Command::new("sh")
            .args(["-c", &here])
            .current_dir(self.path("work"))
            .env("PATH", path)
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let status = output.status.code();
        let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        // What is looked at may be wrong, as here; what is called may not.
        let is_well = match status {
            Some(0) => true,
            Some(1) => command.contains("leaderwatch "),
            Some(2) => REFUSED_HERE.iter().any(|reason| told(&output.stderr).contains(reason)),
            _ => false,
        };
        (!is_well).then(|| format!("{command}\n{status:?}\n{}{}", told(&output.stdout), told(&output.stderr)))
    }
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        let _ = self.sleeper.kill();
        let _ = self.sleeper.wait();
    }
}

const STATUS: &str = r#"{"schema":1,"written_at":"2026-11-30T10:00:00.000Z","started_at":"2026-11-30T09:00:00.000Z","version":"0.1.0",
"role":"taskmanager","cluster":"orders","host":"tm-1","pid":1,"hooks":{},"seats":[],"outbox_pending":0,"targets":[],
"dropped_observations":0,"lost_records":0}"#;

/// Why some commands are not carried out here: there is no Flink to attach to, and the agent is installed by another example.
const REFUSED_HERE: [&str; 2] = ["the process is no JVM", "names the agent already, with other options"];

/// Alert logs with a failover, under names as Flink's scripts make them.
fn alert_logs() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs");
    let first = fs::read_to_string(folder.join("flink-u-taskexecutor-0-tm1.leaderwatch.jsonl")).unwrap();
    // A torn last line is none for jq.
    let whole: String = first.lines().filter(|line| line.ends_with('}')).map(|line| format!("{line}\n")).collect();
    vec![("flink-u-taskexecutor-0-tm1.leaderwatch.jsonl".to_owned(), whole)]
}

fn is_there(program: &str) -> bool {
    Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap().status.success()
}

/// Whether a command concerns this source tree, and if so, what it names is there.
fn names_the_tree(command: &str) -> bool {
    let command = command.split(" #").next().unwrap().trim();
    let words: Vec<&str> = command.split_whitespace().collect();
    match words[0] {
        "cargo" => {
            let named: Vec<&str> = words.windows(2).filter(|pair| pair[0] == "-p").map(|pair| pair[1]).collect();
            assert!(!named.is_empty(), "{command}");
            let crates = ["agent", "native", "tests"].map(|folder| root().join(folder).join("Cargo.toml"));
            let crates = crates.map(|file| fs::read_to_string(file).unwrap());
            for name in named {
                assert!(crates.iter().any(|text| text.contains(&format!("name = \"{name}\""))), "{command}: {name}");
            }
            true
        }
        script if script.starts_with("scripts/") => {
            let text = fs::read_to_string(root().join(script)).unwrap();
            for word in &words[1..] {
                assert!(text.contains(word) || e2e_test_names().contains(word), "{command}: `{word}`");
            }
            true
        }
        _ => false,
    }
}

/// Names of end-to-end tests, which may be asked for.
fn e2e_test_names() -> String {
    let files = fs::read_dir(root().join("tests/tests")).unwrap();
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn every_command_in_the_documents_works() {
    let surroundings = Surroundings::new();
    let missing: Vec<&str> = MAY_BE_MISSING.into_iter().filter(|program| !is_there(program)).collect();
    let (mut count, mut faults) = (0, Vec::new());
    for (document, block) in blocks("sh") {
        for command in commands(&block) {
            if names_the_tree(&command) {
                continue;
            }
            if let Some(program) = missing.iter().find(|program| command.contains(*program)) {
                eprintln!("{program} is not installed; left out: {command}");
                continue;
            }
            count += 1;
            faults.extend(surroundings.fault(&command).map(|fault| format!("{document}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count >= 25, "only {count} commands were found");
}

/// The code by which a receiver checks a signature, on the example of the specification (standardwebhooks.com).
#[test]
fn the_code_for_receivers_of_webhooks_works() {
    let (_, code) = blocks("python").pop().expect("docs/targets/webhook.md has it");
    let call = r#"
headers = {"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
           "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}
secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
assert is_genuine(secret, headers, body)
assert not is_genuine(secret, headers, body + b" ")
"#;
    let output = Command::new("python3").args(["-c", &format!("{code}\n{call}")]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn images_are_made_of_what_is_there() {
    for (document, block) in blocks("dockerfile") {
        for line in block.lines() {
            let words: Vec<&str> = line.split_whitespace().filter(|word| !word.starts_with("--")).collect();
            let is_known = matches!(words[..], ["FROM", image] if image.contains(':'))
                || matches!(words[..], ["COPY", "libleaderwatch.so", into] if into.ends_with("/libleaderwatch.so"));
            assert!(is_known, "{document}: {line}");
        }
    }
}

/// Where `shown` has a key that `known` lacks.
fn unknown_keys(shown: &Value, known: &Value, at: &str) -> Vec<String> {
    match (shown, known) {
        (Value::Object(shown), Value::Object(known)) => shown
            .iter()
            .flat_map(|(key, value)| match known.get(key) {
                Some(known) => unknown_keys(value, known, &format!("{at}.{key}")),
                None => vec![format!("{at}.{key}")],
            })
            .collect(),
        (Value::Array(shown), Value::Array(known)) => {
            shown.iter().zip(known).flat_map(|(shown, known)| unknown_keys(shown, known, at)).collect()
        }
        _ => Vec::new(),
    }
}

/// Lines of the texts in `shown` that begin with other words than any line of a real message.
fn unknown_lines(shown: &Value, letter: &str, at: &str) -> Vec<String> {
    match shown {
        Value::Object(fields) => fields.values().flat_map(|value| unknown_lines(value, letter, at)).collect(),
        Value::Array(values) => values.iter().flat_map(|value| unknown_lines(value, letter, at)).collect(),
        // Titles, ids and the like are too short to be a text.
        Value::String(text) if text.len() > 100 => {
            let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with(['@', '.']));
            let lines = lines.map(|line| {
                let words = if line.starts_with("Job:") { 1 } else { 2 };
                line.split(' ').take(words).collect::<Vec<_>>().join(" ")
            });
            lines.filter(|begin| !letter.contains(begin.as_str())).map(|begin| format!("{at}: {begin}")).collect()
        }
        _ => Vec::new(),
    }
}

/// The message that a page of a target shows has the form of what `leaderwatch test --dry-run` shows.
#[test]
fn every_message_shown_has_the_form_of_a_real_one() {
    let targets = [
        ("slack", "url = 'https://h.example/x'"),
        ("teams", "url = 'https://h.example/x'"),
        ("discord", "url = 'https://h.example/x'"),
        ("dingtalk", "url = 'https://h.example/x'\nsecret = 'x'\nat_mobiles = ['13800000000']"),
        ("feishu", "url = 'https://h.example/x'\nsecret = 'x'"),
        ("wecom", "url = 'https://h.example/?key=x'"),
        ("telegram", "token = '1:x'\nchat_id = 5"),
        ("pagerduty", "routing_key = 'x'"),
        ("alertmanager", "urls = ['http://am.example:9093']"),
        ("kubernetes_event", "url = 'https://k8s.example'\ntoken = 'x'"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leaderwatch.toml");
    let mut text = "cluster = 'orders'\nnamespace = 'flink'\nlabels = { env = 'prod' }\n".to_owned();
    for (kind, keys) in targets {
        text += &format!("[[target]]\nname = '{kind}'\nkind = '{kind}'\n{keys}\n");
    }
    fs::write(&file, text).unwrap();
    let told =
        Command::new(env!("CARGO_BIN_EXE_leaderwatch")).arg("test").arg(&file).arg("--dry-run").output().unwrap();
    assert!(told.status.success(), "{told:?}");
    let told = String::from_utf8(told.stdout).unwrap();
    let (mut compared, mut faults) = (0, Vec::new());
    for (kind, _) in targets {
        let letter = told.split("=== ").find(|letter| letter.starts_with(kind)).unwrap();
        let (_, body) = letter.split_once("\n\n").unwrap();
        let real: Value = serde_json::Deserializer::from_str(body).into_iter().next().unwrap().unwrap();
        let page = format!("docs/targets/{kind}.md");
        for (_, block) in blocks("text").into_iter().filter(|(name, _)| *name == page) {
            let Ok(shown) = serde_json::from_str::<Value>(&block) else { continue };
            compared += 1;
            faults.extend(unknown_keys(&shown, &real, &page));
            // Characters that are markup somewhere are escaped there, and not so in the documents.
            faults.extend(unknown_lines(&shown, &letter.replace(r"\\", ""), &page));
        }
    }
    // What the Kubernetes API is asked for first.
    faults.retain(|fault| !fault.contains(".involvedObject."));
    assert_eq!(faults, Vec::<String>::new(), "{told}");
    assert_eq!(compared, targets.len(), "a page shows no message");
}

/// A mail server that takes one mail; and the mail.
fn mail_server() -> (u16, std::thread::JoinHandle<String>) {
    use std::io::{BufRead as _, BufReader, Write as _};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(&stream).lines().map(Result::unwrap);
        (&stream).write_all(b"220 test\r\n").unwrap();
        loop {
            let line = lines.next().unwrap();
            let answer = if line.starts_with("DATA") { "354 go\r\n" } else { "250 ok\r\n" };
            (&stream).write_all(answer.as_bytes()).unwrap();
            if line.starts_with("DATA") {
                let mail: Vec<String> = lines.by_ref().take_while(|line| line != ".").collect();
                (&stream).write_all(b"250 taken\r\n").unwrap();
                return mail.join("\n");
            }
        }
    });
    (port, task)
}

/// What the page about email shows, against a mail that was really sent: the same headers, and lines that begin alike.
#[test]
fn the_mail_shown_has_the_form_of_a_real_one() {
    let is_mail = |(page, block): &(String, String)| page == "docs/targets/email.md" && block.starts_with("From: ");
    let (_, shown) = blocks("text").into_iter().find(is_mail).expect("docs/targets/email.md shows a mail");
    let (port, mail) = mail_server();
    let options = format!("cluster=orders,email=oncall@example.org,smtp=smtp://127.0.0.1:{port}");
    let told = Command::new(env!("CARGO_BIN_EXE_leaderwatch")).args(["test", "--options", &options]).output().unwrap();
    assert!(told.status.success(), "{told:?}");
    let mail = mail.join().unwrap();
    let ((headers, text), (real_headers, real_text)) =
        (shown.split_once("\n\n").unwrap(), mail.split_once("\n\n").unwrap());
    let names = |headers: &str| -> Vec<String> {
        let lines = headers.lines().filter(|line| !line.starts_with(' '));
        lines.map(|line| line.split_once(':').unwrap().0.to_owned()).collect()
    };
    let real = names(real_headers);
    for name in names(headers) {
        assert!(real.contains(&name), "no mail has `{name}`: {mail}");
    }
    assert_eq!(unknown_lines(&Value::from(text), real_text, "docs/targets/email.md"), Vec::<String>::new(), "{mail}");
}
