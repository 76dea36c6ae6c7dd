//! The chain from this host to a measurement on a board: each link looked at in order, the first that is
//! broken named with what mends it. What depends on it is not looked at.

use std::time::Duration;

use edgedyno_shared::device::{DeviceFile, DeviceInfo, Reading, RuntimeVerdict};
use edgedyno_shared::ids::StoreId;
use edgedyno_shared::link::key::Identity;
use edgedyno_shared::wire::request::{Reply, Request};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::board::agents;
use crate::board::known::{KnownBoard, SshRoute};
use crate::board::link::{Greeted, Link, LinkError};
use crate::board::local::{self, Local};
use crate::board::quic::Quic;
use crate::board::setup::{Temporary, add_again};
use crate::board::ssh::probe::{FolderState, Probe};
use crate::board::ssh::{Destination, Fault, Shell, Ssh, SshError};
use crate::board::{Board, ConnectError};

/// A host that is up answers within this time.
const REACH: Duration = Duration::from_secs(5);

/// An agent keeps this free for results, and takes no model that leaves less.
const RESERVE: u64 = 64 << 20;

/// Below this an agent's spool has little room.
const LITTLE_ROOM: u64 = 512 << 20;

/// Clocks further apart make the dates of two machines' results hard to compare.
const CLOCKS_APART: i64 = 5;

/// Every link, in order.
const LINKS: [&str; 14] = [
    "name",
    "reach",
    "ssh",
    "authentication",
    "shell",
    "folder",
    "disk",
    "clock",
    "agent",
    "version",
    "network",
    "runtime",
    "driver",
    "permission",
];

/// Those of an agent, however it is reached.
const WITHOUT_WAY: [&str; 7] = [
    "disk",
    "clock",
    "agent",
    "version",
    "runtime",
    "driver",
    "permission",
];

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    pub checks: Vec<Check>,
}

/// One link of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub state: State,
    pub detail: String,
    pub remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Good,
    /// It works, and could be better.
    Warning,
    Failed,
    /// Not looked at: a link before it is broken, or this board has no such link.
    Skipped,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// The chain ends here.
struct Broken;

impl Report {
    fn good(&mut self, name: &'static str, detail: impl Into<String>) {
        self.add(name, State::Good, detail, None);
    }

    fn warn(&mut self, name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) {
        self.add(name, State::Warning, detail, Some(remedy.into()));
    }

    fn fail<T>(
        &mut self,
        name: &'static str,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Result<T, Broken> {
        self.add(name, State::Failed, detail, Some(remedy.into()));
        Err(Broken)
    }

    fn add(
        &mut self,
        name: &'static str,
        state: State,
        detail: impl Into<String>,
        remedy: Option<String>,
    ) {
        debug_assert!(LINKS.contains(&name), "{name}");
        let detail = detail.into();
        self.checks.push(Check {
            name,
            state,
            detail,
            remedy,
        });
    }

