// SPDX-License-Identifier: MIT OR Apache-2.0
//! SDRAM of single data rate, with one clock.

use std::collections::VecDeque;

use super::hostile::{self, Hostile};
use super::{Bench, BASE, BYTES};
use crate::sdr::{netlist, SdrConfig};
use ferrowire_rtl::Sim;
use ferrowire_sdr::{Cells, Sdr, Sent, Timing, Ways};

/// Cycles from REFRESH to REFRESH at 50 MHz.
const REFI: u64 = 773;

/// What cells a board has.
#[derive(Clone, Copy)]
struct Fpga {
    /// Edges from D of `ODDRX1F` to its ball, behind the first.
    data: usize,
    /// Likewise of the flop at T.
    enable: usize,
    /// DQ keeps its level where nobody drives it.
    keeps: bool,
}

/// All wires through one flop.
const SAME: Fpga = Fpga { data: 0, enable: 0, keeps: false };

/// A board without a host's part.
struct Board {
    sim: Sim,
    cells: Cells,
    ways: Ways,
    period_ps: u64,
    now: u64,
    fpga: Fpga,
    sent: VecDeque<Sent>,
    kept: u32,
    cfg: SdrConfig,
    refreshes: Vec<u64>,
}

fn config(clock_khz: u32) -> SdrConfig {
    SdrConfig { start_us: 2, memory_base: BASE, ..SdrConfig::new(clock_khz, 11, BYTES) }
}

fn timing(access_ps: u64) -> Timing {
    Timing { access_ps, startup_divisor: 100, ..Timing::slowest() }
}

const IDLE: Sent = Sent { ras_n: true, cas_n: true, we_n: true, ba: 0, a: 0, drive: false, dq: 0 };

impl Board {
    /// `ways`: words are caught half a cycle before the edge behind which they are there.
    fn of(cfg: SdrConfig, timing: Timing, ways: Ways, fpga: Fpga) -> Self {
        let mut sim = Sim::new(&netlist(&cfg, 3).unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let period_ps = 1_000_000_000 / u64::from(cfg.clock_khz);
        let ways = Ways { back_ps: ways.back_ps + period_ps / 2, ..ways };
        let cells = Cells::new(Sdr::new(timing, 1), ways, period_ps);
        let sent = std::iter::repeat_n(IDLE, 8).collect();
        Self { sim, cells, ways, period_ps, now: 400_000, fpga, sent, kept: 0, cfg, refreshes: Vec::new() }
    }

    fn new(clock_khz: u32, timing: Timing, ways: Ways) -> Self {
        Self::of(config(clock_khz), timing, ways, SAME)
    }

    fn usual() -> Self {
        Self::new(50_000, timing(5_000), Ways::default())
    }
}

impl Bench for Board {
    fn sim(&mut self) -> &mut Sim {
        &mut self.sim
    }

