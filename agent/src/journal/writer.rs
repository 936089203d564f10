//! Writes the alert log. Used by one thread; every call is synchronous.
//!
//! - Each process owns its file by `flock` and so never writes into another's. (Process ids would not do: every
//!   container has a process 1.) The second process with the same path takes the name with `.2`.
//! - A file is closed by size and kept under a name that carries the time; the oldest of these go.
//! - Where a file was renamed under the process, or between two runs of it (Flink's start script does both, see
//!   [`super::name`]), it is renamed back, or kept under a name that the script leaves alone. No record is lost.
//! - On a full, read-only or absent disk it goes on: it says once what is wrong, counts what could not be written, and
//!   says in the log how many and since when as soon as the disk takes records again.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::lines::Lines;
use super::name::{LogName, Sibling};
use super::sources::Inode;
use crate::event::{Event, Record};

/// How many processes may share a path.
const PLACES: u32 = 64;

/// Flink's operators and log shippers read its logs by group; addresses and job names are nobody else's business.
const FILE_MODE: u32 = 0o640;
const FOLDER_MODE: u32 = 0o750;

/// Where and how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Paths to try, best first: [`super::candidate_paths`].
    pub paths: Vec<PathBuf>,
    /// A file is closed before it grows beyond this.
    pub max_file_bytes: u64,
    /// How many closed files are kept.
    pub keep_closed: usize,
}

impl Settings {
    /// Files of 10 MB, ten closed ones kept.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, max_file_bytes: 10_000_000, keep_closed: 10 }
    }
}

/// What is not as it should be. Says what, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalProblem {
    /// Records go to another file than the wanted one.
    OtherFile {
        /// The file that was to be written to.
        wanted: PathBuf,
        /// The file that is.
        taken: PathBuf,
        /// What is wrong with the wanted one.
        reason: String,
    },
    /// No file can be opened: records go to standard error.
    NoFile {
        /// What was tried, and why it did not work.
        reason: String,
    },
    /// A record could not be written. Those after it may be lost too: their number will be in the log.
    NotWritten {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The file cannot be closed or an old one not be removed: the log grows beyond its size.
    NotRotated {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The file system knows no locks: another process with the same path would write into the same file.
    NotLocked {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
}

impl JournalProblem {
    /// The same as a record's event.
    pub fn to_event(&self) -> Event {
        Event::problem("alert log", self.to_string())
    }
}

impl fmt::Display for JournalProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherFile { wanted, taken, reason } => {
                write!(out, "alert log is {}, not {}: {reason}", taken.display(), wanted.display())
            }
            Self::NoFile { reason } => write!(
                out,
                "no alert log can be opened, records go to standard error: {reason}; set `log` to a file in a folder \
                 that Flink's user may write to"
            ),
            Self::NotWritten { path, reason } => write!(
                out,
                "alert log {} cannot be written: {reason}; alerts go on, lost records are counted",
                path.display()
            ),
            Self::NotRotated { path, reason } => {
                write!(out, "alert log {} cannot be rotated and grows on: {reason}", path.display())
            }
            Self::NotLocked { path, reason } => write!(
                out,
                "alert log {} cannot be locked: {reason}; give each process a `log` of its own",
                path.display()
            ),
        }
    }
}

impl std::error::Error for JournalProblem {}

/// The file that this process owns.
struct Owned {
    name: LogName,
    path: PathBuf,
    lines: Lines<File>,
    inode: Inode,
}

/// Records that are not in the log.
struct Missing {
    count: u64,
    on_standard_error: u64,
    since: Timestamp,
}

/// The alert log of this process.
pub struct Writer {
    settings: Settings,
    owned: Option<Owned>,
    standard_error: Box<dyn Write + Send>,
    missing: Option<Missing>,
    /// What was reported last and still holds.
    reported: Option<JournalProblem>,
}

