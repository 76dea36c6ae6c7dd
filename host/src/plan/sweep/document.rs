//! A plan file as a tree in which everything knows its line and column.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::exit::CommandError;
use crate::near;

/// What is wrong with a plan file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {what}", .path.display())]
pub struct PlanError {
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    pub what: String,
    /// The line as written.
    pub excerpt: String,
    pub hint: Option<String>,
}

impl From<PlanError> for CommandError {
    fn from(error: PlanError) -> Self {
        let excerpt = error.excerpt.trim();
        let hint = error
            .hint
            .clone()
            .unwrap_or_else(|| "docs/plans.md describes plan files".into());
        let told = Self::usage(error.to_string()).hint(hint);
        match excerpt {
            "" => told,
            excerpt => told.cause(format!("the line reads `{excerpt}`")),
        }
    }
}

pub(super) type Result<T> = std::result::Result<T, PlanError>;

/// The text that places refer to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'s> {
    pub(super) path: &'s Path,
    pub(super) text: &'s str,
}

impl<'s> Source<'s> {
    pub(super) fn error(&self, span: Range<usize>, what: impl Into<String>) -> PlanError {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count();
        let begin = before.rfind('\n').map_or(0, |at| at + 1);
        PlanError {
            path: self.path.to_owned(),
            line: line + 1,
            column: before[begin..].chars().count() + 1,
            what: what.into(),
            excerpt: self.text.lines().nth(line).unwrap_or_default().to_owned(),
            hint: None,
        }
    }

    /// Parses the text and hands its root table on.
    pub(super) fn read<T>(self, read: impl FnOnce(Table<'_>) -> Result<T>) -> Result<T> {
        let parsed = DeTable::parse(self.text).map_err(|why| {
            let what = why.message().lines().collect::<Vec<_>>().join(", ");
            self.error(why.span().unwrap_or(0..0), what)
        })?;
        read(Table::new(self, parsed.get_ref(), 0..0))
    }
}

impl PlanError {
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// One value and its place.
#[derive(Debug, Clone)]
pub(super) struct Node<'a> {
    source: Source<'a>,
    pub(super) span: Range<usize>,
    value: &'a DeValue<'a>,
}

impl<'a> Node<'a> {
    fn new(source: Source<'a>, value: &'a Spanned<DeValue<'a>>) -> Self {
        Self {
            source,
            span: value.span(),
            value: value.get_ref(),
        }
    }

    pub(super) fn error(&self, what: impl Into<String>) -> PlanError {
        self.source.error(self.span.clone(), what)
    }

    /// `plan.toml:3:12`.
    pub(super) fn place(&self) -> String {
        let at = self.error("");
        format!("{}:{}:{}", at.path.display(), at.line, at.column)
    }

    /// A single value as text: strings as they are, numbers as written, `true` and `false`.
    pub(super) fn scalar(&self) -> Result<String> {
        match self.value {
            DeValue::String(text) => Ok(text.clone().into_owned()),
            DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            DeValue::Boolean(flag) => Ok(flag.to_string()),
            _ => Err(self.error("a single value is needed here")),
        }
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self.value, DeValue::Integer(_) | DeValue::Float(_))
    }

    /// A single value, read as the command line reads it.
    pub(super) fn parse<T>(
        &self,
        read: impl FnOnce(&str) -> std::result::Result<T, String>,
    ) -> Result<T> {
        read(&self.scalar()?).map_err(|why| self.error(why))
    }

    /// A number from `least` on.
    pub(super) fn number<T>(&self, least: T) -> Result<T>
    where
        T: std::str::FromStr + PartialOrd + std::fmt::Display,
    {
        let text = self.scalar()?;
        let read = text.parse().ok().filter(|n| *n >= least);
        read.ok_or_else(|| {
            let is_whole = text.bytes().all(|digit| digit.is_ascii_digit());
            self.error(match is_whole && text.len() > 9 {
                true => format!("{text} is too large a number"),
                false => format!("a whole number from {least} on is needed"),
            })
        })
    }

    pub(super) fn flag(&self) -> Result<bool> {
        match self.value {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(self.error("true or false is needed")),
        }
    }

    /// Items of an array, none for anything else.
    pub(super) fn items(&self) -> Option<Vec<Self>> {
        match self.value {
            DeValue::Array(items) => {
                let items = items.iter();
                Some(items.map(|item| Self::new(self.source, item)).collect())
            }
            _ => None,
        }
    }

    /// Items of an array, or the one value that stands for itself.
    pub(super) fn list(&self) -> Vec<Self> {
        self.items().unwrap_or_else(|| vec![self.clone()])
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self.value, DeValue::Table(_))
    }

    pub(super) fn table(&self) -> Result<Table<'a>> {
        match self.value {
            DeValue::Table(table) => Ok(Table::new(self.source, table, self.span.clone())),
            _ => Err(self.error("a table is needed here")),
        }
    }
}

/// A table whose entries are taken out one by one; what is left is unknown.
#[derive(Debug)]
pub(super) struct Table<'a> {
    source: Source<'a>,
    pub(super) span: Range<usize>,
    entries: Vec<Entry<'a>>,
    asked: Vec<&'static str>,
}

#[derive(Debug, Clone)]
pub(super) struct Entry<'a> {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) node: Node<'a>,
}

impl Entry<'_> {
    pub(super) fn error(&self, what: impl Into<String>) -> PlanError {
        self.node.source.error(self.key_span.clone(), what)
    }
}

impl<'a> Table<'a> {
    fn new(source: Source<'a>, table: &'a DeTable<'a>, span: Range<usize>) -> Self {
        let entry = |(key, value): (&'a Spanned<_>, &'a Spanned<DeValue<'a>>)| {
            let text: &std::borrow::Cow<'a, str> = key.get_ref();
            Entry {
                key: text.clone().into_owned(),
                key_span: key.span(),
                node: Node::new(source, value),
            }
        };
        let mut entries: Vec<Entry<'a>> = table.iter().map(entry).collect();
        // The map is sorted by name; people order axes by how they think of them.
        entries.sort_by_key(|entry| entry.key_span.start);
        Self {
            source,
            span,
            entries,
            asked: Vec::new(),
        }
    }

    pub(super) fn error(&self, what: impl Into<String>) -> PlanError {
        self.source.error(self.span.clone(), what)
    }

    pub(super) fn take(&mut self, key: &'static str) -> Option<Node<'a>> {
        self.asked.push(key);
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(at).node)
    }

    /// As [`Self::take`], for what must be there.
    pub(super) fn need(&mut self, key: &'static str) -> Result<Node<'a>> {
        let found = self.take(key);
        found.ok_or_else(|| self.error(format!("`{key}` is missing")))
    }

    /// All that is left, in the order written.
    pub(super) fn rest(self) -> Vec<Entry<'a>> {
        self.entries
    }

    /// Refuses what nobody asked for.
    pub(super) fn finish(self) -> Result<()> {
        let Some(unknown) = self.entries.first() else {
            return Ok(());
        };
        let error = unknown.error(format!("unknown key `{}`", unknown.key));
        let near = near::matches(&unknown.key, self.asked.iter().copied());
        Err(error.hint(match near.first() {
            Some(near) => format!("did you mean {near}?"),
            None => format!("keys here are {}", self.asked.join(", ")),
        }))
    }
}
