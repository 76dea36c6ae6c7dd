//! Framing: u32 little-endian length, one byte of kind, payload. The length counts kind and payload.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::units::Bytes;

/// Before authentication a frame may be this long.
pub const LIMIT_BEFORE_AUTHENTICATION: usize = 4 * 1024;

/// Afterwards a frame may be this long.
pub const LIMIT: usize = 1024 * 1024;

/// Frame kinds. Those below 16 are frozen; an unknown kind is answered [`kind::UNSUPPORTED`].
pub mod kind {
    pub const HELLO: u8 = 1;
    pub const HELLO_REPLY: u8 = 2;
    /// Asks what the daemon is doing; empty. Answered by a `STATUS_REPLY`.
    pub const STATUS: u8 = 3;
    pub const STATUS_REPLY: u8 = 4;
    /// Asks the daemon to finish the running repeat, keep queue and spool, and leave; empty.
    pub const RETIRE: u8 = 5;
    pub const RETIRE_REPLY: u8 = 6;
    /// First frame of a relay, before the hello; empty.
    pub const RELAY: u8 = 7;
    /// Payload: the kind that was not understood.
    pub const UNSUPPORTED: u8 = 8;
    /// Start of a spooled repeat: [`crate::wire::record::SegmentHeader`].
    pub const SEGMENT: u8 = 9;
    /// One record of it: [`crate::wire::record::RecordHeader`], then the record.
    pub const RECORD: u8 = 10;
    /// First and only frame of a host that pairs: its proof, 32 bytes, then the name it wants, UTF-8.
    pub const PAIR: u8 = 11;
    /// The answer: 0 and the role given, or 1 and why not, UTF-8.
    pub const PAIR_REPLY: u8 = 12;

    pub const REQUEST: u8 = 16;
    pub const REPLY: u8 = 17;
    pub const EVENT: u8 = 18;
    /// The agent asks for the host's clock: [`crate::clocks::ClockQuestion`].
    pub const CLOCK: u8 = 19;
    /// [`crate::clocks::ClockAnswer`].
    pub const CLOCK_ANSWER: u8 = 20;
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub payload: Vec<u8>,
}

/// Why a frame could not be read or its payload not be understood.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("frame of {} is over the limit of {}", Bytes(*length as u64), Bytes(*limit as u64))]
    TooLong { length: usize, limit: usize },
    #[error("frame without a kind")]
    Empty,
    #[error("payload of kind {kind} does not decode: {why}")]
    Undecodable { kind: u8, why: postcard::Error },
    #[error("payload of kind {kind} has {left} bytes left over")]
    LeftOver { kind: u8, left: usize },
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Frame {
    /// Encodes a message.
    ///
    /// # Errors
    /// When the message is over [`LIMIT`], which a sender splits before.
    pub fn encode<T: Serialize>(kind: u8, message: &T) -> Result<Self, FrameError> {
        let payload =
            postcard::to_stdvec(message).map_err(|why| FrameError::Undecodable { kind, why })?;
        let length = payload.len() + 1;
        if length > LIMIT {
            return Err(FrameError::TooLong {
                length,
                limit: LIMIT,
            });
        }
        Ok(Self { kind, payload })
    }

    pub fn empty(kind: u8) -> Self {
        Self {
            kind,
            payload: Vec::new(),
        }
    }

    /// Decodes the whole payload; bytes left over are an error, since postcard would ignore them.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        decode(self.kind, &self.payload)
    }

    fn head(&self) -> [u8; 5] {
        let length = (self.payload.len() + 1) as u32;
        let [a, b, c, d] = length.to_le_bytes();
        [a, b, c, d, self.kind]
    }

    /// The frame as it goes over a carrier.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.payload.len() + 5);
        out.extend_from_slice(&self.head());
        out.extend_from_slice(&self.payload);
        out
    }
}

/// Decodes all of `bytes` as a message of that kind.
pub fn decode<T: DeserializeOwned>(kind: u8, bytes: &[u8]) -> Result<T, FrameError> {
    let (message, rest) =
        postcard::take_from_bytes(bytes).map_err(|why| FrameError::Undecodable { kind, why })?;
    match rest.len() {
        0 => Ok(message),
        left => Err(FrameError::LeftOver { kind, left }),
    }
}

