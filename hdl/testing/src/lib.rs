// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drives the streams of a simulated block in unit tests: random stalls, the stream convention, frames.
//!
//! It is a crate of its own to be compiled with optimisation, for it runs in every cycle of those tests.
//!
//! A [`Source`] feeds the ports `NAME_valid`, `NAME_ready` and `NAME_FIELD` of a top that was made with
//! `m.stream_in(NAME, ..)`; a [`Sink`] takes from `m.stream_out(NAME, ..)`. [`run`] clocks the simulator and, every
//! cycle, holds the block to the convention: valid and payload do not depend on ready, and once valid is high both
//! stay until the beat has passed.
//!
//! ```ignore
//! let mut random = Random::new(1);
//! let mut frames = Source::new("frame", &Beat::of(8));
//! frames.push_frame(&[1, 2, 3]);
//! let mut out = [Sink::new("out", &Beat::of(8))];
//! run(&mut sim, &mut [frames], &mut out, &mut random, 0.3, 1000, |sinks| sinks[0].frames_seen() == 1);
//! assert_eq!(out[0].frames(), [vec![1, 2, 3]]);
//! ```
//!
//! A failure names the seed; `FERROWIRE_SEED=n` runs a test with another one.
#![forbid(unsafe_code)]

use ferrowire_rtl::{Bits, Bundle, PortIndex, Sim};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// The payload of one beat: its fields by path; a payload that is a single signal has the path `""`.
pub type Item = BTreeMap<Rc<str>, Bits>;

/// A random generator that knows its seed.
pub struct Random {
    /// What it began with.
    pub seed: u64,
    /// The generator.
    pub rng: SmallRng,
}

impl Random {
    /// From `FERROWIRE_SEED`, else from `seed`. Prints which, for the captured output of a failing test.
    pub fn new(seed: u64) -> Random {
        let seed = match std::env::var("FERROWIRE_SEED") {
            Ok(text) => text.parse().expect("FERROWIRE_SEED is a number"),
            Err(_) => seed,
        };
        println!("seed {seed}: FERROWIRE_SEED={seed} repeats this run");
        Random { seed, rng: SmallRng::seed_from_u64(seed) }
    }

    /// Whether something of this probability happens.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.random_bool(probability)
    }

    /// Random bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.rng.random()).collect()
    }

    /// A random value of at most 1,024 bits.
    pub fn bits(&mut self, width: u32) -> Bits {
        let mut bytes = [0; 128];
        let bytes = bytes.get_mut(..width.div_ceil(8) as usize).expect("no field is wider");
        bytes.iter_mut().for_each(|byte| *byte = self.rng.random());
        Bits::from_bytes(width, bytes)
    }
}

/// An item from numbers: `item(&shape, &[("psn", 3), ..])`; fields not named are zero.
#[track_caller]
pub fn item<T: Bundle>(shape: &T, values: &[(&str, u128)]) -> Item {
    let mut item: Item =
        shape.fields().into_iter().map(|(path, s)| (path.into(), Bits::zero(s.width()))).collect();
    for (path, value) in values {
        let Some(field) = item.get_mut(*path) else {
            panic!(
                "no field `{path}`; there are: {}",
                item.keys().map(|key| &**key).collect::<Vec<_>>().join(", ")
            )
        };
        let bits = Bits::new(field.width(), *value);
        assert_eq!(bits.to_u128(), *value, "`{path}` has {} bits", field.width());
        *field = bits;
    }
    item
}

fn shape_of<T: Bundle>(shape: &T) -> Vec<(Rc<str>, u32)> {
    shape.fields().into_iter().map(|(path, sig)| (path.into(), sig.width())).collect()
}

/// The ports of a stream: looked up once, for the first cycle's simulator. A source or a sink serves one.
struct Ports {
    valid: PortIndex,
    ready: PortIndex,
    fields: Vec<PortIndex>,
}

impl Ports {
    fn of(sim: &Sim, name: &str, fields: &[(Rc<str>, u32)]) -> Self {
        let port = |field: &str| sim.port(&ferrowire_rtl::join(name, field));
        let fields = fields.iter().map(|(path, _)| port(path)).collect();
        Ports { valid: port("valid"), ready: port("ready"), fields }
    }

    /// What is on offer, in the order of the fields.
    fn offer(&self, sim: &mut Sim) -> Vec<Bits> {
        self.fields.iter().map(|field| sim.get_bits_at(*field)).collect()
    }
}

