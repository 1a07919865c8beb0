// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a packet's payload goes: the runs of bytes that it is cut into by the SGEs of a receive.
//!
//! ```text
//!  order ---- WRITE, or nothing to write -----------------------------> run
//!    |
//!    +--> wanted --> receive WQE --> SGE --> how much of it is left --> run, run, ...
//!           ^                                          |
//!           +------ cursor of the QP {SGE, offset} <---+
//! ```
//!
//! A SEND's bytes fill the SGEs in their order; the cursor says where the next packet of the message goes on. An SGE of no
//! bytes is passed over. Where the SGEs end before the packet does, nothing of it will be written: the receive is too small
//! (IBTA volume 1, 9.7.4.1.6). Of a packet of UC or UD that is one from a shared queue `check` is told whether that
//! is so, in the cycle behind the walk.
//!
//! From the QP's own queue, the receive of such a message is for the next one, and the rest of the message is as
//! short of room. What `check` has let pass
//! meanwhile counts it as used: so `lags` has how many indices it is ahead, until its row is mended and `Mend` comes by. While there are any, all
//! of UC and UD that has a receive is looked up there, 2 cycles more.
//!
//! What decides whether an order asks for a WQE, and for which, comes with it from registers; so does what has become of the WQE when its SGEs are
//! compared.
//!
//! A WRITE costs 2 cycles, a SEND 3 for its first SGE where the WQE is on the card, one more in the middle of a message,
//! and 2 for each further SGE; where beats are narrow, each SGE is looked up by itself. The cursor counts only within a message, so that no start has to clear it. The longest path is
//! the comparison of the packet's bytes with those of an SGE that comes, or is entered.
//!
//! Reset: idle.

