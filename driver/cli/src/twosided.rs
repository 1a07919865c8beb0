// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `pingpong`, `bw` and `lat` have in common: a server and a client, in two processes or in this one.

use std::time::{Duration, Instant};

use clap::Args;
use ferrowire::Service;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{service_name, Common};
use crate::card::{AddressArgs, Card};
use crate::device::Device;
use crate::failure::Failure;
use crate::side::Channel;
use crate::{inproc, out, stop};

/// Where the other side is.
#[derive(Args, Debug)]
pub struct PeerArgs {
    /// Host of the server; without it, this is the server
    #[arg(value_name = "HOST")]
    host: Option<String>,
    /// TCP port over which both tell each other their numbers
    #[arg(short, long, default_value_t = 18515)]
    port: u16,
    /// Port of the card, which has one
    #[arg(short = 'i', long = "ib-port", default_value_t = 1, value_name = "PORT", value_parser = clap::value_parser!(u8).range(1..=1))]
    ib_port: u8,
    /// Send lost packets alone again, if both cards have the feature `selective`; RC only. If the server's card does not have it, both sides use go-back-N
    #[arg(long)]
    pub selective: bool,
    /// The port's addresses.
    #[command(flatten)]
    pub addresses: AddressArgs,
}

impl PeerArgs {
    /// The server's host, of a client.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Refuses `--selective` of a service that has none.
    ///
    /// # Errors
    /// That.
    pub fn check_service(&self, service: Service) -> Result<(), Failure> {
        match self.selective && service != Service::Rc {
            true => Err(Failure::usage(
                format!("--selective is of RC, not of {}", service_name(service)),
                "leave --selective out, or take RC",
            )),
            false => Ok(()),
        }
    }
}

/// One side of a run, whose card is opened: what is wrong with a command line is told before the other side is waited for.
pub struct Side {
    /// Who begins, and whose options count.
    pub client: bool,
    /// The card's name.
    pub device: Device,
    /// The card.
    pub card: Card,
    /// Whether it prints what it does.
    pub speaks: bool,
}

/// Runs `body`: as server, as client, or as both in this process. Before, `check` is asked whether the card can do what the client's options want.
///
/// # Errors
/// Those of either; the card or the other side cannot be reached.
pub fn run(
    common: &Common,
    peer: &PeerArgs,
    check: impl Fn(&Card) -> Result<(), Failure>,
    body: impl Fn(Side, &mut Channel) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    stop::listen();
    let device = common.device()?;
    let body = |side: Side, channel: &mut Channel| {
        body(side, channel).inspect_err(|failure| channel.refuse(&failure.to_string()))
    };
    if let &Device::InProcess(kind) = &device {
        if peer.host.is_some() {
            return Err(Failure::usage("inproc has both sides in this process", "leave the host out"));
        }
        let (server, client) = inproc::pair(kind)?;
        let (mut at_client, mut at_server) = Channel::pair()?;
        let open = |bus| Card::open(&device, bus, &peer.addresses);
        let (server, card) = (open(server)?, open(client)?);
        card.check_selective(peer.selective)?;
        check(&card)?;
        let side = |client: bool, card| Side { client, device: device.clone(), card, speaks: client };
        let (body, server, client) = (&body, side(false, server), side(true, card));
        return std::thread::scope(|scope| {
            let server = scope.spawn(move || {
                let result = body(server, &mut at_server);
                drop(at_server);
                result
            });
            let client = body(client, &mut at_client);
            drop(at_client);
            match server.join() {
                // Of the two, the client tells more.
                Ok(server) => client.and(server),
                Err(_) => client
                    .and(Err(Failure::failed("the server's thread ended", "this is a fault of the command"))),
            }
        });
    }
    // First the card, so that nobody waits for a side that has none, or one that cannot do it.
    let card = Card::open(&device, device.open()?, &peer.addresses)?;
    card.check_selective(peer.selective)?;
    if peer.host.is_some() {
        check(&card)?;
    }
    let mut channel = match &peer.host {
        Some(host) => Channel::connect(host, peer.port)?,
        None => {
            if !common.json {
                let stars = "*".repeat(36);
                out::text(&format!("\n{stars}\n* Waiting for client to connect... *\n{stars}\n"))?;
            }
            Channel::accept(peer.port)?
        }
    };
    body(Side { client: peer.host.is_some(), device, card, speaks: true }, &mut channel)
}

/// A bar for what takes longer than two seconds, where somebody sees it.
pub struct Progress {
    bar: Option<ProgressBar>,
    total: u64,
    since: Instant,
}

impl Progress {
    /// For so many steps; 0: nobody knows.
    pub fn new(total: u64) -> Self {
        Self { bar: None, total, since: Instant::now() }
    }

    /// So many are done.
    pub fn at(&mut self, done: u64) {
        if self.bar.is_none() && self.total > 0 && self.since.elapsed() > Duration::from_secs(2) {
            let bar = ProgressBar::new(self.total);
            if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} messages, {eta} left") {
                bar.set_style(style);
            }
            self.bar = Some(bar);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