impl Writer {
    /// Opens the first file that can be had. Never fails: without a file, records go to standard error and each
    /// [`Writer::append`] tries again. The problem, if any, is to be told by the caller.
    pub fn open(settings: Settings) -> (Writer, Option<JournalProblem>) {
        Self::open_with(settings, Box::new(io::stderr()))
    }

    fn open_with(settings: Settings, standard_error: Box<dyn Write + Send>) -> (Writer, Option<JournalProblem>) {
        let mut writer = Writer { settings, owned: None, standard_error, missing: None, reported: None };
        let problem = writer.take_a_file().err();
        writer.reported.clone_from(&problem);
        (writer, problem)
    }

    /// The file that is written to; none where records go to standard error.
    pub fn path(&self) -> Option<&Path> {
        self.owned.as_ref().map(|owned| owned.path.as_path())
    }

    /// How many records could not be written since the disk last took one.
    pub fn missing(&self) -> u64 {
        self.missing.as_ref().map_or(0, |missing| missing.count)
    }

    /// Writes a record.
    ///
    /// # Errors
    /// What has changed for the worse, once for each change, not once for each record. After
    /// [`JournalProblem::NotWritten`] the record is lost and counted, after [`JournalProblem::NoFile`] it is on standard
    /// error; after the others it is in the log.
    pub fn append(&mut self, record: &Record) -> Result<(), JournalProblem> {
        let line = serde_json::to_vec(record).expect("a record has text keys only and writes to memory");
        let settled = self.settle();
        let written = self.write(record, &line);
        self.news(written.err().or(settled.err()))
    }

    /// Passes a problem on where it is not the one that was reported last.
    fn news(&mut self, trouble: Option<JournalProblem>) -> Result<(), JournalProblem> {
        let known = match (&trouble, &self.reported) {
            (Some(now), Some(before)) => std::mem::discriminant(now) == std::mem::discriminant(before),
            _ => false,
        };
        if known {
            return Ok(());
        }
        self.reported.clone_from(&trouble);
        trouble.map_or(Ok(()), Err)
    }

    fn write(&mut self, record: &Record, line: &[u8]) -> Result<(), JournalProblem> {
        if self.owned.is_none() {
            // Nowhere is left to complain to where standard error is closed.
            let printed = self.standard_error.write_all(&[line, b"\n"].concat()).is_ok();
            self.count_missing(record.ts, printed);
            return Ok(());
        }
        let rotated = self.rotate_if_full(line.len() as u64 + 1, record.ts);
        let Some(owned) = &mut self.owned else {
            self.count_missing(record.ts, false);
            return rotated;
        };
        let mut result = Ok(());
        if let Some(missing) = &self.missing {
            result = owned.lines.append(&missing.report(record));
        }
        if result.is_ok() {
            self.missing = None;
            result = owned.lines.append(line);
        }
        if let Err(error) = result {
            let problem = JournalProblem::NotWritten { path: owned.path.clone(), reason: error.to_string() };
            self.count_missing(record.ts, false);
            return Err(problem);
        }
        rotated
    }

    fn count_missing(&mut self, at: Timestamp, on_standard_error: bool) {
        let missing = self.missing.get_or_insert(Missing { count: 0, on_standard_error: 0, since: at });
        missing.count += 1;
        missing.on_standard_error += u64::from(on_standard_error);
    }

    /// Sees to it that the owned file, if any can be had, stands at its path.
    fn settle(&mut self) -> Result<(), JournalProblem> {
        let Some(owned) = &self.owned else { return self.take_a_file() };
        if Inode::at(&owned.path) == Some(owned.inode) {
            return Ok(());
        }
        if let Some(renamed) =
            owned.name.renamed_siblings().into_iter().find(|path| Inode::at(path) == Some(owned.inode))
        {
            if rename_to_free(&renamed, &owned.path).is_ok() {
                return Ok(());
            }
            set_aside(&renamed, &owned.name);
        }
        self.owned = None;
        self.take_a_file()
    }

