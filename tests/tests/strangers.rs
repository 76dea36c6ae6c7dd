//! Who is not known, or does not speak, costs nobody else anything.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use edgedyno::board::quic::Quic;
use edgedyno::board::{Board, ConnectError};
use edgedyno_shared::ids::StoreId;
use edgedyno_shared::link::key::{Identity, PublicKey};
use edgedyno_shared::link::ticket::{PROOF_LABEL, Ticket};
use edgedyno_shared::link::tls::{self, Pin, Purpose};
use edgedyno_shared::wire::frame::{self, Frame, kind};
use edgedyno_tests::{Running, Sandbox};
use quinn::{ClientConfig, Connection, Endpoint};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

/// Far longer than any limit of the agent's.
const LIMIT: Duration = Duration::from_secs(30);

struct Agent {
    sandbox: Sandbox,
    running: Running,
    address: SocketAddr,
    key: PublicKey,
}

impl Agent {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let mut words = vec!["serve", "--listen", "127.0.0.1:0"];
        if nix::unistd::geteuid().is_root() {
            words.extend(["--run-as", "root"]);
        }
        let mut running = sandbox.start_agent(words);
        running.wait_until("the listener", |agent| {
            agent.stderr_so_far().contains("listening on")
        });
        let log = running.stderr_so_far();
        let (_, rest) = log.split_once("listening on ").unwrap();
        let address = rest.split_whitespace().next().unwrap().parse().unwrap();
        let key = std::fs::read(sandbox.state().join("identity/agent.key")).unwrap();
        let key = Identity::from_pkcs8(key).unwrap().public();
        Self {
            sandbox,
            running,
            address,
            key,
        }
    }

    /// Writes a host into the agent's list.
    fn know(&self, host: &Identity) {
        let line = format!("run {} a test\n", host.public());
        std::fs::write(self.sandbox.state().join("identity/authorized_hosts"), line).unwrap();
    }

    fn board(&self, host: Identity) -> Quic {
        Quic::new("x", vec![self.address], self.key, host)
    }

    fn resident_kib(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.running.pid());
        let text = std::fs::read_to_string(path).unwrap();
        text.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            * 4
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

#[test]
fn a_hundred_strangers_are_refused_while_a_known_host_works() {
    let agent = Agent::new();
    let host = Identity::generate().unwrap();
    agent.know(&host);
    let known = agent.board(host);
    block_on(async {
        let mut link = known.connect(StoreId::NONE).await.unwrap();
        let before = agent.resident_kib();
        let strangers = (0..100).map(|_| {
            let board = agent.board(Identity::generate().unwrap());
            tokio::spawn(async move { board.connect(StoreId::NONE).await.map(drop) })
        });
        let strangers: Vec<_> = strangers.collect();
        for _ in 0..20 {
            let asked = link.ask(edgedyno_shared::wire::request::Request::Queue);
            timeout(LIMIT, asked).await.expect("an answer").unwrap();
        }
        for stranger in strangers {
            let refused = stranger.await.unwrap();
            // Refused by its key, or, over the rate, not answered at all.
            let is_refused = matches!(
                refused,
                Err(ConnectError::NotKnown { .. } | ConnectError::Unreachable { .. })
            );
            assert!(is_refused, "{refused:?}");
        }
        let asked = link.ask(edgedyno_shared::wire::request::Request::Queue);
        timeout(LIMIT, asked).await.expect("an answer").unwrap();
        let grown = agent.resident_kib().saturating_sub(before);
        assert!(grown < 16 * 1024, "{grown} KiB more than before");
    });
}

