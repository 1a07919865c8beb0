// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Device`]: which card `-d` names, and the ways to it.

use std::fmt;
use std::str::FromStr;

use ferrowire::{Bus, Monitor};
use ferrowire_cards::{gids, Place};

use crate::failure::Failure;
use crate::inproc::{self, Kind};

/// A card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// Of this machine.
    At(Place),
    /// In this process.
    InProcess(Kind),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::At(place) => place.fmt(f),
            Device::InProcess(kind) => f.write_str(kind.name()),
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            _ if text == Kind::Cards.name() => Ok(Device::InProcess(Kind::Cards)),
            _ if text == Kind::Engine.name() => Ok(Device::InProcess(Kind::Engine)),
            _ => text.parse().map(Device::At).map_err(|why: String| match why.starts_with('`') && why.contains("give a PCI address") {
                true => format!(
                    "`{text}`: give a PCI address as 0000:03:00.0, `sim:SOCKET`, `serial:PORT`, `inproc`, or `inproc:engine`"
                ),
                false => why,
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
            Device::At(place) => Ok(place.open()?),
            Device::InProcess(kind) => Ok(inproc::pair(*kind)?.0),
        }
    }

    /// The same card, to be looked at beside whoever has it.
    ///
    /// # Errors
    /// As [`open`](Self::open), but that nobody else is in the way.
    pub fn observe(&self) -> Result<Monitor, Failure> {
        match self {
            Device::At(place) => Ok(place.observe()?),
            Device::InProcess(_) => Ok(Monitor::open(self.open()?)?),
        }
    }

    /// The name that the card has in the file of addresses.
    pub fn key(&self) -> String {
        match self {
            Device::At(place) => gids::key(place),
            Device::InProcess(kind) => kind.name().into(),
        }
    }

    /// Whether it is simulated by its name.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Device::At(Place::Socket(_)) | Device::InProcess(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_of_this_process_is_named_too() {
        let name = |text: &str| text.parse::<Device>();
        assert_eq!(name("sim:a.sock"), Ok(Device::At(Place::Socket("a.sock".into()))));
        assert_eq!(name("inproc"), Ok(Device::InProcess(Kind::Cards)));
        assert_eq!(name("inproc:engine"), Ok(Device::InProcess(Kind::Engine)));
        for bad in ["", "sim:", "inproc:", "inproc:card", "mlx5_0"] {
            assert!(name(bad).is_err(), "{bad}");
        }
        assert!(name("mlx5_0").unwrap_err().contains("`inproc`, or `inproc:engine`"));
    }
}
