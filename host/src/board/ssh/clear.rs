//! Taking the agent away from a board again: all of it, or what an `add` brought that failed.

use edgedyno_shared::folders::AgentFolders;
use edgedyno_shared::link::key::PublicKey;

use super::Shell;
use super::deploy::{
    Before, DeployError, HOSTS, KEEPS, MADE, exported, line_of, on_disk, version_folder,
};
use super::fault::SshError;
use super::shell::{is_plain_path, quoted};
use super::start::UNIT_NAME;
use crate::board::agents::AgentFile;
use crate::board::known::SshRoute;
use crate::runtime::cache::Cache;

/// What was taken away from a board.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    pub deleted: Vec<String>,
    /// Folders of this machine's own use, which a board has in common with it when it is this machine.
    pub kept: Vec<String>,
}

/// What this machine uses itself, by which it is known again at the other end of an ssh.
#[derive(Debug, Clone, Default)]
pub struct Own {
    /// The kernel's number of this boot.
    boot: Option<String>,
    folders: Vec<String>,
}

impl Own {
    pub fn read() -> Self {
        let uid = nix::unistd::getuid().as_raw();
        let state = AgentFolders::from_env(|name| std::env::var_os(name), uid);
        let state = state.ok().map(|folders| folders.state);
        let cache = Cache::from_environment()
            .ok()
            .map(|cache| cache.root().to_owned());
        let folders = state.into_iter().chain(cache);
        let folders = folders.map(|folder| folder.display().to_string());
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        Self {
            boot: boot.ok().map(|boot| boot.trim().to_owned()),
            folders: folders.filter(|folder| is_plain_path(folder)).collect(),
        }
    }

    /// A shell function that says whether a folder is one of these.
    fn test(&self) -> String {
        let (Some(boot), false) = (&self.boot, self.folders.is_empty()) else {
            return "own() { false; }\n".into();
        };
        format!(
            "own() {{ [ \"$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)\" = \"{boot}\" ] || return 1; \
             case \"$1\" in {}) echo \"kept $1\";; *) return 1;; esac; }}\n",
            self.folders.join("|")
        )
    }
}

/// Takes away everything that was brought there: builds, service, state, installed runtimes. The daemon must
/// have left.
pub async fn remove(
    shell: &Shell,
    base: &str,
    route: &SshRoute,
    own: &Own,
) -> Result<Removed, DeployError> {
    debug_assert!(is_plain_path(base), "{base}");
    let environment = exported(&route.environment());
    let asked = shell.run(&(environment.clone() + ASK_VARIABLES)).await?;
    let arenas = arenas(&asked.output);
    let script = removal(base, &environment, own, arenas.as_deref());
    let answer = shell.run(&script).await?;
    let told = |word: &str| -> Vec<String> {
        let lines = answer.output.lines();
        let paths = lines.filter_map(|line| line.strip_prefix(word));
        paths.map(str::to_owned).collect()
    };
    Ok(Removed {
        deleted: told("deleted "),
        kept: told("kept "),
    })
}

/// What an agent works out its folders from, as lines.
const ASK_VARIABLES: &str = "for name in EDGEDYNO_AGENT_STATE XDG_STATE_HOME HOME; do\n\
    eval \"value=\\${$name:-}\"; printf '%s=%s\\n' \"$name\" \"$value\"; done\n";

/// The name of the folder for arenas of the agent there, which one that is killed leaves. It follows the state
/// folder, so that no other agent's has it.
fn arenas(variables: &str) -> Option<String> {
    let of = |name: &str| {
        let mut lines = variables.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    };
    // Its place does not matter here, and with it the user's number.
    let folders = AgentFolders::from_env(|name| of(name).map(Into::into), 0).ok()?;
    let name = folders.runtime.file_name()?.to_str()?;
    folders.state.is_absolute().then(|| name.to_owned())
}

