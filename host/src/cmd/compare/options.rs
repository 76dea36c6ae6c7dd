//! The flags of `compare`, and what they ask for.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::compare::matching::Between;
use crate::compare::metric::{self, DEFAULT, Metric};
use crate::compare::report::Ask;
use crate::compare::rule::Rule;
use crate::exit::CommandError;
use crate::fields::condition::Condition;
use crate::options::lease::LeaseOptions;

const EXAMPLES: &str = "\
examples:
  edgedyno compare before-upgrade last
  edgedyno compare last --between backend=onnxruntime,rten
  edgedyno compare before last --between runtime --metric p50,p99
  edgedyno compare last --save-baseline bench/baseline.json
  edgedyno compare --baseline bench/baseline.json --fail-over 3% --confirm
  edgedyno compare before last --rerun --repeat 10

A is what it was, B what it is now: slower means that B is slower than A.
docs/statistics.md explains each verdict.";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareArgs {
    /// Two runs, A and B, or one with --between or --baseline: ids, beginnings of ids, tags, `last`,
    /// RUN/CASE, or profile files
    #[arg(value_name = "A B", num_args = 0..=2)]
    pub runs: Vec<String>,
    /// A case of both sides: the beginning of its key, or axes such as threads=2,batch=1
    #[arg(long = "case", value_name = "KEY")]
    pub case: Option<String>,
    /// Compare across an axis: within one run its values, between two runs whatever they have
    #[arg(long, value_name = "AXIS[=A,B]", value_parser = Between::parse)]
    pub between: Option<Between>,
    /// Take a run by its tag, or a file of --save-baseline, as A
    #[arg(long, value_name = "TAG|FILE")]
    pub baseline: Option<String>,
    /// Write the figures of one run to a file that can be checked in, and stop there
    #[arg(long, value_name = "FILE", conflicts_with_all = ["baseline", "between", "rerun", "confirm", "fail_over", "require"])]
    pub save_baseline: Option<PathBuf>,
    /// How the answer is written
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
    /// What is compared, such as p50,p99,mean,rate,cold_total_ms,rss_peak_bytes
    #[arg(
        long = "metric",
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "p50",
        help_heading = "Judgement"
    )]
    pub metrics: Vec<String>,
    /// Rule of judgement; without it paired-t where arms took turns, else welch-t
    #[arg(long, value_name = "RULE", help_heading = "Judgement")]
    pub rule: Option<RuleChoice>,
    /// Least effect that is told, such as 2%; without it 1 % where arms took turns, else 3 %
    #[arg(long, value_name = "PCT", value_parser = percent, help_heading = "Judgement")]
    pub min_effect: Option<Share>,
    /// Accept a difference in this condition or axis; may be repeated
    #[arg(long = "allow", value_name = "NAME", help_heading = "Judgement")]
    pub allowed: Vec<String>,
    /// Measure both arms now, taking turns, and compare that
    #[arg(long, help_heading = "Measuring again")]
    pub rerun: bool,
    /// Measure again what differs, taking turns, and report that; of a baseline file, B alone
    #[arg(long, conflicts_with = "rerun", help_heading = "Measuring again")]
    pub confirm: bool,
    /// Repeats of each arm that is measured again
    #[arg(
        long,
        value_name = "N",
        default_value = "10",
        help_heading = "Measuring again"
    )]
    pub repeat: NonZeroU32,
    /// Name the run that is measured; may be repeated
    #[arg(long = "tag", value_name = "NAME", help_heading = "Measuring again")]
    pub tags: Vec<String>,
    /// Exit with 5 when B is worse by at least this much, such as 3%
    #[arg(long, value_name = "PCT", value_parser = percent, help_heading = "Gates")]
    pub fail_over: Option<Share>,
    /// Exit with 5 unless every case of B fulfils this, such as "p99 <= 33ms"; may be repeated
    #[arg(long, value_name = "CONDITION", value_parser = Condition::parse, help_heading = "Gates")]
    pub require: Vec<Condition>,
    /// Compare under unequal conditions too, and exit with 0 where 6 says that something is undecided
    #[arg(long, help_heading = "Gates")]
    pub force: bool,
    #[command(flatten)]
    pub lease: LeaseOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    /// For a pull request
    Markdown,
    /// For a build server
    Junit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RuleChoice {
    /// Student's t on logarithms, paired by round; only where arms took turns
    PairedT,
    /// Welch's t on logarithms
    WelchT,
    /// Studentised bootstrap over repeats, from 10 repeats
    Bootstrap,
    /// Two standard errors of the difference of means, as many tools do
    #[value(name = "2se")]
    TwoSe,
    /// The same with population deviations, on the rate, as libreyolo does
    #[value(name = "libreyolo")]
    LibreYolo,
}

