//! Tests of the writer on a real file system.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use super::*;

/// Standard error, as a test sees it.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn record(number: u64) -> Record {
    Record {
        ts: Timestamp::from_second(1_790_000_000 + i64::try_from(number).unwrap()).unwrap(),
        event: Event::AgentStopped { pending: number },
        cluster: "c".to_owned(),
        host: "h".to_owned(),
        pid: 1,
    }
}

fn settings(path: &Path) -> Settings {
    Settings::new(vec![path.to_path_buf()])
}

fn open(path: &Path) -> Writer {
    let (writer, problem) = Writer::open(settings(path));
    assert_eq!(problem, None);
    writer
}

/// Numbers of the records in all files of the folder, sorted.
fn numbers(folder: &Path) -> Vec<u64> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in text.lines() {
            if let Event::AgentStopped { pending } = serde_json::from_str::<Record>(line).unwrap().event {
                found.push(pending);
            }
        }
    }
    found.sort_unstable();
    found
}

fn file_names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_start_goes_on_where_the_last_run_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.leaderwatch.jsonl");
    for number in 0..3 {
        open(&path).append(&record(number)).unwrap();
    }
    assert_eq!(numbers(folder.path()), [0, 1, 2]);
    assert_eq!(file_names(folder.path()), ["f.leaderwatch.jsonl"]);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
}

#[test]
fn a_torn_last_line_does_not_spoil_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.jsonl");
    fs::write(&path, "{\"ts\":\"2026-11-3").unwrap();
    open(&path).append(&record(7)).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 2);
    assert!(serde_json::from_str::<Record>(text.lines().last().unwrap()).is_ok());
}

#[test]
fn a_file_is_closed_by_size_and_the_oldest_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.leaderwatch.jsonl");
    let line_bytes = serde_json::to_vec(&record(10)).unwrap().len() as u64 + 1;
    let settings = Settings { max_file_bytes: 2 * line_bytes, keep_closed: 3, ..settings(&path) };
    let (mut writer, problem) = Writer::open(settings);
    assert_eq!(problem, None);
    for number in 10..21 {
        writer.append(&record(number)).unwrap();
    }
    // Six files of two, the last one half full; three closed ones are kept.
    assert_eq!(numbers(folder.path()), [14, 15, 16, 17, 18, 19, 20]);
    assert_eq!(file_names(folder.path()).len(), 4);
}

#[test]
fn two_closed_in_the_same_millisecond_are_both_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.leaderwatch.jsonl");
    let (mut writer, _) = Writer::open(Settings { max_file_bytes: 1, ..settings(&path) });
    for _ in 0..3 {
        writer.append(&record(5)).unwrap();
    }
    assert_eq!(numbers(folder.path()), [5, 5, 5]);
}

#[test]
fn what_is_no_alert_log_is_not_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("conf.yaml"), "rest.port: 8081\n").unwrap();
    std::os::unix::fs::symlink(at("conf.yaml"), at("symbolic.jsonl")).unwrap();
    fs::write(at("first.jsonl"), "").unwrap();
    fs::hard_link(at("first.jsonl"), at("second.jsonl")).unwrap();
    fs::create_dir(at("folder.jsonl")).unwrap();
    assert!(Command::new("mkfifo").arg(at("fifo.jsonl")).status().unwrap().success());

    for (name, expected) in [
        ("conf.yaml", "something other than an alert log"),
        ("symbolic.jsonl", "symbolic link"),
        ("second.jsonl", "hard link"),
        ("folder.jsonl", "directory"),
        ("fifo.jsonl", "not a regular file"),
        ("conf.yaml/x.jsonl", ""),
    ] {
        let (writer, problem) = Writer::open_with(settings(&at(name)), Box::new(Printed::default()));
        let Some(JournalProblem::NoFile { reason }) = problem else { panic!("{name}: {problem:?}") };
        assert!(reason.contains(expected), "{name}: {reason}");
        assert_eq!(writer.path(), None);
    }
    assert_eq!(fs::read_to_string(at("conf.yaml")).unwrap(), "rest.port: 8081\n");
}

#[test]
fn without_a_file_records_go_to_standard_error_until_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("logs/f.jsonl");
    fs::write(folder.path().join("logs"), "in the way").unwrap();
    let printed = Printed::default();
    let (mut writer, problem) = Writer::open_with(settings(&path), Box::new(printed.clone()));
    assert!(matches!(problem, Some(JournalProblem::NoFile { .. })));
    // It was told at the start, so it is not told again.
    assert_eq!(writer.append(&record(1)), Ok(()));
    assert_eq!(writer.append(&record(2)), Ok(()));
    assert_eq!(writer.missing(), 2);
    assert_eq!(printed.0.lock().unwrap().iter().filter(|byte| **byte == b'\n').count(), 2);

    fs::remove_file(folder.path().join("logs")).unwrap();
    writer.append(&record(3)).unwrap();
    assert_eq!(writer.missing(), 0);
    let text = fs::read_to_string(&path).unwrap();
    let first: Record = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let Event::AgentProblem { reason, .. } = first.event else { panic!("{text}") };
    assert_eq!(
        reason,
        "2 records since 2026-09-21T14:13:21.000Z are missing here: 0 are lost, 2 are on standard error"
    );
    assert_eq!(numbers(path.parent().unwrap()), [3]);
}

