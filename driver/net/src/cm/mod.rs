// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cm.

pub mod machine;
