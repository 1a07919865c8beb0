// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Host`]: the memory behind a card's DMA streams.
//!
//! ```text
//!  dma_read  --> check --> copy the bytes --> latency of L cycles --> dma_data   one beat a cycle, in order
//!  dma_write --> check --> memory                                                one beat a cycle, seen at once
//! ```
//!
//! Any number of reads may be under way. An address that the [`MemoryMap`] does not cover is refused: a read is answered with
//! error beats, a write is dropped, and both are counted. A request that breaks the rules of the streams themselves (a
//! length of 0, a page end crossed, a strobe outside the write) is a bug of the card: it is counted as a violation,
//! and [`Host::violation`] says what it was.

use std::collections::VecDeque;

use ferrowire::{BusError, DmaMapping, HostMemory, MemoryMap};

use crate::mappings::Mappings;

/// Longest read or write, and the boundary that none may cross.
const PAGE: u64 = 4096;

/// What lanes of a beat hold that were not asked for: a card may not care.
const JUNK: u8 = 0xa5;

/// What went through the streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Reads, refused ones included.
    pub reads: u64,
    /// Bytes of the reads that were answered.
    pub read_bytes: u64,
    /// Reads of addresses that are not mapped.
    pub reads_refused: u64,
    /// Most reads under way at once.
    pub most_reads: u64,
    /// Writes, refused ones included.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Writes to addresses that are not mapped.
    pub writes_refused: u64,
    /// Requests that break the rules of the streams.
    pub violations: u64,
}

/// What a card did to host memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// When.
    pub cycle: u64,
    /// Bus address of the first byte.
    pub address: u64,
    /// Read or written.
    pub kind: AccessKind,
}

/// What an access did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// It asked for so many bytes.
    Read(u64),
    /// It wrote these.
    Write(Vec<u8>),
}

/// A read under way: its beats, with junk where nothing was asked for.
#[derive(Debug)]
struct Read {
    due: u64,
    bytes: Vec<u8>,
    at: usize,
    error: bool,
}

/// A write of which a beat, but not the last, has come.
#[derive(Clone, Copy, Debug)]
struct Write {
    address: u64,
    length: u64,
    beat: u64,
    refused: bool,
}

/// Host memory as a card sees it.
#[derive(Debug)]
pub struct Host {
    beat: usize,
    latency: u64,
    map: MemoryMap,
    mappings: Mappings,
    reads: VecDeque<Read>,
    spare: Vec<Vec<u8>>,
    write: Option<Write>,
    watched: Option<u64>,
    seen: Option<u64>,
    stats: HostStats,
    violation: Option<String>,
    keep: bool,
    accesses: Vec<Access>,
}

impl Host {
    /// No memory is mapped. `beat` is the width of the streams in bytes; `latency` the cycles that a read waits beyond the
    /// one that it takes at least.
    pub fn new(beat: usize, latency: u64) -> Self {
        Self {
            beat,
            latency,
            map: MemoryMap::new(),
            mappings: Mappings::default(),
            reads: VecDeque::new(),
            spare: Vec::new(),
            write: None,
            watched: None,
            seen: None,
            stats: HostStats::default(),
            violation: None,
            keep: false,
            accesses: Vec::new(),
        }
    }

    /// Keeps what is read and written from now on, or keeps it no more. What is refused is not kept.
    pub fn keep_accesses(&mut self, keep: bool) {
        self.keep = keep;
    }

    /// What was kept, the oldest first; it is forgotten here. Of a write each run of bytes is one.
    pub fn take_accesses(&mut self) -> Vec<Access> {
        std::mem::take(&mut self.accesses)
    }

    /// Another latency, for reads from now on.
    pub fn set_latency(&mut self, cycles: u64) {
        self.latency = cycles;
    }

    /// Whether a read is without its last beat.
    pub fn reads_under_way(&self) -> bool {
        !self.reads.is_empty()
    }

    /// Whether each page of a mapping lies somewhere else in bus addresses, as it does at first, or all in a row.
    pub fn set_scatter(&mut self, scatter: bool) {
        self.mappings.set_scatter(scatter);
    }

    /// The cycles that a read takes beyond the least.
    pub fn latency(&self) -> u64 {
        self.latency
    }

    /// What went through the streams so far.
    pub fn stats(&self) -> HostStats {
        self.stats
    }

    /// How the card broke the rules of the streams, the first time.
    pub fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// The mapped memory.
    pub fn map(&self) -> &MemoryMap {
        &self.map
    }

