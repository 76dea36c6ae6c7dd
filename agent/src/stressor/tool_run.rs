//! The life of one tool, in the stressor's process that was made for it.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use edgedyno_shared::load::ToolUsed;
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_sys::kernel::process::{affinity_of, die_with_parent, set_affinity};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, SysconfVar, sysconf};

use super::board::{Count, Writer};
use super::message::{GO, Ready, STOP, Task, Word, hear, say};
use super::tool::{Ask, Told, Tool};
use super::waiting;
use crate::clock::{self, Clock, Monotonic};
use crate::worker::tail::KEPT;

/// Between two entries on the board.
const PERIOD: Duration = Duration::from_millis(50);

/// For a tool to end by itself and say what it did.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// From its first word to its last.
pub(super) fn serve(
    mut control: UnixStream,
    voice: &Mutex<UnixStream>,
    task: &Task,
    writer: &Writer,
    tool: &Tool,
) -> io::Result<()> {
    let begun = bind(&task.order.cpus).and_then(|()| Running::prepare(task, tool));
    let prepared = match begun {
        Ok(prepared) => prepared,
        Err(failure) => return say(voice, &Word::Failed(failure)),
    };
    let ready = Ready {
        memory: task.working_set,
        ..Ready::default()
    };
    say(voice, &Word::Ready(ready))?;
    hear(&mut control, GO)?;
    let mut running = match prepared.start() {
        Ok(running) => running,
        Err(failure) => return say(voice, &Word::Failed(failure)),
    };
    say(
        voice,
        &Word::Started {
            at: Monotonic.now(),
        },
    )?;
    let stop = listen(control);
    let early = loop {
        running.publish(writer);
        if stop.load(Relaxed) {
            break None;
        }
        if let Ok(Some(status)) = running.child.try_wait() {
            break Some(status);
        }
        clock::pause(PERIOD);
    };
    running.publish(writer);
    let (used, words) = running.end();
    say(voice, &Word::Tool(used))?;
    match early {
        None => say(
            voice,
            &Word::Stopped {
                at: Monotonic.now(),
            },
        ),
        Some(status) => {
            let name = tool.name;
            let detail = format!("{name} ended with {status} before it was told to: {words}");
            say(voice, &Word::Failed(failed(detail)))
        }
    }
}

/// Set once the daemon says stop, or is gone.
fn listen(mut control: UnixStream) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&stop);
    thread::spawn(move || {
        let _ = hear(&mut control, STOP);
        heard.store(true, Relaxed);
    });
    stop
}

/// The tool inherits where this process may run; the kernel is asked whether that took.
fn bind(cpus: &[u16]) -> Result<(), Failure> {
    let mut wanted: Vec<usize> = cpus.iter().map(|cpu| usize::from(*cpu)).collect();
    wanted.sort_unstable();
    match set_affinity(0, &wanted).and_then(|()| affinity_of(0)) {
        Ok(found) if found == wanted => Ok(()),
        Ok(found) => Err(failed(format!(
            "bound to {wanted:?} it may run on {found:?}"
        ))),
        Err(why) => Err(failed(format!("it cannot be bound to {wanted:?}: {why}"))),
    }
}

struct Prepared<'a> {
    tool: &'a Tool,
    path: PathBuf,
    arguments: Vec<String>,
    report: PathBuf,
    output: File,
    cpus: usize,
}

struct Running<'a> {
    of: Prepared<'a>,
    child: Child,
    tick: Nanos,
}

impl<'a> Running<'a> {
    fn prepare(task: &Task, tool: &'a Tool) -> Result<Prepared<'a>, Failure> {
        let path = tool.find();
        let path = path.ok_or_else(|| failed(format!("{} is not on this board", tool.name)))?;
        let report = task
            .scratch
            .join(format!("tool-{}.yaml", std::process::id()));
        let left = (task.deadline - Monotonic.now()).as_secs_f64().max(1.0);
        let ask = Ask {
            order: &task.order,
            working_set: task.working_set,
            seconds: left.ceil() as u64,
            report: &report,
        };
        let output = memfd_create("edgedyno-tool", MFdFlags::MFD_CLOEXEC);
        let output = output.map_err(|why| failed(format!("no room for its words: {why}")))?;
        Ok(Prepared {
            arguments: (tool.arguments)(&ask),
            tool,
            path,
            report,
            output: output.into(),
            cpus: task.order.cpus.len().max(1),
        })
    }
}

impl<'a> Prepared<'a> {
    fn start(self) -> Result<Running<'a>, Failure> {
        let both = self
            .output
            .try_clone()
            .and_then(|out| Ok((out, self.output.try_clone()?)));
        let (out, err) = both.map_err(|why| failed(why.to_string()))?;
        let mut command = Command::new(&self.path);
        command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0);
        die_with_parent(&mut command);
        let child = command
            .spawn()
            .map_err(|why| failed(format!("{} cannot be started: {why}", self.path.display())))?;
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
        Ok(Running {
            of: self,
            child,
            tick: Nanos(1_000_000_000 / ticks.max(1)),
        })
    }
}

impl Running<'_> {
    /// One row for each CPU, all of the tool as a whole: which of its workers ran where only it knows.
    fn publish(&self, writer: &Writer) {
        let ticks = cpu_ticks(self.child.id());
        let cpu_time = Nanos(ticks as i64 * self.tick.0 / self.of.cpus as i64);
        for at in 0..self.of.cpus {
            let count = Count {
                at: Monotonic.now(),
                work: 0,
                cpu_time,
                worked: None,
                tid: self.child.id(),
            };
            writer.publish(at, &count);
        }
    }

    /// Ends it as a user would, by force where that takes too long; returns what it says of itself and its
    /// last words.
    fn end(mut self) -> (ToolUsed, String) {
        let group = Pid::from_raw(self.child.id() as i32);
        let mut left = PATIENCE;
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = killpg(group, Signal::SIGINT);
        }
        while matches!(self.child.try_wait(), Ok(None)) && !left.is_zero() {
            clock::pause(PERIOD);
            left = left.saturating_sub(PERIOD);
        }
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.child.wait();
        let told = Told {
            output: tail_of(&mut self.of.output),
            report: fs::read_to_string(&self.of.report).unwrap_or_default(),
        };
        let _ = fs::remove_file(&self.of.report);
        let report = (self.of.tool.read)(&told);
        let used = ToolUsed {
            path: self.of.path.display().to_string(),
            version: report.version,
            arguments: self.of.arguments,
            figures: report.figures,
        };
        let lines: Vec<&str> = told.output.lines().rev().take(3).collect();
        let words: Vec<&str> = lines.into_iter().rev().collect();
        (used, words.join("; "))
    }
}

/// The end of what was written, however much that was.
fn tail_of(output: &mut File) -> String {
    let length = output.metadata().map_or(0, |found| found.len());
    let mut bytes = Vec::new();
    let from = SeekFrom::Start(length.saturating_sub(KEPT as u64));
    let read = output
        .seek(from)
        .and_then(|_| output.read_to_end(&mut bytes));
    match read {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}

/// CPU time of a process, of its children, and of those that both have waited for, in the kernel's ticks
/// (proc_pid_stat(5), fields 14 to 17).
fn cpu_ticks(process: u32) -> u64 {
    let below: u64 = waiting::children(process).into_iter().map(cpu_ticks).sum();
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before the last bracket may hold anything.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let own: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    below + own
}

fn failed(detail: String) -> Failure {
    Failure::new(
        FailureCode::StressorFailed,
        format!("a tool failed: {detail}"),
    )
}
