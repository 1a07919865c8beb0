// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire pingpong`: messages there and back, as `ibv_rc_pingpong` and its brothers.

use clap::Args;
use ferrowire::{Completion, HostMemory, MemoryRegion, PathMtu, RecvWr, SendWr, Service, WorkKind};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::args::{parse_mtu, parse_service, parse_size, service_name, Common};
use crate::card::{Card, Clock, Completions};
use crate::failure::Failure;
use crate::link::{self, Link, Wish, GRH};
use crate::out;
use crate::side::{Channel, PATIENCE};
use crate::stock::{self, End, Stock};
use crate::twosided::{self, PeerArgs, Progress, Side};

/// Sends messages there and back, as ibv_rc_pingpong, ibv_uc_pingpong and ibv_ud_pingpong
///
/// Without a host it is the server, and waits for a client; with one it is the client. The client's options count. Times of a simulated
/// card are by the clock of that card.
///
/// The other side may be one of those three, on a machine whose RDMA device is on the card's wire: a client needs --stock then, a server finds out by itself. Both sides
/// want the same options, for those tools do not tell theirs.
#[derive(Args, Debug)]
#[command(after_help = "Examples, each on its side:\n  \
    ferrowire -d sim:ferrowire0.sock pingpong\n  \
    ferrowire -d sim:ferrowire1.sock pingpong localhost -c -n 20\n  \
    ferrowire -d sim:ferrowire1.sock pingpong localhost --transport ud -s 1000 -e\n  \
    ferrowire -d sim:card.sock pingpong linux-host --stock -c     against: ibv_rc_pingpong -g 1 -c")]
pub struct PingpongArgs {
    #[command(flatten)]
    peer: PeerArgs,
    /// RC, UC or UD
    #[arg(long, default_value = "RC", value_parser = parse_service)]
    transport: Service,
    /// Bytes of a message; 4096, or the path MTU of UD, without it
    #[arg(short, long, value_name = "BYTES", value_parser = parse_size)]
    size: Option<u64>,
    /// Messages each way; 1000, or 100 of a simulated card, without it
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    iters: Option<u64>,
    /// Path MTU in bytes
    #[arg(short, long, default_value = "1024", value_parser = parse_mtu)]
    mtu: PathMtu,
    /// Receives that are posted at a time
    #[arg(short, long, default_value_t = 500, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=32768))]
    rx_depth: u32,
    /// Sleep until the card tells of a completion, on both sides
    #[arg(short, long)]
    events: bool,
    /// Look at each byte that is received
    #[arg(short, long)]
    chk: bool,
    /// The server is ibv_rc_pingpong, ibv_uc_pingpong or ibv_ud_pingpong
    #[arg(long)]
    stock: bool,
}

/// What the client wishes.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Plan {
    wish: Wish,
    size: u64,
    iters: u64,
    events: bool,
    chk: bool,
}

/// Carries it out.
pub fn run(common: &Common, args: &PingpongArgs) -> Result<(), Failure> {
    if args.stock && args.peer.host().is_none() {
        return Err(Failure::usage(
            "--stock is of a client",
            "name the server; a server finds out by itself",
        ));
    }
    if args.transport == Service::Ud && args.size.is_some_and(|size| size > args.mtu.bytes() as u64) {
        return Err(Failure::usage(
            "a datagram is as long as the path MTU at most",
            "give a smaller -s, or a larger -m",
        ));
    }
    twosided::run(common, &args.peer, |side, channel| one_side(common, args, side, channel))
}

fn plan(args: &PingpongArgs, card: &Card, stock: bool) -> Plan {
    let usual = if args.transport == Service::Ud { args.mtu.bytes() as u64 } else { 4096 };
    let wish = Wish {
        service: service_name(args.transport).into(),
        qps: 1,
        mtu: args.mtu.bytes() as u32,
        send_wr: 1,
        recv_wr: args.rx_depth,
        inline: 0,
        outstanding: 0,
        // The clock of a simulated card is its own, unless the peer has another one.
        timeout: if card.simulated && !stock { 10 } else { 14 },
        retry: 7,
        push: false,
    };
    // With a peer of rdma-core its own number.
    let iters = args.iters.unwrap_or(if card.simulated && !stock { 100 } else { 1000 });
    Plan { wish, size: args.size.unwrap_or(usual), iters, events: args.events, chk: args.chk }
}