    fn take_a_file(&mut self) -> Result<(), JournalProblem> {
        let mut refusals: Vec<String> = Vec::new();
        for path in &self.settings.paths {
            let Some(name) = LogName::of(path) else {
                refusals.push(format!("{}: not a file name in UTF-8", path.display()));
                continue;
            };
            for place in 1..=PLACES {
                match take(name.for_place(place)) {
                    Ok((owned, not_locked)) => {
                        let taken = owned.path.clone();
                        self.owned = Some(owned);
                        if let Some(reason) = not_locked {
                            return Err(JournalProblem::NotLocked { path: taken, reason });
                        }
                        if refusals.is_empty() {
                            return Ok(());
                        }
                        let wanted = self.settings.paths[0].clone();
                        return Err(JournalProblem::OtherFile { wanted, taken, reason: refusals.join("; ") });
                    }
                    Err(Refusal::Taken) if place == 1 => {
                        refusals.push(format!("{} belongs to another process", path.display()));
                    }
                    Err(Refusal::Taken) => {}
                    Err(Refusal::Unfit(reason)) => {
                        refusals.push(format!("{}: {reason}", path.display()));
                        break;
                    }
                }
            }
        }
        if refusals.is_empty() {
            refusals.push("neither the option `log` nor the system property `log.file` is set".to_owned());
        }
        Err(JournalProblem::NoFile { reason: refusals.join("; ") })
    }

    /// Closes the file where `more_bytes` would make it too large. Where it cannot be closed, it stays and grows.
    fn rotate_if_full(&mut self, more_bytes: u64, at: Timestamp) -> Result<(), JournalProblem> {
        let Some(owned) = &self.owned else { return Ok(()) };
        let length_bytes = owned.lines.length_bytes().unwrap_or(0);
        if length_bytes == 0 || length_bytes + more_bytes <= self.settings.max_file_bytes {
            return Ok(());
        }
        let not_rotated =
            |error: io::Error| JournalProblem::NotRotated { path: owned.path.clone(), reason: error.to_string() };
        rename_to_stamp(&owned.path, &owned.name, at).map_err(not_rotated)?;
        let removed = remove_oldest(&owned.name, self.settings.keep_closed).map_err(not_rotated);
        self.owned = None;
        self.take_a_file().and(removed)
    }
}

impl Missing {
    /// What happened, as a line; with time, cluster, host and process of the record that comes next.
    fn report(&self, next: &Record) -> Vec<u8> {
        let lost = self.count - self.on_standard_error;
        let mut reason = format!("{} records since {:.3} are missing here: {lost} are lost", self.count, self.since);
        if self.on_standard_error > 0 {
            reason += &format!(", {} are on standard error", self.on_standard_error);
        }
        let event = Event::problem("alert log could not be written", reason);
        serde_json::to_vec(&Record { event, ..next.clone() }).expect("a record has text keys only and writes to memory")
    }
}

/// Why a file was not taken.
enum Refusal {
    /// Another process or user has it: the next place may be free.
    Taken,
    /// It will not do.
    Unfit(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Unfit(error.to_string())
    }
}

/// Takes the log of that name, together with what an earlier process left of it. Also tells why it is not locked,
/// where the file system knows no locks.
fn take(name: LogName) -> Result<(Owned, Option<String>), Refusal> {
    let path = name.live();
    if !name.folder().is_dir() {
        fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(name.folder())?;
    }
    adopt_renamed(&name);

    // The file may be renamed between open and lock; three times in a row it is not.
    for _ in 0..3 {
        let mut file = open_for_appending(&path)?;
        let not_locked = match file.try_lock() {
            Ok(()) => None,
            Err(TryLockError::WouldBlock) => return Err(Refusal::Taken),
            Err(TryLockError::Error(error)) => Some(error.to_string()),
        };
        let inode = Inode::of(&file.metadata()?);
        if Inode::at(&path) != Some(inode) {
            continue;
        }
        let mid_line = ends_within_line(&mut file)?;
        let lines = Lines::new(file, mid_line);
        return Ok((Owned { name, path, lines, inode }, not_locked));
    }
    Err(Refusal::Taken)
}

