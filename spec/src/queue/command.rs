// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands: 64-byte entries of the command queue. All begin alike: opcode, flags, token, object.
//!
//! Queue bases are host addresses, a multiple of 4096. `pd` is a number that the driver gives out; 0 is
//! reserved and never matches. A reserved field that is not zero fails the command with `BAD_RESERVED`.

crate::table::codes! {
    /// Commands. The comment says what `object` is; commands without a layout of their own use `command`.
    enum CommandOpcode, "command_opcode";
    /// Make a completion queue. Object: CQN.
    CreateCq = 0x01, "CREATE_CQ";
    /// Remove a completion queue. Object: CQN. Busy while a queue pair uses it. When it completes, no event is written about it.
    DestroyCq = 0x02, "DESTROY_CQ";
    /// Register memory. Object: key, index in bits 31:8 and tag in 7:0.
    RegMr = 0x03, "REG_MR";
    /// Remove a region. Object: key. Busy while windows are bound to it. When it completes, no access by the key is in progress.
    DeregMr = 0x04, "DEREG_MR";
    /// Make a queue pair, in RESET. Object: QPN; 1 is QP1 (GSI), which is UD and has the queue key 0x80010000.
    CreateQp = 0x05, "CREATE_QP";
    /// Change a queue pair's state or attributes. Object: QPN.
    ModifyQp = 0x06, "MODIFY_QP";
    /// Give a queue pair its address vector, for the next `MODIFY_QP` with the attribute `AV`. Object: QPN, not of UD.
    SetAv = 0x07, "SET_AV";
    /// Ask for a queue pair's state and PSNs. Object: QPN.
    QueryQp = 0x08, "QUERY_QP";
    /// Remove a queue pair. Object: QPN. When it completes, the card touches none of its memory.
    DestroyQp = 0x09, "DESTROY_QP";
    /// Take a protection domain. Object: PD.
    AllocPd = 0x0a, "ALLOC_PD";
    /// Give back a protection domain. Object: PD. Busy while something belongs to it.
    FreePd = 0x0b, "FREE_PD";
    /// Make a shared receive queue. Object: SRQN.
    CreateSrq = 0x0c, "CREATE_SRQ";
    /// Arm the limit of a shared receive queue: the event comes once, at once if fewer WQEs are left already. Object: SRQN.
    ModifySrq = 0x0d, "MODIFY_SRQ";
    /// Remove a shared receive queue. Object: SRQN. Busy while a queue pair uses it. When it completes, the card touches none of its
    /// memory, and no event is written about it.
    DestroySrq = 0x0e, "DESTROY_SRQ";
    /// Make an address handle, for the UD queue pairs of its protection domain. Object: its number.
    CreateAh = 0x0f, "CREATE_AH";
    /// Remove an address handle; who still sends to it sends to the next of that number. Object: its number.
    DestroyAh = 0x10, "DESTROY_AH";
    /// Make a memory window of type 1 or 2B, not bound. Object: key.
    AllocMw = 0x11, "ALLOC_MW";
    /// Remove a memory window, bound or not. Object: key, whose tag is not looked at, for binds change it.
    FreeMw = 0x12, "FREE_MW";
    /// Make an event queue. Object: EQN.
    CreateEq = 0x13, "CREATE_EQ";
    /// Remove an event queue. Object: EQN. Busy while a completion queue uses it; when it completes, no event is written any more.
    DestroyEq = 0x14, "DESTROY_EQ";
    /// Ask for a shared receive queue's limit and how far it is. Object: SRQN.
    QuerySrq = 0x15, "QUERY_SRQ";
    /// Moderate the events of a completion queue: from now on, also of what it is armed for. Object: CQN.
    ModifyCq = 0x16, "MODIFY_CQ";
    /// Give a completion queue another ring, in use or not: entries from then on go there, from index 0 on as in a queue that was just created. When it completes,
    /// all entries of the old ring are in memory. Object: CQN.
    ResizeCq = 0x17, "RESIZE_CQ";
    /// Remove every object of every kind, the event queues included.
    ResetAll = 0x20, "RESET_ALL";
}

