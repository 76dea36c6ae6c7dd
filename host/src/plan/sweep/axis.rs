//! The axes that a plan may have, and what their values may be.

use std::num::NonZeroU32;

use edgedyno_shared::case::Io;
use edgedyno_shared::units::Nanos;

use crate::near;
use crate::options::parse;
use crate::plan::axes::{cpu_list, dims};
use crate::plan::check;
use crate::plan::condition::Condition;

/// One axis by name.
struct Known {
    name: &'static str,
    /// The one form in which a value is kept, or what is needed instead.
    check: fn(&str) -> Result<String, String>,
}

/// Axes with a name of their own.
const KNOWN: [Known; 12] = [
    axis("board", plain),
    axis("model", plain),
    axis("backend", plain),
    axis("runtime", plain),
    axis("precision", plain),
    axis("threads", count),
    axis("inter_threads", count),
    axis("cpus", cpus),
    axis("batch", count),
    axis("scenario", scenario),
    axis("io", io),
    axis("condition", condition),
];

/// Axes that stand for many: `shape.INPUT`, `param.NAME`, `option.KEY`, `tenant.option.KEY`.
pub const FAMILIES: [&str; 4] = ["shape", "param", "option", TENANT_OPTION];

/// Options of the models that a condition names.
pub const TENANT_OPTION: &str = "tenant.option";

/// The parameter that every workload has: idle time between two trials.
pub const GAP: &str = "gap";

/// A longer gap would pass for a worker that hangs.
const LONGEST_GAP: Nanos = Nanos::from_secs(5);

/// CPUs chosen by what the board is.
pub const CPU_WORDS: [&str; 3] = ["each", "big", "little"];

const fn axis(name: &'static str, check: fn(&str) -> Result<String, String>) -> Known {
    Known { name, check }
}

/// Names for messages and near matches.
pub fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|known| known.name).chain(FAMILIES)
}

/// A value in its canonical form.
///
/// # Errors
/// When there is no such axis, or it takes no such value.
pub fn canonical(name: &str, value: &str) -> Result<String, Fault> {
    let check = match name.split_once('.') {
        Some(("shape", input)) if !input.is_empty() => shape,
        Some(("param", GAP)) => gap,
        Some(("param" | "option", key)) if !key.is_empty() => any,
        Some(("tenant", key)) if is_option(key) => any,
        _ => {
            let known = KNOWN.iter().find(|known| known.name == name);
            known.ok_or_else(|| unknown(name))?.check
        }
    };
    check(value).map_err(Fault::Value)
}

/// What is wrong with an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// No axis has this name; what was meant, or all there are.
    Unknown {
        hint: String,
    },
    Value(String),
}

fn unknown(name: &str) -> Fault {
    let hint = match near::matches(name, names()).as_slice() {
        [] if FAMILIES.contains(&name) => format!("write {name}.NAME"),
        [] => {
            let names: Vec<&str> = names().collect();
            format!(
                "axes are {}; the last four take a name, as option.KEY",
                names.join(", ")
            )
        }
        [near, ..] if FAMILIES.contains(&near.as_str()) => format!("write {near}.NAME"),
        [near, ..] => format!("did you mean {near}?"),
    };
    Fault::Unknown { hint }
}

/// `option.KEY`, as it stands behind `tenant`.
fn is_option(key: &str) -> bool {
    key.strip_prefix("option.")
        .is_some_and(|key| !key.is_empty())
}

fn any(value: &str) -> Result<String, String> {
    Ok(value.to_owned())
}

fn plain(value: &str) -> Result<String, String> {
    match value.trim() {
        "" => Err("it is empty".into()),
        value => Ok(value.to_owned()),
    }
}

fn count(value: &str) -> Result<String, String> {
    let number: Option<NonZeroU32> = value.parse().ok();
    let number = number.ok_or("a whole number from 1 on is needed")?;
    Ok(number.to_string())
}