#[test]
fn who_does_not_speak_is_not_waited_for() {
    let agent = Agent::new();
    let host = Identity::generate().unwrap();
    agent.know(&host);
    let known = agent.board(host.clone());
    block_on(async {
        let mut link = known.connect(StoreId::NONE).await.unwrap();
        let connect = async || {
            let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
            let crypto = tls::client(&host, Pin::Key(agent.key), Purpose::Session).unwrap();
            let config = ClientConfig::new(crypto as Arc<_>);
            let connecting = endpoint.connect_with(config, agent.address, "x").unwrap();
            (endpoint, connecting.await.unwrap())
        };
        let (_silent_end, silent) = connect().await;
        let (_slow_end, slow) = connect().await;
        let (mut send, _receive) = slow.open_bi().await.unwrap();
        // Half a head, and then a byte at a time, for ever.
        let drip = async {
            while send.write_all(&[1]).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        // A host that works is answered meanwhile.
        let work = async {
            for _ in 0..20 {
                let asked = link.ask(edgedyno_shared::wire::request::Request::Queue);
                timeout(LIMIT, asked).await.expect("an answer").unwrap();
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let (dripped, (), silent) =
            tokio::join!(timeout(LIMIT, drip), work, timeout(LIMIT, silent.closed()));
        dripped.expect("the slow one is let go");
        silent.expect("the silent one is let go");
        let (_long_end, long) = connect().await;
        let (mut send, _receive) = long.open_bi().await.unwrap();
        // A frame of 5 KiB where 4 are allowed.
        send.write_all(&5000_u32.to_le_bytes()).await.unwrap();
        send.flush().await.unwrap();
        timeout(LIMIT, long.closed())
            .await
            .expect("the long one is let go");
    });
}

/// A connection to pair over.
async fn to_pair(agent: &Agent, host: &Identity) -> (Endpoint, Connection) {
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let crypto = tls::client(host, Pin::Key(agent.key), Purpose::Pair).unwrap();
    let config = ClientConfig::new(crypto as Arc<_>);
    let connecting = endpoint.connect_with(config, agent.address, "x").unwrap();
    (endpoint, connecting.await.unwrap())
}

/// The proof that is right on this connection.
fn proof(connection: &Connection, ticket: &Ticket, host: &Identity) -> [u8; 32] {
    let mut exported = [0; 32];
    connection
        .export_keying_material(&mut exported, PROOF_LABEL, b"")
        .unwrap();
    ticket.secret.proof(&exported, host.public())
}

/// What the agent says to a proof: whether it lets the host in, and its words.
async fn answer_to(connection: &Connection, proof: &[u8; 32]) -> (bool, String) {
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    let frame = Frame {
        kind: kind::PAIR,
        payload: [&proof[..], b"pc"].concat(),
    };
    send.write_all(&frame.to_bytes()).await.unwrap();
    let answer = timeout(LIMIT, frame::read(&mut receive, frame::LIMIT)).await;
    let answer = answer.expect("an answer").unwrap().expect("a frame");
    assert_eq!(answer.kind, kind::PAIR_REPLY);
    let (first, words) = answer.payload.split_first().unwrap();
    (*first == 0, String::from_utf8(words.to_vec()).unwrap())
}

#[test]
fn a_proof_that_was_captured_is_good_on_no_other_connection() {
    let agent = Agent::new();
    let ticket = agent.sandbox.agent(["pair", "run"]).ok().stdout;
    let ticket: Ticket = ticket.trim().parse().unwrap();
    let host = Identity::generate().unwrap();
    block_on(async {
        // Held back on its way, so that the ticket is still open.
        let (_end, first) = to_pair(&agent, &host).await;
        let captured = proof(&first, &ticket, &host);
        // With the key of who made it, and with another.
        for (thief, left) in [(host.clone(), 4), (Identity::generate().unwrap(), 3)] {
            let (_end, second) = to_pair(&agent, &thief).await;
            let (is_in, words) = answer_to(&second, &captured).await;
            assert!(!is_in, "{words}");
            assert!(words.contains(&format!("{left} tries are left")), "{words}");
        }
        let (_end, own) = to_pair(&agent, &host).await;
        let good = proof(&own, &ticket, &host);
        assert_eq!(answer_to(&own, &good).await, (true, "run".into()));
        // Nor is it once the ticket is used up, from the host that is known now.
        let (_end, again) = to_pair(&agent, &host).await;
        for replayed in [good, proof(&again, &ticket, &host)] {
            let (_end, line) = to_pair(&agent, &host).await;
            let (is_in, words) = answer_to(&line, &replayed).await;
            assert!(!is_in && words.contains("no ticket is open"), "{words}");
        }
    });
    let hosts = agent.sandbox.state().join("identity/authorized_hosts");
    let hosts = std::fs::read_to_string(hosts).unwrap();
    assert_eq!(hosts.lines().count(), 1, "{hosts}");
}

/// What a stranger sends beyond the one frame that is read of it is not held in memory.
#[test]
fn a_stranger_with_an_open_ticket_sends_little_before_it_is_heard() {
    let agent = Agent::new();
    agent.sandbox.agent(["pair", "run"]).ok();
    let host = Identity::generate().unwrap();
    let window = |connection: Connection| async move {
        let (mut send, _receive) = connection.open_bi().await.unwrap();
        // The longest frame that is read of it, and then no end of others.
        let head = 4096_u32.to_le_bytes();
        send.write_all(&head).await.unwrap();
        let mut taken = head.len();
        let flood = async {
            while let Ok(bytes) = send.write(&[0x0f; 64 << 10]).await {
                taken += bytes;
            }
        };
        let _ = timeout(LIMIT, flood).await;
        taken
    };
    block_on(async {
        let (_end, stranger) = to_pair(&agent, &host).await;
        let taken = window(stranger).await;
        assert!(taken <= 32 << 10, "{taken} bytes of a stranger");
    });
}

#[test]
fn keys_in_each_others_place_open_nothing() {
    let (one, other) = (Agent::new(), Agent::new());
    let host = Identity::generate().unwrap();
    one.know(&host);
    other.know(&host);
    let connect = |address, key, host| {
        let board = Quic::new("x", vec![address], key, host);
        block_on(board.connect(StoreId::NONE)).map(drop)
    };
    for (agent, key) in [(&one, other.key), (&other, one.key)] {
        let refused = connect(agent.address, key, host.clone());
        assert!(
            matches!(refused, Err(ConnectError::WrongKey { .. })),
            "{refused:?}"
        );
    }
    // Nor is a board's own key one of a host.
    let own = one.sandbox.state().join("identity/agent.key");
    let own = Identity::from_pkcs8(std::fs::read(own).unwrap()).unwrap();
    let refused = connect(one.address, one.key, own);
    assert!(
        matches!(refused, Err(ConnectError::NotKnown { .. })),
        "{refused:?}"
    );
    connect(one.address, one.key, host).unwrap();
}

/// First packets of handshakes that nobody means to finish, each of another connection: what a client sends
/// to an address where nobody answers.
async fn first_packets(agent: &Agent, count: usize) -> Vec<Vec<u8>> {
    let sink = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let host = Identity::generate().unwrap();
    let mut packets = Vec::new();
    let mut packet = vec![0; 2048];
    for _ in 0..count {
        let crypto = tls::client(&host, Pin::Key(agent.key), Purpose::Session).unwrap();
        let config = ClientConfig::new(crypto as Arc<_>);
        let connecting = endpoint.connect_with(config, sink.local_addr().unwrap(), "x");
        let bytes = timeout(LIMIT, sink.recv(&mut packet)).await;
        packets.push(packet[..bytes.expect("a packet").unwrap()].to_vec());
        drop(connecting);
    }
    packets
}

#[test]
fn half_open_handshakes_take_no_memory_and_no_answers_from_a_host_that_works() {
    let agent = Agent::new();
    let host = Identity::generate().unwrap();
    agent.know(&host);
    let known = agent.board(host);
    block_on(async {
        let packets = first_packets(&agent, 200).await;
        let mut link = known.connect(StoreId::NONE).await.unwrap();
        let before = agent.resident_kib();
        // From many networks, so that no limit of one of them helps.
        let sources: Vec<_> = (1..=50)
            .map(|network| std::net::UdpSocket::bind((format!("127.0.{network}.1"), 0)).unwrap())
            .collect();
        for round in 0..20 {
            for (packet, source) in packets.iter().zip(sources.iter().cycle().skip(round)) {
                source.send_to(packet, agent.address).unwrap();
            }
            let asked = link.ask(edgedyno_shared::wire::request::Request::Queue);
            timeout(LIMIT, asked).await.expect("an answer").unwrap();
        }
        let grown = agent.resident_kib().saturating_sub(before);
        assert!(grown < 16 * 1024, "{grown} KiB more than before");
        // Not more comes back than what was sent: the agent is of no use against a third party.
        let mut answered = 0;
        let mut packet = [0; 2048];
        for source in &sources {
            source.set_nonblocking(true).unwrap();
            while let Ok(bytes) = source.recv(&mut packet) {
                answered += bytes;
            }
        }
        let sent: usize = packets.iter().map(Vec::len).sum::<usize>() * 20;
        assert!(answered <= 3 * sent, "{answered} bytes for {sent}");
        // Who is known still comes in, once the rate allows it.
        let mut again = known.connect(StoreId::NONE).await;
        for _ in 0..5 {
            if again.is_ok() {
                break;
            }
            again = known.connect(StoreId::NONE).await;
        }
        assert!(again.is_ok(), "{:?}", again.err());
    });
}