    /// The mapped memory.
    pub fn map_mut(&mut self) -> &mut MemoryMap {
        &mut self.map
    }

    /// Takes note of the cycle in which the byte at a bus address is written next.
    pub fn watch(&mut self, address: u64) {
        self.watched = Some(address);
        self.seen = None;
    }

    /// When the watched byte was written; `None` when it was not.
    pub fn seen(&self) -> Option<u64> {
        self.seen
    }

    /// Whether a read waits for its data.
    pub fn reading(&self) -> bool {
        !self.reads.is_empty()
    }

    /// Whether a read waits for its data, or a write for its last beat.
    pub fn busy(&self) -> bool {
        self.reading() || self.write.is_some()
    }

    /// Takes a read request.
    pub fn read_request(&mut self, cycle: u64, address: u64, length: u64) {
        self.stats.reads += 1;
        let lane = address as usize % self.beat;
        let sound = self.check("read", address, length);
        let length = if sound { length as usize } else { 1 };
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.resize((lane + length).next_multiple_of(self.beat), JUNK);
        let error = !sound || self.map.read(address, &mut bytes[lane..lane + length]).is_err();
        if error {
            self.stats.reads_refused += u64::from(sound);
        } else {
            self.stats.read_bytes += length as u64;
            if self.keep {
                self.accesses.push(Access { cycle, address, kind: AccessKind::Read(length as u64) });
            }
        }
        self.reads.push_back(Read { due: cycle + 1 + self.latency, bytes, at: 0, error });
        self.stats.most_reads = self.stats.most_reads.max(self.reads.len() as u64);
    }

    /// The beat on offer in this cycle: bytes, last, error.
    #[inline]
    pub fn read_data(&self, cycle: u64) -> Option<(&[u8], bool, bool)> {
        let read = self.reads.front().filter(|read| read.due <= cycle)?;
        let end = read.at + self.beat;
        Some((&read.bytes[read.at..end], end == read.bytes.len(), read.error))
    }

    /// The beat on offer was taken.
    pub fn read_data_taken(&mut self) {
        let Some(read) = self.reads.front_mut() else { return };
        read.at += self.beat;
        if read.at == read.bytes.len() {
            self.spare.extend(self.reads.pop_front().map(|read| read.bytes));
        }
    }

    /// Takes a beat of a write.
    pub fn write_beat(
        &mut self,
        cycle: u64,
        address: u64,
        length: u64,
        data: &[u8],
        strobe: u64,
        last: bool,
    ) {
        let beat_bytes = self.beat as u64;
        let mut write = match self.write.take() {
            Some(write) => {
                if (write.address, write.length) != (address, length) {
                    self.violate(format!(
                        "write of {} bytes at {:#x} continues as {length} bytes at {address:#x}",
                        write.length, write.address
                    ));
                }
                write
            }
            None => {
                self.stats.writes += 1;
                let sound = self.check("write", address, length);
                let mapped = sound && self.map.check_write(address, length as usize).is_ok();
                self.stats.writes_refused += u64::from(sound && !mapped);
                Write { address, length, beat: 0, refused: !mapped }
            }
        };
        if !write.refused {
            let lane = write.address % beat_bytes;
            let beats = (lane + write.length).div_ceil(beat_bytes);
            let first = if write.beat == 0 { lane } else { 0 };
            let end = (lane + write.length - write.beat * beat_bytes).min(beat_bytes);
            let allowed = mask(end) & !mask(first);
            if strobe & !allowed != 0 {
                let (address, beat) = (write.address, write.beat);
                self.violate(format!(
                    "beat {beat} of a write of {length} bytes at {address:#x} has strobe {strobe:#x}"
                ));
            }
            if last != (write.beat + 1 == beats) {
                let (address, beat) = (write.address, write.beat);
                let which = if last { "ends" } else { "does not end" };
                self.violate(format!(
                    "write of {length} bytes at {address:#x} {which} with beat {beat} of {beats}"
                ));
            }
            let base = write.address - lane + write.beat * beat_bytes;
            self.store(cycle, base, data, strobe & allowed);
            write.refused = write.beat + 1 == beats;
        }
        write.beat += 1;
        self.write = (!last).then_some(write);
    }

