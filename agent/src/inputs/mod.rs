//! Inputs of a model: resolved shapes, generated or read tensors, and which trial gets which.
//!
//! A backend resolves its model's dimensions with [`resolve`], the worker makes the tensors with
//! [`InputSets::for_job`], and after the window it looks at the outputs with [`check`].

pub mod check;
pub mod files;
pub mod fresh;
pub mod generate;
pub(crate) mod half;
pub(crate) mod near;
pub mod npy;
pub(crate) mod random;
pub mod references;
pub mod resolve;
pub mod sets;
pub mod tensor;
#[cfg(test)]
pub(crate) mod testing;

pub use tensor::{DType, InputSets, Tensor};
