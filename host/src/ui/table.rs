//! Tables for the terminal: one rule under the heading, figures to the right, 100 columns.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, TableStyle, presets::NOTHING};

use super::units::UNKNOWN;

/// Widest table, in terminal columns.
pub const WIDTH: u16 = 100;

/// Blanks between two columns, and where that makes a table fit.
const GAP: usize = 3;
const NARROW_GAP: usize = 2;
/// A word longer than this, such as a hash, breaks anywhere before a table becomes a list.
const LONGEST_WORD: usize = 32;
/// Titles of a list of cells take no more than this from them.
const WIDEST_TITLE: usize = 24;
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
    ///
    /// Names and figures are whole while there is room; else names break where they have joints, then figures
    /// before what stands in brackets, then columns come closer and figures break between words. Where even that
    /// is too wide each row is a list of its cells.
    pub fn render(&self) -> String {
        let breaks = [
            (Break::Words, Break::Never, GAP),
            (Break::Joints, Break::Never, GAP),
            (Break::Words, Break::Brackets, GAP),
            (Break::Joints, Break::Brackets, GAP),
            (Break::Joints, Break::Brackets, NARROW_GAP),
            (Break::Joints, Break::Words, NARROW_GAP),
            (Break::Anywhere, Break::Anywhere, NARROW_GAP),
        ];
        let mut fitting = breaks.into_iter().filter_map(|(text, figure, gap)| {
            let how = |kind| match kind {
                Kind::Text => text,
                Kind::Figure => figure,
            };
            let widths = self.widths(how, gap)?;
            Some(self.laid_out(how, &widths, gap))
        });
        fitting.next().unwrap_or_else(|| self.listed())
    }

    /// Widths of columns that fit a page when their cells are broken so; none where they do not fit.
    fn widths(&self, how: impl Fn(Kind) -> Break, gap: usize) -> Option<Vec<usize>> {
        let of = |cells: &dyn Fn(Kind) -> Break, title: Break| -> Vec<usize> {
            let columns = (0..self.titles.len()).zip(&self.kinds);
            let widths = columns.map(|(i, kind)| {
                let rows = self.rows.iter().map(|row| longest(&row[i], cells(*kind)));
                rows.chain([longest(&self.titles[i], title)]).max()
            });
            widths.map(Option::unwrap_or_default).collect()
        };
        let (least, most) = (of(&how, TITLES), of(&|_| Break::Never, Break::Never));
        let room = usize::from(WIDTH).checked_sub(gap * self.titles.len().saturating_sub(1))?;
        share(room, &least, &most)
    }

    fn laid_out(&self, how: impl Fn(Kind) -> Break, widths: &[usize], gap: usize) -> String {
        let broken = |cells: &[String]| -> Vec<String> {
            let cells = cells.iter().zip(&self.kinds).zip(widths);
            cells
                .map(|((cell, kind), width)| how(*kind).broken(cell, *width))
                .collect()
        };
        let titles = self.titles.iter().zip(widths);
        let titles = titles.map(|(title, width)| TITLES.broken(title, *width));
        let mut table = comfy_table::Table::new();
        table
            .load_style(STYLE)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(titles)
            .add_rows(self.rows.iter().map(|row| broken(row)));
        let last = self.kinds.len().saturating_sub(1);
        for (i, (column, kind)) in table.column_iter_mut().zip(&self.kinds).enumerate() {
            // One blank of the gap is the table's own.
            let left = u16::from(i > 0 && gap == GAP);
            column.set_padding((left, u16::from(i < last)));
            if *kind == Kind::Figure {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.trim_fmt()
    }

    /// A line for each cell, behind its title; a row begins at the margin.
    fn listed(&self) -> String {
        let title = self.titles.iter().map(|title| columns_of(title)).max();
        let title = title.unwrap_or(0).min(WIDEST_TITLE);
        let room = usize::from(WIDTH) - title - GAP;
        let cell = |(title_of, cell): (&String, &String)| {
            let lines = Break::Joints.broken(cell, room);
            let titles = std::iter::once(title_of.as_str()).chain(std::iter::repeat(""));
            let lines = lines.lines().zip(titles);
            let lines = lines.map(|(line, of)| format!("{of:title$}{:GAP$}{line}", ""));
            lines.collect::<Vec<_>>().join("\n")
        };
        let row = |row: &Vec<String>| {
            let cells = self.titles.iter().zip(row);
            let cells = cells.filter(|(_, cell)| !cell.is_empty());
            cells.map(cell).collect::<Vec<_>>().join("\n")
        };
        self.rows.iter().map(row).collect::<Vec<_>>().join("\n\n")
    }
}

/// Where a cell may go on in the next line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Break {
    Never,
    /// Between words.
    Words,
    /// There, and at the joints of a name: between two terms or items of a list, before what a term is given, and
    /// between the parts of a path.
    Joints,
    /// Between a figure and what stands in brackets behind it.
    Brackets,
    /// At joints, and in a word that is longer than [`LONGEST_WORD`].
    Anywhere,
}

