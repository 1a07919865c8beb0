// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions that the card or this library does not have. Each says why in the log, and answers `EOPNOTSUPP`.

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::mem::transmute;

use rustix::io::Errno;

use crate::abi::*;
use crate::failure::{number, pointer, signed, Failure};

/// Declares such functions. `slot`: of a table; `exported`: of the library.
macro_rules! unsupported {
    ($( $kind:ident $how:ident $name:ident($($ty:ty),*) $(-> $result:ty)? = $why:expr; )+) => {
        $( unsupported! { @one $kind $how $name($($ty),*) $(-> $result)? = $why } )+
    };
    (@one exported $how:ident $name:ident($($ty:ty),*) $(-> $result:ty)? = $why:expr) => {
        /// Answers that there is no such function.
        ///
        /// # Safety
        /// None is needed.
        #[no_mangle]
        pub unsafe extern "C" fn $name($(_: $ty),*) $(-> $result)? {
            unsupported! { @body $how $name $why }
        }
        const _: functions::$name = $name;
    };
    (@one slot $how:ident $name:ident($($ty:ty),*) $(-> $result:ty)? = $why:expr) => {
        /// Answers that there is no such function.
        ///
        /// # Safety
        /// None is needed.
        pub unsafe extern "C" fn $name($(_: $ty),*) $(-> $result)? {
            unsupported! { @body $how $name $why }
        }
    };
    (@body pointer $name:ident $why:expr) => {
        pointer(stringify!($name), Err(Failure::unsupported($why)))
    };
    (@body number $name:ident $why:expr) => {
        number(stringify!($name), Err(Failure::unsupported($why)))
    };
    (@body signed $name:ident $why:expr) => {
        signed(stringify!($name), Err(Failure::unsupported($why)))
    };
    (@body nothing $name:ident $why:expr) => {
        let _ = number(stringify!($name), Err(Failure::unsupported($why)));
    };
}

const FLOWS: &str = "the card has no flow steering; a raw packet queue pair gets all frames for the port";
const COUNTERS: &str = "the card has no counters of flows; `ferrowire counters` shows its own";
const WORK_QUEUES: &str = "the card has no receive work queues and no receive hashing";
const DEVICE_MEMORY: &str = "the card has no memory that programs use";
const XRC: &str = "the card has no XRC";
const IMPORTS: &str = "one process has a card: objects of another process cannot be imported";
const MULTICAST: &str = "the card has no multicast";
const DMABUF: &str = "the card does not reach memory of other devices by a dmabuf";
const COMPLETION_COUNTERS: &str = "the card has no completion counters";
const BUFFERS: &str = "the library allocates no buffers; register memory of your own";
const HINTS: &str = "the card sends no TLP processing hints";
const ECE: &str = "the card has no enhanced connection establishment";
const ODP: &str = "the card has no on-demand paging";

