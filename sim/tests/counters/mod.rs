// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every counter, one event of it after the other: it rises by as many as there were, and no other does.

mod drops;
mod late;
mod requester;
mod responder;
mod rig;
mod wire;

use ferrowire::{DropReason, HwCounter};
use rig::{Case, Counter};

#[test]
fn every_counter_of_the_transport_and_of_drops_has_a_case_that_makes_it_rise() {
    let tables = [
        requester::CASES,
        responder::CASES,
        responder::FULL,
        late::LATE,
        late::PASSED_OVER,
        drops::FRAMES,
        drops::FULL,
        drops::REQUESTS,
        drops::ANSWERS,
    ];
    let moves: Vec<Counter> =
        tables.concat().iter().flat_map(|case: &Case| case.moves).map(|m| m.1).collect();
    let hw = HwCounter::ALL.iter().map(|counter| Counter::Hw(*counter));
    let drops = DropReason::ALL.iter().map(|reason| Counter::Drop(*reason));
    let missing: Vec<_> = hw.chain(drops).filter(|counter| !moves.contains(counter)).collect();
    assert!(missing.is_empty(), "no case makes these rise: {missing:?}");
}
