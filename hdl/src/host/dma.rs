// SPDX-License-Identifier: MIT OR Apache-2.0
//! The card's one read channel and one write channel of host memory, shared by clients.
//!
//! ```text
//!  client 0 --->|\      +--> skid --> request      data ---> | by order | ---> client 0
//!  client 1 --->| >-----+                                    +----------+ ---> client 1
//!  client n --->|/      +--> order of the clients -----------------^      ---> client n
//!
//!  client 0 --->|\
//!  client 1 --->| >--> reg --> write            round robin, a whole write at a time
//!  client n --->|/
//! ```
//!
//! [`read`]: one request a cycle, latency 1; data passes in the cycle in which it comes. Data comes in the order of the
//! requests and is never held up: a client asks only when it has room for the whole answer. A client that is not ready
//! breaks that promise; an assertion says so. [`READS`] requests may be under way.
//!
//! [`write`]: one beat a cycle, latency 1, and a path from `ready` to the clients'; 2 for a client that finds the channel idle and at another client. What a client hands over after a beat of another client was taken leaves
//! behind that beat: nothing overtakes. So a completion that is offered after its data was taken follows its data.
//!
//! Bad input: a request of no bytes, of more than 4,096, or across a page of 4 KiB is a client's fault and asserted.
//! Reset forgets what is under way; no answer may come for it.

use crate::config::RnicConfig;
use crate::stream::{arbiter_from, arbiter_held, breath, fifo, forward, half, skid, Chosen};
use crate::types::{DmaReadData, DmaReadRequest, DmaWrite, ORDERS};
use ferrowire_rtl::{cat, clog2, lit, module, Scope, Sig, Stream};

/// Read requests under way, all clients together.
pub const READS: u32 = 256;

/// The largest entry of a queue in host memory, in bytes.
pub(crate) const ENTRY: u32 = 32;

/// Within one page, and not empty.
fn legal(address: Sig, length: Sig) -> Sig {
    let end = address.trunc(12).zext(14) + length.zext(14);
    length.ne(0) & end.le(4096)
}

/// The read channel: the requests of all clients, and each client's data. With `time` a request comes in two cycles.
#[module]
pub fn read(
    m: &Scope,
    #[param] time: bool,
    clients: Vec<Stream<DmaReadRequest>>,
    data: Stream<DmaReadData>,
) -> (Stream<DmaReadRequest>, Vec<Stream<DmaReadData>>) {
    let n = clients.len();
    let chosen = match time {
        true => {
            let named = |(i, client): (usize, Stream<DmaReadRequest>)| {
                let client = half(&m.label(&format!("client{i}")), client);
                client.map(|item| Chosen { source: lit(clog2(n as u64), i), item: item.clone() })
            };
            let clients = clients.into_iter().enumerate().map(named);
            arbiter_held(m, &|_: &Chosen<DmaReadRequest>| lit(1, 1), clients.collect())
        }
        false => arbiter_from(m, &|_: &DmaReadRequest| lit(1, 1), clients),
    };
    let chosen = breath(&m.label("chosen"), time, chosen);
    m.when(chosen.valid, |m| {
        m.assert(legal(chosen.item.address, chosen.item.length), "a read leaves its page or is empty");
    });
    // Both takers know whether they have room before there is anything.
    let (request_room, order_room) = (m.wire("request_room", 1), m.wire("order_room", 1));
    let request = Stream::new(m, "chosen_request", chosen.valid & order_room, chosen.item.clone());
    // A bit a client: whose data comes is decoded before it comes.
    let turns: Vec<Sig> = (0..n).map(|i| chosen.source.eq(i)).collect();
    let order = Stream::new(m, "chosen_order", chosen.valid & request_room, cat(&turns));
    m.drive(&request_room, request.ready);
    m.drive(&order_room, order.ready);
    chosen.accept(request_room & order_room);
    let request = skid(m, request);
    // No data comes before the request has been on show, so there is a cycle for the register.
    let order = forward(&m.label("order"), fifo(m, READS, order));

    data.accept(1);
    order.accept(data.valid & data.last);
    m.when(data.valid, |m| m.assert(order.valid, "data that nobody asked for"));
    let came: Vec<Sig> = (0..n as u32).map(|i| data.valid & order.valid & order.payload.bit(i)).collect();
    let (came, beat) = match time {
        true => {
            let later = |came: &Sig| {
                let reg = m.reg("came", 1).reset(0);
                m.set(&reg, came);
                reg
            };
            (came.iter().map(later).collect(), m.delay("beat", &data.payload))
        }
        false => (came, data.payload.clone()),
    };
    let answers: Vec<Stream<DmaReadData>> = (0..n)
        .map(|i| {
            let mine = came[i];
            let answer = Stream::new(m, &format!("answer{i}"), mine, beat.clone());
            m.assert(!mine | answer.ready, "a client asked for data without room for it");
            answer
        })
        .collect();
    (request, answers)
}

