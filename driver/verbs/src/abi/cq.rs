// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues, completion channels and work completions.

use core::ffi::{c_int, c_uint, c_void};

use super::layout::*;
use super::{be32, ibv_context, ibv_pd, pthread_cond_t, pthread_mutex_t};

constants! {
    /// Status of a work completion.
    enum ibv_wc_status: c_uint {
        IBV_WC_SUCCESS = 0,
        IBV_WC_LOC_LEN_ERR = 1,
        IBV_WC_LOC_QP_OP_ERR = 2,
        IBV_WC_LOC_EEC_OP_ERR = 3,
        IBV_WC_LOC_PROT_ERR = 4,
        IBV_WC_WR_FLUSH_ERR = 5,
        IBV_WC_MW_BIND_ERR = 6,
        IBV_WC_BAD_RESP_ERR = 7,
        IBV_WC_LOC_ACCESS_ERR = 8,
        IBV_WC_REM_INV_REQ_ERR = 9,
        IBV_WC_REM_ACCESS_ERR = 10,
        IBV_WC_REM_OP_ERR = 11,
        IBV_WC_RETRY_EXC_ERR = 12,
        IBV_WC_RNR_RETRY_EXC_ERR = 13,
        IBV_WC_LOC_RDD_VIOL_ERR = 14,
        IBV_WC_REM_INV_RD_REQ_ERR = 15,
        IBV_WC_REM_ABORT_ERR = 16,
        IBV_WC_INV_EECN_ERR = 17,
        IBV_WC_INV_EEC_STATE_ERR = 18,
        IBV_WC_FATAL_ERR = 19,
        IBV_WC_RESP_TIMEOUT_ERR = 20,
        IBV_WC_GENERAL_ERR = 21,
        IBV_WC_TM_ERR = 22,
        IBV_WC_TM_RNDV_INCOMPLETE = 23,
    }

    /// Operation of a work completion. The bit `IBV_WC_RECV` is set in those of a receive.
    enum ibv_wc_opcode: c_uint {
        IBV_WC_SEND = 0,
        IBV_WC_RDMA_WRITE = 1,
        IBV_WC_RDMA_READ = 2,
        IBV_WC_COMP_SWAP = 3,
        IBV_WC_FETCH_ADD = 4,
        IBV_WC_BIND_MW = 5,
        IBV_WC_LOCAL_INV = 6,
        IBV_WC_TSO = 7,
        [since 56] IBV_WC_FLUSH = 8,
        IBV_WC_ATOMIC_WRITE = 9,
        IBV_WC_RECV = 1 << 7,
        IBV_WC_RECV_RDMA_WITH_IMM = 129,
        IBV_WC_TM_ADD = 130,
        IBV_WC_TM_DEL = 131,
        IBV_WC_TM_SYNC = 132,
        IBV_WC_TM_RECV = 133,
        IBV_WC_TM_NO_TAG = 134,
        IBV_WC_DRIVER1 = 135,
        IBV_WC_DRIVER2 = 136,
        IBV_WC_DRIVER3 = 137,
    }

    /// Bits of `ibv_cq_init_attr_ex.wc_flags`: which accessors of `ibv_cq_ex` a program will call.
    enum ibv_create_cq_wc_flags: c_uint {
        IBV_WC_EX_WITH_BYTE_LEN = 1 << 0,
        IBV_WC_EX_WITH_IMM = 1 << 1,
        IBV_WC_EX_WITH_QP_NUM = 1 << 2,
        IBV_WC_EX_WITH_SRC_QP = 1 << 3,
        IBV_WC_EX_WITH_SLID = 1 << 4,
        IBV_WC_EX_WITH_SL = 1 << 5,
        IBV_WC_EX_WITH_DLID_PATH_BITS = 1 << 6,
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP = 1 << 7,
        IBV_WC_EX_WITH_CVLAN = 1 << 8,
        IBV_WC_EX_WITH_FLOW_TAG = 1 << 9,
        IBV_WC_EX_WITH_TM_INFO = 1 << 10,
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK = 1 << 11,
    }

    /// Bits of `ibv_wc.wc_flags`.
    enum ibv_wc_flags: c_uint {
        IBV_WC_GRH = 1 << 0,
        IBV_WC_WITH_IMM = 1 << 1,
        IBV_WC_IP_CSUM_OK = 1 << 2,
        IBV_WC_WITH_INV = 1 << 3,
        IBV_WC_TM_SYNC_REQ = 1 << 4,
        IBV_WC_TM_MATCH = 1 << 5,
        IBV_WC_TM_DATA_VALID = 1 << 6,
    }

    /// Bits of `ibv_modify_cq_attr.attr_mask`.
    enum ibv_cq_attr_mask: c_uint {
        IBV_CQ_ATTR_MODERATE = 1 << 0,
        IBV_CQ_ATTR_RESERVED = 1 << 1,
    }

    /// Bits of `ibv_cq_init_attr_ex.comp_mask`.
    enum ibv_cq_init_attr_mask: c_uint {
        IBV_CQ_INIT_ATTR_MASK_FLAGS = 1 << 0,
        IBV_CQ_INIT_ATTR_MASK_PD = 1 << 1,
    }

    /// Bits of `ibv_cq_init_attr_ex.flags`.
    enum ibv_create_cq_attr_flags: c_uint {
        IBV_CREATE_CQ_ATTR_SINGLE_THREADED = 1 << 0,
        IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN = 1 << 1,
    }

    values c_uint {
        IBV_WC_IP_CSUM_OK_SHIFT = 2,
        IBV_WC_STANDARD_FLAGS = 0x7f,
        IBV_CREATE_CQ_SUP_WC_FLAGS = 0xfff,
    }
}

