// SPDX-License-Identifier: MIT OR Apache-2.0
//! DDR3, with two clocks of one source.

use super::hostile::{self, Hostile};
use super::{Bench, BASE, BYTES};
use crate::{netlist, DramConfig};
use ferrowire_ddr3::{Cells, Ddr3, Sent, Timing, Ways};
use ferrowire_rtl::Sim;

/// Cycles from refresh to refresh at 50 MHz.
const REFI: u64 = 386;

/// A board without a host's part.
struct Board {
    sim: Sim,
    cells: Cells,
    half_ps: u64,
    /// Of the core's clock and of the fast one: when the next edge comes.
    next: [u64; 2],
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
        Self { sim, cells, half_ps, next }
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
}

impl Bench for Board {
    fn sim(&mut self) -> &mut Sim {
        &mut self.sim
    }

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

    fn byte(&self, offset: u64) -> u8 {
        let at = offset as u32 / 2;
        let word = self.cells.device.word((at >> 10 & 7) as u8, at >> 13, at & 1023);
        (word >> (8 * (offset & 1))) as u8
    }

    fn refreshes(&self) -> u64 {
        self.cells.device.counts().refreshes
    }

    fn line_bytes(&self) -> u64 {
        16
    }

    fn resets(&self) -> &'static [&'static str] {
        &["rst", "memory_rst"]
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
        assert!(!board.broken(), "{dqsck_ps} ps, {ways:?}");
        let took = board.manage(seed as u64, [0.0, 0.3][seed % 2], 400);
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
            board.manage(seed as u64, 0.1, 120);
        }
    }
}

#[test]
fn other_clocks_and_the_whole_time_of_a_start() {
    for clock_khz in [25_000, 31_250, 62_500] {
        let mut board = Board::new(clock_khz, timing(4_000), usual(), 5);
        board.start();
        board.manage(5, 0.1, 200);
    }
    let timing = Timing { startup_divisor: 1, ..timing(6_000) };
    let mut board =
        Board::of(DramConfig { memory_base: BASE, ..DramConfig::new(50_000, 15, BYTES) }, timing, usual(), 6);
    let cycles = board.start();
    assert!((35_000..70_000).contains(&cycles), "0.7 ms, and the search: {cycles}");
    board.manage(6, 0.0, 100);
}

#[test]
fn a_memory_that_answers_nothing_is_broken_and_says_so_in_each_answer() {
    let mut board = Board::new(50_000, timing(4_000), usual(), 7);
    board.cells.deaf = true;
    board.start();
    assert!(board.broken());
    board.answers_slverr();
}

#[test]
fn a_reset_starts_the_memory_anew() {
    let mut board = Board::new(50_000, timing(4_000), usual(), 8);
    board.start();
    board.manage(8, 0.0, 50);
    board.reset(8);
    assert_eq!(board.sim.get("dram_done"), 0);
    board.start();
    board.manage(8, 0.2, 50);
}

