// SPDX-License-Identifier: MIT OR Apache-2.0
//! Congestion: who is told of it, and who slows down (IBTA A17.9; DCQCN, Zhu et al., SIGCOMM 2015).
//!
//! ```text
//!  responder: requests that came marked --+
//!  completer: answers that came marked ---+--> arbiter --> notify --> CNPs --> tx
//!
//!  dispatch: CNPs --> hear --+                      +--> gate --> schedule, segment
//!  QPs that go to RESET -----+--> react ------------+
//!  segment: requests sent ----+--> react              +--> wake --> schedule
//!  reply: READ responses cut -+
//! ```
//!
//! Nothing here makes a packet wait: marks and CNPs are taken as they come, several of a QP merge, and what is sent is only told.
//! A CNP takes 3 cycles to be checked, then its turn among the visits of `react`; a marked packet's CNP is at `tx` 10 cycles after the
//! responder or the completer has checked it. Reset: nobody is quiet, nobody is held back; what comes in the first cycles, as many as there are QPs,
//! may be lost.

mod hear;
pub mod notify;
pub mod react;

pub use hear::{hear, Heard, Notification};
pub use notify::notify;
pub use react::{react, Charge, Reaction, Sent};

use crate::config::RnicConfig;
use crate::context::resets;
use crate::rx::buffer::Dropped;
use crate::stream::{arbiter, fifo, half};
use crate::types::{QpBroadcast, TableWrite, TxPacket};
use ferrowire_rtl::{bits, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::wire::Opcode;

/// A packet came that met congestion.
#[derive(Clone, Bundle)]
pub struct Marked {
    /// In this cycle.
    pub valid: Sig,
    /// Whose.
    pub qp: Sig,
}

impl Marked {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Marked { valid: bits(1), qp: bits(cfg.qp_bits()) }
    }
}

/// Whether a QP is held back.
#[derive(Clone, Bundle)]
pub struct Gate {
    /// No more of its WQEs are to be fetched.
    pub shut: Sig,
    /// Nor are those that have been to be sent: it is too far in debt.
    pub stop: Sig,
}

impl Gate {
    /// The shape.
    pub fn of() -> Self {
        Gate { shut: bits(1), stop: bits(1) }
    }

    /// The broadcasts to everybody's copies.
    pub fn write_of(cfg: &RnicConfig) -> TableWrite<Self> {
        TableWrite { enable: bits(1), index: bits(cfg.qp_bits()), entry: Gate::of() }
    }
}

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

/// What is told, for all parts.
#[derive(Interface)]
pub struct Input {
    /// The parameters.
    pub control: CongestionControl,
    /// QP attributes and states.
    pub broadcast: QpBroadcast,
    /// Packets that came marked and are their QP's peer's, from each who checks packets.
    pub marked: Vec<Marked>,
    /// CNPs that came.
    pub cnps: Stream<Notification>,
    /// Requests that leave.
    pub sent: Sent,
    /// READ responses that leave.
    pub charges: Stream<Charge>,
}

/// Pulses for the counters.
#[derive(Clone, Bundle)]
pub struct Counts {
    /// A packet that met congestion.
    pub marked: Sig,
    /// A CNP was handed to `tx`.
    pub told: Sig,
    /// A CNP was obeyed.
    pub handled: Sig,
    /// A CNP was ignored: no flow was free, or there is no line rate.
    pub ignored: Sig,
    /// A CNP was dropped.
    pub dropped: Dropped,
}

/// What comes out.
#[derive(Interface)]
pub struct Congestion {
    /// CNPs to send.
    pub packets: Stream<TxPacket>,
    /// Who must wait.
    pub gate: TableWrite<Gate>,
    /// QPs that need not wait any more.
    pub wake: Stream<Sig>,
    /// Counted events.
    pub counts: Counts,
}

/// Both ends of congestion control; where the configuration has none, marks and CNPs are for nobody.
pub fn congestion(m: &Scope, cfg: &RnicConfig, input: Input) -> Congestion {
    match cfg.congestion {
        true => control(m, cfg, input),
        false => indifferent(m, cfg, input),
    }
}

/// Counts CNPs as ignored, and holds nobody back.
fn indifferent(m: &Scope, cfg: &RnicConfig, input: Input) -> Congestion {
    let Input { control, broadcast, marked, cnps, sent, charges } = input;
    m.discard(&(control, broadcast, marked, sent));
    m.discard(&(cnps.payload.clone(), charges.payload.clone()));
    let ignored = cnps.fire();
    cnps.accept(1);
    charges.accept(1);
    let none = lit(1, 0);
    let packets = Stream::new(m, "packets", none, TxPacket::of(cfg).zeros());
    let wake = Stream::new(m, "wake", none, lit(cfg.qp_bits(), 0));
    let dropped = Dropped::of().zeros();
    let counts = Counts { marked: none, told: none, handled: none, ignored, dropped };
    Congestion { packets, gate: Gate::write_of(cfg).zeros(), wake, counts }
}

#[module]
fn control(m: &Scope, cfg: &RnicConfig, input: Input) -> Congestion {
    let Input { control, broadcast, marked, cnps, sent, charges } = input;

    let microsecond = cfg.microsecond(m);

    // Two taps may tell in the same cycle.
    let taps: Vec<Stream<Sig>> = marked
        .into_iter()
        .map(|tap| {
            let tap = Stream::new(m, "tap", tap.valid, tap.qp);
            m.discard(&tap.ready);
            fifo(&m.label("tap"), 2, tap)
        })
        .collect();
    let marked = arbiter(&m.label("marked"), &|_: &Sig| lit(1, 1), taps);
    let marks = marked.fire();
    let told = notify(m, cfg, marked, control.interval_us, microsecond);
    let given = &broadcast.attributes;
    let looping = m.mem("looping", cfg.qps, &bits(1)).style(Style::Block).build();
    looping.write(given.enable, given.index, &given.entry.loops);
    // Whether the QP loops is read as its CNP passes a slice.
    let (enters, coming) = (told.fire(), told.payload);
    let told = half(&m.label("told"), told);
    let loops = looping.read(m, enters, coming, Collision::New);
    let packet = |qp: Sig| TxPacket {
        qp,
        opcode: lit(8, Opcode::Cnp.code()),
        loops: cfg.only(cfg.loopback, loops),
        ..TxPacket::of(cfg).zeros()
    };
    let packets = half(&m.label("packets"), told.map(|qp| packet(*qp)));

    let heard = hear(m, cfg, broadcast.clone(), cnps);
    let resets = resets(m, cfg, &broadcast);
    // Requests are charged in their cycle, responses in one without.
    charges.accept(!sent.valid);
    let response = Sent { valid: charges.valid, qp: charges.qp, bytes: charges.bytes };
    let sent = m.mux(sent.valid, &sent, &response);
    let reaction = react(m, cfg, control, sent, heard.qps, resets);
    let counts = Counts {
        marked: marks,
        told: packets.fire(),
        handled: reaction.handled,
        ignored: reaction.ignored,
        dropped: heard.dropped,
    };
    Congestion { packets, gate: reaction.gate, wake: reaction.wake, counts }
}
