// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Bridge`]: a TAP interface of the kernel on the raw Ethernet queue pair, beside the IP stack of this crate.
//!
//! ```text
//!  wire --- card --- RawLink --+--- Bridge ---> stack (smoltcp): answers to its own questions, and its own addresses
//!                              |        |
//!                              |        +-----> TAP: all else, and those answers, too
//!                              +<--- stack, TAP
//! ```
//!
//! Both have the card's MAC address and may have the same IP addresses. So that no request is answered twice, each frame that comes is of one of them, by
//! the address that it is for:
//!
//! | frame | the stack | the TAP interface |
//! |---|---|---|
//! | ARP packet, neighbour solicitation, IP packet for an address that the stack alone has | gets it | |
//! | other ARP replies, neighbour advertisements, echo replies | gets it | gets it |
//! | all else | | gets it |
//!
//! Neither side waits for the other. Frames that the card has no room for stay in the interface's queue, where the kernel counts what it drops, and some
//! places are the stack's alone. A frame that the interface does not take is dropped and counted, as a NIC does it. What the raw queue pair refuses
//! (RoCE, wrong lengths) is dropped before it is posted.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use smoltcp::wire::{
    ArpOperation, ArpPacket, EthernetFrame, EthernetProtocol, Icmpv4Message, Icmpv4Packet, Icmpv6Message,
    Icmpv6Packet, IpProtocol, Ipv4Packet, Ipv6Packet,
};

use crate::guard::refuses;
use crate::link::Link;

/// Frames of one direction that are moved before others have a turn.
const BATCH: usize = 64;

/// Of the places for frames to the wire, the part that is the stack's alone: a quarter.
const RESERVE: usize = 4;

/// Bytes of an Ethernet header.
const HEADER: usize = 14;

/// A TAP interface: the kernel's end of a way for Ethernet frames. It never waits.
pub trait Tap: Send {
    /// Takes the next frame that the kernel sends into `frame`, and its length; a longer frame is cut. `None`: there is none.
    ///
    /// # Errors
    /// The interface is gone.
    fn receive(&mut self, frame: &mut [u8]) -> io::Result<Option<usize>>;

    /// Gives the kernel a frame; whether it took it.
    ///
    /// # Errors
    /// The interface is gone.
    fn send(&mut self, frame: &[u8]) -> io::Result<bool>;
}

/// Frames of a bridge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// From the wire, given to the kernel.
    pub to_tap: u64,
    /// From the kernel, sent to the wire.
    pub to_wire: u64,
    /// From the wire, not taken by the kernel: the interface is down, or has no memory.
    pub dropped_by_tap: u64,
    /// From the kernel, too short or too long for the raw queue pair.
    pub bad_length: u64,
    /// From the kernel, RoCE or what a receiver could take for it: the raw queue pair does not send it.
    pub roce: u64,
}

impl Counts {
    /// Frames that are lost.
    pub fn dropped(&self) -> u64 {
        self.dropped_by_tap + self.bad_length + self.roce
    }
}

#[derive(Default)]
struct State {
    /// Addresses that the stack has and the kernel does not.
    alone: Mutex<Vec<IpAddr>>,
    counts: [AtomicU64; 5],
    /// Frames may wait that were left for the next turn.
    more: AtomicBool,
    /// Frames of the interface wait for room.
    blocked: AtomicBool,
    /// The interface is gone.
    gone: AtomicBool,
}

/// What others see of a [`Bridge`], which the stack has.
#[derive(Clone)]
pub struct Bridged(Arc<State>);

impl Bridged {
    /// Sets the addresses that the stack answers for: those that the kernel does not have on the interface.
    pub fn set_alone(&self, addresses: Vec<IpAddr>) {
        *self.0.alone.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// Whether frames may wait for the next turn, so that it is due at once.
    pub fn has_more(&self) -> bool {
        self.0.more.load(Ordering::Relaxed)
    }

    /// Whether frames of the interface wait for room of the card: look again after a moment, and do not wait for the interface.
    pub fn is_blocked(&self) -> bool {
        self.0.blocked.load(Ordering::Relaxed)
    }

    /// Whether the interface is gone. The stack goes on alone.
    pub fn is_gone(&self) -> bool {
        self.0.gone.load(Ordering::Relaxed)
    }

    /// Frames until now.
    pub fn counts(&self) -> Counts {
        let [to_tap, to_wire, dropped_by_tap, bad_length, roce] =
            [0, 1, 2, 3, 4].map(|at| self.0.counts[at].load(Ordering::Relaxed));
        Counts { to_tap, to_wire, dropped_by_tap, bad_length, roce }
    }
}

impl State {
    fn count(&self, which: Count) {
        self.counts[which as usize].fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy)]
enum Count {
    ToTap,
    ToWire,
    DroppedByTap,
    BadLength,
    Roce,
}

/// A link for the stack that shares another link with a TAP interface: see the module.
pub struct Bridge {
    link: Box<dyn Link>,
    tap: Box<dyn Tap>,
    state: Arc<State>,
    /// A frame of the interface, with room for one byte more than the link takes.
    frame: Vec<u8>,
    /// Places that are the stack's.
    reserve: usize,
    /// The stack found no room since the last turn, so frames may have been left on the link.
    starved: bool,
    /// The link was not found empty since the last turn.
    unread: bool,
}

impl Bridge {
    /// Shares a link with an interface.
    ///
    /// # Errors
    /// The card fails.
    pub fn new(mut link: Box<dyn Link>, tap: Box<dyn Tap>) -> ferrowire::Result<(Self, Bridged)> {
        let frame = vec![0; link.max_frame() + 1];
        let reserve = link.room()? / RESERVE;
        let state = Arc::new(State::default());
        let bridged = Bridged(Arc::clone(&state));
        Ok((Self { link, tap, state, frame, reserve, starved: false, unread: false }, bridged))
    }

