// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's side: `verbs.c` (xtask/src/interop) carries out what it is told over TCP. Numbers are those of `<infiniband/verbs.h>`.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use ferrowire::{AccessFlags, CqeOpcode, SendOp, Service, WcStatus};
use ferrowire_net::Net;

use crate::side::{Done, End, Options, Piece, Place, Request, Result, Side, Success, BYTES};

/// Longest wait for an answer, by this machine's clock: that of the guest stands while the card computes.
const PATIENCE: Duration = Duration::from_secs(120);
/// Longest wait for completions, by the guest's clock.
const POLL_MS: u32 = 10_000;
/// How long nothing must come where nothing may.
const SILENCE_MS: u32 = 100;
/// Between two looks.
const LOOK: Duration = Duration::from_micros(100);

const SEND_FENCE: u32 = 1;
const SEND_SIGNALED: u32 = 2;
const SEND_SOLICITED: u32 = 4;
const SEND_INLINE: u32 = 8;
const WC_WITH_IMM: u64 = 2;
/// The kernel's number, which soft-RoCE gives programs, too; libibverbs has 8, and takes this one for `IBV_WC_IP_CSUM_OK` (docs/src/interop.md).
const WC_WITH_INV: u64 = 4 | 8;
const WC_RECV: u64 = 128;
const QPS_ERR: u64 = 6;

/// Rights, by `ibv_access_flags`.
fn rights(access: AccessFlags) -> u32 {
    let all = [
        (AccessFlags::LOCAL_WRITE, 1),
        (AccessFlags::REMOTE_WRITE, 2),
        (AccessFlags::REMOTE_READ, 4),
        (AccessFlags::REMOTE_ATOMIC, 8),
        (AccessFlags::MW_BIND, 16),
    ];
    all.iter().filter(|(right, _)| access.contains(*right)).map(|(_, bit)| bit).sum()
}

/// There is no guest to go on with: an [`io::Error`], as no other one is.
fn gone(what: String) -> Box<dyn std::error::Error> {
    io::Error::new(ErrorKind::NotConnected, what).into()
}

/// A guest that is connected.
pub struct Guest {
    stream: TcpStream,
    /// What it has said and nobody has read.
    said: Vec<u8>,
    /// The card must be there for the guest's questions.
    net: Net,
    /// The card's address.
    peer: IpAddr,
    service: Service,
}

