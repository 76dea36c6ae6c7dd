//! From a place that ssh goes to, to a board that can be measured on: look, send, let in, start, try.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use edgedyno_shared::device::DeviceInfo;
use edgedyno_shared::ids::{BuildId, StoreId};
use edgedyno_shared::link::key::Identity;
use edgedyno_shared::wire::hello::DaemonStatus;
use edgedyno_shared::wire::request::{Reply, Request};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::agents::{self, AgentFile, NoAgent};
use super::known::{KnownBoard, SshRoute, Start};
use super::link::{Link, LinkError};
use super::quic::Quic;
use super::ssh::deploy::{self, Before, DeployError, Deployed, Introduction};
use super::ssh::probe::{Libc, Probe};
use super::ssh::shell::is_plain_path;
use super::ssh::start::{self, Account, Place};
use super::ssh::{Destination, Shell, Ssh, SshError, clear};
use super::{Board, ConnectError};

/// An agent that was told to leave and has nothing to finish leaves within this time.
const LEAVE_PATIENCE: Duration = Duration::from_secs(15);

/// Port of an agent on the network, unless another is named.
pub const PORT: u16 = 7447;

/// What the user wants of a new board.
#[derive(Debug, Clone)]
pub struct Wishes {
    /// The agent's program, or a package with it.
    pub agent: Option<PathBuf>,
    /// Where on the board it is put.
    pub folder: Option<String>,
    pub start: Start,
    pub listen: Option<SocketAddr>,
    /// Root may measure for hosts on the network.
    pub as_root: bool,
    /// The agent may hand packets to its network driver in batches.
    pub offload: bool,
}

/// What goes on, for whoever shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Looking,
    Found(Box<Probe>),
    /// Bytes sent so far, of all.
    Sending(u64, u64),
    Starting,
    /// Whether the network answers is being tried.
    Knocking,
}

pub type Tell<'a> = &'a mut dyn FnMut(Step);

/// A board that is ready.
#[derive(Debug)]
pub struct Ready {
    pub board: KnownBoard,
    pub probe: Probe,
    pub deployed: Deployed,
    /// Why the network is not used, when it was wanted.
    pub network: Option<Result<SocketAddr, String>>,
    pub device: DeviceInfo,
    /// The build that answers: another than was brought while that one has a repeat to end, or when it was
    /// started there by other means.
    pub serving: BuildId,
    /// Another build has a repeat to end, and then becomes the one that was brought.
    pub makes_way: bool,
    /// This host knew the board with the very agent that was brought.
    pub was_known: bool,
}

/// How the agent that answers stands to the one that was brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// It is the one, and the board had it already.
    UpToDate,
    /// It is the one.
    Serves,
    /// It is an older one, which measures; the one that was brought serves when that repeat has ended.
    WaitsForRepeat,
    /// It was started there by other means.
    NotOurs,
}