    /// Takes note of a whole read of `length` bytes, whoever keeps its latency and its data; `under_way` counts it too. Whether all of it
    /// is mapped: if not, it is refused.
    pub fn note_read(&mut self, cycle: u64, address: u64, length: u64, under_way: u64) -> bool {
        self.stats.reads += 1;
        self.stats.most_reads = self.stats.most_reads.max(under_way);
        let mapped = self.map.check(address, length as usize).is_ok();
        if mapped {
            self.stats.read_bytes += length;
            if self.keep {
                self.accesses.push(Access { cycle, address, kind: AccessKind::Read(length) });
            }
        } else {
            self.stats.reads_refused += 1;
        }
        mapped
    }

    /// Bytes of a read that [`note_read`](Self::note_read) knows, as they are now. Whether they are still mapped: if not, `out` holds
    /// anything.
    pub fn fetch(&self, address: u64, out: &mut [u8]) -> bool {
        self.map.read(address, out).is_ok()
    }

    /// The same of a read in whole beats of `beat` bytes, which has more bytes than are wanted: it is refused only if no byte of one of them
    /// is mapped.
    pub fn note_beats(&mut self, cycle: u64, address: u64, length: u64, under_way: u64) -> bool {
        self.stats.reads += 1;
        self.stats.most_reads = self.stats.most_reads.max(under_way);
        let (mut at, end, beat) = (address, address.saturating_add(length), self.beat as u64);
        let mut mapped = true;
        while mapped && at < end && self.map.check(at, (end - at) as usize).is_err() {
            let next = (at / beat * beat).saturating_add(beat).min(end);
            mapped = (at..next).any(|byte| self.map.check(byte, 1).is_ok());
            at = next;
        }
        if mapped {
            self.stats.read_bytes += length;
            if self.keep {
                self.accesses.push(Access { cycle, address, kind: AccessKind::Read(length) });
            }
        } else {
            self.stats.reads_refused += 1;
        }
        mapped
    }

    /// Bytes of a beat that [`note_beats`](Self::note_beats) knows, as they are now; those that are not mapped stay as they were. Whether any is.
    pub fn fetch_beat(&self, address: u64, out: &mut [u8]) -> bool {
        if self.fetch(address, out) {
            return true;
        }
        let bytes = (address..).zip(out.iter_mut());
        bytes.fold(false, |any, (at, byte)| self.fetch(at, std::slice::from_mut(byte)) | any)
    }

    /// Takes note of a whole write from its first byte to its last, whoever keeps its data. Whether all of it is mapped: if not, it is refused.
    pub fn note_write(&mut self, address: u64, length: usize) -> bool {
        self.stats.writes += 1;
        let mapped = self.map.check_write(address, length).is_ok();
        self.stats.writes_refused += u64::from(!mapped);
        mapped
    }

    /// Some bytes of a write that [`note_write`](Self::note_write) knows: those of 64 from `base` on that `strobe` enables.
    pub fn write_beat_of(&mut self, cycle: u64, base: u64, data: &[u8], strobe: u64) {
        self.store(cycle, base, data, strobe);
    }

    /// A whole write: those bytes of `data` for which `enabled` says so, by their index. It is refused as a whole where one
    /// of the bytes from the first to the last of these is not mapped.
    pub fn write_whole(&mut self, cycle: u64, address: u64, data: &[u8], enabled: impl Fn(usize) -> bool) {
        self.stats.writes += 1;
        let Some(first) = (0..data.len()).find(|i| enabled(*i)) else { return };
        let end = 1 + (first..data.len()).rfind(|i| enabled(*i)).unwrap_or(first);
        if self.map.check_write(address + first as u64, end - first).is_err() {
            self.stats.writes_refused += 1;
            return;
        }
        let mut from = first;
        while from < end {
            let to = (from..end).find(|i| !enabled(*i)).unwrap_or(end);
            self.run(cycle, address + from as u64, &data[from..to]);
            from = (to..end).find(|i| enabled(*i)).unwrap_or(end);
        }
    }

    /// Writes bytes, all of which are mapped.
    fn run(&mut self, cycle: u64, address: u64, data: &[u8]) {
        let watched = self.watched.and_then(|watched| watched.checked_sub(address));
        if watched.is_some_and(|at| at < data.len() as u64) {
            self.watched = None;
            self.seen = Some(cycle);
        }
        if self.map.write(address, data).is_ok() {
            self.stats.write_bytes += data.len() as u64;
            if self.keep {
                self.accesses.push(Access { cycle, address, kind: AccessKind::Write(data.to_vec()) });
            }
        } else {
            // A client has unmapped memory that it lends.
            self.stats.writes_refused += 1;
        }
    }

