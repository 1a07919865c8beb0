// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of the vfio-user protocol, version 0.1, as bytes; nothing here reads or writes a socket.
//!
//! A message is a [`Header`] and a body. A body begins with one of the structures below, by its command:
//!
//! | command | body of the command | body of the reply |
//! |---|---|---|
//! | `VERSION` | [`Version`], JSON, 0 | the same |
//! | `DMA_MAP`, with a file | [`DmaMap`] | nothing |
//! | `DMA_UNMAP` | [`DmaUnmap`] | the same |
//! | `DEVICE_GET_INFO` | [`DeviceInfo`] | the same |
//! | `DEVICE_GET_REGION_INFO` | [`RegionInfo`] | the same |
//! | `DEVICE_GET_IRQ_INFO` | [`IrqInfo`] | the same |
//! | `DEVICE_SET_IRQS`, with event files | [`IrqSet`] | nothing |
//! | `REGION_READ` | [`RegionAccess`] | the same, and the data |
//! | `REGION_WRITE` | [`RegionAccess`] and the data | [`RegionAccess`] |
//! | `DEVICE_RESET` | nothing | nothing |
//!
//! Numbers have the byte order of the host, which both ends share; it is little-endian on all that the card runs on. Where a structure has
//! `argsz`, it is the number of bytes that whoever reads the answer has room for.

use std::net::IpAddr;

/// Longest body of either direction: that of an access of [`MAX_TRANSFER`] bytes.
pub const MAX_BODY: usize = RegionAccess::BYTES + MAX_TRANSFER;
/// Most bytes of a region that one message reads or writes, as both ends say in `VERSION`.
pub const MAX_TRANSFER: usize = 4096;
/// Most files of a message, as both ends say in `VERSION`.
pub const MAX_FILES: usize = 8;
/// Version of the protocol.
pub const MAJOR: u16 = 0;
/// The same.
pub const MINOR: u16 = 1;

/// Commands that a card answers.
pub mod command {
    /// The first: which version, and which limits.
    pub const VERSION: u16 = 1;
    /// The card may reach memory.
    pub const DMA_MAP: u16 = 2;
    /// It may not any more.
    pub const DMA_UNMAP: u16 = 3;
    /// What kind of device it is.
    pub const DEVICE_GET_INFO: u16 = 4;
    /// What a region is.
    pub const DEVICE_GET_REGION_INFO: u16 = 5;
    /// How many interrupts of a kind there are.
    pub const DEVICE_GET_IRQ_INFO: u16 = 7;
    /// Where interrupts go.
    pub const DEVICE_SET_IRQS: u16 = 8;
    /// Reads BAR or configuration space.
    pub const REGION_READ: u16 = 9;
    /// Writes it.
    pub const REGION_WRITE: u16 = 10;
    /// As after power-on.
    pub const DEVICE_RESET: u16 = 13;

    /// The name, for messages to people.
    pub fn name(command: u16) -> &'static str {
        match command {
            VERSION => "version",
            DMA_MAP => "map memory",
            DMA_UNMAP => "unmap memory",
            DEVICE_GET_INFO => "device info",
            DEVICE_GET_REGION_INFO => "region info",
            DEVICE_GET_IRQ_INFO => "interrupt info",
            DEVICE_SET_IRQS => "set interrupts",
            REGION_READ => "region read",
            REGION_WRITE => "region write",
            DEVICE_RESET => "reset",
            _ => "unknown command",
        }
    }
}

/// Regions and interrupts of a PCI device, by their index, and flags.
pub mod pci {
    /// Region of BAR 0.
    pub const BAR0: u32 = 0;
    /// Region of the configuration space.
    pub const CONFIG: u32 = 7;
    /// Regions, those that are empty included.
    pub const REGIONS: u32 = 9;
    /// Interrupts by MSI-X.
    pub const MSIX: u32 = 2;
    /// Kinds of interrupts.
    pub const IRQS: u32 = 5;

