//! What a session is sent unasked: the spooled repeats of its store, and what is said of them.

use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use edgedyno_shared::ids::StoreId;
use edgedyno_shared::wire::event::Event;
use edgedyno_shared::wire::failure::{Failure, FailureCode};
use edgedyno_shared::wire::frame::{Frame, kind};
use tokio::sync::{broadcast, mpsc};
use tokio::time::timeout;

use super::spool_file;
use super::state::{Daemon, News};

/// Between two tries to repair what there is no room for.
const RETRY: Duration = Duration::from_secs(10);

/// What of its store a session has seen.
#[derive(Debug, Default)]
struct Sent {
    last: Option<u64>,
    /// Left out for now: damaged, and not repaired yet.
    left_out: BTreeSet<u64>,
}

impl Sent {
    fn is_due(&self, number: u64) -> bool {
        self.last.is_none_or(|last| number > last) || self.left_out.contains(&number)
    }

    fn pass(&mut self, number: u64) {
        self.left_out.remove(&number);
        self.last = self.last.max(Some(number));
    }

    fn leave_out(&mut self, number: u64) {
        self.pass(number);
        self.left_out.insert(number);
    }
}

/// Sends what waits in the spool of a store, then what is sealed and said while it listens.
pub(super) async fn feed(
    daemon: Rc<Daemon>,
    store: StoreId,
    out: mpsc::Sender<Frame>,
    mut news: broadcast::Receiver<(StoreId, News)>,
) {
    let mut sent = Sent::default();
    loop {
        if store != StoreId::NONE && send_sealed(&daemon, store, &out, &mut sent).await.is_err() {
            return;
        }
        loop {
            let heard = match sent.left_out.is_empty() {
                true => news.recv().await,
                false => match timeout(RETRY, news.recv()).await {
                    Ok(heard) => heard,
                    // Reading would disturb it; its end brings the next try.
                    Err(_) if daemon.running.borrow().is_some() => continue,
                    Err(_) => break,
                },
            };
            match heard {
                Ok((of, News::Sealed)) if of == store => break,
                Ok((of, News::Event(event))) if of == store => {
                    if send_event(&out, &event).await.is_err() {
                        return;
                    }
                }
                Ok(_) => {}
                // Missed events are gone; a missed seal is found in the spool.
                Err(broadcast::error::RecvError::Lagged(_)) => break,
                Err(broadcast::error::RecvError::Closed) => return,
            }
        }
    }
}

async fn send_event(out: &mpsc::Sender<Frame>, event: &Event) -> Result<(), ()> {
    let frame = Frame::encode(kind::EVENT, event).map_err(drop)?;
    out.send(frame).await.map_err(drop)
}

async fn send_sealed(
    daemon: &Daemon,
    store: StoreId,
    out: &mpsc::Sender<Frame>,
    sent: &mut Sent,
) -> Result<(), ()> {
    let numbers = daemon.spool.numbers(store).unwrap_or_else(|why| {
        tracing::error!("what waits for store {store} cannot be looked for: {why}");
        Vec::new()
    });
    sent.left_out.retain(|number| numbers.contains(number));
    for number in numbers {
        if !sent.is_due(number) {
            continue;
        }
        let is_unrepaired = daemon.unrepaired.borrow().contains(&(store, number));
        if is_unrepaired && let Err(why) = repair(daemon, store, number) {
            leave_out(number, &why, out, sent).await?;
            continue;
        }
        let frames = match daemon.spool.frames(store, number) {
            Ok(frames) => frames,
            // Another session of the same store acknowledged it meanwhile.
            Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
            Err(why) => {
                tracing::error!("segment {number} of store {store}: {why}");
                // Nothing of it was sent: others need not wait for it.
                match repair(daemon, store, number) {
                    Ok(()) => return Err(()),
                    Err(why) => leave_out(number, &why, out, sent).await?,
                }
                continue;
            }
        };
        let mut has_end = false;
        for frame in frames {
            let frame = frame.map_err(|why| give_up(daemon, store, number, &why))?;
            has_end = spool_file::is_end(&frame);
            out.send(frame).await.map_err(drop)?;
        }
        if !has_end {
            // The host would wait for it.
            let why = io::Error::other("its end is missing");
            give_up(daemon, store, number, &why);
            return Err(());
        }
        sent.pass(number);
    }
    Ok(())
}

/// A segment that cannot be read to its end: perhaps half of it was sent. The session ends then, so that the
/// host throws that away, and comes back for what could be saved.
fn give_up(daemon: &Daemon, store: StoreId, number: u64, why: &io::Error) {
    tracing::error!("segment {number} of store {store}: {why}");
    // What went wrong is said to the host when it is back.
    let _ = repair(daemon, store, number);
}

