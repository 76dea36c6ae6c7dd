//! Exit codes, and the error that a command ends with.

use std::fmt;
use std::process::ExitCode;

use crate::board::known::KnownBoardsError;
use crate::bundle::BundleError;
use crate::export::ExportError;
use crate::fields::UnknownField;
use crate::model::error::ModelError;
use crate::model::make::MakeError;
use crate::model::tensors::TensorError;
use crate::runtime::error::RuntimeError;
use crate::source::SourceError;
use crate::store::{ErrorClass, StoreError};

/// How the program ends; the constants are the only list of codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Exit(u8);

impl Exit {
    pub const GOOD: Self = Self(0);
    /// Cannot analyse, or an unexpected error.
    pub const UNEXPECTED: Self = Self(1);
    /// Bad argument, missing file, unknown name: what is known before an order is sent.
    pub const USAGE: Self = Self(2);
    /// No case has a measured trial, or the window could not be filled.
    pub const NOTHING_MEASURED: Self = Self(3);
    /// Board unreachable or agent failed.
    pub const BOARD: Self = Self(4);
    /// A gate tripped (`--fail-over`, `--require`).
    pub const GATE: Self = Self(5);
    /// Measured, but invalid (throttled, unequal conditions, undecided under a gate).
    pub const INVALID: Self = Self(6);
    /// Incompatible versions (agent, store, file).
    pub const INCOMPATIBLE: Self = Self(7);
    /// Measured, but some cases have only failure rows.
    pub const SOME_FAILED: Self = Self(8);
    pub const INTERRUPTED: Self = Self(130);

    /// When several codes hold, the first of these counts.
    const PRECEDENCE: [Self; 9] = [
        Self::INTERRUPTED,
        Self::INCOMPATIBLE,
        Self::BOARD,
        Self::USAGE,
        Self::UNEXPECTED,
        Self::NOTHING_MEASURED,
        Self::GATE,
        Self::INVALID,
        Self::SOME_FAILED,
    ];

    /// The code that counts when all of these hold.
    pub fn of_all(codes: impl IntoIterator<Item = Self>) -> Self {
        let rank = |code: &Self| {
            let position = Self::PRECEDENCE.iter().position(|c| c == code);
            position.unwrap_or(Self::PRECEDENCE.len())
        };
        codes.into_iter().min_by_key(rank).unwrap_or(Self::GOOD)
    }

    pub const fn code(self) -> u8 {
        self.0
    }
}

/// What each code means to a user, for the documentation.
pub const MEANINGS: [(Exit, &str); 10] = [
    (Exit::GOOD, "good"),
    (Exit::UNEXPECTED, "cannot analyse, or an unexpected error"),
    (Exit::USAGE, "bad argument, missing file, unknown name"),
    (
        Exit::NOTHING_MEASURED,
        "no case has a measured trial, or the window could not be filled",
    ),
    (Exit::BOARD, "board unreachable or agent failed"),
    (Exit::GATE, "a gate tripped"),
    (Exit::INVALID, "measured, but invalid, unless `--force`"),
    (
        Exit::INCOMPATIBLE,
        "incompatible versions (agent, store, file)",
    ),
    (
        Exit::SOME_FAILED,
        "measured, but some cases have only failure rows",
    ),
    (Exit::INTERRUPTED, "interrupted"),
];

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// What stopped a command: what failed, why, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandError {
    pub exit: Exit,
    pub what: String,
    /// Outermost first.
    pub causes: Vec<String>,
    pub hint: Option<String>,
}

/// What a command returns to `main`.
pub type CommandResult = Result<Exit, CommandError>;

impl CommandError {
    pub fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self {
            exit,
            what: what.into(),
            causes: Vec::new(),
            hint: None,
        }
    }

    /// An error that the user can mend on the command line.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::USAGE, what)
    }

    /// An error and everything below it as causes.
    fn of_error(exit: Exit, error: &dyn std::error::Error) -> Self {
        let below = std::iter::successors(error.source(), |error| error.source());
        Self {
            exit,
            what: error.to_string(),
            causes: below.map(ToString::to_string).collect(),
            hint: None,
        }
    }

    /// Adds an error and everything below it as causes.
    #[must_use]
    pub fn because(mut self, error: impl Into<anyhow::Error>) -> Self {
        self.causes.extend(chain(&error.into()));
        self
    }

    #[must_use]
    pub fn cause(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the hint when there is one.
    #[must_use]
    pub fn hint_if(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }
}

/// Messages of an error and its sources; a message that its parent already contains is left out.
fn chain(error: &anyhow::Error) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if !out.last().is_some_and(|parent| parent.contains(&text)) {
            out.push(text);
        }
    }
    out
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for CommandError {}

