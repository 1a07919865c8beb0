// SPDX-License-Identifier: MIT OR Apache-2.0
//! Templates of which blocks are made.

mod table;

pub(crate) use table::proofs as table_proofs;
pub use table::{Shape, Source, Table, Verdict, Visit};
