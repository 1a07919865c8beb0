// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`StreamLine`]: frames over a Unix stream socket, each behind its length.
//!
//! Where somebody listens it connects, and connects again when the connection ends. Otherwise it listens itself, for one peer after the
//! other. A peer that sends a length which no frame has is hung up on.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::PollFlags;

use super::{Line, MAX_FRAME};
use crate::socket::listener::Listener;

/// Time between two tries to connect.
const RETRY: Duration = Duration::from_millis(500);

/// Bytes that wait for the peer, at most; frames beyond are lost.
const ROOM: usize = 1 << 20;

/// Bytes of a length.
const LENGTH: usize = 4;

/// Frames over a stream.
pub struct StreamLine {
    path: PathBuf,
    listener: Option<Listener>,
    peer: Option<UnixStream>,
    tried: Instant,
    input: Vec<u8>,
    output: VecDeque<u8>,
}

impl StreamLine {
    /// Connects, or listens if nobody does.
    ///
    /// # Errors
    /// It can do neither.
    pub fn new(path: &Path) -> Result<Self> {
        let peer = connect(path);
        let listener = if peer.is_none() { Some(Listener::bind(path)?) } else { None };
        let (input, output) = (Vec::new(), VecDeque::new());
        Ok(Self { path: path.to_path_buf(), listener, peer, tried: Instant::now(), input, output })
    }

    fn hang_up(&mut self) {
        self.peer = None;
        self.input.clear();
        self.output.clear();
    }

    /// Finds a peer if there is none.
    fn find(&mut self) {
        if self.peer.is_some() {
            return;
        }
        match &self.listener {
            Some(listener) => self.peer = listener.accept(),
            None if self.tried.elapsed() >= RETRY => {
                self.tried = Instant::now();
                self.peer = connect(&self.path);
            }
            None => {}
        }
    }

    /// A whole frame of what has come. `Err`: the peer speaks another protocol.
    fn frame(&mut self) -> Result<Option<Vec<u8>>, ()> {
        let Some((length, rest)) = self.input.split_first_chunk::<LENGTH>() else { return Ok(None) };
        let bytes = u32::from_be_bytes(*length) as usize;
        if !(1..=MAX_FRAME).contains(&bytes) {
            return Err(());
        }
        let frame = rest.get(..bytes).map(<[u8]>::to_vec);
        if frame.is_some() {
            self.input.drain(..LENGTH + bytes);
        }
        Ok(frame)
    }

    fn flush(&mut self) {
        while let (Some(peer), false) = (&mut self.peer, self.output.is_empty()) {
            match peer.write(self.output.as_slices().0) {
                Ok(bytes) => drop(self.output.drain(..bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.hang_up(),
            }
        }
    }
}

fn connect(path: &Path) -> Option<UnixStream> {
    let peer = UnixStream::connect(path).ok()?;
    peer.set_nonblocking(true).ok()?;
    Some(peer)
}

impl Line for StreamLine {
    fn file(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match (&self.peer, &self.listener) {
            (Some(peer), _) if self.output.is_empty() => Some((peer.as_fd(), PollFlags::IN)),
            (Some(peer), _) => Some((peer.as_fd(), PollFlags::IN | PollFlags::OUT)),
            (None, Some(listener)) => Some((listener.as_fd(), PollFlags::IN)),
            (None, None) => None,
        }
    }

    fn retries(&self) -> bool {
        self.peer.is_none() && self.listener.is_none()
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        self.find();
        self.flush();
        loop {
            match self.frame() {
                Ok(Some(frame)) => return Some(frame),
                Ok(None) => {}
                Err(()) => self.hang_up(),
            }
            let mut some = [0; 4096];
            match self.peer.as_mut()?.read(&mut some) {
                Ok(0) => self.hang_up(),
                Ok(bytes) => self.input.extend_from_slice(&some[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.hang_up(),
            }
        }
    }

    fn send(&mut self, frame: &[u8]) {
        self.find();
        if self.peer.is_some() && self.output.len() < ROOM {
            self.output.extend((frame.len() as u32).to_be_bytes());
            self.output.extend(frame);
            self.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(mut done: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        while !done() {
            assert!(Instant::now() < end, "it does not come");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn two_lines_find_each_other_and_again_and_garbage_is_hung_up_on() {
        let path = std::env::temp_dir().join(format!("ferrowire-line-{}", std::process::id()));
        let mut listens = StreamLine::new(&path).unwrap();
        let frames: Vec<Vec<u8>> = (1..200).map(|n| vec![n as u8; n * 30]).collect();
        for _ in 0..2 {
            let mut connects = StreamLine::new(&path).unwrap();
            until(|| {
                listens.receive();
                listens.peer.is_some()
            });
            for frame in &frames {
                listens.send(frame);
            }
            for frame in &frames {
                let mut got = None;
                until(|| {
                    listens.receive();
                    got = got.take().or_else(|| connects.receive());
                    got.is_some()
                });
                assert_eq!(got.as_ref(), Some(frame));
            }
            drop(connects);
            until(|| {
                listens.receive();
                listens.peer.is_none()
            });
        }
        for garbage in [[0; 4], [0xff; 4], [0, 0, 0x40, 1]] {
            let mut peer = UnixStream::connect(&path).unwrap();
            peer.write_all(&garbage).unwrap();
            let mut seen = false;
            until(|| {
                assert!(listens.receive().is_none());
                seen |= listens.peer.is_some();
                let mut one = [0];
                peer.set_nonblocking(true).unwrap();
                matches!(peer.read(&mut one), Ok(0))
            });
        }
    }
}
