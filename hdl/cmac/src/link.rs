// SPDX-License-Identifier: MIT OR Apache-2.0
//! Brings the link up, in the block's clock.
//!
//! ```text
//!  aligned ------+--> not: send_rfi
//!                +--> and not remote_fault: tx_enable, up
//!  remote_fault -+--> send_idle
//! ```
//!
//! The order is that of PG203, "Without AXI4-Lite Interface": the receiver is on from the beginning, and until it is aligned the peer is told by remote fault indications; then they stop, and sending begins. The block's port
//! `ctl_tx_enable` asks for more, that the peer does not send remote fault either; while it does, only idles may leave (IEEE 802.3 81.3.4.1), which is `ctl_tx_send_idle`. Both ends start so and neither waits for the other: indications and
//! idles are as good for alignment as frames.
//!
//! **Resets** of the block, `usr_tx_reset` and `usr_rx_reset`, are as good as no link, each for its direction. **Reset** of the domain, which is the host's: none. All registers follow the block's wires a cycle later, so the link
//! stays as it is while a host restarts. **Latency:** 1.

use crate::watchdog::watchdog;
use ferrowire_rtl::{bits, module, Bundle, Interface, Scope, Sig};

/// What the block says.
#[derive(Clone, Bundle)]
pub struct Status {
    /// `stat_rx_aligned`.
    pub aligned: Sig,
    /// `stat_rx_remote_fault`: the peer does not hear this end.
    pub remote_fault: Sig,
    /// `usr_rx_reset`.
    pub rx_reset: Sig,
    /// `usr_tx_reset`.
    pub tx_reset: Sig,
    /// `stat_rx_local_fault`; this and what follows is for [`health`](crate::health) alone.
    pub local_fault: Sig,
    /// `stat_rx_hi_ber`.
    pub high_ber: Sig,
    /// `stat_rx_rsfec_corrected_cw_inc`.
    pub fec_corrected: Sig,
    /// `stat_rx_rsfec_uncorrected_cw_inc`.
    pub fec_uncorrected: Sig,
}

impl Status {
    /// The shape.
    pub fn of() -> Status {
        Status {
            aligned: bits(1),
            remote_fault: bits(1),
            rx_reset: bits(1),
            tx_reset: bits(1),
            local_fault: bits(1),
            high_ber: bits(1),
            fec_corrected: bits(1),
            fec_uncorrected: bits(1),
        }
    }
}

/// What the block is told.
#[derive(Clone, Bundle)]
pub struct Control {
    /// `ctl_tx_enable`; a frame that is under way when it falls is sent to its end.
    pub tx_enable: Sig,
    /// `ctl_tx_send_rfi`.
    pub tx_send_rfi: Sig,
    /// `ctl_tx_send_idle`.
    pub tx_send_idle: Sig,
    /// `gtwiz_reset_rx_datapath`, of the [watchdog](crate::watchdog).
    pub rx_datapath_reset: Sig,
}

/// What it means for frames.
#[derive(Interface)]
pub struct Link {
    /// To the block.
    pub ctl: Control,
    /// What comes is of a frame.
    pub hears: Sig,
    /// A frame may begin.
    pub sends: Sig,
    /// What is under way in the block is lost.
    pub tx_reset: Sig,
    /// Both ways work.
    pub up: Sig,
}

/// See the page's top. `wait_bits` are of the [watchdog].
#[module]
pub fn link(m: &Scope, #[param] wait_bits: u32, stat: Status) -> Link {
    let flag = |name: &str, value: Sig| {
        let reg = m.reg(name, 1).no_reset();
        m.set(&reg, value);
        reg
    };
    let aligned = stat.aligned & !stat.rx_reset;
    let enable = flag("tx_enable", aligned & !stat.remote_fault);
    let tx_reset = flag("tx_in_reset", stat.tx_reset);
    Link {
        ctl: Control {
            tx_enable: enable,
            tx_send_rfi: flag("tx_send_rfi", !aligned),
            tx_send_idle: flag("tx_send_idle", aligned & stat.remote_fault),
            rx_datapath_reset: watchdog(m, wait_bits, stat.aligned),
        },
        hears: flag("hears", aligned),
        sends: enable & !tx_reset,
        tx_reset,
        up: flag("up", aligned & !stat.remote_fault & !stat.tx_reset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watchdog::PULSE;
    use ferrowire_rtl::{build, Sim};

    const WAIT_BITS: u32 = 9;

    /// Cycles with the reset of the receiver in four waits and a bit.
    fn resets(aligned: u64) -> u64 {
        let netlist = build("link_alone", |m| {
            let stat = m.input_of("stat", &Status::of());
            m.output("reset", &link(m, WAIT_BITS, stat).ctl.rx_datapath_reset);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|errors| panic!("{errors}")));
        sim.reset();
        sim.set("stat_aligned", aligned);
        (0..(4 << WAIT_BITS) + 8)
            .map(|_| {
                sim.tick();
                sim.get("reset")
            })
            .sum()
    }

    #[test]
    fn the_receiver_is_reset_while_it_does_not_align() {
        assert_eq!(resets(0), 4 * PULSE);
        assert_eq!(resets(1), 0);
    }
}
