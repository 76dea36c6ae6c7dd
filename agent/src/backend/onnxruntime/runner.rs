//! The timed call: one run with everything bound.

use edgedyno_shared::case::{InputPolicy, Io};
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_sys::vendor::onnxruntime::{Binding, Output, OutputChoice, Session};
use edgedyno_sys::vendor::tensor::Tensor as Buffer;
use edgedyno_sys::vendor::value::ElementType;

use super::failure::from_ort;
use crate::backend::Runner;
use crate::inputs::fresh::Fresh;
use crate::inputs::{DType, InputSets, Tensor};

/// Bindings made beforehand, one for each set of inputs.
pub(super) struct OrtRunner {
    bindings: Vec<Binding>,
    /// The binding of this trial.
    current: usize,
    policy: InputPolicy,
    fresh: Fresh,
    /// Inputs lie in memory of the provider's own and are sent there.
    sends_inputs: bool,
    transfer: Option<Transfer>,
    /// Name and type of every input.
    inputs: Vec<(String, DType)>,
}

/// Copies inside the region: from tensors of the caller to the bound buffers, and back.
struct Transfer {
    sets: Vec<Vec<Tensor>>,
    outputs: Vec<Vec<u8>>,
    output_names: Vec<String>,
}

impl OrtRunner {
    pub(super) fn new(
        session: &Session,
        inputs: InputSets,
        io: Io,
        sends_inputs: bool,
    ) -> Result<Self, Failure> {
        let first = inputs
            .sets
            .first()
            .ok_or_else(|| internal("a repeat has no inputs"))?;
        let names = first.iter().map(|t| (t.name.clone(), t.dtype)).collect();
        let fresh = Fresh::new(&inputs);
        let policy = inputs.policy;
        // In transfer the copy is in the region, and one binding takes all sets in turn.
        let bound = if io == Io::Transfer {
            &inputs.sets[..1]
        } else {
            &inputs.sets[..]
        };
        let bindings = bound
            .iter()
            .map(|set| bind(session, set))
            .collect::<Result<Vec<_>, _>>()?;
        let output_names: Vec<String> = session.outputs().iter().map(|o| o.name.clone()).collect();
        let transfer = (io == Io::Transfer).then(|| Transfer {
            outputs: output_names
                .iter()
                .map(|n| fixed_bytes(&bindings[0], n))
                .collect(),
            output_names,
            sets: inputs.sets,
        });
        Ok(Self {
            bindings,
            current: 0,
            policy,
            fresh,
            sends_inputs,
            transfer,
            inputs: names,
        })
    }

    /// New values for a trial: where the caller has them in transfer, else in the bound buffers.
    fn refill(&mut self, trial: u64) -> Result<(), Failure> {
        let binding = &mut self.bindings[0];
        for (at, (name, dtype)) in self.inputs.iter().enumerate() {
            let out = match &mut self.transfer {
                Some(transfer) => Some(transfer.sets[0][at].bytes.as_mut_slice()),
                None => binding.input_bytes_mut(name),
            };
            let out = out.ok_or_else(|| internal("an input is not bound"))?;
            self.fresh.fill(out, *dtype, at, trial)?;
        }
        if self.sends_inputs && self.transfer.is_none() {
            binding.upload_inputs().map_err(from_ort)?;
        }
        // Other data may give outputs of another size; the runtime would keep to the first.
        binding.forget_outputs().map_err(from_ort)
    }
}

impl Runner for OrtRunner {
    fn prepare(&mut self, trial: u64) -> Result<(), Failure> {
        match self.policy {
            InputPolicy::Fixed => Ok(()),
            InputPolicy::Cycle => {
                let sets = self
                    .transfer
                    .as_ref()
                    .map_or(self.bindings.len(), |t| t.sets.len());
                self.current = (trial % sets as u64) as usize;
                match self.transfer {
                    Some(_) => self.bindings[0].forget_outputs().map_err(from_ort),
                    None => Ok(()),
                }
            }
            InputPolicy::Fresh => self.refill(trial),
        }
    }

    #[inline]
    fn run(&mut self, _extra: &mut [i64]) -> Result<(), Failure> {
        match &mut self.transfer {
            None => self.bindings[self.current].run().map_err(from_ort),
            Some(transfer) => {
                let binding = &mut self.bindings[0];
                transfer.send(binding, self.current, self.sends_inputs)?;
                binding.run().map_err(from_ort)?;
                transfer.fetch(binding)
            }
        }
    }

