//! Shapes and batch size.

use std::num::NonZeroU32;

use clap::Args;
use edgedyno_shared::case::NamedShape;

use super::parse;
use crate::exit::CommandError;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Shapes")]
pub struct ShapeOptions {
    /// Shape of an input, such as images=1x3x224x224; may be repeated
    #[arg(long = "shape", value_name = "NAME=DIMS", value_parser = parse::shape)]
    pub shapes: Vec<NamedShape>,
    /// Replaces the model's batch dimension
    #[arg(long, value_name = "N")]
    pub batch: Option<NonZeroU32>,
}

impl ShapeOptions {
    /// Shapes sorted by input.
    pub fn sorted(&self) -> Result<Vec<NamedShape>, CommandError> {
        let mut shapes = self.shapes.clone();
        shapes.sort();
        match shapes
            .windows(2)
            .find(|pair| pair[0].input == pair[1].input)
        {
            Some(pair) => Err(CommandError::usage(format!(
                "input `{}` is given two shapes",
                pair[0].input
            ))),
            None => Ok(shapes),
        }
    }
}
