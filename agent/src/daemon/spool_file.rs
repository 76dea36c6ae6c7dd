//! Frames in a file of the spool: u32 length, kind, CRC-32C over both and the payload, payload.

use std::io::{self, Read, Write};

use edgedyno_shared::wire::frame::{Frame, LIMIT, kind};
use edgedyno_shared::wire::record::{RecordClass, RecordHeader};

use crate::crc32c::crc32c;

/// First bytes of every file; the last is the format's number.
pub const MAGIC: [u8; 8] = *b"EDYNSPL2";

/// Writes one frame.
pub fn write(to: &mut impl Write, frame: &Frame) -> io::Result<()> {
    let head = head(frame.kind, frame.payload.len());
    to.write_all(&head)?;
    to.write_all(&crc32c(&[&head, &frame.payload]).to_le_bytes())?;
    to.write_all(&frame.payload)
}

/// As on the wire: the length counts kind and payload.
fn head(kind: u8, payload: usize) -> [u8; 5] {
    let [a, b, c, d] = ((payload + 1) as u32).to_le_bytes();
    [a, b, c, d, kind]
}

/// All frames of a file.
///
/// # Errors
/// When it is no file of the spool. An item is an error, and the last, where the file is damaged.
pub fn frames<R: Read>(
    mut from: R,
) -> io::Result<impl Iterator<Item = io::Result<Frame>> + use<R>> {
    let mut magic = [0; 8];
    from.read_exact(&mut magic)?;
    if magic != MAGIC {
        return Err(damaged("no file of the spool"));
    }
    let mut is_over = false;
    Ok(std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let frame = read(&mut from).transpose();
        is_over = !matches!(frame, Some(Ok(_)));
        frame
    }))
}

fn read(from: &mut impl Read) -> io::Result<Option<Frame>> {
    let mut head = [0; 5];
    if from.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..])?;
    let [a, b, c, d, kind] = head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if !(1..=LIMIT).contains(&length) {
        return Err(damaged("a length that no record has"));
    }
    let mut expected = [0; 4];
    from.read_exact(&mut expected)?;
    let mut payload = vec![0; length - 1];
    from.read_exact(&mut payload)?;
    if crc32c(&[&head, &payload]) != u32::from_le_bytes(expected) {
        return Err(damaged("a record with a wrong checksum"));
    }
    Ok(Some(Frame { kind, payload }))
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Whether a frame is the last record of a repeat.
pub(super) fn is_end(frame: &Frame) -> bool {
    frame.kind == kind::RECORD
        && RecordHeader::parse(&frame.payload)
            .is_ok_and(|(header, _)| header.class == RecordClass::End)
}
