// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one call of the system that has no safe form elsewhere.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::ioctl::{ioctl, opcode, Updater};

/// `struct ifreq` of the system's `linux/if.h`, as far as a TAP interface needs it.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// The interface carries Ethernet, and frames stand alone: `IFF_TAP` and `IFF_NO_PI`.
const TAP_ALONE: u16 = 0x0002 | 0x1000;

/// `TUNSETIFF`, which is declared with an `int` though it takes an interface request.
const SET_INTERFACE: rustix::ioctl::Opcode = opcode::write::<i32>(b'T', 202);

/// Makes an open `/dev/net/tun` the TAP interface of that name.
pub(crate) fn attach_tap(file: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    let mut request = Request { name: [0; 16], flags: TAP_ALONE, rest: [0; 22] };
    // The last byte stays 0.
    for (to, from) in request.name[..15].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    // SAFETY: the system's `TUNSETIFF` reads and writes an interface request of 40 bytes, which this is; other files than a TUN device refuse
    // the code without a look at it.
    unsafe { ioctl(file, Updater::<SET_INTERFACE, Request>::new(&mut request)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_as_long_as_the_system_s() {
        assert_eq!((std::mem::size_of::<Request>(), SET_INTERFACE), (40, 0x4004_54ca));
    }
}
