//! Plans driven against a scripted agent that keeps its queue and spool over connections.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use edgedyno_shared::case::{Case, InputFile, InputSource};
use edgedyno_shared::ids::{BootId, RunId, Sha256, StoreId};
use edgedyno_shared::order::{OrderKey, RepeatOrder};
use edgedyno_shared::repeat::{Outcome, RepeatEnd};
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::event::Event;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame::{self, Frame, kind};
use edgedyno_shared::wire::hello::schema_hash;
use edgedyno_shared::wire::record::{Record, SegmentHeader};
use edgedyno_shared::wire::request::{
    LeaseState, OrderAnswer, QueueEntry, QueueState, Reply, Request, UPLOAD_BYTES, Upload,
};
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::interrupts::Interrupts;
use super::parallel::{Job, side_by_side};
use super::upload::{AHEAD, OFFERS_AHEAD};
use super::{DriveEnd, DriveError, DriveEvent, Driver, LeaseWish, Plan};
use crate::board::content::Content;
use crate::board::link::{Greeted, Link, LinkError};
use crate::board::script::FakeAgent;
use crate::board::ssh::{Fault, Shell, SshError};
use crate::board::{Board, ConnectError};
use crate::plan::Planner;
use crate::plan::fixed::StaticPlan;
use crate::plan::fixed::tests::{case, conduct};
use crate::store::rows::{OutcomeKind, RulesRow};
use crate::store::sample::{new_run, new_store, run_id};
use crate::store::{NewCase, Store};

/// What the agent does with the order that it has run so far.
#[derive(Debug, Clone, PartialEq)]
enum Fate {
    Measure,
    Fail(FailureCode),
    /// Closes the connection in the middle of the segment.
    CutDelivery,
    /// Listens for a while before it sends the last record of the segment.
    Tarry,
    /// Closes the connection and forgets the order.
    Forget,
    /// Measures, and is gone before the acknowledgement arrives.
    CutBeforeAcknowledgement,
    Refuse(FailureCode),
    /// Refuses all orders of the request: the board is not this host's any more.
    Lapse,
    /// Runs until it is cancelled.
    Endless,
    /// Answers with what makes no sense.
    Nonsense(Nonsense),
}

/// What no line makes of a true answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nonsense {
    OtherReply,
    Unsupported,
    UnknownKind,
    Undecodable,
    NoHeader,
    TooLong,
}

impl Nonsense {
    const ALL: [Self; 6] = [
        Self::OtherReply,
        Self::Unsupported,
        Self::UnknownKind,
        Self::Undecodable,
        Self::NoHeader,
        Self::TooLong,
    ];

    fn frame(self, number: u64) -> Frame {
        let (kind, payload) = match self {
            Self::OtherReply => {
                let reply: (u64, Result<Reply, Failure>) = (number, Ok(Reply::Done));
                return Frame::encode(kind::REPLY, &reply).unwrap();
            }
            Self::Unsupported => (kind::UNSUPPORTED, vec![kind::REQUEST]),
            Self::UnknownKind => (200, Vec::new()),
            // A number that does not end.
            Self::Undecodable => (kind::REPLY, vec![0xff; 3]),
            Self::NoHeader => (kind::SEGMENT, Vec::new()),
            Self::TooLong => (kind::EVENT, vec![0; frame::LIMIT]),
        };
        Frame { kind, payload }
    }
}

/// An agent's memory: what outlives a connection.
#[derive(Default)]
struct Agent {
    fates: Vec<Fate>,
    spool: BTreeMap<u64, SegmentHeader>,
    endings: BTreeMap<u64, Outcome>,
    running: Option<RepeatOrder>,
    ran: Vec<OrderKey>,
    mapped: usize,
    cancels: Vec<bool>,
    connections: u64,
    last_segment: u64,
    /// What the host said before the last record of a segment was sent.
    early: Vec<Request>,
    /// Whether it is on another machine.
    is_remote: bool,
    /// Orders in each request that brought more than one.
    batches: Vec<usize>,
    /// Of the one file that it was offered: how much there will be, and what there is.
    offered: u64,
    blob: Vec<u8>,
    /// Loses what it has of the file when so many pieces were put.
    loses_after: Option<usize>,
    pieces: usize,
    /// It has all files that it is offered, and answers once so many were.
    has_all_of: Option<usize>,
    /// Why it is not reached, once it was.
    faults: VecDeque<ConnectError>,
}

impl Agent {
    /// By the rule of the real one: bytes go where the file ends, or nowhere.
    fn put(&mut self, upload: &Upload) -> u64 {
        if upload.offset == self.blob.len() as u64 {
            self.blob.extend(&upload.bytes);
        }
        self.pieces += 1;
        if self.loses_after == Some(self.pieces) {
            self.blob.clear();
        }
        self.blob.len() as u64
    }
}

/// How a segment is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Whole,
    Cut,
    Tarrying,
}

