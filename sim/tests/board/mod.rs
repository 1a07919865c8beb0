// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole boards in the simulator: cards with their serial lines and memory, driven through the pins by the driver's `SerialBus`.

mod command;
mod mapped;
mod pll;
mod rgmii;

use crate::few_tables;
use std::time::Duration;

use ferrowire::serial::{Patience, SerialBus};
use ferrowire::{Bus, Context, ContextOptions, TrafficCounter};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_serial::board::serial_card;
use ferrowire_serial::SerialConfig;
use ferrowire_sim::bus::{SharedWorld, World};
use ferrowire_sim::card::CardModel;
use ferrowire_sim::line::SerialLine;

const BASE: u64 = 0x10_0000;

/// Few tables, and as fast a line as its clock can hear: the card of `ferrowire-sim board` with these settings and this memory.
fn configs() -> (RnicConfig, SerialConfig) {
    let card = few_tables("axi-8b");
    let clock_khz = card.clock_khz;
    let (memory_bytes, memory_base) = (128 << 10, BASE);
    let serial = SerialConfig { clock_khz, baud: clock_khz * 125, memory_bytes, memory_base, beat_bytes: 8 };
    (card, serial)
}

fn model() -> CardModel {
    let (card, serial) = configs();
    CardModel::on_a_board(&card, &serial, false).unwrap()
}

fn bus(world: &SharedWorld, card: usize) -> SerialBus {
    let patience = Patience { wait: Duration::from_millis(2), tries: 3 };
    SerialBus::over(SerialLine::new(world.clone(), card), patience).unwrap()
}

#[test]
fn a_card_says_over_the_serial_line_what_it_is() {
    let world = World::single(&model(), 0).unwrap().share();
    let mut bus = bus(&world, 0);
    let hello = bus.hello();
    assert_eq!(
        (hello.memory_base, hello.memory_bytes, hello.clock_khz),
        (BASE, 128 << 10, configs().0.clock_khz)
    );
    assert_eq!(bus.card_cycles(), Ok(Some(world.lock().cycle())));
    let context =
        Context::open_with(bus, ContextOptions { seed: Some(1), ..ContextOptions::default() }).unwrap();
    let can = context.capabilities();
    assert_eq!((can.max_qp, can.max_cq, can.max_mr), (16, 8, 32));
    context.set_mac([2, 0xfe, 0, 0, 0, 9]).unwrap();
    assert_eq!(context.mac(), [2, 0xfe, 0, 0, 0, 9]);
    // A command goes to the card and comes back through on-board memory.
    let commands = context.traffic_counter(TrafficCounter::Commands).unwrap();
    let pd = context.alloc_pd().unwrap();
    assert_eq!(context.traffic_counter(TrafficCounter::Commands).unwrap(), commands + 1);
    drop(pd);
    assert!(!context.is_fatal().unwrap());
}

#[test]
fn the_board_with_its_card_lints_without_a_warning() {
    let (_, serial) = configs();
    let card = RnicConfig::named("axi-8b").unwrap();
    let netlist = serial_card(&card, &serial).unwrap();
    ferrowire_sim::lockstep::lint(&netlist).unwrap_or_else(|error| panic!("{error}"));
}
