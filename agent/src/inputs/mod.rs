//! Inputs of a model: resolved shapes, generated or read tensors, and which trial gets which.

pub mod check;
pub mod generate;
pub(crate) mod half;
pub(crate) mod random;
pub mod tensor;

pub use tensor::{DType, InputSets, Tensor};
