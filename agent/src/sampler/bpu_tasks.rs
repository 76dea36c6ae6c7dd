//! How long single tasks of a D-Robotics BPU took, by the list that its driver keeps: `fc_time`.
//!
//! The list has the newest 64 tasks that ended, oldest first, and reading takes none away
//! (`bpu_core_fc_time_show`, BPU driver in the kernels of X3 and X5). A row begins with the task's place,
//! numbers, group and priority, as one word or as several, and ends with its times: begin and end in
//! milliseconds of two clocks that differ by kernel (X3: the wall's, X5: since boot), and the microseconds
//! between them. Only these are read. Not tried on a board.

use edgedyno_shared::telemetry::{ChannelKind, Fidelity};

use super::board::Board;
use super::fault::Fault;
use super::files::Kept;
use super::offer::{Found, Offer, Tier};
use super::watch::Readings;
use super::{Source, text};

/// The kernel hands out one page, which 64 rows nearly fill.
const ROOM: usize = 8 << 10;

/// So much of a row tells it from every other.
const ROW: usize = 120;

pub(super) const MEAN: Offer = Offer {
    name: "bpu.N.task_time",
    unit: "ns",
    kind: ChannelKind::Gauge,
    fidelity: Fidelity::Derived,
    native_period: None,
    source: "/sys/devices/system/bpu/bpuN/fc_time",
    rights: "any user",
    boards: "D-Robotics boards whose BPU driver lists its tasks: X3, X5",
    meaning: "Mean time of the BPU tasks that ended since the read before, of the newest 64 where there were more: a witness of its own beside the host's clock. It runs from the handing over in the kernel to the core's interrupt, with what a task waited behind others, in whole µs; one trial may be several tasks, and those of other processes count too. Where no task ended there is no sample.",
};

pub(super) const LONGEST: Offer = Offer {
    name: "bpu.N.task_time_max",
    fidelity: Fidelity::Measured,
    meaning: "The longest of them.",
    ..MEAN
};

/// The list of the core whose files are in `folder`; none where its driver keeps none.
pub(super) fn find(board: &Board, folder: &str, number: u16) -> Option<Found> {
    let path = format!("{folder}/fc_time");
    if !board.has(&path) {
        return None;
    }
    let specs = [(MEAN, "task_time"), (LONGEST, "task_time_max")]
        .map(|(offer, what)| offer.spec(format!("bpu.{number}.{what}"), format!("/{path}")));
    let tasks = Tasks {
        file: board.keep(&path, ROOM),
        newest: Vec::with_capacity(ROW),
        has_looked: false,
    };
    // The driver allocates for each read.
    Some(Found::new(Tier::Slow, specs.to_vec(), tasks))
}

struct Tasks {
    file: Kept,
    /// The last row of the read before.
    newest: Vec<u8>,
    /// What stands in the list at the first read may be as old as the board.
    has_looked: bool,
}

impl Source for Tasks {
    fn read(&mut self, out: &mut Readings<'_>) {
        let read = out.timed(|| self.file.text());
        let (ended, last) = match read.and_then(|held| ended_after(held, &self.newest)) {
            Ok(found) => found,
            Err(fault) => return out.put_all(fault),
        };
        if let (true, Some(mean)) = (self.has_looked, ended.mean()) {
            out.put(0, Ok(mean));
            out.put(1, Ok(ended.longest));
        }
        self.has_looked = true;
        self.newest.clear();
        self.newest.extend(last);
    }
}

/// Tasks of which nobody has told yet, in nanoseconds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ended {
    count: i64,
    sum: i64,
    longest: i64,
}

impl Ended {
    fn mean(&self) -> Option<i64> {
        self.sum.checked_div(self.count)
    }
}

/// The tasks behind the row `newest`, else all; and the last row.
fn ended_after<'a>(held: &'a [u8], newest: &[u8]) -> Result<(Ended, &'a [u8]), Fault> {
    const NO_LIST: Fault = Fault::parse("not the BPU driver's list of tasks");
    let mut rows = text::lines(held);
    // A driver without memory to spare says so in the head's place.
    rows.next()
        .filter(|head| head.starts_with(b"index"))
        .ok_or(NO_LIST)?;
    let (mut ended, mut last) = (Ended::default(), &b""[..]);
    for row in rows {
        let time = time_of(row).ok_or(NO_LIST)?;
        last = &row[..row.len().min(ROW)];
        if last == newest {
            ended = Ended::default();
            continue;
        }
        ended.count += 1;
        ended.sum = ended.sum.saturating_add(time);
        ended.longest = ended.longest.max(time);
    }
    Ok((ended, last))
}

