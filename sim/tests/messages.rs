// SPDX-License-Identifier: MIT OR Apache-2.0
//! SEND, immediates and receives from one card's host to the other's, through the driver, the Verilated cards and the wire.

use crate::tier::chosen;
use ferrowire::{
    AccessFlags, Completion, CqeOpcode, DropReason, LocalCause, MemoryRegion, PathMtu, QpAttributes, QpState,
    QueuePair, RecvWr, SendOpcode, SendWr, Sge, WcStatus, WorkKind,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::{all_face_pcie, CardModel};
use ferrowire_sim::measure::{both_ways, Load};
use ferrowire_sim::pair::{bytes, Connection, Node, Pair, PairOptions, EMULATED};
use ferrowire_spec::wire::frame::Frame;
use ferrowire_spec::wire::opcode::Operation;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

const CONFIGS: [&str; 3] = ["generic-8b", "generic-64b", EMULATED];

/// Cycles for what a test waits for.
const LIMIT: u64 = 300_000;

fn pair(config: &str) -> Pair {
    let pair = Pair::named(config, &PairOptions::default()).unwrap();
    // A pause of 0.01 ms, as RNR NAKs ask for, takes some 160 cycles.
    [&pair.a, &pair.b].iter().for_each(|node| node.context.set_timer_tick(64).unwrap());
    pair
}

fn connection() -> Connection {
    Connection { min_rnr_timer: 1, recv_sge: 4, ..Connection::default() }
}

fn source(node: &Node, bytes: usize) -> MemoryRegion {
    let region = node.region(0, bytes, AccessFlags::LOCAL_READ).unwrap();
    let mut data = vec![0; bytes];
    SmallRng::seed_from_u64(bytes as u64).fill_bytes(&mut data);
    region.memory().write(0, &data);
    region
}

fn buffer(node: &Node, bytes: usize) -> MemoryRegion {
    node.region(0, bytes, AccessFlags::LOCAL_WRITE).unwrap()
}

/// Posts one signalled request and rings.
fn send(qp: &mut QueuePair, wr: SendWr<'_>) {
    let mut batch = qp.start_post_send();
    batch.post(&wr.signaled()).unwrap();
    batch.ring().unwrap();
}

/// Posts one receive and rings.
fn receive(qp: &mut QueuePair, wr_id: u64, sges: &[Sge]) {
    let mut batch = qp.start_post_recv();
    batch.post(&RecvWr::new(wr_id, sges)).unwrap();
    batch.ring().unwrap();
}

#[track_caller]
fn wait(pair: &Pair, node: &Node, count: usize) -> Vec<Completion> {
    match node.wait(&pair.world, count, LIMIT) {
        Ok(done) => done,
        Err(error) => panic!("{error}{}", pair.diagnose()),
    }
}

/// The one completion of each side: of the sender, of the receiver.
#[track_caller]
fn both(pair: &Pair) -> (Completion, Completion) {
    let (here, there) = (wait(pair, &pair.a, 1)[0], wait(pair, &pair.b, 1)[0]);
    assert_eq!((here.kind(), there.kind()), (WorkKind::Send, WorkKind::Receive));
    (here, there)
}

fn ends(done: &[Completion]) -> Vec<(u64, WcStatus)> {
    done.iter().map(|done| (done.wr_id(), done.status().known().unwrap())).collect()
}

/// The syndromes of what came back.
fn answers(pair: &Pair) -> Vec<u8> {
    let frames = pair.world.lock().link_mut(1).take_frames();
    frames.iter().filter_map(|frame| Some(Frame::parse(&frame.bytes).unwrap().ext.aeth?.syndrome)).collect()
}

fn state(qp: &QueuePair) -> QpState {
    qp.query().unwrap().state.known().unwrap()
}

const WELL: WcStatus = WcStatus::Success;
const FLUSHED: WcStatus = WcStatus::WrFlushErr;

#[test]
fn messages_of_every_size_fill_receives_of_one_to_four_pieces() {
    const ROOM: usize = 128 << 10;
    let sizes = [0, 1, 63, 64, 65, 4096, 5000, 100_000];
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (source(&pair.a, ROOM), buffer(&pair.b, ROOM));
        let data = bytes(from.memory());
        let mut expected = vec![0; ROOM];
        let mut rng = SmallRng::seed_from_u64(1);
        for mtu in [PathMtu::B256, PathMtu::B1024, PathMtu::B4096] {
            let (mut qp, mut peer) = pair.connect(&Connection { mtu, ..connection() }).unwrap();
            for size in sizes {
                for pieces in 1..=4 {
                    // The message ends at the end of the last piece, or before it.
                    let more = rng.random_range(0..3) * 7;
                    let mut cuts: Vec<usize> = (1..pieces).map(|_| rng.random_range(0..=size)).collect();
                    cuts.sort_unstable();
                    cuts.push(size + more);
                    let (mut sges, mut places, mut at, mut last) = (Vec::new(), Vec::new(), 0, 0);
                    for cut in cuts {
                        // At odd places, with something between that must stay as it is.
                        at += 1 + 2 * rng.random_range(0..200);
                        sges.push(to.sge(at, (cut - last) as u32));
                        places.push((at, last..cut.min(size).max(last)));
                        at += cut - last;
                        last = cut;
                    }
                    let start = rng.random_range(0..ROOM - size);
                    receive(&mut peer, 7, &sges);
                    send(&mut qp, SendWr::send(3, &[from.sge(start, size as u32)]));
                    let (here, there) = both(&pair);
                    let what = format!("{config}, MTU {mtu:?}: {size} bytes into {sges:?}");
                    assert_eq!((here.wr_id(), here.opcode().known()), (3, Some(CqeOpcode::Send)), "{what}");
                    assert!(here.is_success() && there.is_success(), "{what}: {here:?} {there:?}");
                    assert_eq!((there.wr_id(), there.opcode().known()), (7, Some(CqeOpcode::Recv)), "{what}");
                    assert_eq!(
                        (there.byte_len() as usize, there.imm(), there.solicited()),
                        (size, None, false)
                    );
                    for (place, part) in places {
                        expected[place..place + part.len()].copy_from_slice(&data[start..][part]);
                    }
                    let got = bytes(to.memory());
                    let wrong = got.iter().zip(&expected).position(|(got, expected)| got != expected);
                    assert_eq!(wrong, None, "{what}");
                }
            }
        }
    }
}

