//! The first message each way. Its layout is frozen: any two versions can at least say who they are.
//!
//! All integers little-endian. Hello: magic `EDYN`, lowest protocol 2, highest protocol 2, schema hash
//! 32, store id 16, features 8, largest frame 4, length of build id 1, build id. Reply: the same with
//! one byte of verdict before the length. Bytes after these are ignored, so later versions may add.

use crate::SCHEMA_HASH_HEX;
use crate::ids::{BuildId, Sha256, StoreId};
use crate::wire::frame::{Frame, kind};

/// The protocol this build speaks.
pub const PROTOCOL: u16 = 1;

const MAGIC: [u8; 4] = *b"EDYN";

/// Who speaks, and what it can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub protocol_min: u16,
    pub protocol_max: u16,
    pub schema: [u8; 32],
    /// The host's store; the agent repeats it.
    pub store: StoreId,
    /// Reserved; a bit that the other side does not know is ignored.
    pub features: u64,
    pub frame_limit: u32,
    pub build: BuildId,
}

/// The agent's answer to a hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelloReply {
    pub agent: Hello,
    pub verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Welcome,
    /// No common protocol, or another schema before 1.0. Only status and retire are answered.
    Incompatible,
}

/// Bytes that are no hello.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the other side does not speak EdgeDyno's protocol")]
pub struct NotHello;

/// This build's schema hash.
pub fn schema_hash() -> [u8; 32] {
    let hash: Sha256 = SCHEMA_HASH_HEX
        .parse()
        .expect("the build script writes 64 hex digits");
    hash.0
}

impl Hello {
    /// This build's own hello.
    pub fn new(build: BuildId, store: StoreId) -> Self {
        Self {
            protocol_min: PROTOCOL,
            protocol_max: PROTOCOL,
            schema: schema_hash(),
            store,
            features: 0,
            frame_limit: crate::wire::frame::LIMIT as u32,
            build,
        }
    }

    fn write(&self, verdict: Option<Verdict>) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(self.protocol_min.to_le_bytes());
        out.extend(self.protocol_max.to_le_bytes());
        out.extend(self.schema);
        out.extend(self.store.0);
        out.extend(self.features.to_le_bytes());
        out.extend(self.frame_limit.to_le_bytes());
        match verdict {
            None => {}
            Some(Verdict::Welcome) => out.push(0),
            Some(Verdict::Incompatible) => out.push(1),
        }
        let build = &self.build.0.as_bytes()[..self.build.0.len().min(255)];
        out.push(build.len() as u8);
        out.extend(build);
        out
    }

    pub fn to_frame(&self) -> Frame {
        Frame {
            kind: kind::HELLO,
            payload: self.write(None),
        }
    }

    pub fn parse(payload: &[u8]) -> Result<Self, NotHello> {
        read(payload, false).map(|(hello, _)| hello)
    }

    /// What an agent of `self` answers to `host`.
    pub fn answer(&self, host: &Self) -> HelloReply {
        let overlap =
            self.protocol_min.max(host.protocol_min) <= self.protocol_max.min(host.protocol_max);
        let verdict = if overlap && self.schema == host.schema {
            Verdict::Welcome
        } else {
            Verdict::Incompatible
        };
        HelloReply {
            agent: Self {
                store: host.store,
                ..self.clone()
            },
            verdict,
        }
    }
}

impl HelloReply {
    pub fn to_frame(&self) -> Frame {
        Frame {
            kind: kind::HELLO_REPLY,
            payload: self.agent.write(Some(self.verdict)),
        }
    }

    pub fn parse(payload: &[u8]) -> Result<Self, NotHello> {
        let (agent, verdict) = read(payload, true)?;
        let verdict = match verdict {
            0 => Verdict::Welcome,
            _ => Verdict::Incompatible,
        };
        Ok(Self { agent, verdict })
    }
}

