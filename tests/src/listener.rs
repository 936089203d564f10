//! A TCP server on loopback that can be down for a while and come back on the same port.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result};

use crate::ports;

type Handler = Arc<dyn Fn(TcpStream) + Send + Sync>;

/// Gives each connection to a handler, on a thread of its own.
pub struct Listener {
    port: u16,
    handler: Handler,
    up: Option<Up>,
}

struct Up {
    down: Arc<AtomicBool>,
    acceptor: JoinHandle<()>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Listener {
    /// Has a free port, but does not listen yet.
    pub fn new(handler: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        Self { port: ports::free(), handler: Arc::new(handler), up: None }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Listens (again).
    ///
    /// # Errors
    /// Where it cannot.
    pub fn come_up(&mut self) -> Result<()> {
        self.go_down();
        let listener = TcpListener::bind(("127.0.0.1", self.port)).with_context(|| format!("port {}", self.port))?;
        let (down, open) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (is_down, streams, handler) = (Arc::clone(&down), Arc::clone(&open), Arc::clone(&self.handler));
        let acceptor = std::thread::Builder::new().name("listener".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                if is_down.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(kept) = stream.try_clone() else { continue };
                streams.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
                let handler = Arc::clone(&handler);
                std::thread::spawn(move || handler(stream));
            }
        })?;
        self.up = Some(Up { down, acceptor, open });
        Ok(())
    }

    /// Refuses connections and breaks off the open ones.
    pub fn go_down(&mut self) {
        let Some(up) = self.up.take() else { return };
        up.down.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        // A panic in the acceptor was printed where it happened.
        let _ = up.acceptor.join();
        for stream in up.open.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // The other side may have closed it already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.go_down();
    }
}

/// A way to a server on another loopback port that can be cut for a while.
///
/// # Errors
/// Where it cannot listen.
pub fn proxy_to(port: u16) -> Result<Listener> {
    let mut proxy = Listener::new(move |near| {
        let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { return };
        let (Ok(near_again), Ok(far_again)) = (near.try_clone(), far.try_clone()) else { return };
        std::thread::spawn(move || pass(near_again, far_again));
        pass(far, near);
    });
    proxy.come_up()?;
    Ok(proxy)
}

/// Passes everything on until either side ends, and then ends both.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    // However it ended, it ended.
    let _ = std::io::copy(&mut from, &mut to);
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn echo() -> Listener {
        let mut server = Listener::new(|mut stream| {
            let mut copy = stream.try_clone().unwrap();
            let _ = std::io::copy(&mut stream, &mut copy);
        });
        server.come_up().unwrap();
        server
    }

    fn answer(port: u16) -> std::io::Result<[u8; 2]> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"hi")?;
        let mut bytes = [0; 2];
        stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn a_cut_proxy_breaks_connections_and_a_mended_one_takes_them_again() {
        let server = echo();
        let mut proxy = proxy_to(server.port()).unwrap();
        let mut open = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        assert_eq!(&answer(proxy.port()).unwrap(), b"hi");
        proxy.go_down();
        assert!(answer(proxy.port()).is_err());
        assert_eq!(open.read(&mut [0; 1]).unwrap_or(0), 0);
        proxy.come_up().unwrap();
        assert_eq!(&answer(proxy.port()).unwrap(), b"hi");
    }
}
