// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network port.

crate::table::registers! {
    /// The network port.
    block "port", 0x0180, 0x80 bytes;
    /// Low word of the port's MAC address, as a number whose high byte is sent first.
    MAC_LO mac_lo @ 0x00 {
        /// Bits 31:0.
        value @ 0, 32, RW;
    }
    /// High word of the port's MAC address.
    MAC_HI mac_hi @ 0x04 {
        /// Bits 47:32.
        value @ 0, 16, RW;
    }
    /// IPv4 address that the hardware answers ARP for, on boards without a host.
    IPV4 ipv4 @ 0x08 {
        /// The address as a number; 0: answers nothing.
        value @ 0, 32, RW;
    }
    /// State of the link.
    LINK link @ 0x0c {
        /// The link is up.
        up @ 0, 1, RO;
        /// Take packets for any MAC address.
        promiscuous @ 1, 1, RW;
        /// Speed in units of 100 Mb/s.
        speed @ 16, 16, RO;
    }
}
