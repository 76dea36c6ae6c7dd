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
    /// Bytes a second, each way; none is no limit. What waits too long for its turn is lost, as at a router:
    /// the kernel's buffer is the queue.
    pub rate: Option<u32>,
}

/// What became of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub dropped: u64,
    /// Came after one that was sent later.
    pub overtaken: u64,
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
    overtaken: AtomicU64,
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
            overtaken: AtomicU64::new(0),
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

    pub fn counts(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            passed: read(&self.shared.passed),
            dropped: read(&self.shared.dropped),
            overtaken: read(&self.shared.overtaken),
        }
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

/// The packets of one way, in the order in which they came.
#[derive(Debug, Default)]
struct Order {
    came: u64,
    /// The number of the last that was sent on, and everything before it.
    sent: Arc<AtomicU64>,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// From hosts to the agent.
    fn forward(self: Arc<Self>, socket: &Arc<UdpSocket>) {
        let mut packet = [0; 65536];
        let mut backs = Vec::new();
        let mut order = Order::default();
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
            let send = move |packet: &[u8]| drop(send.send(packet));
            self.pass(&packet[..bytes], &mut order, send);
        }
        backs.into_iter().for_each(|back| drop(back.join()));
    }

    /// From the agent to one host.
    fn backward(self: Arc<Self>, way: &UdpSocket, socket: &Arc<UdpSocket>, host: SocketAddr) {
        let mut packet = [0; 65536];
        let mut order = Order::default();
        while !self.is_over() {
            let Ok(bytes) = way.recv(&mut packet) else {
                continue;
            };
            let send = Arc::clone(socket);
            let send = move |packet: &[u8]| drop(send.send_to(packet, host));
            self.pass(&packet[..bytes], &mut order, send);
        }
    }

    fn pass(
        self: &Arc<Self>,
        packet: &[u8],
        order: &mut Order,
        send: impl Fn(&[u8]) + Send + 'static,
    ) {
        let weather = self.weather;
        if self.is_cut.load(Ordering::Relaxed) || self.falls(weather.lost) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.passed.fetch_add(1, Ordering::Relaxed);
        if let Some(rate) = weather.rate {
            let takes = packet.len() as f64 / f64::from(rate);
            std::thread::sleep(Duration::from_secs_f64(takes));
        }
        order.came += 1;
        let (number, sent, this) = (order.came, Arc::clone(&order.sent), Arc::clone(self));
        let send = move |packet: &[u8]| {
            if sent.fetch_max(number, Ordering::Relaxed) > number {
                this.overtaken.fetch_add(1, Ordering::Relaxed);
            }
            send(packet);
        };
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
        let counts = Counts {
            passed: 2,
            dropped: 1,
            overtaken: 0,
        };
        assert_eq!(relay.counts(), counts);
    }

    #[test]
    fn a_narrow_line_takes_its_time_and_a_packet_that_waits_is_overtaken() {
        let patient = || {
            let (to, far) = echo();
            far.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            (to, far)
        };
        let (to, far) = patient();
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let narrow = Weather {
            rate: Some(10_000),
            ..Weather::default()
        };
        let relay = UdpRelay::start(to, narrow, 1);
        let began = Deadline::after(Duration::ZERO);
        for _ in 0..4 {
            near.send_to(&[0; 1000], relay.address()).unwrap();
        }
        let mut packet = [0; 2000];
        for _ in 0..4 {
            assert_eq!(far.recv(&mut packet).unwrap(), 1000);
        }
        // 4000 bytes at 10 000 a second.
        assert!(began.elapsed() >= Duration::from_millis(400));

        let (to, far) = patient();
        let unruly = Weather {
            delayed: 500,
            delay: Duration::from_millis(50),
            ..Weather::default()
        };
        let relay = UdpRelay::start(to, unruly, 1);
        let sent: Vec<u8> = (0..100).collect();
        for number in &sent {
            near.send_to(&[*number], relay.address()).unwrap();
        }
        let mut came: Vec<u8> = Vec::new();
        for _ in &sent {
            far.recv(&mut packet).unwrap();
            came.push(packet[0]);
        }
        assert_ne!(came, sent);
        assert!(relay.counts().overtaken > 0);
        came.sort_unstable();
        assert_eq!(came, sent, "none was lost or doubled");
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
