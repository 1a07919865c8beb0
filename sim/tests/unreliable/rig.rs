// SPDX-License-Identifier: MIT OR Apache-2.0
//! A card whose frames are looked at, and what each message should be on the wire.

use ferrowire::{
    AccessFlags, AddressVector, Completion, InitAttributes, MemoryRegion, PathMtu, ProtectionDomain, Psn, Qp,
    QpInitAttr, QpState, QueuePair, Reset, RtrAttributes, RtsAttributes, SendOp, WcStatus,
};
pub use ferrowire_sim::pair::post;
use ferrowire_sim::pair::{bytes, Node, Pair, PairOptions, EMULATED};
use ferrowire_spec::wire::eth::mac_number;
use ferrowire_spec::wire::frame::{Frame, Ip};
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::Opcode;
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

pub const CONFIGS: [&str; 3] = ["generic-8b", "generic-64b", EMULATED];
pub const CARDS: [&str; 2] = ["generic-8b", "generic-64b"];

/// Cycles for what a test waits for.
pub const LIMIT: u64 = 300_000;

/// Nobody's queue pair: what comes for it is dropped.
pub const NOBODY: u32 = 0xabcd;

pub const PKEY: u16 = 0x8123;
pub const QKEY: u32 = 0x1234_5678;
pub const SPORT: u16 = 0xd123;

pub struct Rig {
    pub pair: Pair,
    /// Next PSN of the queue pair that is looked at.
    pub psn: Psn,
}

impl Rig {
    pub fn new(config: &str) -> Rig {
        let pair = Pair::named(config, &PairOptions::default()).unwrap();
        pair.world.lock().link_mut(0).keep_frames(true);
        Rig { pair, psn: Psn::new(0) }
    }

    pub fn node(&self) -> &Node {
        &self.pair.a
    }

    /// The way to the other card, with everything that may be chosen.
    pub fn way(&self, ipv6: bool, vlan: Option<u16>) -> AddressVector {
        let (from, to) = (&self.pair.a, &self.pair.b);
        from.context.add_gid(from.ip(ipv6), vlan).unwrap();
        let way = AddressVector::new(from.mac(), from.ip(ipv6), to.mac(), to.ip(ipv6));
        AddressVector { vlan, traffic_class: 0x68, hop_limit: 33, flow_label: 0x54321, ..way }
    }

    /// A region with something in it.
    pub fn source(&self, pd: &ProtectionDomain, bytes: usize) -> MemoryRegion {
        let memory = self.node().context.alloc(bytes, 4096).unwrap();
        let mut data = vec![0; bytes];
        SmallRng::seed_from_u64(bytes as u64).fill_bytes(&mut data);
        memory.write(0, &data);
        pd.register(&memory, AccessFlags::LOCAL_READ, ferrowire::PageSize::Size4K).unwrap()
    }

    /// A queue pair in RTS whose first PSN wraps soon. `way`: of a connection.
    pub fn up(&mut self, service: Service, way: Option<AddressVector>) -> QueuePair {
        let (node, connected) = (&self.pair.a, service != Service::Ud);
        let mut attr = match service {
            Service::Uc => QpInitAttr::uc(&node.cq, &node.cq),
            _ => QpInitAttr::ud(&node.cq, &node.cq),
        };
        (attr.max_send_wr, attr.max_send_sge, attr.max_inline) = (64, 16, 256);
        let qp: Qp<Reset> = node.pd.create_qp(&attr).unwrap();
        self.psn = Psn::new(0xff_fffc);
        let only = |yes: bool| yes.then_some(());
        let init = InitAttributes::new()
            .access(only(connected).map(|()| AccessFlags::default()))
            .pkey(PKEY)
            .qkey(only(!connected).map(|()| QKEY));
        let rtr = RtrAttributes::new()
            .av(way)
            .path_mtu(only(connected).map(|()| PathMtu::B1024))
            .dest_qpn(only(connected).map(|()| NOBODY))
            .rq_psn(only(connected).map(|()| Psn::new(0)))
            .sport(only(connected).map(|()| SPORT));
        let rts = RtsAttributes::new().sq_psn(self.psn).sport(only(!connected).map(|()| SPORT));
        let qp = qp.init(init).unwrap().rtr(rtr).unwrap();
        qp.rts(rts).unwrap()
    }

    /// Completions of the card.
    #[track_caller]
    pub fn wait(&self, count: usize) -> Vec<Completion> {
        match self.node().wait(&self.pair.world, count, LIMIT) {
            Ok(done) => done,
            Err(error) => panic!("{error}{}", self.pair.diagnose()),
        }
    }

    /// How they ended, with the local cause.
    #[track_caller]
    pub fn ends(&self, count: usize) -> Vec<(u64, WcStatus, u8)> {
        let done = self.wait(count);
        done.iter().map(|done| (done.wr_id(), done.status().known().unwrap(), done.syndrome())).collect()
    }

    /// What was sent since this was asked, when nothing is on its way any more.
    pub fn sent(&self) -> Vec<Vec<u8>> {
        let mut world = self.pair.world.lock();
        world.run(2000);
        world.link_mut(0).take_frames().into_iter().map(|frame| frame.bytes).collect()
    }

