//! How an error is shown.

use serde_json::{Value, json};

use crate::exit::CommandError;
use crate::ui::print;

/// Shows the error: as text on stderr, and with `json` as an object on stdout.
pub fn show(error: &CommandError, json: bool) {
    print::note(text(error));
    if json {
        print::json(&value(error));
    }
}

fn text(error: &CommandError) -> String {
    let mut lines = vec![format!("error: {}", error.what)];
    let causes = error
        .causes
        .iter()
        .map(|cause| format!("  cause: {}", indented(cause)));
    lines.extend(causes);
    let hint = error
        .hint
        .iter()
        .map(|hint| format!("  hint: {}", indented(hint)));
    lines.extend(hint);
    lines.join("\n")
}

/// Later lines of a message stay under its first.
fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n         ")
}

fn value(error: &CommandError) -> Value {
    json!({
        "document": "edgedyno/error/1",
        "error": {
            "exit": error.exit.code(),
            "what": error.what,
            "causes": error.causes,
            "hint": error.hint,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_why_and_what_next() {
        let error = CommandError::usage("`x.onnx` is not an ONNX model")
            .cause("field 7 is cut short")
            .cause("the file ends after 12 bytes")
            .hint("download it again");
        assert_eq!(
            text(&error),
            "error: `x.onnx` is not an ONNX model\n  cause: field 7 is cut short\n  \
             cause: the file ends after 12 bytes\n  hint: download it again"
        );
        assert_eq!(value(&error)["error"]["exit"], 2);
    }

    #[test]
    fn the_document_of_an_error_fits_its_schema() {
        let error = CommandError::usage("no").cause("why");
        crate::golden::fits("error", &value(&error));
        crate::golden::fits("error", &value(&error.hint("next")));
    }
}
