//! Protobuf read as a stream, so that weights are stepped over and never loaded.
//!
//! Decoding into messages would hold a whole model in memory, and a hostile file of empty messages
//! many times its own size. This reader holds one field at a time.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use thiserror::Error;

/// Longest name, operator type or key that is read.
const TEXT_LIMIT: u64 = 64 * 1024;

#[derive(Debug, Error)]
pub(super) enum WireError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the file ends at byte {at}")]
    Truncated { at: u64 },
    #[error("{why} at byte {at}")]
    Malformed { at: u64, why: &'static str },
}

/// A place in the file, and its end.
pub(super) struct Wire<R> {
    source: BufReader<R>,
    at: u64,
    size: u64,
}

/// The bytes of a message that are still to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    next: u64,
    end: u64,
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) number: u64,
    pub(super) value: Value,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Varint(u64),
    /// A fixed 32 or 64 bit number; no field of interest has one.
    Fixed,
    /// A message, text, bytes or packed numbers.
    Span(Span),
}

impl Value {
    /// The bytes, or none where a number stands instead.
    pub(super) fn span(self) -> Option<Span> {
        match self {
            Self::Span(span) => Some(span),
            Self::Fixed | Self::Varint(_) => None,
        }
    }
}

impl<R: Read + Seek> Wire<R> {
    pub(super) fn new(mut source: R) -> io::Result<Self> {
        let size = source.seek(SeekFrom::End(0))?;
        source.rewind()?;
        Ok(Self {
            source: BufReader::new(source),
            at: 0,
            size,
        })
    }

    /// Everything there is.
    pub(super) fn whole(&self) -> Span {
        Span {
            next: 0,
            end: self.size,
        }
    }

    /// The next field of a message, whether or not the one before was read.
    pub(super) fn field(&mut self, message: &mut Span) -> Result<Option<Field>, WireError> {
        if message.next >= message.end {
            return Ok(None);
        }
        self.seek(message.next)?;
        let key = self.varint(message.end)?;
        let value = match key & 7 {
            0 => Value::Varint(self.varint(message.end)?),
            1 => self.fixed(8, message.end)?,
            2 => {
                let length = self.varint(message.end)?;
                Value::Span(self.take(length, message.end)?)
            }
            5 => self.fixed(4, message.end)?,
            _ => return Err(self.malformed("a field has an impossible wire type")),
        };
        message.next = match value {
            Value::Span(span) => span.end,
            Value::Varint(_) | Value::Fixed => self.at,
        };
        match key >> 3 {
            0 => Err(self.malformed("a field has the number 0")),
            number => Ok(Some(Field { number, value })),
        }
    }

    /// The text in a span; bytes that are not UTF-8 are replaced.
    pub(super) fn text(&mut self, span: Span) -> Result<String, WireError> {
        let length = span.end - span.next;
        if length > TEXT_LIMIT {
            return Err(self.malformed("a name is longer than 64 KiB"));
        }
        self.seek(span.next)?;
        let mut bytes = Vec::new();
        (&mut self.source).take(length).read_to_end(&mut bytes)?;
        self.at += bytes.len() as u64;
        if (bytes.len() as u64) < length {
            return Err(WireError::Truncated { at: self.at });
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The next of the packed numbers in a span.
    pub(super) fn packed(&mut self, span: &mut Span) -> Result<Option<u64>, WireError> {
        if span.next >= span.end {
            return Ok(None);
        }
        self.seek(span.next)?;
        let value = self.varint(span.end)?;
        span.next = self.at;
        Ok(Some(value))
    }

    pub(super) fn malformed(&self, why: &'static str) -> WireError {
        WireError::Malformed { at: self.at, why }
    }

    fn fixed(&mut self, bytes: u64, end: u64) -> Result<Value, WireError> {
        let span = self.take(bytes, end)?;
        self.seek(span.end)?;
        Ok(Value::Fixed)
    }

    fn take(&self, length: u64, end: u64) -> Result<Span, WireError> {
        if length <= end - self.at {
            return Ok(Span {
                next: self.at,
                end: self.at + length,
            });
        }
        Err(self.past(end))
    }

    /// Reading beyond `end`: the file is short, or a message lies about the length of its parent.
    fn past(&self, end: u64) -> WireError {
        if end == self.size {
            WireError::Truncated { at: self.size }
        } else {
            self.malformed("a field is longer than the message it is in")
        }
    }

    fn varint(&mut self, end: u64) -> Result<u64, WireError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            if self.at >= end {
                return Err(self.past(end));
            }
            let mut byte = [0];
            self.source.read_exact(&mut byte)?;
            self.at += 1;
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(value);
            }
        }
        Err(self.malformed("a number has more than ten bytes"))
    }

    /// Keeps the buffer when the place is inside it.
    fn seek(&mut self, to: u64) -> Result<(), WireError> {
        let step = to.cast_signed().wrapping_sub(self.at.cast_signed());
        if step != 0 {
            self.source.seek_relative(step)?;
            self.at = to;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn the_documented_example_of_a_varint_is_150() {
        // From the Protocol Buffers encoding guide: field 1, value 150, then field 2, "testing".
        let bytes = [&[0x08, 0x96, 0x01, 0x12, 0x07][..], b"testing"].concat();
        let mut wire = Wire::new(Cursor::new(bytes)).unwrap();
        let mut message = wire.whole();
        let first = wire.field(&mut message).unwrap().unwrap();
        assert!(matches!(
            (first.number, first.value),
            (1, Value::Varint(150))
        ));
        let second = wire.field(&mut message).unwrap().unwrap();
        assert_eq!(wire.text(second.value.span().unwrap()).unwrap(), "testing");
        assert!(wire.field(&mut message).unwrap().is_none());
    }

    #[test]
    fn a_field_that_was_not_read_is_stepped_over() {
        let mut wire = Wire::new(Cursor::new([
            0x12, 0x02, 0xff, 0xff, 0x1d, 0, 0, 0, 0, 0x20, 7,
        ]))
        .unwrap();
        let mut message = wire.whole();
        let numbers: Vec<u64> = std::iter::from_fn(|| wire.field(&mut message).unwrap())
            .map(|f| f.number)
            .collect();
        assert_eq!(numbers, [2, 3, 4]);
    }

    #[test]
    fn a_length_beyond_the_file_is_truncated_and_beyond_its_parent_is_malformed() {
        let mut wire = Wire::new(Cursor::new([0x0a, 0x05, 0x00])).unwrap();
        let mut message = wire.whole();
        assert!(matches!(
            wire.field(&mut message),
            Err(WireError::Truncated { at: 3 })
        ));

        let mut wire = Wire::new(Cursor::new([0x0a, 0x02, 0x0a, 0x09, 0x00])).unwrap();
        let mut message = wire.whole();
        let mut inner = wire
            .field(&mut message)
            .unwrap()
            .unwrap()
            .value
            .span()
            .unwrap();
        assert!(matches!(
            wire.field(&mut inner),
            Err(WireError::Malformed { .. })
        ));
    }
}
