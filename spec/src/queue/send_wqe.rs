// SPDX-License-Identifier: MIT OR Apache-2.0
//! Send WQE: one unit of 64 bytes with the first SGE, and continuation units with four SGEs each.
//!
//! Inline data take the place of the SGEs: they begin at byte 48 of the first unit ([`INLINE_AT`]) and run on
//! through the continuation units. All WQEs of a queue have as many units as it was created with, `1 << sq_stride`; what
//! of the last ones is not in use means nothing.
//!
//! The first 24 bits and the SGE stand alike in all forms; what lies between has a form for each kind:
//! [`SendWqe`] for RC and UC, [`ud::SendWqeUd`] for UD, [`bind::SendWqeBind`] for a window.

/// First byte of inline data.
pub const INLINE_AT: usize = 48;

/// SGEs in a continuation unit.
pub const SGES_PER_UNIT: usize = 4;

/// Most SGEs of a send WQE, in its largest form.
pub const MAX_SGES: usize = 16;

/// Most bytes of inline data, in its largest form.
pub const MAX_INLINE: usize = 256;

/// Largest `sq_stride`: eight units.
pub const MAX_STRIDE: u8 = 3;

/// Units that a WQE with `sges` SGEs needs.
pub const fn units_for_sges(sges: usize) -> usize {
    1 + sges.saturating_sub(1).div_ceil(SGES_PER_UNIT)
}

/// Units that a WQE with `bytes` of inline data needs.
pub const fn units_for_inline(bytes: usize) -> usize {
    1 + bytes.saturating_sub(super::WQE_UNIT - INLINE_AT).div_ceil(super::WQE_UNIT)
}

crate::table::codes! {
    /// What a send WQE asks for; a CQE echoes it.
    enum SendOpcode, "send_opcode";
    /// SEND.
    Send = 0, "SEND";
    /// SEND with an immediate.
    SendImm = 1, "SEND_IMM";
    /// SEND that invalidates a key of the responder.
    SendInv = 2, "SEND_INV";
    /// RDMA WRITE.
    Write = 3, "WRITE";
    /// RDMA WRITE with an immediate.
    WriteImm = 4, "WRITE_IMM";
    /// RDMA READ.
    Read = 5, "READ";
    /// Compare and swap of 8 bytes.
    CmpSwap = 6, "CMP_SWAP";
    /// Fetch and add of 8 bytes.
    FetchAdd = 7, "FETCH_ADD";
    /// Invalidate a local key.
    LocalInv = 8, "LOCAL_INV";
    /// Bind a memory window.
    BindMw = 9, "BIND_MW";
}

crate::table::layout! {
    /// First unit of a send WQE of RC or UC.
    struct SendWqe, "send_wqe", Little, 64 bytes, "host interface";
    /// One of [`SendOpcode`].
    OPCODE opcode: u8 @ 0, 8, RW;
    /// Write a CQE also on success.
    SIGNALED signaled: bool @ 8, 1, RW;
    /// Set the solicited event bit of the last packet.
    SOLICITED solicited: bool @ 9, 1, RW;
    /// Begin only when all earlier READs and atomics are answered.
    FENCE fence: bool @ 10, 1, RW, "IBTA 10.8.3.3";
    /// The data stand in the WQE: `num_sge` is 0 and `inline_len` counts.
    INLINE inline: bool @ 11, 1, RW;
    /// Reserved.
    RSVD_FLAGS rsvd_flags: u8 @ 12, 4, RSVD;
    /// SGEs in use.
    NUM_SGE num_sge: u8 @ 16, 8, RW;
    /// Reserved.
    RSVD_SIZE rsvd_size: u8 @ 24, 8, RSVD;
    /// Immediate, or the key to invalidate.
    IMM imm: u32 @ 32, 32, RW;
    /// Address in the responder's memory.
    REMOTE_VA remote_va: u64 @ 64, 64, RW;
    /// The responder's key.
    RKEY rkey: u32 @ 128, 32, RW;
    /// Reserved.
    RSVD0 rsvd0: u32 @ 160, 32, RSVD;
    /// Value to compare with, or to add.
    COMPARE_ADD compare_add: u64 @ 192, 64, RW;
    /// Value to store when the compare succeeds.
    SWAP swap: u64 @ 256, 64, RW;
    /// Bytes of inline data.
    INLINE_LEN inline_len: u16 @ 320, 16, RW;
    /// Reserved.
    RSVD1 rsvd1: u64 @ 336, 48, RSVD;
    /// Address of the first SGE.
    SGE0_ADDR sge0_addr: u64 @ 384, 64, RW;
    /// Local key of the first SGE.
    SGE0_LKEY sge0_lkey: u32 @ 448, 32, RW;
    /// Bytes of the first SGE.
    SGE0_LEN sge0_len: u32 @ 480, 32, RW;
}

