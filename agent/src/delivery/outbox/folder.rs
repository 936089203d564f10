//! The folder in which a log keeps its segments, as a trait, so that tests can let it fail and crash.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Name of the file whose lock says who owns a folder.
pub(super) const LOCK_FILE: &str = "lock";

/// How often a folder is made again that is cleared away while it is empty.
const MOST_ATTEMPTS: u32 = 10;

/// Files of one folder. What returns `Ok` is on disk.
pub(super) trait Folder {
    /// Makes the folder where it is missing, and owns it.
    fn prepare(&mut self) -> io::Result<()>;
    /// Names of the files in it.
    fn names(&self) -> io::Result<Vec<String>>;
    /// A file's whole content.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    /// Makes a file with this content, or replaces its content.
    fn create(&mut self, name: &str, content: &[u8]) -> io::Result<()>;
    /// Appends to a file that [`Folder::create`] made.
    fn append(&mut self, name: &str, content: &[u8]) -> io::Result<()>;
    /// Gives a file another name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
    /// Deletes a file.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

/// Who else may own a folder.
#[derive(Debug)]
pub(super) enum Ownership {
    /// Ours for as long as the file is open.
    Ours(File),
    /// Another process owns it.
    Theirs,
    /// The file system has no locks, so nobody can tell.
    Unknown(io::Error),
}

/// Tries to own the folder at `path`, whose lock file must be there.
pub(super) fn own(path: &Path) -> io::Result<Ownership> {
    let lock_path = path.join(LOCK_FILE);
    let lock = OpenOptions::new().read(true).write(true).open(&lock_path)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Ownership::Theirs),
        Err(TryLockError::Error(error)) => return Ok(Ownership::Unknown(error)),
    }
    // An owner that had finished with the folder may have deleted the file between our open and our lock; a lock on a
    // deleted file owns nothing.
    let (ours, present) = (lock.metadata()?, fs::metadata(&lock_path)?);
    if (ours.dev(), ours.ino()) == (present.dev(), present.ino()) {
        return Ok(Ownership::Ours(lock));
    }
    Ok(Ownership::Theirs)
}

/// A folder of the file system: mode 0700, its files 0600.
#[derive(Debug)]
pub(super) struct DiskFolder {
    path: PathBuf,
    lock: Option<File>,
    locks_missing: Option<io::Error>,
    /// The file appended to last.
    open: Option<(String, File)>,
}

impl DiskFolder {
    /// A folder that is made when it is needed first.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, lock: None, locks_missing: None, open: None }
    }

    /// A folder that is there and owned.
    pub(super) fn owned(path: PathBuf, lock: File) -> Self {
        Self { path, lock: Some(lock), locks_missing: None, open: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Why the file system cannot lock, if it cannot; told once.
    pub(super) fn take_locks_missing(&mut self) -> Option<io::Error> {
        self.locks_missing.take()
    }

    /// Deletes the folder with its lock, which is held until both are gone.
    pub(super) fn delete(self) -> io::Result<()> {
        fs::remove_file(self.path.join(LOCK_FILE))?;
        fs::remove_dir(&self.path)
    }

    /// Makes the folder and its lock file.
    fn make(&self) -> io::Result<()> {
        let mut attempts = 0;
        loop {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
            match Self::options().write(true).create(true).truncate(false).open(self.path.join(LOCK_FILE)) {
                // A survivor that looks for orphans has cleared the folder away while it was empty.
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempts < MOST_ATTEMPTS => attempts += 1,
                made => return made.map(drop),
            }
        }
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.mode(0o600);
        options
    }
}

impl Folder for DiskFolder {
    fn prepare(&mut self) -> io::Result<()> {
        if self.lock.is_some() && self.path.join(LOCK_FILE).exists() {
            return Ok(());
        }
        self.open = None;
        self.make()?;
        self.lock = match own(&self.path)? {
            Ownership::Ours(lock) => Some(lock),
            Ownership::Theirs => return Err(io::Error::new(io::ErrorKind::WouldBlock, "another process owns it")),
            Ownership::Unknown(error) => {
                self.locks_missing = Some(error);
                Some(File::open(self.path.join(LOCK_FILE))?)
            }
        };
        if let Some(parent) = self.path.parent() {
            File::open(parent)?.sync_all()?;
        }
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for file in fs::read_dir(&self.path)? {
            names.extend(file?.file_name().into_string());
        }
        Ok(names)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path.join(name))
    }

    fn create(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut file = Self::options().write(true).create(true).truncate(true).open(self.path.join(name))?;
        file.write_all(content)?;
        file.sync_data()
    }

    fn append(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        if self.open.as_ref().is_none_or(|(open, _)| open != name) {
            let file = OpenOptions::new().append(true).open(self.path.join(name))?;
            self.open = Some((name.to_owned(), file));
        }
        let Some((_, file)) = &mut self.open else { return Err(io::ErrorKind::NotFound.into()) };
        // Cleaners of temporary folders delete files that are in use; what is written then is lost.
        if file.metadata()?.nlink() == 0 {
            self.open = None;
            return Err(io::Error::new(io::ErrorKind::NotFound, "somebody deleted the file"));
        }
        file.write_all(content)?;
        file.sync_data()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))?;
        self.sync_folder()
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|(open, _)| open == name) {
            self.open = None;
        }
        fs::remove_file(self.path.join(name))
    }
}
