// SPDX-License-Identifier: MIT OR Apache-2.0
//! The controller before a device: cells with delays, two clocks of one source, and a manager of AXI4 that does what it likes.

use crate::{netlist, DramConfig};
use ferrowire_ddr3::{Cells, Ddr3, Sent, Timing, Ways};
use ferrowire_rtl::Sim;
use ferrowire_serial::manager::{Held, Manager};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

mod hostile;

const BASE: u64 = 0x40_0000;
const BYTES: u64 = 0x10_0000;

/// A board without a host's part.
struct Board {
    sim: Sim,
    cells: Cells,
    half_ps: u64,
    /// Of the core's clock and of the fast one: when the next edge comes.
    next: [u64; 2],
    rng: SmallRng,
}

fn config(clock_khz: u32) -> DramConfig {
    DramConfig { reset_us: 2, cke_us: 5, memory_base: BASE, ..DramConfig::new(clock_khz, 15, BYTES) }
}

fn timing(dqsck_ps: u64) -> Timing {
    Timing { dqsck_ps, startup_divisor: 100, ..Timing::ddr3_1600_4gb() }
}

impl Board {
    fn new(clock_khz: u32, timing: Timing, (ways, phase_ps): (Ways, u64), seed: u64) -> Self {
        Self::of(config(clock_khz), timing, (ways, phase_ps), seed)
    }

