// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's interface: requests and structures of `linux/vfio.h` and `linux/iommufd.h`. What vfio-user took over from there stands
//! in its [`message`](crate::vfio_user::message) already.

use crate::vfio_user::message::structures;

/// Requests of files in `/dev/vfio`: `_IO(';', 100 + n)`, which say nothing of sizes.
pub mod request {
    const fn vfio(n: u32) -> u32 {
        (b';' as u32) << 8 | (100 + n)
    }
    /// Of a container: 0.
    pub const GET_API_VERSION: u32 = vfio(0);
    /// Of a container: whether it has a kind of IOMMU.
    pub const CHECK_EXTENSION: u32 = vfio(1);
    /// Of a container: takes one.
    pub const SET_IOMMU: u32 = vfio(2);
    /// Of a group.
    pub const GROUP_GET_STATUS: u32 = vfio(3);
    /// Of a group: puts it into a container.
    pub const GROUP_SET_CONTAINER: u32 = vfio(4);
    /// Of a group: the file of a device.
    pub const GROUP_GET_DEVICE_FD: u32 = vfio(6);
    /// Of a device.
    pub const DEVICE_GET_INFO: u32 = vfio(7);
    /// Of a device.
    pub const DEVICE_GET_REGION_INFO: u32 = vfio(8);
    /// Of a device.
    pub const DEVICE_GET_IRQ_INFO: u32 = vfio(9);
    /// Of a device.
    pub const DEVICE_SET_IRQS: u32 = vfio(10);
    /// Of a device.
    pub const DEVICE_RESET: u32 = vfio(11);
    /// Of a container.
    pub const IOMMU_GET_INFO: u32 = vfio(12);
    /// Of a container.
    pub const IOMMU_MAP_DMA: u32 = vfio(13);
    /// Of a container.
    pub const IOMMU_UNMAP_DMA: u32 = vfio(14);
    /// Of a device's own file.
    pub const DEVICE_BIND_IOMMUFD: u32 = vfio(18);
    /// Of a device's own file.
    pub const DEVICE_ATTACH_IOMMUFD_PT: u32 = vfio(19);

    const fn iommufd(n: u32) -> u32 {
        (b';' as u32) << 8 | (0x80 + n)
    }
    /// Of `/dev/iommu`: makes an address space.
    pub const IOAS_ALLOC: u32 = iommufd(1);
    /// Of `/dev/iommu`: which addresses it has.
    pub const IOAS_IOVA_RANGES: u32 = iommufd(4);
    /// Of `/dev/iommu`.
    pub const IOAS_MAP: u32 = iommufd(5);
    /// Of `/dev/iommu`.
    pub const IOAS_UNMAP: u32 = iommufd(6);
}

/// Kind of IOMMU: type 1, whose unmapping gives back exactly what was mapped.
pub const TYPE1V2: u64 = 3;
/// Of a group: all its devices are ours or nobody's.
pub const GROUP_VIABLE: u32 = 1 << 0;
/// Of a region: it can be mapped into the process.
pub const REGION_MMAP: u32 = 1 << 2;
/// Of a region or an IOMMU: capabilities follow.
pub const REGION_CAPS: u32 = 1 << 3;
/// Of an IOMMU: its page sizes are told.
pub const INFO_PGSIZES: u32 = 1 << 0;
/// Of an IOMMU: capabilities follow.
pub const INFO_CAPS: u32 = 1 << 1;
/// Capability of a region: only parts of it can be mapped.
pub const CAP_SPARSE_MMAP: u16 = 1;
/// Capability of an IOMMU: which addresses it has.
pub const CAP_IOVA_RANGE: u16 = 1;
/// Of a mapping in an address space: at the address given.
pub const IOAS_FIXED_IOVA: u32 = 1 << 0;
/// Of a mapping in an address space: the card writes and reads.
pub const IOAS_READ_WRITE: u32 = 1 << 1 | 1 << 2;

