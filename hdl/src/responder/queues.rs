// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table with a row for each receive queue: those of QPs, and the shared ones.
//!
//! ```text
//!  number --+-- highest bit 0 --> QP's row      (block RAM) --+
//!           +-- highest bit 1 --> shared one's (LUT RAM)   --+--> row
//! ```
//!
//! Shared queues are few: were both in one memory, it would have twice the QPs' depth for them.

use crate::config::RnicConfig;
use ferrowire_rtl::{Bundle, Collision, Mem, Scope, Sig, Style};

/// A table of all receive queues.
pub struct Queues<T: Bundle> {
    /// The rows of QPs.
    pub own: Mem<T>,
    /// Those of shared queues.
    pub shared: Mem<T>,
    qp_bits: u32,
    srq_bits: u32,
}

impl<T: Bundle> Queues<T> {
    /// A table; `style` is that of the QPs' part.
    pub fn new(m: &Scope, cfg: &RnicConfig, name: &str, shape: &T, style: Style) -> Self {
        let own = m.mem(name, cfg.qps, shape).style(style).build();
        let shared = m.mem(&format!("shared_{name}"), cfg.srqs, shape).style(Style::Distributed).build();
        Queues { own, shared, qp_bits: cfg.qp_bits(), srq_bits: cfg.srq_bits() }
    }

    fn parts(&self, number: Sig) -> (Sig, Sig) {
        (number.trunc(self.qp_bits), number.trunc(self.srq_bits))
    }

    /// Writes a row.
    #[track_caller]
    pub fn write(&self, enable: Sig, number: Sig, row: &T) {
        let (qp, srq) = self.parts(number);
        self.own.write(enable & !number.msb(), qp, row);
        self.shared.write(enable & number.msb(), srq, row);
    }

    /// A row, in the next cycle.
    #[track_caller]
    pub fn read(&self, m: &Scope, enable: Sig, number: Sig, collision: Collision) -> T {
        let (qp, srq) = self.parts(number);
        let own = self.own.read(m, enable & !number.msb(), qp, collision);
        let shared = self.shared.read(m, enable & number.msb(), srq, collision);
        let of_shared = m.reg("of_shared", 1).no_reset();
        m.when(enable, |m| m.set(&of_shared, number.msb()));
        m.mux(of_shared, &shared, &own)
    }

    /// A row, at once.
    #[track_caller]
    pub fn read_now(&self, m: &Scope, number: Sig) -> T {
        let (qp, srq) = self.parts(number);
        m.mux(number.msb(), &self.shared.read_now(srq), &self.own.read_now(qp))
    }
}
