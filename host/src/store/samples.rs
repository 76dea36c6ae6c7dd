//! Telemetry in the store: columns coded as trials are.

use edgedyno_shared::columns::{Chunk, MAX_ROWS, codec};
use edgedyno_shared::telemetry::{Quality, Samples};

use super::rows::SamplesRow;

/// How one row of the table holds its samples.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Coded {
    pub(super) codec: u8,
    pub(super) at_ns: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) quality: Vec<u8>,
}

/// Time and value; qualities stand beside them, where one is not ok.
const COLUMNS: usize = 2;

/// Codes samples. What is longer than a chunk may be, or whose columns are not of one length, stays as it is:
/// nothing is ever lost to the code.
pub(super) fn code(samples: &Samples) -> Coded {
    let rows = samples.at_ns.len();
    let same = samples.value.len() == rows && samples.quality.len() == rows;
    if !same || rows > MAX_ROWS {
        let plain = |cells: &[i64]| cells.iter().flat_map(|cell| cell.to_le_bytes()).collect();
        return Coded {
            codec: codec::PLAIN,
            at_ns: plain(&samples.at_ns),
            value: plain(&samples.value),
            quality: samples.quality.clone(),
        };
    }
    let stamps = samples.at_ns.iter().zip(&samples.value);
    let slots: Vec<i64> = stamps.flat_map(|(at, value)| [*at, *value]).collect();
    let is_good = samples
        .quality
        .iter()
        .all(|code| *code == Quality::Ok.code());
    Coded {
        codec: codec::DELTA,
        at_ns: Chunk::from_slots(0, 0, COLUMNS, &slots).bytes,
        value: Vec::new(),
        quality: match is_good {
            true => Vec::new(),
            false => samples.quality.clone(),
        },
    }
}

/// Reads what [`code`] wrote, and rows from before there was a code.
///
/// # Errors
/// What is wrong with it, as a text.
pub(super) fn decode(coded: Coded, rows: u32) -> Result<SamplesRow, String> {
    if coded.codec == codec::PLAIN {
        let cells = |bytes: &[u8]| {
            let words = bytes.chunks_exact(8);
            words
                .map(|word| i64::from_le_bytes(word.try_into().unwrap_or_default()))
                .collect()
        };
        return Ok(SamplesRow {
            at_ns: cells(&coded.at_ns),
            value: cells(&coded.value),
            quality: coded.quality,
        });
    }
    let chunk = Chunk {
        lane: 0,
        number: 0,
        rows,
        columns: COLUMNS as u32,
        codec: coded.codec,
        bytes: coded.at_ns,
    };
    let columns = chunk.columns().map_err(|why| why.to_string())?;
    let [at_ns, value]: [Vec<i64>; COLUMNS] = columns
        .try_into()
        .map_err(|_| "not two columns".to_owned())?;
    let quality = match coded.quality.len() {
        0 => vec![Quality::Ok.code(); at_ns.len()],
        same if same == at_ns.len() => coded.quality,
        other => return Err(format!("{other} qualities of {} samples", at_ns.len())),
    };
    Ok(SamplesRow {
        at_ns,
        value,
        quality,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn samples_come_back_as_they_were(cells: Vec<(i64, i64, u8)>) {
            let samples = Samples {
                channel: 1,
                at_ns: cells.iter().map(|cell| cell.0).collect(),
                value: cells.iter().map(|cell| cell.1).collect(),
                quality: cells.iter().map(|cell| cell.2).collect(),
            };
            let back = decode(code(&samples), cells.len() as u32).unwrap();
            prop_assert_eq!(back.at_ns, samples.at_ns);
            prop_assert_eq!(back.value, samples.value);
            prop_assert_eq!(back.quality, samples.quality);
        }

        #[test]
        fn no_bytes_make_it_panic(codec in 0_u8..4, rows in 0_u32..100, bytes: Vec<u8>) {
            let coded = Coded { codec, at_ns: bytes.clone(), value: bytes.clone(), quality: bytes };
            let _ = decode(coded, rows);
        }
    }

    #[test]
    fn rows_from_before_are_read() {
        let old = Coded {
            codec: 0,
            at_ns: 7_i64.to_le_bytes().to_vec(),
            value: (-3_i64).to_le_bytes().to_vec(),
            quality: vec![0],
        };
        let back = decode(old, 1).unwrap();
        assert_eq!(
            (back.at_ns, back.value, back.quality),
            (vec![7], vec![-3], vec![0])
        );
    }

    #[test]
    fn a_second_of_a_channel_takes_less_than_half_of_what_it_did() {
        // Ten reads a second with some jitter, of a counter of CPU time: 17 bytes each as they were.
        let samples = Samples {
            channel: 1,
            at_ns: (0..1000)
                .map(|i| 9_000_000_000_000 + i * 100_000_000 + i * 7919 % 50_000)
                .collect(),
            value: (0..1000).map(|i| i * 3_000_000).collect(),
            quality: vec![0; 1000],
        };
        let coded = code(&samples);
        assert!(coded.at_ns.len() < 1000 * 17 / 2, "{}", coded.at_ns.len());
    }

    #[test]
    fn columns_of_other_lengths_stay_as_they_are() {
        let odd = Samples {
            channel: 1,
            at_ns: vec![1, 2],
            value: vec![3],
            quality: vec![],
        };
        let back = decode(code(&odd), 2).unwrap();
        assert_eq!(
            (back.at_ns, back.value, back.quality),
            (vec![1, 2], vec![3], vec![])
        );
    }
}
