// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loopback: frames to the card's own MAC address return inside the card.

use ferrowire::{AccessFlags, Completion, RemoteAddress, SendWr, TrafficCounter};
use ferrowire_sim::pair::{bytes, post, Connection, Pair, PairOptions};

const CONFIGS: [&str; 3] = ["generic-8b", "generic-64b", "emulated"];
const LIMIT: u64 = 400_000;

fn pair(config: &str) -> Pair {
    Pair::named(config, &PairOptions::default()).unwrap()
}

fn traffic(node: &ferrowire_sim::pair::Node, counter: TrafficCounter) -> u64 {
    node.context.traffic_counter(counter).unwrap()
}

#[test]
fn two_queue_pairs_of_one_card_write_to_each_other() {
    for config in CONFIGS {
        let pair = pair(config);
        let node = &pair.a;
        let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_ATOMIC;
        let (mut one, _two) = node.connect(node, &Connection { access, ..Connection::default() }).unwrap();
        let from = node.region(3, 10_000, AccessFlags::LOCAL_READ).unwrap();
        let to = node.region(5, 10_000, AccessFlags::LOCAL_WRITE | access).unwrap();
        from.memory().fill(0, 10_000, 0x5a);
        let remote = RemoteAddress { address: to.address(), rkey: to.rkey() };
        post(&mut one, &[SendWr::write(1, &[from.sge(0, 10_000)], remote).signaled()]);
        let done = node.wait(&pair.world, 1, LIMIT);
        let done = done.unwrap_or_else(|e| panic!("{config}: {e}{}", pair.diagnose()));
        assert!(done.iter().all(Completion::is_success), "{config}: {done:?}{}", pair.diagnose());
        pair.world.lock().run(1000);
        assert!(bytes(to.memory()) == bytes(from.memory()), "{config}");
        assert_eq!(traffic(node, TrafficCounter::TxFrames), 0, "{config}");
        assert!(traffic(node, TrafficCounter::LoopbackFrames) > 10, "{config}");
    }
}
