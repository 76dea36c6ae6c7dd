//! What else a board shall do, as people write it: `idle`, `spin:cpu1`, `mem_copy_nt:cpu1@50%`,
//! `mem_read:cpu2-3@4000MB/s`, `model:b.onnx@10Hz:cpu3`, several joined by `+`.

use std::collections::BTreeMap;
use std::fmt;

use edgedyno_shared::load::{Effort, KINDS, Kind, Load, StressOrder, Throttle, WorkUnit, kind_of};
use edgedyno_shared::methods::{self, Method, Takes};
use edgedyno_shared::units::{Bytes, Nanos};
use serde_json::{Value, json};

use super::axes::cpu_list;
use super::tenant::{self, TenantTerm};
use crate::near;
use crate::options::parse;

/// From the start of the last stressor to the first trial of warm-up, where nobody says otherwise: the
/// second in which clocks and caches find their new state.
pub const SETTLE: Nanos = Nanos::from_secs(1);

/// A parsed condition; without terms the board is idle.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Condition {
    pub terms: Vec<Term>,
    /// Other models.
    pub tenants: Vec<TenantTerm>,
}

/// One stressor of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    pub kind: Kind,
    /// Which of its ways, for a tool that has several.
    pub method: Option<String>,
    /// Ascending, each once.
    pub cpus: Vec<u16>,
    pub level: Level,
    pub throttle: Throttle,
    pub working_set: Option<u64>,
}

/// How hard, as asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// As hard as it can.
    Full,
    /// A share of what it can, in millionths.
    Share(u32),
    /// Bytes a second, of all its CPUs together.
    PerSecond(u64),
}

/// A stressor at full effort, whose rate a share refers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Calibrated {
    pub board: String,
    pub stressor: String,
    /// As [`cpu_list`] writes them.
    pub cpus: String,
    pub working_set: Option<u64>,
}

/// Bytes a second that each could move.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ceilings(pub BTreeMap<Calibrated, u64>);

impl Ceilings {
    pub fn to_json(&self) -> Value {
        let one = |(calibrated, per_second): (&Calibrated, &u64)| {
            json!({
                "board": calibrated.board,
                "stressor": calibrated.stressor,
                "cpus": calibrated.cpus,
                "working_set_bytes": calibrated.working_set,
                "bytes_per_second": per_second,
            })
        };
        self.0.iter().map(one).collect()
    }

    /// Reads what [`Self::to_json`] wrote, and leaves out what it did not.
    pub fn from_json(value: &Value) -> Self {
        let one = |value: &Value| {
            let text = |name: &str| value[name].as_str().map(str::to_owned);
            let calibrated = Calibrated {
                board: text("board")?,
                stressor: text("stressor")?,
                cpus: text("cpus")?,
                working_set: value["working_set_bytes"].as_u64(),
            };
            Some((calibrated, value["bytes_per_second"].as_u64()?))
        };
        let all = value.as_array().into_iter().flatten();
        Self(all.filter_map(one).collect())
    }
}

