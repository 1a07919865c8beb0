// SPDX-License-Identifier: MIT OR Apache-2.0
//! What went wrong with the card's writes of host memory.

crate::table::codes! {
    /// What a write of host memory carries.
    enum WriteKind, "write_kind";
    /// Payload of a message.
    Payload = 0, "PAYLOAD";
    /// Completion queue entries.
    Completion = 1, "COMPLETION_ENTRY";
    /// Event queue entries and completions of commands.
    Event = 2, "EVENT_ENTRY";
}

crate::table::registers! {
    /// The first write of host memory that failed since the last reset of any kind. Zero on cards whose bus does not report failed writes.
    block "host_memory", 0x02c0, 0x40 bytes;
    /// What failed, and the low bits of its address. Read before `write_fault_hi`.
    WRITE_FAULT write_fault @ 0x00 {
        /// A write failed: the fields beside this one and `write_fault_hi` describe the first one.
        valid @ 0, 1, RO;
        /// What it carried, one of [`WriteKind`].
        kind @ 1, 2, RO;
        /// Bits 31:12 of its bus address: the 4 KiB page.
        page @ 12, 20, RO;
    }
    /// The high bits of its address.
    WRITE_FAULT_HI write_fault_hi @ 0x04 {
        /// Bits 63:32.
        page @ 0, 32, RO;
    }
}
