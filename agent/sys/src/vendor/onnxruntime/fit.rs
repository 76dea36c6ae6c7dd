//! Whether the tensors given fit the model, found out before the runtime is asked.
//!
//! The runtime would find out at the first run and with less to say: here the input has a name.

use super::binding::OutputChoice;
use super::result::OrtError;
use crate::vendor::tensor::Tensor;
use crate::vendor::value::{Dim, ElementType, ValueInfo, ValueKind, shape_text};

/// Puts the tensors in the order of the model's inputs.
pub(super) fn matched_inputs(
    wanted: &[ValueInfo],
    given: Vec<(String, Tensor)>,
) -> Result<Vec<(String, Tensor)>, OrtError> {
    let mut matched: Vec<Option<Tensor>> = wanted.iter().map(|_| None).collect();
    for (name, tensor) in given {
        let index = position(wanted, "input", &name)?;
        fits(&wanted[index], &tensor)?;
        if matched[index].replace(tensor).is_some() {
            return Err(OrtError::GivenTwice { name });
        }
    }
    let pairs = wanted.iter().zip(matched);
    pairs
        .map(|(info, tensor)| Ok((info.name.clone(), tensor.ok_or_else(|| not_given(info))?)))
        .collect()
}

/// The outputs to bind, each once, in the order in which they were chosen.
pub(super) fn chosen_outputs<'a>(
    all: &'a [ValueInfo],
    choice: OutputChoice<'_>,
) -> Result<Vec<&'a ValueInfo>, OrtError> {
    let OutputChoice::Only(names) = choice else {
        return Ok(all.iter().collect());
    };
    let mut chosen = Vec::new();
    for name in names {
        let info = &all[position(all, "output", name)?];
        if !chosen.contains(&info) {
            chosen.push(info);
        }
    }
    Ok(chosen)
}

/// Element type and shape of an output whose dimensions are all fixed.
pub(super) fn fixed_shape(info: &ValueInfo) -> Result<Option<(ElementType, Vec<u64>)>, OrtError> {
    let (element, dims) = tensor_of("output", info)?;
    let size = |dim: &Dim| {
        if let Dim::Fixed(size) = dim {
            Some(*size)
        } else {
            None
        }
    };
    Ok(dims
        .iter()
        .map(size)
        .collect::<Option<_>>()
        .map(|shape| (element, shape)))
}

fn fits(info: &ValueInfo, tensor: &Tensor) -> Result<(), OrtError> {
    let (element, dims) = tensor_of("input", info)?;
    let name = || info.name.clone();
    if tensor.element() != element {
        return Err(OrtError::WrongElement {
            name: name(),
            given: tensor.element(),
            wanted: element,
        });
    }
    let agrees = |(dim, size): (&Dim, &u64)| !matches!(dim, Dim::Fixed(fixed) if fixed != size);
    if dims.len() != tensor.shape().len() || !dims.iter().zip(tensor.shape()).all(agrees) {
        return Err(OrtError::WrongShape {
            name: name(),
            given: shape_text(tensor.shape()),
            wanted: shape_text(dims),
        });
    }
    Ok(())
}

fn tensor_of<'a>(
    role: &'static str,
    info: &'a ValueInfo,
) -> Result<(ElementType, &'a [Dim]), OrtError> {
    match &info.kind {
        ValueKind::Tensor { element, dims } => Ok((*element, dims)),
        ValueKind::Unsupported(type_name) => Err(OrtError::UnsupportedType {
            role,
            name: info.name.clone(),
            type_name: type_name.clone(),
        }),
    }
}

fn not_given(info: &ValueInfo) -> OrtError {
    // An input that no tensor can be given for has another reason than being forgotten.
    tensor_of("input", info)
        .err()
        .unwrap_or_else(|| OrtError::NotGiven {
            name: info.name.clone(),
        })
}

fn position(known: &[ValueInfo], role: &'static str, name: &str) -> Result<usize, OrtError> {
    known
        .iter()
        .position(|info| info.name == name)
        .ok_or_else(|| {
            let known = known
                .iter()
                .map(|info| format!("{:?}", info.name))
                .collect::<Vec<_>>()
                .join(", ");
            OrtError::UnknownName {
                role,
                name: name.into(),
                known,
            }
        })
}
