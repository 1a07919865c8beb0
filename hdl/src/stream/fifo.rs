// SPDX-License-Identifier: MIT OR Apache-2.0
//! FIFOs of one clock.
//!
//! ```text
//!            +----------------+
//!  input --->| tail   store   |---> out          shallow: LUT RAM, read at once
//!            |        head    |                  deep: block RAM and an output register
//!            |                |                  prompt: deep, and a way around where it is empty
//!            |                |                  shown: shallow, out of a register
//!            |                |                  keyed: deep, and tells of what comes next
//!            +----------------+
//!
//!            +------+   +-----------+   +------+
//!  input --->| part |-->| deep FIFO |-->| kept |---> out      folded: an entry lies in some rows
//!            |      |   |  of rows  |-->|      |
//!            +------+   +-----------+   +------+
//! ```
//!
//! One beat a cycle in and out at once; of a folded FIFO one in as many cycles as it has parts. A beat can leave a shallow FIFO one cycle after it
//! came, a deep or folded one two cycles after; a folded one takes it in the last of its cycles, the first in which it is `ready`. `ready` of
//! the input comes from registers alone: no path runs from the output's `ready` to it. Reset empties.

use super::half;
use ferrowire_rtl::{cat, clog2, lit, module, Bundle, Collision, Interface, Mem, Scope, Sig, Stream, Style};

/// Where the next beat comes from, and where it goes. That both are the same place means all or nothing: registers of their own know which, a cycle before
/// it is asked for, and from whether the one that moves comes to the other. Nothing is subtracted.
struct Pointers {
    head: Sig,
    tail: Sig,
    /// Something is in it.
    any: Sig,
    /// All places are taken.
    full: Sig,
}

fn pointers(m: &Scope, depth: u32) -> Pointers {
    assert!(depth > 1 && depth.is_power_of_two(), "{depth} places: pointers wrap at a power of two");
    let width = clog2(u64::from(depth));
    let flag = |name: &str| m.reg(name, 1).reset(0);
    let pointer = |name: &str| m.reg(name, width).reset(0);
    Pointers { head: pointer("head"), tail: pointer("tail"), any: flag("any"), full: flag("full") }
}

impl Pointers {
    /// A beat comes, goes, or both, in this cycle.
    fn move_on(&self, m: &Scope, enters: Sig, leaves: Sig) {
        let (behind_head, behind_tail) = (self.head + 1, self.tail + 1);
        m.when(enters, |m| m.set(&self.tail, behind_tail));
        m.when(leaves, |m| m.set(&self.head, behind_head));
        // What leaves is there, and what enters has a place: so whether one enters, which is known late, is one input of the last LUT of each flag.
        m.set(&self.any, enters | (self.any & !(leaves & behind_head.eq(self.tail))));
        m.set(&self.full, !leaves & (self.full | (enters & behind_tail.eq(self.head))));
    }
}

/// A FIFO in LUT RAM, for up to some 64 entries.
#[module]
pub fn fifo<T: Bundle + Interface>(m: &Scope, #[param] depth: u32, input: Stream<T>) -> Stream<T> {
    let at = pointers(m, depth);
    let store = m.mem("store", depth, &input.payload).style(Style::Distributed).build();
    // Whether a beat comes is known late: what lies in the next place without one is overwritten.
    store.write(!at.full, at.tail, &input.payload);
    input.accept(!at.full);
    let out = Stream::new(m, "out", at.any, store.read_now(at.head));
    at.move_on(m, input.fire(), out.fire());
    out
}

/// A FIFO in LUT RAM that a beat passes in the cycle in which it comes, where none is before it: for beats of few bits, for each has its way
/// around the store. There is a path from the input to the output, and none from the output's `ready` to the input's.
#[module]
pub fn through_fifo<T: Bundle + Interface>(m: &Scope, #[param] depth: u32, input: Stream<T>) -> Stream<T> {
    let at = pointers(m, depth);
    let store = m.mem("store", depth, &input.payload).style(Style::Distributed).build();
    // What passes is written once more, and not counted.
    store.write(input.fire(), at.tail, &input.payload);
    input.accept(!at.full);
    let payload = m.mux(at.any, &store.read_now(at.head), &input.payload);
    let out = Stream::new(m, "out", at.any | input.valid, payload);
    let passes = !at.any & out.ready;
    at.move_on(m, input.fire() & !passes, out.ready & at.any);
    out
}

