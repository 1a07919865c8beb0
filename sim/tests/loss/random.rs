// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random messages of several queue pairs, both ways, over a wire that does everything that a wire can do.

use crate::tier::chosen;
use std::collections::{HashMap, VecDeque};

use ferrowire::{Completion, HwCounter, MemoryRegion, PathMtu, QueuePair, SendWr};
use ferrowire_sim::pair::{bytes, Connection, Node, Pair, PairOptions};
use ferrowire_sim::wire::{Delivery, Faults, TimedFilter};
use ferrowire_spec::wire::frame::Frame;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use super::rig::{model, nothing_refused, packets, seed, sent_again, source, target, Timer, CONFIGS};

/// Connections.
const PAIRS: usize = 8;

/// Messages of each sender.
const MESSAGES: usize = 8;

/// Longest message.
const LONGEST: usize = 20_000;

/// Bytes of memory for a message, with room for its alignment.
const SLOT: usize = 5 * 4096;

/// Cycles of a whole run.
const LIMIT: u64 = 2_000_000;

/// One direction of a connection.
struct Flow {
    /// Which card sends.
    card: usize,
    /// Which connection.
    pair: usize,
    /// A slot for each unit of the queue: filled anew when its unit is.
    from: MemoryRegion,
    to: MemoryRegion,
    source: Vec<u8>,
    expected: Vec<u8>,
    units: usize,
    posted: usize,
    /// Where the last message went.
    place: usize,
    unsignaled: usize,
    /// Ids whose completions must come, in order.
    owed: VecDeque<u64>,
}

impl Flow {
    fn new(pair: &Pair, card: usize, lane: usize, units: usize, rng: &mut SmallRng) -> Self {
        let (near, far) = if card == 0 { (&pair.a, &pair.b) } else { (&pair.b, &pair.a) };
        let (from, to) = (source(near, units * SLOT), target(far, MESSAGES * SLOT));
        let (mut source, mut expected) = (vec![0; units * SLOT], vec![0; MESSAGES * SLOT]);
        rng.fill_bytes(&mut source);
        rng.fill_bytes(&mut expected);
        from.memory().write(0, &source);
        to.memory().write(0, &expected);
        let (owed, posted, unsignaled, place) = (VecDeque::new(), 0, 0, 0);
        Self { card, pair: lane, from, to, source, expected, units, posted, place, unsignaled, owed }
    }

    /// Posts as much as there is room for, or less.
    fn post(&mut self, qp: &mut QueuePair, rng: &mut SmallRng) {
        let mut batch = qp.start_post_send();
        while self.posted < MESSAGES && batch.room() > 0 && !rng.random_bool(0.1) {
            let size = match rng.random_range(0..10) {
                0 => rng.random_range(0..=LONGEST),
                1 => 0,
                2 => 4096 >> rng.random_range(0..5),
                _ => rng.random_range(0..=2500),
            };
            // Its unit was free, so nobody reads these bytes any more.
            let slot = self.posted % self.units * SLOT;
            rng.fill_bytes(&mut self.source[slot..slot + SLOT]);
            self.from.memory().write(slot, &self.source[slot..slot + SLOT]);
            let at = slot + rng.random_range(0..=SLOT - LONGEST);
            // Now and then over the one before.
            if !rng.random_bool(0.3) {
                self.place = self.posted * SLOT + rng.random_range(0..=SLOT - LONGEST);
            }
            self.expected[self.place..self.place + size].copy_from_slice(&self.source[at..at + size]);

            self.unsignaled += 1;
            let last = self.posted + 1 == MESSAGES || self.unsignaled == self.units;
            let sges = [self.from.sge(at, size as u32)];
            let id = self.posted as u64;
            let mut wr = SendWr::write(id, &sges, self.to.remote(self.place));
            if last || rng.random_bool(0.6) {
                wr = wr.signaled();
                self.unsignaled = 0;
                self.owed.push_back(id);
            }
            batch.post(&wr).unwrap();
            self.posted += 1;
        }
    }

    fn done(&self) -> bool {
        self.posted == MESSAGES && self.owed.is_empty()
    }
}