crate::table::layout! {
    /// Scatter/gather element: the form that every SGE of a WQE has.
    mod sge;
    struct Sge, "sge", Little, 16 bytes, "host interface";
    /// Address.
    ADDR addr: u64 @ 0, 64, RW;
    /// Local key.
    LKEY lkey: u32 @ 64, 32, RW;
    /// Bytes.
    LEN len: u32 @ 96, 32, RW;
}

crate::table::layout! {
    /// Continuation unit of a send WQE: four SGEs.
    mod sges;
    struct SendWqeSges, "send_wqe_sges", Little, 64 bytes, "host interface";
    /// Address of SGE 4n+1.
    SGE0_ADDR sge0_addr: u64 @ 0, 64, RW;
    /// Local key of SGE 4n+1.
    SGE0_LKEY sge0_lkey: u32 @ 64, 32, RW;
    /// Bytes of SGE 4n+1.
    SGE0_LEN sge0_len: u32 @ 96, 32, RW;
    /// Address of SGE 4n+2.
    SGE1_ADDR sge1_addr: u64 @ 128, 64, RW;
    /// Local key of SGE 4n+2.
    SGE1_LKEY sge1_lkey: u32 @ 192, 32, RW;
    /// Bytes of SGE 4n+2.
    SGE1_LEN sge1_len: u32 @ 224, 32, RW;
    /// Address of SGE 4n+3.
    SGE2_ADDR sge2_addr: u64 @ 256, 64, RW;
    /// Local key of SGE 4n+3.
    SGE2_LKEY sge2_lkey: u32 @ 320, 32, RW;
    /// Bytes of SGE 4n+3.
    SGE2_LEN sge2_len: u32 @ 352, 32, RW;
    /// Address of SGE 4n+4.
    SGE3_ADDR sge3_addr: u64 @ 384, 64, RW;
    /// Local key of SGE 4n+4.
    SGE3_LKEY sge3_lkey: u32 @ 448, 32, RW;
    /// Bytes of SGE 4n+4.
    SGE3_LEN sge3_len: u32 @ 480, 32, RW;
}

