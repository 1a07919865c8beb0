// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with an endpoint that is written from the standard as well.

mod cpu;
mod endpoint;
mod faults;
mod ordering;
mod traffic;
mod violations;
