//! What ONNX Runtime reports, in our codes; its own code and message stay in the detail.

use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_sys::vendor::onnxruntime::OrtError;

/// Codes of `OrtErrorCode` that decide what a failed load was.
mod code {
    pub(super) const NO_SUCH_FILE: i32 = 3;
    pub(super) const NO_MODEL: i32 = 4;
    pub(super) const INVALID_PROTOBUF: i32 = 7;
    pub(super) const NOT_IMPLEMENTED: i32 = 9;
    pub(super) const INVALID_GRAPH: i32 = 10;
}

/// An error as a failure of the repeat.
#[cold]
pub(super) fn from_ort(error: OrtError) -> Failure {
    let failure = Failure::new(code_of(&error), error.to_string());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn code_of(error: &OrtError) -> FailureCode {
    match error {
        OrtError::Load(_) | OrtError::NoInterface { .. } => FailureCode::RuntimeUnavailable,
        OrtError::Status {
            call,
            code,
            message,
        } => from_status(call, *code, message),
        OrtError::NothingReturned { .. } | OrtError::NotRun => FailureCode::BackendError,
        OrtError::ZeroByte { .. } | OrtError::OutOfRange { .. } => FailureCode::OptionRefused,
        OrtError::UnknownName { .. }
        | OrtError::NotGiven { .. }
        | OrtError::GivenTwice { .. }
        | OrtError::WrongElement { .. }
        | OrtError::WrongShape { .. } => FailureCode::InputInvalid,
        OrtError::UnsupportedType { role: "input", .. } => FailureCode::InputInvalid,
        OrtError::UnsupportedType { .. } => FailureCode::Unsupported,
        OrtError::Tensor(_) => FailureCode::OutOfMemory,
    }
}

/// A call and its code tell most; what ran out and which operator is missing stand in the text only.
fn from_status(call: &str, status: i32, message: &str) -> FailureCode {
    if is_out_of_memory(message) {
        return FailureCode::OutOfMemory;
    }
    match (call, status) {
        (_, code::NOT_IMPLEMENTED) => FailureCode::UnsupportedOperator,
        ("CreateSession", _) if is_unknown_operator(message) => FailureCode::UnsupportedOperator,
        (
            "CreateSession",
            code::NO_SUCH_FILE | code::NO_MODEL | code::INVALID_PROTOBUF | code::INVALID_GRAPH,
        ) => FailureCode::ModelUnreadable,
        ("CreateSession", _) => FailureCode::LoadFailed,
        (call, _) if sets_an_option(call) => FailureCode::OptionRefused,
        _ => FailureCode::BackendError,
    }
}

/// Texts seen in 1.17 to 1.32: the C++ exception, and the arena's own.
fn is_out_of_memory(message: &str) -> bool {
    [
        "bad_alloc",
        "Failed to allocate memory",
        "out of memory",
        "Available memory of",
    ]
    .iter()
    .any(|text| message.contains(text))
}

fn is_unknown_operator(message: &str) -> bool {
    [
        "No Op registered for",
        "is not a registered function/op",
        "No opset import for domain",
    ]
    .iter()
    .any(|text| message.contains(text))
}

fn sets_an_option(call: &str) -> bool {
    call.starts_with("Set")
        || call.starts_with("AddSessionConfig")
        || call.starts_with("SessionOptions")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(call: &'static str, code: i32, message: &str) -> Failure {
        from_ort(OrtError::Status {
            call,
            code,
            message: message.into(),
        })
    }

    #[test]
    fn code_and_message_of_the_runtime_are_kept() {
        let failure = failed(
            "RunWithBinding",
            6,
            "Non-zero status code while running Conv node",
        );
        assert_eq!(failure.code, FailureCode::BackendError);
        assert!(failure.detail.contains("code 6") && failure.detail.contains("running Conv node"));
    }

    #[test]
    fn running_out_of_memory_is_recognised_by_its_texts() {
        for message in [
            "std::bad_alloc",
            "bfc_arena.cc:376 Failed to allocate memory for requested buffer of size 9",
        ] {
            assert_eq!(
                failed("RunWithBinding", 6, message).code,
                FailureCode::OutOfMemory
            );
        }
    }

    #[test]
    fn a_failed_load_says_whether_file_or_operator_is_to_blame() {
        let load = |code, message| failed("CreateSession", code, message).code;
        assert_eq!(
            load(7, "Protobuf parsing failed."),
            FailureCode::ModelUnreadable
        );
        assert_eq!(
            load(
                10,
                "This is an invalid model. Error: No Op registered for Frob with domain_version of 13"
            ),
            FailureCode::UnsupportedOperator
        );
        assert_eq!(
            load(9, "Could not find an implementation for Cos(7)"),
            FailureCode::UnsupportedOperator
        );
        assert_eq!(
            load(1, "Exception during initialization"),
            FailureCode::LoadFailed
        );
        assert_eq!(
            failed(
                "SessionOptionsAppendExecutionProvider",
                2,
                "Unknown provider"
            )
            .code,
            FailureCode::OptionRefused
        );
    }
}
