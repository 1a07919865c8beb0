// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU on AXI4-Lite, before registers that are written from the standard, and each rule that these can break.

use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use crate::axi::{AxiSettings, Cpu, LiteSubordinate, Response};
use crate::card::CsrAccess;

/// Registers: 512 bytes.
struct Registers {
    bytes: Vec<u8>,
    aw: VecDeque<u32>,
    w: VecDeque<(u64, u8)>,
    b: VecDeque<Response>,
    r: VecDeque<(u64, Response)>,
    drives: LiteSubordinate,
    random: SmallRng,
    stall: f64,
}

impl Registers {
    fn new(seed: u64, stall: f64) -> Self {
        Self {
            bytes: vec![0; 512],
            aw: VecDeque::new(),
            w: VecDeque::new(),
            b: VecDeque::new(),
            r: VecDeque::new(),
            drives: LiteSubordinate::default(),
            random: SmallRng::seed_from_u64(seed),
            stall,
        }
    }

    fn step(&mut self, cpu: &mut Cpu, cycle: u64) {
        let mut moves = || self.stall == 0.0 || !self.random.random_bool(self.stall);
        let drives = &mut self.drives;
        (drives.aw_ready, drives.w_ready, drives.ar_ready) = (moves(), moves(), moves());
        drives.b = drives.b.or_else(|| self.b.front().copied().filter(|_| moves()));
        drives.r = drives.r.or_else(|| self.r.front().copied().filter(|_| moves()));
        let (drives, offers) = (*drives, cpu.offers(cycle));
        cpu.take(cycle, &drives);
        if drives.b.is_some() && offers.b_ready {
            self.b.pop_front();
            self.drives.b = None;
        }
        if drives.r.is_some() && offers.r_ready {
            self.r.pop_front();
            self.drives.r = None;
        }
        self.aw.extend(offers.aw.filter(|_| drives.aw_ready));
        self.w.extend(offers.w.filter(|_| drives.w_ready));
        while !self.aw.is_empty() && !self.w.is_empty() {
            let (address, (data, strobe)) = (self.aw.pop_front().unwrap(), self.w.pop_front().unwrap());
            for (i, byte) in data.to_le_bytes().into_iter().enumerate() {
                if strobe >> i & 1 == 1 {
                    self.bytes[(address & !7) as usize + i] = byte;
                }
            }
            self.b.push_back(if address < 400 { Response::Okay } else { Response::SubordinateError });
        }
        if let Some(address) = offers.ar.filter(|_| drives.ar_ready) {
            let at = (address & !7) as usize;
            let word = u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap());
            self.r.push_back((word, if address < 400 { Response::Okay } else { Response::DecodeError }));
        }
    }
}

fn access(address: u32, write: bool, wide: bool, data: u64) -> CsrAccess {
    CsrAccess { address, write, wide, data }
}

#[test]
fn accesses_of_four_and_eight_bytes_are_in_order_and_each_is_answered() {
    for seed in 0..64 {
        let mut cpu = Cpu::new(AxiSettings::random(seed));
        let mut registers = Registers::new(seed, [0.0, 0.4][seed as usize % 2]);
        let mut random = SmallRng::seed_from_u64(seed);
        let (mut bytes, mut expected, mut writes) = ([0u8; 400], VecDeque::new(), 0);
        for _ in 0..200 {
            let (write, wide): (bool, bool) = (random.random(), random.random());
            let length = if wide { 8 } else { 4 };
            let at = random.random_range(0..10) * length;
            let data = if wide { random.random() } else { random.random::<u32>().into() };
            cpu.access(access(at as u32, write, wide, data));
            if write {
                bytes[at..at + length].copy_from_slice(&data.to_le_bytes()[..length]);
                writes += 1;
            } else {
                let mut word = [0; 8];
                word[..length].copy_from_slice(&bytes[at..at + length]);
                expected.push_back(u64::from_le_bytes(word));
            }
        }
        let mut cycle = 0;
        while !cpu.idle() {
            registers.step(&mut cpu, cycle);
            cycle += 1;
            assert!(cycle < 100_000, "seed {seed}: it does not end");
            while let Some(answer) = cpu.answer() {
                assert_eq!(Some(answer), expected.pop_front(), "seed {seed}");
            }
        }
        assert!(expected.is_empty());
        assert_eq!((cpu.violation(), cpu.writes_taken(), cpu.errors()), (None, writes, 0), "seed {seed}");
        assert!(cpu.writes_taken_at() < cycle);
    }
}

