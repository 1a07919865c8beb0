// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of AXI4 for what a manager asks for, and what a card promises beyond them.

use super::channel::{Address, WriteBeat, INCR};

const FIXED: u8 = 0;
const WRAP: u8 = 2;

/// Longest burst's end, and the boundary that none may cross.
const PAGE: u64 = 4096;

/// Judges an address on a bus of `width` bytes, where IDs are below `ids`.
///
/// # Errors
/// The rule that it breaks, and the clause.
pub fn address(what: &Address, width: usize, ids: u8) -> Result<(), String> {
    let &Address { address, len, size, burst, cache, .. } = what;
    let broken = |why: String| Err(format!("{} beats at {address:#x}: {why}", what.beats()));
    let clause = |why: &str, clause: &str| broken(format!("{why} (AXI4 {clause})"));
    if burst == 3 {
        return clause("burst type 3 is reserved", "A3.4.1");
    }
    if what.bytes() > width as u64 {
        return clause(&format!("size {size} is more than the bus of {width} bytes"), "A3.4.1");
    }
    if burst == FIXED && len > 15 {
        return clause("a fixed burst of more than 16 beats", "A3.4.1");
    }
    if burst == WRAP && ![1, 3, 7, 15].contains(&len) {
        return clause("a wrapping burst is not of 2, 4, 8 or 16 beats", "A3.4.1");
    }
    if burst == WRAP && address % what.bytes() != 0 {
        return clause("a wrapping burst that is not aligned", "A3.4.1");
    }
    if burst == INCR && address % PAGE + what.length() > PAGE {
        return clause("it crosses 4 KiB", "A3.4.1");
    }
    if cache & 2 == 0 && cache & 12 != 0 {
        return clause(&format!("AxCACHE {cache:#06b} is reserved"), "A4.4");
    }
    // Not of AXI4, but of the card.
    if burst != INCR {
        return broken(format!("burst type {burst}, and the card promises bursts of increasing addresses"));
    }
    if what.bytes() != width as u64 {
        return broken(format!("size {size}, and the card promises beats of the whole width"));
    }
    if what.id >= ids {
        return broken(format!("ID {}, and the card promises IDs below {ids}", what.id));
    }
    Ok(())
}

/// Judges the strobes of a write's beat: no byte outside of what is addressed.
///
/// # Errors
/// The rule that it breaks, and the clause.
pub fn strobes(what: &Address, beat: usize, data: &WriteBeat, width: usize) -> Result<(), String> {
    let (first, end) = what.lanes(beat, width);
    let allowed = mask(end) & !mask(first);
    if data.strobe & !allowed == 0 {
        return Ok(());
    }
    let (beats, address, strobe) = (what.beats(), what.address, data.strobe);
    Err(format!(
        "beat {beat} of {beats} at {address:#x} has strobes {strobe:#x}: only lanes {first} to {} are addressed (AXI4 A3.4.3)",
        end - 1
    ))
}

/// The lowest `n` of 64 bits.
pub fn mask(n: usize) -> u64 {
    if n >= 64 {
        u64::MAX
    } else {
        (1 << n) - 1
    }
}
