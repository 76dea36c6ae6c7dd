//! QUIC: a second listener of the daemon, for hosts that it knows by their keys.
//!
//! A connection is a handshake, then one stream with the same frames as the socket. Until a host has said
//! a welcome hello, every phase has a deadline, a frame is short, and there is one stream.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use edgedyno_shared::link::key::{Identity, PublicKey};
use edgedyno_shared::link::role::Role;
use edgedyno_shared::link::ticket::{PROOF_LABEL, Secret, Ticket};
use edgedyno_shared::link::tls::{self, Purpose};
use edgedyno_shared::link::transport::{self, End};
use edgedyno_shared::wire::frame::{self, Frame, kind};
use nix::ifaddrs::getifaddrs;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use quinn::{Connection, Endpoint, EndpointConfig, Incoming, RecvStream, SendStream, VarInt};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::{sleep, timeout};

use super::access::{Access, KnownHost};
use super::gate::{Entry, Gate};
use super::identity;
use super::owners::Owner;
use super::pairing::{Tried, proof_and_name};
use super::session::{self, Peer};
use super::state::Daemon;
use crate::clock::{Clock, Monotonic};

/// The port where an agent listens unless told otherwise.
pub const PORT: u16 = 7447;

/// Handshake, opening of the stream, hello: each may take this long.
const PHASE: Duration = Duration::from_secs(3);

/// Handshakes that may wait to be taken up, and what they may hold in memory.
const WAITING: usize = 64;
const WAITING_BYTES: u64 = 64 << 10;

/// Without a word of the kernel, the list of hosts is looked at this often while one is connected.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The host reads the last answer before the connection goes.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why the agent closes a connection, as QUIC's application error.
const BYE: VarInt = VarInt::from_u32(0);
const NOT_KNOWN: VarInt = VarInt::from_u32(1);
const TOO_SLOW: VarInt = VarInt::from_u32(2);

/// The listener, and who is connected.
pub struct Network {
    /// As bound; port 0 is a number here.
    pub address: SocketAddr,
    access: Arc<Access>,
    identity: Identity,
    endpoint: Endpoint,
    /// What a host may have under way that is known.
    window: VarInt,
    live: RefCell<Vec<Live>>,
    /// Handshakes under way.
    open: Cell<usize>,
}

/// A connection past its handshake.
struct Live {
    number: usize,
    host: PublicKey,
    role: Role,
    connection: Connection,
}

