//! The JSON documents of the commands, apart from the summary's own.
//!
//! Each names its form in `document`; `docs/schema/` describes them and tests hold them to it.

use std::collections::BTreeMap;
use std::path::Path;

use edgedyno_shared::device::{DeviceInfo, Fact, Reading};
use edgedyno_shared::ids::RunId;
use edgedyno_shared::telemetry::{ChannelKind, Quality};
use edgedyno_shared::wire::request::{LeaseState, WaitingResults};
use serde::Serialize;
use serde_json::{Value, json};

use crate::board::known::KnownBoard;
use crate::board::local;
use crate::board::setup::Ready;
use crate::board::ssh::clear::Removed;
use crate::bundle::{Bundled, Taken};
use crate::cmd::top::Seen;
use crate::doctor::Report;
use crate::export::Output;
use crate::fields::{Field, SUBJECTS};
use crate::findings::Rule;
use crate::model::info::ModelInfo;
use crate::model::make::{Made, NETWORKS, Network};
use crate::plan::answer::Answer;
use crate::plan::goal::{Figure, Goal};
use crate::runtime::cache::Installed;
use crate::runtime::listing::{Listing, Verdict};
use crate::stats::windows::{Windows, fps};
use crate::store::copy::{Merged, StoresMerged};
use crate::store::rows::RunRow;
use crate::store::{Result, Store};
use crate::summary::best::Best;
use crate::summary::windows::Variant;
use crate::summary::{CaseSummary, to_json};
use crate::telemetry::Digest;
use crate::ui::demo::Shown;
use crate::view::{RepeatView, Span};

/// `runs list --json`.
pub fn runs(store: &Store, runs: &[RunRow]) -> Result<Value> {
    let runs = runs.iter().map(|run| describe_run(store, run));
    Ok(json!({
        "document": "edgedyno/runs/1",
        "store": store.dir(),
        "runs": runs.collect::<Result<Vec<_>>>()?,
    }))
}

fn describe_run(store: &Store, run: &RunRow) -> Result<Value> {
    let (cases, attempts) = store.counts(&run.id)?;
    Ok(json!({
        "id": run.id.0,
        "created": utc(run.created_unix_ns),
        "created_unix_ns": run.created_unix_ns,
        "command": run.command,
        "argv": run.argv,
        "status": run.status,
        "tags": run.tags,
        "tool_version": run.tool_version,
        "cases_count": cases,
        "attempts_count": attempts,
        "imported": store.origin(&run.id)?.map(|origin| json!({
            "source": origin.source,
            "store": origin.store,
            "sha256": origin.sha256,
            "left_out": origin.left_out,
            "tool_version": origin.tool_version,
            "imported": utc(origin.imported_unix_ns),
            "imported_unix_ns": origin.imported_unix_ns,
        })),
    }))
}

/// `export --bundle --json`.
pub fn bundled(path: &Path, made: &Bundled) -> Value {
    let manifest = &made.manifest;
    json!({
        "document": "edgedyno/bundled/1",
        "run": manifest.run,
        "file": path,
        "bytes": made.bytes,
        "sha256": made.sha256,
        "private": manifest.private,
        "with": manifest.with,
        "left_out": manifest.left_out,
        "members_count": manifest.members.len(),
    })
}

/// `import --json`.
pub fn imported(store: &Path, all: &[Taken]) -> Value {
    let one = |taken: &Taken| {
        let mut value = merged_run(&taken.merged);
        value["sha256"] = taken.sha256.as_str().into();
        value["left_out"] = taken.manifest.left_out.clone().into();
        value["models"] = plain(&taken.models);
        value
    };
    json!({
        "document": "edgedyno/imported/1",
        "store": store,
        "runs": all.iter().map(one).collect::<Vec<_>>(),
    })
}

/// `runs push --json`, `runs pull --json`.
pub fn merged(from: &Store, into: &Store, done: &StoresMerged) -> Value {
    json!({
        "document": "edgedyno/merged/1",
        "from": from.dir(),
        "into": into.dir(),
        "runs": done.runs.iter().map(merged_run).collect::<Vec<_>>(),
        "calibrations_count": done.calibrations,
    })
}