/// Nanoseconds that the last word of a row says: `3012us`.
fn time_of(row: &[u8]) -> Option<i64> {
    let word = text::words(row).last()?.strip_suffix(b"us")?;
    let micros = text::number(word).filter(|micros| *micros >= 0)?;
    micros.checked_mul(1_000)
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::telemetry::Quality;
    use proptest::prelude::*;

    use super::*;
    use crate::sampler::Sampler;
    use crate::sampler::accelerators::Accelerators;
    use crate::sampler::testing::Tree;

    const PATH: &str = "sys/devices/system/bpu/bpu0/fc_time";
    const HEAD: &str = "index\tid:hwid\t\tgroup\tprio\ts_time\te_time\tr_time\n";

    /// A row as the X5's driver writes it.
    fn row(number: i64, micros: i64) -> String {
        let begin = 5_000 + number * 10;
        let end = begin + micros / 1_000;
        format!("{number}\t7:{number}\t0:4242\t0\t{begin}\t{end}\t{micros}us\n")
    }

    fn list(rows: &[(i64, i64)]) -> String {
        let rows = rows.iter().map(|(number, micros)| row(*number, *micros));
        [HEAD.to_owned()].into_iter().chain(rows).collect()
    }

    #[test]
    fn each_task_is_told_once_and_none_from_before_the_watch() {
        let tree = Tree::with(&[(PATH, &list(&[(1, 9_999), (2, 9_999)]))]);
        let mut watch = tree.watch(&Accelerators);
        let told = |readings: &crate::sampler::testing::ByName| {
            ["bpu.0.task_time", "bpu.0.task_time_max"].map(|name| readings.get(name).copied())
        };
        assert_eq!(
            told(&watch.again()),
            [None, None],
            "nothing ended meanwhile"
        );
        tree.set(PATH, &list(&[(2, 9_999), (3, 3_000), (4, 5_000)]));
        // 3 and 5 ms.
        let both = [Some(Ok(4_000_000)), Some(Ok(5_000_000))];
        assert_eq!(told(&watch.again()), both);
        // The list has turned over: all of it is new.
        tree.set(PATH, &list(&[(9, 1_000), (10, 2_000), (11, 6_000)]));
        assert_eq!(
            told(&watch.again()),
            [Some(Ok(3_000_000)), Some(Ok(6_000_000))]
        );
    }

    #[test]
    fn the_list_of_the_x3_is_read_too() {
        // Its columns are padded and two of them run together.
        let held = "index id:hwid   \tgroup \tprio  \tstart_time\tend_time  \texe_time\n\
                    0     12:7         \t3:4242  0     \t1700000000123\t1700000000130\t6543us\n";
        let (ended, last) = ended_after(held.as_bytes(), b"").unwrap();
        assert_eq!((ended.count, ended.mean()), (1, Some(6_543_000)));
        assert!(last.starts_with(b"0     12:7"));
    }

    #[test]
    fn a_list_without_tasks_gives_nothing_and_what_is_no_list_says_so() {
        assert_eq!(ended_after(HEAD.as_bytes(), b"").unwrap().0.mean(), None);
        let cut = format!("{HEAD}1\t7:1\t0:4242\t0\t5000\t50");
        let backwards = format!("{HEAD}{}", row(1, -5));
        for held in [
            "Alloc debug buffer failed!\n",
            "",
            &cut,
            &backwards,
            "index\nus\n",
        ] {
            let fault = ended_after(held.as_bytes(), b"").unwrap_err();
            assert_eq!(fault.quality, Quality::ParseError, "{held}");
        }
    }

    #[test]
    fn a_core_without_a_list_has_no_such_channel() {
        let tree = Tree::with(&[("sys/devices/system/bpu/bpu0/ratio", "50\n")]);
        let found = Accelerators.find(&tree.board());
        assert_eq!(found.len(), 1, "its load alone");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(held: Vec<u8>, newest: Vec<u8>) {
            let _ = (time_of(&held), ended_after(&held, &newest));
            let list = [b"index\n", &held[..]].concat();
            if let Ok((ended, _)) = ended_after(&list, &newest) {
                prop_assert!(ended.mean().is_none_or(|mean| 0 <= mean && mean <= ended.longest));
            }
        }

        #[test]
        fn rows_that_were_told_are_not_told_again(
            times in proptest::collection::vec(0_i64..100_000, 1..64),
            told in 0_usize..64,
        ) {
            let told = told.min(times.len());
            let rows: Vec<(i64, i64)> = (0..).zip(times.iter().copied()).collect();
            let newest = rows[..told].last().map(|(number, micros)| row(*number, *micros));
            let newest = newest.unwrap_or_default();
            let held = list(&rows);
            let (ended, _) = ended_after(held.as_bytes(), newest.trim_end().as_bytes()).unwrap();
            let new = &times[told..];
            prop_assert_eq!(ended.count as usize, new.len());
            prop_assert_eq!(ended.sum, new.iter().sum::<i64>() * 1_000);
        }
    }
}