layout! {
    /// Immediate data, or the R_Key that a SEND with invalidate invalidated.
    [in ibv_wc.imm]
    union ibv_wc_imm {
        imm_data: be32,
        invalidated_rkey: u32,
    }

    /// A work completion.
    struct ibv_wc {
        wr_id: u64,
        status: ibv_wc_status,
        opcode: ibv_wc_opcode,
        vendor_err: u32,
        byte_len: u32,
        [hidden] imm: ibv_wc_imm,
        qp_num: u32,
        src_qp: u32,
        wc_flags: c_uint,
        pkey_index: u16,
        slid: u16,
        sl: u8,
        dlid_path_bits: u8,
    }

    /// A completion channel. Programs poll `fd` and change its flags.
    struct ibv_comp_channel {
        context: *mut ibv_context,
        fd: c_int,
        refcnt: c_int,
    }

    /// A completion queue.
    struct ibv_cq {
        context: *mut ibv_context,
        channel: *mut ibv_comp_channel,
        cq_context: *mut c_void,
        handle: u32,
        cqe: c_int,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        comp_events_completed: u32,
        async_events_completed: u32,
    }

    /// Attributes of `ibv_start_poll`; `comp_mask` must be zero.
    struct ibv_poll_cq_attr {
        comp_mask: u32,
    }

    /// Tag and application context of a tag matching header.
    struct ibv_wc_tm_info {
        tag: u64,
        r#priv: u32,
    }

    /// A completion queue with accessors. Its first members are those of `ibv_cq`: a program casts one to the
    /// other. The inline functions of C call the slots without a test for null.
    struct ibv_cq_ex {
        context: *mut ibv_context,
        channel: *mut ibv_comp_channel,
        cq_context: *mut c_void,
        handle: u32,
        cqe: c_int,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        comp_events_completed: u32,
        async_events_completed: u32,
        comp_mask: u32,
        status: ibv_wc_status,
        wr_id: u64,
        start_poll:
            Option<unsafe extern "C" fn(current: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int>,
        next_poll: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> c_int>,
        end_poll: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex)>,
        read_opcode: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> ibv_wc_opcode>,
        read_vendor_err: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u32>,
        read_byte_len: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u32>,
        read_imm_data: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> be32>,
        read_qp_num: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u32>,
        read_src_qp: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u32>,
        read_wc_flags: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> c_uint>,
        read_slid: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u32>,
        read_sl: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u8>,
        read_dlid_path_bits: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u8>,
        read_completion_ts: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u64>,
        read_cvlan: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u16>,
        read_flow_tag: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u32>,
        read_tm_info: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex, tm_info: *mut ibv_wc_tm_info)>,
        read_completion_wallclock_ns: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u64>,
    }

    /// Completion moderation; `cq_period` is in microseconds.
    struct ibv_moderate_cq {
        cq_count: u16,
        cq_period: u16,
    }

    /// Attributes of `ibv_modify_cq`.
    struct ibv_modify_cq_attr {
        attr_mask: u32,
        moderate: ibv_moderate_cq,
    }

    /// Attributes of `ibv_create_cq_ex`.
    struct ibv_cq_init_attr_ex {
        cqe: u32,
        cq_context: *mut c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: u32,
        wc_flags: u64,
        comp_mask: u32,
        flags: u32,
        parent_domain: *mut ibv_pd,
    }
}
