//! `--save-outputs`: tensors of the last trial as files.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use edgedyno_shared::artifact::file_stem;
use edgedyno_shared::ids::RunId;

use crate::exit::CommandError;
use crate::store::Store;
use crate::ui::print;

/// Makes the folder and sees that it can be written, before anything is measured.
pub(super) fn check_folder(folder: &Path) -> Result<(), CommandError> {
    let probe = folder.join(".edgedyno-probe");
    let tried = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&probe, b""))
        .and_then(|()| fs::remove_file(&probe));
    tried.map_err(|why| unwritable(folder, why))
}

/// Writes the outputs of the last complete repeat of each case.
pub(super) fn save(store: &Store, run: &RunId, folder: &Path) -> Result<(), CommandError> {
    let (mut saved, mut written) = (0, HashSet::new());
    for case in store.cases(run)? {
        let repeats = store.repeats(run, case.key)?;
        let Some(last) = repeats.iter().rev().find(|repeat| repeat.counts) else {
            continue;
        };
        for artifact in last.artifacts.iter().filter(|a| a.kind == "output_tensor") {
            let Some(bytes) = store.content(artifact)? else {
                continue;
            };
            // The name comes from the model: it must not lead out of the folder, nor onto another.
            let mut name = file_stem(&artifact.name);
            if !written.insert(name.clone()) {
                name = format!("{}-{name}", artifact.number);
            }
            let path = folder.join(name);
            fs::write(&path, bytes).map_err(|why| unwritable(&path, why))?;
            saved += 1;
        }
    }
    print::note(format_args!(
        "saved {saved} outputs in {}",
        folder.display()
    ));
    Ok(())
}

fn unwritable(path: &Path, why: std::io::Error) -> CommandError {
    CommandError::usage(format!("`{}` cannot be written", path.display()))
        .because(why)
        .hint("choose another folder with --save-outputs DIR")
}
