// SPDX-License-Identifier: MIT OR Apache-2.0
//! Credits: a queue pair and a peer that posts receives now and then.
//!
//! The bench is the scheduler, which fetches again and parks who waits, the wire, and a peer of the specification: it takes packets in
//! their order, refuses what finds no receive, and tells in each acknowledgement how many are left.

use super::*;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::syndrome::{credit_code, credits, CREDIT_INVALID};

const MTU: u32 = 1024;
const START: u32 = 0xff_fff0;

/// Cycles in which what was begun before a word of the completer may come out.
const DELAY: usize = 100;

/// A message: what it is, and its packets.
#[derive(Clone, Copy, Debug)]
struct Message {
    opcode: SendOpcode,
    packets: u32,
}

impl Message {
    fn takes_receive(&self) -> bool {
        self.opcode != SendOpcode::Write
    }

    /// The packet of it that needs a receive.
    fn needs(&self) -> u32 {
        if self.opcode == SendOpcode::WriteImm {
            self.packets - 1
        } else {
            0
        }
    }
}

/// What is on its way back, and when it is there.
enum Answer {
    Ack { psn: u32, code: u8 },
    NotReady { psn: u32 },
}

struct Peer {
    messages: Vec<Message>,
    /// Distance of each message's first packet from the start.
    firsts: Vec<u32>,
    /// Packets executed, messages completed, receives that no message has.
    expected: u32,
    done: usize,
    free: u32,
    silent: bool,
    /// It tells how many.
    tells: bool,
}

impl Peer {
    /// The message of a packet, and the packet's place in it.
    fn place(&self, at: u32) -> (usize, u32) {
        let index = self.firsts.partition_point(|first| *first <= at) - 1;
        (index, at - self.firsts[index])
    }

    fn take(&mut self, at: u32, ack_req: bool) -> Option<Answer> {
        if at < self.expected {
            return Some(self.ack(self.expected - 1));
        }
        assert!(at == self.expected || self.silent, "packet {at}, {} was due", self.expected);
        if at > self.expected {
            return None;
        }
        let (index, place) = self.place(at);
        let message = self.messages[index];
        if message.takes_receive() && place == message.needs() {
            if self.free == 0 {
                self.silent = true;
                return Some(Answer::NotReady { psn: at });
            }
            self.free -= 1;
        }
        self.silent = false;
        self.expected += 1;
        self.done += usize::from(place + 1 == message.packets);
        ack_req.then(|| self.ack(at))
    }

    fn ack(&self, psn: u32) -> Answer {
        Answer::Ack { psn, code: if self.tells { credit_code(self.free) } else { CREDIT_INVALID } }
    }
}

struct Link {
    bench: Bench,
    peer: Peer,
    back: VecDeque<(u64, Answer)>,
    /// The scheduler's: next index, whether the queue pair holds or is parked.
    fetch: u16,
    holds: Option<u64>,
    parked: bool,
    /// What the completer has told.
    oldest: u32,
    told: u64,
    bounded: bool,
    /// The first message that no receive is promised for, and what that was in the last cycles.
    limit: usize,
    limits: VecDeque<usize>,
    refused: u32,
    packets: u32,
    parkings: u32,
    /// The wire pauses now and then.
    pauses: bool,
    /// The wire delivers late copies of packets that ask: when, and which.
    copies: Option<VecDeque<(u64, u32)>>,
    /// Packets whose late copy the peer took.
    by_copy: u32,
}

