//! Taking the library out of a wheel, which is a zip file.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use zip::ZipArchive;
use zip::result::ZipError;

use super::error::RuntimeError;
use super::library::{SIZE_LIMIT, is_library, is_provider, version_in_name};
use super::spec::is_version;

/// Where the wheel keeps its libraries.
const FOLDER: &str = "onnxruntime/capi/";
const METADATA_LIMIT: u64 = 1024 * 1024;

/// A wheel whose contents are as expected, not yet unpacked.
pub(super) struct Wheel {
    archive: ZipArchive<BufReader<File>>,
    pub(super) package: String,
    pub(super) version: String,
    /// File name of the library.
    pub(super) library: String,
    /// File names of its providers.
    pub(super) providers: Vec<String>,
}

impl Wheel {
    pub(super) fn open(path: &Path) -> Result<Self, RuntimeError> {
        let wheel = |why: String| RuntimeError::Wheel {
            path: path.to_owned(),
            why,
        };
        let file = File::open(path).map_err(RuntimeError::read(path))?;
        let mut archive =
            ZipArchive::new(BufReader::new(file)).map_err(|e| wheel(e.to_string()))?;
        let names = archive.file_names().map(|name| name.map(Cow::into_owned));
        let names = names
            .collect::<Result<Vec<String>, _>>()
            .map_err(|e| wheel(e.to_string()))?;
        let mut libraries: Vec<&str> = names
            .iter()
            .filter_map(|name| name.strip_prefix(FOLDER))
            .filter(|name| !name.contains('/'))
            .collect();
        libraries.sort_unstable();
        // `libonnxruntime.so` may stand beside the one with the version, as a copy.
        let library = libraries
            .iter()
            .rfind(|name| is_library(name))
            .ok_or_else(|| wheel(format!("there is no {FOLDER}libonnxruntime.so in it")))?;
        let (package, version) = match names.iter().find(|name| is_metadata(name)) {
            Some(name) => read_metadata(&mut archive, name).map_err(|e| wheel(e.to_string()))?,
            None => (
                String::new(),
                version_in_name(library).unwrap_or_default().to_owned(),
            ),
        };
        if !is_version(&version) || !(package.is_empty() || is_version(&package)) {
            return Err(wheel("it does not tell its version".to_owned()));
        }
        Ok(Self {
            library: (*library).to_owned(),
            providers: libraries
                .into_iter()
                .filter(|name| is_provider(name))
                .map(str::to_owned)
                .collect(),
            archive,
            package,
            version,
        })
    }

    /// Writes one of its libraries to `to`.
    pub(super) fn unpack(
        &mut self,
        wheel: &Path,
        file: &str,
        to: &Path,
    ) -> Result<(), RuntimeError> {
        let damaged = |why: String| RuntimeError::Wheel {
            path: wheel.to_owned(),
            why,
        };
        let member = self
            .archive
            .by_name(&format!("{FOLDER}{file}"))
            .map_err(|e| damaged(e.to_string()))?;
        let size = member.size();
        let mut target = File::create(to).map_err(RuntimeError::cache(to))?;
        let copied = io::copy(&mut member.take(SIZE_LIMIT), &mut target);
        match copied {
            Ok(bytes) if bytes == size => target.sync_all().map_err(RuntimeError::cache(to)),
            Ok(bytes) => Err(damaged(format!(
                "{file} has {bytes} bytes instead of {size}"
            ))),
            Err(e) if is_of_disk(&e) => Err(RuntimeError::cache(to)(e)),
            Err(e) => Err(damaged(format!("{file}: {e}"))),
        }
    }
}

/// A bad checksum and a broken stream are errors of the zip reader, without a number of the system.
fn is_of_disk(error: &io::Error) -> bool {
    error.raw_os_error().is_some()
}

fn is_metadata(name: &str) -> bool {
    name.split_once('/')
        .is_some_and(|(folder, file)| folder.ends_with(".dist-info") && file == "METADATA")
}

/// Name, spelled with hyphens and small letters, and version, from the head of the core metadata.
fn read_metadata(
    archive: &mut ZipArchive<BufReader<File>>,
    name: &str,
) -> Result<(String, String), ZipError> {
    let mut bytes = Vec::new();
    archive
        .by_name(name)?
        .take(METADATA_LIMIT)
        .read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let field = |key: &str| {
        let head = text.lines().take_while(|line| !line.is_empty());
        head.filter_map(|line| line.split_once(": "))
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value.trim())
    };
    let package = field("Name")
        .unwrap_or_default()
        .to_lowercase()
        .replace(['_', '.'], "-");
    Ok((package, field("Version").unwrap_or_default().to_owned()))
}
