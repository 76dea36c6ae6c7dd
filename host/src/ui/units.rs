//! Numbers with their units, as people read them: four significant digits, no trailing zeros.
//!
//! What is unknown is a dash, and what is not zero never reads as zero. Machines read JSON, which
//! has the numbers unrounded.

/// Stands for a number that is not known.
pub const UNKNOWN: &str = "–";

/// Narrow no-break space, between groups of three digits: 66 381.
const GROUP: char = '\u{202f}';
const SIGNIFICANT: i32 = 4;
/// More decimals than this are written with an exponent.
const MOST_DECIMALS: i32 = 9;

/// Units of one quantity, ascending, each with its size in the first.
type Scale = [(f64, &'static str)];

const TIME: &Scale = &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];
const FREQUENCY: &Scale = &[(1.0, "Hz"), (1e3, "kHz"), (1e6, "MHz"), (1e9, "GHz")];
const MEMORY: &Scale = &[
    (1.0, "B"),
    (1024.0, "KiB"),
    (1_048_576.0, "MiB"),
    (1_073_741_824.0, "GiB"),
    (1_099_511_627_776.0, "TiB"),
];

/// A time given in nanoseconds: `12.34 ms`, `890 µs`, `1.23 s`.
pub fn nanoseconds(time: impl Into<Option<f64>>) -> String {
    known(time.into(), |ns| scaled(ns, TIME))
}

/// A size given in bytes, by powers of 1024: `1.5 MiB`.
pub fn bytes(size: impl Into<Option<f64>>) -> String {
    known(size.into(), |size| scaled(size, MEMORY))
}

/// A rate or clock given in hertz: `81.3 Hz`, `1.8 GHz`.
pub fn hertz(rate: impl Into<Option<f64>>) -> String {
    known(rate.into(), |rate| scaled(rate, FREQUENCY))
}

/// A share of one as a percentage: 0.032 is `3.2 %`.
pub fn percent(share: impl Into<Option<f64>>) -> String {
    known(share.into(), |share| {
        format!("{} %", significant(share * 100.0))
    })
}

/// A whole number, grouped by three and never rounded: `66 381`.
pub fn count(number: impl Into<Option<u64>>) -> String {
    let number = number.into();
    number.map_or_else(|| UNKNOWN.to_owned(), |number| group(&number.to_string()))
}

/// A number of things: `1 case`, `2 cases`.
pub fn things(number: u64, name: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {name}{plural}", count(number))
}

/// A number without a unit: `1.047`.
pub fn figure(number: impl Into<Option<f64>>) -> String {
    known(number.into(), significant)
}

/// A number that is not finite was not measured either.
fn known(value: Option<f64>, write: impl Fn(f64) -> String) -> String {
    let value = value.filter(|value| value.is_finite());
    value.map_or_else(|| UNKNOWN.to_owned(), write)
}

/// Writes a value in the largest unit in which it is at least 1 once rounded: 999 960 ns is 1 ms.
fn scaled(value: f64, scale: &Scale) -> String {
    let reached = |unit: &(f64, &str)| value.abs() >= unit.0;
    let fitting = scale.iter().rposition(reached).unwrap_or(0);
    let (size, name) = scale[fitting];
    let rounded = round(value / size);
    match scale.get(fitting + 1) {
        Some((next, name)) if (rounded * size).abs() >= *next => {
            format!("{} {name}", significant(rounded * size / next))
        }
        _ => format!("{} {name}", significant(value / size)),
    }
}

/// Four significant digits without trailing zeros; whole numbers keep all their digits.
fn significant(value: f64) -> String {
    let decimals = decimals_of(value);
    if decimals > MOST_DECIMALS {
        return format!("{value:.*e}", SIGNIFICANT as usize - 1);
    }
    let digits = format!("{value:.*}", decimals as usize);
    match digits.split_once('.') {
        Some((whole, part)) => match part.trim_end_matches('0') {
            "" => group(whole),
            part => format!("{}.{part}", group(whole)),
        },
        None => group(&digits),
    }
}

/// Decimals that show four significant digits.
fn decimals_of(value: f64) -> i32 {
    if value == 0.0 {
        return 0;
    }
    (SIGNIFICANT - 1 - value.abs().log10().floor() as i32).max(0)
}

fn round(value: f64) -> f64 {
    let shift = 10_f64.powi(decimals_of(value));
    (value * shift).round() / shift
}

/// Sets digits, after a sign if there is one, in groups of three from the right.
fn group(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits),
    };
    let mut grouped = sign.to_owned();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(GROUP);
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn each(write: impl Fn(f64) -> String, values: &[f64]) -> String {
        values
            .iter()
            .map(|&x| write(x))
            .collect::<Vec<_>>()
            .join(" | ")
    }

    #[test]
    fn times_take_the_unit_that_fits() {
        let times = [18.0, 999.0, 890e3, 12_341_234.0, 1.23e9, 7_384.6e9];
        insta::assert_snapshot!(each(nanoseconds, &times), @"18 ns | 999 ns | 890 µs | 12.34 ms | 1.23 s | 7 385 s");
    }

    #[test]
    fn rounding_carries_into_the_next_unit() {
        let times = [999_949.0, 999_960.0, 999_999_999.0, -999_999.0];
        insta::assert_snapshot!(each(nanoseconds, &times), @"999.9 µs | 1 ms | 1 s | -1 ms");
        insta::assert_snapshot!(each(bytes, &[1023.0, 1_048_300.0]), @"1 023 B | 1 MiB");
    }

    #[test]
    fn sizes_clocks_and_shares() {
        let sizes = [
            0.0,
            512.0,
            1536.0,
            5.0 * 1_048_576.0,
            139.81 * 1_073_741_824.0,
        ];
        insta::assert_snapshot!(each(bytes, &sizes), @"0 B | 512 B | 1.5 KiB | 5 MiB | 139.8 GiB");
        insta::assert_snapshot!(each(hertz, &[0.25, 81.337, 1.8e9]), @"0.25 Hz | 81.34 Hz | 1.8 GHz");
        insta::assert_snapshot!(each(percent, &[0.032, -0.5, 1.23456]), @"3.2 % | -50 % | 123.5 %");
        insta::assert_snapshot!(each(figure, &[1.0473, 2.0, 0.000_12]), @"1.047 | 2 | 0.00012");
    }

    #[test]
    fn counts_are_grouped_and_never_rounded() {
        let counts = [0, 999, 6_636, 66_381, 10_000_001].map(|n: u64| count(n));
        insta::assert_snapshot!(counts.join(" | "), @"0 | 999 | 6 636 | 66 381 | 10 000 001");
    }

    #[test]
    fn unknown_is_a_dash_and_small_is_not_zero() {
        assert_eq!(nanoseconds(None), UNKNOWN);
        assert_eq!(nanoseconds(f64::NAN), UNKNOWN);
        assert_eq!(count(None), UNKNOWN);
        assert_eq!(nanoseconds(0.0), "0 ns");
        assert_eq!(nanoseconds(4.2e-12), "4.200e-12 ns");
        assert_eq!(percent(0.000_001), "0.0001 %");
    }

    proptest! {
        #[test]
        fn what_is_not_zero_never_reads_as_zero(value in -1e12_f64..1e12, exponent in -30_i32..0) {
            let value = value * 10_f64.powi(exponent);
            prop_assume!(value != 0.0);
            for text in [nanoseconds(value), bytes(value), hertz(value), percent(value)] {
                prop_assert!(text.chars().any(|c| ('1'..='9').contains(&c)), "{value}: {text}");
            }
        }

        #[test]
        fn times_read_back_to_four_digits(value in 1.0_f64..1e15) {
            let text = nanoseconds(value);
            let (number, unit) = text.split_once(' ').unwrap();
            let number: f64 = number.replace(GROUP, "").parse().unwrap();
            let size = TIME.iter().find(|(_, name)| *name == unit).unwrap().0;
            prop_assert!((number * size / value - 1.0).abs() <= 5.001e-4, "{value}: {text}");
        }
    }
}
