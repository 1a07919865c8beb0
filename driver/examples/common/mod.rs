// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every program does before its first work request: meet the other one over TCP, open the card, and connect a queue pair.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use ferrowire::*;

/// Anything that can go wrong: each error says what was tried, what offends, and what to do.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// What most programs are started with.
pub const USAGE: &str = "CARD listen|connect HOST:PORT";

/// What a program says: with `--help` how it is used, otherwise what comes of it.
pub fn answer(
    usage: &str,
    arguments: &[String],
    run: impl FnOnce(&[String]) -> Result<String>,
) -> Result<String> {
    match arguments.first().map(String::as_str) {
        Some("--help" | "-h") => Ok(format!(
            "Usage: {usage}\n\nA card is sim:SOCKET, serial:PORT or a PCI address; `ferrowire sim up` starts two simulated ones on a wire."
        )),
        _ => run(arguments),
    }
}

/// What `main` does.
pub fn start(usage: &str, run: impl FnOnce(&[String]) -> Result<String>) -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match answer(usage, &arguments, run) {
        Ok(said) => {
            println!("{said}");
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("Error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

/// What a program is started with.
pub struct Args {
    /// `sim:SOCKET` for a card that `ferrowire-sim` serves, `serial:PORT` for one on a board, or the PCI address of one, as `0000:01:00.0`.
    pub device: String,
    /// Whether it listens; the other one connects.
    pub listens: bool,
    /// Where the two meet, as `127.0.0.1:7471`.
    pub place: String,
    /// What else was given.
    pub more: Vec<String>,
}

impl Args {
    /// From the command line behind the program's name.
    pub fn parse(args: &[String]) -> Result<Self> {
        match args {
            [device, role, place, more @ ..] if role == "listen" || role == "connect" => {
                let (device, listens, place) = (device.clone(), role == "listen", place.clone());
                Ok(Self { device, listens, place, more: more.to_vec() })
            }
            _ => {
                Err("give: DEVICE listen|connect HOST:PORT, where DEVICE is sim:SOCKET, serial:PORT or a PCI address"
                    .into())
            }
        }
    }

    /// Number of this end: the listener is 1, and has 10.0.0.1 on the wire.
    fn number(&self) -> u8 {
        2 - u8::from(self.listens)
    }

    /// The TCP connection over which the two tell each other their numbers.
    pub fn meet(&self) -> Result<TcpStream> {
        if self.listens {
            let listener = TcpListener::bind(&self.place)?;
            eprintln!("waiting for the other program at {}", self.place);
            let (stream, _) = listener.accept()?;
            eprintln!("the other program is there");
            return Ok(stream);
        }
        let start = Instant::now();
        let mut waits = false;
        loop {
            match TcpStream::connect(&self.place) {
                Ok(stream) => return Ok(stream),
                Err(_) if !std::mem::replace(&mut waits, true) => {
                    eprintln!("no program listens at {} yet; waiting for one for up to 10 s", self.place)
                }
                // The other program may be about to start.
                Err(_) if start.elapsed() < Duration::from_secs(10) => {
                    std::thread::sleep(Duration::from_millis(20))
                }
                Err(error) => {
                    return Err(format!("connect to {}: {error}; start the listener", self.place).into())
                }
            }
        }
    }

    /// Opens the card and gives it its address on the wire.
    pub fn open(&self) -> Result<Context> {
        let context = match self.device.split_once(':') {
            Some(("sim", socket)) => Context::open(VfioUserBus::connect(socket)?)?,
            Some(("serial", port)) => Context::open(SerialBus::open(port, serial::BAUD)?)?,
            _ => Context::open(VfioBus::open(&self.device)?)?,
        };
        if context.mac() == [0; 6] {
            context.set_mac([2, 0xfe, 0, 0, 0, self.number()])?;
        }
        context.add_gid(IpAddr::from([10, 0, 0, self.number()]), None)?;
        Ok(context)
    }

    /// Connects a queue pair with that of the other program. Each program tells the other where its memory is: `memory` is this one's, and the
    /// result has the other one's. Both queue pairs are in RTS when this returns.
    pub fn connect(
        &self,
        context: &Context,
        qp: Qp<Reset>,
        mut stream: &TcpStream,
        memory: RemoteAddress,
    ) -> Result<(QueuePair, RemoteAddress)> {
        let psn = context.random_psn()?;
        let [a, b, c, d, e, f] = context.mac();
        let mac = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        // A line each way: queue pair, first PSN, MAC address, address and key of the memory.
        writeln!(stream, "{} {} {mac} {} {}", qp.number(), psn.get(), memory.address, memory.rkey)?;
        let mut line = String::new();
        BufReader::with_capacity(1, stream).read_line(&mut line)?;
        let numbers: Vec<u64> =
            line.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
        let [qpn, peer_psn, peer_mac, address, rkey] = numbers[..] else {
            return Err(format!("the other program said `{}`; start two of one kind", line.trim()).into());
        };
        let [_, _, peer_mac @ ..] = peer_mac.to_be_bytes();
        let (own, peer) = (self.number(), 3 - self.number());
        let av = AddressVector::new(context.mac(), [10, 0, 0, own].into(), peer_mac, [10, 0, 0, peer].into());
        let qp = bring_up(qp, av, qpn as u32, [psn, Psn::new(peer_psn as u32)])?;
        // The other queue pair drops a packet that arrives before RTR; the card sends it again only after the ACK time-out.
        barrier(stream)?;
        Ok((qp, RemoteAddress { address, rkey: rkey as u32 }))
    }
}

/// Takes a queue pair to RTS, connected with another one, which may read and write; the PSNs are the first that it sends, and the first that it receives.
pub fn bring_up(qp: Qp<Reset>, av: AddressVector, peer: u32, psns: [Psn; 2]) -> Result<QueuePair> {
    let access = AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE;
    let qp = qp
        .init(InitAttributes::new().access(access).pkey(0xffff))
        .map_err(Error::from)?
        .rtr(
            RtrAttributes::new()
                .av(av)
                .path_mtu(PathMtu::B1024)
                .dest_qpn(peer)
                .rq_psn(psns[1])
                .max_dest_rd_atomic(4)
                .min_rnr_timer(12),
        )
        .map_err(Error::from)?
        .rts(RtsAttributes::new().sq_psn(psns[0]).timeout(14).retry_cnt(7).rnr_retry(7).max_rd_atomic(4))
        .map_err(Error::from)?;
    Ok(qp)
}

/// Tells the other program that this one has got so far, and waits until it has, too.
pub fn barrier(mut stream: &TcpStream) -> Result<()> {
    writeln!(stream, "here")?;
    match BufReader::with_capacity(1, stream).read_line(&mut String::new())? {
        0 => Err("the other program is gone".into()),
        _ => Ok(()),
    }
}

/// Whether the other program has ended, well or not: its end of a connection that does not block is closed then. A queue pair notices that late,
/// after all its retries, or never, when it only waits.
pub fn is_gone(mut stream: &TcpStream) -> bool {
    match stream.read(&mut [0; 1]) {
        Ok(read) => read == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

/// The completion, if it is a good one.
pub fn good(completion: Completion) -> Result<Completion> {
    match completion.is_success() {
        true => Ok(completion),
        false => Err(format!(
            "work request {}: {}, cause {:?}",
            completion.wr_id(),
            completion.status(),
            completion.cause()
        )
        .into()),
    }
}
