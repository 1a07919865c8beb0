// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire pingpong`: messages there and back, as `ibv_rc_pingpong` and its brothers.

use clap::Args;
use ferrowire::{
    Completion, HostMemory, MemoryRegion, PathMtu, RecvWr, SendWr, Service, SharedReceiveQueue, SrqInitAttr,
    WorkKind,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::args::{parse_mtu, parse_service, parse_size, service_name, Common};
use crate::card::{say_go_back_n, Card, Clock, Completions};
use crate::failure::Failure;
use crate::link::{self, Link, Queues, Wish, GRH};
use crate::out;
use crate::side::{Channel, PATIENCE};
use crate::stock::{self, End, Stock};
use crate::twosided::{self, PeerArgs, Progress, Side};

/// Sends messages there and back, as ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and ibv_srq_pingpong
///
/// Without a host it is the server, and waits for a client; with one it is the client. The client's options count. Times of a simulated
/// card are by the clock of that card.
///
/// The other side may be one of those four, on a machine whose RDMA device is on the card's wire: a client needs --stock then, a server finds out by itself. Both sides
/// want the same options, for those tools do not tell theirs.
#[derive(Args, Debug)]
#[command(after_help = "Examples, each on its side:\n  \
    ferrowire -d sim:ferrowire0.sock pingpong\n  \
    ferrowire -d sim:ferrowire1.sock pingpong localhost -c -n 20\n  \
    ferrowire -d sim:ferrowire1.sock pingpong localhost --transport ud -s 1000 -e\n  \
    ferrowire -d sim:ferrowire1.sock pingpong localhost --srq -q 8\n  \
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
    /// Messages each way, of all queue pairs together; 1000, or 100 of a simulated card, without it
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
    /// Several queue pairs that share a receive queue, with RC
    #[arg(long)]
    srq: bool,
    /// How many; 16 without it
    #[arg(short, long = "num-qp", value_name = "COUNT", requires = "srq", value_parser = clap::value_parser!(u32).range(1..=stock::SHARED_ENDS as i64))]
    qps: Option<u32>,
    /// The server is ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong or ibv_srq_pingpong
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
    /// The queue pairs share a receive queue.
    #[serde(default)]
    srq: bool,
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
    args.peer.check_service(args.transport)?;
    if args.stock && args.peer.selective {
        return Err(no_stock_selective("server"));
    }
    if args.srq && args.transport != Service::Rc {
        return Err(Failure::usage("--srq is of RC", "leave --transport out"));
    }
    let fits = |card: &Card| plan(args, card, args.stock).wish.fits(card);
    twosided::run(common, &args.peer, fits, |side, channel| one_side(common, args, side, channel))
}

/// The tools of rdma-core agree on nothing beside queue pairs and addresses.
fn no_stock_selective(peer: &str) -> Failure {
    Failure::usage(
        format!("--selective: the {peer} is of rdma-core, which has no selective retransmission"),
        "leave --selective out; both sides then use go-back-N",
    )
}

fn plan(args: &PingpongArgs, card: &Card, stock: bool) -> Plan {
    let usual = if args.transport == Service::Ud { args.mtu.bytes() as u64 } else { 4096 };
    let wish = Wish {
        service: service_name(args.transport).into(),
        qps: if args.srq { args.qps.unwrap_or(16) } else { 1 },
        mtu: args.mtu.bytes() as u32,
        send_wr: 1,
        recv_wr: args.rx_depth,
        inline: 0,
        outstanding: 0,
        // By the card's clock. A simulated one is some hundred times slower than a machine on its wire, which is to have time to answer.
        timeout: match (card.simulated, stock) {
            (false, _) => 14,
            (true, true) => 11,
            (true, false) => 10,
        },
        retry: 7,
        push: false,
        selective: args.peer.selective && !stock,
    };
    // With a peer of rdma-core its own number.
    let iters = args.iters.unwrap_or(if card.simulated && !stock { 100 } else { 1000 });
    Plan { wish, size: args.size.unwrap_or(usual), iters, events: args.events, chk: args.chk, srq: args.srq }
}

