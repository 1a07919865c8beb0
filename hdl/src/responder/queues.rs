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
use ferrowire_rtl::{lit, Bundle, Collision, Mem, Scope, Sig, Style};

/// A table of all receive queues.
pub struct Queues<T: Bundle> {
    /// The rows of QPs.
    pub own: Mem<T>,
    /// Those of shared queues, if there are any.
    shared: Option<Mem<T>>,
    qp_bits: u32,
    srq_bits: u32,
}

impl<T: Bundle> Queues<T> {
    /// A table; `style` is that of the QPs' part.
    pub fn new(m: &Scope, cfg: &RnicConfig, name: &str, shape: &T, style: Style) -> Self {
        let own = m.mem(name, cfg.qps, shape).style(style).build();
        let of_shared =
            || m.mem(&format!("shared_{name}"), cfg.srqs, shape).style(Style::Distributed).build();
        let shared = cfg.has_srqs().then(of_shared);
        Queues { own, shared, qp_bits: cfg.qp_bits(), srq_bits: cfg.srq_bits() }
    }

    /// Writes a row.
    #[track_caller]
    pub fn write(&self, enable: Sig, number: Sig, row: &T) {
        let of_shared = if self.shared.is_some() { number.msb() } else { lit(1, 0) };
        self.own.write(enable & !of_shared, number.trunc(self.qp_bits), row);
        self.write_shared(enable & of_shared, number.trunc(self.srq_bits), row);
    }

    /// Writes that of a shared queue.
    #[track_caller]
    pub fn write_shared(&self, enable: Sig, queue: Sig, row: &T) {
        if let Some(shared) = &self.shared {
            shared.write(enable, queue, row);
        }
    }

    /// A row, in the next cycle.
    #[track_caller]
    pub fn read(&self, m: &Scope, enable: Sig, number: Sig, collision: Collision) -> T {
        let (qp, srq) = (number.trunc(self.qp_bits), number.trunc(self.srq_bits));
        let Some(shared) = &self.shared else {
            return self.own.read(m, enable, qp, collision);
        };
        // Which of both is known late: both are read.
        let own = self.own.read(m, enable, qp, collision);
        let shared = shared.read(m, enable, srq, collision);
        let of_shared = m.reg("of_shared", 1).no_reset();
        m.when(enable, |m| m.set(&of_shared, number.msb()));
        m.mux(of_shared, &shared, &own)
    }

    /// A row, at once.
    #[track_caller]
    pub fn read_now(&self, m: &Scope, number: Sig) -> T {
        let (qp, srq) = (number.trunc(self.qp_bits), number.trunc(self.srq_bits));
        let own = self.own.read_now(qp);
        match &self.shared {
            Some(shared) => m.mux(number.msb(), &shared.read_now(srq), &own),
            None => own,
        }
    }
}
