//! The runtimes' own libraries: where they are, whether they can work here, and their C interfaces.
//!
//! [`search`] lists candidates, [`loader`] judges a file by its [`elf`] facts and opens it, and each
//! runtime's folder puts an owner with `Drop` around every object of its C interface.

pub mod elf;
mod folders;
pub mod hailo;
pub mod loader;
pub mod nvml;
pub mod onnxruntime;
pub mod search;
pub mod tensor;
pub mod value;
