// SPDX-License-Identifier: MIT OR Apache-2.0
//! The controller before a device: cells with delays, clocks, and a manager of AXI4 that does what it likes.

use ferrowire_rtl::Sim;
use ferrowire_serial::manager::{Held, Manager};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

mod ddr3;
mod hostile;

const BASE: u64 = 0x40_0000;
const BYTES: u64 = 0x10_0000;

/// A controller with its device.
trait Bench {
    /// The controller.
    fn sim(&mut self) -> &mut Sim;
    /// To the core's next edge, and over it; `before`: what is done just before it.
    fn cycle(&mut self, before: impl FnOnce(&mut Sim));
    /// The device's byte so many behind the memory's first.
    fn byte(&self, offset: u64) -> u8;
    /// How often the device was refreshed.
    fn refreshes(&self) -> u64;
    /// Bytes that are read and written at once.
    fn line_bytes(&self) -> u64;
    /// Resets.
    fn resets(&self) -> &'static [&'static str];

    /// Cycles until the memory can be used.
    fn start(&mut self) -> u64 {
        for cycle in 0..400_000 {
            self.cycle(|_| ());
            if self.sim().get("dram_done") == 1 {
                return cycle;
            }
        }
        panic!("it does not start");
    }

    /// Whether it found out that it cannot be used.
    fn broken(&mut self) -> bool {
        self.sim().get("dram_broken") == 1
    }

    /// All resets, for so many cycles.
    fn reset(&mut self, cycles: u32) {
        for reset in [1, 0] {
            for port in self.resets() {
                self.sim().set(port, reset);
            }
            (0..cycles).for_each(|_| self.cycle(|_| ()));
        }
    }

    /// A manager does so much.
    fn manage(&mut self, seed: u64, stall: f64, operations: u64) -> u64 {
        let mut managers = [Manager::new("s_axi_", BASE..BASE + 0x2_0000, BASE + BYTES, stall)];
        // What the device holds is not known.
        managers[0].fill(|i| self.byte(i as u64));
        let (mut held, mut rng) = (Held::default(), SmallRng::seed_from_u64(seed));
        for cycle in 0..400_000 {
            if managers[0].done >= operations {
                return cycle;
            }
            self.cycle(|sim| {
                if rng.random_bool(0.04) {
                    managers[0].begin(&mut rng, 8);
                }
                managers[0].drive(sim, &mut rng);
                held.judge(sim, &["s_axi_"]);
                managers[0].take(sim);
            });
        }
        panic!("it does not end");
    }

    /// Cycles from an address that is taken to each beat, or to the response.
    fn burst(&mut self, write: bool, addr: u64, beats: u64, strobe: u64) -> Vec<u64> {
        let address = if write { "aw" } else { "ar" };
        self.sim().set(&format!("s_axi_{address}addr"), addr);
        self.sim().set(&format!("s_axi_{address}len"), beats - 1);
        self.sim().set(&format!("s_axi_{address}valid"), 1);
        for (port, level) in [("wvalid", 1), ("wstrb", strobe), ("bready", 1), ("rready", 1)] {
            self.sim().set(&format!("s_axi_{port}"), level);
        }
        let (mut passed, mut sent, mut taken, mut now) = (Vec::new(), 0, None, 0u64);
        let ends = if write { 1 } else { beats };
        while passed.len() < ends as usize {
            self.cycle(|sim| {
                sim.set("s_axi_wlast", u64::from(sent + 1 == beats));
                sent += u64::from(write && sim.get("s_axi_wready") == 1);
                if sim.get(&format!("s_axi_{}valid", if write { "b" } else { "r" })) == 1 {
                    passed.push(now - taken.expect("an answer to nothing"));
                }
                if taken.is_none() && sim.get(&format!("s_axi_{address}ready")) == 1 {
                    taken = Some(now);
                }
                now += 1;
            });
            if taken.is_some() {
                self.sim().set(&format!("s_axi_{address}valid"), 0);
            }
            assert!(now < 5_000, "it does not end");
        }
        self.sim().set("s_axi_wvalid", 0);
        (0..30).for_each(|_| self.cycle(|_| ()));
        passed
    }

    /// The quickest of some bursts: what a refresh adds is not asked here.
    fn quickest(&mut self, write: bool, addr: u64, beats: u64, strobe: u64) -> Vec<u64> {
        let all: Vec<Vec<u64>> = (0..4).map(|_| self.burst(write, addr, beats, strobe)).collect();
        all.into_iter().min_by_key(|times| *times.last().unwrap()).unwrap()
    }

    /// A memory that is broken says so in each answer.
    fn answers_slverr(&mut self) {
        for channel in ["aw", "ar"] {
            self.sim().set(&format!("s_axi_{channel}addr"), BASE + 64);
            self.sim().set(&format!("s_axi_{channel}valid"), 1);
        }
        ["wvalid", "wlast", "bready", "rready"]
            .iter()
            .for_each(|port| self.sim().set(&format!("s_axi_{port}"), 1));
        let mut answers = [0; 2];
        for _ in 0..500 {
            self.cycle(|sim| {
                for (n, channel) in answers.iter_mut().zip(["b", "r"]) {
                    if sim.get(&format!("s_axi_{channel}valid")) == 1 {
                        assert_eq!(sim.get(&format!("s_axi_{channel}resp")), 2, "SLVERR");
                        *n += 1;
                    }
                }
            });
        }
        assert!(answers.iter().all(|n| *n > 5), "{answers:?}");
    }
}