    /// Adds what was not looked at, and puts all in order.
    fn complete(mut self, links: &[&'static str]) -> Self {
        let broken = self
            .checks
            .iter()
            .find(|check| check.state == State::Failed);
        let why = match broken.map(|check| check.name) {
            Some(name) => format!("{name} comes first"),
            None => "this board has no such link".into(),
        };
        for name in links {
            if !self.checks.iter().any(|check| check.name == *name) {
                self.add(name, State::Skipped, why.clone(), None);
            }
        }
        let place = |name| LINKS.iter().position(|link| *link == name);
        self.checks.sort_by_key(|check| place(check.name));
        self
    }

    /// The first link that is broken.
    pub fn broken(&self) -> Option<&Check> {
        self.checks
            .iter()
            .find(|check| check.state == State::Failed)
    }
}

/// This machine.
pub async fn local() -> Report {
    let mut report = Report::default();
    let connected = async {
        let board = Local::from_env()?;
        board.connect(StoreId::NONE).await
    };
    match connected.await {
        Ok(mut link) => {
            report.good("agent", format!("build {}", link.agent_build()));
            report.good("version", format!("edgedyno {}", edgedyno_shared::VERSION));
            ask_about_device(&mut report, local::NAME, &mut link).await;
            link.leave().await;
        }
        Err(why) => {
            let _ = connect_failed::<()>(&mut report, local::NAME, &why);
        }
    }
    report.complete(&WITHOUT_WAY)
}

/// A board of the list.
pub async fn remote(name: &str, board: &KnownBoard, identity: &Identity) -> Report {
    let mut report = Report::default();
    match &board.ssh {
        Some(route) => {
            // What was found until the chain broke is the answer.
            let _ = over_ssh(&mut report, name, route, board, identity).await;
            report.complete(&LINKS)
        }
        None => {
            let _ = over_network(&mut report, name, board, identity).await;
            report.complete(&[&["network"], &WITHOUT_WAY[..]].concat())
        }
    }
}

async fn over_network(
    report: &mut Report,
    name: &str,
    board: &KnownBoard,
    identity: &Identity,
) -> Result<(), Broken> {
    let Some(quic) = quic(name, board, identity) else {
        return report.fail(
            "network",
            "the board has no address, or no key is known",
            "pair again: `edgedyno-agent pair` on the board",
        );
    };
    match quic.connect(StoreId::NONE).await {
        Err(why) if why.is_incompatible() => {
            report.good("network", "the agent answers");
            version_failed(report, name, &why)
        }
        Err(why) => report.fail("network", chain(&why), why.hint(name).unwrap_or_default()),
        Ok(mut link) => {
            report.good(
                "network",
                format!("the agent answers at {}", board.addresses[0]),
            );
            report.good("agent", format!("build {} answers", link.agent_build()));
            report.good("version", "host and agent understand each other");
            ask_about_device(report, name, &mut link).await;
            link.leave().await;
            Ok(())
        }
    }
}

fn quic(name: &str, board: &KnownBoard, identity: &Identity) -> Option<Quic> {
    let key = board.key.filter(|_| !board.addresses.is_empty())?;
    Some(Quic::new(
        name,
        board.addresses.clone(),
        key,
        identity.clone(),
    ))
}

async fn over_ssh(
    report: &mut Report,
    name: &str,
    route: &SshRoute,
    board: &KnownBoard,
    identity: &Identity,
) -> Result<(), Broken> {
    let shell = Shell::new(route.destination.clone());
    look_at_way(report, &shell, name).await?;
    let probe = look_at_shell(report, &shell, name, route).await?;
    look_at_folder(report, &probe)?;
    look_at_clock(report, probe.unix_seconds);
    let greeted = look_at_agent(report, &shell, name, route).await?;
    look_at_build(report, &greeted, name, route)?;
    match quic(name, board, identity) {
        None => report.add("network", State::Skipped, "only ssh is used", None),
        Some(quic) => match quic.connect(StoreId::NONE).await {
            Ok(link) => {
                report.good(
                    "network",
                    format!("the agent answers at {}", board.addresses[0]),
                );
                link.leave().await;
            }
            Err(why) => report.warn(
                "network",
                format!("{}; ssh is used instead", chain(&why)),
                "let UDP pass to the agent's port, and see that it was started with --listen",
            ),
        },
    }
    let Ok(mut link) = greeted.into_link() else {
        return Ok(());
    };
    ask_about_device(report, name, &mut link).await;
    link.leave().await;
    Ok(())
}

/// Name and port, as far as no other program is on the way.
async fn look_at_way(report: &mut Report, shell: &Shell, name: &str) -> Result<(), Broken> {
    let settings = match shell.settings().await {
        Ok(settings) => settings,
        Err(why) => return report.fail("ssh", why.to_string(), why.hint(name)),
    };
    let value = |name: &str| {
        let found = settings.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| *value != "none")
    };
    let host = value("hostname")
        .unwrap_or(&shell.destination().host)
        .to_owned();
    let known = known_as(name, shell.destination(), &host);
    if let Some(way) = value("proxyjump").or_else(|| value("proxycommand")) {
        report.add(
            "name",
            State::Skipped,
            format!("{known}, by way of {way}"),
            None,
        );
        report.add(
            "reach",
            State::Skipped,
            format!("{way} is on the way"),
            None,
        );
        return Ok(());
    }
    let port = shell.destination().port;
    let port = port.or_else(|| value("port")?.parse().ok()).unwrap_or(22);
    let found = match tokio::net::lookup_host((host.as_str(), port)).await {
        Ok(found) => found.collect::<Vec<_>>(),
        Err(why) => {
            let hint = SshError::new(shell, Fault::Name, "").hint(name);
            return report.fail("name", format!("{known}: {why}"), hint);
        }
    };
    let addresses: Vec<String> = found
        .iter()
        .map(|address| address.ip().to_string())
        .collect();
    report.good("name", format!("{known}, at {}", addresses.join(", ")));
    match timeout(REACH, TcpStream::connect(found.as_slice())).await {
        Ok(Ok(_)) => {
            report.good("reach", format!("port {port} is open"));
            Ok(())
        }
        answer => {
            let why = match answer {
                Ok(Err(why)) => why.to_string(),
                _ => format!("no answer within {} s", REACH.as_secs()),
            };
            let hint = SshError::new(shell, Fault::Reach, "").hint(name);
            report.fail("reach", format!("port {port}: {why}"), hint)
        }
    }
}