/// A FIFO in LUT RAM that shows its beats out of a register, one cycle after they came: for beats of few bits, for each has its way around the store.
#[module]
pub fn shown_fifo<T: Bundle + Interface>(m: &Scope, #[param] depth: u32, input: Stream<T>) -> Stream<T> {
    let at = pointers(m, depth);
    let store = m.mem("store", depth, &input.payload).style(Style::Distributed).build();
    let held = m.reg("held", 1).reset(0);
    let shown = m.reg_of("shown", &input.payload);
    // What passes is written once more, and not counted.
    store.write(input.fire(), at.tail, &input.payload);
    input.accept(!at.full);
    let out = Stream::new(m, "out", held, shown.clone());
    let free = !held | out.ready;
    at.move_on(m, input.fire() & (at.any | !free), at.any & free);
    m.when(free, |m| {
        m.set(&held, at.any | input.valid);
        m.set_all(&shown, &m.mux(at.any, &store.read_now(at.head), &input.payload));
    });
    out
}

/// A few places for wide beats: LUT RAM, which costs a LUT and a half a bit however few, or where there is `time` so many registers in a row.
/// Beats leave them in the order and as late as there are registers, one in two cycles.
pub fn few<T: Bundle + Interface>(m: &Scope, depth: u32, time: Option<u32>, input: Stream<T>) -> Stream<T> {
    match time {
        None => fifo(m, depth, input),
        Some(registers) => (0..registers).fold(input, |input, _| half(m, input)),
    }
}

/// A FIFO that is deep in few cards: in LUT RAM, or where there is `time` for a cycle more in block RAM.
pub fn spare_fifo<T: Bundle + Interface>(m: &Scope, depth: u32, time: bool, input: Stream<T>) -> Stream<T> {
    if time {
        deep_fifo(m, depth, input)
    } else {
        fifo(m, depth, input)
    }
}

/// The output register behind a store in block RAM. `take`: a word goes there.
fn behind<T: Bundle + Interface>(m: &Scope, at: &Pointers, take: &Sig, store: &Mem<T>) -> Stream<T> {
    let held = m.reg("held", 1).reset(0);
    // A word is read only after it was written: the pointers differ.
    let word = store.read(m, *take, at.head, Collision::Never);
    let out = Stream::new(m, "out", held, word);
    m.drive(take, at.any & (!held | out.ready));
    m.when(*take, |m| m.set(&held, 1)).otherwise_when(out.ready, |m| m.set(&held, 0));
    out
}

/// A FIFO in block RAM. Its capacity is `depth` entries and the output register.
#[module]
pub fn deep_fifo<T: Bundle + Interface>(m: &Scope, #[param] depth: u32, input: Stream<T>) -> Stream<T> {
    let at = pointers(m, depth);
    let store = m.mem("store", depth, &input.payload).style(Style::Block).build();
    store.write(input.fire(), at.tail, &input.payload);
    input.accept(!at.full);
    let take = m.wire("take", 1);
    let out = behind(m, &at, &take, &store);
    at.move_on(m, input.fire(), take);
    out
}

