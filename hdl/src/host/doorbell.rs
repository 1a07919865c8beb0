// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doorbells: from a write into a doorbell page to the queue that it is for.
//!
//! ```text
//!  write ---> read the queue's page and state ---> compare ---> send queue doorbell
//!                     ^            ^                  |   +---> receive queue doorbell
//!                     |            |                  |   +---> completion queue doorbell
//!  QP broadcast ------+            |                  |   +---> event queue doorbell
//!  CREATE_CQ, _EQ, _SRQ -----------+                  +-------> ignored
//! ```
//!
//! A queue answers only to the page that it was created with, so that a process that has one page mapped reaches no
//! queue of another's. One doorbell in two cycles at most, latency 1.
//!
//! Bad input: a number that no queue has, another queue's page, a QP in RESET, the receive queue of a QP that has a shared one, an
//! offset without a doorbell is dropped with a pulse on `ignored`. Indices are not checked here: whoever owns the queue does.
//!
//! Writes to the places of a page for pushed WQEs are handed on as words, where the card has slots for these. They come from one writer at a time: eight in order to one
//! place of one page are a WQE, until another word is written; a doorbell says whether its newest WQE is this one.
//!
//! A command that must come after the doorbells before it raises `fences`: `fenced` is high when as many have acted since as can have waited then.
//!
//! A doorbell waits until its taker is ready, and the next ones and at last register reads wait behind it: takers must
//! not wait for the host.

use super::{CqDoorbell, CqEntry, EqDoorbell, EqEntry, RawDoorbell, SrqEntry};
use crate::config::RnicConfig;
use crate::fields::field;
use crate::responder::RqDoorbell;
use crate::types::{PushWord, Pushes, QpBroadcast, SqDoorbell, TableWrite};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream};
use ferrowire_spec::queue::doorbell as spec;
use ferrowire_spec::QpState;

/// Where doorbells go.
#[derive(Interface)]
pub struct Doorbells {
    /// To the requester.
    pub sq: Stream<SqDoorbell>,
    /// To the responder.
    pub rq: Stream<RqDoorbell>,
    /// To the completion writer.
    pub cq: Stream<CqDoorbell>,
    /// To the event writer.
    pub eq: Stream<EqDoorbell>,
    /// Pushed WQEs, and the doorbells that tell of them.
    pub pushes: Pushes,
    /// While `fences` is high: doorbells that came before it have acted.
    pub fenced: Sig,
    /// A doorbell was handed on in this cycle.
    pub taken: Sig,
    /// A doorbell was ignored in this cycle.
    pub ignored: Sig,
}

/// Doorbells that wait at most, in the registers' FIFO and here, and some more.
const WAITING: u32 = 24;

/// Who may ring a queue.
#[derive(Clone, Bundle)]
struct Bell {
    exists: Sig,
    page: Sig,
}

/// Who may ring a queue pair.
#[derive(Clone, Bundle)]
struct Owner {
    page: Sig,
    /// Its receives come from a shared queue.
    shares: Sig,
}