#[test]
fn immediates_and_the_solicited_mark_arrive_with_the_last_packet() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (source(&pair.a, 8192), buffer(&pair.b, 8192));
        let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
        for size in [0, 5, 1024, 1025, 5000] {
            for solicited in [false, true] {
                receive(&mut peer, 1, &[to.sge(0, 8192)]);
                let sges = [from.sge(0, size)];
                let wr = SendWr::send_imm(2, &sges, 0x1234_5678 + size);
                send(&mut qp, if solicited { wr.solicited() } else { wr });
                let (here, there) = both(&pair);
                assert_eq!(here.opcode().known(), Some(CqeOpcode::SendImm), "{config}: {here:?}");
                let got = (there.opcode().known(), there.byte_len(), there.imm(), there.solicited());
                let want = (Some(CqeOpcode::RecvImm), size, Some(0x1234_5678 + size), solicited);
                assert_eq!(got, want, "{config}: {there:?}");
                assert_eq!(bytes(to.memory())[..size as usize], bytes(from.memory())[..size as usize]);
            }
        }
    }
}

#[test]
fn a_write_with_immediate_takes_a_receive_and_leaves_its_memory_alone() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, unused) = (source(&pair.a, 8192), buffer(&pair.b, 64));
        let target = pair.b.region(0, 8192, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
        let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
        let data = bytes(from.memory());
        for (i, size) in [0, 1, 64, 1024, 3000].into_iter().enumerate() {
            receive(&mut peer, i as u64, &[unused.sge(0, 64)]);
            let sges = [from.sge(11, size)];
            send(&mut qp, SendWr::write_imm(9, &sges, target.remote(100), !size));
            let (here, there) = both(&pair);
            assert_eq!((here.opcode().known(), here.is_success()), (Some(CqeOpcode::WriteImm), true));
            let got = (there.wr_id(), there.opcode().known(), there.byte_len(), there.imm());
            assert_eq!(got, (i as u64, Some(CqeOpcode::RecvWriteImm), size, Some(!size)), "{config}");
            let size = size as usize;
            assert_eq!(bytes(target.memory())[100..100 + size], data[11..11 + size]);
        }
        assert_eq!(bytes(unused.memory()), [0; 64]);
    }
}

