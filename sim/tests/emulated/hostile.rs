// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host that does not keep to the interface: whatever it writes, the card neither panics nor reaches what is not mapped, and works again after a reset.

use crate::tier::number;
use ferrowire::{AccessFlags, Bus, Completion, SendWr};
use ferrowire_sim::emulated::{EngineBus, EngineWorld};
use ferrowire_sim::pair::{post, Connection, Node, PairOptions};
use ferrowire_spec::csr::command_queue as csr;
use ferrowire_spec::queue::doorbell;
use ferrowire_spec::{Access, Register, ALL_BLOCKS};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use super::random::command;

const BYTES: usize = 1 << 15;

/// Garbage that the card may take for its queues, and what is beside it.
struct Host {
    bus: EngineBus,
    bases: Vec<u64>,
    memory: Vec<ferrowire::HostMemory>,
}

impl Host {
    fn new(mut bus: EngineBus, rng: &mut SmallRng) -> Self {
        let (mut bases, mut all) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            let buffer = bus.dma_alloc(BYTES, 4096).unwrap();
            let mut garbage = vec![0; BYTES];
            rng.fill_bytes(&mut garbage);
            buffer.memory().write(0, &garbage);
            bases.push(buffer.bus_address());
            all.push(buffer.memory().clone());
        }
        Self { bus, bases, memory: all }
    }

    /// Something that no driver does.
    fn act(&mut self, rng: &mut SmallRng) {
        let at = |register: &Register| csr::BLOCK.address(register);
        match rng.random_range(0..12) {
            // Rings somewhere, aligned or not, of any size, and as many commands as it likes to say.
            0 => {
                let base = match rng.random_range(0..4) {
                    0 => rng.random(),
                    _ => self.bases[rng.random_range(0..4)] + rng.random_range(0..3) * 7,
                };
                for (register, value) in [
                    (csr::CONTROL, 0),
                    (csr::CMDQ_BASE_LO, base as u32),
                    (csr::CMDQ_BASE_HI, (base >> 32) as u32),
                    (csr::CMDQ_LOG2, rng.random_range(0..256)),
                    (csr::COMPL_LOG2, rng.random_range(0..256)),
                    (csr::CONTROL, 1),
                ] {
                    self.bus.csr_write32(at(&register), value).unwrap();
                }
            }
            // Commands of which some make sense, in good rings.
            1..=4 => {
                let [commands, completions] = [self.bases[0], self.bases[1]];
                for _ in 0..20 {
                    self.memory[0].write(0, &command(rng, &self.bases[2..]));
                    for (register, value) in [
                        (csr::CONTROL, 0),
                        (csr::CMDQ_BASE_LO, commands as u32),
                        (csr::CMDQ_BASE_HI, (commands >> 32) as u32),
                        (csr::CMDQ_LOG2, 6),
                        (csr::COMPL_BASE_LO, completions as u32),
                        (csr::COMPL_BASE_HI, (completions >> 32) as u32),
                        (csr::COMPL_LOG2, 6),
                        (csr::CONTROL, 1),
                        (csr::CMDQ_PRODUCER, 1),
                    ] {
                        self.bus.csr_write32(at(&register), value).unwrap();
                    }
                }
            }
            5 => {
                let producer = rng.random_range(0..1 << 16);
                self.bus.csr_write32(at(&csr::CMDQ_PRODUCER), producer).unwrap();
            }
            // Doorbells, about what there may be, and words for pushed WQEs.
            6..=8 => {
                for _ in 0..20 {
                    let page = rng.random_range(0..5);
                    let offset = match rng.random_range(0..6) {
                        0 => rng.random_range(0..512) * 8,
                        _ => [doorbell::SQ, doorbell::RQ, doorbell::CQ, doorbell::EQ][rng.random_range(0..4)],
                    };
                    let number = rng.random_range(0..6) | u64::from(rng.random_bool(0.2)) << 24;
                    let producer = match rng.random_range(0..4) {
                        0 => rng.random(),
                        _ => rng.random_range(0..20),
                    };
                    let word = if rng.random_bool(0.1) { rng.random() } else { number | producer << 32 };
                    self.bus.doorbell(doorbell::address(page, offset), word).unwrap();
                }
            }
            9 => {
                let mut words = [0; 8];
                words.iter_mut().for_each(|word| *word = rng.random());
                let slot = doorbell::PUSH + 64 * rng.random_range(0..doorbell::PUSH_SLOTS);
                self.bus.push(doorbell::address(rng.random_range(0..4), slot), &words).unwrap();
                let word = 1 << 32 | 1 << 48 | rng.random_range(0..6);
                self.bus.doorbell(doorbell::address(0, doorbell::SQ), word).unwrap();
            }
            // Any register, and addresses where none is.
            10 => {
                let block = ALL_BLOCKS[rng.random_range(0..ALL_BLOCKS.len())];
                let register = &block.registers[rng.random_range(0..block.registers.len())];
                let writable = register.fields.iter().any(|field| field.access != Access::RO);
                let address = block.address(register) & !3;
                if writable && address != at(&csr::CONTROL) {
                    self.bus.csr_write32(address, rng.random()).unwrap();
                }
                let anywhere: u32 = rng.random_range(0..1 << 25);
                let (read, write) =
                    (self.bus.csr_read32(anywhere), self.bus.doorbell(anywhere, rng.random()));
                assert_eq!(read.is_ok(), anywhere < 1 << 24 && anywhere % 4 == 0);
                assert_eq!(write.is_ok(), anywhere < 1 << 24 && anywhere % 8 == 0);
            }
            // Other bytes where WQEs may be.
            _ => {
                let mut garbage = [0; 512];
                rng.fill_bytes(&mut garbage);
                let at = rng.random_range(0..BYTES - garbage.len());
                self.memory[rng.random_range(2..4)].write(at, &garbage);
            }
        }
        if rng.random_bool(0.5) {
            self.bus.progress().unwrap();
        }
    }
}

