// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`AddressHandle`]: where datagrams go (IBTA 10.2.2.2).

use std::fmt;
use std::sync::Arc;

use ferrowire_spec::queue::command::create_ah::CreateAh;
use ferrowire_spec::queue::CommandOpcode;

use crate::av::AddressVector;
use crate::error::{Error, Result};
use crate::pd::{Pd, ProtectionDomain};

const CREATE: &str = "create_ah";

/// The handle itself.
struct Ah {
    pd: Arc<Pd>,
    number: u32,
    live: bool,
}

impl Ah {
    fn destroy(&mut self) -> Result<()> {
        if std::mem::take(&mut self.live) {
            self.pd.device.commands.simple(CommandOpcode::DestroyAh, self.number)?;
            self.pd.device.tables(|t| t.ahs.give_back(self.number));
        }
        Ok(())
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        // A handle that the card does not give back is never used again.
        let _ = self.destroy();
    }
}

/// A way to a port, kept on the card: UD work requests name one each, see [`SendWr::to`](crate::SendWr::to).
///
/// Only queue pairs of its protection domain may use it. UDP source port and partition key are those of the queue pair that sends.
/// Keep it until the work requests that name it have completed: one whose handle is gone ends with `LOC_QP_OP_ERR`, and what was
/// on its way may go where the next handle of that number points.
///
/// `Send` and `Sync`; clones are the same handle. It is destroyed when the last clone is gone.
#[derive(Clone)]
pub struct AddressHandle {
    ah: Arc<Ah>,
}

impl fmt::Debug for AddressHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AddressHandle({:#x})", self.ah.number)
    }
}

/// Whether both are clones of one handle.
impl PartialEq for AddressHandle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.ah, &other.ah)
    }
}

impl Eq for AddressHandle {}

impl AddressHandle {
    /// Its number on the card.
    pub fn number(&self) -> u32 {
        self.ah.number
    }

    /// The domain whose queue pairs may use it.
    pub(crate) fn pd(&self) -> &Pd {
        &self.ah.pd
    }

    /// Destroys it, and says whether that worked.
    ///
    /// # Errors
    /// `Busy` while a clone is left: then it is destroyed with the last of these. `Command` when the card refuses.
    pub fn destroy(self) -> Result<()> {
        let number = self.ah.number;
        let users = Arc::strong_count(&self.ah) - 1;
        match Arc::into_inner(self.ah) {
            Some(mut ah) => ah.destroy(),
            None => Err(Error::Busy { what: "address handle", number, users: users.max(1) }),
        }
    }
}

impl ProtectionDomain {
    /// Makes an address handle for the UD queue pairs of this domain.
    ///
    /// # Errors
    /// `Attribute` when the card has no datagrams, or for a way that it cannot go, `NoResource` when no handle is left, `Command` when the card refuses.
    pub fn create_ah(&self, av: &AddressVector) -> Result<AddressHandle> {
        let device = &self.pd.device;
        let can = &device.capabilities;
        if !can.ud {
            let fix =
                "the card has no datagrams, hence no address handles; connect queue pairs instead".into();
            return Err(Error::Attribute { operation: CREATE, attribute: "ud", value: 0, fix });
        }
        av.check(can.ipv6, can.vlan)?;
        let gid = device.gid_of(av)?;
        let number = device.take(CREATE, "address handles", can.max_ah, |t| &mut t.ahs)?;
        let result = device.commands.run(CommandOpcode::CreateAh, number, |token| {
            let set = av.command(token, number, gid);
            CreateAh {
                token,
                object: number,
                pd: self.pd.number,
                dst_mac: set.dst_mac,
                src_mac: set.src_mac,
                vlan_tci: set.vlan_tci,
                vlan: set.vlan,
                traffic_class: set.traffic_class,
                hop_limit: set.hop_limit,
                flow_label: set.flow_label,
                ipv6: set.ipv6,
                dst_ip: set.dst_ip,
                src_ip: set.src_ip,
                ..CreateAh::default()
            }
            .to_bytes()
        });
        match result {
            Ok(_) => Ok(AddressHandle { ah: Arc::new(Ah { pd: Arc::clone(&self.pd), number, live: true }) }),
            Err(error) => {
                if !error.is_unanswered() {
                    device.tables(|t| t.ahs.give_back(number));
                }
                Err(error)
            }
        }
    }
}