#[test]
fn the_next_path_is_taken_where_the_first_will_not_do() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("conf.yaml"), "a: b\n").unwrap();
    let paths = vec![folder.path().join("conf.yaml"), folder.path().join("tmp/leaderwatch.jsonl")];
    let (writer, problem) = Writer::open(Settings::new(paths.clone()));
    assert_eq!(writer.path(), Some(paths[1].as_path()));
    let Some(JournalProblem::OtherFile { wanted, taken, .. }) = problem else { panic!("{problem:?}") };
    assert_eq!([wanted, taken].as_slice(), paths);
}

#[test]
fn a_second_process_takes_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.leaderwatch.jsonl");
    fs::write(&path, "").unwrap();
    // flock(1) holds the lock until its standard input is closed.
    let mut other = Command::new("flock")
        .args([path.as_os_str(), "sh".as_ref(), "-c".as_ref(), "echo locked; cat".as_ref()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut word = [0; 7];
    other.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();

    let (mut second, problem) = Writer::open(settings(&path));
    let Some(JournalProblem::OtherFile { taken, reason, .. }) = problem else { panic!("{problem:?}") };
    assert_eq!(taken, folder.path().join("f.leaderwatch.2.jsonl"));
    assert!(reason.contains("belongs to another process"), "{reason}");
    let (third, _) = Writer::open(settings(&path));
    assert_eq!(third.path(), Some(folder.path().join("f.leaderwatch.3.jsonl").as_path()));
    second.append(&record(2)).unwrap();

    drop(other.stdin.take());
    other.wait().unwrap();
    assert_eq!(open(&path).path(), Some(path.as_path()));
}

#[test]
fn a_file_renamed_under_the_process_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.leaderwatch.jsonl");
    let mut writer = open(&path);
    writer.append(&record(1)).unwrap();
    fs::rename(&path, folder.path().join("f.leaderwatch.jsonl.1")).unwrap();
    writer.append(&record(2)).unwrap();
    assert_eq!(file_names(folder.path()), ["f.leaderwatch.jsonl"]);
    assert_eq!(numbers(folder.path()), [1, 2]);
}

/// Another start with the same prefix renames the file of a running process, and the new process is the first to
/// create one at the path.
#[test]
fn a_renamed_file_is_kept_where_another_process_took_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.leaderwatch.jsonl");
    let mut first = open(&path);
    first.append(&record(1)).unwrap();
    fs::rename(&path, folder.path().join("f.leaderwatch.jsonl.1")).unwrap();
    let mut second = open(&path);
    second.append(&record(2)).unwrap();
    let told = first.append(&record(3));
    assert!(matches!(told, Err(JournalProblem::OtherFile { .. })), "{told:?}");
    first.append(&record(4)).unwrap();
    assert_eq!(first.path(), Some(folder.path().join("f.leaderwatch.2.jsonl").as_path()));
    assert_eq!(numbers(folder.path()), [1, 2, 3, 4]);
    assert!(file_names(folder.path()).iter().all(|name| name.ends_with(".jsonl")));
}

#[test]
fn a_removed_file_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.jsonl");
    let mut writer = open(&path);
    writer.append(&record(1)).unwrap();
    fs::remove_file(&path).unwrap();
    writer.append(&record(2)).unwrap();
    assert_eq!(numbers(folder.path()), [2]);
}

/// What `flink-daemon.sh` of Flink 1.11 and older does with the files of a log prefix at each start, in its effect:
/// each `F` becomes `F.1`, `F.1` becomes `F.2`, and so on; what was `F.MAX` is gone. Where `F` is not there, its
/// numbered files are left alone.
fn rotate_as_flink_does(folder: &Path, prefix: &str, max: u32) {
    let mut bases: Vec<String> = file_names(folder).into_iter().filter(|name| name.starts_with(prefix)).collect();
    for name in &mut bases {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            name.truncate(name.len() - digits - 1);
        }
    }
    bases.sort();
    bases.dedup();
    for base in bases.iter().map(|name| folder.join(name)).filter(|path| path.is_file()) {
        let numbered = |number: u32| PathBuf::from(format!("{}.{number}", base.display()));
        for number in (1..max).rev() {
            let _ = fs::rename(numbered(number), numbered(number + 1));
        }
        fs::rename(&base, numbered(1)).unwrap();
    }
}

