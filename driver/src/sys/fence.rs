// SPDX-License-Identifier: MIT OR Apache-2.0
//! Barriers between the processor and a device on its bus.

use std::sync::atomic::{fence, Ordering};

/// Every store to host memory before this is seen by the card before it sees a doorbell written after it.
pub fn before_doorbell() {
    // For a card that is a thread or another process, this is the barrier; for one on a bus, it keeps the
    // compiler from moving stores across.
    fence(Ordering::SeqCst);
    #[cfg(target_arch = "x86_64")]
    {
        // A BAR mapped write-combining is not ordered by the processor against ordinary stores.
        // SAFETY: SSE, part of x86-64, has the instruction; it only orders stores.
        unsafe { core::arch::x86_64::_mm_sfence() };
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: the instruction only orders stores, in the outer shareable domain, where devices are.
        unsafe { core::arch::asm!("dmb oshst", options(nostack, preserves_flags)) };
    }
}

/// No load from host memory after this is done before the load of the phase bit that came before it.
pub fn after_phase() {
    fence(Ordering::Acquire);
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: the instruction only orders loads, in the outer shareable domain, where devices are.
        unsafe { core::arch::asm!("dmb oshld", options(nostack, preserves_flags)) };
    }
}
