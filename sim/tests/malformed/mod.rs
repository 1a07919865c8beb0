// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work requests that a broken or hostile program writes into its queues itself, past the driver: the card ends their queue pair with the
//! cause that `spec` names, and nobody else finds out. Queue pairs beside it, on the same completion queue and on another, complete
//! every message right all the while, and the cards write to no memory but that which the work requests may name.

mod receives;
mod rewrites;
mod rig;
mod sends;
