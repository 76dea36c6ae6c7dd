//! A board behind ssh, as a user comes to it: added, measured, looked after, cleared. The server is a real
//! sshd on the loopback address.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use edgedyno_shared::ids::{BuildId, StoreId};
use edgedyno_shared::wire::frame::{self, kind};
use edgedyno_shared::wire::hello::{DaemonStatus, Hello};
use edgedyno_tests::commands::{QUICK, sha256, small_model, summary, text};
use edgedyno_tests::schema::assert_matches_schema;
use edgedyno_tests::skip::has;
use edgedyno_tests::sshd::{Login, Sshd};
use edgedyno_tests::{Need, Output, Sandbox, binaries, runtime};
use serde_json::Value;

/// A host in a sandbox, and a board behind ssh.
struct Lab {
    sshd: Sshd,
    sandbox: Sandbox,
    login: Login,
}

impl Lab {
    /// None, said aloud, where this machine has no sshd.
    fn new() -> Option<Self> {
        Self::with(Login::default())
    }

    fn with(login: Login) -> Option<Self> {
        if !Sshd::is_there() {
            return None;
        }
        let mut sandbox = Sandbox::new();
        let sshd = Sshd::start(&mut sandbox, &login);
        Some(Self {
            sshd,
            sandbox,
            login,
        })
    }

    /// With a board `x`.
    fn added() -> Option<Self> {
        let lab = Self::new()?;
        lab.add(&[]).ok();
        Some(lab)
    }

    fn add(&self, more: &[&str]) -> Output {
        let place = self.sshd.place();
        let agent = binaries().agent.display().to_string();
        let words = ["board", "add", &place, "--name", "x", "--agent", &agent];
        self.sandbox.edgedyno(words.iter().chain(more))
    }

    fn board(&self, words: &[&str]) -> Output {
        self.sandbox.edgedyno(["board"].iter().chain(words))
    }

    fn doctor(&self) -> (Output, Value) {
        let output = self.board(&["doctor", "x", "--json"]);
        let value = output.json();
        assert_matches_schema(&value, "doctor");
        (output, value)
    }

    /// The first broken link is that one, and says what mends it.
    #[track_caller]
    fn assert_broken_at(&self, link: &str) -> Value {
        let (output, value) = self.doctor();
        assert_eq!(value["broken"], link, "{value:#}");
        assert_eq!(output.code, 4);
        let check = check(&value, link);
        assert!(!text(&check["remedy"]).is_empty(), "{check}");
        check
    }

    fn run(&self, model: &Path, args: &[&str]) -> Output {
        let model = model.to_str().unwrap();
        let words = ["run", model, "--board", "x", "--backend", "rten"];
        self.sandbox.edgedyno(words.iter().chain(args))
    }

    /// Whether a worker is there.
    fn measures(&self) -> bool {
        let all = self.sandbox.processes();
        all.iter()
            .any(|(_, line)| line.contains("worker --control"))
    }

    /// The process that serves the board.
    fn daemon(&self) -> i32 {
        let lock = self.sshd.home().join(".local/state/edgedyno/agent.lock");
        let process = std::fs::read_to_string(lock).unwrap();
        process.trim().parse().unwrap()
    }

    /// What a user types to go the way that `edgedyno` goes.
    fn typed(&self) -> String {
        let place = self.sshd.place();
        let (who, port) = place["ssh://".len()..].rsplit_once(':').unwrap();
        let config = self.sshd.folder().join("ssh_config");
        format!("ssh -F {} -p {port} {who}", config.display())
    }

    /// Where the agent's program was put.
    fn program(&self) -> std::path::PathBuf {
        let listed = self.board(&["list", "--json"]).ok().json();
        text(&listed["boards"][1]["ssh"]["program"]).into()
    }
}

fn free_port() -> u16 {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port()
}

fn check(doctor: &Value, link: &str) -> Value {
    let checks = doctor["checks"].as_array().unwrap();
    checks
        .iter()
        .find(|check| check["name"] == link)
        .unwrap()
        .clone()
}

