// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Device`]: which card `-d` names, and the ways to it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ferrowire::serial::BAUD;
use ferrowire::{Bus, Monitor, SerialBus, VfioBus, VfioUserBus};

use crate::failure::Failure;
use crate::inproc::{self, Kind};

/// A card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// On a PCI bus: domain, bus, device and function.
    Pci(String),
    /// Simulated, on a socket.
    Socket(PathBuf),
    /// On a board, over a serial port of so many bits a second.
    Serial(PathBuf, u32),
    /// In this process.
    InProcess(Kind),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Pci(address) => f.write_str(address),
            Device::Socket(path) => write!(f, "sim:{}", path.display()),
            Device::Serial(path, BAUD) => write!(f, "serial:{}", path.display()),
            Device::Serial(path, baud) => write!(f, "serial:{}@{baud}", path.display()),
            Device::InProcess(kind) => f.write_str(kind.name()),
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

/// A serial port, and its rate behind an @.
fn serial(port: &str) -> Result<Device, String> {
    let (path, baud) = match port.rsplit_once('@') {
        Some((path, baud)) => match baud.parse() {
            Ok(baud @ 1200..) => (path, baud),
            _ => {
                return Err(format!(
                    "`{baud}` is no rate in baud from 1200 on, as serial:/dev/ttyUSB1@3000000"
                ))
            }
        },
        None => (port, BAUD),
    };
    match path {
        "" => Err("`serial:` needs a serial port behind it, as serial:/dev/ttyUSB1".into()),
        path => Ok(Device::Serial(path.into(), baud)),
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(port) = text.strip_prefix("serial:") {
            return serial(port);
        }
        match text.strip_prefix("sim:") {
            Some("") => Err("`sim:` needs the path of a socket behind it, as sim:ferrowire0.sock".into()),
            Some(path) => Ok(Device::Socket(path.into())),
            None if text == Kind::Cards.name() => Ok(Device::InProcess(Kind::Cards)),
            None if text == Kind::Engine.name() => Ok(Device::InProcess(Kind::Engine)),
            None => pci_address(text).map(Device::Pci).ok_or_else(|| {
                format!(
                    "`{text}`: give a PCI address as 0000:03:00.0, `sim:SOCKET`, `serial:PORT`, `inproc`, or `inproc:engine`"
                )
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
            Device::Serial(path, baud) => Ok(Box::new(SerialBus::open(path, *baud)?)),
            Device::InProcess(kind) => Ok(inproc::pair(*kind)?.0),
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
        matches!(self, Device::Socket(_) | Device::InProcess(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_named_in_one_of_five_ways() {
        let name = |text: &str| text.parse::<Device>();
        assert_eq!(name("sim:a.sock"), Ok(Device::Socket("a.sock".into())));
        assert_eq!(name("inproc"), Ok(Device::InProcess(Kind::Cards)));
        assert_eq!(name("inproc:engine"), Ok(Device::InProcess(Kind::Engine)));
        assert_eq!(name("0000:03:00.0"), Ok(Device::Pci("0000:03:00.0".into())));
        assert_eq!(name("AF:1f.7"), Ok(Device::Pci("0000:af:1f.7".into())));
        let port = |baud| Ok(Device::Serial("/dev/ttyUSB1".into(), baud));
        assert_eq!(name("serial:/dev/ttyUSB1"), port(BAUD));
        assert_eq!(name("serial:/dev/ttyUSB1@3000000"), port(3_000_000));
        for text in ["serial:/dev/ttyUSB1", "serial:/dev/ttyUSB1@115200"] {
            assert_eq!(name(text).unwrap().to_string(), text);
        }
        for bad in ["serial:", "serial:@9600", "serial:/dev/ttyS0@", "serial:/dev/ttyS0@fast", "serial:a@10"]
        {
            assert!(name(bad).is_err(), "{bad}");
        }
        for bad in [
            "",
            "sim:",
            "inproc:",
            "inproc:card",
            "mlx5_0",
            "0000:03:20.0",
            "0000:03:00.8",
            "3:0.0",
            "0000:03:00",
            "+000:03:00.0",
        ] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }
}
