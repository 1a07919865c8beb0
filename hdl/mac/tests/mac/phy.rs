// SPDX-License-Identifier: MIT OR Apache-2.0
//! The other end of the wires, in plain Rust: a PHY that brings bursts of bytes, one that takes them apart, and what IEEE 802.3 says of each burst.
//! It shares nothing with the RTL, not even the CRC.

use rand::rngs::SmallRng;
use rand::Rng;
use std::collections::VecDeque;

/// The five wires at both edges of a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wires {
    pub data_rise: u8,
    pub data_fall: u8,
    pub ctl_rise: bool,
    pub ctl_fall: bool,
}

impl Wires {
    /// One byte of the GMII, as RGMII 2.0 has it.
    pub fn of(byte: u8, valid: bool, error: bool) -> Wires {
        Wires { data_rise: byte & 15, data_fall: byte >> 4, ctl_rise: valid, ctl_fall: valid != error }
    }

    pub fn byte(self) -> u8 {
        self.data_fall << 4 | self.data_rise
    }

    pub fn error(self) -> bool {
        self.ctl_rise != self.ctl_fall
    }
}

/// The frame check sequence as it stands behind the frame.
pub fn fcs(frame: &[u8]) -> [u8; 4] {
    crc32fast::hash(frame).to_le_bytes()
}

/// The frame with its FCS.
pub fn sealed(frame: &[u8]) -> Vec<u8> {
    [frame, &fcs(frame)].concat()
}

/// The frame as a MAC sends it: padded.
pub fn padded(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// What comes while the carrier is there: bytes, and whether each is marked as an error. Then nothing for some cycles.
#[derive(Clone, Debug)]
pub struct Burst {
    pub bytes: Vec<(u8, bool)>,
    pub gap: usize,
}

impl Burst {
    /// Some preamble, the delimiter, these bytes.
    pub fn new(preamble: usize, sealed: &[u8], gap: usize) -> Burst {
        let bytes = std::iter::repeat_n(0x55, preamble).chain([0xd5]).chain(sealed.iter().copied());
        Burst { bytes: bytes.map(|byte| (byte, false)).collect(), gap }
    }
}

/// What becomes of a burst; named as the MAC's counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The frame without its FCS.
    Good(Vec<u8>),
    Bad(&'static str),
}

/// What a receiver must make of a burst.
pub fn judge(burst: &Burst, max_frame: usize) -> Verdict {
    if burst.bytes.iter().any(|(_, error)| *error) {
        return Verdict::Bad("rx_error");
    }
    let bytes: Vec<u8> = burst.bytes.iter().map(|(byte, _)| *byte).collect();
    let Some(sfd) = bytes.iter().position(|byte| *byte == 0xd5) else { return Verdict::Bad("rx_no_sfd") };
    let frame = &bytes[sfd + 1..];
    match frame.len() {
        0..64 => Verdict::Bad("rx_runt"),
        n if n > max_frame => Verdict::Bad("rx_oversize"),
        n if frame[n - 4..] != fcs(&frame[..n - 4]) => Verdict::Bad("rx_bad_fcs"),
        n => Verdict::Good(frame[..n - 4].to_vec()),
    }
}

/// What a PHY does between bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It tells its status: link, speed, duplex, from bit 0 on.
    Status(u8),
    /// Any code with RX_ER and without RX_DV, in some of the cycles (IEEE 802.3 table 35-2), else this status.
    Noise(u8),
}

/// A PHY that brings bursts.
pub struct Line {
    pub idle: Idle,
    pub bursts: VecDeque<Burst>,
    at: usize,
    gap: usize,
    /// Cycles since the last carrier.
    pub quiet_for: usize,
}

impl Line {
    pub fn new() -> Line {
        Line { idle: Idle::Status(0b1101), bursts: VecDeque::new(), at: 0, gap: 20, quiet_for: 0 }
    }

    /// Whether all has been brought, some time ago.
    pub fn is_done(&self) -> bool {
        self.bursts.is_empty() && self.quiet_for > 200
    }

    /// The next cycle's wires.
    pub fn next(&mut self, rng: &mut SmallRng) -> Wires {
        if self.gap > 0 || self.bursts.is_empty() {
            self.gap = self.gap.saturating_sub(1);
            self.quiet_for += 1;
            return match self.idle {
                Idle::Noise(_) if rng.random_bool(0.3) => Wires::of(rng.random(), false, true),
                Idle::Status(status) | Idle::Noise(status) => Wires::of(status << 4 | status, false, false),
            };
        }
        let burst = &self.bursts[0];
        let (byte, error) = burst.bytes[self.at];
        self.at += 1;
        self.quiet_for = 0;
        if self.at == burst.bytes.len() {
            (self.at, self.gap) = (0, burst.gap);
            self.bursts.pop_front();
        }
        Wires::of(byte, true, error)
    }
}

