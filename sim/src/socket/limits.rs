// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the system allows the one process that serves all cards: open files and mappings.
//!
//! | a card has | files |
//! |---|---|
//! | its listener | 1 |
//! | its client, clients that wait, observers | 1 + 16 + 8 |
//! | event files of its interrupts | up to 128 |
//! | a client's own memory, which it lends | up to 4 |
//!
//! 64 cards are some 10,000 files. Many systems let a process open 1,024 unless it asks for more, and most of them give more.

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

use crate::say::say;

/// Files of a card: see above.
const FILES_OF_CARD: u64 = 160;
/// Files of the server beside them: signals, wire, traces.
const FILES: u64 = 64;

/// Mappings of a process on Linux, where the system does not say otherwise (`vm.max_map_count`).
const MAPPINGS: usize = 65_530;
/// Mappings of the server beside those of its clients: libraries, stacks, the models of cards.
const OWN_MAPPINGS: usize = 4_096;
/// Files that one client may have mapped, whatever else there is room for.
const MAPPED_FILES: usize = 1 << 14;

/// Lets this process open as many files as the system gives it, and says so if these are too few for that many cards.
pub fn raise_files(cards: usize) {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    // A system that refuses leaves what was.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).is_ok();
    let open = if raised { most } else { limit.current.unwrap_or(u64::MAX) };
    let wanted = FILES + FILES_OF_CARD * cards as u64;
    if open < wanted {
        say(format_args!(
            "this process may open {open} files; {cards} cards whose clients use all interrupts and observers take {wanted}: clients are refused when they \
             are used up. Raise the limit, as with `ulimit -n {wanted}`"
        ));
    }
}

/// Files that the client of each of `cards` cards may have mapped, so that all clients together leave the server as many mappings as it needs.
pub fn mapped_files(cards: usize) -> usize {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    share(text.trim().parse().unwrap_or(MAPPINGS), cards)
}

fn share(mappings: usize, cards: usize) -> usize {
    (mappings.saturating_sub(OWN_MAPPINGS) / cards.max(1)).clamp(1, MAPPED_FILES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clients_together_leave_room_for_the_server() {
        for cards in [1, 2, 4, 64] {
            assert!(share(MAPPINGS, cards) * cards <= MAPPINGS - OWN_MAPPINGS, "{cards} cards");
        }
        assert_eq!([1, 2].map(|cards| share(MAPPINGS, cards)), [MAPPED_FILES; 2]);
        assert!(share(MAPPINGS, 64) > 900);
        assert_eq!((share(100, 2), share(usize::MAX, 64)), (1, MAPPED_FILES));
    }
}