/// Feeds a stream into the block.
pub struct Source {
    name: String,
    fields: Vec<(Rc<str>, u32)>,
    ports: Option<Ports>,
    /// Beats, in the order of the fields.
    queue: VecDeque<Vec<Bits>>,
    offered: bool,
    /// Probability of a pause before a beat, instead of that of the run.
    pub stall: Option<f64>,
    /// The cycles in which beats passed.
    pub cycles: Vec<u64>,
}

impl Source {
    /// For the ports of `m.stream_in(name, shape)`.
    pub fn new<T: Bundle>(name: &str, shape: &T) -> Source {
        let fields = shape_of(shape);
        Source {
            name: name.into(),
            fields,
            ports: None,
            queue: VecDeque::new(),
            offered: false,
            stall: None,
            cycles: Vec::new(),
        }
    }

    /// Queues a beat.
    #[track_caller]
    pub fn push(&mut self, item: Item) {
        let same = item.len() == self.fields.len()
            && self
                .fields
                .iter()
                .all(|(path, width)| item.get(&**path).is_some_and(|bits| bits.width() == *width));
        assert!(same, "the beat {item:?} has not the fields of `{}`: {:?}", self.name, self.fields);
        self.queue.push_back(self.fields.iter().map(|(path, _)| item[&**path].clone()).collect());
    }

    /// Queues a beat given by numbers; fields not named are zero.
    #[track_caller]
    pub fn push_values(&mut self, values: &[(&str, u128)]) {
        let mut beat: Vec<Bits> = self.fields.iter().map(|(_, width)| Bits::zero(*width)).collect();
        for (path, value) in values {
            let field = self.fields.iter().position(|(field, _)| **field == **path);
            let field = field.unwrap_or_else(|| panic!("`{}` has no field `{path}`", self.name));
            let bits = Bits::new(beat[field].width(), *value);
            assert_eq!(bits.to_u128(), *value, "`{path}` of `{}` has {} bits", self.name, bits.width());
            beat[field] = bits;
        }
        self.queue.push_back(beat);
    }

    /// Queues a frame, for a stream of `Beat`.
    #[track_caller]
    pub fn push_frame(&mut self, frame: &[u8]) {
        let width = self.fields.iter().find(|(path, _)| &**path == "data").expect("a stream of beats").1;
        for beat in frames_to_beats([frame], width / 8) {
            self.push(beat);
        }
    }

    /// Beats that have not passed yet.
    pub fn left(&self) -> usize {
        self.queue.len()
    }
}

/// Takes a stream from the block.
pub struct Sink {
    name: String,
    fields: Vec<(Rc<str>, u32)>,
    ports: Option<Ports>,
    waiting: Option<Vec<Bits>>,
    inside: bool,
    frames: usize,
    /// Probability of a pause before a beat is taken, instead of that of the run.
    pub stall: Option<f64>,
    /// What came.
    pub items: Vec<Item>,
    /// The cycles in which it came.
    pub cycles: Vec<u64>,
    /// Cycles without valid between the first and the last beat of a frame, for a stream with a field `last`.
    pub gaps: u64,
}

impl Sink {
    /// For the ports of `m.stream_out(name, stream)`.
    pub fn new<T: Bundle>(name: &str, shape: &T) -> Sink {
        Sink {
            name: name.into(),
            fields: shape_of(shape),
            ports: None,
            waiting: None,
            inside: false,
            frames: 0,
            stall: None,
            items: Vec::new(),
            cycles: Vec::new(),
            gaps: 0,
        }
    }

    /// The frames that came whole, of a stream of `Beat`.
    #[track_caller]
    pub fn frames(&self) -> Vec<Vec<u8>> {
        beats_to_frames(&self.items)
    }

    /// How many frames came whole, of a stream with a field `last`.
    pub fn frames_seen(&self) -> usize {
        self.frames
    }

    /// Forgets what came.
    pub fn clear(&mut self) {
        self.items.clear();
        self.cycles.clear();
        (self.frames, self.gaps) = (0, 0);
    }

    /// One field of everything that came.
    pub fn values(&self, field: &str) -> Vec<u64> {
        self.items.iter().map(|item| item[field].to_u64()).collect()
    }
}

