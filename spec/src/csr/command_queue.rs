// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the command queue and its completions lie.

crate::table::registers! {
    /// Where the command queue and its completions lie. Addresses and sizes may change only while `enable` is 0.
    block "command_queue", 0x0100, 0x80 bytes;
    /// Low word of the host address of the commands; a multiple of 4096.
    CMDQ_BASE_LO cmdq_base_lo @ 0x00 {
        /// Bits 31:0.
        value @ 0, 32, RW;
    }
    /// High word of the host address of the commands.
    CMDQ_BASE_HI cmdq_base_hi @ 0x04 {
        /// Bits 63:32.
        value @ 0, 32, RW;
    }
    /// Size of the command queue.
    CMDQ_LOG2 cmdq_log2 @ 0x08 {
        /// Commands of 64 bytes, as a power of two.
        value @ 0, 8, RW;
    }
    /// Writing rings: commands up to it are ready.
    CMDQ_PRODUCER cmdq_producer @ 0x0c {
        /// Commands posted since `enable` was set, modulo 2^16.
        value @ 0, 16, RW;
    }
    /// Low word of the host address of the completions; a multiple of 4096.
    COMPL_BASE_LO compl_base_lo @ 0x10 {
        /// Bits 31:0.
        value @ 0, 32, RW;
    }
    /// High word of the host address of the completions.
    COMPL_BASE_HI compl_base_hi @ 0x14 {
        /// Bits 63:32.
        value @ 0, 32, RW;
    }
    /// Size of the completion ring. A driver has no more commands in progress than it has entries.
    COMPL_LOG2 compl_log2 @ 0x18 {
        /// Completions of 16 bytes, as a power of two.
        value @ 0, 8, RW;
    }
    /// How many commands the card has taken.
    CMDQ_CONSUMER cmdq_consumer @ 0x1c {
        /// Commands taken since `enable` was set, modulo 2^16.
        value @ 0, 16, RO;
    }
    /// Switches.
    CONTROL control @ 0x20 {
        /// Commands are taken. Setting it begins both rings at entry 0 with phase 1.
        enable @ 0, 1, RW;
        /// Writing 1 removes every object and stops all DMA; reads 1 until that is done.
        reset @ 1, 1, RW;
    }
    /// State of the card.
    STATUS status @ 0x24 {
        /// Tables are clear: the card takes commands once enabled.
        ready @ 0, 1, RO;
        /// The command ring could not be read or written; only a reset helps.
        fatal @ 1, 1, RO;
    }
}
