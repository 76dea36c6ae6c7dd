//! `cargo board`: builds, checks and packages the agent for board targets.

mod build;
mod check;
mod debian;
mod package;
mod place;
mod size;
mod sysroot;
mod targets;
mod toolchain;

use std::process::ExitCode;

use anyhow::{Result, bail};

use build::Wish;
use check::Checked;
use targets::Target;

const USAGE: &str = "\
usage: cargo board COMMAND

commands:
  build TARGET      build the agent for a board and print the program's path
        --slim              without the built-in runtime
        --profile PROFILE   `agent` as boards get it (unless told otherwise), `cross-dev` for a quick look
  check TARGET      build both variants and hold size, needed libraries and glibc against what is promised;
                    exit 1 when one is broken; the size of another profile than `agent` is only told
        --floor VERSION     another oldest glibc than the target's own
        --profile PROFILE   as above
  check --all       the same for each target whose std and linker are at hand; the others are named with the
                    reason, and exit 1 also when there is none
        --profile PROFILE   as above
  package TARGET    an archive with program, service unit, udev rules and licence list; print its path
        --slim              without the built-in runtime
        --floor VERSION     another oldest glibc than the target's own
  sysroot TARGET    Debian's libraries for the target, for qemu's user emulation; print the folder
  emulated TARGET   kernel and first file system of an emulated board; print the folder
  targets           which boards each target serves
  check-size        build both variants for this machine and hold their sizes against the limits

What a build needs beyond cargo: the target's std (`rustup target add`, else Debian's packages, unpacked
into the target folder) and zig (by pip, into the target folder). TARGET is one of `cargo board targets`.

example: cargo board build aarch64 && edgedyno board add ssh://user@board";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["build", target, rest @ ..] => build_one(target, rest),
        ["check", "--all", rest @ ..] => check_all(rest),
        ["check", target, rest @ ..] => check_one(target, rest),
        ["package", target, rest @ ..] => package_one(target, rest),
        ["sysroot", target] => {
            targets::find(target).and_then(|target| show(&sysroot::sysroot(&target)?))
        }
        ["emulated", target] => {
            targets::find(target).and_then(|target| show(&sysroot::board(&target)?))
        }
        ["targets"] => list(),
        ["check-size"] => size::check().map(|report| {
            print(&report.to_string());
            report.is_good()
        }),
        ["--help" | "-h" | "help"] => {
            print(USAGE);
            Ok(true)
        }
        _ => {
            complain(USAGE);
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(is_good) => ExitCode::from(u8::from(!is_good)),
        Err(error) => {
            complain(&format!("error: {error:#}"));
            ExitCode::from(1)
        }
    }
}

fn build_one(target: &str, rest: &[&str]) -> Result<bool> {
    let wanted = Wanted::read(rest, &["--slim", "--profile"])?;
    let program = build::build(&targets::find(target)?, &wanted.wish)?;
    print(&program.display().to_string());
    Ok(true)
}

fn package_one(target: &str, rest: &[&str]) -> Result<bool> {
    let target = targets::find(target)?;
    let Wanted { wish, floor } = Wanted::read(rest, &["--slim", "--profile", "--floor"])?;
    let floor = floor.as_deref().unwrap_or(&target.floor);
    let program = build::build(&target, &wish)?;
    let checked = Checked::of(&build::shown(&program), &program, &wish, floor)?;
    complain(&checked.to_string());
    print(
        &package::package(&target, &wish, &program)?
            .display()
            .to_string(),
    );
    Ok(checked.is_good())
}

fn check_one(target: &str, rest: &[&str]) -> Result<bool> {
    let target = targets::find(target)?;
    let wanted = Wanted::read(rest, &["--profile", "--floor"])?;
    let floor = wanted.floor.as_deref().unwrap_or(&target.floor);
    check_both(&target, &wanted.wish.profile, floor)
}

fn check_both(target: &Target, profile: &str, floor: &str) -> Result<bool> {
    let mut is_good = true;
    for slim in [true, false] {
        let profile = profile.to_owned();
        let wish = Wish { slim, profile };
        let program = build::build(target, &wish)?;
        let checked = Checked::of(&build::shown(&program), &program, &wish, floor)?;
        print(&checked.to_string());
        is_good &= checked.is_good();
    }
    Ok(is_good)
}

/// What cannot be built here is said to be left out; what can be and is not as promised is a fault.
fn check_all(rest: &[&str]) -> Result<bool> {
    let profile = Wanted::read(rest, &["--profile"])?.wish.profile;
    check_each(targets::all()?, build::is_at_hand, |target| {
        check_both(target, &profile, &target.floor)
    })
}