/// Checks doorbells and hands them on.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn doorbell(
    m: &Scope,
    cfg: &RnicConfig,
    raw: Stream<RawDoorbell>,
    qps: QpBroadcast,
    cqs: TableWrite<CqEntry>,
    eqs: TableWrite<EqEntry>,
    srqs: TableWrite<SrqEntry>,
    fences: Sig,
) -> Doorbells {
    m.discard(&qps.attributes.entry);
    m.discard(&cqs.entry);
    m.discard(&eqs.entry);
    m.discard(&srqs.entry);
    let (qp_bits, cq_bits, eq_bits) = (cfg.qp_bits(), cfg.cq_bits(), cfg.eq_bits());
    // Only pages that there are get stored and compared; the command processor refuses the others.
    let page_bits = clog2(u64::from(cfg.doorbell_pages)).max(1);
    let qp_shape = Owner { page: bits(page_bits), shares: bits(1) };
    let sq_pages = m.mem("sq_pages", cfg.qps, &qp_shape).init(vec![]).build();
    let sq_page = Owner {
        page: qps.attributes.entry.doorbell_page.trunc(page_bits),
        shares: qps.attributes.entry.has_srq,
    };
    sq_pages.write(qps.attributes.enable, qps.attributes.index, &sq_page);
    let sq_live = m.mem("sq_live", cfg.qps, &bits(1)).init(vec![]).build();
    sq_live.write(qps.state.enable, qps.state.index, &qps.state.entry.ne(QpState::Reset.code()));
    let shape = Bell { exists: bits(1), page: bits(page_bits) };
    let cq_bells = m.mem("cq_bells", cfg.cqs, &shape).init(vec![]).build();
    let cq_page = cqs.entry.doorbell_page.trunc(page_bits);
    cq_bells.write(cqs.enable, cqs.index, &Bell { exists: cqs.entry.valid, page: cq_page });
    let eq_bells = m.mem("eq_bells", cfg.eqs, &shape).init(vec![]).build();
    let eq_page = eqs.entry.doorbell_page.trunc(page_bits);
    eq_bells.write(eqs.enable, eqs.index, &Bell { exists: eqs.entry.valid, page: eq_page });
    let srq_bells = m.mem("srq_bells", cfg.srq_rows(), &shape).init(vec![]).build();
    let srq_page = srqs.entry.doorbell_page.trunc(page_bits);
    srq_bells.write(srqs.enable, srqs.index, &Bell { exists: srqs.entry.valid, page: srq_page });

    let held_valid = m.reg("held_valid", 1).reset(0);
    let held_data = m.reg("held_data", 64).no_reset();
    let held_page = m.reg("held_page", page_bits).no_reset();
    raw.accept(!held_valid);
    m.when(raw.fire(), |m| {
        m.set(&held_data, raw.data);
        m.set(&held_page, raw.page.trunc(page_bits));
    });
    let number = raw.data.trunc(24);
    let Owner { page, shares } = sq_pages.read(m, raw.fire(), number.trunc(qp_bits), Collision::New);
    let live = sq_live.read(m, raw.fire(), number.trunc(qp_bits), Collision::New);
    let bell = cq_bells.read(m, raw.fire(), number.trunc(cq_bits), Collision::New);
    let eq_bell = eq_bells.read(m, raw.fire(), number.trunc(eq_bits), Collision::New);
    let srq_bell = srq_bells.read(m, raw.fire(), number.trunc(cfg.srq_bits()), Collision::New);

    let qpn = field(&spec::sq::LAYOUT, &spec::sq::QPN, held_data);
    let cqn = field(&spec::cq::LAYOUT, &spec::cq::CQN, held_data);
    // What needs no table is known a cycle before.
    let maybe = |name: &str| m.reg(&format!("maybe_{name}"), 1).no_reset();
    let [maybe_sq, maybe_rq, maybe_cq, maybe_eq] = ["sq", "rq", "cq", "eq"].map(maybe);
    let (maybe_srq, maybe_push) = (maybe("srq"), maybe("push"));
    let there = raw.page.zext(17).lt(cfg.doorbell_pages);
    m.when(raw.fire(), |m| {
        let number = |layout, of| field(layout, of, raw.data);
        let qpn = number(&spec::sq::LAYOUT, &spec::sq::QPN);
        let cqn = number(&spec::cq::LAYOUT, &spec::cq::CQN);
        m.set(&maybe_sq, there & raw.offset.eq(spec::SQ) & (qpn >> qp_bits).eq(0));
        // The bit above the number says that it is a shared queue's.
        let rqn = number(&spec::rq::LAYOUT, &spec::rq::QPN);
        let shared = number(&spec::rq::LAYOUT, &spec::rq::SRQ);
        m.set(&maybe_rq, there & raw.offset.eq(spec::RQ) & (rqn >> qp_bits).eq(0) & !shared);
        m.set(
            &maybe_srq,
            there
                & raw.offset.eq(spec::RQ)
                & cfg.only(cfg.has_srqs(), (rqn >> cfg.srq_bits()).eq(0) & shared),
        );
        m.set(&maybe_cq, there & raw.offset.eq(spec::CQ) & (cqn >> cq_bits).eq(0));
        let eqn = number(&spec::eq::LAYOUT, &spec::eq::EQN);
        let pushes = there & raw.offset.bit(spec::PUSH.trailing_zeros());
        m.set(&maybe_push, pushes & lit(1, u32::from(cfg.push_slots > 0)));
        m.set(&maybe_eq, there & raw.offset.eq(spec::EQ) & (eqn >> eq_bits).eq(0));
    });
    let owner = live & page.eq(held_page);
    let for_srq = maybe_srq & srq_bell.exists & srq_bell.page.eq(held_page);
    let (for_sq, for_rq) = (maybe_sq & owner, (maybe_rq & owner & !shares) | for_srq);
    let for_cq = maybe_cq & bell.exists & bell.page.eq(held_page);
    let for_eq = maybe_eq & eq_bell.exists & eq_bell.page.eq(held_page);
    let sq = SqDoorbell {
        qp: qpn.trunc(qp_bits),
        producer: field(&spec::sq::LAYOUT, &spec::sq::PRODUCER, held_data),
    };
    let rq = RqDoorbell {
        queue: cat(&[
            field(&spec::rq::LAYOUT, &spec::rq::QPN, held_data).trunc(cfg.rq_bits() - 1),
            maybe_srq,
        ]),
        producer: field(&spec::rq::LAYOUT, &spec::rq::PRODUCER, held_data),
    };
    let cq = CqDoorbell {
        cq: cqn.trunc(cq_bits),
        consumer: field(&spec::cq::LAYOUT, &spec::cq::CONSUMER, held_data),
        arm_next: field(&spec::cq::LAYOUT, &spec::cq::ARM_NEXT, held_data),
        arm_solicited: field(&spec::cq::LAYOUT, &spec::cq::ARM_SOLICITED, held_data),
        seen: field(&spec::cq::LAYOUT, &spec::cq::SEEN, held_data),
    };
    let eq = EqDoorbell {
        eq: field(&spec::eq::LAYOUT, &spec::eq::EQN, held_data).trunc(eq_bits),
        consumer: field(&spec::eq::LAYOUT, &spec::eq::CONSUMER, held_data),
        arm: field(&spec::eq::LAYOUT, &spec::eq::ARM, held_data),
    };
    // Words of WQEs.
    let held_offset = m.reg("held_offset", 12).no_reset();
    m.when(raw.fire(), |m| m.set(&held_offset, raw.offset));
    let (word, pushed) = match cfg.push_slots {
        0 => {
            m.discard(&held_offset);
            (Pushes::of(cfg).word.zeros(), lit(1, 0))
        }
        _ => {
            let place = cat(&[held_offset.slice(6, 5), held_page]);
            let at = held_offset.slice(3, 3);
            let next = m.reg("next_word", 4).reset(0);
            let begun = m.reg("begun_place", place.width()).no_reset();
            let follows = at.eq(0) | (next.eq(at.zext(4)) & begun.eq(place));
            let comes = held_valid & maybe_push;
            let valid = (comes & follows).named("word_comes");
            let told = field(&spec::sq::LAYOUT, &spec::sq::PUSHED, held_data);
            let told_place = cat(&[field(&spec::sq::LAYOUT, &spec::sq::PUSH_SLOT, held_data), held_page]);
            let whole = told & next.eq(8) & begun.eq(told_place);
            m.when(comes, |m| {
                m.set(&next, follows.then(at.zext(4) + 1, lit(4, 0)));
                m.set(&begun, place);
            });
            (PushWord { valid, word: at, data: held_data }, whole)
        }
    };
    // A queue that changes while its doorbell waits does not take the offer back.
    let sq = Stream::new(m, "sq", held_valid & for_sq, sq);
    let rq = Stream::new(m, "rq", held_valid & for_rq, rq);
    let cq = Stream::new(m, "cq", held_valid & for_cq, cq);
    let eq = Stream::new(m, "eq", held_valid & for_eq, eq);
    let taken = sq.fire() | rq.fire() | cq.fire() | eq.fire();
    let ignored = held_valid & !for_sq & !for_rq & !for_cq & !for_eq & !maybe_push;
    m.when(raw.fire(), |m| m.set(&held_valid, lit(1, 1)))
        .otherwise_when(taken | ignored | maybe_push, |m| m.set(&held_valid, 0));
    // There are none, or those that there were have gone.
    let before = m.reg("before", 5).no_reset();
    let goes = m.delay("goes", &((taken | ignored | (held_valid & maybe_push)) & fences));
    m.when(!fences, |m| m.set(&before, WAITING))
        .otherwise_when(goes & before.any(), |m| m.set(&before, before - 1));
    let fenced = m.delay("fenced", &(fences & (before.eq(0) | (!held_valid & !raw.valid))));
    let pushes = Pushes { word, rings: sq.fire(), bell: sq.payload.clone(), pushed };
    Doorbells { sq, rq, cq, eq, pushes, fenced, taken, ignored }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{step, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use ferrowire_spec::queue::doorbell::{address, cq, eq, rq, BASE, CQ, EQ, RQ, SQ};
    use rand::Rng;

    struct Bench {
        cfg: RnicConfig,
        sim: Sim,
        sources: [Source; 1],
        sinks: [Sink; 4],
        ignored: u64,
    }

    fn bench(beat_bytes: u32) -> Bench {
        bench_of(RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() })
    }

    fn bench_of(cfg: RnicConfig) -> Bench {
        let create = TableWrite { enable: bits(1), index: bits(cfg.cq_bits()), entry: CqEntry::of() };
        let create_srq = TableWrite { enable: bits(1), index: bits(cfg.srq_bits()), entry: SrqEntry::of() };
        let create_eq = TableWrite { enable: bits(1), index: bits(cfg.eq_bits()), entry: EqEntry::of() };
        let netlist = build("top", |m| {
            let raw = m.stream_in("raw", &RawDoorbell::of());
            let qps = m.input_of("qps", &QpBroadcast::of(&cfg));
            let (cqs, eqs) = (m.input_of("cqs", &create), m.input_of("eqs", &create_eq));
            let srqs = m.input_of("srqs", &create_srq);
            let out = doorbell(m, &cfg, raw, qps, cqs, eqs, srqs, m.input("fences", 1));
            m.output("fenced", &out.fenced);
            m.stream_out("sq", out.sq);
            m.stream_out("cq", out.cq);
            m.stream_out("rq", out.rq);
            m.stream_out("eq", out.eq);
            m.output("taken", &out.taken);
            m.output("ignored", &out.ignored);
            if cfg.push_slots > 0 {
                m.output("told", &m.delay("told", &out.pushes));
            }
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        Bench {
            sim,
            sources: [Source::new("raw", &RawDoorbell::of())],
            sinks: [
                Sink::new("sq", &SqDoorbell::of(&cfg)),
                Sink::new("cq", &CqDoorbell::of(&cfg)),
                Sink::new("rq", &RqDoorbell::of(&cfg)),
                Sink::new("eq", &EqDoorbell::of(&cfg)),
            ],
            ignored: 0,
            cfg,
        }
    }

    impl Bench {
        fn qp(&mut self, qp: u64, page: u64, state: QpState) {
            self.sim.set("qps_attributes_index", qp);
            self.sim.set("qps_attributes_entry_doorbell_page", page);
            self.sim.set("qps_state_index", qp);
            self.sim.set("qps_state_entry", u64::from(state.code()));
            self.pulse(&["qps_attributes_enable", "qps_state_enable"]);
        }

        fn cq(&mut self, cq: u64, page: u64) {
            self.sim.set("cqs_index", cq);
            self.sim.set("cqs_entry_valid", 1);
            self.sim.set("cqs_entry_doorbell_page", page);
            self.pulse(&["cqs_enable"]);
        }

        fn eq(&mut self, eq: u64, page: u64) {
            self.sim.set("eqs_index", eq);
            self.sim.set("eqs_entry_valid", 1);
            self.sim.set("eqs_entry_doorbell_page", page);
            self.pulse(&["eqs_enable"]);
        }

        fn srq(&mut self, srq: u64, page: u64, valid: u64) {
            self.sim.set("srqs_index", srq);
            self.sim.set("srqs_entry_valid", valid);
            self.sim.set("srqs_entry_doorbell_page", page);
            self.pulse(&["srqs_enable"]);
        }

        fn pulse(&mut self, ports: &[&str]) {
            ports.iter().for_each(|p| self.sim.set(p, 1));
            self.sim.tick();
            ports.iter().for_each(|p| self.sim.set(p, 0));
        }

        fn ring(&mut self, page: u16, offset: u32, data: [u8; 8]) {
            let at = address(page, offset) - BASE;
            let data = u128::from(u64::from_le_bytes(data));
            self.sources[0].push_values(&[
                ("page", u128::from(at >> 12)),
                ("offset", u128::from(at & 0xfff)),
                ("data", data),
            ]);
        }

        fn settle(&mut self, random: &mut Random, stall: f64) {
            let mut idle = 0;
            while idle < 20 {
                idle = if self.sources[0].left() == 0 { idle + 1 } else { 0 };
                self.ignored += self.sim.get("ignored");
                step(&mut self.sim, &mut self.sources, &mut self.sinks, random, stall);
            }
        }
    }

    fn sq_bytes(qpn: u32, producer: u16) -> [u8; 8] {
        // That of a receive queue is alike, with a bit above the number for a shared one.
        let shared = qpn >> 24 == 1;
        rq::RqDoorbell { qpn: qpn & 0xff_ffff, srq: shared, producer, ..Default::default() }
            .to_bytes()
            .unwrap()
    }

    fn cq_bytes(cqn: u32, consumer: u32) -> [u8; 8] {
        cq::CqDoorbell { cqn, consumer, ..Default::default() }.to_bytes().unwrap()
    }

    fn eq_bytes(eqn: u8, consumer: u32) -> [u8; 8] {
        let arm = consumer & 1 == 1;
        eq::EqDoorbell { eqn, consumer, arm, ..Default::default() }.to_bytes().unwrap()
    }

    #[test]
    fn a_queue_answers_only_to_its_own_page() {
        for beat_bytes in [8, 64] {
            let mut bench = bench(beat_bytes);
            let mut random = Random::new(6);
            bench.qp(3, 2, QpState::Rts);
            bench.qp(4, 1, QpState::Err);
            bench.qp(5, 2, QpState::Reset);
            // Its receives come from a shared queue.
            bench.sim.set("qps_attributes_entry_has_srq", 1);
            bench.qp(6, 2, QpState::Rts);
            bench.srq(1, 2, 1);
            bench.srq(2, 2, 1);
            bench.srq(2, 2, 0);
            let shared = 1 << (bench.cfg.rq_bits() - 1);
            bench.cq(7, 2);
            bench.eq(3, 1);
            let (qps, cqs, srqs) = (bench.cfg.qps, bench.cfg.cqs, bench.cfg.srqs);
            let (mut sqs, mut rqs, mut cqs_rung, mut eqs_rung, mut bad) = (vec![], vec![], vec![], vec![], 0);
            for i in 0..400u32 {
                let page = random.rng.random_range(1..4u16);
                match random.rng.random_range(0..6) {
                    0 => {
                        let qpn = random.rng.random_range(3..7u32);
                        let receive = random.chance(0.5);
                        bench.ring(page, if receive { RQ } else { SQ }, sq_bytes(qpn, i as u16));
                        let rung = if receive { &mut rqs } else { &mut sqs };
                        match (qpn, page) {
                            (3, 2) | (4, 1) => rung.push((u64::from(qpn), u64::from(i))),
                            (6, 2) if !receive => rung.push((6, u64::from(i))),
                            _ => bad += 1,
                        }
                    }
                    1 => {
                        let cqn = random.rng.random_range(6..8u32);
                        bench.ring(page, CQ, cq_bytes(cqn, i << 20 | i));
                        match (cqn, page) {
                            (7, 2) => cqs_rung.push(u64::from(i << 20 | i)),
                            _ => bad += 1,
                        }
                    }
                    2 => {
                        // Past the table: the low bits alone would name one.
                        bench.ring(2, SQ, sq_bytes(qps + 3, 1));
                        bench.ring(2, RQ, sq_bytes(qps + 3, 1));
                        bench.ring(2, CQ, cq_bytes(cqs << 4 | 7, 1));
                        bad += 3;
                    }
                    3 => {
                        let srq = random.rng.random_range(0..4);
                        bench.ring(page, RQ, sq_bytes(1 << 24 | srq, i as u16));
                        match (srq, page) {
                            (1, 2) => rqs.push((shared | 1, u64::from(i))),
                            _ => bad += 1,
                        }
                        bench.ring(2, RQ, sq_bytes(1 << 24 | srqs | 1, 1));
                        bench.ring(1, EQ, eq_bytes(7, 1));
                        bad += 2;
                    }
                    4 => {
                        let eqn = random.rng.random_range(2..4u8);
                        bench.ring(page, EQ, eq_bytes(eqn, i));
                        match (eqn, page) {
                            (3, 1) => eqs_rung.push((u64::from(i), u64::from(i & 1))),
                            _ => bad += 1,
                        }
                    }
                    _ => {
                        bench.ring(2, 0xff0, sq_bytes(3, 1));
                        bad += 1;
                    }
                }
            }
            bench.settle(&mut random, 0.3);
            for (sink, name, rung) in [(0, "qp", sqs), (2, "queue", rqs)] {
                let sink = &bench.sinks[sink];
                let got: Vec<_> = sink.values(name).into_iter().zip(sink.values("producer")).collect();
                assert_eq!(got, rung, "seed {}", random.seed);
            }
            assert_eq!(bench.sinks[1].values("consumer"), cqs_rung, "seed {}", random.seed);
            let eq = &bench.sinks[3];
            let got: Vec<_> = eq.values("consumer").into_iter().zip(eq.values("arm")).collect();
            assert_eq!(got, eqs_rung, "seed {}", random.seed);
            assert_eq!(bench.ignored, bad, "seed {}", random.seed);
        }
    }

    #[test]
    fn a_fence_is_passed_when_the_doorbells_before_it_have_acted_and_does_not_wait_for_those_after() {
        for (before, stall) in [(0u32, 0.0), (1, 0.5), (17, 0.0), (17, 0.5)] {
            let mut bench = bench(8);
            let mut random = Random::new(8);
            bench.sinks[1].stall = Some(stall);
            bench.cq(7, 2);
            let after = 200;
            (0..before + after).for_each(|i| bench.ring(2, CQ, cq_bytes(7, i)));
            // As many wait in the registers' FIFO.
            bench.sim.set("fences", 1);
            let mut cycles = 0;
            while bench.sim.get("fenced") == 0 {
                step(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0);
                cycles += 1;
                assert!(cycles < 400, "seed {}", random.seed);
            }
            let acted = bench.sinks[1].values("consumer").len() as u32;
            assert!(acted >= before && acted < after, "seed {}: {acted} of {before}", random.seed);
            bench.sim.set("fences", 0);
            step(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 1.0);
            step(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 1.0);
            assert_eq!(bench.sim.get("fenced"), 0);
        }
    }

    #[test]
    fn a_doorbell_takes_two_cycles() {
        let mut bench = bench(8);
        let mut random = Random::new(7);
        bench.qp(3, 2, QpState::Rts);
        (0..10).for_each(|i| bench.ring(2, SQ, sq_bytes(3, i)));
        bench.settle(&mut random, 0.0);
        let (taken, left) = (&bench.sources[0].cycles, &bench.sinks[0].cycles);
        assert_eq!((taken[9] - taken[0], left[0] - taken[0]), (18, 1));
    }

    /// Writes to places, and doorbells that tell of them, in any order.
    #[test]
    fn a_doorbell_tells_of_the_eight_words_before_it_if_they_are_whole_and_of_the_place_that_it_names() {
        for seed in 1..=4 {
            let slots = RnicConfig { push_slots: 4, ..RnicConfig::named("generic-8b").unwrap() };
            let mut bench = bench_of(slots);
            let mut random = Random::new(seed);
            (1..=2).for_each(|page| bench.qp(page, page, QpState::Rts));
            // All words with their page and place, and what each doorbell is to tell.
            let mut words: Vec<(u16, u32, u64)> = Vec::new();
            let mut expected = Vec::new();
            for i in 0..400u16 {
                let place = |random: &mut Random| {
                    (random.rng.random_range(1..=2u16), random.rng.random_range(0..3u32))
                };
                let one = place(&mut random);
                let other = if random.chance(0.7) { one } else { place(&mut random) };
                let begin = if random.chance(0.8) { 0 } else { random.rng.random_range(0..8) };
                let end = if random.chance(0.8) { 8 } else { random.rng.random_range(0..=8) };
                for word in begin..end {
                    // Some words of another writer in between.
                    let strays = random.chance(0.02);
                    let (page, place) = if strays { other } else { one };
                    let data: u64 = random.rng.random();
                    bench.ring(page, spec::PUSH + 64 * place + 8 * word, data.to_le_bytes());
                    words.push((page, 64 * place + 8 * word, data));
                }
                // A doorbell of another kind changes nothing.
                if random.chance(0.2) {
                    bench.ring(1, CQ, cq_bytes(5, 1));
                }
                let (page, told) = other;
                let pushed = random.chance(0.9);
                let bell = spec::sq::SqDoorbell {
                    qpn: page.into(),
                    producer: i,
                    pushed,
                    push_slot: told as u8,
                    ..Default::default()
                };
                bench.ring(page, SQ, bell.to_bytes().unwrap());
                let last = &words[words.len().saturating_sub(8)..];
                let whole = (0..8).all(|n| {
                    last.get(n as usize).is_some_and(|(p, at, _)| (*p, *at) == (page, 64 * told + 8 * n))
                });
                let wqe: Vec<u64> = last.iter().map(|(.., data)| *data).collect();
                expected.push((u64::from(i), (pushed && whole).then_some(wqe)));
            }
            let (mut got, mut wqe) = (Vec::new(), vec![0; 8]);
            let mut idle = 0;
            while idle < 20 {
                idle = if bench.sources[0].left() == 0 { idle + 1 } else { 0 };
                step(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.3);
                let mut value = |name: &str| bench.sim.get(&format!("told_{name}"));
                if value("word_valid") == 1 {
                    wqe[value("word_word") as usize] = value("word_data");
                }
                if value("rings") == 1 {
                    let pushed = value("pushed") == 1;
                    got.push((value("bell_producer"), pushed.then(|| wqe.clone())));
                }
            }
            let told = expected.iter().filter(|(_, wqe)| wqe.is_some()).count();
            assert!(told > 50 && told < 350, "seed {seed}: {told}");
            assert_eq!(got, expected, "seed {seed}");
            assert_eq!(bench.sinks[0].values("producer"), (0..400).collect::<Vec<_>>(), "seed {seed}");
        }
    }

    #[test]
    fn words_that_come_are_taken_in_two_cycles_and_ignored_by_cards_without_slots_or_past_the_last_page() {
        for push_slots in [0, 4] {
            let mut bench = bench_of(RnicConfig { push_slots, ..RnicConfig::named("generic-8b").unwrap() });
            let pages = bench.cfg.doorbell_pages as u16;
            let mut random = Random::new(5);
            for i in 0..32 {
                bench.ring(1, spec::PUSH + 8 * i, [0; 8]);
            }
            bench.settle(&mut random, 0.0);
            assert_eq!(bench.ignored, if push_slots == 0 { 32 } else { 0 });
            let taken = &bench.sources[0].cycles;
            assert_eq!(taken[31] - taken[0], 62);
            bench.ring(pages, spec::PUSH, [0; 8]);
            let before = bench.ignored;
            bench.settle(&mut random, 0.0);
            assert_eq!(bench.ignored - before, 1);
        }
    }
}
