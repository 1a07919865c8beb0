// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Failure`]: the error number that a call returns, and the reason for the log.

use core::ffi::c_int;
use std::fmt;

use ferrowire::{BusError, CommandStatus};
use rustix::io::Errno;

use crate::log::say;
use crate::sys::set_errno;

/// Why a call fails.
#[derive(Debug)]
pub struct Failure {
    /// The error number.
    pub errno: Errno,
    why: Why,
}

/// The reason. It becomes text only if the log is on.
#[derive(Debug)]
enum Why {
    Static(&'static str),
    Text(String),
    Driver(ferrowire::Error),
    Net(ferrowire_net::Error),
}

/// A result of this crate.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Static(text) => f.write_str(text),
            Why::Text(text) => f.write_str(text),
            Why::Driver(error) => error.fmt(f),
            Why::Net(error) => error.fmt(f),
        }
    }
}

impl Failure {
    /// With a reason that is known beforehand.
    pub const fn new(errno: Errno, why: &'static str) -> Self {
        Self { errno, why: Why::Static(why) }
    }

    /// With a reason that names values.
    pub fn text(errno: Errno, why: String) -> Self {
        Self { errno, why: Why::Text(why) }
    }

    /// An argument makes no sense.
    pub const fn invalid(why: &'static str) -> Self {
        Self::new(Errno::INVAL, why)
    }

    /// The card or this library lacks a function.
    pub const fn unsupported(why: &'static str) -> Self {
        Self::new(Errno::OPNOTSUPP, why)
    }
}

impl From<ferrowire::Error> for Failure {
    fn from(error: ferrowire::Error) -> Self {
        Self { errno: errno(&error), why: Why::Driver(error) }
    }
}

impl From<ferrowire_net::Error> for Failure {
    fn from(error: ferrowire_net::Error) -> Self {
        let errno = match &error {
            ferrowire_net::Error::Verb(error) => self::errno(error),
            ferrowire_net::Error::Unresolved { .. } => Errno::HOSTUNREACH,
            ferrowire_net::Error::NoRoute { .. } => Errno::NETUNREACH,
            ferrowire_net::Error::NoAddress { .. } => Errno::ADDRNOTAVAIL,
            ferrowire_net::Error::Timeout { .. } => Errno::TIMEDOUT,
            _ => Errno::IO,
        };
        Self { errno, why: Why::Net(error) }
    }
}

/// The error number of a driver's error.
fn errno(error: &ferrowire::Error) -> Errno {
    use ferrowire::Error as E;
    match error {
        E::Bus(BusError::NoMemory { .. } | BusError::BoardMemory { .. } | BusError::LockedMemory { .. }) => {
            Errno::NOMEM
        }
        E::Bus(BusError::Map { .. }) => Errno::FAULT,
        // As manual pages have it: the system or the card's server has no memory, files or mappings left, or does not allow it.
        E::Bus(BusError::Os { errno: Some(errno), .. }) => match Errno::from_raw_os_error(*errno) {
            Errno::NOMEM | Errno::NOSPC | Errno::MFILE | Errno::NFILE => Errno::NOMEM,
            errno @ (Errno::PERM | Errno::ACCESS) => errno,
            _ => Errno::IO,
        },
        E::Bus(BusError::Observed { .. }) => Errno::BUSY,
        E::Bus(_) | E::WriteFault { .. } | E::CommandQueueFailed { .. } | E::CommandToken { .. } => Errno::IO,
        E::NotFerrowire { .. } => Errno::NODEV,
        E::UnknownVersion { .. } | E::UnknownLayout { .. } => Errno::PROTO,
        E::Timeout { .. } => Errno::TIMEDOUT,
        E::Command { status, .. } => match status.known() {
            Some(CommandStatus::Busy) => Errno::BUSY,
            Some(CommandStatus::NoResource) => Errno::NOMEM,
            _ => Errno::INVAL,
        },
        E::NoResource { .. } => Errno::NOMEM,
        E::SendQueueFull { .. } | E::RecvQueueFull { .. } | E::SharedQueueFull { .. } => Errno::NOMEM,
        E::Busy { .. } | E::CommandQueueBusy { .. } => Errno::BUSY,
        E::Attribute { .. } | E::Transition { .. } | E::Foreign { .. } => Errno::INVAL,
        _ => Errno::IO,
    }
}

