//! What a board is, asked of its shell before there is an agent: processor, C library, room, user.

use super::Shell;
use super::fault::{Fault, SshError};
use super::shell::is_plain_path;

/// Only words that busybox and dash know too, and each answer on a line of its own. The processor is that
/// of /bin/sh: a 64-bit kernel under a 32-bit system is common on boards, and uname tells of the kernel.
const SCRIPT: &str = r#"
say() { printf '%s=%s\n' "$1" "$2"; }
say uid "$(id -u 2>/dev/null)"
say user "$(id -un 2>/dev/null)"
say machine "$(uname -m)"
say kernel "$(uname -r)"
say name "$(uname -n)"
say elf "$( (od -An -v -tx1 -N20 /bin/sh || hexdump -v -n 20 -e '1/1 "%02x "' /bin/sh || xxd -p -l 20 /bin/sh) 2>/dev/null | tr -d ' \n')"
libc=$(getconf GNU_LIBC_VERSION 2>/dev/null)
for file in /lib/libc.so.6 /lib64/libc.so.6 /lib/*-linux-gnu*/libc.so.6 /usr/lib/libc.so.6; do
  [ -n "$libc" ] || { [ -x "$file" ] && libc=$("$file" 2>/dev/null | head -n 1); }
done
[ -n "$libc" ] || libc=$(ldd --version 2>&1 | head -n 1)
for file in /lib/ld-musl-*; do
  [ -n "$libc" ] || { [ -e "$file" ] && libc="musl $file"; }
