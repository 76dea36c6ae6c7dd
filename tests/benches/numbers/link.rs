//! `link`, `resume`, `boards`, `traffic`: the network link, against real agents on this machine.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use edgedyno::board::Board as _;
use edgedyno::board::link::{Link, LinkEvent};
use edgedyno::board::quic::Quic;
use edgedyno::stats::quantile;
use edgedyno_agent::clock::{Clock as _, Monotonic, process_cpu_time};
use edgedyno_agent::daemon::repeat_folder::{self, RepeatFolder};
use edgedyno_agent::daemon::spool::Spool;
use edgedyno_shared::columns::{ColumnSpec, Role, TrialSchema};
use edgedyno_shared::ids::{BootId, RunId, Sha256, StoreId};
use edgedyno_shared::link::key::Identity;
use edgedyno_shared::order::{OrderKey, Pass};
use edgedyno_shared::repeat::{Outcome, RepeatEnd};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::record::Record;
use edgedyno_tests::bench::{Beside, Figure, Goal, neighbours};
use edgedyno_tests::clock::Deadline;
use edgedyno_tests::commands::make;
use edgedyno_tests::lab::{Lab, line};
use edgedyno_tests::udp_relay::{UdpRelay, Weather, let_pass};
use edgedyno_tests::{Running, Sandbox};
use nix::unistd::Pid;
use tokio::time::timeout;

use crate::Effort;
use crate::measured::newest;

const COLUMNS: usize = 8;
const STORE: StoreId = StoreId([7; 16]);
const LIMIT: Duration = Duration::from_secs(60);

/// An agent takes up ten handshakes a second from one network.
const BETWEEN_HANDSHAKES: Duration = Duration::from_millis(150);

/// An agent that knows one host.
struct Agent {
    running: Running,
    board: Quic,
    _sandbox: Sandbox,
}

impl Agent {
    fn start(sandbox: Sandbox) -> Result<Self> {
        let mut words = vec!["serve", "--listen", "127.0.0.1:0"];
        if nix::unistd::geteuid().is_root() {
            words.extend(["--run-as", "root"]);
        }
        let mut running = sandbox.start_agent(words);
        running.wait_until("the listener", |agent| {
            agent.stderr_so_far().contains("listening on")
        });
        let log = running.stderr_so_far();
        let address = log.split_once("listening on ").map(|(_, rest)| rest);
        let address = address.and_then(|rest| rest.split_whitespace().next());
        let address: SocketAddr = address.context("an address")?.parse()?;
        let identity = sandbox.state().join("identity");
        let agent = Identity::from_pkcs8(std::fs::read(identity.join("agent.key"))?)?;
        let host = Identity::generate()?;
        let known = format!("run {} a benchmark\n", host.public());
        std::fs::write(identity.join("authorized_hosts"), known)?;
        Ok(Self {
            board: Quic::new("x", vec![address], agent.public(), host),
            running,
            _sandbox: sandbox,
        })
    }

    /// CPU time of all its threads.
    fn cpu_time(&self) -> Result<Nanos> {
        cpu_time(self.running.pid())
    }
}

fn cpu_time(pid: Pid) -> Result<Nanos> {
    let mut total = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        let on_cpu = text.split_whitespace().next().context("a time")?;
        total += on_cpu.parse::<i64>()?;
    }
    Ok(Nanos(total))
}

fn block_on<T>(future: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(future))
}

/// Puts one finished repeat into the spool of an agent that does not run.
fn spool(state: &Path, runtime: &Path, trials: u32) -> Result<()> {
    let key = OrderKey {
        run: RunId("bench".into()),
        case: Sha256([1; 32]),
        repeat: 0,
        attempt: 0,
        pass: Pass::Honest,
    };
    let header = repeat_folder::header(STORE, BootId(1), key);
    let mut folder = RepeatFolder::create(runtime, &state.join("spill"), &header)?;
    let phases = ["device_ns", "preprocess_ns", "forward_ns", "postprocess_ns"];
    let schema = TrialSchema::with(phases.map(|name| ColumnSpec::new(name, "ns")).into());
    ensure!(
        schema.columns.len() == COLUMNS,
        "the schema has {COLUMNS} columns"
    );
    folder.log(&Record::Schema { lane: 0, schema })?;
    folder.lane(0).keep_columns(COLUMNS)?;
    let (mut at, mut random) = (0, 1_u64);
    let slots = (0..trials).flat_map(|_| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let took = 100_000 + (random >> 52) as i64;
        let start = at;
        at += took + 60;
        let role = Role::Measure.code();
        [
            role,
            start,
            start + took,
            0,
            took - 40,
            took / 8,
            took / 2,
            took / 4,
        ]
    });
    folder
        .lane(0)
        .sealed()?
        .append(&slots.collect::<Vec<i64>>())?;
    let end = RepeatEnd {
        outcome: Outcome::Complete,
        wall_unix_ns: 0,
        mono: Nanos(0),
        environment: Vec::new(),
        trials: u64::from(trials),
        chunks: 0,
    };
    Spool::new(state).seal(&folder, header, end)?;
    folder.remove()?;
    Ok(())
}

