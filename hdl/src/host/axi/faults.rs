// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the page and the kind of the first write of host memory that fails.
//!
//! ```text
//!  AW --> page of the burst --> memory: a ring for each ID --+
//!                                                            v
//!  B, SLVERR or DECERR ----------------------------------> read --> first? --> fault
//! ```
//!
//! | port | what |
//! |---|---|
//! | `address` | an address leaves on AW |
//! | `coming` | a response that is an error, and how many of its ID came before it |
//! | `clear` | forgets the fault, and records none meanwhile |
//!
//! A response does not carry an address. Responses of one ID come in the order of their addresses (AMBA AXI4, A5.3), so the number of a response within
//! its ID is the number of its burst. No more than [`MOST`] bursts of an ID are under way, so a ring of that size holds all of them. A burst never crosses
//! a page of 4 KiB, so its page is enough to find what was lost.
//!
//! The fault is there two cycles after the response. Several failures in one reset's time: the first is kept, and the counter has all. Reset: no fault.

use super::barrier::MOST;
use super::bursts::Burst;
use super::writes::KINDS;
use super::ID_BITS;
use crate::config::RnicConfig;
use ferrowire_rtl::{bits, cat, clog2, module, Bundle, Collision, Scope, Sig, Style};

/// The first write that failed.
#[derive(Clone, Bundle)]
pub struct WriteFault {
    /// There is one.
    pub valid: Sig,
    /// What it carried, as `WriteKind`.
    pub kind: Sig,
    /// Its page: bits 63:12 of its address.
    pub page: Sig,
}

impl WriteFault {
    /// The shape.
    pub fn of() -> Self {
        WriteFault { valid: bits(1), kind: bits(ID_BITS), page: bits(52) }
    }
}

/// An address that leaves.
#[derive(Clone, Bundle)]
pub struct Leaving {
    /// In this cycle.
    pub valid: Sig,
    /// Of this burst.
    pub burst: Burst,
}

/// A response that is an error.
#[derive(Clone, Bundle)]
pub struct Coming {
    /// It comes in this cycle.
    pub valid: Sig,
    /// Its ID.
    pub id: Sig,
    /// Responses of its ID before it, modulo [`MOST`].
    pub done: Sig,
}

/// Keeps the first fault.
#[module]
pub fn faults(m: &Scope, cfg: &RnicConfig, address: Leaving, coming: Coming, clear: Sig) -> WriteFault {
    let number = clog2(u64::from(MOST));
    let burst = &address.burst;
    for unused in [&burst.len, &burst.last] {
        m.discard(unused);
    }
    let issued: Vec<Sig> = (0..KINDS)
        .map(|id| {
            let issued = m.reg(&format!("issued{id}"), number).reset(0);
            m.when(address.valid & burst.id.eq(id), |m| m.set(&issued, issued + 1));
            issued
        })
        .collect();
    let page_bits = cfg.bus_bits - 12;
    let pages = m.mem("pages", MOST << ID_BITS, &bits(page_bits)).style(Style::Block).build();
    let page = burst.address.slice(12, page_bits);
    pages.write(address.valid, cat(&[m.select(burst.id, &issued), burst.id]), &page);

    let (fails, id) = (coming.valid, coming.id);
    // The burst of a response is in flight, so no new one has its place.
    let page = pages.read(m, fails, cat(&[coming.done, id]), Collision::Never);
    let fault = m.reg_of("fault", &WriteFault::of());
    let (failed, kind) = (m.reg("failed", 1).reset(0), m.delay("failed_kind", &id));
    m.set(&failed, fails & !clear);
    m.when(failed & !fault.valid, |m| {
        m.set(&fault.valid, 1);
        m.set(&fault.kind, kind);
        m.set(&fault.page, page.zext(52));
    });
    m.when(clear, |m| m.set(&fault.valid, 0));
    fault
}
