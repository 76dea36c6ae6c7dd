//! Contents come to the agent: by where they lie where it can see that, else by their bytes.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use edgedyno_shared::content::OfferedFile;
use edgedyno_shared::wire::request::{Reply, Request, UPLOAD_BYTES, Upload};

use super::DriveEvent;
use super::session::{Session, Stop};
use crate::board::Board;
use crate::board::content::Content;
use crate::board::link::LinkError;

/// Pieces on their way at once: the board writes one while the next come, and a long line is not waited for
/// after each.
pub(super) const AHEAD: usize = 4;

/// Offers on their way at once: a plan can have a thousand input files, and offers all of them whenever the
/// line was lost.
pub(super) const OFFERS_AHEAD: usize = 32;

/// Answers in a row that bring a file no further, before it is given up.
const STANDSTILLS: u32 = 3;

impl<B: Board> Session<'_, '_, B> {
    /// Sees that the agent has all contents, or knows where they are.
    pub(super) async fn provide(&mut self, contents: &[Content]) -> Result<(), Stop> {
        if !self.driver.board.is_remote() {
            for content in contents {
                let map = content.to_map().map_err(unreadable(content))?;
                self.demand(Request::MapContent(map)).await?;
            }
            return Ok(());
        }
        let mut sent = BTreeSet::new();
        for (file, path, have) in self.offer(contents).await? {
            // Several contents may have a file in common.
            if sent.insert(file.sha256) {
                self.send_file(&file, &path, have).await?;
            }
        }
        Ok(())
    }

    /// Offers all contents; files that the agent has not, or not to their end, and how far it has them.
    async fn offer(
        &mut self,
        contents: &[Content],
    ) -> Result<Vec<(OfferedFile, PathBuf, u64)>, Stop> {
        let (mut rest, mut flying) = (contents.iter(), VecDeque::new());
        let mut wanting = Vec::new();
        loop {
            while flying.len() < OFFERS_AHEAD
                && let Some(content) = rest.next()
            {
                let offer = content.to_offer().map_err(unreadable(content))?;
                let number = self.link.send(Request::Offer(offer.clone())).await?;
                flying.push_back((number, content, offer));
            }
            let Some((number, content, offer)) = flying.pop_front() else {
                return Ok(wanting);
            };
            let Reply::Offered(have) = self.answer(number).await? else {
                return Err(LinkError::Unexpected("something else than what it has").into());
            };
            let files = offer.files.into_iter().zip(&content.files).zip(have);
            let files = files.map(|((file, (_, path)), have)| (file, path.clone(), have));
            wanting.extend(files.filter(|(file, _, have)| *have < file.bytes));
        }
    }

    /// Sends a file from where the agent has it up to.
    async fn send_file(
        &mut self,
        file: &OfferedFile,
        path: &Path,
        mut have: u64,
    ) -> Result<(), Stop> {
        let unreadable = |source| Stop::Content {
            path: path.to_owned(),
            source,
        };
        let from = File::open(path).map_err(unreadable)?;
        // Where the next piece begins, and what is on its way: its number, and where it ends.
        let (mut next, mut flying) = (have, VecDeque::new());
        let mut standstills = 0;
        while have < file.bytes {
            // Who asked twice to stop does not wait for the rest of a large file.
            if self.driver.wishes > 1 {
                return Err(Stop::Away);
            }
            while next < file.bytes && flying.len() < AHEAD {
                let bytes = read_piece(&from, next, file.bytes).map_err(unreadable)?;
                let end = next + bytes.len() as u64;
                let upload = Upload {
                    sha256: file.sha256,
                    offset: next,
                    bytes,
                };
                let number = self.link.send(Request::Upload(upload)).await?;
                flying.push_back((number, end));
                next = end;
            }
            let Some((number, end)) = flying.pop_front() else {
                break;
            };
            let mut now = self.uploaded(number).await?;
            if now != end {
                // Somebody else sends the same file, or a part of it is lost. What flies comes to another place
                // than it was meant for; the last answer says where to go on.
                while let Some((number, _)) = flying.pop_front() {
                    now = self.uploaded(number).await?;
                }
                next = now;
            }
            standstills = if now > have { 0 } else { standstills + 1 };
            if standstills == STANDSTILLS {
                return Err(
                    LinkError::Unexpected("again and again that a piece is missing").into(),
                );
            }
            have = now;
            (self.driver.tell)(DriveEvent::Sending {
                name: file.name.clone(),
                done: have.min(file.bytes),
                total: file.bytes,
            });
        }
        Ok(())
    }

    async fn uploaded(&mut self, number: u64) -> Result<u64, Stop> {
        match self.answer(number).await? {
            Reply::Uploaded(now) => Ok(now),
            _ => Err(LinkError::Unexpected("something else than what it has").into()),
        }
    }
}

/// Says of an error that a content's own file is gone.
fn unreadable(content: &Content) -> impl Fn(io::Error) -> Stop + use<> {
    let path = content.files.first().map(|(_, path)| path.clone());
    move |source| Stop::Content {
        path: path.clone().unwrap_or_default(),
        source,
    }
}

fn read_piece(from: &File, offset: u64, end: u64) -> io::Result<Vec<u8>> {
    let length = (end - offset).min(UPLOAD_BYTES as u64) as usize;
    let mut bytes = vec![0; length];
    from.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}
