//! Which store the agents of a cluster use: as the configuration says, or what Flink's own high availability offers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file::FileStore;
use super::kubernetes::KubernetesStore;
use super::store::Store;
use super::zookeeper::ZooKeeperStore;
use crate::config::{ClaimStore, Environment, FlinkConf, HighAvailability, host_and_port, safe_name};
use crate::target::resolver::Resolver;

/// Our folder beside Flink's own in the storage of its high availability.
const FOLDER: &str = "leaderwatch";
/// Our own root in ZooKeeper, beside Flink's.
const ZOOKEEPER_ROOT: &str = "/leaderwatch";
/// ZooKeeper's client port where none is given.
const ZOOKEEPER_PORT: u16 = 2181;

/// A store, or why there is none.
#[derive(Clone)]
pub enum Choice {
    /// Claims are kept here.
    Store(Arc<dyn Store>),
    /// Every agent sends, as it was asked to.
    Nothing,
    /// Every agent sends, for this reason.
    Impossible(String),
}

/// What names the cluster in a store; distinct for distinct clusters, whatever characters their names hold.
fn scope(namespace: Option<&str>, cluster: &str) -> String {
    let cluster = safe_name(cluster);
    match namespace.filter(|namespace| !namespace.is_empty()) {
        Some(namespace) => format!("{}.{cluster}", safe_name(namespace)),
        None => cluster,
    }
}

/// What the choice depends on besides the setting itself.
pub struct Surroundings<'a> {
    /// What Flink's own configuration tells.
    pub flink: &'a FlinkConf,
    /// Kubernetes namespace, where there is one.
    pub namespace: Option<&'a str>,
    /// Name of the Flink cluster.
    pub cluster: &'a str,
    /// Environment variables.
    pub env: &'a dyn Environment,
    /// Looks the store's servers up.
    pub resolver: Resolver,
}

/// Chooses the store. Connects to nothing.
pub fn choose(wanted: &ClaimStore, around: &Surroundings<'_>) -> Choice {
    let scope = scope(around.namespace, around.cluster);
    match wanted {
        ClaimStore::Auto => automatic(&scope, around),
        ClaimStore::None => Choice::Nothing,
        ClaimStore::File { folder } => file(folder, &scope),
        ClaimStore::ZooKeeper { quorum, path } => zookeeper(quorum, path, &scope, around),
        ClaimStore::Kubernetes { namespace } => kubernetes(namespace, &scope, around),
    }
}

fn automatic(scope: &str, around: &Surroundings<'_>) -> Choice {
    match around.flink.high_availability() {
        // Without it there is one leader for good, and nothing to claim.
        HighAvailability::None => Choice::Nothing,
        HighAvailability::ZooKeeper => match around.flink.zookeeper_quorum() {
            Some(quorum) => zookeeper(quorum, ZOOKEEPER_ROOT, scope, around),
            None => Choice::Impossible("`high-availability.zookeeper.quorum` is not set".to_owned()),
        },
        HighAvailability::Kubernetes => {
            let namespace = around.flink.get("kubernetes.namespace").or(around.namespace).unwrap_or("default");
            kubernetes(namespace, scope, around)
        }
        HighAvailability::Other(_) => match storage_folder(around.flink) {
            Some(folder) => file(&folder, scope),
            None => Choice::Impossible("Flink's high availability is of a kind that is not known".to_owned()),
        },
    }
}

/// A quorum may end in a path, below which ZooKeeper's clients keep everything.
fn zookeeper(quorum: &str, root: &str, scope: &str, around: &Surroundings<'_>) -> Choice {
    let (servers, chroot) = quorum.split_once('/').unwrap_or((quorum, ""));
    let parsed: Option<Vec<(String, u16)>> =
        servers.split(',').map(|server| host_and_port(server.trim(), ZOOKEEPER_PORT)).collect();
    let Some(servers) = parsed.filter(|servers| !servers.is_empty()) else {
        return Choice::Impossible(format!("`{quorum}` names no servers of ZooKeeper"));
    };
    let chroot = chroot.trim_end_matches('/');
    let chroot = if chroot.is_empty() { String::new() } else { format!("/{chroot}") };
    let root = format!("{chroot}{}/{scope}", root.trim_end_matches('/'));
    Choice::Store(Arc::new(ZooKeeperStore::new(servers, &root, around.resolver.clone())))
}

