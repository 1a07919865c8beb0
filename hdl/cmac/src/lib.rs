// SPDX-License-Identifier: MIT OR Apache-2.0
//! Between the card and AMD's 100 Gb/s Ethernet block of UltraScale+ devices (CMAC, product guide PG203), at the 512 bits of its AXI4-Stream interface.
//!
//! ```text
//!        the block's clock, 322.27 MHz                              |       the core's clock
//!  rx_axis --> receive --> store (drops) ------------------- async_fifo --> skid --> rx     frames without preamble and FCS
//!                 |             +--> counts                         |
//!  stat ------> link -----------------------------------------  two flops ---------> link_up
//!                 |  +--> ctl                                       |
//!  tx_axis <-- skid <-- transmit <-- store (passes) <-------- async_fifo <-- skid <-- tx
//!                          +--> counts                              |
//! ```
//!
//! | port of [`cmac`] | clock | what |
//! |---|---|---|
//! | `rx_axis`, `tx_axis` | block | what the block has received, which waits for nobody; what it is to send |
//! | `stat`, `ctl` | block | what the block says of the link and its resets; what it is told, see [`link`] |
//! | `rx`, `tx` | core | frames in beats of 64 bytes, each whole, from the destination address on |
//! | `link_up` | core | frames can go both ways |
//! | `health` | core | what the block says of the link, and counts of RS-FEC: see [`health`] |
//! | `counts` | block | what became of each frame |
//!
//! **A bad frame never reaches the core.** The block gives its verdict, `rx_axis_tuser`, with the last beat; the core's port has no mark for it. So received frames wait in a
//! [store](ferrowire_mac::store) until they are whole, and a bad one was never there. Where there is no room a frame is lost whole, and counted.
//!
//! **The block never runs dry.** A frame that has begun must go on whenever the block takes a beat (`tx_unfout`; it takes a reset to recover). The core promises a beat in every cycle of its clock from a frame's first to
//! its last, but that clock is the slower one. So the beginning of a frame is stored *after* the crossing: the beats by which the core would be short at the frame's end ([`ahead`]). Shorter frames are stored whole.
//! From there on the store has a beat in every cycle of the block. If the core breaks its promise, the frame [ends as a bad one](transmit).
//!
//! **Both stores are in the block's clock:** frames of 65 bytes come as two beats in 7.12 ns, 281 million beats a second, which the wider clock takes and 250 MHz do not. A burst of them waits in the store;
//! if they do not end, frames are lost there.
//!
//! **Clocks** need not be related. **Resets** come together, with the host's, and at any time: the block and its link go on. A frame that is being sent then ends as a bad one, and the rest of one that is being received is not taken.
//! The block's own resets, of its two directions, are [inputs](link) like others: they cut the frame that is under way, and nothing else.
//!
//! **A receiver that does not align** for 0.8 s is reset by the [watchdog].
//!
//! **Memories:** two rings of block RAM, `rx_buffer_bytes` and `tx_buffer_bytes`; two crossings of 16 beats in LUT RAM. **PAUSE and PFC** frames pass as all others, for the core obeys them itself: the block's own
//! flow control is to be off, and it has to forward control frames.
#![forbid(unsafe_code)]

pub mod health;
pub mod link;
pub mod receive;
pub mod transmit;
pub mod watchdog;

pub use ferrowire_mac::MacConfig;

use ferrowire_hdl::host::csr::MacStatus;
use ferrowire_hdl::stream::skid;
use ferrowire_mac::pack::Entry;
use ferrowire_mac::rx::Outcome;
use ferrowire_mac::store::{store, Done, Full};
use ferrowire_parts::Beat;
use ferrowire_rtl::{
    async_fifo, bits, build, module, BuildErrors, Bundle, DomainId, Interface, Netlist, Scope, Sig, Stream,
};
use link::{Control, Status};
use receive::Received;
use transmit::Axis;

/// Bytes in a beat of the block.
pub const BYTES: u32 = 64;
/// Beats in each crossing.
const CROSSING: u32 = 16;
/// The block's clock.
pub const BLOCK_KHZ: u32 = 322_266;

/// Beats of a frame that are stored before it leaves, for a core of `core_khz` whose longest frame has `longest` bytes.
///
/// While the block takes `n` beats, the core gives `n * core_khz / BLOCK_KHZ`. The crossing may be late
/// by one beat more. Two are spare, for clocks that are not exactly what they are said to be.
pub const fn ahead(core_khz: u32, longest: u32) -> u32 {
    let beats = longest.div_ceil(BYTES) as u64;
    let slower = BLOCK_KHZ.saturating_sub(core_khz) as u64;
    (beats * slower).div_ceil(BLOCK_KHZ as u64) as u32 + 3
}

/// Frames of 9,000 bytes behind Ethernet header and VLAN tag, and buffers of 32 KiB: what eight block RAMs hold that are 64 bytes wide.
pub fn config() -> MacConfig {
    MacConfig { rx_buffer_bytes: 32768, tx_buffer_bytes: 32768, ..MacConfig::jumbo(BYTES) }
}

/// The two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The core's.
    pub core: DomainId,
    /// The block's `gt_txusrclk2`, which is its `rx_clk` as well.
    pub block: DomainId,
}

