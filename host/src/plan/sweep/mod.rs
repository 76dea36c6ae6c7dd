//! A sweep as asked for: axes and how they combine, rules, and what ends it early.
//!
//! A plan file ([`mod@file`]) and flags make the same [`Definition`]; [`expand`] makes points of it, and
//! [`resolve`] makes cases of points once the boards are known.

pub mod align;
pub mod axis;
pub mod document;
pub mod expand;
pub mod file;
pub mod resolve;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use edgedyno_shared::case::{Generator, InputPolicy};
use edgedyno_shared::order::{ColdStart, Limits, Preparation, Rules};
use edgedyno_shared::telemetry::TelemetryMode;

use self::align::Align;
use super::goal::Goal;
use super::schedule::{Order, Within};

/// One value of each axis, by name.
pub type Point = BTreeMap<String, String>;

/// Everything that a sweep is asked to do. Values are checked, names of axes are known.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    pub name: Option<String>,
    /// What files that conditions name are relative to.
    pub folder: PathBuf,
    pub models: BTreeMap<String, ModelFiles>,
    /// The first one changes slowest.
    pub axes: Vec<Axis>,
    /// Axes that change together.
    pub zip: Vec<Vec<String>>,
    pub variants: Vec<Variant>,
    pub include: Vec<Filter>,
    pub exclude: Vec<Filter>,
    pub order: Order,
    /// Decides the order of repeats.
    pub seed: u64,
    pub repeats: u32,
    pub within: Option<Within>,
    pub max_attempts: u32,
    pub time_budget: Option<Duration>,
    pub sentinel: Option<SentinelWish>,
    /// Which case the outputs of the others are compared with, the first one where it leaves that open;
    /// none compares nothing.
    pub reference: Option<Filter>,
    pub tolerance: Tolerance,
    /// What is looked for; none measures the whole grid.
    pub goal: Option<Goal>,
    pub rules: Rules,
    pub limits: Limits,
    pub cold: ColdStart,
    pub telemetry: TelemetryMode,
    pub preparation: Preparation,
    pub inputs: InputWish,
}

/// An axis and its values, each in its one canonical form.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    pub name: String,
    pub values: Vec<String>,
    /// Nothing larger along it is measured once memory ran out.
    pub stop_on_oom: bool,
    pub align: Option<Align>,
}

/// Files of one model: one for all backends, or one for each format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelFiles {
    One(PathBuf),
    /// By file name ending or by backend, in the order given.
    ByFormat(Vec<(String, PathBuf)>),
}

/// Values of several axes under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    pub name: String,
    pub values: Point,
}

/// Values that a point must have, any of those given for each axis named.
pub type Filter = BTreeMap<String, Vec<String>>;

/// A case to measure again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentinelWish {
    pub every: u32,
    /// The first case that fits.
    pub case: Filter,
}

/// How far outputs may be from those of the reference case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Smallest cosine, unless the precision is an integer one.
    pub cosine: f64,
    /// Smallest cosine of a case whose precision is an integer one.
    pub cosine_int8: f64,
    /// Largest absolute error, as a share of the range of the reference; not for integer precisions.
    pub max_abs: f64,
}

impl Tolerance {
    /// What floating-point arithmetic in another order does not exceed.
    pub const USUAL: Self = Self {
        cosine: 0.9999,
        cosine_int8: 0.99,
        max_abs: 1e-3,
    };

    /// Names of its parts, as plan files and flags write them.
    pub const NAMES: [&str; 3] = ["cosine", "cosine_int8", "max_abs"];

    /// `cosine=0.999,max_abs=0.01`; what is not named stays usual.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut tolerance = Self::USUAL;
        for pair in text.split(',') {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("`{pair}` is no NAME=VALUE, such as cosine=0.999"))?;
            tolerance.set(name.trim(), value.trim())?;
        }
        Ok(tolerance)
    }

    /// Sets one part by its name.
    fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        let (part, range) = match name {
            "cosine" => (&mut self.cosine, -1.0..=1.0),
            "cosine_int8" => (&mut self.cosine_int8, -1.0..=1.0),
            "max_abs" => (&mut self.max_abs, 0.0..=f64::MAX),
            _ => return Err(format!("`{name}` is none of {}", Self::NAMES.join(", "))),
        };
        let number: Option<f64> = text.parse().ok();
        *part = number
            .filter(|n| range.contains(n))
            .ok_or_else(|| match name {
                "max_abs" => "a number from 0 on is needed".to_owned(),
                _ => "a number from -1 to 1 is needed".to_owned(),
            })?;
        Ok(())
    }
}

/// What trials are fed with, as the input options of `run` say it.
#[derive(Debug, Clone, PartialEq)]
pub struct InputWish {
    pub files: Vec<String>,
    pub policy: Option<InputPolicy>,
    pub generator: Option<Generator>,
    pub seed: u64,
}

/// Whether a point has one of the values asked for on every axis named.
pub fn fits(point: &Point, filter: &Filter) -> bool {
    filter.iter().all(|(axis, values)| {
        let value = point.get(axis);
        value.is_some_and(|value| values.contains(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tolerance_is_set_by_its_parts() {
        let found = Tolerance::parse("cosine=0.5, max_abs=0.25").unwrap();
        assert_eq!((found.cosine, found.max_abs), (0.5, 0.25));
        assert_eq!(found.cosine_int8, Tolerance::USUAL.cosine_int8);
        for wrong in ["", "cosine", "cosine=2", "max_abs=-1", "cosine=nan", "l2=1"] {
            assert!(Tolerance::parse(wrong).is_err(), "{wrong}");
        }
    }
}
