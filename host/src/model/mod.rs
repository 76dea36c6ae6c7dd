//! Models as files: what is in them, which bytes they are, how to make one, what to feed them.

pub mod array;
pub mod digest;
pub mod element;
pub mod error;
pub mod facts;
pub mod identify;
pub mod info;
pub mod inspect;
pub mod make;
pub mod onnx;
mod scan;
pub mod tensors;
mod wire;