crate::table::codes! {
    /// Rights of a region, a window or a queue pair, as bits.
    enum Access, "access";
    /// The card may write for local requests: receives, READ answers, atomic answers.
    LocalWrite = 0x01, "LOCAL_WRITE";
    /// Peers may WRITE.
    RemoteWrite = 0x02, "REMOTE_WRITE";
    /// Peers may READ.
    RemoteRead = 0x04, "REMOTE_READ";
    /// Peers may use atomics.
    RemoteAtomic = 0x08, "REMOTE_ATOMIC";
    /// Windows may be bound to the region.
    MwBind = 0x10, "MW_BIND";
    /// Addresses of the region count from 0.
    ZeroBased = 0x20, "ZERO_BASED";
    /// What the card writes there may be seen in any order before its completion, also where messages write the same bytes.
    RelaxedOrdering = 0x40, "RELAXED_ORDERING";
}

crate::table::codes! {
    /// Path MTU, as IBTA codes it.
    enum PathMtu, "path_mtu";
    /// 256 bytes.
    B256 = 1, "256";
    /// 512 bytes.
    B512 = 2, "512";
    /// 1,024 bytes.
    B1024 = 3, "1024";
    /// 2,048 bytes.
    B2048 = 4, "2048";
    /// 4,096 bytes.
    B4096 = 5, "4096";
}

impl PathMtu {
    /// In bytes.
    pub const fn bytes(self) -> usize {
        128 << self as u8
    }
}

impl CommandOpcode {
    /// The table of all its fields.
    pub const fn layout(self) -> &'static crate::table::Layout {
        match self {
            Self::CreateCq => &create_cq::LAYOUT,
            Self::ModifyCq => &modify_cq::LAYOUT,
            Self::ResizeCq => &resize_cq::LAYOUT,
            Self::RegMr => &reg_mr::LAYOUT,
            Self::AllocMw => &alloc_mw::LAYOUT,
            Self::CreateQp => &create_qp::LAYOUT,
            Self::ModifyQp => &modify_qp::LAYOUT,
            Self::SetAv => &set_av::LAYOUT,
            Self::CreateAh => &create_ah::LAYOUT,
            Self::CreateEq => &create_eq::LAYOUT,
            Self::CreateSrq => &create_srq::LAYOUT,
            Self::ModifySrq => &modify_srq::LAYOUT,
            _ => &LAYOUT,
        }
    }
}

crate::table::layout! {
    /// What every command begins with; the whole of one that needs no more.
    struct Command, "command", Little, 64 bytes, "host interface";
    /// One of [`CommandOpcode`].
    OPCODE opcode: u8 @ 0, 8, RW;
    /// Reserved.
    FLAGS flags: u8 @ 8, 8, RSVD;
    /// Comes back in the completion.
    TOKEN token: u16 @ 16, 16, RW;
    /// What the command is about.
    OBJECT object: u32 @ 32, 32, RW;
    /// Reserved.
    RSVD0 rsvd0: u64 @ 64, 64, RSVD;
    /// Reserved.
    RSVD1 rsvd1: u64 @ 128, 64, RSVD;
    /// Reserved.
    RSVD2 rsvd2: u64 @ 192, 64, RSVD;
    /// Reserved.
    RSVD3 rsvd3: u64 @ 256, 64, RSVD;
    /// Reserved.
    RSVD4 rsvd4: u64 @ 320, 64, RSVD;
    /// Reserved.
    RSVD5 rsvd5: u64 @ 384, 64, RSVD;
    /// Reserved.
    RSVD6 rsvd6: u64 @ 448, 64, RSVD;
}