impl Link {
    fn new(seed: u64, beat_bytes: u32, messages: Vec<Message>, tells: bool) -> Link {
        let mut bench = Bench::new(seed, beat_bytes);
        let fields = [("service", Service::Rc.code().into()), ("mtu", 3), ("max_rd_atomic", 1)];
        for (name, value) in fields {
            bench.sim.set(&format!("broadcast_attributes_entry_{name}"), value);
        }
        bench.sim.set("broadcast_attributes_index", 0);
        bench.sim.set("broadcast_attributes_enable", 1);
        step(&mut bench.sim, &mut [], &mut [], &mut bench.random, 0.0);
        bench.sim.set("broadcast_attributes_enable", 0);
        bench.sim.set("starting_psn", START.into());
        bench.sim.set("oldest_index", 0);
        bench.sources[FETCHED].push_values(&[("start", 1)]);
        let before = |index: usize| messages[..index].iter().map(|m| m.packets).sum();
        let firsts = (0..messages.len()).map(before).collect();
        let peer = Peer { messages, firsts, expected: 0, done: 0, free: 0, silent: false, tells };
        let mut link = Link {
            bench,
            peer,
            back: VecDeque::new(),
            fetch: 0,
            holds: None,
            parked: true,
            oldest: 0,
            told: 0,
            bounded: false,
            limit: usize::MAX,
            limits: VecDeque::new(),
            refused: 0,
            packets: 0,
            parkings: 0,
            pauses: false,
            copies: None,
            by_copy: 0,
        };
        // Nothing is fetched before the start has passed.
        link.tell(0, None);
        link.parked = true;
        (0..60).for_each(|_| link.step());
        assert_eq!(link.bench.sources[FETCHED].left(), 0);
        link.parked = false;
        link
    }

    fn index(&self) -> usize {
        self.peer.firsts.partition_point(|first| *first <= self.oldest).max(1) - 1
    }

    /// The completer's word: all before `oldest` is acknowledged.
    fn tell(&mut self, oldest: u32, code: Option<u8>) {
        self.oldest = oldest;
        self.told += 1;
        let total = self.peer.messages.iter().map(|m| m.packets).sum::<u32>();
        let index = if oldest == total { self.peer.messages.len() } else { self.index() };
        if let Some(code) = code {
            let n = credits(code).map(usize::from);
            (self.bounded, self.limit) = (n.is_some(), n.map_or(usize::MAX, |n| index + n));
        }
        let first = self.peer.firsts.get(index).copied().unwrap_or(total);
        let left = self.limit.saturating_sub(index).min(self.bench.cfg.outstanding_per_qp as usize);
        let psn = |at: u32| u64::from((START + at) & 0xff_ffff);
        for (name, value) in [
            ("index", index as u64),
            ("first_psn", psn(first)),
            ("psn", psn(oldest)),
            ("bounded", self.bounded.into()),
            ("credits", left as u64),
            ("told", self.told % 32),
        ] {
            self.bench.sim.set(&format!("oldest_entry_{name}"), value);
        }
        self.bench.sim.set("oldest_enable", 1);
        self.parked = false;
    }

