// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types of the C library and the kernel that the headers of verbs use.

use core::ffi::c_char;

use super::layout::*;

/// A 16-bit number in network byte order.
pub type be16 = u16;
/// A 32-bit number in network byte order.
pub type be32 = u32;
/// A 64-bit number in network byte order.
pub type be64 = u64;
/// A 64-bit number that C aligns to 8 bytes on every processor.
pub type aligned_u64 = u64;
/// Length of a socket address.
pub type socklen_t = u32;
/// Offset in a file.
pub type off_t = i64;
/// A size, or a negative number for an error.
pub type ssize_t = isize;
/// Number of entries of a `pollfd` array.
pub type nfds_t = core::ffi::c_ulong;

/// 64-bit words of `pthread_mutex_t` in glibc.
#[cfg(target_arch = "aarch64")]
const MUTEX_WORDS: usize = 6;
/// 64-bit words of `pthread_mutex_t` in glibc.
#[cfg(not(target_arch = "aarch64"))]
const MUTEX_WORDS: usize = 5;

layout! {
    /// Mutex of the C library.
    struct pthread_mutex_t as "pthread_mutex_t" {
        [hidden] words: [u64; MUTEX_WORDS],
    }

    /// Condition variable of the C library.
    struct pthread_cond_t as "pthread_cond_t" {
        [hidden] words: [u64; 6],
    }

    /// Time in seconds and nanoseconds.
    struct timespec {
        tv_sec: i64,
        tv_nsec: i64,
    }

    /// Socket address of any family.
    struct sockaddr {
        sa_family: u16,
        sa_data: [c_char; 14],
    }

    /// IPv4 address.
    struct in_addr {
        s_addr: be32,
    }

    /// IPv4 socket address.
    struct sockaddr_in {
        sin_family: u16,
        sin_port: be16,
        sin_addr: in_addr,
        sin_zero: [u8; 8],
    }

    /// IPv6 address.
    struct in6_addr {
        [hidden] words: [be32; 4],
    }

    /// IPv6 socket address.
    struct sockaddr_in6 {
        sin6_family: u16,
        sin6_port: be16,
        sin6_flowinfo: be32,
        sin6_addr: in6_addr,
        sin6_scope_id: u32,
    }

    /// Room for a socket address of any family.
    struct sockaddr_storage {
        ss_family: u16,
        [hidden] padding: [u8; 6],
        [hidden] words: [u64; 15],
    }
}

opaque! {
    /// Descriptor and events of `poll`.
    struct pollfd;
    /// Set of descriptors of `select`.
    struct fd_set as "fd_set";
    /// Time in seconds and microseconds.
    struct timeval;
    /// Message of `sendmsg` and `recvmsg`.
    struct msghdr;
    /// Buffer of a vectored read or write.
    struct iovec;
    /// Event of `epoll`; a packed structure on x86-64.
    struct epoll_event;
}
