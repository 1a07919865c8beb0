// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that write over their work requests while the card is at them: read, cut up, waiting for an answer, sent again after loss. What
//! such a message is nobody can say. But each work request ends once and in its order, and nobody else finds out.

use crate::tier::chosen;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use ferrowire::{QpAttributes, QpInitAttr, QpState, RecvWr, SendOpcode, SendWr, WcStatus};
use ferrowire_sim::pair::Connection;
use ferrowire_spec::queue::send_wqe::sge;
use ferrowire_spec::queue::WQE_UNIT;
use ferrowire_spec::wire::frame::Frame;
use ferrowire_spec::wire::opcode::Service;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::rig::{any, connection, Rig, CONFIGS};
use super::sends::{mutant, Ground, Victim, Wqe};

/// Work requests of each queue pair.
const COUNT: usize = 12;

/// Of the frames to some queue pair of each card, which may be another one later, some are lost. It is there from the beginning: a filter
/// takes whole frames.
fn lose(rig: &Rig, seed: u64) -> Arc<[AtomicU32; 2]> {
    let victims = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    for (link, card) in [(0, 1), (1, 0)] {
        let (mut rng, victims) = (SmallRng::seed_from_u64(seed + link as u64), Arc::clone(&victims));
        let filter = move |frame: &[u8]| {
            let mine = |qpn: u32| qpn == victims[card].load(Ordering::Relaxed);
            match Frame::parse(frame) {
                Ok(parsed) if mine(parsed.bth.destqp) && rng.random_bool(0.08) => Vec::new(),
                _ => vec![frame.to_vec()],
            }
        };
        rig.pair.world.lock().link_mut(link).set_filter(Some(Box::new(filter)));
    }
    victims
}

/// A sound WQE, or one that is not.
fn another(rng: &mut SmallRng, ground: &Ground, victim: &Victim) -> Wqe {
    if rng.random_bool(0.3) {
        return mutant(rng, ground, victim);
    }
    let datagram = victim.qp.service() == Service::Ud;
    let opcodes = [SendOpcode::Send, SendOpcode::Write, SendOpcode::Read, SendOpcode::FetchAdd];
    let wqe = victim.sound(ground, any(rng, &opcodes[..if datagram { 1 } else { 4 }]));
    let (address, key, bytes) = wqe.sge(0);
    let bytes = if bytes == 8 { 8 } else { any(rng, &[0, 1, 100, 1024, 1500, 4000]) };
    wqe.with_sge(0, (address, key, bytes))
}

fn play(config: &str, rounds: u64, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut rig = Rig::new(config);
    let lossy = lose(&rig, seed);
    let ground = Ground::new(&mut rig);
    let mut ended = [0; 2];
    for round in 0..rounds {
        let what = format!("{config}, seed {seed}, round {round}");
        let service = any(&mut rng, &[Service::Rc, Service::Rc, Service::Rc, Service::Uc, Service::Ud]);
        let connection =
            Connection { service, signal_all: true, timeout: 2, retry_cnt: 7, rnr_retry: 2, ..connection() };
        let units = any(&mut rng, &[1, 2, 4, 8]);
        let mut victim = Victim::of(&rig, &ground, units, &connection);
        lossy[0].store(victim.qp.number(), Ordering::Relaxed);
        lossy[1].store(victim.peer.number(), Ordering::Relaxed);
        let wqes: Vec<Wqe> = (0..COUNT).map(|_| another(&mut rng, &ground, &victim)).collect();
        let mut batch = victim.qp.start_post_send();
        let (sges, peer) = ([ground.from.sge(0, 64)], victim.peer.number());
        for (i, wqe) in wqes.iter().enumerate() {
            let wr = SendWr::send(i as u64, &sges);
            let datagram = service == Service::Ud;
            batch.post(&if datagram { wr.to(&ground.handle, peer, 1 << 31) } else { wr }).unwrap();
            victim.ring.write(i * units * WQE_UNIT, &wqe.0);
        }
        batch.ring().unwrap();
        for _ in 0..rng.random_range(0..60) {
            let i = rng.random_range(0..COUNT);
            let wqe = another(&mut rng, &ground, &victim);
            // Whole ones, and parts of two.
            let end = any(&mut rng, &[wqe.0.len(), 16, 64]);
            victim.ring.write(i * units * WQE_UNIT, &wqe.0[..end]);
            rig.step();
            if rng.random_bool(0.1) {
                let sges = [ground.inbox.sge(0, rng.random_range(0..8192))];
                let _ = victim.peer.start_post_recv().post(&RecvWr::new(0, &sges));
            }
        }
        let ends = rig.ends(0, COUNT);
        assert!(ends.iter().all(|done| done.qpn() == victim.qp.number()), "{what}: {ends:?}");
        let ids: Vec<u64> = ends.iter().map(|done| done.wr_id()).collect();
        assert_eq!(ids, (0..COUNT as u64).collect::<Vec<_>>(), "{what}: {ends:?}");
        let well = ends.iter().filter(|done| done.is_success()).count();
        // Well ones, one that fails, and the flushed.
        let flushed = ends[well..].iter().skip(1).all(|done| done.status() == WcStatus::WrFlushErr);
        assert!(ends[..well].iter().all(|done| done.is_success()) && flushed, "{what}: {ends:?}");
        ended[usize::from(well == COUNT)] += 1;
        rig.others_go_on();
        // Its number has another life.
        victim.qp.modify(QpState::Err, &QpAttributes::default()).unwrap();
        rig.ends = Default::default();
    }
    assert!(ended[0] > rounds / 4, "{config}, seed {seed}: {ended:?}");
}

