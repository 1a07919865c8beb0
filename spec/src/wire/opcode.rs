// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every opcode of a base transport header that RoCE v2 uses here, and what follows from it.

crate::table::codes! {
    /// Packet opcode: service in bits 7:5, operation in bits 4:0 (IBTA 9.2.1, table 38; A17 for the CNP).
    enum Opcode, "opcode";
    /// RC SEND, first packet.
    RcSendFirst = 0x00, "RC_SEND_FIRST";
    /// RC SEND, middle packet.
    RcSendMiddle = 0x01, "RC_SEND_MIDDLE";
    /// RC SEND, last packet.
    RcSendLast = 0x02, "RC_SEND_LAST";
    /// RC SEND, last packet, with an immediate.
    RcSendLastImm = 0x03, "RC_SEND_LAST_IMM";
    /// RC SEND, only packet.
    RcSendOnly = 0x04, "RC_SEND_ONLY";
    /// RC SEND, only packet, with an immediate.
    RcSendOnlyImm = 0x05, "RC_SEND_ONLY_IMM";
    /// RC WRITE, first packet.
    RcWriteFirst = 0x06, "RC_WRITE_FIRST";
    /// RC WRITE, middle packet.
    RcWriteMiddle = 0x07, "RC_WRITE_MIDDLE";
    /// RC WRITE, last packet.
    RcWriteLast = 0x08, "RC_WRITE_LAST";
    /// RC WRITE, last packet, with an immediate.
    RcWriteLastImm = 0x09, "RC_WRITE_LAST_IMM";
    /// RC WRITE, only packet.
    RcWriteOnly = 0x0a, "RC_WRITE_ONLY";
    /// RC WRITE, only packet, with an immediate.
    RcWriteOnlyImm = 0x0b, "RC_WRITE_ONLY_IMM";
    /// RC READ request.
    RcReadRequest = 0x0c, "RC_READ_REQUEST";
    /// RC READ response, first packet.
    RcReadResponseFirst = 0x0d, "RC_READ_RESPONSE_FIRST";
    /// RC READ response, middle packet; the one response without an AETH.
    RcReadResponseMiddle = 0x0e, "RC_READ_RESPONSE_MIDDLE";
    /// RC READ response, last packet.
    RcReadResponseLast = 0x0f, "RC_READ_RESPONSE_LAST";
    /// RC READ response, only packet.
    RcReadResponseOnly = 0x10, "RC_READ_RESPONSE_ONLY";
    /// RC acknowledgement or NAK.
    RcAcknowledge = 0x11, "RC_ACKNOWLEDGE";
    /// RC answer of an atomic operation.
    RcAtomicAcknowledge = 0x12, "RC_ATOMIC_ACKNOWLEDGE";
    /// RC compare and swap.
    RcCompareSwap = 0x13, "RC_COMPARE_SWAP";
    /// RC fetch and add.
    RcFetchAdd = 0x14, "RC_FETCH_ADD";
    /// RC SEND, last packet, with a key to invalidate.
    RcSendLastInv = 0x16, "RC_SEND_LAST_INV";
    /// RC SEND, only packet, with a key to invalidate.
    RcSendOnlyInv = 0x17, "RC_SEND_ONLY_INV";
    /// UC SEND, first packet.
    UcSendFirst = 0x20, "UC_SEND_FIRST";
    /// UC SEND, middle packet.
    UcSendMiddle = 0x21, "UC_SEND_MIDDLE";
    /// UC SEND, last packet.
    UcSendLast = 0x22, "UC_SEND_LAST";
    /// UC SEND, last packet, with an immediate.
    UcSendLastImm = 0x23, "UC_SEND_LAST_IMM";
    /// UC SEND, only packet.
    UcSendOnly = 0x24, "UC_SEND_ONLY";
    /// UC SEND, only packet, with an immediate.
    UcSendOnlyImm = 0x25, "UC_SEND_ONLY_IMM";
    /// UC WRITE, first packet.
    UcWriteFirst = 0x26, "UC_WRITE_FIRST";
    /// UC WRITE, middle packet.
    UcWriteMiddle = 0x27, "UC_WRITE_MIDDLE";
    /// UC WRITE, last packet.
    UcWriteLast = 0x28, "UC_WRITE_LAST";
    /// UC WRITE, last packet, with an immediate.
    UcWriteLastImm = 0x29, "UC_WRITE_LAST_IMM";
    /// UC WRITE, only packet.
    UcWriteOnly = 0x2a, "UC_WRITE_ONLY";
    /// UC WRITE, only packet, with an immediate.
    UcWriteOnlyImm = 0x2b, "UC_WRITE_ONLY_IMM";
    /// UD SEND.
    UdSendOnly = 0x64, "UD_SEND_ONLY";
    /// UD SEND with an immediate.
    UdSendOnlyImm = 0x65, "UD_SEND_ONLY_IMM";
    /// Congestion notification packet.
    Cnp = 0x81, "CNP";
    /// RC report of selective retransmission. The standard leaves its code to manufacturers; only queue pairs that have agreed on it send it.
    RcReport = 0xc0, "RC_REPORT";
}

