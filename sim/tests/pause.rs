// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flow control of the link: PAUSE and PFC frames from the other end of the wire, obeyed at a packet boundary.

use crate::tier::chosen;
use ferrowire::{
    AccessFlags, AddressVector, DropReason, FlowControl, FlowMode, InitAttributes, Payload, Psn, QpInitAttr,
    RtrAttributes, RtsAttributes, SendWr, TrafficCounter,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::feed::{self, Feed, SLOTS};
use ferrowire_sim::pair::{Connection, Pair, PairOptions};
use ferrowire_sim::wire::{wire_bytes, SentFrame};
use ferrowire_spec::wire::frame::Frame;
use ferrowire_spec::wire::{eth, Pause, Pfc};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const CONFIGS: [&str; 2] = ["generic-8b", "generic-64b"];

/// The other end's port, not the other card: it sends MAC control frames.
const SWITCH: u64 = 0x0200_0000_0099;

/// Cycles from the delivery of a frame's last beat until it shows at the output.
const REACTION: u64 = 24;

fn pair(config: &str) -> Pair {
    let model = CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap();
    let pair = Pair::new(&model, &PairOptions::default()).unwrap();
    pair.world.lock().link_mut(0).keep_frames(true);
    pair
}

fn set(pair: &Pair, mode: FlowMode) {
    pair.a.context.set_flow_control(&FlowControl { mode, ..FlowControl::default() }).unwrap();
}

/// Cycles of so many quanta, at the datapath's rate.
fn quanta(pair: &Pair, n: u64) -> u64 {
    n * 64 / pair.world.lock().card(0).beat_bytes() as u64
}

/// A MAC control frame comes to card 0; gives the cycle from which on it is obeyed.
fn tell(pair: &Pair, frame: &[u8]) -> u64 {
    let mut world = pair.world.lock();
    let beats = frame.len().div_ceil(world.card(0).beat_bytes()) as u64;
    // Behind a frame that is being delivered, which is no longer than this.
    let behind = 1200 / world.card(0).beat_bytes() as u64;
    let from = world.cycle() + behind + beats + REACTION;
    world.inject(1, frame.to_vec());
    from
}

/// WRITEs or READs of packets with this priority in their tag, or without one.
fn feed(pair: &Pair, size: usize, priority: Option<u16>, reads: bool) -> Feed<'_> {
    let connection = Connection {
        vlan: priority.map(|priority| priority << 13),
        rd_atomic: 8,
        access: AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ,
        timeout: 0,
        ..Connection::default()
    };
    Feed::new(pair, size, &connection, reads).unwrap()
}

