// SPDX-License-Identifier: MIT OR Apache-2.0
//! One frame is lost, or a few chosen ones.

use crate::tier::chosen;
use ferrowire_sim::card::all_face_pcie;
use std::collections::HashSet;

use ferrowire::HwCounter;
use ferrowire_sim::wire::Faults;
use ferrowire_spec::Psn;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::rig::{seed, sent_again, transmissions, Fate, Rig, Timer, Wr, CONFIGS, LIMIT, MTU, ROOM};

/// The responder has sent its NAK for the gap.
fn is_nak(syndrome: Option<u8>) -> bool {
    syndrome == Some(0x60)
}

/// A lost packet is sent again, whichever it is: after one NAK when others came behind it (IBTA 9.7.5.2.8), after a time-out when
/// nothing did (9.7.6.1.3). What came before the gap, the NAK acknowledges (9.7.5.1.2). Nothing is executed twice.
#[test]
fn one_lost_packet_of_any_message_comes_again() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config, Timer::SHORT);
        let mut psn = Psn::new(0x12_3456);
        let (mut qp, peer) = rig.connect(psn.get(), Timer::SHORT, 7);
        let peer_qpn = peer.number();
        let mut rng = SmallRng::seed_from_u64(1);
        rig.keep(0);
        rig.keep(1);
        let cases = (1..=6).flat_map(|packets| (0..packets).map(move |lost| (packets, lost)));
        for (packets, lost) in cases {
            // Without another message behind it, and with one and two.
            for behind in [0, 1, 2] {
                rig.what = format!("{config}: packet {lost} of {packets} lost, {behind} messages behind");
                let lost_psn = psn.plus(lost).get();
                rig.fates(0, move |frame, before| match frame.bth.psn == lost_psn && before == 0 {
                    true => Fate::Lose,
                    false => Fate::Pass,
                });
                let mut place = || (rng.random_range(0..ROOM / 2), rng.random_range(0..ROOM / 2));
                let mut wrs = Vec::new();
                for i in 0..=behind {
                    let (at, there) = place();
                    let most = if i == 0 { packets as usize * MTU } else { MTU };
                    wrs.push(Wr(i, at, there, most - (at + there) % MTU, true));
                }
                let before = rig.counters();
                rig.post(&mut qp, &wrs);
                rig.wait_well(&(0..=behind).collect::<Vec<_>>());
                rig.rest(200);
                rig.check_memory();

                let sent = rig.taken(0);
                let naks = rig.taken(1).iter().filter(|p| is_nak(p.syndrome)).count();
                let by_nak = lost + 1 < packets || behind > 0;
                let again = sent_again(&sent, &rig.what) as u64;
                let now = rig.counters();
                let rose = [0, 1, 2].map(|i| now[i] - before[i]);
                assert_eq!(rose, [u64::from(by_nak), u64::from(!by_nak), again], "{}", rig.what);
                assert_eq!(naks, usize::from(by_nak), "{}", rig.what);
                for i in 0..packets {
                    let times = transmissions(&sent, peer_qpn, psn.plus(i).get()).len();
                    let most = if i < lost && by_nak { 1 } else { 2 };
                    assert!(times <= most && (i != lost || times == 2), "{}: {i} {times} times", rig.what);
                }
                psn += packets + behind as u32;
            }
        }
        rig.check_running([&qp, &peer]);
    }
}

