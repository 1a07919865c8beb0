// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory windows and invalidations, through the driver, the Verilated cards and the wire.

use crate::tier::{chosen, number};
use ferrowire::{
    AccessFlags, Completion, CqeOpcode, Error, LocalCause, MemoryRegion, PathMtu, QueuePair, RecvWr,
    RemoteAddress, SendOp, SendWr, Sge, WcStatus, WindowType,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::pair::{bytes, post, Connection, Node, Pair, PairOptions, EMULATED};
use ferrowire_sim::root::RootSettings;
use ferrowire_sim::wire::Faults;
use ferrowire_spec::wire::frame::Frame;
use ferrowire_spec::wire::opcode::{Opcode, Operation};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

const CONFIGS: [&str; 3] = ["generic-8b", "generic-64b", EMULATED];
const CARDS: [&str; 2] = ["generic-8b", "generic-64b"];

/// Cycles for what a test waits for.
const LIMIT: u64 = 400_000;

const WELL: WcStatus = WcStatus::Success;
const REFUSED: WcStatus = WcStatus::RemAccessErr;

fn pair(config: &str) -> Pair {
    let pair = Pair::named(config, &PairOptions::default()).unwrap();
    [&pair.a, &pair.b].iter().for_each(|node| node.context.set_timer_tick(16).unwrap());
    pair
}

fn connection() -> Connection {
    Connection {
        access: AccessFlags::REMOTE,
        rd_atomic: 4,
        min_rnr_timer: 1,
        signal_all: true,
        timeout: 10,
        ..Connection::default()
    }
}

/// Memory of random bytes, open to nobody, to which windows may be bound.
fn memory(node: &Node, bytes: usize) -> MemoryRegion {
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::MW_BIND;
    let region = node.region(100, bytes, access).unwrap();
    let mut data = vec![0; bytes];
    SmallRng::seed_from_u64(bytes as u64 + node.card as u64).fill_bytes(&mut data);
    region.memory().write(0, &data);
    region
}

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

fn ends(done: &[Completion]) -> Vec<(u64, WcStatus)> {
    done.iter().map(|done| (done.wr_id(), done.status().known().unwrap())).collect()
}

/// A range of a memory.
fn part(region: &MemoryRegion, at: usize, len: usize) -> Vec<u8> {
    bytes(region.memory())[at..at + len].to_vec()
}

#[test]
fn payload_of_regions_with_relaxed_ordering_alone_may_pass_others_and_is_there_with_its_completion() {
    for (allowed, relaxed) in [(true, true), (true, false), (false, true)] {
        // Writes wait at random, and those that may pass others do.
        let root = RootSettings {
            relaxed_ordering: allowed,
            reorder: true,
            spread: 300,
            seed: 5,
            ..RootSettings::default()
        };
        let model = CardModel::rnic(&RnicConfig::named("pcie-8b").unwrap(), false).unwrap().with_root(root);
        let pair = Pair::new(&model, &PairOptions::default()).unwrap();
        let mut access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE;
        let from = pair.a.region(100, 16384, access).unwrap();
        access |= if relaxed { AccessFlags::RELAXED_ORDERING } else { AccessFlags::LOCAL_READ };
        let to = pair.b.region(100, 16384, access).unwrap();
        let back = pair.a.region(100, 16384, access).unwrap();
        let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
        let mut random = SmallRng::seed_from_u64(7);
        for round in 0..12 {
            let mut data = vec![0; 3001];
            random.fill_bytes(&mut data);
            from.memory().write(0, &data);
            receive(&mut peer, 1, &[]);
            let remote = RemoteAddress { address: to.address() + 5, rkey: to.rkey() };
            post(&mut qp, &[SendWr::write_imm(2, &[from.sge(0, 3001)], remote, round)]);
            assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(1, WELL)]);
            assert!(part(&to, 5, 3001) == data, "round {round}: a completion before its data");
            assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(2, WELL)]);
            post(&mut qp, &[SendWr::read(3, &[back.sge(9, 3001)], remote)]);
            assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(3, WELL)]);
            assert!(part(&back, 9, 3001) == data, "round {round}: a READ's completion before its data");
        }
        for card in [pair.a.card, pair.b.card] {
            // Of 3,001 bytes, from an odd place on, in packets of no more than 512 bytes.
            let packets = if allowed && relaxed { 12 * 6..=12 * 12 } else { 0..=0 };
            let world = pair.world.lock();
            let root = world.card(card).root().unwrap();
            let stats = root.stats();
            assert!(packets.contains(&stats.relaxed), "{} packets are marked", stats.relaxed);
            assert!(stats.writes >= stats.relaxed + 12, "completions are not");
            assert_eq!(root.violation(), None);
        }
    }
}

