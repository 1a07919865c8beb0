// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that come when what they were sent for is over: a buffer is another's, a queue pair has begun anew.

use crate::tier::chosen;
use ferrowire::{AccessFlags, HwCounter, SendWr};
use ferrowire_sim::pair::bytes;
use ferrowire_spec::Psn;

use super::rig::{
    connection, nothing_refused, sent_again, target, transmissions, Fate, Rig, Timer, Wr, CONFIGS, MTU, ROOM,
};

/// With its completion a request gives its memory back (IBTA 10.8.5): it may be overwritten and deregistered at once at both ends,
/// while copies of requests, acknowledgements and NAKs still come. Duplicates are not executed, nor are their keys checked
/// (9.7.4.1.2); ghosts change nothing (9.7.5.1.2).
#[test]
fn memory_is_free_with_the_completion_whatever_comes_late() {
    const SIZE: usize = 4 * MTU + 100;
    // As old as the round before last.
    let timer = Timer { tick: 64, code: 7 };
    for config in chosen!(CONFIGS) {
        let rig = Rig::new(config, timer);
        let (mut qp, peer) = rig.connect(0xff_ffe0, timer, 1);
        (0..2).for_each(|link| rig.keep(link));
        for link in 0..2 {
            rig.fates(link, |frame, before| {
                let late = Fate::Again(200 + u64::from(frame.bth.psn) * 97 % 1500);
                let request = frame.ext.aeth.is_none();
                // The second of five packets, in every other round.
                let psn = Psn::new(frame.bth.psn).distance_from(Psn::new(0xff_ffe0));
                if request && psn % 10 == 1 && before == 0 {
                    Fate::Lose
                } else {
                    late
                }
            });
        }
        let mut kept = Vec::new();
        let mut lasting = target(&rig.pair.b, SIZE);
        for round in 0..10_u64 {
            let what = format!("{config}, round {round}");
            let from = rig.pair.a.region(round as usize * 5, SIZE, AccessFlags::LOCAL_READ).unwrap();
            let data: Vec<u8> = (0..SIZE).map(|i| ((i * 7 + 13 * round as usize) % 127) as u8 + 1).collect();
            from.memory().write(0, &data);
            let mut batch = qp.start_post_send();
            let sges = [from.sge(0, SIZE as u32)];
            batch.post(&SendWr::write(round, &sges, lasting.remote(0)).signaled()).unwrap();
            batch.ring().unwrap();
            rig.wait_well(&[round]);
            from.memory().fill(0, SIZE, 0xee);
            assert!(bytes(lasting.memory()) == data, "{what}");
            lasting.memory().fill(0, SIZE, 0xc0 + round as u8);
            from.destroy().unwrap();
            if round % 3 != 2 {
                let memory = lasting.memory().clone();
                let next = target(&rig.pair.b, SIZE);
                std::mem::replace(&mut lasting, next).destroy().unwrap();
                kept.push((0xc0 + round as u8, memory));
            } else {
                assert_eq!(bytes(lasting.memory()), [0xc0 + round as u8; SIZE], "{what}");
            }
        }
        rig.rest(500);
        for (value, memory) in kept {
            assert_eq!(bytes(&memory), [value; SIZE], "{config}");
        }
        let sent = rig.taken(0);
        assert!(sent.iter().all(|p| p.payload.iter().all(|byte| (1..=127).contains(byte))), "{config}");
        let again = sent_again(&sent, config) as u64;
        let counters = rig.counters();
        assert!(counters[0] >= 5 && counters[1] == 0 && counters[2] == again, "{config}: {counters:?}");
        // Each of the five losses costs a NAK. So does a late copy that overtakes what is sent again, for it leaves a gap. None is answered with
        // more than the four packets behind the first.
        let naks = rig.taken(1).iter().filter(|p| p.syndrome == Some(0x60)).count() as u64;
        assert!((5..=10).contains(&naks), "{config}: {naks} NAKs");
        assert!((naks..=4 * naks).contains(&again), "{config}: {again} packets again for {naks} NAKs");
        assert_eq!(rig.counter(1, HwCounter::RespRemoteAccessErrors), 0, "{config}");
        assert!(rig.counter(1, HwCounter::DuplicateRequest) > 0, "{config}");
        nothing_refused(&rig.pair, config);
        rig.check_running([&qp, &peer]);
    }
}