#[test]
fn a_board_is_added_measured_updated_and_cleared() {
    let Some(lab) = Lab::new() else { return };
    let added = lab.add(&["--json"]).ok().json();
    assert_matches_schema(&added, "board-ready");
    assert_eq!(added["arch"], std::env::consts::ARCH);
    let agent = std::fs::metadata(&binaries().agent).unwrap().len();
    assert_eq!(added["sent_bytes"], agent);
    let program = lab.program();
    assert!(
        program.starts_with(lab.sshd.home().join(".local/lib/edgedyno")),
        "{program:?}"
    );
    assert!(program.is_file());

    let info = lab.board(&["info", "x", "--json"]).ok().json();
    assert_matches_schema(&info, "board");
    assert_eq!(info["build"], added["build"]);
    let own = sha256(&binaries().agent);
    assert_eq!(added["agent_sha256"], own.as_str());
    let folder = program.parent().unwrap().display().to_string();
    assert!(folder.ends_with(&own[..12]), "{folder}");
    let again = lab.add(&[]).expect_code(2);
    let hint = "`edgedyno board update x`";
    assert!(again.stderr.contains(hint), "{}", again.stderr);

    let model = small_model(&lab.sandbox);
    lab.run(&model, &QUICK).ok();
    let document = summary(&lab.sandbox, "last");
    let repeat = &document["cases"][0]["repeats"][0];
    assert_eq!(repeat["outcome"], "complete");
    let blobs = lab.sshd.home().join(".local/state/edgedyno/blobs");
    assert!(blobs.is_dir(), "the model came by its bytes");

    let (_, doctor) = lab.doctor();
    assert_eq!(doctor["broken"], Value::Null, "{doctor:#}");
    assert_eq!(check(&doctor, "clock")["state"], "good");

    let agent = binaries().agent.display().to_string();
    let updated = lab
        .board(&["update", "x", "--agent", &agent, "--json"])
        .ok()
        .json();
    assert_matches_schema(&updated, "board-ready");
    assert_eq!(updated["sent_bytes"], 0, "it was there already");
    assert_eq!(updated["standing"], "up-to-date", "{updated:#}");
    let told = lab.board(&["update", "x", "--agent", &agent]).ok().stdout;
    assert!(told.contains("up to date"), "{told}");

    let removed = lab.board(&["remove", "x", "--json"]).ok().json();
    assert_matches_schema(&removed, "board-removed");
    let deleted: Vec<String> = removed["deleted"]
        .as_array()
        .unwrap()
        .iter()
        .map(text)
        .collect();
    assert!(deleted.contains(&folder), "{deleted:?}");
    assert!(
        deleted
            .iter()
            .any(|path| path.ends_with(".local/state/edgedyno")),
        "{deleted:?}"
    );
    let home = std::fs::read_dir(lab.sshd.home()).unwrap();
    let left: Vec<_> = home.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["tmp"], "as it was before: {deleted:?}");
    let arenas = lab.sandbox.runtime().join("board/edgedyno");
    assert!(!arenas.exists(), "{deleted:?}");
    let listed = lab.board(&["list", "--json"]).ok().json();
    let names = listed["boards"].as_array().unwrap().iter();
    let names: Vec<&Value> = names.map(|board| &board["name"]).collect();
    assert_eq!(names, ["local"]);
}

/// A list of boards that no command has to go to.
fn list_of_strangers(sandbox: &Sandbox, names: &[String]) -> std::path::PathBuf {
    let folder = sandbox.work().join("../home/.config/edgedyno");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("boards.toml");
    let entry = |name: &String| {
        format!(
            "[boards.{name}]\naddresses = []\n[boards.{name}.ssh]\ndestination = \"ssh://nowhere.invalid\"\n\
             program = \"/opt/edgedyno/0.1.0-ab/edgedyno-agent\"\narchitecture = \"aarch64\"\n\
             start = \"on-demand\"\n"
        )
    };
    let text: Vec<String> = names.iter().map(entry).collect();
    std::fs::write(&path, text.join("\n")).unwrap();
    path
}

fn listed(sandbox: &Sandbox) -> Vec<String> {
    let list = sandbox.edgedyno(["board", "list", "--json"]).ok().json();
    let boards = list["boards"].as_array().unwrap();
    let names = boards.iter().map(|board| text(&board["name"]));
    // This machine is one that nobody added.
    names.filter(|name| name != "local").collect()
}

#[test]
fn commands_at_the_same_time_lose_no_change_of_the_list() {
    let sandbox = Sandbox::new();
    let names: Vec<String> = (0..12).map(|at| format!("b{at:02}")).collect();
    list_of_strangers(&sandbox, &names);
    let running: Vec<_> = names[1..]
        .iter()
        .map(|name| sandbox.start_edgedyno(["board", "forget", name]))
        .collect();
    running.into_iter().for_each(|each| drop(each.wait().ok()));
    assert_eq!(listed(&sandbox), names[..1]);
}

/// `board add` works for seconds between its look at the list and its change of it.
#[test]
fn what_changes_while_a_board_is_added_stays_changed() {
    let Some(lab) = Lab::new() else { return };
    list_of_strangers(&lab.sandbox, &["gone".into(), "stays".into()]);
    let place = lab.sshd.place();
    let agent = binaries().agent.display().to_string();
    let words = ["board", "add", &place, "--name", "x", "--agent", &agent];
    let mut adding = lab.sandbox.start_edgedyno(words);
    let folder = lab.sshd.home().join(".local/lib/edgedyno");
    adding.wait_until("the agent's folder", |_| folder.exists());
    lab.board(&["forget", "gone"]).ok();
    adding.wait().ok();
    assert_eq!(listed(&lab.sandbox), ["stays", "x"]);
}

/// Names in a folder; none where there is no folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().into_iter().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_board_that_cannot_be_added_is_left_as_it_was() {
    let Some(lab) = Lab::new() else { return };
    let home = lab.sshd.home();
    let add = |agent: &Path, more: &[&str]| {
        let agent = agent.display().to_string();
        let place = lab.sshd.place();
        let words = ["board", "add", &place, "--name", "x", "--agent", &agent];
        lab.sandbox.edgedyno(words.iter().chain(more))
    };
    // A program for this processor that is no agent.
    let other = lab
        .sandbox
        .write("other/edgedyno-agent", std::fs::read("/bin/true").unwrap());
    add(&other, &[]).expect_code(4);
    assert_eq!(names(&home), ["tmp"]);

    // An agent that does not take this host up, which the network would need.
    let identity = home.join(".local/state/edgedyno/identity");
    std::fs::create_dir_all(&identity).unwrap();
    let hosts = identity.join("authorized_hosts");
    std::fs::write(&hosts, "# hosts\nnobody knows what this is\n").unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let is_root = nix::unistd::getuid().is_root();
    let as_root: &[&str] = if is_root { &["--as-root"] } else { &[] };
    let listens = [&["--listen", &listen][..], as_root].concat();
    let refused = add(&binaries().agent, &listens).expect_code(4).stderr;
    for word in [
        "does not take up this host",
        "authorized_hosts",
        "line 2",
        "hint: ",
    ] {
        assert!(refused.contains(word), "{word}: {refused}");
    }
    assert_eq!(names(&home.join(".local")), ["state"], "{refused}");
    assert!(hosts.is_file(), "what was there stays");
    assert!(listed(&lab.sandbox).is_empty());

    std::fs::remove_file(&hosts).unwrap();
    let added = add(&binaries().agent, &[&listens[..], &["--json"]].concat());
    assert_eq!(added.ok().json()["network"], listen);
}

