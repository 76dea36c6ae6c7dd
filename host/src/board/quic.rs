//! A board on the network, reached by QUIC and known by its key.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use edgedyno_shared::ids::StoreId;
use edgedyno_shared::link::key::{Identity, PublicKey};
use edgedyno_shared::link::role::Role;
use edgedyno_shared::link::ticket::{PROOF_LABEL, Ticket};
use edgedyno_shared::link::tls::{self, ACCESS_DENIED, NO_PROTOCOL, Pin, Purpose};
use edgedyno_shared::link::transport::{self, End};
use edgedyno_shared::wire::frame::{self, Frame, FrameError, kind};
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, VarInt};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::known::KnownBoard;
use super::link::{Greeted, Link, LinkError};
use super::{Board, ConnectError};

/// An address that does not answer within this time is none.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// A line on which nothing was heard for this long is dead, and a new one is tried: QUIC itself would wait
/// longer and longer between its own tries, and heal a cut only as late again as it lasted.
const SILENCE: Duration = Duration::from_secs(3);

/// How long the last packets may take to leave.
const LAST_WORDS: Duration = Duration::from_millis(20);

/// QUIC's number for a TLS alert, less the alert (RFC 9001, section 4.8).
const CRYPTO_ERROR: u64 = 0x100;

/// The agent's reason for closing: the key is not, or no longer, on its list.
const NOT_KNOWN: VarInt = VarInt::from_u32(1);

/// A board on the network.
#[derive(Debug, Clone)]
pub struct Quic {
    name: String,
    addresses: Vec<SocketAddr>,
    key: PublicKey,
    identity: Identity,
}

impl Quic {
    pub fn new(name: &str, addresses: Vec<SocketAddr>, key: PublicKey, identity: Identity) -> Self {
        Self {
            name: name.to_owned(),
            addresses,
            key,
            identity,
        }
    }

    async fn session(&self, address: SocketAddr, store: StoreId) -> Result<Link, ConnectError> {
        let pin = Pin::Key(self.key);
        let line = Line::dial(address, &self.identity, pin, Purpose::Session).await?;
        let connection = line.connection.clone();
        let greeted = async {
            let opened = connection.open_bi().await.map_err(io::Error::from);
            let (send, receive) = opened.map_err(FrameError::from)?;
            Greeted::greet(receive, send, store).await
        };
        // TLS is content before the agent has seen this host's key: only its hello says that it is let in.
        match greeted.await {
            Ok(greeted) => {
                let watch = AbortOnDrop(tokio::spawn(watch(connection)));
                let farewell = async {
                    drop(watch);
                    line.farewell().await;
                };
                Ok(greeted.keeping(Box::pin(farewell)).into_link()?)
            }
            Err(why) => Err(match line.connection.close_reason() {
                Some(reason) => refusal(address, reason),
                None => why.into(),
            }),
        }
    }
}

impl Board for Quic {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_remote(&self) -> bool {
        true
    }

    async fn connect(&self, store: StoreId) -> Result<Link, ConnectError> {
        let mut last = None;
        for address in &self.addresses {
            match self.session(*address, store).await {
                Err(why @ ConnectError::Unreachable { .. }) => last = Some(why),
                result => return result,
            }
        }
        Err(last.unwrap_or(ConnectError::NoAddress))
    }
}

/// Ends a connection on which nothing is heard any more. Both sides say something every second.
async fn watch(connection: Connection) {
    let mut heard = (0, Instant::now());
    while connection.close_reason().is_none() {
        sleep(SILENCE / 6).await;
        let datagrams = connection.stats().udp_rx.datagrams;
        if datagrams != heard.0 {
            heard = (datagrams, Instant::now());
        }
        if heard.1.elapsed() > SILENCE {
            tracing::info!("nothing was heard for {} s", SILENCE.as_secs());
            connection.close(VarInt::from_u32(0), b"nothing was heard");
        }
    }
}

/// A task that ends with its owner.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What pairing came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paired {
    pub board: KnownBoard,
    pub role: Role,
}

/// Shows an agent the ticket it gave out, so that the two know each other from now on.
pub async fn pair(
    ticket: &Ticket,
    identity: &Identity,
    name: &str,
) -> Result<Paired, ConnectError> {
    let mut last = None;
    for address in &ticket.addresses {
        let pin = Pin::Fingerprint(ticket.agent);
        match Line::dial(*address, identity, pin, Purpose::Pair).await {
            Ok(line) => return line.pair(ticket, identity.public(), name).await,
            Err(why @ ConnectError::Unreachable { .. }) => last = Some(why),
            Err(why) => return Err(why),
        }
    }
    Err(last.unwrap_or(ConnectError::NoAddress))
}

/// A connection with the socket under it.
struct Line {
    address: SocketAddr,
    endpoint: Endpoint,
    connection: Connection,
}

impl Line {
    async fn dial(
        address: SocketAddr,
        identity: &Identity,
        agent: Pin,
        purpose: Purpose,
    ) -> Result<Self, ConnectError> {
        let unreachable = |source: io::Error| ConnectError::Unreachable { address, source };
        let (endpoint, config) = prepare(address, identity, agent, purpose).map_err(unreachable)?;
        let connecting = endpoint
            .connect_with(config, address, "edgedyno")
            .map_err(|why| unreachable(io::Error::other(why)))?;
        match timeout(ANSWER_WITHIN, connecting).await {
            Ok(Ok(connection)) => Ok(Self {
                address,
                endpoint,
                connection,
            }),
            Ok(Err(why)) => Err(refusal(address, why)),
            Err(_) => Err(unreachable(io::ErrorKind::TimedOut.into())),
        }
    }

