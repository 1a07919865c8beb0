// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Kernel`]: what [`VfioBus`](super::VfioBus) asks of the operating system. Tests put their own in its place.

use std::io::Result;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use crate::sys::MappedBar;

/// The argument of a request.
#[derive(Debug)]
pub enum Argument<'a> {
    /// A number, or none.
    Value(u64),
    /// A structure, which may come back changed.
    Bytes(&'a mut [u8]),
}

/// The calls by which a device is reached. Errors have the system's numbers.
pub trait Kernel: Send {
    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &Path) -> Result<OwnedFd>;

    /// `ioctl(2)`.
    ///
    /// # Errors
    /// The system's.
    fn request(&self, file: BorrowedFd<'_>, request: u32, argument: Argument<'_>) -> Result<i32>;

    /// The request that gives the file of a group's device.
    ///
    /// # Errors
    /// The system's.
    fn device_of_group(&self, group: BorrowedFd<'_>, address: &str) -> Result<OwnedFd>;

    /// Addresses that an address space of `/dev/iommu` has, with the last of each range; and what they are multiples of.
    ///
    /// # Errors
    /// The system's.
    fn iova_ranges(&self, file: BorrowedFd<'_>, ioas: u32) -> Result<(Vec<(u64, u64)>, u64)>;

    /// Reads all of `out`.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, file: BorrowedFd<'_>, offset: u64, out: &mut [u8]) -> Result<()>;

    /// Writes all of `data`.
    ///
    /// # Errors
    /// The system's.
    fn write_at(&self, file: BorrowedFd<'_>, offset: u64, data: &[u8]) -> Result<()>;

    /// Maps registers.
    ///
    /// # Errors
    /// The system's.
    fn map(&self, file: BorrowedFd<'_>, offset: u64, bytes: usize) -> Result<MappedBar>;

    /// Bytes that the process may lock; `None` when that is not limited.
    fn locked_limit(&self) -> Option<u64>;
}
