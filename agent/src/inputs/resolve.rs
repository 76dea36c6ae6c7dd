//! From a model's dimensions and what the case asks for to the dimensions that are run.
//!
//! A name stands for one value everywhere: once `batch` is 4 it is 4 in every input. Nothing is
//! guessed: a dimension that neither the model nor the case gives is an error that lists it.

use std::collections::BTreeMap;

use edgedyno_shared::case::NamedShape;
use edgedyno_shared::repeat::Dim;
use edgedyno_shared::wire::failure::{Failure, FailureCode};

use super::tensor::shape_text;
use super::{files, near};
use crate::worker::job::Job;

/// An input as the model declares it; no dims where the model does not even give a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    pub name: String,
    pub dims: Option<Vec<Dim>>,
}

/// Every dimension has a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved {
    /// In the order of the model's inputs.
    pub shapes: Vec<Vec<u64>>,
    /// What each named dimension stands for: a runtime's free-dimension overrides.
    pub symbols: BTreeMap<String, u64>,
}

/// Resolves for a job: its `--shape` first, then what its `.npy` files have, then `--batch`.
///
/// # Errors
/// As [`resolve`]; and when an input file cannot be read.
pub fn for_job(inputs: &[Declared], job: &Job) -> Result<Resolved, Failure> {
    let case = &job.order.case;
    let names: Vec<&str> = inputs.iter().map(|i| i.name.as_str()).collect();
    let mut shapes = case.shapes.clone();
    for shape in files::shapes(&names, job)? {
        if !shapes.iter().any(|s| s.input == shape.input) {
            shapes.push(shape);
        }
    }
    resolve(inputs, &shapes, case.batch)
}

/// Gives every dimension its value.
///
/// # Errors
/// [`FailureCode::InputInvalid`] when a wish does not fit the model,
/// [`FailureCode::UnresolvedDims`] when dimensions without a value are left.
pub fn resolve(
    inputs: &[Declared],
    shapes: &[NamedShape],
    batch: Option<u32>,
) -> Result<Resolved, Failure> {
    let mut draft = Draft::new(inputs);
    for shape in shapes {
        draft.apply_shape(shape)?;
    }
    if let Some(batch) = batch {
        draft.apply_batch(u64::from(batch))?;
    }
    draft.spread_symbols();
    draft.finish()
}

/// Shapes with the dimensions still missing.
struct Draft<'a> {
    inputs: &'a [Declared],
    values: Vec<Option<Vec<Option<u64>>>>,
    symbols: BTreeMap<String, u64>,
}

impl<'a> Draft<'a> {
    fn new(inputs: &'a [Declared]) -> Self {
        let fixed = |dim: &Dim| match dim {
            Dim::Fixed(value) => Some(*value),
            Dim::Symbol(_) | Dim::Unknown => None,
        };
        let values = |i: &Declared| Some(i.dims.as_ref()?.iter().map(fixed).collect());
        Self {
            inputs,
            values: inputs.iter().map(values).collect(),
            symbols: BTreeMap::new(),
        }
    }

    fn apply_shape(&mut self, wish: &NamedShape) -> Result<(), Failure> {
        let Some(at) = self.inputs.iter().position(|i| i.name == wish.input) else {
            let known: Vec<&str> = self.inputs.iter().map(|i| i.name.as_str()).collect();
            return Err(invalid(format!("the model has no input `{}`", wish.input))
                .hint(near::hint(&wish.input, &known)));
        };
        let rank = self.inputs[at].dims.as_ref().map(Vec::len);
        if rank.is_some_and(|rank| rank != wish.dims.len()) {
            return Err(invalid(format!(
                "input `{}` was given {} dims ({}), the model has {}",
                wish.input,
                wish.dims.len(),
                shape_text(&wish.dims),
                declared_text(&self.inputs[at])
            ))
            .hint(format!(
                "type --shape {}={}",
                wish.input,
                template(&self.inputs[at], &[])
            )));
        }
        self.values[at].get_or_insert_with(|| vec![None; wish.dims.len()]);
        wish.dims
            .iter()
            .enumerate()
            .try_for_each(|(axis, value)| self.set(at, axis, *value))
    }

