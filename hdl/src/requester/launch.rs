// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last door before the wire: what the completer learns of a packet waits for the packet's payload.
//!
//! ```text
//!  reports of commit --+                       +--> sent    --> completer
//!  flush ------------->+--> queue, in order -->+--> flush   --> completer
//!  QPs that start ---->+        ^              +--> started --> completer, commit, payload
//!                               |              +--> barred  --> commit
//!  payload read: good or not ---+              |
//!                                              v token
//!  packets --------------------------------> gate --> tx
//! ```
//!
//! A packet with payload goes to `tx` at once and its payload follows when it has come; only its report waits here
//! until the last beat is in the payload buffer. Where a read failed, the report becomes that of a WQE that failed
//! (`LocQpOpErr`, cause `Dma`), and its QP is barred: the reports of its packets behind are forgotten, and `commit`
//! makes no more of them. The frames of all these packets are thrown away by `tx::icrc`, for `payload` has poisoned them:
//! bytes that are not the user's never reach the wire.
//!
//! A packet without payload follows its own report: it is sent once all before it are known to be, or dropped.
//!
//! Flushes and starts pass through the same queue, so that they find everything of their QP that was sent before at the
//! completer. A start is taken from its giver when it has left the queue: what is in the tables then is the new QP's.
//!
//! Room at the completer: `commit` spends a credit for the last packet of a message. Where a message fails with an
//! earlier packet, its report takes the place that is kept spare here; the next place that the completer frees becomes
//! the spare one. The credit of a last packet that is forgotten goes back.
//!
//! One report a cycle, 2 cycles behind `commit` or the payload's last beat, whichever is later; packets with payload
//! pass in the cycle in which they come. Reset: the queue is empty and no QP is barred.

