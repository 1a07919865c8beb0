// SPDX-License-Identifier: MIT OR Apache-2.0
//! MSI-X (PCIe 7.7.2), as `hdl/src/host/pcie/msix.rs` has it: the table of vectors in BAR 0, the pending bits, and the messages.
//!
//! ```text
//!  interrupt of an event queue --> pending bit --> enabled, function and vector not masked? --> message
//!                                      |    no: it stays pending
//!  access <--- pending bits, table: address, data, mask
//! ```
//!
//! Several interrupts of a vector before its message are one. Enable and function mask are inputs, which the configuration space holds. A
//! reset of the whole function masks every vector; one by the host's register `control` does not. Both forget what is pending.
//!
//! Bad input: an interrupt of a vector that the table does not have is forgotten; accesses after the table's end read zero and write
//! nothing; pending bits cannot be written.

use std::collections::VecDeque;

use ferrowire_spec::csr::{MSIX_PBA, MSIX_TABLE};
use ferrowire_spec::pci::MSIX_ENTRY;

use super::limits;
use crate::model::Instant;

/// Last word of an entry: vector control.
const CONTROL: usize = 3;
/// Vector control: masked.
const MASKED: u32 = 1;

/// An interrupt on its way to the host: a write of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// When it was sent.
    pub at: Instant,
    /// The vector.
    pub vector: u8,
    /// Where the host wants it.
    pub address: u64,
    /// What is written there.
    pub data: u32,
}

/// Table, pending bits and messages.
#[derive(Debug)]
pub(super) struct Msix {
    table: Vec<[u32; 4]>,
    pending: u128,
    enabled: bool,
    masked: bool,
    sent: VecDeque<Message>,
    /// The time of what is sent.
    now: Instant,
}

impl Msix {
    /// As after power-on: every vector is masked.
    pub(super) fn new() -> Self {
        let table = vec![[0, 0, 0, MASKED]; limits::EQS as usize];
        Self { table, pending: 0, enabled: false, masked: false, sent: VecDeque::new(), now: 0 }
    }

    /// What is sent from now on is sent then.
    pub(super) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Whether an address in BAR 0 is of the table or of the pending bits.
    pub(super) fn covers(offset: u32) -> bool {
        (MSIX_TABLE..2 * MSIX_PBA - MSIX_TABLE).contains(&offset)
    }

    /// What the host reads at an address that is covered, a multiple of 4.
    pub(super) fn read(&self, offset: u32) -> u32 {
        match offset.checked_sub(MSIX_PBA) {
            Some(at) => self.pending.checked_shr(8 * at).unwrap_or(0) as u32,
            None => {
                let (entry, word) = place(offset);
                self.table.get(entry).map_or(0, |words| words[word])
            }
        }
    }

    /// The host's write there.
    pub(super) fn write(&mut self, offset: u32, value: u32) {
        let (entry, word) = place(offset);
        if let Some(words) = self.table.get_mut(entry).filter(|_| offset < MSIX_PBA) {
            words[word] = if word == CONTROL { value & MASKED } else { value };
            self.deliver();
        }
    }

    /// What the configuration space says.
    pub(super) fn set_function(&mut self, enabled: bool, masked: bool) {
        (self.enabled, self.masked) = (enabled, masked);
        self.deliver();
    }

    /// An interrupt for a vector.
    pub(super) fn raise(&mut self, vector: u8) {
        if usize::from(vector) < self.table.len() {
            self.pending |= 1 << vector;
            self.deliver();
        }
    }

    /// The next message.
    pub(super) fn take(&mut self) -> Option<Message> {
        self.sent.pop_front()
    }

    /// What is pending is forgotten, as in a reset by the host's register. What is on its way goes.
    pub(super) fn forget(&mut self) {
        self.pending = 0;
    }

    /// Sends what may go.
    fn deliver(&mut self) {
        if !self.enabled || self.masked || self.pending == 0 {
            return;
        }
        for (vector, [low, high, data, control]) in self.table.iter().enumerate() {
            let bit = 1 << vector;
            if self.pending & bit != 0 && control & MASKED == 0 {
                self.pending &= !bit;
                let address = u64::from(*high) << 32 | u64::from(*low);
                let (at, vector) = (self.now, vector as u8);
                self.sent.push_back(Message { at, vector, address, data: *data });
            }
        }
    }
}

/// Entry and word of an address in the table.
fn place(offset: u32) -> (usize, usize) {
    let at = offset - MSIX_TABLE;
    ((at / MSIX_ENTRY) as usize, (at % MSIX_ENTRY / 4) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(vector: u32) -> u32 {
        MSIX_TABLE + MSIX_ENTRY * vector + 4 * CONTROL as u32
    }

    #[test]
    fn what_is_masked_or_not_enabled_is_pending_and_goes_once_when_it_may() {
        let mut msix = Msix::new();
        assert_eq!(msix.read(control(5)), MASKED);
        for (word, value) in [(0, 0xfee0_1000), (4, 7), (8, 0x41)] {
            msix.write(control(5) - 12 + word, value);
        }
        msix.raise(5);
        msix.raise(5);
        assert_eq!((msix.read(MSIX_PBA), msix.take()), (1 << 5, None), "not enabled");
        msix.set_function(true, false);
        assert_eq!((msix.read(MSIX_PBA), msix.take()), (1 << 5, None), "the vector is masked");
        msix.set_function(true, true);
        msix.write(control(5), 0xffff_fffe);
        assert_eq!((msix.read(MSIX_PBA), msix.take()), (1 << 5, None), "the function is masked");
        msix.set_function(true, false);
        let message = Message { at: 0, vector: 5, address: 7 << 32 | 0xfee0_1000, data: 0x41 };
        assert_eq!((msix.read(MSIX_PBA), msix.take(), msix.take()), (0, Some(message), None));
        msix.raise(5);
        assert_eq!((msix.read(MSIX_PBA), msix.take()), (0, Some(message)));
    }

    #[test]
    fn each_vector_has_a_pending_bit_of_its_own_and_none_can_be_written() {
        let mut msix = Msix::new();
        for vector in [0, 31, 32, 63, 64, 127] {
            msix.raise(vector);
        }
        let words = [0, 4, 8, 12, 16, 0x7fc].map(|at| msix.read(MSIX_PBA + at));
        assert_eq!(words, [1 << 31 | 1, 1 << 31 | 1, 1, 1 << 31, 0, 0]);
        msix.write(MSIX_PBA, 0);
        msix.raise(128);
        msix.raise(255);
        assert_eq!(msix.read(MSIX_PBA), 1 << 31 | 1);
        msix.forget();
        assert_eq!(msix.read(MSIX_PBA), 0);
        msix.set_function(true, false);
        (0..128).for_each(|vector| msix.write(control(vector), 0));
        assert_eq!(msix.take(), None);
        msix.raise(127);
        assert_eq!(msix.take().map(|message| message.vector), Some(127));
    }

    #[test]
    fn the_table_is_as_long_as_the_bar_has_room_for() {
        assert!(!Msix::covers(MSIX_TABLE - 4) && Msix::covers(MSIX_TABLE) && Msix::covers(MSIX_PBA + 0x7fc));
        assert!(!Msix::covers(MSIX_PBA + 0x800));
        assert_eq!(Msix::new().table.len(), ferrowire_spec::pci::MSIX_MAX as usize);
    }
}