    fn cycle(&mut self, before: impl FnOnce(&mut Sim)) {
        before(&mut self.sim);
        self.sent.push_front(Sent::of(Sent::WIRES.map(|name| self.sim.get(&format!("dram_{name}")))));
        self.sent.pop_back();
        let sent = Sent { drive: self.sent[self.fpga.enable].drive, ..self.sent[self.fpga.data] };
        let count = self.cells.device.counts().refreshes;
        let mut caught = self.cells.edge(self.now, sent);
        if self.cells.device.counts().refreshes > count {
            self.refreshes.push(self.now / self.period_ps);
        }
        if self.fpga.keeps {
            let again = self.cells.device.sample(self.now - self.ways.back_ps);
            if caught != again {
                caught = self.kept;
            } else {
                self.kept = caught;
            }
            if sent.drive {
                self.kept = sent.dq;
            }
        }
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
        let mut board = Board::new(50_000, timing(access_ps), ways);
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
        let mut board = Board::new(clock_khz, timing(6_000), Ways::default());
        board.start();
        board.manage(5, 0.1, 200);
    }
    let timing = Timing { startup_divisor: 1, ..timing(6_000) };
    let cfg = SdrConfig { memory_base: BASE, ..SdrConfig::new(50_000, 11, BYTES) };
    let mut board = Board::of(cfg, timing, Ways::default(), SAME);
    let cycles = board.start();
    assert!((10_100..10_600).contains(&cycles), "0.2 ms, and the search: {cycles}");
    board.manage(6, 0.0, 100);
}

#[test]
fn a_memory_that_answers_nothing_is_broken_and_says_so_in_each_answer() {
    let mut board = Board::usual();
    board.cells.deaf = true;
    board.start();
    assert!(board.broken());
    board.answers_slverr();
}

#[test]
fn a_reset_starts_the_memory_anew() {
    let mut board = Board::usual();
    board.start();
    board.manage(8, 0.0, 50);
    board.reset(8);
    assert_eq!(board.sim.get("dram_done"), 0);
    board.start();
    board.manage(9, 0.2, 50);
    board.reset(8);
    hostile::resets_in_the_middle(&mut board, 0..3);
}

#[test]
fn a_line_takes_two_cycles_either_way() {
    let mut board = Board::usual();
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
        let mut board = Board::new(50_000, timing(3_000 + 1_000 * seed), Ways::default());
        hostile::keeps_order(&mut board, seed, REFI, 30_000);
    }
}

#[test]
fn the_memory_is_refreshed_as_often_as_it_must_be_whatever_waits() {
    hostile::is_refreshed_whatever_waits(Board::usual, REFI);
}

#[test]
fn writes_go_on_while_the_beats_of_a_read_wait() {
    hostile::writes_pass_reads_that_wait(&mut Board::usual());
}

#[test]
fn the_verilog_of_each_clock_and_size_passes_the_build_time_checks() {
    for (clock_khz, row_bits, bytes) in [(25_000, 11, 4096), (50_000, 11, 8 << 20), (62_500, 12, 16 << 20)] {
        let cfg = SdrConfig::new(clock_khz, row_bits, bytes);
        netlist(&cfg, 3).unwrap_or_else(|e| panic!("{cfg:?}:\n{e}"));
    }
}

/// Cells with more flops in a row than one, in all wires, as an ECP5's are.
#[test]
fn cells_that_are_late_by_some_cycles_are_found() {
    for late in [2, 5] {
        let fpga = Fpga { data: late, enable: late, keeps: true };
        let mut board = Board::of(config(50_000), timing(5_000), Ways::default(), fpga);
        board.start();
        assert!(!board.broken());
        Hostile::new(&board, 7).run(&mut board, 8_000);
    }
}

/// Wires that keep what was on them are taken for no word.
#[test]
fn wires_that_keep_their_level_deceive_nobody() {
    for clock_khz in [25_000, 50_000, 62_500] {
        for access_ps in [1_800, 4_000, 8_000] {
            let fpga = Fpga { keeps: true, ..SAME };
            let mut board = Board::of(config(clock_khz), timing(access_ps), Ways::default(), fpga);
            board.start();
            assert!(!board.broken(), "{clock_khz} kHz, {access_ps} ps");
            board.manage(2, 0.1, 150);
        }
    }
}

/// The device's times of CL 2, with all ways at their longest, and the device's delay moving behind the search.
#[test]
fn the_slowest_devices_at_each_clock_and_delays_that_move() {
    for clock_khz in [25_000, 50_000, 62_500] {
        for (out_ps, clk_ps, back_ps) in [(4_000, 4_000, 3_500), (1_000, 1_000, 200), (1_500, 3_000, 500)] {
            let ways = Ways { out_ps, clk_ps, back_ps, ..Ways::default() };
            let mut board = Board::of(config(clock_khz), timing(8_000), ways, SAME);
            board.start();
            assert!(!board.broken(), "{clock_khz} kHz, {ways:?}");
            for access_ps in [1_800, 8_000, 5_000] {
                board.cells.device.drift(access_ps);
                Hostile::new(&board, access_ps).run(&mut board, 700);
            }
        }
    }
}

