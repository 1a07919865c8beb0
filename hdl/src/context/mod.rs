// SPDX-License-Identifier: MIT OR Apache-2.0
//! What outlives a packet and belongs to no engine: state and attributes of queue pairs.

pub mod congestion;
pub mod qp;
pub mod timer;

pub use qp::{QpContext, QpFound, QpRecord, QpUpdate};

use crate::config::RnicConfig;
use crate::stream::deep_fifo;
use crate::types::QpBroadcast;
use ferrowire_rtl::{Scope, Sig, Stream};
use ferrowire_spec::qp_state::QpState;

/// QPs that enter a state, in order, for an engine that does something for each of them. They could only be lost, until
/// they enter it again, if one did so many times at once.
fn entering(m: &Scope, cfg: &RnicConfig, broadcast: &QpBroadcast, into: QpState, name: &str) -> Stream<Sig> {
    let state = &broadcast.state;
    let enters = state.enable & state.entry.eq(into.code());
    let entering = Stream::new(m, &format!("to_{name}"), enters, state.index);
    m.discard(&entering.ready);
    deep_fifo(&m.label(name), cfg.qps, entering)
}

/// QPs that go to RESET, for an engine that clears what it keeps of them.
pub fn resets(m: &Scope, cfg: &RnicConfig, broadcast: &QpBroadcast) -> Stream<Sig> {
    entering(m, cfg, broadcast, QpState::Reset, "resets")
}

/// QPs that go to ERR, for an engine that flushes what they have posted.
pub fn errors(m: &Scope, cfg: &RnicConfig, broadcast: &QpBroadcast) -> Stream<Sig> {
    entering(m, cfg, broadcast, QpState::Err, "errors")
}
