// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Mad`]: the communication manager's messages in management datagrams (IBTA volume 1, 13.4.2, 12.6 and 12.11).
//!
//! Each message is a table: a field, its first bit counted from the first byte of the MAD, most significant bit first, and its width. The
//! code that reads and the code that writes both come from it. What no table names is reserved: zero when written, of no matter when read.

mod ip;
mod reason;

pub use self::ip::{gid, gid_ip, IpCm, PortSpace};
pub use self::reason::{RejectReason, SidrStatus};

/// Bytes of a MAD.
pub const BYTES: usize = 256;

/// Bytes of the header that all MADs begin with.
const HEADER: usize = 24;

/// Management class of communication management (IBTA 13.4.4).
const CLASS: u8 = 0x07;
/// Version of that class (IBTA 12.6).
const CLASS_VERSION: u8 = 2;
/// `ComMgtSend` (IBTA 16.7.2): the one method of the class.
const METHOD: u8 = 0x03;

/// Why bytes are no MAD of the communication manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MadError {
    /// The length is another.
    #[error(
        "decode MAD: {0} bytes, a MAD has 256; take the datagram's payload without the 40 bytes before it"
    )]
    Length(usize),
    /// A field of the header has a value that this class does not have.
    #[error("decode MAD: {field} is {found:#x}, communication management has {expected:#x}; another agent may know it")]
    Header {
        /// The field.
        field: &'static str,
        /// What it is.
        found: u64,
        /// What it should be.
        expected: u64,
    },
    /// No message of the tables.
    #[error("decode MAD: attribute {0:#06x} is no message known here; leave it unanswered")]
    Attribute(u16),
}

/// The number of `width` bits from bit `at` on.
fn get(bytes: &[u8], at: usize, width: usize) -> u128 {
    (at..at + width).fold(0, |value, bit| value << 1 | u128::from(bytes[bit / 8] >> (7 - bit % 8) & 1))
}

/// Puts a number there; the bits are zero before.
fn put(bytes: &mut [u8], at: usize, width: usize, value: u128) {
    debug_assert!(width == 128 || value >> width == 0, "{value:#x} in {width} bits");
    for i in 0..width {
        let bit = at + i;
        bytes[bit / 8] |= ((value >> (width - 1 - i) & 1) as u8) << (7 - bit % 8);
    }
}

/// What a field may be.
trait FieldValue: Copy {
    fn of(number: u128) -> Self;
    fn number(self) -> u128;
}

macro_rules! field_values {
    ($($T:ty)+) => {$(
        impl FieldValue for $T {
            fn of(number: u128) -> Self {
                number as Self
            }
            fn number(self) -> u128 {
                self.into()
            }
        }
    )+};
}

field_values! { u8 u16 u32 u64 u128 }

impl FieldValue for bool {
    fn of(number: u128) -> Self {
        number != 0
    }
    fn number(self) -> u128 {
        self.into()
    }
}