/// Order at the slowest and the quickest clock, and the way of drivers that are late or early.
#[test]
fn order_is_kept_at_each_clock_and_with_drivers_that_are_late() {
    for (clock_khz, enable_ps) in [(25_000, [3_000, 200]), (62_500, [2_500, 2_500]), (50_000, [-500, 3_000])]
    {
        let refi = u64::from(config(clock_khz).device().times.refi);
        let ways = Ways { enable_ps, ..Ways::default() };
        let mut board = Board::of(config(clock_khz), timing(8_000), ways, SAME);
        hostile::keeps_order(&mut board, u64::from(clock_khz), refi, 30_000);
    }
}

/// No refresh is later than a line takes, whatever is under way.
#[test]
fn each_refresh_comes_within_forty_cycles_of_its_time() {
    let mut board = Board::usual();
    board.start();
    board.refreshes.clear();
    Hostile::new(&board, 3).run(&mut board, 25_000);
    let refi = u64::from(board.cfg.device().times.refi);
    let gaps: Vec<u64> = board.refreshes.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.len() > 30);
    assert!(gaps.iter().all(|gap| (refi - 40..=refi + 40).contains(gap)), "{gaps:?}");
}

/// A memory that cannot be used answers bursts as long as they are, in their order and with their IDs, and touches nothing.
#[test]
fn a_broken_memory_answers_each_beat_and_writes_nothing() {
    let mut board = Board::usual();
    board.cells.deaf = true;
    board.start();
    assert!(board.broken());
    let before = board.cells.device.counts();
    assert_eq!(board.burst(false, BASE, 40, 0).len(), 40);
    for strobe in [0xff, 1, 0] {
        assert_eq!(board.burst(true, BASE, 40, strobe).len(), 1);
        assert_eq!(board.sim.get("s_axi_bresp"), 2);
    }
    // Outside of its window, too.
    board.burst(true, 0, 1, 0xff);
    assert_eq!(board.sim.get("s_axi_bresp"), 2);
    let after = board.cells.device.counts();
    assert_eq!(before.writes, after.writes);
    assert_eq!(after.reads - before.reads, 40);
    // It is still refreshed.
    (0..2_000).for_each(|_| board.cycle(|_| ()));
    assert!(board.refreshes() >= after.refreshes + 2);
}

/// All of the device on the bus, its ends and what is outside.
#[test]
fn the_whole_device_is_on_the_bus() {
    let cfg = SdrConfig { start_us: 2, ..SdrConfig::new(50_000, 11, 8 << 20) };
    let mut board = Board::of(cfg, timing(5_000), Ways::default(), SAME);
    board.start();
    let base = 8 << 20;
    for (n, at) in [0, 0x400, 0xc00, 0x1000, 0x40_0000, (8 << 20) - 8].into_iter().enumerate() {
        board.sim.set("s_axi_wdata", 0x0102_0304_0506_0700 + n as u64);
        board.burst(true, base + at, 1, 0xff);
        assert_eq!(board.byte(at), n as u8, "{at:#x}");
        assert_eq!(board.byte(at + 7), 1, "{at:#x}");
    }
    let before = board.cells.device.counts().writes;
    for outside in [0, base - 8, 2 * base, base + (1 << 40), 1 << 63 | base] {
        board.burst(true, outside, 3, 0xff);
        board.burst(true, outside, 3, 0x0f);
    }
    assert_eq!(board.cells.device.counts().writes, before);
}

