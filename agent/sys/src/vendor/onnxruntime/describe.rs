//! What a session says about its inputs and outputs.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::Arc;

use super::handle::Handle;
use super::result::{OrtError, check, owned_text};
use super::runtime::Runtime;
use super::session::take_text;
use super::sys::{
    OrtAllocator, OrtSession, OrtStatus, OrtTensorTypeAndShapeInfo, OrtTypeInfo, TYPE_TENSOR,
};
use super::types::{container_name, element_name, element_of};
use crate::vendor::value::{Dim, ValueInfo, ValueKind};

type Session = Handle<OrtSession>;

pub(super) fn inputs_of(
    runtime: &Arc<Runtime>,
    session: &Session,
    allocator: *mut OrtAllocator,
) -> Result<Vec<ValueInfo>, OrtError> {
    let table = &runtime.table;
    let calls = Calls {
        count: ("SessionGetInputCount", table.SessionGetInputCount),
        name: ("SessionGetInputName", table.SessionGetInputName),
        info: ("SessionGetInputTypeInfo", table.SessionGetInputTypeInfo),
    };
    calls.describe_all(runtime, session, allocator)
}

pub(super) fn outputs_of(
    runtime: &Arc<Runtime>,
    session: &Session,
    allocator: *mut OrtAllocator,
) -> Result<Vec<ValueInfo>, OrtError> {
    let table = &runtime.table;
    let calls = Calls {
        count: ("SessionGetOutputCount", table.SessionGetOutputCount),
        name: ("SessionGetOutputName", table.SessionGetOutputName),
        info: ("SessionGetOutputTypeInfo", table.SessionGetOutputTypeInfo),
    };
    calls.describe_all(runtime, session, allocator)
}

type Count = unsafe extern "C" fn(*const OrtSession, *mut usize) -> *mut OrtStatus;
type Name = unsafe extern "C" fn(
    *const OrtSession,
    usize,
    *mut OrtAllocator,
    *mut *mut c_char,
) -> *mut OrtStatus;
type Info = unsafe extern "C" fn(*const OrtSession, usize, *mut *mut OrtTypeInfo) -> *mut OrtStatus;

