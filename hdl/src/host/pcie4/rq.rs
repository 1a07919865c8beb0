// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of the card: the header becomes a descriptor. Latency 0, a beat a cycle.

use super::{wires, Axis, BITS, WORDS};
use crate::fields::{assemble, field};
use crate::host::pcie::send::RequestBeat;
use ferrowire_rtl::{cat, lit, module, Scope, Sig, Stream};
use ferrowire_spec::pcie::pcie4::{rq, rq_user, RequestType};
use ferrowire_spec::pcie::request64;

/// Sequence number of the packet that ends a write of the card; others have 0.
pub const ENDS: u32 = 1;

/// One bit for each double word of a beat.
pub(super) fn keep(empty: Sig) -> Sig {
    let kept: Vec<Sig> = (0..WORDS).map(|i| empty.slice(2, 4).le(WORDS - 1 - i)).collect();
    cat(&kept)
}

/// What the block calls them.
#[module]
pub fn rq(m: &Scope, packet: Stream<RequestBeat>) -> Stream<Axis> {
    let within = m.reg("within", 1).reset(0);
    m.when(packet.fire(), |m| m.set(&within, !packet.beat.last));
    packet.map(|packet| {
        let beat = &packet.beat;
        let of = |which| field(&request64::LAYOUT, which, beat.data);
        use request64::{ADDRESS, FIRST_BE, FMT, LAST_BE, LENGTH, REQUESTER, RO, TAG};
        let length = of(&LENGTH);
        let kind = |kind: RequestType| lit(4, kind.code());
        let descriptor = assemble(
            &rq::LAYOUT,
            &[
                (rq::ADDRESS, of(&ADDRESS)),
                (rq::DWORDS, cat(&[length, length.eq(0)])),
                // Only memory is asked for; bit 1 of the format says that data follows.
                (
                    rq::REQUEST_TYPE,
                    of(&FMT).bit(1).then(kind(RequestType::MemoryWrite), kind(RequestType::MemoryRead)),
                ),
                (rq::REQUESTER, of(&REQUESTER)),
                (rq::TAG, of(&TAG)),
                (rq::RELAXED, of(&RO)),
            ],
        );
        let size = descriptor.width();
        let data = beat.data.slice(size, BITS - size);
        let first = !within;
        let user = assemble(
            &rq_user::LAYOUT,
            &[
                (rq_user::FIRST_BE, (first.repeat(4) & of(&FIRST_BE)).zext(8)),
                (rq_user::LAST_BE, (first.repeat(4) & of(&LAST_BE)).zext(8)),
                (rq_user::IS_SOP, first.zext(2)),
                (rq_user::IS_EOP, beat.last.zext(2)),
                (rq_user::EOP0_PTR, beat.last.repeat(4) & !beat.empty.slice(2, 4)),
                (rq_user::SEQ_NUM0, packet.ends.zext(6)),
            ],
        );
        Axis {
            data: within.then(beat.data, cat(&[descriptor, data])),
            keep: keep(beat.empty),
            last: beat.last,
            user: user.trunc(wires(&rq_user::LAYOUT)),
        }
    })
}
