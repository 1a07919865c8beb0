// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers and doorbells for a CPU: a subordinate of AXI4-Lite with 64 data bits (AMBA AXI4, B1).
//!
//! ```text
//!  AW --> [ ] --+
//!               +--> in turns --> access --> registers
//!  W ---> [ ] --+       ^                       |
//!  AR --> [ ] ----------+                       v
//!  B  <-- [ ] <-- write is done       what was read --> behind the writes before --> [ ] --> R
//! ```
//!
//! A write of all eight bytes is one access of 8 bytes, one of the lower or upper four one of 4; one of no byte does nothing. Other strobes
//! are answered with SLVERR, and write nothing. A read is one of 8 bytes.
//!
//! One access at a time: three cycles a write, some six a read. A read is answered when all writes to memory have their responses that the card had taken
//! when it looked, so that who reads a register finds in memory what the card wrote before, as over PCIe.
//!
//! Reset forgets what is under way. Bad input: none but the strobes; an address without a register reads zero.

use super::barrier::{Bursts, COUNT};
use super::{Lite, LiteWrite};
use crate::host::csr::{CsrRequest, CsrResponse};
use crate::stream::half;
use ferrowire_rtl::{bits, cat, lit, module, Bundle, Fsm, Interface, Scope, Sig, Stream};

/// Responses OKAY and SLVERR.
const OKAY: u32 = 0;
const SLVERR: u32 = 2;

/// The answer to a read.
#[derive(Clone, Bundle)]
pub struct LiteRead {
    /// Eight bytes.
    pub data: Sig,
    /// OKAY.
    pub resp: Sig,
}

/// What comes of a CPU's accesses.
#[derive(Interface)]
pub struct Registers {
    /// Accesses, one at a time.
    pub access: Stream<CsrRequest>,
    /// Responses to writes.
    pub b: Stream<Sig>,
    /// Responses to reads.
    pub r: Stream<LiteRead>,
}

#[derive(Clone, Copy, Fsm)]
enum State {
    /// Takes the next one.
    Idle,
    /// A write's access is on offer.
    Write,
    /// A read's access is on offer.
    Read,
    /// What it read is waited for.
    Wait,
    /// Writes to memory before it are waited for.
    Order,
}

/// Serves a CPU. `bursts`: writes to memory.
#[module]
pub fn registers(
    m: &Scope,
    aw: Stream<Lite>,
    w: Stream<LiteWrite>,
    ar: Stream<Lite>,
    response: Stream<CsrResponse>,
    bursts: Vec<Bursts>,
) -> Registers {
    let state = m.fsm("state", State::Idle);
    let (aw, w, ar) = (half(&m.label("aw"), aw), half(&m.label("w"), w), half(&m.label("ar"), ar));
    [aw.prot, ar.prot].iter().for_each(|prot| m.discard(prot));
    let read_next = m.reg("read_next", 1).reset(0);
    let answered = m.reg("answered", 1).reset(0);
    let b = m.reg("b_resp", 2).no_reset();
    let b_valid = m.reg("b_valid", 1).reset(0);

    // Which four bytes are written.
    let halves = [0, 4].map(|at| w.strb.slice(at, 4));
    let odd = halves.map(|half| half.any() & !half.all());
    let bad = (odd[0] | odd[1]).named("bad_strobes");
    let upper = !halves[0].any();
    let nothing = upper & !halves[1].any();

    let idle = state.is(State::Idle);
    let writes = aw.valid & w.valid & !b_valid;
    let reads = ar.valid & !answered;
    let goes_read = (idle & reads & (read_next | !writes)).named("goes_read");
    let goes_write = (idle & writes & !goes_read).named("goes_write");
    m.when(goes_read, |m| m.set(&state, State::Read));
    m.when(goes_write & !bad & !nothing, |m| m.set(&state, State::Write));
    m.when(goes_read | goes_write, |m| m.set(&read_next, goes_write));

    let writing = state.is(State::Write);
    let address = writing.then(aw.address, ar.address);
    let place = cat(&[lit(2, 0), writing & upper, address.slice(3, address.width() - 3)]);
    let request = CsrRequest {
        address: place,
        write: writing,
        wide: !writing | (halves[0].any() & halves[1].any()),
        data: upper.then(w.data >> 32, w.data),
    };
    let access = Stream::new(m, "access", writing | state.is(State::Read), request);
    let written = (writing & access.ready) | (goes_write & (bad | nothing));
    aw.accept(written);
    w.accept(written);
    ar.accept(state.is(State::Read) & access.ready);
    m.when(writing & access.ready, |m| m.set(&state, State::Idle));
    m.when(written, |m| m.set(&b, bad.then(lit(2, SLVERR), lit(2, OKAY))));
    let b = Stream::new(m, "b", b_valid, b);
    m.set(&b_valid, written | (b_valid & !b.ready));

    // Writes before the answer.
    let data = m.reg("data", 64).no_reset();
    response.accept(state.is(State::Wait));
    m.when(state.is(State::Read) & access.ready, |m| m.set(&state, State::Wait));
    m.when(response.fire(), |m| {
        m.set(&data, response.data);
        m.set(&state, State::Order);
    });
    let behind = |(k, bursts): (usize, &Bursts)| {
        let before = m.reg(&format!("before{k}"), COUNT).no_reset();
        let reached = m.reg(&format!("reached{k}"), 1).no_reset();
        m.when(response.fire(), |m| m.set(&before, bursts.taken));
        m.set(&reached, !response.fire() & (reached | bursts.reached(before)));
        reached
    };
    let all: Vec<Sig> = bursts.iter().enumerate().map(behind).collect();
    let ordered = state.is(State::Order) & cat(&all).all();
    m.when(ordered, |m| m.set(&state, State::Idle));
    let r = Stream::new(m, "r", answered, LiteRead { data, resp: lit(2, OKAY) });
    m.set(&answered, ordered | (answered & !r.ready));
    Registers { access, b, r }
}

impl Lite {
    /// The shape.
    pub fn of() -> Self {
        Lite { address: bits(24), prot: bits(3) }
    }
}