    /// The dimension named for the batch, else the first of every input.
    fn apply_batch(&mut self, batch: u64) -> Result<(), Failure> {
        let mut named = Vec::new();
        for (at, input) in self.inputs.iter().enumerate() {
            for (axis, dim) in input.dims.iter().flatten().enumerate() {
                if matches!(dim, Dim::Symbol(name) if is_batch_name(name)) {
                    named.push((at, axis));
                }
            }
        }
        if named.is_empty() {
            // A scalar has no first dimension and takes no part.
            let has_first = |v: &Option<Vec<_>>| v.as_ref().is_some_and(|dims| !dims.is_empty());
            let with_first = self.values.iter().enumerate().filter(|(_, v)| has_first(v));
            named = with_first.map(|(at, _)| (at, 0)).collect();
        }
        if named.is_empty() {
            return Err(
                invalid(format!("--batch {batch}: no input has a batch dimension"))
                    .hint("leave --batch out, or give --shape"),
            );
        }
        named.into_iter().try_for_each(|(at, axis)| {
            self.set(at, axis, batch).map_err(|failure| match self.inputs[at].dims {
                Some(ref dims) if matches!(dims[axis], Dim::Fixed(_)) => failure
                    .hint("the model's batch is fixed: leave --batch out, or export it with a named batch dimension"),
                _ => failure.hint("give either --batch or --shape for this dimension"),
            })
        })
    }

    /// Gives one dimension its value, and the same to its name.
    fn set(&mut self, at: usize, axis: usize, value: u64) -> Result<(), Failure> {
        let input = &self.inputs[at];
        let conflict = |has: u64, of: &str| {
            invalid(format!(
                "dim {axis} of input `{}` shall be {value}, {of} {has} (the model has {})",
                input.name,
                declared_text(input)
            ))
        };
        match input.dims.as_ref().map(|dims| &dims[axis]) {
            Some(Dim::Fixed(has)) if *has != value => {
                return Err(conflict(*has, "but is fixed at"));
            }
            Some(Dim::Symbol(name)) => {
                let has = *self.symbols.entry(name.clone()).or_insert(value);
                if has != value {
                    return Err(conflict(has, &format!("but `{name}` is already")));
                }
            }
            _ => {}
        }
        let slot = self.values[at].as_mut().and_then(|dims| dims.get_mut(axis));
        match slot.map(|slot| *slot.get_or_insert(value)) {
            Some(has) if has != value => Err(conflict(has, "but is already")),
            _ => Ok(()),
        }
    }

    fn spread_symbols(&mut self) {
        for (input, values) in self.inputs.iter().zip(&mut self.values) {
            let dims = input.dims.iter().flatten();
            for (dim, value) in dims.zip(values.iter_mut().flatten()) {
                if let Dim::Symbol(name) = dim {
                    *value = value.or_else(|| self.symbols.get(name).copied());
                }
            }
        }
    }

    fn finish(self) -> Result<Resolved, Failure> {
        let mut shapes = Vec::new();
        let (mut missing, mut hints) = (Vec::new(), Vec::new());
        for (input, values) in self.inputs.iter().zip(self.values) {
            let values = values.as_deref();
            match values.and_then(|v| v.iter().copied().collect::<Option<Vec<u64>>>()) {
                Some(shape) => shapes.push(shape),
                None => {
                    missing.push(missing_text(input, values.unwrap_or_default()));
                    let template = template(input, values.unwrap_or_default());
                    hints.push(format!("--shape {}={template}", input.name));
                }
            }
        }
        if missing.is_empty() {
            return Ok(Resolved {
                shapes,
                symbols: self.symbols,
            });
        }
        Err(Failure::new(
            FailureCode::UnresolvedDims,
            format!("dimensions without a value: {}", missing.join("; ")),
        )
        .hint(format!("give numbers for the names: {}", hints.join(" "))))
    }
}

/// Names that exporters give the batch dimension.
fn is_batch_name(name: &str) -> bool {
    ["batch", "batch_size", "n"].contains(&name.to_lowercase().as_str())
}

