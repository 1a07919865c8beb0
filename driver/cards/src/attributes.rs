// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes of a device and of its port that verbs have and no register holds: `ferrowire info` and `ibv_devinfo` print the same.

use ferrowire::Capabilities;

/// Entries of the table of partition keys: the default partition (IBTA 10.9.2).
pub const PKEYS: u16 = 1;

/// `port_cap_flags`: a connection manager, GIDs made of IP addresses.
pub const PORT_FLAGS: u32 = 1 << 16 | 1 << 26;

/// Virtual lanes of a port, as a code: one.
pub const MAX_VL: u8 = 1;

/// Flags of `enum ibv_device_cap_flags` that a card of ours may have.
pub const DEVICE_FLAGS: [(u32, &str); 8] = [
    (1 << 1, "BAD_PKEY_CNTR"),
    (1 << 2, "BAD_QKEY_CNTR"),
    (1 << 7, "CURR_QP_STATE_MOD"),
    (1 << 10, "PORT_ACTIVE_EVENT"),
    (1 << 11, "SYS_IMAGE_GUID"),
    (1 << 12, "RC_RNR_NAK_GEN"),
    (1 << 17, "MEM_WINDOW"),
    (1 << 24, "MEM_WINDOW_TYPE_2B"),
];

/// `device_cap_flags`.
pub fn device_flags(can: &Capabilities) -> u32 {
    let has = |flag: &str| match flag {
        "RC_RNR_NAK_GEN" => can.rc,
        "MEM_WINDOW" | "MEM_WINDOW_TYPE_2B" => can.memory_windows,
        // Packets with a wrong partition key or queue key are counted; `cur_state` is an attribute of MODIFY_QP.
        _ => true,
    };
    DEVICE_FLAGS.iter().filter(|(_, flag)| has(flag)).fold(0, |all, (bit, _)| all | bit)
}

/// Lanes and rate of a link as InfiniBand has them: the slowest that is not slower than the card's, so that programs which compute with it have a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Code of `active_width`: 1 is one lane, 2 is four.
    pub width: u8,
    /// Code of `active_speed`, the rate of a lane.
    pub speed: u8,
    /// Lanes.
    pub lanes: u8,
    /// Rate of a lane in units of 100 Mb/s.
    pub lane: u16,
}

impl Link {
    /// Of a port's speed in units of 100 Mb/s.
    pub fn of(speed: u16) -> Self {
        // IBTA 14.2.5.6.
        const ALL: [(u8, u8, u8, u16); 10] = [
            (1, 1, 1, 25),
            (1, 2, 1, 50),
            (1, 4, 1, 100),
            (1, 16, 1, 140),
            (1, 32, 1, 250),
            (2, 4, 4, 100),
            (2, 16, 4, 140),
            (2, 32, 4, 250),
            (2, 64, 4, 500),
            (2, 128, 4, 1000),
        ];
        let fits = |(_, _, lanes, lane): &(u8, u8, u8, u16)| u16::from(*lanes) * lane >= speed;
        let found = ALL.iter().copied().find(fits);
        let (width, speed, lanes, lane) = found.unwrap_or(ALL[ALL.len() - 1]);
        Self { width, speed, lanes, lane }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_at_least_as_fast_as_the_port() {
        for speed in [0, 10, 25, 100, 250, 400, 500, 1000, 2000, 4000] {
            let link = Link::of(speed);
            assert!(u16::from(link.lanes) * link.lane >= speed, "{speed}: {link:?}");
        }
        let (width, speed) = (Link::of(1000).width, Link::of(1000).speed);
        assert_eq!((width, speed), (2, 32), "four lanes of EDR");
        assert_eq!(Link::of(u16::MAX).speed, 128);
    }
}