crate::table::layout! {
    /// `CREATE_CQ`.
    mod create_cq;
    struct CreateCq, "create_cq", Little, 64 bytes, "host interface";
    /// One of [`super::CommandOpcode`].
    OPCODE opcode: u8 @ 0, 8, RW = 0x01;
    /// Reserved.
    FLAGS flags: u8 @ 8, 8, RSVD;
    /// Comes back in the completion.
    TOKEN token: u16 @ 16, 16, RW;
    /// What the command is about.
    OBJECT object: u32 @ 32, 32, RW;
    /// Host address of the entries; zeroed by the driver.
    BASE base: u64 @ 64, 64, RW;
    /// Entries, as a power of two.
    LOG2_ENTRIES log2_entries: u8 @ 128, 8, RW;
    /// Event queue that its events go to; 0: none, and it may not be armed.
    EQN eqn: u8 @ 136, 8, RW;
    /// The page it answers to.
    DOORBELL_PAGE doorbell_page: u16 @ 144, 16, RW;
    /// Reserved.
    RSVD_MODERATION rsvd_moderation: u32 @ 160, 32, RSVD;
    /// Reserved.
    RSVD0 rsvd0: u64 @ 192, 64, RSVD;
    /// Reserved.
    RSVD1 rsvd1: u64 @ 256, 64, RSVD;
    /// Reserved.
    RSVD2 rsvd2: u64 @ 320, 64, RSVD;
    /// Reserved.
    RSVD3 rsvd3: u64 @ 384, 64, RSVD;
    /// Reserved.
    RSVD4 rsvd4: u64 @ 448, 64, RSVD;
}

crate::table::layout! {
    /// `MODIFY_CQ`: an armed queue tells when `count` entries of the kind that it is armed for are there, or `period_us` after the first of
    /// them, whichever is first. Count 0 or 1, or period 0: at once, as after `CREATE_CQ`. The event of a period that was over before the
    /// command may come after it.
    mod modify_cq;
    struct ModifyCq, "modify_cq", Little, 64 bytes, "host interface";
    /// One of [`super::CommandOpcode`].
    OPCODE opcode: u8 @ 0, 8, RW = 0x16;
    /// Reserved.
    FLAGS flags: u8 @ 8, 8, RSVD;
    /// Comes back in the completion.
    TOKEN token: u16 @ 16, 16, RW;
    /// What the command is about.
    OBJECT object: u32 @ 32, 32, RW;
    /// Reserved.
    RSVD0 rsvd0: u64 @ 64, 64, RSVD;
    /// Reserved.
    RSVD1 rsvd1: u32 @ 128, 32, RSVD;
    /// Entries that make an event.
    COUNT count: u16 @ 160, 16, RW;
    /// Longest time for which an entry waits for others, in microseconds.
    PERIOD_US period_us: u16 @ 176, 16, RW;
    /// Reserved.
    RSVD2 rsvd2: u64 @ 192, 64, RSVD;
    /// Reserved.
    RSVD3 rsvd3: u64 @ 256, 64, RSVD;
    /// Reserved.
    RSVD4 rsvd4: u64 @ 320, 64, RSVD;
    /// Reserved.
    RSVD5 rsvd5: u64 @ 384, 64, RSVD;
    /// Reserved.
    RSVD6 rsvd6: u64 @ 448, 64, RSVD;
}

crate::table::layout! {
    /// `RESIZE_CQ`. The ring is where `CREATE_CQ` has it; doorbell page and event queue stay.
    mod resize_cq;
    struct ResizeCq, "resize_cq", Little, 64 bytes, "host interface";
    /// One of [`super::CommandOpcode`].
    OPCODE opcode: u8 @ 0, 8, RW = 0x17;
    /// Reserved.
    FLAGS flags: u8 @ 8, 8, RSVD;
    /// Comes back in the completion.
    TOKEN token: u16 @ 16, 16, RW;
    /// What the command is about.
    OBJECT object: u32 @ 32, 32, RW;
    /// Host address of the new ring's entries; zeroed by the driver.
    BASE base: u64 @ 64, 64, RW;
    /// Its entries, as a power of two.
    LOG2_ENTRIES log2_entries: u8 @ 128, 8, RW;
    /// Reserved.
    RSVD0 rsvd0: u64 @ 136, 56, RSVD;
    /// Reserved.
    RSVD1 rsvd1: u64 @ 192, 64, RSVD;
    /// Reserved.
    RSVD2 rsvd2: u64 @ 256, 64, RSVD;
    /// Reserved.
    RSVD3 rsvd3: u64 @ 320, 64, RSVD;
    /// Reserved.
    RSVD4 rsvd4: u64 @ 384, 64, RSVD;
    /// Reserved.
    RSVD5 rsvd5: u64 @ 448, 64, RSVD;
}

