// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`AccessFlags`]: rights of regions and queue pairs.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use ferrowire_spec::queue::Access;

use crate::context::Capabilities;
use crate::error::{Error, Result};

/// A set of rights, as `access` of a command.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AccessFlags(u8);

impl AccessFlags {
    /// No right but that of the card to read for local requests, which every region gives.
    pub const LOCAL_READ: Self = Self(0);
    /// The card may write for local requests: receives, READ answers, atomic answers.
    pub const LOCAL_WRITE: Self = Self(Access::LocalWrite.code());
    /// Peers may WRITE.
    pub const REMOTE_WRITE: Self = Self(Access::RemoteWrite.code());
    /// Peers may READ.
    pub const REMOTE_READ: Self = Self(Access::RemoteRead.code());
    /// Peers may use atomics.
    pub const REMOTE_ATOMIC: Self = Self(Access::RemoteAtomic.code());
    /// Windows may be bound to the region.
    pub const MW_BIND: Self = Self(Access::MwBind.code());
    /// Addresses of the region count from 0 (plus the place in the first page).
    pub const ZERO_BASED: Self = Self(Access::ZeroBased.code());
    /// What the card writes there may be seen in any order before its completion, also where messages write the same bytes. Over PCIe its writes
    /// are then marked so, where the host has that enabled, and may pass others on their way to memory; elsewhere it changes nothing. Not of windows.
    pub const RELAXED_ORDERING: Self = Self(Access::RelaxedOrdering.code());

    /// The rights of peers.
    pub const REMOTE: Self = Self(Self::REMOTE_WRITE.0 | Self::REMOTE_READ.0 | Self::REMOTE_ATOMIC.0);

    /// As `access` of a command.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all of `other` are among them.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether one of `other` is among them.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Those that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Refuses rights to what the card does not have.
    pub(crate) fn check(self, operation: &'static str, can: &Capabilities) -> Result<()> {
        let refuse = |fix: &str| {
            Err(Error::Attribute { operation, attribute: "access", value: self.0.into(), fix: fix.into() })
        };
        if self.contains(Self::REMOTE_ATOMIC) && !can.atomics {
            return refuse("the card has no atomics; leave REMOTE_ATOMIC out");
        }
        if self.contains(Self::MW_BIND) && !can.memory_windows {
            return refuse("the card has no memory windows; leave MW_BIND out");
        }
        Ok(())
    }
}

impl BitOr for AccessFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for AccessFlags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for AccessFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessFlags(LOCAL_READ")?;
        for right in Access::ALL.iter().filter(|right| self.0 & right.code() != 0) {
            write!(f, " | {right}")?;
        }
        f.write_str(")")
    }
}
