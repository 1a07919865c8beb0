// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where frames that came too early are kept: each a chain of chunks of one memory.
//!
//! ```text
//!               +--> data: 4 beats a chunk --> out
//!  frame -------+--> next chunk of each ----+
//!     ^         +--> kept {first, beats}    |
//!     | spare                               v
//!     +------ free chunks <---------- chunks that were read <-- fetch {first, beats}
//! ```
//!
//! A frame is written beat by beat, and told with its last one. A frame that is fetched is read once, and its chunks are free as they are read. Whoever
//! writes a frame has looked at `free` before. So a frame does not stop half-way for want of a chunk, but it may wait up to five cycles for one that has just been
//! read and counts as free already.
//!
//! **Throughput:** one beat a cycle in and one out at the same time, no bubble between frames. **Latency:** `kept` a cycle after the last beat, the first
//! beat of a fetched frame three cycles after `fetch`. `ready` of the frame depends on registers and on `last`, `ready` of `fetch` on that of `out`. Ports: data
//! one write and one read, both clocked and with a register behind the read; likewise the links. Reset: all is free.

use crate::config::RnicConfig;
use crate::loopback::merge::least_room;
use crate::stream::{deep_fifo, fifo, skid, Beat};
use ferrowire_rtl::{bits, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};

/// Beats of a chunk: a link is read while its chunk is.
pub const CHUNK: u32 = 4;
/// Beats that have been read and not taken.
const SHOWN: u32 = 32;

/// A frame in the store.
#[derive(Clone, Bundle)]
pub struct Chain {
    /// Its first chunk.
    pub first: Sig,
    /// Its beats.
    pub beats: Sig,
}

impl Chain {
    /// The shape.
    pub fn of(cfg: &RnicConfig, chunks: u32) -> Self {
        Chain { first: bits(clog2(chunks.into())), beats: bits(beat_bits(cfg)) }
    }
}

/// A frame that is read.
#[derive(Clone, Bundle)]
pub struct Fetch {
    /// Where it is.
    pub chain: Chain,
    /// It is thrown away.
    pub discard: Sig,
}

impl Fetch {
    /// The shape.
    pub fn of(cfg: &RnicConfig, chunks: u32) -> Self {
        Fetch { chain: Chain::of(cfg, chunks), discard: bits(1) }
    }
}

/// Beats of the largest frame with what is kept before it, rounded up.
pub fn largest(cfg: &RnicConfig) -> u32 {
    least_room(cfg) + 1024 / (8 * cfg.beat_bytes)
}

/// Bits of the number of beats of a frame.
fn beat_bits(cfg: &RnicConfig) -> u32 {
    clog2(u64::from(largest(cfg)) + 1)
}

/// A beat of the first ones of a frame.
#[derive(Clone, Bundle)]
pub struct Head {
    /// In this cycle.
    pub valid: Sig,
    /// Its bytes.
    pub data: Sig,
}

/// What comes out of the store.
#[derive(Interface)]
pub struct Store {
    /// Frames that are written whole, in the order in which they were written.
    pub kept: Stream<Chain>,
    /// The first beats of each frame that is read: they wait for nobody.
    pub head: Head,
    /// Frames that were fetched.
    pub out: Stream<Beat>,
    /// Chunks that are free.
    pub free: Sig,
}

