// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP header.

crate::table::layout! {
    /// UDP header.
    struct Udp, "udp", Network, 8 bytes, "RFC 768";
    /// Source port: entropy for the network's hashes, constant for a queue pair, 0xC000 to 0xFFFF.
    SPORT sport: u16 @ 0, 16, RW = 0xc000, "IBTA A17.3.2";
    /// Destination port: 4791 names RoCE v2.
    DPORT dport: u16 @ 16, 16, RW = 4791, "IBTA A17.3.2";
    /// Bytes from this header to the end of the ICRC.
    LEN len: u16 @ 32, 16, RW;
    /// Checksum; 0 says there is none, over IPv6 too. Masked in the ICRC.
    CHECKSUM checksum: u16 @ 48, 16, RW, "IBTA A17.3.2";
}

/// Destination port of RoCE v2.
pub const ROCE_PORT: u16 = 4791;
