//! What is wrong with a configuration: where, what, what is allowed instead, and what the agent does meanwhile.
//!
//! Nothing in here ever holds a secret: values of secret keys are masked before they get in.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::duration::DurationError;
use super::environment::cure_of_reading;
use super::secret::SecretError;

/// Where a problem stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The agent's options, behind `-agentpath:...=`.
    Options,
    /// A file, at a line counted from 1; none where the file as a whole is meant.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: Option<usize>,
    },
}

impl Place {
    /// Whether both are in the options, or both in the same file.
    pub fn is_of(&self, other: &Place) -> bool {
        match (self, other) {
            (Place::Options, Place::Options) => true,
            (Place::File { path, .. }, Place::File { path: other, .. }) => path == other,
            _ => false,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Options => out.write_str("options"),
            Place::File { path, line: Some(line) } => write!(out, "{}:{line}", path.display()),
            Place::File { path, line: None } => write!(out, "{}", path.display()),
        }
    }
}

/// How much a problem matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Something that was written does not take effect.
    Error,
    /// All takes effect, but something is likely not as it was meant.
    Warning,
}

/// What the agent does in spite of the problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The key counts as not given.
    KeyIgnored,
    /// The key's default holds.
    DefaultUsed(String),
    /// The target receives nothing.
    TargetDisabled(String),
    /// The file counts as absent; all else works on.
    FileIgnored,
    /// Some lines of the file count as absent.
    LinesIgnored {
        /// First line, counted from 1.
        first: usize,
        /// Last line.
        last: usize,
    },
    /// As said in the problem itself, or nothing changes.
    None,
}