#[test]
fn a_bound_window_serves_its_peer_within_its_rights_and_bounds() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (memory(&pair.a, 16384), memory(&pair.b, 16384));
        let mut window = pair.b.pd.alloc_window().unwrap();
        let base = to.address() + 5000;
        // Where, how many bytes, what; and what comes of it.
        let cases = [
            (0, 6000, "write", WELL),
            (100, 4096, "read", WELL),
            (4, 8, "add", WELL),
            (0, 6001, "write", REFUSED),
            (-1, 8, "write", REFUSED),
            (5999, 2, "read", REFUSED),
        ];
        for (offset, len, what, end) in cases {
            let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
            let rights = AccessFlags::REMOTE;
            // The place of an atomic is a multiple of 8.
            let base = base + u64::from(what == "add") * (8 - (base + 4) % 8);
            let at = (base - to.address()) as usize;
            let bind = window.bind(7, &to, at, 6000, rights).unwrap();
            post(&mut peer, &[bind]);
            let done = wait(&pair, &pair.b, 1);
            assert_eq!((ends(&done), done[0].opcode().known()), (vec![(7, WELL)], Some(CqeOpcode::BindMw)));
            let remote = window.remote(base.wrapping_add_signed(offset));
            let sges = [from.sge(3, len)];
            let wr = match what {
                "write" => SendWr::write(1, &sges, remote),
                "read" => SendWr::read(1, &sges, remote),
                _ => SendWr::fetch_add(1, &sges, remote, 5),
            };
            post(&mut qp, &[wr]);
            assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(1, end)], "{config}: {what} of {len} at {offset}");
            let at = (remote.address.wrapping_sub(to.address())) as usize;
            if end == WELL && what != "add" {
                assert_eq!(part(&from, 3, len as usize), part(&to, at, len as usize), "{config}: {what}");
            }
            if end == WELL {
                post(&mut peer, &[window.invalidate(8)]);
                assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(8, WELL)]);
            } else {
                // With its queue pair in error a window stays bound; it is freed whatever its state.
                window.destroy().unwrap();
                window = pair.b.pd.alloc_window().unwrap();
            }
        }
        // Rights that the window has not; without LOCAL_WRITE of the region, reads only.
        let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
        post(&mut peer, &[window.bind(1, &to, 0, 64, AccessFlags::REMOTE_READ).unwrap()]);
        wait(&pair, &pair.b, 1);
        post(&mut qp, &[SendWr::write(2, &[from.sge(0, 8)], window.remote(to.address()))]);
        assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(2, REFUSED)]);
    }
}

#[test]
fn a_zero_based_window_begins_at_its_place_in_the_page() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (memory(&pair.a, 16384), memory(&pair.b, 16384));
        let mut window = pair.b.pd.alloc_window().unwrap();
        let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
        let rights = AccessFlags::REMOTE_WRITE | AccessFlags::ZERO_BASED;
        post(&mut peer, &[window.bind(1, &to, 6000, 5000, rights).unwrap()]);
        wait(&pair, &pair.b, 1);
        let first = (to.address() + 6000) % 4096;
        post(&mut qp, &[SendWr::write(2, &[from.sge(1, 4900)], window.remote(first + 100))]);
        assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(2, WELL)]);
        assert_eq!(part(&to, 6100, 4900), part(&from, 1, 4900));
        post(&mut qp, &[SendWr::write(3, &[from.sge(1, 8)], window.remote(to.address() + 6000))]);
        assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(3, REFUSED)]);
    }
}

#[test]
fn a_bind_that_breaks_a_rule_ends_with_its_cause_and_what_is_behind_is_flushed() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let region = memory(&pair.b, 4096);
        let plain = pair.b.region(0, 4096, AccessFlags::LOCAL_WRITE).unwrap();
        let read_only = pair.b.region(0, 4096, AccessFlags::MW_BIND).unwrap();
        let other = pair.b.context.alloc_pd().unwrap();
        let foreign = other.alloc_window().unwrap();
        let window = pair.b.pd.alloc_window().unwrap();
        let all = AccessFlags::REMOTE;
        let good = (window.rkey(), region.lkey(), region.address(), 64u64, all);
        let cases: [(_, LocalCause); 8] = [
            ((window.rkey(), plain.lkey(), plain.address(), 64, all), LocalCause::KeyAccess),
            ((window.rkey(), read_only.lkey(), read_only.address(), 64, all), LocalCause::KeyAccess),
            ((window.rkey(), region.lkey() ^ 1, region.address(), 64, all), LocalCause::KeyTag),
            ((window.rkey(), region.lkey(), region.address(), 4097, all), LocalCause::KeyBounds),
            ((window.rkey(), region.lkey(), region.address() - 1, 2, all), LocalCause::KeyBounds),
            ((foreign.rkey(), region.lkey(), region.address(), 64, all), LocalCause::KeyPd),
            ((region.lkey(), region.lkey(), region.address(), 64, all), LocalCause::KeyAccess),
            ((31 << 8, region.lkey(), region.address(), 64, all), LocalCause::KeyIndex),
        ];
        let op = |(key, lkey, address, bytes, access)| SendOp::BindMw {
            key,
            lkey,
            address,
            bytes,
            access,
            kind: WindowType::Type2B,
        };
        for (bind, cause) in cases {
            let (_qp, mut peer) = pair.connect(&connection()).unwrap();
            let wr = |id, op| SendWr::new(id, op, &[]);
            post(&mut peer, &[wr(1, op(bind)), wr(2, op(good))]);
            let done = wait(&pair, &pair.b, 2);
            let bound = [(1, WcStatus::MwBindErr), (2, WcStatus::WrFlushErr)];
            assert_eq!(ends(&done), bound, "{config}: {bind:x?}");
            assert_eq!(done[0].syndrome(), cause.code(), "{config}: {bind:x?}");
        }
        // An invalidation is another memory management operation; a bound window is not bound again, and a length of 0 unbinds.
        let (_qp, mut peer) = pair.connect(&connection()).unwrap();
        let wr = |id, op| SendWr::new(id, op, &[]);
        let unbind = op((window.rkey() ^ 1, 0, 0, 0, AccessFlags::LOCAL_READ));
        post(&mut peer, &[wr(1, op(good)), wr(2, unbind), wr(3, op(good)), wr(4, op(good))]);
        let done = wait(&pair, &pair.b, 4);
        assert_eq!(ends(&done), [(1, WELL), (2, WELL), (3, WELL), (4, WcStatus::MwBindErr)]);
        let (_qp, mut peer) = pair.connect(&connection()).unwrap();
        post(&mut peer, &[SendWr::local_inv(1, window.rkey())]);
        let done = wait(&pair, &pair.b, 1);
        assert_eq!(ends(&done), [(1, WcStatus::MwBindErr)], "it is another queue pair's");
    }
}

