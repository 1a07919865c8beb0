// SPDX-License-Identifier: MIT OR Apache-2.0
//! WQEs that are pushed into the doorbell page: what is sent is right whatever becomes of them, and where the card has one it reads none.
//! Two Verilated cards, each with its driver; `FERROWIRE_SEED` replaces the seed of random tests.

use crate::tier::chosen;
use std::sync::{Arc, Mutex};

use ferrowire::{
    AccessFlags, Bus, BusError, Completion, DmaBuffer, DmaMapping, MemoryRegion, Payload, QpAttributes,
    QpState, QueuePair, RecvWr, SendWr, Service, TrafficCounter, WcStatus,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::bus::{SimBus, World};
use ferrowire_sim::card::CardModel;
use ferrowire_sim::host::AccessKind;
use ferrowire_sim::measure;
use ferrowire_sim::pair::{bytes, post, Connection, Pair, PairOptions};
use ferrowire_spec::queue::doorbell::{self, sq::SqDoorbell};
use ferrowire_spec::queue::WQE_UNIT;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Cycles for what a test waits for.
const LIMIT: u64 = 400_000;

/// Bytes of each region, within a page.
const ROOM: usize = 2048;

/// Bytes of a message whose read is not taken for that of a WQE, nor crosses a boundary at which reads are cut.
const LEN: usize = 40;

fn rng(seed: u64) -> SmallRng {
    let seed = std::env::var("FERROWIRE_SEED").map_or(seed, |text| text.parse().expect("a number"));
    println!("seed {seed}: FERROWIRE_SEED={seed} repeats this run");
    SmallRng::seed_from_u64(seed)
}

fn model(config: &str) -> CardModel {
    let named = RnicConfig::named(config).unwrap();
    // Those of PCIe have slots.
    let push_slots = if named.has_pcie() { named.push_slots } else { 4 };
    assert_ne!(push_slots, 0, "{config}");
    CardModel::rnic(&RnicConfig { push_slots, ..named }, false).unwrap()
}

fn connection() -> Connection {
    let (inline, push) = (16, true);
    Connection { inline, push, signal_all: true, min_rnr_timer: 1, ..Connection::default() }
}

/// Two cards with a region each, of random bytes and of zeros.
struct Rig {
    pair: Pair,
    from: MemoryRegion,
    to: MemoryRegion,
    data: Vec<u8>,
}

impl Rig {
    fn of(pair: Pair, rng: &mut SmallRng) -> Self {
        [&pair.a, &pair.b].iter().for_each(|node| node.context.set_timer_tick(64).unwrap());
        let from = pair.a.region(0, ROOM, AccessFlags::LOCAL_READ).unwrap();
        let to = pair.b.region(0, ROOM, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
        let mut data = vec![0; ROOM];
        rng.fill(&mut data[..]);
        from.memory().write(0, &data);
        Self { pair, from, to, data }
    }

    fn new(config: &str, rng: &mut SmallRng) -> Self {
        Self::of(Pair::new(&model(config), &PairOptions::default()).unwrap(), rng)
    }

    /// What card 0 reads from now on is counted.
    fn count(&self) {
        let mut world = self.pair.world.lock();
        world.card_mut(0).host_mut().keep_accesses(true);
        world.card_mut(0).host_mut().take_accesses();
    }

    /// Reads since then: of WQEs, and others.
    fn reads(&self) -> (usize, usize) {
        let accesses = self.pair.world.lock().card_mut(0).host_mut().take_accesses();
        let reads = accesses.iter().filter_map(|access| match access.kind {
            AccessKind::Read(bytes) => Some(bytes),
            AccessKind::Write(_) => None,
        });
        let (wqes, others): (Vec<u64>, Vec<u64>) = reads.partition(|bytes| *bytes >= WQE_UNIT as u64);
        (wqes.len(), others.len())
    }

    #[track_caller]
    fn wait(&self, count: usize) -> Vec<Completion> {
        match self.pair.a.wait(&self.pair.world, count, LIMIT) {
            Ok(done) => done,
            Err(error) => panic!("{error}{}", self.pair.diagnose()),
        }
    }

    /// The completions of `count` requests, all of which went well.
    #[track_caller]
    fn well(&self, count: usize) {
        let done = self.wait(count);
        assert!(done.iter().all(Completion::is_success), "{done:?}");
    }

    /// A WRITE of bytes of the region from `at` on to the same place, and its bytes if they go inline.
    fn write(&self, at: usize, inline: bool, len: usize) -> (Vec<u8>, [ferrowire::Sge; 1]) {
        let data = if inline { self.data[at..at + len].to_vec() } else { Vec::new() };
        (data, [self.from.sge(at, len as u32)])
    }

    /// Posts it alone.
    fn send(&self, qp: &mut QueuePair, id: u64, at: usize, inline: bool, len: usize) {
        let (data, sges) = self.write(at, inline, len);
        let payload = if inline { Payload::Inline(&data) } else { Payload::Sges(&sges) };
        post(qp, &[SendWr::write(id, payload, self.to.remote(at))]);
    }

    #[track_caller]
    fn arrived(&self, at: usize, len: usize) {
        assert_eq!(bytes(self.to.memory())[at..at + len], self.data[at..at + len], "at {at}");
        self.to.memory().fill(at, len, 0);
    }
}

/// A place for a message, and its bytes.
fn place(rng: &mut SmallRng) -> (usize, bool, usize) {
    let inline = rng.random_bool(0.4);
    let len = if inline { rng.random_range(1..=16) } else { rng.random_range(1..=LEN) };
    (rng.random_range(0..ROOM / 64) * 64, inline, len)
}

#[test]
fn requests_that_are_pushed_are_carried_out_and_their_wqes_are_not_read() {
    for (config, seed) in chosen!([("pcie-8b", 1), ("pcie-64b", 2), ("axi-8b", 3)]) {
        let mut rng = rng(seed);
        let rig = Rig::new(config, &mut rng);
        for service in [Service::Rc, Service::Uc] {
            for push in [true, false] {
                let connection = Connection { service, push, ..connection() };
                let (mut qp, mut peer) = rig.pair.connect(&connection).unwrap();
                for id in 0..60 {
                    let (at, inline, len) = place(&mut rng);
                    let sends = rng.random_bool(0.5);
                    rig.count();
                    if sends {
                        let mut batch = peer.start_post_recv();
                        batch.post(&RecvWr::new(id, &[rig.to.sge(at, len as u32)])).unwrap();
                        batch.ring().unwrap();
                        let (data, sges) = rig.write(at, inline, len);
                        let payload = if inline { Payload::Inline(&data) } else { Payload::Sges(&sges) };
                        post(&mut qp, &[SendWr::send(id, payload)]);
                        let done = rig.pair.b.wait(&rig.pair.world, 1, LIMIT).unwrap();
                        assert_eq!(
                            (done[0].status().known(), done[0].byte_len()),
                            (Some(WcStatus::Success), len as u32)
                        );
                    } else {
                        rig.send(&mut qp, id, at, inline, len);
                    }
                    rig.well(1);
                    // Those of UC are complete when they have been sent.
                    rig.pair.world.lock().run(if service == Service::Uc { 2000 } else { 0 });
                    rig.arrived(at, len);
                    let expected = (usize::from(!push), usize::from(!inline));
                    assert_eq!(rig.reads(), expected, "{config}, {service}: {push}, message {id}");
                }
            }
        }
        let ignored = rig.pair.a.context.traffic_counter(TrafficCounter::DoorbellsIgnored).unwrap();
        assert_eq!(ignored, 0, "{config}");
    }
}

#[test]
fn a_push_saves_the_hosts_latency_before_the_first_beat() {
    const HOST: u64 = 250;
    for config in chosen!(["pcie-8b", "pcie-64b"]) {
        let model = model(config);
        for latency in [0, HOST] {
            let options = PairOptions { host_latency: latency, ..PairOptions::default() };
            let pair = Pair::new(&model, &options).unwrap();
            let way = |push| {
                let connection = Connection { push, ..Connection::default() };
                measure::way(&pair, 64, &connection).unwrap()
            };
            let (read, pushed) = (way(false), way(true));
            println!("{config}, host latency {latency}: read {read:?}, pushed {pushed:?}");
            assert!(pushed.wire + latency <= read.wire, "{config}: {read:?}, {pushed:?}");
            assert!(pushed.memory + latency <= read.memory, "{config}: {read:?}, {pushed:?}");
            // With the time that its words take on their way to the card.
            let saved = read.posted.saturating_sub(pushed.posted);
            assert!(latency == 0 || saved > latency / 2, "{config}: {read:?}, {pushed:?}");
        }
    }
}

/// What becomes of stores into the doorbell page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// All words in one write.
    Whole,
    /// Each in a write of its own.
    Words,
    /// They are held, and come mixed with those of the next that are held.
    Held,
    /// A word of somebody else's comes between them.
    Strayed,
    /// One of them is missing.
    Short,
    /// One of them comes as two halves, which the card ignores.
    Halved,
    /// The doorbell's is the place of somebody else.
    Elsewhere,
}

/// The driver's way to card 0, on which stores meet others'.
struct Busy {
    bus: SimBus,
    how: Arc<Mutex<How>>,
}

struct How {
    way: Way,
    held: Vec<Vec<(u32, u64)>>,
    rng: SmallRng,
}

impl Busy {
    /// Both sequences in their own order, mixed at random.
    fn release(
        how: &mut How,
        mut store: impl FnMut(u32, u64) -> Result<(), BusError>,
    ) -> Result<(), BusError> {
        let mut all: Vec<_> = how.held.drain(..).map(|held| held.into_iter().peekable()).collect();
        loop {
            all.retain_mut(|held| held.peek().is_some());
            if all.is_empty() {
                return Ok(());
            }
            let next = how.rng.random_range(0..all.len());
            if let Some((offset, value)) = all[next].next() {
                store(offset, value)?;
            }
        }
    }
}

impl Bus for Busy {
    fn csr_read32(&mut self, offset: u32) -> Result<u32, BusError> {
        self.bus.csr_read32(offset)
    }
    fn csr_write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        self.bus.csr_write32(offset, value)
    }
    fn doorbell(&mut self, offset: u32, value: u64) -> Result<(), BusError> {
        let mut how = self.how.lock().unwrap();
        let mut bell = SqDoorbell::parse(&value.to_le_bytes()).unwrap();
        if !bell.pushed {
            return self.bus.doorbell(offset, value);
        }
        match how.way {
            Way::Held => {
                how.held.last_mut().unwrap().push((offset, value));
                if how.held.len() == 1 {
                    return Ok(());
                }
                Self::release(&mut how, |offset, value| self.bus.doorbell(offset, value))
            }
            Way::Elsewhere => {
                bell.push_slot ^= 1;
                self.bus.doorbell(offset, u64::from_le_bytes(bell.to_bytes().unwrap()))
            }
            _ => self.bus.doorbell(offset, value),
        }
    }
    fn push(&mut self, offset: u32, words: &[u64; 8]) -> Result<(), BusError> {
        let mut how = self.how.lock().unwrap();
        let at = how.rng.random_range(0..8);
        if how.way == Way::Whole {
            return self.bus.push(offset, words);
        }
        let mut all: Vec<(u32, u64)> = (offset..).step_by(8).zip(words.iter().copied()).collect();
        match how.way {
            Way::Held => {
                how.held.push(all);
                return Ok(());
            }
            Way::Strayed => {
                // To a place of nobody, or to the same one of another page.
                let (places, page) =
                    [(2..4, 0), (0..3, doorbell::PAGE_BYTES)][how.rng.random_range(0..2)].clone();
                let place = 64 * how.rng.random_range(places) + 8 * how.rng.random_range(0..8);
                let stray = (offset & !(doorbell::PAGE_BYTES - 1)) + page + doorbell::PUSH + place;
                let word = how.rng.random();
                all.insert(1 + at % 8, (stray, word));
            }
            Way::Short => {
                all.remove(at);
            }
            Way::Halved => {
                let (offset, word) = all.remove(at);
                for (half, part) in [(0, word as u32), (4, (word >> 32) as u32)] {
                    self.bus.csr_write32(offset + half, part)?;
                }
            }
            _ => {}
        }
        all.into_iter().try_for_each(|(offset, word)| self.bus.doorbell(offset, word))
    }
    fn dma_alloc(&mut self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
        self.bus.dma_alloc(bytes, align)
    }
    fn dma_free(&mut self, buffer: DmaBuffer) -> Result<(), BusError> {
        self.bus.dma_free(buffer)
    }
    fn dma_map(&mut self, memory: &ferrowire::HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
        self.bus.dma_map(memory, page_shift)
    }
    fn dma_unmap(&mut self, mapping: DmaMapping) -> Result<(), BusError> {
        self.bus.dma_unmap(mapping)
    }
    fn needs_progress(&self) -> bool {
        true
    }
    fn progress(&mut self) -> Result<(), BusError> {
        self.bus.progress()
    }
    fn now(&self) -> std::time::Duration {
        self.bus.now()
    }
}

