// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams (IBTA 9.8.3, A17.4.5): what is wrong with one is a counted drop, and never an answer.

use ferrowire_spec::csr::{DropReason, HwCounter};
use ferrowire_spec::queue::cqe::{CqeOpcode, LocalCause, WcStatus};
use ferrowire_spec::wire::{ipv6, Bth, Deth, Extensions, Frame, Ip, Opcode};
use ferrowire_spec::Psn;

use super::engine::Node;
use super::packet;
use super::qp::Qp;
use super::types::{Completion, SendWr};

/// Bytes before the payload in the receive buffer: a GRH, or an IPv4 header in the last 20 (A17.4.5.2).
pub(super) const GRH_BYTES: usize = ipv6::BYTES;

impl Qp {
    /// A datagram to the WQE's destination.
    pub(super) fn datagram(
        &self,
        node: &Node,
        wr: &SendWr,
        opcode: Opcode,
        psn: Psn,
        ext: Extensions,
        payload: &[u8],
    ) -> Result<Vec<u8>, (WcStatus, u8)> {
        let (_, av) = node.ahs.get(&wr.ah).ok_or((WcStatus::LocQpOpErr, LocalCause::AddressHandle as u8))?;
        // The high bit asks for the queue pair's own key: so a program cannot send a privileged one (IBTA 10.2.5).
        let qkey = if wr.qkey >> 31 == 1 { self.qkey } else { wr.qkey };
        let bth = Bth {
            opcode: opcode as u8,
            se: wr.solicited,
            pkey: self.pkey,
            destqp: wr.dest_qpn & 0xff_ffff,
            psn: psn.get(),
            ..Bth::default()
        };
        let ext = Extensions { deth: Some(Deth { qkey, srcqp: self.qpn, ..Deth::default() }), ..ext };
        Ok(packet::build(&node.config, av, self.sport, bth, ext, payload))
    }

    /// A datagram that arrived. Its PSN says nothing (IBTA 9.8.3.1).
    pub(super) fn ud_request(&mut self, node: &mut Node, frame: &Frame<'_>) -> Result<(), DropReason> {
        let deth = frame.ext.deth.ok_or(DropReason::Malformed)?;
        if deth.qkey != self.qkey {
            return Err(DropReason::Qkey);
        }
        if frame.payload.len() > self.mtu {
            return Err(DropReason::Malformed);
        }
        let Some(wr) = self.rq.take(node) else {
            node.counters.count(HwCounter::OutOfBuffer);
            return Err(DropReason::NoReceive);
        };
        self.established(node);
        let len = GRH_BYTES + frame.payload.len();
        if len as u64 > wr.len() {
            self.rq.give_back(wr);
            return Err(DropReason::TooLong);
        }
        // The first 20 bytes before an IPv4 header have no meaning; they are zeros, as with Linux.
        let mut header = [0; GRH_BYTES];
        let emitted = match &frame.ip {
            Ip::V4(h) => h.emit(&mut header[GRH_BYTES - frame.ip.bytes()..]),
            Ip::V6(h) => h.emit(&mut header),
        };
        emitted.map_err(|_| DropReason::Malformed)?;
        let pd = self.rq.pd(node, self.pd);
        let failed = self.rq.has_failed(node).then_some(LocalCause::Dma).or(wr.fault);
        let placed = match failed {
            Some(cause) => Err(cause),
            None => node
                .scatter(pd, &wr.sges, 0, &header)
                .and_then(|()| node.scatter(pd, &wr.sges, GRH_BYTES as u64, frame.payload)),
        };
        if let Err(cause) = placed {
            // A fault of this end (IBTA 10.10.2.2): the receive fails, and the queue pair with it.
            self.complete_recv(node, &wr, WcStatus::LocProtErr, cause as u8);
            self.enter_error(node);
            return Ok(());
        }
        let opcode = if frame.ext.imm.is_some() { CqeOpcode::RecvImm } else { CqeOpcode::Recv };
        let done = Completion {
            byte_len: len as u32,
            imm: frame.ext.imm.map(|h| h.imm),
            src_qpn: deth.srcqp,
            grh: true,
            ipv4: matches!(frame.ip, Ip::V4(_)),
            solicited: frame.bth.se,
            ..Completion::new(self.qpn, wr.wr_id, opcode)
        };
        node.complete(self.recv_cq, done);
        Ok(())
    }
}
