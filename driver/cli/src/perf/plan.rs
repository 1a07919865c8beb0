// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Plan`]: what the client asks for and the server does, too.

use ferrowire::Service;
use serde::{Deserialize, Serialize};

use super::{AtomicType, PerfArgs, Test, Verb};
use crate::args::service_name;
use crate::card::Card;
use crate::failure::Failure;
use crate::link::{Wish, GRH};

/// Sizes of `--all`, as powers of two; the last one of a simulated card, and of others.
const ALL: (u32, u32, u32) = (1, 16, 23);

/// What is measured, and how.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// What.
    pub test: Test,
    /// By which operation.
    pub verb: Verb,
    /// Which atomic.
    pub atomic: AtomicType,
    /// How the queue pairs are.
    pub wish: Wish,
    /// One run each.
    pub sizes: Vec<u64>,
    /// Messages of each queue pair, if not so many as go in a time.
    pub iters: u64,
    /// Seconds of the host.
    pub duration: Option<u64>,
    /// Each so many work requests are signalled.
    pub cq_mod: u32,
    /// Both sides send.
    pub bidirectional: bool,
    /// The peak is looked for.
    pub peak: bool,
}

/// Bytes of a run of a simulated card, when nobody says how many messages.
const SIMULATED: u64 = 1 << 20;

/// Refuses options that do not go together.
pub fn check(test: Test, args: &PerfArgs) -> Result<(), Failure> {
    let usage = |what: &str, fix: &str| Err(Failure::usage(what, fix));
    let (service, verb) = (args.connection, args.verb);
    args.peer.check_service(service)?;
    match (service, verb) {
        (Service::Ud, Verb::Write | Verb::Read | Verb::Atomic) => {
            return usage("datagrams have SEND alone", "take `send`, or -c RC");
        }
        (Service::Uc, Verb::Read | Verb::Atomic) => {
            return usage(
                "unreliable connections have WRITE and SEND alone",
                "take `write` or `send`, or -c RC",
            );
        }
        _ => {}
    }
    if service == Service::Ud && args.size.is_some_and(|size| size > args.mtu.bytes() as u64) {
        return usage("a datagram is as long as the path MTU at most", "give a smaller -s, or a larger -m");
    }
    if verb == Verb::Atomic && (args.all || args.size.is_some_and(|size| size != 8)) {
        return usage("atomics have 8 bytes", "leave -s and -a out");
    }
    if args.size.is_some_and(|size| size > 1 << 30) {
        return usage("messages of more than 1 GiB are not measured", "give a smaller -s");
    }
    if test == Test::Lat {
        if args.size == Some(0) && verb == Verb::Write {
            return usage("a WRITE without bytes is seen by nobody", "give -s 1 or more");
        }
        if args.bidirectional {
            return usage("latency is of one message at a time", "leave -b out");
        }
        if args.qps > 1 {
            return usage("latency is of one queue pair", "leave -q out");
        }
    }
    if args.push && args.inline > 16 {
        return usage(
            "a work request that is pushed has up to 16 bytes inline",
            "give -I up to 16, or leave --push out",
        );
    }
    if args.cq_mod > args.tx_depth {
        return usage("with a -Q above -t nothing would ever complete", "give -Q up to the -t");
    }
    Ok(())
}