    /// The device can be reset.
    pub const DEVICE_RESET: u32 = 1 << 0;
    /// The device is on a PCI bus.
    pub const DEVICE_PCI: u32 = 1 << 1;
    /// The region can be read.
    pub const REGION_READ: u32 = 1 << 0;
    /// The region can be written.
    pub const REGION_WRITE: u32 = 1 << 1;
    /// Interrupts go to event files.
    pub const IRQ_EVENTFD: u32 = 1 << 0;
    /// No data: what is asked for is done to all vectors of the range; none for the whole kind ends it.
    pub const DATA_NONE: u32 = 1 << 0;
    /// A byte for each vector.
    pub const DATA_BOOL: u32 = 1 << 1;
    /// A file for each vector; none takes those that are there.
    pub const DATA_EVENTFD: u32 = 1 << 2;
    /// Hold interrupts back.
    pub const ACTION_MASK: u32 = 1 << 3;
    /// Let them go.
    pub const ACTION_UNMASK: u32 = 1 << 4;
    /// Say where they go, or raise them.
    pub const ACTION_TRIGGER: u32 = 1 << 5;
    /// The card reads the memory.
    pub const DMA_READ: u32 = 1 << 0;
    /// The card writes the memory.
    pub const DMA_WRITE: u32 = 1 << 1;
    /// Everything is unmapped.
    pub const UNMAP_ALL: u32 = 1 << 1;
}

/// The first bytes of each message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Chosen by who asks; the answer has the same.
    pub id: u16,
    /// What is asked for: see [`command`].
    pub command: u16,
    /// Bytes of the message, these included.
    pub size: u32,
    /// [`REPLY`](Self::REPLY), [`NO_REPLY`](Self::NO_REPLY), [`ERROR`](Self::ERROR).
    pub flags: u32,
    /// Of an error: the number that the system has for it.
    pub error: u32,
}

impl Header {
    /// Bytes of it.
    pub const BYTES: usize = 16;
    /// Type of the message: an answer.
    pub const REPLY: u32 = 1;
    /// Nobody waits for an answer.
    pub const NO_REPLY: u32 = 1 << 4;
    /// The answer: it was not done.
    pub const ERROR: u32 = 1 << 5;
    /// Bits of the type.
    const TYPE: u32 = 0xf;

    /// Of a command with so many bytes behind it.
    pub fn of(id: u16, command: u16, body: usize) -> Self {
        Self { id, command, size: (Self::BYTES + body) as u32, flags: 0, error: 0 }
    }

    /// Of the answer, with so many bytes behind it.
    pub fn reply(&self, body: usize) -> Self {
        Self { flags: Self::REPLY, ..Self::of(self.id, self.command, body) }
    }

    /// Of the answer that says why not.
    pub fn refusal(&self, errno: i32) -> Self {
        Self { flags: Self::REPLY | Self::ERROR, error: errno as u32, ..Self::of(self.id, self.command, 0) }
    }

    /// Whether it is an answer.
    pub fn is_reply(&self) -> bool {
        self.flags & Self::TYPE == Self::REPLY
    }

    /// Whether it is a command.
    pub fn is_command(&self) -> bool {
        self.flags & Self::TYPE == 0
    }

    /// Whether nobody waits for the answer.
    pub fn wants_no_reply(&self) -> bool {
        self.flags & Self::NO_REPLY != 0
    }

    /// Of an answer that says why not: why.
    pub fn errno(&self) -> Option<i32> {
        (self.flags & Self::ERROR != 0).then_some(self.error as i32)
    }

    /// Bytes behind it; `None` when its size cannot be: shorter than itself, or longer than any message.
    pub fn body(&self) -> Option<usize> {
        (self.size as usize).checked_sub(Self::BYTES).filter(|bytes| *bytes <= MAX_BODY)
    }

    /// From bytes.
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self {
            id: word(0) as u16,
            command: (word(0) >> 16) as u16,
            size: word(4),
            flags: word(8),
            error: word(12),
        }
    }

    /// As bytes.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let words = [u32::from(self.id) | u32::from(self.command) << 16, self.size, self.flags, self.error];
        let mut bytes = [0; Self::BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(4).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// Structures of numbers, one behind the other.
macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $name {
            /// Bytes of it.
            pub const BYTES: usize = 0 $(+ std::mem::size_of::<$type>())*;

            /// From the first bytes of a body; and the rest. `None` when there are too few.
            pub fn parse(body: &[u8]) -> Option<(Self, &[u8])> {
                let (mine, rest) = body.split_at_checked(Self::BYTES)?;
                let mut at = 0;
                $(
                    let end = at + std::mem::size_of::<$type>();
                    let $field = <$type>::from_le_bytes(mine.get(at..end)?.try_into().ok()?);
                    at = end;
                )*
                debug_assert_eq!(at, Self::BYTES);
                Some((Self { $($field,)* }, rest))
            }

            /// As bytes.
            pub fn to_bytes(&self) -> [u8; Self::BYTES] {
                let mut bytes = [0; Self::BYTES];
                let mut rest = &mut bytes[..];
                $(
                    let (mine, others) = rest.split_at_mut(std::mem::size_of::<$type>());
                    mine.copy_from_slice(&self.$field.to_le_bytes());
                    rest = others;
                )*
                debug_assert!(rest.is_empty());
                bytes
            }
        }
    )*};
}
pub(crate) use structures;

