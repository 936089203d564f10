//! `leaderwatch test`: does an alert reach its receivers?

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use leaderwatch_agent::alert::{Class, Texts, drill};
use leaderwatch_agent::clock::{Clock, SystemClock};
use leaderwatch_agent::config::{
    Environment, Problem, Settings, SystemEnvironment, TargetSettings, Weight, behind_agentpath, cure_of_reading, load,
    load_file, parse_duration,
};
use leaderwatch_agent::process::{JvmFacts, Role};
use leaderwatch_agent::target::preview::{Letter, Preview};
use leaderwatch_agent::target::{Action, Builder, Notice, Outcome, Target};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::people::{duration, printable};
use super::{Verdict, complain};

/// Sends a drill to each target and says what each receiver answered. Exit status 1 if one of them does not have it.
#[derive(Args)]
pub struct TestArgs {
    /// The configuration file; may be left out where the options name it or a target
    #[arg(required_unless_present = "options")]
    file: Option<PathBuf>,
    /// Only this target; may be given more than once
    #[arg(long, value_name = "NAME")]
    target: Vec<String>,
    /// What the drill looks like to people; machines see the class `test`
    #[arg(long, value_enum, default_value_t = Asked::Failover)]
    class: Asked,
    /// The agent's options too: `key=value,...`, or the whole `-agentpath:...=...`
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    options: Option<String>,
    /// Send nothing: show each message as it would go, with secrets masked
    #[arg(long)]
    dry_run: bool,
    /// Longest time for all of it
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    timeout: String,
}

/// The classes as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Asked {
    Failover,
    NoLeader,
    Flapping,
    Resolved,
    Test,
}

impl From<Asked> for Class {
    fn from(asked: Asked) -> Class {
        match asked {
            Asked::Failover => Class::Failover,
            Asked::NoLeader => Class::NoLeader,
            Asked::Flapping => Class::Flapping,
            Asked::Resolved => Class::Resolved,
            Asked::Test => Class::Test,
        }
    }
}

/// What is sent, and to whom.
struct Drill {
    class: Class,
    notice: Arc<Notice>,
    targets: Vec<TargetSettings>,
    clock: Arc<dyn Clock>,
}

/// Runs the command.
pub fn run(args: &TestArgs) -> ExitCode {
    let number = u128::from(fastrand::u64(..)) << 64 | u128::from(fastrand::u64(..));
    let clock = Arc::new(SystemClock::new());
    match test(args, &SystemEnvironment, clock, number, &mut io::stdout().lock()) {
        Ok(verdict) => verdict.into(),
        Err(message) => complain(Verdict::Misuse, message).into(),
    }
}

/// Why nothing can be sent, or the verdict.
fn test(
    args: &TestArgs,
    env: &dyn Environment,
    clock: Arc<dyn Clock>,
    number: u128,
    out: &mut dyn Write,
) -> Result<Verdict, String> {
    let limit = parse_duration(&args.timeout).map_err(|error| format!("--timeout: `{}` {error}", args.timeout))?;
    if limit.is_zero() {
        return Err("--timeout: `0s` leaves no time; give 1s or more".to_owned());
    }
    let (settings, problems) = settings(args.file.as_deref(), args.options.as_deref().unwrap_or_default(), env)?;
    for problem in &problems {
        complain(Verdict::Wrong, problem);
    }
    let is_wrong = problems.iter().any(|problem| problem.weight == Weight::Error);
    let targets = chosen(&settings, &args.target)?;
    let drill = prepare(&settings, targets, args.class.into(), clock, number);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no way to the network: {error}"))?;
    let told = match args.dry_run {
        true => runtime.block_on(show(&drill, out)),
        false => runtime.block_on(send(&drill, limit, out)),
    };
    // Dropping it would wait for a name look-up that hangs.
    runtime.shutdown_background();
    let all_have_it = told.map_err(|error| format!("standard output: {error}"))?;
    Ok(if all_have_it && !is_wrong { Verdict::Done } else { Verdict::Wrong })
}

fn settings(file: Option<&Path>, options: &str, env: &dyn Environment) -> Result<(Settings, Vec<Problem>), String> {
    let options = behind_agentpath(options);
    let Some(file) = file else { return Ok(load(&JvmFacts::default(), Role::TaskManager, options, env)) };
    env.read(file).map_err(|error| format!("{}: {error}; {}", file.display(), cure_of_reading(error.kind(), "you")))?;
    Ok(load_file(file, options, env))
}

