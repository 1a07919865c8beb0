// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which receive WQEs must be asked for: those of messages that have come but are not placed yet, and some behind them.
//!
//! ```text
//!  touches --> unit, unit ahead --> group --> [asked] --> there? --+--> need --> who reads
//!  probes  -----^                                ^                  +--> answer of a probe
//!  marks: what is read now, from unit to unit ---+
//! ```
//!
//! A WQE that is on the card, or on its way, stands in `asked`: an entry for each group of [`SPREAD`] slots, with the units of it
//! that were asked for last, from its beginning where a read goes on from the one before. Reads come back in their order, so what stands
//! there is what the slots hold when all reads are done. An entry may be of another queue meanwhile: then the WQE is asked for again.
//!
//! A touch is a look for its WQE, and for the last one of a group with a `distance` another for that many units behind it; one that
//! must be asked for holds up those behind it until the read is marked, for it may bring theirs as well. What has been read for the one behind
//! it by then is read again: whether a look may advance comes from registers alone. A probe is one look, and comes first. A need stands until
//! it is taken. Marks of a read: a cycle a group; they are never held up.
//!
//! An entry of a queue's former life has its number, and `clear` empties a group each cycle. Reset: `clear` does it.

use crate::config::RnicConfig;
use crate::responder::queues::Queues;
use crate::responder::receive::{group_of, slots, LIFE_BITS, SPREAD};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};

/// Bits of a unit's place in its queue, free-running.
pub(super) const UNIT_BITS: u32 = 18;

/// A message has come that takes a receive WQE.
#[derive(Clone, Bundle)]
pub struct Touch {
    /// Of which queue: a QP's, or with the highest bit set a shared one.
    pub queue: Sig,
    /// Its index, free-running.
    pub index: Sig,
    /// Log2 of the units of each WQE of the queue.
    pub stride: Sig,
}

impl Touch {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Touch { queue: bits(cfg.rq_bits()), index: bits(16), stride: bits(2) }
    }
}

/// A unit that somebody waits for.
#[derive(Clone, Bundle)]
pub struct Probe {
    pub queue: Sig,
    pub unit: Sig,
}

impl Probe {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Probe { queue: bits(cfg.rq_bits()), unit: bits(UNIT_BITS) }
    }
}

/// A WQE that must be asked for.
#[derive(Clone, Bundle)]
pub struct Need {
    pub queue: Sig,
    pub index: Sig,
    /// This one; otherwise those behind it.
    pub exact: Sig,
}

impl Need {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Need { queue: bits(cfg.rq_bits()), index: bits(16), exact: bits(1) }
    }
}

/// Units that are asked for.
#[derive(Clone, Bundle)]
pub struct Mark {
    pub valid: Sig,
    pub queue: Sig,
    pub first: Sig,
    pub last: Sig,
    pub life: Sig,
}

impl Mark {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        let unit = bits(UNIT_BITS);
        Mark { valid: bits(1), queue: bits(cfg.rq_bits()), first: unit, last: unit, life: bits(LIFE_BITS) }
    }
}

/// A queue begins a life.
#[derive(Clone, Bundle)]
pub struct Life {
    pub valid: Sig,
    pub queue: Sig,
    pub life: Sig,
}

impl Life {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Life { valid: bits(1), queue: bits(cfg.rq_bits()), life: bits(LIFE_BITS) }
    }
}

/// What it is told.
#[derive(Interface)]
pub struct Input {
    pub touches: Stream<Touch>,
    pub probes: Stream<Probe>,
    pub mark: Mark,
    pub life: Life,
    /// How far ahead of a touch is looked, in units; zero: not at all.
    pub distance: Sig,
    /// A read is being planned, or may be told of in this cycle.
    pub plans: Sig,
    /// A group of which nothing is there any more.
    pub clear: Sig,
    pub cleared: Sig,
}

/// What comes out.
#[derive(Interface)]
pub struct Ahead {
    pub needs: Stream<Need>,
    /// A probe is answered, and whether its unit has been asked for.
    pub answers: Sig,
    pub there: Sig,
    /// A read is being marked.
    pub marking: Sig,
}

#[derive(Clone, Bundle)]
struct Asked {
    valid: Sig,
    queue: Sig,
    block: Sig,
    first: Sig,
    last: Sig,
    life: Sig,
}

#[derive(Clone, Bundle)]
struct Look {
    queue: Sig,
    index: Sig,
    unit: Sig,
    /// For those behind it.
    second: Sig,
    probe: Sig,
}

