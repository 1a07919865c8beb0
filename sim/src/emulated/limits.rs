// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much an engine's card holds: as much as the registers can say, where nothing else bounds it.

use ferrowire_spec::csr::{capabilities as cap, identity};
use ferrowire_spec::queue::{recv_wqe, send_wqe};
use ferrowire_spec::{Block, Register, LAYOUT_HASH};

/// Queue pairs.
pub(super) const QPS: u32 = 1 << 14;
/// Completion queues.
pub(super) const CQS: u32 = 1 << 14;
/// Shared receive queues.
pub(super) const SRQS: u32 = 1 << 12;
/// Address handles.
pub(super) const AHS: u32 = 1 << 14;
/// Protection domains.
pub(super) const PDS: u32 = 1 << 12;
/// Event queues, and as many MSI-X vectors: BAR 0 has room for these.
pub(super) const EQS: u32 = ferrowire_spec::pci::MSIX_MAX;
/// Regions and windows together.
pub(super) const KEYS: u32 = 1 << 15;
/// Page table entries.
pub(super) const PAGES: u32 = 1 << 18;
/// Doorbell pages.
pub(super) const DOORBELL_PAGES: u32 = 256;
/// Entries of completion and event queues, as a power of two.
pub(super) const CQ_LOG2: u8 = 22;
/// WQEs of a queue, as a power of two.
pub(super) const WQ_LOG2: u8 = 15;
/// READs and atomics outstanding, each way.
pub(super) const RD_ATOMIC: u8 = 16;

/// Clock of the card in kHz: a cycle is a nanosecond, the unit of the engine's time.
pub const CLOCK_KHZ: u32 = 1_000_000;

/// Speed of the link in units of 100 Mb/s: that of the wire in [`crate::model::network`].
pub(super) const LINK_SPEED: u32 = 1000;

/// A field's value at its place.
fn put(register: &Register, name: &str, value: u32) -> u32 {
    register.field(name).map_or(0, |field| value << field.offset)
}

/// The registers that say so: block, register, value of the fields that are not as after reset.
pub(super) fn constants() -> [(&'static Block, Register, u32); 16] {
    let features = [
        "rc",
        "uc",
        "ud",
        "atomics",
        "memory_windows",
        "srq",
        "congestion",
        "raw_ethernet",
        "selective",
        "ipv6",
        "vlan",
        "wqe_push",
        "loopback",
    ];
    let features = features.iter().fold(0, |all, name| all | put(&cap::FEATURES, name, 1));
    let wqe = put(&cap::WQE_LIMITS, "max_send_sge", send_wqe::MAX_SGES as u32)
        | put(&cap::WQE_LIMITS, "max_recv_sge", recv_wqe::MAX_SGES as u32)
        | put(&cap::WQE_LIMITS, "max_inline", send_wqe::MAX_INLINE as u32);
    let reads = put(&cap::READ_LIMITS, "max_rd_atomic", RD_ATOMIC.into())
        | put(&cap::READ_LIMITS, "max_dest_rd_atomic", RD_ATOMIC.into());
    [
        (&identity::BLOCK, identity::LAYOUT_HASH_LO, LAYOUT_HASH as u32),
        (&identity::BLOCK, identity::LAYOUT_HASH_HI, (LAYOUT_HASH >> 32) as u32),
        // No datapath has a width here; a program that asks is told the least.
        (&identity::BLOCK, identity::BEAT_BYTES, 8),
        (&identity::BLOCK, identity::CLOCK_KHZ, CLOCK_KHZ),
        (&cap::BLOCK, cap::MAX_QP, QPS),
        (&cap::BLOCK, cap::MAX_CQ, CQS),
        (&cap::BLOCK, cap::MAX_MR, KEYS),
        (&cap::BLOCK, cap::MTT_ENTRIES, PAGES),
        (&cap::BLOCK, cap::MAX_SRQ, SRQS),
        (&cap::BLOCK, cap::MAX_AH, AHS),
        (&cap::BLOCK, cap::MAX_PD, PDS),
        (&cap::BLOCK, cap::MAX_EQ, EQS),
        (&cap::BLOCK, cap::DOORBELL_PAGES, DOORBELL_PAGES),
        (&cap::BLOCK, cap::WQE_LIMITS, wqe),
        (&cap::BLOCK, cap::READ_LIMITS, reads),
        (&cap::BLOCK, cap::FEATURES, features),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_queues_is_what_is_checked() {
        let told = |name| cap::LOG_LIMITS.field(name).unwrap().reset;
        assert_eq!(told("max_cq_log2"), u64::from(CQ_LOG2));
        assert_eq!((told("max_sq_log2"), told("max_rq_log2")), (u64::from(WQ_LOG2), u64::from(WQ_LOG2)));
    }
}
