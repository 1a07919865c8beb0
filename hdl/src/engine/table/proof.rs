// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is proven of the template: of any function of a row and an event, for the new row and *again* are free.
//!
//! The benches have two sources and four keys. The bench's own picture of the stages knows nothing of the template but when an event is issued.

use super::*;
use crate::proof::{constant, Order, Proof, Way};
use ferrowire_rtl::{bits, Bundle};

const KEYS: u32 = 4;
const SOURCES: usize = 2;

/// What is said of an event at its source.
#[derive(Clone, Bundle)]
struct Event {
    key: Sig,
    tag: Sig,
}

/// An event with its source, from I to En.
#[derive(Clone, Bundle)]
struct Sourced {
    source: Sig,
    event: Event,
}

fn event() -> Event {
    Event { key: bits(2), tag: bits(1) }
}

fn row() -> Sig {
    bits(2)
}

/// What a bench sees.
struct Bench {
    /// Of each source with a ring: an event enters, and which.
    enters: Vec<Option<(Sig, Event, Mem<Event>)>>,
    holds: Vec<Sig>,
    offers: Vec<Sig>,
    issues: Vec<Sig>,
    /// Of each source: its pointers to the next event to be issued, the oldest, and where the next one goes.
    pointers: Vec<[Sig; 3]>,
    /// The events in F and E1 to En.
    under: Vec<(Under, Sourced)>,
    /// What is issued, or would be.
    picked: Sourced,
    sweeps: Sig,
    /// In En.
    acts: Sig,
    key: Sig,
    event: Sourced,
    old: Sig,
    again: Sig,
    new: Sig,
    done: Sig,
}

fn first_row(key: Sig) -> Sig {
    key + 1
}

/// A source that offers any event at any time, and does not go back: what holds with it holds with a ring.
fn anything(m: &Scope, i: usize) -> (Source, Event) {
    let wire = |part: &str, width: u32| m.wire(&format!("s{i}_{part}"), width);
    let place = m.input(&format!("place{i}"), clog2(u64::from(PLACES)) + 1);
    let source = Source {
        offers: m.input(&format!("offers{i}"), 1),
        place,
        issues: wire("issues", 1),
        again: wire("again", 1),
        back: wire("back", place.width()),
        done: wire("done", 1),
        head: place,
        tail: place,
    };
    m.discard(&(source.again, source.back, source.done));
    (source, m.input_of(&format!("event{i}"), &event()))
}

/// A table of free events, whose new rows are free. `rings`: which sources have a ring; the others offer anything.
fn bench(m: &Scope, stages: u32, turns: usize, rings: [bool; SOURCES]) -> Bench {
    let (mut enters, mut holds, mut offered) = (Vec::new(), Vec::new(), Vec::new());
    let sources: Vec<Source> = (0..SOURCES)
        .map(|i| {
            let (source, event) = if rings[i] {
                let events = m.stream_in(&format!("in{i}"), &event());
                let hold = m.input(&format!("hold{i}"), 1);
                holds.push(hold);
                let (enter, entering) = (events.fire(), events.payload.clone());
                let (source, event, store) = Source::with_store(m, &format!("s{i}"), events, hold);
                enters.push(Some((enter, entering, store)));
                (source, event)
            } else {
                enters.push(None);
                anything(m, i)
            };
            offered.push(event);
            source
        })
        .collect();
    let offers = sources.iter().map(|source| source.offers).collect();
    let issues: Vec<Sig> = sources.iter().map(|source| source.issues).collect();
    let issues_of = [issues[0], issues[1]];
    let pointers = sources.iter().map(|source| [source.place, source.head, source.tail]).collect();
    let shape = Shape { keys: KEYS, row: row(), stages, style: Style::Block, turns, first: &first_row };
    let picked = m.wire_of("picked", &Sourced { source: bits(1), event: event() });
    let (table, at) = Table::begin(m, &shape, sources, &|picks| {
        let event = m.mux(picks[1], &offered[1], &offered[0]);
        m.drive(&picked, Sourced { source: picks[1], event: event.clone() });
        (event.key, picked.clone())
    });
    m.discard(&at.key);
    m.discard(&table.swept);
    let (mut event, mut old) = (at.event, at.row);
    let in_f = m.delay("f_event_too", &picked);
    m.discard(&in_f);
    let mut events = vec![in_f, event.clone()];
    for stage in 1..stages {
        event = m.delay(&format!("event_{stage}"), &event);
        old = m.delay(&format!("old_{stage}"), &old);
        events.push(event.clone());
    }
    let (again, new) = (m.input("refuses", 1), m.input("new_row_is", 2));
    let (acts, key, sweeps) = (table.valid, table.key, table.sweeps);
    let under = table.under.iter().cloned().zip(events).collect();
    let done = table.end(m, &Verdict { again, row: new });
    m.discard(&picked);
    // For the reader of a counterexample.
    m.output("sweeps", &sweeps);
    m.output("issues", &cat([&issues_of[0], &issues_of[1]]));
    m.output("acts", &acts);
    m.output("acts", &event);
    m.output("acts_row", &old);
    m.output("done", &done);
    Bench {
        enters,
        holds,
        offers,
        issues,
        pointers,
        under,
        picked,
        sweeps,
        acts,
        key,
        event,
        old,
        again,
        new,
        done,
    }
}

