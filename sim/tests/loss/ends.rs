// SPDX-License-Identifier: MIT OR Apache-2.0
//! Retries: how many there are, when they come, what gives them back, and how a queue pair ends without.

use crate::tier::chosen;
use std::collections::HashMap;

use ferrowire::{Coded, Completion, HwCounter, QpState, QueuePair, WcStatus};
use ferrowire_spec::Psn;

use super::rig::{ends_of, sent_again, transmissions, Fate, Rig, Timer, Wr, CONFIGS, LIMIT, MTU};

/// Cycles from a time-out to the first beat of the packet that is sent again, and from a packet to the start of its timer.
const SLACK: u64 = 500;

/// A queue pair whose frames get lost for ever.
struct Doomed {
    qp: QueuePair,
    peer: QueuePair,
    first_psn: u32,
    retry_cnt: u8,
}

/// When all is lost for ever: one transmission and `retry_cnt` more, each after a time-out of the coded time or at most four times
/// that (IBTA 9.7.6.1.3), then the oldest request ends with `RETRY_EXC_ERR` and the rest is flushed in order (9.9.2.1, 10.3.1.7).
/// It is the same when only the answers are lost. Other queue pairs notice nothing.
#[test]
fn what_is_lost_for_ever_ends_its_queue_pair_alone_after_the_last_retry() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config, Timer::SHORT);
        let mut doomed = Vec::new();
        // The last one gets its requests through, but no answer.
        for (i, retry_cnt) in [0, 1, 3, 7, 2].into_iter().enumerate() {
            let first_psn = (0xff_fffe + 0x10_0000 * i as u32) & 0xff_ffff;
            let (qp, peer) = rig.connect(first_psn, Timer::SHORT, retry_cnt);
            doomed.push(Doomed { qp, peer, first_psn, retry_cnt });
        }
        let deaf: Vec<u32> = doomed[..4].iter().map(|d| d.peer.number()).collect();
        let unanswered = doomed[4].qp.number();
        rig.fates(0, move |frame, _| match deaf.contains(&frame.bth.destqp) {
            true => Fate::Lose,
            false => Fate::Pass,
        });
        rig.fates(1, move |frame, _| match unanswered == frame.bth.destqp {
            true => Fate::Lose,
            false => Fate::Pass,
        });
        rig.keep(0);
        let mut well: Vec<_> =
            (0..2).map(|i| (rig.connect(0x60_0000 * i, Timer::SHORT, 0), 0_u64, 0_u64)).collect();

        for (i, one) in doomed.iter_mut().enumerate() {
            let there = 1200 * i;
            let wrs = [
                Wr(1, 0, there, 2 * MTU + 7, false),
                Wr(2, 3000, there + 600, 100, true),
                Wr(3, 3000, there + 700, 0, false),
                Wr(4, 3000, there + 700, 300, true),
            ];
            match i {
                4 => rig.post(&mut one.qp, &wrs),
                _ => rig.post_in_vain(&mut one.qp, &wrs),
            }
        }
        let limit = rig.pair.world.lock().cycle() + LIMIT;
        let mut failed: Vec<(u64, Completion)> = Vec::new();
        let mut some = [Completion::default(); 32];
        while failed.len() < 4 * doomed.len() || well.iter().any(|(_, posted, done)| posted != done) {
            for (i, ((qp, _), posted, done)) in well.iter_mut().enumerate() {
                if posted == done && failed.len() < 4 * doomed.len() {
                    let (at, size) = ((*posted as usize * 331) % 9000, 1 + *posted as usize * 97 % 700);
                    rig.post(qp, &[Wr(*posted, at, 10_000 * (i + 1) + at, size, true)]);
                    *posted += 1;
                }
            }
            let n = rig.pair.a.cq.poll(&mut some).unwrap();
            let now = rig.pair.world.lock().cycle();
            for completion in &some[..n] {
                match well.iter_mut().find(|((qp, _), _, _)| qp.number() == completion.qpn()) {
                    Some((_, _, done)) => {
                        assert!(completion.is_success() && completion.wr_id() == *done, "{completion:?}");
                        *done += 1;
                    }
                    None => failed.push((now, *completion)),
                }
            }
            assert!(now < limit, "{config}: {failed:?}{}", rig.pair.diagnose());
        }
        rig.rest(2 * Timer::SHORT.most());
        rig.check_memory();

        let sent = rig.taken(0);
        let all: Vec<Completion> = failed.iter().map(|(_, completion)| *completion).collect();
        let mut time_outs = 0;
        for Doomed { qp, peer, first_psn, retry_cnt } in &doomed {
            let what = format!("{config}, {retry_cnt} retries{}", rig.pair.diagnose());
            let flushed = Some(WcStatus::WrFlushErr);
            let expected = [(1, Some(WcStatus::RetryExcErr)), (2, flushed), (3, flushed), (4, flushed)];
            assert_eq!(ends_of(&all, qp.number()), expected, "{what}");
            let times = transmissions(&sent, peer.number(), *first_psn);
            assert_eq!(times.len(), 1 + usize::from(*retry_cnt), "{what}");
            let (ended, _) = failed.iter().find(|(_, c)| c.qpn() == qp.number()).unwrap();
            let ends: Vec<u64> = times.iter().skip(1).chain([ended]).copied().collect();
            for (from, to) in times.iter().zip(ends) {
                let gap = to - from;
                let timer = Timer::SHORT;
                assert!((timer.least()..=timer.most() + SLACK).contains(&gap), "{what}: after {gap} cycles");
            }
            assert_eq!(qp.query().unwrap().state, Coded::Known(QpState::Err), "{what}");
            assert_eq!(peer.query().unwrap().state, Coded::Known(QpState::Rts), "{what}");
            time_outs += u64::from(*retry_cnt) + 1;
        }
        // Whether one that has no retry left is counted too is not said anywhere.
        let counted = rig.counter(0, HwCounter::LocalAckTimeoutErr);
        assert!((time_outs - 5..=time_outs).contains(&counted), "{config}: {counted} time-outs");
        for ((qp, peer), done, _) in &well {
            let own: Vec<_> = sent.iter().filter(|p| p.qpn == peer.number()).cloned().collect();
            assert!(*done >= 10 && sent_again(&own, config) == 0, "{config}: {done} done");
            rig.check_running([qp, peer]);
        }
    }
}

