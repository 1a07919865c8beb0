// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only door to host memory: keys, page tables, and ranges cut at pages.

mod translate;

pub(crate) use translate::{next_page, to_page_end};
pub use translate::{translate, Lookup, Translation};
