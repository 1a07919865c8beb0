// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIGINT, SIGTERM and SIGHUP: noted here, and looked for wherever something takes long, so that queue pairs are destroyed and cards reset.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Once;

use crate::failure::Failure;

static STOPPED: AtomicBool = AtomicBool::new(false);

/// From now on a signal is noted; a second one ends the process.
pub fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Where signals cannot be caught they end the process, as they would anyway.
        let _ = ctrlc::set_handler(|| {
            if STOPPED.swap(true, Ordering::Relaxed) {
                std::process::exit(1);
            }
        });
    });
}

/// Whether a signal has come.
pub fn stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// Ends what is going on when a signal has come.
pub fn check() -> Result<(), Failure> {
    match stopped() {
        true => Err(Failure::Stopped),
        false => Ok(()),
    }
}
