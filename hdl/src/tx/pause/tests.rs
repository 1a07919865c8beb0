// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of random frames, against a model that counts quanta in fractions of a cycle.

use super::*;
use crate::testing::Random;
use ferrowire_rtl::{build, Bits, Sim};
use ferrowire_spec::wire::{Pause, Pfc};
use rand::Rng;

fn sim(beat_bytes: u32) -> Sim {
    let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-64b").unwrap() };
    let netlist = build("bench", |m| {
        let control = m.input_of("control", &FlowControl::of());
        let heard = m.input_of("heard", &MacControl::of());
        m.output("stands", &pause(m, &cfg, control, heard));
    });
    let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
    sim.reset();
    sim
}

fn set(sim: &mut Sim, pause: bool, pfc: u8, quantum: u32) {
    sim.set("control_pause", pause.into());
    sim.set("control_pfc", pfc.into());
    sim.set("control_quantum", quantum.into());
    (0..10).for_each(|_| sim.tick());
}

/// One cycle in which a frame is heard; gives who stands in it.
fn tell(sim: &mut Sim, kind: &str, fields: &[u8]) -> u8 {
    let mut bytes = [0; pfc::BYTES];
    bytes[..fields.len()].copy_from_slice(fields);
    sim.set_bits("heard_fields", &Bits::from_bytes(8 * pfc::BYTES as u32, &bytes));
    sim.set(&format!("heard_{kind}"), 1);
    let stands = step(sim);
    sim.set(&format!("heard_{kind}"), 0);
    sim.set_bits("heard_fields", &Bits::ones(8 * pfc::BYTES as u32));
    stands
}

fn tell_pause(sim: &mut Sim, time: u16) -> u8 {
    let mut bytes = [0; pause::BYTES];
    Pause::new(time).emit(&mut bytes).unwrap();
    tell(sim, "pause", &bytes)
}

fn tell_pfc(sim: &mut Sim, times: [Option<u16>; 8]) -> u8 {
    let mut bytes = [0; pfc::BYTES];
    Pfc::new(times).emit(&mut bytes).unwrap();
    tell(sim, "pfc", &bytes)
}

fn step(sim: &mut Sim) -> u8 {
    let stands = sim.get("stands") as u8;
    sim.tick();
    stands
}

/// Cycles until a frame shows.
const LATEST: u64 = 11;

/// Who stands when what was told shows.
fn settle(sim: &mut Sim) -> u8 {
    (0..LATEST).fold(0, |_, _| step(sim));
    step(sim)
}

/// For how many cycles the priority stands, from now on; it begins to within the latency.
fn stood(sim: &mut Sim, priority: u8, limit: u64) -> u64 {
    let mut waited = 0;
    while step(sim) >> priority & 1 == 0 {
        waited += 1;
        assert!(waited <= LATEST, "it does not stand");
    }
    let mut cycles = 1;
    while step(sim) >> priority & 1 == 1 {
        cycles += 1;
        assert!(cycles < limit, "it does not go on");
    }
    cycles
}

#[test]
fn a_pause_lasts_as_many_quanta_as_it_says_and_little_more() {
    for (beat_bytes, quantum, cycles) in [
        (64, 0, 1.0),
        (8, 0, 8.0),
        (64, 328, 328.0 / 256.0),
        (8, 819, 819.0 / 256.0),
        (64, 0xff, 1.0),
        (8, 0x8000, 128.0),
    ] {
        let mut sim = sim(beat_bytes);
        set(&mut sim, true, 0, quantum);
        for time in [1u16, 2, 3, 7, 8, 9, 30, 100, 1000] {
            assert_eq!(tell_pause(&mut sim, time), 0);
            let least = f64::from(time) * cycles;
            let got = stood(&mut sim, 7, 2 * least as u64 + 1000) as f64;
            assert!(got >= least && got <= least + cycles + 9.0, "{time} quanta of {cycles}: {got} cycles");
        }
    }
}

#[test]
fn the_longest_pause_ends_and_time_zero_ends_it_at_once() {
    let mut sim = sim(64);
    set(&mut sim, true, 0xff, 0);
    tell_pause(&mut sim, u16::MAX);
    let got = stood(&mut sim, 0, 70_000);
    assert!((65_535..65_550).contains(&got), "{got}");
    tell_pause(&mut sim, u16::MAX);
    assert_eq!(settle(&mut sim), 0xff);
    tell_pause(&mut sim, 0);
    assert_eq!(settle(&mut sim), 0);
}

#[test]
fn what_is_not_obeyed_has_no_effect_and_what_is_no_more_is_let_go() {
    let mut sim = sim(8);
    set(&mut sim, false, 0, 0);
    tell_pause(&mut sim, 100);
    tell_pfc(&mut sim, [Some(100); 8]);
    assert_eq!(settle(&mut sim), 0);
    set(&mut sim, false, 0b1010_0001, 0);
    tell_pause(&mut sim, 0xffff);
    assert_eq!(settle(&mut sim), 0);
    tell_pfc(&mut sim, [Some(0xffff); 8]);
    assert_eq!(settle(&mut sim), 0b1010_0001);
    set(&mut sim, false, 0b1000_0000, 0);
    assert_eq!(settle(&mut sim), 0b1000_0000);
    set(&mut sim, true, 0xff, 0);
    tell_pfc(&mut sim, [Some(0xffff); 8]);
    assert_eq!(settle(&mut sim), 0);
    tell_pause(&mut sim, 0xffff);
    assert_eq!(settle(&mut sim), 0xff);
    set(&mut sim, false, 0, 0);
    assert_eq!(settle(&mut sim), 0);
}

#[test]
fn random_pfc_frames_hold_each_priority_until_its_newest_time_is_over() {
    let mut random = Random::new(11);
    for (beat_bytes, quantum, cycles) in [(64, 0, 1.0), (64, 328, 328.0 / 256.0), (8, 0, 8.0)] {
        let mut sim = sim(beat_bytes);
        set(&mut sim, false, 0xff, quantum);
        // The cycle in which each was told, and for how long.
        let mut told: [(u64, f64); 8] = [(0, 0.0); 8];
        // The longest of what was told before within the latency: either may show.
        let mut before: [u64; 8] = [0; 8];
        for now in 100..40_000u64 {
            let stands = if random.chance(0.02) {
                let times: [Option<u16>; 8] = std::array::from_fn(|_| {
                    random.chance(0.4).then(|| {
                        if random.chance(0.2) {
                            0
                        } else {
                            random.rng.random_range(1..300)
                        }
                    })
                });
                let stands = tell_pfc(&mut sim, times);
                for (i, time) in times.iter().enumerate() {
                    if let Some(time) = time {
                        before[i] = now + LATEST;
                        told[i] = (now, f64::from(*time) * cycles);
                    }
                }
                stands
            } else {
                step(&mut sim)
            };
            for (i, (at, least)) in told.iter().enumerate() {
                let (is, since) = (stands >> i & 1 == 1, (now - at) as f64);
                if before[i] >= now || *at == 0 {
                    continue;
                }
                let must = *least > 0.0 && since <= *least;
                let may = *least > 0.0 && since <= least + cycles + 9.0 + LATEST as f64;
                assert!(is || !must, "seed {}, cycle {now}: {i} goes on {since} after {least}", random.seed);
                assert!(!is || may, "seed {}, cycle {now}: {i} stands {since} after {least}", random.seed);
            }
        }
    }
}
