// SPDX-License-Identifier: MIT OR Apache-2.0
//! A 1 Gb/s Ethernet MAC of full duplex with an RGMII side, for a core that takes and gives whole frames in beats.
//!
//! ```text
//!   the PHY's receive clock                        |        the core's clock
//!  RXD, RX_CTL --> rgmii_rx --> rx --> pack --> async_fifo --> store (drops) --> rx      frames without preamble and FCS
//!                     |                            |             +-----------> counts
//!                     +---- status ------------ two flops ------------------> link
//!                                                  |             +-----------> counts
//!  TXD, TX_CTL <-- rgmii_tx <-- tx <---------- async_fifo <-- store (waits) <--- tx
//!   the transmit clock                             |
//! ```
//!
//! | port of [`mac`] | clock | what |
//! |---|---|---|
//! | `wires` | receive | what the board's DDR cells catch, see [`rgmii`] |
//! | `rx` | core | received frames, each whole, with a right FCS that is taken off; from the destination address on |
//! | `tx` | core | frames to be sent; padding and FCS are added |
//! | `link` | core | what the PHY says of its link between frames |
//! | `counts` | core | what became of each frame |
//! | result's `wires` | transmit | what the DDR cells send |
//!
//! **A bad frame never reaches the core:** the core's port has no mark for it, so frames wait in [`store`] until their FCS is known. That costs the time of a
//! frame once; what drops a frame there costs nothing. **A frame is sent when it is whole:** this MAC counts on no beat in each cycle of the core, and the wire waits for nothing, so the other
//! store collects it first. From there a beat a cycle of the core goes to the crossing, which holds enough to begin: it cannot run dry.
//!
//! **Clocks.** The three need not be related, but two are bounded: receive and transmit clock are 125 MHz (IEEE 802.3 35.2.2.1, 35.2.2.2: within 100 ppm), and the core's is at least
//! 125.1 MHz / `beat_bytes`, so that it takes and gives bytes as fast as the wire: 15.7 MHz at 8 bytes a beat. **Resets** come together, each for two edges of its clock at least.
//! One that ends within a received frame skips it; one within a sent frame cuts it.
//!
//! **Backpressure.** A `tx` that is not ready waits for room. An `rx` that is not taken fills the store; then frames are lost, each whole, and counted. MAC control
//! frames pass as all others: PAUSE is the core's affair.
//!
//! **Only 1 Gb/s.** At 10 and 100 Mb/s RGMII has another clock and no bits at the falling edge; `link` says so, and nothing of it is a frame here.
//!
//! **Memories:** two rings of block RAM, `rx_buffer_bytes` and `tx_buffer_bytes`; two crossings of 16 beats in LUT RAM. **Latency:** from a frame's delimiter on the
//! wires to its first beat at `rx` its bytes and 8 cycles of the wire, and 7 of the core; from its last beat at `tx` to the first byte of preamble 2 cycles of the core and
//! 7 of the wire; each at most, and one more where a flop between clocks misses a change. **Longest paths** at 125 MHz: from the crossing's pointers, whether there is room, to the
//! entry of [`pack`]; the counter and the state of [`tx`].
#![forbid(unsafe_code)]

mod config;
pub mod ecp5;
pub mod pack;
pub mod rgmii;
pub mod rx;
pub mod store;
pub mod tx;

pub use config::{ConfigError, MacConfig, FCS_BYTES, GAP_BYTES, MIN_FRAME, PREAMBLE, PREAMBLE_BYTES, SFD};

use ferrowire_parts::Beat;
use ferrowire_rtl::{
    async_fifo, bits, build, lit, module, BuildErrors, Bundle, DomainId, Interface, Netlist, Scope, Sig,
    Stream,
};
use pack::{Entry, MISSED_BITS};
use rgmii::{Edges, LinkStatus};
use rx::Outcome;
use store::{Done, Full};

/// Beats in each crossing: what a LUT RAM of an ECP5 holds.
const CROSSING: u32 = 16;

/// The clocks of a MAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The core's.
    pub core: DomainId,
    /// The PHY's receive clock.
    pub rx: DomainId,
    /// The transmit clock.
    pub tx: DomainId,
}

/// What became of frames, for counters: a pulse or a number for each cycle.
#[derive(Clone, Bundle)]
pub struct Counts {
    /// Received, and on the way to the core.
    pub rx_good: Sig,
    /// Received with a wrong FCS.
    pub rx_bad_fcs: Sig,
    /// Received with less than 64 bytes.
    pub rx_runt: Sig,
    /// Received with more than the longest frame.
    pub rx_oversize: Sig,
    /// Received while the PHY told of an error.
    pub rx_error: Sig,
    /// A carrier without a start frame delimiter.
    pub rx_no_sfd: Sig,
    /// Received and lost for want of room, so many.
    pub rx_overflow: Sig,
    /// To be sent, and whole.
    pub tx_good: Sig,
    /// To be sent, but longer than the longest frame: dropped.
    pub tx_oversize: Sig,
    /// Cut, because the core's clock stood still: the peer drops it.
    pub tx_underrun: Sig,
}

