// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ports of a card before AMD's PCIe4 block, and the model of the block.

use ferrowire_spec::pcie::pcie4::{cc_user, cq_user, rc_user, rq_user, CcUser, RqUser, BEAT};
use ferrowire_verilator::{Library, Model, PortError, PortId};

use super::ports::{stream, Handshake};
use crate::root::pcie4::{AxisBeat, Pcie4Block};

/// A stream of the block.
#[derive(Clone, Copy)]
struct AxisPorts {
    handshake: Handshake,
    data: PortId,
    keep: PortId,
    last: PortId,
    user: PortId,
    /// Bytes in which its wires of `tuser` find room.
    user_bytes: usize,
}

/// Longest `tuser` in bytes, filled up to whole words.
const USER: usize = 24;

impl AxisPorts {
    fn of(library: &Library, name: &str, user_bytes: usize) -> Result<Self, PortError> {
        let port = |field: &str| library.port(&format!("{name}_{field}"));
        let handshake = stream(library, name)?;
        let (data, keep, last, user) = (port("data")?, port("keep")?, port("last")?, port("user")?);
        Ok(Self { handshake, data, keep, last, user, user_bytes })
    }

    /// Offers a beat, or none. `user` gives its side signals.
    fn offer<U>(&self, model: &mut Model, beat: Option<AxisBeat<U>>, user: impl Fn(&U, &mut [u8])) {
        if let Some(beat) = &beat {
            model.set_bytes(self.data, &beat.data);
            model.set_u64(self.keep, beat.keep.into());
            model.set_u64(self.last, beat.last.into());
            let mut bytes = [0; USER];
            user(&beat.user, &mut bytes[..self.user_bytes]);
            model.set_bytes(self.user, &bytes[..self.user_bytes]);
        }
        model.set_u64(self.handshake.valid, beat.is_some().into());
    }

    fn passes(&self, model: &Model) -> bool {
        model.get_u64(self.handshake.valid) == 1 && model.get_u64(self.handshake.ready) == 1
    }

    /// The beat that passes in this cycle.
    fn take<U>(&self, model: &Model, user: impl Fn(&[u8]) -> U) -> Option<AxisBeat<U>> {
        self.passes(model).then(|| {
            let (mut data, mut bytes) = ([0; BEAT], [0; USER]);
            model.get_bytes(self.data, &mut data);
            model.get_bytes(self.user, &mut bytes[..self.user_bytes]);
            AxisBeat {
                data,
                keep: model.get_u64(self.keep) as u16,
                last: model.get_u64(self.last) == 1,
                user: user(&bytes[..self.user_bytes]),
            }
        })
    }
}

/// The four streams, and the sequence numbers.
#[derive(Clone, Copy)]
pub struct Pcie4Ports {
    rq: AxisPorts,
    rc: AxisPorts,
    cq: AxisPorts,
    cc: AxisPorts,
    seq_valid: PortId,
    seq_number: PortId,
    nph_av: PortId,
}

impl Pcie4Ports {
    pub fn of(library: &Library) -> Result<Self, PortError> {
        Ok(Self {
            rq: AxisPorts::of(library, "rq", rq_user::BYTES)?,
            rc: AxisPorts::of(library, "rc", rc_user::BYTES)?,
            cq: AxisPorts::of(library, "cq", cq_user::BYTES)?,
            cc: AxisPorts::of(library, "cc", cc_user::BYTES)?,
            seq_valid: library.port("rq_seq_valid")?,
            seq_number: library.port("rq_seq_number0")?,
            nph_av: library.port("tfc_nph_av")?,
        })
    }

    /// Sets the inputs. The tables of side signals are as long as the arrays, so nothing can go wrong there.
    pub fn drive(&self, model: &mut Model, block: &mut Pcie4Block, cycle: u64) {
        self.rc.offer(model, block.rc(cycle), |user, bytes| {
            let _ = user.emit(bytes);
        });
        self.cq.offer(model, block.cq(cycle), |user, bytes| {
            let _ = user.emit(bytes);
        });
        model.set_u64(self.rq.handshake.ready, block.rq_ready(cycle).into());
        model.set_u64(self.cc.handshake.ready, block.cc_ready(cycle).into());
        model.set_u64(self.nph_av, block.nph_av(cycle).into());
        let number = block.rq_seq_num();
        model.set_u64(self.seq_valid, number.is_some().into());
        model.set_u64(self.seq_number, number.unwrap_or(0).into());
    }

    /// Takes what passes.
    pub fn take(&self, model: &Model, block: &mut Pcie4Block, cycle: u64) {
        if self.rc.passes(model) {
            block.rc_taken(cycle);
        }
        if self.cq.passes(model) {
            block.cq_taken(cycle);
        }
        if let Some(beat) = self.rq.take(model, |user| RqUser::parse(user).unwrap_or_default()) {
            block.rq_beat(cycle, &beat);
        }
        if let Some(beat) = self.cc.take(model, |user| CcUser::parse(user).unwrap_or_default()) {
            block.cc_beat(cycle, &beat);
        }
    }
}