unsupported! {
    slot pointer create_flow(*mut ibv_qp, *mut ibv_flow_attr) -> *mut ibv_flow = FLOWS;
    slot number destroy_flow(*mut ibv_flow) -> c_int = FLOWS;
    slot pointer create_flow_action_esp(*mut ibv_context, *mut ibv_flow_action_esp_attr) -> *mut ibv_flow_action = FLOWS;
    slot number modify_flow_action_esp(*mut ibv_flow_action, *mut ibv_flow_action_esp_attr) -> c_int = FLOWS;
    slot number destroy_flow_action(*mut ibv_flow_action) -> c_int = FLOWS;
    slot pointer create_counters(*mut ibv_context, *mut ibv_counters_init_attr) -> *mut ibv_counters = COUNTERS;
    slot number destroy_counters(*mut ibv_counters) -> c_int = COUNTERS;
    slot number attach_counters_point_flow(*mut ibv_counters, *mut ibv_counter_attach_attr, *mut ibv_flow) -> c_int = COUNTERS;
    slot number read_counters(*mut ibv_counters, *mut u64, u32, u32) -> c_int = COUNTERS;
    slot pointer create_wq(*mut ibv_context, *mut ibv_wq_init_attr) -> *mut ibv_wq = WORK_QUEUES;
    slot number modify_wq(*mut ibv_wq, *mut ibv_wq_attr) -> c_int = WORK_QUEUES;
    slot number destroy_wq(*mut ibv_wq) -> c_int = WORK_QUEUES;
    slot pointer create_rwq_ind_table(*mut ibv_context, *mut ibv_rwq_ind_table_init_attr) -> *mut ibv_rwq_ind_table = WORK_QUEUES;
    slot number destroy_rwq_ind_table(*mut ibv_rwq_ind_table) -> c_int = WORK_QUEUES;
    slot pointer alloc_dm(*mut ibv_context, *mut ibv_alloc_dm_attr) -> *mut ibv_dm = DEVICE_MEMORY;
    slot number free_dm(*mut ibv_dm) -> c_int = DEVICE_MEMORY;
    slot pointer reg_dm_mr(*mut ibv_pd, *mut ibv_dm, u64, usize, c_uint) -> *mut ibv_mr = DEVICE_MEMORY;
    slot pointer open_xrcd(*mut ibv_context, *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd = XRC;
    slot number close_xrcd(*mut ibv_xrcd) -> c_int = XRC;
    slot pointer open_qp(*mut ibv_context, *mut ibv_qp_open_attr) -> *mut ibv_qp = XRC;
    slot number advise_mr(*mut ibv_pd, ibv_advise_mr_advice, u32, *mut ibv_sge, u32) -> c_int = ODP;
    slot number modify_qp_rate_limit(*mut ibv_qp, *mut ibv_qp_rate_limit_attr) -> c_int = "the card has no rate limits";

    exported pointer ibv_import_device(c_int) -> *mut ibv_context = IMPORTS;
    exported pointer ibv_import_pd(*mut ibv_context, u32) -> *mut ibv_pd = IMPORTS;
    exported nothing ibv_unimport_pd(*mut ibv_pd) = IMPORTS;
    exported pointer ibv_import_mr(*mut ibv_pd, u32) -> *mut ibv_mr = IMPORTS;
    exported nothing ibv_unimport_mr(*mut ibv_mr) = IMPORTS;
    exported pointer ibv_import_dm(*mut ibv_context, u32) -> *mut ibv_dm = IMPORTS;
    exported nothing ibv_unimport_dm(*mut ibv_dm) = IMPORTS;
    exported pointer ibv_reg_dmabuf_mr(*mut ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ibv_mr = DMABUF;
    exported signed ibv_dm_export_dmabuf_fd(*mut ibv_dm) -> c_int = DEVICE_MEMORY;
    exported number ibv_attach_mcast(*mut ibv_qp, *const ibv_gid, u16) -> c_int = MULTICAST;
    exported number ibv_detach_mcast(*mut ibv_qp, *const ibv_gid, u16) -> c_int = MULTICAST;
    exported number ibv_set_ece(*mut ibv_qp, *mut ibv_ece) -> c_int = ECE;
    exported number ibv_query_ece(*mut ibv_qp, *mut ibv_ece) -> c_int = ECE;
    exported pointer ibv_alloc_buf(*mut ibv_pd, usize, *mut *mut ibv_buf) -> *mut c_void = BUFFERS;
    exported nothing ibv_free_buf(*mut ibv_buf) = BUFFERS;
    exported signed ibv_export_buf_dmabuf_fd(*mut ibv_buf) -> c_int = BUFFERS;
    exported pointer ibv_reg_buf_mr(*mut ibv_pd, *mut ibv_buf, *mut c_void, usize, c_int) -> *mut ibv_mr = BUFFERS;
    exported pointer ibv_alloc_dmah(*mut ibv_context, *mut ibv_dmah_init_attr) -> *mut ibv_dmah = HINTS;
    exported number ibv_dealloc_dmah(*mut ibv_dmah) -> c_int = HINTS;
    exported number _ibv_query_comp_cntr_caps(*mut ibv_context, *mut ibv_comp_cntr_caps, usize) -> c_int = COMPLETION_COUNTERS;
    exported pointer ibv_create_comp_cntr(*mut ibv_context, *mut ibv_comp_cntr_init_attr) -> *mut ibv_comp_cntr = COMPLETION_COUNTERS;
    exported number ibv_destroy_comp_cntr(*mut ibv_comp_cntr) -> c_int = COMPLETION_COUNTERS;
    exported number ibv_set_comp_cntr(*mut ibv_comp_cntr, u64) -> c_int = COMPLETION_COUNTERS;
    exported number ibv_set_err_comp_cntr(*mut ibv_comp_cntr, u64) -> c_int = COMPLETION_COUNTERS;
    exported number ibv_inc_comp_cntr(*mut ibv_comp_cntr, u64) -> c_int = COMPLETION_COUNTERS;
    exported number ibv_inc_err_comp_cntr(*mut ibv_comp_cntr, u64) -> c_int = COMPLETION_COUNTERS;
    exported number ibv_read_comp_cntr(*mut ibv_comp_cntr, *mut u64) -> c_int = COMPLETION_COUNTERS;
    exported number ibv_read_err_comp_cntr(*mut ibv_comp_cntr, *mut u64) -> c_int = COMPLETION_COUNTERS;
    exported number ibv_qp_attach_comp_cntr(*mut ibv_qp, *mut ibv_comp_cntr, *mut ibv_qp_attach_comp_cntr_attr) -> c_int = COMPLETION_COUNTERS;
}

/// The slot by which programs of 2013 call `ibv_create_flow` (libibverbs 1.1.7). Its type in today's headers is that of a function without result.
pub fn old_create_flow() -> unsafe extern "C" fn() {
    // SAFETY: both are pointers to functions; the program calls it by the type that it has here.
    unsafe {
        transmute::<
            unsafe extern "C" fn(*mut ibv_qp, *mut ibv_flow_attr) -> *mut ibv_flow,
            unsafe extern "C" fn(),
        >(create_flow)
    }
}

/// The same of `ibv_destroy_flow`.
pub fn old_destroy_flow() -> unsafe extern "C" fn() {
    // SAFETY: as above.
    unsafe { transmute::<unsafe extern "C" fn(*mut ibv_flow) -> c_int, unsafe extern "C" fn()>(destroy_flow) }
}

/// Posts operations on the tag matching list of a queue: there is none.
///
/// # Safety
/// `bad_op` is valid.
pub unsafe extern "C" fn post_srq_ops(
    _srq: *mut ibv_srq,
    op: *mut ibv_ops_wr,
    bad_op: *mut *mut ibv_ops_wr,
) -> c_int {
    // SAFETY: as promised.
    unsafe { *bad_op = op };
    number("ibv_post_srq_ops", Err(Failure::unsupported("the card has no tag matching")))
}

/// Registers a provider: this library is one, and takes no others.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn ibv_register_driver(_name: *const c_char, _init: *mut c_void) {}

/// Where sysfs is.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// Reads a file of sysfs, and takes the line's end off: how many bytes there are, or -1.
///
/// # Safety
/// Both texts end, `buf` has `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn ibv_read_sysfs_file(
    dir: *const c_char,
    file: *const c_char,
    buf: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: as promised.
    let text = |text| unsafe { core::ffi::CStr::from_ptr(text) }.to_string_lossy();
    let path = std::path::Path::new(&*text(dir)).join(&*text(file));
    let read = std::fs::read(&path).map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::NOENT);
        Failure::text(errno, format!("{}: {error}", path.display()))
    });
    let result = read.map(|mut bytes| {
        bytes.truncate(size);
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        // SAFETY: as promised.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), buf, bytes.len());
            if bytes.len() < size {
                *buf.add(bytes.len()) = 0;
            }
        }
        bytes.len() as c_int
    });
    signed("ibv_read_sysfs_file", result)
}

const _: undeclared::ibv_register_driver = ibv_register_driver;
const _: undeclared::ibv_get_sysfs_path = ibv_get_sysfs_path;
const _: undeclared::ibv_read_sysfs_file = ibv_read_sysfs_file;
