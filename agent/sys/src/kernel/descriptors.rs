//! Messages between two processes that may carry an open file (unix(7), SCM_RIGHTS).

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, socketpair,
};

/// Files that a message has room for. The other side decides how many it sends, and all are taken up, so that
/// none stays open unowned.
const MOST_FILES: usize = 8;

/// A message as it came.
#[derive(Debug)]
pub struct Message {
    /// Bytes of the buffer that it filled; 0 when the other side has gone.
    pub len: usize,
    /// False when it did not fit into the buffer, and its end is lost.
    pub is_whole: bool,
    pub file: Option<OwnedFd>,
}

/// Two ends that keep messages apart, neither of which a program started later inherits.
///
/// # Errors
///
/// What the kernel says.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SockFlag::SOCK_CLOEXEC;
    Ok(socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        flags,
    )?)
}

/// Sends one message, with a file or without.
///
/// # Errors
///
/// `EPIPE` when the other side has gone, or what else the kernel says.
pub fn send(
    socket: BorrowedFd<'_>,
    message: &[u8],
    file: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let files: Vec<RawFd> = file.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&files)];
    let rights = match files.is_empty() {
        true => &[][..],
        false => &rights[..],
    };
    let message = [IoSlice::new(message)];
    let flags = MsgFlags::MSG_NOSIGNAL;
    again(|| sendmsg::<()>(socket.as_raw_fd(), &message, rights, flags, None)).map(drop)
}

/// Waits for a message. The first file that came with it is kept, further ones are closed.
///
/// # Errors
///
/// `EAGAIN` when the socket's time-out passed, or what else the kernel says.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Message> {
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let (len, flags, numbers) = again(|| {
        let mut room = nix::cmsg_space!([RawFd; MOST_FILES]);
        let mut pieces = [IoSliceMut::new(buffer)];
        let got = recvmsg::<()>(socket.as_raw_fd(), &mut pieces, Some(&mut room), flags)?;
        let numbers = got.cmsgs()?.filter_map(|message| match message {
            ControlMessageOwned::ScmRights(numbers) => Some(numbers),
            _ => None,
        });
        let numbers: Vec<RawFd> = numbers.flatten().collect();
        Ok((got.bytes, got.flags, numbers))
    })?;
    let mut files = Vec::new();
    for number in numbers {
        // SAFETY: the kernel has just opened this number for us with the message, and nobody else knows it.
        files.push(unsafe { OwnedFd::from_raw_fd(number) });
    }
    Ok(Message {
        len,
        is_whole: !flags.contains(MsgFlags::MSG_TRUNC),
        file: files.into_iter().next(),
    })
}

/// Waits for a message and takes no files: those that come with it the kernel closes.
///
/// # Errors
///
/// As [`receive`].
pub fn receive_bytes(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Message> {
    let (len, flags) = again(|| {
        let mut pieces = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::empty();
        let got = recvmsg::<()>(socket.as_raw_fd(), &mut pieces, None, flags)?;
        Ok((got.bytes, got.flags))
    })?;
    Ok(Message {
        len,
        is_whole: !flags.contains(MsgFlags::MSG_TRUNC),
        file: None,
    })
}

/// A signal that was handled meanwhile is no reason to give up.
fn again<T>(mut call: impl FnMut() -> nix::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            result => return Ok(result?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_file_goes_along_and_can_be_read_there() {
        let (here, there) = pair().unwrap();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("x");
        std::fs::write(&path, "words").unwrap();
        let file = File::open(&path).unwrap();
        send(here.as_fd(), b"with", Some(file.as_fd())).unwrap();
        send(here.as_fd(), b"without", None).unwrap();
        drop(file);
        let mut buffer = [0; 16];
        let first = receive(there.as_fd(), &mut buffer).unwrap();
        assert_eq!((&buffer[..first.len], first.is_whole), (&b"with"[..], true));
        let mut text = String::new();
        let mut file = File::from(first.file.unwrap());
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "words");
        let second = receive(there.as_fd(), &mut buffer).unwrap();
        assert_eq!(&buffer[..second.len], b"without");
        assert!(second.file.is_none());
        drop(here);
        assert_eq!(receive(there.as_fd(), &mut buffer).unwrap().len, 0);
    }

    #[test]
    fn a_message_that_does_not_fit_says_so_and_files_can_be_left_out() {
        let (here, there) = pair().unwrap();
        let file = File::open("/dev/null").unwrap();
        send(here.as_fd(), b"longer than four", Some(file.as_fd())).unwrap();
        let mut buffer = [0; 4];
        let got = receive_bytes(there.as_fd(), &mut buffer).unwrap();
        assert_eq!((&buffer, got.is_whole), (b"long", false));
        assert!(got.file.is_none());
    }
}
