//! The table of what is hooked: which method of which class, in which kind of process, and what its call says.
//!
//! Names and shapes were read from the class files of Flink 1.9.3 to 2.3.0. A class is hooked when it is loaded, so a
//! name that another version of Flink uses costs nothing.

use std::ffi::CStr;

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
    /// Which classes of that name must have the method.
    pub needed: Needed,
}

/// Which classes of a hook's name must have its method: where one has not, that is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// All.
    Always,
    /// Those that implement [`LEADER_CONTENDER`]. Names of contenders are re-used: `JobManagerRunner` is an interface from
    /// Flink 1.10 on, `Dispatcher` no contender any more, `ResourceManager` none from 1.14 on.
    ByContenders,
    /// It, or that of another hook of the class.
    OrAnother,
    /// None: older versions of Flink have the class without the method, or with another one of that name.
    ByNewer,
}

/// What Flink's contenders for leadership implement, each by itself and not by a super class.
pub const LEADER_CONTENDER: &str = "org/apache/flink/runtime/leaderelection/LeaderContender";

/// What a call of a hooked method says.
#[derive(Debug, Clone, Copy)]
pub enum Meaning {
    /// `notifyLeaderAddress(address, id)`: who leads.
    Leader(Seat),
    /// `notifyLeaderAddress(address, id)` of a listener that serves several components: the address tells which one.
    LeaderByAddress,
    /// `grantLeadership(id)`: this process was elected.
    Granted(Seat),
    /// `revokeLeadership()`: this process was elected, and is no more.
    Revoked(Seat),
    /// Flink holds the ResourceManager for dead.
    Unreachable(Verdict),
    /// `onRegistrationSuccess`: the TaskManager has registered with the ResourceManager.
    Reachable,
    /// A method whose first arguments are a `JobID` and the job's name: what it is called.
    JobNamed,
}