fn busy(config: &str, rng: &mut SmallRng) -> (Rig, Arc<Mutex<How>>) {
    let world = World::pair(&model(config), 0, 0).unwrap().share();
    let how = How { way: Way::Whole, held: Vec::new(), rng: SmallRng::seed_from_u64(rng.random()) };
    let how = Arc::new(Mutex::new(how));
    let bus = Busy { bus: world.bus(0), how: Arc::clone(&how) };
    let buses = (bus, world.bus(1));
    (Rig::of(Pair::over(world, buses, &PairOptions::default()).unwrap(), rng), how)
}

#[test]
fn words_that_meet_others_on_their_way_are_not_taken_for_a_wqe() {
    let mut rng = rng(11);
    let (rig, how) = busy("pcie-8b", &mut rng);
    let (mut qps, _peers): (Vec<_>, Vec<_>) =
        (0..2).map(|_| rig.pair.connect(&connection()).unwrap()).unzip();
    for round in 0..120 {
        let ways = [Way::Whole, Way::Words, Way::Held, Way::Strayed, Way::Short, Way::Halved, Way::Elsewhere];
        let way = ways[round % ways.len()];
        how.lock().unwrap().way = way;
        rig.count();
        let mut all: Vec<(usize, bool, usize)> = Vec::new();
        for qp in &mut qps {
            let next = loop {
                let next = place(&mut rng);
                if all.iter().all(|(at, ..)| *at != next.0) {
                    break next;
                }
            };
            rig.send(qp, round as u64, next.0, next.1, next.2);
            all.push(next);
            // Each alone, but for those that are to meet.
            if way != Way::Held {
                rig.well(1);
            }
        }
        if way == Way::Held {
            rig.well(2);
        }
        for (at, _, len) in all {
            rig.arrived(at, len);
        }
        let (wqes, _) = rig.reads();
        match way {
            Way::Whole | Way::Words => assert_eq!(wqes, 0, "round {round}, {way:?}"),
            // One may have come whole all the same.
            Way::Held => assert!(wqes <= 2, "round {round}, {way:?}"),
            // What stands behind the last word is somebody else's.
            _ => assert_eq!(wqes, 2, "round {round}, {way:?}"),
        }
    }
    let ignored = rig.pair.a.context.traffic_counter(TrafficCounter::DoorbellsIgnored).unwrap();
    assert_eq!(ignored, 120 / 7 * 2 * 2, "halves of words, and nothing else");
}

