// SPDX-License-Identifier: MIT OR Apache-2.0
//! NAKs that are forged, late or there twice.

use crate::tier::chosen;
use ferrowire_sim::wire::encoded;
use ferrowire_spec::wire::frame::Frame;
use ferrowire_spec::Psn;

use super::rig::{sent_again, transmissions, Fate, Rig, Timer, Wr, CONFIGS, MTU};

/// An acknowledgement with another PSN and syndrome, sound as a card would send it.
fn forged(like: &[u8], psn: Psn, syndrome: u8) -> Vec<u8> {
    let mut frame = Frame::parse(like).unwrap();
    frame.bth.psn = psn.get();
    frame.ext.aeth.as_mut().unwrap().syndrome = syndrome;
    frame.seal().unwrap();
    encoded(&frame).unwrap()
}

/// Answers whose PSN is not one of the unacknowledged ones are dropped (IBTA 9.7.5.1.2, ghost acknowledgements), whatever they say:
/// nothing is sent again, nothing completes, nobody ends.
#[test]
fn answers_outside_the_window_change_nothing() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config, Timer::LONG);
        // The second life of the window is over the wrap.
        for first in [0x00_2000, 0xff_fffd] {
            rig.what = format!("{config}, PSNs from {first:#x}");
            let (mut qp, peer) = rig.connect(first, Timer::LONG, 1);
            rig.keep(1);
            rig.post(&mut qp, &[Wr(1, 0, 0, 2 * MTU, true)]);
            rig.wait_well(&[1]);
            let answer = rig.pair.world.lock().link_mut(1).take_frames().remove(0).bytes;
            let next = Psn::new(first).plus(2);
            let before = rig.counters()[2];
            rig.keep(0);
            let inject = |psn: Psn| {
                for syndrome in [0x60, 0x61, 0x62, 0x63, 0x1f] {
                    rig.pair.world.lock().inject(1, forged(&answer, psn, syndrome));
                }
                rig.run(150);
            };
            // Nothing is unacknowledged.
            for away in [-1, -2, -3, 0, 1, 1000, 0x40_0000, -0x40_0000] {
                inject(next.plus(away as u32));
            }
            assert_eq!(rig.taken(0).len(), 0, "{}", rig.what);
            rig.check_running([&qp, &peer]);

            // Four PSNs are, for their packets take long.
            rig.fates(0, |_, _| Fate::Late(6000));
            rig.post_in_vain(&mut qp, &[Wr(2, 50, 50, 3 * MTU, true), Wr(3, 5000, 5000, 10, true)]);
            rig.run(600);
            assert_eq!(rig.taken(0).len(), 4, "{}: all under way", rig.what);
            for away in [-1, -2, -3, 5, 6, 1000, 0x40_0000, -0x40_0000] {
                inject(next.plus(away as u32));
            }
            assert_eq!(rig.taken(0).len(), 0, "{}", rig.what);
            rig.expected[50..50 + 3 * MTU].copy_from_slice(&rig.data[50..50 + 3 * MTU]);
            rig.expected[5000..5010].copy_from_slice(&rig.data[5000..5010]);
            rig.wait_well(&[2, 3]);
            rig.rest(200);
            rig.fates(0, |_, _| Fate::Pass);
            rig.check_memory();
            assert_eq!(rig.counters()[2], before, "{}", rig.what);
            rig.check_running([&qp, &peer]);
        }
    }
}

/// A NAK that comes twice is one: the requester goes back once, and one retry is gone (IBTA 9.7.5.1.2, 9.7.5.2.8).
#[test]
fn the_same_nak_twice_costs_one_retry() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config, Timer::LONG);
        let mut first = 0x70_0000;
        // At once; while the packets are sent again; when they have been acknowledged.
        for gap in [1, 20, 60, 150, 1500] {
            for lost in [0, 1, 4] {
                rig.what = format!("{config}, {gap} cycles apart, packet {lost}");
                let (mut qp, peer) = rig.connect(first, Timer::LONG, 1);
                let lost_psn = first + lost;
                rig.fates(0, move |frame, before| match frame.bth.psn == lost_psn && before == 0 {
                    true => Fate::Lose,
                    false => Fate::Pass,
                });
                rig.fates(1, move |frame, _| match frame.ext.aeth.map(|aeth| aeth.syndrome) {
                    Some(0x60) => Fate::Again(gap),
                    _ => Fate::Pass,
                });
                rig.keep(0);
                let before = rig.counters();
                rig.post(&mut qp, &[Wr(1, 40, 30, 8 * MTU, true), Wr(2, 6000, 6000, 8, true)]);
                rig.wait_well(&[1, 2]);
                rig.rest(200);
                rig.check_memory();
                let sent = rig.taken(0);
                assert_eq!(transmissions(&sent, peer.number(), lost_psn).len(), 2, "{}", rig.what);
                let again = sent_again(&sent, &rig.what) as u64;
                assert!(again <= u64::from(9 - lost), "{}: {again} packets again", rig.what);
                let now = rig.counters();
                assert_eq!((now[1] - before[1], now[2] - before[2]), (0, again), "{}", rig.what);
                assert!(now[0] > before[0], "{}", rig.what);
                rig.check_running([&qp, &peer]);
                first += 0x100;
            }
        }
    }
}
