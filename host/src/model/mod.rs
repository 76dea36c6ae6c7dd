//! Models as files: what is in them, which bytes they are, how to make one, what to feed them.

pub mod onnx;