#[test]
fn whatever_a_host_writes_the_card_does_not_panic_and_works_after_a_reset() {
    let seed = std::env::var("FERROWIRE_SEED").ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = seed.map_or(0..number(10, 25), |seed| seed..seed + 1);
    for seed in seeds {
        println!("seed {seed}: FERROWIRE_SEED={seed} repeats it");
        let mut rng = SmallRng::seed_from_u64(seed);
        let world = EngineWorld::pair();
        // What lies between and behind the buffers is nobody's: the map has gaps there, and refuses.
        let mut hosts = [0, 1].map(|card| Host::new(world.bus(card), &mut rng));
        for _ in 0..300 {
            let host = rng.random_range(0..2);
            hosts[host].act(&mut rng);
        }
        // Whoever opens the cards next finds them as new.
        let [a, b] = [0, 1].map(|card| Node::open(world.bus(card), card, &PairOptions::default()).unwrap());
        let (mut qp, _peer) = a.connect(&b, &Connection::default()).unwrap();
        let from = a.region(0, 4096, AccessFlags::LOCAL_READ).unwrap();
        let to = b.region(0, 4096, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
        from.memory().fill(0, 4096, 0x5a);
        post(&mut qp, &[SendWr::write(1, &[from.sge(0, 4096)], to.remote(0)).signaled()]);
        let mut done = [Completion::default()];
        while a.cq.poll(&mut done).unwrap() == 0 {}
        assert!(done[0].is_success(), "seed {seed}: {done:?}");
        assert!(ferrowire_sim::pair::bytes(to.memory()).iter().all(|byte| *byte == 0x5a), "seed {seed}");
    }
}

/// Commands that cannot be read end in `fatal`, which a reset takes back.
#[test]
fn a_command_ring_that_is_not_there_is_fatal_until_a_reset() {
    let world = EngineWorld::new(1);
    let mut bus = world.bus(0);
    let at = |register: &Register| csr::BLOCK.address(register);
    let status = |bus: &mut EngineBus| bus.csr_read32(at(&csr::STATUS)).unwrap();
    bus.csr_write32(at(&csr::CMDQ_BASE_LO), 0x1000).unwrap();
    bus.csr_write32(at(&csr::CONTROL), 1).unwrap();
    assert_eq!(status(&mut bus), 1);
    bus.csr_write32(at(&csr::CMDQ_PRODUCER), 1).unwrap();
    assert_eq!(status(&mut bus), 0b11);
    bus.csr_write32(at(&csr::CONTROL), 0b10).unwrap();
    assert_eq!((status(&mut bus), bus.csr_read32(at(&csr::CONTROL)).unwrap()), (1, 0));
}
