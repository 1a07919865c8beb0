// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random numbers for key tags and first PSNs: peers must not be able to guess these.

use crate::error::{Error, Result};

/// Where random numbers come from.
#[derive(Debug, Clone)]
pub(crate) enum Random {
    /// The operating system.
    Os,
    /// SplitMix64 from a seed, for tests that must repeat.
    Seeded(u64),
}

impl Random {
    pub(crate) fn next_u32(&mut self) -> Result<u32> {
        match self {
            Random::Os => getrandom::u32().map_err(|e| Error::Random(e.to_string())),
            Random::Seeded(state) => {
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = *state;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                Ok(((z ^ (z >> 31)) >> 32) as u32)
            }
        }
    }
}
