// SPDX-License-Identifier: MIT OR Apache-2.0
//! What passes between the blocks that face the host.

use crate::config::RnicConfig;
use crate::types::TableWrite;
use ferrowire_rtl::{bits, lit, Bundle, Sig};

/// Largest `max_rd_atomic` and `max_dest_rd_atomic`.
pub const MAX_RD_ATOMIC: u32 = 16;

/// Largest completion queue, as a power of two of entries.
pub const MAX_CQ_LOG2: u32 = 22;

/// Protection domains of a card; domain 0 is not given out.
pub fn pds(cfg: &RnicConfig) -> u32 {
    2 * cfg.qps
}

/// A completion queue, as CREATE_CQ gives it.
#[derive(Clone, Bundle)]
pub struct CqEntry {
    /// It exists.
    pub valid: Sig,
    /// Bus address of its entries, a multiple of 4,096.
    pub base: Sig,
    /// Log2 of its entries.
    pub log2: Sig,
    /// The doorbell page that it answers to.
    pub doorbell_page: Sig,
    /// Event queue of its events; 0: none.
    pub eqn: Sig,
}

impl CqEntry {
    /// The shape.
    pub fn of() -> Self {
        CqEntry { valid: bits(1), base: bits(64), log2: bits(5), doorbell_page: bits(16), eqn: bits(8) }
    }
}

/// How the events of a completion queue are moderated, as MODIFY_CQ gives it.
#[derive(Clone, Bundle)]
pub struct CqLimits {
    /// Entries that an armed queue may have without telling: one fewer than make an event; 0: it is not moderated.
    pub spare: Sig,
    /// For how long the first of them may wait, in microseconds.
    pub period_us: Sig,
}

impl CqLimits {
    /// The shape.
    pub fn of() -> Self {
        CqLimits { spare: bits(16), period_us: bits(16) }
    }

    /// The command processor's writes.
    pub fn write_of(cfg: &RnicConfig) -> TableWrite<Self> {
        TableWrite { enable: bits(1), index: bits(cfg.cq_bits()), entry: CqLimits::of() }
    }

    /// Of a count and a period, of which one that is 0 asks for no moderation.
    pub fn new(count: Sig, period_us: Sig) -> Self {
        CqLimits { spare: (count.any() & period_us.any()).then(count - 1, lit(16, 0)), period_us }
    }
}

/// Another ring for a completion queue, as RESIZE_CQ gives it.
#[derive(Clone, Bundle)]
pub struct CqResize {
    /// Which CQ; it exists.
    pub cq: Sig,
    /// Bus address of the entries, a multiple of 4,096.
    pub base: Sig,
    /// Log2 of the entries.
    pub log2: Sig,
}

impl CqResize {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        CqResize { cq: bits(cfg.cq_bits()), base: bits(64), log2: bits(5) }
    }
}

/// An event queue, as CREATE_EQ gives it.
#[derive(Clone, Bundle)]
pub struct EqEntry {
    /// It exists.
    pub valid: Sig,
    /// Bus address of its entries, a multiple of 4,096.
    pub base: Sig,
    /// Log2 of its entries.
    pub log2: Sig,
    /// The doorbell page that it answers to.
    pub doorbell_page: Sig,
    /// MSI-X vector.
    pub vector: Sig,
    /// It takes what belongs to no completion queue.
    pub asynchronous: Sig,
    /// Shortest time between two of its interrupts, in microseconds.
    pub moderation_us: Sig,
}

impl EqEntry {
    /// The shape.
    pub fn of() -> Self {
        EqEntry {
            valid: bits(1),
            base: bits(64),
            log2: bits(5),
            doorbell_page: bits(16),
            vector: bits(8),
            asynchronous: bits(1),
            moderation_us: bits(16),
        }
    }
}

/// A shared receive queue, as CREATE_SRQ gives it.
#[derive(Clone, Bundle)]
pub struct SrqEntry {
    /// It exists.
    pub valid: Sig,
    /// Protection domain of its receives.
    pub pd: Sig,
    /// Bus address of its WQEs, a multiple of 4,096.
    pub base: Sig,
    /// Log2 of its WQEs, at most 15.
    pub log2: Sig,
    /// Log2 of the 64-byte units of each, at most 2.
    pub stride: Sig,
    /// The doorbell page that it answers to.
    pub doorbell_page: Sig,
}

impl SrqEntry {
    /// The shape.
    pub fn of() -> Self {
        SrqEntry {
            valid: bits(1),
            pd: bits(24),
            base: bits(64),
            log2: bits(4),
            stride: bits(2),
            doorbell_page: bits(16),
        }
    }
}

