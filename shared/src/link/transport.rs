//! How QUIC is set up on both sides, and why not as it comes.

use std::net::UdpSocket;
use std::time::Duration;

use quinn::{IdleTimeout, TransportConfig, VarInt};
use socket2::SockRef;

/// What is asked for the socket's receive buffer. Linux gives 208 KiB unless asked, and a burst then drops
/// packets on a lossless line.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Less than this granted, and bursts must be kept shorter than the buffer.
const ENOUGH_BUFFER: usize = 1 << 20;

/// One stream may have this much under way: a fast line at 8 ms is full with it.
const STREAM_WINDOW: u32 = 1 << 20;

/// The same where the socket's buffer could not be had.
const SMALL_STREAM_WINDOW: u32 = 128 << 10;

/// All streams of a connection together.
const CONNECTION_WINDOW: u32 = 4 << 20;

/// The same while an agent does not know who is there: enough for the one frame that is read of a stranger.
const STRANGERS_WINDOW: u32 = 16 << 10;

/// A dead peer is noticed after this; shorter cuts are none.
pub const IDLE: Duration = Duration::from_secs(20);

/// Each side says something this often on a connection with nothing to say. A fifth of what would keep it
/// alive: silence is then noticed within seconds (one packet of 40 bytes; progress is sent as often).
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// QUIC assumes a third of a second before it has measured, which makes the first lost packet of a
/// handshake cost a whole second on a line of a millisecond.
const FIRST_RTT: Duration = Duration::from_millis(50);

/// `off` switches segmentation offload off, for drivers that accept it and then fail.
pub const GSO_VARIABLE: &str = "EDGEDYNO_QUIC_GSO";

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Host,
    Agent,
}

/// What a socket was found to have, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receive {
    /// Bytes of receive buffer that the kernel granted, as it counts them; none when it does not say.
    pub granted: Option<usize>,
    /// What one stream may have under way, bytes.
    pub window: u32,
}

/// Asks for a receive buffer and reads back what was granted.
pub fn ask_for_buffer(socket: &UdpSocket) -> Receive {
    let socket = SockRef::from(socket);
    // Refused or cut down: what counts is read back.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    let granted = socket.recv_buffer_size().ok();
    let window = match granted {
        Some(bytes) if bytes >= ENOUGH_BUFFER => STREAM_WINDOW,
        _ => SMALL_STREAM_WINDOW,
    };
    Receive { granted, window }
}

/// What an agent lets a host have under way that it knows, bytes; [`settings`] are for strangers.
pub fn window_of_known(receive: Receive) -> VarInt {
    VarInt::from_u32(CONNECTION_WINDOW.min(receive.window * 4))
}

/// Settings of one end. An agent accepts one stream on a connection; a host none.
pub fn settings(end: End, receive: Receive, gso: bool) -> TransportConfig {
    let mut settings = TransportConfig::default();
    let idle = IdleTimeout::try_from(IDLE).ok();
    let (bidirectional, window) = match end {
        End::Agent => (1_u32, STRANGERS_WINDOW),
        End::Host => (0, CONNECTION_WINDOW),
    };
    settings
        .max_idle_timeout(idle)
        .keep_alive_interval(Some(KEEP_ALIVE))
        .initial_rtt(FIRST_RTT)
        .stream_receive_window(VarInt::from_u32(receive.window))
        .receive_window(VarInt::from_u32(window))
        .max_concurrent_bidi_streams(VarInt::from_u32(bidirectional))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .enable_segmentation_offload(gso);
    settings
}

/// Whether segmentation offload may be tried.
pub fn may_use_gso(get: impl Fn(&str) -> Option<std::ffi::OsString>) -> bool {
    get(GSO_VARIABLE).is_none_or(|value| value != "off" && value != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_buffer_makes_a_small_window() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let receive = ask_for_buffer(&socket);
        let expected = match receive.granted.unwrap() {
            0..ENOUGH_BUFFER => SMALL_STREAM_WINDOW,
            _ => STREAM_WINDOW,
        };
        assert_eq!(receive.window, expected);
    }

    #[test]
    fn offload_is_switched_off_by_a_variable() {
        assert!(may_use_gso(|_| None));
        assert!(may_use_gso(|_| Some("on".into())));
        assert!(!may_use_gso(
            |name| (name == GSO_VARIABLE).then(|| "off".into())
        ));
    }
}