/// The targets that were asked for; all where none was.
fn chosen(settings: &Settings, names: &[String]) -> Result<Vec<TargetSettings>, String> {
    let known: Vec<&str> = settings.targets.iter().map(|target| target.name.as_str()).collect();
    if known.is_empty() {
        return Err("there is no target to test: the configuration names none that is sound".to_owned());
    }
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("--target: there is no target `{unknown}`; there are: {}", known.join(", ")));
    }
    let is_asked = |target: &&TargetSettings| names.is_empty() || names.contains(&target.name);
    Ok(settings.targets.iter().filter(is_asked).cloned().collect())
}

fn prepare(
    settings: &Settings,
    targets: Vec<TargetSettings>,
    class: Class,
    clock: Arc<dyn Clock>,
    number: u128,
) -> Drill {
    let (texts, _) = Texts::new(settings.language, settings.time_zone.clone(), settings.texts.clone());
    let circumstances = drill::Circumstances {
        cluster: settings.cluster.clone(),
        namespace: settings.namespace.clone(),
        labels: settings.labels.clone(),
        observer: settings.observer.clone(),
        at: clock.now().wall,
        number,
    };
    let alert = drill::sent(class, circumstances, &texts);
    let notice = Arc::new(Notice { message_id: alert.id.clone(), action: Action::Raise, alert });
    Drill { class, notice, targets, clock }
}

/// Sends to all at the same time, and tells in the order of the configuration. True: all have it.
async fn send(drill: &Drill, limit: Duration, out: &mut dyn Write) -> io::Result<bool> {
    let (started, builder) = (Instant::now(), Builder::new(Arc::clone(&drill.clock)));
    let sending: Vec<_> = drill.targets.iter().map(|target| start(target, &builder, &drill.notice)).collect();
    let name_width = drill.targets.iter().map(|target| target.name.chars().count()).max().unwrap_or(0);
    let mut all_have_it = true;
    for (target, sending) in drill.targets.iter().zip(sending) {
        let answer = match sending {
            Err(reason) => Err(format!("NOT SENT: {reason}")),
            Ok(task) => ended(task, started + limit).await,
        };
        all_have_it &= answer.is_ok();
        let answer = answer.unwrap_or_else(|reason| reason);
        let line = format!("{:name_width$}  {:16}  {answer}{}", target.name, target.kind.name(), remark(target, drill));
        writeln!(out, "{}", printable(&line))?;
    }
    Ok(all_have_it)
}

type Answer = Result<String, String>;

/// Begins a send; an error says why there is nothing to send with.
fn start(target: &TargetSettings, builder: &Builder, notice: &Arc<Notice>) -> Result<JoinHandle<Answer>, String> {
    let target = builder.build(target).map_err(|reason| reason.to_string())?;
    let notice = Arc::clone(notice);
    Ok(tokio::spawn(async move {
        let started = Instant::now();
        let outcome = speak(target.as_ref(), &notice).await;
        answer(target.as_ref(), outcome, started.elapsed())
    }))
}

/// What is called to say that the agent lives gets no alerts: it is called.
async fn speak(target: &dyn Target, notice: &Notice) -> Outcome {
    if target.takes_alerts() { target.send(notice).await } else { target.beat().await }
}

/// The receiver's answer in words; an error where it does not have the drill.
fn answer(target: &dyn Target, outcome: Outcome, took: Duration) -> Answer {
    let took = duration(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    match outcome {
        Outcome::Delivered { receipt } => {
            let receipt = receipt.map(|receipt| format!(": {receipt}")).unwrap_or_default();
            let manner = target.manner();
            let stays_open = manner.updates_in_place && manner.repeat.is_none();
            let hint = if stays_open { "; it stays open there until somebody resolves it" } else { "" };
            Ok(format!("delivered in {took}{receipt}{hint}"))
        }
        Outcome::Retry { reason, .. } => {
            Err(format!("NOT DELIVERED after {took}: {reason}; an alert would be sent again"))
        }
        Outcome::Reject { reason } => Err(format!("REFUSED after {took}: {reason}; an alert would not be sent again")),
    }
}

async fn ended(task: JoinHandle<Answer>, deadline: Instant) -> Answer {
    let handle = task.abort_handle();
    match timeout_at(deadline, task).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(fault)) => Err(format!("NOT DELIVERED: a fault in Leaderwatch: {fault}")),
        Err(_) => {
            handle.abort();
            Err("NOT DELIVERED: no answer within the time for all; give more with --timeout".to_owned())
        }
    }
}

/// A drill goes to every target; an alert does not.
fn remark(target: &TargetSettings, drill: &Drill) -> &'static str {
    let is_unwanted = drill.class != Class::Test && !target.classes.contains(&drill.class);
    if is_unwanted && target.kind.name() != "heartbeat" {
        " (its `classes` leave alerts of this class out)"
    } else {
        ""
    }
}

