// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast reads are.

use ferrowire_sim::root::{RootSettings, Split};

use super::rig::Rig;
use super::setup::{config, REGIONS};

#[test]
fn completions_are_taken_at_a_beat_a_cycle() {
    for chunk in [256, 512] {
        let cfg = config("pcie-64b", 64, |_| {});
        let settings = RootSettings { latency: 250, chunk: Split::Fixed(chunk), ..RootSettings::default() };
        let mut rig = Rig::new(&cfg, settings);
        rig.run(600);
        let begin = rig.cycle;
        for i in 0..64 {
            rig.read(REGIONS[2] + 4096 * (i % 16), 4096);
        }
        rig.until(100_000, "over", |rig| rig.client.idle());
        let all = rig.client.done[63].last + 1 - begin;
        let (first, last) = rig.rc_cycles.unwrap();
        let (cycles, beats) = (last + 1 - first, rig.root.stats().rc_beats);
        println!(
            "completions of {chunk} bytes: 256 KiB in {all} cycles; {beats} beats on rc in {cycles} cycles, {:.2} bytes a cycle",
            262_144.0 / cycles as f64
        );
        assert!(cycles as f64 <= 1.02 * beats as f64, "{beats} beats on rc in {cycles} cycles");
        rig.finish();
    }
}
