// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Request`]: a memory request, from bytes and back, and the rules for those that a card sends.

use ferrowire_spec::pcie::{self, kind, request32, request64, Request32, Request64};

use super::RootSettings;

/// Lowest address that takes a header of four double words.
const FOUR_GIB: u64 = 1 << 32;

/// A memory request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Its header. That of three double words is one of four with a low address here.
    pub header: Request64,
    /// The first byte of the packet.
    pub kind: u8,
}

impl Request {
    /// A request to `dwords` double words from `address` on, whose lowest two bits do not count.
    pub fn new(write: bool, address: u64, dwords: u32, first_be: u8, last_be: u8) -> Self {
        let kind = match (write, address < FOUR_GIB) {
            (false, true) => kind::READ32,
            (false, false) => kind::READ64,
            (true, true) => kind::WRITE32,
            (true, false) => kind::WRITE64,
        };
        let length = (dwords % 1024) as u16;
        let (fmt, type_) = (kind >> 5, kind & 31);
        let address = address >> 2;
        let header =
            Request64 { fmt, kind: type_, length, first_be, last_be, address, ..Request64::default() };
        Self { header, kind }
    }

    /// One for the bytes from `address` on.
    pub fn of_bytes(write: bool, address: u64, bytes: usize) -> Self {
        let first = (address % 4) as u32;
        let end = first + bytes as u32;
        let dwords = end.div_ceil(4);
        let last_be = 15 >> (dwords * 4 - end);
        let first_be = 15 << first & 15;
        match dwords {
            1 => Self::new(write, address, 1, first_be & last_be, 0),
            _ => Self::new(write, address, dwords, first_be, last_be),
        }
    }

