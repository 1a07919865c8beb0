// SPDX-License-Identifier: MIT OR Apache-2.0
//! The syndrome of an AETH: acknowledgement with credits, RNR NAK with a timer, or NAK with a code.

crate::table::codes! {
    /// Reason of a NAK, bits 4:0 of its syndrome (IBTA 9.7.5.2.8, table 47).
    enum NakCode, "nak_code";
    /// PSN sequence error: packets are missing before this one.
    SequenceError = 0, "PSN_SEQUENCE_ERROR";
    /// Invalid request.
    InvalidRequest = 1, "INVALID_REQUEST";
    /// Remote access error: key, protection domain, rights or bounds.
    RemoteAccess = 2, "REMOTE_ACCESS_ERROR";
    /// Remote operational error: the responder failed while executing.
    RemoteOperational = 3, "REMOTE_OPERATIONAL_ERROR";
}

/// An AETH syndrome (IBTA 9.7.5.1, 9.7.5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// Acknowledgement with a credit code, see [`credits`].
    Ack {
        /// 0 to 31.
        credit: u8,
    },
    /// Receiver not ready, with a timer code, see [`rnr_timer_us`].
    Rnr {
        /// 0 to 31.
        timer: u8,
    },
    /// Negative acknowledgement.
    Nak(NakCode),
    /// Any other value, kept as it is.
    Reserved(u8),
}

/// Credit code that says the count is not valid: no end-to-end flow control.
pub const CREDIT_INVALID: u8 = 31;

impl Syndrome {
    /// Acknowledgement without a credit count.
    pub const ACK: Syndrome = Syndrome::Ack { credit: CREDIT_INVALID };

    /// From the byte on the wire.
    pub const fn decode(byte: u8) -> Syndrome {
        let low = byte & 0x1f;
        match byte >> 5 {
            0 => Syndrome::Ack { credit: low },
            1 => Syndrome::Rnr { timer: low },
            3 => match NakCode::from_code(low) {
                Some(code) => Syndrome::Nak(code),
                None => Syndrome::Reserved(byte),
            },
            _ => Syndrome::Reserved(byte),
        }
    }

    /// To the byte on the wire. Codes are five bits; higher ones are cut off.
    pub const fn encode(self) -> u8 {
        match self {
            Syndrome::Ack { credit } => credit & 0x1f,
            Syndrome::Rnr { timer } => 0x20 | (timer & 0x1f),
            Syndrome::Nak(code) => 0x60 | code.code(),
            Syndrome::Reserved(byte) => byte,
        }
    }
}

/// Receive WQEs that a credit code stands for, codes 0 to 30 (IBTA 9.7.7.2, table 48).
pub const CREDITS: [u16; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
    4096, 6144, 8192, 12288, 16384, 24576, 32768,
];

/// Receive WQEs that a credit code stands for; `None` for [`CREDIT_INVALID`] and beyond.
pub const fn credits(code: u8) -> Option<u16> {
    if (code as usize) < CREDITS.len() {
        Some(CREDITS[code as usize])
    } else {
        None
    }
}

/// The code of the largest credit that `receives` WQEs cover.
pub const fn credit_code(receives: u32) -> u8 {
    let mut code = CREDITS.len() - 1;
    while CREDITS[code] as u32 > receives {
        code -= 1;
    }
    code as u8
}

/// RNR NAK timer in microseconds, by its code (IBTA 9.7.5.2.8, table 46). Code 0 is the longest.
pub const RNR_TIMER_US: [u32; 32] = [
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840, 5_120,
    7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760, 327_680,
    491_520,
];

/// RNR NAK timer in microseconds; only the low five bits of the code count.
pub const fn rnr_timer_us(code: u8) -> u32 {
    RNR_TIMER_US[(code & 0x1f) as usize]
}

/// Shortest time in nanoseconds before a missing acknowledgement is a time-out; `None` for code 0: never.
/// The longest is four times that (IBTA 9.7.6.1.3). Only the low five bits of the code count.
pub const fn ack_timeout_ns(code: u8) -> Option<u64> {
    match code & 0x1f {
        0 => None,
        n => Some(4096 << n),
    }
}
