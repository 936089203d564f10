//! Claims in ZooKeeper: one persistent node each, below a root of our own. Works from ZooKeeper 3.4 on.
//!
//! Connected to on demand and left a few seconds later, so that an agent that has nothing to tell costs ZooKeeper nothing.
//! Since no node is ephemeral, a session means nothing here: after any fault the next call begins a new one, perhaps with
//! another server. A version is the node's data version together with the transaction that wrote it, so that a node that
//! was deleted and made anew is another one.
//!
//! Neither SASL (Kerberos) nor TLS is spoken. A ZooKeeper that wants them refuses, and every agent sends.

mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use self::wire::{Connection, Fault, Reply, Request};
use super::store::{Answering, Entry, Store, StoreError, Version, Written};
use crate::target::resolver::Resolver;

/// How long it is tried to get a session, and how long an answer may take: together no longer than the gate waits.
const PATIENCE: Duration = Duration::from_millis(2000);
/// Time between two rounds over the servers.
const ROUND: Duration = Duration::from_millis(200);
/// An unused connection is closed after this time; less than any session lives.
const IDLE: Duration = Duration::from_secs(2);
/// The node whose time of writing is ZooKeeper's own clock.
const CLOCK: &str = "clock";
/// Stands for any version of a node.
const ANY_VERSION: i32 = -1;

/// Claims in ZooKeeper.
#[derive(Clone)]
pub struct ZooKeeperStore {
    shared: Arc<Shared>,
}

struct Shared {
    servers: Vec<(String, u16)>,
    root: String,
    resolver: Resolver,
    patience: Duration,
    /// The server that is asked first.
    first: AtomicUsize,
    idle: Mutex<Option<(Connection, Instant)>>,
}

impl ZooKeeperStore {
    /// Claims below the node `root`, which begins with `/` and is made when it is needed.
    pub fn new(servers: Vec<(String, u16)>, root: &str, resolver: Resolver) -> ZooKeeperStore {
        ZooKeeperStore::with_patience(servers, root, resolver, PATIENCE)
    }

    pub(super) fn with_patience(
        servers: Vec<(String, u16)>,
        root: &str,
        resolver: Resolver,
        patience: Duration,
    ) -> ZooKeeperStore {
        let first = AtomicUsize::new(fastrand::usize(..servers.len().max(1)));
        let shared = Shared { servers, root: root.to_owned(), resolver, patience, first, idle: Mutex::default() };
        ZooKeeperStore { shared: Arc::new(shared) }
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.shared.root)
    }

    /// Puts one request, over the connection of the last one where it is still good. A write whose answer was lost is put
    /// once more then, and may find its own trace: whoever asked is told that it was refused, reads, and finds it.
    async fn ask(&self, request: &Request<'_>) -> Result<Reply, Fault> {
        if let Some(mut connection) = self.shared.take_idle() {
            let answer = connection.ask(request).await;
            if !matches!(answer, Err(Fault::Connection(_))) {
                self.keep(connection);
                return answer;
            }
        }
        let mut connection = self.shared.connect().await?;
        let answer = connection.ask(request).await;
        if !matches!(answer, Err(Fault::Connection(_))) {
            self.keep(connection);
        }
        answer
    }

    fn keep(&self, connection: Connection) {
        let used = Instant::now();
        *self.shared.idle.lock() = Some((connection, used));
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            sleep(IDLE).await;
            if let Some(connection) = shared.take_unused_since(used) {
                connection.close().await;
            }
        });
    }

    async fn create_at(&self, path: &str, body: &[u8]) -> Result<Written, Fault> {
        match self.ask(&Request::Create { path, body }).await {
            Ok(reply) => Ok(Written::Done(version_of(0, reply.transaction))),
            Err(Fault::NodeExists) => Ok(Written::Refused),
            Err(fault) => Err(fault),
        }
    }

    async fn create_with_parents(&self, path: &str, body: &[u8]) -> Result<Written, Fault> {
        match self.create_at(path, body).await {
            Err(Fault::NoNode) => {}
            created => return created,
        }
        let root = &self.shared.root;
        let ends = root.match_indices('/').map(|(at, _)| at).skip(1).chain([root.len()]);
        for end in ends {
            self.create_at(&root[..end], b"").await?;
        }
        self.create_at(path, body).await
    }

    async fn time_of_a_write(&self) -> Result<Timestamp, Fault> {
        let path = self.path(CLOCK);
        let set = Request::Set { path: &path, version: ANY_VERSION, body: b"" };
        let reply = match self.ask(&set).await {
            Err(Fault::NoNode) => {
                self.create_with_parents(&path, b"").await?;
                self.ask(&set).await?
            }
            reply => reply?,
        };
        let stat = reply.stat.ok_or_else(|| Fault::connection("an answer without a time"))?;
        Timestamp::from_millisecond(stat.modified_ms).map_err(|error| Fault::connection(error.to_string()))
    }
}

impl Shared {
    fn take_idle(&self) -> Option<Connection> {
        let (connection, used) = self.idle.lock().take()?;
        (used.elapsed() < IDLE).then_some(connection)
    }

