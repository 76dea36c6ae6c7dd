//! Plan files: TOML, read in one pass that knows every key and says where a wrong one stands.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;
use std::time::Duration;

use edgedyno_shared::case::InputPolicy;
use edgedyno_shared::order::{ColdStart, CoolDown, Limits, Preparation, Rules};
use edgedyno_shared::telemetry::TelemetryMode;
use edgedyno_shared::units::Nanos;

use super::align::{Align, Mode};
use super::axis::{self, Fault};
use super::document::{Entry, Node, Result, Source, Table};
use super::{Axis, Definition, Filter, InputWish, ModelFiles, SentinelWish, Tolerance, Variant};
use crate::exit::CommandError;
use crate::options::limits::LimitOptions;
use crate::options::rules::{self, RuleOptions};
use crate::options::{parse, schedule, telemetry};
use crate::plan::goal::Goal;
use crate::plan::schedule::{Order, Within};

/// Repeats of a case where the plan does not say how many.
pub const REPEATS: u32 = 3;

/// Failures of a case after which its other repeats are left out, where the plan does not say.
pub const MAX_ATTEMPTS: u32 = 2;

/// Reads a plan file.
pub fn read(path: &Path) -> std::result::Result<Definition, CommandError> {
    let text = std::fs::read_to_string(path).map_err(|why| {
        CommandError::usage(format!("plan `{}` cannot be read", path.display()))
            .because(why)
            .hint("`edgedyno sweep --help` shows an example of a plan file")
    })?;
    Ok(parse(path, &text)?)
}

/// Reads the text of a plan file; files it names are relative to its folder.
pub fn parse(path: &Path, text: &str) -> Result<Definition> {
    Source { path, text }.read(|root| definition(root, path))
}

fn definition(mut root: Table<'_>, path: &Path) -> Result<Definition> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut axes = Axes::read(root.need("axes")?.table()?, folder)?;
    let variants = root.take("variant");
    let variants = variants.map_or(Ok(Vec::new()), |node| axes.variants(&node))?;
    let zip = root
        .take("zip")
        .map_or(Ok(Vec::new()), |node| axes.zip(&node))?;
    let exclude = root.take("exclude");
    let exclude = exclude.map_or(Ok(Vec::new()), |node| axes.filters(&node, true))?;
    let include = root.take("include");
    let include = include.map_or(Ok(Vec::new()), |node| axes.filters(&node, false))?;
    if axes.models.is_empty() {
        return Err(root
            .error("no model is named")
            .hint("add `model = \"FILE\"` to [axes]"));
    }
    let compares = root
        .take("compare_outputs")
        .map_or(Ok(true), |node| node.flag())?;
    let reference = root.take("reference");
    let reference = reference.map_or(Ok(Filter::new()), |node| axes.filter(&node, true))?;
    let sentinel = root.take("sentinel");
    let sentinel = sentinel
        .map(|node| sentinel_wish(&node, &axes))
        .transpose()?;
    let (rules, within) = match root.take("rules") {
        Some(node) => rules_of(&node)?,
        None => (usual_rules(None, None, None), None),
    };
    let goal = root
        .take("optimize")
        .map(|node| node.parse(Goal::parse))
        .transpose()?;
    let definition = Definition {
        name: root.take("name").map(|node| node.scalar()).transpose()?,
        order: root
            .take("order")
            .map_or(Ok(Order::default()), |node| node.parse(schedule::order))?,
        seed: root.take("seed").map_or(Ok(1), |node| node.number(0))?,
        repeats: root
            .take("repeats")
            .map_or(Ok(REPEATS), |node| node.number(1))?,
        max_attempts: root
            .take("max_attempts")
            .map_or(Ok(MAX_ATTEMPTS), |node| node.number(1))?,
        time_budget: root
            .take("time_budget")
            .map(|node| node.parse(parse::positive_span))
            .transpose()?
            .map(|span| Duration::from_nanos(span.0.unsigned_abs())),
        cold: root
            .take("cold")
            .map_or(Ok(ColdStart::FreshProcess), |node| node.parse(cold))?,
        telemetry: root
            .take("telemetry")
            .map_or(Ok(TelemetryMode::Normal), |node| {
                node.parse(telemetry::mode)
            })?,
        preparation: Preparation {
            cool_down: root
                .take("cool_down")
                .map(|node| cool_down(&node))
                .transpose()?,
            fix_clocks: root
                .take("fix_clocks")
                .map_or(Ok(false), |node| node.flag())?,
        },
        tolerance: root
            .take("tolerance")
            .map_or(Ok(Tolerance::USUAL), |node| tolerance(&node))?,
        limits: root
            .take("limits")
            .map_or_else(|| Ok(usual_limits()), |node| limits(&node))?,
        inputs: root
            .take("inputs")
            .map_or_else(|| Ok(usual_inputs()), |node| inputs(&node, folder))?,
        folder: folder.to_owned(),
        models: axes.models,
        axes: axes.axes,
        zip,
        variants,
        include,
        exclude,
        within,
        goal,
        sentinel,
        reference: compares.then_some(reference),
        rules,
    };
    root.finish()?;
    Ok(definition)
}

