//! A ticket: what a person carries from an agent to a host, so that the two come to know each other.
//!
//! `edyn1/ADDRESS[,ADDRESS]/LETTERS`, the letters being base32 of the agent's fingerprint (16 bytes), the
//! secret (10 bytes), and the first two bytes of SHA-256 over all before, so that a slip of the pen is
//! seen before it costs a try.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use ring::{digest, hmac};

use super::key::{Fingerprint, PublicKey, from_base32, to_base32};

/// The words before a ticket's addresses.
const HEAD: &str = "edyn1";

/// Label of the keying material that a proof is made over.
pub const PROOF_LABEL: &[u8] = b"EXPORTER-edgedyno-pair";

/// Addresses a ticket may name.
const MOST_ADDRESSES: usize = 8;

/// An agent's address, its key's fingerprint, and a secret that is good once.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    pub addresses: Vec<SocketAddr>,
    pub agent: Fingerprint,
    pub secret: Secret,
}

/// 80 bits, drawn at random.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub [u8; 10]);

/// Text that is no ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTicket {
    #[error("not a ticket: it does not look like {HEAD}/ADDRESS/LETTERS")]
    Shape,
    #[error("not a ticket: `{HEAD}` is followed by something else than IP addresses with a port")]
    Address,
    #[error("the ticket has a typing error, or a part of it is missing")]
    Letters,
}

impl Secret {
    /// Proves, on one connection, that the host of this key knows the secret.
    ///
    /// `exported` is that connection's keying material under [`PROOF_LABEL`]: a proof is worth nothing on
    /// another connection.
    pub fn proof(&self, exported: &[u8; 32], host: PublicKey) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let tag = hmac::sign(&key, &proof_message(exported, host));
        std::array::from_fn(|at| tag.as_ref()[at])
    }

    /// Checks a proof in a time that does not depend on how much of it is right.
    pub fn is_proven(&self, exported: &[u8; 32], host: PublicKey, proof: &[u8]) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        hmac::verify(&key, &proof_message(exported, host), proof).is_ok()
    }
}

fn proof_message(exported: &[u8; 32], host: PublicKey) -> Vec<u8> {
    [b"host".as_slice(), exported, &host.0].concat()
}

fn check_bytes(parts: &[&[u8]]) -> [u8; 2] {
    let hash = digest::digest(&digest::SHA256, &parts.concat());
    [hash.as_ref()[0], hash.as_ref()[1]]
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({:?}, {})", self.addresses, self.agent)
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let addresses = addresses.join(",");
        let check = check_bytes(&[addresses.as_bytes(), &self.agent.0, &self.secret.0]);
        let letters = [self.agent.0.as_slice(), &self.secret.0, &check].concat();
        write!(f, "{HEAD}/{addresses}/{}", to_base32(&letters))
    }
}

impl FromStr for Ticket {
    type Err = NotTicket;
    fn from_str(text: &str) -> Result<Self, NotTicket> {
        let mut parts = text.trim().split('/');
        let (Some(HEAD), Some(named), Some(letters), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NotTicket::Shape);
        };
        let addresses: Result<Vec<SocketAddr>, _> = named.split(',').map(str::parse).collect();
        let addresses = addresses.map_err(|_| NotTicket::Address)?;
        if addresses.len() > MOST_ADDRESSES {
            return Err(NotTicket::Address);
        }
        let bytes = from_base32(letters).ok_or(NotTicket::Letters)?;
        let bytes: [u8; 28] = bytes.try_into().map_err(|_| NotTicket::Letters)?;
        let (agent, rest) = bytes.split_at(16);
        let (secret, check) = rest.split_at(10);
        if check != check_bytes(&[named.as_bytes(), agent, secret]) {
            return Err(NotTicket::Letters);
        }
        Ok(Self {
            addresses,
            agent: Fingerprint(std::array::from_fn(|at| agent[at])),
            secret: Secret(std::array::from_fn(|at| secret[at])),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ticket() -> Ticket {
        Ticket {
            addresses: vec![
                "192.168.7.5:7447".parse().unwrap(),
                "[fe80::1]:7447".parse().unwrap(),
            ],
            agent: Fingerprint([7; 16]),
            secret: Secret([9; 10]),
        }
    }

    #[test]
    fn a_ticket_reads_back() {
        let text = ticket().to_string();
        assert!(text.starts_with("edyn1/192.168.7.5:7447,[fe80::1]:7447/"));
        assert_eq!(format!(" {text}\n").parse(), Ok(ticket()));
    }

    #[test]
    fn a_secret_does_not_show_in_a_log() {
        let shown = format!("{:?}", ticket());
        let expected = format!("Ticket({:?}, {})", ticket().addresses, ticket().agent);
        assert_eq!(shown, expected);
        assert_eq!(format!("{:?}", ticket().secret), "Secret");
    }

    #[test]
    fn a_proof_is_of_one_secret_one_connection_and_one_host() {
        let secret = Secret([1; 10]);
        let host = PublicKey([2; 32]);
        let proof = secret.proof(&[3; 32], host);
        assert!(secret.is_proven(&[3; 32], host, &proof));
        assert!(!secret.is_proven(&[4; 32], host, &proof));
        assert!(!secret.is_proven(&[3; 32], PublicKey([5; 32]), &proof));
        assert!(!Secret([6; 10]).is_proven(&[3; 32], host, &proof));
        assert!(!secret.is_proven(&[3; 32], host, &proof[..31]));
        assert!(!secret.is_proven(&[3; 32], host, &[]));
    }

    proptest! {
        #[test]
        fn a_wrong_letter_is_seen(at in 0_usize..45, by in 1_u8..26) {
            let text = ticket().to_string();
            let at = text.len() - 45 + at;
            let mut bytes = text.clone().into_bytes();
            let letter = bytes[at].to_ascii_lowercase();
            bytes[at] = b'a' + (letter.wrapping_sub(b'a') % 26 + by) % 26;
            let changed = String::from_utf8(bytes).unwrap();
            // Two check bytes let one slip in 65 536 through; the fingerprint then refuses it.
            prop_assume!(changed != text);
            if let Ok(read) = changed.parse::<Ticket>() {
                prop_assert_ne!(read, ticket());
            }
        }

        #[test]
        fn no_text_makes_the_reader_panic(text: String) {
            let _ = text.parse::<Ticket>();
            let _ = format!("edyn1/1.2.3.4:5/{text}").parse::<Ticket>();
        }
    }
}
