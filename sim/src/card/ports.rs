// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ports of streams, looked up once.

use ferrowire_verilator::{Library, Model, PortError, PortId};

use crate::wire::Beat;

/// A stream's handshake.
#[derive(Clone, Copy)]
pub struct Handshake {
    pub valid: PortId,
    pub ready: PortId,
}

/// A stream of packets.
#[derive(Clone, Copy)]
pub struct BeatPorts {
    pub handshake: Handshake,
    data: PortId,
    last: PortId,
    empty: PortId,
}

/// The ports of a stream by name.
pub fn stream(library: &Library, name: &str) -> Result<Handshake, PortError> {
    let port = |field: &str| library.port(&format!("{name}_{field}"));
    Ok(Handshake { valid: port("valid")?, ready: port("ready")? })
}

/// The ports of a channel of AXI by name.
pub fn channel(library: &Library, name: &str) -> Result<Handshake, PortError> {
    let port = |field: &str| library.port(&format!("{name}{field}"));
    Ok(Handshake { valid: port("valid")?, ready: port("ready")? })
}

impl BeatPorts {
    pub fn of(library: &Library, name: &str) -> Result<Self, PortError> {
        let port = |field: &str| library.port(&format!("{name}_{field}"));
        let handshake = stream(library, name)?;
        Ok(Self { handshake, data: port("data")?, last: port("last")?, empty: port("empty")? })
    }

    pub fn set(&self, model: &mut Model, beat: &Beat, bytes: usize) {
        model.set_bytes(self.data, &beat.data[..bytes]);
        model.set_u64(self.last, beat.last.into());
        model.set_u64(self.empty, beat.empty.into());
    }

    pub fn passes(&self, model: &Model) -> bool {
        model.get_u64(self.handshake.valid) == 1 && model.get_u64(self.handshake.ready) == 1
    }

    pub fn get(&self, model: &Model, bytes: usize) -> Option<Beat> {
        (model.get_u64(self.handshake.valid) == 1).then(|| {
            let mut beat = Beat::EMPTY;
            model.get_bytes(self.data, &mut beat.data[..bytes]);
            beat.last = model.get_u64(self.last) == 1;
            beat.empty = model.get_u64(self.empty) as u8;
            beat
        })
    }
}
