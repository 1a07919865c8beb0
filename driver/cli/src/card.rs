// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Card`]: a card that is opened, with its addresses and its clock.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use clap::Args;
use ferrowire::{
    AccessFlags, Bus, Completion, CompletionQueue, Context, ContextOptions, Event, EventQueue, MemoryRegion,
    PageSize, PathMtu, ProtectionDomain,
};
use ferrowire_cards::gids;

use crate::args::parse_mac;
use crate::device::Device;
use crate::failure::Failure;
use crate::side::Channel;

/// The port's addresses.
#[derive(Args, Debug, Clone, Default)]
pub struct AddressArgs {
    /// MAC address of the port, if not its own
    #[arg(long, value_name = "ADDRESS", value_parser = parse_mac)]
    mac: Option<[u8; 6]>,
    /// IP address of the port, if not one of `gids`
    #[arg(long, value_name = "ADDRESS", conflicts_with = "gid_index")]
    ip: Option<IpAddr>,
    /// Which of the addresses that `gids` lists
    #[arg(
        short = 'x',
        visible_short_alias = 'g',
        long = "gid-index",
        value_name = "INDEX",
        default_value_t = 0
    )]
    gid_index: usize,
    /// VLAN that all of this is in, with a priority behind a colon: `5`, or `5:3`
    #[arg(long, value_name = "VLAN[:PRIORITY]", value_parser = parse_vlan)]
    vlan: Option<u16>,
}

/// A tag's control information (IEEE 802.1Q 9.6).
fn parse_vlan(text: &str) -> Result<u16, String> {
    let (vlan, priority) = text.split_once(':').unwrap_or((text, "0"));
    match (vlan.parse(), priority.parse::<u16>()) {
        (Ok(vlan @ 1..=4094), Ok(priority @ 0..=7)) => Ok(priority << 13 | vlan),
        _ => Err(format!(
            "`{text}`: give a VLAN from 1 to 4094, and a priority from 0 to 7 if there is to be one"
        )),
    }
}

/// Longest wait for a command: a simulated card on a busy machine is slow.
const COMMAND: Duration = Duration::from_secs(60);
/// Longest wait for a completion when nothing else happens.
const IDLE: Duration = Duration::from_secs(120);

/// By which clock figures are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// That of a simulated card, in its cycles.
    Card {
        /// Its rate.
        khz: u32,
    },
    /// This machine's, in nanoseconds.
    Host,
}

impl Clock {
    /// Seconds of so many ticks.
    pub fn seconds(self, ticks: u64) -> f64 {
        ticks as f64 / self.per_second()
    }

    /// Ticks a second.
    pub fn per_second(self) -> f64 {
        match self {
            Clock::Card { khz } => f64::from(khz) * 1e3,
            Clock::Host => 1e9,
        }
    }
}

/// A card, opened.
pub struct Card {
    /// Its name.
    pub name: String,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its address.
    pub ip: IpAddr,
    /// Number of that among its GIDs.
    pub gid_index: usize,
    /// The VLAN that both are in, as a tag's control information.
    pub vlan: Option<u16>,
    /// Figures are by it.
    pub clock: Clock,
    /// It is simulated.
    pub simulated: bool,
    /// It is no card, but the reference engine in the place of one.
    pub engine: bool,
    /// The domain of everything.
    pub pd: ProtectionDomain,
    /// The card.
    pub context: Context,
}

