//! Every stored fact, and what a bundle does with it. Tests hold the list against the layout of the store and
//! against all that a run really stores.

/// What becomes of a text on its way into a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Says nothing of people and machines.
    Keep,
    /// May name people, machines and folders: those words are taken out, the rest stays.
    Clean,
    /// Names a board: all but `local` become `board-1`, `board-2` ..., unless asked for.
    Board,
    /// A fact with a name of its own: left out when its name says that it is private.
    Fact,
    /// A prompt becomes its SHA-256, any other parameter is cleaned.
    Parameter,
    /// Not in the bundle.
    LeaveOut,
}

/// One place where texts are stored: `table.column`, and below that the path in its JSON. `[]` is any item, `*`
/// any name, `**` all that is below. Records have their kind for a column.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub at: &'static str,
    pub treatment: Treatment,
    pub what: &'static str,
}

const fn place(at: &'static str, treatment: Treatment, what: &'static str) -> Place {
    Place {
        at,
        treatment,
        what,
    }
}

use Treatment::{Board, Clean, Fact, Keep, LeaveOut, Parameter};

/// The first that fits counts.
pub const PLACES: &[Place] = &[
    place("runs.id", Keep, "drawn at random"),
    place("runs.created_unix_ns", Keep, "when it began"),
    place("runs.command", Keep, "`run`, `sweep` ..."),
    place("runs.argv.**", Clean, "the words of the command line"),
    place("runs.plan.board", Board, "where it was measured"),
    place("runs.plan.boards.**", Board, "where it was measured"),
    place("runs.plan.libraries[].board", Board, "whose library it is"),
    place(
        "runs.plan.cases[].axes.board",
        Board,
        "where it was measured",
    ),
    place("runs.plan.ceilings[].board", Board, "whose ceiling it is"),
    place(
        "runs.plan.contents[].files[].path",
        LeaveOut,
        "where models and inputs lie",
    ),
    place(
        "runs.plan.save_outputs",
        LeaveOut,
        "where outputs were written to",
    ),
    place(
        "runs.plan.contents[].files[].name",
        Clean,
        "names of model and input files",
    ),
    place(
        "runs.plan.**",
        Clean,
        "axes, rules, libraries and order of the plan",
    ),
    place("runs.tool_version", Keep, "version of edgedyno"),
    place("runs.status", Keep, "how it stands"),
    place("tags.tag", Keep, "names that you gave the run"),
    place("devices.board", Board, "name of the board"),
    place("devices.info.facts[]", Fact, "facts of the board"),
    place(
        "devices.info.backends[].runtimes[].path",
        Clean,
        "where libraries lie",
    ),
    place(
        "devices.info.backends[].runtimes[].reason",
        Clean,
        "why a library cannot be used",
    ),
    place(
        "devices.info.**",
        Keep,
        "processor, memory, backends, versions",
    ),
    place("findings.number", Keep, "its place"),
    place("findings.case_key", Keep, "whose it is"),
    place("findings.body.code", Keep, "which rule"),
    place("findings.body.level", Keep, "how grave"),
    place("findings.body.repeat", Keep, "where"),
    place("findings.body.**", Clean, "text and figures of a finding"),
    place("cases.case_key", Keep, "digest of the case"),
    place("cases.match_key", Keep, "digest of its names and values"),
    place("cases.position", Keep, "its place in the plan"),
    place("cases.definition.board", Board, "where"),
    place("cases.definition.model.name", Clean, "name of the model"),
    place(
        "cases.definition.options.**",
        Clean,
        "options of the backend",
    ),
    place(
        "cases.definition.parameters.*",
        Parameter,
        "parameters of the workload, prompts among them",
    ),
    place(
        "cases.definition.**",
        Keep,
        "axes: threads, CPUs, shapes, condition ...",
    ),
    place(
        "cases.rules.cool_down.sensor",
        Clean,
        "the sensor that was waited for",
    ),
    place("cases.rules.**", Keep, "rules, limits, wishes"),
    place("repeats.case_key", Keep, "whose it is"),
    place("repeats.repeat", Keep, "its number"),
    place("repeats.attempt", Keep, "its number"),
    place("repeats.pass", Keep, "whether a profiler looked on"),
    place("repeats.origin", Keep, "who made the row"),
    place("repeats.outcome", Keep, "how it ended"),
    place("repeats.stage", Keep, "where it failed"),
    place("repeats.failure.code", Keep, "how it failed"),
    place(
        "repeats.failure.**",
        Clean,
        "what was said about the failure",
    ),
    place(
        "repeats.boot",
        Keep,
        "one life of the agent, drawn at random",
    ),
    place("repeats.segment", Keep, "number of the delivery"),
    place("repeats.wire_schema", Keep, "version of the wire"),
    place("records.sequence", Keep, "its place"),
    place("records.kind", Keep, "what it is"),
    place(
        "records.raw",
        LeaveOut,
        "records of another version, which nobody can look into",
    ),
    place(
        "records.start.environment[]",
        Fact,
        "facts of the board before",
    ),
    place(
        "records.end.environment[]",
        Fact,
        "facts of the board after",
    ),
    place("records.end.failure.code", Keep, "how it failed"),
    place(
        "records.end.failure.**",
        Clean,
        "what was said about the failure",
    ),
    place("records.runtime.path", Clean, "where the library lies"),
    place("records.model.facts[]", Fact, "facts of the model file"),
    place("records.effective.name", Keep, "an option"),
    place(
        "records.effective.**",
        Clean,
        "what was asked for and what was in force",
    ),
    place("records.channel.name", Keep, "name of a channel"),
    place(
        "records.channel.source",
        Clean,
        "file or library behind a channel",
    ),
    place(
        "records.channel.reason",
        Clean,
        "why a channel cannot be read",
    ),
    place("records.stress.notes.**", Clean, "what a stressor said"),
    place(
        "records.*.**",
        Keep,
        "stages, shapes, placement, memory, hashes of outputs, costs",
    ),
    place("chunks.lane", Keep, "of trials"),
    place("chunks.number", Keep, "of trials"),
    place("chunks.row_count", Keep, "of trials"),
    place("chunks.column_count", Keep, "of trials"),
    place("chunks.codec", Keep, "of trials"),
    place("chunks.bytes", Keep, "trials: numbers only"),
    place("events.sequence", Keep, "its place"),
    place("events.lane", Keep, "where"),
    place("events.trial", Keep, "where"),
    place("events.code", Keep, "what happened"),
    place(
        "events.text",
        Clean,
        "what the worker or the runtime printed",
    ),
    place("samples.sequence", Keep, "its place"),
    place("samples.channel", Keep, "number of the channel"),
    place("samples.row_count", Keep, "how many"),
    place("samples.codec", Keep, "how they are coded"),
    place("samples.at_ns", Keep, "telemetry: numbers only"),
    place("samples.value", Keep, "telemetry: numbers only"),
    place("samples.quality", Keep, "telemetry: numbers only"),
    place("artifacts.number", Keep, "its place"),
    place("artifacts.name", Clean, "name of a file made on the board"),
    place("artifacts.kind", Keep, "what it is"),
    place("artifacts.sha256", Keep, "digest of its bytes"),
    place("artifacts.bytes", Keep, "its size"),
    place("artifacts.state", Keep, "whether it is there"),
    place(
        "clock_exchanges.host_clock",
        Keep,
        "one life of the host's clock, drawn at random",
    ),
    place("clock_exchanges.*", Keep, "stamps of two clocks"),
    place("clock_readings.*", Keep, "stamps of the board's clocks"),
    place("contents.part", Keep, "its place"),
    place(
        "contents.bytes",
        Keep,
        "bytes of artifacts; outputs only with `--with outputs`",
    ),
];