fn invalid(detail: String) -> Failure {
    Failure::new(FailureCode::InputInvalid, detail)
}

/// `batchx3x?`, as the model has it.
fn declared_text(input: &Declared) -> String {
    let Some(dims) = &input.dims else {
        return "no rank".into();
    };
    let text = |dim: &Dim| match dim {
        Dim::Fixed(value) => value.to_string(),
        Dim::Symbol(name) => name.clone(),
        Dim::Unknown => "?".into(),
    };
    match dims.is_empty() {
        true => "a scalar".into(),
        false => format!("[{}]", dims.iter().map(text).collect::<Vec<_>>().join(", ")),
    }
}

/// What is missing of one input: "`x` dims 0 (batch), 2 (no name)".
fn missing_text(input: &Declared, values: &[Option<u64>]) -> String {
    let Some(dims) = &input.dims else {
        return format!("`{}` has no rank", input.name);
    };
    let open = dims
        .iter()
        .zip(values)
        .enumerate()
        .filter(|(_, (_, v))| v.is_none());
    let list: Vec<String> = open
        .map(|(axis, (dim, _))| match dim {
            Dim::Symbol(name) => format!("{axis} ({name})"),
            Dim::Fixed(_) | Dim::Unknown => format!("{axis} (no name)"),
        })
        .collect();
    format!("`{}` dim {}", input.name, list.join(", "))
}

