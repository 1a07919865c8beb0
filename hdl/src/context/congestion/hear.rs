// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose a CNP is, and whether it comes from that queue pair's peer (IBTA A17.9.3).
//!
//! ```text
//!  cnps --+--> read copy of the QP's attributes --> compare --+--> QPs that are told
//!         +--> partition key, source ----------------^        +--> dropped {reason}
//! ```
//!
//! The reasons to drop one and their order are those of other packets (volume 1, 9.6 and 9.7.4): no such QP or one that sends
//! nothing to its peer, partition key, source and destination address. Its PSN means nothing.
//!
//! One CNP a cycle, latency 2; it waits for nobody, so that a flood of CNPs takes no more than its share of the wire. Reset
//! leaves nothing but what the broadcasts have written.

use crate::config::RnicConfig;
use crate::path::same_partition;
use crate::rx::address::gid_bits;
use crate::rx::buffer::Dropped;
use crate::rx::peer::Origin;
use crate::types::{is_connectionless, QpBroadcast};
use ferrowire_rtl::{bits, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::csr::DropReason;
use ferrowire_spec::qp_state::QpState;

/// A CNP that came.
#[derive(Clone, Bundle)]
pub struct Notification {
    /// BTH destination QP.
    pub qpn: Sig,
    /// BTH partition key.
    pub pkey: Sig,
    /// Where it comes from.
    pub origin: Origin,
    /// Which of the port's GIDs it is sent to.
    pub gid: Sig,
}

impl Notification {
    /// The shape.
    pub fn of() -> Self {
        Notification { qpn: bits(24), pkey: bits(16), origin: Origin::of(), gid: bits(gid_bits()) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Heard {
    /// QPs whose peer has told them of congestion: it waits for nobody, and is lost where nobody takes it.
    pub qps: Stream<Sig>,
    /// A CNP was dropped.
    pub dropped: Dropped,
}

#[derive(Clone, Bundle)]
struct Copy {
    service: Sig,
    peer: Sig,
    gid: Sig,
    pkey: Sig,
    /// It was created: every QP that was has a path MTU.
    mtu: Sig,
}

/// Checks CNPs.
#[module]
pub fn hear(m: &Scope, cfg: &RnicConfig, broadcast: QpBroadcast, cnps: Stream<Notification>) -> Heard {
    cnps.accept(ferrowire_rtl::lit(1, 1));
    let at = cnps.qpn.trunc(cfg.qp_bits());
    let comes = m.reg("comes", 1).reset(0);
    m.set(&comes, cnps.fire());
    let exists = m.delay("exists", &cnps.qpn.lt(cfg.qps));
    let cnp = m.delay("cnp", &cnps.payload);
    m.discard(&(cnp.qpn, cnp.origin.selective));
    let qp = m.delay("qp", &at);

    let given = &broadcast.attributes;
    let a = &given.entry;
    let copy = Copy { service: a.service, peer: a.peer, gid: a.gid, pkey: a.pkey, mtu: a.mtu };
    let copies = m.mem("copies", cfg.qps, &copy).style(Style::Block).build();
    copies.write(given.enable, given.index, &copy);
    let copy = copies.read(m, cnps.fire(), at, Collision::New);
    let live = m.mem("live", cfg.qps, &bits(1)).style(Style::Block).build();
    let state = &broadcast.state;
    let states = [QpState::Rtr, QpState::Rts, QpState::Sqd].map(|s| state.entry.eq(s.code()));
    live.write(state.enable, state.index, &(states[0] | states[1] | states[2]));
    let is_live = live.read(m, cnps.fire(), at, Collision::New);

    let exists = exists & copy.mtu.any();
    // Datagrams and frames have no peer whom somebody could slow down.
    let takes = exists & is_live & !is_connectionless(copy.service);
    let same_key = same_partition(cnp.pkey, copy.pkey);
    let same_source = cnp.origin.is(copy.peer);
    let told = m.reg("told", 1).reset(0);
    let dropped = m.reg("dropped", 1).reset(0);
    let reason = m.reg("reason", Dropped::of().reason.width()).no_reset();
    let here = cnp.gid.eq(copy.gid);
    m.set(&told, comes & takes & same_key & same_source & here);
    m.set(&dropped, comes & !(takes & same_key & same_source & here));
    m.set(&reason, DropReason::Destination.code());
    m.when(!exists, |m| m.set(&reason, DropReason::NoQp.code()))
        .otherwise_when(!takes, |m| m.set(&reason, DropReason::QpState.code()))
        .otherwise_when(!same_key, |m| m.set(&reason, DropReason::Pkey.code()))
        .otherwise_when(!same_source, |m| m.set(&reason, DropReason::SourceAddress.code()));
    let qps = Stream::new(m, "qps", told, m.delay("told_qp", &qp));
    m.discard(&qps.ready);
    Heard { qps, dropped: Dropped { valid: dropped, reason } }
}

#[cfg(test)]
mod tests;
