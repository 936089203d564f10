//! What Flink's own configuration tells: cluster, namespace, high availability.
//!
//! Read as Flink reads it: the file in the configuration folder, then the program arguments `-Dkey=value` over it.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::flink_edit::ConfFormat;
use super::flink_version::flink_version;
use super::problem::{Effect, Fault, Place, Problem, Weight};
use super::yaml::{Flat, parse_legacy, parse_standard};
use crate::process::JvmFacts;

/// File with the namespace of a pod's service account.
/// Source: <https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/>.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// What a key was called in older versions of Flink (`withDeprecatedKeys` of `HighAvailabilityOptions`).
const OLD_NAMES: [(&str, &[&str]); 5] = [
    ("high-availability.type", &["high-availability", "recovery.mode"]),
    (
        "high-availability.cluster-id",
        &["high-availability.zookeeper.path.namespace", "recovery.zookeeper.path.namespace"],
    ),
    ("high-availability.storageDir", &["high-availability.zookeeper.storageDir", "recovery.zookeeper.storageDir"]),
    ("high-availability.zookeeper.quorum", &["recovery.zookeeper.quorum"]),
    ("high-availability.zookeeper.path.root", &["recovery.zookeeper.path.root"]),
];

/// How Flink finds its leaders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HighAvailability {
    /// One leader for good, at a fixed address.
    None,
    /// Through ZooKeeper.
    ZooKeeper,
    /// Through the Kubernetes API.
    Kubernetes,
    /// Through a factory class of somebody else.
    Other(String),
}

/// Flink's configuration, as far as it could be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlinkConf {
    values: Flat,
    /// The file that was read.
    pub file: Option<PathBuf>,
}

impl FlinkConf {
    /// Finds and reads the configuration of the Flink process whose JVM the facts are of. That there is none is no
    /// problem; that one cannot be read is.
    pub fn discover(facts: &JvmFacts, env: &dyn Environment) -> (FlinkConf, Vec<Problem>) {
        let arguments = Arguments::of_command(&facts.command);
        let version = facts.class_path.as_deref().and_then(flink_version);
        let mut problems = Vec::new();
        let mut conf = FlinkConf::default();
        for folder in folders(&arguments, &facts.command, env) {
            match FlinkConf::read_folder(&folder, version.as_deref(), env) {
                Ok(Some(found)) => {
                    conf = found;
                    break;
                }
                Ok(None) => {}
                Err(problem) => problems.push(*problem),
            }
        }
        conf.values.extend(arguments.properties);
        (conf, problems)
    }

    /// Reads the file of a configuration folder that this version of Flink reads. None where the folder has none.
    pub fn read_folder(
        folder: &Path,
        version: Option<&str>,
        env: &dyn Environment,
    ) -> Result<Option<FlinkConf>, Box<Problem>> {
        type Parser = fn(&str) -> Flat;
        // Of an unknown version either may be read.
        for (format, name) in ConfFormat::candidates(version.unwrap_or("1.20")) {
            let parse: Parser = match format {
                ConfFormat::Legacy => parse_legacy,
                ConfFormat::Standard => parse_standard,
            };
            let file = folder.join(name);
            match env.read(&file) {
                Ok(text) => return Ok(Some(FlinkConf { values: parse(&text), file: Some(file) })),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Box::new(unreadable(file, &error))),
            }
        }
        Ok(None)
    }

    /// Keys and values that came from elsewhere than a file.
    #[cfg(test)]
    pub(crate) fn of_values(values: Flat) -> Self {
        Self { values, file: None }
    }

    /// The value of a key by its newest name, also where it is written under an older one.
    pub fn get(&self, key: &str) -> Option<&str> {
        let old = OLD_NAMES.iter().find(|(name, _)| *name == key).map_or(&[][..], |(_, old)| *old);
        std::iter::once(&key).chain(old).find_map(|name| self.values.get(*name)).map(String::as_str)
    }

    /// All keys and values, for reports that mask what they show.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Flink's name for the cluster, without the slashes that Flink ignores.
    pub fn cluster_id(&self) -> Option<String> {
        let ids = [self.get("high-availability.cluster-id"), self.get("kubernetes.cluster-id")];
        ids.into_iter().flatten().map(|id| id.trim_matches('/')).find(|id| !id.is_empty()).map(str::to_owned)
    }

    /// How Flink finds its leaders.
    pub fn high_availability(&self) -> HighAvailability {
        let written = self.get("high-availability.type").unwrap_or("NONE");
        match written.to_ascii_lowercase().as_str() {
            // `HighAvailabilityMode.fromConfig`: names in any case; `standalone` stood for none before 1.2.
            "none" | "standalone" => HighAvailability::None,
            "zookeeper" => HighAvailability::ZooKeeper,
            "kubernetes" => HighAvailability::Kubernetes,
            _ if written.ends_with(".KubernetesHaServicesFactory") => HighAvailability::Kubernetes,
            _ if written.ends_with(".ZooKeeperHaServicesFactory") => HighAvailability::ZooKeeper,
            _ => HighAvailability::Other(written.to_owned()),
        }
    }

    /// Servers of ZooKeeper, `host:port` joined by `,`.
    pub fn zookeeper_quorum(&self) -> Option<&str> {
        self.get("high-availability.zookeeper.quorum")
    }

    /// Root node of Flink's in ZooKeeper. Flink deletes below it recursively: keep nothing there.
    pub fn zookeeper_root(&self) -> &str {
        self.get("high-availability.zookeeper.path.root").unwrap_or("/flink")
    }

    /// Folder of the metadata of high availability, a URI.
    pub fn storage_dir(&self) -> Option<&str> {
        self.get("high-availability.storageDir")
    }
}