    fn take_unused_since(&self, used: Instant) -> Option<Connection> {
        let mut idle = self.idle.lock();
        let is_unused = idle.as_ref().is_some_and(|(_, last)| *last == used);
        if !is_unused {
            return None;
        }
        idle.take().map(|(connection, _)| connection)
    }

    /// A session with any of the servers, which are tried in rounds.
    async fn connect(&self) -> Result<Connection, Fault> {
        let mut last = Fault::connection("no server is configured");
        let until = Instant::now() + self.patience;
        // One of several that does not answer leaves time for another.
        let each = if self.servers.len() > 1 { self.patience / 2 } else { self.patience };
        loop {
            for _ in 0..self.servers.len() {
                let number = self.first.load(Ordering::Relaxed) % self.servers.len();
                let (host, port) = &self.servers[number];
                let fault = match timeout_at(until.min(Instant::now() + each), self.connect_to(host, *port)).await {
                    Ok(Ok(connection)) => return Ok(connection),
                    Ok(Err(fault)) => fault,
                    Err(_) => Fault::connection(format!("no session within {} ms", each.as_millis())),
                };
                last = fault.of_server(host, *port);
                self.first.store(number + 1, Ordering::Relaxed);
            }
            if Instant::now() + ROUND >= until {
                return Err(last);
            }
            sleep(ROUND).await;
        }
    }

    async fn connect_to(&self, host: &str, port: u16) -> Result<Connection, Fault> {
        let addresses = self.resolver.addresses(host).await.map_err(Fault::connection)?;
        let mut last = Fault::connection("the host has no address");
        for address in addresses {
            match Connection::open((address, port).into(), self.patience).await {
                Ok(connection) => return Ok(connection),
                Err(fault) => last = fault,
            }
        }
        Err(last)
    }
}

impl Store for ZooKeeperStore {
    fn describe(&self) -> String {
        let servers: Vec<String> = self.shared.servers.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        format!("zookeeper://{}{}", servers.join(","), self.shared.root)
    }

    fn create<'a>(&'a self, name: &'a str, body: &'a [u8]) -> Answering<'a, Written> {
        Box::pin(async move { Ok(self.create_with_parents(&self.path(name), body).await?) })
    }

    fn read<'a>(&'a self, name: &'a str) -> Answering<'a, Option<Entry>> {
        Box::pin(async move {
            match self.ask(&Request::Get { path: &self.path(name) }).await {
                Ok(Reply { body, stat: Some(stat), .. }) => {
                    Ok(Some(Entry { version: version_of(stat.version, stat.transaction), body }))
                }
                Ok(_) => Err(Fault::connection("an answer without a version").into()),
                Err(Fault::NoNode) => Ok(None),
                Err(fault) => Err(fault.into()),
            }
        })
    }

    fn swap<'a>(&'a self, name: &'a str, version: &'a Version, body: &'a [u8]) -> Answering<'a, Written> {
        Box::pin(async move {
            let Some(version) = data_version(version) else { return Ok(Written::Refused) };
            match self.ask(&Request::Set { path: &self.path(name), version, body }).await {
                Ok(reply) => Ok(Written::Done(version_of(version + 1, reply.transaction))),
                Err(Fault::NoNode | Fault::BadVersion) => Ok(Written::Refused),
                Err(fault) => Err(fault.into()),
            }
        })
    }

    fn delete<'a>(&'a self, name: &'a str, version: &'a Version) -> Answering<'a, bool> {
        Box::pin(async move {
            let Some(version) = data_version(version) else { return Ok(false) };
            match self.ask(&Request::Delete { path: &self.path(name), version }).await {
                Ok(_) => Ok(true),
                Err(Fault::NoNode | Fault::BadVersion) => Ok(false),
                Err(fault) => Err(fault.into()),
            }
        })
    }

    fn list(&self) -> Answering<'_, Vec<String>> {
        Box::pin(async move {
            match self.ask(&Request::Children { path: &self.shared.root }).await {
                Ok(reply) => Ok(reply.children.into_iter().filter(|name| name != CLOCK).collect()),
                Err(Fault::NoNode) => Ok(Vec::new()),
                Err(fault) => Err(fault.into()),
            }
        })
    }

    fn time(&self) -> Answering<'_, Timestamp> {
        Box::pin(async move { Ok(self.time_of_a_write().await?) })
    }
}

fn version_of(version: i32, transaction: i64) -> Version {
    Version(format!("{version}.{transaction:x}"))
}

fn data_version(version: &Version) -> Option<i32> {
    version.0.split_once('.')?.0.parse().ok()
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> StoreError {
        match fault {
            Fault::Connection(reason) => StoreError::Unreachable(reason),
            Fault::NotAllowed => StoreError::Forbidden(
                "nodes cannot be written without login, and SASL (Kerberos) is not supported; let everybody write below \
                 `/leaderwatch`, or set `claim.store` to another store"
                    .to_owned(),
            ),
            Fault::NoNode => StoreError::Unreachable("a node went that was just made".to_owned()),
            Fault::NodeExists | Fault::BadVersion => StoreError::Unreachable("an answer to another question".to_owned()),
            Fault::Other(code) => StoreError::Unreachable(format!("error {code} of ZooKeeper")),
        }
    }
}
