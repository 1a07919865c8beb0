// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Error`]: what was tried, what offends, and what to do about it.

use std::fmt;
use std::time::Duration;

use ferrowire_spec::qp_state::{QpState, TransitionError};
use ferrowire_spec::queue::{CommandAttribute, CommandOpcode, CommandStatus};

use crate::bus::BusError;

/// A code that the card wrote: one that the tables name, or another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coded<T> {
    /// A value of the table.
    Known(T),
    /// A value that the table does not have.
    Unknown(u8),
}

impl<T> Coded<T> {
    /// The value, if the table has it.
    pub fn known(self) -> Option<T> {
        match self {
            Coded::Known(value) => Some(value),
            Coded::Unknown(_) => None,
        }
    }
}

impl<T: TryFrom<u8>> From<u8> for Coded<T> {
    fn from(code: u8) -> Self {
        T::try_from(code).map_or(Coded::Unknown(code), Coded::Known)
    }
}

impl<T: PartialEq> PartialEq<T> for Coded<T> {
    fn eq(&self, other: &T) -> bool {
        matches!(self, Coded::Known(value) if value == other)
    }
}

impl<T: fmt::Display> fmt::Display for Coded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Coded::Known(value) => value.fmt(f),
            Coded::Unknown(code) => write!(f, "unknown code {code:#04x}"),
        }
    }
}

/// What a verb can fail with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bus failed.
    #[error(transparent)]
    Bus(#[from] BusError),

    /// The device is none of ours.
    #[error(
        "open: magic register reads {found:#010x}, a Ferrowire card has {expected:#010x}; \
         choose another device, or load the bitstream"
    )]
    NotFerrowire {
        /// What the register held.
        found: u32,
        /// What it should hold.
        expected: u32,
    },

    /// The card has another major version.
    #[error(
        "open: the card has version {card}, this driver knows {driver}; use a driver of the card's version"
    )]
    UnknownVersion {
        /// Major version of the card.
        card: u16,
        /// Major version of the driver.
        driver: u16,
    },

    /// The card was built from other tables.
    #[error(
        "open: the card has layout hash {card:#018x}, this driver knows {driver:#018x}; \
         build card and driver from one revision"
    )]
    UnknownLayout {
        /// Hash that the card holds.
        card: u64,
        /// Hash of the tables that the driver was built with.
        driver: u64,
    },

    /// The card did not come up, or did not answer a command, in time.
    #[error("{operation}: no answer from the card after {after:?}; open it again, which resets it")]
    Timeout {
        /// What was waited for.
        operation: &'static str,
        /// For how long.
        after: Duration,
    },

    /// The card did not answer in time, for host memory had refused a write of it.
    #[error("{operation}: no answer from the card after {after:?}: {fault}")]
    WriteFault {
        /// What was waited for.
        operation: &'static str,
        /// For how long.
        after: Duration,
        /// What was refused.
        fault: crate::WriteFault,
    },

    /// After a time-out or a fatal error, the card takes no command until it is opened again.
    #[error("{operation}: the command queue has failed before; drop the context and open the card again")]
    CommandQueueFailed {
        /// The command that was not given.
        operation: CommandOpcode,
    },

    /// Commands of other threads took all places of the command ring in all that time. The command was not given.
    #[error(
        "{operation}: no place in the command ring for {after:?}; call again, from fewer threads at a time"
    )]
    CommandQueueBusy {
        /// The command that was not given.
        operation: CommandOpcode,
        /// For how long it waited.
        after: Duration,
    },

    /// The card answered a command that is not in progress.
    #[error(
        "{operation}: a completion has token {found:#06x}, and no command in progress has that; \
         the card is broken, open it again"
    )]
    CommandToken {
        /// The command that was being given, or whose answer was looked for.
        operation: CommandOpcode,
        /// Token of the completion.
        found: u16,
    },

    /// The card refused a command.
    #[error("{operation} of {object:#x}: {status}, attribute {attribute}, value {value:#x}; {}", fix(.status))]
    Command {
        /// The command.
        operation: CommandOpcode,
        /// The object that it was about.
        object: u32,
        /// Why.
        status: Coded<CommandStatus>,
        /// The attribute that offends.
        attribute: Coded<CommandAttribute>,
        /// What the card said about it.
        value: u64,
    },

    /// An attribute has a value that the command or the card cannot take.
    #[error("{operation}: {attribute} is {value:#x}; {fix}")]
    Attribute {
        /// The verb.
        operation: &'static str,
        /// The attribute.
        attribute: &'static str,
        /// Its value.
        value: u64,
        /// What to do.
        fix: String,
    },

    /// A queue pair cannot go there, or not with these attributes.
    #[error("modify queue pair {qpn:#x} from {from} to {to}: {source}; {}", transition_fix(.source))]
    Transition {
        /// The queue pair.
        qpn: u32,
        /// Its state.
        from: QpState,
        /// The state asked for.
        to: QpState,
        /// What is wrong.
        source: TransitionError,
    },

    /// A table of the card is full.
    #[error(
        "{operation}: none of the card's {limit} {what} is left; destroy some, or use a larger configuration"
    )]
    NoResource {
        /// The verb.
        operation: &'static str,
        /// What there is none of.
        what: &'static str,
        /// How many the card has.
        limit: u64,
    },

    /// Others still use the object. It is destroyed when the last of them is.
    #[error("destroy {what} {number:#x}: {users} more handles or objects use it; destroy these first")]
    Busy {
        /// Kind of the object.
        what: &'static str,
        /// Its number.
        number: u32,
        /// How many.
        users: usize,
    },

    /// The send queue has no room for the work request; nothing was posted.
    #[error(
        "post send to queue pair {qpn:#x}: all {size} work requests of the queue are outstanding; \
         poll the completion queue, and signal a work request now and then"
    )]
    SendQueueFull {
        /// The queue pair.
        qpn: u32,
        /// Work requests that the queue holds.
        size: usize,
    },

    /// The receive queue has no room for the receive; nothing was posted.
    #[error(
        "post receive to queue pair {qpn:#x}: all {size} receives of the queue are outstanding; \
         poll the completion queue, or create the queue pair with a larger max_recv_wr"
    )]
    RecvQueueFull {
        /// The queue pair.
        qpn: u32,
        /// Receives that the queue holds.
        size: usize,
    },

    /// A shared receive queue has no room for the receive; nothing was posted.
    #[error(
        "post receive to shared receive queue {srqn:#x}: of its {size} receives the oldest and all behind it are outstanding; \
         poll the completion queues, move queue pairs whose peers are silent to ERR, or create it with a larger max_wr"
    )]
    SharedQueueFull {
        /// The shared receive queue.
        srqn: u32,
        /// Receives that the queue holds.
        size: usize,
    },

    /// Objects of different protection domains or cards were put together.
    #[error("{operation}: {what} belongs to another {of}; take both from one")]
    Foreign {
        /// The verb.
        operation: &'static str,
        /// The object.
        what: &'static str,
        /// `card` or `protection domain`.
        of: &'static str,
    },

    /// A completion found no room in its queue.
    #[error(
        "poll: completion queue {cqn:#x} with {entries} entries was overrun: completions are lost, and their queue pairs are in \
         error; destroy these and the queue, and make one with room for all that may complete before it is polled"
    )]
    CqOverrun {
        /// The completion queue.
        cqn: u32,
        /// Its size.
        entries: u32,
    },

    /// The card reported the completion of something that was not outstanding.
    #[error(
        "poll: completion for WQE {wqe_index} of queue pair {qpn:#x}, which is not outstanding; \
         the card is broken, open it again"
    )]
    UnexpectedCompletion {
        /// Queue pair in the CQE.
        qpn: u32,
        /// Index in the CQE.
        wqe_index: u16,
    },

    /// The operating system gave no random numbers.
    #[error("random numbers: {0}; open the context with a seed only in tests")]
    Random(String),
}

