//! Boards of another architecture without the hardware: single programs under qemu's user emulation, and a
//! whole board in qemu with Debian's kernel. What they need is made by `cargo board`, once.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::boards::Board;
use crate::clock::Deadline;
use crate::skip::{Need, has};
use crate::{assets, ports, workspace};

/// The emulator of programs, and the processor that is emulated fastest of those that runtimes like.
const EMULATOR: &str = "qemu-aarch64-static";
const PROCESSOR: &str = "cortex-a76";

/// From power to a shell over ssh: 4 s on an idle machine.
const BOOTS: Duration = Duration::from_secs(180);

/// The agent for aarch64, built quickly.
pub fn agent() -> PathBuf {
    made(&["build", "aarch64", "--profile", "cross-dev"])
}

/// What `cargo board` makes, by its last line.
fn made(words: &[&str]) -> PathBuf {
    let output = workspace::cargo()
        .arg("board")
        .args(words)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "cargo board {words:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    PathBuf::from(text.lines().last().unwrap_or_default())
}

/// The words before a program for aarch64; none, said aloud, without the emulator.
pub fn prefix() -> Option<Vec<String>> {
    if !has(&[Need::Program(EMULATOR)]) {
        return None;
    }
    let sysroot = made(&["sysroot", "aarch64"]).display().to_string();
    Some(
        [EMULATOR, "-cpu", PROCESSOR, "-L", &sysroot]
            .map(str::to_owned)
            .into(),
    )
}

/// The same with the files of boards before this machine's: the emulator looks for every absolute path in that
/// folder first, when a file is opened and when a folder is listed. What is not there is this machine's.
pub fn prefix_on(boards: &[Board], folder: &Path) -> Option<Vec<String>> {
    let mut words = prefix()?;
    let sysroot = PathBuf::from(words.pop().expect("the sysroot comes last"));
    for folder in [folder.join("proc"), folder.join("sys")] {
        fs::create_dir_all(folder).unwrap();
    }
    let cpus = "proc/cpuinfo";
    fs::copy(sysroot.join(cpus), folder.join(cpus)).unwrap();
    for entry in fs::read_dir(&sysroot).unwrap() {
        let entry = entry.unwrap();
        let place = folder.join(entry.file_name());
        if !place.exists() {
            symlink(entry.path(), place).unwrap();
        }
    }
    boards.iter().for_each(|board| board.unpack(folder));
    words.push(folder.display().to_string());
    Some(words)
}

/// The aarch64 library of ONNX Runtime.
pub fn onnxruntime(version: &str) -> Option<PathBuf> {
    let folder = assets::wheel_for(
        Some("manylinux_2_28_aarch64"),
        &format!("onnxruntime-aarch64-{version}"),
        &format!("onnxruntime=={version}"),
        |name| name.starts_with("onnxruntime/capi/libonnxruntime"),
    );
    let folder = folder
        .map_err(|why| crate::skip(Need::Package, format!("{why:#}")))
        .ok()?;
    Some(folder.join(format!("onnxruntime/capi/libonnxruntime.so.{version}")))
}

/// A whole board. Its power is cut when it is dropped.
#[derive(Debug)]
pub struct Emulated {
    power: Option<Child>,
    parts: PathBuf,
    folder: PathBuf,
    ssh: u16,
    udp: u16,
    words: String,
}

impl Emulated {
    /// Whether this machine can emulate one; says what is missing.
    pub fn is_possible() -> bool {
        has(&[
            Need::Program("qemu-system-aarch64"),
            Need::Program("mke2fs"),
            Need::Program("dropbearkey"),
            Need::Program("ssh"),
        ])
    }

    /// A board with a fresh disk in `folder`, switched on. `words` of its own may be `netem=delay,40ms,loss,1%`
    /// for a bad line to the world, in the words of netem with commas for blanks, and `systemd` for a board
    /// that is run by it.
    pub fn boot(folder: &Path, words: &str) -> Self {
        let parts = made(&["emulated", "aarch64"]);
        fs::create_dir_all(folder).unwrap();
        make_disk(folder);
        let mut board = Self {
            power: None,
            parts,
            folder: folder.to_owned(),
            ssh: ports::free(),
            udp: ports::free(),
            words: words.to_owned(),
        };
        board.write_client();
        board.switch_on();
        board
    }

    /// Words for `EDGEDYNO_SSH`.
    pub fn ssh(&self) -> String {
        format!("ssh -F {}", self.folder.join("ssh_config").display())
    }

    pub fn place(&self) -> String {
        format!("ssh://root@127.0.0.1:{}", self.ssh)
    }

    /// Where its UDP port 7447 is reached from here.
    pub fn udp(&self) -> u16 {
        self.udp
    }

    pub fn console(&self) -> String {
        fs::read_to_string(self.folder.join("console")).unwrap_or_default()
    }

