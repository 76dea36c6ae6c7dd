//! Host and agent of versions that do not go together, over the network: said, with what to do about it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use edgedyno_shared::ids::{BuildId, StoreId};
use edgedyno_shared::link::key::{Identity, PublicKey};
use edgedyno_shared::link::tls::{self, Admission, Pin, Purpose};
use edgedyno_shared::wire::frame::{self, Frame, kind};
use edgedyno_shared::wire::hello::{DaemonStatus, Hello, HelloReply, Verdict};
use edgedyno_tests::Sandbox;
use edgedyno_tests::commands::{QUICK, small_model};
use edgedyno_tests::lab::{Lab, line};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{ClientConfig, Endpoint, ServerConfig};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Everybody;

impl Admission for Everybody {
    fn admits(&self, _: PublicKey) -> bool {
        true
    }
}

/// Runs an agent of our making until the test ends; returns where it is.
fn start(config: ServerConfig) -> SocketAddr {
    let (give, take) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let endpoint = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
            give.send(endpoint.local_addr().unwrap()).unwrap();
            while let Some(incoming) = endpoint.accept().await {
                let Ok(connection) = incoming.await else {
                    continue;
                };
                tokio::spawn(greet(connection));
            }
        });
    });
    take.recv_timeout(LIMIT).unwrap()
}

/// Answers a hello as an agent of another schema does.
async fn greet(connection: quinn::Connection) {
    let (mut send, mut receive) = connection.accept_bi().await.unwrap();
    let hello = frame::read(&mut receive, frame::LIMIT)
        .await
        .unwrap()
        .unwrap();
    let own = Hello {
        schema: [9; 32],
        ..Hello::new(BuildId("of another time".into()), StoreId::NONE)
    };
    let reply = own
        .answer(&Hello::parse(&hello.payload).unwrap())
        .to_frame();
    send.write_all(&reply.to_bytes()).await.unwrap();
    connection.closed().await;
}

/// A host that knows this agent as `x`.
fn host_of(address: SocketAddr, key: PublicKey) -> Sandbox {
    let sandbox = Sandbox::new();
    let base = sandbox.state();
    let folder = base.parent().unwrap().join("home/.config/edgedyno");
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!("[boards.x]\naddresses = [\"{address}\"]\nkey = \"{key}\"\n");
    std::fs::write(folder.join("boards.toml"), text).unwrap();
    sandbox
}

/// Whatever is asked of the board, the answer is exit 7 and what to do.
fn assert_incompatible(sandbox: &Sandbox, words: &str) {
    let model = small_model(sandbox);
    let measure = line(&model, &[&QUICK[..], &["--backend", "fake"]].concat());
    let ask = ["runtime", "list", "--board", "x"].map(str::to_owned);
    for command in [measure, ask.to_vec()] {
        let refused = sandbox.edgedyno(command).expect_code(7);
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("board update"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn an_agent_of_another_schema_is_exit_7_with_what_to_do() {
    let identity = Identity::generate().unwrap();
    let crypto = tls::server(&identity, Arc::new(Everybody)).unwrap();
    let address = start(ServerConfig::with_crypto(crypto));
    let sandbox = host_of(address, identity.public());
    assert_incompatible(&sandbox, "of another time");
}

#[test]
fn an_agent_of_another_major_version_is_exit_7_before_a_byte_of_ours() {
    let identity = Identity::generate().unwrap();
    let key = PrivatePkcs8KeyDer::from(identity.pkcs8().to_vec());
    let key = rustls::crypto::ring::sign::any_eddsa_type(&key).unwrap();
    let spki = CertificateDer::from(identity.public().to_spki());
    let certified = Arc::new(CertifiedKey::new(vec![spki], key));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified)));
    config.alpn_protocols = vec![b"edgedyno/2".to_vec()];
    let crypto = QuicServerConfig::try_from(config).unwrap();
    let address = start(ServerConfig::with_crypto(Arc::new(crypto)));
    let sandbox = host_of(address, identity.public());
    assert_incompatible(&sandbox, "another version of the protocol");
}

#[test]
fn a_host_of_another_schema_may_look_and_no_more_and_disturbs_nobody() {
    let lab = Lab::paired("run");
    let host = Identity::generate().unwrap();
    let hosts = lab.identity("authorized_hosts");
    let known = std::fs::read_to_string(&hosts).unwrap();
    std::fs::write(&hosts, format!("{known}run {} another\n", host.public())).unwrap();
    let key = std::fs::read(lab.identity("agent.key")).unwrap();
    let agent = Identity::from_pkcs8(key).unwrap().public();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let crypto = tls::client(&host, Pin::Key(agent), Purpose::Session).unwrap();
        let config = ClientConfig::new(crypto);
        let connecting = endpoint.connect_with(config, lab.address, "x").unwrap();
        let connection = connecting.await.unwrap();
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        let mut answer = async |frame: Frame| {
            frame::write(&mut send, &frame).await.unwrap();
            send.flush().await.unwrap();
            let answer = timeout(LIMIT, frame::read(&mut receive, frame::LIMIT)).await;
            answer.expect("an answer").unwrap()
        };
        let hello = Hello {
            schema: [9; 32],
            ..Hello::new(BuildId("of another time".into()), StoreId([5; 16]))
        };
        let reply = answer(hello.to_frame()).await.unwrap();
        let reply = HelloReply::parse(&reply.payload).unwrap();
        assert_eq!(reply.verdict, Verdict::Incompatible);
        let status = answer(Frame::empty(kind::STATUS)).await.unwrap();
        assert_eq!(status.kind, kind::STATUS_REPLY);
        assert!(!DaemonStatus::parse(&status.payload).unwrap().running);
        // A request is none of what is frozen.
        let request = Frame {
            kind: kind::REQUEST,
            payload: vec![1, 0],
        };
        let refused = answer(request).await.unwrap();
        assert_eq!(
            (refused.kind, refused.payload),
            (kind::UNSUPPORTED, vec![kind::REQUEST])
        );
    });
    let model = small_model(&lab.sandbox);
    lab.run(&model, &[&QUICK[..], &["--backend", "fake"]].concat())
        .ok();
}