    /// Gives the kernel a frame.
    fn give(&mut self, frame: &[u8]) {
        if self.state.gone.load(Ordering::Relaxed) {
            return self.state.count(Count::DroppedByTap);
        }
        match self.tap.send(frame) {
            Ok(true) => self.state.count(Count::ToTap),
            Ok(false) => self.state.count(Count::DroppedByTap),
            Err(_) => {
                self.state.count(Count::DroppedByTap);
                self.state.gone.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Sends a frame of the kernel, for which there is room.
    fn forward(&mut self, bytes: usize) -> ferrowire::Result<()> {
        let longest = self.frame.len() - 1;
        let frame = &self.frame[..bytes.min(longest)];
        if bytes < HEADER || bytes > longest {
            self.state.count(Count::BadLength);
        } else if refuses(frame) {
            self.state.count(Count::Roce);
        } else {
            self.link.send(frame)?;
            self.state.count(Count::ToWire);
        }
        Ok(())
    }

    /// Sends what the kernel has sent; whether some may be left, and whether that is for want of room.
    fn pump(&mut self) -> ferrowire::Result<(bool, bool)> {
        for _ in 0..BATCH {
            if self.state.gone.load(Ordering::Relaxed) {
                return Ok((false, false));
            }
            if self.link.room()? <= self.reserve {
                return Ok((false, true));
            }
            match self.tap.receive(&mut self.frame) {
                Ok(Some(bytes)) => self.forward(bytes)?,
                Ok(None) => return Ok((false, false)),
                Err(_) => self.state.gone.store(true, Ordering::Relaxed),
            }
        }
        Ok((true, false))
    }
}

impl Link for Bridge {
    fn receive(&mut self, frame: &mut [u8]) -> ferrowire::Result<Option<usize>> {
        for _ in 0..BATCH {
            let Some(bytes) = self.link.receive(frame)? else {
                self.unread = false;
                return Ok(None);
            };
            self.unread = true;
            let came = &frame[..bytes];
            let to = {
                let alone = self.state.alone.lock().unwrap_or_else(PoisonError::into_inner);
                receiver(came, &alone)
            };
            if to != Receiver::Stack {
                self.give(came);
            }
            if to != Receiver::Tap {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    fn has_room(&mut self) -> ferrowire::Result<bool> {
        let room = self.link.has_room()?;
        self.starved |= !room;
        Ok(room)
    }

    fn room(&mut self) -> ferrowire::Result<usize> {
        self.link.room()
    }

    fn send(&mut self, frame: &[u8]) -> ferrowire::Result<()> {
        self.link.send(frame)
    }

    fn arm(&mut self) -> ferrowire::Result<()> {
        self.link.arm()
    }

    fn turn(&mut self) -> ferrowire::Result<()> {
        let (more, blocked) = self.pump()?;
        // Without room the stack leaves frames on the link: when there is some, it is to look again.
        let again = std::mem::take(&mut self.starved) || std::mem::take(&mut self.unread);
        self.state.more.store(more || again && !blocked, Ordering::Relaxed);
        self.state.blocked.store(blocked, Ordering::Relaxed);
        self.link.turn()
    }

    fn max_frame(&self) -> usize {
        self.link.max_frame()
    }

    fn now(&self) -> Duration {
        self.link.now()
    }
}

/// Which side gets a frame of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiver {
    Stack,
    Tap,
    Both,
}

/// Which side gets it, where these addresses are the stack's alone.
fn receiver(frame: &[u8], alone: &[IpAddr]) -> Receiver {
    match about(frame) {
        Some((ip, _)) if alone.contains(&ip) => Receiver::Stack,
        Some((_, true)) => Receiver::Both,
        _ => Receiver::Tap,
    }
}

/// The address that a frame is for, or whose MAC address it asks for; and whether it is an answer, which the stack or the kernel may have asked for.
fn about(frame: &[u8]) -> Option<(IpAddr, bool)> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    match frame.ethertype() {
        EthernetProtocol::Arp => {
            let arp = ArpPacket::new_checked(frame.payload()).ok()?;
            let target: [u8; 4] = arp.target_protocol_addr().try_into().ok()?;
            Some((Ipv4Addr::from(target).into(), arp.operation() == ArpOperation::Reply))
        }
        EthernetProtocol::Ipv4 => {
            let packet = Ipv4Packet::new_checked(frame.payload()).ok()?;
            let icmp = packet.next_header() == IpProtocol::Icmp && packet.frag_offset() == 0;
            let kind = icmp.then(|| Icmpv4Packet::new_checked(packet.payload()).ok()).flatten();
            let kind = kind.map(|icmp| icmp.msg_type());
            Some((packet.dst_addr().into(), kind == Some(Icmpv4Message::EchoReply)))
        }
        EthernetProtocol::Ipv6 => {
            let packet = Ipv6Packet::new_checked(frame.payload()).ok()?;
            let to = packet.dst_addr().into();
            let bytes = packet.payload();
            let icmp = packet.next_header() == IpProtocol::Icmpv6;
            let kind = icmp.then(|| Icmpv6Packet::new_checked(bytes).ok()).flatten();
            match kind.map(|icmp| icmp.msg_type()) {
                Some(Icmpv6Message::EchoReply | Icmpv6Message::NeighborAdvert) => Some((to, true)),
                // The target follows a header of 8 bytes (RFC 4861, 4.3).
                Some(Icmpv6Message::NeighborSolicit) => {
                    let target: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
                    Some((Ipv6Addr::from(target).into(), false))
                }
                _ => Some((to, false)),
            }
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "bridge_tests.rs"]
mod tests;
