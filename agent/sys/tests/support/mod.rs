//! What the tests with a real ONNX Runtime share: finding it and its models.

use std::path::{Path, PathBuf};

use edgedyno_sys::vendor::onnxruntime::OnnxRuntime;

/// Path of a `libonnxruntime.so`; the models of its Python package are expected beside it.
const LIBRARY: &str = "EDGEDYNO_TEST_ORT";
/// Set to 1, a test that cannot run fails instead of being skipped.
const STRICT: &str = "EDGEDYNO_TEST_STRICT";

/// The runtime under test; none when there is no library here, which is said.
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
pub(crate) fn runtime() -> Option<OnnxRuntime> {
    let Some(path) = std::env::var_os(LIBRARY) else {
        assert_ne!(
            std::env::var(STRICT).as_deref(),
            Ok("1"),
            "{LIBRARY} is not set"
        );
        println!("skipped: {LIBRARY} is not set");
        return None;
    };
    Some(OnnxRuntime::open(Path::new(&path)).expect("the library under test opens"))
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
