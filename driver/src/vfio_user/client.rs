// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Client`]: asks a server for a device's regions, interrupts and memory, one question at a time.

use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{shutdown, Shutdown};
use rustix::process::Uid;

use super::error::SocketError;
use super::message::{
    self, capabilities, command, holds, observer_capabilities, pci, DeviceInfo, DmaMap, DmaUnmap, Header,
    IrqInfo, IrqSet, RegionAccess, RegionInfo, Version, ENGINE, MAJOR, MAX_TRANSFER, MINOR, OBSERVER,
};
use super::stream::{Message, Stream, StreamError};

/// Longest wait for an answer: a card that is simulated on a busy machine is slow.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Number of the first message. A simulated wire (`--wire stream:`) takes the first four bytes for the length of a frame; with this number no frame has
/// that length, so the wire hangs up at once.
const FIRST: u16 = u16::MAX;

/// The client's end of a connection, with the version agreed on.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    /// Longest wait for an answer.
    patience: Duration,
    next: u16,
    /// IP addresses that the server tells of.
    pub addresses: Vec<IpAddr>,
    /// The server has the reference engine in the place of a card.
    pub engine: bool,
}

impl Client {
    /// Connects to the server of a device.
    ///
    /// # Errors
    /// Nobody is there, somebody else has it, or it speaks another protocol.
    pub fn connect(path: &Path) -> Result<Self, SocketError> {
        Self::begin(path, &capabilities(), PATIENCE).map(|(client, _)| client)
    }

    /// The same, to look at the device alone, beside whoever has it.
    ///
    /// # Errors
    /// Nobody is there, it has no room for observers, or it speaks another protocol.
    pub fn observe(path: &Path, patience: Duration) -> Result<Self, SocketError> {
        let (client, said) = Self::begin(path, &observer_capabilities(), patience)?;
        // Who does not know observers has taken this one for the client of the device; it is gone at once.
        match holds(&said, OBSERVER) {
            true => Ok(client),
            false => {
                Err(SocketError::Protocol { asked: "observe", found: "the server has no observers".into() })
            }
        }
    }

    /// Connects; what the server said of itself comes along.
    fn begin(path: &Path, capabilities: &[u8], patience: Duration) -> Result<(Self, Vec<u8>), SocketError> {
        let failed = |source| SocketError::Connect { path: path.to_path_buf(), source };
        let socket = UnixStream::connect(path).map_err(failed)?;
        let limited = socket.set_read_timeout(Some(patience)).and(socket.set_write_timeout(Some(patience)));
        limited.map_err(SocketError::os("set the socket's time-out"))?;
        let (stream, addresses) = (Stream::new(socket), Vec::new());
        let mut client = Self { stream, patience, next: FIRST, addresses, engine: false };
        let version = Version { major: MAJOR, minor: MINOR };
        let answer = client.ask(command::VERSION, &[&version.to_bytes(), capabilities], &[]);
        let answer = answer.map_err(|error| match error {
            SocketError::Refused { errno, .. } if Errno::from_raw_os_error(errno) == Errno::BUSY => {
                SocketError::Busy
            }
            error => error,
        })?;
        match Version::parse(&answer.body) {
            Some((Version { major: MAJOR, .. }, said)) => {
                client.addresses = message::addresses(said);
                client.engine = holds(said, ENGINE);
                Ok((client, said.to_vec()))
            }
            found => {
                let found =
                    found.map_or("no version".into(), |(v, _)| format!("version {}.{}", v.major, v.minor));
                Err(SocketError::Protocol { asked: "version", found })
            }
        }
    }

    /// The connection.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// The user whose process serves the device.
    ///
    /// # Errors
    /// The system does not say.
    pub fn server_user(&self) -> Result<Uid, SocketError> {
        let peer = socket_peercred(&self.stream);
        Ok(peer.map_err(|error| SocketError::os("ask who serves the card")(error.into()))?.uid)
    }

