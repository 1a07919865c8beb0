// SPDX-License-Identifier: MIT OR Apache-2.0
//! What queue pairs that all want to send get of the wire, and what those cost that cannot.

use crate::tier::chosen;
use std::collections::HashMap;

use ferrowire::{AccessFlags, HwCounter, SendOp, SendWr};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::feed::{self, Feed};
use ferrowire_sim::pair::{Connection, Pair, PairOptions};
use ferrowire_spec::wire::frame::Frame;

const CONFIGS: [&str; 2] = ["generic-8b", "generic-64b"];

/// Two cards with a wire that takes nine tenths of what their datapaths send: the peer has time to place it.
fn pair(config: &str) -> Pair {
    let model = CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap();
    let pair = Pair::new(&model, &PairOptions::default()).unwrap();
    pair.world.lock().set_line_share(0.9);
    pair
}

/// Beats of payload in so many cycles, less what headers and turns take.
fn cycles_of(pair: &Pair, bytes: u64) -> u64 {
    bytes / pair.world.lock().card(0).beat_bytes() as u64
}

#[test]
fn queue_pairs_share_the_wire_by_bytes_however_long_their_messages_are() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let sizes = [4096, 9_000, 16_384, 40_000, 200_000];
        let connection = Connection { send_wr: 32, ..Connection::default() };
        let mut feeds: Vec<Feed<'_>> =
            sizes.iter().map(|size| Feed::new(&pair, *size, &connection, false).unwrap()).collect();
        let busy = [true; 5];
        let cycles = cycles_of(&pair, 500_000);
        // Until all are under way.
        feed::run(&pair, &mut feeds, &busy, cycles).unwrap();
        pair.world.lock().link_mut(0).keep_frames(true);
        feed::run(&pair, &mut feeds, &busy, 8 * cycles).unwrap();
        let mut bytes: HashMap<u32, u64> = HashMap::new();
        // Of the first one only the end was seen.
        for sent in &pair.world.lock().link_mut(0).take_frames()[1..] {
            let frame = Frame::parse(&sent.bytes).unwrap();
            *bytes.entry(frame.bth.destqp).or_default() += frame.payload.len() as u64;
        }
        let shares: Vec<u64> = feeds.iter().map(|feed| bytes[&feed.peer.number()]).collect();
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        println!("{config}: {shares:?}");
        // A turn or two of some ten, and that a message may go a packet beyond the quantum.
        assert!(*most as f64 <= 1.35 * *least as f64, "{config}: {sizes:?} got {shares:?}");
        assert!(shares.iter().sum::<u64>() > 3_000_000, "{config}: {shares:?}");
        feed::finish(&pair, &mut feeds, 1).unwrap();
    }
}

#[test]
fn queue_pairs_whose_peers_are_not_ready_or_gone_cost_the_others_nothing() {
    // With a pause of the receivers that is long against what is sent after it: 120 us, and 10 us.
    for (config, min_rnr_timer) in chosen!([(CONFIGS[0], 7), (CONFIGS[1], 1)]) {
        let pair = pair(config);
        let mut feeds = vec![Feed::new(&pair, 1024, &Connection::default(), false).unwrap()];
        let cycles = cycles_of(&pair, 1_600_000);
        feed::run(&pair, &mut feeds, &[true], cycles / 8).unwrap();
        let before = feeds[0].done;
        feed::run(&pair, &mut feeds, &[true], cycles).unwrap();
        let alone = feeds[0].done - before;

        // Two whose peers have no receives, and two to whom nothing comes through.
        let here = pair.a.region(0, 65536, AccessFlags::LOCAL_READ).unwrap();
        let there = pair.b.region(0, 65536, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE).unwrap();
        let not_ready = Connection { min_rnr_timer, ..Connection::default() };
        // They go on until this is over.
        let tick = 4096 * u64::from(pair.world.lock().clock_khz()) / 1_000_000;
        let timeout = (1..31).find(|n| 8 * (tick << n) > cycles + cycles / 4).unwrap();
        let gone = Connection { timeout, retry_cnt: 7, ..Connection::default() };
        let mut waiting = Vec::new();
        for (connection, sends) in [(&not_ready, true), (&not_ready, true), (&gone, false), (&gone, false)] {
            let (qp, peer) = pair.connect(connection).unwrap();
            waiting.push((qp, peer, sends));
        }
        let lost: Vec<u32> = waiting.iter().filter(|w| !w.2).map(|w| w.1.number()).collect();
        pair.world.lock().link_mut(0).set_filter(Some(Box::new(move |frame| {
            let to = Frame::parse(frame).unwrap().bth.destqp;
            if lost.contains(&to) {
                Vec::new()
            } else {
                vec![frame.to_vec()]
            }
        })));
        for (qp, _, sends) in &mut waiting {
            let mut batch = qp.start_post_send();
            for i in 0..8 {
                let op = if *sends { SendOp::Send } else { SendOp::Write { remote: there.remote(0) } };
                batch.post(&SendWr::new(i, op, &[here.sge(0, 64)])).unwrap();
            }
            batch.ring().unwrap();
        }
        let before = feeds[0].done;
        feed::run(&pair, &mut feeds, &[true], cycles).unwrap();
        let beside = feeds[0].done - before;
        let again = pair.a.context.hw_counter(HwCounter::Retransmitted).unwrap();
        println!("{config}: {alone} messages alone, {beside} beside, {again} packets again");
        // What is sent again has headers and little else: not one in a hundred beats.
        assert!(beside * 100 >= alone * 98, "{config}: {alone} messages alone, {beside} beside these");
        assert!(alone > 1_000 && again > 30, "{config}: {alone} messages, {again} packets again");
    }
}