crate::table::layout! {
    /// `REG_MR`.
    mod reg_mr;
    struct RegMr, "reg_mr", Little, 64 bytes, "host interface";
    /// One of [`super::CommandOpcode`].
    OPCODE opcode: u8 @ 0, 8, RW = 0x03;
    /// Reserved.
    FLAGS flags: u8 @ 8, 8, RSVD;
    /// Comes back in the completion.
    TOKEN token: u16 @ 16, 16, RW;
    /// What the command is about.
    OBJECT object: u32 @ 32, 32, RW;
    /// Protection domain.
    PD pd: u32 @ 64, 24, RW;
    /// Rights, bits of [`super::Access`]. Remote write and atomic need local write.
    ACCESS access: u8 @ 88, 8, RW;
    /// Page size as a power of two: 12, 21 or 30.
    PAGE_SHIFT page_shift: u8 @ 96, 8, RW = 12;
    /// Reserved.
    RSVD0 rsvd0: u32 @ 104, 24, RSVD;
    /// First address, as requests name it; its low bits are the offset in the first page. With `ZERO_BASED`, only these.
    VA va: u64 @ 128, 64, RW;
    /// Bytes.
    LENGTH length: u64 @ 192, 64, RW;
    /// Host address of the page list: 64-bit little-endian page addresses; a multiple of 8.
    PAGE_LIST_ADDR page_list_addr: u64 @ 256, 64, RW;
    /// Pages in the list.
    PAGE_COUNT page_count: u32 @ 320, 32, RW;
    /// First page table entry to fill. One that a region has is refused.
    MTT_INDEX mtt_index: u32 @ 352, 32, RW;
    /// Reserved.
    RSVD1 rsvd1: u64 @ 384, 64, RSVD;
    /// Reserved.
    RSVD2 rsvd2: u64 @ 448, 64, RSVD;
}

crate::table::layout! {
    /// `CREATE_QP`.
    mod create_qp;
    struct CreateQp, "create_qp", Little, 64 bytes, "host interface";
    /// One of [`super::CommandOpcode`].
    OPCODE opcode: u8 @ 0, 8, RW = 0x05;
    /// Reserved.
    FLAGS flags: u8 @ 8, 8, RSVD;
    /// Comes back in the completion.
    TOKEN token: u16 @ 16, 16, RW;
    /// What the command is about.
    OBJECT object: u32 @ 32, 32, RW;
    /// Protection domain.
    PD pd: u32 @ 64, 24, RW;
    /// RC 0, UC 1, UD 2 or raw Ethernet 3, as [`crate::wire::opcode::Service`]. Raw Ethernet is queue pair 0, and only that.
    SERVICE service: u8 @ 88, 8, RW;
    /// The page it answers to.
    DOORBELL_PAGE doorbell_page: u16 @ 96, 16, RW;
    /// WQEs in the send queue, as a power of two, at most 15.
    SQ_LOG2 sq_log2: u8 @ 112, 8, RW;
    /// WQEs in the receive queue, as a power of two, at most 15; 0 with `has_srq`.
    RQ_LOG2 rq_log2: u8 @ 120, 8, RW;
    /// Completion queue of the send queue.
    SEND_CQN send_cqn: u32 @ 128, 24, RW;
    /// Every send WQE is signalled.
    SQ_SIG_ALL sq_sig_all: bool @ 152, 1, RW;
    /// Receives come from the shared receive queue `srqn`.
    HAS_SRQ has_srq: bool @ 153, 1, RW;
    /// Units of 64 bytes in each WQE of the send queue, as a power of two, at most 3.
    SQ_STRIDE sq_stride: u8 @ 154, 2, RW;
    /// Units of 64 bytes in each WQE of the receive queue, as a power of two, at most 2; 0 with `has_srq`.
    RQ_STRIDE rq_stride: u8 @ 156, 2, RW;
    /// Reserved.
    RSVD0 rsvd0: u8 @ 158, 2, RSVD;
    /// Completion queue of the receive queue.
    RECV_CQN recv_cqn: u32 @ 160, 24, RW;
    /// Reserved.
    RSVD1 rsvd1: u8 @ 184, 8, RSVD;
    /// Host address of the send queue.
    SQ_BASE sq_base: u64 @ 192, 64, RW;
    /// Host address of the receive queue; 0 with `has_srq`.
    RQ_BASE rq_base: u64 @ 256, 64, RW;
    /// Shared receive queue; 0 without `has_srq`.
    SRQN srqn: u32 @ 320, 24, RW;
    /// Reserved.
    RSVD2 rsvd2: u64 @ 344, 40, RSVD;
    /// Reserved.
    RSVD3 rsvd3: u64 @ 384, 64, RSVD;
    /// Reserved.
    RSVD4 rsvd4: u64 @ 448, 64, RSVD;
}

