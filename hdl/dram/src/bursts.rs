// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts of AXI4, one at a time: of AW and AR in turns where both wait.
//!
//! A burst outside of the memory's window has DECERR as its response; if the memory could not be used, each has SLVERR. Reset forgets what has begun.

use ferrowire_rtl::{lit, Fsm, Scope, Sig, Stream};
use ferrowire_serial::axi::{Address, DECERR, OKAY, SLVERR};

use crate::start::Status;

/// What is going on.
#[derive(Clone, Copy, Fsm)]
pub(crate) enum State {
    /// Nothing: a burst is taken.
    Idle,
    /// A burst is written.
    Write,
    /// A burst is read.
    Read,
}

/// The burst that is going on.
pub(crate) struct Burst {
    /// Back to [`State::Idle`] by whoever carries it out.
    pub state: ferrowire_rtl::Fsm<State>,
    /// Its next beat of eight bytes, counted from the memory's first: counted up by them.
    pub at: Sig,
    /// Beats behind that: counted down by them.
    pub left: Sig,
    /// `xRESP` of all its beats.
    pub resp: Sig,
    /// Its ID.
    pub id: Sig,
}

/// See the page's top; none is taken before the memory's start is over. The window: `bytes` from the bus address `base` on.
pub(crate) fn bursts(
    m: &Scope,
    (bytes, base): (u64, u64),
    aw: &Stream<Address>,
    ar: &Stream<Address>,
    status: &Status,
) -> Burst {
    let state = m.fsm("state", State::Idle);
    let opens = state.is(State::Idle) & status.done;
    let write_next = m.reg("write_next", 1).reset(0);
    let takes_write = aw.valid & (write_next | !ar.valid);
    aw.accept(opens & takes_write);
    ar.accept(opens & !takes_write);
    let window = bytes.trailing_zeros();
    let at = m.reg("at", window - 3).no_reset();
    let left = m.reg("left", 8).no_reset();
    let resp = m.reg("resp", 2).no_reset();
    let id = m.reg("id", aw.id.width()).no_reset();
    let begin = |m: &Scope, burst: &Address| {
        let outside = burst.addr.slice(window, 64 - window).ne(lit(64 - window, base >> window));
        m.set(&at, burst.addr.slice(3, window - 3));
        m.set(&left, burst.len);
        m.set(&resp, status.broken.then(lit(2, SLVERR), outside.then(lit(2, DECERR), lit(2, OKAY))));
        m.set(&id, burst.id);
    };
    m.when(aw.fire(), |m| {
        begin(m, &aw.payload);
        m.set(&state, State::Write);
        m.set(&write_next, 0);
    });
    m.when(ar.fire(), |m| {
        begin(m, &ar.payload);
        m.set(&state, State::Read);
        m.set(&write_next, 1);
    });
    Burst { state, at, left, resp, id }
}
