// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is needed of the C library.

use core::ffi::{c_char, c_int, c_void};

use rustix::io::Errno;

use crate::abi::{sockaddr, socklen_t};

/// Words of glibc's `sigset_t`.
const SIGNAL_WORDS: usize = 16;
/// `how` of `pthread_sigmask`: the set replaces the mask.
const SIG_SETMASK: c_int = 2;

#[allow(missing_docs, non_camel_case_types, reason = "the names are those of C")]
/// `struct addrinfo` of `getaddrinfo(3)`, in the order of Linux.
#[repr(C)]
pub struct addrinfo {
    pub ai_flags: c_int,
    pub ai_family: c_int,
    pub ai_socktype: c_int,
    pub ai_protocol: c_int,
    pub ai_addrlen: socklen_t,
    pub ai_addr: *mut sockaddr,
    pub ai_canonname: *mut c_char,
    pub ai_next: *mut addrinfo,
}

impl addrinfo {
    /// Without any wish.
    pub const EMPTY: Self = Self {
        ai_flags: 0,
        ai_family: 0,
        ai_socktype: 0,
        ai_protocol: 0,
        ai_addrlen: 0,
        ai_addr: core::ptr::null_mut(),
        ai_canonname: core::ptr::null_mut(),
        ai_next: core::ptr::null_mut(),
    };
}

mod c {
    use core::ffi::{c_int, c_void};

    unsafe extern "C" {
        pub fn calloc(count: usize, size: usize) -> *mut c_void;
        pub fn free(memory: *mut c_void);
        pub fn atexit(function: extern "C" fn()) -> c_int;
    }
}

unsafe extern "C" {
    pub fn getaddrinfo(
        node: *const c_char,
        service: *const c_char,
        hints: *const addrinfo,
        res: *mut *mut addrinfo,
    ) -> c_int;
    pub fn freeaddrinfo(res: *mut addrinfo);
    fn __errno_location() -> *mut c_int;
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const [u64; SIGNAL_WORDS], old: *mut [u64; SIGNAL_WORDS]) -> c_int;
}

/// Sets the thread's `errno`.
pub fn set_errno(errno: Errno) {
    // SAFETY: the C library gives the address of this thread's `errno`, which holds as long as the thread.
    unsafe { *__errno_location() = errno.raw_os_error() };
}

/// Memory of the C library, full of zeros; null: there is none.
pub fn calloc(bytes: usize) -> *mut c_void {
    // SAFETY: the function takes any size.
    unsafe { c::calloc(1, bytes.max(1)) }
}

/// Gives such memory back.
///
/// # Safety
/// It is null, or memory of the C library that was not given back.
pub unsafe fn free(memory: *mut c_void) {
    // SAFETY: as promised.
    unsafe { c::free(memory) };
}

/// Has `end` called when the process ends by `exit`, or by the end of its main function.
pub fn at_exit(end: extern "C" fn()) {
    // SAFETY: the function lives as long as the library, which is not unloaded. If the system has no room, nothing is called.
    unsafe { c::atexit(end) };
}

/// Has `child` called in each process that this one forks. It may call only what is safe after a fork of a process with threads.
pub fn at_fork(child: unsafe extern "C" fn()) {
    // SAFETY: the function lives as long as the library, which its exported functions keep loaded.
    unsafe { pthread_atfork(None, None, Some(child)) };
}

/// Calls `f` with all signals blocked: a thread that it starts keeps them so, and leaves the program's signals to the program's threads.
pub fn without_signals<T>(f: impl FnOnce() -> T) -> T {
    let mut old = [0; SIGNAL_WORDS];
    let all = [u64::MAX; SIGNAL_WORDS];
    // SAFETY: both sets have the size of `sigset_t`.
    unsafe { pthread_sigmask(SIG_SETMASK, &all, &mut old) };
    let result = f();
    // SAFETY: as above.
    unsafe { pthread_sigmask(SIG_SETMASK, &old, core::ptr::null_mut()) };
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_is_what_was_set() {
        set_errno(Errno::NODEV);
        assert_eq!(Errno::from_io_error(&std::io::Error::last_os_error()), Some(Errno::NODEV));
    }

    #[test]
    fn threads_that_start_without_signals_keep_them_blocked() {
        let mask = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        let before = mask();
        let inside = without_signals(|| std::thread::spawn(mask).join().unwrap());
        // SIGINT and SIGTERM, bits 1 and 14.
        assert_eq!(inside & 0x4002, 0x4002);
        assert_eq!(mask(), before);
    }
}
