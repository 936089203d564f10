//! An Event of the Kubernetes API on what owns the observer's pod, for pods without another way out: `kubectl get events`
//! and whatever watches events shows it.
//!
//! Delivered is status 201, or 409: an event of this name is there already, written by an earlier attempt or another
//! observer. Token and CA are those of the pod's service account, read for each send, since Kubernetes renews the token. The
//! service account needs `create` on `events`, and `get` on `pods` to find the owner; without that the event is on the pod.

use std::path::PathBuf;
use std::sync::Arc;

use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::http::{HttpClient, Reply, add_header};
use super::secret::{Secret, SecretUrl};
use super::text::{cut_bytes, one_line, printable};
use super::webhook::Authorization;
use super::{Action, Manner, Notice, Outcome, Sending, Target};
use crate::alert::{Alert, Class, Severity};
use crate::clock::Clock;

/// Bytes of an event's message (validation of core/v1 Event).
const MESSAGE_BYTES: usize = 1024;

/// Where the events go.
#[derive(Debug, Clone)]
pub struct KubernetesEventSettings {
    /// The user's name for it.
    pub name: String,
    /// The API server.
    pub api: SecretUrl,
    /// Token.
    pub token: Token,
    /// Namespace of the events; none: that of the alert.
    pub namespace: Option<String>,
}

/// Where the token comes from.
#[derive(Debug, Clone)]
pub enum Token {
    /// It is this.
    Given(Secret),
    /// A file, read for each send.
    File(PathBuf),
}

/// The receiver.
pub struct KubernetesEvent {
    settings: KubernetesEventSettings,
    http: HttpClient,
    clock: Arc<dyn Clock>,
}

impl KubernetesEvent {
    /// Makes the receiver; the client must trust the API server's CA.
    pub fn new(settings: KubernetesEventSettings, http: HttpClient, clock: Arc<dyn Clock>) -> KubernetesEvent {
        KubernetesEvent { settings, http, clock }
    }

    async fn post(&self, notice: &Notice) -> Outcome {
        let namespace = self.settings.namespace.as_ref().or(notice.alert.namespace.as_ref());
        let Some(namespace) = namespace else {
            return Outcome::reject("no namespace is known: set `namespace`");
        };
        let headers = match self.headers() {
            Ok(headers) => headers,
            Err(reason) => return Outcome::Retry { after: None, reason },
        };
        let involved = self.involved(&notice.alert, namespace, &headers).await;
        let body = event(notice, namespace, &involved, self.clock.now().wall);
        let url = self.settings.api.join(&format!("api/v1/namespaces/{namespace}/events"));
        self.http.deliver(&url, headers, &body, judge).await
    }

    fn headers(&self) -> Result<HeaderMap, String> {
        let token = match &self.settings.token {
            Token::Given(token) => token.clone(),
            Token::File(file) => Secret::new(
                std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?.trim(),
            ),
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        add_header(&mut headers, AUTHORIZATION.as_str(), &Authorization::Bearer(token).header())
            .map_err(|_| "the token holds a character that HTTP does not allow".to_owned())?;
        Ok(headers)
    }

    /// What the event is about: the pod's controller, else the pod, else the namespace.
    async fn involved(&self, alert: &Alert, namespace: &str, headers: &HeaderMap) -> Value {
        let Some(pod) = &alert.observer.pod else {
            return json!({"apiVersion": "v1", "kind": "Namespace", "name": namespace});
        };
        let url = self.settings.api.join(&format!("api/v1/namespaces/{namespace}/pods/{pod}"));
        let reply = self.http.request(Method::GET, &url, headers.clone(), Vec::new()).await;
        let found = reply.ok().filter(|reply| reply.status == 200).and_then(|reply| reply.json()).unwrap_or_default();
        let owners = found["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        match owners.iter().find(|owner| owner["controller"] == true) {
            Some(owner) => json!({
                "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["name"], "uid": owner["uid"],
                "namespace": namespace,
            }),
            None => {
                let mut involved = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "namespace": namespace});
                if let Some(uid) = found["metadata"]["uid"].as_str() {
                    involved["uid"] = uid.into();
                }
                involved
            }
        }
    }
}

impl Target for KubernetesEvent {
    fn name(&self) -> &str {
        &self.settings.name
    }
    fn kind(&self) -> &'static str {
        "kubernetes_event"
    }
    fn manner(&self) -> Manner {
        Manner::MACHINE
    }
    fn send<'a>(&'a self, notice: &'a Notice) -> Sending<'a> {
        Box::pin(self.post(notice))
    }
}

