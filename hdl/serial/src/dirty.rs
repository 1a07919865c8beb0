// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which blocks of memory the card has written.
//!
//! ```text
//!  memory: the last beat in a block --> 1 --+--> table, a bit a block
//!                                           |       | read
//!  scan: a word ---> bit 0 to 63 --> read --+--> [ 64 bits ] ---> scanned
//!                                      +---> 0
//! ```
//!
//! A PC has a copy of on-board memory, and reads no more of it than the card has written since it looked last.
//!
//! **Order.** A block's bit is set when all of a burst that is in this block is in memory, and taken back before the PC can read the block. So what is written after the bit was taken sets it again, and what
//! was written before is seen by that read. A write that comes between the look at a bit and its taking leaves it set: a block is read once more, and none is missed.
//!
//! **Rates.** Two cycles a bit, one more for each write of the card that comes just then; 64 bits a word. Writes never wait: they have the table's one write port first.
//!
//! **Memory**: a bit for each block of [`BLOCK`] bytes, zeros at power-on; it survives reset as what it tells of does. Reset forgets a scan that is under way: bits that it has taken are lost, as is the session that asked.
//!
//! **Bad input**: none; who asks has judged the word. Longest path: a block's number against that which is looked at, then the next state.

use crate::protocol::BLOCK;
use crate::SerialConfig;
use ferrowire_rtl::{bits, cat, clog2, module, Bundle, Collision, Scope, Sig};

/// Bits of a word of the table, as it is told.
pub const WORD: u32 = 64;

/// Words of the table.
pub fn words(cfg: &SerialConfig) -> u32 {
    let blocks = u32::try_from(cfg.memory_bytes / u64::from(BLOCK)).expect("validated");
    // A word's number has a bit at least.
    (blocks / WORD).max(2)
}

/// The card has written.
#[derive(Clone, Bundle)]
pub struct Wrote {
    /// In this cycle.
    pub valid: Sig,
    /// To this block of memory.
    pub block: Sig,
}

impl Wrote {
    /// The shape.
    pub fn of(cfg: &SerialConfig) -> Self {
        Wrote { valid: bits(1), block: bits(clog2(u64::from(words(cfg) * WORD))) }
    }
}

/// Takes a word of the table.
#[derive(Clone, Bundle)]
pub struct Scan {
    /// From now on, until it is there.
    pub valid: Sig,
    /// Which word.
    pub word: Sig,
}

impl Scan {
    /// The shape.
    pub fn of(cfg: &SerialConfig) -> Self {
        Scan { valid: bits(1), word: bits(clog2(u64::from(words(cfg)))) }
    }
}

/// What was in it.
#[derive(Clone, Bundle)]
pub struct Scanned {
    /// In this cycle; the scan ends with it.
    pub valid: Sig,
    /// A bit for each block, the first is bit 0.
    pub bits: Sig,
}

impl Scanned {
    /// The shape.
    pub fn of() -> Self {
        Scanned { valid: bits(1), bits: bits(WORD) }
    }
}

/// The table.
#[module]
pub fn dirty(m: &Scope, cfg: &SerialConfig, wrote: Wrote, scan: Scan) -> Scanned {
    let table = m.mem("table", words(cfg) * WORD, &bits(1)).build();
    let bit = m.reg("bit", clog2(WORD.into())).reset(0);
    let at = cat(&[bit, scan.word]).named("at");
    let done = m.reg("done", 1).reset(0);
    let word = m.reg("word", WORD).no_reset();

    // The look, and whether the card has written there since.
    let looked = m.reg("looked", 1).reset(0);
    let again = m.reg("again", 1).no_reset();
    let meets = (wrote.valid & wrote.block.eq(at)).named("meets");
    let looks = (scan.valid & !done & !looked & !meets).named("looks");
    // They never meet, so what a meeting gives is not said.
    let was = table.read(m, looks, at, Collision::Any);
    m.when(looks, |m| {
        m.set(&looked, 1);
        m.set(&again, 0);
    });
    m.when(looked & meets, |m| m.set(&again, 1));

    let takes = (looked & !wrote.valid).named("takes");
    m.set(&done, 0);
    m.when(takes, |m| {
        m.set(&looked, 0);
        m.set(&bit, bit + 1);
        m.set(&word, cat(&[word.slice(1, WORD - 1), was]));
        m.set(&done, bit.all());
    });
    let clears = takes & !again;
    table.write(wrote.valid | clears, wrote.valid.then(wrote.block, at), &wrote.valid);
    Scanned { valid: done, bits: word }
}
