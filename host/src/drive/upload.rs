//! Contents come to the agent: by where they lie where it can see that, else by their bytes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use edgedyno_shared::content::OfferedFile;
use edgedyno_shared::wire::request::{Reply, Request, UPLOAD_BYTES, Upload};

use super::DriveEvent;
use super::session::{Session, Stop};
use crate::board::Board;
use crate::board::content::Content;
use crate::board::link::LinkError;

/// Answers in a row that bring a file no further, before it is given up.
const STANDSTILLS: u32 = 3;

impl<B: Board> Session<'_, '_, B> {
    /// Sees that the agent has a content, or knows where it is.
    pub(super) async fn provide(&mut self, content: &Content) -> Result<(), Stop> {
        let path = content.files.first().map(|(_, path)| path.clone());
        let unreadable = |source| Stop::Content {
            path: path.clone().unwrap_or_default(),
            source,
        };
        if !self.driver.board.is_remote() {
            let map = content.to_map().map_err(unreadable)?;
            self.demand(Request::MapContent(map)).await?;
            return Ok(());
        }
        let offer = content.to_offer().map_err(unreadable)?;
        let Reply::Offered(have) = self.demand(Request::Offer(offer.clone())).await? else {
            return Err(LinkError::Unexpected("something else than what it has").into());
        };
        let files = offer.files.iter().zip(&content.files).zip(have);
        for ((file, (_, path)), have) in files {
            if have < file.bytes {
                self.send_file(file, path, have).await?;
            }
        }
        Ok(())
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
        let mut standstills = 0;
        while have < file.bytes {
            let bytes = read_piece(&from, have, file.bytes).map_err(unreadable)?;
            let upload = Upload {
                sha256: file.sha256,
                offset: have,
                bytes,
            };
            let Reply::Uploaded(now) = self.demand(Request::Upload(upload)).await? else {
                return Err(LinkError::Unexpected("something else than what it has").into());
            };
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
}

fn read_piece(from: &File, offset: u64, end: u64) -> io::Result<Vec<u8>> {
    let length = (end - offset).min(UPLOAD_BYTES as u64) as usize;
    let mut bytes = vec![0; length];
    from.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}