#[test]
fn a_message_that_finds_no_receive_is_sent_again_until_there_is_one() {
    for config in chosen!(CONFIGS) {
        for write in [false, true] {
            let pair = pair(config);
            let (from, to) = (source(&pair.a, 3000), buffer(&pair.b, 3000));
            let target =
                pair.b.region(0, 3000, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
            let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
            pair.world.lock().link_mut(1).keep_frames(true);
            let sges = [from.sge(0, 3000)];
            send(
                &mut qp,
                match write {
                    true => SendWr::write_imm(1, &sges, target.remote(0), 5),
                    false => SendWr::send(1, &sges),
                },
            );
            pair.world.lock().run(5_000);
            let naks = answers(&pair);
            assert!(naks.len() > 1 && naks.iter().all(|syndrome| *syndrome == 0x21), "{config}: {naks:x?}");
            receive(&mut peer, 2, &[to.sge(0, 3000)]);
            let (here, there) = both(&pair);
            assert!(here.is_success() && there.is_success(), "{config}: {here:?} {there:?}");
            assert_eq!(bytes(if write { target.memory() } else { to.memory() }), bytes(from.memory()));
        }
    }
}

#[test]
fn a_peer_that_is_never_ready_ends_the_connection_after_the_retries() {
    for config in chosen!(CONFIGS) {
        for rnr_retry in [0, 3] {
            let pair = pair(config);
            let from = source(&pair.a, 64);
            let (mut qp, peer) = pair.connect(&Connection { rnr_retry, ..connection() }).unwrap();
            pair.world.lock().link_mut(0).keep_frames(true);
            let mut batch = qp.start_post_send();
            (1..3).for_each(|i| batch.post(&SendWr::send(i, &[from.sge(0, 64)])).unwrap());
            batch.ring().unwrap();
            let done = wait(&pair, &pair.a, 2);
            assert_eq!(ends(&done), [(1, WcStatus::RnrRetryExcErr), (2, FLUSHED)], "{config}");
            let frames = pair.world.lock().link_mut(0).take_frames();
            let frames: Vec<_> = frames.iter().map(|frame| Frame::parse(&frame.bytes).unwrap()).collect();
            let first = frames[0].bth.psn;
            let again = frames.iter().filter(|frame| frame.bth.psn == first).count();
            assert_eq!(again, 1 + usize::from(rnr_retry), "{config}");
            assert_eq!((state(&qp), state(&peer)), (QpState::Err, QpState::Rts), "{config}");
        }
    }
}

/// What a message of 3,000 bytes comes to that its receive cannot take; others are posted behind both.
fn refused(pair: &Pair, sges: &[Sge]) -> (Vec<Completion>, Vec<Completion>, Vec<u8>) {
    let from = source(&pair.a, 3000);
    let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
    let mut batch = peer.start_post_recv();
    (10..13).for_each(|i| batch.post(&RecvWr::new(i, sges)).unwrap());
    batch.ring().unwrap();
    pair.world.lock().link_mut(1).keep_frames(true);
    let mut batch = qp.start_post_send();
    (1..4).for_each(|i| batch.post(&SendWr::send(i, &[from.sge(0, 3000)])).unwrap());
    batch.ring().unwrap();
    let (here, there) = (wait(pair, &pair.a, 3), wait(pair, &pair.b, 3));
    assert_eq!((state(&qp), state(&peer)), (QpState::Err, QpState::Err));
    pair.world.lock().run(1_000);
    (here, there, answers(pair))
}

#[test]
fn a_receive_that_is_too_short_ends_the_connection() {
    for config in chosen!(CONFIGS) {
        for room in [0, 100, 1024, 2999] {
            let pair = pair(config);
            let to = buffer(&pair.b, 4096);
            let (here, there, syndromes) = refused(&pair, &[to.sge(3, room)]);
            assert_eq!(ends(&here), [(1, WcStatus::RemInvReqErr), (2, FLUSHED), (3, FLUSHED)], "{config}");
            assert_eq!(ends(&there), [(10, WcStatus::LocLenErr), (11, FLUSHED), (12, FLUSHED)], "{config}");
            assert_eq!((there[0].cause(), here[0].syndrome()), (Some(LocalCause::Length), 0x61), "{config}");
            assert_eq!(syndromes.iter().filter(|syndrome| **syndrome == 0x61).count(), 1, "{config}");
            // What fits may be there, and nothing behind it.
            let got = bytes(to.memory());
            assert!(got[..3].iter().chain(&got[3 + room as usize..]).all(|byte| *byte == 0), "{config}");
        }
    }
}

#[test]
fn a_receive_with_a_wrong_key_ends_the_connection() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let to = buffer(&pair.b, 4096);
        let closed = pair.b.region(0, 4096, AccessFlags::LOCAL_READ).unwrap();
        let good = to.sge(0, 4096);
        let wrong = [
            (Sge { lkey: good.lkey ^ 1, ..good }, LocalCause::KeyTag),
            (Sge { lkey: good.lkey + 0x1000, ..good }, LocalCause::KeyIndex),
            (Sge { address: good.address + 3596, ..good }, LocalCause::KeyBounds),
            (closed.sge(0, 4096), LocalCause::KeyAccess),
        ];
        for (sge, cause) in wrong {
            let (here, there, syndromes) = refused(&pair, &[sge]);
            assert_eq!(ends(&here), [(1, WcStatus::RemOpErr), (2, FLUSHED), (3, FLUSHED)], "{cause}");
            assert_eq!(ends(&there), [(10, WcStatus::LocProtErr), (11, FLUSHED), (12, FLUSHED)], "{cause}");
            assert_eq!((there[0].cause(), here[0].syndrome()), (Some(cause), 0x63), "{config}");
            assert_eq!(syndromes.iter().filter(|syndrome| **syndrome == 0x63).count(), 1, "{config}");
            if cause != LocalCause::KeyBounds {
                assert!([&to, &closed].iter().all(|region| bytes(region.memory()) == [0; 4096]), "{cause}");
            }
        }
        for card in 0..2 {
            assert_eq!(pair.refused(card), 0);
        }
    }
}