fn one_side(common: &Common, args: &PingpongArgs, side: Side, channel: &mut Channel) -> Result<(), Failure> {
    let Side { client, device, bus, speaks } = side;
    if client && args.stock {
        channel.treat_as_foreign();
    }
    let card = Card::open(&device, bus, &args.peer.addresses)?;
    let (prints, speaks) = (speaks, speaks && !common.json);
    let is_stock = if client { args.stock } else { stock::speaks(channel)? };
    let mut peer = match is_stock {
        true => Peer::Stock(Stock::new(&card, channel)?),
        false => Peer::Own(channel),
    };
    let plan: Plan = match &mut peer {
        Peer::Own(channel) if !client => channel.hear("pingpong", PATIENCE)?,
        Peer::Own(channel) => {
            let plan = plan(args, &card, false);
            channel.tell("pingpong", &plan)?;
            plan
        }
        Peer::Stock(_) => plan(args, &card, true),
    };
    let depth = u64::from(plan.wish.recv_wr).min(plan.iters) as u32;
    let mut completions = card.completions(depth + 1, plan.events)?;
    let room = (plan.size as usize).max(1) + GRH;
    let (sent, received) = (card.region(room, link::rights(&card))?, card.region(room, link::rights(&card))?);
    let wish = Wish { recv_wr: depth, ..plan.wish.clone() };
    let (mut links, own, other) = match &mut peer {
        Peer::Own(channel) => link::connect(&card, channel, &wish, &completions.cq, &received)?,
        Peer::Stock(stock) => link::connect_stock(&card, stock, client, &wish, &completions.cq, &received)?,
    };
    if speaks {
        out::text(&own.pingpong_line("local"))?;
        out::text(&other.pingpong_line("remote"))?;
        if let Some(note) = card.clock_note() {
            out::text(&format!("  {note}\n"))?;
        }
    }
    let mut link = links.remove(0);
    let (sent, received) = (&sent, &received);
    let mut run = Run { plan: &plan, client, stock: is_stock, sent, received, link: &mut link, receives: 0 };
    run.post_receives(depth)?;
    // Nobody sends before both have receives.
    peer.ready(client, own.end())?;
    let start = card.now()?;
    run.play(&mut completions, &mut peer, speaks)?;
    let ticks = card.now()? - start;
    // Nobody leaves before both have all.
    peer.done()?;
    drop(link);
    match prints {
        true => report(common, &card, &plan, ticks, &device.to_string(), client),
        // Of two sides in one process, one prints.
        false => Ok(()),
    }
}

fn report(
    common: &Common,
    card: &Card,
    plan: &Plan,
    ticks: u64,
    device: &str,
    client: bool,
) -> Result<(), Failure> {
    let seconds = card.clock.seconds(ticks);
    let bytes = plan.size * plan.iters * 2;
    let mbit = bytes as f64 * 8.0 / seconds / 1e6;
    let usec = seconds * 1e6 / plan.iters as f64;
    if common.json {
        return out::json(&json!({
            "device": device,
            "side": if client { "client" } else { "server" },
            "transport": plan.wish.service,
            "size": plan.size,
            "iterations": plan.iters,
            "checked": plan.chk,
            "events": plan.events,
            "bytes": bytes,
            "clock": card.clock_name(),
            "cycles": (card.clock != Clock::Host).then_some(ticks),
            "seconds": seconds,
            "mbit_per_second": mbit,
            "usec_per_iteration": usec,
        }));
    }
    let digits = if seconds < 1.0 { 6 } else { 2 };
    out::text(&format!(
        "{bytes} bytes in {seconds:.digits$} seconds = {mbit:.2} Mbit/sec\n{} iters in {seconds:.digits$} seconds = {usec:.2} usec/iter\n",
        plan.iters
    ))
}

/// Who is on the other side.
enum Peer<'a> {
    /// This command.
    Own(&'a mut Channel),
    /// A tool of rdma-core.
    Stock(Stock<'a>),
}

impl Peer<'_> {
    fn channel(&mut self) -> &mut Channel {
        match self {
            Peer::Own(channel) => channel,
            Peer::Stock(stock) => stock.channel(),
        }
    }

    /// Both have receives.
    fn ready(&mut self, client: bool, own: End) -> Result<(), Failure> {
        match (self, client) {
            (Peer::Own(channel), _) => channel.exchange("ready", &()),
            (Peer::Stock(stock), true) => stock.tell_done(),
            (Peer::Stock(stock), false) => {
                stock.tell(own)?;
                stock.hear_done()
            }
        }
    }

    /// Nothing has come from the card.
    fn idle(&self) -> Result<(), Failure> {
        match self {
            Peer::Own(_) => Ok(()),
            Peer::Stock(stock) => stock.poll(),
        }
    }

    /// Both have all.
    fn done(&mut self) -> Result<(), Failure> {
        match self {
            Peer::Own(channel) => channel.exchange("done", &()),
            Peer::Stock(stock) => stock.linger(),
        }
    }
}

/// The messages, from one side.
struct Run<'a> {
    plan: &'a Plan,
    client: bool,
    /// The peer is of rdma-core: it sends from where it receives.
    stock: bool,
    sent: &'a MemoryRegion,
    received: &'a MemoryRegion,
    link: &'a mut Link,
    /// Receives that were posted.
    receives: u64,
}

/// What those tools fill their memory with, and where their pages begin.
const STOCK_FIRST: u8 = 0x7b;
const PAGE: usize = 4096;