#[test]
fn sends_that_are_written_over_end_once_each_and_disturb_nobody() {
    for config in chosen!(CONFIGS) {
        play(config, 25, 1);
    }
}

/// A unit of a receive: elements of two regions, many of which are as they should be.
fn elements(rng: &mut SmallRng, ground: &Ground) -> Vec<u8> {
    let mut all = vec![0; WQE_UNIT];
    for at in all.chunks_mut(sge::BYTES) {
        let region = any(rng, &[&ground.inbox, &ground.to]);
        let offset = if rng.random_bool(0.03) { -1 } else { rng.random_range(0..4096) };
        let len = any(rng, &[0, 1, 64, 1000, 2000, 4096, 4097]);
        let lkey = if rng.random_bool(0.03) { rng.random() } else { region.lkey() };
        let addr = region.address().wrapping_add_signed(offset);
        sge::Sge { addr, lkey, len }.emit(at).unwrap();
    }
    all
}

fn play_receives(config: &str, rounds: u64, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut rig = Rig::new(config);
    let lossy = lose(&rig, seed);
    let ground = Ground::new(&mut rig);
    for round in 0..rounds {
        let what = format!("{config}, seed {seed}, round {round}");
        let connection = Connection { signal_all: true, timeout: 2, rnr_retry: 2, ..connection() };
        let (a, b) = (rig.node(0), rig.node(1));
        let units = any(&mut rng, &[1, 2, 4]);
        let mut attr = QpInitAttr::rc(&b.cq, &b.cq);
        attr.max_recv_sge = 4 * units as u8;
        let (theirs, rings) = rig.rings_of(1, || b.pd.create_qp(&attr).unwrap());
        let mut attr = QpInitAttr::rc(&a.cq, &a.cq);
        attr.sq_sig_all = true;
        let own = a.pd.create_qp(&attr).unwrap();
        let (mut qp, mut peer) = rig.pair.bring_up(own, theirs, &connection).unwrap();
        lossy[0].store(qp.number(), Ordering::Relaxed);
        lossy[1].store(peer.number(), Ordering::Relaxed);
        let mut batch = peer.start_post_recv();
        // Behind the ring of its send queue.
        let write =
            |slot: usize, unit: usize, bytes: &[u8]| rings[1].write((slot * units + unit) * WQE_UNIT, bytes);
        for i in 0..COUNT {
            batch.post(&RecvWr::new(i as u64, &[])).unwrap();
            (0..units).for_each(|unit| write(i, unit, &elements(&mut rng, &ground)));
        }
        batch.ring().unwrap();
        let mut batch = qp.start_post_send();
        for i in 0..COUNT as u64 {
            batch.post(&SendWr::send(i, &[ground.from.sge(0, any(&mut rng, &[0, 1, 900, 2500]))])).unwrap();
        }
        batch.ring().unwrap();
        for _ in 0..rng.random_range(0..40) {
            let (slot, unit) = (rng.random_range(0..COUNT), rng.random_range(0..units));
            write(slot, unit, &elements(&mut rng, &ground)[..any(&mut rng, &[16, 32, 64])]);
            rig.step();
        }
        let here = rig.ends(0, COUNT);
        peer.modify(QpState::Err, &QpAttributes::default()).unwrap();
        let there = rig.ends(1, COUNT);
        for (ends, qpn) in [(here, qp.number()), (there, peer.number())] {
            assert!(ends.iter().all(|done| done.qpn() == qpn), "{what}: {ends:?}");
            let ids: Vec<u64> = ends.iter().map(|done| done.wr_id()).collect();
            assert_eq!(ids, (0..COUNT as u64).collect::<Vec<_>>(), "{what}: {ends:?}");
        }
        rig.others_go_on();
    }
}

#[test]
fn receives_that_are_written_over_end_once_each_and_disturb_nobody() {
    for config in chosen!(CONFIGS) {
        play_receives(config, 20, 1);
    }
}
