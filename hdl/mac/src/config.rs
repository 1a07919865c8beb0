// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`MacConfig`]: widths and depths.

/// What a MAC is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacConfig {
    /// Bytes a beat on the side of the core: 8, 16, 32 or 64.
    pub beat_bytes: u32,
    /// The longest frame, FCS included (`maxFrameSize` of IEEE 802.3 4.4.2): 1,518 to 16,384. What is longer is dropped, in both directions.
    pub max_frame: u32,
    /// Where received frames wait for the core: a power of two that holds the longest frame.
    pub rx_buffer_bytes: u32,
    /// Where frames wait until they are whole: likewise.
    pub tx_buffer_bytes: u32,
}

/// A value that a MAC cannot be built with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("MAC: {field} = {value}: must be {allowed}")]
pub struct ConfigError {
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub value: u32,
    /// What is allowed.
    pub allowed: String,
}

impl MacConfig {
    /// For a core of `beat_bytes`: frames with 9,000 bytes behind the Ethernet header and a VLAN tag, and two buffers of 16 KiB.
    pub fn jumbo(beat_bytes: u32) -> MacConfig {
        let max_frame = 14 + 4 + 9000 + FCS_BYTES;
        MacConfig { beat_bytes, max_frame, rx_buffer_bytes: 16384, tx_buffer_bytes: 16384 }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first field out of range, with what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let range = |field, value: u32, fits: bool, allowed: String| match fits {
            true => Ok(()),
            false => Err(ConfigError { field, value, allowed }),
        };
        let width = self.beat_bytes;
        let fits = width.is_power_of_two() && (8..=64).contains(&width);
        range("beat_bytes", width, fits, "8, 16, 32 or 64".into())?;
        let most = self.max_frame;
        range("max_frame", most, (1518..=16384).contains(&most), "from 1518 to 16384".into())?;
        let least = (most - FCS_BYTES).next_multiple_of(width).next_power_of_two();
        for (field, bytes) in
            [("rx_buffer_bytes", self.rx_buffer_bytes), ("tx_buffer_bytes", self.tx_buffer_bytes)]
        {
            let fits = bytes.is_power_of_two() && (least..=1 << 20).contains(&bytes);
            range(field, bytes, fits, format!("a power of two from {least} to 1048576"))?;
        }
        Ok(())
    }

    /// Beats of the longest frame without its FCS.
    pub(crate) fn most_beats(&self) -> u32 {
        (self.max_frame - FCS_BYTES).div_ceil(self.beat_bytes)
    }

    /// Bytes of its last beat that are not its own, at least.
    pub(crate) fn most_empty(&self) -> u32 {
        self.most_beats() * self.beat_bytes - (self.max_frame - FCS_BYTES)
    }
}

/// Bytes of the frame check sequence (IEEE 802.3 3.2.9).
pub const FCS_BYTES: u32 = 4;
/// The shortest frame, FCS included (`minFrameSize` of IEEE 802.3 4.4.2).
pub const MIN_FRAME: u32 = 64;
/// Bytes between two frames that are sent (`interPacketGap` of IEEE 802.3 4.4.2: 96 bits).
pub const GAP_BYTES: u32 = 12;
/// Bytes of the preamble (IEEE 802.3 3.2.1), each [`PREAMBLE`].
pub const PREAMBLE_BYTES: u32 = 7;
/// A byte of the preamble, its first bit lowest.
pub const PREAMBLE: u32 = 0x55;
/// The start frame delimiter (IEEE 802.3 3.2.2).
pub const SFD: u32 = 0xd5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_built_is_refused_with_what_is_allowed() {
        assert!([8, 16, 32, 64].iter().all(|width| MacConfig::jumbo(*width).validate().is_ok()));
        let good = MacConfig::jumbo(8);
        let error = |cfg: MacConfig| cfg.validate().unwrap_err().to_string();
        assert_eq!(
            error(MacConfig { beat_bytes: 4, ..good }),
            "MAC: beat_bytes = 4: must be 8, 16, 32 or 64"
        );
        assert_eq!(
            error(MacConfig { max_frame: 1000, ..good }),
            "MAC: max_frame = 1000: must be from 1518 to 16384"
        );
        assert_eq!(
            error(MacConfig { rx_buffer_bytes: 8192, ..good }),
            "MAC: rx_buffer_bytes = 8192: must be a power of two from 16384 to 1048576"
        );
        assert_eq!(
            error(MacConfig { tx_buffer_bytes: 20000, ..good }),
            "MAC: tx_buffer_bytes = 20000: must be a power of two from 16384 to 1048576"
        );
    }
}
