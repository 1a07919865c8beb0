// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a responder finds out late: that it cannot answer what it has taken, or has nothing to say to what comes again.

use ferrowire::HwCounter::*;
use ferrowire::{AccessFlags, SendWr};

use super::rig::Counter::Hw;
use super::rig::{check, check_cards, post, Case, MTU, PSNS, ROOM};

#[test]
fn a_read_or_an_atomic_that_cannot_be_answered_is_counted_at_both_ends_by_its_nak() {
    check_cards(LATE);
}

#[test]
fn a_repeated_request_that_is_passed_over_is_a_duplicate_and_not_out_of_sequence() {
    check(PASSED_OVER);
}

/// READs and atomics that are taken, and cannot be answered after all.
pub const LATE: &[Case] = &[
    Case {
        name: "READs of memory that does not answer",
        moves: &[
            (0, Hw(ReqRemoteOperationErrors), 2),
            (0, Hw(ReqCqeError), 2),
            (1, Hw(RespRemoteOperationErrors), 2),
            (1, Hw(RxReadRequests), 2),
        ],
        run: |rig| {
            let broken = rig.pair.b.region(0, 4096, AccessFlags::REMOTE_READ).unwrap();
            rig.pair.unmap(1, broken.memory().address());
            for _ in 0..2 {
                let (mut qp, _peer) = rig.connect(&rig.connection());
                let sge = [rig.regions[0].sge(0, 64)];
                post(&mut qp, &[SendWr::read(1, &sge, broken.remote(0))]);
                rig.wait_ill(0, 1, 0);
            }
        },
    },
    Case {
        name: "atomics on memory that does not answer",
        moves: &[
            (0, Hw(ReqRemoteOperationErrors), 2),
            (0, Hw(ReqCqeError), 2),
            (1, Hw(RespRemoteOperationErrors), 2),
            (1, Hw(RxAtomicRequests), 2),
        ],
        run: |rig| {
            let access = AccessFlags::REMOTE | AccessFlags::LOCAL_WRITE;
            let broken = rig.pair.b.region(0, 4096, access).unwrap();
            rig.pair.unmap(1, broken.memory().address());
            for _ in 0..2 {
                let (mut qp, _peer) = rig.connect(&rig.connection());
                let sge = [rig.regions[0].sge(0, 8)];
                post(&mut qp, &[SendWr::fetch_add(1, &sge, broken.remote(0), 1)]);
                rig.wait_ill(0, 1, 0);
            }
        },
    },
    Case {
        name: "a READ whose region goes while it is answered",
        moves: &[
            (0, Hw(ReqRemoteAccessErrors), 1),
            (0, Hw(ReqCqeError), 1),
            (1, Hw(RespRemoteAccessErrors), 1),
            (1, Hw(RxReadRequests), 1),
        ],
        run: |rig| {
            let goes = rig.pair.b.region(0, ROOM, AccessFlags::REMOTE_READ).unwrap();
            let (mut qp, _peer) = rig.connect(&rig.connection());
            // The wire back is slow, so that what is answered waits.
            rig.pair.world.lock().link_mut(1).set_rate(Some(1.0));
            let before = rig.pair.world.lock().link(1).frames();
            post(&mut qp, &[SendWr::read(1, &[rig.regions[0].sge(0, ROOM as u32)], goes.remote(0))]);
            assert!(rig.pair.world.lock().run_until(5_000, |world| world.link(1).frames() > before + 3));
            goes.destroy().unwrap();
            rig.wait_ill(0, 1, 0);
            rig.pair.world.lock().link_mut(1).set_rate(None);
        },
    },
];

/// Packets before the expected one that are not answered.
pub const PASSED_OVER: &[Case] = &[Case {
    name: "repeated READs that ask for more than the first",
    moves: &[(1, Hw(DuplicateRequest), 2), (1, Hw(RxReadRequests), 1)],
    run: |rig| {
        let (mut qp, peer) = rig.connect(&rig.connection());
        post(&mut qp, &[SendWr::read(1, &[rig.regions[0].sge(0, 64)], rig.regions[1].remote(0))]);
        rig.wait_well(0, 1);
        rig.tell(1, 2, rig.read(1, peer.number(), PSNS.0, 5 * MTU));
        rig.settle();
    },
}];
