// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`AxisBeat`]s of 512 bits: packets to lanes, several in a beat where they may straddle, and back.

use ferrowire_spec::pcie::pcie4::BEAT;

/// Lanes after which the next packet may begin in a beat.
const STEP: usize = 16;

/// Packets that may begin in a beat.
const MOST: usize = BEAT / STEP;

/// Longest packet: a descriptor and 4,096 bytes.
const LONGEST: usize = 16 + 4096;

/// A beat of one of the four streams, with its own side signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisBeat<U> {
    /// `tdata`.
    pub data: [u8; BEAT],
    /// `tkeep`: a bit each double word.
    pub keep: u16,
    /// `tlast`.
    pub last: bool,
    /// `tuser`.
    pub user: U,
}

/// A packet that is to be sent.
pub(super) struct Packet {
    /// Descriptor and data.
    pub bytes: Vec<u8>,
    /// Bytes of data that were asked for, or are enabled: from, to.
    pub valid: Box<dyn Fn(usize) -> bool + Send>,
    /// Its byte enables, of a request.
    pub enables: (u8, u8),
    /// A tag that is free when it has been taken.
    pub ends: Option<u8>,
    /// It is a write of the CPU.
    pub write: bool,
}

/// What a beat holds.
#[derive(Default)]
pub(super) struct Lanes {
    pub data: Vec<u8>,
    pub keep: u16,
    pub last: bool,
    pub byte_en: u64,
    /// Where packets begin, in steps of 16 bytes.
    pub sops: Vec<u8>,
    /// Double words in which they end.
    pub eops: Vec<u8>,
    pub enables: (u8, u8),
    /// Tags that are free, and writes that are done, when the beat is taken.
    pub ends: Vec<u8>,
    pub writes: u64,
}

impl Lanes {
    /// As many ones as packets begin, and as end.
    pub fn counts(&self) -> (u8, u8) {
        let ones = |n: usize| (1u8 << n) - 1;
        (ones(self.sops.len()), ones(self.eops.len()))
    }

    pub fn sop(&self, i: usize) -> u8 {
        self.sops.get(i).copied().unwrap_or(0)
    }

    pub fn eop(&self, i: usize) -> u8 {
        self.eops.get(i).copied().unwrap_or(0)
    }

    pub fn bytes(&self) -> [u8; BEAT] {
        let mut data = [0; BEAT];
        data[..self.data.len()].copy_from_slice(&self.data);
        data
    }
}

/// Lays packets into beats. What is on offer stays until it is taken, and a packet that has begun has a beat in each cycle.
pub(super) struct Packer {
    straddle: bool,
    /// A packet that has begun, and how much of it was laid.
    open: Option<(Packet, usize)>,
    offer: Option<Lanes>,
}

impl Packer {
    pub fn new(straddle: bool) -> Self {
        Self { straddle, open: None, offer: None }
    }

    pub fn idle(&self) -> bool {
        self.open.is_none() && self.offer.is_none()
    }

    /// What is on offer. `stall` keeps a packet from beginning where nothing is on its way; `next` gives packets.
    pub fn offer(&mut self, stall: bool, mut next: impl FnMut() -> Option<Packet>) -> Option<&Lanes> {
        if self.offer.is_none() {
            let mut lanes = Lanes::default();
            let mut at = 0;
            while at < BEAT && lanes.sops.len() < MOST {
                let alone = at > 0 && !self.straddle;
                if self.open.is_none() && !alone && (at > 0 || !stall) {
                    self.open = next().map(|packet| (packet, 0));
                    if self.open.is_some() {
                        lanes.sops.push((at / STEP) as u8);
                    }
                }
                if self.open.is_none() || alone {
                    break;
                }
                at = self.lay(&mut lanes, at);
            }
            if lanes.data.is_empty() {
                return None;
            }
            let dwords = lanes.data.len() / 4;
            lanes.keep = if self.straddle { u16::MAX } else { ((1u32 << dwords) - 1) as u16 };
            lanes.last = !self.straddle && !lanes.eops.is_empty();
            self.offer = Some(lanes);
        }
        self.offer.as_ref()
    }

    /// Lays more of the packet into a beat, from a lane on. Where the next one may begin.
    fn lay(&mut self, lanes: &mut Lanes, at: usize) -> usize {
        let Some((packet, done)) = &mut self.open else { return BEAT };
        if *done == 0 {
            lanes.enables = packet.enables;
        }
        let bytes = (packet.bytes.len() - *done).min(BEAT - at);
        lanes.data.resize(at, 0);
        lanes.data.extend_from_slice(&packet.bytes[*done..*done + bytes]);
        for i in (0..bytes).filter(|i| (packet.valid)(*done + i)) {
            lanes.byte_en |= 1 << (at + i);
        }
        *done += bytes;
        let end = at + bytes;
        if *done == packet.bytes.len() {
            lanes.eops.push((end / 4 - 1) as u8);
            lanes.ends.extend(packet.ends);
            lanes.writes += u64::from(packet.write);
            self.open = None;
        }
        end.next_multiple_of(STEP)
    }

