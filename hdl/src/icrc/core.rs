// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CRC itself: one beat a cycle, frames back to back.
//!
//! ```text
//!            +-- sum of the bits in rows 0, not 1 .. --> reg --+
//!  data -----+-- sum of the bits in rows 1, not 0 .. --> reg --+--> sums of sums --> reg --> xor --> state --> valid, state, tag
//!            +-- ...                                 --> reg --+      for a row               ^        |
//!                                                                                             +-- M <--+  (not for the first beat)
//! ```
//!
//! Each row of the matrix adds up half of the beat's bits. Rows are taken five or six together: bits that are in the same of these rows
//! are added up once, and each row adds up half of these sums. That takes half the LUTs of row by row, and neither stage adds up more than some
//! 36 bits (two levels of LUT6). Nothing stalls: the block that feeds it has room for the result. Latency [`CORE_LATENCY`](super::CORE_LATENCY)
//! cycles from the last beat. Beats that are not `live` leave the state as it is. Bad input does not exist: any bits have a CRC.
//!
//! In place of the state its root stands, `root` times: the matrix of the loop is sparse then ([`Matrix::of_roots`]), and that of the data,
//! which is dense in any case, has the change in it. Of the state that comes out, the reader knows the root of what it compares it with, or squares it.
//!
//! [`unpad`] follows where the CRC itself is wanted: it takes back the zeros after the packet. Frames end in the same place of a group of four
//! bytes. Four zero bytes are 32 bits, and one of the state's root of five times: so steps of one, two, four and eight groups are hardly more than
//! shifts. The last matrix makes the state of the root, and takes back the bytes that always follow the packet.

use super::CrcBeat;
use super::{multiply, Matrix};
use ferrowire_rtl::{cat, clog2, module, Bundle, Interface, Scope, Sig};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// A frame's end: the state after it.
#[derive(Clone, Bundle)]
pub struct Remainder<T: Bundle> {
    /// A frame ended.
    pub valid: Sig,
    /// The state of the CRC, or its root.
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

/// Inputs of a LUT of the larger parts.
const LUT_INPUTS: usize = 6;

/// LUTs that add up so many bits.
fn luts(bits: usize) -> usize {
    bits.saturating_sub(1).div_ceil(LUT_INPUTS - 1)
}

/// The parity of single bits, each sum that of as many as a LUT takes. A tree of pairs makes more LUTs.
fn parity_of(bits: impl IntoIterator<Item = Sig>) -> Sig {
    let mut bits: VecDeque<Sig> = bits.into_iter().collect();
    while bits.len() > 1 {
        let sum: Vec<Sig> = bits.drain(..bits.len().min(LUT_INPUTS)).collect();
        bits.push_back(cat(&sum).parity());
    }
    bits.pop_front().expect("a bit")
}

/// Rows of a matrix, and the input bits by which of these rows they are in: bit 0 is the first of them.
struct Rows {
    rows: Range<u32>,
    classes: BTreeMap<u32, Vec<u32>>,
}

impl Rows {
    /// The rows of a matrix, in so many parts.
    fn split(matrix: &Matrix, parts: u32) -> Vec<Rows> {
        let part = |i: u32| {
            let rows = 32 * i / parts..32 * (i + 1) / parts;
            let mut classes = BTreeMap::<u32, Vec<u32>>::new();
            for (bit, column) in (0..).zip(matrix.columns()) {
                let class = column >> rows.start & ((1 << rows.len()) - 1);
                if class != 0 {
                    classes.entry(class).or_default().push(bit);
                }
            }
            Rows { rows, classes }
        };
        (0..parts).map(part).collect()
    }

    /// The numbers of the classes that a row adds up.
    fn classes_of(&self, row: u32) -> Vec<usize> {
        let has = |class: &u32| class >> (row - self.rows.start) & 1 == 1;
        (0..).zip(self.classes.keys()).filter(|(_, class)| has(class)).map(|(i, _)| i).collect()
    }

