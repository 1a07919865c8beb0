// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two engines, their queue pairs and memory, and what each byte of it must be.

use std::collections::BTreeMap;

use ferrowire_sim::model::network::Network;
use ferrowire_sim::model::{AddressVector, Completion, QpAttr, QpInit, RegionAttr, Rights, Sge};
use ferrowire_spec::queue::event::EventKind;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::{Bth, Frame};
use ferrowire_spec::{Psn, QpState};
use rand::rngs::SmallRng;
use rand::Rng as _;

pub const PD: u32 = 7;
pub const QKEY: u32 = 0x1234_5678;
/// Bytes of the memory that peers use, and of each source of data.
pub const TARGET: usize = 32 * 1024;
/// Longest message.
pub const LONGEST: usize = 12 * 1024;
/// Frames that a failure shows.
const LAST: usize = 100;

/// What connects two engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Rc,
    /// RC with shared receive queues.
    RcSrq,
    Uc,
    Ud,
}

/// A region and what its bytes must be.
#[derive(Clone, Debug)]
pub struct Area {
    pub node: usize,
    pub base: u64,
    pub va: u64,
    pub key: u32,
    /// Bytes that need not be anything: what lies there is checked elsewhere, or may be either.
    pub free: Vec<(usize, usize)>,
    pub want: Vec<u8>,
}

/// A queue pair at one end.
#[derive(Clone, Copy, Debug)]
pub struct End {
    pub node: usize,
    pub qpn: u32,
    pub mtu: usize,
    pub kind: Kind,
    pub peer: u32,
    pub srq: Option<u32>,
}

pub struct World {
    pub network: Network,
    pub ends: Vec<End>,
    pub areas: Vec<Area>,
    pub cqs: [u32; 2],
    pub srqs: [Option<u32>; 2],
    /// Receives in shared queues: node and number, area and offset.
    pub shared: BTreeMap<(usize, u64), (usize, usize)>,
    pub next_id: u64,
    /// Completions not yet looked at, by node and queue pair.
    pub done: BTreeMap<(usize, u32), Vec<Completion>>,
    pub next_base: u64,
    /// VLAN of all frames.
    pub vlan: Option<u16>,
    /// Some connections agree on selective retransmission.
    pub selective: bool,
}

impl World {
    pub fn new(mut network: Network, vlan: Option<u16>) -> Self {
        let cqs = [0, 1].map(|node: usize| network.engines[node].create_cq(1 << 20));
        Self {
            network,
            ends: Vec::new(),
            areas: Vec::new(),
            cqs,
            srqs: [None; 2],
            shared: BTreeMap::new(),
            next_id: 0,
            done: BTreeMap::new(),
            next_base: 1 << 24,
            vlan,
            selective: false,
        }
    }

    /// A region with random bytes; some count from zero, some are near the end of all addresses.
    pub fn area(&mut self, rng: &mut SmallRng, node: usize, len: usize, rights: Rights) -> usize {
        let base = self.next_base;
        self.next_base += 1 << 24;
        let (va, rights) = match rng.random_range(0..4) {
            0 => (0, rights | Rights::ZERO_BASED),
            1 => (u64::MAX - len as u64 + 1 - 8 * rng.random_range(0..100), rights),
            _ => (rng.random::<u64>() >> 8 & !7, rights),
        };
        let want: Vec<u8> = (0..len).map(|_| rng.random()).collect();
        let engine = &mut self.network.engines[node];
        engine.memory_mut().map(base, want.clone());
        let attr = RegionAttr { pd: PD, base, va, len: len as u64, rights, page: 1 };
        let key = engine.register(attr, None).unwrap();
        self.areas.push(Area { node, base, va, key, free: Vec::new(), want });
        self.areas.len() - 1
    }