/// The name by which the board is known here, the one that ssh is told, and what ssh's settings make of it.
fn known_as(name: &str, destination: &Destination, host: &str) -> String {
    match host == destination.host {
        true => format!("{name} is {destination}"),
        false => format!("{name} is {destination}, {host} by ssh's settings"),
    }
}

async fn look_at_shell(
    report: &mut Report,
    shell: &Shell,
    name: &str,
    route: &SshRoute,
) -> Result<Probe, Broken> {
    let probe = match Probe::take(shell, route.base()).await {
        Ok(probe) => probe,
        Err(why) => {
            let link = match why.fault {
                Fault::Authentication => {
                    report.good("ssh", "the host has the key that is known");
                    "authentication"
                }
                Fault::Shell => {
                    report.good("ssh", "the host has the key that is known");
                    report.good("authentication", "this user is let in");
                    "shell"
                }
                _ => "ssh",
            };
            return report.fail(link, why.to_string(), why.hint(name));
        }
    };
    report.good("ssh", "the host has the key that is known");
    report.good("authentication", format!("let in as {}", probe.user));
    let found = probe
        .architecture
        .clone()
        .unwrap_or_else(|| "unknown".into());
    if found != route.architecture {
        return report.fail(
            "shell",
            format!(
                "the board is {found} now, and the agent there is for {}",
                route.architecture
            ),
            add_again(name, route),
        );
    }
    report.good("shell", format!("{found}, Linux {}", probe.kernel));
    Ok(probe)
}

fn look_at_folder(report: &mut Report, probe: &Probe) -> Result<(), Broken> {
    let Some(folder) = probe.folders.first() else {
        return Ok(());
    };
    let path = &folder.path;
    match folder.state {
        FolderState::Usable => {
            report.good("folder", format!("{path} can be written and started from"))
        }
        FolderState::Full => {
            report.good("folder", path);
            return report.fail("disk", format!("{path} is full"), "make room there");
        }
        FolderState::NoExec => {
            return report.fail(
                "folder",
                format!("{path} is {}", folder.state.name()),
                "mount it with `exec`, or add the board again with --folder elsewhere",
            );
        }
        FolderState::Unwritable => {
            return report.fail(
                "folder",
                format!("{path} is {} for {}", folder.state.name(), probe.user),
                format!(
                    "give it to that user: `chown -R {} {path}`, or add the board again",
                    probe.user
                ),
            );
        }
    }
    look_at_disk(report, folder.free)
}