structures! {
    /// Which protocol. JSON follows, and a byte 0.
    Version {
        /// Both ends must have the same.
        major: u16,
        /// The answer has the smaller one.
        minor: u16,
    }

    /// The card may reach memory.
    DmaMap {
        /// Bytes of this.
        argsz: u32,
        /// [`pci::DMA_READ`] and [`pci::DMA_WRITE`].
        flags: u32,
        /// Where in the file that comes with it.
        offset: u64,
        /// Bus address.
        address: u64,
        /// Bytes.
        size: u64,
    }

    /// It may not any more.
    DmaUnmap {
        /// Bytes of this.
        argsz: u32,
        /// [`pci::UNMAP_ALL`].
        flags: u32,
        /// Bus address.
        address: u64,
        /// Bytes.
        size: u64,
    }

    /// What kind of device it is.
    DeviceInfo {
        /// Bytes of this.
        argsz: u32,
        /// [`pci::DEVICE_RESET`] and [`pci::DEVICE_PCI`].
        flags: u32,
        /// Regions.
        regions: u32,
        /// Kinds of interrupts.
        irqs: u32,
    }

    /// What a region is.
    RegionInfo {
        /// Bytes of this.
        argsz: u32,
        /// [`pci::REGION_READ`] and [`pci::REGION_WRITE`].
        flags: u32,
        /// Which region.
        index: u32,
        /// Where more of it is told; 0: nowhere.
        capabilities: u32,
        /// Bytes; 0: there is none.
        size: u64,
        /// Where it is in the file of a region that can be mapped.
        offset: u64,
    }

    /// How many interrupts of a kind there are.
    IrqInfo {
        /// Bytes of this.
        argsz: u32,
        /// [`pci::IRQ_EVENTFD`].
        flags: u32,
        /// Which kind.
        index: u32,
        /// Vectors; 0: it has none of that kind.
        count: u32,
    }

    /// Where interrupts go, or what becomes of them.
    IrqSet {
        /// Bytes of this and what follows.
        argsz: u32,
        /// One of the `DATA` and one of the `ACTION` flags of [`pci`].
        flags: u32,
        /// Which kind.
        index: u32,
        /// First vector.
        start: u32,
        /// Vectors.
        count: u32,
    }

    /// An access to a region.
    RegionAccess {
        /// Where in the region.
        offset: u64,
        /// Which region.
        region: u32,
        /// Bytes.
        count: u32,
    }
}

/// What both ends say of themselves behind [`Version`], with the 0 that ends it.
pub fn capabilities() -> Vec<u8> {
    let text = format!(
        "{{\"capabilities\":{{\"max_msg_fds\":{MAX_FILES},\"max_data_xfer_size\":{MAX_TRANSFER}}}}}\0"
    );
    text.into_bytes()
}

/// A capability of this project: the client observes. It reads regions and asks what there is, and nothing else, beside the client that has
/// the device. A server that knows it says it, too.
pub const OBSERVER: &str = "ferrowire_observer";

/// A capability of this project: IP addresses that the server's owner has given the card, for programs to put into its table of GIDs. A list of strings.
pub const ADDRESSES: &str = "ferrowire_addresses";

/// A capability of this project: the server has no card, but the reference engine in the place of one. Its times are the model's own.
pub const ENGINE: &str = "ferrowire_engine";

/// As [`capabilities`], of an observer.
pub fn observer_capabilities() -> Vec<u8> {
    server_capabilities(true, false, &[])
}

/// As [`capabilities`], of a server: to an observer or to the device's client.
pub fn server_capabilities(observer: bool, engine: bool, addresses: &[IpAddr]) -> Vec<u8> {
    let mut text =
        format!("{{\"capabilities\":{{\"max_msg_fds\":{MAX_FILES},\"max_data_xfer_size\":{MAX_TRANSFER}");
    for (name, holds) in [(OBSERVER, observer), (ENGINE, engine)] {
        if holds {
            text += &format!(",\"{name}\":true");
        }
    }
    if !addresses.is_empty() {
        let list: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
        text += &format!(",\"{ADDRESSES}\":[{}]", list.join(","));
    }
    text += "}}\0";
    text.into_bytes()
}

