// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes READs and atomics off the QPs' lists, in turns, and cuts READs into packets.
//!
//! ```text
//!  wake --> listed? --> line of QPs --> turn: row --> entry --> emit --+--> candidates
//!             ^            ^                                    |      +--> operands of atomics
//!             +------------+------------ more to do, or not ----+      +--> freed places
//! ```
//!
//! A turn is one packet and takes 3 cycles (row, entry, emit; 4 where there is time), and the next one begins in the last of them. A QP that has
//! more to do goes to the end of the line, or goes on at once where nobody waits. So a READ of any length costs others one
//! packet at a time. A QP stands in the line once, for `listed` says that it is there or has the turn; what wakes it
//! meanwhile is remembered.
//!
//! Where no QP has the turn or stands in the line, a new entry has its turn in the cycle in which it comes.
//!
//! What is kept of a READ between turns is the number of its packets: address and length follow from it and the path MTU.
//!
//! A READ behind an atomic of its QP waits until that one is finished: it must see what the atomic wrote. The QP leaves the
//! line meanwhile; `order` wakes it.
//!
//! READs of a QP that congestion control holds back are not cut: while its gate is shut it leaves the line as well, and comes back when the gate
//! opens, which costs others a turn. Each packet is charged to it in the cycle behind its own, or the first one in which no request is. A QP that has
//! the turn all the time may cut two more packets until its gate is known to be shut. Atomics are not held back, and neither is what is dropped.
//!
//! READs of a QP whose priority stands still on the wire are not cut meanwhile: it stays in line, and its turns cost others 3 cycles each. So do READs and atomics
//! of a QP whose packets loop while [`loopback`](crate::loopback) has no room for a response; it is reserved as one begins.
//!
//! A READ whose next packet comes with a repetition that is behind it (see `order`) is dropped, held back or not. It waits for an atomic before it as
//! others do: that one's end wakes the QP, and that of what is dropped wakes nobody.
//!
//! Entries of a QP that has failed or ends cost a turn each and become drops, which tell all behind that they are done
//! with. When the list of a QP that ends is empty, its end goes on, behind everything else of it.
//!
//! Reset: rows, marks and ends are swept, one QP a cycle; what comes meanwhile waits.

use super::atomic::{Operands, ATOMICS};
use super::order::{places, Entry, Freed, Front, Lists, Wake, COUNT_BITS};
use crate::config::RnicConfig;
use crate::context::congestion::{Charge, Gate};
use crate::loopback::reserved;
use crate::memory::to_page_end;
use crate::path::mtu_bytes;
use crate::stream::{deep_fifo, forward, half, shown_fifo, spare_fifo};
use crate::types::{QpAttributes, QpBroadcast, TableWrite};
use ferrowire_rtl::{bits, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::wire::opcode::Opcode;

/// What a candidate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// A packet of a READ.
    Read,
    /// An atomic to be executed.
    Atomic,
    /// One to be answered again.
    Replay,
    /// An entry of a QP that has failed or ends, or one that comes once more behind.
    Drop,
    /// The end of the QP's life.
    End,
}

impl Work {
    pub(super) fn code(self) -> u32 {
        self as u32
    }
}

/// Bits of a [`Work`].
pub(super) const WORK_BITS: u32 = 3;

/// What follows from a candidate at the other end.
#[derive(Clone, Bundle)]
pub(super) struct About {
    pub(super) qp: Sig,
    /// A [`Work`].
    pub(super) work: Sig,
    /// The entry ends with it.
    pub(super) closes: Sig,
    /// The entry is not a repetition.
    pub(super) new: Sig,
    /// The entry is an atomic.
    pub(super) atomic: Sig,
    pub(super) psn: Sig,
    pub(super) syndrome: Sig,
    pub(super) msn: Sig,
    /// It is the first packet of a READ.
    pub(super) first: Sig,
    /// And the last.
    pub(super) last: Sig,
    /// Its payload.
    pub(super) bytes: Sig,
    /// It returns inside the card.
    pub(super) loops: Sig,
}

impl About {
    pub(super) fn is(&self, work: Work) -> Sig {
        self.work.eq(work.code())
    }

    /// Beats that are reserved for it in the loop's ring.
    pub(super) fn reserved(&self, cfg: &RnicConfig) -> Sig {
        let read = self.is(Work::Read);
        let answered = read | self.is(Work::Atomic) | self.is(Work::Replay);
        let beats = reserved(cfg, self.bytes & read.repeat(13));
        beats & (answered & self.loops).repeat(beats.width())
    }

