// SPDX-License-Identifier: MIT OR Apache-2.0
//! READ and atomics from one card's host to the other's memory and back, through the driver, the Verilated cards and the wire.

use crate::tier::chosen;
use ferrowire::{
    AccessFlags, Completion, CqeOpcode, DropReason, HwCounter, LocalCause, MemoryRegion, PathMtu, QpState,
    QueuePair, SendWr, Sge, WcStatus,
};
use ferrowire_sim::hostile::forge::between;
use ferrowire_sim::pair::{bytes, post, Connection, Node, Pair, PairOptions, EMULATED};
use ferrowire_sim::wire::encoded;
use ferrowire_spec::wire::eth::mac_number;
use ferrowire_spec::wire::frame::Frame;
use ferrowire_spec::wire::opcode::{Opcode, Operation};
use ferrowire_spec::wire::syndrome::{NakCode, Syndrome};
use ferrowire_spec::wire::{Bth, Eth, Extensions, Reth};
use ferrowire_spec::Psn;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

const CONFIGS: [&str; 3] = ["generic-8b", "generic-64b", EMULATED];

/// Cycles for what a test waits for.
const LIMIT: u64 = 300_000;

const WELL: WcStatus = WcStatus::Success;
const FLUSHED: WcStatus = WcStatus::WrFlushErr;

fn pair_with(config: &str, options: &PairOptions) -> Pair {
    let pair = Pair::named(config, options).unwrap();
    [&pair.a, &pair.b].iter().for_each(|node| node.context.set_timer_tick(64).unwrap());
    pair
}

fn pair(config: &str) -> Pair {
    pair_with(config, &PairOptions::default())
}

fn connection() -> Connection {
    Connection {
        access: AccessFlags::REMOTE,
        rd_atomic: 16,
        send_sge: 16,
        timeout: 8,
        ..Connection::default()
    }
}

/// Memory of the peer with random bytes.
fn remote(pair: &Pair, bytes: usize) -> MemoryRegion {
    let region = pair.b.region(0, bytes, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE).unwrap();
    let mut data = vec![0; bytes];
    SmallRng::seed_from_u64(bytes as u64).fill_bytes(&mut data);
    region.memory().write(0, &data);
    region
}

fn buffer(node: &Node, bytes: usize) -> MemoryRegion {
    node.region(0, bytes, AccessFlags::LOCAL_WRITE).unwrap()
}

#[track_caller]
fn wait(pair: &Pair, count: usize) -> Vec<Completion> {
    match pair.a.wait(&pair.world, count, LIMIT) {
        Ok(done) => done,
        Err(error) => panic!("{error}{}", pair.diagnose()),
    }
}

fn ends(done: &[Completion]) -> Vec<(u64, WcStatus)> {
    done.iter().map(|done| (done.wr_id(), done.status().known().unwrap())).collect()
}

fn state(qp: &QueuePair) -> QpState {
    qp.query().unwrap().state.known().unwrap()
}

/// Operations of the frames of a direction, in order, with the cycle in which each was sent.
fn operations(pair: &Pair, link: usize) -> Vec<(u64, Operation)> {
    let frames = pair.world.lock().link_mut(link).take_frames();
    let of = |bytes: &[u8]| Frame::parse(bytes).unwrap().opcode().unwrap().operation();
    frames.iter().map(|frame| (frame.first, of(&frame.bytes))).collect()
}

/// Loses the `n`th of the answers that bring something.
fn lose_answer(pair: &Pair, n: usize) {
    let mut seen = 0;
    pair.world.lock().link_mut(1).set_filter(Some(Box::new(move |frame| {
        let operation = Frame::parse(frame).unwrap().opcode().unwrap().operation();
        let brings = matches!(operation, Operation::ReadResponse | Operation::AtomicAcknowledge);
        seen += usize::from(brings);
        if brings && seen == n + 1 {
            Vec::new()
        } else {
            vec![frame.to_vec()]
        }
    })));
}