#[test]
fn a_region_with_windows_stays_and_a_window_is_of_no_use_to_others() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (memory(&pair.a, 4096), memory(&pair.b, 4096));
        let mut windows: Vec<_> = (0..2).map(|_| pair.b.pd.alloc_window().unwrap()).collect();
        let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
        let (mut other, mut other_peer) = pair.connect(&connection()).unwrap();
        let rights = AccessFlags::REMOTE;
        for window in &mut windows {
            post(&mut peer, &[window.bind(1, &to, 0, 64, rights).unwrap()]);
        }
        wait(&pair, &pair.b, 2);
        let sges = [from.sge(0, 8)];
        // Its own peer, then another one; and the card's own requests.
        post(&mut qp, &[SendWr::write(1, &sges, windows[0].remote(to.address()))]);
        assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(1, WELL)]);
        post(&mut other, &[SendWr::write(2, &sges, windows[0].remote(to.address()))]);
        assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(2, REFUSED)]);
        let own = Sge { address: to.address(), lkey: windows[0].rkey(), bytes: 8 };
        let (_again, mut again_peer) = pair.connect(&connection()).unwrap();
        post(&mut again_peer, &[SendWr::send(3, &[own])]);
        let done = wait(&pair, &pair.b, 1);
        assert_eq!(ends(&done), [(3, WcStatus::LocProtErr)]);
        assert_eq!(done[0].syndrome(), LocalCause::KeyAccess.code());
        // A queue pair that is not the owner invalidates nothing.
        let (_third, mut third) = pair.connect(&connection()).unwrap();
        post(&mut third, &[windows[0].invalidate(4)]);
        assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(4, WcStatus::MwBindErr)]);
        let _ = &mut other_peer;
        // One window less, both less.
        let refused = to.destroy().unwrap_err();
        assert!(matches!(refused, Error::Command { .. }), "{refused}");
        // The card keeps it until the last of its windows goes.
        let mapped = || pair.mapped(1);
        let before = mapped();
        let last = windows.pop().unwrap();
        drop(windows);
        assert_eq!(mapped(), before);
        drop(last);
        assert!(mapped() < before);
        let to = memory(&pair.b, 4096);
        let mut one = pair.b.pd.alloc_window().unwrap();
        let mut two = pair.b.pd.alloc_window().unwrap();
        post(
            &mut peer,
            &[one.bind(1, &to, 0, 64, rights).unwrap(), two.bind(2, &to, 0, 64, rights).unwrap()],
        );
        wait(&pair, &pair.b, 2);
        one.destroy().unwrap();
        post(&mut peer, &[two.invalidate(3)]);
        wait(&pair, &pair.b, 1);
        to.destroy().unwrap();
    }
}

