// SPDX-License-Identifier: MIT OR Apache-2.0
//! The UART against a line in plain Rust.

use crate::line::{Driver, Reader};
use crate::uart::{receive, transmit};
use crate::SerialConfig;
use ferrowire_rtl::{bits, build, Sim};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn sim(cfg: &SerialConfig) -> Sim {
    let netlist = build("uart", |m| {
        m.output("received", &receive(m, cfg, m.input("rx", 1)));
        m.output("tx", &transmit(m, cfg, m.stream_in("given", &bits(8))));
    });
    let mut sim = Sim::new(&netlist.unwrap());
    sim.set("rx", 1);
    sim.reset();
    sim
}

fn rates() -> Vec<SerialConfig> {
    let rates =
        [(50_000, 1_000_000), (50_000, 3_000_000), (24_000, 3_000_000), (25_000, 115_200), (10_001, 777_777)];
    rates.map(|(clock_khz, baud)| SerialConfig { clock_khz, baud, ..SerialConfig::default() }).to_vec()
}

fn bit(cfg: &SerialConfig) -> f64 {
    f64::from(cfg.clock_khz) * 1000.0 / f64::from(cfg.baud)
}

/// What the receiver makes of a line: bytes, and whether they were broken.
fn hear(sim: &mut Sim, line: &mut Driver, more: usize) -> Vec<(u8, bool)> {
    let mut heard = Vec::new();
    let mut left = more;
    while left > 0 {
        left -= usize::from(line.idle());
        sim.set("rx", line.level().into());
        if sim.get("received_valid") == 1 {
            heard.push((sim.get("received_byte") as u8, sim.get("received_broken") == 1));
        }
        sim.tick();
    }
    heard
}

#[test]
fn bytes_without_pauses_are_heard_at_every_rate_from_a_sender_who_is_off_by_two_percent() {
    for cfg in rates() {
        for off in [0.98, 0.99, 1.0, 1.01, 1.02] {
            let mut sim = sim(&cfg);
            let mut rng = SmallRng::seed_from_u64(1);
            let mut line = Driver::new(bit(&cfg) * off);
            let sent: Vec<u8> = (0..60).map(|i| [0, 255, 0x55, 0xaa, rng.random()][i % 5]).collect();
            line.push(&sent);
            let heard = hear(&mut sim, &mut line, 3 * cfg.byte_cycles() as usize);
            let wanted: Vec<(u8, bool)> = sent.iter().map(|byte| (*byte, false)).collect();
            assert_eq!(heard, wanted, "{cfg:?}, bits of {off}");
        }
    }
}

#[test]
fn what_is_sent_is_what_was_given_without_a_gap() {
    for cfg in rates() {
        let mut sim = sim(&cfg);
        let mut rng = SmallRng::seed_from_u64(2);
        let mut line = Reader::new(bit(&cfg));
        let sent: Vec<u8> = (0..60).map(|_| rng.random()).collect();
        let (mut given, mut first, mut cycles) = (0, None, 0u64);
        while line.bytes.len() < sent.len() {
            sim.set("given_valid", (given < sent.len()).into());
            sim.set("given", sent.get(given).copied().unwrap_or(0).into());
            if sim.get("given_ready") == 1 && given < sent.len() {
                given += 1;
                first.get_or_insert(cycles);
            }
            line.take(sim.get("tx") == 1);
            sim.tick();
            cycles += 1;
        }
        assert_eq!((line.bytes, line.broken), (sent.clone(), 0), "{cfg:?}");
        // A byte's stop bit lasts until a sample is due, and the next one's is counted from there.
        let most = (sent.len() as f64 * (10.0 * bit(&cfg) + 2.0)) as u64;
        assert!(cycles <= most, "{cycles} cycles, {most} at most: {cfg:?}");
    }
}

#[test]
fn a_break_is_one_broken_byte_and_a_glitch_is_none() {
    for cfg in rates() {
        let mut sim = sim(&cfg);
        let mut line = Driver::new(bit(&cfg));
        line.push_level(false, 45);
        line.push_level(true, 3);
        line.push(b"ok");
        let heard = hear(&mut sim, &mut line, 2 * cfg.byte_cycles() as usize);
        assert_eq!(heard, [(0, true), (b'o', false), (b'k', false)], "{cfg:?}");
        // A fourth of a bit.
        let mut line = Driver::new(bit(&cfg) / 4.0);
        line.push_level(false, 1);
        assert_eq!(hear(&mut sim, &mut line, 2 * cfg.byte_cycles() as usize), [], "{cfg:?}");
    }
}

#[test]
fn a_rate_that_the_clock_cannot_count_is_refused() {
    let refused = |clock_khz, baud| {
        SerialConfig { clock_khz, baud, ..SerialConfig::default() }.validate().unwrap_err().to_string()
    };
    assert!(refused(20_000, 3_000_000).contains("needs a clock of at least 24000 kHz"));
    assert!(refused(20_000, 300).contains("1200"));
}
