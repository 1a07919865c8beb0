// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table of one row a key, read, changed and written by events in stages that never stall.
//!
//! ```text
//!  source 0 --> ring --+        +-----+   +-----+   +----+ +----+
//!  source k --> ring --+-pick-->|  I  |-->|  F  |-->| E1 |>| En |--> done, again
//!                ^   ^          | key |   | row |   +----+ +----+
//!                |   |          +-----+   +-----+             | new row
//!                |   |             v       ^ ^ ^              |
//!                |   |            RAM -----+ | +--------------+
//!                |   |             ^         +------ W, W2 <--+
//!                |   |             +---------------- W
//!                |   +-- again: this source goes back to this event
//!                +------ done: its place is free
//! ```
//!
//! An event waits in the ring of its source. I: one is issued, and its key goes to the RAM. F: the RAM's output or a newer row of the key goes to the row
//! register. E1 to En: the block's function, with the registers that the block puts between. In En the block gives the new row, and says whether the event is
//! done. W: the new row goes to the RAM. An event that is taken in cycle 0 can be issued in cycle 1, and is in En in cycle 2 + n.
//!
//! Rate: one event a cycle; of one key, one in n. An event is issued when none of the n - 1 cycles before it issued one of its key. How long ago the
//! newest one was decides, as nothing stalls, where its row is in F: n cycles, at the output of En; n + 1, in W; n + 2, in W2; longer, in the RAM. So no keys
//! are compared after I. An event always gives its row back, changed or not.
//!
//! *Again* says that an event is not done: its takers have no room, or it has more to do. Its row is written, what follows it of its source in the
//! stages is annulled, and the source goes back to it. It is back in En n + 2 cycles later, if no other is picked. Events of other sources go on: one of the same key may
//! count on the row of one that has been annulled, so that one goes on too, and gives its row back as it was. What an event gives counts only where it is done. An event
//! may go again only on something that no event of its own source brings about; a source whose events bring it about stands before it. The order within a source is kept.
//!
//! Sources are picked in their order; the last `turns` of them take turns among each other. A source that is held back is not picked.
//!
//! Backpressure: `ready` of the events is a flip-flop. The longest path of the template itself is from a ring's LUT RAM through the pick and the comparison of
//! the keys to the pointer that issues. Ports: one read and one write of the rows, both clocked.
//!
//! Reset: the rings are empty, and the engine writes the first row of each key, one a cycle, before it issues anything.

use ferrowire_rtl::{cat, clog2, lit, Bundle, Collision, Mem, Scope, Sig, Stream, Style};

/// Places of a ring: as many as there are events in the stages of the longest engine, and one that enters.
const PLACES: u32 = 8;

/// Events of one kind, in their order.
pub struct Source {
    /// One may be issued.
    offers: Sig,
    place: Sig,
    /// It is.
    issues: Sig,
    /// One in En: it goes again, from this place on; or it is done.
    again: Sig,
    back: Sig,
    done: Sig,
    /// The oldest event that is not done, and where the next one goes, with a bit that changes with each round.
    head: Sig,
    tail: Sig,
}

impl Source {
    /// The ring of a source, and the event that it offers. `hold`: none is issued in this cycle, but those under way go on.
    pub fn new<T: Bundle>(m: &Scope, name: &str, events: Stream<T>, hold: Sig) -> (Source, T) {
        let (source, event, _) = Source::with_store(m, name, events, hold);
        (source, event)
    }