#[test]
fn what_is_posted_behind_a_bind_finds_it_and_all_of_it_takes_no_psn() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        pair.world.lock().link_mut(1).keep_frames(true);
        let (from, to) = (memory(&pair.a, 65536), memory(&pair.b, 65536));
        let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
        let mut window = pair.b.pd.alloc_window().unwrap();
        // Binds, writes of its own and invalidations, all at once: messages of no PSN between others, at the beginning and at the end.
        let sges = [to.sge(0, 3000)];
        let remote = memory_for_peer(&pair, &from);
        let mut wrs = Vec::new();
        for i in 0..4 {
            wrs.push(window.bind(10 * i, &to, 64, 64, AccessFlags::REMOTE).unwrap());
            wrs.push(SendWr::write(10 * i + 1, &sges, remote.remote(0)));
            wrs.push(window.invalidate(10 * i + 2));
            wrs.push(SendWr::write(10 * i + 3, &sges, remote.remote(0)).fenced());
        }
        wrs.push(window.bind(90, &to, 64, 64, AccessFlags::REMOTE).unwrap());
        post(&mut peer, &wrs);
        let done = wait(&pair, &pair.b, wrs.len());
        assert!(done.iter().all(|done| done.is_success()), "{:?}", ends(&done));
        let mut order: Vec<u64> = (0..4).flat_map(|i| (0..4).map(move |j| 10 * i + j)).collect();
        order.push(90);
        assert_eq!(done.iter().map(|done| done.wr_id()).collect::<Vec<_>>(), order);
        let frames = pair.world.lock().link_mut(1).take_frames();
        let psns: Vec<u32> = frames
            .iter()
            .map(|frame| Frame::parse(&frame.bytes).unwrap())
            .filter(|frame| frame.opcode().is_ok_and(|o| o.operation() == Operation::Write))
            .map(|frame| frame.bth.psn)
            .collect();
        assert_eq!(psns.len(), 8 * 3);
        assert!(psns.windows(2).all(|two| two[1] == (two[0] + 1) & 0xff_ffff), "{psns:x?}");
        // The last one serves.
        post(&mut qp, &[SendWr::write(1, &[from.sge(0, 8)], window.remote(to.address() + 64))]);
        assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(1, WELL)]);
    }
}

/// Memory of card a that card b may write.
fn memory_for_peer(pair: &Pair, like: &MemoryRegion) -> MemoryRegion {
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    pair.a.region(0, like.len(), access).unwrap()
}

#[test]
fn binds_happen_once_and_in_their_place_on_a_wire_that_loses_frames() {
    for config in chosen!(CONFIGS) {
        for seed in 1..=number(1, 3) {
            let pair = pair(config);
            let (from, to) = (memory(&pair.a, 65536), memory(&pair.b, 65536));
            let remote = memory_for_peer(&pair, &from);
            let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
            let faults =
                Faults { drop: 0.08, duplicate: 0.05, reorder: 0.05, hold: 300, ..Faults::default() };
            for link in 0..2 {
                pair.world.lock().link_mut(link).set_timed_filter(Some(faults.filter(seed + link as u64)));
            }
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut window = pair.b.pd.alloc_window().unwrap();
            let (mut bound, mut id) = (false, 0);
            let mut uses = 0;
            for round in 0..30 {
                let sges = [to.sge(0, rng.random_range(0..5000))];
                let read = [to.sge(0, rng.random_range(0..3000))];
                let open = memory_reads(&pair);
                let mut wrs = Vec::new();
                for _ in 0..rng.random_range(1..12) {
                    id += 1;
                    wrs.push(match rng.random_range(0..5) {
                        0 | 1 if bound => {
                            bound = false;
                            window.invalidate(id)
                        }
                        0 | 1 => {
                            bound = true;
                            window.bind(id, &to, 20_000, 4000, AccessFlags::REMOTE).unwrap()
                        }
                        2 => SendWr::read(id, &read, open.remote(0)),
                        _ => SendWr::write(id, &sges, remote.remote(0)),
                    });
                }
                let first = id + 1 - wrs.len() as u64;
                post(&mut peer, &wrs);
                let done = wait(&pair, &pair.b, wrs.len());
                let expected: Vec<_> = (first..=id).map(|id| (id, WELL)).collect();
                assert_eq!(ends(&done), expected, "{config}, seed {seed}, round {round}{}", pair.diagnose());
                if bound {
                    let sges = [from.sge(0, 100)];
                    post(&mut qp, &[SendWr::write(1, &sges, window.remote(to.address() + 21_000))]);
                    assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(1, WELL)], "{config}, seed {seed}");
                    uses += 1;
                }
            }
            assert!(uses > 5, "{config}, seed {seed}: {uses} windows used");
        }
    }
}

/// Memory of card a that card b may read.
fn memory_reads(pair: &Pair) -> MemoryRegion {
    pair.a.region(0, 4096, AccessFlags::REMOTE_READ).unwrap()
}

#[test]
fn a_send_that_invalidates_takes_effect_between_the_packets_around_it() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (memory(&pair.a, 16384), memory(&pair.b, 16384));
        for before in [8, 64, 3000] {
            let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
            let mut window = pair.b.pd.alloc_window().unwrap();
            post(&mut peer, &[window.bind(1, &to, 4096, 4096, AccessFlags::REMOTE).unwrap()]);
            wait(&pair, &pair.b, 1);
            receive(&mut peer, 5, &[to.sge(0, 64)]);
            let old = part(&to, 8000, 8);
            let (data, text, more) = ([from.sge(0, before)], [from.sge(40, 20)], [from.sge(100, 8)]);
            let at = to.address() + 4096;
            // With one doorbell: the packets come one behind the other.
            post(
                &mut qp,
                &[
                    SendWr::write(1, &data, window.remote(at)),
                    SendWr::send_inv(2, &text, window.rkey()),
                    SendWr::write(3, &more, window.remote(to.address() + 8000)),
                ],
            );
            let done = wait(&pair, &pair.b, 1)[0];
            assert_eq!((done.wr_id(), done.status().known()), (5, Some(WELL)));
            let told = (done.opcode().known(), done.invalidated(), done.imm(), done.byte_len());
            assert_eq!(told, (Some(CqeOpcode::RecvInv), Some(window.rkey()), None, 20));
            assert_eq!(ends(&wait(&pair, &pair.a, 3)), [(1, WELL), (2, WELL), (3, REFUSED)], "{config}");
            assert_eq!(part(&to, 4096, before as usize), part(&from, 0, before as usize), "{config}");
            assert_eq!(part(&to, 0, 20), part(&from, 40, 20));
            assert_eq!(part(&to, 8000, 8), old, "{config}: what came behind wrote nothing");
        }
    }
}

