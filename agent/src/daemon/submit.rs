//! Orders that a host submits: put on disk one by one, and accepted together.
//!
//! Each costs a write to the disk, and a card may take long for hundreds of them: between two orders everybody
//! else has a turn. So whatever was looked at before an order may be otherwise before the next.

use std::collections::BTreeSet;
use std::io;

use edgedyno_shared::ids::StoreId;
use edgedyno_shared::link::role::Role;
use edgedyno_shared::order::{OrderKey, RepeatOrder};
use edgedyno_shared::wire::event::Event;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::request::OrderAnswer;
use tokio::task::yield_now;

use super::rights::{holds_board, may_order};
use super::state::{Daemon, News};
use crate::disk;

/// Orders an agent keeps for one store at most.
const QUEUE_LIMIT: usize = 256;

/// Who orders.
pub(super) struct Orderer<'a> {
    pub(super) daemon: &'a Daemon,
    pub(super) store: StoreId,
    pub(super) role: Role,
    /// In which it took the board.
    pub(super) epoch: Option<u64>,
}

/// What became of an order before the folder's names are durable.
enum Placed {
    /// In the queue under this number.
    New(u64),
    Answered(OrderAnswer),
}

impl Orderer<'_> {
    /// Queues orders; those that are accepted are on disk when this returns.
    ///
    /// # Errors
    /// When the board is not this host's, or not any more.
    pub(super) async fn submit(
        &self,
        orders: Vec<RepeatOrder>,
    ) -> Result<Vec<OrderAnswer>, Failure> {
        let mut spooled = Spooled::read(self.daemon, self.store);
        let mut answers = Vec::with_capacity(orders.len());
        let mut new = Vec::new();
        for order in orders {
            // Whoever took the board meanwhile has dropped those that were put here before.
            holds_board(self.daemon, self.store, self.epoch)?;
            match self.place(order, &mut spooled) {
                Placed::Answered(answer) => answers.push(answer),
                Placed::New(number) => {
                    new.push((answers.len(), number));
                    answers.push(OrderAnswer::Accepted);
                    yield_now().await;
                }
            }
        }
        holds_board(self.daemon, self.store, self.epoch)?;
        // Also for keys that are known: another session of this store may be on the way to this line.
        let synced = self.daemon.queue.borrow_mut().sync();
        if let Err(why) = synced {
            let running = self.daemon.running.borrow().as_ref().map(|r| r.number);
            for (at, number) in new {
                // What runs already stays, or it would be measured twice; and so does what cannot be removed.
                // Both are known when they are sent again.
                if Some(number) != running {
                    let _ = self.daemon.queue.borrow_mut().remove(number);
                }
                answers[at] = unwritable(&why);
            }
        } else if !new.is_empty() {
            self.daemon.wake.notify_one();
            self.tell_what_runs();
        }
        Ok(answers)
    }

    fn place(&self, order: RepeatOrder, spooled: &mut Spooled) -> Placed {
        let refused = |failure| Placed::Answered(OrderAnswer::Refused(failure));
        if !order.key.run.is_well_formed() {
            return refused(Failure::new(
                FailureCode::Protocol,
                "run id is not well formed",
            ));
        }
        if let Err(failure) = may_order(self.role, &order) {
            return refused(failure);
        }
        // In this order: a repeat is in the spool before it leaves the queue.
        let is_queued = self.daemon.queue.borrow().contains(self.store, &order.key);
        if is_queued || spooled.contains(self.daemon, self.store, &order.key) {
            return Placed::Answered(OrderAnswer::Known);
        }
        if self.daemon.retiring.get() {
            return refused(Failure::new(FailureCode::Busy, "the agent is leaving"));
        }
        let mut queue = self.daemon.queue.borrow_mut();
        let own = queue.entries().iter().filter(|e| e.store == self.store);
        if own.count() >= QUEUE_LIMIT {
            let detail = format!("{QUEUE_LIMIT} orders wait already");
            return refused(Failure::new(FailureCode::Backpressured, detail));
        }
        match queue.push(self.store, order) {
            Ok(number) => Placed::New(number),
            Err(why) => Placed::Answered(unwritable(&why)),
        }
    }

    /// The begin of what runs was told before this host listened.
    fn tell_what_runs(&self) {
        if let Some(running) = self.daemon.running.borrow().as_ref() {
            let started = Event::Started(running.key.clone());
            self.daemon.tell(self.store, News::Event(started));
        }
    }
}