/// Opens or creates a log; refuses what is none. A link is never followed: the folder may be writable by others, and
/// Flink's user would write to a file of their choice.
fn open_for_appending(path: &Path) -> Result<File, Refusal> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(FILE_MODE)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Err(Refusal::Unfit("is a symbolic link, which is not followed".into()));
        }
        // Another user's file of the same name in a shared folder.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && path.exists() => return Err(Refusal::Taken),
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Refusal::Unfit("is not a regular file".into()));
    }
    if metadata.nlink() > 1 {
        return Err(Refusal::Unfit("has a second name (hard link), which is not written to".into()));
    }
    if !begins_as_log(&mut file)? {
        return Err(Refusal::Unfit("holds something other than an alert log, which is not written to".into()));
    }
    Ok(file)
}

fn begins_as_log(file: &mut File) -> io::Result<bool> {
    let mut first = [0; 1];
    file.seek(SeekFrom::Start(0))?;
    Ok(file.read(&mut first)? == 0 || first == *b"{")
}

fn ends_within_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0; 1];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

impl LogName {
    /// The files that Flink's script made of this log, the newest first.
    fn renamed_siblings(&self) -> Vec<PathBuf> {
        let mut found = self.siblings();
        found.retain(|(sibling, _)| matches!(sibling, Sibling::Renamed(_)));
        found.sort();
        found.into_iter().map(|(_, path)| path).collect()
    }

    fn siblings(&self) -> Vec<(Sibling, PathBuf)> {
        let Ok(entries) = fs::read_dir(self.folder()) else { return Vec::new() };
        let sibling = |entry: fs::DirEntry| Some((self.sibling(entry.file_name().to_str()?)?, entry.path()));
        entries.flatten().filter_map(sibling).collect()
    }
}

/// Takes back what was renamed while no process had it: the newest becomes the log again if there is none, the others
/// are kept as closed ones, because the script would one day drop them.
fn adopt_renamed(name: &LogName) {
    for path in name.renamed_siblings() {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let Ok(mut file) = OpenOptions::new().read(true).custom_flags(flags).open(&path) else { continue };
        let ours = file.metadata().is_ok_and(|it| it.is_file()) && begins_as_log(&mut file).unwrap_or(false);
        if !ours || matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            continue;
        }
        if rename_to_free(&path, &name.live()).is_err() {
            set_aside(&path, name);
        }
    }
}

/// Keeps a renamed log as one that was closed when it was last written. Where that fails, it stays as it is and the
/// next start tries again.
fn set_aside(path: &Path, name: &LogName) {
    let modified = fs::symlink_metadata(path).and_then(|it| it.modified()).ok();
    let at = modified.and_then(|time| Timestamp::try_from(time).ok()).unwrap_or(Timestamp::UNIX_EPOCH);
    let _ = rename_to_stamp(path, name, at);
}

/// Renames to the first closed name from `at` on that is free.
fn rename_to_stamp(path: &Path, name: &LogName, at: Timestamp) -> io::Result<()> {
    let mut at = at;
    loop {
        match rename_to_free(path, &name.closed(at)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                at = at.checked_add(Duration::from_millis(1)).map_err(io::Error::other)?;
            }
            result => return result,
        }
    }
}

/// Renames, but never over another file.
fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some network file systems cannot do it in one step.
        Err(Errno::INVAL | Errno::NOSYS) if fs::symlink_metadata(to).is_ok() => Err(Errno::EXIST.into()),
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(from, to),
        result => Ok(result?),
    }
}

fn remove_oldest(name: &LogName, keep: usize) -> io::Result<()> {
    let mut closed = name.siblings();
    closed.retain(|(sibling, _)| matches!(sibling, Sibling::Closed(_)));
    closed.sort();
    let too_many = closed.len().saturating_sub(keep);
    closed.iter().take(too_many).try_for_each(|(_, path)| fs::remove_file(path))
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