fn look_at_disk(report: &mut Report, free: Option<u64>) -> Result<(), Broken> {
    report.checks.retain(|check| check.name != "disk");
    let told = |free: u64| format!("{} MiB free", free >> 20);
    match free {
        None => report.add("disk", State::Skipped, "the board does not tell", None),
        Some(free) if free < RESERVE => {
            return report.fail(
                "disk",
                format!(
                    "{}, and the agent takes no model that leaves less than {} MiB for results",
                    told(free),
                    RESERVE >> 20
                ),
                "make room there",
            );
        }
        Some(free) if free < LITTLE_ROOM => report.warn(
            "disk",
            told(free),
            "results wait on the board's disk while this host is away: make room",
        ),
        Some(free) => report.good("disk", told(free)),
    }
    Ok(())
}

fn look_at_clock(report: &mut Report, there: Option<i64>) {
    report.checks.retain(|check| check.name != "clock");
    let Some(there) = there else {
        report.add("clock", State::Skipped, "the board does not tell", None);
        return;
    };
    let here = jiff::Timestamp::now().as_second();
    match there - here {
        apart if apart.abs() <= CLOCKS_APART => {
            report.good("clock", "within seconds of this host's");
        }
        apart => {
            let (far, way) = (apart.abs(), if apart < 0 { "behind" } else { "ahead of" });
            report.warn(
                "clock",
                format!("{far} s {way} this host's; durations are not touched by that, dates are"),
                "let it follow a time server (`timedatectl set-ntp true`), or set it with `date`",
            );
        }
    }
}

async fn look_at_agent(
    report: &mut Report,
    shell: &Shell,
    name: &str,
    route: &SshRoute,
) -> Result<Greeted, Broken> {
    let program = &route.program;
    let remedy = format!("bring it there again: `edgedyno board update {name}`");
    let tried = shell
        .run(&format!("[ -f {program} ] || exit 9\n{program} version"))
        .await;
    match tried {
        Err(why) => return report.fail("agent", why.to_string(), why.hint(name)),
        Ok(answer) if answer.code == 9 => {
            return report.fail("agent", format!("{program} is not there any more"), remedy);
        }
        Ok(answer) if answer.code != 0 => {
            let said = answer.stderr.lines().last().unwrap_or_default().to_owned();
            return report.fail("agent", format!("{program} cannot run: {said}"), remedy);
        }
        Ok(_) => {}
    }
    match Ssh::new(name, route.clone()).greet(StoreId::NONE).await {
        Err(why) => connect_failed(report, name, &why),
        Ok(mut greeted) => {
            let waiting = match greeted.status().await {
                Ok(status) => format!(
                    ", {} orders queued, {} results waiting to be fetched",
                    status.queued, status.spooled
                ),
                Err(_) => String::new(),
            };
            let build = greeted.reply.agent.build.clone();
            report.good("agent", format!("build {build} answers{waiting}"));
            Ok(greeted)
        }
    }
}

/// Whether host and agent understand each other, and whether a newer agent lies here.
fn look_at_build(
    report: &mut Report,
    greeted: &Greeted,
    name: &str,
    route: &SshRoute,
) -> Result<(), Broken> {
    if !greeted.is_welcome() {
        let agent = greeted.reply.agent.build.clone();
        return version_failed(report, name, &LinkError::Incompatible { agent }.into());
    }
    let is_same = || {
        let temporary = Temporary::new().ok()?;
        let agent = agents::find(None, &route.architecture, &temporary.path).ok()?;
        let base = route.base()?;
        let folder = crate::board::ssh::deploy::version_folder(base, &agent.sha256);
        Some(route.program.starts_with(&folder))
    };
    match is_same() {
        Some(false) => report.warn(
            "version",
            "another build than the one beside this program, and both understand each other",
            format!("bring it there with `edgedyno board update {name}`"),
        ),
        _ => report.good("version", "host and agent understand each other"),
    }
    Ok(())
}

fn version_failed<T>(report: &mut Report, board: &str, why: &ConnectError) -> Result<T, Broken> {
    report.fail("version", chain(why), why.hint(board).unwrap_or_default())
}

