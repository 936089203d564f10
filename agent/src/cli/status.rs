//! `leaderwatch status`: what the agents say of themselves.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use leaderwatch_agent::pause::Pause;
use leaderwatch_agent::status::{FILE_NAME, SeatStatus, Status, TargetStatus};

use super::people::{count, duration, host_port, printable, short};
use super::{Verdict, complain, when};

/// An agent writes every ten seconds; one that is silent this long, in milliseconds, is stopped or stuck.
const SILENT_MS: i64 = 60_000;

/// An alert that waits longer than this, in milliseconds, is late.
const LATE_MS: i64 = 300_000;

/// State of a hook whose class Flink has not loaded.
const NOT_SEEN: &str = "not seen yet";

/// How deep the folder is searched: one folder a user, namespace and cluster.
const MAX_DEPTH: usize = 4;

/// Shows what each agent says of itself: hooks, leaders, outbox, targets; and whether its alerts are paused. Exit status 1 if anything is not as it
/// should be.
#[derive(Args)]
pub struct StatusArgs {
    /// State folders of agents (by default `leaderwatch` beside the alert log), or their `status.json`
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Print each status as JSON, one a line, with what is wrong under `wrong`
    #[arg(long)]
    json: bool,
    /// Zone of the times; else that of this machine
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
}

/// Runs the command.
pub fn run(args: &StatusArgs) -> ExitCode {
    show(args).unwrap_or_else(|verdict| verdict).into()
}

fn show(args: &StatusArgs) -> Result<Verdict, Verdict> {
    let zone = when::zone(args.time_zone.as_deref()).map_err(|message| complain(Verdict::Misuse, message))?;
    let mut files = Vec::new();
    for path in &args.paths {
        find(path, 0, &mut files)
            .map_err(|error| complain(Verdict::Misuse, format_args!("{}: {error}", path.display())))?;
    }
    let now = Timestamp::now();
    if files.is_empty() {
        let names = args.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
        let words =
            "no agent is at work with this state folder, or it is none; one that ends in order leaves no status";
        let paused = args.paths.iter().filter_map(|path| Some(pause_in_words(&held(path, now).ok()??, now, &zone)));
        let paused: String = paused.map(|pause| format!("\nPAUSED {pause}")).collect();
        return Err(complain(Verdict::Misuse, format_args!("{names}: no {FILE_NAME} in there: {words}{paused}")));
    }
    files.sort();
    let mut verdict = Verdict::Done;
    let mut out = io::stdout().lock();
    for file in files {
        let status: Status = match fs::read(&file).map_err(|e| e.to_string()).and_then(|bytes| parse(&bytes)) {
            Ok(status) => status,
            Err(error) => {
                verdict = complain(Verdict::Wrong, format_args!("{}: {error}", file.display()));
                continue;
            }
        };
        let mut told = Told { wrong: wrong(&status, now), pause: None };
        match pause_of(&file, now) {
            Ok(pause) => told.pause = pause,
            Err(error) => told.wrong.push(format!("the pause cannot be told: {error}")),
        }
        if !told.wrong.is_empty() {
            verdict = Verdict::Wrong;
        }
        let text = if args.json { as_json(&status, &told) } else { in_words(&status, &told, now, &zone) };
        match out.write_all(text.as_bytes()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(verdict),
            Err(error) => return Err(complain(Verdict::Misuse, format_args!("standard output: {error}"))),
        }
    }
    Ok(verdict)
}

fn find(path: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if fs::metadata(path)?.is_file() {
        found.push(path.to_path_buf());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && depth < MAX_DEPTH {
            find(&entry.path(), depth + 1, found)?;
        } else if kind.is_file() && entry.file_name() == FILE_NAME {
            found.push(entry.path());
        }
    }
    Ok(())
}

fn parse(bytes: &[u8]) -> Result<Status, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("is no status of this version of Leaderwatch: {error}"))
}

/// What is found out about a status.
struct Told {
    /// What is not as it should be.
    wrong: Vec<String>,
    /// The pause that holds.
    pause: Option<Pause>,
}