fn kubernetes(namespace: &str, scope: &str, around: &Surroundings<'_>) -> Choice {
    match KubernetesStore::in_cluster(namespace, scope, around.resolver.clone(), around.env) {
        Ok(store) => Choice::Store(Arc::new(store)),
        Err(reason) => Choice::Impossible(reason),
    }
}

fn file(folder: &Path, scope: &str) -> Choice {
    Choice::Store(Arc::new(FileStore::new(folder.join(scope))))
}

/// A folder beside the one that Flink gives each cluster in its storage, where that is a file system. Flink deletes its
/// own with the cluster.
fn storage_folder(flink: &FlinkConf) -> Option<PathBuf> {
    let storage = flink.storage_dir()?.trim_end_matches('/');
    // `file:/x` and `file:///x`; a host in between is none of ours.
    let path = storage.strip_prefix("file:")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    if !path.starts_with('/') {
        return None;
    }
    let taken = flink.cluster_id().is_some_and(|id| id.split('/').next() == Some(FOLDER));
    Some(Path::new(path).join(if taken { ".leaderwatch" } else { FOLDER }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::FakeEnvironment;

    fn chosen(wanted: &ClaimStore, flink: &[(&str, &str)], env: &FakeEnvironment) -> String {
        let flink = FlinkConf::of_values(flink.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
        let (namespace, cluster, resolver) = (Some("flink"), "orders", Resolver::default());
        match choose(wanted, &Surroundings { flink: &flink, namespace, cluster, env, resolver }) {
            Choice::Store(store) => store.describe(),
            Choice::Nothing => "nothing".to_owned(),
            Choice::Impossible(reason) => format!("impossible: {reason}"),
        }
    }

    #[test]
    fn auto_takes_what_flinks_high_availability_offers() {
        let nowhere = FakeEnvironment::default();
        let pod =
            nowhere.clone().with_var("KUBERNETES_SERVICE_HOST", "fd00::1").with_var("KUBERNETES_SERVICE_PORT", "443");
        let auto = |flink: &[(&str, &str)], env| chosen(&ClaimStore::Auto, flink, env);
        assert_eq!(auto(&[], &nowhere), "nothing");
        let zookeeper =
            [("high-availability.type", "zookeeper"), ("high-availability.zookeeper.quorum", "zk1,zk2:99/x")];
        assert_eq!(auto(&zookeeper, &nowhere), "zookeeper://zk1:2181,zk2:99/x/leaderwatch/flink.orders");
        assert!(auto(&zookeeper[..1], &nowhere).starts_with("impossible: "));
        let kubernetes = [("high-availability", "kubernetes"), ("kubernetes.namespace", "prod")];
        assert_eq!(auto(&kubernetes, &pod), "kubernetes://prod");
        assert_eq!(auto(&kubernetes[..1], &pod), "kubernetes://flink");
        assert!(auto(&kubernetes, &nowhere).contains("this is no pod"));
    }

    #[test]
    fn files_stand_beside_flinks_own_and_never_in_them() {
        let auto = |storage: &str, id: &str| {
            let flink = [
                ("high-availability.type", "com.example.Factory"),
                ("high-availability.storageDir", storage),
                ("high-availability.cluster-id", id),
            ];
            chosen(&ClaimStore::Auto, &flink, &FakeEnvironment::default())
        };
        assert_eq!(auto("file:///ha/", "/orders"), "file:///ha/leaderwatch/flink.orders");
        assert_eq!(auto("file:/ha", "leaderwatch"), "file:///ha/.leaderwatch/flink.orders");
        assert!(auto("s3://bucket/ha", "orders").starts_with("impossible: "));
        assert!(auto("file://host/ha", "orders").starts_with("impossible: "));
    }

    #[test]
    fn what_the_user_names_is_taken() {
        let none = FakeEnvironment::default();
        assert_eq!(chosen(&ClaimStore::None, &[], &none), "nothing");
        let folder = ClaimStore::File { folder: "/shared".into() };
        assert_eq!(chosen(&folder, &[], &none), "file:///shared/flink.orders");
        let zookeeper = ClaimStore::ZooKeeper { quorum: "[::1]:2181".into(), path: "/lw".into() };
        assert_eq!(chosen(&zookeeper, &[], &none), "zookeeper://::1:2181/lw/flink.orders");
    }
}
