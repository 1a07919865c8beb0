// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Ground`]: memory that may be attacked, a shadow of it, and what of it is registered with which rights.

use ferrowire::HostMemory;
use ferrowire_spec::queue::Access;

/// Who may write, by bits of [`Access`].
pub const REMOTE_WRITE: u8 = Access::RemoteWrite as u8;
/// Who may read.
pub const REMOTE_READ: u8 = Access::RemoteRead as u8;
/// Who may use atomics.
pub const REMOTE_ATOMIC: u8 = Access::RemoteAtomic as u8;

/// Whole pages in host memory: regions, what is between them, and what is round them.
#[derive(Debug)]
pub struct Block {
    memory: HostMemory,
    /// What must be there.
    shadow: Vec<u8>,
    /// What was there before each write since [`Ground::settled`].
    past: Vec<(usize, Vec<u8>)>,
}

/// A region, or what was one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where it is.
    pub block: usize,
    /// First byte in the block.
    pub at: usize,
    /// Bytes.
    pub len: usize,
    /// First address, as keys count.
    pub va: u64,
    /// Key, local and remote.
    pub key: u32,
    /// Protection domain, by number of the stage.
    pub pd: usize,
    /// Rights: bits of [`Access`].
    pub rights: u8,
    /// Nothing is granted any more.
    pub dead: bool,
    /// It is a window, of this queue pair's peer alone.
    pub owner: Option<u32>,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Ground {
    blocks: Vec<Block>,
    /// Every region that there is or was.
    pub regions: Vec<Region>,
}

impl Ground {
    /// Takes memory in, with what it holds. Gives its number.
    pub fn add(&mut self, memory: &HostMemory) -> usize {
        let mut shadow = vec![0; memory.len()];
        memory.read(0, &mut shadow);
        self.blocks.push(Block { memory: memory.clone(), shadow, past: Vec::new() });
        self.blocks.len() - 1
    }

    /// Block and place of a byte, by its address in this process.
    pub fn find(&self, address: u64) -> Option<(usize, usize)> {
        self.blocks.iter().enumerate().find_map(|(i, block)| {
            let at = address.checked_sub(block.memory.address())?;
            (at < block.shadow.len() as u64).then_some((i, at as usize))
        })
    }

    /// Where the peer of a queue pair reaches `len` bytes from `va` on by `key`: not at all without domain, right and bounds (IBTA 10.6.3, 9.7.4.1.5).
    pub fn granted(
        &self,
        (pd, qpn): (usize, u32),
        key: u32,
        va: u64,
        len: u64,
        right: u8,
    ) -> Option<(usize, usize)> {
        let region = self.regions.iter().find(|region| region.key == key && !region.dead)?;
        if region.owner.is_some_and(|owner| owner != qpn) {
            return None;
        }
        let end = u128::from(va) + u128::from(len);
        let within = va >= region.va && end <= u128::from(region.va) + region.len as u128;
        (region.pd == pd && region.rights & right == right && within)
            .then(|| (region.block, region.at + (va - region.va) as usize))
    }

    /// Whether the peer of a queue pair may take a key back: a window that this one has bound (IBTA 10.6.7.2.5).
    pub fn may_invalidate(&self, pd: usize, qpn: u32, key: u32) -> bool {
        let its = |region: &&Region| region.key == key && !region.dead && region.owner == Some(qpn);
        self.regions.iter().any(|region| its(&region) && region.pd == pd)
    }

    /// What must be at a place.
    pub fn shadow(&self, block: usize, at: usize, len: usize) -> Option<&[u8]> {
        self.blocks.get(block)?.shadow.get(at..at.checked_add(len)?)
    }

    /// A write that was allowed.
    pub fn write(&mut self, block: usize, at: usize, data: &[u8]) {
        let Some(block) = self.blocks.get_mut(block) else { return };
        let Some(place) = block.shadow.get_mut(at..at + data.len()) else { return };
        block.past.push((at, place.to_vec()));
        place.copy_from_slice(data);
    }

    /// Whether each byte is what is there, or was since [`settled`](Self::settled).
    pub fn held(&self, block: usize, at: usize, data: &[u8]) -> bool {
        let Some(block) = self.blocks.get(block) else { return false };
        let Some(now) = block.shadow.get(at..at + data.len()) else { return false };
        if now == data {
            return true;
        }
        (0..data.len()).filter(|i| now[*i] != data[*i]).all(|i| {
            let at = at + i;
            let mut past = block.past.iter().filter(|(from, old)| *from <= at && at < from + old.len());
            past.any(|(from, old)| old[at - from] == data[i])
        })
    }

