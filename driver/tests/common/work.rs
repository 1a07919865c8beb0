// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the card of the tests does with work requests: between its own queue pairs, all at once.
//!
//! A SEND without a receive waits. Nothing is lost, so nothing is sent again.

use ferrowire::spec::queue::cqe::{Cqe, LocalCause};
use ferrowire::spec::queue::send_wqe::{sge, SendWqe, INLINE_AT, SGES_PER_UNIT};
use ferrowire::spec::queue::{Access, WQE_UNIT};
use ferrowire::*;

use super::{Card, Pair};

type Failure = (WcStatus, u8);

/// Nothing came of a request yet.
const LATER: Failure = (WcStatus::RnrRetryExcErr, 0);

/// Bytes on the bus: address and length of each run.
type Places = Vec<(u64, usize)>;

fn sges(bytes: &[u8], count: usize) -> Vec<sge::Sge> {
    bytes.chunks(sge::BYTES).take(count).map(|bytes| sge::Sge::parse(bytes).unwrap()).collect()
}

impl Card {
    fn slot(&self, base: u64, log2: u8, stride: u8, index: u16) -> Vec<u8> {
        let mut bytes = vec![0; WQE_UNIT << stride];
        let at = base + (u64::from(index) & ((1 << log2) - 1)) * bytes.len() as u64;
        self.map.read(at, &mut bytes).unwrap();
        bytes
    }

    /// Carries out the next WQE of a queue pair; false when there is none, or it may not run.
    pub(super) fn send(&mut self, qpn: u32) -> bool {
        let Pair { create, head, tail, state, .. } = &self.qps[&qpn];
        if head == tail || !matches!(state, QpState::Rts | QpState::Err) {
            return false;
        }
        let (index, sig_all, cqn, flushes) =
            (*head, create.sq_sig_all, create.send_cqn, *state == QpState::Err);
        let slot = self.slot(create.sq_base, create.sq_log2, create.sq_stride, index);
        let wqe = SendWqe::parse(&slot).unwrap();
        let result = match flushes {
            true => Err((WcStatus::WrFlushErr, 0)),
            false => self.carry_out(qpn, &wqe, &slot),
        };
        if result == Err(LATER) {
            return false;
        }
        let qp = self.qps.get_mut(&qpn).unwrap();
        qp.head = index.wrapping_add(1);
        if result.is_err() {
            qp.state = QpState::Err;
        }
        if result.is_err() || wqe.signaled || sig_all {
            let (status, syndrome) = result.err().unwrap_or((WcStatus::Success, 0));
            let byte_len = *result.as_ref().unwrap_or(&0);
            let (opcode, status, wqe_index) = (wqe.opcode, status.code(), index);
            let entry = Cqe { qpn, opcode, byte_len, wqe_index, status, syndrome, ..Cqe::default() };
            self.complete(cqn, entry);
        }
        true
    }

    /// Flushes the oldest receive of a queue pair in error.
    pub(super) fn flush_receive(&mut self, qpn: u32) -> bool {
        let qp = &self.qps[&qpn];
        let flushes = qp.state == QpState::Err && qp.recv_head != qp.recv_tail;
        if flushes {
            self.received(qpn, Cqe { status: WcStatus::WrFlushErr.code(), opcode: 0x80, ..Cqe::default() });
        }
        flushes
    }

    /// Completes the oldest receive of a queue pair.
    fn received(&mut self, qpn: u32, entry: Cqe) {
        let qp = self.qps.get_mut(&qpn).unwrap();
        let (cqn, wqe_index) = (qp.create.recv_cqn, qp.recv_head);
        qp.recv_head = wqe_index.wrapping_add(1);
        if entry.status != WcStatus::Success.code() {
            qp.state = QpState::Err;
        }
        self.complete(cqn, Cqe { qpn, receive: true, wqe_index, ..entry });
    }

    fn local(&self, list: &[sge::Sge], pd: u32, access: u8) -> Result<Places, LocalCause> {
        let mut all = Vec::new();
        for sge in list.iter().filter(|sge| sge.len > 0) {
            all.extend(self.translate(sge.lkey, pd, access, sge.addr, sge.len.into())?);
        }
        Ok(all)
    }

    fn gather(&self, places: &[(u64, usize)]) -> Vec<u8> {
        let mut data = Vec::new();
        for (at, n) in places {
            let from = data.len();
            data.resize(from + n, 0);
            self.map.read(*at, &mut data[from..]).unwrap();
        }
        data
    }

    fn scatter(&self, places: &[(u64, usize)], mut data: &[u8]) {
        for (at, n) in places {
            let n = data.len().min(*n);
            self.map.write(*at, &data[..n]).unwrap();
            data = &data[n..];
        }
        assert!(data.is_empty());
    }