/// Shows what would be sent. True: there is something to send to each target.
async fn show(drill: &Drill, out: &mut dyn Write) -> io::Result<bool> {
    /// Nothing is sent, so that whatever takes longer hangs.
    const LONGEST: Duration = Duration::from_secs(5);
    let mut all_can_be_sent = true;
    for target in &drill.targets {
        writeln!(out, "=== {} ({}){}", target.name, target.kind.name(), remark(target, drill))?;
        let preview = Arc::new(Preview::default());
        let builder = Builder::new(Arc::clone(&drill.clock)).with_preview(Arc::clone(&preview));
        let reason = match builder.build(target) {
            Err(reason) => Some(reason.to_string()),
            Ok(built) => match timeout(LONGEST, speak(built.as_ref(), &drill.notice)).await {
                Ok(Outcome::Retry { reason, .. } | Outcome::Reject { reason }) => Some(reason),
                Ok(Outcome::Delivered { .. }) | Err(_) => None,
            },
        };
        let letters = preview.letters();
        for letter in &letters {
            writeln!(out, "{}\n", shown(letter))?;
        }
        if letters.is_empty() {
            all_can_be_sent = false;
            writeln!(
                out,
                "NOTHING would be sent: {}\n",
                reason.unwrap_or_else(|| "it did not come so far".to_owned())
            )?;
        }
    }
    Ok(all_can_be_sent)
}