impl Condition {
    /// As somebody asks for it.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let condition = Self::stored(text)?;
        for term in &condition.terms {
            term.check_method()?;
        }
        Ok(condition)
    }

    /// As it was measured: also what could be asked for once, and cannot any more.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn stored(text: &str) -> Result<Self, String> {
        if text.trim() == "idle" {
            return Ok(Self::default());
        }
        let mut condition = Self::default();
        for term in text.split('+') {
            match term.trim_start().starts_with(tenant::PREFIX) {
                true => condition.tenants.push(TenantTerm::parse(term)?),
                false => condition.terms.push(Term::parse(term)?),
            }
        }
        condition.sort();
        Ok(condition)
    }

    /// Brings it into the one order that it is written in.
    pub fn sort(&mut self) {
        self.terms.sort_by_key(Term::to_string);
        self.tenants.sort_by_key(TenantTerm::to_string);
    }

    pub fn is_idle(&self) -> bool {
        self.terms.is_empty() && self.tenants.is_empty()
    }

    pub fn cpus(&self) -> impl Iterator<Item = u16> {
        let tenants = self.tenants.iter().flat_map(|tenant| &tenant.cpus);
        let terms = self.terms.iter().flat_map(|term| &term.cpus);
        terms.chain(tenants).copied()
    }

    /// Calibrations that its shares refer to.
    pub fn needs(&self, board: &str) -> Vec<Calibrated> {
        let relative = self.terms.iter().filter(|term| term.needs_ceiling());
        relative.map(|term| term.calibrated(board)).collect()
    }

    /// What it stands for on a board.
    ///
    /// # Errors
    /// The calibration that is missing.
    pub fn load(
        &self,
        board: &str,
        ceilings: &Ceilings,
        settle: Nanos,
    ) -> Result<Load, Calibrated> {
        let stressors = self.terms.iter().map(|term| term.order(board, ceilings));
        Ok(Load {
            stressors: stressors.collect::<Result<_, _>>()?,
            settle,
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_idle() {
            return f.write_str("idle");
        }
        let terms = self.terms.iter().map(Term::to_string);
        let tenants = self.tenants.iter().map(TenantTerm::to_string);
        let all: Vec<String> = terms.chain(tenants).collect();
        f.write_str(&all.join("+"))
    }
}

impl Term {
    fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.trim().split('/');
        // A rate holds a slash of its own: `4000MB/s/sleep`.
        let mut head = parts.next().unwrap_or_default().to_owned();
        let mut options: Vec<&str> = parts.collect();
        if head.contains('@') && options.first() == Some(&"s") {
            options.remove(0);
            head.push_str("/s");
        }
        let (place, level) = match head.split_once('@') {
            Some((place, level)) => (place, Some(level)),
            None => (head.as_str(), None),
        };
        let (name, cpus) = match place.split_once(':') {
            Some((name, cpus)) => (name, Some(cpus)),
            None => (place, None),
        };
        let kind = *kind_of(name).ok_or_else(|| unknown(name))?;
        let cpus = cpus.ok_or_else(|| format!("CPUs are needed, such as {name}:cpu1"))?;
        let mut term = Self {
            kind,
            method: None,
            cpus: cpus_of(cpus)?,
            level: level.map_or(Ok(Level::Full), |level| level_of(kind, level))?,
            throttle: Throttle::Spin,
            working_set: None,
        };
        let mut size = None;
        for option in options {
            match option.split_once('=') {
                None if option == "sleep" => term.throttle = Throttle::Sleep,
                Some(("ws", text)) => size = Some(text),
                Some(("with", method)) => term.method = Some(method.to_owned()),
                _ => return Err(format!("`/{option}` is neither /sleep nor /ws=SIZE")),
            }
        }
        let method = methods::method_of(kind.name, term.method.as_deref());
        if let Some(size) = size {
            let method = method?;
            term.working_set = Some(working_set(kind, method, size)?);
        }
        if kind.unit == WorkUnit::Own && term.throttle == Throttle::Sleep {
            return Err(format!("{} goes its own pace", kind.name));
        }
        term.throttle = term.paced_by();
        Ok(term)
    }

    fn check_method(&self) -> Result<(), String> {
        methods::method_of(self.kind.name, self.method.as_deref()).map(drop)
    }

    /// What waits for something else leaves its CPU meanwhile, whatever it is told: only the wall can pace it.
    fn paced_by(&self) -> Throttle {
        match self.kind.waits() {
            true => Throttle::Sleep,
            false => self.throttle,
        }
    }

    /// Whether it is a share of what only a calibration can tell. A share of the time needs none.
    fn needs_ceiling(&self) -> bool {
        matches!(self.level, Level::Share(_)) && self.kind.unit == WorkUnit::Bytes
    }

    pub fn calibrated(&self, board: &str) -> Calibrated {
        Calibrated {
            board: board.to_owned(),
            stressor: self.kind.name.to_owned(),
            cpus: cpu_list(&self.cpus),
            working_set: self.working_set,
        }
    }

    fn order(&self, board: &str, ceilings: &Ceilings) -> Result<StressOrder, Calibrated> {
        let effort = match self.level {
            Level::Full => Effort::Full,
            Level::PerSecond(per_second) => Effort::Rate { per_second },
            Level::Share(ppm) if !self.needs_ceiling() => Effort::Duty { ppm },
            Level::Share(ppm) => {
                let calibrated = self.calibrated(board);
                let ceiling = ceilings.0.get(&calibrated).copied();
                let ceiling = ceiling.ok_or(calibrated)?;
                let part = u128::from(ceiling) * u128::from(ppm) / 1_000_000;
                Effort::Rate {
                    per_second: u64::try_from(part).unwrap_or(u64::MAX).max(1),
                }
            }
        };
        Ok(StressOrder {
            name: self.kind.name.to_owned(),
            method: self.method.clone(),
            cpus: self.cpus.clone(),
            effort,
            throttle: self.paced_by(),
            working_set: self.working_set.map(Bytes),
        })
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:cpu{}", self.kind.name, cpu_list(&self.cpus))?;
        match self.level {
            Level::Full => {}
            Level::Share(ppm) => write!(f, "@{}%", f64::from(ppm) / 1e4)?,
            Level::PerSecond(bytes) => write!(f, "@{}MB/s", bytes as f64 / 1e6)?,
        }
        if self.throttle == Throttle::Sleep && !self.kind.waits() {
            f.write_str("/sleep")?;
        }
        if let Some(method) = &self.method {
            write!(f, "/with={method}")?;
        }
        match self.working_set {
            Some(bytes) if bytes % (1 << 20) == 0 => write!(f, "/ws={}MiB", bytes >> 20),
            Some(bytes) => write!(f, "/ws={bytes}B"),
            None => Ok(()),
        }
    }
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    let near = near::matches(name, names.iter().copied());
    match near.first() {
        Some(near) => format!("there is no stressor `{name}`; did you mean {near}?"),
        None => format!(
            "there is no stressor `{name}`; there are idle, {}, and another model as model:FILE:cpu1",
            names.join(", ")
        ),
    }
}

