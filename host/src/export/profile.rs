//! Profiles: `profile.json` for one case, `profiles/<case>.json` and `index.json` for more.

use std::io::Write;

use serde::Serialize;

use crate::source::{INDEX, Profile, Source};
use crate::source::{Index, IndexEntry, PROFILE_FILE, PROFILE_INDEX_DOCUMENT};
use crate::store::rows::CaseEntry;

use super::output::while_writing;
use super::{ExportError, Exporter, Output};

pub(super) struct Profiles;

impl Exporter for Profiles {
    fn name(&self) -> &'static str {
        "profile"
    }

    fn about(&self) -> &'static str {
        "one self-contained file a case, which every reading command takes in place of a run"
    }

    fn makes_folder(&self) -> bool {
        true
    }

    fn write(
        &self,
        source: &Source,
        cases: &[&CaseEntry],
        output: &mut Output,
    ) -> Result<(), ExportError> {
        if let [case] = cases {
            return write_profile(source, case, PROFILE_FILE, output);
        }
        let mut profiles = Vec::new();
        for case in cases {
            let file = format!("profiles/{}.json", &case.key.to_string()[..16]);
            write_profile(source, case, &file, output)?;
            let case = case.key.to_string();
            profiles.push(IndexEntry { case, file });
        }
        let document = PROFILE_INDEX_DOCUMENT.into();
        let index = Index { document, profiles };
        output.file(INDEX, |to| write_json(to, &index, INDEX))
    }
}

fn write_profile(
    source: &Source,
    case: &CaseEntry,
    file: &str,
    output: &mut Output,
) -> Result<(), ExportError> {
    let profile = Profile::of(source, case)?;
    output.file(file, |to| write_json(to, &profile, file))
}

/// Writes one JSON document with a line break at its end.
pub(super) fn write_json(
    to: &mut dyn Write,
    document: &impl Serialize,
    name: &str,
) -> Result<(), ExportError> {
    let failed = while_writing(name);
    serde_json::to_writer(&mut *to, document).map_err(|e| failed(e.into()))?;
    writeln!(to).map_err(failed)
}
