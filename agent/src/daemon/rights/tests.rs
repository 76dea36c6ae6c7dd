//! Every role and everything that a host can ask for, over sessions as a carrier from the network gives them.

use std::rc::Rc;
use std::time::Duration;

use edgedyno_shared::case::{RuntimeRef, Tenant};
use edgedyno_shared::content::{ContentOffer, OfferedFile};
use edgedyno_shared::ids::{BuildId, Sha256};
use edgedyno_shared::link::key::PublicKey;
use edgedyno_shared::wire::event::Event;
use edgedyno_shared::wire::frame::{self, Frame, kind};
use edgedyno_shared::wire::hello::{Hello, HelloReply, Verdict};
use edgedyno_shared::wire::request::{OrderAnswer, Reply, Request, Upload};
use sha2::Digest;
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::time::timeout;

use super::super::owners::Owner;
use super::super::prepare;
use super::super::session::{self, Peer};
use super::super::testing::{block_on, daemon};
use super::*;
use crate::inputs::testing;

const ROLES: [Role; 3] = [Role::Observe, Role::Run, Role::Admin];

/// One host of the network, with a key and a store of its own.
struct Host {
    read: ReadHalf<DuplexStream>,
    write: WriteHalf<DuplexStream>,
    asked: u64,
    events: Vec<Event>,
}

impl Host {
    async fn connect(daemon: &Rc<Daemon>, role: Role) -> Self {
        let number = role as u8 + 1;
        let peer = Peer {
            may_name_paths: false,
            is_local: false,
            owner: Owner::Host(PublicKey([number; 32])),
            role,
            hello_within: None,
        };
        let (here, there) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(there);
        tokio::task::spawn_local(session::serve(Rc::clone(daemon), read, write, peer));
        let (read, write) = tokio::io::split(here);
        let mut host = Self {
            read,
            write,
            asked: 0,
            events: Vec::new(),
        };
        let hello = Hello::new(BuildId("test".into()), StoreId([number; 16]));
        host.send(&hello.to_frame()).await;
        let reply = host.next().await.unwrap();
        let reply = HelloReply::parse(&reply.payload).unwrap();
        assert_eq!(reply.verdict, Verdict::Welcome);
        host
    }

    async fn send(&mut self, frame: &Frame) {
        self.write.write_all(&frame.to_bytes()).await.unwrap();
    }

    /// None once the session has ended.
    async fn next(&mut self) -> Option<Frame> {
        let frame = frame::read(&mut self.read, frame::LIMIT);
        let frame = timeout(Duration::from_secs(60), frame).await;
        frame.expect("a frame in time").unwrap_or(None)
    }

    async fn ask(&mut self, request: Request) -> Result<Reply, Failure> {
        self.asked += 1;
        let asked = Frame::encode(kind::REQUEST, &(self.asked, request)).unwrap();
        self.send(&asked).await;
        loop {
            let frame = self.next().await.expect("a reply before the end");
            match frame.kind {
                kind::REPLY => {
                    let (of, reply) = frame.decode::<(u64, Result<Reply, Failure>)>().unwrap();
                    assert_eq!(of, self.asked);
                    return reply;
                }
                kind::EVENT => self.events.push(frame.decode().unwrap()),
                _ => {}
            }
        }
    }

    async fn take_board(&mut self, steal: bool, name: &str) -> Reply {
        let name = name.to_owned();
        self.ask(Request::TakeLease { steal, name }).await.unwrap()
    }

    /// Why the one order is refused; none when it is not.
    async fn order(&mut self, order: RepeatOrder) -> Option<Failure> {
        match self.ask(Request::Submit(vec![order])).await.unwrap() {
            Reply::Submitted(answers) => match answers.into_iter().next().unwrap() {
                OrderAnswer::Refused(failure) => Some(failure),
                OrderAnswer::Accepted | OrderAnswer::Known => None,
            },
            other => panic!("{other:?}"),
        }
    }
}

