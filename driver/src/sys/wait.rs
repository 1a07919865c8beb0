// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for event files.

use std::io::Error;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::{read, Errno};

/// The system's monotonic clock, from its first use on. No thread waits for another one here: a forked child would not have that one.
pub(crate) fn monotonic() -> Duration {
    static START: AtomicPtr<Instant> = AtomicPtr::new(ptr::null_mut());
    let mut start = START.load(Ordering::Acquire);
    if start.is_null() {
        let own = Box::into_raw(Box::new(Instant::now()));
        start = match START.compare_exchange(ptr::null_mut(), own, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => own,
            Err(other) => {
                // SAFETY: it was made just now, and nothing else has it.
                drop(unsafe { Box::from_raw(own) });
                other
            }
        };
    }
    // SAFETY: what is kept there is never freed.
    unsafe { *start }.elapsed()
}

/// Waits until `file` can be read, or `timeout` is over. Whether it can; a signal may end the wait early.
///
/// # Errors
/// The system's.
pub fn wait_readable(file: BorrowedFd<'_>, timeout: Duration) -> Result<bool, Error> {
    let mut files = [PollFd::from_borrowed_fd(file, PollFlags::IN)];
    // A time that the system cannot count to is for ever.
    let timeout = Timespec::try_from(timeout).ok();
    match poll(&mut files, timeout.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// The same, which ends with an error when `lifeline` hangs up meanwhile.
///
/// # Errors
/// `BrokenPipe` when it does; the system's.
pub fn wait_with(
    file: BorrowedFd<'_>,
    lifeline: Option<BorrowedFd<'_>>,
    timeout: Duration,
) -> Result<bool, Error> {
    let Some(lifeline) = lifeline else { return wait_readable(file, timeout) };
    let mut files = [
        PollFd::from_borrowed_fd(file, PollFlags::IN),
        // The system tells of its end in any case.
        PollFd::from_borrowed_fd(lifeline, PollFlags::empty()),
    ];
    let timeout = Timespec::try_from(timeout).ok();
    match poll(&mut files, timeout.as_ref()) {
        Ok(_) if files[0].revents().contains(PollFlags::IN) => Ok(true),
        Ok(0) | Err(Errno::INTR) => Ok(false),
        Ok(_) => Err(Error::new(
            std::io::ErrorKind::BrokenPipe,
            "the card has hung up; start its server again, and open the card anew",
        )),
        Err(errno) => Err(errno.into()),
    }
}

/// Takes what an event file counts, which does not wait when it is read.
///
/// # Errors
/// The system's.
pub fn drain(file: BorrowedFd<'_>) -> Result<(), Error> {
    match read(file, &mut [0; 8]) {
        Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::event::{eventfd, EventfdFlags};

    use super::*;

    #[test]
    fn a_file_is_readable_until_it_is_drained() {
        let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        assert!(!wait_readable(file.as_fd(), Duration::from_millis(1)).unwrap());
        rustix::io::write(&file, &2u64.to_ne_bytes()).unwrap();
        assert!(wait_readable(file.as_fd(), Duration::MAX).unwrap());
        drain(file.as_fd()).unwrap();
        drain(file.as_fd()).unwrap();
        assert!(!wait_readable(file.as_fd(), Duration::ZERO).unwrap());
    }

    #[test]
    fn a_wait_ends_when_the_lifeline_hangs_up_and_not_before_what_has_come() {
        let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let wait = |timeout| wait_with(file.as_fd(), Some(near.as_fd()), timeout);
        assert!(!wait(Duration::from_millis(1)).unwrap());
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| wait(Duration::from_secs(60)));
            drop(far);
            assert_eq!(sleeper.join().unwrap().unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
        });
        rustix::io::write(&file, &1u64.to_ne_bytes()).unwrap();
        assert!(wait(Duration::MAX).unwrap());
        assert!(wait_with(file.as_fd(), None, Duration::MAX).unwrap());
    }
}