/// The namespace that a pod's service account is of.
pub fn pod_namespace(env: &dyn Environment) -> Option<String> {
    let text = env.read(Path::new(NAMESPACE_FILE)).ok()?;
    let name = text.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

fn unreadable(path: PathBuf, error: &std::io::Error) -> Problem {
    Problem {
        fault: Fault::unreadable(&path, error),
        place: Place::File { path, line: None },
        key: String::new(),
        effect: Effect::FileIgnored,
        weight: Weight::Error,
    }
}

/// Where the configuration may be, most certain first. On YARN it lies in the container's working folder.
fn folders(arguments: &Arguments, command: &str, env: &dyn Environment) -> Vec<PathBuf> {
    if let Some(folder) = &arguments.config_dir {
        return vec![PathBuf::from(folder)];
    }
    let mut folders: Vec<PathBuf> = env.var("FLINK_CONF_DIR").map(PathBuf::from).into_iter().collect();
    if command.starts_with("org.apache.flink.yarn.") {
        folders.extend(env.var("PWD").map(PathBuf::from));
    }
    folders
}

/// Program arguments of Flink's that matter here. `sun.java.command` joins arguments by blanks, so that one with a
/// blank inside is cut; none that matters has any.
#[derive(Debug, Default, PartialEq, Eq)]
struct Arguments {
    config_dir: Option<String>,
    properties: Flat,
}

impl Arguments {
    fn of_command(command: &str) -> Self {
        let mut arguments = Arguments::default();
        let mut words = command.split_whitespace().skip(1);
        while let Some(word) = words.next() {
            match word {
                "--configDir" | "-c" => arguments.set_config_dir(words.next()),
                "-D" => arguments.set_property(words.next().unwrap_or_default()),
                _ => {
                    if let Some(folder) = word.strip_prefix("--configDir=") {
                        arguments.set_config_dir(Some(folder));
                    } else if let Some(property) = word.strip_prefix("-D") {
                        arguments.set_property(property);
                    }
                }
            }
        }
        arguments
    }

    /// The first one is Flink's; later ones may be the user program's.
    fn set_config_dir(&mut self, folder: Option<&str>) {
        if self.config_dir.is_none() {
            self.config_dir = folder.map(str::to_owned);
        }
    }

    fn set_property(&mut self, property: &str) {
        if let Some((key, value)) = property.split_once('=') {
            self.properties.insert(key.to_owned(), value.to_owned());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::environment::FakeEnvironment;
    use super::*;

    fn facts(command: &str, class_path: &str) -> JvmFacts {
        JvmFacts { command: command.to_owned(), class_path: Some(class_path.to_owned()), ..JvmFacts::default() }
    }

    const TASK_MANAGER: &str = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner";

    #[test]
    fn arguments_win_over_the_file_of_their_folder() {
        let env = FakeEnvironment::default()
            .with_file("/conf/flink-conf.yaml", "high-availability: zookeeper\nhigh-availability.cluster-id: /a\n")
            .with_file("/other/flink-conf.yaml", "high-availability.cluster-id: /other\n")
            .with_var("FLINK_CONF_DIR", "/other");
        let command =
            format!("{TASK_MANAGER} --configDir /conf -Dx=y -D high-availability.cluster-id=/b --job -c /not");
        let (conf, problems) = FlinkConf::discover(&facts(&command, "flink-dist_2.11-1.14.6.jar"), &env);
        assert_eq!(problems, []);
        assert_eq!(conf.cluster_id().as_deref(), Some("b"));
        assert_eq!(conf.get("x"), Some("y"));
        assert_eq!(conf.high_availability(), HighAvailability::ZooKeeper);
        assert_eq!(conf.zookeeper_root(), "/flink");
        assert_eq!(conf.file, Some(PathBuf::from("/conf/flink-conf.yaml")));
    }

    #[test]
    fn the_environment_names_the_folder_where_no_argument_does() {
        let env = FakeEnvironment::default().with_var("FLINK_CONF_DIR", "/opt/flink/conf").with_file(
            "/opt/flink/conf/config.yaml",
            "kubernetes:\n  cluster-id: orders\nhigh-availability:\n  type: kubernetes\n",
        );
        let (conf, _) = FlinkConf::discover(&facts(TASK_MANAGER, ""), &env);
        assert_eq!(conf.cluster_id().as_deref(), Some("orders"));
        assert_eq!(conf.high_availability(), HighAvailability::Kubernetes);
    }

    #[test]
    fn on_yarn_the_working_folder_counts() {
        let env = FakeEnvironment::default()
            .with_var("PWD", "/container")
            .with_file("/container/flink-conf.yaml", "high-availability.cluster-id: application_1_2\n");
        let (conf, _) = FlinkConf::discover(&facts("org.apache.flink.yarn.YarnTaskExecutorRunner", ""), &env);
        assert_eq!(conf.cluster_id().as_deref(), Some("application_1_2"));
        let (conf, _) = FlinkConf::discover(&facts(TASK_MANAGER, ""), &env);
        assert_eq!(conf.cluster_id(), None);
    }

    #[test]
    fn from_2_0_the_old_file_does_not_count() {
        let env = FakeEnvironment::default()
            .with_file("/c/flink-conf.yaml", "high-availability.cluster-id: old\n")
            .with_file("/c/config.yaml", "high-availability.cluster-id: new\n");
        let read =
            |version| FlinkConf::read_folder(Path::new("/c"), version, &env).unwrap().unwrap().cluster_id().unwrap();
        assert_eq!(read(Some("1.20.0")), "old");
        assert_eq!(read(Some("2.3.0")), "new");
        assert_eq!(read(None), "old");
    }

    #[test]
    fn high_availability_is_known_by_every_name_it_had() {
        let kind = |line: &str| FlinkConf::of_values(parse_legacy(line)).high_availability();
        assert_eq!(kind(""), HighAvailability::None);
        assert_eq!(kind("high-availability: NONE"), HighAvailability::None);
        assert_eq!(kind("high-availability.type: ZooKeeper"), HighAvailability::ZooKeeper);
        assert_eq!(kind("recovery.mode: zookeeper"), HighAvailability::ZooKeeper);
        assert_eq!(
            kind("high-availability: org.apache.flink.kubernetes.highavailability.KubernetesHaServicesFactory"),
            HighAvailability::Kubernetes
        );
        assert_eq!(kind("high-availability: com.example.F"), HighAvailability::Other("com.example.F".to_owned()));
    }

    #[test]
    fn a_namespace_comes_from_the_service_account() {
        assert_eq!(pod_namespace(&FakeEnvironment::default()), None);
        let env = FakeEnvironment::default().with_file(NAMESPACE_FILE, "flink\n");
        assert_eq!(pod_namespace(&env).as_deref(), Some("flink"));
    }
}
