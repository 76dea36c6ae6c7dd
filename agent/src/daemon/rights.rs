//! Who may order and cancel, and what a role allows.

use edgedyno_shared::ids::StoreId;
use edgedyno_shared::link::role::Role;
use edgedyno_shared::order::RepeatOrder;
use edgedyno_shared::wire::failure::{Failure, FailureCode};

use super::state::Daemon;
use crate::backend;

const PAIR_AGAIN: &str =
    "pair again with a ticket for that role: `edgedyno-agent pair ROLE` on the board";

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

/// Whether a host of a role may have this measured, as far as the board itself is concerned.
pub(super) fn may_order(role: Role, order: &RepeatOrder) -> Result<(), Failure> {
    // Clocks are everybody's on the board.
    if order.preparation.fix_clocks {
        may(role, Role::Admin)?;
    }
    let case = &order.case;
    let tenants = case.tenants.iter();
    let tenants = tenants.map(|tenant| (&tenant.backend, &tenant.options));
    for (backend, options) in std::iter::once((&case.backend, &case.options)).chain(tenants) {
        // One that is not there makes a row of its own.
        let Some(backend) = backend::find(backend) else {
            continue;
        };
        let named = options.iter();
        let mut named = named.filter(|(key, value)| !backend.names_no_file(key, value));
        if role < Role::Admin
            && let Some((key, _)) = named.next()
        {
            return Err(may_name_file(role, key));
        }
    }
    Ok(())
}

fn may_name_file(role: Role, key: &str) -> Failure {
    let detail = format!(
        "option {key} can make a runtime open a file or a library of the board, which needs the role {}; this host has {role}",
        Role::Admin
    );
    Failure::new(FailureCode::NotPermitted, detail).hint(PAIR_AGAIN)
}

/// Whether a host of a role may do what another role is needed for.
pub(super) fn may(role: Role, needed: Role) -> Result<(), Failure> {
    if role >= needed {
        return Ok(());
    }
    let detail = format!("this needs the role {needed}, and this host has {role} on the board");
    Err(Failure::new(FailureCode::NotPermitted, detail).hint(PAIR_AGAIN))
}

#[cfg(test)]
mod tests;