/// What verbs return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What to do about a command that the card refused.
fn fix(status: &Coded<CommandStatus>) -> &'static str {
    use CommandStatus as S;
    match status {
        Coded::Known(status) => match status {
            S::Ok => "nothing is wrong",
            S::BadOpcode => "this card does not have the command; see its features",
            S::BadObject => {
                "the object exists already or not at all; open the card again if others use it too"
            }
            S::BadState => "bring the object to a state that allows the command",
            S::BadTransition => "query the state, then go by a legal transition",
            S::BadAttribute => "give the attribute a value in the card's limits, or leave it out",
            S::BadKey => "the key was given back before; register the memory again",
            S::BadSize => "choose a size within the card's limits",
            S::BadAddress => "align the address as its table says",
            S::Busy => "destroy what uses it first",
            S::DmaError => "map the memory for the card; see the IOMMU's log",
            S::NoResource => "destroy objects of this kind, or use a larger configuration",
            S::BadReserved => "driver and card disagree on the layout; build both from one revision",
            S::BadPd => "use objects of one protection domain",
            S::Aborted => "the card was reset; open it again",
        },
        Coded::Unknown(_) => "use a driver of the card's revision",
    }
}

fn transition_fix(error: &TransitionError) -> &'static str {
    match error {
        TransitionError::Illegal { .. } => "go through the states between",
        TransitionError::Missing(_) => "set these attributes",
        TransitionError::NotAllowed(_) => "leave these attributes out",
    }
}

impl Error {
    /// A value that does not fit its field in a spec structure.
    pub(crate) fn from_spec(operation: &'static str, error: ferrowire_spec::Error) -> Self {
        match error {
            ferrowire_spec::Error::OutOfRange { field, width, value, .. } => Error::Attribute {
                operation,
                attribute: field,
                value: u64::try_from(value).unwrap_or(u64::MAX),
                fix: format!("it has {width} bits"),
            },
            other => Error::Attribute { operation, attribute: "layout", value: 0, fix: other.to_string() },
        }
    }

    /// Whether the card may have done what was asked and not said so: then it may still use the memory.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(
            self,
            Error::Timeout { .. }
                | Error::WriteFault { .. }
                | Error::CommandToken { .. }
                | Error::Bus(BusError::Gone(_) | BusError::Os { .. } | BusError::BadOffset { .. })
        )
    }
}