done
say libc "$libc"
say home "$HOME"
say time "$(date +%s)"
say systemd "$([ -d /run/systemd/system ] && echo yes || echo no)"
look() {
  base=$1; state=ok; there=$1
  umask 077
  while [ -n "$there" ] && ! [ -e "$there" ]; do there=${there%/*}; done
  mkdir -p "$base" 2>/dev/null
  if ! [ -d "$base" ] || ! [ -w "$base" ] || ! [ -O "$base" ]; then state=unwritable
  else
    try="$base/.try-$$"
    if ! printf '#!/bin/sh\nexit 0\n' 2>/dev/null > "$try" || ! [ -s "$try" ]; then state=full
    elif ! chmod 700 "$try" || ! "$try" 2>/dev/null; then state=noexec
    fi
    rm -f "$try" 2>/dev/null
  fi
  free=$(df -Pk "$base" 2>/dev/null | tail -n 1)
  [ -n "$free" ] || free=$(df -k "$base" 2>/dev/null | tail -n 1)
  printf 'folder=%s|%s|%s\n' "$state" "$free" "$base"
  for program in "$base"/*/edgedyno-agent; do
    [ -f "$program" ] && say installed "$program"
  done
  made=$base
  while [ "$made" != "$there" ] && { ! [ -e "$made" ] || rmdir "$made" 2>/dev/null; }; do made=${made%/*}; done
  true
}
"#;

/// Where an agent may live, the likeliest first. The last survives a restart on most systems, and is there
/// where the home folder cannot be written or run from.
const BASES: [&str; 3] = [
    "$HOME/.local/lib/edgedyno",
    "/opt/edgedyno",
    "/var/tmp/edgedyno-$(id -u)",
];

/// An agent and its unfinished copy, with room for a log.
pub const ROOM: u64 = 32 << 20;

/// What a board's shell said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    pub uid: Option<u32>,
    pub user: String,
    /// The kernel's word for the processor.
    pub machine: String,
    /// What programs are built for, in the words of `std::env::consts::ARCH`.
    pub architecture: Option<String>,
    pub kernel: String,
    pub host_name: String,
    pub libc: Libc,
    pub home: String,
    pub unix_seconds: Option<i64>,
    pub has_systemd: bool,
    pub folders: Vec<Folder>,
    /// Programs of agents that were brought there before.
    pub installed: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Libc {
    /// Major and minor number.
    Glibc(u16, u16),
    Musl,
    Unknown(String),
}

impl Libc {
    /// As people call it; none when it is not known.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Glibc(major, minor) => Some(format!("glibc {major}.{minor}")),
            Self::Musl => Some("musl".into()),
            Self::Unknown(_) => None,
        }
    }
}

/// A folder that might hold an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    pub path: String,
    pub state: FolderState,
    pub free: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderState {
    Usable,
    Unwritable,
    /// Nothing can be started there.
    NoExec,
    Full,
}

impl FolderState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Usable => "usable",
            Self::Unwritable => "not writable",
            Self::NoExec => "mounted so that nothing can be started there",
            Self::Full => "full",
        }
    }
}

impl Folder {
    pub fn is_usable(&self) -> bool {
        self.state == FolderState::Usable
            && self.free.is_none_or(|free| free >= ROOM)
            && is_plain_path(&self.path)
    }

    /// What is wrong with it, or nothing.
    pub fn fault(&self) -> Option<String> {
        match (self.state, self.free) {
            (FolderState::Usable, Some(free)) if free < ROOM => Some(format!(
                "{} MiB left, {} MiB are needed",
                free >> 20,
                ROOM >> 20
            )),
            (FolderState::Usable, _) if !is_plain_path(&self.path) => {
                Some("a path with letters that a shell reads as more".into())
            }
            (FolderState::Usable, _) => None,
            (state, _) => Some(state.name().into()),
        }
    }
}

impl Probe {
    /// Asks the board; a folder of the user's stands in for those that are looked at otherwise.
    pub async fn take(shell: &Shell, folder: Option<&str>) -> Result<Self, SshError> {
        let mut script = SCRIPT.to_owned();
        match folder {
            Some(folder) => script.extend(["look ", folder, "\n"]),
            None => BASES
                .iter()
                .for_each(|base| script.extend(["look \"", base, "\"\n"])),
        }
        let answer = shell.run(&script).await?;
        Self::parse(&answer.output).ok_or_else(|| {
            let said = format!("it answered {:.120}", answer.output);
            SshError::new(shell, Fault::Shell, said)
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let all = |name: &'static str| {
            text.lines()
                .filter_map(move |line| line.strip_prefix(name)?.strip_prefix('='))
        };
        let one = |name| all(name).next().unwrap_or_default().trim().to_owned();
        let machine = Some(one("machine")).filter(|machine| !machine.is_empty())?;
        Some(Self {
            uid: one("uid").parse().ok(),
            user: one("user"),
            architecture: architecture(&one("elf")),
            machine,
            kernel: one("kernel"),
            host_name: one("name"),
            libc: libc(&one("libc")),
            home: one("home"),
            unix_seconds: one("time").parse().ok(),
            has_systemd: one("systemd") == "yes",
            folders: all("folder").filter_map(folder).collect(),
            installed: all("installed").map(str::to_owned).collect(),
        })
    }

    /// The first folder that will do.
    pub fn folder(&self) -> Option<&Folder> {
        self.folders.iter().find(|folder| folder.is_usable())
    }
}

/// The machine of an ELF header's first twenty bytes, in hexadecimal (gABI, "ELF Header").
fn architecture(hex: &str) -> Option<String> {
    let bytes: Vec<u8> = (0..hex.len() / 2)
        .map(|at| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok())
        .collect::<Option<_>>()?;
    if bytes.len() < 20 || bytes[..4] != *b"\x7fELF" {
        return None;
    }
    let machine = [bytes[18], bytes[19]];
    let machine = match bytes[5] {
        2 => u16::from_be_bytes(machine),
        _ => u16::from_le_bytes(machine),
    };
    Some(match (machine, bytes[4], bytes[5]) {
        (3, ..) => "x86".into(),
        (40, _, 1) => "arm".into(),
        (62, 2, _) => "x86_64".into(),
        (183, 2, 1) => "aarch64".into(),
        (243, 2, _) => "riscv64".into(),
        (machine, ..) => format!("machine {machine}"),
    })
}

/// `glibc 2.35`, `ldd (Ubuntu GLIBC 2.35-0ubuntu3) 2.35`, `GNU C Library (...) stable release version 2.36.`
fn libc(text: &str) -> Libc {
    if text.to_lowercase().contains("musl") {
        return Libc::Musl;
    }
    let is_gnu = ["glibc", "GLIBC", "GNU C Library", "GNU libc", "ldd ("]
        .iter()
        .any(|word| text.contains(word));
    let version = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_digit());
        let mut numbers = word.split(['.', '-']);
        let (major, minor) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        (major == 2).then_some(Libc::Glibc(major, minor))
    };
    match text
        .split_whitespace()
        .rev()
        .find_map(version)
        .filter(|_| is_gnu)
    {
        Some(libc) => libc,
        None => Libc::Unknown(text.chars().take(80).collect()),
    }
}

/// `ok|/dev/root 30000 10000 20000 34% /|/home/u/x`; df counts in kibibytes.
fn folder(line: &str) -> Option<Folder> {
    let mut parts = line.splitn(3, '|');
    let state = match parts.next()? {
        "ok" => FolderState::Usable,
        "noexec" => FolderState::NoExec,
        "full" => FolderState::Full,
        _ => FolderState::Unwritable,
    };
    let numbers: Vec<&str> = parts.next()?.split_whitespace().collect();
    let number = |at: usize| numbers.get(at)?.parse::<u64>().ok();
    // A file system of no size, such as the kernel's first one, does not tell of room.
    let free = number(3).filter(|_| number(1) != Some(0));
    Some(Folder {
        path: parts.next()?.to_owned(),
        state,
        free: free.map(|free| free << 10),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_32_bit_system_under_a_64_bit_kernel_is_32_bit() {
        let text = "uid=1000\nuser=pi\nmachine=aarch64\nkernel=6.1.0\nname=pi\n\
            elf=7f454c4601010100000000000000000003002800\nlibc=glibc 2.31\nhome=/home/pi\ntime=1700000000\n\
            systemd=yes\nfolder=ok|/dev/root 30000 10000 20000 34% /|/home/pi/.local/lib/edgedyno\n\
            installed=/home/pi/.local/lib/edgedyno/0.1.0-ab/edgedyno-agent\n";
        let probe = Probe::parse(text).unwrap();
        assert_eq!(probe.architecture.as_deref(), Some("arm"));
        assert_eq!(probe.machine, "aarch64");
        assert_eq!(
            (probe.uid, probe.libc.clone()),
            (Some(1000), Libc::Glibc(2, 31))
        );
        assert_eq!(probe.folders[0].free, Some(20_000 << 10));
        assert_eq!(probe.folder(), None, "20 MB are too little");
        assert!(probe.folders[0].fault().unwrap().contains("19 MiB left"));
        assert_eq!(probe.installed.len(), 1);
        assert!(probe.has_systemd);
    }

    #[test]
    fn processors_are_read_from_the_header() {
        let header = |class: u8, order: u8, machine: u16| {
            let mut bytes = b"\x7fELF".to_vec();
            bytes.extend([class, order, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0]);
            bytes.extend(match order {
                2 => machine.to_be_bytes(),
                _ => machine.to_le_bytes(),
            });
            bytes
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        };
        let named = |class, order, machine| architecture(&header(class, order, machine)).unwrap();
        assert_eq!(named(2, 1, 183), "aarch64");
        assert_eq!(named(2, 1, 62), "x86_64");
        assert_eq!(named(1, 1, 40), "arm");
        assert_eq!(named(2, 1, 243), "riscv64");
        assert_eq!(named(1, 2, 8), "machine 8");
        for text in [
            "",
            "7f454c46",
            "zz",
            "23212f62696e2f7368000000000000000000000000",
        ] {
            assert_eq!(architecture(text), None, "{text}");
        }
    }

    #[test]
    fn c_libraries_are_told_from_what_their_tools_say() {
        for (text, expected) in [
            ("glibc 2.36", Libc::Glibc(2, 36)),
            (
                "ldd (Ubuntu GLIBC 2.27-3ubuntu1.6) 2.27",
                Libc::Glibc(2, 27),
            ),
            ("ldd (GNU libc) 2.35", Libc::Glibc(2, 35)),
            (
                "GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.",
                Libc::Glibc(2, 36),
            ),
            ("musl /lib/ld-musl-aarch64.so.1", Libc::Musl),
            ("musl libc (aarch64)", Libc::Musl),
        ] {
            assert_eq!(libc(text), expected, "{text}");
        }
        assert_eq!(
            libc("sh: ldd: not found"),
            Libc::Unknown("sh: ldd: not found".into())
        );
    }

    #[test]
    fn folders_are_usable_only_when_all_is_well() {
        let room = ROOM >> 10;
        let read = |state: &str, free: u64| {
            folder(&format!("{state}|tmpfs 99 9 {free} 1% /m|/m/edgedyno")).unwrap()
        };
        assert!(read("ok", room).is_usable());
        assert!(!read("ok", room - 1).is_usable());
        assert!(!read("noexec", room).is_usable() && !read("full", room).is_usable());
        assert!(
            folder("ok||/m").unwrap().is_usable(),
            "a board without df may have room"
        );
        let first = folder("ok|rootfs 0 0 0 0% /|/m").unwrap();
        assert!(first.free.is_none() && first.is_usable(), "it has no size");
        assert_eq!(folder("ok|x"), None);
        assert!(!folder("ok||/m $(x)").unwrap().is_usable());
    }

    #[test]
    fn the_script_runs_here_and_every_answer_is_understood() {
        let home = tempfile::tempdir().unwrap();
        let kept = home.path().join("kept");
        std::fs::create_dir(&kept).unwrap();
        let script = format!(
            "{SCRIPT}\nlook \"$HOME/.local/lib/edgedyno\"\nlook /proc/edgedyno\nlook \"$HOME/kept\"\n"
        );
        for shell in ["/bin/sh", "/bin/bash"] {
            let output = std::process::Command::new(shell)
                .args(["-c", &script])
                .env("HOME", home.path())
                .output()
                .unwrap();
            let probe = Probe::parse(&String::from_utf8(output.stdout).unwrap()).unwrap();
            assert_eq!(probe.architecture.as_deref(), Some(std::env::consts::ARCH));
            assert_eq!(probe.uid, Some(nix::unistd::getuid().as_raw()));
            assert!(probe.unix_seconds.unwrap() > 1_700_000_000);
            assert_eq!(probe.folders[0].state, FolderState::Usable);
            assert!(probe.folders[0].free.is_some());
            assert_eq!(probe.folders[1].state, FolderState::Unwritable);
            assert!(kept.is_dir(), "it was there before");
            let left = std::fs::read_dir(home.path()).unwrap().count();
            assert_eq!(left, 1, "it leaves nothing behind");
            assert!(
                output.stderr.is_empty(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}