    /// The beat on offer was taken.
    pub fn taken(&mut self) -> Option<Lanes> {
        self.offer.take()
    }
}

/// Makes packets of beats, of a stream on which none straddles.
pub(super) struct Gatherer<U> {
    packet: Vec<u8>,
    /// Side signals of the first beat.
    user: Option<U>,
    open: bool,
    discard: bool,
    at: u64,
}

impl<U: Copy> Gatherer<U> {
    pub fn new() -> Self {
        Self { packet: Vec::new(), user: None, open: false, discard: false, at: 0 }
    }

    pub fn open(&self) -> bool {
        self.open
    }

    /// Whether a packet is open and had no beat in a cycle: `tvalid` must stay.
    pub fn gap(&self, cycle: u64) -> bool {
        self.open && self.at != cycle
    }

    /// Takes a beat. The packet that ends with it, and the side signals with which it began; none where it is to be thrown away.
    ///
    /// # Errors
    /// `tkeep` is wrong, or the packet is longer than any may be.
    pub fn beat(
        &mut self,
        cycle: u64,
        beat: &AxisBeat<U>,
        discontinue: bool,
    ) -> Result<Option<(Vec<u8>, U)>, String> {
        if !self.open {
            self.packet.clear();
            self.user = Some(beat.user);
            self.discard = false;
        }
        self.open = !beat.last;
        self.at = cycle;
        self.discard |= discontinue;
        let keep = u32::from(beat.keep);
        let (contiguous, full) = (keep != 0 && keep & (keep + 1) == 0, beat.keep == u16::MAX);
        if !contiguous || (!full && !beat.last) {
            self.discard = true;
            let what = "tkeep is no row of ones from bit 0 on, or not all ones before the last beat";
            return Err(format!("tkeep {keep:#06x}: {what} (PG213, 512-bit interfaces)"));
        }
        self.packet.extend_from_slice(&beat.data[..4 * keep.count_ones() as usize]);
        if self.packet.len() > LONGEST {
            self.packet.truncate(LONGEST);
            if !std::mem::replace(&mut self.discard, true) {
                return Err(format!("a packet does not end after {LONGEST} bytes"));
            }
        }
        let user = self.user.filter(|_| beat.last && !self.discard);
        Ok(user.map(|user| (std::mem::take(&mut self.packet), user)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// The beats of packets of so many bytes.
    fn packed(straddle: bool, lengths: &[usize]) -> Vec<Lanes> {
        let mut packets: VecDeque<usize> = lengths.iter().copied().collect();
        let mut packer = Packer::new(straddle);
        let mut beats = Vec::new();
        loop {
            let next = || {
                packets.pop_front().map(|bytes| Packet {
                    bytes: vec![bytes as u8; bytes],
                    valid: Box::new(|byte| byte >= 12),
                    enables: (0, 0),
                    ends: None,
                    write: false,
                })
            };
            if packer.offer(false, next).is_none() {
                return beats;
            }
            beats.extend(packer.taken());
        }
    }

    /// Where packets begin and end, beat by beat.
    fn places(straddle: bool, lengths: &[usize]) -> Vec<(Vec<u8>, Vec<u8>)> {
        packed(straddle, lengths).into_iter().map(|lanes| (lanes.sops, lanes.eops)).collect()
    }

    #[test]
    fn packets_that_straddle_begin_at_the_next_16_bytes() {
        assert_eq!(places(true, &[16; 5]), [(vec![0, 1, 2, 3], vec![3, 7, 11, 15]), (vec![0], vec![3])]);
        assert_eq!(places(true, &[20, 12]), [(vec![0, 2], vec![4, 10])]);
        assert_eq!(
            places(true, &[76, 16, 64]),
            [(vec![0], vec![]), (vec![1, 2], vec![2, 7]), (vec![], vec![7])]
        );
    }

    #[test]
    fn packets_that_do_not_have_beats_of_their_own() {
        assert_eq!(
            places(false, &[16, 64, 76]),
            [(vec![0], vec![3]), (vec![0], vec![15]), (vec![0], vec![]), (vec![], vec![2])]
        );
        let lanes = packed(false, &[76]);
        assert_eq!((lanes[0].keep, lanes[0].last, lanes[0].byte_en), (0xffff, false, u64::MAX << 12));
        assert_eq!((lanes[1].keep, lanes[1].last, lanes[1].byte_en), (0x0007, true, 0xfff));
    }
}
