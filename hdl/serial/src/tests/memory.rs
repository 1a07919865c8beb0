// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory, alone and behind the interconnect, before managers that do what they like.

use crate::manager::{Held, Manager};
use crate::{interconnect, memory, SerialConfig};
use ferrowire_rtl::{build, Sim};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const BYTES: u64 = 8192;
const BASE: u64 = 0x4000;

fn config() -> SerialConfig {
    SerialConfig { memory_bytes: BYTES, memory_base: BASE, ..SerialConfig::default() }
}

fn run(sim: &mut Sim, managers: &mut [Manager], ids: u64, seed: u64, operations: u64) -> u64 {
    let mut rng = SmallRng::seed_from_u64(seed);
    let prefixes: Vec<String> = managers.iter().map(|manager| manager.prefix().to_string()).collect();
    let prefixes: Vec<&str> = prefixes.iter().map(String::as_str).collect();
    let mut held = Held::default();
    for cycle in 0..400_000 {
        if managers.iter().all(|manager| manager.done >= operations) {
            return cycle;
        }
        for manager in managers.iter_mut() {
            if rng.random_bool(0.5) {
                manager.begin(&mut rng, ids);
            }
            manager.drive(sim, &mut rng);
        }
        held.judge(sim, &prefixes);
        managers.iter_mut().for_each(|manager| manager.take(sim));
        sim.tick();
    }
    panic!("seed {seed}: it does not end");
}

#[test]
fn memory_has_what_was_written_and_answers_in_order_with_the_right_ids() {
    let netlist = memory::engine(&config(), 3).unwrap();
    for seed in 0..12 {
        let mut sim = Sim::new(&netlist);
        sim.reset();
        let stall = [0.0, 0.2, 0.6][seed as usize % 3];
        let mut managers = [Manager::new("s_axi_", BASE..BASE + BYTES, BASE + BYTES, stall)];
        run(&mut sim, &mut managers, 8, seed, 400);
    }
}

#[test]
fn memory_takes_and_gives_a_beat_a_cycle() {
    let netlist = memory::engine(&config(), 3).unwrap();
    for write in [true, false] {
        let mut sim = Sim::new(&netlist);
        sim.reset();
        let address = if write { "aw" } else { "ar" };
        sim.set(&format!("s_axi_{address}addr"), BASE);
        sim.set(&format!("s_axi_{address}len"), 63);
        sim.set(&format!("s_axi_{address}valid"), 1);
        sim.set("s_axi_wstrb", 0xff);
        ["s_axi_bready", "s_axi_rready"].iter().for_each(|ready| sim.set(ready, 1));
        let (mut beats, mut cycles, mut first) = (0, 0, None);
        while beats < 64 {
            sim.set("s_axi_wvalid", 1);
            sim.set("s_axi_wlast", u64::from(beats == 63));
            let passes = if write { "s_axi_wready" } else { "s_axi_rvalid" };
            if sim.get(passes) == 1 {
                beats += 1;
                first.get_or_insert(cycles);
            }
            sim.tick();
            sim.set(&format!("s_axi_{address}valid"), 0);
            cycles += 1;
        }
        assert_eq!((first, cycles), (Some(if write { 1 } else { 3 }), if write { 65 } else { 67 }));
    }
}

/// The interconnect and memory behind it.
fn joined() -> ferrowire_rtl::Netlist {
    build("joined", |m| {
        let cfg = config();
        let managers = [0, 1].map(|k| crate::axi::subordinate_in(m, &format!("s{k}_axi_"), 2, 8));
        let (b, later_b) = m.later("b", &crate::axi::response(3));
        let (r, later_r) = m.later("r", &crate::axi::read_beat(3, 8));
        let answers = crate::axi::Answers { b, r };
        let (requests, [first, second]) = interconnect::interconnect(m, managers, answers);
        let (answers, wrote) = memory::memory(m, &cfg, requests);
        m.output("wrote", &wrote);
        later_b.connect(answers.b);
        later_r.connect(answers.r);
        crate::axi::subordinate_out(m, "s0_axi_", first);
        crate::axi::subordinate_out(m, "s1_axi_", second);
    })
    .unwrap()
}

#[test]
fn two_managers_share_memory_and_each_gets_its_own_answers() {
    let netlist = joined();
    for seed in 0..12 {
        let mut sim = Sim::new(&netlist);
        sim.reset();
        let stalls = [(0.0, 0.0), (0.3, 0.0), (0.0, 0.5), (0.6, 0.6)][seed as usize % 4];
        let half = BASE + BYTES / 2;
        let mut managers = [
            Manager::new("s0_axi_", BASE..half, BASE + BYTES, stalls.0),
            Manager::new("s1_axi_", half..BASE + BYTES, BASE + BYTES, stalls.1),
        ];
        run(&mut sim, &mut managers, 4, seed, 300);
    }
}

#[test]
fn a_manager_waits_for_one_burst_of_the_other_at_most() {
    // The first never pauses; the second has its turn all the same.
    let netlist = joined();
    let mut sim = Sim::new(&netlist);
    sim.reset();
    let half = BASE + BYTES / 2;
    let mut managers = [
        Manager::new("s0_axi_", BASE..half, BASE + BYTES, 0.0),
        Manager::new("s1_axi_", half..BASE + BYTES, BASE + BYTES, 0.0),
    ];
    run(&mut sim, &mut managers, 4, 99, 500);
    let [first, second] = &managers;
    assert!(
        first.done < 2 * second.done && second.done < 2 * first.done,
        "{} and {}",
        first.done,
        second.done
    );
}

#[test]
fn a_read_that_meets_writes_of_its_word_sees_one_of_them_whole() {
    let netlist = memory::engine(&config(), 3).unwrap();
    let mut sim = Sim::new(&netlist);
    sim.reset();
    let mut rng = SmallRng::seed_from_u64(5);
    ["s_axi_bready", "s_axi_awvalid", "s_axi_arvalid", "s_axi_wvalid"]
        .iter()
        .for_each(|port| sim.set(port, 1));
    sim.set("s_axi_awaddr", BASE + 64);
    sim.set("s_axi_araddr", BASE + 64);
    sim.set("s_axi_wlast", 1);
    sim.set("s_axi_wstrb", 0xff);
    // All words have eight equal bytes and the next is one more: what is read never goes back.
    let (mut written, mut seen, mut reads, mut data) = (0u64, 0u64, 0, 1u64);
    for _ in 0..20_000 {
        sim.set("s_axi_wdata", data * 0x0101_0101_0101_0101);
        sim.set("s_axi_rready", rng.random_bool(0.8).into());
        if sim.get("s_axi_rvalid") == 1 && sim.get("s_axi_rready") == 1 {
            let word = sim.get("s_axi_rdata");
            assert_eq!(word, (word & 0xff) * 0x0101_0101_0101_0101, "a word of two writes");
            // Of the words that were written since the last read, or the same.
            assert!(
                (word & 0xff).wrapping_sub(seen) & 0xff <= written.wrapping_sub(seen) & 0xff,
                "{word:#x}"
            );
            (seen, reads) = (word & 0xff, reads + 1);
        }
        let writes = sim.get("s_axi_wready") == 1;
        sim.tick();
        if writes {
            (written, data) = (data, (data + 1) & 0xff);
        }
    }
    assert!(reads > 3000, "{reads} reads");
}
