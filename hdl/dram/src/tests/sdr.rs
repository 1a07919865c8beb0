// SPDX-License-Identifier: MIT OR Apache-2.0
//! SDRAM of single data rate, with one clock.

use super::hostile::{self, Hostile};
use super::{Bench, BASE, BYTES};
use crate::sdr::{netlist, SdrConfig};
use ferrowire_rtl::Sim;
use ferrowire_sdr::{Cells, Sdr, Sent, Timing, Ways};

/// Cycles from refresh to refresh at 50 MHz.
const REFI: u64 = 773;

/// A board without a host's part.
struct Board {
    sim: Sim,
    cells: Cells,
    period_ps: u64,
    now: u64,
}

fn config(clock_khz: u32) -> SdrConfig {
    SdrConfig { start_us: 2, memory_base: BASE, ..SdrConfig::new(clock_khz, 11, BYTES) }
}

fn timing(access_ps: u64) -> Timing {
    Timing { access_ps, startup_divisor: 100, ..Timing::slowest() }
}

impl Board {
    /// `ways`: of which the way back ends at the rising edge, half a cycle behind that at which words are caught.
    fn of(cfg: SdrConfig, timing: Timing, ways: Ways, seed: u64) -> Self {
        let mut sim = Sim::new(&netlist(&cfg, 3).unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let period_ps = 1_000_000_000 / u64::from(cfg.clock_khz);
        let ways = Ways { back_ps: ways.back_ps + period_ps / 2, ..ways };
        let cells = Cells::new(Sdr::new(timing, seed), ways, period_ps);
        Self { sim, cells, period_ps, now: 400_000 }
    }

    fn new(clock_khz: u32, timing: Timing, ways: Ways, seed: u64) -> Self {
        Self::of(config(clock_khz), timing, ways, seed)
    }

    fn usual(seed: u64) -> Self {
        Self::new(50_000, timing(5_000), Ways::default(), seed)
    }
}

impl Bench for Board {
    fn sim(&mut self) -> &mut Sim {
        &mut self.sim
    }

    fn cycle(&mut self, before: impl FnOnce(&mut Sim)) {
        before(&mut self.sim);
        let sent = Sent::of(Sent::WIRES.map(|name| self.sim.get(&format!("dram_{name}"))));
        let caught = self.cells.edge(self.now, sent);
        self.sim.tick_clock("clk");
        self.sim.set("dram_caught", caught.into());
        self.now += self.period_ps;
    }

    fn byte(&self, offset: u64) -> u8 {
        let at = offset as u32 / 4;
        let word = self.cells.device.word((at >> 8 & 3) as u8, at >> 10, at & 255);
        (word >> (8 * (offset & 3))) as u8
    }

    fn refreshes(&self) -> u64 {
        self.cells.device.counts().refreshes
    }

    fn line_bytes(&self) -> u64 {
        8
    }

    fn resets(&self) -> &'static [&'static str] {
        &["rst"]
    }
}

#[test]
fn memory_has_what_was_written_whatever_the_ways() {
    // From the device's edge to its words, from the clock's to the device's, from the balls to what catches.
    for (seed, (access_ps, clk_ps, back_ps)) in
        [(2_700, 1_000, 300), (6_000, 1_500, 900), (6_000, 4_000, 2_000), (2_700, 1_500, 300)]
            .into_iter()
            .enumerate()
    {
        let ways = Ways { clk_ps, back_ps, ..Ways::default() };
        let mut board = Board::new(50_000, timing(access_ps), ways, seed as u64);
        let cycles = board.start();
        assert!(!board.broken(), "{access_ps} ps, {ways:?}");
        let took = board.manage(seed as u64, [0.0, 0.3][seed % 2], 400);
        println!(
            "{access_ps} ps, {ways:?}: {cycles} to start, then {took}, {:?}",
            board.cells.device.counts()
        );
    }
}

