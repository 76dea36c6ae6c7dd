//! Asking the host that a repeat is for what its clock says: before the worker is started and after it has
//! ended, never between.

use std::time::Duration;

use edgedyno_shared::clocks::{
    ClockAnswer, ClockExchange, ClockMoment, ClockQuestion, ExchangeResult, FourStamps, best,
};
use edgedyno_shared::ids::StoreId;
use edgedyno_shared::units::Nanos;
use edgedyno_shared::wire::frame::{Frame, kind};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::state::Daemon;

/// Rounds of one exchange: the shortest way of several bounds the offset best.
const ROUNDS: u32 = 5;

/// A line so slow that the rounds so far took this long is not asked again.
const ENOUGH: Nanos = Nanos::from_millis(40);

/// A repeat waits this long for an answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// An answer this fresh, from behind the repeat before, stands before the next one too.
const FRESH: Nanos = Nanos::from_secs(1);

/// The sessions that can be asked, and the question that is open.
#[derive(Debug, Default)]
pub struct HostClocks {
    sessions: Vec<Listening>,
    last_number: u64,
    open: Option<Open>,
    latest: Option<Latest>,
}

#[derive(Debug)]
struct Listening {
    id: u64,
    store: StoreId,
    ask: mpsc::Sender<Frame>,
    /// It did not answer, and has said nothing since.
    is_silent: bool,
}

#[derive(Debug)]
struct Open {
    number: u64,
    /// Who was asked.
    session: u64,
    asked: Nanos,
    give: oneshot::Sender<(FourStamps, ClockAnswer)>,
}

/// The last exchange that was answered, and by whom.
#[derive(Debug, Clone, Copy)]
struct Latest {
    session: u64,
    result: ExchangeResult,
}

impl HostClocks {
    /// A session of a host; questions go into `ask`.
    pub fn add(&mut self, store: StoreId, ask: mpsc::Sender<Frame>) -> u64 {
        self.last_number += 1;
        let id = self.last_number;
        self.sessions.push(Listening {
            id,
            store,
            ask,
            is_silent: false,
        });
        id
    }

    /// The host of a session said something: it can be asked again.
    pub fn heard(&mut self, id: u64) {
        self.set_silent(id, false);
    }

    fn set_silent(&mut self, id: u64, is_silent: bool) {
        let mut sessions = self.sessions.iter_mut();
        if let Some(session) = sessions.find(|session| session.id == id) {
            session.is_silent = is_silent;
        }
    }

    pub fn remove(&mut self, id: u64) {
        self.sessions.retain(|session| session.id != id);
    }

    /// Takes the answer to the open question from the session that was asked; one that comes too late answers
    /// nothing.
    pub fn answer(&mut self, session: u64, answer: ClockAnswer, heard: Nanos) {
        let is_its = |open: &Open| (open.number, open.session) == (answer.number, session);
        let Some(open) = self.open.take_if(|open| is_its(open)) else {
            return;
        };
        let stamps = FourStamps {
            asked: open.asked,
            received: answer.received,
            answered: answer.answered,
            heard,
        };
        // Who asked has lost its patience just now.
        let _ = open.give.send((stamps, answer));
    }

    /// Who is asked for a store: the host that came last.
    fn session(&self, store: StoreId) -> Option<&Listening> {
        let of_store = |session: &&Listening| session.store == store;
        self.sessions.iter().rev().find(of_store)
    }

    fn open(
        &mut self,
        session: u64,
        now: Nanos,
    ) -> (ClockQuestion, oneshot::Receiver<(FourStamps, ClockAnswer)>) {
        self.last_number += 1;
        let (give, take) = oneshot::channel();
        self.open = Some(Open {
            number: self.last_number,
            session,
            asked: now,
            give,
        });
        let number = self.last_number;
        (ClockQuestion { number }, take)
    }

    fn fresh(&self, session: u64, now: Nanos) -> Option<ExchangeResult> {
        let latest = self.latest.filter(|latest| latest.session == session)?;
        match latest.result {
            ExchangeResult::Answered { best, .. } if now - best.heard < FRESH => {
                Some(latest.result)
            }
            _ => None,
        }
    }
}

/// Asks the host of a store; what comes of it belongs into the repeat.
pub async fn exchange(daemon: &Daemon, store: StoreId, moment: ClockMoment) -> ClockExchange {
    let found = daemon.host_clocks.borrow().session(store).map(|found| {
        let ask = (!found.is_silent).then(|| found.ask.clone());
        (found.id, ask)
    });
    let Some((session, ask)) = found else {
        let result = ExchangeResult::NoHost;
        return ClockExchange { moment, result };
    };
    // A host that is away would let every repeat wait.
    let Some(ask) = ask else {
        let result = ExchangeResult::Silent;
        return ClockExchange { moment, result };
    };
    let now = daemon.clock.now();
    let fresh = match moment {
        ClockMoment::Before => daemon.host_clocks.borrow().fresh(session, now),
        ClockMoment::After => None,
    };
    let result = match fresh {
        Some(result) => result,
        None => rounds(daemon, session, &ask).await,
    };
    let mut clocks = daemon.host_clocks.borrow_mut();
    clocks.latest = Some(Latest { session, result });
    if result == ExchangeResult::Silent {
        clocks.set_silent(session, true);
    }
    ClockExchange { moment, result }
}