pub(super) fn cpus_of(text: &str) -> Result<Vec<u16>, String> {
    let list = text
        .strip_prefix("cpu")
        .and_then(|list| parse::cpus(list).ok());
    let list =
        list.ok_or_else(|| format!("`{text}` is no list of CPUs, such as cpu1 or cpu2-3"))?;
    let mut cpus = list.0;
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

fn level_of(kind: Kind, text: &str) -> Result<Level, String> {
    if kind.unit == WorkUnit::Own && text != "100%" {
        return Err(format!("{} goes its own pace: it has no levels", kind.name));
    }
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
    if let Some(share) = text.strip_suffix('%').and_then(number) {
        if kind.unit == WorkUnit::Nothing && share < 100.0 {
            return Err("spin is a whole CPU: a share of it would be no control".into());
        }
        // Finer than this no schedule is kept.
        let ppm = (share * 1e4).round();
        return match ppm {
            1_000_000.0 => Ok(Level::Full),
            ppm if (1_000.0..1_000_000.0).contains(&ppm) => Ok(Level::Share(ppm as u32)),
            _ => Err(format!(
                "a share from 0.1 % to 100 % is needed, not {share} %"
            )),
        };
    }
    let units = [("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)];
    let rate = units.iter().find_map(|(unit, factor)| {
        let number = number(text.strip_suffix(unit)?)?;
        Some((number * factor).round())
    });
    match rate {
        Some(_) if kind.unit != WorkUnit::Bytes => Err(format!(
            "{} moves no bytes: give it a share such as 50%",
            kind.name
        )),
        Some(rate) if (1e3..1e13).contains(&rate) => Ok(Level::PerSecond(rate as u64)),
        Some(_) => Err("a rate from 1 kB/s to 10 TB/s is needed".into()),
        None => Err(format!(
            "`{text}` is neither a share such as 50% nor a rate such as 4000MB/s"
        )),
    }
}

fn working_set(kind: Kind, method: Option<&Method>, text: &str) -> Result<u64, String> {
    let goes_through = match (kind.unit, method) {
        (WorkUnit::Own, Some(method)) => method.takes == Takes::Memory,
        (WorkUnit::Own, None) => true,
        (unit, _) => unit == WorkUnit::Bytes && kind.name != "io",
    };
    if !goes_through {
        let method = method.map_or(String::new(), |method| format!("/with={}", method.name));
        return Err(format!("{}{method} goes through no memory", kind.name));
    }
    let bytes = bytes(text).filter(|bytes| (1 << 16..=1 << 40).contains(bytes));
    bytes.ok_or_else(|| format!("`{text}` is no size such as 64MiB"))
}

/// A number of bytes with its unit, decimal or binary.
pub fn bytes(text: &str) -> Option<u64> {
    let units = [
        ("GiB", 1_u64 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1_000),
        ("B", 1),
    ];
    units.into_iter().find_map(|(unit, factor)| {
        let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_mul(factor)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> String {
        Condition::parse(text).unwrap().to_string()
    }

    /// A run of an older build does not turn into an idle one.
    #[test]
    fn what_cannot_be_asked_for_any_more_is_still_read() {
        let text = "stress-ng:cpu1/with=mmap";
        assert!(Condition::parse(text).unwrap_err().contains("mmap"));
        let stored = Condition::stored(text).unwrap();
        assert!(!stored.is_idle());
        assert_eq!(stored.to_string(), text);
    }

    #[test]
    fn conditions_have_one_form() {
        for (text, form) in [
            (
                "model:b.onnx@10Hz:cpu3 + mem_read:cpu1@50%+model:a.onnx:cpu2",
                "mem_read:cpu1@50%+model:a.onnx:cpu2+model:b.onnx@10Hz:cpu3",
            ),
            ("idle", "idle"),
            ("stress-ng:cpu1@100%", "stress-ng:cpu1"),
            ("stress-ng:cpu1/with=memcpy", "stress-ng:cpu1/with=memcpy"),
            ("stress-ng:cpu1/ws=64MiB", "stress-ng:cpu1/ws=64MiB"),
            (
                "stress-ng:cpu1/ws=64MiB/with=vm",
                "stress-ng:cpu1/with=vm/ws=64MiB",
            ),
            ("stressapptest:cpu1/ws=64MiB", "stressapptest:cpu1/ws=64MiB"),
            ("spin:cpu1", "spin:cpu1"),
            ("mem_copy_nt:cpu1@50%", "mem_copy_nt:cpu1@50%"),
            ("mem_copy_nt:cpu1@100%", "mem_copy_nt:cpu1"),
            ("mem_read:cpu3,2@4GB/s", "mem_read:cpu2-3@4000MB/s"),
            (
                "mem_read:cpu2-3@4000MB/s/sleep",
                "mem_read:cpu2-3@4000MB/s/sleep",
            ),
            ("chase:cpu0/ws=64MiB/sleep", "chase:cpu0/sleep/ws=64MiB"),
            ("chase:cpu0/ws=1000kB", "chase:cpu0/ws=1000000B"),
            ("io:cpu1@50%", "io:cpu1@50%"),
            ("io:cpu1@20MB/s/sleep", "io:cpu1@20MB/s"),
            (
                "spin:cpu2 + cpu_int:cpu1@12.5%",
                "cpu_int:cpu1@12.5%+spin:cpu2",
            ),
        ] {
            assert_eq!(canonical(text), form, "{text}");
            assert_eq!(canonical(form), form);
        }
    }

    #[test]
    fn what_makes_no_condition_says_what_would() {
        for (text, says) in [
            ("", "there is no stressor ``"),
            ("mem_raed:cpu1", "did you mean mem_read?"),
            ("spin", "such as spin:cpu1"),
            ("spin:1", "such as cpu1"),
            ("spin:cpu1@50%", "no control"),
            ("mem_read:cpu1@0%", "from 0.1 % to 100 %"),
            ("mem_read:cpu1@101%", "from 0.1 % to 100 %"),
            ("mem_read:cpu1@fast", "neither a share"),
            ("mem_read:cpu1@1B/s", "neither a share"),
            ("cpu_int:cpu1@1GB/s", "moves no bytes"),
            ("cpu_int:cpu1/ws=64MiB", "no memory"),
            ("stress-ng:cpu1@50%", "no levels"),
            ("stress-ng:cpu1/sleep", "its own pace"),
            ("stress-ng:cpu1/with=--all", "no stressor of stress-ng"),
            ("stress-ng:cpu1/with=hdd", "there are stream, vm, memrate"),
            ("stress-ng:cpu1/ws=64MiB/with=memcpy", "no memory"),
            ("stressapptest:cpu1/with=hdd", "one way only"),
            ("mem_read:cpu1/with=memcpy", "one way only"),
            ("mem_read:cpu1/loud", "/loud"),
            ("idle+spin:cpu1", "there is no stressor `idle`"),
        ] {
            let why = Condition::parse(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    #[test]
    fn a_share_is_of_what_was_calibrated_on_that_board_with_those_cpus() {
        let condition = Condition::parse("mem_read:cpu1-2@25%+cpu_simd:cpu3@40%").unwrap();
        let needed = condition.needs("b");
        let calibrated = Calibrated {
            board: "b".into(),
            stressor: "mem_read".into(),
            cpus: "1-2".into(),
            working_set: None,
        };
        assert_eq!(needed, std::slice::from_ref(&calibrated));
        let mut ceilings = Ceilings::default();
        let missing = condition.load("b", &ceilings, SETTLE);
        assert_eq!(missing, Err(calibrated.clone()));
        ceilings.0.insert(calibrated, 12_000_000_000);
        let load = condition.load("b", &ceilings, SETTLE).unwrap();
        let efforts: Vec<Effort> = load.stressors.iter().map(|s| s.effort).collect();
        let per_second = 3_000_000_000;
        assert_eq!(
            efforts,
            [Effort::Duty { ppm: 400_000 }, Effort::Rate { per_second }]
        );
        assert_eq!(Ceilings::from_json(&ceilings.to_json()), ceilings);
        assert!(condition.load("c", &ceilings, SETTLE).is_err());
        assert_eq!(load.cpus(), [1, 2, 3]);
    }

    #[test]
    fn what_waits_for_a_disk_is_paced_by_the_wall_whatever_was_asked() {
        for text in ["io:cpu1@20MB/s", "io:cpu1@20MB/s/sleep", "io:cpu1"] {
            let mut condition = Condition::parse(text).unwrap();
            let throttle = |condition: &Condition| {
                let load = condition.load("b", &Ceilings::default(), SETTLE).unwrap();
                load.stressors[0].throttle
            };
            assert_eq!(throttle(&condition), Throttle::Sleep, "{text}");
            // As an option of a whole ladder sets it.
            condition.terms[0].throttle = Throttle::Spin;
            assert_eq!(throttle(&condition), Throttle::Sleep, "{text}");
            assert!(!condition.to_string().contains("sleep"), "{text}");
        }
        let read = Condition::parse("mem_read:cpu1@20MB/s").unwrap();
        let load = read.load("b", &Ceilings::default(), SETTLE).unwrap();
        assert_eq!(load.stressors[0].throttle, Throttle::Spin);
    }

    #[test]
    fn an_absolute_level_needs_no_calibration() {
        let condition = Condition::parse("mem_read:cpu1@1GB/s+mem_copy:cpu2").unwrap();
        assert!(condition.needs("b").is_empty());
        let load = condition.load("b", &Ceilings::default(), SETTLE).unwrap();
        assert_eq!(load.stressors.len(), 2);
    }

    proptest! {
        #[test]
        fn nothing_written_makes_it_panic(text in "\\PC*") {
            let _ = Condition::parse(&text);
        }

        #[test]
        fn the_canonical_form_reads_as_itself(
            kind in 0..KINDS.len(), cpu in 0_u16..8, more in 0_u16..8, ppm in 1_000_u32..1_000_001, sleep: bool
        ) {
            let kind = KINDS[kind];
            let level = match kind.unit {
                WorkUnit::Nothing | WorkUnit::Own => String::new(),
                _ => format!("@{}%", f64::from(ppm) / 1e4),
            };
            let may_sleep = sleep && kind.unit != WorkUnit::Own;
            let sleep = if may_sleep { "/sleep" } else { "" };
            let text = format!("{}:cpu{cpu}-{}{level}{sleep}", kind.name, cpu + more);
            let condition = Condition::parse(&text).unwrap();
            prop_assert_eq!(Condition::parse(&condition.to_string()), Ok(condition));
        }
    }
}
