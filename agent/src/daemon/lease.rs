//! Who may measure: one store at a time, with an epoch that grows whenever the board changes hands.
//!
//! A state machine: time and what happens come in as arguments; what is to be kept on disk comes out, and
//! must be there before anybody is told.

use std::time::Duration;

use edgedyno_shared::ids::StoreId;
use edgedyno_shared::units::Nanos;

/// A holder without an order that says nothing keeps the board this long.
pub const GRACE: Duration = Duration::from_secs(30);

/// The same once its session ended: long enough to come back.
pub const AFTER_SESSION: Duration = Duration::from_secs(5);

/// Who holds the board, and in which epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lease {
    epoch: u64,
    holder: Option<Holder>,
}

/// The part that outlives the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub store: StoreId,
    /// For people.
    pub name: String,
    /// By the board's wall clock, for people.
    pub since_unix_ns: i64,
    /// Until when nobody else gets it, by the steady clock.
    until: Nanos,
}

/// What the lease is to know of the moment.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub now: Nanos,
    pub wall_unix_ns: i64,
    /// Whether an order of the holder is queued or runs.
    pub has_orders: bool,
}

/// What became of a wish to hold the board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It is the asker's already.
    Held { epoch: u64 },
    /// To be written down before it is told. `from` lost it.
    New { epoch: u64, from: Option<Holder> },
    /// Somebody else has it.
    Busy(Holder),
}

