//! Claims in Kubernetes: one ConfigMap each, in the pod's own namespace or another, over the API of the pod's cluster.
//!
//! Flink's high availability needs the right to create, read, write and delete ConfigMaps, so that there is mostly nothing
//! to be granted. Ours carry labels of our own and none of Flink's, by which Flink deletes. The version is
//! `resourceVersion`. Token and CA are read anew for each call, since Kubernetes replaces them.
//!
//! Sources: <https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/>,
//! <https://kubernetes.io/docs/reference/using-api/api-concepts/> (conflicts, preconditions, metadata-only lists).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use reqwest::Method;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::store::{Answering, Entry, Store, StoreError, Version, Written};
use crate::config::Environment;
use crate::target::Outcome;
use crate::target::http::{HttpClient, HttpSettings, Proxy, Reply};
use crate::target::resolver::Resolver;
use crate::target::secret::SecretUrl;
use crate::target::tls::TlsSettings;

/// Where Kubernetes puts what a pod needs to speak to it.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Most bytes of an answer: a ConfigMap has at most 1 MiB.
const REPLY_BYTES: usize = 2 << 20;
/// Names that one page of a list holds, and pages that are asked for.
const PAGE: (usize, usize) = (500, 20);
/// Lists with the metadata only.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Claims in Kubernetes.
#[derive(Clone)]
pub struct KubernetesStore {
    shared: Arc<Shared>,
}

struct Shared {
    base: SecretUrl,
    credentials: PathBuf,
    namespace: String,
    /// The cluster, for people.
    cluster: String,
    /// Keeps this cluster's claims apart from others: a label, and part of each name.
    scope: String,
    resolver: Resolver,
    client: Mutex<Option<(Vec<u8>, HttpClient)>>,
}

impl KubernetesStore {
    /// Claims of a Flink cluster in a namespace, if this process runs in a pod; else why not.
    pub fn in_cluster(
        namespace: &str,
        cluster: &str,
        resolver: Resolver,
        env: &dyn Environment,
    ) -> Result<KubernetesStore, String> {
        let var = |name| env.var(name).ok_or_else(|| format!("this is no pod of Kubernetes: {name} is not set"));
        let (host, port) = (var("KUBERNETES_SERVICE_HOST")?, var("KUBERNETES_SERVICE_PORT")?);
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let base = SecretUrl::parse(&format!("https://{host}:{port}/"));
        let base = base.map_err(|error| format!("the address of Kubernetes, {host}:{port}, {error}"))?;
        Ok(KubernetesStore::new(base, Path::new(SERVICE_ACCOUNT), namespace, cluster, resolver))
    }

    /// Claims of a Flink cluster in a namespace, by an API server and the folder of a service account's files (`token`,
    /// `ca.crt`).
    pub fn new(
        base: SecretUrl,
        credentials: &Path,
        namespace: &str,
        cluster: &str,
        resolver: Resolver,
    ) -> KubernetesStore {
        let shared = Shared {
            base,
            credentials: credentials.to_owned(),
            namespace: namespace.to_owned(),
            cluster: cluster.to_owned(),
            scope: format!("{:08x}", crc32fast::hash(cluster.as_bytes())),
            resolver,
            client: Mutex::default(),
        };
        KubernetesStore { shared: Arc::new(shared) }
    }

    fn config_map_name(&self, name: &str) -> String {
        format!("leaderwatch-{}-{name}", self.shared.scope)
    }

    fn url(&self, name: Option<&str>) -> SecretUrl {
        let all = format!("api/v1/namespaces/{}/configmaps", self.shared.namespace);
        self.shared.base.join(&name.map_or(all.clone(), |name| format!("{all}/{}", self.config_map_name(name))))
    }

