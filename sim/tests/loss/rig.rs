// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two cards with a region each, a wire whose frames the test decides about, and what was on that wire.

use std::collections::HashMap;

use ferrowire::{
    AccessFlags, Coded, Completion, HwCounter, MemoryRegion, PathMtu, QpState, QueuePair, SendWr, WcStatus,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::pair::{bytes, Connection, Node, Pair, PairOptions};
use ferrowire_sim::wire::{Delivery, Link, SentFrame};
use ferrowire_spec::wire::frame::Frame;
use ferrowire_spec::wire::opcode::Opcode;
use ferrowire_spec::wire::Reth;
use ferrowire_spec::Psn;
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

pub const CONFIGS: [&str; 2] = ["generic-8b", "generic-64b"];

/// Cycles for what a test waits for.
pub const LIMIT: u64 = 400_000;

/// Bytes of each region.
pub const ROOM: usize = 40 * 1024;

/// Bytes a packet.
pub const MTU: usize = 256;

/// From `FERROWIRE_SEED`, else `seed`; printed, for the output of a test that fails.
pub fn seed(seed: u64) -> u64 {
    let seed = std::env::var("FERROWIRE_SEED").map_or(seed, |text| text.parse().expect("a number"));
    println!("seed {seed}: FERROWIRE_SEED={seed} repeats this run");
    seed
}

/// Of time-outs: unit in cycles, and code.
#[derive(Clone, Copy)]
pub struct Timer {
    pub tick: u32,
    pub code: u8,
}

impl Timer {
    /// 1,024 to 4,096 cycles: over the way of a few small packets and back.
    pub const SHORT: Timer = Timer { tick: 16, code: 6 };
    /// Longer than anything that a test does meanwhile: 65,536 cycles and more.
    pub const LONG: Timer = Timer { tick: 64, code: 10 };

    /// Shortest time-out in cycles.
    pub fn least(self) -> u64 {
        u64::from(self.tick) << self.code
    }

    /// Longest time-out in cycles (IBTA 9.7.6.1.3).
    pub fn most(self) -> u64 {
        4 * self.least()
    }
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    Lose,
    /// So many cycles late.
    Late(u64),
    /// Behind so many later ones, or 1,000 cycles late.
    Behind(u32),
    /// At once, and so many cycles later again.
    Again(u64),
}

/// A frame that a card sent.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Cycle of its first beat.
    pub cycle: u64,
    pub qpn: u32,
    pub psn: u32,
    pub opcode: Opcode,
    pub syndrome: Option<u8>,
    pub reth: Option<Reth>,
    pub payload: Vec<u8>,
}

/// The frames that cards sent, without injected ones.
pub fn packets(frames: &[SentFrame]) -> Vec<Packet> {
    let sent = frames.iter().filter(|frame| frame.note.as_deref() != Some("injected"));
    sent.map(|sent| {
        let frame = Frame::parse(&sent.bytes).expect("a card sends sound frames");
        Packet {
            cycle: sent.first,
            qpn: frame.bth.destqp,
            psn: frame.bth.psn,
            opcode: frame.opcode().unwrap(),
            syndrome: frame.ext.aeth.map(|aeth| aeth.syndrome),
            reth: frame.ext.reth,
            payload: frame.payload.to_vec(),
        }
    })
    .collect()
}

/// When a packet was sent, each time.
pub fn transmissions(packets: &[Packet], qpn: u32, psn: u32) -> Vec<u64> {
    packets.iter().filter(|p| (p.qpn, p.psn) == (qpn, psn)).map(|p| p.cycle).collect()
}

/// Packets sent again. Each of them must be what it was the first time (IBTA 9.7.5.1: opcodes and data do not change). Other
/// data may be what the program put into the buffer after the completion gave it back.
#[track_caller]
pub fn sent_again(packets: &[Packet], what: &str) -> usize {
    let mut first = HashMap::new();
    for packet in packets {
        let is = (packet.opcode, packet.reth, &packet.payload);
        let was = *first.entry((packet.qpn, packet.psn)).or_insert(is);
        let heads = ((was.0, was.1, was.2.len()), (is.0, is.1, is.2.len()));
        assert_eq!(heads.0, heads.1, "{what}: PSN {:#x} at {}", packet.psn, packet.cycle);
        assert!(was == is, "{what}: PSN {:#x} at {} carries other data", packet.psn, packet.cycle);
    }
    packets.len() - first.len()
}