/// Keeps frames in so many chunks, a power of two; see the page's top.
#[module]
pub fn store(
    m: &Scope,
    cfg: &RnicConfig,
    #[param] chunks: u32,
    #[param] heads: u32,
    frame: Stream<Beat>,
    fetch: Stream<Fetch>,
) -> Store {
    let chunk_bits = clog2(chunks.into());
    let lane_bits = clog2(CHUNK.into());
    let data = m.mem("data", chunks * CHUNK, &frame.payload).style(cfg.large(chunks * CHUNK)).build();
    let links = m.mem("links", chunks, &bits(chunk_bits)).style(Style::Block).build();

    // Chunks that may be written: first those that never were, then those that come back.
    let (back, backs) = m.later("back", &bits(chunk_bits));
    let back = deep_fifo(&m.label("free"), chunks, back);
    let fresh = m.reg("fresh", chunk_bits + 1).reset(0);
    let unused = !fresh.msb();
    let spare =
        Stream::new(m, "next_spare", unused | back.valid, unused.then(fresh.trunc(chunk_bits), *back));
    m.when(spare.fire() & unused, |m| m.set(&fresh, fresh + 1));
    back.accept(spare.ready & !unused);
    let spare = fifo(&m.label("spare"), 2, spare);

    // In.
    let lane = m.reg("lane", lane_bits).reset(0);
    let within = m.reg("within", 1).reset(0);
    let at = m.reg("at", chunk_bits).no_reset();
    let first = m.reg("first", chunk_bits).no_reset();
    let beats = m.reg("beats", beat_bits(cfg)).reset(0);
    let begins = lane.eq(0);
    let chunk = begins.then(*spare, at).named("chunk");
    let head = within.then(first, *spare);
    let ends = Stream::new(
        m,
        "ends",
        frame.valid & frame.last & (!begins | spare.valid),
        Chain { first: head, beats: beats + 1 },
    );
    frame.accept((!begins | spare.valid) & (!frame.last | ends.ready));
    let fire = frame.fire();
    let takes = (fire & begins).named("takes");
    spare.accept(takes);
    data.write(fire, ferrowire_rtl::cat(&[lane, chunk]), &frame.payload);
    links.write(takes & within, at, &*spare);
    m.when(fire, |m| {
        m.set(&at, chunk);
        m.set(&first, head);
        m.set(&within, !frame.last);
        m.set(&lane, frame.last.then(lit(lane_bits, 0), lane + 1));
        m.set(&beats, frame.last.then(lit(beats.width(), 0), beats + 1));
    });
    let kept = skid(&m.label("kept"), ends);

    // Out.
    let runs = m.reg("runs", 1).reset(0);
    let from = m.reg("from", chunk_bits).no_reset();
    let from_lane = m.reg("from_lane", lane_bits).no_reset();
    let left = m.reg("left", beat_bits(cfg)).no_reset();
    let (fetched, shown) = (m.reg("fetched", 1).reset(0), m.reg("shown", 1).reset(0));
    // What is read has its place: the stages never stand still.
    let has_place = m.reg("has_place", 1).reset(1);
    let issues = (runs & has_place).named("issues");
    let last = left.eq(1);
    let leaves = (issues & (from_lane.eq(CHUNK - 1) | last)).named("leaves");
    // Read again and again while its chunk is read: long before the last beat the link is there.
    let link = m.delay("link", &links.read(m, lit(1, 1), from, Collision::Any));
    fetch.accept(!runs | (issues & last));
    let throws = m.reg("throws", 1).no_reset();
    let head_left = m.reg("head_left", clog2(u64::from(heads) + 1).max(1)).no_reset();
    let in_head = head_left.ne(0);
    m.when(issues, |m| {
        m.when(in_head, |m| m.set(&head_left, head_left - 1));
        m.set(&left, left - 1);
        m.set(&from_lane, from_lane + 1);
        m.set(&runs, !last);
        m.when(leaves, |m| m.set(&from, link));
    });
    m.when(fetch.fire(), |m| {
        m.set(&runs, 1);
        m.set(&throws, fetch.discard);
        m.set(&head_left, heads);
        m.set(&from, fetch.chain.first);
        m.set(&from_lane, 0);
        m.set(&left, fetch.chain.beats);
    });
    let read = data.read(m, issues, ferrowire_rtl::cat(&[from_lane, from]), Collision::Never);
    let beat = m.reg_of("beat", &frame.payload);
    m.set(&fetched, issues);
    m.set(&shown, fetched);
    m.set_all(&beat, &read);
    // What each beat is comes along.
    let follow = |name: &str, what: Sig| m.delay(name, &m.delay(&format!("{name}_read"), &what));
    let (is_head, is_thrown) = (follow("is_head", in_head), follow("is_thrown", throws));
    let head_beat = Head { valid: shown & is_head & !is_thrown, data: beat.data };
    let out = Stream::new(m, "beat", shown & !is_head & !is_thrown, beat);
    m.assert(!out.valid | out.ready, "what is read has its place");
    m.discard(&out.ready);
    let out = fifo(&m.label("out"), SHOWN, out);
    let count = m.reg("count", clog2(u64::from(SHOWN) + 1)).reset(0);
    let shows = issues & !in_head & !throws;
    let now = count + shows.zext(count.width()) - out.fire().zext(count.width());
    m.set(&count, now);
    m.set(&has_place, now.lt(SHOWN));
    let returned = Stream::new(m, "returned", leaves, from);
    m.assert(!returned.valid | returned.ready, "there is room for every chunk that comes back");
    backs.connect(returned);

    let free = m.reg("free_chunks", chunk_bits + 1).reset(chunks);
    let one = |s: Sig| s.zext(chunk_bits + 1);
    m.set(&free, free + one(leaves) - one(takes));
    m.assert(!takes | free.ne(0), "a chunk that is taken is free");
    Store { kept, head: head_beat, out, free }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{step, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;
    use std::collections::VecDeque;

    const CHUNKS: u32 = 16;

    fn bench(beat_bytes: u32) -> (Sim, [Source; 2], [Sink; 2]) {
        let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-64b").unwrap() };
        let (beat, chain) = (Beat::of(beat_bytes), Chain::of(&cfg, CHUNKS));
        let fetch = Fetch::of(&cfg, CHUNKS);
        let netlist = build("bench", |m| {
            let out = store(m, &cfg, CHUNKS, 0, m.stream_in("frame", &beat), m.stream_in("fetch", &fetch));
            m.stream_out("kept", out.kept);
            m.stream_out("out", out.out);
            m.discard(&out.head);
            m.output("free", &out.free);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        (
            sim,
            [Source::new("frame", &beat), Source::new("fetch", &fetch)],
            [Sink::new("kept", &chain), Sink::new("out", &beat)],
        )
    }

    #[test]
    fn frames_come_back_whole_in_any_order_and_every_chunk_is_free_in_the_end() {
        for (beat_bytes, stall, seed) in [(8, 0.0, 1), (8, 0.4, 2), (64, 0.0, 3), (64, 0.3, 4), (64, 0.7, 5)]
        {
            let (mut sim, mut sources, mut sinks) = bench(beat_bytes);
            let mut random = Random::new(seed);
            // Frames that are written, those that are kept, and those that were fetched.
            let (mut coming, mut kept, mut fetched) = (VecDeque::new(), Vec::new(), Vec::new());
            let (mut room, mut seen, mut back, mut full) = (CHUNKS, 0, 0, 0);
            for round in 0..8000 {
                let beats = random.rng.random_range(1..12u32);
                let chunks = beats.div_ceil(CHUNK);
                full += usize::from(chunks > room);
                if round < 6000 && sources[0].left() < 12 && chunks <= room {
                    let bytes = (beats - 1) * beat_bytes + random.rng.random_range(1..=beat_bytes);
                    let frame = random.bytes(bytes as usize);
                    sources[0].push_frame(&frame);
                    room -= chunks;
                    coming.push_back((frame, chunks));
                }
                // Now few are kept, now many.
                let often = if round % 1000 < 500 && round < 6000 { 0.02 } else { 0.5 };
                if !kept.is_empty() && sources[1].left() < 3 && random.chance(often) {
                    let at = random.rng.random_range(0..kept.len());
                    let (chain, frame, chunks): ((u64, u64), Vec<u8>, u32) = kept.swap_remove(at);
                    sources[1]
                        .push_values(&[("chain_first", chain.0.into()), ("chain_beats", chain.1.into())]);
                    fetched.push((frame, chunks));
                }
                step(&mut sim, &mut sources, &mut sinks, &mut random, stall);
                for item in &sinks[0].items[seen..] {
                    let (frame, chunks) = coming.pop_front().expect("it was written");
                    kept.push(((item["first"].to_u64(), item["beats"].to_u64()), frame, chunks));
                }
                seen = sinks[0].items.len();
                let out = sinks[1].frames_seen();
                room += fetched[back..out].iter().map(|(_, chunks)| chunks).sum::<u32>();
                back = out;
            }
            assert!(coming.is_empty() && kept.is_empty(), "seed {seed}");
            let wanted: Vec<Vec<u8>> = fetched.into_iter().map(|(frame, _)| frame).collect();
            assert!(wanted.len() > 300 && full > 100, "seed {seed}: {} frames, {full} waits", wanted.len());
            assert!(sinks[1].frames() == wanted, "seed {seed}");
            assert_eq!(sim.get("free"), CHUNKS.into(), "seed {seed}");
        }
    }

    #[test]
    fn a_beat_goes_in_and_one_comes_out_in_each_cycle() {
        let (mut sim, mut sources, mut sinks) = bench(64);
        let mut random = Random::new(1);
        let frames: Vec<Vec<u8>> = [1, 2, 3, 4, 5, 6, 1, 2, 3].map(|beats| random.bytes(64 * beats)).into();
        let write = |source: &mut Source| frames.iter().for_each(|frame| source.push_frame(frame));
        write(&mut sources[0]);
        while sinks[0].items.len() < frames.len() {
            step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
        }
        // They are fetched, and their chunks are written again meanwhile.
        for item in &sinks[0].items {
            let (first, beats) = (item["first"].to_u128(), item["beats"].to_u128());
            sources[1].push_values(&[("chain_first", first), ("chain_beats", beats)]);
        }
        (0..4).for_each(|_| step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0));
        sources[0].cycles.clear();
        write(&mut sources[0]);
        while sinks[1].frames_seen() < frames.len() {
            step(&mut sim, &mut sources, &mut sinks, &mut random, 0.0);
        }
        assert!(sinks[1].frames() == frames);
        let cycles = &sources[0].cycles;
        assert_eq!(cycles[cycles.len() - 1] - cycles[0], cycles.len() as u64 - 1, "the writer never waits");
        let cycles = &sinks[1].cycles;
        assert_eq!(cycles[cycles.len() - 1] - cycles[0], cycles.len() as u64 - 1, "nor does the reader");
    }
}
