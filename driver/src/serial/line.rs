// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Line`]: bytes to a board and from it. [`Tty`] is a serial port of this machine.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd as _, RawFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{flock, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{
    ioctl_tiocexcl, tcflush, tcgetattr, tcsetattr, ControlModes, OptionalActions, QueueSelector,
};

use super::error::SerialError;
use crate::sys::wait_readable;

/// A way for bytes in both directions. What it loses or breaks, the protocol repairs.
pub trait Line: Send {
    /// Gives bytes to the line; waits while it cannot take them.
    ///
    /// # Errors
    /// The line is gone.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Takes bytes that have come, and waits for them as long as `within` at most. How many: 0 when none came.
    ///
    /// # Errors
    /// The line is gone.
    fn receive(&mut self, out: &mut [u8], within: Duration) -> io::Result<usize>;

    /// The clock by which is waited, from any start. A simulated board lets its own pass in [`receive`](Self::receive).
    fn now(&self) -> Duration {
        crate::sys::monotonic()
    }

    /// The file of the line, which a forked child is not to keep.
    fn file(&self) -> Option<RawFd> {
        None
    }

    /// Cycles of the board's clock, if it is simulated.
    fn cycles(&mut self) -> Option<u64> {
        None
    }
}

impl<L: Line + ?Sized> Line for Box<L> {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        (**self).send(bytes)
    }
    fn receive(&mut self, out: &mut [u8], within: Duration) -> io::Result<usize> {
        (**self).receive(out, within)
    }
    fn now(&self) -> Duration {
        (**self).now()
    }
    fn file(&self) -> Option<RawFd> {
        (**self).file()
    }
    fn cycles(&mut self) -> Option<u64> {
        (**self).cycles()
    }
}

/// Anything that is written and read and can be waited for with `poll(2)`: a file of a serial port, a socket.
#[derive(Debug)]
pub struct Stream<T>(pub T);

impl<T: Read + Write + AsFd + Send> Line for Stream<T> {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn receive(&mut self, out: &mut [u8], within: Duration) -> io::Result<usize> {
        if !wait_readable(self.0.as_fd(), within)? {
            return Ok(0);
        }
        match self.0.read(out) {
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "it has ended")),
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => Ok(0),
            done => done,
        }
    }

    fn file(&self) -> Option<RawFd> {
        Some(self.0.as_fd().as_raw_fd())
    }
}

/// A serial port of this machine.
pub type Tty = Stream<File>;

impl Tty {
    /// Opens a port for this program alone, with 8 data bits, no parity, one stop bit and no flow control.
    ///
    /// # Errors
    /// There is no such port, it is another's, or it cannot be set so.
    pub fn open(path: &Path, baud: u32) -> Result<Self, SerialError> {
        let path_buf = || path.to_path_buf();
        let os = |operation| {
            move |errno: Errno| SerialError::Os { operation, path: path.to_path_buf(), source: errno.into() }
        };
        // Without NONBLOCK, a port waits for its carrier.
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT | Errno::NXIO | Errno::NODEV => SerialError::NoPort { path: path_buf() },
            Errno::ACCESS | Errno::PERM => SerialError::Permission { path: path_buf() },
            Errno::BUSY => SerialError::Busy { path: path_buf() },
            errno => os("open")(errno),
        })?;
        let mut modes = tcgetattr(&file).map_err(|errno| match errno {
            Errno::NOTTY | Errno::INVAL => SerialError::NotATty { path: path_buf() },
            errno => os("look at the modes of")(errno),
        })?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| match errno {
            Errno::WOULDBLOCK => SerialError::Busy { path: path_buf() },
            errno => os("lock")(errno),
        })?;
        ioctl_tiocexcl(&file).map_err(os("take"))?;
        modes.make_raw();
        modes.control_modes -= ControlModes::CSTOPB | ControlModes::PARENB | ControlModes::CRTSCTS;
        modes.control_modes |= ControlModes::CLOCAL | ControlModes::CREAD;
        modes.set_speed(baud).map_err(os("set the rate of"))?;
        tcsetattr(&file, OptionalActions::Now, &modes).map_err(os("set the modes of"))?;
        // An adapter takes the rate that is next; the board's UART follows two percent.
        let has = tcgetattr(&file).map_err(os("look at the modes of"))?.output_speed();
        if has.abs_diff(baud) > baud / 50 {
            return Err(SerialError::Baud { path: path_buf(), asked: baud, has });
        }
        let flags = rustix::fs::fcntl_getfl(&file).map_err(os("look at the flags of"))?;
        rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK).map_err(os("set the flags of"))?;
        tcflush(&file, QueueSelector::IOFlush).map_err(os("empty"))?;
        Ok(Stream(file.into()))
    }
}