/// A beat without its data, and whose it is.
#[derive(Clone, ferrowire_rtl::Bundle)]
struct Part {
    client: Sig,
    address: Sig,
    length: Sig,
    strobe: Sig,
    last: Sig,
    order: Sig,
}

/// The write channel. The first `wide` clients have data of any kind; those of the others are a queue's entries, repeated every
/// [`ENTRY`] bytes, and cost a multiplexer of that width.
#[module]
pub fn write(m: &Scope, #[param] wide: usize, clients: Vec<Stream<DmaWrite>>) -> Stream<DmaWrite> {
    let data: Vec<Sig> = clients.iter().map(|client| client.data).collect();
    let beat = data[0].width();
    let count = clog2(clients.len() as u64).max(1);
    let parts = (0..).zip(clients).map(|(i, client): (u32, _)| {
        client.map(|beat| Part {
            client: lit(count, i),
            address: beat.address,
            length: beat.length,
            strobe: beat.strobe,
            last: beat.last,
            order: beat.order,
        })
    });
    let part = arbiter_held(m, &|part: &Part| part.last, parts.collect());
    m.when(part.valid, |m| {
        m.assert(legal(part.address, part.length), "a write leaves its page or is empty");
    });

    let (wide, entries) = data.split_at(wide);
    let mut choices = wide.to_vec();
    if !entries.is_empty() {
        let width = beat.min(8 * ENTRY);
        let entries: Vec<Sig> = entries.iter().map(|data| data.trunc(width)).collect();
        let which = (part.client - wide.len() as u32).trunc(clog2(entries.len() as u64).max(1));
        let entry = m.select(which, &entries);
        choices.extend((0..entries.len()).map(|_| entry.repeat(beat / width)));
    }
    let data = m.select(part.client, &choices);
    forward(
        m,
        part.map(|part| DmaWrite {
            address: part.address,
            length: part.length,
            data,
            strobe: part.strobe,
            last: part.last,
            order: part.order,
        }),
    )
}

/// An entry of a queue in host memory, to be written.
#[derive(Clone, ferrowire_rtl::Bundle)]
pub(crate) struct EntryWrite {
    /// Where; a multiple of the entry's size.
    pub address: Sig,
    /// The entry, byte 0 in bits 7:0; a power of two of bytes.
    pub entry: Sig,
}

/// What must be seen before a write; see [`ORDERS`].
#[derive(Clone, Copy)]
pub(crate) enum Order {
    /// Nothing.
    Payload,
    /// Payload.
    Completion,
    /// Both.
    Event,
    /// As of payload, and other payload may pass it.
    Relaxed,
}

impl Order {
    /// As `order` of a [`DmaWrite`].
    pub fn code(self) -> Sig {
        lit(clog2(ORDERS.into()), self as u32)
    }
}