#[test]
fn receives_are_flushed_in_order_in_error_and_a_new_life_has_none_of_them() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (source(&pair.a, 100), buffer(&pair.b, 4096));
        let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
        let mut batch = peer.start_post_recv();
        (0..20).for_each(|i| batch.post(&RecvWr::new(i, &[to.sge(100 * i as usize, 100)])).unwrap());
        batch.ring().unwrap();
        (0..3).for_each(|i| send(&mut qp, SendWr::send(i, &[from.sge(0, 100)])));
        wait(&pair, &pair.a, 3);
        let mut done = wait(&pair, &pair.b, 3);
        peer.modify(QpState::Err, &QpAttributes::default()).unwrap();
        done.extend(wait(&pair, &pair.b, 17));
        let want: Vec<_> = (0..20).map(|i| (i, if i < 3 { WELL } else { FLUSHED })).collect();
        assert_eq!(ends(&done), want, "{config}");
        // Those that are posted now are flushed too.
        (20..23).for_each(|i| receive(&mut peer, i, &[to.sge(0, 100)]));
        assert_eq!(ends(&wait(&pair, &pair.b, 3)), [(20, FLUSHED), (21, FLUSHED), (22, FLUSHED)], "{config}");
        // RESET with receives in the queue: they come back never.
        let (qp, mut peer) = pair.reconnect(qp, peer, &connection()).unwrap();
        let mut batch = peer.start_post_recv();
        (30..40).for_each(|i| batch.post(&RecvWr::new(i, &[to.sge(0, 100)])).unwrap());
        batch.ring().unwrap();
        let (mut qp, mut peer) = pair.reconnect(qp, peer, &connection()).unwrap();
        to.memory().fill(0, 4096, 0);
        receive(&mut peer, 50, &[to.sge(1001, 99)]);
        receive(&mut peer, 51, &[to.sge(2001, 100)]);
        send(&mut qp, SendWr::send(5, &[from.sge(0, 99)]));
        let (here, there) = both(&pair);
        assert_eq!((here.wr_id(), here.is_success(), there.wr_id(), there.is_success()), (5, true, 50, true));
        let mut expected = vec![0; 4096];
        expected[1001..1100].copy_from_slice(&bytes(from.memory())[..99]);
        assert_eq!(bytes(to.memory()), expected, "{config}");
    }
}

