//! The pages of `docs/`: every link leads somewhere, every page is in the table of contents, and the pages of
//! commands are what the program prints, their examples made from the recorded ones in `examples/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use edgedyno_tests::{Sandbox, book, workspace};
use regex::Regex;

/// Commands whose example is run for its page, with the lines of output that the page shows.
const EXAMPLES: &[(&str, &[&str], usize)] = &[
    (
        "import",
        &["import sweep.tar.gz", "import contention.tar.gz"],
        10,
    ),
    ("runs list", &["runs list"], 10),
    ("runs show", &["runs show sweep"], 20),
    (
        "runs tag",
        &[
            "runs tag sweep before-upgrade",
            "runs tag sweep before-upgrade --remove",
        ],
        10,
    ),
    (
        "summary",
        &[
            "summary sweep",
            "summary sweep --case threads=1,io=resident",
        ],
        60,
    ),
    (
        "get",
        &["get sweep latency_p50_ms --case threads=1,io=resident"],
        5,
    ),
    ("explain", &["explain latency_p99_ms"], 20),
    (
        "records",
        &["records sweep --case threads=1,io=resident"],
        8,
    ),
    (
        "samples",
        &["samples sweep --case threads=1,io=resident"],
        14,
    ),
    ("windows", &["windows sweep"], 20),
    ("compare", &["compare sweep --between threads=1,2"], 40),
    ("stress", &["stress --show contention"], 60),
    ("report", &["report sweep --output report.html"], 5),
    ("trace", &["trace sweep --case threads=1,io=resident"], 5),
    (
        "query",
        &["query \"select case_key, outcome, count(*) from repeats group by 1, 2\" --csv"],
        12,
    ),
    (
        "export",
        &[
            "export sweep --format csv --case threads=1,io=resident",
            "export contention --format contention --output contention.json",
            "export sweep --bundle again.tar.gz",
        ],
        6,
    ),
    ("runs push", &["runs push team"], 5),
    ("runs pull", &["runs pull team"], 5),
    ("runs rm", &["runs rm contention --yes"], 5),
    (
        "model make",
        &["model make conv --channels 4 --depth 2 --image 32 --out net.onnx"],
        5,
    ),
    ("model info", &["model info net.onnx"], 20),
    ("completions", &["completions bash"], 5),
    ("man", &["man pages"], 5),
];

/// What was printed while the examples were recorded: there is nothing to be run again.
const RECORDED: &[(&str, &str)] = &[("sweep", "sweep.txt"), ("run", "run.txt")];

/// Pages of people's own words: all that is in `docs/`, and those beside it.
fn pages() -> BTreeMap<PathBuf, String> {
    let root = workspace::root();
    let mut pages = BTreeMap::new();
    let mut open = vec![root.join("docs"), root.join("changes")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false if path.extension().is_some_and(|ending| ending == "md") => {
                    let text = fs::read_to_string(&path).unwrap();
                    pages.insert(path.strip_prefix(root).unwrap().to_owned(), text);
                }
                false => {}
            }
        }
    }
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ] {
        pages.insert(name.into(), fs::read_to_string(root.join(name)).unwrap());
    }
    pages
}

