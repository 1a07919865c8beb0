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
    /// State of the link.
    LINK link @ 0x0c {
        /// The link is up.
        up @ 0, 1, RO;
        /// Take packets for any MAC address. A reset clears it.
        promiscuous @ 1, 1, RW;
        /// Speed in units of 100 Mb/s.
        speed @ 16, 16, RO;
    }
    /// Address of the entry that `gid_write` writes, bits 31:0; IPv4 in these alone.
    GID_IP0 gid_ip0 @ 0x10 {
        /// Bits 31:0.
        value @ 0, 32, WO;
    }
    /// The same, bits 63:32.
    GID_IP1 gid_ip1 @ 0x14 {
        /// Bits 63:32.
        value @ 0, 32, WO;
    }
    /// The same, bits 95:64.
    GID_IP2 gid_ip2 @ 0x18 {
        /// Bits 95:64.
        value @ 0, 32, WO;
    }
    /// The same, bits 127:96.
    GID_IP3 gid_ip3 @ 0x1c {
        /// Bits 127:96.
        value @ 0, 32, WO;
    }
    /// What else the entry says.
    GID_KIND gid_kind @ 0x20 {
        /// Packets to it are in this VLAN; 0 without `tagged`.
        vid @ 0, 12, WO;
        /// Packets to it are in a VLAN. Otherwise they have no tag, or one of VLAN 0, which is a priority alone.
        tagged @ 12, 1, WO;
        /// The address is IPv6.
        ipv6 @ 13, 1, WO;
    }
    /// Writing puts address and kind into the table of the port's GIDs (IBTA A17.4.3), or takes an entry out. A reset empties the table.
    GID_WRITE gid_write @ 0x24 {
        /// Which entry.
        index @ 0, 4, WO;
        /// Its slot, which follows from address, kind and `gid_salt` as [`GidEntry::slot`] says; no two entries share one.
        slot @ 8, 8, WO;
        /// There is such an entry.
        valid @ 16, 1, WO;
    }
    /// How slots follow from addresses. To be changed only while the table is empty. A reset gives it its first value again.
    GID_SALT gid_salt @ 0x28 {
        /// Odd.
        value @ 0, 16, RW = 0x9e37;
    }
    /// Which frames that are not RoCE go to the raw Ethernet queue pair; the others are dropped as `not_roce`. A reset clears it.
    RAW raw @ 0x2c {
        /// Those to the port's MAC address; with `promiscuous`, those to any.
        unicast @ 0, 1, RW;
        /// Those to the broadcast address.
        broadcast @ 1, 1, RW;
        /// Those to every other group address.
        multicast @ 2, 1, RW;
        /// The card answers ARP requests and neighbour solicitations for the port's GIDs itself, for boards without a host. No request or
        /// solicitation goes to the queue pair then.
        respond @ 8, 1, RW;
        /// The raw Ethernet queue pair may send frames that a receiver takes for RoCE, in the port's name and with any other address. Without
        /// it they end with `RAW_ROCE`.
        roce @ 9, 1, RW;
    }
    /// Group addresses whose frames go to the raw Ethernet queue pair: bits 31:0 of a table in which each has the bit of its
    /// [`hash`](multicast_hash). A reset clears it.
    RAW_HASH_LO raw_hash_lo @ 0x30 {
        /// Bits 31:0.
        value @ 0, 32, RW;
    }
    /// The same, bits 63:32.
    RAW_HASH_HI raw_hash_hi @ 0x34 {
        /// Bits 63:32.
        value @ 0, 32, RW;
    }
    /// What AMD's PCIe block and its 100 Gb/s Ethernet block say of their links, on cards before these; zero on others.
    PHY phy @ 0x38 {
        /// State of PCIe's link training, `cfg_ltssm_state` (PG213): 16 is L0.
        ltssm @ 0, 6, RO;
        /// The receiver is aligned.
        aligned @ 8, 1, RO;
        /// The receiver has no signal that it can use, or the peer says so of its own.
        local_fault @ 9, 1, RO;
        /// The peer does not hear this end.
        remote_fault @ 10, 1, RO;
        /// Too many bit errors.
        high_ber @ 11, 1, RO;
        /// The receiver is in reset.
        rx_reset @ 12, 1, RO;
        /// The transmitter is in reset.
        tx_reset @ 13, 1, RO;
    }
    /// Code words of RS-FEC that had errors and were corrected, since the last reset by the host's bus. It wraps.
    FEC_CORRECTED fec_corrected @ 0x3c {
        /// How many.
        value @ 0, 32, RO;
    }
    /// The same of those that could not be corrected.
    FEC_UNCORRECTED fec_uncorrected @ 0x40 {
        /// How many.
        value @ 0, 32, RO;
    }
}

/// The bit of a group address, as a number whose high byte is sent first, in the table of [`RAW_HASH_LO`]: its eight parts of six bits,
/// joined by exclusive or. Others may share it.
pub const fn multicast_hash(mac: u64) -> u8 {
    let (mut fold, mut at) = (0, 0);
    while at < 48 {
        fold ^= mac >> at & 0x3f;
        at += 6;
    }
    fold as u8
}

/// Entries of the table of GIDs.
pub const GIDS: u32 = 16;
/// Slots of these: an entry is found by its slot.
pub const GID_SLOTS: u32 = 256;
/// Bits to which address and kind are folded.
pub const GID_FOLD: u32 = 26;

/// An address that packets come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GidEntry {
    /// The address; IPv4 in the low 32 bits.
    pub ip: u128,
    /// It is IPv6.
    pub ipv6: bool,
    /// VLAN of the packets, not 0.
    pub vid: Option<u16>,
}

impl GidEntry {
    /// The kind, as `gid_kind` has it.
    pub const fn kind(&self) -> u32 {
        let vid = match self.vid {
            Some(vid) => 1 << 12 | vid as u32 & 0xfff,
            None => 0,
        };
        vid | (self.ipv6 as u32) << 13
    }

    /// Where the card looks for it: address and kind side by side, folded by exclusive or, times the salt. Of the product, low bits
    /// tell addresses that differ in the low bits of the fold, high bits the others.
    pub const fn slot(&self, salt: u16) -> u8 {
        const WORD: u128 = (1 << GID_FOLD) - 1;
        let (mut fold, mut at) = (0, 0);
        while at < 128 {
            fold ^= self.ip >> at & WORD;
            at += GID_FOLD;
        }
        // The kind begins in the middle of the word that the address ends in.
        let kind = (self.kind() as u128) << (128 - (at - GID_FOLD));
        fold ^= kind & WORD ^ kind >> GID_FOLD;
        let product = fold * salt as u128;
        (product >> 8 ^ product >> GID_FOLD) as u8
    }
}
