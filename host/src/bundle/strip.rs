//! Leaving private facts out of the rows of a run.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::clean::{GONE, Words};
use super::places::{self, PRIVATE_FACTS, PROMPTS, Place, Treatment};
use crate::store::copy::{Piece, Row};

/// Takes private facts out of one piece after the other and counts what it took.
#[derive(Debug)]
pub(super) struct Strip {
    words: Words,
    known: BTreeMap<String, Option<&'static Place>>,
    counts: BTreeMap<&'static str, u64>,
}

/// What was left out at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) at: String,
    pub(super) what: String,
    pub(super) count: u64,
}

impl Strip {
    pub(super) fn new(words: Words) -> Self {
        Self {
            words,
            known: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    pub(super) fn piece(&mut self, piece: &mut Piece) {
        drop_raw(piece, &mut self.counts);
        for (table, rows) in &mut piece.rows {
            rows.iter_mut().for_each(|row| self.row(table, row));
        }
    }

    /// What has been left out so far, in the order of the list of places.
    pub(super) fn left_out(&self) -> Vec<LeftOut> {
        let counted = places::PLACES.iter().filter_map(|place| {
            let count = *self.counts.get(place.at)?;
            Some(LeftOut {
                at: place.at.trim_end_matches(".**").into(),
                what: place.what.into(),
                count,
            })
        });
        counted.collect()
    }

    fn row(&mut self, table: &str, row: &mut Row) {
        let kind = row.get("kind").and_then(Value::as_str).map(str::to_owned);
        for (column, value) in row {
            // The body of a record is what its kind says.
            let path = match (table, column.as_str(), &kind) {
                ("records", "body", Some(kind)) => format!("records.{kind}"),
                _ => format!("{table}.{column}"),
            };
            self.value(&path, value);
        }
    }

    fn value(&mut self, path: &str, value: &mut Value) {
        let place = self.place(path);
        if place.is_some_and(|place| place.treatment == Treatment::Fact) && value.is_object() {
            return self.fact(place, value);
        }
        match value {
            Value::String(text) => {
                let replaced = self.text(path, place, text);
                if let Some(new) = replaced {
                    *value = new;
                    self.count(place);
                }
            }
            Value::Array(items) => {
                let below = format!("{path}[]");
                items.iter_mut().for_each(|item| self.value(&below, item));
            }
            Value::Object(members) => {
                for (name, member) in members {
                    self.value(&format!("{path}.{name}"), member);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// What a text becomes; none where it stays.
    fn text(&self, path: &str, place: Option<&Place>, text: &str) -> Option<Value> {
        // A place that nobody listed is one that nobody looked at.
        let treatment = place.map_or(Treatment::Clean, |place| place.treatment);
        match treatment {
            Treatment::Keep => None,
            Treatment::Clean | Treatment::Fact => self.words.clean(text).map(Value::from),
            Treatment::Board => self.words.board(text).map(Value::from),
            Treatment::LeaveOut => Some(Value::Null),
            Treatment::Parameter => {
                let name = path.rsplit('.').next().unwrap_or_default();
                match has_word(name, PROMPTS) {
                    true => Some(format!("sha256:{}", hex(text)).into()),
                    false => self.words.clean(text).map(Value::from),
                }
            }
        }
    }

    fn fact(&mut self, place: Option<&'static Place>, fact: &mut Value) {
        let name = fact["name"].as_str().unwrap_or_default();
        if has_word(name, PRIVATE_FACTS) {
            if !fact["value"].is_null() {
                self.count(place);
            }
            fact["value"] = Value::Null;
            fact["state"] = "left_out".into();
            fact["reason"] = GONE.into();
            return;
        }
        // Versions look like addresses, so that only a reason is free text.
        if let Some(Value::String(reason)) = fact.get_mut("reason")
            && let Some(cleaned) = self.words.clean(reason)
        {
            *reason = cleaned;
            self.count(place);
        }
    }

    fn count(&mut self, place: Option<&'static Place>) {
        *self
            .counts
            .entry(place.map_or("", |place| place.at))
            .or_default() += 1;
    }

    fn place(&mut self, path: &str) -> Option<&'static Place> {
        if let Some(known) = self.known.get(path) {
            return *known;
        }
        let found = places::find(path);
        self.known.insert(path.to_owned(), found);
        found
    }
}

/// Bytes that nobody here can look into are not in the bundle; the row stays and says that there were some.
fn drop_raw(piece: &mut Piece, counts: &mut BTreeMap<&'static str, u64>) {
    let has_raw = |row: &Row| row.get("raw").is_some_and(|raw| !raw.is_null());
    let Some(records) = piece.rows.get_mut("records") else {
        return;
    };
    // Records come first among the tables of a repeat that have bytes.
    let mut at = 0;
    for row in records.iter_mut().filter(|row| has_raw(row)) {
        row.insert("raw".into(), Value::Null);
        at += 1;
        *counts.entry("records.raw").or_default() += 1;
    }
    piece.blobs.drain(..at);
}

fn has_word(name: &str, words: &[&str]) -> bool {
    let name = name.to_ascii_lowercase();
    words.iter().any(|word| name.contains(word))
}

fn hex(text: &str) -> String {
    let digest = Sha256::digest(text);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
