// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions of the card: the header becomes a descriptor. Latency 0, a beat a cycle.

use super::rq::keep;
use super::{wires, Axis, BITS};
use crate::fields::{assemble, field};
use crate::stream::Beat;
use ferrowire_rtl::{cat, module, Scope, Stream};
use ferrowire_spec::pcie::completion;
use ferrowire_spec::pcie::pcie4::{cc, cc_user};

/// What the block calls them.
#[module]
pub fn cc(m: &Scope, packet: Stream<Beat>) -> Stream<Axis> {
    let within = m.reg("within", 1).reset(0);
    m.when(packet.fire(), |m| m.set(&within, !packet.last));
    packet.map(|beat| {
        let of = |which| field(&completion::LAYOUT, which, beat.data);
        let length = of(&completion::LENGTH);
        let (has_data, count) = (of(&completion::FMT).bit(1), of(&completion::BYTE_COUNT));
        let descriptor = assemble(
            &cc::LAYOUT,
            &[
                (cc::LOWER_ADDRESS, of(&completion::LOWER_ADDRESS)),
                (cc::BYTE_COUNT, cat(&[count, count.eq(0)])),
                (cc::DWORDS, has_data.repeat(11) & cat(&[length, length.eq(0)])),
                (cc::STATUS, of(&completion::STATUS)),
                (cc::REQUESTER, of(&completion::REQUESTER)),
                (cc::TAG, of(&completion::TAG)),
                // The block knows bus and device; the function stands in the lowest bits.
                (cc::COMPLETER, of(&completion::COMPLETER)),
                (cc::TC, of(&completion::TC)),
                (cc::NO_SNOOP, of(&completion::NS)),
                (cc::RELAXED, of(&completion::RO)),
                (cc::IDO, of(&completion::IDO)),
            ],
        );
        let size = descriptor.width();
        let user = assemble(
            &cc_user::LAYOUT,
            &[
                (cc_user::IS_SOP, (!within).zext(2)),
                (cc_user::IS_EOP, beat.last.zext(2)),
                (cc_user::EOP0_PTR, beat.last.repeat(4) & !beat.empty.slice(2, 4)),
            ],
        );
        Axis {
            data: within.then(beat.data, cat(&[descriptor, beat.data.slice(size, BITS - size)])),
            keep: keep(beat.empty),
            last: beat.last,
            user: user.trunc(wires(&cc_user::LAYOUT)),
        }
    })
}
