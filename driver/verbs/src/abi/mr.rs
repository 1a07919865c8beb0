// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory regions, memory windows, device memory and DMA handles.

use core::ffi::{c_int, c_uint, c_void};

use super::layout::*;
use super::{ibv_context, ibv_pd};

constants! {
    /// Bits of a registration's access.
    enum ibv_access_flags: c_uint {
        IBV_ACCESS_LOCAL_WRITE = 1 << 0,
        IBV_ACCESS_REMOTE_WRITE = 1 << 1,
        IBV_ACCESS_REMOTE_READ = 1 << 2,
        IBV_ACCESS_REMOTE_ATOMIC = 1 << 3,
        IBV_ACCESS_MW_BIND = 1 << 4,
        IBV_ACCESS_ZERO_BASED = 1 << 5,
        IBV_ACCESS_ON_DEMAND = 1 << 6,
        IBV_ACCESS_HUGETLB = 1 << 7,
        [since 56] IBV_ACCESS_FLUSH_GLOBAL = 1 << 8,
        [since 56] IBV_ACCESS_FLUSH_PERSISTENT = 1 << 9,
        IBV_ACCESS_RELAXED_ORDERING = 1 << 20,
    }

    /// Bits of what `ibv_rereg_mr` changes.
    enum ibv_rereg_mr_flags: c_uint {
        IBV_REREG_MR_CHANGE_TRANSLATION = 1 << 0,
        IBV_REREG_MR_CHANGE_PD = 1 << 1,
        IBV_REREG_MR_CHANGE_ACCESS = 1 << 2,
        IBV_REREG_MR_FLAGS_SUPPORTED = 7,
    }

    /// Result of `ibv_rereg_mr`: which region is valid after an error.
    enum ibv_rereg_mr_err_code: c_int {
        IBV_REREG_MR_ERR_INPUT = -1,
        IBV_REREG_MR_ERR_DONT_FORK_NEW = -2,
        IBV_REREG_MR_ERR_DO_FORK_OLD = -3,
        IBV_REREG_MR_ERR_CMD = -4,
        IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW = -5,
    }

    /// Bits of `ibv_mr_init_attr.comp_mask`.
    [since 65]
    enum ibv_mr_init_attr_mask: c_uint {
        [since 65] IBV_REG_MR_MASK_IOVA = 1 << 0,
        [since 65] IBV_REG_MR_MASK_ADDR = 1 << 1,
        [since 65] IBV_REG_MR_MASK_FD = 1 << 2,
        [since 65] IBV_REG_MR_MASK_FD_OFFSET = 1 << 3,
        [since 65] IBV_REG_MR_MASK_DMAH = 1 << 4,
        [since 65] IBV_REG_MR_MASK_BUF = 1 << 5,
    }

    /// Advice of `ibv_advise_mr`.
    enum ibv_advise_mr_advice: c_uint {
        IBV_ADVISE_MR_ADVICE_PREFETCH = 0,
        IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE = 1,
        IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT = 2,
    }

    /// Type of a memory window.
    enum ibv_mw_type: c_uint {
        IBV_MW_TYPE_1 = 1,
        IBV_MW_TYPE_2 = 2,
    }

    /// Bits of `ibv_dm.comp_mask`.
    enum ibv_dm_mask: c_uint {
        IBV_DM_MASK_HANDLE = 1 << 0,
    }

    /// Kind of memory of a TLP processing hint.
    [since 65]
    enum ibv_tph_mem_type: c_uint {
        [since 65] IBV_TPH_MEM_TYPE_VM = 0,
        [since 65] IBV_TPH_MEM_TYPE_PM = 1,
    }

    /// Bits of `ibv_dmah_init_attr.comp_mask`.
    [since 65]
    enum ibv_dmah_init_attr_mask: c_uint {
        [since 65] IBV_DMAH_INIT_ATTR_MASK_CPU_ID = 1 << 0,
        [since 65] IBV_DMAH_INIT_ATTR_MASK_PH = 1 << 1,
        [since 65] IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE = 1 << 2,
    }

    values c_uint {
        IBV_ACCESS_OPTIONAL_FIRST = 1 << 20,
        IBV_ACCESS_OPTIONAL_RANGE = 0x3ff0_0000,
        IBV_ADVISE_MR_FLAG_FLUSH = 1 << 0,
    }
}

layout! {
    /// A memory region.
    struct ibv_mr {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        handle: u32,
        lkey: u32,
        rkey: u32,
    }

    /// Attributes of `ibv_reg_mr_ex`.
    [since 65]
    struct ibv_mr_init_attr {
        length: usize,
        access: c_int,
        comp_mask: u64,
        iova: u64,
        addr: *mut c_void,
        fd: c_int,
        fd_offset: u64,
        dmah: *mut ibv_dmah,
        buf: *mut ibv_buf,
    }

    /// A memory window.
    struct ibv_mw {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        rkey: u32,
        handle: u32,
        r#type: ibv_mw_type,
    }

    /// The range and the access to which a bind sets a memory window.
    struct ibv_mw_bind_info {
        mr: *mut ibv_mr,
        addr: u64,
        length: u64,
        mw_access_flags: c_uint,
    }

    /// A bind of a type 1 memory window.
    struct ibv_mw_bind {
        wr_id: u64,
        send_flags: c_uint,
        bind_info: ibv_mw_bind_info,
    }

    /// Attributes of device memory.
    struct ibv_alloc_dm_attr {
        length: usize,
        log_align_req: u32,
        comp_mask: u32,
    }

    /// Device memory. The inline functions of C call the two functions without a test for null.
    struct ibv_dm {
        context: *mut ibv_context,
        memcpy_to_dm: Option<
            unsafe extern "C" fn(
                dm: *mut ibv_dm,
                dm_offset: u64,
                host_addr: *const c_void,
                length: usize,
            ) -> c_int,
        >,
        memcpy_from_dm: Option<
            unsafe extern "C" fn(
                host_addr: *mut c_void,
                dm: *mut ibv_dm,
                dm_offset: u64,
                length: usize,
            ) -> c_int,
        >,
        comp_mask: u32,
        handle: u32,
    }

    /// A DMA handle.
    [since 65]
    struct ibv_dmah {
        context: *mut ibv_context,
    }

    /// Attributes of a DMA handle.
    [since 65]
    struct ibv_dmah_init_attr {
        comp_mask: u32,
        cpu_id: u32,
        ph: u8,
        tph_mem_type: u8,
    }
}

opaque! {
    /// A buffer of `ibv_alloc_buf`.
    struct ibv_buf;
}