/// Titles are never longer than what they stand over needs.
const TITLES: Break = Break::Joints;

impl Break {
    /// A line as what stays together; blanks stand at the end of what they follow.
    fn pieces(self, line: &str) -> Vec<&str> {
        let mut pieces = Vec::new();
        let mut from = 0;
        let mut before = None;
        for (at, next) in line.char_indices() {
            if before.is_some_and(|before| self.is_between(before, &line[at..])) {
                pieces.push(&line[from..at]);
                from = at;
            }
            before = Some(next);
        }
        pieces.push(&line[from..]);
        match self {
            Self::Anywhere => pieces.into_iter().flat_map(short).collect(),
            _ => pieces,
        }
    }

    fn is_between(self, before: char, rest: &str) -> bool {
        let is_word = before == ' ' && !rest.starts_with(' ');
        match self {
            Self::Never => false,
            Self::Words => is_word,
            Self::Joints | Self::Anywhere => is_word || is_joint(before, rest),
            Self::Brackets => is_word && rest.starts_with('('),
        }
    }

    /// Lines of at most `width` columns, except where a piece alone is wider.
    fn broken(self, cell: &str, width: usize) -> String {
        let mut lines: Vec<String> = Vec::new();
        for whole in cell.split('\n') {
            let mut line = String::new();
            for piece in self.pieces(whole) {
                let needed = columns_of(&line) + columns_of(piece.trim_end_matches(' '));
                if !line.is_empty() && needed > width {
                    lines.push(line.trim_end_matches(' ').to_owned());
                    line.clear();
                }
                line.push_str(piece);
            }
            lines.push(line.trim_end_matches(' ').to_owned());
        }
        lines.join("\n")
    }
}

/// Columns of the longest piece of a cell.
fn longest(cell: &str, break_at: Break) -> usize {
    let pieces = cell.lines().flat_map(|line| break_at.pieces(line));
    let columns = pieces.map(|piece| columns_of(piece.trim_end_matches(' ')));
    columns.max().unwrap_or(0)
}

/// A word in parts that are short enough.
fn short(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = word;
    while let Some((at, _)) = rest.char_indices().nth(LONGEST_WORD) {
        let (part, behind) = rest.split_at(at);
        parts.push(part);
        rest = behind;
    }
    parts.push(rest);
    parts
}

/// A time of day has no joints, nor has a rate: `14:30:12Z`, `200MB/s`.
fn is_joint(before: char, rest: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let a_second = |rest: &str| {
        rest.strip_prefix("/s")
            .is_some_and(|behind| !behind.starts_with(is_name))
    };
    match before {
        '+' | ',' | ';' => true,
        ':' => rest.starts_with(char::is_alphabetic),
        _ => rest.starts_with('@') || rest.starts_with('/') && !a_second(rest),
    }
}

/// Gives each column what it wants where there is room, and the rest of the room to the narrowest of the others;
/// none where the least does not fit.
fn share(room: usize, least: &[usize], most: &[usize]) -> Option<Vec<usize>> {
    let left = room.checked_sub(least.iter().sum())?;
    let mut widths = least.to_vec();
    for _ in 0..left {
        let wanting = (0..widths.len()).filter(|i| widths[*i] < most[*i]);
        let Some(narrowest) = wanting.min_by_key(|i| widths[*i]) else {
            break;
        };
        widths[narrowest] += 1;
    }
    Some(widths)
}

