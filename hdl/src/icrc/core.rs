// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CRC itself: one beat a cycle, frames back to back.
//!
//! ```text
//!            +-- D, 8 bytes --> reg --+
//!  data -----+-- D, 8 bytes --> reg --+--> xor --> reg --> xor --> state --> valid, state, tag
//!            +-- ...        --> reg --+                     ^        |
//!                                                           +-- M <--+  (not for the first beat)
//! ```
//!
//! The sums over the data are split over two stages, so that no stage adds up more than some 36 bits (two levels of
//! LUT6); the loop holds 32 bits times a constant matrix and one addition, also two levels. Nothing stalls: whoever
//! feeds it has room for the result. Latency [`CORE_LATENCY`](super::CORE_LATENCY) cycles from the last beat.
//! Beats that are not `live` leave the state as it is. Bad input does not exist: any bits have a CRC.
//!
//! [`unpad`] follows where the CRC itself is wanted: it takes back the zeros behind the packet, up to three bits of
//! their number a stage (each row adds up 32 bits, each gated by a function of three: three levels of LUT6).

use super::CrcBeat;
use super::{multiply, Matrix};
use ferrowire_rtl::{cat, clog2, lit_bits, module, Bundle, Interface, Scope, Sig};

/// A frame's end: the state after it.
#[derive(Clone, Bundle)]
pub struct Remainder<T: Bundle> {
    /// A frame ended.
    pub valid: Sig,
    /// The state of the CRC.
    pub state: Sig,
    /// What came beside the last beat.
    pub tag: T,
}

/// A register a cycle behind `value`, without reset.
fn delayed<T: Bundle>(m: &Scope, name: &str, value: &T) -> T {
    let reg = m.reg_of(name, value);
    m.set_all(&reg, value);
    reg
}

/// Runs beats through the CRC, which begins at zero with each frame; `tag` travels beside the last beat.
#[module]
pub fn icrc_core<T: Bundle + Interface>(m: &Scope, beats: CrcBeat, tag: T) -> Remainder<T> {
    let bytes = beats.data.width() / 8;
    let matrix = Matrix::data(bytes);

    // First half of D * data: eight bytes together.
    let valid1 = m.reg("valid1", 1).reset(0);
    m.set(&valid1, beats.valid);
    let (first1, live1, last1) =
        (m.delay("first1", &beats.first), m.delay("live1", &beats.live), m.delay("last1", &beats.last));
    let tag1 = delayed(m, "tag1", &tag);
    let words = beats.data.chunks(64).into_iter().enumerate();
    let partial: Vec<Sig> = words
        .map(|(i, word)| delayed(m, &format!("partial{i}"), &multiply(&matrix.part(64 * i as u32, 64), word)))
        .collect();

    // Second half.
    let valid2 = m.reg("valid2", 1).reset(0);
    m.set(&valid2, valid1);
    let (first, live, last) =
        (m.delay("first2", &first1), m.delay("live2", &live1), m.delay("last2", &last1));
    let tag2 = delayed(m, "tag2", &tag1);
    let sum = partial.into_iter().reduce(|a, b| a ^ b).expect("at least eight bytes");
    let entered = delayed(m, "entered", &sum);

    // The loop.
    let done = m.reg("done", 1).reset(0);
    m.set(&done, valid2 & last);
    let tag3 = delayed(m, "tag3", &tag2);
    let state = m.reg("state", 32).reset(0);
    let kept = multiply(&Matrix::advance(bytes), state);
    m.when(valid2 & live, |m| m.set(&state, entered ^ (kept & (!first).repeat(32))));
    Remainder { valid: done, state, tag: tag3 }
}

/// Inputs of a LUT of the larger parts.
const LUT_INPUTS: usize = 6;

/// The parity of single bits, added up in groups of the first size, these in groups of the second: so that each group is a LUT. A tree of
/// pairs makes larger ones.
fn parity_in(bits: &[Sig], sizes: &[usize]) -> Sig {
    let Some((size, further)) = sizes.split_first() else { return cat(bits).parity() };
    let groups: Vec<Sig> = bits.chunks(*size).map(|group| cat(group).parity()).collect();
    parity_in(&groups, further)
}

/// Bits of `empty` that each stage of [`unpad`] deals with. Where frames last seven beats or more, two cycles more are nothing, and a stage that
/// chooses between two matrices is a sixth of one that chooses among eight.
fn unpad_split(beat_bytes: u32) -> Vec<u32> {
    let bits = clog2(u64::from(beat_bytes));
    if beat_bytes < 16 {
        return vec![1; bits as usize];
    }
    let stages = bits.div_ceil(3);
    (0..stages).map(|i| (bits + stages - 1 - i) / stages).collect()
}

/// Stages of [`unpad`], one cycle each.
pub fn unpad_stages(beat_bytes: u32) -> u32 {
    unpad_split(beat_bytes).len() as u32
}

