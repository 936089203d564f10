//! What `/proc` tells of a process: whether it may be attached to.

use std::fs;
use std::path::{Path, PathBuf};

use super::{LIBRARY_NAME, Refusal};
use crate::process::Role;

/// SIGQUIT is number 3: the third bit of a mask of signals.
const QUIT_BIT: u64 = 1 << 2;
/// Options of a JVM under which nothing can be loaded into it.
const FORBIDDING: [&str; 2] = ["-XX:+DisableAttachMechanism", "-XX:-EnableDynamicAgentLoading"];

/// What is known of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Its id, as seen from here.
    pub pid: u32,
    /// Its id, as it sees itself.
    pub inner_pid: u32,
    /// Its effective user.
    pub user_id: u32,
    /// Whether it has a file system of its own.
    pub in_container: bool,
    /// The agent's library, where it is loaded: the path that the process loaded it from.
    pub agent: Option<PathBuf>,
    catches_quit: bool,
    is_jvm: bool,
    is_musl: bool,
    command_line: Vec<String>,
}

impl ProcessFacts {
    /// Reads `/proc/PID`.
    pub fn read(pid: u32) -> Result<ProcessFacts, Refusal> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read(&path).map_err(|error| Refusal::Unreadable { path, error })
        };
        let status = String::from_utf8_lossy(&read("status")?).into_owned();
        let command_line = String::from_utf8_lossy(&read("cmdline")?).into_owned();
        let own_user = rustix::process::geteuid().as_raw();
        let user_id = user_id(&status);
        // What belongs to others cannot be looked at, and is refused for that.
        let maps = match may_act_for(own_user, user_id) {
            true => String::from_utf8_lossy(&read("maps")?).into_owned(),
            false => String::new(),
        };
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let in_container = namespace("self") != namespace(&pid.to_string());
        Ok(ProcessFacts { in_container, ..ProcessFacts::of(pid, &status, &command_line, &maps) })
    }

    fn of(pid: u32, status: &str, command_line: &str, maps: &str) -> ProcessFacts {
        let caught = field(status, "SigCgt").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
        let inner_pid = field(status, "NSpid").and_then(|pids| pids.split_whitespace().last()?.parse().ok());
        let mapped = |name: &str| {
            maps.lines().find_map(|line| {
                let path = &line[line.find('/')?..];
                let path = Path::new(path.strip_suffix(" (deleted)").unwrap_or(path));
                path.file_name()?.to_str()?.starts_with(name).then(|| path.to_owned())
            })
        };
        ProcessFacts {
            pid,
            inner_pid: inner_pid.unwrap_or(pid),
            user_id: user_id(status),
            in_container: false,
            agent: mapped(LIBRARY_NAME),
            catches_quit: caught & QUIT_BIT != 0,
            is_jvm: mapped("libjvm.so").is_some(),
            is_musl: mapped("ld-musl").is_some(),
            command_line: command_line.split('\0').map(str::to_owned).collect(),
        }
    }

    /// Whether SIGQUIT may be sent to it by this user.
    pub fn judge(&self, own_user: u32) -> Result<(), Refusal> {
        if !may_act_for(own_user, self.user_id) {
            return Err(Refusal::OtherUser { user_id: self.user_id });
        }
        if !self.is_jvm {
            return Err(Refusal::NoJvm);
        }
        if !self.command_line.iter().any(|word| Role::of_command(word).is_some()) {
            return Err(Refusal::NoFlink);
        }
        if !self.catches_quit {
            return Err(Refusal::QuitNotCaught);
        }
        if let Some(option) = FORBIDDING.into_iter().find(|option| self.command_line.iter().any(|word| word == option))
        {
            return Err(Refusal::Forbidden { option });
        }
        if self.is_musl { Err(Refusal::Musl) } else { Ok(()) }
    }

    /// A path as the process sees it, reached from here.
    pub fn in_its_root(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.pid));
        root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

fn may_act_for(own_user: u32, user_id: u32) -> bool {
    own_user == 0 || own_user == user_id
}

/// The second of the four ids of the line `Uid`: the effective one.
fn user_id(status: &str) -> u32 {
    let ids = field(status, "Uid").and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok());
    ids.unwrap_or(u32::MAX)
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tjava\nUid:\t9999\t9999\t9999\t9999\nNSpid:\t4711\t1\nSigCgt:\t2000000181005ccf\n";
    const COMMAND: &str =
        "java\0-Xmx1g\0org.apache.flink.runtime.taskexecutor.TaskManagerRunner\0--configDir\0/opt/flink/conf\0";
    const MAPS: &str = "7f00-7f01 r-xp 00000000 08:01 42 /opt/java/openjdk/lib/server/libjvm.so\n\
                        7f02-7f03 r-xp 00000000 08:01 43 /usr/lib/x86_64-linux-gnu/libc.so.6\n";

    fn judged(status: &str, command: &str, maps: &str, own_user: u32) -> String {
        match ProcessFacts::of(4711, status, command, maps).judge(own_user) {
            Ok(()) => "may".to_owned(),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn a_task_manager_may_be_attached_to_by_its_user_and_by_root() {
        let facts = ProcessFacts::of(4711, STATUS, COMMAND, MAPS);
        assert_eq!((facts.inner_pid, facts.user_id, facts.agent.as_ref()), (1, 9999, None));
        assert_eq!(facts.in_its_root(Path::new("/tmp/x")), Path::new("/proc/4711/root/tmp/x"));
        assert_eq!([0, 9999].map(|user| judged(STATUS, COMMAND, MAPS, user)), ["may", "may"]);
    }

    #[test]
    fn each_refusal_says_why() {
        let refused = |from: &str, to: &str| {
            let change = |text: &str| text.replace(from, to);
            judged(&change(STATUS), &change(COMMAND), &change(MAPS), 9999)
        };
        assert!(judged(STATUS, COMMAND, MAPS, 1000).contains("belongs to user 9999"));
        assert!(refused("libjvm.so", "libnode.so").contains("is no JVM"));
        assert!(refused("TaskManagerRunner", "CliFrontend").contains("no JobManager or TaskManager"));
        assert!(refused("181005ccf", "181005ccb").contains("does not catch SIGQUIT"));
        assert!(refused("-Xmx1g", "-XX:-EnableDynamicAgentLoading").contains("-XX:-EnableDynamicAgentLoading"));
        assert!(refused("-Xmx1g", "-XX:+DisableAttachMechanism").contains("-XX:+DisableAttachMechanism"));
        assert!(refused("/usr/lib/x86_64-linux-gnu/libc.so.6", "/lib/ld-musl-x86_64.so.1").contains("musl"));
    }

    #[test]
    fn an_agent_that_is_there_is_seen_even_if_its_file_is_gone() {
        let maps = format!("{MAPS}7f04-7f05 r-xp 00000000 08:01 44 /opt/leader watch/libleaderwatch.so (deleted)\n");
        let agent = ProcessFacts::of(1, STATUS, COMMAND, &maps).agent;
        assert_eq!(agent.as_deref(), Some(Path::new("/opt/leader watch/libleaderwatch.so")));
    }
}
