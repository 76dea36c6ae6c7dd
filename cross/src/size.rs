//! The size of the agent as boards get it. Small is a promise: it crosses slow links and stays beside
//! whatever else is on the flash.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::build::program_of;
use crate::check::limit;
use crate::place;

/// One megabyte as download pages count it.
pub(crate) const MB: u64 = 1_000_000;

/// A way to build the agent, and what it may weigh (design, section 6).
struct Variant {
    name: &'static str,
    features: &'static [&'static str],
    limit: u64,
}

const VARIANTS: [Variant; 2] = [
    Variant {
        name: "slim",
        features: &["--no-default-features"],
        limit: limit(true),
    },
    Variant {
        name: "with the built-in runtime",
        features: &["--no-default-features", "--features", "builtin"],
        limit: limit(false),
    },
];

/// What was built and how large it is.
#[derive(Debug)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: &'static str,
    bytes: u64,
    limit: u64,
}

impl Report {
    pub(crate) fn is_good(&self) -> bool {
        self.rows.iter().all(Row::is_good)
    }
}

impl Row {
    fn is_good(&self) -> bool {
        self.bytes <= self.limit
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, row) in self.rows.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            let mark = if row.is_good() { "" } else { "  TOO LARGE" };
            let (bytes, limit) = (megabytes(row.bytes), megabytes(row.limit));
            write!(f, "{end}{:<26} {bytes} of {limit}{mark}", row.name)?;
        }
        Ok(())
    }
}

pub(crate) fn megabytes(bytes: u64) -> String {
    // In hundredths, rounded up: a size at the limit must not read as below it.
    let hundredths = bytes.div_ceil(MB / 100);
    format!("{}.{:02} MB", hundredths / 100, hundredths % 100)
}

/// Builds every variant for this machine and weighs it.
pub(crate) fn check() -> Result<Report> {
    let rows = VARIANTS.iter().map(|variant| {
        let program = build(variant)?;
        let bytes = std::fs::metadata(&program)?.len();
        Ok(Row {
            name: variant.name,
            bytes,
            limit: variant.limit,
        })
    });
    Ok(Report {
        rows: rows.collect::<Result<_>>()?,
    })
}

// The profile strips, so that the file is what a board gets.
fn build(variant: &Variant) -> Result<PathBuf> {
    let mut command = place::cargo();
    command
        .args([
            "build",
            "--locked",
            "--profile",
            "agent",
            "-p",
            "edgedyno-agent",
            "--bins",
        ])
        .args(variant.features);
    program_of(command).with_context(|| format!("the agent {}", variant.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(bytes: u64) -> Report {
        Report {
            rows: vec![Row {
                name: "slim",
                bytes,
                limit: 5 * MB,
            }],
        }
    }

    #[test]
    fn a_size_at_the_limit_is_good_and_one_byte_more_is_not() {
        assert!(report(5 * MB).is_good());
        assert!(!report(5 * MB + 1).is_good());
        assert_eq!(
            report(5 * MB + 1).to_string(),
            "slim                       5.01 MB of 5.00 MB  TOO LARGE"
        );
    }
}
