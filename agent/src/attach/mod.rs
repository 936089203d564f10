//! Loads the agent into a JVM that runs, without a JDK: HotSpot's attach protocol.
//!
//! The client makes a file `.attach_pidN` and sends SIGQUIT; the JVM, which then finds the file, listens on the socket
//! `.java_pidN` in its `/tmp`, where it takes `1`, `load`, library, `true` and options, each ended by a null, and answers a
//! number, a line feed and a text. N is the process's id within its container; its files are reached through
//! `/proc/PID/root`. Source: OpenJDK, `attachListener_posix.cpp` and `sun/tools/attach/VirtualMachineImpl.java` (Linux).
//!
//! SIGQUIT ends a process that does not expect it. It is only sent to a JVM that catches it and runs Flink.

mod process;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use self::process::ProcessFacts;

/// Name of the library, in `/proc/PID/maps` and beside the command.
pub const LIBRARY_NAME: &str = "libleaderwatch.so";
/// How long the JVM may take to listen; the JDK's own tools wait as long.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long it may take to load the library.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// Bytes of an argument, by version 1 of the protocol.
const ARGUMENT_BYTES: usize = 1024;
const ANSWER_BYTES: u64 = 64 * 1024;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attached {
    /// The agent is loaded now.
    Loaded,
    /// It was loaded before, and no options were given: nothing was done.
    Already,
    /// It was loaded before, and is given these options.
    GivenOptions,
}

