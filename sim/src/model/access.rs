// SPDX-License-Identifier: MIT OR Apache-2.0
//! Local memory by scatter/gather elements (IBTA 10.6.3, 10.8.2).

use ferrowire_spec::queue::cqe::LocalCause;

use super::engine::Node;
use super::types::{SendWr, Sge};

/// The pieces of the elements that hold `len` bytes from `offset` of the message on.
fn pieces(sges: &[Sge], mut offset: u64, mut len: u64) -> Vec<Sge> {
    let mut found = Vec::new();
    for sge in sges {
        let size = u64::from(sge.len);
        if offset < size && len > 0 {
            let take = len.min(size - offset);
            found.push(Sge { addr: sge.addr.wrapping_add(offset), lkey: sge.lkey, len: take as u32 });
            len -= take;
            offset = 0;
        } else {
            offset -= offset.min(size);
        }
    }
    found
}

impl Node {
    /// Checks elements as a whole, each with all its bytes; empty ones are not looked at (IBTA 10.6.3.2).
    pub(super) fn check_sges(&self, pd: u32, sges: &[Sge], write: bool) -> Result<(), LocalCause> {
        for sge in sges.iter().filter(|sge| sge.len > 0) {
            self.keys.local(pd, sge, write)?;
        }
        Ok(())
    }

    /// The bytes of a message.
    pub(super) fn gather(&self, pd: u32, wr: &SendWr, offset: u64, len: u64) -> Result<Vec<u8>, LocalCause> {
        if let Some(data) = &wr.inline {
            let part = data.get(offset as usize..(offset + len) as usize);
            return part.map(<[u8]>::to_vec).ok_or(LocalCause::WqeSize);
        }
        let mut bytes = Vec::new();
        for sge in pieces(&wr.sges, offset, len) {
            let addr = self.keys.local(pd, &sge, false)?;
            if !self.memory.read(addr, sge.len.into(), &mut bytes) {
                return Err(LocalCause::Dma);
            }
        }
        Ok(bytes)
    }

    /// Puts bytes of a message in their place: all of them or, on an error, none. Of memory that is lent and gone, some may be there.
    pub(super) fn scatter(
        &mut self,
        pd: u32,
        sges: &[Sge],
        offset: u64,
        data: &[u8],
    ) -> Result<(), LocalCause> {
        let pieces = pieces(sges, offset, data.len() as u64);
        if pieces.iter().map(|sge| sge.len as usize).sum::<usize>() < data.len() {
            return Err(LocalCause::Length);
        }
        let mut places = Vec::new();
        for sge in &pieces {
            let addr = self.keys.local(pd, sge, true)?;
            if !self.memory.covers(addr, sge.len.into()) {
                return Err(LocalCause::Dma);
            }
            places.push((addr, sge.len as usize));
        }
        let mut rest = data;
        for (addr, len) in places {
            let (part, more) = rest.split_at(len);
            // It was there above; memory that another process lends may be gone since.
            if !self.memory.write(addr, part) {
                return Err(LocalCause::Dma);
            }
            rest = more;
        }
        Ok(())
    }
}