    /// The same, with the events that the ring has.
    fn with_store<T: Bundle>(m: &Scope, name: &str, events: Stream<T>, hold: Sig) -> (Source, T, Mem<T>) {
        let m = &m.label(name);
        let place_bits = clog2(u64::from(PLACES));
        let pointer = |part: &str| m.reg(&format!("{name}_{part}"), place_bits + 1).reset(0);
        let wire = |part: &str, width: u32| m.wire(&format!("{name}_{part}"), width);
        let (tail, next, taken) = (pointer("tail"), pointer("next"), pointer("taken"));
        let store = m.mem(&format!("{name}_ring"), PLACES, &events.payload).style(Style::Distributed).build();
        store.write(events.fire(), tail.trunc(place_bits), &events.payload);
        events.accept(!taken.msb());
        m.when(events.fire(), |m| m.set(&tail, tail + 1));
        let (issues, again) = (wire("issues", 1), wire("again", 1));
        let (back, done) = (wire("back", place_bits + 1), wire("done", 1));
        m.when(again, |m| m.set(&next, back)).otherwise_when(issues, |m| m.set(&next, next + 1));
        // A place is free a cycle after its event is done; one that is done as a reset comes frees none.
        let left = m.reg(&format!("{name}_left"), 1).reset(0);
        m.set(&left, done);
        let step = |yes: Sig| yes.zext(place_bits + 1);
        m.set(&taken, taken + step(events.fire()) - step(left));
        let head = pointer("head");
        m.when(done, |m| m.set(&head, head + 1));
        m.assert(!(done | again) | back.eq(head), "events of a source are done in their order, each once");
        let within = (tail - head).named(&format!("{name}_within"));
        m.assert(
            within.lt(PLACES + 1) & taken.eq(within + step(left)),
            "a ring has no more events than places",
        );
        m.assert((next - head).lt(within + 1), "what is issued has come and is not done");
        let event = store.read_now(next.trunc(place_bits));
        let offers = next.ne(tail) & !hold;
        (Source { offers, place: next, issues, again, back, done, head, tail }, event, store)
    }
}

/// What a table is like.
pub struct Shape<'a, R: Bundle> {
    /// How many keys there are: a power of two.
    pub keys: u32,
    /// A row.
    pub row: R,
    /// Stages of the block's function: 1 to 4.
    pub stages: u32,
    /// Where the rows are.
    pub style: Style,
    /// How many of the last sources take turns.
    pub turns: usize,
    /// The first row of a key.
    pub first: &'a dyn Fn(Sig) -> R,
}

/// An event in E1, with its row.
pub struct Visit<R: Bundle, E: Bundle> {
    /// Its key.
    pub key: Sig,
    /// The row as the event before it of the same key left it.
    pub row: R,
    /// The event.
    pub event: E,
    /// What is in F, a cycle before it is in E1.
    pub coming: E,
}

/// What the block says of an event in En.
pub struct Verdict<R: Bundle> {
    /// It is not done.
    pub again: Sig,
    /// The new row.
    pub row: R,
}

/// The stages of one table.
pub struct Table<R: Bundle> {
    /// The key of what is issued: what lies beside the rows is read.
    issued: Sig,
    /// An event is in En, and counts.
    pub valid: Sig,
    void: Sig,
    unchanged: R,
    /// Its key.
    pub key: Sig,
    /// The rows are swept: this key gets its first row.
    pub sweeps: Sig,
    /// Which.
    pub swept: Sig,
    again: Sig,
    new_row: R,
    /// The events in F, E1 to En, and W.
    under: Vec<Under>,
}

/// An event on its way.
#[derive(Clone, ferrowire_rtl::Bundle)]
struct Under {
    valid: Sig,
    /// It has been annulled: it gives its row back as it is, for a younger event may wait for that.
    void: Sig,
    key: Sig,
    source: Sig,
    /// Its place in the ring, and a bit that changes with each round.
    place: Sig,
}