/// Frames as beats of `beat_bytes`. What the last beat has above the frame is not zero: a block must not look at it.
pub fn frames_to_beats<'a>(frames: impl IntoIterator<Item = &'a [u8]>, beat_bytes: u32) -> Vec<Item> {
    let (mut beats, n) = (Vec::new(), beat_bytes as usize);
    for frame in frames {
        assert!(!frame.is_empty(), "a frame has at least one byte");
        let count = frame.len().div_ceil(n);
        for (i, chunk) in frame.chunks(n).enumerate() {
            let mut bytes = chunk.to_vec();
            bytes.resize(n, 0xa5);
            let fields = [
                ("data", Bits::from_bytes(8 * beat_bytes, &bytes)),
                ("last", Bits::new(1, u128::from(i + 1 == count))),
                ("empty", Bits::new(beat_bytes.trailing_zeros(), (n - chunk.len()) as u128)),
            ];
            beats.push(fields.into_iter().map(|(path, bits)| (path.into(), bits)).collect());
        }
    }
    beats
}

/// The inverse of [`frames_to_beats`]; beats of a frame that has not ended are left out.
#[track_caller]
pub fn beats_to_frames(beats: &[Item]) -> Vec<Vec<u8>> {
    let (mut frames, mut frame) = (Vec::new(), Vec::new());
    for beat in beats {
        let (last, empty) = (!beat["last"].is_zero(), beat["empty"].to_u64() as usize);
        assert!(last || empty == 0, "a beat that is not the last has {empty} empty bytes");
        let bytes = beat["data"].to_bytes();
        frame.extend_from_slice(&bytes[..bytes.len() - empty]);
        if last {
            frames.push(std::mem::take(&mut frame));
        }
    }
    frames
}

/// One cycle: offers, takes, checks the convention, ticks.
#[track_caller]
pub fn step(sim: &mut Sim, sources: &mut [Source], sinks: &mut [Sink], random: &mut Random, stall: f64) {
    let (seed, cycle) = (random.seed, sim.cycles());
    for source in sources.iter_mut() {
        source.offered =
            !source.queue.is_empty() && (source.offered || !random.chance(source.stall.unwrap_or(stall)));
        let ports = source.ports.get_or_insert_with(|| Ports::of(sim, &source.name, &source.fields));
        sim.set_at(ports.valid, u64::from(source.offered));
        match source.queue.front() {
            Some(beat) if source.offered => {
                ports.fields.iter().zip(beat).for_each(|(field, value)| sim.set_bits_at(*field, value));
            }
            // Without valid the payload means nothing: make sure that nobody believes it.
            _ => {
                for (field, (_, width)) in ports.fields.iter().zip(&source.fields) {
                    sim.set_bits_at(*field, &random.bits(*width));
                }
            }
        }
    }
    for sink in sinks.iter_mut() {
        let ports = sink.ports.get_or_insert_with(|| Ports::of(sim, &sink.name, &sink.fields));
        sim.set_at(ports.ready, 0);
    }
    let offer_of = |sim: &mut Sim, sink: &Sink| {
        let ports = sink.ports.as_ref().expect("looked up above");
        (sim.get_at(ports.valid) == 1).then(|| ports.offer(sim))
    };
    let offers: Vec<Option<Vec<Bits>>> = sinks.iter().map(|sink| offer_of(sim, sink)).collect();
    let takes: Vec<bool> = sinks.iter().map(|sink| !random.chance(sink.stall.unwrap_or(stall))).collect();
    for (sink, take) in sinks.iter().zip(&takes) {
        let ports = sink.ports.as_ref().expect("looked up above");
        sim.set_at(ports.ready, u64::from(*take));
    }
    for ((sink, offer), take) in sinks.iter_mut().zip(offers).zip(takes) {
        let now = offer_of(sim, sink);
        let name = &sink.name;
        assert!(
            now.is_some() == offer.is_some(),
            "seed {seed}, cycle {cycle}: valid of `{name}` depends on ready"
        );
        if sink.waiting.is_some() {
            assert!(
                offer == sink.waiting,
                "seed {seed}, cycle {cycle}: `{name}` took an offer back or changed it"
            );
        }
        sink.gaps += u64::from(sink.inside && offer.is_none());
        assert!(now == offer, "seed {seed}, cycle {cycle}: the payload of `{name}` depends on ready");
        let Some(offer) = offer else { continue };
        if take {
            let paths = sink.fields.iter().map(|(path, _)| path.clone());
            let item: Item = paths.zip(offer).collect();
            let last = item.get("last").map(|last| !last.is_zero());
            sink.inside = last == Some(false);
            sink.frames += usize::from(last == Some(true));
            sink.items.push(item);
            sink.cycles.push(cycle);
            sink.waiting = None;
        } else {
            sink.waiting = Some(offer);
        }
    }
    for source in sources.iter_mut() {
        let ports = source.ports.as_ref().expect("looked up above");
        if source.offered && sim.get_at(ports.ready) == 1 {
            source.queue.pop_front();
            source.cycles.push(cycle);
            source.offered = false;
        }
    }
    sim.tick();
}