#[test]
fn reads_of_every_size_fill_one_to_sixteen_pieces() {
    const ROOM: usize = 128 << 10;
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (remote(&pair, ROOM), buffer(&pair.a, ROOM));
        let data = bytes(from.memory());
        let mut expected = vec![0; ROOM];
        let mut rng = SmallRng::seed_from_u64(1);
        for mtu in [PathMtu::B256, PathMtu::B1024, PathMtu::B4096] {
            let (mut qp, _peer) = pair.connect(&Connection { mtu, ..connection() }).unwrap();
            for size in [0, 1, 63, 64, 65, 4096, 5000, 60_000] {
                for pieces in [1, 2, 5, 16] {
                    let mut cuts: Vec<usize> = (1..pieces).map(|_| rng.random_range(0..=size)).collect();
                    cuts.extend([0, size]);
                    cuts.sort_unstable();
                    // At odd places, with something between that must stay as it is.
                    let (start, mut at) = (rng.random_range(0..ROOM - size), 0);
                    let mut sges = Vec::new();
                    for part in cuts.windows(2) {
                        at += 1 + 2 * rng.random_range(0..200);
                        let part = part[0]..part[1];
                        sges.push(to.sge(at, part.len() as u32));
                        expected[at..at + part.len()].copy_from_slice(&data[start..][part.clone()]);
                        at += part.len();
                    }
                    post(&mut qp, &[SendWr::read(7, &sges, from.remote(start)).signaled()]);
                    let done = wait(&pair, 1)[0];
                    let what = format!("{config}, MTU {mtu:?}: {size} bytes into {sges:?}: {done:?}");
                    let got = (done.wr_id(), done.opcode().known(), done.byte_len() as usize);
                    assert_eq!(got, (7, Some(CqeOpcode::Read), size), "{what}");
                    assert!(done.is_success(), "{what}{}", pair.diagnose());
                    let differs = bytes(to.memory()).iter().zip(&expected).position(|(a, b)| a != b);
                    assert_eq!(differs, None, "{what}");
                }
            }
        }
    }
}

#[test]
fn atomics_bring_what_was_there_and_leave_the_result() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (at, to) = (remote(&pair, 64), buffer(&pair.a, 256));
        let (mut qp, _peer) = pair.connect(&connection()).unwrap();
        let now = || u64::from_le_bytes(bytes(at.memory())[8..16].try_into().unwrap());
        let mut rng = SmallRng::seed_from_u64(2);
        for turn in 0..12 {
            let before = now();
            let (wr, after, opcode);
            // The 8 bytes in one place or in several.
            let one = [to.sge(8 * turn + 3, 8)];
            let several = [to.sge(100, 3), to.sge(110, 0), to.sge(120, 1), to.sge(130, 4)];
            let sges: &[Sge] = if turn % 2 == 0 { &one } else { &several };
            match turn % 3 {
                0 => {
                    let add = rng.random();
                    (wr, after) = (SendWr::fetch_add(1, sges, at.remote(8), add), before.wrapping_add(add));
                    opcode = CqeOpcode::FetchAdd;
                }
                kind => {
                    let (compare, swap) = (before ^ (kind as u64 - 1), rng.random());
                    wr = SendWr::compare_swap(1, sges, at.remote(8), compare, swap);
                    (after, opcode) = (if kind == 1 { swap } else { before }, CqeOpcode::CmpSwap);
                }
            }
            post(&mut qp, &[wr.signaled()]);
            let done = wait(&pair, 1)[0];
            let got = (done.is_success(), done.opcode().known(), done.byte_len());
            assert_eq!(got, (true, Some(opcode), 8), "{config}, {turn}: {done:?}{}", pair.diagnose());
            assert_eq!(now(), after, "{config}, {turn}");
            let memory = bytes(to.memory());
            let brought = match turn % 2 {
                0 => memory[8 * turn + 3..][..8].to_vec(),
                _ => [&memory[100..103], &memory[120..121], &memory[130..134]].concat(),
            };
            assert_eq!(brought, before.to_le_bytes(), "{config}, {turn}");
        }
    }
}

