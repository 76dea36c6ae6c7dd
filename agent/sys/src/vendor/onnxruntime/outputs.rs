//! Reads what a run has produced.

use std::borrow::Cow;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use super::describe::{element_code, sizes};
use super::handle::Handle;
use super::result::{OrtError, check};
use super::runtime::Runtime;
use super::session::default_allocator;
use super::sys::{OrtIoBinding, OrtValue};
use super::types::{element_name, element_of};
use crate::vendor::tensor::Tensor;
use crate::vendor::value::ElementType;

/// An output of the last run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output<'a> {
    /// Its name in the model.
    pub name: &'a str,
    /// The type of its elements.
    pub element: ElementType,
    /// Its dimensions in this run.
    pub shape: Vec<u64>,
    /// Its contents, in the machine's byte order.
    pub bytes: Cow<'a, [u8]>,
}

impl<'a> Output<'a> {
    pub(super) fn of_tensor(name: &'a str, tensor: &'a Tensor) -> Self {
        Self {
            name,
            element: tensor.element(),
            shape: tensor.shape().to_vec(),
            bytes: tensor.bytes().into(),
        }
    }
}

/// A value that the runtime handed out.
pub(super) struct RuntimeValue {
    value: Handle<OrtValue>,
    runtime: Arc<Runtime>,
}

/// The values of all bound outputs, in the order in which they were bound.
pub(super) fn runtime_outputs(
    runtime: &Arc<Runtime>,
    binding: &Handle<OrtIoBinding>,
) -> Result<Vec<RuntimeValue>, OrtError> {
    let table = &runtime.table;
    let call = "GetBoundOutputValues";
    let allocator = default_allocator(runtime)?;
    let (mut list, mut count) = (ptr::null_mut(), 0);
    // SAFETY: binding and allocator are alive; the last two take a list and its length.
    let status = unsafe {
        (table.GetBoundOutputValues)(binding.as_ptr(), allocator, &raw mut list, &raw mut count)
    };
    check(table, call, status)?;
    let mut values = Vec::with_capacity(count);
    for index in 0..count {
        // SAFETY: inside the list just returned.
        let slot = unsafe { list.add(index) };
        // SAFETY: as above; each value is the caller's to release (header).
        let value = unsafe { slot.read() };
        // SAFETY: as above.
        let owned = unsafe { Handle::own(runtime, call, table.ReleaseValue, value) };
        values.push(owned);
    }
    if !list.is_null() {
        // SAFETY: the list was made by this allocator for the caller; its values have owners now.
        let status = unsafe { (table.AllocatorFree)(allocator, list.cast()) };
        check(table, "AllocatorFree", status)?;
    }
    values
        .into_iter()
        .map(|value| {
            Ok(RuntimeValue {
                value: value?,
                runtime: Arc::clone(runtime),
            })
        })
        .collect()
}

impl RuntimeValue {
    /// Copies the value, which must be a tensor in the CPU's memory.
    pub(super) fn copied<'a>(&self, name: &'a str) -> Result<Output<'a>, OrtError> {
        let (element, shape) = self.type_and_shape(name)?;
        let count = shape.iter().product::<u64>();
        let bytes = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .saturating_mul(element.bytes());
        let data = if bytes == 0 {
            Vec::new()
        } else {
            self.data(bytes)?
        };
        Ok(Output {
            name,
            element,
            shape,
            bytes: data.into(),
        })
    }

    fn type_and_shape(&self, name: &str) -> Result<(ElementType, Vec<u64>), OrtError> {
        let table = &self.runtime.table;
        let release = table.ReleaseTensorTypeAndShapeInfo;
        let info = Handle::make(&self.runtime, "GetTensorTypeAndShape", release, |out| {
            // SAFETY: the value is alive, and `out` takes its type.
            unsafe { (table.GetTensorTypeAndShape)(self.value.as_ptr(), out) }
        })?;
        // SAFETY: the type is alive.
        let code = unsafe { element_code(&self.runtime, info.as_ptr()) }?;
        let element = element_of(code).ok_or_else(|| OrtError::UnsupportedType {
            role: "output",
            name: name.into(),
            type_name: element_name(code),
        })?;
        // SAFETY: the type is alive.
        let sizes = unsafe { sizes(&self.runtime, info.as_ptr()) }?;
        Ok((
            element,
            sizes
                .into_iter()
                .map(|size| u64::try_from(size).unwrap_or(0))
                .collect(),
        ))
    }

    fn data(&self, bytes: usize) -> Result<Vec<u8>, OrtError> {
        let call = "GetTensorMutableData";
        let mut start = ptr::null_mut();
        // SAFETY: the value is alive, and `start` takes the address of its elements.
        let status = unsafe {
            (self.runtime.table.GetTensorMutableData)(self.value.as_ptr(), &raw mut start)
        };
        check(&self.runtime.table, call, status)?;
        let start = NonNull::new(start).ok_or(OrtError::NothingReturned { call })?;
        // SAFETY: type and shape are the value's own, so that many bytes are there; no run is going on,
        // since the binding is borrowed.
        let elements = unsafe { slice::from_raw_parts(start.as_ptr().cast::<u8>(), bytes) };
        Ok(elements.to_vec())
    }
}
