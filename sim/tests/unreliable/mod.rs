// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a card sends over unreliable connections and as datagrams (IBTA volume 1, 9.8), through the driver, the Verilated card and the
//! wire. Nobody need answer: the frames are read off the wire and compared with what the specification says of each message. Where
//! it matters what arrives, the peer is a card too.

mod connections;
mod datagrams;
mod drains;
mod errors;
mod general;
mod rates;
mod rig;