/// An address handle. Its address vector is beside those of the QPs.
#[derive(Clone, Bundle)]
pub struct AhEntry {
    /// It exists.
    pub valid: Sig,
    /// Protection domain of the QPs that may use it.
    pub pd: Sig,
    /// Priority of the packets that go there.
    pub priority: Sig,
    /// They return inside the card.
    pub loops: Sig,
}

impl AhEntry {
    /// The shape.
    pub fn of() -> Self {
        AhEntry { valid: bits(1), pd: bits(24), priority: bits(3), loops: bits(1) }
    }

    /// The command processor's writes.
    pub fn write_of(cfg: &RnicConfig) -> TableWrite<Self> {
        TableWrite { enable: bits(1), index: bits(cfg.ah_bits()), entry: AhEntry::of() }
    }
}

/// What the command processor says of shared receive queues.
#[derive(Clone, Bundle)]
pub struct SrqControl {
    /// One begins its life, or ends it.
    pub entry: TableWrite<SrqEntry>,
    /// The limit of one is armed: with its creation, or alone.
    pub limit: TableWrite<Sig>,
    /// Of which one the status is asked for.
    pub query: Sig,
}

impl SrqControl {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        let index = bits(cfg.srq_bits());
        SrqControl {
            entry: TableWrite { enable: bits(1), index, entry: SrqEntry::of() },
            limit: TableWrite { enable: bits(1), index, entry: bits(16) },
            query: index,
        }
    }
}

/// How far a shared receive queue is.
#[derive(Clone, Bundle)]
pub struct SrqStatus {
    /// WQEs that messages have taken, free-running.
    pub taken: Sig,
    /// WQEs posted, free-running.
    pub posted: Sig,
    /// The armed limit.
    pub limit: Sig,
}

impl SrqStatus {
    /// The shape.
    pub fn of() -> Self {
        SrqStatus { taken: bits(16), posted: bits(16), limit: bits(16) }
    }
}

/// A 64-bit write into a doorbell page.
#[derive(Clone, Bundle)]
pub struct RawDoorbell {
    /// Which page.
    pub page: Sig,
    /// Byte within the page, a multiple of 8.
    pub offset: Sig,
    /// What was written.
    pub data: Sig,
}

impl RawDoorbell {
    /// The shape.
    pub fn of() -> Self {
        RawDoorbell { page: bits(16), offset: bits(12), data: bits(64) }
    }
}

/// A completion queue's doorbell, already checked for page and range.
#[derive(Clone, Bundle)]
pub struct CqDoorbell {
    /// Which CQ.
    pub cq: Sig,
    /// Entries taken since it was created, free-running.
    pub consumer: Sig,
    /// An event for the next entry.
    pub arm_next: Sig,
    /// An event for the next solicited or failed entry.
    pub arm_solicited: Sig,
    /// Entries after these that ask for no event.
    pub seen: Sig,
}

impl CqDoorbell {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        CqDoorbell {
            cq: bits(cfg.cq_bits()),
            consumer: bits(32),
            arm_next: bits(1),
            arm_solicited: bits(1),
            seen: bits(6),
        }
    }
}

/// An event queue's doorbell, already checked for page and range.
#[derive(Clone, Bundle)]
pub struct EqDoorbell {
    /// Which event queue.
    pub eq: Sig,
    /// Entries taken since it was created, free-running.
    pub consumer: Sig,
    /// An interrupt for the next event.
    pub arm: Sig,
}

impl EqDoorbell {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        EqDoorbell { eq: bits(cfg.eq_bits()), consumer: bits(32), arm: bits(1) }
    }
}

/// Where the command queue lies and what it has to do; from the registers.
#[derive(Clone, Bundle)]
pub struct CommandControl {
    /// Commands are taken; while low, both rings stand at entry 0.
    pub enable: Sig,
    /// Bus address of the commands.
    pub base: Sig,
    /// Log2 of the command ring's entries.
    pub log2: Sig,
    /// Commands posted, free-running.
    pub producer: Sig,
    /// Bus address of the completions.
    pub completion_base: Sig,
    /// Log2 of the completion ring's entries.
    pub completion_log2: Sig,
}

impl CommandControl {
    /// The shape.
    pub fn of() -> Self {
        CommandControl {
            enable: bits(1),
            base: bits(64),
            log2: bits(8),
            producer: bits(16),
            completion_base: bits(64),
            completion_log2: bits(8),
        }
    }
}

/// What the command processor shows in the registers.
#[derive(Clone, Bundle)]
pub struct CommandProgress {
    /// Tables are clear.
    pub ready: Sig,
    /// The ring could not be read.
    pub fatal: Sig,
    /// Commands taken.
    pub consumer: Sig,
}

impl CommandProgress {
    /// The shape.
    pub fn of() -> Self {
        CommandProgress { ready: bits(1), fatal: bits(1), consumer: bits(16) }
    }
}
