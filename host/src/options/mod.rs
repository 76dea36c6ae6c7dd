//! Options of the command line by subject: what was written, parsed, and not yet checked against a board.

pub mod inputs;
pub mod lease;
pub mod limits;
pub mod parse;
pub mod placement;
pub mod rules;
pub mod runtime;
pub mod schedule;
pub mod shapes;
pub mod telemetry;