#[test]
fn many_messages_go_through_a_small_receive_queue_that_wraps() {
    const COUNT: u64 = 60;
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (source(&pair.a, 4096), buffer(&pair.b, 4096));
        let small = Connection { recv_wr: 4, recv_sge: 6, send_wr: 8, ..connection() };
        let (mut qp, mut peer) = pair.connect(&small).unwrap();
        let (mut sent, mut given, mut ended, mut got) = (0, 0, 0, 0);
        let mut some = [Completion::default(); 8];
        while got < COUNT || ended < COUNT {
            let mut batch = peer.start_post_recv();
            while given < COUNT && batch.room() > 0 {
                let sges = [to.sge(64 * given as usize, 10), to.sge(64 * given as usize + 20, 40)];
                batch.post(&RecvWr::new(given, &sges)).unwrap();
                given += 1;
            }
            batch.ring().unwrap();
            let mut batch = qp.start_post_send();
            while sent < COUNT && batch.room() > 0 {
                batch.post(&SendWr::send(sent, &[from.sge(64 * sent as usize, 30)]).signaled()).unwrap();
                sent += 1;
            }
            batch.ring().unwrap();
            for (node, count) in [(&pair.a, &mut ended), (&pair.b, &mut got)] {
                let n = node.cq.poll(&mut some).unwrap();
                for done in &some[..n] {
                    assert_eq!((done.wr_id(), done.is_success()), (*count, true), "{config}: {done:?}");
                    *count += 1;
                }
            }
            assert!(pair.world.lock().cycle() < 2_000_000, "{config}: {got} of {COUNT}{}", pair.diagnose());
        }
        let (from, to) = (bytes(from.memory()), bytes(to.memory()));
        for at in (0..COUNT as usize).map(|i| 64 * i) {
            assert_eq!(to[at..at + 10], from[at..at + 10]);
            assert_eq!(to[at + 20..at + 40], from[at + 10..at + 30]);
            assert!(to[at + 10..at + 20].iter().chain(&to[at + 40..at + 64]).all(|byte| *byte == 0));
        }
    }
}