/// Who may ask for it over the network, as `docs/security.md` says it; none for nobody.
fn least(request: &Request) -> Option<Role> {
    Some(match request {
        Request::Info | Request::Queue | Request::Lease | Request::Watch | Request::Waiting => {
            Role::Observe
        }
        Request::Submit(_)
        | Request::Cancel { .. }
        | Request::Acknowledge { .. }
        | Request::Offer(_)
        | Request::Upload(_)
        | Request::GiveLease
        | Request::TakeLease { steal: false, .. } => Role::Run,
        Request::ProbeRuntime { .. }
        | Request::DropResults { .. }
        | Request::TakeLease { steal: true, .. } => Role::Admin,
        Request::MapContent(_) | Request::OpenPairing { .. } => return None,
    })
}

/// Every request that there is, made of nothing: what follows its number on the wire is zero.
fn requests() -> Vec<Request> {
    let made = (0..u8::MAX).map_while(|number| {
        let mut bytes = vec![0; 1024];
        bytes[0] = number;
        let made = postcard::take_from_bytes::<Request>(&bytes);
        made.ok().map(|(request, _)| request)
    });
    let mut all: Vec<Request> = made.collect();
    all.push(Request::TakeLease {
        steal: true,
        name: String::new(),
    });
    all
}

#[test]
fn every_role_may_ask_for_what_is_its_own_and_for_nothing_else() {
    let all = requests();
    assert!(all.len() > 16, "{all:?}");
    for role in ROLES {
        let folder = tempfile::tempdir().unwrap();
        let daemon = daemon(folder.path());
        block_on(async {
            let mut host = Host::connect(&daemon, role).await;
            for request in all.clone() {
                let may = least(&request).is_some_and(|least| role >= least);
                let asked = format!("{role} asks {request:?}");
                // What follows from it is another matter: most of them name nothing that is there.
                let answer = host.ask(request).await;
                let code = answer.as_ref().err().map(|failure| failure.code);
                let is_refused = code == Some(FailureCode::NotPermitted);
                assert_eq!(!is_refused, may, "{asked}: {answer:?}");
            }
        });
    }
}

#[test]
fn only_who_administers_a_board_retires_its_agent() {
    for role in ROLES {
        let folder = tempfile::tempdir().unwrap();
        let daemon = daemon(folder.path());
        block_on(async {
            let mut host = Host::connect(&daemon, role).await;
            host.send(&Frame::empty(kind::RETIRE)).await;
            let answer = host.next().await.map(|frame| frame.kind);
            let may = role == Role::Admin;
            assert_eq!(answer, may.then_some(kind::RETIRE_REPLY), "{role}");
            assert_eq!(daemon.retiring.get(), may, "{role}");
        });
    }
}

/// Orders that only who administers a board may give.
fn orders_for_admins() -> Vec<RepeatOrder> {
    let order = testing::job().order;
    let mut clocks = order.clone();
    clocks.preparation.fix_clocks = true;
    let option = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let named = [
        option("provider.backend_path", "/tmp/evil.so"),
        option("ep.context_file_path", "x"),
        option("session.not_known_yet", "1"),
    ];
    let own = named.iter().map(|named| {
        let mut order = order.clone();
        order.case.backend = "onnxruntime".into();
        order.case.options = vec![option("arena", "off"), named.clone()];
        order
    });
    let beside = named.iter().map(|named| {
        let mut order = order.clone();
        order.case.tenants = vec![Tenant {
            model: order.case.model.clone(),
            backend: "onnxruntime".into(),
            runtime: None,
            options: vec![named.clone()],
            threads: 1,
            cpus: vec![0],
            millihertz: None,
        }];
        order
    });
    let all = std::iter::once(clocks).chain(own).chain(beside);
    let numbered = all.zip(0..).map(|(mut order, number)| {
        order.key.repeat = number;
        order
    });
    numbered.collect()
}

