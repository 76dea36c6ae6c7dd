//! Bringing the agent to a board.
//!
//! Each build has a folder of its own, `BASE/VERSION-HASH/edgedyno-agent`, so that an update stands beside
//! what runs. Nothing is written over.

use edgedyno_shared::ids::Sha256;
use edgedyno_shared::link::key::PublicKey;

use super::Shell;
use super::fault::SshError;
use super::shell::{Answer, is_plain_path, marker};
use crate::board::agents::AgentFile;

/// Builds that stay on a board, the new one among them.
pub const KEPT: usize = 2;

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
    pub(super) has_it: bool,
    /// What an agent that came before made there.
    pub(super) is_noted: bool,
    /// The line of the host that is to be introduced, where it has one.
    pub(super) admitted: Option<String>,
    /// Folders that an agent uses and those above them, the deepest first, as far as they were not there.
    pub(super) absent: Vec<String>,
}

/// Looks at what an agent will find there.
pub async fn look(
    shell: &Shell,
    base: &str,
    agent: &AgentFile,
    environment: &str,
    host: &PublicKey,
) -> Result<Before, DeployError> {
    debug_assert!(is_plain_path(base), "{base}");
    let folder = version_folder(base, &agent.sha256);
    let script = format!(
        "{}{}[ -s {base}/{MADE} ] && echo noted\n\
         echo \"admitted $(grep -E {} {HOSTS} 2>/dev/null | tail -n 1)\"\n{folder}/edgedyno-agent self-hash",
        exported(environment),
        absent(base),
        line_of(host)
    );
    let found = shell.run(&script).await?;
    let hash = agent.sha256.to_string();
    let mut lines = found.output.lines();
    let admitted = lines.find_map(|line| line.strip_prefix("admitted "));
    let admitted = admitted.filter(|line| !line.is_empty());
    let told = |word: &str| found.output.lines().any(|line| line.trim() == word);
    Ok(Before {
        has_it: told(&hash),
        is_noted: told("noted"),
        admitted: admitted.map(str::to_owned),
        absent: told_absent(&found.output),
    })
}

