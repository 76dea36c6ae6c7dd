//! Bringing the agent to a board, starting it there, and taking it away again.
//!
//! Each build has a folder of its own, `BASE/VERSION-HASH/edgedyno-agent`, so that an update stands beside
//! what runs. Nothing is written over.

use edgedyno_shared::folders::AgentFolders;
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::link::key::PublicKey;

use super::fault::SshError;
use super::probe::Probe;
use super::shell::{Answer, is_plain_path, marker};
use super::{Fault, Shell};
use crate::board::agents::AgentFile;
use crate::board::known::{SshRoute, Start};
use crate::runtime::cache::Cache;

/// Builds that stay on a board, the new one among them.
pub const KEPT: usize = 2;

/// The unit of `--service`, with words between @ for those of one board.
const UNIT: &str = include_str!("../../../../agent/packaging/edgedyno-agent.service");
const UNIT_NAME: &str = "edgedyno-agent.service";

/// Why an agent could not be brought to a board.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    #[error(transparent)]
    Ssh(#[from] SshError),
    #[error("the board's disk is full")]
    Full { said: String },
    #[error("what arrived on the board is not what was sent")]
    Damaged { said: String },
    #[error("the agent cannot run on the board: {said}")]
    CannotRun { said: String },
    #[error("the agent cannot be started as a service: {said}")]
    Service { said: String },
    #[error("the board does not do as it should: {said}")]
    Script { said: String },
}

impl DeployError {
    /// What the user may do about it, where the board has that name.
    pub fn hint(&self, board: &str) -> String {
        match self {
            Self::Ssh(why) => why.hint(board),
            Self::Full { .. } => "make room there, or name another folder with --folder".into(),
            Self::Damaged { .. } => "run the command again".into(),
            Self::CannotRun { said } if said.contains("GLIBC_") => {
                "this agent was linked for a newer C library than the board has: build it with `cargo board \
                 build`, which links for glibc 2.27"
                    .into()
            }
            Self::CannotRun { said } if said.contains("ermission denied") => {
                "nothing can be started in that folder: name another with --folder".into()
            }
            Self::CannotRun { .. } => "see that it is the agent for this board: --agent FILE".into(),
            Self::Service { .. } => "leave out --service: the agent is then started when it is needed".into(),
            Self::Script { .. } => "mend what the board says, and run the command again".into(),
        }
    }
}

/// What came of bringing an agent there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployed {
    /// Its path on the board.
    pub program: String,
    /// Its own word for its build: of the sources that it was made of.
    pub build: String,
    /// Of its file, which also names its folder.
    pub sha256: Sha256,
    /// The agent's key, when it was asked to know this host.
    pub key: Option<PublicKey>,
    /// Bytes that were sent; none when it was there already.
    pub sent: u64,
    /// Older builds that went.
    pub deleted: Vec<String>,
}

/// A host that the agent is to know, and may then come over the network.
#[derive(Debug, Clone)]
pub struct Introduction {
    pub key: PublicKey,
    /// Of the host, for people.
    pub name: String,
}

/// The folder of one build below the base.
pub fn version_folder(base: &str, sha256: &Sha256) -> String {
    let hash = sha256.to_string();
    format!("{base}/{}-{}", edgedyno_shared::VERSION, &hash[..12])
}

/// Sends the agent if it is not there, tries it, and lets it know this host.
pub async fn deploy(
    shell: &Shell,
    base: &str,
    agent: &AgentFile,
    environment: &str,
    introduction: Option<&Introduction>,
    tell: &mut dyn FnMut(u64),
) -> Result<Deployed, DeployError> {
    debug_assert!(is_plain_path(base), "{base}");
    let folder = version_folder(base, &agent.sha256);
    let program = format!("{folder}/edgedyno-agent");
    let script = format!(
        "{}{}{program} self-hash",
        exported(environment),
        absent(base)
    );
    let found = shell.run(&script).await?;
    let hash = agent.sha256.to_string();
    let is_there = found.output.lines().any(|line| line.trim() == hash);
    let unfinished = format!("{base}/.new-{}", marker());
    if !is_there {
        let line = format!(
            "umask 077; mkdir -p {base} && cat > {unfinished} || {{ rm -f {unfinished}; exit 9; }}"
        );
        let sent = shell.send(&line, &agent.path, tell).await?;
        if sent.code != 0 {
            return Err(refused(&sent));
        }
        let note = note_absent(base, &found.output);
        install(shell, &unfinished, &folder, agent, &note).await?;
    }
    let admit = introduction.map(|known| {
        let name: String = known
            .name
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || "-_.@".contains(*c))
            .collect();
        format!("{environment}{program} admit admin {} {name}", known.key)
    });
    let script = format!(
        "{program} version || exit 1\n{}\n{}",
        admit.unwrap_or_default(),
        prune(base, &folder)
    );
    let answer = shell.run(&script).await?;
    let mut lines = answer.output.lines();
    let build = lines
        .next()
        .and_then(|line| line.split_once(" build "))
        .map(|(_, build)| build.to_owned());
    let Some(build) = build.filter(|_| answer.code == 0) else {
        return Err(DeployError::CannotRun {
            said: super::fault::last_words(&answer.stderr),
        });
    };
    let values = |name: &'static str| {
        answer
            .output
            .lines()
            .filter_map(move |line| Some(line.strip_prefix(name)?.to_owned()))
    };
    let key = values("key ").next().and_then(|key| key.parse().ok());
    Ok(Deployed {
        program,
        build,
        sha256: agent.sha256,
        key,
        sent: if is_there { 0 } else { agent.bytes },
        deleted: values("deleted ").collect(),
    })
}