crate::table::layout! {
    /// First unit of a send WQE of UD: `SEND` and `SEND_IMM` only.
    mod ud;
    struct SendWqeUd, "send_wqe_ud", Little, 64 bytes, "host interface";
    /// As in `send_wqe`.
    OPCODE opcode: u8 @ 0, 8, RW;
    /// As in `send_wqe`.
    SIGNALED signaled: bool @ 8, 1, RW;
    /// As in `send_wqe`.
    SOLICITED solicited: bool @ 9, 1, RW;
    /// As in `send_wqe`; without effect for UD.
    FENCE fence: bool @ 10, 1, RW;
    /// As in `send_wqe`.
    INLINE inline: bool @ 11, 1, RW;
    /// Reserved.
    RSVD_FLAGS rsvd_flags: u8 @ 12, 4, RSVD;
    /// As in `send_wqe`.
    NUM_SGE num_sge: u8 @ 16, 8, RW;
    /// Reserved.
    RSVD_SIZE rsvd_size: u8 @ 24, 8, RSVD;
    /// Immediate.
    IMM imm: u32 @ 32, 32, RW;
    /// Queue pair of the receiver.
    DEST_QPN dest_qpn: u32 @ 64, 24, RW;
    /// Reserved.
    RSVD_QPN rsvd_qpn: u8 @ 88, 8, RSVD;
    /// Address handle, made by `CREATE_AH`.
    AH ah: u32 @ 96, 32, RW;
    /// Queue key; when the top bit is set, the queue pair's own is sent.
    QKEY qkey: u32 @ 128, 32, RW, "IBTA 10.2.5";
    /// Reserved.
    RSVD0 rsvd0: u32 @ 160, 32, RSVD;
    /// Reserved.
    RSVD1 rsvd1: u64 @ 192, 64, RSVD;
    /// Reserved.
    RSVD2 rsvd2: u64 @ 256, 64, RSVD;
    /// Bytes of inline data.
    INLINE_LEN inline_len: u16 @ 320, 16, RW;
    /// Reserved.
    RSVD3 rsvd3: u64 @ 336, 48, RSVD;
    /// Address of the first SGE.
    SGE0_ADDR sge0_addr: u64 @ 384, 64, RW;
    /// Local key of the first SGE.
    SGE0_LKEY sge0_lkey: u32 @ 448, 32, RW;
    /// Bytes of the first SGE.
    SGE0_LEN sge0_len: u32 @ 480, 32, RW;
}

crate::table::layout! {
    /// Send WQE that binds a memory window: `BIND_MW`.
    mod bind;
    struct SendWqeBind, "send_wqe_bind", Little, 64 bytes, "host interface";
    /// As in `send_wqe`.
    OPCODE opcode: u8 @ 0, 8, RW = 9;
    /// As in `send_wqe`.
    SIGNALED signaled: bool @ 8, 1, RW;
    /// As in `send_wqe`; without effect.
    SOLICITED solicited: bool @ 9, 1, RW;
    /// As in `send_wqe`.
    FENCE fence: bool @ 10, 1, RW;
    /// As in `send_wqe`; must be 0.
    INLINE inline: bool @ 11, 1, RW;
    /// Reserved.
    RSVD_FLAGS rsvd_flags: u8 @ 12, 4, RSVD;
    /// Must be 0.
    NUM_SGE num_sge: u8 @ 16, 8, RW;
    /// Reserved.
    RSVD_SIZE rsvd_size: u8 @ 24, 8, RSVD;
    /// The window's new key: its index, with a fresh tag.
    MW_KEY mw_key: u32 @ 32, 32, RW;
    /// First address of the window.
    VA va: u64 @ 64, 64, RW;
    /// Key of the region it lies in.
    MR_KEY mr_key: u32 @ 128, 32, RW;
    /// Rights, bits of [`crate::queue::Access`].
    ACCESS access: u8 @ 160, 8, RW;
    /// The window is of type 1, which may be bound already: the bind takes back what the window gave. A bind of a window of the other
    /// type fails.
    TYPE_1 type_1: bool @ 168, 1, RW;
    /// Reserved.
    RSVD0 rsvd0: u32 @ 169, 23, RSVD;
    /// Bytes of the window; 0 unbinds.
    LENGTH length: u64 @ 192, 64, RW;
    /// Reserved.
    RSVD1 rsvd1: u64 @ 256, 64, RSVD;
    /// Reserved.
    RSVD2 rsvd2: u64 @ 320, 64, RSVD;
    /// Reserved.
    RSVD3 rsvd3: u64 @ 384, 64, RSVD;
    /// Reserved.
    RSVD4 rsvd4: u64 @ 448, 64, RSVD;
}
