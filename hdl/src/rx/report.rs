// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports of peers (`docs/src/selective.md`, "Report"), out of their frames.
//!
//! ```text
//!  notices --> is it sound? ----------+
//!  frames ---> [ 64 bytes, as they come by ] --> one of four places --> eight parts --> gaps
//! ```
//!
//! The headers before a report have one of four lengths: IPv4 or IPv6, with a tag or without. So all of it lies within the 64 bytes that are kept of a frame, and each
//! bit has four places.
//!
//! A report that comes while the one before it is not taken is dropped, and so is one that is not sound; neither holds up the frames after it.
//!
//! **Throughput:** a report in some 16 cycles. **Latency:** 3 cycles after its last beat. **Bad input:** another length, another version, `heard` or `lost` out of range, a queue
//! pair without selective retransmission, and a source that is not its peer: `bad` pulses. **Reset:** idle. The longest path is from the offset through four places
//! to a word of marks.

use crate::config::RnicConfig;
use crate::fields::field;
use crate::rx::keep::report::{Gap, COUNT_BITS, WORDS};
use crate::stream::Beat;
use crate::types::Headers;
use ferrowire_rtl::{bits, cat, clog2, module, Bundle, Fsm, Interface, Scope, Sig, Stream};
use ferrowire_spec::wire::{bth, eth, ipv4, ipv6, report, udp, vlan};

/// Where a report may begin in its frame.
const PLACES: [usize; 4] = {
    let v4 = eth::BYTES + ipv4::BYTES + udp::BYTES + bth::BYTES;
    let v6 = eth::BYTES + ipv6::BYTES + udp::BYTES + bth::BYTES;
    [v4, v4 + vlan::BYTES, v6, v6 + vlan::BYTES]
};
/// What is kept of a frame: from here on.
const FROM: usize = PLACES[0];
const KEPT: usize = PLACES[3] + report::BYTES - FROM;

/// A report whose frame comes.
#[derive(Clone, Bundle)]
pub struct Notice {
    /// For which queue pair.
    pub qp: Sig,
    /// That has selective retransmission, its peer has sent it, and it is as long as reports are.
    pub sound: Sig,
    /// Where it begins in the frame.
    pub offset: Sig,
}

