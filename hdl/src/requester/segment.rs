// SPDX-License-Identifier: MIT OR Apache-2.0
//! From WQEs to packets: where each begins and ends, its opcode and its PSN.
//!
//! ```text
//!  WQE --> row of the QP {index, psn, offset} --> packet, packet, ... --> commit
//!             |  not the index that is due: forgotten
//!             +--> others wait and the quantum is used up: place kept in the row, QP rewound
//! ```
//!
//! A WQE costs 2 cycles to look up its QP and one for each packet; the row is written with the WQE's last packet. The
//! index that a WQE carries is compared with the one that is due: WQEs fetched before a rewind or a yield, and those
//! behind a broken one, fall out here, and that is all of the recovery logic on this path.
//!
//! What is wrong with a WQE itself (opcode, size, a failed fetch) travels as a cause instead of a packet, so that it
//! completes in its place.
//!
//! Reset: idle. Rows are written when a QP starts.

use crate::config::RnicConfig;
use crate::fields::field;
use crate::requester::fetch::Fetched;
use crate::requester::schedule::{Rewind, Waiting};
use crate::types::{QpBroadcast, QpInit};
use ferrowire_rtl::{bits, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::cqe::{LocalCause, WcStatus};
use ferrowire_spec::queue::send_wqe::{self, SendOpcode};
use ferrowire_spec::wire::opcode::Opcode;

/// Payload that one QP may send while others wait.
pub const QUANTUM: u32 = 16384;

/// A long message asks for an acknowledgement each `2^ACK_BITS` bytes, so that the unacknowledged PSNs stay far under
/// 2^23 (IBTA volume 1, 9.7.2): 65,536 packets at the smallest path MTU.
pub const ACK_BITS: u32 = 24;

/// A packet to be sent, or a WQE that cannot be.
#[derive(Clone, Bundle)]
pub struct Candidate {
    /// The sender.
    pub qp: Sig,
    /// The WQE's index.
    pub index: Sig,
    /// BTH opcode.
    pub opcode: Sig,
    /// PSN.
    pub psn: Sig,
    /// BTH acknowledge request.
    pub ack_req: Sig,
    /// Last packet of its message.
    pub last: Sig,
    /// A CQE is wanted.
    pub signaled: Sig,
    /// Opcode of the CQE.
    pub wqe_opcode: Sig,
    /// Remote address and key, and length of the whole message.
    pub remote_va: Sig,
    /// Remote key.
    pub rkey: Sig,
    /// Bytes of the message.
    pub length: Sig,
    /// Local address of this packet's payload.
    pub local_va: Sig,
    /// Local key.
    pub lkey: Sig,
    /// Bytes of the message from this packet on.
    pub remaining: Sig,
    /// Payload bytes of this packet.
    pub bytes: Sig,
    /// `WcStatus`: not zero where the WQE cannot be sent.
    pub status: Sig,
    /// `LocalCause` of that.
    pub cause: Sig,
}

impl Candidate {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Candidate {
            qp: bits(cfg.qp_bits()),
            index: bits(16),
            opcode: bits(8),
            psn: bits(24),
            ack_req: bits(1),
            last: bits(1),
            signaled: bits(1),
            wqe_opcode: bits(8),
            remote_va: bits(64),
            rkey: bits(32),
            length: bits(32),
            local_va: bits(64),
            lkey: bits(32),
            remaining: bits(32),
            bytes: bits(13),
            status: bits(8),
            cause: bits(8),
        }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Segmented {
    /// Packets in order.
    pub candidates: Stream<Candidate>,
    /// Places from which the fetch must go on.
    pub rewind: Stream<Rewind>,
    /// A WQE's place in the fetch buffer is free.
    pub returned: Sig,
}

#[derive(Clone, Bundle)]
struct Row {
    index: Sig,
    psn: Sig,
    offset: Sig,
}

#[derive(Clone, Bundle)]
struct Copy {
    mtu: Sig,
    sig_all: Sig,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Idle,
    Row,
    Send,
    Yield,
}

/// The segmenter. `waiting`: who wants to send beside the QP that does.
#[module]
pub fn segment(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    init: Stream<QpInit>,
    fetched: Stream<Fetched>,
    waiting: Waiting,
) -> Segmented {
    let state = m.fsm("state", State::Idle);
    let idle = state.is(State::Idle);
    init.accept(idle);
    let begins = idle & !init.valid & fetched.valid;

    // The QP's row, and read copies of its attributes.
    let row_shape = Row { index: bits(16), psn: bits(24), offset: bits(32) };
    let rows = m.mem("rows", cfg.qps, &row_shape).style(Style::Block).build();
    let row_write = m.wire("row_write", 1);
    let row_at = m.mux(init.fire(), &init.qp, &fetched.qp);
    let next = m.wire_of("next", &row_shape);
    rows.write(row_write, row_at, &next);
    let row = rows.read(m, begins, fetched.qp, Collision::Never);
    let given = &broadcast.attributes;
    let copies =
        m.mem("copies", cfg.qps, &Copy { mtu: bits(3), sig_all: bits(1) }).style(Style::Distributed).build();
    copies.write(given.enable, given.index, &Copy { mtu: given.entry.mtu, sig_all: given.entry.sq_sig_all });
    let copy = copies.read_now(fetched.qp);

    // What the WQE says.
    let wqe = |f| field(&send_wqe::LAYOUT, &f, fetched.unit);
    let wqe_opcode = wqe(send_wqe::OPCODE);
    let sges = wqe(send_wqe::NUM_SGE);
    let empty = sges.eq(0);
    let length = m.mux(empty, &lit(32, 0), &wqe(send_wqe::SGE0_LEN));
    let unknown = wqe_opcode.ne(SendOpcode::Write.code());
    let inline = wqe(send_wqe::INLINE);
    let too_large = length.gt(1u32 << 31) | sges.gt(1) | inline | wqe(send_wqe::UNITS).ne(1);
    let (status, cause) = (m.wire("status", 8), m.wire("cause", 8));
    m.set(&status, WcStatus::Success.code());
    m.set(&cause, LocalCause::None.code());
    m.when(fetched.error, |m| {
        m.set(&status, WcStatus::LocQpOpErr.code());
        m.set(&cause, LocalCause::Dma.code());
    })
    .otherwise_when(unknown, |m| {
        m.set(&status, WcStatus::LocQpOpErr.code());
        m.set(&cause, LocalCause::WqeOpcode.code());
    })
    .otherwise_when(too_large, |m| {
        m.set(&status, WcStatus::LocLenErr.code());
        m.set(&cause, LocalCause::WqeSize.code());
    });
    // Lookup: is this WQE the one that is due?
    let psn = m.reg("psn", 24).no_reset();
    let offset = m.reg("offset", 32).no_reset();
    let due = row.index.eq(fetched.index);
    m.when(begins, |m| m.set(&state, State::Row));
    let at_row = state.is(State::Row);
    let stale = at_row & !due;
    let used = m.reg("used", 15).no_reset();
    let remaining = m.reg("remaining", 32).no_reset();
    let local_va = m.reg("local_va", 64).no_reset();
    let mtu = m.reg("mtu", 13).no_reset();
    let broken = m.reg("broken", 1).no_reset();
    m.when(at_row, |m| {
        m.set(&psn, row.psn);
        m.set(&offset, row.offset);
        m.set(&remaining, length - row.offset);
        m.set(&local_va, wqe(send_wqe::SGE0_ADDR) + row.offset.zext(64));
        m.set(&mtu, lit(13, 128).shl_by(copy.mtu));
        m.set(&broken, status.ne(0));
        m.set(&used, 0);
        m.set(&state, State::Send);
        m.when(stale, |m| m.set(&state, State::Idle));
    });

    // A packet a cycle.
    let sending = state.is(State::Send);
    let first = offset.eq(0);
    let last = (remaining.le(mtu.zext(32)) | broken).named("last");
    let bytes = m.mux(last, &remaining.trunc(13), &mtu);
    let opcode = m.select(
        ferrowire_rtl::cat(&[last, first]),
        &[
            lit(8, Opcode::RcWriteMiddle.code()),
            lit(8, Opcode::RcWriteLast.code()),
            lit(8, Opcode::RcWriteFirst.code()),
            lit(8, Opcode::RcWriteOnly.code()),
        ],
    );
    let now_and_then = offset.trunc(ACK_BITS).eq(0) & !first;
    let candidate = Candidate {
        qp: fetched.qp,
        index: fetched.index,
        opcode,
        psn,
        ack_req: last | now_and_then,
        last,
        signaled: wqe(send_wqe::SIGNALED) | copy.sig_all,
        wqe_opcode,
        remote_va: wqe(send_wqe::REMOTE_VA),
        rkey: wqe(send_wqe::RKEY),
        length,
        local_va,
        lkey: wqe(send_wqe::SGE0_LKEY),
        remaining,
        bytes,
        status,
        cause,
    };
    let candidates = Stream::new(m, "candidates", sending, candidate);
    let sent = candidates.fire();
    let next_psn = psn + 1;
    let next_offset = offset + bytes.zext(32);
    let yields = waiting.for_another(fetched.qp) & used.ge(QUANTUM - 4096) & !last;
    m.when(sent, |m| {
        m.set(&psn, next_psn);
        m.set(&offset, next_offset);
        m.set(&remaining, remaining - bytes.zext(32));
        m.set(&local_va, local_va + bytes.zext(64));
        m.set(&used, m.mux(used.ge(QUANTUM - 4096), &used, &(used + bytes.zext(15))));
        m.when(last, |m| m.set(&state, State::Idle)).otherwise_when(yields, |m| m.set(&state, State::Yield));
    });

    // A yield asks for the same WQE again.
    let yielding = state.is(State::Yield);
    let rewind = Stream::new(m, "rewind", yielding, Rewind { qp: fetched.qp, index: fetched.index });
    m.when(rewind.fire(), |m| m.set(&state, State::Idle));

    let done = (sent & last) | rewind.fire() | stale;
    fetched.accept(done);
    m.drive(&row_write, init.fire() | (sent & (last | yields)));
    m.set(&next.index, m.mux(last, &(fetched.index + 1), &fetched.index));
    m.set(&next.psn, next_psn);
    m.set(&next.offset, m.mux(last, &lit(32, 0), &next_offset));
    m.when(init.fire(), |m| {
        m.set(&next.index, 0);
        m.set(&next.psn, init.psn);
        m.set(&next.offset, 0);
    });
    Segmented { candidates, rewind, returned: done }
}

#[cfg(test)]
mod tests;