/// Clocks until `until` holds of the sinks; `stall` is the probability of a pause on each stream in each cycle.
///
/// # Panics
/// After `cycles` cycles, with the seed; and where the block breaks the stream convention.
#[track_caller]
pub fn run(
    sim: &mut Sim,
    sources: &mut [Source],
    sinks: &mut [Sink],
    random: &mut Random,
    stall: f64,
    cycles: u64,
    mut until: impl FnMut(&[Sink]) -> bool,
) {
    for _ in 0..cycles {
        if until(sinks) {
            return;
        }
        step(sim, sources, sinks, random, stall);
    }
    if !until(sinks) {
        let left: Vec<String> =
            sources.iter().map(|s| format!("{} beats left in `{}`", s.left(), s.name)).collect();
        let seen: Vec<String> =
            sinks.iter().map(|s| format!("{} beats out of `{}`", s.items.len(), s.name)).collect();
        panic!(
            "seed {}: not done after {cycles} cycles: {}; {}",
            random.seed,
            left.join(", "),
            seen.join(", ")
        );
    }
}

/// Clocks until all sources are empty, and `idle` cycles more.
///
/// # Panics
/// As [`run`].
#[track_caller]
pub fn drain(
    sim: &mut Sim,
    sources: &mut [Source],
    sinks: &mut [Sink],
    random: &mut Random,
    stall: f64,
    cycles: u64,
    idle: u64,
) {
    let mut n = 0;
    while sources.iter().any(|s| s.left() > 0) {
        let left: usize = sources.iter().map(Source::left).sum();
        assert!(n < cycles, "seed {}: {left} beats were not taken within {cycles} cycles", random.seed);
        step(sim, sources, sinks, random, stall);
        n += 1;
    }
    for _ in 0..idle {
        step(sim, sources, sinks, random, stall);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrowire_parts::Beat;
    use ferrowire_rtl::{build, Scope, Sig, Stream};

    /// Frames through `block`, which has a stream of beats on both sides.
    fn pass_frames(block: impl FnOnce(&Scope, Stream<Beat>) -> Stream<Beat>) {
        let netlist = build("top", |m| {
            let out = block(m, m.stream_in("frame", &Beat::of(8)));
            m.stream_out("out", out);
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        let mut random = Random::new(1);
        let mut source = [Source::new("frame", &Beat::of(8))];
        let mut sink = [Sink::new("out", &Beat::of(8))];
        let sent: Vec<Vec<u8>> = (1..50).map(|n| random.bytes(4 * n)).collect();
        sent.iter().for_each(|frame| source[0].push_frame(frame));
        run(&mut sim, &mut source, &mut sink, &mut random, 0.4, 50_000, |sinks| sinks[0].frames_seen() == 49);
        assert_eq!(sink[0].frames(), sent);
    }

    /// What comes out when `f` sees the ready of the output, in the cycle in which it is given.
    fn sees_ready(m: &Scope, s: Stream<Beat>, f: impl FnOnce(Sig, Beat, Sig) -> (Sig, Beat)) -> Stream<Beat> {
        let ready = m.wire("out_ready", 1);
        let (valid, beat) = f(s.valid, s.payload.clone(), ready);
        let out = Stream::new(m, "out", valid, beat);
        m.drive(&ready, out.ready);
        s.accept(out.ready);
        out
    }

    #[test]
    fn a_wire_passes() {
        pass_frames(|_, s| s);
    }

    #[test]
    #[should_panic(expected = "valid of `out` depends on ready")]
    fn a_valid_that_follows_ready_is_found() {
        pass_frames(|m, s| sees_ready(m, s, |valid, beat, ready| (valid & ready, beat)));
    }

    #[test]
    #[should_panic(expected = "the payload of `out` depends on ready")]
    fn a_payload_that_follows_ready_is_found() {
        let changed = |beat: Beat, ready: Sig| Beat { data: beat.data ^ ready.zext(64), ..beat };
        pass_frames(|m, s| sees_ready(m, s, |valid, beat, ready| (valid, changed(beat, ready))));
    }

    #[test]
    #[should_panic(expected = "took an offer back")]
    fn an_offer_taken_back_is_found() {
        pass_frames(|m, s| {
            let tick = m.reg("tick", 1).reset(0);
            m.set(&tick, !tick);
            s.gate(m, tick)
        });
    }
}
