// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Cables`]: those of all cards, which are pulled and put back: cards are told that their link is down, and later that it is up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::cards::Cards;
use crate::wire::TimedFilter;

/// The cables of all cards of a server.
#[derive(Debug, Default)]
pub struct Cables {
    /// Nothing comes through.
    pulled: Arc<AtomicBool>,
}

impl Cables {
    /// One direction of a cable, which else does what `carries` says.
    pub fn filter(&self, mut carries: TimedFilter) -> TimedFilter {
        let pulled = self.pulled.clone();
        Box::new(move |frame| if pulled.load(Ordering::Relaxed) { Vec::new() } else { carries(frame) })
    }

    /// Pulls all of them, or puts them back. What is to be told.
    pub fn toggle(&mut self, cards: &mut impl Cards) -> &'static str {
        // All of this is in one thread.
        let up = self.pulled.load(Ordering::Relaxed);
        self.pulled.store(!up, Ordering::Relaxed);
        cards.set_link(up);
        cards.wake();
        match up {
            true => "the links of all cards are up",
            false => "the links of all cards are down, until the next SIGUSR2",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated::Fabric;
    use crate::socket::Engines;
    use crate::wire::Delivery;

    #[test]
    fn nothing_comes_through_a_cable_that_is_pulled() {
        let mut cards = Engines::new(Fabric::pair());
        let mut cables = Cables::default();
        let mut way = cables.filter(Box::new(|frame| vec![Delivery::at_once(frame.to_vec())]));
        for up in [true, false, true] {
            assert_eq!(way(&[1, 2, 3]).len(), usize::from(up));
            cables.toggle(&mut cards);
        }
    }
}