impl Card {
    /// Opens the card behind a bus, which resets it, and gives it its addresses.
    ///
    /// # Errors
    /// The card does not come up, or has no address.
    pub fn open(device: &Device, bus: Box<dyn Bus>, addresses: &AddressArgs) -> Result<Self, Failure> {
        let options = ContextOptions { command_timeout: COMMAND, ..ContextOptions::default() };
        let context = Context::open_with(bus, options)?;
        if let Some(mac) = addresses.mac {
            context.set_mac(mac)?;
        }
        let mac = context.mac();
        if mac == [0; 6] {
            let what = format!("{device} has no MAC address");
            return Err(Failure::failed(what, "give it one with --mac, as 02:fe:00:00:00:01"));
        }
        let all = gids::of(&device.key(), mac, context.addresses(), context.capabilities().ipv6)?;
        let (ip, gid_index) = match addresses.ip {
            Some(ip) => (ip, all.iter().position(|known| *known == ip).unwrap_or(all.len())),
            None => match all.get(addresses.gid_index) {
                Some(ip) => (*ip, addresses.gid_index),
                None => {
                    let what = format!("{device} has no GID {}", addresses.gid_index);
                    return Err(Failure::failed(what, "`ferrowire gids` lists them; add one, or give --ip"));
                }
            },
        };
        for address in all {
            context.add_gid(address, addresses.vlan)?;
        }
        context.add_gid(ip, addresses.vlan)?;
        let cycles = context.card_cycles()?;
        let clock = match (cycles, context.clock_khz()?) {
            (Some(_), khz @ 1..) => Clock::Card { khz },
            _ => Clock::Host,
        };
        let simulated = device.is_simulated() || cycles.is_some();
        let pd = context.alloc_pd()?;
        let (name, engine) = (device.to_string(), context.is_engine());
        Ok(Self { name, mac, ip, gid_index, vlan: addresses.vlan, clock, simulated, engine, pd, context })
    }

    /// Whose clock it is, as JSON names it.
    pub fn clock_name(&self) -> &'static str {
        match self.clock {
            Clock::Card { .. } if self.engine => "engine",
            Clock::Card { .. } => "card",
            Clock::Host => "host",
        }
    }

    /// What must be said of times that are not this machine's.
    pub fn clock_note(&self) -> Option<String> {
        match self.clock {
            Clock::Card { .. } if self.engine => {
                Some("reference engine, no card: times are the model's own, and measure nothing".into())
            }
            Clock::Card { khz } => {
                let mhz = f64::from(khz) / 1e3;
                Some(format!("simulated card: times are by its clock of {mhz:.3} MHz"))
            }
            Clock::Host => None,
        }
    }

    /// The time, in ticks of the clock.
    pub fn now(&self) -> Result<u64, Failure> {
        Ok(match self.clock {
            Clock::Card { .. } => self.context.card_cycles()?.unwrap_or(0),
            Clock::Host => self.context.now().as_nanos() as u64,
        })
    }

    /// A path MTU, if the card has it.
    ///
    /// # Errors
    /// It has none that long.
    pub fn path_mtu(&self, bytes: u32) -> Result<PathMtu, Failure> {
        let mtu = PathMtu::ALL.iter().copied().find(|mtu| mtu.bytes() as u32 == bytes);
        let most = self.context.capabilities().max_mtu.known();
        match mtu {
            Some(mtu) if most.is_none_or(|most| mtu.code() <= most.code()) => Ok(mtu),
            _ => {
                let most = most.map_or(0, |most| most.bytes());
                let what = format!("{} has no path MTU of {bytes}", self.name);
                Err(Failure::failed(what, format!("give -m up to {most}")))
            }
        }
    }

    /// Refuses `--selective` if the card cannot retransmit selectively.
    ///
    /// # Errors
    /// That.
    pub fn check_selective(&self, wish: bool) -> Result<(), Failure> {
        match wish && !self.context.capabilities().selective {
            true => Err(no_selective(&self.name)),
            false => Ok(()),
        }
    }

    /// Zeroed memory, registered.
    pub fn region(&self, bytes: usize, access: AccessFlags) -> Result<MemoryRegion, Failure> {
        // Large ones with large pages, which take fewer of the card's entries.
        let large = bytes >= PageSize::Size2M.bytes() as usize
            && self.context.capabilities().page_shifts >> PageSize::Size2M.shift() & 1 == 1;
        let page = if large { PageSize::Size2M } else { PageSize::Size4K };
        let memory = self.context.alloc(bytes.max(1), page.bytes() as usize)?;
        Ok(self.pd.register(&memory, access, page)?)
    }

    /// A completion queue, whose events are slept for or not.
    pub fn completions(&self, entries: u32, events: bool) -> Result<Completions, Failure> {
        let events = events.then(|| self.context.create_eq(16)).transpose()?;
        let cq = match &events {
            Some(events) => self.context.create_cq_with_events(entries, events)?,
            None => self.context.create_cq(entries)?,
        };
        Ok(Completions { cq, events, last: Instant::now() })
    }
}

