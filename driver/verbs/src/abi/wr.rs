// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work requests.

use core::ffi::{c_int, c_uint, c_void};

use super::layout::*;
use super::{be32, ibv_ah, ibv_mw, ibv_mw_bind_info};

constants! {
    /// Operation of a send work request.
    enum ibv_wr_opcode: c_uint {
        IBV_WR_RDMA_WRITE = 0,
        IBV_WR_RDMA_WRITE_WITH_IMM = 1,
        IBV_WR_SEND = 2,
        IBV_WR_SEND_WITH_IMM = 3,
        IBV_WR_RDMA_READ = 4,
        IBV_WR_ATOMIC_CMP_AND_SWP = 5,
        IBV_WR_ATOMIC_FETCH_AND_ADD = 6,
        IBV_WR_LOCAL_INV = 7,
        IBV_WR_BIND_MW = 8,
        IBV_WR_SEND_WITH_INV = 9,
        IBV_WR_TSO = 10,
        IBV_WR_DRIVER1 = 11,
        [since 56] IBV_WR_FLUSH = 14,
        IBV_WR_ATOMIC_WRITE = 15,
    }

    /// Bits of `ibv_send_wr.send_flags`.
    enum ibv_send_flags: c_uint {
        IBV_SEND_FENCE = 1 << 0,
        IBV_SEND_SIGNALED = 1 << 1,
        IBV_SEND_SOLICITED = 1 << 2,
        IBV_SEND_INLINE = 1 << 3,
        IBV_SEND_IP_CSUM = 1 << 4,
    }

    /// Bits of the placement type of a FLUSH.
    [since 56]
    enum ibv_placement_type: c_uint {
        [since 56] IBV_FLUSH_GLOBAL = 1 << 0,
        [since 56] IBV_FLUSH_PERSISTENT = 1 << 1,
    }

    /// Selectivity level of a FLUSH.
    [since 56]
    enum ibv_selectivity_level: c_uint {
        [since 56] IBV_FLUSH_RANGE = 0,
        [since 56] IBV_FLUSH_MR = 1,
    }

    /// Operation on the tag matching list of an SRQ.
    enum ibv_ops_wr_opcode: c_uint {
        IBV_WR_TAG_ADD = 0,
        IBV_WR_TAG_DEL = 1,
        IBV_WR_TAG_SYNC = 2,
    }

    /// Bits of `ibv_ops_wr.flags`.
    enum ibv_ops_flags: c_uint {
        IBV_OPS_SIGNALED = 1 << 0,
        IBV_OPS_TM_SYNC = 1 << 1,
    }
}

layout! {
    /// A buffer of inline data.
    struct ibv_data_buf {
        addr: *mut c_void,
        length: usize,
    }

    /// A scatter/gather element.
    struct ibv_sge {
        addr: u64,
        length: u32,
        lkey: u32,
    }

    /// Immediate data, or the R_Key that the responder invalidates.
    [in ibv_send_wr.imm]
    union ibv_send_wr_imm {
        imm_data: be32,
        invalidate_rkey: u32,
    }

    /// Remote address of an RDMA operation.
    struct ibv_send_wr_rdma as "ibv_send_wr.wr.rdma" {
        remote_addr: u64,
        rkey: u32,
    }

    /// Remote address and operands of an atomic operation.
    struct ibv_send_wr_atomic as "ibv_send_wr.wr.atomic" {
        remote_addr: u64,
        compare_add: u64,
        swap: u64,
        rkey: u32,
    }

    /// Destination of a UD message.
    struct ibv_send_wr_ud as "ibv_send_wr.wr.ud" {
        ah: *mut ibv_ah,
        remote_qpn: u32,
        remote_qkey: u32,
    }

    /// Remote side of a send work request, by its opcode and the type of its QP.
    union ibv_send_wr_wr as "ibv_send_wr.wr" {
        rdma: ibv_send_wr_rdma,
        atomic: ibv_send_wr_atomic,
        ud: ibv_send_wr_ud,
    }

    /// Remote SRQ of an XRC message.
    struct ibv_send_wr_xrc as "ibv_send_wr.qp_type.xrc" {
        remote_srqn: u32,
    }

    /// What the type of the QP adds to a send work request.
    union ibv_send_wr_qp_type as "ibv_send_wr.qp_type" {
        xrc: ibv_send_wr_xrc,
    }

    /// Memory window of a bind.
    struct ibv_send_wr_bind_mw as "ibv_send_wr.bind_mw" {
        mw: *mut ibv_mw,
        rkey: u32,
        bind_info: ibv_mw_bind_info,
    }

    /// Header and segment size of TCP segmentation.
    struct ibv_send_wr_tso as "ibv_send_wr.tso" {
        hdr: *mut c_void,
        hdr_sz: u16,
        mss: u16,
    }

    /// Memory window or TCP segmentation, by the opcode.
    [in ibv_send_wr.op]
    union ibv_send_wr_op {
        bind_mw: ibv_send_wr_bind_mw,
        tso: ibv_send_wr_tso,
    }

    /// A send work request. Programs leave members uninitialized that the opcode does not use.
    struct ibv_send_wr {
        wr_id: u64,
        next: *mut ibv_send_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
        opcode: ibv_wr_opcode,
        send_flags: c_uint,
        [hidden] imm: ibv_send_wr_imm,
        wr: ibv_send_wr_wr,
        qp_type: ibv_send_wr_qp_type,
        [hidden] op: ibv_send_wr_op,
    }

    /// A receive work request.
    struct ibv_recv_wr {
        wr_id: u64,
        next: *mut ibv_recv_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
    }

    /// Buffer and tag that an SRQ adds to its tag matching list.
    struct ibv_ops_wr_add as "ibv_ops_wr.tm.add" {
        recv_wr_id: u64,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
        tag: u64,
        mask: u64,
    }

    /// Operand of a tag matching operation.
    struct ibv_ops_wr_tm as "ibv_ops_wr.tm" {
        unexpected_cnt: u32,
        handle: u32,
        add: ibv_ops_wr_add,
    }

    /// A tag matching work request of an SRQ.
    struct ibv_ops_wr {
        wr_id: u64,
        next: *mut ibv_ops_wr,
        opcode: ibv_ops_wr_opcode,
        flags: c_int,
        tm: ibv_ops_wr_tm,
    }
}
