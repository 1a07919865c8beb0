// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples of the data wires to what was read: at which of them a word lies was found at the [start](crate::start).
//!
//! ```text
//!  4 samples --> [ the cycle before ] --> quarter --> [ two words ] --> [ two words ] --> 8 bytes
//!  read --> [ 32 cycles ] --> cycle --> the first of four cycles ------------^
//! ```
//!
//! Word and word are half a cycle apart: two samples. **Latency**: three cycles and the place. **Rate**: a line in four cycles. Reset forgets what was asked for. Longest path: the quarter to one of four samples.

use ferrowire_rtl::{cat, module, Bundle, Scope, Sig};

use crate::config::{CCD, WORD_BITS};
use crate::lines::Beat;
use crate::start::{Place, QUARTERS};

/// Of each data wire, what was there in the four quarters of a cycle, the earliest first.
#[derive(Clone, Bundle)]
pub(crate) struct Samples {
    pub quarters: Vec<Sig>,
}

/// See the page's top. `read`: a line is asked for by the command of this cycle.
#[module]
pub(crate) fn capture(m: &Scope, read: Sig, place: Place, samples: Samples) -> Beat {
    let cycles = QUARTERS / 4;
    let asked = m.reg("asked", cycles).reset(0);
    m.set(&asked, cat(&[read, asked.trunc(cycles - 1)]));
    let (quarter, cycle) = (place.quarters.trunc(2), place.quarters.slice(2, place.quarters.width() - 2));
    let begins = m.reg("begins", 1).reset(0);
    m.set(&begins, asked.bit_at(cycle));

    let before = m.reg_of("before", &samples);
    m.set_all(&before, &samples);
    let all: Vec<Sig> = before.quarters.iter().chain(&samples.quarters).copied().collect();
    let pick = |from: usize| m.select(quarter, &all[from..from + 4]);
    let words = m.reg("words", 2 * WORD_BITS).no_reset();
    m.set(&words, cat(&[pick(0), pick(2)]));
    let earlier = m.reg("earlier", 2 * WORD_BITS).no_reset();
    m.set(&earlier, words);

    // Which of the four cycles of a line this is; the first follows the fourth where reads do.
    let nth = m.reg("nth", CCD).reset(0);
    m.set(&nth, cat(&[begins, nth.trunc(CCD - 1)]));
    Beat { valid: nth.bit(1) | nth.bit(3), data: cat(&[earlier, words]) }
}
