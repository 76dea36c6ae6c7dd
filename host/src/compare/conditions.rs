//! Whether two arms may be compared: what was observed of both, and what a difference means.

use std::collections::{BTreeMap, BTreeSet};

use super::arm::Arm;
use crate::plan::axes::cpu_list;
use crate::store::rows::{FactRow, MomentRow, TensorRow};
use crate::summary::subject_of;
use crate::view::CaseView;

/// What a difference in a condition means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Printed: the arms differ in this, and the verdict may speak of it.
    Marked,
    /// It is what is being compared, or follows from it.
    Compared,
    /// The arms are not comparable.
    Refused,
}

/// A condition: when its values differ, how that weighs, and which axes explain it.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    pub name: &'static str,
    pub weight: Weight,
    /// Axes of which it is a consequence. Where one of them is compared, so is this.
    pub follows: &'static [&'static str],
}

/// Rules by name; `setting.X` stands for every setting read back.
pub const RULES: &[Rule] = &[
    refused("simulated", &["backend"]),
    refused(
        "inputs_sha256",
        &[
            "inputs",
            "input_policy",
            "shape.",
            "batch",
            "model",
            "precision",
        ],
    ),
    refused("shapes", &["shape.", "batch", "model", "precision"]),
    refused("cpus", &["cpus", "threads", "board"]),
    refused("cpu_model", &["board"]),
    refused("board_model", &["board"]),
    refused("arch", &["board"]),
    refused("cpus_online", &["board"]),
    refused("governor", &["board"]),
    refused("clock_min_khz", &["board"]),
    refused("clock_max_khz", &["board"]),
    refused("smt_active", &["board"]),
    // A rule that looks at the result to decide when to stop makes intervals a little too narrow.
    refused("stop", &[]),
    marked("model_sha256", &["model"]),
    marked("runtime", &["runtime", "backend"]),
    marked("runtime_sha256", &["runtime", "backend"]),
    marked("kernel_release", &["board"]),
    marked("kernel_version", &["board"]),
    marked("transparent_hugepage", &["board"]),
    marked("agent_build", &["board"]),
    marked("measure", &[]),
    marked("warmup", &[]),
    marked("cold", &[]),
    marked(
        "setting.",
        &["backend", "runtime", "option.", "threads", "inter_threads"],
    ),
];

