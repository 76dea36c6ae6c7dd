//! Computes the schema hash: SHA-256 over every source of this crate.
//!
//! All of it can cross the wire, so all of it counts, comments too: two builds agree only when
//! they were made from the same definitions.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

fn main() {
    let mut sources = Vec::new();
    collect(Path::new("src"), &mut sources);
    sources.sort();
    let mut hash = Sha256::new();
    for path in &sources {
        let text = fs::read(path).expect("a listed source can be read");
        hash.update(path.to_string_lossy().as_bytes());
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(&text);
    }
    let hex: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    println!("cargo::rustc-env=EDGEDYNO_SCHEMA_HASH={hex}");
    println!("cargo::rerun-if-changed=src");
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