#[test]
fn a_register_that_is_refused_is_counted_and_reads_as_a_card_that_is_gone() {
    let mut cpu = Cpu::new(AxiSettings::default());
    let mut registers = Registers::new(0, 0.0);
    cpu.access(access(408, true, true, 1));
    cpu.access(access(404, false, false, 0));
    cpu.access(access(400, false, true, 0));
    (0..100).for_each(|cycle| registers.step(&mut cpu, cycle));
    assert_eq!((cpu.answer(), cpu.answer(), cpu.errors()), (Some(0xffff_ffff), Some(u64::MAX), 3));
    assert_eq!(cpu.violation(), None);
}

/// What is said of a card that drives this, cycle by cycle, while the CPU writes one register, or reads it.
fn said(write: bool, cycles: &[LiteSubordinate]) -> String {
    // The CPU takes no response.
    let mut cpu = Cpu::new(AxiSettings::default());
    cpu.access(access(0, write, true, 7));
    for (cycle, drives) in (0..).zip(cycles) {
        cpu.take(cycle, drives);
    }
    assert_eq!(cpu.violation().is_some(), cpu.violations() > 0);
    cpu.violation().unwrap_or_default().to_string()
}

#[test]
fn each_rule_that_a_card_breaks_is_found() {
    let none = LiteSubordinate::default();
    let aw = LiteSubordinate { aw_ready: true, ..none };
    let w = LiteSubordinate { w_ready: true, ..none };
    let ar = LiteSubordinate { ar_ready: true, ..none };
    let b = |response| LiteSubordinate { b: Some(response), ..none };
    let r = |data| LiteSubordinate { r: Some((data, Response::Okay)), ..none };
    let okay = Response::Okay;
    assert_eq!(said(true, &[aw, w, none, b(okay)]), "");
    assert_eq!(said(true, &[w, none, aw, b(okay)]), "");
    assert_eq!(said(false, &[ar, r(7)]), "");
    for early in [&[aw, b(okay)][..], &[w, b(okay)], &[b(okay)]] {
        assert!(said(true, early).contains("s_axil B: BVALID for write 1"), "{}", said(true, early));
    }
    // In the cycle of the data it depends on it.
    let at_once = LiteSubordinate { b: Some(okay), ..w };
    assert!(said(true, &[aw, at_once]).contains("addresses and 0 data were taken (AXI4 A3.3.1)"));
    assert!(said(true, &[aw, w, b(okay), b(okay)]).contains("BVALID for write 2"));
    assert!(said(false, &[r(7)]).contains("RVALID for read 1 when 0 were taken (AXI4 A3.3.1)"));
    assert!(said(false, &[ar, r(7), r(7)]).contains("RVALID for read 2"));
    assert!(
        said(true, &[aw, w, b(Response::ExclusiveOkay)]).contains("EXOKAY is not of AXI4-Lite (AXI4 B1.1.1)")
    );
}

#[test]
fn what_the_card_offers_stays_until_the_cpu_takes_it() {
    let none = LiteSubordinate::default();
    let both = LiteSubordinate { aw_ready: true, w_ready: true, ar_ready: true, ..none };
    let b = |response| LiteSubordinate { b: Some(response), ..none };
    let r = |data| LiteSubordinate { r: Some((data, Response::Okay)), ..none };
    let of = |write: bool, first: LiteSubordinate, second: LiteSubordinate| {
        // Nothing is taken in nearly all cycles, but for the addresses.
        let mut cpu = Cpu::new(AxiSettings::default());
        cpu.access(access(0, write, true, 7));
        cpu.take(0, &both);
        cpu.settings.cpu_stall = 0.999_999;
        cpu.take(1, &first);
        cpu.take(2, &second);
        cpu.violation().unwrap_or_default().to_string()
    };
    assert_eq!(of(true, b(Response::Okay), b(Response::Okay)), "");
    assert!(of(true, b(Response::Okay), none).contains("s_axil B: VALID falls"));
    assert!(
        of(true, b(Response::Okay), b(Response::DecodeError)).contains("s_axil B: what is on offer changes")
    );
    assert_eq!(of(false, r(1), r(1)), "");
    assert!(of(false, r(1), none).contains("s_axil R: VALID falls"));
    assert!(of(false, r(1), r(2)).contains("s_axil R: what is on offer changes"));
}

#[test]
fn valids_are_low_during_reset() {
    for (channel, drives) in [
        ("B", LiteSubordinate { b: Some(Response::Okay), ..LiteSubordinate::default() }),
        ("R", LiteSubordinate { r: Some((0, Response::Okay)), ..LiteSubordinate::default() }),
    ] {
        let mut cpu = Cpu::new(AxiSettings::default());
        cpu.in_reset(&LiteSubordinate::default());
        assert_eq!(cpu.violation(), None);
        cpu.in_reset(&drives);
        let expected = format!("cycle 0, s_axil {channel}: VALID is high during reset (AXI4 A3.1.2)");
        assert_eq!(cpu.violation(), Some(&expected[..]));
    }
}