/// A board whose agent lives in the same thread.
#[derive(Clone)]
struct ScriptedBoard(Rc<RefCell<Agent>>);

impl ScriptedBoard {
    fn new(fates: &[Fate]) -> Self {
        let agent = Agent {
            fates: fates.to_vec(),
            ..Agent::default()
        };
        Self(Rc::new(RefCell::new(agent)))
    }

    fn ran(&self) -> Vec<(u32, u32)> {
        let agent = self.0.borrow();
        agent.ran.iter().map(|k| (k.repeat, k.attempt)).collect()
    }
}

impl Board for ScriptedBoard {
    fn name(&self) -> &str {
        "scripted"
    }

    fn is_remote(&self) -> bool {
        self.0.borrow().is_remote
    }

    async fn connect(&self, store: StoreId) -> Result<Link, ConnectError> {
        let (near, far) = tokio::io::duplex(1 << 20);
        let agent = self.0.clone();
        if agent.borrow().connections > 0
            && let Some(fault) = agent.borrow_mut().faults.pop_front()
        {
            return Err(fault);
        }
        agent.borrow_mut().connections += 1;
        tokio::task::spawn_local(async move { serve(agent, FakeAgent::welcome(far).await).await });
        let (read, write) = tokio::io::split(near);
        Ok(Greeted::greet(read, write, store).await?.into_link()?)
    }
}

async fn serve(agent: Rc<RefCell<Agent>>, mut line: FakeAgent) {
    let waiting: Vec<_> = agent.borrow().spool.clone().into_iter().collect();
    for (segment, header) in waiting {
        let outcome = agent.borrow().endings[&segment].clone();
        deliver(&mut line, &header, outcome, How::Whole).await;
    }
    let (mut held, mut offers) = (Vec::new(), Vec::new());
    while let Some((number, request)) = line.try_request().await {
        let answer = match request {
            Request::Offer(offer) if agent.borrow().has_all_of.is_some() => {
                offers.push((number, vec![offer.files[0].bytes]));
                if Some(offers.len()) == agent.borrow().has_all_of {
                    for (number, have) in offers.drain(..) {
                        line.reply(number, Ok(Reply::Offered(have))).await;
                    }
                }
                continue;
            }
            Request::Offer(offer) => {
                let mut agent = agent.borrow_mut();
                agent.offered = offer.files[0].bytes;
                Reply::Offered(vec![agent.blob.len() as u64])
            }
            Request::Upload(upload) => {
                // Answers once as many fly as may, or the file ends: a host that waited for each would wait
                // for ever.
                let is_last = upload.offset + upload.bytes.len() as u64 == agent.borrow().offered;
                held.push((number, upload));
                if held.len() == AHEAD || is_last {
                    for (number, upload) in held.drain(..) {
                        let have = agent.borrow_mut().put(&upload);
                        line.reply(number, Ok(Reply::Uploaded(have))).await;
                    }
                }
                continue;
            }
            Request::MapContent(_) => {
                agent.borrow_mut().mapped += 1;
                Reply::Done
            }
            Request::TakeLease { .. } => Reply::Lease(LeaseState {
                epoch: 1,
                is_own: true,
                holder: None,
            }),
            Request::GiveLease => Reply::Done,
            Request::Queue => Reply::Queue(queue(&agent.borrow())),
            Request::Acknowledge { segment } => {
                agent.borrow_mut().spool.remove(&segment);
                Reply::Done
            }
            Request::Cancel { kill, .. } => {
                agent.borrow_mut().cancels.push(kill);
                line.reply(number, Ok(Reply::Done)).await;
                let running = agent.borrow_mut().running.take();
                if let Some(order) = running {
                    let outcome = if kill {
                        Outcome::Cancelled {
                            stage: edgedyno_shared::repeat::Stage::Measure,
                        }
                    } else {
                        Outcome::Complete
                    };
                    finish(&agent, &mut line, order, outcome, How::Whole).await;
                }
                continue;
            }
            Request::Submit(orders) if orders.len() > 1 => {
                run_all(&agent, &mut line, number, orders).await;
                continue;
            }
            Request::Submit(orders) => {
                for order in orders {
                    if run(&agent, &mut line, number, order).await.is_none() {
                        return;
                    }
                }
                continue;
            }
            other => panic!("the driver asked {other:?}"),
        };
        line.reply(number, Ok(answer)).await;
    }
}

fn queue(agent: &Agent) -> Vec<QueueEntry> {
    let running = agent.running.iter().map(|order| QueueEntry {
        key: order.key.clone(),
        state: QueueState::Queued,
    });
    let spooled = agent.spool.values().map(|header| QueueEntry {
        key: header.key.clone(),
        state: QueueState::Spooled,
    });
    running.chain(spooled).collect()
}