fn unwritable(why: &io::Error) -> OrderAnswer {
    let detail = format!("the agent's queue cannot be written: {why}");
    OrderAnswer::Refused(Failure::new(FailureCode::StorageFull, detail).hint(disk::MAKE_ROOM))
}

/// Keys that are finished and wait for their host.
struct Spooled {
    numbers: Vec<u64>,
    keys: BTreeSet<OrderKey>,
}

impl Spooled {
    fn read(daemon: &Daemon, store: StoreId) -> Self {
        Self {
            numbers: daemon.spool.numbers(store).unwrap_or_default(),
            keys: daemon.spooled(store),
        }
    }

    /// What was fetched meanwhile stays known: its host has it.
    fn contains(&mut self, daemon: &Daemon, store: StoreId, key: &OrderKey) -> bool {
        let numbers = daemon.spool.numbers(store).unwrap_or_default();
        if numbers != self.numbers {
            self.keys.extend(daemon.spooled(store));
            self.numbers = numbers;
        }
        self.keys.contains(key)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::rc::Rc;

    use edgedyno_shared::ids::BootId;
    use edgedyno_shared::repeat::{Outcome, Stage};
    use tokio::sync::watch;
    use tokio::task::spawn_local;

    use super::super::queue::Queue;
    use super::super::repeat_folder::{self, RepeatFolder};
    use super::super::state::Running;
    use super::super::testing::{block_on, daemon};
    use super::*;
    use crate::inputs::testing;
    use crate::worker::supervise::Cancel;

    const STORE: StoreId = StoreId([7; 16]);
    const THIEF: StoreId = StoreId([8; 16]);

    fn orders(repeats: std::ops::Range<u32>) -> Vec<RepeatOrder> {
        let order = testing::job().order;
        let one = |repeat| {
            let mut order = order.clone();
            order.key.repeat = repeat;
            order
        };
        repeats.map(one).collect()
    }

    fn take_board(daemon: &Daemon, store: StoreId) -> Orderer<'_> {
        let moment = daemon.moment();
        daemon
            .lease
            .borrow_mut()
            .take(store, "a test", true, moment)
            .unwrap();
        let epoch = daemon.lease.borrow_mut().state(store, moment).epoch;
        Orderer {
            daemon,
            store,
            role: Role::Run,
            epoch: Some(epoch),
        }
    }

    fn repeats_on_disk(folder: &Path) -> Vec<u32> {
        let queue = Queue::open(&folder.join("state")).unwrap();
        let entries = queue.entries().iter();
        entries.map(|entry| entry.order.key.repeat).collect()
    }

