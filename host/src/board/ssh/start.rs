//! Starting the agent that was brought to a board: when a host comes, by systemd, or once.

use super::Shell;
use super::deploy::{DeployError, exported, on_disk};
use super::fault::last_words;
use super::probe::Probe;
use super::shell::is_plain_path;
use crate::board::known::{SshRoute, Start};

/// The unit of `--service`, with words between @ for those of one board.
const UNIT: &str = include_str!("../../../../agent/packaging/edgedyno-agent.service");
pub(super) const UNIT_NAME: &str = "edgedyno-agent.service";

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
            said: last_words(&answer.stderr),
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
            said: last_words(&answer.stderr),
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
         {systemctl} daemon-reload && {systemctl} enable {UNIT_NAME} || back\n{}",
        on_disk(&format!("\"$folder/{UNIT_NAME}\""))
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

#[cfg(test)]
mod tests {
    use super::super::testing::route;
    use super::*;

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
}
