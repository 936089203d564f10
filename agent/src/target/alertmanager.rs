//! Prometheus Alertmanager, by API v2.
//!
//! Delivered is status 200 from at least one member of the cluster; each is told, as they do not share alerts. An
//! Alertmanager holds alerts in memory and lets one end five minutes after it was told last, so the delivery repeats what is
//! open every minute and its end for five minutes ([`Manner::repeat`]).
//!
//! An alert is its labels: they hold the alert's id, class and severity, never an address or a session id, which are
//! annotations. Its class and severity may change under one id (a `no_leader` that ends in a `failover`, jobs that join), so
//! each post also ends all other label sets that the id may have had. Ending what never was is nothing to an Alertmanager.
//!
//! A watchdog is an alert that always fires while an agent lives, so that a dead man's switch behind the Alertmanager
//! notices when none does any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Value, json};

use super::http::{BadHttp, HttpClient, Reply, add_header};
use super::secret::SecretUrl;
use super::text::{cut_bytes, one_line, printable};
use super::webhook::Authorization;
use super::{Action, Digests, Manner, Notice, Outcome, Repeat, Sending, Target};
use crate::alert::{Alert, Class, Severity};
use crate::clock::Clock;
use crate::leadership::Leader;

/// How long an alert lasts that is not repeated.
const LASTS: Duration = Duration::from_secs(300);
/// Bytes of the description.
const DESCRIPTION_BYTES: usize = 8000;
/// The label sets that one id may have.
const LABEL_SETS: [(Class, Severity); 5] = [
    (Class::Failover, Severity::Critical),
    (Class::Failover, Severity::Warning),
    (Class::NoLeader, Severity::Critical),
    (Class::Flapping, Severity::Critical),
    (Class::Test, Severity::Info),
];

/// An Alertmanager cluster.
#[derive(Debug, Clone)]
pub struct AlertmanagerSettings {
    /// The user's name for it.
    pub name: String,
    /// Base address of each member.
    pub urls: Vec<SecretUrl>,
    /// Who we are.
    pub authorization: Option<Authorization>,
    /// The alert that fires while an agent lives.
    pub watchdog: Option<Watchdog>,
}

/// An alert that fires while an agent lives.
#[derive(Debug, Clone)]
pub struct Watchdog {
    /// How often it is told.
    pub every: Duration,
    /// The cluster that is watched.
    pub cluster: String,
    /// Its namespace.
    pub namespace: Option<String>,
}

/// The receiver.
pub struct Alertmanager {
    name: String,
    members: Vec<SecretUrl>,
    headers: HeaderMap,
    watchdog: Option<Watchdog>,
    http: HttpClient,
    clock: Arc<dyn Clock>,
}

impl Alertmanager {
    /// Makes the receiver.
    pub fn new(
        settings: AlertmanagerSettings,
        http: HttpClient,
        clock: Arc<dyn Clock>,
    ) -> Result<Alertmanager, BadHttp> {
        let mut headers = HeaderMap::new();
        if let Some(authorization) = &settings.authorization {
            add_header(&mut headers, AUTHORIZATION.as_str(), &authorization.header())?;
        }
        let members = settings.urls.iter().map(|url| url.join("api/v2/alerts")).collect();
        Ok(Alertmanager { name: settings.name, members, headers, watchdog: settings.watchdog, http, clock })
    }

    async fn bark(&self) -> Outcome {
        let Some(watchdog) = &self.watchdog else { return Outcome::delivered() };
        self.post(watchdog.alerts(self.clock.now().wall)).await
    }

    async fn post(&self, body: Value) -> Outcome {
        let (mut told, mut later, mut never) = (0, None, None);
        for outcome in self.post_to_all(&body).await {
            match outcome {
                Outcome::Delivered { .. } => told += 1,
                Outcome::Retry { .. } => later = Some(outcome),
                Outcome::Reject { .. } => never = Some(outcome),
            }
        }
        if told > 0 {
            return Outcome::Delivered { receipt: Some(format!("{told} of {} members", self.members.len())) };
        }
        later.or(never).unwrap_or_else(|| Outcome::reject("no member is configured"))
    }

