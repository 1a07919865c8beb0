// SPDX-License-Identifier: MIT OR Apache-2.0
//! What queue pairs with selective retransmission send again (`docs/src/selective.md`, "Sending again").
//!
//! ```text
//!  gaps ------> context --> which holes are due? --> [ todo: a bit a PSN ] <-- look -- resend
//!  proofs ----> newest repetition that was answered        |    [ done ]
//!  repeated --> stamp of the repetition, done              v
//!  probes ------------------------------------------> asks for WQEs --> schedule
//!  walked, asked ---------------------------------------^
//! ```
//!
//! A flow of which something is missing has one of [`CONTEXTS`] contexts. *todo* has a bit for each PSN that is to be sent again, *done* for each that has been, with its stamp. A hole
//! is due if it is neither todo nor done, or done and lost once more:
//!
//! | flow | stamp of a repetition | it is lost if |
//! |---|---|---|
//! | requests | the PSN after the newest that was sent | a packet from there on is among those that were heard |
//! | responses | a number that counts the requests for them | a response to a request with a higher number has come |
//!
//! The WQEs are read from host memory again, from the oldest on, in batches: [`resend`](super::resend) finds the packets in them. If all contexts are in use the next
//! flow takes that of another one: what that knows is lost, and at worst a packet is sent once more.
//!
//! **Throughput:** a report in 50 cycles, and 3 for each hole that was repeated before. **Backpressure:** a report never waits for what is sent. A repetition that is told while all
//! places are taken is forgotten, so it is sent once more; so is a proof. **Reset:** no context is in use. The longest path is from the number of heard PSNs through the mask of a word to
//! its register.

use crate::config::RnicConfig;
use crate::requester::schedule::CONTEXT_BITS;
use crate::requester::{Ask, Asked, Tag};
use crate::rx::keep::judge::flow_bits;
use crate::rx::keep::report::{Gap, WORDS};
use crate::stream::{arbiter, fifo};
use ferrowire_rtl::{
    bits, cat, clog2, lit, module, Bundle, Collision, Fsm, Interface, Scope, Sig, Stream, Style,
};

/// Flows of which something is sent again at the same time.
pub const CONTEXTS: u32 = 1 << CONTEXT_BITS;
/// Bits of the low part of a PSN, by which its bit is found, and of that in a word.
const PLACE_BITS: u32 = 8;
const WORD_BITS: u32 = 5;
const WORD: u32 = 1 << WORD_BITS;
/// Bits of a stamp: stamps that are compared are at most 256 apart.
const STAMP_BITS: u32 = 9;
/// Repetitions that may be told before they are noted.
const TOLD: u32 = 16;
/// Proofs that may wait.
const PROOFS: u32 = 8;

/// What became of a packet that was to be sent again.
#[derive(Clone, Bundle)]
pub struct Repeated {
    /// In this cycle.
    pub valid: Sig,
    /// Whose.
    pub qp: Sig,
    /// For which context.
    pub context: Sig,
    /// Its PSN.
    pub psn: Sig,
    /// The PSN after the newest that was sent.
    pub high: Sig,
    /// It was sent.
    pub sent: Sig,
    /// It was a probe, of no context.
    pub probe: Sig,
}

impl Repeated {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Repeated {
            valid: bits(1),
            qp: bits(cfg.qp_bits()),
            context: bits(CONTEXT_BITS),
            psn: bits(24),
            high: bits(24),
            sent: bits(1),
            probe: bits(1),
        }
    }
}

/// A response with `MigReq` 0 has come.
#[derive(Clone, Bundle)]
pub struct Proof {
    /// Of which flow.
    pub flow: Sig,
    /// Its PSN.
    pub psn: Sig,
}

impl Proof {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Proof { flow: bits(flow_bits(cfg)), psn: bits(24) }
    }
}

/// A batch of WQEs has been looked at.
#[derive(Clone, Bundle)]
pub struct Walked {
    /// In this cycle.
    pub valid: Sig,
    /// For which context.
    pub context: Sig,
    /// Whose they were.
    pub qp: Sig,
    /// The index after the last of them.
    pub index: Sig,
    /// Nothing is to be found after them.
    pub over: Sig,
    /// It was a probe, of no context.
    pub probe: Sig,
}

impl Walked {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Walked {
            valid: bits(1),
            context: bits(CONTEXT_BITS),
            qp: bits(cfg.qp_bits()),
            index: bits(16),
            over: bits(1),
            probe: bits(1),
        }
    }
}

