// SPDX-License-Identifier: MIT OR Apache-2.0
//! READ responses: marked, and slowed down.

use crate::tier::{chosen, number};
use ferrowire::{AccessFlags, SendWr};

use super::*;

/// Work requests of a send queue here, READs outstanding, and bytes of a packet.
const DEPTH: u64 = 16;
const MTU: f64 = 1024.0;

fn connection() -> Connection {
    Connection {
        access: AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ,
        rd_atomic: DEPTH as u8,
        ..Connection::default()
    }
}

/// READs of card 1's memory.
pub fn feed(pair: &Pair, size: usize) -> Feed<'_> {
    Feed::new(pair, size, &connection(), true).unwrap()
}

#[test]
fn marked_answers_make_cnps_for_their_queue_pair_at_most_one_in_an_interval() {
    const INTERVAL: u16 = 20;
    for config in chosen!(CONFIGS) {
        for ipv6 in [false, true] {
            let pair = pair(config);
            let (per_us, _) = shape(&pair);
            let control = CongestionControl { cnp_interval_us: INTERVAL, ..CongestionControl::default() };
            pair.a.context.set_congestion_control(&control).unwrap();
            let connection = Connection { ipv6, ..connection() };
            // READ responses of two queue pairs, and acknowledgements of a third.
            let mut feeds = [(4000, true), (1000, true), (2000, false)]
                .map(|(size, reads)| Feed::new(&pair, size, &connection, reads).unwrap());
            (0..2).for_each(|link| pair.world.lock().link_mut(link).keep_frames(true));
            let qpn = feeds[0].qp.number();
            let start = mark_by_turns(&pair, &mut feeds, 1, qpn);
            let frames = pair.world.lock().link_mut(0).take_frames();
            for (i, (rounds, fewest)) in [(200.0, 8), (100.0, 1), (100.0, 1)].into_iter().enumerate() {
                let told = cnps(&frames, feeds[i].peer.number());
                let what = format!("{config}, {i}");
                // The one that leaves, the one behind it, and one with the CNP of each other queue pair.
                one_in_an_interval(&told, INTERVAL, (per_us, 4.0), rounds, fewest, &what);
                let from = if i == 0 { start } else { start + (100.0 * per_us) as u64 };
                assert!(told.iter().all(|at| *at > from), "{config}");
            }
            let all = frames.iter().filter(|f| is_cnp(f)).count() as u64;
            assert_eq!(count(&pair.a, HwCounter::NpCnpSent), all, "{config}{}", pair.diagnose());
            assert_eq!(count(&pair.b, HwCounter::RpCnpIgnored), all, "{config}");

            // What was answered before, and what somebody else sends, is nobody's.
            let marked = count(&pair.a, HwCounter::NpEcnMarkedRocePackets);
            assert!(marked > all, "{config}: {marked}");
            let last = {
                let to =
                    |sent: &&SentFrame| Frame::parse(&sent.bytes).unwrap().bth.destqp == feeds[0].qp.number();
                pair.world.lock().link(1).sent().iter().rfind(to).expect("a response").bytes.clone()
            };
            let forge = |psn: u32, source: u16| {
                let mut frame = Frame::parse(&last).unwrap();
                frame.bth.psn = Psn::new(frame.bth.psn.wrapping_add(psn)).get();
                match &mut frame.ip {
                    Ip::V4(h) => h.src ^= u32::from(source),
                    Ip::V6(h) => h.src ^= u128::from(source),
                }
                frame.seal().unwrap();
                let mut bytes = encoded(&frame).unwrap();
                mark_congestion(&mut bytes);
                pair.world.lock().inject(1, bytes);
            };
            let ghosts = count(&pair.a, HwCounter::NpEcnMarkedRocePackets);
            for (psn, source) in [(0, 0), (1, 0), (0xff_fff0, 0), (0, 0x100), (1, 0x100)] {
                forge(psn, source);
            }
            pair.world.lock().run((50.0 * per_us) as u64);
            assert_eq!(count(&pair.a, HwCounter::NpEcnMarkedRocePackets), ghosts, "{config}");
            assert_eq!(count(&pair.a, HwCounter::NpCnpSent), all, "{config}");
        }
    }
}

