// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Port`]: a socket, the one client that it serves, those that look, and the card behind it.
//!
//! ```text
//!  connect --> VERSION --> observes ------------------> observer: reads, and nothing else
//!                    +---> nobody has the card ------> session: anything ---> leaves, dies or sends garbage
//!                    +---> somebody has it --> EBUSY                                      |
//!                                                                      card as after power-on <--+
//! ```
//!
//! One client has the card: the first that says its version. Another one is answered with `EBUSY`, except when the first has hung up already: then
//! it waits until the card is reset. A client that does not take its answers is not listened to until it does; one that does not begin with
//! VERSION in time, or sends what is no message, is shown out.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use ferrowire::vfio_user::message::{command, server_capabilities, Header};
use ferrowire::vfio_user::{Message, Stream};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::cards::Cards;
use super::device::Device;
use super::listener::Listener;
use super::observers::{self, Observers};
use crate::say::say;

/// Time for a client to say its version.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Clients that are there and have not said their version; more wait at the door.
const WAITING: usize = 16;

/// Messages of a client in a row; then the cards go on.
const TURN: usize = 32;

/// Time that they may take together. One message can post all WQEs of a queue, so their number says little.
const TURN_TIME: Duration = Duration::from_millis(1);

/// A socket and its card.
pub struct Port {
    listener: Listener,
    /// Who has the card.
    session: Option<Stream>,
    /// Who has not said its version.
    waiting: Vec<(Stream, Instant)>,
    observers: Observers,
    device: Device,
    /// Tells what happens, line by line.
    verbose: bool,
}

impl Port {
    /// Serves `device` on a socket.
    pub fn new(listener: Listener, device: Device, verbose: bool) -> Self {
        let observers = Observers::default();
        Self { listener, session: None, waiting: Vec::new(), observers, device, verbose }
    }

    /// What to wait for.
    pub fn files(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let session = self.session.iter().map(|stream| {
            let flags = if stream.is_full() { PollFlags::OUT } else { PollFlags::IN };
            (stream.as_fd(), flags)
        });
        let waiting = self.waiting.iter().map(|(stream, _)| (stream.as_fd(), PollFlags::IN));
        let door = (self.waiting.len() < WAITING).then(|| (self.listener.as_fd(), PollFlags::IN));
        session.chain(waiting).chain(door).chain(self.observers.files())
    }

