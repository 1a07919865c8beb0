// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the lookup of a READ found, for its first response.
//!
//! ```text
//!  lookups of requests --> under way: this one alone? --+
//!  tables --> changed since? --------------------------+-+--> known: QP, PSN, address
//!  admit --> a READ is granted ------------------------+
//!  translate --> address ------------------------------+
//! ```
//!
//! A READ is looked up twice: as a whole when it comes, for its right, and again for each response, because a key may go while
//! the READ waits for its turn. The first response starts at the address that the first lookup found. If no table has changed in
//! between, the second lookup would find the same; so the reply engine takes the address from here, 5 cycles sooner.
//!
//! Only the newest READ is remembered, and only if no other request was looked up at the same time: then the answer that came last
//! is its own. Whatever may change an answer makes it forgotten: an operation on a key some cycles before it writes, a command that
//! writes a key, a page, a protection domain or the state of a QP two cycles after it has written. The reply engine counts what it
//! takes from here among its lookups, so `drain` waits for it.
//!
//! Reset: nothing is known.

use crate::config::RnicConfig;
use crate::memory::{Passage, Translation};
use ferrowire_rtl::{bits, module, Bundle, Scope, Sig};

/// A READ that is granted.
#[derive(Clone, Bundle)]
pub struct GrantedRead {
    /// In the cycle before.
    pub valid: Sig,
    /// Whose.
    pub qp: Sig,
    /// Its first PSN.
    pub psn: Sig,
}

/// Where the newest READ begins in memory.
#[derive(Clone, Bundle)]
pub struct Known {
    /// It is known.
    pub valid: Sig,
    /// Whose READ it is.
    pub qp: Sig,
    /// Its first PSN.
    pub psn: Sig,
    /// Bus address of its first byte; it goes on to the next multiple of 4 KiB at least.
    pub address: Sig,
}

impl Known {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Known { valid: bits(1), qp: bits(cfg.qp_bits()), psn: bits(24), address: bits(64) }
    }
}

/// Lookups of requests under way at once: those that `drain` counts.
const UNDER_WAY_BITS: u32 = 7;

