// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv6 header without extension headers.

crate::table::layout! {
    /// IPv6 header without extension headers. As a GRH it stands in front of a UD payload in the receive buffer.
    struct Ipv6, "ipv6", Network, 40 bytes, "RFC 8200 3";
    /// Version: 6.
    VERSION version: u8 @ 0, 4, RW = 6;
    /// Differentiated services code point. Masked in the ICRC.
    DSCP dscp: u8 @ 4, 6, RW, "RFC 2474 3";
    /// Explicit congestion notification. Masked in the ICRC.
    ECN ecn: u8 @ 10, 2, RW, "RFC 3168 5";
    /// Flow label. Masked in the ICRC.
    FLOW_LABEL flow_label: u32 @ 12, 20, RW, "RFC 6437";
    /// Bytes behind this header, Ethernet padding not included.
    PAYLOAD_LEN payload_len: u16 @ 32, 16, RW;
    /// Protocol of what follows: 17 for UDP.
    NEXT_HEADER next_header: u8 @ 48, 8, RW = 17;
    /// Hop limit. Masked in the ICRC.
    HOP_LIMIT hop_limit: u8 @ 56, 8, RW = 64;
    /// Source address.
    SRC src: u128 @ 64, 128, RW;
    /// Destination address.
    DST dst: u128 @ 192, 128, RW;
}

/// `next_header` of a fragment extension header.
pub const NEXT_FRAGMENT: u8 = 44;

/// `next_header` of ICMPv6 (RFC 4443).
pub const NEXT_ICMPV6: u8 = 58;