/// Two cards that send as fast as they can, without a frame that is lost for want of room.
fn both_directions(verb: SendOpcode, loads: &[(u64, usize, f64)]) {
    if all_face_pcie() {
        // A packet on the bus begins in a beat of its own: so much on it at once is more than the wire brings.
        return;
    }
    let model = CardModel::rnic(&RnicConfig::named("generic-64b").unwrap(), false).unwrap();
    for &(host_latency, qps, budget) in loads {
        let pair = Pair::new(&model, &PairOptions { host_latency, ..PairOptions::default() }).unwrap();
        let load = Load { verb, bytes: 64, mtu: PathMtu::B1024, qps, messages: 2048, shared: false };
        let what = format!("{verb}, {qps} queue pairs, host latency {host_latency}");
        let cycles = both_ways(&pair, &load).unwrap_or_else(|error| panic!("{what}: {error:#}"));
        println!("{what}: {cycles:.3} cycles a message");
        assert!(cycles <= budget, "{what}: {cycles} cycles a message");
        for node in [&pair.a, &pair.b] {
            let lost = node.context.drop_counter(DropReason::Overrun).unwrap();
            assert_eq!(lost, 0, "{what}{}", pair.diagnose());
        }
    }
}

/// Sends and receives share the host's memory: two cards that send as fast as they can ask for more of it than there is. What is received goes
/// first, for it would be lost. The budget of a 64-byte message is 4 cycles at 64 bytes a beat; where the host takes 200 cycles or more to answer,
/// the first receives of each queue pair come late, and half of the messages of 16 are sent meanwhile.
#[test]
fn messages_in_both_directions_at_once_are_not_lost_for_want_of_room() {
    let alone = [(0, 1, 4.0), (250, 1, 4.2)];
    let early =
        [0, 200, 240, 250, 255, 300].map(|latency| (latency, 16, if latency == 0 { 4.0 } else { 4.2 }));
    both_directions(SendOpcode::Send, &[&alone[..], &early, &[(400, 16, 4.6)]].concat());
}

/// Request and response of a READ are two beats each, so both directions fill the wire with one in 4 cycles. So many are outstanding that whoever
/// takes them more slowly than the wire brings them has no room left: tables and scheduler must not make them wait.
#[test]
fn reads_in_both_directions_at_once_fill_the_wire_and_none_is_lost_for_want_of_room() {
    both_directions(SendOpcode::Read, &[(0, 16, 4.1), (0, 128, 4.1), (250, 128, 4.2)]);
}

#[test]
fn a_message_that_loses_a_packet_is_received_once() {
    for config in chosen!(CONFIGS) {
        for lost in 0..4 {
            let pair = pair(config);
            let (from, to) = (source(&pair.a, 4000), buffer(&pair.b, 8192));
            // A lost last packet is found out by the time-out.
            let (mut qp, mut peer) = pair.connect(&Connection { timeout: 6, ..connection() }).unwrap();
            receive(&mut peer, 1, &[to.sge(5, 4000)]);
            receive(&mut peer, 2, &[to.sge(4100, 4000)]);
            let mut n = 0;
            pair.world.lock().link_mut(0).set_filter(Some(Box::new(move |frame| {
                let send = Frame::parse(frame).unwrap().opcode().unwrap().operation() == Operation::Send;
                n += usize::from(send);
                if send && n == lost + 1 {
                    Vec::new()
                } else {
                    vec![frame.to_vec()]
                }
            })));
            send(&mut qp, SendWr::send(3, &[from.sge(0, 4000)]));
            let (here, there) = both(&pair);
            assert!(here.is_success() && there.is_success(), "{config}, {lost}: {here:?} {there:?}");
            pair.world.lock().run(3_000);
            assert_eq!(pair.b.cq.poll(&mut [Completion::default(); 2]), Ok(0), "{config}, {lost}");
            let mut expected = vec![0; 8192];
            expected[5..4005].copy_from_slice(&bytes(from.memory()));
            assert_eq!(bytes(to.memory()), expected, "{config}, {lost}");
        }
    }
}
