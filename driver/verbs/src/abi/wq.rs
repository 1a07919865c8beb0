// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receive work queues and their indirection tables.

use core::ffi::{c_int, c_void};

use super::layout::*;
use super::{ibv_context, ibv_cq, ibv_pd, ibv_recv_wr, pthread_cond_t, pthread_mutex_t};

constants! {
    /// Type of a work queue.
    enum ibv_wq_type: c_uint {
        IBV_WQT_RQ = 0,
    }

    /// Bits of `ibv_wq_init_attr.comp_mask`.
    enum ibv_wq_init_attr_mask: c_uint {
        IBV_WQ_INIT_ATTR_FLAGS = 1 << 0,
        IBV_WQ_INIT_ATTR_RESERVED = 1 << 1,
    }

    /// Flags of a work queue.
    enum ibv_wq_flags: c_uint {
        IBV_WQ_FLAGS_CVLAN_STRIPPING = 1 << 0,
        IBV_WQ_FLAGS_SCATTER_FCS = 1 << 1,
        IBV_WQ_FLAGS_DELAY_DROP = 1 << 2,
        IBV_WQ_FLAGS_PCI_WRITE_END_PADDING = 1 << 3,
        IBV_WQ_FLAGS_RESERVED = 1 << 4,
    }

    /// State of a work queue.
    enum ibv_wq_state: c_uint {
        IBV_WQS_RESET = 0,
        IBV_WQS_RDY = 1,
        IBV_WQS_ERR = 2,
        IBV_WQS_UNKNOWN = 3,
    }

    /// Bits of `ibv_wq_attr.attr_mask`.
    enum ibv_wq_attr_mask: c_uint {
        IBV_WQ_ATTR_STATE = 1 << 0,
        IBV_WQ_ATTR_CURR_STATE = 1 << 1,
        IBV_WQ_ATTR_FLAGS = 1 << 2,
        IBV_WQ_ATTR_RESERVED = 1 << 3,
    }

    /// Bits of `ibv_rwq_ind_table_init_attr.comp_mask`.
    enum ibv_ind_table_init_attr_mask: c_uint {
        IBV_CREATE_IND_TABLE_RESERVED = 1 << 0,
    }
}

layout! {
    /// Attributes of `ibv_create_wq`.
    struct ibv_wq_init_attr {
        wq_context: *mut c_void,
        wq_type: ibv_wq_type,
        max_wr: u32,
        max_sge: u32,
        pd: *mut ibv_pd,
        cq: *mut ibv_cq,
        comp_mask: u32,
        create_flags: u32,
    }

    /// Attributes of `ibv_modify_wq`.
    struct ibv_wq_attr {
        attr_mask: u32,
        wq_state: ibv_wq_state,
        curr_wq_state: ibv_wq_state,
        flags: u32,
        flags_mask: u32,
    }

    /// A work queue. The inline `ibv_create_wq` sets `wq_context`, `mutex`, `cond` and `events_completed`.
    struct ibv_wq {
        context: *mut ibv_context,
        wq_context: *mut c_void,
        pd: *mut ibv_pd,
        cq: *mut ibv_cq,
        wq_num: u32,
        handle: u32,
        state: ibv_wq_state,
        wq_type: ibv_wq_type,
        post_recv: Option<
            unsafe extern "C" fn(
                current: *mut ibv_wq,
                recv_wr: *mut ibv_recv_wr,
                bad_recv_wr: *mut *mut ibv_recv_wr,
            ) -> c_int,
        >,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        events_completed: u32,
        comp_mask: u32,
    }

    /// An indirection table of receive work queues.
    struct ibv_rwq_ind_table {
        context: *mut ibv_context,
        ind_tbl_handle: c_int,
        ind_tbl_num: c_int,
        comp_mask: u32,
    }

    /// Attributes of an indirection table of `1 << log_ind_tbl_size` entries.
    struct ibv_rwq_ind_table_init_attr {
        log_ind_tbl_size: u32,
        ind_tbl: *mut *mut ibv_wq,
        comp_mask: u32,
    }
}