/// RESET forgets everything (IBTA 10.3.1.2): requests, acknowledgements, NAKs and time-outs of an old life of a queue pair change
/// nothing in its new one, whose PSNs are others.
#[test]
fn frames_of_an_old_life_change_nothing_in_the_new_one() {
    // The old life's; the new one waits longer than this test.
    let (old, new) = (Timer::SHORT, Timer { code: 12, ..Timer::SHORT });
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config, old);
        let grave = target(&rig.pair.b, ROOM);
        let first: u32 = 0x70_0000;
        // Old PSNs are before the new ones, or behind; the old life ends before its first time-out, or after it.
        let cases = [(0x1000, 300), (-0x1000, 300), (0x1000, 2500), (-0x1000, 2500)];
        for (step, cycles) in cases {
            rig.what = format!("{config}: PSNs {step:+}, {cycles} cycles of the old life");
            let (mut qp, peer) = rig.connect(first, old, 7);
            let numbers = (qp.number(), peer.number());
            let is_old = move |psn: u32| Psn::new(psn).distance_from(Psn::new(first)) < 64;
            rig.keep(0);
            rig.keep(1);
            // One message gets through, but its acknowledgement takes long; the others are under way themselves, and one is lost.
            rig.fates(0, move |frame, before| match frame.bth.psn.wrapping_sub(first) {
                0 | 1 => Fate::Pass,
                2 if before == 0 => Fate::Lose,
                i if is_old(frame.bth.psn) => Fate::Late(400 + 350 * u64::from(i)),
                _ => Fate::Pass,
            });
            rig.fates(1, move |frame, before| match is_old(frame.bth.psn) {
                true => Fate::Late(2500 + 1500 * before as u64),
                false => Fate::Pass,
            });
            let mut batch = qp.start_post_send();
            for i in 0..7 {
                let sges = [rig.from.sge(64 * i, 2 * MTU as u32)];
                let wr = SendWr::write(1000 + i as u64, &sges, grave.remote(1000 * i));
                batch.post(&wr.signaled()).unwrap();
            }
            batch.ring().unwrap();
            rig.run(cycles);

            let psn = Psn::new(first.wrapping_add_signed(step)).get();
            let mut ends = rig.pair.reconnect(qp, peer, &connection(psn, new, 7)).unwrap();
            assert_eq!((ends.0.number(), ends.1.number()), numbers);
            let before = rig.counters();
            let buried = bytes(grave.memory());
            let mut n = 0;
            let late = |rig: &Rig| !(0..2).all(|link| rig.pair.world.lock().link(link).idle());
            assert!(late(&rig), "{}: nothing of the old life is left", rig.what);
            while late(&rig) || n < 4 {
                let ids: Vec<u64> = (0..3).map(|i| 3 * n + i).collect();
                let wrs: Vec<Wr> = ids
                    .iter()
                    .map(|id| Wr(*id, *id as usize * 77 % 9000, *id as usize * 501 % 30_000, 600, true))
                    .collect();
                rig.post(&mut ends.0, &wrs);
                rig.wait_well(&ids);
                n += 1;
            }
            rig.rest(old.most());
            rig.check_memory();
            assert!(bytes(grave.memory()) == buried, "{}: written by an old frame", rig.what);
            let now = rig.counters();
            assert_eq!(now[1], before[1], "{}: time-outs of the old life", rig.what);
            let sent = rig.taken(0);
            assert!(!transmissions(&sent, numbers.1, first).is_empty(), "{}", rig.what);
            rig.check_running([&ends.0, &ends.1]);
        }
    }
}
