//! Tables for the terminal: one rule under the heading, figures to the right, 100 columns.

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, TableStyle, Width,
    presets::NOTHING,
};

use super::units::UNKNOWN;

/// Widest table, in terminal columns.
pub const WIDTH: u16 = 100;

/// Room that a text column keeps before figures may wrap, and the longest word kept whole where there is no
/// room for longer ones.
const NARROWEST_TEXT: u16 = 12;
/// Blanks that a column adds to its contents.
const PADDING: u16 = 2;
const STYLE: TableStyle = NOTHING.header_separator(LineStyle::none().fill('─').junction('─'));

/// A table under construction: columns first, then rows, then [`render`](Self::render).
#[derive(Debug, Clone, Default)]
pub struct Table {
    titles: Vec<String>,
    kinds: Vec<Kind>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// To the left, wrapped between words.
    Text,
    /// To the right, kept on one line while there is room.
    Figure,
}

impl Table {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column of text.
    #[must_use]
    pub fn text(self, title: &str) -> Self {
        self.column(title, Kind::Text)
    }

    /// Adds a column of figures, written by [`units`](super::units).
    #[must_use]
    pub fn figure(self, title: &str) -> Self {
        self.column(title, Kind::Figure)
    }

    fn column(mut self, title: &str, kind: Kind) -> Self {
        self.titles.push(printable(title));
        self.kinds.push(kind);
        self
    }

    /// Adds a row; cells that are missing at its end are unknown.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Self {
        let mut row: Vec<String> = cells
            .into_iter()
            .map(|cell| printable(cell.as_ref()))
            .collect();
        debug_assert!(
            row.len() <= self.titles.len(),
            "more cells than columns: {row:?}"
        );
        row.resize(self.titles.len(), UNKNOWN.to_owned());
        self.rows.push(row);
        self
    }

    /// The table as lines without trailing blanks, and no newline at the end.
    pub fn render(&self) -> String {
        let fits = |text: &String| {
            let mut lines = text.lines();
            lines.all(|line| line.chars().count() <= usize::from(WIDTH))
        };
        // Whole words where they have room, else the short ones, else whatever fits. Even with room a
        // column of text that has a boundary can push the last one out.
        [WIDTH, NARROWEST_TEXT]
            .into_iter()
            .filter(|longest| self.has_room_for_words(*longest))
            .map(|longest| self.laid_out(Some(longest)))
            .find(fits)
            .unwrap_or_else(|| self.laid_out(None))
    }

    fn plain(&self) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table
            .load_style(STYLE)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(WIDTH)
            .set_header(&self.titles)
            .add_rows(&self.rows);
        table
    }

    /// With figures on one line and words of up to so many characters in one piece, or with neither.
    fn laid_out(&self, longest: Option<u16>) -> String {
        let mut table = self.plain();
        let last = self.kinds.len().saturating_sub(1);
        for (i, (column, kind)) in table.column_iter_mut().zip(&self.kinds).enumerate() {
            let padding = (u16::from(i > 0), u16::from(i < last));
            column.set_padding(padding);
            if *kind == Kind::Figure {
                column.set_cell_alignment(CellAlignment::Right);
            }
            match (kind, longest) {
                (Kind::Figure, Some(_)) => {
                    column.set_constraint(ColumnConstraint::ContentWidth);
                }
                (Kind::Text, Some(longest)) => {
                    // A name in two pieces is two names.
                    let word = self.longest_word(i).min(longest) + padding.0 + padding.1;
                    column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(word)));
                }
                (_, None) => {}
            }
        }
        table.trim_fmt()
    }

    /// Characters of the longest word of a column.
    fn longest_word(&self, column: usize) -> u16 {
        let cells = self.rows.iter().map(|row| &row[column]);
        let cells = cells.chain(&self.titles[column..=column]);
        let words = cells.flat_map(|cell| cell.split_whitespace());
        words
            .map(|word| word.chars().count() as u16)
            .max()
            .unwrap_or(0)
    }

    /// Whether unwrapped figures leave each text column room to wrap in, its words of up to so many
    /// characters whole.
    fn has_room_for_words(&self, longest: u16) -> bool {
        let widths = self.plain().column_max_content_widths();
        let columns = self.kinds.iter().zip(widths).enumerate();
        let needed = columns.map(|(i, (kind, width))| match kind {
            Kind::Text => {
                let words = self.longest_word(i).min(longest);
                words.max(width.min(NARROWEST_TEXT)) + PADDING
            }
            Kind::Figure => width.saturating_add(PADDING),
        });
        needed.fold(0, u16::saturating_add) <= WIDTH
    }
}