/// The start as the device sees it: the order, how often, and nothing but the clock for its time and a hundredth more.
#[test]
fn the_start_is_as_long_and_in_such_order() {
    for clock_khz in [25_000, 50_000, 62_500] {
        let mut board = Board::of(config(clock_khz), timing(5_000), Ways::default(), SAME);
        let (mut codes, mut cycle) = (Vec::new(), 0u64);
        while board.sim.get("dram_done") == 0 {
            let code = ["ras_n", "cas_n", "we_n"].map(|wire| board.sim.get(&format!("dram_{wire}")));
            if code != [1, 1, 1] {
                codes.push((cycle, code, board.sim.get("dram_a")));
            }
            board.cycle(|_| ());
            cycle += 1;
        }
        let least = 2 * u64::from(clock_khz) / 1_000 * 101 / 100;
        assert!((least..least + 8).contains(&codes[0].0), "{}", codes[0].0);
        assert_eq!((codes[0].1, codes[0].2 >> 10 & 1), ([0, 1, 0], 1));
        assert!(codes[1..9].iter().all(|(_, code, _)| *code == [0, 0, 1]));
        assert_eq!((codes[9].1, codes[9].2), ([0, 0, 0], 0x21));
        let gap = |i: usize| codes[i + 1].0 - codes[i].0;
        let device = config(clock_khz).device();
        assert_eq!(gap(0), u64::from(device.times.rp));
        assert!((1..8).all(|i| gap(i) == u64::from(device.times.rfc)));
        assert!(gap(9) >= 2);
    }
}

/// At each place that is wrong one line is read, at the one that is taken both and so four times, and words and lines differ in each bit.
#[test]
fn both_lines_are_read_at_the_place_that_is_taken() {
    for keeps in [false, true] {
        let mut board = Board::of(config(50_000), timing(5_000), Ways::default(), Fpga { keeps, ..SAME });
        let mut columns = Vec::new();
        while board.sim.get("dram_done") == 0 {
            let code = ["ras_n", "cas_n", "we_n"].map(|wire| board.sim.get(&format!("dram_{wire}")));
            if code == [1, 0, 1] {
                columns.push(board.sim.get("dram_a"));
            }
            board.cycle(|_| ());
        }
        assert!(!board.broken());
        let (others, right) = columns.split_at(columns.len() - 8);
        assert_eq!(right, [0, 2].repeat(4), "{columns:?}");
        assert!(!others.is_empty() && others.iter().all(|column| *column == 0), "{columns:?}");
        let word = |at: u64| (0..4).fold(0, |all, i| all | u32::from(board.byte(at + i)) << (8 * i));
        assert_eq!((word(0) ^ word(8), word(4) ^ word(12)), (u32::MAX, u32::MAX));
        assert_eq!(word(0) ^ word(4), u32::MAX);
    }
}

/// Enable and words leave through cells of different kinds.
#[test]
fn drivers_may_be_a_cycle_sooner_than_words() {
    for enable in [1, 2] {
        let fpga = Fpga { data: 2, enable, keeps: false };
        let mut board = Board::of(config(50_000), timing(5_000), Ways::default(), fpga);
        board.start();
        Hostile::new(&board, 5).run(&mut board, 2_000);
    }
}

/// No driver before the device has let go, where that is at its latest and the FPGA's wires at their earliest.
#[test]
fn nobody_drives_before_the_device_has_let_go() {
    let ways = Ways { out_ps: 1_000, clk_ps: 4_000, enable_ps: [-500, -500], ..Ways::default() };
    let mut board = Board::of(config(62_500), timing(8_000), ways, SAME);
    board.start();
    Hostile::new(&board, 6).run(&mut board, 2_000);
    // READ to WRITE, of what the device is told: two cycles in which nobody drives are in it.
    assert_eq!(config(62_500).device().times.rtw, 6);
    assert_eq!(config(57_000).device().times.rfc, 5);
}

/// Rates with R open: one line in two cycles, and a merge is not slower behind reads.
#[test]
fn long_bursts_have_their_rate() {
    let mut board = Board::usual();
    board.start();
    for beats in [2, 17, 256] {
        let read = board.quickest(false, BASE, beats, 0);
        let n = beats as usize;
        // Another row costs some.
        assert!(read[n - 1] - read[0] <= 2 * (beats - 1) + 20 * (beats / 128 + 1), "{beats}");
        let write = board.quickest(true, BASE, beats, 0xff)[0];
        assert!(write <= 2 * beats + 20 * (beats / 128 + 1), "{beats}: {write}");
    }
}
