//! The runs that were recorded for `examples/`, as a reader has them who follows the documentation.

use std::os::unix::fs::symlink;

use crate::{Sandbox, binaries, workspace};

/// The recorded runs, by their tags; `examples/TAG.tar.gz` holds each.
pub const RUNS: [&str; 2] = ["runtimes", "traffic"];

/// The line that takes them in, as the documentation gives it.
pub const IMPORT: &str = "edgedyno import examples/runtimes.tar.gz examples/traffic.tar.gz";

/// A sandbox at the top of the sources, as far as `examples/` goes, with `edgedyno` in PATH and no store.
pub fn empty() -> Sandbox {
    let mut sandbox = Sandbox::new();
    let programs = binaries()
        .host
        .parent()
        .expect("a program lies in a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = [programs.to_owned()]
        .into_iter()
        .chain(std::env::split_paths(&path));
    let path = std::env::join_paths(path).expect("folders of PATH have no colon");
    sandbox.env("PATH", path).env_remove("EDGEDYNO_STORE");
    symlink(
        workspace::root().join("examples"),
        sandbox.work().join("examples"),
    )
    .expect("the working folder takes links");
    sandbox
}

/// The same with the recorded runs in the store.
pub fn imported() -> Sandbox {
    let sandbox = empty();
    said(&sandbox, IMPORT);
    sandbox
}

/// What a line typed at a shell prints: its result, then everything else, then its code unless that is 0.
pub fn said(sandbox: &Sandbox, line: &str) -> String {
    let output = sandbox.start("sh", ["-c", line]).wait();
    let code = match output.code {
        0 => String::new(),
        code => format!("(exit code {code})\n"),
    };
    format!("{}{}{code}", output.stdout, output.stderr)
}