    /// Posts to all at the same time, so that one that is down does not hold up the others.
    async fn post_to_all(&self, body: &Value) -> Vec<Outcome> {
        let mut posts = tokio::task::JoinSet::new();
        for member in &self.members {
            let (http, member, headers, body) = (self.http.clone(), member.clone(), self.headers.clone(), body.clone());
            posts.spawn(async move { http.deliver(&member, headers, &body, judge).await });
        }
        let mut outcomes = Vec::new();
        while let Some(ended) = posts.join_next().await {
            outcomes.push(ended.unwrap_or_else(|_| Outcome::retry("the post was broken off")));
        }
        outcomes
    }
}

impl Target for Alertmanager {
    fn name(&self) -> &str {
        &self.name
    }
    fn kind(&self) -> &'static str {
        "alertmanager"
    }
    fn manner(&self) -> Manner {
        Manner {
            digests: Digests::OfOld,
            repeat: Some(Repeat {
                every: Duration::from_secs(60),
                open_for: Duration::from_secs(24 * 3600),
                resolved_for: LASTS,
            }),
            updates_in_place: true,
            beat: self.watchdog.as_ref().map(|watchdog| watchdog.every),
            ..Manner::MACHINE
        }
    }
    fn beat(&self) -> Sending<'_> {
        Box::pin(self.bark())
    }
    fn send<'a>(&'a self, notice: &'a Notice) -> Sending<'a> {
        Box::pin(self.post(alerts(notice, self.clock.now().wall)))
    }
}

impl Watchdog {
    /// What is posted. It outlasts three intervals, within which another agent takes over from one that died.
    fn alerts(&self, now: Timestamp) -> Value {
        let lasts = LASTS.max(self.every * 3);
        let known = [
            ("alertname", Some("FlinkLeadershipWatchdog")),
            ("severity", Some("none")),
            ("cluster", Some(self.cluster.as_str())),
            ("namespace", self.namespace.as_deref()),
        ];
        let labels: BTreeMap<_, _> = known
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)))
            .collect();
        json!([{
            "labels": labels,
            "annotations": { "summary": "Leaderwatch watches this Flink cluster. When this alert ends, nobody does." },
            "endsAt": format!("{:.3}", now.checked_add(lasts).unwrap_or(now)),
        }])
    }
}

/// What is posted for a notice: the present label set, and the end of all others.
fn alerts(notice: &Notice, now: Timestamp) -> Value {
    let alert = &notice.alert;
    if notice.action == Action::Digest {
        return json!([entry(alert, "digest", alert.severity, now, true)]);
    }
    let is_open = notice.action != Action::Resolve;
    let sets = LABEL_SETS.iter().map(|(class, severity)| {
        let is_present = is_open && (*class, *severity) == (alert.class, alert.severity);
        entry(alert, class_label(*class), *severity, now, is_present)
    });
    let mut entries: Vec<Value> = sets.collect();
    if is_open && !LABEL_SETS.contains(&(alert.class, alert.severity)) {
        entries.push(entry(alert, class_label(alert.class), alert.severity, now, true));
    }
    entries.into()
}

fn entry(alert: &Alert, class: &str, severity: Severity, now: Timestamp, is_firing: bool) -> Value {
    let ends_at = if is_firing { now.checked_add(LASTS).unwrap_or(now) } else { now };
    json!({
        "labels": labels(alert, class, severity),
        "annotations": annotations(alert),
        "startsAt": format!("{:.3}", alert.occurred_at.min(now)),
        "endsAt": format!("{ends_at:.3}"),
    })
}

