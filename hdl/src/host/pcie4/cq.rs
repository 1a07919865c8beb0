// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of the CPU: the descriptor becomes a header of 16 bytes. Latency 0, a beat a cycle.
//!
//! Bad input: a packet with `discontinue` gets a length that none has, so that the target throws it away and counts it. Whether a request is poisoned is not
//! known here: see [`pcie4`](super).

use super::{Axis, BITS};
use crate::fields::{assemble, field};
use crate::stream::Beat;
use ferrowire_rtl::{cat, lit, module, Scope, Sig, Stream};
use ferrowire_spec::pcie::pcie4::{cq, cq_user, RequestType};
use ferrowire_spec::pcie::{kind, request64};

/// `fmt` and `type` of a request.
fn kind_of(m: &Scope, request_type: Sig) -> Sig {
    let kinds: Vec<Sig> = (0..16)
        .map(|code| {
            let kind = match RequestType::from_code(code) {
                Some(RequestType::MemoryRead) => kind::READ64,
                Some(RequestType::MemoryWrite) => kind::WRITE64,
                Some(RequestType::IoWrite) => kind::IO_WRITE,
                Some(RequestType::LockedRead) => kind::READ_LOCKED32,
                Some(RequestType::Message | RequestType::VendorMessage | RequestType::TranslationMessage) => {
                    kind::MESSAGE
                }
                // What is answered with "unsupported", whatever it is.
                _ => kind::IO_READ,
            };
            lit(8, kind)
        })
        .collect();
    m.select(request_type, &kinds)
}

/// Double words of a beat that are kept, less one, from the bits that say so.
pub(super) fn last_word(keep: Sig) -> Sig {
    let ends = keep & !(keep >> 1);
    let width = keep.width();
    let bits: Vec<Sig> = (0..4)
        .map(|bit| {
            let set = (0..width).filter(|i| i >> bit & 1 == 1);
            set.fold(lit(1, 0), |any, i| any | ends.bit(i))
        })
        .collect();
    cat(&bits)
}

/// Packets of what the block hands over.
#[module]
pub fn cq(m: &Scope, packet: Stream<Axis>) -> Stream<Beat> {
    let within = m.reg("within", 1).reset(0);
    m.when(packet.fire(), |m| m.set(&within, !packet.last));
    packet.map(|axis| {
        let of = |which| field(&cq::LAYOUT, which, axis.data);
        let user = axis.user.zext(8 * cq_user::BYTES as u32);
        let side = |which| field(&cq_user::LAYOUT, which, user);
        let kind = kind_of(m, of(&cq::REQUEST_TYPE));
        use request64::{
            ADDRESS, FIRST_BE, FMT, IDO, LAST_BE, LAYOUT, LENGTH, NS, REQUESTER, RO, TAG, TC, TYPE,
        };
        let header = assemble(
            &LAYOUT,
            &[
                (FMT, kind.slice(5, 3)),
                (TYPE, kind.trunc(5)),
                (TC, of(&cq::TC)),
                (IDO, of(&cq::IDO)),
                (RO, of(&cq::RELAXED)),
                (NS, of(&cq::NO_SNOOP)),
                (LENGTH, of(&cq::DWORDS).trunc(10)),
                (REQUESTER, of(&cq::REQUESTER)),
                (TAG, of(&cq::TAG)),
                (FIRST_BE, side(&cq_user::FIRST_BE).trunc(4)),
                (LAST_BE, side(&cq_user::LAST_BE).trunc(4)),
                (ADDRESS, of(&cq::ADDRESS)),
            ],
        );
        let size = header.width();
        let first = cat(&[header, axis.data.slice(size, BITS - size)]);
        let empty = cat(&[side(&cq_user::DISCONTINUE).zext(2), !last_word(axis.keep)]);
        Beat { data: within.then(axis.data, first), last: axis.last, empty: axis.last.repeat(6) & empty }
    })
}