/// The axes as far as they are read, which other parts of the file refer to.
struct Axes<'f> {
    folder: &'f Path,
    axes: Vec<Axis>,
    models: BTreeMap<String, ModelFiles>,
    /// Values that variants give, by axis.
    of_variants: BTreeMap<String, Vec<String>>,
}

impl<'f> Axes<'f> {
    fn read(table: Table<'_>, folder: &'f Path) -> Result<Self> {
        let mut axes = Self {
            folder,
            axes: Vec::new(),
            models: BTreeMap::new(),
            of_variants: BTreeMap::new(),
        };
        for named in flatten(table, true)? {
            let axis = axes.axis(&named)?;
            axes.axes.push(axis);
        }
        Ok(axes)
    }

    /// Values alone, or a table of values and what holds along them.
    fn axis(&mut self, named: &Named<'_>) -> Result<Axis> {
        let mut axis = Axis {
            name: named.name.clone(),
            ..Axis::default()
        };
        let mut values = named.entry.node.clone();
        if let Some(mut spec) = spec_of(&values)? {
            values = spec.need("values")?;
            axis.stop_on_oom = spec.take("stop_on").map_or(Ok(false), |node| {
                node.parse(|text| match text {
                    "oom" => Ok(true),
                    _ => Err("the one thing to stop on is \"oom\"".into()),
                })
            })?;
            axis.align = spec.take("align").map(|node| align(&node)).transpose()?;
            spec.finish()?;
        }
        for node in values.list() {
            axis.values.push(self.value(named, &node)?);
        }
        match axis.values.is_empty() {
            true => Err(named
                .entry
                .error(format!("axis `{}` has no values", axis.name))),
            false => Ok(axis),
        }
    }

    fn value(&mut self, named: &Named<'_>, node: &Node<'_>) -> Result<String> {
        if named.name == "model" {
            return self.model(node);
        }
        canonical(named, node)
    }

    /// A file, or a name with a file for each format.
    fn model(&mut self, node: &Node<'_>) -> Result<String> {
        if !node.is_table() {
            let path = self.folder.join(node.scalar()?);
            let name = model_name(&path).ok_or_else(|| node.error("this names no file"))?;
            return self.add_model(node, name, ModelFiles::One(path));
        }
        let mut table = node.table()?;
        let name = table.need("name")?.scalar()?;
        let mut files = Vec::new();
        for entry in table.rest() {
            files.push((entry.key.clone(), self.folder.join(entry.node.scalar()?)));
        }
        if files.is_empty() {
            let error = node.error(format!("model `{name}` has no file"));
            return Err(error.hint("such as { name = \"net\", onnx = \"net.onnx\" }"));
        }
        self.add_model(node, name, ModelFiles::ByFormat(files))
    }

    fn add_model(&mut self, node: &Node<'_>, name: String, files: ModelFiles) -> Result<String> {
        match self.models.insert(name.clone(), files.clone()) {
            Some(other) if other != files => {
                let error = node.error(format!("two models are called `{name}`"));
                Err(error.hint("name one of them: { name = \"other\", onnx = \"FILE\" }"))
            }
            _ => Ok(name),
        }
    }

