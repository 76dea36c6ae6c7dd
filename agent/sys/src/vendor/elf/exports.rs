//! Looks a symbol up in the GNU hash table, as the dynamic linker would.

use super::facts::{ElfError, strings_offset, value_of};
use super::image::{DynamicEntry, Image};

const SYMBOL_TABLE: u64 = 6;
const GNU_HASH: u64 = 0x6fff_fef5;
/// A chain this long is damage: linkers aim at a few symbols a bucket.
const MAX_CHAIN: u64 = 4096;

/// The table of the symbols a library exports.
///
/// Layout: bucket count, first symbol covered, bloom words, shift; the bloom words; the buckets (first
/// symbol of each chain); one hash for each symbol, its lowest bit set at the end of a chain.
pub(super) struct ExportTable<'a> {
    image: &'a Image,
    symbols: u64,
    strings: u64,
    bucket_count: u32,
    first_symbol: u32,
    buckets: u64,
}

impl<'a> ExportTable<'a> {
    /// Finds the table; none in a library linked with the older hash table only.
    pub(super) fn find(
        image: &'a Image,
        dynamic: &[DynamicEntry],
    ) -> Result<Option<Self>, ElfError> {
        let (Some(table), Some(symbols)) =
            (value_of(dynamic, GNU_HASH), value_of(dynamic, SYMBOL_TABLE))
        else {
            return Ok(None);
        };
        let table = image.offset_of(table)?;
        let bloom_words = u64::from(image.u32(table + 8)?);
        Ok(Some(Self {
            image,
            symbols: image.offset_of(symbols)?,
            strings: strings_offset(image, dynamic)?,
            bucket_count: image.u32(table)?,
            first_symbol: image.u32(table + 4)?,
            buckets: table + 16 + bloom_words * image.word_bytes(),
        }))
    }

    pub(super) fn contains(&self, symbol: &str) -> Result<bool, ElfError> {
        if self.bucket_count == 0 {
            return Ok(false);
        }
        let hash = gnu_hash(symbol);
        let first = self
            .image
            .u32(self.buckets + 4 * u64::from(hash % self.bucket_count))?;
        if first < self.first_symbol {
            return Ok(false);
        }
        let hashes = self.buckets + 4 * u64::from(self.bucket_count);
        for index in u64::from(first)..u64::from(first) + MAX_CHAIN {
            let entry = self
                .image
                .u32(hashes + 4 * (index - u64::from(self.first_symbol)))?;
            if entry | 1 == hash | 1 && self.name(index)? == symbol {
                return Ok(true);
            }
            if entry & 1 == 1 {
                return Ok(false);
            }
        }
        Err(ElfError::Malformed("a chain of symbols without an end"))
    }

    fn name(&self, index: u64) -> Result<String, ElfError> {
        let entry_bytes = if self.image.architecture.bits == 64 {
            24
        } else {
            16
        };
        let name = self.image.u32(self.symbols + index * entry_bytes)?;
        self.image.text(self.strings + u64::from(name))
    }
}

fn gnu_hash(symbol: &str) -> u32 {
    symbol.bytes().fold(5381, |hash: u32, byte| {
        hash.wrapping_mul(33).wrapping_add(u32::from(byte))
    })
}