    /// That the server is there still.
    ///
    /// # Errors
    /// It is gone.
    pub fn alive(&self) -> Result<(), SocketError> {
        let mut files = [PollFd::new(&self.stream, PollFlags::empty())];
        let looked = poll(&mut files, Some(&Timespec::default()));
        match looked.is_ok() && files[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            true => Err(SocketError::of_stream("wait for the card", StreamError::Closed)),
            false => Ok(()),
        }
    }

    /// A file that hangs up when the server is gone, or when this client is dropped.
    ///
    /// # Errors
    /// The system has no file left.
    pub fn lifeline(&self) -> Result<OwnedFd, SocketError> {
        self.stream.as_fd().try_clone_to_owned().map_err(SocketError::os("copy the socket's file"))
    }

    /// What kind of device it is.
    ///
    /// # Errors
    /// As all that asks: the server refuses, or is gone.
    pub fn device_info(&mut self) -> Result<DeviceInfo, SocketError> {
        let ask = DeviceInfo { argsz: DeviceInfo::BYTES as u32, ..DeviceInfo::default() };
        let answer = self.ask(command::DEVICE_GET_INFO, &[&ask.to_bytes()], &[])?;
        parsed(command::DEVICE_GET_INFO, DeviceInfo::parse(&answer.body))
    }

    /// What a region is.
    ///
    /// # Errors
    /// There is no such region.
    pub fn region_info(&mut self, index: u32) -> Result<RegionInfo, SocketError> {
        let ask = RegionInfo { argsz: RegionInfo::BYTES as u32, index, ..RegionInfo::default() };
        let answer = self.ask(command::DEVICE_GET_REGION_INFO, &[&ask.to_bytes()], &[])?;
        parsed(command::DEVICE_GET_REGION_INFO, RegionInfo::parse(&answer.body))
    }

    /// How many interrupts of a kind there are.
    ///
    /// # Errors
    /// There is no such kind.
    pub fn irq_info(&mut self, index: u32) -> Result<IrqInfo, SocketError> {
        let ask = IrqInfo { argsz: IrqInfo::BYTES as u32, index, ..IrqInfo::default() };
        let answer = self.ask(command::DEVICE_GET_IRQ_INFO, &[&ask.to_bytes()], &[])?;
        parsed(command::DEVICE_GET_IRQ_INFO, IrqInfo::parse(&answer.body))
    }

    /// Reads part of a region: at most [`MAX_TRANSFER`] bytes.
    ///
    /// # Errors
    /// The range leaves the region.
    pub fn region_read(&mut self, region: u32, offset: u64, out: &mut [u8]) -> Result<(), SocketError> {
        debug_assert!(out.len() <= MAX_TRANSFER);
        let ask = RegionAccess { offset, region, count: out.len() as u32 };
        let answer = self.ask(command::REGION_READ, &[&ask.to_bytes()], &[])?;
        match RegionAccess::parse(&answer.body) {
            Some((_, data)) if data.len() == out.len() => {
                out.copy_from_slice(data);
                Ok(())
            }
            _ => parsed(command::REGION_READ, None),
        }
    }

    /// Writes part of a region, and does not wait until it is done: as on a bus, what is asked for later comes later.
    ///
    /// # Errors
    /// The server is gone.
    pub fn region_post(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), SocketError> {
        debug_assert!(data.len() <= MAX_TRANSFER);
        let access = RegionAccess { offset, region, count: data.len() as u32 };
        self.send(command::REGION_WRITE, Header::NO_REPLY, &[&access.to_bytes(), data], &[]).map(|_| ())
    }

