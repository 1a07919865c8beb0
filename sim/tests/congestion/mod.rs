// SPDX-License-Identifier: MIT OR Apache-2.0
//! Congestion control from one card to the other: marked packets, notifications, and senders that slow down.

mod reads;

use crate::tier::chosen;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use ferrowire::{
    CongestionControl, DropReason, HwCounter, PathMtu, QpAttributes, QpState, QueuePair, Service,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_hdl::context::congestion::react::DEBT;
use ferrowire_sim::card::{all_face_pcie, CardModel};
use ferrowire_sim::feed::{self, Feed, SLOTS};
use ferrowire_sim::pair::{Connection, Node, Pair, PairOptions};
use ferrowire_sim::wire::{encoded, mark_congestion, SentFrame};
use ferrowire_spec::wire::frame::{Extensions, Frame, Ip};
use ferrowire_spec::wire::opcode::Operation;
use ferrowire_spec::wire::{Bth, Cnp, Opcode};
use ferrowire_spec::Psn;

const CONFIGS: [&str; 2] = ["generic-8b", "generic-64b"];

/// What the card charges for a packet beside its payload.
const HEADERS: u64 = 64;

/// Two cards with a wire that takes nine tenths of what their datapaths send: the peer has time to place it.
fn pair(config: &str) -> Pair {
    pair_of(&RnicConfig::named(config).unwrap())
}

fn pair_of(config: &RnicConfig) -> Pair {
    let model = CardModel::rnic(config, false).unwrap();
    let pair = Pair::new(&model, &PairOptions::default()).unwrap();
    pair.world.lock().set_line_share(0.9);
    pair
}

/// Cycles of a microsecond, and a rate in Mb/s that the wire has room for, with all that Ethernet adds.
fn shape(pair: &Pair) -> (f64, f64) {
    let world = pair.world.lock();
    let per_us = f64::from(world.clock_khz()) / 1000.0;
    (per_us, per_us * world.card(0).beat_bytes() as f64 * 8.0 * 0.8)
}

fn feed<'a>(pair: &'a Pair, size: usize, connection: &Connection) -> Feed<'a> {
    Feed::new(pair, size, connection, false).unwrap()
}

