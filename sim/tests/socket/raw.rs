// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client that sends whatever it likes.

use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use ferrowire::vfio_user::message::{capabilities, command, observer_capabilities, Header, Version};
use ferrowire::vfio_user::{Message, Stream};

/// A connection, with the version agreed on or not.
pub struct Raw(pub Stream);

impl Raw {
    pub fn connect(path: &Path) -> Self {
        let socket = UnixStream::connect(path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
        Self(Stream::new(socket))
    }

    /// The same, and says its version.
    pub fn begin(path: &Path) -> Self {
        Self::with(path, &capabilities())
    }

    /// The same, as one that observes.
    pub fn observe(path: &Path) -> Self {
        Self::with(path, &observer_capabilities())
    }

    fn with(path: &Path, capabilities: &[u8]) -> Self {
        let mut raw = Self::connect(path);
        raw.agree(capabilities);
        raw
    }

    /// Says its version, which is agreed on.
    #[track_caller]
    pub fn agree(&mut self, capabilities: &[u8]) {
        let version = Version { major: 0, minor: 1 };
        let answer = self.ask(command::VERSION, &[&version.to_bytes()[..], capabilities].concat(), &[]);
        let said = answer.map(|answer| answer.map(|message| message.body));
        assert!(matches!(said, Some(Ok(_))), "the version is agreed on: {said:?}");
    }

    /// The answer, or the number of the error. `None`: the connection has ended.
    pub fn ask(
        &mut self,
        command: u16,
        body: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Option<Result<Message, i32>> {
        self.0.send(&Header::of(1, command, body.len()), &[body], files).ok()?;
        let answer = self.0.receive().ok()?.expect("an answer in time");
        Some(match answer.header.errno() {
            Some(errno) => Err(errno),
            None => Ok(answer),
        })
    }
}