#[test]
fn what_was_pushed_in_a_former_life_is_not_sent_in_the_next() {
    let mut rng = rng(12);
    let (rig, how) = busy("pcie-8b", &mut rng);
    let connection = connection();
    let (mut qp, mut peer) = rig.pair.connect(&connection).unwrap();
    for life in 0..40 {
        how.lock().unwrap().way = Way::Whole;
        for id in 0..rng.random_range(0..3) {
            let (at, inline, len) = place(&mut rng);
            rig.send(&mut qp, id, at, inline, len);
            rig.well(1);
            rig.arrived(at, len);
        }
        // It is told of, and not sent: it stays in its slot.
        qp.modify(QpState::Sqd, &QpAttributes::default()).unwrap();
        let (at, inline, len) = place(&mut rng);
        rig.send(&mut qp, 100, at, inline, len);
        rig.pair.world.lock().run(rng.random_range(0..400));
        if rng.random_bool(0.5) {
            (qp, peer) = rig.pair.reconnect(qp, peer, &connection).unwrap();
        } else {
            // Numbers come round, and so may others that push.
            drop((qp, peer));
            (qp, peer) = rig.pair.connect(&connection).unwrap();
        }
        // The next life has the same indices. What the card is told of it does not come to a slot.
        let way = [Way::Whole, Way::Strayed, Way::Short][life % 3];
        how.lock().unwrap().way = way;
        for id in 0..4 {
            let (at, inline, len) = place(&mut rng);
            rig.count();
            let alone = rng.random_bool(0.5);
            if alone {
                rig.send(&mut qp, id, at, inline, len);
            } else {
                let (data, sges) = rig.write(at, inline, len);
                let payload = if inline { Payload::Inline(&data) } else { Payload::Sges(&sges) };
                let wr = SendWr::write(id, payload, rig.to.remote(at));
                post(&mut qp, &[wr, wr]);
            }
            rig.well(if alone { 1 } else { 2 });
            rig.arrived(at, len);
            let (wqes, _) = rig.reads();
            assert_eq!(wqes, usize::from(!alone || way != Way::Whole), "life {life}, {way:?}");
        }
        assert!(peer.state() == QpState::Rts);
    }
}

