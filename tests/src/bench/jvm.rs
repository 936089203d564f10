//! Compiles the Java programs of the benches and starts JVMs with each agent.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::{agent, installation};

/// What a JVM carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// No agent.
    Nothing,
    /// This project's.
    Leaderwatch,
    /// A Java agent that uses ASM.
    Asm,
    /// A Java agent that uses Byte Buddy.
    ByteBuddy,
}

impl Carried {
    /// All that are compared.
    pub const ALL: [Carried; 4] = [Carried::Nothing, Carried::Leaderwatch, Carried::Asm, Carried::ByteBuddy];

    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Carried::Nothing => "no agent",
            Carried::Leaderwatch => "Leaderwatch",
            Carried::Asm => "ASM",
            Carried::ByteBuddy => "Byte Buddy",
        }
    }
}

/// A Java to measure on.
#[derive(Debug, Clone)]
pub struct Jdk {
    /// `17`, ...
    pub release: String,
    home: PathBuf,
}

/// Where everything is compiled to.
pub struct Ground {
    /// The JDKs, oldest first.
    pub jdks: Vec<Jdk>,
    folder: TempDir,
}

/// Small and alike: one collector thread, a heap of one size.
const SMALL: [&str; 3] = ["-XX:+UseSerialGC", "-Xms64m", "-Xmx64m"];
const MAIN: &str = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner";

impl Ground {
    /// Compiles all.
    ///
    /// # Errors
    /// Where there is no JDK, or the libraries of the Java agents cannot be fetched.
    pub fn new() -> Result<Self> {
        let jdks = jdks();
        let newest = jdks.first().context("no JDK with javac is in /usr/lib/jvm")?;
        let ground = Self { folder: TempDir::with_prefix("leaderwatch-bench-")?, jdks: jdks.clone() };
        let (asm, byte_buddy) = installation::agent_libraries()?;
        for (library, name) in [(&asm, "asm.jar"), (&byte_buddy, "byte-buddy.jar")] {
            fs::copy(library, ground.path(name)).with_context(|| format!("{}", library.display()))?;
        }
        let root = installation::source_root();
        let (bench, fakes) = (root.join("tests/java/bench"), root.join("native/tests/java/fakes/org/apache/flink"));
        let runtime = bench.join("org/apache/flink/runtime/taskexecutor/TaskManagerRunner.java");
        let mut sources = vec![runtime];
        for name in [
            "api/common/JobID.java",
            "util/AbstractID.java",
            "runtime/taskexecutor/DefaultJobLeaderService.java",
            "runtime/taskexecutor/TaskExecutor.java",
            "runtime/clusterframework/types/ResourceID.java",
        ] {
            sources.push(fakes.join(name));
        }
        ground.compile(newest, &sources, "app")?;
        let peers = ["Handover", "AsmAgent", "ByteBuddyAgent"].map(|name| bench.join(format!("peer/{name}.java")));
        ground.compile(newest, &peers, "peers")?;
        for (agent, library) in [("AsmAgent", "asm"), ("ByteBuddyAgent", "byte-buddy")] {
            let manifest = ground.path("manifest.txt");
            fs::write(&manifest, format!("Premain-Class: peer.{agent}\nClass-Path: {library}.jar\n"))?;
            let mut jar = Command::new(newest.home.join("bin/jar"));
            jar.arg("cfm").arg(ground.path(&format!("{library}-agent.jar"))).arg(&manifest);
            run(jar.arg("-C").arg(ground.path("peers")).arg("."))?;
        }
        Ok(ground)
    }

    /// A file or folder of the ground.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A JVM that carries an agent. `options` are the agent's, if it is ours; `flags` are the JVM's.
    ///
    /// # Errors
    /// Where the agent is not built.
    pub fn java(&self, jdk: &Jdk, carried: Carried, options: &[(&str, &str)], flags: &[&str]) -> Result<Command> {
        self.java_with(jdk, carried, options, flags, "")
    }