/// Accepts all orders of a request, and measures them.
async fn run_all(
    agent: &Rc<RefCell<Agent>>,
    line: &mut FakeAgent,
    number: u64,
    orders: Vec<RepeatOrder>,
) {
    let answers = vec![OrderAnswer::Accepted; orders.len()];
    agent.borrow_mut().batches.push(orders.len());
    line.reply(number, Ok(Reply::Submitted(answers))).await;
    for order in orders {
        agent.borrow_mut().ran.push(order.key.clone());
        finish(agent, line, order, Outcome::Complete, How::Whole).await;
    }
}

/// Runs one order by the script; none when the connection is over.
async fn run(
    agent: &Rc<RefCell<Agent>>,
    line: &mut FakeAgent,
    number: u64,
    order: RepeatOrder,
) -> Option<()> {
    let fate = {
        let mut agent = agent.borrow_mut();
        agent.ran.push(order.key.clone());
        let at = agent.ran.len() - 1;
        agent.fates.get(at).cloned().unwrap_or(Fate::Measure)
    };
    if let Fate::Refuse(code) = fate {
        let answer = OrderAnswer::Refused(Failure::new(code, "refused"));
        line.reply(number, Ok(Reply::Submitted(vec![answer]))).await;
        return Some(());
    }
    if fate == Fate::Lapse {
        let lapsed = Failure::new(FailureCode::LeaseLost, "as the script says");
        line.reply(number, Err(lapsed)).await;
        return Some(());
    }
    if fate == Fate::Forget {
        return None;
    }
    if let Fate::Nonsense(what) = fate {
        line.frame(&what.frame(number)).await;
        return Some(());
    }
    line.reply(number, Ok(Reply::Submitted(vec![OrderAnswer::Accepted])))
        .await;
    line.event(&Event::Started(order.key.clone())).await;
    if fate == Fate::Endless {
        agent.borrow_mut().running = Some(order);
        return Some(());
    }
    let outcome = match fate {
        Fate::Fail(code) => Outcome::Failed {
            stage: edgedyno_shared::repeat::Stage::Load,
            failure: Failure::new(code, "as the script says"),
        },
        _ => Outcome::Complete,
    };
    let how = match fate {
        Fate::CutDelivery => How::Cut,
        Fate::Tarry => How::Tarrying,
        _ => How::Whole,
    };
    finish(agent, line, order, outcome, how).await;
    (how != How::Cut && fate != Fate::CutBeforeAcknowledgement).then_some(())
}

async fn finish(
    agent: &Rc<RefCell<Agent>>,
    line: &mut FakeAgent,
    order: RepeatOrder,
    outcome: Outcome,
    how: How,
) {
    let header = {
        let mut agent = agent.borrow_mut();
        agent.last_segment += 1;
        let segment = agent.last_segment;
        let header = SegmentHeader {
            schema: schema_hash(),
            store: line.host.store,
            boot: BootId(1),
            segment,
            key: order.key,
        };
        agent.spool.insert(segment, header.clone());
        agent.endings.insert(segment, outcome.clone());
        header
    };
    let early = deliver(line, &header, outcome, how).await;
    agent.borrow_mut().early.extend(early);
}

/// Returns what the host said too early.
async fn deliver(
    line: &mut FakeAgent,
    header: &SegmentHeader,
    outcome: Outcome,
    how: How,
) -> Option<Request> {
    line.segment(header).await;
    let mut early = None;
    match how {
        How::Whole => {}
        How::Cut => return None,
        How::Tarrying => {
            let word = timeout(Duration::from_millis(100), line.try_request()).await;
            early = word.ok().flatten().map(|(_, request)| request);
        }
    }
    let end = RepeatEnd {
        outcome,
        wall_unix_ns: 1,
        mono: Nanos(1),
        environment: Vec::new(),
        trials: 0,
        chunks: 0,
    };
    line.record(0, &Record::End(end)).await;
    early
}

struct Driven {
    end: Result<DriveEnd, DriveError>,
    events: Vec<DriveEvent>,
    rows: Vec<(OrderKey, OutcomeKind)>,
}

fn begin(store: &Store, plan: &StaticPlan, run: &RunId) {
    store.begin_run(&new_run(&run.0, 1)).unwrap();
    let conduct = plan.conduct();
    for (key, case) in plan.cases() {
        let rules = RulesRow::new(
            Some(conduct.repeats),
            &conduct.rules,
            &conduct.limits,
            conduct.cold,
            &conduct.outputs,
        );
        let new = NewCase {
            key: *key,
            match_key: crate::plan::axes::match_key(case),
            case,
            rules,
        };
        store.add_case(run, &new).unwrap();
    }
}

/// Drives one case with so many repeats; `watch` sees each event and may interrupt.
fn drive_in(
    store: &mut Store,
    board: &ScriptedBoard,
    repeats: u32,
    watch: impl FnMut(&DriveEvent, &tokio::sync::mpsc::UnboundedSender<()>),
) -> Driven {
    drive_case(store, board, case(1), repeats, watch)
}