/// A FIFO in block RAM for wide entries: block RAM is deep, so each entry lies in `parts` rows of a part of its width, and is written and read in
/// as many cycles. Its capacity is `depth` entries and the one on show. It is not `ready` before it has written all but the last part: what
/// offers only where there is room, or in a single cycle, needs a slice before it.
#[module]
pub fn folded_fifo<T: Bundle + Interface>(
    m: &Scope,
    #[param] depth: u32,
    #[param] parts: u32,
    input: Stream<T>,
) -> Stream<T> {
    assert!(parts > 1, "an entry of one part is one of a deep FIFO");
    let entry = input.payload.pack();
    let width = entry.width().div_ceil(parts);
    let padded = entry.zext(width * parts);
    let of_entry: Vec<Sig> = (0..parts).map(|part| padded.slice(part * width, width)).collect();
    let counter = |name: &str| m.reg(name, clog2(u64::from(parts))).reset(0);
    let (written, shown) = (counter("written"), counter("shown"));
    let next = |part: Sig| m.mux(part.eq(parts - 1), &lit(part.width(), 0), &(part + 1));

    let row = Stream::new(m, "row", input.valid, m.select(written, &of_entry));
    m.assert(input.valid | written.eq(0), "an entry stays until it is taken");
    m.when(row.fire(), |m| m.set(&written, next(written)));
    input.accept(row.ready & written.eq(parts - 1));
    let row = deep_fifo(&m.label("rows"), (depth * parts).next_power_of_two(), row);

    // The last part is the store's output register, those before it are here.
    let kept = m.reg("kept", width * (parts - 1)).no_reset();
    let whole = shown.eq(parts - 1);
    let all = cat(&[kept, row.payload]);
    let out = Stream::new(m, "out", row.valid & whole, input.payload.unpack(all.trunc(entry.width())));
    m.when(row.valid & !whole, |m| m.set(&kept, all.slice(width, width * (parts - 1))));
    row.accept(!whole | out.ready);
    m.when(row.fire(), |m| m.set(&shown, next(shown)));
    out
}

/// A FIFO for wide entries in block RAM: where there is `time` folded into so many parts.
pub fn wide_fifo<T: Bundle + Interface>(
    m: &Scope,
    depth: u32,
    time: Option<u32>,
    input: Stream<T>,
) -> Stream<T> {
    match time {
        None => deep_fifo(m, depth, input),
        Some(parts) => folded_fifo(m, depth, parts, input),
    }
}

/// What [`keyed`] shows.
#[derive(Interface)]
pub struct Keyed<T: Bundle + Interface> {
    /// The FIFO's output.
    pub out: Stream<T>,
    /// From the next cycle on another beat is on show.
    pub enters: Sig,
    /// Its key.
    pub coming: Sig,
}

/// A FIFO in block RAM for what comes in two cycles or more. It tells the key of a beat in the cycle before it shows the beat, so that the key's row of a table is
/// read meanwhile ([`row_of`](super::row_of)): a [`half`] follows the block RAM, which is slow to read. Where there is `time` the store is folded into so many parts.
pub fn keyed<T: Bundle + Interface>(
    m: &Scope,
    time: Option<u32>,
    depth: u32,
    key: &dyn Fn(&T) -> Sig,
    input: Stream<T>,
) -> Keyed<T> {
    let stored = wide_fifo(m, depth, time, input);
    let (enters, coming) = (stored.fire(), key(&stored.payload));
    Keyed { out: half(m, stored), enters, coming }
}