/// Takes the whole repeat that waits; how many trials it had.
async fn receive(link: &mut Link) -> Result<u64> {
    let mut rows = 0;
    loop {
        let event = timeout(LIMIT, link.next())
            .await
            .context("the agent is silent")?;
        let LinkEvent::Record(payload) = event? else {
            continue;
        };
        match Record::parse(&payload)?.1 {
            Record::Chunk(chunk) => rows += u64::from(chunk.rows),
            Record::End(_) => return Ok(rows),
            _ => {}
        }
    }
}

pub(crate) fn measure(effort: Effort) -> Result<Vec<Figure>> {
    let trials = effort.choose(200_000, 1_000_000);
    let sandbox = Sandbox::new();
    spool(&sandbox.state(), sandbox.runtime(), trials)?;
    let agent = Agent::start(sandbox)?;
    let (mut rates, mut of_host, mut of_agent) = (Vec::new(), Vec::new(), Vec::new());
    let mut shakes = Vec::new();
    for _ in 0..effort.choose(4, 20) {
        let_pass(BETWEEN_HANDSHAKES);
        let begin = Monotonic.now();
        let shaken = block_on(async {
            let link = agent.board.connect(StoreId::NONE).await?;
            let took = Monotonic.now() - begin;
            link.leave().await;
            anyhow::Ok(took)
        })??;
        shakes.push(shaken.as_secs_f64() * 1e3);
        let_pass(BETWEEN_HANDSHAKES);
        let (host_before, agent_before) = (process_cpu_time(), agent.cpu_time()?);
        let (rows, took) = block_on(async {
            let mut link = agent.board.connect(STORE).await?;
            let begin = Monotonic.now();
            let rows = receive(&mut link).await?;
            let took = Monotonic.now() - begin;
            link.leave().await;
            anyhow::Ok((rows, took))
        })??;
        ensure!(rows == u64::from(trials), "{rows} trials came of {trials}");
        let each = |spent: Nanos| spent.0 as f64 / 1e3 / f64::from(trials);
        rates.push(f64::from(trials) / took.as_secs_f64());
        of_host.push(each(process_cpu_time() - host_before));
        of_agent.push(each(agent.cpu_time()? - agent_before));
    }
    let figure = |name, what: &str, unit, samples: Vec<f64>, goal| Figure {
        name,
        what: what.into(),
        unit,
        control: neighbours(&samples),
        samples,
        goal,
        beside: Vec::new(),
    };
    let what = format!(
        "trials of {COLUMNS} columns from an agent's spool over loopback, {trials} at once"
    );
    let agents = "CPU time of the agent for one of these trials: read, checked, encrypted, sent";
    let hosts = "CPU time of the host for one of these trials: received, decrypted, parsed";
    let shake = "from nothing to a welcome session on loopback";
    Ok(vec![
        figure("link", &what, "trials/s", rates, Goal::AtLeast(1e6)),
        figure("link", agents, "us", of_agent, Goal::AtMost(0.35)),
        figure("link", hosts, "us", of_host, Goal::AtMost(0.35)),
        figure("link", shake, "ms", shakes, Goal::AtMost(5.0)),
    ])
}

/// From the moment a line heals until the board has nothing left to deliver.
pub(crate) fn measure_resume(effort: Effort) -> Result<Vec<Figure>> {
    let lab = Lab::paired("run");
    let relay = lab.through(Weather::default(), 1);
    let model = make(&lab.sandbox, "small.onnx", &[]);
    let mut healed = Vec::new();
    for _ in 0..effort.choose(2, 10) {
        let plan = ["--backend", "fake", "--warmup", "2", "--repeat", "4"];
        let plan = [&plan[..], &["--duration", "0.3s"]].concat();
        let mut running = lab.sandbox.start_edgedyno(line(&model, &plan));
        running.wait_until("a worker", |_| lab.has_worker());
        relay.cut(true);
        running.wait_until("the plan in the spool", |_| lab.spooled() == 4);
        running.wait_until("the host to notice", |host| {
            host.stderr_so_far().contains("connecting again")
        });
        // Anywhere between two of its tries.
        let_pass(Duration::from_millis(
            300 + 137 * healed.len() as u64 % 1000,
        ));
        relay.cut(false);
        let begin = Monotonic.now();
        let empty = Deadline::after(LIMIT).poll(|| (lab.spooled() == 0).then_some(()));
        ensure!(empty.is_some(), "the spool was not emptied");
        healed.push((Monotonic.now() - begin).as_secs_f64());
        running.wait().ok();
    }
    Ok(vec![Figure {
        name: "resume",
        what: "from a healed line to the last of four repeats stored and acknowledged".into(),
        unit: "s",
        control: neighbours(&healed),
        samples: healed,
        goal: Goal::AtMost(2.0),
        beside: Vec::new(),
    }])
}