#[test]
fn what_the_wire_loses_is_read_from_the_queue_and_sent_again() {
    let mut rng = rng(13);
    let rig = Rig::new("pcie-8b", &mut rng);
    let connection = Connection { timeout: 6, ..connection() };
    rig.pair.a.context.set_timer_tick(16).unwrap();
    let (mut qp, _peer) = rig.pair.connect(&connection).unwrap();
    let mut lose = rng.clone();
    let filter = move |frame: &[u8]| if lose.random_bool(0.5) { vec![] } else { vec![frame.to_vec()] };
    rig.pair.world.lock().link_mut(0).set_filter(Some(Box::new(filter)));
    let mut again = 0;
    for id in 0..40 {
        let (at, inline, len) = place(&mut rng);
        rig.count();
        let before = rig.pair.world.lock().link(0).frames();
        rig.send(&mut qp, id, at, inline, len);
        rig.well(1);
        rig.arrived(at, len);
        let sent = rig.pair.world.lock().link(0).frames() - before;
        // The first time from its slot, then from the queue: as often as it was sent again.
        let (wqes, payloads) = rig.reads();
        assert_eq!(wqes as u64, sent - 1, "message {id}");
        assert_eq!(payloads as u64, if inline { 0 } else { sent }, "message {id}");
        again += wqes;
    }
    assert!(again > 10, "{again}");
}

