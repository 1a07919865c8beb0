// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses who sends next: round robin over the sources, a packet at a time, and the payload behind its packet.
//!
//! ```text
//!  packet of source 0 --->|\         +------------------------------------> packet
//!  packet of source 1 --->| >-- fork +--> order: FIFO of sources --+
//!                         |/              that have payload to come |
//!                                                                 \|
//!  payload of source 0 ------------------------------------------>| >-----> payload
//!  payload of source 1 ------------------------------------------>|/
//! ```
//!
//! A source without payload (an acknowledgement, a READ request) never waits for more than one packet of each other
//! source; that is what lets answers of the responder through between the requester's packets. Payloads leave in the
//! order of their packets, whole, and may be up to [`ORDER`] packets behind.
//!
//! Latency: 0 for the packet, 2 from the packet to its payload's first beat. Throughput: a packet and a beat of payload
//! a cycle, no cycle lost at a change of source. A source must offer a packet only when its payload is at hand or sure
//! to come without the others' packets: they wait behind it.
//!
//! Bad input: a packet with payload from a source that has no payload stream fails an assertion. There are paths from
//! the outputs' `ready` to the inputs'; the takers have registers.

use super::Payload;
use crate::config::RnicConfig;
use crate::stream::{arbiter_from, fifo, fork, forward};
use crate::types::TxPacket;
use ferrowire_rtl::{clog2, lit, module, Bundle, Interface, Scope, Sig, Stream};

/// Packets with payload that may be ahead of their payload.
pub const ORDER: u32 = 8;

/// Somebody who sends.
#[derive(Interface)]
pub struct TxSource {
    /// Its packets.
    pub packet: Stream<TxPacket>,
    /// Their payload, if any of them has some.
    pub payload: Option<Stream<Payload>>,
}

/// Packets and their payload, in one order.
#[derive(Interface)]
pub struct TxChosen {
    /// The packets.
    pub packet: Stream<TxPacket>,
    /// The payload of those that have some.
    pub payload: Stream<Payload>,
}

