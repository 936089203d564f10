//! Claims over an API of Kubernetes that behaves as the real one does where claims depend on it: optimistic concurrency by
//! `resourceVersion`, preconditions, labels, pages, and a token that changes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::kubernetes::KubernetesStore;
use super::store::{Store, StoreError, Version, Written};
use super::store_tests::{conforms, counts, done, one_of_two_hundred_sends};
use crate::target::fake::{Request, read_request};
use crate::target::resolver::Resolver;
use crate::target::secret::SecretUrl;

const CONFIG_MAPS: &str = "/api/v1/namespaces/flink/configmaps";

#[derive(Default)]
struct Api {
    token: String,
    versions: u64,
    maps: BTreeMap<String, Value>,
    pages: usize,
    accepted: Vec<String>,
}

impl Api {
    fn answer(&mut self, request: &Request) -> (u16, Value) {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        if request.header("authorization") != Some(&format!("Bearer {}", self.token)) {
            return (401, status("Unauthorized"));
        }
        let Some(name) = path.strip_prefix(CONFIG_MAPS) else { return (404, status("no such path")) };
        let name = name.trim_start_matches('/').to_owned();
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        match request.method.as_str() {
            "POST" => self.create(body),
            "PUT" => self.put(&name, body),
            "DELETE" => self.delete(&name, &body),
            "GET" if name.is_empty() => {
                self.accepted.push(request.header("accept").unwrap_or_default().to_owned());
                self.list(query)
            }
            "GET" => self.maps.get(&name).map_or((404, status("not found")), |map| (200, map.clone())),
            _ => (405, status("method not allowed")),
        }
    }

    fn write(&mut self, name: &str, mut map: Value) -> Value {
        self.versions += 1;
        map["metadata"]["resourceVersion"] = json!(self.versions.to_string());
        self.maps.insert(name.to_owned(), map.clone());
        map
    }

    fn create(&mut self, map: Value) -> (u16, Value) {
        let name = map["metadata"]["name"].as_str().unwrap().to_owned();
        if self.maps.contains_key(&name) {
            return (409, status("already exists"));
        }
        (201, self.write(&name, map))
    }

    fn put(&mut self, name: &str, map: Value) -> (u16, Value) {
        assert_eq!(map["metadata"]["name"], name);
        match self.maps.get(name) {
            None => (404, status("not found")),
            Some(there) if there["metadata"]["resourceVersion"] != map["metadata"]["resourceVersion"] => {
                (409, status("the object has been modified"))
            }
            Some(_) => (200, self.write(name, map)),
        }
    }

    fn delete(&mut self, name: &str, options: &Value) -> (u16, Value) {
        let wanted = &options["preconditions"]["resourceVersion"];
        match self.maps.get(name) {
            None => (404, status("not found")),
            Some(there) if there["metadata"]["resourceVersion"] != *wanted => (409, status("the precondition failed")),
            Some(_) => {
                self.maps.remove(name);
                (200, status("deleted"))
            }
        }
    }

    fn list(&mut self, query: &str) -> (u16, Value) {
        self.pages += 1;
        let query: BTreeMap<String, String> =
            reqwest::Url::parse(&format!("http://x/?{query}")).unwrap().query_pairs().into_owned().collect();
        let (label, value) = query["labelSelector"].split_once('=').unwrap();
        // As a real one may, it gives fewer than were asked for.
        let limit: usize = query["limit"].parse::<usize>().unwrap().min(2);
        let after = query.get("continue").map_or("", String::as_str);
        let mut found =
            self.maps.iter().filter(|(name, map)| name.as_str() > after && map["metadata"]["labels"][label] == value);
        let page: Vec<Value> =
            found.by_ref().take(limit).map(|(_, map)| json!({ "metadata": map["metadata"] })).collect();
        let more = found.next().is_some();
        let last = page.last().map_or(Value::Null, |map| map["metadata"]["name"].clone());
        (200, json!({ "metadata": { "continue": if more { last } else { json!("") } }, "items": page }))
    }
}

fn status(message: &str) -> Value {
    json!({ "kind": "Status", "message": message })
}