fn run(pair: &Pair, feeds: &mut [Feed<'_>], busy: &[bool], cycles: u64) {
    feed::run(pair, feeds, busy, cycles).unwrap();
}

fn finish(pair: &Pair, feeds: &mut [Feed<'_>]) {
    feed::finish(pair, feeds, SLOTS as u64).unwrap();
}

fn frames(pair: &Pair) -> Vec<SentFrame> {
    pair.world.lock().link_mut(0).take_frames()
}

fn priority(sent: &SentFrame) -> u8 {
    Frame::parse(&sent.bytes).unwrap().vlan.map_or(0, |tag| tag.pcp)
}

fn began(frames: &[SentFrame], from: u64, to: u64) -> impl Iterator<Item = &SentFrame> {
    frames.iter().filter(move |sent| (from..to).contains(&sent.first))
}

fn traffic(pair: &Pair, counter: TrafficCounter) -> u64 {
    pair.world.lock().run(400);
    pair.a.context.traffic_counter(counter).unwrap()
}

/// Quanta of pauses.
const TIMES: [u16; 4] = [40, 150, 500, 3];

#[test]
fn with_a_pause_nothing_begins_until_its_quanta_have_passed_and_then_all_goes_on() {
    for config in chosen!(CONFIGS) {
        // A wire that takes what comes, and one that makes frames wait for it.
        for rated in [false, true] {
            let pair = pair(config);
            if rated {
                pair.world.lock().set_line_share(0.5);
            }
            set(&pair, FlowMode::Pause);
            let mut feeds = [
                feed(&pair, 3000, None, false),
                feed(&pair, 60, Some(5), false),
                feed(&pair, 1500, Some(3), true),
            ];
            run(&pair, &mut feeds, &[true; 3], 3000);
            let mut pauses = 0;
            for time in TIMES {
                frames(&pair);
                let now = pair.world.lock().cycle();
                let from = tell(&pair, &Pause::new(time).frame(SWITCH));
                pauses += 1;
                let (least, most) = (quanta(&pair, time.into()), quanta(&pair, u64::from(time) + 1));
                run(&pair, &mut feeds, &[true; 3], from - now + most + 600);
                let sent = frames(&pair);
                // What was told as late as this is over no earlier.
                let until = now + least;
                let width = pair.world.lock().card(0).beat_bytes() as u64;
                // On a slow wire a frame may be on offer still.
                let slack = if rated { 2 * wire_bytes(1200) / width * 2 } else { 0 };
                let late = began(&sent, from + slack, until.max(from + slack)).count();
                assert_eq!(late, 0, "{config}, {time} quanta: {from}..{until}");
                let again = began(&sent, until, from + most + 500).count();
                assert!(again > 0, "{config}, {time} quanta: {again} frames afterwards{}", pair.diagnose());
            }
            finish(&pair, &mut feeds);
            assert_eq!(traffic(&pair, TrafficCounter::RxPause), pauses, "{config}");
            let stood = traffic(&pair, TrafficCounter::PauseDuration);
            let told = quanta(&pair, TIMES.iter().map(|time| u64::from(*time)).sum());
            let most = told + pauses * (quanta(&pair, 1) + 12);
            assert!((told..most).contains(&stood), "{config}: {stood} of {told}");
            assert_eq!(pair.a.context.drop_counter(DropReason::NotRoce).unwrap(), 0);
            assert_eq!(pair.a.context.drop_counter(DropReason::MacControl).unwrap(), 0);
        }
    }
}

#[test]
fn time_zero_ends_a_pause_at_once_and_a_newer_time_counts() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        set(&pair, FlowMode::Pause);
        let mut feeds = [feed(&pair, 3000, None, false)];
        run(&pair, &mut feeds, &[true], 1000);
        let from = tell(&pair, &Pause::new(0xffff).frame(SWITCH));
        run(&pair, &mut feeds, &[true], 2000);
        assert_eq!(pair.a.context.paused_priorities().unwrap(), 0xff);
        // Longer than it was, then no time at all.
        tell(&pair, &Pause::new(0xffff).frame(SWITCH));
        run(&pair, &mut feeds, &[true], 2000);
        let end = pair.world.lock().cycle();
        let goes = tell(&pair, &Pause::new(0).frame(SWITCH));
        run(&pair, &mut feeds, &[true], goes - end + 300);
        let sent = frames(&pair);
        assert_eq!(began(&sent, from, end).count(), 0, "{config}");
        assert!(began(&sent, end, goes + 100).count() > 0, "{config}");
        assert_eq!(pair.a.context.paused_priorities().unwrap(), 0);
        finish(&pair, &mut feeds);
    }
}

#[test]
fn pfc_stops_the_queue_pairs_of_its_priority_and_nobody_else() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        set(&pair, FlowMode::Pfc { priorities: 1 << 3 });
        let mut feeds: Vec<Feed<'_>> = [(3, 2000), (0, 1000), (3, 100), (4, 64)]
            .map(|(priority, size)| feed(&pair, size, (priority != 0).then_some(priority), false))
            .into();
        let busy = [true; 4];
        run(&pair, &mut feeds, &busy, 4000);
        frames(&pair);
        // In the middle of all, and again before it is over.
        let start = pair.world.lock().cycle();
        let from = tell(&pair, &Pfc::new(std::array::from_fn(|i| (i == 3).then_some(0xffff))).frame(SWITCH));
        run(&pair, &mut feeds, &busy, from - start + 200);
        let settled = pair.world.lock().cycle();
        let before: Vec<u64> = feeds.iter().map(|feed| feed.done).collect();
        run(&pair, &mut feeds, &busy, 10_000);
        assert_eq!(pair.a.context.paused_priorities().unwrap(), 1 << 3);
        let end = pair.world.lock().cycle();
        let sent = frames(&pair);
        let still = began(&sent, from, end).filter(|sent| priority(sent) == 3).count();
        assert_eq!(still, 0, "{config}");
        for other in [0, 4] {
            let went = began(&sent, settled, end).filter(|sent| priority(sent) == other).count();
            assert!(went > 20, "{config}: {went} packets of priority {other}{}", pair.diagnose());
        }
        for (feed, before) in feeds.iter().zip(before).skip(1).step_by(2) {
            assert!(feed.done > before + 5, "{config}: {} messages", feed.done - before);
        }
        let goes = tell(&pair, &Pfc::new(std::array::from_fn(|i| (i == 3).then_some(0))).frame(SWITCH));
        run(&pair, &mut feeds, &busy, 3000);
        let sent = frames(&pair);
        assert!(began(&sent, end, goes + 200).any(|sent| priority(sent) == 3), "{config}");
        finish(&pair, &mut feeds);
        assert_eq!(traffic(&pair, TrafficCounter::RxPfc), 2, "{config}");
    }
}