fn merged_run(merged: &Merged) -> Value {
    json!({
        "run": merged.run,
        "new": merged.is_new,
        "cases_count": merged.cases,
        "attempts_count": merged.repeats,
        "attempts_known_count": merged.known,
        "tags_count": merged.tags,
        "findings_count": merged.findings,
        "artifacts_count": merged.contents,
        "conflicts": merged.conflicts,
    })
}

/// `runs show --json`: one run and every field of its cases.
pub fn run(store: &Store, run: &RunRow, cases: &[CaseSummary]) -> Result<Value> {
    Ok(json!({
        "document": "edgedyno/run/1",
        "store": store.dir(),
        "run": describe_run(store, run)?,
        "cases": get_all(&run.id, cases)["cases"],
    }))
}

/// `samples --json`.
pub fn samples(run: &RunId, cases: Vec<Value>) -> Value {
    json!({
        "document": "edgedyno/samples/1",
        "run": run.0,
        "cases": cases,
    })
}

/// Channels of one repeat over a span; the whole repeat without one.
pub fn samples_of_repeat(repeat: &RepeatView, span: Option<Span>, digests: &[Digest]) -> Value {
    json!({
        "repeat": repeat.row.key.repeat,
        "attempt": repeat.row.key.attempt,
        "span_ns": span.map(|span| [span.start_ns, span.end_ns]),
        "channels": digests.iter().map(channel).collect::<Vec<_>>(),
    })
}

fn channel(digest: &Digest) -> Value {
    let channel = &digest.channel;
    let lost = Quality::ALL.iter().zip(digest.faults);
    let lost = lost.filter(|(_, count)| *count > 0);
    let lost: serde_json::Map<String, Value> = lost
        .map(|(quality, count)| (quality.name().to_owned(), count.into()))
        .collect();
    let figures = digest.figures;
    json!({
        "name": channel.name,
        "unit": channel.unit,
        "kind": channel.kind.name(),
        "fidelity": channel.fidelity.name(),
        "source": channel.source,
        "state": channel.state,
        "reason": channel.reason,
        "period_ns": channel.period_ns,
        "native_period_ns": channel.native_period_ns,
        "samples": digest.samples,
        "lost": lost,
        "first": figures.map(|f| f.first),
        "last": figures.map(|f| f.last),
        "min": figures.map(|f| f.min),
        "max": figures.map(|f| f.max),
        "mean": figures.map(|f| f.mean),
        "growth": digest.growth.map(|growth| growth.by),
        "per_second": digest.per_second(),
    })
}

/// `top --json`.
pub fn top(board: &str, seen: &Seen) -> Value {
    let watched = seen.latest.as_ref();
    let channels = watched.map_or(&[][..], |watched| &watched.channels);
    let channels = channels.iter().map(|now| {
        let history = seen.history.get(&now.channel.name);
        let last = history.and_then(|history| history.values.last());
        let is_counter = now.channel.kind == ChannelKind::Counter;
        json!({
            "name": now.channel.name,
            "unit": now.channel.unit,
            "source": now.channel.source,
            "state": now.missing().map_or("ok", Reading::state),
            "reason": now.missing().and_then(Reading::reason),
            "value": now.value,
            "per_second": last.filter(|_| is_counter),
        })
    });
    json!({
        "document": "edgedyno/top/1",
        "board": board,
        "running": watched.and_then(|w| w.running.as_ref()).map(|key| json!({
            "run": key.run.0,
            "case": key.case.to_string(),
            "repeat": key.repeat,
        })),
        "channels": channels.collect::<Vec<_>>(),
    })
}

/// `explain --json`: some fields or all.
pub fn explain(fields: &[&Field]) -> Value {
    json!({
        "document": "edgedyno/explain/1",
        "fields": fields.iter().map(|field| describe(field)).collect::<Vec<_>>(),
    })
}

/// `explain --json` of a finding.
pub fn explain_finding(rule: &Rule) -> Value {
    json!({
        "document": "edgedyno/explain/1",
        "fields": [],
        "findings": [{
            "code": rule.code,
            "level": rule.level.name(),
            "meaning": rule.meaning,
        }],
    })
}