    fn variants(&mut self, node: &Node<'_>) -> Result<Vec<Variant>> {
        let mut variants: Vec<Variant> = Vec::new();
        for node in node.list() {
            let mut table = node.table()?;
            let name = table.need("name")?.scalar()?;
            if variants.iter().any(|variant| variant.name == name) {
                return Err(node.error(format!("two variants are called `{name}`")));
            }
            let mut values = super::Point::new();
            for named in flatten(table, true)? {
                if self.axes.iter().any(|axis| axis.name == named.name) {
                    let what = format!("`{}` is an axis and set by a variant too", named.name);
                    return Err(named.entry.error(what).hint("leave one of them out"));
                }
                let node = named.entry.node.clone();
                let value = self.value(&named, &node)?;
                let of_axis = self.of_variants.entry(named.name.clone()).or_default();
                of_axis.push(value.clone());
                values.insert(named.name, value);
            }
            variants.push(Variant { name, values });
        }
        Ok(variants)
    }

    fn zip(&self, node: &Node<'_>) -> Result<Vec<Vec<String>>> {
        let mut zips: Vec<Vec<String>> = Vec::new();
        for group in node.list() {
            let Some(items) = group.items() else {
                let error = group.error("a list of lists of axes is needed");
                return Err(error.hint("such as zip = [[\"threads\", \"batch\"]]"));
            };
            let mut names = Vec::new();
            for item in items {
                let name = item.scalar()?;
                let axis = self.axes.iter().find(|axis| axis.name == name);
                let axis = axis.ok_or_else(|| item.error(format!("`{name}` is no axis here")))?;
                if zips
                    .iter()
                    .flatten()
                    .chain(&names)
                    .any(|other| *other == name)
                {
                    return Err(item.error(format!("`{name}` is zipped twice")));
                }
                let first = names.first().unwrap_or(&name);
                let first = self.axes.iter().find(|axis| axis.name == *first);
                let expected = first.map_or(0, |first| first.values.len());
                if axis.values.len() != expected {
                    return Err(item.error(format!(
                        "`{name}` has {} values and what it is zipped with has {expected}",
                        axis.values.len()
                    )));
                }
                names.push(name);
            }
            zips.push(names);
        }
        Ok(zips)
    }

    fn filters(&self, node: &Node<'_>, must_exist: bool) -> Result<Vec<Filter>> {
        let filters = node.list();
        let filters = filters.iter().map(|node| self.filter(node, must_exist));
        filters.collect()
    }

    /// Axes and values; with `must_exist` a value that no case has is an error.
    fn filter(&self, node: &Node<'_>, must_exist: bool) -> Result<Filter> {
        let mut filter = Filter::new();
        for named in flatten(node.table()?, false)? {
            let mut values = Vec::new();
            for node in named.entry.node.list() {
                let value = match named.name.as_str() {
                    "model" => node.scalar()?,
                    _ => canonical(&named, &node)?,
                };
                let is_there = self.has(&named.name, &value);
                if !is_there && (must_exist || named.name == "model") {
                    let what = format!("no case has {} = {value}", named.name);
                    return Err(node.error(what).hint(self.values_of(&named.name)));
                }
                values.push(value);
            }
            filter.insert(named.name, values);
        }
        Ok(filter)
    }

    fn has(&self, axis: &str, value: &String) -> bool {
        let of_axes = self.axes.iter().filter(|known| known.name == axis);
        let mut values = of_axes.flat_map(|known| &known.values);
        let of_variants = self.of_variants.get(axis);
        values.any(|known| known == value) || of_variants.is_some_and(|all| all.contains(value))
    }

    fn values_of(&self, axis: &str) -> String {
        let of_axes = self.axes.iter().filter(|known| known.name == axis);
        let values = of_axes.flat_map(|known| &known.values);
        let values: Vec<&str> = values
            .chain(self.of_variants.get(axis).into_iter().flatten())
            .map(String::as_str)
            .collect();
        match values.is_empty() {
            true => format!("`{axis}` is not among the axes of this plan"),
            false => format!("{axis} is one of {}", values.join(", ")),
        }
    }
}

/// The name of a model that is given as a file.
pub fn model_name(path: &Path) -> Option<String> {
    let name = path.file_name()?;
    Some(name.to_string_lossy().into_owned())
}

/// An axis by its full name, such as `option.allow_spinning`.
struct Named<'a> {
    name: String,
    entry: Entry<'a>,
}

