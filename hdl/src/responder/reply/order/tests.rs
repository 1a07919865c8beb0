// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies and finished entries in any interleaving, against a model that takes them one by one.

use super::*;
use crate::testing::{step, Random, Sink, Source};
use ferrowire_rtl::{build, Sim};
use rand::Rng;
use std::collections::{HashSet, VecDeque};

const QPS: u32 = 8;

/// PSNs go round soon.
const FIRST_PSN: u64 = (1 << 24) - 100;

fn config(beat_bytes: u32) -> RnicConfig {
    let cfg = RnicConfig::named("generic-8b").unwrap();
    RnicConfig { beat_bytes, qps: QPS, outstanding: 16, ..cfg }
}

/// PSN, syndrome, MSN.
type Ack = (u64, u64, u64);

/// An entry that the bench has to finish.
#[derive(Clone, Debug)]
struct Pending {
    place: u64,
    new: bool,
    atomic: bool,
    end: bool,
    /// PSN of its last packet.
    last: u64,
}

/// Whether a PSN is this one or comes after it.
fn reaches(psn: u64, other: u64) -> bool {
    psn.wrapping_sub(other) % (1 << 24) < 1 << 23
}

fn after(psn: u64) -> u64 {
    (psn + 1) % (1 << 24)
}

/// A NAK, of whatever kind, by the names of the standard rather than by a bit (9.7.5.2.1, table 45).
fn is_nak(ack: &Ack) -> bool {
    matches!(ack.1 >> 5, 1 | 3)
}

/// Repetitions whose PSNs rise: the first one's number and PSN, the last one's PSN, and whether they come as far as anything new.
#[derive(Clone, Debug)]
struct Run {
    since: u64,
    start: u64,
    last: u64,
    whole: bool,
}

#[derive(Clone, Default)]
struct Qp {
    pending: VecDeque<Pending>,
    /// Entries that were appended, and those that are done with.
    appended: u64,
    finished: u64,
    /// Behind how many of its PSNs, or none, the bench has come.
    newest: u64,
    run: Option<Run>,
    /// What the block has said of it.
    start: u64,
    ack: Option<Ack>,
    dead: bool,
    ending: bool,
    tail: u64,
    psn: u64,
    new: usize,
}

impl Qp {
    fn whole_run(&self) -> Option<Run> {
        self.run.clone().filter(|run| run.whole)
    }
}

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: [Source; 2],
    sinks: [Sink; 2],
    random: Random,
    stall: f64,
    qps: Vec<Qp>,
    /// Replies that were handed over, and what was said to be finished.
    replies: VecDeque<(usize, Kind, bool, bool, Ack, u64)>,
    finished: VecDeque<(usize, bool, Pending)>,
    /// QP, PSN, syndrome, MSN, end.
    expected: Vec<[u64; 5]>,
    wakes: Vec<(u64, u64)>,
    used: HashSet<u64>,
    crowded: u64,
    /// Repetitions that were dropped in all.
    crowds: u64,
    served: Vec<u64>,
    /// Places on their way back.
    freed: VecDeque<u64>,
    new: u64,
    again: u64,
    /// The runs that are whole, to be written behind each event.
    fronts: VecDeque<(usize, Option<Run>)>,
    /// How many were written.
    runs: u64,
}