/// What a host spends on sessions with boards that do nothing.
pub(crate) fn measure_boards(effort: Effort) -> Result<Vec<Figure>> {
    let count = effort.choose(10, 100);
    let span = Duration::from_secs(effort.choose(3, 10));
    let agents = (0..count)
        .map(|_| Agent::start(Sandbox::new()))
        .collect::<Result<Vec<_>>>()?;
    let shares = block_on(async {
        let mut links = Vec::new();
        for agent in &agents {
            links.push(agent.board.connect(STORE).await?);
        }
        let mut shares = Vec::new();
        for _ in 0..effort.choose(2, 6) {
            let (cpu, begin) = (process_cpu_time(), Monotonic.now());
            tokio::time::sleep(span).await;
            let wall = (Monotonic.now() - begin).as_secs_f64();
            shares.push((process_cpu_time() - cpu).as_secs_f64() / wall);
        }
        for link in links {
            link.leave().await;
        }
        anyhow::Ok(shares)
    })??;
    Ok(vec![Figure {
        name: "boards",
        what: format!("share of one core that a host spends on idle sessions with {count} agents"),
        unit: "",
        control: neighbours(&shares),
        samples: shares,
        goal: Goal::AtMost(0.05),
        beside: Vec::new(),
    }])
}

/// Whether the traffic of a connected host shows in what its board measures.
pub(crate) fn measure_traffic(effort: Effort) -> Result<Vec<Figure>> {
    let lab = Lab::paired("run");
    let relay = lab.through(Weather::default(), 1);
    let model = make(&lab.sandbox, "small.onnx", &[]);
    let (mut ratios, mut connected, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..effort.choose(2, 12) {
        let mut p50s = [0.0; 2];
        let order = if round % 2 == 0 {
            [false, true]
        } else {
            [true, false]
        };
        for is_cut in order {
            let (p50, progress) = one_repeat(&lab, &relay, &model, is_cut, effort)?;
            p50s[usize::from(is_cut)] = p50;
            if !is_cut {
                bytes.push(progress.max(1.0));
            }
        }
        let [with, without] = p50s;
        ratios.push(with / without);
        connected.push(with);
    }
    Ok(vec![Figure {
        name: "traffic",
        what: "p50 of a small model on rten with a host connected, to p50 with its line cut".into(),
        unit: "",
        samples: ratios,
        control: neighbours(&connected),
        goal: Goal::Between(0.995, 1.005),
        beside: vec![
            Beside::new("bytes of progress in a window", "", bytes),
            Beside::new("p50 with a host connected", "ns", connected),
        ],
    }])
}

fn one_repeat(
    lab: &Lab,
    relay: &UdpRelay,
    model: &Path,
    is_cut: bool,
    effort: Effort,
) -> Result<(f64, f64)> {
    let plan = ["--backend", "rten", "--threads", "1", "--repeat", "1"];
    let rules = ["--warmup", "500", "--duration", effort.choose("1s", "4s")];
    let words = line(model, &[&plan[..], &rules].concat());
    let mut running = lab.sandbox.start_edgedyno(words);
    running.wait_until("a worker", |_| lab.has_worker());
    if is_cut {
        relay.cut(true);
        running.wait_until("the repeat in the spool", |_| lab.spooled() == 1);
        relay.cut(false);
    }
    running.wait().ok();
    let view = newest(&lab.sandbox)?;
    let Some(repeat) = view.repeats.first() else {
        bail!("the run has a repeat");
    };
    let [p50] = quantile::select(&mut repeat.trials.measured.clone(), [0.5]).context("trials")?;
    let progress = repeat
        .row
        .cost
        .as_ref()
        .map_or(0, |cost| cost.progress_bytes);
    Ok((p50, progress as f64))
}