fn describe(field: &Field) -> Value {
    let has_it = |fields: &[Field]| fields.iter().any(|f| f.name == field.name);
    let subject = SUBJECTS.iter().find(|subject| has_it(subject.fields));
    json!({
        "name": field.name,
        "subject": subject.map(|subject| subject.name),
        "unit": field.unit.name(),
        "type": field.unit.json_type(),
        "definition": field.definition,
        "source": field.source,
    })
}

/// `get --json`: one field of one or more cases.
pub fn get(run: &RunId, field: &Field, cases: &[CaseSummary]) -> Value {
    let value = |summary: &CaseSummary| {
        json!({
            "case": summary.key.to_string(),
            "value": Value::from(&(field.get)(summary)),
            "simulated": summary.simulated,
        })
    };
    json!({
        "document": "edgedyno/get/1",
        "run": run.0,
        "field": field.name,
        "unit": field.unit.name(),
        "values": cases.iter().map(value).collect::<Vec<_>>(),
    })
}

/// `get --json` without a field: every field of one or more cases.
pub fn get_all(run: &RunId, cases: &[CaseSummary]) -> Value {
    let fields = |summary: &CaseSummary| -> serde_json::Map<String, Value> {
        let value = |field: &Field| (field.name.to_owned(), Value::from(&(field.get)(summary)));
        crate::fields::all().map(value).collect()
    };
    let case = |summary: &CaseSummary| {
        json!({
            "case": summary.key.to_string(),
            "simulated": summary.simulated,
            "fields": fields(summary),
        })
    };
    json!({
        "document": "edgedyno/get_all/1",
        "run": run.0,
        "cases": cases.iter().map(case).collect::<Vec<_>>(),
    })
}

/// `export --json`: which files were written.
pub fn exported(run: &RunId, format: &str, output: &Output) -> Value {
    let files = output.written().iter();
    let files = files.map(|w| json!({"name": w.name, "bytes": w.bytes, "sha256": w.sha256}));
    json!({
        "document": "edgedyno/exported/1",
        "run": run.0,
        "format": format,
        "files": files.collect::<Vec<_>>(),
    })
}

/// What commands of `board` that change the list leave of it.
pub fn boards<'a>(boards: impl Iterator<Item = (&'a str, &'a KnownBoard)>) -> Value {
    let one = |(name, board): (&str, &KnownBoard)| known_board(name, board);
    json!({ "document": "edgedyno/boards/1", "boards": boards.map(one).collect::<Vec<_>>() })
}

fn known_board(name: &str, board: &KnownBoard) -> Value {
    let ssh = board.ssh.as_ref().map(|route| {
        json!({
            "destination": route.destination.to_string(),
            "program": route.program,
            "arch": route.architecture,
            "start": route.start,
            "listen": route.listen.map(|address| address.to_string()),
        })
    });
    json!({
        "name": name,
        "addresses": board.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "key": board.key.map(|key| key.to_string()),
        "fingerprint": board.key.map(|key| key.fingerprint().to_string()),
        "ssh": ssh,
    })
}

/// `board list --json`: this machine, and the boards that it knows.
pub fn board_list<'a>(boards: impl Iterator<Item = (&'a str, &'a KnownBoard)>) -> Value {
    let this = json!({
        "name": local::NAME,
        "addresses": [],
        "key": null,
        "fingerprint": null,
        "ssh": null,
    });
    let known = boards.map(|(name, board)| known_board(name, board));
    let all: Vec<Value> = std::iter::once(this).chain(known).collect();
    json!({ "document": "edgedyno/boards/1", "boards": all })
}

