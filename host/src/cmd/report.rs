//! `report`: results to look at, as one HTML file or as figures.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::cli::Global;
use crate::compare::load;
use crate::compare::matching::{self, Between};
use crate::compare::metric::{self, Metric};
use crate::compare::report::{Ask, Comparison, Named};
use crate::compare::sessions::Sessions;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::export::{ExportError, Output};
use crate::figure::{Figure, png};
use crate::report::{Chapter, Compared, Room, gather, page};
use crate::source::{self, Opened, Source};
use crate::store::rows::CaseEntry;
use crate::ui::busy::Busy;
use crate::ui::print;

const EXAMPLES: &str = "\
examples:
  edgedyno report last
  edgedyno report before after --compare --output change.html
  edgedyno report sweep --between threads=1,2
  edgedyno report last --figures figures/";

/// Where the page goes when nobody says.
const USUAL: &str = "report.html";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// Runs: id, the beginning of one, a tag, or `last`; RUN/CASE for one case; or profile files
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<String>,
    /// Cases of every run: the beginning of a key, or axes such as threads=2
    #[arg(long = "case", value_name = "KEY")]
    pub case: Option<String>,
    /// Hold the second run against the first
    #[arg(long)]
    pub compare: bool,
    /// Hold the cases of one run against each other along an axis
    #[arg(long, value_name = "AXIS=A,B", value_parser = Between::parse, conflicts_with = "compare")]
    pub between: Option<Between>,
    /// What is compared
    #[arg(long, value_name = "METRIC", default_value = "p50")]
    pub metric: String,
    /// Write figures as SVG and PNG files into this folder, and no page unless --output names one
    #[arg(long, value_name = "DIR")]
    pub figures: Option<PathBuf>,
    /// The page to write [default: report.html]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// A run and the cases of it that are asked for.
struct Side {
    name: String,
    source: Source,
    cases: Vec<CaseEntry>,
}

pub fn run(args: &ReportArgs, global: &Global) -> CommandResult {
    check(args)?;
    let sides = open(args, global)?;
    // Places are tried before any work, so that a bad path fails in the first second.
    let mut figures = match &args.figures {
        Some(dir) => Some(Output::at(dir, true)?),
        None => None,
    };
    let path = match (&args.output, &figures) {
        (Some(path), _) => Some(path.clone()),
        (None, None) => Some(PathBuf::from(USUAL)),
        (None, Some(_)) => None,
    };
    let mut output = match &path {
        Some(path) => Some(Output::at(path, false)?),
        None => None,
    };
    let chapters = chapters(&sides)?;
    let comparison = comparison(args, &sides, global)?;
    let compared = comparison.as_ref().map(Compared::of);
    if let Some(output) = &mut output {
        let title = title(args);
        let text = page(&title, &chapters, compared.as_ref());
        write(output, USUAL, text.as_bytes())?;
    }
    if let Some(output) = &mut figures {
        for (name, figure) in drawings(&chapters, compared.as_ref()) {
            write(output, &format!("{name}.svg"), figure.file().as_bytes())?;
            let dots = png(&figure.svg).map_err(|why| {
                CommandError::new(Exit::UNEXPECTED, format!("figure {name} makes no picture"))
                    .because(why)
                    .hint("its SVG is written; that is a mistake of edgedyno's own")
            })?;
            write(output, &format!("{name}.png"), &dots)?;
        }
    }
    tell(global, path.as_deref(), output.as_ref(), figures.as_ref());
    Ok(Exit::GOOD)
}

fn check(args: &ReportArgs) -> Result<(), CommandError> {
    if args.compare && args.runs.len() != 2 {
        return Err(CommandError::usage("a comparison is made of two runs")
            .hint("`edgedyno report A B --compare`, or --between AXIS=A,B within one run"));
    }
    if args.between.is_some() && args.runs.len() != 1 {
        return Err(
            CommandError::usage("--between compares the cases of one run with each other")
                .hint("`edgedyno report RUN --between threads=1,2`"),
        );
    }
    Ok(())
}

fn open(args: &ReportArgs, global: &Global) -> Result<Vec<Side>, CommandError> {
    let here = super::here()?;
    let mut sides = Vec::new();
    for name in &args.runs {
        let Opened { source, key } = Source::open(name, global.store(), &here)?;
        if key.is_some() && args.case.is_some() {
            return Err(CommandError::usage(
                "a case is named twice: after the slash and with --case",
            )
            .hint("leave one of them out"));
        }
        let wanted = key.or_else(|| args.case.clone());
        let all = source.cases()?;
        let picked = source::matching(&all, wanted.as_deref())?;
        let cases: Vec<CaseEntry> = picked.into_iter().cloned().collect();
        if cases.is_empty() {
            return Err(CommandError::new(
                Exit::NOTHING_MEASURED,
                format!("run `{name}` has no case"),
            )
            .hint("`edgedyno runs show` says how far it came"));
        }
        sides.push(Side {
            name: name.clone(),
            source,
            cases,
        });
    }
    Ok(sides)
}