fn one_side(common: &Common, args: &PingpongArgs, side: Side, channel: &mut Channel) -> Result<(), Failure> {
    let Side { client, device, card, speaks } = side;
    if client && args.stock {
        channel.treat_as_foreign();
    }
    let (prints, speaks) = (speaks, speaks && !common.json);
    let is_stock = if client { args.stock } else { stock::speaks(channel)? };
    if is_stock && args.peer.selective {
        channel.treat_as_foreign();
        return Err(no_stock_selective("client"));
    }
    let mut peer = match is_stock {
        true => Peer::Stock(Stock::new(&card, channel, args.srq)?),
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
    let qps = plan.wish.qps;
    let depth = u64::from(plan.wish.recv_wr).min(plan.iters).max(qps.into()) as u32;
    let mut completions = card.completions(depth + qps, plan.events)?;
    // Queue pairs that share receives may have a message each at a time, and then each receive wants memory of its own.
    let (slot, slots) = ((plan.size as usize).max(1) + GRH, if plan.srq { depth } else { 1 });
    let region = |slots: u32| card.region(slot * slots as usize, link::rights(&card));
    let (sent, received) = (region(qps)?, region(slots)?);
    let wish = Wish { recv_wr: depth, ..plan.wish.clone() };
    let mut attr = SrqInitAttr::default();
    attr.max_wr = depth;
    let srq = plan.srq.then(|| card.pd.create_srq(&attr)).transpose()?;
    let queues = Queues { cq: &completions.cq, srq: srq.as_ref() };
    let (mut links, own, other) = match &mut peer {
        Peer::Own(channel) => link::connect(&card, channel, &wish, queues, &received)?,
        Peer::Stock(stock) => link::connect_stock(&card, stock, client, &wish, queues, &received)?,
    };
    let selective = own.is_selective_with(&other);
    if prints && args.peer.selective && !selective {
        say_go_back_n(if client { "the server" } else { "the client" });
    }
    if speaks {
        out::text(&own.pingpong_lines("local"))?;
        out::text(&other.pingpong_lines("remote"))?;
        if let Some(note) = card.clock_note() {
            out::text(&format!("  {note}\n"))?;
        }
    }
    let memory = Memory { sent: &sent, received: &received, slot, slots };
    let mut run = Run::new(&plan, client, is_stock, memory, &mut links, srq, depth);
    run.post_receives()?;
    // Nobody sends before both have receives.
    peer.ready(client, &own.ends())?;
    let start = card.now()?;
    run.play(&mut completions, &mut peer, speaks)?;
    let ticks = card.now()? - start;
    // Nobody leaves before both have all.
    peer.done()?;
    drop(links);
    match prints {
        true => report(common, &card, &plan, ticks, &device.to_string(), client, selective),
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
    selective: bool,
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
            "selective": selective,
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
    fn ready(&mut self, client: bool, own: &[End]) -> Result<(), Failure> {
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

/// Where messages are.
#[derive(Clone, Copy)]
struct Memory<'a> {
    /// A slot for each queue pair.
    sent: &'a MemoryRegion,
    /// A slot for each receive, or one for all.
    received: &'a MemoryRegion,
    /// Bytes of a slot.
    slot: usize,
    /// Of what is received.
    slots: u32,
}

/// A queue pair's part of it.
#[derive(Clone, Copy, Default)]
struct Turn {
    posted: u64,
    sent: u64,
    received: u64,
}

/// The messages, from one side.
struct Run<'a> {
    plan: &'a Plan,
    client: bool,
    /// The peer is of rdma-core: it sends from where it receives.
    stock: bool,
    memory: Memory<'a>,
    links: &'a mut [Link],
    srq: Option<SharedReceiveQueue>,
    turns: Vec<Turn>,
    /// Receives that are not posted, by their number.
    free: Vec<u32>,
    /// Receives there are.
    depth: u32,
}

/// What those tools fill their memory with, and where their pages begin.
const STOCK_FIRST: u8 = 0x7b;
const PAGE: usize = 4096;

/// A number for each message of each queue pair.
fn message(qp: usize, number: u64) -> u64 {
    number.wrapping_mul(stock::SHARED_ENDS as u64 + 1) + qp as u64
}

/// Byte `at` of message `number` of a side.
fn pattern(client: bool, number: u64, at: usize) -> u8 {
    let mixed = (number.wrapping_mul(2) + u64::from(client)).wrapping_mul(0x9e37_79b9)
        ^ (at as u64).wrapping_mul(0x85eb_ca6b);
    (mixed ^ mixed >> 13 ^ mixed >> 24) as u8
}

impl<'a> Run<'a> {
    fn new(
        plan: &'a Plan,
        client: bool,
        stock: bool,
        memory: Memory<'a>,
        links: &'a mut [Link],
        srq: Option<SharedReceiveQueue>,
        depth: u32,
    ) -> Self {
        let turns = vec![Turn::default(); links.len()];
        Run { plan, client, stock, memory, links, srq, turns, free: (0..depth).collect(), depth }
    }

    fn grh(&self) -> usize {
        if self.plan.wish.service == "UD" {
            GRH
        } else {
            0
        }
    }

    /// Byte `at` of this side's message `number` of a queue pair.
    fn own(&self, qp: usize, number: u64, at: usize) -> u8 {
        match (self.stock, self.plan.srq) {
            // Where those tools look, with -c.
            (true, _) if at % PAGE == 0 => 0,
            // All queue pairs of such a peer have one buffer: what is in it is known while all messages are alike.
            (true, true) => pattern(self.client, 0, at),
            _ => pattern(self.client, message(qp, number), at),
        }
    }

    /// The same of the peer's, where it is known.
    fn expected(&self, qp: usize, number: u64, at: usize) -> Option<u8> {
        match (self.stock, self.client) {
            (false, client) => Some(pattern(!client, message(qp, number), at)),
            // What was sent there last comes back.
            (true, true) => Some(self.own(qp, number, at)),
            (true, false) if number > 0 => Some(self.own(qp, number - 1, at)),
            // Of shared receives those of another queue pair may have been there before.
            (true, false) if self.plan.srq => None,
            // With -c the beginnings of pages are 0.
            (true, false) => (at % PAGE != 0).then_some(STOCK_FIRST),
        }
    }

    /// All that are free.
    fn post_receives(&mut self) -> Result<(), Failure> {
        let Memory { received, slot, slots, .. } = self.memory;
        let bytes = self.plan.size as usize + self.grh();
        let mut batch = match &mut self.srq {
            Some(srq) => srq.start_post_recv(),
            None => self.links[0].parts().0.start_post_recv(),
        };
        for number in self.free.drain(..) {
            let sges = [received.sge((number % slots) as usize * slot, bytes as u32)];
            batch.post(&RecvWr::new(number.into(), if bytes > 0 { &sges } else { &[] }))?;
        }
        Ok(batch.ring()?)
    }

    fn post_send(&mut self, index: usize) -> Result<(), Failure> {
        let (size, number) = (self.plan.size as usize, self.turns[index].posted);
        let at = index * self.memory.slot;
        if self.plan.chk {
            let bytes: Vec<u8> = (0..size).map(|at| self.own(index, number, at)).collect();
            self.memory.sent.memory().write(at, &bytes);
        }
        let sges = [self.memory.sent.sge(at, size as u32)];
        let (qp, to) = self.links[index].parts();
        let mut batch = qp.start_post_send();
        let wr = SendWr::send(number, if size > 0 { &sges[..] } else { &[] }).signaled();
        batch.post(&Link::address(to, wr))?;
        batch.ring()?;
        self.turns[index].posted += 1;
        Ok(())
    }

    fn check(&self, index: usize, completion: &Completion) -> Result<(), Failure> {
        let (grh, size, number) = (self.grh(), self.plan.size as usize, self.turns[index].received);
        let fix = "report it: the card or the wire loses bytes";
        if completion.byte_len() as usize != size + grh {
            let what = format!("message {number} has {} bytes, {} were sent", completion.byte_len(), size);
            return Err(Failure::failed(what, fix));
        }
        if self.plan.chk {
            let at = (completion.wr_id() % u64::from(self.memory.slots)) as usize * self.memory.slot;
            let bytes = bytes_of(self.memory.received.memory(), at + grh, size);
            let wrong =
                |at: &usize| self.expected(index, number, *at).is_some_and(|right| right != bytes[*at]);
            if let Some(at) = (0..size).find(wrong) {
                let (found, right) = (bytes[at], self.expected(index, number, at).unwrap_or_default());
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
        let (mut sent, mut received) = (0, 0);
        let mut progress = Progress::new(if speaks { iters } else { 0 });
        let mut some = [Completion::default(); 16];
        if self.client {
            (0..self.links.len()).try_for_each(|index| self.post_send(index))?;
        }
        while sent < iters || received < iters {
            let taken = completions.poll(&mut some, peer.channel())?;
            if taken == 0 {
                peer.idle()?;
            }
            for completion in &some[..taken] {
                let index = self.links.iter().position(|link| link.qp.number() == completion.qpn());
                let index = index.ok_or_else(|| {
                    let what =
                        format!("a completion is of queue pair {:#x}, which is not there", completion.qpn());
                    Failure::failed(what, "report it: this is a fault of the card")
                })?;
                match completion.kind() {
                    WorkKind::Send => {
                        sent += 1;
                        self.turns[index].sent += 1;
                    }
                    WorkKind::Receive => {
                        self.check(index, completion)?;
                        received += 1;
                        self.turns[index].received += 1;
                        self.free.push(completion.wr_id() as u32);
                    }
                }
                if self.free.len() > self.depth as usize / 2 {
                    self.post_receives()?;
                }
                let Turn { posted, sent: done, received: answers } = self.turns[index];
                // The client is a message ahead.
                let due = answers + u64::from(self.client);
                if sent < iters && posted == done && posted < due {
                    self.post_send(index)?;
                }
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