/// `board add --json`, `board update --json`.
pub fn board_ready(name: &str, ready: &Ready) -> Value {
    let network = ready.network.as_ref().map(|network| network.as_ref());
    json!({
        "document": "edgedyno/board-ready/1",
        "board": known_board(name, &ready.board),
        "arch": ready.probe.architecture,
        "kernel": ready.probe.kernel,
        "libc": ready.probe.libc.name(),
        "build": ready.deployed.build,
        "serving_build": ready.serving.0,
        "standing": ready.standing(),
        "agent_sha256": ready.deployed.sha256.to_string(),
        "sent_bytes": ready.deployed.sent,
        "deleted": ready.deployed.deleted,
        "network": network.and_then(|network| network.ok()).map(ToString::to_string),
        "network_unused": network.and_then(|network| network.err()),
        "memory_total_bytes": ready.device.memory_total.map(|bytes| bytes.0),
        "runtimes": Listing::of(name, &ready.device, Vec::new()).backends,
    })
}

/// `board remove --json`.
pub fn board_removed(name: &str, removed: &Removed) -> Value {
    json!({
        "document": "edgedyno/board-removed/1",
        "name": name,
        "deleted": removed.deleted,
        "kept": removed.kept,
    })
}

/// `board doctor --json`.
pub fn doctor(name: &str, report: &Report) -> Value {
    let checks = report.checks.iter().map(|check| {
        json!({
            "name": check.name,
            "state": check.state.name(),
            "detail": check.detail,
            "remedy": check.remedy,
        })
    });
    json!({
        "document": "edgedyno/doctor/1",
        "board": name,
        "broken": report.broken().map(|check| check.name),
        "checks": checks.collect::<Vec<_>>(),
    })
}

/// What a board keeps of finished repeats.
pub struct Results<'a> {
    pub waiting: &'a [WaitingResults],
    /// Thrown away by this command.
    pub dropped: Option<&'a WaitingResults>,
}

/// `board info --json`.
pub fn board(name: &str, device: &DeviceInfo, lease: &LeaseState, kept: &Results<'_>) -> Value {
    let holder = lease.holder.as_ref().map(|holder| {
        json!({
            "name": holder.name,
            "since": utc(holder.since_unix_ns),
            "since_unix_ns": holder.since_unix_ns,
        })
    });
    let listing = Listing::of(name, device, Vec::new());
    json!({
        "document": "edgedyno/board/1",
        "name": name,
        "agent_version": device.agent_version,
        "build": device.build.0,
        "os": device.os,
        "arch": device.arch,
        "cpus": device.allowed_cpus,
        "memory_total_bytes": device.memory_total.map(|bytes| bytes.0),
        "lease_epoch": lease.epoch,
        "holder": holder,
        "waiting": kept.waiting.iter().map(results).collect::<Vec<_>>(),
        "dropped": kept.dropped.map(results),
        "clusters": clusters(device),
        "facts": device.facts.iter().map(fact).collect::<Vec<_>>(),
        "runtimes": listing.backends,
        "default": listing.default,
    })
}

/// Results that wait on the board for one store.
fn results(waiting: &WaitingResults) -> Value {
    json!({
        "store": waiting.store.to_string(),
        "repeats_count": waiting.repeats,
        "size_bytes": waiting.bytes,
        "oldest": waiting.oldest_unix_ns.and_then(utc),
        "oldest_unix_ns": waiting.oldest_unix_ns,
    })
}

/// CPUs of one top speed; null where the kernel shows none.
fn clusters(device: &DeviceInfo) -> Vec<Value> {
    let mut by_speed: BTreeMap<Option<u64>, Vec<u16>> = BTreeMap::new();
    for cpu in &device.cpus {
        by_speed.entry(cpu.max_khz).or_default().push(cpu.id);
    }
    let one = |(khz, cpus)| json!({ "max_khz": khz, "cpus": cpus });
    by_speed.into_iter().map(one).collect()
}

/// A fact of the board, or why there is none.
fn fact(fact: &Fact) -> Value {
    json!({
        "name": fact.name,
        "state": fact.value.state(),
        "value": fact.value.value(),
        "reason": fact.value.reason(),
    })
}

/// `demo --json`: the networks, every case in full, and what was left out.
pub fn demo(shown: &Shown<'_>) -> Value {
    json!({
        "document": "edgedyno/demo/1",
        "run": shown.run.0,
        "networks": shown.networks,
        "cases": to_json(shown.cases)["cases"],
        "left_out": shown.left_out,
    })
}

