// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of a send WQE: behind everything that its answer brought, and with what became of that.
//!
//! ```text
//!  entries --> slice, row of its QP
//!                |
//!                +--> token: what an answer brings -+--> completion --> CQ
//!                     end of a message ------------ | -> nothing, where none is wanted
//!  outcomes (place) --------------------------------+--> fault: QP to error
//!                                      failed, cause: tables with a place a QP
//! ```
//!
//! `track` puts down here in one order what ends, and where data of READs and atomics stand in between; for each of these a
//! token waits for its outcome from `place`, in the same order. So no completion overtakes what it reports, nor what
//! an older one does (IBTA volume 1, 9.7.7.1.2, 10.8.6).
//!
//! A READ or an atomic counts as done when its outcome is there: who has a fence, or waits for the QP's `max_rd_atomic`, is told then
//! (10.8.3.3).
//!
//! The keys of all SGEs were good when the READ was sent. Where one is not any more, nothing of that packet is written: the message ends with the cause,
//! the QP goes to the error state, and whatever `track` takes for done meanwhile is flushed, one completion each. The
//! first of the QP that ends behind the token is the one that failed, for it is the oldest. Such a QP has not drained: a mark of that is dropped.
//!
//! An entry in two cycles, three for the one that ends with a cause: it passes a slice, after which its QP's row is on show. A QP's failure is forgotten with the mark at the end of its life. Reset: the table
//! is cleared, one QP a cycle.