#[test]
fn no_more_are_outstanding_than_the_queue_pair_may_have() {
    const COUNT: usize = 40;
    for config in chosen!(CONFIGS) {
        for depth in [1, 2, 5, 16] {
            let pair = pair_with(config, &PairOptions { wire_latency: 400, ..PairOptions::default() });
            let (from, to) = (remote(&pair, 4096), buffer(&pair.a, 4096));
            let (mut qp, _peer) =
                pair.connect(&Connection { rd_atomic: depth, timeout: 14, ..connection() }).unwrap();
            (0..2).for_each(|link| pair.world.lock().link_mut(link).keep_frames(true));
            let sges: Vec<_> = (0..COUNT).map(|i| [to.sge(8 * i, 8)]).collect();
            let all: Vec<_> = sges
                .iter()
                .enumerate()
                .map(|(i, sge)| match i % 3 {
                    0 => SendWr::fetch_add(i as u64, sge, from.remote(8 * i), 0).signaled(),
                    _ => SendWr::read(i as u64, sge, from.remote(8 * i)).signaled(),
                })
                .collect();
            post(&mut qp, &all);
            let done = wait(&pair, COUNT);
            let want: Vec<_> = (0..COUNT as u64).map(|id| (id, WELL)).collect();
            assert_eq!(ends(&done), want, "{config}, {depth}");
            assert_eq!(
                bytes(to.memory())[..8 * COUNT],
                bytes(from.memory())[..8 * COUNT],
                "{config}, {depth}"
            );
            // Asked for when they left, answered when the answer arrives.
            let (asked, answered) = (operations(&pair, 0), operations(&pair, 1));
            assert_eq!(
                (asked.len(), answered.len()),
                (COUNT, COUNT),
                "{config}, {depth}: nothing is sent twice"
            );
            let most = asked
                .iter()
                .enumerate()
                .map(|(n, (at, _))| n + 1 - answered.iter().filter(|(then, _)| then + 400 < *at).count())
                .max();
            // 16 are more than the small card asks for while the first is on its way.
            let (most, depth) = (most.unwrap(), usize::from(depth));
            assert!(most <= depth && (most == depth || depth == 16), "{config}: {most} of {depth}");
        }
    }
}

/// A card answers as many as one like it can ask for at once: none is dropped for want of a place, and asked for again.
#[test]
fn all_queue_pairs_have_as_many_under_way_as_they_may() {
    const BYTES: u32 = 4096;
    let pair = pair_with("generic-8b", &PairOptions::default());
    let (from, to) = (remote(&pair, BYTES as usize), buffer(&pair.a, BYTES as usize));
    // A long time-out, for all wait for one wire.
    let connection = Connection { timeout: 14, mtu: PathMtu::B4096, ..connection() };
    let mut qps: Vec<_> = (0..14).map(|_| pair.connect(&connection).unwrap()).collect();
    // Requests come several times as fast as they can be answered.
    (0..2).for_each(|card| pair.world.lock().card_mut(card).host_mut().set_latency(3000));
    for (qp, _) in &mut qps {
        let sges = [to.sge(0, BYTES)];
        let read = SendWr::read(7, &sges, from.remote(0)).signaled();
        post(qp, &[read; 6]);
    }
    let done = wait(&pair, 14 * 6);
    assert!(done.iter().all(Completion::is_success));
    let dropped = pair.b.context.drop_counter(DropReason::Sequence).unwrap();
    let missing = pair.a.context.hw_counter(HwCounter::ImpliedNakSeqErr).unwrap();
    assert_eq!((dropped, missing), (0, 0));
    assert_eq!(bytes(to.memory()), bytes(from.memory()));
}

