// SPDX-License-Identifier: MIT OR Apache-2.0
//! What passes between the responder's blocks.

use crate::config::RnicConfig;
use ferrowire_rtl::{bits, lit, Bundle, Scope, Sig};
use ferrowire_spec::queue::cqe::CqeOpcode;
use ferrowire_spec::queue::Access;

/// What `check` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The next of its sequence, and valid.
    Execute,
    /// Seen before.
    Duplicate,
    /// Behind a gap, the first since the sequence was whole.
    FirstGap,
    /// Behind a gap that has been reported, or behind a request that the peer was told to repeat.
    Gap,
    /// Invalid request.
    Invalid,
    /// There is no receive for it.
    NotReady,
    /// A READ seen before that asks for more than was: not answered.
    Unheard,
    /// Dropped, and nothing is said of it: not for us, or of a service without answers. `opcode` says why.
    Dropped,
    /// Not a packet: the QP starts.
    Start,
    /// Not a packet: the QP has gone to RESET.
    End,
    /// No request: it brings what a READ or an atomic of ours asked for.
    Answer,
    /// Likewise, but not what was asked for.
    BadAnswer,
    /// Likewise, and nobody asked for it.
    Stray,
    /// Not a packet: the QP, which has a shared receive queue, has gone to ERR.
    Last,
    /// Not a packet: the row of the QP counts one receive less, which `walk` had told that it was not used.
    Mend,
    /// A READ or an atomic for which there is no place now: as if lost, so the peer gets a sequence NAK.
    Crowded,
}

impl Class {
    /// Its number between the blocks.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// Whether a signal is this class.
    pub fn is(self, class: Sig) -> Sig {
        class.eq(self.code())
    }
}

/// What `admit` needs of a request, and what it passes on.
#[derive(Clone, Bundle)]
pub struct Facts {
    /// A [`Class`].
    pub class: Sig,
    /// Which QP.
    pub qp: Sig,
    /// Place of the payload in the frame.
    pub offset: Sig,
    /// Its length.
    pub bytes: Sig,
    /// The peer wants an acknowledgement.
    pub ack_req: Sig,
    /// PSN of an answer.
    pub psn: Sig,
    /// Messages completed before this packet.
    pub msn: Sig,
    /// It begins its message.
    pub begins: Sig,
    /// It ends its message.
    pub ends: Sig,
    /// It goes to the memory of a receive.
    pub send: Sig,
    /// Of a service without answers: UC or UD.
    pub quiet: Sig,
    /// A datagram: 40 bytes of GRH are before its payload, and `psn` is the QP that sent it.
    pub datagram: Sig,
    /// `check` waits to be told whether it is executed.
    pub judged: Sig,
    /// A READ or an atomic, as `reply::Kind`, whose operands wait; of an answer, what it answers; otherwise none of these.
    pub kind: Sig,
    /// Its message has a receive, which ends with it or with an error.
    pub holds: Sig,
    /// Index of the receive WQE.
    pub index: Sig,
    /// It is one of a shared queue.
    pub shared: Sig,
    /// It was taken from there for this packet, and is completed whatever becomes of the QP.
    pub takes: Sig,
    /// Timer code for a peer that must wait; for others the credit code.
    pub code: Sig,
    /// CQ of the receives.
    pub cq: Sig,
    /// Opcode of the receive's CQE; of what is dropped the code of a `DropReason`.
    pub opcode: Sig,
    /// Bytes of the message up to here.
    pub received: Sig,
    /// Immediate data, or the key to invalidate.
    pub imm: Sig,
    /// There are some.
    pub imm_valid: Sig,
    /// The peer asks for an event.
    pub solicited: Sig,
}

impl Facts {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Facts {
            class: bits(4),
            qp: bits(cfg.qp_bits()),
            offset: bits(7),
            bytes: bits(13),
            ack_req: bits(1),
            psn: bits(24),
            msn: bits(24),
            begins: bits(1),
            ends: bits(1),
            send: bits(1),
            quiet: bits(1),
            datagram: bits(1),
            judged: bits(1),
            kind: bits(2),
            holds: bits(1),
            index: bits(16),
            shared: bits(1),
            takes: bits(1),
            code: bits(5),
            cq: bits(cfg.cq_bits()),
            opcode: bits(8),
            received: bits(32),
            imm: bits(32),
            imm_valid: bits(1),
            solicited: bits(1),
        }
    }

    /// Whether the packet is to be executed, and invalidates the key in `imm`.
    pub fn invalidates(&self, cfg: &RnicConfig) -> Sig {
        let invalidates = Class::Execute.is(self.class) & self.opcode.eq(CqeOpcode::RecvInv as u32);
        cfg.only(cfg.memory_windows, invalidates)
    }
}

/// A packet on its way from `check`.
#[derive(Clone, Bundle)]
pub struct Order {
    /// What `admit` needs.
    pub facts: Facts,
    /// Number of the receive queue.
    pub queue: Sig,
    /// Log2 of the units of a receive WQE.
    pub stride: Sig,
    /// Protection domain.
    pub pd: Sig,
    /// Where a WRITE goes, or what a READ or atomic is about.
    pub va: Sig,
    /// The key.
    pub rkey: Sig,
    /// Bytes from there on.
    pub total: Sig,
}

