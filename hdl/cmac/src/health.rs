// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the block says of its link, in the core's clock, for registers.
//!
//! ```text
//!   stat, six bits ----------------------------> two flops each --------------------> health
//!   fec_corrected, _uncorrected --> Gray count --> two flops --> binary --> reg ----> health
//! ```
//!
//! The bits cross each for itself: they are for people, and none is read with another. A count changes by one at a time, so its Gray code crosses whole. **Latency:** 3 to 4 cycles of the core's clock. **Reset:** counts are 0.

use crate::link::Status;
use crate::Clocks;
use ferrowire_hdl::host::csr::MacStatus;
use ferrowire_rtl::{cat, module, Scope, Sig};

/// Bits of a count.
const COUNT: u32 = 32;

/// See the page's top.
#[module]
pub fn health(m: &Scope, #[param] clocks: Clocks, stat: Status) -> MacStatus {
    let count = |name: &str, pulse: Sig| {
        let gray = m.in_domain(clocks.block, |m| gray_count(m, name, pulse));
        let crossed = m.synchronise(name, gray);
        m.delay(&format!("{name}_count"), &binary(crossed))
    };
    let of_block =
        [stat.aligned, stat.local_fault, stat.remote_fault, stat.high_ber, stat.rx_reset, stat.tx_reset];
    let told = m.in_domain(clocks.block, |m| m.delay("told", &cat(&of_block)));
    let told = m.synchronise("status", told);
    MacStatus {
        aligned: told.bit(0),
        local_fault: told.bit(1),
        remote_fault: told.bit(2),
        high_ber: told.bit(3),
        rx_reset: told.bit(4),
        tx_reset: told.bit(5),
        fec_corrected: count("fec_corrected", stat.fec_corrected),
        fec_uncorrected: count("fec_uncorrected", stat.fec_uncorrected),
    }
}

/// How many cycles `pulse` was high in, as a Gray code.
fn gray_count(m: &Scope, name: &str, pulse: Sig) -> Sig {
    let count = m.reg(&format!("{name}_seen"), COUNT).reset(0);
    let gray = m.reg(&format!("{name}_gray"), COUNT).reset(0);
    m.set(&count, count + pulse.zext(COUNT));
    m.set(&gray, count ^ (count >> 1));
    gray
}

/// The number whose Gray code this is: each bit is the sum of those from it on.
fn binary(gray: Sig) -> Sig {
    let mut value = gray;
    let mut step = 1;
    while step < COUNT {
        value = value ^ (value >> step);
        step *= 2;
    }
    value
}