fn drive_case(
    store: &mut Store,
    board: &ScriptedBoard,
    case: Case,
    repeats: u32,
    watch: impl FnMut(&DriveEvent, &tokio::sync::mpsc::UnboundedSender<()>),
) -> Driven {
    drive_with(store, board, case, Vec::new(), repeats, watch)
}

fn drive_with(
    store: &mut Store,
    board: &ScriptedBoard,
    case: Case,
    contents: Vec<Content>,
    repeats: u32,
    mut watch: impl FnMut(&DriveEvent, &tokio::sync::mpsc::UnboundedSender<()>),
) -> Driven {
    let run = run_id("r1");
    let mut plan = StaticPlan::new(&run, vec![case], conduct(repeats, 0));
    if store.run(&run).is_err() {
        begin(store, &plan, &run);
    }
    let mut events = Vec::new();
    let (send, mut interrupts) = Interrupts::by_hand();
    let mut tell = |event: DriveEvent| {
        watch(&event, &send);
        events.push(event);
    };
    let plan = Plan {
        run: run.clone(),
        planner: &mut plan as &mut dyn Planner,
        contents,
        lease: LeaseWish::default(),
    };
    let driver = Driver::new(board, store, plan, &mut interrupts, &mut tell);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let end = LocalSet::new().block_on(&runtime, driver.drive());
    let rows = store.done_keys(&run).unwrap();
    Driven { end, events, rows }
}

fn drive(board: &ScriptedBoard, repeats: u32) -> Driven {
    let (_dir, mut store) = new_store();
    drive_in(&mut store, board, repeats, |_, _| {})
}

fn outcomes(driven: &Driven) -> Vec<OutcomeKind> {
    driven.rows.iter().map(|(_, outcome)| *outcome).collect()
}

#[test]
fn every_repeat_is_committed_and_then_acknowledged() {
    let board = ScriptedBoard::new(&[]);
    let driven = drive(&board, 3);
    assert_eq!(driven.end.unwrap(), DriveEnd::Complete);
    assert_eq!(board.ran(), [(0, 0), (1, 0), (2, 0)]);
    assert_eq!(driven.rows.len(), 3);
    assert!(board.0.borrow().spool.is_empty());
}

#[test]
fn a_failure_row_does_not_end_the_plan() {
    let board = ScriptedBoard::new(&[Fate::Fail(FailureCode::Crash)]);
    let driven = drive(&board, 2);
    assert_eq!(
        outcomes(&driven),
        [OutcomeKind::Failed, OutcomeKind::Complete]
    );
    let crashed = |e: &DriveEvent| matches!(e, DriveEvent::Stored { failure: Some((_, f)), .. } if f.code == FailureCode::Crash);
    assert!(driven.events.iter().any(crashed));
}

#[test]
fn a_repeat_lost_with_its_agent_is_attempted_once_more() {
    let lost = Fate::Fail(FailureCode::AgentRestarted);
    let board = ScriptedBoard::new(&[lost.clone(), lost]);
    let driven = drive(&board, 2);
    assert_eq!(board.ran(), [(0, 0), (0, 1), (1, 0)]);
    assert_eq!(driven.rows.len(), 3);
}

#[test]
fn a_delivery_cut_short_is_replayed_and_stored_once() {
    let board = ScriptedBoard::new(&[Fate::CutDelivery]);
    let driven = drive(&board, 2);
    assert_eq!(driven.end.unwrap(), DriveEnd::Complete);
    assert_eq!(board.ran(), [(0, 0), (1, 0)]);
    assert_eq!(driven.rows.len(), 2);
    assert!(
        driven
            .events
            .iter()
            .any(|e| matches!(e, DriveEvent::Reconnecting(_)))
    );
}

#[test]
fn nothing_is_acknowledged_before_it_is_there_whole() {
    let board = ScriptedBoard::new(&[Fate::Tarry]);
    let driven = drive(&board, 2);
    assert_eq!(driven.end.unwrap(), DriveEnd::Complete);
    let early = board.0.borrow().early.clone();
    assert!(early.is_empty(), "{early:?}");
    assert_eq!(driven.rows.len(), 2);
}

#[test]
fn an_acknowledgement_that_was_lost_is_given_again() {
    let board = ScriptedBoard::new(&[Fate::CutBeforeAcknowledgement]);
    let driven = drive(&board, 2);
    assert_eq!(driven.end.unwrap(), DriveEnd::Complete);
    assert_eq!(driven.rows.len(), 2);
    assert!(board.0.borrow().spool.is_empty());
}