/// Beats that write an entry: one, or as many as it has. Latency 0; the entry is taken with its last beat, by a path
/// from the output's `ready`.
#[module]
pub(crate) fn write_entry(
    m: &Scope,
    cfg: &RnicConfig,
    #[param] order: Order,
    input: Stream<EntryWrite>,
) -> Stream<DmaWrite> {
    let (beat, size) = (cfg.beat_bytes, input.entry.width() / 8);
    assert!(size <= ENTRY, "an entry of {size} bytes");
    let length = lit(13, size);
    if size <= beat {
        let slots = beat / size;
        let lanes = Sig::repeat(&lit(1, 1), size).zext(beat);
        let strobe = match slots {
            1 => lanes,
            _ => {
                let slot = input.address.slice(size.trailing_zeros(), slots.trailing_zeros());
                let places: Vec<Sig> = (0..slots).map(|i| lanes << (i * size)).collect();
                m.select(slot, &places)
            }
        };
        return input.map(|i| DmaWrite {
            address: i.address,
            length,
            data: i.entry.repeat(slots),
            strobe,
            last: lit(1, 1),
            order: order.code(),
        });
    }
    let count = size / beat;
    let at = m.reg("at", count.trailing_zeros()).reset(0);
    let last = at.eq(count - 1);
    let payload = DmaWrite {
        address: input.address,
        length,
        data: m.select(at, &input.entry.chunks(8 * beat)),
        strobe: lit(1, 1).repeat(beat),
        last,
        order: order.code(),
    };
    let out = Stream::new(m, "out", input.valid, payload);
    input.accept(out.ready & last);
    m.when(out.fire(), |m| m.set(&at, at + 1));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{drain, item, run, Random, Sink, Source};
    use ferrowire_rtl::{build, Bits, Sim};
    use rand::Rng;

    fn config(beat_bytes: u32) -> RnicConfig {
        RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() }
    }

    fn read_sim(cfg: &RnicConfig, n: usize) -> Sim {
        let netlist = build("top", |m| {
            let clients = (0..n).map(|i| m.stream_in(&format!("client{i}"), &DmaReadRequest::of())).collect();
            let data = m.stream_in("data", &DmaReadData::of(cfg));
            let (request, answers) = read(m, cfg.unhurried(), clients, data);
            m.stream_out("request", request);
            for (i, answer) in answers.into_iter().enumerate() {
                m.stream_out(&format!("answer{i}"), answer);
            }
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        sim
    }

    #[test]
    fn each_client_gets_its_own_data_in_order() {
        for beat_bytes in [8, 64] {
            let cfg = config(beat_bytes);
            let mut sim = read_sim(&cfg, 3);
            let mut random = Random::new(1);
            let mut sources: Vec<Source> =
                (0..3).map(|i| Source::new(&format!("client{i}"), &DmaReadRequest::of())).collect();
            sources.push(Source::new("data", &DmaReadData::of(&cfg)));
            let mut sinks = vec![Sink::new("request", &DmaReadRequest::of())];
            for i in 0..3 {
                let mut sink = Sink::new(&format!("answer{i}"), &DmaReadData::of(&cfg));
                sink.stall = Some(0.0);
                sinks.push(sink);
            }
            // The address says who asks for what.
            let mut asked = vec![Vec::new(); 3];
            for (i, asked) in asked.iter_mut().enumerate() {
                for j in 0..100u64 {
                    let length = u128::from(beat_bytes) * random.rng.random_range(1..4u128);
                    let address = (i as u64) << 40 | j << 12;
                    sources[i].push_values(&[("address", u128::from(address)), ("length", length)]);
                    asked.push((address, length / u128::from(beat_bytes)));
                }
            }
            let mut answered = 0;
            for _ in 0..20_000 {
                crate::testing::step(&mut sim, &mut sources, &mut sinks, &mut random, 0.3);
                for item in sinks[0].items.iter().skip(answered) {
                    let beats = item["length"].to_u64() / u64::from(beat_bytes);
                    for k in 0..beats {
                        let data = u128::from(item["address"].to_u64() + k);
                        let last = u128::from(k + 1 == beats);
                        sources[3].push_values(&[("data", data & u128::from(u64::MAX)), ("last", last)]);
                    }
                }
                answered = sinks[0].items.len();
            }
            drain(&mut sim, &mut sources, &mut sinks, &mut random, 0.3, 5_000, 10);
            for (i, asked) in asked.iter().enumerate() {
                let expected: Vec<u64> =
                    asked.iter().flat_map(|(a, beats)| (0..*beats as u64).map(move |k| a + k)).collect();
                let got: Vec<u64> = sinks[1 + i].items.iter().map(|item| item["data"].words()[0]).collect();
                assert_eq!(got, expected, "seed {}", random.seed);
            }
        }
    }

    #[test]
    #[should_panic(expected = "without room")]
    fn a_client_without_room_is_found() {
        let cfg = config(8);
        let mut sim = read_sim(&cfg, 2);
        let mut random = Random::new(1);
        let mut sources = [
            Source::new("client0", &DmaReadRequest::of()),
            Source::new("client1", &DmaReadRequest::of()),
            Source::new("data", &DmaReadData::of(&cfg)),
        ];
        let mut sinks: Vec<Sink> =
            ["answer0", "answer1"].iter().map(|n| Sink::new(n, &DmaReadData::of(&cfg))).collect();
        sinks.push(Sink::new("request", &DmaReadRequest::of()));
        sinks[0].stall = Some(1.0);
        sources[0].push_values(&[("length", 8)]);
        run(&mut sim, &mut sources, &mut sinks, &mut random, 0.0, 100, |s| s[2].items.len() == 1);
        sources[2].push_values(&[("last", 1)]);
        drain(&mut sim, &mut sources, &mut sinks, &mut random, 0.0, 100, 10);
    }

    /// A beat's data: of the first client anything, of the others an entry.
    fn data(cfg: &RnicConfig, client: u64, k: u64) -> Bits {
        let (entry, beat) = (ENTRY.min(cfg.beat_bytes) as usize, cfg.beat_bytes as usize);
        let period = if client == 0 { beat } else { entry };
        let bytes: Vec<u8> =
            (0..beat).map(|at| k as u8 + 16 * client as u8 + 3 * (at % period) as u8).collect();
        Bits::from_bytes(8 * cfg.beat_bytes, &bytes)
    }

    #[test]
    fn writes_are_whole_and_nothing_overtakes() {
        for beat_bytes in [8, 64] {
            let cfg = config(beat_bytes);
            let netlist = build("top", |m| {
                let clients =
                    (0..3).map(|i| m.stream_in(&format!("client{i}"), &DmaWrite::of(&cfg))).collect();
                m.stream_out("write", write(m, 1, clients));
            });
            let mut sim = Sim::new(&netlist.unwrap());
            sim.reset();
            let mut random = Random::new(2);
            let mut sources: Vec<Source> =
                (0..3).map(|i| Source::new(&format!("client{i}"), &DmaWrite::of(&cfg))).collect();
            for (i, source) in sources.iter_mut().enumerate() {
                for j in 0..60u128 {
                    let beats = random.rng.random_range(1..4u128);
                    for k in 0..beats {
                        let fields = [
                            ("address", (i as u128) << 32 | j << 12),
                            ("length", beats * u128::from(beat_bytes)),
                            ("last", u128::from(k + 1 == beats)),
                        ];
                        let mut beat = item(&DmaWrite::of(&cfg), &fields);
                        beat.insert("data".into(), data(&cfg, i as u64, k as u64));
                        source.push(beat);
                    }
                }
            }
            let total: usize = sources.iter().map(Source::left).sum();
            let mut sinks = [Sink::new("write", &DmaWrite::of(&cfg))];
            run(&mut sim, &mut sources, &mut sinks, &mut random, 0.3, 20_000, |s| s[0].items.len() == total);
            let mut under_way: Option<(u64, u64)> = None;
            for item in &sinks[0].items {
                let (address, k) = (item["address"].to_u64(), item["data"].words()[0]);
                let k = (k & 0xff) - 16 * (address >> 32);
                assert_eq!(item["data"], data(&cfg, address >> 32, k), "seed {}", random.seed);
                assert_eq!(k, under_way.map_or(0, |(_, k)| k + 1), "seed {}", random.seed);
                assert!(under_way.is_none_or(|(a, _)| a == address), "seed {}: writes mix", random.seed);
                under_way = item["last"].is_zero().then_some((address, k));
            }
            // Beats leave in the order in which they were taken.
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (i, source) in sources.iter().enumerate() {
                taken.extend(source.cycles.iter().map(|c| (*c, i as u64)));
            }
            taken.sort_unstable();
            let left: Vec<u64> = sinks[0].items.iter().map(|item| item["address"].to_u64() >> 32).collect();
            assert_eq!(left, taken.iter().map(|(_, i)| *i).collect::<Vec<_>>(), "seed {}", random.seed);
        }
    }
}