/// What was sent between two gaps.
#[derive(Clone, Debug)]
pub struct Seen {
    pub burst: Burst,
    /// Cycles without a carrier before it.
    pub gap_before: usize,
}

/// A PHY that listens.
#[derive(Default)]
pub struct Tap {
    pub seen: Vec<Seen>,
    bytes: Vec<(u8, bool)>,
    idle: usize,
    gap_before: usize,
}

impl Tap {
    pub fn see(&mut self, wires: Wires) {
        if wires.ctl_rise {
            if self.bytes.is_empty() {
                self.gap_before = std::mem::take(&mut self.idle);
            }
            self.bytes.push((wires.byte(), wires.error()));
            return;
        }
        assert!(!wires.error(), "TX_ER without TX_EN");
        self.idle += 1;
        if !self.bytes.is_empty() {
            let burst = Burst { bytes: std::mem::take(&mut self.bytes), gap: 0 };
            self.seen.push(Seen { burst, gap_before: self.gap_before });
        }
    }

    /// Bytes of the carrier that is there.
    pub fn under_way(&self) -> usize {
        self.bytes.len()
    }

    /// Cycles since the last carrier.
    pub fn quiet_for(&self) -> usize {
        match self.bytes.is_empty() {
            true => self.idle,
            false => 0,
        }
    }

    /// All frames so far, each as it must be: a whole preamble, a right FCS, the shortest gap or more. `gaps` gets their gaps.
    pub fn frames(&self, max_frame: usize) -> (Vec<Vec<u8>>, Vec<usize>) {
        let mut frames = Vec::new();
        for (i, Seen { burst, gap_before }) in self.seen.iter().enumerate() {
            let head: Vec<u8> = burst.bytes.iter().take(8).map(|(byte, _)| *byte).collect();
            assert_eq!(head, [0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0xd5], "frame {i}");
            assert!(i == 0 || *gap_before >= 12, "frame {i}: a gap of {gap_before} bytes");
            match judge(burst, max_frame) {
                Verdict::Good(frame) => frames.push(frame),
                bad => panic!("frame {i}: {bad:?}"),
            }
        }
        (frames, self.seen.iter().map(|seen| seen.gap_before).collect())
    }
}

/// Random bytes.
pub fn random_bytes(rng: &mut SmallRng, n: usize) -> Vec<u8> {
    let mut bytes = vec![0; n];
    rng.fill(&mut bytes[..]);
    bytes
}

/// A length of a frame without its FCS: mostly small, sometimes at an edge, sometimes any up to the longest.
pub fn random_length(rng: &mut SmallRng, max_frame: usize) -> usize {
    match rng.random_range(0..20) {
        0 => 60,
        1 => rng.random_range(max_frame - 80..=max_frame - 4),
        2 => rng.random_range(60..=max_frame - 4),
        3..6 => rng.random_range(60..1515),
        _ => rng.random_range(60..200),
    }
}

/// A burst of any kind, good ones half of the time.
pub fn random_burst(rng: &mut SmallRng, max_frame: usize) -> Burst {
    let n = random_length(rng, max_frame);
    let mut frame = sealed(&random_bytes(rng, n));
    let preamble = match rng.random_range(0..6) {
        0 => rng.random_range(0..7),
        1 => rng.random_range(8..40),
        _ => 7,
    };
    let gap = match rng.random_range(0..4) {
        0 => rng.random_range(1..12),
        1 => rng.random_range(13..200),
        _ => 12,
    };
    let kind = rng.random_range(0..16);
    match kind {
        // A bit of it is wrong.
        0 | 1 => {
            let at = rng.random_range(0..frame.len());
            frame[at] ^= 1 << rng.random_range(0..8);
        }
        // Its end is missing, or it never was longer.
        2 => frame.truncate(rng.random_range(0..64)),
        3 => {
            let n = rng.random_range(0..60);
            frame = sealed(&random_bytes(rng, n));
        }
        4 => {
            let n = max_frame - 4 + rng.random_range(1..40);
            frame = sealed(&random_bytes(rng, n));
        }
        _ => {}
    }
    let mut burst = Burst::new(preamble, &frame, gap);
    match kind {
        // An error in its midst, in its first byte or its last.
        5 | 6 => {
            let last = burst.bytes.len() - 1;
            let at =
                [0, last, rng.random_range(0..=last), rng.random_range(0..=last)][rng.random_range(0..4)];
            burst.bytes[at] = (rng.random(), true);
        }
        // No delimiter, at least where it should be.
        7 => burst.bytes[preamble].0 ^= 1 << rng.random_range(0..8),
        // Next to nothing.
        8 => {
            let n = rng.random_range(1..6);
            burst.bytes = random_bytes(rng, n).into_iter().map(|byte| (byte, false)).collect();
        }
        _ => {}
    }
    burst
}