    fn luts(&self) -> usize {
        let sums = self.classes.values().map(|bits| luts(bits.len()));
        let rows = self.rows.clone().map(|row| luts(self.classes_of(row).len()));
        sums.chain(rows).sum()
    }
}

/// A matrix times the data, after two registers; the split is that of the fewest LUTs.
fn product(m: &Scope, matrix: &Matrix, data: Sig) -> Sig {
    let splits = (5..=16).map(|parts| Rows::split(matrix, parts));
    let split = splits.min_by_key(|split| split.iter().map(Rows::luts).sum::<usize>()).expect("some");
    let bits = data.chunks(1);
    let rows = split.iter().enumerate().flat_map(|(i, part)| {
        let sums = part.classes.values().map(|class| parity_of(class.iter().map(|bit| bits[*bit as usize])));
        let sums = m.delay(&format!("sums{i}"), &cat(&sums.collect::<Vec<_>>())).chunks(1);
        let row = |row| parity_of(part.classes_of(row).into_iter().map(|class| sums[class]));
        part.rows.clone().map(row).collect::<Vec<_>>()
    });
    m.delay("entered", &cat(&rows.collect::<Vec<_>>()))
}

/// Runs beats through the CRC, which begins at zero with each frame; `tag` travels beside the last beat. What comes out is the state's
/// root of so many times.
#[module]
pub fn icrc_core<T: Bundle + Interface>(
    m: &Scope,
    #[param] root: u32,
    beats: CrcBeat,
    tag: T,
) -> Remainder<T> {
    let bytes = beats.data.width() / 8;
    let entered = product(m, &Matrix::root(root).after(&Matrix::data(bytes)), beats.data);

    // Beside the sums.
    let valid1 = m.reg("valid1", 1).reset(0);
    m.set(&valid1, beats.valid);
    let (first1, live1, last1) =
        (m.delay("first1", &beats.first), m.delay("live1", &beats.live), m.delay("last1", &beats.last));
    let tag1 = delayed(m, "tag1", &tag);
    let valid2 = m.reg("valid2", 1).reset(0);
    m.set(&valid2, valid1);
    let (first, live, last) =
        (m.delay("first2", &first1), m.delay("live2", &live1), m.delay("last2", &last1));
    let tag2 = delayed(m, "tag2", &tag1);

    // The loop.
    let done = m.reg("done", 1).reset(0);
    m.set(&done, valid2 & last);
    let tag3 = delayed(m, "tag3", &tag2);
    let state = m.reg("state", 32).reset(0);
    let kept = multiply(&Matrix::advance(bytes).of_roots(root), state);
    m.when(valid2 & live, |m| m.set(&state, entered ^ (kept & (!first).repeat(32))));
    Remainder { valid: done, state, tag: tag3 }
}

/// Bytes of a group.
pub const GROUP: u32 = 4;
/// How often [`unpad`] wants the root: a group is a bit of it.
pub const UNPAD_ROOT: u32 = (8 * GROUP).ilog2();
/// Stages of [`unpad`], one cycle each.
pub const UNPAD_STAGES: u32 = 2;

/// The CRC, inverted as it is sent, from the root of the state after `extra` zero bytes and so many groups as the tag says.
#[module]
pub fn unpad(
    m: &Scope,
    #[param] beat_bytes: u32,
    #[param] extra: u32,
    remainder: Remainder<Sig>,
) -> Remainder<Sig> {
    let Remainder { valid, state, tag: groups } = remainder;
    let bits = clog2(u64::from(beat_bytes / GROUP));
    let step = |state: Sig, groups: Sig, bit: u32| {
        let stepped = multiply(&Matrix::retreat(GROUP << bit).of_roots(UNPAD_ROOT), state);
        m.mux(groups.bit(bit), &stepped, &state)
    };
    // Three steps, and the fourth with the last matrix: so each stage is four levels of LUTs.
    let first = bits.min(3);
    let valid = m.delay_zero("valid0", &valid);
    let stepped = (0..first).fold(state, |state, bit| step(state, groups, bit));
    let (state, groups) = (m.delay("state0", &stepped), m.delay("groups0", &groups));

    let valid = m.delay_zero("valid1", &valid);
    let state = (first..bits).fold(state, |state, bit| step(state, groups, bit)).chunks(1);
    let last = Matrix::retreat(extra).after(&Matrix::square(UNPAD_ROOT));
    let row = |row: u32| {
        let own = (0..).zip(last.columns()).filter(|(_, column)| *column >> row & 1 == 1);
        parity_of(own.map(|(bit, _): (usize, _)| state[bit]))
    };
    let state = m.delay("state1", &cat(&(0..32).map(row).collect::<Vec<_>>()));
    Remainder { valid, state: !state, tag: m.delay("groups1", &groups) }
}

#[cfg(test)]
mod tests {
    use super::super::CORE_LATENCY;
    use super::*;
    use crate::icrc::sample::state_from_zero;
    use crate::testing::Random;
    use ferrowire_rtl::{bits, build, Bits, Sim};
    use rand::Rng;