#[test]
fn one_that_answers_reads_follows_the_published_algorithm_down_and_up_again() {
    for (config, size) in chosen!([("generic-8b", 16_000), ("generic-64b", 32_000), ("generic-64b", 4000)]) {
        follows(config, size, Service::Rc, true);
    }
}

/// Nothing rises for long.
fn steady(line: f64) -> CongestionControl {
    CongestionControl {
        line_rate_mbps: line as u32,
        alpha_us: u16::MAX,
        rate_us: u16::MAX,
        byte_counter: 0,
        ..CongestionControl::default()
    }
}

/// Tells a queue pair of card 1 that it is to send at a sixteenth of the line.
fn slow_down(pair: &Pair, feeds: &mut [Feed<'_>], which: usize, span: u64) {
    for _ in 0..4 {
        notify_at(pair, 1, &feeds[which].peer, &feeds[which].qp, |_| ());
        run(pair, feeds, &vec![true; feeds.len()], span);
    }
    assert_eq!(count(&pair.b, HwCounter::RpCnpHandled), 4, "{}", pair.diagnose());
}

#[test]
fn a_queue_pair_that_is_told_answers_reads_at_its_rate_and_others_have_what_it_leaves() {
    for (config, sizes, us) in [("generic-8b", [8000, 2000], 300.0), ("generic-64b", [16_000, 16_000], 100.0)]
    {
        let pair = pair(config);
        let (per_us, line) = shape(&pair);
        let mut feeds = sizes.map(|size| feed(&pair, size));
        pair.world.lock().link_mut(1).keep_frames(true);
        let span = (us * per_us) as u64;
        let taken = |pair: &Pair| pair.world.lock().link_mut(1).take_frames();
        run(&pair, &mut feeds, &[false, true], span / 4);
        taken(&pair);
        run(&pair, &mut feeds, &[false, true], span);
        let alone = packets(&taken(&pair), feeds[1].qp.number()).len() as f64;
        pair.b.context.set_congestion_control(&steady(line)).unwrap();
        run(&pair, &mut feeds, &[true; 2], span / 4);
        slow_down(&pair, &mut feeds, 0, span / 8);
        run(&pair, &mut feeds, &[true; 2], span / 2);
        taken(&pair);
        run(&pair, &mut feeds, &[true; 2], span);
        let frames = taken(&pair);
        let slow = packets(&frames, feeds[0].qp.number());
        let got: u64 = slow.iter().map(|packet| packet.1 + HEADERS).sum();
        let (got, wanted) = (got as f64, line / 16.0 / 8.0 * us);
        assert!(
            (got - wanted).abs() < 4.0 * (MTU + HEADERS as f64) + 0.05 * wanted,
            "{config}, {sizes:?}: {got} bytes of {wanted}{}",
            pair.diagnose()
        );
        let others = packets(&frames, feeds[1].qp.number()).len() as f64;
        assert!(
            others + 6.0 > 0.95 * 15.0 / 16.0 * alone,
            "{config}, {sizes:?}: {others} packets, alone {alone}"
        );
        // Without a line rate nobody is held back.
        pair.b.context.set_congestion_control(&CongestionControl::default()).unwrap();
        finish(&pair, &mut feeds);
    }
}

/// Who has lost an answer asks for it once more, and for all that follows. What it asked for before is not sent to its end then.
#[test]
fn an_answer_that_is_lost_costs_one_that_is_slowed_down_a_few_packets_and_not_all_that_it_was_asked_for() {
    const SIZE: usize = 8 * MTU as usize;
    for (config, us) in chosen!([("generic-8b", 12_000.0), ("generic-64b", 1000.0)]) {
        let pair = pair(config);
        let (per_us, line) = shape(&pair);
        pair.b.context.set_congestion_control(&steady(line)).unwrap();
        let mut feeds = [feed(&pair, SIZE)];
        let span = (us * per_us) as u64 / number(2, 1);
        pair.world.lock().link_mut(1).keep_frames(true);
        run(&pair, &mut feeds, &[true], span / 100);
        slow_down(&pair, &mut feeds, 0, span / 100);
        let lost = Arc::new(Mutex::new((0, 0)));
        let which = Arc::clone(&lost);
        pair.world.lock().link_mut(1).set_filter(Some(Box::new(move |frame| {
            let (seen, lost) = &mut *which.lock().unwrap();
            let answers =
                Frame::parse(frame).unwrap().opcode().unwrap().operation() == Operation::ReadResponse;
            *seen += u64::from(answers);
            if answers && *seen % 40 == 0 {
                *lost += 1;
                return Vec::new();
            }
            vec![frame.to_vec()]
        })));
        let before = feeds[0].done;
        run(&pair, &mut feeds, &[true], span);
        let (sent, lost) = *lost.lock().unwrap();
        let needed = (feeds[0].done - before) * 8;
        println!("{config}: {sent} answers, {lost} of them lost, for {needed} packets");
        assert!(
            needed > number(100, 200) && lost > number(2, 5),
            "{config}: {needed} packets, {lost} lost{}",
            pair.diagnose()
        );
        assert!(sent < needed + 8 + 5 * lost, "{config}: {sent} answers for {needed}, {lost} lost");
        pair.world.lock().link_mut(1).set_filter(None);
        pair.b.context.set_congestion_control(&CongestionControl::default()).unwrap();
        feed::drain(&pair, &mut feeds, SLOTS as u64).unwrap();
    }
}

/// The queue pair of card 1 that answers READs sends WRITEs as well: what it is granted is for both, and neither goes without.
#[test]
fn requests_and_read_responses_of_a_queue_pair_share_its_rate() {
    const SIZE: usize = 1000;
    for (config, us) in chosen!([("generic-8b", 600.0), ("generic-64b", 150.0)]) {
        let pair = pair(config);
        let (per_us, line) = shape(&pair);
        pair.b.context.set_congestion_control(&steady(line)).unwrap();
        let mut feeds = [feed(&pair, 8000)];
        pair.world.lock().link_mut(1).keep_frames(true);
        let from = pair.b.region(0, SIZE, AccessFlags::LOCAL_READ).unwrap();
        let to = pair.a.region(0, SIZE, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
        let mut done = 0;
        let mut posted = 0;
        let mut both = |feeds: &mut [Feed<'_>], cycles: u64| {
            let end = pair.world.lock().cycle() + cycles;
            let mut some = [ferrowire::Completion::default(); 64];
            while pair.world.lock().cycle() < end {
                let mut batch = feeds[0].peer.start_post_send();
                while batch.room() > 0 {
                    let sge = [from.sge(0, SIZE as u32)];
                    batch.post(&SendWr::write(posted, &sge, to.remote(0))).unwrap();
                    posted += 1;
                }
                batch.ring().unwrap();
                run(&pair, feeds, &[true], 100);
                let n = pair.b.cq.poll(&mut some).unwrap();
                for sent in &some[..n] {
                    assert_eq!((sent.wr_id(), sent.is_success()), (done, true), "{config}: {sent:?}");
                    done += 1;
                }
            }
        };
        let span = (us * per_us) as u64;
        both(&mut feeds, span / 8);
        for _ in 0..4 {
            notify_at(&pair, 1, &feeds[0].peer, &feeds[0].qp, |_| ());
            both(&mut feeds, span / 8);
        }
        pair.world.lock().link_mut(1).take_frames();
        both(&mut feeds, span);
        let frames = pair.world.lock().link_mut(1).take_frames();
        let mut got = [0.0; 2];
        for sent in &frames {
            let frame = Frame::parse(&sent.bytes).unwrap();
            if !frame.payload.is_empty() {
                got[usize::from(frame.opcode().unwrap().is_request())] +=
                    frame.payload.len() as f64 + HEADERS as f64;
            }
        }
        let wanted = line / 16.0 / 8.0 * us;
        let slack = f64::from(DEBT) + 4.0 * (MTU + HEADERS as f64) + 0.05 * wanted;
        println!("{config}: {got:?} of {wanted:.0}");
        assert!((got[0] + got[1] - wanted).abs() < slack, "{config}: {got:?} of {wanted}");
        assert!(got.iter().all(|got| *got > wanted / 8.0), "{config}: {got:?} of {wanted}");
    }
}