/// Entries of a table with those of its families' tables joined by dots.
fn flatten(table: Table<'_>, with_specs: bool) -> Result<Vec<Named<'_>>> {
    let mut out = Vec::new();
    for entry in table.rest() {
        let first = |family: &&str| family.split('.').next() == Some(entry.key.as_str());
        let is_family = axis::FAMILIES.iter().any(first);
        match is_family && entry.node.is_table() {
            true => join(&entry.key.clone(), &entry, with_specs, &mut out)?,
            false => out.push(Named {
                name: entry.key.clone(),
                entry,
            }),
        }
    }
    Ok(out)
}

fn join<'a>(
    name: &str,
    entry: &Entry<'a>,
    with_specs: bool,
    out: &mut Vec<Named<'a>>,
) -> Result<()> {
    for below in entry.node.table()?.rest() {
        let name = format!("{name}.{}", below.key);
        let is_spec = with_specs && spec_of(&below.node)?.is_some();
        match below.node.is_table() && !is_spec {
            true => join(&name, &below, with_specs, out)?,
            false => out.push(Named { name, entry: below }),
        }
    }
    Ok(())
}

/// The table of an axis that is more than its values.
fn spec_of<'a>(node: &Node<'a>) -> Result<Option<Table<'a>>> {
    if !node.is_table() {
        return Ok(None);
    }
    let has_values = node.table()?.take("values").is_some();
    has_values.then(|| node.table()).transpose()
}

fn canonical(named: &Named<'_>, node: &Node<'_>) -> Result<String> {
    let is_shape = named.name.starts_with("shape.");
    let text = match node.items() {
        Some(dims) if is_shape => {
            let dims = dims.iter().map(Node::scalar);
            dims.collect::<Result<Vec<_>>>()?.join("x")
        }
        Some(_) => return Err(node.error("a single value is needed here")),
        None if is_shape && node.is_number() => {
            let error = node.error("a shape is a text or a list of its own");
            return Err(error.hint("such as \"1x3x224x224\" or [1, 3, 224, 224]"));
        }
        None => node.scalar()?,
    };
    axis::canonical(&named.name, &text).map_err(|fault| match fault {
        Fault::Unknown { hint } => {
            let what = format!("there is no axis `{}`", named.name);
            named.entry.error(what).hint(hint)
        }
        Fault::Value(why) => node.error(format!("`{text}` is no value of `{}`: {why}", named.name)),
    })
}

fn align(node: &Node<'_>) -> Result<Align> {
    let mut table = node.table()?;
    let align = Align {
        multiple: table.need("multiple")?.number(1)?,
        mode: table.take("mode").map_or(Ok(Mode::Error), |node| {
            node.parse(|text| Mode::from_name(text).ok_or("one of floor, ceil, error".into()))
        })?,
    };
    table.finish()?;
    Ok(align)
}

fn sentinel_wish(node: &Node<'_>, axes: &Axes<'_>) -> Result<SentinelWish> {
    let mut table = node.table()?;
    let every = table.need("every")?.number(1)?;
    let case = table.take("case");
    let case = case.map_or(Ok(Filter::new()), |node| axes.filter(&node, true))?;
    table.finish()?;
    Ok(SentinelWish { every, case })
}

fn rules_of(node: &Node<'_>) -> Result<(Rules, Option<Within>)> {
    let mut table = node.table()?;
    let warmup = table
        .take("warmup")
        .map(|node| node.parse(rules::warmup))
        .transpose()?;
    let trials = table.take("trials");
    let duration = table.take("duration");
    if let (Some(trials), Some(_)) = (&trials, &duration) {
        return Err(trials.error("`trials` and `duration` are two ways to end; give one"));
    }
    let trials = trials
        .map(|node| node.parse(whole::<NonZeroU64>))
        .transpose()?;
    let duration = duration
        .map(|node| node.parse(parse::positive_span))
        .transpose()?;
    let share = table
        .take("p50_within")
        .map(|node| node.parse(schedule::share))
        .transpose()?;
    let most = table.take("max_repeats");
    let within = match (share, most) {
        (None, Some(most)) => return Err(most.error("`max_repeats` needs `p50_within`")),
        (None, None) => None,
        (Some(share), most) => Some(Within {
            share,
            max_repeats: most.map_or(Ok(schedule::MAX_REPEATS), |node| {
                node.parse(whole::<NonZeroU32>).map(NonZeroU32::get)
            })?,
        }),
    };
    table.finish()?;
    Ok((usual_rules(warmup, trials, duration), within))
}

