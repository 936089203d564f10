//! The names of an alert log's files.
//!
//! | file | what it is |
//! |---|---|
//! | `X.leaderwatch.jsonl` | what a process writes to |
//! | `X.leaderwatch.2.jsonl` | the same, of the second process with this path, and so on |
//! | `X.leaderwatch.20261130T101949.123Z.jsonl` | closed, by size, at that time (UTC) |
//! | any of these and `.1`, `.2`, ... | renamed by the `flink-daemon.sh` of Flink 1.11 and older |
//!
//! That script renames, at each start, every file of Flink's log prefix `F` to `F.1`, an `F.1` to `F.2`, and so on up
//! to `env.log.max`, and so destroys the oldest (`rotateLogFilesWithPrefix`). An `F.1` without an `F` it leaves alone,
//! which is why a closed file has a name that is never used again.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

/// Where the alert log may be, best first: where the user said, beside Flink's own log (so that Flink's web UI lists
/// it), in the folder for temporary files.
pub fn candidate_paths(option_log: Option<&Path>, log_file: Option<&str>, tmpdir: Option<&str>) -> Vec<PathBuf> {
    let beside = log_file.filter(|path| !path.is_empty()).map(|path| {
        let stem = path.strip_suffix(".log").unwrap_or(path);
        PathBuf::from(format!("{stem}.leaderwatch.jsonl"))
    });
    let temporary = tmpdir.filter(|path| !path.is_empty()).map(|folder| Path::new(folder).join("leaderwatch.jsonl"));
    option_log.map(Path::to_path_buf).into_iter().chain(beside).chain(temporary).collect()
}

/// The path of a process's alert log, in the parts from which the other names are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogName {
    folder: PathBuf,
    /// File name without its suffix.
    stem: String,
    /// `.jsonl`, another one of the user's choice, or nothing.
    suffix: String,
}

/// What a file beside the alert log is to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sibling {
    /// The log itself, renamed by Flink's script: with the script's number.
    Renamed(u32),
    /// Closed by size: with its time, which sorts as text.
    Closed(String),
}

impl LogName {
    /// None where the path has no file name in UTF-8.
    pub(super) fn of(path: &Path) -> Option<LogName> {
        let file_name = path.file_name()?.to_str()?;
        let (stem, suffix) = match file_name.rfind('.') {
            Some(dot) if dot > 0 => file_name.split_at(dot),
            _ => (file_name, ""),
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        Some(LogName { folder, stem: stem.to_owned(), suffix: suffix.to_owned() })
    }

    /// The name for the process that comes `place`th; the first has the name itself.
    pub(super) fn for_place(&self, place: u32) -> LogName {
        let stem = if place == 1 { self.stem.clone() } else { format!("{}.{place}", self.stem) };
        LogName { stem, ..self.clone() }
    }

    /// The folder of all its files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file that is written to.
    pub(super) fn live(&self) -> PathBuf {
        self.folder.join(format!("{}{}", self.stem, self.suffix))
    }

    /// The file as closed at `at`.
    pub(super) fn closed(&self, at: Timestamp) -> PathBuf {
        self.folder.join(format!("{}.{}{}", self.stem, at.strftime("%Y%m%dT%H%M%S%.3fZ"), self.suffix))
    }

    /// What a file of the folder is to this log; none where it is another's.
    pub(super) fn sibling(&self, file_name: &str) -> Option<Sibling> {
        let rest = file_name.strip_prefix(&self.stem)?;
        if let Some(after) = rest.strip_prefix(&self.suffix)
            && let Some(number) = script_number(after)
        {
            return Some(Sibling::Renamed(number));
        }
        let (stamp, after) = rest.strip_prefix('.')?.split_at_checked(STAMP_FORM.len())?;
        let after = after.strip_prefix(&self.suffix)?;
        let after = after.strip_suffix(".gz").unwrap_or(after);
        let ours = is_stamp(stamp) && (after.is_empty() || script_number(after).is_some());
        ours.then(|| Sibling::Closed(stamp.to_owned()))
    }
}

/// Form of a closed file's time; `0` stands for a digit.
const STAMP_FORM: &str = "00000000T000000.000Z";

fn is_stamp(text: &str) -> bool {
    text.len() == STAMP_FORM.len()
        && text.bytes().zip(STAMP_FORM.bytes()).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            _ => byte == form,
        })
}

/// The `1` of `.1`, as Flink's script appends it.
fn script_number(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('.')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn name() -> LogName {
        LogName::of(Path::new("/log/flink-u-taskexecutor-0-h.leaderwatch.jsonl")).unwrap()
    }

    #[test]
    fn files_are_told_apart() {
        let sibling = |rest: &str| name().sibling(&format!("flink-u-taskexecutor-0-h.leaderwatch{rest}"));
        let closed = Some(Sibling::Closed("20261130T101949.123Z".to_owned()));
        assert_eq!(sibling(".jsonl"), None);
        assert_eq!(sibling(".jsonl.1"), Some(Sibling::Renamed(1)));
        assert_eq!(sibling(".jsonl.12"), Some(Sibling::Renamed(12)));
        assert_eq!(sibling(".jsonl.gz"), None);
        assert_eq!(sibling(".20261130T101949.123Z.jsonl"), closed);
        assert_eq!(sibling(".20261130T101949.123Z.jsonl.1"), closed);
        assert_eq!(sibling(".20261130T101949.123Z.jsonl.gz"), closed);
        assert_eq!(sibling(".2.jsonl"), None);
        assert_eq!(sibling(".2.20261130T101949.123Z.jsonl"), None);
        assert_eq!(sibling(".2026113é"), None);
    }

    #[test]
    fn each_process_has_its_own_names() {
        let second = name().for_place(2);
        assert_eq!(second.live(), Path::new("/log/flink-u-taskexecutor-0-h.leaderwatch.2.jsonl"));
        let at: Timestamp = "2026-11-30T10:19:49.123Z".parse().unwrap();
        let closed = second.closed(at);
        assert_eq!(closed, Path::new("/log/flink-u-taskexecutor-0-h.leaderwatch.2.20261130T101949.123Z.jsonl"));
        let closed = closed.file_name().unwrap().to_str().unwrap();
        assert!(second.sibling(closed).is_some());
        assert_eq!(name().sibling(closed), None);
    }

    #[test]
    fn a_name_without_suffix_works_too() {
        let bare = LogName::of(Path::new("alerts")).unwrap();
        assert_eq!(bare.live(), Path::new("./alerts"));
        assert_eq!(bare.sibling("alerts.1"), Some(Sibling::Renamed(1)));
    }

    #[test]
    fn the_log_stands_beside_that_of_flink() {
        let paths = candidate_paths(Some(Path::new("/a/b.jsonl")), Some("/log/flink-u-0.log"), Some("/tmp"));
        let expected = ["/a/b.jsonl", "/log/flink-u-0.leaderwatch.jsonl", "/tmp/leaderwatch.jsonl"];
        assert_eq!(paths, expected.map(PathBuf::from));
        assert!(candidate_paths(None, None, Some("")).is_empty());
    }
}
