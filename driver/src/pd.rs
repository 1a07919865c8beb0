// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`ProtectionDomain`]: what may be used together (IBTA 10.2.3).

use std::sync::Arc;

use ferrowire_spec::queue::CommandOpcode;

use crate::context::{Context, Device};
use crate::error::{Error, Result};
use crate::mr::Leftovers;

/// The domain itself, held by all that belongs to it.
pub(crate) struct Pd {
    pub(crate) device: Arc<Device>,
    pub(crate) number: u32,
    /// Regions that the card has kept so far.
    pub(crate) leftovers: Leftovers,
    live: bool,
}

impl Pd {
    fn free(&mut self) -> Result<()> {
        if std::mem::take(&mut self.live) {
            self.leftovers.retry(&self.device);
            self.device.commands.simple(CommandOpcode::FreePd, self.number)?;
            self.device.tables(|t| t.pds.give_back(self.number));
        }
        Ok(())
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // A domain that the card does not give back is never used again.
        let _ = self.free();
    }
}

/// A protection domain. Regions and queue pairs of different domains cannot be used together.
///
/// `Send` and `Sync`; clones are the same domain. It is given back when the last clone and the last object in it are gone.
#[derive(Clone)]
pub struct ProtectionDomain {
    pub(crate) pd: Arc<Pd>,
}

impl ProtectionDomain {
    /// Its number on the card.
    pub fn number(&self) -> u32 {
        self.pd.number
    }

    /// Gives it back, and says whether that worked.
    ///
    /// # Errors
    /// `Busy` while something belongs to it or a clone is left: then it is given back with the last of these. `Command`
    /// when the card refuses.
    pub fn destroy(self) -> Result<()> {
        let number = self.pd.number;
        let users = Arc::strong_count(&self.pd) - 1;
        match Arc::into_inner(self.pd) {
            Some(mut pd) => pd.free(),
            None => Err(Error::Busy { what: "protection domain", number, users: users.max(1) }),
        }
    }
}

impl Context {
    /// Takes a protection domain.
    ///
    /// # Errors
    /// `NoResource` when none is left, `Command` when the card refuses.
    pub fn alloc_pd(&self) -> Result<ProtectionDomain> {
        let device = Arc::clone(&self.device);
        let number =
            device.take("alloc_pd", "protection domains", device.capabilities.max_pd, |t| &mut t.pds)?;
        match device.commands.simple(CommandOpcode::AllocPd, number) {
            Ok(_) => Ok(ProtectionDomain {
                pd: Arc::new(Pd { device, number, leftovers: Leftovers::default(), live: true }),
            }),
            Err(error) => {
                if !error.is_unanswered() {
                    device.tables(|t| t.pds.give_back(number));
                }
                Err(error)
            }
        }
    }
}
