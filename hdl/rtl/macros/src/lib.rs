// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives and attributes of `ferrowire-rtl`.