fn labels(alert: &Alert, class: &str, severity: Severity) -> BTreeMap<String, String> {
    let severity = match severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning",
        Severity::Info => "info",
    };
    let mut labels: BTreeMap<String, String> =
        alert.labels.iter().map(|(name, value)| (label_name(name), value.clone())).collect();
    let own = [
        ("alertname", "FlinkLeadership"),
        ("class", class),
        ("severity", severity),
        ("cluster", alert.cluster.as_str()),
        ("leaderwatch_id", alert.id.as_str()),
    ];
    labels.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    labels.extend(alert.namespace.iter().map(|namespace| ("namespace".to_owned(), namespace.clone())));
    labels.extend(alert.drill.then(|| ("drill".to_owned(), "true".to_owned())));
    labels.retain(|_, value| !value.is_empty());
    labels
}

/// Label names are letters, digits and underlines, and do not begin with a digit.
fn label_name(name: &str) -> String {
    let mut clean: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if clean.starts_with(|c: char| c.is_ascii_digit()) || clean.is_empty() {
        clean.insert(0, '_');
    }
    clean
}

fn annotations(alert: &Alert) -> BTreeMap<&'static str, String> {
    let address =
        |leader: &Option<Leader>| leader.as_ref().and_then(|leader| leader.address.as_deref().map(str::to_owned));
    let id = |leader: &Option<Leader>| leader.as_ref().map(|leader| leader.id.to_string());
    let known = [
        ("summary", Some(one_line(&alert.title))),
        ("description", Some(cut_bytes(&printable(&alert.text), DESCRIPTION_BYTES))),
        ("old_leader", address(&alert.old_leader)),
        ("old_leader_id", id(&alert.old_leader)),
        ("new_leader", address(&alert.new_leader)),
        ("new_leader_id", id(&alert.new_leader)),
        ("observer", Some(alert.observer.host.clone())),
    ];
    known.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn class_label(class: Class) -> &'static str {
    match class {
        Class::Failover => "failover",
        Class::NoLeader => "no_leader",
        Class::Flapping => "flapping",
        Class::Resolved => "resolved",
        Class::Test => "test",
    }
}