/// Why the agent is not loaded. Unless it says otherwise, nothing was done to the process.
#[derive(Debug)]
pub enum Refusal {
    /// There is no such process, or it cannot be looked at.
    Unreadable {
        /// What was read.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The process belongs to another user.
    OtherUser {
        /// That user's id.
        user_id: u32,
    },
    /// Not a JVM.
    NoJvm,
    /// A JVM that runs something else than a JobManager or TaskManager of Flink.
    NoFlink,
    /// It does not catch SIGQUIT, which would end it.
    QuitNotCaught,
    /// An option of the JVM forbids it.
    Forbidden {
        /// That option.
        option: &'static str,
    },
    /// Its C library is musl, the agent's is glibc.
    Musl,
    /// The process does not see the library.
    NoLibrary {
        /// The library's path.
        library: PathBuf,
        /// Whether the process has another file system, as in a container.
        in_container: bool,
    },
    /// The path or the options are longer than the protocol takes, or hold a null.
    BadArgument {
        /// Which.
        what: &'static str,
    },
    /// The JVM did not listen; it got SIGQUIT.
    Silent,
    /// What went wrong on the way.
    Io {
        /// What was done.
        what: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// The JVM's or the agent's own word.
    Answered(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unreadable { path, error } if error.kind() == io::ErrorKind::NotFound => {
                write!(out, "there is no such process ({} is not there)", path.display())
            }
            Refusal::Unreadable { path, error } => {
                write!(out, "{} cannot be read: {error}; run this as the user of the process", path.display())
            }
            Refusal::OtherUser { user_id } => {
                write!(out, "the process belongs to user {user_id}; run this as that user, or as root")
            }
            Refusal::NoJvm => out.write_str("the process is no JVM; nothing was done to it"),
            Refusal::NoFlink => {
                out.write_str("the JVM runs no JobManager or TaskManager of Flink; nothing was done to it")
            }
            Refusal::QuitNotCaught => out.write_str(
                "the process does not catch SIGQUIT (the JVM option -Xrs, or a JVM that is only starting); the signal would \
                 end it, so nothing was done; use -agentpath at the next start",
            ),
            Refusal::Forbidden { option } => {
                write!(out, "the JVM was started with {option}; use -agentpath at the next start")
            }
            Refusal::Musl => out.write_str("the JVM uses musl, the agent needs glibc; use an image with glibc"),
            Refusal::NoLibrary { library, in_container: false } => {
                write!(out, "{} is not there; give its path with --library", library.display())
            }
            Refusal::NoLibrary { library, in_container: true } => write!(
                out,
                "the process has a file system of its own, in which {} is not there; copy {LIBRARY_NAME} into the \
                 container (`docker cp`, `kubectl cp`) and give its path in there with --library",
                library.display()
            ),
            Refusal::BadArgument { what } => write!(
                out,
                "{what} is longer than {ARGUMENT_BYTES} bytes or holds a null; put what is long into a file and give \
                 `config=FILE`"
            ),
            Refusal::Silent => write!(
                out,
                "the JVM did not listen within {} s after SIGQUIT; it may hang, or have -XX:+DisableAttachMechanism: then \
                 it has written a thread dump; use -agentpath at the next start",
                LISTENS_WITHIN.as_secs()
            ),
            Refusal::Io { what, error } => write!(out, "{what}: {error}"),
            Refusal::Answered(answer) => write!(out, "not loaded: {answer}"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Loads the library, whose path is the one that the process sees, with these options. Where the agent is at work already,
/// it is given the options and nothing else is done.
///
/// # Errors
/// Why it is not loaded.
pub fn attach(pid: u32, library: &Path, options: &str) -> Result<Attached, Refusal> {
    let facts = ProcessFacts::read(pid)?;
    facts.judge(rustix::process::geteuid().as_raw())?;
    if facts.agent.is_some() && options.is_empty() {
        return Ok(Attached::Already);
    }
    if facts.agent.is_none() && !(library.is_absolute() && facts.in_its_root(library).is_file()) {
        return Err(Refusal::NoLibrary { library: library.to_owned(), in_container: facts.in_container });
    }
    // The very library that is at work, since another one would stand down; its file may be gone.
    let library = facts.agent.as_deref().unwrap_or(library);
    let library = library.to_str().filter(|path| is_argument(path)).ok_or(Refusal::BadArgument { what: "the path" })?;
    if !is_argument(options) {
        return Err(Refusal::BadArgument { what: "the text of the options" });
    }
    let socket = connect(&facts)?;
    let answer = ask(socket, &request(library, options))?;
    judge_answer(&answer).map(|loaded| if facts.agent.is_some() { Attached::GivenOptions } else { loaded })
}

fn is_argument(text: &str) -> bool {
    text.len() <= ARGUMENT_BYTES && !text.contains('\0')
}

fn request(library: &str, options: &str) -> Vec<u8> {
    format!("1\0load\0{library}\0true\0{options}\0").into_bytes()
}

/// Connects to the JVM, which begins to listen when it is asked to.
fn connect(facts: &ProcessFacts) -> Result<UnixStream, Refusal> {
    let socket = facts.in_its_root(Path::new("/tmp")).join(format!(".java_pid{}", facts.inner_pid));
    // Nobody listens, or a dead process left it behind.
    if let Ok(stream) = UnixStream::connect(&socket) {
        return Ok(stream);
    }
    let _wish = Wish::make(facts).map_err(|error| Refusal::Io { what: "the file that asks to attach", error })?;
    let pid = i32::try_from(facts.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Refusal::Io { what: "process id", error: io::ErrorKind::InvalidInput.into() })?;
    kill_process(pid, Signal::QUIT).map_err(|error| Refusal::Io { what: "SIGQUIT", error: error.into() })?;
    let asked = Instant::now();
    loop {
        match UnixStream::connect(&socket) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Refusal::Io { what: "the JVM's socket", error });
            }
            Err(_) if asked.elapsed() > LISTENS_WITHIN => return Err(Refusal::Silent),
            Err(_) => sleep(LOOK_EVERY),
        }
    }
}

/// The file that makes a JVM take SIGQUIT for a wish to attach; gone when it is dropped.
struct Wish(PathBuf);

impl Wish {
    fn make(facts: &ProcessFacts) -> io::Result<Wish> {
        let name = format!(".attach_pid{}", facts.inner_pid);
        let in_cwd = PathBuf::from(format!("/proc/{}/cwd", facts.pid)).join(&name);
        // The JVM looks in its working folder first, which may be read-only.
        let wish = match File::create(&in_cwd) {
            Ok(_) => Wish(in_cwd),
            Err(_) => {
                let in_tmp = facts.in_its_root(Path::new("/tmp")).join(name);
                File::create(&in_tmp)?;
                Wish(in_tmp)
            }
        };
        if rustix::process::geteuid().is_root() {
            // Older JVMs want the file to be their own user's.
            chown(&wish.0, Some(facts.user_id), None)?;
        }
        Ok(wish)
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        // The JVM may have removed it.
        let _ = fs::remove_file(&self.0);
    }
}

fn ask(mut socket: UnixStream, request: &[u8]) -> Result<String, Refusal> {
    let mut answer = Vec::new();
    let asked = socket
        .set_read_timeout(Some(ANSWERS_WITHIN))
        .and_then(|()| socket.write_all(request))
        .and_then(|()| socket.take(ANSWER_BYTES).read_to_end(&mut answer));
    match asked {
        Ok(_) => Ok(String::from_utf8_lossy(&answer).into_owned()),
        Err(error) => {
            Err(Refusal::Io { what: "the talk with the JVM broke off, and it may have loaded the agent", error })
        }
    }
}

/// The JVM's number, a line feed, and for a library that it loaded `return code: ` and the agent's number; JDK 8 has only
/// the number there.
fn judge_answer(answer: &str) -> Result<Attached, Refusal> {
    let (code, text) = answer.split_once('\n').unwrap_or((answer, ""));
    let text = text.trim();
    if code.trim() != "0" {
        let text = if text.is_empty() { format!("the JVM answered {}", code.trim()) } else { text.to_owned() };
        return Err(Refusal::Answered(text));
    }
    match text.strip_prefix("return code:").unwrap_or(text).trim() {
        "0" => Ok(Attached::Loaded),
        "" => Err(Refusal::Answered("the JVM gave no answer".to_owned())),
        code if code.parse::<i64>().is_ok() => Err(Refusal::Answered(format!(
            "the agent stood down with {code}; standard error of the process (Flink's .out) says why"
        ))),
        other => Err(Refusal::Answered(other.to_owned())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_request_has_five_parts() {
        assert_eq!(request("/x/y.so", "a=b"), b"1\0load\0/x/y.so\0true\0a=b\0");
        assert!(is_argument(&"x".repeat(1024)) && !is_argument(&"x".repeat(1025)) && !is_argument("a\0b"));
    }

    #[test]
    fn answers_of_all_jvms_are_understood() {
        for loaded in ["0\nreturn code: 0\n", "0\n0\n", "0\nreturn code: 0"] {
            assert_eq!(judge_answer(loaded).unwrap(), Attached::Loaded, "{loaded}");
        }
        let refused = |answer: &str| judge_answer(answer).unwrap_err().to_string();
        assert!(refused("0\nreturn code: -1\n").contains("stood down with -1"));
        assert_eq!(
            refused("0\n/x.so was not loaded.\nno such file"),
            "not loaded: /x.so was not loaded.\nno such file"
        );
        let disabled =
            "-1\nDynamic agent loading is not enabled. Use -XX:+EnableDynamicAgentLoading to launch target VM.";
        assert!(refused(disabled).contains("EnableDynamicAgentLoading"));
        assert_eq!(refused("101\n"), "not loaded: the JVM answered 101");
        assert_eq!(refused(""), "not loaded: the JVM answered ");
    }

    /// SIGQUIT would end it.
    #[test]
    fn a_process_that_is_no_jvm_is_left_alone() {
        let mut sleeper = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let refusal = attach(sleeper.id(), Path::new("/x/libleaderwatch.so"), "").unwrap_err();
        assert!(matches!(refusal, Refusal::NoJvm), "{refusal}");
        assert!(sleeper.try_wait().unwrap().is_none());
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        let refusal = attach(sleeper.id(), Path::new("/x/libleaderwatch.so"), "").unwrap_err();
        assert!(refusal.to_string().starts_with("there is no such process"), "{refusal}");
    }
}
