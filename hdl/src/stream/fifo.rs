// SPDX-License-Identifier: MIT OR Apache-2.0
//! FIFOs of one clock.
//!
//! ```text
//!            +----------------+
//!  input --->| tail   store   |---> out          shallow: LUT RAM, read at once
//!            |        head    |                  deep: block RAM and an output register
//!            |                |                  prompt: deep, and a way around where it is empty
//!            |                |                  keyed: deep, and tells of what comes next
//!            +----------------+
//! ```
//!
//! One beat a cycle in and out at once. A beat can leave a shallow FIFO one cycle after it came, a deep one two cycles
//! after. `ready` of the input comes from registers alone: no path runs from the output's `ready` to it. Reset
//! empties.

use super::half;
use ferrowire_rtl::{clog2, module, Bundle, Collision, Interface, Mem, Scope, Sig, Stream, Style};

/// Pointers with one bit more than an address, so that full and empty differ. Both are registers of their own: what they are compared for is
/// known a cycle before.
struct Pointers {
    depth: u32,
    head: Sig,
    tail: Sig,
    /// Something is in it.
    any: Sig,
    /// All places are taken.
    full: Sig,
}

fn pointers(m: &Scope, depth: u32) -> Pointers {
    let width = clog2(u64::from(depth)) + 1;
    let flag = |name: &str| m.reg(name, 1).reset(0);
    let pointer = |name: &str| m.reg(name, width).reset(0);
    Pointers { depth, head: pointer("head"), tail: pointer("tail"), any: flag("any"), full: flag("full") }
}

impl Pointers {
    /// A beat comes, goes, or both, in this cycle.
    fn move_on(&self, m: &Scope, enters: Sig, leaves: Sig) {
        let level = (self.tail - self.head).named("level");
        m.when(enters, |m| m.set(&self.tail, self.tail + 1));
        m.when(leaves, |m| m.set(&self.head, self.head + 1));
        m.when(enters & !leaves, |m| {
            m.set(&self.any, 1);
            m.set(&self.full, level.eq(self.depth - 1));
        })
        .otherwise_when(leaves & !enters, |m| {
            m.set(&self.any, level.ne(1));
            m.set(&self.full, 0);
        });
    }
}

/// A FIFO in LUT RAM, for up to some 64 entries.
#[module]
pub fn fifo<T: Bundle + Interface>(m: &Scope, #[param] depth: u32, input: Stream<T>) -> Stream<T> {
    let at = pointers(m, depth);
    let address = clog2(u64::from(depth));
    let store = m.mem("store", depth, &input.payload).style(Style::Distributed).build();
    store.write(input.fire(), at.tail.trunc(address), &input.payload);
    input.accept(!at.full);
    let out = Stream::new(m, "out", at.any, store.read_now(at.head.trunc(address)));
    at.move_on(m, input.fire(), out.fire());
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
    let word = store.read(m, *take, at.head.trunc(store.addr_width()), Collision::Never);
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
    store.write(input.fire(), at.tail.trunc(store.addr_width()), &input.payload);
    input.accept(!at.full);
    let take = m.wire("take", 1);
    let out = behind(m, &at, &take, &store);
    at.move_on(m, input.fire(), take);
    out
}

/// What [`keyed_fifo`] shows.
#[derive(Interface)]
pub struct Keyed<T: Bundle + Interface> {
    /// The FIFO's output.
    pub out: Stream<T>,
    /// From the next cycle on another beat is on show.
    pub enters: Sig,
    /// Its key.
    pub coming: Sig,
}

/// A [`deep_fifo`] that tells the key of a beat in the cycle before it shows the beat, so that the key's row of a table is read
/// meanwhile ([`row_of`](super::row_of)). The keys, of few bits, lie in LUT RAM.
#[module]
pub fn keyed_fifo<T: Bundle + Interface>(
    m: &Scope,
    #[param] depth: u32,
    key: &dyn Fn(&T) -> Sig,
    input: Stream<T>,
) -> Keyed<T> {
    let address = clog2(u64::from(depth));
    let at = pointers(m, depth);
    let store = m.mem("store", depth, &input.payload).style(Style::Block).build();
    let of_input = key(&input.payload);
    let keys = m.mem("keys", depth, &of_input).style(Style::Distributed).build();
    store.write(input.fire(), at.tail.trunc(address), &input.payload);
    keys.write(input.fire(), at.tail.trunc(address), &of_input);
    input.accept(!at.full);
    let take = m.wire("take", 1);
    let out = behind(m, &at, &take, &store);
    at.move_on(m, input.fire(), take);
    Keyed { out, enters: take, coming: keys.read_now(at.head.trunc(address)) }
}

/// [`keyed_fifo`]; with a [`half`] behind block RAM where there is time, which is slow to read.
pub fn keyed<T: Bundle + Interface>(
    m: &Scope,
    time: bool,
    depth: u32,
    key: &dyn Fn(&T) -> Sig,
    input: Stream<T>,
) -> Keyed<T> {
    if !time {
        return keyed_fifo(m, depth, key, input);
    }
    let stored = deep_fifo(m, depth, input);
    let (enters, coming) = (stored.fire(), key(&stored.payload));
    Keyed { out: half(m, stored), enters, coming }
}

/// A FIFO in block RAM that a beat leaves one cycle after it came, where none is before it: for beats of few bits, for each has
/// its way around the store.
#[module]
pub fn prompt_fifo<T: Bundle + Interface>(m: &Scope, #[param] depth: u32, input: Stream<T>) -> Stream<T> {
    let at = pointers(m, depth);
    let address = clog2(u64::from(depth));
    let store = m.mem("store", depth, &input.payload).style(Style::Block).build();
    let held = m.reg("held", 1).reset(0);
    let around = m.reg("around", 1).reset(0);
    let fresh = m.reg_of("fresh", &input.payload);
    let (free, take) = (m.wire("free", 1), m.wire("take", 1));
    let passes = input.fire() & !at.any & free;
    let kept = input.fire() & !passes;
    store.write(kept, at.tail.trunc(address), &input.payload);
    input.accept(!at.full);
    // A word is read only after it was written: the pointers differ.
    let word = store.read(m, take, at.head.trunc(address), Collision::Never);
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