#[test]
fn a_key_that_may_not_be_invalidated_is_a_refused_access_and_changes_nothing() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (memory(&pair.a, 4096), memory(&pair.b, 4096));
        let open = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
        let plain = pair.b.region(0, 4096, open).unwrap();
        let unbound = pair.b.pd.alloc_window().unwrap();
        let mut bound = pair.b.pd.alloc_window().unwrap();
        let mut others = pair.b.pd.alloc_window().unwrap();
        let (_keep, mut owner) = pair.connect(&connection()).unwrap();
        post(&mut owner, &[others.bind(1, &to, 0, 64, AccessFlags::REMOTE).unwrap()]);
        wait(&pair, &pair.b, 1);
        for which in 0..5 {
            let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
            let key = match which {
                0 => plain.rkey(),
                1 => unbound.rkey(),
                2 => others.rkey(),
                3 => 31 << 8,
                _ => {
                    post(&mut peer, &[bound.bind(1, &to, 0, 64, AccessFlags::REMOTE).unwrap()]);
                    wait(&pair, &pair.b, 1);
                    bound.rkey() ^ 1
                }
            };
            let before = bytes(to.memory());
            receive(&mut peer, 5, &[to.sge(1000, 64)]);
            post(&mut qp, &[SendWr::send_inv(2, &[from.sge(0, 8)], key)]);
            assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(2, REFUSED)], "{config}: {which}");
            assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(5, REFUSED)], "{config}: {which}");
            assert_eq!(bytes(to.memory()), before);
        }
        // They are all as they were.
        let (mut qp, _peer) = pair.connect(&connection()).unwrap();
        post(&mut qp, &[SendWr::write(1, &[from.sge(0, 8)], plain.remote(0))]);
        assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(1, WELL)]);
    }
}

#[test]
fn a_repeated_invalidation_does_not_touch_the_window_that_was_bound_since() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (memory(&pair.a, 4096), memory(&pair.b, 4096));
        let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
        let mut window = pair.b.pd.alloc_window().unwrap();
        post(&mut peer, &[window.bind(1, &to, 0, 64, AccessFlags::REMOTE).unwrap()]);
        wait(&pair, &pair.b, 1);
        receive(&mut peer, 5, &[to.sge(1000, 64)]);
        pair.world.lock().link_mut(0).keep_frames(true);
        let key = window.rkey();
        post(&mut qp, &[SendWr::send_inv(2, &[from.sge(0, 8)], key)]);
        wait(&pair, &pair.a, 1);
        wait(&pair, &pair.b, 1);
        let frames = pair.world.lock().link_mut(0).take_frames();
        let frame = frames
            .iter()
            .find(|frame| Frame::parse(&frame.bytes).is_ok_and(|f| f.opcode() == Ok(Opcode::RcSendOnlyInv)));
        let frame = frame.expect("the SEND").bytes.clone();
        // The same key once more, as no driver would choose it.
        let (lkey, access) = (to.lkey(), AccessFlags::REMOTE);
        let (address, kind) = (to.address(), WindowType::Type2B);
        let again = SendOp::BindMw { key, lkey, address, bytes: 64, access, kind };
        post(&mut peer, &[SendWr::new(3, again, &[])]);
        assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(3, WELL)]);
        pair.world.lock().inject(1, frame);
        pair.world.lock().run(3000);
        post(&mut qp, &[SendWr::write(4, &[from.sge(0, 8)], window.remote(to.address()))]);
        assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(4, WELL)], "{config}: it is still bound");
    }
}

