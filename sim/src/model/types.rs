// SPDX-License-Identifier: MIT OR Apache-2.0
//! What goes in and comes out: work requests, completions, addresses, errors.

use std::fmt;
use std::net::IpAddr;
use std::ops::BitOr;

use ferrowire_spec::qp_state::TransitionError;
use ferrowire_spec::queue::command::Access;
use ferrowire_spec::queue::cqe::{CqeOpcode, LocalCause, WcStatus};
use ferrowire_spec::queue::send_wqe::SendOpcode;

use super::engine::Config;

/// A moment, in nanoseconds from whenever the caller likes.
pub type Instant = u64;

/// Most SGEs of a send WQE.
pub const MAX_SGES: usize = 16;

/// Longest message in bytes (IBTA 9.4.3, 9.7.4.1.6).
pub const MAX_MESSAGE: u64 = 1 << 31;

/// Rights of a region, a window or a queue pair: the bits of [`Access`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(pub u8);

impl Rights {
    /// None but reading for local requests, which every region has.
    pub const NONE: Rights = Rights(0);
    /// Writing for local requests.
    pub const LOCAL_WRITE: Rights = Rights(Access::LocalWrite as u8);
    /// WRITE by peers.
    pub const REMOTE_WRITE: Rights = Rights(Access::RemoteWrite as u8);
    /// READ by peers.
    pub const REMOTE_READ: Rights = Rights(Access::RemoteRead as u8);
    /// Atomics by peers.
    pub const REMOTE_ATOMIC: Rights = Rights(Access::RemoteAtomic as u8);
    /// Windows may be bound to it.
    pub const MW_BIND: Rights = Rights(Access::MwBind as u8);
    /// Addresses count from 0.
    pub const ZERO_BASED: Rights = Rights(Access::ZeroBased as u8);
    /// Everything that peers may do.
    pub const REMOTE: Rights = Rights(0x0e);
    /// Everything but zero-based addresses.
    pub const ALL: Rights = Rights(0x1f);

    /// Whether all of `other` are among them.
    pub const fn has(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Rights {
    type Output = Rights;
    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

/// A piece of local memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// Address in the region.
    pub addr: u64,
    /// Local key.
    pub lkey: u32,
    /// Bytes. With 0, address and key mean nothing.
    pub len: u32,
}

/// Types of memory windows (IBTA 10.6.7.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowType {
    /// Of a protection domain: all its queue pairs serve it, and it is bound again while it is bound.
    Type1,
    /// Of the queue pair that bound it.
    #[default]
    Type2B,
}

/// What a bind asks for (IBTA 11.2.9.1, 10.6.7.2), by WQE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bind {
    /// The window's key as it shall be: its index, and a tag of the caller's choice.
    pub key: u32,
    /// Key of the region.
    pub lkey: u32,
    /// First address, as the region counts.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// What peers may do. With `ZERO_BASED`, addresses in the window count from 0.
    pub rights: Rights,
    /// Type of the window; a bind of one of the other type fails.
    pub kind: WindowType,
}

/// A send work request. The fields that count follow from the opcode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendWr {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub opcode: SendOpcode,
    /// Complete also on success.
    pub signaled: bool,
    /// Solicited event bit in the last packet.
    pub solicited: bool,
    /// Begin only when earlier READs and atomics are answered.
    pub fence: bool,
    /// Local memory.
    pub sges: Vec<Sge>,
    /// Data that are part of the request; then there are no SGEs.
    pub inline: Option<Vec<u8>>,
    /// Immediate, or key to invalidate.
    pub imm: u32,
    /// Address in the responder's memory.
    pub remote_va: u64,
    /// The responder's key.
    pub rkey: u32,
    /// Value to compare with or to add.
    pub compare_add: u64,
    /// Value to store.
    pub swap: u64,
    /// Window to bind.
    pub bind: Bind,
    /// Address handle; UD.
    pub ah: u32,
    /// Queue pair that gets it; UD.
    pub dest_qpn: u32,
    /// Queue key; with the high bit set, that of the queue pair is sent (IBTA 10.2.5); UD.
    pub qkey: u32,
    /// It is known not to make sense: how it ends, without being begun.
    pub fault: Option<(WcStatus, LocalCause)>,
}

