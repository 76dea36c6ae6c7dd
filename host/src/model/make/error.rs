//! Why a network cannot be made.

use std::io;
use std::path::PathBuf;

use edgedyno_shared::units::Bytes;
use thiserror::Error;

/// A network that was not made; no file is left behind.
#[derive(Debug, Error)]
pub enum MakeError {
    #[error("there is no network {name:?}; there are {known}")]
    UnknownNetwork { name: String, known: String },
    #[error("network {network} has no {name}; it has {known}")]
    NoSuchSize {
        network: &'static str,
        name: &'static str,
        known: String,
    },
    #[error("{name} {value} is out of range: 1 to {limit} are possible")]
    SizeOutOfRange {
        name: &'static str,
        value: u32,
        limit: u32,
    },
    /// A protobuf message ends at 2 GiB.
    #[error("weights of {} do not fit inside a model file, which ends at {}", Bytes(*bytes), Bytes(*limit))]
    TooLargeInside { bytes: u64, limit: u64 },
    #[error("weights of {} are more than the {} that this command writes", Bytes(*bytes), Bytes(*limit))]
    TooLarge { bytes: u64, limit: u64 },
    #[error("one run would take {macs} multiply-accumulates")]
    TooManyMacs { macs: u128 },
    #[error("{} does not end in a file name of UTF-8 text", path.display())]
    NoFileName { path: PathBuf },
    #[error("cannot write into folder {}", folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl MakeError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::UnknownNetwork { .. } => "name one of those",
            Self::NoSuchSize { .. } => "leave it out",
            Self::SizeOutOfRange { .. } => "choose a value inside the range",
            Self::TooLargeInside { .. } => {
                "keep the weights in a file beside the model: --external"
            }
            Self::TooLarge { .. } | Self::TooManyMacs { .. } => "choose a smaller size",
            Self::NoFileName { .. } => "name the model file to write, such as conv.onnx",
            Self::Folder { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "create the folder first"
            }
            Self::Folder { .. } => "choose a folder you may write to",
            Self::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some space, or choose another folder"
            }
            Self::Write { .. } => "check the folder and the space left in it",
        }
    }
}
