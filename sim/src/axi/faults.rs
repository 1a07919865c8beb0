// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Fault`]: what a subordinate answers badly, when it is asked to.
//!
//! The predicate is asked first, then each probability in the order in which they were set; an access has one fault at most. One of
//! memory that is not mapped gets DECERR whatever they say.

use rand::rngs::SmallRng;
use rand::Rng as _;

use super::channel::Response;

/// What becomes of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Every beat of a read has this response, and no data; a write is not done.
    Whole(Response),
    /// One beat of a read has it, or the last one if there are not so many; a write is not done.
    Beat(usize, Response),
}

impl Fault {
    /// The response that it puts.
    pub fn response(self) -> Response {
        match self {
            Fault::Whole(response) | Fault::Beat(_, response) => response,
        }
    }

    /// Whether it hits a beat of so many.
    pub(super) fn hits(self, beat: usize, beats: usize) -> bool {
        match self {
            Fault::Whole(_) => true,
            Fault::Beat(bad, _) => beat == bad.min(beats - 1),
        }
    }
}

/// An access of the manager, as a predicate sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessInfo {
    /// When its address had come; of a write, all of its data too.
    pub cycle: u64,
    /// A write rather than a read.
    pub write: bool,
    /// Which of the reads, or of the writes, since the beginning it is.
    pub index: u64,
    /// Its ID.
    pub id: u8,
    /// Its address.
    pub address: u64,
    /// Bytes from there to the end of the last beat.
    pub bytes: u64,
}

/// Decides what becomes of an access.
pub type Predicate = Box<dyn FnMut(&AccessInfo) -> Option<Fault> + Send>;

/// Who decides about faults.
#[derive(Default)]
pub(super) struct Plan {
    pub predicate: Option<Predicate>,
    /// For writes or for reads, what, how probable.
    pub rates: Vec<(bool, Fault, f64)>,
}

impl Plan {
    pub fn choose(&mut self, access: &AccessInfo, random: &mut SmallRng) -> Option<Fault> {
        let chosen = self.predicate.as_mut().and_then(|predicate| predicate(access));
        chosen.or_else(|| {
            let mut rates = self.rates.iter().filter(|(write, ..)| *write == access.write);
            rates.find(|(.., rate)| random.random_bool(*rate)).map(|(_, fault, _)| *fault)
        })
    }
}