/// When the acknowledgement is lost, the time-out repeats the request; the responder acknowledges the duplicate and does not
/// execute it (IBTA 9.7.5.1.2, 9.7.4.1.2).
#[test]
fn after_a_lost_acknowledgement_the_duplicate_is_not_executed() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config, Timer::SHORT);
        let (mut qp, peer) = rig.connect(5, Timer::SHORT, 7);
        let mut lost = false;
        rig.fates(1, move |_, _| if std::mem::replace(&mut lost, true) { Fate::Pass } else { Fate::Lose });
        rig.keep(0);
        rig.post(&mut qp, &[Wr(1, 100, 200, 400, true)]);
        let mut world = rig.pair.world.lock();
        assert!(world.run_until(LIMIT, |world| world.link(1).frames() == 1 && world.link(1).idle()));
        // Writes over PCIe are posted: what is acknowledged may still be on its way.
        world.run(if all_face_pcie() { 1_000 } else { 0 });
        drop(world);
        rig.check_memory();
        // The peer's program may do with its memory what it likes: nothing comes twice.
        rig.to.memory().fill(200, 400, 9);
        rig.expected[200..600].fill(9);
        rig.wait_well(&[1]);
        rig.rest(2 * Timer::SHORT.most());
        rig.check_memory();
        let again = sent_again(&rig.taken(0), config) as u64;
        assert!((1..=2).contains(&again), "{config}: {again} packets again");
        assert_eq!(rig.counters(), [0, 1, again], "{config}");
        assert_eq!(rig.counter(1, HwCounter::DuplicateRequest), again, "{config}");
        rig.check_running([&qp, &peer]);
    }
}

/// An acknowledgement acknowledges everything up to its PSN (IBTA 9.7.5.1.2), so that a lost one costs nothing when another
/// follows.
#[test]
fn a_later_acknowledgement_stands_for_a_lost_one() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config, Timer::SHORT);
        let (mut qp, _peer) = rig.connect(5, Timer::SHORT, 7);
        rig.fates(1, |frame, _| if frame.bth.psn < 9 { Fate::Lose } else { Fate::Pass });
        rig.post(&mut qp, &[Wr(1, 0, 0, 300, true), Wr(2, 300, 300, 600, false), Wr(3, 8, 999, 9, true)]);
        rig.wait_well(&[1, 3]);
        rig.post(&mut qp, &[Wr(4, 5000, 5000, 9, true)]);
        rig.wait_well(&[4]);
        // The next time-out would be late enough.
        rig.rest(2 * Timer::SHORT.most());
        rig.check_memory();
        assert_eq!(rig.counters(), [0, 0, 0], "{config}");
    }
}

/// A gap is reported once (IBTA 9.7.5.2.8): when the NAK is lost, only the time-out helps (9.7.6.1.3).
#[test]
fn after_a_lost_nak_the_time_out_helps() {
    for config in chosen!(CONFIGS) {
        for lost in [0, 2] {
            let mut rig = Rig::new(config, Timer::SHORT);
            rig.what = format!("{config}, packet {lost}");
            let (mut qp, peer) = rig.connect(5, Timer::SHORT, 7);
            rig.fates(0, move |frame, before| match frame.bth.psn == 5 + lost && before == 0 {
                true => Fate::Lose,
                false => Fate::Pass,
            });
            rig.fates(1, |frame, before| match is_nak(frame.ext.aeth.map(|a| a.syndrome)) && before == 0 {
                true => Fate::Lose,
                false => Fate::Pass,
            });
            rig.keep(0);
            rig.post(&mut qp, &[Wr(1, 0, 0, 4 * MTU, true), Wr(2, 3000, 7000, 100, true)]);
            rig.wait_well(&[1, 2]);
            rig.rest(200);
            rig.check_memory();
            let again = sent_again(&rig.taken(0), &rig.what) as u64;
            assert_eq!(rig.counters(), [0, 1, again], "{}", rig.what);
            assert_eq!(rig.counter(1, HwCounter::SeqNakSent), 1, "{}", rig.what);
            rig.check_running([&qp, &peer]);
        }
    }
}