#[test]
fn other_clocks_and_the_whole_time_of_a_start() {
    for clock_khz in [25_000, 31_250, 62_500] {
        let mut board = Board::new(clock_khz, timing(6_000), Ways::default(), 5);
        board.start();
        board.manage(5, 0.1, 200);
    }
    let timing = Timing { startup_divisor: 1, ..timing(6_000) };
    let cfg = SdrConfig { memory_base: BASE, ..SdrConfig::new(50_000, 11, BYTES) };
    let mut board = Board::of(cfg, timing, Ways::default(), 6);
    let cycles = board.start();
    assert!((10_100..10_600).contains(&cycles), "0.2 ms, and the search: {cycles}");
    board.manage(6, 0.0, 100);
}

#[test]
fn a_memory_that_answers_nothing_is_broken_and_says_so_in_each_answer() {
    let mut board = Board::usual(7);
    board.cells.deaf = true;
    board.start();
    assert!(board.broken());
    board.answers_slverr();
}

#[test]
fn a_reset_starts_the_memory_anew() {
    let mut board = Board::usual(8);
    board.start();
    board.manage(8, 0.0, 50);
    board.reset(8);
    assert_eq!(board.sim.get("dram_done"), 0);
    board.start();
    board.manage(9, 0.2, 50);
    board.reset(8);
    hostile::resets_in_the_middle(&mut board, 3);
}

#[test]
fn a_line_takes_two_cycles_either_way() {
    let mut board = Board::usual(9);
    board.start();
    let mut best = |write: bool, beats: u64, strobe: u64| board.quickest(write, BASE + 128, beats, strobe);
    let (short, long) = (best(true, 1, 0xff)[0], best(true, 64, 0xff)[0]);
    assert_eq!(long - short, 2 * 63, "writes");
    let read = best(false, 64, 0xff);
    assert_eq!(read[62] - read[0], 2 * 62, "reads");
    let merged = (best(true, 9, 1)[0] - best(true, 1, 1)[0]) / 8;
    println!("to B {short}, to the first beat of R {}, a line of which bytes stay {merged}", read[0]);
    assert!(short <= 4 && read[0] <= 16 && merged <= 24, "{short}, {}, {merged}", read[0]);
}

#[test]
fn reads_and_writes_at_once_keep_their_order_whatever_is_held_back() {
    for seed in 0..4 {
        let mut board = Board::new(50_000, timing(3_000 + 1_000 * seed), Ways::default(), seed);
        hostile::keeps_order(&mut board, seed, REFI, 30_000);
    }
}

#[test]
fn the_memory_is_refreshed_as_often_as_it_must_be_whatever_waits() {
    hostile::is_refreshed_whatever_waits(|| Board::usual(11), REFI);
}

#[test]
fn writes_go_on_while_the_beats_of_a_read_wait() {
    hostile::writes_pass_reads_that_wait(&mut Board::usual(12));
}

#[test]
fn the_ends_of_all_ways_at_each_clock() {
    for (clock_khz, access_ps, clk_ps, back_ps) in
        [(50_000, 6_000, 4_000, 3_500), (62_500, 6_000, 1_000, 700), (25_000, 6_000, 4_000, 3_500)]
    {
        let ways = Ways { clk_ps, back_ps, ..Ways::default() };
        let mut board = Board::new(clock_khz, timing(access_ps), ways, 13);
        board.start();
        assert!(!board.broken(), "{clock_khz} kHz, {access_ps} ps, {ways:?}");
        Hostile::new(&board, 13).run(&mut board, 800);
    }
}

#[test]
fn the_verilog_of_each_clock_and_size_passes_the_build_time_checks() {
    for (clock_khz, row_bits, bytes) in [(25_000, 11, 4096), (50_000, 11, 8 << 20), (62_500, 13, 32 << 20)] {
        let cfg = SdrConfig::new(clock_khz, row_bits, bytes);
        netlist(&cfg, 3).unwrap_or_else(|e| panic!("{cfg:?}:\n{e}"));
    }
}
