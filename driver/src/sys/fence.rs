// SPDX-License-Identifier: MIT OR Apache-2.0
//! Barriers between the processor and a device on its bus.

use std::sync::atomic::{fence, Ordering};

/// Every store to host memory before this is seen by the card before it sees a doorbell written after it: one that is a message, or a store into
/// a BAR that is mapped uncached. On x86-64, which keeps such stores in their order, it costs nothing.
#[inline]
pub fn before_doorbell() {
    // For a card that is a thread or another process, this is the barrier.
    fence(Ordering::Release);
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: the instruction only orders stores, in the outer shareable domain, where devices are.
        unsafe { core::arch::asm!("dmb oshst", options(nostack, preserves_flags)) };
    }
    #[cfg(target_arch = "riscv64")]
    {
        // SAFETY: the instruction only orders stores to memory before stores to devices.
        unsafe { core::arch::asm!("fence w, o", options(nostack, preserves_flags)) };
    }
}

/// The same for a BAR that is mapped write-combining, which the processor does not order against ordinary stores. After the doorbell, it sends
/// what is held back to be combined.
#[inline]
pub(super) fn around_combined_doorbell() {
    before_doorbell();
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: SSE, part of x86-64, has the instruction; it only orders stores.
        unsafe { core::arch::x86_64::_mm_sfence() };
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: the instruction only waits until stores are done, those to normal non-cacheable memory among them.
        unsafe { core::arch::asm!("dsb st", options(nostack, preserves_flags)) };
    }
    #[cfg(target_arch = "riscv64")]
    {
        // SAFETY: the instruction only orders stores.
        unsafe { core::arch::asm!("fence ow, ow", options(nostack, preserves_flags)) };
    }
}

/// No load from host memory after this is done before the load of the phase bit that came before it.
#[inline]
pub fn after_phase() {
    fence(Ordering::Acquire);
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: the instruction only orders loads, in the outer shareable domain, where devices are.
        unsafe { core::arch::asm!("dmb oshld", options(nostack, preserves_flags)) };
    }
}