/// A `--shape` value with a name where a number must be typed: `<batch>x3x<d2>`.
fn template(input: &Declared, values: &[Option<u64>]) -> String {
    let Some(dims) = &input.dims else {
        return "<d0>x<d1>".into();
    };
    let cell = |(axis, dim): (usize, &Dim)| match (values.get(axis).copied().flatten(), dim) {
        (Some(value), _) => value.to_string(),
        (None, Dim::Fixed(value)) => value.to_string(),
        (None, Dim::Symbol(name)) => format!("<{name}>"),
        (None, Dim::Unknown) => format!("<d{axis}>"),
    };
    dims.iter()
        .enumerate()
        .map(cell)
        .collect::<Vec<_>>()
        .join("x")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers are fixed, `?` has no name, all else is a name.
    fn input(name: &str, dims: &[&str]) -> Declared {
        let dim = |text: &&str| match (*text, text.parse()) {
            ("?", _) => Dim::Unknown,
            (_, Ok(value)) => Dim::Fixed(value),
            (name, Err(_)) => Dim::Symbol(name.into()),
        };
        Declared {
            name: name.into(),
            dims: Some(dims.iter().map(dim).collect()),
        }
    }

    fn shape(input: &str, dims: &[u64]) -> NamedShape {
        NamedShape {
            input: input.into(),
            dims: dims.into(),
        }
    }

    fn code(result: Result<Resolved, Failure>) -> FailureCode {
        result.unwrap_err().code
    }

    #[test]
    fn a_static_model_needs_nothing() {
        let resolved = resolve(&[input("x", &["1", "3"]), input("s", &[])], &[], None).unwrap();
        assert_eq!(resolved.shapes, [vec![1, 3], vec![]]);
        assert!(resolved.symbols.is_empty());
    }

    #[test]
    fn a_shape_gives_values_to_names_in_every_input() {
        let inputs = [
            input("x", &["batch", "3", "h"]),
            input("m", &["batch", "h"]),
        ];
        let resolved = resolve(&inputs, &[shape("x", &[2, 3, 8])], None).unwrap();
        assert_eq!(resolved.shapes, [vec![2, 3, 8], vec![2, 8]]);
        assert_eq!(
            resolved.symbols,
            BTreeMap::from([("batch".into(), 2), ("h".into(), 8)])
        );
    }

    #[test]
    fn a_shape_must_name_an_input_and_have_its_rank_and_fixed_dims() {
        let inputs = [input("image", &["1", "3", "?"])];
        let unknown = resolve(&inputs, &[shape("imag", &[1])], None).unwrap_err();
        assert_eq!(unknown.code, FailureCode::InputInvalid);
        assert!(unknown.hint.unwrap().contains("did you mean `image`?"));
        let rank = resolve(&inputs, &[shape("image", &[1, 3])], None).unwrap_err();
        assert_eq!(
            rank.detail,
            "input `image` was given 2 dims (1x3), the model has [1, 3, ?]"
        );
        assert_eq!(rank.hint.as_deref(), Some("type --shape image=1x3x<d2>"));
        let fixed = resolve(&inputs, &[shape("image", &[1, 4, 9])], None).unwrap_err();
        assert_eq!(
            fixed.detail,
            "dim 1 of input `image` shall be 4, but is fixed at 3 (the model has [1, 3, ?])"
        );
    }

    #[test]
    fn one_name_cannot_have_two_values() {
        let inputs = [input("a", &["n_tokens"]), input("b", &["n_tokens"])];
        let twice = [shape("a", &[3]), shape("b", &[4])];
        assert_eq!(
            code(resolve(&inputs, &twice, None)),
            FailureCode::InputInvalid
        );
        let square = [input("a", &["s", "s"])];
        assert_eq!(
            code(resolve(&square, &[shape("a", &[2, 3])], None)),
            FailureCode::InputInvalid
        );
    }

    #[test]
    fn batch_goes_to_the_dimension_of_that_name_wherever_it_stands() {
        for name in ["batch", "Batch_Size", "N"] {
            let inputs = [input("x", &["seq", name]), input("y", &["2", name, "5"])];
            let resolved = resolve(&inputs, &[shape("x", &[7, 4])], Some(4)).unwrap();
            assert_eq!(resolved.shapes, [vec![7, 4], vec![2, 4, 5]], "{name}");
        }
    }

    #[test]
    fn batch_without_a_name_is_the_first_dimension_of_every_input() {
        let inputs = [
            input("x", &["?", "3"]),
            input("m", &["rows"]),
            input("s", &[]),
        ];
        let resolved = resolve(&inputs, &[], Some(5)).unwrap();
        assert_eq!(resolved.shapes, [vec![5, 3], vec![5], vec![]]);
        assert_eq!(resolved.symbols, BTreeMap::from([("rows".into(), 5)]));
    }

    #[test]
    fn a_fixed_batch_may_be_repeated_and_not_changed() {
        let inputs = [input("x", &["1", "3"])];
        assert_eq!(resolve(&inputs, &[], Some(1)).unwrap().shapes, [vec![1, 3]]);
        let failure = resolve(&inputs, &[], Some(2)).unwrap_err();
        assert_eq!(failure.code, FailureCode::InputInvalid);
        assert!(
            failure
                .hint
                .unwrap()
                .starts_with("the model's batch is fixed")
        );
    }

    #[test]
    fn batch_and_shape_must_agree() {
        let inputs = [input("x", &["batch", "3"])];
        assert_eq!(
            resolve(&inputs, &[shape("x", &[2, 3])], Some(2))
                .unwrap()
                .shapes,
            [[2, 3]]
        );
        let failure = resolve(&inputs, &[shape("x", &[2, 3])], Some(4)).unwrap_err();
        assert!(
            failure.detail.contains("but `batch` is already 2"),
            "{failure}"
        );
    }

    #[test]
    fn what_is_left_is_listed_with_the_flag_to_type() {
        let inputs = [input("x", &["batch", "3", "?"]), input("y", &["len"])];
        let failure = resolve(&inputs, &[], Some(2)).unwrap_err();
        assert_eq!(failure.code, FailureCode::UnresolvedDims);
        assert_eq!(
            failure.detail,
            "dimensions without a value: `x` dim 2 (no name); `y` dim 0 (len)"
        );
        assert_eq!(
            failure.hint.as_deref(),
            Some("give numbers for the names: --shape x=2x3x<d2> --shape y=<len>")
        );
    }

    #[test]
    fn an_input_without_a_rank_needs_a_shape() {
        let inputs = [Declared {
            name: "x".into(),
            dims: None,
        }];
        assert_eq!(
            code(resolve(&inputs, &[], None)),
            FailureCode::UnresolvedDims
        );
        let resolved = resolve(&inputs, &[shape("x", &[4, 5])], None).unwrap();
        assert_eq!(resolved.shapes, [[4, 5]]);
    }
}