impl Bench {
    /// Events of this source pass En.
    fn passes(&self, source: usize) -> Sig {
        self.acts & self.event.source.eq(source)
    }

    fn is_done(&self, source: usize) -> Sig {
        self.done & self.event.source.eq(source)
    }

    /// The events of a source with a ring.
    fn order(&self, m: &Scope, source: usize) -> Order<Event> {
        let (enters, event, store) = self.enters[source].as_ref().expect("a source with a ring");
        let order = Order::new(m, &format!("in{source}"), PLACES, *enters, event, self.is_done(source));
        let [next, head, tail] = self.pointers[source];
        let at = m.reg("watched_at", tail.width()).no_reset();
        m.when(order.chooses, |m| m.set(&at, tail));
        // Lemmas, by which the prover needs no long way: where what has been issued is.
        m.assert(order.within.trunc(4).eq(tail - head), "events within are counted by the pointers");
        m.assert(
            !order.waits | at.eq(head + order.ahead.trunc(4)),
            "the one that is watched keeps its place",
        );
        let is_watched = |event: &Event| event.pack().eq(order.watched.pack());
        let stored = store.read_now(at.trunc(3));
        m.assert(!order.waits | is_watched(&stored), "the ring keeps the one that is watched");
        let mut place = head;
        for (one, event) in self.under.iter().rev() {
            let itself = one.source.eq(event.source) & one.key.eq(event.event.key);
            m.assert(!one.valid | itself, "what is known of an event under way is of this event");
            let own = one.valid & !one.void & one.source.eq(source);
            m.assert(!own | one.place.eq(place), "events under way are in their order");
            let watched = own & order.waits & one.place.eq(at);
            m.assert(!watched | is_watched(&event.event), "the one that is watched is under way as it came");
            place = place + own.zext(4);
        }
        m.assert(next.eq(place), "the next one comes after those under way");
        order
    }
}

fn any(of: &[Sig]) -> Sig {
    of.iter().fold(lit(1, 0), |any, one| any | *one)
}

/// No event of a source is lost, none is done twice, and they are done in their order, whatever the other source does.
fn order(m: &Scope, stages: u32, turns: usize, source: usize) {
    let rings = std::array::from_fn(|i| i == source);
    let bench = bench(m, stages, turns, rings);
    let order = bench.order(m, source);
    let passes = bench.passes(source);
    m.assert(!passes | order.within.ne(0), "what passes En has come, and is not done yet");
    let same = bench.event.event.pack().eq(order.watched.pack());
    m.assert(!(passes & order.due) | same, "what passes En is the oldest of its source that is not done");
}