/// Byte `at` of message `number` of a side.
fn pattern(client: bool, number: u64, at: usize) -> u8 {
    let mixed = (number.wrapping_mul(2) + u64::from(client)).wrapping_mul(0x9e37_79b9)
        ^ (at as u64).wrapping_mul(0x85eb_ca6b);
    (mixed ^ mixed >> 13 ^ mixed >> 24) as u8
}

impl Run<'_> {
    fn is_ud(&self) -> bool {
        self.plan.wish.service == "UD"
    }

    /// Byte `at` of this side's message `number`.
    fn own(&self, number: u64, at: usize) -> u8 {
        match self.stock && at % PAGE == 0 {
            // Where those tools look, with -c.
            true => 0,
            false => pattern(self.client, number, at),
        }
    }

    /// The same of the peer's, where it is known.
    fn expected(&self, number: u64, at: usize) -> Option<u8> {
        match (self.stock, self.client) {
            (false, client) => Some(pattern(!client, number, at)),
            // What was sent there last comes back.
            (true, true) => Some(self.own(number, at)),
            (true, false) if number > 0 => Some(self.own(number - 1, at)),
            // With -c the beginnings of pages are 0.
            (true, false) => (at % PAGE != 0).then_some(STOCK_FIRST),
        }
    }

    fn post_receives(&mut self, count: u32) -> Result<(), Failure> {
        let grh = if self.is_ud() { GRH } else { 0 };
        let left = (self.plan.iters - self.receives).min(count.into());
        let (qp, _) = self.link.parts();
        let mut batch = qp.start_post_recv();
        let sges = [self.received.sge(0, (self.plan.size as usize + grh) as u32)];
        for _ in 0..left {
            batch.post(&RecvWr::new(0, if self.plan.size as usize + grh > 0 { &sges } else { &[] }))?;
        }
        batch.ring()?;
        self.receives += left;
        Ok(())
    }

    fn post_send(&mut self, number: u64) -> Result<(), Failure> {
        let size = self.plan.size as usize;
        if self.plan.chk {
            let bytes: Vec<u8> = (0..size).map(|at| self.own(number, at)).collect();
            self.sent.memory().write(0, &bytes);
        }
        let (qp, to) = self.link.parts();
        let mut batch = qp.start_post_send();
        let sges = [self.sent.sge(0, size as u32)];
        let wr = SendWr::send(number, if size > 0 { &sges[..] } else { &[] }).signaled();
        batch.post(&Link::address(to, wr))?;
        Ok(batch.ring()?)
    }

    fn check(&self, number: u64, completion: &Completion) -> Result<(), Failure> {
        let grh = if self.is_ud() { GRH } else { 0 };
        let size = self.plan.size as usize;
        let fix = "report it: the card or the wire loses bytes";
        if completion.byte_len as usize != size + grh {
            let what = format!("message {number} has {} bytes, {} were sent", completion.byte_len, size);
            return Err(Failure::failed(what, fix));
        }
        if self.plan.chk {
            let bytes = bytes_of(self.received.memory(), grh, size);
            let wrong = |at: &usize| self.expected(number, *at).is_some_and(|right| right != bytes[*at]);
            if let Some(at) = (0..size).find(wrong) {
                let (found, right) = (bytes[at], self.expected(number, at).unwrap_or_default());
                let what = format!("byte {at} of message {number} is {found:#04x}, {right:#04x} was sent");
                return Err(Failure::failed(what, fix));
            }
        }
        Ok(())
    }

    /// Each message is answered by one, and the next goes when that and the completion of the one before are there.
    fn play(
        &mut self,
        completions: &mut Completions,
        peer: &mut Peer<'_>,
        speaks: bool,
    ) -> Result<(), Failure> {
        let iters = self.plan.iters;
        let (mut posted, mut sent, mut received) = (0, 0, 0);
        let mut progress = Progress::new(if speaks { iters } else { 0 });
        let mut some = [Completion::default(); 16];
        if self.client {
            self.post_send(0)?;
            posted = 1;
        }
        while sent < iters || received < iters {
            let taken = completions.poll(&mut some, peer.channel())?;
            if taken == 0 {
                peer.idle()?;
            }
            for completion in &some[..taken] {
                match completion.kind {
                    WorkKind::Send => sent += 1,
                    WorkKind::Receive => {
                        self.check(received, completion)?;
                        received += 1;
                    }
                }
            }
            if self.receives - received <= u64::from(self.plan.wish.recv_wr) / 2 {
                self.post_receives(self.plan.wish.recv_wr - (self.receives - received) as u32)?;
            }
            // The client is a message ahead.
            let due = if self.client { received + 1 } else { received };
            if posted < iters && posted == sent && posted < due {
                self.post_send(posted)?;
                posted += 1;
            }
            progress.at(received);
        }
        Ok(())
    }
}

fn bytes_of(memory: &HostMemory, at: usize, bytes: usize) -> Vec<u8> {
    let mut all = vec![0; bytes];
    memory.read(at, &mut all);
    all
}
