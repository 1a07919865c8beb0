// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doorbells: 64-bit writes into a page of BAR 0.
//!
//! Page `n` begins at [`BASE`] `+ n *` [`PAGE_BYTES`]. A queue answers only to the page it was created with; a write to another
//! page, one that is not 64 bits wide and aligned, and one to an offset without a doorbell are ignored.

/// Address of the first doorbell page in BAR 0.
pub const BASE: u32 = 0x1_0000;
/// Bytes of a doorbell page.
pub const PAGE_BYTES: u32 = 4096;
/// Offset of the send queue doorbell, a [`sq::SqDoorbell`].
pub const SQ: u32 = 0x00;
/// Offset of the receive queue doorbell, an [`rq::RqDoorbell`].
pub const RQ: u32 = 0x08;
/// Offset of the completion queue doorbell, a [`cq::CqDoorbell`].
pub const CQ: u32 = 0x10;
/// Offset of the event queue doorbell, an [`eq::EqDoorbell`].
pub const EQ: u32 = 0x18;
/// Offset of the places to which WQEs are pushed, of cards that have these: [`PUSH_SLOTS`] of 64 bytes.
pub const PUSH: u32 = 0x800;
/// Places of a page to which WQEs are pushed.
pub const PUSH_SLOTS: u32 = 32;

/// Address of a doorbell in BAR 0.
pub const fn address(page: u16, offset: u32) -> u32 {
    BASE + page as u32 * PAGE_BYTES + offset
}

crate::table::layout! {
    /// Send queue doorbell: WQEs up to the producer are ready.
    mod sq;
    struct SqDoorbell, "sq_doorbell", Little, 8 bytes, "host interface";
    /// Queue pair.
    QPN qpn: u32 @ 0, 24, WO;
    /// Reserved.
    RSVD0 rsvd0: u8 @ 24, 8, RSVD;
    /// WQEs posted since the queue pair left RESET, modulo 2^16. The queue has at most 2^15 WQEs; a producer further than
    /// the queue's size ahead of the card's position is an error of the queue pair.
    PRODUCER producer: u16 @ 32, 16, WO;
    /// The newest WQE, which is one of 64 bytes, was written to a place of this page as well, as eight words of eight bytes in order, and nothing else to any
    /// place since. The card takes it from there if it can, and from the queue if not.
    PUSHED pushed: bool @ 48, 1, WO;
    /// That place.
    PUSH_SLOT push_slot: u8 @ 49, 5, WO;
    /// Reserved.
    RSVD1 rsvd1: u16 @ 54, 10, RSVD;
}

crate::table::layout! {
    /// Receive queue doorbell: WQEs up to the producer are ready.
    mod rq;
    struct RqDoorbell, "rq_doorbell", Little, 8 bytes, "host interface";
    /// Queue pair, or shared receive queue.
    QPN qpn: u32 @ 0, 24, WO;
    /// `qpn` names a shared receive queue.
    SRQ srq: bool @ 24, 1, WO;
    /// Reserved.
    RSVD0 rsvd0: u8 @ 25, 7, RSVD;
    /// WQEs posted since the queue pair left RESET, or since the shared queue was created, modulo 2^16, as for the send queue.
    PRODUCER producer: u16 @ 32, 16, WO;
    /// Reserved.
    RSVD1 rsvd1: u16 @ 48, 16, RSVD;
}

crate::table::layout! {
    /// Completion queue doorbell: entries were taken, and an event may be asked for.
    mod cq;
    struct CqDoorbell, "cq_doorbell", Little, 8 bytes, "host interface";
    /// Completion queue.
    CQN cqn: u32 @ 0, 24, WO;
    /// Send an event for the next entry after those that the host has seen, at once if there is one already.
    ARM_NEXT arm_next: bool @ 24, 1, WO, "IBTA 11.4.2.2";
    /// Send an event for the next solicited or failed entry after those that the host has seen, at once if there is one already.
    ARM_SOLICITED arm_solicited: bool @ 25, 1, WO, "IBTA 11.4.2.2";
    /// With an arm: entries after the consumer that the host has seen, and wants no event for. It may have seen more than 63.
    SEEN seen: u8 @ 26, 6, WO, "IBTA 11.4.2.2";
    /// Entries taken since the queue was created, or got its ring by `RESIZE_CQ`, modulo 2^32.
    CONSUMER consumer: u32 @ 32, 32, WO;
}

crate::table::layout! {
    /// Event queue doorbell: events were taken, and an interrupt may be asked for.
    mod eq;
    struct EqDoorbell, "eq_doorbell", Little, 8 bytes, "host interface";
    /// Event queue.
    EQN eqn: u8 @ 0, 8, WO;
    /// Reserved.
    RSVD0 rsvd0: u16 @ 8, 16, RSVD;
    /// Interrupt for the next event behind the consumer, at once if there is one already.
    ARM arm: bool @ 24, 1, WO;
    /// Reserved.
    RSVD1 rsvd1: u8 @ 25, 7, RSVD;
    /// Entries taken since the queue was created, modulo 2^32.
    CONSUMER consumer: u32 @ 32, 32, WO;
}
