//! What the tests with a real ONNX Runtime share: finding it and its models.

mod library;

use std::path::PathBuf;

use edgedyno_sys::vendor::onnxruntime::OnnxRuntime;

/// The runtime under test; none when there is no library here, which is said.
pub(crate) fn runtime() -> Option<OnnxRuntime> {
    let path = library::path()?;
    Some(OnnxRuntime::open(&path).expect("the library under test opens"))
}

/// A model of the Python package that the library is part of.
pub(crate) fn packaged_model(runtime: &OnnxRuntime, name: &str) -> PathBuf {
    let package = runtime
        .library()
        .path()
        .ancestors()
        .nth(2)
        .expect("the library is in a folder of a package");
    package.join("datasets").join(name)
}