/// Logs a failure of a call and sets `errno`.
pub fn report(call: &str, failure: &Failure) -> Errno {
    say!("{call}: {}: {failure}", name(failure.errno));
    set_errno(failure.errno);
    failure.errno
}

/// The result of a call that returns 0 or an error number.
pub fn number(call: &str, result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(failure) => report(call, &failure).raw_os_error(),
    }
}

/// The result of a call that returns a number, or -1 with `errno`.
pub fn signed(call: &str, result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|failure| {
        report(call, &failure);
        -1
    })
}

/// The result of a call that returns a pointer, or null with `errno`.
pub fn pointer<T>(call: &str, result: Result<*mut T>) -> *mut T {
    result.unwrap_or_else(|failure| {
        report(call, &failure);
        core::ptr::null_mut()
    })
}

/// The name of an error number, for the log.
fn name(errno: Errno) -> String {
    let known = [
        (Errno::PERM, "EPERM"),
        (Errno::NOENT, "ENOENT"),
        (Errno::IO, "EIO"),
        (Errno::AGAIN, "EAGAIN"),
        (Errno::ACCESS, "EACCES"),
        (Errno::NAMETOOLONG, "ENAMETOOLONG"),
        (Errno::NOMEM, "ENOMEM"),
        (Errno::FAULT, "EFAULT"),
        (Errno::BUSY, "EBUSY"),
        (Errno::NODEV, "ENODEV"),
        (Errno::INVAL, "EINVAL"),
        (Errno::NOSPC, "ENOSPC"),
        (Errno::NODATA, "ENODATA"),
        (Errno::PROTO, "EPROTO"),
        (Errno::OPNOTSUPP, "EOPNOTSUPP"),
        (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
        (Errno::NETUNREACH, "ENETUNREACH"),
        (Errno::TIMEDOUT, "ETIMEDOUT"),
        (Errno::HOSTUNREACH, "EHOSTUNREACH"),
        (Errno::ADDRINUSE, "EADDRINUSE"),
        (Errno::CONNREFUSED, "ECONNREFUSED"),
        (Errno::CONNRESET, "ECONNRESET"),
        (Errno::ISCONN, "EISCONN"),
        (Errno::NOSYS, "ENOSYS"),
    ];
    let found = known.iter().find(|(known, _)| *known == errno);
    found.map_or_else(|| errno.to_string(), |(_, name)| (*name).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_become_what_c_programs_expect() {
        assert_eq!(number("test", Ok(())), 0);
        assert_eq!(number("test", Err(Failure::invalid("bad"))), Errno::INVAL.raw_os_error());
        assert_eq!(signed("test", Ok(3)), 3);
        assert_eq!(signed("test", Err(Failure::unsupported("none"))), -1);
        assert_eq!(Errno::from_io_error(&std::io::Error::last_os_error()), Some(Errno::OPNOTSUPP));
        assert!(pointer::<u8>("test", Err(Failure::new(Errno::BUSY, "in use"))).is_null());
    }

    #[test]
    fn refusals_of_the_system_and_of_the_server_have_the_numbers_of_the_manual_pages() {
        let of = |errno| {
            let os = BusError::Os { operation: "test", message: String::new(), errno };
            Failure::from(ferrowire::Error::from(os)).errno
        };
        for errno in [Errno::NOMEM, Errno::NOSPC, Errno::MFILE, Errno::NFILE] {
            assert_eq!(of(Some(errno.raw_os_error())), Errno::NOMEM, "{errno}");
        }
        assert_eq!(of(Some(Errno::ACCESS.raw_os_error())), Errno::ACCESS);
        assert_eq!((of(Some(Errno::INVAL.raw_os_error())), of(None)), (Errno::IO, Errno::IO));
    }

    #[test]
    fn a_full_queue_and_a_full_table_are_out_of_memory() {
        let full = ferrowire::Error::SendQueueFull { qpn: 2, size: 4 };
        assert_eq!(Failure::from(full).errno, Errno::NOMEM);
        let none = ferrowire::Error::NoResource { operation: "test", what: "keys", limit: 4 };
        assert_eq!(Failure::from(none).errno, Errno::NOMEM);
    }
}
