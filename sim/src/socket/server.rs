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
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

use super::cable::Cables;
use super::cards::Cards;
use super::guest::Guests;
use super::line::{Line, Plug};
use super::losses::Losses;
use super::outage::Outage;
use super::port::Port;
use super::trace::Tracer;
use super::tty::Tty;
use crate::say::say;

/// Longest wait while somebody must be shown out in time, or a line tries to connect.
const TICK: Duration = Duration::from_millis(500);

/// Longest wait while the wire is dark: it is to carry again in time.
const DARK: Duration = Duration::from_millis(1);

/// Signals of this process, as bytes to be read.
pub struct Signals {
    end: UnixStream,
    trace: UnixStream,
    cable: UnixStream,
}

impl Signals {
    /// From now on SIGINT, SIGTERM and SIGHUP end the server, SIGUSR1 begins or ends a trace, and SIGUSR2 takes all links down or up.
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
            cable: pipe(&[SIGUSR2]).context(failed)?,
        })
    }
}

/// What has come.
struct Ready {
    /// To each port: messages, clients or ends.
    ports: Vec<bool>,
    /// A signal that ends the server.
    end: bool,
    /// A signal that begins or ends a trace.
    trace: bool,
    /// A signal that takes links down or up.
    cable: bool,
}

/// What is served.
pub struct Server<C> {
    /// The cards.
    pub cards: C,
    /// A socket for each.
    pub ports: Vec<Port>,
    /// Or the serial port of the only one, which is on a board.
    pub serial: Option<Tty>,
    /// What is at the other end of the wire of a single card.
    pub line: Option<(Plug, Box<dyn Line>)>,
    /// Whose clocks stand while cards are busy.
    pub guests: Option<Guests>,
    /// The wire goes dark for a while.
    pub outage: Option<Outage>,
    /// They are pulled and put back.
    pub cables: Cables,
    /// Waves and frames.
    pub tracer: Option<Tracer>,
    /// What was reported of frames that the switch has lost, if that is wanted.
    pub losses: Option<Losses>,
}

impl<C: Cards> Server<C> {
    /// Serves until a signal ends it.
    ///
    /// # Errors
    /// A card cannot be reset, or the system refuses.
    pub fn run(&mut self, signals: &Signals) -> Result<()> {
        loop {
            let ready = self.wait(signals)?;
            if ready.end && came(&signals.end) {
                self.report_losses(true);
                return Ok(());
            }
            if ready.trace && came(&signals.trace) {
                self.toggle_trace();
            }
            if ready.cable && came(&signals.cable) {
                say(self.cables.toggle(&mut self.cards));
            }
            self.turn(&ready.ports)?;
        }
    }

    /// Carries out what has come to ports, and lets the cards move.
    fn turn(&mut self, ready: &[bool]) -> Result<()> {
        let mut moved = self.exchange();
        self.cards.begin(self.frames_wait());
        for (port, ready) in self.ports.iter_mut().zip(ready) {
            if *ready || port.hurries() {
                moved |= port.serve(&mut self.cards)?;
            }
        }
        if let Some(tracer) = &mut self.tracer {
            let followed = tracer.follow(&mut self.cards);
            tracer.or_end(&mut self.cards, followed);
        }
        if moved {
            self.cards.wake();
        }
        if let Some(serial) = &mut self.serial {
            if serial.exchange(&mut self.cards, 0)? {
                self.cards.stir();
            }
        }
        let waits = self.frames_wait();
        self.cards.run(waits);
        // At once: the cards may rest now.
        if self.exchange() {
            self.cards.wake();
        }
        if let Some(guests) = &mut self.guests {
            guests.hold(self.cards.busy());
        }
        if let Some(outage) = &mut self.outage {
            let ran = self.guests.as_ref().map(Guests::ran);
            if let Some(told) = outage.look(self.cards.cycle(), ran) {
                say(format_args!("{told}"));
            }
        }
        for port in &mut self.ports {
            port.device().interrupts(&mut self.cards);
            port.tell(&self.cards);
        }
        self.report_losses(false);
        if let Some(error) = self.cards.take_capture_failure() {
            say(format_args!("{error}; the capture ends"));
        }
        if let Err(error) = self.cards.check() {
            ensure!(!self.ports.is_empty(), "{error}");
            // A fault of the design. A client cannot go on with a card that was reset beneath it.
            say(format_args!("{error}; all cards are reset, and their clients are shown out"));
            self.ports.iter_mut().try_for_each(|port| port.fail(&mut self.cards))?;
        }
        Ok(())
    }

    /// Frames go to the end of the wire, and come from there. Whether there were any.
    fn exchange(&mut self) -> bool {
        self.line.as_mut().is_some_and(|(plug, line)| plug.exchange(line.as_mut()))
    }