/// Runs the function of a real Flink's `config.sh`.
fn rotate_by_script(config_sh: &Path, folder: &Path, prefix: &str, max: u32) {
    let script = format!(
        "source <(sed -n '/^rotateLogFilesWithPrefix() {{/,/^}}/p;/^rotateLogFile() {{/,/^}}/p' \"$1\")\n\
         MAX_LOG_FILE_NUMBER={max}\n\
         rotateLogFilesWithPrefix \"$2\" \"$2/$3\""
    );
    let status = Command::new("bash").args(["-euc", &script, "bash"]).arg(config_sh).arg(folder).arg(prefix).status();
    assert!(status.unwrap().success());
}

fn ten_restarts_lose_nothing(rotate: impl Fn(&Path, &str, u32)) {
    let folder = tempfile::tempdir().unwrap();
    let prefix = "flink-u-taskexecutor-0-h";
    let path = folder.path().join(format!("{prefix}.leaderwatch.jsonl"));
    let line_bytes = serde_json::to_vec(&record(10)).unwrap().len() as u64 + 1;
    let mut expected = Vec::new();
    for start in 0..10 {
        fs::write(folder.path().join(format!("{prefix}.out")), format!("start {start}")).unwrap();
        rotate(folder.path(), prefix, 2);
        let (mut writer, problem) = Writer::open(Settings { max_file_bytes: 5 * line_bytes, ..settings(&path) });
        assert_eq!(problem, None);
        for number in 0..3 {
            expected.push(10 + start * 3 + number);
            writer.append(&record(10 + start * 3 + number)).unwrap();
        }
    }
    fs::remove_file(folder.path().join(format!("{prefix}.out.1"))).unwrap();
    fs::remove_file(folder.path().join(format!("{prefix}.out.2"))).unwrap();
    assert_eq!(numbers(folder.path()), expected);
}

#[test]
fn ten_restarts_through_the_script_lose_nothing() {
    ten_restarts_lose_nothing(rotate_as_flink_does);
}

/// The same with the shell text of a real Flink: `LEADERWATCH_FLINK_CONFIG_SH` names `bin/config.sh` of Flink 1.9 to 1.11.
/// Those of later ones take part in the tests with clusters.
#[test]
#[ignore = "scripts/test classes"]
fn ten_restarts_through_the_script_of_a_real_flink_lose_nothing() {
    let config_sh = std::env::var_os("LEADERWATCH_FLINK_CONFIG_SH").expect("LEADERWATCH_FLINK_CONFIG_SH is set");
    ten_restarts_lose_nothing(|folder, prefix, max| rotate_by_script(Path::new(&config_sh), folder, prefix, max));
}

/// A small file system of its own, so that it can be filled or made read-only. None where mounting is not permitted.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "leaderwatch-test"])
            .arg(folder.path())
            .stderr(Stdio::null())
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            eprintln!("skipped: mounting a tmpfs is not permitted here");
            return None;
        }
        Some(Self(folder))
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        assert!(Command::new("mount").args(["-o", &options]).arg(self.0.path()).status().unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_told_once_and_what_it_cost_when_it_is_over() {
    let Some(disk) = SmallDisk::mount() else { return };
    let path = disk.0.path().join("f.leaderwatch.jsonl");
    let mut writer = open(&path);
    let fits = (0..).find(|number| writer.append(&record(*number)).is_err()).unwrap();
    // The disk had room for a part of the line; that part is cut off again.
    assert!(fs::read_to_string(&path).unwrap().ends_with('\n'));
    for number in fits + 1..fits + 20 {
        assert_eq!(writer.append(&record(number)), Ok(()));
    }
    assert_eq!(writer.missing(), 20);

    disk.remount("size=128k");
    writer.append(&record(fits + 20)).unwrap();
    assert_eq!(writer.missing(), 0);
    let found = numbers(disk.0.path());
    assert_eq!(found.len() as u64, fits + 1);
    assert_eq!(found.last(), Some(&(fits + 20)));
    let text = fs::read_to_string(&path).unwrap();
    let since = record(fits).ts;
    let expected = format!("20 records since {since:.3} are missing here: 20 are lost");
    assert_eq!(text.lines().filter(|line| line.contains(&expected)).count(), 1);
}

#[test]
fn a_disk_that_becomes_read_only_is_survived() {
    let Some(disk) = SmallDisk::mount() else { return };
    let path = disk.0.path().join("f.leaderwatch.jsonl");
    drop(open(&path));
    disk.remount("ro");
    let printed = Printed::default();
    let (mut writer, problem) = Writer::open_with(settings(&path), Box::new(printed.clone()));
    assert!(matches!(problem, Some(JournalProblem::NoFile { .. })), "{problem:?}");
    writer.append(&record(1)).unwrap();
    assert!(!printed.0.lock().unwrap().is_empty());
    disk.remount("rw");
    writer.append(&record(2)).unwrap();
    assert_eq!(numbers(disk.0.path()), [2]);
}
