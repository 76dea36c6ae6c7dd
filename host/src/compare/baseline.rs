//! Baselines: arms in a small file that is checked in beside the code it watches over.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::arm::Arm;
use crate::exit::{CommandError, Exit};
use crate::whole_file;

/// Names the form of the file; a later form has another number.
pub const DOCUMENT: &str = "edgedyno/baseline/1";

/// The file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    pub document: String,
    pub cases: Vec<Arm>,
}

impl Baseline {
    pub fn of(cases: Vec<Arm>) -> Self {
        Self {
            document: DOCUMENT.into(),
            cases,
        }
    }

    /// Writes the file, whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), CommandError> {
        let text = serde_json::to_string_pretty(self).map_err(anyhow::Error::from)?;
        let written = whole_file::write(path, (text + "\n").as_bytes());
        written.map_err(|why| {
            CommandError::usage(format!("baseline `{}` cannot be written", path.display()))
                .because(why)
                .hint("its folder must exist and be writable")
        })
    }

    /// The baseline in a file; none when the file is something else.
    pub fn load(path: &Path) -> Result<Option<Self>, CommandError> {
        let Ok(text) = std::fs::read_to_string(path) else {
            return Ok(None);
        };
        #[derive(Deserialize)]
        struct Head {
            document: String,
        }
        let Ok(Head { document }) = serde_json::from_str(&text) else {
            return Ok(None);
        };
        if document == DOCUMENT {
            let read = serde_json::from_str(&text);
            return read.map(Some).map_err(|why| {
                CommandError::usage(format!("baseline `{}` is damaged", path.display()))
                    .because(why)
                    .hint("make it again with `edgedyno compare RUN --save-baseline FILE`")
            });
        }
        if document.starts_with("edgedyno/baseline/") {
            let what = format!(
                "`{}` is `{document}`, and this edgedyno reads `{DOCUMENT}`",
                path.display()
            );
            return Err(CommandError::new(Exit::INCOMPATIBLE, what)
                .hint("read it with the version that wrote it, or make it again"));
        }
        Ok(None)
    }
}