impl Guest {
    /// Waits for it.
    pub fn accept(listener: &TcpListener, net: Net, peer: IpAddr) -> Result<Guest> {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Guest { stream, said: Vec::new(), net, peer, service: Service::Rc })
    }

    /// There are no more steps.
    pub fn leave(mut self) -> Result<()> {
        self.ask("end").map(drop)
    }

    /// Reads until something is complete.
    fn hear(&mut self, complete: impl Fn(&[u8]) -> Option<usize>) -> Result<Vec<u8>> {
        let end = Instant::now() + PATIENCE;
        let mut some = [0; 4096];
        loop {
            if let Some(bytes) = complete(&self.said) {
                return Ok(self.said.drain(..bytes).collect());
            }
            match self.stream.read(&mut some) {
                Ok(0) => return Err(gone("the guest has ended; see what it says".into())),
                Ok(bytes) => self.said.extend(&some[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.net.poll()?;
                    std::thread::sleep(LOOK);
                }
                Err(error) => {
                    return Err(gone(format!("the guest is not heard ({error}); see what it says")))
                }
            }
            if Instant::now() > end {
                return Err(gone(format!(
                    "the guest says nothing for {} s; see what it says",
                    PATIENCE.as_secs()
                )));
            }
        }
    }

    /// Tells it commands, all at once, and hears the numbers of each answer.
    fn ask_all(&mut self, commands: &[String]) -> Result<Vec<Vec<u64>>> {
        let text = commands.iter().map(|command| format!("{command}\n")).collect::<String>();
        // It is less than what the system takes at once.
        let told = self.stream.write_all(text.as_bytes());
        told.map_err(|error| gone(format!("the guest is not there to be told ({error}); see what it says")))?;
        let mut answers = Vec::new();
        for command in commands {
            let line = self.hear(|said| said.iter().position(|byte| *byte == b'\n').map(|at| at + 1))?;
            answers.push((command, String::from_utf8_lossy(&line).trim().to_string()));
        }
        let numbers = answers.iter().map(|(command, line)| {
            let mut words = line.split(' ');
            match words.next() {
                Some("ok") => Ok(words.map(str::parse).collect::<std::result::Result<_, _>>()?),
                _ => Err(format!("the guest, asked for `{command}`: {line}").into()),
            }
        });
        numbers.collect()
    }

    fn ask(&mut self, command: &str) -> Result<Vec<u64>> {
        Ok(self.ask_all(&[command.into()])?.remove(0))
    }

    /// The same, of an answer with so many numbers.
    fn ask_for<const N: usize>(&mut self, command: &str) -> Result<[u64; N]> {
        let said = self.ask(command)?;
        said.try_into().map_err(|said| format!("the guest, asked for `{command}`, says {said:?}").into())
    }

    /// A request, as it is told.
    fn command(request: &Request) -> Result<String> {
        let Request { wr_id, op, pieces, .. } = request;
        let flags = [
            (request.fence, SEND_FENCE),
            (request.signaled, SEND_SIGNALED),
            (request.solicited, SEND_SOLICITED),
            (request.inline, SEND_INLINE),
        ];
        let flags: u32 = flags.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum();
        let nowhere = ferrowire::RemoteAddress { address: 0, rkey: 0 };
        let (opcode, imm, remote, first, second) = match *op {
            SendOp::Write { remote } => (0, 0, remote, 0, 0),
            SendOp::WriteImm { remote, imm } => (1, imm, remote, 0, 0),
            SendOp::Send => (2, 0, nowhere, 0, 0),
            SendOp::SendImm { imm } => (3, imm, nowhere, 0, 0),
            SendOp::Read { remote } => (4, 0, remote, 0, 0),
            SendOp::CompareSwap { remote, compare, swap } => (5, 0, remote, compare, swap),
            SendOp::FetchAdd { remote, add } => (6, 0, remote, add, 0),
            SendOp::LocalInv { key } => (7, key, nowhere, 0, 0),
            SendOp::SendInv { key } => (9, key, nowhere, 0, 0),
            other => return Err(format!("the guest is not told of {other:?}").into()),
        };
        let (address, rkey) = (remote.address, remote.rkey);
        let pieces = list(pieces);
        Ok(format!("send {wr_id} {opcode} {flags} {imm} {address} {rkey} {first} {second} {pieces}"))
    }

    /// What a completion says.
    fn done(&self, wc: &[u64]) -> Result<Done> {
        let &[wr_id, status, opcode, bytes, flags, imm, key, from] = wc else {
            return Err(format!("the guest tells half a completion: {wc:?}").into());
        };
        let status = WcStatus::try_from(status as u8).map_err(|_| format!("status {status} is unknown"))?;
        if status != WcStatus::Success {
            return Ok(Done { wr_id, result: Err(status) });
        }
        // soft-RoCE says so of requests, too.
        let of_receive = |flag, value| (opcode & WC_RECV != 0 && flags & flag != 0).then_some(value as u32);
        let (imm, invalidated) = (of_receive(WC_WITH_IMM, imm), of_receive(WC_WITH_INV, key));
        let opcode = match opcode {
            0 => CqeOpcode::Send,
            1 => CqeOpcode::Write,
            2 => CqeOpcode::Read,
            3 => CqeOpcode::CmpSwap,
            4 => CqeOpcode::FetchAdd,
            5 => CqeOpcode::BindMw,
            6 => CqeOpcode::LocalInv,
            128 if imm.is_some() => CqeOpcode::RecvImm,
            128 if invalidated.is_some() => CqeOpcode::RecvInv,
            128 => CqeOpcode::Recv,
            129 => CqeOpcode::RecvWriteImm,
            other => return Err(format!("opcode {other} of a completion is unknown").into()),
        };
        let of_datagram = self.service == Service::Ud && opcode.is_receive();
        let from = of_datagram.then_some(from as u32);
        Ok(Done {
            wr_id,
            result: Ok(Success { imm, invalidated, from, ..Success::of(opcode, bytes as u32) }),
        })
    }
}