/// Its owner takes it back at any moment of a long message, and sees what is in it when that is complete (IBTA volume 1, 10.6.7.2.5): all of the message, or
/// nothing. Where a packet comes in between, its queue pair ends before.
#[test]
fn nothing_is_written_by_a_window_that_was_taken_back_in_use() {
    const LENGTH: usize = 8 << 10;
    for config in chosen!(CARDS) {
        let pair = pair(config);
        let beats = (LENGTH / pair.world.lock().link(0).width()) as u64;
        let (from, to) = (memory(&pair.a, LENGTH), memory(&pair.b, LENGTH));
        let mut window = pair.b.pd.alloc_window().unwrap();
        let connection = Connection { mtu: PathMtu::B4096, ..connection() };
        let (mut qp, mut peer) = pair.connect(&connection).unwrap();
        let mut random = SmallRng::seed_from_u64(3);
        let mut whole = 0;
        let rounds = number(30, 60);
        for round in 0..rounds {
            let mut data = vec![0; LENGTH];
            random.fill_bytes(&mut data);
            from.memory().write(0, &data);
            to.memory().fill(0, LENGTH, round);
            post(&mut peer, &[window.bind(1, &to, 0, LENGTH, AccessFlags::REMOTE).unwrap()]);
            assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(1, WELL)]);
            let remote = window.remote(to.address());
            post(&mut qp, &[SendWr::write(2, &[from.sge(0, LENGTH as u32)], remote)]);
            let moment = random.random_range(0..200 + 3 * beats);
            pair.world.lock().run(moment);
            post(&mut peer, &[window.invalidate(3)]);
            let back = ends(&wait(&pair, &pair.b, 1));
            let then = bytes(to.memory());
            let last = wait(&pair, &pair.a, 1);
            pair.world.lock().run(10 * beats);
            if back == [(3, WELL)] {
                assert!(bytes(to.memory()) == then, "{config}, round {round}: written after that");
                assert!(then == data || then == vec![round; LENGTH], "{config}, round {round}: a part of it");
                assert!(then == data || ends(&last) == [(2, REFUSED)], "{config}, round {round}: {last:?}");
                whole += u32::from(then == data);
            } else {
                assert_eq!(back, [(3, WcStatus::WrFlushErr)], "{config}, round {round}");
            }
            (qp, peer) = pair.reconnect(qp, peer, &connection).unwrap();
        }
        assert!(6 * whole > u32::from(rounds), "{config}: {whole} times behind the whole message");
    }
}

#[test]
fn what_a_queue_pair_has_bound_ends_with_its_life() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (memory(&pair.a, 4096), memory(&pair.b, 4096));
        let mut window = pair.b.pd.alloc_window().unwrap();
        let (qp, mut peer) = pair.connect(&connection()).unwrap();
        post(&mut peer, &[window.bind(1, &to, 0, 64, AccessFlags::REMOTE).unwrap()]);
        assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(1, WELL)]);
        let number = peer.number();
        let (mut qp, peer) = pair.reconnect(qp, peer, &connection()).unwrap();
        assert_eq!(peer.number(), number);
        // Neither the new peer nor the queue pair itself has anything of it.
        let before = bytes(to.memory());
        post(&mut qp, &[SendWr::write(2, &[from.sge(0, 8)], window.remote(to.address()))]);
        assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(2, REFUSED)], "{config}");
        assert_eq!(bytes(to.memory()), before, "{config}");
        let (_qp, mut peer_again) = pair.reconnect(qp, peer, &connection()).unwrap();
        post(&mut peer_again, &[window.invalidate(3)]);
        assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(3, WcStatus::MwBindErr)], "{config}");
        // It can be freed, and then the region.
        window.destroy().unwrap();
        to.destroy().unwrap();
    }
}

#[test]
fn a_window_that_a_destroyed_queue_pair_left_bound_is_bound_by_another() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, old, new) = (memory(&pair.a, 4096), memory(&pair.b, 4096), memory(&pair.b, 8192));
        let mut window = pair.b.pd.alloc_window().unwrap();
        let (qp, mut peer) = pair.connect(&connection()).unwrap();
        post(&mut peer, &[window.bind(1, &old, 0, 64, AccessFlags::REMOTE).unwrap()]);
        assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(1, WELL)], "{config}");
        let stale = window.remote(old.address());
        // As long as its queue pair lives, no other one binds it.
        let (_other, mut other_peer) = pair.connect(&connection()).unwrap();
        post(&mut other_peer, &[window.bind(2, &new, 0, 64, AccessFlags::REMOTE).unwrap()]);
        assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(2, WcStatus::MwBindErr)], "{config}");
        qp.destroy().unwrap();
        peer.destroy().unwrap();
        let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
        // A bind that breaks a rule leaves it as it is.
        let beyond = SendOp::BindMw {
            key: window.rkey() ^ 1,
            lkey: new.lkey(),
            address: new.address() + 8000,
            bytes: 4096,
            access: AccessFlags::REMOTE_WRITE,
            kind: WindowType::Type2B,
        };
        let beyond = SendWr::new(3, beyond, &[]);
        post(&mut peer, &[beyond]);
        assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(3, WcStatus::MwBindErr)], "{config}");
        (qp, peer) = pair.reconnect(qp, peer, &connection()).unwrap();
        post(&mut peer, &[window.bind(4, &new, 100, 64, AccessFlags::REMOTE).unwrap()]);
        assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(4, WELL)], "{config}");
        // It opens the new place and no longer the old one.
        let before = bytes(old.memory());
        post(&mut qp, &[SendWr::write(5, &[from.sge(0, 8)], window.remote(new.address() + 100))]);
        assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(5, WELL)], "{config}");
        assert_eq!(part(&new, 100, 8), part(&from, 0, 8), "{config}");
        post(&mut qp, &[SendWr::write(6, &[from.sge(0, 8)], stale)]);
        assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(6, REFUSED)], "{config}");
        assert_eq!(bytes(old.memory()), before, "{config}");
        // The old region is free, the new one is not.
        old.destroy().unwrap();
        let error = new.destroy().map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Command { .. }), "{config}: {error}");
    }
}