/// The script of [`remove`]. A daemon that was told to leave may still be about it.
fn removal(base: &str, environment: &str, own: &Own, arenas: Option<&str>) -> String {
    let test = own.test();
    let arenas = arenas.map_or_else(String::new, |name| {
        format!("[ -e \"$state\" ] || ! [ -O \"$folder/{name}\" ] || gone \"$folder/{name}\"; ")
    });
    format!(
        "{environment}{test}{KEEPS}\
         gone() {{ [ -e \"$1\" ] || [ -L \"$1\" ] || return 0; rm -rf \"$1\" && echo \"deleted $1\"; }}\n\
         empty() {{ rmdir \"$1\" 2>/dev/null && echo \"deleted $1\"; }}\n\
         root=/etc/systemd/system/{UNIT_NAME}\n\
         own=\"${{XDG_CONFIG_HOME:-$HOME/.config}}/systemd/user/{UNIT_NAME}\"\n\
         if [ -e \"$root\" ] && [ -w \"$root\" ]; then systemctl disable --now {UNIT_NAME} 2>/dev/null; gone \"$root\"; fi\n\
         if [ -e \"$own\" ]; then systemctl --user disable --now {UNIT_NAME} 2>/dev/null; gone \"$own\"; fi\n\
         daemon=$(cat \"$state/agent.lock\" 2>/dev/null)\n\
         for turn in 1 2 3; do [ -n \"$daemon\" ] && kill -0 \"$daemon\" 2>/dev/null || break; sleep 1; done\n\
         for folder in \"$state\" \"$cache\"; do own \"$folder\" || gone \"$folder\"; done\n\
         for folder in \"${{XDG_RUNTIME_DIR:-/nowhere}}/edgedyno\" \"/dev/shm/edgedyno-$(id -u)\"; do {arenas}empty \"$folder\"; done\n\
         for folder in {base}/*/; do [ -f \"$folder/edgedyno-agent\" ] && gone \"${{folder%/}}\"; done\n\
         made=$(cat {base}/{MADE} 2>/dev/null)\n\
         rm -f {base}/.new-* {base}/{MADE}\n\
         case \"$state\" in {base}/*) empty \"${{state%/*}}\"; empty \"${{cache%/*}}\";; esac\n\
         empty {base}\n\
         for folder in $made; do empty \"$folder\"; done\ntrue"
    )
}

/// Takes back what an `add` brought that failed, and only that: the agent when the board did not have it, and
/// folders that were not there before, with what the agent put into those of its own. In a list of hosts that was
/// there before, this host's line.
pub async fn undo(
    shell: &Shell,
    base: &str,
    agent: &AgentFile,
    before: &Before,
    environment: &str,
    host: &PublicKey,
) -> Result<(), SshError> {
    let folder = version_folder(base, &agent.sha256);
    let script = exported(environment) + &undoing(base, &folder, before, host);
    shell.run(&script).await.map(drop)
}

/// The script of [`undo`]. A state folder that was there before may name the program as the one that serves. Of
/// the cache only what is empty goes: it may be that of the host too.
fn undoing(base: &str, folder: &str, before: &Before, host: &PublicKey) -> String {
    let made = before.absent.join(" ");
    let mut program = String::new();
    if !before.has_it {
        program.extend(["serves ", folder, " || rm -rf ", folder, "\n"]);
        if !before.is_noted {
            program.extend(["rm -f ", base, "/", MADE, "\n"]);
        }
    }
    let dismissal = dismissal(host, before.admitted.as_deref());
    format!(
        "{KEEPS}made() {{ case \" {made} \" in *\" $1 \"*) ;; *) return 1;; esac; }}\n\
         serves() {{ grep -qF \"$1/\" \"$state/program\" 2>/dev/null; }}\n\
         if made \"$state\"; then\ndaemon=$(cat \"$state/agent.lock\" 2>/dev/null)\n\
         [ -z \"$daemon\" ] || kill \"$daemon\" 2>/dev/null\n\
         for turn in 1 2 3; do [ -n \"$daemon\" ] && kill -0 \"$daemon\" 2>/dev/null || break; sleep 1; done\n\
         rm -rf \"$state\"\nfi\n{dismissal}{program}\
         if made \"$cache\"; then rmdir \"$cache\"/* 2>/dev/null; fi\n\
         for folder in {made}; do rmdir \"$folder\" 2>/dev/null; done\ntrue"
    )
}

