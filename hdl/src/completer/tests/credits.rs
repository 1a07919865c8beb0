// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is told of the peers' receives, against message numbers (IBTA volume 1, 9.7.7.2): LSN = MSN + credits.

use super::*;
use ferrowire_spec::wire::syndrome::credits;

/// A QP's messages without number, by index, and the number of the last message that may be sent.
#[derive(Default)]
struct Numbers {
    silent: Vec<bool>,
    lsn: Option<u64>,
}

impl Numbers {
    /// Messages with a number before this one.
    fn before(&self, index: u16) -> u64 {
        self.silent[..index.into()].iter().filter(|silent| !**silent).count() as u64
    }
}

#[test]
fn credits_are_told_as_they_are_left_from_the_oldest_message_on() {
    let mut told = [0; 3];
    for seed in 1..=6 {
        let mut bench = bench(seed, [0.0, 0.3][seed as usize % 2]);
        bench.resends = false;
        let mut numbers: Vec<Numbers> = (0..QPS).map(|_| Numbers::default()).collect();
        (0..QPS).for_each(|qp| bench.start(qp));
        for _ in 0..500 {
            let qp = bench.random.rng.random_range(0..QPS);
            if bench.random.chance(0.6) && bench.may_send(qp) {
                let silent = bench.random.chance(0.2);
                if silent {
                    bench.send_silent(qp, true);
                } else {
                    (0..bench.random.rng.random_range(0..3)).for_each(|_| bench.send_part(qp));
                    bench.send_end(qp, true);
                }
                numbers[qp].silent.push(silent);
                bench.taken(SENT);
                bench.steps(30);
            } else if bench.qps[qp].outstanding() {
                let next = bench.qps[qp].next_psn;
                let ahead = bench.random.rng.random_range(0..bench.qps[qp].ahead(next));
                let code = bench.random.rng.random_range(0..32);
                let (was_bounded, eased) = (numbers[qp].lsn.is_some(), bench.eased[qp]);
                let refused = bench.random.chance(0.1);
                bench.answer_at(qp, ahead, if refused { 0x21 } else { code });
                bench.steps(20);
                if !refused {
                    let msn = numbers[qp].before(bench.qps[qp].oldest_index);
                    numbers[qp].lsn = credits(code).map(|n| msn + u64::from(n.min(bench.limit)));
                    assert_eq!(bench.eased[qp] > eased, was_bounded, "seed {seed}: QP {qp}");
                }
            }
            for (qp, number) in numbers.iter().enumerate() {
                let (index, word) = (bench.qps[qp].oldest_index, bench.words[qp]);
                let left = number.lsn.map(|lsn| lsn.saturating_sub(number.before(index)));
                assert_eq!(word.0.then_some(word.1), left, "seed {seed}: QP {qp} at {index}");
                told[left.map_or(2, |left| usize::from(left > 0))] += 1;
            }
            // A life begins without a limit.
            if bench.random.chance(0.01) {
                bench.compare();
                bench.restart_life(qp);
                numbers[qp] = Numbers::default();
            }
        }
    }
    assert!(told.iter().all(|n| *n > 100), "{told:?}");
}
