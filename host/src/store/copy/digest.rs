//! Whether two pieces are the same, in full or but for texts that a bundle may leave out.

use sha2::{Digest as _, Sha256};

use super::tables::{self, Kind};
use super::{Piece, PieceKind};

/// A SHA-256.
pub(super) type Digest = [u8; 32];

/// Texts of a repeat that a bundle may leave out or shorten.
const TEXTS: [(&str, &str); 2] = [("events", "text"), ("artifacts", "name")];

/// Over everything but whether an artifact's content came along.
pub(super) fn full(piece: &Piece, kind: PieceKind) -> Digest {
    digest(piece, kind, |_, _, _| true)
}

/// The same without JSON, free text and records that nobody here could read: what was measured, when and how it
/// ended.
pub(super) fn bare(piece: &Piece, kind: PieceKind) -> Digest {
    digest(piece, kind, |table, column, kind| {
        kind != Kind::Json && column != "raw" && !TEXTS.contains(&(table, column))
    })
}

fn digest(piece: &Piece, kind: PieceKind, counts: impl Fn(&str, &str, Kind) -> bool) -> Digest {
    let mut hash = Sha256::new();
    let mut blobs = piece.blobs.iter();
    for table in tables::of_piece(kind) {
        for row in piece.of(table.name) {
            hash.update(format!("\n{}", table.name));
            for column in table.columns {
                let value = row.get(column.name).filter(|value| !value.is_null());
                let bytes = match column.kind {
                    Kind::Blob => value.and_then(|_| blobs.next()),
                    _ => None,
                };
                let is_state = (table.name, column.name) == ("artifacts", "state");
                let came = is_state && value.is_some_and(|state| state != "damaged");
                if came || !counts(table.name, column.name, column.kind) {
                    continue;
                }
                // Lengths stand before bytes, so that two columns cannot be taken for one.
                match (value, bytes) {
                    (_, Some(bytes)) => {
                        hash.update(format!("\t{}:", bytes.len()));
                        hash.update(bytes);
                    }
                    (Some(value), None) => hash.update(format!("\t{value}")),
                    (None, None) => hash.update("\t-"),
                }
            }
        }
    }
    hash.finalize().into()
}
