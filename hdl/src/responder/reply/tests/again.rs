// SPDX-License-Identifier: MIT OR Apache-2.0
//! READs and atomics that are asked for once more: one of them, or all from some packet on.

use super::*;

impl Bench {
    /// All from some packet of an earlier READ on again, as one asks who has lost it.
    pub(super) fn go_back(&mut self, qp: u32) {
        let back = self.random.rng.random_range(1..6);
        let entries = self.life(qp).expected.iter().filter(|e| !e.again && !e.is_ack());
        // What a READ of the private word would find now is another matter.
        let latest = entries.rev().take(back).take_while(|e| !e.is_read() || e.at != 0 || e.empty);
        let latest: Vec<Expect> = latest.cloned().collect();
        for (i, e) in latest.into_iter().rev().skip_while(|e| !e.is_read()).enumerate() {
            self.once_more(qp, e, i == 0);
        }
    }

    /// An earlier READ or its tail, or an earlier atomic, again.
    pub(super) fn repeat(&mut self, qp: u32) {
        let atomics = self.random.chance(0.5);
        let wanted = |e: &&Expect| !e.again && (e.operation.is_some() || (!atomics && e.length > 0));
        let entries: Vec<Expect> = self.life(qp).expected.iter().filter(wanted).cloned().collect();
        let back = self.random.rng.random_range(1..=[3, 20][usize::from(atomics)]);
        if let Some(i) = entries.len().checked_sub(back) {
            self.once_more(qp, entries[i].clone(), true);
        }
    }

    /// An entry again, a READ from any of its packets on where it may.
    pub(super) fn once_more(&mut self, qp: u32, mut expect: Expect, tail: bool) {
        let mtu = self.life(qp).mtu;
        expect.again = true;
        if expect.operation.is_some() {
            let atomics = self.life(qp).expected.iter().filter(|e| !e.again && e.operation.is_some());
            let newer = atomics.rev().take_while(|e| e.psn != expect.psn);
            expect.known = newer.count() < 16;
            let va = self.random.rng.random();
            self.push(qp, Kind::Atomic, &expect, va, 0xdead);
            return;
        }
        if expect.at == 0 && !expect.empty {
            return;
        }
        let packets = expect.length.div_ceil(mtu).max(1);
        let skip = if tail { self.random.rng.random_range(0..packets) } else { 0 };
        expect.psn = (expect.psn + skip) % MODULUS;
        expect.length -= skip * mtu;
        expect.at += u64::from(skip * mtu);
        expect.data.drain(..(skip * mtu) as usize);
        self.push(qp, Kind::Read, &expect, self.va(qp, expect.at), Self::key(qp));
    }
}

#[test]
fn who_goes_back_gets_all_that_he_asks_for() {
    for (beat_bytes, stall, gates, seed) in
        [(8, 0.0, 0.02, 61), (64, 0.0, 0.1, 62), (8, 0.3, 0.1, 63), (64, 0.3, 0.02, 64)]
    {
        let mut bench = Bench::new(beat_bytes, 8, seed, stall);
        (bench.host, bench.tables, bench.gates) = (1..=60, 4..=9, gates);
        for _ in 0..600 {
            let qp = bench.random.rng.random_range(0..8u32).min(bench.random.rng.random_range(0..8));
            match bench.random.chance(0.2) {
                true => bench.go_back(qp),
                false => bench.something(qp, 0.0),
            }
            // Repetitions that find no place are lost.
            while bench.sources[REPLY].left() > 0 || (0..8).any(|qp| bench.pending(qp) > 4) {
                bench.step();
            }
            if bench.random.chance(0.2) {
                (0..bench.random.rng.random_range(0..400)).for_each(|_| bench.step());
            }
        }
        let [missing, _, needless] = bench.compare();
        assert_eq!((missing, bench.counts[2]), (needless, 0), "seed {seed}");
        assert!(needless > 5, "seed {seed}: {needless}");
        for (qp, psn, from) in &bench.asked {
            let answers = |sent: &&Sent| sent.is_response() && (sent.qp, sent.psn) == (*qp, *psn);
            assert!(
                bench.packets[*from..].iter().any(|sent| answers(&sent)),
                "seed {seed}: QP {qp} was asked for PSN {psn:#x} behind packet {from}"
            );
        }
    }
}

#[test]
fn who_asks_once_more_while_he_is_held_back_gets_it_from_there_on_and_nothing_twice() {
    for (beat_bytes, seed) in [(8, 51), (64, 52)] {
        let mut bench = Bench::new(beat_bytes, 8, seed, 0.0);
        for _ in 0..4 {
            bench.read(3, PAGE, 30 * 256);
        }
        bench.atomic(3, None);
        bench.read(3, PAGE, 30 * 256);
        (0..60).for_each(|_| bench.step());
        // With the first of them being answered.
        bench.held = Some(3);
        let entries: Vec<Expect> = bench.life(3).expected.clone();
        (0..2000).for_each(|_| bench.step());
        let before = bench.packets.len();
        assert!((2..28).contains(&before), "{before}");
        for _ in 0..3 {
            entries.iter().for_each(|e| bench.once_more(3, e.clone(), false));
            (0..200).for_each(|_| bench.step());
        }
        bench.compare();
        let all = bench.packets.len();
        // What had gone, the five READs once, and the atomic's answer as often as it was asked for.
        assert!(all <= before + 5 * 30 + 4, "{all} packets, {before} before");
    }
}

#[test]
fn what_is_refused_when_it_is_asked_for_once_more_is_answered_in_its_own_turn() {
    for (beat_bytes, seed) in [(8, 71), (64, 72)] {
        let mut bench = Bench::new(beat_bytes, 8, seed, 0.0);
        bench.held = Some(3);
        (0..40).for_each(|_| bench.step());
        (0..4).for_each(|_| bench.read(3, PAGE, 5 * 256));
        let entries: Vec<Expect> = bench.life(3).expected.clone();
        for (i, e) in entries.iter().enumerate() {
            bench.once_more(3, Expect { refused: i == 1, ..e.clone() }, false);
        }
        (0..200).for_each(|_| bench.step());
        assert!(bench.packets.is_empty());
        bench.compare();
        let psns: Vec<u32> =
            bench.packets.iter().map(|sent| sent.psn.wrapping_sub(entries[0].psn) % MODULUS).collect();
        // The last two come with the run that begins behind it.
        let expected = [0..5, 5..10, 0..5, 10..15, 15..20].into_iter().flatten();
        assert_eq!(psns, expected.collect::<Vec<u32>>());
    }
}
