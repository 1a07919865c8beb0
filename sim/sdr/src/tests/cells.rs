// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cells, with a controller of one clock that keeps to their page.
use super::*;

const NOP: Sent = Sent { ras_n: true, cas_n: true, we_n: true, ba: 0, a: 0, drive: false, dq: 0 };

/// The cells, and the next edge of the controller's clock.
struct Pads {
    cells: Cells,
    period: u64,
    next: u64,
}

fn command(code: u64, ba: u64, a: u64, dq: Option<u32>) -> Sent {
    let bit = |i: u64| code >> i & 1;
    Sent::of([bit(2), bit(1), bit(0), ba, a, dq.is_some().into(), dq.unwrap_or(0).into()])
}

impl Pads {
    /// Ready, with row 5 of bank 2 open.
    fn new(ways: Ways, timing: Timing, period: u64, value: u32) -> Self {
        let timing = Timing { startup_divisor: 1_000, ..timing };
        let cells = Cells::new(Sdr::new(timing, 3), ways, period);
        let mut pads = Self { cells, period, next: 400_000 };
        pads.idle(200_000 / period + 2);
        pads.edge(command(2, 0, 0x400, None));
        pads.idle(20);
        for _ in 0..8 {
            pads.edge(command(1, 0, 0, None));
            pads.idle(20);
        }
        pads.edge(command(0, 0, value.into(), None));
        pads.idle(9);
        pads.edge(command(3, 2, 5, None));
        pads.idle(9);
        pads
    }

    fn edge(&mut self, sent: Sent) -> u32 {
        let word = self.cells.edge(self.next, sent);
        self.next += self.period;
        word
    }

    fn idle(&mut self, count: u64) {
        (0..count).for_each(|_| _ = self.edge(NOP));
    }

    /// What the first calls behind a READ return, the one that sends it first.
    fn read(&mut self, column: u64) -> [u32; 10] {
        let first = self.edge(command(5, 2, column, None));
        std::array::from_fn(|i| if i == 0 { first } else { self.edge(NOP) })
    }

    fn write(&mut self, column: u64, words: [u32; 4]) {
        self.edge(command(4, 2, column, Some(words[0])));
        words[1..].iter().for_each(|word| _ = self.edge(command(7, 0, 0, Some(*word))));
        self.idle(1);
    }
}

const WORDS: [u32; 4] = [0x1234_5678, 0xedcb_a987, 0, u32::MAX];

/// Four words there and back, with the latency of their page.
fn there_and_back(ways: Ways, timing: Timing, period: u64, cl: u32) {
    let mut pads = Pads::new(ways, timing, period, mode(2, cl));
    for column in [4, 252] {
        pads.write(column, WORDS);
        pads.idle(2);
        assert_eq!([0, 1, 2, 3].map(|i| pads.cells.device.word(2, 5, column as u32 + i)), WORDS);
        let words = pads.read(column);
        assert_eq!(words[cl as usize..][..4], WORDS);
        pads.idle(2);
    }
}

#[test]
fn a_word_comes_a_latency_behind_its_read() {
    for cl in [2, 3] {
        there_and_back(Ways::default(), Timing::slowest(), 20_000, cl);
        there_and_back(Ways::default(), Timing::m12l64322a_7(), 16_000, cl);
        there_and_back(Ways::default(), Timing { access_ps: 2_000, ..Timing::m12l64322a_6() }, 20_000, cl);
        there_and_back(Ways { out_ps: 4_000, clk_ps: 0, ..Ways::default() }, Timing::slowest(), 20_000, cl);
        there_and_back(Ways { out_ps: 300, clk_ps: 2_500, ..Ways::default() }, Timing::slowest(), 20_000, cl);
    }
}

#[test]
fn data_are_caught_within_half_a_cycle() {
    // Half a cycle is 10 ns, of which CLK takes 1.5 and the device 5.5.
    let caught = |back_ps| {
        let ways = Ways { back_ps, ..Ways::default() };
        let mut pads = Pads::new(ways, Timing::m12l64322a_7(), 20_000, mode(2, 3));
        pads.write(0, WORDS);
        pads.idle(2);
        (0..8).all(|_| pads.read(0)[3..7] == WORDS)
    };
    assert!(caught(3_000));
    assert!(!caught(3_001));
    // Or the word before still holds: 10 + 1.5 + 2 ns.
    let late = |clk_ps| {
        let ways = Ways { clk_ps, back_ps: 0, ..Ways::default() };
        let mut pads = Pads::new(ways, Timing::m12l64322a_7(), 20_000, mode(2, 3));
        pads.write(0, WORDS);
        pads.idle(2);
        (0..8).all(|_| pads.read(0)[4..8] == WORDS)
    };
    assert!(late(8_001));
    assert!(!late(8_000));
}