crate::table::codes! {
    /// Transport service of a queue pair. RC, UC, UD and raw Ethernet are as in the host interface; CNP is no service of a queue pair.
    enum Service, "service";
    /// Reliable connection.
    Rc = 0, "RC";
    /// Unreliable connection.
    Uc = 1, "UC";
    /// Unreliable datagram.
    Ud = 2, "UD";
    /// Raw Ethernet: whole frames and no transport (IBTA volume 1, 10.2.9 calls its like raw datagrams).
    Raw = 3, "RAW";
    /// Congestion notification; only of packets.
    Cnp = 4, "CNP";
}

/// What a packet's message does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// SEND, with or without immediate or invalidate.
    Send,
    /// RDMA WRITE, with or without immediate.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response.
    ReadResponse,
    /// Acknowledgement, RNR NAK or NAK.
    Acknowledge,
    /// Answer of an atomic operation.
    AtomicAcknowledge,
    /// Compare and swap.
    CompareSwap,
    /// Fetch and add.
    FetchAdd,
    /// Congestion notification.
    Cnp,
    /// Report of selective retransmission.
    Report,
}

/// Where in its message a packet stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Position {
    /// First of several.
    First,
    /// Neither first nor last.
    Middle,
    /// Last of several.
    Last,
    /// The whole message.
    Only,
}

impl Position {
    /// Whether a message begins here: FIRST or ONLY.
    pub const fn begins(self) -> bool {
        matches!(self, Position::First | Position::Only)
    }

    /// Whether a message ends here: LAST or ONLY.
    pub const fn ends(self) -> bool {
        matches!(self, Position::Last | Position::Only)
    }
}

/// How many payload bytes a packet may carry, pad not counted (IBTA 9.7.4.1.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PayloadRule {
    /// None.
    None,
    /// Exactly the path MTU: FIRST and MIDDLE.
    Mtu,
    /// One byte to the path MTU: LAST.
    OneToMtu,
    /// Zero bytes to the path MTU: ONLY.
    ZeroToMtu,
}

impl PayloadRule {
    /// Whether a packet with `bytes` of payload obeys, at a path MTU of `mtu` bytes.
    pub const fn allows(self, bytes: usize, mtu: usize) -> bool {
        match self {
            PayloadRule::None => bytes == 0,
            PayloadRule::Mtu => bytes == mtu,
            PayloadRule::OneToMtu => bytes >= 1 && bytes <= mtu,
            PayloadRule::ZeroToMtu => bytes <= mtu,
        }
    }
}

/// An extension header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ext {
    /// [`crate::wire::Deth`].
    Deth,
    /// [`crate::wire::Reth`].
    Reth,
    /// [`crate::wire::AtomicEth`].
    AtomicEth,
    /// [`crate::wire::Aeth`].
    Aeth,
    /// [`crate::wire::AtomicAckEth`].
    AtomicAckEth,
    /// [`crate::wire::ImmDt`].
    ImmDt,
    /// [`crate::wire::Ieth`].
    Ieth,
    /// [`crate::wire::Cnp`].
    Cnp,
    /// [`crate::wire::Report`].
    Report,
}

impl Ext {
    /// Its layout.
    pub const fn layout(self) -> &'static crate::Layout {
        match self {
            Ext::Deth => &super::deth::LAYOUT,
            Ext::Reth => &super::reth::LAYOUT,
            Ext::AtomicEth => &super::atomic_eth::LAYOUT,
            Ext::Aeth => &super::aeth::LAYOUT,
            Ext::AtomicAckEth => &super::atomic_ack_eth::LAYOUT,
            Ext::ImmDt => &super::imm_dt::LAYOUT,
            Ext::Ieth => &super::ieth::LAYOUT,
            Ext::Cnp => &super::cnp::LAYOUT,
            Ext::Report => &super::report::LAYOUT,
        }
    }

    /// Its size.
    pub const fn bytes(self) -> usize {
        self.layout().bytes
    }
}

impl Opcode {
    /// The transport service it belongs to.
    pub const fn service(self) -> Service {
        match self as u8 >> 5 {
            0 => Service::Rc,
            1 => Service::Uc,
            3 => Service::Ud,
            4 => Service::Cnp,
            // Of the codes that are left to manufacturers there is the report.
            _ => Service::Rc,
        }
    }

    /// What its message does.
    pub const fn operation(self) -> Operation {
        match self {
            Opcode::Cnp => return Operation::Cnp,
            Opcode::RcReport => return Operation::Report,
            _ => {}
        }
        match self as u8 & 0x1f {
            0x00..=0x05 | 0x16 | 0x17 => Operation::Send,
            0x06..=0x0b => Operation::Write,
            0x0c => Operation::ReadRequest,
            0x0d..=0x10 => Operation::ReadResponse,
            0x11 => Operation::Acknowledge,
            0x12 => Operation::AtomicAcknowledge,
            0x13 => Operation::CompareSwap,
            _ => Operation::FetchAdd,
        }
    }

