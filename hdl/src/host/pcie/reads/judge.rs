// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a completion with what was asked, and says where its data belongs.
//!
//! ```text
//!  head --> [ read asked, progress ] --> compare --+--> realign <-- data
//!                                          |       +--> place
//!                                          +--> progress
//! ```
//!
//! One a cycle; two of a tag may come right behind each other.

use super::{write, Progress, Sizes, Sweep, Tables, LOWER};
use crate::fields::field;
use crate::host::pcie::strip::Parts;
use crate::stream::{catch, fifo, fork, forward, realign, Realign, Realigned};
use ferrowire_rtl::{cat, lit, Bundle, Collision, Scope, Sig, Stream};
use ferrowire_spec::pcie::completion::{self, CompletionStatus};
use ferrowire_spec::pcie::kind;

/// Beats of data that wait for their verdict.
const WAITING: u32 = 8;

/// What to do with the data of a completion.
#[derive(Clone, Bundle)]
pub struct Place {
    /// It belongs into rows from this one on.
    pub valid: Sig,
    pub row: Sig,
    /// There is data, needed or not.
    pub has_data: Sig,
    pub tag: Sig,
    pub phase: Sig,
    /// The request is over with it.
    pub ends: Sig,
    pub failed: Sig,
}

pub struct Judged {
    pub places: Stream<Place>,
    pub unexpected: Sig,
}

/// What a header says alone. `late` is of the completion of a read that was given up; all else where its byte count and address are those that are
/// expected: then these follow from the header, and only that they are needs what is known of the read.
#[derive(Clone, Bundle)]
struct Head {
    /// A completion, for a tag that there is.
    sound: Sig,
    tag: Sig,
    success: Sig,
    has_data: Sig,
    poisoned: Sig,
    /// Bytes of data.
    bytes: Sig,
    /// Bytes that are still to come, these included.
    count: Sig,
    lower: Sig,
    /// It is the last one of its read.
    ends: Sig,
    /// Its data is as long as it may be: to the end, or to a multiple of 64 bytes.
    whole: Sig,
    /// Bytes of the read that come after this completion, and the lower bits of the address of the first of them.
    rest: Sig,
    after: Sig,
    /// Rows that it has to itself.
    rows: Sig,
}

impl Head {
    fn of(s: Sizes, header: Sig) -> Self {
        use completion::{BYTE_COUNT, EP, FMT, LAYOUT, LENGTH, LOWER_ADDRESS, STATUS, T8, T9, TAG, TYPE};
        let of = |which| field(&LAYOUT, which, header);
        let first = cat(&[of(&TYPE), of(&FMT)]);
        let (length, count, tag) = (of(&LENGTH), of(&BYTE_COUNT), of(&TAG));
        let known = first.eq(kind::COMPLETION) | first.eq(kind::COMPLETION_DATA);
        let there = match s.tag {
            8 => lit(1, 1),
            width => (tag >> width).eq(0),
        };
        let bytes = cat(&[lit(2, 0), length, length.eq(0)]);
        let count = cat(&[count, count.eq(0)]);
        let lower = of(&LOWER_ADDRESS);
        // Bytes that the data has from the first one asked for on.
        let useful = bytes - lower.trunc(2).zext(13);
        // Double words in which all that is to come lies: more of them than there are, or as many.
        let dwords = ((count + lower.trunc(2).zext(13) + 3) >> 2).trunc(11);
        let given = bytes.slice(2, 11);
        let ends = given.ge(dwords);
        let after = (lower.zext(13) + useful).named("after");
        let rows = (lower.trunc(s.lanes).zext(13) + useful) >> s.lanes;
        Head {
            sound: known & there & !of(&T8) & !of(&T9),
            tag: tag.trunc(s.tag),
            success: of(&STATUS).eq(CompletionStatus::Success.code()),
            has_data: of(&FMT).bit(1),
            poisoned: of(&EP),
            bytes,
            count,
            lower,
            ends,
            whole: given.eq(dwords) | (!ends & after.trunc(6).eq(0)),
            rest: count - useful,
            after: after.trunc(LOWER),
            rows: if s.row > 13 { rows.zext(s.row) } else { rows.trunc(s.row) },
        }
    }
}

