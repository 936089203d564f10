//! The durable outbox: what is not delivered yet outlives the process.
//!
//! # Constraints
//! - What [`Outbox::append`] answered `Ok` for survives `kill -9` and a power cut.
//! - After any crash the records are those of some prefix of the appends, no shorter than what was answered `Ok`.
//! - A bad outbox never keeps the agent from starting, and never takes the alerts of this process with it: without a
//!   disk it works in memory, says so, and writes everything down as soon as it can.
//! - A record that is not what was written is set aside and reported. A torn tail is cut: its append was never `Ok`.
//! - What a dead process left is taken over by exactly one survivor. A notice may be sent twice by that (the process died
//!   between the receiver's answer and our record of it), never zero times.
//! - It stays within a size and an age; the oldest notices go first, and each one that goes is reported.
//! - One thread uses it. Every call may block for as long as the disk does.
//!
//! # On disk
//! ```text
//! ROOT/                         0700
//!   PID-RANDOM/                 0700, one for each process that ever started and is not cleared away yet
//!     lock                      0600, locked with flock(2) for as long as the process lives
//!     0000000001.segment        0600, the present segment; earlier ones are leftovers of a crash and are not read
//!     0000000002.unfinished     0600, a segment that is being written; never read
//!   corrupt/                    0700
//!     PID-RANDOM-TIME           0600, lines that were set aside; the newest 16 files are kept
//!
//! segment := line*
//! line    := checksum " " json "\n"
//!   checksum: CRC-32 (IEEE) of the bytes of json, eight hexadecimal digits
//!   json:     a JSON array of the entries of one append, which is thereby read back whole or not at all; JSON holds no
//!             line feed, so reading goes on behind a broken line
//! ```
//!
//! # Operation
//! - An append is one write and one `fdatasync`.
//! - More than 16 records at once begin a new segment, one record a line.
//! - When a segment is longer than 256 KiB and than twice what it began with, the next one is begun: what is not done is
//!   written to `N.unfinished`, synced, renamed to `N.segment`, the folder is synced, and the old segment deleted. The
//!   newest segment is therefore always whole, and the only one that is read.
//! - After an error nobody knows what of the write is on disk, and a repeated `fsync` may say `Ok` for pages that the
//!   kernel has dropped. So the segment is given up and the next append begins a new one, with all that is not done.
//! - A process always starts in a new folder. [`Outbox::take_orphans`] visits the others: where the lock is free, its
//!   owner is dead; what it left is appended to our log and, once that is on disk, deleted there, all under its lock.
//! - Where the file system has no locks, nobody takes anything over; that is reported once.

mod entry;
mod folder;
mod live;
mod log;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use self::entry::Entry;
#[cfg(test)]
pub(crate) use self::entry::{read_line, write_line};
pub use self::live::Pending;
#[cfg(test)]
pub(crate) use self::tests::notice;

use self::entry::{BadLine, line_bytes};
use self::folder::{DiskFolder, Folder, LOCK_FILE, Ownership, own};
use self::log::Log;
use super::Problem;

/// Name of the folder of what was set aside.
const CORRUPT_FOLDER: &str = "corrupt";
/// How many files of what was set aside are kept.
const CORRUPT_FILES: usize = 16;

/// How much the outbox may hold.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Most bytes of notices that are not done.
    pub bytes: u64,
    /// Greatest age of a notice since it was queued.
    pub age: Duration,
}

impl Default for Bounds {
    /// 32 MiB, which is tens of thousands of alerts, and seven days.
    fn default() -> Self {
        Self { bytes: 32 * 1024 * 1024, age: Duration::from_secs(7 * 24 * 3600) }
    }
}

/// What was taken over from dead processes.
#[derive(Debug, Default)]
pub struct Adopted {
    /// Notices that are due, oldest first within each process.
    pub notices: Vec<Pending>,
    /// Elections that were open, with their bodies.
    pub elections: Vec<(String, Value)>,
    /// What was not as it should be.
    pub problems: Vec<Problem>,
}

/// The outbox of this process.
#[derive(Debug)]
pub struct Outbox {
    root: PathBuf,
    log: Log<DiskFolder>,
    bounds: Bounds,
    /// Whether the last attempt to write failed; an outage is reported once.
    failing: bool,
    /// Folders of others that were reported.
    strangers: BTreeSet<PathBuf>,
}

