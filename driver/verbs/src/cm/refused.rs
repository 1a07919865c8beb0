// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of `librdmacm.so.1` that answer `EOPNOTSUPP`, with the reason in the log; and what the stubs of vendors' libraries call.

use core::ffi::{c_char, c_int, c_long, c_void, CStr};

use crate::abi::*;
use crate::failure::{report, signed, Failure};
use crate::log::say;
use crate::sys::set_errno;

const GROUPS: Failure = Failure::unsupported("the card has no multicast groups");
const ADMINISTRATOR: Failure =
    Failure::unsupported("Ethernet has no subnet administrator; call rdma_getaddrinfo and rdma_resolve_addr");
const USER: Failure = Failure::unsupported("this library has no events of the program's own");
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
    (@body signed $name:ident $why:ident) => { signed(stringify!($name), Err($why)).into() };
    (@body size $name:ident $why:ident) => { signed(stringify!($name), Err($why)) as _ };
    (@body zero $name:ident $why:ident) => {{ report(stringify!($name), &$why); 0 }};
}

jumps! {
    signed rdma_join_multicast = ferrowire_rdma_join_multicast(*mut rdma_cm_id, *mut sockaddr, *mut c_void) -> c_int, GROUPS;
    signed rdma_leave_multicast = ferrowire_rdma_leave_multicast(*mut rdma_cm_id, *mut sockaddr) -> c_int, GROUPS;
    signed rdma_join_multicast_ex = ferrowire_rdma_join_multicast_ex(*mut rdma_cm_id, *mut rdma_cm_join_mc_attr_ex, *mut c_void) -> c_int, GROUPS;
    signed rdma_resolve_addrinfo = ferrowire_rdma_resolve_addrinfo(*mut rdma_cm_id, *const c_char, *const c_char, *const rdma_addrinfo) -> c_int, ADMINISTRATOR;
    signed rdma_query_addrinfo = ferrowire_rdma_query_addrinfo(*mut rdma_cm_id, *mut *mut rdma_addrinfo) -> c_int, ADMINISTRATOR;
    signed rdma_write_cm_event = ferrowire_rdma_write_cm_event(*mut rdma_cm_id, rdma_cm_event_type, c_int, u64) -> c_int, USER;

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
