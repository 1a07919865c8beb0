// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a packet comes from its queue pair's peer (IBTA volume 1, 9.6.1.2; A17.4.3).
//!
//! ```text
//!  QP ------> [ addresses: block RAM ] --> = --> from_peer
//!      \----> [ lives: block RAM ] ------------> peer
//!  source --------------------------------^
//! ```
//!
//! The one place that knows the peers' addresses: whoever deals with the packet later has a bit instead of an address. Meanwhile the
//! queue pair may have another peer. So each change of its address makes it a new `peer`, and what a packet has shown counts only where that is still the
//! queue pair's (256 changes later it would be again; a packet waits for less).
//!
//! **Throughput:** a packet a cycle. **Latency:** [`LATENCY`]. **Reset** leaves the tables as they are: a queue pair has an address before it
//! takes packets. A new address must not be told after the new life.

use crate::config::RnicConfig;
use crate::types::TableWrite;
use ferrowire_rtl::{bits, lit, module, Bundle, Collision, Scope, Sig, Style};

/// Cycles from a packet to what is known of its source.
pub const LATENCY: u32 = 2;
/// Bits of what tells a queue pair's peers apart.
pub const PEER_BITS: u32 = 8;

/// An address.
#[derive(Clone, Bundle)]
pub struct Address {
    /// It is IPv6.
    pub ipv6: Sig,
    /// IPv4 in the low 32 bits, zeros above.
    pub ip: Sig,
}

impl Address {
    /// The shape.
    pub fn of() -> Self {
        Address { ipv6: bits(1), ip: bits(128) }
    }
}

/// What a queue pair has with its peer of now.
#[derive(Clone, Bundle)]
pub struct Life {
    /// What tells its peers apart.
    pub peer: Sig,
    /// They have agreed on selective retransmission.
    pub selective: Sig,
}

impl Life {
    /// The shape.
    pub fn of() -> Self {
        Life { peer: bits(PEER_BITS), selective: bits(1) }
    }
}

/// What the queue pairs' peers are.
#[derive(Clone, Bundle)]
pub struct Peers {
    /// Their addresses.
    pub addresses: TableWrite<Address>,
    /// What tells those of a queue pair apart.
    pub lives: TableWrite<Life>,
}

impl Peers {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        let index = bits(cfg.qp_bits());
        Peers {
            addresses: TableWrite { enable: bits(1), index, entry: Address::of() },
            lives: TableWrite { enable: bits(1), index, entry: Life::of() },
        }
    }
}

/// What is known of a source.
#[derive(Clone, Bundle)]
pub struct Origin {
    /// It was the queue pair's peer.
    pub from_peer: Sig,
    /// This one.
    pub peer: Sig,
    /// With which it has agreed on selective retransmission.
    pub selective: Sig,
}

impl Origin {
    /// The shape.
    pub fn of() -> Self {
        Origin { from_peer: bits(1), peer: bits(PEER_BITS), selective: bits(1) }
    }

    /// Whether it is the peer that the queue pair has now.
    pub fn is(&self, peer: Sig) -> Sig {
        self.from_peer & self.peer.eq(peer)
    }
}

/// Looks at sources, [`LATENCY`] cycles behind each. `stays`: a source stays until it is known.
#[module]
pub fn source_of(
    m: &Scope,
    cfg: &RnicConfig,
    #[param] stays: bool,
    peers: Peers,
    qp: Sig,
    source: Address,
) -> Origin {
    let always = lit(1, 1);
    let table = m.mem("addresses", cfg.qps, &Address::of()).style(Style::Block).build();
    let Peers { addresses, lives } = peers;
    table.write(addresses.enable, addresses.index, &addresses.entry);
    let held = table.read(m, always, qp, Collision::Old);
    let of_lives = m.mem("lives", cfg.qps, &Life::of()).style(Style::Block).build();
    of_lives.write(lives.enable, lives.index, &lives.entry);
    let life = of_lives.read(m, always, qp, Collision::Old);
    let source = if stays { source } else { m.delay("source", &source) };
    let same = held.ipv6.eq(source.ipv6) & held.ip.eq(source.ip);
    let life = m.delay("life", &life);
    let selective = cfg.only(cfg.selective, life.selective);
    m.discard(&life);
    Origin { from_peer: m.delay("from_peer", &same), peer: life.peer, selective }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use ferrowire_rtl::{build, Bits, Sim};
    use rand::Rng;

    const QPS: usize = 16;

    #[test]
    fn a_source_is_the_peers_when_all_of_it_is_what_the_queue_pair_was_given() {
        for stays in [false, true] {
            let cfg = RnicConfig::named("generic-8b").unwrap();
            assert_eq!(cfg.qps as usize, QPS);
            let netlist = build("top", |m| {
                let (peers, qp) = (m.input_of("peers", &Peers::of(&cfg)), m.input("qp", cfg.qp_bits()));
                let source = m.input_of("source", &Address::of());
                m.output("origin", &source_of(m, &cfg, stays, peers, qp, source));
            });
            let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
            sim.reset();
            let mut random = Random::new(83);
            let rng = &mut random.rng;
            let mut given = [(false, 0u128, 0u64); QPS];
            let (mut ours, mut others) = (0, 0);
            for round in 0..3_000 {
                let qp = if round < QPS { round } else { rng.random_range(0..QPS) };
                if round < QPS || rng.random_bool(0.1) {
                    let ipv6 = rng.random();
                    let ip = if ipv6 { rng.random() } else { rng.random::<u32>().into() };
                    given[qp] = (ipv6, ip, rng.random_range(0..256));
                    sim.set("peers_addresses_enable", 1);
                    sim.set("peers_addresses_index", qp as u64);
                    sim.set("peers_addresses_entry_ipv6", ipv6.into());
                    sim.set_bits("peers_addresses_entry_ip", &Bits::new(128, ip));
                    sim.set("peers_lives_enable", 1);
                    sim.set("peers_lives_index", qp as u64);
                    sim.set("peers_lives_entry_peer", given[qp].2);
                    sim.set("peers_lives_entry_selective", given[qp].2 & 1);
                    sim.tick();
                    sim.set("peers_addresses_enable", 0);
                    sim.set("peers_lives_enable", 0);
                    continue;
                }
                let (mut ipv6, mut ip, life) = given[qp];
                match rng.random_range(0..4) {
                    0 => ip ^= 1 << rng.random_range(0..128),
                    1 => ipv6 = !ipv6,
                    _ => {}
                }
                sim.set("qp", qp as u64);
                sim.set("source_ipv6", ipv6.into());
                sim.set_bits("source_ip", &Bits::new(128, ip));
                (0..LATENCY).for_each(|_| {
                    sim.tick();
                    if !stays {
                        sim.set("source_ipv6", rng.random::<bool>().into());
                    }
                });
                let same = (ipv6, ip) == (given[qp].0, given[qp].1);
                let selective = sim.get("origin_selective");
                assert_eq!(selective, u64::from(cfg.selective) & life, "seed {}", random.seed);
                let origin = (sim.get("origin_from_peer") == 1, sim.get("origin_peer"));
                assert_eq!(origin, (same, life), "seed {}", random.seed);
                *if same { &mut ours } else { &mut others } += 1;
            }
            assert!(ours > 1_000 && others > 1_000, "{ours}, {others}");
        }
    }
}