    #[test]
    fn what_is_accepted_is_on_disk_in_order_and_known_the_next_time() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = daemon(folder.path());
        let orderer = take_board(&daemon, STORE);
        let answers = block_on(orderer.submit(orders(0..256))).unwrap();
        assert_eq!(answers, vec![OrderAnswer::Accepted; 256]);
        assert_eq!(
            repeats_on_disk(folder.path()),
            (0..256).collect::<Vec<u32>>()
        );
        let again = block_on(orderer.submit(orders(254..257))).unwrap();
        assert_eq!(again[..2], [OrderAnswer::Known, OrderAnswer::Known]);
        let OrderAnswer::Refused(why) = &again[2] else {
            panic!("{again:?}");
        };
        assert_eq!(why.code, FailureCode::Backpressured);
    }

    #[test]
    fn others_have_a_turn_between_two_orders() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = daemon(folder.path());
        let orderer = take_board(&daemon, STORE);
        let turns = block_on(async {
            let turns = Rc::new(std::cell::Cell::new(0));
            let counted = Rc::clone(&turns);
            let other = spawn_local(async move {
                loop {
                    counted.set(counted.get() + 1);
                    yield_now().await;
                }
            });
            orderer.submit(orders(0..20)).await.unwrap();
            other.abort();
            turns.get()
        });
        assert!(turns >= 10, "{turns}");
    }

    #[test]
    fn who_loses_the_board_in_the_middle_has_no_order_left_there() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = daemon(folder.path());
        let orderer = take_board(&daemon, STORE);
        let thieving = Rc::clone(&daemon);
        let refused = block_on(async {
            let thief = spawn_local(async move {
                while thieving.queue.borrow().entries().len() < 3 {
                    yield_now().await;
                }
                take_board(&thieving, THIEF);
                let (robbed, removed) = thieving.queue.borrow_mut().keep_only(THIEF, None);
                removed.unwrap();
                assert_eq!(robbed, BTreeSet::from([STORE]));
            });
            let refused = orderer.submit(orders(0..50)).await.unwrap_err();
            thief.await.unwrap();
            refused
        });
        assert_eq!(refused.code, FailureCode::LeaseLost);
        assert_eq!(repeats_on_disk(folder.path()), []);
    }

    #[test]
    fn a_repeat_that_ends_meanwhile_is_not_taken_again() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = daemon(folder.path());
        let orderer = take_board(&daemon, STORE);
        block_on(orderer.submit(orders(9..10))).unwrap();
        let running = Rc::clone(&daemon);
        let base = folder.path().to_owned();
        let answers = block_on(async {
            let executor = spawn_local(async move {
                while running.queue.borrow().entries().len() < 3 {
                    yield_now().await;
                }
                // The first in the queue is sealed, and leaves it.
                let first = running.queue.borrow().first().cloned().unwrap();
                let header = repeat_folder::header(STORE, BootId(1), first.order.key);
                let (run, spill) = (base.join("run"), base.join("spill"));
                let repeat = RepeatFolder::without_arena(&run, &spill, &header).unwrap();
                let end = running.end_of(Outcome::Complete);
                running.spool.seal(&repeat, header, end).unwrap();
                running.queue.borrow_mut().remove(first.number).unwrap();
            });
            let answers = orderer.submit(orders(0..10)).await.unwrap();
            executor.await.unwrap();
            answers
        });
        let expected = [vec![OrderAnswer::Accepted; 9], vec![OrderAnswer::Known]].concat();
        assert_eq!(answers, expected);
        assert_eq!(repeats_on_disk(folder.path()), (0..9).collect::<Vec<u32>>());
    }

    #[test]
    fn an_order_that_runs_stays_when_the_others_cannot_be_made_durable() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = daemon(folder.path());
        let orderer = take_board(&daemon, STORE);
        let executor = Rc::clone(&daemon);
        let base = folder.path().to_owned();
        let answers = block_on(async {
            let lost = spawn_local(async move {
                while executor.queue.borrow().entries().len() < 2 {
                    yield_now().await;
                }
                let first = executor.queue.borrow().first().cloned().unwrap();
                *executor.running.borrow_mut() = Some(Running {
                    number: first.number,
                    store: STORE,
                    key: first.order.key,
                    stage: Stage::Spawn,
                    cancel: watch::channel(Cancel::No).0,
                });
                // A folder that is not there cannot be synced.
                fs::rename(base.join("state/queue"), base.join("elsewhere")).unwrap();
            });
            let answers = orderer.submit(orders(0..2)).await.unwrap();
            lost.await.unwrap();
            answers
        });
        let is_refused = |answer: &OrderAnswer| matches!(answer, OrderAnswer::Refused(_));
        assert!(answers.iter().all(is_refused), "{answers:?}");
        let queue = daemon.queue.borrow();
        let left = queue.entries().iter();
        let left: Vec<u32> = left.map(|entry| entry.order.key.repeat).collect();
        assert_eq!(left, [0]);
    }

    #[test]
    fn an_order_of_who_does_not_hold_the_board_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = daemon(folder.path());
        let mut orderer = take_board(&daemon, STORE);
        orderer.epoch = None;
        for count in [0, 1] {
            let refused = block_on(orderer.submit(orders(0..count))).unwrap_err();
            assert_eq!(refused.code, FailureCode::LeaseLost);
        }
        assert_eq!(repeats_on_disk(folder.path()), []);
    }
}