/// Whether the other end has said that a capability holds.
pub fn holds(said: &[u8], capability: &str) -> bool {
    let text = format!("\"{capability}\":true");
    said.windows(text.len()).any(|part| part == text.as_bytes())
}

/// The addresses that a server has told; none, if it is another's, or what it says is none.
pub fn addresses(said: &[u8]) -> Vec<IpAddr> {
    let said = String::from_utf8_lossy(said);
    let list = said.split_once(&format!("\"{ADDRESSES}\":[")).and_then(|(_, rest)| rest.split_once(']'));
    let each = list.map(|(list, _)| list.split(',')).into_iter().flatten();
    each.filter_map(|item| item.trim().trim_matches('"').parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_where_the_protocol_has_it() {
        let header = Header { id: 0x0201, command: 0x0403, size: 0x0807_0605, flags: 0x21, error: 22 };
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 0x21, 0, 0, 0, 22, 0, 0, 0];
        assert_eq!((header.to_bytes(), Header::parse(&bytes)), (bytes, header));
        assert_eq!((header.is_reply(), header.errno(), header.wants_no_reply()), (true, Some(22), false));
    }

    #[test]
    fn a_size_that_cannot_be_is_none() {
        let body = |size| Header { size, ..Header::default() }.body();
        assert_eq!([0, 15, 16, 48].map(body), [None, None, Some(0), Some(32)]);
        let most = (Header::BYTES + MAX_BODY) as u32;
        assert_eq!([most, most + 1, u32::MAX].map(body), [Some(MAX_BODY), None, None]);
    }

    #[test]
    fn an_answer_has_the_number_of_its_question() {
        let question = Header::of(7, command::REGION_READ, RegionAccess::BYTES);
        assert_eq!((question.size, question.is_command()), (32, true));
        assert_eq!(question.reply(4), Header { id: 7, command: 9, size: 20, flags: 1, error: 0 });
        assert_eq!(question.refusal(22), Header { id: 7, command: 9, size: 16, flags: 0x21, error: 22 });
    }

    #[test]
    fn structures_are_their_fields_in_a_row() {
        assert_eq!((Version::BYTES, DmaMap::BYTES, DmaUnmap::BYTES, DeviceInfo::BYTES), (4, 32, 24, 16));
        assert_eq!((RegionInfo::BYTES, IrqInfo::BYTES, IrqSet::BYTES, RegionAccess::BYTES), (32, 16, 20, 16));
        let map = DmaMap { argsz: 32, flags: 3, offset: 0x1000, address: 0x10_0000_0000, size: 0x2000 };
        let mut bytes = map.to_bytes().to_vec();
        assert_eq!(bytes[8..16], [0, 0x10, 0, 0, 0, 0, 0, 0]);
        bytes.push(9);
        assert_eq!(DmaMap::parse(&bytes), Some((map, &[9][..])));
        assert!((0..DmaMap::BYTES).all(|cut| DmaMap::parse(&bytes[..cut]).is_none()));
    }

    #[test]
    fn addresses_come_as_they_were_told() {
        let told: [IpAddr; 2] = ["10.0.0.7".parse().unwrap(), "fd00::7".parse().unwrap()];
        for observer in [false, true] {
            assert_eq!(addresses(&server_capabilities(observer, !observer, &told)), told);
            let said = server_capabilities(observer, !observer, &[]);
            assert!(addresses(&said).is_empty());
            assert_eq!((holds(&said, OBSERVER), holds(&said, ENGINE)), (observer, !observer));
        }
        assert_eq!(server_capabilities(false, false, &[]), capabilities());
        for other in ["", "{}", "\"ferrowire_addresses\":[", "\"ferrowire_addresses\":[7,\"x\"]"] {
            assert!(addresses(other.as_bytes()).is_empty(), "{other}");
        }
        assert_eq!(addresses(b"\"ferrowire_addresses\":[ \"::1\" , 8]"), ["::1".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn capabilities_end_with_a_zero() {
        let text = capabilities();
        assert_eq!(text.iter().filter(|byte| **byte == 0).count(), 1);
        assert_eq!(text.last(), Some(&0));
    }
}