/// Terminal columns of a line; every character that we print takes one.
fn columns_of(line: &str) -> usize {
    line.chars().count()
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

    /// Columns of a stress table, with intervals as wide as a noisy board has them.
    fn stress(condition: &str, interval: &str) -> String {
        let mut table = Table::new().text("condition").figure("GB/s");
        for title in ["p50 × idle", "p95 × idle", "p99 × idle"] {
            table = table.figure(title);
        }
        let mut table = table.text("");
        table.row([condition, "12.34", interval, interval, interval, "invalid"]);
        table.row([
            "spin:cpu0-2",
            "0",
            "1.01 ±2 %",
            "1.01 ±2 %",
            "1.01 ±2 %",
            "",
        ]);
        table.render()
    }

    #[test]
    fn names_break_at_their_joints_and_intervals_stay_whole() {
        let text = stress("mem_copy_nt:cpu0-2@55%/ws=512MiB", "1.762* (0.77…4.03)");
        insta::assert_snapshot!(text, @"
        condition             GB/s           p50 × idle           p95 × idle           p99 × idle
        ───────────────────────────────────────────────────────────────────────────────────────────────────
        mem_copy_nt:cpu0-2   12.34   1.762* (0.77…4.03)   1.762* (0.77…4.03)   1.762* (0.77…4.03)   invalid
        @55%/ws=512MiB
        spin:cpu0-2              0            1.01 ±2 %            1.01 ±2 %            1.01 ±2 %
        ");
    }

    #[test]
    fn a_name_without_joints_keeps_its_line_and_intervals_go_below_their_figures() {
        let text = stress("a_condition_of_thirty_characters", "1.762* (0.77…4.03)");
        insta::assert_snapshot!(text, @"
        condition                           GB/s    p50 × idle    p95 × idle    p99 × idle
        ────────────────────────────────────────────────────────────────────────────────────────────
        a_condition_of_thirty_characters   12.34        1.762*        1.762*        1.762*   invalid
                                                   (0.77…4.03)   (0.77…4.03)   (0.77…4.03)
        spin:cpu0-2                            0     1.01 ±2 %     1.01 ±2 %     1.01 ±2 %
        ");
    }

    #[test]
    fn what_no_break_makes_fit_is_listed_with_its_names_whole() {
        let names = ["v", "w", "x", "y"].map(|letter| letter.repeat(30));
        let mut table = Table::new().text("condition").text("model");
        table = table.text("board").text("store").figure("p50");
        table.row(names.iter().map(String::as_str).chain(["12.34 ms"]));
        table.row(["idle", "net.onnx", "a", "b", "11 ms"]);
        let expected = [
            format!("condition   {}", names[0]),
            format!("model       {}", names[1]),
            format!("board       {}", names[2]),
            format!("store       {}", names[3]),
            "p50         12.34 ms".into(),
            String::new(),
            "condition   idle".into(),
            "model       net.onnx".into(),
            "board       a".into(),
            "store       b".into(),
            "p50         11 ms".into(),
        ];
        assert_eq!(table.render().lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn titles_and_long_words_break_before_a_table_becomes_a_list() {
        let hash = "0123456789abcdef".repeat(4);
        let mut table = Table::new().text("field").text("unit");
        table = table.figure("case backend=rten, threads=1").figure("75");
        let name = "a_field_with_a_name_of_forty_columns____";
        table.row([name, "ms", hash.as_str(), "1"]);
        let text = table.render();
        assert!(text.contains('─'), "a table and no list:\n{text}");
        let widest = text.lines().map(columns_of).max().unwrap();
        assert!(widest <= usize::from(WIDTH), "{widest} columns:\n{text}");
        for part in ["case backend=rten,", "threads=1", &hash[..32], &hash[32..]] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
    }

    #[test]
    fn times_and_rates_have_no_joints() {
        let pieces = |line| Break::Joints.pieces(line);
        assert_eq!(
            pieces("mem_read:cpu1@200MB/s/ws=8MiB+model:b.onnx@10Hz:cpu0"),
            [
                "mem_read:",
                "cpu1",
                "@200MB/s",
                "/ws=8MiB+",
                "model:",
                "b.onnx",
                "@10Hz:",
                "cpu0"
            ]
        );
        assert_eq!(pieces("2026-11-30 14:30:12Z"), ["2026-11-30 ", "14:30:12Z"]);
        assert_eq!(Break::Brackets.pieces("1.1 ms (1…2)"), ["1.1 ms ", "(1…2)"]);
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
