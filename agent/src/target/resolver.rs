//! Name look-ups that cannot pile up: at most one in flight for each host, and the last good answer where the name service
//! does not answer.
//!
//! `getaddrinfo` blocks, cannot be cancelled, and may take tens of seconds when a name server is gone. It runs on tokio's
//! blocking pool, which holds two threads: with one look-up a host, a name that hangs takes one of them, however often its
//! target retries.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::watch;
use tokio::time::timeout;

/// After so long the last good answer is used, if there is one; the look-up goes on.
const PATIENCE: Duration = Duration::from_secs(3);

type LookUp = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;
type Answer = Result<Vec<IpAddr>, String>;

/// Looks names up. Clones share what is in flight and what is known.
#[derive(Clone)]
pub struct Resolver {
    shared: Arc<Shared>,
}

struct Shared {
    look_up: Box<LookUp>,
    hosts: Mutex<HashMap<String, Host>>,
}

#[derive(Default)]
struct Host {
    in_flight: Option<watch::Receiver<Option<Answer>>>,
    last_good: Option<Vec<IpAddr>>,
}

impl Default for Resolver {
    /// Asks the operating system.
    fn default() -> Self {
        Self::new(|host| Ok((host, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
    }
}

impl Resolver {
    /// Asks `look_up`, which may block.
    pub fn new(look_up: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self { shared: Arc::new(Shared { look_up: Box::new(look_up), hosts: Mutex::default() }) }
    }

    /// The addresses of a host, of which there is at least one; or why there are none. Waits as long as the look-up takes
    /// where nothing is known of the host, so the caller limits the time.
    pub async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = literal.parse() {
            return Ok(vec![address]);
        }
        let mut answer = self.ask(host);
        if timeout(PATIENCE, answer.wait_for(Option::is_some)).await.is_err()
            && let Some(known) = self.last_good(host)
        {
            return Ok(known);
        }
        let fresh = answer.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
        match fresh.unwrap_or_else(|| Err("the look-up was broken off".into())) {
            Ok(addresses) => Ok(addresses),
            Err(why) => self.last_good(host).ok_or(why),
        }
    }

    /// Joins the look-up in flight, or starts one.
    fn ask(&self, host: &str) -> watch::Receiver<Option<Answer>> {
        let mut hosts = self.shared.hosts.lock();
        let entry = hosts.entry(host.to_owned()).or_default();
        if let Some(in_flight) = &entry.in_flight {
            return in_flight.clone();
        }
        let (sender, receiver) = watch::channel(None);
        entry.in_flight = Some(receiver.clone());
        drop(hosts);
        let (shared, name) = (Arc::clone(&self.shared), host.to_owned());
        tokio::spawn(async move {
            let (asked, asked_name) = (Arc::clone(&shared), name.clone());
            let looked_up = tokio::task::spawn_blocking(move || (asked.look_up)(&asked_name)).await;
            let answer = match looked_up {
                Ok(Ok(addresses)) if addresses.is_empty() => Err(format!("`{name}` has no address")),
                Ok(Ok(addresses)) => Ok(addresses),
                Ok(Err(error)) => Err(format!("cannot look up `{name}`: {error}")),
                Err(_) => Err(format!("the look-up of `{name}` was broken off")),
            };
            let mut hosts = shared.hosts.lock();
            let entry = hosts.entry(name).or_default();
            entry.in_flight = None;
            if let Ok(addresses) = &answer {
                entry.last_good = Some(addresses.clone());
            }
            drop(hosts);
            // Whoever asked may have given up.
            let _ = sender.send(Some(answer));
        });
        receiver
    }

    fn last_good(&self, host: &str) -> Option<Vec<IpAddr>> {
        self.shared.hosts.lock().get(host)?.last_good.clone()
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let addresses = resolver.addresses(name.as_str()).await?;
            // Port 0 stands for the port of the URL.
            Ok(Box::new(addresses.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    /// A look-up that hangs until told to go on, and the number of times it was asked.
    fn hanging() -> (Resolver, mpsc::Sender<io::Result<Vec<IpAddr>>>, Arc<AtomicUsize>) {
        let (go_on, gate) = mpsc::channel::<io::Result<Vec<IpAddr>>>();
        let (gate, asked) = (Mutex::new(gate), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&asked);
        let resolver = Resolver::new(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            gate.lock().recv().unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        });
        (resolver, go_on, asked)
    }

    #[tokio::test]
    async fn one_host_has_one_look_up_in_flight_however_often_it_is_asked_for() {
        let (resolver, go_on, asked) = hanging();
        for _ in 0..10 {
            let waited = timeout(Duration::from_millis(5), resolver.addresses("hangs.example")).await;
            assert!(waited.is_err());
        }
        go_on.send(Ok(vec![ADDRESS])).unwrap();
        assert_eq!(resolver.addresses("hangs.example").await, Ok(vec![ADDRESS]));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn the_last_good_answer_is_used_when_the_name_service_fails() {
        let (resolver, go_on, asked) = hanging();
        go_on.send(Ok(vec![ADDRESS])).unwrap();
        assert_eq!(resolver.addresses("host.example").await, Ok(vec![ADDRESS]));
        go_on.send(Err(io::ErrorKind::NotFound.into())).unwrap();
        assert_eq!(resolver.addresses("host.example").await, Ok(vec![ADDRESS]));
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn an_unknown_name_is_an_error_that_names_it() {
        let resolver = Resolver::new(|_| Err(io::Error::other("no such host")));
        let error = resolver.addresses("gone.example").await.unwrap_err();
        assert_eq!(error, "cannot look up `gone.example`: no such host");
    }

    #[tokio::test]
    async fn an_address_needs_no_look_up() {
        let resolver = Resolver::new(|_| Err(io::Error::other("asked")));
        assert_eq!(resolver.addresses("192.0.2.1").await, Ok(vec![ADDRESS]));
        assert_eq!(resolver.addresses("[::1]").await, Ok(vec!["::1".parse().unwrap()]));
    }
}
