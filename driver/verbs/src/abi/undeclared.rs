// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types of functions that `libibverbs.so.1` exports though no public header declares them.
//!
//! Stock programs call `ibv_query_gid_type`, `ibv_read_sysfs_file` and `ibv_get_sysfs_path`; stock librdmacm
//! calls the `ibv_copy` functions. No header proves these types.

use core::ffi::{c_char, c_int, c_uint, c_void};

use super::layout::*;
use super::{ibv_ah_attr, ibv_context, ibv_qp_attr, ibv_sa_path_rec};

/// GID type of `ibv_query_gid_type`, whose numbers differ from those of `ibv_gid_type`.
pub type ibv_gid_type_sysfs = c_uint;
/// GID of InfiniBand or RoCE v1.
pub const IBV_GID_TYPE_SYSFS_IB_ROCE_V1: ibv_gid_type_sysfs = 0;
/// GID of RoCE v2.
pub const IBV_GID_TYPE_SYSFS_ROCE_V2: ibv_gid_type_sysfs = 1;

opaque! {
    /// QP attributes of the kernel.
    struct ib_uverbs_qp_attr;
    /// Address attributes of the kernel.
    struct ib_uverbs_ah_attr;
    /// Path record of the kernel.
    struct ib_user_path_rec;
}

functions! {
    fn ibv_copy_ah_attr_from_kern(dst: *mut ibv_ah_attr, src: *mut ib_uverbs_ah_attr);
    fn ibv_copy_path_rec_from_kern(dst: *mut ibv_sa_path_rec, src: *mut ib_user_path_rec);
    fn ibv_copy_path_rec_to_kern(dst: *mut ib_user_path_rec, src: *mut ibv_sa_path_rec);
    fn ibv_copy_qp_attr_from_kern(dst: *mut ibv_qp_attr, src: *mut ib_uverbs_qp_attr);
    fn ibv_dofork_range(base: *mut c_void, size: usize) -> c_int;
    fn ibv_dontfork_range(base: *mut c_void, size: usize) -> c_int;
    fn ibv_get_sysfs_path() -> *const c_char;
    fn ibv_query_gid_type(
        context: *mut ibv_context,
        port_num: u8,
        index: c_uint,
        r#type: *mut ibv_gid_type_sysfs,
    ) -> c_int;
    fn ibv_read_sysfs_file(dir: *const c_char, file: *const c_char, buf: *mut c_char, size: usize) -> c_int;
    fn ibv_register_driver(name: *const c_char, init: *mut c_void);
}
