//! Free TCP ports on loopback, for servers that must be stopped and started again on the same port.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the range from which Linux takes ports for outgoing connections (32768 up by default), so that a port stays
/// free while its server is down.
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;

/// A port that nothing listens on, another one at each call.
///
/// # Panics
/// Where every port of the range is taken.
pub fn free() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Processes that run side by side start far from each other.
    let offset = std::process::id().wrapping_mul(97);
    (0..COUNT)
        .map(|_| FIRST + offset.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT)
        .map(|port| u16::try_from(port).expect("the range ends below 65536"))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("one of 12000 ports is free")
}
