// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines to [commands](crate::rows) of DDR3, and when a line's words and strobes follow.
//!
//! ```text
//!  line --+--> rows --> command
//!         +--> data, mask --> [ ] --> [ ] --> [ 4 cycles of two words ] --> strobes and data, six cycles behind WRITE
//! ```
//!
//! **Rates.** A line in four cycles in rows that are open; from READ to a line written there 10, from WRITE to one read 14; a row that is not open costs 2, one that must be closed first 2 or 11 more. A refresh takes 20 of 386 cycles at 50 MHz.
//!
//! **Reset** forgets what is to be written.

use ferrowire_rtl::{cat, module, Bundle, Interface, Scope, Sig, Stream};

use crate::config::{DramConfig, CCD, CWL, LINE_BYTES, WORD_BITS};
use crate::rows::{rows, Access, Command};

/// A line of the memory, to be read or written.
#[derive(Clone, Bundle)]
pub(crate) struct Line {
    /// Which, and which way.
    pub access: Access,
    /// What is written.
    pub data: Sig,
    /// Which bytes are not.
    pub mask: Sig,
}

/// What is written in a cycle.
#[derive(Clone, Bundle)]
pub(crate) struct Written {
    /// The FPGA drives data and strobes.
    pub drive: Sig,
    /// A strobe rises and falls.
    pub strobe: Sig,
    /// The word at the rising and that at the falling edge.
    pub data: Sig,
    /// Which bytes of them are not written.
    pub mask: Sig,
}

/// What leaves.
#[derive(Interface)]
pub(crate) struct Issued {
    pub command: Command,
    /// A line is read by the command of this cycle.
    pub read: Sig,
    pub written: Written,
}

/// See the page's top. `start`: commands until `up`, from when lines are taken and the memory is refreshed.
#[module]
pub(crate) fn commands(m: &Scope, cfg: &DramConfig, up: Sig, start: Command, line: Stream<Line>) -> Issued {
    let Line { data, mask, .. } = line.payload.clone();
    let chosen = rows(m, &cfg.device(), up, start, line.map(|line| line.access.clone()));
    Issued { command: chosen.command, read: chosen.read, written: written(m, chosen.writes, &data, &mask) }
}

/// Words and strobes behind a WRITE that is chosen in this cycle and on the wires in the next.
fn written(m: &Scope, writes: Sig, data: &Sig, mask: &Sig) -> Written {
    // Bit k: a WRITE was on the wires k cycles ago.
    let ago = m.reg("ago", CWL + CCD + 2).reset(0);
    m.set(&ago, cat(&[writes, ago.trunc(CWL + CCD + 1)]));
    let both = cat(&[*data, *mask]);
    // The next WRITE may come four cycles behind; the words wait for six.
    let (first, second) = (m.reg("first", both.width()).no_reset(), m.reg("waits", both.width()).no_reset());
    m.when(writes, |m| m.set(&first, both));
    m.when(ago.bit(2), |m| m.set(&second, first));
    let words = m.reg("words", 8 * LINE_BYTES).no_reset();
    let masks = m.reg("masks", LINE_BYTES).no_reset();
    let (pair, pair_mask) = (2 * WORD_BITS, 2 * WORD_BITS / 8);
    m.set(&words, words >> pair);
    m.set(&masks, masks >> pair_mask);
    m.when(ago.bit(CWL - 1), |m| {
        m.set(&words, second.trunc(8 * LINE_BYTES));
        m.set(&masks, second.slice(8 * LINE_BYTES, LINE_BYTES));
    });
    Written {
        // Two cycles before the first edge, of which the last is the preamble, and two behind the last.
        drive: ago.slice(CWL - 2, CCD + 4).any(),
        strobe: ago.slice(CWL, CCD).any(),
        data: words.trunc(pair),
        mask: masks.trunc(pair_mask),
    }
}
