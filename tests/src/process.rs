//! Processes that a test started, and the certainty that none of them outlives it.

use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::wait;

/// Kills the process groups that are still on its list when this process is gone, however it went: a shell of its own
/// group waits for the end of a pipe of which this process holds the only other end.
pub struct Guard {
    list: PathBuf,
    // Closing it tells the shell that this process is gone.
    pipe: Option<ChildStdin>,
    shell: Child,
}

/// The list is a folder with one file a process group, so that adding and removing are each one step. `-s KILL` is the one
/// form that every shell takes before `--`: dash refuses `-9 --`.
const GUARD_SCRIPT: &str = r#"
trap '' INT TERM HUP
cat >/dev/null
for group in "$1"/*; do kill -s KILL -- "-${group##*/}" 2>/dev/null; done
[ -z "$2" ] || { rm -rf -- "$2"; echo "leaderwatch: interrupted; all that was started is stopped and removed" >&2; }
"#;

impl Guard {
    /// A guard whose list lies in `folder`. Where `and_remove` is given, that folder is removed if this process dies
    /// without letting go of the guard.
    ///
    /// # Errors
    /// Where the list cannot be made or the shell not be started.
    pub fn new(folder: &Path, and_remove: Option<&Path>) -> Result<Arc<Self>> {
        let list = folder.join("groups");
        fs::create_dir_all(&list).with_context(|| format!("{}", list.display()))?;
        let mut shell = Command::new("sh")
            .args(["-c", GUARD_SCRIPT, "guard"])
            .arg(&list)
            .arg(and_remove.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .context("sh")?;
        Ok(Arc::new(Self { list, pipe: shell.stdin.take(), shell }))
    }

    fn add(&self, group: Pid) -> io::Result<()> {
        fs::write(self.list.join(group.as_raw_nonzero().to_string()), "")
    }

    fn remove(&self, group: Pid) {
        // A group that stays listed is killed once more, to no effect.
        let _ = fs::remove_file(self.list.join(group.as_raw_nonzero().to_string()));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Orderly: everybody took himself off the list. The shell itself must not stay.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        drop(self.pipe.take());
    }
}

/// A running process that is killed with its whole group when this value goes.
pub struct Process {
    name: String,
    pid: Pid,
    group: Pid,
    // None for a daemon, whose parent has gone.
    child: Option<Child>,
    guard: Arc<Guard>,
}

impl Process {
    /// Starts `command` in a process group of its own.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(name: &str, mut command: Command, guard: &Arc<Guard>) -> Result<Self> {
        let child = command.process_group(0).spawn().with_context(|| format!("{name}: {command:?}"))?;
        let pid = Pid::from_child(&child);
        let process = Self { name: name.to_owned(), pid, group: pid, child: Some(child), guard: Arc::clone(guard) };
        guard.add(pid)?;
        Ok(process)
    }

    /// Runs `command`, which starts a daemon and leaves; `pid_of` then tells the daemon's pid.
    ///
    /// # Errors
    /// Where the command fails or no daemon is there after it.
    pub fn start_daemon(
        name: &str,
        mut command: Command,
        guard: &Arc<Guard>,
        pid_of: impl FnOnce() -> Result<i32>,
    ) -> Result<Self> {
        let mut starter = command.process_group(0).spawn().with_context(|| format!("{name}: {command:?}"))?;
        let group = Pid::from_child(&starter);
        guard.add(group)?;
        let status = starter.wait()?;
        if !status.success() {
            bail!("{name}: {command:?} ended with {status}");
        }
        let pid = Pid::from_raw(pid_of()?).with_context(|| format!("{name}: its pid file holds 0"))?;
        Ok(Self { name: name.to_owned(), pid, group, child: None, guard: Arc::clone(guard) })
    }

    /// The process id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// Where the process is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid, signal).with_context(|| format!("{} ({}): {signal:?}", self.name, self.pid()))
    }

    /// How it ended; None while it runs. A daemon's status is not known and counts as success.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if let Some(child) = &mut self.child {
            return Ok(child.try_wait()?);
        }
        Ok((!is_alive(self.pid())).then(|| ExitStatus::from_raw(0)))
    }

    /// `kill -9`, returning when it is gone.
    ///
    /// # Errors
    /// Where it was gone before.
    pub fn kill(mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.wait_for_end(Duration::from_secs(10)).map(|_| ())
    }

    /// SIGTERM, returning how long it took to go.
    ///
    /// # Errors
    /// Where it did not go within `limit`.
    pub fn terminate(mut self, limit: Duration) -> Result<Duration> {
        let begin = Instant::now();
        self.signal(Signal::TERM)?;
        self.wait_for_end(limit)?;
        Ok(begin.elapsed())
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// Where it did not within `limit`.
    pub fn wait_for_end(&mut self, limit: Duration) -> Result<ExitStatus> {
        wait::until(&format!("the end of {}", self.name.clone()), limit, || self.ended())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // ESRCH where all of the group is gone, which is what is wanted.
        let _ = kill_process_group(self.group, Signal::KILL);
        if let Some(child) = &mut self.child {
            let _ = child.wait();
        }
        self.guard.remove(self.group);
    }
}

/// A zombie that nobody waits for counts as gone.
fn is_alive(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X') | None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds a fault: the list was worked off by a `kill` that dash does not know, and all went on living.
    #[test]
    fn what_a_dead_process_left_is_killed_and_removed() {
        let ground = tempfile::tempdir().unwrap();
        let folder = ground.path().join("cluster");
        let mut guard = Guard::new(&folder, Some(&folder)).unwrap();
        let mut sleep = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        guard.add(Pid::from_child(&sleep)).unwrap();
        // As when this process is killed: the pipe ends, and nobody took himself off the list.
        let held = Arc::get_mut(&mut guard).unwrap();
        drop(held.pipe.take());
        held.shell.wait().unwrap();
        assert_eq!(sleep.wait().unwrap().signal(), Some(9));
        assert!(!folder.exists());
    }
}
