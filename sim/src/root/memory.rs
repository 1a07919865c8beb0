// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Memory`]: host memory behind the card's writes, and when each of these is done.
//!
//! ```text
//!  write --> [ waits a while ] --> in the window of interrupts? --> interrupts
//!                                               otherwise --------> memory
//! ```
//!
//! The order is that of PCIe 2.4.1, table 2-40: a write without relaxed ordering passes none that came before it, one with it
//! passes all; whoever reads waits for all that came before the read.

use std::collections::VecDeque;
use std::ops::Range;

use super::request::Request;
use crate::host::Host;

/// A write that has come and is not done.
struct Write {
    /// Writes that came before it.
    number: u64,
    due: u64,
    request: Request,
    packet: Vec<u8>,
}

/// An interrupt: when it was seen, the address that was written, and the data.
pub type Interrupt = (u64, u64, u32);

pub(super) struct Memory {
    pub host: Host,
    /// Addresses that are interrupts and not memory.
    pub window: Range<u64>,
    pub interrupts: VecDeque<Interrupt>,
    waiting: VecDeque<Write>,
    spare: Vec<Vec<u8>>,
    /// No write is due before.
    wake: u64,
    /// Writes that came.
    count: u64,
}

impl Memory {
    pub fn new(host: Host) -> Self {
        Self {
            host,
            window: 0..0,
            interrupts: VecDeque::new(),
            waiting: VecDeque::new(),
            spare: Vec::new(),
            wake: u64::MAX,
            count: 0,
        }
    }

    /// Writes that came so far: those that a read which comes now is behind.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether a write waits.
    pub fn busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a write is an interrupt.
    pub fn is_interrupt(&self, request: &Request) -> bool {
        self.window.contains(&request.address())
    }

    /// Takes a write, to be done `wait` cycles later if the order lets it.
    pub fn write(&mut self, cycle: u64, request: Request, packet: &[u8], wait: u64) {
        let number = self.count;
        self.count += 1;
        if wait == 0 && self.waiting.is_empty() {
            self.perform(cycle, &request, packet);
            return;
        }
        let mut own = self.spare.pop().unwrap_or_default();
        own.clear();
        own.extend_from_slice(packet);
        self.wake = self.wake.min(cycle + wait);
        self.waiting.push_back(Write { number, due: cycle + wait, request, packet: own });
    }

    /// Does what is due.
    pub fn work(&mut self, cycle: u64) {
        if cycle < self.wake {
            return;
        }
        let mut at = 0;
        while at < self.waiting.len() {
            let write = &self.waiting[at];
            let free = at == 0 || write.request.header.relaxed;
            if free && write.due <= cycle {
                // What is behind it may be free now, but nothing that was looked at already.
                self.perform_waiting(cycle, at);
            } else {
                at += 1;
            }
        }
        self.wake = self.waiting.iter().map(|write| write.due.max(cycle + 1)).min().unwrap_or(u64::MAX);
    }

    /// Does all writes that came before the one with that number.
    pub fn push_out(&mut self, cycle: u64, number: u64) {
        while self.waiting.front().is_some_and(|write| write.number < number) {
            self.perform_waiting(cycle, 0);
        }
    }

    fn perform_waiting(&mut self, cycle: u64, at: usize) {
        if let Some(write) = self.waiting.remove(at) {
            self.perform(cycle, &write.request, &write.packet);
            self.spare.push(write.packet);
        }
    }

    fn perform(&mut self, cycle: u64, request: &Request, packet: &[u8]) {
        let data = &packet[request.header_bytes()..];
        if self.is_interrupt(request) {
            let word = data.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
            self.interrupts.push_back((cycle, request.address(), word));
        } else {
            self.host.write_whole(cycle, request.address(), data, |byte| request.enables(byte as u32));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which writes of these kinds are seen, with waits of so many cycles.
    fn order(writes: &[(bool, u64)]) -> Vec<u32> {
        let mut memory = Memory::new(Host::new(8, 0));
        memory.window = 0..4096;
        for (i, (relaxed, wait)) in writes.iter().enumerate() {
            let mut request = Request::new(true, 16, 1, 15, 0);
            request.header.relaxed = *relaxed;
            let packet = request.emit(&(i as u32).to_le_bytes());
            memory.write(0, request, &packet, *wait);
        }
        (0..100).for_each(|cycle| memory.work(cycle));
        assert!(!memory.busy());
        memory.interrupts.iter().map(|(_, _, data)| *data).collect()
    }

    #[test]
    fn writes_stay_in_order_however_long_each_waits() {
        assert_eq!(order(&[(false, 9), (false, 0), (false, 20), (false, 1)]), [0, 1, 2, 3]);
    }

    #[test]
    fn relaxed_writes_pass_others_and_others_pass_none() {
        assert_eq!(order(&[(false, 9), (true, 0)]), [1, 0]);
        assert_eq!(order(&[(true, 9), (false, 0)]), [0, 1]);
        assert_eq!(order(&[(true, 9), (true, 0), (false, 3), (true, 5)]), [1, 3, 0, 2]);
    }

    #[test]
    fn what_comes_behind_pushes_out_what_came_before_it_and_no_more() {
        let mut memory = Memory::new(Host::new(8, 0));
        memory.window = 0..4096;
        for relaxed in [false, true, false] {
            let mut request = Request::new(true, 16, 1, 15, 0);
            request.header.relaxed = relaxed;
            let packet = request.emit(&[0; 4]);
            memory.write(0, request, &packet, 50);
        }
        memory.push_out(1, 2);
        assert_eq!(memory.interrupts.len(), 2);
        memory.work(49);
        assert_eq!(memory.interrupts.len(), 2);
        memory.work(50);
        assert_eq!(memory.interrupts.len(), 3);
    }
}