fn whole<T: std::str::FromStr>(text: &str) -> std::result::Result<T, String> {
    text.parse()
        .map_err(|_| "a whole number from 1 on is needed".to_owned())
}

fn usual_rules(
    warmup: Option<edgedyno_shared::order::WarmupRule>,
    trials: Option<NonZeroU64>,
    duration: Option<Nanos>,
) -> Rules {
    let usual = RuleOptions::usual();
    RuleOptions {
        warmup: warmup.unwrap_or(usual.warmup),
        trials,
        duration: duration.unwrap_or(usual.duration),
        repeat: usual.repeat,
    }
    .rules()
}

fn usual_limits() -> Limits {
    LimitOptions::usual().limits()
}

fn limits(node: &Node<'_>) -> Result<Limits> {
    let mut table = node.table()?;
    let mut options = LimitOptions::usual();
    let mut span = |key, of: &mut Nanos| -> Result<()> {
        if let Some(node) = table.take(key) {
            *of = node.parse(parse::positive_span)?;
        }
        Ok(())
    };
    span("load", &mut options.timeout_load)?;
    span("compile", &mut options.timeout_compile)?;
    span("trial", &mut options.timeout_trial)?;
    let memory = table.take("memory");
    options.memory_limit = memory.map(|node| node.parse(parse::bytes)).transpose()?;
    table.finish()?;
    Ok(options.limits())
}

fn usual_inputs() -> InputWish {
    InputWish {
        files: Vec::new(),
        policy: None,
        generator: None,
        seed: 1,
    }
}

fn inputs(node: &Node<'_>, folder: &Path) -> Result<InputWish> {
    let mut table = node.table()?;
    let mut wish = usual_inputs();
    for node in table
        .take("files")
        .map_or_else(Vec::new, |node| node.list())
    {
        wish.files.push(input_file(&node.scalar()?, folder));
    }
    let policy = table.take("policy");
    wish.policy = policy.map(|node| node.parse(input_policy)).transpose()?;
    let generator = table.take("generator");
    if let (Some(generator), false) = (&generator, wish.files.is_empty()) {
        return Err(generator.error("inputs come from files or from a generator, not from both"));
    }
    wish.generator = generator
        .map(|node| node.parse(parse::generator))
        .transpose()?;
    if let Some(node) = table.take("seed") {
        wish.seed = node.number(0)?;
    }
    table.finish()?;
    Ok(wish)
}

/// `NAME=FILE` or a file alone, relative to the plan.
fn input_file(text: &str, folder: &Path) -> String {
    let beside = |path: &str| folder.join(path).display().to_string();
    match text.split_once('=') {
        Some((name, path)) if !folder.join(text).exists() => format!("{name}={}", beside(path)),
        _ => beside(text),
    }
}

fn input_policy(text: &str) -> std::result::Result<InputPolicy, String> {
    let all = [InputPolicy::Fixed, InputPolicy::Cycle, InputPolicy::Fresh];
    let found = all.into_iter().find(|policy| policy.name() == text);
    found.ok_or_else(|| "one of fixed, cycle, fresh is needed".into())
}

/// `{ below_c = 60, sensor = "therm.cpu", limit = "5m" }`.
fn cool_down(node: &Node<'_>) -> Result<CoolDown> {
    let mut table = node.table()?;
    let cool_down = CoolDown {
        below_millicelsius: table.need("below_c")?.parse(telemetry::celsius)?,
        sensor: table.take("sensor").map(|node| node.scalar()).transpose()?,
        at_most: table
            .take("limit")
            .map_or(Ok(telemetry::COOL_DOWN_LIMIT), |node| {
                node.parse(parse::positive_span)
            })?,
    };
    table.finish()?;
    Ok(cool_down)
}

fn cold(text: &str) -> std::result::Result<ColdStart, String> {
    match text {
        "fresh-process" => Ok(ColdStart::FreshProcess),
        "page-cache" => Ok(ColdStart::PageCache),
        _ => Err("fresh-process or page-cache is needed".into()),
    }
}

