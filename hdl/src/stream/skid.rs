// SPDX-License-Identifier: MIT OR Apache-2.0
//! A register slice: cuts valid, payload and ready.
//!
//! Two places: what the output shows, and one for the beat that comes in the cycle in which the output stalls. One
//! beat a cycle, latency 1; both handshake directions start and end at registers. Reset empties.

use ferrowire_rtl::{module, Bundle, Interface, Scope, Stream};

/// A full register slice.
#[module]
pub fn skid<T: Bundle + Interface>(m: &Scope, input: Stream<T>) -> Stream<T> {
    let shown_valid = m.reg("shown_valid", 1).reset(0);
    let shown = m.reg_of("shown", &input.payload);
    let spare_valid = m.reg("spare_valid", 1).reset(0);
    let spare = m.reg_of("spare", &input.payload);
    let out = Stream::new(m, "out", shown_valid, shown.clone());
    input.accept(!spare_valid);
    let moves = out.ready | !shown_valid;
    m.when(moves, |m| {
        m.set(&shown_valid, spare_valid | input.valid);
        m.set_all(&shown, &m.mux(spare_valid, &spare, &input.payload));
        m.set(&spare_valid, 0);
    })
    .otherwise_when(input.fire(), |m| {
        m.set(&spare_valid, 1);
        m.set_all(&spare, &input.payload);
    });
    out
}