impl SendWr {
    /// A signalled request.
    pub fn new(opcode: SendOpcode, wr_id: u64, sges: &[Sge]) -> Self {
        Self {
            wr_id,
            opcode,
            signaled: true,
            solicited: false,
            fence: false,
            sges: sges.to_vec(),
            inline: None,
            imm: 0,
            remote_va: 0,
            rkey: 0,
            compare_add: 0,
            swap: 0,
            bind: Bind::default(),
            ah: 0,
            dest_qpn: 0,
            qkey: 0,
            fault: None,
        }
    }

    /// SEND.
    pub fn send(wr_id: u64, sges: &[Sge]) -> Self {
        Self::new(SendOpcode::Send, wr_id, sges)
    }

    /// SEND that invalidates a key of the responder.
    pub fn send_inv(wr_id: u64, sges: &[Sge], key: u32) -> Self {
        Self { imm: key, ..Self::new(SendOpcode::SendInv, wr_id, sges) }
    }

    /// RDMA WRITE.
    pub fn write(wr_id: u64, sges: &[Sge], remote_va: u64, rkey: u32) -> Self {
        Self { remote_va, rkey, ..Self::new(SendOpcode::Write, wr_id, sges) }
    }

    /// RDMA READ.
    pub fn read(wr_id: u64, sges: &[Sge], remote_va: u64, rkey: u32) -> Self {
        Self { remote_va, rkey, ..Self::new(SendOpcode::Read, wr_id, sges) }
    }

    /// Fetch and add.
    pub fn fetch_add(wr_id: u64, sge: Sge, remote_va: u64, rkey: u32, add: u64) -> Self {
        Self { remote_va, rkey, compare_add: add, ..Self::new(SendOpcode::FetchAdd, wr_id, &[sge]) }
    }

    /// Compare and swap.
    pub fn cmp_swap(wr_id: u64, sge: Sge, remote_va: u64, rkey: u32, compare: u64, swap: u64) -> Self {
        Self { remote_va, rkey, compare_add: compare, swap, ..Self::new(SendOpcode::CmpSwap, wr_id, &[sge]) }
    }

    /// Local invalidation of a window's key.
    pub fn local_inv(wr_id: u64, key: u32) -> Self {
        Self { imm: key, ..Self::new(SendOpcode::LocalInv, wr_id, &[]) }
    }

    /// Bind of a window.
    pub fn bind(wr_id: u64, bind: Bind) -> Self {
        Self { bind, ..Self::new(SendOpcode::BindMw, wr_id, &[]) }
    }

    /// With an immediate: SEND and WRITE.
    pub fn with_imm(mut self, imm: u32) -> Self {
        self.opcode = match self.opcode {
            SendOpcode::Write => SendOpcode::WriteImm,
            SendOpcode::Send => SendOpcode::SendImm,
            other => other,
        };
        self.imm = imm;
        self
    }

    /// To a datagram's destination.
    pub fn to(mut self, ah: u32, dest_qpn: u32, qkey: u32) -> Self {
        (self.ah, self.dest_qpn, self.qkey) = (ah, dest_qpn, qkey);
        self
    }

    /// With data in the request.
    pub fn with_inline(mut self, data: &[u8]) -> Self {
        self.inline = Some(data.to_vec());
        self
    }

    /// Solicited.
    pub fn solicited(mut self) -> Self {
        self.solicited = true;
        self
    }

    /// Fenced.
    pub fn fenced(mut self) -> Self {
        self.fence = true;
        self
    }

    /// Silent when it ends well.
    pub fn unsignaled(mut self) -> Self {
        self.signaled = false;
        self
    }

    /// Bytes of the message; for an atomic those of its SGEs.
    pub fn len(&self) -> u64 {
        match &self.inline {
            Some(data) => data.len() as u64,
            None => self.sges.iter().map(|sge| u64::from(sge.len)).sum(),
        }
    }

    /// Whether the message is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A receive work request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecvWr {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where the message goes.
    pub sges: Vec<Sge>,
    /// It is known not to make sense: why whoever takes it fails.
    pub fault: Option<LocalCause>,
}

impl RecvWr {
    /// A receive.
    pub fn new(wr_id: u64, sges: &[Sge]) -> Self {
        Self { wr_id, sges: sges.to_vec(), fault: None }
    }

    /// Bytes that it has room for.
    pub fn len(&self) -> u64 {
        self.sges.iter().map(|sge| u64::from(sge.len)).sum()
    }

