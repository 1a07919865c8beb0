// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Observers`]: who looks at a card beside the client that has it.
//!
//! They ask what there is and read BAR 0 and the configuration space, and are refused all else with `EPERM`. No register has a read that
//! changes something, so nobody who uses the card can tell that they are there, but by the cycles that a read takes.

use std::os::fd::{AsFd, BorrowedFd};

use ferrowire::vfio_user::message::{command, Header, Version, OBSERVER};
use ferrowire::vfio_user::{Message, Stream};
use rustix::event::PollFlags;
use rustix::io::Errno;

use super::cards::Cards;
use super::device::Device;

/// Most of them for a card.
const MOST: usize = 8;

/// Messages of an observer in a row; then the cards go on.
const TURN: usize = 4;

/// Those of a card.
#[derive(Default)]
pub struct Observers {
    streams: Vec<Stream>,
}

/// Whether a client's version says that it observes.
pub fn wishes(version: &[u8]) -> bool {
    let Some((_, said)) = Version::parse(version) else { return false };
    let text = said.split(|byte| *byte == 0).next().unwrap_or_default();
    let said: Option<serde_json::Value> = serde_json::from_slice(text).ok();
    said.is_some_and(|said| said["capabilities"][OBSERVER] == true)
}

impl Observers {
    /// Whether there is room for one more.
    pub fn has_room(&self) -> bool {
        self.streams.len() < MOST
    }

    /// One more, with the version agreed on.
    pub fn push(&mut self, stream: Stream) {
        self.streams.push(stream);
    }

    /// What to wait for.
    pub fn files(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.streams.iter().map(|stream| {
            let flags = if stream.is_full() { PollFlags::OUT } else { PollFlags::IN };
            (stream.as_fd(), flags)
        })
    }

    /// Answers what they ask, and forgets those that are gone. Whether there was anything.
    pub fn serve(&mut self, device: &mut Device, cards: &mut impl Cards) -> bool {
        let mut moved = false;
        self.streams.retain_mut(|stream| {
            for _ in 0..TURN {
                let step = stream.flush().and_then(|()| match stream.is_full() {
                    true => Ok(None),
                    false => stream.receive(),
                });
                let sent = match step {
                    Ok(Some(message)) if may_ask(&message.header) => answer(stream, device, cards, message),
                    Ok(Some(message)) => refuse(stream, &message.header),
                    Ok(None) => return true,
                    Err(_) => return false,
                };
                moved = true;
                if !sent {
                    return false;
                }
            }
            true
        });
        moved
    }
}

/// What changes nothing.
fn may_ask(header: &Header) -> bool {
    let looks = [
        command::DEVICE_GET_INFO,
        command::DEVICE_GET_REGION_INFO,
        command::DEVICE_GET_IRQ_INFO,
        command::REGION_READ,
    ];
    header.is_command() && !header.wants_no_reply() && looks.contains(&header.command)
}

fn answer(stream: &mut Stream, device: &mut Device, cards: &mut impl Cards, message: Message) -> bool {
    let header = message.header;
    match device.answer(cards, message) {
        Ok(body) => stream.send(&header.reply(body.len()), &[&body], &[]).is_ok(),
        Err(errno) => stream.send(&header.refusal(errno.raw_os_error()), &[], &[]).is_ok(),
    }
}

fn refuse(stream: &mut Stream, header: &Header) -> bool {
    let wanted = header.is_command() && !header.wants_no_reply();
    !wanted || stream.send(&header.refusal(Errno::PERM.raw_os_error()), &[], &[]).is_ok()
}

#[cfg(test)]
mod tests {
    use ferrowire::vfio_user::message::{capabilities, observer_capabilities};

    use super::*;

    #[test]
    fn who_says_so_observes_and_nobody_else() {
        let version = Version { major: 0, minor: 1 }.to_bytes();
        let said = |text: &[u8]| wishes(&[&version[..], text].concat());
        assert!(said(&observer_capabilities()));
        assert!(!said(&capabilities()));
        for text in ["", "\0", "{}\0", "[]\0", "{\"capabilities\":{\"ferrowire_observer\":1}}\0"] {
            assert!(!said(text.as_bytes()), "{text}");
        }
        assert!(!wishes(&version[..2]));
    }
}