fn tolerance(node: &Node<'_>) -> Result<Tolerance> {
    let mut table = node.table()?;
    let mut tolerance = Tolerance::USUAL;
    for name in Tolerance::NAMES {
        if let Some(node) = table.take(name) {
            node.parse(|text| tolerance.set(name, text))?;
        }
    }
    table.finish()?;
    Ok(tolerance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Definition> {
        parse("plans/p.toml".as_ref(), text)
    }

    /// Where the error stands, what it says, and its hint.
    fn wrong(text: &str) -> (usize, usize, String, String) {
        let error = read(text).unwrap_err();
        (
            error.line,
            error.column,
            error.what,
            error.hint.unwrap_or_default(),
        )
    }

    #[test]
    fn the_shortest_plan_has_usual_rules() {
        let plan = read("[axes]\nmodel = 'net.onnx'").unwrap();
        assert_eq!((plan.repeats, plan.max_attempts, plan.seed), (3, 2, 1));
        assert_eq!(plan.order, Order::Interleaved);
        assert_eq!(plan.rules.measure.min_trials, 11);
        assert_eq!(plan.reference, Some(Filter::new()));
        let file = ModelFiles::One("plans/net.onnx".into());
        assert_eq!(plan.models, BTreeMap::from([("net.onnx".into(), file)]));
    }

    #[test]
    fn everything_that_a_plan_may_say_is_read() {
        let plan = read(
            r#"
name = "all"
seed = 7
repeats = 5
order = "random"
max_attempts = 3
time_budget = "2h"
cold = "page-cache"
cool_down = { below_c = 62.5, limit = "90s" }
zip = [["threads", "cpus"]]
exclude = [{ batch = 8, threads = 1 }]
include = [{ batch = 16 }]
reference = { batch = 1 }
sentinel = { every = 20, case = { threads = 1 } }
tolerance = { cosine = 0.999, max_abs = 0.01 }

[axes]
model = { name = "net", onnx = "a.onnx", tflite = "a.tflite" }
threads = [1, 2]
cpus = ["0", "0-1"]
batch = { values = [1, 8], stop_on = "oom" }
shape.images = { values = [[1, 3, 224, 224], "1x3x230x230"], align = { multiple = 14, mode = "floor" } }
option.session.use_env_allocators = [0, 1]
option.allow_spinning = true
param.tokens = [64, 128]

[rules]
warmup = "none"
trials = 50
p50_within = "2%"
max_repeats = 9

[limits]
load = "10s"
memory = "1GiB"

[inputs]
generator = "zeros"
seed = 4
"#,
        )
        .unwrap();
        let names: Vec<&str> = plan.axes.iter().map(|axis| axis.name.as_str()).collect();
        let expected = [
            "model",
            "threads",
            "cpus",
            "batch",
            "shape.images",
            "option.session.use_env_allocators",
            "option.allow_spinning",
            "param.tokens",
        ];
        assert_eq!(names, expected);
        assert_eq!(plan.axes[4].values, ["1x3x224x224", "1x3x230x230"]);
        assert_eq!(plan.axes[4].align.map(|align| align.multiple), Some(14));
        assert!(plan.axes[3].stop_on_oom && !plan.axes[1].stop_on_oom);
        assert_eq!(plan.axes[6].values, ["true"]);
        assert_eq!(plan.order, Order::Random);
        assert_eq!(plan.time_budget, Some(Duration::from_secs(7200)));
        let within = Within {
            share: 0.02,
            max_repeats: 9,
        };
        assert_eq!(plan.within, Some(within));
        let cool_down = plan.preparation.cool_down.unwrap();
        assert_eq!(cool_down.below_millicelsius, 62_500);
        assert_eq!(cool_down.at_most, Nanos::from_secs(90));
        assert_eq!(plan.rules.measure.max_trials, 50);
        assert_eq!(plan.limits.memory.map(|bytes| bytes.0), Some(1 << 30));
        assert_eq!(plan.inputs.seed, 4);
        let files = ModelFiles::ByFormat(vec![
            ("onnx".into(), "plans/a.onnx".into()),
            ("tflite".into(), "plans/a.tflite".into()),
        ]);
        assert_eq!(plan.models["net"], files);
        assert_eq!(plan.tolerance.cosine, 0.999);
        assert_eq!(plan.tolerance.cosine_int8, 0.99);
    }

    #[test]
    fn errors_point_at_line_and_column() {
        let base = "[axes]\nmodel = 'm.onnx'\n";
        let cases: [(&str, (usize, usize), &str, &str); 17] = [
            (
                "thraeds = [1]",
                (3, 1),
                "there is no axis `thraeds`",
                "did you mean threads?",
            ),
            (
                "threads = [1, 0]",
                (3, 15),
                "`0` is no value of `threads`",
                "",
            ),
            ("threads = []", (3, 1), "axis `threads` has no values", ""),
            (
                "shape.x = [1, 3]",
                (3, 12),
                "a shape is a text",
                "1x3x224x224",
            ),
            (
                "batch = {values = [1], stop = 'oom'}",
                (3, 24),
                "unknown key `stop`",
                "stop_on",
            ),
            (
                "[rules]\ntrial = 5",
                (4, 1),
                "unknown key `trial`",
                "did you mean trials?",
            ),
            (
                "[rules]\ntrials = 5\nduration = '1s'",
                (4, 10),
                "two ways to end",
                "",
            ),
            (
                "[rules]\nwarmup = 'soon'",
                (4, 10),
                "`steady`, `steady:2s`",
                "",
            ),
            (
                "[rules]\nmax_repeats = 5",
                (4, 15),
                "needs `p50_within`",
                "",
            ),
            ("[limits]\nmemory = 'much'", (4, 10), "unit of size", ""),
            ("[[variant]]\nthreads = 2", (3, 1), "`name` is missing", ""),
            (
                "[[variant]]\nname = 'a'\nmodel = 'x'",
                (5, 1),
                "set by a variant too",
                "",
            ),
            ("[tolerance]\ncosine = 2", (4, 10), "from -1 to 1", ""),
            (
                "[inputs]\npolicy = 'some'",
                (4, 10),
                "fixed, cycle, fresh",
                "",
            ),
            ("backend = 5x", (3, 11), "", ""),
            (
                "model2 = 'a'",
                (3, 1),
                "there is no axis `model2`",
                "did you mean model?",
            ),
            (
                "[repeat]\nx = 1",
                (3, 2),
                "unknown key `repeat`",
                "did you mean repeats?",
            ),
        ];
        for (text, place, what, hint) in cases {
            let (line, column, found, found_hint) = wrong(&format!("{base}{text}"));
            assert_eq!((line, column), place, "{text}: {found}");
            assert!(found.contains(what), "{text}: {found}");
            assert!(found_hint.contains(hint), "{text}: {found_hint}");
        }
    }

    #[test]
    fn what_stands_before_the_axes_is_checked_against_them() {
        let base = "[axes]\nmodel = 'm.onnx'\nthreads = [1, 2]\nbatch = [1, 2, 3]";
        let cases = [
            ("zip = [['threads', 'batch']]", (1, 20), "has 3 values"),
            ("zip = [['threads', 'cpus']]", (1, 20), "is no axis here"),
            ("zip = ['threads']", (1, 8), "a list of lists"),
            (
                "exclude = [{threads = 4}]",
                (1, 23),
                "no case has threads = 4",
            ),
            (
                "reference = {model = 'n.onnx'}",
                (1, 22),
                "no case has model = n.onnx",
            ),
            ("sentinel = {every = 0}", (1, 21), "a number from 1 on"),
            ("order = 'shuffled'", (1, 9), "interleaved, random, blocked"),
            ("time_budget = 'long'", (1, 15), "time"),
            ("optimize = 'fast'", (1, 12), "a goal such as"),
            (
                "cool_down = {below_c = 'cold'}",
                (1, 24),
                "a temperature in degrees Celsius",
            ),
            (
                "cool_down = {limit = '2m'}",
                (1, 13),
                "`below_c` is missing",
            ),
        ];
        for (text, place, what) in cases {
            let (line, column, found, _) = wrong(&format!("{text}\n{base}"));
            assert_eq!((line, column), place, "{text}: {found}");
            assert!(found.contains(what), "{text}: {found}");
        }
    }

    #[test]
    fn two_files_of_one_name_must_be_told_apart() {
        let (_, _, what, hint) = wrong("[axes]\nmodel = ['a/m.onnx', 'b/m.onnx']");
        assert!(what.contains("two models are called `m.onnx`"), "{what}");
        assert!(hint.contains("name = "), "{hint}");
    }
}