/// An event passes En when it must, and no other does.
fn stages(m: &Scope, stages: u32, turns: usize) {
    let bench = bench(m, stages, turns, [false; SOURCES]);
    let n = stages as usize;
    // F, E1 to En.
    let under: Vec<(Sig, Sourced)> = (0..=n)
        .map(|k| {
            let name = format!("way_{k}");
            (m.reg(&name, 1).reset(0), m.reg_of(&name, &bench.picked))
        })
        .collect();
    let (acts, last) = under[n].clone();
    let goes_again = (acts & bench.again).named("goes_again");
    for k in 0..=n {
        let first = (any(&bench.issues), bench.picked.clone());
        let (valid, event) = if k == 0 { &first } else { &under[k - 1] };
        m.set(&under[k].0, *valid & !(goes_again & event.source.eq(last.source)));
        m.set_all(&under[k].1, event);
    }
    m.assert(bench.acts.eq(acts), "an event passes En unless one of its own source before it goes again");
    m.assert(!acts | bench.event.pack().eq(last.pack()), "it is the one that was issued");
    m.assert(!acts | bench.key.eq(last.event.key), "its key is its own");
}

/// A key that is free; each event of it sees the row that the one before it left.
fn rows(m: &Scope, stages: u32, turns: usize) {
    let bench = bench(m, stages, turns, [false; SOURCES]);
    let key = constant(m, "key", &bits(2));
    let (seen, shadow) = (m.reg("seen", 1).reset(0), m.reg("shadow", 2).no_reset());
    let passes = bench.acts & bench.key.eq(key);
    m.when(passes, |m| {
        m.set(&seen, 1);
        m.set(&shadow, bench.new);
    });
    let expected = seen.then(shadow, first_row(key));
    m.assert(!passes | bench.old.eq(expected), "an event has the row that the one before it of its key left");
}

/// When an event is issued.
fn issue(m: &Scope, stages: u32, turns: usize) {
    let bench = bench(m, stages, turns, [false; SOURCES]);
    let key = bench.picked.event.key;
    let (issues, offers) = (any(&bench.issues), any(&bench.offers));
    // The keys of the n - 1 cycles before.
    let mut follows = lit(1, 0);
    let (mut valid, mut other) = (issues, key);
    for k in 1..stages {
        let next = m.reg(&format!("before_{k}"), 1).reset(0);
        m.set(&next, valid);
        (valid, other) = (next, m.delay(&format!("before_{k}_key"), &other));
        follows = follows | (valid & other.eq(key));
    }
    m.assert(!(bench.issues[0] & bench.issues[1]), "one is issued in a cycle");
    for i in 0..SOURCES {
        m.assert(!bench.issues[i] | bench.offers[i], "what is issued is offered");
    }
    m.assert(
        issues.eq(offers & !bench.sweeps & !follows),
        "what is offered is issued unless one of its key was in the n - 1 cycles before",
    );
    if turns == 0 {
        m.assert(!(bench.issues[1] & bench.offers[0]), "the first source goes first");
    } else {
        // Of two that take turns, none goes twice while the other one has something.
        for i in 0..SOURCES {
            let missed = m.reg(&format!("missed_{i}"), 1).reset(0);
            m.set(&missed, bench.offers[i] & (missed | bench.issues[1 - i]) & !bench.issues[i]);
            m.assert(
                !(missed & bench.offers[i] & bench.issues[1 - i]),
                "none goes twice while the other one offers",
            );
        }
    }
    let left = m.reg("left", 4).reset(KEYS + 1);
    m.when(bench.sweeps, |m| m.set(&left, left - 1));
    m.assert(bench.sweeps.eq(left.ne(0)), "the sweep takes a cycle a key, and one more");
    m.assert(!(bench.sweeps & bench.acts), "nothing passes En before the end of the sweep");
}

/// How soon an event is done, where nothing is held back and none goes again.
fn soon(m: &Scope, stages: u32, turns: usize, source: usize) {
    let rings = std::array::from_fn(|i| i == source);
    let bench = bench(m, stages, turns, rings);
    let order = bench.order(m, source);
    // Into the ring, I, F and the stages; after one of the same key, and after one of the other source with another one of its key before it.
    let others = if turns == 0 { 1 } else { 2 };
    let bound = 2 + stages + others * (stages - 1) + u32::from(turns > 0);
    let has = order.within.ne(0);
    let waits = m.reg("waits", 5).reset(0);
    let held = any(&bench.holds) | bench.sweeps | (bench.acts & bench.again);
    m.set(&waits, waits + 1);
    m.when(!has | bench.is_done(source) | held, |m| m.set(&waits, 0));
    m.assert(waits.lt(bound), "an event is done in time");
    m.discard(&(order.due, order.watched));
}

