// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's side of a card whose ports are its DMA streams.

use std::collections::VecDeque;

use ferrowire_verilator::{Library, Model, PortError, PortId};

use super::ports::{stream, Handshake};
use super::{CsrAccess, Interrupt};
use crate::host::Host;
use crate::wire::MAX_BEAT;

/// The host's side of a card with DMA streams.
#[derive(Clone, Copy)]
pub struct DmaPorts {
    csr: Handshake,
    csr_address: PortId,
    csr_write: PortId,
    csr_wide: PortId,
    csr_data: PortId,
    csr_response: Handshake,
    csr_response_data: PortId,
    read: Handshake,
    read_address: PortId,
    read_length: PortId,
    data: Handshake,
    data_data: PortId,
    data_last: PortId,
    data_error: PortId,
    write: Handshake,
    write_address: PortId,
    write_length: PortId,
    write_data: PortId,
    write_strobe: PortId,
    write_last: PortId,
    /// Valid, EQN and vector, where the design has interrupts.
    interrupt: Option<[PortId; 3]>,
}

impl DmaPorts {
    pub fn of(library: &Library) -> Result<Self, PortError> {
        let port = |name: &str| library.port(name);
        Ok(Self {
            csr: stream(library, "csr")?,
            csr_address: port("csr_address")?,
            csr_write: port("csr_write")?,
            csr_wide: port("csr_wide")?,
            csr_data: port("csr_data")?,
            csr_response: stream(library, "csr_response")?,
            csr_response_data: port("csr_response_data")?,
            read: stream(library, "dma_read")?,
            read_address: port("dma_read_address")?,
            read_length: port("dma_read_length")?,
            data: stream(library, "dma_data")?,
            data_data: port("dma_data_data")?,
            data_last: port("dma_data_last")?,
            data_error: port("dma_data_error")?,
            write: stream(library, "dma_write")?,
            write_address: port("dma_write_address")?,
            write_length: port("dma_write_length")?,
            write_data: port("dma_write_data")?,
            write_strobe: port("dma_write_strobe")?,
            write_last: port("dma_write_last")?,
            interrupt: match port("interrupt_valid") {
                Ok(valid) => Some([valid, port("interrupt_eqn")?, port("interrupt_vector")?]),
                Err(_) => None,
            },
        })
    }
}

/// The memory, and the register accesses that wait.
pub struct DmaSide {
    ports: DmaPorts,
    beat: usize,
    pub host: Host,
    pub csr: VecDeque<CsrAccess>,
    pub csr_taken: u64,
    pub csr_taken_at: u64,
    pub responses: VecDeque<u64>,
    /// Whether the input's valid is set in the model: csr, data.
    driven: [bool; 2],
}

impl DmaSide {
    pub fn new(ports: DmaPorts, beat: usize, latency: u64, model: &mut Model) -> Self {
        for ready in [ports.csr_response.ready, ports.read.ready, ports.write.ready] {
            model.set_u64(ready, 1);
        }
        Self {
            ports,
            beat,
            host: Host::new(beat, latency),
            csr: VecDeque::new(),
            csr_taken: 0,
            csr_taken_at: 0,
            responses: VecDeque::new(),
            driven: [false; 2],
        }
    }

    /// Sets the inputs.
    pub fn drive(&mut self, model: &mut Model, cycle: u64) {
        let ports = self.ports;
        let csr = self.csr.front();
        if let Some(access) = csr {
            model.set_u64(ports.csr_address, access.address.into());
            model.set_u64(ports.csr_write, access.write.into());
            model.set_u64(ports.csr_wide, access.wide.into());
            model.set_u64(ports.csr_data, access.data);
        }
        let data = self.host.read_data(cycle);
        if let Some((bytes, last, error)) = data {
            model.set_bytes(ports.data_data, bytes);
            model.set_u64(ports.data_last, last.into());
            model.set_u64(ports.data_error, error.into());
        }
        let driven = [csr.is_some(), data.is_some()];
        if driven != self.driven {
            self.driven = driven;
            for (stream, valid) in [ports.csr, ports.data].into_iter().zip(driven) {
                model.set_u64(stream.valid, valid.into());
            }
        }
    }

    /// Takes what passes.
    pub fn take(&mut self, model: &Model, cycle: u64, interrupts: &mut VecDeque<Interrupt>) {
        let ports = self.ports;
        if self.driven[0] && model.get_u64(ports.csr.ready) == 1 {
            self.csr.pop_front();
            self.csr_taken += 1;
            self.csr_taken_at = cycle;
        }
        if model.get_u64(ports.csr_response.valid) == 1 {
            self.responses.push_back(model.get_u64(ports.csr_response_data));
        }
        if let Some([valid, eqn, vector]) = ports.interrupt {
            if model.get_u64(valid) == 1 {
                let (eqn, vector) = (model.get_u64(eqn) as u8, model.get_u64(vector) as u8);
                interrupts.push_back(Interrupt { cycle, eqn, vector });
            }
        }
        if self.driven[1] && model.get_u64(ports.data.ready) == 1 {
            self.host.read_data_taken();
        }
        if model.get_u64(ports.write.valid) == 1 {
            let mut data = [0; MAX_BEAT];
            model.get_bytes(ports.write_data, &mut data[..self.beat]);
            self.host.write_beat(
                cycle,
                model.get_u64(ports.write_address),
                model.get_u64(ports.write_length),
                &data[..self.beat],
                model.get_u64(ports.write_strobe),
                model.get_u64(ports.write_last) == 1,
            );
        }
        // Behind the write: a read sees what was written before it.
        if model.get_u64(ports.read.valid) == 1 {
            let (address, length) = (ports.read_address, ports.read_length);
            self.host.read_request(cycle, model.get_u64(address), model.get_u64(length));
        }
    }
}