async fn rounds(daemon: &Daemon, session: u64, ask: &mpsc::Sender<Frame>) -> ExchangeResult {
    let begun = daemon.clock.now();
    let mut all = Vec::new();
    let mut last = None;
    for _ in 0..ROUNDS {
        let Ok(Some((stamps, answer))) = timeout(PATIENCE, round(daemon, session, ask)).await
        else {
            break;
        };
        all.push(stamps);
        last = Some((stamps, answer));
        if daemon.clock.now() - begun >= ENOUGH {
            break;
        }
    }
    // An answer to come is of no use any more.
    daemon.host_clocks.borrow_mut().open = None;
    let (Some(best), Some((latest, answer))) = (best(&all), last) else {
        return ExchangeResult::Silent;
    };
    // Its wall clock at the moment of the best answer, from what it was at the last.
    let since = latest.answered.0.saturating_sub(best.answered.0);
    ExchangeResult::Answered {
        best,
        rounds: all.len() as u32,
        host_clock: answer.clock,
        host_unix_ns: answer.unix_ns.saturating_sub(since),
    }
}

async fn round(
    daemon: &Daemon,
    session: u64,
    ask: &mpsc::Sender<Frame>,
) -> Option<(FourStamps, ClockAnswer)> {
    let place = ask.reserve().await.ok()?;
    let now = daemon.clock.now();
    let (question, answer) = daemon.host_clocks.borrow_mut().open(session, now);
    place.send(Frame::encode(kind::CLOCK, &question).ok()?);
    answer.await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId([1; 16]);

    fn answer(number: u64) -> ClockAnswer {
        ClockAnswer {
            number,
            received: Nanos(1_000),
            answered: Nanos(1_010),
            unix_ns: 7,
            clock: 9,
        }
    }

    #[test]
    fn an_answer_meets_its_own_question_only() {
        let mut clocks = HostClocks::default();
        let (asked, other) = (7, 8);
        let (first, mut late) = clocks.open(asked, Nanos(10));
        let (second, mut taken) = clocks.open(asked, Nanos(20));
        clocks.answer(asked, answer(first.number), Nanos(30));
        assert!(late.try_recv().is_err(), "the question was given up");
        assert!(taken.try_recv().is_err());
        // Numbers can be guessed: whoever else is connected has no say in when it is.
        clocks.answer(other, answer(second.number), Nanos(35));
        assert!(taken.try_recv().is_err(), "nobody asked that session");
        clocks.answer(asked, answer(second.number), Nanos(40));
        let (stamps, _) = taken.try_recv().unwrap();
        assert_eq!((stamps.asked, stamps.heard), (Nanos(20), Nanos(40)));
        // Twice is once.
        clocks.answer(asked, answer(second.number), Nanos(50));
    }

    #[test]
    fn the_host_that_came_last_is_asked_and_nobody_of_another_store() {
        let mut clocks = HostClocks::default();
        let ask = || mpsc::channel(1).0;
        let first = clocks.add(STORE, ask());
        let second = clocks.add(STORE, ask());
        clocks.add(StoreId([2; 16]), ask());
        assert_eq!(clocks.session(STORE).unwrap().id, second);
        clocks.remove(second);
        assert_eq!(clocks.session(STORE).unwrap().id, first);
        clocks.remove(first);
        assert!(clocks.session(STORE).is_none());
    }

    #[test]
    fn a_host_that_did_not_answer_is_asked_again_once_it_says_something() {
        let mut clocks = HostClocks::default();
        let first = clocks.add(STORE, mpsc::channel(1).0);
        let other = clocks.add(StoreId([2; 16]), mpsc::channel(1).0);
        clocks.set_silent(first, true);
        assert!(clocks.session(STORE).unwrap().is_silent);
        clocks.heard(other);
        assert!(clocks.session(STORE).unwrap().is_silent, "another spoke");
        clocks.heard(first);
        assert!(!clocks.session(STORE).unwrap().is_silent);
        clocks.set_silent(first, true);
        clocks.add(STORE, mpsc::channel(1).0);
        assert!(!clocks.session(STORE).unwrap().is_silent, "it came back");
    }

    #[test]
    fn an_answer_is_used_again_while_it_is_fresh_and_from_the_same_session() {
        let mut clocks = HostClocks::default();
        let best = FourStamps {
            asked: Nanos(0),
            received: Nanos(0),
            answered: Nanos(0),
            heard: Nanos(100),
        };
        let result = ExchangeResult::Answered {
            best,
            rounds: 1,
            host_clock: 1,
            host_unix_ns: 1,
        };
        clocks.latest = Some(Latest { session: 4, result });
        let second = Nanos::from_secs(1);
        assert_eq!(clocks.fresh(4, Nanos(99) + second), Some(result));
        assert_eq!(clocks.fresh(4, Nanos(100) + second), None);
        assert_eq!(clocks.fresh(5, Nanos(101)), None);
        let result = ExchangeResult::Silent;
        clocks.latest = Some(Latest { session: 4, result });
        assert_eq!(clocks.fresh(4, Nanos(101)), None);
    }
}
