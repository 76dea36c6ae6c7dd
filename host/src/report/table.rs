//! Tables of a report: sorted and filtered by a script where there is one, readable where there is none.

use std::fmt::Write as _;

use crate::figure::escape;

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
    number: Option<f64>,
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            number: None,
        }
    }

    /// What is not known is sorted behind everything.
    pub(super) fn figure(text: impl Into<String>, number: Option<f64>) -> Self {
        Self {
            text: text.into(),
            number: Some(number.filter(|n| n.is_finite()).unwrap_or(f64::INFINITY)),
        }
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
            let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape(&head.title));
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
        let class = if is_figure { " class=\"figure\"" } else { "" };
        let sort = match cell.number {
            Some(number) if number.is_finite() => format!(" data-v=\"{number}\""),
            Some(_) => " data-v=\"\"".into(),
            None => String::new(),
        };
        let text = escape(&cell.text);
        // The first cell of a row names it.
        let _ = match at {
            0 => write!(out, "<th scope=\"row\"{class}{sort}>{text}</th>"),
            _ => write!(out, "<td{class}{sort}>{text}</td>"),
        };
    }
}