/// Which source is picked: a bit each.
fn pick(m: &Scope, sources: &[Source], turns: usize) -> Vec<Sig> {
    let offers: Vec<Sig> = sources.iter().map(|source| source.offers).collect();
    let first = sources.len() - turns;
    let any = |of: &[Sig]| of.iter().fold(lit(1, 0), |any, one| any | *one);
    let mut picked: Vec<Sig> = (0..first).map(|i| offers[i] & !any(&offers[..i])).collect();
    if turns == 0 {
        return picked;
    }
    // Of those that take turns, the ones after the last one go first.
    let after = m.reg("after", turns as u32).reset(0);
    let due: Vec<Sig> = (0..turns).map(|i| offers[first + i] & after.bit(i as u32)).collect();
    let some_due = any(&due);
    for i in 0..turns {
        let before = some_due.then(any(&due[..i]), any(&offers[first..first + i]));
        picked.push(offers[first + i] & (due[i] | !some_due) & !before & !any(&offers[..first]));
    }
    for i in 0..turns {
        let later = (1u64 << turns) - (2 << i);
        m.when(picked[first + i] & sources[first + i].issues, |m| m.set(&after, later as u32));
    }
    picked
}

impl<R: Bundle> Table<R> {
    /// The first half: up to the row in E1. `event`: from what the sources offer, and which of them is picked, a bit each; its key comes first.
    pub fn begin<E: Bundle>(
        m: &Scope,
        shape: &Shape<R>,
        sources: Vec<Source>,
        event: &dyn Fn(&[Sig]) -> (Sig, E),
    ) -> (Table<R>, Visit<R, E>) {
        let n = shape.stages as usize;
        assert!((1..=4).contains(&n), "an engine has 1 to 4 stages, not {n}");
        assert!(!sources.is_empty() && shape.turns <= sources.len(), "an engine has sources");
        let key_bits = clog2(u64::from(shape.keys));
        let source_bits = clog2(sources.len() as u64).max(1);
        let again = m.wire("again", 1);
        let new_row = m.wire_of("new_row", &shape.row);

        // After reset each key gets its row, by way of the register of what is written: the row's zeros are the reset of its flip-flops. It is
        // written a cycle later.
        let sweeping = m.reg("sweeping", 1).reset(1);
        let swept = m.reg("swept", key_bits).reset(0);
        m.when(sweeping, |m| {
            m.set(&swept, swept + 1);
            m.set(&sweeping, !swept.all());
        });
        let sweeps = m.reg("sweeps", 1).reset(1);
        m.set(&sweeps, sweeping);

        // I: one of the sources.
        let picked = pick(m, &sources, shape.turns);
        let (issued, event) = event(&picked);
        let (mut source, mut place) = (lit(source_bits, 0), sources[0].place);
        for (i, one) in sources.iter().enumerate().skip(1) {
            place = picked[i].then(one.place, place);
            source = picked[i].then(lit(source_bits, i as u32), source);
        }
        assert_eq!(
            issued.width(),
            key_bits,
            "a key of {} bits in a table of {} rows",
            issued.width(),
            shape.keys
        );

        // Events under way: the one in F first, then those in E1 to En, and W. The one at place k was issued k + 1 cycles ago.
        let names: Vec<&str> = ["f", "e1", "e2", "e3", "e4"].into_iter().take(n + 1).chain(["w"]).collect();
        let under: Vec<Under> = names
            .iter()
            .map(|name| {
                let rest = |part: &str, width: u32| m.reg(&format!("{name}_{part}"), width).no_reset();
                Under {
                    valid: m.reg(&format!("{name}_valid"), 1).reset(0),
                    void: rest("void", 1),
                    key: rest("key", key_bits),
                    source: rest("source", source_bits),
                    place: rest("place", place.width()),
                }
            })
            .collect();
        let last = &under[n];
        let same =
            |(name, one): (&&str, &Under)| (one.valid & one.key.eq(issued)).named(&format!("same_{name}"));
        let same: Vec<Sig> = names.iter().zip(&under).map(same).collect();
        let follows = same[..n - 1].iter().fold(lit(1, 0), |any, one| any | *one).named("follows");
        let any_picked = picked.iter().fold(lit(1, 0), |any, one| any | *one);
        let may = (!follows & !sweeps).named("may");
        let acts = (last.valid & !last.void).named("acts");
        let annuls = (acts & again).named("annuls");
        let first = Under { valid: any_picked & may, void: lit(1, 0), key: issued, source, place };
        for (k, one) in under.iter().enumerate() {
            let before = if k == 0 { &first } else { &under[k - 1] };
            let void =
                if k <= n { before.void | (annuls & before.source.eq(last.source)) } else { before.void };
            m.set(&one.valid, before.valid);
            m.set(&one.void, void);
            m.set(&one.key, before.key);
            m.set(&one.source, before.source);
            m.set(&one.place, before.place);
        }
        for (i, one) in sources.iter().enumerate() {
            let own = last.source.eq(i);
            m.drive(&one.issues, picked[i] & may);
            m.drive(&one.again, annuls & own);
            m.drive(&one.back, last.place);
            m.drive(&one.done, acts & !again & own);
        }

        // The rows.
        let written = m.reg_of("w_row", &shape.row);
        m.set_all(&written, &m.mux(sweeping, &(shape.first)(swept), &new_row));
        let older = m.reg_of("w2_row", &shape.row);
        m.set_all(&older, &written);
        let rows = m.mem("rows", shape.keys, &shape.row).style(shape.style).build();
        let write = &under[n + 1];
        m.discard(&(write.void, write.place, write.source));
        let at = m.mux(sweeps, &m.delay("swept_before", &swept), &write.key);
        rows.write(write.valid | sweeps, at, &written);
        let stored = rows.read(m, lit(1, 1), issued, Collision::Any);
        // The newest of those that are not in the RAM when it is read.
        let (in_last, in_w, in_w2) = (same[n - 1], same[n], same[n + 1]);
        let from_w = (!in_last & in_w).named("from_w");
        let from_w2 = (!in_last & !in_w & in_w2).named("from_w2");
        let from = m.delay("from", &cat([&(in_last | from_w2), &(from_w | from_w2)]));
        let row = m.reg_of("row", &shape.row);
        m.set_all(&row, &m.select(from, &[stored, new_row.clone(), written, older]));

        let unchanged = (1..n).fold(row.clone(), |row, k| {
            let kept = m.reg_of(&format!("row_{k}"), &row);
            m.set_all(&kept, &row);
            kept
        });

        let in_f = m.reg_of("f_event", &event);
        m.set_all(&in_f, &event);
        let in_e1 = m.reg_of("event", &event);
        m.set_all(&in_e1, &in_f);
        let visit = Visit { key: under[1].key, row, event: in_e1, coming: in_f };
        let (void, key) = (last.void, last.key);
        let table = Table { issued, valid: acts, void, key, unchanged, sweeps, swept, again, new_row, under };
        (table, visit)
    }

    /// A row of a table that others write, in E1: as it was when the event was issued.
    pub fn beside<T: Bundle>(&self, m: &Scope, name: &str, table: &Mem<T>) -> T {
        self.prepared(m, name, table, |read| read)
    }

    /// What follows from it, in E1: computed in F, where the event is [`Visit::coming`].
    pub fn prepared<T: Bundle, U: Bundle>(
        &self,
        m: &Scope,
        name: &str,
        table: &Mem<T>,
        prepare: impl FnOnce(T) -> U,
    ) -> U {
        let ready = prepare(table.read(m, lit(1, 1), self.issued, Collision::New));
        let kept = m.reg_of(name, &ready);
        m.set_all(&kept, &ready);
        kept
    }

    /// The second half. Gives whether an event is done in this cycle.
    pub fn end(self, m: &Scope, verdict: &Verdict<R>) -> Sig {
        m.drive(&self.again, verdict.again);
        let row = m.mux(self.void, &self.unchanged, &verdict.row);
        for (wire, value) in self.new_row.fields().iter().zip(row.fields()) {
            m.drive(&wire.1, value.1);
        }
        (self.valid & !verdict.again).named("done")
    }
}

mod proof;
#[cfg(test)]
mod tests;

pub(crate) use proof::proofs;
