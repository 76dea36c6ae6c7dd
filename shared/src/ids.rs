//! Names of things: stores, runs, boots, contents.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The SHA-256 of a content, the project's one hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sha256(pub [u8; 32]);

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |half: u8| f.write_char(DIGITS[usize::from(half)].into());
        let mut halves = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        halves.try_for_each(digit)
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Text that is not the hex form of the id it was read as.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not {1} hex digits")]
pub struct NotHex(pub String, pub usize);

fn parse_hex<const N: usize>(text: &str) -> Result<[u8; N], NotHex> {
    let fail = || NotHex(text.chars().take(80).collect(), 2 * N);
    if text.len() != 2 * N || !text.is_ascii() {
        return Err(fail());
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let high = (pair[0] as char).to_digit(16).ok_or_else(fail)?;
        let low = (pair[1] as char).to_digit(16).ok_or_else(fail)?;
        *byte = (high * 16 + low) as u8;
    }
    Ok(out)
}

impl FromStr for Sha256 {
    type Err = NotHex;
    fn from_str(text: &str) -> Result<Self, NotHex> {
        parse_hex(text).map(Self)
    }
}

/// Names one store: orders, spooled repeats and acknowledgements belong to it. All zero: none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StoreId(pub [u8; 16]);

impl StoreId {
    /// What a host without a store sends: it can ask, but neither order nor receive.
    pub const NONE: Self = Self([0; 16]);
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |half: u8| f.write_char(DIGITS[usize::from(half)].into());
        let mut halves = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        halves.try_for_each(digit)
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for StoreId {
    type Err = NotHex;
    fn from_str(text: &str) -> Result<Self, NotHex> {
        parse_hex(text).map(Self)
    }
}

/// Names one run: ten lowercase letters and digits, made by the host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId(pub String);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl RunId {
    /// True when the text can be a run id; an agent refuses others, since ids become file names.
    pub fn is_well_formed(&self) -> bool {
        (1..=32).contains(&self.0.len())
            && self
                .0
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    }
}

/// One life of an agent daemon, drawn at random when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BootId(pub u64);

/// Names the program that measured: a digest of its sources, target and features.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BuildId(pub String);

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_reads_back_from_its_hex_form() {
        let hash = Sha256(std::array::from_fn(|i| i as u8 * 7));
        assert_eq!(hash.to_string().parse(), Ok(hash));
    }

    #[test]
    fn what_is_not_hex_is_refused() {
        for text in ["", "0", &"g".repeat(64), &"é".repeat(32), &"0".repeat(65)] {
            assert!(text.parse::<Sha256>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_run_id_cannot_be_a_path() {
        for text in ["", "../x", "a/b", "A", "a.b", &"a".repeat(33)] {
            assert!(!RunId(text.into()).is_well_formed(), "{text}");
        }
        assert!(RunId("7k2m9x0abc".into()).is_well_formed());
    }
}
