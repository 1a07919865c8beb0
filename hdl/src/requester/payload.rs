// SPDX-License-Identifier: MIT OR Apache-2.0
//! Payload between host memory and the packets.
//!
//! ```text
//!  ends {qp, lanes, last} --+
//!                           v
//!  read data -------------> mark --> FIFO, block RAM --> payload
//!                           |  ^
//!                           |  +--- barred: a WQE a QP
//!                           +-----> verdict of each packet --> launch
//! ```
//!
//! A FIFO of `payload_buffer_bytes` in block RAM, for which `commit` has reserved room before it asked: read data is
//! never held up. A packet that lay in several pieces came with as many reads; `tx::join` makes one run of them. One beat a
//! cycle.
//!
//! A read that failed still brings all its beats. Its packet, and every later one of the QP from that WQE on until it
//! starts anew, is poisoned: the mark goes with the last beat, `tx::icrc` throws the frame away, and the verdict tells `launch`.

use crate::config::RnicConfig;
use crate::requester::commit::Barred;
use crate::stream::{catch, deep_fifo, forward, row_of};
use crate::tx::Payload;
use crate::types::{DmaReadData, QpInit, TableWrite};
use ferrowire_rtl::{bits, lit, module, Bundle, Interface, Scope, Sig, Stream, Style};

/// Which packet a read is for.
#[derive(Clone, Bundle)]
pub struct End {
    /// The sender.
    pub qp: Sig,
    /// Index of its WQE.
    pub index: Sig,
    /// The packet ends with this read.
    pub last: Sig,
    /// Lane of its first byte.
    pub from: Sig,
    /// Lane of its last byte.
    pub end: Sig,
}

