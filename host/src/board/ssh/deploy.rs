//! Bringing the agent to a board, starting it there, and taking it away again.
//!
//! Each build has a folder of its own, `BASE/VERSION-HASH/edgedyno-agent`, so that an update stands beside
//! what runs. Nothing is written over.

use std::path::Path;

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
    #[error("what arrived on the board is not what was sent{}", said_after(said))]
    Damaged { said: String },
    #[error("the agent cannot run on the board: {said}")]
    CannotRun { said: String },
    #[error("the agent on the board does not take up this host: {said}")]
    Admission { said: String },
    #[error("the agent cannot be started as a service: {said}")]
    Service { said: String },
    #[error("the board does not do as it should: {said}")]
    Script { said: String },
}

fn said_after(said: &str) -> String {
    match said {
        "" => String::new(),
        said => format!(": {said}"),
    }
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
            Self::Admission { .. } => {
                "mend the file on the board that it names, or move it away, and run the command again".into()
            }
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

/// What was on the board before anything was brought there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Before {
    /// The very agent that is to be brought.
    has_it: bool,
    /// What an agent that came before made there.
    is_noted: bool,
    /// Folders that an agent uses and those above them, the deepest first, as far as they were not there.
    absent: Vec<String>,
}

/// Looks at what an agent will find there.
pub async fn look(
    shell: &Shell,
    base: &str,
    agent: &AgentFile,
    environment: &str,
) -> Result<Before, DeployError> {
    debug_assert!(is_plain_path(base), "{base}");
    let folder = version_folder(base, &agent.sha256);
    let script = format!(
        "{}{}[ -e {base}/{MADE} ] && echo noted\n{folder}/edgedyno-agent self-hash",
        exported(environment),
        absent(base)
    );
    let found = shell.run(&script).await?;
    let hash = agent.sha256.to_string();
    Ok(Before {
        has_it: found.output.lines().any(|line| line.trim() == hash),
        is_noted: found.output.lines().any(|line| line == "noted"),
        absent: told_absent(&found.output),
    })
}

/// Sends the agent if it is not there, tries it, and lets it know this host.
pub async fn deploy(
    shell: &Shell,
    base: &str,
    agent: &AgentFile,
    before: &Before,
    environment: &str,
    introduction: Option<&Introduction>,
    tell: &mut dyn FnMut(u64),
) -> Result<Deployed, DeployError> {
    let folder = version_folder(base, &agent.sha256);
    let program = format!("{folder}/edgedyno-agent");
    if !before.has_it {
        let unfinished = format!("{base}/.new-{}", marker());
        let line = format!(
            "umask 077; mkdir -p {base} && cat > {unfinished} || {{ rm -f {unfinished}; exit 9; }}"
        );
        let sent = shell.send(&line, &agent.path, tell).await?;
        if sent.code != 0 {
            return Err(refused(&sent));
        }
        let note = note_absent(base, &before.absent);
        install(shell, &unfinished, &folder, agent, &note).await?;
    }
    let script = format!(
        "{program} version || exit 1\n{}{}",
        introduction.map_or_else(String::new, |known| admission(&program, environment, known)),
        prune(base, &folder)
    );
    let answer = shell.run(&script).await?;
    let said = super::fault::last_words(&answer.stderr);
    let mut lines = answer.output.lines();
    let build = lines
        .next()
        .and_then(|line| line.split_once(" build "))
        .map(|(_, build)| build.to_owned());
    let build = match (answer.code, build) {
        (0, Some(build)) => build,
        (NOT_ADMITTED, _) => return Err(DeployError::Admission { said }),
        _ => return Err(DeployError::CannotRun { said }),
    };
    let values = |name: &'static str| {
        answer
            .output
            .lines()
            .filter_map(move |line| Some(line.strip_prefix(name)?.to_owned()))
    };
    let key = values("key ").next().and_then(|key| key.parse().ok());
    if introduction.is_some() && key.is_none() {
        let said = "it does not tell its key".into();
        return Err(DeployError::Admission { said });
    }
    Ok(Deployed {
        program,
        build,
        sha256: agent.sha256,
        key,
        sent: if before.has_it { 0 } else { agent.bytes },
        deleted: values("deleted ").collect(),
    })
}