/// `faults`, but of each queue pair at most two frames in a row are lost, changed or later than `patience`: so seven retries are
/// always enough.
fn fair(mut faults: TimedFilter, patience: u64) -> TimedFilter {
    let mut bad: HashMap<u32, u32> = HashMap::new();
    Box::new(move |bytes| {
        let qpn = Frame::parse(bytes).expect("a card sends sound frames").bth.destqp;
        let delivered = faults(bytes);
        let well = |d: &Delivery| d.frame == bytes && (d.behind > 0 || d.delay < patience);
        let bad = bad.entry(qpn).or_default();
        *bad = if delivered.iter().any(well) { 0 } else { *bad + 1 };
        if *bad <= 2 {
            return delivered;
        }
        *bad = 0;
        vec![Delivery::at_once(bytes.to_vec())]
    })
}

/// How often a card's requests were repeated: NAKs, time-outs, packets.
fn trouble(node: &Node) -> [u64; 3] {
    [HwCounter::PacketSeqErr, HwCounter::LocalAckTimeoutErr, HwCounter::Retransmitted]
        .map(|counter| node.context.hw_counter(counter).unwrap())
}

/// What the wire does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    /// Nothing.
    Good,
    /// Frames come twice.
    Copies,
    /// Everything.
    Bad,
}

impl Wire {
    /// Of one direction.
    fn faults(self, rng: &mut SmallRng, least: u64) -> Faults {
        let mut share = || rng.random_range(0.0..0.1);
        let (drop, duplicate, corrupt) = (share(), share(), share());
        let (reorder, delay, stale) = (share(), share(), share());
        // Short against a time-out, or longer than the shortest.
        let hold = rng.random_range(200..2 * least);
        match self {
            Wire::Good => Faults::default(),
            Wire::Copies => Faults { duplicate, stale, hold, ..Faults::default() },
            Wire::Bad => Faults { drop, duplicate, stale, corrupt, reorder, delay, hold },
        }
    }
}

