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

/// The table of a log that is larger than the memory that the command may have.
#[test]
fn a_log_is_read_as_a_stream() {
    const MOST_KB: usize = 49_152;
    let line = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/__fuzz__/alert_log/corpus/leader.moved"));
    let line = line.unwrap();
    let limited = format!("ulimit -v {MOST_KB}; exec {} log -", env!("CARGO_BIN_EXE_leaderwatch"));
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = std::io::BufWriter::new(child.stdin.take().unwrap());
    let lines = MOST_KB * 1024 * 3 / 2 / line.len();
    for number in 0..lines {
        let (second, minute, hour) = (number % 60, number / 60 % 60, number / 3600 % 24);
        // Each has a time of its own, so that none is left out as seen alike.
        let time =
            format!("2026-11-{:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", 1 + number / 86_400, number % 1000);
        input.write_all(line.replace("2026-11-30T10:19:49.123Z", &time).as_bytes()).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
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

/// Holds a fault: what came through a pipe was shown when the pipe ended, and the command did not end with it.
#[test]
fn follow_shows_a_pipe_as_it_comes_and_ends_with_it() {
    let mut child = leaderwatch(&["log", "--follow", "-"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut pipe, mut shown) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let record = |pending: u32| {
        format!(
            r#"{{"ts":"2026-11-30T10:19:49.123Z","event":"agent.stopped","pending":{pending},"cluster":"c","host":"h","pid":1}}"#
        ) + "\n"
    };
    let mut text = String::new();
    for pending in [1, 2] {
        pipe.write_all(record(pending).as_bytes()).unwrap();
        while !text.contains(&format!("{pending} alert")) {
            assert!(shown.read_line(&mut text).unwrap() > 0, "{text}");
        }
    }
    drop(pipe);
    assert!(child.wait().unwrap().success());
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
    assert!(told.starts_with("exit status 2") && told.contains("is no JVM; nothing was done to it"), "{told}");
    assert!(sleeper.try_wait().unwrap().is_none());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(tell(&["attach", "0"]).starts_with("exit status 2"));
}

/// The outputs of one command after another, with the folder's own path and all times left out.
fn story(folder: &Path, calls: &[&[&str]]) -> String {
    let path = folder.to_str().unwrap();
    let mut story = String::new();
    for call in calls {
        let arguments: Vec<String> = call.iter().map(|word| word.replace("FOLDER", path)).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        story += &format!("$ leaderwatch {}\n{}\n", call.join(" "), tell(&arguments).replace(path, "FOLDER"));
    }
    let date = "2026-11-30 21:37:54.147";
    let is_time = |text: &str| {
        let like =
            |(one, other): (char, char)| if other.is_ascii_digit() { one.is_ascii_digit() } else { one == other };
        text.chars().count() == date.len() && text.chars().zip(date.chars()).all(like)
    };
    while let Some(at) = (0..story.len()).find(|at| story.get(*at..at + date.len()).is_some_and(is_time)) {
        story.replace_range(at..at + date.len(), "TIME");
    }
    story
}

#[test]
fn a_pause_is_begun_shown_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("1000..orders/outbox")).unwrap();
    let begin: &[&str] = &["pause", "FOLDER", "--for", "20m", "--reason", "upgrade to 2.3"];
    let (show, end): (&[&str], &[&str]) = (&["pause", "FOLDER"], &["pause", "FOLDER", "--end"]);
    insta::assert_snapshot!(story(folder.path(), &[show, begin, end, end]));
}

#[test]
fn an_installation_is_shown_made_and_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    fs::write(folder.path().join("library.so"), LIBRARY).unwrap();
    file("bin/taskmanager.sh", "");
    file("lib/flink-dist-2.3.0.jar", "");
    file("conf/config.yaml", "env:\n  java:\n    opts:\n      all: --add-exports=java.base/a=b\n");
    let library = ["install", "FOLDER", "--library", "FOLDER/library.so"];
    let dry: &[&str] = &[&library[..], &["--dry-run"]].concat();
    let undo: &[&str] = &["install", "FOLDER", "--undo"];
    insta::assert_snapshot!(story(folder.path(), &[dry, &library, &library, undo, undo]));
}

/// What the head of a library for this machine says.
const LIBRARY: &[u8] = if cfg!(target_arch = "aarch64") {
    b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\xb7\0a library"
} else {
    b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0a library"
};

#[test]
fn attach_says_why_it_does_not() {
    let own = std::process::id().to_string();
    let told =
        [&["attach", &own][..], &["attach", "0"], &["attach", "4194304"], &["attach", "flink"]].map(tell).join("\n");
    insta::assert_snapshot!(told.replace(&own, "PID"));
}

