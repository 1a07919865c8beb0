// SPDX-License-Identifier: MIT OR Apache-2.0
//! Congestion: who is told of it, and who slows down (IBTA A17.9; DCQCN, Zhu et al., SIGCOMM 2015).
//!
//! ```text
//!  packets marked CE --> notify --> CNPs to send
//!  CNPs received ------> react ---> who must wait, who may go on
//!  packets sent -------> react
//! ```

pub mod notify;
pub mod react;

pub use notify::notify;
pub use react::{react, Reaction, Sent};

use ferrowire_rtl::{bits, Bundle, Sig};

/// The parameters, from the registers of the same names.
#[derive(Clone, Bundle)]
pub struct CongestionControl {
    /// Shortest time between two CNPs of a QP, in microseconds.
    pub interval_us: Sig,
    /// Line rate, in Mb/s; 0: nobody is held back.
    pub line_mbps: Sig,
    /// Least rate, in Mb/s.
    pub least_mbps: Sig,
    /// Alpha moves by 2^-`gain` of the way.
    pub gain: Sig,
    /// Alpha decays, in microseconds.
    pub alpha_us: Sig,
    /// The rate rises, in microseconds.
    pub rate_us: Sig,
    /// The rate rises, in bytes sent.
    pub bytes: Sig,
    /// Steps of fast recovery.
    pub steps: Sig,
    /// Additive increase, in Mb/s.
    pub additive_mbps: Sig,
    /// Hyper increase, in Mb/s.
    pub hyper_mbps: Sig,
}

impl CongestionControl {
    /// The shape.
    pub fn of() -> Self {
        CongestionControl {
            interval_us: bits(15),
            line_mbps: bits(20),
            least_mbps: bits(20),
            gain: bits(4),
            alpha_us: bits(16),
            rate_us: bits(16),
            bytes: bits(32),
            steps: bits(4),
            additive_mbps: bits(16),
            hyper_mbps: bits(16),
        }
    }
}
