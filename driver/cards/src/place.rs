// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Place`]: the name of a card, and the ways to the card.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ferrowire::serial::{SerialError, BAUD};
use ferrowire::vfio::VfioError;
use ferrowire::vfio_user::SocketError;
use ferrowire::{Bus, Monitor, SerialBus, VfioBus, VfioUserBus};

/// Where a card is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// On a PCI bus: domain, bus, device and function.
    Pci(String),
    /// Simulated, on a socket.
    Socket(PathBuf),
    /// On a board, over a serial port of so many bits a second.
    Serial(PathBuf, u32),
}

/// Why a card cannot be opened or observed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The socket of a card.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The serial line to a board.
    #[error(transparent)]
    Serial(#[from] SerialError),
    /// The PCI device of a card.
    #[error(transparent)]
    Vfio(#[from] VfioError),
    /// The card itself.
    #[error(transparent)]
    Card(#[from] ferrowire::Error),
}

impl OpenError {
    /// Whether another program has the card.
    pub fn is_in_use(&self) -> bool {
        matches!(self, OpenError::Socket(SocketError::Busy) | OpenError::Vfio(VfioError::Busy { .. }))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Pci(address) => f.write_str(address),
            Place::Socket(path) => write!(f, "sim:{}", path.display()),
            Place::Serial(path, BAUD) => write!(f, "serial:{}", path.display()),
            Place::Serial(path, baud) => write!(f, "serial:{}@{baud}", path.display()),
        }
    }
}

/// Names of several cards in one text, with commas between them, as in `FERROWIRE_DEVICE`. A comma in a name has a backslash before it, and so has a backslash.
pub fn join_names(places: &[Place]) -> String {
    let escaped = places.iter().map(|place| place.to_string().replace('\\', r"\\").replace(',', r"\,"));
    escaped.collect::<Vec<_>>().join(",")
}

/// The names in such a text.
pub fn split_names(text: &str) -> Vec<String> {
    let (mut names, mut name) = (Vec::new(), String::new());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ',' => names.push(std::mem::take(&mut name)),
            '\\' => name.extend(letters.next()),
            letter => name.push(letter),
        }
    }
    names.push(name);
    names.retain(|name| !name.is_empty());
    names
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

/// A serial port, and its rate after an @.
fn serial(port: &str) -> Result<Place, String> {
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
        "" => Err("`serial:` needs a serial port after it, as serial:/dev/ttyUSB1".into()),
        path => Ok(Place::Serial(path.into(), baud)),
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(port) = text.strip_prefix("serial:") {
            return serial(port);
        }
        match text.strip_prefix("sim:") {
            Some("") => Err("`sim:` needs the path of a socket after it, as sim:ferrowire0.sock".into()),
            Some(path) => Ok(Place::Socket(path.into())),
            None => pci_address(text).map(Place::Pci).ok_or_else(|| {
                format!("`{text}`: give a PCI address as 0000:03:00.0, `sim:SOCKET`, or `serial:PORT`")
            }),
        }
    }
}

impl Place {
    /// The way to the card, for its user: one program at a time.
    ///
    /// # Errors
    /// No card answers, another program has it, or the way is closed.
    pub fn open(&self) -> Result<Box<dyn Bus>, OpenError> {
        match self {
            Place::Socket(path) => Ok(Box::new(VfioUserBus::connect(path)?)),
            Place::Pci(address) => Ok(Box::new(VfioBus::open(address)?)),
            Place::Serial(path, baud) => Ok(Box::new(SerialBus::open(path, *baud)?)),
        }
    }

    /// The same card, to be observed. A card on a socket is not taken from the program that has it.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), but a card on a socket may be in use.
    pub fn observe(&self) -> Result<Monitor, OpenError> {
        let bus: Box<dyn Bus> = match self {
            Place::Socket(path) => Box::new(VfioUserBus::observe(path)?),
            other => other.open()?,
        };
        Ok(Monitor::open(bus)?)
    }

    /// The same card by a name that holds in every folder.
    pub fn absolute(self) -> Self {
        let whole = |path: PathBuf| {
            let absolute = std::fs::canonicalize(&path).or_else(|_| std::path::absolute(&path));
            absolute.unwrap_or(path)
        };
        match self {
            Place::Socket(path) => Place::Socket(whole(path)),
            // A serial port's name is often a link that is to stay.
            Place::Serial(path, baud) => Place::Serial(std::path::absolute(&path).unwrap_or(path), baud),
            pci => pci,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_several_cards_are_one_text_whatever_is_in_them() {
        let places =
            ["sim:/tmp/a,b.sock", r"sim:/tmp/c\,d", "0000:03:00.0"].map(|name| name.parse().unwrap());
        let text = join_names(&places);
        let names: Vec<Place> = split_names(&text).iter().map(|name| name.parse().unwrap()).collect();
        assert_eq!(names, places, "{text}");
        assert_eq!(split_names("sim:a,,0000:03:00.0,"), ["sim:a", "0000:03:00.0"]);
        assert_eq!(split_names(""), [""; 0]);
    }

    #[test]
    fn a_card_is_named_in_one_of_three_ways() {
        let name = |text: &str| text.parse::<Place>();
        assert_eq!(name("sim:a.sock"), Ok(Place::Socket("a.sock".into())));
        assert_eq!(name("0000:03:00.0"), Ok(Place::Pci("0000:03:00.0".into())));
        assert_eq!(name("AF:1f.7"), Ok(Place::Pci("0000:af:1f.7".into())));
        let port = |baud| Ok(Place::Serial("/dev/ttyUSB1".into(), baud));
        assert_eq!(name("serial:/dev/ttyUSB1"), port(BAUD));
        assert_eq!(name("serial:/dev/ttyUSB1@3000000"), port(3_000_000));
        for text in ["serial:/dev/ttyUSB1", "serial:/dev/ttyUSB1@115200"] {
            assert_eq!(name(text).unwrap().to_string(), text);
        }
        for bad in ["serial:", "serial:@9600", "serial:/dev/ttyS0@", "serial:/dev/ttyS0@fast", "serial:a@10"]
        {
            assert!(name(bad).is_err(), "{bad}");
        }
        for bad in
            ["", "sim:", "mlx5_0", "0000:03:20.0", "0000:03:00.8", "3:0.0", "0000:03:00", "+000:03:00.0"]
        {
            assert!(name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_absolute_name_leads_to_the_same_card() {
        let Place::Socket(path) = Place::Socket("none.sock".into()).absolute() else { panic!() };
        assert!(path.is_absolute() && path.ends_with("none.sock"), "{}", path.display());
        let pci = Place::Pci("0000:03:00.0".into());
        assert_eq!(pci.clone().absolute(), pci);
    }
}
