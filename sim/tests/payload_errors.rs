// SPDX-License-Identifier: MIT OR Apache-2.0
//! Payload that cannot be read from host memory: the request ends with its cause, and not one wrong byte is sent.

use crate::tier::chosen;
use ferrowire::{AccessFlags, Completion, MemoryRegion, QpState, SendWr, Sge, WcStatus};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::pair::{bytes, Connection, Node, Pair, PairOptions};
use ferrowire_spec::queue::cqe::LocalCause;
use ferrowire_spec::wire::frame::Frame;

const CONFIGS: [&str; 2] = ["generic-8b", "generic-64b"];

/// Cycles for what a test waits for.
const LIMIT: u64 = 300_000;

const PAGE: usize = 4096;

fn pair_of(config: &str, host_latency: u64) -> Pair {
    let model = CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap();
    Pair::new(&model, &PairOptions { host_latency, ..PairOptions::default() }).unwrap()
}

/// Registered memory that holds bytes from 1 to 127: neither zeros nor what the host puts into the beats of a failed read.
fn source(node: &Node, pages: usize) -> MemoryRegion {
    let region = node.region(0, pages * PAGE, AccessFlags::LOCAL_READ).unwrap();
    let data: Vec<u8> = (0..pages * PAGE).map(|i| (i * 7 % 127) as u8 + 1).collect();
    region.memory().write(0, &data);
    region
}

