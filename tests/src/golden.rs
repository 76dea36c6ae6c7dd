//! Checked-in files that a test makes again and compares; `EDGEDYNO_REWRITE=1` writes them instead.

use std::fs;

use crate::workspace;

/// Holds a text file of the sources against what it is to be.
///
/// # Panics
/// When it is something else.
#[track_caller]
pub fn check(relative: &str, made: &str) {
    let path = workspace::root().join(relative);
    if is_rewriting() {
        fs::create_dir_all(path.parent().expect("a file lies in a folder"))
            .expect("the sources take folders");
        fs::write(&path, made).expect("the sources take files");
        return;
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    if kept == made {
        return;
    }
    let (there, here): (Vec<&str>, Vec<&str>) = (kept.lines().collect(), made.lines().collect());
    let first = (0..there.len().max(here.len())).find(|at| there.get(*at) != here.get(*at));
    let at = first.unwrap_or(0);
    panic!(
        "{relative}:{}: kept {:?}, made {:?}; run the test with EDGEDYNO_REWRITE=1 and look at the change",
        at + 1,
        there.get(at).map(begin),
        here.get(at).map(begin)
    );
}

/// Of a line that may be very long.
fn begin(line: &&str) -> String {
    line.chars().take(200).collect()
}

/// Whether files are to be written and not compared.
pub fn is_rewriting() -> bool {
    std::env::var_os("EDGEDYNO_REWRITE").is_some()
}
