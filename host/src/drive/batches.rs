//! Orders cut into requests that fit a frame: each brings its whole case, with every input file by its hash.

use edgedyno_shared::order::RepeatOrder;
use edgedyno_shared::wire::frame;

/// Bytes of orders in one request. Half a frame, as for a piece of a file: a reply to something else waits
/// little.
const MOST: usize = frame::LIMIT / 2;

/// The orders in their order. One that is larger than [`MOST`] goes alone; whether it fits, its frame says.
pub(super) fn cut(orders: Vec<RepeatOrder>) -> Vec<Vec<RepeatOrder>> {
    let mut batches: Vec<Vec<RepeatOrder>> = Vec::new();
    let mut filled = 0;
    for order in orders {
        // What cannot be encoded is told when it is sent.
        let bytes = postcard::to_stdvec(&order).map_or(0, |bytes| bytes.len());
        match batches.last_mut() {
            Some(batch) if filled + bytes <= MOST => {
                batch.push(order);
                filled += bytes;
            }
            _ => {
                batches.push(vec![order]);
                filled = bytes;
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::case::{InputFile, InputSource};
    use edgedyno_shared::ids::Sha256;
    use edgedyno_shared::wire::frame::{Frame, kind};
    use edgedyno_shared::wire::request::Request;

    use super::*;
    use crate::plan::fixed::StaticPlan;
    use crate::plan::fixed::tests::{case, conduct};
    use crate::plan::{Planner, Progress};
    use crate::store::sample::run_id;

    /// What a plan orders when there is room, each trial having an input file of its own.
    fn orders(repeats: u32, files: usize) -> Vec<RepeatOrder> {
        let file = |at: usize| InputFile {
            input: String::new(),
            sha256: Sha256([at as u8; 32]),
        };
        let mut case = case(1);
        case.inputs.source = InputSource::Files {
            sets: (0..files).map(|at| vec![file(at)]).collect(),
        };
        let mut progress = Progress::default();
        progress.room = repeats as usize;
        StaticPlan::new(&run_id("r1"), vec![case], conduct(repeats, 0)).next(&progress)
    }

    #[test]
    fn every_batch_fits_a_frame_and_nothing_is_left_out_or_moved() {
        // A hash is 32 bytes, and two lengths stand before it: 34 000 bytes an order of 1000 files, so that
        // 40 of them are more than one frame takes.
        for (repeats, files, at_least) in [(1, 1, 1), (256, 1, 1), (40, 1000, 3), (256, 5000, 86)] {
            let orders = orders(repeats, files);
            assert_eq!(orders.len(), repeats as usize);
            let batches = cut(orders.clone());
            assert!(batches.len() >= at_least, "{} batches", batches.len());
            assert_eq!(batches.concat(), orders);
            for batch in batches {
                let request = (u64::MAX, Request::Submit(batch));
                Frame::encode(kind::REQUEST, &request).unwrap();
            }
        }
    }

    #[test]
    fn an_order_larger_than_a_batch_goes_alone() {
        // 680 kB each: more than half a frame, and less than one.
        let orders = orders(3, 20_000);
        let batches = cut(orders);
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
        assert!(cut(Vec::new()).is_empty());
    }
}