/// A FIFO in block RAM that a beat leaves one cycle after it came, where none is before it: for beats of few bits, for each has
/// its way around the store.
#[module]
pub fn prompt_fifo<T: Bundle + Interface>(m: &Scope, #[param] depth: u32, input: Stream<T>) -> Stream<T> {
    let at = pointers(m, depth);
    let store = m.mem("store", depth, &input.payload).style(Style::Block).build();
    let held = m.reg("held", 1).reset(0);
    let around = m.reg("around", 1).reset(0);
    let fresh = m.reg_of("fresh", &input.payload);
    let (free, take) = (m.wire("free", 1), m.wire("take", 1));
    let passes = input.fire() & !at.any & free;
    let kept = input.fire() & !passes;
    store.write(kept, at.tail, &input.payload);
    input.accept(!at.full);
    // A word is read only after it was written: the pointers differ.
    let word = store.read(m, take, at.head, Collision::Never);
    let out = Stream::new(m, "out", held, m.mux(around, &fresh, &word));
    m.drive(&free, !held | out.ready);
    m.drive(&take, at.any & free);
    at.move_on(m, kept, take);
    m.when(passes, |m| m.set_all(&fresh, &input.payload));
    m.when(passes | take, |m| {
        m.set(&held, 1);
        m.set(&around, passes);
    })
    .otherwise_when(out.ready, |m| m.set(&held, 0));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Beat;
    use crate::testing::{run, step, Item, Random, Sink, Source};
    use ferrowire_rtl::{bits, build, Sim};

    struct Bench {
        sim: Sim,
        source: [Source; 1],
        sink: [Sink; 1],
        random: Random,
        sent: Vec<Item>,
    }

    fn folded(width: u32, depth: u32, parts: u32) -> Bench {
        let shape = bits(width);
        let netlist = build("top", |m| {
            m.stream_out("out", folded_fifo(m, depth, parts, m.stream_in("in", &shape)));
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        let (source, sink) = ([Source::new("in", &shape)], [Sink::new("out", &shape)]);
        Bench { sim, source, sink, random: Random::new(1), sent: Vec::new() }
    }

    impl Bench {
        fn send(&mut self, width: u32, entries: usize) {
            for _ in 0..entries {
                let entry = Item::from([("".into(), self.random.bits(width))]);
                self.source[0].push(entry.clone());
                self.sent.push(entry);
            }
        }

        fn run(&mut self, stall: f64) {
            let n = self.sent.len();
            let done = |sinks: &[Sink]| sinks[0].items.len() == n;
            run(&mut self.sim, &mut self.source, &mut self.sink, &mut self.random, stall, 50_000, done);
            assert!(self.sink[0].items == self.sent, "seed {}", self.random.seed);
        }
    }

    /// Some that are no multiple of the parts, of fewer bits than parts, and wide ones.
    const WIDTHS: [u32; 5] = [3, 8, 13, 95, 346];

    #[test]
    fn a_folded_fifo_keeps_entries_and_their_order() {
        for (parts, width) in (2..=4).flat_map(|parts| WIDTHS.map(|width| (parts, width))) {
            for (into, out_of) in [(0.0, 0.0), (0.5, 0.5), (0.0, 0.9), (0.9, 0.0)] {
                let mut bench = folded(width, 4, parts);
                bench.source[0].stall = Some(into);
                bench.sink[0].stall = Some(out_of);
                bench.send(width, 200);
                bench.run(0.0);
            }
        }
    }

    #[test]
    fn a_folded_fifo_passes_an_entry_in_as_many_cycles_as_it_has_parts() {
        for parts in 2..=4 {
            let mut bench = folded(37, 8, parts);
            bench.send(37, 100);
            bench.run(0.0);
            let (came, left) = (&bench.source[0].cycles, &bench.sink[0].cycles);
            assert!(came.iter().zip(left).all(|(came, left)| came + 2 == *left), "{parts} parts");
            assert!(left.windows(2).all(|pair| pair[1] - pair[0] == u64::from(parts)), "{parts} parts");
        }
    }

    #[test]
    fn a_fifo_holds_as_many_as_it_is_deep_wherever_it_begins() {
        let shape = bits(9);
        type Kind = fn(&Scope, u32, Stream<Sig>) -> Stream<Sig>;
        let kinds: [Kind; 3] = [fifo, deep_fifo, through_fifo];
        for (depth, kind) in
            [2, 4, 16, 32].into_iter().flat_map(|depth| (0..3).map(move |kind| (depth, kind)))
        {
            let deep = kind == 1;
            let netlist = build("top", |m| {
                m.stream_out("out", kinds[kind](m, depth, m.stream_in("in", &shape)));
            });
            let mut sim = Sim::new(&netlist.unwrap());
            sim.reset();
            let (source, sink) = ([Source::new("in", &shape)], [Sink::new("out", &shape)]);
            let mut bench = Bench { sim, source, sink, random: Random::new(3), sent: Vec::new() };
            for _ in 0..=2 * depth {
                let taken = bench.source[0].cycles.len();
                bench.sink[0].stall = Some(1.0);
                bench.send(9, 2 * depth as usize - bench.source[0].left());
                for _ in 0..2 * depth + 4 {
                    step(&mut bench.sim, &mut bench.source, &mut bench.sink, &mut bench.random, 0.0);
                }
                // A deep one has one on show beside.
                let held = bench.source[0].cycles.len() - taken;
                assert_eq!(held as u32, depth + u32::from(deep), "{depth} places");
                bench.sink[0].stall = None;
                bench.source[0].stall = Some(1.0);
                for _ in 0..2 * depth + 4 {
                    step(&mut bench.sim, &mut bench.source, &mut bench.sink, &mut bench.random, 0.0);
                }
                bench.source[0].stall = None;
                assert_eq!(bench.sink[0].items.len(), bench.source[0].cycles.len(), "{depth} places");
            }
            assert!(bench.sent.starts_with(&bench.sink[0].items));
        }
    }

    #[test]
    fn a_beat_passes_an_empty_fifo_at_once_and_none_goes_past_another() {
        let shape = bits(9);
        let netlist = build("top", |m| m.stream_out("out", through_fifo(m, 4, m.stream_in("in", &shape))));
        let netlist = netlist.unwrap();
        for (into, out_of) in [(0.0, 0.0), (0.5, 0.0), (0.5, 0.5), (0.0, 0.9)] {
            let mut sim = Sim::new(&netlist);
            sim.reset();
            let (mut source, mut sink) = ([Source::new("in", &shape)], [Sink::new("out", &shape)]);
            (source[0].stall, sink[0].stall) = (Some(into), Some(out_of));
            let mut bench = Bench { sim, source, sink, random: Random::new(5), sent: Vec::new() };
            bench.send(9, 300);
            bench.run(0.0);
            if out_of == 0.0 {
                assert_eq!(bench.source[0].cycles, bench.sink[0].cycles);
            }
        }
    }

    #[test]
    fn a_folded_fifo_holds_as_many_as_it_is_deep_and_one_on_show() {
        for (parts, depth) in [(2, 8), (2, 64), (4, 8), (4, 16), (3, 8)] {
            let mut bench = folded(50, depth, parts);
            bench.send(50, 3 * depth as usize);
            bench.sink[0].stall = Some(1.0);
            for _ in 0..10 * depth * parts {
                step(&mut bench.sim, &mut bench.source, &mut bench.sink, &mut bench.random, 0.0);
            }
            let taken = bench.source[0].cycles.len() as u32;
            let rows = (depth * parts).next_power_of_two();
            assert_eq!(taken, rows / parts + 1, "{parts} parts");
            assert!(taken > depth);
            bench.sink[0].stall = None;
            bench.run(0.0);
        }
    }

    #[test]
    fn a_reset_empties_a_folded_fifo_in_the_middle_of_an_entry() {
        for (parts, cycles) in (2..=4).flat_map(|parts| (1..20).map(move |cycles| (parts, cycles))) {
            let mut bench = folded(50, 4, parts);
            bench.send(50, 20);
            bench.sink[0].stall = Some(1.0);
            for _ in 0..cycles {
                step(&mut bench.sim, &mut bench.source, &mut bench.sink, &mut bench.random, 0.0);
            }
            bench.sim.reset();
            let shape = bits(50);
            (bench.source, bench.sink) = ([Source::new("in", &shape)], [Sink::new("out", &shape)]);
            bench.sent.clear();
            bench.send(50, 20);
            bench.run(0.3);
        }
    }

    #[test]
    fn a_folded_fifo_keeps_the_fields_of_a_bundle_apart() {
        for parts in 2..=4 {
            let shape = Beat::of(8);
            let netlist = build("top", |m| {
                m.stream_out("out", folded_fifo(m, 4, parts, m.stream_in("in", &shape)));
            });
            let mut sim = Sim::new(&netlist.unwrap());
            sim.reset();
            let mut random = Random::new(2);
            let (mut source, mut sink) = ([Source::new("in", &shape)], [Sink::new("out", &shape)]);
            let sent: Vec<Vec<u8>> = (1..60).map(|n| random.bytes(n)).collect();
            sent.iter().for_each(|frame| source[0].push_frame(frame));
            run(&mut sim, &mut source, &mut sink, &mut random, 0.4, 50_000, |s| {
                s[0].frames_seen() == sent.len()
            });
            assert_eq!(sink[0].frames(), sent, "seed {}", random.seed);
        }
    }
}