/// What [`resend`](super::resend) asks for.
#[derive(Clone, Bundle)]
pub struct Look {
    /// A context.
    pub context: Sig,
    /// Which word of it.
    pub word: Sig,
}

impl Look {
    /// The shape.
    pub fn of() -> Self {
        Look { context: bits(CONTEXT_BITS), word: bits(PLACE_BITS - WORD_BITS) }
    }
}

/// What it sees, in the same cycle.
#[derive(Clone, Bundle)]
pub struct Seen {
    /// The PSNs of the word that are to be sent again.
    pub todo: Sig,
    /// The flow is one of responses.
    pub answer: Sig,
    /// The first PSN that is missing.
    pub base: Sig,
    /// The PSN after the last one that may be due.
    pub top: Sig,
}

impl Seen {
    /// The shape.
    pub fn of() -> Self {
        Seen { todo: bits(WORD), answer: bits(1), base: bits(24), top: bits(24) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Again {
    /// WQEs that are wanted.
    pub asks: Stream<Ask>,
    /// The answer to `look`.
    pub seen: Seen,
}

/// What is known of a flow.
#[derive(Clone, Bundle)]
struct Info {
    base: Sig,
    top: Sig,
}

/// Stamps of responses.
#[derive(Clone, Bundle)]
struct Counts {
    /// The next one.
    next: Sig,
    /// The newest one that was answered.
    answered: Sig,
}

#[derive(Clone, Copy, Fsm)]
enum State {
    Idle,
    /// A repetition is noted.
    Note,
    /// A response is looked up: the context, its stamp, what follows.
    Proof,
    ProofStamp,
    Proven,
    /// A report: its context; then each word: read, masks, holes, stamps of those that are done, write.
    Find,
    Part,
    Heard,
    Lost,
    Holes,
    Stamp,
    Compare,
    Apply,
    Write,
    /// Whether a context has anything to do.
    Check,
}

/// Bits below a number that may be negative.
fn below(number: Sig) -> Sig {
    let width = number.width();
    let many = number.slice(WORD_BITS, width - 1 - WORD_BITS).any();
    let each: Vec<Sig> = (0..WORD).map(|i| !number.msb() & (many | number.trunc(WORD_BITS).gt(i))).collect();
    cat(&each)
}

/// Of a word, the `count` PSNs from `base` on.
pub(crate) fn range(base: Sig, count: Sig, word: Sig) -> Sig {
    let low = base.trunc(WORD_BITS);
    let apart = word - base.slice(WORD_BITS, PLACE_BITS - WORD_BITS);
    let to = count.zext(11) + low.zext(11);
    let first = apart.eq(0);
    let inside = below(to - cat(&[lit(WORD_BITS, 0), apart]).zext(11));
    let round = below(to - (1 << PLACE_BITS));
    let before = below(low.zext(11));
    (inside & !(before & first.repeat(WORD))) | (round & before & first.repeat(WORD))
}

/// The lowest bit of a word: its number, and the word without it.
pub(super) fn lowest(word: Sig) -> (Sig, Sig) {
    let number = (0..WORD - 1)
        .rev()
        .fold(lit(WORD_BITS, WORD - 1), |index, i| word.bit(i).then(lit(WORD_BITS, i), index));
    (number, word & (word - 1))
}

fn first_of(set: Sig) -> Sig {
    (0..CONTEXTS - 1)
        .rev()
        .fold(lit(CONTEXT_BITS, CONTEXTS - 1), |index, c| set.bit(c).then(lit(CONTEXT_BITS, c), index))
}

/// Decides what is sent again; see the page's top.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn again(
    m: &Scope,
    cfg: &RnicConfig,
    gaps: Stream<Gap>,
    proofs: Stream<Proof>,
    probes: Stream<Sig>,
    repeated: Repeated,
    walked: Walked,
    asked: Asked,
    look: Look,
) -> Again {
    let state = m.fsm("state", State::Idle);
    let idle = state.is(State::Idle);
    let word_bits = PLACE_BITS - WORD_BITS;
    let flags = |name: &str| -> Vec<Sig> {
        (0..CONTEXTS).map(|c| m.reg(&format!("{name}_{c}"), 1).reset(0)).collect()
    };
    let (used, wants, walks) = (flags("used"), flags("wants"), flags("walks"));
    let flows: Vec<Sig> =
        (0..CONTEXTS).map(|c| m.reg(&format!("flow_{c}"), flow_bits(cfg)).no_reset()).collect();
    let words = m.mem("todo", CONTEXTS << word_bits, &bits(WORD)).style(Style::Distributed).build();
    let repeats = m.mem("done", CONTEXTS << word_bits, &bits(WORD)).style(Style::Distributed).build();
    let infos =
        m.mem("infos", CONTEXTS, &Info { base: bits(24), top: bits(24) }).style(Style::Distributed).build();
    let count_shape = Counts { next: bits(STAMP_BITS), answered: bits(STAMP_BITS) };
    let counts = m.mem("counts", CONTEXTS, &count_shape).style(Style::Distributed).build();
    let stamps = m.mem("stamps", CONTEXTS << PLACE_BITS, &bits(STAMP_BITS)).style(Style::Block).build();

    // What is told waits.
    let tell = repeated.valid & repeated.sent & !repeated.probe;
    let told = Stream::new(m, "told", tell, repeated.clone());
    m.discard(&told.ready);
    let told = fifo(&m.label("notes"), TOLD, told);
    m.discard(&(told.valid, told.sent, told.probe));
    let proof_in = Stream::new(m, "proof_in", proofs.valid, proofs.payload.clone());
    proofs.accept(1);
    m.discard(&proof_in.ready);
    let proofs = fifo(&m.label("proofs"), PROOFS, proof_in);

    // One thing at a time.
    let context = m.reg("context", CONTEXT_BITS).no_reset();
    let check_turn = m.reg("check_turn", 1).reset(0);
    let may_check: Vec<Sig> = wants.iter().zip(&walks).map(|(wants, walks)| wants & !walks).collect();
    let may_check = cat(&may_check);
    let (ask_room, checks) = (m.wire("ask_room", 1), m.wire("checks", 1));
    m.drive(&checks, may_check.any() & ask_room);
    let takes_note = idle & told.valid;
    let takes_check =
        (idle & !told.valid & checks & (check_turn | !(gaps.valid | proofs.valid))).named("takes_check");
    let others = idle & !told.valid & !takes_check;
    let takes_gap = (others & gaps.valid).named("takes_gap");
    let takes_proof = others & !gaps.valid & proofs.valid;
    m.when(takes_check, |m| m.set(&check_turn, 0))
        .otherwise_when(takes_gap | takes_proof, |m| m.set(&check_turn, 1));
    // Whose context it is.
    let sought = m.mux(gaps.valid, &gaps.flow, &proofs.flow);
    let hits: Vec<Sig> = used.iter().zip(&flows).map(|(used, flow)| used & flow.eq(sought)).collect();
    let hit = m.delay("hits", &cat(&hits));
    let check_of = m.reg("check_of", CONTEXTS).no_reset();
    m.set(&check_of, may_check);
    let psn = m.reg("psn", 24).no_reset();
    m.when(idle, |m| {
        m.set(&context, told.context);
        m.set(&psn, m.mux(told.valid, &told.psn, &proofs.psn));
        m.when(takes_note, |m| m.set(&state, State::Note))
            .otherwise_when(takes_check, |m| m.set(&state, State::Check))
            .otherwise_when(takes_gap, |m| m.set(&state, State::Find))
            .otherwise_when(takes_proof, |m| m.set(&state, State::Proof));
    });
    proofs.accept(takes_proof);

    // One read and one write of the words in a cycle, beside what is looked at from outside.
    let number = m.reg("number", word_bits).no_reset();
    let (word_of, write_words) = (m.wire("word_of", word_bits), m.wire("write_words", 1));
    let (new_todo, new_done) = (m.wire("new_todo", WORD), m.wire("new_done", WORD));
    let at = cat(&[word_of, context]);
    let (old_todo, old_done) = (words.read_now(at), repeats.read_now(at));
    words.write(write_words, at, &new_todo);
    repeats.write(write_words, at, &new_done);
    let notes = state.is(State::Note);
    let of_psn = notes | state.is(State::ProofStamp);
    let checks_now = state.is(State::Check);
    m.set(&word_of, m.mux(of_psn, &psn.slice(WORD_BITS, word_bits), &number));
    let bit: Vec<Sig> = (0..WORD).map(|i| psn.trunc(WORD_BITS).eq(i)).collect();
    let bit = cat(&bit);

    // A repetition is noted, unless the context is another flow's by now.
    let flow = m.select(context, &flows);
    let answers = flow.msb();
    let is_own = flow.trunc(cfg.qp_bits()).eq(told.qp) & m.select(context, &used);
    let notes_it = (notes & is_own).named("notes_it");
    let count = counts.read_now(context);
    told.accept(notes);
    let stamp_now = m.mux(answers, &count.next, &told.high.trunc(STAMP_BITS));
    stamps.write(notes_it, cat(&[psn.trunc(PLACE_BITS), context]), &stamp_now);
    m.when(notes, |m| m.set(&state, State::Idle));

    // Proofs.
    let known = hit.any().named("known");
    let proves = state.is(State::Proof);
    m.when(proves, |m| {
        m.set(&context, first_of(hit));
        m.when(known, |m| m.set(&state, State::ProofStamp)).otherwise(|m| m.set(&state, State::Idle));
    });
    let was_repeated = m.delay("was_repeated", &(old_done & bit).any());
    m.when(state.is(State::ProofStamp), |m| m.set(&state, State::Proven));
    let proven = state.is(State::Proven);
    m.when(proven, |m| m.set(&state, State::Idle));

    // Reports, word by word.
    let (fresh, stray) = (m.reg("fresh", 1).no_reset(), m.reg("stray", 1).no_reset());
    let victim = m.reg("victim", CONTEXT_BITS).reset(0);
    let finds = state.is(State::Find);
    let victim_walks = m.select(victim, &walks);
    m.when(finds, |m| {
        m.set(&fresh, !known);
        m.set(&stray, !known & victim_walks);
        m.set(&context, known.then(first_of(hit), victim));
        m.when(!known, |m| m.set(&victim, victim + 1));
        m.set(&number, 0);
        m.set(&state, State::Part);
    });
    let parts = state.is(State::Part) & gaps.valid;
    let part = m.reg_of("part", &gaps.payload);
    let (todo, done) = (m.reg("todo_word", WORD).no_reset(), m.reg("done_word", WORD).no_reset());
    let left = m.reg("left", WORD).no_reset();
    // Some of the context is to be sent again; some of it after all that is lost now.
    let (any, far) = (m.reg("any", 1).no_reset(), m.reg("far", 1).no_reset());
    gaps.accept(state.is(State::Part));
    let kept = (!fresh).repeat(WORD);
    m.when(parts, |m| {
        m.set_all(&part, &gaps.payload);
        m.set(&todo, old_todo & !gaps.word & kept);
        m.set(&done, old_done & !gaps.word & kept);
        m.set(&state, State::Heard);
        m.when(number.eq(0), |m| {
            m.set(&any, 0);
            m.set(&far, 0);
        });
    });
    // First what was heard, then what is lost.
    let hears = state.is(State::Heard);
    let extent = m.mux(hears, &part.heard, &part.lost);
    let mask = m.delay("mask", &range(part.base, extent, number));
    m.when(hears, |m| m.set(&state, State::Lost));
    m.when(state.is(State::Lost), |m| {
        m.set(&todo, todo & mask);
        m.set(&done, done & mask);
        m.set(&state, State::Holes);
    });
    let holes = state.is(State::Holes);
    let missing = mask & !part.word & !todo;
    m.when(holes, |m| {
        m.set(&left, missing & done);
        m.set(&todo, todo | (missing & !done));
        m.set(&far, far | (todo & !mask).any());
        m.set(&state, State::Stamp);
    });
    let stamping = state.is(State::Stamp);
    let (lowest_left, rest) = lowest(left);
    let last_of = m.reg("last_of", WORD).no_reset();
    m.when(stamping, |m| {
        m.set(&last_of, left & !rest);
        m.set(&left, rest);
        m.when(left.any(), |m| m.set(&state, State::Compare)).otherwise(|m| m.set(&state, State::Write));
    });
    let place = m.mux(stamping, &cat(&[lowest_left, number]), &psn.trunc(PLACE_BITS));
    let stamp = stamps.read(m, lit(1, 1), cat(&[place, context]), Collision::Any);
    let end = part.base.trunc(STAMP_BITS) + part.heard;
    let reached = m.mux(part.flow.msb(), &count.answered, &end);
    let beyond = reached - stamp;
    let proven_lost = m.delay("proven_lost", &(!beyond.msb() & beyond.any()));
    m.when(state.is(State::Compare), |m| m.set(&state, State::Apply));
    m.when(state.is(State::Apply), |m| {
        m.when(proven_lost, |m| {
            m.set(&todo, todo | last_of);
            m.set(&done, done & !last_of);
        });
        m.set(&state, State::Stamp);
    });
    let writes = state.is(State::Write);
    let ends = (writes & part.last).named("ends");
    let has_any = any | todo.any();
    m.when(writes, |m| {
        m.set(&any, has_any);
        m.set(&number, number + 1);
        m.when(part.last, |m| m.set(&state, State::Idle)).otherwise(|m| m.set(&state, State::Part));
    });
    let extends = m.mux(far, &part.heard, &part.lost);
    infos.write(ends & !stray, context, &Info { base: part.base, top: part.base + extends.zext(24) });
    m.set(&write_words, (writes & !stray) | notes_it);
    m.set(&new_todo, m.mux(notes, &(old_todo & !bit), &todo));
    m.set(&new_done, m.mux(notes, &(old_done | bit), &done));

    // Stamps of responses.
    let newer = (stamp - count.answered).named("newer");
    let newest = proven & was_repeated & !newer.msb() & newer.any();
    let begins = finds & !known & !victim_walks;
    let none = lit(STAMP_BITS, 0);
    let first_counts = Counts { next: none + 1, answered: none };
    let noted = Counts { next: count.next + 1, answered: count.answered };
    let proof_counts = Counts { next: count.next, answered: stamp };
    let new_counts = m.mux(notes, &noted, &proof_counts);
    let count_at = m.mux(begins, &victim, &context);
    counts.write(
        begins | (notes_it & answers) | newest,
        count_at,
        &m.mux(begins, &first_counts, &new_counts),
    );

    // Whether there is anything left to do, before WQEs are asked for.
    let step = m.reg("step", clog2(u64::from(WORDS)) + 2).reset(0);
    let check_any = m.reg("check_any", 1).no_reset();
    m.when(checks_now, |m| {
        m.set(&step, step + 1);
        m.when(step.eq(0), |m| {
            m.set(&context, first_of(check_of));
            m.set(&number, 0);
            m.set(&check_any, 0);
        })
        .otherwise(|m| {
            m.set(&number, number + 1);
            m.set(&check_any, check_any | old_todo.any());
        });
    });
    let check_ends = (checks_now & step.eq(WORDS + 1)).named("check_ends");
    m.when(check_ends, |m| {
        m.set(&step, 0);
        m.set(&state, State::Idle);
    });
    let starts = (check_ends & check_any).named("starts");
    let tag = |again_of: Sig, probe: u32| Tag { again: lit(1, 1), probe: lit(1, probe), context: again_of };
    let start =
        Ask { qp: flow.trunc(cfg.qp_bits()), oldest: lit(1, 1), index: lit(16, 0), tag: tag(context, 0) };
    let start = Stream::new(m, "start", starts, start);
    m.assert(!starts | start.ready, "a walk that begins has its place");
    m.discard(&start.ready);
    let start = fifo(&m.label("starts"), 2, start);
    m.set(&ask_room, m.delay_zero("no_start", &!start.valid));
    let goes_on = Ask { qp: walked.qp, oldest: lit(1, 0), index: walked.index, tag: tag(walked.context, 0) };
    let goes_on = Stream::new(m, "goes_on", walked.valid & !walked.over & !walked.probe, goes_on);
    m.assert(!goes_on.valid | goes_on.ready, "a context has one walk");
    let goes_on = fifo(&m.label("walks"), CONTEXTS, goes_on);
    let probe = probes.map(|qp| Ask {
        qp: *qp,
        oldest: lit(1, 1),
        index: lit(16, 0),
        tag: tag(lit(CONTEXT_BITS, 0), 1),
    });
    let asks = arbiter(m, &|_: &Ask| lit(1, 1), vec![goes_on, start, probe]);
    let asks = fifo(&m.label("asks"), 2, asks);

    // The contexts.
    let walk_ends = walked.valid & walked.over & !walked.probe;
    let none_came = asked.valid & asked.none & !asked.tag.probe;
    m.discard(&asked.tag.again);
    for c in 0..CONTEXTS as usize {
        let is = |of: Sig| of.eq(c as u32);
        m.when(begins & is(victim), |m| {
            m.set(&used[c], 1);
            m.set(&flows[c], gaps.flow);
            m.set(&wants[c], 0);
        });
        m.when(ends & !stray & has_any & is(context), |m| m.set(&wants[c], 1));
        m.when(check_ends & is(context), |m| m.set(&wants[c], 0));
        m.when(starts & is(context), |m| m.set(&walks[c], 1))
            .otherwise_when((walk_ends & is(walked.context)) | (none_came & is(asked.tag.context)), |m| {
                m.set(&walks[c], 0)
            });
    }

    // What is seen from outside.
    let info = infos.read_now(look.context);
    let todo = words.read_now(cat(&[look.word, look.context]));
    let answer = m.select(look.context, &flows).msb();
    Again { asks, seen: Seen { todo, answer, base: info.base, top: info.top } }
}
