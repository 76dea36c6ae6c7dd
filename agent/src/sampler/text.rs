//! Parsers for what kernel files hold: bytes in, integers out, nothing allocated, nothing assumed.

use super::fault::Fault;

const NOT_A_NUMBER: Fault = Fault::parse("no number where one was expected");
const BLANK: Fault = Fault::parse("the file is blank");

/// The one integer of a file, with white space around it.
pub(super) fn integer(text: &[u8]) -> Result<i64, Fault> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return Err(BLANK);
    }
    number(text).ok_or(NOT_A_NUMBER)
}

/// An integer and nothing else; none where it does not fit 64 bits.
pub(super) fn number(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] | rest => (false, rest),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        let digit = i64::from(digit - b'0');
        let shifted = value.checked_mul(10)?;
        value = match negative {
            true => shifted.checked_sub(digit)?,
            false => shifted.checked_add(digit)?,
        };
    }
    Some(value)
}

/// Words between blanks.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|word| !word.is_empty())
}

pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
}

/// What follows `key` on the line that begins with it.
pub(super) fn after<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    lines(text).find_map(|line| line.strip_prefix(key))
}

/// The first number of the line that begins with `key`.
pub(super) fn figure(text: &[u8], key: &[u8]) -> Result<i64, Fault> {
    let rest = after(text, key).ok_or(Fault::absent("the file has no such line"))?;
    let word = words(rest).next().ok_or(NOT_A_NUMBER)?;
    number(word).ok_or(NOT_A_NUMBER)
}

/// The number behind `key` in the line that begins with `line`: `some avg10=0.00 ... total=123`.
pub(super) fn named(text: &[u8], line: &[u8], key: &[u8]) -> Result<i64, Fault> {
    let rest = after(text, line).ok_or(Fault::absent("the file has no such line"))?;
    let word = words(rest).find_map(|word| word.strip_prefix(key));
    word.and_then(number).ok_or(NOT_A_NUMBER)
}

/// `47@200000000Hz`: a share in percent, as parts in a million.
pub(super) fn percent_at(text: &[u8]) -> Result<i64, Fault> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return Err(BLANK);
    }
    let percent = text.split(|byte| *byte == b'@').next().unwrap_or_default();
    let percent = percent.strip_suffix(b"%").unwrap_or(percent);
    let percent = number(percent.trim_ascii()).ok_or(NOT_A_NUMBER)?;
    share(percent, 100)
}

/// A part of `whole`, as parts in a million; outside of it, the driver's figure means something else.
pub(super) fn share(part: i64, whole: i64) -> Result<i64, Fault> {
    match (0..=whole).contains(&part) {
        true => Ok(part * (1_000_000 / whole)),
        false => Err(Fault::parse("a share outside of 0 to 100 %")),
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::telemetry::Quality;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn integers_are_read_with_their_sign() {
        assert_eq!(integer(b" 41000\n"), Ok(41_000));
        assert_eq!(integer(b"-256000\n"), Ok(-256_000));
        assert_eq!(integer(b"-9223372036854775808"), Ok(i64::MIN));
        for wrong in ["", "\n", "x", "1 2", "0x10", "-", "9223372036854775808"] {
            let fault = integer(wrong.as_bytes()).unwrap_err();
            assert_eq!(fault.quality, Quality::ParseError, "{wrong}");
        }
    }

    #[test]
    fn figures_stand_behind_their_names() {
        let text = b"MemTotal:       16 kB\nMemFree: 4 kB\n";
        assert_eq!(figure(text, b"MemFree:"), Ok(4));
        let missing = figure(text, b"CmaFree:").unwrap_err();
        assert_eq!(missing.quality, Quality::Absent);
        let pressure = b"some avg10=0.00 avg60=1.20 avg300=0.00 total=14036781\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(named(pressure, b"some", b"total="), Ok(14_036_781));
        assert_eq!(named(pressure, b"full", b"total="), Ok(7));
    }

    #[test]
    fn shares_are_parts_in_a_million_or_flagged() {
        assert_eq!(percent_at(b"47@200000000Hz\n"), Ok(470_000));
        assert_eq!(percent_at(b"0@0Hz\n"), Ok(0));
        assert_eq!(percent_at(b"100%\n"), Ok(1_000_000));
        for wrong in ["20000@1Hz", "-1@0Hz", "@", ""] {
            let fault = percent_at(wrong.as_bytes()).unwrap_err();
            assert_eq!(fault.quality, Quality::ParseError, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(text: Vec<u8>, key: Vec<u8>) {
            let _ = (integer(&text), figure(&text, &key), named(&text, &key, b"total="));
            if let Ok(share) = percent_at(&text) {
                prop_assert!((0..=1_000_000).contains(&share));
            }
        }

        #[test]
        fn every_integer_comes_back(value: i64) {
            prop_assert_eq!(integer(format!("{value}\n").as_bytes()), Ok(value));
        }
    }
}