/// More of them than the card keeps aside: one that sends datagrams there keeps nobody else from sending.
#[test]
fn datagrams_of_a_priority_that_stands_still_wait_and_others_go_on() {
    const DATAGRAMS: usize = 700;
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        set(&pair, FlowMode::Pfc { priorities: 1 << 3 });
        let (from, to) = (&pair.a, &pair.b);
        from.context.add_gid(from.ip(false), Some(3 << 13)).unwrap();
        let way = AddressVector::new(from.mac(), from.ip(false), to.mac(), to.ip(false));
        let handle = from.pd.create_ah(&AddressVector { vlan: Some(3 << 13), ..way }).unwrap();
        let mut attr = QpInitAttr::ud(&from.cq, &from.cq);
        attr.max_send_wr = 1024;
        let init = InitAttributes::new().pkey(0xffff).qkey(1);
        let rts = RtsAttributes::new().sq_psn(Psn::new(0));
        let qp = from.pd.create_qp(&attr).unwrap().init(init).unwrap();
        let mut qp = qp.rtr(RtrAttributes::default()).unwrap().rts(rts).unwrap();
        let mut feeds = [feed(&pair, 1000, None, false), feed(&pair, 64, Some(4), true)];
        run(&pair, &mut feeds, &[true; 2], 2000);
        let pfc = |time: u16| Pfc::new(std::array::from_fn(|i| (i == 3).then_some(time))).frame(SWITCH);
        let start = pair.world.lock().cycle();
        let obeyed = tell(&pair, &pfc(0xffff));
        run(&pair, &mut feeds, &[true; 2], obeyed - start);
        let mut batch = qp.start_post_send();
        for id in 0..DATAGRAMS {
            batch.post(&SendWr::send(id as u64, Payload::Inline(b"aside")).to(&handle, 0xabcd, 1)).unwrap();
        }
        batch.ring().unwrap();
        run(&pair, &mut feeds, &[true; 2], 14_000);
        frames(&pair);
        let before = feeds.each_ref().map(|feed| feed.done);
        run(&pair, &mut feeds, &[true; 2], 5000);
        assert_eq!(frames(&pair).iter().filter(|sent| priority(sent) == 3).count(), 0, "{config}");
        for (feed, before) in feeds.iter().zip(before) {
            assert!(feed.done > before + 5, "{config}: {} messages{}", feed.done - before, pair.diagnose());
        }
        tell(&pair, &pfc(0));
        run(&pair, &mut feeds, &[false; 2], 30_000);
        let sent = frames(&pair);
        let datagrams: Vec<u32> = sent
            .iter()
            .filter(|sent| priority(sent) == 3)
            .map(|sent| Frame::parse(&sent.bytes).unwrap().bth.psn)
            .collect();
        assert!(datagrams.iter().copied().eq(0..DATAGRAMS as u32), "{config}: {} datagrams", datagrams.len());
        finish(&pair, &mut feeds);
    }
}

#[test]
fn answers_of_a_priority_that_stands_still_wait_and_others_have_theirs() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        // Card 1 is told, whose READ responses go over link 1.
        pair.world.lock().link_mut(1).keep_frames(true);
        let flow = FlowControl { mode: FlowMode::Pfc { priorities: 0b110_0000 }, ..FlowControl::default() };
        pair.b.context.set_flow_control(&flow).unwrap();
        let mut feeds = [feed(&pair, 3000, Some(5), true), feed(&pair, 1000, None, true)];
        run(&pair, &mut feeds, &[true; 2], 3000);
        pair.world.lock().link_mut(1).take_frames();
        let start = pair.world.lock().cycle();
        let pfc = |time: u16| Pfc::new(std::array::from_fn(|i| (i == 5).then_some(time))).frame(SWITCH);
        pair.world.lock().inject(0, pfc(0xffff).to_vec());
        run(&pair, &mut feeds, &[true; 2], 500);
        let (from, before) = (pair.world.lock().cycle(), feeds[1].done);
        run(&pair, &mut feeds, &[true; 2], 5000);
        let sent = pair.world.lock().link_mut(1).take_frames();
        let still = began(&sent, from, u64::MAX).filter(|sent| priority(sent) == 5).count();
        assert_eq!(still, 0, "{config}");
        assert!(sent.iter().any(|sent| sent.first > start && priority(sent) == 0), "{config}");
        assert!(feeds[1].done > before + 5, "{config}: {} READs{}", feeds[1].done - before, pair.diagnose());
        pair.world.lock().inject(0, pfc(0).to_vec());
        run(&pair, &mut feeds, &[true; 2], 1000);
        finish(&pair, &mut feeds);
    }
}