/// The file in the base that lists the folders that were not on the board before: `remove` takes them away
/// again when nothing is in them.
const MADE: &str = ".made";

/// Where the agent keeps its state and what was installed, as lines of a script.
const KEEPS: &str = "state=\"${EDGEDYNO_AGENT_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/edgedyno}\"\n\
    cache=\"${EDGEDYNO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/edgedyno}\"\n";

/// Tells the folders that are not there yet of those that an agent uses, and of the folders above them.
fn absent(base: &str) -> String {
    format!(
        "{KEEPS}above() {{ folder=$1; while [ -n \"$folder\" ] && ! [ -e \"$folder\" ]; do \
         echo \"absent $folder\"; folder=${{folder%/*}}; done; }}\n\
         above {base}; above \"$state\"; above \"$cache\"\n\
         above \"${{XDG_CONFIG_HOME:-$HOME/.config}}/systemd/user\"\n"
    )
}

/// Keeps what [`absent`] told, unless an agent that came before did.
fn note_absent(base: &str, told: &str) -> String {
    let folders = told.lines().filter_map(|line| line.strip_prefix("absent "));
    let folders: Vec<&str> = folders.filter(|folder| is_plain_path(folder)).collect();
    match folders.is_empty() {
        true => String::new(),
        false => format!(
            "[ -e {base}/{MADE} ] || printf '%s\\n' {} > {base}/{MADE}\n",
            folders.join(" ")
        ),
    }
}

/// Tries what arrived under its working name, and gives it its own.
async fn install(
    shell: &Shell,
    unfinished: &str,
    folder: &str,
    agent: &AgentFile,
    note: &str,
) -> Result<(), DeployError> {
    let script = format!(
        "chmod 755 {unfinished}\nhash=$({unfinished} self-hash) || {{ rm -f {unfinished}; exit 8; }}\n\
         if [ \"$hash\" != {} ]; then rm -f {unfinished}; echo \"$hash\"; exit 7; fi\n\
         mkdir -p {folder} && mv -f {unfinished} {folder}/edgedyno-agent || exit 6\n{note}true",
        agent.sha256
    );
    let answer = shell.run(&script).await?;
    let said = super::fault::last_words(&answer.stderr);
    match answer.code {
        0 => Ok(()),
        8 => Err(DeployError::CannotRun { said }),
        7 => Err(DeployError::Damaged { said }),
        _ => Err(refused(&answer)),
    }
}

fn refused(answer: &Answer) -> DeployError {
    let said = super::fault::last_words(&answer.stderr);
    match said.contains("No space left") || said.contains("quota") {
        true => DeployError::Full { said },
        false => DeployError::Script { said },
    }
}

/// Removes all builds but the newest and the one just used; a program that runs keeps its file.
fn prune(base: &str, keep: &str) -> String {
    let others = KEPT - 1;
    format!(
        "touch {keep}\nleft={others}\nfor program in $(ls -dt {base}/*/edgedyno-agent 2>/dev/null); do\n\
         folder=${{program%/edgedyno-agent}}\n[ \"$folder\" = {keep} ] && continue\n\
         if [ \"$left\" -gt 0 ]; then left=$((left - 1)); continue; fi\n\
         rm -rf \"$folder\" && echo \"deleted $folder\"\ndone\nrm -f {base}/.new-*\ntrue\n"
    )
}