impl Network {
    /// Binds the address, and makes the agent's key on first use.
    pub fn bind(address: SocketAddr, state: &std::path::Path) -> io::Result<Self> {
        let identity = identity::load_or_make(state)?;
        let access = Arc::new(Access::open(state)?);
        let socket = UdpSocket::bind(address)?;
        let receive = transport::ask_for_buffer(&socket);
        let gso = transport::may_use_gso(|name| std::env::var_os(name));
        let address = socket.local_addr()?;
        let mut config = server_config(&identity, &access)?;
        config.transport_config(Arc::new(transport::settings(End::Agent, receive, gso)));
        let runtime = Arc::new(quinn::TokioRuntime);
        let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime)?;
        tracing::info!(
            "listening on {address} as {}; receive buffer {} bytes, stream window {} bytes, offload {}",
            identity.public().fingerprint(),
            receive
                .granted
                .map_or("unknown".into(), |bytes| bytes.to_string()),
            receive.window,
            if gso { "allowed" } else { "off" }
        );
        Ok(Self {
            address,
            access,
            identity,
            endpoint,
            window: transport::window_of_known(receive),
            live: RefCell::default(),
            open: Cell::new(0),
        })
    }

    /// Lets one host in that holds the ticket returned, for as long as is said with it.
    pub fn open_pairing(&self, role: Role) -> io::Result<(Ticket, Duration)> {
        let secret = draw_secret()?;
        let open_for = self.access.open_pairing(secret.clone(), role);
        let ticket = Ticket {
            addresses: reachable(self.address),
            agent: self.identity.public().fingerprint(),
            secret,
        };
        Ok((ticket, open_for))
    }

    /// Takes handshakes up until the endpoint is closed.
    pub async fn serve(self: Rc<Self>, daemon: Rc<Daemon>) {
        tokio::task::spawn_local(Rc::clone(&self).watch());
        let mut gate = Gate::new(Monotonic.now());
        while let Some(incoming) = self.endpoint.accept().await {
            let from = incoming.remote_address().ip();
            let is_validated = incoming.remote_address_validated();
            match gate.judge(Monotonic.now(), from, is_validated, self.open.get()) {
                Entry::Accept => {
                    let greeting = Rc::clone(&self).greet(Rc::clone(&daemon), incoming);
                    tokio::task::spawn_local(greeting);
                }
                // Fails for a packet that was validated already, which is not the case here.
                Entry::Validate => drop(incoming.retry()),
                Entry::Ignore => incoming.ignore(),
            }
        }
    }

    /// Ends every connection.
    pub async fn close(&self) {
        self.endpoint.close(BYE, b"the agent leaves");
        let _ = timeout(Duration::from_millis(100), self.endpoint.wait_idle()).await;
    }

    async fn greet(self: Rc<Self>, daemon: Rc<Daemon>, incoming: Incoming) {
        let from = incoming.remote_address();
        let shaken = {
            let _open = Counted::new(&self.open);
            match incoming.accept() {
                Ok(connecting) => timeout(PHASE, connecting).await,
                Err(why) => Ok(Err(why)),
            }
        };
        let connection = match shaken {
            Ok(Ok(connection)) => connection,
            Ok(Err(why)) => return tracing::info!("a handshake from {from} failed: {why}"),
            Err(_) => return tracing::info!("a handshake from {from} took too long"),
        };
        let Ok(key) = tls::peer_key(&connection) else {
            return connection.close(NOT_KNOWN, b"no key");
        };
        match tls::purpose(&connection) {
            Some(Purpose::Session) => self.session(daemon, connection, key).await,
            Some(Purpose::Pair) => self.pair(&connection, key).await,
            None => connection.close(NOT_KNOWN, b"no purpose"),
        }
    }

    async fn session(&self, daemon: Rc<Daemon>, connection: Connection, key: PublicKey) {
        let from = connection.remote_address();
        // A ticket that is open lets strangers through TLS, to pair and for nothing else.
        let Some(host) = self.access.find(key) else {
            tracing::info!(
                "{from} has the key {}, which is not known",
                key.fingerprint()
            );
            return connection.close(NOT_KNOWN, b"this key is not known here");
        };
        connection.set_receive_window(self.window);
        let _live = self.register(&host, &connection);
        let Ok(Ok((send, receive))) = timeout(PHASE, connection.accept_bi()).await else {
            return connection.close(TOO_SLOW, b"no stream was opened");
        };
        tracing::info!(
            "{} ({}, {}) comes from {from}",
            host.name,
            host.role,
            key.fingerprint()
        );
        let peer = Peer {
            may_name_paths: false,
            is_local: false,
            owner: Owner::Host(key),
            role: host.role,
            hello_within: Some(PHASE),
        };
        session::serve(daemon, receive, send, peer).await;
        let _ = timeout(LAST_WORDS, connection.closed()).await;
        connection.close(BYE, b"");
    }

    fn register(&self, host: &KnownHost, connection: &Connection) -> Registered<'_> {
        let number = connection.stable_id();
        self.live.borrow_mut().push(Live {
            number,
            host: host.key,
            role: host.role,
            connection: connection.clone(),
        });
        Registered {
            network: self,
            number,
        }
    }

    async fn pair(&self, connection: &Connection, key: PublicKey) {
        let answered = async {
            let (send, mut receive) = connection.accept_bi().await.map_err(io::Error::other)?;
            let answer = self.take_proof(connection, key, &mut receive).await?;
            answer_pairing(send, &answer).await
        };
        let from = connection.remote_address();
        match timeout(PHASE, answered).await {
            Ok(Ok(())) => drop(timeout(LAST_WORDS, connection.closed()).await),
            Ok(Err(why)) => tracing::info!("a pairing from {from} failed: {why}"),
            Err(_) => tracing::info!("a pairing from {from} took too long"),
        }
        connection.close(BYE, b"");
    }

    /// Reads one frame and says what became of it: a role, or why not.
    async fn take_proof(
        &self,
        connection: &Connection,
        key: PublicKey,
        receive: &mut RecvStream,
    ) -> io::Result<Result<Role, String>> {
        let frame = frame::read(receive, frame::LIMIT_BEFORE_AUTHENTICATION).await;
        let frame = frame.map_err(io::Error::other)?;
        let payload = match &frame {
            Some(frame) if frame.kind == kind::PAIR => frame.payload.as_slice(),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        let (proof, name) = proof_and_name(payload).ok_or(io::ErrorKind::InvalidData)?;
        let mut exported = [0; 32];
        connection
            .export_keying_material(&mut exported, PROOF_LABEL, b"")
            .map_err(|_| io::Error::other("no keying material"))?;
        let tried = self.access.pair(&exported, key, proof, &name)?;
        let who = format!("{} ({})", connection.remote_address(), key.fingerprint());
        Ok(match tried {
            Tried::Welcome(role) => {
                tracing::info!("{who} paired as {role}");
                Ok(role)
            }
            Tried::Wrong { tries_left } => {
                tracing::warn!("{who} does not know the ticket; {tries_left} tries are left");
                Err(format!(
                    "the ticket is not the one that is open; {tries_left} tries are left"
                ))
            }
            Tried::Closed => {
                tracing::warn!("{who} came with a ticket when none was open");
                Err("no ticket is open: it was used, burnt, or has expired".into())
            }
        })
    }

    /// Reads the list of hosts whenever it changes, and ends the connections of those no longer on it. The
    /// kernel tells of changes in its folder; of a folder that was moved away, and of a list that is a link to
    /// one elsewhere, nobody tells.
    async fn watch(self: Rc<Self>) {
        let told = async {
            if let Err(why) = self.watch_folder().await {
                tracing::warn!(
                    "changes of {} are seen within {} s only: {why}",
                    self.access.path().display(),
                    LOOK_AGAIN.as_secs()
                );
            }
        };
        let looked = async {
            loop {
                sleep(LOOK_AGAIN).await;
                self.close_revoked();
            }
        };
        tokio::join!(told, looked);
    }

    async fn watch_folder(&self) -> io::Result<()> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let folder = self.access.path().parent().unwrap_or(self.access.path());
        let changes = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_DELETE;
        inotify.add_watch(folder, changes)?;
        // To the kernel's readiness one descriptor is like another.
        let changes = Receiver::from_owned_fd_unchecked(inotify.as_fd().try_clone_to_owned()?)?;
        let mut events = [0; 4096];
        loop {
            changes.readable().await?;
            while changes.try_read(&mut events).is_ok_and(|bytes| bytes > 0) {}
            // An editor's several steps are one change.
            sleep(Duration::from_millis(10)).await;
            if let Err(why) = self.access.reload() {
                tracing::error!("nobody comes in over the network: {why}");
            }
            self.close_revoked();
        }
    }

    fn close_revoked(&self) {
        for live in self.live.borrow().iter() {
            let known = self.access.find(live.host);
            if known.is_none_or(|host| host.role != live.role) {
                tracing::info!(
                    "{} was taken off the list or has another role",
                    live.host.fingerprint()
                );
                live.connection.close(NOT_KNOWN, b"this key was revoked");
            }
        }
    }
}

