// SPDX-License-Identifier: MIT OR Apache-2.0
//! Base transport header: stands in every RoCE packet behind UDP.

crate::table::layout! {
    /// Base transport header: stands in every RoCE packet behind UDP.
    struct Bth, "bth", Network, 12 bytes, "IBTA 9.2";
    /// What the packet is, and which headers follow: see [`crate::wire::Opcode`].
    OPCODE opcode: u8 @ 0, 8, RW, "IBTA 9.2.1";
    /// Solicited event: the receiver's completion may wake whoever armed for solicited ones.
    SE se: bool @ 8, 1, RW, "IBTA 9.2.3";
    /// Migration state; sent as 1 (migrated), not looked at. Between queue pairs that have agreed on selective retransmission, 0 marks what is sent again.
    MIGREQ migreq: bool @ 9, 1, RW = 1, "IBTA 9.2.4";
    /// How many of the last payload bytes are padding.
    PAD pad: u8 @ 10, 2, RW, "IBTA 9.2.5";
    /// Transport header version: 0, anything else is dropped.
    TVER tver: u8 @ 12, 4, RW, "IBTA 9.2.2";
    /// Partition key: 15 bits of partition, and in the top bit whether the sender is a full member.
    PKEY pkey: u16 @ 16, 16, RW = 0xffff, "IBTA 9.2.6";
    /// Forward congestion notification. Masked in the ICRC.
    FECN fecn: bool @ 32, 1, RW, "IBTA A17";
    /// Backward congestion notification: set in a CNP. Masked in the ICRC.
    BECN becn: bool @ 33, 1, RW, "IBTA A17.9.3";
    /// Reserved. Masked in the ICRC.
    RESV6 resv6: u8 @ 34, 6, RSVD, "IBTA 9.2.7";
    /// Destination queue pair.
    DESTQP destqp: u32 @ 40, 24, RW, "IBTA 9.2.8";
    /// The sender asks for an acknowledgement.
    ACKREQ ackreq: bool @ 64, 1, RW, "IBTA 9.2.9";
    /// Reserved; covered by the ICRC. Between queue pairs that have agreed on selective retransmission, the distance of a READ or atomic.
    RESV7 resv7: u8 @ 65, 7, RW, "IBTA 9.2.7";
    /// Packet sequence number.
    PSN psn: u32 @ 72, 24, RW, "IBTA 9.2.10";
}