/// Who the agent works as on the board.
#[derive(Debug, Clone, Copy)]
pub struct Account<'a> {
    pub is_root: bool,
    /// Empty when it is not known.
    pub home: &'a str,
}

impl<'a> From<&'a Probe> for Account<'a> {
    fn from(probe: &'a Probe) -> Self {
        Self {
            is_root: probe.uid == Some(0),
            home: &probe.home,
        }
    }
}

/// The unit as it stands on that board. The system's own manager gives a service no home, and without one the
/// agent would look for its state elsewhere than the relay does.
pub fn unit(route: &SshRoute, account: Account<'_>) -> String {
    let Account { is_root, home } = account;
    let home = is_plain_path(home).then(|| format!("HOME={home}"));
    let kept = route.environment();
    let variables: Vec<&str> = home
        .as_deref()
        .into_iter()
        .chain(kept.split_whitespace())
        .collect();
    let environment = format!("Environment={}", variables.join(" "));
    let mut words = String::new();
    if let Some(listen) = route.listen {
        words = format!("--listen {listen}");
        if is_root {
            words += " --run-as root";
        }
    }
    let target = if is_root {
        "multi-user.target"
    } else {
        "default.target"
    };
    UNIT.replace("@ENVIRONMENT@", &environment)
        .replace("@PROGRAM@", &route.program)
        .replace("@ARGUMENTS@", words.trim())
        .replace("@TARGET@", target)
}

/// Lets the agent just brought be the one that serves. An older one makes way when nothing runs, else after
/// the repeat that runs, and then becomes the new one with its queue; whether that is still to come.
pub async fn take_over(shell: &Shell, route: &SshRoute) -> Result<bool, DeployError> {
    let environment = exported(&route.environment());
    let script = format!("{environment}{} take-over", route.program);
    let answer = shell.run(&script).await?;
    match (answer.code, answer.output.trim()) {
        (0, "another") => Ok(true),
        (0, _) => Ok(false),
        _ => Err(DeployError::Script {
            said: super::fault::last_words(&answer.stderr),
        }),
    }
}

/// Whether what is started takes the place of what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Free,
    /// The older agent becomes the new one by itself.
    ToBeLeft,
}

/// Starts what the route says is started; on demand nothing is.
pub async fn start(
    shell: &Shell,
    route: &SshRoute,
    account: Account<'_>,
    place: Place,
) -> Result<(), DeployError> {
    let is_root = account.is_root;
    let script = match (route.start, place) {
        (Start::OnDemand, _) | (Start::Detached, Place::ToBeLeft) => return Ok(()),
        (Start::Service, place) => service_script(&unit(route, account), is_root, place),
        (Start::Detached, Place::Free) => {
            let listen = route.listen.map(|listen| listen.to_string());
            detached_script(route, listen, is_root)
        }
    };
    let answer = shell.run(&script).await?;
    match answer.code {
        0 => Ok(()),
        _ => Err(DeployError::Service {
            said: super::fault::last_words(&answer.stderr),
        }),
    }
}

/// A service that is still to become the new agent keeps its process, and is not started anew.
fn service_script(unit: &str, is_root: bool, place: Place) -> String {
    let (folder, systemctl, journal, linger) = match is_root {
        true => (
            "/etc/systemd/system".to_owned(),
            "systemctl",
            "journalctl",
            "true",
        ),
        false => (
            "${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user".to_owned(),
            "systemctl --user",
            "journalctl --user",
            // Without it the service ends with the user's last session.
            "loginctl enable-linger",
        ),
    };
    let written = format!(
        "folder=\"{folder}\"\n{systemctl} --version >/dev/null || exit 1\nmkdir -p \"$folder\" || exit 1\n\
         cat > \"$folder/{UNIT_NAME}\" <<'EDGEDYNO_UNIT' || exit 1\n{unit}\nEDGEDYNO_UNIT\n{linger}\n\
         {systemctl} daemon-reload && {systemctl} enable {UNIT_NAME} || exit 1\n"
    );
    let started = format!(
        "{systemctl} restart {UNIT_NAME} || exit 1\n\
         # A service that ends at once was started all the same.\nsleep 1\n\
         {systemctl} is-active --quiet {UNIT_NAME} && exit 0\n\
         {journal} --unit {UNIT_NAME} --lines 3 --output cat --no-pager >&2\nexit 1"
    );
    match place {
        Place::Free => written + &started,
        Place::ToBeLeft => written,
    }
}

