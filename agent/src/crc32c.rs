//! CRC-32C (Castagnoli), as in RFC 3720, appendix B.4: sees any burst of up to 32 wrong bits in a record.

/// The polynomial, its bits mirrored.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Tables for eight bytes at a time.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            let low = rest & 1;
            rest = (rest >> 1) ^ (POLYNOMIAL * low);
            bit += 1;
        }
        tables[0][byte] = rest;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 255) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of several slices as if they were one.
pub(crate) fn crc32c(parts: &[&[u8]]) -> u32 {
    !parts.iter().fold(!0, |rest, part| extend(rest, part))
}

fn extend(mut rest: u32, bytes: &[u8]) -> u32 {
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let low = rest ^ u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let at = |table: usize, byte: u8| TABLES[table][usize::from(byte)];
        let [a, b, c, d] = low.to_le_bytes();
        rest = at(7, a) ^ at(6, b) ^ at(5, c) ^ at(4, d);
        rest ^= at(3, word[4]) ^ at(2, word[5]) ^ at(1, word[6]) ^ at(0, word[7]);
    }
    tail.iter().fold(rest, |rest, byte| {
        (rest >> 8) ^ TABLES[0][((rest ^ u32::from(*byte)) & 255) as usize]
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_checksums_are_those_of_the_rfc() {
        let rising: Vec<u8> = (0..32).collect();
        let falling: Vec<u8> = (0..32).rev().collect();
        for (bytes, expected) in [
            (&[0; 32][..], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&rising, 0x46dd_794e),
            (&falling, 0x113f_db5c),
            (b"123456789", 0xe306_9283),
            (b"", 0),
        ] {
            assert_eq!(crc32c(&[bytes]), expected, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn parts_count_as_one(bytes: Vec<u8>, cut: prop::sample::Index) {
            let (a, b) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(crc32c(&[a, b]), crc32c(&[&bytes]));
        }

        #[test]
        fn one_flipped_bit_is_seen(mut bytes in prop::collection::vec(any::<u8>(), 1..200), at: prop::sample::Index, bit in 0_u32..8) {
            let before = crc32c(&[&bytes]);
            let at = at.index(bytes.len());
            bytes[at] ^= 1_u8 << bit;
            prop_assert_ne!(crc32c(&[&bytes]), before);
        }
    }
}
