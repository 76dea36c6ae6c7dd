//! Who else uses the board's accelerators: processes that have a device node open, and the time engines
//! worked for them where the driver counts it.
//!
//! Only processes of the agent's own user can be looked into, all of them by root. A board without such a
//! node costs the look at two folders.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use edgedyno_shared::device::{Fact, Reading};

/// Beginnings of device nodes below /dev that lead to an accelerator.
const NODES: [&str; 13] = [
    "dri/renderD",
    "accel/accel",
    "kfd",
    "nvidia0",
    "nvhost-gpu",
    "nvhost-as-gpu",
    "nvhost-nvdla",
    "bpu",
    "mali",
    "rknpu",
    "galcore",
    "apex_",
    "hailo",
];

/// A process that has one of these open draws the screen: its engine time is counted, and it is not told as
/// a user.
const DISPLAY: &str = "/dev/dri/card";

/// Users that are told by name.
const TOLD: usize = 6;

/// `accelerator_users`, who has a node open; `accelerator_foreign_ns`, what engines did for others so far.
pub(crate) fn facts(root: &Path) -> Vec<Fact> {
    let (users, time) = match has_node(root) {
        true => look(root),
        false => {
            let none = Reading::Absent("/dev has no accelerator that is known here".into());
            (none.clone(), none)
        }
    };
    let fact = |name: &str, value| Fact {
        name: name.into(),
        value,
    };
    vec![
        fact("accelerator_users", users),
        fact("accelerator_foreign_ns", time),
    ]
}

fn has_node(root: &Path) -> bool {
    let folders = [("dev", ""), ("dev/dri", "dri/"), ("dev/accel", "accel/")];
    folders.iter().any(|(folder, prefix)| {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten();
        let mut names = entries.flatten().map(|entry| entry.file_name());
        names.any(|name| is_node(&format!("/dev/{prefix}{}", name.to_string_lossy())))
    })
}

fn is_node(path: &str) -> bool {
    let name = path.strip_prefix("/dev/");
    name.is_some_and(|name| NODES.iter().any(|node| name.starts_with(node)))
}

/// What all processes but this one come to.
#[derive(Default)]
struct Seen {
    users: Vec<String>,
    engine_ns: Option<u64>,
    closed: u32,
}

fn look(root: &Path) -> (Reading, Reading) {
    let mut seen = Seen::default();
    let processes = fs::read_dir(root.join("proc")).into_iter().flatten();
    for process in processes.flatten() {
        let name = process.file_name();
        let number = name.to_str().and_then(|name| name.parse::<u32>().ok());
        match number.filter(|number| *number != std::process::id()) {
            Some(number) => one(&process.path(), number, &mut seen),
            None => continue,
        }
    }
    let closed = seen.closed;
    let unseen = || {
        Reading::Denied(format!(
            "{closed} processes of others cannot be looked into"
        ))
    };
    seen.users.sort();
    let more = seen.users.len().saturating_sub(TOLD);
    seen.users.truncate(TOLD);
    seen.users
        .extend((more > 0).then(|| format!("{more} more")));
    let users = match (seen.users.is_empty(), closed) {
        (false, _) => Reading::Ok(seen.users.join(", ")),
        (true, 0) => Reading::Ok("none".into()),
        (true, _) => unseen(),
    };
    let time = match (seen.engine_ns, closed) {
        (Some(ns), _) => Reading::Ok(ns.to_string()),
        (None, 0) => Reading::Absent("no driver here counts the time of its engines".into()),
        (None, _) => unseen(),
    };
    (users, time)
}

fn one(process: &Path, number: u32, seen: &mut Seen) {
    let descriptors = match fs::read_dir(process.join("fd")) {
        Ok(descriptors) => descriptors,
        Err(why) => {
            seen.closed += u32::from(why.kind() == io::ErrorKind::PermissionDenied);
            return;
        }
    };
    let mut nodes = BTreeSet::new();
    let mut clients = BTreeSet::new();
    let mut draws = false;
    for descriptor in descriptors.flatten() {
        let Ok(target) = fs::read_link(descriptor.path()) else {
            continue;
        };
        let target = target.to_string_lossy().into_owned();
        draws |= target.starts_with(DISPLAY);
        if target.starts_with(DISPLAY) || is_node(&target) {
            let account = process.join("fdinfo").join(descriptor.file_name());
            let account = fs::read_to_string(account).unwrap_or_default();
            if clients.insert(client(&account)) {
                let ns = engine_ns(&account);
                seen.engine_ns = ns
                    .map(|ns| seen.engine_ns.unwrap_or(0) + ns)
                    .or(seen.engine_ns);
            }
            nodes.insert(target);
        }
    }
    if !nodes.is_empty() && !draws {
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        let nodes: Vec<String> = nodes.into_iter().collect();
        seen.users
            .push(format!("{} ({number}) {}", name.trim(), nodes.join(" ")));
    }
}