    /// Whether somebody must be shown out in time.
    pub fn hurries(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The card.
    pub fn device(&mut self) -> &mut Device {
        &mut self.device
    }

    /// Carries out what has come, and lets clients in and out. Whether there was anything.
    ///
    /// # Errors
    /// The card cannot be reset.
    pub fn serve(&mut self, cards: &mut impl Cards) -> Result<bool> {
        let mut moved = self.converse(cards)?;
        while !self.hung_up() {
            // Those that have left already, or have said their version, take nobody's place.
            if self.waiting.len() == WAITING {
                moved |= self.greet(cards)?;
            }
            if self.waiting.len() == WAITING {
                break;
            }
            let Some(socket) = self.listener.accept() else { break };
            moved = true;
            self.waiting.push((Stream::new(socket), Instant::now()));
        }
        moved |= self.greet(cards)?;
        Ok(moved | self.observers.serve(&mut self.device, cards))
    }

    /// The cards have failed: the client is shown out, so that it sees its connection end, and the card is as after power-on.
    ///
    /// # Errors
    /// The card cannot be reset.
    pub fn fail(&mut self, cards: &mut impl Cards) -> Result<()> {
        match self.session {
            Some(_) => self.show_out(cards, "the cards have failed"),
            None => self.device.reset(cards),
        }
    }

    /// Tells of memory that the card was refused, if it is to and there is something new.
    pub fn tell(&mut self, cards: &impl Cards) {
        if let Some(news) = self.verbose.then(|| self.device.refused(cards)).flatten() {
            say(format_args!("{}: {news}", self.listener.path().display()));
        }
    }

    /// Those that have said their version come in, or are told that they cannot. Whether there was one.
    fn greet(&mut self, cards: &mut impl Cards) -> Result<bool> {
        let mut moved = false;
        for (mut stream, since) in std::mem::take(&mut self.waiting) {
            if self.hung_up() {
                self.waiting.push((stream, since));
                continue;
            }
            match stream.receive() {
                Ok(Some(message)) => {
                    moved = true;
                    self.admit(cards, stream, message)?;
                }
                Ok(None) if since.elapsed() < HANDSHAKE => self.waiting.push((stream, since)),
                Ok(None) => self.note("it did not say its version"),
                Err(error) => self.note(&error.to_string()),
            }
        }
        Ok(moved)
    }

    /// Answers the first message of a client.
    fn admit(&mut self, cards: &mut impl Cards, mut stream: Stream, message: Message) -> Result<()> {
        let header = message.header;
        if !header.is_command() || header.wants_no_reply() || header.command != command::VERSION {
            self.note("it does not begin with its version");
            return Ok(());
        }
        let observes = observers::wishes(&message.body);
        let room = if observes { self.observers.has_room() } else { self.session.is_none() };
        if !room {
            refuse(&mut stream, &header, Errno::BUSY);
            return Ok(());
        }
        let mut body = match self.device.answer(cards, message) {
            Ok(body) => body,
            Err(errno) => {
                refuse(&mut stream, &header, errno);
                return Ok(());
            }
        };
        if observes {
            // It is told that its wish is known.
            body.truncate(ferrowire::vfio_user::message::Version::BYTES);
            body.extend(server_capabilities(true, cards.is_engine(), self.device.addresses()));
        }
        match stream.send(&header.reply(body.len()), &[&body], &[]) {
            Err(error) => self.note(&error.to_string()),
            Ok(()) if observes => self.observers.push(stream),
            Ok(()) => {
                self.session = Some(stream);
                self.converse(cards)?;
            }
        }
        Ok(())
    }

    fn note(&self, why: &str) {
        if self.verbose {
            say(format_args!("{}: client gone: {why}", self.listener.path().display()));
        }
    }

    /// Whether the client is gone, though not all that it sent has been read.
    fn hung_up(&self) -> bool {
        let Some(stream) = &self.session else { return false };
        let mut files = [PollFd::new(stream, PollFlags::empty())];
        poll(&mut files, Some(&Timespec::default())).is_ok()
            && files[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Some messages of the client, if there is one. Whether there were any.
    fn converse(&mut self, cards: &mut impl Cards) -> Result<bool> {
        let start = Instant::now();
        for turn in 0..TURN {
            if turn > 0 && start.elapsed() >= TURN_TIME {
                return Ok(true);
            }
            let Some(stream) = &mut self.session else { return Ok(turn > 0) };
            let step = stream.flush().and_then(|()| match stream.is_full() {
                true => Ok(None),
                false => stream.receive(),
            });
            match step {
                Ok(Some(message)) => self.take(cards, message)?,
                Ok(None) => return Ok(turn > 0),
                Err(error) => self.show_out(cards, &error.to_string())?,
            }
        }
        Ok(true)
    }

    /// Carries out a message and answers it.
    fn take(&mut self, cards: &mut impl Cards, message: Message) -> Result<()> {
        let Some(stream) = &mut self.session else { return Ok(()) };
        let header = message.header;
        if !header.is_command() || header.command == command::VERSION {
            return self.show_out(cards, "it says its version again, or answers what nobody asked");
        }
        let answer = self.device.answer(cards, message);
        if header.wants_no_reply() {
            return Ok(());
        }
        let sent = match answer {
            Ok(body) => stream.send(&header.reply(body.len()), &[&body], &[]),
            Err(errno) => stream.send(&header.refusal(errno.raw_os_error()), &[], &[]),
        };
        match sent {
            Ok(()) => Ok(()),
            Err(error) => self.show_out(cards, &error.to_string()),
        }
    }

    /// Ends the session; the card is as after power-on.
    fn show_out(&mut self, cards: &mut impl Cards, why: &str) -> Result<()> {
        if self.session.take().is_some() {
            self.note(why);
            self.device.leave(cards).context("the card cannot be reset")?;
        }
        Ok(())
    }
}

/// Tells a client that it cannot come in; whether it hears that is its own matter.
fn refuse(stream: &mut Stream, header: &Header, errno: Errno) {
    let _ = stream.send(&header.refusal(errno.raw_os_error()), &[], &[]);
}
