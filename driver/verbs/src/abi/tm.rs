// SPDX-License-Identifier: MIT OR Apache-2.0
//! Headers of tag matching, as a message carries them.

use super::layout::*;
use super::{be32, be64};

constants! {
    /// Operation of a tag matching header.
    enum ibv_tmh_op: c_uint {
        IBV_TMH_NO_TAG = 0,
        IBV_TMH_RNDV = 1,
        IBV_TMH_FIN = 2,
        IBV_TMH_EAGER = 3,
    }
}

layout! {
    /// Tag matching header.
    struct ibv_tmh {
        opcode: u8,
        reserved: [u8; 3],
        app_ctx: be32,
        tag: be64,
    }

    /// Rendezvous header.
    struct ibv_rvh {
        va: be64,
        rkey: be32,
        len: be32,
    }
}
