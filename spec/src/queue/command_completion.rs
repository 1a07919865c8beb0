// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion of a command.

crate::table::codes! {
    /// How a command ended.
    enum CommandStatus, "command_status";
    /// Done.
    Ok = 0, "OK";
    /// No such command, or not in this card.
    BadOpcode = 1, "BAD_OPCODE";
    /// The object does not exist, exists already, or is out of range.
    BadObject = 2, "BAD_OBJECT";
    /// The object's state does not allow the command.
    BadState = 3, "BAD_STATE";
    /// No such transition between queue pair states.
    BadTransition = 4, "BAD_TRANSITION";
    /// An attribute is missing, not allowed here or out of range; `attribute` names it.
    BadAttribute = 5, "BAD_ATTRIBUTE";
    /// The key's index or tag does not match.
    BadKey = 6, "BAD_KEY";
    /// A size is zero, too large or not what the rest implies.
    BadSize = 7, "BAD_SIZE";
    /// An address is not aligned, or wraps.
    BadAddress = 8, "BAD_ADDRESS";
    /// The object is in use by another.
    Busy = 9, "BUSY";
    /// Host memory could not be read or written.
    DmaError = 10, "DMA_ERROR";
    /// No table entry is left.
    NoResource = 11, "NO_RESOURCE";
    /// A reserved bit or field of the command is not zero.
    BadReserved = 12, "BAD_RESERVED";
    /// The object belongs to another protection domain.
    BadPd = 13, "BAD_PD";
    /// Ended by a reset before it was done.
    Aborted = 14, "ABORTED";
}

crate::table::codes! {
    /// Which field of a command offends. 1 to 32 is bit `n - 1` of the attribute mask of `MODIFY_QP`.
    enum CommandAttribute, "command_attribute";
    /// None.
    None = 0, "NONE";
    /// `access` of a queue pair.
    QpAccess = 1, "QP_ACCESS";
    /// `pkey`.
    Pkey = 2, "PKEY";
    /// `qkey`.
    Qkey = 3, "QKEY";
    /// The address vector.
    Av = 4, "AV";
    /// `path_mtu`.
    PathMtu = 5, "PATH_MTU";
    /// `dest_qpn`.
    DestQpn = 6, "DEST_QPN";
    /// `rq_psn`.
    RqPsn = 7, "RQ_PSN";
    /// `sq_psn`.
    SqPsn = 8, "SQ_PSN";
    /// `timeout`.
    Timeout = 9, "TIMEOUT";
    /// `retry_cnt`.
    RetryCnt = 10, "RETRY_CNT";
    /// `rnr_retry`.
    RnrRetry = 11, "RNR_RETRY";
    /// `min_rnr_timer`.
    MinRnrTimer = 12, "MIN_RNR_TIMER";
    /// `max_rd_atomic`.
    MaxRdAtomic = 13, "MAX_RD_ATOMIC";
    /// `max_dest_rd_atomic`.
    MaxDestRdAtomic = 14, "MAX_DEST_RD_ATOMIC";
    /// `sport`.
    Sport = 15, "SPORT";
    /// `cur_state`.
    CurState = 16, "CUR_STATE";
    /// `sqd_event`.
    SqdEvent = 17, "SQD_EVENT";
    /// `selective`.
    Selective = 18, "SELECTIVE";
    /// `object`.
    Object = 64, "OBJECT";
    /// `opcode`.
    Opcode = 65, "OPCODE";
    /// `flags`.
    Flags = 66, "FLAGS";
    /// `pd`.
    Pd = 67, "PD";
    /// `service`.
    Service = 68, "SERVICE";
    /// `send_cqn`.
    SendCqn = 69, "SEND_CQN";
    /// `recv_cqn`.
    RecvCqn = 70, "RECV_CQN";
    /// `sq_base`.
    SqBase = 71, "SQ_BASE";
    /// `sq_log2`.
    SqLog2 = 72, "SQ_LOG2";
    /// `rq_base`.
    RqBase = 73, "RQ_BASE";
    /// `rq_log2`.
    RqLog2 = 74, "RQ_LOG2";
    /// `doorbell_page`.
    DoorbellPage = 75, "DOORBELL_PAGE";
    /// `srqn`.
    Srqn = 76, "SRQN";
    /// `state`.
    State = 77, "STATE";
    /// `attr_mask`.
    AttrMask = 78, "ATTR_MASK";
    /// `base`.
    Base = 79, "BASE";
    /// `log2_entries`.
    Log2Entries = 80, "LOG2_ENTRIES";
    /// `eqn`.
    Eqn = 81, "EQN";
    /// `vector`.
    Vector = 82, "VECTOR";
    /// `access` of a region.
    MrAccess = 83, "MR_ACCESS";
    /// `page_shift`.
    PageShift = 84, "PAGE_SHIFT";
    /// `va`.
    Va = 85, "VA";
    /// `length`.
    Length = 86, "LENGTH";
    /// `page_list_addr`.
    PageListAddr = 87, "PAGE_LIST_ADDR";
    /// `page_count`.
    PageCount = 88, "PAGE_COUNT";
    /// `mtt_index`.
    MttIndex = 89, "MTT_INDEX";
    /// An entry of the page list; `value` is its index.
    PageListEntry = 90, "PAGE_LIST_ENTRY";
    /// `src_mac`.
    SrcMac = 91, "SRC_MAC";
    /// `dst_mac`.
    DstMac = 92, "DST_MAC";
    /// `src_ip`.
    SrcIp = 93, "SRC_IP";
    /// `dst_ip`.
    DstIp = 94, "DST_IP";
    /// `limit`.
    Limit = 95, "LIMIT";
    /// `rq_stride`.
    RqStride = 96, "RQ_STRIDE";
    /// `ipv6`.
    Ipv6 = 97, "IPV6";
    /// `vlan`.
    Vlan = 98, "VLAN";
}

