// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a packet was dropped: one counter a reason, and the code by which the hardware names it.
//!
//! Up to `reserved_opcode` the reasons stand in the order in which they are checked; the first counts. `mac_control` comes with `not_roce`.

crate::table::counters! {
    /// Why a packet was dropped.
    enum DropReason, "drops", 0x0900, 0x100 bytes;
    /// Shorter than its Ethernet, IP or UDP header, or aborted by the MAC.
    Runt = 0, "drop_runt";
    /// Not UDP to port 4791 over IPv4 or IPv6, and not one that the raw Ethernet queue pair takes.
    NotRoce = 1, "drop_not_roce";
    /// IP version or header length is wrong, or the IPv4 header has options.
    IpHeader = 2, "drop_ip_header";
    /// A fragment, and not one that the raw Ethernet queue pair takes.
    IpFragment = 3, "drop_ip_fragment";
    /// IPv4 header checksum is wrong.
    IpChecksum = 4, "drop_ip_checksum";
    /// The lengths of frame, IP, UDP and headers contradict each other.
    Length = 5, "drop_length";
    /// UDP checksum is there and wrong.
    UdpChecksum = 6, "drop_udp_checksum";
    /// ICRC is wrong.
    Icrc = 7, "drop_icrc";
    /// Transport header version is not 0.
    BthVersion = 8, "drop_bth_version";
    /// Opcode has no meaning.
    ReservedOpcode = 9, "drop_reserved_opcode";
    /// Payload or pad that the opcode forbids, or longer than the MTU; a syndrome without a meaning.
    Malformed = 10, "drop_malformed";
    /// No such queue pair.
    NoQp = 11, "drop_no_qp";
    /// The queue pair is of another service.
    Service = 12, "drop_service";
    /// The queue pair's state does not take the packet.
    QpState = 13, "drop_qp_state";
    /// Partition key does not match.
    Pkey = 14, "drop_pkey";
    /// Source address is not the peer's.
    SourceAddress = 15, "drop_source_address";
    /// Destination MAC, IP address or VLAN is not ours.
    Destination = 16, "drop_destination";
    /// Queue key does not match; UD.
    Qkey = 17, "drop_qkey";
    /// No receive WQE; UD and UC.
    NoReceive = 18, "drop_no_receive";
    /// Message longer than the receive buffer; UD and UC.
    TooLong = 19, "drop_too_long";
    /// Out of sequence; UC. Of RC, repeated READs and atomics for which there is no place now: what is behind a gap counts as `out_of_sequence`.
    Sequence = 20, "drop_sequence";
    /// Acknowledgement outside the window: a ghost.
    GhostAck = 21, "drop_ghost_ack";
    /// Duplicate atomic whose answer is no longer kept.
    DuplicateAtomic = 22, "drop_duplicate_atomic";
    /// No room in a buffer of the card.
    Overrun = 23, "drop_overrun";
    /// A MAC control frame that is neither PAUSE nor PFC, ends too early for what it is, or is for another station.
    MacControl = 24, "drop_mac_control";
}

impl DropReason {
    /// Whether a frame with this as its first reason is no RoCE packet of one piece, so that the raw Ethernet queue pair may have it.
    pub const fn may_be_raw(self) -> bool {
        matches!(self, DropReason::NotRoce | DropReason::IpFragment)
    }
}
