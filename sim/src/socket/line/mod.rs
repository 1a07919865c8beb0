// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines: what is at the other end of a card's wire, outside of this process.
//!
//! | form | what |
//! |---|---|
//! | `stream:PATH` | a Unix socket as QEMU's `-netdev stream` has it: the length in four bytes, the highest first, then the frame |
//! | `dgram:LOCAL,REMOTE` | two Unix sockets as QEMU's `-netdev dgram` has them: a frame a datagram |
//! | `tap:NAME` | a TAP interface of this machine's network |
//! | `none` | nobody: what the card sends is lost |
//!
//! A frame has no FCS and, on its way to the card, at least the 60 bytes that Ethernet pads it to. What a line has no room for is lost, as
//! on a wire.

mod dgram;
mod stream;
mod tap;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use rustix::event::PollFlags;

use crate::bus::Peer;
use crate::wire::MIN_FRAME;

/// Longest frame of a line: more than any card takes.
pub const MAX_FRAME: usize = 16384;

/// Frames that wait for the card; then the line is not read.
const WAITING: usize = 256;

/// What the command line says of a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineSpec {
    /// Connects to a socket, or listens where nobody does.
    Stream(std::path::PathBuf),
    /// From the first to the second.
    Dgram(std::path::PathBuf, std::path::PathBuf),
    /// An interface's name.
    Tap(String),
    /// Nobody.
    None,
}

impl FromStr for LineSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "give `stream:PATH`, `dgram:LOCAL,REMOTE`, `tap:NAME` or `none`";
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match (kind, rest, rest.split_once(',')) {
            ("none", "", _) => Ok(Self::None),
            ("stream", path, _) if !path.is_empty() => Ok(Self::Stream(path.into())),
            ("dgram", _, Some((local, remote))) if !local.is_empty() && !remote.is_empty() => {
                Ok(Self::Dgram(local.into(), remote.into()))
            }
            ("tap", name, _) if !name.is_empty() => Ok(Self::Tap(name.into())),
            _ => Err(format!("`{text}` is no wire; {form}")),
        }
    }
}

/// The far end of a wire. Nothing here waits.
pub trait Line {
    /// What to wait for, if there is anything.
    fn file(&self) -> Option<(BorrowedFd<'_>, PollFlags)>;

    /// Whether it must be looked at again soon, though nothing comes.
    fn retries(&self) -> bool {
        false
    }

    /// The next frame, if one has come.
    fn receive(&mut self) -> Option<Vec<u8>>;

    /// Sends a frame, or loses it.
    fn send(&mut self, frame: &[u8]);
}

/// Opens what the command line says.
///
/// # Errors
/// The socket is in use, or the interface cannot be opened.
pub fn open(spec: &LineSpec) -> Result<Option<Box<dyn Line>>> {
    Ok(match spec {
        LineSpec::Stream(path) => Some(Box::new(stream::StreamLine::new(path)?)),
        LineSpec::Dgram(local, remote) => Some(Box::new(dgram::DgramLine::new(local, remote)?)),
        LineSpec::Tap(name) => Some(Box::new(tap::TapLine::new(name)?)),
        LineSpec::None => None,
    })
}

#[derive(Default)]
struct Frames {
    to_card: VecDeque<Vec<u8>>,
    from_card: VecDeque<Vec<u8>>,
}

/// Frames between the wire of a world and a line.
#[derive(Clone, Default)]
pub struct Plug(Arc<Mutex<Frames>>);

impl Plug {
    fn frames(&self) -> MutexGuard<'_, Frames> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether frames wait for the card.
    pub fn is_busy(&self) -> bool {
        !self.frames().to_card.is_empty()
    }

    /// Whether there is room for more.
    pub fn has_room(&self) -> bool {
        self.frames().to_card.len() < WAITING
    }

    /// Moves frames either way. Whether there were any.
    pub fn exchange(&self, line: &mut dyn Line) -> bool {
        let mut moved = false;
        while self.has_room() {
            let Some(mut frame) = line.receive() else { break };
            if frame.len() < MIN_FRAME as usize {
                frame.resize(MIN_FRAME as usize, 0);
            }
            self.frames().to_card.push_back(frame);
            moved = true;
        }
        loop {
            let Some(frame) = self.frames().from_card.pop_front() else { return moved };
            line.send(&frame);
            moved = true;
        }
    }
}

impl Peer for Plug {
    fn take(&mut self, _: u64, frame: Vec<u8>) {
        self.frames().from_card.push_back(frame);
    }

    fn give(&mut self, _: u64) -> Option<Vec<u8>> {
        self.frames().to_card.pop_front()
    }

    fn waits(&self) -> bool {
        self.is_busy()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wires_are_told_by_their_form() {
        let parse = |text: &str| text.parse::<LineSpec>();
        assert_eq!(parse("none"), Ok(LineSpec::None));
        assert_eq!(parse("stream:/a:b"), Ok(LineSpec::Stream("/a:b".into())));
        assert_eq!(parse("dgram:a,b"), Ok(LineSpec::Dgram("a".into(), "b".into())));
        assert_eq!(parse("tap:fw0"), Ok(LineSpec::Tap("fw0".into())));
        for bad in ["", "stream", "stream:", "dgram:a", "dgram:a,", "tap:", "none:x", "wire:x"] {
            assert!(parse(bad).unwrap_err().contains("stream:PATH"), "{bad}");
        }
    }

    struct Fake(VecDeque<Vec<u8>>, Vec<Vec<u8>>);

    impl Line for Fake {
        fn file(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
            None
        }
        fn receive(&mut self) -> Option<Vec<u8>> {
            self.0.pop_front()
        }
        fn send(&mut self, frame: &[u8]) {
            self.1.push(frame.to_vec());
        }
    }

    #[test]
    fn short_frames_are_padded_on_their_way_in_alone() {
        let mut plug = Plug::default();
        let mut line = Fake(VecDeque::from([vec![1; 3], vec![2; 100]]), Vec::new());
        plug.take(0, vec![9; 20]);
        assert!(plug.exchange(&mut line));
        assert_eq!(plug.give(0).map(|f| (f.len(), f[2], f[3])), Some((60, 1, 0)));
        assert_eq!(plug.give(0).map(|f| f.len()), Some(100));
        assert_eq!(line.1, [vec![9; 20]]);
        assert!(!plug.exchange(&mut line));
    }

    #[test]
    fn a_line_is_not_read_while_frames_wait() {
        let plug = Plug::default();
        let mut line = Fake((0..WAITING + 3).map(|_| vec![0; 60]).collect(), Vec::new());
        plug.exchange(&mut line);
        assert_eq!((line.0.len(), plug.has_room()), (3, false));
    }
}