/// How the script ends when the agent does not take the host up.
const NOT_ADMITTED: i32 = 3;

/// Lets the agent know a host. One that it does not know is none on the network, which must not go unsaid.
fn admission(program: &str, environment: &str, known: &Introduction) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_.@".contains(*c);
    let name: String = known.name.chars().filter(is_plain).collect();
    format!(
        "{environment}{program} admit admin {} {name} || exit {NOT_ADMITTED}\n",
        known.key
    )
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

/// What [`absent`] told.
fn told_absent(output: &str) -> Vec<String> {
    let folders = output
        .lines()
        .filter_map(|line| line.strip_prefix("absent "));
    let folders = folders.filter(|folder| is_plain_path(folder));
    folders.map(str::to_owned).collect()
}

/// Keeps what was not there, unless an agent that came before did.
fn note_absent(base: &str, folders: &[String]) -> String {
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

/// Removes all builds but the one just used and those used before it; a program that runs keeps its file.
fn prune(base: &str, keep: &str) -> String {
    let others = KEPT - 1;
    format!(
        "touch {keep}/edgedyno-agent\nleft={others}\nfor program in $(ls -dt {base}/*/edgedyno-agent 2>/dev/null); do\n\
         folder=${{program%/edgedyno-agent}}\n[ \"$folder\" = {keep} ] && continue\n\
         if [ \"$left\" -gt 0 ]; then left=$((left - 1)); continue; fi\n\
         rm -rf \"$folder\" && echo \"deleted $folder\"\ndone\n{}true\n",
        sweep(base)
    )
}

/// Removes what uploads left that ended long ago; a younger file may be one of another host that still comes.
/// A busybox whose `find` knows no age leaves them to [`remove`].
fn sweep(base: &str) -> String {
    format!(
        "find {base}/ -maxdepth 1 -name '.new-*' -type f -mmin +60 -exec rm -f {{}} \\; 2>/dev/null\n"
    )
}

/// Takes back what an `add` brought that failed, and only that: the agent when the board did not have it, and
/// folders that were not there before, with what the agent put into those of its own.
pub async fn undo(
    shell: &Shell,
    base: &str,
    agent: &AgentFile,
    before: &Before,
    environment: &str,
) -> Result<(), SshError> {
    let folder = version_folder(base, &agent.sha256);
    let script = exported(environment) + &undoing(base, &folder, before);
    shell.run(&script).await.map(drop)
}

/// The script of [`undo`]. A state folder that was there before may name the program as the one that serves.
fn undoing(base: &str, folder: &str, before: &Before) -> String {
    let made = before.absent.join(" ");
    let mut program = String::new();
    if !before.has_it {
        program += &format!("serves {folder} || rm -rf {folder}\n");
        if !before.is_noted {
            program += &format!("rm -f {base}/{MADE}\n");
        }
    }
    format!(
        "{KEEPS}made() {{ case \" {made} \" in *\" $1 \"*) ;; *) return 1;; esac; }}\n\
         serves() {{ grep -qF \"$1/\" \"$state/program\" 2>/dev/null; }}\n\
         if made \"$state\"; then\ndaemon=$(cat \"$state/agent.lock\" 2>/dev/null)\n\
         [ -z \"$daemon\" ] || kill \"$daemon\" 2>/dev/null\n\
         for turn in 1 2 3; do [ -n \"$daemon\" ] && kill -0 \"$daemon\" 2>/dev/null || break; sleep 1; done\n\
         rm -rf \"$state\"\nfi\n{program}\
         for folder in {made}; do rmdir \"$folder\" 2>/dev/null; done\ntrue"
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
    // A unit that was not there before and does not start is not left to be started by the next boot.
    let written = format!(
        "folder=\"{folder}\"\n{systemctl} --version >/dev/null || exit 1\nmkdir -p \"$folder\" || exit 1\n\
         had=; [ -e \"$folder/{UNIT_NAME}\" ] && had=yes\n\
         back() {{ [ -n \"$had\" ] || {{ {systemctl} disable --now {UNIT_NAME}; rm -f \"$folder/{UNIT_NAME}\"; \
         {systemctl} daemon-reload; }} >/dev/null 2>&1; exit 1; }}\n\
         cat > \"$folder/{UNIT_NAME}\" <<'EDGEDYNO_UNIT' || back\n{unit}\nEDGEDYNO_UNIT\n{linger}\n\
         {systemctl} daemon-reload && {systemctl} enable {UNIT_NAME} || back\n"
    );
    let started = format!(
        "{systemctl} restart {UNIT_NAME} || back\n\
         # A service that ends at once was started all the same.\nsleep 1\n\
         {systemctl} is-active --quiet {UNIT_NAME} && exit 0\n\
         {journal} --unit {UNIT_NAME} --lines 3 --output cat --no-pager >&2\nback"
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

/// A file of a runtime, to be put where the agent looks for it.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeFile<'a> {
    pub path: &'a Path,
    pub bytes: u64,
    pub sha256: &'a str,
    /// Its folder, below the cache.
    pub below: &'a str,
}

/// Sends it under a working name, and gives it its own when all of it is there: the end of an ssh that died
/// looks like the end of the file to the board. The path that it has then.
pub async fn put_runtime_file(
    shell: &Shell,
    environment: &str,
    file: &RuntimeFile<'_>,
    tell: &mut dyn FnMut(u64),
) -> Result<String, DeployError> {
    let name = file.path.file_name().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let folder = format!(
        "\"${{EDGEDYNO_CACHE:-${{XDG_CACHE_HOME:-$HOME/.cache}}/edgedyno}}/{}\"",
        file.below
    );
    let unfinished = format!(".new-{}", marker());
    let line = format!(
        "{}umask 077; mkdir -p {folder} && cd {folder} && cat > {unfinished} || \
         {{ rm -f {unfinished}; exit 9; }}",
        exported(environment).replace('\n', "; ")
    );
    if !super::shell::is_plain(&line) || !is_plain_path(&format!("/{name}")) {
        return Err(DeployError::Ssh(SshError::new(
            shell,
            Fault::Shell,
            format!("`{name}` is no name for a file on a board"),
        )));
    }
    let sent = shell.send(&line, file.path, tell).await?;
    if sent.code != 0 {
        return Err(refused(&sent));
    }
    let script = exported(environment) + &settled(&folder, &unfinished, &name, file);
    let answer = shell.run(&script).await?;
    match answer.code {
        0 => Ok(format!("{}/{name}", answer.output.trim())),
        7 => Err(DeployError::Damaged {
            said: super::fault::last_words(&answer.stderr),
        }),
        _ => Err(refused(&answer)),
    }
}

/// Looks at a file that was sent, and gives it its name; its folder is told. A board without any tool for
/// hashes counts bytes, and its agent then says what it opened.
fn settled(folder: &str, unfinished: &str, name: &str, file: &RuntimeFile<'_>) -> String {
    let RuntimeFile { bytes, sha256, .. } = file;
    format!(
        "cd {folder} || exit 6\n\
         damaged() {{ rm -f {unfinished}; echo \"$1\" >&2; exit 7; }}\n\
         there=$(wc -c < {unfinished}) || exit 6\n\
         [ \"$there\" -eq {bytes} ] || damaged \"{name} has $there of {bytes} bytes\"\n\
         hash=$({{ sha256sum {unfinished} || busybox sha256sum {unfinished} || \
         openssl dgst -sha256 -r {unfinished}; }} 2>/dev/null)\nhash=${{hash%% *}}\n\
         case \"$hash\" in ''|{sha256}) ;; *) damaged \"{name} has sha256 $hash\";; esac\n\
         mv -f {unfinished} {name} || exit 6\n{}pwd",
        sweep(".")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(start: Start, listen: Option<&str>) -> SshRoute {
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
        let note = note_absent(&base, &told_absent(&before.join("\n")));
        on_board(
            home,
            &format!(
                "{environment}{KEEPS}mkdir -p {base}/0.1.0-ab \"$state/queue\" \"$cache/runtimes\" \
                 \"$XDG_RUNTIME_DIR/edgedyno\"\ntouch {base}/0.1.0-ab/edgedyno-agent \"$state/agent.log\"\n{note}"
            ),
        );
    }

    /// What [`look`] tells of a board without the agent.
    fn before(home: &Path, base: &Path) -> Before {
        let told = on_board(home, &absent(&base.display().to_string()));
        Before {
            has_it: false,
            is_noted: false,
            absent: told_absent(&told.join("\n")),
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
            on_board(&home, &undoing(&at, &format!("{at}/0.1.0-ab"), &before));
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
        on_board(&home, &undoing(&at, &folder, &before));
        assert!(Path::new(&folder).is_dir(), "it serves");
        std::fs::remove_file(state.join("program")).unwrap();
        let had = Before {
            has_it: true,
            ..before.clone()
        };
        on_board(&home, &undoing(&at, &folder, &had));
        assert!(Path::new(&folder).is_dir(), "it was there before");
        on_board(&home, &undoing(&at, &folder, &before));
        assert!(!base.exists());
        assert!(state.join("agent.log").is_file(), "another's state");
    }

    /// A stand-in for ssh whose uploads go through a filter on their way, on a board with these tools alone.
    fn filtered(folder: &Path, filter: &str, tools: &[&str]) -> Shell {
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
            "#!/bin/sh\nPATH={}\nfor last; do :; done\ncase \"$last\" in\n\
             *'cat >'*) {filter} | /bin/sh -c \"$last\";;\n*) exec /bin/sh -c \"$last\";;\nesac\n",
            bin.display()
        );
        std::fs::write(&ssh, text).unwrap();
        std::fs::set_permissions(&ssh, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        Shell::by(&ssh.display().to_string(), "ssh://h".parse().unwrap())
    }

    const TOOLS: [&str; 8] = ["cat", "find", "head", "mkdir", "mv", "rm", "tr", "wc"];

    fn put(shell: &Shell, cache: &Path, file: &Path) -> Result<String, DeployError> {
        let bytes = std::fs::read(file).unwrap();
        let sha256 = crate::model::digest::Digest::of(&bytes).to_string();
        let sent = RuntimeFile {
            path: file,
            bytes: bytes.len() as u64,
            sha256: &sha256,
            below: "runtimes/onnxruntime/1.30.0",
        };
        let environment = format!("EDGEDYNO_CACHE={} ", cache.display());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(put_runtime_file(shell, &environment, &sent, &mut |_| {}))
    }

    #[test]
    fn a_library_has_its_name_only_when_all_of_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let there = cache.join("runtimes/onnxruntime/1.30.0");
        let file = folder.path().join("libonnxruntime.so.1.30.0");
        std::fs::write(&file, vec![7; 300_000]).unwrap();
        let with_hashes = [&TOOLS[..], &["sha256sum"]].concat();
        // Cut, with and without a tool for hashes; the same length and other bytes; nothing at all.
        for (filter, tools, word) in [
            ("head -c 100000", &with_hashes[..], "100000 of 300000 bytes"),
            ("head -c 100000", &TOOLS, "100000 of 300000 bytes"),
            ("tr '\\007' x", &with_hashes, "has sha256"),
            (": </dev/null", &TOOLS, "0 of 300000 bytes"),
        ] {
            let shell = filtered(folder.path(), filter, tools);
            let refused = put(&shell, &cache, &file).unwrap_err();
            assert!(
                matches!(refused, DeployError::Damaged { .. }),
                "{filter}: {refused}"
            );
            assert!(refused.to_string().contains(word), "{filter}: {refused}");
            assert!(names(&there).is_empty(), "{filter}: {:?}", names(&there));
        }
        for tools in [&with_hashes[..], &TOOLS] {
            let shell = filtered(folder.path(), "cat", tools);
            let path = put(&shell, &cache, &file).unwrap();
            assert_eq!(Path::new(&path), there.join("libonnxruntime.so.1.30.0"));
            assert_eq!(names(&there), ["libonnxruntime.so.1.30.0"]);
            assert_eq!(std::fs::read(path).unwrap(), std::fs::read(&file).unwrap());
        }
    }

    #[test]
    fn a_name_that_a_shell_could_read_as_more_is_not_sent() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lib$(x).so");
        std::fs::write(&file, "x").unwrap();
        let shell = filtered(folder.path(), "cat", &TOOLS);
        let cache = folder.path().join("cache");
        assert!(put(&shell, &cache, &file).is_err());
        assert!(!cache.exists());
    }

    /// A host that the agent does not know is none on the network.
    #[test]
    fn an_agent_that_does_not_take_a_host_up_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let shell = filtered(
            folder.path(),
            "cat",
            &[&TOOLS[..], &["ls", "touch", "chmod"]].concat(),
        );
        let file = folder.path().join("agent");
        std::fs::write(&file, "agent").unwrap();
        let agent = AgentFile {
            path: file,
            sha256: Sha256([0xab; 32]),
            bytes: 5,
        };
        let base = folder.path().join("base");
        let at = base.display().to_string();
        let program = Path::new(&version_folder(&at, &agent.sha256)).join("edgedyno-agent");
        let before = Before {
            has_it: true,
            ..Before::default()
        };
        let known = Introduction {
            key: PublicKey([5; 32]),
            name: "u@h".into(),
        };
        let admitted = |admit: &str| {
            std::fs::create_dir_all(program.parent().unwrap()).unwrap();
            let text = format!(
                "#!/bin/sh\ncase $1 in version) echo 'edgedyno-agent 0.1.0 build b00b';; admit) {admit};; esac\n"
            );
            std::fs::write(&program, text).unwrap();
            let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&program, executable).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let mut tell = |_| {};
            let known = Some(&known);
            runtime.block_on(deploy(&shell, &at, &agent, &before, "", known, &mut tell))
        };
        let refused = admitted("echo 'error: authorized_hosts: line 3' >&2; exit 4").unwrap_err();
        assert!(
            matches!(refused, DeployError::Admission { .. }),
            "{refused}"
        );
        assert!(
            refused.to_string().ends_with("authorized_hosts: line 3"),
            "{refused}"
        );
        let silent = admitted("exit 0").unwrap_err();
        assert!(matches!(silent, DeployError::Admission { .. }), "{silent}");
        let key = PublicKey([9; 32]);
        let deployed = admitted(&format!("echo 'key {key}'")).unwrap();
        assert_eq!((deployed.key, deployed.build.as_str()), (Some(key), "b00b"));
    }

    fn builds(base: &Path, names: &[&str]) {
        for (age, name) in names.iter().enumerate() {
            let folder = base.join(name);
            std::fs::create_dir_all(&folder).unwrap();
            let program = std::fs::File::create(folder.join("edgedyno-agent")).unwrap();
            let minutes = std::time::Duration::from_secs(60 * age as u64);
            program
                .set_modified(std::time::SystemTime::UNIX_EPOCH + minutes)
                .unwrap();
        }
    }

    fn pruned(base: &Path, keep: &str) -> std::process::Output {
        let at = base.display().to_string();
        std::process::Command::new("/bin/sh")
            .args(["-c", &prune(&at, &format!("{at}/{keep}"))])
            .output()
            .unwrap()
    }

    /// Whoever goes back to an older build and on to another finds the one that was in use between.
    #[test]
    fn the_build_used_before_stays_however_old_it_is() {
        let base = tempfile::tempdir().unwrap();
        builds(base.path(), &["0.1.0-old", "0.1.0-newer"]);
        pruned(base.path(), "0.1.0-old");
        std::thread::sleep(std::time::Duration::from_millis(20));
        builds(base.path(), &["0.1.0-next"]);
        pruned(base.path(), "0.1.0-next");
        assert_eq!(names(base.path()), ["0.1.0-next", "0.1.0-old"]);
    }

    #[test]
    fn an_upload_that_may_still_come_is_left_alone() {
        let base = tempfile::tempdir().unwrap();
        builds(base.path(), &["0.1.0-a"]);
        let hour = std::time::Duration::from_secs(3600);
        for (name, age) in [
            (".new-young", hour / 2),
            (".new-old", hour * 2),
            ("old", hour * 2),
        ] {
            let file = std::fs::File::create(base.path().join(name)).unwrap();
            file.set_modified(std::time::SystemTime::from(jiff::Timestamp::now()) - age)
                .unwrap();
        }
        let output = pruned(base.path(), "0.1.0-a");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(names(base.path()), [".new-young", "0.1.0-a", "old"]);
    }

    #[test]
    fn the_newest_builds_stay() {
        let base = tempfile::tempdir().unwrap();
        let at = base.path().display().to_string();
        builds(base.path(), &["0.1.0-d", "0.1.0-c", "0.1.0-b", "0.1.0-a"]);
        std::fs::create_dir(base.path().join("something-else")).unwrap();
        let output = pruned(base.path(), "0.1.0-d");
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
