//! Claims in a folder that all agents share, over any file system with `link(2)` or exclusive create, NFS included.
//!
//! # On disk
//! ```text
//! FOLDER/NAME/000000000017      generation 17 of the document: whole, never changed
//! FOLDER/NAME/.HOST-RANDOM      being written
//! ```
//! A document is the newest generation in its folder. To write generation n + 1 is to link a finished file to that name,
//! which exactly one writer can: that is the compare-and-set, without locks. The newest 64 are kept (8 in a private folder), so
//! that a writer who is behind is refused by the name; one who is so far behind that the name is free again finds much newer
//! ones after its link, and takes it back. A document is deleted by a last generation that says so; after that the folder is cleared away.
//!
//! A hung file system holds up one thread of the runtime's pool and no more: calls wait for each other.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::Semaphore;

use super::store::{Answering, Entry, Store, StoreError, Version, Written};

/// Content of the last generation of a deleted document; no claim looks so.
const GONE: &[u8] = b"deleted";
/// Modes of folders: agents of one cluster run as one user, or as users of one group, which the umask of them decides.
const SHARED_MODE: u32 = 0o770;
const PRIVATE_MODE: u32 = 0o700;
/// How many generations are kept. Others may write some before a writer looks at what it wrote, which must not be taken
/// for being behind.
const KEPT: u64 = 64;
/// The same where the few processes of one machine write documents that grow with the number of jobs.
const KEPT_IN_PRIVATE: u64 = 8;
/// How often a document is read anew that changes while it is read.
const READS: usize = 16;

/// What differs between a folder that agents share and one of a user's own.
#[derive(Debug, Clone, Copy)]
struct Rules {
    /// Mode of folders.
    mode: u32,
    /// How many generations are kept.
    kept: u64,
}

/// Claims in a folder.
#[derive(Debug, Clone)]
pub struct FileStore {
    folder: Arc<Path>,
    rules: Rules,
    one_at_a_time: Arc<Semaphore>,
}

impl FileStore {
    /// Claims below a folder, which is made when it is needed.
    pub fn new(folder: impl Into<PathBuf>) -> FileStore {
        let rules = Rules { mode: SHARED_MODE, kept: KEPT };
        FileStore { folder: folder.into().into(), rules, one_at_a_time: Arc::new(Semaphore::new(1)) }
    }

    /// The same, for the agents of one user only.
    pub fn private(folder: impl Into<PathBuf>) -> FileStore {
        FileStore { rules: Rules { mode: PRIVATE_MODE, kept: KEPT_IN_PRIVATE }, ..FileStore::new(folder) }
    }

    /// Does something on a thread that may wait for the disk.
    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Answering<'_, T> {
        let (folder, turns) = (Arc::clone(&self.folder), Arc::clone(&self.one_at_a_time));
        Box::pin(async move {
            let turn = turns.acquire_owned().await.map_err(|error| StoreError::Unreachable(error.to_string()))?;
            let worked = tokio::task::spawn_blocking(move || {
                // Held until the disk has answered, even if nobody waits for it any more.
                let _turn = turn;
                work(&folder)
            });
            worked.await.map_err(|error| StoreError::Unreachable(error.to_string()))?.map_err(of_error)
        })
    }
}

impl Store for FileStore {
    fn describe(&self) -> String {
        format!("file://{}", self.folder.display())
    }

    fn create<'a>(&'a self, name: &'a str, body: &'a [u8]) -> Answering<'a, Written> {
        let (name, body, rules) = (name.to_owned(), body.to_vec(), self.rules);
        self.blocking(move |folder| {
            let document = Document::new(folder, &name, rules);
            match document.newest()? {
                Some((_, content)) if content != GONE => Ok(Written::Refused),
                newest => document.write(newest.map_or(0, |(generation, _)| generation), &body),
            }
        })
    }

    fn read<'a>(&'a self, name: &'a str) -> Answering<'a, Option<Entry>> {
        let (name, rules) = (name.to_owned(), self.rules);
        self.blocking(move |folder| {
            let newest = Document::new(folder, &name, rules).newest()?.filter(|(_, content)| content != GONE);
            Ok(newest.map(|(generation, body)| Entry { version: version_of(generation, &body), body }))
        })
    }

    fn swap<'a>(&'a self, name: &'a str, version: &'a Version, body: &'a [u8]) -> Answering<'a, Written> {
        let (name, version, body, rules) = (name.to_owned(), version.clone(), body.to_vec(), self.rules);
        self.blocking(move |folder| {
            let document = Document::new(folder, &name, rules);
            match document.generation_of(&version)? {
                Some(generation) => document.write(generation, &body),
                None => Ok(Written::Refused),
            }
        })
    }

    fn delete<'a>(&'a self, name: &'a str, version: &'a Version) -> Answering<'a, bool> {
        let (name, version, rules) = (name.to_owned(), version.clone(), self.rules);
        self.blocking(move |folder| {
            let document = Document::new(folder, &name, rules);
            let Some(generation) = document.generation_of(&version)? else { return Ok(false) };
            let is_ours = matches!(document.write(generation, GONE)?, Written::Done(_));
            if is_ours {
                document.clear_away(generation + 1);
            }
            Ok(is_ours)
        })
    }

    fn list(&self) -> Answering<'_, Vec<String>> {
        self.blocking(|folder| {
            let entries = match fs::read_dir(folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                entries => entries?,
            };
            let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            Ok(names.filter(|name| !name.starts_with('.')).collect())
        })
    }

    fn time(&self) -> Answering<'_, Timestamp> {
        let mode = self.rules.mode;
        self.blocking(move |folder| {
            make_folder(folder, mode)?;
            let path = folder.join(temporary_name());
            let modified = create_new(&path, mode).and_then(|mut file| {
                // Written to, since the time of a creation may be the client's.
                file.write_all(b"x")?;
                file.sync_data()?;
                file.metadata()?.modified()
            });
            // One that cannot be removed is empty and hidden.
            let _ = fs::remove_file(&path);
            Timestamp::try_from(modified?).map_err(io::Error::other)
        })
    }
}