crate::table::layout! {
    /// `MODIFY_QP`. Attributes count only when their bit of `attr_mask` is set.
    mod modify_qp;
    struct ModifyQp, "modify_qp", Little, 64 bytes, "host interface";
    /// One of [`super::CommandOpcode`].
    OPCODE opcode: u8 @ 0, 8, RW = 0x06;
    /// Reserved.
    FLAGS flags: u8 @ 8, 8, RSVD;
    /// Comes back in the completion.
    TOKEN token: u16 @ 16, 16, RW;
    /// What the command is about.
    OBJECT object: u32 @ 32, 32, RW;
    /// Which attributes are given, bits of [`crate::qp_state::Attributes`].
    ATTR_MASK attr_mask: u32 @ 64, 32, RW, "IBTA 11.2.5.2";
    /// State to go to; the present one to change attributes only.
    STATE state: u8 @ 96, 3, RW, "IBTA 11.2.5.2";
    /// Reserved.
    RSVD0 rsvd0: u8 @ 99, 5, RSVD;
    /// One of [`super::PathMtu`].
    PATH_MTU path_mtu: u8 @ 104, 3, RW;
    /// Reserved.
    RSVD1 rsvd1: u8 @ 107, 5, RSVD;
    /// ACK time-out: 4.096 us times 2 to that power; 0: never.
    TIMEOUT timeout: u8 @ 112, 5, RW, "IBTA 9.7.6.1.3";
    /// Reserved.
    RSVD2 rsvd2: u8 @ 117, 3, RSVD;
    /// Timer code of the RNR NAKs it sends.
    MIN_RNR_TIMER min_rnr_timer: u8 @ 120, 5, RW, "IBTA 9.7.5.2.8";
    /// Reserved.
    RSVD3 rsvd3: u8 @ 125, 3, RSVD;
    /// Queue pair of the peer.
    DEST_QPN dest_qpn: u32 @ 128, 24, RW;
    /// Retries after time-outs and sequence NAKs.
    RETRY_CNT retry_cnt: u8 @ 152, 3, RW;
    /// Reserved.
    RSVD4 rsvd4: bool @ 155, 1, RSVD;
    /// Retries after RNR NAKs; 7: for ever.
    RNR_RETRY rnr_retry: u8 @ 156, 3, RW;
    /// Reserved.
    RSVD5 rsvd5: bool @ 159, 1, RSVD;
    /// First PSN expected.
    RQ_PSN rq_psn: u32 @ 160, 24, RW;
    /// READs and atomics outstanding as requester.
    MAX_RD_ATOMIC max_rd_atomic: u8 @ 184, 8, RW;
    /// First PSN to send.
    SQ_PSN sq_psn: u32 @ 192, 24, RW;
    /// READs and atomics taken as responder.
    MAX_DEST_RD_ATOMIC max_dest_rd_atomic: u8 @ 216, 8, RW;
    /// Partition key.
    PKEY pkey: u16 @ 224, 16, RW = 0xffff;
    /// UDP source port.
    SPORT sport: u16 @ 240, 16, RW = 0xc000;
    /// Queue key; UD.
    QKEY qkey: u32 @ 256, 32, RW;
    /// What peers may do: the remote bits of [`super::Access`].
    ACCESS access: u8 @ 288, 8, RW;
    /// State that the caller believes it is in; another one fails the command.
    CUR_STATE cur_state: u8 @ 296, 3, RW;
    /// Going to SQD: send an event when drained.
    SQD_EVENT sqd_event: bool @ 299, 1, RW;
    /// Selective retransmission: the peer does it too, by the same version of its contract. 0 in a card without it.
    SELECTIVE selective: bool @ 300, 1, RW;
    /// Reserved.
    RSVD6 rsvd6: u32 @ 301, 19, RSVD;
    /// Reserved.
    RSVD7 rsvd7: u64 @ 320, 64, RSVD;
    /// Reserved.
    RSVD8 rsvd8: u64 @ 384, 64, RSVD;
    /// Reserved.
    RSVD9 rsvd9: u64 @ 448, 64, RSVD;
}

