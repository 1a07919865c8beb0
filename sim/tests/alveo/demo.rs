// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two U50s on a wire: all logic of each, with PCIe's streams in one clock and the Ethernet block's in another, and the driver above. The block's model looks for gaps in each cycle.

use ferrowire::{AccessFlags, Completion, MemoryRegion, SendWr, TrafficCounter};
use ferrowire_sim::bus::World;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::pair::{bytes, post, Connection, Node, Pair, PairOptions};
use ferrowire_spec::csr::port;
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

use super::shell;

fn pair() -> Pair {
    let shell = shell("u50");
    let netlist = shell.without_blocks().unwrap_or_else(|errors| panic!("{errors}"));
    let model = CardModel::on_an_alveo(&netlist, shell.card(), false).unwrap();
    assert!(model.has_cmac() && model.has_pcie());
    let world = World::pair(&model, 100, 50).unwrap().share();
    let pair = Pair::of(world, &PairOptions::default()).unwrap();
    // Until the link is up nothing is sent.
    pair.world.lock().run(1000);
    pair
}

/// Registered memory of both hosts, with random bytes.
fn regions(pair: &Pair, n: usize, seed: u64) -> [MemoryRegion; 2] {
    let mut rng = SmallRng::seed_from_u64(seed);
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE;
    [&pair.a, &pair.b].map(|node| {
        let region = node.region(0x111, n, access).unwrap();
        let mut data = vec![0; n];
        rng.fill_bytes(&mut data);
        region.memory().write(0, &data);
        region
    })
}

#[test]
fn writes_reads_and_sends_pass_between_two_cards() {
    let pair = pair();
    let (mut a, _b) = pair
        .connect(&Connection { access: AccessFlags::REMOTE, rd_atomic: 8, ..Connection::default() })
        .unwrap();
    let regions = regions(&pair, 200_000, 11);
    let (mut own, mut peers) = (bytes(regions[0].memory()), bytes(regions[1].memory()));
    let mut run = |wr: SendWr<'_>| {
        post(&mut a, &[wr.signaled()]);
        let done = pair.a.wait(&pair.world, 1, 2_000_000).unwrap();
        assert!(done.iter().all(Completion::is_success), "{done:?}{}", pair.diagnose());
    };
    let from = pair.world.lock().cycle();
    run(SendWr::write(1, &[regions[0].sge(5, 150_000)], regions[1].remote(777)));
    let cycles = pair.world.lock().cycle() - from;
    peers[777..150_777].copy_from_slice(&own[5..150_005]);
    assert!(bytes(regions[1].memory()) == peers, "what was written");
    run(SendWr::read(2, &[regions[0].sge(100_000, 60_001)], regions[1].remote(20_003)));
    own[100_000..160_001].copy_from_slice(&peers[20_003..80_004]);
    assert!(bytes(regions[0].memory()) == own, "what was read");
    for length in [1, 20, 64, 1500] {
        run(SendWr::write(3, &[regions[0].sge(0, length)], regions[1].remote(9)));
        let length = length as usize;
        peers[9..9 + length].copy_from_slice(&own[..length]);
    }
    assert!(bytes(regions[1].memory()) == peers, "what was written last");

    pair.world.lock().check().unwrap();
    // No frame was lost between the two. A counter may lag by 192 cycles.
    pair.world.lock().run(200);
    let read = |node: &Node, counter| node.context.traffic_counter(counter).unwrap();
    for (from, to) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
        let sent = read(from, TrafficCounter::TxFrames);
        assert!(sent > 40 && read(to, TrafficCounter::RxFrames) == sent, "{sent}");
    }
    println!(
        "150,000 bytes written in {cycles} cycles of 250 MHz: {:.1} Gb/s",
        150_000.0 * 8.0 / (cycles as f64 * 4.0)
    );
}

/// Frames are cut, and lost while there is no link; the transport sends them again.
#[test]
fn a_link_that_goes_down_for_a_while_costs_time_and_no_byte() {
    let pair = pair();
    let connection = Connection { access: AccessFlags::REMOTE, timeout: 4, ..Connection::default() };
    let (mut a, _b) = pair.connect(&connection).unwrap();
    let regions = regions(&pair, 60_000, 12);
    let (own, mut peers) = (bytes(regions[0].memory()), bytes(regions[1].memory()));
    post(&mut a, &[SendWr::write(1, &[regions[0].sge(0, 60_000)], regions[1].remote(0)).signaled()]);
    let link = |card| pair.bus(card).csr_read32(port::BLOCK.address(&port::LINK)).unwrap();
    for (card, at) in [(1, 900), (0, 15_000)] {
        pair.world.lock().run(at);
        pair.world.lock().card_mut(card).set_link(false);
        pair.world.lock().run(2_000);
        assert_eq!(link(card), 0, "down, without a speed");
        pair.world.lock().card_mut(card).set_link(true);
    }
    let done = pair.a.wait(&pair.world, 1, 20_000_000).unwrap();
    assert!(done.iter().all(Completion::is_success), "{done:?}{}", pair.diagnose());
    peers.copy_from_slice(&own);
    assert!(bytes(regions[1].memory()) == peers, "what was written");
    assert_eq!([link(0), link(1)], [1000 << 16 | 1; 2], "up, at a thousand times 100 Mb/s");
    pair.world.lock().check().unwrap();
    // Something was lost, or nothing was shown.
    let read = |node: &Node, counter| node.context.traffic_counter(counter).unwrap();
    assert!(read(&pair.a, TrafficCounter::TxFrames) > read(&pair.b, TrafficCounter::RxFrames));
}