/// The CRC, inverted as it is sent, from the state after `extra` zero bytes and as many as the tag says.
#[module]
pub fn unpad(
    m: &Scope,
    #[param] beat_bytes: u32,
    #[param] extra: u32,
    remainder: Remainder<Sig>,
) -> Remainder<Sig> {
    let Remainder { mut valid, mut state, tag: empty } = remainder;
    let (mut left, mut weight) = (empty, 1);
    let split = unpad_split(beat_bytes);
    // Where the matrices are the fullest already.
    let with_extra = if beat_bytes < 16 { split.len() - 1 } else { 0 };
    for (i, bits) in split.into_iter().enumerate() {
        let always = if i == with_extra { extra } else { 0 };
        let choices: Vec<Vec<_>> =
            (0..1 << bits).map(|n| Matrix::retreat(n * weight + always).rows()).collect();
        let count = left.trunc(bits);
        let row = |r: usize| {
            let table: Vec<Sig> = choices.iter().map(|rows| lit_bits(&rows[r])).collect();
            let gated = (state & m.select(count, &table)).chunks(1);
            parity_in(&gated, &[LUT_INPUTS - bits as usize, LUT_INPUTS])
        };
        let rows: Vec<Sig> = (0..32).map(row).collect();
        state = delayed(m, &format!("state{i}"), &cat(&rows));
        let next = m.reg(&format!("valid{i}"), 1).reset(0);
        m.set(&next, valid);
        valid = next;
        if bits < left.width() {
            left = delayed(m, &format!("left{i}"), &left.slice(bits, left.width() - bits));
        }
        weight <<= bits;
    }
    Remainder { valid, state: !state, tag: left }
}

#[cfg(test)]
mod tests {
    use super::super::CORE_LATENCY;
    use super::*;
    use crate::icrc::sample::state_from_zero;
    use crate::testing::Random;
    use ferrowire_rtl::{bits, build, Bits, Sim};
    use rand::Rng;

    fn core(bytes: u32) -> Sim {
        let netlist = build("top", |m| {
            let shape = CrcBeat::of(bytes);
            let end = icrc_core(m, m.input_of("in", &shape), m.input_of("tag", &bits(8)));
            m.output("out", &end);
            let crc = unpad(
                m,
                bytes,
                4,
                m.input_of(
                    "pad",
                    &Remainder { valid: bits(1), state: bits(32), tag: bits(clog2(u64::from(bytes))) },
                ),
            );
            m.output("crc_valid", &crc.valid);
            m.output("crc", &crc.state);
            m.discard(&crc.tag);
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        sim
    }

    #[test]
    fn icrc_core_takes_packets_back_to_back_at_a_fixed_latency() {
        let mut random = Random::new(2);
        for bytes in [8, 16, 32, 64] {
            let mut sim = core(bytes);
            let mut want: Vec<(u64, u32, u64)> = Vec::new();
            for frame in 0..60u64 {
                let beats = random.rng.random_range(1..6);
                let mut all = Vec::new();
                for i in 0..beats {
                    let pause = frame > 30 && random.chance(0.3);
                    for held in 0..=u32::from(pause) {
                        let valid = held == u32::from(pause);
                        // What a beat that is not valid, or not live, carries must not matter.
                        let live = i == 0 || random.chance(0.8);
                        let data = random.bytes(bytes as usize);
                        sim.set("in_valid", u64::from(valid));
                        sim.set("in_first", u64::from(i == 0));
                        sim.set("in_last", u64::from(i + 1 == beats));
                        sim.set("in_live", u64::from(live));
                        sim.set_bits("in_data", &Bits::from_bytes(8 * bytes, &data));
                        sim.set("tag", frame & 0xff);
                        if valid && live {
                            all.extend(data);
                        }
                        if valid && i + 1 == beats {
                            want.push((sim.cycles() + u64::from(CORE_LATENCY), state_from_zero(&all), frame));
                        }
                        expect(&mut sim, &mut want);
                    }
                }
            }
            sim.set("in_valid", 0);
            for _ in 0..5 {
                expect(&mut sim, &mut want);
            }
            assert!(want.is_empty());
        }
    }

    fn expect(sim: &mut Sim, want: &mut Vec<(u64, u32, u64)>) {
        let now = want.first().is_some_and(|w| w.0 == sim.cycles());
        assert_eq!(sim.get("out_valid"), u64::from(now), "cycle {}", sim.cycles());
        if now {
            let (_, state, tag) = want.remove(0);
            assert_eq!((sim.get("out_state"), sim.get("out_tag")), (u64::from(state), tag));
        }
        sim.tick();
    }

    #[test]
    fn icrc_unpad_undoes_any_number_of_zeros() {
        for bytes in [8u32, 16, 32, 64] {
            let mut sim = core(bytes);
            for empty in 0..bytes {
                let packet = [1, 2, 3, empty as u8];
                let padded = [&packet[..], &vec![0; 4 + empty as usize]].concat();
                sim.set("pad_valid", 1);
                sim.set("pad_state", u64::from(state_from_zero(&padded)));
                sim.set("pad_tag", u64::from(empty));
                for _ in 0..unpad_stages(bytes) {
                    sim.tick();
                    sim.set("pad_valid", 0);
                }
                assert_eq!(sim.get("crc_valid"), 1);
                assert_eq!(sim.get("crc"), u64::from(!state_from_zero(&packet)), "{empty} of {bytes}");
                sim.tick();
                assert_eq!(sim.get("crc_valid"), 0);
            }
        }
    }
}
