// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated Ferrowire cards.

pub mod lockstep;
