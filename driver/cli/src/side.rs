// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Channel`]: what the two sides of a run tell each other beside the wire of the cards, over TCP on the hosts' network.
//!
//! A message is four bytes of length, the highest first, and JSON: `{"ferrowire": 1, "kind": ..., "body": ...}`, where 1 is the version of the
//! exchange. A side that gives up says `refuse`, with the reason, instead of what is expected.

use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{recv, send, RecvFlags, SendFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;
use crate::stop;

/// Version of the exchange.
const VERSION: u32 = 1;
/// Longest message.
const LONGEST: usize = 1 << 20;
/// How long the peer may take for an answer while both prepare: a simulated card is slow.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How long a server is looked for.
const CONNECT: Duration = Duration::from_secs(5);
/// Between two looks for a signal.
const TICK: Duration = Duration::from_millis(100);
/// Between two looks at whether the peer lives.
const PULSE: Duration = Duration::from_millis(200);

#[derive(Serialize, Deserialize)]
struct Envelope {
    ferrowire: u32,
    kind: String,
    body: Value,
}

/// A connection with the other side.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
    peer: String,
    looked: Instant,
    /// This side is the first to speak where both say the same: the client.
    leads: bool,
    /// The peer is no `ferrowire`: it need not stay, and understands no refusal.
    foreign: bool,
}

impl Channel {
    fn new(socket: OwnedFd, peer: String, leads: bool) -> Self {
        Self { socket, peer, looked: Instant::now(), leads, foreign: false }
    }

    /// Both ends of one, in this process: the client's, and the server's.
    ///
    /// # Errors
    /// The system has no sockets.
    pub fn pair() -> Result<(Self, Self), Failure> {
        let (a, b) =
            UnixStream::pair().map_err(Failure::os("make a pair of sockets", "raise `ulimit -n`"))?;
        Ok((Self::new(a.into(), "the server".into(), true), Self::new(b.into(), "the client".into(), false)))
    }

    /// Connects with the server on `host`.
    ///
    /// # Errors
    /// There is none.
    pub fn connect(host: &str, port: u16) -> Result<Self, Failure> {
        const FIX: &str =
            "start the other side first, the same command without a host; or give its port with -p";
        let name = format!("{host}:{port}");
        let failed = |error| Failure::os(format!("connect to {name}"), FIX)(error);
        let addresses = (host.trim_matches(['[', ']']), port).to_socket_addrs();
        let addresses = addresses
            .map_err(Failure::os(format!("look for {host}"), "give a name or an address of the server"))?;
        let end = Instant::now() + CONNECT;
        let addresses: Vec<_> = addresses.collect();
        let mut waits = false;
        loop {
            let mut last = None;
            for address in &addresses {
                match TcpStream::connect_timeout(address, CONNECT) {
                    Ok(socket) => {
                        socket.set_nodelay(true).map_err(failed)?;
                        return Ok(Self::new(socket.into(), name, true));
                    }
                    Err(error) => last = Some(error),
                }
            }
            stop::check()?;
            // The server may be about to start.
            if !std::mem::replace(&mut waits, true) {
                let seconds = CONNECT.as_secs();
                eprintln!("ferrowire: no server at {name} yet; waiting for one for up to {seconds} s");
            }
            if Instant::now() > end {
                return Err(failed(last.unwrap_or_else(|| Errno::HOSTUNREACH.into())));
            }
            std::thread::sleep(TICK);
        }
    }