fn shown(letter: &Letter) -> String {
    let headers = letter.headers.iter().map(|(name, value)| format!("\n{name}: {value}"));
    let head = letter.to.clone() + &headers.collect::<String>();
    format!("{head}\n\n{}", letter.body.trim_end())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::net::TcpListener;

    use clap::Parser;
    use leaderwatch_agent::clock::ManualClock;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: TestArgs,
    }

    fn tested(words: &[&str]) -> (Result<Verdict, String>, String) {
        let command = Command::try_parse_from([&["test"], words].concat()).unwrap();
        let mut out = Vec::new();
        let verdict = test(&command.args, &SystemEnvironment, Arc::new(ManualClock::default()), 7, &mut out);
        (verdict, String::from_utf8(out).unwrap())
    }

    /// Answers one request, and hands back its body.
    fn receiver(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(&stream);
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            (&stream).write_all(answer.as_bytes()).unwrap();
            String::from_utf8(body).unwrap()
        });
        (url, served)
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    /// Times as they come, taken out.
    fn timeless(text: &str) -> String {
        let mut words: Vec<&str> = text.split(' ').collect();
        for at in 1..words.len() {
            if matches!(words[at - 1], "in" | "after") {
                (words[at], words[at + 1]) = ("TIME", words[at + 1].trim_start_matches("ms").trim_start_matches('s'));
            }
        }
        words.join(" ")
    }

    #[test]
    fn each_receiver_is_asked_and_its_answer_told() {
        let (good, got) = receiver("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        let (bad, _) = receiver("HTTP/1.1 403 Forbidden\r\ncontent-length: 13\r\n\r\ninvalid_token");
        let config = file(&format!(
            "cluster = 'orders'\nlanguage = 'zh-CN'\n\
             [[target]]\nname = 'hook'\nkind = 'webhook'\nurl = '{good}'\n\
             [[target]]\nname = 'chat'\nkind = 'slack'\nclasses = ['resolved']\nurl = '{bad}'\n\
             [[target]]\nname = 'gone'\nkind = 'slack'\nurl_file = '/absent/url'\n"
        ));
        let (verdict, told) = tested(&[config.path().to_str().unwrap(), "--class", "no_leader"]);
        assert_eq!(verdict, Ok(Verdict::Wrong));
        insta::assert_snapshot!(timeless(&told));
        let body: serde_json::Value = serde_json::from_str(&got.join().unwrap()).unwrap();
        assert_eq!((&body["class"], &body["drill"]), (&"test".into(), &true.into()));
        assert!(body["title"].as_str().unwrap().starts_with("[演练] Flink orders"), "{body}");
    }

    #[test]
    fn only_the_named_target_is_asked() {
        let (good, got) = receiver("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        let config = file(&format!(
            "[[target]]\nname = 'chat'\nkind = 'slack'\nurl = '{good}'\n\
             [[target]]\nname = 'hook'\nkind = 'webhook'\nurl = 'http://127.0.0.1:1/'\n"
        ));
        let (verdict, told) = tested(&[config.path().to_str().unwrap(), "--target", "chat"]);
        assert_eq!(verdict, Ok(Verdict::Done), "{told}");
        assert!(got.join().unwrap().contains("[DRILL]"));
        let (verdict, _) = tested(&[config.path().to_str().unwrap(), "--target", "chta"]);
        assert_eq!(verdict, Err("--target: there is no target `chta`; there are: chat, hook".to_owned()));
    }

    #[test]
    fn a_receiver_that_does_not_answer_ends_with_the_time_for_all() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let config = file(&format!("[[target]]\nname = 'hook'\nkind = 'webhook'\nurl = '{url}'\n"));
        let (verdict, told) = tested(&[config.path().to_str().unwrap(), "--timeout", "200ms"]);
        assert_eq!(verdict, Ok(Verdict::Wrong));
        assert!(told.contains("no answer within the time for all"), "{told}");
    }

    /// Every kind, and no secret in any of them.
    #[test]
    fn a_dry_run_shows_every_kind_without_secrets() {
        let config = file(
            "cluster = 'orders'\n\
             [[target]]\nname = 'webhook'\nkind = 'webhook'\nurl = 'https://h.example/s3cret'\ntoken = 's3cret'\n\
             [[target]]\nname = 'email'\nkind = 'email'\nto = 'a@x.example'\nfrom = 'lw@x.example'\n\
             smtp = 'smtps://mail.x.example'\nusername = 'u'\npassword = 's3cret'\n\
             [[target]]\nname = 'slack'\nkind = 'slack'\nurl = 'https://h.example/s3cret'\n\
             [[target]]\nname = 'teams'\nkind = 'teams'\nurl = 'https://h.example/s3cret'\n\
             [[target]]\nname = 'discord'\nkind = 'discord'\nurl = 'https://h.example/s3cret'\n\
             [[target]]\nname = 'dingtalk'\nkind = 'dingtalk'\nurl = 'https://h.example/s3cret'\nsecret = 's3cret'\n\
             [[target]]\nname = 'feishu'\nkind = 'feishu'\nurl = 'https://h.example/s3cret'\nsecret = 's3cret'\n\
             [[target]]\nname = 'wecom'\nkind = 'wecom'\nurl = 'https://h.example/?key=s3cret'\n\
             [[target]]\nname = 'telegram'\nkind = 'telegram'\ntoken = '1:s3cret'\nchat_id = '5'\n\
             [[target]]\nname = 'pagerduty'\nkind = 'pagerduty'\nrouting_key = 's3cret'\n\
             [[target]]\nname = 'alertmanager'\nkind = 'alertmanager'\nurls = ['http://am.example:9093']\n\
             [[target]]\nname = 'events'\nkind = 'kubernetes_event'\nurl = 'https://k8s.example'\ntoken = 's3cret'\nnamespace = 'flink'\n\
             [[target]]\nname = 'heart'\nkind = 'heartbeat'\nurl = 'https://hc.example/s3cret'\nclasses = []\n",
        );
        let (verdict, told) = tested(&[config.path().to_str().unwrap(), "--dry-run"]);
        assert_eq!(verdict, Ok(Verdict::Done), "{told}");
        assert!(!told.contains("s3cret"), "{told}");
        let messages: Vec<&str> = told.split("=== ").skip(1).collect();
        assert_eq!(messages.len(), 13);
        for message in messages {
            assert!(message.contains("This is a drill of Leaderwatch") || message.starts_with("heart"), "{message}");
        }
        let two = ["--dry-run", "--target", "webhook", "--target", "email"];
        let (_, told) = tested(&[&[config.path().to_str().unwrap()], &two[..]].concat());
        let host = leaderwatch_agent::config::SystemEnvironment.hostname();
        let own = [(host, "HOST"), (format!("\"pid\": {}", std::process::id()), "\"pid\": PID")];
        let told = own.iter().fold(told, |told, (own, name)| told.replace(own.as_str(), name));
        insta::assert_snapshot!(told);
    }

    #[test]
    fn without_a_file_or_a_target_it_is_called_wrongly() {
        assert!(tested(&["/absent.toml"]).0.unwrap_err().contains("check the path"));
        let bare = file("cluster = 'orders'\n");
        assert!(tested(&[bare.path().to_str().unwrap()]).0.unwrap_err().contains("no target"));
        let config = file("[[target]]\nname = 'hook'\nkind = 'webhook'\nurl = 'http://127.0.0.1:1/'\n");
        assert!(tested(&[config.path().to_str().unwrap(), "--timeout", "soon"]).0.is_err());
    }
}