#[test]
fn a_line_takes_four_cycles_either_way() {
    let mut board = Board::new(50_000, timing(4_000), usual(), 9);
    board.start();
    let mut best = |write: bool, beats: u64| board.quickest(write, BASE + 128, beats, 0xff);
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

#[test]
fn reads_and_writes_at_once_keep_their_order_whatever_is_held_back() {
    for seed in 0..4 {
        let mut board = Board::new(50_000, timing(2_000 + 2_000 * seed), usual(), seed);
        hostile::keeps_order(&mut board, seed, REFI, 20_000);
    }
}

#[test]
fn the_memory_is_refreshed_as_often_as_it_must_be_whatever_waits() {
    hostile::is_refreshed_whatever_waits(|| Board::new(50_000, timing(4_000), usual(), 11), REFI);
}

#[test]
fn writes_go_on_while_the_beats_of_a_read_wait() {
    hostile::writes_pass_reads_that_wait(&mut Board::new(50_000, timing(4_000), usual(), 12));
}

#[test]
fn the_ends_of_all_delays_with_wires_that_differ_and_words_that_are_long_unsure() {
    let mut skew_ps = [0; 16];
    skew_ps.iter_mut().enumerate().for_each(|(i, skew)| *skew = [-300, 300, 170, -60][i % 4]);
    for (seed, clock_khz) in [25_000, 50_000, 62_500].into_iter().enumerate() {
        for (dqsck_ps, back_ps) in [(1_000, 0), (10_000, 0), (1_000, 7_000), (10_000, 7_000)] {
            let timing = Timing { uncertain_ps: 1_000, skew_ps, ..timing(dqsck_ps) };
            let ways = Ways { back_ps, enable_early: seed, ..Ways::default() };
            let mut board = Board::new(clock_khz, timing, (ways, 1 + 3_000 * seed as u64), seed as u64);
            board.start();
            assert!(!board.broken(), "{dqsck_ps} and {back_ps} at {clock_khz}");
            Hostile::new(&board, seed as u64).run(&mut board, 800);
        }
    }
}

#[test]
fn words_that_come_later_than_they_are_looked_for_are_a_broken_memory_and_nothing_hangs() {
    let ways = Ways { back_ps: 260_000, ..Ways::default() };
    let mut board = Board::new(62_500, timing(10_000), (ways, 1_000), 13);
    board.start();
    assert!(board.broken());
    // The same words a little sooner: at the last places of all.
    let mut works = 0;
    for back_ps in (186_000..214_000).step_by(4_000) {
        let ways = Ways { back_ps, ..Ways::default() };
        let mut board = Board::new(62_500, timing(10_000), (ways, 1_000), 14);
        board.start();
        if !board.broken() {
            works += 1;
            Hostile::new(&board, 14).run(&mut board, 300);
        }
    }
    assert!((1..7).contains(&works), "{works}: the end of what is looked at is among them");
}

#[test]
fn resets_that_end_far_apart_are_no_matter() {
    let mut places = None;
    for (seed, (sooner, later)) in [("rst", "memory_rst"), ("memory_rst", "rst")].into_iter().enumerate() {
        for apart in [1, 7, 40, 300] {
            let mut board = Board::new(50_000, timing(4_000), usual(), seed as u64);
            [sooner, later].iter().for_each(|port| board.sim.set(port, 1));
            (0..8).for_each(|_| board.cycle(|_| ()));
            board.sim.set(sooner, 0);
            (0..apart).for_each(|_| board.cycle(|_| ()));
            board.sim.set(later, 0);
            board.start();
            assert!(!board.broken(), "{sooner} {apart} cycles before {later}");
            // The way is no longer for it.
            let place = board.sim.peek("dram.dram.start.quarters");
            assert_eq!(places.get_or_insert_with(|| place.clone()), &place, "{sooner} {apart} before");
            Hostile::new(&board, 15).run(&mut board, 300);
        }
    }
}

#[test]
fn a_reset_in_the_middle_of_bursts_is_as_good_as_any_even_where_the_device_has_none() {
    let mut board = Board::new(50_000, timing(4_000), usual(), 16);
    hostile::resets_in_the_middle(&mut board, 0..3);
    board.cells.device.unwire_reset();
    hostile::resets_in_the_middle(&mut board, 3..6);
}

#[test]
fn words_that_are_sure_for_too_short_a_time_are_a_broken_memory() {
    // Of 10 ns of a word 1.5 are sure at all bits, then 6.
    for (uncertain_ps, broken) in [(4_250, true), (2_000, false)] {
        let timing = Timing { uncertain_ps, ..timing(4_000) };
        let mut board = Board::new(50_000, timing, usual(), 18);
        board.start();
        assert_eq!(board.broken(), broken, "{uncertain_ps}");
    }
}

#[test]
fn delays_are_two_thirds_one_and_none_of_a_quarter_of_a_cycle() {
    let mut board = Board::new(50_000, timing(4_000), usual(), 19);
    let (mut steps, mut before, mut all) = (0, 0, Vec::new());
    while board.sim.get("dram_done") == 0 {
        board.cycle(|_| ());
        let step = board.sim.get("dram_delay_step");
        if board.sim.get("dram_delay_load_n") == 0 {
            if steps > 0 {
                all.push(steps);
            }
            steps = 0;
        }
        steps += u32::from(before == 1 && step == 0);
        before = step;
    }
    // 5 ns are 200 steps of 25 ps, of which a cell has 127.
    assert_eq!(all, [126, 63], "then none");
    assert!([0, 63, 126].contains(&steps), "{steps}");
}
