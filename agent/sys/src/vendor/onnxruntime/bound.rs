//! One input or output bound to its place in memory.

use std::ffi::CString;
use std::sync::Arc;

use super::fit::fixed_shape;
use super::handle::Handle;
use super::outputs::Output;
use super::result::{OrtError, c_text, check};
use super::runtime::Runtime;
use super::sys::{OrtIoBinding, OrtMemoryInfo, OrtValue};
use super::types::code_of;
use crate::vendor::tensor::Tensor;
use crate::vendor::value::ValueInfo;

/// A tensor of ours that the runtime reads or writes in place.
pub(super) struct Bound {
    pub(super) name: String,
    c_name: CString,
    // The value refers to the tensor's buffer, and is dropped before it.
    value: Handle<OrtValue>,
    pub(super) tensor: Tensor,
}

/// Where the runtime puts an output.
pub(super) enum BoundOutput {
    /// The model fixes the shape: into our buffer.
    Ours(Bound),
    /// The shape is known after a run: the runtime allocates.
    Theirs { name: String, c_name: CString },
}

impl Bound {
    pub(super) fn new(
        runtime: &Arc<Runtime>,
        memory: &Handle<OrtMemoryInfo>,
        name: &str,
        mut tensor: Tensor,
    ) -> Result<Self, OrtError> {
        let table = &runtime.table;
        let (start, bytes, code) = (
            tensor.address().cast(),
            tensor.bytes().len(),
            code_of(tensor.element()),
        );
        let shape: Vec<i64> = tensor
            .shape()
            .iter()
            .map(|&dim| dim.cast_signed())
            .collect();
        let call = "CreateTensorWithDataAsOrtValue";
        let value = Handle::make(runtime, call, table.ReleaseValue, |out| {
            let create = table.CreateTensorWithDataAsOrtValue;
            let (memory, dims) = (memory.as_ptr(), shape.as_ptr());
            // SAFETY: the buffer is `bytes` long and outlives the value, since both stay in one `Bound`;
            // description and shape are copied.
            unsafe { create(memory, start, bytes, dims, shape.len(), code, out) }
        })?;
        Ok(Self {
            name: name.into(),
            c_name: c_text(name)?,
            value,
            tensor,
        })
    }

    /// Binds it as an input; it must then stay as long as the binding.
    pub(super) fn bind_as_input(
        &self,
        runtime: &Runtime,
        binding: &Handle<OrtIoBinding>,
    ) -> Result<(), OrtError> {
        let (name, value) = (self.c_name.as_ptr(), self.value.as_ptr());
        // SAFETY: binding and value are alive, the name is copied.
        let status = unsafe { (runtime.table.BindInput)(binding.as_ptr(), name, value) };
        check(&runtime.table, "BindInput", status)
    }
}

impl BoundOutput {
    pub(super) fn new(
        runtime: &Arc<Runtime>,
        memory: &Handle<OrtMemoryInfo>,
        info: &ValueInfo,
    ) -> Result<Self, OrtError> {
        let name = info.name.as_str();
        let Some((element, shape)) = fixed_shape(info)? else {
            return Ok(Self::Theirs {
                name: name.into(),
                c_name: c_text(name)?,
            });
        };
        let tensor = Tensor::zeroed(element, &shape)?;
        Bound::new(runtime, memory, name, tensor).map(Self::Ours)
    }

    /// Binds it as an output; it must then stay as long as the binding.
    pub(super) fn bind(
        &self,
        runtime: &Runtime,
        binding: &Handle<OrtIoBinding>,
        memory: &Handle<OrtMemoryInfo>,
    ) -> Result<(), OrtError> {
        let table = &runtime.table;
        let binding = binding.as_ptr();
        match self {
            Self::Ours(Bound { c_name, value, .. }) => {
                // SAFETY: binding and value are alive, the name is copied.
                let status =
                    unsafe { (table.BindOutput)(binding, c_name.as_ptr(), value.as_ptr()) };
                check(table, "BindOutput", status)
            }
            Self::Theirs { c_name, .. } => {
                // SAFETY: the binding is alive, name and description are copied.
                let status = unsafe {
                    (table.BindOutputToDevice)(binding, c_name.as_ptr(), memory.as_ptr())
                };
                check(table, "BindOutputToDevice", status)
            }
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Ours(Bound { name, .. }) | Self::Theirs { name, .. } => name,
        }
    }

    pub(super) fn as_output(&self) -> Option<Output<'_>> {
        let Self::Ours(ours) = self else { return None };
        Some(Output::of_tensor(&ours.name, &ours.tensor))
    }
}