#[test]
fn many_queue_pairs_that_push_at_once_send_what_they_posted() {
    for (seed, config) in [(14, "pcie-64b"), (15, "pcie-8b")] {
        let mut rng = rng(seed);
        let rig = Rig::new(config, &mut rng);
        let connect = |_| rig.pair.connect(&connection()).unwrap();
        let (mut qps, _peers): (Vec<_>, Vec<_>) = (0..8).map(connect).unzip();
        rig.count();
        let (mut sent, mut pick) = (0, rng.clone());
        for round in 0..40 {
            let mut used = Vec::new();
            let none = QpAttributes::default();
            // Some want what they have pushed only later, when others may have their slots.
            let waiting: Vec<usize> = (0..qps.len()).filter(|_| rng.random_bool(0.3)).collect();
            waiting.iter().for_each(|i| qps[*i].modify(QpState::Sqd, &none).unwrap());
            for n in 0..4 {
                for (i, qp) in qps.iter_mut().enumerate().filter(|_| pick.random_bool(0.5)) {
                    // Each message has a place of its own.
                    let at = (4 * i + n) * 64;
                    let (_, inline, len) = place(&mut rng);
                    rig.send(qp, round, at, inline, len);
                    used.push((at, len));
                }
            }
            waiting.iter().for_each(|i| qps[*i].modify(QpState::Rts, &none).unwrap());
            rig.well(used.len());
            sent += used.len();
            used.into_iter().for_each(|(at, len)| rig.arrived(at, len));
        }
        let (wqes, _) = rig.reads();
        println!("{config}: {wqes} reads of WQEs for {sent} of them");
        assert!(wqes > 50 && wqes < sent - 50, "{config}: {wqes} of {sent}");
    }
}
