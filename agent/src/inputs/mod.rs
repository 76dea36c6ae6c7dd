//! Inputs of a model: resolved shapes, generated or read tensors, and which trial gets which.

pub mod tensor;

pub use tensor::{DType, InputSets, Tensor};
