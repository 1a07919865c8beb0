// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with a manager that is written from the standard as well.

mod cpu;
mod faults;
mod manager;
mod ordering;
mod traffic;
mod violations;