    /// Writes the bytes of a beat whose strobes are set.
    fn store(&mut self, cycle: u64, base: u64, data: &[u8], mut strobe: u64) {
        if let Some(at) = self.watched.and_then(|watched| watched.checked_sub(base)).filter(|at| *at < 64) {
            if strobe >> at & 1 == 1 {
                self.watched = None;
                self.seen = Some(cycle);
            }
        }
        while strobe != 0 {
            let from = strobe.trailing_zeros() as usize;
            let bytes = (strobe >> from).trailing_ones() as usize;
            // The whole write was checked with its first beat, and nobody unmaps between: at worst it is refused here.
            if self.map.write(base + from as u64, &data[from..from + bytes]).is_ok() {
                self.stats.write_bytes += bytes as u64;
                if self.keep {
                    let (address, data) = (base + from as u64, data[from..from + bytes].to_vec());
                    self.accesses.push(Access { cycle, address, kind: AccessKind::Write(data) });
                }
            } else {
                self.stats.writes_refused += 1;
            }
            strobe &= !(mask(bytes as u64) << from);
        }
    }

    fn check(&mut self, what: &str, address: u64, length: u64) -> bool {
        let fits = (1..=PAGE).contains(&length) && address % PAGE + length <= PAGE;
        if !fits {
            self.violate(format!(
                "{what} of {length} bytes at {address:#x}: not 1 to 4096 bytes in a page of 4 KiB"
            ));
        }
        fits
    }

    fn violate(&mut self, what: String) {
        self.stats.violations += 1;
        self.violation.get_or_insert(what);
    }

    /// Maps memory, as [`ferrowire::Bus::dma_map`] asks.
    ///
    /// # Errors
    /// No address is left.
    pub fn dma_map(&mut self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
        self.mappings.map(&mut self.map, memory, page_shift)
    }

    /// Takes a mapping back, as [`ferrowire::Bus::dma_unmap`] asks.
    ///
    /// # Errors
    /// There is no such mapping.
    pub fn dma_unmap(&mut self, mapping: &DmaMapping) -> Result<(), BusError> {
        self.mappings.unmap(&mut self.map, mapping)
    }

    /// Bus address of a byte of mapped memory, from its address in this process.
    pub fn bus_address(&self, address: u64) -> Option<u64> {
        self.mappings.bus_address(address)
    }
}