    fn outputs(&mut self) -> Result<Vec<Tensor>, Failure> {
        let binding = self.transfer.as_ref().map_or(self.current, |_| 0);
        let outputs = self.bindings[binding].outputs().map_err(from_ort)?;
        Ok(outputs.into_iter().map(to_tensor).collect())
    }
}

impl Transfer {
    fn send(&self, binding: &mut Binding, set: usize, upload: bool) -> Result<(), Failure> {
        for tensor in &self.sets[set] {
            if let Some(bound) = binding.input_bytes_mut(&tensor.name) {
                bound.copy_from_slice(&tensor.bytes);
            }
        }
        match upload {
            true => binding.upload_inputs().map_err(from_ort),
            false => Ok(()),
        }
    }

    /// Outputs of known size are copied into buffers made beforehand; others as the runtime has them.
    fn fetch(&mut self, binding: &Binding) -> Result<(), Failure> {
        if binding.has_fixed_outputs() {
            for (name, copy) in self.output_names.iter().zip(&mut self.outputs) {
                if let Some(output) = binding.fixed_output(name) {
                    copy.copy_from_slice(output.bytes());
                }
            }
            return Ok(());
        }
        let outputs = binding.outputs().map_err(from_ort)?;
        for (output, copy) in outputs.into_iter().zip(&mut self.outputs) {
            *copy = output.bytes.into_owned();
        }
        Ok(())
    }
}

fn bind(session: &Session, set: &[Tensor]) -> Result<Binding, Failure> {
    let buffer = |t: &Tensor| {
        let buffer = Buffer::from_bytes(element(t.dtype), &t.shape, &t.bytes);
        Ok((t.name.clone(), buffer.map_err(|e| from_ort(e.into()))?))
    };
    let buffers = set
        .iter()
        .map(buffer)
        .collect::<Result<Vec<_>, Failure>>()?;
    session.bind(buffers, OutputChoice::All).map_err(from_ort)
}

fn fixed_bytes(binding: &Binding, name: &str) -> Vec<u8> {
    vec![
        0;
        binding
            .fixed_output(name)
            .map_or(0, |output| output.bytes().len())
    ]
}

/// An output in one of our types; bf16, which we lack, is widened to f32 without loss.
fn to_tensor(output: Output<'_>) -> Tensor {
    let (dtype, bytes) = match dtype(output.element) {
        Some(dtype) => (dtype, output.bytes.into_owned()),
        None => (
            DType::F32,
            output
                .bytes
                .as_chunks()
                .0
                .iter()
                .flat_map(|[a, b]| [0, 0, *a, *b])
                .collect(),
        ),
    };
    Tensor {
        name: output.name.into(),
        dtype,
        shape: output.shape,
        bytes,
    }
}

fn element(dtype: DType) -> ElementType {
    match dtype {
        DType::F16 => ElementType::F16,
        DType::F32 => ElementType::F32,
        DType::F64 => ElementType::F64,
        DType::I8 => ElementType::I8,
        DType::I16 => ElementType::I16,
        DType::I32 => ElementType::I32,
        DType::I64 => ElementType::I64,
        DType::U8 => ElementType::U8,
        DType::U16 => ElementType::U16,
        DType::U32 => ElementType::U32,
        DType::U64 => ElementType::U64,
        DType::Bool => ElementType::Bool,
    }
}

/// The same type here; none for bf16.
fn dtype(wanted: ElementType) -> Option<DType> {
    DType::ALL.into_iter().find(|d| element(*d) == wanted)
}

fn internal(detail: &str) -> Failure {
    Failure::new(FailureCode::Internal, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_go_both_ways_and_keep_their_size() {
        for ours in DType::ALL {
            assert_eq!(dtype(element(ours)), Some(ours));
            assert_eq!(element(ours).bytes(), ours.size());
        }
    }

    #[test]
    fn bf16_outputs_are_widened() {
        // 1.0 and -2.5 in bf16: the upper halves of their f32 forms.
        let bytes = [0x80, 0x3f, 0x20, 0xc0];
        let output = Output {
            name: "y",
            element: ElementType::Bf16,
            shape: vec![2],
            bytes: bytes.as_slice().into(),
        };
        let tensor = to_tensor(output);
        assert_eq!(tensor.dtype, DType::F32);
        assert_eq!(
            tensor.bytes,
            [1_f32.to_le_bytes(), (-2.5_f32).to_le_bytes()].concat()
        );
    }
}
