// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cards of this machine: simulated ones on sockets, and those on the PCI bus.

use std::collections::BTreeSet;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ferrowire::vfio_user::SocketError;
use ferrowire::{Monitor, VfioUserBus};

pub use ferrowire::vfio::Roots;

use crate::Place;

/// How long a socket may take to answer, which is not known to be a card's.
const ANSWER: Duration = Duration::from_secs(2);

/// A socket that a card's server listens on.
#[derive(Debug, Clone)]
pub struct Socket {
    /// Its file.
    pub path: PathBuf,
    /// The card's MAC address, if the card could be asked.
    pub mac: Option<[u8; 6]>,
    /// There is no card, but the reference engine in its place.
    pub engine: bool,
    /// Why it could not be asked.
    pub note: Option<String>,
}

/// Folders in which sockets are looked for: the current one, those given, and `$XDG_RUNTIME_DIR/ferrowire` if it is there.
pub fn folders(given: &[PathBuf]) -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    let runtime = runtime.map(|path| Path::new(&path).join("ferrowire")).filter(|path| path.is_dir());
    [PathBuf::from(".")].into_iter().chain(given.iter().cloned()).chain(runtime).collect()
}

/// Cards whose sockets are in a folder, in the order of their names. `seen` holds the sockets of other folders, each of which is asked once.
///
/// # Errors
/// The folder cannot be read.
pub fn sockets(folder: &Path, seen: &mut BTreeSet<PathBuf>) -> Result<Vec<Socket>, Error> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        // Through links, for it is the socket that counts.
        let is_socket = std::fs::metadata(&path).is_ok_and(|file| file.file_type().is_socket());
        let whole = std::fs::canonicalize(&path);
        if is_socket && whole.is_ok_and(|whole| seen.insert(whole)) {
            paths.push(path.strip_prefix(".").map(Path::to_path_buf).unwrap_or(path));
        }
    }
    paths.sort_by_cached_key(|path| counted(&path.to_string_lossy()));
    Ok(paths.into_iter().filter_map(ask).collect())
}

/// Cards that a program may take, by names that hold in each folder: those on sockets that answer, then those on the PCI bus. Also folders that cannot be
/// read.
pub fn usable() -> (Vec<Place>, Vec<(PathBuf, Error)>) {
    let mut seen = BTreeSet::new();
    let (mut places, mut unread) = (Vec::new(), Vec::new());
    for folder in folders(&[]) {
        match sockets(&folder, &mut seen) {
            Ok(found) => {
                let usable = found.into_iter().filter(|socket| socket.mac.is_some());
                places.extend(usable.map(|socket| Place::Socket(socket.path).absolute()));
            }
            Err(error) => unread.push((folder, error)),
        }
    }
    places.extend(Roots::default().cards().into_iter().map(Place::Pci));
    (places, unread)
}

/// A name by which `card10` comes after `card9`: each number in it has as many digits as the largest.
fn counted(name: &str) -> String {
    let mut key = String::new();
    let mut rest = name;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (text, from) = rest.split_at(at);
        let end = from.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(from.len());
        let (number, more) = from.split_at(end);
        key += &format!("{text}{number:0>20}");
        rest = more;
    }
    key + rest
}

/// Whether a card's server listens on a socket.
fn ask(path: PathBuf) -> Option<Socket> {
    let mut found = Socket { path, mac: None, engine: false, note: None };
    let look = |bus| {
        let mut monitor = Monitor::open(bus)?;
        Ok::<_, ferrowire::Error>((monitor.is_engine(), monitor.port()?.mac))
    };
    match VfioUserBus::observe_within(&found.path, ANSWER) {
        Ok(bus) => match look(bus) {
            Ok((engine, mac)) => (found.engine, found.mac) = (engine, Some(mac)),
            Err(error) => found.note = Some(error.to_string()),
        },
        Err(SocketError::Connect { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
            found.note = Some("permission denied: it is another user's".into());
        }
        // No server listens, or it is no card's.
        Err(_) => return None,
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_in_the_order_of_their_numbers() {
        let mut names = ["b9", "ferrowire10.sock", "ferrowire9.sock", "a", "ferrowire2.sock", "ferrowire"];
        names.sort_by_cached_key(|name| counted(name));
        assert_eq!(names, ["a", "b9", "ferrowire", "ferrowire2.sock", "ferrowire9.sock", "ferrowire10.sock"]);
        assert_eq!(counted("7x12"), "00000000000000000007x00000000000000000012");
    }
}