impl End {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        let lane = bits(cfg.lane_bits());
        End { qp: bits(cfg.qp_bits()), index: bits(16), last: bits(1), from: lane, end: lane }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct PayloadOut {
    /// The packets' payload, in order.
    pub payload: Stream<Payload>,
    /// For each packet, when its last beat has come: it must not be sent. The taker always has room.
    pub verdicts: Stream<Sig>,
    /// A beat has left: its room is free.
    pub taken: Sig,
    /// The last beat of a read has come.
    pub read: Sig,
}

/// The payload buffer. `ends` has an entry for each read, in order; `started` clears a QP's bar.
#[module]
pub fn payload(
    m: &Scope,
    cfg: &RnicConfig,
    data: Stream<DmaReadData>,
    ends: Stream<End>,
    started: Stream<QpInit>,
) -> PayloadOut {
    let bars_of = m.mem("bars", cfg.qps, &Barred::of()).style(Style::Block).build();
    // Whether the next is wanted is known late.
    let ends = catch(&m.label("next"), ends);
    let (enters, coming) = (ends.fire(), ends.qp);
    let ends = forward(m, ends);
    let failed = m.reg("failed", 1).reset(0);
    let bad = data.error | failed;
    // A bar is written a cycle later, and seen at once.
    let bars = m.wire("bars", 1);
    let barring = m.delay("barring", &bars);
    let bar_qp = m.delay("bar_qp", &ends.qp);
    let bar_index = m.delay("bar_index", &ends.index);
    let newest = Barred { barred: lit(1, 1), index: bar_index };
    // One write port: a packet that fails does not wait.
    started.accept(!barring);
    let write = TableWrite {
        enable: barring | started.fire(),
        index: m.mux(barring, &bar_qp, &started.qp),
        entry: Barred { barred: barring, index: bar_index },
    };
    bars_of.write(write.enable, write.index, &write.entry);
    let row = row_of(m, "bar", (enters, coming, ends.qp), &bars_of, &write);
    let bar = m.mux(barring & bar_qp.eq(ends.qp), &newest, &row);
    let stopped = bar.stops(ends.index);
    let poisoned = bad | stopped;
    let last = data.last & ends.last;
    let beat = Payload {
        data: data.data,
        ends_piece: data.last,
        from: ends.from,
        end: ends.end,
        last,
        poisoned: last & poisoned,
    };
    let beats = Stream::new(m, "beats", data.valid & ends.valid, beat);
    data.accept(ends.valid & beats.ready);
    let comes = beats.fire();
    let read = comes & data.last;
    ends.accept(read);
    m.when(comes, |m| m.set(&failed, bad & !last));
    let verdicts = Stream::new(m, "verdict", comes & last, poisoned);
    m.assert(!verdicts.valid | verdicts.ready, "a verdict finds room");

    m.drive(&bars, comes & last & bad & !stopped);
    m.discard(&started.psn);

    let payload = deep_fifo(&m.label("payload"), cfg.payload_buffer_bytes / cfg.beat_bytes, beats);
    let taken = payload.fire();
    PayloadOut { payload, verdicts, taken, read }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{drain, item, step, Item, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;

    /// Whether a bar keeps a WQE back.
    fn stops(bar: Option<u16>, index: u16) -> bool {
        bar.is_some_and(|bar| index.wrapping_sub(bar) < 0x8000)
    }

    fn rig(cfg: &RnicConfig) -> (Sim, Vec<Source>, Vec<Sink>) {
        let netlist = build("bench", |m| {
            let data = m.stream_in("data", &DmaReadData::of(cfg));
            let ends = m.stream_in("ends", &End::of(cfg));
            let out = payload(m, cfg, data, ends, m.stream_in("started", &QpInit::of(cfg)));
            m.stream_out("payload", out.payload);
            m.stream_out("verdict", out.verdicts);
            m.output("taken", &out.taken);
            m.output("read_before", &m.delay("read_before", &out.read));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let sources = vec![
            Source::new("data", &DmaReadData::of(cfg)),
            Source::new("ends", &End::of(cfg)),
            Source::new("started", &QpInit::of(cfg)),
        ];
        let mut sinks = vec![Sink::new("payload", &Payload::of(cfg)), Sink::new("verdict", &bits(1))];
        sinks[1].stall = Some(0.0);
        (sim, sources, sinks)
    }

    #[test]
    fn packets_come_whole_and_a_failed_read_poisons_them_until_their_qp_starts_anew() {
        for (seed, beat_bytes) in [(1, 8), (2, 64), (3, 16)] {
            let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
            let (mut sim, mut sources, mut sinks) = rig(&cfg);
            let mut random = Random::new(seed);
            // The oldest WQE of each QP whose payload could not be read; the next that is new.
            let (mut bars, mut next): ([Option<u16>; 16], [u16; 16]) = ([None; 16], [0xfffc; 16]);
            let mut kinds = [0; 3];
            let (mut expected, mut verdicts): (Vec<Item>, Vec<u64>) = Default::default();
            for round in 0..20 {
                for _ in 0..25 {
                    let qp = [1, 6, 14, random.rng.random_range(0..16)][random.rng.random_range(0..4)];
                    let reads = random.rng.random_range(1..=2);
                    let often = if bars[qp].is_some() { 0.3 } else { 0.1 };
                    let bad = random.chance(often).then(|| random.rng.random_range(0..reads));
                    // A new WQE, the same, or an earlier one again.
                    let back = random.rng.random_range(0..6);
                    let near = [0x7fff, 0x8000, 0xfffe, 0xffff, 0, 1][random.rng.random_range(0..6)];
                    let index = match bars[qp] {
                        Some(bar) if back > 2 => bar.wrapping_add(near),
                        _ => next[qp].wrapping_sub(back),
                    };
                    next[qp] = next[qp].wrapping_add(u16::from(back == 0));
                    let mut beats = Vec::new();
                    for read in 0..reads {
                        let last = read + 1 == reads;
                        let lanes: [u128; 2] =
                            std::array::from_fn(|_| random.rng.random_range(0..u128::from(beat_bytes)));
                        let lanes = [("from", lanes[0]), ("end", lanes[1])];
                        let end = [("qp", qp as u128), ("last", last.into()), ("index", index.into())];
                        sources[1].push_values(&[&end[..], &lanes].concat());
                        let count = random.rng.random_range(1..6);
                        for beat in 0..count {
                            let bytes = random.bits(8 * beat_bytes);
                            let mut data = item(&DmaReadData::of(&cfg), &[]);
                            data.insert("data".into(), bytes.clone());
                            *data.get_mut("last").unwrap() =
                                ferrowire_rtl::Bits::new(1, (beat + 1 == count).into());
                            *data.get_mut("error").unwrap() =
                                ferrowire_rtl::Bits::new(1, (bad == Some(read)).into());
                            sources[0].push(data);
                            beats.push((bytes, lanes, beat + 1 == count));
                        }
                    }
                    let stopped = stops(bars[qp], index);
                    let poisoned = bad.is_some() || stopped;
                    kinds[0] += usize::from(stopped && bad.is_none());
                    kinds[1] += usize::from(!poisoned && bars[qp].is_some());
                    if bad.is_some() && !stopped {
                        kinds[2] += usize::from(bars[qp].is_some());
                        bars[qp] = Some(index);
                    }
                    verdicts.push(poisoned.into());
                    for (i, (bytes, lanes, ends_piece)) in beats.iter().enumerate() {
                        let last = i + 1 == beats.len();
                        let flags = [
                            ("ends_piece", u128::from(*ends_piece)),
                            ("last", last.into()),
                            ("poisoned", (last && poisoned).into()),
                        ];
                        let mut beat = item(&Payload::of(&cfg), &[&flags[..], lanes].concat());
                        beat.insert("data".into(), bytes.clone());
                        expected.push(beat);
                    }
                }
                let stall = [0.0, 0.3, 0.7][round % 3];
                drain(&mut sim, &mut sources, &mut sinks, &mut random, stall, 20_000, 0);
                // Some start anew, whether they were barred or not.
                for (qp, bar) in bars.iter_mut().enumerate() {
                    if random.chance(0.3) {
                        *bar = None;
                        sources[2].push_values(&[("qp", qp as u128)]);
                    }
                }
                drain(&mut sim, &mut sources, &mut sinks, &mut random, stall, 20_000, 0);
            }
            drain(&mut sim, &mut sources, &mut sinks, &mut random, 0.0, 1, 1200);
            assert!(sinks[0].items == expected, "seed {}: {beat_bytes} bytes a beat", random.seed);
            assert_eq!(sinks[1].values(""), verdicts, "seed {}", random.seed);
            assert!(kinds.iter().all(|n| *n > 0), "too little of something: {kinds:?}");
        }
    }

    #[test]
    fn a_failed_read_poisons_its_wqe_and_later_ones_at_once_and_nothing_before() {
        let cfg = RnicConfig::named("generic-8b").unwrap();
        // Of two QPs, back to back: the bar of the packet before is not written yet. On two pages the first may be bad.
        let packets = [
            (3, 8, [false, false], false),
            (3, 9, [false, false], false),
            (3, 8, [true, false], true),
            // The same WQE, later ones new or again, and earlier ones, of which nothing was tried too late.
            (3, 8, [false, false], true),
            (3, 9, [false, false], true),
            (3, 7, [false, false], false),
            (4, 8, [false, false], false),
            (4, 9, [false, false], false),
            (3, 0x8007, [false, false], true),
            (3, 0x8008, [false, false], false),
            // A later one that fails moves no bar; an earlier one does.
            (3, 10, [false, true], true),
            (3, 9, [false, false], true),
            (3, 8, [false, false], true),
            (3, 7, [false, false], false),
            (3, 6, [false, true], true),
            (3, 7, [false, false], true),
            (3, 5, [false, false], false),
            (3, 6, [false, false], true),
            (4, 6, [false, true], true),
            (3, 5, [false, false], false),
            (4, 5, [false, false], false),
            (4, 6, [false, false], true),
            (3, 5, [true, true], true),
            (4, 5, [false, false], false),
            (3, 5, [false, false], true),
            (3, 4, [false, false], false),
        ];
        // Over the end of the numbers, or not.
        for base in [0u16, 0xfff7, 0xfffa, 0x7ff9] {
            let (mut sim, mut sources, mut sinks) = rig(&cfg);
            let mut random = Random::new(5);
            for (qp, index, bad, _) in packets {
                for (read, bad) in bad.into_iter().enumerate() {
                    let index = base.wrapping_add(index).into();
                    let end = [("qp", qp), ("last", u128::from(read == 1)), ("index", index)];
                    sources[1].push_values(&end);
                    sources[0].push_values(&[("last", 1), ("error", bad.into())]);
                }
            }
            drain(&mut sim, &mut sources, &mut sinks, &mut random, 0.0, 200, 30);
            let poisoned: Vec<u64> = packets.iter().map(|p| p.3.into()).collect();
            assert_eq!(sinks[1].values(""), poisoned);
            let marks: Vec<u64> = poisoned.iter().flat_map(|p| [0, *p]).collect();
            assert_eq!(sinks[0].values("poisoned"), marks);
        }
    }

    /// One read a packet: the next is judged in the cycle in which the bar is written.
    #[test]
    fn a_packet_of_one_beat_finds_the_bar_of_the_one_before() {
        let cfg = RnicConfig::named("generic-8b").unwrap();
        let (mut sim, mut sources, mut sinks) = rig(&cfg);
        let mut random = Random::new(6);
        let packets =
            [(9, 1, 1), (9, 0, 1), (10, 0, 1), (7, 1, 1), (8, 0, 1), (6, 0, 0), (5, 1, 1), (6, 0, 1)];
        for (index, bad, _) in packets {
            sources[1].push_values(&[("qp", 2), ("last", 1), ("index", index)]);
            sources[0].push_values(&[("last", 1), ("error", bad)]);
        }
        drain(&mut sim, &mut sources, &mut sinks, &mut random, 0.0, 100, 30);
        assert_eq!(sources[0].cycles[7] - sources[0].cycles[0], 7);
        assert_eq!(sinks[1].values(""), packets.map(|p| p.2));
    }

    /// A key goes when all reads by it are over (IBTA volume 1, 11.2.8.4): `memory::drain` counts them by this.
    #[test]
    fn a_read_is_over_with_its_last_beat_and_no_earlier() {
        let cfg = RnicConfig::named("generic-8b").unwrap();
        let (mut sim, mut sources, mut sinks) = rig(&cfg);
        let mut random = Random::new(7);
        let (mut begun, mut ends, mut over) = (0, Vec::new(), 0);
        for cycle in 0..6000 {
            // A read is asked for long before its data come.
            if cycle < 5000 && begun - over < 40 && random.chance(0.3) {
                sources[1].push_values(&[("qp", begun as u128 % 16), ("last", begun as u128 % 2)]);
                begun += 1;
            }
            if ends.len() < begun && (cycle >= 5000 || random.chance(0.2)) {
                let beats = random.rng.random_range(1..4);
                let before = ends.last().copied().unwrap_or(0);
                (1..=beats).for_each(|beat| sources[0].push_values(&[("last", u128::from(beat == beats))]));
                ends.push(before + beats);
            }
            step(&mut sim, &mut sources, &mut sinks, &mut random, 0.3);
            over += sim.get("read_before") as usize;
            let taken = sources[0].cycles.len() as u64;
            let whole = ends.iter().take_while(|end| **end <= taken).count();
            assert_eq!(over, whole, "cycle {cycle}: of {begun} reads");
        }
        assert!(over == begun && begun > 500, "{over} of {begun}");
    }

    #[test]
    fn read_data_is_never_held_up_while_there_is_room() {
        let cfg = RnicConfig::named("generic-8b").unwrap();
        let (mut sim, mut sources, mut sinks) = rig(&cfg);
        let mut random = Random::new(4);
        let beats = u64::from(cfg.payload_buffer_bytes / cfg.beat_bytes);
        sinks[0].stall = Some(1.0);
        for i in 0..beats {
            sources[1].push_values(&[("qp", u128::from(i % 16)), ("last", 1)]);
            sources[0].push_values(&[
                ("data", u128::from(i)),
                ("last", 1),
                ("error", u128::from(i % 5 == 0)),
            ]);
            // Starts want the same port of the table.
            sources[2].push_values(&[("qp", u128::from(i % 16))]);
        }
        drain(&mut sim, &mut sources, &mut sinks, &mut random, 0.0, 2 * beats, 2);
        let cycles = &sources[0].cycles;
        assert_eq!(cycles[cycles.len() - 1] - cycles[0], beats - 1, "seed {}", random.seed);
    }
}
