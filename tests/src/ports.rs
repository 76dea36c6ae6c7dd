//! Ports for programs that are told theirs, and that use it again after a restart.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below those that the system gives to whoever asks for any: nobody is given one of these meanwhile.
const FIRST: u32 = 12_000;
const COUNT: u32 = 16_000;

/// A port of this machine that is free for TCP and for UDP, and that this process had not before.
///
/// # Panics
/// When there is none.
pub fn free() -> u16 {
    static HAD: AtomicU32 = AtomicU32::new(0);
    let own = process::id().wrapping_mul(37);
    let mut tried = (0..COUNT).map(|_| {
        let at = own.wrapping_add(HAD.fetch_add(1, Ordering::Relaxed)) % COUNT;
        u16::try_from(FIRST + at).expect("a port")
    });
    tried.find(|port| is_free(*port)).expect("a free port")
}

fn is_free(port: u16) -> bool {
    let here = (Ipv4Addr::LOCALHOST, port);
    TcpListener::bind(here).is_ok() && UdpSocket::bind(here).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_for_either_is_not_free() {
        let port = free();
        assert_ne!(port, free());
        let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(!is_free(port));
        drop(taken);
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(!is_free(port));
        drop(taken);
        assert!(is_free(port));
    }
}