fn event(notice: &Notice, namespace: &str, involved: &Value, now: jiff::Timestamp) -> Value {
    let alert = &notice.alert;
    let reason = match (alert.class, notice.action) {
        (_, Action::Resolve) | (Class::Resolved, _) => "LeadershipResolved",
        (Class::Failover, _) => "LeadershipMoved",
        (Class::NoLeader, _) => "NoLeader",
        (Class::Flapping, _) => "LeadershipFlapping",
        (Class::Test, _) => "LeaderwatchTest",
    };
    // Times of an Event are whole seconds.
    let time = |at: jiff::Timestamp| format!("{at:.0}");
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("leaderwatch.{}", notice.message_id.to_lowercase()), "namespace": namespace},
        "involvedObject": involved,
        "reason": reason,
        "message": cut_bytes(&format!("{}\n{}", one_line(&alert.title), printable(&alert.text).trim_end()), MESSAGE_BYTES),
        "type": if alert.severity == Severity::Info { "Normal" } else { "Warning" },
        "source": {"component": "leaderwatch", "host": alert.observer.host},
        "firstTimestamp": time(alert.occurred_at),
        "lastTimestamp": time(now),
        "count": 1,
    })
}

pub(super) fn judge(reply: &Reply) -> Outcome {
    match reply.status {
        201 => Outcome::Delivered {
            receipt: reply.json().and_then(|json| json["metadata"]["name"].as_str().map(str::to_owned)),
        },
        409 => Outcome::Delivered { receipt: Some("an event of this name is there already".into()) },
        // The service account may be given the right, or its token be renewed, at any time.
        401 | 403 => Outcome::retry(format!("answered {}{}", reply.status, reply.excerpt())),
        _ => reply.unclear(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Behaviour, FakeHttp, http_client};
    use super::*;
    use crate::clock::ManualClock;
    use crate::delivery::test_notice;

    fn target(server: &FakeHttp, token: Token) -> KubernetesEvent {
        let settings = KubernetesEventSettings {
            name: "events".into(),
            api: server.url(""),
            token,
            namespace: Some("flink".into()),
        };
        KubernetesEvent::new(settings, http_client(), Arc::new(ManualClock::default()))
    }

    fn seen_in_pod() -> Notice {
        let mut notice = test_notice("abc", "text");
        notice.alert.observer.pod = Some("taskmanager-1-1".into());
        notice
    }

    #[tokio::test]
    async fn the_event_is_on_the_pods_controller() {
        let pod = r#"{"metadata":{"uid":"p1","ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"orders","uid":"d1","controller":true}]}}"#;
        let created = r#"{"metadata":{"name":"leaderwatch.abc"}}"#;
        let server = FakeHttp::start(vec![Behaviour::reply(200, pod), Behaviour::reply(201, created)]).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "t0ken\n").unwrap();
        let outcome = target(&server, Token::File(file)).send(&seen_in_pod()).await;
        assert_eq!(outcome, Outcome::Delivered { receipt: Some("leaderwatch.abc".into()) });
        let requests = server.requests();
        assert_eq!(requests[0].target, "/api/v1/namespaces/flink/pods/taskmanager-1-1");
        assert_eq!(requests[1].target, "/api/v1/namespaces/flink/events");
        assert_eq!(requests[1].header("authorization"), Some("Bearer t0ken"));
        let event = requests[1].json();
        assert_eq!(event["involvedObject"]["kind"], "Deployment");
        assert_eq!((&event["reason"], &event["type"]), (&"LeadershipMoved".into(), &"Warning".into()));
        assert_eq!(event["firstTimestamp"], "1970-01-01T00:00:00Z");
    }

    #[tokio::test]
    async fn without_the_right_to_see_pods_it_is_on_the_pod_and_a_repeat_is_delivered() {
        let server = FakeHttp::start(vec![Behaviour::reply(403, "{}"), Behaviour::reply(409, "{}")]).await;
        let outcome = target(&server, Token::Given(Secret::new("t"))).send(&seen_in_pod()).await;
        assert!(matches!(outcome, Outcome::Delivered { .. }), "{outcome:?}");
        assert_eq!(server.requests()[1].json()["involvedObject"]["name"], "taskmanager-1-1");
    }

    /// The API refuses a longer one (`events` are validated to 1024 bytes).
    #[tokio::test]
    async fn a_long_text_is_cut_to_what_an_event_holds() {
        let server = FakeHttp::start(vec![Behaviour::reply(403, "{}"), Behaviour::reply(201, "{}")]).await;
        let mut notice = seen_in_pod();
        notice.alert.text = "作业🦀".repeat(1000);
        target(&server, Token::Given(Secret::new("t"))).send(&notice).await;
        let event = server.requests()[1].json();
        let bytes = event["message"].as_str().unwrap().len();
        assert!((1000..=1024).contains(&bytes), "{bytes}");
    }

    #[tokio::test]
    async fn a_missing_right_may_be_given_later() {
        let server = FakeHttp::start(vec![Behaviour::reply(403, "no")]).await;
        let outcome = target(&server, Token::Given(Secret::new("t"))).send(&seen_in_pod()).await;
        assert_eq!(outcome, Outcome::retry("answered 403: no"));
        let outcome = target(&server, Token::File("/missing".into())).send(&seen_in_pod()).await;
        assert!(matches!(outcome, Outcome::Retry { .. }), "{outcome:?}");
    }
}
