//! A store in memory for tests, with faults on demand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::store::{Answering, Entry, Store, StoreError, Version, Written};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Fault {
    #[default]
    None,
    /// Errors at once.
    Refuses,
    /// Never answers.
    Hangs,
    /// Does as it is told and never says so.
    Mute,
}

/// Version and content of each, by name.
type Documents = BTreeMap<String, (u64, Vec<u8>)>;

/// Clones share the documents; each has a fault of its own.
#[derive(Clone, Default)]
pub(crate) struct MemoryStore {
    documents: Arc<Mutex<Documents>>,
    versions: Arc<AtomicU64>,
    pub(crate) calls: Arc<AtomicU64>,
    pub(crate) fault: Arc<Mutex<Fault>>,
    /// Its own clock: seconds since the epoch.
    pub(crate) seconds: Arc<AtomicU64>,
}

impl MemoryStore {
    /// The same documents seen by another agent, with faults of its own.
    pub(crate) fn another(&self) -> MemoryStore {
        MemoryStore { fault: Arc::default(), ..self.clone() }
    }

    pub(crate) fn break_by(&self, fault: Fault) {
        *self.fault.lock() = fault;
    }

    pub(crate) fn body(&self, name: &str) -> Option<Vec<u8>> {
        self.documents.lock().get(name).map(|(_, body)| body.clone())
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.documents.lock().keys().cloned().collect()
    }

    fn do_it<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Documents, u64) -> T + Send + 'static,
    ) -> Answering<'_, T> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            // As over a network, others may come between.
            tokio::task::yield_now().await;
            let fault = *self.fault.lock();
            match fault {
                Fault::Refuses => return Err(StoreError::Unreachable("connection refused".into())),
                Fault::Hangs => {}
                Fault::None | Fault::Mute => {
                    let version = self.versions.fetch_add(1, Ordering::SeqCst) + 1;
                    let answer = what(&mut self.documents.lock(), version);
                    if fault == Fault::None {
                        return Ok(answer);
                    }
                }
            }
            tokio::time::sleep(Duration::from_secs(1_000_000)).await;
            Err(StoreError::Unreachable("connection lost".into()))
        })
    }
}

fn version_of(number: u64) -> Version {
    Version(number.to_string())
}

impl Store for MemoryStore {
    fn describe(&self) -> String {
        "in memory".into()
    }

    fn create<'a>(&'a self, name: &'a str, body: &'a [u8]) -> Answering<'a, Written> {
        let (name, body) = (name.to_owned(), body.to_vec());
        self.do_it(move |documents, version| {
            if documents.contains_key(&name) {
                return Written::Refused;
            }
            documents.insert(name, (version, body));
            Written::Done(version_of(version))
        })
    }

    fn read<'a>(&'a self, name: &'a str) -> Answering<'a, Option<Entry>> {
        let name = name.to_owned();
        self.do_it(move |documents, _| {
            documents.get(&name).map(|(version, body)| Entry { version: version_of(*version), body: body.clone() })
        })
    }

    fn swap<'a>(&'a self, name: &'a str, version: &'a Version, body: &'a [u8]) -> Answering<'a, Written> {
        let (name, expected, body) = (name.to_owned(), version.clone(), body.to_vec());
        self.do_it(move |documents, version| match documents.get_mut(&name) {
            Some(document) if version_of(document.0) == expected => {
                *document = (version, body);
                Written::Done(version_of(version))
            }
            _ => Written::Refused,
        })
    }

    fn delete<'a>(&'a self, name: &'a str, version: &'a Version) -> Answering<'a, bool> {
        let (name, expected) = (name.to_owned(), version.clone());
        self.do_it(move |documents, _| {
            let matches = documents.get(&name).is_some_and(|(version, _)| version_of(*version) == expected);
            matches && documents.remove(&name).is_some()
        })
    }

    fn list(&self) -> Answering<'_, Vec<String>> {
        self.do_it(|documents, _| documents.keys().cloned().collect())
    }

    fn time(&self) -> Answering<'_, Timestamp> {
        let seconds = i64::try_from(self.seconds.load(Ordering::SeqCst)).unwrap();
        self.do_it(move |_, _| Timestamp::from_second(seconds).unwrap())
    }
}
