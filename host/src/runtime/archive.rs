//! Taking the library for this machine out of a tar archive, as projects publish them.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use tar::{Archive, Entry};

use super::error::RuntimeError;
use super::install::{Progress, Step};
use super::library::{SIZE_LIMIT, check_architecture, is_library, is_provider};

/// What was taken, by file name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unpacked {
    pub(super) library: String,
    pub(super) providers: Vec<String>,
}

/// Whether a file of this lower-case name is one this room tries to read.
pub(super) fn is_archive(name: &str) -> bool {
    name.ends_with(".tgz") || name.ends_with(".tar") || name.contains(".tar.")
}

/// Writes the library and its providers for `architecture` into the empty folder `into`.
///
/// One archive may hold libraries for several machines under the same names; links are left out,
/// since what they point to is in the archive too.
pub(super) fn unpack(
    path: &Path,
    architecture: &str,
    into: &Path,
    progress: Progress<'_>,
) -> Result<Unpacked, RuntimeError> {
    let unsound = |why: io::Error| RuntimeError::Archive {
        path: path.to_owned(),
        why: why.to_string(),
    };
    let mut archive = Archive::new(open(path)?);
    let mut libraries = Vec::new();
    let mut providers = Vec::new();
    let mut other_machine = None;
    for entry in archive.entries().map_err(unsound)? {
        let mut entry = entry.map_err(unsound)?;
        let Some(name) = wanted_name(&entry) else {
            continue;
        };
        progress(Step::Copying(name.clone()));
        let target = into.join(&name);
        let staged = into.join("unpacking");
        copy(&mut entry, &staged, unsound)?;
        match check_architecture(&staged, architecture) {
            Ok(()) => std::fs::rename(&staged, &target).map_err(RuntimeError::cache(&target))?,
            Err(RuntimeError::Architecture { found, needed, .. }) => {
                other_machine = Some((found, needed));
                continue;
            }
            // A text under the name of a library, such as a linker script.
            Err(RuntimeError::NotALibrary { .. }) => continue,
            Err(other) => return Err(other),
        }
        match is_library(&name) {
            true => libraries.push(name),
            false => providers.push(name),
        }
    }
    // Left by the last entry that was for another machine.
    let _ = std::fs::remove_file(into.join("unpacking"));
    // The longest name has the whole version in it.
    libraries.sort_by_key(|name| name.len());
    providers.sort();
    match (libraries.pop(), other_machine) {
        (Some(library), _) => Ok(Unpacked { library, providers }),
        (None, Some((found, needed))) => Err(RuntimeError::Architecture {
            path: path.to_owned(),
            found,
            needed,
        }),
        (None, None) => Err(unsound(io::Error::other(
            "there is no libonnxruntime.so in it",
        ))),
    }
}

fn open(path: &Path) -> Result<Box<dyn Read>, RuntimeError> {
    let file = BufReader::new(File::open(path).map_err(RuntimeError::read(path))?);
    let name = path.to_string_lossy().to_lowercase();
    match name.as_str() {
        name if name.ends_with(".tar") => Ok(Box::new(file)),
        name if name.ends_with(".tgz") || name.ends_with(".tar.gz") => {
            Ok(Box::new(MultiGzDecoder::new(file)))
        }
        _ => Err(RuntimeError::Unsupported {
            path: path.to_owned(),
            kind: "a tar archive that is not packed by gzip",
        }),
    }
}

/// The bare file name of a plain file that is a library or a provider: nothing leads out of a folder.
fn wanted_name(entry: &Entry<'_, impl Read>) -> Option<String> {
    if !entry.header().entry_type().is_file() {
        return None;
    }
    let path = entry.path().ok()?;
    let name = path.file_name()?.to_str()?;
    (is_library(name) || is_provider(name)).then(|| name.to_owned())
}

fn copy(
    entry: &mut Entry<'_, impl Read>,
    to: &Path,
    unsound: impl Fn(io::Error) -> RuntimeError,
) -> Result<(), RuntimeError> {
    let size = entry.size();
    let mut target = File::create(to).map_err(RuntimeError::cache(to))?;
    match io::copy(&mut entry.take(SIZE_LIMIT), &mut target) {
        Ok(bytes) if bytes == size => target.sync_all().map_err(RuntimeError::cache(to)),
        Ok(bytes) => Err(unsound(io::Error::other(format!(
            "a file has {bytes} bytes instead of {size}"
        )))),
        // A number of the system means the disk; a broken stream has none.
        Err(why) if why.raw_os_error().is_some() => Err(RuntimeError::cache(to)(why)),
        Err(why) => Err(unsound(why)),
    }
}
