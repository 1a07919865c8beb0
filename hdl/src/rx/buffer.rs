// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive buffer: whole frames, until they are known to be good and somebody takes them.
//!
//! ```text
//!                    +-----------------------------------------+
//!   frame ---------->| tail      ring of beats, block RAM      |------------> frame
//!          |         |     decided                  next       |
//!          | ends    +-----------------------------------------+
//!          v                               ^ begin, end
//!       [fifo]--+                          |
//!   parsed -----+--> keep or drop --+--> [fifo]
//!   verdict ----+                   +--> [fifo] ---------------------------> headers
//!                                   +-------------------------------------> dropped {valid, reason}
//!   how full? ------------------------------------------------------------> pressed
//! ```
//!
//! Beats are written as they come. When parser and ICRC have spoken, the frame is kept, by an entry that tells where
//! it lies, or forgotten: if nothing has come behind it, the write pointer moves back; otherwise its beats are
//! skipped when the reader gets there. A frame that does not find room is given up at once, and its beats' place is
//! free again; nothing of a frame comes out unless all of it does.
//!
//! `pressed` has three bits: a quarter, a half, and three quarters of the ring are taken. The requester sends more slowly then, for sending and receiving
//! share the host's memory.
//!
//! `roomy` says that there is room for the largest frame beside what is on its way here; while a looped frame `claims` that, frames which would take it do not find
//! room.
//!
//! Headers and frames leave in the order in which they came, each once, on two streams: the frame as it was on the
//! wire, headers included.
//!
//! **Latency:** headers [`HEADERS_LATENCY`] cycles after the later of result and verdict, the first beat
//! [`FRAME_LATENCY`]; both a cycle later where beats are narrow, for then headers are written and read in two cycles.
//! **Throughput:** one beat a cycle in and out, no bubble between frames.
//!
//! **Bad input:** the first reason counts, in the order of [`DropReason`]: the parser's up to the UDP checksum, the
//! ICRC, the rest of the parser's, and last `overrun`, here for want of room. Exactly one pulse of `dropped` a frame
//! that does not come out, but those that the parser has dealt with. `frame.ready` is low only when [`PENDING`]
//! frames wait for their verdict, which the parser
//! does not let happen; want of room never holds the wire up.

use crate::config::RnicConfig;
use crate::loopback::merge::least_room;
use crate::rx::dispatch::Sorted;
use crate::rx::icrc::Verdict;
use crate::rx::parse::{Parsed, REASON_BITS, TAKEN};
use crate::stream::{deep_fifo, spare_fifo, wide_fifo, Beat};
use crate::types::is_raw;
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::csr::DropReason;

/// Frames that may wait for their verdict.
pub const PENDING: u32 = 64;
/// Cycles from the verdict to the headers.
pub const HEADERS_LATENCY: u32 = 2;
/// Cycles from the verdict to the frame's first beat.
pub const FRAME_LATENCY: u32 = 4;
/// The shortest good frame, in memory: 58 bytes in whole beats.
const SHORTEST: u32 = 64;

/// Bits of `pressed`.
pub const PRESSED: u32 = 3;

/// A frame was dropped: a pulse for the counters.
#[derive(Clone, Bundle)]
pub struct Dropped {
    /// In this cycle.
    pub valid: Sig,
    /// Code of the [`DropReason`].
    pub reason: Sig,
}

impl Dropped {
    /// The shape.
    pub fn of() -> Dropped {
        Dropped { valid: bits(1), reason: bits(REASON_BITS) }
    }
}

/// Good frames.
#[derive(Interface)]
pub struct Received {
    /// What the parser found, once a frame, and where it goes.
    pub headers: Stream<Sorted>,
    /// The frames, as they were on the wire.
    pub frame: Stream<Beat>,
    /// The others.
    pub dropped: Dropped,
    /// Bit 0: half of the ring is taken; bit 1: three quarters are.
    pub pressed: Sig,
    /// There is room for the largest frame, and for what is on its way here.
    pub roomy: Sig,
}

/// Where a frame that was written ends, and whether it was.
#[derive(Clone, Bundle)]
struct Pending {
    end: Sig,
    overrun: Sig,
}

/// Where a good frame lies.
#[derive(Clone, Bundle)]
struct Place {
    begin: Sig,
    end: Sig,
    /// It is one beat.
    single: Sig,
}

