//! What is known of the process that the agent runs in.

use serde::{Deserialize, Serialize};

/// What a Flink server process is, told by its main class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Runs Dispatcher, ResourceManager and JobMasters.
    JobManager,
    /// Runs tasks; listens for leaders.
    TaskManager,
}

impl Role {
    /// The role of a JVM started with the given `sun.java.command` (main class and its arguments), or none where it is
    /// not a Flink server process: `bin/flink`, BashJavaUtils, the history server and any other program.
    pub fn of_command(sun_java_command: &str) -> Option<Role> {
        let main_class = sun_java_command.split_whitespace().next()?;
        let simple_name = main_class.rsplit('.').next()?;
        if !main_class.starts_with("org.apache.flink.") {
            return None;
        }
        match simple_name {
            "TaskManagerRunner"
            | "KubernetesTaskExecutorRunner"
            | "YarnTaskExecutorRunner"
            | "MesosTaskExecutorRunner" => Some(Role::TaskManager),
            _ if simple_name.ends_with("ClusterEntrypoint") || simple_name.ends_with("ClusterEntryPoint") => {
                Some(Role::JobManager)
            }
            _ => None,
        }
    }
}

/// What the JVM boundary reads from the JVM once, at its start, and hands over.
#[derive(Debug, Clone, Default)]
pub struct JvmFacts {
    /// System property `sun.java.command`: main class and program arguments, blank-separated.
    pub command: String,
    /// System property `java.version`.
    pub java_version: Option<String>,
    /// System property `java.class.path`.
    pub class_path: Option<String>,
    /// System property `log.file`: Flink's own log.
    pub log_file: Option<String>,
    /// System property `java.io.tmpdir`.
    pub tmpdir: Option<String>,
}

/// Who saw the election: the `observer` of an alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observer {
    /// Host name.
    pub host: String,
    /// Process id, as seen inside its container.
    pub pid: u32,
    /// Name of the Kubernetes pod, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pod: Option<String>,
    /// What the process is.
    pub role: Role,
    /// Flink's version, where it could be told.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flink_version: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_processes_have_a_role_and_all_others_none() {
        let role = Role::of_command;
        assert_eq!(
            role("org.apache.flink.runtime.taskexecutor.TaskManagerRunner --configDir c"),
            Some(Role::TaskManager)
        );
        assert_eq!(
            role("org.apache.flink.kubernetes.taskmanager.KubernetesTaskExecutorRunner"),
            Some(Role::TaskManager)
        );
        assert_eq!(role("org.apache.flink.yarn.YarnTaskExecutorRunner"), Some(Role::TaskManager));
        assert_eq!(
            role("org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint -D a=b"),
            Some(Role::JobManager)
        );
        assert_eq!(
            role("org.apache.flink.container.entrypoint.StandaloneApplicationClusterEntryPoint"),
            Some(Role::JobManager)
        );
        assert_eq!(role("org.apache.flink.client.cli.CliFrontend run"), None);
        assert_eq!(role("org.apache.flink.runtime.util.bash.BashJavaUtils"), None);
        assert_eq!(role("org.apache.flink.runtime.webmonitor.history.HistoryServer"), None);
        assert_eq!(role("com.example.TaskManagerRunner"), None);
        assert_eq!(role(""), None);
    }
}
