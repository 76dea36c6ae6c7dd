//! A bad line: a UDP relay between host and agent that loses, doubles, corrupts, delays and reorders
//! packets by a seed, or lets nothing through at all.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::Deadline;

/// What happens to packets, each way, in parts of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub lost: u32,
    pub doubled: u32,
    pub corrupted: u32,
    /// These wait for a moment between none and `delay`, and are overtaken by others.
    pub delayed: u32,
    pub delay: Duration,
}

/// A running relay; it ends when this is dropped.
#[derive(Debug)]
pub struct UdpRelay {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    to: SocketAddr,
    weather: Weather,
    is_cut: AtomicBool,
    is_over: AtomicBool,
    passed: AtomicU64,
    dropped: AtomicU64,
    dice: Mutex<u64>,
    /// A socket towards the agent for each host's port.
    ways: Mutex<BTreeMap<SocketAddr, Arc<UdpSocket>>>,
}

/// How often a thread looks whether it is over.
const LOOK: Duration = Duration::from_millis(20);

impl UdpRelay {
    /// Relays to `to`; which packets meet which fate depends on the seed and on their order alone.
    pub fn start(to: SocketAddr, weather: Weather, seed: u64) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        socket
            .set_read_timeout(Some(LOOK))
            .expect("a limit is possible");
        let address = socket.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            to,
            weather,
            is_cut: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            passed: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            dice: Mutex::new(seed | 1),
            ways: Mutex::default(),
        });
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.forward(&Arc::new(socket))
        });
        Self {
            address,
            shared,
            threads: vec![thread],
        }
    }

    /// Where a host finds the agent behind it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets nothing through from now on, or everything that the weather lets.
    pub fn cut(&self, is_cut: bool) {
        self.shared.is_cut.store(is_cut, Ordering::Relaxed);
    }

    /// Packets that went through, and packets that did not.
    pub fn counts(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.shared.passed), read(&self.shared.dropped))
    }
}

impl Drop for UdpRelay {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// From hosts to the agent.
    fn forward(self: Arc<Self>, socket: &Arc<UdpSocket>) {
        let mut packet = [0; 65536];
        let mut backs = Vec::new();
        while !self.is_over() {
            let Ok((bytes, from)) = socket.recv_from(&mut packet) else {
                continue;
            };
            let known = self.ways.lock().expect("nobody panics").get(&from).cloned();
            let way = known.unwrap_or_else(|| {
                let way = Arc::new(UdpSocket::bind("127.0.0.1:0").expect("a port is free"));
                way.set_read_timeout(Some(LOOK))
                    .expect("a limit is possible");
                way.connect(self.to).expect("an address is given");
                let mut ways = self.ways.lock().expect("nobody panics");
                ways.insert(from, Arc::clone(&way));
                let (this, back, socket) =
                    (Arc::clone(&self), Arc::clone(&way), Arc::clone(socket));
                backs.push(std::thread::spawn(move || {
                    this.backward(&back, &socket, from)
                }));
                way
            });
            let send = Arc::clone(&way);
            self.pass(&packet[..bytes], move |packet| drop(send.send(packet)));
        }
        backs.into_iter().for_each(|back| drop(back.join()));
    }

    /// From the agent to one host.
    fn backward(self: Arc<Self>, way: &UdpSocket, socket: &Arc<UdpSocket>, host: SocketAddr) {
        let mut packet = [0; 65536];
        while !self.is_over() {
            let Ok(bytes) = way.recv(&mut packet) else {
                continue;
            };
            let send = Arc::clone(socket);
            self.pass(&packet[..bytes], move |packet| {
                drop(send.send_to(packet, host))
            });
        }
    }

    fn pass(&self, packet: &[u8], send: impl Fn(&[u8]) + Send + 'static) {
        let weather = self.weather;
        if self.is_cut.load(Ordering::Relaxed) || self.falls(weather.lost) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.passed.fetch_add(1, Ordering::Relaxed);
        let mut packet = packet.to_vec();
        if self.falls(weather.corrupted) && !packet.is_empty() {
            let at = self.roll() as usize % packet.len();
            packet[at] ^= 1 << (self.roll() % 8);
        }
        if self.falls(weather.doubled) {
            send(&packet);
        }
        if self.falls(weather.delayed) {
            let pause = weather.delay.mul_f64((self.roll() % 1000) as f64 / 1000.0);
            std::thread::spawn(move || {
                std::thread::sleep(pause);
                send(&packet);
            });
        } else {
            send(&packet);
        }
    }

    fn falls(&self, of_thousand: u32) -> bool {
        of_thousand > 0 && self.roll() % 1000 < u64::from(of_thousand)
    }

    /// xorshift64*: any seed but zero.
    fn roll(&self) -> u64 {
        let mut state = self.dice.lock().expect("nobody panics");
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}

/// Waits for a moment; for tests that must let time pass on a line that is cut.
pub fn let_pass(time: Duration) {
    let _ = Deadline::after(time).poll(|| None::<()>);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo() -> (SocketAddr, UdpSocket) {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        far.set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        (far.local_addr().unwrap(), far)
    }

    #[test]
    fn packets_pass_both_ways_and_not_when_it_is_cut() {
        let (to, far) = echo();
        let relay = UdpRelay::start(to, Weather::default(), 1);
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        near.send_to(b"there", relay.address()).unwrap();
        let mut packet = [0; 16];
        let (bytes, from) = far.recv_from(&mut packet).unwrap();
        assert_eq!(&packet[..bytes], b"there");
        far.send_to(b"back", from).unwrap();
        assert_eq!(near.recv(&mut packet).unwrap(), 4);
        relay.cut(true);
        near.send_to(b"lost", relay.address()).unwrap();
        assert!(far.recv_from(&mut packet).is_err());
        assert_eq!(relay.counts(), (2, 1));
    }

    #[test]
    fn weather_falls_about_as_often_as_it_is_said_to() {
        let (to, _far) = echo();
        let weather = Weather {
            lost: 300,
            ..Weather::default()
        };
        let relay = UdpRelay::start(to, weather, 7);
        let lost = (0..10_000).filter(|_| relay.shared.falls(300)).count();
        assert!((2800..3200).contains(&lost), "{lost}");
    }
}