fn target(node: &Node, pages: usize) -> MemoryRegion {
    node.region(0, pages * PAGE, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap()
}

/// The host takes a page's mapping away behind the card's back, as an IOMMU may.
fn take_away(pair: &Pair, region: &MemoryRegion, page: usize) {
    let mut world = pair.world.lock();
    let host = world.card_mut(0).host_mut();
    let at = host.bus_address(region.memory().address() + (page * PAGE) as u64).unwrap();
    host.map_mut().remove(at).unwrap();
}

#[track_caller]
fn wait(pair: &Pair, count: usize) -> Vec<Completion> {
    match pair.a.wait(&pair.world, count, LIMIT) {
        Ok(done) => done,
        Err(error) => panic!("{error}{}", pair.diagnose()),
    }
}

/// How the requests of a queue pair ended.
fn ends(done: &[Completion], qpn: u32) -> Vec<(u64, Option<WcStatus>)> {
    done.iter().filter(|c| c.qpn() == qpn).map(|c| (c.wr_id(), c.status().known())).collect()
}

#[test]
fn a_failed_payload_read_ends_its_queue_pair_and_sends_no_wrong_byte() {
    for (config, host_latency) in chosen!([("generic-8b", 0), ("generic-64b", 0), ("generic-64b", 250)]) {
        for bad_page in [0, 1, 2] {
            let what = format!("{config}, latency {host_latency}, page {bad_page}");
            let pair = pair_of(config, host_latency);
            let (from, broken) = (source(&pair.a, 4), source(&pair.a, 4));
            let (to, beside) = (target(&pair.b, 4), target(&pair.b, 4));
            let (mut bad, _bad_peer) = pair.connect(&Connection::default()).unwrap();
            let (mut good, _good_peer) = pair.connect(&Connection::default()).unwrap();
            take_away(&pair, &broken, bad_page);
            pair.world.lock().link_mut(0).keep_frames(true);

            let mut batch = bad.start_post_send();
            batch.post(&SendWr::write(1, &[from.sge(10, 100)], to.remote(0)).signaled()).unwrap();
            // From within the first page into the fourth.
            let whole = broken.sge(100, 3 * PAGE as u32);
            batch.post(&SendWr::write(2, &[whole], to.remote(0))).unwrap();
            batch.post(&SendWr::write(3, &[from.sge(0, 64)], to.remote(0)).signaled()).unwrap();
            batch.post(&SendWr::write(4, &[Sge { bytes: 0, ..from.sge(0, 64) }], to.remote(0))).unwrap();
            batch.ring().unwrap();
            let mut batch = good.start_post_send();
            for i in 0..20 {
                let sge = from.sge(i * 600, 1000);
                batch.post(&SendWr::write(i as u64, &[sge], beside.remote(i * 600)).signaled()).unwrap();
            }
            batch.ring().unwrap();

            let done = wait(&pair, 24);
            let flushed = Some(WcStatus::WrFlushErr);
            let expected =
                [(1, Some(WcStatus::Success)), (2, Some(WcStatus::LocQpOpErr)), (3, flushed), (4, flushed)];
            assert_eq!(ends(&done, bad.number()), expected, "{what}");
            let failed = done.iter().find(|c| c.status().known() == Some(WcStatus::LocQpOpErr)).unwrap();
            assert_eq!(failed.syndrome(), LocalCause::Dma.code(), "{what}");
            let expected: Vec<_> = (0..20).map(|i| (i, Some(WcStatus::Success))).collect();
            assert_eq!(ends(&done, good.number()), expected, "{what}");
            assert_eq!(bad.query().unwrap().state, QpState::Err, "{what}");
            assert_eq!(good.query().unwrap().state, QpState::Rts, "{what}");
            let data = bytes(from.memory());
            assert!(bytes(beside.memory())[..12_400] == data[..12_400], "{what}");

            let mut world = pair.world.lock();
            world.run(2000);
            let frames = world.link_mut(0).take_frames();
            assert!(world.card(0).host().stats().reads_refused > 0, "{what}");
            drop(world);
            // Every byte that was sent is the user's: they run in steps of 7 from 1 to 127.
            for frame in &frames {
                let frame = Frame::parse(&frame.bytes).unwrap();
                assert!(frame.payload.iter().all(|byte| (1..=127).contains(byte)), "{what}: {frame:?}");
                let steps = frame.payload.windows(2).all(|w| (w[0] as usize + 6) % 127 + 1 == w[1] as usize);
                assert!(steps, "{what}: {frame:?}");
            }
            // Of the message only what lay before the missing page.
            let sent: usize = bytes(to.memory()).iter().filter(|byte| **byte != 0).count();
            assert!(sent <= (bad_page * PAGE).max(100), "{what}: {sent} bytes arrived");
        }
    }
}

#[test]
fn queue_pairs_that_failed_leave_room_for_others_for_ever() {
    for config in chosen!(CONFIGS) {
        let pair = pair_of(config, 0);
        let (from, broken) = (source(&pair.a, 2), source(&pair.a, 2));
        let to = target(&pair.b, 2);
        take_away(&pair, &broken, 1);
        // More often than there are places for messages under way, at the small configuration.
        for i in 0..if config == "generic-8b" { 80 } else { 10 } {
            let (mut qp, _peer) = pair.connect(&Connection::default()).unwrap();
            let mut batch = qp.start_post_send();
            let length = if i % 2 == 0 { 2 * PAGE as u32 } else { PAGE as u32 + 9 };
            batch.post(&SendWr::write(1, &[broken.sge(0, length)], to.remote(0)).signaled()).unwrap();
            for _ in 0..3 {
                batch.post(&SendWr::write(2, &[from.sge(0, 32)], to.remote(0)).signaled()).unwrap();
            }
            batch.ring().unwrap();
            let done = wait(&pair, 4);
            assert_eq!(done[0].status().known(), Some(WcStatus::LocQpOpErr), "{config}, time {i}");
            assert!(done[1..].iter().all(|c| c.status().known() == Some(WcStatus::WrFlushErr)));
        }
        let (mut qp, _peer) = pair.connect(&Connection::default()).unwrap();
        let mut batch = qp.start_post_send();
        for i in 0..60 {
            batch.post(&SendWr::write(i, &[from.sge(0, 1000)], to.remote(0)).signaled()).unwrap();
        }
        batch.ring().unwrap();
        assert!(wait(&pair, 60).iter().all(Completion::is_success), "{config}");
    }
}