    /// Where in its message the packet stands.
    pub const fn position(self) -> Position {
        if matches!(self, Opcode::Cnp | Opcode::RcReport) {
            return Position::Only;
        }
        match self as u8 & 0x1f {
            0x00 | 0x06 | 0x0d => Position::First,
            0x01 | 0x07 | 0x0e => Position::Middle,
            0x02 | 0x03 | 0x08 | 0x09 | 0x0f | 0x16 => Position::Last,
            _ => Position::Only,
        }
    }

    /// The extension headers behind the base transport header, in the order they are sent (IBTA 9.3, A17).
    pub const fn extensions(self) -> &'static [Ext] {
        match self.operation() {
            Operation::Send => match (self.service(), self.has_immediate(), self.has_invalidate()) {
                (Service::Ud, false, _) => &[Ext::Deth],
                (Service::Ud, true, _) => &[Ext::Deth, Ext::ImmDt],
                (_, true, _) => &[Ext::ImmDt],
                (_, _, true) => &[Ext::Ieth],
                _ => &[],
            },
            Operation::Write => match (self.position().begins(), self.has_immediate()) {
                (true, true) => &[Ext::Reth, Ext::ImmDt],
                (true, false) => &[Ext::Reth],
                (false, true) => &[Ext::ImmDt],
                (false, false) => &[],
            },
            Operation::ReadRequest => &[Ext::Reth],
            Operation::ReadResponse => match self.position() {
                Position::Middle => &[],
                _ => &[Ext::Aeth],
            },
            Operation::Acknowledge => &[Ext::Aeth],
            Operation::AtomicAcknowledge => &[Ext::Aeth, Ext::AtomicAckEth],
            Operation::CompareSwap | Operation::FetchAdd => &[Ext::AtomicEth],
            Operation::Cnp => &[Ext::Cnp],
            Operation::Report => &[Ext::Report],
        }
    }

    /// Whether an extension header is among them.
    pub const fn has(self, ext: Ext) -> bool {
        let list = self.extensions();
        let mut i = 0;
        while i < list.len() {
            if list[i] as u8 == ext as u8 {
                return true;
            }
            i += 1;
        }
        false
    }

    /// Bytes of the base transport header and the extension headers.
    pub const fn header_bytes(self) -> usize {
        let list = self.extensions();
        let mut bytes = super::bth::BYTES;
        let mut i = 0;
        while i < list.len() {
            bytes += list[i].bytes();
            i += 1;
        }
        bytes
    }

    /// Whether an immediate is carried.
    pub const fn has_immediate(self) -> bool {
        use Opcode::*;
        matches!(
            self,
            RcSendLastImm
                | RcSendOnlyImm
                | RcWriteLastImm
                | RcWriteOnlyImm
                | UcSendLastImm
                | UcSendOnlyImm
                | UcWriteLastImm
                | UcWriteOnlyImm
                | UdSendOnlyImm
        )
    }

    /// Whether a key to invalidate is carried.
    pub const fn has_invalidate(self) -> bool {
        matches!(self, Opcode::RcSendLastInv | Opcode::RcSendOnlyInv)
    }

    /// Whether the packet goes to the responder; a CNP and a report are neither request nor response.
    pub const fn is_request(self) -> bool {
        !self.is_response() && !matches!(self, Opcode::Cnp | Opcode::RcReport)
    }

    /// Whether the packet goes to the requester.
    pub const fn is_response(self) -> bool {
        matches!(
            self.operation(),
            Operation::ReadResponse | Operation::Acknowledge | Operation::AtomicAcknowledge
        )
    }

    /// Whether the responder answers or acknowledges it: the requests of RC.
    pub const fn is_acknowledged(self) -> bool {
        self.is_request() && matches!(self.service(), Service::Rc)
    }

    /// Whether it is a request that is answered with data: READ and atomics, counted by `max_rd_atomic`.
    pub const fn is_read_or_atomic(self) -> bool {
        matches!(self.operation(), Operation::ReadRequest | Operation::CompareSwap | Operation::FetchAdd)
    }

    /// Whether it takes a receive WQE: where a SEND begins, and where a WRITE with an immediate ends.
    pub const fn takes_receive(self) -> bool {
        match self.operation() {
            Operation::Send => self.position().begins(),
            Operation::Write => self.has_immediate(),
            _ => false,
        }
    }

    /// Whether it completes a receive WQE: where a SEND, or a WRITE with an immediate, ends.
    pub const fn completes_receive(self) -> bool {
        match self.operation() {
            Operation::Send => self.position().ends(),
            Operation::Write => self.has_immediate(),
            _ => false,
        }
    }

    /// How many payload bytes it may carry.
    pub const fn payload(self) -> PayloadRule {
        match self.operation() {
            Operation::Send | Operation::Write | Operation::ReadResponse => match self.position() {
                Position::First | Position::Middle => PayloadRule::Mtu,
                Position::Last => PayloadRule::OneToMtu,
                Position::Only => PayloadRule::ZeroToMtu,
            },
            _ => PayloadRule::None,
        }
    }

    /// Whether it may carry payload at all.
    pub const fn carries_payload(self) -> bool {
        !matches!(self.payload(), PayloadRule::None)
    }
}