/// Exit status 2 means that nothing was done, 1 that something is wrong with what was looked at.
#[test]
fn every_way_to_end_has_its_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let torn_gzip = file("torn/a.jsonl", &[0x1f, 0x8b, 8, 0, 0, 0]);
    let closed_log = file("a.jsonl.gz", &[0x1f, 0x8b]);
    let latin = file("latin.toml", b"cluster = 'a'\nlanguage = '\xe4'\n");
    let foreign = file("foreign.jsonl", b"Exception in thread\n");
    let bad = file("bad.toml", b"languge = 'en'\n");
    let bare = file("bare.toml", b"");
    let nobody = ports_without_receiver();
    let deaf = file(
        "deaf.toml",
        format!("[[target]]\nname = 'hook'\nkind = 'webhook'\nurl = 'http://127.0.0.1:{nobody}/'\n").as_bytes(),
    );
    let garbled_status = file("garbled/agents/h-1/status.json", b"{");
    let state = file("state/1000..orders/outbox/keep", b"");
    let state = Path::new(&state).ancestors().nth(2).unwrap().to_str().unwrap();
    file("blocked/1000..orders/outbox/keep", b"");
    let blocked = folder.path().join("blocked/1000..orders");
    fs::create_dir(blocked.join("pause.json")).unwrap();
    let (blocked, empty) = (blocked.to_str().unwrap(), folder.path().join("empty"));
    fs::create_dir(&empty).unwrap();
    let empty = empty.to_str().unwrap();
    let own_page = format!("{empty}/page.html");

    let agent_option = format!("-agentpath:/x/libleaderwatch.so=webhook=http://127.0.0.1:{nobody}/");
    let library = file("library.so", LIBRARY);
    file("garbled_pause/1000..orders/outbox/keep", b"");
    file("garbled_pause/1000..orders/pause.json", b"{");
    let garbled = folder.path().join("garbled_pause/1000..orders");
    let garbled = garbled.to_str().unwrap();
    let own_log = file("own.jsonl", b"{}\n");
    let link_to_own_log = folder.path().join("link.html");
    std::os::unix::fs::symlink(&own_log, &link_to_own_log).unwrap();
    let link_to_own_log = link_to_own_log.to_str().unwrap();
    file("home/lib/flink-dist-2.3.0.jar", b"");
    file("home/conf/config.yaml", b"parallelism.default: 1\n");
    let home = folder.path().join("home");
    let home = home.to_str().unwrap();
    file("no_yaml/conf/config.yaml", b"a: b\n\tc: d\n");
    let no_yaml = folder.path().join("no_yaml");
    let no_yaml = no_yaml.to_str().unwrap();
    let man_folder = folder.path().join("man/man1");
    let man_folder = man_folder.to_str().unwrap();

    let cases: &[(&[&str], i32, &str)] = &[
        (&[], 2, "Usage"),
        (&["help"], 0, ""),
        (&["--version"], 0, ""),
        (&["lgo"], 2, "unrecognized subcommand"),
        (&["log", LOGS], 0, ""),
        (&["log", &foreign], 1, "1 line skipped: 0 torn, 1 foreign"),
        (&["log", "/absent"], 2, "/absent: No such file"),
        (&["log", empty], 2, "no alert log"),
        (&["log", &torn_gzip], 1, "torn/a.jsonl"),
        (&["log", "--follow", &closed_log], 2, "nothing will be added to it"),
        (&["log", LOGS, "--undelivered"], 1, ""),
        (&["log", LOGS, "--undelivered", "--follow"], 2, "cannot be used with"),
        (&["log", LOGS, "--component", "janitor"], 2, "jobmanager"),
        (&["log", LOGS, "--event", "leader.vanished"], 0, "knows no event `leader.vanished`, but: agent.started"),
        (&["log", LOGS, "--job", "ffffffff"], 0, "is what was asked for"),
        (&["log", LOGS, "--undelivered", "--job", "ffffffff"], 0, "no alert of"),
        (&["log", &bare], 1, "no record was read"),
        (&["log", &bare, "--undelivered"], 1, "no record was read"),
        (&["log", LOGS, "--event", "leader.*,alert."], 0, ""),
        (&["log", LOGS, "--since", "soon"], 2, "`2h`"),
        (&["log", LOGS, "--job", "orders"], 2, "hexadecimal"),
        (&["log", LOGS, "--time-zone", "Mars/Base"], 2, "Mars/Base"),
        (&["report", LOGS], 2, "--output"),
        (&["report", &own_log, "-o", &own_log], 2, "is a log to report on"),
        (&["report", &own_log, "-o", link_to_own_log], 2, "is a log to report on"),
        (&["report", LOGS, "-o", &own_page], 0, ""),
        (&["report", LOGS, "-o", "/absent/page.html"], 2, "/absent/page.html"),
        (&["report", LOGS, "-o", &own_page, "--max-events", "-1"], 2, "invalid value '-1'"),
        (&["report", "/absent", "--json"], 2, "/absent: No such file"),
        (&["report", &foreign, "--json"], 1, "no record"),
        (&["report", LOGS, &torn_gzip, "--json"], 1, "torn/a.jsonl"),
        (&["check", "--example"], 0, ""),
        (&["check", "--schema"], 0, ""),
        (&["check"], 2, "required"),
        (&["check", "--example", "--schema"], 2, "cannot be used with"),
        (&["check", "/absent.toml"], 2, "check the path"),
        (&["check", &bad], 1, ""),
        (&["check", &bare], 0, ""),
        (&["check", &bare, "--strict"], 1, ""),
        (&["check", &latin], 2, "line 2 is not UTF-8"),
        (&["check", "--flink-conf", empty], 2, "no configuration of Flink here"),
        (&["check", "--flink-conf", no_yaml], 1, ""),
        (&["check", "--flink-conf", home, "--flink-version", "abc"], 2, "`abc` is no version of Flink"),
        (&["test", "/absent.toml"], 2, "check the path"),
        (&["test", &bare], 2, "no target to test"),
        (&["test", &deaf, "--target", "chat"], 2, "no target `chat`; there are: hook"),
        (&["test", &deaf, "--timeout", "soon"], 2, "--timeout"),
        (&["test", &deaf, "--timeout", "0s"], 2, "--timeout"),
        (&["test", &deaf, "--class", "storm"], 2, "no_leader"),
        (&["test", &deaf, "--dry-run"], 0, ""),
        (&["test", &deaf], 1, ""),
        (&["test"], 2, "required"),
        (&["test", "--options", &agent_option], 1, ""),
        (&["test", "--options", "cluster=orders"], 2, "no target to test"),
        (&["status", "/absent"], 2, "/absent: No such file"),
        (&["status", empty], 2, "no status.json"),
        (&["status", &garbled_status], 1, "no status of this version"),
        (&["pause"], 2, "required"),
        (&["pause", empty], 2, "no agent keeps its state"),
        (&["pause", state], 0, ""),
        (&["pause", state, "--for", "20m"], 2, "--reason"),
        (&["pause", state, "--for", "25h", "--reason", "r"], 2, "a pause always ends"),
        (&["pause", state, "--for", "20m", "--reason", "r"], 0, ""),
        (&["pause", garbled], 1, "`leaderwatch pause --end` removes it"),
        (&["pause", garbled, "--end"], 0, ""),
        (&["pause", garbled], 0, ""),
        (&["pause", blocked, "--for", "20m", "--reason", "r"], 2, "1000..orders"),
        (&["attach", "0"], 2, "0 is not in 1.."),
        (&["attach", "-1"], 2, "invalid value '-1'"),
        (&["attach", "4194305"], 2, "there is no such process"),
        (&["install", empty], 2, "no Flink here"),
        (&["install", home, "--library", &library, "--config", "/absent.toml"], 2, "no such file"),
        (&["install", home, "--library", &library, "--config", &bad], 1, "its configuration has errors (1)"),
        (&["install", home, "--library", &bare], 2, "is no library for"),
        (&["completions", "cmd"], 2, "bash"),
        (&["man", "--output", "/dev/null/folder"], 2, "/dev/null/folder"),
        (&["man", "--output", man_folder], 0, ""),
    ];
    let mut wrong = Vec::new();
    for (arguments, status, complaint) in cases {
        let output = leaderwatch(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(*status) || !stderr.contains(complaint) {
            wrong.push(format!("{arguments:?}: {} expected with `{complaint}`: {}", status, told(&output)));
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "{}", wrong.join("\n"));
}

/// Holds a fault: a zone that nobody knows was taken for that of the machine without a word.
#[test]
fn a_zone_in_the_environment_that_is_not_known_is_told() {
    for (zone, complaint) in [("Mars/Base", "TZ: `Mars/Base` is no time zone"), ("Asia/Shanghai", ""), ("", "")] {
        let output = leaderwatch(&["log", LOGS]).env("TZ", zone).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        assert!(stderr.contains(complaint) && stderr.contains("TZ: ") != complaint.is_empty(), "{zone}: {stderr}");
    }
}

/// A port of this machine on which nobody listens.
fn ports_without_receiver() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Nobody is told less than everything with a good conscience.
#[test]
fn a_full_disk_behind_standard_output_is_told() {
    let logs = ["log", LOGS];
    let report = ["report", LOGS, "-o", "-"];
    for arguments in [&logs[..], &report, &["check", "--example"], &["completions", "bash"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = leaderwatch(arguments).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("standard output: No space left"), "{arguments:?}");
    }
}

#[test]
fn the_help_of_each_command_is_as_it_is_documented() {
    let commands = ["", "attach", "check", "install", "log", "pause", "report", "status", "test"];
    let help = commands.map(|command| {
        let arguments: Vec<&str> = [command, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
        String::from_utf8(leaderwatch(&arguments).output().unwrap().stdout).unwrap()
    });
    insta::assert_snapshot!(help.join("\n\n"));
}

/// Holds a fault: a folder that may not be read kept the logs beside it from being shown.
#[test]
fn a_folder_that_may_not_be_read_is_named_and_the_rest_is_shown() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;

    const NOBODY: u32 = 65_534;
    let folder = tempfile::tempdir().unwrap();
    let allow = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    allow(folder.path(), 0o755);
    let (command, logs) = (folder.path().join("leaderwatch"), folder.path().join("logs"));
    // Root may read everything, and the folder of the build may be root's.
    fs::copy(env!("CARGO_BIN_EXE_leaderwatch"), &command).unwrap();
    let locked = logs.join("locked");
    fs::create_dir_all(&locked).unwrap();
    let name = "flink-u-taskexecutor-0-tm1.leaderwatch.jsonl";
    fs::copy(Path::new(LOGS).join(name), logs.join(name)).unwrap();
    allow(&locked, 0);
    for arguments in [&["log"][..], &["report", "--json"]] {
        let mut command = Command::new(&command);
        command.args(arguments).arg(&logs).env("TZ", "UTC").stdin(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY);
        }
        let output = command.output().unwrap();
        let told = told(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("locked: Permission denied"), "{told}");
        assert!(told.contains("leader") && output.stdout.len() > 100, "{told}");
    }
    allow(&locked, 0o700);
}

