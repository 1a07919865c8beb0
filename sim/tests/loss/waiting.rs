// SPDX-License-Identifier: MIT OR Apache-2.0
//! NAKs that wait: a slow host has a READ's payload, and what is answered after the READ waits for its response. Another answer that comes meanwhile
//! must not take the NAK's place, for the responder is silent after it (IBTA volume 1, 9.7.5.2.8). The connection has no time-out, so
//! a NAK that is lost stops it. An ACK that waits acknowledges no more than has come: where a packet is lost, its WRITE is in memory at the end.

use crate::tier::chosen;
use ferrowire::{AccessFlags, RecvWr, SendWr};
use ferrowire_sim::pair::{bytes, post, Connection, Pair, PairOptions};
use ferrowire_spec::wire::opcode::Operation;
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

use super::rig::{connection, model, Fate, Rig, Timer, CONFIGS, MTU};

/// Cycles of a read of host memory: many frames are shorter.
const SLOW: u64 = 4000;

/// Requests of one packet each.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Request {
    Write,
    Read,
    Send,
}
use Request::{Read, Send, Write};

/// A batch, and what becomes of some of its packets, by number, when they are first sent.
struct Case {
    what: &'static str,
    batch: &'static [Request],
    fates: &'static [(u32, Fate)],
    /// Something is lost, which a time-out must find.
    lossy: bool,
}

const CASES: [Case; 5] = [
    Case {
        what: "a duplicated WRITE comes while an RNR NAK waits",
        batch: &[Write, Read, Send],
        fates: &[(0, Fate::Again(1500))],
        lossy: false,
    },
    Case {
        what: "a packet is late, and its ACK comes while its NAK waits",
        batch: &[Read, Write, Write],
        fates: &[(1, Fate::Late(1500))],
        lossy: false,
    },
    Case {
        what: "a READ is late, and comes while its NAK waits",
        batch: &[Read, Read, Write],
        fates: &[(1, Fate::Late(1500))],
        lossy: false,
    },
    Case {
        what: "a READ and its follower come while its NAK waits",
        batch: &[Read, Read, Write, Write],
        fates: &[(1, Fate::Late(200))],
        lossy: false,
    },
    Case {
        what: "a duplicated WRITE comes while a READ is pending, and what follows the READ is lost",
        batch: &[Write, Read, Write],
        fates: &[(0, Fate::Again(1500)), (2, Fate::Lose)],
        lossy: true,
    },
];

#[test]
fn what_waits_for_a_read_response_is_sent_as_it_is_whatever_comes_meanwhile() {
    for config in chosen!(CONFIGS) {
        for Case { what, batch, fates, lossy } in CASES {
            let pair = Pair::new(&model(config), &PairOptions::default()).unwrap();
            let rig = Rig::over(pair, Timer::SHORT, config);
            let rights = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
            let (own, peers) =
                (rig.pair.a.region(0, 4096, rights).unwrap(), rig.pair.b.region(0, 4096, rights).unwrap());
            let mut data = vec![0; 4096];
            SmallRng::seed_from_u64(5).fill_bytes(&mut data);
            own.memory().write(0, &data);
            let slow = Connection {
                access: AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ,
                rd_atomic: 4,
                // Longer than the host takes, or for ever.
                timeout: if lossy { 10 } else { 0 },
                rnr_retry: 7,
                min_rnr_timer: 1,
                ..connection(0, Timer::SHORT, 7)
            };
            let (mut qp, mut peer) = rig.pair.connect(&slow).unwrap();
            (0..2).for_each(|card| rig.pair.world.lock().card_mut(card).host_mut().set_latency(SLOW));
            rig.fates(0, move |frame, before| {
                let operation = frame.opcode().unwrap().operation();
                let first = before == 0 && operation != Operation::Acknowledge;
                let of = |(packet, _): &&(u32, Fate)| first && frame.bth.psn == *packet;
                fates.iter().find(of).map_or(Fate::Pass, |(_, fate)| *fate)
            });
            let length = MTU as u32;
            let sges: Vec<_> = (0..batch.len()).map(|i| [own.sge(i * MTU, length)]).collect();
            let requests: Vec<_> = (0..batch.len())
                .map(|i| {
                    let (id, there) = (i as u64, peers.remote(i * MTU));
                    match batch[i] {
                        Write => SendWr::write(id, &sges[i], there),
                        Read => SendWr::read(id, &sges[i], there),
                        Send => SendWr::send(id, &sges[i]),
                    }
                    .signaled()
                })
                .collect();
            post(&mut qp, &requests);
            // The NAK waits by then.
            rig.run(3 * SLOW);
            let sge = [peers.sge(3 * MTU, length)];
            let mut receives = peer.start_post_recv();
            receives.post(&RecvWr::new(7, &sge)).unwrap();
            receives.ring().unwrap();
            let ids: Vec<u64> = (0..batch.len() as u64).collect();
            let rig = Rig { what: format!("{config}, {what}"), ..rig };
            rig.wait_well(&ids);
            rig.run(3 * SLOW);
            for (i, _) in batch.iter().enumerate().filter(|(_, request)| **request == Write) {
                let place = i * MTU..(i + 1) * MTU;
                let there = bytes(peers.memory());
                assert!(there[place.clone()] == data[place], "{}: WRITE {i} is not there", rig.what);
            }
        }
    }
}