const fn refused(name: &'static str, follows: &'static [&'static str]) -> Rule {
    Rule {
        name,
        weight: Weight::Refused,
        follows,
    }
}

const fn marked(name: &'static str, follows: &'static [&'static str]) -> Rule {
    Rule {
        name,
        weight: Weight::Marked,
        follows,
    }
}

/// Facts of the board that are conditions, when the kernel tells them.
const FACTS: [&str; 9] = [
    "cpu_model",
    "board_model",
    "governor",
    "clock_min_khz",
    "clock_max_khz",
    "smt_active",
    "kernel_release",
    "kernel_version",
    "transparent_hugepage",
];

/// What was observed of a case, over all repeats that count: a value that changed is listed with both.
pub fn of(view: &CaseView) -> BTreeMap<String, String> {
    let mut seen = Seen::default();
    let entry = &view.entry;
    seen.add("model_sha256", Some(entry.case.model.sha256.to_string()));
    let rules = &entry.rules;
    seen.add(
        "measure",
        Some(match (rules.measure_ns, rules.measure_min_trials) {
            (0, trials) => format!("{trials} trials"),
            (ns, _) => format!("{} s", ns as f64 / 1e9),
        }),
    );
    let stop = match rules.repeats {
        Some(_) => "after planned repeats",
        None => "by what was measured",
    };
    seen.add("stop", Some(stop.into()));
    let until = if rules.warmup_until_steady {
        "until steady, "
    } else {
        ""
    };
    let longest = rules.warmup_max_ns as f64 / 1e9;
    let warmup = format!("{until}{} trials, {longest} s", rules.warmup_min_trials);
    seen.add("warmup", Some(warmup));
    seen.add("cold", Some(rules.cold.name().to_owned()));
    if let Some(device) = &view.device {
        let online = device.cpus.iter().filter(|cpu| cpu.online == Some(true));
        seen.add("cpus_online", Some(online.count().to_string()));
        seen.add("arch", Some(device.arch.clone()));
    }
    let mut last: Option<&Vec<FactRow>> = None;
    for repeat in view.counting() {
        let row = &repeat.row;
        if let Some(start) = &row.start {
            seen.add("agent_build", Some(start.build.clone()));
        }
        let begun = row.start.as_ref().map(|start| &start.environment);
        let ended = row.end.as_ref().map(|end| &end.environment);
        for facts in [begun, ended].into_iter().flatten() {
            // Nearly always the same as before: a thousand cases have forty thousand of these.
            if last != Some(facts) {
                seen.facts(facts);
                last = Some(facts);
            }
        }
        if let Some(runtime) = &row.runtime {
            seen.add("runtime", Some(runtime.version.clone()));
            seen.add(
                "runtime_sha256",
                runtime.sha256.map(|hash| hash.to_string()),
            );
        }
        let inputs = row.inputs.as_ref();
        seen.add(
            "inputs_sha256",
            inputs.map(|inputs| inputs.sha256.to_string()),
        );
        let model = row.model.as_ref();
        seen.add("shapes", model.map(|model| shapes(&model.inputs)));
        let window = row
            .placements
            .iter()
            .rfind(|p| p.moment == MomentRow::BeforeWindow);
        seen.add("cpus", window.map(|placement| cpu_list(&placement.wanted)));
        for setting in &row.effective {
            seen.add(
                &format!("setting.{}", setting.name),
                setting.observed.clone(),
            );
        }
    }
    seen.joined()
}

/// Values by name, each once.
#[derive(Default)]
struct Seen(BTreeMap<String, BTreeSet<String>>);

impl Seen {
    fn add(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value {
            self.0.entry(name.to_owned()).or_default().insert(value);
        }
    }

    fn facts(&mut self, facts: &[FactRow]) {
        for fact in facts {
            let subject = subject_of(&fact.name);
            if FACTS.contains(&subject) {
                self.add(subject, fact.value.clone());
            }
        }
    }

    fn joined(self) -> BTreeMap<String, String> {
        let join = |values: BTreeSet<String>| values.into_iter().collect::<Vec<_>>().join(", ");
        self.0
            .into_iter()
            .map(|(name, values)| (name, join(values)))
            .collect()
    }
}

fn shapes(inputs: &[TensorRow]) -> String {
    let one = |tensor: &TensorRow| {
        let dims = tensor.effective.as_deref().map(crate::plan::axes::dims);
        format!(
            "{} {} {}",
            tensor.name,
            tensor.dtype,
            dims.unwrap_or_else(|| "?".into())
        )
    };
    inputs.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A condition that is not the same on both sides. None is what was not read on that side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub name: String,
    pub a: Option<String>,
    pub b: Option<String>,
    pub weight: Weight,
}

/// Differences between two arms, the gravest first. `compared` are axes that may differ, `allowed` names
/// of differences that the user has accepted.
///
/// A condition that only one side could read is marked: what is not known is neither equal nor unequal.
pub fn differences(a: &Arm, b: &Arm, compared: &[String], allowed: &[String]) -> Vec<Difference> {
    let axes = changed(&a.axes, &b.axes).map(|(name, of_a, of_b)| Difference {
        weight: match compared.contains(&name) {
            true => Weight::Compared,
            false => Weight::Refused,
        },
        name,
        a: of_a,
        b: of_b,
    });
    let observed = changed(&a.conditions, &b.conditions).map(|(name, of_a, of_b)| Difference {
        weight: weigh(&name, of_a.is_some() && of_b.is_some(), compared),
        name,
        a: of_a,
        b: of_b,
    });
    let simulated = (a.simulated != b.simulated).then(|| Difference {
        name: "simulated".into(),
        a: Some(a.simulated.to_string()),
        b: Some(b.simulated.to_string()),
        weight: weigh("simulated", true, compared),
    });
    let throttled = (a.throttled.is_some() || b.throttled.is_some()).then(|| Difference {
        name: "throttled".into(),
        a: a.throttled.clone(),
        b: b.throttled.clone(),
        weight: Weight::Refused,
    });
    let all = axes.chain(observed).chain(simulated).chain(throttled);
    let mut all: Vec<Difference> = all
        .map(|difference| match allowed.contains(&difference.name) {
            true => Difference {
                weight: difference.weight.min(Weight::Marked),
                ..difference
            },
            false => difference,
        })
        .collect();
    all.sort_by_key(|difference| std::cmp::Reverse(difference.weight));
    all
}

/// Whether two arms, of whatever cases, were measured on one board in one state.
pub fn same_board(a: &Arm, b: &Arm) -> bool {
    let of_board = |rule: &&Rule| rule.weight == Weight::Refused && rule.follows == ["board"];
    let is_equal = |rule: &Rule| match (a.conditions.get(rule.name), b.conditions.get(rule.name)) {
        (Some(of_a), Some(of_b)) => of_a == of_b,
        _ => true,
    };
    a.axes.get("board") == b.axes.get("board")
        && a.simulated == b.simulated
        && a.throttled.is_none()
        && b.throttled.is_none()
        && RULES.iter().filter(of_board).all(is_equal)
}

fn weigh(name: &str, both_known: bool, compared: &[String]) -> Weight {
    let fits = |rule: &&Rule| rule.name == name || is_family(rule.name, name);
    let Some(rule) = RULES.iter().find(fits) else {
        return Weight::Marked;
    };
    let explains = |axis: &String| {
        rule.follows
            .iter()
            .any(|f| *f == axis || is_family(f, axis))
    };
    match compared.iter().any(explains) {
        true => Weight::Compared,
        false if both_known => rule.weight,
        false => Weight::Marked,
    }
}

/// `shape.` stands for `shape.images`.
fn is_family(family: &str, name: &str) -> bool {
    family.ends_with('.') && name.starts_with(family)
}

type Changed = (String, Option<String>, Option<String>);

/// Entries of two maps that are not the same.
fn changed<'a>(
    a: &'a BTreeMap<String, String>,
    b: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = Changed> + 'a {
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    names.into_iter().filter_map(|name| {
        let (of_a, of_b) = (a.get(name), b.get(name));
        (of_a != of_b).then(|| (name.clone(), of_a.cloned(), of_b.cloned()))
    })
}