/// `sweep --json`: every case in full, and the best of them.
pub fn sweep(
    run: &RunRow,
    cases: &[CaseSummary],
    best: &[Best],
    answer: Option<&(Goal, Answer)>,
) -> Value {
    json!({
        "document": "edgedyno/sweep/1",
        "run": run.id.0,
        "status": run.status,
        "cases": to_json(cases)["cases"],
        "best": best.iter().map(Best::to_json).collect::<Vec<_>>(),
        "answer": answer.map(|(goal, answer)| answered(goal, answer)),
    })
}

/// What a search came to; values are in milliseconds or hertz.
fn answered(goal: &Goal, answer: &Answer) -> Value {
    let unit = |value: f64| match goal.objective {
        Figure::Rate => value,
        Figure::Mean | Figure::Quantile(_) => value / 1e6,
    };
    let contenders = answer.contenders.iter().map(|contender| {
        json!({
            "case": contender.case.to_string(),
            "value": unit(contender.value),
            "needs": contender.needs,
        })
    });
    json!({
        "goal": goal.text,
        "case": answer.best.map(|(case, _)| case.to_string()),
        "value": answer.best.map(|(_, value)| unit(value)),
        "contenders": contenders.collect::<Vec<_>>(),
    })
}

/// `windows --json`: figures of each case by name, and of each of its repeats.
pub fn windows(run: &RunId, variants: &[Variant]) -> Value {
    let one = |windows: &Windows| {
        let [lo, mid, hi] = windows.at;
        json!({
            "global_fps": fps(windows.global_ms),
            "global_ms": windows.global_ms,
            "total_ms": windows.total_ms,
            "total_frames": windows.frames,
            "phase1_ms": windows.phase1_ms,
            "ms_lo": lo.ms,
            "ms_mid": mid.ms,
            "ms_hi": hi.ms,
            "fps_lo": fps(lo.ms),
            "fps_mid": fps(mid.ms),
            "fps_hi": fps(hi.ms),
            "frame_lo": lo.frame,
            "frame_mid": mid.frame,
            "frame_hi": hi.frame,
            "drift_ms_per_1000": windows.drift_ms_per_1000,
            "trace": windows.trace.iter().map(|(at, ms)| json!([at, ms])).collect::<Vec<_>>(),
        })
    };
    let variants = variants.iter().map(|variant| {
        let repeats = variant.repeats.iter().map(|(repeat, windows)| {
            let mut value = one(windows);
            value["repeat"] = (*repeat).into();
            value
        });
        json!({ "name": variant.name, "repeats": repeats.collect::<Vec<_>>() })
    });
    json!({
        "document": "edgedyno/windows/1",
        "run": run.0,
        "variants": variants.collect::<Vec<_>>(),
    })
}

/// `model info --json`.
pub fn model(info: &ModelInfo) -> Value {
    titled("edgedyno/model/1", info)
}

/// `model make --json` without a kind.
pub fn kinds() -> Value {
    let kind = |network: &Network| {
        let sizes = network.defaults.named().into_iter();
        let sizes: serde_json::Map<_, _> = sizes
            .map(|(name, size)| (name.to_owned(), size.into()))
            .collect();
        json!({ "kind": network.name, "about": network.about, "sizes": sizes })
    };
    json!({
        "document": "edgedyno/kinds/1",
        "kinds": NETWORKS.iter().map(kind).collect::<Vec<_>>(),
    })
}

/// `model make KIND --json`.
pub fn made(network: &Network, made: &Made) -> Value {
    let mut value = titled("edgedyno/made/1", made);
    value["kind"] = network.name.into();
    value
}

/// `runtime list --json`.
pub fn runtimes(listing: &Listing) -> Value {
    titled("edgedyno/runtimes/1", listing)
}

/// `runtime install --json`: what was installed, whether now, and whether it opens here.
pub fn installed(installed: &Installed, is_new: bool, verdict: &Verdict) -> Value {
    let mut value = titled("edgedyno/installed/1", installed);
    value["newly_installed"] = is_new.into();
    value["here"] = plain(verdict);
    value
}