    /// Runs a line on it.
    pub fn run(&self, line: &str) -> String {
        let output = Command::new("ssh")
            .arg("-F")
            .arg(self.folder.join("ssh_config"))
            .args(["-p", &self.ssh.to_string(), "root@127.0.0.1", line])
            .stdin(Stdio::null())
            .output()
            .expect("ssh starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until its ssh server answers.
    ///
    /// # Panics
    /// When it does not within three minutes.
    pub fn switch_on(&mut self) {
        let console = fs::File::create(self.folder.join("console")).unwrap();
        let now = crate::clock::wall_seconds();
        let forwards = format!(
            "user,id=n,hostfwd=tcp:127.0.0.1:{}-:22,hostfwd=udp:127.0.0.1:{}-:7447",
            self.ssh, self.udp
        );
        let disk = format!(
            "file={},if=none,format=raw,id=d",
            self.folder.join("disk").display()
        );
        let mut command = Command::new("qemu-system-aarch64");
        command
            .args([
                "-M",
                "virt",
                "-cpu",
                "cortex-a57",
                "-smp",
                "2",
                "-m",
                "1024",
            ])
            .args(["-accel", "tcg,thread=multi", "-nographic", "-no-reboot"])
            .arg("-kernel")
            .arg(self.parts.join("vmlinuz"))
            .arg("-initrd")
            .arg(self.parts.join("initramfs.gz"))
            .args([
                "-append",
                &format!("console=ttyAMA0 quiet panic=-1 now={now} {}", self.words),
            ])
            .args([
                "-netdev",
                &forwards,
                "-device",
                "virtio-net-pci,netdev=n,romfile=",
            ])
            .args(["-drive", &disk, "-device", "virtio-blk-pci,drive=d"])
            .stdin(Stdio::null())
            .stdout(console.try_clone().unwrap())
            .stderr(console)
            .process_group(0);
        self.power = Some(command.spawn().expect("qemu starts"));
        let up = Deadline::after(BOOTS).poll(|| {
            let ended = self
                .power
                .as_mut()
                .and_then(|power| power.try_wait().ok().flatten());
            assert!(ended.is_none(), "the board went off: {}", self.console());
            self.answers().then_some(())
        });
        assert!(
            up.is_some(),
            "the board does not come up: {}",
            self.console()
        );
    }

    /// Its ssh server says its version first. qemu itself takes connections at once.
    fn answers(&self) -> bool {
        let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", self.ssh)) else {
            return false;
        };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
        let mut head = [0; 4];
        stream.read_exact(&mut head).is_ok() && &head == b"SSH-"
    }

    /// Cuts the power: nothing is written any more, nobody is told.
    pub fn cut_power(&mut self) {
        if let Some(mut power) = self.power.take() {
            let _ = power.kill();
            let _ = power.wait();
        }
    }

    fn write_client(&self) {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let public = fs::read_to_string(self.folder.join("hostkey.pub")).unwrap();
        fs::write(
            self.folder.join("known_hosts"),
            format!("[127.0.0.1]:{} {public}", self.ssh),
        )
        .unwrap();
        let text = format!(
            "IdentityFile {}\nIdentitiesOnly yes\nIdentityAgent none\nUserKnownHostsFile {}\n\
             GlobalKnownHostsFile /dev/null\nBatchMode yes\n",
            at("user"),
            at("known_hosts")
        );
        fs::write(self.folder.join("ssh_config"), text).unwrap();
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        self.cut_power();
    }
}

/// A disk with root's home, the key that may come in, and the board's own key.
fn make_disk(folder: &Path) {
    let tree = folder.join("tree");
    let ssh = tree.join("root/.ssh");
    fs::create_dir_all(&ssh).unwrap();
    run(Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(folder.join("user")));
    fs::copy(folder.join("user.pub"), ssh.join("authorized_keys")).unwrap();
    let key = tree.join("hostkey");
    let made = run(Command::new("dropbearkey")
        .args(["-t", "ed25519", "-f"])
        .arg(&key));
    let public = made.lines().find(|line| line.starts_with("ssh-ed25519 "));
    fs::write(
        folder.join("hostkey.pub"),
        format!("{}\n", public.expect("a public key")),
    )
    .unwrap();
    for path in [&tree.join("root"), &ssh, &key, &ssh.join("authorized_keys")] {
        let mode = if path.is_dir() { 0o700 } else { 0o600 };
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }
    run(Command::new("mke2fs")
        .args(["-q", "-t", "ext4", "-E", "root_owner=0:0", "-d"])
        .arg(&tree)
        .arg(folder.join("disk"))
        .arg("512M"));
}

fn run(command: &mut Command) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    command.env("PATH", std::env::join_paths(folders).unwrap());
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