#[test]
fn a_repeat_that_is_stored_is_not_lost_because_its_agent_says_so_later() {
    let (_dir, mut store) = new_store();
    let board = ScriptedBoard::new(&[]);
    drive_in(&mut store, &board, 1, |_, _| {}).end.unwrap();
    {
        // It died behind the acknowledgement and before it forgot the repeat, and recovers it.
        let mut agent = board.0.borrow_mut();
        let key = agent.ran[0].clone();
        let header = SegmentHeader {
            schema: schema_hash(),
            store: store.id(),
            boot: BootId(2),
            segment: 9,
            key,
        };
        let restarted = Failure::new(FailureCode::AgentRestarted, "as the script says");
        let lost = Outcome::Failed {
            stage: edgedyno_shared::repeat::Stage::Measure,
            failure: restarted,
        };
        agent.last_segment = 9;
        agent.spool.insert(9, header);
        agent.endings.insert(9, lost);
    }
    let driven = drive_in(&mut store, &board, 2, |_, _| {});
    assert_eq!(driven.end.unwrap(), DriveEnd::Complete);
    assert_eq!(board.ran(), [(0, 0), (1, 0)], "no second attempt");
    assert_eq!(
        driven.rows.iter().map(|(_, how)| *how).collect::<Vec<_>>(),
        [OutcomeKind::Complete; 2]
    );
    assert!(board.0.borrow().spool.is_empty());
}

#[test]
fn a_board_that_became_free_meanwhile_is_taken_again() {
    let board = ScriptedBoard::new(&[Fate::Measure, Fate::Lapse]);
    let driven = drive(&board, 2);
    assert_eq!(driven.end.unwrap(), DriveEnd::Complete);
    assert_eq!(driven.rows.len(), 2);
    assert_eq!(board.0.borrow().connections, 2);
}

#[test]
fn an_order_that_the_agent_forgot_is_sent_again() {
    let board = ScriptedBoard::new(&[Fate::Forget]);
    let driven = drive(&board, 1);
    assert_eq!(driven.end.unwrap(), DriveEnd::Complete);
    assert_eq!(board.ran(), [(0, 0), (0, 0)]);
    assert_eq!(driven.rows.len(), 1);
}

#[test]
fn a_connection_that_keeps_breaking_is_given_up() {
    let board = ScriptedBoard::new(&vec![Fate::Forget; 20]);
    let driven = drive(&board, 1);
    assert!(matches!(driven.end, Err(DriveError::Lost { .. })));
}

#[test]
fn a_line_of_the_network_may_break_more_often() {
    let board = ScriptedBoard::new(&vec![Fate::Forget; 6]);
    board.0.borrow_mut().is_remote = true;
    let driven = drive(&board, 1);
    assert_eq!(driven.end.unwrap(), DriveEnd::Complete);
    assert_eq!(board.0.borrow().connections, 7);
}

#[test]
fn an_agent_that_makes_no_sense_is_asked_three_times_and_not_a_thousand() {
    for (what, is_remote) in Nonsense::ALL
        .into_iter()
        .flat_map(|n| [(n, true), (n, false)])
    {
        let board = ScriptedBoard::new(&vec![Fate::Nonsense(what); 20]);
        board.0.borrow_mut().is_remote = is_remote;
        let driven = drive(&board, 1);
        let end = driven.end;
        assert!(
            matches!(end, Err(DriveError::Nonsense { .. })),
            "{what:?}: {end:?}"
        );
        assert_eq!(board.0.borrow().connections, 3, "{what:?}");
    }
}

#[test]
fn what_makes_no_sense_once_ends_no_plan() {
    let nonsense = Fate::Nonsense(Nonsense::OtherReply);
    let board = ScriptedBoard::new(&[nonsense.clone(), nonsense.clone(), Fate::Measure, nonsense]);
    let driven = drive(&board, 2);
    assert_eq!(driven.end.unwrap(), DriveEnd::Complete);
    assert_eq!(driven.rows.len(), 2);
}

/// A case in which every trial has an input file of its own: 34 bytes each in an order.
fn case_of_files(count: usize) -> Case {
    let set = |at: usize| {
        vec![InputFile {
            input: String::new(),
            sha256: Sha256([at as u8; 32]),
        }]
    };
    let mut case = case(1);
    case.inputs.source = InputSource::Files {
        sets: (0..count).map(set).collect(),
    };
    case
}

#[test]
fn orders_that_are_more_than_a_frame_together_go_in_several() {
    let (_dir, mut store) = new_store();
    let board = ScriptedBoard::new(&[]);
    board.0.borrow_mut().is_remote = true;
    let driven = drive_case(&mut store, &board, case_of_files(1000), 40, |_, _| {});
    assert_eq!(driven.end.unwrap(), DriveEnd::Complete);
    assert_eq!(driven.rows.len(), 40);
    let expected: Vec<_> = (0..40).map(|repeat| (repeat, 0)).collect();
    assert_eq!(board.ran(), expected);
    // 1.36 MB in all, half a MiB at most in each.
    let batches = board.0.borrow().batches.clone();
    assert!(batches.len() >= 3, "{batches:?}");
    assert_eq!(board.0.borrow().connections, 1);
}