use crate::config::RnicConfig;
use crate::fields::field;
use crate::requester::{grain, UNIT};
use crate::responder::check::{open_bits, packets_ahead};
use crate::responder::order::{Class, Facts, Judged, Order, Run, Walk};
use crate::responder::receive::{Received, Wanted};
use crate::responder::reply::Kind;
use crate::stream::{deep_fifo, forward};
use ferrowire_rtl::{bits, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::recv_wqe::SGES_PER_UNIT;
use ferrowire_spec::queue::send_wqe::sge;
use ferrowire_spec::queue::Access;

/// What comes out.
#[derive(Interface)]
pub struct Walked {
    /// Receive WQEs that are needed.
    pub wanted: Stream<Wanted>,
    /// Where the packets go: at least one run each, in order.
    pub runs: Stream<Run>,
    /// What became of a SEND for which `check` waits.
    pub judged: Judged,
    /// QPs of which a receive was not used after all.
    pub mends: Stream<Sig>,
    /// A SEND of UC or UD from a QP's own queue has none to mend.
    pub settled: Sig,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Idle,
    /// In the middle of a message: the cursor is known.
    Cursor,
    /// The SGE is awaited.
    Unit,
    /// An SGE has been used in part before.
    Enter,
    /// Where there is time: it is compared with what is left of the packet.
    Measure,
    Judge,
    /// Nothing to walk, but the index has been looked up.
    Straight,
    /// A row of `check` has been mended.
    Mend,
}

/// An order, and what is known of it when it comes.
#[derive(Clone, Bundle)]
struct Due {
    order: Order,
    /// Its bytes go to a receive.
    scatters: Sig,
    /// Of UC or UD, with a receive of the QP's own queue.
    own: Sig,
}

impl Due {
    fn know(order: &Order) -> Self {
        let facts = &order.facts;
        let executes = Class::Execute.is(facts.class);
        Due {
            order: order.clone(),
            scatters: executes & facts.send & facts.bytes.ne(0),
            own: facts.quiet & facts.holds & !facts.shared & executes,
        }
    }
}

/// How far a message has come.
#[derive(Clone, Bundle)]
struct Cursor {
    sge: Sig,
    offset: Sig,
    /// Its receive was too small.
    short: Sig,
}

impl Cursor {
    fn of() -> Self {
        Cursor { sge: bits(4), offset: bits(32), short: bits(1) }
    }
}

#[derive(Clone, Bundle)]
struct Element {
    addr: Sig,
    key: Sig,
    len: Sig,
}

impl Element {
    fn parse(bytes: Sig) -> Self {
        let of = |f| field(&sge::LAYOUT, &f, bytes);
        Element { addr: of(sge::ADDR), key: of(sge::LKEY), len: of(sge::LEN) }
    }
}

/// The walk. `received`: what is wanted, in order.
#[module]
pub fn walk(m: &Scope, cfg: &RnicConfig, orders: Stream<Order>, received: Stream<Received>) -> Walked {
    const { assert!(SGES_PER_UNIT == 4, "two bits of an SGE's number say where it is in its unit") };
    let state = m.fsm("state", State::Idle);
    let idle = state.is(State::Idle);
    // An order passes a register, for its queue lies in block RAM; what is known of it is there as well.
    let (comes, coming_index) = (orders.fire(), orders.facts.index);
    let dues = forward(m, orders.map(Due::know));
    let (came, scatters, own, orders) = (dues.valid, dues.scatters, dues.own, dues.order.clone());
    let facts = &orders.facts;
    let executes = Class::Execute.is(facts.class);
    let ended = m.wire("ended", 1);
    dues.accept(ended);
    let fires = came & ended;

    let cursors = m.mem("cursors", cfg.qps, &Cursor::of()).style(Style::Block).build();
    let (leaves, cursor) = (m.wire("leaves", 1), m.wire_of("cursor", &Cursor::of()));
    cursors.write(leaves, facts.qp, &cursor);
    let enters = idle & came & scatters;
    let first = facts.begins;
    let stored = cursors.read(m, enters & !first, facts.qp, Collision::Never);

    // Indices of a QP's own queue that `check` is ahead, for what was not used after all.
    let open_bits = open_bits(cfg);
    let lags = m.mem("lags", cfg.qps, &bits(open_bits)).style(Style::Block).build();
    let all_lags = m.reg("all_lags", open_bits).reset(0);
    let any_lag = m.reg("any_lag", 1).reset(0);
    let lagging = own & any_lag;
    let mends_row = idle & came & Class::Mend.is(facts.class);
    let (lag_write, next_lag) = (m.wire("lag_write", 1), m.wire("next_lag", open_bits));
    lags.write(lag_write, facts.qp, &next_lag);
    let known_lag = lags.read(m, idle & came & (lagging | mends_row), facts.qp, Collision::Never);
    let index = m.reg("index", 16).no_reset();
    let sge = m.reg("sge", 4).no_reset();
    let offset = m.reg("offset", 32).no_reset();
    let rest = m.reg("rest", 13).no_reset();
    // The WQE of a message that begins is asked for at once, another when the cursor is known or what came is used up.
    let asks = m.reg("asks", 1).reset(0);
    // A unit with four SGEs comes at once, or each SGE by itself.
    let whole = grain(cfg) == UNIT;
    let part = if whole { sge.slice(2, 2) } else { sge };
    let at_once = enters & first & !lagging;
    let wants = at_once | asks;
    let wanted = Wanted { queue: orders.queue, index, part, stride: orders.stride };
    let wanted = Stream::new(m, "wanted", wants, wanted);
    let begins = at_once & wanted.ready;
    m.when(wanted.fire(), |m| m.set(&asks, 0));
    m.when(begins, |m| {
        m.set(&offset, 0);
        m.set(&rest, facts.bytes);
        m.set(&state, State::Unit);
    });
    // In the middle of a message that has been too long already, nothing is looked for.
    let too_long = m.reg("too_long", 1).reset(0);
    let looked_up = m.reg("looked_up", 1).reset(0);
    m.when(idle, |m| {
        m.set(&too_long, 0);
        m.set(&looked_up, lagging);
    });
    m.when(idle & came & ((enters & !first) | lagging), |m| {
        m.set(&rest, facts.bytes);
        m.set(&state, State::Cursor);
    });
    m.when(state.is(State::Cursor), |m| {
        m.set(&sge, m.mux(first, &lit(4, 0), &stored.sge));
        m.set(&offset, m.mux(first, &lit(32, 0), &stored.offset));
        m.when(looked_up, |m| m.set(&index, facts.index - known_lag.zext(16)));
        m.set(&asks, 1);
        m.set(&state, State::Unit);
        m.when(!scatters, |m| {
            m.set(&asks, 0);
            m.set(&state, State::Straight);
        })
        .otherwise_when(facts.quiet & !first & stored.short, |m| {
            m.set(&asks, 0);
            m.set(&too_long, 1);
            m.set(&state, State::Judge);
        });
    });
    let at_mend = state.is(State::Mend);
    m.when(mends_row, |m| m.set(&state, State::Mend)).otherwise_when(at_mend, |m| m.set(&state, State::Idle));

    // What came stays where it is until the walk is through with it.
    let at_unit = state.is(State::Unit) & !asks & received.valid;
    let at_judge = state.is(State::Judge);
    let judge = if cfg.unhurried() { State::Measure } else { State::Judge };
    let chosen = match whole {
        true => m.select(sge.trunc(2), &received.piece.chunks(8 * UNIT / SGES_PER_UNIT as u32)),
        false => received.piece,
    };
    let chosen = Element::parse(chosen);
    let element = m.reg_of("element", &chosen);
    let [error, void, last_sge] = ["error", "void", "last_sge"].map(|name| m.reg(name, 1).no_reset());
    let bad = (error | void) & !too_long;
    // What is awaited is loaded in each cycle: only the state waits for it to be there.
    m.when(state.is(State::Unit), |m| {
        m.set_all(&element, &chosen);
        m.set(&error, received.error);
        m.set(&void, received.void);
        m.set(&last_sge, sge.eq(lit(4, 4).shl_by(orders.stride) - 1));
    });
    m.when(at_unit, |m| {
        m.when(offset.eq(0), |m| m.set(&state, judge)).otherwise(|m| m.set(&state, State::Enter));
    });
    let at_enter = state.is(State::Enter);
    let further = element.len - offset;
    m.when(at_enter, |m| {
        m.set(&element.addr, element.addr + offset.zext(64));
        m.set(&element.len, further);
        m.set(&state, judge);
    });
    m.when(state.is(State::Measure), |m| m.set(&state, State::Judge));

    // How much of the packet goes to this SGE? It is compared as it comes or, where there is time, a cycle later.
    let measured = match cfg.unhurried() {
        true => element.len,
        false => m.mux(at_enter, &further, &chosen.len),
    };
    let [enough, empty] = ["enough", "empty"].map(|name| m.reg(name, 1).no_reset());
    m.when(!at_judge, |m| {
        m.set(&enough, measured.ge(rest.zext(32)));
        m.set(&empty, measured.eq(0));
    });
    let short = (!enough & last_sge) | too_long;
    let ends = enough | last_sge | too_long | bad;
    let enough = enough & !too_long;
    let walk = m.wire("outcome", 2);
    m.set(&walk, Walk::Whole.code());
    m.when(void & bad, |m| m.set(&walk, Walk::Gone.code()))
        .otherwise_when(bad, |m| m.set(&walk, Walk::Unread.code()))
        .otherwise_when(short, |m| m.set(&walk, Walk::Short.code()));
    let all = m.mux(enough, &rest, &element.len.trunc(13));
    let plain = state.is_any(&[State::Idle, State::Straight]);
    let straight =
        came & !scatters & ((idle & !lagging & !Class::Mend.is(facts.class)) | state.is(State::Straight));
    let local = lit(8, Access::LocalWrite as u32);
    // Of a READ or an atomic only the right is asked for: a piece that nobody writes.
    let probes_again = facts.kind.eq(Kind::Read.code()) & Class::Duplicate.is(facts.class);
    let by_walk = Run {
        facts: Facts { index, ..facts.clone() },
        va: element.addr,
        key: element.key,
        pd: orders.pd,
        access: local,
        left: element.len,
        bytes: m.mux(bad | too_long, &lit(13, 0), &all),
        last: ends,
        walk,
    };
    let by_itself = Run::straight(m, &orders, by_walk.facts.clone(), executes, probes_again);
    let run = m.mux(plain, &by_itself, &by_walk);
    let passes = at_judge & empty & !ends;
    let run = Stream::new(m, "run", straight | (at_judge & !passes), run);
    let judged = at_judge & (run.ready | (empty & !ends));
    let done = at_judge & run.ready & ends;
    m.drive(&ended, done | (straight & run.ready) | at_mend);
    m.when(state.is(State::Straight) & run.ready, |m| m.set(&state, State::Idle));

    // The next SGE, in what came or behind it.
    let next_sge = sge + 1;
    let turns = if whole { sge.trunc(2).all() } else { lit(1, 1) };
    received.accept(judged & !too_long & (ends | turns));
    m.when(judged, |m| {
        m.set(&rest, rest - all);
        m.set(&sge, next_sge);
        m.set(&offset, 0);
        m.when(ends, |m| m.set(&state, State::Idle)).otherwise(|m| {
            m.set(&asks, turns);
            m.set(&state, State::Unit);
        });
    });
    // An order comes with the index of its receive, and begins with that one's first SGE.
    m.when(comes, |m| {
        m.set(&index, coming_index);
        m.set(&sge, 0);
    });
    // How far the message has come within the SGE, for the next packet.
    m.set_all(&cursor, &Cursor { sge, offset: offset + rest.zext(32), short });
    m.drive(&leaves, done & (enough | short));
    let refused = at_judge & short & !bad;

    // A receive that is not used after all.
    let unused = done & refused & (own & facts.ends);
    let mend = Stream::new(m, "mend", unused, facts.qp);
    m.assert(!unused | mend.ready, "there is a place for each packet that is on its way here");
    let mends = deep_fifo(&m.label("mends"), 2 * packets_ahead(cfg), mend);
    let settled = m.delay("settled", &(fires & own & facts.send & !unused));
    let starts = fires & Class::Start.is(facts.class);
    let lag = looked_up.then(known_lag, lit(open_bits, 0));
    let one_more = m.mux(unused, &(lag + 1), &(known_lag - 1));
    m.drive(&next_lag, m.mux(starts, &lit(open_bits, 0), &one_more));
    m.drive(&lag_write, unused | at_mend | starts);
    m.set(&all_lags, all_lags + unused.zext(open_bits) - at_mend.zext(open_bits));
    m.set(&any_lag, unused | (any_lag & !(at_mend & all_lags.eq(1))));
    m.assert(!at_mend | known_lag.ne(0), "what is mended was ahead");
    let judged = Judged { valid: fires & facts.judged & facts.send, refused };
    Walked { wanted, runs: run, judged: m.delay("judged", &judged), mends, settled }
}
