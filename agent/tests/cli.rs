//! The command `leaderwatch`, as a user calls it: its output and its exit status.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const LOGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/logs");

fn leaderwatch(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leaderwatch"));
    command.args(arguments).env("TZ", "UTC").env_remove("COLUMNS").stdin(Stdio::null());
    command
}

/// Exit status, standard output and standard error, as one text.
fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().replace(LOGS, "LOGS");
    let status = output.status.code().unwrap();
    format!("exit status {status}\n--- stdout\n{}--- stderr\n{}", text(&output.stdout), text(&output.stderr))
}

fn tell(arguments: &[&str]) -> String {
    told(&leaderwatch(arguments).output().unwrap())
}

#[test]
fn log_tells_one_story() {
    insta::assert_snapshot!(tell(&["log", LOGS, "--time-zone", "Asia/Shanghai"]));
}

#[test]
fn log_fits_a_narrow_terminal() {
    insta::assert_snapshot!(tell(&["log", LOGS, "--time-zone", "UTC", "--width", "100"]));
}

#[test]
fn log_filters() {
    let options = ["--job", "3F0C97A1", "--since", "2026-11-30T10:01:00Z", "--event", "leader.moved,alert."];
    insta::assert_snapshot!(tell(&[&["log", LOGS, "--time-zone", "UTC"], &options[..]].concat()));
}

#[test]
fn log_as_json_is_the_lines_as_they_are() {
    insta::assert_snapshot!(tell(&["log", LOGS, "--json", "--component", "resourcemanager"]));
}

#[test]
fn log_of_undelivered_alerts_fails_where_there_are_any() {
    insta::assert_snapshot!(tell(&["log", LOGS, "--undelivered", "--time-zone", "UTC"]));
    let delivered = tell(&["log", LOGS, "--undelivered", "--job", "ffff"]);
    assert!(delivered.starts_with("exit status 0"), "{delivered}");
}

#[test]
fn a_wrong_call_says_what_is_right() {
    insta::assert_snapshot!(
        [
            tell(&["log", "/absent"]),
            tell(&["log", LOGS, "--since", "soon"]),
            tell(&["log", LOGS, "--job", "orders"]),
            tell(&["log", LOGS, "--time-zone", "Mars/Base"]),
            tell(&["report", "/absent", "--json"]),
            tell(&["status", LOGS]),
        ]
        .join("\n")
    );
    assert_eq!(leaderwatch(&["log", "--colour"]).output().unwrap().status.code(), Some(2));
}

#[test]
fn gzipped_standard_input_is_read() {
    let mut child = leaderwatch(&["log", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let log = fs::read(Path::new(LOGS).join("flink-u-taskexecutor-0-tm1.leaderwatch.jsonl")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(child.stdin.take().unwrap(), flate2::Compression::fast());
    packed.write_all(&log).unwrap();
    packed.finish().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 11);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = leaderwatch(&["log", LOGS]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

fn line(number: u32) -> String {
    format!(
        r#"{{"ts":"2026-11-30T10:00:{number:02}.000Z","event":"agent.stopped","pending":{number},"cluster":"c","host":"h","pid":1}}"#
    ) + "\n"
}

/// A log that grows, is closed under another name while it has an unread rest, and is begun anew.
#[test]
fn follow_goes_on_over_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let live = folder.path().join("f.leaderwatch.jsonl");
    fs::write(&live, line(1)).unwrap();
    let mut child = leaderwatch(&["log", folder.path().to_str().unwrap(), "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || output.next().unwrap().unwrap() + "\n";
    assert_eq!(next(), line(1));

    let append = |path: &Path, text: &str| {
        fs::OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    };
    let (begin, end) = (&line(2)[..20], &line(2)[20..]);
    append(&live, begin);
    append(&live, end);
    assert_eq!(next(), line(2));
    append(&live, &line(3));
    fs::rename(&live, folder.path().join("f.leaderwatch.20261130T100003.000Z.jsonl")).unwrap();
    append(&live, &line(4));
    assert_eq!(next(), line(3));
    assert_eq!(next(), line(4));
    append(&folder.path().join("g.leaderwatch.jsonl"), &line(5));
    assert_eq!(next(), line(5));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn report_as_json() {
    insta::assert_snapshot!(tell(&["report", LOGS, "--json", "--time-zone", "UTC"]));
}

#[test]
fn report_is_one_page_that_fetches_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    let output = leaderwatch(&["report", LOGS, "--time-zone", "UTC", "-o"]).arg(&path).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let page = fs::read_to_string(path).unwrap();
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("@import"));
    for expected in ["orders-enrich", "mail: failed after 5 attempts", "Skip to content", "2026-11-30 10:20:30.000"] {
        assert!(page.contains(expected), "{expected}");
    }
}

/// What a log holds can be another's text: it must not become part of the page.
#[test]
fn report_escapes_what_the_log_says() {
    let folder = tempfile::tempdir().unwrap();
    let evil = r#"{"ts":"2026-11-30T10:00:00.000Z","event":"agent.problem","what":"<img src=x>","reason":"</script><script>alert(1)</script>","cluster":"<b>","host":"h","pid":1}"#;
    fs::write(folder.path().join("a.jsonl"), evil.to_owned() + "\n").unwrap();
    let output = leaderwatch(&["report", folder.path().to_str().unwrap(), "-o", "-"]).output().unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("&lt;img src=x&gt;"));
    assert!(!page.contains("<img") && !page.contains("<b>alert") && !page.contains("<script>alert"));
    assert_eq!(page.matches("</script>").count(), 2);
}

#[test]
fn shells_and_man_know_every_subcommand() {
    let subcommands = ["attach", "check", "log", "pause", "report", "status", "test"];
    for arguments in [&["completions", "bash"][..], &["completions", "zsh"], &["completions", "fish"], &["man"]] {
        let text = tell(arguments);
        assert!(text.starts_with("exit status 0"), "{arguments:?}");
        for subcommand in subcommands {
            assert!(text.contains(subcommand), "{arguments:?} {subcommand}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    tell(&["man", "--output", folder.path().to_str().unwrap()]);
    for subcommand in subcommands {
        let page = fs::read_to_string(folder.path().join(format!("leaderwatch-{subcommand}.1"))).unwrap();
        assert!(page.contains(".SH OPTIONS"), "{subcommand}");
    }
}

/// SIGQUIT would end the process.
#[test]
fn attach_leaves_a_process_that_is_no_jvm_alone() {
    let mut sleeper = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let pid = sleeper.id().to_string();
    let told = tell(&["attach", &pid]);
    assert!(told.starts_with("exit status 1") && told.contains("is no JVM; nothing was done to it"), "{told}");
    assert!(sleeper.try_wait().unwrap().is_none());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(tell(&["attach", "0"]).starts_with("exit status 2"));
}