/// A daemon that outlives this connection, with its log where others of its kind have it.
fn detached_script(route: &SshRoute, listen: Option<String>, is_root: bool) -> String {
    let program = &route.program;
    let mut words = String::new();
    if let Some(listen) = listen {
        words = format!(" --listen {listen}");
        if is_root {
            words += " --run-as root";
        }
    }
    let environment = exported(&route.environment());
    // A wait, so that what cannot be started is seen to fail.
    format!(
        "{environment}state=\"${{EDGEDYNO_AGENT_STATE:-${{XDG_STATE_HOME:-$HOME/.local/state}}/edgedyno}}\"\n\
         umask 077; mkdir -p \"$state\"\n\
         away=$(command -v setsid) || away=$(command -v nohup) || away=\n\
         $away {program} serve{words} </dev/null >>\"$state/agent.log\" 2>&1 &\n\
         daemon=$!\nsleep 1\nkill -0 $daemon 2>/dev/null || {{ tail -n 2 \"$state/agent.log\" >&2; exit 1; }}"
    )
}

/// Variables before a command, as a line of a script.
fn exported(environment: &str) -> String {
    match environment.trim() {
        "" => String::new(),
        variables => format!("export {variables}\n"),
    }
}

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
    let script = removal(base, &exported(&route.environment()), own);
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

/// The script of [`remove`]. A daemon that was told to leave may still be about it.
fn removal(base: &str, environment: &str, own: &Own) -> String {
    let test = own.test();
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
         for folder in \"${{XDG_RUNTIME_DIR:-/nowhere}}/edgedyno\" \"/dev/shm/edgedyno-$(id -u)\"; do empty \"$folder\"; done\n\
         for folder in {base}/*/; do [ -f \"$folder/edgedyno-agent\" ] && gone \"${{folder%/}}\"; done\n\
         made=$(cat {base}/{MADE} 2>/dev/null)\n\
         rm -f {base}/.new-* {base}/{MADE}\n\
         case \"$state\" in {base}/*) empty \"${{state%/*}}\"; empty \"${{cache%/*}}\";; esac\n\
         empty {base}\n\
         for folder in $made; do empty \"$folder\"; done\ntrue"
    )
}

/// A file of a runtime, put where the agent looks for it.
pub async fn put_runtime_file(
    shell: &Shell,
    environment: &str,
    below: &str,
    file: &std::path::Path,
    sha256: &str,
    tell: &mut dyn FnMut(u64),
) -> Result<String, DeployError> {
    let name = file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let folder =
        format!("\"${{EDGEDYNO_CACHE:-${{XDG_CACHE_HOME:-$HOME/.cache}}/edgedyno}}/{below}\"");
    let environment = exported(environment).replace('\n', "; ");
    let unfinished = format!(".new-{}", marker());
    let line = format!(
        "{environment}umask 077; mkdir -p {folder} && cd {folder} && cat > {unfinished} || \
         {{ rm -f {unfinished}; exit 9; }}; mv -f {unfinished} {name}; pwd"
    );
    if !super::shell::is_plain(&line) {
        return Err(DeployError::Ssh(SshError::new(
            shell,
            Fault::Shell,
            format!("`{name}` is no name for a file on a board"),
        )));
    }
    let sent = shell.send(&line, file, tell).await?;
    if sent.code != 0 {
        return Err(refused(&sent));
    }
    let folder = sent
        .output
        .lines()
        .last()
        .unwrap_or_default()
        .trim()
        .to_owned();
    let path = format!("{folder}/{name}");
    check_hash(shell, &path, sha256).await?;
    Ok(path)
}