/// What a window of type 1 gives, in the model.
#[derive(Clone, Copy, Debug)]
struct Given {
    region: usize,
    at: usize,
    len: usize,
    access: AccessFlags,
}

/// Windows of type 1, bound at random by either of two queue pairs of their domain, whatever they are bound to already; and accesses by
/// the peers of both, by the key that is in force and by keys that were, within the bounds and beyond, with the right and without. Each ends
/// as in a model, and only what it grants changes memory (IBTA volume 1, 10.6.7.2.1).
#[test]
fn windows_of_type_1_give_what_they_were_last_bound_to_by_whichever_queue_pair() {
    const BYTES: usize = 16384;
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let from = memory(&pair.a, BYTES);
        let regions: Vec<MemoryRegion> = (0..2).map(|i| memory(&pair.b, BYTES + i)).collect();
        let mut want: Vec<Vec<u8>> = regions.iter().map(|region| bytes(region.memory())).collect();
        let mut ways: Vec<_> = (0..2).map(|_| Some(pair.connect(&connection()).unwrap())).collect();
        let alloc = || pair.b.pd.alloc_window_of(WindowType::Type1).unwrap();
        let mut windows: Vec<_> = (0..3).map(|_| (alloc(), None::<Given>, Vec::<u32>::new())).collect();
        let mut random = SmallRng::seed_from_u64(61);
        let (mut rebound, mut granted, mut stale) = (0, [0; 2], 0);
        for step in 0..number(150, 400) {
            let (way, number) = (random.random_range(0..2), random.random_range(0..3));
            let (qp, peer) = ways[way].as_mut().unwrap();
            let (window, given, old) = &mut windows[number];
            let what = random.random_range(0..10);
            if what < 3 || given.is_none() {
                let region = random.random_range(0..2);
                let at = random.random_range(0..BYTES);
                let len = random.random_range(1..=(BYTES - at).min(6000));
                let rights = [AccessFlags::REMOTE_WRITE, AccessFlags::REMOTE_READ];
                let some = rights.into_iter().filter(|_| random.random_bool(0.7));
                let access = some.fold(AccessFlags::default(), |all, right| all | right);
                old.push(window.rkey());
                let bind = match what {
                    0 => window.unbind(1).unwrap(),
                    _ => window.bind(1, &regions[region], at, len, access).unwrap(),
                };
                post(peer, &[bind]);
                assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(1, WELL)], "{config}, step {step}");
                rebound += u32::from(given.is_some() && what > 0);
                *given = (what > 0).then_some(Given { region, at, len, access });
                continue;
            }
            let Some(Given { region, at, len, access }) = *given else { continue };
            let current = window.rkey();
            let by_old = random.random_bool(0.15);
            let key = old[random.random_range(0..old.len())];
            let key = if by_old { key } else { current };
            let first = random.random_range(0..len);
            let most = (len - first).min(4096);
            let beyond = random.random_bool(0.05);
            let count = if beyond { len - first + 1 } else { random.random_range(1..=most) };
            let writes = random.random_bool(0.5);
            let right = if writes { AccessFlags::REMOTE_WRITE } else { AccessFlags::REMOTE_READ };
            let start = regions[region].address() + (at + first) as u64;
            let remote = RemoteAddress { address: start, rkey: key };
            let source = random.random_range(0..BYTES - count);
            let sges = [from.sge(source, count as u32)];
            let wr = if writes { SendWr::write(2, &sges, remote) } else { SendWr::read(2, &sges, remote) };
            let grants = key == current && !beyond && access.contains(right);
            post(qp, &[wr]);
            let end = if grants { WELL } else { REFUSED };
            let what = format!(
                "{config}, step {step}: window {number}, {given:?}, old {by_old}, {count} at {first}"
            );
            assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(2, end)], "{what}");
            let at = at + first;
            if grants {
                granted[way] += 1;
                let data = part(&from, source, count);
                match writes {
                    true => want[region][at..at + count].copy_from_slice(&data),
                    false => assert!(data == want[region][at..at + count], "{what}: it reads something else"),
                }
            } else {
                stale += u32::from(key != current);
                // The window outlives the incarnation of the queue pair that bound it.
                let (qp, peer) = ways[way].take().unwrap();
                ways[way] = Some(pair.reconnect(qp, peer, &connection()).unwrap());
            }
            for (region, want) in regions.iter().zip(&want) {
                assert!(bytes(region.memory()) == *want, "{what}: memory has something else");
            }
        }
        assert!(
            rebound > 10 && granted[0].min(granted[1]) > 10 && stale > 3,
            "{rebound} {granted:?} {stale}"
        );
        // A region that windows hold stays, and they do not hold it any more when they are freed.
        drop(windows);
        regions.into_iter().for_each(|region| region.destroy().unwrap());
    }
}

