// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receive WQE: as many units of 64 bytes as the queue says, each with four SGEs, which fill up in their order.
//!
//! An SGE of no bytes holds nothing, wherever it stands: the unused ones of a WQE are zero.

/// SGEs in a unit.
pub const SGES_PER_UNIT: usize = 4;

/// Most SGEs of a receive WQE, in its largest form.
pub const MAX_SGES: usize = 16;

/// Largest `rq_stride`: four units.
pub const MAX_STRIDE: u8 = 2;

/// Units that a WQE with `sges` SGEs needs.
pub const fn units_for_sges(sges: usize) -> usize {
    let units = sges.div_ceil(SGES_PER_UNIT);
    if units == 0 {
        1
    } else {
        units
    }
}

crate::table::layout! {
    /// Unit of a receive WQE, of a queue pair or of a shared receive queue.
    struct RecvWqe, "recv_wqe", Little, 64 bytes, "host interface";
    /// Address of the unit's first SGE.
    SGE0_ADDR sge0_addr: u64 @ 0, 64, RW;
    /// Local key of the first SGE.
    SGE0_LKEY sge0_lkey: u32 @ 64, 32, RW;
    /// Bytes of the first SGE.
    SGE0_LEN sge0_len: u32 @ 96, 32, RW;
    /// Address of the unit's second SGE.
    SGE1_ADDR sge1_addr: u64 @ 128, 64, RW;
    /// Local key of the second SGE.
    SGE1_LKEY sge1_lkey: u32 @ 192, 32, RW;
    /// Bytes of the second SGE.
    SGE1_LEN sge1_len: u32 @ 224, 32, RW;
    /// Address of the unit's third SGE.
    SGE2_ADDR sge2_addr: u64 @ 256, 64, RW;
    /// Local key of the third SGE.
    SGE2_LKEY sge2_lkey: u32 @ 320, 32, RW;
    /// Bytes of the third SGE.
    SGE2_LEN sge2_len: u32 @ 352, 32, RW;
    /// Address of the unit's fourth SGE.
    SGE3_ADDR sge3_addr: u64 @ 384, 64, RW;
    /// Local key of the fourth SGE.
    SGE3_LKEY sge3_lkey: u32 @ 448, 32, RW;
    /// Bytes of the fourth SGE.
    SGE3_LEN sge3_len: u32 @ 480, 32, RW;
}
