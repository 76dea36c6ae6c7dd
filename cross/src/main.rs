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
  package TARGET    an archive with program, service unit, udev rules and licence list; print its path
        --slim              without the built-in runtime
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
        ["check", target, rest @ ..] => check_both(target, rest),
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
    let program = build::build(&targets::find(target)?, &wish(rest)?)?;
    print(&program.display().to_string());
    Ok(true)
}

fn package_one(target: &str, rest: &[&str]) -> Result<bool> {
    let (target, wish) = (targets::find(target)?, wish(rest)?);
    let program = build::build(&target, &wish)?;
    let checked = Checked::of(&build::shown(&program), &program, &wish, &target.floor)?;
    complain(&checked.to_string());
    print(
        &package::package(&target, &wish, &program)?
            .display()
            .to_string(),
    );
    Ok(checked.is_good())
}

fn check_both(target: &str, rest: &[&str]) -> Result<bool> {
    let target = targets::find(target)?;
    let mut floor = target.floor.as_str();
    let mut profile = Wish::default().profile;
    for pair in rest.chunks(2) {
        match *pair {
            ["--floor", version] => floor = version,
            ["--profile", name] => profile = name.to_owned(),
            _ => bail!(
                "`{}` is not a word that `check` knows here, or lacks its value",
                pair[0]
            ),
        }
    }
    let mut is_good = true;
    for slim in [true, false] {
        let profile = profile.clone();
        let wish = Wish { slim, profile };
        let program = build::build(&target, &wish)?;
        let checked = Checked::of(&build::shown(&program), &program, &wish, floor)?;
        print(&checked.to_string());
        is_good &= checked.is_good();
    }
    Ok(is_good)
}

fn wish(words: &[&str]) -> Result<Wish> {
    let mut wish = Wish::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match (*word, words.clone().next()) {
            ("--slim", _) => wish.slim = true,
            ("--profile", Some(profile)) => {
                wish.profile = (*profile).to_owned();
                words.next();
            }
            (word, _) => bail!("`{word}` is not a word that is known here, or lacks its value"),
        }
    }
    Ok(wish)
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

    #[test]
    fn wishes_are_read_in_any_order() {
        let quick = wish(&["--profile", "cross-dev", "--slim"]).unwrap();
        assert_eq!((quick.slim, quick.profile.as_str()), (true, "cross-dev"));
        assert_eq!(wish(&[]).unwrap(), Wish::default());
        for words in [&["--profile"][..], &["--fast"]] {
            assert!(wish(words).unwrap_err().to_string().contains(words[0]));
        }
    }
}
