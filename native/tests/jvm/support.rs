//! Starts real JVMs with the agent and reads what it observed.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::Value;

pub const TASK_MANAGER: &str = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner";
pub const JOB: &str = "0123456789abcdeffedcba9876543210";

/// The leader session ids that the fake TaskManager draws: the first, the second, ...
pub fn id(number: u32) -> String {
    format!("00112233-4455-6677-0000-{number:012x}")
}

/// Homes of the Javas under which the tests run: `$LEADERWATCH_TEST_JDKS` (joined by `:`), else the JDKs of /usr/lib/jvm and
/// whichever runtimes `scripts/flink` has fetched.
pub fn jdks() -> &'static [PathBuf] {
    static JDKS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    JDKS.get_or_init(|| {
        let named = std::env::var_os("LEADERWATCH_TEST_JDKS");
        let mut homes: Vec<PathBuf> = match &named {
            Some(named) => std::env::split_paths(named).collect(),
            None => installed_jdks().into_iter().chain(fetched_runtimes()).collect(),
        };
        homes.retain(|home| home.join("bin/java").is_file());
        let mut homes: Vec<PathBuf> = homes.iter().map(|home| home.canonicalize().unwrap()).collect();
        homes.sort();
        homes.dedup();
        assert!(!homes.is_empty(), "no JDK in $LEADERWATCH_TEST_JDKS or /usr/lib/jvm");
        homes
    })
}

fn installed_jdks() -> Vec<PathBuf> {
    let mut homes: Vec<PathBuf> =
        std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    homes.retain(|home| home.join("bin/javac").is_file());
    homes.sort();
    homes
}

/// Where `scripts/flink` puts what it fetches.
pub fn cache() -> PathBuf {
    std::env::var_os("LEADERWATCH_CACHE").map(PathBuf::from).unwrap_or_else(|| {
        PathBuf::from(std::env::var_os("HOME").expect("$HOME or $LEADERWATCH_CACHE is set")).join(".cache/leaderwatch")
    })
}

fn fetched_runtimes() -> Vec<PathBuf> {
    let folders = std::fs::read_dir(cache()).into_iter().flatten().flatten().map(|entry| entry.path());
    folders.filter(|folder| folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("jre-"))).collect()
}

/// A program of a JDK: this Java's own, or where it is a mere runtime that of another.
pub fn jdk_tool(jdk: &Path, name: &str) -> Command {
    let homes = std::iter::once(jdk.to_owned()).chain(jdks().iter().cloned()).chain(installed_jdks());
    let mut programs = homes.map(|home| home.join("bin").join(name));
    Command::new(programs.find(|program| program.is_file()).expect("a JDK is installed"))
}

/// Release of a Java, such as 17.
pub fn java_release(jdk: &Path) -> u32 {
    let told = std::fs::read_to_string(jdk.join("release")).unwrap();
    let version = told.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\"")).unwrap();
    version.split(['.', '"', '-']).next().unwrap().parse().unwrap()
}

/// The agent as built for these tests, or `$LEADERWATCH_AGENT`.
pub fn agent() -> PathBuf {
    if let Some(named) = std::env::var_os("LEADERWATCH_AGENT") {
        return PathBuf::from(named);
    }
    let program = std::env::current_exe().unwrap();
    let library = program.with_file_name("libleaderwatch.so");
    assert!(library.is_file(), "{} is not built", library.display());
    library
}

/// Where one JVM's agent writes.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(test: &str, jdk: &Path) -> Self {
        Self(folder(&format!("{test}-{}", jdk.file_name().unwrap().to_string_lossy())))
    }

    pub fn options(&self) -> String {
        format!("cluster=test,log={0}/alert.log,state={0}/state", self.0.display())
    }

    pub fn agent_option(&self, library: &Path) -> String {
        format!("-agentpath:{}={}", library.display(), self.options())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        std::fs::read_dir(&self.0).unwrap().next().is_none()
    }

    /// Whether the agent has written its status.
    pub fn has_status(&self) -> bool {
        let folder = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let clusters = folder(self.0.join("state"));
        clusters.flat_map(|cluster| folder(cluster.join("agents"))).any(|agent| agent.join("status.json").is_file())
    }

    /// The records of the alert log; none where there is no log.
    pub fn records(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.0.join("alert.log")).unwrap_or_default();
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What was said of leaders, in order: event, component, job, id, address.
    pub fn leaders(&self) -> Vec<String> {
        let records = self.records();
        let leaders = records.iter().filter(|record| text(record, "event").starts_with("leader."));
        leaders
            .map(|record| {
                ["event", "component", "job_id", "leader_id", "address"].map(|field| text(record, field)).join(" ")
            })
            .collect()
    }

    /// The name of each record's event.
    pub fn events(&self) -> Vec<String> {
        self.records().iter().map(|record| text(record, "event").to_owned()).collect()
    }

    /// What is wrong, each as one line.
    pub fn problems(&self) -> Vec<String> {
        let records = self.records();
        let problems = records.iter().filter(|record| text(record, "event") == "agent.problem");
        problems.map(|record| format!("{}: {}", text(record, "what"), text(record, "reason"))).collect()
    }
}

