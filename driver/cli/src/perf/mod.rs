// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire bw` and `ferrowire lat`: perftest's measurements, with its options, headings and JSON.

mod bw;
mod lat;
mod plan;
mod report;

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use ferrowire::{PathMtu, Service};
use serde::{Deserialize, Serialize};

use crate::args::{parse_mtu, parse_service, parse_size, Common};
use crate::card::{say_go_back_n, Card};
use crate::failure::Failure;
use crate::link::{self, Queues, GRH};
use crate::out;
use crate::side::{Channel, PATIENCE};
use crate::twosided::{self, PeerArgs, Side};

use plan::Plan;
use report::{Report, Row};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Bandwidth.
    Bw,
    /// Latency.
    Lat,
}

/// By which operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// RDMA WRITE
    Write,
    /// SEND
    Send,
    /// RDMA READ
    Read,
    /// Fetch and add, or compare and swap
    Atomic,
}

/// Which atomic operation, as perftest calls them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum AtomicType {
    /// Fetch and add
    #[value(name = "FETCH_AND_ADD")]
    FetchAndAdd,
    /// Compare and swap
    #[value(name = "CMP_AND_SWAP")]
    CmpAndSwap,
}

/// Options, with perftest's names.
#[derive(Args, Debug)]
pub struct PerfArgs {
    /// The operation
    #[arg(value_name = "OPERATION")]
    verb: Verb,
    #[command(flatten)]
    peer: PeerArgs,
    /// Bytes of a message; 65536 for bandwidth, 2 for latency, 8 of atomics, the path MTU of datagrams, without it
    #[arg(short, long, value_name = "BYTES", value_parser = parse_size, conflicts_with = "all")]
    size: Option<u64>,
    /// Sizes from 2 bytes to 8 MiB, to 64 KiB of a simulated card
    #[arg(short, long)]
    all: bool,
    /// Messages of each queue pair; without it 5000 of WRITE bandwidth and 1000 otherwise, and of a simulated card as many as make a MiB, 10
    /// to 100
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=100_000_000), conflicts_with = "duration")]
    iters: Option<u64>,
    /// Run for so many seconds of this machine's time; the figures are by the card's clock, if it is simulated
    #[arg(short = 'D', long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    duration: Option<u64>,
    /// Path MTU in bytes
    #[arg(short, long, default_value = "1024", value_parser = parse_mtu)]
    mtu: PathMtu,
    /// Queue pairs
    #[arg(short = 'q', long = "qp", default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=16384))]
    qps: u32,
    /// Work requests outstanding on each queue pair; 128 for bandwidth, and 1 for latency, which has no more
    #[arg(short, long, default_value_t = 128, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=32768))]
    tx_depth: u32,
    /// Receives posted on each queue pair
    #[arg(short, long, default_value_t = 512, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=32768))]
    rx_depth: u32,
    /// Signal each so many work requests
    #[arg(short = 'Q', long = "cq-mod", default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1024))]
    cq_mod: u32,
    /// READs and atomics outstanding on each queue pair; as many as the cards allow without it
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..))]
    outs: Option<u8>,
    /// Both sides send
    #[arg(short, long)]
    bidirectional: bool,
    /// Messages up to so many bytes go inline
    #[arg(short = 'I', long = "inline_size", default_value_t = 0, value_name = "BYTES")]
    inline: u16,
    /// Push work requests that are posted alone into the card, which then need not be read from memory: those of `lat`
    #[arg(long)]
    push: bool,
    /// RC, UC or UD
    #[arg(short, long, default_value = "RC", value_parser = parse_service)]
    connection: Service,
    /// Atomic operation
    #[arg(short = 'A', long = "atomic_type", default_value = "FETCH_AND_ADD", value_enum)]
    atomic_type: AtomicType,
    /// ACK time-out: 4.096 us times 2 to that power; 14, or 10 of a simulated card, without it
    #[arg(short = 'u', long = "qp-timeout", value_name = "CODE", value_parser = clap::value_parser!(u8).range(0..=31))]
    qp_timeout: Option<u8>,
    /// Bandwidth in Gb/sec, not MB/sec
    #[arg(long = "report_gbits")]
    gbits: bool,
    /// Latency in cycles of the clock, not in usec
    #[arg(short = 'C', long = "report-cycles")]
    cycles: bool,
    /// Leave out the peak of the bandwidth, which takes a look at the clock for each message
    #[arg(short = 'N', long = "no-peak", visible_alias = "noPeak")]
    no_peak: bool,
    /// Accepted as perftest's: this command does not look at the processor's frequency
    #[arg(short = 'F', long = "CPU-freq")]
    frequency: bool,
    /// Write the JSON to a file
    #[arg(long = "out_json_file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    json_file: Option<PathBuf>,
}