    /// Whether it has room for nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A completion (IBTA 11.4.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Of the work request.
    pub wr_id: u64,
    /// Queue pair.
    pub qpn: u32,
    /// What was completed.
    pub opcode: CqeOpcode,
    /// How it ended. With anything but success, only `wr_id`, `qpn` and `syndrome` mean something besides.
    pub status: WcStatus,
    /// The AETH syndrome of the peer, or a [`LocalCause`].
    pub syndrome: u8,
    /// Bytes of the message, the 40 of a GRH included.
    pub byte_len: u32,
    /// Immediate received.
    pub imm: Option<u32>,
    /// Key that the peer invalidated.
    pub invalidated: Option<u32>,
    /// Queue pair that sent it; UD.
    pub src_qpn: u32,
    /// 40 bytes of GRH stand before the message; UD.
    pub grh: bool,
    /// The datagram's packet was of IPv4, whose header is in the last 20 of these bytes (IBTA A17.4.5.1).
    pub ipv4: bool,
    /// The message was solicited.
    pub solicited: bool,
}

impl Completion {
    pub(super) fn new(qpn: u32, wr_id: u64, opcode: CqeOpcode) -> Self {
        Self {
            wr_id,
            qpn,
            opcode,
            status: WcStatus::Success,
            syndrome: LocalCause::None as u8,
            byte_len: 0,
            imm: None,
            invalidated: None,
            src_qpn: 0,
            grh: false,
            ipv4: false,
            solicited: false,
        }
    }

    /// Whether it ended well.
    pub fn is_success(&self) -> bool {
        self.status == WcStatus::Success
    }
}

/// Where packets go: the address vector of a connection or of an address handle (IBTA A17.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressVector {
    /// MAC address of the next hop, a 48-bit number.
    pub mac: u64,
    /// IP address of the peer, of the same family as ours.
    pub ip: IpAddr,
    /// IPv4 type of service or IPv6 traffic class.
    pub traffic_class: u8,
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,
    /// VLAN tag control information.
    pub vlan: Option<u16>,
    /// MAC and IP address to send from, and to be answered at; without, those of the node.
    pub source: Option<(u64, IpAddr)>,
}

impl AddressVector {
    /// Plain packets to an address.
    pub fn new(mac: u64, ip: IpAddr) -> Self {
        Self { mac, ip, traffic_class: 0, hop_limit: 64, flow_label: 0, vlan: None, source: None }
    }

    /// Where packets come from.
    pub(super) fn source(&self, config: &Config) -> (u64, IpAddr) {
        self.source.unwrap_or((config.mac, config.ip))
    }

    /// Whether both ends have addresses of one family, as they must.
    pub(super) fn is_of_one_family(&self, config: &Config) -> bool {
        self.ip.is_ipv4() == self.source(config).1.is_ipv4()
    }
}

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// No such object.
    Unknown {
        /// What kind: `qp`, `cq` and so on.
        what: &'static str,
        /// The number.
        number: u32,
    },
    /// The number or key is taken.
    Exists {
        /// What kind.
        what: &'static str,
        /// The number.
        number: u32,
    },
    /// The queue has no room.
    Full,
    /// Work cannot be posted in that state (IBTA 11.4.1.1).
    State(ferrowire_spec::QpState),
    /// The receives come from a shared queue.
    HasSrq,
    /// More SGEs than the queue takes.
    TooManySges,
    /// A window is still bound to the region.
    Busy,
    /// The transition or its attributes.
    Transition(TransitionError),
    /// An attribute's value cannot be.
    BadAttribute(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unknown { what, number } => write!(f, "no {what} {number:#x}; create it first"),
            Error::Exists { what, number } => write!(f, "{what} {number:#x} exists; choose another number"),
            Error::Full => write!(f, "the queue is full; poll its completions first"),
            Error::State(state) => write!(f, "nothing can be posted in state {state}; modify the queue pair"),
            Error::HasSrq => write!(f, "the queue pair takes receives from its shared queue; post there"),
            Error::TooManySges => write!(f, "more than {MAX_SGES} SGEs; join some"),
            Error::Busy => write!(f, "something still uses it; destroy that first"),
            Error::Transition(error) => write!(f, "{error}; give what the transition takes"),
            Error::BadAttribute(name) => write!(f, "attribute {name} has a value that cannot be; correct it"),
        }
    }
}

impl std::error::Error for Error {}