fn run(pair: &Pair, feeds: &mut [Feed<'_>], busy: &[bool], cycles: u64) {
    feed::run(pair, feeds, busy, cycles).unwrap();
}

fn finish(pair: &Pair, feeds: &mut [Feed<'_>]) {
    feed::finish(pair, feeds, 2 * SLOTS as u64 + 1).unwrap();
}

/// Payload and the cycle of each packet to `qpn`, whose PSNs must follow each other.
fn packets(frames: &[SentFrame], qpn: u32) -> Vec<(u64, u64)> {
    let (mut all, mut next) = (Vec::new(), None);
    for sent in frames {
        let frame = Frame::parse(&sent.bytes).unwrap();
        if frame.bth.destqp == qpn {
            assert!(next.is_none_or(|psn| psn == frame.bth.psn), "PSN {:#x} after {next:x?}", frame.bth.psn);
            next = Some(Psn::new(frame.bth.psn + 1).get());
            all.push((sent.first, frame.payload.len() as u64));
        }
    }
    all
}

/// The CNPs among frames, and when they came.
fn cnps(frames: &[SentFrame], qpn: u32) -> Vec<u64> {
    let is = |sent: &&SentFrame| {
        let frame = Frame::parse(&sent.bytes).unwrap();
        frame.opcode() == Ok(Opcode::Cnp) && frame.bth.destqp == qpn
    };
    frames.iter().filter(is).map(|sent| sent.last).collect()
}

/// Which packets a wire marks.
#[derive(Clone, Copy, PartialEq)]
enum Marks {
    None,
    Of(u32),
    All,
}

/// Lets the wire to card 1 - `link` mark packets, as the switch that it gives says. To be called while nothing is on the wire.
fn marks(pair: &Pair, link: usize) -> Arc<Mutex<Marks>> {
    let switch = Arc::new(Mutex::new(Marks::None));
    let which = Arc::clone(&switch);
    pair.world.lock().link_mut(link).set_filter(Some(Box::new(move |frame| {
        let mut frame = frame.to_vec();
        let marks = *which.lock().unwrap();
        if marks == Marks::All || marks == Marks::Of(Frame::parse(&frame).unwrap().bth.destqp) {
            mark_congestion(&mut frame);
        }
        vec![frame]
    })));
    switch
}

fn count(node: &Node, counter: HwCounter) -> u64 {
    // Counters lag by a sweep.
    node.context.hw_counter(counter).unwrap()
}

/// What `link` carries is marked: for 10 us nothing, for 100 us what goes to `first`, for 100 us everything; then all comes to its end. Tells
/// the cycle in which it began. Before it, nobody asks the other side to slow down.
fn mark_by_turns(pair: &Pair, feeds: &mut [Feed<'_>], link: usize, first: u32) -> u64 {
    let (per_us, _) = shape(pair);
    let busy = vec![true; feeds.len()];
    let marks = marks(pair, link);
    run(pair, feeds, &busy, (10.0 * per_us) as u64);
    assert_eq!(pair.world.lock().link(1 - link).sent().iter().filter(|f| is_cnp(f)).count(), 0);
    let start = pair.world.lock().cycle();
    for turn in [Marks::Of(first), Marks::All] {
        *marks.lock().unwrap() = turn;
        run(pair, feeds, &busy, (100.0 * per_us) as u64);
    }
    *marks.lock().unwrap() = Marks::None;
    finish(pair, feeds);
    start
}

/// CNPs of so many microseconds of marks, as often as the interval allows. `in_front`: frames that one may have to wait for.
fn one_in_an_interval(
    told: &[u64],
    interval: u16,
    (per_us, in_front): (f64, f64),
    us: f64,
    fewest: usize,
    what: &str,
) {
    let gaps: Vec<f64> = told.windows(2).map(|w| (w[1] - w[0]) as f64 / per_us).collect();
    // The first waits for what is in front of it, the second for nothing, and for a microsecond that had begun; a frame waits longer for a slower bus.
    let bus = if all_face_pcie() { 2.0 } else { 0.0 };
    let shortest = f64::from(interval) - 1.0 - bus - in_front * 1200.0 / 8.0 / per_us;
    assert!(gaps.iter().all(|gap| *gap >= shortest), "{what}: {gaps:?}");
    let most = (us / f64::from(interval)) as usize + 2;
    assert!((fewest..=most).contains(&told.len()), "{what}: {} CNPs", told.len());
}

#[test]
fn marked_requests_make_cnps_for_their_queue_pair_at_most_one_in_an_interval() {
    const INTERVAL: u16 = 20;
    for config in chosen!(CONFIGS) {
        for ipv6 in [false, true] {
            let pair = pair(config);
            let (per_us, _) = shape(&pair);
            let control = CongestionControl { cnp_interval_us: INTERVAL, ..CongestionControl::default() };
            pair.b.context.set_congestion_control(&control).unwrap();
            let connection = Connection { ipv6, ..Connection::default() };
            let mut feeds = [feed(&pair, 4000, &connection), feed(&pair, 1000, &connection)];
            pair.world.lock().link_mut(1).keep_frames(true);
            let qpn = feeds[0].peer.number();
            let start = mark_by_turns(&pair, &mut feeds, 0, qpn);
            let frames = pair.world.lock().link_mut(1).take_frames();
            let (first, second) = (cnps(&frames, feeds[0].qp.number()), cnps(&frames, feeds[1].qp.number()));
            // Where beats are narrow, a queue pair is silent for twice the interval while the other has its quantum.
            let few = if config == "generic-8b" { 6 } else { 8 };
            for (told, rounds, fewest) in [(&first, 200.0, few), (&second, 100.0, 1)] {
                one_in_an_interval(told, INTERVAL, (per_us, 2.0), rounds, fewest, config);
            }
            assert!(second.iter().all(|at| *at > start + (100.0 * per_us) as u64), "{config}");
            let all: Vec<_> = frames.iter().filter(|f| is_cnp(f)).collect();
            for sent in &all {
                let frame = Frame::parse(&sent.bytes).unwrap();
                let bth = &frame.bth;
                assert_eq!((bth.becn, bth.fecn, bth.psn, bth.ackreq, bth.se), (true, false, 0, false, false));
                assert_eq!((bth.pkey, frame.ext.cnp, frame.payload.len()), (0xffff, Some(Cnp::default()), 0));
            }
            // A card without a line rate takes notice, and goes on.
            assert_eq!(count(&pair.b, HwCounter::NpCnpSent), all.len() as u64, "{config}{}", pair.diagnose());
            assert_eq!(count(&pair.a, HwCounter::RpCnpIgnored), all.len() as u64, "{config}");
            assert_eq!(count(&pair.a, HwCounter::RpCnpHandled), 0, "{config}");
            let marked = count(&pair.b, HwCounter::NpEcnMarkedRocePackets);
            assert!(marked > all.len() as u64, "{config}: {marked}");
        }
    }
}

fn is_cnp(sent: &SentFrame) -> bool {
    Frame::parse(&sent.bytes).unwrap().opcode() == Ok(Opcode::Cnp)
}

/// The published algorithm in real numbers: rates in Mb/s, times in microseconds.
struct Dcqcn {
    p: CongestionControl,
    rate: f64,
    target: f64,
    alpha: f64,
    alpha_at: f64,
    rate_at: f64,
    bytes: u64,
    by_time: u8,
    by_bytes: u8,
    limited: bool,
}

impl Dcqcn {
    fn new(p: CongestionControl) -> Self {
        let line = f64::from(p.line_rate_mbps);
        let (alpha_at, rate_at) = (f64::MAX, f64::MAX);
        let (bytes, by_time, by_bytes) = (0, 0, 0);
        Self {
            p,
            rate: line,
            target: line,
            alpha: 1.0,
            alpha_at,
            rate_at,
            bytes,
            by_time,
            by_bytes,
            limited: false,
        }
    }

    fn gain(&self) -> f64 {
        1.0 / f64::from(1u32 << self.p.gain_shift)
    }

    fn notified(&mut self, now: f64) {
        if !self.limited {
            *self = Self { limited: true, ..Self::new(self.p) };
        }
        self.target = self.rate;
        self.rate = (self.rate * (1.0 - self.alpha / 2.0)).max(f64::from(self.p.min_rate_mbps));
        self.alpha += (1.0 - self.alpha) * self.gain();
        (self.alpha_at, self.rate_at) = (now + f64::from(self.p.alpha_us), now + f64::from(self.p.rate_us));
        (self.bytes, self.by_time, self.by_bytes) = (0, 0, 0);
    }

    fn rise(&mut self) {
        let (least, most) = (self.by_time.min(self.by_bytes), self.by_time.max(self.by_bytes));
        if least > self.p.recovery_steps {
            self.target += f64::from(self.p.hyper_mbps);
        } else if most > self.p.recovery_steps {
            self.target += f64::from(self.p.additive_mbps);
        }
        let line = f64::from(self.p.line_rate_mbps);
        self.target = self.target.min(line);
        self.rate = (self.rate + self.target) / 2.0;
        // The card's rates are in sixteenths of a Mb/s.
        self.limited = self.rate < line - 0.125;
    }

    fn advance(&mut self, now: f64, bytes: u64) {
        if !self.limited {
            return;
        }
        self.bytes += bytes;
        while self.alpha_at <= now {
            self.alpha_at += f64::from(self.p.alpha_us);
            self.alpha -= self.alpha * self.gain();
        }
        while self.rate_at <= now {
            self.rate_at += f64::from(self.p.rate_us);
            self.by_time = self.by_time.saturating_add(1);
            self.rise();
        }
        while self.p.byte_counter > 0 && self.bytes >= u64::from(self.p.byte_counter) {
            self.bytes -= u64::from(self.p.byte_counter);
            self.by_bytes = self.by_bytes.saturating_add(1);
            self.rise();
        }
    }
}

/// Bytes of a window, as they were charged and as the algorithm wants them, the least rate in it, and whether it was limited throughout.
struct Window {
    got: f64,
    wanted: f64,
    least: f64,
    limited: bool,
}

/// Holds the packets of a queue pair against the algorithm, which is told of the same CNPs.
fn windows(
    control: CongestionControl,
    per_us: f64,
    sent: &[(u64, u64)],
    told: &[u64],
    from: u64,
    to: u64,
    us: f64,
) -> Vec<Window> {
    let mut model = Dcqcn::new(control);
    let (mut sent, mut told) = (VecDeque::from(sent.to_vec()), VecDeque::from(told.to_vec()));
    sent.retain(|packet| packet.0 >= from);
    let mut all = Vec::new();
    let step = (per_us / 4.0) as u64;
    let mut now = from;
    while now + (us * per_us) as u64 <= to {
        let end = now + (us * per_us) as u64;
        let mut window = Window { got: 0.0, wanted: 0.0, least: f64::MAX, limited: true };
        while now < end {
            while told.front().is_some_and(|at| *at <= now) {
                told.pop_front();
                model.notified(now as f64 / per_us);
            }
            window.wanted += model.rate / 8.0 * step as f64 / per_us;
            window.least = window.least.min(model.rate);
            window.limited &= model.limited;
            now += step;
            let mut bytes = 0;
            while sent.front().is_some_and(|packet| packet.0 < now) {
                bytes += sent.pop_front().map_or(0, |packet| packet.1 + HEADERS);
            }
            window.got += bytes as f64;
            model.advance(now as f64 / per_us, bytes);
        }
        all.push(window);
    }
    all
}

/// Parameters with which a rate moves in some hundred microseconds.
fn quick(line: f64) -> CongestionControl {
    CongestionControl {
        cnp_interval_us: 30,
        line_rate_mbps: line as u32,
        min_rate_mbps: (line / 100.0) as u32,
        gain_shift: 3,
        alpha_us: 20,
        // Whatever happens every 2 us may come that much earlier: not at the interval's end.
        rate_us: 25,
        byte_counter: (line * 4.0) as u32,
        recovery_steps: 2,
        additive_mbps: (line / 16.0) as u16,
        hyper_mbps: (line / 8.0) as u16,
    }
}

#[test]
fn a_sender_that_is_told_follows_the_published_algorithm_down_and_up_again() {
    let cases = [("generic-8b", 16_000), ("generic-8b", 500), ("generic-64b", 32_000), ("generic-64b", 1000)];
    for (config, size) in chosen!(cases) {
        follows(config, size, Service::Rc, false);
    }
}

#[test]
fn a_sender_of_uc_that_is_told_follows_it_too() {
    for (config, size) in chosen!([("generic-8b", 500), ("generic-64b", 32_000)]) {
        follows(config, size, Service::Uc, false);
    }
}

/// A sender of messages of this size is told of congestion for a while, and then not any more.
fn follows(config: &str, size: usize, service: Service, answers: bool) {
    let pair = pair(config);
    let (per_us, line) = shape(&pair);
    let control = quick(line);
    [&pair.a, &pair.b].iter().for_each(|node| node.context.set_congestion_control(&control).unwrap());
    // Who sends what counts: requests, or what answers READs.
    let (sender, there) = if answers { (&pair.b, 1) } else { (&pair.a, 0) };
    let mut feeds = [if answers {
        reads::feed(&pair, size)
    } else {
        feed(&pair, size, &Connection { service, ..Connection::default() })
    }];
    let (qpn, peer) = match answers {
        true => (feeds[0].peer.number(), feeds[0].qp.number()),
        false => (feeds[0].qp.number(), feeds[0].peer.number()),
    };
    (0..2).for_each(|link| pair.world.lock().link_mut(link).keep_frames(true));
    let marks = marks(&pair, there);
    run(&pair, &mut feeds, &[true], (10.0 * per_us) as u64);
    let from = pair.world.lock().cycle();
    *marks.lock().unwrap() = Marks::All;
    run(&pair, &mut feeds, &[true], (200.0 * per_us) as u64);
    *marks.lock().unwrap() = Marks::None;
    run(&pair, &mut feeds, &[true], (600.0 * per_us) as u64);
    let to = pair.world.lock().cycle();
    finish(&pair, &mut feeds);
    let [there, back] = [there, 1 - there].map(|link| pair.world.lock().link_mut(link).take_frames());
    let told = cnps(&back, qpn);
    assert!((5..=9).contains(&told.len()), "{config}: {} CNPs", told.len());
    assert_eq!(count(sender, HwCounter::RpCnpHandled), told.len() as u64, "{config}{}", pair.diagnose());
    let sent = packets(&there, peer);
    let windows = windows(control, per_us, &sent, &told, from, to, 40.0);
    let biggest = sent.iter().map(|packet| packet.1).max().unwrap() as f64;
    let lowest = windows.iter().map(|window| window.least).fold(f64::MAX, f64::min);
    assert!(lowest < 0.45 * line, "{config}: {lowest}");
    // What had been charged before the first CNP is in the card's buffers still.
    let buffered = 3.0 * 24576.0 / (line / 8.0);
    for (i, Window { got, wanted, least, limited }) in
        windows.iter().enumerate().skip((buffered / 40.0).ceil() as usize)
    {
        // Some packets that were under way, a period of a rate that has changed meanwhile, and some per cent.
        let slack = f64::from(DEBT) + 4.0 * (biggest + 64.0) + 0.08 * wanted;
        assert!(
            got - wanted > -slack && (got - wanted < slack || !limited),
            "{config}, messages of {size}, answers: {answers}, window {i}: {got} bytes, expected {wanted:.0} ({least:.0} Mb/s){}",
            windows.iter().map(|w| format!("\n{:.0} {:.0}", w.got, w.wanted)).collect::<String>()
        );
    }
    // It is back at its full rate.
    let last = windows.last().unwrap();
    assert!(last.got > 0.93 * line / 8.0 * 40.0, "{config}: {}", last.got);
}

#[test]
fn others_have_what_a_slow_queue_pair_leaves() {
    let cases = [("generic-8b", [8000, 2000]), ("generic-64b", [16_000, 256]), ("generic-64b", [1000, 1000])];
    for (config, sizes) in chosen!(cases) {
        let pair = pair(config);
        let (per_us, line) = shape(&pair);
        let mut feeds =
            sizes.map(|size| feed(&pair, size, &Connection { mtu: PathMtu::B1024, ..Connection::default() }));
        // What the second one has alone.
        pair.world.lock().link_mut(0).keep_frames(true);
        let span = (100.0 * per_us) as u64;
        let of = |pair: &Pair, qpn: u32| -> u64 {
            let frames = pair.world.lock().link_mut(0).take_frames();
            packets(&frames, qpn).len() as u64
        };
        run(&pair, &mut feeds, &[false, true], span / 4);
        of(&pair, feeds[1].peer.number());
        run(&pair, &mut feeds, &[false, true], span);
        let alone = of(&pair, feeds[1].peer.number());
        // Nothing rises for long: a sixteenth of the line.
        let control = CongestionControl {
            line_rate_mbps: line as u32,
            alpha_us: u16::MAX,
            rate_us: u16::MAX,
            byte_counter: 0,
            ..CongestionControl::default()
        };
        pair.a.context.set_congestion_control(&control).unwrap();
        run(&pair, &mut feeds, &[true; 2], 3 * span);
        for _ in 0..4 {
            notify(&pair, &feeds[0], |_| ());
            run(&pair, &mut feeds, &[true; 2], span / 4);
        }
        run(&pair, &mut feeds, &[true; 2], span);
        let _ = pair.world.lock().link_mut(0).take_frames();
        run(&pair, &mut feeds, &[true; 2], span);
        let frames = pair.world.lock().link_mut(0).take_frames();
        let slow = packets(&frames, feeds[0].peer.number());
        let others = packets(&frames, feeds[1].peer.number()).len() as f64;
        let got: u64 = slow.iter().map(|packet| packet.1 + HEADERS).sum();
        let (got, wanted) = (got as f64, line / 16.0 / 8.0 * 100.0);
        assert!(
            (got - wanted).abs() < f64::from(DEBT) + 4.0 * 1088.0 + 0.05 * wanted,
            "{config}: {got} bytes of {wanted}"
        );
        assert!(
            others + 6.0 > 0.95 * 15.0 / 16.0 * alone as f64,
            "{config}, {sizes:?}: {others} packets, alone {alone}"
        );
        finish(&pair, &mut feeds);
    }
}

/// A CNP of the peer of `feed`, changed by `change`, at the sender.
fn notify(pair: &Pair, feed: &Feed<'_>, change: impl FnOnce(&mut Frame<'_>)) {
    notify_at(pair, 0, &feed.qp, &feed.peer, change);
}

/// A CNP for `qp` of card `card`, of its peer, changed by `change`.
fn notify_at(
    pair: &Pair,
    card: usize,
    qp: &QueuePair,
    peer: &QueuePair,
    change: impl FnOnce(&mut Frame<'_>),
) {
    // One of its packets, turned.
    let frame = {
        let world = pair.world.lock();
        let to = |sent: &&SentFrame| Frame::parse(&sent.bytes).unwrap().bth.destqp == peer.number();
        world.link(card).sent().iter().rfind(to).expect("a packet of the queue pair").bytes.clone()
    };
    let mut cnp = Frame::parse(&frame).unwrap();
    cnp.payload = &[];
    std::mem::swap(&mut cnp.eth.src, &mut cnp.eth.dst);
    match &mut cnp.ip {
        Ip::V4(h) => std::mem::swap(&mut h.src, &mut h.dst),
        Ip::V6(h) => std::mem::swap(&mut h.src, &mut h.dst),
    }
    cnp.bth =
        Bth { opcode: Opcode::Cnp.code(), becn: true, pkey: 0xffff, destqp: qp.number(), ..Bth::default() };
    cnp.ext = Extensions { cnp: Some(Cnp::default()), ..Extensions::default() };
    change(&mut cnp);
    cnp.seal().unwrap();
    let bytes = encoded(&cnp).unwrap();
    pair.world.lock().inject(1 - card, bytes);
}

#[test]
fn a_cnp_that_is_not_the_peers_slows_nobody_down() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (_, line) = shape(&pair);
        let control = CongestionControl { line_rate_mbps: line as u32, ..CongestionControl::default() };
        pair.a.context.set_congestion_control(&control).unwrap();
        assert_eq!(pair.a.context.congestion_control().unwrap(), control);
        let mut feeds = [feed(&pair, 2000, &Connection::default())];
        pair.world.lock().link_mut(0).keep_frames(true);
        run(&pair, &mut feeds, &[true], 3_000);
        let drops = || -> Vec<u64> {
            pair.world.lock().run(400);
            let reasons = [DropReason::NoQp, DropReason::Pkey, DropReason::SourceAddress];
            reasons.map(|reason| pair.a.context.drop_counter(reason).unwrap()).to_vec()
        };
        notify(&pair, &feeds[0], |cnp| cnp.bth.destqp ^= 1);
        notify(&pair, &feeds[0], |cnp| cnp.bth.destqp |= 1 << 23);
        assert_eq!(drops(), [2, 0, 0], "{config}");
        notify(&pair, &feeds[0], |cnp| cnp.bth.pkey = 0x8001);
        assert_eq!(drops(), [2, 1, 0], "{config}");
        notify(&pair, &feeds[0], |cnp| match &mut cnp.ip {
            Ip::V4(h) => h.src ^= 0x100,
            Ip::V6(h) => h.src ^= 0x100,
        });
        assert_eq!(drops(), [2, 1, 1], "{config}");
        assert_eq!(count(&pair.a, HwCounter::RpCnpHandled), 0, "{config}");
        notify(&pair, &feeds[0], |_| ());
        assert_eq!(drops(), [2, 1, 1], "{config}");
        assert_eq!(count(&pair.a, HwCounter::RpCnpHandled), 1, "{config}{}", pair.diagnose());
        finish(&pair, &mut feeds);
    }
}

#[test]
fn a_slow_queue_pair_begins_a_new_life_at_full_rate_and_ends_in_error_at_once() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (per_us, line) = shape(&pair);
        // Slow for ever.
        let control = CongestionControl {
            line_rate_mbps: line as u32,
            min_rate_mbps: 1,
            alpha_us: u16::MAX,
            rate_us: u16::MAX,
            byte_counter: 0,
            ..CongestionControl::default()
        };
        pair.a.context.set_congestion_control(&control).unwrap();
        let span = (40.0 * per_us) as u64;
        let mut feeds = [feed(&pair, 20_000, &Connection::default())];
        pair.world.lock().link_mut(0).keep_frames(true);
        run(&pair, &mut feeds, &[true], span);
        for _ in 0..20 {
            notify(&pair, &feeds[0], |_| ());
            run(&pair, &mut feeds, &[true], 200);
        }
        run(&pair, &mut feeds, &[true], span / 4);
        let before = pair.world.lock().link(0).frames();
        run(&pair, &mut feeds, &[true], span);
        let slow = pair.world.lock().link(0).frames() - before;
        assert!(slow <= 3, "{config}: {slow} packets");
        // In the middle of a message, and nothing is flushed before its turn.
        let [mut feed] = feeds;
        feed.qp.modify(QpState::Err, &QpAttributes::default()).unwrap();
        let rest = pair.a.wait(&pair.world, feed.outstanding(), 100_000);
        let rest = rest.unwrap_or_else(|error| panic!("{config}: {error}{}", pair.diagnose()));
        assert!(rest.iter().all(|done| !done.is_success()), "{config}");
        let mut feeds = [feed.reconnect(&Connection::default()).unwrap()];
        run(&pair, &mut feeds, &[true], span / 4);
        let before = pair.world.lock().link(0).frames();
        run(&pair, &mut feeds, &[true], span);
        let fast = pair.world.lock().link(0).frames() - before;
        let full = line / 8.0 * 40.0 / 1100.0;
        assert!(fast as f64 > 0.9 * full, "{config}: {fast} packets of {full:.0}");
        finish(&pair, &mut feeds);
    }
}

