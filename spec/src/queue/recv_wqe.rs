// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receive WQE: one unit of 64 bytes with up to three SGEs.

/// SGEs in a receive WQE.
pub const MAX_SGES: usize = 3;

crate::table::layout! {
    /// Receive WQE, of a queue pair or of a shared receive queue.
    struct RecvWqe, "recv_wqe", Little, 64 bytes, "host interface";
    /// Reserved.
    RSVD0 rsvd0: u16 @ 0, 16, RSVD;
    /// SGEs in use, 0 to 3.
    NUM_SGE num_sge: u8 @ 16, 8, RW;
    /// Reserved.
    RSVD1 rsvd1: u64 @ 24, 40, RSVD;
    /// Reserved.
    RSVD2 rsvd2: u64 @ 64, 64, RSVD;
    /// Address of the first SGE.
    SGE0_ADDR sge0_addr: u64 @ 128, 64, RW;
    /// Local key of the first SGE.
    SGE0_LKEY sge0_lkey: u32 @ 192, 32, RW;
    /// Bytes of the first SGE.
    SGE0_LEN sge0_len: u32 @ 224, 32, RW;
    /// Address of the second SGE.
    SGE1_ADDR sge1_addr: u64 @ 256, 64, RW;
    /// Local key of the second SGE.
    SGE1_LKEY sge1_lkey: u32 @ 320, 32, RW;
    /// Bytes of the second SGE.
    SGE1_LEN sge1_len: u32 @ 352, 32, RW;
    /// Address of the third SGE.
    SGE2_ADDR sge2_addr: u64 @ 384, 64, RW;
    /// Local key of the third SGE.
    SGE2_LKEY sge2_lkey: u32 @ 448, 32, RW;
    /// Bytes of the third SGE.
    SGE2_LEN sge2_len: u32 @ 480, 32, RW;
}