impl Notice {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Notice { qp: bits(cfg.qp_bits()), sound: bits(1), offset: bits(7) }
    }

    /// Of a report's headers.
    pub fn new(cfg: &RnicConfig, h: &Headers) -> Self {
        let known = !(h.dest_qpn >> cfg.qp_bits()).any();
        let sound = known & h.origin.from_peer & h.origin.selective & h.payload_bytes.eq(report::BYTES);
        Notice { qp: h.dest_qpn.trunc(cfg.qp_bits()), sound, offset: h.payload_offset }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Reported {
    /// What peers miss of requests.
    pub gaps: Stream<Gap>,
    /// A report that is not sound was dropped.
    pub bad: Sig,
}

#[derive(Clone, Copy, Fsm)]
enum State {
    Frame,
    Judge,
    Parts,
}

/// Takes reports; see the page's top.
#[module]
pub fn reported(m: &Scope, cfg: &RnicConfig, notices: Stream<Notice>, frames: Stream<Beat>) -> Reported {
    let lanes = cfg.beat_bytes as usize;
    let state = m.fsm("state", State::Frame);
    let collects = state.is(State::Frame);
    let fires = frames.valid & notices.valid;
    frames.accept(notices.valid);
    notices.accept(fires & frames.last);
    // One that begins while another one is there is passed over.
    let within = m.reg("within", 1).reset(0);
    let passes = m.reg("passes", 1).no_reset();
    let skips = within.then(passes, !collects);
    m.when(fires, |m| {
        m.set(&within, !frames.last);
        m.set(&passes, skips);
    });
    let count_bits = clog2((FROM + KEPT).div_ceil(lanes) as u64 + 1);
    let beat = m.reg("beat", count_bits).reset(0);
    m.when(fires, |m| {
        m.when(frames.last, |m| m.set(&beat, 0)).otherwise_when(!beat.all(), |m| m.set(&beat, beat + 1));
    });
    let kept: Vec<Sig> = (0..KEPT)
        .map(|i| {
            let (at, lane) = ((FROM + i) / lanes, ((FROM + i) % lanes) as u32);
            let byte = m.reg(&format!("kept_{i}"), 8).no_reset();
            m.when(fires & !skips & beat.eq(at), |m| m.set(&byte, frames.data.slice(8 * lane, 8)));
            byte
        })
        .collect();
    let kept = cat(&kept);
    let notice = m.reg_of("notice", &notices.payload);
    m.when(fires & frames.last & !skips, |m| {
        m.set_all(&notice, &notices.payload);
        m.set(&state, State::Judge);
    });

    // The four places differ in two bits.
    const _: () = assert!(
        PLACES[0] & 0x14 == 0x14
            && PLACES[1] & 0x14 == 0x10
            && PLACES[2] & 0x14 == 0
            && PLACES[3] & 0x14 == 4
    );
    let place = cat(&[notice.offset.bit(2), notice.offset.bit(4)]);
    let at = |place: usize| kept.slice(8 * (PLACES[place] - FROM) as u32, 8 * report::BYTES as u32);
    let bytes = m.select(place, &[at(2), at(3), at(1), at(0)]);
    let of = |f| field(&report::LAYOUT, &f, bytes);
    let (heard, lost) = (of(report::HEARD), of(report::LOST));
    let in_range = lost.any() & lost.le(heard) & heard.le(report::REACH) & heard.gt(1);
    let sound = notice.sound & of(report::VERSION).eq(report::CURRENT) & in_range;
    let judges = state.is(State::Judge);
    m.when(judges & sound, |m| m.set(&state, State::Parts))
        .otherwise_when(judges, |m| m.set(&state, State::Frame));
    let word = m.reg("word", clog2(WORDS.into())).reset(0);
    // The first bit on the wire is the highest of its byte.
    let marks = bytes.slice(64, 8 * WORDS * 4);
    let words: Vec<Sig> = (0..WORDS)
        .map(|w| {
            let bits = (0..32).map(|i| marks.bit(32 * w + (i & !7) + 7 - (i & 7))).collect::<Vec<_>>();
            cat(&bits)
        })
        .collect();
    let gap = Gap {
        flow: notice.qp.zext(cfg.qp_bits() + 1),
        base: of(report::BASE),
        heard: heard.trunc(COUNT_BITS),
        lost: lost.trunc(COUNT_BITS),
        word: m.select(word, &words),
        last: word.all(),
    };
    let gaps = Stream::new(m, "gaps", state.is(State::Parts), gap);
    m.when(gaps.fire(), |m| {
        m.set(&word, word + 1);
        m.when(word.all(), |m| m.set(&state, State::Frame));
    });
    Reported { gaps, bad: m.delay_zero("bad", &(judges & !sound)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{step, Random, Sink, Source};
    use crate::tx::report::report;
    use crate::types::{QpBroadcast, TxPacket};
    use ferrowire_rtl::{build, Sim};
    use ferrowire_spec::wire::Report;
    use rand::Rng;

    /// What is reported leaves as the layout has it, and comes as it was.
    #[test]
    fn a_report_is_the_same_on_both_sides_of_the_wire() {
        for beat_bytes in [8, 16, 32, 64] {
            let cfg = crate::config::RnicConfig {
                beat_bytes,
                ..crate::config::RnicConfig::named("generic-64b").unwrap()
            };
            let beat = Beat::of(beat_bytes);
            let netlist = build("bench", |m| {
                let out = report(
                    m,
                    &cfg,
                    m.input_of("broadcast", &QpBroadcast::of(&cfg)),
                    m.stream_in("told", &Gap::of(&cfg)),
                );
                m.stream_out("packet", out.packet);
                m.stream_out("payload", out.payload.expect("40 bytes").map(|beat| beat.data));
                let out = reported(
                    m,
                    &cfg,
                    m.stream_in("notices", &Notice::of(&cfg)),
                    m.stream_in("frames", &beat),
                );
                m.stream_out("heard", out.gaps);
                m.output("bad", &out.bad);
            });
            let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
            sim.reset();
            let mut sources = [
                Source::new("told", &Gap::of(&cfg)),
                Source::new("notices", &Notice::of(&cfg)),
                Source::new("frames", &beat),
            ];
            let mut sinks = [
                Sink::new("packet", &TxPacket::of(&cfg)),
                Sink::new("payload", &bits(8 * beat_bytes)),
                Sink::new("heard", &Gap::of(&cfg)),
            ];
            let mut random = Random::new(7 + u64::from(beat_bytes));
            let (mut sent, mut bad) = (Vec::new(), 0);
            for round in 0..300 {
                let rng = &mut random.rng;
                let qp: u64 = rng.random_range(0..cfg.qps.into());
                let heard = rng.random_range(2..=256u16);
                let mut wanted = Report {
                    base: rng.random::<u32>() >> 8,
                    heard,
                    lost: rng.random_range(1..=heard),
                    ..Report::default()
                };
                (0..256).filter(|_| rng.random::<bool>()).for_each(|psn| wanted.mark(psn));
                let parts: Vec<Vec<(&str, u128)>> = (0..8u32)
                    .map(|w| {
                        let word: u32 = (0..32).map(|i| u32::from(wanted.has(32 * w + i)) << i).sum();
                        vec![
                            ("flow", qp.into()),
                            ("base", wanted.base.into()),
                            ("heard", wanted.heard.into()),
                            ("lost", wanted.lost.into()),
                            ("word", word.into()),
                            ("last", u128::from(w == 7)),
                        ]
                    })
                    .collect();
                parts.iter().for_each(|part| sources[0].push_values(part));
                let wanted_bytes = wanted.to_bytes().unwrap();
                let seen = sinks[0].items.len();
                let beats = report_beats(beat_bytes);
                let before = sinks[1].items.len();
                for _ in 0..200 {
                    step(&mut sim, &mut sources, &mut sinks, &mut random, 0.2);
                }
                assert_eq!(sinks[0].items.len(), seen + 1);
                let packet = &sinks[0].items[seen];
                assert_eq!(packet["qp"].to_u64(), qp);
                assert_eq!((packet["opcode"].to_u64(), packet["psn"].to_u64()), (0xc0, wanted.base.into()));
                let bytes: Vec<u8> =
                    sinks[1].items[before..].iter().flat_map(|item| item[""].to_bytes()).collect();
                assert_eq!(sinks[1].items.len(), before + beats);
                assert_eq!(bytes[..40], wanted_bytes[..]);
                // Back again, after one of four headers.
                let place = PLACES[round % 4];
                let spoils = random.chance(0.2);
                let mut frame = random.bytes(place);
                let mut bytes = wanted_bytes.to_vec();
                let sound = !(spoils && round % 2 == 0);
                if spoils && round % 2 == 1 {
                    // Another version, more lost than heard, or nothing lost.
                    match round % 3 {
                        0 => bytes[0] ^= 2,
                        1 => bytes[6..8].copy_from_slice(&(heard + 1).to_be_bytes()),
                        _ => bytes[6..8].fill(0),
                    }
                }
                frame.extend(&bytes);
                frame.extend(random.bytes(4));
                sources[1].push_values(&[
                    ("qp", qp.into()),
                    ("sound", sound.into()),
                    ("offset", place as u128),
                ]);
                sources[2].push_frame(&frame);
                let had = sinks[2].items.len();
                for _ in 0..150 {
                    step(&mut sim, &mut sources, &mut sinks, &mut random, 0.2);
                    bad += sim.get("bad");
                }
                if spoils {
                    assert_eq!(sinks[2].items.len(), had);
                    sent.push(());
                    continue;
                }
                assert_eq!(sinks[2].items.len(), had + 8);
                for (item, part) in sinks[2].items[had..].iter().zip(&parts) {
                    for (field, value) in part {
                        assert_eq!(item[*field].to_u128(), *value, "{field} of round {round}");
                    }
                }
            }
            assert_eq!(bad, sent.len() as u64, "{beat_bytes}");
        }
    }

    fn report_beats(beat_bytes: u32) -> usize {
        (report::BYTES as u32).div_ceil(beat_bytes) as usize
    }
}
