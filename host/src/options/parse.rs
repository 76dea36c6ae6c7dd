//! Values as people write them: spans, sizes, CPU lists, shapes, pairs.

use edgedyno_shared::case::{Generator, NamedShape};
use edgedyno_shared::units::{Bytes, Nanos};

/// A span of time: `5`, `5s`, `500ms`, `2m`; a bare number is seconds.
pub fn span(text: &str) -> Result<Nanos, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        unit => {
            return Err(format!(
                "`{unit}` is no unit of time; use s, ms, us, m or h"
            ));
        }
    };
    let number: f64 = digits
        .parse()
        .map_err(|_| "a time such as 5, 5s, 500ms or 2m is needed".to_owned())?;
    // A year is longer than any measurement and far from the end of the type.
    if !(0.0..=3.2e7).contains(&(number * seconds)) {
        return Err("it must lie between 0 and a year".into());
    }
    Ok(Nanos::from_secs_f64(number * seconds))
}

/// A span of time that is not zero.
pub fn positive_span(text: &str) -> Result<Nanos, String> {
    match span(text)? {
        Nanos(0) => Err("it must be longer than 0".into()),
        span => Ok(span),
    }
}

/// A number of bytes: `1048576`, `512MiB`, `2G`; one letter means a power of 1024.
pub fn bytes(text: &str) -> Result<Bytes, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        unit => return Err(format!("`{unit}` is no unit of size; use KiB, MiB, GiB")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "a whole number of bytes such as 512MiB is needed".to_owned())?;
    let bytes = number.checked_mul(unit).filter(|n| *n > 0);
    bytes
        .map(Bytes)
        .ok_or_else(|| "it must be at least 1 byte and fit 64 bits".into())
}

/// A list of CPUs, sorted, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuList(pub Vec<u16>);

/// CPUs by number and range: `0-3,7`.
pub fn cpus(text: &str) -> Result<CpuList, String> {
    let needed = || "CPUs such as 0-3,7 are needed".to_owned();
    let mut out = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u16 = first.trim().parse().map_err(|_| needed())?;
        let last: u16 = last.trim().parse().map_err(|_| needed())?;
        if first > last || last >= 4096 {
            return Err(needed());
        }
        out.extend(first..=last);
    }
    out.sort_unstable();
    out.dedup();
    Ok(CpuList(out))
}

/// `name=1x3x224x224`.
pub fn shape(text: &str) -> Result<NamedShape, String> {
    let needed = || "a shape such as images=1x3x224x224 is needed".to_owned();
    // Names of inputs may hold `=`; dimensions do not.
    let (input, dims) = text.rsplit_once('=').ok_or_else(needed)?;
    let dims: Result<Vec<u64>, _> = match dims {
        "" | "scalar" => Ok(Vec::new()),
        dims => dims.split(['x', ',']).map(str::parse).collect(),
    };
    Ok(NamedShape {
        input: input.to_owned(),
        dims: dims.map_err(|_| needed())?,
    })
}

/// `KEY=VALUE`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or("KEY=VALUE is needed")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// `normal`, `uniform`, `zeros` or `int:LOW..HIGH`.
pub fn generator(text: &str) -> Result<Generator, String> {
    let known = || "one of normal, uniform, zeros, int:LOW..HIGH is needed".to_owned();
    match text {
        "normal" => Ok(Generator::Normal),
        "uniform" => Ok(Generator::Uniform),
        "zeros" => Ok(Generator::Zeros),
        other => {
            let range = other.strip_prefix("int:").ok_or_else(known)?;
            let (low, high) = range.split_once("..").ok_or_else(known)?;
            let low: i64 = low.parse().map_err(|_| known())?;
            let high: i64 = high.parse().map_err(|_| known())?;
            if low > high {
                return Err(format!("{low}..{high} holds no number"));
            }
            Ok(Generator::Integers { low, high })
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_have_units() {
        assert_eq!(span("5"), Ok(Nanos::from_secs(5)));
        assert_eq!(span("500ms"), Ok(Nanos::from_millis(500)));
        assert_eq!(span("1.5m"), Ok(Nanos::from_secs(90)));
        assert_eq!(span("0"), Ok(Nanos(0)));
        for wrong in ["", "s", "-1", "5 s", "5x", "1e300", "nan", "inf"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
        assert!(positive_span("0s").is_err());
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("1"), Ok(Bytes(1)));
        assert_eq!(bytes("512MiB"), Ok(Bytes(512 << 20)));
        assert_eq!(bytes("2g"), Ok(Bytes(2 << 30)));
        assert_eq!(bytes("1MB"), Ok(Bytes(1_000_000)));
        for wrong in ["", "0", "-1", "1.5G", "99999999999G", "1X"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn cpus_are_numbers_and_ranges() {
        assert_eq!(cpus("0-2,7,1"), Ok(CpuList(vec![0, 1, 2, 7])));
        for wrong in ["", "a", "3-1", "1,", "0-99999", "-1"] {
            assert!(cpus(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_shape_names_its_input() {
        let shape_of = |text| shape(text).map(|s| (s.input, s.dims));
        assert_eq!(shape_of("x=1x3x2"), Ok(("x".into(), vec![1, 3, 2])));
        assert_eq!(shape_of("a=b=4"), Ok(("a=b".into(), vec![4])));
        assert_eq!(shape_of("x=scalar"), Ok(("x".into(), Vec::new())));
        for wrong in ["x", "x=1x", "x=-1", "x=1xa"] {
            assert!(shape(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn generators_have_ranges() {
        let range = Generator::Integers { low: -2, high: 9 };
        assert_eq!(generator("int:-2..9"), Ok(range));
        assert_eq!(generator("zeros"), Ok(Generator::Zeros));
        for wrong in ["", "int", "int:3", "int:3..2", "gauss"] {
            assert!(generator(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "\\PC{0,20}") {
            let _ = (span(&text), bytes(&text), cpus(&text), shape(&text));
            let _ = (pair(&text), generator(&text));
        }
    }
}