impl Outbox {
    /// Opens the outbox of this process in `root`, a folder that the processes of one user, namespace and cluster share.
    /// Always succeeds; what is wrong with the disk is among the problems.
    pub fn open(root: &Path, bounds: Bounds) -> (Outbox, Vec<Problem>) {
        let name = format!("{}-{:016x}", std::process::id(), fastrand::u64(..));
        let log = Log::new(DiskFolder::new(root.join(name)));
        let mut outbox = Outbox { root: root.to_owned(), log, bounds, failing: false, strangers: BTreeSet::new() };
        let problems = outbox.heal();
        (outbox, problems)
    }

    /// Takes records in: one write, one `fdatasync`. On an error they are kept in memory, and are written by the next
    /// append or [`Outbox::heal`] that finds a working disk.
    ///
    /// Returns whether they are on disk, and what is to be reported.
    pub fn append(&mut self, entries: &[Entry], now: Timestamp) -> (bool, Vec<Problem>) {
        let (mut entries, mut problems) = (entries.to_vec(), Vec::new());
        self.drop_beyond_bounds(&mut entries, &mut problems, now);
        let written = self.log.append(&entries);
        let durable = written.is_ok();
        problems.extend(self.note(written));
        (durable, problems)
    }

    /// Tries again to write what an earlier error kept from the disk. Cheap where there is nothing to do.
    pub fn heal(&mut self) -> Vec<Problem> {
        let healed = self.log.heal().map(|_| ());
        self.note(healed)
    }

    /// Whether all that is not done is on disk.
    pub fn is_durable(&self) -> bool {
        !self.failing
    }

    /// Notices that are not done, oldest first.
    pub fn pending(&self) -> impl Iterator<Item = &Pending> {
        self.log.live().notices()
    }

    /// Elections that are open, with their bodies.
    pub fn elections(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.log.live().elections()
    }

    /// Takes over what dead processes left. What is taken over is in this outbox when this returns, and is to be
    /// delivered and acknowledged as if it had been appended.
    pub fn take_orphans(&mut self, now: Timestamp) -> Adopted {
        let mut adopted = Adopted::default();
        let folders = match fs::read_dir(&self.root) {
            Ok(folders) => folders,
            // The root is missing or unreadable; `heal` has reported it.
            Err(_) => return adopted,
        };
        let mut paths: Vec<PathBuf> = folders.filter_map(|folder| Some(folder.ok()?.path())).collect();
        paths.sort();
        for path in paths {
            if path == self.log.folder().path() {
                continue;
            }
            // The root may lie where others can write: nothing of theirs is followed, read or deleted.
            if let Some(why) = stranger(&path) {
                if self.strangers.insert(path.clone()) {
                    let what = format!("outbox {}", path.display());
                    adopted.problems.push(Problem::new(what, format!("{why}; it is left alone")));
                }
                continue;
            }
            if path.join(LOCK_FILE).exists() {
                self.adopt(path, &mut adopted, now);
            } else {
                // A process died between making the folder and its lock, or between deleting the two. Only an empty folder
                // goes by this; one that is being made is made again by its owner.
                let _ = fs::remove_dir(&path);
            }
        }
        adopted
    }

    /// Ends the outbox: clears its folder away if all is done, and leaves it to the next process otherwise.
    pub fn close(mut self) {
        if !self.log.live().is_empty() {
            return;
        }
        // What cannot be cleared away is empty and will be found by the next process.
        if self.log.remove_all().is_ok() {
            let _ = self.log.into_folder().delete();
        }
    }