/// The looks; see the page's top.
#[module]
pub fn ahead(m: &Scope, cfg: &RnicConfig, input: Input) -> Ahead {
    let Input { touches, probes, mark, life, distance, plans, clear, cleared } = input;
    let rq_bits = cfg.rq_bits();
    let spread = clog2(u64::from(SPREAD));
    let block_bits = UNIT_BITS - spread;

    // A touch or a probe, and the place ahead of it.
    let shape = Look {
        queue: bits(rq_bits),
        index: bits(16),
        unit: bits(UNIT_BITS),
        second: bits(1),
        probe: bits(1),
    };
    let front_valid = m.reg("front_valid", 1).reset(0);
    let front = m.reg_of("front", &shape);
    let further = m.reg("further", UNIT_BITS).no_reset();
    let looks_further = m.reg("looks_further", 1).no_reset();
    let moves = m.wire("moves", 1);
    let ends = moves & (!looks_further | front.second);
    let free = !front_valid | ends;
    probes.accept(free);
    touches.accept(free & !probes.valid);
    let unit = touches.index.zext(UNIT_BITS).shl_by(touches.stride);
    // Once a group is often enough, for there may be nothing to ask for.
    let ends_group =
        m.select(touches.stride, &[touches.index.trunc(2).all(), touches.index.bit(0), lit(1, 1), lit(1, 1)]);
    m.when(free, |m| {
        m.set(&front_valid, probes.valid | touches.valid);
        m.set(&front.queue, m.mux(probes.valid, &probes.queue, &touches.queue));
        m.set(&front.index, touches.index);
        m.set(&front.unit, m.mux(probes.valid, &probes.unit, &unit));
        m.set(&front.second, 0);
        m.set(&front.probe, probes.valid);
        m.set(&further, unit + distance.zext(UNIT_BITS));
        m.set(&looks_further, !probes.valid & ends_group & distance.any());
    })
    .otherwise_when(moves, |m| {
        m.set(&front.second, 1);
        m.set(&front.unit, further);
    });

    // Its group.
    let at_valid = m.reg("at_valid", 1).reset(0);
    let at = m.reg_of("at", &shape);
    let group_bits = clog2(u64::from(slots(cfg))) - spread;
    let group = m.reg("group", group_bits).no_reset();
    let advances = m.wire("advances", 1);
    m.drive(&moves, front_valid & (!at_valid | advances));
    m.when(moves, |m| {
        m.set_all(&at, &front);
        m.set(&group, group_of(cfg, front.queue, front.unit));
        m.set(&at_valid, 1);
    })
    .otherwise_when(advances, |m| m.set(&at_valid, 0));

    // What is there.
    let asked_shape = Asked {
        valid: bits(1),
        queue: bits(rq_bits),
        block: bits(block_bits),
        first: bits(spread),
        last: bits(spread),
        life: bits(LIFE_BITS),
    };
    let asked = m.mem("asked", 1 << group_bits, &asked_shape).style(Style::Block).build();
    let lives = Queues::new(m, cfg, "life_numbers", &bits(LIFE_BITS), Style::Block);
    lives.write(life.valid, life.queue, &life.life);
    // What advanced while the look before it found that its WQE must be asked for is looked at again when that read is marked.
    let again = m.reg("again", 1).reset(0);
    let retries = m.wire("retries", 1);
    let look = m.reg_of("look", &shape);
    let look_group = m.reg("look_group", group_bits).no_reset();
    m.when(advances, |m| m.set(&look_group, group));
    let goes = advances | retries;
    let entry = asked.read(m, goes, m.mux(again, &look_group, &group), Collision::Old);
    let now = lives.read(m, goes, m.mux(again, &look.queue, &at.queue), Collision::Old);
    let reads = m.reg("reads", 1).reset(0);
    m.set(&reads, goes);
    // Where there is time, what was read is compared a cycle later, and what comes of that another one; the next look waits for it.
    let (entry, now) = (cfg.looked(m, "entry", entry), cfg.looked(m, "now", now));
    let (looks, reading) = match cfg.unhurried() {
        true => {
            let [compares, looks] = ["compares", "looks"].map(|name| m.reg(name, 1).reset(0));
            m.set(&compares, reads);
            m.set(&looks, compares);
            (looks, reads | compares)
        }
        false => (reads, lit(1, 0)),
    };
    let looks = looks & !again;
    m.when(advances, |m| m.set_all(&look, &at));
    let (block, part) = (look.unit.slice(spread, block_bits), look.unit.trunc(spread));
    let within = part.ge(entry.first) & part.le(entry.last);
    let same = entry.queue.eq(look.queue) & entry.block.eq(block) & entry.life.eq(now);
    let there = cfg.looked(m, "there", entry.valid & same & (look.second | within));
    let need_valid = m.reg("need_valid", 1).reset(0);
    let need = m.reg_of("need", &Need::of(cfg));
    let lacks = looks & !there & !look.probe;
    let needs = Stream::new(m, "needs", need_valid, need.clone());
    m.when(lacks & advances, |m| m.set(&again, 1)).otherwise_when(retries, |m| m.set(&again, 0));
    m.when(lacks, |m| {
        m.set(&need_valid, 1);
        m.set_all(&need, &Need { queue: look.queue, index: look.index, exact: !look.second });
    })
    .otherwise_when(needs.ready, |m| m.set(&need_valid, 0));

    // Marks: those of a read, a group a cycle.
    let marking = m.reg("marking", 1).reset(0);
    let left = m.reg_of("left", &Mark::of(cfg));
    m.discard(&left.valid);
    let last_block = left.last.slice(spread, block_bits);
    let this_block = left.first.slice(spread, block_bits);
    let last_one = this_block.eq(last_block);
    m.assert(!mark.valid | !marking, "the marks of a read are made before the next one is planned");
    m.when(mark.valid, |m| {
        m.set(&marking, 1);
        m.set_all(&left, &mark);
    })
    .otherwise_when(marking, |m| {
        m.set(&marking, !last_one);
        m.set(&left.first, cat(&[lit(spread, 0), this_block + 1]));
    });
    let entry = Asked {
        valid: !cleared,
        queue: left.queue,
        block: this_block,
        first: left.first.trunc(spread),
        last: m.mux(last_one, &left.last.trunc(spread), &lit(spread, SPREAD - 1)),
        life: left.life,
    };
    let place = m.mux(cleared, &clear, &group_of(cfg, left.queue, left.first));
    asked.write(marking | cleared, place, &entry);

    m.assert(!mark.valid | plans, "no look is made in the cycle of a mark");
    let free = !(need_valid | plans | marking | reading);
    m.drive(&advances, at_valid & free & !again);
    m.drive(&retries, again & free);
    Ahead { needs, answers: looks & look.probe, there, marking }
}

#[cfg(test)]
mod tests;
