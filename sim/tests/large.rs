// SPDX-License-Identifier: MIT OR Apache-2.0
//! The largest message that the transport allows, 2^31 bytes (IBTA volume 1, 9.7.1), with pages of 2 MiB at both ends.
//!
//! It takes 4 GiB of memory and some 34 million cycles, so it has a command of its own:
//!
//! ```text
//! cargo test -p ferrowire-sim --test all large:: -- --ignored --nocapture
//! ```

use ferrowire::{AccessFlags, PageSize, PathMtu, SendWr};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::pair::{Connection, Pair, PairOptions};

const SIZE: usize = 1 << 31;
const PAGE: usize = 2 << 20;
const PIECE: usize = 1 << 20;

/// Bytes of the piece that begins at `at`: no two pieces are the same.
fn piece(at: usize) -> Vec<u8> {
    (0..PIECE / 8)
        .flat_map(|i| ((at + 8 * i) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .collect()
}

#[test]
#[ignore = "takes 4 GiB and 34 million cycles; see the top of the file"]
fn a_write_of_two_to_the_31_bytes_arrives_whole() {
    let model = CardModel::rnic(&RnicConfig::named("generic-64b").unwrap(), false).unwrap();
    let pair = Pair::new(&model, &PairOptions::default()).unwrap();
    let (mut qp, _peer) = pair.connect(&Connection { mtu: PathMtu::B4096, ..Connection::default() }).unwrap();
    let from = pair.a.context.alloc(SIZE, PAGE).unwrap();
    let to = pair.b.context.alloc(SIZE, PAGE).unwrap();
    for at in (0..SIZE).step_by(PIECE) {
        from.write(at, &piece(at));
    }
    let source = pair.a.pd.register(&from, AccessFlags::LOCAL_READ, PageSize::Size2M).unwrap();
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    let target = pair.b.pd.register(&to, access, PageSize::Size2M).unwrap();

    let mut batch = qp.start_post_send();
    let sges = [source.sge(0, SIZE as u32)];
    batch.post(&SendWr::write(1, &sges, target.remote(0)).signaled()).unwrap();
    batch.ring().unwrap();
    let mut done = Vec::new();
    while done.is_empty() {
        pair.world.lock().run(1_000_000);
        let world = pair.world.lock();
        println!("cycle {}: {} frames", world.cycle(), world.link(0).frames());
        assert!(world.cycle() < 100_000_000, "the card stands still");
        drop(world);
        let mut some = [ferrowire::Completion::default(); 1];
        let n = pair.a.cq.poll(&mut some).unwrap();
        done.extend_from_slice(&some[..n]);
    }
    assert!(done[0].is_success(), "{:?}", done[0]);
    let mut got = vec![0; PIECE];
    for at in (0..SIZE).step_by(PIECE) {
        to.read(at, &mut got);
        assert!(got == piece(at), "the piece at {at:#x} is not what was sent");
    }
}
