// SPDX-License-Identifier: MIT OR Apache-2.0
//! What outlives a packet and belongs to no engine: state and attributes of queue pairs.

pub mod qp;
pub mod timer;

pub use qp::{QpContext, QpRecord, QpUpdate};

use crate::config::RnicConfig;
use crate::stream::deep_fifo;
use crate::types::QpBroadcast;
use ferrowire_rtl::{Scope, Sig, Stream};
use ferrowire_spec::qp_state::QpState;

/// QPs that go to RESET, in order, for an engine that clears what it keeps of them. They could only be lost, until their
/// next start, if one did so many times at once.
pub fn resets(m: &Scope, cfg: &RnicConfig, broadcast: &QpBroadcast) -> Stream<Sig> {
    let state = &broadcast.state;
    let to_reset = state.enable & state.entry.eq(QpState::Reset.code());
    let to_reset = Stream::new(m, "to_reset", to_reset, state.index);
    m.discard(&to_reset.ready);
    deep_fifo(&m.label("resets"), cfg.qps, to_reset)
}
