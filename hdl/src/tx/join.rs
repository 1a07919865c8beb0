// SPDX-License-Identifier: MIT OR Apache-2.0
//! The byte rotator of the way out: pieces of host memory become one run of bytes in the lanes of the frame.
//!
//! ```text
//!  run ----> plan --> skid ----+----------------+
//!                              v                v
//!           +------+      +---------+      +---------+      +-----+
//!  beat --->| here |--+-->| rotate  |--+-->|  merge  |----->| out |--> beat
//!           +------+  |   | log2 B  |  |   | & strobe|      +-----+
//!             |       |   +---------+  |   +---------+
//!             v       |        ^       |      ^
//!        next lane ---+--------+       +--> held lanes: what the beat under way has already, or what fell into the next one
//! ```
//!
//! A run says in which lane of the frame a packet's payload begins, in which lane its first piece lies, and how long it is.
//! The payload comes as pieces, each some beats: what one SGE holds of the packet, and one over a page's end is one still,
//! for lanes go on there. All beats of a piece are rotated by the same number of lanes; how many is worked out as the piece comes,
//! from the lane in which the one before it ended. A beat leaves when it is full, or the packet's last. What the last beat has too much
//! leaves in a beat of its own.
//!
//! Output bytes outside the run are zero, input bytes outside the pieces mean nothing.
//!
//! Latency: 2 cycles from a beat to the beat out of it, 3 from the run. A beat a cycle: a packet takes as many cycles as the larger
//! number of its beats in and out. Between packets no cycle is lost, for runs are taken ahead; but where a packet of which the
//! first beat fills none comes behind one of which it does. That is hidden where the taker does not want payload in every cycle. A beat that
//! only fills up what is held costs a cycle without output.
//!
//! A run of length 0: no beat is taken and none given. `ready` of the beats is a register: one beat more has a place in the LUT RAM in which they wait for
//! their plan. Of narrow beats there is one register instead, and a path from the output's `ready` through two gates. Reset: nothing is held.

use super::Payload;
use crate::config::RnicConfig;
use crate::stream::{blend, catch, lanes_from, rotate};
use ferrowire_rtl::{bits, cat, lit, module, Bits, Bundle, Scope, Sig, Stream, Style};

/// Where a packet's payload goes.
#[derive(Clone, Bundle)]
pub struct Run {
    /// Lane of the first byte of its first piece.
    pub from_lane: Sig,
    /// Lane of the first byte on the way out.
    pub to_lane: Sig,
    /// Bytes.
    pub length: Sig,
}

impl Run {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Run {
        let lane = cfg.lane_bits();
        Run { from_lane: bits(lane), to_lane: bits(lane), length: bits(13) }
    }
}

/// A beat of a run.
#[derive(Clone, Bundle)]
pub struct Joined {
    /// The bytes; zero outside the run.
    pub data: Sig,
    /// Last beat of the run.
    pub last: Sig,
}

impl Joined {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Joined {
        Joined { data: bits(8 * cfg.beat_bytes), last: bits(1) }
    }
}

/// A run worked out.
#[derive(Clone, Bundle)]
struct Plan {
    /// Lanes to rotate the first piece by.
    rotate: Sig,
    /// Which goes down: the first of several beats fills none.
    down: Sig,
    /// Lane of the first byte.
    first: Sig,
    /// Lane of the last byte.
    end: Sig,
}

/// Lanes from one to another, and whether that is down.
fn shift(from: Sig, to: Sig) -> (Sig, Sig) {
    let lane = from.width();
    let shift = to.zext(lane + 1) - from.zext(lane + 1);
    (shift.trunc(lane), shift.bit(lane))
}

fn plan(run: &Run) -> Plan {
    let lane = run.from_lane.width();
    let (rotate, down) = shift(run.from_lane, run.to_lane);
    let end = run.to_lane + run.length.trunc(lane) - 1;
    Plan { rotate, down, first: run.to_lane, end }
}

/// A register slice of plans, which says as well what it shows in the next cycle.
struct Plans {
    valid: Sig,
    shown: Plan,
    /// The one that is shown in the next cycle, if there is one.
    next: Plan,
}

fn plans(m: &Scope, input: Stream<Plan>, taken: Sig) -> Plans {
    let valid = m.reg("plan_valid", 1).reset(0);
    let shown = m.reg_of("plan", &input.payload);
    let spare_valid = m.reg("spare_valid", 1).reset(0);
    let spare = m.reg_of("spare", &input.payload);
    input.accept(!spare_valid);
    let moves = taken | !valid;
    let next = m.mux(moves, &m.mux(spare_valid, &spare, &input.payload), &shown);
    m.when(moves, |m| {
        m.set(&valid, spare_valid | input.valid);
        m.set(&spare_valid, 0);
    })
    .otherwise_when(input.fire(), |m| m.set(&spare_valid, 1));
    m.set_all(&shown, &next);
    m.when(!spare_valid, |m| m.set_all(&spare, &input.payload));
    Plans { valid, shown, next }
}

/// What is known of a beat before its packet's plan.
#[derive(Clone, Bundle)]
struct Here {
    /// First beat of its packet.
    begins: Sig,
    /// First beat of a piece.
    opens: Sig,
    ends_piece: Sig,
    last: Sig,
    /// Lane of its first byte.
    from: Sig,
    /// The lane behind that of its last byte, with a carry.
    end: Sig,
}

