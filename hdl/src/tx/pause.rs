// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who stands still because the other end of the wire says so: PAUSE and PFC (IEEE 802.3 annexes 31B and 31D).
//!
//! ```text
//!  parse: a sound frame --> obeyed? --> a time for each priority, waits for its turn --+
//!                                                                                      v
//!                        turn: 0..7, round and round ---------> time of the turn --> load, or subtract --> stands
//!                                                                  ^     |             ^
//!                        clock --> quanta --> passed in 8 cycles --)-----)-------------+
//!                                                                  +-----+ RAM of 8 times
//! ```
//!
//! A PAUSE is kept as the time of priority 0, and makes all stand. Each priority has its turn every 8 cycles: a time that has come is
//! loaded, otherwise the quanta of the last 8 cycles are subtracted. A priority stands from its load until more quanta have passed than it was
//! told: for `n` to `n + 1` quanta, and up to 8 cycles more, never less. Time 0 lets it go at once. The newest frame counts.
//!
//! **Latency:** 4 to 11 cycles from the cycle in which a frame is heard until its priorities stand or are let go. **Throughput:** a frame a
//! cycle; of a priority that is told twice within 8 cycles the newer time counts. What is not obeyed any more is let go in 3 cycles. Reset:
//! nobody stands.
//!
//! Bad input: `parse` lets sound frames through alone. A quantum of less than a cycle counts as the datapath's.

use crate::config::RnicConfig;
use crate::fields::field;
use crate::rx::parse::MacControl;
use ferrowire_rtl::{bits, cat, lit, module, Bundle, Scope, Sig, Style};
use ferrowire_spec::wire::{pause, pfc};

/// Priorities of a wire.
pub const PRIORITIES: u32 = 8;

/// What is obeyed, from the registers of the same names.
#[derive(Clone, Bundle)]
pub struct FlowControl {
    /// PAUSE frames are.
    pub pause: Sig,
    /// PFC frames are, for these priorities, where PAUSE frames are not.
    pub pfc: Sig,
    /// Cycles of a quantum, times 256.
    pub quantum: Sig,
}

impl FlowControl {
    /// The shape.
    pub fn of() -> Self {
        FlowControl { pause: bits(1), pfc: bits(PRIORITIES), quantum: bits(20) }
    }
}

/// Bits of a quantum behind the point.
const FRACTION: u32 = 8;

/// Cycles of 512 bits at the datapath's rate, times 256.
pub fn quantum(cfg: &RnicConfig) -> u32 {
    (pause::QUANTUM_BITS << FRACTION) / (8 * cfg.beat_bytes)
}

/// A pulse for each quantum that has passed.
fn quanta(m: &Scope, cfg: &RnicConfig, given: Sig) -> Sig {
    let width = given.width();
    let whole = width - FRACTION;
    let high = given.slice(FRACTION, whole);
    // Less one cycle, in which the pulse comes.
    let usual = lit(width, quantum(cfg) - (1 << FRACTION));
    let given = cat(&[given.trunc(FRACTION), high - 1]);
    let period = m.delay("period", &high.any().then(given, usual));
    let left = m.reg("left", width).reset(0);
    let (rest, cycles) = (left.trunc(FRACTION), left.slice(FRACTION, whole));
    let over = cycles.eq(0);
    m.set(&left, over.then(period + rest.zext(width), cat(&[rest, cycles - 1])));
    over
}

/// Which priorities stand still.
#[module]
pub fn pause(m: &Scope, cfg: &RnicConfig, control: FlowControl, heard: MacControl) -> Sig {
    let n = PRIORITIES as usize;
    let turn = m.reg("turn", 3).reset(0);
    m.set(&turn, turn + 1);

    // Quanta in 8 cycles.
    let quantum = quanta(m, cfg, control.quantum);
    let count = m.reg("count", 4).reset(0);
    let passed = m.reg("passed", 4).reset(0);
    let sum = count + quantum.zext(4);
    m.set(&count, turn.all().then(lit(4, 0), sum));
    m.when(turn.all(), |m| m.set(&passed, sum));

    // What has come, until it is its priority's turn.
    let link = m.delay("link", &control.pause);
    let obeyed = m.delay("obeyed", &link.then(lit(PRIORITIES, 1), control.pfc));
    let enables = field(&pfc::LAYOUT, &pfc::ENABLES, heard.fields);
    let by_pfc = enables & (heard.pfc & !link).repeat(PRIORITIES);
    let told = (by_pfc | (heard.pause & link).zext(PRIORITIES)) & obeyed;
    let times: Vec<Sig> = (0..n)
        .map(|i| {
            let time = field(&pfc::LAYOUT, &pfc::TIMES[i], heard.fields);
            let time = match i {
                0 => link.then(field(&pause::LAYOUT, &pause::TIME, heard.fields), time),
                _ => time,
            };
            let kept = m.reg(&format!("time{i}"), 16).no_reset();
            m.when(told.bit(i as u32), |m| m.set(&kept, time));
            kept
        })
        .collect();
    let waiting = m.reg("waiting", PRIORITIES).reset(0);
    let his = lit(PRIORITIES, 1).shl_by(turn);
    m.set(&waiting, (waiting & !his) | told);

    // The turn's time a cycle later.
    let at = m.reg("at", 3).reset(0);
    m.set(&at, turn);
    let loads = m.reg("loads", 1).reset(0);
    m.set(&loads, (waiting & his).any());
    let time = m.delay("time", &m.select(turn, &times));
    let left = m.mem("left", PRIORITIES, &bits(16)).style(Style::Distributed).build();
    let rest = left.read_now(at).zext(17) - passed.zext(17);
    left.write(lit(1, 1), at, &loads.then(time, rest.trunc(16)));
    let stands = m.reg("stands", PRIORITIES).reset(0);
    let here = lit(PRIORITIES, 1).shl_by(at);
    let goes_on = loads.then(time.any(), !rest.msb());
    let stays = stands & (!here | goes_on.repeat(PRIORITIES));
    let begins = here & (loads & goes_on).repeat(PRIORITIES);
    m.set(&stands, (stays | begins) & obeyed);
    m.delay("all", &(stands | (link & stands.bit(0)).repeat(PRIORITIES)))
}

#[cfg(test)]
mod tests;
