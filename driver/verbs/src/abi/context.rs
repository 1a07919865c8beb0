// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts: the tables through which the inline functions of C call the library.

use core::ffi::{c_int, c_uint, c_void};

use super::layout::*;
use super::*;

constants! {
    /// Bits of `ibv_values_ex.comp_mask`.
    enum ibv_values_mask: c_uint {
        IBV_VALUES_MASK_RAW_CLOCK = 1 << 0,
        IBV_VALUES_MASK_RESERVED = 1 << 1,
    }

    addresses {
        __VERBS_ABI_IS_EXTENDED = usize::MAX,
    }
}

layout! {
    /// Functions of a context. Programs call `alloc_mw`, `bind_mw`, `dealloc_mw`, `poll_cq`, `req_notify_cq`,
    /// `post_srq_recv`, `post_send` and `post_recv`; of these the inline functions test `alloc_mw` only.
    struct ibv_context_ops {
        _compat_query_device: Option<
            unsafe extern "C" fn(context: *mut ibv_context, device_attr: *mut ibv_device_attr) -> c_int,
        >,
        _compat_query_port: Option<
            unsafe extern "C" fn(
                context: *mut ibv_context,
                port_num: u8,
                port_attr: *mut _compat_ibv_port_attr,
            ) -> c_int,
        >,
        _compat_alloc_pd: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_dealloc_pd: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_reg_mr: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_rereg_mr: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_dereg_mr: Option<unsafe extern "C" fn() -> *mut c_void>,
        alloc_mw: Option<unsafe extern "C" fn(pd: *mut ibv_pd, r#type: ibv_mw_type) -> *mut ibv_mw>,
        bind_mw: Option<
            unsafe extern "C" fn(qp: *mut ibv_qp, mw: *mut ibv_mw, mw_bind: *mut ibv_mw_bind) -> c_int,
        >,
        dealloc_mw: Option<unsafe extern "C" fn(mw: *mut ibv_mw) -> c_int>,
        _compat_create_cq: Option<unsafe extern "C" fn() -> *mut c_void>,
        poll_cq: Option<unsafe extern "C" fn(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int>,
        req_notify_cq: Option<unsafe extern "C" fn(cq: *mut ibv_cq, solicited_only: c_int) -> c_int>,
        _compat_cq_event: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_resize_cq: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_destroy_cq: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_create_srq: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_modify_srq: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_query_srq: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_destroy_srq: Option<unsafe extern "C" fn() -> *mut c_void>,
        post_srq_recv: Option<
            unsafe extern "C" fn(
                srq: *mut ibv_srq,
                recv_wr: *mut ibv_recv_wr,
                bad_recv_wr: *mut *mut ibv_recv_wr,
            ) -> c_int,
        >,
        _compat_create_qp: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_query_qp: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_modify_qp: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_destroy_qp: Option<unsafe extern "C" fn() -> *mut c_void>,
        post_send: Option<
            unsafe extern "C" fn(
                qp: *mut ibv_qp,
                wr: *mut ibv_send_wr,
                bad_wr: *mut *mut ibv_send_wr,
            ) -> c_int,
        >,
        post_recv: Option<
            unsafe extern "C" fn(
                qp: *mut ibv_qp,
                wr: *mut ibv_recv_wr,
                bad_wr: *mut *mut ibv_recv_wr,
            ) -> c_int,
        >,
        _compat_create_ah: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_destroy_ah: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_attach_mcast: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_detach_mcast: Option<unsafe extern "C" fn() -> *mut c_void>,
        _compat_async_event: Option<unsafe extern "C" fn() -> *mut c_void>,
    }

    /// An open device. Programs poll `async_fd`. `abi_compat` is `__VERBS_ABI_IS_EXTENDED` if the context is
    /// the last member of a [`verbs_context`].
    struct ibv_context {
        device: *mut ibv_device,
        ops: ibv_context_ops,
        cmd_fd: c_int,
        async_fd: c_int,
        num_comp_vectors: c_int,
        mutex: pthread_mutex_t,
        abi_compat: *mut c_void,
    }

    /// Values of a device's clock.
    struct ibv_values_ex {
        comp_mask: u32,
        raw_clock: timespec,
    }

    /// Further functions of a context. New slots come first, so that the distance of a slot from `context`
    /// never changes. `sz` is the size of the structure in bytes, by which a program finds absent slots.
    struct verbs_context {
        [since 65] free_buf: Option<unsafe extern "C" fn(buf: *mut ibv_buf)>,
        [since 65] alloc_buf: Option<
            unsafe extern "C" fn(pd: *mut ibv_pd, size: usize, buf: *mut *mut ibv_buf) -> *mut c_void,
        >,
        [since 65] dm_export_dmabuf_fd: Option<unsafe extern "C" fn(dm: *mut ibv_dm) -> c_int>,
        [since 65] reg_mr_ex: Option<
            unsafe extern "C" fn(pd: *mut ibv_pd, mr_init_attr: *mut ibv_mr_init_attr) -> *mut ibv_mr,
        >,
        [since 65] dealloc_dmah: Option<unsafe extern "C" fn(dmah: *mut ibv_dmah) -> c_int>,
        [since 65] alloc_dmah: Option<
            unsafe extern "C" fn(context: *mut ibv_context, attr: *mut ibv_dmah_init_attr) -> *mut ibv_dmah,
        >,
        query_port: Option<
            unsafe extern "C" fn(
                context: *mut ibv_context,
                port_num: u8,
                port_attr: *mut ibv_port_attr,
                port_attr_len: usize,
            ) -> c_int,
        >,
        advise_mr: Option<
            unsafe extern "C" fn(
                pd: *mut ibv_pd,
                advice: ibv_advise_mr_advice,
                flags: u32,
                sg_list: *mut ibv_sge,
                num_sges: u32,
            ) -> c_int,
        >,
        alloc_null_mr: Option<unsafe extern "C" fn(pd: *mut ibv_pd) -> *mut ibv_mr>,
        read_counters: Option<
            unsafe extern "C" fn(
                counters: *mut ibv_counters,
                counters_value: *mut u64,
                ncounters: u32,
                flags: u32,
            ) -> c_int,
        >,
        attach_counters_point_flow: Option<
            unsafe extern "C" fn(
                counters: *mut ibv_counters,
                attr: *mut ibv_counter_attach_attr,
                flow: *mut ibv_flow,
            ) -> c_int,
        >,
        create_counters: Option<
            unsafe extern "C" fn(
                context: *mut ibv_context,
                init_attr: *mut ibv_counters_init_attr,
            ) -> *mut ibv_counters,
        >,
        destroy_counters: Option<unsafe extern "C" fn(counters: *mut ibv_counters) -> c_int>,
        reg_dm_mr: Option<
            unsafe extern "C" fn(
                pd: *mut ibv_pd,
                dm: *mut ibv_dm,
                dm_offset: u64,
                length: usize,
                access: c_uint,
            ) -> *mut ibv_mr,
        >,
        alloc_dm: Option<
            unsafe extern "C" fn(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> *mut ibv_dm,
        >,
        free_dm: Option<unsafe extern "C" fn(dm: *mut ibv_dm) -> c_int>,
        modify_flow_action_esp: Option<
            unsafe extern "C" fn(action: *mut ibv_flow_action, attr: *mut ibv_flow_action_esp_attr) -> c_int,
        >,
        destroy_flow_action: Option<unsafe extern "C" fn(action: *mut ibv_flow_action) -> c_int>,
        create_flow_action_esp: Option<
            unsafe extern "C" fn(
                context: *mut ibv_context,
                attr: *mut ibv_flow_action_esp_attr,
            ) -> *mut ibv_flow_action,
        >,
        modify_qp_rate_limit:
            Option<unsafe extern "C" fn(qp: *mut ibv_qp, attr: *mut ibv_qp_rate_limit_attr) -> c_int>,
        alloc_parent_domain: Option<
            unsafe extern "C" fn(
                context: *mut ibv_context,
                attr: *mut ibv_parent_domain_init_attr,
            ) -> *mut ibv_pd,
        >,
        dealloc_td: Option<unsafe extern "C" fn(td: *mut ibv_td) -> c_int>,
        alloc_td: Option<
            unsafe extern "C" fn(context: *mut ibv_context, init_attr: *mut ibv_td_init_attr) -> *mut ibv_td,
        >,
        modify_cq: Option<unsafe extern "C" fn(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int>,
        post_srq_ops: Option<
            unsafe extern "C" fn(
                srq: *mut ibv_srq,
                op: *mut ibv_ops_wr,
                bad_op: *mut *mut ibv_ops_wr,
            ) -> c_int,
        >,
        destroy_rwq_ind_table: Option<unsafe extern "C" fn(rwq_ind_table: *mut ibv_rwq_ind_table) -> c_int>,
        create_rwq_ind_table: Option<
            unsafe extern "C" fn(
                context: *mut ibv_context,
                init_attr: *mut ibv_rwq_ind_table_init_attr,
            ) -> *mut ibv_rwq_ind_table,
        >,
        destroy_wq: Option<unsafe extern "C" fn(wq: *mut ibv_wq) -> c_int>,
        modify_wq: Option<unsafe extern "C" fn(wq: *mut ibv_wq, wq_attr: *mut ibv_wq_attr) -> c_int>,
        create_wq: Option<
            unsafe extern "C" fn(
                context: *mut ibv_context,
                wq_init_attr: *mut ibv_wq_init_attr,
            ) -> *mut ibv_wq,
        >,
        query_rt_values:
            Option<unsafe extern "C" fn(context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int>,
        create_cq_ex: Option<
            unsafe extern "C" fn(
                context: *mut ibv_context,
                init_attr: *mut ibv_cq_init_attr_ex,
            ) -> *mut ibv_cq_ex,
        >,
        r#priv: *mut verbs_ex_private,
        query_device_ex: Option<
            unsafe extern "C" fn(
                context: *mut ibv_context,
                input: *const ibv_query_device_ex_input,
                attr: *mut ibv_device_attr_ex,
                attr_size: usize,
            ) -> c_int,
        >,
        ibv_destroy_flow: Option<unsafe extern "C" fn(flow: *mut ibv_flow) -> c_int>,
        ABI_placeholder2: Option<unsafe extern "C" fn()>,
        ibv_create_flow: Option<
            unsafe extern "C" fn(qp: *mut ibv_qp, flow_attr: *mut ibv_flow_attr) -> *mut ibv_flow,
        >,
        ABI_placeholder1: Option<unsafe extern "C" fn()>,
        open_qp: Option<
            unsafe extern "C" fn(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp,
        >,
        create_qp_ex: Option<
            unsafe extern "C" fn(
                context: *mut ibv_context,
                qp_init_attr_ex: *mut ibv_qp_init_attr_ex,
            ) -> *mut ibv_qp,
        >,
        get_srq_num: Option<unsafe extern "C" fn(srq: *mut ibv_srq, srq_num: *mut u32) -> c_int>,
        create_srq_ex: Option<
            unsafe extern "C" fn(
                context: *mut ibv_context,
                srq_init_attr_ex: *mut ibv_srq_init_attr_ex,
            ) -> *mut ibv_srq,
        >,
        open_xrcd: Option<
            unsafe extern "C" fn(
                context: *mut ibv_context,
                xrcd_init_attr: *mut ibv_xrcd_init_attr,
            ) -> *mut ibv_xrcd,
        >,
        close_xrcd: Option<unsafe extern "C" fn(xrcd: *mut ibv_xrcd) -> c_int>,
        _ABI_placeholder3: u64,
        sz: usize,
        context: ibv_context,
    }
}

opaque! {
    /// Private part of a context. No program reads it.
    struct verbs_ex_private;
}