fn cpus(value: &str) -> Result<String, String> {
    if CPU_WORDS.contains(&value) {
        return Ok(value.to_owned());
    }
    let needed = || {
        format!(
            "CPUs such as 0-3,7 or one of {} are needed",
            CPU_WORDS.join(", ")
        )
    };
    let list = parse::cpus(value).map_err(|_| needed())?;
    Ok(cpu_list(&list.0))
}

fn scenario(value: &str) -> Result<String, String> {
    match check::scenario(value) {
        Ok(scenario) => Ok(scenario.name().to_owned()),
        Err(error) => {
            let hint = error.hint.unwrap_or_default();
            Err(format!("{}; {hint}", error.what))
        }
    }
}

fn io(value: &str) -> Result<String, String> {
    let known = [Io::Resident, Io::Transfer].map(Io::name);
    match known.contains(&value) {
        true => Ok(value.to_owned()),
        false => Err(format!("one of {} is needed", known.join(", "))),
    }
}

fn condition(value: &str) -> Result<String, String> {
    Condition::parse(value).map(|condition| condition.to_string())
}

fn gap(value: &str) -> Result<String, String> {
    let gap = parse::span(value)?;
    if gap > LONGEST_GAP {
        return Err("a gap of 5 s at most is needed".into());
    }
    let micros = gap.0 / 1000;
    Ok(match micros {
        micros if micros % 1_000_000 == 0 => format!("{}s", micros / 1_000_000),
        micros if micros % 1000 == 0 => format!("{}ms", micros / 1000),
        micros => format!("{micros}us"),
    })
}

fn shape(value: &str) -> Result<String, String> {
    let needed = || "dimensions such as 1x3x224x224 are needed".to_owned();
    if value.is_empty() || value == "scalar" {
        return Ok("scalar".into());
    }
    let sizes: Result<Vec<u64>, _> = value.split('x').map(str::parse).collect();
    match sizes {
        Ok(sizes) if sizes.iter().all(|size| *size > 0) => Ok(dims(&sizes)),
        _ => Err(needed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_one_form() {
        assert_eq!(canonical("threads", "04"), Ok("4".into()));
        assert_eq!(canonical("cpus", "3,0,1"), Ok("0-1,3".into()));
        assert_eq!(canonical("cpus", "each"), Ok("each".into()));
        assert_eq!(canonical("shape.images", "1x3x08"), Ok("1x3x8".into()));
        let rate = canonical("condition", "mem_read:cpu1@2GB/s");
        assert_eq!(rate, Ok("mem_read:cpu1@2000MB/s".into()));
        for (gap, form) in [
            ("0", "0s"),
            ("0.01s", "10ms"),
            ("1500us", "1500us"),
            ("2000ms", "2s"),
        ] {
            assert_eq!(canonical("param.gap", gap), Ok(form.into()));
            assert_eq!(canonical("param.gap", form), Ok(form.into()));
        }
        assert!(canonical("param.gap", "6s").is_err());
        assert_eq!(canonical("option.a.b", ""), Ok(String::new()));
        for (axis, wrong) in [
            ("threads", "0"),
            ("threads", "two"),
            ("cpus", "medium"),
            ("shape.x", "1x-1"),
            ("io", "copied"),
            ("condition", "spin"),
            ("scenario", "pipeline"),
            ("backend", " "),
        ] {
            assert!(
                matches!(canonical(axis, wrong), Err(Fault::Value(_))),
                "{axis}={wrong}"
            );
        }
    }

    #[test]
    fn an_unknown_axis_names_the_one_that_was_meant() {
        let hint = |name: &str| match canonical(name, "1") {
            Err(Fault::Unknown { hint }) => hint,
            other => panic!("{other:?}"),
        };
        assert_eq!(hint("thread"), "did you mean threads?");
        assert_eq!(hint("option"), "write option.NAME");
        assert!(hint("colour").starts_with("axes are board, model"));
    }
}