#[test]
fn an_order_that_no_frame_takes_ends_the_run_and_says_what_is_too_large() {
    let (_dir, mut store) = new_store();
    let board = ScriptedBoard::new(&[]);
    board.0.borrow_mut().is_remote = true;
    // 1.36 MB for one repeat.
    let driven = drive_case(&mut store, &board, case_of_files(40_000), 2, |_, _| {});
    assert_eq!(
        board.0.borrow().connections,
        1,
        "it is not smaller the next time"
    );
    let error = crate::exit::CommandError::from(driven.end.unwrap_err());
    assert_eq!(error.exit, crate::exit::Exit::USAGE);
    assert!(
        error.causes[0].contains("an order for a repeat"),
        "{error:?}"
    );
    assert!(error.causes[0].contains("the limit of 1 MiB"), "{error:?}");
    assert!(error.hint.unwrap().contains("fewer input files"));
}

/// Sends a file of four pieces and a half to a board, which loses what it has after so many.
fn send(loses_after: Option<usize>) -> (ScriptedBoard, Vec<u8>, Driven) {
    let (dir, mut store) = new_store();
    let bytes: Vec<u8> = (0..UPLOAD_BYTES * 9 / 2).map(|at| (at / 7) as u8).collect();
    let path = dir.path().join("model.onnx");
    std::fs::write(&path, &bytes).unwrap();
    let board = ScriptedBoard::new(&[]);
    {
        let mut agent = board.0.borrow_mut();
        (agent.is_remote, agent.loses_after) = (true, loses_after);
    }
    let contents = vec![Content::of_file(&path).unwrap()];
    let driven = drive_with(&mut store, &board, case(1), contents, 1, |_, _| {});
    (board, bytes, driven)
}

#[test]
fn several_pieces_of_a_file_are_on_their_way_at_once() {
    let (board, bytes, driven) = send(None);
    assert_eq!(driven.end.unwrap(), DriveEnd::Complete);
    let agent = board.0.borrow();
    assert!(agent.blob == bytes, "{} bytes", agent.blob.len());
    assert_eq!(agent.pieces, 5, "each is sent once");
    let sent: Vec<u64> = driven
        .events
        .iter()
        .filter_map(|event| match event {
            DriveEvent::Sending { done, total, .. } if *total == bytes.len() as u64 => Some(*done),
            _ => None,
        })
        .collect();
    let piece = UPLOAD_BYTES as u64;
    assert_eq!(
        sent,
        [piece, 2 * piece, 3 * piece, 4 * piece, bytes.len() as u64]
    );
}

#[test]
fn contents_are_offered_without_waiting_for_each() {
    let (dir, mut store) = new_store();
    let content = |at: usize| {
        let path = dir.path().join(format!("{at}.raw"));
        std::fs::write(&path, at.to_string()).unwrap();
        Content::of_file(&path).unwrap()
    };
    let contents: Vec<Content> = (0..OFFERS_AHEAD).map(content).collect();
    let board = ScriptedBoard::new(&[]);
    {
        let mut agent = board.0.borrow_mut();
        (agent.is_remote, agent.has_all_of) = (true, Some(contents.len()));
    }
    let driven = drive_with(&mut store, &board, case(1), contents, 1, |_, _| {});
    assert_eq!(driven.end.unwrap(), DriveEnd::Complete);
    assert_eq!(board.0.borrow().pieces, 0);
}

#[test]
fn a_file_of_which_a_part_is_lost_on_the_way_arrives_whole() {
    for loses_after in 1..=4 {
        let (board, bytes, driven) = send(Some(loses_after));
        assert_eq!(driven.end.unwrap(), DriveEnd::Complete);
        assert!(board.0.borrow().blob == bytes, "lost after {loses_after}");
    }
}

#[test]
fn a_refused_order_is_a_failure_row_and_an_agent_without_room_is_asked_again() {
    let board = ScriptedBoard::new(&[
        Fate::Refuse(FailureCode::NotFound),
        Fate::Refuse(FailureCode::Backpressured),
    ]);
    let driven = drive(&board, 2);
    assert_eq!(driven.end.unwrap(), DriveEnd::Complete);
    let outcomes: Vec<_> = driven.rows.iter().map(|(k, o)| (k.repeat, *o)).collect();
    assert_eq!(
        outcomes,
        [(0, OutcomeKind::Failed), (1, OutcomeKind::Complete)]
    );
    assert_eq!(board.ran(), [(0, 0), (1, 0), (1, 0)]);
}

#[test]
fn the_first_interrupt_lets_the_repeat_finish() {
    let (_dir, mut store) = new_store();
    let board = ScriptedBoard::new(&[Fate::Endless]);
    let driven = drive_in(&mut store, &board, 3, |event, interrupt| {
        if matches!(event, DriveEvent::Started(_)) {
            interrupt.send(()).unwrap();
        }
    });
    assert_eq!(driven.end.unwrap(), DriveEnd::Interrupted);
    assert_eq!(board.0.borrow().cancels, [false]);
    assert_eq!(driven.rows.len(), 1);
    assert_eq!(driven.rows[0].1, OutcomeKind::Complete);
}

