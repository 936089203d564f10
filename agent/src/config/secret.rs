//! Secrets: masked wherever they might be printed, and read anew at each use, so that a changed secret needs no
//! restart.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::environment::{Environment, cure_of_reading, read_regular_file};

/// What stands in place of a secret.
pub const MASK: &str = "***";

/// A text that must never be printed. URLs of chat services are secrets too: whoever knows one can post.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself: for the wire only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(MASK)
    }
}

/// Why a secret is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretError {
    /// Its file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
        /// Kind of the error.
        kind: io::ErrorKind,
    },
    /// Its file is empty, blanks aside.
    EmptyFile {
        /// The file.
        path: PathBuf,
    },
    /// Its environment variable is unset, empty or not UTF-8.
    Unset {
        /// The variable.
        variable: String,
    },
}

impl SecretError {
    /// What to do about it.
    pub fn cure(&self) -> String {
        match self {
            SecretError::Unreadable { kind, .. } => cure_of_reading(*kind, "Flink's user"),
            SecretError::EmptyFile { .. } => "write the secret into it, alone".to_owned(),
            SecretError::Unset { .. } => "set it in the environment that Flink starts in".to_owned(),
        }
    }
}

impl fmt::Display for SecretError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretError::Unreadable { path, reason, .. } => {
                write!(out, "`{}` cannot be read: {reason}", path.display())
            }
            SecretError::EmptyFile { path } => write!(out, "`{}` is empty", path.display()),
            SecretError::Unset { variable } => {
                write!(out, "the environment variable `{variable}` is unset, empty or not UTF-8")
            }
        }
    }
}

impl std::error::Error for SecretError {}

/// Where a secret comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// Written in the configuration itself.
    Inline(Secret),
    /// The content of a file, without blanks and line ends around it.
    File(PathBuf),
    /// An environment variable, as it was when the configuration was read: a process's own never changes.
    Env {
        /// Name of the variable.
        variable: String,
        /// Its value, if it had one.
        value: Option<Secret>,
    },
}

impl SecretSource {
    /// An environment variable, read now.
    pub fn from_env(variable: &str, env: &dyn Environment) -> Self {
        let value = env.var(variable).filter(|value| !value.trim().is_empty());
        SecretSource::Env { variable: variable.to_owned(), value: value.map(|value| Secret::new(value.trim())) }
    }

    /// The secret as it is now. A file is read at each call, so that a rotated secret counts at once; it may block for
    /// as long as the file system does.
    pub fn current(&self) -> Result<Secret, SecretError> {
        match self {
            SecretSource::Inline(secret) => Ok(secret.clone()),
            SecretSource::File(path) => from_file(path, read_regular_file(path)),
            SecretSource::Env { variable, value } => {
                value.clone().ok_or_else(|| SecretError::Unset { variable: variable.clone() })
            }
        }
    }

    /// As [`SecretSource::current`], with files read through `env`.
    pub fn current_in(&self, env: &dyn Environment) -> Result<Secret, SecretError> {
        match self {
            SecretSource::File(path) => from_file(path, env.read(path)),
            _ => self.current(),
        }
    }
}

fn from_file(path: &Path, content: io::Result<String>) -> Result<Secret, SecretError> {
    let text = content.map_err(|error| SecretError::Unreadable {
        path: path.to_owned(),
        reason: error.to_string(),
        kind: error.kind(),
    })?;
    let text = text.trim();
    if text.is_empty() {
        return Err(SecretError::EmptyFile { path: path.to_owned() });
    }
    Ok(Secret::new(text))
}

/// Says where it comes from, never what it is.
impl fmt::Display for SecretSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretSource::Inline(_) => out.write_str(MASK),
            SecretSource::File(path) => write!(out, "{MASK} (file {})", path.display()),
            SecretSource::Env { variable, .. } => write!(out, "{MASK} (environment variable {variable})"),
        }
    }
}

/// Whether every user of the machine can read a file. In a Kubernetes pod nobody asks: volumes of secrets are mounted
/// with mode 0644 by default, and no other user is there.
pub fn world_readable(path: &Path, env: &dyn Environment) -> Option<u32> {
    if env.var("KUBERNETES_SERVICE_HOST").is_some() {
        return None;
    }
    env.mode(path).filter(|mode| mode & 0o004 != 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::environment::FakeEnvironment;
    use super::*;

    #[test]
    fn a_secret_prints_masked_in_every_form() {
        let secret = Secret::new("hunter2");
        let source = SecretSource::Inline(secret.clone());
        let from_env = SecretSource::from_env("PASSWORD", &FakeEnvironment::default().with_var("PASSWORD", "hunter2"));
        for text in [
            format!("{secret} {secret:?} {secret:#?}"),
            format!("{source} {source:?} {source:#?}"),
            format!("{from_env} {from_env:?}"),
        ] {
            assert!(!text.contains("hunter2"), "{text}");
        }
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn a_file_secret_is_trimmed_and_read_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let source = SecretSource::File(path.clone());
        assert!(matches!(source.current(), Err(SecretError::Unreadable { .. })));
        std::fs::write(&path, "one\r\n").unwrap();
        assert_eq!(source.current().unwrap().expose(), "one");
        std::fs::write(&path, "two").unwrap();
        assert_eq!(source.current().unwrap().expose(), "two");
        std::fs::write(&path, " \n").unwrap();
        assert_eq!(source.current(), Err(SecretError::EmptyFile { path }));
    }

    #[test]
    fn an_unset_variable_is_an_error_that_names_it() {
        let source = SecretSource::from_env("NOT_THERE", &FakeEnvironment::default().with_var("NOT_THERE", " "));
        assert_eq!(source.current(), Err(SecretError::Unset { variable: "NOT_THERE".to_owned() }));
        insta::assert_snapshot!(source.current().unwrap_err(), @"the environment variable `NOT_THERE` is unset, empty or not UTF-8");
    }

    #[test]
    fn only_outside_a_pod_is_a_readable_file_everybodys() {
        let path = Path::new("/run/token");
        let host = FakeEnvironment::default().with_mode("/run/token", 0o644, "x");
        assert_eq!(world_readable(path, &host), Some(0o644));
        assert_eq!(world_readable(path, &host.with_var("KUBERNETES_SERVICE_HOST", "10.0.0.1")), None);
        assert_eq!(world_readable(path, &FakeEnvironment::default().with_mode("/run/token", 0o640, "x")), None);
    }
}