    /// Opcode of a READ response.
    pub(super) fn opcode(&self, m: &Scope) -> Sig {
        let code = |o: Opcode| lit(8, o.code());
        let table = [
            code(Opcode::RcReadResponseMiddle),
            code(Opcode::RcReadResponseFirst),
            code(Opcode::RcReadResponseLast),
            code(Opcode::RcReadResponseOnly),
        ];
        m.select(ferrowire_rtl::cat(&[self.first, self.last]), &table)
    }
}

/// What may become a packet.
#[derive(Clone, Bundle)]
pub(super) struct Candidate {
    pub(super) about: About,
    pub(super) va: Sig,
    /// Its bytes go on in the next page.
    pub(super) crosses: Sig,
    pub(super) rkey: Sig,
    pub(super) pd: Sig,
}

/// What comes out.
#[derive(Interface)]
pub(super) struct Cut {
    pub(super) candidates: Stream<Candidate>,
    /// For each atomic that is to be executed.
    pub(super) operands: Stream<Operands>,
    /// For each packet of a READ.
    pub(super) charges: Stream<Charge>,
    /// Beats of the loop's ring that are reserved in this cycle.
    pub(super) reserves: Sig,
    pub(super) freed: Freed,
}

/// What keeps a QP from being answered.
#[derive(Clone, Bundle)]
pub(super) struct Waits {
    /// Congestion control holds it back.
    pub(super) gate: TableWrite<Gate>,
    /// Priorities that stand still.
    pub(super) paused: Sig,
    /// The loop has room for a response.
    pub(super) may_loop: Sig,
}

/// What is kept of a QP.
#[derive(Clone, Bundle)]
struct Row {
    /// Place of the oldest entry.
    head: Sig,
    /// Packets of it that have gone.
    packets: Sig,
    /// Entries that have gone, modulo 2^8.
    entries: Sig,
    /// An atomic is among those that may not be finished.
    fence: Sig,
}

#[derive(Clone, Bundle)]
struct Copy {
    pd: Sig,
    mtu: Sig,
    priority: Sig,
    loops: Sig,
}

impl Copy {
    fn from(a: &QpAttributes) -> Copy {
        Copy { pd: a.pd, mtu: a.mtu, priority: a.priority, loops: a.loops }
    }
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Sweep,
    Idle,
    Row,
    Entry,
    /// Where there is time: what is left of a READ is compared with the path MTU.
    Measure,
    Emit,
}

/// Bits of a packet's number within a READ: 2^31 bytes in packets of 256.
const PACKET_BITS: u32 = 23;

/// Wakes that may wait: they are looked at in two of three cycles at least.
const WAKES: u32 = 4;