/// Carries it out.
pub fn run(common: &Common, test: Test, args: &PerfArgs) -> Result<(), Failure> {
    plan::check(test, args)?;
    let fits = |card: &Card| able(args, card).and_then(|()| Plan::of(test, args, card)?.fits(card));
    twosided::run(common, &args.peer, fits, |side, channel| one_side(common, test, args, side, channel))
}

/// Whether the card has the operation.
fn able(args: &PerfArgs, card: &Card) -> Result<(), Failure> {
    if args.verb == Verb::Atomic && !card.context.capabilities().atomics {
        let fix = "take a card that has them, as of `ferrowire sim up --config generic-64b`";
        return Err(Failure::failed(format!("{} has no atomics", card.name), fix));
    }
    Ok(())
}

fn one_side(
    common: &Common,
    test: Test,
    args: &PerfArgs,
    side: Side,
    channel: &mut Channel,
) -> Result<(), Failure> {
    let Side { client, card, speaks, .. } = side;
    able(args, &card)?;
    let plan: Plan = match client {
        true => {
            let plan = Plan::of(test, args, &card)?;
            channel.tell("perf", &plan)?;
            plan
        }
        false => {
            let plan: Plan = channel.hear("perf", PATIENCE)?;
            plan.agrees_with(test, args.verb)?;
            plan
        }
    };
    let depth = plan.completions();
    let completions = card.completions(depth, false)?;
    // Two halves: what is sent or fetched into, and what the peer reaches or messages come into.
    let half = plan.half();
    let region = card.region(2 * half, link::rights(&card))?;
    let queues = Queues { cq: &completions.cq, srq: None };
    let (links, own, peer) = link::connect(&card, channel, &plan.wish, queues, &region)?;
    let selective = own.is_selective_with(&peer);
    if speaks && args.peer.selective && !selective {
        say_go_back_n(if client { "the server" } else { "the client" });
    }
    let report = Report { plan: &plan, card: &card, gbits: args.gbits, cycles: args.cycles, selective };
    let speaks_text = speaks && !common.json;
    if speaks_text {
        out::text(&report.heading(&own, &peer))?;
    }
    let mut ends = Ends {
        card: &card,
        plan: &plan,
        client,
        links,
        completions,
        region,
        half,
        peer,
        speaks: speaks_text,
    };
    ends.post_receives()?;
    // Nobody sends before both have receives.
    let (): () = channel.exchange("ready", &())?;
    let mut rows = Vec::new();
    for size in plan.sizes.clone() {
        let row: Row = match test {
            Test::Bw => bw::measure(&mut ends, channel, size)?,
            Test::Lat => lat::measure(&mut ends, channel, size)?,
        };
        if speaks_text {
            out::text(&report.row(&row))?;
        }
        rows.push(row);
    }
    // Nobody leaves before both have all.
    let (): () = channel.exchange("done", &())?;
    drop(ends);
    if speaks_text {
        out::text(&report.end())?;
    }
    if !speaks {
        return Ok(());
    }
    let json = report.json(&rows);
    if let Some(path) = &args.json_file {
        let text = serde_json::to_string_pretty(&json).unwrap_or_default() + "\n";
        let failed = Failure::os(format!("write {}", path.display()), "choose a file that can be written");
        std::fs::write(path, text).map_err(failed)?;
    }
    match common.json {
        true => out::json(&json),
        false => Ok(()),
    }
}

/// A side in the middle of its measurement.
struct Ends<'a> {
    card: &'a Card,
    plan: &'a Plan,
    client: bool,
    links: Vec<link::Link>,
    completions: crate::card::Completions,
    region: ferrowire::MemoryRegion,
    /// Where the second half of the region begins.
    half: usize,
    peer: link::Address,
    speaks: bool,
}

impl Ends<'_> {
    /// Whether messages come that take receives.
    fn receives(&self) -> bool {
        let both = self.plan.bidirectional || self.plan.test == Test::Lat;
        self.plan.verb == Verb::Send && (both || !self.client)
    }

    /// Fills the receive queues of all links.
    fn post_receives(&mut self) -> Result<(), Failure> {
        if self.receives() {
            for at in 0..self.links.len() {
                self.post_receive(at, self.plan.wish.recv_wr)?;
            }
        }
        Ok(())
    }

    /// Posts so many receives to a link: all go to the second half, as perftest's do.
    fn post_receive(&mut self, at: usize, count: u32) -> Result<(), Failure> {
        let grh = if self.plan.is_ud() { GRH } else { 0 };
        let most = self.plan.largest() as usize + grh;
        let sges = [self.region.sge(self.half, most as u32)];
        let mut batch = self.links[at].qp.start_post_recv();
        for _ in 0..count {
            batch.post(&ferrowire::RecvWr::new(at as u64, if most > 0 { &sges } else { &[] }))?;
        }
        Ok(batch.ring()?)
    }
}