use crate::config::RnicConfig;
use crate::responder::Outcome;
use crate::stream::{deep_fifo, fifo, half};
use crate::types::{Completion, ReadsDone, TableWrite, READ_BITS};
use ferrowire_rtl::{bits, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::cqe::{LocalCause, WcStatus};

/// What `track` puts down.
#[derive(Clone, Bundle)]
pub struct Entry {
    /// An answer brings something: its outcome is awaited.
    pub token: Sig,
    /// A message ends, or the QP's life does.
    pub completes: Sig,
    /// What ends is a READ or an atomic.
    pub answered: Sig,
    /// It ends with a completion even if all goes well.
    pub wanted: Sig,
    /// The completion; of a token alone, the QP counts.
    pub completion: Completion,
}

impl Entry {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Entry {
            token: bits(1),
            completes: bits(1),
            answered: bits(1),
            wanted: bits(1),
            completion: Completion::of(cfg),
        }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Settled {
    /// Completions, in order for each QP.
    pub completions: Stream<Completion>,
    /// QPs that go to the error state.
    pub faults: Stream<Sig>,
    /// A message fails here: a pulse.
    pub failed: Sig,
    /// READs and atomics that are done.
    pub reads_done: ReadsDone,
    /// QPs that may wait for that.
    pub kicks: Stream<Sig>,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Sweep,
    Ready,
    /// The cause is known.
    Cause,
}

#[derive(Clone, Bundle)]
struct Row {
    failed: Sig,
    /// The message that failed has not ended.
    owes: Sig,
    /// READs and atomics done.
    reads: Sig,
}

/// The completion of a WQE.
#[derive(Clone, Bundle)]
struct End {
    /// The WQE was executed: opcode and length of its completion mean something.
    counts: Sig,
    completion: Completion,
}

/// The end of the line. `outcomes`: one for each token, in order.
#[module]
pub fn settle(m: &Scope, cfg: &RnicConfig, entries: Stream<Entry>, outcomes: Stream<Outcome>) -> Settled {
    let qp_bits = cfg.qp_bits();
    let state = m.fsm("state", State::Sweep);
    let (sweeping, ready) = (state.is(State::Sweep), state.is(State::Ready));
    let sweep = m.reg("sweep", qp_bits).reset(0);
    m.when(sweeping, |m| {
        m.set(&sweep, sweep + 1);
        m.when(sweep.eq(cfg.qps - 1), |m| m.set(&state, State::Ready));
    });

    // The row is read as its entry comes. It is written only when the entry leaves, and the next one comes a cycle later at the earliest:
    // nothing is read while it is written.
    let entering = Stream::new(m, "entering", entries.valid & !sweeping, entries.payload.clone());
    entries.accept(entering.ready & !sweeping);
    let (enters, coming) = (entering.fire(), entering.completion.qpn.trunc(qp_bits));
    let entries = half(&m.label("entries"), entering);
    let entry = &entries.payload;
    let qp = entry.completion.qpn.trunc(qp_bits);
    // The mark of a life's end; that of a drain changes nothing, and is not for a QP that has failed.
    let drained = entry.completion.marker & entry.completion.solicited;
    let marker = entry.completion.marker & !entry.completion.solicited;
    let shape = Row { failed: bits(1), owes: bits(1), reads: bits(READ_BITS) };
    let table = m.mem("rows", cfg.qps, &shape).style(Style::Block).build();
    let row_write = TableWrite { enable: bits(1), index: bits(qp_bits), entry: shape.clone() };
    let row_write = m.wire_of("row_write", &row_write);
    table.write(row_write.enable, row_write.index, &row_write.entry);
    let before = table.read(m, enters, coming, Collision::Never);
    let known = entries.valid & (!entry.token | outcomes.valid);
    let fails = entry.token & outcomes.status.ne(0) & !before.failed;
    let failed = (before.failed | fails) & !marker;

    // The message that failed, if its failure is not of this entry, has its cause in the table.
    let looks_up = ready & known & entry.completes & before.failed & before.owes & !entry.completion.marker;
    let at_cause = state.is(State::Cause);
    let causes = m.mem("causes", cfg.qps, &Outcome::of()).style(Style::Block).build();
    let goes = m.wire("goes", 1);
    // Tables are written as long as an entry waits to go, with the same each time.
    causes.write(known & fails, qp, &outcomes.payload);
    // Read for each entry, and looked at for few. A cause is not written by an entry that looks one up.
    let cause = causes.read(m, entries.valid & ready, qp, Collision::Any);
    m.when(looks_up, |m| m.set(&state, State::Cause));

    let can = known & ((ready & !looks_up) | at_cause);
    let tells = entry.completes & (entry.wanted | failed) & !(drained & before.failed);
    let flushed =
        Outcome { status: lit(8, WcStatus::WrFlushErr.code()), cause: lit(8, LocalCause::None.code()) };
    let ended = m.mux(at_cause, &cause, &m.mux(fails, &outcomes.payload, &flushed));
    let counts = !failed & !entry.completion.status.any() & !entry.completion.marker;
    let end = Completion {
        status: m.mux(failed, &ended.status, &entry.completion.status),
        syndrome: m.mux(failed, &ended.cause, &entry.completion.syndrome),
        ..entry.completion.clone()
    };
    let kick_room = m.wire("kick_room", 1);
    let may_kick = kick_room | !entry.answered;
    let completion = Stream::new(m, "completion", can & tells & may_kick, End { counts, completion: end });
    // Whether it tells anything is known late: one that does not waits for the room as well.
    m.drive(&goes, can & completion.ready & may_kick);
    let completions = half(&m.label("completions"), completion).map(|end| Completion {
        // Only status, QP and WQE count in an error completion (IBTA volume 1, 11.4.2.1).
        opcode: end.completion.opcode & end.counts.repeat(8),
        byte_len: end.completion.byte_len & end.counts.repeat(32),
        ..end.completion.clone()
    });
    entries.accept(goes);
    outcomes.accept(goes & entry.token);
    m.when(goes & at_cause, |m| m.set(&state, State::Ready));

    let owes = (before.owes | fails) & (!entry.completes | drained);
    let reads = m.mux(marker, &lit(READ_BITS, 0), &(before.reads + entry.answered.zext(READ_BITS)));
    let after = Row { failed, owes: owes & !marker, reads };
    let changes = fails | marker | before.failed | entry.answered;
    let at = m.mux(sweeping, &sweep, &qp);
    let next = m.mux(sweeping, &shape.zeros(), &after);
    m.set_all(
        &row_write,
        &TableWrite { enable: (known & changes) | sweeping, index: at, entry: next.clone() },
    );
    // Whoever waits for READs hears of it when what they brought is in memory.
    let reads_done = ReadsDone { enable: (goes & changes) | sweeping, index: at, entry: next.reads };
    let reads_done = m.delay("reads_done", &reads_done);
    let kick = Stream::new(m, "kick", goes & entry.answered, qp);
    m.drive(&kick_room, kick.ready);
    let kicks = fifo(&m.label("kicks"), 4, kick);
    // The failure count and the fault may each be told a cycle later.
    let fault_now = m.reg("fault_now", 1).reset(0);
    m.set(&fault_now, goes & fails);
    let fault = Stream::new(m, "fault", fault_now, m.delay("fault_qp", &qp));
    m.assert(!fault.valid | fault.ready, "a QP fails here once in its life");
    let faults = deep_fifo(&m.label("faults"), cfg.qps, fault);
    Settled { completions, faults, failed: fault_now, reads_done, kicks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;

    const QPS: usize = 4;
    const DENIED: u64 = 0x84;

    /// What the host sees of a completion: QP, WQE, opcode, status, cause, whether it is a mark.
    type End = (u64, u64, u64, u64, u64, u64);

    /// A QP's life, as it should end.
    #[derive(Default)]
    struct Life {
        index: u64,
        /// It has failed; and its cause, until a message ends with it.
        failed: bool,
        owes: Option<u64>,
        reads: u64,
        ends: Vec<End>,
    }

    #[test]
    fn what_cannot_be_placed_ends_its_message_and_what_is_behind_is_flushed() {
        let cfg = RnicConfig { qps: QPS as u32, ..RnicConfig::named("generic-8b").unwrap() };
        let netlist = build("bench", |m| {
            let entries = m.stream_in("entries", &Entry::of(&cfg));
            let out = settle(m, &cfg, entries, m.stream_in("outcomes", &Outcome::of()));
            m.stream_out("completion", out.completions);
            m.stream_out("fault", out.faults);
            m.stream_out("kick", out.kicks);
            m.output("failed", &out.failed);
            m.output("reads_done", &out.reads_done);
        });
        let netlist = netlist.unwrap_or_else(|e| panic!("{e}"));
        for seed in 1..=6 {
            let mut sim = Sim::new(&netlist);
            sim.reset();
            let mut random = Random::new(seed);
            let mut sources =
                [Source::new("entries", &Entry::of(&cfg)), Source::new("outcomes", &Outcome::of())];
            let mut sinks = [
                Sink::new("completion", &Completion::of(&cfg)),
                Sink::new("fault", &bits(cfg.qp_bits())),
                Sink::new("kick", &bits(cfg.qp_bits())),
            ];
            let mut lives: [Life; QPS] = Default::default();
            let (mut faults, mut kicks, mut all) = (Vec::new(), Vec::new(), 0);
            for _ in 0..600 {
                let qp = random.rng.random_range(0..QPS);
                let life = &mut lives[qp];
                let marker = random.chance(0.05);
                // That of a drain is for a QP that has not failed, and changes nothing.
                let drained = !marker && random.chance(0.05);
                if drained {
                    let flags = ["completes", "wanted", "completion_marker", "completion_solicited"];
                    let mut values: Vec<(&str, u128)> = flags.iter().map(|flag| (*flag, 1)).collect();
                    values.extend([("completion_qpn", qp as u128), ("completion_wqe_index", 7)]);
                    sources[0].push_values(&values);
                    if !life.failed {
                        life.ends.push((qp as u64, 7, 0, 0, 0, 1));
                    }
                    continue;
                }
                let token = !marker && random.chance(0.5);
                let completes = marker || !token || random.chance(0.6);
                let (answered, wanted) = (token && completes, marker || random.chance(0.6));
                // `track` may have an error of its own to tell.
                let status = if !marker && random.chance(0.05) { 12 } else { 0 };
                let flag = |yes: bool| u128::from(yes);
                sources[0].push_values(&[
                    ("token", flag(token)),
                    ("completes", flag(completes)),
                    ("answered", flag(answered)),
                    ("wanted", flag(wanted || status != 0)),
                    ("completion_qpn", qp as u128),
                    ("completion_wqe_index", life.index.into()),
                    ("completion_opcode", if marker { 0 } else { 5 }),
                    ("completion_status", status),
                    ("completion_marker", flag(marker)),
                ]);
                if token {
                    let cause = if random.chance(0.2) { DENIED } else { 0 };
                    let status = if cause > 0 { u128::from(WcStatus::LocProtErr.code()) } else { 0 };
                    sources[1].push_values(&[("status", status), ("cause", cause.into())]);
                    if cause > 0 && !life.failed {
                        (life.failed, life.owes) = (true, Some(cause));
                        faults.push(qp as u64);
                    }
                }
                if answered {
                    life.reads += 1;
                    kicks.push(qp as u64);
                }
                if marker {
                    let (index, ends) = (life.index, std::mem::take(&mut life.ends));
                    *life = Life { ends, ..Life::default() };
                    life.ends.push((qp as u64, index, 0, 0, 0, 1));
                } else if completes {
                    let flushed = u64::from(WcStatus::WrFlushErr.code());
                    let (opcode, status, cause) = match (life.failed, life.owes.take()) {
                        (false, _) if status != 0 => (0, status as u64, 0),
                        (false, _) => (5, 0, 0),
                        (true, Some(cause)) => (0, WcStatus::LocProtErr.code().into(), cause),
                        (true, None) => (0, flushed, 0),
                    };
                    if wanted || status != 0 {
                        life.ends.push((qp as u64, life.index, opcode, status, cause, 0));
                    }
                    life.index += 1;
                }
                all = lives.iter().map(|life| life.ends.len()).sum();
            }
            // Outcomes come when they like.
            sources[1].stall = Some(0.4);
            // The last entries may have nothing to tell.
            let (faulted, kicked, mut after) = (faults.len(), kicks.len(), 0);
            run(&mut sim, &mut sources, &mut sinks, &mut random, 0.2, 20_000, |s| {
                let told =
                    s[0].items.len() >= all && s[1].items.len() >= faulted && s[2].items.len() >= kicked;
                after += u32::from(told);
                after > 100
            });
            assert_eq!(sources[0].left() + sources[1].left(), 0, "seed {seed}");
            let found: Vec<End> = sinks[0]
                .items
                .iter()
                .map(|item| {
                    let of = |name: &str| item[name].to_u64();
                    (of("qpn"), of("wqe_index"), of("opcode"), of("status"), of("syndrome"), of("marker"))
                })
                .collect();
            for (qp, life) in lives.iter().enumerate() {
                let own: Vec<End> = found.iter().filter(|end| end.0 == qp as u64).copied().collect();
                assert_eq!(own, life.ends, "seed {seed}: QP {qp}");
            }
            assert_eq!((sinks[1].values(""), sinks[2].values("")), (faults, kicks), "seed {seed}");
        }
    }
}
