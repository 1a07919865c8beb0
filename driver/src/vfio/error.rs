// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`VfioError`]: why a card cannot be opened through VFIO, and what to do.

use std::path::{Path, PathBuf};

use crate::bus::BusError;
use crate::owner::owner;
use crate::spec::pci;

/// Why a card cannot be opened through VFIO.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VfioError {
    /// It is not the name of a device.
    #[error(
        "open `{given}`: not a PCI address or a file of /dev/vfio/devices; give one as 0000:01:00.0, or /dev/vfio/devices/vfio0"
    )]
    Name {
        /// What was given.
        given: String,
    },
    /// There is no such device.
    #[error("open {address}: no such PCI device; {}", choice(.cards))]
    NoDevice {
        /// The address.
        address: String,
        /// Cards of ours that are there.
        cards: Vec<String>,
    },
    /// It is another device.
    #[error(
        "open {address}: device {vendor:04x}:{device:04x}, a Ferrowire card is {:04x}:{:04x}; {}",
        pci::VENDOR, pci::DEVICE, choice(.cards)
    )]
    WrongDevice {
        /// The address.
        address: String,
        /// Its vendor.
        vendor: u16,
        /// Its device.
        device: u16,
        /// Cards of ours that are there.
        cards: Vec<String>,
    },
    /// The kernel does not let programs have it.
    #[error("open {address}: {}, not to vfio-pci; run `ferrowire bind {address}`", bound(.driver))]
    NotBound {
        /// The address.
        address: String,
        /// The driver that it is bound to.
        driver: Option<String>,
    },
    /// The machine has no IOMMU, or it is off.
    #[error(
        "open {address}: no IOMMU (/sys/kernel/iommu_groups is empty); turn it on in the firmware (VT-d, AMD-Vi), and boot with \
         intel_iommu=on or amd_iommu=on"
    )]
    NoIommu {
        /// The address.
        address: String,
    },
    /// The device is not behind the IOMMU that the machine has.
    #[error("open {address}: the device is in no IOMMU group; use a slot that is behind the IOMMU")]
    NoGroup {
        /// The address.
        address: String,
    },
    /// Others of the group are used by the kernel.
    #[error(
        "open {address}: IOMMU group {group} has devices that the kernel uses: {}; bind them to vfio-pci too, or use a slot with a group \
         of its own", .others.join(", ")
    )]
    NotViable {
        /// The address.
        address: String,
        /// The group.
        group: String,
        /// The others, with their drivers.
        others: Vec<String>,
    },
    /// VFIO is not there.
    #[error("open {path}: no such file; load the module: `modprobe vfio-pci`")]
    NoFile {
        /// The file.
        path: PathBuf,
    },
    /// The file is another user's.
    #[error(
        "open {path}: permission denied, for it belongs to {}; give it to your user: `sudo chown $USER {path}`, or for good by a udev rule: \
         SUBSYSTEM==\"vfio|vfio-dev|misc\", KERNEL==\"{}\", OWNER=\"...\"", owner(.path), name(.path)
    )]
    Permission {
        /// The file.
        path: PathBuf,
    },
    /// Another program has it.
    #[error("open {path}: in use{}; end that program, or take another card", by(.holders))]
    Busy {
        /// The file.
        path: PathBuf,
        /// Programs that have the file open, as far as this user may know.
        holders: Vec<String>,
    },
    /// BAR 0 has no room for the registers.
    #[error("open {address}: BAR 0 has {bytes} bytes, the registers need {needed}; load the bitstream, and let the kernel scan the bus again")]
    SmallBar {
        /// The address.
        address: String,
        /// What it has.
        bytes: u64,
        /// What is needed.
        needed: u64,
    },
    /// Doorbells cannot be stored from here.
    #[error("open {address}: the kernel does not map BAR 0 up to the doorbells; use Linux 4.16 or newer, and a BAR of whole pages")]
    NotMappable {
        /// The address.
        address: String,
    },
    /// It cannot raise interrupts.
    #[error("open {address}: the device has no MSI-X; load a bitstream of this revision")]
    NoMsix {
        /// The address.
        address: String,
    },
    /// The kernel's VFIO is another.
    #[error("{what}; use a kernel with VFIO's type 1 IOMMU, version 2 (Linux 4.0 or newer, module vfio_iommu_type1)")]
    Unsupported {
        /// What is not there.
        what: &'static str,
    },
    /// The operating system refused something else.
    #[error("{operation} of {address}: {source}; see the kernel's log (`dmesg`)")]
    Os {
        /// What was asked.
        operation: &'static str,
        /// Of which device.
        address: String,
        /// What it said.
        source: std::io::Error,
    },
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn choice(cards: &[String]) -> String {
    match cards {
        [] => "there is no Ferrowire card; load the bitstream, and let the kernel scan the bus again".into(),
        cards => format!("choose of {}", cards.join(", ")),
    }
}

fn bound(driver: &Option<String>) -> String {
    driver.as_ref().map_or("bound to no driver".into(), |driver| format!("bound to {driver}"))
}

fn by(holders: &[String]) -> String {
    match holders {
        [] => " by a program of another user".into(),
        holders => format!(" by {}", holders.join(", ")),
    }
}

impl From<VfioError> for BusError {
    fn from(error: VfioError) -> Self {
        let errno = match &error {
            VfioError::Os { source, .. } => source.raw_os_error(),
            VfioError::Permission { .. } => Some(rustix::io::Errno::ACCESS.raw_os_error()),
            _ => None,
        };
        BusError::Os { operation: "VFIO", message: error.to_string(), errno }
    }
}
