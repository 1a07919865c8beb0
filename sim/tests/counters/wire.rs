// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of the wire, against the frames themselves.

use crate::tier::chosen;
use ferrowire::{AccessFlags, DropReason, HwCounter, SendOp, SendWr, TrafficCounter};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::pair::{Connection, Pair, PairOptions};

/// Cycles for what the test waits for.
const LIMIT: u64 = 600_000;

/// What the card counts is behind by so much.
const SWEEP: u64 = 1_000;

#[test]
fn frames_and_their_bytes_are_counted_at_both_ends_and_a_wrong_icrc_by_itself() {
    for config in chosen!(["generic-8b", "generic-64b"]) {
        let model = CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap();
        let pair = Pair::new(&model, &PairOptions::default()).unwrap();
        let all = AccessFlags::LOCAL_READ | AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE;
        let (there, here) = (pair.b.region(0, 65536, all).unwrap(), pair.a.region(0, 65536, all).unwrap());
        let connection =
            Connection { access: AccessFlags::REMOTE, signal_all: true, ..Connection::default() };
        let (mut qp, _peer) = pair.connect(&connection).unwrap();
        {
            let mut world = pair.world.lock();
            (0..2).for_each(|link| world.link_mut(link).keep_frames(true));
            // The third frame to B loses a bit of its ICRC; it is asked for again.
            let mut nth = 0;
            world.link_mut(0).set_filter(Some(Box::new(move |frame| {
                let mut frame = frame.to_vec();
                nth += 1;
                if nth == 3 {
                    *frame.last_mut().unwrap() ^= 1;
                }
                vec![frame]
            })));
        }
        let lengths = [1, 64, 4096, 3, 777, 0, 2050];
        let mut batch = qp.start_post_send();
        for (i, len) in lengths.into_iter().enumerate() {
            let sge = [here.sge(8192 * i, len)];
            batch
                .post(&SendWr::new(i as u64, SendOp::Write { remote: there.remote(8192 * i) }, &sge))
                .unwrap();
        }
        batch.ring().unwrap();
        let done = pair.a.wait(&pair.world, lengths.len(), LIMIT);
        let done = done.unwrap_or_else(|error| panic!("{config}: {error}{}", pair.diagnose()));
        assert!(done.iter().all(|done| done.is_success()), "{config}: {done:?}");
        pair.world.lock().run(2 * SWEEP);

        let frames = [0, 1].map(|link| pair.world.lock().link_mut(link).take_frames());
        for (from, to, sent) in [(&pair.a, &pair.b, &frames[0]), (&pair.b, &pair.a, &frames[1])] {
            let (count, bytes) = (sent.len() as u64, sent.iter().map(|frame| frame.bytes.len() as u64).sum());
            let wrong = to.context.drop_counter(DropReason::Icrc).unwrap();
            let tx = [TrafficCounter::TxFrames, TrafficCounter::TxRoce, TrafficCounter::TxBytes];
            let tx = tx.map(|counter| from.context.traffic_counter(counter).unwrap());
            assert_eq!(tx, [count, count, bytes], "{config}: what was sent");
            let rx = [TrafficCounter::RxFrames, TrafficCounter::RxRoce, TrafficCounter::RxBytes];
            let rx = rx.map(|counter| to.context.traffic_counter(counter).unwrap());
            assert_eq!(rx, [count, count - wrong, bytes], "{config}: what came");
            assert_eq!(to.context.hw_counter(HwCounter::RxIcrcEncapsulated).unwrap(), wrong, "{config}");
        }
        assert_eq!(pair.b.context.drop_counter(DropReason::Icrc).unwrap(), 1, "{config}");
        assert!(frames.iter().all(|frames| frames.len() > 4), "{config}");
    }
}