    /// Reads the header. `None`: it is cut off.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let kind = *packet.first()?;
        if kind >> 5 & 1 == 1 {
            return Some(Self { header: Request64::parse(packet).ok()?, kind });
        }
        let Request32 { fmt, kind: type_, t9, tc, t8, ido, ln, th, td, ep, relaxed, no_snoop, at, .. } =
            Request32::parse(packet).ok()?;
        let Request32 { length, requester, tag, last_be, first_be, address, ph, .. } =
            Request32::parse(packet).ok()?;
        let address = address.into();
        let header = Request64 {
            fmt,
            kind: type_,
            t9,
            tc,
            t8,
            ido,
            ln,
            th,
            td,
            ep,
            relaxed,
            no_snoop,
            at,
            length,
            requester,
            tag,
            last_be,
            first_be,
            address,
            ph,
        };
        Some(Self { header, kind })
    }

    /// The packet, with its data if it has any.
    ///
    /// # Panics
    /// A value does not fit its field.
    pub fn emit(&self, data: &[u8]) -> Vec<u8> {
        let Request64 { fmt, kind, t9, tc, t8, ido, ln, th, td, ep, relaxed, no_snoop, at, .. } = self.header;
        let Request64 { length, requester, tag, last_be, first_be, address, ph, .. } = self.header;
        let mut packet = vec![0; self.header_bytes()];
        let emitted = if self.header_bytes() == request64::BYTES {
            self.header.emit(&mut packet)
        } else {
            let address = address as u32;
            let header = Request32 {
                fmt,
                kind,
                t9,
                tc,
                t8,
                ido,
                ln,
                th,
                td,
                ep,
                relaxed,
                no_snoop,
                at,
                length,
                requester,
                tag,
                last_be,
                first_be,
                address,
                ph,
            };
            header.emit(&mut packet)
        };
        emitted.expect("a request that fits its header");
        packet.extend_from_slice(data);
        packet
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        if self.kind >> 5 & 1 == 1 {
            request64::BYTES
        } else {
            request32::BYTES
        }
    }

    /// Whether data follows the header.
    pub fn has_data(&self) -> bool {
        self.kind >> 6 & 1 == 1
    }

    /// Address of the first double word.
    pub fn address(&self) -> u64 {
        self.header.address << 2
    }

    /// Double words.
    pub fn dwords(&self) -> u32 {
        pcie::count(self.header.length, 10)
    }

    /// The first byte that is enabled, from the first double word on, and the bytes from there to the last one that is
    /// (PCIe 2.3.1.1, tables 2-38 and 2-39). One that enables no byte counts as one byte.
    pub fn span(&self) -> (u32, u32) {
        let (first, last) = (u32::from(self.header.first_be), u32::from(self.header.last_be));
        let high = |enables: u32| if enables == 0 { 0 } else { enables.ilog2() };
        match (self.dwords(), first) {
            (1, 0) => (0, 1),
            (1, _) => (first.trailing_zeros(), high(first) + 1 - first.trailing_zeros()),
            (dwords, _) => {
                let skipped = first.trailing_zeros().min(3);
                (skipped, dwords * 4 - skipped - (3 - high(last)))
            }
        }
    }

    /// Whether a byte, counted from the first double word on, is enabled.
    pub fn enables(&self, byte: u32) -> bool {
        let (be, dwords) = (&self.header, self.dwords());
        match byte / 4 {
            0 => be.first_be >> (byte % 4) & 1 == 1,
            dword if dword + 1 == dwords => be.last_be >> (byte % 4) & 1 == 1,
            dword => dword < dwords,
        }
    }

    /// Whether bytes that are not enabled lie between some that are.
    pub fn has_holes(&self) -> bool {
        let (first, bytes) = self.span();
        (first..first + bytes).any(|byte| !self.enables(byte))
    }

    /// What a violation calls it.
    pub fn name(&self) -> String {
        let what = if self.has_data() { "write" } else { "read" };
        let (dwords, address) = (self.dwords(), self.address());
        format!("memory {what} of {dwords} double words at {address:#x}, tag {:#x}", self.header.tag)
    }

    /// Whether a card may send it, given the whole packet.
    ///
    /// # Errors
    /// The rule that it breaks, and the clause.
    pub fn check(&self, packet: &[u8], settings: &RootSettings) -> Result<(), String> {
        let Request64 { t9, tc, t8, ido, ln, th, td, ep, relaxed, no_snoop, at, .. } = self.header;
        let Request64 { requester, tag, last_be, first_be, ph, .. } = self.header;
        let broken = |what: String, clause: &str| Err(format!("{}: {what} (PCIe {clause})", self.name()));
        let dwords = self.dwords();
        let bytes = 4 * dwords;
        let data = packet.len() - self.header_bytes();
        let wanted = if self.has_data() { bytes as usize } else { 0 };
        if data != wanted {
            return broken(format!("{data} bytes follow the header where {wanted} should"), "2.2.2");
        }
        let zero = [
            ("tag bit 9", t9, "2.2.6.2"),
            ("traffic class", tc != 0, "2.2.6.6"),
            ("tag bit 8", t8, "2.2.6.2"),
            ("ID-based ordering", ido, "2.2.6.4"),
            ("LN", ln, "2.2.1"),
            ("TH", th, "2.2.7.1"),
            ("TD", td, "2.2.3"),
            ("EP", ep, "2.7.2"),
            ("AT", at != 0, "2.2.4.1"),
            ("PH", ph != 0, "2.2.7.1"),
            ("relaxed ordering, which was not enabled,", relaxed && !settings.relaxed_ordering, "2.2.6.4"),
            ("no snoop, which was not enabled,", no_snoop && !settings.no_snoop, "2.2.6.5"),
        ];
        if let Some((field, _, clause)) = zero.iter().find(|(_, set, _)| *set) {
            return broken(format!("{field} is set"), clause);
        }
        if self.header_bytes() == request64::BYTES && self.address() < FOUR_GIB {
            return broken("a header of four double words for an address below 4 GiB".into(), "2.2.4.1");
        }
        if requester != settings.requester {
            let card = settings.requester;
            return broken(format!("requester {requester:#06x}, but the card is {card:#06x}"), "2.2.6.2");
        }
        let enables = format!("first_be {first_be:#x}, last_be {last_be:#x}");
        if dwords == 1 && last_be != 0 {
            return broken(format!("{enables}: last_be of one double word is 0"), "2.2.5");
        }
        if dwords > 1 && (first_be == 0 || last_be == 0) {
            return broken(format!("{enables}: neither is 0 with more than one double word"), "2.2.5");
        }
        let may_have_holes = dwords == 1 || (dwords == 2 && self.address() % 8 == 0);
        if !may_have_holes && self.has_holes() {
            return broken(format!("{enables}: enabled bytes are not contiguous"), "2.2.5");
        }
        if self.address() % u64::from(pcie::PAGE) + u64::from(bytes) > u64::from(pcie::PAGE) {
            return broken("it crosses a boundary of 4 KiB".into(), "2.2.7");
        }
        if self.has_data() && bytes > settings.max_payload {
            return broken(format!("the largest payload is {} bytes", settings.max_payload), "2.2.2");
        }
        if !self.has_data() && bytes > settings.max_read_request {
            return broken(format!("the largest read is {} bytes", settings.max_read_request), "2.2.7");
        }
        if !self.has_data() && usize::from(tag) >= settings.tags() {
            return broken(format!("there are {} tags", settings.tags()), "2.2.6.2");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_those_of_the_standards_table() {
        // PCIe 2.3.1.1, tables 2-38 and 2-39: one double word, then more.
        for first_be in 0..16u8 {
            let request = Request::new(false, 0, 1, first_be, 0);
            let enabled: Vec<u32> = (0..4).filter(|byte| first_be >> byte & 1 == 1).collect();
            let expected = match (enabled.first(), enabled.last()) {
                (Some(first), Some(last)) => (*first, last - first + 1),
                _ => (0, 1),
            };
            assert_eq!(request.span(), expected, "first_be {first_be:#x}");
        }
        for (first_be, last_be, expected) in
            [(15, 15, (0, 12)), (8, 1, (3, 6)), (12, 7, (2, 9)), (1, 8, (0, 12))]
        {
            assert_eq!(Request::new(false, 0, 3, first_be, last_be).span(), expected);
        }
    }

    #[test]
    fn requests_for_bytes_enable_these_and_no_others() {
        for address in [0x1000u64, 0x1001, 0x1_0000_0002, 0xf003] {
            for bytes in 1..40 {
                let request = Request::of_bytes(true, address, bytes);
                let at = address % 4;
                assert_eq!(request.span(), (at as u32, bytes as u32));
                let enabled: Vec<u64> =
                    (0..64).filter(|byte| request.enables(*byte)).map(u64::from).collect();
                assert_eq!(enabled, (at..at + bytes as u64).collect::<Vec<_>>());
                let data = vec![0; 4 * request.dwords() as usize];
                let packet = request.emit(&data);
                assert_eq!(Request::parse(&packet), Some(request));
                let settings =
                    RootSettings { requester: request.header.requester, ..RootSettings::default() };
                assert_eq!(request.check(&packet, &settings), Ok(()));
            }
        }
    }
}
