//! Text about results that wait on a board for their host.

use edgedyno_shared::wire::request::WaitingResults;

use super::units;
use crate::documents::utc;

/// A line for each store, and what to do about one that is lost.
pub fn lines(board: &str, waiting: &[WaitingResults]) -> Vec<String> {
    let line = |one: &WaitingResults| {
        let since = one.oldest_unix_ns.and_then(utc);
        format!(
            "  waiting: {} repeats ({}) for store {}, since {}",
            one.repeats,
            units::bytes(one.bytes as f64),
            one.store,
            since.as_deref().unwrap_or(units::UNKNOWN)
        )
    };
    let mut lines: Vec<String> = waiting.iter().map(line).collect();
    if !waiting.is_empty() {
        lines.push(format!(
            "  results are taken by the next run into their store; of a store that is lost, `edgedyno board info \
             {board} --drop-results STORE` throws them away"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::ids::StoreId;

    use super::*;

    #[test]
    fn each_store_has_a_line_and_an_unknown_time_is_said() {
        assert!(lines("x5", &[]).is_empty());
        let waiting = |byte, oldest_unix_ns| WaitingResults {
            store: StoreId([byte; 16]),
            repeats: 2,
            bytes: 1536,
            oldest_unix_ns,
        };
        let lines = lines("x5", &[waiting(0xab, Some(0)), waiting(0x01, None)]);
        assert_eq!(lines.len(), 3);
        let id = "ab".repeat(16);
        assert_eq!(
            lines[0],
            format!("  waiting: 2 repeats (1.5 KiB) for store {id}, since 1970-01-01T00:00:00Z")
        );
        assert!(lines[1].ends_with(&format!("since {}", units::UNKNOWN)));
        assert!(lines[2].contains("board info x5 --drop-results STORE"));
    }
}
