//! One repeat at a time on a machine: whoever runs one holds an abstract socket.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Name of the abstract socket; it goes with the process that holds it, however that ends.
const NAME: &str = "edgedyno-measure";

/// The right to measure.
#[derive(Debug)]
pub struct MeasureLock {
    _socket: Option<UnixListener>,
}

impl MeasureLock {
    /// Takes the right; `None` when somebody else has it.
    pub fn take() -> io::Result<Option<Self>> {
        Self::take_named(NAME)
    }

    /// For a daemon whose state folder was moved: it measures whatever others do.
    pub fn independent() -> Self {
        Self { _socket: None }
    }

    fn take_named(name: &str) -> io::Result<Option<Self>> {
        match UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?) {
            Ok(socket) => Ok(Some(Self {
                _socket: Some(socket),
            })),
            Err(why) if why.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(why) => Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_holds_it_and_dropping_gives_it_back() {
        let name = format!("edgedyno-test-{}", std::process::id());
        let held = MeasureLock::take_named(&name).unwrap();
        assert!(held.is_some());
        assert!(MeasureLock::take_named(&name).unwrap().is_none());
        drop(held);
        assert!(MeasureLock::take_named(&name).unwrap().is_some());
    }
}
