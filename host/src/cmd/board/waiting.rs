//! Results that wait on a board for a store: shown with the board, and dropped for a store that is lost.

use clap::Args;
use edgedyno_shared::wire::request::WaitingResults;

use crate::cmd::run::inventory::Inquiry;
use crate::exit::CommandError;
use crate::ui::{print, units};

#[derive(Debug, Clone, Args)]
pub(super) struct WaitingArgs {
    /// Throw away what waits there for this store, or the one store whose id begins so (role admin)
    #[arg(long, value_name = "STORE")]
    drop_results: Option<String>,
}

/// What waits, after that which is to be dropped is gone; and what was dropped.
pub(super) async fn look(
    inquiry: &mut Inquiry,
    args: &WaitingArgs,
) -> Result<(Vec<WaitingResults>, Option<WaitingResults>), CommandError> {
    let waiting = inquiry.waiting().await?;
    let Some(text) = &args.drop_results else {
        return Ok((waiting, None));
    };
    let lost = find(&waiting, text)?;
    inquiry.drop_results(lost.store).await?;
    print::note(format_args!(
        "{} that waited for store {} are thrown away",
        units::things(lost.repeats.into(), "repeat"),
        lost.store
    ));
    Ok((inquiry.waiting().await?, Some(lost.clone())))
}

/// The store whose id begins with a text.
fn find<'a>(waiting: &'a [WaitingResults], text: &str) -> Result<&'a WaitingResults, CommandError> {
    let begins =
        |one: &&WaitingResults| !text.is_empty() && one.store.to_string().starts_with(text);
    let found: Vec<&WaitingResults> = waiting.iter().filter(begins).collect();
    match found[..] {
        [one] => Ok(one),
        [] => Err(
            CommandError::usage(format!("nothing waits on the board for a store `{text}`"))
                .hint("without --drop-results the command shows for which stores results wait"),
        ),
        _ => Err(
            CommandError::usage(format!("`{text}` begins the ids of several stores"))
                .hint("give more digits of the one that is meant"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::ids::StoreId;

    use super::*;

    fn waiting(first: u8) -> WaitingResults {
        let mut store = [0xab; 16];
        store[1] = first;
        WaitingResults {
            store: StoreId(store),
            repeats: 1,
            bytes: 2,
            oldest_unix_ns: None,
        }
    }

    #[test]
    fn a_store_is_named_by_as_much_of_its_id_as_is_needed() {
        let all = [waiting(0x10), waiting(0x1f)];
        assert_eq!(find(&all, "ab1f").unwrap(), &all[1]);
        let whole = all[0].store.to_string();
        assert_eq!(find(&all, &whole).unwrap(), &all[0]);
        // The one store that a slip would take is not dropped.
        for text in ["", "ab", "ab1", "cd", "10"] {
            assert!(find(&all, text).is_err(), "{text}");
        }
        assert!(find(&all[..1], "").is_err());
    }
}
