//! The table of what is hooked: which method of which class, in which kind of process, and what its call says.
//!
//! Names and shapes were read from the class files of Flink 1.9.3 to 2.3.0. A class is hooked when it is loaded, so a
//! name that another version of Flink uses costs nothing.

use leaderwatch_agent::leadership::{Component, Verdict};
use leaderwatch_agent::process::Role;

use crate::classfile::{Argument, Splice};

/// One method that is hooked. Its number, which the spliced call passes, is its place in [`HOOKS`].
#[derive(Debug)]
pub struct Hook {
    /// Internal name of the class.
    pub class: &'static str,
    /// Name of the method.
    pub method: &'static str,
    /// Descriptor of the method.
    pub descriptor: &'static str,
    /// What the call says.
    pub meaning: Meaning,
    /// The process in which Flink uses the class so.
    pub role: Role,
    /// Whether every version of Flink that has the class has the method.
    pub in_every_version: bool,
}

/// What a call of a hooked method says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// `notifyLeaderAddress(address, id)`: who leads the job that the listener's field `jobId` names.
    JobLeader,
    /// `notifyLeaderAddress(address, id)`: who leads a component of which the cluster has one.
    Leader(Component),
    /// Flink holds the ResourceManager for dead.
    Unreachable(Verdict),
    /// The TaskManager has registered with the ResourceManager.
    Reachable,
}

const NOTIFY_LEADER_ADDRESS: &str = "notifyLeaderAddress";
const ADDRESS_AND_ID: &str = "(Ljava/lang/String;Ljava/util/UUID;)V";
const RESOURCE_ID: &str = "(Lorg/apache/flink/runtime/clusterframework/types/ResourceID;)V";

/// Every hook. There may be at most 128: the number is passed by `bipush`.
pub static HOOKS: &[Hook] = &[
    // Flink 1.9 and 1.10.
    job_listener("org/apache/flink/runtime/taskexecutor/JobLeaderService$JobManagerLeaderListener", Role::TaskManager),
    // Flink 1.11 and later.
    job_listener(
        "org/apache/flink/runtime/taskexecutor/DefaultJobLeaderService$JobManagerLeaderListener",
        Role::TaskManager,
    ),
    resource_manager_listener(
        "org/apache/flink/runtime/taskexecutor/TaskExecutor$ResourceManagerLeaderListener",
        Role::TaskManager,
    ),
    Hook {
        class: RESOURCE_MANAGER_HEARTBEAT,
        method: "notifyHeartbeatTimeout",
        descriptor: RESOURCE_ID,
        meaning: Meaning::Unreachable(Verdict::HeartbeatTimeout),
        role: Role::TaskManager,
        in_every_version: true,
    },
    Hook {
        class: RESOURCE_MANAGER_HEARTBEAT,
        method: "notifyTargetUnreachable", // since Flink 1.14
        descriptor: RESOURCE_ID,
        meaning: Meaning::Unreachable(Verdict::TargetUnreachable),
        role: Role::TaskManager,
        in_every_version: false,
    },
    Hook {
        class: "org/apache/flink/runtime/taskexecutor/TaskExecutor$ResourceManagerRegistrationListener",
        method: "onRegistrationSuccess",
        descriptor: "(Lorg/apache/flink/runtime/taskexecutor/TaskExecutorToResourceManagerConnection;\
                     Lorg/apache/flink/runtime/taskexecutor/TaskExecutorRegistrationSuccess;)V",
        meaning: Meaning::Reachable,
        role: Role::TaskManager,
        in_every_version: true,
    },
    // Flink 1.9 to 1.11.
    job_listener("org/apache/flink/runtime/resourcemanager/JobLeaderIdService$JobLeaderIdListener", Role::JobManager),
    // Flink 1.12 and later.
    job_listener(
        "org/apache/flink/runtime/resourcemanager/DefaultJobLeaderIdService$JobLeaderIdListener",
        Role::JobManager,
    ),
    resource_manager_listener(
        "org/apache/flink/runtime/jobmaster/JobMaster$ResourceManagerLeaderListener",
        Role::JobManager,
    ),
];

const RESOURCE_MANAGER_HEARTBEAT: &str =
    "org/apache/flink/runtime/taskexecutor/TaskExecutor$ResourceManagerHeartbeatListener";

const fn job_listener(class: &'static str, role: Role) -> Hook {
    listener(class, role, Meaning::JobLeader)
}

const fn resource_manager_listener(class: &'static str, role: Role) -> Hook {
    listener(class, role, Meaning::Leader(Component::ResourceManager))
}

const fn listener(class: &'static str, role: Role, meaning: Meaning) -> Hook {
    Hook { class, method: NOTIFY_LEADER_ADDRESS, descriptor: ADDRESS_AND_ID, meaning, role, in_every_version: true }
}

impl Hook {
    /// The call that is put into the method: `this`, and the address and id where there are any.
    pub fn splice(&self, number: u8) -> Splice<'static> {
        let arguments = match self.meaning {
            Meaning::JobLeader | Meaning::Leader(_) => [Argument::Local(0), Argument::Local(1), Argument::Local(2)],
            Meaning::Unreachable(_) | Meaning::Reachable => [Argument::Local(0), Argument::Null, Argument::Null],
        };
        Splice { method: self.method, descriptor: self.descriptor, hook: number, arguments }
    }
}

/// The hooks of a class, with their numbers, in a process of that role.
pub fn hooks_of<'a>(class: &'a [u8], role: Role) -> impl Iterator<Item = (u8, &'static Hook)> + 'a {
    (0..).zip(HOOKS).filter(move |(_, hook)| hook.role == role && hook.class.as_bytes() == class)
}

/// The classes that are hooked in a process of that role.
pub fn classes(role: Role) -> Vec<&'static str> {
    let mut classes: Vec<_> = HOOKS.iter().filter(|hook| hook.role == role).map(|hook| hook.class).collect();
    classes.dedup();
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hook_has_a_number_that_fits_and_finds_its_way_back() {
        assert!(HOOKS.len() <= 128);
        for (number, hook) in (0u8..).zip(HOOKS) {
            assert!(hooks_of(hook.class.as_bytes(), hook.role).any(|(found, _)| found == number), "{hook:?}");
            let other = if hook.role == Role::TaskManager { Role::JobManager } else { Role::TaskManager };
            assert_eq!(hooks_of(hook.class.as_bytes(), other).count(), 0, "{hook:?}");
        }
    }

    #[test]
    fn a_method_is_hooked_once() {
        for (number, hook) in HOOKS.iter().enumerate() {
            let same = |other: &&Hook| other.class == hook.class && other.method == hook.method;
            assert_eq!(HOOKS.iter().filter(same).count(), 1, "hook {number}");
        }
    }

    /// An argument passed must be a local that holds a reference at entry: `this`, or an argument of the descriptor.
    #[test]
    fn what_is_passed_is_a_reference_argument() {
        for hook in HOOKS {
            let references = 1 + hook.descriptor.matches(';').count();
            for argument in hook.splice(0).arguments {
                if let Argument::Local(local) = argument {
                    assert!(usize::from(local) < references, "{hook:?}");
                }
            }
        }
    }
}