#[test]
fn a_card_without_it_tells_nobody_ignores_what_it_is_told_and_says_so() {
    let pair = pair_of(&RnicConfig::named("generic-8b").unwrap().plain());
    let (per_us, line) = shape(&pair);
    assert!(!pair.a.context.capabilities().congestion);
    let error = pair.a.context.set_congestion_control(&quick(line)).unwrap_err().to_string();
    assert!(error.contains("build the card with congestion = true"), "{error}");
    let mut feeds = [feed(&pair, 4000, &Connection::default())];
    (0..2).for_each(|link| pair.world.lock().link_mut(link).keep_frames(true));
    let marks = marks(&pair, 0);
    *marks.lock().unwrap() = Marks::All;
    run(&pair, &mut feeds, &[true], (60.0 * per_us) as u64);
    let frames = pair.world.lock().link_mut(1).take_frames();
    assert!(!frames.is_empty() && !frames.iter().any(is_cnp));
    notify(&pair, &feeds[0], |_| ());
    finish(&pair, &mut feeds);
    assert_eq!(count(&pair.a, HwCounter::RpCnpIgnored), 1, "{}", pair.diagnose());
    assert_eq!((count(&pair.a, HwCounter::RpCnpHandled), count(&pair.b, HwCounter::NpCnpSent)), (0, 0));
}