    /// The same, with more on its class path.
    ///
    /// # Errors
    /// As [`Ground::java`].
    pub fn java_with(
        &self,
        jdk: &Jdk,
        carried: Carried,
        options: &[(&str, &str)],
        flags: &[&str],
        class_path: &str,
    ) -> Result<Command> {
        let mut java = Command::new(jdk.home.join("bin/java"));
        java.args(SMALL).args(flags).current_dir(self.folder.path());
        match carried {
            Carried::Nothing => {}
            Carried::Leaderwatch => {
                let scratch = TempDir::new_in(self.folder.path())?.keep();
                let paths = [scratch.join("log.jsonl"), scratch.join("state")].map(|path| path.display().to_string());
                let mut all = vec![("log", paths[0].as_str()), ("state", paths[1].as_str())];
                all.extend_from_slice(options);
                java.arg(agent::java_option(&agent::library()?, &all));
            }
            Carried::Asm => {
                java.arg(format!("-javaagent:{}", self.path("asm-agent.jar").display()));
            }
            Carried::ByteBuddy => {
                java.arg(format!("-javaagent:{}", self.path("byte-buddy-agent.jar").display()));
            }
        }
        let parts = [self.path("app").display().to_string(), class_path.to_owned()];
        // An empty part would be the present folder.
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        java.arg("-cp").arg(parts.join(":")).arg(MAIN);
        // What our agent says on standard error is no figure; a fault shows in the lines that are missing.
        java.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(java)
    }

    fn compile(&self, jdk: &Jdk, sources: &[PathBuf], into: &str) -> Result<()> {
        let mut javac = Command::new(jdk.home.join("bin/javac"));
        javac.args(["--release", "8", "-nowarn", "-Xlint:-options", "-d"]).arg(self.path(into));
        javac.arg("-cp").arg(format!("{}:{}", self.path("asm.jar").display(), self.path("byte-buddy.jar").display()));
        run(javac.args(sources))
    }
}

/// The lines that a program prints until it ends.
///
/// # Errors
/// Where it does not end well.
pub fn lines(mut command: Command) -> Result<Vec<String>> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// The number behind a word, such as `median 12 p99 34`.
///
/// # Errors
/// Where no line has it.
pub fn number(lines: &[String], word: &str) -> Result<f64> {
    let mut found = lines.iter().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.find(|it| *it == word)?;
        words.next()?.parse().ok()
    });
    found.next().with_context(|| format!("no `{word}` in {lines:?}"))
}

/// A JVM that waits for a byte now and then.
pub struct Talk {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Talk {
    /// Starts it.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(mut command: Command) -> Result<Self> {
        let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Self { child, input, output })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The lines up to one that begins with `word`, that one included.
    ///
    /// # Errors
    /// Where it ends before.
    pub fn until(&mut self, word: &str) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                bail!("the JVM ended before it said `{word}`: {lines:?}");
            }
            let line = line.trim_end().to_owned();
            let found = line.starts_with(word);
            lines.push(line);
            if found {
                return Ok(lines);
            }
        }
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// Where it is gone.
    pub fn go_on(&mut self) -> Result<()> {
        self.input.write_all(b"\n")?;
        Ok(self.input.flush()?)
    }

    /// Lets it end.
    ///
    /// # Errors
    /// Where it does not end well.
    pub fn end(mut self) -> Result<()> {
        self.go_on()?;
        drop(self.input);
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the JVM ended with {status}");
        }
        Ok(())
    }
}

/// What Linux counts of a process: `VmRSS`, `VmSize`, `Threads` of `/proc/PID/status`, and open descriptors.
#[derive(Debug, Clone, Copy)]
pub struct Footprint {
    /// Resident memory in MB (2^20 bytes).
    pub resident_mb: f64,
    /// Virtual size in MB (2^20 bytes).
    pub virtual_mb: f64,
    /// Threads.
    pub threads: f64,
    /// Open file descriptors.
    pub descriptors: f64,
}

impl Footprint {
    /// Of a process that runs.
    ///
    /// # Errors
    /// Where it does not.
    pub fn of(pid: u32) -> Result<Self> {
        let status: Vec<String> =
            fs::read_to_string(format!("/proc/{pid}/status"))?.lines().map(str::to_owned).collect();
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count();
        Ok(Self {
            resident_mb: number(&status, "VmRSS:")? / 1024.0,
            virtual_mb: number(&status, "VmSize:")? / 1024.0,
            threads: number(&status, "Threads:")?,
            descriptors: descriptors as f64,
        })
    }
}

fn jdks() -> Vec<Jdk> {
    let homes = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut jdks: Vec<Jdk> = homes
        .filter(|home| !home.is_symlink() && home.join("bin/javac").is_file())
        .filter_map(|home| Some(Jdk { release: release(&home)?, home }))
        .collect();
    jdks.sort_by_key(|jdk| jdk.release.parse::<u32>().unwrap_or(0));
    jdks.dedup_by(|one, other| one.release == other.release);
    jdks
}

fn release(home: &Path) -> Option<String> {
    let told = fs::read_to_string(home.join("release")).ok()?;
    let version = told.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    Some(version.split(['.', '"', '-']).next()?.to_owned())
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