/// A WRITE of a test: id, offsets in both regions, bytes, signalled.
#[derive(Clone, Copy, Debug)]
pub struct Wr(pub u64, pub usize, pub usize, pub usize, pub bool);

pub fn model(config: &str) -> CardModel {
    CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap()
}

pub fn source(node: &Node, bytes: usize) -> MemoryRegion {
    node.region(0, bytes, AccessFlags::LOCAL_READ).unwrap()
}

pub fn target(node: &Node, bytes: usize) -> MemoryRegion {
    node.region(0, bytes, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap()
}

/// Two cards, a source on the first, a target on the second, both full of random bytes.
pub struct Rig {
    pub pair: Pair,
    pub from: MemoryRegion,
    pub to: MemoryRegion,
    /// What is in the source.
    pub data: Vec<u8>,
    /// What must be in the target when all that was posted has arrived.
    pub expected: Vec<u8>,
    pub what: String,
}

impl Rig {
    pub fn new(config: &str, timer: Timer) -> Self {
        Self::over(Pair::new(&model(config), &PairOptions::default()).unwrap(), timer, config)
    }

    /// Of two cards that are there.
    pub fn over(pair: Pair, timer: Timer, what: &str) -> Self {
        pair.a.context.set_timer_tick(timer.tick).unwrap();
        pair.b.context.set_timer_tick(timer.tick).unwrap();
        let (from, to) = (source(&pair.a, ROOM), target(&pair.b, ROOM));
        let (mut data, mut expected) = (vec![0; ROOM], vec![0; ROOM]);
        let mut rng = SmallRng::seed_from_u64(77);
        rng.fill_bytes(&mut data);
        rng.fill_bytes(&mut expected);
        from.memory().write(0, &data);
        to.memory().write(0, &expected);
        Self { pair, from, to, data, expected, what: what.into() }
    }

    /// A connection of packets of 256 bytes whose PSNs begin at `psn`, and how it waits and tries again.
    pub fn connect(&self, psn: u32, timer: Timer, retry_cnt: u8) -> (QueuePair, QueuePair) {
        self.pair.connect(&connection(psn, timer, retry_cnt)).unwrap()
    }

    /// Posts a batch and rings; all of it is expected to arrive.
    pub fn post(&mut self, qp: &mut QueuePair, wrs: &[Wr]) {
        self.post_in_vain(qp, wrs);
        for Wr(_, at, there, bytes, _) in wrs {
            self.expected[*there..there + bytes].copy_from_slice(&self.data[*at..at + bytes]);
        }
    }

    /// Posts a batch and rings.
    pub fn post_in_vain(&self, qp: &mut QueuePair, wrs: &[Wr]) {
        let mut batch = qp.start_post_send();
        for Wr(id, at, there, bytes, signaled) in wrs {
            let sges = [self.from.sge(*at, *bytes as u32)];
            let wr = SendWr::write(*id, &sges, self.to.remote(*there));
            batch.post(&if *signaled { wr.signaled() } else { wr }).unwrap();
        }
        batch.ring().unwrap();
    }

    #[track_caller]
    pub fn wait(&self, count: usize) -> Vec<Completion> {
        match self.pair.a.wait(&self.pair.world, count, LIMIT) {
            Ok(done) => done,
            Err(error) => panic!("{}: {error}{}", self.what, self.pair.diagnose()),
        }
    }

    /// Waits for as many completions as there are ids, which must be these and successful.
    #[track_caller]
    pub fn wait_well(&self, ids: &[u64]) {
        let done = ends(&self.wait(ids.len()));
        let well: Vec<_> = ids.iter().map(|id| (*id, Some(WcStatus::Success))).collect();
        assert_eq!(done, well, "{}{}", self.what, self.pair.diagnose());
    }

    /// Runs until nothing is on its way, and `cycles` more: no completion may come.
    #[track_caller]
    pub fn rest(&self, cycles: u64) {
        let mut world = self.pair.world.lock();
        let calm = world.run_until(LIMIT, |world| (0..2).all(|link| world.link(link).idle()));
        assert!(calm, "{}: frames for ever", self.what);
        world.run(cycles);
        world.check().unwrap();
        drop(world);
        for node in [&self.pair.a, &self.pair.b] {
            let mut more = [Completion::default(); 4];
            let n = node.cq.poll(&mut more).unwrap();
            assert_eq!(&more[..n], &[], "{}: completions that nobody waits for", self.what);
        }
    }

    /// Every byte of both memories, and that no host had to refuse an access.
    #[track_caller]
    pub fn check_memory(&self) {
        let place = |got: Vec<u8>, expected: &[u8]| got.iter().zip(expected).position(|(g, e)| g != e);
        let what = &self.what;
        assert_eq!(place(bytes(self.to.memory()), &self.expected), None, "{what}: byte of the target");
        assert_eq!(place(bytes(self.from.memory()), &self.data), None, "{what}: byte of the source");
        nothing_refused(&self.pair, what);
    }

    /// A counter of a card.
    pub fn counter(&self, card: usize, counter: HwCounter) -> u64 {
        let node = if card == 0 { &self.pair.a } else { &self.pair.b };
        node.context.hw_counter(counter).unwrap()
    }

    /// Sequence NAKs, time-outs, packets sent again: of the sender.
    pub fn counters(&self) -> [u64; 3] {
        [HwCounter::PacketSeqErr, HwCounter::LocalAckTimeoutErr, HwCounter::Retransmitted]
            .map(|counter| self.counter(0, counter))
    }

    fn link<T>(&self, link: usize, f: impl FnOnce(&mut Link) -> T) -> T {
        let mut world = self.pair.world.lock();
        let link = world.link_mut(link);
        assert!(link.started().is_none(), "{}: a filter must not cut a frame", self.what);
        f(link)
    }

    /// `fate` decides about every frame of a link from now on; its number says how often the same packet came before.
    pub fn fates(&self, link: usize, mut fate: impl FnMut(&Frame<'_>, usize) -> Fate + Send + 'static) {
        let mut seen: HashMap<(u32, u32, u8, Option<u8>), usize> = HashMap::new();
        let filter = move |bytes: &[u8]| {
            let frame = Frame::parse(bytes).expect("a card sends sound frames");
            let (bth, syndrome) = (frame.bth, frame.ext.aeth.map(|aeth| aeth.syndrome));
            let before = seen.entry((bth.destqp, bth.psn, bth.opcode, syndrome)).or_insert(0);
            *before += 1;
            let prompt = Delivery::at_once(bytes.to_vec());
            match fate(&frame, *before - 1) {
                Fate::Pass => vec![prompt],
                Fate::Lose => vec![],
                Fate::Late(delay) => vec![Delivery { delay, ..prompt }],
                Fate::Behind(behind) => vec![Delivery { behind, delay: 1000, ..prompt }],
                Fate::Again(delay) => vec![prompt.clone(), Delivery { delay, ..prompt }],
            }
        };
        self.link(link, |link| link.set_timed_filter(Some(Box::new(filter))));
    }

    /// Keeps the frames of a link from now on.
    pub fn keep(&self, link: usize) {
        self.link(link, |link| {
            link.keep_frames(true);
            link.take_frames();
        });
    }

    /// What a link carried since [`keep`](Self::keep) or the last time.
    pub fn taken(&self, link: usize) -> Vec<Packet> {
        packets(&self.pair.world.lock().link_mut(link).take_frames())
    }

    pub fn run(&self, cycles: u64) {
        self.pair.world.lock().run(cycles);
    }

    /// The queue pair of card 0 and its peer run, as the cards say.
    #[track_caller]
    pub fn check_running(&self, qps: [&QueuePair; 2]) {
        for qp in qps {
            assert_eq!(qp.query().unwrap().state, Coded::Known(QpState::Rts), "{}", self.what);
        }
    }
}

pub fn connection(psn: u32, timer: Timer, retry_cnt: u8) -> Connection {
    Connection {
        mtu: PathMtu::B256,
        psns: Some((psn, Psn::new(psn ^ 0x55_5555).get())),
        timeout: timer.code,
        retry_cnt,
        ..Connection::default()
    }
}

#[track_caller]
pub fn nothing_refused(pair: &Pair, what: &str) {
    for card in 0..2 {
        let stats = pair.world.lock().card(card).host().stats();
        assert_eq!((stats.reads_refused, stats.writes_refused), (0, 0), "{what}: host {card}");
    }
}

/// How requests ended.
pub fn ends(done: &[Completion]) -> Vec<(u64, Option<WcStatus>)> {
    done.iter().map(|c| (c.wr_id(), c.status().known())).collect()
}

/// How those of one queue pair ended.
pub fn ends_of(done: &[Completion], qpn: u32) -> Vec<(u64, Option<WcStatus>)> {
    done.iter().filter(|c| c.qpn() == qpn).map(|c| (c.wr_id(), c.status().known())).collect()
}
