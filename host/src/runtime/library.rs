//! A library file: what machine it is for, and which version it is.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::error::RuntimeError;
use super::spec::is_version;

/// File name of the library, before its version.
pub(super) const LIBRARY: &str = "libonnxruntime.so";
/// Larger files are no runtime library that exists.
pub(super) const SIZE_LIMIT: u64 = 4 << 30;

/// Whether a file name is that of the library itself: `libonnxruntime.so`, with or without version.
pub(super) fn is_library(name: &str) -> bool {
    name.strip_prefix(LIBRARY)
        .is_some_and(|rest| rest.is_empty() || rest.strip_prefix('.').is_some_and(is_version))
}

/// Whether a file name is that of a provider the library opens from its own folder.
pub(super) fn is_provider(name: &str) -> bool {
    name.starts_with("libonnxruntime_providers_") && name.ends_with(".so")
}

/// Fails unless the file is an ELF file for the architecture.
pub(super) fn check_architecture(path: &Path, needed: &str) -> Result<(), RuntimeError> {
    let mut head = Vec::new();
    let file = File::open(path).map_err(RuntimeError::read(path))?;
    file.take(20)
        .read_to_end(&mut head)
        .map_err(RuntimeError::read(path))?;
    let found = architecture_of(&head).ok_or(RuntimeError::NotALibrary {
        path: path.to_owned(),
        why: "it has no ELF header",
    })?;
    if found == needed {
        return Ok(());
    }
    Err(RuntimeError::Architecture {
        path: path.to_owned(),
        found,
        needed: needed.to_owned(),
    })
}

/// `e_machine` of the ELF header (gABI chapter 4), in the words of `std::env::consts::ARCH`.
pub fn architecture_of(head: &[u8]) -> Option<String> {
    let (Some(b"\x7fELF"), Some(&order), Some(machine)) =
        (head.get(..4), head.get(5), head.get(18..20))
    else {
        return None;
    };
    let machine = [machine[0], machine[1]];
    let machine = if order == 2 {
        u16::from_be_bytes(machine)
    } else {
        u16::from_le_bytes(machine)
    };
    Some(match machine {
        3 => "x86".to_owned(),
        40 => "arm".to_owned(),
        62 => "x86_64".to_owned(),
        183 => "aarch64".to_owned(),
        243 => "riscv64".to_owned(),
        other => format!("machine {other}"),
    })
}

/// The version in a file name such as `libonnxruntime.so.1.32.0`; `.so.1` is only an interface.
pub(super) fn version_in_name(name: &str) -> Option<&str> {
    let version = name.strip_prefix(LIBRARY)?.strip_prefix('.')?;
    (version.contains('.') && is_version(version)).then_some(version)
}

/// The version in the symbols of the library: all it exports carries `VERS_<version>`.
pub(super) fn version_in_symbols(path: &Path) -> Result<Option<String>, RuntimeError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(RuntimeError::read(path))?;
    file.take(SIZE_LIMIT)
        .read_to_end(&mut bytes)
        .map_err(RuntimeError::read(path))?;
    Ok(find_version(&bytes))
}

fn find_version(bytes: &[u8]) -> Option<String> {
    let mut rest = bytes;
    while let Some(at) = rest.windows(5).position(|window| window == b"VERS_") {
        rest = &rest[at + 5..];
        let length = rest
            .iter()
            .take_while(|b| b.is_ascii_digit() || **b == b'.')
            .count();
        let text = String::from_utf8_lossy(&rest[..length]);
        if text.split('.').filter(|part| !part.is_empty()).count() == 3 && is_version(&text) {
            return Some(text.into_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_library_provider_and_version() {
        assert!(is_library("libonnxruntime.so") && is_library("libonnxruntime.so.1.32.0"));
        assert!(
            !is_library("libonnxruntime_providers_shared.so") && !is_library("libonnxruntime.sox")
        );
        assert!(
            is_provider("libonnxruntime_providers_cuda.so") && !is_provider("libonnxruntime.so.1")
        );
        assert!(!is_library("libonnxruntime.so./../x"));
        assert_eq!(version_in_name("libonnxruntime.so.1.32.0"), Some("1.32.0"));
        assert_eq!(version_in_name("libonnxruntime.so.1"), None);
        assert_eq!(version_in_name("libonnxruntime.so"), None);
    }

    #[test]
    fn the_version_of_a_renamed_library_is_in_its_symbols() {
        assert_eq!(
            find_version(b"..VERS_1.0\0VERS_\0VERS_1.32.0\0.."),
            Some("1.32.0".into())
        );
        assert_eq!(find_version(b"VERS_1.0\0VERS"), None);
    }

    #[test]
    fn the_elf_header_tells_the_machine() {
        let header = |machine: u8| {
            let mut head = vec![0; 20];
            head[..6].copy_from_slice(b"\x7fELF\x02\x01");
            head[18] = machine;
            head
        };
        assert_eq!(architecture_of(&header(62)).unwrap(), "x86_64");
        assert_eq!(architecture_of(&header(183)).unwrap(), "aarch64");
        assert_eq!(architecture_of(&header(9)).unwrap(), "machine 9");
        assert_eq!(architecture_of(b"\x7fELF\x02\x01"), None);
        assert_eq!(architecture_of(b"MZ"), None);
    }
}