    /// The same, and waits.
    ///
    /// # Errors
    /// The range leaves the region.
    pub fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), SocketError> {
        let access = RegionAccess { offset, region, count: data.len() as u32 };
        self.ask(command::REGION_WRITE, &[&access.to_bytes(), data], &[]).map(|_| ())
    }

    /// Lets the device read and write `size` bytes of a file, by their bus address.
    ///
    /// # Errors
    /// Something is mapped there already, or the file cannot be shared.
    pub fn dma_map(
        &mut self,
        address: u64,
        size: u64,
        file: BorrowedFd<'_>,
        offset: u64,
    ) -> Result<(), SocketError> {
        let flags = pci::DMA_READ | pci::DMA_WRITE;
        let map = DmaMap { argsz: DmaMap::BYTES as u32, flags, offset, address, size };
        self.ask(command::DMA_MAP, &[&map.to_bytes()], &[file]).map(|_| ())
    }

    /// Takes a mapping away.
    ///
    /// # Errors
    /// Nothing is mapped there.
    pub fn dma_unmap(&mut self, address: u64, size: u64) -> Result<(), SocketError> {
        let unmap = DmaUnmap { argsz: DmaUnmap::BYTES as u32, flags: 0, address, size };
        self.ask(command::DMA_UNMAP, &[&unmap.to_bytes()], &[]).map(|_| ())
    }

    /// Lets an interrupt raise an event file.
    ///
    /// # Errors
    /// There is no such vector.
    pub fn set_irq(&mut self, index: u32, vector: u32, file: BorrowedFd<'_>) -> Result<(), SocketError> {
        let flags = pci::DATA_EVENTFD | pci::ACTION_TRIGGER;
        let set = IrqSet { argsz: IrqSet::BYTES as u32, flags, index, start: vector, count: 1 };
        self.ask(command::DEVICE_SET_IRQS, &[&set.to_bytes()], &[file]).map(|_| ())
    }

    /// Brings the device to its state after power-on. What is mapped stays mapped.
    ///
    /// # Errors
    /// The device has no reset.
    pub fn reset(&mut self) -> Result<(), SocketError> {
        self.ask(command::DEVICE_RESET, &[], &[]).map(|_| ())
    }

    fn send(
        &mut self,
        command: u16,
        flags: u32,
        parts: &[&[u8]],
        files: &[BorrowedFd<'_>],
    ) -> Result<Header, SocketError> {
        let body = parts.iter().map(|part| part.len()).sum();
        let header = Header { flags, ..Header::of(self.next, command, body) };
        self.next = self.next.wrapping_add(1);
        let asked = command::name(command);
        let failed = |error| SocketError::of_stream(asked, error);
        let sent = self.stream.send(&header, parts, files).map_err(failed);
        // A message that is sent in part is the last one.
        let sent = sent.and(match self.stream.is_full() {
            true => Err(SocketError::Silent { asked, after: self.patience }),
            false => Ok(header),
        });
        sent.inspect_err(|_| self.end())
    }

    /// Ends the connection: what comes later would be taken for an answer to something else. All that wait for the card hear of it by a
    /// [`lifeline`](Self::lifeline).
    fn end(&self) {
        // It fails if the server is gone, and then there is nothing to be done.
        let _ = shutdown(&self.stream, Shutdown::Both);
    }

    /// The answer to a question. After an error nothing that comes can be trusted.
    fn answer(&mut self, asked: &'static str, question: &Header) -> Result<Message, SocketError> {
        let answer = self.stream.receive().map_err(|error| SocketError::of_stream(asked, error))?;
        let answer = answer.ok_or(SocketError::Silent { asked, after: self.patience })?;
        let Header { id, command: found, .. } = answer.header;
        if !answer.header.is_reply() || (id, found) != (question.id, question.command) {
            let (wanted, command) = (question.id, question.command);
            let found = format!("message {id} of command {found} came for {wanted} of {command}");
            return Err(SocketError::Protocol { asked, found });
        }
        Ok(answer)
    }

    fn ask(
        &mut self,
        command: u16,
        parts: &[&[u8]],
        files: &[BorrowedFd<'_>],
    ) -> Result<Message, SocketError> {
        let asked = command::name(command);
        let question = self.send(command, 0, parts, files)?;
        let answer = self.answer(asked, &question).inspect_err(|_| self.end())?;
        match answer.header.errno() {
            Some(errno) => Err(SocketError::Refused { command, errno }),
            None => Ok(answer),
        }
    }
}

/// The server is told at once, though a [`lifeline`](Client::lifeline) is there still.
impl Drop for Client {
    fn drop(&mut self) {
        self.end();
    }
}

/// The structure at the start of an answer.
fn parsed<T>(command: u16, found: Option<(T, &[u8])>) -> Result<T, SocketError> {
    let short =
        || SocketError::Protocol { asked: command::name(command), found: "the answer is too short".into() };
    found.map(|(structure, _)| structure).ok_or_else(short)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc::{channel, Sender};
    use std::time::Instant;

    use super::super::message::server_capabilities;
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(200);

    /// An observer of a server that agrees on the version and then does what `serve` says.
    fn observer(name: &str, serve: impl FnOnce(Stream) + Send + 'static) -> Client {
        let path = std::env::temp_dir().join(format!("ferrowire-client-{}-{name}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let mut stream = Stream::new(listener.accept().unwrap().0);
            let asked = stream.receive().unwrap().unwrap();
            let version = Version { major: MAJOR, minor: MINOR }.to_bytes();
            let body = [&version[..], &server_capabilities(true, true, &[])].concat();
            stream.send(&asked.header.reply(body.len()), &[&body], &[]).unwrap();
            serve(stream);
        });
        let client = Client::observe(&path, PATIENCE).unwrap();
        std::fs::remove_file(path).unwrap();
        client
    }

    #[test]
    fn an_answer_that_does_not_come_in_time_ends_the_connection() {
        let (gone, seen) = channel();
        let mut client = observer("silent", move |mut stream| {
            drop(stream.receive().unwrap().unwrap());
            hear_end(&mut stream, &gone);
        });
        let lifeline = client.lifeline().unwrap();
        assert!(matches!(client.device_info(), Err(SocketError::Silent { .. })));
        assert!(seen.recv_timeout(Duration::from_secs(10)).unwrap(), "the server sees the end");
        // What came now would be the answer to an earlier question.
        assert!(matches!(client.device_info(), Err(SocketError::Gone { .. })));
        let mut files = [PollFd::new(&lifeline, PollFlags::RDHUP)];
        assert_eq!(poll(&mut files, Some(&Timespec::default())), Ok(1), "others hear of it");
    }

    fn hear_end(stream: &mut Stream, gone: &Sender<bool>) {
        let _ = gone.send(matches!(stream.receive(), Err(StreamError::Closed)));
    }

    #[test]
    fn an_answer_to_another_question_ends_the_connection() {
        let mut client = observer("wrong", |mut stream| {
            let asked = stream.receive().unwrap().unwrap().header;
            let wrong = Header { id: asked.id.wrapping_add(1), ..asked.reply(0) };
            stream.send(&wrong, &[], &[]).unwrap();
            let _ = stream.receive();
        });
        assert!(matches!(client.device_info(), Err(SocketError::Protocol { .. })));
        assert!(matches!(client.device_info(), Err(SocketError::Gone { .. })));
    }

    #[test]
    fn a_write_that_the_server_does_not_take_in_time_ends_the_connection() {
        let (end, ended) = channel::<()>();
        let mut client = observer("full", move |_stream| {
            let _ = ended.recv();
        });
        let start = Instant::now();
        let error = loop {
            if let Err(error) = client.region_post(0, 0, &[0; 4096]) {
                break error;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "a socket has no end");
        };
        assert!(matches!(error, SocketError::Silent { .. }), "{error}");
        assert!(matches!(client.region_post(0, 0, &[0; 4]), Err(SocketError::Gone { .. })));
        drop(end);
    }
}
