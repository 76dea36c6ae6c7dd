//! Who is who on the network: one ed25519 key a side, and how it is written.

use std::fmt;
use std::str::FromStr;

use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};

/// What stands before the 32 bytes of an ed25519 key in its SubjectPublicKeyInfo (RFC 8410, section 4).
const SPKI_HEAD: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// A public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

/// The first 128 bits of SHA-256 over a key's SubjectPublicKeyInfo: short enough to be read aloud.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 16]);

/// A private key, as it lies in its file: PKCS#8.
#[derive(Clone)]
pub struct Identity {
    pkcs8: Vec<u8>,
    public: PublicKey,
}

/// Bytes or text that are no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an ed25519 key")]
pub struct NotKey;

impl PublicKey {
    /// As TLS carries it.
    pub fn to_spki(self) -> Vec<u8> {
        [SPKI_HEAD.as_slice(), &self.0].concat()
    }

    pub fn from_spki(spki: &[u8]) -> Result<Self, NotKey> {
        let raw = spki.strip_prefix(&SPKI_HEAD).ok_or(NotKey)?;
        Ok(Self(raw.try_into().map_err(|_| NotKey)?))
    }

    pub fn fingerprint(self) -> Fingerprint {
        let hash = digest::digest(&digest::SHA256, &self.to_spki());
        let (first, _) = hash.as_ref().split_at(16);
        Fingerprint(std::array::from_fn(|at| first[at]))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_base32(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fingerprint())
    }
}

impl FromStr for PublicKey {
    type Err = NotKey;
    fn from_str(text: &str) -> Result<Self, NotKey> {
        let bytes = from_base32(text).ok_or(NotKey)?;
        Ok(Self(bytes.try_into().map_err(|_| NotKey)?))
    }
}

impl fmt::Display for Fingerprint {
    /// In groups of five.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, letter) in to_base32(&self.0).chars().enumerate() {
            if at > 0 && at % 5 == 0 {
                f.write_str("-")?;
            }
            write!(f, "{letter}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Identity {
    /// Draws a new key.
    ///
    /// # Errors
    /// When the system has no random bytes to give.
    pub fn generate() -> Result<Self, NotKey> {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| NotKey)?;
        Self::from_pkcs8(pkcs8.as_ref().to_vec())
    }

    /// Reads what [`Self::pkcs8`] gave.
    pub fn from_pkcs8(pkcs8: Vec<u8>) -> Result<Self, NotKey> {
        let pair = Ed25519KeyPair::from_pkcs8(&pkcs8).map_err(|_| NotKey)?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| NotKey)?;
        Ok(Self {
            pkcs8,
            public: PublicKey(public),
        })
    }

    /// What is kept in the key's file.
    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    pub fn public(&self) -> PublicKey {
        self.public
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public.fingerprint())
    }
}

/// Letters and digits that are not taken for each other (RFC 4648, in lower case).
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Five bits a letter, the last one filled up with zeros.
pub(super) fn to_base32(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 8 / 5 + 1);
    let (mut held, mut bits) = (0_u32, 0);
    for byte in bytes {
        held = held << 8 | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            out.push(char::from(LETTERS[(held >> bits & 31) as usize]));
        }
    }
    if bits > 0 {
        out.push(char::from(LETTERS[(held << (5 - bits) & 31) as usize]));
    }
    out
}

/// Reads [`to_base32`]; upper case is fine, anything else, or another way to write the same, is not.
pub(super) fn from_base32(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 5 / 8);
    let (mut held, mut bits) = (0_u32, 0);
    for letter in text.bytes() {
        let letter = letter.to_ascii_lowercase();
        let value = LETTERS.iter().position(|known| *known == letter)? as u32;
        held = held << 5 | value;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            out.push((held >> bits & 255) as u8);
        }
    }
    let is_filled_with_zeros = bits < 5 && held & ((1 << bits) - 1) == 0;
    is_filled_with_zeros.then_some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn base32_is_that_of_the_rfc() {
        for (plain, coded) in [
            ("", ""),
            ("f", "my"),
            ("fo", "mzxq"),
            ("foo", "mzxw6"),
            ("foob", "mzxw6yq"),
            ("fooba", "mzxw6ytb"),
            ("foobar", "mzxw6ytboi"),
        ] {
            assert_eq!(to_base32(plain.as_bytes()), coded);
            assert_eq!(from_base32(coded).unwrap(), plain.as_bytes());
        }
        for wrong in ["mz", "m", "mzxw1", "my=", "mé"] {
            assert_eq!(from_base32(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_key_reads_back_from_its_file_and_from_tls() {
        let identity = Identity::generate().unwrap();
        let again = Identity::from_pkcs8(identity.pkcs8().to_vec()).unwrap();
        assert_eq!(again.public(), identity.public());
        let spki = identity.public().to_spki();
        assert_eq!(
            (spki.len(), PublicKey::from_spki(&spki)),
            (44, Ok(identity.public()))
        );
        assert_eq!(identity.public().to_string().parse(), Ok(identity.public()));
        assert_eq!(PublicKey::from_spki(&spki[..43]), Err(NotKey));
    }

    #[test]
    fn a_private_key_does_not_show_in_a_log() {
        let identity = Identity::generate().unwrap();
        let shown = format!("{identity:?}");
        assert_eq!(
            shown,
            format!("Identity({})", identity.public().fingerprint())
        );
        assert_eq!(shown.len(), "Identity()".len() + 26 + 5);
    }

    proptest! {
        #[test]
        fn every_key_reads_back_from_its_text(bytes: [u8; 32]) {
            let key = PublicKey(bytes);
            prop_assert_eq!(key.to_string().len(), 52);
            prop_assert_eq!(key.to_string().to_uppercase().parse(), Ok(key));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text: String) {
            let _ = text.parse::<PublicKey>();
        }
    }
}
