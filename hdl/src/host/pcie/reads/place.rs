// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts the data of completions into rows, and tells when a request is over.
//!
//! A row a cycle. A request is over one cycle after its last row was written.

use super::judge::Place;
use super::{write, Ended, Sizes, Sweep, Tables};
use crate::stream::{fifo, shown_fifo, Realigned};
use ferrowire_rtl::{Scope, Sig, Stream};

/// Completions on the way through the rotator.
const PLACES: u32 = 8;
/// Verdicts of these and of those whose data waits before it: of the gearbox before AMD's block eight, and two in the rotator.
const VERDICTS: u32 = 32;

pub fn place(
    m: &Scope,
    s: Sizes,
    tables: &Tables,
    sweep: &Sweep,
    rows: Stream<Realigned>,
    places: Stream<Place>,
    bad: Stream<Sig>,
) {
    // Out of a register: whether rows are taken is known from it.
    let place = shown_fifo(&m.label("places"), PLACES, places);
    // A path to the rotator's `ready` would cost a cycle nowhere: rows are held up only where the verdict is not there yet.
    let bad = fifo(&m.label("verdicts"), VERDICTS, bad);
    let next_row = m.reg("place_row", s.row).no_reset();
    let within = m.reg("place_within", 1).reset(0);
    let row = within.then(next_row, place.row).named("place_at");

    let moves = place.valid & place.has_data & rows.valid & (!rows.last | bad.valid);
    let ends = moves & rows.last;
    rows.accept(place.valid & place.has_data & (!rows.last | bad.valid));
    bad.accept(ends);
    place.accept(ends | !place.has_data);
    m.discard(&rows.strobe);
    tables.rows.write(moves & place.valid & place.payload.valid, row, &rows.data);
    m.when(moves, |m| {
        m.set(&next_row, row + 1);
        m.set(&within, !rows.last);
    });

    // What was too short or too long, or spoiled, fails its request; the request ends when all of it has come.
    let wrong = (ends & bad.payload & place.payload.valid).named("place_wrong");
    let over = place.fire() & place.ends;
    let failed = place.failed | wrong | tables.spoiled.read_now(place.tag);
    write(m, &tables.spoiled, sweep, wrong | over, place.tag, &!over);
    write(m, &tables.ended, sweep, over, place.tag, &Ended { phase: place.phase, failed });
}