/// Takes a host's line out of the agent's list, and the list away when nothing else is in it; a line that it had
/// before comes back, with the role that it had.
fn dismissal(host: &PublicKey, had: Option<&str>) -> String {
    let line = line_of(host);
    // A line that is as it was is left where it is.
    let (is_other, back) = match had.map(quoted) {
        None => (String::new(), String::new()),
        Some(had) => (
            format!(" && ! grep -qxF {had} \"$hosts\""),
            format!("[ $1 -gt 1 ] || {{ printf '%s\\n' {had} >> \"$hosts.new\"; set -- 0; }}\n"),
        ),
    };
    format!(
        "hosts={HOSTS}\nif grep -qE {line} \"$hosts\" 2>/dev/null{is_other}; then\numask 077\n\
         grep -vE {line} \"$hosts\" > \"$hosts.new\"\nset -- $?\n{back}\
         case $1 in 0) {sync}mv -f \"$hosts.new\" \"$hosts\";; 1) rm -f \"$hosts.new\" \"$hosts\";; \
         *) rm -f \"$hosts.new\";; esac\nfi\n",
        sync = on_disk("\"$hosts.new\"")
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::deploy::{absent, note_absent, told_absent};
    use super::super::testing::{names, route};
    use super::*;
    use crate::board::known::Start;

    const HOST: PublicKey = PublicKey([5; 32]);

    /// A board's shell with that home, and nothing of this machine's own.
    fn on_board(home: &Path, script: &str) -> Vec<String> {
        let tools = home.with_extension("tools");
        std::fs::create_dir_all(&tools).unwrap();
        let id = tools.join("id");
        std::fs::write(&id, "#!/bin/sh\necho 4294967294\n").unwrap();
        std::fs::set_permissions(&id, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", script])
            .env_clear()
            .env("HOME", home)
            .env("XDG_RUNTIME_DIR", home.with_extension("run"))
            .env("PATH", format!("{}:/usr/bin:/bin", tools.display()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// What an agent leaves on a board: build, state, cache, arenas.
    fn bring(home: &Path, base: &Path, environment: &str) {
        let base = base.display().to_string();
        let before = on_board(home, &format!("{environment}{}", absent(&base)));
        let note = note_absent(&base, &told_absent(&before.join("\n")));
        on_board(
            home,
            &format!(
                "{environment}{KEEPS}mkdir -p {base} && {note}mkdir -p {base}/0.1.0-ab \"$state/queue\" \"$cache/runtimes\" \
                 \"$XDG_RUNTIME_DIR/edgedyno\"\ntouch {base}/0.1.0-ab/edgedyno-agent \"$state/agent.log\"\n"
            ),
        );
    }

    /// What [`look`] tells of a board without the agent.
    fn before(home: &Path, base: &Path) -> Before {
        let told = on_board(home, &absent(&base.display().to_string()));
        Before {
            absent: told_absent(&told.join("\n")),
            ..Before::default()
        }
    }

    /// Takes it away again; units of this machine are none of the board's.
    fn clear(home: &Path, base: &str, environment: &str) -> Vec<String> {
        let asked = on_board(home, &format!("{environment}{ASK_VARIABLES}"));
        let arenas = arenas(&asked.join("\n"));
        let script = removal(base, environment, &Own::default(), arenas.as_deref());
        let units = home.with_extension("units").display().to_string();
        on_board(home, &script.replace("/etc/systemd/system", &units))
    }

    #[test]
    fn a_board_is_left_as_it_was_found() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().join("home");
        std::fs::create_dir_all(home.join(".cache")).unwrap();
        let base = home.join(".local/lib/edgedyno");
        bring(&home, &base, "");
        assert_eq!(names(&home), [".cache", ".local"]);
        let at = base.display().to_string();
        let deleted = clear(&home, &at, "");
        assert_eq!(names(&home), [".cache"], "{deleted:#?}");
        assert!(names(&home.with_extension("run")).is_empty());
        let home = home.display();
        for path in [
            format!("{at}/0.1.0-ab"),
            at.clone(),
            format!("{home}/.local/state/edgedyno"),
            format!("{home}/.cache/edgedyno"),
            format!("{home}/.local"),
        ] {
            assert!(deleted.contains(&format!("deleted {path}")), "{deleted:#?}");
        }
    }

    #[test]
    fn folders_that_others_use_or_had_before_stay() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().join("home");
        std::fs::create_dir_all(home.join(".local/lib")).unwrap();
        let base = home.join(".local/lib/edgedyno");
        bring(&home, &base, "");
        std::fs::write(home.join(".local/state/of-another"), "").unwrap();
        let at = base.display().to_string();
        clear(&home, &at, "");
        assert_eq!(names(&home), [".local"]);
        assert_eq!(names(&home.join(".local")), ["lib", "state"]);
        assert!(names(&home.join(".local/lib")).is_empty(), "it was there");
        assert_eq!(names(&home.join(".local/state")), ["of-another"]);
    }

    #[test]
    fn a_folder_that_holds_all_of_it_goes_with_all_of_it() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let base = place.path().join("opt");
        let at = base.display().to_string();
        let elsewhere = SshRoute {
            keep: Some(at.clone()),
            ..route(Start::OnDemand, None)
        };
        let keep = exported(&elsewhere.environment());
        bring(&home, &base, &keep);
        // As an agent that came before there was a list.
        std::fs::remove_file(base.join(MADE)).unwrap();
        assert_eq!(names(&base), ["0.1.0-ab", "cache", "state"]);
        let deleted = clear(&home, &at, &keep);
        assert!(!base.exists(), "{deleted:#?}");
        assert!(names(&home).is_empty());
    }

    /// An agent that was killed leaves its arenas; whoever else measures there has others.
    #[test]
    fn arenas_go_with_the_agent_whose_they_are() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let base = home.join(".local/lib/edgedyno");
        bring(&home, &base, "");
        let get = |name: &str| (name == "HOME").then(|| home.clone().into_os_string());
        let folders = AgentFolders::from_env(get, 7).unwrap();
        let arenas = home.with_extension("run").join("edgedyno");
        let own = arenas.join(folders.runtime.file_name().unwrap());
        for folder in [&own, &arenas.join("state-of-another")] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("7.arena"), "trials").unwrap();
        }
        let deleted = clear(&home, &base.display().to_string(), "");
        assert!(deleted.contains(&format!("deleted {}", own.display())));
        assert_eq!(names(&arenas), ["state-of-another"], "{deleted:#?}");
    }

    #[test]
    fn a_place_that_tells_no_state_folder_has_no_arenas_to_take_away() {
        for told in ["", "EDGEDYNO_AGENT_STATE=\nXDG_STATE_HOME=\nHOME=\n"] {
            assert_eq!(arenas(told), None);
        }
        let moved = "EDGEDYNO_AGENT_STATE=/a\nXDG_STATE_HOME=\nHOME=/h\n";
        assert_ne!(arenas(moved), arenas("HOME=/h\n"));
        assert!(arenas(moved).unwrap().starts_with("state-"));
    }

    #[test]
    fn what_a_failed_add_brought_goes_again_and_nothing_else() {
        for had in [
            None,
            Some(".local/state"),
            Some(".local/lib/edgedyno/0.0.9-cd"),
        ] {
            let place = tempfile::tempdir().unwrap();
            let home = place.path().join("home");
            std::fs::create_dir(&home).unwrap();
            if let Some(had) = had {
                std::fs::create_dir_all(home.join(had)).unwrap();
            }
            let base = home.join(".local/lib/edgedyno");
            let before = before(&home, &base);
            bring(&home, &base, "");
            let at = base.display().to_string();
            on_board(
                &home,
                &undoing(&at, &format!("{at}/0.1.0-ab"), &before, &HOST),
            );
            let left = on_board(&home, "cd \"$HOME\" && find .");
            let left: Vec<&str> = left
                .iter()
                .filter_map(|path| path.strip_prefix("./"))
                .collect();
            let kept: Vec<&Path> = had
                .map(Path::new)
                .into_iter()
                .flat_map(Path::ancestors)
                .collect();
            assert!(
                left.iter().all(|path| kept.contains(&Path::new(path))),
                "{had:?}: {left:?}"
            );
            assert!(had.is_none_or(|had| home.join(had).is_dir()), "{had:?}");
        }
    }

    #[test]
    fn a_failed_add_takes_no_program_away_that_serves_or_was_there() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().join("home");
        let state = home.join(".local/state/edgedyno");
        std::fs::create_dir_all(&state).unwrap();
        let base = home.join(".local/lib/edgedyno");
        let before = before(&home, &base);
        bring(&home, &base, "");
        let at = base.display().to_string();
        let folder = format!("{at}/0.1.0-ab");
        std::fs::write(state.join("program"), format!("x {folder}/edgedyno-agent")).unwrap();
        on_board(&home, &undoing(&at, &folder, &before, &HOST));
        assert!(Path::new(&folder).is_dir(), "it serves");
        std::fs::remove_file(state.join("program")).unwrap();
        let had = Before {
            has_it: true,
            ..before.clone()
        };
        on_board(&home, &undoing(&at, &folder, &had, &HOST));
        assert!(Path::new(&folder).is_dir(), "it was there before");
        on_board(&home, &undoing(&at, &folder, &before, &HOST));
        assert!(!base.exists());
        assert!(state.join("agent.log").is_file(), "another's state");
    }

    /// Rights that somebody else gave are theirs to take.
    #[test]
    fn of_a_list_of_hosts_that_was_there_only_this_hosts_line_goes() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().join("home");
        let hosts = home.join(".local/state/edgedyno/identity/authorized_hosts");
        std::fs::create_dir_all(hosts.parent().unwrap()).unwrap();
        let base = home.join(".local/lib/edgedyno");
        let at = base.display().to_string();
        let before = before(&home, &base);
        let other = format!("# {HOST} is the lab\nrun {} {HOST}\n", PublicKey([6; 32]));
        let own = format!("admin {HOST} u@h\n");
        let after = |text: String, before: &Before| {
            std::fs::write(&hosts, text).unwrap();
            on_board(
                &home,
                &undoing(&at, &format!("{at}/0.1.0-ab"), before, &HOST),
            );
            std::fs::read_to_string(&hosts).unwrap_or_default()
        };
        assert_eq!(after(format!("{other}{own}"), &before), other);
        assert_eq!(after(other.clone(), &before), other);
        assert_eq!(after(own.clone(), &before), "");
        assert_eq!(names(hosts.parent().unwrap()), [""; 0]);
        let known = |line: &str| Before {
            admitted: Some(line.trim_end().to_owned()),
            ..before.clone()
        };
        assert_eq!(after(own.clone(), &known(&own)), own, "it was in before");
        let lesser = format!("run {HOST} it's me\n");
        assert_eq!(after(own.clone(), &known(&lesser)), lesser);
        assert_eq!(
            after(format!("{other}{own}"), &known(&lesser)),
            format!("{other}{lesser}")
        );
    }
}
