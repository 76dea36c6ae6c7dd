//! The pages of `docs/` as a book: links between them, and pages made from the program itself.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// A link of a page, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Counted from 1.
    pub line: usize,
    /// Without the anchor; empty for one on the same page.
    pub path: String,
    /// Behind `#`.
    pub anchor: Option<String>,
}

/// Links of a page to files, outside code. Those to other machines are left out.
pub fn links(page: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, text) in prose(page) {
        let mut rest = text.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let end = rest.find([')', ' ']).unwrap_or(rest.len());
            let target = &rest[..end];
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = match target.split_once('#') {
                Some((path, anchor)) => (path, Some(anchor.to_owned())),
                None => (target, None),
            };
            let path = path.to_owned();
            links.push(Link { line, path, anchor });
        }
    }
    links
}

/// What the headings of a page are called in links, as GitHub and mdbook make them.
pub fn anchors(page: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = Vec::new();
    for (_, line) in prose(page) {
        let text = line.trim_start_matches('#');
        let depth = line.len() - text.len();
        if !(1..=6).contains(&depth) || !text.starts_with(' ') {
            continue;
        }
        let slug: String = text
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let times = seen.entry(slug.clone()).or_default();
        anchors.push(match *times {
            0 => slug,
            n => format!("{slug}-{n}"),
        });
        *times += 1;
    }
    anchors
}

/// Where a link of a page leads, as a path below the same root; none when it leads out of it.
pub fn target(page: &Path, path: &str) -> Option<PathBuf> {
    if path.is_empty() {
        return Some(page.to_owned());
    }
    let mut target = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => target.push(name),
            Component::CurDir => {}
            Component::ParentDir if target.pop() => {}
            _ => return None,
        }
    }
    Some(target)
}

/// Lines outside fenced code, without code in the line, numbered from 1. Headings keep what was code.
fn prose(page: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(page.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        if is_code {
            continue;
        }
        let text = match line.starts_with('#') {
            true => line.replace('`', ""),
            false => without_code(line),
        };
        lines.push((number, text));
    }
    lines
}

/// Code in a line becomes nothing, but for the text of a link.
fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    parts
        .filter(|(at, _)| at % 2 == 0)
        .map(|(_, part)| part)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_where_they_are_links() {
        let page = "see [a](x.md#b) and [`c`](../y/z.md)\n```\n[d](not.md)\n```\n`[e](not.md)` [f](https://g) [h](#i)\n";
        let found: Vec<(usize, String, Option<String>)> = links(page)
            .into_iter()
            .map(|link| (link.line, link.path, link.anchor))
            .collect();
        assert_eq!(
            found,
            [
                (1, "x.md".into(), Some("b".into())),
                (1, "../y/z.md".into(), None),
                (5, String::new(), Some("i".into())),
            ]
        );
    }

    #[test]
    fn headings_have_names() {
        let page = "# Exit codes\n## `edgedyno run`\n```sh\n# no heading\n```\n## p50 … p99.99, and more\n# Exit codes\n#no\n";
        assert_eq!(
            anchors(page),
            [
                "exit-codes",
                "edgedyno-run",
                "p50--p9999-and-more",
                "exit-codes-1"
            ]
        );
    }

    #[test]
    fn a_target_is_found_from_its_page() {
        let page = Path::new("docs/commands/run.md");
        assert_eq!(target(page, "../plans.md"), Some("docs/plans.md".into()));
        assert_eq!(target(page, "get.md"), Some("docs/commands/get.md".into()));
        assert_eq!(target(page, ""), Some(page.to_owned()));
        assert_eq!(target(page, "../../../out.md"), None);
        assert_eq!(target(page, "/etc/passwd"), None);
    }
}
