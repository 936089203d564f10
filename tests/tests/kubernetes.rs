//! High availability by Kubernetes: leaders and claims are kept in ConfigMaps of a real API server, and the agent's account
//! has just the rights that the documents ask for.
//!
//! `scripts/test --kubernetes` runs these; they need root, and a kube-apiserver from `scripts/kubernetes`.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use leaderwatch_agent::claim::{KubernetesStore, Store, StoreError, Written};
use leaderwatch_agent::target::resolver::Resolver;
use leaderwatch_agent::target::secret::SecretUrl;
use leaderwatch_tests::alert_log::{self, Record};
use leaderwatch_tests::cluster::{Builder, Cluster, Timeouts};
use leaderwatch_tests::installation::Installation;
use leaderwatch_tests::kubernetes::{Kubernetes, NAMESPACE, rights_of, rights_path};
use leaderwatch_tests::oracle;
use leaderwatch_tests::watched::{LIMIT, alert_tells, joined_later, log_tells};
use leaderwatch_tests::webhook::WebhookReceiver;
use leaderwatch_tests::{agent, wait};
use serde_json::Value;

/// The outages themselves; nothing is proven by their length.
const API_FROZEN: Duration = Duration::from_secs(10);
const LEADER_FROZEN: Duration = Duration::from_secs(8);

/// What the agents do beside the defaults.
const CONFIGURATION: &str = r#"
[alert]
no_leader_after = "5s"

[[target]]
name = "hook"
kind = "webhook"
classes = ["failover", "no_leader"]
url = "URL"

[[target]]
name = "events"
kind = "kubernetes_event"
classes = ["failover"]
"#;

/// A cluster on Kubernetes, and what its agents tell.
struct Pods {
    kubernetes: Kubernetes,
    cluster: Cluster,
    webhook: WebhookReceiver,
    /// What the documents ask for.
    rights: BTreeSet<String>,
    // Holds the agents' configuration.
    _folder: tempfile::TempDir,
}

impl Pods {
    /// Starts a cluster that `describe` makes of the plain one and the agent's JVM option.
    fn start(version: &str, describe: impl FnOnce(Builder, &str) -> Builder) -> Self {
        let kubernetes = Kubernetes::start().unwrap();
        let mut rights = kubernetes.allow_as_in("deploying.md").unwrap();
        rights.extend(kubernetes.allow_as_in("targets/kubernetes_event.md").unwrap());
        let webhook = WebhookReceiver::start().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("leaderwatch.toml");
        std::fs::write(&file, CONFIGURATION.replace("URL", &webhook.url())).unwrap();
        let option = agent::java_option(&agent::library().unwrap(), &[("config", file.to_str().unwrap())]);
        let installation = Installation::fetch(version).unwrap();
        let builder = Cluster::builder(&installation).kubernetes(&kubernetes).unwrap();
        let cluster = describe(builder, &option).start().unwrap();
        Self { kubernetes, cluster, webhook, rights, _folder: folder }
    }

    /// Waits for `count` failover alerts of the webhook, and returns all of them.
    fn wait_for_failovers(&self, count: usize) -> Vec<Value> {
        wait::until(&format!("{count} failover alerts"), LIMIT, || {
            let failovers = self.of_class("failover");
            Ok((failovers.len() >= count).then_some(failovers))
        })
        .unwrap()
    }

    fn of_class(&self, class: &str) -> Vec<Value> {
        self.webhook.delivered().into_iter().filter(|alert| alert["class"] == class).collect()
    }

    /// The agent was refused nothing, and used no right that the documents do not ask for.
    fn check_rights(&self) {
        assert_eq!(self.kubernetes.rights_refused().unwrap(), BTreeSet::new());
        let used = self.kubernetes.rights_used().unwrap();
        assert!(used.is_subset(&self.rights), "used {used:?}, documented {:?}", self.rights);
        for right in ["create configmaps", "update configmaps", "create events", "get pods"] {
            assert!(used.contains(right), "{right} was not used: {used:?}");
        }
    }
}

