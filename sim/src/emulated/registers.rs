// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registers of BAR 0: what the tables of `ferrowire-spec` say, as storage.

use std::collections::BTreeMap;

use ferrowire_spec::csr::{command_queue as queue, port};
use ferrowire_spec::{Access, Block, Register, ALL_BLOCKS};

use super::limits;

/// Bytes of BAR 0.
pub(super) const BAR_BYTES: u32 = 1 << 24;

#[derive(Clone, Copy, Debug, Default)]
struct Word {
    value: u32,
    /// Bits that the host may write, and those that it can read.
    writable: u32,
    readable: u32,
}

/// Registers of 32 bits, by their addresses. Counters are not here.
#[derive(Debug)]
pub(super) struct Registers(BTreeMap<u32, Word>);

impl Registers {
    /// As after power-on.
    pub(super) fn new() -> Self {
        let mut words = BTreeMap::new();
        for block in ALL_BLOCKS {
            for register in block.registers.iter().filter(|register| register.bytes == 4) {
                let bits = |of: &dyn Fn(Access) -> bool| {
                    let fields = register.fields.iter().filter(|field| of(field.access));
                    fields.fold(0, |all, field| all | (field.max() as u32) << field.offset)
                };
                let word = Word {
                    value: register.reset() as u32,
                    writable: bits(&|access| matches!(access, Access::RW | Access::WO)),
                    readable: bits(&|access| matches!(access, Access::RW | Access::RO)),
                };
                words.insert(block.address(register), word);
            }
        }
        for (block, register, value) in limits::constants() {
            words.entry(block.address(&register)).and_modify(|word: &mut Word| word.value = value);
        }
        let mut all = Self(words);
        all.put(&queue::BLOCK, &queue::STATUS, "ready", 1);
        all.put(&port::BLOCK, &port::LINK, "up", 1);
        all.put(&port::BLOCK, &port::LINK, "speed", limits::LINK_SPEED);
        all
    }

    /// What the host reads there; without a register zero.
    pub(super) fn read(&self, address: u32) -> u32 {
        self.0.get(&address).map_or(0, |word| word.value & word.readable)
    }

    /// The host's write. Whether there is a register.
    pub(super) fn write(&mut self, address: u32, value: u32) -> bool {
        let Some(word) = self.0.get_mut(&address) else { return false };
        word.value = word.value & !word.writable | value & word.writable;
        true
    }

    /// A register, the bits included that the host cannot read.
    pub(super) fn whole(&self, block: &Block, register: &Register) -> u32 {
        self.0.get(&block.address(register)).map_or(0, |word| word.value)
    }

    /// A field of a register.
    pub(super) fn get(&self, block: &Block, register: &Register, name: &str) -> u32 {
        let Some(field) = register.field(name) else { return 0 };
        self.whole(block, register) >> field.offset & field.max() as u32
    }

    /// Two registers as one number, low word first.
    pub(super) fn pair(&self, block: &Block, low: &Register, high: &Register) -> u64 {
        u64::from(self.whole(block, high)) << 32 | u64::from(self.whole(block, low))
    }

    /// The card's own write of a field.
    pub(super) fn put(&mut self, block: &Block, register: &Register, name: &str, value: u32) {
        let (Some(word), Some(field)) = (self.0.get_mut(&block.address(register)), register.field(name))
        else {
            return;
        };
        let mask = (field.max() as u32) << field.offset;
        word.value = word.value & !mask | value << field.offset & mask;
    }

    /// Back to what it is after power-on.
    pub(super) fn restore(&mut self, block: &Block, register: &Register) {
        if let Some(word) = self.0.get_mut(&block.address(register)) {
            word.value = register.reset() as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrowire_spec::csr::{capabilities, congestion, identity};

    use super::*;

    #[test]
    fn only_what_the_tables_let_the_host_write_changes() {
        let mut registers = Registers::new();
        let magic = identity::BLOCK.address(&identity::MAGIC);
        assert!(registers.write(magic, 0));
        assert_eq!(registers.read(magic), identity::MAGIC_VALUE);
        let link = port::BLOCK.address(&port::LINK);
        registers.write(link, u32::MAX);
        assert_eq!(registers.read(link), limits::LINK_SPEED << 16 | 0b11);
        let write_only = port::BLOCK.address(&port::GID_IP0);
        registers.write(write_only, 7);
        assert_eq!(registers.read(write_only), 0);
        assert_eq!(registers.whole(&port::BLOCK, &port::GID_IP0), 7);
        assert!(!registers.write(0x3c, 1));
        assert_eq!(registers.read(0x3c), 0);
        let limit = capabilities::BLOCK.address(&capabilities::MAX_QP);
        assert_eq!(registers.read(limit), limits::QPS);
        let rate = congestion::BLOCK.address(&congestion::NOTIFY);
        assert_eq!(registers.read(rate), 50);
    }
}