/// Joins the pieces of each packet.
#[module]
pub fn join(m: &Scope, cfg: &RnicConfig, runs: Stream<Run>, beats: Stream<Payload>) -> Stream<Joined> {
    let lane = cfg.lane_bits();
    let nothing = runs.length.eq(0);
    let plan_taken = m.wire("plan_taken", 1);
    let plans = plans(m, runs.discard_if(m, nothing).map(plan), plan_taken);

    // A beat waits until its packet's plan is there.
    let begins = m.reg("begins", 1).reset(1);
    let opens = m.reg("opens", 1).reset(1);
    let here_valid = m.reg("here_valid", 1).reset(0);
    let moves = m.wire("moves", 1);
    m.when(beats.fire(), |m| {
        m.set(&begins, beats.last);
        m.set(&opens, beats.ends_piece);
    });
    let (came, data) = (beats.fire(), beats.data);
    let ready = beats.ready;
    let comes = beats.map(|beat| Here {
        begins,
        opens,
        ends_piece: beat.ends_piece,
        last: beat.last,
        from: beat.from,
        end: beat.end.zext(lane + 1) + 1,
    });
    // Whether this beat leaves is known late, so another has a place: in LUT RAM that costs no more.
    let comes = if cfg.unhurried() { comes } else { catch(m, comes) };
    let here = m.reg_of("here", &comes.payload);
    m.discard(&here.from);
    comes.accept(moves);
    m.when(moves, |m| {
        m.set(&here_valid, comes.valid);
        m.set_all(&here, &comes.payload);
    });
    let here_data = if cfg.unhurried() {
        let kept = m.reg("here_data", data.width()).no_reset();
        m.when(moves, |m| m.set(&kept, data));
        kept
    } else {
        let (head, tail) = (m.reg("head", 1).reset(0), m.reg("tail", 1).reset(0));
        let store = m.mem("here_data", 2, &data).style(Style::Distributed).build();
        store.write(ready, tail, &data);
        m.when(came, |m| m.set(&tail, !tail));
        m.when(here_valid & moves, |m| m.set(&head, !head));
        store.read_now(head)
    };

    // Where it goes: worked out as it comes, for thousands of multiplexers ask.
    let (turn, turned_down, at) =
        (m.reg("turn", lane).no_reset(), m.reg("turned_down", 1).no_reset(), m.reg("at", lane).no_reset());
    let end = turn.zext(lane + 1) + here.end;
    let down = here.opens & turned_down;
    let fills = (!down & (!here.ends_piece | end.bit(lane))).named("fills");
    let behind = here.ends_piece.then(end.trunc(lane), turn);
    let emits = here.last | fills;
    // The packet's last byte comes to lie before the beat's first: in the next beat.
    let spills = here.last & plans.shown.end.lt(at);

    // The beat that comes next begins there. A packet's first beat is where its plan says, which may come after it.
    let next = here_valid.then(behind, at);
    let (next_turn, next_down) = shift(comes.from, next);
    m.when(moves, |m| {
        m.set(&at, next);
        m.when(comes.opens, |m| m.set(&turn, next_turn));
        m.set(&turned_down, next_down);
    });
    m.when(m.mux(moves, &comes.begins, &here.begins), |m| {
        m.set(&at, plans.next.first);
        m.set(&turn, plans.next.rotate);
        m.set(&turned_down, plans.next.down);
    });

    // Merge with what is held.
    let shown_valid = m.reg("shown_valid", 1).reset(0);
    let shown = m.reg_of("shown", &Joined::of(cfg));
    let joined = Stream::new(m, "out", shown_valid, shown.clone());
    let shown_free = !shown_valid | joined.ready;
    // Held lanes are to leave in a beat of their own, with this strobe.
    let flushing = m.reg("flushing", 1).reset(0);
    let flush_strobe = m.reg("flush_strobe", cfg.beat_bytes).no_reset();
    let ready = here_valid & plans.valid;
    // What is only held may come while the beat before leaves.
    let only_held = down & !here.last;
    let taken = ready & ((shown_free & !flushing) | (only_held & (shown_free | !flushing)));
    m.drive(&moves, !here_valid | taken);
    m.drive(&plan_taken, taken & here.last);

    let all = lit(cfg.beat_bytes, &Bits::ones(cfg.beat_bytes));
    // No beat of this packet has left.
    let fresh = m.reg("fresh", 1).reset(1);
    let to_end = !(lanes_from(plans.shown.end) << 1);
    let strobe = fresh.then(lanes_from(plans.shown.first), all) & (here.last & !spills).then(to_end, all);
    let strobe = flushing.then(flush_strobe, strobe);
    let rotated = rotate(m, here_data, turn);
    let new = lanes_from(at);
    // A register a byte, for each byte keeps what it has or takes what comes.
    let held: Vec<Sig> =
        (0..cfg.beat_bytes).map(|lane| m.reg(&format!("held{lane}"), 8).no_reset()).collect();
    m.when(shown_free, |m| {
        m.set(&shown_valid, flushing | (ready & emits));
        let new = new & !flushing.repeat(cfg.beat_bytes);
        m.set(&shown.data, blend(m, new, strobe, rotated, cat(&held)));
        m.set(&shown.last, flushing | (here.last & !spills));
        m.set(&flushing, 0);
    });
    m.when(taken, |m| {
        m.set(&fresh, here.last | (fresh & !emits));
        m.set(&flushing, spills);
        m.set(&flush_strobe, to_end);
        for (lane, (held, byte)) in (0..).zip(held.iter().zip(rotated.chunks(8))) {
            m.when(emits | new.bit(lane), |m| m.set(held, byte));
        }
    });
    joined
}

#[cfg(test)]
mod tests;