/// The leader's pod is killed: all agents see it, and agree by ConfigMaps on who tells it.
fn one_agent_tells_a_failover(version: &str, timeouts: Timeouts) {
    const COUNT: usize = 2;
    let mut pods =
        Pods::start(version, |builder, option| builder.task_managers(COUNT).timeouts(timeouts).java_options(option));
    let job = pods.cluster.submit("orders-to-invoices", 100).unwrap();
    pods.cluster.start_standby(1).unwrap();
    let leading = pods.cluster.leader().unwrap();
    pods.cluster.job_managers[leading].kill().unwrap();

    let alert = pods.wait_for_failovers(1).remove(0);
    assert_eq!(alert["namespace"], NAMESPACE, "{alert:#}");
    pods.cluster.wait_for_job(&job, LIMIT).unwrap();
    let ended = |event: &'static str, records: &[Record]| {
        let ended = alert_log::of(records, event).into_iter().filter(|record| record["alert_id"] == alert["id"]);
        ended.map(|record| record["target"].as_str().unwrap_or("-").to_owned()).collect::<Vec<_>>()
    };
    let mut delivered = Vec::new();
    for index in 0..COUNT {
        // Both targets, here or by the other.
        wait::until("the alert to be done with", LIMIT, || {
            let records = pods.cluster.task_managers[index].alert_log()?;
            let is_done = ended("alert.delivered", &records).len() + ended("alert.suppressed", &records).len() >= 2;
            Ok(is_done.then_some(()))
        })
        .unwrap();
        pods.cluster.task_managers[index].terminate(Duration::from_secs(30)).unwrap();
        let records = pods.cluster.task_managers[index].alert_log().unwrap();
        let moves = oracle::moves(&oracle::announcements(&pods.cluster.task_managers[index].log()));
        log_tells(&records, &moves).unwrap();
        assert_eq!(alert_log::of(&records, "agent.problem"), Vec::<&Value>::new());
        let raised = alert_log::of(&records, "alert.raised");
        assert_eq!(raised.len(), 1, "TaskManager {index}: {raised:#?}");
        let own = &raised[0]["alert"];
        assert_eq!(own["id"], alert["id"]);
        // The job of a TaskManager that was stopped comes to the next one, for which that is no move.
        let mut later = joined_later(&records, own);
        later.retain(|member| member["joined"] != true);
        alert_tells(own, &later, &moves).unwrap();
        delivered.extend(ended("alert.delivered", &records));
    }
    delivered.sort();
    assert_eq!(delivered, ["events", "hook"], "each target is told by one agent");
    assert_eq!(pods.of_class("failover").len(), 1);

    let claims = pods.kubernetes.claims().unwrap();
    let document = |claim: &Value| claim["data"]["document"].as_str().unwrap_or_default().to_owned();
    let told = claims.iter().filter(|claim| document(claim).contains(r#""state":"delivered""#)).count();
    assert_eq!(told, 2, "{claims:#?}");
    let events = pods.kubernetes.get(&format!("/api/v1/namespaces/{NAMESPACE}/events")).unwrap();
    let reasons: Vec<_> = events["items"].as_array().unwrap().iter().map(|event| event["reason"].clone()).collect();
    assert_eq!(reasons, ["LeadershipMoved"]);
    pods.check_rights();
    pods.cluster.finish();
}

/// Waits for something of a cluster whose JobManager, should it end by itself, is started again, as Kubernetes does with
/// a pod.
fn wait_as_a_pod(pods: &mut Pods, what: &str, is_so: impl Fn(&Pods) -> anyhow::Result<bool>) {
    wait::until(what, LIMIT, || {
        if !pods.cluster.job_managers[0].runs() {
            pods.cluster.start_standby(0)?;
        }
        Ok(is_so(pods)?.then_some(()))
    })
    .unwrap();
}

fn moves_seen(pods: &Pods) -> Vec<oracle::Move> {
    oracle::moves(&oracle::announcements(&pods.cluster.task_managers[0].log()))
}

/// The API server stands still, so does the leader, a leader loses its lease and gets it back, and at last it dies and
/// nobody comes. Whether Flink elects anew after a standstill is Flink's business; an alert comes if and only if it does.
fn outages_are_told_as_what_they_are(version: &str) {
    let mut pods = Pods::start(version, |builder, option| builder.java_options(option));
    let job = pods.cluster.submit("orders-to-invoices", 100).unwrap();

    // For longer than the lease of 3 s nobody can renew it.
    pods.kubernetes.freeze().unwrap();
    std::thread::sleep(API_FROZEN);
    pods.kubernetes.thaw().unwrap();
    let thawed = Timestamp::now();
    wait_as_a_pod(&mut pods, "the leases to be renewed", |pods| pods.kubernetes.leases_renewed_since(thawed));
    pods.cluster.wait_for_job(&job, LIMIT).unwrap();

    // A leader stands still for longer than its lease, and nobody else wants it.
    pods.cluster.job_managers[0].freeze().unwrap();
    std::thread::sleep(LEADER_FROZEN);
    pods.cluster.job_managers[0].thaw().unwrap();
    let thawed = Timestamp::now();
    wait_as_a_pod(&mut pods, "the leases to be renewed", |pods| pods.kubernetes.leases_renewed_since(thawed));
    pods.cluster.wait_for_job(&job, LIMIT).unwrap();

    // The lease is lost, and comes back to the same JobManager, who leads under another id.
    let before = moves_seen(&pods).len();
    pods.kubernetes.take_leases().unwrap();
    wait_as_a_pod(&mut pods, "Flink to tell a new leader", |pods| {
        let new = &moves_seen(pods)[before..];
        // Each lease of its own has one before 1.15.
        Ok(new.iter().any(|a_move| a_move.seat.job_id.is_some())
            && new.iter().any(|a_move| a_move.seat.job_id.is_none()))
    });
    pods.cluster.wait_for_job(&job, LIMIT).unwrap();
    let regained = moves_seen(&pods).last().unwrap().new.id.to_string();
    wait::until("the alert of it", LIMIT, || {
        let alerts = pods.of_class("failover");
        let tells = |alert: &Value| alert["members"].to_string().contains(&regained);
        Ok(alerts.iter().any(tells).then_some(()))
    })
    .unwrap();

    // Kubernetes announces no loss: Flink's heartbeat does.
    pods.cluster.job_managers[0].kill().unwrap();
    let no_leader = wait::until("the alert that nobody leads", LIMIT, || Ok(pods.of_class("no_leader").pop())).unwrap();
    assert_eq!(no_leader["cause"], "unreachable", "{no_leader:#}");

    pods.cluster.task_managers[0].terminate(Duration::from_secs(30)).unwrap();
    let records = pods.cluster.task_managers[0].alert_log().unwrap();
    let moves = moves_seen(&pods);
    log_tells(&records, &moves).unwrap();
    // Each move is a member of just one alert, and nothing else is.
    let told: Vec<String> = pods
        .of_class("failover")
        .iter()
        .flat_map(|alert| {
            alert["members"].as_array().cloned().unwrap_or_default().into_iter().chain(joined_later(&records, alert))
        })
        .map(|member| format!("{} {} {}", member["component"], member["job_id"], member["new_leader"]["id"]))
        .collect();
    let distinct: BTreeSet<&String> = told.iter().collect();
    assert_eq!((told.len(), distinct.len()), (moves.len(), moves.len()), "{told:#?}\n{moves:#?}");
    pods.cluster.finish();
}

/// The agents are in the JobManagers only, and the standby tells.
fn the_standby_tells_a_failover(version: &str, timeouts: Timeouts) {
    let mut pods = Pods::start(version, |builder, option| builder.timeouts(timeouts).job_manager_java_options(option));
    let job = pods.cluster.submit("orders-to-invoices", 100).unwrap();
    pods.cluster.start_standby(1).unwrap();
    let leading = pods.cluster.leader().unwrap();
    let standby = 1 - leading;
    wait::until("the standby to be told the leaders", LIMIT, || {
        let records = pods.cluster.job_managers[standby].alert_log()?;
        let elected = alert_log::of(&records, "leader.elected");
        let is_told = |component: &str| elected.iter().any(|record| record["component"] == component);
        Ok((is_told("dispatcher") && is_told("resourcemanager")).then_some(()))
    })
    .unwrap();
    pods.cluster.job_managers[leading].kill().unwrap();
    let alert = pods.wait_for_failovers(1).remove(0);
    pods.cluster.wait_for_job(&job, LIMIT).unwrap();

    let moves = oracle::moves(&oracle::announcements(&pods.cluster.task_managers[0].log()));
    let of_flink = moves.iter().find(|a_move| a_move.seat.job_id.is_none()).expect("the ResourceManager moved");
    assert_eq!(alert["observer"]["role"], "jobmanager", "{alert:#}");
    for (told, leader) in [(&alert["old_leader"], &of_flink.old), (&alert["new_leader"], &of_flink.new)] {
        assert_eq!(told["id"], leader.id.to_string(), "{alert:#}");
        assert_eq!(told["address"], leader.address.as_str(), "{alert:#}");
    }
    pods.cluster.job_managers[standby].terminate(Duration::from_secs(60)).unwrap();
    assert_eq!(pods.of_class("failover").len(), 1);
    pods.check_rights();
    pods.cluster.finish();
}

#[test]
#[ignore = "scripts/test --kubernetes"]
fn one_agent_tells_a_failover_1_14() {
    one_agent_tells_a_failover("1.14.6", Timeouts::Short);
}

#[test]
#[ignore = "scripts/test --kubernetes"]
fn one_agent_tells_a_failover_2_3() {
    one_agent_tells_a_failover("2.3.0", Timeouts::Short);
}

#[test]
#[ignore = "scripts/test --kubernetes"]
fn outages_are_told_as_what_they_are_1_14() {
    outages_are_told_as_what_they_are("1.14.6");
}

#[test]
#[ignore = "scripts/test --kubernetes"]
fn outages_are_told_as_what_they_are_2_3() {
    outages_are_told_as_what_they_are("2.3.0");
}

#[test]
#[ignore = "scripts/test --kubernetes"]
fn the_standby_tells_a_failover_1_14() {
    the_standby_tells_a_failover("1.14.6", Timeouts::Short);
}

#[test]
#[ignore = "scripts/test --kubernetes"]
fn the_standby_tells_a_failover_2_3() {
    the_standby_tells_a_failover("2.3.0", Timeouts::Short);
}

/// The Flink that `$LEADERWATCH_TEST_FLINK` names.
#[test]
#[ignore = "scripts/versions names the Flink"]
fn one_agent_tells_a_failover_of_the_named_flink() {
    one_agent_tells_a_failover(&std::env::var("LEADERWATCH_TEST_FLINK").unwrap(), Timeouts::Moderate);
}

/// The Flink that `$LEADERWATCH_TEST_FLINK` names.
#[test]
#[ignore = "scripts/versions names the Flink"]
fn the_standby_tells_a_failover_of_the_named_flink() {
    the_standby_tells_a_failover(&std::env::var("LEADERWATCH_TEST_FLINK").unwrap(), Timeouts::Moderate);
}

/// All that a claim goes through, until the first refusal.
async fn live_through_a_claim(store: &dyn Store, name: &str) -> Result<(), StoreError> {
    store.time().await?;
    let Written::Done(version) = store.create(name, b"first").await? else { panic!("{name} is there already") };
    assert_eq!(store.create(name, b"second").await?, Written::Refused);
    assert_eq!(store.read(name).await?.unwrap().body, b"first");
    let Written::Done(next) = store.swap(name, &version, b"second").await? else {
        panic!("{name} has another version")
    };
    assert_eq!(store.swap(name, &version, b"third").await?, Written::Refused);
    assert!(store.list().await?.contains(&name.to_owned()));
    assert!(!store.delete(name, &version).await?, "of another version");
    assert!(store.delete(name, &next).await?);
    assert_eq!(store.read(name).await?, None);
    Ok(())
}

/// With the documented rights everything works, all of them are used, and each of them is missed.
#[test]
#[ignore = "scripts/test --kubernetes"]
fn the_documented_rights_are_those_that_claims_need() {
    let kubernetes = Kubernetes::start().unwrap();
    let documented = kubernetes.allow_as_in("deploying.md").unwrap();
    let base = SecretUrl::parse(&format!("https://127.0.0.1:{}/", kubernetes.port())).unwrap();
    let resolver = Resolver::default();
    let store = KubernetesStore::new(base, &kubernetes.account_files(), NAMESPACE, "orders", resolver);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let live = |name: &str| runtime.block_on(live_through_a_claim(&store, name));

    live("claim-a").unwrap();
    assert_eq!(kubernetes.rights_used().unwrap(), documented);
    assert_eq!(kubernetes.rights_refused().unwrap(), BTreeSet::new());

    let path = format!("{}/leaderwatch-claims", rights_path("roles"));
    let role = kubernetes.get(&path).unwrap();
    for right in &documented {
        let verb = right.split(' ').next().unwrap();
        let mut less = role.clone();
        less["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        less["rules"][0]["verbs"].as_array_mut().unwrap().retain(|one| one != verb);
        assert_eq!(rights_of(&less).len(), documented.len() - 1);
        kubernetes.replace(&path, &less.to_string()).unwrap();
        // The server takes a moment to follow its own rules.
        let mut tries = 0;
        let refusal = wait::until(&format!("{verb} to be refused"), Duration::from_secs(30), || {
            tries += 1;
            Ok(live(&format!("claim-without-{verb}-{tries}")).err())
        })
        .unwrap();
        let StoreError::Forbidden(words) = &refusal else { panic!("{refusal:?}") };
        assert!(words.contains(&format!("cannot {verb} resource \"configmaps\"")), "{words}");
        assert!(kubernetes.rights_refused().unwrap().contains(right));
    }
}