#[test]
fn what_is_not_obeyed_is_counted_and_changes_nothing() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let mut feeds = [feed(&pair, 2000, Some(3), false)];
        let pause = Pause::new(0xffff).frame(SWITCH);
        let pfc = Pfc::new([Some(0xffff); 8]).frame(SWITCH);
        let modes = [FlowMode::Off, FlowMode::Pause, FlowMode::Pfc { priorities: 1 }];
        for (mode, frames_told) in modes.into_iter().zip([&[pause, pfc][..], &[pfc], &[pause, pfc]]) {
            set(&pair, mode);
            for frame in frames_told {
                tell(&pair, frame);
            }
            run(&pair, &mut feeds, &[true], 1000);
            let start = pair.world.lock().cycle();
            run(&pair, &mut feeds, &[true], 3000);
            let went = began(&frames(&pair), start, u64::MAX).count();
            assert!(went > 10, "{config}, {mode:?}: {went} packets");
        }
        set(&pair, FlowMode::Off);
        finish(&pair, &mut feeds);
        assert_eq!(traffic(&pair, TrafficCounter::RxPause), 2, "{config}");
        assert_eq!(traffic(&pair, TrafficCounter::RxPfc), 3, "{config}");
    }
}

#[test]
fn mac_control_frames_that_are_none_or_for_others_are_dropped_and_counted() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        set(&pair, FlowMode::Pause);
        let sound = Pause::new(0xffff).frame(SWITCH);
        let own = u64::from_be_bytes([&[0, 0], &pair.a.mac()[..]].concat().try_into().unwrap());
        let changed = |change: &dyn Fn(&mut [u8])| {
            let mut frame = sound.to_vec();
            change(&mut frame);
            frame
        };
        let to = |mac: u64| changed(&|frame: &mut [u8]| frame[..6].copy_from_slice(&mac.to_be_bytes()[2..]));
        let bad = [
            to(own ^ 1),
            to(0x0180_c200_0002),
            to(0xffff_ffff_ffff),
            changed(&|frame| frame[eth::BYTES + 1] = 2),
            changed(&|frame| frame[eth::BYTES] = 0xff),
            sound[..17].to_vec(),
            Pfc::new([Some(9); 8]).frame(SWITCH)[..33].to_vec(),
        ];
        for frame in &bad {
            tell(&pair, frame);
        }
        // In a VLAN it is not one.
        let mut tagged = sound.to_vec();
        tagged.splice(12..12, [0x81, 0, 0, 0]);
        tell(&pair, &tagged);
        pair.world.lock().run(1000);
        let drops = |reason| pair.a.context.drop_counter(reason).unwrap();
        assert_eq!(drops(DropReason::MacControl), bad.len() as u64, "{config}{}", pair.diagnose());
        assert_eq!(drops(DropReason::NotRoce), 1, "{config}");
        assert_eq!(pair.a.context.paused_priorities().unwrap(), 0, "{config}");
        // To the station itself, and as short as can be.
        let mut own_frame = to(own);
        own_frame.truncate(18);
        tell(&pair, &own_frame);
        pair.world.lock().run(1000);
        assert_eq!(pair.a.context.paused_priorities().unwrap(), 0xff, "{config}");
        assert_eq!(drops(DropReason::MacControl), bad.len() as u64, "{config}");
        assert_eq!(traffic(&pair, TrafficCounter::RxPause), 1, "{config}");
    }
}

#[test]
fn a_flood_of_pauses_hangs_the_card_no_longer_than_it_lasts() {
    // The longest pause there is, and one that is over sooner where a quantum is 8 cycles.
    for (config, longest) in CONFIGS.into_iter().zip([0xfff, 0xffff]) {
        let pair = pair(config);
        for mode in [FlowMode::Pause, FlowMode::Pfc { priorities: 0xff }] {
            set(&pair, mode);
            let mut rng = SmallRng::seed_from_u64(5);
            let mut feeds = [
                feed(&pair, 5000, Some(3), false),
                feed(&pair, 64, None, false),
                feed(&pair, 2000, Some(6), true),
            ];
            run(&pair, &mut feeds, &[true; 3], 500);
            for _ in 0..500 {
                let time = if rng.random_bool(0.9) { longest } else { rng.random_range(0..longest) };
                let times = std::array::from_fn(|_| rng.random_bool(0.9).then_some(time));
                let frame = match mode {
                    FlowMode::Pause => Pause::new(time).frame(SWITCH),
                    _ => Pfc::new(times).frame(SWITCH),
                };
                tell(&pair, &frame);
                // As fast as the wire has room for, half of the time.
                if rng.random() {
                    run(&pair, &mut feeds, &[true; 3], 10);
                }
            }
            finish(&pair, &mut feeds);
        }
    }
}
