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
        let (mut card, mut engine) = (Queue::new(world.bus(0)), Queue::new(EngineWorld::new(1).bus(0)));
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