/// Facts whose name has one of these words in it are private.
pub const PRIVATE_FACTS: &[&str] = &[
    "serial",
    "machine_id",
    "hostname",
    "host_name",
    "nodename",
    "uuid",
    "mac_address",
    "user",
    "address",
];

/// Parameters whose name has one of these words in it are prompts.
pub const PROMPTS: &[&str] = &["prompt", "question", "instruction"];

/// The place that a path belongs to.
pub fn find(path: &str) -> Option<&'static Place> {
    PLACES.iter().find(|place| fits(place.at, path))
}

/// `a.b[].c` with the segments `a`, `b`, `[]`, `c`.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').flat_map(|part| {
        let (name, items) = match part.find("[]") {
            Some(at) => part.split_at(at),
            None => (part, ""),
        };
        let items = (0..items.len() / 2).map(|_| "[]");
        Some(name)
            .filter(|name| !name.is_empty())
            .into_iter()
            .chain(items)
    })
}

fn fits(pattern: &str, path: &str) -> bool {
    let mut path = segments(path);
    for wanted in segments(pattern) {
        match (wanted, path.next()) {
            ("**", _) => return true,
            (_, None) => return false,
            ("*", Some(_)) => {}
            (wanted, Some(found)) if wanted == found => {}
            _ => return false,
        }
    }
    path.next().is_none()
}

/// The table of `docs/bundles.md`.
pub fn table() -> String {
    let mut out = String::from("| stored in | what it is | in a bundle |\n|---|---|---|\n");
    for place in PLACES {
        let treatment = match place.treatment {
            Keep => "as it is",
            Clean => "cleaned",
            Board => "`board-1` ... in place of names but `local`",
            Fact => "as it is, private facts left out",
            Parameter => "cleaned, prompts as their SHA-256",
            LeaveOut => "left out",
        };
        let at = place.at.trim_end_matches(".**");
        out.extend([format!("| `{at}` | {} | {treatment} |\n", place.what)]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_what_they_say() {
        assert!(fits("a.b[].c", "a.b[].c"));
        assert!(!fits("a.b[].c", "a.b[].d"));
        assert!(fits("a.**", "a.b[].c"));
        assert!(fits("a.b.**", "a.b"));
        assert!(!fits("a.b", "a.b.c"));
        assert!(fits("a.*.**", "a.x.y"));
        assert!(!fits("a.*", "a.x.y"));
    }

    #[test]
    fn the_first_place_that_fits_counts_so_none_is_behind_a_wider_one() {
        for (number, place) in PLACES.iter().enumerate() {
            let sample = place.at.replace(".**", "").replace('*', "any");
            let found = find(&sample).unwrap();
            assert_eq!(found.at, PLACES[number].at, "{sample}");
        }
    }
}