/// Takes its connection off the list when it ends, however it ends.
struct Registered<'a> {
    network: &'a Network,
    number: usize,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut live = self.network.live.borrow_mut();
        live.retain(|live| live.number != self.number);
    }
}

/// Counts a handshake as long as it lasts.
struct Counted<'a>(&'a Cell<usize>);

impl<'a> Counted<'a> {
    fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

fn server_config(identity: &Identity, access: &Arc<Access>) -> io::Result<quinn::ServerConfig> {
    let admission = Arc::clone(access);
    let crypto = tls::server(identity, admission).map_err(io::Error::other)?;
    let mut config = quinn::ServerConfig::with_crypto(crypto);
    config
        .max_incoming(WAITING)
        .incoming_buffer_size(WAITING_BYTES / 4)
        .incoming_buffer_size_total(WAITING_BYTES);
    Ok(config)
}

async fn answer_pairing(mut send: SendStream, answer: &Result<Role, String>) -> io::Result<()> {
    let payload = match answer {
        Ok(role) => [&[0], role.name().as_bytes()].concat(),
        Err(why) => [&[1], why.as_bytes()].concat(),
    };
    let frame = Frame {
        kind: kind::PAIR_REPLY,
        payload,
    };
    send.write_all(&frame.to_bytes()).await?;
    send.shutdown().await
}

fn draw_secret() -> io::Result<Secret> {
    let mut bytes = [0; 10];
    let mut random = std::fs::File::open("/dev/urandom")?;
    io::Read::read_exact(&mut random, &mut bytes)?;
    Ok(Secret(bytes))
}

/// Where a host can reach what was bound: the address itself, or those of all interfaces.
fn reachable(bound: SocketAddr) -> Vec<SocketAddr> {
    if !bound.ip().is_unspecified() {
        return vec![bound];
    }
    let interfaces = getifaddrs().into_iter().flatten();
    let addresses = interfaces.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
    });
    // A link-local address means nothing without the name of an interface of the other side.
    let is_of_use = |ip: &IpAddr| match ip {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
        IpAddr::V6(v6) => bound.is_ipv6() && !v6.is_loopback() && !v6.is_unicast_link_local(),
    };
    let mut addresses: Vec<IpAddr> = addresses.filter(is_of_use).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.truncate(8);
    addresses
        .into_iter()
        .map(|ip| SocketAddr::new(ip, bound.port()))
        .collect()
}
