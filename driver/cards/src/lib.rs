// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the command `ferrowire` and the library `libibverbs.so.1` share: names of cards, how to find them, and their addresses.
//!
//! | item | content |
//! |---|---|
//! | [`Place`] | the name of a card, as `-d` takes it, and the ways to the card |
//! | [`attributes`] | what verbs say of a card and no register holds |
//! | [`find`] | simulated cards on sockets, and cards on the PCI bus |
//! | [`gids`] | IP addresses of a card, among them those that `ferrowire gids add` keeps in a file |
#![forbid(unsafe_code)]

pub mod attributes;
pub mod find;
pub mod gids;
mod place;

pub use place::{join_names, pci_address, split_names, OpenError, Place};
