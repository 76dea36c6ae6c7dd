//! The timed call.

use edgedyno_shared::case::{InputPolicy, Io};
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use rten::{Model, NodeId, RunOptions, Value, ValueOrView};

use super::failure::{from_run, guarded};
use super::values;
use crate::backend::Runner;
use crate::inputs::fresh::Fresh;
use crate::inputs::{DType, InputSets, Tensor};

/// An output's name and the type that the model gives it.
pub(super) struct OutputSlot {
    pub(super) node: NodeId,
    pub(super) name: String,
    pub(super) dtype: Option<DType>,
}

/// A model with its inputs as rten's own values.
pub(super) struct RtenRunner {
    model: Model,
    options: RunOptions,
    inputs: Vec<NodeId>,
    outputs: Vec<NodeId>,
    slots: Vec<OutputSlot>,
    sets: Vec<Vec<Value>>,
    /// The set of this trial.
    current: usize,
    policy: InputPolicy,
    fresh: Refill,
    transfer: Option<Transfer>,
    results: Vec<Value>,
}

/// Where copies go when they are inside the region: made once, used by every trial.
#[derive(Default)]
struct Transfer {
    inputs: Vec<Value>,
    outputs: Vec<Value>,
}

/// Draws new values into tensors of our own, from which rten's are made.
struct Refill {
    law: Fresh,
    tensors: Vec<Tensor>,
}

impl RtenRunner {
    pub(super) fn new(
        model: Model,
        options: RunOptions,
        slots: Vec<OutputSlot>,
        mut inputs: InputSets,
        io: Io,
    ) -> Result<Self, Failure> {
        let law = Fresh::new(&inputs);
        let convert = |set: &Vec<Tensor>| set.iter().map(values::from_tensor).collect();
        let sets: Vec<Vec<Value>> = inputs.sets.iter().map(convert).collect::<Result<_, _>>()?;
        let first = sets
            .first()
            .ok_or_else(|| internal("a repeat has no inputs"))?;
        let transfer = (io == Io::Transfer).then(|| Transfer {
            inputs: first.clone(),
            outputs: Vec::new(),
        });
        Ok(Self {
            inputs: model.input_ids().to_vec(),
            outputs: slots.iter().map(|s| s.node).collect(),
            model,
            options,
            slots,
            sets,
            current: 0,
            policy: inputs.policy,
            fresh: Refill {
                law,
                tensors: inputs.sets.swap_remove(0),
            },
            transfer,
            results: Vec::new(),
        })
    }

    /// One `Model::run`. It takes a list of inputs by value, so that list is part of the call.
    #[inline]
    fn call(&mut self) -> Result<(), Failure> {
        let given = match &mut self.transfer {
            Some(transfer) => {
                copy_all(&mut transfer.inputs, &self.sets[self.current]);
                &transfer.inputs
            }
            None => &self.sets[self.current],
        };
        let list = self
            .inputs
            .iter()
            .copied()
            .zip(given.iter().map(ValueOrView::from))
            .collect();
        let result = self
            .model
            .run(list, &self.outputs, Some(self.options.clone()));
        self.results = result.map_err(|e| from_run(&e))?;
        if let Some(transfer) = &mut self.transfer {
            copy_all(&mut transfer.outputs, &self.results);
        }
        Ok(())
    }
}

impl Runner for RtenRunner {
    fn prepare(&mut self, trial: u64) -> Result<(), Failure> {
        // rten allocates its outputs in the call; letting go of the last ones is not part of it.
        self.results = Vec::new();
        match self.policy {
            InputPolicy::Fixed => {}
            InputPolicy::Cycle => self.current = (trial % self.sets.len() as u64) as usize,
            InputPolicy::Fresh => {
                for (at, tensor) in self.fresh.tensors.iter_mut().enumerate() {
                    self.fresh
                        .law
                        .fill(&mut tensor.bytes, tensor.dtype, at, trial)?;
                    values::copy(&mut self.sets[0][at], &values::from_tensor(tensor)?);
                }
            }
        }
        Ok(())
    }

    fn run(&mut self, _extra: &mut [i64]) -> Result<(), Failure> {
        guarded(|| self.call())
    }

    fn outputs(&mut self) -> Result<Vec<Tensor>, Failure> {
        if self.results.is_empty() {
            return Err(internal("there are no outputs before a trial"));
        }
        let slots = self.slots.iter().zip(&self.results);
        slots
            .map(|(slot, value)| values::to_tensor(&slot.name, slot.dtype, value))
            .collect()
    }
}

fn copy_all(to: &mut Vec<Value>, from: &[Value]) {
    to.truncate(from.len());
    for (to, from) in to.iter_mut().zip(from) {
        values::copy(to, from);
    }
    for missing in &from[to.len()..] {
        to.push(missing.clone());
    }
}

fn internal(detail: &str) -> Failure {
    Failure::new(FailureCode::Internal, detail)
}