    fn step(&mut self) {
        // Some WQEs are fetched ahead.
        let window = self.index() + self.bench.cfg.outstanding_per_qp as usize;
        let wants = usize::from(self.fetch) < self.peer.messages.len().min(window);
        if wants && !self.parked && self.holds.is_none() && self.bench.sources[FETCHED].left() < 4 {
            let message = self.peer.messages[usize::from(self.fetch)];
            let total = u64::from((message.packets - 1) * MTU + 1);
            let unit = SendWqe {
                opcode: message.opcode.code(),
                num_sge: 1,
                sge0_len: total as u32,
                ..SendWqe::default()
            };
            let mut bytes = [0; 64];
            unit.emit(&mut bytes).unwrap();
            let fields = [("index", self.fetch.into()), ("total", total.into())];
            let mut wqe = item(&Wqe::of(&self.bench.cfg), &fields);
            wqe.insert("unit".into(), Bits::from_bytes(512, &bytes));
            self.bench.sources[FETCHED].push(wqe);
            self.fetch += 1;
        }
        let others = self.bench.random.chance(0.3);
        self.bench.sim.set("waiting_others", others.into());
        if self.pauses && self.bench.random.chance(0.03) {
            let paused = if self.bench.random.chance(0.4) { 0xff } else { 0 };
            self.bench.sim.set("paused", paused);
        }
        let Bench { sim, sources, sinks, random, .. } = &mut self.bench;
        step(sim, sources, sinks, random, 0.2);
        sim.set("oldest_enable", 0);
        let now = sim.cycles();
        let resumes = self.bench.sinks[RESUME].items.split_off(0);
        for resume in &resumes {
            let of = |name: &str| resume[name].to_u64();
            if of("start") == 1 {
                continue;
            }
            self.fetch = of("index") as u16;
            self.parked = of("limited") == 1;
            if self.parked {
                assert_eq!(of("unheard"), 1);
                self.parkings += 1;
                self.parked = of("known") == self.told % 32;
            }
            let hold = self.bench.random.rng.random_range(20..80);
            self.holds = (of("hold") == 1).then_some(now + hold);
        }
        if self.holds.is_some_and(|until| until < now) {
            self.holds = None;
            // Nothing of it may come until the segmenter has been told.
            self.parked = true;
            self.bench.sources[RESTART].push_values(&[("qp", 0), ("hold", 0)]);
        }
        self.limits.push_back(self.limit);
        if self.limits.len() > DELAY {
            self.limits.pop_front();
        }
        for candidate in self.bench.sinks[CANDIDATE].items.split_off(0) {
            self.packet(&candidate, now);
        }
        let due = self.copies.as_mut().filter(|copies| copies.front().is_some_and(|(at, _)| *at <= now));
        if let Some((_, at)) = due.and_then(VecDeque::pop_front) {
            let expected = self.peer.expected;
            let answer = self.peer.take(at, true);
            self.by_copy += self.peer.expected - expected;
            self.answer(now, answer.filter(|answer| matches!(answer, Answer::Ack { .. })));
        }
        if self.back.front().is_some_and(|(at, _)| *at <= now) {
            match self.back.pop_front().unwrap().1 {
                Answer::Ack { psn, code } if psn >= self.oldest => self.tell(psn + 1, Some(code)),
                Answer::Ack { .. } => (),
                Answer::NotReady { psn } => {
                    self.tell(psn.max(self.oldest), None);
                    self.refused += 1;
                    self.bench.sources[RESTART].push_values(&[("qp", 0), ("hold", 1)]);
                }
            }
        }
    }

    fn packet(&mut self, candidate: &Item, now: u64) {
        let of = |name: &str| candidate[&*format!("packet_{name}")].to_u64();
        if of("start") == 1 {
            return;
        }
        let at = (of("psn") as u32).wrapping_sub(START) & 0xff_ffff;
        let (index, place) = self.peer.place(at);
        let what = format!("seed {}: packet {place} of message {index}", self.bench.random.seed);
        assert_eq!((of("index") as usize, of("status")), (index, 0), "{what}");
        self.packets += 1;
        let message = self.peer.messages[index];
        let ack_req = of("ack_req") == 1;
        let due = message.takes_receive() && place == message.needs() && at == self.peer.expected;
        let answer = self.peer.take(at, ack_req);
        let limit = *self.limits.iter().max().expect("that of now");
        if message.takes_receive() && index >= limit {
            // Beyond what the peer has receives for: the oldest alone, and of it one packet that asks, unless a copy of it was acknowledged.
            let answered = self.copies.is_some() && at < self.oldest;
            assert!(place > 0 || (ack_req && self.oldest == at) || answered, "{what}: limit {limit}");
            assert!(place == 0 || self.oldest > self.peer.firsts[index], "{what}: not asked");
        } else if due && limit != usize::MAX {
            let ready = !matches!(answer, Some(Answer::NotReady { .. }));
            assert!(ready, "{what}: it had a credit");
        }
        let refused = matches!(answer, Some(Answer::NotReady { .. }));
        self.answer(now, answer);
        // Nothing else of the queue pair is under way when it comes.
        if let Some(copies) = self.copies.as_mut().filter(|_| refused && index >= limit && ack_req) {
            copies.push_back((now + self.bench.random.rng.random_range(10..90), at));
        }
    }