pub fn judge(
    m: &Scope,
    s: Sizes,
    tables: &Tables,
    sweep: &Sweep,
    parts: Parts,
) -> (Stream<Realigned>, Judged) {
    // The tables are read while the header goes into a register.
    let header = parts.head.map(|header| Head::of(s, *header));
    let header = header.gate(m, sweep.done);
    let held = m.reg("held", 1).reset(0);
    let head = m.reg_of("head", &header.payload);
    let judged = Stream::new(m, "judged", held, head.clone());
    header.accept(!held | judged.ready);
    m.when(header.fire(), |m| m.set_all(&head, &header.payload));
    m.set(&held, header.fire() | (held & !judged.ready));

    let passes = judged.fire();
    let written = m.wire_of("progress_written", &Progress::of(s));
    let wrote = m.wire("progress_write", 1);
    write(m, &tables.progress, sweep, wrote, head.tag, &written);
    let asked = tables.asked.read(m, header.fire(), header.tag, Collision::New);
    let before = tables.progress.read(m, header.fire(), header.tag, Collision::New);

    // What is to come: the place of its first byte, its row, and how much it is.
    let begun = before.phase.eq(asked.phase);
    let at = begun.then(before.at, asked.at).named("at");
    let row = begun.then(before.row, asked.row).named("at_row");
    let left = begun.then(before.left, asked.length).named("left");
    let nothing_left = (begun & before.over).named("nothing_left");
    // A tag in use; one whose read was given up.
    let open = tables.ended.read_now(head.tag).phase.ne(asked.phase) & head.sound;
    let late = (open & tables.passed.read_now(head.tag).eq(asked.phase)).named("late");
    let alive = (open & !late).named("alive");
    let same = head.count.eq(left) & head.lower.eq(at) & !nothing_left;
    let fits = head.success & head.has_data & head.whole & same;
    let fails = !head.success & !nothing_left;
    let belongs = (alive & fits).named("belongs");
    // Of a late one its own numbers tell whether it is the last.
    let over = (alive & (fits & head.ends | fails)) | (late & (!head.success | head.ends));
    let failed = fails | late | head.poisoned | (begun & before.failed);

    // The row is written if the completion fits its read or ends it. After the end nothing but `phase`, `failed` and `over` is used.
    let gone_on = Progress {
        phase: asked.phase,
        failed,
        over: !head.success | head.ends,
        row: row + head.rows,
        at: head.after,
        left: head.rest,
    };
    m.set_all(&written, &gone_on);
    m.drive(&wrote, passes & (belongs | over));
    let lanes = s.lanes;
    let step = judged.map(|head| Step {
        run: Realign {
            from_lane: lit(lanes, s.from_lane),
            // The first double word.
            to_lane: cat(&[lit(2, 0), head.lower.slice(2, lanes - 2)]),
            length: head.bytes,
            keep: lit(1, 0),
        },
        place: Place {
            valid: belongs,
            row,
            has_data: head.has_data,
            tag: head.tag,
            phase: asked.phase,
            ends: over,
            failed,
        },
    });
    let unexpected = passes & !(belongs | over | late);
    // From a register: what the tables say may change before both have taken it.
    let mut parts_of = fork(m, 2, forward(&m.label("step"), step)).into_iter();
    let mut part = || parts_of.next().expect("two parts");
    let run = part();
    let nothing = !run.place.has_data;
    // Data waits here while its header is judged, and not the packets behind it.
    let data = fifo(&m.label("data"), WAITING, parts.data);
    // A register slice: the `ready` of the rotator does not reach the source of completions.
    let run = catch(&m.label("run"), run.discard_if(m, nothing).map(|step| step.run.clone()));
    let aligned = realign(m, run, data);
    (aligned, Judged { places: part().map(|step| step.place.clone()), unexpected })
}

#[derive(Clone, Bundle)]
struct Step {
    run: Realign,
    place: Place,
}
