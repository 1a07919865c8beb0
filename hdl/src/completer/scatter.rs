// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a READ response or an atomic's value goes: the runs of bytes that the SGEs of the send WQE cut it into.
//!
//! ```text
//!  answered --> its place in the message, its length right? --> first SGE --> left of it? --> run, run, ... --> merge
//!                                                                   ^             |
//!                                 recall <-- wanted -- next SGE ----+-------------+ used up
//! ```
//!
//! Responses come in their order, and each is as long as the path MTU, but for the last, which is the rest (IBTA volume 1,
//! 9.7.5.1.3, 9.7.4.1.7); another length is a bad response. The walk begins at the first SGE, which stands with the message in the completer's
//! pool; the others come from `recall`. It is as far behind its beginning as the packet is behind that of the message, and
//! what is more than the SGE holds is taken off the next one.
//!
//! A packet costs 2 cycles where the first SGE holds it, 4 more for each further SGE that is on the card, 1 where there is nothing
//! to place. Longest path: the comparison of what is left of the packet with what is left of the SGE.
//! Whether the length is right is found in the first cycle of the walk. Reset: idle.

use crate::completer::recall::{Recalled, Wanted};
use crate::config::RnicConfig;
use crate::fields::field;
use crate::path::{bytes_of_packets, mtu_bytes};
use crate::requester::{FirstSge, MAX_SGES};
use crate::responder::reply::Kind;
use crate::responder::{Class, Facts, Run, Walk};
use ferrowire_rtl::{bits, clog2, lit, module, Bundle, Interface, Scope, Sig, Stream};
use ferrowire_spec::queue::send_wqe::sge;
use ferrowire_spec::queue::Access;

/// What an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerClass {
    /// The next one of the oldest READ or atomic.
    Good,
    /// The peer answers what it was not asked.
    Bad,
    /// Nobody waits for it.
    Stray,
}

impl AnswerClass {
    /// Its number between the blocks.
    pub fn code(self) -> u32 {
        self as u32
    }
}

/// A READ response or an atomic acknowledgement that has been looked at.
#[derive(Clone, Bundle)]
pub struct Answered {
    /// An [`AnswerClass`].
    pub class: Sig,
    /// Which QP.
    pub qp: Sig,
    /// Index of its WQE.
    pub index: Sig,
    /// Protection domain.
    pub pd: Sig,
    /// Path MTU code.
    pub mtu: Sig,
    /// An atomic's value, rather than a frame's payload.
    pub atomic: Sig,
    /// Place of the payload in the frame.
    pub offset: Sig,
    /// Its length.
    pub bytes: Sig,
    /// Packets of the message before this one.
    pub packets: Sig,
    /// It is the message's last.
    pub last: Sig,
    /// Bytes of the message.
    pub length: Sig,
    /// Where they go first.
    pub sge: FirstSge,
}

