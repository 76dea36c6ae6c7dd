//! What the fake backend shall do, read from `--option key=value`.

use edgedyno_shared::repeat::Stage;
use edgedyno_shared::units::{Bytes, Nanos};
use edgedyno_shared::wire::failure::{Failure, FailureCode};

use super::faults::{self, Fault};

/// A parsed script.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    pub seed: u64,
    pub latency: Nanos,
    /// Standard deviation of the latency, in hundredths of it.
    pub jitter_percent: f64,
    /// Growth of the latency over each thousand trials, in hundredths.
    pub drift_percent: f64,
    /// Slows the first trials by this much, fading over ten.
    pub cold_percent: f64,
    pub phases: u32,
    pub steps: u32,
    pub compiles: bool,
    pub threads: Option<u32>,
    /// Bytes kept from each trial.
    pub leak: u64,
    /// Bytes held for each item of the batch, from bind on.
    pub item_bytes: u64,
    /// Bytes of noise written to stdout and stderr before the first trial.
    pub flood: u64,
    pub wrong_output: bool,
    /// Starts a process of its own that would live this long.
    pub child_seconds: Option<u64>,
    /// A fault, and the stage or trial it comes in.
    pub fault: Option<(Fault, When)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    In(Stage),
    /// Counted from the repeat's first slot.
    Trial(u64),
}

/// Keys, for the message about an unknown one.
const KEYS: &str = "seed, latency_us, jitter_percent, drift_percent, cold_percent, phases, steps, \
    compiles, threads, leak_bytes, item_bytes, flood_bytes, wrong_output, \
    child_seconds, temperature_c, cooling_c_per_s, fault, at";

impl Script {
    fn new() -> Self {
        Self {
            seed: 1,
            latency: Nanos(1_000_000),
            jitter_percent: 1.0,
            drift_percent: 0.0,
            cold_percent: 0.0,
            phases: 0,
            steps: 0,
            compiles: false,
            threads: None,
            leak: 0,
            item_bytes: 0,
            flood: 0,
            wrong_output: false,
            child_seconds: None,
            fault: None,
        }
    }

    /// # Errors
    /// `OptionRefused`, naming the key and what it may be.
    pub fn from_options(options: &[(String, String)]) -> Result<Self, Failure> {
        let mut script = Self::new();
        let (mut fault, mut when) = (None, When::Trial(5));
        for (key, value) in options {
            match key.as_str() {
                "seed" => script.seed = number(key, value)?,
                "latency_us" => {
                    script.latency = Nanos((number::<f64>(key, value)? * 1000.0) as i64);
                }
                "jitter_percent" => script.jitter_percent = number(key, value)?,
                "drift_percent" => script.drift_percent = number(key, value)?,
                "cold_percent" => script.cold_percent = number(key, value)?,
                "phases" => script.phases = number(key, value)?,
                "steps" => script.steps = number(key, value)?,
                "compiles" => script.compiles = number(key, value)?,
                "threads" => script.threads = Some(number(key, value)?),
                "leak_bytes" => script.leak = number(key, value)?,
                "item_bytes" => script.item_bytes = number(key, value)?,
                "flood_bytes" => script.flood = number(key, value)?,
                "wrong_output" => script.wrong_output = number(key, value)?,
                // A temperature of the fake board, which the daemon reads before the worker starts.
                "temperature_c" | "cooling_c_per_s" => drop(number::<f64>(key, value)?),
                "child_seconds" => script.child_seconds = Some(number(key, value)?),
                "fault" => {
                    fault = Some(Fault::from_name(value).ok_or_else(|| refused(key, value))?)
                }
                "at" => when = When::parse(value).ok_or_else(|| refused(key, value))?,
                _ => {
                    let detail = format!("backend fake has no option `{key}`");
                    let failure = Failure::new(FailureCode::OptionRefused, detail);
                    return Err(failure.hint(format!("its options are {KEYS}")));
                }
            }
        }
        script.fault = fault.map(|f| (f, when));
        Ok(script)
    }

    /// Commits the fault that the script has for this stage, if any.
    pub fn fault_in(&self, stage: Stage, memory_limit: Option<Bytes>) -> Result<(), Failure> {
        match self.fault {
            Some((fault, When::In(at))) if at == stage => faults::commit(fault, memory_limit),
            _ => Ok(()),
        }
    }
}

impl When {
    fn parse(text: &str) -> Option<Self> {
        let stage = Stage::ALL.into_iter().find(|s| s.name() == text);
        stage
            .map(Self::In)
            .or_else(|| text.parse().ok().map(Self::Trial))
    }
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, Failure> {
    value.parse().map_err(|_| refused(key, value))
}

fn refused(key: &str, value: &str) -> Failure {
    let detail = format!("backend fake cannot use `{value}` for its option `{key}`");
    Failure::new(FailureCode::OptionRefused, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(pairs: &[(&str, &str)]) -> Result<Script, Failure> {
        let options: Vec<_> = pairs
            .iter()
            .map(|(k, v)| ((*k).into(), (*v).into()))
            .collect();
        Script::from_options(&options)
    }

    #[test]
    fn options_are_read() {
        let read = script(&[("latency_us", "2.5"), ("fault", "hang"), ("at", "load")]).unwrap();
        assert_eq!(read.latency, Nanos(2500));
        assert_eq!(read.fault, Some((Fault::Hang, When::In(Stage::Load))));
    }

    #[test]
    fn unknown_keys_and_values_are_refused() {
        for pair in [
            ("latncy_us", "1"),
            ("latency_us", "fast"),
            ("fault", "boom"),
            ("at", "x"),
        ] {
            let failure = script(&[pair]).unwrap_err();
            assert_eq!(failure.code, FailureCode::OptionRefused);
            assert!(failure.detail.contains(pair.0), "{failure}");
        }
    }
}
