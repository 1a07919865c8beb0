// SPDX-License-Identifier: MIT OR Apache-2.0
//! States of a queue pair, legal transitions, and the attributes that each needs or allows
//! (IBTA 10.3.1, 11.2.5.2 table 95).
//!
//! One port, no alternate path: what the standard says about these has no attribute here. The UDP source port
//! is an attribute of ours, allowed wherever the address vector is; so is selective retransmission, which both ends choose before the first
//! packet.

use crate::wire::opcode::Service;

/// Number of QP1, the queue pair of the general services (GSI); it is UD (IBTA chapter 13).
pub const GSI_QPN: u32 = 1;

/// Number of the raw Ethernet queue pair. In InfiniBand it is that of subnet management, which RoCE does not have (IBTA A17).
pub const RAW_QPN: u32 = 0;

/// Bytes of the largest frame that it sends or receives, without frame check sequence: as much as the largest path MTU.
pub const MAX_RAW_FRAME: u32 = 4096;

/// Queue key of QP1, the same on every port.
pub const GSI_QKEY: u32 = 0x8001_0000;

crate::table::codes! {
    /// State of a queue pair.
    enum QpState, "qp_state";
    /// Nothing works.
    Reset = 0, "RESET";
    /// Receives may be posted; nothing runs.
    Init = 1, "INIT";
    /// Ready to receive: answers, does not ask.
    Rtr = 2, "RTR";
    /// Ready to send: everything runs.
    Rts = 3, "RTS";
    /// Send queue drained: what was in progress finishes, nothing new begins.
    Sqd = 4, "SQD";
    /// Send queue error: UC and UD after a failed send; receives go on.
    Sqe = 5, "SQE";
    /// Everything is flushed.
    Err = 6, "ERR";
}

impl QpState {
    /// Whether receives may be posted and are not flushed at once.
    pub const fn takes_receives(self) -> bool {
        !matches!(self, QpState::Reset | QpState::Err)
    }

    /// Whether requests of the peer are answered.
    pub const fn responds(self) -> bool {
        matches!(self, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe)
    }

    /// Whether send WQEs are begun.
    pub const fn requests(self) -> bool {
        matches!(self, QpState::Rts)
    }

    /// Whether answers of the peer are taken.
    pub const fn takes_responses(self) -> bool {
        matches!(self, QpState::Rts | QpState::Sqd)
    }
}

/// A set of attributes of `MODIFY_QP`, as in its `attr_mask`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Attributes(pub u32);

crate::table::codes! {
    /// Attributes of `MODIFY_QP`; the value is the bit of `attr_mask`.
    enum AttributeBit, "qp_attribute_bit";
    /// What peers may do.
    Access = 0, "ACCESS";
    /// Partition key.
    Pkey = 1, "PKEY";
    /// Queue key.
    Qkey = 2, "QKEY";
    /// Address vector, given by `SET_AV` before.
    Av = 3, "AV";
    /// Path MTU.
    PathMtu = 4, "PATH_MTU";
    /// Queue pair of the peer.
    DestQpn = 5, "DEST_QPN";
    /// First PSN expected.
    RqPsn = 6, "RQ_PSN";
    /// First PSN to send.
    SqPsn = 7, "SQ_PSN";
    /// ACK time-out.
    Timeout = 8, "TIMEOUT";
    /// Transport retries.
    RetryCnt = 9, "RETRY_CNT";
    /// RNR retries.
    RnrRetry = 10, "RNR_RETRY";
    /// Timer code of RNR NAKs.
    MinRnrTimer = 11, "MIN_RNR_TIMER";
    /// READs and atomics outstanding as requester.
    MaxRdAtomic = 12, "MAX_RD_ATOMIC";
    /// READs and atomics taken as responder.
    MaxDestRdAtomic = 13, "MAX_DEST_RD_ATOMIC";
    /// UDP source port.
    Sport = 14, "SPORT";
    /// State that the caller believes it is in.
    CurState = 15, "CUR_STATE";
    /// Event when drained.
    SqdEvent = 16, "SQD_EVENT";
    /// Selective retransmission, which the peer has agreed to.
    Selective = 17, "SELECTIVE";
}

impl Attributes {
    /// No attribute.
    pub const NONE: Attributes = Attributes(0);

    /// These attributes.
    pub const fn of(list: &[AttributeBit]) -> Self {
        let mut mask = 0;
        let mut i = 0;
        while i < list.len() {
            mask |= 1 << list[i] as u8;
            i += 1;
        }
        Attributes(mask)
    }

    /// Whether `bit` is among them.
    pub const fn contains(self, bit: AttributeBit) -> bool {
        self.0 >> bit as u8 & 1 == 1
    }

    /// Those of `self` that are not in `other`.
    pub const fn without(self, other: Attributes) -> Attributes {
        Attributes(self.0 & !other.0)
    }

    /// Those in either.
    pub const fn with(self, other: Attributes) -> Attributes {
        Attributes(self.0 | other.0)
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The one with the lowest bit that has a meaning.
    pub const fn lowest(self) -> Option<AttributeBit> {
        if self.0 == 0 {
            None
        } else {
            AttributeBit::from_code(self.0.trailing_zeros() as u8)
        }
    }
}

/// A legal transition that `MODIFY_QP` may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// Service of the queue pair.
    pub service: Service,
    /// From this state.
    pub from: QpState,
    /// To this one; the same state changes attributes only.
    pub to: QpState,
    /// Attributes that must be given.
    pub required: Attributes,
    /// Attributes that may be given besides.
    pub optional: Attributes,
}

