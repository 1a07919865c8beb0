// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's side of a card on a board: the two pins of its serial line.

use ferrowire_serial::line::{Driver, Reader};
use ferrowire_verilator::{Library, Model, PortError, PortId};

use crate::host::Host;

/// The line, and a host that has nothing: the card's memory is on the board.
pub struct SerialSide {
    rx: PortId,
    tx: PortId,
    level: bool,
    pub to_board: Driver,
    pub to_pc: Reader,
    pub host: Host,
}

impl SerialSide {
    /// `bit`: cycles of a bit. The line is high.
    pub fn new(library: &Library, bit: f64, model: &mut Model) -> Result<Self, PortError> {
        let (rx, tx) = (library.port("serial_rx")?, library.port("serial_tx")?);
        model.set_u64(rx, 1);
        let (to_board, to_pc) = (Driver::new(bit), Reader::new(bit));
        Ok(Self { rx, tx, level: true, to_board, to_pc, host: Host::new(8, 0) })
    }

    /// Sets the input.
    pub fn drive(&mut self, model: &mut Model) {
        let level = self.to_board.level();
        if level != self.level {
            self.level = level;
            model.set_u64(self.rx, level.into());
        }
    }

    /// Looks at the output.
    pub fn take(&mut self, model: &Model) {
        self.to_pc.take(model.get_u64(self.tx) == 1);
    }
}