impl Counts {
    /// The shape.
    pub fn of() -> Counts {
        let pulse = || bits(1);
        Counts {
            rx_good: pulse(),
            rx_bad_fcs: pulse(),
            rx_runt: pulse(),
            rx_oversize: pulse(),
            rx_error: pulse(),
            rx_no_sfd: pulse(),
            rx_overflow: bits(MISSED_BITS),
            tx_good: pulse(),
            tx_oversize: pulse(),
            tx_underrun: pulse(),
        }
    }
}

/// What a MAC gives.
#[derive(Interface)]
pub struct Mac {
    /// To the PHY, in the transmit clock.
    pub wires: Edges,
    /// Received frames.
    pub rx: Stream<Beat>,
    /// The link.
    pub link: LinkStatus,
    /// What became of frames.
    pub counts: Counts,
}

/// The MAC; see the page's top. `wires` is of the receive clock, everything else of the core's.
#[module]
pub fn mac(m: &Scope, cfg: &MacConfig, #[param] clocks: Clocks, wires: Edges, tx: Stream<Beat>) -> Mac {
    let heard = m.in_domain(clocks.rx, |m| rgmii::rgmii_rx(m, wires));
    let entries = m.in_domain(clocks.rx, |m| {
        let heard = rx::rx(m, cfg.max_frame, heard.gmii);
        pack::pack(m, cfg.beat_bytes, heard)
    });
    let entries = async_fifo(&m.label("rx_crossing"), CROSSING, clocks.rx, clocks.core, entries);
    let (received, link) = m.in_domain(clocks.core, |m| {
        let received = store::store(&m.label("rx"), cfg, cfg.rx_buffer_bytes, Full::Drops, entries);
        (received, settle(m, heard.status))
    });

    let sent = m.in_domain(clocks.core, |m| {
        let entries = tx.map(|beat| Entry { beat: beat.clone(), outcome: Outcome::Good.lit() });
        store::store(&m.label("tx"), cfg, cfg.tx_buffer_bytes, Full::Waits, entries)
    });
    let beats = async_fifo(&m.label("tx_crossing"), CROSSING, clocks.core, clocks.tx, sent.out);
    let (wires, cut) = m.in_domain(clocks.tx, |m| {
        let sent = tx::tx(m, beats);
        let cut = m.reg("cut", 1).reset(0);
        m.when(sent.underrun, |m| m.set(&cut, !cut));
        (rgmii::rgmii_tx(m, sent.gmii), cut)
    });
    let counts = m.in_domain(clocks.core, |m| {
        let cut = m.synchronise("cut", cut);
        let before = m.reg("cut_before", 1).reset(0);
        m.set(&before, cut);
        counts(&received.done, &sent.done, cut ^ before)
    });
    Mac { wires, rx: received.out, link, counts }
}

fn counts(received: &Done, sent: &Done, cut: Sig) -> Counts {
    let of = |done: &Done, outcome: Outcome| done.valid & done.outcome.eq(outcome.lit());
    let lost = of(received, Outcome::Overflow);
    Counts {
        rx_good: of(received, Outcome::Good),
        rx_bad_fcs: of(received, Outcome::BadFcs),
        rx_runt: of(received, Outcome::Runt),
        rx_oversize: of(received, Outcome::Oversize),
        rx_error: of(received, Outcome::Error),
        rx_no_sfd: of(received, Outcome::NoSfd),
        rx_overflow: lost.then(received.frames, lit(MISSED_BITS, 0)),
        tx_good: of(sent, Outcome::Good),
        tx_oversize: of(sent, Outcome::Oversize),
        tx_underrun: cut,
    }
}

/// The link's status in another clock: what two cycles in a row saw behind the flops, for its bits may arrive one by one.
#[module]
fn settle(m: &Scope, status: LinkStatus) -> LinkStatus {
    let seen = m.synchronise("status", status.pack());
    let before = m.reg("before", seen.width()).reset(0);
    m.set(&before, seen);
    let settled = m.reg("settled", seen.width()).reset(0);
    m.when(seen.eq(before), |m| m.set(&settled, seen));
    status.unpack(settled)
}

/// A MAC by itself, with the clocks `clk`, `rgmii_rx_clk` and `rgmii_tx_clk`: for tests, and for boards that are not described in Rust.
///
/// # Errors
/// What the build-time checks find; none for a valid configuration.
///
/// # Panics
/// If the configuration is not [valid](MacConfig::validate).
pub fn netlist(cfg: &MacConfig) -> Result<Netlist, BuildErrors> {
    cfg.validate().unwrap_or_else(|error| panic!("{error}"));
    build("mac_1g", |m| {
        let clocks = Clocks { core: m.current_domain(), rx: m.domain("rgmii_rx"), tx: m.domain("rgmii_tx") };
        ports(m, cfg, clocks);
    })
}

/// The same between ports of the module that is open, which is the top or [encloses](Scope::enclosed) it.
pub fn ports(m: &Scope, cfg: &MacConfig, clocks: Clocks) {
    let wires = m.in_domain(clocks.rx, |m| m.input_of("rgmii_rx", &Edges::of()));
    let tx = m.stream_in("tx", &Beat::of(cfg.beat_bytes));
    let mac = mac(m, cfg, clocks, wires, tx);
    m.output("rgmii_tx", &mac.wires);
    m.stream_out("rx", mac.rx);
    m.output("link", &mac.link);
    m.output("counts", &mac.counts);
}