/// Why `MODIFY_QP` is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransitionError {
    /// The state cannot be reached from there.
    Illegal {
        /// From this state.
        from: QpState,
        /// To this one.
        to: QpState,
    },
    /// Attributes that must be given are not.
    Missing(Attributes),
    /// Attributes were given that the transition does not allow.
    NotAllowed(Attributes),
}

impl core::fmt::Display for TransitionError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (what, set) = match self {
            TransitionError::Illegal { from, to } => return write!(f, "no transition from {from} to {to}"),
            TransitionError::Missing(set) => ("missing", set),
            TransitionError::NotAllowed(set) => ("not allowed here", set),
        };
        f.write_str(what)?;
        let mut between = ": ";
        for bit in AttributeBit::ALL.iter().filter(|b| set.contains(**b)) {
            write!(f, "{between}{bit}")?;
            between = ", ";
        }
        Ok(())
    }
}

impl core::error::Error for TransitionError {}

macro_rules! transitions {
    ($($service:ident $from:ident -> $to:ident: [$($required:ident)*] [$($optional:ident)*];)+) => {
        /// Every legal transition but those to RESET (from anywhere) and to ERR (from anywhere but RESET), which
        /// need and allow no attribute but the state believed, and are found by [`transition`] too.
        pub const TRANSITIONS: &[Transition] = &[$(
            Transition {
                service: Service::$service,
                from: QpState::$from,
                to: QpState::$to,
                required: Attributes::of(&[$(AttributeBit::$required),*]),
                optional: Attributes::of(&[$(AttributeBit::$optional),*]),
            },
        )+];
    };
}

transitions! {
    Rc Reset -> Init: [Access Pkey] [CurState];
    Rc Init -> Init: [] [Access Pkey CurState];
    Rc Init -> Rtr: [Av PathMtu DestQpn RqPsn MaxDestRdAtomic MinRnrTimer] [Access Pkey Sport CurState Selective];
    Rc Rtr -> Rts: [SqPsn Timeout RetryCnt RnrRetry MaxRdAtomic] [Access MinRnrTimer CurState];
    Rc Rts -> Rts: [] [Access MinRnrTimer CurState];
    Rc Rts -> Sqd: [] [SqdEvent CurState];
    Rc Sqd -> Rts: [] [Access MinRnrTimer CurState];
    Rc Sqd -> Sqd: [] [Access Pkey Av Timeout RetryCnt RnrRetry MinRnrTimer MaxRdAtomic MaxDestRdAtomic Sport CurState];

    Uc Reset -> Init: [Access Pkey] [CurState];
    Uc Init -> Init: [] [Access Pkey CurState];
    Uc Init -> Rtr: [Av PathMtu DestQpn RqPsn] [Access Pkey Sport CurState];
    Uc Rtr -> Rts: [SqPsn] [Access CurState];
    Uc Rts -> Rts: [] [Access CurState];
    Uc Rts -> Sqd: [] [SqdEvent CurState];
    Uc Sqd -> Rts: [] [Access CurState];
    Uc Sqd -> Sqd: [] [Access Pkey Av Sport CurState];
    Uc Sqe -> Rts: [] [Access CurState];

    Ud Reset -> Init: [Pkey Qkey] [CurState];
    Ud Init -> Init: [] [Pkey Qkey CurState];
    Ud Init -> Rtr: [] [Pkey Qkey CurState];
    Ud Rtr -> Rts: [SqPsn] [Qkey Sport CurState];
    Ud Rts -> Rts: [] [Qkey CurState];
    Ud Rts -> Sqd: [] [SqdEvent CurState];
    Ud Sqd -> Rts: [] [Qkey CurState];
    Ud Sqd -> Sqd: [] [Pkey Qkey Sport CurState];
    Ud Sqe -> Rts: [] [Qkey CurState];

    Raw Reset -> Init: [] [CurState];
    Raw Init -> Init: [] [CurState];
    Raw Init -> Rtr: [] [CurState];
    Raw Rtr -> Rts: [] [CurState];
    Raw Rts -> Rts: [] [CurState];
    Raw Rts -> Sqd: [] [SqdEvent CurState];
    Raw Sqd -> Rts: [] [CurState];
    Raw Sqd -> Sqd: [] [CurState];
    Raw Sqe -> Rts: [] [CurState];
}

/// The transition, if it is legal.
pub const fn transition(service: Service, from: QpState, to: QpState) -> Option<Transition> {
    let to_error = matches!(to, QpState::Err) && !matches!(from, QpState::Reset);
    if matches!(to, QpState::Reset) || to_error {
        let optional = Attributes::of(&[AttributeBit::CurState]);
        return Some(Transition { service, from, to, required: Attributes::NONE, optional });
    }
    let mut i = 0;
    while i < TRANSITIONS.len() {
        let t = TRANSITIONS[i];
        if t.service as u8 == service as u8 && t.from as u8 == from as u8 && t.to as u8 == to as u8 {
            return Some(t);
        }
        i += 1;
    }
    None
}

/// Check what `MODIFY_QP` asks for.
///
/// # Errors
/// Names the first thing wrong: the transition, then attributes missing, then attributes not allowed.
pub const fn check(
    service: Service,
    from: QpState,
    to: QpState,
    given: Attributes,
) -> Result<Transition, TransitionError> {
    let Some(t) = transition(service, from, to) else {
        return Err(TransitionError::Illegal { from, to });
    };
    let missing = t.required.without(given);
    if !missing.is_empty() {
        return Err(TransitionError::Missing(missing));
    }
    let extra = given.without(t.required).without(t.optional);
    if !extra.is_empty() {
        return Err(TransitionError::NotAllowed(extra));
    }
    Ok(t)
}