impl Answered {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Answered {
            class: bits(2),
            qp: bits(cfg.qp_bits()),
            index: bits(16),
            pd: bits(24),
            mtu: bits(3),
            atomic: bits(1),
            offset: bits(7),
            bytes: bits(13),
            packets: bits(24),
            last: bits(1),
            length: bits(32),
            sge: FirstSge::of(),
        }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Scattered {
    /// Further SGEs that are needed.
    pub wanted: Stream<Wanted>,
    /// Where the answers go: at least one run each, in order.
    pub runs: Stream<Run>,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Idle,
    Walk,
    /// The next SGE is asked for.
    Ask,
    Next,
}

/// The walk. `recalled`: what is wanted, in order.
#[module]
pub fn scatter(
    m: &Scope,
    cfg: &RnicConfig,
    answered: Stream<Answered>,
    recalled: Stream<Recalled>,
) -> Scattered {
    let state = m.fsm("state", State::Idle);
    let idle = state.is(State::Idle);
    let is = |class: AnswerClass| answered.class.eq(class.code());
    let good = is(AnswerClass::Good);

    // How far the packet is in its message, and what is left of that.
    let offset = bytes_of_packets(answered.packets, answered.mtu).named("offset");
    let rest_of_message = m.reg("rest_of_message", 32).no_reset();
    let rest = m.reg("rest", 13).no_reset();
    let va = m.reg("va", 64).no_reset();
    let key = m.reg("key", 32).no_reset();
    // With a sign: below zero is what must be passed over behind the SGE.
    let left = m.reg("left", 33).no_reset();
    let next = m.reg("next", clog2(u64::from(MAX_SGES))).no_reset();
    // The walk has just begun: the packet's length is judged.
    let judges = m.reg("judges", 1).reset(0);
    let mtu_long = m.reg("mtu_long", 1).no_reset();
    let (is_last, is_atomic) = (m.reg("is_last", 1).no_reset(), m.reg("is_atomic", 1).no_reset());
    let begins = idle & answered.valid & good;
    m.when(begins, |m| {
        m.set(&rest_of_message, answered.length - offset);
        m.set(&rest, m.mux(answered.atomic, &lit(13, 8), &answered.bytes));
        m.set(&va, answered.sge.va + offset.zext(64));
        m.set(&key, answered.sge.key);
        m.set(&left, answered.sge.length.zext(33) - offset.zext(33));
        m.set(&next, answered.sge.number);
        m.set(&judges, 1);
        m.set(&mtu_long, answered.bytes.eq(mtu_bytes(answered.mtu).zext(13)));
        m.set(&is_last, answered.last);
        m.set(&is_atomic, answered.atomic);
        m.set(&state, State::Walk);
    });
    let right = m.mux(is_last, &rest.zext(32).eq(rest_of_message), &mtu_long);
    let right = (right | is_atomic).named("right");
    let refused = state.is(State::Walk) & judges & !(right & rest.any());

    // An SGE.
    let at_walk = state.is(State::Walk) & !refused;
    let below = left.bit(32);
    let here = at_walk & !below & left.any();
    let enough = left.trunc(32).ge(rest.zext(32)).named("enough");
    let last_sge = next.all();
    let ends = here & enough;
    let out = m.mux(enough, &rest, &left.trunc(13));
    let broken = m.reg("broken", 2).reset(0);
    // There is no next SGE, or it cannot be known.
    let short = m.reg("short", 1).reset(0);
    let gives_up = at_walk & short;

    let class = m.wire("class", 4);
    m.set(&class, Class::Answer.code());
    m.when(is(AnswerClass::Bad) | (refused & !right), |m| m.set(&class, Class::BadAnswer.code()))
        .otherwise_when(is(AnswerClass::Stray), |m| m.set(&class, Class::Stray.code()));
    let kind = m.mux(answered.atomic, &lit(2, Kind::Atomic.code()), &lit(2, Kind::Read.code()));
    let facts = Facts {
        class,
        qp: answered.qp,
        offset: answered.atomic.then(lit(7, 0), answered.offset),
        bytes: (at_walk & !short).then(m.mux(is_atomic, &lit(13, 8), &answered.bytes), lit(13, 0)),
        kind,
        index: answered.index,
        ..Facts::of(cfg).zeros()
    };
    let walk = m.mux(gives_up, &broken, &lit(2, Walk::Whole.code()));
    let run = Run {
        facts,
        va,
        key,
        pd: answered.pd,
        access: lit(8, u32::from(Access::LocalWrite.code())),
        left: left.trunc(32),
        bytes: (here & !short).then(out, lit(13, 0)),
        last: !at_walk | ends | short,
        walk,
    };
    let bare = (idle & answered.valid & !good) | refused;
    let runs = Stream::new(m, "run", bare | here | gives_up, run);
    let goes = runs.fire();
    let done = goes & (bare | ends | short);
    answered.accept(done);
    m.when(done, |m| {
        m.set(&judges, 0);
        m.set(&state, State::Idle);
        m.set(&short, 0);
    });

    // On to the next: behind a run that uses up this one, or where there is nothing left in it.
    let over = m.mux(here, &lit(33, 0), &left);
    let on = at_walk & !short & m.mux(here, &(goes & !enough), &lit(1, 1));
    m.when(on, |m| {
        m.set(&judges, 0);
        m.set(&rest, m.mux(here, &(rest - left.trunc(13)), &rest));
        m.set(&left, over);
        m.set(&state, State::Ask);
        m.when(last_sge, |m| {
            m.set(&short, 1);
            m.set(&broken, Walk::Short.code());
            m.set(&state, State::Walk);
        });
    });
    let at_ask = state.is(State::Ask);
    let wanted = Wanted { qp: answered.qp, index: answered.index, number: next };
    let wanted = Stream::new(m, "wanted", at_ask, wanted);
    m.when(wanted.fire(), |m| m.set(&state, State::Next));
    let comes = state.is(State::Next) & recalled.valid;
    recalled.accept(state.is(State::Next));
    let of = |f| field(&sge::LAYOUT, &f, recalled.sge);
    m.when(comes, |m| {
        m.set(&va, of(sge::ADDR) - left.sext(64));
        m.set(&left, of(sge::LEN).zext(33) + left);
        m.set(&key, of(sge::LKEY));
        m.set(&next, next + 1);
        m.set(&short, recalled.void | recalled.error);
        m.set(&broken, m.mux(recalled.error, &lit(2, Walk::Unread.code()), &lit(2, Walk::Short.code())));
        m.set(&state, State::Walk);
    });
    Scattered { wanted, runs }
}
