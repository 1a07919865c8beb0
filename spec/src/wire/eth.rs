// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ethernet header, without preamble and frame check sequence.

crate::table::layout! {
    /// Ethernet header, without preamble and frame check sequence.
    struct Eth, "eth", Network, 14 bytes, "IEEE 802.3 3.2";
    /// Destination MAC address.
    DST dst: u64 @ 0, 48, RW, "IEEE 802.3 3.2.4";
    /// Source MAC address.
    SRC src: u64 @ 48, 48, RW, "IEEE 802.3 3.2.5";
    /// Protocol of what follows, one of [`ethertype`].
    ETHERTYPE ethertype: u16 @ 96, 16, RW, "IEEE 802.3 3.2.6";
}

/// A MAC address as these fields have it: the byte that is sent first is the highest.
pub fn mac_number(mac: [u8; 6]) -> u64 {
    mac.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Protocols named by `ethertype`.
pub mod ethertype {
    /// Internet protocol version 4.
    pub const IPV4: u16 = 0x0800;
    /// Address resolution protocol.
    pub const ARP: u16 = 0x0806;
    /// A customer VLAN tag follows.
    pub const VLAN: u16 = 0x8100;
    /// MAC control: PAUSE or PFC follows.
    pub const MAC_CONTROL: u16 = 0x8808;
    /// RoCE of the first version (IBTA annex A16), which the card does not have.
    pub const ROCE: u16 = 0x8915;
    /// Internet protocol version 6.
    pub const IPV6: u16 = 0x86dd;
}
