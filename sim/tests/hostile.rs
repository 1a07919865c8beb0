// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hostile peer: a few thousand of its packets, and that what is wrong would be found.

use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::hostile::attack::MOODS;
use ferrowire_sim::hostile::{run_case, Case, Outcome};

fn run(config: &str, seed: u64, packets: u64) -> Outcome {
    let model = CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap();
    let case = Case { seed, config: config.into(), packets, strict: false };
    println!("{}", case.rerun());
    let outcome = run_case(&model, &case, None).unwrap();
    assert_eq!(outcome.difference, None, "{:#?}\nwaves, frames: {}", outcome.diagnosis, case.rerun());
    outcome
}

/// Memory, answers, innocents, liveness and counters, whatever is sent (IBTA 9.6.1, 9.7.4, 10.6.3).
#[test]
fn nothing_that_a_hostile_peer_sends_reaches_what_it_was_not_granted() {
    let seed = std::env::var("FERROWIRE_SEED").ok().map(|text| text.parse::<u64>().expect("a number"));
    let first = seed.unwrap_or(1);
    let all: Vec<Outcome> =
        (0..if seed.is_some() { 1 } else { 3 }).map(|i| run("generic-8b", first + i, 4_000)).collect();
    let packets: u64 = all.iter().map(|outcome| outcome.packets).sum();
    let compared: u64 = all.iter().map(|outcome| outcome.compared).sum();
    let completions: u64 = all.iter().map(|outcome| outcome.completions).sum();
    println!("{packets} packets, {compared} accesses and answers, {completions} completions of innocents");
    assert!(compared > packets / 4 && completions > 100, "{all:#?}");
    if seed.is_none() {
        for (mood, _) in MOODS {
            assert!(all.iter().any(|outcome| outcome.moods.contains_key(mood)), "no burst of {mood}");
        }
        for reason in ["drop_icrc", "drop_pkey", "drop_source_address", "drop_ghost_ack", "drop_ip_fragment"]
        {
            assert!(
                all.iter().any(|outcome| outcome.drops.contains_key(reason)),
                "nothing counts as {reason}"
            );
        }
        assert!(all.iter().all(|outcome| outcome.lives > 10), "queue pairs were lost and came back");
    }
}

/// With the same seed everything happens in the same cycle.
#[test]
fn a_seed_repeats_its_case() {
    let [one, other] = [(); 2].map(|()| run("generic-8b", 5, 500));
    assert_eq!((one.cycles, one.kinds, one.compared), (other.cycles, other.kinds, other.compared));
}