#[test]
fn two_interrupts_kill_the_repeat_and_a_resumed_run_measures_it_again() {
    let (_dir, mut store) = new_store();
    let board = ScriptedBoard::new(&[Fate::Endless]);
    let driven = drive_in(&mut store, &board, 2, |event, interrupt| {
        if matches!(event, DriveEvent::Started(_)) {
            interrupt.send(()).unwrap();
            interrupt.send(()).unwrap();
        }
    });
    assert_eq!(driven.end.unwrap(), DriveEnd::Interrupted);
    assert!(driven.rows.iter().all(|(key, _)| key.repeat == 0));
    let resumed = drive_in(&mut store, &board, 2, |_, _| {});
    assert_eq!(resumed.end.unwrap(), DriveEnd::Complete);
    let complete = |(_, outcome): &&(OrderKey, OutcomeKind)| *outcome == OutcomeKind::Complete;
    assert_eq!(resumed.rows.iter().filter(complete).count(), 2);
}

/// A board that takes for ever to answer.
struct MuteBoard;

impl Board for MuteBoard {
    fn name(&self) -> &'static str {
        "mute"
    }

    async fn connect(&self, _: StoreId) -> Result<Link, ConnectError> {
        std::future::pending().await
    }
}

#[test]
fn a_wish_to_stop_is_heard_while_a_board_does_not_answer() {
    let (_dir, mut store) = new_store();
    let run = run_id("r1");
    let mut planner = StaticPlan::new(&run, vec![case(1)], conduct(1, 0));
    begin(&store, &planner, &run);
    let plan = Plan {
        run,
        planner: &mut planner as &mut dyn Planner,
        contents: Vec::new(),
        lease: LeaseWish::default(),
    };
    let (send, mut interrupts) = Interrupts::by_hand();
    send.send(()).unwrap();
    let mut said = Vec::new();
    let mut tell = |event| {
        if let DriveEvent::Stopping { now } = event {
            said.push(now);
            // The second wish comes once the first was heard.
            let _ = send.send(());
        }
    };
    let driver = Driver::new(&MuteBoard, &mut store, plan, &mut interrupts, &mut tell);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let end = LocalSet::new().block_on(&runtime, driver.drive());
    assert_eq!(end.unwrap(), DriveEnd::Interrupted);
    assert_eq!(said, [false, true]);
}

#[test]
fn a_finished_run_orders_nothing_when_resumed() {
    let (_dir, mut store) = new_store();
    let board = ScriptedBoard::new(&[]);
    drive_in(&mut store, &board, 2, |_, _| {}).end.unwrap();
    drive_in(&mut store, &board, 2, |_, _| {}).end.unwrap();
    assert_eq!(board.ran().len(), 2);
}

#[test]
fn a_repeat_of_a_removed_run_is_thrown_away_and_said() {
    let (_dir, mut store) = new_store();
    let board = ScriptedBoard::new(&[]);
    let stray = SegmentHeader {
        schema: schema_hash(),
        store: store.id(),
        boot: BootId(1),
        segment: 1,
        key: OrderKey {
            run: run_id("gone"),
            ..crate::store::sample::key("gone", 0, 0)
        },
    };
    {
        let mut agent = board.0.borrow_mut();
        agent.last_segment = 1;
        agent.spool.insert(1, stray);
        agent.endings.insert(1, Outcome::Complete);
    }
    let driven = drive_in(&mut store, &board, 1, |_, _| {});
    assert_eq!(driven.end.unwrap(), DriveEnd::Complete);
    assert!(
        driven
            .events
            .iter()
            .any(|e| matches!(e, DriveEvent::Dropped(k) if k.run.0 == "gone"))
    );
    assert!(board.0.borrow().spool.is_empty());
}

#[test]
fn an_agent_of_another_build_is_not_driven() {
    let refused = DriveError::Connect {
        board: "b".into(),
        source: ConnectError::Link(LinkError::Incompatible {
            agent: edgedyno_shared::ids::BuildId("old".into()),
        }),
    };
    let error = crate::exit::CommandError::from(refused);
    assert_eq!(error.exit, crate::exit::Exit::INCOMPATIBLE);
    assert!(error.hint.unwrap().contains("`edgedyno board update b`"));
}

