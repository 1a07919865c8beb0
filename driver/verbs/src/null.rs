// SPDX-License-Identifier: MIT OR Apache-2.0
//! Null memory regions: what is read from one is zero, and what is written to one is discarded (`ibv_alloc_null_mr(3)`).
//!
//! The card has no such region. Each domain that the program asks for one gets two ordinary regions, of zeros and for what is discarded. Work requests
//! that name the null key are posted with the address and key of one of these. Work requests of other domains are not looked at.

use std::sync::OnceLock;

use ferrowire::{AccessFlags, HostMemory, MemoryRegion, Sge};
use rustix::io::Errno;

use crate::failure::{Failure, Result};
use crate::pd::Pd;

/// Bytes of each region, so also of an element that may name the null key.
const BYTES: usize = 16 << 20;

/// The regions of a domain.
#[derive(Default)]
pub struct Null(OnceLock<Regions>);

struct Regions {
    zeros: MemoryRegion,
    discarded: MemoryRegion,
}

impl Regions {
    fn new(pd: &Pd) -> Result<Self> {
        let card = pd.context().card()?;
        let page = card.context.capabilities().page_size(BYTES);
        let region = |access| -> Result<MemoryRegion> {
            let memory: HostMemory = card.context.alloc(BYTES, page.bytes() as usize)?;
            Ok(pd.domain().register(&memory, access, page)?)
        };
        Ok(Self { zeros: region(AccessFlags::LOCAL_READ)?, discarded: region(AccessFlags::LOCAL_WRITE)? })
    }
}

/// The null key of a domain, which has its regions from then on.
pub fn key(pd: &Pd) -> Result<u32> {
    let null = pd.null();
    if null.0.get().is_none() {
        // Another thread may have been faster: then these go.
        let _ = null.0.set(Regions::new(pd)?);
    }
    null.0.get().map(|regions| regions.zeros.lkey()).ok_or(Failure::new(Errno::NOMEM, "no null region"))
}

impl Null {
    /// Whether elements of work requests must be looked at.
    pub fn is_used(&self) -> bool {
        self.0.get().is_some()
    }

    /// Puts the right region into elements that name the null key. `written`: the card writes to them.
    pub fn translate(&self, sges: &mut [Sge], written: bool) -> Result<()> {
        let Some(regions) = self.0.get() else { return Ok(()) };
        let region = if written { &regions.discarded } else { &regions.zeros };
        let key = regions.zeros.lkey();
        for sge in sges.iter_mut().filter(|sge| sge.lkey == key) {
            if sge.bytes as usize > BYTES {
                return Err(Failure::text(
                    Errno::INVAL,
                    format!("{} bytes of a null region; an element takes up to {BYTES}", sge.bytes),
                ));
            }
            *sge = Sge { address: region.address(), lkey: region.lkey(), bytes: sge.bytes };
        }
        Ok(())
    }
}
