// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Device`]: which card `-d` names, and the ways to it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ferrowire::{Bus, Monitor, VfioBus, VfioUserBus};

use crate::failure::Failure;
use crate::inproc;

/// A card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// On a PCI bus: domain, bus, device and function.
    Pci(String),
    /// Simulated, on a socket.
    Socket(PathBuf),
    /// Simulated, in this process.
    InProcess,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Pci(address) => f.write_str(address),
            Device::Socket(path) => write!(f, "sim:{}", path.display()),
            Device::InProcess => f.write_str("inproc"),
        }
    }
}

/// A PCI address, whole: with its domain, in small letters.
pub fn pci_address(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let whole = if text.matches(':').count() == 1 { format!("0000:{text}") } else { text };
    let (domain, rest) = whole.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let hex =
        |part: &str, digits| part.len() == digits && part.bytes().all(|digit| digit.is_ascii_hexdigit());
    let small = u8::from_str_radix(device, 16).is_ok_and(|device| device < 32);
    let good = hex(domain, 4) && hex(bus, 2) && hex(device, 2) && small;
    (good && matches!(function, "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7")).then_some(whole)
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("sim:") {
            Some("") => Err("`sim:` needs the path of a socket behind it, as sim:ferrowire0.sock".into()),
            Some(path) => Ok(Device::Socket(path.into())),
            None if text == "inproc" => Ok(Device::InProcess),
            None => pci_address(text).map(Device::Pci).ok_or_else(|| {
                format!("`{text}`: give a PCI address as 0000:03:00.0, `sim:SOCKET`, or `inproc`")
            }),
        }
    }
}

impl Device {
    /// The way to the card, for who uses it: one program at a time.
    ///
    /// # Errors
    /// Nobody is there, somebody else has it, or the way is closed.
    pub fn open(&self) -> Result<Box<dyn Bus>, Failure> {
        match self {
            Device::Socket(path) => Ok(Box::new(VfioUserBus::connect(path)?)),
            Device::Pci(address) => Ok(Box::new(VfioBus::open(address)?)),
            Device::InProcess => Ok(inproc::pair()?.0),
        }
    }

    /// The same card, to be looked at beside whoever has it.
    ///
    /// # Errors
    /// As [`open`](Self::open), but that nobody else is in the way.
    pub fn observe(&self) -> Result<Monitor, Failure> {
        let bus: Box<dyn Bus> = match self {
            Device::Socket(path) => Box::new(VfioUserBus::observe(path)?),
            other => other.open()?,
        };
        Ok(Monitor::open(bus)?)
    }

    /// Whether it is simulated by its name.
    pub fn is_simulated(&self) -> bool {
        !matches!(self, Device::Pci(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_named_in_one_of_three_ways() {
        let name = |text: &str| text.parse::<Device>();
        assert_eq!(name("sim:a.sock"), Ok(Device::Socket("a.sock".into())));
        assert_eq!(name("inproc"), Ok(Device::InProcess));
        assert_eq!(name("0000:03:00.0"), Ok(Device::Pci("0000:03:00.0".into())));
        assert_eq!(name("AF:1f.7"), Ok(Device::Pci("0000:af:1f.7".into())));
        for bad in
            ["", "sim:", "mlx5_0", "0000:03:20.0", "0000:03:00.8", "3:0.0", "0000:03:00", "+000:03:00.0"]
        {
            assert!(name(bad).is_err(), "{bad}");
        }
    }
}
