//! The facts of one library, as the loader judges them and the manifest keeps them.

use std::io;
use std::path::Path;

use super::exports::ExportTable;
use super::image::{DynamicEntry, Image};
use super::platform::{Architecture, GlibcVersion};

const SHARED_OBJECT: u16 = 3;
const NOTE_SEGMENT: u32 = 4;
const GNU_BUILD_ID: u32 = 3;
const MAX_NOTE_BYTES: u64 = 64 * 1024;
const MAX_VERSIONS: u32 = 1024;
const WEAK: u16 = 2;

const NEEDED: u64 = 1;
const STRING_TABLE: u64 = 5;
const SONAME: u64 = 14;
const FLAGS_1: u64 = 0x6fff_fffb;
const VERSION_NEEDS: u64 = 0x6fff_fffe;
const VERSION_NEEDS_COUNT: u64 = 0x6fff_ffff;
/// Position-independent executables are of the same type as libraries, but dlopen refuses them.
const IS_EXECUTABLE: u64 = 0x0800_0000;

/// What a library file says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElfFacts {
    /// The processor it is built for.
    pub architecture: Architecture,
    /// Whether it is a library rather than a program or an object file.
    pub shared_object: bool,
    /// Its own name for the dynamic linker.
    pub soname: Option<String>,
    /// The libraries it needs, by name.
    pub needed: Vec<String>,
    /// The newest C library interface it cannot do without.
    pub glibc_needed: Option<GlibcVersion>,
    /// The linker's identification of this build, in hexadecimal.
    pub build_id: Option<String>,
}

impl ElfFacts {
    /// Reads the facts of a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is no ELF file, or ends before its parts do.
    pub fn read(path: &Path) -> Result<Self, ElfError> {
        let image = Image::open(path)?;
        let dynamic = image.dynamic()?;
        let is_executable =
            value_of(&dynamic, FLAGS_1).is_some_and(|flags| flags & IS_EXECUTABLE != 0);
        Ok(Self {
            architecture: image.architecture,
            shared_object: image.kind == SHARED_OBJECT && !is_executable,
            soname: names(&image, &dynamic, SONAME)?.pop(),
            needed: names(&image, &dynamic, NEEDED)?,
            glibc_needed: glibc_needed(&image, &dynamic)?,
            build_id: build_id(&image)?,
        })
    }

    /// Whether the library at `path` exports a symbol; `None` when it has no table that tells.
    ///
    /// # Errors
    ///
    /// As [`ElfFacts::read`].
    pub fn exports(path: &Path, symbol: &str) -> Result<Option<bool>, ElfError> {
        let image = Image::open(path)?;
        let dynamic = image.dynamic()?;
        ExportTable::find(&image, &dynamic)?
            .map(|table| table.contains(symbol))
            .transpose()
    }
}

/// Why the facts of a file cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The file is missing, or reading it failed.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// Something else than an ELF file.
    #[error("{0}")]
    NotElf(&'static str),
    /// The file ends too early, as after a broken copy.
    #[error("the file is cut short: it has {has} bytes and needs at least {needs}")]
    CutShort {
        /// The length that would reach what the file refers to.
        needs: u64,
        /// The length it has.
        has: u64,
    },
    /// The file contradicts itself.
    #[error("the file is damaged: it has {0}")]
    Malformed(&'static str),
}

pub(super) fn value_of(dynamic: &[DynamicEntry], tag: u64) -> Option<u64> {
    dynamic
        .iter()
        .find(|entry| entry.tag == tag)
        .map(|entry| entry.value)
}

pub(super) fn strings_offset(image: &Image, dynamic: &[DynamicEntry]) -> Result<u64, ElfError> {
    let address =
        value_of(dynamic, STRING_TABLE).ok_or(ElfError::Malformed("no table of names"))?;
    image.offset_of(address)
}

fn names(image: &Image, dynamic: &[DynamicEntry], tag: u64) -> Result<Vec<String>, ElfError> {
    let mut names = Vec::new();
    for entry in dynamic.iter().filter(|entry| entry.tag == tag) {
        names.push(image.text(strings_offset(image, dynamic)?.saturating_add(entry.value))?);
    }
    Ok(names)
}

/// Walks the version needs: a list of libraries, each with a list of versions wanted of it.
fn glibc_needed(image: &Image, dynamic: &[DynamicEntry]) -> Result<Option<GlibcVersion>, ElfError> {
    let Some(address) = value_of(dynamic, VERSION_NEEDS) else {
        return Ok(None);
    };
    let strings = strings_offset(image, dynamic)?;
    let libraries = value_of(dynamic, VERSION_NEEDS_COUNT)
        .unwrap_or(0)
        .min(u64::from(MAX_VERSIONS));
    let mut newest = None;
    let mut library = image.offset_of(address)?;
    for _ in 0..libraries {
        let mut version = library + u64::from(image.u32(library + 8)?);
        for _ in 0..image.u16(library + 2)? {
            let weak = image.u16(version + 4)? & WEAK != 0;
            let name = image.text(strings + u64::from(image.u32(version + 8)?))?;
            let wanted = name
                .strip_prefix("GLIBC_")
                .and_then(GlibcVersion::parse)
                .filter(|_| !weak);
            newest = newest.max(wanted);
            version += u64::from(image.u32(version + 12)?);
        }
        library += u64::from(image.u32(library + 12)?);
    }
    Ok(newest)
}

/// Finds the build id among the notes: (name length, content length, type, name, content), padded to 4.
fn build_id(image: &Image) -> Result<Option<String>, ElfError> {
    for segment in image
        .segments
        .iter()
        .filter(|s| s.kind == NOTE_SEGMENT && s.bytes <= MAX_NOTE_BYTES)
    {
        let end = segment.offset + segment.bytes;
        let mut at = segment.offset;
        while at + 12 <= end {
            let name_bytes = u64::from(image.u32(at)?);
            let content_bytes = u64::from(image.u32(at + 4)?);
            let content = at + 12 + name_bytes.next_multiple_of(4);
            if image.u32(at + 8)? == GNU_BUILD_ID
                && image.bytes(at + 12, 4)? == b"GNU\0"
                && content_bytes <= 64
            {
                return Ok(Some(hexadecimal(
                    &image.bytes(content, content_bytes as usize)?,
                )));
            }
            at = content + content_bytes.next_multiple_of(4);
        }
    }
    Ok(None)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