impl From<RuleChoice> for Rule {
    fn from(choice: RuleChoice) -> Self {
        match choice {
            RuleChoice::PairedT => Self::PairedT,
            RuleChoice::WelchT => Self::WelchT,
            RuleChoice::Bootstrap => Self::Bootstrap,
            RuleChoice::TwoSe => Self::TwoSe,
            RuleChoice::LibreYolo => Self::LibreYolo,
        }
    }
}

/// A share of one, written as a percentage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(pub f64);

fn percent(text: &str) -> Result<Share, String> {
    let text = text.trim();
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let parsed: f64 = number
        .parse()
        .map_err(|_| "a percentage such as 3% is needed".to_owned())?;
    if number == text && parsed > 0.0 && parsed < 1.0 {
        let percent = (parsed * 1e8).round() / 1e6;
        return Err(format!("write {percent}%, or {number}% if that is meant"));
    }
    let number = parsed;
    match number > 0.0 && number < 1000.0 {
        true => Ok(Share(number / 100.0)),
        false => Err("it must lie above 0 % and below 1000 %".into()),
    }
}

impl CompareArgs {
    pub(super) fn ask(&self) -> Result<Ask, CommandError> {
        let found = self.metrics.iter().map(|name| metric::find(name.trim()));
        let found: Vec<&'static Metric> = found.collect::<Result<_, _>>()?;
        // One that is named twice is one comparison and not two.
        let mut metrics: Vec<&'static Metric> = Vec::new();
        for metric in found {
            if metrics.iter().all(|known| known.name != metric.name) {
                metrics.push(metric);
            }
        }
        let is_default = self.metrics.iter().all(|name| name == "p50");
        if self.rule == Some(RuleChoice::LibreYolo) {
            if is_default {
                metrics = vec![metric::find("rate_hz")?];
            } else if metrics.iter().any(|metric| metric.name != "rate_hz") {
                return Err(CommandError::usage("rule libreyolo judges the rate only")
                    .hint("use --metric rate, or --rule 2se for other metrics"));
            }
        }
        debug_assert!(metric::find(DEFAULT).is_ok());
        Ok(Ask {
            metrics,
            rule: self.rule.map(Rule::from),
            min_effect: self.min_effect.map(|share| share.0),
            allowed: self.allowed.clone(),
            force: self.force,
        })
    }

    /// Names of A and, unless one run is compared within itself, of B.
    pub(super) fn sides(&self) -> Result<(String, Option<String>), CommandError> {
        match (self.runs.as_slice(), &self.baseline) {
            ([], Some(baseline)) => Ok((baseline.clone(), Some("last".into()))),
            ([b], Some(baseline)) => Ok((baseline.clone(), Some(b.clone()))),
            ([_, _, ..], Some(_)) => Err(CommandError::usage("there are two sides already")
                .hint("with --baseline name B alone, or leave --baseline out")),
            ([a, b], None) => Ok((a.clone(), Some(b.clone()))),
            ([a], None) if self.between.is_some() => Ok((a.clone(), None)),
            ([], None) if self.between.is_some() => Ok(("last".into(), None)),
            _ => Err(CommandError::usage("two runs are needed to compare")
                .hint("`edgedyno compare A B`, or one with --between AXIS=A,B or --baseline FILE")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_have_a_sign_or_none() {
        assert_eq!(percent("3%"), Ok(Share(0.03)));
        assert_eq!(percent("0.5 %"), Ok(Share(0.005)));
        assert_eq!(percent("2"), Ok(Share(0.02)));
        for wrong in ["", "%", "-1%", "0", "x", "1e9", "nan", "3%%"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
        // Five per cent to most, and a twentieth of one to some.
        let doubt = percent("0.05").unwrap_err();
        assert!(doubt.contains("5%") && doubt.contains("0.05%"), "{doubt}");
        assert_eq!(percent("0.05%"), Ok(Share(0.0005)));
    }
}
