// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a CPU does with the card: reads, writes and packets of any kind.

use super::request::Request;
use super::{Answer, ReadId, RootComplex};

/// The CPU's side.
impl RootComplex {
    /// Reads bytes of BAR 0, `address` being an offset in it.
    ///
    /// # Panics
    /// There is no such read: it is empty, or crosses 4 KiB.
    pub fn cpu_read(&mut self, address: u64, bytes: usize) -> ReadId {
        self.check_access(address, bytes);
        let request = Request::of_bytes(false, self.settings.bar0 + address, bytes);
        self.send(request, &[]).expect("a read is answered")
    }

    /// Reads `dwords` double words, some bytes of which are enabled, lawfully or not.
    pub fn cpu_read_enables(&mut self, address: u64, dwords: u32, first_be: u8, last_be: u8) -> ReadId {
        let request = Request::new(false, self.settings.bar0 + address, dwords, first_be, last_be);
        self.send(request, &[]).expect("a read is answered")
    }

    /// Writes bytes of BAR 0.
    ///
    /// # Panics
    /// There is no such write: it is empty, or crosses 4 KiB.
    pub fn cpu_write(&mut self, address: u64, bytes: &[u8]) {
        self.check_access(address, bytes.len());
        let request = Request::of_bytes(true, self.settings.bar0 + address, bytes.len());
        let mut data = vec![0; 4 * request.dwords() as usize];
        let first = request.span().0 as usize;
        data[first..first + bytes.len()].copy_from_slice(bytes);
        self.send(request, &data);
    }

    /// Writes double words, some bytes of which are enabled, lawfully or not.
    ///
    /// # Panics
    /// `bytes` are no double words.
    pub fn cpu_write_enables(&mut self, address: u64, bytes: &[u8], first_be: u8, last_be: u8) {
        assert!(!bytes.is_empty() && bytes.len() % 4 == 0, "{} bytes are no double words", bytes.len());
        let dwords = bytes.len() as u32 / 4;
        let request = Request::new(true, self.settings.bar0 + address, dwords, first_be, last_be);
        self.send(request, bytes);
    }

    /// Sends a packet as it stands, in its turn. If it is one that is to be answered, it waits until its tag is free, and the answer
    /// has that name; one that the card takes for malformed never has one, see [`forget`](Self::forget).
    pub fn cpu_raw(&mut self, packet: Vec<u8>) -> Option<ReadId> {
        self.cpu.send(packet, true)
    }

    /// Waits no more for an answer that does not come.
    pub fn forget(&mut self, id: ReadId) {
        self.cpu.forget(id);
    }

    /// The next answer to a read, in the order in which they ended.
    pub fn answer(&mut self) -> Option<Answer> {
        self.cpu.answer()
    }

    /// Memory writes of the CPU that the card has taken.
    pub fn cpu_writes_taken(&self) -> u64 {
        self.cpu.writes_taken
    }

    /// The cycle in which the card took the last of these.
    pub fn cpu_writes_taken_at(&self) -> u64 {
        self.cpu.writes_taken_at
    }

    fn send(&mut self, mut request: Request, data: &[u8]) -> Option<ReadId> {
        request.header.requester = self.settings.completer;
        self.cpu.send(request.emit(data), false)
    }

    fn check_access(&self, address: u64, bytes: usize) {
        let at = (self.settings.bar0 + address) % 4096;
        assert!(bytes > 0 && at + bytes as u64 <= 4096, "{bytes} bytes at offset {address:#x} of BAR 0");
    }
}
