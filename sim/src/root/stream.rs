// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Sender`] and [`Collector`]: packets to beats and back.

use crate::wire::Beat;

/// Longest packet: a header of four double words and 4,096 bytes.
const LONGEST: usize = 16 + 4096;

/// Offers a packet beat by beat. What is on offer stays until it is taken.
pub(super) struct Sender {
    width: usize,
    packet: Vec<u8>,
    at: usize,
    /// A beat was shown and has not been taken.
    offered: bool,
}

impl Sender {
    pub fn new(width: usize) -> Self {
        Self { width, packet: Vec::with_capacity(LONGEST), at: 0, offered: false }
    }

    /// Whether the next packet may begin.
    pub fn free(&self) -> bool {
        self.at == self.packet.len()
    }

    /// The packet to be filled; only when it is free.
    pub fn begin(&mut self) -> &mut Vec<u8> {
        self.packet.clear();
        self.at = 0;
        &mut self.packet
    }

    /// The packet as a whole, if there is one and nobody has seen it.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        if self.free() || self.offered || self.at > 0 {
            return None;
        }
        Some(std::mem::take(&mut self.packet))
    }

    /// The beat on offer. `stall` keeps one back that has not been shown yet.
    pub fn offer(&mut self, stall: bool) -> Option<Beat> {
        if self.free() || (stall && !self.offered) {
            return None;
        }
        self.offered = true;
        Some(Beat::of(&self.packet, self.at, self.width))
    }

    /// The beat was taken; whether the packet ended with it.
    pub fn taken(&mut self) -> bool {
        if !std::mem::take(&mut self.offered) {
            return false;
        }
        self.at = (self.at + self.width).min(self.packet.len());
        self.free()
    }
}

/// Makes packets of beats.
pub(super) struct Collector {
    width: usize,
    packet: Vec<u8>,
    open: bool,
    /// The packet is longer than any may be: its beats are thrown away.
    overlong: bool,
    /// Cycle of the last beat.
    at: u64,
}

impl Collector {
    pub fn new(width: usize) -> Self {
        Self { width, packet: Vec::with_capacity(LONGEST + width), open: false, overlong: false, at: 0 }
    }

    /// Whether a packet has begun and not ended.
    pub fn open(&self) -> bool {
        self.open
    }

    /// The packet that has just ended, to be given back.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.packet)
    }

    /// Gives back what was taken.
    pub fn restore(&mut self, packet: Vec<u8>) {
        self.packet = packet;
    }

    /// Whether a packet is open and had no beat in a cycle.
    pub fn gap(&self, cycle: u64) -> bool {
        self.open && self.at != cycle
    }

    /// Takes a beat. The packet that ends with it, if one does.
    ///
    /// # Errors
    /// The beat is wrong: what it is about.
    pub fn beat(&mut self, cycle: u64, beat: &Beat) -> Result<Option<&[u8]>, String> {
        if !self.open {
            self.packet.clear();
            self.overlong = false;
        }
        self.open = !beat.last;
        self.at = cycle;
        let empty = usize::from(beat.empty);
        if empty >= self.width || (empty > 0 && !beat.last) {
            let which = if beat.last { "the last" } else { "not the last" };
            let width = self.width;
            return Err(format!("a beat of {width} bytes, {which} of its packet, has {empty} empty ones"));
        }
        if self.overlong {
            return Ok(None);
        }
        self.packet.extend_from_slice(&beat.data[..self.width - empty]);
        if self.packet.len() > LONGEST {
            self.overlong = true;
            return Err(format!("a packet does not end after {} bytes", self.packet.len()));
        }
        Ok(beat.last.then_some(&self.packet[..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_offer_stays_until_it_is_taken_and_comes_out_as_it_went_in() {
        for width in [8, 16, 32, 64] {
            for bytes in [12, 16, 20, 64, 76, 128, 4112] {
                let packet: Vec<u8> = (0..bytes).map(|i| (i * 13) as u8).collect();
                let (mut sender, mut collector) = (Sender::new(width), Collector::new(width));
                sender.begin().extend_from_slice(&packet);
                assert_eq!(sender.offer(true), None);
                let mut out = None;
                for cycle in 0.. {
                    let beat = sender.offer(false).unwrap();
                    assert_eq!(sender.offer(true), Some(beat));
                    let ended = sender.taken();
                    out = collector.beat(cycle, &beat).unwrap().map(<[u8]>::to_vec);
                    assert_eq!(ended, out.is_some());
                    if ended {
                        break;
                    }
                }
                assert_eq!(out, Some(packet));
            }
        }
    }

    #[test]
    fn empty_lanes_in_the_middle_and_packets_without_end_are_errors() {
        let mut collector = Collector::new(8);
        assert!(collector.beat(0, &Beat { empty: 4, ..Beat::EMPTY }).is_err());
        assert!(collector.beat(1, &Beat { last: true, empty: 8, ..Beat::EMPTY }).is_err());
        let errors = (0..1000).filter(|i| collector.beat(*i, &Beat::EMPTY).is_err()).count();
        assert_eq!(errors, 1);
        assert_eq!(collector.beat(1000, &Beat { last: true, ..Beat::EMPTY }), Ok(None));
        assert_eq!(collector.beat(1001, &Beat { last: true, ..Beat::EMPTY }), Ok(Some(&[0; 8][..])));
    }
}
