// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks that were written, while they are asked for.

use crate::dirty::{dirty, words, Scan, Wrote, WORD};
use crate::{memory, SerialConfig};
use ferrowire_rtl::{build, Sim};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// What is known of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    /// Not written since it was told.
    Clean,
    /// Written while it was told: once more does no harm.
    Either,
    /// Written, and not told.
    Written,
}

#[test]
fn no_written_block_is_missed_and_none_is_told_that_was_not_written() {
    let cfg = SerialConfig { memory_bytes: 64 << 10, ..SerialConfig::default() };
    let netlist = build("top", |m| {
        let (wrote, scan) = (m.input_of("wrote", &Wrote::of(&cfg)), m.input_of("scan", &Scan::of(&cfg)));
        m.output("scanned", &dirty(m, &cfg, wrote, scan));
    });
    let mut sim = Sim::new(&netlist.unwrap());
    sim.reset();
    let blocks = (words(&cfg) * WORD) as usize;
    for seed in 0..30 {
        let mut rng = SmallRng::seed_from_u64(seed);
        // How often is written, and to how many blocks.
        let (often, few) = ([0.01, 0.1, 0.5][seed as usize % 3], [blocks, 70, 3][seed as usize / 3 % 3]);
        let mut known = vec![Known::Clean; blocks];
        let mut told = 0;
        sim.set("scan_valid", 0);
        if seed > 0 {
            // What the seed before has left is not known.
            known.fill(Known::Either);
        }
        for round in 0..40 {
            let word = round % (blocks / WORD as usize);
            let own = word * WORD as usize..(word + 1) * WORD as usize;
            let mut written = vec![false; WORD as usize];
            let pause = rng.random_range(0..200);
            let mut took = 0;
            for cycle in 0.. {
                assert!(took < 2000, "seed {seed}: a scan does not end");
                let scans = cycle >= pause;
                took += u32::from(scans);
                sim.set("scan_valid", scans.into());
                sim.set("scan_word", word as u64);
                let write = rng.random_bool(often).then(|| rng.random_range(0..few));
                sim.set("wrote_valid", write.is_some().into());
                sim.set("wrote_block", write.unwrap_or(0) as u64);
                let ends = sim.get("scanned_valid") == 1;
                assert!(scans || !ends);
                let bits = sim.get("scanned_bits");
                if ends {
                    for (i, block) in own.clone().enumerate() {
                        let is = bits >> i & 1 == 1;
                        assert!(is || known[block] != Known::Written, "seed {seed}: block {block} is missed");
                        assert!(
                            !is || written[i] || known[block] != Known::Clean,
                            "seed {seed}: block {block} was not written"
                        );
                        told += u32::from(is);
                        known[block] = match (written[i], is) {
                            (true, true) => Known::Either,
                            (true, false) => Known::Written,
                            (false, _) => Known::Clean,
                        };
                    }
                }
                if let Some(block) = write {
                    match own.contains(&block) && scans && !ends {
                        true => written[block - own.start] = true,
                        false => known[block] = Known::Written,
                    }
                }
                sim.tick();
                if ends {
                    break;
                }
            }
        }
        assert!(told > 0, "seed {seed}");
    }
}

#[test]
fn memory_tells_of_the_first_managers_bursts_when_they_are_there() {
    const BASE: u64 = 0x1_0000;
    let cfg = SerialConfig { memory_bytes: 8192, memory_base: BASE, ..SerialConfig::default() };
    let mut sim = Sim::new(&memory::engine(&cfg, 3).unwrap());
    sim.reset();
    sim.set("s_axi_bready", 1);
    sim.set("s_axi_rready", 1);
    sim.set("s_axi_wstrb", 0xff);
    // Address, beats, ID, and the blocks that are told, each with the beat behind which.
    type Burst = (u64, u64, u64, &'static [(u64, u64)]);
    let bursts: [Burst; 6] = [
        (BASE, 1, 0, &[(0, 1)]),
        (BASE + 0xf8, 2, 3, &[(0, 1), (1, 2)]),
        (BASE + 0x500, 64, 1, &[(5, 32), (6, 64)]),
        (BASE + 0x1f07, 32, 2, &[(31, 32)]),
        // The second manager, and one who is outside.
        (BASE, 64, 4, &[]),
        (BASE + 8192, 1, 0, &[]),
    ];
    for (at, beats, id, wanted) in bursts {
        sim.set("s_axi_awaddr", at);
        sim.set("s_axi_awlen", beats - 1);
        sim.set("s_axi_awid", id);
        sim.set("s_axi_awvalid", 1);
        let (mut passed, mut told) = (0, Vec::new());
        for _ in 0..80 {
            if sim.get("wrote_valid") == 1 {
                told.push((sim.get("wrote_block"), passed));
            }
            let address = sim.get("s_axi_awready") == 1;
            sim.set("s_axi_wvalid", u64::from(passed < beats));
            sim.set("s_axi_wlast", u64::from(passed + 1 == beats));
            passed += u64::from(passed < beats && sim.get("s_axi_wready") == 1);
            sim.tick();
            if address {
                sim.set("s_axi_awvalid", 0);
            }
        }
        assert_eq!((passed, &told[..]), (beats, wanted), "{beats} beats at {at:#x}");
    }
}
