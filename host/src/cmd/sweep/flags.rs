//! A sweep from flags alone: the same definition that a plan file makes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use edgedyno_shared::case::InputPolicy;
use edgedyno_shared::order::ColdStart;

use crate::cmd::run::ColdChoice;
use crate::exit::CommandError;
use crate::options::inputs::InputOptions;
use crate::options::limits::LimitOptions;
use crate::options::parse;
use crate::options::rules::RuleOptions;
use crate::options::schedule::{MAX_REPEATS, ScheduleOptions};
use crate::options::telemetry::TelemetryOptions;
use crate::plan::schedule::Within;
use crate::plan::sweep::align::Align;
use crate::plan::sweep::axis::{self, Fault};
use crate::plan::sweep::file::model_name;
use crate::plan::sweep::{
    Axis, Definition, Filter, InputWish, ModelFiles, SentinelWish, Tolerance,
};

/// What makes a plan where no file does.
#[derive(Debug, Clone, Args)]
pub struct PlanFlags {
    /// An axis and its values, such as threads=1,2,4 or option.KEY=0,1; `;` between values that hold
    /// commas; may be repeated
    #[arg(long = "axis", value_name = "NAME=VALUES", value_parser = parse::pair, help_heading = "Axes")]
    pub axes: Vec<(String, String)>,
    /// Axes that change together instead of in every combination; may be repeated
    #[arg(long, value_name = "AXIS,AXIS", help_heading = "Axes")]
    pub zip: Vec<String>,
    /// Leaves out cases with these values, such as threads=4,batch=1; may be repeated
    #[arg(long, value_name = "AXIS=VALUE,...", help_heading = "Axes")]
    pub exclude: Vec<String>,
    /// Adds cases with these values to those of the axes; may be repeated
    #[arg(long, value_name = "AXIS=VALUE,...", help_heading = "Axes")]
    pub include: Vec<String>,
    /// Brings the last two sizes of shapes to a multiple, such as shape.images=14:floor, ceil or error
    #[arg(long, value_name = "AXIS=N:MODE", value_parser = parse::pair, help_heading = "Axes")]
    pub align: Vec<(String, String)>,
    #[command(flatten)]
    pub schedule: ScheduleOptions,
    #[command(flatten)]
    pub rules: RuleOptions,
    #[command(flatten)]
    pub inputs: InputOptions,
    /// What is emptied before each repeat, so that cold is cold
    #[arg(long, value_name = "WHAT", help_heading = "Rules")]
    pub cold: Option<ColdChoice>,
    #[command(flatten)]
    pub limits: LimitOptions,
    #[command(flatten)]
    pub telemetry: TelemetryOptions,
    /// Case whose outputs those of the others are compared with [default: the first]
    #[arg(long, value_name = "AXIS=VALUE,...", help_heading = "Outputs")]
    pub reference: Option<String>,
    /// How far outputs may be from those of that case, such as cosine=0.999,max_abs=0.01
    #[arg(long, value_name = "NAME=VALUE,...", value_parser = Tolerance::parse, help_heading = "Outputs")]
    pub tolerance: Option<Tolerance>,
    /// Compare no outputs
    #[arg(long, conflicts_with_all = ["reference", "tolerance"], help_heading = "Outputs")]
    pub no_compare: bool,
}

impl PlanFlags {
    /// The definition of a sweep of these models.
    pub(super) fn definition(&self, models: &[PathBuf]) -> Result<Definition, CommandError> {
        let (names, files) = named(models)?;
        let mut axes = vec![Axis {
            name: "model".into(),
            values: names,
            ..Axis::default()
        }];
        for (name, values) in &self.axes {
            axes.push(self.axis(name, values)?);
        }
        self.check(&axes)?;
        let exclude = filters(&self.exclude)?;
        exclude
            .iter()
            .try_for_each(|filter| is_there(&axes, filter))?;
        let schedule = &self.schedule;
        let reference = match &self.reference {
            Some(text) => filter(text)?,
            None => Filter::new(),
        };
        let within = schedule.p50_within.map(|share| Within {
            share,
            max_repeats: schedule
                .max_repeats
                .map_or(MAX_REPEATS, std::num::NonZero::get),
        });
        Ok(Definition {
            name: None,
            folder: PathBuf::new(),
            models: files,
            zip: self.zip.iter().map(|text| names_of(text)).collect(),
            axes,
            variants: Vec::new(),
            include: filters(&self.include)?,
            exclude,
            order: schedule.order,
            seed: schedule.order_seed,
            repeats: self.rules.repeat.get(),
            within,
            goal: schedule.optimize.clone(),
            max_attempts: schedule.max_attempts,
            time_budget: schedule
                .time_budget
                .map(|span| Duration::from_nanos(span.0.unsigned_abs())),
            sentinel: schedule.sentinel_every.map(|every| SentinelWish {
                every: every.get(),
                case: Filter::new(),
            }),
            reference: (!self.no_compare).then_some(reference),
            tolerance: self.tolerance.unwrap_or(Tolerance::USUAL),
            rules: self.rules.rules(),
            limits: self.limits.limits(),
            cold: match self.cold {
                Some(ColdChoice::PageCache) => ColdStart::PageCache,
                None => ColdStart::FreshProcess,
            },
            telemetry: self.telemetry.mode(),
            preparation: self.telemetry.preparation(),
            inputs: InputWish {
                files: self.inputs.inputs.clone(),
                policy: self.inputs.input_policy.map(InputPolicy::from),
                generator: self.inputs.generator.clone(),
                seed: self.inputs.seed,
            },
        })
    }