/// Declares a message: its name, where in the MAD its private data begins, and its fields.
macro_rules! message {
    ($(#[doc = $doc:literal])+ $Name:ident, private at $private:literal {
        $($(#[doc = $about:literal])+ $field:ident: $T:ty = $byte:literal $(+ $bit:literal)?, $width:literal;)+
    }) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $Name {
            $($(#[doc = $about])+ pub $field: $T,)+
            /// Private data.
            pub private_data: [u8; BYTES - $private],
        }

        impl $Name {
            /// Every field: name, first bit, bits.
            pub const FIELDS: &'static [(&'static str, usize, usize)] =
                &[$((stringify!($field), 8 * (HEADER + $byte) $(+ $bit)?, $width),)+];
            /// First byte of the private data.
            pub const PRIVATE_AT: usize = $private;
            /// Bytes of the private data.
            pub const PRIVATE: usize = BYTES - $private;

            fn parse(mad: &[u8; BYTES]) -> Self {
                let mut private_data = [0; BYTES - $private];
                private_data.copy_from_slice(&mad[$private..]);
                Self { $($field: FieldValue::of(get(mad, 8 * (HEADER + $byte) $(+ $bit)?, $width)),)+ private_data }
            }

            fn emit(&self, mad: &mut [u8; BYTES]) {
                $(put(mad, 8 * (HEADER + $byte) $(+ $bit)?, $width, self.$field.number() & (u128::MAX >> (128 - $width)));)+
                mad[$private..].copy_from_slice(&self.private_data);
            }
        }

        impl Default for $Name {
            fn default() -> Self {
                Self { $($field: FieldValue::of(0),)+ private_data: [0; BYTES - $private] }
            }
        }
    };
}

message! {
    /// REQ: asks for a connection (IBTA 12.6.5). Offsets are from the end of the MAD header.
    Req, private at 164 {
        /// The asker's number of the connection.
        local_comm_id: u32 = 0, 32;
        /// Service that is asked for: see [`PortSpace::service_id`].
        service_id: u64 = 8, 64;
        /// GUID of the asker's adapter.
        local_ca_guid: u64 = 16, 64;
        /// Version of selective retransmission that the asker can do and wishes; 0: none. Reserved in the standard (12.6.5): others send 0 and do not look at it.
        selective: u8 = 24, 8;
        /// Queue key; of datagrams alone.
        local_qkey: u32 = 28, 32;
        /// Queue pair of the asker.
        local_qpn: u32 = 32, 24;
        /// READs and atomics that the asker answers at once.
        responder_resources: u8 = 35, 8;
        /// End-to-end context of the asker; of RD alone.
        local_eecn: u32 = 36, 24;
        /// READs and atomics that the asker would have outstanding.
        initiator_depth: u8 = 39, 8;
        /// End-to-end context of the other side; of RD alone.
        remote_eecn: u32 = 40, 24;
        /// How long the other side's manager may take to answer: 4.096 us times 2 to that power.
        remote_cm_response_timeout: u8 = 43, 5;
        /// 0: RC, 1: UC, 2: RD, 3: see `extended_transport`.
        transport_service: u8 = 43 + 5, 2;
        /// The asker has end-to-end flow control.
        flow_control: bool = 43 + 7, 1;
        /// First PSN that the other side is to send (IBTA 12.7, "Starting PSN").
        starting_psn: u32 = 44, 24;
        /// How long the asker's manager may take to answer.
        local_cm_response_timeout: u8 = 47, 5;
        /// Retries after time-outs and sequence NAKs, of both sides.
        retry_count: u8 = 47 + 5, 3;
        /// Partition key.
        pkey: u16 = 48, 16;
        /// Path MTU: 1 is 256 bytes, 5 is 4,096.
        path_mtu: u8 = 50, 4;
        /// There is an RD channel already.
        rdc_exists: bool = 50 + 4, 1;
        /// Retries after RNR NAKs that the asked side shall make; 7: for ever.
        rnr_retry_count: u8 = 50 + 5, 3;
        /// How often the managers send a message again.
        max_cm_retries: u8 = 51, 4;
        /// The asker's receives come from a shared queue.
        srq: bool = 51 + 4, 1;
        /// Transport service beyond the three: 1 is XRC.
        extended_transport: u8 = 51 + 5, 3;
        /// LID of the asker; 0xffff on Ethernet.
        primary_local_lid: u16 = 52, 16;
        /// LID of the asked side.
        primary_remote_lid: u16 = 54, 16;
        /// GID of the asker.
        primary_local_gid: u128 = 56, 128;
        /// GID of the asked side.
        primary_remote_gid: u128 = 72, 128;
        /// Flow label.
        primary_flow_label: u32 = 88, 20;
        /// Rate of the path.
        primary_packet_rate: u8 = 91 + 2, 6;
        /// Traffic class.
        primary_traffic_class: u8 = 92, 8;
        /// Hop limit.
        primary_hop_limit: u8 = 93, 8;
        /// Service level.
        primary_sl: u8 = 94, 4;
        /// Both sides are in one subnet.
        primary_subnet_local: bool = 94 + 4, 1;
        /// ACK time-out of the queue pairs: 4.096 us times 2 to that power.
        primary_local_ack_timeout: u8 = 95, 5;
        /// Alternate path: LID of the asker.
        alternate_local_lid: u16 = 96, 16;
        /// Alternate path: LID of the asked side.
        alternate_remote_lid: u16 = 98, 16;
        /// Alternate path: GID of the asker; 0: there is none.
        alternate_local_gid: u128 = 100, 128;
        /// Alternate path: GID of the asked side.
        alternate_remote_gid: u128 = 116, 128;
        /// Alternate path: flow label.
        alternate_flow_label: u32 = 132, 20;
        /// Alternate path: rate.
        alternate_packet_rate: u8 = 135 + 2, 6;
        /// Alternate path: traffic class.
        alternate_traffic_class: u8 = 136, 8;
        /// Alternate path: hop limit.
        alternate_hop_limit: u8 = 137, 8;
        /// Alternate path: service level.
        alternate_sl: u8 = 138, 4;
        /// Alternate path: both sides are in one subnet.
        alternate_subnet_local: bool = 138 + 4, 1;
        /// Alternate path: ACK time-out.
        alternate_local_ack_timeout: u8 = 139, 5;
    }
}

message! {
    /// MRA: the answer takes longer (IBTA 12.6.6).
    Mra, private at 34 {
        /// The sender's number of the connection.
        local_comm_id: u32 = 0, 32;
        /// The receiver's number of the connection.
        remote_comm_id: u32 = 4, 32;
        /// What has come: 0 REQ, 1 REP, 2 LAP.
        message: u8 = 8, 2;
        /// How long the answer takes from now: 4.096 us times 2 to that power.
        service_timeout: u8 = 9, 5;
    }
}

message! {
    /// REJ: there will be no connection (IBTA 12.6.7).
    Rej, private at 108 {
        /// The sender's number of the connection; 0: it has none.
        local_comm_id: u32 = 0, 32;
        /// The receiver's number of the connection.
        remote_comm_id: u32 = 4, 32;
        /// What is refused: 0 REQ, 1 REP, 2 neither.
        message: u8 = 8, 2;
        /// Bytes of `info`, of the 72 that there are.
        info_length: u8 = 9, 7;
        /// Why: see [`RejectReason`].
        reason: u16 = 10, 16;
        /// What would not be refused, by the reason: the first 16 of its bytes.
        info: u128 = 12, 128;
    }
}

message! {
    /// REP: yes (IBTA 12.6.8).
    Rep, private at 60 {
        /// The sender's number of the connection.
        local_comm_id: u32 = 0, 32;
        /// The asker's number of the connection.
        remote_comm_id: u32 = 4, 32;
        /// Queue key; of datagrams alone.
        local_qkey: u32 = 8, 32;
        /// Queue pair of the sender.
        local_qpn: u32 = 12, 24;
        /// End-to-end context of the sender; of RD alone.
        local_eecn: u32 = 16, 24;
        /// First PSN that the asker is to send.
        starting_psn: u32 = 20, 24;
        /// READs and atomics that the sender answers at once.
        responder_resources: u8 = 24, 8;
        /// READs and atomics that the sender will have outstanding.
        initiator_depth: u8 = 25, 8;
        /// How long the sender takes to acknowledge: 4.096 us times 2 to that power.
        target_ack_delay: u8 = 26, 5;
        /// What became of the alternate path.
        failover_accepted: u8 = 26 + 5, 2;
        /// The sender has end-to-end flow control.
        flow_control: bool = 26 + 7, 1;
        /// Retries after RNR NAKs that the asker shall make; 7: for ever.
        rnr_retry_count: u8 = 27, 3;
        /// The sender's receives come from a shared queue.
        srq: bool = 27 + 3, 1;
        /// Version of selective retransmission to which the sender agrees, that of the REQ; 0: none. Reserved in the standard (12.6.8), as in the REQ.
        selective: u8 = 27 + 4, 4;
        /// GUID of the sender's adapter.
        local_ca_guid: u64 = 28, 64;
    }
}

message! {
    /// RTU: the asker can send and receive (IBTA 12.6.9).
    Rtu, private at 32 {
        /// The sender's number of the connection.
        local_comm_id: u32 = 0, 32;
        /// The receiver's number of the connection.
        remote_comm_id: u32 = 4, 32;
    }
}

message! {
    /// DREQ: ends the connection (IBTA 12.6.10).
    Dreq, private at 36 {
        /// The sender's number of the connection.
        local_comm_id: u32 = 0, 32;
        /// The receiver's number of the connection.
        remote_comm_id: u32 = 4, 32;
        /// Queue pair of the receiver.
        remote_qpn: u32 = 8, 24;
    }
}

message! {
    /// DREP: the answer to it (IBTA 12.6.11).
    Drep, private at 32 {
        /// The sender's number of the connection.
        local_comm_id: u32 = 0, 32;
        /// The receiver's number of the connection.
        remote_comm_id: u32 = 4, 32;
    }
}

message! {
    /// SIDR_REQ: asks for the queue pair of a datagram service (IBTA 12.11.1.1).
    SidrReq, private at 40 {
        /// The asker's number of the request.
        request_id: u32 = 0, 32;
        /// Partition key.
        pkey: u16 = 4, 16;
        /// Service that is asked for: see [`PortSpace::service_id`].
        service_id: u64 = 8, 64;
    }
}

message! {
    /// SIDR_REP: the answer to it (IBTA 12.11.1.2).
    SidrRep, private at 120 {
        /// The asker's number of the request.
        request_id: u32 = 0, 32;
        /// 0 if the service is there: see [`SidrStatus`].
        status: u8 = 4, 8;
        /// Bytes of `info`, of the 72 that there are.
        info_length: u8 = 5, 8;
        /// Queue pair of the service.
        qpn: u32 = 8, 24;
        /// The service.
        service_id: u64 = 12, 64;
        /// Queue key of the queue pair.
        qkey: u32 = 20, 32;
        /// Where to ask instead, by the status: the first 16 of its bytes.
        info: u128 = 24, 128;
    }
}

/// Declares which attribute of the class is which message (IBTA 12.6.1, 16.7.3).
macro_rules! messages {
    ($($(#[doc = $doc:literal])+ $Name:ident = $id:literal;)+) => {
        /// A message.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(clippy::large_enum_variant)] // All are bytes of one MAD.
        pub enum Message {
            $($(#[doc = $doc])+ $Name($Name),)+
        }

        $(impl From<$Name> for Message {
            fn from(message: $Name) -> Self {
                Self::$Name(message)
            }
        })+

        impl Message {
            /// Its name.
            pub fn name(&self) -> &'static str {
                match self { $(Message::$Name(_) => stringify!($Name),)+ }
            }

            /// Its attribute of the class.
            pub fn attribute(&self) -> u16 {
                match self { $(Message::$Name(_) => $id,)+ }
            }

            fn parse(attribute: u16, mad: &[u8; BYTES]) -> Result<Self, MadError> {
                match attribute {
                    $($id => Ok(Message::$Name($Name::parse(mad))),)+
                    other => Err(MadError::Attribute(other)),
                }
            }

            fn emit(&self, mad: &mut [u8; BYTES]) {
                match self { $(Message::$Name(message) => message.emit(mad),)+ }
            }
        }
    };
}

messages! {
    /// Asks for a connection.
    Req = 0x0010;
    /// The answer takes longer.
    Mra = 0x0011;
    /// There will be no connection.
    Rej = 0x0012;
    /// Yes.
    Rep = 0x0013;
    /// The asker is ready.
    Rtu = 0x0014;
    /// Ends a connection.
    Dreq = 0x0015;
    /// It has ended.
    Drep = 0x0016;
    /// Asks for the queue pair of a datagram service.
    SidrReq = 0x0017;
    /// The answer to it.
    SidrRep = 0x0018;
}

/// A management datagram of the communication manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mad {
    /// Which exchange it belongs to.
    pub transaction_id: u64,
    /// What it says.
    pub message: Message,
}

/// The header (IBTA 13.4.2): byte and bytes of each field.
const TRANSACTION_ID: std::ops::Range<usize> = 8..16;
const ATTRIBUTE: std::ops::Range<usize> = 16..18;

impl Mad {
    /// As bytes.
    pub fn to_bytes(&self) -> [u8; BYTES] {
        let mut mad = [0; BYTES];
        mad[..4].copy_from_slice(&[1, CLASS, CLASS_VERSION, METHOD]);
        mad[TRANSACTION_ID].copy_from_slice(&self.transaction_id.to_be_bytes());
        mad[ATTRIBUTE].copy_from_slice(&self.message.attribute().to_be_bytes());
        self.message.emit(&mut mad);
        mad
    }

    /// From bytes.
    ///
    /// # Errors
    /// They are no message of the communication manager.
    pub fn parse(bytes: &[u8]) -> Result<Self, MadError> {
        let mad: &[u8; BYTES] = bytes.try_into().map_err(|_| MadError::Length(bytes.len()))?;
        let header = [
            ("base version", mad[0], 1),
            ("management class", mad[1], CLASS),
            ("class version", mad[2], CLASS_VERSION),
            ("method", mad[3], METHOD),
        ];
        for (field, found, expected) in header {
            if found != expected {
                return Err(MadError::Header { field, found: found.into(), expected: expected.into() });
            }
        }
        let number = |range: std::ops::Range<usize>| get(mad, 8 * range.start, 8 * range.len());
        let message = Message::parse(number(ATTRIBUTE) as u16, mad)?;
        Ok(Self { transaction_id: number(TRANSACTION_ID) as u64, message })
    }
}

#[cfg(test)]
pub(crate) mod tests;