    /// What a word has held since [`settled`](Self::settled), the newest first.
    pub fn words(&self, block: usize, at: usize) -> Vec<u64> {
        let now = self.shadow(block, at, 8).and_then(|bytes| bytes.first_chunk().copied());
        let (Some(block), Some(mut word)) = (self.blocks.get(block), now) else { return Vec::new() };
        let mut all = vec![u64::from_le_bytes(word)];
        for (from, old) in block.past.iter().rev() {
            let mut touched = false;
            for (i, byte) in word.iter_mut().enumerate() {
                let before = (at + i).checked_sub(*from).and_then(|at| old.get(at));
                touched |= before.is_some();
                *byte = before.copied().unwrap_or(*byte);
            }
            if touched {
                all.push(u64::from_le_bytes(word));
            }
        }
        all
    }

    /// Nothing is under way: what was there before is no answer any more.
    pub fn settled(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.past.clear());
    }

    /// The first byte of all memory that is not what it must be.
    pub fn wrong(&self) -> Option<String> {
        self.blocks.iter().enumerate().find_map(|(i, block)| {
            let got = crate::pair::bytes(&block.memory);
            let at = got.iter().zip(&block.shadow).position(|(got, want)| got != want)?;
            let (got, want) = (got[at], block.shadow[at]);
            Some(format!("byte {at:#x} of block {i} is {got:#04x}, must be {want:#04x}{}", self.name(i, at)))
        })
    }

    /// What a place is, for who looks for a fault.
    pub fn name(&self, block: usize, at: usize) -> String {
        let inside = |r: &&Region| r.block == block && r.at <= at && at < r.at + r.len && !r.dead;
        match self.regions.iter().find(inside) {
            Some(Region { key, pd, rights, va, at: first, .. }) => {
                let va = va.wrapping_add((at - first) as u64);
                format!(", address {va:#x} of key {key:#x} in domain {pd} with rights {rights:#x}")
            }
            None => ", which no key grants to anybody".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground() -> Ground {
        let mut ground = Ground::default();
        let memory = HostMemory::zeroed(4096, 4096).unwrap();
        let block = ground.add(&memory);
        let region = |va, key, rights, pd| Region {
            block,
            at: 100,
            len: 50,
            va,
            key,
            pd,
            rights,
            dead: false,
            owner: None,
        };
        ground.regions.push(region(0x5000, 0x100, REMOTE_WRITE, 0));
        ground.regions.push(region(u64::MAX - 49, 0x200, REMOTE_READ, 1));
        ground
    }

    #[test]
    fn only_key_domain_right_and_bounds_together_grant() {
        let mut ground = ground();
        assert_eq!(ground.granted((0, 7), 0x100, 0x5001, 49, REMOTE_WRITE), Some((0, 101)));
        assert_eq!(ground.granted((0, 7), 0x100, 0x5001, 50, REMOTE_WRITE), None);
        assert_eq!(ground.granted((0, 7), 0x100, 0x4fff, 2, REMOTE_WRITE), None);
        assert_eq!(ground.granted((0, 7), 0x101, 0x5001, 1, REMOTE_WRITE), None);
        assert_eq!(ground.granted((1, 7), 0x100, 0x5001, 1, REMOTE_WRITE), None);
        assert_eq!(ground.granted((0, 7), 0x100, 0x5001, 1, REMOTE_READ), None);
        assert_eq!(ground.granted((1, 7), 0x200, u64::MAX - 49, 50, REMOTE_READ), Some((0, 100)));
        assert_eq!(ground.granted((1, 7), 0x200, u64::MAX, 2, REMOTE_READ), None);
        let at = |ground: &Ground, qpn| ground.granted((0, qpn), 0x100, 0x5001, 1, REMOTE_WRITE).is_some();
        ground.regions[0].owner = Some(7);
        assert!(at(&ground, 7) && !at(&ground, 8) && ground.may_invalidate(0, 7, 0x100));
        assert!(!ground.may_invalidate(0, 8, 0x100) && !ground.may_invalidate(1, 7, 0x100));
        assert!(!ground.may_invalidate(0, 7, 0x101) && !ground.may_invalidate(1, 7, 0x200));
        ground.regions[0].dead = true;
        assert!(!ground.may_invalidate(0, 7, 0x100));
        assert_eq!(ground.granted((0, 7), 0x100, 0x5001, 1, REMOTE_WRITE), None);
    }

    #[test]
    fn what_was_there_is_an_answer_until_all_is_settled() {
        let mut ground = ground();
        ground.write(0, 10, &[1, 2, 3]);
        ground.write(0, 11, &[9]);
        assert!(ground.held(0, 10, &[1, 9, 3]) && ground.held(0, 10, &[0, 2, 3]));
        assert_eq!(ground.words(0, 8), [0x309_0100 << 8, 0x302_0100 << 8, 0]);
        assert!(!ground.held(0, 10, &[1, 7, 3]) && !ground.held(0, 4095, &[0, 0]));
        ground.settled();
        assert!(ground.held(0, 10, &[1, 9, 3]) && !ground.held(0, 10, &[0, 2, 3]));
        // The memory itself has not been written.
        assert!(ground.wrong().is_some_and(|why| why.contains("byte 0xa of block 0 is 0x00, must be 0x01")));
    }
}