    /// Whether frames from the end of the wire wait for the card.
    fn frames_wait(&self) -> bool {
        self.line.as_ref().is_some_and(|(plug, _)| plug.is_busy())
    }

    /// Reports frames that the switch has lost since the last report, if that is due or the server `ends`.
    fn report_losses(&mut self, ends: bool) {
        let (lost, now) = (self.cards.lost(), Instant::now());
        let Some(losses) = self.losses.as_mut() else { return };
        if losses.due(lost, now).is_some_and(|left| ends || left.is_zero()) {
            losses.report(lost, now);
            if let Some(text) = self.cards.losses() {
                say(format_args!("{text}"));
            }
        }
    }

    /// Until something comes, or the cards are to move. What came.
    fn wait(&self, signals: &Signals) -> Result<Ready> {
        let mut rest = self.cards.rest();
        let mut at_most = |most: Duration| rest = Some(rest.map_or(most, |rest| rest.min(most)));
        let line = self.line.as_ref();
        if self.ports.iter().any(Port::hurries) || line.is_some_and(|(_, line)| line.retries()) {
            at_most(TICK);
        }
        if self.frames_wait() {
            at_most(Duration::ZERO);
        }
        if let Some(left) =
            self.losses.as_ref().and_then(|losses| losses.due(self.cards.lost(), Instant::now()))
        {
            at_most(left);
        }
        // Their time is real.
        if self.cards.is_engine() && self.outage.as_ref().is_some_and(Outage::is_dark) {
            at_most(DARK);
        }
        let mut files = vec![
            PollFd::from_borrowed_fd(signals.end.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(signals.trace.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(signals.cable.as_fd(), PollFlags::IN),
        ];
        let mut ends = Vec::with_capacity(self.ports.len());
        let file = |(file, flags)| PollFd::from_borrowed_fd(file, flags);
        for port in &self.ports {
            files.extend(port.files().map(file));
            ends.push(files.len());
        }
        let guests = self.guests.iter().flat_map(Guests::files);
        let serial = self.serial.iter().map(Tty::file);
        let line = line.filter(|(plug, _)| plug.has_room()).and_then(|(_, line)| line.file());
        files.extend(guests.chain(serial).chain(line).map(file));
        let rest = rest.map(Timespec::try_from).transpose().context("wait")?;
        match poll(&mut files, rest.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno).context("wait for clients"),
        }
        let has_come = |file: &PollFd<'_>| !file.revents().is_empty();
        let mut begin = 3;
        let ports = ends.into_iter().map(|end| {
            let own = &files[begin..end];
            begin = end;
            own.iter().any(has_come)
        });
        Ok(Ready {
            ports: ports.collect(),
            end: has_come(&files[0]),
            trace: has_come(&files[1]),
            cable: has_come(&files[2]),
        })
    }

    fn toggle_trace(&mut self) {
        match &mut self.tracer {
            Some(tracer) => {
                let toggled = tracer.toggle(&mut self.cards);
                tracer.or_end(&mut self.cards, toggled);
            }
            None => say("no trace: start with --trace DIR to have SIGUSR1 begin and end one"),
        }
    }
}

/// Whether a signal has come; it is forgotten here.
fn came(mut signal: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    signal.read(&mut bytes).is_ok_and(|bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Arc;

    use ferrowire::{Bus as _, BusError, TrafficCounter, VfioUserBus};
    use ferrowire_spec::csr::port;

    use super::*;
    use crate::emulated::Fabric;
    use crate::socket::{Device, Engines, Listener};

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A server of emulated cards, without signals.
    fn server(fabric: Fabric, folder: &Path) -> Server<Engines> {
        let count = fabric.cards();
        let mut cards = Engines::new(fabric);
        let ports = (0..count).map(|card| {
            let device = Device::new(&mut cards, card, count, 128, None).unwrap();
            Port::new(Listener::bind(&socket(folder, card)).unwrap(), device, false)
        });
        let ports = ports.collect();
        let (serial, line, guests, outage, tracer, losses) = (None, None, None, None, None, None);
        Server { cards, ports, serial, line, guests, outage, cables: Cables::default(), tracer, losses }
    }

    fn socket(folder: &Path, card: usize) -> std::path::PathBuf {
        folder.join(format!("{card}.sock"))
    }

    /// Sets a flag, also if a test fails.
    struct End<'a>(&'a AtomicBool);

    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    /// Runs `client` while a server has its turns, before each of which `step` is called.
    fn with(
        name: &str,
        make: impl FnOnce(&Path) -> Server<Engines> + Send,
        step: impl Fn(&mut Server<Engines>) + Sync,
        client: impl FnOnce(&Path),
    ) {
        let folder = std::env::temp_dir().join(format!("ferrowire-server-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (ends, ready) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut server = make(&folder);
                ready.store(true, Ordering::Release);
                while !ends.load(Ordering::Acquire) {
                    step(&mut server);
                    let all = vec![true; server.ports.len()];
                    server.turn(&all).unwrap();
                }
            });
            let _end = End(&ends);
            let start = Instant::now();
            while !ready.load(Ordering::Acquire) {
                assert!(start.elapsed() < PATIENCE, "the server does not begin");
                std::thread::yield_now();
            }
            client(&folder);
        });
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn clients_of_cards_that_fail_see_their_connections_end_and_new_ones_come_in() {
        let fails = AtomicBool::new(false);
        let make = |folder: &Path| server(Fabric::pair(), folder);
        let step = |server: &mut Server<Engines>| {
            if fails.swap(false, Ordering::AcqRel) {
                server.cards.broken = Some("a test".into());
            }
        };
        with("fail", make, step, |folder| {
            let open = |card| VfioUserBus::connect(socket(folder, card)).unwrap();
            let mut buses = [0, 1].map(open);
            for bus in &mut buses {
                bus.csr_read32(0).unwrap();
            }
            fails.store(true, Ordering::Release);
            let end = Instant::now() + PATIENCE;
            for bus in &mut buses {
                while !matches!(bus.csr_read32(0), Err(BusError::Gone(_))) {
                    assert!(Instant::now() < end, "the client goes on with a card that was reset");
                }
            }
            open(1).csr_read32(0).unwrap();
        });
    }

