// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`RejectReason`]: why a connection is refused.

/// Why a connection is refused (IBTA 12.6.7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectReason {
    /// No queue pair is left.
    NoQueuePair,
    /// No memory or other resource is left.
    NoResources,
    /// The other side did not answer in time.
    Timeout,
    /// There is no such connection.
    InvalidCommId,
    /// Nobody serves that number.
    InvalidServiceId,
    /// The transport service is not served.
    InvalidTransport,
    /// The other side still has an older connection of this queue pair.
    StaleConnection,
    /// The asked side has no such GID.
    InvalidGid,
    /// The path MTU is not.
    InvalidMtu,
    /// The program refused.
    Consumer,
    /// Another.
    Other(u16),
}

const REASONS: [(RejectReason, u16, &str); 10] = [
    (RejectReason::NoQueuePair, 1, "no queue pair is left"),
    (RejectReason::NoResources, 3, "no memory or other resource is left"),
    (RejectReason::Timeout, 4, "the answer came too late"),
    (RejectReason::InvalidCommId, 6, "there is no such connection"),
    (RejectReason::InvalidServiceId, 8, "nobody listens there"),
    (RejectReason::InvalidTransport, 9, "the transport service is not served"),
    (RejectReason::StaleConnection, 10, "an older connection of this queue pair is not forgotten there"),
    (RejectReason::InvalidGid, 12, "there is no such GID"),
    (RejectReason::InvalidMtu, 26, "the path MTU is not served"),
    (RejectReason::Consumer, 28, "the program there refused"),
];

impl RejectReason {
    /// Its number.
    pub fn code(self) -> u16 {
        match self {
            RejectReason::Other(code) => code,
            reason => REASONS.iter().find(|entry| entry.0 == reason).map_or(0, |entry| entry.1),
        }
    }
}

impl From<u16> for RejectReason {
    fn from(code: u16) -> Self {
        REASONS.iter().find(|entry| entry.1 == code).map_or(RejectReason::Other(code), |entry| entry.0)
    }
}

impl std::fmt::Display for RejectReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match REASONS.iter().find(|entry| entry.0 == *self) {
            Some((_, code, text)) => write!(f, "{text} (reason {code})"),
            None => write!(f, "reason {} of IBTA 12.6.7.2", self.code()),
        }
    }
}
