// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`exchange`]: two programs tell each other the ends of a connection over any stream, and [`connect_exchange`] makes it.
//!
//! One message each way, 64 bytes, numbers with their most significant byte first:
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 3 | `FWRC` |
//! | 4, 5 | version: 1 |
//! | 6, 7 | length: 64; who knows a later version sends more, and who knows this one ignores it |
//! | 8 to 11 | queue pair |
//! | 12 to 15 | first PSN that it sends |
//! | 16 to 31 | GID: IPv6, or IPv4-mapped |
//! | 32 to 39 | address of the memory |
//! | 40 to 47 | bytes of it |
//! | 48 to 51 | its key |
//! | 52 | path MTU: 1 is 256 bytes, 5 is 4,096; the smaller one of both counts |
//! | 53 | READs and atomics that it answers at once |
//! | 54 | version of selective retransmission that it can do and wishes; 0: none |
//! | 55 to 63 | 0 |
//!
//! Both ends retransmit selectively if both name the same version and it is not 0, and go-back-N otherwise. Programs that do not know byte 54 send 0 there and
//! ignore it.
//!
//! Behind it follow, from who has its queue pair up, the four bytes `FWOK`.

use std::io::{self, Read, Write};
use std::net::IpAddr;

use ferrowire::{
    AddressVector, Init, PathMtu, Psn, Qp, QueuePair, RemoteAddress, RtrAttributes, RtsAttributes,
};

use crate::error::{Error, Result};
use crate::mad::{gid, gid_ip};

const MAGIC: [u8; 4] = *b"FWRC";
const READY: [u8; 4] = *b"FWOK";
const VERSION: u16 = 1;
const BYTES: usize = 64;
/// The version of selective retransmission of cards with the feature `selective`. [`exchange`](mod@self) and the communication manager agree on it.
pub const SELECTIVE: u8 = 1;
/// Longest message of a later version that is read to its end.
const MAX_BYTES: usize = 4096;

/// What can be wrong with the other side's message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The stream failed, or ended within a message.
    #[error("exchange, {what}: {source}; connect the stream again")]
    Stream {
        /// What was done.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// It is no such message.
    #[error(
        "exchange: the other side begins with {found:02x?}, expected {MAGIC:02x?}; is it another program?"
    )]
    Magic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// It is of another version.
    #[error(
        "exchange: the other side speaks version {found}, here is {VERSION}; use programs of one version"
    )]
    Version {
        /// Its version.
        found: u16,
    },
    /// It is too short, or far too long.
    #[error("exchange: the message says it has {found} bytes, expected {BYTES}; the other side is broken")]
    Length {
        /// What it says.
        found: usize,
    },
    /// A field has a value that it cannot have.
    #[error("exchange: {field} is {value:#x}, which it cannot be; the other side is broken")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}

/// One end of a connection, as the other side has to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Queue pair.
    pub qpn: u32,
    /// First PSN that it sends.
    pub psn: Psn,
    /// Address of its port.
    pub ip: IpAddr,
    /// Memory that the other side may use, and its bytes; a key of 0: none.
    pub memory: RemoteAddress,
    /// Bytes of that memory.
    pub bytes: u64,
    /// Path MTU that it can have.
    pub path_mtu: PathMtu,
    /// READs and atomics that it answers at once.
    pub rd_atomic: u8,
    /// Version of selective retransmission that it can do and wishes; 0: none. Cards with the feature have version [`SELECTIVE`].
    pub selective: u8,
}

/// The own end.
pub type LocalEnd = End;
/// The other side's end.
pub type RemoteEnd = End;

impl End {
    /// The version of selective retransmission that both ends name; 0: they agree on none, and go-back-N holds.
    pub fn agreed_selective(&self, other: &End) -> u8 {
        if self.selective == other.selective {
            self.selective
        } else {
            0
        }
    }

    fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(4, &VERSION.to_be_bytes());
        put(6, &(BYTES as u16).to_be_bytes());
        put(8, &self.qpn.to_be_bytes());
        put(12, &self.psn.get().to_be_bytes());
        put(16, &gid(self.ip).to_be_bytes());
        put(32, &self.memory.address.to_be_bytes());
        put(40, &self.bytes.to_be_bytes());
        put(48, &self.memory.rkey.to_be_bytes());
        put(52, &[self.path_mtu.code(), self.rd_atomic, self.selective]);
        bytes
    }

    fn parse(bytes: &[u8; BYTES]) -> Result<Self, ExchangeError> {
        let number =
            |at: usize, n: usize| bytes[at..at + n].iter().fold(0u128, |v, b| v << 8 | u128::from(*b));
        let below_2_24 = |field, at| match number(at, 4) as u64 {
            value if value < 1 << 24 => Ok(value as u32),
            value => Err(ExchangeError::Field { field, value }),
        };
        let mtu = bytes[52];
        let path_mtu = PathMtu::try_from(mtu)
            .map_err(|_| ExchangeError::Field { field: "path MTU", value: mtu.into() })?;
        Ok(Self {
            qpn: below_2_24("queue pair", 8)?,
            psn: Psn::new(below_2_24("PSN", 12)?),
            ip: gid_ip(number(16, 16)),
            memory: RemoteAddress { address: number(32, 8) as u64, rkey: number(48, 4) as u32 },
            bytes: number(40, 8) as u64,
            path_mtu,
            rd_atomic: bytes[53],
            selective: bytes[54],
        })
    }
}

fn stream(what: &'static str) -> impl Fn(io::Error) -> ExchangeError {
    move |source| ExchangeError::Stream { what, source }
}

