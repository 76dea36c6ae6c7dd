//! Stand-ins for tests.

use std::path::Path;

use super::Shell;
use crate::board::known::{SshRoute, Start};

/// A stand-in for ssh whose uploads go through a filter on their way, on a board with these tools alone.
pub(super) fn filtered(folder: &Path, filter: &str, tools: &[&str]) -> Shell {
    let bin = folder.join("bin");
    let _ = std::fs::remove_dir_all(&bin);
    std::fs::create_dir(&bin).unwrap();
    for tool in tools {
        let places = ["/usr/bin", "/bin"].map(|place| Path::new(place).join(tool));
        if let Some(found) = places.iter().find(|place| place.is_file()) {
            std::os::unix::fs::symlink(found, bin.join(tool)).unwrap();
        }
    }
    let ssh = folder.join("ssh");
    let text = format!(
        "PATH={}\nfor last; do :; done\ncase \"$last\" in\n\
         *'cat >'*) {filter} | /bin/sh -c \"$last\";;\n*) exec /bin/sh -c \"$last\";;\nesac\n",
        bin.display()
    );
    std::fs::write(&ssh, text).unwrap();
    // By a shell of its own: a file that was just written cannot always be started.
    let words = format!("/bin/sh {}", ssh.display());
    Shell::by(&words, "ssh://h".parse().unwrap())
}

pub(super) const TOOLS: [&str; 8] = ["cat", "find", "head", "mkdir", "mv", "rm", "tr", "wc"];

/// Names in a folder, sorted.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// A board behind ssh.
pub(super) fn route(start: Start, listen: Option<&str>) -> SshRoute {
    SshRoute {
        destination: "ssh://u@h".parse().unwrap(),
        program: "/home/u/.local/lib/edgedyno/0.1.0-ab/edgedyno-agent".into(),
        architecture: "aarch64".into(),
        start,
        listen: listen.map(|listen| listen.parse().unwrap()),
        keep: None,
        offload: true,
    }
}
