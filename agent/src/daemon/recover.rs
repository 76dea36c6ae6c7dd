//! What an earlier daemon left behind: repeats whose worker died with it.

use std::io;
use std::path::Path;

use edgedyno_shared::repeat::{Outcome, Stage};
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::record::{Record, SegmentHeader};

use super::executor::end_of;
use super::repeat_folder::RepeatFolder;
use super::spool::columns_of;
use super::state::Daemon;
use crate::disk;

/// Hands over every left-over repeat as an attempt that ended with its agent.
///
/// Its finished trials are kept: those in the sealed file, and those still in the ring.
pub fn run(daemon: &Daemon) -> io::Result<u32> {
    let mut recovered = 0;
    for name in disk::names(&daemon.folders.runtime, "")? {
        let path = daemon.folders.runtime.join(&name);
        if !path.join("log").exists() {
            continue;
        }
        match one(daemon, &path) {
            Ok(()) => recovered += 1,
            // Left where it is: a later start may be luckier, and a person can look at it.
            Err(why) => tracing::warn!("{} cannot be recovered: {why}", path.display()),
        }
    }
    Ok(recovered)
}

fn one(daemon: &Daemon, path: &Path) -> io::Result<()> {
    let (folder, header) = RepeatFolder::reopen(path, &daemon.folders.state.join("spill"))?;
    let records = folder.records()?;
    let queued = {
        let queue = daemon.queue.borrow();
        let own = |entry: &&super::queue::Queued| {
            entry.store == header.store && entry.order.key == header.key
        };
        queue.entries().iter().find(own).map(|entry| entry.number)
    };
    if !is_spooled(daemon, &header)? {
        take_ring(&folder, &records)?;
        let outcome = Outcome::Failed {
            stage: stage_of(&records),
            failure: restarted(),
        };
        let header = SegmentHeader {
            boot: daemon.boot,
            ..header
        };
        daemon
            .spool
            .seal(&folder, header, end_of(daemon, outcome))?;
    }
    if let Some(number) = queued {
        daemon.queue.borrow_mut().remove(number)?;
    }
    folder.remove()
}

/// A daemon can die between sealing a repeat and forgetting it.
fn is_spooled(daemon: &Daemon, header: &SegmentHeader) -> io::Result<bool> {
    let waiting = daemon.spool.waiting(header.store)?;
    Ok(waiting.iter().any(|waiting| waiting.key == header.key))
}

/// Appends what the worker had published and the daemon had not taken yet.
fn take_ring(folder: &RepeatFolder, records: &[Record]) -> io::Result<()> {
    let Some(columns) = columns_of(records) else {
        return Ok(());
    };
    let mut sealed = folder.sealed()?;
    // The sealed file is written before the ring is released, so its length is what was taken.
    let mut reader = folder.arena_reader(columns, sealed.slots(columns))?;
    let mut slots = Vec::new();
    match reader.take(&mut slots) {
        Ok(_) => sealed.append(&slots),
        Err(why) => {
            tracing::warn!("the ring of a left-over repeat cannot be used: {why}");
            Ok(())
        }
    }
}

/// The stage after the last one that is known to have ended.
fn stage_of(records: &[Record]) -> Stage {
    let last = records.iter().rev().find_map(|record| match record {
        Record::Stage(span) => Some(span.stage),
        _ => None,
    });
    let next = |stage| {
        Stage::ALL
            .into_iter()
            .find(|s| *s > stage)
            .unwrap_or(Stage::Teardown)
    };
    last.map_or(Stage::Spawn, next)
}

fn restarted() -> Failure {
    let detail = "the agent ended while this repeat ran, and its worker with it";
    Failure::new(FailureCode::AgentRestarted, detail)
}