crate::table::layout! {
    /// `SET_AV`.
    mod set_av;
    struct SetAv, "set_av", Little, 64 bytes, "host interface";
    /// One of [`super::CommandOpcode`].
    OPCODE opcode: u8 @ 0, 8, RW = 0x07;
    /// Reserved.
    FLAGS flags: u8 @ 8, 8, RSVD;
    /// Comes back in the completion.
    TOKEN token: u16 @ 16, 16, RW;
    /// What the command is about.
    OBJECT object: u32 @ 32, 32, RW;
    /// MAC address of the next hop.
    DST_MAC dst_mac: u64 @ 64, 48, RW;
    /// Tag control information, when `vlan` is set.
    VLAN_TCI vlan_tci: u16 @ 112, 16, RW;
    /// MAC address to send from.
    SRC_MAC src_mac: u64 @ 128, 48, RW;
    /// IPv4 type of service or IPv6 traffic class.
    TRAFFIC_CLASS traffic_class: u8 @ 176, 8, RW;
    /// IPv4 time to live or IPv6 hop limit.
    HOP_LIMIT hop_limit: u8 @ 184, 8, RW = 64;
    /// IPv6 flow label.
    FLOW_LABEL flow_label: u32 @ 192, 20, RW;
    /// The addresses are IPv6.
    IPV6 ipv6: bool @ 212, 1, RW;
    /// Send a VLAN tag.
    VLAN vlan: bool @ 213, 1, RW;
    /// Reserved.
    RSVD0 rsvd0: u8 @ 214, 2, RSVD;
    /// Entry of the port's GIDs that is `src_ip`, in this VLAN: what comes to another one is dropped.
    SGID_INDEX sgid_index: u8 @ 216, 4, RW;
    /// Reserved.
    RSVD1 rsvd1: u64 @ 220, 36, RSVD;
    /// Address of the peer: a number whose low byte is first in memory; IPv4 in the low 32 bits.
    DST_IP dst_ip: u128 @ 256, 128, RW;
    /// Own address, as `dst_ip`.
    SRC_IP src_ip: u128 @ 384, 128, RW;
}

