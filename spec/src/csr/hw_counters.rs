// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of the transport, with the names that Linux has in `hw_counters`: those of its mlx5 driver, or else of its rxe.

crate::table::counters! {
    /// Counters of the transport, with the names that Linux has in `hw_counters` where it has one.
    enum HwCounter, "hw_counters", 0x0a00, 0x200 bytes;
    /// Packets of WRITEs received and executed.
    RxWriteRequests = 0, "rx_write_requests";
    /// READ requests received and executed.
    RxReadRequests = 1, "rx_read_requests";
    /// Atomic requests received and executed.
    RxAtomicRequests = 2, "rx_atomic_requests";
    /// Messages that found no receive WQE, and were answered with an RNR NAK (RC) or dropped (UC and UD).
    OutOfBuffer = 3, "out_of_buffer";
    /// Packets with a PSN behind the expected one.
    OutOfSequence = 4, "out_of_sequence";
    /// Packets with a PSN before the expected one.
    DuplicateRequest = 5, "duplicate_request";
    /// RNR NAKs received after the last retry.
    RnrNakRetryErr = 6, "rnr_nak_retry_err";
    /// Sequence NAKs received.
    PacketSeqErr = 7, "packet_seq_err";
    /// Implied NAKs: an ACK behind a READ or atomic that has no answer.
    ImpliedNakSeqErr = 8, "implied_nak_seq_err";
    /// Time-outs of acknowledgements.
    LocalAckTimeoutErr = 9, "local_ack_timeout_err";
    /// Receive buffer too short.
    RespLocalLengthError = 10, "resp_local_length_error";
    /// Receives completed with an error.
    RespCqeError = 11, "resp_cqe_error";
    /// Sends completed with an error.
    ReqCqeError = 12, "req_cqe_error";
    /// NAKs 0x61 received.
    ReqRemoteInvalidRequest = 13, "req_remote_invalid_request";
    /// NAKs 0x62 received.
    ReqRemoteAccessErrors = 14, "req_remote_access_errors";
    /// NAKs 0x62 sent.
    RespRemoteAccessErrors = 15, "resp_remote_access_errors";
    /// Receives flushed.
    RespCqeFlushError = 16, "resp_cqe_flush_error";
    /// Sends flushed.
    ReqCqeFlushError = 17, "req_cqe_flush_error";
    /// CNPs received and obeyed.
    RpCnpHandled = 18, "rp_cnp_handled";
    /// CNPs received and ignored.
    RpCnpIgnored = 19, "rp_cnp_ignored";
    /// Packets received that met congestion.
    NpEcnMarkedRocePackets = 20, "np_ecn_marked_roce_packets";
    /// CNPs sent.
    NpCnpSent = 21, "np_cnp_sent";
    /// Packets with a wrong ICRC.
    RxIcrcEncapsulated = 22, "rx_icrc_encapsulated";
    /// RNR NAKs received.
    RcvdRnrErr = 23, "rcvd_rnr_err";
    /// RNR NAKs sent.
    SendRnrErr = 24, "send_rnr_err";
    /// Sequence NAKs sent.
    SeqNakSent = 25, "seq_nak_sent";
    /// NAKs 0x61 sent.
    RespRemoteInvalidRequest = 26, "resp_remote_invalid_request";
    /// NAKs 0x63 sent.
    RespRemoteOperationErrors = 27, "resp_remote_operation_errors";
    /// NAKs 0x63 received.
    ReqRemoteOperationErrors = 28, "req_remote_operation_errors";
    /// Packets sent again.
    Retransmitted = 29, "retransmitted_packets";
    /// Sends that ended for want of an answer: the last retry was used up.
    RetryExceededErr = 30, "retry_exceeded_err";
}