crate::table::layout! {
    /// Completion of a command.
    struct CommandCompletion, "command_completion", Little, 16 bytes, "host interface";
    /// Token of the command.
    TOKEN token: u16 @ 0, 16, RO;
    /// Opcode of the command.
    OPCODE opcode: u8 @ 16, 8, RO;
    /// One of [`CommandStatus`].
    STATUS status: u8 @ 24, 8, RO;
    /// One of [`CommandAttribute`]: the field that offends.
    ATTRIBUTE attribute: u8 @ 32, 8, RO;
    /// Reserved.
    RSVD0 rsvd0: u32 @ 40, 24, RSVD;
    /// Result; `QUERY_QP` puts a `qp_summary` there, `QUERY_SRQ` a `srq_summary`, `RESIZE_CQ` a `cq_summary`.
    VALUE value: u64 @ 64, 63, RO;
    /// Phase, as in a CQE.
    PHASE phase: bool @ 127, 1, RO;
}

crate::table::layout! {
    /// Result of `QUERY_QP`, in `value` of its completion.
    mod qp_summary;
    struct QpSummary, "qp_summary", Little, 8 bytes, "host interface";
    /// State, one of `QpState`.
    STATE state: u8 @ 0, 3, RO;
    /// In SQD: sends in progress have not finished yet, or not all of their completions are in memory.
    SQ_DRAINING sq_draining: bool @ 3, 1, RO;
    /// Reserved.
    RSVD0 rsvd0: u8 @ 4, 4, RSVD;
    /// PSN of the next packet to send for the first time; 0 before RTS.
    SQ_PSN sq_psn: u32 @ 8, 24, RO;
    /// PSN expected of the peer; 0 before RTR.
    RQ_PSN rq_psn: u32 @ 32, 24, RO;
    /// Reserved.
    RSVD1 rsvd1: u8 @ 56, 8, RSVD;
}

crate::table::layout! {
    /// Result of `QUERY_SRQ`, in `value` of its completion.
    mod srq_summary;
    struct SrqSummary, "srq_summary", Little, 8 bytes, "host interface";
    /// WQEs that messages have taken since the queue was created, modulo 2^16.
    TAKEN taken: u16 @ 0, 16, RO;
    /// WQEs that the card knows to be posted, likewise.
    POSTED posted: u16 @ 16, 16, RO;
    /// The armed limit; 0: none, or its event has been told.
    LIMIT limit: u16 @ 32, 16, RO, "IBTA 10.2.9.1";
    /// Reserved.
    RSVD0 rsvd0: u16 @ 48, 16, RSVD;
}

crate::table::layout! {
    /// Result of `RESIZE_CQ`, in `value` of its completion.
    mod cq_summary;
    struct CqSummary, "cq_summary", Little, 8 bytes, "host interface";
    /// Entries that went to the old ring since it was given to the card, modulo 2^32.
    PRODUCER producer: u32 @ 0, 32, RO;
    /// Reserved.
    RSVD0 rsvd0: u32 @ 32, 32, RSVD;
}
