// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Engines`]: emulated cards, as a server has them.
//!
//! Their clock goes by the events of frames while frames are under way, and with this machine's clock while none is (see [`Fabric`]).
//!
//! ```text
//!  frames under way  ____/‾‾‾‾\__________/‾‾‾‾‾‾‾‾\______
//!  cards' clock      real  wire   real      wire    real
//!  server            waits works  waits     works   waits until a message comes or a timer is due
//! ```
//!
//! So a server without work sleeps in `poll(2)` until the next timer or for ever, and time-outs do not depend on the speed of this machine: what it
//! takes to work frames through does not count.
//!
//! # Who advances the clock, and when
//!
//! | step of the server's turn | the clock |
//! |---|---|
//! | [`begin`](Cards::begin) | takes over real time since no frame is under way, at most up to the next deadline. The rest is lost |
//! | messages of clients, frames from a wire | stands still: all of them happen at this time |
//! | [`run`](Cards::run) | timers that are due pass, then it goes from event to event |
//!
//! So what waited in a socket while the server was stopped comes before the timers that became due meanwhile, and between any two deadlines programs get
//! the real time that lies between them. Timers may be late. They are never early.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use ferrowire::{BusError, MemoryMap};

use super::cards::{Cards, Function};
use crate::card::CsrAccess;
use crate::emulated::{Fabric, CLOCK_KHZ};
use crate::switch::Switch;
use crate::wire::Link;

/// Events between two looks at the sockets, and the time that they may take: one event may be many commands, on each of many cards.
const BATCH: usize = 64;
const LOOK: Duration = Duration::from_millis(1);

/// Frames that have waited at the end of a wire while a timer became due arrive before it: the clock stops so long before the timer, in nanoseconds.
const ARRIVAL: u64 = 10_000;

/// Emulated cards, and how far real time has been taken over.
pub struct Engines {
    fabric: Fabric,
    /// Up to when real time was taken over since no frame is under way; `None` while frames are.
    idle_since: Option<Instant>,
    /// What each card was told last of its configuration space, since it was as after power-on.
    functions: Vec<Option<Function>>,
    /// As if a card had failed, for a test.
    #[cfg(test)]
    pub(super) broken: Option<String>,
}

impl Engines {
    /// The cards of a fabric.
    pub fn new(fabric: Fabric) -> Self {
        let functions = vec![None; fabric.cards()];
        Self {
            fabric,
            idle_since: Some(Instant::now()),
            functions,
            #[cfg(test)]
            broken: None,
        }
    }

    /// As [`Cards::begin`], at a moment.
    fn begin_at(&mut self, now: Instant, frames_wait: bool) {
        let Some(since) = self.idle_since else { return };
        let passed = now.saturating_duration_since(since).as_nanos().try_into().unwrap_or(u64::MAX);
        let mut until = self.fabric.now().saturating_add(passed);
        if let (true, Some(deadline)) = (frames_wait, self.fabric.deadline()) {
            until = until.min(deadline.saturating_sub(ARRIVAL));
        }
        self.fabric.advance(until);
        self.idle_since = Some(now);
    }

    /// A card raises a vector.
    #[cfg(test)]
    pub(super) fn raise(&mut self, card: usize, vector: u8) {
        self.fabric.with(card, |card| card.raise(vector));
    }

    /// Whether nothing is to be done before more time has passed or something comes.
    fn rests(&self) -> bool {
        self.fabric.is_idle() && self.fabric.deadline().is_none_or(|deadline| deadline > self.fabric.now())
    }
}

impl Cards for Engines {
    fn is_engine(&self) -> bool {
        true
    }

    fn access(&mut self, card: usize, access: CsrAccess) -> Result<u64, BusError> {
        self.fabric.access(card, access)
    }

    /// An emulated card sends a frame whole, or not at all.
    fn settle(&mut self, _: usize) {}

    fn renew(&mut self, card: usize) -> Result<()> {
        self.fabric.power_on(card);
        self.functions[card] = None;
        #[cfg(test)]
        {
            self.broken = None;
        }
        Ok(())
    }

    fn memory<T>(&mut self, card: usize, f: impl FnOnce(&mut MemoryMap) -> T) -> T {
        self.fabric.card(card).with_memory(f)
    }

    fn refused(&self, card: usize) -> (u64, u64) {
        self.fabric.card(card).refusals()
    }

    fn has_msix(&self) -> bool {
        true
    }

    /// The bus master bit is not looked at. Nothing is done if nothing has changed: this is called after each write of a register.
    fn set_function(&mut self, card: usize, function: Function) {
        if self.functions[card].replace(function) != Some(function) {
            self.fabric.with(card, |card| card.set_interrupts(function.msix_enabled, function.msix_masked));
        }
    }

    fn interrupt(&mut self, card: usize) -> Option<u8> {
        self.fabric.interrupt(card).map(|message| message.vector)
    }