    async fn ask(&self, method: Method, url: &SecretUrl, accept: &str, body: &Value) -> Result<Reply, StoreError> {
        let (client, mut headers) = (self.client()?, HeaderMap::new());
        headers.insert(AUTHORIZATION, self.authorization()?);
        let accept = HeaderValue::from_str(accept).map_err(|error| StoreError::Unreachable(error.to_string()))?;
        headers.insert(ACCEPT, accept);
        let mut bytes = Vec::new();
        if !body.is_null() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            bytes = body.to_string().into_bytes();
        }
        let reply = client.request(method, url, headers, bytes).await;
        let reply = reply.map_err(of_outcome)?;
        match reply.status {
            200..=299 | 404 | 409 => Ok(reply),
            401 | 403 => Err(StoreError::Forbidden(format!(
                "{}; its service account needs create, get, update, delete and list on configmaps",
                message(&reply)
            ))),
            _ => Err(StoreError::Unreachable(message(&reply))),
        }
    }

    fn authorization(&self) -> Result<HeaderValue, StoreError> {
        let path = self.shared.credentials.join("token");
        let token = std::fs::read_to_string(&path)
            .map_err(|error| StoreError::Forbidden(format!("{}: {error}", path.display())))?;
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
            .map_err(|_| StoreError::Forbidden(format!("{} holds no token", path.display())))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// The client of the last call, unless the CA has changed.
    fn client(&self) -> Result<HttpClient, StoreError> {
        let ca_file = self.shared.credentials.join("ca.crt");
        // Without one, the system's certificates must do.
        let ca = std::fs::read(&ca_file).unwrap_or_default();
        let mut client = self.shared.client.lock();
        if let Some((made_with, client)) = &*client
            && *made_with == ca
        {
            return Ok(client.clone());
        }
        let settings = HttpSettings {
            proxy: Proxy::None,
            tls: TlsSettings { ca_file: (!ca.is_empty()).then_some(ca_file), ..TlsSettings::default() },
            reply_bytes: REPLY_BYTES,
            ..HttpSettings::default()
        };
        let made = HttpClient::new(&settings, &self.shared.resolver);
        let made = made.map_err(|error| StoreError::Unreachable(error.to_string()))?;
        *client = Some((ca, made.clone()));
        Ok(made)
    }

    fn config_map(&self, name: &str, version: Option<&Version>, body: &[u8]) -> Result<Value, StoreError> {
        let text = std::str::from_utf8(body).map_err(|error| StoreError::Unreachable(error.to_string()))?;
        let mut map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.config_map_name(name),
                "labels": {
                    "app.kubernetes.io/managed-by": "leaderwatch",
                    "leaderwatch/cluster": self.shared.scope,
                },
                "annotations": { "leaderwatch/cluster-name": self.shared.cluster },
            },
            "data": { "document": text },
        });
        if let Some(version) = version {
            map["metadata"]["resourceVersion"] = json!(version.0);
        }
        Ok(map)
    }

    async fn write(
        &self,
        method: Method,
        url: &SecretUrl,
        map: Result<Value, StoreError>,
    ) -> Result<Written, StoreError> {
        let reply = self.ask(method.clone(), url, "application/json", &map?).await?;
        match reply.status {
            404 if method == Method::POST => Err(StoreError::Unreachable(message(&reply))),
            404 | 409 => Ok(Written::Refused),
            _ => Ok(Written::Done(version_of(&parse(&reply)?)?)),
        }
    }

    /// Names of our ConfigMaps, and the answer's time.
    async fn page(&self, limit: usize, after: &str) -> Result<(Value, Option<Timestamp>), StoreError> {
        let selector = format!("leaderwatch/cluster={}", self.shared.scope);
        let limit = limit.to_string();
        let mut query = vec![("labelSelector", selector.as_str()), ("limit", &limit)];
        if !after.is_empty() {
            query.push(("continue", after));
        }
        let url = self.url(None).with_query(&query);
        let reply = self.ask(Method::GET, &url, METADATA_ONLY, &Value::Null).await?;
        let date = reply.headers.get(DATE).and_then(|date| jiff::fmt::rfc2822::parse(date.to_str().ok()?).ok());
        Ok((parse(&reply)?, date.map(|date| date.timestamp())))
    }

    async fn names(&self) -> Result<Vec<String>, StoreError> {
        let (mut names, mut after) = (Vec::new(), String::new());
        let prefix = self.config_map_name("");
        for _ in 0..PAGE.1 {
            let (page, _) = self.page(PAGE.0, &after).await?;
            let items = page["items"].as_array().into_iter().flatten();
            let found = items.filter_map(|item| item["metadata"]["name"].as_str()?.strip_prefix(&prefix));
            names.extend(found.map(str::to_owned));
            page["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut after);
            if after.is_empty() {
                break;
            }
        }
        Ok(names)
    }
}

impl Store for KubernetesStore {
    fn describe(&self) -> String {
        format!("kubernetes://{}", self.shared.namespace)
    }

    fn create<'a>(&'a self, name: &'a str, body: &'a [u8]) -> Answering<'a, Written> {
        Box::pin(async move {
            let map = self.config_map(name, None, body);
            self.write(Method::POST, &self.url(None), map).await
        })
    }

    fn read<'a>(&'a self, name: &'a str) -> Answering<'a, Option<Entry>> {
        Box::pin(async move {
            let reply = self.ask(Method::GET, &self.url(Some(name)), "application/json", &Value::Null).await?;
            if reply.status == 404 {
                return Ok(None);
            }
            let map = parse(&reply)?;
            let body = map["data"]["document"].as_str().unwrap_or_default().as_bytes().to_vec();
            Ok(Some(Entry { version: version_of(&map)?, body }))
        })
    }

    fn swap<'a>(&'a self, name: &'a str, version: &'a Version, body: &'a [u8]) -> Answering<'a, Written> {
        Box::pin(async move {
            let map = self.config_map(name, Some(version), body);
            self.write(Method::PUT, &self.url(Some(name)), map).await
        })
    }

    fn delete<'a>(&'a self, name: &'a str, version: &'a Version) -> Answering<'a, bool> {
        Box::pin(async move {
            let only_if = json!({
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": { "resourceVersion": version.0 },
            });
            let reply = self.ask(Method::DELETE, &self.url(Some(name)), "application/json", &only_if).await?;
            Ok(!matches!(reply.status, 404 | 409))
        })
    }

    fn list(&self) -> Answering<'_, Vec<String>> {
        Box::pin(self.names())
    }

    fn time(&self) -> Answering<'_, Timestamp> {
        Box::pin(async move {
            let (_, time) = self.page(1, "").await?;
            time.ok_or_else(|| StoreError::Unreachable("an answer without a date".to_owned()))
        })
    }
}

fn parse(reply: &Reply) -> Result<Value, StoreError> {
    reply.json().ok_or_else(|| StoreError::Unreachable("an answer that is not the API's".to_owned()))
}

fn version_of(map: &Value) -> Result<Version, StoreError> {
    let version = map["metadata"]["resourceVersion"].as_str();
    version
        .map(|version| Version(version.to_owned()))
        .ok_or_else(|| StoreError::Unreachable("an answer without a version".to_owned()))
}

fn of_outcome(outcome: Outcome) -> StoreError {
    match outcome {
        Outcome::Retry { reason, .. } | Outcome::Reject { reason } => StoreError::Unreachable(reason),
        Outcome::Delivered { .. } => StoreError::Unreachable("no answer".to_owned()),
    }
}

/// What the API says of a failure.
fn message(reply: &Reply) -> String {
    let text = reply.json().and_then(|status| Some(status["message"].as_str()?.to_owned()));
    text.unwrap_or_else(|| format!("answered {}", reply.status))
}