/// Text without control characters, which could otherwise move the cursor of whoever reads a model's
/// name; line breaks stay.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() && c != '\n' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::units;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn figures_stand_to_the_right_under_one_rule() {
        let mut table = Table::new()
            .text("case")
            .figure("n")
            .figure("p50")
            .figure("p99");
        table.row([
            "threads=1".to_owned(),
            "3x890".to_owned(),
            units::nanoseconds(12.34e6),
            units::nanoseconds(1.4e7),
        ]);
        table.row([
            "threads=2".to_owned(),
            units::count(66_381),
            units::nanoseconds(890e3),
        ]);
        insta::assert_snapshot!(table.render(), @"
        case             n        p50     p99
        ─────────────────────────────────────
        threads=1    3x890   12.34 ms   14 ms
        threads=2   66 381     890 µs       –
        ");
    }

    #[test]
    fn long_text_wraps_and_figures_do_not() {
        let reason = "the library was found but its version 2.1 is older than the 2.3 that this backend was written for, so it was not opened";
        let mut table = Table::new().text("backend").text("reason").figure("load");
        table
            .row(["rknn", reason, "12.34 ms"])
            .row(["fake", "ready", "890 µs"]);
        insta::assert_snapshot!(table.render(), @"
        backend   reason                                                                          load
        ──────────────────────────────────────────────────────────────────────────────────────────────
        rknn      the library was found but its version 2.1 is older than the 2.3 that this   12.34 ms
                  backend was written for, so it was not opened
        fake      ready                                                                         890 µs
        ");
    }

    #[test]
    fn a_table_without_rows_shows_its_heading() {
        insta::assert_snapshot!(Table::new().text("run").figure("cases").render(), @"
        run   cases
        ───────────
        ");
    }

    #[test]
    fn control_characters_are_not_passed_on() {
        let mut table = Table::new().text("model");
        table.row(["evil\u{1b}[2J.onnx"]);
        assert!(!table.render().contains('\u{1b}'));
    }

    /// 10 + 20 + 3 x 9 + 14 + 15 and 3 blanks between columns are 104; without ten of the second it is 94.
    #[test]
    fn where_it_is_narrow_a_column_with_blanks_wraps_and_names_stay_whole() {
        let mut table = Table::new()
            .text("run")
            .text("created")
            .figure("a")
            .figure("b")
            .figure("c")
            .text("tags")
            .text("from");
        let figure = "1 234 567";
        table.row([
            "a477vs4tyc",
            "2026-11-30 14:30:12Z",
            figure,
            figure,
            figure,
            "before-upgrade",
            "runtimes.tar.gz",
        ]);
        let text = table.render();
        for word in [
            "2026-11-30",
            "14:30:12Z",
            "before-upgrade",
            "runtimes.tar.gz",
        ] {
            assert!(text.contains(word), "no {word} in\n{text}");
        }
    }

    #[test]
    fn a_table_that_its_words_make_too_wide_gives_way() {
        let mut table = Table::new()
            .text("a")
            .text("b")
            .figure("c")
            .figure("d")
            .text("e")
            .figure("f");
        let wide = "aa0a aa  a  . .a00a  aa0aaa00  a 0 a00.a.. 00  a";
        table.row([
            "aaa.a.",
            "0000aaa0a0a",
            "a0 a.aa ",
            "",
            "aaa0aaa0.aaa",
            wide,
        ]);
        let widest = table
            .render()
            .lines()
            .map(|line| line.chars().count())
            .max();
        assert!(widest <= Some(usize::from(WIDTH)), "{widest:?}");
    }

    proptest! {
        #[test]
        fn every_line_fits(
            rows in prop::collection::vec(prop::collection::vec("[a-z0-9 /.]{0,60}", 6), 0..6),
        ) {
            let mut table = Table::new().text("a").text("b").figure("c").figure("d").text("e").figure("f");
            for row in &rows {
                table.row(row);
            }
            for line in table.render().lines() {
                prop_assert!(line.chars().count() <= usize::from(WIDTH), "{line}");
            }
        }
    }
}