crate::table::layout! {
    /// `CREATE_AH`: the address vector stands as in `SET_AV`.
    mod create_ah;
    struct CreateAh, "create_ah", Little, 64 bytes, "host interface";
    /// One of [`super::CommandOpcode`].
    OPCODE opcode: u8 @ 0, 8, RW = 0x0f;
    /// Reserved.
    FLAGS flags: u8 @ 8, 8, RSVD;
    /// Comes back in the completion.
    TOKEN token: u16 @ 16, 16, RW;
    /// What the command is about.
    OBJECT object: u32 @ 32, 32, RW;
    /// MAC address of the next hop.
    DST_MAC dst_mac: u64 @ 64, 48, RW;
    /// Tag control information, when `vlan` is set.
    VLAN_TCI vlan_tci: u16 @ 112, 16, RW;
    /// MAC address to send from.
    SRC_MAC src_mac: u64 @ 128, 48, RW;
    /// IPv4 type of service or IPv6 traffic class.
    TRAFFIC_CLASS traffic_class: u8 @ 176, 8, RW;
    /// IPv4 time to live or IPv6 hop limit.
    HOP_LIMIT hop_limit: u8 @ 184, 8, RW = 64;
    /// IPv6 flow label.
    FLOW_LABEL flow_label: u32 @ 192, 20, RW;
    /// The addresses are IPv6.
    IPV6 ipv6: bool @ 212, 1, RW;
    /// Send a VLAN tag.
    VLAN vlan: bool @ 213, 1, RW;
    /// Reserved.
    RSVD0 rsvd0: u16 @ 214, 10, RSVD;
    /// Protection domain.
    PD pd: u32 @ 224, 24, RW;
    /// Reserved.
    RSVD1 rsvd1: u8 @ 248, 8, RSVD;
    /// Address of the peer: a number whose low byte is first in memory; IPv4 in the low 32 bits.
    DST_IP dst_ip: u128 @ 256, 128, RW;
    /// Own address, as `dst_ip`.
    SRC_IP src_ip: u128 @ 384, 128, RW;
}

crate::table::layout! {
    /// `CREATE_SRQ`.
    mod create_srq;
    struct CreateSrq, "create_srq", Little, 64 bytes, "host interface";
    /// One of [`super::CommandOpcode`].
    OPCODE opcode: u8 @ 0, 8, RW = 0x0c;
    /// Reserved.
    FLAGS flags: u8 @ 8, 8, RSVD;
    /// Comes back in the completion.
    TOKEN token: u16 @ 16, 16, RW;
    /// What the command is about.
    OBJECT object: u32 @ 32, 32, RW;
    /// Protection domain.
    PD pd: u32 @ 64, 24, RW;
    /// WQEs, as a power of two, at most 15.
    LOG2_ENTRIES log2_entries: u8 @ 88, 8, RW;
    /// The page it answers to.
    DOORBELL_PAGE doorbell_page: u16 @ 96, 16, RW;
    /// Event when a message leaves fewer WQEs than that, at most as many as the queue has; 0: none.
    LIMIT limit: u16 @ 112, 16, RW, "IBTA 10.2.9.1";
    /// Host address of the WQEs.
    BASE base: u64 @ 128, 64, RW;
    /// Units of 64 bytes in each WQE, as a power of two, at most 2.
    RQ_STRIDE rq_stride: u8 @ 192, 2, RW;
    /// Reserved.
    RSVD0 rsvd0: u64 @ 194, 62, RSVD;
    /// Reserved.
    RSVD1 rsvd1: u64 @ 256, 64, RSVD;
    /// Reserved.
    RSVD2 rsvd2: u64 @ 320, 64, RSVD;
    /// Reserved.
    RSVD3 rsvd3: u64 @ 384, 64, RSVD;
    /// Reserved.
    RSVD4 rsvd4: u64 @ 448, 64, RSVD;
}

crate::table::layout! {
    /// `MODIFY_SRQ`.
    mod modify_srq;
    struct ModifySrq, "modify_srq", Little, 64 bytes, "host interface";
    /// One of [`super::CommandOpcode`].
    OPCODE opcode: u8 @ 0, 8, RW = 0x0d;
    /// Reserved.
    FLAGS flags: u8 @ 8, 8, RSVD;
    /// Comes back in the completion.
    TOKEN token: u16 @ 16, 16, RW;
    /// What the command is about.
    OBJECT object: u32 @ 32, 32, RW;
    /// Reserved.
    RSVD0 rsvd0: u64 @ 64, 48, RSVD;
    /// Event when fewer WQEs than that are left, at most as many as the queue has; 0: none.
    LIMIT limit: u16 @ 112, 16, RW, "IBTA 10.2.9.1";
    /// Reserved.
    RSVD1 rsvd1: u64 @ 128, 64, RSVD;
    /// Reserved.
    RSVD2 rsvd2: u64 @ 192, 64, RSVD;
    /// Reserved.
    RSVD3 rsvd3: u64 @ 256, 64, RSVD;
    /// Reserved.
    RSVD4 rsvd4: u64 @ 320, 64, RSVD;
    /// Reserved.
    RSVD5 rsvd5: u64 @ 384, 64, RSVD;
    /// Reserved.
    RSVD6 rsvd6: u64 @ 448, 64, RSVD;
}