    /// The message that these frames are, the next ones of the queue pair: its bytes. Every field of every header is looked at.
    #[track_caller]
    pub fn message(&mut self, qp: &QueuePair, frames: &[Vec<u8>], wr: &Expected<'_>) -> Vec<u8> {
        let service = qp.service();
        let mtu = if service == Service::Ud { 4096 } else { 1024 };
        let packets = wr.bytes.div_ceil(mtu).max(1);
        assert_eq!(frames.len(), packets, "packets of {} bytes", wr.bytes);
        let mut data = Vec::new();
        for (i, bytes) in frames.iter().enumerate() {
            let frame = Frame::parse(bytes).unwrap();
            let (first, last) = (i == 0, i + 1 == packets);
            self.network(&frame, wr.way);
            assert_eq!(frame.udp.sport, SPORT);
            let opcode = opcode(service, &wr.op, first, last);
            assert_eq!((Opcode::from_code(frame.bth.opcode), frame.bth.psn), (Some(opcode), self.psn.get()));
            assert_eq!((frame.bth.pkey, frame.bth.destqp), (PKEY, wr.dest_qpn));
            assert!(!frame.bth.ackreq, "there is nobody to acknowledge");
            let event = wr.solicited && last && !matches!(wr.op, SendOp::Write { .. });
            assert_eq!(frame.bth.se, event);
            let reth = frame.ext.reth.map(|reth| (reth.va, reth.rkey, reth.len as usize));
            assert_eq!(reth, wr.remote().filter(|_| first).map(|at| (at.0, at.1, wr.bytes)));
            assert_eq!(frame.ext.imm.map(|imm| imm.imm), wr.imm().filter(|_| last));
            let deth = frame.ext.deth.map(|deth| (deth.qkey, deth.srcqp));
            assert_eq!(deth, (service == Service::Ud).then_some((wr.qkey, qp.number())));
            assert!(frame.payload.len() == mtu || last);
            data.extend_from_slice(frame.payload);
            self.psn += 1;
        }
        data
    }

    fn network(&self, frame: &Frame<'_>, way: &AddressVector) {
        assert_eq!((frame.eth.dst, frame.eth.src), (mac_number(way.dst_mac), mac_number(way.src_mac)));
        assert_eq!(frame.vlan.map(|tag| tag.tci()), way.vlan);
        let class = |dscp: u8, ecn: u8| dscp << 2 | ecn;
        match &frame.ip {
            Ip::V4(ip) => {
                let found =
                    (std::net::Ipv4Addr::from(ip.src).into(), std::net::Ipv4Addr::from(ip.dst).into());
                assert_eq!(found, (way.src_ip, way.dst_ip));
                assert_eq!((class(ip.dscp, ip.ecn), ip.ttl), (way.traffic_class, way.hop_limit));
            }
            Ip::V6(ip) => {
                let found =
                    (std::net::Ipv6Addr::from(ip.src).into(), std::net::Ipv6Addr::from(ip.dst).into());
                assert_eq!(found, (way.src_ip, way.dst_ip));
                assert_eq!((class(ip.dscp, ip.ecn), ip.hop_limit), (way.traffic_class, way.hop_limit));
                assert_eq!(ip.flow_label, way.flow_label);
            }
        }
    }
}

/// A message as it should be.
pub struct Expected<'a> {
    pub op: SendOp,
    pub bytes: usize,
    pub way: &'a AddressVector,
    pub dest_qpn: u32,
    pub qkey: u32,
    pub solicited: bool,
}

impl Expected<'_> {
    fn remote(&self) -> Option<(u64, u32)> {
        match self.op {
            SendOp::Write { remote } | SendOp::WriteImm { remote, .. } => Some((remote.address, remote.rkey)),
            _ => None,
        }
    }

    fn imm(&self) -> Option<u32> {
        match self.op {
            SendOp::SendImm { imm } | SendOp::WriteImm { imm, .. } => Some(imm),
            _ => None,
        }
    }
}

/// IBTA volume 1, table 38.
fn opcode(service: Service, op: &SendOp, first: bool, last: bool) -> Opcode {
    use Opcode::*;
    let of = |codes: [Opcode; 4]| match (first, last) {
        (true, false) => codes[0],
        (false, false) => codes[1],
        (false, true) => codes[2],
        (true, true) => codes[3],
    };
    match (service, op) {
        (Service::Ud, SendOp::SendImm { .. }) => UdSendOnlyImm,
        (Service::Ud, _) => UdSendOnly,
        (_, SendOp::Send) => of([UcSendFirst, UcSendMiddle, UcSendLast, UcSendOnly]),
        (_, SendOp::SendImm { .. }) => of([UcSendFirst, UcSendMiddle, UcSendLastImm, UcSendOnlyImm]),
        (_, SendOp::Write { .. }) => of([UcWriteFirst, UcWriteMiddle, UcWriteLast, UcWriteOnly]),
        _ => of([UcWriteFirst, UcWriteMiddle, UcWriteLastImm, UcWriteOnlyImm]),
    }
}

pub fn state(qp: &QueuePair) -> QpState {
    qp.query().unwrap().state.known().unwrap()
}

/// The bytes of a part of a region.
pub fn part(region: &MemoryRegion, at: usize, length: usize) -> Vec<u8> {
    bytes(region.memory())[at..at + length].to_vec()
}