#[test]
fn an_order_that_changes_the_board_or_names_its_files_is_for_who_administers_it() {
    for role in [Role::Run, Role::Admin] {
        let folder = tempfile::tempdir().unwrap();
        let daemon = daemon(folder.path());
        block_on(async {
            let mut host = Host::connect(&daemon, role).await;
            host.take_board(false, "a test").await;
            for order in orders_for_admins() {
                let told = format!("{role}: {:?}", order.case);
                let refused = host.order(order).await.map(|failure| failure.code);
                let expected = (role == Role::Run).then_some(FailureCode::NotPermitted);
                assert_eq!(refused, expected, "{told}");
            }
            let mut plain = testing::job().order;
            plain.key.repeat = 1000;
            plain.case.backend = "onnxruntime".into();
            plain.case.options = vec![("session.set_denormal_as_zero".into(), "1".into())];
            assert_eq!(host.order(plain).await, None, "{role}");
        });
    }
}

/// As a shared library that a host made up comes: as a content like any other.
#[test]
fn what_a_host_uploaded_is_never_opened_as_a_library() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path());
    let bytes = b"\x7fELF and the rest of it".to_vec();
    let sha256 = Sha256(sha2::Sha256::digest(&bytes).into());
    block_on(async {
        let mut host = Host::connect(&daemon, Role::Run).await;
        let file = OfferedFile {
            name: "libonnxruntime.so".into(),
            sha256,
            bytes: bytes.len() as u64,
        };
        let files = vec![file];
        let offered = host
            .ask(Request::Offer(ContentOffer { sha256, files }))
            .await;
        assert_eq!(offered, Ok(Reply::Offered(vec![0])));
        let length = bytes.len() as u64;
        let upload = Upload {
            sha256,
            offset: 0,
            bytes,
        };
        assert_eq!(
            host.ask(Request::Upload(upload)).await,
            Ok(Reply::Uploaded(length))
        );
    });
    let mut order = testing::job().order;
    order.case.backend = "onnxruntime".into();
    order.case.model.sha256 = sha256;
    assert!(
        prepare::job(&daemon, &order, vec![0]).is_ok(),
        "as a model it is there"
    );
    let runtime = RuntimeRef {
        version: "1.32.0".into(),
        sha256,
    };
    order.case.tenants = vec![Tenant {
        model: order.case.model.clone(),
        backend: "onnxruntime".into(),
        runtime: Some(runtime.clone()),
        options: Vec::new(),
        threads: 1,
        cpus: vec![0],
        millihertz: None,
    }];
    let beside = prepare::tenants(&daemon, &order).unwrap_err();
    order.case.tenants.clear();
    order.case.runtime = Some(runtime);
    let own = prepare::job(&daemon, &order, vec![0]).unwrap_err();
    for refused in [own, beside] {
        assert_eq!(refused.code, FailureCode::NotFound);
        assert!(refused.detail.contains("no library 1.32.0"), "{refused:?}");
    }
}

#[test]
fn a_name_that_a_host_gives_itself_reaches_no_other_raw() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path());
    block_on(async {
        let mut victim = Host::connect(&daemon, Role::Run).await;
        victim.take_board(false, "one\u{1b}]0;x\u{7}\u{202e}").await;
        let mut thief = Host::connect(&daemon, Role::Admin).await;
        let Reply::Lease(before) = thief.ask(Request::Lease).await.unwrap() else {
            panic!("another reply");
        };
        assert_eq!(before.holder.unwrap().name, "one]0;x");
        thief.take_board(true, " two\r\n\u{1b}[2J\u{9b}31m ").await;
        let Reply::Lease(after) = victim.ask(Request::Lease).await.unwrap() else {
            panic!("another reply");
        };
        assert_eq!(after.holder.unwrap().name, "two[2J31m");
        while victim.events.is_empty() {
            victim.ask(Request::Lease).await.unwrap();
        }
        let to = "two[2J31m".to_owned();
        assert_eq!(victim.events, [Event::LeaseLost { to }]);
    });
}