impl Effect {
    /// Whether a target that the user named may be missing by it. A key that is ignored may be the target's name.
    pub fn may_hide_a_target(&self) -> bool {
        match self {
            Effect::KeyIgnored | Effect::TargetDisabled(_) | Effect::FileIgnored | Effect::LinesIgnored { .. } => true,
            Effect::DefaultUsed(_) | Effect::None => false,
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::KeyIgnored => out.write_str("the key is ignored"),
            Effect::DefaultUsed(default) => write!(out, "the default `{default}` is used"),
            Effect::TargetDisabled(name) => write!(out, "target `{name}` is disabled"),
            Effect::FileIgnored => out.write_str("the file is ignored"),
            Effect::LinesIgnored { first, last } if first == last => write!(out, "line {first} is ignored"),
            Effect::LinesIgnored { first, last } => write!(out, "lines {first} to {last} are ignored"),
            Effect::None => Ok(()),
        }
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// No such key.
    UnknownKey {
        /// The known key that was probably meant.
        nearest: Option<String>,
        /// All keys that are known there.
        known: String,
    },
    /// A key that only other kinds of target take.
    KeyOfOtherKind {
        /// The kind of this target.
        kind: String,
        /// The kinds that take the key.
        kinds: String,
    },
    /// A key that stands in the wrong table.
    KeyOfOtherTable {
        /// The key that was probably meant.
        key: String,
        /// The table that it belongs to; none: before the first table.
        table: Option<&'static str>,
    },
    /// The value is none of those allowed.
    BadValue {
        /// The value, masked if it may be secret.
        value: String,
        /// What is allowed.
        allowed: String,
        /// The allowed value that was probably meant.
        nearest: Option<String>,
    },
    /// The value is of another type than the key takes.
    WrongType {
        /// Type of the value.
        found: &'static str,
        /// What is allowed.
        allowed: String,
    },
    /// A duration that cannot be read.
    BadDuration {
        /// The value.
        value: String,
        /// Why.
        error: DurationError,
        /// What is allowed.
        allowed: String,
    },
    /// The value is empty.
    Empty {
        /// What is allowed.
        allowed: String,
    },
    /// A key without which nothing can be done.
    Missing {
        /// How to write it.
        example: String,
    },
    /// An option given more than once.
    Repeated,
    /// An option without `=`.
    NotKeyValue,
    /// A character that does not survive every start script.
    UnsafeCharacter {
        /// The first one.
        character: char,
        /// What may happen to it.
        harm: &'static str,
        /// The others.
        others: Vec<char>,
    },
    /// The file is not TOML at that place.
    Syntax {
        /// What the parser said; holds nothing of the file's text.
        message: String,
    },
    /// A file that cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
        /// Kind of the error.
        kind: io::ErrorKind,
    },
    /// A secret given in more than one way.
    SeveralVariants {
        /// The key that is used.
        used: String,
    },
    /// A secret that is not there now; it is looked for again at each use.
    SecretUnavailable(SecretError),
    /// What a secret holds is not of the form that the key takes.
    SecretMalformed {
        /// What is allowed.
        allowed: String,
    },
    /// A file with secrets that every user of the machine can read.
    WorldReadable {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Two targets of one name.
    DuplicateName {
        /// The name that the later one goes by.
        renamed: String,
    },
    /// A target of the file gives way to the one that the options make.
    ReplacedByOptions,
    /// A fallback that is no target.
    UnknownFallback {
        /// The name.
        name: String,
        /// The target that was probably meant.
        nearest: Option<String>,
        /// The names of all targets that work.
        known: String,
    },
    /// Fallbacks that lead back to where they started.
    FallbackLoop,
    /// A key that needs another one beside it.
    NeedsPartner {
        /// The missing key.
        partner: &'static str,
    },
    /// A generic webhook that points to a chat service, which would refuse the generic body.
    ChatHost {
        /// The kind of target that the service needs.
        kind: &'static str,
    },
    /// No alert ever goes to this target.
    NeverReached,
    /// A receiver that keeps alerts open is never told that one is over.
    NeverResolved,
    /// A kind of target that carries no alerts.
    TakesNoAlerts,
    /// Nothing can be sent with what is written, though each key by itself is of its form.
    Unusable {
        /// Why, and what to do; holds no secret.
        reason: String,
    },
    /// No target at all.
    NoTarget,
    /// The state folder lies on a file system that is gone with its container or at the next boot.
    ShortLived {
        /// The folder.
        path: PathBuf,
        /// Type of the file system.
        file_system: String,
    },
    /// Anything of a limit that a value breaks.
    OutOfRange {
        /// The value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
}

impl Fault {
    /// A file that could not be read.
    pub fn unreadable(path: &Path, error: &io::Error) -> Fault {
        Fault::Unreadable { path: path.to_owned(), reason: error.to_string(), kind: error.kind() }
    }

    /// What is wrong, without the key.
    pub fn reason(&self) -> String {
        match self {
            Fault::UnknownKey { .. } | Fault::KeyOfOtherTable { .. } => "unknown key".to_owned(),
            Fault::KeyOfOtherKind { kind, .. } => format!("not a key of kind `{kind}`"),
            Fault::BadValue { value, .. } => format!("`{value}` is not allowed"),
            Fault::WrongType { found, .. } => format!("{found} stands here"),
            Fault::BadDuration { value, error, .. } => format!("`{value}` is no duration: {error}"),
            Fault::OutOfRange { value, .. } => format!("`{value}` is out of range"),
            Fault::Empty { .. } => "empty".to_owned(),
            Fault::Missing { .. } => "missing".to_owned(),
            Fault::Repeated => "given more than once".to_owned(),
            Fault::NotKeyValue => "not of the form key=value".to_owned(),
            Fault::UnsafeCharacter { character, harm, others } => {
                let others: String = others.iter().map(|other| format!(", `{}`", other.escape_debug())).collect();
                let also = if others.is_empty() { "" } else { "; unsafe, too" };
                let character = character.escape_debug();
                format!("the character `{character}` {harm} on the way through some start scripts{also}{others}")
            }
            Fault::Syntax { message } => format!("not TOML: {message}"),
            Fault::Unreadable { path, reason, .. } => format!("`{}` cannot be read: {reason}", path.display()),
            Fault::SeveralVariants { used } => format!("given in more than one way; `{used}` is used"),
            Fault::SecretUnavailable(error) => error.to_string(),
            Fault::SecretMalformed { .. } => "what it holds has the wrong form".to_owned(),
            Fault::WorldReadable { path, mode } => {
                format!("`{}` (mode {mode:04o}) can be read by every user of this machine", path.display())
            }
            Fault::DuplicateName { .. } => "an earlier target has the same name".to_owned(),
            Fault::ReplacedByOptions => "the options make a target of the same name, which wins".to_owned(),
            Fault::UnknownFallback { name, .. } => format!("`{name}` is no working target that takes alerts"),
            Fault::FallbackLoop => "the fallbacks lead back to this target".to_owned(),
            Fault::NeedsPartner { partner } => format!("useless without `{partner}`"),
            Fault::ChatHost { kind } => {
                format!("this is an address of {kind}, which does not understand a generic webhook")
            }
            Fault::NeverReached => "no alert ever goes to this target".to_owned(),
            Fault::NeverResolved => "it keeps alerts open, and is never told that one is over".to_owned(),
            Fault::TakesNoAlerts => "a heartbeat takes no alerts".to_owned(),
            Fault::Unusable { reason } => reason.clone(),
            Fault::NoTarget => "no target: alerts go to the alert log only".to_owned(),
            Fault::ShortLived { path, file_system } => format!(
                "`{}` lies on {file_system} here, which is gone with its container or at the next boot: alerts that \
                 wait for delivery are lost with it",
                path.display()
            ),
        }
    }

    /// What to do about it; may be empty where the reason says it all.
    pub fn cure(&self) -> String {
        match self {
            Fault::UnknownKey { nearest, known } => with_nearest(nearest, &format!("known keys: {known}")),
            Fault::KeyOfOtherKind { kinds, .. } => format!("remove it; kinds that take it: {kinds}"),
            Fault::KeyOfOtherTable { key, table: None } => {
                format!("did you mean `{key}`? It belongs to the top of the file, before the first `[table]`")
            }
            Fault::KeyOfOtherTable { key, table: Some(table) } => {
                format!("did you mean `{key}`? It belongs to the table `[{table}]`")
            }
            Fault::BadValue { allowed, nearest, .. } => with_nearest(nearest, &format!("allowed: {allowed}")),
            Fault::WrongType { allowed, .. }
            | Fault::BadDuration { allowed, .. }
            | Fault::OutOfRange { allowed, .. }
            | Fault::Empty { allowed }
            | Fault::SecretMalformed { allowed } => format!("allowed: {allowed}"),
            Fault::Missing { example } => format!("add `{example}`"),
            Fault::Repeated => "keep one; the last one is used".to_owned(),
            Fault::NotKeyValue => "write `key=value,key=value`".to_owned(),
            Fault::UnsafeCharacter { .. } => {
                "put this into the file named by `config`; safe are letters, digits and , = : / . _ - + @".to_owned()
            }
            Fault::Syntax { .. } => {
                "mend the line: `key = value`, texts in double quotes, `[[target]]` before each target".to_owned()
            }
            Fault::Unreadable { kind, .. } => cure_of_reading(*kind, "Flink's user"),
            Fault::SeveralVariants { .. } => "keep one of them".to_owned(),
            Fault::SecretUnavailable(error) => error.cure(),
            Fault::WorldReadable { path, .. } => {
                format!("let Flink's user alone read it: chown it to that user, and chmod 600 {}", path.display())
            }
            Fault::DuplicateName { renamed } => format!("give it a name of its own; it goes by `{renamed}` now"),
            Fault::ReplacedByOptions => "keep one of the two, or give the one in the file another name".to_owned(),
            Fault::UnknownFallback { nearest, known, .. } => with_nearest(nearest, &format!("targets: {known}")),
            Fault::FallbackLoop => "name another target, or none".to_owned(),
            Fault::NeedsPartner { partner } => format!("add `{partner}`, or remove this key"),
            Fault::ChatHost { kind } => format!("use a target of kind = \"{kind}\" in the file"),
            Fault::NeverReached => {
                "add a class of `alert.classes` to its `classes`, or name it as the `fallback` of another".to_owned()
            }
            Fault::NeverResolved => "add `resolved` to its `classes` and to `alert.classes`".to_owned(),
            Fault::TakesNoAlerts => "remove this key".to_owned(),
            Fault::Unusable { .. } => String::new(),
            Fault::ShortLived { .. } => {
                "put it on a volume or a disk; or see that `claim.store` is not `none`".to_owned()
            }
            Fault::NoTarget => "add the option `webhook=` or `email=`, or a `[[target]]` in the file".to_owned(),
        }
    }
}

fn with_nearest(nearest: &Option<String>, otherwise: &str) -> String {
    match nearest {
        Some(name) => format!("did you mean `{name}`? {otherwise}"),
        None => otherwise.to_owned(),
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// The key, with the table or target that it stands in; empty where no key is meant.
    pub key: String,
    /// What.
    pub fault: Fault,
    /// What the agent does in spite of it.
    pub effect: Effect,
    /// How much it matters.
    pub weight: Weight,
}

impl Problem {
    /// What does not work, for the field `what` of the event `agent.problem`.
    pub fn what(&self) -> String {
        if self.key.is_empty() { self.place.to_string() } else { format!("{}: `{}`", self.place, self.key) }
    }

    /// Why, the cure, and what the agent does meanwhile, for the field `reason` of the event `agent.problem`.
    pub fn reason(&self) -> String {
        let parts = [self.fault.reason(), self.fault.cure(), self.effect.to_string()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// The same where nothing of it takes effect.
    pub fn refusal(&self) -> String {
        let parts = [self.fault.reason(), self.fault.cure()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// The line of the file, where there is one.
    pub fn line(&self) -> Option<usize> {
        match &self.place {
            Place::File { line, .. } => *line,
            Place::Options => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.what(), self.reason())
    }
}