/// The pause that holds in the state folder in which an agent has its status: `agents/HOST-PID/status.json`.
fn pause_of(file: &Path, now: Timestamp) -> io::Result<Option<Pause>> {
    let Some(state) = file.ancestors().nth(3) else { return Ok(None) };
    held(state, now)
}

/// The pause that holds in a state folder.
fn held(state: &Path, now: Timestamp) -> io::Result<Option<Pause>> {
    Ok(Pause::read(state)?.filter(|pause| !pause.remaining(now).is_zero()))
}

fn pause_in_words(pause: &Pause, now: Timestamp, zone: &TimeZone) -> String {
    let left = duration(u64::try_from(pause.remaining(now).as_millis()).unwrap_or(u64::MAX));
    format!("until {}, for {left}: {}", when::shown(pause.until, zone), pause.reason)
}

fn as_json(status: &Status, told: &Told) -> String {
    let mut json = serde_json::json!(status);
    json["wrong"] = serde_json::json!(told.wrong);
    if let Some(pause) = &told.pause {
        json["pause"] = serde_json::json!({ "until": pause.until, "reason": pause.reason });
    }
    format!("{json}\n")
}

fn ago_ms(at: Timestamp, now: Timestamp) -> i64 {
    now.as_millisecond() - at.as_millisecond()
}

fn ago(at: Timestamp, now: Timestamp) -> String {
    duration(u64::try_from(ago_ms(at, now)).unwrap_or(0))
}

/// What is not as it should be, in words.
fn wrong(status: &Status, now: Timestamp) -> Vec<String> {
    let mut wrong = Vec::new();
    if ago_ms(status.written_at, now) > SILENT_MS {
        wrong.push(format!("the agent is silent for {}: its process has ended or hangs", ago(status.written_at, now)));
    }
    if ago_ms(status.written_at, now) < -SILENT_MS {
        let ahead = ago(now, status.written_at);
        wrong.push(format!(
            "its last word is {ahead} in the future: the clock of that host, or of this one, is wrong, so that nobody can \
             tell whether the agent is alive"
        ));
    }
    let sound = |state: &str| state == "installed" || state == NOT_SEEN;
    wrong.extend(
        status.hooks.iter().filter(|(_, state)| !sound(state)).map(|(class, why)| format!("hook {class}: {why}")),
    );
    wrong.extend(
        status.seats.iter().filter(|seat| seat.leader_id.is_none()).map(|seat| format!("{}: no leader", name(seat))),
    );
    if let Some(oldest) = status.outbox_oldest_at.filter(|oldest| ago_ms(*oldest, now) > LATE_MS) {
        wrong.push(format!("an alert waits for {} to be delivered", ago(oldest, now)));
    }
    wrong.extend(status.problems.iter().cloned());
    wrong.extend(status.targets.iter().filter(|target| fails(target)).map(|target| {
        format!("target {}: {}", target.name, target.last_error.as_deref().unwrap_or("the last attempt failed"))
    }));
    if status.dropped_observations > 0 {
        let dropped = count(status.dropped_observations, "observation");
        wrong.push(format!("{dropped} could not be followed one by one"));
    }
    if status.lost_records > 0 {
        wrong.push(format!("{} of the alert log lost", count(status.lost_records, "record")));
    }
    if status.log.is_none() {
        wrong.push("no alert log: records go to standard error".to_owned());
    }
    wrong
}

fn fails(target: &TargetStatus) -> bool {
    target.last_error_at.is_some() && target.last_error_at > target.last_success_at
}

fn name(seat: &SeatStatus) -> String {
    match &seat.job_id {
        Some(job) => format!("{} {}", seat.component.name(), short(&job.to_string())),
        None => seat.component.name().to_owned(),
    }
}