impl Plan {
    /// What the options say.
    pub fn of(test: Test, args: &PerfArgs, card: &Card) -> Result<Self, Failure> {
        let verb = args.verb;
        let can = card.context.capabilities();
        let ud = args.connection == Service::Ud;
        let usual = match (test, verb) {
            (_, Verb::Atomic) => 8,
            (Test::Lat, _) => 2,
            (Test::Bw, _) if ud => args.mtu.bytes() as u64,
            (Test::Bw, _) => 65536,
        };
        let sizes = match args.all {
            true => {
                let last = if card.simulated { ALL.1 } else { ALL.2 };
                let all = (ALL.0..=last).map(|log2| 1 << log2);
                all.filter(|size| !ud || *size <= args.mtu.bytes() as u64).collect()
            }
            false => vec![args.size.unwrap_or(usual)],
        };
        let iters = args.iters.unwrap_or(match (test, verb) {
            _ if card.simulated => {
                let largest = sizes.iter().copied().max().unwrap_or(0).max(1);
                (SIMULATED / largest / u64::from(args.qps)).clamp(10, 100)
            }
            (Test::Bw, Verb::Write) => 5000,
            _ => 1000,
        });
        if args.inline > can.max_inline {
            let what = format!("-I {}: {} takes {} bytes inline", args.inline, card.name, can.max_inline);
            return Err(Failure::failed(what, "give a smaller -I"));
        }
        let depth = if test == Test::Lat { 1 } else { args.tx_depth };
        let wish = Wish {
            service: service_name(args.connection).into(),
            qps: args.qps,
            mtu: args.mtu.bytes() as u32,
            send_wr: depth,
            recv_wr: if verb == Verb::Send { args.rx_depth } else { 1 },
            inline: args.inline,
            outstanding: args.outs.unwrap_or(u8::MAX),
            timeout: args.qp_timeout.unwrap_or(if card.simulated { 10 } else { 14 }),
            retry: 7,
            push: args.push,
            selective: args.peer.selective,
        };
        let duration = args.duration;
        Ok(Self {
            test,
            verb,
            atomic: args.atomic_type,
            wish,
            sizes,
            iters,
            duration,
            cq_mod: if duration.is_some() || test == Test::Lat { 1 } else { args.cq_mod },
            bidirectional: args.bidirectional,
            peak: !args.no_peak && duration.is_none(),
        })
    }

    /// Whether the server was started for the same.
    pub fn agrees_with(&self, test: Test, verb: Verb) -> Result<(), Failure> {
        let name = |test: Test, verb: Verb| {
            format!("{} {}", format!("{test:?}").to_lowercase(), format!("{verb:?}").to_lowercase())
        };
        let (theirs, ours) = (name(self.test, self.verb), name(test, verb));
        // What a peer sends is not taken on trust.
        let sound = !self.sizes.is_empty()
            && self.largest() <= 1 << 30
            && (1..=16384).contains(&self.wish.qps)
            && (1..=32768).contains(&self.wish.send_wr)
            && (1..=32768).contains(&self.wish.recv_wr)
            && (1..=self.wish.send_wr).contains(&self.cq_mod)
            && self.iters > 0;
        match theirs == ours && sound {
            true => Ok(()),
            false if theirs != ours => Err(Failure::failed(
                format!("the client wishes `{theirs}`, this is `{ours}`"),
                "start both sides alike",
            )),
            false => Err(Failure::failed(
                "the client wishes what makes no sense",
                "run the same version of ferrowire on both sides",
            )),
        }
    }

    /// Whether messages are datagrams.
    pub fn is_ud(&self) -> bool {
        self.wish.service == "UD"
    }

    /// The largest message.
    pub fn largest(&self) -> u64 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// Bytes of half of a region.
    pub fn half(&self) -> usize {
        (self.largest() as usize + GRH).next_multiple_of(64)
    }

    /// Whether a card has room for it.
    ///
    /// # Errors
    /// It has fewer queue pairs, or smaller completion queues, or no such path MTU.
    pub fn fits(&self, card: &Card) -> Result<(), Failure> {
        self.wish.fits(card)?;
        let most = card.context.capabilities().max_cqe();
        let (needed, each) = (self.completions(), self.completions_of_each());
        if needed <= most {
            return Ok(());
        }
        let what = format!(
            "-q {}: {needed} completions outstanding, {each} for each queue pair; a completion queue of {} has up to {most} entries",
            self.wish.qps, card.name
        );
        Err(Failure::failed(what, format!("give -q up to {}, or a smaller -t or -r", most / each)))
    }

    /// Completions that may be there at once.
    pub fn completions(&self) -> u32 {
        self.wish.qps.saturating_mul(self.completions_of_each()).max(1)
    }

    fn completions_of_each(&self) -> u32 {
        self.wish.send_wr + if self.verb == Verb::Send { self.wish.recv_wr } else { 0 }
    }
}