/// Remembers. `looked_up`: lookups of requests, until what they found is used; `answer`: theirs; `changed`: a table may change soon,
/// or has changed.
#[module]
pub fn known(
    m: &Scope,
    looked_up: Passage,
    answer: Translation,
    granted: GrantedRead,
    changed: Sig,
) -> Known {
    let under_way = m.reg("under_way", UNDER_WAY_BITS).reset(0);
    let one = |yes: Sig| yes.zext(UNDER_WAY_BITS);
    m.set(&under_way, under_way + one(looked_up.enters) - one(looked_up.leaves));
    // Nothing has changed since the oldest of those under way asked.
    let same = m.reg("same", 1).reset(0);
    m.when(changed, |m| m.set(&same, 0)).otherwise_when(under_way.eq(0), |m| m.set(&same, 1));

    // The decision is seen a cycle later; so is what it was taken on.
    let alone = m.delay("alone", &(answer.valid & under_way.eq(1)));
    let address = m.delay("found", &answer.address);
    m.discard(&(answer.ok, answer.cause, answer.relaxed));
    let valid = m.reg("is_known", 1).reset(0);
    let fields = [("qp", granted.qp), ("psn", granted.psn), ("address", address)];
    let [qp, psn, address] = fields.map(|(name, value)| {
        let field = m.reg(name, value.width()).no_reset();
        m.when(granted.valid, |m| m.set(&field, value));
        field
    });
    m.when(granted.valid, |m| m.set(&valid, alone & same));
    m.when(changed, |m| m.set(&valid, 0));
    Known { valid, qp, psn, address }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;
    use std::collections::VecDeque;

    /// A request on its way.
    struct Asked {
        at: u64,
        read: bool,
        psn: u64,
        /// What it found, as soon as the table is read.
        found: u64,
        answered: bool,
    }

    fn sim(cfg: &RnicConfig) -> Sim {
        let netlist = build("top", |m| {
            let passage = m.input_of("looked_up", &Passage::of());
            let granted = GrantedRead {
                valid: m.input("granted", 1),
                qp: m.input("granted_qp", cfg.qp_bits()),
                psn: m.input("granted_psn", 24),
            };
            let answer = m.input_of("answer", &Translation::of());
            let known = known(m, passage, answer, granted, m.input("changed", 1));
            m.output("known", &known);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        sim
    }

    /// Requests are looked up, decided on and leave at random, operations change the table meanwhile: what is known is what the
    /// newest READ would find now, and it is known of most that are alone.
    #[test]
    fn what_is_known_of_a_read_is_what_it_would_find_now() {
        let cfg = RnicConfig::named("generic-64b").unwrap();
        let mut random = Random::new(1);
        let mut sim = sim(&cfg);
        let (mut ways, mut leaving) = (VecDeque::<Asked>::new(), 0);
        let (mut table, mut operation, mut told) = (0_u64, None, None);
        let (mut granted, mut newest, mut next_psn) = (0_u64, None, 0_u64);
        let (mut seen, mut forgotten, mut was_known) = (0, 0, false);
        for cycle in 0..200_000_u64 {
            let crowd = [0.01, 0.1, 0.5][cycle as usize / 500 % 3];
            // An operation tells of itself at least 4 cycles before it writes, and until it has written.
            if operation.is_none() && random.chance(0.005) {
                operation = Some(cycle + random.rng.random_range(5..20));
            }
            sim.set("changed", operation.is_some().into());
            // What was decided in the cycle before is told; it has left by then, or leaves later.
            let tells: Option<u64> = told.take();
            sim.set("granted", tells.is_some().into());
            sim.set("granted_psn", tells.unwrap_or(0));
            sim.set("granted_qp", tells.unwrap_or(0) % 5);
            let leaves = leaving > 0 && random.chance(0.7);
            leaving -= u64::from(leaves);
            sim.set("looked_up_leaves", leaves.into());
            let enters = ways.len() < 60 && random.chance(crowd);
            sim.set("looked_up_enters", enters.into());
            if enters {
                next_psn += 1;
                let read = random.chance(0.7);
                ways.push_back(Asked { at: cycle, read, psn: next_psn, found: 0, answered: false });
            }
            let answers = ways.iter_mut().find(|way| !way.answered).filter(|way| cycle >= way.at + 5);
            let comes =
                answers.is_some() && (random.chance(0.95) || answers.as_ref().unwrap().at + 9 < cycle);
            sim.set("answer_valid", comes.into());
            sim.set("answer_address", random.rng.random());
            if let Some(way) = answers.filter(|_| comes) {
                way.answered = true;
                sim.set("answer_address", way.found << 32 | way.psn);
            }
            if ways.front().is_some_and(|way| way.answered) && random.chance(0.8) {
                let way = ways.pop_front().unwrap();
                leaving += 1;
                told = way.read.then_some(way.psn);
            }
            sim.tick();
            // The table is read two cycles after the question.
            for way in ways.iter_mut().filter(|way| way.at + 2 == cycle) {
                way.found = table;
            }
            if operation == Some(cycle) {
                (operation, table) = (None, table + 1);
            }
            if let Some(psn) = tells {
                newest = Some(psn);
                granted += 1;
                was_known = false;
            }
            let known = sim.get("known_valid") == 1;
            if known {
                let psn = newest.expect("a READ");
                assert_eq!((sim.get("known_psn"), sim.get("known_qp")), (psn, psn % 5), "cycle {cycle}");
                assert_eq!(
                    sim.get("known_address"),
                    table << 32 | psn,
                    "cycle {cycle}: it would find something else"
                );
                seen += u64::from(!was_known);
            }
            forgotten += u64::from(was_known && !known);
            was_known = known;
        }
        assert!(granted > 5_000 && seen > 500 && forgotten > 50, "{granted} {seen} {forgotten}");
    }
}