fn in_words(status: &Status, told: &Told, now: Timestamp, zone: &TimeZone) -> String {
    let mut lines = vec![format!("{} on {} (process {})", status.cluster, status.host, status.pid)];
    let role = match status.role {
        leaderwatch_agent::process::Role::JobManager => "JobManager",
        leaderwatch_agent::process::Role::TaskManager => "TaskManager",
    };
    let flink = status.flink_version.as_ref().map(|version| format!(", Flink {version}")).unwrap_or_default();
    lines.push(format!("  agent    {} in a {role}{flink}, up {}", status.version, ago(status.started_at, now)));
    lines.push(format!("  log      {}", status.log.as_deref().unwrap_or("standard error")));
    let (unseen, seen): (Vec<_>, Vec<_>) = status.hooks.iter().partition(|(_, state)| *state == NOT_SEEN);
    for (class, state) in seen {
        lines.push(format!("  hook     {}: {state}", class.rsplit(['.', '/']).next().unwrap_or(class)));
    }
    if !unseen.is_empty() {
        let classes = if unseen.len() == 1 { "class" } else { "classes" };
        lines.push(format!("  hook     {} {classes} more, of other Flink versions or not in use yet", unseen.len()));
    }
    for seat in &status.seats {
        let leader = match (&seat.leader_id, &seat.address) {
            (Some(id), Some(address)) => format!("{} at {}", short(&id.to_string()), host_port(address)),
            (Some(id), None) => short(&id.to_string()).to_owned(),
            (None, _) => "no leader".to_owned(),
        };
        lines.push(format!("  leader   {}: {leader}, since {}", name(seat), when::shown(seat.since, zone)));
    }
    let oldest = status.outbox_oldest_at.map(|at| format!(", the oldest for {}", ago(at, now))).unwrap_or_default();
    lines.push(format!("  outbox   {} waiting{oldest}", count(status.outbox_pending, "alert")));
    for alert in &status.open_alerts {
        let (class, since) = (alert.class.name(), when::shown(alert.occurred_at, zone));
        lines.push(format!("  open     {class} {}, since {since}: {}", short(&alert.id), alert.title));
    }
    for target in &status.targets {
        let at = |at: Option<Timestamp>| at.map_or("never".to_owned(), |at| when::shown(at, zone));
        let mut line =
            format!("  target   {} ({}): last success {}", target.name, target.kind, at(target.last_success_at));
        if let Some(error) = &target.last_error {
            line += &format!(", last error {}: {error}", at(target.last_error_at));
        }
        lines.push(line);
    }
    if let Some(pause) = &told.pause {
        lines.push(format!("  PAUSED   {}", pause_in_words(pause, now, zone)));
    }
    lines.extend(told.wrong.iter().map(|what| format!("  WRONG    {what}")));
    if told.wrong.is_empty() {
        lines.push("  nothing is wrong".to_owned());
    }
    lines.iter().map(|line| printable(line).into_owned() + "\n").collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use leaderwatch_agent::alert::Class;
    use leaderwatch_agent::leadership::{Component, SessionId};
    use leaderwatch_agent::process::Role;
    use leaderwatch_agent::status::OpenAlertStatus;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn sound() -> Status {
        Status {
            schema: 1,
            written_at: at("2026-11-30T10:00:00Z"),
            started_at: at("2026-11-29T08:00:00Z"),
            version: "0.1.0".to_owned(),
            role: Role::TaskManager,
            cluster: "orders-prod".to_owned(),
            host: "tm-1".to_owned(),
            pid: 1,
            flink_version: Some("2.3.0".to_owned()),
            log: Some("/opt/flink/log/flink.leaderwatch.jsonl".to_owned()),
            hooks: [("org.apache.flink.A$B".to_owned(), "installed".to_owned())].into(),
            seats: vec![SeatStatus {
                component: Component::ResourceManager,
                job_id: None,
                leader_id: Some(SessionId(0xA1 << 120)),
                address: Some("pekko.tcp://flink@10.0.0.1:6123/user".to_owned()),
                since: at("2026-11-29T09:00:00Z"),
            }],
            outbox_pending: 0,
            outbox_oldest_at: None,
            targets: vec![TargetStatus {
                name: "mail".to_owned(),
                kind: "email".to_owned(),
                last_success_at: Some(at("2026-11-29T09:00:01Z")),
                last_error_at: None,
                last_error: None,
            }],
            problems: Vec::new(),
            open_alerts: Vec::new(),
            dropped_observations: 0,
            lost_records: 0,
        }
    }

    #[test]
    fn a_sound_agent_in_words() {
        let now = at("2026-11-30T10:00:05Z");
        let status = sound();
        assert_eq!(wrong(&status, now), Vec::<String>::new());
        insta::assert_snapshot!(in_words(&status, &Told { wrong: Vec::new(), pause: None }, now, &TimeZone::UTC));
    }

    #[test]
    fn everything_that_can_be_wrong_is_named() {
        let now = at("2026-11-30T10:10:00Z");
        let mut status = sound();
        status.hooks.insert("org.apache.flink.C".to_owned(), "its method has another descriptor".to_owned());
        status.seats[0].leader_id = None;
        status.outbox_pending = 2;
        status.outbox_oldest_at = Some(at("2026-11-30T09:00:00Z"));
        status.targets[0].last_error_at = Some(at("2026-11-30T09:00:01Z"));
        status.targets[0].last_error = Some("the server answered 535\u{1b}[2J".to_owned());
        status.problems = vec!["target pager: it is disabled: its `routing_key` cannot be read".to_owned()];
        status.open_alerts = vec![OpenAlertStatus {
            id: "3f2a9c11d0e4b7a6".to_owned(),
            class: Class::NoLeader,
            title: "orders-prod has no leader".to_owned(),
            occurred_at: at("2026-11-30T09:58:00Z"),
        }];
        status.dropped_observations = 1;
        status.lost_records = 3;
        status.log = None;
        let told = Told { wrong: wrong(&status, now), pause: None };
        insta::assert_snapshot!(in_words(&status, &told, now, &TimeZone::UTC));
    }

    /// Regression: an agent whose clock was ahead counted as alive long after its end.
    #[test]
    fn a_word_from_the_future_proves_nothing() {
        assert_eq!(wrong(&sound(), at("2026-11-30T09:59:30Z")), Vec::<String>::new(), "clocks differ a little");
        let told = wrong(&sound(), at("2026-11-29T10:00:00Z"));
        assert!(told[0].contains("1 d 0 h in the future"), "{told:?}");
    }

    #[test]
    fn a_pause_is_told_as_long_as_it_holds() {
        let state = tempfile::tempdir().unwrap();
        let own = state.path().join("agents/tm-1-1");
        fs::create_dir_all(&own).unwrap();
        let file = own.join(FILE_NAME);
        let (from, until) = (at("2026-11-30T10:00:00Z"), at("2026-11-30T10:20:00Z"));
        Pause { schema: 1, from, until, reason: "upgrade".to_owned() }.write(state.path()).unwrap();
        let now = at("2026-11-30T10:00:05Z");
        let told = Told { wrong: Vec::new(), pause: pause_of(&file, now).unwrap() };
        let words = in_words(&sound(), &told, now, &TimeZone::UTC);
        assert!(words.contains("\n  PAUSED   until 2026-11-30 10:20:00.000, for 19 min 55 s: upgrade\n"), "{words}");
        assert!(as_json(&sound(), &told).contains(r#""pause":{"reason":"upgrade","until":"2026-11-30T10:20:00Z"}"#));
        assert_eq!(pause_of(&file, until).unwrap(), None);
        fs::write(state.path().join(leaderwatch_agent::pause::FILE_NAME), "{").unwrap();
        assert!(pause_of(&file, now).is_err());
    }

    #[test]
    fn what_an_agent_writes_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("user/flink/orders-prod");
        fs::create_dir_all(&deep).unwrap();
        sound().write(&deep).unwrap();
        let mut found = Vec::new();
        find(folder.path(), 0, &mut found).unwrap();
        assert_eq!(found, [deep.join(FILE_NAME)]);
        assert_eq!(parse(&fs::read(&found[0]).unwrap()), Ok(sound()));
    }
}