    /// The far end of a wire, which sends frames when it is told to.
    struct Far {
        left: u64,
        go: Arc<AtomicBool>,
    }

    impl Line for Far {
        fn file(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
            None
        }

        fn receive(&mut self) -> Option<Vec<u8>> {
            let comes = self.left > 0 && self.go.load(Ordering::Acquire);
            self.left -= u64::from(comes);
            comes.then(|| [&[0xff; 6][..], &[2, 0, 0, 0, 0, 9], &[0x08, 0x06], &[0; 1000]].concat())
        }

        fn send(&mut self, _: &[u8]) {}
    }

    #[test]
    fn a_capture_goes_on_when_a_trace_cannot_begin() {
        const FRAMES: u64 = 200;
        let folder = std::env::temp_dir().join(format!("ferrowire-server-{}-begin", std::process::id()));
        let traces = folder.join("traces");
        std::fs::create_dir_all(&folder).unwrap();
        let plug = Plug::default();
        let mut server = server(Fabric::single(Some(Box::new(plug.clone()))), &folder);
        let file = folder.join("capture.pcapng");
        server.cards.capture(&file).unwrap();
        server.tracer = Some(Tracer::new(&traces).unwrap());
        // Where its frames are to go is a folder.
        std::fs::create_dir(traces.join("1-wire.pcapng")).unwrap();
        server.toggle_trace();
        let far = Arc::new(AtomicBool::new(true));
        server.line = Some((plug, Box::new(Far { left: FRAMES, go: far })));
        let end = Instant::now() + PATIENCE;
        // A frame has 1,013 bytes.
        while std::fs::metadata(&file).unwrap().len() < 1000 * FRAMES / 2 {
            assert!(Instant::now() < end, "the capture has no frames");
            server.turn(&[true]).unwrap();
        }
        drop(server);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_capture_that_cannot_be_written_ends_and_clients_go_on() {
        // More than is kept before it is written.
        const FRAMES: u64 = 200;
        let go = Arc::new(AtomicBool::new(false));
        let make = |folder: &Path| {
            let plug = Plug::default();
            let mut server = server(Fabric::single(Some(Box::new(plug.clone()))), folder);
            server.cards.capture("/dev/full".as_ref()).unwrap();
            let line: Box<dyn Line> = Box::new(Far { left: FRAMES, go: Arc::clone(&go) });
            Server { line: Some((plug, line)), ..server }
        };
        with(
            "full",
            make,
            |_| {},
            |folder| {
                let mut bus = VfioUserBus::connect(socket(folder, 0)).unwrap();
                let mac = port::BLOCK.address(&port::MAC_LO);
                bus.csr_write32(mac, 0x77).unwrap();
                go.store(true, Ordering::Release);
                let end = Instant::now() + PATIENCE;
                while bus.csr_read64(TrafficCounter::RxFrames.address()).unwrap() < FRAMES {
                    assert!(Instant::now() < end, "frames do not come");
                }
                assert_eq!(bus.csr_read32(mac), Ok(0x77), "the card was reset");
            },
        );
    }
}