/// Whose leader a call is about.
#[derive(Debug, Clone, Copy)]
pub enum Seat {
    /// A component of which the cluster has one.
    Cluster(Component),
    /// The JobMaster of the job whose `JobID` is found by following these fields from `this`.
    Job(&'static [FieldName]),
}

/// A field of a Java class.
#[derive(Debug, Clone, Copy)]
pub struct FieldName {
    /// Its name.
    pub name: &'static CStr,
    /// Its descriptor.
    pub descriptor: &'static CStr,
}

/// The longest way to a job id, in fields.
pub const LONGEST_WAY: usize = 2;

const JOB_ID: &[FieldName] = &[job_id(c"jobId")];
const JOB_GRAPH: &[FieldName] =
    &[FieldName { name: c"jobGraph", descriptor: c"Lorg/apache/flink/runtime/jobgraph/JobGraph;" }, job_id(c"jobID")];
const PROCESS_FACTORY: &[FieldName] = &[
    FieldName {
        name: c"jobMasterServiceProcessFactory",
        descriptor: c"Lorg/apache/flink/runtime/jobmaster/factories/JobMasterServiceProcessFactory;",
    },
    job_id(c"jobId"), // of DefaultJobMasterServiceProcessFactory
];

const fn job_id(name: &'static CStr) -> FieldName {
    FieldName { name, descriptor: c"Lorg/apache/flink/api/common/JobID;" }
}

const RESOURCE_MANAGER: Seat = Seat::Cluster(Component::ResourceManager);
const RESOURCE_MANAGER_HEARTBEAT: &str =
    "org/apache/flink/runtime/taskexecutor/TaskExecutor$ResourceManagerHeartbeatListener";
const TASK_MANAGER_METRICS: &str = "org/apache/flink/runtime/metrics/groups/TaskManagerMetricGroup";

/// Every hook. There may be at most 128: the number is passed by `bipush`. The hooks of a class stand together.
pub static HOOKS: &[Hook] = &[
    // Flink 1.9 and 1.10.
    leader(
        Role::TaskManager,
        "org/apache/flink/runtime/taskexecutor/JobLeaderService$JobManagerLeaderListener",
        Seat::Job(JOB_ID),
    ),
    // Flink 1.11 and later.
    leader(
        Role::TaskManager,
        "org/apache/flink/runtime/taskexecutor/DefaultJobLeaderService$JobManagerLeaderListener",
        Seat::Job(JOB_ID),
    ),
    leader(
        Role::TaskManager,
        "org/apache/flink/runtime/taskexecutor/TaskExecutor$ResourceManagerLeaderListener",
        RESOURCE_MANAGER,
    ),
    unreachable(RESOURCE_MANAGER_HEARTBEAT, "notifyHeartbeatTimeout", Verdict::HeartbeatTimeout),
    // Since Flink 1.14.
    Hook {
        needed: Needed::ByNewer,
        ..unreachable(RESOURCE_MANAGER_HEARTBEAT, "notifyTargetUnreachable", Verdict::TargetUnreachable)
    },
    Hook {
        class: "org/apache/flink/runtime/taskexecutor/TaskExecutor$ResourceManagerRegistrationListener",
        method: "onRegistrationSuccess",
        descriptor: "(Lorg/apache/flink/runtime/taskexecutor/TaskExecutorToResourceManagerConnection;\
                     Lorg/apache/flink/runtime/taskexecutor/TaskExecutorRegistrationSuccess;)V",
        meaning: Meaning::Reachable,
        role: Role::TaskManager,
        needed: Needed::Always,
    },
    // With each task, up to Flink 1.14, then 1.15 and later.
    named(
        Role::TaskManager,
        TASK_MANAGER_METRICS,
        "addTaskForJob",
        "(Lorg/apache/flink/api/common/JobID;Ljava/lang/String;Lorg/apache/flink/runtime/jobgraph/JobVertexID;\
         Lorg/apache/flink/runtime/executiongraph/ExecutionAttemptID;Ljava/lang/String;II)\
         Lorg/apache/flink/runtime/metrics/groups/TaskMetricGroup;",
    ),
    named(
        Role::TaskManager,
        TASK_MANAGER_METRICS,
        "addJob",
        "(Lorg/apache/flink/api/common/JobID;Ljava/lang/String;)\
         Lorg/apache/flink/runtime/metrics/groups/TaskManagerJobMetricGroup;",
    ),
    // Since Flink 1.14, with each job that this JobManager runs.
    Hook {
        needed: Needed::ByNewer,
        ..named(
            Role::JobManager,
            "org/apache/flink/runtime/metrics/groups/JobManagerMetricGroup",
            "addJob",
            "(Lorg/apache/flink/api/common/JobID;Ljava/lang/String;)\
             Lorg/apache/flink/runtime/metrics/groups/JobManagerJobMetricGroup;",
        )
    },
    // Flink 1.9 to 1.11.
    leader(
        Role::JobManager,
        "org/apache/flink/runtime/resourcemanager/JobLeaderIdService$JobLeaderIdListener",
        Seat::Job(JOB_ID),
    ),
    // Flink 1.12 and later.
    leader(
        Role::JobManager,
        "org/apache/flink/runtime/resourcemanager/DefaultJobLeaderIdService$JobLeaderIdListener",
        Seat::Job(JOB_ID),
    ),
    leader(
        Role::JobManager,
        "org/apache/flink/runtime/jobmaster/JobMaster$ResourceManagerLeaderListener",
        RESOURCE_MANAGER,
    ),
    // One object each for Dispatcher and ResourceManager, in every JobManager, so in a standby too.
    listener(
        Role::JobManager,
        "org/apache/flink/runtime/webmonitor/retriever/LeaderRetriever",
        Meaning::LeaderByAddress,
    ),
    // Contenders for leadership. JobMaster: Flink 1.9, then 1.10 to 1.12, then 1.13 and later.
    granted("org/apache/flink/runtime/jobmaster/JobManagerRunner", Seat::Job(JOB_GRAPH)),
    revoked("org/apache/flink/runtime/jobmaster/JobManagerRunner", Seat::Job(JOB_GRAPH)),
    granted("org/apache/flink/runtime/jobmaster/JobManagerRunnerImpl", Seat::Job(JOB_GRAPH)),
    revoked("org/apache/flink/runtime/jobmaster/JobManagerRunnerImpl", Seat::Job(JOB_GRAPH)),
    granted("org/apache/flink/runtime/jobmaster/JobMasterServiceLeadershipRunner", Seat::Job(PROCESS_FACTORY)),
    revoked("org/apache/flink/runtime/jobmaster/JobMasterServiceLeadershipRunner", Seat::Job(PROCESS_FACTORY)),
    // Dispatcher: Flink 1.9, then 1.10 and later.
    granted("org/apache/flink/runtime/dispatcher/Dispatcher", Seat::Cluster(Component::Dispatcher)),
    revoked("org/apache/flink/runtime/dispatcher/Dispatcher", Seat::Cluster(Component::Dispatcher)),
    granted("org/apache/flink/runtime/dispatcher/runner/DefaultDispatcherRunner", Seat::Cluster(Component::Dispatcher)),
    revoked("org/apache/flink/runtime/dispatcher/runner/DefaultDispatcherRunner", Seat::Cluster(Component::Dispatcher)),
    // ResourceManager: Flink 1.9 to 1.13, then 1.14 and later.
    granted("org/apache/flink/runtime/resourcemanager/ResourceManager", RESOURCE_MANAGER),
    revoked("org/apache/flink/runtime/resourcemanager/ResourceManager", RESOURCE_MANAGER),
    granted("org/apache/flink/runtime/resourcemanager/ResourceManagerServiceImpl", RESOURCE_MANAGER),
    revoked("org/apache/flink/runtime/resourcemanager/ResourceManagerServiceImpl", RESOURCE_MANAGER),
    granted("org/apache/flink/runtime/webmonitor/WebMonitorEndpoint", Seat::Cluster(Component::RestServer)),
    revoked("org/apache/flink/runtime/webmonitor/WebMonitorEndpoint", Seat::Cluster(Component::RestServer)),
];

const fn leader(role: Role, class: &'static str, seat: Seat) -> Hook {
    listener(role, class, Meaning::Leader(seat))
}

const fn listener(role: Role, class: &'static str, meaning: Meaning) -> Hook {
    Hook {
        class,
        method: "notifyLeaderAddress",
        descriptor: "(Ljava/lang/String;Ljava/util/UUID;)V",
        meaning,
        role,
        needed: Needed::Always,
    }
}

const fn unreachable(class: &'static str, method: &'static str, verdict: Verdict) -> Hook {
    Hook {
        class,
        method,
        descriptor: "(Lorg/apache/flink/runtime/clusterframework/types/ResourceID;)V",
        meaning: Meaning::Unreachable(verdict),
        role: Role::TaskManager,
        needed: Needed::Always,
    }
}

const fn named(role: Role, class: &'static str, method: &'static str, descriptor: &'static str) -> Hook {
    Hook { class, method, descriptor, meaning: Meaning::JobNamed, role, needed: Needed::OrAnother }
}

const fn granted(class: &'static str, seat: Seat) -> Hook {
    Hook {
        class,
        method: "grantLeadership",
        descriptor: "(Ljava/util/UUID;)V",
        meaning: Meaning::Granted(seat),
        role: Role::JobManager,
        needed: Needed::ByContenders,
    }
}

const fn revoked(class: &'static str, seat: Seat) -> Hook {
    Hook { method: "revokeLeadership", descriptor: "()V", meaning: Meaning::Revoked(seat), ..granted(class, seat) }
}

/// The component that an address names: by the last segment of an RPC address (`/user/rpc/dispatcher_1` and, to Flink
/// 1.10, `/user/dispatcher`), or, where it is an HTTP address, the REST server. None where it names another endpoint.
pub fn component_of(address: &str) -> Option<Component> {
    let (scheme, rest) = address.split_once("://")?;
    if matches!(scheme, "http" | "https") {
        return Some(Component::RestServer);
    }
    let (_authority, path) = rest.split_once('/')?;
    let endpoint = path.rsplit('/').next()?;
    [("dispatcher", Component::Dispatcher), ("resourcemanager", Component::ResourceManager)]
        .into_iter()
        .find_map(|(name, component)| endpoint.starts_with(name).then_some(component))
}

impl Hook {
    /// The call that is put into the method. It passes `this` or a job's id, then a session id, then a text, where there are
    /// any.
    pub fn splice(&self, number: u8) -> Splice<'static> {
        use Argument::{Local, Null};
        let arguments = match self.meaning {
            Meaning::Leader(_) | Meaning::LeaderByAddress => [Local(0), Local(2), Local(1)],
            Meaning::Granted(_) => [Local(0), Local(1), Null],
            Meaning::JobNamed => [Local(1), Null, Local(2)],
            Meaning::Revoked(_) | Meaning::Unreachable(_) | Meaning::Reachable => [Local(0), Null, Null],
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
    fn an_address_names_its_component() {
        let named = [
            ("pekko.tcp://flink@jm-0:6123/user/rpc/dispatcher_1", Some(Component::Dispatcher)),
            ("akka.ssl.tcp://flink@[::1]:6123/user/rpc/resourcemanager_0", Some(Component::ResourceManager)),
            ("akka.tcp://flink@jm-0:6123/user/dispatcher", Some(Component::Dispatcher)),
            ("akka.tcp://flink@jm-0:6123/user/resourcemanager", Some(Component::ResourceManager)),
            ("http://jm-0:8081", Some(Component::RestServer)),
            ("https://dispatcher:8081/", Some(Component::RestServer)),
            ("akka.tcp://flink@jm-0:6123/user/rpc/jobmanager_2", None),
            ("akka.tcp://flink@jm-0:6123/dispatcher/other", None),
            ("akka.tcp://dispatcher", None),
            ("akka.tcp://flink@jm-0:6123/", None),
            ("akka://flink/user/rpc/dispatcher_1", Some(Component::Dispatcher)),
            ("dispatcher", None),
            ("", None),
        ];
        for (address, component) in named {
            assert_eq!(component_of(address), component, "{address}");
        }
    }

    #[test]
    fn no_way_to_a_job_is_too_long() {
        for hook in HOOKS {
            if let Meaning::Leader(Seat::Job(way))
            | Meaning::Granted(Seat::Job(way))
            | Meaning::Revoked(Seat::Job(way)) = hook.meaning
            {
                assert!((1..=LONGEST_WAY).contains(&way.len()), "{hook:?}");
            }
        }
    }

    #[test]
    fn the_hooks_of_a_class_stand_together() {
        for role in [Role::TaskManager, Role::JobManager] {
            let classes = classes(role);
            let mut unique = classes.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), classes.len());
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