#[test]
fn wires_leave_with_their_skew() {
    // CLK's edge is half a cycle and 1.5 ns behind the clock's; 2 ns before it is 9.5 ns.
    let with = |ways| Pads::new(ways, Timing::m12l64322a_7(), 20_000, mode(2, 3)).write(0, WORDS);
    let ways = Ways { enable_ps: [0, 0], ..Ways::default() };
    with(Ways { out_ps: 9_400, skew_ps: [-1_000, 100], ..ways });
    breaks("tDS: DQ", || with(Ways { out_ps: 9_400, skew_ps: [-1_000, 102], ..ways }));
    breaks("tIS: RAS#", || with(Ways { out_ps: 9_502, skew_ps: [0, 0], ..ways }));
    // The wires change a cycle behind where they did, of which 1 ns is to be left.
    with(Ways { out_ps: 100, clk_ps: 9_000, skew_ps: [-100, 1_000], ..ways });
    breaks("tIH: RAS#", || with(Ways { out_ps: 100, clk_ps: 9_002, skew_ps: [-100, 1_000], ..ways }));
}

#[test]
fn drivers_are_switched_on_and_off_by_their_own_delays() {
    let ways = Ways { skew_ps: [0, 0], ..Ways::default() };
    let with = |on, off| {
        let timing = Timing { ds_ps: 3_000, ..Timing::m12l64322a_7() };
        there_and_back(Ways { enable_ps: [on, off], ..ways }, timing, 20_000, 3);
    };
    with(7_000, -1_500);
    breaks("tDS: DQ", || with(7_002, 0));
    // The last word is let go a cycle behind, of which 1 ns is to be left.
    let early = |clk_ps| {
        let ways = Ways { out_ps: 8_000, enable_ps: [0, -8_000], clk_ps, ..ways };
        Pads::new(ways, Timing::m12l64322a_7(), 20_000, mode(2, 3)).write(0, WORDS);
    };
    early(9_000);
    breaks("tDH: DQ", || early(9_002));
    // A controller that writes in the cycle behind the last word it reads meets tHZ.
    let turn = |on, hz_ps| {
        let timing = Timing { hz_ps: [8_000, hz_ps], ..Timing::m12l64322a_7() };
        let mut pads = Pads::new(Ways { enable_ps: [on, 0], ..ways }, timing, 20_000, mode(0, 3));
        pads.edge(command(5, 2, 0, None));
        pads.idle(3);
        pads.write(0, WORDS);
        pads.idle(1);
    };
    // The word is valid until 3.5 cycles and 1.5 ns behind the READ's edge; the driver is on from 4 cycles and 1.5 ns.
    turn(0, 10_000);
    breaks("bus contention", || turn(0, 10_002));
    breaks("bus contention", || turn(-1_500, 10_000));
}

#[test]
fn nothing_is_caught_by_deaf_cells() {
    let mut pads = Pads::new(Ways::default(), Timing::slowest(), 20_000, mode(2, 3));
    pads.cells.deaf = true;
    assert_eq!(pads.read(0), [0; 10]);
}

#[test]
fn undriven_wires_are_caught_as_noise() {
    let mut pads = Pads::new(Ways::default(), Timing::slowest(), 20_000, mode(2, 3));
    let words: BTreeSet<u32> = (0..50).map(|_| pads.edge(NOP)).collect();
    assert!(words.len() > 45);
}

#[test]
fn ways_are_within_a_period() {
    for ways in [
        Ways { out_ps: 200, ..Ways::default() },
        Ways { out_ps: 19_600, ..Ways::default() },
        Ways { enable_ps: [-1_300, 0], ..Ways::default() },
        Ways { enable_ps: [0, 18_300], ..Ways::default() },
        Ways { skew_ps: [1, 0], ..Ways::default() },
    ] {
        let fits = catch_unwind(|| _ = Cells::new(Sdr::new(timing(), 1), ways, 20_000));
        assert!(fits.is_err(), "{ways:?}");
    }
}

#[test]
fn wires_have_the_names_and_order_of_what_is_sent() {
    assert_eq!(Sent::WIRES, ["ras_n", "cas_n", "we_n", "ba", "a", "drive", "dq"]);
    let sent = Sent { ras_n: false, cas_n: true, we_n: false, ba: 2, a: 0x412, drive: true, dq: 0xffff_fffe };
    assert_eq!(Sent::of([0, 1, 0, 2, 0x412, 1, 0xffff_fffe]), sent);
}

#[test]
fn addresses_have_their_width() {
    for (ba, a) in [(4, 0), (0, 0x800)] {
        let sends = catch_unwind(|| {
            let mut cells = Cells::new(Sdr::new(timing(), 1), Ways::default(), 20_000);
            cells.edge(0, Sent { ba, a, ..NOP });
        });
        assert!(sends.is_err());
    }
}
