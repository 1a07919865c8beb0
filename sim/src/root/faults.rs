// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Fault`]: what a root complex does wrong, or answers badly, when it is asked to.
//!
//! ```text
//!  read --> predicate --> a fault, or none --> answer
//!           probabilities
//! ```
//!
//! The predicate is asked first, then each probability in the order in which they were set; a read has one fault at most. A read of
//! memory that is not mapped is refused whatever they say.

use rand::rngs::SmallRng;
use rand::Rng as _;

/// What becomes of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is answered with UR.
    UnsupportedRequest,
    /// It is answered with CA.
    CompleterAbort,
    /// The data of one of its completions is poisoned.
    Poisoned,
    /// It is never answered.
    Lost,
    /// In front of its answer comes a completion for a tag that is not in use. Nothing comes where all tags are.
    Unexpected,
    /// The byte count of one of its completions is wrong.
    WrongByteCount,
    /// The lower address of one of its completions is wrong.
    WrongLowerAddress,
    /// The length of one of its completions is not that of its data.
    WrongLength,
    /// Its last completion comes twice, one behind the other. A card that used the tag again by then may take the second one for
    /// an answer to what it asked since: nobody can tell.
    Twice,
    /// It is answered so many cycles later.
    Late(u64),
    /// Some completions are good, then comes UR. It is cut as small as may be; where it cannot be cut, UR is all.
    StatusInTheMiddle,
}

/// A [`Fault`] without its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// See [`Fault::UnsupportedRequest`].
    UnsupportedRequest,
    /// See [`Fault::CompleterAbort`].
    CompleterAbort,
    /// See [`Fault::Poisoned`].
    Poisoned,
    /// See [`Fault::Lost`].
    Lost,
    /// See [`Fault::Unexpected`].
    Unexpected,
    /// See [`Fault::WrongByteCount`].
    WrongByteCount,
    /// See [`Fault::WrongLowerAddress`].
    WrongLowerAddress,
    /// See [`Fault::WrongLength`].
    WrongLength,
    /// See [`Fault::Twice`].
    Twice,
    /// See [`Fault::Late`].
    Late,
    /// See [`Fault::StatusInTheMiddle`].
    StatusInTheMiddle,
}

impl FaultKind {
    /// How many there are.
    pub const COUNT: usize = 11;
}

impl Fault {
    /// Which one it is.
    pub fn kind(self) -> FaultKind {
        match self {
            Fault::UnsupportedRequest => FaultKind::UnsupportedRequest,
            Fault::CompleterAbort => FaultKind::CompleterAbort,
            Fault::Poisoned => FaultKind::Poisoned,
            Fault::Lost => FaultKind::Lost,
            Fault::Unexpected => FaultKind::Unexpected,
            Fault::WrongByteCount => FaultKind::WrongByteCount,
            Fault::WrongLowerAddress => FaultKind::WrongLowerAddress,
            Fault::WrongLength => FaultKind::WrongLength,
            Fault::Twice => FaultKind::Twice,
            Fault::Late(_) => FaultKind::Late,
            Fault::StatusInTheMiddle => FaultKind::StatusInTheMiddle,
        }
    }
}

/// A read of the card, as a predicate sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadInfo {
    /// When its last beat came.
    pub cycle: u64,
    /// Which of the reads since the beginning it is.
    pub index: u64,
    /// First byte that it asks for.
    pub address: u64,
    /// Bytes, from the first one that is enabled to the last.
    pub bytes: u32,
    /// Its tag.
    pub tag: u8,
}

/// Decides what becomes of a read.
pub type Predicate = Box<dyn FnMut(&ReadInfo) -> Option<Fault> + Send>;

/// Who decides about faults.
#[derive(Default)]
pub(super) struct Plan {
    pub predicate: Option<Predicate>,
    pub rates: Vec<(Fault, f64)>,
}

impl Plan {
    pub fn choose(&mut self, read: &ReadInfo, random: &mut SmallRng) -> Option<Fault> {
        let chosen = self.predicate.as_mut().and_then(|predicate| predicate(read));
        chosen.or_else(|| {
            self.rates.iter().find(|(_, rate)| random.random_bool(*rate)).map(|(fault, _)| *fault)
        })
    }
}