fn check_each(
    targets: Vec<Target>,
    is_at_hand: impl Fn(&Target) -> Result<()>,
    mut check: impl FnMut(&Target) -> Result<bool>,
) -> Result<bool> {
    let (mut good, mut bad, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for target in targets {
        if let Err(why) = is_at_hand(&target) {
            complain(&format!("{} is left out: {why:#}", target.name));
            left_out.push(target.name);
            continue;
        }
        match check(&target) {
            Ok(true) => good.push(target.name),
            Ok(false) => bad.push(target.name),
            // One that cannot be built does not keep the others from being looked at.
            Err(why) => {
                complain(&format!("error: {}: {why:#}", target.name));
                bad.push(target.name);
            }
        }
    }
    for (word, names) in [("good", &good), ("NOT GOOD", &bad), ("left out", &left_out)] {
        if !names.is_empty() {
            print(&format!("{word}: {}", names.join(", ")));
        }
    }
    Ok(bad.is_empty() && !good.is_empty())
}

/// What the words behind a command ask for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    wish: Wish,
    /// Another oldest glibc than the target's own.
    floor: Option<String>,
}

impl Wanted {
    /// Words that this command does not know are refused.
    fn read(words: &[&str], known: &[&str]) -> Result<Self> {
        let mut wanted = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = words.clone().next();
            match (*word, value) {
                (word, _) if !known.contains(&word) => {
                    bail!("`{word}` is not a word that is known here")
                }
                ("--slim", _) => {
                    wanted.wish.slim = true;
                    continue;
                }
                ("--profile", Some(profile)) => wanted.wish.profile = (*profile).to_owned(),
                ("--floor", Some(version)) => wanted.floor = Some((*version).to_owned()),
                (word, _) => bail!("`{word}` lacks its value"),
            }
            words.next();
        }
        Ok(wanted)
    }
}

fn show(path: &std::path::Path) -> Result<bool> {
    print(&path.display().to_string());
    Ok(true)
}

fn list() -> Result<bool> {
    for target in targets::all()? {
        print(&format!(
            "{}  ({}, glibc {} or later)",
            target.name, target.triple, target.floor
        ));
        for board in &target.boards {
            print(&format!("  {board}"));
        }
    }
    Ok(true)
}

#[expect(clippy::print_stdout, reason = "a tool's result")]
fn print(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "a tool's complaint")]
fn complain(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 3] = ["--slim", "--profile", "--floor"];

    #[test]
    fn wishes_are_read_in_any_order() {
        let words = ["--floor", "2.31", "--profile", "cross-dev", "--slim"];
        let quick = Wanted::read(&words, &ALL).unwrap();
        assert_eq!(quick.floor.as_deref(), Some("2.31"));
        let wish = quick.wish;
        assert_eq!((wish.slim, wish.profile.as_str()), (true, "cross-dev"));
        assert_eq!(Wanted::read(&[], &ALL).unwrap(), Wanted::default());
        for words in [&["--profile"][..], &["--slim", "--floor"], &["--fast"]] {
            let why = Wanted::read(words, &ALL).unwrap_err().to_string();
            assert!(why.contains(words[words.len() - 1]), "{why}");
        }
        let why = Wanted::read(&["--floor", "2.31"], &["--slim"]).unwrap_err();
        assert!(why.to_string().contains("`--floor` is not a word"), "{why}");
    }

    #[test]
    fn every_target_at_hand_is_checked_and_one_that_is_not_as_promised_is_a_fault() {
        let there = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            move |target: &Target| match names.contains(&target.name) {
                true => Ok(()),
                false => bail!("no std"),
            }
        };
        let all = || targets::all().unwrap();
        let mut seen = Vec::new();
        let good = check_each(all(), there(&["aarch64", "x86_64"]), |target| {
            seen.push(target.name.clone());
            Ok(true)
        });
        assert!(good.unwrap());
        assert_eq!(seen, ["aarch64", "x86_64"]);
        let mut seen = 0;
        let broken = check_each(all(), there(&["aarch64", "x86_64"]), |target| {
            seen += 1;
            match target.name.as_str() {
                "aarch64" => bail!("cargo cannot build the agent"),
                _ => Ok(true),
            }
        });
        assert!(!broken.unwrap() && seen == 2);
        let large = check_each(all(), there(&["armv7"]), |_| Ok(false));
        assert!(!large.unwrap());
        let nothing = check_each(all(), there(&[]), |_| Ok(true));
        assert!(!nothing.unwrap(), "nothing was looked at");
    }
}
