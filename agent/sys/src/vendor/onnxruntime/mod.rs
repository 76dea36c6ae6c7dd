//! ONNX Runtime, by its C interface.
//!
//! `sys` has the C types and the table of functions, `result` turns a status into an error, and the
//! rest are owners: [`OnnxRuntime`] makes a [`Session`] from a [`SessionConfig`], a session makes a
//! [`Binding`], and [`Binding::run`] is the call that is timed. Each owner keeps alive what it was made
//! from, so that everything is released in reverse order, whatever the caller drops first.
//!
//! Facts about the interface are from `onnxruntime_c_api.h`; those marked "seen" were found by running
//! versions 1.30 and 1.32.

mod binding;
mod bound;
mod config;
mod describe;
mod fit;
mod handle;
mod options;
mod outputs;
mod result;
mod runtime;
mod session;
mod sys;
mod types;

pub use binding::{Binding, OutputChoice};
pub use config::{ExecutionMode, GraphOptimization, Provider, SessionConfig};
pub use outputs::Output;
pub use result::OrtError;
pub use runtime::OnnxRuntime;
pub use session::Session;

use super::search::Wanted;

/// Where ONNX Runtime may be installed.
pub const WANTED: Wanted = Wanted {
    // The second is the name that the crate `ort` and its users know.
    variables: &["EDGEDYNO_ONNXRUNTIME", "ORT_DYLIB_PATH"],
    files: &["libonnxruntime.so"],
    folders: &[],
    python_folders: &["onnxruntime/capi"],
};
