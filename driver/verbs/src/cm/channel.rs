// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Events`]: event channels.

use std::os::fd::{AsFd as _, AsRawFd as _};

use ferrowire_net::rdma::Channel;

use super::{failure, Process};
use crate::abi::*;
use crate::failure::{pointer, report, Result};
use crate::raw::{object, Raw};

/// An event channel. Identifiers hold the queue in it, too.
#[repr(C)]
pub struct Events {
    base: Raw<rdma_event_channel>,
    /// Events that the program has not taken; its file is `fd`.
    pub queue: Channel,
    /// Who made it.
    pub(super) process: Process,
}

object!(Events, rdma_event_channel);

impl Events {
    /// A new one.
    pub fn create() -> Result<*mut rdma_event_channel> {
        let queue = Channel::new().map_err(failure)?;
        let base = rdma_event_channel { fd: queue.as_fd().as_raw_fd() };
        Ok(Box::new(Self { base: Raw::new(base), queue, process: Process::this() }).give())
    }

    /// Ends one.
    ///
    /// # Safety
    /// The channel lives, and is not used any more.
    pub unsafe fn destroy(channel: *mut rdma_event_channel) -> Result<()> {
        // SAFETY: as promised.
        unsafe { Events::of(channel) }.process.check()?;
        // SAFETY: as promised.
        drop(unsafe { Events::back(channel) });
        Ok(())
    }
}

/// Creates an event channel. It needs no card.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_create_event_channel() -> *mut rdma_event_channel {
    pointer("rdma_create_event_channel", Events::create())
}

/// Destroys an event channel, after its identifiers.
///
/// # Safety
/// The channel lives, and is not used any more.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    if channel.is_null() {
        return;
    }
    // SAFETY: as promised.
    if let Err(failure) = unsafe { Events::destroy(channel) } {
        report("rdma_destroy_event_channel", &failure);
    }
}

const _: cma_functions::rdma_create_event_channel = ferrowire_rdma_create_event_channel;
const _: cma_functions::rdma_destroy_event_channel = ferrowire_rdma_destroy_event_channel;
