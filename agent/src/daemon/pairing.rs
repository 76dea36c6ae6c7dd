//! Letting one host in by a ticket: open for ten minutes at most, good once, closed by five wrong tries.
//!
//! A state machine: time and what arrives come in as arguments.

use std::time::Duration;

use edgedyno_shared::link::key::PublicKey;
use edgedyno_shared::link::role::Role;
use edgedyno_shared::link::ticket::Secret;
use edgedyno_shared::units::Nanos;

/// How long a ticket is good.
pub const OPEN_FOR: Duration = Duration::from_secs(600);

/// Wrong proofs that end it.
pub const TRIES: u8 = 5;

/// Names a shorter time in seconds, for who hands tickets over by a program.
pub const TIME_VARIABLE: &str = "EDGEDYNO_AGENT_TICKET";

/// How long a ticket is good here, by what the variable says.
pub fn open_for(variable: Option<&str>) -> Duration {
    let asked = variable.and_then(|text| text.trim().parse().ok());
    asked.map_or(OPEN_FOR, Duration::from_secs).min(OPEN_FOR)
}

/// As people say it.
pub fn in_words(open_for: Duration) -> String {
    match open_for.as_secs() {
        60 => "a minute".into(),
        seconds if seconds > 0 && seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

/// At most one ticket at a time; a new one ends the one before.
#[derive(Debug, Default)]
pub struct Pairing {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    secret: Secret,
    role: Role,
    until: Nanos,
    tries_left: u8,
}

/// What became of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tried {
    /// The ticket is used up with it.
    Welcome(Role),
    Wrong {
        tries_left: u8,
    },
    /// There is no ticket, or no longer.
    Closed,
}

/// What a host sends to pair: its proof, and the name that it wants. None when that is not what it is.
pub fn proof_and_name(payload: &[u8]) -> Option<(&[u8; 32], String)> {
    let (proof, name) = payload.split_first_chunk()?;
    Some((proof, String::from_utf8_lossy(name).into_owned()))
}

impl Pairing {
    /// Good for so long, and never longer than [`OPEN_FOR`].
    pub fn open(&mut self, now: Nanos, secret: Secret, role: Role, open_for: Duration) {
        let open_for = open_for.min(OPEN_FOR);
        self.open = Some(Open {
            secret,
            role,
            until: now + Nanos(open_for.as_nanos() as i64),
            tries_left: TRIES,
        });
    }

    pub fn is_open(&self, now: Nanos) -> bool {
        self.open.as_ref().is_some_and(|open| now < open.until)
    }

    /// Takes a proof of the host with that key, made over that connection's exported keying material.
    pub fn take(
        &mut self,
        now: Nanos,
        exported: &[u8; 32],
        host: PublicKey,
        proof: &[u8],
    ) -> Tried {
        let Some(open) = self.open.as_mut().filter(|open| now < open.until) else {
            self.open = None;
            return Tried::Closed;
        };
        if open.secret.is_proven(exported, host, proof) {
            let role = open.role;
            self.open = None;
            return Tried::Welcome(role);
        }
        open.tries_left -= 1;
        let tries_left = open.tries_left;
        if tries_left == 0 {
            self.open = None;
        }
        Tried::Wrong { tries_left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPORTED: [u8; 32] = [7; 32];
    const HOST: PublicKey = PublicKey([8; 32]);

    fn opened() -> (Pairing, Secret) {
        let secret = Secret([1; 10]);
        let mut pairing = Pairing::default();
        pairing.open(Nanos(0), secret.clone(), Role::Run, OPEN_FOR);
        (pairing, secret)
    }

    #[test]
    fn a_ticket_is_good_once() {
        let (mut pairing, secret) = opened();
        let proof = secret.proof(&EXPORTED, HOST);
        let taken = pairing.take(Nanos(1), &EXPORTED, HOST, &proof);
        assert_eq!(taken, Tried::Welcome(Role::Run));
        assert_eq!(
            pairing.take(Nanos(2), &EXPORTED, HOST, &proof),
            Tried::Closed
        );
        assert!(!pairing.is_open(Nanos(2)));
    }

    #[test]
    fn a_ticket_expires_after_ten_minutes() {
        let (mut pairing, secret) = opened();
        let proof = secret.proof(&EXPORTED, HOST);
        assert!(pairing.is_open(Nanos::from_secs(599)));
        let late = Nanos::from_secs(600);
        assert_eq!(pairing.take(late, &EXPORTED, HOST, &proof), Tried::Closed);
    }

    #[test]
    fn a_ticket_can_be_good_for_less_and_not_for_more() {
        for (asked, given) in [(1, 1), (3, 3), (600, 600), (601, 600), (u64::MAX, 600)] {
            let mut pairing = Pairing::default();
            let open_for = Duration::from_secs(asked);
            pairing.open(Nanos(0), Secret([1; 10]), Role::Run, open_for);
            let last = Nanos(given * 1_000_000_000 - 1);
            assert!(pairing.is_open(last), "{asked} s");
            assert!(!pairing.is_open(Nanos::from_secs(given)), "{asked} s");
        }
        for (text, seconds) in [(Some("5"), 5), (Some(" 7 "), 7), (Some("700"), 600)] {
            assert_eq!(open_for(text), Duration::from_secs(seconds));
        }
        // What is no number changes nothing.
        for text in [None, Some(""), Some("-1"), Some("long")] {
            assert_eq!(open_for(text), OPEN_FOR);
        }
    }

    #[test]
    fn how_long_a_ticket_is_good_is_said_as_it_is() {
        let said = [
            (600, "10 minutes"),
            (120, "2 minutes"),
            (60, "a minute"),
            (90, "90 s"),
            (1, "1 s"),
            (0, "0 s"),
        ];
        for (seconds, words) in said {
            assert_eq!(in_words(Duration::from_secs(seconds)), words);
        }
    }

    #[test]
    fn five_wrong_tries_burn_a_ticket() {
        let (mut pairing, secret) = opened();
        for tries_left in (0..5).rev() {
            let tried = pairing.take(Nanos(1), &EXPORTED, HOST, &[0; 32]);
            assert_eq!(tried, Tried::Wrong { tries_left });
        }
        let proof = secret.proof(&EXPORTED, HOST);
        assert_eq!(
            pairing.take(Nanos(1), &EXPORTED, HOST, &proof),
            Tried::Closed
        );
    }

    #[test]
    fn a_proof_of_another_connection_or_host_is_wrong() {
        let (mut pairing, secret) = opened();
        let proof = secret.proof(&EXPORTED, HOST);
        let replayed = pairing.take(Nanos(1), &[9; 32], HOST, &proof);
        assert_eq!(replayed, Tried::Wrong { tries_left: 4 });
        let stolen = pairing.take(Nanos(1), &EXPORTED, PublicKey([9; 32]), &proof);
        assert_eq!(stolen, Tried::Wrong { tries_left: 3 });
        let own = pairing.take(Nanos(1), &EXPORTED, HOST, &proof);
        assert_eq!(own, Tried::Welcome(Role::Run));
    }

    #[test]
    fn a_new_ticket_ends_the_one_before() {
        let (mut pairing, old) = opened();
        pairing.open(Nanos(1), Secret([2; 10]), Role::Observe, OPEN_FOR);
        let proof = old.proof(&EXPORTED, HOST);
        assert!(matches!(
            pairing.take(Nanos(2), &EXPORTED, HOST, &proof),
            Tried::Wrong { .. }
        ));
    }
}
