//! From an order to a job: what it names is found on this machine, or it is refused.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use edgedyno_shared::case::{Condition, RuntimeRef, Scenario};
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::load::Load;
use edgedyno_shared::order::{ColdStart, OutputWish, Pass, RepeatOrder};
use edgedyno_shared::repeat::Effective;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_sys::kernel::pages::resident_bytes;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::contents;
use super::state::Daemon;
use crate::stressor;
use crate::trial::{gap, rate};
use crate::worker::job::Job;

/// Divides the CPUs: the worker gets those asked for, else as many as it has threads, from the end,
/// where big cores usually are, and none that a stressor is on where there are others; the daemon gets
/// those that are left, else those of stressors, or none.
pub fn share_cpus(allowed: &[u16], order: &RepeatOrder) -> (Vec<u16>, Vec<u16>) {
    let threads = order.case.threads;
    let threads = threads.intra.max(threads.inter).max(1) as usize;
    let loaded = order.loaded_cpus();
    let without = |taken: &[u16]| -> Vec<u16> {
        let left = allowed.iter().filter(|cpu| !taken.contains(cpu));
        left.copied().collect()
    };
    let worker = match &order.case.cpus {
        Some(cpus) => cpus.clone(),
        None => {
            let calm = without(&loaded);
            let from = if calm.len() >= threads {
                &calm
            } else {
                allowed
            };
            from[from.len().saturating_sub(threads)..].to_vec()
        }
    };
    let beside_worker = without(&worker);
    let beside_all = without(&[worker.clone(), loaded].concat());
    let agent = match beside_all.is_empty() {
        true => beside_worker,
        false => beside_all,
    };
    (worker, agent)
}

/// Finds everything an order names.
///
/// # Errors
/// When it asks for what this agent cannot do, or names what is not here: never something else instead.
pub fn job(daemon: &Daemon, order: &RepeatOrder, cpus: Vec<u16>) -> Result<Job, Failure> {
    refuse_unbuilt(order)?;
    stressor::load::check(&order.load)?;
    let case = &order.case;
    let contents = daemon.contents.borrow();
    let backend = crate::backend::find(&case.backend)
        .ok_or_else(|| unsupported(format!("backend `{}`", case.backend)))?;
    let model_files = match backend.formats() {
        [] => Vec::new(),
        _ => contents.find_all(&case.model.sha256)?,
    };
    // Never what a host sent: a library is code that runs on the board, and only who administers it, or the
    // board itself, says where one lies.
    let library = case.runtime.as_ref().map(|runtime| {
        let found = daemon.runtimes.borrow().path(&runtime.sha256);
        found.ok_or_else(|| no_runtime(runtime))
    });
    let files = contents::files_of(order)
        .into_iter()
        .map(|sha256| Ok((sha256, contents.find(&sha256)?)))
        .collect::<Result<Vec<(Sha256, PathBuf)>, Failure>>()?;
    Ok(Job {
        order: order.clone(),
        model: model_files.first().cloned(),
        model_files,
        library: library.transpose()?,
        files,
        cpus,
    })
}

/// A job for each model that shall run beside the case, by the limits of the order.
///
/// # Errors
/// As [`job`], and it says which model.
pub fn tenants(daemon: &Daemon, order: &RepeatOrder) -> Result<Vec<Job>, Failure> {
    let jobs = order.case.tenants.iter().map(|tenant| {
        let alone = RepeatOrder {
            case: order.case.alone(tenant),
            load: Load::default(),
            outputs: OutputWish {
                save: false,
                reference: Vec::new(),
            },
            ..order.clone()
        };
        if tenant.cpus.is_empty() {
            let detail = format!("tenant {} is to run on no CPU", tenant.model.name);
            return Err(Failure::new(FailureCode::Protocol, detail));
        }
        job(daemon, &alone, tenant.cpus.clone()).map_err(|why| Failure {
            detail: format!("tenant {}: {}", tenant.model.name, why.detail),
            ..why
        })
    });
    jobs.collect()
}

/// An agent that does not know a wish must not measure as if it had not been made.
fn refuse_unbuilt(order: &RepeatOrder) -> Result<(), Failure> {
    let case = &order.case;
    let wishes = [
        (
            !matches!(case.scenario, Scenario::Single | Scenario::Rate { .. }),
            format!("scenario `{}`", case.scenario.name()),
        ),
        (
            // The host says what a condition stands for; a name alone says nothing here.
            (case.condition == Condition::idle()) == order.is_loaded(),
            format!("condition `{}`", case.condition.0),
        ),
        (
            order.key.pass != Pass::Honest,
            format!("pass `{}`", order.key.pass.name()),
        ),
        (case.precision.is_some(), "a precision".into()),
        (
            case.parameters.iter().any(|(name, _)| name != gap::NAME),
            "parameters of a workload but `gap`".into(),
        ),
        (gap::of(case).is_none(), "such a gap between trials".into()),
        (
            rate::period(case).is_some_and(|period| !rate::PERIODS.contains(&period)),
            "such a rate of trials".into(),
        ),
    ];
    match wishes.into_iter().find(|(asked, _)| *asked) {
        Some((_, what)) => Err(unsupported(what)),
        None => Ok(()),
    }
}

fn no_runtime(runtime: &RuntimeRef) -> Failure {
    let RuntimeRef { version, sha256 } = runtime;
    let detail = format!("this board has no library {version} of the hash {sha256}");
    Failure::new(FailureCode::NotFound, detail)
        .hint("`edgedyno runtime list --board BOARD` tells those that it has")
}

fn unsupported(what: impl std::fmt::Display) -> Failure {
    Failure::new(
        FailureCode::Unsupported,
        format!("this agent has no {what}"),
    )
}

/// Drops cached pages of model and library where that is asked for, and says what stayed: pages that
/// another process maps, or that lie on tmpfs, cannot be dropped.
pub fn cold_pages(job: &Job) -> Vec<Effective> {
    if job.order.cold != ColdStart::PageCache {
        return Vec::new();
    }
    let files = job.model_files.iter().chain(&job.library);
    let left = files.map(|path| drop_pages(path)).sum::<io::Result<u64>>();
    vec![Effective {
        name: "cached_bytes_before_load".into(),
        requested: Some("0".into()),
        observed: left.ok().map(|bytes| bytes.to_string()),
    }]
}

/// Drops the cached pages of a file; returns the bytes that are cached all the same.
fn drop_pages(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    // Pages not yet written to the disk stay.
    file.sync_data()?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    resident_bytes(&file)
}