/// The members of a value after the name of its form.
fn titled(document: &str, value: impl Serialize) -> Value {
    let mut titled = json!({ "document": document });
    if let (Some(all), Value::Object(members)) = (titled.as_object_mut(), plain(value)) {
        all.extend(members);
    }
    titled
}

/// Our own types have text for keys, which is all that could fail.
fn plain(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// A moment as text in UTC; none when it is outside the calendar.
pub fn utc(unix_ns: i64) -> Option<String> {
    let at = jiff::Timestamp::from_nanosecond(unix_ns.into()).ok()?;
    Some(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::setup::sample;
    use crate::fields;
    use crate::golden;
    use crate::records;
    use crate::source::Source;
    use crate::store::sample::{CASE, run_id};
    use crate::summary::tests::{hand_worked, view};
    use crate::summary::{schema, summarise};

    /// The document fits `docs/schema/NAME.json`, and the schema refuses a document without its parts.
    fn fits(name: &str, document: &Value) {
        let path = golden::path(&format!("docs/schema/{name}.json"));
        let schema = match name {
            "summary" => schema(),
            _ => serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap(),
        };
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(document)
            .map(|e| format!("{e} at {}", e.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
        assert!(!validator.is_valid(&json!({})), "{name} takes anything");
    }

    #[test]
    fn every_document_fits_its_schema() {
        let board = KnownBoard {
            addresses: vec!["10.0.0.7:7447".parse().unwrap()],
            key: Some(edgedyno_shared::link::key::PublicKey([1; 32])),
            ssh: None,
        };
        fits("boards", &boards([("a", &board)].into_iter()));
        let list = board_list([("a", &board)].into_iter());
        fits("boards", &list);
        // Row for row what the table has.
        let table = crate::ui::board::list([("a", &board)].into_iter());
        let rows: Vec<&str> = table
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        let names = list["boards"].as_array().unwrap().iter();
        let names: Vec<&str> = names.filter_map(|board| board["name"].as_str()).collect();
        assert_eq!(names, ["local", "a"]);
        assert!(rows.ends_with(&names), "{table}");
        fits("board-ready", &board_ready("a", &sample()));
        let free = LeaseState {
            epoch: 0,
            is_own: false,
            holder: None,
        };
        let waiting = WaitingResults {
            store: edgedyno_shared::ids::StoreId([7; 16]),
            repeats: 3,
            bytes: 4096,
            oldest_unix_ns: None,
        };
        let device = sample().device;
        let waits = Results {
            waiting: std::slice::from_ref(&waiting),
            dropped: Some(&waiting),
        };
        fits("board", &super::board("a", &device, &free, &waits));
        let (dir, store) = hand_worked();
        let summary = summarise(&view(&store));
        let run = run_id("a");
        fits("runs", &runs(&store, &store.runs().unwrap()).unwrap());
        fits("explain", &explain(&fields::all().collect::<Vec<_>>()));
        fits(
            "get",
            &get(
                &run,
                fields::find("latency_p50_ms").unwrap(),
                std::slice::from_ref(&summary),
            ),
        );
        fits("summary", &to_json(&[summary]));
        let source = Source::Stored {
            store,
            run: run.clone(),
        };
        records::each_lane(&source, CASE, |lane| {
            lane.records()
                .for_each(|record| fits("records", &record.to_json()));
            Ok::<(), crate::source::SourceError>(())
        })
        .unwrap();
        let mut output = Output::at(&dir.path().join("out.csv"), false).unwrap();
        let cases = source.cases().unwrap();
        let csv = crate::export::find("csv").unwrap();
        csv.write(&source, &[&cases[0]], &mut output).unwrap();
        fits("export", &exported(&run, "csv", &output));
    }

    #[test]
    fn a_case_without_a_trial_fits_too() {
        let (_dir, store) = crate::store::sample::new_store();
        crate::store::sample::add_run(&store, "a");
        fits("summary", &to_json(&[summarise(&view(&store))]));
    }

    #[test]
    fn the_summary_schema_follows_the_field_table() {
        let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
        golden::check("docs/schema/summary.json", &text);
    }

    #[test]
    fn moments_are_utc() {
        assert_eq!(utc(0).unwrap(), "1970-01-01T00:00:00Z");
    }
}
