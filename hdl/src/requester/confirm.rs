// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports of raw frames wait until `tx::guard` has seen the frame.
//!
//! ```text
//!  sent ------+--> others ---------------------------------> choose --> sent
//!             +--> raw frames --> FIFO, 256 --+--> told --->
//!  verdicts of guard -------------------------+--> barred, credit
//!  flush, starts ------> gate: those of the raw queue pair wait until the FIFO is empty
//! ```
//!
//! | port | what |
//! |---|---|
//! | `sent`, `flush`, `started` | from `launch`, on to the completer and to those that start |
//! | `verdicts` | for each raw frame whose payload was read, in order: it did not leave |
//! | `anew` | pulses when the raw queue pair has started |
//! | `barred` | the raw queue pair makes no more packets from this WQE on |
//! | `credit` | a message that the completer has room for, for its frame did not leave |
//!
//! The first frame that was refused is reported as a WQE that failed (`LocQpOpErr`, cause `RawRoce`), and bars the queue pair. The reports of later
//! frames are dropped: `guard` has dropped these frames, and the queue pair flushes their WQEs. Reports of other queue pairs do not wait for raw frames. A report of the raw queue
//! pair without a frame waits until all before it are told, and so do its flushes and starts.
//!
//! A report in two cycles. Latency 1 for others, in all but the cycles in which a raw frame is told; of a raw frame some cycles after its verdict. Reset: the FIFO is empty, nothing is barred.

use crate::config::RnicConfig;
use crate::requester::commit::{Bar, Sent};
use crate::requester::launch::PENDING;
use crate::requester::schedule::Flush;
use crate::stream::{deep_fifo, fifo, half};
use crate::types::SqStart;
use ferrowire_rtl::{clog2, lit, module, Bundle, Interface, Scope, Sig, Stream};
use ferrowire_spec::qp_state::RAW_QPN;
use ferrowire_spec::queue::cqe::{LocalCause, WcStatus};
use ferrowire_spec::queue::SendOpcode;

/// What comes out.
#[derive(Interface)]
pub struct Confirmed {
    /// For the completer.
    pub sent: Stream<Sent>,
    /// Likewise.
    pub flush: Stream<Flush>,
    /// QPs that start.
    pub started: Vec<Stream<SqStart>>,
    /// For `commit`.
    pub barred: Stream<Bar>,
    /// For `commit`.
    pub credit: Sig,
}

/// What is kept of a report.
#[derive(Clone, Bundle)]
struct Kept {
    psn: Sig,
    index: Sig,
    signaled: Sig,
    length: Sig,
    fresh: Sig,
}

/// Waits for verdicts.
#[module]
pub fn confirm(
    m: &Scope,
    cfg: &RnicConfig,
    sent: Stream<Sent>,
    flush: Stream<Flush>,
    started: Vec<Stream<SqStart>>,
    verdicts: Stream<Sig>,
    anew: Sig,
) -> Confirmed {
    let waiting = m.reg("waiting", clog2(u64::from(PENDING)) + 2).reset(0);
    let all_told = waiting.eq(0);
    let barred = m.reg("barred", 1).reset(0);
    let of_raw = |qp: Sig| qp.eq(RAW_QPN);

    let sent = half(&m.label("sent"), sent);
    let own = of_raw(sent.qp);
    let framed = (own & sent.status.eq(0)).named("framed");
    let kept = Kept {
        psn: sent.psn,
        index: sent.index,
        signaled: sent.signaled,
        length: sent.length.trunc(13),
        fresh: sent.fresh,
    };
    let kept = Stream::new(m, "kept", sent.valid & framed, kept);
    let (keeps, keeps_ready) = (kept.fire(), kept.ready);
    let kept = deep_fifo(&m.label("frames"), PENDING, kept);

    // A frame that is known; an offer of another report stays.
    let bar_room = m.wire("bar_room", 1);
    let refused = verdicts.payload;
    let known = kept.valid & verdicts.valid;
    let forgets = known & barred;
    let offered = m.reg("offered", 1).reset(0);
    let tells = known & !barred & (bar_room | !refused) & !offered;
    let fails = |yes: u8| refused.repeat(8) & lit(8, yes);
    let told = Sent {
        qp: lit(cfg.qp_bits(), RAW_QPN),
        psn: kept.psn,
        last: lit(1, 1),
        index: kept.index,
        signaled: kept.signaled,
        wqe_opcode: lit(8, SendOpcode::Send.code()),
        length: kept.length.zext(32),
        status: fails(WcStatus::LocQpOpErr.code()),
        cause: fails(LocalCause::RawRoce.code()),
        fresh: kept.fresh,
        answered: lit(1, 0),
        // It means nothing.
        sge: sent.sge.clone(),
        withdraws: lit(1, 0),
    };
    let bare = sent.valid & own & !framed & all_told;
    let passes = (sent.valid & !own) | (bare & !barred);
    let out = Stream::new(m, "out", tells | passes, m.mux(tells, &told, &sent.payload));
    m.set(&offered, out.valid & !tells & !out.ready);
    let tell = tells & out.ready;
    let settled = forgets | tell;
    kept.accept(settled);
    verdicts.accept(settled);
    let goes = (passes & !tells & out.ready) | (bare & barred);
    sent.accept(m.mux(framed, &keeps_ready, &goes));
    m.set(&waiting, waiting + keeps.zext(waiting.width()) - settled.zext(waiting.width()));

    let bars = tell & refused;
    m.when(bars, |m| m.set(&barred, 1));
    m.when(anew, |m| m.set(&barred, 0));
    let bar = Stream::new(m, "bar", bars, Bar { qp: lit(cfg.qp_bits(), RAW_QPN), index: kept.index });
    m.drive(&bar_room, bar.ready);
    let credit = settled & (barred | refused) & kept.fresh;

    // Behind the report in the register.
    let may = |qp: Sig| !sent.valid & (!of_raw(qp) | all_told);
    let open = may(flush.qp);
    let flush = flush.gate(m, open);
    let started = started.into_iter().map(|start| {
        let open = may(start.qp);
        start.gate(m, open)
    });
    let started: Vec<Stream<SqStart>> = started.collect();
    Confirmed { sent: out, flush, started, barred: fifo(&m.label("bars"), 2, bar), credit }
}

#[cfg(test)]
mod tests;