structures! {
    /// Status of a group.
    GroupStatus {
        /// Bytes of this.
        argsz: u32,
        /// [`GROUP_VIABLE`].
        flags: u32,
    }

    /// A container's IOMMU.
    IommuInfo {
        /// Bytes of this and what follows.
        argsz: u32,
        /// [`INFO_PGSIZES`] and [`INFO_CAPS`].
        flags: u32,
        /// Page sizes, a bit each.
        page_sizes: u64,
        /// Where the first capability is.
        capabilities: u32,
        /// Nothing.
        pad: u32,
    }

    /// Head of a capability.
    CapabilityHeader {
        /// Which.
        id: u16,
        /// Of it.
        version: u16,
        /// Where the next is; 0: nowhere.
        next: u32,
    }

    /// Makes memory of the process reachable.
    MapDma {
        /// Bytes of this.
        argsz: u32,
        /// `pci::DMA_READ` and `pci::DMA_WRITE`.
        flags: u32,
        /// Where it is in the process.
        vaddr: u64,
        /// Where it is for the card.
        iova: u64,
        /// Bytes.
        size: u64,
    }

    /// A device meets an IOMMU file.
    BindIommufd {
        /// Bytes of this.
        argsz: u32,
        /// None.
        flags: u32,
        /// The file.
        file: u32,
        /// The device's number there.
        device: u32,
    }

    /// A device uses an address space.
    AttachIoas {
        /// Bytes of this.
        argsz: u32,
        /// None.
        flags: u32,
        /// The address space.
        ioas: u32,
    }

    /// A new address space.
    IoasAlloc {
        /// Bytes of this.
        size: u32,
        /// None.
        flags: u32,
        /// Its number.
        ioas: u32,
    }

    /// A mapping in an address space.
    IoasMap {
        /// Bytes of this.
        size: u32,
        /// [`IOAS_FIXED_IOVA`], [`IOAS_READ_WRITE`].
        flags: u32,
        /// The address space.
        ioas: u32,
        /// Nothing.
        pad: u32,
        /// Where it is in the process.
        vaddr: u64,
        /// Bytes.
        length: u64,
        /// Where it is for the card.
        iova: u64,
    }

    /// Takes one back.
    IoasUnmap {
        /// Bytes of this.
        size: u32,
        /// The address space.
        ioas: u32,
        /// Where it is for the card.
        iova: u64,
        /// Bytes.
        length: u64,
    }
}

/// The capability `id` of a structure with capabilities from `first` on: what is behind its head.
pub fn capability(bytes: &[u8], first: u32, id: u16) -> Option<&[u8]> {
    let mut at = first as usize;
    // So many heads have room; a chain that is longer goes in circles.
    for _ in 0..bytes.len() / CapabilityHeader::BYTES {
        let (head, body) = CapabilityHeader::parse(bytes.get(at..).filter(|_| at > 0)?)?;
        if head.id == id {
            return Some(body);
        }
        at = head.next as usize;
    }
    None
}

/// The pairs of 64-bit words behind their number and a word without meaning: areas, and ranges of addresses.
pub fn pairs(body: &[u8]) -> Option<Vec<(u64, u64)>> {
    let (count, rest) = body.split_first_chunk::<4>()?;
    let count = u32::from_le_bytes(*count) as usize;
    let words = rest.get(4..)?.get(..count.checked_mul(16)?)?;
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
    words.chunks_exact(16).map(|pair| Some((word(&pair[..8])?, word(&pair[8..])?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_sizes_are_those_of_the_kernels_headers() {
        assert_eq!((request::GET_API_VERSION, request::DEVICE_ATTACH_IOMMUFD_PT), (0x3b64, 0x3b77));
        assert_eq!((request::IOAS_ALLOC, request::IOAS_UNMAP), (0x3b81, 0x3b86));
        assert_eq!((IommuInfo::BYTES, MapDma::BYTES, IoasMap::BYTES, IoasUnmap::BYTES), (24, 32, 40, 24));
    }

    #[test]
    fn capabilities_are_found_and_bad_chains_end() {
        let mut bytes = vec![0; 64];
        bytes[24..32].copy_from_slice(&CapabilityHeader { id: 9, version: 1, next: 40 }.to_bytes());
        bytes[40..48].copy_from_slice(&CapabilityHeader { id: 1, version: 1, next: 24 }.to_bytes());
        bytes[48..52].copy_from_slice(&0u32.to_le_bytes());
        assert_eq!(capability(&bytes, 24, 1).and_then(pairs), Some(vec![]));
        assert_eq!(capability(&bytes, 24, 2), None, "in circles");
        assert_eq!(capability(&bytes, 0, 1), None);
        assert_eq!(capability(&bytes, 60, 1), None);
        bytes[48..52].copy_from_slice(&1u32.to_le_bytes());
        assert_eq!(capability(&bytes, 24, 1).and_then(pairs), None, "cut off");
    }
}
