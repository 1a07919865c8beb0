// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields of registers, by their name in the tables.

use ferrowire_spec::{Field, Register};

/// The field of that name; does not compile in a constant when there is none.
pub(crate) const fn field(register: &Register, name: &str) -> Field {
    match register.field(name) {
        Some(field) => *field,
        None => panic!("the register has no such field"),
    }
}

/// The field's value in a register that was read.
pub(crate) const fn get(field: &Field, value: u32) -> u32 {
    (value as u64 >> field.offset) as u32 & field.max() as u32
}

/// A register with one field set.
pub(crate) const fn put(field: &Field, value: u32) -> u32 {
    (value & field.max() as u32) << field.offset
}
