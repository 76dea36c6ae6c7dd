//! A line between two TCP ends that is as slow as a real one: each byte waits for its turn and then travels.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use crate::clock::Deadline;

/// What is under way at most, in pieces of [`PIECE`] bytes: the buffers of a small switch.
const UNDER_WAY: usize = 16;
const PIECE: usize = 16 << 10;

/// How a line behaves, each way.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    pub delay: Duration,
    pub bytes_per_second: f64,
}

/// A wired local network as boards have it: 100 Mbit/s, a millisecond there and back.
pub const LAN: Line = Line {
    delay: Duration::from_micros(500),
    bytes_per_second: 12.5e6,
};

/// Takes connections for another port of this machine; its port. It ends with the process.
///
/// # Panics
/// When no port can be had.
pub fn start(to: u16, line: Line) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port can be had");
    let port = listener.local_addr().expect("it has an address").port();
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) else {
                continue;
            };
            for (from, into) in [(&near, &far), (&far, &near)] {
                let _ = into.set_nodelay(true);
                if let (Ok(from), Ok(into)) = (from.try_clone(), into.try_clone()) {
                    carry(from, into, line);
                }
            }
        }
    });
    port
}

fn carry(mut from: TcpStream, mut into: TcpStream, line: Line) {
    let clock = Deadline::after(Duration::MAX);
    let (under_way, arriving) = sync_channel::<(Duration, Vec<u8>)>(UNDER_WAY);
    std::thread::spawn(move || {
        let mut piece = vec![0; PIECE];
        let mut free_at = Duration::ZERO;
        while let Ok(read) = from.read(&mut piece) {
            let takes = Duration::from_secs_f64(read as f64 / line.bytes_per_second);
            free_at = free_at.max(clock.elapsed()) + takes;
            let arrives = free_at + line.delay;
            if read == 0 || under_way.send((arrives, piece[..read].to_vec())).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        for (arrives, bytes) in arriving {
            std::thread::sleep(arrives.saturating_sub(clock.elapsed()));
            if into.write_all(&bytes).is_err() {
                return;
            }
        }
        let _ = into.shutdown(Shutdown::Write);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_and_takes_its_time() {
        let echo = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = echo.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = echo.accept().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            stream.write_all(&all).unwrap();
        });
        let line = Line {
            delay: Duration::from_millis(5),
            bytes_per_second: 1e6,
        };
        let mut near = TcpStream::connect((Ipv4Addr::LOCALHOST, start(to, line))).unwrap();
        let began = Deadline::after(Duration::MAX);
        let sent: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        near.write_all(&sent).unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        let mut back = Vec::new();
        near.read_to_end(&mut back).unwrap();
        assert_eq!(back, sent);
        // A tenth of a second a way for the bytes, and the delay twice: never less.
        assert!(began.elapsed() >= Duration::from_millis(210));
    }
}