    /// Two queue pairs, one at each engine.
    pub fn connect(&mut self, rng: &mut SmallRng, kind: Kind) {
        let mtu = [256, 512, 1024, 4096][rng.random_range(0..4)];
        // Near the wrap more often than not.
        let psns = [0; 2].map(|_| Psn::new(rng.random_range(0..60u32).wrapping_sub(40)));
        let service = match kind {
            Kind::Uc => Service::Uc,
            Kind::Ud => Service::Ud,
            _ => Service::Rc,
        };
        let srqs = [0, 1].map(|node| (kind == Kind::RcSrq).then(|| self.shared_queue(node)));
        let qpns = [0, 1].map(|node: usize| {
            let (srq, cq) = (srqs[node], self.cqs[node]);
            let init = QpInit { srq, max_send: 24, max_recv: 1024, ..QpInit::new(service, PD, cq) };
            self.network.engines[node].create_qp(init).unwrap()
        });
        let (connected, reliable) = (service != Service::Ud, service == Service::Rc);
        let depth = rng.random_range(1..6);
        let selective = (reliable && self.selective).then(|| rng.random());
        for node in 0..2 {
            let init = QpAttr {
                access: connected.then_some(Rights::REMOTE),
                pkey: Some(0xffff),
                qkey: (!connected).then_some(QKEY),
                ..QpAttr::to(QpState::Init)
            };
            let rtr = QpAttr {
                av: connected.then_some(self.vector(1 - node)),
                path_mtu: connected.then_some(mtu),
                dest_qpn: connected.then_some(qpns[1 - node]),
                rq_psn: connected.then_some(psns[1 - node]),
                max_dest_rd_atomic: reliable.then_some(depth),
                min_rnr_timer: reliable.then_some(1),
                selective,
                ..QpAttr::to(QpState::Rtr)
            };
            let rts = QpAttr {
                sq_psn: Some(psns[node]),
                timeout: reliable.then_some(9),
                retry_cnt: reliable.then_some(7),
                rnr_retry: reliable.then_some(7),
                max_rd_atomic: reliable.then_some(rng.random_range(1..=depth)),
                ..QpAttr::to(QpState::Rts)
            };
            for attr in [init, rtr, rts] {
                self.network.engines[node].modify_qp(qpns[node], &attr).unwrap();
            }
            let (qpn, peer, srq) = (qpns[node], qpns[1 - node], srqs[node]);
            self.ends.push(End { node, qpn, mtu, kind, peer, srq });
        }
    }

    /// The address of an engine, for packets that understand congestion marks (RFC 3168).
    pub fn vector(&self, node: usize) -> AddressVector {
        let config = self.network.engines[node].config();
        AddressVector { traffic_class: 0x02, vlan: self.vlan, ..AddressVector::new(config.mac, config.ip) }
    }

    fn shared_queue(&mut self, node: usize) -> u32 {
        *self.srqs[node].get_or_insert_with(|| self.network.engines[node].create_srq(PD, 4096))
    }

    /// Lets what was posted so far come to an end.
    pub fn set_up(&mut self) {
        assert!(self.network.run(100_000));
    }

    pub fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub fn poll(&mut self) {
        for node in 0..2 {
            while let Some(done) = self.network.engines[node].poll_cq(self.cqs[node]) {
                assert!(done.is_success(), "{done:?}, after\n{}", self.last_frames());
                self.done.entry((node, done.qpn)).or_default().push(done);
            }
        }
    }

    /// What was sent last.
    fn last_frames(&self) -> String {
        let sent = self.network.sent();
        let text = |(when, node, bytes): &(u64, usize, Vec<u8>)| {
            let frame = Frame::parse(bytes).unwrap();
            let opcode = frame.opcode().unwrap();
            let syndrome = frame.ext.aeth.map(|aeth| (aeth.syndrome, aeth.msn));
            let Bth { destqp, psn, .. } = frame.bth;
            format!("{when} ns: node {node} to qp {destqp:#x}: {opcode} {psn:#x} {syndrome:x?}\n")
        };
        sent[sent.len().saturating_sub(LAST)..].iter().map(text).collect()
    }

    pub fn bytes(&self, area: usize, at: usize, len: usize) -> &[u8] {
        let Area { node, base, .. } = self.areas[area];
        self.network.engines[node].memory().get(base + at as u64, len as u64).unwrap()
    }

    /// Elements for `len` bytes from `at` on: one or several.
    pub fn elements(&self, rng: &mut SmallRng, area: usize, at: usize, len: usize, most: usize) -> Vec<Sge> {
        let Area { va, key, .. } = self.areas[area];
        let mut cuts: Vec<usize> =
            (1..rng.random_range(1..=most)).map(|_| rng.random_range(0..=len)).collect();
        cuts.extend([0, len]);
        cuts.sort_unstable();
        cuts.windows(2)
            .map(|w| Sge { addr: va.wrapping_add((at + w[0]) as u64), lkey: key, len: (w[1] - w[0]) as u32 })
            .collect()
    }

    pub fn check_events(&mut self) {
        for engine in &mut self.network.engines {
            while let Some(event) = engine.poll_event() {
                let fine = matches!(event.kind, EventKind::CommEstablished | EventKind::SrqLimit);
                assert!(fine, "{event:?}");
            }
        }
    }

    pub fn compare_memory(&self) {
        for (index, area) in self.areas.iter().enumerate() {
            let got = self.bytes(index, 0, area.want.len());
            let free = |at: usize| area.free.iter().any(|(from, len)| at >= *from && at < from + len);
            let bad = (0..got.len()).find(|at| got[*at] != area.want[*at] && !free(*at));
            assert!(bad.is_none(), "area {index} of node {}: byte {bad:?} differs", area.node);
        }
    }
}
