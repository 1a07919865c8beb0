// SPDX-License-Identifier: MIT OR Apache-2.0
//! Goodput on a wire that loses frames: what is left of the rate without loss.
//!
//! One queue pair sends a run of equal messages over a wire at the configuration's line rate. Frames of both directions get
//! lost, each with the same probability. Counted are the cycles from the doorbell to the last completion: recovery at
//! the end of the run is part of it.

use anyhow::{ensure, Result};
use ferrowire::{AccessFlags, Completion, HwCounter, PathMtu, SendWr};

use crate::measure::{line_gbps, shape};
use crate::pair::{bytes, Connection, Pair};
use crate::wire::Faults;

/// Time-out code of the runs: at least 33 us, at most four times that.
pub const TIMEOUT: u8 = 3;

/// Bytes a message.
pub const MESSAGE: usize = 16 << 10;

/// Cycles without a completion after which a run has failed.
const STUCK: u64 = 2_000_000;

/// A run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Path MTU, and so bytes a packet.
    pub mtu: PathMtu,
    /// Messages.
    pub messages: usize,
    /// Probability that a frame gets lost.
    pub loss: f64,
    /// Of the losses.
    pub seed: u64,
}

/// What it came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goodput {
    /// Cycles for all of it.
    pub cycles: u64,
    /// Payload in Gb/s at the clock of the card.
    pub gbps: f64,
    /// Packets sent again.
    pub again: u64,
    /// Time-outs.
    pub timeouts: u64,
}

/// Sends the run from card 0 to card 1 and checks what arrived.
///
/// # Errors
/// A card fails or stops, a message fails, or the bytes are not those that were sent.
pub fn goodput(pair: &Pair, run: &Run) -> Result<Goodput> {
    let connection = Connection {
        mtu: run.mtu,
        send_wr: run.messages.next_power_of_two() as u32,
        timeout: TIMEOUT,
        retry_cnt: 7,
        ..Connection::default()
    };
    let (mut qp, _peer) = pair.connect(&connection)?;
    let source = pair.a.region(0, MESSAGE, AccessFlags::LOCAL_READ)?;
    let target = pair.b.region(0, MESSAGE, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE)?;
    let data: Vec<u8> = (0..MESSAGE).map(|i| (i * 29 + i / 257) as u8).collect();
    source.memory().write(0, &data);
    let (beat, clock_khz) = shape(pair);
    {
        let mut world = pair.world.lock();
        world.set_line_rate(Some(line_gbps(beat, clock_khz)));
        for link in 0..2 {
            let faults = Faults { drop: run.loss, ..Faults::default() };
            world.link_mut(link).set_timed_filter(Some(faults.filter(2 * run.seed + link as u64)));
        }
    }
    let mut batch = qp.start_post_send();
    for i in 0..run.messages {
        let sges = [source.sge(0, MESSAGE as u32)];
        batch.post(&SendWr::write(i as u64, &sges, target.remote(0)).signaled())?;
    }
    let from = pair.world.lock().cycle();
    batch.ring()?;
    let (mut done, mut last) = (0, from);
    let mut some = [Completion::default(); 64];
    while done < run.messages {
        let n = pair.a.cq.poll(&mut some)?;
        if let Some(bad) = some[..n].iter().find(|completion| !completion.is_success()) {
            anyhow::bail!("message {}: {}{}", bad.wr_id(), bad.status(), pair.diagnose());
        }
        let now = pair.world.lock().cycle();
        if n > 0 {
            (done, last) = (done + n, now);
        }
        ensure!(now - last < STUCK, "{done} of {} messages are done{}", run.messages, pair.diagnose());
    }
    ensure!(bytes(target.memory()) == data, "the bytes in the peer's memory are not those that were sent");
    let counter = |counter| pair.a.context.hw_counter(counter);
    let (again, timeouts) = (counter(HwCounter::Retransmitted)?, counter(HwCounter::LocalAckTimeoutErr)?);
    let mut world = pair.world.lock();
    for link in 0..2 {
        world.link_mut(link).set_timed_filter(None);
    }
    let cycles = last - from;
    let bits = (run.messages * MESSAGE * 8) as f64;
    Ok(Goodput { cycles, gbps: bits * f64::from(clock_khz) / cycles as f64 / 1e6, again, timeouts })
}