    fn adopt(&mut self, path: PathBuf, adopted: &mut Adopted, now: Timestamp) {
        let name = path.display().to_string();
        let lock = match own(&path) {
            Ok(Ownership::Ours(lock)) => lock,
            // Alive, or without locks to tell; or just cleared away by another survivor.
            Ok(Ownership::Theirs | Ownership::Unknown(_)) => return,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                adopted.problems.push(Problem::new(format!("outbox {name} of a dead process"), error.to_string()));
                return;
            }
        };
        let mut folder = DiskFolder::owned(path, lock);
        let found = match log::read(&folder) {
            Ok(found) => found,
            Err(error) => {
                adopted.problems.push(Problem::new(format!("outbox {name} of a dead process"), error.to_string()));
                return;
            }
        };
        if !found.corrupt.is_empty() {
            let set_aside = self.set_aside(&folder, &found.corrupt, now);
            let kept = match &set_aside {
                Ok(file) => format!("they are set aside in {}", file.display()),
                Err(error) => format!("they could not be set aside ({error})"),
            };
            let (count, first) = (found.corrupt.len(), &found.corrupt[0].1);
            adopted.problems.push(Problem::new(
                format!("outbox {name} of a dead process"),
                format!("{count} records are no good, the first because {first}; {kept}"),
            ));
        }
        if !found.live.is_empty() {
            let (durable, problems) = self.append(&found.live.entries(), now);
            adopted.problems.extend(problems);
            adopted.notices.extend(found.live.notices().cloned());
            adopted.elections.extend(found.live.elections().map(|(key, body)| (key.clone(), body.clone())));
            if !durable {
                // It stays where it is, so that it is not lost if this process dies, too.
                return;
            }
        }
        let mut rest = Log::new(folder);
        // What cannot be cleared away is found again, and sent again: rather twice than never.
        if rest.remove_all().is_ok() {
            folder = rest.into_folder();
            let _ = folder.delete();
        }
    }

    fn set_aside(&self, from: &DiskFolder, lines: &[(Vec<u8>, BadLine)], now: Timestamp) -> io::Result<PathBuf> {
        let mut folder = DiskFolder::new(self.root.join(CORRUPT_FOLDER));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder.path())?;
        // An older version left it open.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700))?;
        let owner = from.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = format!("{owner}-{}", now.as_second());
        let mut content = Vec::new();
        for (line, _) in lines {
            content.extend_from_slice(line);
            content.push(b'\n');
        }
        folder.create(&name, &content)?;
        let mut files: Vec<_> = fs::read_dir(folder.path())?.filter_map(Result::ok).collect();
        files.sort_by_key(|file| file.metadata().and_then(|metadata| metadata.modified()).ok());
        for file in files.iter().rev().skip(CORRUPT_FILES) {
            fs::remove_file(file.path())?;
        }
        Ok(folder.path().join(name))
    }

    /// Adds to `entries` the end of the notices that are too old or too many.
    fn drop_beyond_bounds(&self, entries: &mut Vec<Entry>, problems: &mut Vec<Problem>, now: Timestamp) {
        let oldest_allowed = SignedDuration::try_from(self.bounds.age).ok().and_then(|age| now.checked_sub(age).ok());
        let incoming: u64 = entries.iter().filter(|e| matches!(e, Entry::Due { .. })).map(line_bytes).sum();
        let mut excess = (self.log.live().notice_bytes() + incoming).saturating_sub(self.bounds.bytes);
        for pending in self.log.live().notices() {
            let is_old = oldest_allowed.is_some_and(|oldest| pending.queued_at < oldest);
            if !is_old && excess == 0 {
                break;
            }
            let why = if is_old {
                format!("it is older than {} s", self.bounds.age.as_secs())
            } else {
                format!("the outbox may hold {} bytes", self.bounds.bytes)
            };
            excess = excess.saturating_sub(pending.bytes());
            let targets: Vec<&str> = pending.targets.iter().map(String::as_str).collect();
            problems.push(Problem::new(
                format!("outbox: alert {} for {} was dropped", pending.notice.alert.id, targets.join(", ")),
                format!("{why}; it is lost if this process ends before it is delivered"),
            ));
            entries.extend(pending.targets.iter().map(|target| Entry::Done {
                message_id: pending.notice.message_id.clone(),
                target: target.clone(),
                instead: None,
            }));
        }
    }

    /// Turns the end of a write into what is to be reported of it: an outage once, when it begins and when it ends.
    fn note(&mut self, written: io::Result<()>) -> Vec<Problem> {
        let path = self.log.folder().path().display().to_string();
        let mut problems = Vec::new();
        if let Some(error) = self.log.folder().take_locks_missing() {
            problems.push(Problem::new(
                format!("outbox {path}"),
                format!("its file system has no locks ({error}), so nobody takes over what a dead process left; set `state` to a local folder"),
            ));
        }
        match &written {
            Err(error) if !self.failing => problems.push(Problem::new(
                format!("outbox {path}"),
                format!("cannot be written ({error}); alerts are sent all the same, but are lost if this process ends before they are delivered"),
            )),
            Ok(()) if self.failing => {
                problems.push(Problem::new(format!("outbox {path}"), "can be written again; nothing is missing in it"));
            }
            _ => {}
        }
        self.failing = written.is_err();
        problems
    }
}

/// Why what lies at `path` is no folder of this user's; none where it is one, or is gone.
fn stranger(path: &Path) -> Option<String> {
    let metadata = fs::symlink_metadata(path).ok()?;
    if metadata.is_symlink() {
        return Some("it is a symbolic link".to_owned());
    }
    if !metadata.is_dir() {
        return Some("it is no folder".to_owned());
    }
    let own = rustix::process::geteuid().as_raw();
    (metadata.uid() != own).then(|| format!("it belongs to the user {}, and this process to {own}", metadata.uid()))
}