fn connect_failed<T>(report: &mut Report, board: &str, why: &ConnectError) -> Result<T, Broken> {
    if why.is_incompatible() {
        return version_failed(report, board, why);
    }
    report.fail("agent", chain(why), why.hint(board).unwrap_or_default())
}

/// What the agent says of its board. Its disk is the one on which results wait, its clock the one that dates
/// them, and its user the one who measures: what was found without it is told no more.
async fn ask_about_device(report: &mut Report, name: &str, link: &mut Link) {
    let Ok(Reply::Info(device)) = link.ask(Request::Info).await else {
        return;
    };
    look_at_device(report, name, &device);
    let readiness = &device.readiness;
    look_at_driver(report, &readiness.device_files);
    if readiness.unix_seconds.is_some() {
        look_at_clock(report, readiness.unix_seconds);
    }
    if let Some(free) = readiness.state_free {
        // Nothing is left to be looked at.
        let _ = look_at_disk(report, Some(free.0));
    }
}

/// Runtimes that can be used, and what the agent may not read.
fn look_at_device(report: &mut Report, name: &str, device: &DeviceInfo) {
    let mut usable = Vec::new();
    let mut refused = Vec::new();
    for backend in device.backends.iter().filter(|backend| !backend.simulated) {
        if backend.built_in {
            usable.push(format!("{} (built in)", backend.name));
        }
        for found in &backend.runtimes {
            match &found.verdict {
                RuntimeVerdict::Usable(facts) => {
                    usable.push(format!("{} {}", backend.name, facts.version))
                }
                RuntimeVerdict::Refused { reason, hint, .. } => {
                    refused.push((format!("{}: {reason}", found.path), hint.clone()));
                }
            }
        }
    }
    match (refused.first(), usable.as_slice()) {
        (None, []) => report.warn(
            "runtime",
            "nothing there can run a model",
            format!(
                "`edgedyno runtime install onnxruntime --board {name}`, or the vendor's package"
            ),
        ),
        (None, usable) => report.good("runtime", usable.join(", ")),
        (Some((reason, hint)), usable) => {
            let others = match usable {
                [] => String::new(),
                usable => format!("; usable: {}", usable.join(", ")),
            };
            report.warn("runtime", format!("{reason}{others}"), hint.clone());
        }
    }
    let denied: Vec<&str> = device
        .facts
        .iter()
        .filter(|fact| matches!(fact.value, Reading::Denied(_)))
        .map(|fact| fact.name.as_str())
        .collect();
    match denied.as_slice() {
        [] => report.good(
            "permission",
            "nothing that the agent looks at is denied to it",
        ),
        denied => report.warn(
            "permission",
            format!("denied to the agent: {}", denied.join(", ")),
            "let its user read them, or have root start the agent with --run-as (docs/boards.md)",
        ),
    }
}

/// Device files of accelerators and whether the agent's user may open them.
fn look_at_driver(report: &mut Report, files: &[DeviceFile]) {
    let named = |usable: bool| {
        let files = files.iter().filter(|file| file.usable == usable);
        let paths: Vec<&str> = files.map(|file| file.path.as_str()).collect();
        paths.join(", ")
    };
    match (named(true), named(false)) {
        (good, denied) if denied.is_empty() && good.is_empty() => {
            report.good("driver", "no accelerator shows a device file");
        }
        (good, denied) if denied.is_empty() => {
            report.good("driver", format!("{good} can be opened"))
        }
        (_, denied) => report.warn(
            "driver",
            format!("{denied} cannot be opened by the agent's user"),
            "add the user to the group of the file (`ls -l`), or install the package's udev rules",
        ),
    }
}

