// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv4 header without options.

crate::table::layout! {
    /// IPv4 header without options.
    struct Ipv4, "ipv4", Network, 20 bytes, "RFC 791 3.1";
    /// Version: 4.
    VERSION version: u8 @ 0, 4, RW = 4;
    /// Header length in 32-bit words: 5, for RoCE v2 carries no options.
    IHL ihl: u8 @ 4, 4, RW = 5;
    /// Differentiated services code point. Masked in the ICRC.
    DSCP dscp: u8 @ 8, 6, RW, "RFC 2474 3";
    /// Explicit congestion notification; 3 is congestion experienced. Masked in the ICRC.
    ECN ecn: u8 @ 14, 2, RW, "RFC 3168 5";
    /// Bytes of the packet, header included, Ethernet padding not.
    TOTAL_LEN total_len: u16 @ 16, 16, RW;
    /// Identification; free.
    ID id: u16 @ 32, 16, RW;
    /// Reserved flag: 0.
    FLAG_RSVD flag_rsvd: bool @ 48, 1, RSVD;
    /// Do not fragment: set.
    DF df: bool @ 49, 1, RW = 1, "IBTA A17";
    /// More fragments: a RoCE v2 packet that has it is dropped.
    MF mf: bool @ 50, 1, RW, "IBTA A17";
    /// Fragment offset in units of 8 bytes: as `mf`.
    FRAG_OFFSET frag_offset: u16 @ 51, 13, RW, "IBTA A17";
    /// Time to live. Masked in the ICRC.
    TTL ttl: u8 @ 64, 8, RW = 64;
    /// Protocol: 17 for UDP.
    PROTOCOL protocol: u8 @ 72, 8, RW = 17;
    /// Header checksum. Masked in the ICRC.
    CHECKSUM checksum: u16 @ 80, 16, RW;
    /// Source address.
    SRC src: u32 @ 96, 32, RW;
    /// Destination address.
    DST dst: u32 @ 128, 32, RW;
}

/// Protocol number of UDP, in the `protocol` of IPv4 and the `next_header` of IPv6.
pub const PROTOCOL_UDP: u8 = 17;

/// `ecn` of a packet that met congestion.
pub const ECN_CE: u8 = 3;