/// Holds a fault: `report` told an empty folder and an empty log alike, `log` did not.
#[test]
fn a_folder_without_logs_is_told_alike_by_log_and_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let (log, report) = (tell(&["log", path]), tell(&["report", path, "--json"]));
    assert_eq!(log, report);
    assert!(log.starts_with("exit status 2") && log.contains("no alert log (*.jsonl) in there"), "{log}");
}

/// Holds a fault: one record of the year 0 made a page of seven megabytes.
#[test]
fn a_clock_that_was_far_off_makes_no_long_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let record = |time: &str| {
        format!(r#"{{"ts":"{time}","event":"agent.stopped","pending":0,"cluster":"c","host":"h","pid":1}}"#) + "\n"
    };
    fs::write(&path, record("0000-01-01T00:00:00.000Z") + &record("2026-11-30T10:00:00.000Z")).unwrap();
    let output = leaderwatch(&["report", path.to_str().unwrap(), "-o", "-"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.len() < 200_000, "{} bytes", output.stdout.len());
}

/// Holds a fault: a table of what is undelivered went over the edge of the terminal.
#[test]
fn undelivered_alerts_fit_the_width() {
    let output = leaderwatch(&["log", LOGS, "--undelivered", "--width", "60"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.is_empty() && text.lines().all(|line| line.chars().count() <= 60), "{text}");
}

/// A proxy for HTTP that answers one request; and the line that it was asked with.
fn http_proxy() -> (u16, std::thread::JoinHandle<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let (mut request, mut asked) = (BufReader::new(&stream), String::new());
        request.read_line(&mut asked).unwrap();
        let mut line = String::new();
        while request.read_line(&mut line).unwrap() > 2 {
            line.clear();
        }
        (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        asked
    });
    (port, task)
}

/// `HTTP_PROXY` and its like are the environment's of Flink, so they are seen in another process only.
#[test]
fn the_way_out_that_the_environment_names_is_taken() {
    const OPTIONS: &str = "webhook=http://127.0.0.2:9/hook";
    let clean = || {
        let mut command = leaderwatch(&["test", "--options", OPTIONS, "--timeout", "5s"]);
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        command
    };
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        let (port, asked) = http_proxy();
        let output = clean().env(name, format!("http://127.0.0.1:{port}")).output().unwrap();
        assert!(output.status.success(), "{name}: {}", told(&output));
        assert!(asked.join().unwrap().starts_with("POST http://127.0.0.2:9/hook "), "{name}");
    }
    let (port, _asked) = http_proxy();
    let spared = clean().env("HTTP_PROXY", format!("http://127.0.0.1:{port}")).env("NO_PROXY", "127.0.0.2").output();
    assert_eq!(spared.unwrap().status.code(), Some(1), "nobody listens at the receiver's own address");
}
