// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Interface`]: a TAP interface on the port of this process's card.
//!
//! ```text
//!  ping, sockets --- kernel --- TAP interface --- /dev/net/tun --- Bridge --- raw Ethernet queue pair --- wire
//!                      |                                             |
//!                      +-- addresses: getifaddrs, netlink            +-- IP stack of ferrowire-net
//! ```
//!
//! `FERROWIRE_TAP` names it; `ferrowire run --tap` sets that. It is attached when the card is opened, and detached when the process ends, after which one
//! that this process has made is gone. It has the card's MAC address, and its addresses become the card's, also those that it gets later, of which the
//! kernel tells over netlink. The file is non-blocking, and the service thread waits for it.

use std::ffi::CStr;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use ferrowire_net::Tap;
use rustix::fs::{open, Mode, OFlags};
use rustix::io::{read, write, Errno};
use rustix::ioctl::{ioctl, Opcode, Updater};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{bind, socket_with, AddressFamily, SocketFlags, SocketType};

use crate::card::text;
use crate::failure::{Failure, Result};
use crate::fork::{self, Files};
use crate::log::say;

/// The environment variable that names the interface.
pub const VARIABLE: &str = "FERROWIRE_TAP";

/// The file of all TUN and TAP interfaces.
const DEVICE: &str = "/dev/net/tun";

/// Ethernet frames, without a header of their own.
const MODE: libc::c_int = libc::IFF_TAP | libc::IFF_NO_PI;

const SET_INTERFACE: Opcode = libc::TUNSETIFF as Opcode;
const GET_MAC: Opcode = libc::SIOCGIFHWADDR as Opcode;
const SET_MAC: Opcode = libc::SIOCSIFHWADDR as Opcode;
const GET_FLAGS: Opcode = libc::SIOCGIFFLAGS as Opcode;
const SET_FLAGS: Opcode = libc::SIOCSIFFLAGS as Opcode;

/// Of the interface's addresses those that become GIDs. A link-local one is not: a peer takes the MAC address of it, and the card has such a GID already.
pub fn gids(kernel: &[IpAddr]) -> impl Iterator<Item = IpAddr> + '_ {
    let link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    kernel.iter().copied().filter(move |ip| !link_local(ip))
}

/// A TAP interface that this process has.
pub struct Interface {
    /// Its name.
    pub name: String,
    /// A forked child does not keep it. First, for a file is not to be closed while it is noted.
    files: Mutex<Files>,
    file: Arc<OwnedFd>,
    /// A netlink socket that says when addresses have changed.
    watch: OwnedFd,
}

impl Interface {
    /// Attaches to the interface that the user has asked for, or makes it.
    ///
    /// # Errors
    /// The name is none of an interface; there is no `/dev/net/tun`; the user may not; another process has it.
    pub fn wanted() -> Result<Option<Self>> {
        let named = std::env::var_os(VARIABLE).filter(|named| !named.is_empty());
        named.map(|named| Self::open(&named.to_string_lossy())).transpose()
    }

    fn open(name: &str) -> Result<Self> {
        let mut request = request(name)?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = open(DEVICE, flags, Mode::empty()).map_err(|errno| not_opened(name, errno))?;
        request.ifr_ifru.ifru_flags = MODE as libc::c_short;
        change::<SET_INTERFACE>(file.as_fd(), &mut request).map_err(|errno| not_attached(name, errno))?;
        // A name with `%d` has got its number.
        let name = name_of(&request);
        let watch = watch().map_err(|errno| {
            Failure::text(errno, format!("{name}: no netlink socket, which tells of its addresses: {errno}"))
        })?;
        let files = Mutex::new(Files::note(&[file.as_raw_fd(), watch.as_raw_fd()]));
        Ok(Self { name, files, file: Arc::new(file), watch })
    }

    /// Gives it the MAC address of the card, and sets it up. What this user may not do is in the log. Its addresses.
    ///
    /// # Errors
    /// Those of [`addresses`](Self::addresses).
    pub fn start(&self, mac: [u8; 6]) -> Result<Vec<IpAddr>> {
        self.set_mac(mac);
        self.set_up();
        let name = &self.name;
        let kernel = self.addresses()?;
        match gids(&kernel).map(|ip| ip.to_string()).collect::<Vec<_>>() {
            none if none.is_empty() => {
                say!("{name}: the TAP interface has no address yet: `ip address add ADDRESS/24 dev {name}`")
            }
            some => say!("{name}: the TAP interface has {}", some.join(", ")),
        }
        Ok(kernel)
    }

    /// Gives it the card's MAC address, which its owner may.
    fn set_mac(&self, mac: [u8; 6]) {
        let Ok(mut request) = request(&self.name) else { return };
        if change::<GET_MAC>(self.file.as_fd(), &mut request).is_ok() {
            // SAFETY: the call has filled it.
            let data = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
            if data[..6].iter().map(|byte| *byte as u8).eq(mac) {
                return;
            }
        }
        // SAFETY: all its bytes are numbers.
        let mut address: libc::sockaddr = unsafe { mem::zeroed() };
        address.sa_family = libc::ARPHRD_ETHER;
        address.sa_data.iter_mut().zip(mac).for_each(|(to, byte)| *to = byte as libc::c_char);
        request.ifr_ifru.ifru_hwaddr = address;
        if let Err(errno) = change::<SET_MAC>(self.file.as_fd(), &mut request) {
            let (name, mac) = (&self.name, text(mac));
            say!("{name}: the kernel gets no frames without the card's MAC address: {errno}; `ip link set dev {name} address {mac}`");
        }
    }