/// Pieces, as they are told.
fn list(pieces: &[Piece]) -> String {
    let pieces: Vec<String> =
        pieces.iter().map(|Piece { offset, bytes }| format!("{offset} {bytes}")).collect();
    pieces.join(" ")
}

impl Side for Guest {
    fn is_guest(&self) -> bool {
        true
    }

    fn begin(
        &mut self,
        step: u32,
        service: Service,
        mr_rights: AccessFlags,
        qp_rights: AccessFlags,
    ) -> Result<Place> {
        self.service = service;
        let kind = match service {
            Service::Uc => 3,
            Service::Ud => 4,
            _ => 2,
        };
        let memory = format!("begin {step} {}", rights(mr_rights));
        let said = self.ask_all(&[memory, format!("qp {kind} {}", rights(qp_rights))])?.concat();
        let &[address, rkey, qpn, psn] = &said[..] else {
            return Err(format!("the guest says {said:?} of its memory and queue pair").into());
        };
        Ok(Place { address, rkey: rkey as u32, qpn: qpn as u32, psn: psn as u32 })
    }

    fn connect(&mut self, peer: Place, options: &Options) -> Result<()> {
        let gid = match self.peer {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let (Place { qpn, psn, .. }, Options { timeout, retry_cnt, rnr_retry, min_rnr_timer, .. }) =
            (peer, *options);
        let mtu = options.mtu.code();
        self.ask(&format!(
            "connect {gid} {qpn} {psn} {mtu} {timeout} {retry_cnt} {rnr_retry} {min_rnr_timer}"
        ))
        .map(drop)
    }

    fn receive(&mut self, all: &[(u64, Vec<Piece>)]) -> Result<()> {
        let commands = all.iter().map(|(wr_id, pieces)| format!("recv {wr_id} {}", list(pieces)));
        self.ask_all(&commands.collect::<Vec<_>>()).map(drop)
    }

    fn post(&mut self, requests: &[Request]) -> Result<()> {
        let mut commands = requests.iter().map(Guest::command).collect::<Result<Vec<_>>>()?;
        commands.push("ring".into());
        self.ask_all(&commands).map(drop)
    }

    fn bind(&mut self, wr_id: u64, window: Piece, access: AccessFlags) -> Result<u32> {
        let command = format!("bind {wr_id} {} {}", list(&[window]), rights(access));
        match &self.ask_all(&[command, "ring".into()])?[..] {
            [key, _] if key.len() == 1 => Ok(key[0] as u32),
            other => Err(format!("the guest gives {other:?} for a key").into()),
        }
    }

    fn poll(&mut self, count: usize) -> Result<Vec<Done>> {
        let said = self.ask(&format!("poll {count} {POLL_MS}"))?;
        said.chunks(8).map(|wc| self.done(wc)).collect()
    }

    fn arm(&mut self) -> Result<()> {
        self.ask("arm 1").map(drop)
    }

    fn event(&mut self) -> Result<bool> {
        Ok(self.ask_for(&format!("event {SILENCE_MS}"))? == [1])
    }

    fn end(&mut self) -> Result<End> {
        let said = self.ask_all(&["poll 0 0", "state"].map(String::from))?;
        let more = said[0].chunks(8).map(|wc| self.done(wc)).collect::<Result<_>>()?;
        if self.ask("memory")? != [BYTES as u64] {
            return Err("the guest has other memory than this program thinks".into());
        }
        let memory = self.hear(|said| (said.len() >= BYTES).then_some(BYTES))?;
        Ok(End { more, in_error: said[1] == [QPS_ERR], memory })
    }

    fn pause(&mut self) -> Result<()> {
        // Nothing comes of its queue pair meanwhile, or this was no pause.
        self.ask(&format!("event {SILENCE_MS}")).map(drop)
    }
}
