// SPDX-License-Identifier: MIT OR Apache-2.0
//! WQEs into work requests of the engine. What is wrong with one makes a request that ends with that, as soon as those before it have ended.

use ferrowire_spec::queue::cqe::{LocalCause, WcStatus};
use ferrowire_spec::queue::send_wqe::bind::SendWqeBind;
use ferrowire_spec::queue::send_wqe::ud::SendWqeUd;
use ferrowire_spec::queue::send_wqe::{self, sge, SendOpcode, SendWqe, INLINE_AT};
use ferrowire_spec::queue::{recv_wqe, WQE_UNIT};
use ferrowire_spec::wire::opcode::Service;

use crate::model::{Bind, RecvWr, Rights, SendWr, Sge, WindowType};

/// The SGE at `place` of a WQE, counted from `first` on, one behind the other.
fn element(wqe: &[u8], first: usize, place: usize) -> Option<Sge> {
    let at = first + place * sge::BYTES;
    let sge = sge::Sge::parse(wqe.get(at..)?).ok()?;
    Some(Sge { addr: sge.addr, lkey: sge.lkey, len: sge.len })
}

/// A send of a queue of that service; `signal_all`: each of them is signalled. Without a WQE, one that could not be read.
pub(super) fn send(index: u16, wqe: Option<&[u8]>, service: Service, signal_all: bool) -> SendWr {
    let failed = |status, cause| {
        let nothing = SendWr::new(SendOpcode::Send, index.into(), &[]);
        SendWr { fault: Some((status, cause)), ..nothing }
    };
    let Some((wqe, head)) = wqe.and_then(|wqe| Some((wqe, SendWqe::parse(wqe).ok()?))) else {
        return failed(WcStatus::LocQpOpErr, LocalCause::Dma);
    };
    let Some(opcode) = SendOpcode::from_code(head.opcode) else {
        return failed(WcStatus::LocQpOpErr, LocalCause::WqeOpcode);
    };
    let mut wr = SendWr {
        signaled: head.signaled || signal_all,
        solicited: head.solicited,
        fence: head.fence,
        imm: head.imm,
        remote_va: head.remote_va,
        rkey: head.rkey,
        compare_add: head.compare_add,
        swap: head.swap,
        ..SendWr::new(opcode, index.into(), &[])
    };
    if let (Service::Ud, Ok(ud)) = (service, SendWqeUd::parse(wqe)) {
        wr = wr.to(ud.ah, ud.dest_qpn, ud.qkey);
    }
    if let (SendOpcode::BindMw, Ok(bind)) = (opcode, SendWqeBind::parse(wqe)) {
        wr.bind = Bind {
            key: bind.mw_key,
            lkey: bind.mr_key,
            addr: bind.va,
            len: bind.length,
            rights: Rights(bind.access),
            kind: if bind.type_1 { WindowType::Type1 } else { WindowType::Type2B },
        };
    }
    wr.fault = data(&mut wr, &head, wqe).err();
    wr
}

/// Gives a request its elements, or what stands in the WQE itself.
fn data(wr: &mut SendWr, head: &SendWqe, wqe: &[u8]) -> Result<(), (WcStatus, LocalCause)> {
    use SendOpcode as O;
    let is_local = matches!(wr.opcode, O::LocalInv | O::BindMw);
    let is_answered = matches!(wr.opcode, O::Read | O::CmpSwap | O::FetchAdd);
    if head.inline && (is_local || is_answered) || is_local && head.num_sge > 0 {
        return Err((WcStatus::LocQpOpErr, LocalCause::WqeSize));
    }
    let too_large = (WcStatus::LocLenErr, LocalCause::WqeSize);
    if head.inline {
        let bytes = usize::from(head.inline_len);
        let there = wqe.get(INLINE_AT..INLINE_AT + bytes).filter(|_| bytes <= send_wqe::MAX_INLINE);
        wr.inline = Some(there.ok_or(too_large)?.to_vec());
        return Ok(());
    }
    let count = usize::from(head.num_sge);
    if count > send_wqe::MAX_SGES {
        return Err(too_large);
    }
    // The first unit ends with the first one, so they stand one behind the other.
    for place in 0..count {
        wr.sges.push(element(wqe, INLINE_AT, place).ok_or(too_large)?);
    }
    Ok(())
}

/// A receive; without a WQE, one that could not be read.
pub(super) fn receive(index: u16, wqe: Option<&[u8]>) -> RecvWr {
    let mut wr = RecvWr::new(index.into(), &[]);
    match wqe {
        Some(wqe) => {
            let count = wqe.len() / WQE_UNIT * recv_wqe::SGES_PER_UNIT;
            let all = (0..count).filter_map(|place| element(wqe, 0, place));
            wr.sges.extend(all.filter(|sge| sge.len > 0));
        }
        None => wr.fault = Some(LocalCause::Dma),
    }
    wr
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wqe(units: usize, head: &SendWqe) -> Vec<u8> {
        let mut bytes = vec![0; units * WQE_UNIT];
        bytes[..WQE_UNIT].copy_from_slice(&head.to_bytes().unwrap());
        for place in 1..1 + 4 * (units - 1) {
            let sge = sge::Sge { addr: place as u64, lkey: 7, len: 1 };
            bytes[INLINE_AT + place * sge::BYTES..][..sge::BYTES].copy_from_slice(&sge.to_bytes().unwrap());
        }
        bytes
    }

    #[test]
    fn elements_and_inline_data_end_with_the_wqe() {
        let head = |num_sge, inline: Option<u16>| SendWqe {
            opcode: SendOpcode::Write.code(),
            num_sge,
            inline: inline.is_some(),
            inline_len: inline.unwrap_or(0),
            ..SendWqe::default()
        };
        let too_large = Some((WcStatus::LocLenErr, LocalCause::WqeSize));
        for (units, sges, inline) in [(1, 1, 16), (2, 5, 80), (4, 13, 208), (8, 16, 256)] {
            let of = |head: SendWqe| send(0, Some(&wqe(units, &head)), Service::Rc, false);
            assert_eq!((of(head(sges, None)).sges.len(), of(head(sges, None)).fault), (sges.into(), None));
            assert_eq!(of(head(sges + 1, None)).fault, too_large);
            assert_eq!(of(head(99, Some(inline))).inline.map(|data| data.len()), Some(inline.into()));
            assert_eq!(of(head(0, Some(inline + 1))).fault, too_large);
        }
    }

    #[test]
    fn what_has_no_meaning_becomes_a_request_that_fails() {
        let fault = |wqe: Option<&[u8]>| send(3, wqe, Service::Rc, false).fault;
        assert_eq!(fault(None), Some((WcStatus::LocQpOpErr, LocalCause::Dma)));
        let unknown = wqe(1, &SendWqe { opcode: 0x77, ..SendWqe::default() });
        assert_eq!(fault(Some(&unknown)), Some((WcStatus::LocQpOpErr, LocalCause::WqeOpcode)));
        let size = Some((WcStatus::LocQpOpErr, LocalCause::WqeSize));
        let read = SendWqe { opcode: SendOpcode::Read.code(), inline: true, ..SendWqe::default() };
        assert_eq!(fault(Some(&wqe(1, &read))), size);
        let local = SendWqe { opcode: SendOpcode::LocalInv.code(), num_sge: 1, ..SendWqe::default() };
        assert_eq!(fault(Some(&wqe(1, &local))), size);
        assert_eq!(receive(3, None).fault, Some(LocalCause::Dma));
    }
}
