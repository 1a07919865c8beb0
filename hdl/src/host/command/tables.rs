// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the command processor keeps of objects, and the write ports of the tables that it owns.

use crate::types::{AddressVector, TableWrite};
use ferrowire_rtl::{Bundle, Scope, Sig};

/// What is kept of a completion queue.
#[derive(Clone, Bundle)]
pub(super) struct OwnedCq {
    pub(super) owned: Owned,
    pub(super) eqn: Sig,
}

/// Something that others refer to.
#[derive(Clone, Bundle)]
pub(super) struct Owned {
    pub(super) exists: Sig,
    pub(super) users: Sig,
}

/// What is kept of a shared receive queue.
#[derive(Clone, Bundle)]
pub(super) struct OwnedSrq {
    pub(super) owned: Owned,
    pub(super) pd: Sig,
    pub(super) log2: Sig,
}

/// What is kept of a key.
#[derive(Clone, Bundle)]
pub(super) struct OwnedKey {
    pub(super) exists: Sig,
    pub(super) tag: Sig,
    pub(super) pd: Sig,
    pub(super) window: Sig,
    /// A region's page table entries: the first, and the one behind the last.
    pub(super) first: Sig,
    pub(super) end: Sig,
}

/// The address vector that the next MODIFY_QP puts into effect.
#[derive(Clone, Bundle)]
pub(super) struct Staged {
    pub(super) given: Sig,
    pub(super) gid: Sig,
    pub(super) vector: AddressVector,
}

/// A table's single write port.
pub(super) struct WritePort<T: Bundle> {
    pub(super) enable: Sig,
    pub(super) index: Sig,
    pub(super) entry: T,
}

impl<T: Bundle> WritePort<T> {
    pub(super) fn new(m: &Scope, name: &str, index: Sig, shape: &T) -> Self {
        let enable = m.wire(&format!("{name}_enable"), 1);
        let at = m.wire(&format!("{name}_index"), index.width());
        let entry = m.wire_of(&format!("{name}_entry"), shape);
        m.set(&enable, 0);
        m.set(&at, index);
        m.set_all(&entry, &shape.zeros());
        WritePort { enable, index: at, entry }
    }

    /// Writes in this cycle; within the open `when`.
    pub(super) fn write(&self, m: &Scope, index: Sig, entry: &T) {
        m.set(&self.enable, 1);
        m.set(&self.index, index);
        m.set_all(&self.entry, entry);
    }

    pub(super) fn table(self) -> TableWrite<T> {
        TableWrite { enable: self.enable, index: self.index, entry: self.entry }
    }
}
