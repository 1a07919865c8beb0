// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands without the driver: an emulated card answers them as a Verilated one does.

use std::collections::BTreeMap;

use crate::tier::number;
use ferrowire::Bus;
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::bus::World;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::emulated::EngineWorld;
use ferrowire_spec::qp_state::RAW_QPN;
use ferrowire_spec::queue::command::Command;
use ferrowire_spec::queue::{CommandCompletion, CommandOpcode, CommandStatus};
use ferrowire_spec::QpState;
use rand::rngs::SmallRng;
use rand::SeedableRng;

use super::random::{command, Queue};

/// What a completion says. Of raw Ethernet, and of a queue pair in error that it never got, PSNs mean nothing (host interface, draining a send queue).
fn said(command: &Command, completion: CommandCompletion) -> CommandCompletion {
    let (state, error) = (completion.value & 7, u64::from(QpState::Err.code()));
    let bare =
        command.opcode == CommandOpcode::QueryQp.code() && (command.object == RAW_QPN || state == error);
    CommandCompletion { value: if bare { state } else { completion.value }, ..completion }
}

/// Status, attribute and value of each, of thousands: also what is refused for several reasons at once.
#[test]
fn both_kinds_of_card_answer_random_commands_alike() {
    const COMMANDS: usize = 6_000;
    let model = CardModel::rnic(&RnicConfig::named("generic-8b").unwrap(), false).unwrap();
    let mut ended: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 1..number(2, 4) {
        let world = World::single(&model, 0).unwrap().share();
        let emulated = EngineWorld::new(1);
        emulated.leave_out_selective();
        let (mut card, mut engine) = (Queue::new(world.bus(0)), Queue::new(emulated.bus(0)));
        let memory = |bus: &mut dyn Bus| {
            let buffer = bus.dma_alloc(1 << 16, 4096).unwrap();
            // Pages that every size has.
            (0..512).for_each(|entry| buffer.memory().store_word(8 * entry, (1 + entry as u64) << 30));
            buffer.bus_address()
        };
        let bases = [memory(&mut card.bus), memory(&mut card.bus)];
        assert_eq!(bases, [memory(&mut engine.bus), memory(&mut engine.bus)], "the same addresses");
        let mut rng = SmallRng::seed_from_u64(seed);
        for nth in 0..COMMANDS {
            let bytes = command(&mut rng, &bases);
            let head = Command::parse(&bytes).unwrap();
            let (wanted, found) = (said(&head, card.give(&bytes)), said(&head, engine.give(&bytes)));
            let opcode = CommandOpcode::from_code(head.opcode);
            assert_eq!(
                found, wanted,
                "seed {seed}, command {nth}: {opcode:?} of {:#x}: {bytes:x?}",
                head.object
            );
            let status = CommandStatus::from_code(found.status).unwrap();
            *ended.entry(format!("{opcode:?} {status}")).or_default() += 1;
        }
    }
    println!("{ended:?}");
    for opcode in CommandOpcode::ALL {
        let well = format!("{:?} {}", Some(opcode), CommandStatus::Ok);
        assert!(ended.contains_key(&well), "no {opcode} went well");
    }
}

/// A program may post a whole ring of commands at once. Other cards of the same process have their turns between them.
#[test]
fn many_commands_are_carried_out_some_at_a_time_and_in_order() {
    const AT_ONCE: usize = 4;
    const COMMANDS: u32 = 4 * AT_ONCE as u32 + 3;
    let mut queue = Queue::new(EngineWorld::new(1).bus(0));
    let alloc = |object: u32| {
        let opcode = CommandOpcode::AllocPd.code();
        Command { opcode, token: 100 + object as u16, object, ..Command::default() }.to_bytes().unwrap()
    };
    let all: Vec<_> = (1..=COMMANDS).map(alloc).collect();
    let start = queue.bus.now();
    queue.post(&all);
    assert_eq!(queue.completed().len(), AT_ONCE);
    (0..9).for_each(|_| queue.ring());
    assert_eq!(queue.completed().len(), AT_ONCE, "writing the register again gets no more done");
    let mut done = AT_ONCE;
    for _ in 0..1000 {
        queue.bus.progress().unwrap();
        let now = queue.completed().len();
        assert!(now - done <= AT_ONCE, "{done} and then {now}");
        done = now;
    }
    let ended = queue.completed();
    let tokens: Vec<u16> = ended.iter().map(|entry| entry.token).collect();
    assert_eq!(tokens, (101..=100 + COMMANDS as u16).collect::<Vec<_>>());
    assert!(ended.iter().all(|entry| entry.status == CommandStatus::Ok.code()));
    assert!(queue.bus.now() - start >= std::time::Duration::from_micros(40));
    // A reset in the middle forgets those that are left.
    let mut queue = Queue::new(EngineWorld::new(1).bus(0));
    queue.post(&all);
    let control =
        ferrowire_spec::csr::command_queue::BLOCK.address(&ferrowire_spec::csr::command_queue::CONTROL);
    queue.bus.csr_write32(control, 0).unwrap();
    (0..1000).for_each(|_| queue.bus.progress().unwrap());
    assert_eq!(queue.completed().len(), AT_ONCE);
}
