//! Bounds-checked access to the parts of an ELF file by offset and by address.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::facts::ElfError;
use super::platform::Architecture;

const HEADER_BYTES: usize = 64;
const MAGIC: &[u8] = b"\x7fELF";
const MAX_TEXT: usize = 4096;
const MAX_DYNAMIC_ENTRIES: u64 = 4096;

const LOADED: u32 = 1;
const DYNAMIC: u32 = 2;

/// An open ELF file with its program headers.
pub(super) struct Image {
    file: File,
    length: u64,
    pub(super) architecture: Architecture,
    /// 3 is a shared object or a position-independent executable.
    pub(super) kind: u16,
    pub(super) segments: Vec<Segment>,
}

pub(super) struct Segment {
    pub(super) kind: u32,
    pub(super) offset: u64,
    address: u64,
    pub(super) bytes: u64,
}

/// One entry of the dynamic section: a tag and its value or address.
#[derive(Clone, Copy)]
pub(super) struct DynamicEntry {
    pub(super) tag: u64,
    pub(super) value: u64,
}

impl Image {
    pub(super) fn open(path: &Path) -> Result<Self, ElfError> {
        let file = File::open(path).map_err(ElfError::Unreadable)?;
        let metadata = file.metadata().map_err(ElfError::Unreadable)?;
        if !metadata.is_file() {
            return Err(ElfError::NotElf("not a regular file"));
        }
        let mut start = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(&file, HEADER_BYTES as u64), &mut start)
            .map_err(ElfError::Unreadable)?;
        let architecture = identify(&start, metadata.len())?;
        let mut image = Self {
            file,
            length: metadata.len(),
            architecture,
            kind: 0,
            segments: Vec::new(),
        };
        image.kind = image.u16(16)?;
        image.segments = image.read_segments()?;
        Ok(image)
    }

    /// Offset in the file of what will be at this address.
    pub(super) fn offset_of(&self, address: u64) -> Result<u64, ElfError> {
        let holds = |s: &&Segment| {
            s.kind == LOADED && address >= s.address && address - s.address < s.bytes
        };
        let segment = self
            .segments
            .iter()
            .find(holds)
            .ok_or(ElfError::Malformed("an address outside all segments"))?;
        Ok(address - segment.address + segment.offset)
    }

    /// The dynamic section, empty for a static program.
    pub(super) fn dynamic(&self) -> Result<Vec<DynamicEntry>, ElfError> {
        let Some(segment) = self.segments.iter().find(|s| s.kind == DYNAMIC) else {
            return Ok(Vec::new());
        };
        let word = self.word_bytes();
        let count = (segment.bytes / (2 * word)).min(MAX_DYNAMIC_ENTRIES);
        let mut entries = Vec::new();
        for index in 0..count {
            let offset = segment.offset + index * 2 * word;
            let tag = self.word(offset)?;
            if tag == 0 {
                break;
            }
            entries.push(DynamicEntry {
                tag,
                value: self.word(offset + word)?,
            });
        }
        Ok(entries)
    }

    pub(super) fn word_bytes(&self) -> u64 {
        u64::from(self.architecture.bits / 8)
    }

    pub(super) fn u16(&self, offset: u64) -> Result<u16, ElfError> {
        let bytes = self.array(offset)?;
        Ok(if self.architecture.little_endian {
            u16::from_le_bytes(bytes)
        } else {
            u16::from_be_bytes(bytes)
        })
    }

    pub(super) fn u32(&self, offset: u64) -> Result<u32, ElfError> {
        let bytes = self.array(offset)?;
        Ok(if self.architecture.little_endian {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        })
    }

    /// A number as wide as an address.
    pub(super) fn word(&self, offset: u64) -> Result<u64, ElfError> {
        if self.architecture.bits == 32 {
            return self.u32(offset).map(u64::from);
        }
        let bytes = self.array(offset)?;
        Ok(if self.architecture.little_endian {
            u64::from_le_bytes(bytes)
        } else {
            u64::from_be_bytes(bytes)
        })
    }

    /// A text that ends with a zero byte.
    pub(super) fn text(&self, offset: u64) -> Result<String, ElfError> {
        let rest = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(MAX_TEXT);
        let bytes = self.bytes(offset, rest.min(MAX_TEXT))?;
        let end = bytes
            .iter()
            .position(|&byte| byte == 0)
            .ok_or(ElfError::Malformed("a name without an end"))?;
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    pub(super) fn bytes(&self, offset: u64, count: usize) -> Result<Vec<u8>, ElfError> {
        self.require(offset, count as u64)?;
        let mut bytes = vec![0; count];
        self.file
            .read_exact_at(&mut bytes, offset)
            .map_err(ElfError::Unreadable)?;
        Ok(bytes)
    }

    fn array<const N: usize>(&self, offset: u64) -> Result<[u8; N], ElfError> {
        self.require(offset, N as u64)?;
        let mut bytes = [0; N];
        self.file
            .read_exact_at(&mut bytes, offset)
            .map_err(ElfError::Unreadable)?;
        Ok(bytes)
    }

    fn require(&self, offset: u64, count: u64) -> Result<(), ElfError> {
        let end = offset
            .checked_add(count)
            .ok_or(ElfError::Malformed("an offset beyond any file"))?;
        if end <= self.length {
            Ok(())
        } else {
            Err(ElfError::CutShort {
                needs: end,
                has: self.length,
            })
        }
    }

    fn read_segments(&self) -> Result<Vec<Segment>, ElfError> {
        let wide = self.architecture.bits == 64;
        let (table, entry_bytes, count) = if wide {
            (self.word(32)?, self.u16(54)?, self.u16(56)?)
        } else {
            (self.word(28)?, self.u16(42)?, self.u16(44)?)
        };
        self.require(table, u64::from(count) * u64::from(entry_bytes))?;
        let mut segments = Vec::new();
        for index in 0..u64::from(count) {
            let at = table + index * u64::from(entry_bytes);
            let (offset, address, bytes) = if wide { (8, 16, 32) } else { (4, 8, 16) };
            let segment = Segment {
                kind: self.u32(at)?,
                offset: self.word(at + offset)?,
                address: self.word(at + address)?,
                bytes: self.word(at + bytes)?,
            };
            // A segment beyond the end is how a broken download shows; mapped, it would be a SIGBUS.
            self.require(segment.offset, segment.bytes)?;
            segments.push(segment);
        }
        Ok(segments)
    }
}

fn identify(start: &[u8], length: u64) -> Result<Architecture, ElfError> {
    if !start.starts_with(MAGIC) {
        let text = !start.is_empty()
            && start
                .iter()
                .all(|&byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
        return Err(ElfError::NotElf(match () {
            () if start.is_empty() => "the file is empty",
            () if text => "the file is text",
            () => "the file does not start with the ELF mark",
        }));
    }
    let cut_short = ElfError::CutShort {
        needs: HEADER_BYTES as u64,
        has: length,
    };
    let &[class, order, ..] = &start[MAGIC.len()..] else {
        return Err(cut_short);
    };
    let bits = match class {
        1 => 32,
        2 => 64,
        _ => {
            return Err(ElfError::Malformed(
                "a class that is neither 32 nor 64 bits",
            ));
        }
    };
    let Some(&machine) = start.get(18..).and_then(<[u8]>::first_chunk) else {
        return Err(cut_short);
    };
    let little_endian = order == 1;
    let machine = if little_endian {
        u16::from_le_bytes(machine)
    } else {
        u16::from_be_bytes(machine)
    };
    Ok(Architecture {
        machine,
        bits,
        little_endian,
    })
}
