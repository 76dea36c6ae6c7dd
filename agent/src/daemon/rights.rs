//! Who may order and cancel, and what a role allows.

use edgedyno_shared::ids::StoreId;
use edgedyno_shared::link::role::Role;
use edgedyno_shared::wire::failure::{Failure, FailureCode};

use super::state::Daemon;

/// Orders and cancels count only from who holds the board, in the epoch in which it took it.
pub(super) fn holds_board(
    daemon: &Daemon,
    store: StoreId,
    epoch: Option<u64>,
) -> Result<(), Failure> {
    let lease = daemon.lease.borrow();
    if epoch.is_some_and(|epoch| lease.holds(store, epoch)) {
        return Ok(());
    }
    let detail = "this session does not hold the board";
    Err(Failure::new(FailureCode::LeaseLost, detail).hint("run the command again"))
}

/// Whether a host of a role may do what another role is needed for.
pub(super) fn may(role: Role, needed: Role) -> Result<(), Failure> {
    if role >= needed {
        return Ok(());
    }
    let detail = format!("this needs the role {needed}, and this host has {role} on the board");
    let hint = "pair again with a ticket for that role: `edgedyno-agent pair ROLE` on the board";
    Err(Failure::new(FailureCode::NotPermitted, detail).hint(hint))
}
