// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event queue entry.

crate::table::codes! {
    /// What an event reports.
    enum EventKind, "event_kind";
    /// An armed CQ has a new entry; `object` is the CQN. The CQ is not armed any more.
    Completion = 0, "COMPLETION";
    /// A CQ had no room; `object` is the CQN. It takes no entry any more, and each queue pair that completes into it goes
    /// to error. Sent once in the life of a CQ, to its event queue, or to the asynchronous one if it has none.
    CqOverrun = 1, "CQ_OVERRUN";
    /// A queue pair went to error; `object` is the QPN, `cause` says why.
    QpFatal = 2, "QP_FATAL";
    /// A queue pair went to error for a request that it could not accept; `object` is the QPN, `cause` the NAK's syndrome.
    QpRequestError = 3, "QP_REQUEST_ERROR";
    /// A queue pair went to error for an access that was not granted; `object` and `cause` likewise.
    QpAccessError = 4, "QP_ACCESS_ERROR";
    /// A queue pair in SQD has finished what was in progress, and the completions are in memory; `object` is the QPN. Sent once, where
    /// `MODIFY_QP` asked for it.
    SqDrained = 5, "SQ_DRAINED";
    /// The first packet arrived for a queue pair in RTR; `object` is the QPN. Sent once in a life.
    CommEstablished = 6, "COMM_ESTABLISHED";
    /// A queue pair in error has a completion for each WQE that it took from its shared receive queue, and takes no more; `object`
    /// is the QPN.
    LastWqe = 7, "LAST_WQE";
    /// A shared receive queue fell under its limit; `object` is the SRQN. The limit is not armed any more.
    SrqLimit = 8, "SRQ_LIMIT";
    /// A shared receive queue failed, as `cause` says; `object` is the SRQN. Each queue pair that takes a receive from it from then on goes
    /// to error.
    SrqFatal = 9, "SRQ_FATAL";
    /// The link came up.
    PortUp = 10, "PORT_UP";
    /// The link went down.
    PortDown = 11, "PORT_DOWN";
    /// A command completed.
    Command = 12, "COMMAND";
    /// The card must be reset: host memory refused one of its writes, and data or an entry of a queue is lost. `cause` is `DMA`, and the block
    /// `host_memory` has the address. Sent once between two resets.
    DeviceFatal = 13, "DEVICE_FATAL";
}

crate::table::layout! {
    /// Event queue entry.
    struct Event, "event", Little, 16 bytes, "host interface";
    /// QPN, CQN or SRQN.
    OBJECT object: u32 @ 0, 24, RO;
    /// One of [`EventKind`].
    KIND kind: u8 @ 24, 8, RO;
    /// Cause, coded as `syndrome` of a CQE.
    CAUSE cause: u8 @ 32, 8, RO;
    /// Events that belong to no CQ were lost before this one, for the queue was full.
    LOST lost: bool @ 40, 1, RO;
    /// Reserved.
    RSVD0 rsvd0: u32 @ 41, 23, RSVD;
    /// Reserved.
    RSVD1 rsvd1: u64 @ 64, 63, RSVD;
    /// Phase, as in a CQE.
    PHASE phase: bool @ 127, 1, RO;
}