    /// Waits for a client on any of this host's addresses.
    ///
    /// # Errors
    /// The port is taken; a signal came.
    pub fn accept(port: u16) -> Result<Self, Failure> {
        const FIX: &str = "end who has the port, or choose another with -p on both sides";
        let failed = |error| Failure::os(format!("listen on port {port}"), FIX)(error);
        // Both families where there are both.
        let listener = TcpListener::bind(("::", port)).or_else(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => Err(error),
            _ => TcpListener::bind(("0.0.0.0", port)),
        });
        let listener = listener.map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        loop {
            stop::check()?;
            let mut files = [PollFd::new(&listener, PollFlags::IN)];
            let tick = Timespec::try_from(TICK).ok();
            let _ = poll(&mut files, tick.as_ref());
            match listener.accept() {
                Ok((socket, peer)) => {
                    socket.set_nodelay(true).map_err(failed)?;
                    return Ok(Self::new(socket.into(), peer.to_string(), false));
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    fn gone(&self, doing: &str) -> Failure {
        Failure::failed(
            format!("{} ended while {doing}", self.peer),
            "see what it says, and start both sides again, the server first",
        )
    }

    /// Says something.
    ///
    /// # Errors
    /// The peer is gone, or does not listen.
    pub fn tell(&mut self, kind: &str, body: &impl Serialize) -> Result<(), Failure> {
        let doing = format!("it was told `{kind}`");
        let bad = |error: serde_json::Error| {
            Failure::failed(format!("{kind}: {error}"), "this is a fault of the command")
        };
        let body = serde_json::to_value(body).map_err(bad)?;
        let text =
            serde_json::to_vec(&Envelope { ferrowire: VERSION, kind: kind.into(), body }).map_err(bad)?;
        self.send_bytes(&[&(text.len() as u32).to_be_bytes()[..], &text].concat(), &doing)
    }

    /// Says something that is no message of `ferrowire`.
    ///
    /// # Errors
    /// The peer is gone, or does not listen.
    pub fn send_bytes(&mut self, mut left: &[u8], doing: &str) -> Result<(), Failure> {
        let end = Instant::now() + PATIENCE;
        while !left.is_empty() {
            match send(&self.socket, left, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => left = &left[sent..],
                Err(Errno::AGAIN | Errno::INTR) => self.wait(PollFlags::OUT, end, doing)?,
                Err(_) => return Err(self.gone(doing)),
            }
        }
        Ok(())
    }

    /// What the peer says, of which nothing is known but the length.
    ///
    /// # Errors
    /// It is gone, or takes longer than `patience`.
    pub fn read_bytes(&mut self, into: &mut [u8], patience: Duration, doing: &str) -> Result<(), Failure> {
        self.read(into, Instant::now().checked_add(patience), doing)
    }

    /// The first four bytes of what the peer says, which stay to be read.
    ///
    /// # Errors
    /// It is gone, or takes longer than `patience`.
    pub fn first_bytes(&mut self, patience: Duration) -> Result<[u8; 4], Failure> {
        const DOING: &str = "its first word was waited for";
        let end = Instant::now() + patience;
        let mut bytes = [0; 4];
        loop {
            match recv(&self.socket, &mut bytes[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
                Ok((4.., _)) => return Ok(bytes),
                Ok((0, _)) => return Err(self.gone(DOING)),
                // The rest is under way: the socket is readable already.
                Ok(_) => {
                    std::thread::sleep(TICK);
                    self.wait(PollFlags::IN, end, DOING)?;
                }
                Err(Errno::AGAIN | Errno::INTR) => self.wait(PollFlags::IN, end, DOING)?,
                Err(_) => return Err(self.gone(DOING)),
            }
        }
    }

    /// The peer is no `ferrowire`: from now on it need not stay, and is not told why this side gives up.
    pub fn treat_as_foreign(&mut self) {
        self.foreign = true;
    }

    /// Tells the peer why nothing comes of it; whether it hears that is its own matter.
    pub fn refuse(&mut self, why: &str) {
        if !self.foreign {
            let _ = self.tell("refuse", &why);
        }
    }

    /// What the peer says next, which must be of a kind.
    ///
    /// # Errors
    /// It says something else, refuses, is gone, or takes longer than `patience`.
    pub fn hear<T: DeserializeOwned>(&mut self, kind: &str, patience: Duration) -> Result<T, Failure> {
        let envelope = self.message(&format!("`{kind}` was waited for"), patience)?;
        if envelope.kind == "refuse" {
            return Err(self.refused(&envelope));
        }
        if envelope.kind != kind {
            return Err(self.other(format!("`{}` came where `{kind}` is expected", envelope.kind)));
        }
        serde_json::from_value(envelope.body).map_err(|error| self.other(format!("`{kind}`: {error}")))
    }

    fn message(&mut self, doing: &str, patience: Duration) -> Result<Envelope, Failure> {
        let end = Instant::now().checked_add(patience);
        let mut head = [0; 4];
        self.read(&mut head, end, doing)?;
        let bytes = u32::from_be_bytes(head) as usize;
        if bytes > LONGEST {
            return Err(self.other(format!("a message of {bytes} bytes came; it is no ferrowire")));
        }
        let mut text = vec![0; bytes];
        self.read(&mut text, end, doing)?;
        let parsed: Result<Envelope, _> = serde_json::from_slice(&text);
        let envelope =
            parsed.map_err(|error| self.other(format!("what came is no message of ferrowire ({error})")))?;
        match envelope.ferrowire {
            VERSION => Ok(envelope),
            other => Err(self.other(format!("it speaks version {other} of the exchange, this is {VERSION}"))),
        }
    }

    /// The peer is none that this side understands.
    fn other(&self, what: String) -> Failure {
        Failure::failed(format!("{}: {what}", self.peer), "run the same version of ferrowire on both sides")
    }

    fn refused(&self, envelope: &Envelope) -> Failure {
        let why = envelope.body.as_str().unwrap_or("it gives no reason").to_string();
        Failure::Peer { peer: self.peer.clone(), why }
    }

    /// Says something and hears what the peer says of the same kind. The client speaks first: if both did, messages that are longer than
    /// the sockets' buffers would wait for each other.
    ///
    /// # Errors
    /// As [`tell`](Self::tell) and [`hear`](Self::hear).
    pub fn exchange<T: DeserializeOwned>(&mut self, kind: &str, body: &impl Serialize) -> Result<T, Failure> {
        if self.leads {
            self.tell(kind, body)?;
            return self.hear(kind, PATIENCE);
        }
        let said = self.hear(kind, PATIENCE)?;
        self.tell(kind, body)?;
        Ok(said)
    }

    /// Whether the peer has said something, or is gone: then [`hear`](Self::hear) does not wait.
    pub fn has_word(&self) -> bool {
        let mut byte = [0; 1];
        !matches!(
            recv(&self.socket, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT),
            Err(Errno::AGAIN | Errno::INTR)
        )
    }

    /// For loops that wait for the card: now and then it looks whether a signal has come or the peer is gone.
    ///
    /// # Errors
    /// That is so.
    pub fn pulse(&mut self, doing: &str) -> Result<(), Failure> {
        if self.looked.elapsed() < PULSE {
            return Ok(());
        }
        self.looked = Instant::now();
        stop::check()?;
        if self.foreign {
            return Ok(());
        }
        // What it said before it went does not hide that it is gone.
        let mut files = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let _ = poll(&mut files, Some(&Timespec::default()));
        let gone = files[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR);
        match gone {
            true => Err(self.last_words(doing)),
            false => Ok(()),
        }
    }

    /// Why the peer is gone, if it said so.
    fn last_words(&mut self, doing: &str) -> Failure {
        loop {
            match self.message(doing, PATIENCE) {
                Ok(envelope) if envelope.kind == "refuse" => return self.refused(&envelope),
                Ok(_) => {}
                Err(failure) => return failure,
            }
        }
    }

    fn read(&mut self, mut into: &mut [u8], end: Option<Instant>, doing: &str) -> Result<(), Failure> {
        let far = || Instant::now() + Duration::from_secs(3600);
        while !into.is_empty() {
            match recv(&self.socket, &mut *into, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(self.gone(doing)),
                Ok((bytes, _)) => into = &mut into[bytes..],
                Err(Errno::AGAIN | Errno::INTR) => {
                    self.wait(PollFlags::IN, end.unwrap_or_else(far), doing)?
                }
                Err(_) => return Err(self.gone(doing)),
            }
        }
        Ok(())
    }

    fn wait(&self, flags: PollFlags, end: Instant, doing: &str) -> Result<(), Failure> {
        stop::check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::failed(
                format!("{} says nothing while {doing}", self.peer),
                "see whether it hangs, and start both sides again",
            ));
        }
        let tick = Timespec::try_from(left.min(TICK)).ok();
        let _ = poll(&mut [PollFd::new(&self.socket, flags)], tick.as_ref());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_exchange_messages_that_are_longer_than_the_buffers_of_sockets() {
        let (mut a, mut b) = Channel::pair().unwrap();
        let (mine, theirs) = ("a".repeat(LONGEST - 100), "b".repeat(LONGEST - 100));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| b.exchange::<String>("text", &theirs).unwrap());
            assert_eq!(a.exchange::<String>("text", &mine).unwrap(), theirs);
            assert_eq!(other.join().unwrap(), mine);
        });
    }

