//! Model, runtime, inputs and outputs.

use crate::store::rows::{ComparedRow, ModelRow, OutputRow, ScenarioRow, SourceRow, TensorRow};
use crate::summary::CaseSummary;

use super::{Field, Subject, Unit, Value};

pub(super) const SUBJECT: Subject = Subject {
    name: "model",
    title: "Model and runtime",
    fields: FIELDS,
};

const FIELDS: &[Field] = &[
    Field {
        name: "model_name",
        unit: Unit::Text,
        definition: "the model as it was named",
        source: "case",
        get: |s| Value::text(Some(&s.case.model.name)),
    },
    Field {
        name: "model_sha256",
        unit: Unit::Text,
        definition: "hash of the model's content",
        source: "case",
        get: |s| Value::text(Some(s.case.model.sha256.to_string())),
    },
    Field {
        name: "backend",
        unit: Unit::Text,
        definition: "the way it was run",
        source: "case",
        get: |s| Value::text(Some(&s.case.backend)),
    },
    Field {
        name: "runtime_version",
        unit: Unit::Text,
        definition: "version of the runtime that was loaded, in its own words",
        source: "runtime",
        get: |s| Value::text(s.runtime.as_ref().map(|r| &*r.version)),
    },
    Field {
        name: "runtime_sha256",
        unit: Unit::Text,
        definition: "hash of the runtime's file",
        source: "runtime",
        get: |s| {
            Value::text(
                s.runtime
                    .as_ref()
                    .and_then(|r| r.sha256.as_ref())
                    .map(ToString::to_string),
            )
        },
    },
    Field {
        name: "runtime_path",
        unit: Unit::Text,
        definition: "file of the runtime on the board; null for a built-in one",
        source: "runtime",
        get: |s| Value::text(s.runtime.as_ref().and_then(|r| r.path.as_deref())),
    },
    Field {
        name: "runtime_providers",
        unit: Unit::Text,
        definition: "execution providers that the runtime offers",
        source: "runtime",
        get: |s| Value::text(s.runtime.as_ref().map(|r| r.providers.join(", "))),
    },
    Field {
        name: "input_shapes",
        unit: Unit::Text,
        definition: "names, dtypes and shapes of the inputs as they were run",
        source: "model",
        get: |s| tensors(s, |m| &m.inputs),
    },
    Field {
        name: "output_shapes",
        unit: Unit::Text,
        definition: "the same of the outputs",
        source: "model",
        get: |s| tensors(s, |m| &m.outputs),
    },
    Field {
        name: "batch_count",
        unit: Unit::Count,
        definition: "batch size asked for; null leaves the model's own",
        source: "case",
        get: |s| Value::count(s.case.batch.map(u64::from)),
    },
    Field {
        name: "precision",
        unit: Unit::Text,
        definition: "precision asked for",
        source: "case",
        get: |s| Value::text(s.case.precision.as_ref()),
    },
    Field {
        name: "scenario",
        unit: Unit::Text,
        definition: "how work arrives",
        source: "case",
        get: |s| Value::text(Some(scenario(&s.case.scenario))),
    },
    Field {
        name: "io",
        unit: Unit::Text,
        definition: "whether copies of inputs and outputs are inside the region",
        source: "case",
        get: |s| Value::text(Some(s.case.io.name())),
    },
    Field {
        name: "condition",
        unit: Unit::Text,
        definition: "what else the plan made the board do meanwhile; `idle` is nothing, and says nothing of other users",
        source: "case",
        get: |s| Value::text(Some(&s.case.condition)),
    },
    Field {
        name: "input_policy",
        unit: Unit::Text,
        definition: "which input set each trial got",
        source: "case",
        get: |s| Value::text(Some(s.case.inputs.policy.name())),
    },
    Field {
        name: "input_seed_count",
        unit: Unit::Count,
        definition: "seed of generated inputs",
        source: "case",
        get: |s| seed(&s.case.inputs.source),
    },
    Field {
        name: "input_sets_count",
        unit: Unit::Count,
        definition: "input sets that were made or read",
        source: "inputs",
        get: |s| Value::count(s.inputs.as_ref().map(|i| u64::from(i.sets))),
    },
    Field {
        name: "inputs_sha256",
        unit: Unit::Text,
        definition: "hash over all bytes of the inputs",
        source: "inputs",
        get: |s| Value::text(s.inputs.as_ref().map(|i| i.sha256.to_string())),
    },
    Field {
        name: "outputs_nonfinite_count",
        unit: Unit::Count,
        definition: "output values that are not finite, in the last trial",
        source: "output check",
        get: |s| outputs(s, |all| Some(all.iter().map(|o| o.nonfinite).sum())),
    },
    Field {
        name: "outputs_max_abs_error",
        unit: Unit::Figure,
        definition: "largest absolute difference of any output from its reference",
        source: "output check",
        get: |s| compared(s, |c| c.max_abs_error, f64::max),
    },
    Field {
        name: "outputs_cosine",
        unit: Unit::Figure,
        definition: "smallest cosine of any output with its reference",
        source: "output check",
        get: |s| compared(s, |c| c.cosine, f64::min),
    },
];

fn tensors(summary: &CaseSummary, which: impl Fn(&ModelRow) -> &Vec<TensorRow>) -> Value {
    let text = |model| which(model).iter().map(tensor).collect::<Vec<_>>();
    Value::text(summary.model.as_ref().map(|model| text(model).join(", ")))
}

/// `x f32 1x3x224x224`; a shape that only a run can tell is a question mark.
fn tensor(tensor: &TensorRow) -> String {
    let shape = match &tensor.effective {
        Some(dims) if dims.is_empty() => "scalar".into(),
        Some(dims) => dims
            .iter()
            .map(u64::to_string)
            .collect::<Vec<_>>()
            .join("x"),
        None => "?".into(),
    };
    format!("{} {} {shape}", tensor.name, tensor.dtype)
}

fn scenario(scenario: &ScenarioRow) -> String {
    match scenario {
        ScenarioRow::Single => "single".into(),
        ScenarioRow::Concurrent { streams } => format!("concurrent:{streams}"),
        ScenarioRow::Rate { millihertz } => format!("rate:{}", *millihertz as f64 / 1e3),
        ScenarioRow::Sequence => "sequence".into(),
        ScenarioRow::Pipeline => "pipeline".into(),
    }
}

fn seed(source: &SourceRow) -> Value {
    match source {
        SourceRow::Generated { seed, .. } => Value::Count(*seed),
        SourceRow::Files { .. } => Value::Unknown,
    }
}

fn outputs(summary: &CaseSummary, get: impl Fn(&[OutputRow]) -> Option<u64>) -> Value {
    let checked = Some(summary.outputs.as_slice()).filter(|all| !all.is_empty());
    Value::count(checked.and_then(get))
}

fn compared(
    summary: &CaseSummary,
    get: impl Fn(&ComparedRow) -> Option<f64>,
    worse: impl Fn(f64, f64) -> f64,
) -> Value {
    let compared = summary
        .outputs
        .iter()
        .filter_map(|output| output.compared.as_ref());
    Value::number(compared.filter_map(get).reduce(worse))
}