/// An error and what lies under it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut parts = vec![error.to_string()];
    let below = std::iter::successors(error.source(), |error| error.source());
    parts.extend(below.map(ToString::to_string));
    parts.dedup();
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_depends_on_a_broken_link_is_not_looked_at() {
        let mut report = Report::default();
        report.good("name", "h is 10.0.0.1");
        assert!(report.fail::<()>("reach", "refused", "turn it on").is_err());
        let report = report.complete(&LINKS);
        assert_eq!(report.checks.len(), LINKS.len());
        assert_eq!(report.broken().unwrap().name, "reach");
        let after = &report.checks[2];
        assert_eq!((after.name, after.state), ("ssh", State::Skipped));
        assert_eq!(after.detail, "reach comes first");
    }

    fn found(look: impl FnOnce(&mut Report)) -> (State, String) {
        let mut report = Report::default();
        look(&mut report);
        let check = &report.checks[0];
        (check.state, check.detail.clone())
    }

    #[test]
    fn a_disk_without_the_agents_own_reserve_is_broken() {
        let disk = |free| {
            let (state, _) = found(|report| {
                let _ = look_at_disk(report, free);
            });
            state
        };
        assert_eq!(disk(Some(0)), State::Failed);
        assert_eq!(disk(Some((64 << 20) - 1)), State::Failed);
        assert_eq!(disk(Some(64 << 20)), State::Warning);
        assert_eq!(disk(Some((512 << 20) - 1)), State::Warning);
        assert_eq!(disk(Some(512 << 20)), State::Good);
        assert_eq!(disk(None), State::Skipped, "unknown is not full");
        // What the agent says of its own folder comes in the place of what the shell said.
        let mut report = Report::default();
        assert!(look_at_disk(&mut report, Some(100 << 20)).is_ok());
        assert!(look_at_disk(&mut report, Some(1 << 40)).is_ok());
        assert_eq!(report.checks.len(), 1);
        assert_eq!(report.checks[0].state, State::Good);
    }

    #[test]
    fn clocks_that_are_far_apart_are_told_with_their_way() {
        let here = jiff::Timestamp::now().as_second();
        let clock = |there| found(|report| look_at_clock(report, there));
        assert_eq!(clock(Some(here)).0, State::Good);
        let (state, detail) = clock(Some(here - 3600));
        assert!(
            state == State::Warning && detail.contains(" s behind"),
            "{detail}"
        );
        let (state, detail) = clock(Some(here + 3600));
        assert!(
            state == State::Warning && detail.contains(" s ahead"),
            "{detail}"
        );
        assert_eq!(clock(None).0, State::Skipped);
    }

    #[test]
    fn device_files_that_may_not_be_opened_are_named() {
        let file = |path: &str, usable| DeviceFile {
            path: path.into(),
            usable,
        };
        let driver = |files: &[DeviceFile]| found(|report| look_at_driver(report, files));
        assert_eq!(driver(&[]).0, State::Good);
        let render = file("/dev/dri/renderD128", true);
        assert_eq!(driver(std::slice::from_ref(&render)).0, State::Good);
        let (state, detail) = driver(&[render, file("/dev/bpu_core0", false)]);
        assert_eq!(state, State::Warning);
        assert!(
            detail.contains("/dev/bpu_core0") && !detail.contains("dri"),
            "{detail}"
        );
    }

    #[test]
    fn a_board_is_shown_by_each_of_its_names() {
        let place: Destination = "ssh://u@bench:2222".parse().unwrap();
        assert_eq!(known_as("x5", &place, "bench"), "x5 is ssh://u@bench:2222");
        assert_eq!(
            known_as("x5", &place, "lab.example.org"),
            "x5 is ssh://u@bench:2222, lab.example.org by ssh's settings"
        );
    }

    #[test]
    fn links_stand_in_their_order_however_they_were_found() {
        let mut report = Report::default();
        report.good("runtime", "rten");
        report.good("agent", "build x");
        let report = report.complete(&["agent", "version", "runtime"]);
        let names: Vec<&str> = report.checks.iter().map(|check| check.name).collect();
        assert_eq!(names, ["agent", "version", "runtime"]);
        assert_eq!(report.checks[1].detail, "this board has no such link");
        assert!(report.broken().is_none());
    }
}