/// Descriptors with the same number lead to one opening of the device; without one they count once.
fn client(account: &str) -> Option<String> {
    let mut lines = account.lines();
    lines.find_map(|line| Some(line.strip_prefix("drm-client-id:")?.trim().to_owned()))
}

/// Time of all engines (Linux, Documentation/gpu/drm-usage-stats.rst); none where none is told.
fn engine_ns(account: &str) -> Option<u64> {
    let times = account.lines().filter_map(|line| {
        let (engine, time) = line.strip_prefix("drm-engine-")?.split_once(':')?;
        let time = time.trim().strip_suffix("ns")?.trim();
        (!engine.starts_with("capacity-")).then(|| time.parse::<u64>().ok())?
    });
    let mut times = times.peekable();
    times.peek()?;
    Some(times.sum())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn process(root: &Path, number: u32, name: &str, open: &[(u32, &str, &str)]) {
        let folder = root.join(format!("proc/{number}"));
        fs::create_dir_all(folder.join("fd")).unwrap();
        fs::create_dir_all(folder.join("fdinfo")).unwrap();
        fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
        for (fd, target, account) in open {
            symlink(target, folder.join(format!("fd/{fd}"))).unwrap();
            fs::write(folder.join(format!("fdinfo/{fd}")), account).unwrap();
        }
    }

    fn board(nodes: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for node in nodes {
            let path = root.path().join("dev").join(node);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    fn read(root: &Path) -> [Reading; 2] {
        let facts = facts(root);
        [0, 1].map(|at| facts[at].value.clone())
    }

    #[test]
    fn who_has_a_node_open_is_named_and_who_draws_is_not() {
        let root = board(&["bpu0", "dri/renderD128"]);
        let render = "drm-driver:\tmsm\ndrm-client-id:\t5\ndrm-engine-gpu:\t300 ns\ndrm-engine-capacity-gpu:\t1\n";
        process(
            root.path(),
            70,
            "camera",
            &[(3, "/dev/bpu0", ""), (4, "/dev/null", "")],
        );
        // Two descriptors of one opening, and another one.
        let other = render.replace("\t5\n", "\t6\n").replace("300", "50");
        process(
            root.path(),
            71,
            "python3",
            &[
                (5, "/dev/dri/renderD128", render),
                (6, "/dev/dri/renderD128", render),
                (7, "/dev/dri/renderD128", &other),
            ],
        );
        process(
            root.path(),
            72,
            "Xorg",
            &[(5, "/dev/dri/card0", &render.replace("\t5\n", "\t8\n"))],
        );
        let [users, time] = read(root.path());
        assert_eq!(
            users,
            Reading::Ok("camera (70) /dev/bpu0, python3 (71) /dev/dri/renderD128".into())
        );
        assert_eq!(time, Reading::Ok("650".into()));
    }

    #[test]
    fn nobody_and_nothing_are_not_the_same() {
        let quiet = board(&["bpu0"]);
        process(quiet.path(), 70, "sh", &[(0, "/dev/null", "")]);
        let [users, time] = read(quiet.path());
        assert_eq!(users, Reading::Ok("none".into()));
        assert_eq!(time.state(), "absent");
        let bare = board(&["null", "bus"]);
        assert_eq!(read(bare.path()).map(|r| r.state()), ["absent", "absent"]);
    }

    #[test]
    fn this_process_is_no_neighbour() {
        let root = board(&["hailo0"]);
        process(
            root.path(),
            std::process::id(),
            "own",
            &[(3, "/dev/hailo0", "")],
        );
        assert_eq!(read(root.path())[0], Reading::Ok("none".into()));
    }
}
