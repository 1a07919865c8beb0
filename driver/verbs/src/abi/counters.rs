// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of flows, and completion counters.

use super::ibv_context;
use super::layout::*;

constants! {
    /// What a counter of a flow counts.
    enum ibv_counter_description: c_uint {
        IBV_COUNTER_PACKETS = 0,
        IBV_COUNTER_BYTES = 1,
    }

    /// Bits of the flags of `ibv_read_counters`.
    enum ibv_read_counters_flags: c_uint {
        IBV_READ_COUNTERS_ATTR_PREFER_CACHED = 1 << 0,
    }

    /// Operations that a completion counter counts.
    [since 65]
    enum ibv_qp_attach_comp_cntr_op: c_uint {
        [since 65] IBV_QP_ATTACH_COMP_CNTR_OP_SEND = 1 << 0,
        [since 65] IBV_QP_ATTACH_COMP_CNTR_OP_RECV = 1 << 1,
        [since 65] IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ = 1 << 2,
        [since 65] IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ = 1 << 3,
        [since 65] IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE = 1 << 4,
        [since 65] IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5,
    }

    /// Unit of a completion counter.
    [since 65]
    enum ibv_comp_cntr_type: c_uint {
        [since 65] IBV_COMP_CNTR_TYPE_WRS = 0,
        [since 65] IBV_COMP_CNTR_TYPE_BYTES = 1,
    }
}

layout! {
    /// Attributes of a set of counters.
    struct ibv_counters_init_attr {
        comp_mask: u32,
    }

    /// A set of counters.
    struct ibv_counters {
        context: *mut ibv_context,
    }

    /// A counter that a flow updates, and its index in the set.
    struct ibv_counter_attach_attr {
        counter_desc: ibv_counter_description,
        index: u32,
        comp_mask: u32,
    }

    /// Limits of completion counters. A program passes the size that its headers give it.
    [since 65]
    struct ibv_comp_cntr_caps {
        max_value: u64,
        max_counters: u32,
        supported_qp_attach_ops: u32,
    }

    /// A completion counter.
    [since 65]
    struct ibv_comp_cntr {
        context: *mut ibv_context,
        handle: u32,
    }

    /// Attributes of a completion counter.
    [since 65]
    struct ibv_comp_cntr_init_attr {
        comp_mask: u32,
        r#type: ibv_comp_cntr_type,
        flags: u32,
    }

    /// Attributes of `ibv_qp_attach_comp_cntr`.
    [since 65]
    struct ibv_qp_attach_comp_cntr_attr {
        comp_mask: u32,
        op_mask: u32,
    }
}
