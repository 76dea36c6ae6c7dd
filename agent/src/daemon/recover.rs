//! What an earlier daemon left behind: repeats whose worker died with it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::rc::Rc;

use edgedyno_shared::repeat::{Outcome, Stage};
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::record::{Record, SegmentHeader};

use tokio::task::spawn_blocking;

use super::queue::Queued;
use super::repeat_folder::RepeatFolder;
use super::state::Daemon;
use crate::disk;
use crate::sampler::journal;

/// Ends the names of folders that nobody can read.
const SET_ASIDE: &str = ".bad";

/// Hands over every left-over repeat as an attempt that ended with its agent; returns how many.
pub fn run(daemon: &Daemon) -> io::Result<u32> {
    daemon.spool.clear()?;
    let mut recovered = 0;
    for base in daemon.repeat_folders() {
        for name in disk::names(&base, "")? {
            let path = base.join(&name);
            if name.ends_with(SET_ASIDE) || !path.join("log").exists() {
                continue;
            }
            match one(daemon, &path) {
                Ok(()) => recovered += 1,
                // Left where it is: the executor tries again before it runs that order.
                Err(why) => tracing::warn!("{} cannot be recovered: {why}", path.display()),
            }
        }
    }
    Ok(recovered)
}

/// Reads all that waits in the spool once, for damage that came to it while nobody looked. Not before anybody
/// is answered, which a large spool on a card would keep waiting: what is sent first is seen by who sends it.
/// Nor beside a repeat, which it would disturb: one segment at a time, in turn with the executor.
pub async fn look_through(daemon: Rc<Daemon>) {
    let all = daemon.spool.all().unwrap_or_else(|why| {
        tracing::error!("what waits for hosts cannot be looked for: {why}");
        Vec::new()
    });
    let mut repaired = 0;
    for (store, number) in all {
        let _alone = daemon.vendor_code.lock().await;
        let spool = daemon.spool.clone();
        let looked = spawn_blocking(move || spool.is_whole(store, number)).await;
        match looked {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) | Err(_) => continue,
            Ok(Err(why)) => {
                if why.kind() != io::ErrorKind::NotFound {
                    tracing::warn!("segment {number} of store {store} cannot be read now: {why}");
                }
                continue;
            }
        }
        // Here, where sessions do the same.
        match daemon.spool.repair(store, number) {
            Ok(was_damaged) => repaired += u32::from(was_damaged),
            Err(why) => tracing::error!("segment {number} of store {store}: {why}"),
        }
    }
    if repaired > 0 {
        tracing::error!("{repaired} repeats were damaged on disk; what is left of them is kept");
    }
}

/// Hands over one left-over repeat. Its finished trials are kept: those in the sealed file, and those
/// still in the ring. A folder that does not say whose it is is set aside: it must not stand in the way
/// of its order for ever.
pub fn one(daemon: &Daemon, path: &Path) -> io::Result<()> {
    let reopened = RepeatFolder::reopen(path, &daemon.folders.state.join("spill"));
    let (mut folder, header) = match reopened {
        Ok(reopened) => reopened,
        Err(why) if passes(&why) => return Err(why),
        Err(why) => {
            tracing::error!("{} cannot be read and is set aside: {why}", path.display());
            return set_aside(path);
        }
    };
    let queued = {
        let queue = daemon.queue.borrow();
        let own = |entry: &&Queued| entry.store == header.store && entry.order.key == header.key;
        queue.entries().iter().find(own).map(|entry| entry.number)
    };
    if !is_spooled(daemon, &header)? {
        keep_telemetry(&mut folder)?;
        let outcome = Outcome::Failed {
            stage: stage_of(&folder)?,
            failure: restarted(&folder),
        };
        let header = SegmentHeader {
            boot: daemon.boot,
            ..header
        };
        daemon.spool.seal(&folder, header, daemon.end_of(outcome))?;
    }
    if let Some(number) = queued {
        daemon.queue.borrow_mut().remove(number)?;
    }
    folder.remove()
}

/// Puts what the daemon before had watched into the log, but for channels that stand there already: it
/// may have died while it did the same.
fn keep_telemetry(folder: &mut RepeatFolder) -> io::Result<()> {
    let logged = folder.records()?;
    let logged = logged.filter_map(|frame| match Record::parse(&frame.payload) {
        Ok((_, Record::Channel(channel))) => Some(channel.id),
        _ => None,
    });
    let logged: BTreeSet<u16> = logged.collect();
    for record in journal::left_over(folder.path()) {
        let of = match &record {
            Record::Channel(channel) => channel.id,
            Record::Samples(samples) => samples.channel,
            _ => continue,
        };
        if !logged.contains(&of) {
            folder.log(&record)?;
        }
    }
    journal::forget(folder.path())
}

/// A daemon can die between sealing a repeat and forgetting it.
fn is_spooled(daemon: &Daemon, header: &SegmentHeader) -> io::Result<bool> {
    let waiting = daemon.spool.waiting(header.store)?;
    Ok(waiting.iter().any(|waiting| waiting.key == header.key))
}

/// The stage after the last one that is known to have ended, as far as stages always end.
fn stage_of(folder: &RepeatFolder) -> io::Result<Stage> {
    let spans = folder
        .records()?
        .filter_map(|frame| match Record::parse(&frame.payload) {
            Ok((_, Record::Stage(span))) => Some(span.stage),
            _ => None,
        });
    // What is built in opens no library, and not every runtime compiles by itself.
    let optional = [Stage::Read, Stage::Dlopen, Stage::Compile];
    let after = |ended: Stage| {
        let later = Stage::ALL.into_iter().filter(|stage| *stage > ended);
        later
            .into_iter()
            .find(|stage| !optional.contains(stage))
            .unwrap_or(Stage::Teardown)
    };
    Ok(spans.last().map_or(Stage::Spawn, after))
}

/// Room, rights and descriptors may be there later; what is wrong in the folder itself stays so.
fn passes(why: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, OutOfMemory, PermissionDenied, QuotaExceeded, StorageFull};
    let by_kind = matches!(
        why.kind(),
        StorageFull | QuotaExceeded | PermissionDenied | OutOfMemory | NotFound
    );
    let descriptors = [nix::libc::EMFILE, nix::libc::ENFILE];
    by_kind || why.raw_os_error().is_some_and(|e| descriptors.contains(&e))
}

fn set_aside(path: &Path) -> io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(SET_ASIDE);
    // An earlier one under the same key would keep this one from being moved.
    match fs::remove_dir_all(&aside) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
        _ => {}
    }
    fs::rename(path, &aside)
}

fn restarted(folder: &RepeatFolder) -> Failure {
    let lost = if folder.has_unreadable_trials() {
        "; trials it had measured are lost, because how wide they are is not known any more"
    } else {
        ""
    };
    let detail = format!(
        "the agent ended while this repeat ran, and its worker with it; what stands at its end was read \
         when the agent came back{lost}"
    );
    Failure::new(FailureCode::AgentRestarted, detail)
}