/// What became of frames, for counters: pulses in the block's clock.
#[derive(Clone, Bundle)]
pub struct Counts {
    /// Received, and on the way to the core.
    pub rx_good: Sig,
    /// Received with `tuser`: a wrong FCS, a bad code, too short or too long.
    pub rx_bad: Sig,
    /// Cut, because the link went down.
    pub rx_cut: Sig,
    /// Lost for want of room.
    pub rx_overflow: Sig,
    /// Sent.
    pub tx_good: Sig,
    /// Longer than the longest frame: not sent.
    pub tx_oversize: Sig,
    /// Not sent, or not to its end, because there was no link.
    pub tx_no_link: Sig,
    /// Ended as a bad one, because the core let the block down.
    pub tx_dry: Sig,
}

/// What the adapter gives.
#[derive(Interface)]
pub struct Cmac {
    /// To the block.
    pub tx_axis: Stream<Axis>,
    /// To the block.
    pub ctl: Control,
    /// Received frames.
    pub rx: Stream<Beat>,
    /// The link.
    pub link_up: Sig,
    /// What the block says of it.
    pub health: MacStatus,
    /// What became of frames.
    pub counts: Counts,
}

/// The adapter; see the page's top. `rx_axis` and `stat` are of the block's clock, `tx` of the core's; `ahead`: see [`ahead`].
///
/// # Panics
/// If the configuration has another width than the block.
#[module]
pub fn cmac(
    m: &Scope,
    cfg: &MacConfig,
    #[param] clocks: Clocks,
    #[param] ahead: u32,
    rx_axis: Received,
    stat: Status,
    tx: Stream<Beat>,
) -> Cmac {
    assert_eq!(cfg.beat_bytes, BYTES, "the block has beats of {BYTES} bytes");
    let link = m.in_domain(clocks.block, |m| link::link(m, watchdog::WATCHDOG_BITS, stat.clone()));
    let received = m.in_domain(clocks.block, |m| {
        let entries = receive::receive(m, rx_axis, link.hears);
        store(&m.label("rx"), cfg, cfg.rx_buffer_bytes, Full::Drops, entries)
    });
    let beats = async_fifo(&m.label("rx_crossing"), CROSSING, clocks.block, clocks.core, received.out);
    let rx = skid(&m.label("rx_skid"), beats);

    let beats = skid(&m.label("tx_skid"), tx.map(transmit::padded));
    let beats = async_fifo(&m.label("tx_crossing"), CROSSING, clocks.core, clocks.block, beats);
    let (tx_axis, counts) = m.in_domain(clocks.block, |m| {
        let entries = beats.map(|beat| Entry { beat: beat.clone(), outcome: Outcome::Good.lit() });
        let stored = store(&m.label("tx"), cfg, cfg.tx_buffer_bytes, Full::Passes(ahead), entries);
        let sent = transmit::transmit(m, link.sends, link.tx_reset, stored.out, stored.cut);
        (sent.axis, counts(&received.done, &stored.done, sent.good, sent.lost, sent.dry))
    });
    let health = health::health(m, clocks, stat);
    Cmac { tx_axis, ctl: link.ctl, rx, link_up: m.synchronise("link_up", link.up), health, counts }
}

fn counts(received: &Done, stored: &Done, good: Sig, lost: Sig, dry: Sig) -> Counts {
    let of = |done: &Done, outcome: Outcome| done.valid & done.outcome.eq(outcome.lit());
    Counts {
        rx_good: of(received, Outcome::Good),
        rx_bad: of(received, Outcome::BadFcs),
        rx_cut: of(received, Outcome::Error),
        rx_overflow: of(received, Outcome::Overflow),
        tx_good: good,
        tx_oversize: of(stored, Outcome::Oversize),
        tx_no_link: lost,
        tx_dry: dry,
    }
}

/// The adapter by itself, with the clocks `clk` and `cmac_clk`.
///
/// # Errors
/// What the build-time checks find; none for a valid configuration.
///
/// # Panics
/// If the configuration is not [valid](MacConfig::validate), or has another width than the block.
pub fn netlist(cfg: &MacConfig, ahead: u32) -> Result<Netlist, BuildErrors> {
    cfg.validate().unwrap_or_else(|error| panic!("{error}"));
    build("cmac_100g", |m| {
        let clocks = Clocks { core: m.current_domain(), block: m.domain("cmac") };
        ports(m, cfg, clocks, ahead);
    })
}

/// The same between ports of the module that is open, which is the top or [encloses](Scope::enclosed) it.
pub fn ports(m: &Scope, cfg: &MacConfig, clocks: Clocks, ahead: u32) {
    let (rx_axis, stat) = m.in_domain(clocks.block, |m| {
        (m.input_of("rx_axis", &Received::of()), m.input_of("stat", &Status::of()))
    });
    let tx = m.stream_in("tx", &Beat::of(BYTES));
    let cmac = cmac(m, cfg, clocks, ahead, rx_axis, stat, tx);
    m.in_domain(clocks.block, |m| {
        m.stream_out("tx_axis", cmac.tx_axis);
        m.output("ctl", &cmac.ctl);
        m.output("counts", &cmac.counts);
    });
    m.stream_out("rx", cmac.rx);
    m.output("link_up", &cmac.link_up);
    m.output("health", &cmac.health);
}

/// Bits of `tkeep`.
fn keep_bits() -> Sig {
    bits(BYTES)
}