/// Merges the sources, a packet at a time.
///
/// # Panics
/// Where no source has payload.
#[module]
pub fn arbitrate(m: &Scope, cfg: &RnicConfig, source: Vec<TxSource>) -> TxChosen {
    let (packets, payloads): (Vec<_>, Vec<_>) = source.into_iter().map(|s| (s.packet, s.payload)).unzip();
    assert!(payloads.iter().any(Option::is_some), "nobody sends payload");
    let n = payloads.len();
    let width = clog2(n as u64);

    let single = |_: &TxPacket| lit(1, 1);
    let chosen = arbiter_from(m, &single, packets);
    for (i, payload) in payloads.iter().enumerate() {
        if payload.is_none() {
            let wrong = chosen.valid & chosen.source.eq(i) & chosen.item.payload_bytes.any();
            m.assert(!wrong, "a packet with payload comes from a source without payload");
        }
    }
    let mut ways = fork(m, 2, chosen).into_iter();
    let (Some(packet), Some(order)) = (ways.next(), ways.next()) else { unreachable!("two ways") };
    let packet = packet.map(|chosen| chosen.item.clone());

    let none = order.item.payload_bytes.eq(0);
    let order = order.discard_if(m, none).map(|chosen| chosen.source);
    // Which source it is is known late, or read late: there is a register on one side of the FIFO.
    let register = |turn| forward(&m.label("turn"), turn);
    let turn = match cfg.unhurried() {
        true => register(fifo(m, ORDER, order)),
        false => fifo(m, ORDER, register(order)),
    };
    let shape = Payload::of(cfg);
    let (mut valids, mut items) = (Vec::<Sig>::new(), Vec::<Payload>::new());
    for payload in &payloads {
        match payload {
            Some(stream) => {
                valids.push(stream.valid);
                items.push(stream.payload.clone());
            }
            None => {
                valids.push(lit(1, 0));
                items.push(shape.zeros());
            }
        }
    }
    let valid = turn.valid & m.select(turn.payload, &valids);
    let payload = Stream::new(m, "payload", valid, m.select(turn.payload, &items));
    for (i, source) in payloads.iter().enumerate() {
        if let Some(source) = source {
            source.accept(turn.valid & payload.ready & turn.payload.eq(lit(width, i)));
        }
    }
    turn.accept(payload.fire() & payload.last);
    TxChosen { packet, payload }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{drain, run, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;

    fn config() -> RnicConfig {
        RnicConfig::named("generic-8b").unwrap()
    }

    /// Sources 0 and 2 have payload, source 1 has none.
    fn sim(cfg: &RnicConfig) -> Sim {
        let netlist = build("top", |m| {
            let sources = (0..3)
                .map(|i| TxSource {
                    packet: m.stream_in(&format!("packet{i}"), &TxPacket::of(cfg)),
                    payload: (i != 1).then(|| m.stream_in(&format!("payload{i}"), &Payload::of(cfg))),
                })
                .collect();
            let chosen = arbitrate(m, cfg, sources);
            m.stream_out("packet", chosen.packet);
            m.stream_out("payload", chosen.payload);
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        sim
    }

    /// The packets' sources are 0 to 2, the payloads' 3 and 4.
    fn sources(cfg: &RnicConfig) -> Vec<Source> {
        let packets = (0..3).map(|i| Source::new(&format!("packet{i}"), &TxPacket::of(cfg)));
        packets.chain([0, 2].map(|i| Source::new(&format!("payload{i}"), &Payload::of(cfg)))).collect()
    }

    fn sinks(cfg: &RnicConfig) -> [Sink; 2] {
        [Sink::new("packet", &TxPacket::of(cfg)), Sink::new("payload", &Payload::of(cfg))]
    }

    /// Packet number `psn` of a source, whose payload's beats all hold what names it.
    fn push(sources: &mut [Source], source: usize, psn: u64, bytes: u64) {
        let values = [("qp", source as u128), ("psn", psn.into()), ("payload_bytes", bytes.into())];
        sources[source].push_values(&values);
        let beats = bytes.div_ceil(8);
        for beat in 0..beats {
            let name = u128::from((source as u64) << 32 | psn << 8 | beat);
            sources[3 + source / 2].push_values(&[("data", name), ("last", u128::from(beat + 1 == beats))]);
        }
    }

    /// Checks that each packet's payload came in the packets' order, whole, and gives the packets' sources.
    fn check(sinks: &[Sink; 2], seed: u64) -> Vec<u64> {
        let mut expected = Vec::new();
        for packet in &sinks[0].items {
            let (source, psn) = (packet["qp"].to_u64(), packet["psn"].to_u64());
            let beats = packet["payload_bytes"].to_u64().div_ceil(8);
            expected.extend((0..beats).map(|beat| source << 32 | psn << 8 | beat));
        }
        assert_eq!(sinks[1].values("data"), expected, "seed {seed}");
        sinks[0].values("qp")
    }

    #[test]
    fn payload_follows_its_packet_under_random_stalls() {
        let cfg = config();
        for stall in [0.0, 0.3, 0.7] {
            let (mut sim, mut sources, mut sinks) = (sim(&cfg), sources(&cfg), sinks(&cfg));
            let mut random = Random::new(1);
            for psn in 0..60 {
                for source in 0..3 {
                    let empty = source == 1 || random.chance(0.3);
                    let bytes = if empty { 0 } else { random.rng.random_range(1..60) };
                    push(&mut sources, source, psn, bytes);
                }
            }
            drain(&mut sim, &mut sources, &mut sinks, &mut random, stall, 50_000, 50);
            let order = check(&sinks, random.seed);
            for source in 0..3 {
                let psns: Vec<u64> = sinks[0]
                    .values("psn")
                    .into_iter()
                    .zip(&order)
                    .filter(|(_, from)| **from == source)
                    .map(|(psn, _)| psn)
                    .collect();
                assert!(psns.into_iter().eq(0..60), "seed {}", random.seed);
            }
        }
    }

    #[test]
    fn payload_of_changing_sources_leaves_without_a_bubble() {
        let cfg = config();
        let (mut sim, mut sources, mut sinks) = (sim(&cfg), sources(&cfg), sinks(&cfg));
        let mut random = Random::new(2);
        for psn in 0..20 {
            push(&mut sources, 0, psn, 24);
            push(&mut sources, 2, psn, 16);
        }
        run(&mut sim, &mut sources, &mut sinks, &mut random, 0.0, 500, |s| s[1].items.len() == 100);
        let order = check(&sinks, random.seed);
        assert!(order.chunks(2).all(|pair| pair == [0, 2]), "{order:?}");
        assert_eq!(sinks[1].cycles[99] - sinks[1].cycles[0], 99);
    }

    #[test]
    fn an_answer_waits_for_at_most_one_packet_of_each_other_source() {
        let cfg = config();
        let (mut sim, mut sources, mut sinks) = (sim(&cfg), sources(&cfg), sinks(&cfg));
        let mut random = Random::new(3);
        for psn in 0..100 {
            push(&mut sources, 0, psn, 8);
            push(&mut sources, 2, psn, 8);
        }
        for psn in 0..20 {
            let pause = random.rng.random_range(1..5);
            drain_some(&mut sim, &mut sources, &mut sinks, &mut random, pause);
            let before = sinks[0].items.len();
            push(&mut sources, 1, psn, 0);
            drain_some(&mut sim, &mut sources, &mut sinks, &mut random, 3);
            let waited = sinks[0].values("qp")[before..].iter().position(|s| *s == 1);
            assert!(waited.is_some_and(|w| w <= 2), "seed {}", random.seed);
        }
    }

    fn drain_some(sim: &mut Sim, sources: &mut [Source], sinks: &mut [Sink], random: &mut Random, n: usize) {
        for _ in 0..n {
            crate::testing::step(sim, sources, sinks, random, 0.0);
        }
    }

    #[test]
    #[should_panic(expected = "a packet with payload comes from a source without payload")]
    fn payload_that_nobody_brings_is_found() {
        let cfg = config();
        let (mut sim, mut sources, mut sinks) = (sim(&cfg), sources(&cfg), sinks(&cfg));
        sources[1].push_values(&[("payload_bytes", 1)]);
        drain_some(&mut sim, &mut sources, &mut sinks, &mut Random::new(4), 3);
    }
}