/// By the board's own tool where it has one; a board without gets no check beyond ssh's.
async fn check_hash(shell: &Shell, path: &str, sha256: &str) -> Result<(), DeployError> {
    let script = format!(
        "command -v sha256sum >/dev/null || exit 0\nsha256sum \"{path}\" | cut -d ' ' -f 1"
    );
    let answer = shell.run(&script).await?;
    match answer.output.trim() {
        "" => Ok(()),
        found if found == sha256 => Ok(()),
        found => Err(DeployError::Damaged {
            said: format!("{path} has sha256 {found}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn route(start: Start, listen: Option<&str>) -> SshRoute {
        SshRoute {
            destination: "ssh://u@h".parse().unwrap(),
            program: "/home/u/.local/lib/edgedyno/0.1.0-ab/edgedyno-agent".into(),
            architecture: "aarch64".into(),
            start,
            listen: listen.map(|listen| listen.parse().unwrap()),
            keep: None,
        }
    }

    #[test]
    fn a_unit_starts_the_program_that_was_brought() {
        let user = Account {
            is_root: false,
            home: "/home/u",
        };
        let unit = unit(&route(Start::Service, Some("0.0.0.0:7447")), user);
        let start = "ExecStart=/home/u/.local/lib/edgedyno/0.1.0-ab/edgedyno-agent serve --listen 0.0.0.0:7447\n";
        assert!(unit.contains(start), "{unit}");
        assert!(unit.contains("WantedBy=default.target"));
        assert!(unit.contains("\nEnvironment=HOME=/home/u\n"), "{unit}");
        let settings: Vec<&str> = unit.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(!settings.join("\n").contains('@'), "{unit}");
    }

    #[test]
    fn a_service_of_root_says_who_measures() {
        let root = Account {
            is_root: true,
            home: "/root",
        };
        let unit = unit(&route(Start::Service, Some("0.0.0.0:7447")), root);
        assert!(
            unit.contains("--run-as root") && unit.contains("multi-user.target"),
            "{unit}"
        );
        let elsewhere = SshRoute {
            keep: Some("/opt/edgedyno".into()),
            ..route(Start::Service, None)
        };
        let unit = super::unit(&elsewhere, root);
        assert!(unit.contains("edgedyno-agent serve \n"), "{unit}");
        let variables = "\nEnvironment=HOME=/root XDG_STATE_HOME=/opt/edgedyno/state XDG_CACHE_HOME=/opt/edgedyno/cache\n";
        assert!(
            unit.contains(variables),
            "the service and the relay look in the same folder: {unit}"
        );
    }

    #[test]
    fn a_service_that_measures_keeps_its_process() {
        let restarts = |place| service_script("unit", false, place).contains("restart");
        assert!(restarts(Place::Free));
        assert!(!restarts(Place::ToBeLeft));
        let script = service_script("unit", false, Place::ToBeLeft);
        assert!(
            script.contains("daemon-reload"),
            "what starts next is the new one: {script}"
        );
    }

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
        let note = note_absent(&base, &before.join("\n"));
        on_board(
            home,
            &format!(
                "{environment}{KEEPS}mkdir -p {base}/0.1.0-ab \"$state/queue\" \"$cache/runtimes\" \
                 \"$XDG_RUNTIME_DIR/edgedyno\"\ntouch {base}/0.1.0-ab/edgedyno-agent \"$state/agent.log\"\n{note}"
            ),
        );
    }

    /// Takes it away again; units of this machine are none of the board's.
    fn clear(home: &Path, base: &str, environment: &str) -> Vec<String> {
        let script = removal(base, environment, &Own::default());
        let units = home.with_extension("units").display().to_string();
        on_board(home, &script.replace("/etc/systemd/system", &units))
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
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
        let keep = exported(&crate::board::known::environment(Some(&at)));
        bring(&home, &base, &keep);
        // As an agent that came before there was a list.
        std::fs::remove_file(base.join(MADE)).unwrap();
        assert_eq!(names(&base), ["0.1.0-ab", "cache", "state"]);
        let deleted = clear(&home, &at, &keep);
        assert!(!base.exists(), "{deleted:#?}");
        assert!(names(&home).is_empty());
    }

    #[test]
    fn the_newest_builds_stay() {
        let base = tempfile::tempdir().unwrap();
        let at = base.path().display().to_string();
        for (age, name) in ["0.1.0-d", "0.1.0-c", "0.1.0-b", "0.1.0-a"]
            .iter()
            .enumerate()
        {
            let folder = base.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            let program = std::fs::File::create(folder.join("edgedyno-agent")).unwrap();
            let minutes = std::time::Duration::from_secs(60 * age as u64);
            program
                .set_modified(std::time::SystemTime::UNIX_EPOCH + minutes)
                .unwrap();
        }
        std::fs::create_dir(base.path().join("something-else")).unwrap();
        let script = prune(&at, &format!("{at}/0.1.0-d"));
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", &script])
            .output()
            .unwrap();
        let left = |name: &str| base.path().join(name).exists();
        assert!(
            left("0.1.0-d") && left("0.1.0-a"),
            "the one in use, and the newest beside it"
        );
        assert!(!left("0.1.0-b") && !left("0.1.0-c") && left("something-else"));
        let told = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            told,
            format!("deleted {at}/0.1.0-b\ndeleted {at}/0.1.0-c\n")
        );
    }
}
