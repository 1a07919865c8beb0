// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of `librdmacm.so.1`.
//!
//! That library is a table of jumps: `rdma_connect` there jumps to `ferrowire_rdma_connect` here. So both libraries have one state, in `libibverbs.so.1`.
//! The connection manager does not exist yet: all functions but the names of events answer `EOPNOTSUPP`.

use core::ffi::{c_char, c_int, c_long, c_void, CStr};

use crate::abi::*;
use crate::failure::{pointer, report, signed, Failure};
use crate::log::say;
use crate::sys::set_errno;

const NOT_YET: Failure = Failure::unsupported("the connection manager of this library does not exist yet");
const SOCKETS: Failure = Failure::unsupported("this library has no rsockets");

/// Declares functions that `librdmacm.so.1` jumps to.
macro_rules! jumps {
    ($( $how:ident $name:ident = $private:ident($($ty:ty),*) $(-> $result:ty)?, $why:ident; )+) => {$(
        /// Answers that there is no such function.
        ///
        /// # Safety
        /// None is needed.
        #[no_mangle]
        pub unsafe extern "C" fn $private($(_: $ty),*) $(-> $result)? {
            jumps! { @body $how $name $why }
        }
        const _: cma_functions::$name = $private;
    )+};
    (@body pointer $name:ident $why:ident) => { pointer(stringify!($name), Err($why)) };
    (@body signed $name:ident $why:ident) => { signed(stringify!($name), Err($why)).into() };
    (@body size $name:ident $why:ident) => { signed(stringify!($name), Err($why)) as _ };
    (@body nothing $name:ident $why:ident) => { { report(stringify!($name), &$why); } };
    (@body zero $name:ident $why:ident) => {{ report(stringify!($name), &$why); 0 }};
}

