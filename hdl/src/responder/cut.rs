// SPDX-License-Identifier: MIT OR Apache-2.0
//! From runs to pieces: each within a page, and looked up.
//!
//! ```text
//!  run --> how far is the page's end? --> piece --+--> lookup --> translate --> admit
//!                                                 +--> bytes ---------------------> place
//!                                                 +--> pending, with the packet's last piece --> admit
//! ```
//!
//! A piece of one page costs 2 cycles, each further one 2 more; a packet that writes nothing costs one. A lookup asks for
//! all that the run's region must hold from there on, so the first of a message finds out whether it holds the whole.
//!
//! Behind a SEND that invalidates a key nothing is looked up until `admit` has decided on it: what follows finds the key as it leaves it
//! (IBTA volume 1, 9.4.1.1.1). That takes 20 cycles or so, and no time of the host.
//!
//! There may be as many pieces on the way as [`WAITING`]: whoever takes them, `place`, waits for `admit`'s decision on the packet, and
//! that for all its pieces; so there is room for those of one at least, and but for the worst for those of two. Reset: idle.

use crate::config::RnicConfig;
use crate::memory::{next_page, to_page_end, Lookup};
use crate::responder::order::{Pending, Run, PIECES};
use crate::stream::{few, fifo};
use ferrowire_rtl::{module, Interface, Scope, Sig, Stream};

/// Pieces between here and `place`.
pub const WAITING: u32 = 64;
const _: () = assert!(WAITING >= PIECES);

/// Packets between here and `admit`.
const PACKETS: u32 = 8;

/// What comes out.
#[derive(Interface)]
pub struct Cut {
    /// Questions to the key and page tables.
    pub lookup: Stream<Lookup>,
    /// Bytes of each piece.
    pub pieces: Stream<Sig>,
    /// Packets, in order.
    pub pending: Stream<Pending>,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Idle,
    /// The piece's length is known.
    Ask,
    /// There is more: to the next page's end.
    Measure,
    /// A key is about to become invalid.
    Hold,
}

/// Cuts runs into pieces. `invalidated`: what becomes of a SEND that invalidates a key is decided.
#[module]
pub fn cut(m: &Scope, cfg: &RnicConfig, runs: Stream<Run>, invalidated: Sig) -> Cut {
    let state = m.fsm("state", State::Idle);
    let (idle, at_ask, at_measure) = (state.is(State::Idle), state.is(State::Ask), state.is(State::Measure));
    let va = m.reg("va", 64).no_reset();
    let left = m.reg("left", 32).no_reset();
    let rest = m.reg("rest", 13).no_reset();
    let length = m.reg("length", 13).no_reset();
    let count = m.reg("count", 6).reset(0);
    let empty = runs.bytes.eq(0);

    // A run begins, or goes on behind a page's end.
    let from = m.mux(idle, &runs.va, &va);
    let to_page_end = to_page_end(from);
    let wanted = m.mux(idle, &runs.bytes, &rest);
    m.when(idle & runs.valid & !empty, |m| {
        m.set(&va, runs.va);
        m.set(&left, runs.left);
        m.set(&rest, runs.bytes);
        m.set(&state, State::Ask);
    });
    m.when(idle | at_measure, |m| m.set(&length, m.mux(wanted.le(to_page_end), &wanted, &to_page_end)));
    m.when(at_measure, |m| m.set(&state, State::Ask));

    // A piece.
    let ends_run = length.eq(rest);
    let ends = ends_run & runs.last;
    let (lookup_room, piece_room, pending_room) =
        (m.wire("lookup_room", 1), m.wire("piece_room", 1), m.wire("pending_room", 1));
    let may = at_ask & piece_room & (pending_room | !ends);
    let qpn = runs.facts.qp.zext(24);
    let question = Lookup { key: runs.key, pd: runs.pd, qpn, access: runs.access, va, length: left };
    let lookup = Stream::new(m, "lookup", may, question);
    m.drive(&lookup_room, lookup.ready);
    let asked = lookup.fire();
    let piece = Stream::new(m, "piece", at_ask & lookup_room & (pending_room | !ends), length);
    m.drive(&piece_room, piece.ready);
    let pieces = fifo(&m.label("pieces"), WAITING, piece);
    m.when(asked, |m| {
        m.set(&va, next_page(va));
        m.set(&left, left - length.zext(32));
        m.set(&rest, rest - length);
        m.when(ends_run, |m| m.set(&state, State::Idle)).otherwise(|m| m.set(&state, State::Measure));
    });

    // The packet, with its last piece or without any.
    let none = idle & runs.valid & empty;
    let closes = (asked & ends) | (none & runs.last);
    let all = count + asked.zext(6);
    let pending = Pending { facts: runs.facts.clone(), pieces: all, walk: runs.walk };
    let entering = Stream::new(m, "entering", closes, pending);
    m.drive(&pending_room, entering.ready);
    m.when(entering.fire(), |m| m.set(&count, 0)).otherwise_when(asked, |m| m.set(&count, all));
    let holds = entering.fire() & runs.facts.invalidates();
    m.when(holds, |m| m.set(&state, State::Hold));
    m.when(state.is(State::Hold) & invalidated, |m| m.set(&state, State::Idle));
    runs.accept((asked & ends_run) | (none & (pending_room | !runs.last)));
    let pending = few(&m.label("pending"), PACKETS, cfg.unhurried().then_some(2), entering);
    Cut { lookup, pieces, pending }
}