/// Sends the own end and receives the other side's. Both sides call it, in any order.
///
/// # Errors
/// The stream fails or ends, or the other side says something else.
pub fn exchange(io: &mut (impl Read + Write + ?Sized), local: &LocalEnd) -> Result<RemoteEnd, ExchangeError> {
    const SEND: &str = "sending the own end";
    const RECEIVE: &str = "receiving the other side's end";
    io.write_all(&local.to_bytes()).map_err(stream(SEND))?;
    io.flush().map_err(stream(SEND))?;
    let mut bytes = [0; BYTES];
    let (head, rest) = bytes.split_at_mut(8);
    io.read_exact(head).map_err(stream(RECEIVE))?;
    if head[..4] != MAGIC {
        return Err(ExchangeError::Magic { found: [head[0], head[1], head[2], head[3]] });
    }
    let (version, length) =
        (u16::from_be_bytes([head[4], head[5]]), usize::from(u16::from_be_bytes([head[6], head[7]])));
    if version < VERSION {
        return Err(ExchangeError::Version { found: version });
    }
    if !(BYTES..=MAX_BYTES).contains(&length) || (version == VERSION && length != BYTES) {
        return Err(ExchangeError::Length { found: length });
    }
    io.read_exact(rest).map_err(stream(RECEIVE))?;
    let mut later = vec![0; length - BYTES];
    io.read_exact(&mut later).map_err(stream(RECEIVE))?;
    End::parse(&bytes)
}

/// How a reliable connection behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RcOptions {
    /// ACK time-out: 4.096 us times 2 to that power; 0: never.
    pub timeout: u8,
    /// Retries after time-outs and sequence NAKs, 0 to 7.
    pub retry_cnt: u8,
    /// Retries after RNR NAKs, 0 to 6; 7: for ever.
    pub rnr_retry: u8,
    /// Timer code of the RNR NAKs that it sends.
    pub min_rnr_timer: u8,
    /// READs and atomics that it would have outstanding; the other side may answer fewer.
    pub rd_atomic: u8,
    /// Wish for selective retransmission. It comes if the other side wishes it, too, and both cards have it; go-back-N otherwise.
    pub selective: bool,
}

impl Default for RcOptions {
    fn default() -> Self {
        Self { timeout: 14, retry_cnt: 7, rnr_retry: 7, min_rnr_timer: 12, rd_atomic: 0, selective: false }
    }
}

/// Refuses a wish for selective retransmission that the own card cannot fulfil.
pub(crate) fn check_selective(operation: &'static str, wish: bool, card: bool) -> Result<()> {
    match wish && !card {
        true => Err(Error::NoSelective { operation }),
        false => Ok(()),
    }
}

/// Takes a queue pair of RC from INIT to RTS, against another end.
fn bring_up(
    qp: Qp<Init>,
    way: AddressVector,
    local: &LocalEnd,
    remote: &RemoteEnd,
    options: &RcOptions,
) -> ferrowire::Result<QueuePair> {
    let path_mtu =
        if local.path_mtu.code() < remote.path_mtu.code() { local.path_mtu } else { remote.path_mtu };
    let qp = qp.rtr(
        RtrAttributes::new()
            .av(way)
            .path_mtu(path_mtu)
            .dest_qpn(remote.qpn)
            .rq_psn(remote.psn)
            .max_dest_rd_atomic(local.rd_atomic)
            .min_rnr_timer(options.min_rnr_timer)
            .selective((local.agreed_selective(remote) != 0).then_some(true)),
    )?;
    let qp = qp.rts(
        RtsAttributes::new()
            .sq_psn(local.psn)
            .timeout(options.timeout)
            .retry_cnt(options.retry_cnt)
            .rnr_retry(options.rnr_retry)
            .max_rd_atomic(options.rd_atomic.min(remote.rd_atomic)),
    )?;
    Ok(qp)
}

/// Exchanges ends over a stream and takes a queue pair of RC from INIT to RTS. `way` gives the way to the other side's address, as
/// [`Net::address_vector`](crate::Net::address_vector) does. When both sides have returned, both queue pairs are up.
///
/// `selective` of the own end follows from `options` and the card. `selective` of the end that comes back is the version that both agreed on; 0: go-back-N.
///
/// # Errors
/// `NoSelective`, before anything is sent; those of [`exchange`], of `way` and of the verbs. The queue pair is destroyed then.
pub fn connect_exchange(
    io: &mut (impl Read + Write + ?Sized),
    qp: Qp<Init>,
    local: &LocalEnd,
    options: &RcOptions,
    way: impl FnOnce(IpAddr) -> Result<AddressVector>,
) -> Result<(QueuePair, RemoteEnd)> {
    const READINESS: &str = "waiting until the other side is up";
    check_selective("connect_exchange", options.selective, qp.capabilities().selective)?;
    let selective = if options.selective { SELECTIVE } else { 0 };
    let local = LocalEnd { qpn: qp.number(), selective, ..*local };
    let mut remote = exchange(io, &local)?;
    remote.selective = local.agreed_selective(&remote);
    let qp = bring_up(qp, way(remote.ip)?, &local, &remote, options)?;
    io.write_all(&READY).and_then(|()| io.flush()).map_err(stream(READINESS))?;
    let mut ready = [0; 4];
    io.read_exact(&mut ready).map_err(stream(READINESS))?;
    match ready {
        READY => Ok((qp, remote)),
        found => Err(ExchangeError::Magic { found }.into()),
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
