// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two cards with traffic that never ends, and a watch over what they do to host memory.

use std::collections::BTreeMap;

use ferrowire::{
    AccessFlags, Completion, HostMemory, MemoryRegion, QpInitAttr, QueuePair, RecvWr, SendWr, WcStatus,
    WorkKind,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::host::AccessKind;
use ferrowire_sim::pair::{Connection, Node, Pair, PairOptions};
use ferrowire_sim::shared_cq::SharedCq;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

pub const CONFIGS: [&str; 2] = ["generic-8b", "generic-64b"];

/// Cycles for what a test waits for.
const LIMIT: u64 = 300_000;

/// Cycles from one look at the completions to the next.
const STEP: u64 = 64;

/// Messages of a queue pair that are under way at once, and the places that they have.
const WINDOW: u64 = 6;
const SLOTS: u64 = 8;
const SLOT: usize = 2048;

/// Bytes of each third message: a WRITE, a SEND, a READ.
const SIZES: [usize; 3] = [1500, 40, 700];

/// A queue pair that is never to be disturbed. It sends from memory of card `card` to the other's.
struct Flow {
    card: usize,
    qp: QueuePair,
    peer: QueuePair,
    here: MemoryRegion,
    there: MemoryRegion,
    posted: u64,
    done: u64,
    received: u64,
}

/// The bytes of a message.
fn text(qpn: u32, n: u64) -> Vec<u8> {
    let mut data = vec![0; SIZES[n as usize % 3]];
    SmallRng::seed_from_u64(u64::from(qpn) << 32 | n).fill_bytes(&mut data);
    data
}

impl Flow {
    fn place(n: u64) -> usize {
        (n % SLOTS) as usize * SLOT
    }

    fn post(&mut self) {
        // A place is used again when its message was looked at, at both ends.
        while self.posted < self.done.min(3 * self.received + 1) + WINDOW {
            let n = self.posted;
            let (at, data) = (Self::place(n), text(self.qp.number(), n));
            let (sges, remote) = ([self.here.sge(at, data.len() as u32)], self.there.remote(at));
            let source = if n % 3 == 2 { &self.there } else { &self.here };
            source.memory().write(at, &data);
            if n % 3 == 1 {
                let into = [self.there.sge(at, SLOT as u32)];
                self.peer.start_post_recv().post(&RecvWr::new(n, &into)).unwrap();
            }
            let wr = match n % 3 {
                0 => SendWr::write(n, &sges, remote),
                1 => SendWr::send(n, &sges),
                _ => SendWr::read(n, &sges, remote),
            };
            self.qp.start_post_send().post(&wr.signaled()).unwrap();
            self.posted += 1;
        }
    }

    fn took(&mut self, done: &Completion) {
        let n = match done.kind() {
            WorkKind::Send => self.done,
            WorkKind::Receive => 3 * self.received + 1,
        };
        assert!(done.is_success() && done.wr_id() == n, "message {n} of another queue pair: {done:?}");
        let (at, data) = (Self::place(n), text(self.qp.number(), n));
        let target = if n % 3 == 2 { &self.here } else { &self.there };
        let mut got = vec![0; data.len()];
        target.memory().read(at, &mut got);
        assert!(got == data, "message {n} of another queue pair has other bytes");
        match done.kind() {
            WorkKind::Send => self.done += 1,
            WorkKind::Receive => self.received += 1,
        }
    }
}

/// Runs of bus addresses that a card may write, by their first, or that it may not read.
#[derive(Default)]
struct Runs(BTreeMap<u64, u64>);

impl Runs {
    fn holds(&self, address: u64, bytes: u64) -> bool {
        let run = self.0.range(..=address).next_back();
        run.is_some_and(|(first, length)| address + bytes <= first + length)
    }

    fn touches(&self, address: u64, bytes: u64) -> bool {
        let run = self.0.range(..address + bytes).next_back();
        run.is_some_and(|(first, length)| first + length > address)
    }
}

pub struct Rig {
    pub pair: Pair,
    /// Of each card, one beside the node's own.
    pub other: [SharedCq; 2],
    flows: Vec<Flow>,
    /// By card.
    writable: [Runs; 2],
    secret: [Runs; 2],
    /// Completions of those that are looked at, by card.
    pub ends: [Vec<Completion>; 2],
}

pub fn all() -> AccessFlags {
    AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE
}

pub fn connection() -> Connection {
    Connection {
        access: AccessFlags::REMOTE,
        rd_atomic: 4,
        recv_wr: 16,
        min_rnr_timer: 1,
        ..Connection::default()
    }
}

/// Whether so many bytes from an address on are all of a region.
pub fn inside(region: &MemoryRegion, address: u64, bytes: u64) -> bool {
    let at = address.wrapping_sub(region.address());
    at <= region.len() as u64 && bytes <= region.len() as u64 - at
}

impl Rig {
    pub fn new(config: &str) -> Rig {
        let model = CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap();
        let pair = Pair::new(&model, &PairOptions { host_latency: 40, ..PairOptions::default() }).unwrap();
        let other = [&pair.a, &pair.b].map(|node| SharedCq::from(node.context.create_cq(1024).unwrap()));
        let mut rig = Rig {
            pair,
            other,
            flows: Vec::new(),
            writable: Default::default(),
            secret: Default::default(),
            ends: Default::default(),
        };
        // So far there are only queues that the cards write.
        for card in 0..2 {
            let world = rig.pair.world.lock();
            let map = world.card(card).host().map();
            rig.writable[card].0.extend(map.iter().map(|(iova, memory)| (iova, memory.len() as u64)));
        }
        for (card, other) in [(0, false), (0, true), (1, false), (1, true)] {
            rig.flow(card, other);
        }
        for card in 0..2 {
            rig.pair.world.lock().card_mut(card).host_mut().keep_accesses(true);
        }
        rig
    }

    pub fn node(&self, card: usize) -> &Node {
        [&self.pair.a, &self.pair.b][card]
    }

    fn flow(&mut self, card: usize, other: bool) {
        let make = |card: usize| {
            let node = self.node(card);
            let cq = if other { &self.other[card] } else { &node.cq };
            node.pd.create_qp(&QpInitAttr::rc(cq, cq)).unwrap()
        };
        let (a, b) = self.pair.bring_up(make(0), make(1), &connection()).unwrap();
        let (qp, peer) = if card == 0 { (a, b) } else { (b, a) };
        let region = |card| self.node(card).region(0, SLOTS as usize * SLOT, all()).unwrap();
        let (here, there) = (region(card), region(1 - card));
        self.lets_write(card, here.memory());
        self.lets_write(1 - card, there.memory());
        self.flows.push(Flow { card, qp, peer, here, there, posted: 0, done: 0, received: 0 });
    }

    /// Bus addresses of a memory, page by page.
    fn runs(&self, card: usize, memory: &HostMemory) -> Vec<(u64, u64)> {
        let world = self.pair.world.lock();
        let host = world.card(card).host();
        let (first, end) = (memory.address(), memory.address() + memory.len() as u64);
        let starts =
            std::iter::once(first).chain((first / 4096 + 1..end.div_ceil(4096)).map(|page| page * 4096));
        let run = |at: u64| (host.bus_address(at).unwrap(), (end - at).min(4096 - at % 4096));
        starts.map(run).collect()
    }

    /// The card may write to this registered memory.
    pub fn lets_write(&mut self, card: usize, memory: &HostMemory) {
        let runs = self.runs(card, memory);
        self.writable[card].0.extend(runs);
    }

    /// The card may not even read it.
    pub fn hides(&mut self, card: usize, memory: &HostMemory) {
        let runs = self.runs(card, memory);
        self.secret[card].0.extend(runs);
    }

    /// What is made, and the memory that it was given, in the order in which that was asked for.
    pub fn rings_of<T>(&self, card: usize, make: impl FnOnce() -> T) -> (T, Vec<HostMemory>) {
        let last = |rig: &Rig| {
            let world = rig.pair.world.lock();
            let last = world.card(card).host().map().iter().last().map(|(iova, _)| iova);
            last
        };
        let before = last(self);
        let made = make();
        let world = self.pair.world.lock();
        let all = world.card(card).host().map().iter();
        let rings = all.filter(|(iova, _)| Some(*iova) > before).map(|(_, memory)| memory.clone()).collect();
        (made, rings)
    }

    /// Some cycles of everything.
    pub fn step(&mut self) {
        self.flows.iter_mut().for_each(Flow::post);
        self.pair.world.lock().run(STEP);
        let mut some = [Completion::default(); 64];
        for card in 0..2 {
            for other in [false, true] {
                let cq = if other { &self.other[card] } else { &self.node(card).cq };
                let n = cq.poll(&mut some).unwrap();
                for done in &some[..n] {
                    let mine = |flow: &&mut Flow| {
                        let (here, there) = (flow.qp.number(), flow.peer.number());
                        done.qpn() == if card == flow.card { here } else { there }
                    };
                    match self.flows.iter_mut().find(mine) {
                        Some(flow) => flow.took(done),
                        None => self.ends[card].push(*done),
                    }
                }
            }
        }
        self.watch();
    }

    /// Nothing was read or written that nobody may name.
    fn watch(&mut self) {
        for card in 0..2 {
            let mut world = self.pair.world.lock();
            world.check().unwrap();
            let host = world.card_mut(card).host_mut();
            let stats = host.stats();
            assert_eq!((stats.reads_refused, stats.writes_refused), (0, 0), "card {card} left its memory");
            for access in host.take_accesses() {
                match access.kind {
                    AccessKind::Write(data) => {
                        let may = self.writable[card].holds(access.address, data.len() as u64);
                        assert!(may, "card {card} wrote {} bytes at {:#x}", data.len(), access.address);
                    }
                    AccessKind::Read(bytes) => {
                        let may = !self.secret[card].touches(access.address, bytes);
                        assert!(may, "card {card} read {bytes} bytes at {:#x}", access.address);
                    }
                }
            }
        }
    }

    /// Until so many completions of those that are looked at have come: those of a card.
    #[track_caller]
    pub fn ends(&mut self, card: usize, count: usize) -> Vec<Completion> {
        let limit = self.pair.world.lock().cycle() + LIMIT;
        while self.ends[card].len() < count {
            self.step();
            let late = self.pair.world.lock().cycle() > limit;
            assert!(!late, "{:?} of {count}{}", self.ends[card], self.pair.diagnose());
        }
        std::mem::take(&mut self.ends[card])
    }

    /// All others have come further, and are as they were.
    #[track_caller]
    pub fn others_go_on(&mut self) {
        let before: Vec<u64> = self.flows.iter().map(|flow| flow.done).collect();
        let limit = self.pair.world.lock().cycle() + LIMIT;
        while self.flows.iter().zip(&before).any(|(flow, before)| flow.done < before + 3) {
            self.step();
            assert!(self.pair.world.lock().cycle() < limit, "another stands still{}", self.pair.diagnose());
        }
    }

    /// Messages of others so far.
    pub fn others(&self) -> u64 {
        self.flows.iter().map(|flow| flow.done).sum()
    }
}

/// What a completion says, but for its queue pair.
pub fn said(done: &Completion) -> (u64, WcStatus, u8) {
    (done.wr_id(), done.status().known().unwrap(), done.syndrome())
}

/// One of some values.
pub fn any<T: Copy>(rng: &mut SmallRng, values: &[T]) -> T {
    values[rng.random_range(0..values.len())]
}
