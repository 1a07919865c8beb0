// SPDX-License-Identifier: MIT OR Apache-2.0
//! A driver that finds a card at work for a process that has died, gives it a command queue of its own, and takes everything back by `RESET_ALL`.

use super::*;
use ferrowire::HostMemory;
use ferrowire_spec::queue::command::{self, Command};
use ferrowire_spec::queue::command_completion::{self, CommandCompletion};
use ferrowire_spec::queue::{CommandOpcode, CommandStatus};

/// Entries of the rings.
const LOG2: u32 = 5;
const PAGE: usize = 4096;

fn write(world: &SharedWorld, card: usize, register: &ferrowire_spec::Register, data: u64) {
    let address = command_queue::BLOCK.address(register);
    world.lock().access(card, CsrAccess { address, write: true, wide: false, data }).unwrap();
}

/// The command queue of whoever comes behind the one that died.
struct Commands {
    world: SharedWorld,
    card: usize,
    /// A page of commands, and one of completions.
    memory: HostMemory,
    producer: u16,
}

impl Commands {
    /// Takes the card over as it is.
    fn take_over(world: &SharedWorld, card: usize) -> Self {
        use command_queue::*;
        let memory = HostMemory::zeroed(2 * PAGE, PAGE).unwrap();
        let pages = world.lock().card_mut(card).host_mut().dma_map(&memory, 12).unwrap().pages;
        for (register, value) in [
            (&CONTROL, 0),
            (&CMDQ_BASE_LO, pages[0] & 0xffff_ffff),
            (&CMDQ_BASE_HI, pages[0] >> 32),
            (&CMDQ_LOG2, LOG2.into()),
            (&COMPL_BASE_LO, pages[1] & 0xffff_ffff),
            (&COMPL_BASE_HI, pages[1] >> 32),
            (&COMPL_LOG2, LOG2.into()),
            (&CONTROL, 1),
        ] {
            write(world, card, register, value);
        }
        Self { world: world.clone(), card, memory, producer: 0 }
    }

    /// Gives a command, and does not wait for it.
    fn begin(&mut self, opcode: CommandOpcode, object: u32) {
        assert!(self.producer < 1 << LOG2, "in its first pass the phase is 1");
        let command = Command { opcode: opcode.code(), token: self.producer, object, ..Command::default() };
        let at = usize::from(self.producer) * command::BYTES;
        self.memory.write(at, &command.to_bytes().unwrap());
        self.producer += 1;
        write(&self.world, self.card, &command_queue::CMDQ_PRODUCER, self.producer.into());
    }

    /// The completion of the last command.
    fn completion(&self) -> Option<CommandCompletion> {
        let mut bytes = [0; command_completion::BYTES];
        let slot = usize::from(self.producer - 1);
        self.memory.read(PAGE + slot * command_completion::BYTES, &mut bytes);
        let phase = command_completion::PHASE.offset;
        let there = bytes[usize::from(phase / 8)] >> (phase % 8) & 1 == 1;
        there.then(|| CommandCompletion::parse(&bytes).unwrap())
    }

    /// Gives a command; what became of it, in the cycle in which its completion is there.
    fn give(&mut self, opcode: CommandOpcode, object: u32) -> CommandStatus {
        self.begin(opcode, object);
        for _ in 0..LIMIT {
            if let Some(completion) = self.completion() {
                assert_eq!(completion.token, self.producer - 1);
                return CommandStatus::from_code(completion.status).expect("a status");
            }
            self.world.lock().step();
        }
        panic!("card {}: {opcode:?} has no completion", self.card)
    }
}

/// Nothing that a card has begun is without its end.
fn nothing_under_way(world: &SharedWorld, card: usize) {
    let world = world.lock();
    let card = world.card(card);
    match card.root() {
        Some(root) => assert!(root.idle(), "a request is under way"),
        None => assert!(!card.host().busy(), "a read or a write is under way"),
    }
}

/// Takes everything back in the middle of everything.
fn reclaim(world: &SharedWorld, card: usize) {
    let mut commands = Commands::take_over(world, card);
    assert_eq!(commands.give(CommandOpcode::ResetAll, 0), CommandStatus::Ok, "card {card}");
    nothing_under_way(world, card);
    nothing_of_a_former_life(world, &[card]);
    assert_eq!(
        read(world, card, command_queue::BLOCK.address(&command_queue::CONTROL)),
        1,
        "enabled, and no reset"
    );
    // Its objects are gone, and it takes commands.
    let mut commands = Commands::take_over(world, card);
    for qpn in 0..16 {
        assert_eq!(commands.give(CommandOpcode::QueryQp, qpn), CommandStatus::BadObject, "{qpn}");
    }
    for (opcode, status) in [
        (CommandOpcode::AllocPd, CommandStatus::Ok),
        (CommandOpcode::AllocPd, CommandStatus::BadObject),
        (CommandOpcode::ResetAll, CommandStatus::Ok),
        (CommandOpcode::AllocPd, CommandStatus::Ok),
    ] {
        assert_eq!(commands.give(opcode, 1), status, "{opcode:?}");
    }
}

/// A reset by the register while everything is being taken back: when it is done, not even the command's completion comes.
fn reset_meanwhile(world: &SharedWorld, card: usize, rng: &mut SmallRng) {
    let mut commands = Commands::take_over(world, card);
    commands.begin(CommandOpcode::ResetAll, 0);
    let moment = rng.random_range(0..1200);
    world.lock().run(moment);
    reset(world, card, Way::Register);
    nothing_under_way(world, card);
    nothing_of_a_former_life(world, &[card]);
    assert_eq!(read(world, card, command_queue::BLOCK.address(&command_queue::CMDQ_CONSUMER)), 0);
}

fn lives(config: &RnicConfig, seed: u64, count: usize) {
    println!("seed {seed}, {} bytes a beat, {} tags", config.beat_bytes, config.pcie_tags);
    let mut rng = SmallRng::seed_from_u64(seed);
    let latency = [0, 100, 1500][rng.random_range(0..3)];
    let root = RootSettings { latency, ..RootSettings::random(seed) };
    let model = CardModel::rnic(config, false).unwrap().with_root(root);
    let world = World::pair(&model, latency, rng.random_range(0..50)).unwrap().share();
    for life in 0..count {
        let mut own = Life::begin(&world, &mut rng);
        own.works(&mut rng);
        own.work_hard(&mut rng);
        let moment = rng.random_range(0..6000);
        world.lock().run(moment);
        let (first, interrupted) = (rng.random_range(0..2), rng.random_bool(0.3));
        println!("life {life}: card {first}, {moment} cycles, reset meanwhile: {interrupted}");
        // The other one goes on meanwhile.
        for card in [first, 1 - first] {
            match interrupted {
                true => reset_meanwhile(&world, card, &mut rng),
                false => reclaim(&world, card),
            }
        }
        nothing_of_a_former_life(&world, &[0, 1]);
        own.dies();
    }
    Life::begin(&world, &mut rng).works(&mut rng);
}

#[test]
fn what_a_dead_process_left_is_taken_back_when_nothing_of_it_is_under_way() {
    each(&["generic-8b", "generic-64b"], |config, seed| lives(config, seed, tier::number(2, 8)));
}

#[test]
fn over_pcie_too() {
    each(&["pcie-8b", "pcie-64b", "pcie4-64b"], |config, seed| lives(config, seed, tier::number(2, 8)));
}