fn text<'a>(record: &'a Value, field: &str) -> &'a str {
    record.get(field).map_or("-", |value| value.as_str().unwrap())
}

/// A folder of this test's own, empty.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("jvm").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Classes shaped like Flink's, and a main class that takes them through steps.
pub fn fakes() -> PathBuf {
    compiled("fakes")
}

/// Programs that need no such classes.
pub fn tools() -> PathBuf {
    compiled("tools")
}

/// The Java programs of a folder of `tests/java`, compiled for Java 8, so that every JDK runs them. Compiled once for all
/// tests, so not to be written to.
fn compiled(which: &str) -> PathBuf {
    let mut sources = Vec::new();
    find_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java").join(which), &mut sources);
    sources.sort();
    let mut hasher = DefaultHasher::new();
    for source in &sources {
        std::fs::read(source).unwrap().hash(&mut hasher);
    }
    let classes = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{which}-{:016x}", hasher.finish()));
    if !classes.is_dir() {
        let own = classes.with_extension(std::process::id().to_string());
        let mut javac = jdk_tool(&jdks()[0], "javac");
        javac.args(["--release", "8", "-nowarn", "-Xlint:-options", "-g", "-d"]).arg(&own).args(sources);
        run_to_end(&mut javac);
        // Another test may have been faster; then its classes are there.
        let _ = std::fs::rename(own, &classes);
    }
    classes
}

/// Runs a command that must succeed.
pub fn run_to_end(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn find_sources(folder: &Path, sources: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            find_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "java") {
            sources.push(path);
        }
    }
}

/// What a JVM did.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Main ran to its end, and neither the verifier nor the JNI checker has anything to say.
    pub fn assert_sound(&self) {
        let all = format!("{}{}", self.stdout, self.stderr);
        assert_eq!(self.code, Some(0), "{all}");
        assert!(self.stdout.contains("main ends"), "{all}");
        for word in ["WARNING in native", "WARNING: JNI", "FATAL ERROR", "Exception", "Error", "panicked"] {
            assert!(!all.contains(word), "{word}: {all}");
        }
    }
}

/// `java` of that JDK under the verifier and the JNI checker, without anything that this machine's environment adds.
pub fn java(jdk: &Path) -> Command {
    let mut command = plain_java(jdk);
    command.args(["-Xverify:all", "-Xcheck:jni", "-Dfile.encoding=UTF-8"]);
    command
}

/// `java` of that JDK, without anything that this machine's environment adds.
pub fn plain_java(jdk: &Path) -> Command {
    let mut command = Command::new(jdk.join("bin/java"));
    for variable in ["JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS"] {
        command.env_remove(variable);
    }
    command
}

/// Runs the fake TaskManager with the agent through these steps.
pub fn task_manager(jdk: &Path, scratch: &Scratch, steps: &[&str]) -> Run {
    let option = scratch.agent_option(&agent());
    Run::of(java(jdk).arg(option).arg("-cp").arg(fakes()).arg(TASK_MANAGER).args(steps).output().unwrap())
}

/// Until something is so.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed().as_secs() < 30, "waited for {what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// What a receiver was told: the body of each message.
pub type Told = Arc<Mutex<Vec<String>>>;

/// A receiver, and its port: notes each message, and answers those whose number, from 0, `answers`.
pub fn receiver(answers: impl Fn(usize) -> bool + Send + 'static) -> (u16, Told) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let told = Told::default();
    let noted = Arc::clone(&told);
    std::thread::spawn(move || {
        let mut unanswered = Vec::new();
        for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            noted.lock().unwrap().push(body(&stream));
            if answers(number) {
                // The client may have gone.
                let _ = (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            } else {
                unanswered.push(stream);
            }
        }
    });
    (port, told)
}

fn body(stream: &TcpStream) -> String {
    let (mut request, mut length, mut line) = (BufReader::new(stream), 0, String::new());
    while request.read_line(&mut line).unwrap_or_default() > 2 {
        let (name, value) = line.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    request.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

/// Whether this process may do what makes a container.
pub fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
}
