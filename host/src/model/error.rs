//! Why a model cannot be read.

use std::fmt;
use std::io;
use std::path::PathBuf;

use edgedyno_shared::units::Bytes;
use thiserror::Error;

/// A model that cannot be read or identified.
#[derive(Debug, Error)]
pub enum ModelError {
    /// Nothing is there.
    #[error("model {} does not exist", path.display())]
    Missing { path: PathBuf },
    /// A folder, a pipe or a device.
    #[error("model {} is not a plain file", path.display())]
    NotAFile { path: PathBuf },
    /// The system refused.
    #[error("cannot read model {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// Something else than ONNX.
    #[error("{} is not an ONNX model: it {looks}", path.display())]
    NotOnnx { path: PathBuf, looks: LooksLike },
    /// It began well and then ended.
    #[error("{} is cut short: it ends at byte {at}, inside the model", path.display())]
    Truncated { path: PathBuf, at: u64 },
    /// It began well and then made no sense.
    #[error("{} is a damaged ONNX model: {why} (at byte {at})", path.display())]
    Malformed {
        path: PathBuf,
        at: u64,
        why: &'static str,
    },
    /// A weight file is named in a way that could reach any file of this machine.
    #[error("{} keeps weights in {location:?}, which {why}", path.display())]
    ExternalName {
        path: PathBuf,
        location: String,
        why: &'static str,
    },
    /// A weight file is not beside the model.
    #[error("weight file {} of {} does not exist", file.display(), path.display())]
    ExternalMissing { path: PathBuf, file: PathBuf },
    /// A weight file ends before the last tensor in it.
    #[error("weight file {} of {} has {} and is {} too short", file.display(), path.display(), Bytes(*bytes), Bytes(needs.saturating_sub(*bytes)))]
    ExternalShort {
        path: PathBuf,
        file: PathBuf,
        bytes: u64,
        needs: u64,
    },
}

impl ModelError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing { .. } => {
                "check the path; `edgedyno model make` writes a model to try with"
            }
            Self::NotAFile { .. } => "name the model file itself",
            Self::Read { .. } => "check the permissions of the file and of its folder",
            Self::NotOnnx { looks, .. } => looks.hint(),
            Self::Truncated { .. } => "copy or download the file again",
            Self::Malformed { .. } => "export the model again, or check it with onnx.checker",
            Self::ExternalName { .. } => {
                "save the model again with its weights beside it or below its folder"
            }
            Self::ExternalMissing { .. } => "copy the weight files together with the model",
            Self::ExternalShort { .. } => "copy the weight file again",
        }
    }
}

/// What a file that is not ONNX seems to be, as a verb phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LooksLike {
    Empty,
    Tflite,
    OrtFormat,
    Zip,
    Gzip,
    Elf,
    Npy,
    LfsPointer,
    Text,
    Unknown,
}

impl LooksLike {
    /// Judges the first bytes of a file.
    pub fn from_head(head: &[u8]) -> Self {
        // FlatBuffers keep their file identifier in bytes 4 to 8.
        match head {
            [] => Self::Empty,
            [_, _, _, _, b'T', b'F', b'L', b'3', ..] => Self::Tflite,
            [_, _, _, _, b'O', b'R', b'T', b'M', ..] => Self::OrtFormat,
            [b'P', b'K', 3 | 5, 4 | 6, ..] => Self::Zip,
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x7f, b'E', b'L', b'F', ..] => Self::Elf,
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Self::Npy,
            _ if head.starts_with(b"version https://git-lfs") => Self::LfsPointer,
            _ if is_text(head) => Self::Text,
            _ => Self::Unknown,
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Tflite => "run it with a backend for TensorFlow Lite: --backend litert",
            Self::OrtFormat => "use the .onnx file it was converted from",
            Self::Zip => "unpack it first; a PyTorch file must be exported to ONNX",
            Self::Gzip => "unpack it first",
            Self::LfsPointer => "fetch the real file with `git lfs pull`",
            Self::Empty => "copy or download the file again",
            Self::Elf | Self::Npy | Self::Text | Self::Unknown => "name an .onnx file",
        }
    }
}

impl fmt::Display for LooksLike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "is empty",
            Self::Tflite => "looks like a TensorFlow Lite model",
            Self::OrtFormat => "looks like an ONNX Runtime .ort file",
            Self::Zip => "looks like a zip archive",
            Self::Gzip => "looks like a gzip archive",
            Self::Elf => "looks like a program or a library",
            Self::Npy => "looks like a NumPy array",
            Self::LfsPointer => "is a Git LFS pointer, not the file itself",
            Self::Text => "looks like text",
            Self::Unknown => "does not look like any format this tool knows",
        })
    }
}

/// UTF-8 without control characters other than white space; the head may cut a character.
fn is_text(head: &[u8]) -> bool {
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(e) if e.error_len().is_none() => {
            std::str::from_utf8(&head[..e.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !valid.is_empty()
        && valid
            .chars()
            .all(|c| !c.is_control() || c.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_not_models_are_named() {
        for (head, looks) in [
            (&b""[..], LooksLike::Empty),
            (b"\x1c\0\0\0TFL3\0\0", LooksLike::Tflite),
            (b"\x20\0\0\0ORTM\0\0", LooksLike::OrtFormat),
            (b"PK\x03\x04rest", LooksLike::Zip),
            (b"PK\x05\x06", LooksLike::Zip),
            (b"\x1f\x8b\x08", LooksLike::Gzip),
            (b"\x7fELF\x02", LooksLike::Elf),
            (b"\x93NUMPY\x01\x00", LooksLike::Npy),
            (
                b"version https://git-lfs.github.com/spec/v1\n",
                LooksLike::LfsPointer,
            ),
            (b"<?xml version=\"1.0\"?>\r\n", LooksLike::Text),
            ("größe: 3\t\u{fc}".as_bytes(), LooksLike::Text),
            (b"cut \xe2\x82", LooksLike::Text),
            (b"\x08\x07\x12\x07pytorch", LooksLike::Unknown),
            (b"bad \xff", LooksLike::Unknown),
        ] {
            assert_eq!(LooksLike::from_head(head), looks, "{head:?}");
        }
    }
}
