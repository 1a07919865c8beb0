// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages and files over a Unix socket, for either end.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::message::{Header, MAX_FILES};

/// How long the system may have no memory for a message, and the pause between two times.
const MEMORY: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(1);

/// A message that has come, whole.
#[derive(Debug)]
pub struct Message {
    /// Its header.
    pub header: Header,
    /// What is behind it.
    pub body: Vec<u8>,
    /// The files that came with it.
    pub files: Vec<OwnedFd>,
    /// The system has closed files of it, for this process may open no more, or there were too many. The message means something else without them.
    pub lost_files: bool,
}

/// What ends a connection.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The other end has closed it, or is gone.
    #[error("the other end has closed the connection")]
    Closed,
    /// What came is no message: nobody knows where the next one begins.
    #[error("a message of {0} bytes; the other end speaks another protocol")]
    Size(u32),
    /// The system.
    #[error("{0}")]
    Os(std::io::Error),
}

impl From<Errno> for StreamError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::PIPE | Errno::CONNRESET => Self::Closed,
            errno => Self::Os(errno.into()),
        }
    }
}

/// One end of a connection. Bytes are taken message by message and never beyond one, so that files belong to the message that they came with.
#[derive(Debug)]
pub struct Stream {
    socket: UnixStream,
    /// The message that comes: its bytes, how many there are to be, and its files.
    input: Vec<u8>,
    wanted: usize,
    files: Vec<OwnedFd>,
    lost_files: bool,
    /// What the socket has no room for.
    output: VecDeque<u8>,
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Stream {
    /// Over `socket`, which waits or does not, as it was set.
    pub fn new(socket: UnixStream) -> Self {
        let (input, files, output) = (Vec::new(), Vec::new(), VecDeque::new());
        Self { socket, input, wanted: Header::BYTES, files, lost_files: false, output }
    }

    /// The next message; `None` when not all of it is there, and the socket does not wait.
    ///
    /// # Errors
    /// The connection has ended, or must be ended.
    pub fn receive(&mut self) -> Result<Option<Message>, StreamError> {
        loop {
            while self.input.len() < self.wanted {
                match self.read() {
                    Ok(()) => {}
                    Err(StreamError::Os(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        return Ok(None);
                    }
                    Err(error) => return Err(error),
                }
            }
            let Some((start, body)) = self.input.split_first_chunk() else { continue };
            let header = Header::parse(start);
            let bytes = header.body().ok_or(StreamError::Size(header.size))?;
            self.wanted = Header::BYTES + bytes;
            if body.len() == bytes {
                let files = std::mem::take(&mut self.files);
                let lost_files = std::mem::take(&mut self.lost_files);
                let message = Message { header, body: body.to_vec(), files, lost_files };
                self.input.clear();
                self.wanted = Header::BYTES;
                return Ok(Some(message));
            }
        }
    }

    /// Some of the bytes that are wanted.
    fn read(&mut self) -> Result<(), StreamError> {
        let have = self.input.len();
        self.input.resize(self.wanted, 0);
        // Room for all that a message may have: the kernel closes what is too much, and says so.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut self.input[have..])];
        let result = recvmsg(&self.socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC);
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        // More than a message may have, piece by piece: closed here.
        self.lost_files |= self.files.len() > MAX_FILES;
        self.files.truncate(MAX_FILES);
        let bytes = result.as_ref().map_or(0, |received| received.bytes);
        self.lost_files |= result.as_ref().is_ok_and(|got| got.flags.contains(ReturnFlags::CTRUNC));
        self.input.truncate(have + bytes);
        match result {
            Ok(_) if bytes == 0 => Err(StreamError::Closed),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sends a message, or keeps what the socket has no room for, if it does not wait: see [`flush`](Self::flush).
    ///
    /// # Errors
    /// The connection has ended.
    pub fn send(
        &mut self,
        header: &Header,
        parts: &[&[u8]],
        files: &[BorrowedFd<'_>],
    ) -> Result<(), StreamError> {
        if files.is_empty() {
            self.output.extend(header.to_bytes());
            parts.iter().for_each(|part| self.output.extend(*part));
            return self.flush();
        }
        let whole = [&header.to_bytes(), parts.concat().as_slice()].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(Errno::TOOBIG.into());
        }
        // What was kept goes first. The files go with the first byte of their message, and all of it at once if there is room: not every
        // reader puts pieces together.
        self.flush()?;
        let sent = match self.is_full() {
            true => return Err(Errno::AGAIN.into()),
            false => sent(&self.socket, &[IoSlice::new(&whole)], &mut control)?,
        };
        self.output.extend(&whole[sent..]);
        self.flush()
    }

    /// Sends what was kept.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn flush(&mut self) -> Result<(), StreamError> {
        while !self.output.is_empty() {
            let (front, back) = self.output.as_slices();
            let parts = [IoSlice::new(front), IoSlice::new(back)];
            match sent(&self.socket, &parts, &mut SendAncillaryBuffer::default()) {
                Ok(bytes) => drop(self.output.drain(..bytes)),
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Whether something was kept.
    pub fn is_full(&self) -> bool {
        !self.output.is_empty()
    }
}

/// Bytes that the socket took; a peer that is gone is an error, and no signal.
fn sent(
    socket: &UnixStream,
    parts: &[IoSlice<'_>],
    control: &mut SendAncillaryBuffer<'_, '_, '_>,
) -> Result<usize, Errno> {
    when_memory_is_there(MEMORY, || sendmsg(socket, parts, control, SendFlags::NOSIGNAL))
}

/// Sends, again after a signal, and for a while when the system has no memory for it: nothing was sent then.
fn when_memory_is_there(
    patience: Duration,
    mut send: impl FnMut() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut end = None;
    loop {
        match send() {
            Err(Errno::INTR) => {}
            Err(Errno::NOMEM | Errno::NOBUFS)
                if Instant::now() < *end.get_or_insert_with(|| Instant::now() + patience) =>
            {
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{command, MAX_BODY};
    use super::*;

    fn pair() -> (Stream, Stream) {
        let (a, b) = UnixStream::pair().unwrap();
        b.set_nonblocking(true).unwrap();
        (Stream::new(a), Stream::new(b))
    }

    #[test]
    fn a_message_is_sent_again_while_the_system_has_no_memory_but_not_for_ever() {
        for lack in [Errno::NOBUFS, Errno::NOMEM] {
            let mut answers = [Err(lack), Err(Errno::INTR), Err(lack), Ok(7)].into_iter();
            assert_eq!(when_memory_is_there(MEMORY, || answers.next().unwrap()), Ok(7));
            let mut tries = 0;
            let sent = when_memory_is_there(5 * PAUSE, || {
                tries += 1;
                Err(lack)
            });
            assert!(sent == Err(lack) && tries > 1, "{sent:?} after {tries} tries");
        }
        let mut tries = 0;
        let sent = when_memory_is_there(MEMORY, || {
            tries += 1;
            Err(Errno::AGAIN)
        });
        assert_eq!((sent, tries), (Err(Errno::AGAIN), 1), "who does not wait is told at once");
    }

    #[test]
    fn files_come_with_their_message() {
        let (mut a, mut b) = pair();
        let file = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        for id in 0..10 {
            let files = vec![file.as_fd(); usize::from(id) % 4];
            a.send(&Header::of(id, command::DMA_MAP, 3), &[&[1], &[2, 3]], &files).unwrap();
        }
        for id in 0..10 {
            let message = b.receive().unwrap().unwrap();
            assert_eq!((message.header.id, &message.body[..]), (id, &[1, 2, 3][..]));
            assert_eq!(message.files.len(), usize::from(id) % 4);
        }
        assert!(b.receive().unwrap().is_none());
        drop(a);
        assert!(matches!(b.receive(), Err(StreamError::Closed)));
    }

    #[test]
    fn a_message_that_has_lost_files_says_so_and_the_next_one_does_not() {
        let (mut a, mut b) = pair();
        let file = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let header = Header::of(1, command::DMA_MAP, 1);
        // In two pieces, each with as many files as the system takes at once, and together more than a message may have.
        let bytes = [&header.to_bytes()[..], &[7]].concat();
        let (first, second) = bytes.split_at(5);
        let files = vec![file.as_fd(); MAX_FILES];
        for piece in [first, second] {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
            assert_eq!(sent(&a.socket, &[IoSlice::new(piece)], &mut control), Ok(piece.len()));
        }
        a.send(&header, &[&[8]], &files).unwrap();
        let (full, next) = (b.receive().unwrap().unwrap(), b.receive().unwrap().unwrap());
        assert!(full.lost_files && full.files.len() == MAX_FILES);
        assert!(!next.lost_files && next.files.len() == MAX_FILES);
    }

    #[test]
    fn a_message_may_come_byte_by_byte() {
        let (a, mut b) = pair();
        let mut bytes = Header::of(5, command::REGION_WRITE, 4).to_bytes().to_vec();
        bytes.extend([1, 2, 3, 4]);
        for (i, byte) in bytes.iter().enumerate() {
            assert!(b.receive().unwrap().is_none(), "byte {i}");
            rustix::io::write(&a, &[*byte]).unwrap();
        }
        assert_eq!(b.receive().unwrap().unwrap().body, [1, 2, 3, 4]);
    }

    #[test]
    fn a_size_that_cannot_be_ends_the_connection() {
        for size in [0, 15, (Header::BYTES + MAX_BODY + 1) as u32, u32::MAX] {
            let (mut a, mut b) = pair();
            a.send(&Header { size, ..Header::default() }, &[], &[]).unwrap();
            assert!(matches!(b.receive(), Err(StreamError::Size(found)) if found == size));
        }
    }

    #[test]
    fn what_the_socket_has_no_room_for_is_kept() {
        let (mut a, mut b) = pair();
        let body = vec![7; MAX_BODY];
        let mut sent = 0;
        while !b.is_full() {
            b.send(&Header::of(sent, 1, body.len()), &[&body], &[]).unwrap();
            sent += 1;
        }
        for id in 0..sent {
            let message = a.receive().unwrap().unwrap();
            assert_eq!((message.header.id, message.body.len()), (id, MAX_BODY));
            b.flush().unwrap();
        }
        assert!(!b.is_full());
    }
}