/// The line of a host in the agent's list, as a pattern for `grep -E`; a comment that names its key is none.
pub(super) fn line_of(host: &PublicKey) -> String {
    format!("'^[[:space:]]*[a-z]+[[:space:]]+{host}([[:space:]]|$)'")
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
        // The note is there before anything that an interrupted command leaves.
        let line = format!(
            "umask 077; mkdir -p {base} && {}cat > {unfinished} || {{ rm -f {unfinished}; exit 9; }}",
            note_absent(base, &before.absent)
        );
        let sent = shell.send(&line, &agent.path, tell).await?;
        if sent.code != 0 {
            return Err(refused(&sent));
        }
        install(shell, &unfinished, &folder, agent).await?;
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
        (NOT_ADMITTED, _) => {
            let said = said.strip_prefix("error: ").unwrap_or(&said).to_owned();
            return Err(DeployError::Admission { said });
        }
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
pub(super) const MADE: &str = ".made";

/// Where the agent keeps its state and what was installed, as lines of a script.
pub(super) const KEEPS: &str = "state=\"${EDGEDYNO_AGENT_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/edgedyno}\"\n\
    cache=\"${EDGEDYNO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/edgedyno}\"\n";

/// The agent's list of hosts, behind [`KEEPS`].
pub(super) const HOSTS: &str = "\"$state/identity/authorized_hosts\"";

/// Tells the folders that are not there yet of those that an agent uses, and of the folders above them.
pub(super) fn absent(base: &str) -> String {
    format!(
        "{KEEPS}above() {{ folder=$1; while [ -n \"$folder\" ] && ! [ -e \"$folder\" ]; do \
         echo \"absent $folder\"; folder=${{folder%/*}}; done; }}\n\
         above {base}; above \"$state\"; above \"$cache\"\n\
         above \"${{XDG_CONFIG_HOME:-$HOME/.config}}/systemd/user\"\n"
    )
}

/// What [`absent`] told.
pub(super) fn told_absent(output: &str) -> Vec<String> {
    let folders = output
        .lines()
        .filter_map(|line| line.strip_prefix("absent "));
    let folders = folders.filter(|folder| is_plain_path(folder));
    folders.map(str::to_owned).collect()
}

/// Keeps what was not there, unless an agent that came before did: what comes before the next command on a line
/// that must hold no quote. A note that is empty is none.
pub(super) fn note_absent(base: &str, folders: &[String]) -> String {
    if folders.is_empty() {
        return String::new();
    }
    let (made, unfinished) = (
        format!("{base}/{MADE}"),
        format!("{base}/.new-{}", marker()),
    );
    format!(
        "{{ [ -s {made} ] || {{ for folder in {}; do echo $folder || exit 9; done > {unfinished} && {{ {}; }} && \
         mv -f {unfinished} {made} && {{ {}; }}; }}; }} && ",
        folders.join(" "),
        on_disk(&unfinished).trim_end(),
        on_disk(base).trim_end(),
    )
}

/// Tries what arrived under its working name, and gives it its own.
async fn install(
    shell: &Shell,
    unfinished: &str,
    folder: &str,
    agent: &AgentFile,
) -> Result<(), DeployError> {
    let script = format!(
        "chmod 755 {unfinished}\nhash=$({unfinished} self-hash) || {{ rm -f {unfinished}; exit 8; }}\n\
         if [ \"$hash\" != {} ]; then rm -f {unfinished}; echo \"$hash\"; exit 7; fi\n{}\
         mkdir -p {folder} && mv -f {unfinished} {folder}/edgedyno-agent || exit 6\n{}true",
        agent.sha256,
        on_disk(unfinished),
        on_disk(folder),
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

pub(super) fn refused(answer: &Answer) -> DeployError {
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

/// Waits until a file, or the names in a folder, are on the disk: a board whose power is cut within half a
/// minute of an upload has an empty file of that name otherwise. `sync` of coreutils, busybox and toybox take a
/// path; an older one that does not writes everything.
pub(super) fn on_disk(path: &str) -> String {
    format!("sync {path} 2>/dev/null || sync 2>/dev/null || :\n")
}

/// Removes what uploads left that ended long ago; a younger file may be one of another host that still comes.
/// A busybox whose `find` knows no age leaves them to [`super::clear::remove`].
pub(super) fn sweep(base: &str) -> String {
    format!(
        "find {base}/ -maxdepth 1 -name '.new-*' -type f -mmin +60 -exec rm -f {{}} \\; 2>/dev/null\n"
    )
}

/// Variables before a command, as a line of a script.
pub(super) fn exported(environment: &str) -> String {
    match environment.trim() {
        "" => String::new(),
        variables => format!("export {variables}\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::testing::{TOOLS, filtered, names};
    use super::*;

    /// A file of five bytes.
    fn agent_in(folder: &Path) -> AgentFile {
        let path = folder.join("agent");
        std::fs::write(&path, "agent").unwrap();
        AgentFile {
            path,
            sha256: Sha256([0xab; 32]),
            bytes: 5,
        }
    }

    /// A host that the agent does not know is none on the network.
    #[test]
    fn an_agent_that_does_not_take_a_host_up_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let shell = filtered(
            folder.path(),
            "cat",
            &[&TOOLS[..], &["ls", "touch", "chmod"][..]].concat(),
        );
        let agent = agent_in(folder.path());
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
            let mut tell = |_: u64| {};
            let known = Some(&known);
            runtime.block_on(deploy(&shell, &at, &agent, &before, "", known, &mut tell))
        };
        let refused = admitted("echo 'error: authorized_hosts: line 3' >&2; exit 4").unwrap_err();
        assert!(
            matches!(refused, DeployError::Admission { .. }),
            "{refused}"
        );
        assert!(
            refused
                .to_string()
                .ends_with("this host: authorized_hosts: line 3"),
            "{refused}"
        );
        let silent = admitted("exit 0").unwrap_err();
        assert!(matches!(silent, DeployError::Admission { .. }), "{silent}");
        let key = PublicKey([9; 32]);
        let deployed = admitted(&format!("echo 'key {key}'")).unwrap();
        assert_eq!((deployed.key, deployed.build.as_str()), (Some(key), "b00b"));
    }

    /// A line that dies, a host that is killed: what was made by then is known to whoever takes it away.
    #[test]
    fn an_upload_that_is_cut_off_leaves_the_note_of_what_was_made() {
        let folder = tempfile::tempdir().unwrap();
        let agent = agent_in(folder.path());
        let base = folder.path().join("a/base");
        let at = base.display().to_string();
        let made = [at.clone(), format!("{}/a", folder.path().display())];
        let interrupted = |before: &Before| {
            // The board's end of it is killed in the middle.
            let shell = filtered(
                folder.path(),
                "head -c 1",
                &[&TOOLS[..], &["chmod"]].concat(),
            );
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let mut tell = |_: u64| {};
            let came = runtime.block_on(deploy(&shell, &at, &agent, before, "", None, &mut tell));
            assert!(came.is_err());
            std::fs::read_to_string(base.join(MADE)).unwrap_or_default()
        };
        let before = Before {
            absent: made.to_vec(),
            ..Before::default()
        };
        let note = made.join("\n") + "\n";
        assert_eq!(interrupted(&before), note);
        // The next one finds the folders there.
        assert_eq!(interrupted(&Before::default()), note);
        let later = Before {
            absent: vec!["/later".into()],
            ..Before::default()
        };
        assert_eq!(interrupted(&later), note, "the first one knew");
        std::fs::write(base.join(MADE), "").unwrap();
        assert_eq!(interrupted(&later), "/later\n", "an empty note is none");
        assert_eq!(names(&base), [MADE]);
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
            let now = jiff::Timestamp::now().as_second().cast_unsigned();
            let now = std::time::UNIX_EPOCH + std::time::Duration::from_secs(now);
            file.set_modified(now - age).unwrap();
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