    /// What a request does; bytes of an answer.
    fn carry_out(&mut self, qpn: u32, wqe: &SendWqe, slot: &[u8]) -> Result<u32, Failure> {
        let denied = (WcStatus::RemAccessErr, 0x62);
        let prot = |cause: LocalCause| (WcStatus::LocProtErr, cause.code());
        let opcode = SendOpcode::from_code(wqe.opcode);
        let opcode = opcode.ok_or((WcStatus::LocQpOpErr, LocalCause::WqeOpcode.code()))?;
        let qp = &self.qps[&qpn];
        let (pd, dest) = (qp.create.pd, qp.modify.dest_qpn);
        let answered = matches!(opcode, SendOpcode::Read | SendOpcode::CmpSwap | SendOpcode::FetchAdd);
        let list = sges(&slot[INLINE_AT..], wqe.num_sge.into());
        assert!(usize::from(wqe.num_sge) <= 1 + (slot.len() / WQE_UNIT - 1) * SGES_PER_UNIT);
        let right = if answered { Access::LocalWrite.code() } else { 0 };
        let places = self.local(&list, pd, right).map_err(prot)?;
        let data = match wqe.inline {
            true => slot[INLINE_AT..][..wqe.inline_len.into()].to_vec(),
            false => self.gather(&places),
        };
        if opcode == SendOpcode::LocalInv {
            return self.regions.remove(&(wqe.imm >> 8)).map(|_| 0).ok_or(prot(LocalCause::KeyIndex));
        }
        let peer = self.qps.get(&dest).filter(|peer| peer.state.responds());
        let peer = peer.ok_or((WcStatus::RetryExcErr, LocalCause::Timeout.code()))?;
        let right = match opcode {
            SendOpcode::Write | SendOpcode::WriteImm => Access::RemoteWrite.code(),
            SendOpcode::Read => Access::RemoteRead.code(),
            SendOpcode::CmpSwap | SendOpcode::FetchAdd => Access::RemoteAtomic.code(),
            _ => return self.deliver(dest, opcode, wqe, &data).map(|()| 0),
        };
        if peer.modify.access & right == 0 {
            return Err((WcStatus::RemInvReqErr, 0x61));
        }
        let bytes = if data.is_empty() {
            Places::new()
        } else {
            let bytes = self.translate(wqe.rkey, peer.create.pd, right, wqe.remote_va, data.len() as u64);
            bytes.map_err(|_| denied)?
        };
        match opcode {
            SendOpcode::Write => self.scatter(&bytes, &data),
            SendOpcode::WriteImm => {
                if peer.recv_head == peer.recv_tail {
                    return Err(LATER);
                }
                self.scatter(&bytes, &data);
                let (opcode, byte_len, imm) = (0x84, data.len() as u32, wqe.imm);
                let solicited = wqe.solicited;
                let entry = Cqe { opcode, byte_len, imm, imm_valid: true, solicited, ..Cqe::default() };
                self.received(dest, entry);
            }
            _ => {
                let original = self.gather(&bytes);
                self.scatter(&places, &original);
                if opcode != SendOpcode::Read {
                    let number = u64::from_le_bytes(original[..].try_into().unwrap());
                    let new = match opcode {
                        SendOpcode::FetchAdd => number.wrapping_add(wqe.compare_add),
                        _ if number == wqe.compare_add => wqe.swap,
                        _ => number,
                    };
                    self.scatter(&bytes, &new.to_le_bytes());
                }
                return Ok(original.len() as u32);
            }
        }
        Ok(0)
    }

    /// A SEND, to the oldest receive of a queue pair.
    fn deliver(&mut self, qpn: u32, opcode: SendOpcode, wqe: &SendWqe, data: &[u8]) -> Result<(), Failure> {
        let Pair { create, recv_head, recv_tail, .. } = &self.qps[&qpn];
        if recv_head == recv_tail {
            return Err(LATER);
        }
        let slot = self.slot(create.rq_base, create.rq_log2, create.rq_stride, *recv_head);
        let list = sges(&slot, slot.len() / sge::BYTES);
        let room: u64 = list.iter().map(|sge| u64::from(sge.len)).sum();
        let places = self.local(&list, create.pd, Access::LocalWrite.code());
        let failed = match places {
            _ if data.len() as u64 > room => {
                let failure = (WcStatus::LocLenErr, LocalCause::Length, (WcStatus::RemInvReqErr, 0x61));
                Some(failure)
            }
            Err(cause) => Some((WcStatus::LocProtErr, cause, (WcStatus::RemOpErr, 0x63))),
            Ok(places) => {
                self.scatter(&places, data);
                None
            }
        };
        if let Some((status, cause, failure)) = failed {
            let (status, syndrome) = (status.code(), cause.code());
            self.received(qpn, Cqe { status, syndrome, opcode: 0x80, ..Cqe::default() });
            return Err(failure);
        }
        if opcode == SendOpcode::SendInv {
            self.regions.remove(&(wqe.imm >> 8));
        }
        let entry = Cqe {
            opcode: 0x80 | opcode.code(),
            byte_len: data.len() as u32,
            imm: wqe.imm,
            imm_valid: opcode == SendOpcode::SendImm,
            invalidated: opcode == SendOpcode::SendInv,
            solicited: wqe.solicited,
            ..Cqe::default()
        };
        self.received(qpn, entry);
        Ok(())
    }
}