    /// The addresses of their messages are kept and mean nothing, as with other cards on a socket.
    fn interrupt_window(&self, _: usize) -> Range<u64> {
        0..0
    }

    fn cycle(&self) -> u64 {
        self.fabric.now()
    }

    fn clock_khz(&self) -> u32 {
        CLOCK_KHZ
    }

    fn links(&mut self) -> Vec<(&mut Link, bool)> {
        self.fabric.all_links().collect()
    }

    fn set_link(&mut self, up: bool) {
        for card in 0..self.fabric.cards() {
            self.fabric.with(card, |card| card.set_link(up));
        }
    }

    fn is_switched(&self) -> bool {
        self.fabric.switch().is_some()
    }

    fn lost(&self) -> u64 {
        self.fabric.switch().map_or(0, Switch::lost)
    }

    fn losses(&self) -> Option<String> {
        self.fabric.switch()?.losses()
    }

    /// What comes is worked through in any case.
    fn wake(&mut self) {}

    fn rest(&self) -> Option<Duration> {
        let since = self.idle_since.filter(|_| self.fabric.is_idle());
        let Some(since) = since else { return Some(Duration::ZERO) };
        let left = self.fabric.deadline()?.saturating_sub(self.fabric.now());
        Some(Duration::from_nanos(left).saturating_sub(since.elapsed()))
    }

    fn begin(&mut self, frames_wait: bool) {
        self.begin_at(Instant::now(), frames_wait);
    }

    fn run(&mut self, _: bool) {
        // Real time goes on counting from where it was taken over.
        if self.rests() {
            return;
        }
        let start = Instant::now();
        for _ in 0..BATCH {
            if self.fabric.run(1) || start.elapsed() >= LOOK {
                break;
            }
        }
        self.idle_since = self.rests().then(Instant::now);
    }

    fn busy(&self) -> bool {
        !self.fabric.is_idle()
    }

    fn capture(&mut self, path: &Path) -> Result<()> {
        self.fabric.capture(path)
    }

    fn end_capture(&mut self) {
        self.fabric.end_capture();
    }

    fn take_capture_failure(&mut self) -> Option<String> {
        self.fabric.take_capture_failure()
    }

