//! Tables of a report: sorted and filtered by a script where there is one, readable where there is none.

use std::fmt::Write as _;

use crate::figure::escape;

/// Where a name such as `mem_copy:cpu0@30%/ws=8MiB` may go on in the next line.
const BREAKS: &str = "/@:+,=";

/// A word of more characters is broken wherever its column ends.
const LONGEST_WORD: usize = 24;

/// A table under way.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    caption: String,
    heads: Vec<Head>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone)]
struct Head {
    title: String,
    is_figure: bool,
}

/// A cell: what is shown, and what it is sorted by where that is a number.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Cell {
    text: String,
    /// A smaller second line.
    below: Option<String>,
    number: Option<f64>,
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// What is not known is sorted behind everything.
    pub(super) fn figure(text: impl Into<String>, number: Option<f64>) -> Self {
        Self {
            text: text.into(),
            number: Some(number.filter(|n| n.is_finite()).unwrap_or(f64::INFINITY)),
            below: None,
        }
    }

    /// The same with a line below, for what belongs to the figure.
    pub(super) fn with_below(self, below: Option<String>) -> Self {
        Self { below, ..self }
    }
}

impl Table {
    pub(super) fn new(caption: impl Into<String>) -> Self {
        Self {
            caption: caption.into(),
            ..Self::default()
        }
    }

    pub(super) fn column(mut self, title: impl Into<String>) -> Self {
        self.heads.push(Head {
            title: title.into(),
            is_figure: false,
        });
        self
    }

    pub(super) fn figures(mut self, title: impl Into<String>) -> Self {
        self.heads.push(Head {
            title: title.into(),
            is_figure: true,
        });
        self
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table in a box of its own, which scrolls sideways on a narrow screen.
    pub(super) fn html(&self) -> String {
        let mut out = String::from("<div class=\"table\" tabindex=\"0\" role=\"region\"");
        // Writing to a string cannot fail.
        let _ = writeln!(out, " aria-label=\"{}\">", escape(&self.caption));
        let _ = writeln!(out, "<table><caption>{}</caption>", escape(&self.caption));
        out.push_str("<thead><tr>");
        for head in &self.heads {
            let class = if head.is_figure {
                " class=\"figure\""
            } else {
                ""
            };
            let title = broken(&head.title, "._");
            let _ = write!(out, "<th scope=\"col\"{class}>{title}</th>");
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for (at, cell) in row.iter().enumerate() {
                self.cell(&mut out, at, cell);
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
        out
    }

    fn cell(&self, out: &mut String, at: usize, cell: &Cell) {
        let is_figure = self.heads.get(at).is_some_and(|head| head.is_figure);
        let class = match is_figure {
            true => " class=\"figure\"",
            false if has_long_word(&cell.text) => " class=\"long\"",
            false => "",
        };
        let sort = match cell.number {
            Some(number) if number.is_finite() => format!(" data-v=\"{number}\""),
            Some(_) => " data-v=\"\"".into(),
            None => String::new(),
        };
        let below = cell.below.as_ref();
        let below = below.map(|below| format!("<br><small>{}</small>", escape(below)));
        let text = match is_figure {
            true => escape(&cell.text),
            false => broken(&cell.text, BREAKS),
        } + &below.unwrap_or_default();
        // The first cell of a row names it.
        let _ = match at {
            0 => write!(out, "<th scope=\"row\"{class}{sort}>{text}</th>"),
            _ => write!(out, "<td{class}{sort}>{text}</td>"),
        };
    }
}

/// A text that may go on in the next line behind each of these characters.
fn broken(text: &str, behind: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| behind.contains(c)) {
        let (piece, more) = rest.split_at(at + 1);
        out.push_str(&escape(piece));
        // Nothing goes on behind the last character, or where there is a blank already.
        if more
            .chars()
            .next()
            .is_some_and(|next| !next.is_whitespace())
        {
            out.push_str("<wbr>");
        }
        rest = more;
    }
    out + &escape(rest)
}

fn has_long_word(text: &str) -> bool {
    let mut words = text.split(|c: char| c.is_whitespace() || BREAKS.contains(c));
    words.any(|word| word.chars().count() > LONGEST_WORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_on_in_the_next_line_where_they_have_joints() {
        let said = broken("mem_copy:cpu0@30%/ws=8MiB", BREAKS);
        assert_eq!(said, "mem_copy:<wbr>cpu0@<wbr>30%/<wbr>ws=<wbr>8MiB");
        assert_eq!(
            broken("option.latency_us", "._"),
            "option.<wbr>latency_<wbr>us"
        );
        assert_eq!(broken("a: b, c=<d>", BREAKS), "a: b, c=<wbr>&lt;d&gt;");
        assert_eq!(broken("GB/", BREAKS), "GB/");
    }

    #[test]
    fn what_belongs_to_a_figure_stands_below_it() {
        let mut table = Table::new("t").column("case").figures("p50");
        let interval = Some("1 ms to 3 ms".to_owned());
        let p50 = Cell::figure("2 ms", Some(2e6)).with_below(interval);
        table.row([Cell::text("f".repeat(64)), p50]);
        let html = table.html();
        let cell =
            "<td class=\"figure\" data-v=\"2000000\">2 ms<br><small>1 ms to 3 ms</small></td>";
        assert!(html.contains(cell), "{html}");
        assert!(
            html.contains("<th scope=\"row\" class=\"long\">ffff"),
            "{html}"
        );
    }
}