/// A completion queue that is waited at.
pub struct Completions {
    /// The queue.
    pub cq: CompletionQueue,
    events: Option<EventQueue>,
    /// When something last happened.
    last: Instant,
}

impl Completions {
    /// What has completed, if anything has; all of it well. Looks after the peer meanwhile.
    ///
    /// # Errors
    /// Something failed; the peer is gone; nothing happened for too long.
    pub fn poll(&mut self, out: &mut [Completion], channel: &mut Channel) -> Result<usize, Failure> {
        let mut taken = self.cq.poll(out)?;
        if taken == 0 {
            if let Some(events) = &self.events {
                // Armed before the look: what comes between is not slept through.
                self.cq.request_notify(false)?;
                taken = self.cq.poll(out)?;
                if taken == 0 {
                    events.wait(&mut [Event::default(); 4], Duration::from_millis(100))?;
                }
            }
        }
        if taken == 0 {
            self.idle(channel)?;
            return Ok(0);
        }
        self.last = Instant::now();
        match out[..taken].iter().find(|completion| !completion.is_success()) {
            Some(completion) => Err(ended(completion)),
            None => Ok(taken),
        }
    }

    /// Something happened that was no completion.
    pub fn moved(&mut self) {
        self.last = Instant::now();
    }

    /// Nothing is there yet.
    ///
    /// # Errors
    /// The peer is gone, or nothing happened for too long.
    pub fn idle(&self, channel: &mut Channel) -> Result<(), Failure> {
        channel.pulse("completions were waited for")?;
        match self.last.elapsed() > IDLE {
            true => Err(Failure::failed(
                format!("no completion in {} s", IDLE.as_secs()),
                "of UC and UD lost messages are lost: take RC; see `ferrowire counters` for drops, and whether the wire has an end",
            )),
            false => Ok(()),
        }
    }
}

/// A card of this name has no selective retransmission.
pub fn no_selective(name: impl std::fmt::Display) -> Failure {
    Failure::failed(
        format!("--selective: {name} does not have the feature `selective`"),
        "leave --selective out for go-back-N, or take a card with the feature; `ferrowire info` lists the features of a card",
    )
}

/// Says on the standard error that the peer has not agreed to `--selective`.
pub fn say_go_back_n(peer: impl std::fmt::Display) {
    eprintln!("ferrowire: {peer} does not agree to selective retransmission; both sides use go-back-N");
}

/// A work request that failed.
pub fn ended(completion: &Completion) -> Failure {
    let cause = completion.cause().map_or(String::new(), |cause| format!(" ({cause})"));
    let fix = "see `ferrowire counters --nonzero` of both cards; is the peer there, and has it the addresses that it told?";
    Failure::failed(
        format!(
            "a work request of queue pair {:#x} ended with {}{cause}",
            completion.qpn(),
            completion.status()
        ),
        fix,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_without_selective_retransmission_is_named_with_what_to_do() {
        assert_eq!(
            no_selective("sim:ferrowire0.sock").to_string(),
            "--selective: sim:ferrowire0.sock does not have the feature `selective`; leave --selective out for go-back-N, or take a card with the feature; `ferrowire info` lists the features of a card"
        );
    }

    #[test]
    fn a_vlan_may_have_a_priority() {
        assert_eq!(["1", "4094", "5:7"].map(|text| parse_vlan(text).unwrap()), [1, 0xffe, 0xe005]);
        for bad in ["", "0", "4095", "5:8", "5:", ":1", "-1", "5:1:1"] {
            assert!(parse_vlan(bad).unwrap_err().contains("from 1 to 4094"), "{bad}");
        }
    }
}
