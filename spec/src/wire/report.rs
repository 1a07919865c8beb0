// SPDX-License-Identifier: MIT OR Apache-2.0
//! What follows the base transport header in a report of selective retransmission.
//!
//! It is not of the standard: its opcode is one of those that are left to manufacturers (IBTA volume 1, 9.2.1), and only queue pairs
//! that have agreed on it send it. See `docs/src/selective.md`.

/// The opcode of a report, of RC.
pub const OPCODE: u8 = super::Opcode::RcReport as u8;

/// The version of the contract.
pub const CURRENT: u8 = 1;

/// PSNs that a report can tell of.
pub const REACH: u32 = 256;

/// The highest distance of a READ or atomic request in `resv7` of the base transport header.
pub const MAX_DISTANCE: u32 = 127;

/// How many PSNs a requester may have under way, by the bytes of the path MTU: what a receiver with 4,096 beats of 64 bytes keeps of them.
pub const fn window(mtu: u32) -> u32 {
    match mtu {
        4096 => 52,
        2048 => 96,
        _ => 176,
    }
}

crate::table::layout! {
    /// A report of selective retransmission: which packets after a gap have arrived.
    struct Report, "report", Network, 40 bytes, "selective.md";
    /// Version of the contract.
    VERSION version: u8 @ 0, 8, RW = 1;
    /// First PSN that is missing.
    BASE base: u32 @ 8, 24, RW;
    /// PSNs from `base` on, up to and with the first PSN of the last packet that is kept: 2 to 256.
    HEARD heard: u16 @ 32, 16, RW;
    /// Of these so many from `base` on are lost if they are missing.
    LOST lost: u16 @ 48, 16, RW;
    /// Bit `i` of these 256, from the first one on the wire on, is that of the PSN whose low eight bits are `i`: a kept packet begins with it. These are the first
    /// 128.
    ARRIVED_LOW arrived_low: u128 @ 64, 128, RW;
    /// The other 128.
    ARRIVED_HIGH arrived_high: u128 @ 192, 128, RW;
}

impl Report {
    /// Whether a kept packet begins with this PSN, which is within `heard` of `base`.
    pub const fn has(&self, psn: u32) -> bool {
        let half = if psn & 0x80 == 0 { self.arrived_low } else { self.arrived_high };
        half << (psn & 0x7f) >> 127 == 1
    }

    /// Marks a PSN as arrived.
    pub fn mark(&mut self, psn: u32) {
        let half = if psn & 0x80 == 0 { &mut self.arrived_low } else { &mut self.arrived_high };
        *half |= 1 << 127 >> (psn & 0x7f);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bit_of_a_psn_is_where_the_contract_has_it() {
        for psn in [0u32, 1, 7, 8, 126, 127, 128, 200, 255, 256, 0xff_ff01] {
            let mut report = Report::default();
            assert!(!report.has(psn));
            report.mark(psn);
            let bytes = report.to_bytes().unwrap();
            // `arrived` begins with the ninth byte.
            let at = psn as usize % 256;
            let mut wanted = [0; 32];
            wanted[at / 8] = 0x80 >> (at % 8);
            assert_eq!(bytes[8..], wanted, "{psn:#x}");
            assert!((0..256).all(|other| report.has(other) == (other == psn % 256)), "{psn:#x}");
        }
    }

    #[test]
    fn a_window_is_what_a_receiver_keeps() {
        assert_eq!([256, 512, 1024, 2048, 4096].map(window), [176, 176, 176, 96, 52]);
    }
}
