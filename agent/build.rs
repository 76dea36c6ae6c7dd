//! Names this build: SHA-256 over the sources that run on the board, the target and the features.

use std::path::{Path, PathBuf};
use std::{env, fs};

use sha2::{Digest, Sha256};

const SOURCES: [&str; 3] = ["../shared/src", "sys/src", "src"];

fn main() {
    let mut hash = Sha256::new();
    for folder in SOURCES {
        let mut files = Vec::new();
        collect(Path::new(folder), &mut files);
        files.sort();
        for path in files {
            let text = fs::read(&path).expect("a listed source can be read");
            hash.update(path.to_string_lossy().as_bytes());
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(&text);
        }
        println!("cargo::rerun-if-changed={folder}");
    }
    for name in ["TARGET", "PROFILE", "OPT_LEVEL", "CARGO_FEATURE_BUILTIN"] {
        hash.update(env::var(name).unwrap_or_default().as_bytes());
        hash.update([0]);
    }
    let hex: String = hash.finalize()[..8]
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    println!("cargo::rustc-env=EDGEDYNO_BUILD_ID={hex}");
}

fn collect(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the source folder can be listed") {
        let path = entry.expect("a folder entry can be read").path();
        if path.is_dir() {
            collect(&path, out);
        } else {
            out.push(path);
        }
    }
}
