//! Which handshakes a daemon takes up: limits before anything is known of the other side.
//!
//! A state machine: time comes in as an argument. Buckets of tokens for each source network and for all;
//! who has too many gets no answer at all, so that the daemon is no amplifier.

use std::collections::BTreeMap;
use std::net::IpAddr;

use edgedyno_shared::units::Nanos;

/// Open handshakes beyond which an address must first be shown to be the sender's.
const UNVALIDATED: usize = 8;

/// Handshakes a second from one source network.
const PER_SOURCE: i64 = 10;

/// Handshakes a second from everywhere.
const IN_ALL: i64 = 50;

/// Source networks remembered; beyond, those that are full again are forgotten.
const SOURCES: usize = 1024;

const SECOND: i64 = 1_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    Accept,
    /// Ask the sender to show that the address is its own.
    Validate,
    Ignore,
}

#[derive(Debug)]
pub struct Gate {
    all: Bucket,
    sources: BTreeMap<[u8; 8], Bucket>,
}

/// Tokens in billionths, so that a rate per second needs no fractions.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    billionths: i64,
    rate: i64,
    at: Nanos,
}

impl Bucket {
    /// Holds one second's worth.
    fn full(rate: i64, now: Nanos) -> Self {
        let billionths = rate * SECOND;
        Self {
            billionths,
            rate,
            at: now,
        }
    }

    fn fill(&mut self, now: Nanos) {
        let passed = now.0.saturating_sub(self.at.0).clamp(0, SECOND);
        let most = self.rate * SECOND;
        self.billionths = (self.billionths + passed * self.rate).min(most);
        self.at = now;
    }

    fn is_full(&self) -> bool {
        self.billionths == self.rate * SECOND
    }

    fn take(&mut self) -> bool {
        let has = self.billionths >= SECOND;
        if has {
            self.billionths -= SECOND;
        }
        has
    }
}

impl Gate {
    pub fn new(now: Nanos) -> Self {
        Self {
            all: Bucket::full(IN_ALL, now),
            sources: BTreeMap::new(),
        }
    }

    /// Decides about one handshake. `open` counts those not yet finished.
    pub fn judge(&mut self, now: Nanos, from: IpAddr, is_validated: bool, open: usize) -> Entry {
        if open >= UNVALIDATED && !is_validated {
            // Costs no token: an answer of a few bytes to the first packet of anybody.
            return Entry::Validate;
        }
        self.all.fill(now);
        self.forget(now);
        let room = self.sources.len() < SOURCES;
        let source = match self.sources.entry(network(from)) {
            std::collections::btree_map::Entry::Vacant(_) if !room => return Entry::Ignore,
            entry => entry.or_insert_with(|| Bucket::full(PER_SOURCE, now)),
        };
        source.fill(now);
        match source.take() && self.all.take() {
            true => Entry::Accept,
            false => Entry::Ignore,
        }
    }

    fn forget(&mut self, now: Nanos) {
        if self.sources.len() < SOURCES {
            return;
        }
        self.sources.retain(|_, bucket| {
            bucket.fill(now);
            !bucket.is_full()
        });
    }
}

/// What one sender can vary at will: the host part of an IPv6 network, nothing of IPv4 beyond a /24.
fn network(address: IpAddr) -> [u8; 8] {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            [0, 0, 0, 0, 4, a, b, c]
        }
        IpAddr::V6(v6) => {
            let all = v6.octets();
            std::array::from_fn(|at| all[at])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(host: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, host])
    }

    fn count(gate: &mut Gate, now: Nanos, tries: usize, from: impl Fn(usize) -> IpAddr) -> usize {
        let accepted = |at: &usize| gate.judge(now, from(*at), true, 0) == Entry::Accept;
        (0..tries).filter(accepted).count()
    }

    #[test]
    fn one_network_gets_ten_handshakes_a_second() {
        let mut gate = Gate::new(Nanos(0));
        assert_eq!(count(&mut gate, Nanos(0), 100, |at| v4(at as u8)), 10);
        assert_eq!(count(&mut gate, Nanos::from_millis(99), 100, |_| v4(1)), 0);
        assert_eq!(count(&mut gate, Nanos::from_millis(500), 100, |_| v4(1)), 5);
        assert_eq!(count(&mut gate, Nanos::from_secs(60), 100, |_| v4(1)), 10);
    }

    #[test]
    fn all_networks_together_get_fifty() {
        let mut gate = Gate::new(Nanos(0));
        let from = |at: usize| IpAddr::from([10, 0, at as u8, 1]);
        assert_eq!(count(&mut gate, Nanos(0), 200, from), 50);
    }

    #[test]
    fn an_ipv6_sender_cannot_hide_in_its_own_network() {
        let mut gate = Gate::new(Nanos(0));
        let from = |at: usize| IpAddr::from([0xfd00, 1, 2, 3, 0, 0, 0, at as u16]);
        assert_eq!(count(&mut gate, Nanos(0), 100, from), 10);
        assert_eq!(
            network(IpAddr::from([0, 0, 0, 0, 0, 0xffff, 0x0a00, 1])),
            network(v4(9))
        );
    }

    #[test]
    fn many_open_handshakes_ask_for_a_true_address_first() {
        let mut gate = Gate::new(Nanos(0));
        assert_eq!(gate.judge(Nanos(0), v4(1), false, 7), Entry::Accept);
        assert_eq!(gate.judge(Nanos(0), v4(1), false, 8), Entry::Validate);
        assert_eq!(gate.judge(Nanos(0), v4(1), true, 8), Entry::Accept);
    }

    #[test]
    fn a_flood_of_sources_takes_no_memory_without_end() {
        let mut gate = Gate::new(Nanos(0));
        for at in 0..100_000_u32 {
            let [_, b, c, d] = at.to_be_bytes();
            gate.judge(
                Nanos(i64::from(at) * 1000),
                IpAddr::from([b, c, d, 1]),
                true,
                0,
            );
        }
        assert!(gate.sources.len() <= SOURCES);
        let later = Nanos::from_secs(2);
        assert_eq!(gate.judge(later, v4(1), true, 0), Entry::Accept);
    }
}