impl Order {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Order {
            facts: Facts::of(cfg),
            queue: bits(cfg.rq_bits()),
            stride: bits(2),
            pd: bits(24),
            va: bits(64),
            rkey: bits(32),
            total: bits(32),
        }
    }
}

/// What a READ or an atomic needs, beside what its packet's order tells.
#[derive(Clone, Bundle)]
pub struct Operands {
    /// Address.
    pub va: Sig,
    /// Key.
    pub rkey: Sig,
    /// Bytes.
    pub length: Sig,
    /// What an atomic adds or stores.
    pub swap: Sig,
    /// What it compares with.
    pub compare: Sig,
    /// COMPARE_SWAP rather than FETCH_ADD.
    pub compares: Sig,
}

impl Operands {
    /// The shape.
    pub fn of() -> Self {
        Operands {
            va: bits(64),
            rkey: bits(32),
            length: bits(32),
            swap: bits(64),
            compare: bits(64),
            compares: bits(1),
        }
    }
}

/// Bytes of a packet that go to one place: a part of one SGE, or of a WRITE.
#[derive(Clone, Bundle)]
pub struct Run {
    /// What `admit` needs of the packet.
    pub facts: Facts,
    /// Address of the first byte.
    pub va: Sig,
    /// The key.
    pub key: Sig,
    /// Protection domain.
    pub pd: Sig,
    /// Access bits that must be granted.
    pub access: Sig,
    /// Bytes that must lie in the region from there on.
    pub left: Sig,
    /// Bytes of the packet; none where there is nothing to be written.
    pub bytes: Sig,
    /// The packet's last.
    pub last: Sig,
    /// What became of the walk, a [`Walk`].
    pub walk: Sig,
}

impl Run {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Run {
            facts: Facts::of(cfg),
            va: bits(64),
            key: bits(32),
            pd: bits(24),
            access: bits(8),
            left: bits(32),
            bytes: bits(13),
            last: bits(1),
            walk: bits(2),
        }
    }
}

impl Run {
    /// Of an order that needs no walk: a WRITE, or the right of a READ or an atomic.
    pub fn straight(m: &Scope, order: &Order, facts: Facts, executes: Sig, probes_again: Sig) -> Self {
        let replies = facts.kind.ne(0);
        let probes = replies & (executes | probes_again) & order.total.ne(0);
        let [write, read, atomic] = [Access::RemoteWrite, Access::RemoteRead, Access::RemoteAtomic]
            .map(|a| lit(8, u32::from(a.code())));
        Run {
            va: order.va,
            key: order.rkey,
            pd: order.pd,
            access: m.select(facts.kind, &[write, read, atomic, write]),
            left: order.total,
            bytes: m.mux(replies, &probes.zext(13), &executes.then(facts.bytes, lit(13, 0))),
            last: lit(1, 1),
            walk: lit(2, Walk::Whole.code()),
            facts,
        }
    }
}

/// What became of the walk over a packet's SGEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// There is a place for every byte.
    Whole,
    /// The receive is too small.
    Short,
    /// The WQE could not be read.
    Unread,
    /// The WQE is gone: the QP has gone to RESET meanwhile.
    Gone,
}

impl Walk {
    /// Its number between the blocks.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// Whether a signal is this.
    pub fn is(self, walk: Sig) -> Sig {
        walk.eq(self.code())
    }
}

/// Whether a packet is executed that may yet not be, and at which nobody is told: of UC or UD.
#[derive(Clone, Bundle)]
pub struct Judged {
    /// It is known in this cycle.
    pub valid: Sig,
    /// It is not.
    pub refused: Sig,
}

impl Judged {
    /// The shape.
    pub fn of() -> Self {
        Judged { valid: bits(1), refused: bits(1) }
    }
}

/// Most pieces of a packet: 16 SGEs, each over the end of a page; one more for a datagram of the largest path MTU, whose 4,136 bytes can
/// lie over two.
pub const PIECES: u32 = 33;

/// A packet whose lookups are on their way.
#[derive(Clone, Bundle)]
pub struct Pending {
    /// What `check` found.
    pub facts: Facts,
    /// Pieces, and so lookups.
    pub pieces: Sig,
    /// A [`Walk`].
    pub walk: Sig,
}

impl Pending {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Pending { facts: Facts::of(cfg), pieces: bits(6), walk: bits(2) }
    }
}

/// What became of what an answer brought.
#[derive(Clone, Bundle)]
pub struct Outcome {
    /// `WcStatus`.
    pub status: Sig,
    /// `LocalCause`.
    pub cause: Sig,
}

impl Outcome {
    /// The shape.
    pub fn of() -> Self {
        Outcome { status: bits(8), cause: bits(8) }
    }
}

/// Bytes of a packet that are one write: within a page.
#[derive(Clone, Bundle)]
pub struct Piece {
    /// Bus address of the first byte.
    pub address: Sig,
    /// Bytes.
    pub bytes: Sig,
    /// Its write may pass others.
    pub relaxed: Sig,
}

impl Piece {
    /// The shape.
    pub fn of() -> Self {
        Piece { address: bits(64), bytes: bits(13), relaxed: bits(1) }
    }
}