/// Three functions that exist alike for inputs and outputs.
struct Calls {
    count: (&'static str, Count),
    name: (&'static str, Name),
    info: (&'static str, Info),
}

impl Calls {
    fn describe_all(
        &self,
        runtime: &Arc<Runtime>,
        session: &Session,
        allocator: *mut OrtAllocator,
    ) -> Result<Vec<ValueInfo>, OrtError> {
        let (call, count_values) = self.count;
        let mut count = 0;
        // SAFETY: the session is alive, and `count` takes the number.
        let status = unsafe { count_values(session.as_ptr(), &raw mut count) };
        check(&runtime.table, call, status)?;
        (0..count)
            .map(|index| self.describe(runtime, session, allocator, index))
            .collect()
    }

    fn describe(
        &self,
        runtime: &Arc<Runtime>,
        session: &Session,
        allocator: *mut OrtAllocator,
        index: usize,
    ) -> Result<ValueInfo, OrtError> {
        let (call, name_of) = self.name;
        let mut name = ptr::null_mut();
        // SAFETY: session and allocator are alive, and `name` takes a text.
        let status = unsafe { name_of(session.as_ptr(), index, allocator, &raw mut name) };
        check(&runtime.table, call, status)?;
        let name = take_text(runtime, allocator, name)?;

        let (call, info_of) = self.info;
        let info = Handle::make(runtime, call, runtime.table.ReleaseTypeInfo, |out| {
            // SAFETY: the session is alive, and `out` takes a type.
            unsafe { info_of(session.as_ptr(), index, out) }
        })?;
        Ok(ValueInfo {
            name,
            kind: kind_of(runtime, &info)?,
        })
    }
}

fn kind_of(runtime: &Runtime, info: &Handle<OrtTypeInfo>) -> Result<ValueKind, OrtError> {
    let table = &runtime.table;
    let mut kind = 0;
    // SAFETY: the type is alive, and `kind` takes the number.
    let status = unsafe { (table.GetOnnxTypeFromTypeInfo)(info.as_ptr(), &raw mut kind) };
    check(table, "GetOnnxTypeFromTypeInfo", status)?;
    if kind != TYPE_TENSOR {
        return Ok(ValueKind::Unsupported(container_name(kind).into()));
    }
    let mut tensor = ptr::null();
    // SAFETY: the type is alive, and `tensor` takes a pointer into it.
    let status = unsafe { (table.CastTypeInfoToTensorInfo)(info.as_ptr(), &raw mut tensor) };
    check(table, "CastTypeInfoToTensorInfo", status)?;
    // SAFETY: the pointer is into `info`, which is alive.
    let code = unsafe { element_code(runtime, tensor) }?;
    let Some(element) = element_of(code) else {
        return Ok(ValueKind::Unsupported(format!(
            "tensor({})",
            element_name(code)
        )));
    };
    // SAFETY: as above.
    let sizes = unsafe { sizes(runtime, tensor) }?;
    // SAFETY: as above.
    let symbols = unsafe { symbols(runtime, tensor, sizes.len()) }?;
    let dim = |(size, symbol): (i64, String)| match u64::try_from(size) {
        Ok(size) => Dim::Fixed(size),
        Err(_) if symbol.is_empty() => Dim::Unknown,
        Err(_) => Dim::Named(symbol),
    };
    Ok(ValueKind::Tensor {
        element,
        dims: sizes.into_iter().zip(symbols).map(dim).collect(),
    })
}

/// The number of the element type of a tensor.
///
/// # Safety
///
/// `info` must be alive.
pub(super) unsafe fn element_code(
    runtime: &Runtime,
    info: *const OrtTensorTypeAndShapeInfo,
) -> Result<c_int, OrtError> {
    let mut code = 0;
    // SAFETY: the caller's promise; `code` takes the number.
    let status = unsafe { (runtime.table.GetTensorElementType)(info, &raw mut code) };
    check(&runtime.table, "GetTensorElementType", status)?;
    Ok(code)
}

/// The sizes of the dimensions of a tensor, -1 where they are free.
///
/// # Safety
///
/// `info` must be alive.
pub(super) unsafe fn sizes(
    runtime: &Runtime,
    info: *const OrtTensorTypeAndShapeInfo,
) -> Result<Vec<i64>, OrtError> {
    let table = &runtime.table;
    let mut count = 0;
    // SAFETY: the caller's promise; `count` takes the number.
    let status = unsafe { (table.GetDimensionsCount)(info, &raw mut count) };
    check(table, "GetDimensionsCount", status)?;
    let mut sizes = vec![0; count];
    // SAFETY: as above; the array has room for that many.
    let status = unsafe { (table.GetDimensions)(info, sizes.as_mut_ptr(), count) };
    check(table, "GetDimensions", status)?;
    Ok(sizes)
}

/// The names of the dimensions, empty where they have none.
///
/// # Safety
///
/// `info` must be alive and have `count` dimensions.
unsafe fn symbols(
    runtime: &Runtime,
    info: *const OrtTensorTypeAndShapeInfo,
    count: usize,
) -> Result<Vec<String>, OrtError> {
    let table = &runtime.table;
    let mut texts = vec![ptr::null(); count];
    // SAFETY: the caller's promise; the array has room for that many.
    let status = unsafe { (table.GetSymbolicDimensions)(info, texts.as_mut_ptr(), count) };
    check(table, "GetSymbolicDimensions", status)?;
    // SAFETY: null or texts that belong to `info`.
    let copy = |text| unsafe { owned_text(text) }.unwrap_or_default();
    Ok(texts.into_iter().map(copy).collect())
}