impl Ready {
    pub fn standing(&self) -> Standing {
        match (self.serving.0 == self.deployed.build, self.makes_way) {
            (true, _) if self.was_known && self.deployed.sent == 0 => Standing::UpToDate,
            (true, _) => Standing::Serves,
            (false, true) => Standing::WaitsForRepeat,
            (false, false) => Standing::NotOurs,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    Ssh(#[from] SshError),
    #[error(transparent)]
    Agent(#[from] NoAgent),
    #[error(transparent)]
    Deploy(#[from] DeployError),
    #[error("the agent on the board does not answer as it should")]
    Connect(#[source] ConnectError),
    #[error("{what}")]
    Board { what: String, hint: String },
    /// Known before anything was done.
    #[error("{what}")]
    Wish { what: String, hint: String },
    #[error("a repeat is running on the board")]
    Running,
    #[error("an agent that was told to leave is still there")]
    Stays,
    #[error("no folder for temporary files")]
    Temporary(#[source] std::io::Error),
}

/// ssh that did not come through says nothing of an agent.
impl From<ConnectError> for SetupError {
    fn from(why: ConnectError) -> Self {
        match why {
            ConnectError::Ssh(why) => Self::Ssh(why),
            why => Self::Connect(why),
        }
    }
}

impl SetupError {
    /// What the user may do about it, where the board has that name.
    pub fn hint(&self, board: &str) -> String {
        match self {
            Self::Ssh(why) => why.hint(board),
            Self::Agent(why) => why.hint(),
            Self::Deploy(why) => why.hint(board),
            Self::Connect(why) => why.hint(board).unwrap_or_default(),
            Self::Board { hint, .. } | Self::Wish { hint, .. } => hint.clone(),
            Self::Running => "run the command again when it has ended".into(),
            Self::Stays => "end it there by hand, and run the command again".into(),
            Self::Temporary(_) => "set TMPDIR to a folder that can be written".into(),
        }
    }
}

fn board_fault<T>(what: impl Into<String>, hint: impl Into<String>) -> Result<T, SetupError> {
    Err(SetupError::Board {
        what: what.into(),
        hint: hint.into(),
    })
}

/// The command that sets a known board up anew.
pub fn add_again(name: &str, route: &SshRoute) -> String {
    let place = &route.destination;
    format!("add the board again: `edgedyno board add {place} --name {name} --force`")
}

/// Makes a board of a place that ssh goes to.
pub async fn add(
    name: &str,
    destination: Destination,
    wishes: &Wishes,
    identity: &Identity,
    tell: Tell<'_>,
) -> Result<Ready, SetupError> {
    check_wishes(wishes)?;
    let shell = Shell::new(destination.clone());
    tell(Step::Looking);
    let probe = Probe::take(&shell, wishes.folder.as_deref()).await?;
    tell(Step::Found(Box::new(probe.clone())));
    let architecture = suitable(&probe, wishes)?;
    let folder = probe.folder().map(|folder| folder.path.clone());
    let Some(base) = folder else {
        return no_folder(&probe);
    };
    let home_works = !probe.home.is_empty() && base.starts_with(&format!("{}/", probe.home));
    let keep = (!home_works && wishes.folder.is_none()).then(|| base.clone());
    let temporary = Temporary::new()?;
    let agent = agents::find(wishes.agent.as_deref(), &architecture, &temporary.path)?;
    let mut route = SshRoute {
        destination,
        program: String::new(),
        architecture,
        start: wishes.start,
        listen: wishes.listen,
        keep,
        offload: wishes.offload,
    };
    let environment = route.environment();
    let before = deploy::look(&shell, &base, &agent, &environment, &identity.public()).await?;
    let brought = async {
        let deployed = send(&shell, &base, &agent, &before, &route, identity, tell).await?;
        route.program.clone_from(&deployed.program);
        tell(Step::Starting);
        let ssh = Ssh::new(name, route.clone());
        let makes_way = settle(&ssh, &shell, Occasion::Add, (&probe).into()).await?;
        Ok::<_, SetupError>((ssh, deployed, makes_way))
    };
    let (ssh, deployed, makes_way) = match brought.await {
        Ok(brought) => brought,
        Err(why) => {
            // What cannot be taken back now is found by the next `add`.
            let undone = clear::undo(
                &shell,
                &base,
                &agent,
                &before,
                &environment,
                &identity.public(),
            )
            .await;
            undone.unwrap_or_else(|why| tracing::warn!("the board is not as it was: {why}"));
            return Err(why);
        }
    };
    // From here on an agent serves there, whose log says what is wrong.
    finish(ssh, probe, deployed, makes_way, identity, tell).await
}

/// Brings another build of the agent to a board that is known.
pub async fn update(
    name: &str,
    route: &SshRoute,
    agent: Option<&Path>,
    identity: &Identity,
    tell: Tell<'_>,
) -> Result<Ready, SetupError> {
    let shell = Shell::new(route.destination.clone());
    tell(Step::Looking);
    let Some(base) = route.base() else {
        return board_fault(
            "the folder of the agent is not known",
            add_again(name, route),
        );
    };
    let probe = Probe::take(&shell, Some(base)).await?;
    tell(Step::Found(Box::new(probe.clone())));
    if probe.folder().is_none() {
        return no_folder(&probe);
    }
    let temporary = Temporary::new()?;
    let agent = agents::find(agent, &route.architecture, &temporary.path)?;
    let before = deploy::look(
        &shell,
        base,
        &agent,
        &route.environment(),
        &identity.public(),
    )
    .await?;
    let deployed = send(&shell, base, &agent, &before, route, identity, tell).await?;
    let was_known = route.program == deployed.program;
    let route = SshRoute {
        program: deployed.program.clone(),
        ..route.clone()
    };
    tell(Step::Starting);
    let ssh = Ssh::new(name, route);
    let makes_way = settle(&ssh, &shell, Occasion::Update, (&probe).into()).await?;
    let ready = finish(ssh, probe, deployed, makes_way, identity, tell).await?;
    Ok(Ready { was_known, ..ready })
}

/// What can be said no to before the board is asked.
fn check_wishes(wishes: &Wishes) -> Result<(), SetupError> {
    let wish = |what: &str, hint: &str| SetupError::Wish {
        what: what.into(),
        hint: hint.into(),
    };
    if wishes
        .folder
        .as_deref()
        .is_some_and(|folder| !is_plain_path(folder))
    {
        return Err(wish(
            "--folder takes an absolute path of letters, digits and `/._-+@,=:`",
            "such as /opt/edgedyno",
        ));
    }
    Ok(())
}

/// Whether an agent can run there as wanted; the architecture that it needs.
fn suitable(probe: &Probe, wishes: &Wishes) -> Result<String, SetupError> {
    let Some(architecture) = probe.architecture.clone() else {
        return board_fault(
            "the board's /bin/sh does not tell what it is built for",
            "od, hexdump or xxd must be there to read its header",
        );
    };
    match &probe.libc {
        Libc::Musl => {
            return board_fault(
                "the board's C library is musl, and the agent needs glibc",
                "vendors' runtimes need glibc too; use an image with it",
            );
        }
        Libc::Glibc(major, minor) if (*major, *minor) < (2, 27) => {
            return board_fault(
                format!("the board's glibc is {major}.{minor}, and the agent needs 2.27 or later"),
                "use a newer image",
            );
        }
        Libc::Glibc(..) | Libc::Unknown(_) => {}
    }
    if probe.uid == Some(0) && wishes.listen.is_some() && !wishes.as_root {
        return Err(SetupError::Wish {
            what: "an agent of root does not listen on the network unasked".into(),
            hint: "log in as another user, leave out --listen, or say --as-root".into(),
        });
    }
    if wishes.start == Start::Service && !probe.has_systemd {
        return board_fault(
            "the board is not run by systemd, so there is no service to be",
            "leave out --service: the agent is then started when it is needed",
        );
    }
    Ok(architecture)
}

fn no_folder<T>(probe: &Probe) -> Result<T, SetupError> {
    let faults = probe.folders.iter().map(|folder| {
        let fault = folder.fault().unwrap_or_default();
        format!("{}: {fault}", folder.path)
    });
    let faults: Vec<String> = faults.collect();
    board_fault(
        format!(
            "no folder of the board can hold an agent ({})",
            faults.join("; ")
        ),
        "name one that can be written and started from with --folder",
    )
}

async fn send(
    shell: &Shell,
    base: &str,
    agent: &AgentFile,
    before: &Before,
    route: &SshRoute,
    identity: &Identity,
    tell: Tell<'_>,
) -> Result<Deployed, SetupError> {
    let introduction = Introduction {
        key: identity.public(),
        name: super::settings::own_name(),
    };
    let mut sent = |done| tell(Step::Sending(done, agent.bytes));
    let deployed = deploy::deploy(
        shell,
        base,
        agent,
        before,
        &route.environment(),
        Some(&introduction),
        &mut sent,
    )
    .await?;
    Ok(deployed)
}

/// Whether what runs on a board may have been started otherwise than the route says now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion {
    Add,
    Update,
}

/// Sees that the agent just brought serves, started as the route says. A running repeat is not disturbed: the
/// agent that runs it becomes the new one when it has ended. Whether that is still to come.
async fn settle(
    ssh: &Ssh,
    shell: &Shell,
    occasion: Occasion,
    account: Account<'_>,
) -> Result<bool, SetupError> {
    let route = ssh.route();
    let mut place = Place::Free;
    // A relay starts a daemon where none is, which would be in the way of another one.
    if route.start != Start::OnDemand && has_daemon(shell, route).await? {
        let mut greeted = match ssh.greet(StoreId::NONE).await {
            // The relay waits for a daemon of another schema to finish its repeat.
            Err(ConnectError::Link(LinkError::Silent)) => return Err(SetupError::Running),
            greeted => greeted?,
        };
        let status = greeted.status().await.map_err(ConnectError::from)?;
        match (status.running, occasion) {
            (false, _) => drop(retire(ssh, shell, greeted).await?),
            // It could only be started in another way when it has left.
            (true, Occasion::Add) => return Err(SetupError::Running),
            (true, Occasion::Update) => {
                greeted.leave().await;
                place = Place::ToBeLeft;
            }
        }
    }
    let makes_way = start::take_over(shell, route).await?;
    start::start(shell, route, account, place).await?;
    Ok(makes_way)
}

/// Asks a daemon to leave and waits until it has, unless it has a repeat to finish.
pub async fn retire(
    ssh: &Ssh,
    shell: &Shell,
    greeted: super::link::Greeted,
) -> Result<DaemonStatus, SetupError> {
    let status = greeted.retire().await.map_err(ConnectError::from)?;
    let until = Instant::now() + LEAVE_PATIENCE;
    while !status.running && has_daemon(shell, ssh.route()).await? {
        if Instant::now() > until {
            return Err(SetupError::Stays);
        }
        sleep(Duration::from_millis(200)).await;
    }
    Ok(status)
}

/// Whether a daemon's socket is there; a daemon that leaves removes it.
pub async fn has_daemon(shell: &Shell, route: &SshRoute) -> Result<bool, SshError> {
    let environment = match route.environment().trim() {
        "" => String::new(),
        variables => format!("export {variables}\n"),
    };
    let script = format!(
        "{environment}state=\"${{EDGEDYNO_AGENT_STATE:-${{XDG_STATE_HOME:-$HOME/.local/state}}/edgedyno}}\"\n\
         [ -S \"$state/agent.sock\" ] && echo yes\ntrue"
    );
    Ok(shell.run(&script).await?.output.trim() == "yes")
}

/// Tries what was set up, on the network first when the agent listens there.
async fn finish(
    ssh: Ssh,
    probe: Probe,
    deployed: Deployed,
    makes_way: bool,
    identity: &Identity,
    tell: Tell<'_>,
) -> Result<Ready, SetupError> {
    let route = ssh.route();
    let mut board = KnownBoard {
        addresses: Vec::new(),
        key: deployed.key,
        ssh: Some(route.clone()),
    };
    let mut network = None;
    if let (Some(listen), Some(key)) = (route.listen, deployed.key) {
        tell(Step::Knocking);
        let addresses = addresses(&Shell::new(route.destination.clone()), listen).await;
        let quic = Quic::new(ssh.name(), addresses.clone(), key, identity.clone());
        match quic.connect(StoreId::NONE).await {
            Ok(link) => {
                link.leave().await;
                network = addresses.first().copied().map(Ok);
                board.addresses = addresses;
            }
            Err(why) => network = Some(Err(why.to_string())),
        }
    }
    let mut link = match connect(&ssh).await {
        // The relay waits for a daemon of another schema to finish its repeat.
        Err(ConnectError::Link(LinkError::Silent)) if makes_way => return Err(SetupError::Running),
        link => link?,
    };
    let serving = link.agent_build().clone();
    let answer = link.ask(Request::Info).await.map_err(ConnectError::from)?;
    let Reply::Info(device) = answer else {
        let why = LinkError::Unexpected("something else than about itself");
        return Err(ConnectError::from(why).into());
    };
    link.leave().await;
    Ok(Ready {
        board,
        probe,
        deployed,
        network,
        device: *device,
        serving,
        makes_way,
        was_known: false,
    })
}

/// A daemon just started may need a moment.
async fn connect(ssh: &Ssh) -> Result<Link, ConnectError> {
    match ssh.connect(StoreId::NONE).await {
        Err(ConnectError::Link(LinkError::Closed | LinkError::Silent)) => {
            sleep(Duration::from_millis(500)).await;
            ssh.connect(StoreId::NONE).await
        }
        result => result,
    }
}

/// Where the agent may answer: an address that it was told to listen on, else those of the host that ssh
/// goes to, which behind a jump host are another network's.
async fn addresses(shell: &Shell, listen: SocketAddr) -> Vec<SocketAddr> {
    if !listen.ip().is_unspecified() {
        return vec![listen];
    }
    let settings = shell.settings().await.unwrap_or_default();
    let host = settings
        .iter()
        .find(|(key, _)| key == "hostname")
        .map(|(_, host)| host.clone());
    let host = host.unwrap_or_else(|| shell.destination().host.clone());
    let found = tokio::net::lookup_host((host.as_str(), listen.port())).await;
    let is_same = |address: &SocketAddr| listen.is_ipv6() || address.is_ipv4();
    found.into_iter().flatten().filter(is_same).collect()
}

/// A folder that goes away.
pub struct Temporary {
    pub path: PathBuf,
}

impl Temporary {
    pub fn new() -> Result<Self, SetupError> {
        let name = format!("edgedyno-{}-{}", std::process::id(), rand());
        let path = std::env::temp_dir().join(name);
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).map_err(SetupError::Temporary)?;
        Ok(Self { path })
    }
}

fn rand() -> u32 {
    getrandom::u32().unwrap_or_default()
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What is left is small and lies where such things lie.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A board that was just set up, for tests of what is told about it.
#[cfg(test)]
pub(crate) fn sample() -> Ready {
    use edgedyno_shared::ids::{BootId, Sha256};
    let route = SshRoute {
        destination: "ssh://u@h".parse().unwrap(),
        program: "/home/u/.local/lib/edgedyno/0.1.0-abababababab/edgedyno-agent".into(),
        architecture: "aarch64".into(),
        start: Start::OnDemand,
        listen: None,
        keep: None,
        offload: true,
    };
    Ready {
        deployed: Deployed {
            program: route.program.clone(),
            build: "b00b".into(),
            sha256: Sha256([0xab; 32]),
            key: None,
            sent: 4 << 20,
            deleted: Vec::new(),
        },
        board: KnownBoard {
            addresses: Vec::new(),
            key: None,
            ssh: Some(route),
        },
        probe: tests::probe(),
        network: None,
        device: DeviceInfo {
            agent_version: "0.1.0".into(),
            build: BuildId("b00b".into()),
            boot: BootId(1),
            os: "linux".into(),
            arch: "aarch64".into(),
            cpus: Vec::new(),
            allowed_cpus: vec![0],
            memory_total: None,
            readiness: edgedyno_shared::device::Readiness::default(),
            facts: Vec::new(),
            backends: Vec::new(),
        },
        serving: BuildId("b00b".into()),
        makes_way: false,
        was_known: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::ssh::probe::{Folder, FolderState};

    pub(super) fn probe() -> Probe {
        Probe {
            uid: Some(1000),
            user: "u".into(),
            machine: "aarch64".into(),
            architecture: Some("aarch64".into()),
            kernel: "6.1".into(),
            host_name: "h".into(),
            libc: Libc::Glibc(2, 35),
            home: "/home/u".into(),
            unix_seconds: Some(0),
            has_systemd: false,
            folders: Vec::new(),
            installed: Vec::new(),
        }
    }

    fn wishes() -> Wishes {
        Wishes {
            agent: None,
            folder: None,
            start: Start::OnDemand,
            listen: None,
            as_root: false,
            offload: true,
        }
    }

    #[test]
    fn boards_that_cannot_run_an_agent_are_told_why() {
        assert_eq!(suitable(&probe(), &wishes()).unwrap(), "aarch64");
        let why = |probe: Probe, wishes: Wishes| suitable(&probe, &wishes).unwrap_err().to_string();
        let musl = Probe {
            libc: Libc::Musl,
            ..probe()
        };
        assert!(why(musl, wishes()).contains("musl"));
        let old = Probe {
            libc: Libc::Glibc(2, 23),
            ..probe()
        };
        assert!(why(old, wishes()).contains("2.23"));
        let unknown = Probe {
            libc: Libc::Unknown("?".into()),
            ..probe()
        };
        assert!(suitable(&unknown, &wishes()).is_ok(), "trying tells");
        let service = Wishes {
            start: Start::Service,
            ..wishes()
        };
        assert!(why(probe(), service).contains("systemd"));
        let root = Probe {
            uid: Some(0),
            ..probe()
        };
        let listens = Wishes {
            listen: Some("0.0.0.0:7447".parse().unwrap()),
            ..wishes()
        };
        assert!(why(root, listens).contains("root"));
    }

    #[test]
    fn every_folder_that_will_not_do_is_named_with_its_reason() {
        let folder = |path: &str, state| Folder {
            path: path.into(),
            state,
            free: None,
        };
        let probe = Probe {
            folders: vec![
                folder("/home/u/.local/lib/edgedyno", FolderState::NoExec),
                folder("/opt/edgedyno", FolderState::Unwritable),
            ],
            ..probe()
        };
        let why = no_folder::<()>(&probe).unwrap_err();
        let text = why.to_string();
        assert!(
            text.contains("/home/u/.local/lib/edgedyno: mounted so"),
            "{text}"
        );
        assert!(text.contains("/opt/edgedyno: not writable"), "{text}");
        assert!(why.hint("x").contains("--folder"));
    }

    #[test]
    fn a_folder_that_a_shell_could_read_as_more_is_refused_before_anything() {
        let odd = Wishes {
            folder: Some("/opt/$(reboot)".into()),
            ..wishes()
        };
        assert!(matches!(check_wishes(&odd), Err(SetupError::Wish { .. })));
    }

    #[test]
    fn a_board_is_up_to_date_when_it_had_what_was_brought_and_serves_it() {
        let after = |sent, was_known, serving: &str, makes_way| {
            let mut ready = sample();
            ready.deployed.sent = sent;
            ready.serving = BuildId(serving.into());
            let ready = Ready {
                was_known,
                makes_way,
                ..ready
            };
            ready.standing()
        };
        assert_eq!(after(0, true, "b00b", false), Standing::UpToDate);
        assert_eq!(after(9, false, "b00b", false), Standing::Serves);
        // Cleared there, and brought again.
        assert_eq!(after(9, true, "b00b", false), Standing::Serves);
        // Brought by another host, or kept from before.
        assert_eq!(after(0, false, "b00b", false), Standing::Serves);
        // The repeat ended while it was looked at.
        assert_eq!(after(9, false, "b00b", true), Standing::Serves);
        assert_eq!(after(9, false, "01d", true), Standing::WaitsForRepeat);
        assert_eq!(after(0, true, "01d", true), Standing::WaitsForRepeat);
        assert_eq!(after(0, true, "01d", false), Standing::NotOurs);
    }

    /// ssh's own failures are told as such, wherever a session was wanted.
    #[test]
    fn an_ssh_that_does_not_come_through_is_not_an_agent_that_does_not_answer() {
        let shell = Shell::new("ssh://u@h".parse().unwrap());
        let away = SshError::new(&shell, crate::board::ssh::Fault::Reach, "");
        let told = SetupError::from(ConnectError::Ssh(away)).to_string();
        assert_eq!(told, "no ssh answers at ssh://u@h");
        let silent = SetupError::from(ConnectError::Link(LinkError::Silent)).to_string();
        assert!(silent.contains("does not answer"), "{silent}");
    }
}