    #[test]
    fn both_sides_hear_what_they_tell() {
        let (mut a, mut b) = Channel::pair().unwrap();
        a.tell("size", &7u32).unwrap();
        assert!(b.has_word());
        assert_eq!(b.hear::<u32>("size", PATIENCE).unwrap(), 7);
        assert!(!b.has_word());
        a.pulse("nothing").unwrap();
        b.refuse("too small");
        let error = a.hear::<u32>("size", PATIENCE).unwrap_err().to_string();
        assert!(error.contains("gave up: too small"), "{error}");
        let error = a.hear::<u32>("size", Duration::from_millis(20)).unwrap_err().to_string();
        assert!(error.contains("says nothing while `size` was waited for"), "{error}");
        // What is said and not heard yet hides neither the end nor its reason.
        for reason in [None, Some("too slow")] {
            let (mut a, mut b) = Channel::pair().unwrap();
            b.tell("sent", &1u32).unwrap();
            std::thread::sleep(PULSE);
            a.pulse("bytes went").unwrap();
            reason.iter().for_each(|why| b.refuse(why));
            drop(b);
            std::thread::sleep(PULSE);
            let error = a.pulse("bytes went").unwrap_err().to_string();
            assert!(error.contains(reason.unwrap_or("ended while bytes went")), "{error}");
        }
        drop(b);
        let error = a.hear::<u32>("size", PATIENCE).unwrap_err().to_string();
        assert!(error.contains("ended while"), "{error}");
    }

    #[test]
    fn others_are_told_apart() {
        let say = |bytes: &[u8]| {
            let (mut a, b) = Channel::pair().unwrap();
            send(&b.socket, bytes, SendFlags::NOSIGNAL).unwrap();
            a.hear::<u32>("size", Duration::from_millis(200)).unwrap_err().to_string()
        };
        let framed = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
        assert!(say(b"GET / HTTP/1.1\r\n").contains("no ferrowire"));
        assert!(say(&framed("hello")).contains("no message of ferrowire"));
        assert!(say(&framed(r#"{"ferrowire":2,"kind":"size","body":1}"#)).contains("version 2"));
        assert!(say(&framed(r#"{"ferrowire":1,"kind":"other","body":1}"#)).contains("`other` came"));
        assert!(say(&framed(r#"{"ferrowire":1,"kind":"size","body":"x"}"#)).contains("`size`"));
        assert!(say(&[0, 0]).contains("says nothing"));
    }
}
