//! From a status of ONNX Runtime, or a mistake of the caller's, to an error.

use std::ffi::{CStr, CString, c_char, c_int};

use super::sys::{OrtStatus, Table};
use crate::vendor::loader::LoadError;
use crate::vendor::tensor::TensorError;
use crate::vendor::value::ElementType;

/// What can go wrong with ONNX Runtime.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "the message of each variant says what its fields are"
)]
pub enum OrtError {
    /// The library cannot be used here.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The library is of a line whose interface is not known here.
    #[error("onnxruntime {version} does not offer interface {needed}: {reason}")]
    NoInterface {
        version: String,
        needed: u32,
        reason: String,
    },
    /// A call failed; code and message are the runtime's own.
    #[error("{call} failed with code {code} ({}): {message}", code_name(*code))]
    Status {
        call: &'static str,
        code: i32,
        message: String,
    },
    /// A call succeeded without giving what it is for.
    #[error("{call} returned nothing")]
    NothingReturned { call: &'static str },
    /// A name or path with a zero byte in it, which C cannot express.
    #[error("{text:?} contains a zero byte")]
    ZeroByte { text: String },
    /// A number that C cannot express.
    #[error("{what} = {value} is out of range")]
    OutOfRange { what: &'static str, value: u64 },
    /// A name that is no input or output of the model.
    #[error("the model has no {role} {name:?}; it has {known}")]
    UnknownName {
        role: &'static str,
        name: String,
        known: String,
    },
    /// An input without a tensor.
    #[error("input {name:?} is not given")]
    NotGiven { name: String },
    /// Two tensors for one input.
    #[error("input {name:?} is given twice")]
    GivenTwice { name: String },
    /// A tensor of another element type than the model declares.
    #[error("input {name:?} wants {wanted}, a tensor of {given} is given")]
    WrongElement {
        name: String,
        given: ElementType,
        wanted: ElementType,
    },
    /// A tensor of a shape that the model excludes.
    #[error("input {name:?} wants shape {wanted}, {given} is given")]
    WrongShape {
        name: String,
        given: String,
        wanted: String,
    },
    /// An input or output that is no tensor of plain numbers.
    #[error("{role} {name:?} is of type {type_name}, which cannot be bound")]
    UnsupportedType {
        role: &'static str,
        name: String,
        type_name: String,
    },
    /// Outputs were asked for before a run.
    #[error("there are no outputs before the first run")]
    NotRun,
    /// A buffer cannot be made.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

impl OrtError {
    /// What to do about it, as one fragment; `None` where the message says it all.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Load(error) => Some(error.hint()),
            Self::Status {
                call,
                code,
                message,
            } => status_hint(call, *code, message).map(Into::into),
            Self::UnsupportedType { role: "output", .. } => {
                Some("name the outputs to compute, leaving this one out".into())
            }
            _ => None,
        }
    }
}

fn status_hint(call: &str, code: i32, message: &str) -> Option<&'static str> {
    if message.contains("opset") || message.contains("IR version") {
        return Some(
            "the model is newer than the runtime: update that, or export for an older opset",
        );
    }
    match (call, code) {
        ("CreateSession", NO_SUCH_FILE) => Some("check the path of the model"),
        ("CreateSession", INVALID_PROTOBUF) => {
            Some("the file is no ONNX model, or a broken copy of one")
        }
        ("SessionOptionsAppendExecutionProvider", _) => {
            Some("this build of onnxruntime may lack the provider or one of its options")
        }
        _ => None,
    }
}

const NO_SUCH_FILE: i32 = 3;
const INVALID_PROTOBUF: i32 = 7;

/// Turns the status of a call into a result, and releases it.
///
/// Without an error this is one comparison with null: it stands in the timed call.
#[inline]
pub(super) fn check(
    table: &Table,
    call: &'static str,
    status: *mut OrtStatus,
) -> Result<(), OrtError> {
    if status.is_null() {
        Ok(())
    } else {
        Err(failed(table, call, status))
    }
}

#[cold]
fn failed(table: &Table, call: &'static str, status: *mut OrtStatus) -> OrtError {
    // SAFETY: a status that is not null is an object of the runtime's, ours until released below.
    let code = unsafe { (table.GetErrorCode)(status) };
    // SAFETY: as above; the text belongs to the status.
    let message = unsafe { (table.GetErrorMessage)(status) };
    // SAFETY: null or a zero-terminated text, copied before the status goes.
    let message = unsafe { owned_text(message) }.unwrap_or_default();
    // SAFETY: released once, and not used again.
    unsafe { (table.ReleaseStatus)(status) };
    OrtError::Status {
        call,
        code,
        message,
    }
}

/// Copies a text of the runtime's; `None` for null.
///
/// # Safety
///
/// `text` must be null or a zero-terminated text that lives during the call.
pub(super) unsafe fn owned_text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

pub(super) fn c_text(text: impl Into<Vec<u8>>) -> Result<CString, OrtError> {
    CString::new(text).map_err(|error| OrtError::ZeroByte {
        text: String::from_utf8_lossy(&error.into_vec()).into_owned(),
    })
}

pub(super) fn c_number(what: &'static str, value: u32) -> Result<c_int, OrtError> {
    c_int::try_from(value).map_err(|_| OrtError::OutOfRange {
        what,
        value: value.into(),
    })
}

/// The names of `OrtErrorCode`, as words.
fn code_name(code: i32) -> &'static str {
    match code {
        1 => "failure",
        2 => "invalid argument",
        NO_SUCH_FILE => "no such file",
        4 => "no model",
        5 => "engine error",
        6 => "runtime exception",
        INVALID_PROTOBUF => "invalid protobuf",
        8 => "model already loaded",
        9 => "not implemented",
        10 => "invalid graph",
        11 => "execution provider failure",
        12 => "model load cancelled",
        13 => "model requires compilation",
        14 => "not found",
        15 => "device reset",
        _ => "unknown code",
    }
}
