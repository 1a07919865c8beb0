// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Port`]: a socket, the one client that it serves, and the card behind it.
//!
//! ```text
//!  connect ---> nobody has the card ---> session: VERSION first, then anything ---> leaves, dies or sends garbage
//!          +--> somebody has it --> EBUSY                                                   |
//!                                                                            card as after power-on <--+
//! ```
//!
//! One client has the card. Another one is answered with `EBUSY`, except when the first has hung up already: then it waits until the
//! card is reset. A client that does not take its answers is not listened to until it does; one that does not begin with VERSION in time, or
//! sends what is no message, is shown out.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use ferrowire::vfio_user::message::command;
use ferrowire::vfio_user::{Message, Stream};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::device::Device;
use super::listener::Listener;
use crate::bus::World;

/// Time for a client to say its version, and for one that is refused to take the answer.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Clients that are about to be told that the card is taken.
const REFUSED: usize = 16;

/// Messages of a client in a row; then the cards go on.
const TURN: usize = 32;

/// Who has the card.
struct Session {
    stream: Stream,
    since: Instant,
    /// The version was agreed on.
    begun: bool,
}

/// A socket and its card.
pub struct Port {
    listener: Listener,
    session: Option<Session>,
    refused: Vec<(Stream, Instant)>,
    device: Device,
    /// Tells what happens, line by line.
    verbose: bool,
}

impl Port {
    /// Serves `device` on a socket.
    pub fn new(listener: Listener, device: Device, verbose: bool) -> Self {
        Self { listener, session: None, refused: Vec::new(), device, verbose }
    }

    /// What to wait for.
    pub fn files(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let session = self.session.iter().map(|session| {
            let flags = if session.stream.is_full() { PollFlags::OUT } else { PollFlags::IN };
            (session.stream.as_fd(), flags)
        });
        let refused = self.refused.iter().map(|(stream, _)| (stream.as_fd(), PollFlags::IN));
        // While a client that has hung up is being seen out, others wait at the door.
        let door = (!self.hung_up()).then_some((self.listener.as_fd(), PollFlags::IN));
        session.chain(refused).chain(door)
    }

    /// Whether somebody must be shown out in time.
    pub fn hurries(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.begun) || !self.refused.is_empty()
    }

    /// The card.
    pub fn device(&mut self) -> &mut Device {
        &mut self.device
    }

    /// Carries out what has come, and lets clients in and out. Whether there was anything.
    ///
    /// # Errors
    /// The card cannot be reset.
    pub fn serve(&mut self, world: &mut World) -> Result<bool> {
        let mut moved = self.converse(world)?;
        self.refused.retain_mut(|(stream, since)| match stream.receive() {
            Ok(Some(message)) => {
                let _ = stream.send(&message.header.refusal(Errno::BUSY.raw_os_error()), &[], &[]);
                false
            }
            Ok(None) => since.elapsed() < HANDSHAKE,
            Err(_) => false,
        });
        while !self.hung_up() {
            let Some(socket) = self.listener.accept() else { break };
            moved = true;
            let stream = Stream::new(socket);
            if self.session.is_none() {
                self.session = Some(Session { stream, since: Instant::now(), begun: false });
                self.converse(world)?;
            } else if self.refused.len() < REFUSED {
                self.refused.push((stream, Instant::now()));
            }
        }
        Ok(moved)
    }

    /// Whether the client is gone, though not all that it sent has been read.
    fn hung_up(&self) -> bool {
        let Some(session) = &self.session else { return false };
        let mut files = [PollFd::new(&session.stream, PollFlags::empty())];
        poll(&mut files, Some(&Timespec::default())).is_ok()
            && files[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Some messages of the client, if there is one. Whether there were any.
    fn converse(&mut self, world: &mut World) -> Result<bool> {
        for turn in 0..TURN {
            let Some(session) = &mut self.session else { return Ok(turn > 0) };
            if !session.begun && session.since.elapsed() > HANDSHAKE {
                self.show_out(world, "it did not say its version")?;
                continue;
            }
            let step = session.stream.flush().and_then(|()| match session.stream.is_full() {
                true => Ok(None),
                false => session.stream.receive(),
            });
            match step {
                Ok(Some(message)) => self.take(world, message)?,
                Ok(None) => return Ok(turn > 0),
                Err(error) => self.show_out(world, &error.to_string())?,
            }
        }
        Ok(true)
    }

    /// Carries out a message and answers it.
    fn take(&mut self, world: &mut World, message: Message) -> Result<()> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let header = message.header;
        if !header.is_command() || session.begun == (header.command == command::VERSION) {
            return self.show_out(world, "it does not begin with its version, or answers what nobody asked");
        }
        let answer = self.device.answer(world, message);
        if header.wants_no_reply() {
            return Ok(());
        }
        let sent = match answer {
            Ok(body) => {
                session.begun = true;
                session.stream.send(&header.reply(body.len()), &[&body], &[])
            }
            Err(errno) => session.stream.send(&header.refusal(errno.raw_os_error()), &[], &[]),
        };
        match sent {
            Ok(()) => Ok(()),
            Err(error) => self.show_out(world, &error.to_string()),
        }
    }

    /// Ends the session; the card is as after power-on.
    fn show_out(&mut self, world: &mut World, why: &str) -> Result<()> {
        let Some(session) = self.session.take() else { return Ok(()) };
        if self.verbose {
            eprintln!("{}: client gone: {why}", self.listener.path().display());
        }
        if session.begun {
            self.device.leave(world).context("the card cannot be reset")?;
        }
        Ok(())
    }
}