impl Bench {
    fn new(beat_bytes: u32, seed: u64, stall: f64) -> Bench {
        let cfg = config(beat_bytes);
        let netlist = build("bench", |m| {
            let out = order(
                m,
                &cfg,
                m.stream_in("reply", &Reply::of(&cfg)),
                m.stream_in("finished", &Finished::of(&cfg)),
                m.input_of("freed", &Freed::of(&cfg)),
                m.input_of(
                    "looping",
                    &TableWrite { enable: bits(1), index: bits(cfg.qp_bits()), entry: bits(1) },
                ),
            );
            m.stream_out("pass", out.pass);
            m.stream_out("wake", crate::stream::fifo(&m.label("wakes"), 2, out.wakes));
            m.output("pool", &m.delay("pool_late", &out.lists.pool));
            m.output("links", &m.delay("links_late", &out.lists.links));
            m.output("front", &m.delay("front_late", &out.lists.front));
            m.output("start", &m.delay("start_late", &out.lists.start));
            m.output("served", &m.delay("served_late", &out.served));
            let counts = ferrowire_rtl::cat(&[out.reads, out.atomics, out.crowded]);
            m.output("counts", &m.delay("counts_late", &counts));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        // Rows are swept before anything else.
        (0..=cfg.qps).for_each(|_| sim.tick());
        let header = Header {
            qp: bits(cfg.qp_bits()),
            opcode: bits(8),
            psn: bits(24),
            original: bits(64),
            syndrome: bits(8),
            msn: bits(24),
            bytes: bits(13),
            lane: bits(cfg.lane_bits()),
            loops: bits(1),
            acknowledges: bits(1),
            end: bits(1),
        };
        Bench {
            sim,
            sources: [Source::new("reply", &Reply::of(&cfg)), Source::new("finished", &Finished::of(&cfg))],
            sinks: [Sink::new("pass", &header), Sink::new("wake", &Wake::of(&cfg))],
            random: Random::new(seed),
            stall,
            qps: (0..QPS).map(|qp| Qp { tail: qp.into(), ..Qp::default() }).collect(),
            replies: VecDeque::new(),
            finished: VecDeque::new(),
            expected: Vec::new(),
            wakes: Vec::new(),
            used: (0..QPS).map(u64::from).collect(),
            crowded: 0,
            crowds: 0,
            served: Vec::new(),
            freed: VecDeque::new(),
            new: 0,
            again: 0,
            fronts: VecDeque::new(),
            runs: 0,
            cfg,
        }
    }

    fn push(&mut self, qp: usize, kind: Kind, again: bool) {
        // A duplicate is acknowledged with the newest PSN before it.
        let old = again || kind == Kind::Acknowledge && self.random.chance(0.3);
        let back = if old { self.random.rng.random_range(0..6) } else { 0 };
        let row = &mut self.qps[qp];
        row.psn += u64::from(!old);
        let psn = (row.psn + FIRST_PSN).wrapping_sub(back) % (1 << 24);
        let refused = again && self.random.chance(0.1);
        let code = if old && !again { 0 } else { [0, 1, 3][self.random.rng.random_range(0..3)] };
        let syndrome = code << 5 | self.random.rng.random_range(0..32);
        let ack = (psn, syndrome, self.random.rng.random_range(0..1 << 24));
        let last = match kind {
            Kind::Read => self.random.rng.random_range(0..4),
            _ => 0,
        };
        if !again {
            self.qps[qp].psn += last;
        }
        self.send(qp, kind, again, refused, ack, last);
    }

    fn send(&mut self, qp: usize, kind: Kind, again: bool, refused: bool, ack: Ack, further: u64) {
        self.sources[0].push_values(&[
            ("qp", qp as u128),
            ("kind", kind.code().into()),
            ("psn", ack.0.into()),
            ("syndrome", ack.1.into()),
            ("msn", ack.2.into()),
            ("length", 0x8000_0000),
            ("swap", 0xffff),
            ("again", again.into()),
            ("refused", refused.into()),
        ]);
        self.replies.push_back((qp, kind, again, refused, ack, (ack.0 + further) % (1 << 24)));
    }

    /// The oldest entry of a QP is done with.
    fn finish(&mut self, qp: usize, dead: bool) {
        let Some(entry) = self.qps[qp].pending.pop_front() else { return };
        self.sources[1].push_values(&[
            ("qp", qp as u128),
            ("end", entry.end.into()),
            ("new", entry.new.into()),
            ("atomic", entry.atomic.into()),
            ("dead", dead.into()),
            ("psn", entry.last.into()),
        ]);
        if !entry.end {
            // Its place has come back long ago.
            self.freed.push_back(entry.place);
        }
        // It counts until it has been taken.
        self.qps[qp].pending.push_front(entry.clone());
        self.finished.push_back((qp, dead, entry));
    }

    fn step(&mut self) {
        let back = self.freed.pop_front();
        self.sim.set("freed_valid", back.is_some().into());
        self.sim.set("freed_place", back.unwrap_or(0));
        if let Some(place) = back {
            assert!(self.used.remove(&place));
        }
        // What the engine is done with in this cycle: in which order it takes the two kinds is its own affair.
        let mut look = |name: &str| self.sim.peek(&format!("bench.order.{name}")).expect(name).to_u64() == 1;
        let (done, by_finish) = (look("acts") && !look("again"), look("event_by_finish"));
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, self.stall);
        if done && by_finish {
            let (qp, dead, entry) = self.finished.pop_front().unwrap();
            let row = &mut self.qps[qp];
            row.pending.pop_front();
            row.finished += u64::from(!entry.end);
            row.run = row.run.take().filter(|run| run.since > row.finished || entry.end);
            self.fronts.push_back((qp, row.whole_run()));
            if entry.new {
                self.served.push(qp as u64);
                self.new -= 1;
                row.new -= 1;
            } else if !entry.end {
                self.again -= 1;
            }
            row.dead |= dead;
            let moves = |ack: &Ack| entry.new && is_nak(ack) && reaches(after(entry.last), ack.0);
            if let Some(ack) = row.ack.as_mut().filter(|ack| moves(ack)) {
                ack.0 = after(entry.last);
            }
            if entry.end {
                assert!(row.pending.is_empty());
                self.expected.push([qp as u64, 0, 0, 0, 1]);
                (row.dead, row.ending) = (false, false);
            } else if row.pending.is_empty() {
                if let Some(ack) = row.ack.take().filter(|_| !row.dead) {
                    self.expected.push([qp as u64, ack.0, ack.1, ack.2, 0]);
                }
            } else if entry.atomic {
                self.wakes.push((qp as u64, 0));
            }
        }
        if done && !by_finish {
            let (qp, kind, again, refused, ack, last) = self.replies.pop_front().unwrap();
            let row = &mut self.qps[qp];
            match kind {
                Kind::Acknowledge if row.dead => {}
                Kind::Acknowledge if row.pending.is_empty() => {
                    self.expected.push([qp as u64, ack.0, ack.1, ack.2, 0]);
                }
                Kind::Acknowledge if is_nak(&ack) || !row.ack.is_some_and(|ack| is_nak(&ack)) => {
                    row.ack = Some(ack);
                }
                Kind::Acknowledge => {}
                Kind::End => {
                    row.ack = None;
                    let end = Pending { place: 0, new: false, atomic: false, end: true, last: ack.0 };
                    row.pending.push_back(end);
                    self.wakes.push((qp as u64, 1));
                }
                _ if refused
                    || again
                        && (row.pending.len() >= PENDING as usize
                            || self.again == repetitions(&self.cfg).into()) =>
                {
                    self.crowded += u64::from(!refused);
                    self.crowds += u64::from(!refused);
                    if row.run.as_ref().is_none_or(|run| !run.whole) {
                        row.run = None;
                        self.fronts.push_back((qp, None));
                    }
                }
                _ => {
                    if again {
                        let goes_on = |run: &Run| !run.whole && ack.0 != run.last && reaches(ack.0, run.last);
                        let fresh = Run { since: row.appended, start: ack.0, last: ack.0, whole: false };
                        let mut run = row.run.take().filter(goes_on).unwrap_or(fresh);
                        run.last = ack.0;
                        run.whole = reaches(ack.0, row.newest);
                        row.run = Some(run).filter(|run| run.since > row.finished);
                    } else {
                        row.ack = row.ack.filter(is_nak).map(|(psn, _, _)| (psn, 0x60, ack.2));
                        row.newest = ack.0;
                        row.run = row.run.take().filter(|run| run.whole);
                        self.new += 1;
                    }
                    row.appended += 1;
                    self.fronts.push_back((qp, row.whole_run()));
                    self.again += u64::from(again);
                    let atomic = kind == Kind::Atomic;
                    let entry = Pending { place: row.tail, new: !again, atomic, end: false, last };
                    row.pending.push_back(entry);
                    self.wakes.push((qp as u64, 0));
                    // The block writes it when it moves on: see below.
                    row.tail = u64::MAX;
                }
            }
        }
        self.look();
    }

    /// What the block has written in the cycle before.
    fn look(&mut self) {
        if self.sim.get("links_enable") == 1 {
            let (place, next) = (self.sim.get("links_index"), self.sim.get("links_entry"));
            assert_eq!(self.sim.get("pool_enable"), 1);
            assert_eq!(self.sim.get("pool_index"), place);
            assert_eq!(self.sim.get("front_enable"), 1);
            assert_eq!(self.sim.get("front_entry_tail"), next);
            assert!(self.used.insert(next), "place {next} is in use");
            let qp = self.sim.get("front_index") as usize;
            let length = self.sim.get("pool_entry_swap");
            let atomic = self.sim.get("pool_entry_atomic");
            assert_eq!(length, if atomic == 1 { 0xffff } else { 0x8000_0000 });
            assert_eq!(self.qps[qp].tail, u64::MAX, "an entry that was not handed over");
            self.qps[qp].tail = next;
        }
        if self.sim.get("start_enable") == 1 {
            self.qps[self.sim.get("start_index") as usize].start = self.sim.get("start_entry");
        }
        if self.sim.get("front_enable") == 1 {
            // Sweeping comes before any event.
            if let Some((qp, run)) = self.fronts.pop_front() {
                let mut field = |name: &str| self.sim.get(&format!("front_{name}"));
                assert_eq!((field("index"), field("entry_whole")), (qp as u64, run.is_some().into()));
                if let Some(run) = run {
                    assert_eq!((field("entry_since"), self.qps[qp].start), (run.since % 256, run.start));
                    self.runs += 1;
                }
            }
        }
        if self.sim.get("served_valid") == 1 {
            let served = self.sim.get("served_qp");
            assert_eq!(self.served.remove(0), served);
        }
        self.crowded -= self.sim.get("counts") >> 2;
    }
}

#[test]
fn acknowledgements_wait_for_what_was_before_and_the_newest_one_stays() {
    let mut crowded = 0;
    for (beat_bytes, stall, seed) in [(64, 0.0, 1), (64, 0.3, 2), (64, 0.6, 3), (8, 0.0, 4), (8, 0.4, 5)] {
        let mut bench = Bench::new(beat_bytes, seed, stall);
        for round in 0..6000 {
            let qp = bench.random.rng.random_range(0..QPS as usize);
            let free = bench.replies.iter().all(|r| r.0 != qp);
            // An entry's place is known once the block has written it.
            let known = bench.qps[qp].tail != u64::MAX;
            let row = &bench.qps[qp];
            let (dead, ending, first) = (row.dead, row.ending, row.new == 0);
            if free && known && !ending && bench.sources[0].left() < 4 {
                let room = bench.qps.iter().map(|q| q.new.saturating_sub(1)).sum::<usize>() < 16;
                match bench.random.rng.random_range(0..20) {
                    0..8 => bench.push(qp, Kind::Acknowledge, false),
                    8..12 if first || room => {
                        bench.qps[qp].new += 1;
                        let kind = [Kind::Read, Kind::Atomic][bench.random.rng.random_range(0..2)];
                        bench.push(qp, kind, false);
                    }
                    12..18 => {
                        let kind = [Kind::Read, Kind::Atomic][bench.random.rng.random_range(0..2)];
                        bench.push(qp, kind, true);
                    }
                    18.. if dead || round % 7 == 0 => {
                        bench.qps[qp].ending = true;
                        bench.push(qp, Kind::End, false);
                    }
                    _ => {}
                }
            }
            let often = if round % 1000 < 500 { 0.03 } else { 0.6 };
            let qp = bench.random.rng.random_range(0..QPS as usize);
            let entry = bench.qps[qp].pending.front().cloned();
            let busy = bench.finished.iter().any(|f| f.0 == qp);
            let settled = bench.qps[qp].tail != u64::MAX;
            if bench.random.chance(often) && !busy && settled && entry.is_some() {
                let end = entry.is_some_and(|e| e.end);
                let dead = !end && (bench.qps[qp].dead || bench.random.chance(0.05));
                bench.finish(qp, dead);
            }
            bench.step();
        }
        for _ in 0..2000 {
            for qp in 0..QPS as usize {
                let busy = bench.finished.iter().any(|f| f.0 == qp) || bench.qps[qp].tail == u64::MAX;
                let dead = bench.qps[qp].dead && !bench.qps[qp].pending.front().is_some_and(|e| e.end);
                if !busy {
                    bench.finish(qp, dead);
                }
            }
            bench.step();
        }
        let seed = bench.random.seed;
        let got: Vec<[u64; 5]> = bench.sinks[0]
            .items
            .iter()
            .map(|i| match i["end"].is_zero() {
                true => ["qp", "psn", "syndrome", "msn", "end"].map(|f| i[f].to_u64()),
                false => [i["qp"].to_u64(), 0, 0, 0, 1],
            })
            .collect();
        assert_eq!(got, bench.expected, "seed {seed}");
        let wakes: Vec<(u64, u64)> =
            bench.sinks[1].items.iter().map(|i| (i["qp"].to_u64(), i["end"].to_u64())).collect();
        assert_eq!(wakes, bench.wakes, "seed {seed}");
        assert!(bench.runs > 100, "seed {seed}: {} whole runs", bench.runs);
        assert!(bench.served.is_empty() && bench.crowded == 0, "seed {seed}");
        assert_eq!(bench.used.len(), QPS as usize, "seed {seed}: every place has come back");
        crowded += bench.crowds;
    }
    assert!(crowded > 0, "no repetition was dropped");
}

/// The table of the block's header, pair by pair: a READ of PSNs 10 to 12 is pending, `waits` comes, and then `comes`. What leaves when all that is
/// pending is done with?
#[test]
fn of_each_pair_of_waiting_answers_the_right_one_stays_and_no_nak_is_lost() {
    const EXPECTED: u64 = 20;
    const OLDEST: u64 = EXPECTED - 5 + (1 << 23);
    let (old, rnr, sequence) = ((EXPECTED - 1, 0x1f, 4), (EXPECTED, 0x2c, 4), (EXPECTED, 0x60, 4));
    let (invalid, done) = ((EXPECTED, 0x61, 4), (EXPECTED, 0x1e, 5));
    // Of a duplicate: nothing has come since the READ.
    let repeated = (12, 0x1f, 4);
    let later = [(EXPECTED + 1, 0x2d, 6), (EXPECTED + 1, 0x60, 6), (EXPECTED + 1, 0x62, 6)];
    let mut pairs: Vec<(Ack, Kind, bool, Ack, Option<Ack>)> = Vec::new();
    for waits in [repeated, old, rnr, sequence, invalid] {
        let nak = waits.1 >= 0x20;
        // Of a duplicate, and of the packet that was missing.
        let ack_stays = |comes| Some(if nak { waits } else { comes });
        pairs.push((waits, Kind::Acknowledge, false, repeated, ack_stays(repeated)));
        pairs.push((waits, Kind::Acknowledge, false, old, ack_stays(old)));
        pairs.push((waits, Kind::Acknowledge, false, done, ack_stays(done)));
        for comes in [rnr, sequence, invalid].into_iter().chain(later) {
            pairs.push((waits, Kind::Acknowledge, false, comes, Some(comes)));
        }
        // PSNs 20 to 23; or 20.
        let follows = |psn| nak.then_some((psn, 0x60, 7));
        pairs.push((waits, Kind::Read, false, (EXPECTED, 0x1d, 7), follows(EXPECTED + 4)));
        pairs.push((waits, Kind::Atomic, false, (EXPECTED, 0x1d, 7), follows(EXPECTED + 1)));
        pairs.push((waits, Kind::Read, true, (11, 0x1d, 3), Some(waits)));
        pairs.push((waits, Kind::Read, true, (12, 0x1d, 3), Some(waits)));
        // As old as a duplicate can be when it comes; what came after it has moved the PSN on, and now it looks newer.
        pairs.push((waits, Kind::Atomic, true, (OLDEST, 0x1d, 3), Some(waits)));
        pairs.push((waits, Kind::End, false, (0, 0, 0), None));
    }
    for beat_bytes in [8, 64] {
        let mut bench = Bench::new(beat_bytes, 1, 0.0);
        for (i, (waits, kind, again, comes, leaves)) in pairs.iter().enumerate() {
            let qp = i % QPS as usize;
            let settle = |bench: &mut Bench| (0..20).for_each(|_| bench.step());
            bench.send(qp, Kind::Read, false, false, (10, 0x1f, 3), 2);
            bench.qps[qp].new += 1;
            settle(&mut bench);
            bench.send(qp, Kind::Acknowledge, false, false, *waits, 0);
            settle(&mut bench);
            let further = if *kind == Kind::Read && !again { 3 } else { 0 };
            if matches!(kind, Kind::Read | Kind::Atomic) && !again {
                bench.qps[qp].new += 1;
            }
            bench.send(qp, *kind, *again, false, *comes, further);
            settle(&mut bench);
            let before = bench.sinks[0].items.len();
            while !bench.qps[qp].pending.is_empty() {
                bench.finish(qp, false);
                settle(&mut bench);
            }
            let left = &bench.sinks[0].items[before..];
            let left: Vec<Ack> = left
                .iter()
                .filter(|item| item["end"].is_zero())
                .map(|item| (item["psn"].to_u64(), item["syndrome"].to_u64(), item["msn"].to_u64()))
                .collect();
            assert_eq!(left.first(), leaves.as_ref(), "{waits:x?} waits, {kind:?} {again} {comes:x?} comes");
            assert_eq!(left.len(), usize::from(leaves.is_some()), "{left:x?}");
        }
    }
}