/// Keeps frames; see the page's top. `claims`: a looped frame waits for room.
#[module]
pub fn buffer(
    m: &Scope,
    cfg: &RnicConfig,
    frame: Stream<Beat>,
    parsed: Stream<Parsed>,
    verdict: Stream<Verdict>,
    claims: Sig,
) -> Received {
    let depth = cfg.rx_buffer_bytes / cfg.beat_bytes;
    let address = clog2(u64::from(depth));
    // One bit more than an address, so that full and empty differ.
    let pointer = |name: &str| m.reg(name, address + 1).reset(0);
    let store = m.mem("store", depth, &frame.payload).style(Style::Block).build();
    // The first place that is not written, where the frame there began, the end of the last frame with a verdict, and
    // the first place still to be read.
    let (tail, begin, decided, next) =
        (pointer("tail"), pointer("begin"), pointer("decided"), pointer("next"));

    // In: a frame is written whole or not.
    let fire = frame.fire();
    let given_up = m.reg("given_up", 1).reset(0);
    let level = (tail - next).named("level");
    let kept_free = depth - least_room(cfg);
    let beyond = level.gt(kept_free).named("beyond");
    let full = level.eq(depth) | (claims & level.ge(kept_free));
    let roomy = m.delay("roomy", &!beyond);
    let pressed = m.reg("pressed", PRESSED).reset(0);
    let of_four = level.slice(address - 2, 3);
    m.set(&pressed, cat(&[of_four.any(), of_four.ge(2), of_four.ge(3)]));
    let write = fire & !given_up & !full;
    let after = tail + 1;
    store.write(write, tail.trunc(address), &frame.payload);
    let lost = given_up | full;
    let end = Pending { end: lost.then(begin, after), overrun: lost };
    let ends = Stream::new(m, "ends", frame.valid & frame.last, end);
    frame.accept(ends.ready);
    let pending = spare_fifo(&m.label("pending"), PENDING, cfg.unhurried(), ends);

    // The verdict. All three come once a frame, in order; none of them waits for anything but the others.
    let known = parsed.valid & verdict.valid & pending.valid;
    let is_control = parsed.reason.ge(DropReason::MacControl.code());
    let before_icrc = parsed.dropped & (parsed.reason.lt(DropReason::Icrc.code()) | is_control);
    let taken = parsed.dropped & parsed.reason.eq(TAKEN);
    // What is no RoCE has no ICRC.
    let sealed = verdict.ok | (!parsed.dropped & is_raw(parsed.headers.opcode));
    let bad = parsed.dropped | !sealed;
    let entries = (cfg.rx_buffer_bytes / SHORTEST).min(512);
    let room = m.wire("room", 1);
    let good = known & !bad & !pending.overrun & room;
    let kept_headers = Stream::new(m, "kept_headers", good, Sorted::of(cfg, &parsed.headers));
    // Where there is time, the headers are written in two cycles, and the second decides.
    let (decide, keep) = match cfg.unhurried() {
        true => (known & (!good | kept_headers.ready), kept_headers.fire()),
        false => (known, good),
    };
    parsed.accept(decide);
    verdict.accept(decide);
    pending.accept(decide);
    let single = pending.end.eq(decided + 1);
    let kept_place = Stream::new(m, "kept_place", keep, Place { begin: decided, end: pending.end, single });
    let headers_room = kept_headers.ready;
    let headers = wide_fifo(&m.label("headers"), entries, cfg.unhurried().then_some(2), kept_headers);
    // Headers that nobody has taken yet: a folded FIFO does not tell whether it has room for one more.
    let headers_room = match cfg.unhurried() {
        true => {
            let stored = m.reg("stored", clog2(u64::from(entries)) + 1).reset(0);
            let leaves = headers.fire();
            m.when(keep & !leaves, |m| m.set(&stored, stored + 1))
                .otherwise_when(leaves & !keep, |m| m.set(&stored, stored - 1));
            stored.ne(entries)
        }
        false => headers_room,
    };
    // These are registers of the FIFOs: nothing goes round. The FIFOs are as deep as the ring has frames; only a reader
    // that takes beats and leaves the headers can fill them.
    m.drive(&room, headers_room & kept_place.ready);
    let places = deep_fifo(&m.label("places"), entries, kept_place);

    let icrc_or_later = sealed.then(
        parsed.dropped.then(parsed.reason, lit(REASON_BITS, DropReason::Overrun.code())),
        lit(REASON_BITS, DropReason::Icrc.code()),
    );
    let dropped_valid = m.reg("dropped_valid", 1).reset(0);
    m.set(&dropped_valid, decide & !keep & !taken);
    let dropped_reason = m.reg("dropped_reason", REASON_BITS).no_reset();
    m.set(&dropped_reason, before_icrc.then(parsed.reason, icrc_or_later));

    // The pointers. A frame that was given up has no place to be forgotten.
    let forget = decide & !keep & !pending.overrun;
    let back = forget & pending.end.eq(tail) & !fire;
    m.when(decide & !pending.overrun & !back, |m| m.set(&decided, pending.end));
    m.when(fire, |m| {
        m.set(&tail, lost.then(begin, after));
        m.set(&given_up, lost & !frame.last);
        m.when(frame.last & !lost, |m| m.set(&begin, after));
    })
    .otherwise_when(back, |m| {
        m.set(&tail, decided);
        m.set(&begin, decided);
    });

    // Out: the next good frame, wherever it begins; what lies before it is free. While there is none, all up to the
    // last verdict is.
    let busy = m.reg("busy", 1).reset(0);
    let stop = m.reg("stop", address + 1).no_reset();
    let waiting = m.reg("waiting", clog2(u64::from(entries) + 2)).reset(0);
    let held = m.reg("held", 1).reset(0);
    let take = m.wire("take", 1);
    let beat = store.read(m, take, next.trunc(address), Collision::Never);
    let out = Stream::new(m, "frame_out", held, beat);
    m.drive(&take, busy & (!held | out.ready));
    m.when(take, |m| m.set(&held, 1)).otherwise_when(out.ready, |m| m.set(&held, 0));
    let following = next + 1;
    // That the beat to be read is its frame's last is known before it is read.
    let last_beat = m.reg("last_beat", 1).no_reset();
    let done = take & last_beat;
    places.accept(!busy | done);
    let load = places.fire();
    m.when(load, |m| {
        m.set(&busy, 1);
        m.set(&next, places.begin);
        m.set(&stop, places.end);
        m.set(&last_beat, places.single);
    })
    .otherwise_when(take, |m| {
        m.set(&busy, !done);
        m.set(&next, following);
        m.set(&last_beat, stop.eq(next + 2));
    })
    .otherwise_when(!busy & waiting.eq(0), |m| m.set(&next, decided));
    m.when(keep & !load, |m| m.set(&waiting, waiting + 1))
        .otherwise_when(!keep & load, |m| m.set(&waiting, waiting - 1));
    m.assert(level.le(depth), "the ring holds at most as much as there is");

    let dropped = Dropped { valid: dropped_valid, reason: dropped_reason };
    Received { headers, frame: out, dropped, pressed, roomy }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{item, step, Random, Sink, Source};
    use crate::types::Headers;
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;

    fn config(beat_bytes: u32) -> RnicConfig {
        RnicConfig { beat_bytes, rx_buffer_bytes: 16384, ..RnicConfig::named("generic-64b").unwrap() }
    }

    /// What is said of a frame: the parser's reason, and the ICRC.
    #[derive(Clone, Copy)]
    struct Said {
        reason: Option<DropReason>,
        icrc: bool,
    }

    const GOOD: Said = Said { reason: None, icrc: true };

    impl Said {
        fn drop(self) -> Option<DropReason> {
            match self.reason {
                Some(reason) if reason < DropReason::Icrc => Some(reason),
                _ if !self.icrc => Some(DropReason::Icrc),
                reason => reason,
            }
        }
    }

    struct Bench {
        sim: Sim,
        beat_bytes: usize,
        /// Frames, results, verdicts.
        sources: [Source; 3],
        /// Headers, frames.
        sinks: [Sink; 2],
        drops: Vec<DropReason>,
        sent: u128,
        /// Cycles from a frame's last beat to its verdict.
        delay: u64,
        due: std::collections::VecDeque<(u64, Said, u128)>,
        ends: std::collections::VecDeque<(usize, Said)>,
        beats: usize,
        lag: Random,
    }

    fn bench(beat_bytes: u32) -> Bench {
        let beat = Beat::of(beat_bytes);
        let netlist = build("top", |m| {
            let frame = m.stream_in("frame", &beat);
            let parsed = m.stream_in("parsed", &Parsed::of());
            let verdict = m.stream_in("verdict", &Verdict::of());
            let received = buffer(m, &config(beat_bytes), frame, parsed, verdict, m.input("claims", 1));
            m.output("roomy", &received.roomy);
            m.stream_out("headers", received.headers.map(|sorted| sorted.headers.clone()));
            m.stream_out("out", received.frame);
            m.output("dropped", &received.dropped);
            m.output("pressed", &received.pressed);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let parsed = Source::new("parsed", &Parsed::of());
        Bench {
            sim,
            beat_bytes: beat_bytes as usize,
            sources: [Source::new("frame", &beat), parsed, Source::new("verdict", &Verdict::of())],
            sinks: [Sink::new("headers", &Headers::of()), Sink::new("out", &beat)],
            drops: Vec::new(),
            sent: 0,
            delay: 8,
            due: Default::default(),
            ends: Default::default(),
            beats: 0,
            lag: Random::new(0),
        }
    }

    impl Bench {
        fn send(&mut self, frame: &[u8], said: Said) {
            self.beats += frame.len().div_ceil(self.beat_bytes);
            self.ends.push_back((self.beats, said));
            self.sources[0].push_frame(frame);
        }

        fn step(&mut self, random: &mut Random, stall: f64) {
            // A verdict comes some time after the last beat.
            let (now, passed) = (self.sim.cycles(), self.sources[0].cycles.len());
            while self.ends.front().is_some_and(|(end, _)| *end <= passed) {
                let (_, said) = self.ends.pop_front().expect("one");
                let lag = if self.delay > 8 { self.lag.rng.random_range(0..self.delay) } else { self.delay };
                self.due.push_back((now + lag, said, self.sent));
                self.sent += 1;
            }
            while self.due.front().is_some_and(|(at, ..)| *at <= now) {
                let (_, said, number) = self.due.pop_front().expect("one");
                let reason = said.reason.map_or(0, |r| u128::from(r.code()));
                let dropped = u128::from(said.reason.is_some());
                let values = [("dropped", dropped), ("reason", reason), ("headers_va", number)];
                self.sources[1].push(item(&Parsed::of(), &values));
                self.sources[2].push(item(&Verdict::of(), &[("ok", u128::from(said.icrc))]));
            }
            step(&mut self.sim, &mut self.sources, &mut self.sinks, random, stall);
            if self.sim.get("dropped_valid") == 1 {
                let code = self.sim.get("dropped_reason") as u8;
                self.drops.push(DropReason::from_code(code).expect("a reason"));
            }
        }

        fn run(&mut self, random: &mut Random, stall: f64) {
            let (mut quiet, mut seen) = (0, 0);
            while quiet < 100 {
                self.step(random, stall);
                let busy = self.sources.iter().any(|s| s.left() > 0) || !self.due.is_empty();
                let now = self.drops.len() + self.sinks.iter().map(|s| s.items.len()).sum::<usize>();
                quiet = if now == seen && !busy { quiet + 1 } else { 0 };
                seen = now;
            }
        }
    }

    fn random_said(random: &mut Random) -> Said {
        let reasons =
            [DropReason::NotRoce, DropReason::Length, DropReason::BthVersion, DropReason::Malformed];
        let reason = random.chance(0.3).then(|| reasons[random.rng.random_range(0..4)]);
        Said { reason, icrc: !random.chance(0.3) }
    }

    #[test]
    fn good_frames_come_out_whole_and_in_order_and_bad_ones_are_counted() {
        let mut random = Random::new(1);
        for beat_bytes in [8, 16, 32, 64] {
            let mut bench = bench(beat_bytes);
            bench.sources[0].stall = Some(0.5);
            bench.delay = 40;
            let (mut good, mut numbers, mut drops) = (vec![], vec![], vec![]);
            for n in 0..400 {
                let bytes = random.rng.random_range(58..400);
                let frame = random.bytes(bytes);
                let said = random_said(&mut random);
                bench.send(&frame, said);
                match said.drop() {
                    Some(reason) => drops.push(reason),
                    None => {
                        good.push(frame);
                        numbers.push(n);
                    }
                }
            }
            bench.run(&mut random, 0.2);
            assert_eq!(bench.drops, drops, "seed {}", random.seed);
            assert_eq!(bench.sinks[0].values("va"), numbers, "seed {}", random.seed);
            assert!(bench.sinks[1].frames() == good, "seed {}", random.seed);
        }
    }

    #[test]
    fn frames_without_room_are_dropped_whole_and_the_wire_never_waits() {
        let mut random = Random::new(2);
        for beat_bytes in [8, 64] {
            let mut bench = bench(beat_bytes);
            bench.sources[0].stall = Some(0.0);
            let mut frames = Vec::new();
            for _ in 0..200 {
                let bytes = random.rng.random_range(58..3000);
                frames.push(random.bytes(bytes));
                bench.send(frames.last().unwrap(), GOOD);
            }
            while bench.sources[0].left() > 0 {
                // Nobody takes anything for a long time, then slowly.
                let stall = if bench.sim.cycles() % 1000 < 500 { 1.0 } else { 0.7 };
                bench.sinks.iter_mut().for_each(|s| s.stall = Some(stall));
                bench.step(&mut random, 0.0);
            }
            let came = &bench.sources[0].cycles;
            assert_eq!(came[came.len() - 1] - came[0], came.len() as u64 - 1, "the wire never waits");
            // When there is room again, a frame is served.
            bench.sinks.iter_mut().for_each(|s| s.stall = None);
            bench.run(&mut random, 0.1);
            frames.push(random.bytes(1000));
            bench.send(frames.last().unwrap(), GOOD);
            bench.run(&mut random, 0.1);

            let out = bench.sinks[1].frames();
            let numbers = bench.sinks[0].values("va");
            assert!(numbers.len() > 10 && numbers.len() < 150, "some find room: {}", numbers.len());
            let kept: Vec<_> = numbers.iter().map(|n| frames[*n as usize].clone()).collect();
            assert!(out == kept, "seed {}: the frames are those of the headers", random.seed);
            assert_eq!(out.last(), frames.last());
            assert_eq!(bench.drops, vec![DropReason::Overrun; frames.len() - out.len()]);
        }
    }

    #[test]
    fn frames_leave_back_to_back() {
        let mut random = Random::new(3);
        for beat_bytes in [8, 16, 32, 64] {
            let mut bench = bench(beat_bytes);
            let mut frames = Vec::new();
            for n in 0..100 {
                // As short as they come, later longer; all of them find room.
                frames.push(random.bytes(if n < 50 { 58 } else { 58 + n }));
                bench.send(frames.last().unwrap(), GOOD);
            }
            bench.sinks.iter_mut().for_each(|s| s.stall = Some(1.0));
            while bench.sources.iter().any(|s| s.left() > 0) || !bench.due.is_empty() {
                bench.step(&mut random, 0.0);
            }
            bench.sinks.iter_mut().for_each(|s| s.stall = None);
            bench.run(&mut random, 0.0);
            assert!(bench.sinks[1].frames() == frames, "seed {}", random.seed);
            let whole = |cycles: &[u64]| cycles[cycles.len() - 1] - cycles[0] == cycles.len() as u64 - 1;
            assert!(whole(&bench.sources[0].cycles), "no wait in at {beat_bytes}");
            assert!(whole(&bench.sinks[1].cycles), "no gap out at {beat_bytes}");
            let headers = &bench.sinks[0].cycles;
            let each = if config(beat_bytes).unhurried() { 2 } else { 1 };
            assert!(
                headers.windows(2).all(|pair| pair[1] - pair[0] == each),
                "no gap among the headers at {beat_bytes}"
            );
        }
    }

    #[test]
    fn who_sends_is_told_how_much_of_the_ring_is_taken() {
        let mut random = Random::new(8);
        for beat_bytes in [8, 64] {
            let mut bench = bench(beat_bytes);
            bench.sinks.iter_mut().for_each(|s| s.stall = Some(1.0));
            // 15 of 16 KiB.
            for _ in 0..15 {
                bench.send(&random.bytes(1024), GOOD);
            }
            let ring = 16384 / beat_bytes as usize;
            let mut told = [0; PRESSED as usize];
            while bench.sources[0].left() > 0 {
                bench.step(&mut random, 0.2);
                // Some beats are in the registers behind the ring, and what has come is told of two cycles later.
                let taken = bench.sources[0].cycles.len();
                let pressed = bench.sim.get("pressed");
                for (bit, part) in (1..).map(|quarters| ring / 4 * quarters).take(told.len()).enumerate() {
                    let told_now = pressed >> bit & 1 == 1;
                    assert!(taken >= part || !told_now, "{taken} beats of {ring}");
                    assert!(taken < part + 6 || told_now, "{taken} beats of {ring}");
                    told[bit] += u32::from(told_now);
                }
            }
            assert!(told[0] > told[1] && told[1] > told[2] && told[2] > 0);
            bench.sinks.iter_mut().for_each(|s| s.stall = None);
            bench.run(&mut random, 0.0);
            assert_eq!(bench.sim.get("pressed"), 0);
            assert_eq!(bench.sinks[1].frames().len(), 15);
        }
    }

    #[test]
    fn room_that_is_claimed_stays_free_and_all_of_it_is_there_where_nobody_claims_it() {
        for (beat_bytes, claims) in [(8, false), (8, true), (64, false), (64, true)] {
            let mut random = Random::new(9);
            let mut bench = bench(beat_bytes);
            bench.sinks.iter_mut().for_each(|s| s.stall = Some(1.0));
            bench.sim.set("claims", claims.into());
            for _ in 0..40 {
                bench.send(&random.bytes(640), GOOD);
            }
            bench.run(&mut random, 0.0);
            let (ring, each) = (16384 / beat_bytes, 640 / beat_bytes);
            let room = ring - if claims { least_room(&config(beat_bytes)) } else { 0 };
            let kept = 40 - bench.drops.len() as u32;
            // Some beats are in the registers after the ring.
            assert!((room / each..=room / each + 1).contains(&kept), "{beat_bytes}, {claims}: {kept}");
            assert_eq!(bench.sim.get("roomy"), claims.into(), "{beat_bytes}");
            assert!(bench.drops.iter().all(|reason| *reason == DropReason::Overrun));
        }
    }

    #[test]
    fn one_frame_takes_the_stated_time() {
        let mut random = Random::new(4);
        for beat_bytes in [8, 64] {
            let mut bench = bench(beat_bytes);
            bench.send(&random.bytes(100), GOOD);
            bench.run(&mut random, 0.0);
            let verdict = bench.sources[2].cycles[0];
            assert_eq!(bench.sinks[0].cycles[0] - verdict, u64::from(HEADERS_LATENCY));
            assert_eq!(bench.sinks[1].cycles[0] - verdict, u64::from(FRAME_LATENCY));
        }
    }

    #[test]
    fn bad_frames_take_no_room_from_good_ones() {
        let mut random = Random::new(5);
        let mut bench = bench(64);
        // Nobody takes anything.
        bench.sinks.iter_mut().for_each(|s| s.stall = Some(1.0));
        let mut frames = vec![random.bytes(1000)];
        bench.send(&frames[0], GOOD);
        for _ in 0..100 {
            bench.send(&random.bytes(2000), Said { icrc: false, ..GOOD });
            (0..60).for_each(|_| bench.step(&mut random, 0.0));
        }
        for _ in 0..3 {
            frames.push(random.bytes(4000));
            bench.send(frames.last().unwrap(), GOOD);
        }
        (0..400).for_each(|_| bench.step(&mut random, 0.0));
        assert_eq!(bench.drops, [DropReason::Icrc; 100]);
        bench.sinks.iter_mut().for_each(|s| s.stall = None);
        bench.run(&mut random, 0.0);
        assert!(bench.sinks[1].frames() == frames);
    }

    #[test]
    fn a_flood_of_bad_frames_does_not_wedge_the_buffer() {
        let mut random = Random::new(6);
        for beat_bytes in [8, 64] {
            let mut bench = bench(beat_bytes);
            for _ in 0..300 {
                bench.send(&random.bytes(500), Said { icrc: false, ..GOOD });
            }
            // Longer than the buffer.
            bench.send(&random.bytes(20_000), Said { reason: Some(DropReason::Malformed), icrc: true });
            bench.send(&random.bytes(20_000), GOOD);
            let good = random.bytes(4200);
            bench.send(&good, GOOD);
            bench.run(&mut random, 0.0);
            assert!(bench.sinks[1].frames() == [good]);
            assert_eq!(bench.drops[..300], [DropReason::Icrc; 300]);
            assert_eq!(bench.drops[300..], [DropReason::Malformed, DropReason::Overrun]);
        }
    }
}