    fn answer(&mut self, now: u64, answer: Option<Answer>) {
        let delay = self.bench.random.rng.random_range(3..40);
        let before = self.back.back().map_or(0, |(at, _)| *at);
        self.back.extend(answer.map(|answer| (before.max(now + delay), answer)));
    }

    /// Receives come, at most so many at once, with a chance in each cycle.
    fn run(&mut self, most: u32, chance: f64) {
        let total: u32 = self.peer.messages.iter().map(|m| m.packets).sum();
        for _ in 0..400_000 {
            if self.bench.random.chance(chance) {
                self.peer.free += self.bench.random.rng.random_range(1..=most);
            }
            self.step();
            if self.oldest == total {
                return;
            }
        }
        panic!("seed {}: it stands at packet {} of {total}", self.bench.random.seed, self.oldest);
    }
}

fn messages(seed: u64, count: usize) -> Vec<Message> {
    let mut random = Random::new(seed);
    (0..count)
        .map(|_| Message {
            opcode: SENDS[random.rng.random_range(0..SENDS.len())],
            packets: if random.chance(0.6) { 1 } else { random.rng.random_range(2..6) },
        })
        .collect()
}

#[test]
fn messages_without_a_receive_wait_and_one_packet_asks() {
    let (mut refused, mut parkings) = (0, 0);
    for (beat_bytes, seed) in [(8, 1), (64, 2), (64, 3), (64, 4)] {
        // Up to three at once are told as they are: with more, the code may be less.
        for (most, chance) in [(1, 0.01), (3, 0.02), (20, 0.02), (3, 0.5)] {
            for pauses in [false, true] {
                let mut link = Link::new(seed, beat_bytes, messages(seed, 120), true);
                link.pauses = pauses;
                link.run(most, chance);
                (refused, parkings) = (refused + link.refused, parkings + link.parkings);
            }
        }
    }
    assert!(refused > 20 && parkings > 100, "{refused} refused, {parkings} parkings");
}

/// A late copy of the packet that asked takes the receive that comes during the pause. The acknowledgement of the copy may come just before the packet is
/// sent again. The peer then acknowledges that packet as a duplicate, and the completer drops this acknowledgement as a ghost.
#[test]
fn a_question_that_a_late_copy_has_answered_is_not_asked_again() {
    let mut by_copy = 0;
    for seed in 1..=4 {
        for beat_bytes in [8, 64] {
            let mut link = Link::new(seed, beat_bytes, messages(seed, 120), true);
            link.copies = Some(VecDeque::new());
            link.run(1, 0.01);
            by_copy += link.by_copy;
        }
    }
    assert!(by_copy > 50, "{by_copy} by a copy");
}

#[test]
fn a_peer_that_tells_nothing_is_sent_all_at_once() {
    let sends = vec![Message { opcode: SendOpcode::Send, packets: 1 }; 20];
    let mut link = Link::new(5, 64, sends, false);
    link.peer.free = 20;
    link.run(1, 0.0);
    assert_eq!((link.packets, link.parkings, link.refused), (20, 0, 0));
}

#[test]
fn what_is_sent_again_to_a_peer_without_receives_is_one_packet() {
    let sends = vec![Message { opcode: SendOpcode::Send, packets: 3 }; 12];
    let mut link = Link::new(6, 64, sends, true);
    link.peer.free = 4;
    (0..2000).for_each(|_| link.step());
    let (packets, refused) = (link.packets, link.refused);
    (0..4000).for_each(|_| link.step());
    // Nothing was known when the first were sent; now it is the fifth message's first packet alone.
    assert_eq!((link.limit, link.oldest), (4, 12));
    let (packets, refused) = (link.packets - packets, link.refused - refused);
    assert!(refused > 20 && packets.abs_diff(refused) < 2, "{packets} packets, {refused} refused");
    link.peer.free = 100;
    link.run(1, 0.0);
}
