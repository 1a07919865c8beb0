// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole boards in the simulator: cards with their serial lines and memory, driven through the pins by the driver's `SerialBus`.

mod command;
mod mapped;
mod pll;
mod rgmii;

use crate::few_tables;
use std::time::Duration;

use ferrowire::serial::{Patience, SerialBus};
use ferrowire::{
    AccessFlags, Bus, Completion, Context, ContextOptions, MemoryRegion, PathMtu, QueuePair, RecvWr, SendWr,
    TrafficCounter,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_serial::board::serial_card;
use ferrowire_serial::SerialConfig;
use ferrowire_sim::bus::{SharedWorld, World};
use ferrowire_sim::card::CardModel;
use ferrowire_sim::line::SerialLine;
use ferrowire_sim::pair::{bytes, post, Connection, Pair, PairOptions};
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

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

/// Memory with random bytes at an odd place, carried to the board before a peer is told of it.
fn region(node: &ferrowire_sim::pair::Node, n: usize, rng: &mut SmallRng) -> MemoryRegion {
    let region = node.region(0x358, n, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE).unwrap();
    let mut data = vec![0; n];
    rng.fill_bytes(&mut data);
    region.memory().write(0, &data);
    node.context.progress().unwrap();
    region
}

fn same(what: &str, region: &MemoryRegion, wanted: &[u8]) {
    let now = bytes(region.memory());
    let wrong: Vec<usize> = (0..now.len()).filter(|i| now[*i] != wanted[*i]).collect();
    assert!(
        wrong.is_empty(),
        "{what}: {} bytes from {:?} to {:?} are others",
        wrong.len(),
        wrong.first(),
        wrong.last()
    );
}

fn complete(pair: &Pair, qp: &mut QueuePair, wr: SendWr<'_>) {
    post(qp, &[wr.signaled()]);
    let done = pair.a.wait(&pair.world, 1, 4_000_000).unwrap();
    assert!(done.iter().all(Completion::is_success), "{done:?}{}", pair.diagnose());
}

#[test]
fn two_boards_write_read_and_send_over_their_wire() {
    let world = World::pair(&model(), 0, 20).unwrap().share();
    let buses = (bus(&world, 0), bus(&world, 1));
    let pair = Pair::over(world, buses, &PairOptions { cq_entries: 16, ..PairOptions::default() }).unwrap();
    let connection = Connection {
        mtu: PathMtu::B256,
        access: AccessFlags::REMOTE,
        rd_atomic: 4,
        send_wr: 8,
        recv_wr: 8,
        timeout: 18,
        ..Connection::default()
    };
    let (mut a, mut b) = pair.connect(&connection).unwrap();
    let mut rng = SmallRng::seed_from_u64(5);
    let n = 750;
    let (source, target) = (region(&pair.a, n, &mut rng), region(&pair.b, n, &mut rng));
    let (mut own, mut peers) = (bytes(source.memory()), bytes(target.memory()));

    // A WRITE of several packets, whose bytes are compared in the memory of the other program.
    complete(&pair, &mut a, SendWr::write(1, &[source.sge(3, 550)], target.remote(175)));
    peers[175..725].copy_from_slice(&own[3..553]);
    pair.b.context.progress().unwrap();
    same("what was written", &target, &peers);

    // The other program writes, and what it has written is READ. It rings no doorbell, so it says so.
    target.memory().write(100, &[0x77; 75]);
    peers[100..175].fill(0x77);
    pair.b.context.progress().unwrap();
    complete(&pair, &mut a, SendWr::read(2, &[source.sge(300, 375)], target.remote(90)));
    own[300..675].copy_from_slice(&peers[90..465]);
    same("what was read", &source, &own);

    // A message, whose receive completes behind its data.
    let sge = [target.sge(500, 250)];
    let mut receives = b.start_post_recv();
    receives.post(&RecvWr::new(7, &sge)).unwrap();
    receives.ring().unwrap();
    complete(&pair, &mut a, SendWr::send(3, &[source.sge(0, 194)]));
    let done = pair.b.wait(&pair.world, 1, 4_000_000).unwrap();
    assert_eq!((done[0].wr_id, done[0].byte_len, done[0].is_success()), (7, 194, true));
    peers[500..694].copy_from_slice(&own[..194]);
    same("what was received", &target, &peers);

    // An atomic in memory that the card alone has changed since.
    complete(&pair, &mut a, SendWr::fetch_add(4, &[source.sge(8, 8)], target.remote(8), 5));
    let before = u64::from_le_bytes(peers[8..16].try_into().unwrap());
    pair.b.context.progress().unwrap();
    assert_eq!(bytes(target.memory())[8..16], before.wrapping_add(5).to_le_bytes());
    assert_eq!(bytes(source.memory())[8..16], before.to_le_bytes());

    for node in [&pair.a, &pair.b] {
        let read = |counter| node.context.traffic_counter(counter).unwrap();
        assert_eq!((read(TrafficCounter::AxiReadErrors), read(TrafficCounter::AxiWriteErrors)), (0, 0));
    }
    println!("{} cycles", pair.world.lock().cycle());
}

#[test]
fn the_board_with_its_card_lints_without_a_warning() {
    let (_, serial) = configs();
    let card = RnicConfig::named("axi-8b").unwrap();
    let netlist = serial_card(&card, &serial).unwrap();
    ferrowire_sim::lockstep::lint(&netlist).unwrap_or_else(|error| panic!("{error}"));
}