/// The folder of one document.
struct Document {
    folder: PathBuf,
    rules: Rules,
}

impl Document {
    fn new(root: &Path, name: &str, rules: Rules) -> Document {
        Document { folder: root.join(name), rules }
    }

    fn path(&self, generation: u64) -> PathBuf {
        self.folder.join(format!("{generation:012}"))
    }

    fn generations(&self) -> io::Result<Vec<u64>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
    }

    fn newest(&self) -> io::Result<Option<(u64, Vec<u8>)>> {
        for _ in 0..READS {
            let Some(newest) = self.generations()?.into_iter().max() else { return Ok(None) };
            match fs::read(self.path(newest)) {
                Ok(content) => return Ok(Some((newest, content))),
                // Two newer ones came meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(format!("{} changes faster than it can be read", self.folder.display())))
    }

    /// The generation of a version, if it is the newest.
    fn generation_of(&self, version: &Version) -> io::Result<Option<u64>> {
        let newest = self.newest()?.filter(|(generation, content)| version_of(*generation, content) == *version);
        Ok(newest.map(|(generation, _)| generation))
    }

    /// Writes the generation after `last`, if that is the newest.
    fn write(&self, last: u64, content: &[u8]) -> io::Result<Written> {
        make_folder(&self.folder, self.rules.mode)?;
        let next = last + 1;
        let unfinished = self.folder.join(temporary_name());
        let placed = self.place(&unfinished, &self.path(next), content);
        // One that cannot be removed is hidden, and goes with the folder.
        let _ = fs::remove_file(&unfinished);
        if !placed? {
            return Ok(Written::Refused);
        }
        let generations = self.generations()?;
        if generations.iter().any(|generation| *generation >= next + self.rules.kept) {
            let _ = fs::remove_file(self.path(next));
            return Ok(Written::Refused);
        }
        for old in generations.into_iter().filter(|generation| generation + self.rules.kept <= next) {
            let _ = fs::remove_file(self.path(old));
        }
        Ok(Written::Done(version_of(next, content)))
    }

    /// Gives content a name that nothing has yet; whether it was the first.
    fn place(&self, unfinished: &Path, path: &Path, content: &[u8]) -> io::Result<bool> {
        let mut file = create_new(unfinished, self.rules.mode)?;
        file.write_all(content)?;
        file.sync_data()?;
        match fs::hard_link(unfinished, path) {
            Ok(()) => Ok(true),
            // NFS may have done it and lost the answer (open(2), O_EXCL): then both names are one file.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let ours = file.metadata()?.ino();
                Ok(fs::metadata(path).is_ok_and(|there| there.ino() == ours))
            }
            // Deleted by another agent since we made it; so it is not what we knew.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(_) => place_without_links(path, content, self.rules.mode),
        }
    }

    /// Removes what a deleted document leaves. An agent that creates it anew at this moment keeps the folder.
    fn clear_away(&self, last: u64) {
        for old in self.generations().into_iter().flatten().filter(|generation| *generation < last) {
            let _ = fs::remove_file(self.path(old));
        }
        let leftovers = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        for leftover in leftovers.filter(|entry| entry.file_name().to_string_lossy().starts_with('.')) {
            let _ = fs::remove_file(leftover.path());
        }
        if self.generations().is_ok_and(|generations| generations == [last]) {
            let _ = fs::remove_file(self.path(last));
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// Others have no business in it: it holds what messages tell.
fn make_folder(folder: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(mode).create(folder)
}

/// A new file in a folder of this mode.
fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    const NOT_TO_RUN: u32 = 0o666;
    OpenOptions::new().write(true).create_new(true).mode(mode & NOT_TO_RUN).open(path)
}

/// For file systems without hard links: others may read it half written, and take it for a claim that they do not know.
fn place_without_links(path: &Path, content: &[u8], mode: u32) -> io::Result<bool> {
    match create_new(path, mode) {
        Ok(mut file) => {
            file.write_all(content)?;
            file.sync_data()?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

fn temporary_name() -> String {
    format!(".{}-{:016x}", std::process::id(), fastrand::u64(..))
}

/// The content is part of it, since a document that is deleted and made anew begins with the first generation again.
fn version_of(generation: u64, content: &[u8]) -> Version {
    Version(format!("{generation}.{:08x}", crc32fast::hash(content)))
}

fn of_error(error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StoreError::Forbidden(error.to_string()),
        _ => StoreError::Unreachable(error.to_string()),
    }
}
