// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that nobody honest sends: forged, mutated, random.

use ferrowire_spec::csr::{DropReason, HwCounter};
use ferrowire_spec::wire::{Frame, Ip};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::super::types::SendWr;
use super::*;

fn write(p: &mut Pair) -> Vec<u8> {
    let (va, key) = (p.b.va, p.b.key);
    p.a.engine.post_send(p.a.qpn, SendWr::write(1, &[p.a.sge(0, 8)], va, key)).unwrap();
    p.a_sends().remove(0)
}

#[test]
fn packets_from_elsewhere_of_another_partition_or_for_others_are_counted_drops() {
    type Change = fn(&mut Frame<'_>);
    fn ip(frame: &mut Frame<'_>, change: fn(&mut ferrowire_spec::wire::Ipv4)) {
        if let Ip::V4(header) = &mut frame.ip {
            change(header);
        }
    }
    let changes: [(Change, Option<DropReason>); 9] = [
        // What is behind a gap is no drop: it has a counter of its own (counters `drops`).
        (|f| f.bth.psn += 5, None),
        (|f| f.bth.destqp = 0x999, Some(DropReason::NoQp)),
        (|f| f.bth.opcode = Opcode::UcWriteOnly as u8, Some(DropReason::Service)),
        (|f| f.bth.pkey = 0x7ffe, Some(DropReason::Pkey)),
        (|f| ip(f, |h| h.src += 1), Some(DropReason::SourceAddress)),
        (|f| ip(f, |h| h.dst += 1), Some(DropReason::Destination)),
        (|f| f.eth.dst += 1, Some(DropReason::Destination)),
        (|f| f.vlan = Some(ferrowire_spec::wire::Vlan::from_tci(7, 0)), Some(DropReason::Destination)),
        (|f| f.bth.tver = 1, Some(DropReason::BthVersion)),
    ];
    for (change, reason) in changes {
        let mut p = Pair::new();
        let frame = write(&mut p);
        let bad = changed(&frame, change);
        let before = p.b.bytes(0, AREA as usize);
        p.b_gets(&[bad]);
        let counters = p.b.engine.counters();
        let behind = counters.hw(HwCounter::OutOfSequence);
        assert_eq!(reason.map_or(behind, |reason| counters.drops(reason)), 1, "{reason:?}");
        assert_eq!((p.b.state(), p.b.bytes(0, AREA as usize)), (QpState::Rts, before), "{reason:?}");
        p.b_sends();
        p.b_gets(&[frame]);
        assert_eq!(aeth(&p.b_sends()[0]), (0x100, 0x1f, 1), "{reason:?}");
    }
}

#[test]
fn a_limited_member_talks_to_full_members_only() {
    for (ours, theirs, matches) in
        [(0xffff, 0x7fff, true), (0x7fff, 0xffff, true), (0x7fff, 0x7fff, false), (0x8001, 0x8002, false)]
    {
        assert_eq!(super::super::packet::pkey_matches(ours, theirs), matches);
    }
}

#[test]
fn any_changed_bit_of_a_frame_changes_nothing_or_is_not_covered_by_the_icrc() {
    let mut p = Pair::new();
    let frame = write(&mut p);
    // Source address, FECN, BECN and reserved bits of the BTH: neither checked nor covered.
    let free = |byte: usize| (6..12).contains(&byte) || byte == 46;
    let before = p.b.bytes(0, AREA as usize);
    for byte in (0..frame.len()).filter(|byte| !free(*byte)) {
        for bit in 0..8 {
            let mut bad = frame.clone();
            bad[byte] ^= 1 << bit;
            p.b_gets(&[bad]);
            assert_eq!(p.b.bytes(0, AREA as usize), before, "byte {byte}, bit {bit}");
            assert_eq!(p.b_sends().len(), 0, "byte {byte}, bit {bit}");
        }
    }
    p.b_gets(&[frame]);
    assert_eq!(p.b_sends().len(), 1);
}

/// Frames of every kind, in both directions.
fn samples() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut p = Pair::new();
    let (va, key) = (p.b.va, p.b.key);
    for i in 0..2 {
        p.b.recv(i, 4096 * i, 4096);
    }
    for wr in [
        SendWr::send(1, &[p.a.sge(0, 700)]),
        SendWr::send(1, &[p.a.sge(0, 10)]).with_imm(1),
        SendWr::write(1, &[p.a.sge(0, 700)], va, key),
        SendWr::read(1, &[p.a.sge(0, 700)], va, key),
        SendWr::fetch_add(1, p.a.sge(0, 8), va, key, 1),
        SendWr::cmp_swap(1, p.a.sge(0, 8), va, key, 1, 2),
        SendWr::send(1, &[]),
    ] {
        p.a.engine.post_send(p.a.qpn, wr).unwrap();
        loop {
            let (asked, answered) = (p.a_sends(), p.b_sends());
            if asked.is_empty() && answered.is_empty() {
                break;
            }
            p.b_gets(&asked);
            p.a_gets(&answered);
            all.extend(asked.into_iter().chain(answered));
        }
    }
    all
}