/// Anything that nobody turned into a better error is unexpected.
impl From<anyhow::Error> for CommandError {
    fn from(error: anyhow::Error) -> Self {
        let mut messages = chain(&error).into_iter();
        Self {
            exit: Exit::UNEXPECTED,
            what: messages.next().unwrap_or_default(),
            causes: messages.collect(),
            hint: None,
        }
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        Self::of_error(exit_of(error.class()), &error).hint_if(error.hint())
    }
}

impl From<SourceError> for CommandError {
    fn from(error: SourceError) -> Self {
        Self::of_error(exit_of(error.class()), &error).hint_if(error.hint())
    }
}

impl From<ExportError> for CommandError {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Source(source) => source.into(),
            other => Self::of_error(Exit::USAGE, &other).hint_if(other.hint()),
        }
    }
}

impl From<BundleError> for CommandError {
    fn from(error: BundleError) -> Self {
        let exit = match &error {
            BundleError::Newer { .. } => Exit::INCOMPATIBLE,
            _ => Exit::USAGE,
        };
        match error {
            BundleError::Store(error) => error.into(),
            BundleError::Source(error) => error.into(),
            other => Self::of_error(exit, &other).hint_if(other.hint()),
        }
    }
}

impl From<UnknownField> for CommandError {
    fn from(error: UnknownField) -> Self {
        Self::usage(error.to_string()).hint(error.hint())
    }
}

fn exit_of(class: ErrorClass) -> Exit {
    match class {
        ErrorClass::Argument => Exit::USAGE,
        ErrorClass::Incompatible => Exit::INCOMPATIBLE,
        ErrorClass::Unexpected => Exit::UNEXPECTED,
    }
}

impl From<ModelError> for CommandError {
    fn from(error: ModelError) -> Self {
        let hint = error.hint();
        Self::of_error(Exit::USAGE, &error).hint(hint)
    }
}

impl From<TensorError> for CommandError {
    fn from(error: TensorError) -> Self {
        Self::of_error(Exit::USAGE, &error).hint(error.hint())
    }
}

impl From<MakeError> for CommandError {
    fn from(error: MakeError) -> Self {
        let exit = match &error {
            MakeError::Write { .. } => Exit::UNEXPECTED,
            _ => Exit::USAGE,
        };
        Self::of_error(exit, &error).hint(error.hint())
    }
}

impl From<KnownBoardsError> for CommandError {
    fn from(error: KnownBoardsError) -> Self {
        let hint = match &error {
            KnownBoardsError::Settings(_) => "EDGEDYNO_CONFIG names another folder",
            KnownBoardsError::Content { .. } => "mend the file, or put it aside and pair again",
            KnownBoardsError::Name(_) | KnownBoardsError::Local => "choose another name",
        };
        Self::of_error(Exit::USAGE, &error).hint(hint)
    }
}

impl From<RuntimeError> for CommandError {
    fn from(error: RuntimeError) -> Self {
        let exit = match &error {
            // The network or the disk, not what was asked for.
            RuntimeError::Pip { .. } | RuntimeError::Cache { .. } => Exit::UNEXPECTED,
            _ => Exit::USAGE,
        };
        Self::of_error(exit, &error).hint(error.hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_precedence_counts() {
        assert_eq!(Exit::of_all([]), Exit::GOOD);
        assert_eq!(
            Exit::of_all([Exit::GOOD, Exit::SOME_FAILED]),
            Exit::SOME_FAILED
        );
        let rising = [
            Exit::SOME_FAILED,
            Exit::INVALID,
            Exit::GATE,
            Exit::NOTHING_MEASURED,
            Exit::UNEXPECTED,
            Exit::USAGE,
            Exit::BOARD,
            Exit::INCOMPATIBLE,
            Exit::INTERRUPTED,
        ];
        for pair in rising.windows(2) {
            assert_eq!(Exit::of_all(pair.iter().copied()), pair[1]);
        }
    }

    #[test]
    fn every_code_has_a_place_in_the_precedence() {
        let codes: Vec<u8> = (1..=8).chain([130]).collect();
        let mut listed: Vec<u8> = Exit::PRECEDENCE.iter().map(|e| e.code()).collect();
        listed.sort_unstable();
        assert_eq!(listed, codes);
    }

    #[test]
    fn a_model_that_cannot_be_read_keeps_the_reason_of_the_system() {
        let error = CommandError::from(ModelError::Read {
            path: "m.onnx".into(),
            source: std::io::ErrorKind::PermissionDenied.into(),
        });
        assert_eq!(error.exit, Exit::USAGE);
        assert_eq!(error.what, "cannot read model m.onnx");
        assert_eq!(error.causes, ["permission denied"]);
        assert!(error.hint.is_some());
    }

    #[test]
    fn an_unexpected_error_keeps_its_causes_once() {
        let inner = anyhow::anyhow!("permission denied");
        let error = CommandError::from(inner.context("cannot open x").context("cannot open x"));
        assert_eq!(error.what, "cannot open x");
        assert_eq!(error.causes, ["permission denied"]);
    }
}