    /// Emulated cards do not fail.
    fn check(&self) -> Result<(), BusError> {
        #[cfg(test)]
        if let Some(why) = &self.broken {
            return Err(BusError::Gone(why.clone()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use ferrowire::{
        AccessFlags, AddressVector, Completion, CompletionQueue, Context, HwCounter, InitAttributes,
        MemoryRegion, PageSize, PathMtu, ProtectionDomain, Psn, QpInitAttr, QueuePair, RecvWr, RtrAttributes,
        RtsAttributes, SendWr,
    };

    use super::*;
    use crate::emulated::{Card, EngineBus, Place};
    use crate::pair::post;
    use crate::socket::line::{Line, Plug};

    const MS: Duration = Duration::from_millis(1);

    /// A card of a server, whose turns the test takes.
    #[derive(Clone)]
    struct Served(Arc<Mutex<Engines>>, usize);

    impl Place for Served {
        fn with<T>(&self, f: impl FnOnce(&mut Card) -> T) -> T {
            self.0.lock().unwrap().fabric.with(self.1, f)
        }

        fn progress(&self) -> Result<(), BusError> {
            Ok(())
        }

        fn now(&self) -> u64 {
            self.0.lock().unwrap().fabric.now()
        }
    }

    struct Node {
        context: Context,
        pd: ProtectionDomain,
        cq: CompletionQueue,
        region: MemoryRegion,
        number: u8,
    }

    impl Node {
        fn open(engines: &Arc<Mutex<Engines>>, card: usize) -> Self {
            let number = card as u8 + 1;
            let context = Context::open(EngineBus::new(Served(Arc::clone(engines), card))).unwrap();
            if context.mac() == [0; 6] {
                context.set_mac([2, 0xfe, 0, 0, 0, number]).unwrap();
            }
            context.add_gid([10, 0, 0, number].into(), None).unwrap();
            let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(64).unwrap());
            let memory = context.alloc(1 << 16, 4096).unwrap();
            let rights = AccessFlags::LOCAL_READ | AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE;
            let region = pd.register(&memory, rights, PageSize::Size4K).unwrap();
            Self { context, pd, cq, region, number }
        }

        fn statuses(&mut self) -> Vec<ferrowire::Coded<ferrowire::WcStatus>> {
            let mut done = [Completion::default(); 64];
            let count = self.cq.poll(&mut done).unwrap();
            done[..count].iter().map(Completion::status).collect()
        }
    }

    /// Queue pairs of two cards, or of one, with six retries for a peer that is not ready, whose pause is 1.28 ms (IBTA 9.7.5.2.8).
    fn connect(a: &Node, b: &Node) -> (QueuePair, QueuePair) {
        let [first, second] = [a, b].map(|node| {
            let mut attr = QpInitAttr::rc(&node.cq, &node.cq);
            (attr.max_send_wr, attr.max_recv_wr) = (64, 64);
            node.pd.create_qp(&attr).unwrap()
        });
        let numbers = [first.number(), second.number()];
        let ip = |node: &Node| [10, 0, 0, node.number].into();
        let up = |qp: ferrowire::Qp<ferrowire::Reset>, own: &Node, other: &Node, peer| {
            let av = AddressVector::new(own.context.mac(), ip(own), other.context.mac(), ip(other));
            let init = InitAttributes::new().access(AccessFlags::REMOTE).pkey(0xffff);
            let rtr = RtrAttributes::new()
                .av(av)
                .path_mtu(PathMtu::B1024)
                .dest_qpn(peer)
                .rq_psn(Psn::new(7))
                .max_dest_rd_atomic(4)
                .min_rnr_timer(14);
            let rts = RtsAttributes::new().sq_psn(Psn::new(7)).timeout(14).retry_cnt(7).rnr_retry(6);
            let qp = qp.init(init).map_err(|step| step.error).unwrap();
            let qp = qp.rtr(rtr).map_err(|step| step.error).unwrap();
            qp.rts(rts.max_rd_atomic(4)).map_err(|step| step.error).unwrap()
        };
        (up(first, a, b, numbers[1]), up(second, b, a, numbers[0]))
    }

    /// All that the server does until nothing is under way; how many turns that took.
    fn settle(engines: &Mutex<Engines>) -> usize {
        let mut turns = 0;
        while { engines.lock().unwrap().idle_since }.is_none() || !engines.lock().unwrap().rests() {
            engines.lock().unwrap().run(false);
            turns += 1;
            assert!(turns < 100_000, "it does not end");
        }
        turns
    }

    fn pair() -> (Arc<Mutex<Engines>>, Node, Node) {
        let engines = Arc::new(Mutex::new(Engines::new(Fabric::pair())));
        let (a, b) = (Node::open(&engines, 0), Node::open(&engines, 1));
        settle(&engines);
        (engines, a, b)
    }

    /// Real time passes, and a turn begins.
    fn later(engines: &Mutex<Engines>, passed: Duration, frames_wait: bool) {
        let mut engines = engines.lock().unwrap();
        let since = engines.idle_since.expect("nothing is under way");
        engines.begin_at(since + passed, frames_wait);
    }

    #[test]
    fn what_waited_while_the_server_was_stopped_comes_before_the_timers_that_became_due() {
        let (engines, mut a, mut b) = pair();
        let (mut qa, mut qb) = connect(&a, &b);
        post(&mut qa, &[SendWr::send(1, &[a.region.sge(0, 100)]).signaled()]);
        settle(&engines);
        assert_eq!(b.context.hw_counter(HwCounter::OutOfBuffer), Ok(1));
        // Its pause and all retries would be over in the time that the server was stopped.
        later(&engines, 500 * MS, false);
        let mut batch = qb.start_post_recv();
        batch.post(&RecvWr::new(2, &[b.region.sge(0, 100)])).unwrap();
        batch.ring().unwrap();
        settle(&engines);
        assert_eq!(b.context.hw_counter(HwCounter::OutOfBuffer), Ok(1), "one pause was over");
        assert_eq!((a.statuses().len(), b.statuses().len()), (1, 1));
        assert!(engines.lock().unwrap().fabric.now() < 100_000_000, "the rest of that time is lost");
    }

    #[test]
    fn two_deadlines_are_never_nearer_to_each_other_than_they_should_be() {
        let (engines, mut a, b) = pair();
        let (mut qa, _qb) = connect(&a, &b);
        post(&mut qa, &[SendWr::send(1, &[a.region.sge(0, 100)]).signaled()]);
        settle(&engines);
        for pauses in 1..=6 {
            assert_eq!(b.context.hw_counter(HwCounter::OutOfBuffer), Ok(pauses));
            assert!(a.statuses().is_empty());
            later(&engines, 500 * MS, false);
            settle(&engines);
        }
        assert_eq!(a.statuses(), [ferrowire::WcStatus::RnrRetryExcErr]);
        let passed = Duration::from_nanos(engines.lock().unwrap().fabric.now());
        assert!(passed >= 6 * Duration::from_micros(1280) && passed < 10 * MS, "{passed:?}");
    }

    /// The far end of a wire, which has these frames.
    struct Far(Vec<Vec<u8>>);

    impl Line for Far {
        fn file(&self) -> Option<(std::os::fd::BorrowedFd<'_>, rustix::event::PollFlags)> {
            None
        }

        fn receive(&mut self) -> Option<Vec<u8>> {
            self.0.pop()
        }

        fn send(&mut self, _: &[u8]) {}
    }

    #[test]
    fn a_frame_from_a_wire_comes_at_the_time_that_it_is_then() {
        const HOUR: Duration = Duration::from_secs(3600);
        let plug = Plug::default();
        let engines = Mutex::new(Engines::new(Fabric::single(Some(Box::new(plug.clone())))));
        let frame = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 9], &[0x08, 0x06], &[0; 46]].concat();
        assert!(plug.exchange(&mut Far(vec![frame])));
        later(&engines, HOUR, true);
        settle(&engines);
        let engines = engines.into_inner().unwrap();
        let now = Duration::from_nanos(engines.fabric.now());
        assert!(now >= HOUR && now < HOUR + MS, "{now:?}");
        assert_eq!(engines.cycle(), engines.fabric.now());
    }

    #[test]
    fn frames_that_waited_at_a_wire_arrive_before_the_timer_that_became_due() {
        let plug = Plug::default();
        let engines = Arc::new(Mutex::new(Engines::new(Fabric::single(Some(Box::new(plug.clone()))))));
        let a = Node::open(&engines, 0);
        // Its frames loop back and get no answer, for the peer is gone.
        let (mut qa, gone) = connect(&a, &a);
        drop(gone);
        post(&mut qa, &[SendWr::write(1, &[a.region.sge(0, 8)], a.region.remote(0))]);
        settle(&engines);
        let deadline = engines.lock().unwrap().fabric.deadline().expect("the ACK is waited for");
        let frame = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 9], &[0x08, 0x06], &[0; 46]].concat();
        plug.exchange(&mut Far(vec![frame]));
        later(&engines, 500 * MS, true);
        let now = engines.lock().unwrap().fabric.now();
        assert!(now < deadline && now + 2 * ARRIVAL > deadline, "{now} before {deadline}");
        engines.lock().unwrap().run(true);
        assert_eq!(a.context.hw_counter(HwCounter::LocalAckTimeoutErr), Ok(0));
        // The next turn takes over what is left.
        later(&engines, MS, false);
        engines.lock().unwrap().run(false);
        assert_eq!(a.context.hw_counter(HwCounter::LocalAckTimeoutErr), Ok(1));
    }

    #[test]
    fn a_card_that_sends_to_itself_takes_a_turn_after_the_other_and_the_time_of_the_wire() {
        const SIZE: u32 = 1 << 16;
        const COUNT: usize = 16;
        let (engines, mut a, mut b) = pair();
        let (mut qa, _same) = connect(&a, &a);
        let sge = [a.region.sge(0, SIZE)];
        for id in 0..COUNT as u64 {
            post(&mut qa, &[SendWr::write(id, &sge, a.region.remote(0)).signaled()]);
        }
        let (start, began) = (engines.lock().unwrap().fabric.now(), Instant::now());
        engines.lock().unwrap().run(false);
        assert!(engines.lock().unwrap().idle_since.is_none(), "1 MiB is not one event");
        assert!(began.elapsed() < Duration::from_secs(1));
        // Another card goes on meanwhile.
        let (mut qb, _other) = connect(&b, &a);
        post(&mut qb, &[SendWr::write(2, &[b.region.sge(0, 8)], a.region.remote(0)).signaled()]);
        let mut turns = 0;
        while b.statuses().is_empty() {
            engines.lock().unwrap().run(false);
            turns += 1;
            assert!(turns < 10_000, "the other card waits");
        }
        let done = a.statuses().len();
        assert!(done < COUNT, "the first card has more to do");
        settle(&engines);
        assert_eq!(done + a.statuses().len(), COUNT);
        let bytes = u64::from(SIZE) * COUNT as u64;
        let passed = engines.lock().unwrap().fabric.now() - start;
        assert!(passed >= bytes * 80 / 1000, "{passed} ns for {bytes} bytes");
    }

    #[test]
    fn what_the_configuration_space_says_again_changes_nothing() {
        let mut engines = Engines::new(Fabric::pair());
        let function = Function { msix_enabled: true, msix_masked: false, bus_master: true };
        engines.set_function(0, function);
        engines.run(false);
        assert!(engines.fabric.is_idle());
        engines.set_function(0, function);
        assert!(engines.fabric.is_idle(), "the card was not touched");
        // A card as after power-on has forgotten it.
        engines.renew(0).unwrap();
        engines.raise(0, 3);
        engines
            .access(
                0,
                CsrAccess {
                    address: ferrowire_spec::csr::MSIX_TABLE + 60,
                    write: true,
                    wide: false,
                    data: 0,
                },
            )
            .unwrap();
        assert_eq!(engines.interrupt(0), None);
        engines.set_function(0, function);
        assert_eq!(engines.interrupt(0), Some(3));
    }
}
