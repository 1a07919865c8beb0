// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program writes into the memory of another one, which does nothing for it. All that has to be done for that is in this file.
//!
//! ```text
//! cargo run -p ferrowire-sim -- up
//! cargo run -p ferrowire --example hello_write -- sim:ferrowire0.sock listen 127.0.0.1:7471
//! cargo run -p ferrowire --example hello_write -- sim:ferrowire1.sock connect 127.0.0.1:7471
//! ```

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use ferrowire::*;

/// Each error says what was tried, what offends, and what to do.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const USAGE: &str = "Usage: CARD listen|connect HOST:PORT\n\n\
    A card is sim:SOCKET, serial:PORT or a PCI address; `ferrowire sim up` starts two simulated ones on a wire.";

const TEXT: &[u8] = b"hello from the other card";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Does all of it, and says what happened.
pub fn run(args: &[String]) -> Result<String> {
    let (device, listens, place) = match args {
        [word] if word == "--help" || word == "-h" => return Ok(USAGE.into()),
        [device, role, place] if role == "listen" || role == "connect" => (device, role == "listen", place),
        _ => return Err(USAGE.into()),
    };
    // The two programs tell each other their numbers over TCP. The listener is 10.0.0.1 on the cards' wire, the other one 10.0.0.2.
    let mut stream = meet(listens, place)?;
    let (own, peer): (IpAddr, IpAddr) = match listens {
        true => ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
        false => ([10, 0, 0, 2].into(), [10, 0, 0, 1].into()),
    };

    // 1. A card, and its address on the wire.
    let context = match device.split_once(':') {
        Some(("sim", socket)) => Context::open(VfioUserBus::connect(socket)?)?,
        Some(("serial", port)) => Context::open(SerialBus::open(port, serial::BAUD)?)?,
        _ => Context::open(VfioBus::open(device)?)?,
    };
    if context.mac() == [0; 6] {
        context.set_mac([2, 0xfe, 0, 0, 0, 2 - u8::from(listens)])?;
    }
    context.add_gid(own, None)?;

    // 2. What belongs together: a domain, with memory that the peer may write, and a queue pair whose completions go to a queue.
    let pd = context.alloc_pd()?;
    let memory = context.alloc(4096, 4096)?;
    let access = AccessFlags::LOCAL_READ | AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    let region = pd.register(&memory, access, PageSize::Size4K)?;
    let mut cq = context.create_cq(16)?;
    let qp = pd.create_qp(&QpInitAttr::rc(&cq, &cq))?;

    // 3. What each has to know of the other: queue pair, first PSN, MAC address, address and key of the memory.
    let psn = context.random_psn()?;
    let [a, b, c, d, e, f] = context.mac();
    let mac = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    let mine = region.remote(0);
    writeln!(stream, "{} {} {mac} {} {}", qp.number(), psn.get(), mine.address, mine.rkey)?;
    let line = line(&stream)?;
    let numbers = line.split_whitespace().map(str::parse).collect::<std::result::Result<Vec<u64>, _>>()?;
    let [peer_qpn, peer_psn, peer_mac, address, rkey] = numbers[..] else {
        return Err(format!("the other program said `{}`; start two of one kind", line.trim()).into());
    };
    let [_, _, peer_mac @ ..] = peer_mac.to_be_bytes();
    let remote = RemoteAddress { address, rkey: rkey as u32 };

    // 4. The queue pair goes from RESET over INIT and RTR, where it answers, to RTS, where it sends.
    let way = AddressVector::new(context.mac(), own, peer_mac, peer);
    let qp = qp.init(InitAttributes::new().access(AccessFlags::REMOTE_WRITE).pkey(0xffff))?;
    let qp = qp.rtr(
        RtrAttributes::new()
            .av(way)
            .path_mtu(PathMtu::B1024)
            .dest_qpn(peer_qpn as u32)
            .rq_psn(Psn::new(peer_psn as u32))
            .max_dest_rd_atomic(4)
            .min_rnr_timer(12),
    )?;
    let rts = RtsAttributes::new().sq_psn(psn).timeout(14).retry_cnt(7).rnr_retry(7).max_rd_atomic(4);
    let mut qp = qp.rts(rts)?;
    // A queue pair that is not in RTR drops what arrives, and the card sends it again only after the ACK time-out.
    barrier(&mut stream)?;

    if listens {
        // Here nothing is done until the other program says that the bytes are there.
        barrier(&mut stream)?;
        let mut text = [0; TEXT.len()];
        memory.read(0, &mut text);
        return Ok(format!("my memory says: {}", String::from_utf8_lossy(&text)));
    }

    // 5. These lines write into the other card's memory.
    memory.write(0, TEXT);
    let mut batch = qp.start_post_send();
    batch.post(&SendWr::write(1, &[region.sge(0, TEXT.len() as u32)], remote).signaled())?;
    batch.ring()?;
    let mut done = [Completion::default(); 1];
    while cq.poll(&mut done)? == 0 {}
    if !done[0].is_success() {
        return Err(format!("the WRITE ended with {}, cause {:?}", done[0].status(), done[0].cause()).into());
    }

    barrier(&mut stream)?;
    Ok(format!("{} bytes written", TEXT.len()))
}

/// The TCP connection of the two programs. The one that connects waits a while for the other one to listen.
fn meet(listens: bool, place: &str) -> Result<TcpStream> {
    if listens {
        eprintln!("waiting for the other program at {place}");
        return Ok(TcpListener::bind(place)?.accept()?.0);
    }
    let mut tries = 0;
    loop {
        match TcpStream::connect(place) {
            Ok(stream) => return Ok(stream),
            Err(_) if tries < 500 => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => return Err(format!("connect to {place}: {error}; start the listener").into()),
        }
        tries += 1;
    }
}

/// What the other program says next.
fn line(stream: &TcpStream) -> Result<String> {
    let mut line = String::new();
    match BufReader::with_capacity(1, stream).read_line(&mut line)? {
        0 => Err("the other program is gone".into()),
        _ => Ok(line),
    }
}

/// Tells the other program that this one has got so far, and waits until it has, too.
fn barrier(stream: &mut TcpStream) -> Result<()> {
    writeln!(stream, "here")?;
    line(stream).map(drop)
}
