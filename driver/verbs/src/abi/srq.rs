// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared receive queues.

use core::ffi::c_void;

use super::layout::*;
use super::{ibv_context, ibv_cq, ibv_pd, ibv_xrcd, pthread_cond_t, pthread_mutex_t};

constants! {
    /// Bits of what `ibv_modify_srq` changes.
    enum ibv_srq_attr_mask: c_uint {
        IBV_SRQ_MAX_WR = 1 << 0,
        IBV_SRQ_LIMIT = 1 << 1,
    }

    /// Type of an SRQ.
    enum ibv_srq_type: c_uint {
        IBV_SRQT_BASIC = 0,
        IBV_SRQT_XRC = 1,
        IBV_SRQT_TM = 2,
    }

    /// Bits of `ibv_srq_init_attr_ex.comp_mask`.
    enum ibv_srq_init_attr_mask: c_uint {
        IBV_SRQ_INIT_ATTR_TYPE = 1 << 0,
        IBV_SRQ_INIT_ATTR_PD = 1 << 1,
        IBV_SRQ_INIT_ATTR_XRCD = 1 << 2,
        IBV_SRQ_INIT_ATTR_CQ = 1 << 3,
        IBV_SRQ_INIT_ATTR_TM = 1 << 4,
        IBV_SRQ_INIT_ATTR_RESERVED = 1 << 5,
    }
}

layout! {
    /// Limits of an SRQ.
    struct ibv_srq_attr {
        max_wr: u32,
        max_sge: u32,
        srq_limit: u32,
    }

    /// Attributes of `ibv_create_srq`.
    struct ibv_srq_init_attr {
        srq_context: *mut c_void,
        attr: ibv_srq_attr,
    }

    /// Limits of tag matching of an SRQ.
    struct ibv_tm_cap {
        max_num_tags: u32,
        max_ops: u32,
    }

    /// Attributes of `ibv_create_srq_ex`. Its first members are those of `ibv_srq_init_attr`: the inline
    /// function of C casts one to the other.
    struct ibv_srq_init_attr_ex {
        srq_context: *mut c_void,
        attr: ibv_srq_attr,
        comp_mask: u32,
        srq_type: ibv_srq_type,
        pd: *mut ibv_pd,
        xrcd: *mut ibv_xrcd,
        cq: *mut ibv_cq,
        tm_cap: ibv_tm_cap,
    }

    /// A shared receive queue.
    struct ibv_srq {
        context: *mut ibv_context,
        srq_context: *mut c_void,
        pd: *mut ibv_pd,
        handle: u32,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        events_completed: u32,
    }
}
