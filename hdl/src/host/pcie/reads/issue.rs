// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives each chunk of a read a tag and rows, and asks for it.
//!
//! Latency 2 from the chunk, one a cycle. A chunk waits while the next tag of the ring is in use, or the rows do not suffice.

use super::{write, Asked, ReadTlp, Sizes, Sweep, Tables, LOWER};
use crate::host::pcie::send::{enables, header, Header};
use crate::host::pcie::split::Chunk;
use crate::host::pcie::writes::{Passed, Taken};
use crate::host::pcie::PcieSettings;
use crate::stream::{catch, fork, forward};
use ferrowire_rtl::{lit, Bundle, Scope, Sig, Stream};

/// A chunk as it is asked for, for who delivers it.
#[derive(Clone, Bundle)]
pub struct Order {
    pub tag: Sig,
    pub phase: Sig,
    /// Rows, less one.
    pub rows: Sig,
    /// The card's read ends with it.
    pub last: Sig,
    /// It was not asked for: no tag is left.
    pub refused: Sig,
}

/// A chunk, with what follows from it.
#[derive(Clone, Bundle)]
struct Plan {
    address: Sig,
    length: Sig,
    last: Sig,
    rows: Sig,
    behind: Taken,
}

pub struct Issued {
    pub requests: Stream<ReadTlp>,
    /// Of the request on offer: the writes before it have passed.
    pub clear: Sig,
    pub order: Stream<Order>,
}

#[allow(clippy::too_many_arguments)]
pub fn issue(
    m: &Scope,
    s: Sizes,
    tables: &Tables,
    sweep: &Sweep,
    settings: &PcieSettings,
    chunks: Stream<Chunk>,
    behind: Taken,
    passed_writes: Passed,
    freed: Sig,
) -> Issued {
    let row_count = 13 - s.lanes;
    let plan = chunks.map(|chunk| {
        // A chunk lies within 4 KiB, and so do its rows.
        let end = chunk.address.trunc(s.lanes).zext(13) + chunk.length - 1;
        Plan {
            address: chunk.address,
            length: chunk.length,
            last: chunk.last,
            rows: end.slice(s.lanes, row_count),
            behind: behind.clone(),
        }
    });
    let plan = forward(m, plan);

    // The ring of tags. Whether the next one is free is known from registers.
    let next = m.reg("next_tag", s.tag).reset(0);
    let phase = tables.phases.read_now(next);
    let passed = tables.passed.read_now(next).eq(phase);
    let ended = tables.ended.read_now(next).phase.eq(phase);
    let free = (sweep.done & passed & ended).named("tag_free");
    let late = (sweep.done & passed & !ended).named("tag_late");
    // As many tags in a row are late as there are.
    let limit = match s.tags {
        0..=32 => lit(s.tag, s.tags - 1),
        _ => settings.extended_tags.then(lit(s.tag, s.tags - 1), lit(s.tag, 31)),
    };
    let late_ones = m.reg("late_ones", s.tag + 1).reset(0);
    let none = late_ones.gt(limit.zext(s.tag + 1)).named("no_tag");
    let after = next.ge(limit).then(lit(s.tag, 0), next + 1);

    // The ring of rows.
    let count = s.row + 1;
    let room = m.reg("rows_free", count).reset(s.rows);
    let row = m.reg("next_row", s.row).reset(0);
    let wide = count.max(row_count);
    // One more than `plan.rows` are wanted.
    let fits = room.zext(wide).gt(plan.rows.zext(wide)).named("rows_fit");

    let go = fits & (free | none);
    let skip = (plan.valid & late & !none).named("skips");
    let refused = none & !free;
    let given = plan.gate(m, go);
    let (takes, asks) = (given.fire(), (given.fire() & !refused).named("asks"));
    let asked = Asked { phase: !phase, row, at: given.address.trunc(LOWER), length: given.length };
    let rows = given.rows.zext(wide).trunc(count);
    write(m, &tables.phases, sweep, asks, next, &!phase);
    write(m, &tables.asked, sweep, asks, next, &asked);
    m.when(takes | skip, |m| {
        m.set(&next, after);
        m.set(&late_ones, late_ones + skip.zext(s.tag + 1));
    });
    m.when(asks, |m| m.set(&late_ones, 0));
    m.when(takes, |m| m.set(&row, row + rows.trunc(s.row) + 1));
    // `room - rows - 1` beside the choice.
    m.set(&room, m.mux(takes, &(room + !rows + freed.zext(count)), &(room + freed.zext(count))));

    let both = given.map(|plan| {
        let (dwords, first_be, last_be) = enables(plan.address.trunc(2), plan.length);
        let head = Header {
            write: lit(1, 0),
            requester: settings.requester,
            tag: next.zext(8),
            address: plan.address,
            dwords,
            first_be,
            last_be,
            relaxed: lit(1, 0),
        };
        let (header, long) = header(&head, s.long_headers);
        let order = Order { tag: next, phase: !phase, rows: plan.rows, last: plan.last, refused };
        Both { tlp: ReadTlp { header, long, behind: plan.behind.clone() }, order }
    });
    // From here on an offer stays: whether a tag is free may change before it is taken. The turn that `send` gives comes back a cycle later.
    let both = catch(&m.label("caught"), both);
    // Whether it must wait is compared while it goes into a register, and then until it need not: what has passed has passed.
    let comes = (both.fire(), both.tlp.behind.count);
    let given = forward(&m.label("given"), both);
    let clear = m.reg("is_clear", 1).reset(0);
    let (comes_clear, waits) = (passed_writes.covers(comes.1), given.tlp.behind.count);
    m.set(&clear, m.mux(comes.0, &comes_clear, &(clear | passed_writes.covers(waits))));
    m.assert(
        !given.valid | !clear | !(passed_writes.count - waits).msb(),
        "no read is clear before its writes",
    );
    let mut parts = fork(m, 2, given).into_iter();
    let mut part = || parts.next().expect("two parts");
    let (requests, order) = (part(), part());
    let nothing = requests.order.refused;
    Issued {
        requests: requests.discard_if(m, nothing).map(|both| both.tlp.clone()),
        clear,
        order: order.map(|both| both.order.clone()),
    }
}

#[derive(Clone, Bundle)]
struct Both {
    tlp: ReadTlp,
    order: Order,
}