impl Lease {
    /// As read from disk.
    pub fn restore(epoch: u64, holder: Option<(StoreId, String, i64)>, now: Nanos) -> Self {
        let holder = holder.map(|(store, name, since_unix_ns)| Holder {
            store,
            name,
            since_unix_ns,
            until: after(now, GRACE),
        });
        Self { epoch, holder }
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// Gives the board to a store that asks, when it is free or the asker may steal it.
    pub fn take(&mut self, store: StoreId, name: &str, steal: bool, moment: Moment) -> Taken {
        self.note(moment);
        match &mut self.holder {
            Some(holder) if holder.store == store => {
                holder.until = after(moment.now, GRACE);
                return Taken::Held { epoch: self.epoch };
            }
            Some(holder) if !steal => return Taken::Busy(holder.clone()),
            _ => {}
        }
        self.epoch += 1;
        let from = self.holder.replace(Holder {
            store,
            name: name.into(),
            since_unix_ns: moment.wall_unix_ns,
            until: after(moment.now, GRACE),
        });
        let epoch = self.epoch;
        Taken::New { epoch, from }
    }

    /// Frees the board of a holder that has been gone for long. Returns whether it did.
    pub fn note(&mut self, moment: Moment) -> bool {
        let Some(holder) = &mut self.holder else {
            return false;
        };
        if moment.has_orders {
            holder.until = holder.until.max(after(moment.now, AFTER_SESSION));
            return false;
        }
        let is_over = moment.now > holder.until;
        if is_over {
            self.holder = None;
        }
        is_over
    }

    /// The holder says something: it is there.
    pub fn touch(&mut self, store: StoreId, epoch: u64, now: Nanos) {
        if self.holds(store, epoch)
            && let Some(holder) = &mut self.holder
        {
            holder.until = after(now, GRACE);
        }
    }

    /// A repeat of the holder ended. Whoever only waits for a long one says nothing meanwhile, and has as much
    /// time to order the next as after a word of its own; one without a session has what it takes to come back.
    pub fn repeat_ended(&mut self, store: StoreId, has_session: bool, now: Nanos) {
        let span = if has_session { GRACE } else { AFTER_SESSION };
        if let Some(holder) = self.holder.as_mut().filter(|holder| holder.store == store) {
            holder.until = holder.until.max(after(now, span));
        }
    }

    /// A session of the holder ended: it may come back soon, or not at all.
    pub fn session_ended(&mut self, store: StoreId, epoch: u64, now: Nanos) {
        if self.holds(store, epoch)
            && let Some(holder) = &mut self.holder
        {
            holder.until = after(now, AFTER_SESSION);
        }
    }

    /// The holder gives the board back. Returns whether it was the holder's to give.
    pub fn release(&mut self, store: StoreId, epoch: u64) -> bool {
        let holds = self.holds(store, epoch);
        if holds {
            self.holder = None;
        }
        holds
    }

    /// Whether a command of that store and epoch counts.
    pub fn holds(&self, store: StoreId, epoch: u64) -> bool {
        epoch == self.epoch
            && self
                .holder
                .as_ref()
                .is_some_and(|holder| holder.store == store)
    }
}

fn after(now: Nanos, span: Duration) -> Nanos {
    Nanos(now.0.saturating_add(span.as_nanos() as i64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: StoreId = StoreId([1; 16]);
    const B: StoreId = StoreId([2; 16]);

    fn at(seconds: i64, has_orders: bool) -> Moment {
        Moment {
            now: Nanos::from_secs(seconds),
            wall_unix_ns: 7,
            has_orders,
        }
    }

    #[test]
    fn one_store_holds_the_board_and_others_hear_who_it_is() {
        let mut lease = Lease::default();
        let first = lease.take(A, "ann", false, at(0, false));
        assert_eq!(
            first,
            Taken::New {
                epoch: 1,
                from: None
            }
        );
        assert_eq!(
            lease.take(A, "ann", false, at(1, true)),
            Taken::Held { epoch: 1 }
        );
        match lease.take(B, "bob", false, at(2, true)) {
            Taken::Busy(holder) => {
                assert_eq!((holder.name.as_str(), holder.since_unix_ns), ("ann", 7))
            }
            other => panic!("{other:?}"),
        }
        assert!(lease.holds(A, 1) && !lease.holds(B, 1));
        assert!(!lease.release(B, 1) && !lease.release(A, 0));
        assert!(lease.release(A, 1));
        assert!(!lease.holds(A, 1), "a command after the release is none");
    }

    #[test]
    fn a_stolen_board_refuses_commands_of_the_epoch_before() {
        let mut lease = Lease::default();
        lease.take(A, "ann", false, at(0, false));
        match lease.take(B, "bob", true, at(1, true)) {
            Taken::New {
                epoch: 2,
                from: Some(from),
            } => assert_eq!(from.store, A),
            other => panic!("{other:?}"),
        }
        assert!(!lease.holds(A, 1) && !lease.holds(A, 2) && lease.holds(B, 2));
        assert!(
            !lease.release(A, 1),
            "the holder before cannot give it away"
        );
    }

    #[test]
    fn a_holder_that_is_gone_keeps_the_board_for_a_moment_and_with_orders_for_as_long_as_they_last()
    {
        let mut lease = Lease::default();
        lease.take(A, "ann", false, at(0, false));
        lease.touch(A, 1, Nanos::from_secs(10));
        assert!(matches!(
            lease.take(B, "bob", false, at(40, false)),
            Taken::Busy(_)
        ));
        lease.session_ended(A, 1, Nanos::from_secs(40));
        assert!(!lease.note(at(3600, true)), "it has orders");
        assert!(matches!(
            lease.take(B, "bob", false, at(3605, false)),
            Taken::Busy(_)
        ));
        let taken = lease.take(B, "bob", false, at(3606, false));
        assert_eq!(
            taken,
            Taken::New {
                epoch: 2,
                from: None
            }
        );
    }

    #[test]
    fn a_restarted_daemon_goes_on_with_the_epoch() {
        let mut lease = Lease::restore(41, Some((A, "ann".into(), 3)), Nanos(0));
        assert!(lease.holds(A, 41));
        let taken = lease.take(B, "bob", true, at(1, true));
        assert!(matches!(taken, Taken::New { epoch: 42, .. }));
    }

    #[test]
    fn a_holder_that_waited_for_a_long_repeat_has_time_to_order_the_next() {
        for (has_session, until) in [(true, 1030), (false, 1005)] {
            let mut lease = Lease::default();
            lease.take(A, "ann", false, at(0, false));
            lease.repeat_ended(B, true, Nanos::from_secs(500));
            lease.repeat_ended(A, has_session, Nanos::from_secs(1000));
            let asks = |lease: &mut Lease, second| lease.take(B, "bob", false, at(second, false));
            assert!(matches!(asks(&mut lease, until), Taken::Busy(_)));
            assert!(matches!(asks(&mut lease, until + 1), Taken::New { .. }));
        }
    }

    proptest! {
        /// Whoever speaks, orders, and waits for what it ordered, loses the board only by its own silence.
        #[test]
        fn a_holder_is_free_of_others_for_its_grace(steps in prop::collection::vec((0_u8..4, 0_i64..90), 1..100)) {
            let mut lease = Lease::default();
            lease.take(A, "ann", false, at(0, false));
            let (mut now, mut last, mut has_orders) = (0, 0, false);
            for (what, seconds) in steps {
                now += seconds;
                match what {
                    0 | 1 => {
                        lease.touch(A, 1, Nanos::from_secs(now));
                        (last, has_orders) = (now, has_orders || what == 1);
                    }
                    2 if has_orders => {
                        lease.repeat_ended(A, true, Nanos::from_secs(now));
                        (last, has_orders) = (now, false);
                    }
                    2 => {}
                    _ => {
                        let is_free = !has_orders && now - last > 30;
                        let taken = lease.take(B, "bob", false, at(now, has_orders));
                        let is_taken = matches!(taken, Taken::New { .. });
                        prop_assert_eq!(is_taken, is_free, "{:?}", taken);
                        if is_taken {
                            return Ok(());
                        }
                    }
                }
            }
        }

        /// Hosts come, go, steal and come back late: whoever holds an epoch, nobody else ever did.
        #[test]
        fn no_epoch_has_two_owners(steps in prop::collection::vec((0_u8..4, 0_u8..4, 0_i64..60), 1..200)) {
            let mut lease = Lease::default();
            let mut owners = std::collections::BTreeMap::new();
            let mut now = 0;
            for (who, what, seconds) in steps {
                now += seconds;
                let store = StoreId([who; 16]);
                let moment = at(now, what == 3);
                match what {
                    0 | 1 => match lease.take(store, "x", what == 1, moment) {
                        Taken::New { epoch, .. } => {
                            prop_assert_eq!(owners.insert(epoch, store), None);
                        }
                        Taken::Held { epoch } => prop_assert_eq!(owners[&epoch], store),
                        Taken::Busy(holder) => prop_assert_ne!(holder.store, store),
                    },
                    2 => drop(lease.release(store, lease.epoch())),
                    _ => drop(lease.note(moment)),
                }
                for (epoch, owner) in &owners {
                    let holds = (0..4).map(|w| StoreId([w; 16])).filter(|s| lease.holds(*s, *epoch));
                    prop_assert!(holds.into_iter().all(|s| s == *owner));
                }
            }
        }
    }
}
