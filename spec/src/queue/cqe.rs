// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queue entry.

crate::table::codes! {
    /// What a CQE reports: a send opcode, or 0x80 and the send opcode of the peer that caused the receive.
    enum CqeOpcode, "cqe_opcode";
    /// A SEND of ours.
    Send = 0x00, "SEND";
    /// A SEND with immediate of ours.
    SendImm = 0x01, "SEND_IMM";
    /// A SEND with invalidate of ours.
    SendInv = 0x02, "SEND_INV";
    /// A WRITE of ours.
    Write = 0x03, "WRITE";
    /// A WRITE with immediate of ours.
    WriteImm = 0x04, "WRITE_IMM";
    /// A READ of ours.
    Read = 0x05, "READ";
    /// A compare and swap of ours.
    CmpSwap = 0x06, "CMP_SWAP";
    /// A fetch and add of ours.
    FetchAdd = 0x07, "FETCH_ADD";
    /// A local invalidation of ours.
    LocalInv = 0x08, "LOCAL_INV";
    /// A window bind of ours.
    BindMw = 0x09, "BIND_MW";
    /// A SEND arrived.
    Recv = 0x80, "RECV";
    /// A SEND with immediate arrived.
    RecvImm = 0x81, "RECV_IMM";
    /// A SEND with invalidate arrived.
    RecvInv = 0x82, "RECV_INV";
    /// A WRITE with immediate arrived.
    RecvWriteImm = 0x84, "RECV_WRITE_IMM";
}

impl CqeOpcode {
    /// Whether a receive WQE was completed.
    pub const fn is_receive(self) -> bool {
        self as u8 & 0x80 != 0
    }
}

crate::table::codes! {
    /// How a work request ended; numbers and names of `ibv_wc_status`.
    enum WcStatus, "wc_status";
    /// Success.
    Success = 0, "SUCCESS";
    /// Local length error: the request or the message does not fit.
    LocLenErr = 1, "LOC_LEN_ERR";
    /// Local QP operation error: the WQE makes no sense.
    LocQpOpErr = 2, "LOC_QP_OP_ERR";
    /// Local EE context operation error; not used.
    LocEecOpErr = 3, "LOC_EEC_OP_ERR";
    /// Local protection error: a local key, its domain, rights or bounds.
    LocProtErr = 4, "LOC_PROT_ERR";
    /// Flushed: the queue pair was in error before the request ended.
    WrFlushErr = 5, "WR_FLUSH_ERR";
    /// Memory window bind error.
    MwBindErr = 6, "MW_BIND_ERR";
    /// Bad response: the answer has an unexpected opcode or length.
    BadRespErr = 7, "BAD_RESP_ERR";
    /// Local access error: the responder could not place a message by its own keys.
    LocAccessErr = 8, "LOC_ACCESS_ERR";
    /// Remote invalid request: NAK 0x61.
    RemInvReqErr = 9, "REM_INV_REQ_ERR";
    /// Remote access error: NAK 0x62.
    RemAccessErr = 10, "REM_ACCESS_ERR";
    /// Remote operation error: NAK 0x63.
    RemOpErr = 11, "REM_OP_ERR";
    /// Transport retries exceeded.
    RetryExcErr = 12, "RETRY_EXC_ERR";
    /// RNR retries exceeded.
    RnrRetryExcErr = 13, "RNR_RETRY_EXC_ERR";
    /// Local RDD violation; not used.
    LocRddViolErr = 14, "LOC_RDD_VIOL_ERR";
    /// Remote invalid RD request; not used.
    RemInvRdReqErr = 15, "REM_INV_RD_REQ_ERR";
    /// Remote aborted.
    RemAbortErr = 16, "REM_ABORT_ERR";
    /// Invalid EE context number; not used.
    InvEecnErr = 17, "INV_EECN_ERR";
    /// Invalid EE context state; not used.
    InvEecStateErr = 18, "INV_EEC_STATE_ERR";
    /// Fatal error of the card or of host memory.
    FatalErr = 19, "FATAL_ERR";
    /// Response time-out; not used.
    RespTimeoutErr = 20, "RESP_TIMEOUT_ERR";
    /// General error.
    GeneralErr = 21, "GENERAL_ERR";
    /// Tag matching error; not used.
    TmErr = 22, "TM_ERR";
    /// Tag matching rendezvous incomplete; not used.
    TmRndvIncomplete = 23, "TM_RNDV_INCOMPLETE";
}