/// Checks a length field; the returned number of bytes follows it.
fn check(head: [u8; 4], limit: usize) -> Result<usize, FrameError> {
    match u32::from_le_bytes(head) as usize {
        0 => Err(FrameError::Empty),
        length if length > limit => Err(FrameError::TooLong { length, limit }),
        length => Ok(length),
    }
}

/// Reads one frame; `None` at a clean end. Not cancel-safe: keep the future until it is done.
pub async fn read<R: AsyncRead + Unpin>(
    from: &mut R,
    limit: usize,
) -> Result<Option<Frame>, FrameError> {
    let mut head = [0; 4];
    if from.read(&mut head[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..]).await?;
    let length = check(head, limit)?;
    let kind = from.read_u8().await?;
    let mut payload = Vec::new();
    // Grows as bytes arrive, so that a length alone buys no memory.
    let got = from
        .take(length as u64 - 1)
        .read_to_end(&mut payload)
        .await?;
    if got + 1 < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(Some(Frame { kind, payload }))
}

/// Writes one frame without flushing.
pub async fn write<W: AsyncWrite + Unpin>(to: &mut W, frame: &Frame) -> Result<(), FrameError> {
    to.write_all(&frame.head()).await?;
    to.write_all(&frame.payload).await?;
    Ok(())
}

/// [`read`] for threads and files.
pub fn read_blocking<R: Read>(from: &mut R, limit: usize) -> Result<Option<Frame>, FrameError> {
    let mut head = [0; 4];
    if from.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..])?;
    let length = check(head, limit)?;
    let mut body = Vec::new();
    if from.take(length as u64).read_to_end(&mut body)? < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let kind = body.remove(0);
    Ok(Some(Frame {
        kind,
        payload: body,
    }))
}

/// [`write()`] for threads and files.
pub fn write_blocking<W: Write>(to: &mut W, frame: &Frame) -> io::Result<()> {
    to.write_all(&frame.head())?;
    to.write_all(&frame.payload)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::event::Event;
    use crate::wire::record::Record;
    use crate::wire::request::Request;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(future)
    }

    proptest! {
        #[test]
        fn frames_read_back_however_the_bytes_are_cut(kind: u8, payload: Vec<u8>, second: Vec<u8>) {
            let frames = [Frame { kind, payload }, Frame { kind: 9, payload: second }];
            let bytes: Vec<u8> = frames.iter().flat_map(Frame::to_bytes).collect();
            let read_all = async {
                let (mut near, mut far) = tokio::io::duplex(3);
                let send = async move {
                    near.write_all(&bytes).await.unwrap();
                };
                let receive = async {
                    let first = read(&mut far, LIMIT).await.unwrap().unwrap();
                    let second = read(&mut far, LIMIT).await.unwrap().unwrap();
                    ([first, second], read(&mut far, LIMIT).await.unwrap())
                };
                tokio::join!(send, receive).1
            };
            let (back, end) = block_on(read_all);
            prop_assert_eq!(back, frames);
            prop_assert_eq!(end, None);
        }

        #[test]
        fn no_bytes_make_a_decoder_panic(bytes: Vec<u8>) {
            let _ = decode::<Request>(0, &bytes);
            let _ = decode::<Event>(0, &bytes);
            let _ = decode::<Record>(0, &bytes);
            let _ = read_blocking(&mut bytes.as_slice(), LIMIT);
        }

        #[test]
        fn bytes_left_over_are_refused(extra in 1_usize..9) {
            let mut frame = Frame::encode(kind::REQUEST, &(1_u64, Request::Info)).unwrap();
            frame.payload.extend(vec![0; extra]);
            let refused = frame.decode::<(u64, Request)>();
            let refused = matches!(refused, Err(FrameError::LeftOver { left, .. }) if left == extra);
            prop_assert!(refused);
        }
    }

    #[test]
    fn a_long_length_is_refused_before_anything_is_allocated() {
        let mut bytes: &[u8] = &[0xff, 0xff, 0xff, 0xff, 1];
        assert!(matches!(
            read_blocking(&mut bytes, LIMIT),
            Err(FrameError::TooLong { .. })
        ));
    }

    #[test]
    fn a_frame_cut_short_is_an_error_and_not_an_end() {
        let bytes = Frame {
            kind: 1,
            payload: vec![1, 2, 3],
        }
        .to_bytes();
        for cut in 1..bytes.len() {
            let mut part = &bytes[..cut];
            assert!(read_blocking(&mut part, LIMIT).is_err(), "cut at {cut}");
        }
    }
}