/// Faults: what is wrong, the signal, and its value.
type Faults = &'static [(&'static str, &'static str, &'static str)];

/// Those that the prover finds in a bench.
fn faults(part: &str, n: u32, turns: usize) -> Faults {
    match (part, n, turns) {
        ("rows", 1, 0) => &[
            ("forwarding from en left out", "same_e1", "1'b0"),
            ("forwarding from w2 left out", "from_w2", "1'b0"),
        ],
        ("rows", 2, 0) => &[
            ("forwarding from w left out", "from_w", "1'b0"),
            ("forwarding from w2 left out", "from_w2", "1'b0"),
            ("an annulled event writes", "new_row", "new_row_is"),
            ("the sweep is not waited for", "may", "~follows"),
        ],
        ("rows", 3, 0) => &[("hold-off one cycle short", "follows", "same_f")],
        ("rows", 4, 2) => &[("hold-off one cycle short", "follows", "same_f | same_e1")],
        ("stages", 2, 0) => {
            &[("again annuls nothing", "annuls", "1'b0"), ("annulled events count", "acts", "e2_valid")]
        }
        ("issue", 3, 0) => &[("hold-off one cycle long", "follows", "same_f | same_e1 | same_e2")],
        ("order0", 2, 0) => &[
            ("again goes back one place too few", "s0_back", "e2_place + 4'd1"),
            ("a full ring takes more", "in0_ready_i", "1'b1"),
            ("what goes again is done too", "s0_done", "acts & ~e2_source"),
        ],
        ("order1", 3, 2) => &[("again goes back one place too many", "s1_back", "e3_place - 4'd1")],
        ("soon0", 2, 0) => {
            &[("every other cycle is left out", "may", "~follows & ~sweeps & ~s0_next[0] & ~f_valid")]
        }
        _ => &[],
    }
}

/// All of them.
pub fn proofs() -> Vec<Proof> {
    let mut proofs = Vec::new();
    for n in 1..=4 {
        for (word, turns) in [("", 0), ("-turns", 2)] {
            let mut add = |part: &str, about: &str, way: Way, circuit: &dyn Fn(&Scope)| {
                let proof = Proof::new(format!("table-{part}-{n}{word}"), about, way, circuit);
                proofs.push(proof.with_faults(faults(part, n, turns)));
            };
            let row = "an event has the row that the one before it of its key left";
            add("rows", row, Way::Invariant, &|m| rows(m, n, turns));
            let count = "an event counts unless one of its own source went again before it";
            add("stages", count, Way::Invariant, &|m| stages(m, n, turns));
            let one = "one event a cycle is issued, of one key one in n; none before the end of the sweep";
            add("issue", one, Way::Invariant, &|m| issue(m, n, turns));
            for source in 0..SOURCES {
                let order_of =
                    "no event is lost, doubled or overtaken by one of its source; no ring overflows";
                let part = format!("order{source}");
                add(&part, order_of, Way::Induction(4), &|m| order(m, n, turns, source));
                if source == 0 || turns > 0 {
                    let soon_of = "with nothing held back and none that goes again, an event is done in time";
                    let part = format!("soon{source}");
                    add(&part, soon_of, Way::Induction(20), &|m| soon(m, n, turns, source));
                }
            }
        }
    }
    proofs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_of_the_events_is_one_flip_flop() {
        let mut looked = 0;
        for proof in proofs() {
            for i in 0..SOURCES {
                if proof.name.contains(&format!("order{i}")) {
                    let sources = proof.netlist.sources_of(&format!("in{i}_ready"));
                    assert_eq!(sources, [format!("s{i}_taken")], "{}", proof.name);
                    looked += 1;
                }
            }
        }
        assert_eq!(looked, 16);
    }
}