#[test]
fn nothing_is_left_of_an_agent_that_was_ended_while_it_measured() {
    let Some(lab) = Lab::added() else { return };
    let model = small_model(&lab.sandbox);
    let model = model.to_str().unwrap().to_owned();
    let words = ["run", &model, "--board", "x", "--backend", "rten"];
    let rules = ["--warmup", "2", "--duration", "60s"];
    let mut running = lab.sandbox.start_edgedyno(words.iter().chain(&rules));
    running.wait_until("a worker", |_| lab.measures());
    running.signal(nix::sys::signal::Signal::SIGKILL);
    drop(running);
    let removed = lab.board(&["remove", "x", "--force"]).ok().stdout;
    let arenas = lab.sandbox.runtime().join("board/edgedyno");
    assert_eq!(names(&arenas), Vec::<String>::new(), "{removed}");
    assert!(!arenas.exists(), "{removed}");
    assert_eq!(names(&lab.sshd.home()), ["tmp"], "{removed}");
}

/// Who tries it all with the ssh server of the own machine has one home on both sides.
#[test]
fn a_board_that_is_this_machine_keeps_what_this_machine_uses() {
    let Some(mut lab) = Lab::added() else { return };
    let state = lab.sshd.home().join(".local/state/edgedyno");
    assert!(state.exists());
    lab.sandbox.env("EDGEDYNO_AGENT_STATE", &state);
    let removed = lab.board(&["remove", "x", "--json"]).ok().json();
    assert_matches_schema(&removed, "board-removed");
    assert_eq!(removed["kept"], serde_json::json!([state]));
    assert!(
        !removed["deleted"].to_string().contains("/state/edgedyno\""),
        "{removed:#}"
    );
    assert!(state.exists());
}