/// More READs than a card has places for, all within what the queue pairs have agreed on: of those that find none the peer hears, and it needs no time-out
/// to ask for them again. Cards like this one cannot have so many under way, so the test asks in the place of one.
#[test]
fn a_read_that_finds_no_place_is_asked_for_again_without_a_time_out() {
    const BYTES: u32 = 64;
    // There are places for eight of each, and some: of some queue pairs the last finds none, and of others more come after it.
    const READS: [u32; 14] = [9, 16, 9, 16, 9, 16, 9, 16, 9, 16, 9, 16, 9, 16];
    const PSN: u32 = 0xff_fff8;
    let pair = pair_with("generic-8b", &PairOptions::default());
    let from = remote(&pair, BYTES as usize);
    let connection = Connection { psns: Some((PSN, 7)), mtu: PathMtu::B256, ..connection() };
    let qps: Vec<_> = (0..14).map(|_| pair.connect(&connection).unwrap()).collect();
    pair.world.lock().card_mut(1).host_mut().set_latency(6_000);
    pair.world.lock().link_mut(1).keep_frames(true);
    let read = |peer: &QueuePair, number: u32| {
        let psn = Psn::new(PSN).plus(number).get();
        let bth = Bth {
            opcode: Opcode::RcReadRequest.code(),
            psn,
            destqp: peer.number(),
            pkey: 0xffff,
            ..Bth::default()
        };
        let eth = Eth { dst: mac_number(pair.b.mac()), src: mac_number(pair.a.mac()), ..Eth::default() };
        let reth = Some(Reth { va: from.remote(0).address, rkey: from.remote(0).rkey, len: BYTES });
        let ip = between(pair.a.ip(false), pair.b.ip(false));
        let mut frame =
            Frame { eth, ip, bth, ext: Extensions { reth, ..Extensions::default() }, ..Frame::default() };
        frame.seal().unwrap();
        pair.world.lock().inject(0, encoded(&frame).unwrap());
    };
    for number in 0..16 {
        let asking = qps.iter().zip(READS).filter(|(_, reads)| number < *reads);
        asking.for_each(|((_, peer), _)| read(peer, number));
    }
    // How many of each queue pair were answered, in their order; and NAKs.
    let (mut answered, mut naks) = ([0; 14], 0);
    let mut cycles = 0;
    while answered != READS {
        assert!(cycles < LIMIT, "{answered:?} of {READS:?} are answered{}", pair.diagnose());
        pair.world.lock().run(500);
        cycles += 500;
        let sent = pair.world.lock().link_mut(1).take_frames();
        for sent in sent {
            let frame = Frame::parse(&sent.bytes).unwrap();
            let at = qps.iter().position(|(qp, _)| qp.number() == frame.bth.destqp).unwrap();
            let next = Psn::new(PSN).plus(answered[at]).get();
            assert_eq!(frame.bth.psn, next, "{frame:?}: what is before is answered, and nothing twice");
            if frame.opcode().unwrap() == Opcode::RcReadResponseOnly {
                assert_eq!(frame.payload, bytes(from.memory()));
                answered[at] += 1;
            } else {
                let syndrome = Syndrome::decode(frame.ext.aeth.unwrap().syndrome);
                assert_eq!(syndrome, Syndrome::Nak(NakCode::SequenceError));
                (answered[at]..READS[at]).for_each(|number| read(&qps[at].1, number));
                naks += 1;
            }
        }
    }
    let dropped = pair.b.context.drop_counter(DropReason::Overrun).unwrap();
    assert!(naks > 0 && dropped == naks, "{naks} NAKs, {dropped} dropped");
}

#[test]
fn what_has_a_fence_waits_for_the_answers_before_it() {
    for config in chosen!(CONFIGS) {
        let pair = pair_with(config, &PairOptions { wire_latency: 300, ..PairOptions::default() });
        let (from, through) = (remote(&pair, 8192), buffer(&pair.a, 8192));
        let (mut qp, _peer) = pair.connect(&Connection { timeout: 14, ..connection() }).unwrap();
        let data = bytes(from.memory());
        // What the READ brings is what the WRITE takes on.
        let sges = [through.sge(5, 3000)];
        let write = SendWr::write(2, &sges, from.remote(4096));
        post(&mut qp, &[SendWr::read(1, &sges, from.remote(0)), write.fenced().signaled()]);
        assert_eq!(ends(&wait(&pair, 1)), [(2, WELL)], "{config}");
        assert_eq!(bytes(from.memory())[4096..7096], data[..3000], "{config}");
    }
}