/// The cutter. `failed`: QPs that have failed, and those that begin anew.
#[module]
#[allow(clippy::too_many_arguments)]
pub(super) fn cut(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    lists: Lists,
    wakes: Stream<Wake>,
    failed: TableWrite<Sig>,
    waits: Waits,
) -> Cut {
    let Waits { gate, paused, may_loop } = waits;
    let state = m.fsm("state", State::Sweep);
    let (sweeping, idle, at_row) = (state.is(State::Sweep), state.is(State::Idle), state.is(State::Row));
    let (at_entry, at_emit) = (state.is(State::Entry), state.is(State::Emit));
    let qp = m.reg("qp", cfg.qp_bits()).reset(0);
    let leaves = m.wire("leaves", 1);
    let more = m.wire("more", 1);

    // Who has to do: a wake is looked at in any cycle in which no turn ends.
    let opens = gate.enable & !gate.entry.shut;
    let opens = Stream::new(m, "opens", opens, Wake { qp: gate.index, end: lit(1, 0), new: lit(1, 0) });
    m.assert(sweeping | !opens.valid | opens.ready, "a gate opens once in some cycles");
    // After reset congestion control opens each gate, one a cycle: these wake nothing, and fill no FIFO.
    let opened = forward(&m.label("opened"), opens);
    // A new entry while there is nothing else to do: its turn begins at once.
    let direct = m.wire("direct", 1);
    let (comes, new) = (wakes.valid, wakes.payload.clone());
    let woken = Stream::new(
        m,
        "woken",
        (opened.valid & !sweeping) | (wakes.valid & !direct),
        m.mux(opened.valid, &opened.payload, &wakes.payload),
    );
    opened.accept(sweeping | woken.ready);
    wakes.accept(!opened.valid & woken.ready);
    let wakes = shown_fifo(&m.label("wakes"), WAKES, woken);
    // In the line, or its turn.
    let listed = m.mem("listed", cfg.qps, &bits(1)).style(Style::Distributed).build();
    let looks = wakes.valid & !leaves & !sweeping;
    wakes.accept(!leaves & !sweeping);
    // The QP is known late, so the table is written a cycle later. Until then the value is forwarded.
    let lists_one = m.reg("lists_one", 1).reset(0);
    let (list_at, list_as) = (m.reg("list_at", cfg.qp_bits()).no_reset(), m.reg("list_as", 1).no_reset());
    let listed_now = |of: Sig| m.mux(lists_one & of.eq(list_at), &list_as, &listed.read_now(of));
    let is_listed = listed_now(wakes.qp);
    let enlists = looks & !is_listed;
    let (line, lined) = m.later("line", &qp);
    // While it idles no turn ends.
    let takes = (idle & wakes.valid & !is_listed & !line.valid).named("takes");
    let push = (enlists & !takes) | (leaves & more & line.valid);
    // A wake may be looked at while the last cycle of a turn waits for room.
    let pushed = Stream::new(m, "pushed", push, m.mux(leaves, &qp, &wakes.qp));
    m.assert(!pushed.valid | pushed.ready, "the line has a place for every QP");
    lined.connect(deep_fifo(&m.label("queue"), cfg.qps, pushed));
    // The line is empty: it was in the cycle before, and no QP entered it then.
    let still = m.delay_zero("still", &(idle & !line.valid & !push));
    let rests = still & idle & !line.valid & !wakes.valid & !opened.valid;
    m.drive(&direct, if cfg.unhurried() { lit(1, 0) } else { rests & comes & new.new });
    m.assert(!direct | !listed_now(new.qp), "a QP that is in line waits for its turn");
    // One that has the turn is remembered.
    let came = m.reg("came", 1).reset(0);
    let begins = direct | (idle & (line.valid | (wakes.valid & !is_listed))) | (leaves & (line.valid | more));
    // Whether one does is known late: what is read where none does is not looked at.
    let may_begin = idle | leaves;
    line.accept(may_begin);
    let looked = m.mux(wakes.valid, &wakes.qp, &new.qp);
    let other = m.mux(at_emit, &qp, &looked);
    let starts = m.mux(line.valid, &line.payload, &other);
    m.when(begins, |m| {
        m.set(&qp, starts);
        m.set(&came, 0);
        m.set(&state, State::Row);
    })
    .otherwise_when(leaves, |m| m.set(&state, State::Idle))
    .otherwise_when(looks & wakes.qp.eq(qp), |m| m.set(&came, 1));

    // What is known of the QP whose turn it is.
    let place_bits = lists.links.entry.width();
    let row_shape =
        Row { head: bits(place_bits), packets: bits(PACKET_BITS), entries: bits(COUNT_BITS), fence: bits(1) };
    let rows = m.mem("rows", cfg.qps, &row_shape).style(Style::Block).build();
    let next = m.wire_of("next", &row_shape);
    rows.write(leaves | sweeping, qp, &next);
    let row = rows.read(m, may_begin, starts, Collision::New);
    let fronts = m.mem("fronts", cfg.qps, &Front::of(cfg)).style(Style::Block).build();
    fronts.write(lists.front.enable, lists.front.index, &lists.front.entry);
    let front = fronts.read(m, may_begin, starts, Collision::New);
    let run_starts = m.mem("run_starts", cfg.qps, &bits(24)).build();
    run_starts.write(lists.start.enable, lists.start.index, &lists.start.entry);
    let run_start = run_starts.read(m, may_begin, starts, Collision::New);
    let given = &broadcast.attributes;
    let copy_shape = Copy::from(&QpAttributes::of(cfg));
    let copies = m.mem("copies", cfg.qps, &copy_shape).style(Style::Block).build();
    copies.write(given.enable, given.index, &Copy::from(&given.entry));
    m.discard(&given.entry);
    m.discard(&broadcast.state);
    let copy = copies.read(m, may_begin, starts, Collision::New);
    // One that shuts meanwhile is seen in the next turn.
    let gates = m.mem("gates", cfg.qps, &bits(1)).build();
    gates.write(gate.enable, gate.index, &gate.entry.shut);
    m.discard(&gate.entry.stop);
    let shut = gates.read(m, may_begin, starts, Collision::Old);
    // So is a failure.
    let failed_bits = m.mem("failed", cfg.qps, &bits(1)).style(Style::Block).build();
    failed_bits.write(failed.enable, failed.index, &failed.entry);
    let has_failed = failed_bits.read(m, may_begin, starts, Collision::New);
    // And an end, but for the wake that brings it.
    let endings = m.mem("endings", cfg.qps, &bits(1)).style(Style::Block).build();
    let has_ended = m.wire("has_ended", 1);
    let enters = looks | direct;
    let marked = m.mux(enters, &looked, &qp);
    endings.write(has_ended | (looks & wakes.end) | sweeping, marked, &looks);
    let is_ending = endings.read(m, may_begin, starts, Collision::New);

    // The row's cycle: the oldest entry is read. Where the list is empty, what is read means nothing.
    let empty = row.head.eq(front.tail);
    let pool = m.mem("pool", places(cfg), &Entry::of()).style(cfg.large(places(cfg))).build();
    pool.write(lists.pool.enable, lists.pool.index, &lists.pool.entry);
    let entry = pool.read(m, at_row, row.head, Collision::Any);
    let links = m.mem("links", places(cfg), &bits(place_bits)).style(cfg.large(places(cfg))).build();
    links.write(lists.links.enable, lists.links.index, &lists.links.entry);
    let following = links.read(m, at_row, row.head, Collision::Any);
    let ending = m.delay("ending", &is_ending);
    let dropping = m.delay("dropping", &(is_ending | has_failed));
    let none = m.delay("none", &empty);
    let settled = m.reg("settled", 1).no_reset();
    let offset = m.reg("offset", 32).no_reset();
    // A run is behind it, and brings what is left of it if it starts with its next PSN or an earlier one: if the entry's PSN is this one or
    // a later one.
    let behind = m.reg("behind", 1).no_reset();
    let brought = m.reg("brought", 24).no_reset();
    let ahead = front.since - row.entries;
    m.when(at_row, |m| {
        m.set(&settled, row.entries.eq(front.finished));
        m.set(&behind, front.whole & !empty & ahead.ne(0) & !ahead.bit(COUNT_BITS - 1));
        m.set(&brought, run_start - row.packets.zext(24));
        // An MTU of 128 times two to the code.
        let shifted: Vec<Sig> = (0..6).map(|code| row.packets.zext(32) << (7 + code)).collect();
        m.set(&offset, m.select(copy.mtu, &shifted));
    });

    // The read's time and the way around the memory are in the row's cycle alone.
    let held_row = m.reg_of("held_row", &row_shape);
    m.when(at_row, |m| m.set_all(&held_row, &row));
    let others_behind = m.delay("others_behind", &following.ne(front.tail));

    // The entry's cycle: what it will be.
    let row = held_row;
    let work = m.reg("work", WORK_BITS).no_reset();
    let speaks = m.reg("speaks", 1).reset(0);
    let va = m.reg("va", 64).no_reset();
    let remaining = m.reg("remaining", 32).no_reset();
    let psn = m.reg("psn", 24).no_reset();
    let fenced = !entry.atomic & row.fence & !settled;
    let repeated = behind & !entry.atomic & !fenced & !(entry.psn - brought).bit(23);
    let dropping = dropping | repeated;
    let waits = fenced | (!entry.atomic & shut);
    let loops = cfg.only(cfg.loopback, copy.loops);
    let stands = !entry.atomic & paused.shr_by(copy.priority).bit(0);
    let still = m.mux(loops, &!may_loop, &stands);
    // It has its turn again without being woken.
    let stood = m.reg("stood", 1).no_reset();
    // What it needs before it goes.
    let executes = m.reg("executes", 1).no_reset();
    let needs_loop = m.reg("needs_loop", 1).no_reset();
    let was_repeated = m.reg("was_repeated", 1).no_reset();
    m.when(at_entry, |m| {
        m.set(&was_repeated, repeated);
        m.set(&stood, !none & !dropping & !waits & still);
        m.set(&speaks, m.mux(none, &ending, &(dropping | !(waits | still))));
        let goes_on = !none & !dropping;
        m.set(&executes, cfg.only(cfg.atomics, goes_on & entry.atomic & !entry.again));
        m.set(&needs_loop, goes_on & loops);
        m.set(&work, Work::Read.code());
        m.when(entry.atomic, |m| m.set(&work, Work::Atomic.code()));
        m.when(entry.atomic & entry.again, |m| m.set(&work, Work::Replay.code()));
        m.when(dropping, |m| m.set(&work, Work::Drop.code()));
        m.when(none, |m| m.set(&work, Work::End.code()));
        m.set(&va, entry.va + offset.zext(64));
        m.set(&remaining, entry.swap.trunc(32) - offset);
        m.set(&psn, entry.psn + row.packets.zext(24));
        m.set(&state, if cfg.unhurried() { State::Measure } else { State::Emit });
    });
    m.when(state.is(State::Measure), |m| m.set(&state, State::Emit));
    m.when(at_row, |m| m.set(&state, State::Entry));

    // The last cycle.
    let is = |w: Work| work.eq(w.code());
    let reads = is(Work::Read);
    let mtu = m.delay("mtu", &mtu_bytes(copy.mtu));
    let last = cfg.looked(m, "is_last", remaining.le(mtu.zext(32)));
    let closes = !reads | last;
    let bytes = m.wire("bytes", 13);
    m.set(&bytes, 0);
    m.when(reads, |m| m.set(&bytes, m.mux(last, &remaining.trunc(13), &mtu)));
    m.when(executes, |m| m.set(&bytes, 8));
    let looped = m.delay("looped", &loops);
    let about = About {
        qp,
        work,
        closes,
        new: !none & !entry.again,
        atomic: !none & entry.atomic,
        psn,
        syndrome: entry.syndrome,
        msn: entry.msn,
        first: row.packets.eq(0),
        last,
        bytes,
        loops: looped,
    };
    let crosses = bytes.gt(to_page_end(va));
    let candidate = Candidate { about, va, crosses, rkey: entry.rkey, pd: copy.pd };
    let (operands_room, charge_room) = (m.wire("operands_room", 1), m.wire("charge_room", 1));
    // Acknowledgements may have taken the room since it was looked at.
    let loop_room = !needs_loop | may_loop;
    let room = (!executes | operands_room) & charge_room & loop_room;
    let candidate = Stream::new(m, "candidate", at_emit & speaks & room, candidate);
    let reserved = candidate.about.reserved(cfg);
    let reserves = reserved & candidate.fire().repeat(reserved.width());
    let charge = Stream::new(m, "charge", candidate.fire() & reads, Charge { qp, bytes });
    m.drive(&charge_room, charge.ready);
    let charges = half(&m.label("charges"), charge);
    let operands = Operands { swap: entry.swap, compare: entry.compare, compares: entry.compares };
    let operands = Stream::new(m, "operand", candidate.fire() & executes, operands);
    m.drive(&operands_room, operands.ready);
    m.drive(&leaves, at_emit & (!speaks | candidate.fire()));
    let candidates = half(&m.label("candidates"), candidate);
    let operands = spare_fifo(&m.label("operands"), ATOMICS, cfg.unhurried(), operands);

    // What becomes of the QP.
    let ends = is(Work::End) & speaks;
    let gone = leaves & speaks & closes & !ends;
    let others = others_behind | is_ending;
    m.set(&more, came | stood | (speaks & (!closes | others)));
    m.when(ends, |m| m.set(&more, 0));
    m.set_all(&next, &row);
    m.when(speaks & !ends, |m| {
        m.set(&next.packets, row.packets + 1);
        // The READ behind it has no atomic before it that is not finished, either.
        m.when((reads | was_repeated) & settled, |m| m.set(&next.fence, 0));
        m.when(executes, |m| m.set(&next.fence, 1));
        m.when(closes, |m| {
            m.set(&next.head, following);
            m.set(&next.packets, 0);
            m.set(&next.entries, row.entries + 1);
        });
    });
    let unlists = leaves & !more;
    // The QP that has the turn is in line, and so is the QP of a wake: that may be written in any cycle.
    m.set(&lists_one, at_emit | wakes.valid | direct | sweeping);
    m.set(&list_at, marked);
    m.set(&list_as, !(unlists | sweeping));
    listed.write(lists_one, list_at, &list_as);
    m.drive(&has_ended, leaves & ends);
    m.when(sweeping, |m| {
        m.set_all(&next, &row_shape.zeros());
        m.set(&next.head, qp.zext(place_bits));
        m.set(&qp, qp + 1);
        m.when(qp.all(), |m| m.set(&state, State::Idle));
    });
    Cut { candidates, operands, charges, reserves, freed: Freed { valid: gone, place: row.head } }
}

#[cfg(test)]
mod tests;