/// The API on a thread of its own.
struct Server {
    address: SocketAddr,
    api: Arc<Mutex<Api>>,
    credentials: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        let api = Arc::new(Mutex::new(Api { token: "first".into(), ..Api::default() }));
        let credentials = tempfile::tempdir().unwrap();
        std::fs::write(credentials.path().join("token"), "first\n").unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let served = Arc::clone(&api);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                while let Ok((mut stream, _)) = listener.accept().await {
                    let api = Arc::clone(&served);
                    tokio::spawn(async move {
                        let Ok(request) = read_request(&mut stream).await else { return };
                        let (status, body) = api.lock().answer(&request);
                        let body = body.to_string();
                        let head = format!(
                            "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                             date: Mon, 30 Nov 2026 10:00:00 GMT\r\nconnection: close\r\n\r\n",
                            body.len()
                        );
                        // Whoever asked may be gone.
                        let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
                        let _ = stream.shutdown().await;
                    });
                }
            });
        });
        Server { address: told.recv().unwrap(), api, credentials }
    }

    fn store(&self, cluster: &str) -> KubernetesStore {
        let base = SecretUrl::parse(&format!("http://{}/", self.address)).unwrap();
        KubernetesStore::new(base, self.credentials.path(), "flink", cluster, Resolver::default())
    }
}

#[tokio::test]
async fn an_api_conforms_and_clusters_are_kept_apart() {
    let server = Server::start();
    let other = server.store("flink.other");
    done(other.create("claim-9", b"other").await.unwrap());
    conforms(&server.store("flink.orders")).await;
    assert_eq!(other.list().await.unwrap(), ["claim-9"]);
    let api = server.api.lock();
    for (name, map) in &api.maps {
        assert!(name.starts_with("leaderwatch-"), "{name}");
        let labels = &map["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/managed-by"], "leaderwatch");
        // Flink deletes by these.
        assert!(labels.get("app").is_none() && labels.get("configmap-type").is_none());
    }
    assert!(api.accepted.iter().all(|accept| accept.contains("as=PartialObjectMetadataList")));
}

#[tokio::test]
async fn a_list_of_several_pages_is_read_to_its_end() {
    let server = Server::start();
    let store = server.store("flink.orders");
    for number in 0..5 {
        done(store.create(&format!("claim-{number}"), b"x").await.unwrap());
    }
    assert_eq!(store.list().await.unwrap().len(), 5);
    assert_eq!(server.api.lock().pages, 3);
}

#[test]
fn no_write_is_lost_and_two_hundred_agents_agree() {
    let server = Server::start();
    counts(|| Arc::new(server.store("flink.orders")));
    one_of_two_hundred_sends(|| Arc::new(server.store("flink.other")));
}

#[tokio::test]
async fn a_new_token_is_used_and_a_missing_right_is_said() {
    let server = Server::start();
    let store = server.store("flink.orders");
    done(store.create("claim-1", b"x").await.unwrap());
    server.api.lock().token = "second".into();
    let error = store.read("claim-1").await.unwrap_err();
    assert_eq!(
        error,
        StoreError::Forbidden(
            "Unauthorized; its service account needs create, get, update, delete and list on configmaps".into()
        )
    );
    std::fs::write(server.credentials.path().join("token"), "second").unwrap();
    assert!(store.read("claim-1").await.unwrap().is_some());
    assert!(!format!("{error:?}").contains("first"));
}

#[tokio::test]
async fn the_time_is_the_apis_own() {
    let server = Server::start();
    let time = server.store("x").time().await.unwrap();
    assert_eq!(time.to_string(), "2026-11-30T10:00:00Z");
}

#[tokio::test]
async fn an_api_that_is_gone_or_odd_is_unreachable() {
    let server = Server::start();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let at = |base: String, credentials: &Path, namespace: &str| {
        KubernetesStore::new(SecretUrl::parse(&base).unwrap(), credentials, namespace, "x", Resolver::default())
    };
    let credentials = server.credentials.path();
    let store = at(format!("http://{gone}/"), credentials, "flink");
    assert!(matches!(store.read("claim-1").await.unwrap_err(), StoreError::Unreachable(_)));
    let no_namespace = at(format!("http://{}/", server.address), credentials, "none");
    assert!(matches!(no_namespace.create("claim-1", b"x").await.unwrap_err(), StoreError::Unreachable(_)));
    let no_token = at(format!("http://{}/", server.address), Path::new("/nowhere"), "flink");
    assert!(matches!(no_token.read("claim-1").await.unwrap_err(), StoreError::Forbidden(_)));
    let store = server.store("x");
    let version = Version("1".into());
    assert_eq!(store.swap("claim-1", &version, b"x").await.unwrap(), Written::Refused);
}