#[test]
fn an_answer_that_is_lost_is_asked_for_again_from_there() {
    for config in chosen!(CONFIGS) {
        for lost in 0..7 {
            let pair = pair(config);
            let (from, to) = (remote(&pair, 8192), buffer(&pair.a, 8192));
            let (mut qp, _peer) = pair.connect(&connection()).unwrap();
            lose_answer(&pair, lost);
            pair.world.lock().link_mut(0).keep_frames(true);
            // Four responses, an atomic, two responses.
            let (first, word, last) = ([to.sge(1, 4000)], [to.sge(4100, 8)], [to.sge(4200, 1500)]);
            let before = u64::from_le_bytes(bytes(from.memory())[4096..4104].try_into().unwrap());
            post(
                &mut qp,
                &[
                    SendWr::read(1, &first, from.remote(3)).signaled(),
                    SendWr::fetch_add(2, &word, from.remote(4096), 1),
                    SendWr::read(3, &last, from.remote(5000)).signaled(),
                ],
            );
            assert_eq!(ends(&wait(&pair, 2)), [(1, WELL), (3, WELL)], "{config}, {lost}");
            let (got, there) = (bytes(to.memory()), bytes(from.memory()));
            assert_eq!(got[1..4001], there[3..4003], "{config}, {lost}");
            assert_eq!(got[4100..4108], before.to_le_bytes(), "{config}, {lost}");
            assert_eq!(there[4096..4104], (before + 1).to_le_bytes(), "{config}, {lost}: once");
            assert_eq!(got[4200..5700], there[5000..6500], "{config}, {lost}");
            // What has come is not asked for again.
            let frames = pair.world.lock().link_mut(0).take_frames();
            let frames: Vec<_> = frames.iter().map(|frame| Frame::parse(&frame.bytes).unwrap()).collect();
            let again = frames.iter().skip(3).find_map(|frame| frame.ext.reth).map(|reth| reth.len);
            let want = match lost {
                0..4 => 4000 - 1024 * lost as u32,
                4 => 1500,
                _ => 1500 - 1024 * (lost as u32 - 5),
            };
            assert_eq!(again, Some(want), "{config}, {lost}");
        }
    }
}

#[test]
fn a_request_that_cannot_be_answered_here_never_leaves() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (remote(&pair, 4096), buffer(&pair.a, 4096));
        let closed = pair.a.region(0, 4096, AccessFlags::LOCAL_READ).unwrap();
        let good = to.sge(0, 64);
        let read = |sges: &[Sge]| (sges.to_vec(), None);
        let far = Sge { address: good.address + 4090, ..good };
        let cases = vec![
            (read(&[closed.sge(0, 64)]), WcStatus::LocProtErr, LocalCause::KeyAccess),
            (read(&[Sge { lkey: good.lkey ^ 1, ..good }]), WcStatus::LocProtErr, LocalCause::KeyTag),
            (read(&[good, good, far]), WcStatus::LocProtErr, LocalCause::KeyBounds),
            (read(&[good, far, good]), WcStatus::LocProtErr, LocalCause::KeyBounds),
            ((vec![to.sge(0, 8)], Some(4)), WcStatus::LocQpOpErr, LocalCause::Alignment),
        ];
        for ((sges, word), status, cause) in cases {
            let (mut qp, _peer) = pair.connect(&connection()).unwrap();
            pair.world.lock().link_mut(0).keep_frames(true);
            let wr = match word {
                Some(at) => SendWr::fetch_add(1, &sges, from.remote(at), 1),
                None => SendWr::read(1, &sges, from.remote(0)),
            };
            let after = [good];
            post(&mut qp, &[wr, SendWr::read(2, &after, from.remote(0))]);
            let done = wait(&pair, 2);
            assert_eq!(ends(&done), [(1, status), (2, FLUSHED)], "{config}, {cause}");
            assert_eq!(done[0].cause(), Some(cause), "{config}");
            assert_eq!(state(&qp), QpState::Err, "{config}, {cause}");
            assert_eq!(operations(&pair, 0), [], "{config}, {cause}");
        }
        // And without any depth.
        let (mut qp, _peer) = pair.connect(&Connection { rd_atomic: 0, ..connection() }).unwrap();
        post(&mut qp, &[SendWr::read(1, &[good], from.remote(0))]);
        let done = wait(&pair, 1);
        assert_eq!(ends(&done), [(1, WcStatus::LocQpOpErr)], "{config}");
        assert_eq!(done[0].cause(), Some(LocalCause::ReadDepth), "{config}");
    }
}