    /// Bytes after each packet of the test.
    const EXTRA: u32 = 6;

    /// Another for each width.
    fn root(bytes: u32) -> u32 {
        match bytes {
            8 => 0,
            16 => UNPAD_ROOT,
            _ => (8 * bytes).ilog2(),
        }
    }

    fn core(bytes: u32) -> Sim {
        let netlist = build("top", |m| {
            let shape = CrcBeat::of(bytes);
            let end = icrc_core(m, root(bytes), m.input_of("in", &shape), m.input_of("tag", &bits(8)));
            m.output("out", &end);
            let crc = unpad(
                m,
                bytes,
                EXTRA,
                m.input_of(
                    "pad",
                    &Remainder {
                        valid: bits(1),
                        state: bits(32),
                        tag: bits(clog2(u64::from(bytes / GROUP))),
                    },
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
                        expect(&mut sim, bytes, &mut want);
                    }
                }
            }
            sim.set("in_valid", 0);
            for _ in 0..5 {
                expect(&mut sim, bytes, &mut want);
            }
            assert!(want.is_empty());
        }
    }

    fn expect(sim: &mut Sim, bytes: u32, want: &mut Vec<(u64, u32, u64)>) {
        let now = want.first().is_some_and(|w| w.0 == sim.cycles());
        assert_eq!(sim.get("out_valid"), u64::from(now), "cycle {}", sim.cycles());
        if now {
            let (_, state, tag) = want.remove(0);
            let state = Matrix::root(root(bytes)).apply(state);
            assert_eq!((sim.get("out_state"), sim.get("out_tag")), (u64::from(state), tag));
        }
        sim.tick();
    }

    #[test]
    fn icrc_unpad_undoes_any_number_of_groups() {
        for bytes in [8u32, 16, 32, 64] {
            let mut sim = core(bytes);
            for groups in 0..bytes / GROUP {
                let packet = [1, 2, 3, groups as u8];
                let padded = [&packet[..], &vec![0; (EXTRA + GROUP * groups) as usize]].concat();
                sim.set("pad_valid", 1);
                sim.set("pad_state", u64::from(Matrix::root(UNPAD_ROOT).apply(state_from_zero(&padded))));
                sim.set("pad_tag", u64::from(groups));
                for _ in 0..UNPAD_STAGES {
                    sim.tick();
                    sim.set("pad_valid", 0);
                }
                assert_eq!(sim.get("crc_valid"), 1);
                assert_eq!(sim.get("crc"), u64::from(!state_from_zero(&packet)), "{groups} of {bytes}");
                sim.tick();
                assert_eq!(sim.get("crc_valid"), 0);
            }
        }
    }
}
