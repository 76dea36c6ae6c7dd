//! Sources that are nothing but a file and a parser.

use super::board::Board;
use super::fault::Fault;
use super::files::Kept;
use super::offer::{Found, Offer, Tier};
use super::watch::Readings;
use super::{Source, text};

/// Bytes that a file of one value never fills.
const SMALL: usize = 256;

type Parser = fn(&[u8]) -> Result<i64, Fault>;

/// A file of one value.
pub(super) struct Single {
    file: Kept,
    parse: Parser,
    /// From the file's unit to the channel's.
    scale: i64,
    /// What it shows may be switched off, and on by the very work that is watched.
    may_sleep: bool,
}

impl Single {
    pub(super) fn integer(board: &Board, path: &str, scale: i64) -> Self {
        Self::parsed(board, path, text::integer, scale)
    }

    pub(super) fn parsed(board: &Board, path: &str, parse: Parser, scale: i64) -> Self {
        Self {
            file: board.keep(path, SMALL),
            parse,
            scale,
            may_sleep: false,
        }
    }

    /// A sensor, which has no value while what it measures is switched off, and has one later.
    pub(super) fn sensor(board: &Board, path: &str, parse: Parser, scale: i64) -> Self {
        Self {
            may_sleep: true,
            ..Self::parsed(board, path, parse, scale)
        }
    }

    pub(super) fn value(&mut self) -> Result<i64, Fault> {
        let is_asleep = self.may_sleep && self.file.is_open();
        let text = self.file.text().map_err(|fault| match is_asleep {
            true => fault.or_asleep(),
            false => fault,
        });
        let value = (self.parse)(text?)?;
        value
            .checked_mul(self.scale)
            .ok_or(Fault::parse("a value beyond what 64 bits hold"))
    }
}

impl Source for Single {
    fn read(&mut self, out: &mut Readings<'_>) {
        let value = out.timed(|| self.value());
        out.put(0, value);
    }
}

/// One channel of a file with one integer.
pub(super) fn single(
    board: &Board,
    tier: Tier,
    offer: &Offer,
    name: &str,
    path: &str,
    scale: i64,
) -> Found {
    let spec = offer.spec(name, format!("/{path}"));
    Found::new(tier, vec![spec], Single::integer(board, path, scale))
}

/// Where one value stands in a text of many.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// The first number on the line that begins so.
    Line(Vec<u8>),
    /// The number behind the second on the line that begins with the first.
    Named(&'static [u8], &'static [u8]),
}

/// A file with many values, of which some are channels.
pub(super) struct Fields {
    file: Kept,
    /// Place and scale of each channel, in their order.
    fields: Vec<(Place, i64)>,
}

impl Fields {
    pub(super) fn new(board: &Board, path: &str, room: usize, fields: Vec<(Place, i64)>) -> Self {
        Self {
            file: board.keep(path, room),
            fields,
        }
    }
}

impl Source for Fields {
    fn read(&mut self, out: &mut Readings<'_>) {
        let read = out.timed(|| self.file.text());
        for (slot, (place, scale)) in self.fields.iter().enumerate() {
            let value = read.and_then(|held| match place {
                Place::Line(key) => text::figure(held, key),
                Place::Named(line, key) => text::named(held, line, key),
            });
            let scaled = value.and_then(|value| {
                value
                    .checked_mul(*scale)
                    .ok_or(Fault::parse("a value beyond what 64 bits hold"))
            });
            out.put(slot, scaled);
        }
    }
}
