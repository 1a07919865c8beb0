// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`TcpStream`] and [`TcpListener`]: the side channel of programs, as the standard library's are, with a time-out for everything.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{RecvError, Socket, SocketBuffer, State};
use smoltcp::wire::IpListenEndpoint;

use crate::error::{Error, Result};
use crate::stack::{Net, Stack};

/// Bytes that wait each way.
const BUFFER: usize = 16 << 10;

/// Connections that may wait to be accepted.
const BACKLOG: usize = 8;

/// How long a connection that its owner has given up may take to end.
const LINGER: Duration = Duration::from_secs(10);

fn socket() -> Socket<'static> {
    let mut socket = Socket::new(SocketBuffer::new(vec![0; BUFFER]), SocketBuffer::new(vec![0; BUFFER]));
    // Few bytes, each of which somebody waits for.
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(None);
    socket
}

/// A connection. Reads and writes end with [`io::ErrorKind::TimedOut`] after [`set_timeout`](Self::set_timeout)'s time, 10 s at first.
///
/// Dropping it closes it; what was written still goes out while the stack is polled. [`Write::flush`] waits until the other side has all.
#[derive(Debug)]
pub struct TcpStream {
    net: Net,
    handle: SocketHandle,
    peer: SocketAddr,
    timeout: Duration,
}

impl Stack {
    fn tcp(&mut self, handle: SocketHandle) -> &mut Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Closes a socket whose owner has gone.
    fn abandon(&mut self, handle: SocketHandle) {
        let socket = self.tcp(handle);
        socket.set_timeout(Some(LINGER.into()));
        socket.close();
        self.closing.push(handle);
    }
}

fn io_error(error: Error) -> io::Error {
    io::Error::other(error)
}

fn timed_out() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "the other side of the TCP connection does not go on; raise the time-out, or see whether it runs",
    )
}

fn reset() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionReset,
        "the other side has ended the TCP connection; connect again",
    )
}

impl TcpStream {
    /// Connects to a listener.
    ///
    /// # Errors
    /// `Refused` when nobody listens there, `Timeout`; those of [`Net::resolve`].
    pub fn connect(net: &Net, to: SocketAddr, limit: Duration) -> Result<Self> {
        let own = net.address_vector(to.ip())?.src_ip;
        let handle = {
            let mut stack = net.lock();
            stack.next_port = stack.next_port.wrapping_add(1) | 0xc000;
            let port = stack.next_port;
            let mut socket = socket();
            // The socket is new, and both addresses are whole.
            let _ = socket.connect(stack.iface.context(), (to.ip(), to.port()), (own, port));
            stack.sockets.add(socket)
        };
        let stream = Self { net: net.clone(), handle, peer: to, timeout: LINGER };
        let up = net.wait(limit, |stack| match stack.tcp(handle).state() {
            State::SynSent | State::SynReceived => Ok(None),
            State::Closed => Err(Error::Refused(to)),
            _ => Ok(Some(())),
        })?;
        up.map(|()| stream).ok_or(Error::Timeout { operation: "connect to", peer: to.ip(), after: limit })
    }

    /// The other side.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// How long a read or a write may wait, by the stack's clock.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    fn wait<T>(&self, done: impl FnMut(&mut Stack) -> Result<Option<io::Result<T>>>) -> io::Result<T> {
        self.net.wait(self.timeout, done).map_err(io_error)?.unwrap_or_else(|| Err(timed_out()))
    }
}

impl Read for TcpStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let handle = self.handle;
        self.wait(|stack| {
            Ok(match stack.tcp(handle).recv_slice(out) {
                Ok(0) => None,
                Ok(n) => Some(Ok(n)),
                Err(RecvError::Finished) => Some(Ok(0)),
                Err(RecvError::InvalidState) => Some(Err(reset())),
            })
        })
    }
}

impl Write for TcpStream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        let handle = self.handle;
        self.wait(|stack| {
            Ok(match stack.tcp(handle).send_slice(data) {
                Ok(0) => None,
                Ok(n) => Some(Ok(n)),
                Err(_) => Some(Err(reset())),
            })
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        let handle = self.handle;
        self.wait(|stack| {
            let socket = stack.tcp(handle);
            Ok(match (socket.send_queue(), socket.is_active()) {
                (0, _) => Some(Ok(())),
                (_, false) => Some(Err(reset())),
                _ => None,
            })
        })
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        self.net.lock().abandon(self.handle);
    }
}

/// Takes connections to a port of any own address.
#[derive(Debug)]
pub struct TcpListener {
    net: Net,
    port: u16,
    sockets: Vec<SocketHandle>,
}

impl TcpListener {
    /// Listens on a port.
    ///
    /// # Errors
    /// `PortInUse`.
    pub fn bind(net: &Net, port: u16) -> Result<Self> {
        let mut stack = net.lock();
        let taken = stack.sockets.iter().any(|(_, socket)| match socket {
            smoltcp::socket::Socket::Tcp(socket) => {
                socket.listen_endpoint().port == port && socket.is_listening()
            }
            _ => false,
        });
        if taken || port == 0 {
            return Err(Error::PortInUse(port));
        }
        let mut listener = Self { net: net.clone(), port, sockets: Vec::new() };
        (0..BACKLOG).for_each(|_| listener.sockets.push(listening(&mut stack, port)));
        drop(stack);
        Ok(listener)
    }

    /// The next connection.
    ///
    /// # Errors
    /// `Timeout` when none comes within `limit`; the card fails.
    pub fn accept(&mut self, limit: Duration) -> Result<TcpStream> {
        let Self { net, port, sockets } = self;
        let accepted = net.wait(limit, |stack| {
            for handle in sockets.iter_mut() {
                let socket = stack.tcp(*handle);
                match (socket.state(), socket.remote_endpoint()) {
                    (State::Established | State::CloseWait, Some(peer)) => {
                        let handle = std::mem::replace(handle, listening(stack, *port));
                        let peer = SocketAddr::new(peer.addr.into(), peer.port);
                        return Ok(Some((handle, peer)));
                    }
                    // It came and was gone.
                    (State::Closed | State::TimeWait, _) => {
                        stack.sockets.remove(*handle);
                        *handle = listening(stack, *port);
                    }
                    _ => {}
                }
            }
            Ok(None)
        })?;
        let nobody =
            Error::Timeout { operation: "accept from", peer: IpAddr::from([0, 0, 0, 0]), after: limit };
        let (handle, peer) = accepted.ok_or(nobody)?;
        Ok(TcpStream { net: net.clone(), handle, peer, timeout: LINGER })
    }
}

/// A socket that listens.
fn listening(stack: &mut Stack, port: u16) -> SocketHandle {
    let mut socket = socket();
    // It is new, and the port is none but 0.
    let _ = socket.listen(IpListenEndpoint { addr: None, port });
    stack.sockets.add(socket)
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        let mut stack = self.net.lock();
        self.sockets.drain(..).for_each(|handle| stack.abandon(handle));
    }
}