/// Every way in which a board that was there is not reached any more: whether it is waited for, or else what the
/// hint says that mends it.
fn ways_to_be_away() -> Vec<(ConnectError, Option<&'static str>)> {
    let address = "10.0.0.7:7447".parse().unwrap();
    let io = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let of_ssh = |fault: Fault| {
        let mends = match fault {
            Fault::Name | Fault::Reach | Fault::Slow | Fault::Other => None,
            Fault::NoProgram => Some("OpenSSH"),
            Fault::HostKeyUnknown => Some("fingerprint"),
            Fault::HostKeyChanged => Some("ssh-keygen -R"),
            Fault::Authentication => Some("ssh-copy-id"),
            Fault::Shell => Some("/bin/sh -c id"),
            Fault::AgentMissing | Fault::AgentUnusable => Some("board update scripted"),
        };
        let shell = Shell::by("", "ssh://u@h".parse().unwrap());
        (SshError::new(&shell, fault, "as it is").into(), mends)
    };
    let other_build = LinkError::Incompatible {
        agent: edgedyno_shared::ids::BuildId("old".into()),
    };
    let mut all: Vec<(ConnectError, Option<&'static str>)> =
        Fault::ALL.into_iter().map(of_ssh).collect();
    all.extend([
        (
            ConnectError::Unreachable {
                address,
                source: io(),
            },
            None,
        ),
        (LinkError::Closed.into(), None),
        (LinkError::Silent.into(), None),
        (
            ConnectError::NotKnown { address },
            Some("edgedyno-agent pair"),
        ),
        (ConnectError::WrongKey { address }, Some("pair again")),
        (
            ConnectError::OtherProtocol { address },
            Some("board update scripted"),
        ),
        (other_build.into(), Some("board update scripted")),
        (ConnectError::NoAddress, Some("boards.toml")),
        (ConnectError::StillRetiring, Some("when it has ended")),
        (
            ConnectError::NoAnswer {
                seconds: 5,
                log: "/no/agent.log".into(),
                source: io(),
            },
            Some("EDGEDYNO_AGENT_STATE"),
        ),
        (
            ConnectError::Start {
                program: "x".into(),
                source: io(),
            },
            Some("EDGEDYNO_AGENT"),
        ),
        (
            ConnectError::Socket {
                path: "/no".into(),
                source: io(),
            },
            Some("EDGEDYNO_AGENT_STATE"),
        ),
    ]);
    all
}

#[test]
fn a_board_that_was_there_is_waited_for_where_waiting_can_mend_it_and_no_longer() {
    for (fault, mends) in ways_to_be_away() {
        let what = format!("{fault:?}");
        let why = fault.to_string();
        let board = ScriptedBoard::new(&[Fate::CutDelivery]);
        {
            let mut agent = board.0.borrow_mut();
            agent.is_remote = true;
            agent.faults.push_back(fault);
        }
        let driven = drive(&board, 1);
        let told =
            |event: &DriveEvent| matches!(event, DriveEvent::Reconnecting(told) if *told == why);
        match mends {
            None => {
                assert_eq!(driven.end.unwrap(), DriveEnd::Complete, "{what}");
                assert!(
                    driven.events.iter().any(told),
                    "{what}: {:?}",
                    driven.events
                );
                assert_eq!(driven.rows.len(), 1, "{what}");
            }
            Some(mends) => {
                let error = crate::exit::CommandError::from(driven.end.unwrap_err());
                assert_eq!(
                    error.what, "board scripted cannot be reached any more",
                    "{what}"
                );
                let hint = error.hint.unwrap();
                assert!(hint.contains(mends), "{what}: {hint}");
                assert!(
                    hint.ends_with("go on with `--resume last`"),
                    "{what}: {hint}"
                );
            }
        }
    }
}

/// Each board has a thread, a connection to the store and cases of its own.
#[test]
fn a_board_that_dies_keeps_no_other_from_its_cases() {
    let (_dir, store) = new_store();
    let run = run_id("r1");
    let cases = |board: &str| {
        let of = |threads| Case {
            board: board.into(),
            ..case(threads)
        };
        (1..=3).map(of).collect::<Vec<_>>()
    };
    let both = [cases("a"), cases("b")].concat();
    begin(&store, &StaticPlan::new(&run, both, conduct(2, 0)), &run);
    let job = |name: &'static str, fates: Vec<Fate>| -> Job<'_, Result<DriveEnd, DriveError>> {
        let (run, dir) = (run.clone(), store.dir().to_owned());
        let cases = cases(name);
        Box::new(move |tell| {
            let mut store = Store::open_writing(&dir).unwrap();
            let board = ScriptedBoard::new(&fates);
            let mut plan = StaticPlan::new(&run, cases, conduct(2, 0));
            let (_send, mut interrupts) = Interrupts::by_hand();
            let plan = Plan {
                run: run.clone(),
                planner: &mut plan as &mut dyn Planner,
                contents: Vec::new(),
                lease: LeaseWish::default(),
            };
            let driver = Driver::new(&board, &mut store, plan, &mut interrupts, tell);
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            LocalSet::new().block_on(&runtime, driver.drive())
        })
    };
    let dying = [vec![Fate::Measure], vec![Fate::Forget; 20]].concat();
    let mut told = [0, 0];
    let ends = side_by_side(
        vec![job("a", Vec::new()), job("b", dying)],
        &mut |board, _| told[board] += 1,
    );
    assert_eq!(*ends[0].as_ref().unwrap(), DriveEnd::Complete);
    assert!(matches!(ends[1], Err(DriveError::Lost { .. })), "{ends:?}");
    assert!(told[0] > 0 && told[1] > 0);
    // Six repeats of the one, and the first of the other.
    assert_eq!(store.done_keys(&run).unwrap().len(), 7);
}