fn read(payload: &[u8], with_verdict: bool) -> Result<(Hello, u8), NotHello> {
    let mut rest = payload;
    if take::<4>(&mut rest)? != MAGIC {
        return Err(NotHello);
    }
    let protocol_min = u16::from_le_bytes(take(&mut rest)?);
    let protocol_max = u16::from_le_bytes(take(&mut rest)?);
    let schema = take::<32>(&mut rest)?;
    let store = StoreId(take::<16>(&mut rest)?);
    let features = u64::from_le_bytes(take(&mut rest)?);
    let frame_limit = u32::from_le_bytes(take(&mut rest)?);
    let verdict = if with_verdict {
        take::<1>(&mut rest)?[0]
    } else {
        0
    };
    let [length] = take::<1>(&mut rest)?;
    let build = rest.get(..usize::from(length)).ok_or(NotHello)?;
    let build = BuildId(String::from_utf8(build.to_vec()).map_err(|_| NotHello)?);
    let hello = Hello {
        protocol_min,
        protocol_max,
        schema,
        store,
        features,
        frame_limit,
        build,
    };
    Ok((hello, verdict))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], NotHello> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(NotHello)?;
    *rest = tail;
    Ok(*head)
}

/// What a daemon says of itself to any version. Layout: process 4, session 1, queued 4, spooled 4,
/// running 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DaemonStatus {
    pub process: u32,
    pub sessions: u8,
    pub queued: u32,
    pub spooled: u32,
    pub running: bool,
}

impl DaemonStatus {
    pub fn to_frame(self, kind: u8) -> Frame {
        let mut out = self.process.to_le_bytes().to_vec();
        out.push(self.sessions);
        out.extend(self.queued.to_le_bytes());
        out.extend(self.spooled.to_le_bytes());
        out.push(u8::from(self.running));
        Frame { kind, payload: out }
    }

    pub fn parse(payload: &[u8]) -> Result<Self, NotHello> {
        let mut rest = payload;
        Ok(Self {
            process: u32::from_le_bytes(take(&mut rest)?),
            sessions: take::<1>(&mut rest)?[0],
            queued: u32::from_le_bytes(take(&mut rest)?),
            spooled: u32::from_le_bytes(take(&mut rest)?),
            running: take::<1>(&mut rest)?[0] != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hello() -> Hello {
        Hello {
            protocol_min: 1,
            protocol_max: 2,
            schema: [3; 32],
            store: StoreId([4; 16]),
            features: 5,
            frame_limit: 6,
            build: BuildId("b1".into()),
        }
    }

    fn expected(verdict: &[u8]) -> Vec<u8> {
        let mut bytes = b"EDYN\x01\x00\x02\x00".to_vec();
        bytes.extend([3; 32]);
        bytes.extend([4; 16]);
        bytes.extend([5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0]);
        bytes.extend(verdict);
        bytes.extend([2, b'b', b'1']);
        bytes
    }

    #[test]
    fn hello_and_reply_are_frozen() {
        let frame = hello().to_frame();
        assert_eq!((frame.kind, frame.payload), (1, expected(&[])));
        let reply = HelloReply {
            agent: hello(),
            verdict: Verdict::Incompatible,
        };
        let frame = reply.to_frame();
        assert_eq!((frame.kind, &frame.payload), (2, &expected(&[1])));
        assert_eq!(HelloReply::parse(&frame.payload), Ok(reply));
        assert_eq!(Hello::parse(&expected(&[])), Ok(hello()));
    }

    #[test]
    fn status_is_frozen() {
        let status = DaemonStatus {
            process: 1,
            sessions: 2,
            queued: 3,
            spooled: 4,
            running: true,
        };
        let frame = status.to_frame(kind::STATUS_REPLY);
        assert_eq!(frame.payload, [1, 0, 0, 0, 2, 3, 0, 0, 0, 4, 0, 0, 0, 1]);
        assert_eq!(DaemonStatus::parse(&frame.payload), Ok(status));
    }

    #[test]
    fn later_versions_may_append() {
        let mut bytes = expected(&[]);
        bytes.extend([1, 2, 3]);
        assert_eq!(Hello::parse(&bytes), Ok(hello()));
    }

    #[test]
    fn another_schema_is_incompatible() {
        let agent = hello();
        let host = Hello {
            schema: [9; 32],
            ..hello()
        };
        assert_eq!(agent.answer(&host).verdict, Verdict::Incompatible);
        assert_eq!(agent.answer(&hello()).verdict, Verdict::Welcome);
    }

    proptest! {
        #[test]
        fn hostile_hellos_are_refused_without_panic(bytes: Vec<u8>) {
            let _ = Hello::parse(&bytes);
            let _ = HelloReply::parse(&bytes);
            let _ = DaemonStatus::parse(&bytes);
        }
    }
}
