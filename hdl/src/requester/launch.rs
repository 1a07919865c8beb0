// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last door before the wire: what the completer learns of a packet waits for the packet's payload.
//!
//! ```text
//!  reports of commit --+                       +--> sent    --> completer
//!  (starts among them) +--> queue, in order -->+--> flush   --> completer
//!  flush ------------->+        ^              +--> started --> completer, commit, payload
//!                               |              +--> barred  --> commit
//!  payload read: good or not ---+              |
//!                                              v token
//!  packets --------------------------------> gate --> tx
//! ```
//!
//! A packet with payload goes to `tx` at once and its payload follows when it has come; only its report waits here
//! until the last beat is in the payload buffer. Where a read failed, the report becomes that of a WQE that failed
//! (`LocQpOpErr`, cause `Dma`), and its QP is barred from that WQE on: the reports of its packets behind are forgotten, and
//! `commit` makes no more of them. The frames of all these packets are thrown away by `tx::icrc`, for `payload` has
//! poisoned them: bytes that are not the user's never reach the wire. WQEs before it go on being sent again.
//!
//! Inline data are at hand. Their packet goes to `tx` at once, too, but the data follow only its report, or come poisoned.
//!
//! A packet without payload follows its own report: it is sent once all before it are known to be, or dropped.
//!
//! Flushes and starts pass through the same queue, so that they find everything of their QP that was sent before at the
//! completer. A start is done when it has left the queue: what is in the tables then is the new QP's.
//!
//! Room at the completer: `commit` spends a credit for the last packet of a message that is sent for the first time. It
//! comes back from here where the packet fails or is forgotten.
//!
//! One report in two cycles, 3 cycles after `commit` or 2 after the payload's last beat, whichever is later; where beats are narrow one in three cycles, and
//! 3 cycles later; and each a cycle later from the first bar on, for then it is compared with its QP's. Packets with payload pass in the cycle in which they come. Where the completer does not take reports at once, for it is
//! busy, packets may be on the wire that it does not know: until it does, `late` tells it to leave answers alone. Reset: the queue is empty
//! and no QP is barred.