jumps! {
    pointer rdma_create_event_channel = ferrowire_rdma_create_event_channel() -> *mut rdma_event_channel, NOT_YET;
    nothing rdma_destroy_event_channel = ferrowire_rdma_destroy_event_channel(*mut rdma_event_channel), NOT_YET;
    signed rdma_create_id = ferrowire_rdma_create_id(*mut rdma_event_channel, *mut *mut rdma_cm_id, *mut c_void, rdma_port_space) -> c_int, NOT_YET;
    signed rdma_create_ep = ferrowire_rdma_create_ep(*mut *mut rdma_cm_id, *mut rdma_addrinfo, *mut ibv_pd, *mut ibv_qp_init_attr) -> c_int, NOT_YET;
    nothing rdma_destroy_ep = ferrowire_rdma_destroy_ep(*mut rdma_cm_id), NOT_YET;
    signed rdma_destroy_id = ferrowire_rdma_destroy_id(*mut rdma_cm_id) -> c_int, NOT_YET;
    signed rdma_bind_addr = ferrowire_rdma_bind_addr(*mut rdma_cm_id, *mut sockaddr) -> c_int, NOT_YET;
    signed rdma_resolve_addr = ferrowire_rdma_resolve_addr(*mut rdma_cm_id, *mut sockaddr, *mut sockaddr, c_int) -> c_int, NOT_YET;
    signed rdma_resolve_route = ferrowire_rdma_resolve_route(*mut rdma_cm_id, c_int) -> c_int, NOT_YET;
    signed rdma_create_qp = ferrowire_rdma_create_qp(*mut rdma_cm_id, *mut ibv_pd, *mut ibv_qp_init_attr) -> c_int, NOT_YET;
    signed rdma_create_qp_ex = ferrowire_rdma_create_qp_ex(*mut rdma_cm_id, *mut ibv_qp_init_attr_ex) -> c_int, NOT_YET;
    nothing rdma_destroy_qp = ferrowire_rdma_destroy_qp(*mut rdma_cm_id), NOT_YET;
    signed rdma_create_srq = ferrowire_rdma_create_srq(*mut rdma_cm_id, *mut ibv_pd, *mut ibv_srq_init_attr) -> c_int, NOT_YET;
    signed rdma_create_srq_ex = ferrowire_rdma_create_srq_ex(*mut rdma_cm_id, *mut ibv_srq_init_attr_ex) -> c_int, NOT_YET;
    nothing rdma_destroy_srq = ferrowire_rdma_destroy_srq(*mut rdma_cm_id), NOT_YET;
    signed rdma_connect = ferrowire_rdma_connect(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int, NOT_YET;
    signed rdma_establish = ferrowire_rdma_establish(*mut rdma_cm_id) -> c_int, NOT_YET;
    signed rdma_listen = ferrowire_rdma_listen(*mut rdma_cm_id, c_int) -> c_int, NOT_YET;
    signed rdma_get_request = ferrowire_rdma_get_request(*mut rdma_cm_id, *mut *mut rdma_cm_id) -> c_int, NOT_YET;
    signed rdma_accept = ferrowire_rdma_accept(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int, NOT_YET;
    signed rdma_reject = ferrowire_rdma_reject(*mut rdma_cm_id, *const c_void, u8) -> c_int, NOT_YET;
    signed rdma_reject_ece = ferrowire_rdma_reject_ece(*mut rdma_cm_id, *const c_void, u8) -> c_int, NOT_YET;
    signed rdma_notify = ferrowire_rdma_notify(*mut rdma_cm_id, ibv_event_type) -> c_int, NOT_YET;
    signed rdma_disconnect = ferrowire_rdma_disconnect(*mut rdma_cm_id) -> c_int, NOT_YET;
    signed rdma_join_multicast = ferrowire_rdma_join_multicast(*mut rdma_cm_id, *mut sockaddr, *mut c_void) -> c_int, NOT_YET;
    signed rdma_leave_multicast = ferrowire_rdma_leave_multicast(*mut rdma_cm_id, *mut sockaddr) -> c_int, NOT_YET;
    signed rdma_join_multicast_ex = ferrowire_rdma_join_multicast_ex(*mut rdma_cm_id, *mut rdma_cm_join_mc_attr_ex, *mut c_void) -> c_int, NOT_YET;
    signed rdma_get_cm_event = ferrowire_rdma_get_cm_event(*mut rdma_event_channel, *mut *mut rdma_cm_event) -> c_int, NOT_YET;
    signed rdma_ack_cm_event = ferrowire_rdma_ack_cm_event(*mut rdma_cm_event) -> c_int, NOT_YET;
    zero rdma_get_src_port = ferrowire_rdma_get_src_port(*mut rdma_cm_id) -> be16, NOT_YET;
    zero rdma_get_dst_port = ferrowire_rdma_get_dst_port(*mut rdma_cm_id) -> be16, NOT_YET;
    pointer rdma_get_devices = ferrowire_rdma_get_devices(*mut c_int) -> *mut *mut ibv_context, NOT_YET;
    nothing rdma_free_devices = ferrowire_rdma_free_devices(*mut *mut ibv_context), NOT_YET;
    signed rdma_set_option = ferrowire_rdma_set_option(*mut rdma_cm_id, c_int, c_int, *mut c_void, usize) -> c_int, NOT_YET;
    signed rdma_migrate_id = ferrowire_rdma_migrate_id(*mut rdma_cm_id, *mut rdma_event_channel) -> c_int, NOT_YET;
    signed rdma_getaddrinfo = ferrowire_rdma_getaddrinfo(*const c_char, *const c_char, *const rdma_addrinfo, *mut *mut rdma_addrinfo) -> c_int, NOT_YET;
    nothing rdma_freeaddrinfo = ferrowire_rdma_freeaddrinfo(*mut rdma_addrinfo), NOT_YET;
    signed rdma_init_qp_attr = ferrowire_rdma_init_qp_attr(*mut rdma_cm_id, *mut ibv_qp_attr, *mut c_int) -> c_int, NOT_YET;
    signed rdma_set_local_ece = ferrowire_rdma_set_local_ece(*mut rdma_cm_id, *mut ibv_ece) -> c_int, NOT_YET;
    signed rdma_get_remote_ece = ferrowire_rdma_get_remote_ece(*mut rdma_cm_id, *mut ibv_ece) -> c_int, NOT_YET;
    signed rdma_resolve_addrinfo = ferrowire_rdma_resolve_addrinfo(*mut rdma_cm_id, *const c_char, *const c_char, *const rdma_addrinfo) -> c_int, NOT_YET;
    signed rdma_query_addrinfo = ferrowire_rdma_query_addrinfo(*mut rdma_cm_id, *mut *mut rdma_addrinfo) -> c_int, NOT_YET;
    signed rdma_write_cm_event = ferrowire_rdma_write_cm_event(*mut rdma_cm_id, rdma_cm_event_type, c_int, u64) -> c_int, NOT_YET;

    signed rsocket = ferrowire_rsocket(c_int, c_int, c_int) -> c_int, SOCKETS;
    signed rbind = ferrowire_rbind(c_int, *const sockaddr, socklen_t) -> c_int, SOCKETS;
    signed rlisten = ferrowire_rlisten(c_int, c_int) -> c_int, SOCKETS;
    signed raccept = ferrowire_raccept(c_int, *mut sockaddr, *mut socklen_t) -> c_int, SOCKETS;
    signed rconnect = ferrowire_rconnect(c_int, *const sockaddr, socklen_t) -> c_int, SOCKETS;
    signed rshutdown = ferrowire_rshutdown(c_int, c_int) -> c_int, SOCKETS;
    signed rclose = ferrowire_rclose(c_int) -> c_int, SOCKETS;
    size rrecv = ferrowire_rrecv(c_int, *mut c_void, usize, c_int) -> ssize_t, SOCKETS;
    size rrecvfrom = ferrowire_rrecvfrom(c_int, *mut c_void, usize, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t, SOCKETS;
    size rrecvmsg = ferrowire_rrecvmsg(c_int, *mut msghdr, c_int) -> ssize_t, SOCKETS;
    size rsend = ferrowire_rsend(c_int, *const c_void, usize, c_int) -> ssize_t, SOCKETS;
    size rsendto = ferrowire_rsendto(c_int, *const c_void, usize, c_int, *const sockaddr, socklen_t) -> ssize_t, SOCKETS;
    size rsendmsg = ferrowire_rsendmsg(c_int, *const msghdr, c_int) -> ssize_t, SOCKETS;
    size rread = ferrowire_rread(c_int, *mut c_void, usize) -> ssize_t, SOCKETS;
    size rreadv = ferrowire_rreadv(c_int, *const iovec, c_int) -> ssize_t, SOCKETS;
    size rwrite = ferrowire_rwrite(c_int, *const c_void, usize) -> ssize_t, SOCKETS;
    size rwritev = ferrowire_rwritev(c_int, *const iovec, c_int) -> ssize_t, SOCKETS;
    signed rpoll = ferrowire_rpoll(*mut pollfd, nfds_t, c_int) -> c_int, SOCKETS;
    signed rselect = ferrowire_rselect(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *mut timeval) -> c_int, SOCKETS;
    signed rgetpeername = ferrowire_rgetpeername(c_int, *mut sockaddr, *mut socklen_t) -> c_int, SOCKETS;
    signed rgetsockname = ferrowire_rgetsockname(c_int, *mut sockaddr, *mut socklen_t) -> c_int, SOCKETS;
    signed rsetsockopt = ferrowire_rsetsockopt(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int, SOCKETS;
    signed rgetsockopt = ferrowire_rgetsockopt(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int, SOCKETS;
    signed rfcntl = ferrowire_rfcntl(c_int, c_int, c_long) -> c_int, SOCKETS;
    size riomap = ferrowire_riomap(c_int, *mut c_void, usize, c_int, c_int, off_t) -> off_t, SOCKETS;
    signed riounmap = ferrowire_riounmap(c_int, *mut c_void, usize) -> c_int, SOCKETS;
    zero riowrite = ferrowire_riowrite(c_int, *const c_void, usize, off_t, c_int) -> usize, SOCKETS;
    signed repoll_create = ferrowire_repoll_create(c_int) -> c_int, SOCKETS;
    signed repoll_ctl = ferrowire_repoll_ctl(c_int, c_int, c_int, *mut epoll_event) -> c_int, SOCKETS;
    signed repoll_wait = ferrowire_repoll_wait(c_int, *mut epoll_event, c_int, c_int) -> c_int, SOCKETS;
}

/// The name of an event.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_event_str(event: rdma_cm_event_type) -> *const c_char {
    const NAMES: [&CStr; 20] = [
        c"RDMA_CM_EVENT_ADDR_RESOLVED",
        c"RDMA_CM_EVENT_ADDR_ERROR",
        c"RDMA_CM_EVENT_ROUTE_RESOLVED",
        c"RDMA_CM_EVENT_ROUTE_ERROR",
        c"RDMA_CM_EVENT_CONNECT_REQUEST",
        c"RDMA_CM_EVENT_CONNECT_RESPONSE",
        c"RDMA_CM_EVENT_CONNECT_ERROR",
        c"RDMA_CM_EVENT_UNREACHABLE",
        c"RDMA_CM_EVENT_REJECTED",
        c"RDMA_CM_EVENT_ESTABLISHED",
        c"RDMA_CM_EVENT_DISCONNECTED",
        c"RDMA_CM_EVENT_DEVICE_REMOVAL",
        c"RDMA_CM_EVENT_MULTICAST_JOIN",
        c"RDMA_CM_EVENT_MULTICAST_ERROR",
        c"RDMA_CM_EVENT_ADDR_CHANGE",
        c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
        c"RDMA_CM_EVENT_ADDRINFO_RESOLVED",
        c"RDMA_CM_EVENT_ADDRINFO_ERROR",
        c"RDMA_CM_EVENT_USER",
        c"RDMA_CM_EVENT_INTERNAL",
    ];
    NAMES.get(event as usize).copied().unwrap_or(c"UNKNOWN EVENT").as_ptr()
}

const _: cma_functions::rdma_event_str = ferrowire_rdma_event_str;

/// Called by the stubs of vendors' libraries: says that there is no such function.
///
/// # Safety
/// The name ends.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_stub(name: *const c_char) {
    // SAFETY: as promised.
    say!("{}: a function of another vendor's devices", unsafe { CStr::from_ptr(name) }.to_string_lossy());
    set_errno(rustix::io::Errno::OPNOTSUPP);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_names_of_their_constants() {
        for (event, name) in [
            (RDMA_CM_EVENT_ADDR_RESOLVED, "RDMA_CM_EVENT_ADDR_RESOLVED"),
            (RDMA_CM_EVENT_ESTABLISHED, "RDMA_CM_EVENT_ESTABLISHED"),
            (RDMA_CM_EVENT_TIMEWAIT_EXIT, "RDMA_CM_EVENT_TIMEWAIT_EXIT"),
            (RDMA_CM_EVENT_INTERNAL, "RDMA_CM_EVENT_INTERNAL"),
        ] {
            // SAFETY: the function gives a text that ends.
            assert_eq!(unsafe { CStr::from_ptr(ferrowire_rdma_event_str(event)) }.to_str(), Ok(name));
        }
    }
}