/// Acknowledgements that come twice, or after later ones, complete each request once and in order (IBTA 9.7.5.1.2: those outside
/// the window are ghosts), and nothing is sent again for them.
#[test]
fn acknowledgements_that_come_twice_or_late_complete_each_request_once() {
    for config in chosen!(CONFIGS) {
        let timer = Timer { code: 8, ..Timer::SHORT };
        let mut rig = Rig::new(config, timer);
        let (mut qp, peer) = rig.connect(0xff_fff0, timer, 7);
        let mut n = 0;
        rig.fates(1, move |_, _| {
            n += 1;
            [Fate::Behind(2), Fate::Again(70), Fate::Pass, Fate::Behind(1), Fate::Again(900)][n % 5]
        });
        for round in 0..3 {
            let wrs: Vec<Wr> = (0..12)
                .map(|i| Wr(12 * round + i, 500 * i as usize, 600 * i as usize, 37 * i as usize, i % 3 != 1))
                .collect();
            let ids: Vec<u64> = wrs.iter().filter(|wr| wr.4).map(|wr| wr.0).collect();
            rig.post(&mut qp, &wrs);
            rig.wait_well(&ids);
        }
        rig.rest(timer.least());
        rig.check_memory();
        assert_eq!(rig.counters(), [0, 0, 0], "{config}");
        rig.check_running([&qp, &peer]);
    }
}

/// Time-out code 0 is none (IBTA 9.7.6.1.3): without a NAK nothing is sent again, with one everything is.
#[test]
fn with_time_out_code_0_only_a_nak_sends_anything_again() {
    let timer = Timer { tick: 1, code: 0 };
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config, timer);
        let (mut qp, peer) = rig.connect(90, timer, 7);
        rig.fates(0, |frame, before| match frame.bth.psn == 92 && before == 0 {
            true => Fate::Lose,
            false => Fate::Pass,
        });
        rig.keep(0);
        rig.post(&mut qp, &[Wr(1, 0, 0, 3 * MTU, true)]);
        rig.rest(15_000);
        assert_eq!(rig.taken(0).len(), 3, "{config}");
        assert_eq!(rig.counters(), [0, 0, 0], "{config}");
        rig.post(&mut qp, &[Wr(2, 1000, 1000, 100, true)]);
        rig.wait_well(&[1, 2]);
        rig.rest(200);
        rig.check_memory();
        let [naks, time_outs, again] = rig.counters();
        assert!((naks, time_outs) == (1, 0) && (1..=2).contains(&again), "{config}");
        rig.check_running([&qp, &peer]);
    }
}

/// PSNs wrap at 2^24 (IBTA 9.7.2) also for the requester that goes back over the wrap, and for the window of 9.7.4.1.2.
#[test]
fn a_long_message_crosses_the_wrap_of_psns_on_a_bad_wire() {
    let seed = seed(3);
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config, Timer::SHORT);
        let (mut qp, peer) = rig.connect(0xff_fff8, Timer::SHORT, 7);
        // On both sides of the wrap.
        let lost: HashSet<u32> = [0xff_fffd, 0xff_ffff, 0, 1, 3].into();
        rig.fates(0, move |frame, before| match lost.contains(&frame.bth.psn) && before == 0 {
            true => Fate::Lose,
            false => Fate::Pass,
        });
        rig.keep(0);
        rig.post(&mut qp, &[Wr(1, 3, 5, 14 * MTU + 1, true), Wr(2, 9999, 9999, 900, true)]);
        rig.wait_well(&[1, 2]);
        rig.rest(200);
        rig.check_memory();
        let sent = rig.taken(0);
        assert!(sent_again(&sent, config) >= 5, "{config}");
        assert!(transmissions(&sent, peer.number(), 0).len() > 1, "{config}");

        // Longer than the message takes.
        let timer = Timer { code: 8, ..Timer::SHORT };
        let (mut qp, peer) = rig.connect(0xff_ffe0, timer, 7);
        let faults = Faults {
            drop: 0.06,
            duplicate: 0.05,
            stale: 0.05,
            reorder: 0.06,
            corrupt: 0.03,
            delay: 0.05,
            hold: 600,
        };
        for link in 0..2 {
            let filter = faults.filter(seed + link as u64);
            rig.pair.world.lock().link_mut(link).set_timed_filter(Some(filter));
        }
        rig.post(&mut qp, &[Wr(3, 1, 2, 70 * MTU, true), Wr(4, 77, 20_000, 300, true)]);
        rig.wait_well(&[3, 4]);
        rig.rest(200);
        rig.check_memory();
        sent_again(&rig.taken(0), config);
        rig.check_running([&qp, &peer]);
    }
}