#[test]
fn every_link_leads_to_a_file_and_to_a_heading_of_it() {
    let pages = pages();
    let mut wrong = Vec::new();
    for (page, text) in &pages {
        for link in book::links(text) {
            let said = format!(
                "{}:{}: {}#{}",
                page.display(),
                link.line,
                link.path,
                link.anchor.clone().unwrap_or_default()
            );
            let Some(target) = book::target(page, &link.path) else {
                wrong.push(format!("{said} leads out of the sources"));
                continue;
            };
            if page.starts_with("docs") && !target.starts_with("docs") {
                wrong.push(format!("{said} leads out of the book"));
            }
            if !workspace::root().join(&target).exists() {
                wrong.push(format!("{said} leads nowhere"));
                continue;
            }
            let anchors = pages.get(&target).map(|text| book::anchors(text));
            if let (Some(anchor), Some(anchors)) = (link.anchor, anchors)
                && !anchors.contains(&anchor)
            {
                wrong.push(format!("{said} is no heading"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let pages = pages();
    let summary = Path::new("docs/SUMMARY.md");
    let listed: BTreeSet<PathBuf> = book::links(&pages[summary])
        .iter()
        .filter_map(|link| book::target(summary, &link.path))
        .collect();
    let there: BTreeSet<PathBuf> = pages
        .keys()
        .filter(|page| page.starts_with("docs") && *page != summary)
        .cloned()
        .collect();
    assert_eq!(
        there,
        listed.into_iter().filter(|page| page != summary).collect()
    );
}

/// The names under "Commands:" of a help text.
fn commands_of(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Every command that has none below it, with its help, in the order of the help.
fn leaves(sandbox: &Sandbox, above: &[String], out: &mut Vec<(Vec<String>, String)>) {
    let words = above.iter().map(String::as_str).chain(["--help"]);
    let help = sandbox.edgedyno(words).ok().stdout;
    let below = commands_of(&help);
    if below.is_empty() {
        out.push((above.to_vec(), help));
        return;
    }
    for name in below {
        leaves(sandbox, &[above, &[name]].concat(), out);
    }
}

/// Words as a shell splits them, with double quotes.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('"').enumerate();
    let split = parts.flat_map(|(i, part)| match i % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    split.collect()
}

/// A store with the recorded examples at hand.
fn examples() -> Sandbox {
    let sandbox = Sandbox::new();
    for name in ["sweep.tar.gz", "contention.tar.gz"] {
        let bundle = fs::read(workspace::root().join("examples").join(name)).unwrap();
        sandbox.write(name, bundle);
    }
    sandbox
}

/// What a command prints, as a page shows it.
fn shown(sandbox: &Sandbox, line: &str, most: usize) -> String {
    let output = sandbox.edgedyno(words(line));
    assert!(
        [0, 6].contains(&output.code),
        "{line}: {}\n{}",
        output.code,
        output.stderr
    );
    // Sizes of pages and scripts change with every one of their words.
    let sizes = Regex::new(r"\t\d+ bytes").unwrap();
    let text = sizes.replace_all(&output.stdout, "\t(size)").into_owned();
    clipped(&sandbox.redact(&text), most)
}

fn clipped(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    let mut shown = lines[..lines.len().min(most)].join("\n");
    if lines.len() > most {
        shown.extend([format!("\n... {} more lines", lines.len() - most)]);
    }
    shown
}

fn page_of(sandbox: &Sandbox, command: &str, help: &str) -> String {
    let text: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    let mut page = format!(
        "# `edgedyno {command}`\n\n<!-- Made by `EDGEDYNO_REWRITE=1 cargo test -p edgedyno-tests --test book`. -->\n\n\
         ```text\n{}\n```\n",
        text.join("\n")
    );
    if let Some((_, lines, most)) = EXAMPLES.iter().find(|(name, ..)| *name == command) {
        page.push_str("\n## An example\n\nThe runs are the [recorded ones](../introduction.md).\n");
        for line in *lines {
            let said = shown(sandbox, line, *most);
            page.extend([format!("\n```text\n$ edgedyno {line}\n{said}\n```\n")]);
        }
    }
    if let Some((_, file)) = RECORDED.iter().find(|(name, _)| *name == command) {
        let said = fs::read_to_string(workspace::root().join("examples").join(file)).unwrap();
        page.push_str("\n## An example\n\nPrinted while the examples were recorded.\n");
        page.extend([format!("\n```text\n{}\n```\n", said.trim_end())]);
    }
    page
}

/// A checked-in file that is made again and compared; `EDGEDYNO_REWRITE=1` writes it instead.
fn check(relative: &str, made: &str, wrong: &mut Vec<String>) {
    let path = workspace::root().join(relative);
    if std::env::var_os("EDGEDYNO_REWRITE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, made).unwrap();
        return;
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    if kept != made {
        let first = kept.lines().zip(made.lines()).find(|(a, b)| a != b);
        wrong.push(format!("{relative}, first difference: {first:?}"));
    }
}

#[test]
fn the_pages_of_commands_are_what_the_program_prints() {
    let sandbox = examples();
    let mut all = Vec::new();
    leaves(&sandbox, &[], &mut all);
    // In the order of the list of examples, since one prepares the next; the others as they come.
    let rank = |name: &str| {
        EXAMPLES
            .iter()
            .position(|(found, ..)| *found == name)
            .unwrap_or(usize::MAX)
    };
    let mut ordered: Vec<(String, &String)> = all
        .iter()
        .map(|(words, help)| (words.join(" "), help))
        .collect();
    ordered.sort_by_key(|(name, _)| rank(name));
    let mut wrong = Vec::new();
    let mut expected = BTreeSet::new();
    for (name, help) in &ordered {
        let file = format!("docs/commands/{}.md", name.replace(' ', "-"));
        check(&file, &page_of(&sandbox, name, help), &mut wrong);
        expected.insert(workspace::root().join(file));
    }
    let list: Vec<String> = all
        .iter()
        .map(|(words, _)| {
            format!(
                "  - [{}](commands/{}.md)\n",
                words.join(" "),
                words.join("-")
            )
        })
        .collect();
    let summary = fs::read_to_string(workspace::root().join("docs/SUMMARY.md")).unwrap();
    let (begin, end) = ("<!-- commands -->\n", "<!-- end of commands -->");
    let (head, rest) = summary.split_once(begin).unwrap();
    let (_, tail) = rest.split_once(end).unwrap();
    check(
        "docs/SUMMARY.md",
        &format!("{head}{begin}{}{end}{tail}", list.concat()),
        &mut wrong,
    );
    for entry in fs::read_dir(workspace::root().join("docs/commands")).unwrap() {
        let path = entry.unwrap().path();
        if !expected.contains(&path) {
            wrong.push(format!("{} is the page of no command", path.display()));
        }
    }
    assert!(
        wrong.is_empty(),
        "run with EDGEDYNO_REWRITE=1 and look at the change:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_example_belongs_to_a_command() {
    let sandbox = Sandbox::new();
    let mut all = Vec::new();
    leaves(&sandbox, &[], &mut all);
    let names: BTreeSet<String> = all.into_iter().map(|(words, _)| words.join(" ")).collect();
    let named = EXAMPLES
        .iter()
        .map(|(name, ..)| *name)
        .chain(RECORDED.iter().map(|(name, _)| *name));
    for name in named {
        assert!(names.contains(name), "there is no command {name}");
    }
}