    fn axis(&self, name: &str, text: &str) -> Result<Axis, CommandError> {
        if name == "model" {
            return Err(CommandError::usage("models are named before the flags")
                .hint("`edgedyno sweep a.onnx b.onnx --axis threads=1,2`"));
        }
        let separator = if text.contains(';') { ';' } else { ',' };
        let values = text
            .split(separator)
            .map(|value| canonical(name, value.trim()));
        let align = self.align.iter().find(|(axis, _)| axis == name);
        let align = align.map(|(_, text)| Align::parse(text)).transpose();
        Ok(Axis {
            name: name.to_owned(),
            values: values.collect::<Result<_, _>>()?,
            stop_on_oom: self.schedule.stop_on_oom.iter().any(|axis| axis == name),
            align: align.map_err(CommandError::usage)?,
        })
    }

    /// Flags that name axes must name some that are there.
    fn check(&self, axes: &[Axis]) -> Result<(), CommandError> {
        let known: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
        for (at, name) in known.iter().enumerate() {
            if known[..at].contains(name) {
                return Err(CommandError::usage(format!("axis `{name}` is given twice"))
                    .hint("put all its values behind one --axis"));
            }
        }
        let zipped: Vec<Vec<String>> = self.zip.iter().map(|text| names_of(text)).collect();
        let aligned = self.align.iter().map(|(axis, _)| axis);
        let named = zipped
            .iter()
            .flatten()
            .chain(aligned)
            .chain(&self.schedule.stop_on_oom);
        for name in named {
            if !known.contains(&name.as_str()) {
                return Err(CommandError::usage(format!(
                    "there is no axis `{name}` in this sweep"
                ))
                .hint(format!("its axes are {}", known.join(", "))));
            }
        }
        for zip in &zipped {
            let lengths = axes.iter().filter(|axis| zip.contains(&axis.name));
            let lengths: Vec<usize> = lengths.map(|axis| axis.values.len()).collect();
            if lengths.windows(2).any(|pair| pair[0] != pair[1]) {
                let what = format!(
                    "{} do not have the same number of values",
                    zip.join(" and ")
                );
                return Err(CommandError::usage(what).hint("axes that are zipped go in step"));
            }
        }
        Ok(())
    }
}

fn named(models: &[PathBuf]) -> Result<(Vec<String>, BTreeMap<String, ModelFiles>), CommandError> {
    let mut names = Vec::new();
    let mut files = BTreeMap::new();
    for path in models {
        let name = model_name(path)
            .ok_or_else(|| CommandError::usage(format!("`{}` names no file", path.display())))?;
        let file = ModelFiles::One(path.clone());
        if files
            .insert(name.clone(), file.clone())
            .is_some_and(|other| other != file)
        {
            return Err(
                CommandError::usage(format!("two models are called `{name}`"))
                    .hint("name them in a plan file: { name = \"other\", onnx = \"FILE\" }"),
            );
        }
        names.push(name);
    }
    Ok((names, files))
}

/// A filter that fits no case is a slip of the finger.
fn is_there(axes: &[Axis], filter: &Filter) -> Result<(), CommandError> {
    for (name, values) in filter {
        let axis = axes.iter().find(|axis| axis.name == *name);
        let known = axis.map_or(&[][..], |axis| axis.values.as_slice());
        if let Some(missing) = values.iter().find(|value| !known.contains(value)) {
            let what = format!("no case has {name}={missing}");
            return Err(CommandError::usage(what).hint(match known {
                [] => format!("`{name}` is not among the axes of this sweep"),
                known => format!("{name} is one of {}", known.join(", ")),
            }));
        }
    }
    Ok(())
}

fn names_of(text: &str) -> Vec<String> {
    text.split(',').map(|name| name.trim().to_owned()).collect()
}

fn filters(texts: &[String]) -> Result<Vec<Filter>, CommandError> {
    texts.iter().map(|text| filter(text)).collect()
}

fn filter(text: &str) -> Result<Filter, CommandError> {
    let mut filter = Filter::new();
    for pair in text.split(',') {
        let (name, value) = parse::pair(pair.trim()).map_err(|why| {
            CommandError::usage(format!("`{text}`: {why}")).hint("such as threads=4,batch=1")
        })?;
        let value = match name.as_str() {
            "model" => value,
            name => canonical(name, &value)?,
        };
        filter.entry(name).or_default().push(value);
    }
    Ok(filter)
}

fn canonical(name: &str, value: &str) -> Result<String, CommandError> {
    axis::canonical(name, value).map_err(|fault| match fault {
        Fault::Unknown { hint } => {
            CommandError::usage(format!("there is no axis `{name}`")).hint(hint)
        }
        Fault::Value(why) => {
            CommandError::usage(format!("`{value}` is no value of `{name}`: {why}"))
                .hint("`edgedyno sweep --help` shows examples; docs/plans.md describes every axis")
        }
    })
}