use crate::config::RnicConfig;
use crate::requester::commit::{Bar, Barred, Report, Sent, PACKETS};
use crate::requester::schedule::Flush;
use crate::stream::{breath, deep_fifo, fifo, fork, keyed, Keyed};
use crate::types::{SqStart, TableWrite, TxPacket};
use ferrowire_rtl::{bits, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::cqe::{LocalCause, WcStatus};

/// Reports, flushes and starts that may wait: more than `commit` and `tx` hold packets.
pub const PENDING: u32 = 2 * PACKETS;

/// Verdicts that may wait: more than there can be reports here and on their way from `commit`.
const VERDICTS: u32 = 2 * PENDING;

/// Packets of inline data that are known and have not been taken by `tx`.
const INLINE: u32 = 64;

/// Verdicts that wait while the completer keeps pace with the wire are fewer.
const MANY: u32 = 8;

/// What comes out.
#[derive(Interface)]
pub struct Launched {
    /// For the completer.
    pub sent: Stream<Sent>,
    /// Likewise, behind all that was sent before.
    pub flush: Stream<Flush>,
    /// QPs that start, likewise: for the completer, for `commit` and for `payload`.
    pub started: Vec<Stream<SqStart>>,
    /// Pulses when one has been taken by all of them.
    pub done: Sig,
    /// QPs of which `commit` makes no more packets.
    pub barred: Stream<Bar>,
    /// Packets for `tx`.
    pub packets: Stream<TxPacket>,
    /// For each of them whose payload is inline: it must not be sent.
    pub inline: Stream<Sig>,
    /// A message that the completer has room for, for it will not be sent.
    pub credit: Sig,
    /// The completer may not know of all that is on the wire.
    pub late: Sig,
}

/// What waits in the queue. A flush has its producer in `index`, whether it drains in `last`, and the stay in `status`.
#[derive(Clone, Bundle)]
struct Entry {
    report: Report,
    flush: Sig,
}

/// The door. `starting`: the start that is on its way; `verdicts`: for each packet with payload, in order, whether its
/// payload is not to be sent.
#[module]
pub fn launch(
    m: &Scope,
    cfg: &RnicConfig,
    starting: SqStart,
    reports: Stream<Report>,
    packets: Stream<TxPacket>,
    verdicts: Stream<Sig>,
    flush: Stream<Flush>,
) -> Launched {
    // Into the queue: reports first, for they are older than a flush that waits beside them, and a start is newer.
    let report_first = reports.valid & !(reports.start & flush.valid);
    // What else is in the entry of a flush means nothing.
    let mut flushing = Entry { report: reports.payload.clone(), flush: lit(1, 1) };
    flushing.report.sent.qp = flush.qp;
    flushing.report.sent.index = flush.producer;
    flushing.report.sent.last = flush.drains;
    flushing.report.sent.status = flush.stay;
    let entry = Entry { report: reports.payload.clone(), flush: lit(1, 0) };
    let entry = m.mux(report_first, &entry, &flushing);
    let entering = Stream::new(m, "entering", reports.valid | flush.valid, entry);
    reports.accept(entering.ready & report_first);
    flush.accept(entering.ready & !report_first);
    // What is chosen stays so while it is written in parts.
    let entering = breath(&m.label("entering"), cfg.unhurried(), entering);
    let parts = cfg.unhurried().then_some(2);
    let Keyed { out: queue, enters, coming } =
        keyed(&m.label("queue"), parts, PENDING, &|entry: &Entry| entry.report.sent.qp, entering);

    // A packet whose verdict waits has its report in the queue, or just before.
    m.assert(!verdicts.valid | verdicts.ready, "a verdict finds its place");
    let verdict_in = verdicts.fire();
    let verdicts = deep_fifo(&m.label("verdict"), VERDICTS, verdicts);
    let waiting = m.reg("waiting", clog2(u64::from(VERDICTS)) + 1).reset(0);
    let width = waiting.width();
    m.set(&waiting, waiting + verdict_in.zext(width) - verdicts.fire().zext(width));

    // The oldest in the queue.
    let report = &queue.report;
    let sent = &report.sent;
    let is_report = !(queue.flush | report.start);
    let bars_of = m.mem("bars", cfg.qps, &Barred::of()).style(Style::Block).build();
    // A bar is written a cycle after it is decided: nothing is on show then, and what enters in that cycle finds it.
    let bar_write =
        m.wire_of("bar_write", &TableWrite { enable: bits(1), index: sent.qp, entry: Barred::of() });
    let written = m.delay("written", &bar_write);
    bars_of.write(written.enable, written.index, &written.entry);
    m.assert(!(written.enable & queue.valid), "a bar is written between two entries");
    let bar = bars_of.read(m, enters, coming, Collision::New);
    // Until a QP has been barred, nothing need be looked at. From then on what is compared counts in the second cycle.
    let some_barred = m.reg("some_barred", 1).reset(0);
    m.when(written.enable & written.entry.barred, |m| m.set(&some_barred, 1));
    let compared = m.reg("compared", 1).reset(0);
    m.set(&compared, queue.valid);
    let stopped = m.delay("stopped", &bar.stops(sent.index));
    // Inline data are known to be good.
    let waits = report.payload & !report.inline;
    let known = (!waits | verdicts.valid) & (!some_barred | compared);
    let bare = report.packet & !report.payload;
    let inline = report.payload & report.inline;
    let bad = waits & verdicts.payload;
    let drops_it = some_barred & stopped;
    let fails = bad & !drops_it;
    let (token_room, bar_room) = (m.wire("token_room", 1), m.wire("bar_room", 1));
    let inline_room = m.wire("inline_room", 1);
    let ready = queue.valid & is_report & known & (token_room | !bare) & (inline_room | !inline);
    let tells = ready & !drops_it & (bar_room | !fails);
    let told = Sent {
        last: sent.last | fails,
        status: m.mux(fails, &lit(8, WcStatus::LocQpOpErr.code()), &sent.status),
        cause: m.mux(fails, &lit(8, LocalCause::Dma.code()), &sent.cause),
        ..sent.clone()
    };
    let tell = Stream::new(m, "sent", tells, told);
    let forgets = ready & drops_it;
    let go = tell.fire() | forgets;
    verdicts.accept(go & waits);
    let inline = Stream::new(m, "inline", go & inline, drops_it);
    m.drive(&inline_room, inline.ready);
    let inline = fifo(&m.label("inline"), INLINE, inline);

    let flush = Flush { qp: sent.qp, producer: sent.index, drains: sent.last, stay: sent.status };
    let flush_out = Stream::new(m, "flush", queue.valid & queue.flush, flush);
    let starts = queue.valid & !queue.flush & report.start;
    let begun = SqStart { qp: sent.qp, psn: sent.psn, index: sent.index, recovers: starting.recovers };
    m.discard(&starting.psn);
    m.discard(&starting.index);
    let start = Stream::new(m, "start", starts, begun);
    let done = start.fire();
    queue.accept(go | flush_out.fire() | done);
    m.assert(!starts | starting.qp.eq(sent.qp), "one start at a time is on its way");
    let started = fork(m, 3, start);

    // Barred from the packet whose payload failed until the QP starts anew.
    let bars = tell.fire() & fails;
    m.set_all(
        &bar_write,
        &TableWrite {
            enable: bars | done,
            index: sent.qp,
            entry: Barred { barred: bars, index: sent.index },
        },
    );
    let bar = Stream::new(m, "bar", bars, Bar { qp: sent.qp, index: sent.index });
    m.drive(&bar_room, bar.ready);
    let bar = fifo(&m.label("bar"), 2, bar);

    // Room at the completer.
    let credit = go & (drops_it | fails) & sent.status.eq(0) & sent.last & sent.fresh;

    // A report that does not get away in a few cycles holds up those of packets that may be on the wire already, and so do
    // many of them.
    let stuck = m.reg("stuck", 2).reset(0);
    let moves = go | !queue.valid;
    m.when(moves, |m| m.set(&stuck, 0))
        .otherwise_when(!stuck.bit(1) & verdicts.valid, |m| m.set(&stuck, stuck + 1));
    // The last of them is known to the completer so many cycles after it has left.
    let known_in = m.reg("known_in", 4).reset(0);
    m.when(known_in.ne(0) & !verdicts.valid, |m| m.set(&known_in, known_in - 1));
    m.when(stuck.bit(1) | waiting.ge(MANY), |m| m.set(&known_in, 12));
    let late = known_in.ne(0);

    // The gate: packets without payload wait for their token.
    let token = Stream::new(m, "token", go & bare, !drops_it);
    m.drive(&token_room, token.ready);
    let tokens = fifo(&m.label("token"), 8, token);
    let waits = packets.payload_bytes.eq(0);
    let drops = packets.valid & waits & tokens.valid & !tokens.payload;
    let passes = packets.valid & (!waits | (tokens.valid & tokens.payload));
    let out = Stream::new(m, "packets", passes, packets.payload.clone());
    packets.accept(out.fire() | drops);
    tokens.accept((out.fire() & waits) | drops);

    Launched { sent: tell, flush: flush_out, started, done, barred: bar, packets: out, inline, credit, late }
}

#[cfg(test)]
mod tests;
