// SPDX-License-Identifier: MIT OR Apache-2.0
//! From runs to pieces: each within a page, and looked up.
//!
//! ```text
//!  run --> how far is the page's end? --> piece --+--> lookup --> translate --> admit
//!                                                 +--> bytes ---------------------> place
//!                                                 +--> pending, with the packet's last piece --> admit
//! ```
//!
//! A run costs a cycle, and each further piece of it 2 more: the next run's length up to its page's end is worked out while this one is looked
//! up. So requests and READ responses pass as fast as the wire brings them. Where there is time, each run costs 2. A lookup asks for
//! all that the run's region must hold from there on, so the first of a message finds out whether it holds the whole.
//!
//! Behind a SEND that invalidates a key nothing is looked up until `admit` has decided on it: what follows finds the key as it leaves it
//! (IBTA volume 1, 9.4.1.1.1). That takes 20 cycles or so, and no time of the host.
//!
//! There may be as many pieces on the way as [`WAITING`]: whoever takes them, `place`, waits for `admit`'s decision on the packet, and
//! that for all its pieces; so there is room for those of one at least, and but for the worst for those of two. Reset: idle.

use crate::config::RnicConfig;
use crate::memory::{next_page, to_page_end, Lookup};
use crate::responder::order::{Facts, Pending, Run, PIECES};
use crate::stream::{fifo, half, spare_fifo};
use ferrowire_rtl::{module, Bundle, Interface, Scope, Sig, Stream};

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
    /// The piece's length is known.
    Ask,
    /// There is more: to the next page's end.
    Measure,
    /// A key is about to become invalid.
    Hold,
}

/// What of a run does not change from piece to piece.
#[derive(Clone, Bundle)]
struct Whole {
    facts: Facts,
    key: Sig,
    pd: Sig,
    access: Sig,
    last: Sig,
    walk: Sig,
    empty: Sig,
}

/// Bytes of a run's first piece: up to the page's end, if it does not end before.
pub(super) fn first_length(m: &Scope, run: &Run) -> Sig {
    within_page(m, run.va, run.bytes)
}

/// So many bytes, or as many as there are up to the page's end. Whether they end before the page does is known beside how far that is: as many as the
/// address has to go to the page's last byte and one more, or fewer.
fn within_page(m: &Scope, va: Sig, bytes: Sig) -> Sig {
    let within = bytes.le((!va.trunc(12)).zext(13));
    m.mux(within, &bytes, &to_page_end(va))
}

/// Cuts runs into pieces. `first`: of a run, as [`first_length`]; `invalidated`: what becomes of a SEND that invalidates a key is decided.
#[module]
pub fn cut(m: &Scope, cfg: &RnicConfig, runs: Stream<Run>, first: Sig, invalidated: Sig) -> Cut {
    let state = m.fsm("state", State::Ask);
    let at_measure = state.is(State::Measure);
    let held = m.reg("held", 1).reset(0);
    let Run { facts, key, pd, access, last, walk, .. } = runs.payload.clone();
    let whole = Whole { facts, key, pd, access, last, walk, empty: runs.bytes.eq(0) };
    let run = m.reg_of("run", &whole);
    let va = m.reg("va", 64).no_reset();
    let left = m.reg("left", 32).no_reset();
    let rest = m.reg("rest", 13).no_reset();
    let length = m.reg("length", 13).no_reset();
    let count = m.reg("count", 6).reset(0);

    // A run begins, or goes on behind a page's end.
    let goes = m.wire("goes", 1);
    runs.accept(if cfg.unhurried() { !held } else { !held | goes });
    let comes = runs.fire();
    m.set(&held, comes | (held & !goes));
    m.when(comes, |m| {
        m.set_all(&run, &whole);
        m.set(&va, runs.va);
        m.set(&left, runs.left);
        m.set(&rest, runs.bytes);
    });
    m.when(comes | at_measure, |m| m.set(&length, m.mux(at_measure, &within_page(m, va, rest), &first)));
    m.when(at_measure, |m| m.set(&state, State::Ask));

    // A piece.
    let at_run = held & state.is(State::Ask);
    let at_ask = at_run & !run.empty;
    let ends_run = length.eq(rest);
    let ends = ends_run & run.last;
    let (lookup_room, piece_room, pending_room) =
        (m.wire("lookup_room", 1), m.wire("piece_room", 1), m.wire("pending_room", 1));
    let may = at_ask & piece_room & (pending_room | !ends);
    let qpn = run.facts.qp.zext(24);
    let question = Lookup { key: run.key, pd: run.pd, qpn, access: run.access, va, length: left };
    let lookup = Stream::new(m, "lookup", may, question);
    m.drive(&lookup_room, lookup.ready);
    let asked = lookup.fire();
    let piece = Stream::new(m, "piece", at_ask & lookup_room & (pending_room | !ends), length);
    m.drive(&piece_room, piece.ready);
    let pieces = spare_fifo(&m.label("pieces"), WAITING, cfg.unhurried(), piece);
    m.when(asked & !ends_run, |m| {
        m.set(&va, next_page(va));
        m.set(&left, left - length.zext(32));
        m.set(&rest, rest - length);
        m.set(&state, State::Measure);
    });

    // The packet, with its last piece or without any.
    let none = at_run & run.empty;
    let closes = (asked & ends) | (none & run.last);
    let all = count + asked.zext(6);
    let pending = Pending { facts: run.facts.clone(), pieces: all, walk: run.walk };
    let entering = Stream::new(m, "entering", closes, pending);
    m.drive(&pending_room, entering.ready);
    m.when(entering.fire(), |m| m.set(&count, 0)).otherwise_when(asked, |m| m.set(&count, all));
    let holds = entering.fire() & run.facts.invalidates(cfg);
    m.when(holds, |m| m.set(&state, State::Hold));
    m.when(state.is(State::Hold) & invalidated, |m| m.set(&state, State::Ask));
    m.drive(&goes, (asked & ends_run) | (none & (pending_room | !run.last)));
    // `admit` has a register after it: where there is time that and one here are enough.
    let pending = match cfg.unhurried() {
        true => half(&m.label("pending"), entering),
        false => fifo(&m.label("pending"), PACKETS, entering),
    };
    Cut { lookup, pieces, pending }
}
