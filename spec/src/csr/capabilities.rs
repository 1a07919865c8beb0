// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much the card holds.

crate::table::registers! {
    /// How much the card holds. Constant.
    block "capabilities", 0x0040, 0xc0 bytes;
    /// Queue pairs; QPNs are below it. 0 is not given out, 1 is QP1 (GSI): UD, with the queue key 0x80010000.
    MAX_QP max_qp @ 0x00 {
        /// Count.
        value @ 0, 32, RO;
    }
    /// Completion queues; CQNs are below it.
    MAX_CQ max_cq @ 0x04 {
        /// Count.
        value @ 0, 32, RO;
    }
    /// Regions and windows together; key indices are below it. 0 is not given out.
    MAX_MR max_mr @ 0x08 {
        /// Count.
        value @ 0, 32, RO;
    }
    /// Page table entries.
    MTT_ENTRIES mtt_entries @ 0x0c {
        /// Count.
        value @ 0, 32, RO;
    }
    /// Shared receive queues; SRQNs are below it.
    MAX_SRQ max_srq @ 0x10 {
        /// Count; 0: none.
        value @ 0, 32, RO;
    }
    /// Address handles; their numbers are below it.
    MAX_AH max_ah @ 0x14 {
        /// Count; 0: none.
        value @ 0, 32, RO;
    }
    /// Protection domains.
    MAX_PD max_pd @ 0x18 {
        /// Count.
        value @ 0, 32, RO;
    }
    /// Event queues; EQNs are below it. 0 is not given out: as an `eqn` it says none. As many MSI-X vectors.
    MAX_EQ max_eq @ 0x1c {
        /// Count.
        value @ 0, 32, RO;
    }
    /// Doorbell pages.
    DOORBELL_PAGES doorbell_pages @ 0x20 {
        /// Count.
        value @ 0, 32, RO;
    }
    /// Largest path MTU.
    MAX_MTU max_mtu @ 0x24 {
        /// One of `PathMtu`.
        code @ 0, 3, RO = 5;
    }
    /// Page sizes a region may have: bit `n` set says 2^n bytes.
    PAGE_SHIFTS page_shifts @ 0x28 {
        /// Bits 12, 21 and 30.
        bits @ 0, 32, RO = (1 << 12) | (1 << 21) | (1 << 30);
    }
    /// Largest queues, as powers of two.
    LOG_LIMITS log_limits @ 0x2c {
        /// WQEs of a send queue.
        max_sq_log2 @ 0, 8, RO = 15;
        /// WQEs of a receive queue.
        max_rq_log2 @ 8, 8, RO = 15;
        /// Entries of a completion queue.
        max_cq_log2 @ 16, 8, RO = 22;
        /// Entries of the command queue.
        max_cmdq_log2 @ 24, 8, RO = 8;
    }
    /// Limits of a work request.
    WQE_LIMITS wqe_limits @ 0x30 {
        /// SGEs of a send WQE.
        max_send_sge @ 0, 8, RO;
        /// SGEs of a receive WQE.
        max_recv_sge @ 8, 8, RO = 16;
        /// Bytes of inline data.
        max_inline @ 16, 16, RO;
    }
    /// Limits of READs and atomics.
    READ_LIMITS read_limits @ 0x34 {
        /// Largest `max_rd_atomic`.
        max_rd_atomic @ 0, 8, RO;
        /// Largest `max_dest_rd_atomic`.
        max_dest_rd_atomic @ 8, 8, RO;
    }
    /// What the card can do.
    FEATURES features @ 0x38 {
        /// Reliable connections.
        rc @ 0, 1, RO;
        /// Unreliable connections.
        uc @ 1, 1, RO;
        /// Unreliable datagrams.
        ud @ 2, 1, RO;
        /// Atomics.
        atomics @ 3, 1, RO;
        /// Memory windows.
        memory_windows @ 4, 1, RO;
        /// Shared receive queues.
        srq @ 5, 1, RO;
        /// Congestion control by CNP.
        congestion @ 6, 1, RO;
        /// Raw Ethernet queue pair.
        raw_ethernet @ 7, 1, RO;
        /// Selective retransmission.
        selective @ 8, 1, RO;
        /// IPv6.
        ipv6 @ 9, 1, RO;
        /// VLAN tags.
        vlan @ 10, 1, RO;
        /// Command completions and events raise MSI-X.
        msix @ 11, 1, RO;
        /// The card can answer ARP requests and neighbour solicitations itself.
        neighbour_responder @ 12, 1, RO;
        /// WQEs can be pushed into doorbell pages.
        wqe_push @ 13, 1, RO;
        /// Frames to the port's own MAC address return inside the card.
        loopback @ 14, 1, RO;
    }
    /// Addresses of the port.
    MAX_GID max_gid @ 0x3c {
        /// Entries of the table of GIDs.
        value @ 0, 32, RO = super::port::GIDS as u64;
    }
}
