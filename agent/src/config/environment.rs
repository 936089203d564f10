//! What the configuration reads from outside: environment variables, files, host and user. A trait, so that tests
//! bring their own.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Longest file that is read, in bytes. A configuration is far shorter; what is longer is some other file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The outside.
pub trait Environment {
    /// An environment variable; none where it is unset or not UTF-8.
    fn var(&self, name: &str) -> Option<String>;
    /// The text of a regular file of at most 1 MiB. Never waits for a pipe or a device.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// The permission bits of a file.
    fn mode(&self, path: &Path) -> Option<u32>;
    /// Host name; `localhost` where it is not known.
    fn hostname(&self) -> String;
    /// Numeric id of the user that the process runs as.
    fn user_id(&self) -> Option<u32>;
    /// Folder for temporary files.
    fn temporary_folder(&self) -> PathBuf;
}

/// The real outside.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        read_regular_file(path)
    }

    fn mode(&self, path: &Path) -> Option<u32> {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(path).ok().map(|metadata| metadata.permissions().mode() & 0o7777)
    }

    fn hostname(&self) -> String {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let name = kernel.or_else(|| self.var("HOSTNAME")).unwrap_or_default();
        let name = name.trim();
        if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
    }

    fn user_id(&self) -> Option<u32> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }

    fn temporary_folder(&self) -> PathBuf {
        std::env::temp_dir()
    }
}

/// Reads a regular file of at most 1 MiB. A pipe or a device is refused before it is opened, since to open it may wait
/// for ever.
pub fn read_regular_file(path: &Path) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "longer than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        io::Error::new(io::ErrorKind::InvalidData, format!("line {line} is not UTF-8"))
    })
}

/// What to do about a file that [`Environment::read`] could not read; `reader` is who wants to.
pub fn cure_of_reading(kind: io::ErrorKind, reader: &str) -> String {
    match kind {
        io::ErrorKind::InvalidData => "save the file as UTF-8".to_owned(),
        io::ErrorKind::InvalidInput => "name a file, no folder, pipe or device".to_owned(),
        io::ErrorKind::FileTooLarge => "check the path: it is some other file, perhaps".to_owned(),
        _ => format!("check the path and that {reader} may read it"),
    }
}

/// An outside made for tests: nothing is there but what the test puts in.
#[cfg(test)]
#[derive(Debug, Clone, Default)]
pub struct FakeEnvironment {
    /// Environment variables.
    pub vars: std::collections::BTreeMap<String, String>,
    /// Files: path to mode and text.
    pub files: std::collections::BTreeMap<PathBuf, (u32, String)>,
}

#[cfg(test)]
impl FakeEnvironment {
    /// The same with one more variable.
    pub fn with_var(mut self, name: &str, value: &str) -> Self {
        self.vars.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The same with one more file, of mode 0600.
    pub fn with_file(self, path: &str, text: &str) -> Self {
        self.with_mode(path, 0o600, text)
    }

    /// The same with one more file, of the given mode.
    pub fn with_mode(mut self, path: &str, mode: u32, text: &str) -> Self {
        self.files.insert(PathBuf::from(path), (mode, text.to_owned()));
        self
    }
}

#[cfg(test)]
impl Environment for FakeEnvironment {
    fn var(&self, name: &str) -> Option<String> {
        self.vars.get(name).cloned()
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "No such file or directory");
        self.files.get(path).map(|(_, text)| text.clone()).ok_or_else(missing)
    }

    fn mode(&self, path: &Path) -> Option<u32> {
        self.files.get(path).map(|(mode, _)| *mode)
    }

    fn hostname(&self) -> String {
        "tm-1".to_owned()
    }

    fn user_id(&self) -> Option<u32> {
        Some(1000)
    }

    fn temporary_folder(&self) -> PathBuf {
        PathBuf::from("/fallback-tmp")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_device_a_folder_and_a_huge_file_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let huge = folder.path().join("huge");
        std::fs::File::create(&huge).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        for path in [Path::new("/dev/zero"), folder.path(), huge.as_path(), Path::new("/nowhere")] {
            assert!(SystemEnvironment.read(path).is_err(), "{}", path.display());
        }
    }

    #[test]
    fn the_line_that_is_not_utf_8_is_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"a = 1\nb = '\xe4'\n").unwrap();
        assert!(SystemEnvironment.read(file.path()).unwrap_err().to_string().starts_with("line 2 is not UTF-8"));
    }

    #[test]
    fn host_and_user_are_known() {
        assert!(!SystemEnvironment.hostname().contains(char::is_whitespace));
        assert!(SystemEnvironment.user_id().is_some());
    }
}
