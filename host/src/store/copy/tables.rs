//! The tables of the store as they are copied. A test holds the list against the layout itself.

use super::PieceKind;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Text,
    /// JSON, as text in the store and as itself in a piece.
    Json,
    Blob,
}

#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    pub nullable: bool,
}

/// A table whose rows belong to a run, directly or through a repeat.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub name: &'static str,
    pub piece: PieceKind,
    /// The column that says to which run or repeat a row belongs; it is not copied.
    pub owner: Option<&'static str>,
    pub columns: &'static [Column],
    pub order: &'static str,
}

const fn integer(name: &'static str) -> Column {
    column(name, Kind::Integer, false)
}

const fn text(name: &'static str) -> Column {
    column(name, Kind::Text, false)
}

const fn json(name: &'static str) -> Column {
    column(name, Kind::Json, false)
}

const fn blob(name: &'static str) -> Column {
    column(name, Kind::Blob, false)
}

const fn or_null(known: Column) -> Column {
    column(known.name, known.kind, true)
}

const fn column(name: &'static str, kind: Kind, nullable: bool) -> Column {
    Column {
        name,
        kind,
        nullable,
    }
}

/// In the order in which they are written: what is referred to comes first.
pub const TABLES: &[Table] = &[
    Table {
        name: "runs",
        piece: PieceKind::Head,
        owner: None,
        columns: &[
            text("id"),
            integer("created_unix_ns"),
            text("command"),
            json("argv"),
            json("plan"),
            text("tool_version"),
            text("status"),
        ],
        order: "id",
    },
    Table {
        name: "tags",
        piece: PieceKind::Head,
        owner: Some("run_id"),
        columns: &[text("tag")],
        order: "tag",
    },
    Table {
        name: "devices",
        piece: PieceKind::Head,
        owner: Some("run_id"),
        columns: &[text("board"), json("info")],
        order: "board",
    },
    Table {
        name: "findings",
        piece: PieceKind::Head,
        owner: Some("run_id"),
        columns: &[integer("number"), or_null(text("case_key")), json("body")],
        order: "number",
    },
    Table {
        name: "cases",
        piece: PieceKind::Cases,
        owner: Some("run_id"),
        columns: &[
            text("case_key"),
            text("match_key"),
            integer("position"),
            json("definition"),
            json("rules"),
        ],
        order: "position, case_key",
    },
    Table {
        name: "repeats",
        piece: PieceKind::Repeat,
        owner: Some("id"),
        columns: &[
            text("case_key"),
            integer("repeat"),
            integer("attempt"),
            text("pass"),
            text("origin"),
            text("outcome"),
            or_null(text("stage")),
            or_null(json("failure")),
            or_null(text("boot")),
            or_null(integer("segment")),
            or_null(text("wire_schema")),
        ],
        order: "id",
    },
    Table {
        name: "records",
        piece: PieceKind::Repeat,
        owner: Some("repeat_id"),
        columns: &[
            integer("sequence"),
            text("kind"),
            or_null(json("body")),
            or_null(blob("raw")),
        ],
        order: "sequence",
    },
    Table {
        name: "chunks",
        piece: PieceKind::Repeat,
        owner: Some("repeat_id"),
        columns: &[
            integer("lane"),
            integer("number"),
            integer("row_count"),
            integer("column_count"),
            integer("codec"),
            blob("bytes"),
        ],
        order: "lane, number",
    },
    Table {
        name: "events",
        piece: PieceKind::Repeat,
        owner: Some("repeat_id"),
        columns: &[
            integer("sequence"),
            integer("lane"),
            or_null(integer("trial")),
            text("code"),
            text("text"),
        ],
        order: "sequence",
    },
    Table {
        name: "samples",
        piece: PieceKind::Repeat,
        owner: Some("repeat_id"),
        columns: &[
            integer("sequence"),
            integer("channel"),
            integer("row_count"),
            integer("codec"),
            blob("at_ns"),
            blob("value"),
            blob("quality"),
        ],
        order: "sequence",
    },
    Table {
        name: "artifacts",
        piece: PieceKind::Repeat,
        owner: Some("repeat_id"),
        columns: &[
            integer("number"),
            text("name"),
            text("kind"),
            text("sha256"),
            integer("bytes"),
            text("state"),
        ],
        order: "number",
    },
    Table {
        name: "clock_exchanges",
        piece: PieceKind::Repeat,
        owner: Some("repeat_id"),
        columns: &[
            integer("sequence"),
            text("moment"),
            text("state"),
            integer("rounds"),
            or_null(integer("asked_ns")),
            or_null(integer("received_ns")),
            or_null(integer("answered_ns")),
            or_null(integer("heard_ns")),
            or_null(text("host_clock")),
            or_null(integer("host_unix_ns")),
            or_null(integer("offset_ns")),
            or_null(integer("bound_ns")),
            or_null(integer("drift_ppb")),
            or_null(integer("drift_bound_ppb")),
        ],
        order: "sequence",
    },
    Table {
        name: "clock_readings",
        piece: PieceKind::Repeat,
        owner: Some("repeat_id"),
        columns: &[
            integer("sequence"),
            integer("monotonic_ns"),
            or_null(integer("boottime_ns")),
            or_null(integer("realtime_ns")),
            or_null(integer("raw_ns")),
            integer("took_ns"),
        ],
        order: "sequence",
    },
    Table {
        name: "contents",
        piece: PieceKind::Content,
        owner: Some("sha256"),
        columns: &[integer("part"), blob("bytes")],
        order: "part",
    },
];

/// Tables that stay where they are: the store's own name and layout, where its runs came from, and what
/// its boards can do at full effort and how they count (copied between stores, but no part of a run).
pub const NOT_OF_A_RUN: &[&str] = &["meta", "imports", "calibrations", "emc_scales"];

/// Tables of one kind of piece.
pub fn of_piece(piece: PieceKind) -> impl Iterator<Item = &'static Table> {
    TABLES.iter().filter(move |table| table.piece == piece)
}

impl Table {
    /// Names of the copied columns with commas between.
    pub(super) fn column_names(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        names.join(", ")
    }

    pub(super) fn find(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}