    async fn pair(
        self,
        ticket: &Ticket,
        own: PublicKey,
        name: &str,
    ) -> Result<Paired, ConnectError> {
        let answer = self.show(ticket, own, name).await;
        let key = tls::peer_key(&self.connection);
        let (address, reason) = (self.address, self.connection.close_reason());
        self.farewell().await;
        let payload = match (answer, reason) {
            (Ok(payload), _) => payload,
            (Err(_), Some(reason)) => return Err(refusal(address, reason)),
            (Err(why), None) => return Err(LinkError::from(why).into()),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match payload.split_first() {
            Some((0, role)) => {
                let role = text(role).parse();
                let role = role.map_err(|_| LinkError::Unexpected("a role that is none"))?;
                let key = key.map_err(|_| LinkError::Unexpected("no key"))?;
                let addresses = with_first(&ticket.addresses, address);
                let board = KnownBoard {
                    addresses,
                    key: Some(key),
                    ssh: None,
                };
                Ok(Paired { board, role })
            }
            Some((1, why)) => Err(ConnectError::TicketRefused(text(why))),
            _ => Err(LinkError::Unexpected("something else than about the ticket").into()),
        }
    }

    /// Sends the proof; the payload of the answer comes back.
    async fn show(
        &self,
        ticket: &Ticket,
        own: PublicKey,
        name: &str,
    ) -> Result<Vec<u8>, FrameError> {
        let mut exported = [0; 32];
        self.connection
            .export_keying_material(&mut exported, PROOF_LABEL, b"")
            .map_err(|_| io::Error::other("no keying material"))?;
        let proof = ticket.secret.proof(&exported, own);
        let frame = Frame {
            kind: kind::PAIR,
            payload: [&proof, name.as_bytes()].concat(),
        };
        let (mut send, mut receive) = self.connection.open_bi().await.map_err(io::Error::from)?;
        frame::write(&mut send, &frame).await?;
        send.shutdown().await?;
        let answer = frame::read(&mut receive, frame::LIMIT_BEFORE_AUTHENTICATION);
        let answer = timeout(ANSWER_WITHIN, answer)
            .await
            .map_err(io::Error::from)??;
        match answer {
            Some(frame) if frame.kind == kind::PAIR_REPLY => Ok(frame.payload),
            _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
    }

    /// Lets the other side know that nobody is there any more.
    async fn farewell(self) {
        self.connection.close(VarInt::from_u32(0), b"");
        let _ = timeout(LAST_WORDS, self.endpoint.wait_idle()).await;
    }
}

fn prepare(
    address: SocketAddr,
    identity: &Identity,
    agent: Pin,
    purpose: Purpose,
) -> io::Result<(Endpoint, ClientConfig)> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    let receive = transport::ask_for_buffer(&socket);
    let gso = transport::may_use_gso(|name| std::env::var_os(name));
    tracing::info!(
        "to {address}: receive buffer {} bytes, stream window {} bytes, offload {}",
        receive
            .granted
            .map_or("unknown".into(), |bytes| bytes.to_string()),
        receive.window,
        if gso { "allowed" } else { "off" }
    );
    let crypto = tls::client(identity, agent, purpose).map_err(io::Error::other)?;
    let mut config = ClientConfig::new(crypto);
    config.transport_config(Arc::new(transport::settings(End::Host, receive, gso)));
    let runtime = Arc::new(quinn::TokioRuntime);
    let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, runtime)?;
    Ok((endpoint, config))
}

/// What the end of a connection says about who did not want whom.
fn refusal(address: SocketAddr, why: ConnectionError) -> ConnectError {
    let alert = |code: quinn::TransportErrorCode| u64::from(code).checked_sub(CRYPTO_ERROR);
    match &why {
        ConnectionError::TransportError(own) if alert(own.code) == Some(ACCESS_DENIED.into()) => {
            ConnectError::WrongKey { address }
        }
        ConnectionError::ConnectionClosed(close) => match alert(close.error_code) {
            Some(code) if code == u64::from(ACCESS_DENIED) => ConnectError::NotKnown { address },
            Some(code) if code == u64::from(NO_PROTOCOL) => ConnectError::OtherProtocol { address },
            _ => ConnectError::Unreachable {
                address,
                source: why.into(),
            },
        },
        ConnectionError::ApplicationClosed(close) if close.error_code == NOT_KNOWN => {
            ConnectError::NotKnown { address }
        }
        ConnectionError::VersionMismatch => ConnectError::OtherProtocol { address },
        _ => ConnectError::Unreachable {
            address,
            source: why.into(),
        },
    }
}

/// The address that answered is asked first from now on.
fn with_first(all: &[SocketAddr], first: SocketAddr) -> Vec<SocketAddr> {
    let others = all.iter().copied().filter(|address| *address != first);
    std::iter::once(first).chain(others).collect()
}
