//! A real sshd on the loopback address, with keys, configuration and a user's home of its own.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Sandbox;
use crate::clock::Deadline;
use crate::ports;
use crate::skip::{Need, has};

/// How long sshd may take to listen.
const LISTENS: Duration = Duration::from_secs(10);

/// What a login goes through.
#[derive(Debug, Clone, Default)]
pub struct Login {
    /// A program that runs instead of the login shell; the command is in `SSH_ORIGINAL_COMMAND`.
    pub forced: Option<String>,
    /// Lines of its own for sshd's configuration.
    pub more: Vec<String>,
    /// Words that sshd itself is started by, such as those for a mount namespace.
    pub prefix: Vec<String>,
}

/// The server, and what a client needs to come in. Ended when dropped, with all its sessions.
#[derive(Debug)]
pub struct Sshd {
    child: Child,
    folder: PathBuf,
    port: u16,
    user: String,
}

impl Sshd {
    /// Whether there is one on this machine.
    pub fn is_there() -> bool {
        has(&[
            Need::Program("sshd"),
            Need::Program("ssh"),
            Need::Program("ssh-keygen"),
        ])
    }

    /// Starts one whose sessions have the sandbox's own home on another "machine": the folder `board` beside
    /// its own. The sandbox's `edgedyno` then finds it by `EDGEDYNO_SSH`.
    pub fn start(sandbox: &mut Sandbox, login: &Login) -> Self {
        let folder = sandbox.work().join("../sshd");
        fs::create_dir_all(&folder).unwrap();
        let folder = folder.canonicalize().unwrap();
        let runtime = sandbox.runtime().join("board");
        fs::create_dir_all(&runtime).unwrap();
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
        fs::create_dir_all(folder.join("board/tmp")).unwrap();
        for key in ["host", "user", "stranger"] {
            let path = folder.join(key);
            if !path.exists() {
                keygen(&path);
            }
        }
        fs::copy(folder.join("user.pub"), folder.join("authorized_keys")).unwrap();
        let port = ports::free();
        let user = nix::unistd::User::from_uid(nix::unistd::getuid());
        let user = user.unwrap().expect("this user has a name").name;
        fs::write(
            folder.join("sshd_config"),
            server(&folder, &runtime, port, login),
        )
        .unwrap();
        let public = fs::read_to_string(folder.join("host.pub")).unwrap();
        fs::write(
            folder.join("known_hosts"),
            format!("[127.0.0.1]:{port} {public}"),
        )
        .unwrap();
        fs::write(folder.join("ssh_config"), client(&folder, "user")).unwrap();
        let words = format!("ssh -F {}", folder.join("ssh_config").display());
        sandbox.env("EDGEDYNO_SSH", words);
        let sshd = Self {
            child: spawn(&folder, login),
            folder,
            port,
            user,
        };
        let listens = Deadline::after(LISTENS)
            .poll(|| std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
        assert!(listens.is_some(), "sshd does not listen: {}", sshd.log());
        sshd
    }

    /// `ssh://USER@127.0.0.1:PORT`.
    pub fn place(&self) -> String {
        format!("ssh://{}@127.0.0.1:{}", self.user, self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The home of the user on the board.
    pub fn home(&self) -> PathBuf {
        self.folder.join("board")
    }

    /// The client's own folder: configuration, keys, known hosts.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lets the client come with another of the keys: `user` or `stranger`.
    pub fn use_key(&self, name: &str) {
        fs::write(self.folder.join("ssh_config"), client(&self.folder, name)).unwrap();
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Ends the server and all sessions, as a board that loses its network does.
    pub fn stop(&mut self) {
        let mut sessions = sessions_below(self.child.id());
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What was started there goes on; only what sshd itself is ends.
        sessions.sort_unstable();
        for pid in sessions {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }

    /// Starts it again on the same port.
    pub fn restart(&mut self, login: &Login) {
        self.child = spawn(&self.folder, login);
        let port = self.port;
        let listens = Deadline::after(LISTENS)
            .poll(|| std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
        assert!(
            listens.is_some(),
            "sshd does not listen again: {}",
            self.log()
        );
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Processes of sshd for its connections: children, and theirs, of that name.
fn sessions_below(pid: u32) -> Vec<i32> {
    let list = format!("/proc/{pid}/task/{pid}/children");
    let list = fs::read_to_string(list).unwrap_or_default();
    let mut all = Vec::new();
    for child in list
        .split_whitespace()
        .filter_map(|word| word.parse::<i32>().ok())
    {
        let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
        if name.trim() == "sshd" {
            all.push(child);
            all.extend(sessions_below(child.cast_unsigned()));
        }
    }
    all
}

fn spawn(folder: &Path, login: &Login) -> Child {
    // sshd of root wants its own empty folder, which an init script makes elsewhere.
    if nix::unistd::getuid().is_root() {
        fs::create_dir_all("/run/sshd").unwrap();
    }
    let sshd = path_of("sshd").expect("looked for before");
    let mut words = login.prefix.iter().cloned();
    let mut command = match words.next() {
        Some(program) => {
            let mut command = Command::new(program);
            command.args(words).arg(&sshd);
            command
        }
        None => Command::new(&sshd),
    };
    command
        .arg("-D")
        .arg("-f")
        .arg(folder.join("sshd_config"))
        .arg("-E")
        .arg(folder.join("log"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("sshd starts")
}

fn server(folder: &Path, runtime: &Path, port: u16, login: &Login) -> String {
    let at = |name: &str| folder.join(name).display().to_string();
    let home = at("board");
    let mut lines = vec![
        format!("Port {port}"),
        "ListenAddress 127.0.0.1".into(),
        format!("HostKey {}", at("host")),
        format!("AuthorizedKeysFile {}", at("authorized_keys")),
        "PidFile none".into(),
        "StrictModes no".into(),
        "UsePAM no".into(),
        "PasswordAuthentication no".into(),
        "KbdInteractiveAuthentication no".into(),
        "PermitRootLogin prohibit-password".into(),
        "MaxStartups 100".into(),
        // No sftp at all, as on a board with dropbear.
        format!(
            "SetEnv HOME={home} XDG_RUNTIME_DIR={} TMPDIR={home}/tmp XDG_STATE_HOME={home}/.local/state \
             XDG_CACHE_HOME={home}/.cache XDG_CONFIG_HOME={home}/.config",
            runtime.display()
        ),
    ];
    lines.extend(
        login
            .forced
            .iter()
            .map(|program| format!("ForceCommand {program}")),
    );
    lines.extend(login.more.iter().cloned());
    lines.join("\n") + "\n"
}

fn client(folder: &Path, key: &str) -> String {
    let at = |name: &str| folder.join(name).display().to_string();
    format!(
        "IdentityFile {}\nIdentitiesOnly yes\nIdentityAgent none\nUserKnownHostsFile {}\n\
         GlobalKnownHostsFile /dev/null\n",
        at(key),
        at("known_hosts")
    )
}

fn keygen(path: &Path) {
    let status = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path)
        .stdin(Stdio::null())
        .status();
    assert!(status.is_ok_and(|status| status.success()), "ssh-keygen");
}

fn path_of(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}
