//! The whole page: head, parts in the order a reader needs them, and a table of contents.

use std::fmt::Write as _;

use super::compared::Compared;
use super::gather::Chapter;
use super::{data, glance, loads, sections};
use crate::figure::escape;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Nothing is fetched from anywhere; what stands in the page is all there is.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// The report as one HTML file.
pub fn page(title: &str, chapters: &[Chapter], compared: Option<&Compared>) -> String {
    let mut parts: Vec<(&str, &str, String)> = Vec::new();
    parts.push(("what", "At a glance", glance::section(chapters, compared)));
    parts.push((
        "findings",
        "Findings: read these before the figures",
        sections::findings(chapters),
    ));
    let cases = format!("{}{}", sections::cases(chapters), sections::best(chapters));
    parts.push(("cases", "Figures of every case", cases));
    let loads = loads::section(chapters);
    if !loads.is_empty() {
        parts.push(("loads", "Under load", loads));
    }
    if let Some(compared) = compared {
        parts.push(("compared", "Comparison", comparison(compared)));
    }
    parts.push(("figures", "Drawings", figures(chapters)));
    parts.push((
        "environment",
        "Boards and settings",
        sections::environment(chapters),
    ));
    parts.push(("plans", "Plans and commands", sections::plans(chapters)));
    parts.push(("data", "The data behind all this", embedded(chapters)));
    let mut out = head(title);
    out.push_str("<nav aria-label=\"Contents\"><ul>\n");
    for (id, title, _) in &parts {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "<li><a href=\"#{id}\">{}</a></li>", escape(title));
    }
    out.push_str("</ul></nav>\n<main id=\"main\">\n");
    for (id, title, body) in &parts {
        let _ = writeln!(
            out,
            "<section id=\"{id}\" aria-labelledby=\"{id}-head\"><h2 id=\"{id}-head\">{}</h2>\n{body}</section>",
            escape(title)
        );
    }
    let _ = write!(
        out,
        "</main>\n<footer>Made by edgedyno {} from its store. `edgedyno explain FIELD` says what a figure means.\
         </footer>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    );
    out
}

fn head(title: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header><h1>{title}</h1>\
         <button type=\"button\" id=\"theme\" hidden>Light or dark</button></header>\n"
    )
}

fn comparison(compared: &Compared) -> String {
    let figure = compared.figure.as_ref();
    let figure = figure.map(|figure| sections::figure(figure, ""));
    format!(
        "{}{}{}",
        compared.table,
        figure.unwrap_or_default(),
        compared.notes
    )
}

/// Drawings of each run, then those of its cases.
fn figures(chapters: &[Chapter]) -> String {
    let mut out = String::new();
    for (number, chapter) in chapters.iter().enumerate() {
        let prefix = match chapters.len() {
            1 => String::new(),
            _ => {
                let _ = writeln!(out, "<h3>Run {}</h3>", escape(&chapter.name));
                format!("r{number}-")
            }
        };
        for figure in &chapter.figures {
            out.push_str(&sections::figure(figure, &prefix));
        }
        for (at, part) in chapter.parts.iter().enumerate() {
            for figure in &part.figures {
                out.push_str(&sections::figure(figure, &format!("{prefix}c{at}-")));
            }
        }
        if chapter.not_drawn > 0 {
            let _ = writeln!(
                out,
                "<p>{} more cases are in the tables and not drawn; <code>edgedyno report RUN/CASE</code> draws one.</p>",
                chapter.not_drawn
            );
        }
    }
    out
}

fn embedded(chapters: &[Chapter]) -> String {
    let decimated = match data::is_decimated(chapters) {
        true => {
            " Of repeats with very many trials the lowest and highest of each stretch are embedded; \
             <code>edgedyno export</code> writes every one."
        }
        false => " Every measured trial is embedded.",
    };
    format!(
        "<p>Fields, findings, plans and latencies of this page as JSON (<code>{}</code>).{decimated}</p>\n\
         <p><button type=\"button\" id=\"save\" hidden>Save the data as a file</button></p>\n\
         <script type=\"application/json\" id=\"report-data\">{}</script>\n",
        data::DOCUMENT,
        data::embedded(chapters)
    )
}
