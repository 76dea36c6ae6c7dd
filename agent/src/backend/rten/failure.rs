//! What rten reports, in our codes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use edgedyno_shared::wire::failure::{Failure, FailureCode};
use rten::{LoadError, LoadErrorKind, RunError, RunErrorKind};

const OTHER_BACKEND: &str = "try --backend onnxruntime";

/// A model that was not loaded; operator and node are named by rten.
pub(super) fn from_load(error: &LoadError) -> Failure {
    let detail = format!("rten: {error}");
    match error.kind() {
        LoadErrorKind::OperatorInvalid => {
            Failure::new(FailureCode::UnsupportedOperator, detail).hint(OTHER_BACKEND)
        }
        LoadErrorKind::IoError
        | LoadErrorKind::ParseError
        | LoadErrorKind::UnknownFileType
        | LoadErrorKind::FormatNotEnabled
        | LoadErrorKind::ExternalDataError => Failure::new(FailureCode::ModelUnreadable, detail),
        _ => Failure::new(FailureCode::LoadFailed, detail).hint(OTHER_BACKEND),
    }
}

/// A run that failed. An operator that lacks a variant says so only in its text.
#[cold]
pub(super) fn from_run(error: &RunError) -> Failure {
    let detail = format!("rten: {error}");
    match error.kind() {
        RunErrorKind::InvalidInput => Failure::new(FailureCode::InputInvalid, detail),
        RunErrorKind::OperatorError if detail.contains("unsupported") => {
            Failure::new(FailureCode::UnsupportedOperator, detail).hint(OTHER_BACKEND)
        }
        _ => Failure::new(FailureCode::BackendError, detail),
    }
}

/// Turns a panic inside rten into an error; costs nothing when there is none.
#[inline]
pub(super) fn guarded<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(from_panic(&*panic)))
}

#[cold]
fn from_panic(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "no message".into());
    Failure::new(FailureCode::BackendError, format!("rten panicked: {text}")).hint(OTHER_BACKEND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_text() {
        let failure = guarded::<()>(|| panic!("index {} out of range", 7)).unwrap_err();
        assert_eq!(failure.detail, "rten panicked: index 7 out of range");
    }
}