/// What cannot be repaired is remembered: the next session is not sent half of it again.
fn repair(daemon: &Daemon, store: StoreId, number: u64) -> io::Result<()> {
    let repaired = daemon.spool.repair(store, number);
    let mut unrepaired = daemon.unrepaired.borrow_mut();
    match repaired {
        Ok(_) => {
            unrepaired.remove(&(store, number));
            Ok(())
        }
        Err(why) => {
            tracing::error!("segment {number} of store {store} cannot be repaired: {why}");
            unrepaired.insert((store, number));
            Err(why)
        }
    }
}

/// Goes on without a segment, and says so: the host that waits for it must be told in the end.
async fn leave_out(
    number: u64,
    why: &io::Error,
    out: &mpsc::Sender<Frame>,
    sent: &mut Sent,
) -> Result<(), ()> {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    sent.leave_out(number);
    let code = match why.kind() {
        StorageFull | QuotaExceeded => FailureCode::StorageFull,
        _ => FailureCode::Internal,
    };
    let text = format!("a finished repeat cannot be read on the board, nor put right there: {why}");
    let failure = Failure::new(code, text)
        .hint("free room in the agent's state folder; it goes on by itself then");
    send_event(out, &Event::Waiting(failure)).await
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use edgedyno_shared::ids::BootId;
    use edgedyno_shared::repeat::Outcome;
    use edgedyno_shared::wire::record::SegmentHeader;

    use super::super::repeat_folder::{self, RepeatFolder};
    use super::super::testing::{block_on, daemon};
    use super::*;
    use crate::inputs::testing;

    const STORE: StoreId = StoreId([7; 16]);

    fn seal(daemon: &Daemon, base: &Path, repeat: u32) {
        let mut key = testing::job().order.key;
        key.repeat = repeat;
        let header = repeat_folder::header(STORE, BootId(1), key);
        let (run, spill) = (base.join("run"), base.join("spill"));
        let folder = RepeatFolder::without_arena(&run, &spill, &header).unwrap();
        let end = daemon.end_of(Outcome::Complete);
        daemon.spool.seal(&folder, header, end).unwrap();
        folder.remove().unwrap();
    }

    /// Everything that a session is sent now, and whether it goes on.
    async fn sent_now(daemon: &Daemon, sent: &mut Sent) -> (Vec<Frame>, bool) {
        let (out, mut frames) = mpsc::channel(64);
        let goes_on = send_sealed(daemon, STORE, &out, sent).await.is_ok();
        drop(out);
        let mut all = Vec::new();
        while let Some(frame) = frames.recv().await {
            all.push(frame);
        }
        (all, goes_on)
    }

    fn segments(frames: &[Frame]) -> Vec<u64> {
        let headers = frames.iter().filter(|frame| frame.kind == kind::SEGMENT);
        headers
            .map(|frame| SegmentHeader::parse(&frame.payload).unwrap().segment)
            .collect()
    }

    fn waits(frames: &[Frame]) -> usize {
        let events = frames.iter().filter(|frame| frame.kind == kind::EVENT);
        events
            .filter(|frame| matches!(frame.decode(), Ok(Event::Waiting(_))))
            .count()
    }

    #[test]
    fn what_cannot_be_repaired_keeps_no_other_repeat_back_and_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = daemon(folder.path());
        seal(&daemon, folder.path(), 0);
        seal(&daemon, folder.path(), 1);
        let first = folder
            .path()
            .join(format!("state/spool/{STORE}/{:020}.seg", 0));
        let whole = fs::read(&first).unwrap();
        fs::write(&first, &whole[..whole.len() - 1]).unwrap();
        // In the way of what is set aside, for root too, as a full disk is.
        let aside = first.with_extension("bad");
        fs::create_dir(&aside).unwrap();
        block_on(async {
            let (frames, goes_on) = sent_now(&daemon, &mut Sent::default()).await;
            assert!(!goes_on, "half of it was sent");
            assert_eq!(segments(&frames), [0]);
            let mut sent = Sent::default();
            for expected in [vec![1], vec![]] {
                let (frames, goes_on) = sent_now(&daemon, &mut sent).await;
                assert!(goes_on);
                assert_eq!((segments(&frames), waits(&frames)), (expected, 1));
            }
            fs::remove_dir(&aside).unwrap();
            let (frames, goes_on) = sent_now(&daemon, &mut sent).await;
            assert!(goes_on && spool_file::is_end(frames.last().unwrap()));
            assert_eq!((segments(&frames), waits(&frames)), (vec![0], 0));
            let (frames, _) = sent_now(&daemon, &mut sent).await;
            assert!(frames.is_empty(), "{frames:?}");
        });
    }
}