fn run(config: &str, host_latency: u64, wire: Wire, seed: u64) {
    let what = format!("{config}, latency {host_latency}, seed {seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let options = PairOptions { host_latency, seed, ..PairOptions::default() };
    let model = model(config);
    let pair = Pair::new(&model, &options).unwrap();
    // Over what all messages under way take together, as a rule: a longest one takes 2,500 cycles, or 313.
    let timer = Timer { tick: if config == "generic-8b" { 96 } else { 24 }, code: 7 };
    pair.a.context.set_timer_tick(timer.tick).unwrap();
    pair.b.context.set_timer_tick(timer.tick).unwrap();
    let (mut ends, mut flows, mut owner) = (Vec::new(), Vec::new(), HashMap::new());
    for lane in 0..PAIRS {
        let mut psn = || match rng.random_bool(0.4) {
            true => 0xff_ffff - rng.random_range(0..60),
            false => rng.random_range(0..1 << 24),
        };
        let psns = Some((psn(), psn()));
        let units = [2, 4][rng.random_range(0..2)];
        let mtus = [PathMtu::B256, PathMtu::B512, PathMtu::B1024, PathMtu::B2048, PathMtu::B4096];
        let connection = Connection {
            mtu: mtus[rng.random_range(0..mtus.len())],
            psns,
            send_wr: units as u32,
            timeout: timer.code,
            retry_cnt: 7,
            ipv6: rng.random_bool(0.2),
            ..Connection::default()
        };
        let (a, b) = pair.connect(&connection).unwrap();
        // The first connection is used both ways.
        let senders = if lane == 0 { vec![0, 1] } else { vec![rng.random_range(0..2)] };
        for card in senders {
            owner.insert((card, if card == 0 { a.number() } else { b.number() }), flows.len());
            flows.push(Flow::new(&pair, card, lane, units, &mut rng));
        }
        ends.push((a, b));
    }
    // Slower than a beat a cycle, which is more than a card takes without end: so copies find room.
    pair.world.lock().set_line_share(0.75);
    for link in 0..2 {
        let faults = wire.faults(&mut rng, timer.least());
        println!("{what}, link {link}: {faults:?}");
        let filter = fair(faults.filter(rng.random()), timer.least() / 2);
        pair.world.lock().link_mut(link).set_timed_filter(Some(filter));
        pair.world.lock().link_mut(link).keep_frames(true);
    }

    let limit = pair.world.lock().cycle() + LIMIT;
    let mut some = [Completion::default(); 64];
    while !flows.iter().all(Flow::done) {
        for flow in flows.iter_mut().filter(|flow| flow.posted < MESSAGES) {
            let (a, b) = &mut ends[flow.pair];
            flow.post(if flow.card == 0 { a } else { b }, &mut rng);
        }
        for node in [&pair.a, &pair.b] {
            let n = node.cq.poll(&mut some).unwrap_or_else(|e| panic!("{what}: {e}{}", pair.diagnose()));
            for completion in &some[..n] {
                let flow = &mut flows[owner[&(node.card, completion.qpn())]];
                let expected = flow.owed.pop_front();
                assert!(
                    completion.is_success() && expected == Some(completion.wr_id()),
                    "{what}: {expected:?} must come, and {completion:?} did{}",
                    pair.diagnose()
                );
            }
        }
        let now = pair.world.lock().cycle();
        let open = flows.iter().filter(|flow| !flow.done()).count();
        assert!(now < limit, "{what}: {open} senders never end{}", pair.diagnose());
    }

    let check = |when: &str| {
        for (i, flow) in flows.iter().enumerate() {
            for (memory, expected) in [(&flow.to, &flow.expected), (&flow.from, &flow.source)] {
                let got = bytes(memory.memory());
                let wrong = got.iter().zip(expected).position(|(got, expected)| got != expected);
                assert_eq!(wrong, None, "{what}: sender {i}, {when}");
            }
        }
    };
    check("with the last completion");
    // What is still late.
    let mut world = pair.world.lock();
    let calm = world.run_until(8 * timer.most(), |world| (0..2).all(|link| world.link(link).idle()));
    world.run(500);
    world.check().unwrap();
    println!("{what}: {} cycles", world.cycle());
    drop(world);
    assert!(calm, "{what}: frames for ever");
    check("when nothing is under way");
    nothing_refused(&pair, &what);
    for (node, link) in [(&pair.a, 0), (&pair.b, 1)] {
        assert_eq!(node.cq.poll(&mut some).unwrap(), 0, "{what}: {:?}", some[0]);
        let frames = pair.world.lock().link_mut(link).take_frames();
        let requests: Vec<_> = packets(&frames).into_iter().filter(|p| p.syndrome.is_none()).collect();
        let again = sent_again(&requests, &what) as u64;
        let [naks, time_outs, counted] = trouble(node);
        assert_eq!(counted, again, "{what}: packets sent again");
        assert!(again == 0 || naks + time_outs > 0, "{what}");
        assert!(
            wire == Wire::Bad || [naks, time_outs, counted] == [0, 0, 0],
            "{what}: {naks} {time_outs} {counted}"
        );
    }
    for (a, b) in &ends {
        for qp in [a, b] {
            assert_eq!(qp.query().unwrap().state, ferrowire::QpState::Rts, "{what}");
        }
    }
}

/// Over a wire that loses, repeats, changes, reorders and delays frames both ways, every request completes once, in order and well,
/// every byte of both memories is the right one, and the last of several WRITEs to a place is what stays (IBTA 9.5, 9.7.5, 9.7.6.1.3,
/// 10.8.5). Units of the small queues are used again as soon as they are free, and source memory as soon as its unit is.
#[test]
fn random_messages_all_arrive_over_a_wire_that_does_everything() {
    let first = seed(100);
    for config in chosen!(CONFIGS) {
        for (i, host_latency) in [0, 250].into_iter().enumerate() {
            run(config, host_latency, Wire::Bad, first + i as u64);
        }
    }
}

/// The same without loss: nothing is sent again, whether frames come once or twice.
#[test]
fn random_messages_over_a_wire_without_loss_are_sent_once() {
    let first = seed(200);
    for (i, config) in CONFIGS.into_iter().enumerate() {
        run(config, 250 * i as u64, Wire::Good, first + i as u64);
        run(config, 250 * i as u64, Wire::Copies, first + i as u64);
    }
}