crate::table::layout! {
    /// `ALLOC_MW`.
    mod alloc_mw;
    struct AllocMw, "alloc_mw", Little, 64 bytes, "host interface";
    /// One of [`super::CommandOpcode`].
    OPCODE opcode: u8 @ 0, 8, RW = 0x11;
    /// Reserved.
    FLAGS flags: u8 @ 8, 8, RSVD;
    /// Comes back in the completion.
    TOKEN token: u16 @ 16, 16, RW;
    /// What the command is about.
    OBJECT object: u32 @ 32, 32, RW;
    /// Protection domain.
    PD pd: u32 @ 64, 24, RW;
    /// The window is of type 1: all queue pairs of its protection domain serve its key. Otherwise it is of type 2B, and only the queue
    /// pair that bound it does.
    TYPE_1 type_1: bool @ 88, 1, RW, "IBTA 10.6.7.2";
    /// Reserved.
    RSVD0 rsvd0: u64 @ 89, 39, RSVD;
    /// Reserved.
    RSVD1 rsvd1: u64 @ 128, 64, RSVD;
    /// Reserved.
    RSVD2 rsvd2: u64 @ 192, 64, RSVD;
    /// Reserved.
    RSVD3 rsvd3: u64 @ 256, 64, RSVD;
    /// Reserved.
    RSVD4 rsvd4: u64 @ 320, 64, RSVD;
    /// Reserved.
    RSVD5 rsvd5: u64 @ 384, 64, RSVD;
    /// Reserved.
    RSVD6 rsvd6: u64 @ 448, 64, RSVD;
}

crate::table::layout! {
    /// `CREATE_EQ`.
    mod create_eq;
    struct CreateEq, "create_eq", Little, 64 bytes, "host interface";
    /// One of [`super::CommandOpcode`].
    OPCODE opcode: u8 @ 0, 8, RW = 0x13;
    /// Reserved.
    FLAGS flags: u8 @ 8, 8, RSVD;
    /// Comes back in the completion.
    TOKEN token: u16 @ 16, 16, RW;
    /// What the command is about.
    OBJECT object: u32 @ 32, 32, RW;
    /// Host address of the entries; zeroed by the driver.
    BASE base: u64 @ 64, 64, RW;
    /// Entries, as a power of two; at most as many as a completion queue may have.
    LOG2_ENTRIES log2_entries: u8 @ 128, 8, RW;
    /// MSI-X vector, below the number of event queues.
    VECTOR vector: u8 @ 136, 8, RW;
    /// The page it answers to.
    DOORBELL_PAGE doorbell_page: u16 @ 144, 16, RW;
    /// Shortest time between interrupts, in microseconds.
    MODERATION_US moderation_us: u16 @ 160, 16, RW;
    /// Takes the events that belong to no completion queue, and those of completion queues without an event queue: from now
    /// on, instead of another that took them.
    ASYNCHRONOUS asynchronous: bool @ 176, 1, RW;
    /// Reserved.
    RSVD0 rsvd0: u16 @ 177, 15, RSVD;
    /// Reserved.
    RSVD1 rsvd1: u64 @ 192, 64, RSVD;
    /// Reserved.
    RSVD2 rsvd2: u64 @ 256, 64, RSVD;
    /// Reserved.
    RSVD3 rsvd3: u64 @ 320, 64, RSVD;
    /// Reserved.
    RSVD4 rsvd4: u64 @ 384, 64, RSVD;
    /// Reserved.
    RSVD5 rsvd5: u64 @ 448, 64, RSVD;
}
