// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cards of this machine: simulated ones on sockets, and those on the PCI bus.

use std::collections::BTreeSet;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferrowire::vfio_user::message::command;
use ferrowire::vfio_user::SocketError;
use ferrowire::{Monitor, VfioUserBus};

pub use ferrowire::vfio::Roots;

use crate::Place;

/// How long a socket may take to answer, which is not known to be a card's.
const ANSWER: Duration = Duration::from_secs(2);

/// How often a socket is asked that hangs up or has no room for another observer, and the pause between two times: observers come and go.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(40);

/// A socket that a card's server listens on.
#[derive(Debug, Clone)]
pub struct Socket {
    /// Its file.
    pub path: PathBuf,
    /// The card's MAC address, if the card could be asked.
    pub mac: Option<[u8; 6]>,
    /// There is no card, but the reference engine in its place.
    pub engine: bool,
    /// A card is there, which a program may take, though it may not have been asked.
    pub usable: bool,
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
                let usable = found.into_iter().filter(|socket| socket.usable);
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
    let mut found = Socket { path, mac: None, engine: false, usable: true, note: None };
    let look = |bus| {
        let mut monitor = Monitor::open(bus)?;
        Ok::<_, ferrowire::Error>((monitor.is_engine(), monitor.port()?.mac))
    };
    match observe(&found.path) {
        Ok(bus) => match look(bus) {
            Ok((engine, mac)) => (found.engine, found.mac) = (engine, Some(mac)),
            Err(error) => (found.usable, found.note) = (false, Some(error.to_string())),
        },
        // Only a card's server knows observers.
        Err(SocketError::Busy) => found.note = Some("not asked: too many programs look at it".into()),
        Err(SocketError::Silent { asked, .. }) if asked != command::name(command::VERSION) => {
            found.note = Some(format!("not asked: no answer in {ANSWER:?}"));
        }
        Err(SocketError::Connect { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
            (found.usable, found.note) = (false, Some("permission denied: it is another user's".into()));
        }
        // No server listens, or it is no card's.
        Err(_) => return None,
    }
    Some(found)
}

/// Looks at the card on a socket. One that hangs up or has no room is asked again, for it may have room by then.
fn observe(path: &Path) -> Result<VfioUserBus, SocketError> {
    let end = Instant::now() + ANSWER;
    let mut tries = 0;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let result = VfioUserBus::observe_within(path, left.max(PAUSE));
        tries += 1;
        match result {
            Err(SocketError::Busy | SocketError::Gone { .. }) if tries < TRIES && left > PAUSE => {
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use ferrowire::vfio_user::Stream;

    use super::*;

    /// What is found on a socket whose server does with each client what `serve` says.
    fn found(name: &str, mut serve: impl FnMut(usize, Stream) + Send + 'static) -> Option<Socket> {
        let path = std::env::temp_dir().join(format!("ferrowire-find-{}-{name}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            for (count, client) in listener.incoming().enumerate() {
                serve(count, Stream::new(client.unwrap()));
            }
        });
        let socket = ask(path.clone());
        std::fs::remove_file(path).unwrap();
        socket
    }

    /// As a server with as many observers as it takes.
    fn refuse(mut stream: Stream) {
        let asked = stream.receive().unwrap().unwrap();
        const EBUSY: i32 = 16;
        stream.send(&asked.header.refusal(EBUSY), &[], &[]).unwrap();
    }

    #[test]
    fn a_card_that_has_no_room_for_an_observer_is_there() {
        let socket = found("full", |_, stream| refuse(stream)).expect("the card is there");
        assert!(socket.usable && socket.mac.is_none() && socket.note.is_some(), "{socket:?}");
    }

    #[test]
    fn a_server_that_hangs_up_is_asked_again_and_then_taken_for_none_of_a_card() {
        let socket = found("once", |count, stream| {
            if count > 0 {
                refuse(stream)
            }
        });
        assert!(socket.is_some_and(|socket| socket.usable));
        assert!(found("other", |_, _| {}).is_none());
    }

    #[test]
    fn sockets_are_in_the_order_of_their_numbers() {
        let mut names = ["b9", "ferrowire10.sock", "ferrowire9.sock", "a", "ferrowire2.sock", "ferrowire"];
        names.sort_by_cached_key(|name| counted(name));
        assert_eq!(names, ["a", "b9", "ferrowire", "ferrowire2.sock", "ferrowire9.sock", "ferrowire10.sock"]);
        assert_eq!(counted("7x12"), "00000000000000000007x00000000000000000012");
    }
}