    /// Sets it up, which takes rights.
    fn set_up(&self) {
        let up = || -> Result<(), Errno> {
            let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
            let mut request = request(&self.name).map_err(|failure| failure.errno)?;
            change::<GET_FLAGS>(socket.as_fd(), &mut request)?;
            let is_up = libc::IFF_UP as libc::c_short;
            // SAFETY: the call has filled it.
            let flags = unsafe { request.ifr_ifru.ifru_flags };
            if flags & is_up != 0 {
                return Ok(());
            }
            request.ifr_ifru.ifru_flags = flags | is_up;
            change::<SET_FLAGS>(socket.as_fd(), &mut request)
        };
        if let Err(errno) = up() {
            say!(
                "{0}: it is down, and this user may not set it up: {errno}; `ip link set dev {0} up`",
                self.name
            );
        }
    }

    /// The kernel's end, for the bridge.
    pub fn tap(&self) -> impl Tap {
        Port(Arc::clone(&self.file))
    }

    /// The file that can be read when frames wait.
    pub fn frames(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The file that can be read when addresses have changed.
    pub fn watch(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    /// Gives the interface up, for the card is gone: this process may attach to it again.
    pub fn release(&self) {
        fork::release(self.file.as_fd());
        fork::release(self.watch.as_fd());
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = Files::default();
    }

    /// Whether addresses may have changed since the last call.
    pub fn has_changed(&self) -> bool {
        let mut changed = false;
        loop {
            match read(&self.watch, &mut [0; 4096]) {
                Ok(bytes) if bytes > 0 => changed = true,
                // Some were lost.
                Err(Errno::NOBUFS) => changed = true,
                Err(Errno::INTR) => {}
                _ => return changed,
            }
        }
    }

    /// Its addresses, as the kernel has them now.
    ///
    /// # Errors
    /// The system does not say: it has no memory or no file left.
    pub fn addresses(&self) -> Result<Vec<IpAddr>> {
        let mut first: *mut libc::ifaddrs = ptr::null_mut();
        // SAFETY: the place is valid; the list is freed below.
        if unsafe { libc::getifaddrs(&mut first) } != 0 {
            let error = io::Error::last_os_error();
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            return Err(Failure::text(
                errno,
                format!("{}: ask for its addresses (getifaddrs): {error}", self.name),
            ));
        }
        let mut found = Vec::new();
        let mut next = first;
        // SAFETY: each entry is valid until the list is freed; a null pointer ends it. The name ends with a zero.
        while let Some(entry) = unsafe { next.as_ref() } {
            next = entry.ifa_next;
            // SAFETY: as above.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            if name.to_bytes() == self.name.as_bytes() {
                // SAFETY: it is null, or an address as its family says.
                found.extend(unsafe { address(entry.ifa_addr) });
            }
        }
        // SAFETY: it came from `getifaddrs`, and nothing of it is used any more.
        unsafe { libc::freeifaddrs(first) };
        Ok(found)
    }
}

/// An IP address of the C library.
///
/// # Safety
/// It is null, or valid as its family says.
unsafe fn address(from: *const libc::sockaddr) -> Option<IpAddr> {
    if from.is_null() {
        return None;
    }
    // SAFETY: as promised; the list has them at any place.
    match i32::from(unsafe { ptr::addr_of!((*from).sa_family).read_unaligned() }) {
        libc::AF_INET => {
            // SAFETY: as promised.
            let v4 = unsafe { from.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as promised.
            let v6 = unsafe { from.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// The file of the interface, as the bridge uses it.
struct Port(Arc<OwnedFd>);

impl Tap for Port {
    fn receive(&mut self, frame: &mut [u8]) -> io::Result<Option<usize>> {
        match read(&*self.0, frame) {
            Ok(0) | Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Ok(bytes) => Ok(Some(bytes)),
            Err(errno) => Err(errno.into()),
        }
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        match write(&*self.0, frame) {
            Ok(_) => Ok(true),
            // The interface was removed.
            Err(errno @ Errno::BADFD) => Err(errno.into()),
            // It is down (`EIO`), or there is no memory.
            Err(_) => Ok(false),
        }
    }
}

/// A request for the interface of a name.
fn request(name: &str) -> Result<libc::ifreq> {
    let refuse = |errno, why: &str| Err(Failure::text(errno, format!("{VARIABLE}: `{name}` {why}")));
    if name.len() >= libc::IFNAMSIZ {
        return refuse(Errno::NAMETOOLONG, "has more than 15 bytes; give a shorter name");
    }
    let bad = |byte: u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || b"/:".contains(&byte);
    if matches!(name, "" | "." | "..") || name.bytes().any(bad) {
        return refuse(Errno::INVAL, "is no name of an interface; give one as fw0");
    }
    // SAFETY: all its bytes are numbers.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
    Ok(request)
}

/// The name in a request.
fn name_of(request: &libc::ifreq) -> String {
    let bytes = request.ifr_name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

/// One of the calls whose argument is such a request.
fn change<const CALL: Opcode>(file: BorrowedFd<'_>, request: &mut libc::ifreq) -> Result<(), Errno> {
    // SAFETY: each of these calls reads and writes a `struct ifreq` (netdevice(7)), and nothing else of this process.
    unsafe { ioctl(file, Updater::<CALL, libc::ifreq>::new(request)) }
}

/// A socket that can be read when addresses of this machine have changed.
fn watch() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Protocol 0 is `NETLINK_ROUTE`.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    let groups = libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
    bind(&socket, &SocketAddrNetlink::new(0, groups as u32))?;
    Ok(socket)
}

/// Why [`DEVICE`] cannot be opened.
fn not_opened(name: &str, errno: Errno) -> Failure {
    let (errno, fix) = match errno {
        Errno::NOENT | Errno::NXIO | Errno::NODEV => {
            (Errno::NODEV, "`modprobe tun`, or give the container this device".into())
        }
        Errno::ACCESS | Errno::PERM => {
            (errno, format!("let this user read and write {DEVICE}, as `chmod 666` does"))
        }
        other => (other, "see what the number says".into()),
    };
    Failure::text(errno, format!("TAP interface {name}: {DEVICE} cannot be opened; {fix}"))
}

/// Why the interface is not this process's.
fn not_attached(name: &str, errno: Errno) -> Failure {
    let user = rustix::process::geteuid().as_raw();
    let why = match errno {
        Errno::PERM => format!(
            "this user may not make or take it; as root: `ip tuntap add {name} mode tap user {user}`"
        ),
        Errno::BUSY => "another process has it; end that one, or name another interface".into(),
        Errno::INVAL => format!(
            "there is one of another kind; remove it, and `ip tuntap add {name} mode tap user {user}`, or name another"
        ),
        other => format!("it cannot be attached to: {other}"),
    };
    Failure::text(errno, format!("TAP interface {name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_none_of_an_interface_are_refused() {
        let errno = |name: &str| request(name).map(|_| ()).map_err(|failure| failure.errno);
        assert_eq!(errno("a-name-of-16-byt"), Err(Errno::NAMETOOLONG));
        for bad in ["", ".", "..", "fw/0", "fw 0", "fw:0", "fw\n"] {
            assert_eq!(errno(bad), Err(Errno::INVAL), "{bad:?}");
        }
        for good in ["fw0", "a-name-of-15-by", "fw%d"] {
            assert_eq!(name_of(&request(good).unwrap_or_else(|why| panic!("{why}"))), good);
        }
    }

    #[test]
    fn the_error_and_its_remedy_say_which_interface_it_is() {
        for (errno, word) in [
            (Errno::PERM, "ip tuntap add fw7 mode tap user "),
            (Errno::BUSY, "another process has it"),
            (Errno::INVAL, "of another kind"),
            (Errno::NOMEM, "cannot be attached"),
        ] {
            let failure = not_attached("fw7", errno);
            assert!(failure.errno == errno && failure.to_string().contains(word), "{failure}");
            assert!(failure.to_string().contains("TAP interface fw7"), "{failure}");
        }
        assert_eq!(not_opened("fw7", Errno::NOENT).errno, Errno::NODEV);
        assert_eq!(not_opened("fw7", Errno::ACCESS).errno, Errno::ACCESS);
    }

    #[test]
    fn link_local_addresses_are_no_gids() {
        let kernel: Vec<IpAddr> =
            ["10.9.0.2", "fe80::1", "fd00::2", "169.254.0.1"].map(|ip| ip.parse().unwrap()).into();
        assert_eq!(gids(&kernel).collect::<Vec<_>>(), [kernel[0], kernel[2], kernel[3]]);
    }

    #[test]
    fn addresses_of_the_c_library_are_read() {
        // SAFETY: null is allowed.
        assert_eq!(unsafe { address(ptr::null()) }, None);
        let (ip, ip6): (Ipv4Addr, Ipv6Addr) = ([10, 9, 0, 2].into(), "fd00::2".parse().unwrap());
        // SAFETY: all their bytes are numbers.
        let (mut v4, mut v6): (libc::sockaddr_in, libc::sockaddr_in6) = unsafe { mem::zeroed() };
        v4.sin_family = libc::AF_INET as u16;
        v4.sin_addr.s_addr = u32::from(ip).to_be();
        v6.sin6_family = libc::AF_INET6 as u16;
        v6.sin6_addr.s6_addr = ip6.octets();
        // SAFETY: they are valid.
        unsafe {
            assert_eq!(address(ptr::addr_of!(v4).cast()), Some(ip.into()));
            assert_eq!(address(ptr::addr_of!(v6).cast()), Some(ip6.into()));
            v4.sin_family = libc::AF_PACKET as u16;
            assert_eq!(address(ptr::addr_of!(v4).cast()), None);
        }
    }
}