fn chapters(sides: &[Side]) -> Result<Vec<Chapter>, CommandError> {
    let room = Room {
        all: Room::USUAL.all / sides.len(),
        ..Room::USUAL
    };
    let mut chapters = Vec::new();
    for side in sides {
        let _busy = Busy::with(format!(
            "reading {} cases of {}",
            side.cases.len(),
            side.name
        ));
        chapters.push(gather(&side.name, &side.source, &side.cases, room)?);
    }
    Ok(chapters)
}

fn comparison(
    args: &ReportArgs,
    sides: &[Side],
    global: &Global,
) -> Result<Option<Comparison>, CommandError> {
    if !args.compare && args.between.is_none() {
        return Ok(None);
    }
    let metrics: Vec<&'static Metric> = vec![metric::find(&args.metric)?];
    let arms = |side: &Side| load::arms(&side.source, &side.cases, &metrics);
    let (a, b) = (&sides[0], sides.last().unwrap_or(&sides[0]));
    let matched = match &args.between {
        Some(between) => matching::within(&arms(a)?, between)?,
        None => matching::two_runs(arms(a)?, arms(b)?, None)?,
    };
    let sessions = match super::open_for_reading(global) {
        Ok(store) => Sessions::load(&store, &matched.pairs, &metrics)?,
        // Profiles are compared without a store: then nothing is known of other sessions.
        Err(_) => Sessions::default(),
    };
    let ask = Ask {
        metrics,
        rule: None,
        min_effect: None,
        allowed: Vec::new(),
        force: false,
    };
    let named = |side: &Side| Named {
        name: side.name.clone(),
        run: side.source.run().ok().map(|run| run.id.0),
    };
    Ok(Some(Comparison::of(
        named(a),
        named(b),
        matched,
        ask,
        &sessions,
    )))
}

fn title(args: &ReportArgs) -> String {
    match (args.compare, args.runs.as_slice()) {
        (true, [a, b]) => format!("{b} against {a}"),
        (_, runs) => format!("Measured: {}", runs.join(", ")),
    }
}

/// Figures by unique file names.
fn drawings<'a>(
    chapters: &'a [Chapter],
    compared: Option<&'a Compared>,
) -> Vec<(String, &'a Figure)> {
    let mut out = Vec::new();
    for (number, chapter) in chapters.iter().enumerate() {
        let run = match chapters.len() {
            1 => String::new(),
            _ => format!("run{number}-"),
        };
        for figure in &chapter.figures {
            out.push((format!("{run}{}", figure.name), figure));
        }
        let loads = chapter.loads.iter().flat_map(|load| &load.figures);
        out.extend(loads.map(|figure| (format!("{run}{}", figure.name), figure)));
        for (at, part) in chapter.parts.iter().enumerate() {
            let case = match chapter.parts.len() {
                1 => String::new(),
                _ => format!("case{at}-"),
            };
            for figure in &part.figures {
                out.push((format!("{run}{case}{}", figure.name), figure));
            }
        }
    }
    let forest = compared.and_then(Compared::figure);
    out.extend(forest.map(|figure| (figure.name.clone(), figure)));
    out
}

fn write(output: &mut Output, name: &str, bytes: &[u8]) -> Result<(), CommandError> {
    let written = output.file(name, |to| {
        to.write_all(bytes)
            .map_err(|source| ExportError::NotWritable {
                path: name.into(),
                source,
            })
    });
    Ok(written?)
}

fn tell(global: &Global, path: Option<&Path>, page: Option<&Output>, figures: Option<&Output>) {
    let files = |output: Option<&Output>| -> Vec<(String, u64)> {
        let written = output.map_or(&[][..], Output::written).iter();
        written
            .map(|file| (file.name.clone(), file.bytes))
            .collect()
    };
    let pages = files(page).into_iter().map(|(name, bytes)| {
        let name = path.map_or(name, |path| path.display().to_string());
        (name, bytes)
    });
    let all: Vec<(String, u64)> = pages.chain(files(figures)).collect();
    if global.json {
        let listed = all
            .iter()
            .map(|(name, bytes)| json!({ "name": name, "bytes": bytes }));
        return print::json(&json!({
            "document": "edgedyno/report/1",
            "files": listed.collect::<Vec<Value>>(),
        }));
    }
    for (name, bytes) in all {
        print::result(format_args!("{name}\t{bytes} bytes"));
    }
}