#[test]
fn a_request_that_the_peer_denies_ends_the_connection_behind_what_it_granted() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (remote(&pair, 4096), buffer(&pair.a, 4096));
        let closed = pair.b.region(0, 4096, AccessFlags::LOCAL_WRITE).unwrap();
        let good = to.sge(0, 2000);
        for wrong in [closed.remote(0), from.remote(4000)] {
            let (mut qp, _peer) = pair.connect(&connection()).unwrap();
            let sges = [good];
            post(
                &mut qp,
                &[
                    SendWr::read(1, &sges, from.remote(1)).signaled(),
                    SendWr::read(2, &sges, wrong),
                    SendWr::read(3, &sges, from.remote(2)),
                ],
            );
            let done = wait(&pair, 3);
            let want = [(1, WELL), (2, WcStatus::RemAccessErr), (3, FLUSHED)];
            assert_eq!(ends(&done), want, "{config}{}", pair.diagnose());
            assert_eq!(bytes(to.memory())[..2000], bytes(from.memory())[1..2001], "{config}");
        }
    }
}

#[test]
fn memory_that_goes_away_while_its_bytes_are_on_the_way_stays_as_it_is() {
    for config in chosen!(CONFIGS) {
        let pair = pair_with(config, &PairOptions { wire_latency: 3000, ..PairOptions::default() });
        let (from, stays) = (remote(&pair, 8192), buffer(&pair.a, 8192));
        let goes = buffer(&pair.a, 8192);
        let memory = goes.memory().clone();
        let (mut qp, _peer) = pair.connect(&Connection { timeout: 14, ..connection() }).unwrap();
        let (mut other, _peer) = pair.connect(&Connection { timeout: 14, ..connection() }).unwrap();
        let (first, second, third) = ([stays.sge(0, 3000)], [goes.sge(0, 3000)], [stays.sge(4096, 8)]);
        post(
            &mut qp,
            &[
                SendWr::read(1, &first, from.remote(0)).signaled(),
                SendWr::read(2, &second, from.remote(1)).signaled(),
                // Not signalled, and done by then: it is flushed all the same.
                SendWr::write(3, &third, from.remote(4096)),
                SendWr::read(4, &third, from.remote(2)).signaled(),
            ],
        );
        pair.world.lock().run(1000);
        goes.destroy().unwrap();
        let done = wait(&pair, 4);
        let want = [(1, WELL), (2, WcStatus::LocProtErr), (3, FLUSHED), (4, FLUSHED)];
        assert_eq!(ends(&done), want, "{config}{}", pair.diagnose());
        assert_eq!(done[1].cause(), Some(LocalCause::KeyIndex), "{config}");
        assert_eq!(state(&qp), QpState::Err, "{config}");
        assert_eq!(bytes(&memory), [0; 8192], "{config}");
        assert_eq!(bytes(stays.memory())[..3000], bytes(from.memory())[..3000], "{config}");
        // Nobody else is concerned.
        post(&mut other, &[SendWr::read(9, &first, from.remote(5)).signaled()]);
        assert_eq!(ends(&wait(&pair, 1)), [(9, WELL)], "{config}");
        assert_eq!(pair.refused(0), 0, "{config}");
    }
}