use crate::config::RnicConfig;
use crate::requester::commit::{Report, Sent, PACKETS};
use crate::requester::schedule::Flush;
use crate::stream::{deep_fifo, fifo, fork};
use crate::types::{QpInit, TxPacket};
use ferrowire_rtl::{bits, lit, module, Bundle, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::cqe::{LocalCause, WcStatus};

/// Reports, flushes and starts that may wait: more than `commit` and `tx` hold packets.
pub const PENDING: u32 = 2 * PACKETS;

/// What comes out.
#[derive(Interface)]
pub struct Launched {
    /// For the completer.
    pub sent: Stream<Sent>,
    /// Likewise, behind all that was sent before.
    pub flush: Stream<Flush>,
    /// QPs that start, likewise: for the completer, for `commit` and for `payload`.
    pub started: Vec<Stream<QpInit>>,
    /// QPs of which `commit` makes no more packets.
    pub barred: Stream<Sig>,
    /// Packets for `tx`.
    pub packets: Stream<TxPacket>,
    /// Messages, none to two, that the completer has room for again.
    pub credits: Sig,
}

/// What waits in the queue. A flush has its producer in `index`, a start its PSN in `psn`.
#[derive(Clone, Bundle)]
struct Entry {
    report: Report,
    flush: Sig,
    start: Sig,
}

/// A QP is barred, or no longer.
#[derive(Clone, Bundle)]
struct BarWrite {
    enable: Sig,
    qp: Sig,
    bar: Sig,
}

/// The door. `verdicts`: for each packet with payload, in order, whether its payload is not to be sent; `freed` pulses
/// for each message that the completer has forgotten.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn launch(
    m: &Scope,
    cfg: &RnicConfig,
    init: Stream<QpInit>,
    reports: Stream<Report>,
    packets: Stream<TxPacket>,
    verdicts: Stream<Sig>,
    flush: Stream<Flush>,
    freed: Sig,
) -> Launched {
    // Into the queue: reports first, for they are older than a flush or a start that waits beside them.
    let none = Report::of(cfg).zeros();
    let marked = m.reg("marked", 1).reset(0);
    let starts = init.valid & !marked & !reports.valid & !flush.valid;
    let mut entry = Entry { report: reports.payload.clone(), flush: lit(1, 0), start: lit(1, 0) };
    let mut flushing = Entry { report: none.clone(), flush: lit(1, 1), start: lit(1, 0) };
    flushing.report.sent.qp = flush.qp;
    flushing.report.sent.index = flush.producer;
    let mut starting = Entry { report: none, flush: lit(1, 0), start: lit(1, 1) };
    starting.report.sent.qp = init.qp;
    starting.report.sent.psn = init.psn;
    entry = m.mux(reports.valid, &entry, &m.mux(flush.valid, &flushing, &starting));
    let entering = Stream::new(m, "entering", reports.valid | flush.valid | starts, entry);
    reports.accept(entering.ready);
    flush.accept(entering.ready & !reports.valid);
    m.when(starts & entering.ready, |m| m.set(&marked, 1));
    let queue = deep_fifo(&m.label("queue"), PENDING, entering);

    // A packet whose verdict waits has its report in the queue.
    m.assert(!verdicts.valid | verdicts.ready, "a verdict finds its place");
    let verdicts = deep_fifo(&m.label("verdict"), PENDING, verdicts);

    // The oldest in the queue.
    let report = &queue.report;
    let sent = &report.sent;
    let is_report = !(queue.flush | queue.start);
    let barred_bits = m.mem("barred", cfg.qps, &bits(1)).style(Style::Distributed).build();
    // A bar is written a cycle after it is decided, and counts at once.
    let bar_write = m.wire_of("bar_write", &BarWrite { enable: bits(1), qp: sent.qp, bar: bits(1) });
    let late = m.delay("late", &bar_write);
    let barred = m.mux(late.enable & late.qp.eq(sent.qp), &late.bar, &barred_bits.read_now(sent.qp));
    let known = !report.payload | verdicts.valid;
    let bare = report.packet & !report.payload;
    let fails = report.payload & verdicts.payload & !barred;
    let spare = m.reg("spare", 1).reset(1);
    let borrows = fails & !sent.last;
    let (token_room, bar_room) = (m.wire("token_room", 1), m.wire("bar_room", 1));
    let ready = queue.valid & is_report & known & (token_room | !bare);
    let tells = ready & !barred & (spare | !borrows) & (bar_room | !fails);
    let told = Sent {
        last: sent.last | fails,
        status: m.mux(fails, &lit(8, WcStatus::LocQpOpErr.code()), &sent.status),
        cause: m.mux(fails, &lit(8, LocalCause::Dma.code()), &sent.cause),
        ..sent.clone()
    };
    let tell = Stream::new(m, "sent", tells, told);
    let forgets = ready & barred;
    let go = tell.fire() | forgets;
    verdicts.accept(go & report.payload);

    let flush_out =
        Stream::new(m, "flush", queue.valid & queue.flush, Flush { qp: sent.qp, producer: sent.index });
    let start = Stream::new(m, "start", queue.valid & queue.start, QpInit { qp: sent.qp, psn: sent.psn });
    let started_now = start.fire();
    queue.accept(go | flush_out.fire() | started_now);
    init.accept(started_now);
    m.when(started_now, |m| m.set(&marked, 0));
    let started = fork(m, 3, start);

    // Barred from the packet whose payload failed until the QP starts anew.
    let bars = tell.fire() & fails;
    m.set_all(&bar_write, &BarWrite { enable: bars | started_now, qp: sent.qp, bar: bars });
    barred_bits.write(late.enable, late.qp, &late.bar);
    let bar = Stream::new(m, "bar", bars, sent.qp);
    m.drive(&bar_room, bar.ready);
    let bar = fifo(&m.label("bar"), 2, bar);

    // Room at the completer.
    let refills = freed & !spare;
    m.when(refills, |m| m.set(&spare, 1)).otherwise_when(bars & borrows, |m| m.set(&spare, 0));
    let credits = (freed & spare).zext(2) + (forgets & sent.last).zext(2);

    // The gate: packets without payload wait for their token.
    let token = Stream::new(m, "token", go & bare, !barred);
    m.drive(&token_room, token.ready);
    let tokens = fifo(&m.label("token"), 8, token);
    let waits = packets.payload_bytes.eq(0);
    let drops = packets.valid & waits & tokens.valid & !tokens.payload;
    let passes = packets.valid & (!waits | (tokens.valid & tokens.payload));
    let out = Stream::new(m, "packets", passes, packets.payload.clone());
    packets.accept(out.fire() | drops);
    tokens.accept((out.fire() & waits) | drops);

    Launched { sent: tell, flush: flush_out, started, barred: bar, packets: out, credits }
}

#[cfg(test)]
mod tests;