#[test]
fn forged_packets_with_right_checksums_change_nothing_that_was_not_granted() {
    let seed = 0x5eed;
    println!("seed {seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let samples = samples();
    for _ in 0..400 {
        let mut p = Pair::new();
        // A quarter of the memory is granted; a window of two receives is another.
        let (half, va) = (AREA / 4, p.b.va);
        p.b.engine.deregister(p.b.key).unwrap();
        let attr = RegionAttr { pd: PD, base: 0x10_0000, va, len: half, rights: Rights::ALL, page: 1 };
        p.b.key = p.b.engine.register(attr, Some(p.b.key)).unwrap();
        p.b.recv(1, 0, 256);
        let before = p.b.bytes(half, (AREA - half) as usize);
        for _ in 0..40 {
            let frame = &samples[rng.random_range(0..samples.len())];
            let mut forged = changed(frame, |frame| {
                let near = Psn::new(rng.random_range(0xfc..0x108));
                if rng.random() {
                    frame.bth.psn = near.get();
                }
                if let Some(reth) = &mut frame.ext.reth {
                    reth.va = va.wrapping_add(rng.random_range(0..AREA).wrapping_sub(64));
                    reth.len = if rng.random() { rng.random() } else { rng.random_range(0..2000) };
                }
                if let Some(eth) = &mut frame.ext.atomic {
                    eth.va = va.wrapping_add(rng.random_range(0..AREA).wrapping_sub(64));
                }
                if let Some(aeth) = &mut frame.ext.aeth {
                    aeth.syndrome = rng.random();
                    aeth.msn = rng.random_range(0..1 << 24);
                }
                let cut = rng.random_range(0..=frame.payload.len());
                frame.payload = &frame.payload[..cut];
                frame.bth.ackreq = rng.random();
            });
            // Some are changed further, and mostly fail the ICRC.
            if rng.random_range(0..4) == 0 {
                let at = rng.random_range(0..forged.len());
                forged[at] = rng.random();
            }
            p.b_gets(&[forged.clone()]);
            p.a_gets(&[forged]);
            p.a_sends();
            p.b_sends();
        }
        assert_eq!(p.b.bytes(half, (AREA - half) as usize), before);
    }
}

#[test]
fn random_bytes_and_cut_frames_never_panic() {
    let seed = 0xfeed;
    println!("seed {seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut p = Pair::new();
    for frame in samples() {
        for len in 0..frame.len() {
            p.b_gets(&[frame[..len].to_vec()]);
        }
    }
    for _ in 0..2000 {
        let len = rng.random_range(0..200);
        let bytes: Vec<u8> = (0..len).map(|_| rng.random()).collect();
        p.b_gets(&[bytes]);
    }
    assert_eq!(p.b.state(), QpState::Rts);
}

#[test]
fn a_flood_of_duplicate_reads_is_answered_in_a_bounded_queue() {
    let mut p = Pair::new();
    let (va, key) = (p.b.va, p.b.key);
    p.a.engine.post_send(p.a.qpn, SendWr::read(1, &[p.a.sge(0, 4096)], va, key)).unwrap();
    let frame = p.a_sends().remove(0);
    p.b_gets(&vec![frame; 1000]);
    assert!(p.b_sends().len() <= 2 * 16);
}
