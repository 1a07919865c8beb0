// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the declarations of the C ABI.
//!
//! `abi/measure.sh` writes what they compare with.

mod c_header;
mod c_source;
mod facts;
mod layout;
mod symbols;