/// Whoever copies a command from what is told of a board means that board.
#[test]
fn commands_that_are_shown_go_to_the_board() {
    let Some(lab) = Lab::added() else { return };
    let listed = lab.sandbox.edgedyno(["runtime", "list", "--board", "x"]);
    let listed = listed.ok().stdout;
    assert!(
        listed.contains("`edgedyno run MODEL --board x` takes"),
        "{listed}"
    );
    let info = lab.board(&["info", "x"]).ok().stdout;
    assert!(info.contains("\n  runs:    models by "), "{info}");
    for text in [&listed, &info] {
        let installs = text.matches("edgedyno runtime install onnxruntime");
        let there = text.matches("edgedyno runtime install onnxruntime --board x`");
        assert_eq!(installs.count(), there.count(), "{text}");
    }
    let document = lab.board(&["info", "x", "--json"]).ok().json();
    let backend = text(&document["default"]["backend"]);
    assert!(
        info.contains(&format!("models by {backend} ")),
        "{info}\n{backend}"
    );
    let refused = lab
        .sandbox
        .edgedyno(["runtime", "install", "tensorrt", "--board", "x"])
        .expect_code(2);
    assert!(
        refused.stderr.contains("`edgedyno runtime list --board x`"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_board_that_is_away_is_not_cleared_and_not_said_to_have_answered() {
    let Some(mut lab) = Lab::added() else { return };
    lab.sshd.stop();
    let refused = lab.board(&["remove", "x"]).expect_code(4).stderr;
    for part in [
        "error: board x cannot be reached",
        &format!("no ssh answers at {}", lab.sshd.place()),
        "Connection refused",
        &format!("`{}`", lab.typed()),
        "`edgedyno board forget x`",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert!(!refused.contains("started"), "{refused}");
    let login = lab.login.clone();
    lab.sshd.restart(&login);
    assert!(lab.program().is_file(), "it is on the list and there");
    lab.board(&["remove", "x"]).ok();
}

#[test]
fn a_board_is_shown_as_it_is_now() {
    let Some(lab) = Lab::added() else { return };
    let words = [
        "top", "--board", "x", "--once", "--json", "--every", "300ms",
    ];
    let shown = lab.sandbox.edgedyno(words).ok().json();
    assert_matches_schema(&shown, "top");
    assert_eq!(shown["board"], "x");
    let channels = shown["channels"].as_array().unwrap();
    let memory = channels.iter().find(|c| c["name"] == "mem.available");
    assert!(memory.unwrap()["value"].as_i64().unwrap() > 0);
}

#[test]
fn a_noisy_login_and_an_odd_shell_are_no_hindrance() {
    let script = "#!/bin/sh\necho 'Welcome to the lab!'\necho 'No mail.' >&2\nprintf 'no line end'\n\
        exec /bin/bash -c \"$SSH_ORIGINAL_COMMAND\"\n";
    let folder = tempfile::tempdir().unwrap();
    let shell = folder.path().join("login");
    std::fs::write(&shell, script).unwrap();
    std::fs::set_permissions(&shell, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let login = Login {
        forced: Some(shell.display().to_string()),
        ..Login::default()
    };
    let Some(lab) = Lab::with(login) else { return };
    lab.add(&[]).ok();
    let model = small_model(&lab.sandbox);
    lab.run(&model, &QUICK).ok();
    lab.board(&["remove", "x"]).ok();
}

#[test]
fn a_place_that_cannot_be_reached_is_told_with_what_mends_it() {
    let Some(lab) = Lab::new() else { return };
    lab.sshd.use_key("stranger");
    let refused = lab.add(&[]).expect_code(4);
    // ssh-copy-id would go another way than the ssh that is named.
    let asks = format!("until `{}` asks nothing", lab.typed());
    assert!(refused.stderr.contains(&asks), "{}", refused.stderr);
    lab.sshd.use_key("user");
    let known = lab.sshd.folder().join("known_hosts");
    std::fs::write(&known, "").unwrap();
    let refused = lab.add(&[]).expect_code(4);
    let run = format!("run `{}` once and compare the fingerprint", lab.typed());
    assert!(refused.stderr.contains(&run), "{}", refused.stderr);
    assert_eq!(
        std::fs::read_to_string(&known).unwrap(),
        "",
        "no key is taken up unseen"
    );
    for (place, code, word) in [
        ("ssh://127.0.0.1:9", 4, "no ssh answers"),
        ("ssh://no-such-host.invalid", 4, "not known by name"),
        ("ssh://-oProxyCommand=x", 2, "no place"),
        ("10.0.0.1", 2, "ssh://"),
    ] {
        let refused = lab.board(&["add", place, "--name", "y"]).expect_code(code);
        assert!(refused.stderr.contains(word), "{place}: {}", refused.stderr);
        assert!(
            refused.stderr.contains("hint: "),
            "{place}: {}",
            refused.stderr
        );
    }
}

#[test]
fn an_agent_that_is_none_for_that_board_is_refused_before_it_is_sent() {
    let Some(lab) = Lab::new() else { return };
    let text = lab
        .sandbox
        .write("agent", "#!/bin/sh\nexit 0  # twenty bytes and more\n");
    let place = lab.sshd.place();
    let words = [
        "add",
        &place,
        "--name",
        "x",
        "--agent",
        text.to_str().unwrap(),
    ];
    let refused = lab.board(&words).expect_code(2);
    assert!(
        refused.stderr.contains("neither a program nor a package"),
        "{}",
        refused.stderr
    );
    let mut elf = std::fs::read("/bin/sh").unwrap();
    elf[18] = 243;
    let other = lab.sandbox.write("other", elf);
    let words = [
        "add",
        &place,
        "--name",
        "x",
        "--agent",
        other.to_str().unwrap(),
    ];
    let refused = lab.board(&words).expect_code(2);
    assert!(refused.stderr.contains("riscv64"), "{}", refused.stderr);
    assert!(!lab.sshd.home().join(".local/lib").join("edgedyno").exists());
}

#[test]
fn the_doctor_names_the_link_that_is_broken() {
    let Some(mut lab) = Lab::added() else { return };
    lab.sshd.use_key("stranger");
    lab.assert_broken_at("authentication");
    lab.sshd.use_key("user");

    let known = lab.sshd.folder().join("known_hosts");
    let was = std::fs::read_to_string(&known).unwrap();
    let user = std::fs::read_to_string(lab.sshd.folder().join("user.pub")).unwrap();
    std::fs::write(&known, format!("[127.0.0.1]:{} {user}", lab.sshd.port())).unwrap();
    let broken = lab.assert_broken_at("ssh");
    let forget = format!(
        "`ssh-keygen -f {} -R '[127.0.0.1]:{}'` and `{}`",
        known.display(),
        lab.sshd.port(),
        lab.typed()
    );
    assert!(text(&broken["remedy"]).contains(&forget), "{broken}");
    std::fs::write(&known, was).unwrap();

    let program = lab.program();
    let aside = program.with_extension("aside");
    std::fs::rename(&program, &aside).unwrap();
    let broken = lab.assert_broken_at("agent");
    assert!(
        text(&broken["remedy"]).contains("`edgedyno board update x`"),
        "{broken}"
    );
    let model = small_model(&lab.sandbox);
    let gone = lab.run(&model, &QUICK).expect_code(4);
    assert!(
        gone.stderr.contains("`edgedyno board update x`"),
        "{}",
        gone.stderr
    );
    std::fs::write(&program, "#!/bin/sh\nexit 3\n").unwrap();
    lab.assert_broken_at("agent");
    std::fs::rename(&aside, &program).unwrap();

    lab.sshd.stop();
    lab.assert_broken_at("reach");
    let login = lab.login.clone();
    lab.sshd.restart(&login);
    let (output, value) = lab.doctor();
    assert_eq!(
        (output.code, &value["broken"]),
        (0, &Value::Null),
        "{value:#}"
    );
    let name = text(&check(&value, "name")["detail"]);
    assert_eq!(
        name,
        format!("x is {}, at 127.0.0.1", lab.sshd.place()),
        "the board's name here, and where ssh goes"
    );
}

#[test]
fn folders_that_cannot_hold_an_agent_are_told_apart() {
    if !Sshd::is_there() || !has(&[Need::MountNamespace]) {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    for name in ["noexec", "full"] {
        std::fs::create_dir(base.path().join(name)).unwrap();
    }
    let at = base.path().display();
    let mounts = format!(
        "mount -t tmpfs -o noexec,size=64m tmpfs {at}/noexec && mount -t tmpfs -o size=64k tmpfs {at}/full && \
         exec \"$0\" \"$@\""
    );
    let login = Login {
        prefix: ["unshare", "--mount", "sh", "-c", &mounts]
            .map(str::to_owned)
            .into(),
        ..Login::default()
    };
    let Some(lab) = Lab::with(login) else { return };
    for (name, word) in [
        ("noexec", "nothing can be started"),
        ("full", "left, 32 MiB are needed"),
    ] {
        let folder = format!("{at}/{name}/edgedyno");
        let refused = lab.add(&["--folder", &folder]).expect_code(4);
        assert!(refused.stderr.contains(word), "{name}: {}", refused.stderr);
        assert!(
            refused.stderr.contains("--folder"),
            "{name}: {}",
            refused.stderr
        );
    }
    lab.add(&[]).ok();
    for (name, link) in [("noexec", "folder"), ("full", "disk")] {
        let boards = lab
            .sandbox
            .work()
            .join("../home/.config/edgedyno/boards.toml");
        let was = std::fs::read_to_string(&boards).unwrap();
        let program = lab.program();
        let moved = format!("{at}/{name}/edgedyno/0.1.0-x/edgedyno-agent");
        std::fs::write(&boards, was.replace(program.to_str().unwrap(), &moved)).unwrap();
        lab.assert_broken_at(link);
        std::fs::write(&boards, was).unwrap();
    }
}

/// What a measurement needs of a board is looked at however the board is reached.
#[test]
fn disk_clock_and_driver_of_every_board_are_looked_at() {
    let is_looked_at = |doctor: &Value| {
        assert_matches_schema(doctor, "doctor");
        for link in ["disk", "clock", "driver", "runtime", "permission"] {
            assert_ne!(check(doctor, link)["state"], "skipped", "{doctor:#}");
        }
        assert_eq!(check(doctor, "clock")["state"], "good", "one machine");
    };
    let sandbox = Sandbox::new();
    is_looked_at(&sandbox.edgedyno(["board", "doctor", "--json"]).ok().json());
    let network = edgedyno_tests::lab::Lab::paired("run");
    let words = ["board", "doctor", "x", "--json"];
    is_looked_at(&network.sandbox.edgedyno(words).ok().json());
    let Some(lab) = Lab::added() else { return };
    is_looked_at(&lab.doctor().1);
}

/// What an agent of another schema answers to a hello.
fn other_schema() -> Vec<u8> {
    let own = Hello {
        schema: [9; 32],
        ..Hello::new(BuildId("0ld".into()), StoreId::NONE)
    };
    let host = Hello::new(BuildId("test".into()), StoreId::NONE);
    own.answer(&host).to_frame().to_bytes()
}

#[test]
fn an_agent_of_another_version_is_named_and_replaced() {
    let Some(lab) = Lab::added() else { return };
    lab.board(&["info", "x"]).ok();
    let program = lab.program();
    let hello = lab.sandbox.write("hello", other_schema());
    let old = format!(
        "#!/bin/sh\ncase $1 in\nversion) echo 'edgedyno-agent 0.0.9 build 0ld';;\nserve) cat {}; sleep 2;;\n\
         *) exit 2;;\nesac\n",
        hello.display()
    );
    std::fs::remove_file(&program).unwrap();
    std::fs::write(&program, old).unwrap();
    std::fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let (output, value) = lab.doctor();
    assert_eq!(
        (output.code, &value["broken"]),
        (7, &Value::from("version")),
        "{value:#}"
    );
    let model = small_model(&lab.sandbox);
    let refused = lab.run(&model, &QUICK).expect_code(7);
    assert!(
        refused.stderr.contains("`edgedyno board update x`"),
        "{}",
        refused.stderr
    );
    let agent = binaries().agent.display().to_string();
    let updated = lab
        .board(&["update", "x", "--agent", &agent, "--json"])
        .ok()
        .json();
    assert_ne!(updated["sent_bytes"], 0);
    assert_eq!(updated["standing"], "serves");
    lab.run(&model, &QUICK).ok();
}

/// The same program by another name of its build: what a rebuilt agent is to a board.
fn another_build(lab: &Lab) -> (std::path::PathBuf, String) {
    let version = lab.sandbox.agent(["version"]).ok().stdout;
    let build = version.split_whitespace().last().unwrap().to_owned();
    let digit = if build.ends_with('0') { "1" } else { "0" };
    let other = format!("{}{digit}", &build[..build.len() - 1]);
    let mut bytes = std::fs::read(&binaries().agent).unwrap();
    let places: Vec<usize> = bytes
        .windows(build.len())
        .enumerate()
        .filter_map(|(at, window)| (window == build.as_bytes()).then_some(at))
        .collect();
    assert!(
        !places.is_empty(),
        "the program holds the name of its build"
    );
    for at in places {
        bytes[at..at + build.len()].copy_from_slice(other.as_bytes());
    }
    let path = lab.sandbox.write("other/edgedyno-agent", bytes);
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    (path, other)
}

#[test]
fn an_update_beside_a_running_repeat_does_not_interrupt_it() {
    let Some(lab) = Lab::added() else { return };
    let (agent, build) = another_build(&lab);
    let before = lab.program();
    let model = small_model(&lab.sandbox);
    let model = model.to_str().unwrap().to_owned();
    let words = ["run", &model, "--board", "x", "--backend", "rten"];
    let rules = ["--repeat", "3", "--warmup", "2", "--duration", "4s"];
    let mut running = lab.sandbox.start_edgedyno(words.iter().chain(&rules));
    running.wait_until("a worker", |_| lab.measures());
    let process = lab.daemon();
    let agent = agent.display().to_string();
    let updated = lab.board(&["update", "x", "--agent", &agent, "--json"]);
    let updated = updated.ok().json();
    assert_matches_schema(&updated, "board-ready");
    assert_eq!(updated["build"], build.as_str(), "{updated:#}");
    // A slow machine may have come to the end of that repeat.
    let standing = match updated["serving_build"] == updated["build"] {
        true => "serves",
        false => "waits-for-repeat",
    };
    assert_eq!(updated["standing"], standing, "{updated:#}");
    running.wait().ok();
    assert_complete(&lab, 3);
    // Side by side: the old program is still there.
    assert_ne!(lab.program(), before);
    assert!(before.is_file() && lab.program().is_file());
    // What was queued was measured by the new one, which the old one became.
    let measured_by = lab.sandbox.edgedyno(["get", "last", "agent_build"]).ok();
    assert_eq!(measured_by.stdout.trim(), build);
    let info = lab.board(&["info", "x", "--json"]).ok().json();
    assert_eq!((&info["build"], lab.daemon()), (&build.into(), process));
}

/// Each of so many repeats of the last run was measured to its end at the first try.
#[track_caller]
fn assert_complete(lab: &Lab, repeats: u64) {
    let document = summary(&lab.sandbox, "last");
    let rows = document["cases"][0]["repeats"].as_array().unwrap();
    let ended: Vec<(u64, u64, &str)> = rows
        .iter()
        .map(|row| {
            let number = |field: &str| row[field].as_u64().unwrap();
            (
                number("repeat"),
                number("attempt"),
                row["outcome"].as_str().unwrap(),
            )
        })
        .collect();
    let expected: Vec<_> = (0..repeats).map(|repeat| (repeat, 0, "complete")).collect();
    assert_eq!(ended, expected, "{rows:#?}");
}

#[test]
fn an_agent_that_listens_is_updated_beside_a_running_repeat() {
    let Some(lab) = Lab::new() else { return };
    let listen = format!("127.0.0.1:{}", free_port());
    let is_root = nix::unistd::getuid().is_root();
    let as_root: &[&str] = if is_root { &["--as-root"] } else { &[] };
    lab.add(&[&["--listen", &listen], as_root].concat()).ok();
    let (agent, build) = another_build(&lab);
    let model = small_model(&lab.sandbox);
    let model = model.to_str().unwrap().to_owned();
    let words = ["run", &model, "--board", "x", "--backend", "rten"];
    let rules = ["--repeat", "3", "--warmup", "2", "--duration", "4s"];
    let mut running = lab.sandbox.start_edgedyno(words.iter().chain(&rules));
    running.wait_until("a worker", |_| lab.measures());
    let process = lab.daemon();
    let agent = agent.display().to_string();
    lab.board(&["update", "x", "--agent", &agent]).ok();
    running.wait().ok();
    assert_complete(&lab, 3);
    let info = lab.board(&["info", "x", "--json"]).ok().json();
    assert_eq!((&info["build"], lab.daemon()), (&build.into(), process));
    let (_, doctor) = lab.doctor();
    assert_eq!(check(&doctor, "network")["state"], "good", "{doctor:#}");
}

#[test]
fn a_host_that_knows_the_board_by_its_old_program_is_served_by_the_new_one() {
    let Some(lab) = Lab::added() else { return };
    let before = lab.board(&["info", "x", "--json"]).ok().json();
    let boards = lab
        .sandbox
        .work()
        .join("../home/.config/edgedyno/boards.toml");
    let was = std::fs::read_to_string(&boards).unwrap();
    let (agent, build) = another_build(&lab);
    let agent = agent.display().to_string();
    let updated = lab.board(&["update", "x", "--agent", &agent, "--json"]);
    let updated = updated.ok().json();
    assert_eq!(updated["serving_build"], build.as_str(), "nothing ran");
    std::fs::write(&boards, was).unwrap();
    let build_shown = || lab.board(&["info", "x", "--json"]).ok().json()["build"].clone();
    assert_eq!(build_shown(), build.as_str());
    let daemon = nix::unistd::Pid::from_raw(lab.daemon());
    nix::sys::signal::kill(daemon, nix::sys::signal::Signal::SIGKILL).unwrap();
    assert_eq!(build_shown(), build.as_str(), "it was started anew");
    assert_ne!(before["build"], build.as_str());
}

#[test]
fn an_old_agent_that_runs_makes_way_for_the_new_one() {
    let Some(lab) = Lab::new() else { return };
    let state = lab.sshd.home().join(".local/state/edgedyno");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let socket = state.join("agent.sock");
    // The path may be longer than a socket's can be.
    let folder = std::fs::File::open(&state).unwrap();
    let short = format!(
        "/proc/self/fd/{}/agent.sock",
        std::os::fd::AsRawFd::as_raw_fd(&folder)
    );
    let listener = std::os::unix::net::UnixListener::bind(short).unwrap();
    let old = std::thread::spawn(move || {
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            while let Ok(Some(frame)) = frame::read_blocking(&mut stream, frame::LIMIT) {
                match frame.kind {
                    kind::HELLO => stream.write_all(&other_schema()).unwrap(),
                    kind::RETIRE => {
                        let status = DaemonStatus {
                            process: 1,
                            sessions: 1,
                            queued: 0,
                            spooled: 0,
                            running: false,
                        };
                        stream
                            .write_all(&status.to_frame(kind::RETIRE_REPLY).to_bytes())
                            .unwrap();
                        std::fs::remove_file(&socket).unwrap();
                        return;
                    }
                    _ => {}
                }
            }
        }
    });
    lab.add(&[]).ok();
    assert!(old.is_finished(), "it was told to leave");
    old.join().unwrap();
}

#[test]
fn a_runtime_is_brought_to_a_board() {
    let Some(lab) = Lab::added() else { return };
    let Some(library) = runtime::onnxruntime() else {
        return;
    };
    let words = install_words(&library).into_iter();
    let words = words.chain(["--json".to_owned()]);
    let installed = lab.sandbox.edgedyno(words).ok().json();
    assert_matches_schema(&installed, "runtime");
    let path = text(&installed["path"]);
    let cache = lab.sshd.home().join(".cache/edgedyno/runtimes/onnxruntime");
    assert!(Path::new(&path).starts_with(&cache), "{path}");
    assert_eq!(sha256(Path::new(&path)), text(&installed["sha256"]));
    assert_eq!(installed["here"]["state"], "usable");
    let model = small_model(&lab.sandbox);
    let words = [
        "run",
        model.to_str().unwrap(),
        "--board",
        "x",
        "--backend",
        "onnxruntime",
    ];
    lab.sandbox.edgedyno(words.iter().chain(&QUICK)).ok();
    let of_its_maker = lab.sshd.home().join(".cache/Microsoft");
    assert!(!of_its_maker.exists(), "it was not let report");
    let removed = lab.board(&["remove", "x", "--json"]).ok().json();
    assert!(
        removed["deleted"].to_string().contains(".cache/edgedyno"),
        "{removed}"
    );
    assert!(!cache.exists());
}

/// A login whose uploads come as that shell command lets them.
fn slow_uploads(folder: &Path, upload: &str) -> Login {
    let script = format!(
        "#!/bin/sh\ncase \"$SSH_ORIGINAL_COMMAND\" in\n*/runtimes/*'cat >'*) {{ {upload}; }} | /bin/sh -c \"$SSH_ORIGINAL_COMMAND\";;\n\
         *) exec /bin/sh -c \"$SSH_ORIGINAL_COMMAND\";;\nesac\n"
    );
    let shell = folder.join("login");
    std::fs::write(&shell, script).unwrap();
    std::fs::set_permissions(&shell, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    Login {
        forced: Some(shell.display().to_string()),
        ..Login::default()
    }
}

/// Libraries with their own name, whole or not, that are on the board.
fn libraries(lab: &Lab) -> Vec<String> {
    let versions = lab.sshd.home().join(".cache/edgedyno/runtimes/onnxruntime");
    let folders = names(&versions);
    let files = folders
        .iter()
        .flat_map(|folder| names(&versions.join(folder)));
    files.filter(|name| !name.starts_with(".new-")).collect()
}

fn install_words(library: &Path) -> [String; 7] {
    let library = library.display().to_string();
    let words = [
        "runtime",
        "install",
        "onnxruntime",
        "--board",
        "x",
        "--from",
        &library,
    ];
    words.map(str::to_owned)
}

/// The board's end of a cut line looks like the end of the file.
#[test]
fn a_library_that_came_in_part_does_not_get_its_name() {
    let Some(library) = runtime::onnxruntime() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let login = slow_uploads(folder.path(), "head -c 65536");
    let Some(lab) = Lab::with(login) else { return };
    lab.add(&[]).ok();
    let refused = lab.sandbox.edgedyno(install_words(&library)).expect_code(4);
    assert!(refused.stderr.contains("65536 of "), "{}", refused.stderr);
    assert_eq!(libraries(&lab), Vec::<String>::new());
}

#[test]
fn a_line_that_is_cut_while_a_library_is_sent_leaves_no_half_of_it() {
    let Some(library) = runtime::onnxruntime() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let upload = "head -c 65536; sleep 2; cat";
    let login = slow_uploads(folder.path(), upload);
    let Some(mut lab) = Lab::with(login) else {
        return;
    };
    lab.add(&[]).ok();
    let mut sending = lab.sandbox.start_edgedyno(install_words(&library));
    let versions = lab.sshd.home().join(".cache/edgedyno/runtimes/onnxruntime");
    sending.wait_until("the first bytes", |_| {
        let folders = names(&versions);
        let mut files = folders
            .iter()
            .flat_map(|folder| names(&versions.join(folder)));
        files.any(|name| name.starts_with(".new-"))
    });
    lab.sshd.stop();
    sending.wait().expect_code(4);
    // The shell on the board goes on when its input has ended.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(libraries(&lab), Vec::<String>::new());

    let login = lab.login.clone();
    lab.sshd.restart(&login);
    lab.sandbox.edgedyno(install_words(&library)).ok();
    let name = library.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(libraries(&lab).contains(&name));
    let [version] = &names(&versions)[..] else {
        panic!("one version: {:?}", names(&versions));
    };
    let there = std::fs::read(versions.join(version).join(&name)).unwrap();
    assert!(there == std::fs::read(&library).unwrap(), "all of it");
}

#[test]
fn a_cut_ssh_costs_no_repeat() {
    let Some(mut lab) = Lab::added() else { return };
    let model = small_model(&lab.sandbox);
    let model = model.to_str().unwrap().to_owned();
    let words = [
        "run",
        &model,
        "--board",
        "x",
        "--backend",
        "rten",
        "--repeat",
        "8",
        "--warmup",
        "2",
        "--duration",
        "0.5s",
    ];
    let mut running = lab.sandbox.start_edgedyno(words);
    let state = lab.sshd.home().join(".local/state/edgedyno");
    running.wait_until("a repeat", |_| {
        state
            .join("queue")
            .read_dir()
            .is_ok_and(|mut dir| dir.next().is_some())
    });
    std::thread::sleep(Duration::from_millis(700));
    lab.sshd.stop();
    std::thread::sleep(Duration::from_secs(2));
    let login = lab.login.clone();
    lab.sshd.restart(&login);
    running.wait().ok();
    let document = summary(&lab.sandbox, "last");
    let rows = document["cases"][0]["repeats"].as_array().unwrap();
    let mut complete: Vec<u64> = rows
        .iter()
        .filter(|row| row["outcome"] == "complete")
        .map(|row| row["repeat"].as_u64().unwrap())
        .collect();
    complete.sort_unstable();
    assert_eq!(complete, (0..8).collect::<Vec<u64>>(), "{rows:#?}");
}

#[test]
fn an_agent_that_listens_is_reached_over_the_network_and_else_by_ssh() {
    let Some(lab) = Lab::new() else { return };
    let listen = format!("127.0.0.1:{}", free_port());
    let is_root = nix::unistd::getuid().is_root();
    if is_root {
        let refused = lab.add(&["--listen", &listen]).expect_code(2);
        assert!(refused.stderr.contains("--as-root"), "{}", refused.stderr);
    }
    let as_root: &[&str] = if is_root { &["--as-root"] } else { &[] };
    let words = [&["--listen", &listen, "--json"][..], as_root].concat();
    let added = lab.add(&words).ok().json();
    assert_eq!(added["network"], listen, "{added:#}");
    assert_eq!(added["board"]["addresses"][0], listen);
    let (_, doctor) = lab.doctor();
    assert_eq!(check(&doctor, "network")["state"], "good", "{doctor:#}");
    let model = small_model(&lab.sandbox);
    lab.run(&model, &QUICK).ok();

    // After a restart of the board nobody listens any more, and the relay starts what is needed.
    let daemon = nix::unistd::Pid::from_raw(lab.daemon());
    nix::sys::signal::kill(daemon, nix::sys::signal::Signal::SIGKILL).unwrap();
    lab.run(&model, &QUICK).ok();
    let (_, doctor) = lab.doctor();
    assert_eq!(check(&doctor, "network")["state"], "warning", "{doctor:#}");
}

/// The variable reaches the agent whoever starts it: the host once, and then the relay.
#[test]
fn an_agent_that_is_to_send_its_packets_one_by_one_does_so() {
    let Some(lab) = Lab::new() else { return };
    let alone = lab.add(&["--no-segmentation-offload"]).expect_code(2);
    assert!(alone.stderr.contains("--listen"), "{}", alone.stderr);
    let listen = format!("127.0.0.1:{}", free_port());
    let is_root = nix::unistd::getuid().is_root();
    let as_root: &[&str] = if is_root { &["--as-root"] } else { &[] };
    let words = ["--listen", &listen, "--no-segmentation-offload"];
    lab.add(&[&words[..], as_root].concat()).ok();
    let has_it = || {
        let environment = std::fs::read(format!("/proc/{}/environ", lab.daemon())).unwrap();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable == b"EDGEDYNO_QUIC_GSO=off")
    };
    assert!(has_it());
    let daemon = nix::unistd::Pid::from_raw(lab.daemon());
    nix::sys::signal::kill(daemon, nix::sys::signal::Signal::SIGKILL).unwrap();
    lab.board(&["info", "x"]).ok();
    assert_ne!(lab.daemon(), daemon.as_raw());
    assert!(has_it());
}

#[test]
fn what_nobody_has_fetched_is_not_thrown_away_unasked() {
    let Some(lab) = Lab::added() else { return };
    let model = small_model(&lab.sandbox);
    let model = model.to_str().unwrap().to_owned();
    let words = [
        "run",
        &model,
        "--board",
        "x",
        "--backend",
        "rten",
        "--repeat",
        "2",
        "--warmup",
        "2",
        "--duration",
        "0.3s",
    ];
    let mut running = lab.sandbox.start_edgedyno(words);
    let state = lab.sshd.home().join(".local/state/edgedyno");
    running.wait_until("a repeat", |_| {
        state
            .join("queue")
            .read_dir()
            .is_ok_and(|mut dir| dir.next().is_some())
    });
    running.signal(nix::sys::signal::Signal::SIGKILL);
    drop(running);
    let refused = lab.board(&["remove", "x"]).expect_code(4);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    assert!(lab.program().is_file());
    lab.board(&["remove", "x", "--force"]).ok();
    assert!(!state.exists());
}

#[test]
fn a_board_that_is_not_run_by_systemd_gets_no_service() {
    if Path::new("/run/systemd/system").exists() {
        return;
    }
    let Some(lab) = Lab::new() else { return };
    let refused = lab.add(&["--service"]).expect_code(4);
    assert!(
        refused.stderr.contains("leave out --service"),
        "{}",
        refused.stderr
    );
}