crate::table::codes! {
    /// `syndrome` of a CQE that failed for a local reason; otherwise it holds the AETH syndrome.
    enum LocalCause, "local_cause";
    /// None: success, or flushed.
    None = 0x00, "NONE";
    /// Key index out of range, or no region there.
    KeyIndex = 0x80, "KEY_INDEX";
    /// Key tag does not match.
    KeyTag = 0x81, "KEY_TAG";
    /// Region of another protection domain.
    KeyPd = 0x82, "KEY_PD";
    /// Region lacks the right.
    KeyAccess = 0x83, "KEY_ACCESS";
    /// Outside the region.
    KeyBounds = 0x84, "KEY_BOUNDS";
    /// Host memory could not be read or written, or the shared receive queue has failed.
    Dma = 0x85, "DMA";
    /// Unknown opcode in a WQE, or one that the service does not have.
    WqeOpcode = 0x86, "WQE_OPCODE";
    /// `num_sge` or `inline_len` out of range.
    WqeSize = 0x87, "WQE_SIZE";
    /// Message longer than 2^31, than the path MTU for UD, or than the receive buffer.
    Length = 0x88, "LENGTH";
    /// Acknowledgement missing too often.
    Timeout = 0x89, "TIMEOUT";
    /// Sequence NAK or implied NAK too often.
    Sequence = 0x8a, "SEQUENCE";
    /// RNR NAK too often.
    Rnr = 0x8b, "RNR";
    /// READ or atomic answer with the wrong opcode, place or length.
    Response = 0x8c, "RESPONSE";
    /// READ or atomic posted while `max_rd_atomic` is 0.
    ReadDepth = 0x8d, "READ_DEPTH";
    /// Address handle unknown or of another protection domain.
    AddressHandle = 0x8e, "ADDRESS_HANDLE";
    /// Atomic on an address that is not a multiple of 8, or not of 8 bytes.
    Alignment = 0x8f, "ALIGNMENT";
    /// A doorbell told of more WQEs than the queue holds beside those that are not completed, or of fewer than before.
    Overrun = 0x90, "OVERRUN";
    /// The card refused a raw frame that a receiver could take for RoCE: it has UDP destination port 4791, EtherType 0x8915, or more VLAN tags
    /// or IPv6 extension headers than the card parses. The bit `roce` of the port's register `raw` allows such frames.
    RawRoce = 0x91, "RAW_ROCE";
}

crate::table::layout! {
    /// Completion queue entry.
    struct Cqe, "cqe", Little, 32 bytes, "host interface";
    /// Queue pair.
    QPN qpn: u32 @ 0, 24, RO;
    /// One of [`CqeOpcode`].
    OPCODE opcode: u8 @ 24, 8, RO;
    /// Bytes of the message received, GRH of UD included, or bytes asked for by a READ or atomic.
    BYTE_LEN byte_len: u32 @ 32, 32, RO;
    /// Immediate, or the key invalidated.
    IMM imm: u32 @ 64, 32, RO;
    /// Queue pair that sent a datagram; UD only.
    SRC_QPN src_qpn: u32 @ 96, 24, RO;
    /// `imm` is an immediate.
    IMM_VALID imm_valid: bool @ 120, 1, RO;
    /// `imm` is a key that was invalidated.
    INVALIDATED invalidated: bool @ 121, 1, RO;
    /// The message was solicited.
    SOLICITED solicited: bool @ 122, 1, RO;
    /// A receive WQE was completed; `wqe_index` counts in the receive queue.
    RECEIVE receive: bool @ 123, 1, RO;
    /// The first 40 bytes of the buffer hold a GRH; UD only.
    GRH grh: bool @ 124, 1, RO;
    /// The datagram's packet was of IPv4: its header is in the last 20 of these bytes. Otherwise they are an IPv6 header.
    IPV4 ipv4: bool @ 125, 1, RO, "IBTA A17.4.5.1";
    /// Reserved.
    RSVD_FLAGS rsvd_flags: u8 @ 126, 2, RSVD;
    /// Index of the WQE, counted modulo 2^16 as the doorbells count.
    WQE_INDEX wqe_index: u16 @ 128, 16, RO;
    /// One of [`WcStatus`].
    STATUS status: u8 @ 144, 8, RO;
    /// Cause of a failure: the AETH syndrome that the peer sent, or one of [`LocalCause`].
    SYNDROME syndrome: u8 @ 152, 8, RO;
    /// Reserved.
    RSVD0 rsvd0: u32 @ 160, 32, RSVD;
    /// Reserved.
    RSVD1 rsvd1: u64 @ 192, 63, RSVD;
    /// Phase: 1 on the first pass over the queue, then 0, and so on.
    PHASE phase: bool @ 255, 1, RO;
}