pub(super) fn judge(reply: &Reply) -> Outcome {
    if reply.status == 200 { Outcome::delivered() } else { reply.unclear() }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Behaviour, FakeHttp, http_client};
    use super::super::secret::Secret;
    use super::*;
    use crate::clock::ManualClock;
    use crate::delivery::test_notice;
    use crate::leadership::SessionId;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn firing(alerts: &Value) -> Vec<String> {
        let is_firing = |alert: &&Value| alert["endsAt"] == "1970-01-01T00:05:00.000Z";
        let set =
            |alert: &Value| format!("{} {}", alert["labels"]["class"], alert["labels"]["severity"]).replace('"', "");
        alerts.as_array().unwrap().iter().filter(is_firing).map(set).collect()
    }

    #[test]
    fn one_label_set_fires_and_all_others_of_the_id_end() {
        let notice = test_notice("abc", "text");
        let raised = alerts(&notice, NOW);
        assert_eq!(firing(&raised), ["failover critical"]);
        assert_eq!(raised.as_array().unwrap().len(), LABEL_SETS.len());
        assert!(raised.as_array().unwrap().iter().all(|alert| alert["labels"]["leaderwatch_id"] == "abc"));
        let mut resolved = Notice { action: Action::Resolve, ..notice };
        resolved.alert.class = Class::Resolved;
        resolved.alert.severity = Severity::Info;
        let ended = alerts(&resolved, NOW);
        assert!(firing(&ended).is_empty());
        let sets =
            |alerts: &Value| alerts.as_array().unwrap().iter().map(|a| a["labels"].to_string()).collect::<Vec<_>>();
        assert_eq!(sets(&raised), sets(&ended));
    }

    #[test]
    fn ids_and_addresses_are_annotations_and_never_labels() {
        let mut notice = test_notice("abc", "text");
        notice.alert.new_leader =
            Some(Leader { id: SessionId(7), address: Some("akka.tcp://flink@h:1/user/x".into()) });
        notice.alert.labels = BTreeMap::from([("team-name".into(), "a\"b".into()), ("1st".into(), "x".into())]);
        let entry = alerts(&notice, NOW)[0].clone();
        assert_eq!(entry["annotations"]["new_leader"], "akka.tcp://flink@h:1/user/x");
        let labels: Vec<_> = entry["labels"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(labels, ["_1st", "alertname", "class", "cluster", "leaderwatch_id", "severity", "team_name"]);
    }

    #[test]
    fn a_drill_can_be_routed_by_its_label() {
        let mut notice = test_notice("abc", "text");
        notice.alert.drill = true;
        assert_eq!(alerts(&notice, NOW)[0]["labels"]["drill"], "true");
        assert_eq!(alerts(&test_notice("abc", "text"), NOW)[0]["labels"]["drill"], Value::Null);
    }

    #[test]
    fn a_digest_never_fires_as_a_failover() {
        let mut notice = Notice { action: Action::Digest, ..test_notice("abc", "text") };
        notice.alert.severity = Severity::Info;
        assert_eq!(firing(&alerts(&notice, NOW)), ["digest info"]);
    }

    #[tokio::test]
    async fn a_watchdog_fires_until_nobody_tells_of_it() {
        let server = FakeHttp::start(vec![Behaviour::reply(200, "")]).await;
        let watchdog = |every| Some(Watchdog { every, cluster: "orders".into(), namespace: None });
        let target = |watchdog| {
            let settings =
                AlertmanagerSettings { name: "am".into(), urls: vec![server.url("")], authorization: None, watchdog };
            Alertmanager::new(settings, http_client(), Arc::new(ManualClock::default())).unwrap()
        };
        let watched = target(watchdog(Duration::from_secs(60)));
        assert_eq!(watched.manner().beat, Some(Duration::from_secs(60)));
        assert_eq!(watched.beat().await, Outcome::Delivered { receipt: Some("1 of 1 members".into()) });
        let told = server.requests()[0].json();
        let labels = json!({"alertname": "FlinkLeadershipWatchdog", "severity": "none", "cluster": "orders"});
        assert_eq!((&told[0]["labels"], &told[0]["endsAt"]), (&labels, &json!("2026-01-01T00:05:00.000Z")));
        target(watchdog(Duration::from_secs(3600))).beat().await;
        assert_eq!(server.requests()[1].json()[0]["endsAt"], "2026-01-01T03:00:00.000Z");
        assert_eq!(target(None).manner().beat, None);
    }

    #[tokio::test]
    async fn every_member_is_told_and_one_is_enough() {
        let up = FakeHttp::start(vec![Behaviour::reply(200, "")]).await;
        let down = FakeHttp::start(vec![Behaviour::reply(503, "")]).await;
        let target = |urls: Vec<SecretUrl>| {
            let authorization = Some(Authorization::Bearer(Secret::new("t0ken")));
            let settings = AlertmanagerSettings { name: "am".into(), urls, authorization, watchdog: None };
            Alertmanager::new(settings, http_client(), Arc::new(ManualClock::default())).unwrap()
        };
        let both = target(vec![down.url("/prefix/"), up.url("")]);
        let outcome = both.send(&test_notice("abc", "text")).await;
        assert_eq!(outcome, Outcome::Delivered { receipt: Some("1 of 2 members".into()) });
        assert_eq!(down.requests()[0].target, "/prefix/api/v2/alerts");
        assert_eq!(up.requests()[0].target, "/api/v2/alerts");
        assert_eq!(up.requests()[0].header("authorization"), Some("Bearer t0ken"));
        let outcome = target(vec![down.url("")]).send(&test_notice("abc", "text")).await;
        assert_eq!(outcome, Outcome::retry("answered 503"));
    }
}
