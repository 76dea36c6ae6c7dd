//! What can be known of a case before it is ordered: CPUs, batch size, scenario.

use edgedyno_shared::case::Scenario;
use edgedyno_shared::device::DeviceInfo;

use super::axes::cpu_list;
use crate::exit::CommandError;
use crate::model::facts::{Dim, ModelFacts, ValueKind};
use crate::near;
use crate::ui::units;

/// Scenarios that are built.
const SCENARIOS: [&str; 1] = ["single"];

/// Reads a scenario; one that is not built is an error that lists those that are.
pub fn scenario(text: &str) -> Result<Scenario, CommandError> {
    if text == "single" {
        return Ok(Scenario::Single);
    }
    let error = CommandError::usage(format!("there is no scenario `{text}`"));
    let near = near::matches(text, SCENARIOS.into_iter());
    Err(match near.first() {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint(format!("those built are {}", SCENARIOS.join(", "))),
    })
}

/// More repeats than this in one plan are a slip of the finger, and would not fit into memory much longer.
const MOST_REPEATS: u64 = 10_000_000;

/// Cases that are each measured so often must make a plan that can be laid out.
pub fn repeats(cases: usize, each: u32) -> Result<(), CommandError> {
    let all = (cases as u64).saturating_mul(each.into());
    if all <= MOST_REPEATS {
        return Ok(());
    }
    let cases = units::things(cases as u64, "case");
    let what = format!("{cases} with {each} repeats each are {all} repeats");
    Err(CommandError::usage(what).hint(format!("more than {MOST_REPEATS} are not planned")))
}

/// CPUs asked for must be CPUs the agent may use.
pub fn cpus(device: &DeviceInfo, wanted: &[u16]) -> Result<(), CommandError> {
    let outside = |cpu: &&u16| !device.allowed_cpus.contains(cpu);
    let outside: Vec<u16> = wanted.iter().filter(outside).copied().collect();
    if outside.is_empty() {
        return Ok(());
    }
    let what = format!(
        "CPU {} is not one that the agent may use",
        cpu_list(&outside)
    );
    Err(CommandError::usage(what).hint(format!("it may use {}", cpu_list(&device.allowed_cpus))))
}

/// A batch size needs a dimension that it can replace.
///
/// That is a symbolic one named batch, batch_size or N, else a symbolic first one of every input.
pub fn batch(facts: &ModelFacts, batch: u32) -> Result<(), CommandError> {
    let shapes: Vec<(&str, &[Dim])> = facts
        .inputs
        .iter()
        .filter_map(|input| match &input.kind {
            ValueKind::Tensor { dims, .. } => Some((input.name.as_str(), dims.as_deref()?)),
            _ => None,
        })
        .collect();
    let named = |dim: &Dim| matches!(dim, Dim::Symbolic(name) if is_batch(name));
    if shapes.iter().any(|(_, dims)| dims.iter().any(named)) {
        return Ok(());
    }
    let fits = |dims: &[Dim]| match dims.first() {
        Some(Dim::Fixed(size)) => *size == u64::from(batch),
        Some(_) => true,
        None => false,
    };
    match shapes.iter().find(|(_, dims)| !fits(dims)) {
        None => Ok(()),
        Some((input, dims)) => {
            let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
            let what = format!("the model takes no batch of {batch}");
            let error = CommandError::usage(what);
            let cause = format!(
                "input `{input}` is {} and its first dimension is fixed",
                dims.join("x")
            );
            Err(error
                .cause(cause)
                .hint("leave out --batch, or export the model with a symbolic first dimension"))
        }
    }
}

fn is_batch(name: &str) -> bool {
    ["batch", "batch_size", "n"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::element::ElementType;
    use crate::model::facts::ValueFacts;

    fn facts(inputs: &[&[Dim]]) -> ModelFacts {
        let value = |(i, dims): (usize, &&[Dim])| ValueFacts {
            name: format!("x{i}"),
            kind: ValueKind::Tensor {
                dtype: ElementType::F32,
                dims: Some(dims.to_vec()),
            },
        };
        ModelFacts {
            ir_version: 8,
            opsets: Vec::new(),
            producer: None,
            inputs: inputs.iter().enumerate().map(value).collect(),
            outputs: Vec::new(),
            ops: BTreeMap::new(),
            parameters: 0,
            parameter_bytes: 0,
            external_files: Vec::new(),
        }
    }

    fn symbol(name: &str) -> Dim {
        Dim::Symbolic(name.into())
    }

    #[test]
    fn a_plan_that_nobody_could_lay_out_is_refused() {
        assert!(repeats(100_000, 100).is_ok());
        let huge = repeats(2, u32::MAX).unwrap_err();
        assert!(huge.what.contains("8589934590 repeats"), "{huge:?}");
    }

    #[test]
    fn a_batch_replaces_a_symbolic_dimension() {
        let fixed = [Dim::Fixed(1), Dim::Fixed(3)];
        assert!(batch(&facts(&[&[symbol("N"), Dim::Fixed(3)]]), 4).is_ok());
        assert!(batch(&facts(&[&[Dim::Fixed(3), symbol("batch")]]), 4).is_ok());
        assert!(batch(&facts(&[&[symbol("d"), Dim::Fixed(3)]]), 4).is_ok());
        assert!(batch(&facts(&[&fixed]), 1).is_ok());
        let error = batch(&facts(&[&fixed]), 4).unwrap_err();
        assert!(error.causes[0].contains("`x0` is 1x3"), "{error:?}");
        assert!(batch(&facts(&[&[symbol("d")], &fixed]), 4).is_err());
    }

    #[test]
    fn a_scenario_that_is_not_built_lists_those_that_are() {
        assert_eq!(scenario("single").unwrap(), Scenario::Single);
        assert!(
            scenario("singel")
                .unwrap_err()
                .hint
                .unwrap()
                .contains("did you mean single")
        );
        assert!(
            scenario("pipeline")
                .unwrap_err()
                .hint
                .unwrap()
                .contains("those built")
        );
    }
}
