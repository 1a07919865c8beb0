// SPDX-License-Identifier: MIT OR Apache-2.0
//! 802.1Q tag: what stands between an ethertype of 0x8100 and the payload.

crate::table::layout! {
    /// 802.1Q tag: what stands between an ethertype of 0x8100 and the payload.
    struct Vlan, "vlan", Network, 4 bytes, "IEEE 802.1Q 9.6";
    /// Priority code point.
    PCP pcp: u8 @ 0, 3, RW;
    /// Drop eligible indicator.
    DEI dei: bool @ 3, 1, RW;
    /// VLAN identifier.
    VID vid: u16 @ 4, 12, RW;
    /// Protocol of what follows.
    ETHERTYPE ethertype: u16 @ 16, 16, RW;
}

impl Vlan {
    /// The 16 bits of tag control information: priority, drop eligible, identifier.
    pub const fn tci(&self) -> u16 {
        (self.pcp as u16) << 13 | (self.dei as u16) << 12 | self.vid
    }

    /// A tag from its 16 bits of control information and the protocol behind it.
    pub const fn from_tci(tci: u16, ethertype: u16) -> Self {
        Vlan { pcp: (tci >> 13) as u8, dei: tci >> 12 & 1 == 1, vid: tci & 0xfff, ethertype }
    }
}
