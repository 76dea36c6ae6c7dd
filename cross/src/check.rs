//! What a board gets: small enough, needing nothing that a board may lack, and no newer C library.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result};
use edgedyno_sys::vendor::elf::{ElfFacts, GlibcVersion};

use crate::build::Wish;
use crate::size::{MB, megabytes};

/// Sonames before their version; everything else is not on every board.
const ALLOWED: [&str; 6] = [
    "libc.so",
    "libm.so",
    "libdl.so",
    "libpthread.so",
    "libgcc_s.so",
    "ld-linux",
];

/// What the agent may weigh (design, section 6).
pub(crate) const fn limit(slim: bool) -> u64 {
    match slim {
        true => 5 * MB,
        false => 9 * MB,
    }
}

/// The facts of one program, held against what is promised.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    name: String,
    bytes: u64,
    /// None for a profile that boards do not get.
    limit: Option<u64>,
    needed: Vec<String>,
    strangers: Vec<String>,
    glibc: Option<GlibcVersion>,
    floor: GlibcVersion,
}

impl Checked {
    pub(crate) fn of(name: &str, program: &Path, wish: &Wish, floor: &str) -> Result<Self> {
        let bytes = std::fs::metadata(program)?.len();
        let facts = ElfFacts::read(program)
            .with_context(|| format!("{} is no program", program.display()))?;
        let floor = GlibcVersion::parse(floor)
            .with_context(|| format!("`{floor}` is no version of glibc, such as 2.31"))?;
        let limit = (wish.profile == Wish::default().profile).then(|| limit(wish.slim));
        Ok(Self::judge(name, bytes, limit, facts, floor))
    }

    fn judge(
        name: &str,
        bytes: u64,
        limit: Option<u64>,
        facts: ElfFacts,
        floor: GlibcVersion,
    ) -> Self {
        let is_stranger = |name: &&String| !ALLOWED.iter().any(|known| name.starts_with(known));
        Self {
            name: name.to_owned(),
            bytes,
            limit,
            strangers: facts.needed.iter().filter(is_stranger).cloned().collect(),
            needed: facts.needed,
            glibc: facts.glibc_needed,
            floor,
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.is_small_enough() && self.strangers.is_empty() && self.is_old_enough()
    }

    fn is_small_enough(&self) -> bool {
        self.limit.is_none_or(|limit| self.bytes <= limit)
    }

    fn is_old_enough(&self) -> bool {
        self.glibc.is_none_or(|glibc| glibc <= self.floor)
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |good: bool, word: &'static str| if good { "" } else { word };
        writeln!(f, "{}", self.name)?;
        let limit = match self.limit {
            Some(limit) => format!("of {}", megabytes(limit)),
            None => "(the limit is for the profile `agent`)".into(),
        };
        let word = mark(self.is_small_enough(), "  TOO LARGE");
        writeln!(f, "  size:   {} {limit}{word}", megabytes(self.bytes))?;
        writeln!(f, "  needs:  {}", self.needed.join(" "))?;
        if !self.strangers.is_empty() {
            writeln!(f, "  NOT ON EVERY BOARD: {}", self.strangers.join(" "))?;
        }
        let glibc = self
            .glibc
            .map_or_else(|| "none".into(), |glibc| glibc.to_string());
        let word = mark(self.is_old_enough(), "  TOO NEW");
        write!(f, "  glibc:  {glibc}, floor {}{word}", self.floor)
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_sys::vendor::elf::Architecture;

    use super::*;

    fn checked(bytes: u64, needed: &[&str], glibc: &str) -> Checked {
        let facts = ElfFacts {
            architecture: Architecture {
                machine: 183,
                bits: 64,
                little_endian: true,
            },
            shared_object: false,
            soname: None,
            needed: needed.iter().map(|&name| name.to_owned()).collect(),
            glibc_needed: GlibcVersion::parse(glibc),
            build_id: None,
        };
        Checked::judge(
            "x",
            bytes,
            Some(100),
            facts,
            GlibcVersion::parse("2.27").unwrap(),
        )
    }

    #[test]
    fn only_what_boards_get_is_held_against_the_limit() {
        let own = std::env::current_exe().unwrap();
        for (profile, limit) in [("agent", Some(9 * MB)), ("cross-dev", None)] {
            let wish = Wish {
                profile: profile.into(),
                ..Wish::default()
            };
            let checked = Checked::of("own", &own, &wish, "2.99").unwrap();
            assert_eq!(checked.limit, limit, "{profile}");
        }
    }

    #[test]
    fn what_keeps_its_promises_is_good() {
        let needed = [
            "libc.so.6",
            "libm.so.6",
            "ld-linux-aarch64.so.1",
            "libgcc_s.so.1",
        ];
        assert!(checked(100, &needed, "2.27").is_good());
        assert!(
            checked(100, &needed, "2.4").is_good(),
            "2.4 is older than 2.27"
        );
    }

    #[test]
    fn each_broken_promise_is_told() {
        for (broken, word) in [
            (checked(101, &["libc.so.6"], "2.17"), "TOO LARGE"),
            (
                checked(1, &["libc.so.6", "libssl.so.3"], "2.17"),
                "libssl.so.3",
            ),
            (checked(1, &["libc.so.6"], "2.28"), "TOO NEW"),
        ] {
            assert!(!broken.is_good(), "{word}");
            assert!(broken.to_string().contains(word), "{broken}");
        }
    }

    #[test]
    fn a_program_of_this_machine_is_read() {
        let own = std::env::current_exe().unwrap();
        let checked = Checked::of("own", &own, &Wish::default(), "2.99").unwrap();
        assert!(
            checked
                .needed
                .iter()
                .any(|name| name.starts_with("libc.so"))
        );
        assert!(checked.glibc.is_some() && checked.is_old_enough());
        assert!(Checked::of("own", &own, &Wish::default(), "new").is_err());
    }
}