/// A queue pair binds a window of type 1 anew at any moment of a long message that comes by another one. When the bind is complete, nothing
/// is written by the old key any more, and the new one works (IBTA volume 1, 10.6.7.2.1).
#[test]
fn nothing_is_written_by_the_old_key_when_the_next_bind_of_a_window_of_type_1_is_complete() {
    const LENGTH: usize = 8 << 10;
    for config in chosen!(CARDS) {
        let pair = pair(config);
        let beats = (LENGTH / pair.world.lock().link(0).width()) as u64;
        let (from, to, next) = (memory(&pair.a, LENGTH), memory(&pair.b, LENGTH), memory(&pair.b, LENGTH));
        let mut window = pair.b.pd.alloc_window_of(WindowType::Type1).unwrap();
        let connection = Connection { mtu: PathMtu::B4096, ..connection() };
        let (mut qp, mut peer) = pair.connect(&connection).unwrap();
        let (mut other, mut binder) = pair.connect(&connection).unwrap();
        let mut random = SmallRng::seed_from_u64(4);
        let (mut whole, mut halves) = (0, 0);
        let rounds = number(30, 60);
        for round in 0..rounds {
            let mut data = vec![0; LENGTH];
            random.fill_bytes(&mut data);
            from.memory().write(0, &data);
            to.memory().fill(0, LENGTH, round);
            post(&mut peer, &[window.bind(1, &to, 0, LENGTH, AccessFlags::REMOTE).unwrap()]);
            assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(1, WELL)]);
            let remote = window.remote(to.address());
            post(&mut qp, &[SendWr::write(2, &[from.sge(0, LENGTH as u32)], remote)]);
            let moment = random.random_range(0..200 + 3 * beats);
            pair.world.lock().run(moment);
            post(&mut binder, &[window.bind(3, &next, 0, LENGTH, AccessFlags::REMOTE).unwrap()]);
            assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(3, WELL)], "{config}, round {round}");
            let then = bytes(to.memory());
            let last = ends(&wait(&pair, &pair.a, 1));
            pair.world.lock().run(10 * beats);
            assert!(bytes(to.memory()) == then, "{config}, round {round}: written after that");
            // A packet of the message is granted by itself.
            let written = (0..=2).find(|packets| {
                let (came, rest) = then.split_at(4096 * packets);
                *came == data[..came.len()] && rest.iter().all(|byte| *byte == round)
            });
            let written = written.unwrap_or_else(|| panic!("{config}, round {round}: a part of a packet"));
            assert_eq!(last, [(2, if written == 2 { WELL } else { REFUSED })], "{config}, round {round}");
            whole += u32::from(written == 2);
            halves += u32::from(written == 1);
            post(&mut other, &[SendWr::write(4, &[from.sge(7, 100)], window.remote(next.address()))]);
            assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(4, WELL)], "{config}, round {round}");
            assert!(part(&next, 0, 100) == data[7..107], "{config}, round {round}");
            if written < 2 {
                (qp, peer) = pair.reconnect(qp, peer, &connection).unwrap();
            }
        }
        let all = u32::from(rounds);
        assert!(6 * whole > all && 6 * whole < 5 * all, "{config}: {whole} times after the whole message");
        println!("{config}: {whole} whole messages, {halves} of one packet, of {all}");
    }
}

#[test]
fn no_invalidation_works_on_a_window_of_type_1_and_a_bind_names_its_type() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (memory(&pair.a, 4096), memory(&pair.b, 4096));
        let mut window = pair.b.pd.alloc_window_of(WindowType::Type1).unwrap();
        let other = pair.b.pd.alloc_window().unwrap();
        let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
        post(&mut peer, &[window.bind(1, &to, 0, 64, AccessFlags::REMOTE).unwrap()]);
        assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(1, WELL)]);
        let remote = window.remote(to.address());
        let op = |key, kind, bytes| SendOp::BindMw {
            key,
            lkey: to.lkey(),
            address: to.address(),
            bytes,
            access: AccessFlags::REMOTE,
            kind,
        };
        let refused = [
            SendWr::local_inv(2, window.rkey()),
            SendWr::new(2, op(window.rkey() ^ 1, WindowType::Type2B, 64), &[]),
            SendWr::new(2, op(window.rkey() ^ 1, WindowType::Type2B, 0), &[]),
            SendWr::new(2, op(other.rkey() ^ 1, WindowType::Type1, 64), &[]),
            SendWr::new(2, op(other.rkey() ^ 1, WindowType::Type1, 0), &[]),
        ];
        for wr in refused {
            post(&mut peer, &[wr]);
            let done = wait(&pair, &pair.b, 1);
            assert_eq!(ends(&done), [(2, WcStatus::MwBindErr)], "{config}");
            assert_eq!(done[0].syndrome(), LocalCause::KeyAccess.code(), "{config}");
            (qp, peer) = pair.reconnect(qp, peer, &connection()).unwrap();
        }
        receive(&mut peer, 3, &[]);
        post(&mut qp, &[SendWr::send_inv(4, &[], window.rkey())]);
        assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(4, REFUSED)], "{config}");
        assert_eq!(ends(&wait(&pair, &pair.b, 1)), [(3, WcStatus::RemAccessErr)], "{config}");
        let (mut qp, _peer) = pair.reconnect(qp, peer, &connection()).unwrap();
        post(&mut qp, &[SendWr::write(5, &[from.sge(0, 8)], remote)]);
        assert_eq!(ends(&wait(&pair, &pair.a, 1)), [(5, WELL)], "{config}: it is bound still");
    }
}
