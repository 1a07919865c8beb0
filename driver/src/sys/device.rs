// SPDX-License-Identifier: MIT OR Apache-2.0
//! The instructions that reach a device's registers: the one primitive of the driver that Rust's memory model does not describe.
//!
//! A register is no memory: a store of it means something each time, in its width, and nothing may merge, split or repeat it. That is more than
//! an atomic access promises and other than what a volatile one does, which races with accesses of other threads if a card is one of these.
//! So each access is one instruction in inline assembly, which the compiler keeps as it is:
//!
//! - On a BAR it is the access of the register, as the hardware defines it.
//! - On memory of this process, which [`HostMemory::as_bar`](super::HostMemory::as_bar) makes a BAR of, it does what a relaxed atomic access of its width does, and is
//!   that for the memory model: inline assembly may do what Rust code could do in its place. There only [`store64`] is used, on aligned
//!   words that all others access by atomics of 8 bytes too.
//!
//! Neither the compiler nor this code moves an access before a store that comes earlier in the program: inline assembly without `nomem` may
//! look at all memory. What the processor may move is the business of [`before_doorbell`](super::before_doorbell).

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
compile_error!("the driver reaches registers on x86_64, aarch64 and riscv64; add the instructions of this processor to driver/src/sys/device.rs");

use core::arch::asm;

/// One store of 8 bytes.
///
/// # Safety
/// `at` is a multiple of 8, and a register, or memory that is valid for atomic accesses of 8 bytes.
#[inline(always)]
pub(super) unsafe fn store64(at: *mut u64, value: u64) {
    // SAFETY: one aligned store, to what the caller answers for.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("mov qword ptr [{at}], {value}", at = in(reg) at, value = in(reg) value, options(nostack, preserves_flags))
    };
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("str {value}, [{at}]", at = in(reg) at, value = in(reg) value, options(nostack, preserves_flags))
    };
    // SAFETY: as above.
    #[cfg(target_arch = "riscv64")]
    unsafe {
        asm!("sd {value}, 0({at})", at = in(reg) at, value = in(reg) value, options(nostack, preserves_flags))
    };
}

/// One store of 4 bytes.
///
/// # Safety
/// `at` is a multiple of 4, and a register.
#[inline(always)]
pub(super) unsafe fn store32(at: *mut u32, value: u32) {
    // SAFETY: one aligned store, to what the caller answers for.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("mov dword ptr [{at}], {value:e}", at = in(reg) at, value = in(reg) value, options(nostack, preserves_flags))
    };
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("str {value:w}, [{at}]", at = in(reg) at, value = in(reg) value, options(nostack, preserves_flags))
    };
    // SAFETY: as above.
    #[cfg(target_arch = "riscv64")]
    unsafe {
        asm!("sw {value}, 0({at})", at = in(reg) at, value = in(reg) value, options(nostack, preserves_flags))
    };
}

/// One load of 4 bytes.
///
/// # Safety
/// `at` is a multiple of 4, and a register.
#[inline(always)]
pub(super) unsafe fn load32(at: *const u32) -> u32 {
    let value: u32;
    // SAFETY: one aligned load, of what the caller answers for.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("mov {value:e}, dword ptr [{at}]", at = in(reg) at, value = out(reg) value, options(nostack, preserves_flags))
    };
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("ldr {value:w}, [{at}]", at = in(reg) at, value = out(reg) value, options(nostack, preserves_flags))
    };
    // SAFETY: as above.
    #[cfg(target_arch = "riscv64")]
    unsafe {
        asm!("lw {value}, 0({at})", at = in(reg) at, value = out(reg) value, options(nostack, preserves_flags))
    };
    value
}
