// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Server`]: cards, their sockets and their wire, in one loop of one thread.
//!
//! ```text
//!  +--> wait for sockets, wire and signals; not at all while cards are busy
//!  |       --> messages of clients --> frames of the wire --> cycles --> interrupts --+
//!  +----------------------------------------------------------------------------------+
//! ```

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

use super::clock::Clock;
use super::guest::Guests;
use super::line::{Line, Plug};
use super::outage::Outage;
use super::port::Port;
use super::trace::Tracer;
use super::tty::Tty;
use crate::bus::World;

/// Longest wait while somebody must be shown out in time, or a line tries to connect.
const TICK: Duration = Duration::from_millis(500);

/// Signals of this process, as bytes to be read.
pub struct Signals {
    end: UnixStream,
    trace: UnixStream,
}

impl Signals {
    /// From now on SIGINT, SIGTERM and SIGHUP end the server, and SIGUSR1 begins or ends a trace.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new() -> Result<Self> {
        let pipe = |signals: &[i32]| -> std::io::Result<UnixStream> {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            for signal in signals {
                signal_hook::low_level::pipe::register(*signal, write.try_clone()?)?;
            }
            Ok(read)
        };
        let failed = "catch signals";
        Ok(Self {
            end: pipe(&[SIGINT, SIGTERM, SIGHUP]).context(failed)?,
            trace: pipe(&[SIGUSR1]).context(failed)?,
        })
    }
}

/// What is served.
pub struct Server {
    /// The cards.
    pub world: World,
    /// A socket for each.
    pub ports: Vec<Port>,
    /// Or the serial port of the only one, which is on a board.
    pub serial: Option<Tty>,
    /// What is at the other end of the wire of a single card.
    pub line: Option<(Plug, Box<dyn Line>)>,
    /// When they move.
    pub clock: Clock,
    /// Whose clocks stand while cards are busy.
    pub guests: Option<Guests>,
    /// The wire goes dark for a while.
    pub outage: Option<Outage>,
    /// Waves and frames.
    pub tracer: Option<Tracer>,
}

impl Server {
    /// Serves until a signal ends it.
    ///
    /// # Errors
    /// A card cannot be reset, a file of a trace cannot be written, or the system refuses.
    pub fn run(&mut self, signals: &Signals) -> Result<()> {
        loop {
            self.wait(signals)?;
            if came(&signals.end) {
                return Ok(());
            }
            if came(&signals.trace) {
                self.toggle_trace()?;
            }
            self.turn()?;
        }
    }

    /// Carries out what has come, and lets the cards move.
    fn turn(&mut self) -> Result<()> {
        let cards = self.ports.len();
        let mut moved = false;
        for port in &mut self.ports {
            moved |= port.serve(&mut self.world)?;
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.follow(&mut self.world)?;
        }
        let mut waits = false;
        if let Some((plug, line)) = &mut self.line {
            moved |= plug.exchange(line.as_mut());
            waits = plug.is_busy();
        }
        if moved {
            self.clock.wake(&self.world);
        }
        if let Some(serial) = &mut self.serial {
            if serial.exchange(&mut self.world, 0)? {
                self.clock.stir();
            }
        }
        self.clock.run(&mut self.world, cards, waits);
        if let Some(guests) = &mut self.guests {
            guests.hold(self.clock.busy(&self.world));
        }
        if let Some(outage) = &mut self.outage {
            let ran = self.guests.as_ref().map(Guests::ran);
            if let Some(told) = outage.look(self.world.cycle(), ran) {
                eprintln!("{told}");
            }
        }
        for port in &mut self.ports {
            port.device().interrupts(&mut self.world);
        }
        if let Err(error) = self.world.check() {
            ensure!(!self.ports.is_empty(), "{error}");
            // A fault of the design, or a file of a trace that cannot be written. Who has a card finds it reset.
            eprintln!("{error}; all cards are reset, and the trace ends");
            self.world.end_capture();
            self.ports.iter_mut().try_for_each(|port| port.device().reset(&mut self.world))?;
        }
        Ok(())
    }

    /// Until something comes, or the cards are to move.
    fn wait(&self, signals: &Signals) -> Result<()> {
        let mut rest = self.clock.rest();
        let line = self.line.as_ref();
        if self.ports.iter().any(Port::hurries) || line.is_some_and(|(_, line)| line.retries()) {
            rest = Some(rest.map_or(TICK, |rest| rest.min(TICK)));
        }
        let mut files = vec![
            PollFd::from_borrowed_fd(signals.end.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(signals.trace.as_fd(), PollFlags::IN),
        ];
        let ports = self.ports.iter().flat_map(Port::files);
        let guests = self.guests.iter().flat_map(Guests::files);
        let serial = self.serial.iter().map(Tty::file);
        let line = line.filter(|(plug, _)| plug.has_room()).and_then(|(_, line)| line.file());
        files.extend(
            ports
                .chain(guests)
                .chain(serial)
                .chain(line)
                .map(|(file, flags)| PollFd::from_borrowed_fd(file, flags)),
        );
        let rest = rest.map(Timespec::try_from).transpose().context("wait")?;
        match poll(&mut files, rest.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno).context("wait for clients"),
        }
    }

    fn toggle_trace(&mut self) -> Result<()> {
        match &mut self.tracer {
            Some(tracer) => {
                let cards = self.ports.len() + usize::from(self.serial.is_some());
                tracer.toggle(&mut self.world, cards)
            }
            None => {
                eprintln!("no trace: start with --trace DIR to have SIGUSR1 begin and end one");
                Ok(())
            }
        }
    }
}

/// Whether a signal has come; it is forgotten here.
fn came(mut signal: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    signal.read(&mut bytes).is_ok_and(|bytes| bytes > 0)
}