/// Progress gives all retries back (IBTA 9.7.5.1.2, 9.7.6.1.3): each packet of a long message is lost as often as there are retries,
/// counted from when all before it have got through, and the message succeeds.
#[test]
fn progress_gives_all_retries_back() {
    const RETRIES: u32 = 2;
    const FIRST: u32 = 0xff_fffb;
    let timer = Timer { code: 7, ..Timer::SHORT };
    for config in chosen!(CONFIGS) {
        for packets in [1, 9] {
            let mut rig = Rig::new(config, timer);
            let (mut qp, peer) = rig.connect(FIRST, timer, RETRIES as u8);
            // What the peer expects, and how often that was lost. The second message is behind it, so that the peer says what it
            // lacks as soon as it has got something.
            let (mut next, mut lost) = (0, 0);
            rig.fates(0, move |frame, _| {
                let i = Psn::new(frame.bth.psn).distance_from(Psn::new(FIRST));
                if i != next || i >= packets {
                    return Fate::Pass;
                }
                if lost < RETRIES {
                    lost += 1;
                    return Fate::Lose;
                }
                (next, lost) = (next + 1, 0);
                Fate::Pass
            });
            rig.keep(0);
            let wrs = [Wr(1, 11, 7, packets as usize * MTU - 3, true), Wr(2, 9000, 9000, 2 * MTU, true)];
            rig.post(&mut qp, &wrs);
            rig.wait_well(&[1, 2]);
            rig.rest(200);
            rig.check_memory();
            let sent = rig.taken(0);
            sent_again(&sent, config);
            let mut times: HashMap<u32, u32> = HashMap::new();
            for packet in &sent {
                *times.entry(packet.psn).or_default() += 1;
            }
            for i in 0..packets {
                assert!(times[&Psn::new(FIRST).plus(i).get()] > RETRIES, "{config}: packet {i}");
            }
            rig.check_running([&qp, &peer]);
        }
    }
}

/// A request that cannot be read from local memory ends after those before it, which are sent again first if they get lost; it is
/// not sent, and what is behind it is flushed (IBTA 9.9.2.1, 10.8.5: requests complete in order).
#[test]
fn a_bad_local_key_waits_for_the_lost_requests_before_it() {
    for config in chosen!(CONFIGS) {
        let mut rig = Rig::new(config, Timer::SHORT);
        let mut first = 0x30_0000;
        for signaled in [true, false] {
            // Within the first request, all of the second, the only packet that a time-out must find, and everything.
            for lost in [vec![1], vec![3], vec![4], vec![0, 1, 2, 3, 4]] {
                rig.what = format!("{config}: {lost:?} lost, signalled {signaled}");
                let (mut qp, peer) = rig.connect(first, Timer::SHORT, 7);
                let from = first;
                rig.fates(0, move |frame, before| {
                    match lost.contains(&(frame.bth.psn.wrapping_sub(from))) && before == 0 {
                        true => Fate::Lose,
                        false => Fate::Pass,
                    }
                });
                rig.keep(0);
                let good = [Wr(1, 17, 4000, 3 * MTU, signaled), Wr(2, 2000, 5000, 2 * MTU, true)];
                let mut batch = qp.start_post_send();
                let mut put = |Wr(id, at, there, bytes, signaled), wrong: u32| {
                    let mut sge = rig.from.sge(at, bytes as u32);
                    sge.lkey ^= wrong;
                    let sges = [sge];
                    let wr = ferrowire::SendWr::write(id, &sges, rig.to.remote(there));
                    batch.post(&if signaled { wr.signaled() } else { wr }).unwrap();
                };
                for wr in good {
                    put(wr, 0);
                }
                put(Wr(3, 0, 8000, 700, true), 1);
                put(Wr(4, 0, 9000, 64, true), 0);
                put(Wr(5, 0, 9000, 64, false), 0);
                batch.ring().unwrap();
                for Wr(_, at, there, bytes, _) in good {
                    rig.expected[there..there + bytes].copy_from_slice(&rig.data[at..at + bytes]);
                }
                let done = rig.wait(4 + usize::from(signaled));
                let (well, flushed) = (Some(WcStatus::Success), Some(WcStatus::WrFlushErr));
                let mut expected =
                    vec![(1, well), (2, well), (3, Some(WcStatus::LocProtErr)), (4, flushed), (5, flushed)];
                if !signaled {
                    expected.remove(0);
                }
                assert_eq!(ends_of(&done, qp.number()), expected, "{}", rig.what);
                rig.rest(200);
                rig.check_memory();
                let sent = rig.taken(0);
                let again = sent_again(&sent, &rig.what);
                assert!(again > 0 && sent.len() - again == 5, "{}: {again} again", rig.what);
                assert_eq!(qp.query().unwrap().state, Coded::Known(QpState::Err), "{}", rig.what);
                assert_eq!(peer.query().unwrap().state, Coded::Known(QpState::Rts), "{}", rig.what);
                first += 0x100;
            }
        }
    }
}