    /// `phase_ps`: by how much the edges of the fast clock lie behind those of the core's.
    fn of(cfg: DramConfig, timing: Timing, (ways, phase_ps): (Ways, u64), seed: u64) -> Self {
        let mut sim = Sim::new(&netlist(&cfg, 3).unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let half_ps = 500_000_000 / u64::from(cfg.clock_khz);
        let cells = Cells::new(Ddr3::new(timing, 15, seed), ways, half_ps);
        let next = [400_000, 400_000 + phase_ps];
        Self { sim, cells, half_ps, next, rng: SmallRng::seed_from_u64(seed) }
    }

    /// To the core's next edge, and over it; `before`: what is done just before it.
    fn cycle(&mut self, before: impl FnOnce(&mut Sim)) {
        while self.next[1] < self.next[0] {
            self.fast();
        }
        before(&mut self.sim);
        let mut high = |name: &str| self.sim.get(&format!("dram_delay_{name}")) == 1;
        let (load_n, step) = (high("load_n"), high("step"));
        self.cells.delay(load_n, step);
        self.sim.tick_clock("clk");
        self.next[0] += 2 * self.half_ps;
    }

    /// An edge of the fast clock.
    fn fast(&mut self) {
        let sent = Sent::of(Sent::WIRES.map(|name| self.sim.get(&format!("dram_{name}"))));
        let caught = self.cells.edge(self.next[1], sent);
        self.sim.tick_clock("memory_clk");
        for (name, word) in ["rise", "fall"].into_iter().zip(caught) {
            self.sim.set(&format!("dram_sampled_{name}"), word.into());
        }
        self.next[1] += self.half_ps;
    }

    /// Cycles until the memory can be used.
    fn start(&mut self) -> u64 {
        for cycle in 0..400_000 {
            self.cycle(|_| ());
            if self.sim.get("dram_done") == 1 {
                return cycle;
            }
        }
        panic!("it does not start");
    }

    /// The device's word so many bytes behind the memory's first.
    fn word(&self, offset: u64) -> u16 {
        let at = offset as u32 / 2;
        self.cells.device.word((at >> 10 & 7) as u8, at >> 13, at & 1023)
    }

    /// A manager does so much.
    fn manage(&mut self, stall: f64, operations: u64) -> u64 {
        let mut managers = [Manager::new("s_axi_", BASE..BASE + 0x2_0000, BASE + BYTES, stall)];
        // What the device holds is not known.
        managers[0].fill(|i| (self.word(i as u64) >> (8 * (i & 1))) as u8);
        let (mut held, mut rng) = (Held::default(), self.rng.clone());
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
}

/// The delays of no board in particular.
fn usual() -> (Ways, u64) {
    (Ways::default(), 1_000)
}

/// Seven boards, with whatever a cable's length, a phase and a device's own delay can be.
fn boards() -> impl Iterator<Item = (u64, (Ways, u64))> {
    (0..7).map(|i| {
        let ways = Ways { back_ps: 300 + 800 * i, enable_early: i as usize % 3, ..Ways::default() };
        (1_000 + 1_500 * i, (ways, 10 + 1_300 * i))
    })
}

#[test]
fn memory_has_what_was_written_whatever_the_delays() {
    for (seed, (dqsck_ps, ways)) in boards().enumerate() {
        let mut board = Board::new(50_000, timing(dqsck_ps), ways, seed as u64);
        let cycles = board.start();
        assert_eq!(board.sim.get("dram_broken"), 0, "{dqsck_ps} ps, {ways:?}");
        let took = board.manage([0.0, 0.3][seed % 2], 400);
        println!(
            "{dqsck_ps} ps, {ways:?}: {cycles} to start, then {took}, {:?}",
            board.cells.device.counts()
        );
    }
}

#[test]
fn words_are_caught_so_far_from_their_edges_that_they_may_move_by_three_nanoseconds() {
    // A word is 10 ns long, of which 1 is uncertain here, and places are 1.7 ns apart: 3 remain either way.
    for drift in [-3_000, 3_000i64] {
        for (seed, (dqsck_ps, ways)) in boards().enumerate() {
            let dqsck_ps = dqsck_ps.clamp(4_000, 7_000);
            let mut board = Board::new(50_000, timing(dqsck_ps), ways, seed as u64);
            board.start();
            board.cells.device.drift(dqsck_ps.checked_add_signed(drift).unwrap());
            board.manage(0.1, 120);
        }
    }
}

#[test]
fn other_clocks_and_the_whole_time_of_a_start() {
    for clock_khz in [25_000, 31_250, 62_500] {
        let mut board = Board::new(clock_khz, timing(4_000), usual(), 5);
        board.start();
        board.manage(0.1, 200);
    }
    let timing = Timing { startup_divisor: 1, ..timing(6_000) };
    let mut board =
        Board::of(DramConfig { memory_base: BASE, ..DramConfig::new(50_000, 15, BYTES) }, timing, usual(), 6);
    let cycles = board.start();
    assert!((35_000..70_000).contains(&cycles), "0.7 ms, and the search: {cycles}");
    board.manage(0.0, 100);
}

#[test]
fn a_memory_that_answers_nothing_is_broken_and_says_so_in_each_answer() {
    let mut board = Board::new(50_000, timing(4_000), usual(), 7);
    board.cells.deaf = true;
    board.start();
    assert_eq!(board.sim.get("dram_broken"), 1);
    for channel in ["aw", "ar"] {
        board.sim.set(&format!("s_axi_{channel}addr"), BASE + 64);
        board.sim.set(&format!("s_axi_{channel}valid"), 1);
    }
    ["wvalid", "wlast", "bready", "rready"]
        .iter()
        .for_each(|port| board.sim.set(&format!("s_axi_{port}"), 1));
    let mut answers = [0; 2];
    for _ in 0..500 {
        board.cycle(|sim| {
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

#[test]
fn a_reset_starts_the_memory_anew() {
    let mut board = Board::new(50_000, timing(4_000), usual(), 8);
    board.start();
    board.manage(0.0, 50);
    for reset in [1, 0] {
        ["rst", "memory_rst"].iter().for_each(|port| board.sim.set(port, reset));
        (0..8).for_each(|_| board.cycle(|_| ()));
    }
    assert_eq!(board.sim.get("dram_done"), 0);
    board.start();
    board.manage(0.2, 50);
}

/// Cycles from an address that is taken to each beat, or to the response.
fn burst(board: &mut Board, write: bool, addr: u64, beats: u64) -> Vec<u64> {
    let address = if write { "aw" } else { "ar" };
    board.sim.set(&format!("s_axi_{address}addr"), addr);
    board.sim.set(&format!("s_axi_{address}len"), beats - 1);
    board.sim.set(&format!("s_axi_{address}valid"), 1);
    for (port, level) in [("wvalid", 1), ("wstrb", 0xff), ("bready", 1), ("rready", 1)] {
        board.sim.set(&format!("s_axi_{port}"), level);
    }
    let (mut passed, mut sent, mut taken, mut now) = (Vec::new(), 0, None, 0u64);
    let ends = if write { 1 } else { beats };
    while passed.len() < ends as usize {
        board.cycle(|sim| {
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
            board.sim.set(&format!("s_axi_{address}valid"), 0);
        }
        assert!(now < 5_000, "it does not end");
    }
    board.sim.set("s_axi_wvalid", 0);
    (0..30).for_each(|_| board.cycle(|_| ()));
    passed
}

#[test]
fn a_line_takes_four_cycles_either_way() {
    let mut board = Board::new(50_000, timing(4_000), usual(), 9);
    board.start();
    // What a refresh adds is not asked here: the quickest of some.
    let mut best = |write: bool, beats: u64| {
        let all: Vec<Vec<u64>> = (0..4).map(|_| burst(&mut board, write, BASE + 128, beats)).collect();
        all.into_iter().min_by_key(|times| *times.last().unwrap()).unwrap()
    };
    let (short, long) = (best(true, 2)[0], best(true, 64)[0]);
    assert_eq!(long - short, 4 * 31, "writes");
    let read = best(false, 64);
    assert_eq!(read[62] - read[0], 4 * 31, "reads");
    println!("to B {short}, to the first beat of R {}", read[0]);
    assert!(short <= 6 && read[0] <= 40, "{short} and {}", read[0]);
}

#[test]
fn the_verilog_of_each_clock_and_size_passes_the_build_time_checks() {
    for (clock_khz, row_bits, bytes) in [(25_000, 12, 4096), (50_000, 15, 4 << 20), (62_500, 16, 1 << 30)] {
        let cfg = DramConfig::new(clock_khz, row_bits, bytes);
        netlist(&cfg, 3).unwrap_or_else(|e| panic!("{cfg:?}:\n{e}"));
    }
}