/// The lowest `n` of 64 bits.
fn mask(n: u64) -> u64 {
    if n >= 64 {
        u64::MAX
    } else {
        (1 << n) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: usize = 16;

    fn host() -> (Host, HostMemory, u64) {
        let mut host = Host::new(BEAT, 3);
        let memory = HostMemory::zeroed(8192, 4096).unwrap();
        let all: Vec<u8> = (0..8192).map(|i| (i * 7 % 251) as u8).collect();
        memory.write(0, &all);
        host.set_scatter(false);
        let iova = host.dma_map(&memory, 12).unwrap().id;
        (host, memory, iova)
    }

    fn drain(host: &mut Host, cycle: u64) -> Vec<(Vec<u8>, bool, bool)> {
        let mut beats = Vec::new();
        while let Some((data, last, error)) = host.read_data(cycle) {
            beats.push((data.to_vec(), last, error));
            host.read_data_taken();
        }
        beats
    }

    #[test]
    fn a_read_comes_in_the_lanes_of_its_address_and_after_the_latency() {
        let (mut host, memory, iova) = host();
        host.read_request(10, iova + 13, 20);
        assert!(host.read_data(13).is_none());
        let beats = drain(&mut host, 14);
        assert_eq!(beats.len(), 3);
        let bytes: Vec<u8> = beats.iter().flat_map(|(data, _, _)| data.clone()).collect();
        let mut expected = vec![0; 20];
        memory.read(13, &mut expected);
        assert_eq!(bytes[13..33], expected[..]);
        assert!(bytes[..13].iter().chain(&bytes[33..]).all(|byte| *byte == JUNK));
        assert_eq!(beats.iter().map(|(_, last, _)| *last).collect::<Vec<_>>(), [false, false, true]);
        assert!(!host.busy());
    }

    #[test]
    fn addresses_outside_the_map_are_refused_and_counted() {
        let (mut host, memory, iova) = host();
        host.read_request(0, iova + 8192, 4);
        assert_eq!(
            drain(&mut host, 9).iter().map(|(_, last, error)| (*last, *error)).collect::<Vec<_>>(),
            [(true, true)]
        );
        host.write_beat(0, 0x1000, 4, &[9; BEAT], 0xf, true);
        let stats = host.stats();
        assert_eq!(
            (stats.reads_refused, stats.writes_refused, stats.write_bytes, stats.violations),
            (1, 1, 0, 0)
        );
        assert_eq!(memory.len(), 8192);
    }

    #[test]
    fn strobes_choose_the_bytes_of_a_write_and_are_seen_at_once() {
        let (mut host, memory, iova) = host();
        memory.fill(0, 64, 0);
        host.watch(iova + 33);
        host.write_beat(5, iova + 14, 20, &[1; BEAT], 0xc000, false);
        host.write_beat(6, iova + 14, 20, &[2; BEAT], 0xff0f, false);
        assert_eq!(host.seen(), None);
        host.write_beat(7, iova + 14, 20, &[3; BEAT], 0x0003, true);
        assert_eq!(host.seen(), Some(7));
        let mut bytes = [0; 64];
        memory.read(0, &mut bytes);
        let mut expected = [0; 64];
        expected[14..16].fill(1);
        expected[16..20].fill(2);
        expected[24..32].fill(2);
        expected[32..34].fill(3);
        assert_eq!(bytes, expected);
        assert_eq!(host.stats().violations, 0);
    }

    #[test]
    fn whole_reads_and_writes_keep_the_same_accounts() {
        let (mut host, memory, iova) = host();
        memory.fill(0, 64, 0);
        host.watch(iova + 6);
        host.keep_accesses(true);
        host.write_whole(7, iova, &[5; 12], |i| i == 2 || (6..9).contains(&i));
        assert_eq!(host.seen(), Some(7));
        let mut bytes = [9; 12];
        assert!(host.note_read(8, iova, 12, 3) && host.fetch(iova, &mut bytes));
        assert_eq!(bytes, [0, 0, 5, 0, 0, 0, 5, 5, 5, 0, 0, 0]);
        host.write_whole(9, iova + 8190, &[1; 4], |_| true);
        host.write_whole(9, iova + 8190, &[1; 4], |_| false);
        assert!(!host.note_read(9, iova + 8190, 4, 1) && !host.fetch(iova + 8190, &mut bytes));
        let expected = HostStats {
            reads: 2,
            read_bytes: 12,
            reads_refused: 1,
            most_reads: 3,
            writes: 3,
            write_bytes: 4,
            writes_refused: 1,
            violations: 0,
        };
        assert_eq!(host.stats(), expected);
        let kept: Vec<_> = host.take_accesses().into_iter().map(|access| access.address - iova).collect();
        assert_eq!(kept, [2, 6, 0]);
    }

    #[test]
    fn broken_rules_of_the_streams_are_violations() {
        let (mut host, _memory, iova) = host();
        host.read_request(0, iova + 4090, 10);
        assert!(host.violation().is_some_and(|why| why.contains("read of 10 bytes")));
        host.write_beat(0, iova, 4, &[0; BEAT], 0x1f, true);
        host.write_beat(0, iova, 4, &[0; BEAT], 0xf, false);
        host.write_beat(0, iova, 5, &[0; BEAT], 0, true);
        host.read_request(0, iova, 0);
        assert_eq!(host.stats().violations, 5);
    }

    #[test]
    fn scattered_pages_never_follow_each_other_and_go_back_together() {
        let mut host = Host::new(BEAT, 0);
        let memory = HostMemory::zeroed(5 * 4096, 4096).unwrap().slice(100, 4 * 4096);
        let mapping = host.dma_map(&memory, 12).unwrap();
        assert_eq!(mapping.pages.len(), 5);
        assert!(mapping.pages.windows(2).all(|two| two[1] != two[0] + 4096));
        for offset in [0, 1, 3995, 3996, 3997, 16383] {
            let at = host.bus_address(memory.address() + offset).unwrap();
            host.map.write(at, &[offset as u8 | 1]).unwrap();
            let mut byte = [0];
            memory.read(offset as usize, &mut byte);
            assert_eq!(byte, [offset as u8 | 1]);
        }
        assert_eq!(host.bus_address(memory.address() + 16384), None);
        host.dma_unmap(&mapping).unwrap();
        assert!(host.map.is_empty());
        assert!(host.dma_unmap(&mapping).is_err());
    }
}
