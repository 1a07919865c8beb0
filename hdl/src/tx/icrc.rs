// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fills in the ICRC of what goes to the wire, and keeps frames until they can leave without a gap.
//!
//! ```text
//!  frame --+--> whole-frame buffer, block RAM ----------------------------> patch --> reg --> gate --> out
//!          |    two rings: others, and what may have to stand aside           ^                ^
//!          +--> mask --> icrc_core --> unpad --+--> FIFO, 32 --+--> next --> job               |
//!          |    2        3             2       +--> deep, 256 -+     ^                         |
//!          +--> number of beats, empty --------+--> FIFO, 32 --+     |                         |
//!                                              +--> deep, 256 -+   stands: some -------------- all
//! ```
//!
//! A frame comes with four zero bytes at its end, where the ICRC belongs; zeros behind a packet are taken back from the
//! CRC together with the empty bytes of the last beat. A frame leaves only when it is there to its end, and its CRC
//! will be there when the first beat that holds it is read: once its first beat is on offer, a beat is on offer in every
//! cycle until its last (a MAC must not see a gap). The ICRC may lie in two beats; the frame's length is known from the
//! start, so the beat before the last is patched when it comes. So of two frames that come at once, a long one begins
//! to leave earlier after its last beat than a short one, by a cycle for each beat before those two.
//!
//! Priorities that stand still are held up here, at a packet boundary. Frames of those that may have to (`aside`) have a ring of their
//! own, so that others go past them as long as they have room there. Each ring is in order, and where both have a frame that may go they
//! take turns. Of a priority that stands no frame is chosen; those chosen before still leave: the one under way, and what is in the two
//! registers behind the RAM, which is a beat each. Where all stand, nothing begins at the output but the frame that is on offer there.
//!
//! One beat a cycle, frames back to back. The first beat is on offer [`latency`] cycles after the last was taken, or one more from the second ring; no
//! path runs from the consumer's `ready` to `frame`'s. Each ring holds as much as there is payload on its way here (`payload_buffer_bytes`), which is
//! the largest frame and most of another at least: that comes while the one before it leaves. Of at most [`FRAMES`] not all beats have left.
//!
//! A raw frame has no place for an ICRC, and leaves as it came.
//!
//! A frame whose last beat is poisoned is forgotten when its turn comes, in one cycle.
//!
//! Bad input: a frame longer than a ring would never leave; the block asserts that there is none. Frames that are
//! not IP get four bytes that mean nothing.

use super::{FrameBeat, FrameOf};
use crate::config::RnicConfig;
use crate::context::timer::Departed;
use crate::icrc::{icrc_core, mask, unpad, PacketEnd};
use crate::icrc::{CORE_LATENCY, GROUP, MASK_LATENCY_FRAME, UNPAD_ROOT, UNPAD_STAGES};
use crate::loopback::{self, room::Returned};
use crate::stream::{breath, catch, deep_fifo, fifo, Beat};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::wire::icrc::BYTES;

/// Frames in each ring: in that of those that never stand aside, and in that of those that may have to.
pub const FRAMES: [u32; 2] = [32, 256];
const RINGS: usize = FRAMES.len();

/// Cycles from the last beat of a frame of so many beats in to its first beat out, where nothing is in its way.
pub fn latency(beats: u32) -> u32 {
    // The choice, while the CRC passes its FIFO; the RAM, the register slice.
    CRC_LATENCY + 3 - beats.saturating_sub(2).min(CRC_LATENCY - 2)
}

/// Cycles from the last beat of a frame to its CRC.
const CRC_LATENCY: u32 = MASK_LATENCY_FRAME + CORE_LATENCY + UNPAD_STAGES;

/// Empty bytes of the last beat of a frame with an ICRC, beside whole groups of four: all parts of a frame but the Ethernet header, of 14 or 18
/// bytes, are groups.
const EMPTY: u32 = 2;

/// What comes out.
#[derive(Interface)]
pub struct Appended {
    /// Frames for the MAC.
    pub wire: Stream<Beat>,
    /// A frame is on its way to the wire: it has been read from the buffer to its end.
    pub left: Sig,
    /// A frame was poisoned and is forgotten.
    pub dropped: Sig,
    /// Which, in either case.
    pub of: FrameOf,
}

/// Where a frame ends.
#[derive(Clone, Bundle)]
struct End {
    /// Number of the last beat, from zero.
    index: Sig,
    /// Empty bytes in it.
    empty: Sig,
    /// It does not leave.
    poisoned: Sig,
    of: FrameOf,
}

/// The frame whose beats are read.
#[derive(Clone, Bundle)]
struct Job {
    end: End,
    /// Its ring.
    ring: Sig,
}

/// Lanes of the ICRC: the first [`EMPTY`], each group of four after them, and those that are left; of the last beat, and of the one before. One of
/// them holds it, or the first of the last beat and the last of the one before. `empty`: groups.
fn icrc_lanes(groups: u32, empty: Sig) -> (Sig, Sig) {
    // The group in whose middle the frame ends.
    let end = !empty;
    let is_end: Vec<Sig> = (0..groups).map(|group| end.eq(group)).collect();
    let none = ferrowire_rtl::lit(1, 0);
    let before = [vec![none; groups as usize], vec![is_end[0]]].concat();
    (cat(&[cat(&is_end), none]), cat(&before))
}

/// Groups of four among the empty bytes of the last beat.
fn whole_groups(empty: Sig) -> Sig {
    let low = GROUP.ilog2();
    empty.slice(low, empty.width() - low)
}

/// A ring: where its frames lie, and what is known of them.
struct Ring {
    head: Sig,
    tail: Sig,
    /// Frames that came whole and have not left whole.
    waiting: Sig,
    /// It takes a beat.
    open: Sig,
}

/// The pointer of a ring behind the beat at `head`, or behind the whole frame where it `drops`.
fn behind(head: Sig, end: &End, drops: Sig) -> Sig {
    let width = head.width().max(end.index.width());
    head + (end.index & drops.repeat(end.index.width())).zext(width).trunc(head.width()) + 1
}

/// A frame on its way out of a ring.
#[derive(Interface)]
struct Filled {
    /// Its beats, with the ICRC.
    beats: Stream<Beat>,
    /// A beat is read in this cycle.
    take: Sig,
    /// Its last.
    left: Sig,
    /// A beat that holds some of the ICRC is read, or is to be.
    sealed: Sig,
}

/// Reads the beats of a frame that `goes`, one a cycle, and puts its ICRC where it belongs. `word`: what was read.
#[module]
fn fill(m: &Scope, cfg: &RnicConfig, end: End, icrc: Sig, goes: Sig, word: Sig) -> Filled {
    let (beat_bytes, lane_bits) = (cfg.beat_bytes, cfg.lane_bits());
    m.discard(&(end.poisoned, end.of.clone()));
    let held = m.reg("held", 1).reset(0);
    let take = m.wire("take", 1);
    let position = m.reg("position", end.index.width()).reset(0);
    let is_last = position.eq(end.index);
    let groups = beat_bytes / GROUP;
    let (last_lanes, before_lanes) = icrc_lanes(groups, whole_groups(end.empty));
    let is_before = (position + 1).eq(end.index) & !is_last;

    let last = m.reg("last", 1).no_reset();
    let empty = m.reg("empty", lane_bits).no_reset();
    let lanes = m.reg("lanes", groups + 1).no_reset();
    let patch = m.reg("patch", 8 * BYTES as u32).no_reset();
    m.when(take, |m| {
        m.set(&position, is_last.then(0, position + 1));
        m.set(&held, 1);
        m.set(&last, is_last);
        m.set(&empty, end.empty & is_last.repeat(lane_bits));
        let sealed =
            (last_lanes & is_last.repeat(groups + 1)) | (before_lanes & is_before.repeat(groups + 1));
        m.set(&lanes, sealed & (!end.of.raw).repeat(groups + 1));
        m.set(&patch, icrc);
    });

    let patches = patch.chunks(8);
    let bytes = word.chunks(8).into_iter().zip(0..).map(|(byte, lane): (Sig, u32)| {
        // The ICRC begins in the middle of a group.
        let from_middle = lane + GROUP - EMPTY;
        lanes.bit(from_middle / GROUP).then(patches[(from_middle % GROUP) as usize], byte)
    });
    let bytes: Vec<Sig> = bytes.collect();
    // The output. Whether it moves is asked twice: hundreds of enables are slow, and the choice of the next frame waits for it.
    let beat = Beat { data: cat(&bytes), last, empty };
    let shown = m.reg_of("shown", &beat);
    let (shown_valid, wide_valid) = (m.reg("shown_valid", 1).reset(0), m.reg("wide_valid", 1).reset(0));
    let out = Stream::new(m, "out", shown_valid, shown.clone());
    let moves = (!shown_valid | out.ready).named("moves");
    let wide_moves = (!wide_valid | out.ready).named("wide_moves");
    m.when(moves, |m| m.set(&shown_valid, held));
    m.when(wide_moves, |m| {
        m.set(&wide_valid, held);
        m.set_all(&shown, &beat);
    });
    m.when(moves & !take, |m| m.set(&held, 0));
    m.drive(&take, goes & (!held | moves));
    // That the output moves is known last.
    let left = (goes & is_last & !held) | (goes & is_last & moves);
    Filled { beats: out, take, left, sealed: is_last | is_before }
}

/// A frame that returns inside the card, and what becomes of it.
#[derive(Interface)]
pub struct Loop {
    /// Frames for the parser.
    pub frames: Stream<Beat>,
    /// Requests that left, for their timers.
    pub departed: Stream<Departed>,
    /// Room that comes free.
    pub left: Returned,
    /// Beats that were reserved for a raw frame which goes to the wire.
    pub raw: Sig,
}

/// The loop's ring: frames in order, each with room that was reserved before it was built.
struct LoopRing {
    frames: Stream<Beat>,
    departed: Stream<Departed>,
    left: Returned,
}

/// A FIFO in block RAM whose output is taken late in a cycle: the way of its `ready` ends at one flip-flop.
fn caught_fifo<T: Bundle + Interface>(
    m: &Scope,
    cfg: &RnicConfig,
    depth: u32,
    input: Stream<T>,
) -> Stream<T> {
    let stored = deep_fifo(m, depth, input);
    if cfg.unhurried() {
        stored
    } else {
        catch(m, stored)
    }
}

/// `enters`: a beat for the ring; `ends`: the frame ends with it; `crc`: one of a frame here.
fn loop_ring(
    m: &Scope,
    cfg: &RnicConfig,
    (enters, data): (Sig, Sig),
    (ends, end): (Sig, End),
    crc: (Sig, Sig),
) -> LoopRing {
    let depth = loopback::beats(cfg);
    let address = clog2(u64::from(depth));
    let pointer = |name: &str| m.reg(name, address + 1).reset(0);
    let (head, tail) = (pointer("loop_head"), pointer("loop_tail"));
    let store = m.mem("loop_store", depth, &data).style(Style::Block).build();
    store.write(enters, tail.trunc(address), &data);
    m.when(enters, |m| m.set(&tail, tail + 1));
    m.assert(!enters | (tail - head).ne(depth), "a looped frame finds its room");
    // No more frames than the least that is reserved for each allows.
    let frames = (depth / loopback::smallest(cfg)).next_power_of_two();
    let end = Stream::new(m, "loop_end", ends, end);
    m.assert(!end.valid | end.ready, "a looped frame's end finds room");
    let end = caught_fifo(&m.label("loop_ends"), cfg, frames, end);
    let crc = Stream::new(m, "loop_crc", crc.0, crc.1);
    m.assert(!crc.valid | crc.ready, "a looped frame's CRC finds room");
    let crc = caught_fifo(&m.label("loop_crcs"), cfg, frames, crc);

    // The timer takes the wire's first.
    let (known, departs) = m.later("loop_departs", &end.of.departed);
    let due = m.wire("loop_due", 1);
    let sound = end.valid & crc.valid & due;
    let drops = sound & end.poisoned;
    let word = m.wire("loop_word", 8 * cfg.beat_bytes);
    let label = m.label("loop_fill");
    let filled = fill(&label, cfg, end.payload.clone(), crc.payload, sound & !end.poisoned, word);
    m.drive(&word, store.read(m, filled.take, head.trunc(address), Collision::Never));
    let leaves = filled.left | drops;
    end.accept(leaves);
    crc.accept(leaves);
    m.when(filled.take | drops, |m| m.set(&head, behind(head, &end.payload, drops)));
    let gone = Stream::new(m, "loop_gone", filled.left & end.of.request, end.of.departed.clone());
    m.drive(&due, gone.ready);
    departs.connect(fifo(&m.label("loop_departed"), 4, gone));
    // Whether one leaves is known late: of which beats is known all the time.
    let gone = m.delay_zero("loop_gone_now", &leaves);
    let of = m.delay("loop_left", &Returned { beats: end.of.reserved, request: end.of.request });
    let left = Returned { beats: of.beats & gone.repeat(of.beats.width()), ..of };
    LoopRing { frames: filled.beats, departed: known, left }
}

/// Buffers frames, fills in their ICRC and sends them on without gaps; to the wire nothing of the priorities that `stands` has. Frames that loop return.
#[module]
pub fn append(m: &Scope, cfg: &RnicConfig, frame: Stream<FrameBeat>, stands: Sig) -> (Appended, Loop) {
    let beat_bytes = cfg.beat_bytes;
    let depth = cfg.payload_buffer_bytes / beat_bytes;
    let address = clog2(u64::from(depth));

    // In: beats to the frame's ring and to the CRC.
    let rings: Vec<Ring> = (0..RINGS)
        .map(|i| {
            let pointer = |name: &str, width| m.reg(&format!("{name}{i}"), width).reset(0);
            let (head, tail) = (pointer("head", address + 1), pointer("tail", address + 1));
            let waiting = pointer("waiting", clog2(u64::from(FRAMES[i]) + 1));
            // Known a cycle before, in which one more beat may come: the way back to who makes the beats is long.
            let full = m.delay(&format!("full{i}"), &(tail - head).ge(depth - 1));
            // Frames are counted a cycle later.
            let many = m.delay(&format!("many{i}"), &waiting.ge(FRAMES[i] - 2));
            m.assert(!full | waiting.ne(0), "a frame fits into its ring");
            Ring { head, tail, waiting, open: !full & !many }
        })
        .collect();
    let into = frame.of.aside;
    let of_ring = |ring: Sig, pick: &dyn Fn(&Ring) -> Sig| ring.then(pick(&rings[1]), pick(&rings[0]));
    // What loops has its room.
    let looped = cfg.only(cfg.loopback, frame.of.loops).named("looped");
    frame.accept(looped | of_ring(into, &|ring| ring.open));
    let enters = frame.fire();
    let index = m.reg("index", address.max(loopback::beat_bits(cfg) - 1)).reset(0);
    let first = index.eq(0);
    let to_wire = enters & !looped;
    let store = m.mem("store", RINGS as u32 * depth, &bits(8 * beat_bytes)).style(Style::Block).build();
    let tail = of_ring(into, &|ring| ring.tail);
    store.write(to_wire, cat(&[tail.trunc(address), into]), &frame.data);
    m.when(enters, |m| m.set(&index, frame.last.then(0, index + 1)));
    m.when(to_wire, |m| {
        for (i, ring) in rings.iter().enumerate() {
            m.when(into.eq(i), |m| m.set(&ring.tail, ring.tail + 1));
        }
    });
    let end = End { index, empty: frame.empty, poisoned: frame.poisoned, of: frame.of.clone() };
    let raw_beats = frame.of.reserved & (to_wire & first).repeat(frame.of.reserved.width());
    let raw = m.delay("raw_returns", &raw_beats);

    let (masked, covered) = mask(m, PacketEnd::Frame, enters, frame.payload.beat());
    let of_groups = frame.empty.trunc(GROUP.ilog2()).eq(EMPTY);
    m.assert(
        !(enters & frame.last) | of_groups | frame.of.raw | frame.poisoned,
        "a frame is of whole groups",
    );
    let remainder = icrc_core(m, UNPAD_ROOT, masked, whole_groups(covered.empty));
    let crc = unpad(m, beat_bytes, BYTES as u32 + EMPTY, remainder);
    // A frame is chosen while its CRC passes the FIFO, or earlier where beats without ICRC go before those with it. Each takes a place in the
    // line of those of its ring that are due soon, and none passes another: what comes later ends later, by all the beats that it may be early by.
    let due_in = CRC_LATENCY - 1;
    // Beats before those two, as far as that counts; none of a poisoned frame, which is forgotten with its CRC.
    let width = clog2(u64::from(due_in) + 1);
    let before = m.reg("before", width).reset(0);
    let more = m.mux(before.eq(due_in), &before, &(before + 1));
    m.when(enters, |m| m.set(&before, more & (!(frame.last | first)).repeat(width)));
    let early = before & (!frame.poisoned).repeat(width);
    // Nothing is asked twice on the way of a frame's end into its FIFO: what does not loop enters where its ring is open.
    let ends_in = |ring: usize| frame.valid & frame.last & !looped & into.eq(ring) & rings[ring].open;
    let ends: Vec<Sig> = (0..RINGS).map(|ring| ends_in(ring).named(&format!("ends_in{ring}"))).collect();
    let due = |ring: u32| {
        // The FIFO of the second ring takes a cycle more.
        let places = due_in + ring;
        (0..places).fold(lit(1, 0), |due, i| {
            let here = if i + 1 == places { early.ge(i) } else { early.eq(i) };
            // A reset of two cycles leaves nothing in the line.
            let waits = m.reg(&format!("due{ring}_{i}"), 1).reset(0);
            m.set(&waits, due | (ends[ring as usize] & here));
            waits
        })
    };
    let due = [due(0), due(1)];
    let sealed = (0..=due_in).fold(into, |ring, i| m.delay(&format!("ring_of_crc{i}"), &ring));
    let sealed_looped = (0..=due_in).fold(looped, |looped, i| m.delay(&format!("looped{i}"), &looped));
    let frames_end = (enters & looped & frame.last, end.clone());
    let of_loop = (crc.valid & sealed_looped, crc.state);
    let ring = loop_ring(m, cfg, (enters & looped, frame.data), frames_end, of_loop);

    // Frames that are whole, in the order of each ring; of those that may go, the ring that went last gives way.
    let held_back = |end: &End| stands.shr_by(end.of.priority).bit(0);
    let whole: Vec<(Stream<End>, Stream<Sig>, Sig)> = (0..RINGS)
        .map(|i| {
            let end = Stream::new(m, &format!("end{i}"), ends[i], end.clone());
            m.assert(!end.valid | end.ready, "a frame's end finds room");
            let store = &m.label(&format!("ends{i}"));
            let end =
                if i == 0 { fifo(store, FRAMES[i], end) } else { caught_fifo(store, cfg, FRAMES[i], end) };
            let end = breath(&m.label(&format!("next_end{i}")), cfg.unhurried(), end);
            let crc =
                Stream::new(m, &format!("crc{i}"), crc.valid & !sealed_looped & sealed.eq(i), crc.state);
            m.assert(!crc.valid | crc.ready, "a CRC finds room");
            let crcs = &m.label(&format!("crcs{i}"));
            let crc = if i == 0 { fifo(crcs, FRAMES[i], crc) } else { deep_fifo(crcs, FRAMES[i], crc) };
            // Frames that are not chosen and whose CRC is there, or comes in this cycle.
            let known = m.reg(&format!("known{i}"), clog2(u64::from(FRAMES[i]) + 1)).reset(0);
            // One that was chosen in the cycle before is still among them.
            let comes = due[i];
            let went = m.delay(&format!("went{i}"), &end.fire());
            m.when(comes & !went, |m| m.set(&known, known + 1))
                .otherwise_when(went & !comes, |m| m.set(&known, known - 1));
            let is_known = known.any() & !(went & known.eq(1));
            let may = end.valid & is_known & !held_back(&end.payload);
            (end, crc, may)
        })
        .collect();
    let busy = m.reg("busy", 1).reset(0);
    let leaves = m.wire("leaves", 1);
    let job = m.reg_of("job", &Job { end: end.clone(), ring: bits(1) });
    // Of one ring at most; and whether there is room for it is known last.
    let (may0, may1) = (whole[0].2, whole[1].2);
    let picks = [may0 & (!may1 | job.ring), may1 & !(may0 & job.ring)];
    let chosen = |i: usize| Job { end: whole[i].0.payload.clone(), ring: lit(1, i) };
    let free = (!busy | leaves).named("free");
    let begins = free & (may0 | may1);
    for (i, (end, crc, _)) in whole.iter().enumerate() {
        end.accept(free & picks[i]);
        crc.accept(leaves & job.ring.eq(i));
    }
    m.when(free, |m| m.set(&busy, begins));
    m.when(begins, |m| m.set_all(&job, &m.mux(picks[1], &chosen(1), &chosen(0))));

    // Out: one read a beat. A poisoned frame is forgotten at once.
    let end = &job.end;
    let icrc = job.ring.then(whole[1].1.payload, whole[0].1.payload);
    let known = job.ring.then(whole[1].1.valid, whole[0].1.valid);
    let drops = busy & end.poisoned;
    let head = of_ring(job.ring, &|ring| ring.head);
    let word = m.wire("word", 8 * beat_bytes);
    let label = m.label("fill");
    let filled = fill(&label, cfg, end.clone(), icrc, busy & !end.poisoned, word);
    let take = filled.take;
    m.assert(!drops & !(take & filled.sealed) | known, "a frame's CRC is there when it is wanted");
    m.drive(&word, store.read(m, take, cat(&[head.trunc(address), job.ring]), Collision::Never));
    let further = behind(head, end, drops);
    let left = filled.left;
    m.drive(&leaves, left | drops);

    for (i, ring) in rings.iter().enumerate() {
        m.when((take | drops) & job.ring.eq(i), |m| m.set(&ring.head, further));
        let comes = m.delay(&format!("came{i}"), &ends[i]);
        let goes = m.delay(&format!("gone{i}"), &(leaves & job.ring.eq(i)));
        m.when(comes & !goes, |m| m.set(&ring.waiting, ring.waiting + 1))
            .otherwise_when(goes & !comes, |m| m.set(&ring.waiting, ring.waiting - 1));
    }

    // What is on offer stays so.
    let begun = m.reg("begun", 1).reset(0);
    let all = m.delay("all", &stands.all());
    let wire = filled.beats.gate(m, begun | !all);
    m.when(wire.valid, |m| m.set(&begun, !(wire.ready & wire.last)));
    let appended = Appended { wire, left, dropped: drops, of: end.of.clone() };
    (appended, Loop { frames: ring.frames, departed: ring.departed, left: ring.left, raw })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icrc::sample::{self, Kind};
    use crate::testing::{frames_to_beats, item, run, step, Item, Random, Sink, Source};
    use ferrowire_rtl::{build, Bits, Sim};
    use rand::Rng;

    const WIDTHS: [u32; 4] = [8, 16, 32, 64];

    struct Bench {
        cfg: RnicConfig,
        sim: Sim,
        source: [Source; 1],
        sink: [Sink; 1],
        beat_bytes: u32,
    }

    /// A beat of the frame of this QP.
    fn with_owner(cfg: &RnicConfig, mut beat: Item, qp: u32, priority: u8, aside: bool) -> Item {
        let values = [("departed_qp", qp.into()), ("priority", priority.into()), ("aside", aside.into())];
        let fields = item(&FrameOf::of(cfg), &values);
        beat.extend(
            fields.into_iter().map(|(field, value)| (ferrowire_rtl::join("of", &field).into(), value)),
        );
        beat
    }

    fn bench(beat_bytes: u32) -> Bench {
        let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-64b").unwrap() };
        let shape = Beat::of(beat_bytes);
        let netlist = build("top", |m| {
            let stands = m.input("stands", 8);
            let frame = m.stream_in("frame", &FrameBeat::of(&cfg));
            let (out, looped) = append(m, &cfg, frame, stands);
            m.stream_out("looped", looped.frames);
            m.stream_out("departed", looped.departed);
            m.output("loop_left", &looped.left);
            m.output("raw", &looped.raw);
            m.output("of", &out.of);
            m.stream_out("out", out.wire);
            // Frames by how they ended.
            for (name, ends) in [("left", out.left), ("dropped", out.dropped)] {
                let count = m.reg(&format!("{name}_count"), 16).reset(0);
                m.set(&count, count + ends.zext(16));
                m.output(name, &count);
            }
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        Bench {
            sim,
            source: [Source::new("frame", &FrameBeat::of(&cfg))],
            sink: [Sink::new("out", &shape)],
            beat_bytes,
            cfg,
        }
    }

    impl Bench {
        /// Sends the frames with zeros in place of the ICRC; all must come out as they are, without gaps.
        fn send(&mut self, frames: &[Vec<u8>], random: &mut Random, stall: f64) {
            let mut beats = 0;
            for frame in frames {
                let mut bare = frame.clone();
                let n = bare.len();
                bare[n - 4..].fill(0);
                self.push(&bare, false);
                beats += self.beats(frame);
            }
            let n = frames.len();
            run(&mut self.sim, &mut self.source, &mut self.sink, random, stall, 20 * beats + 1000, |s| {
                s[0].frames_seen() >= n
            });
            let got = self.sink[0].frames();
            for (i, (got, want)) in got.iter().zip(frames).enumerate() {
                assert_eq!(got, want, "seed {}, {} bytes a beat, frame {i}", random.seed, self.beat_bytes);
            }
            assert_eq!(got.len(), n);
            assert_eq!(self.sink[0].gaps, 0, "seed {}: a gap inside a frame", random.seed);
        }

        fn push(&mut self, frame: &[u8], poisoned: bool) {
            for mut beat in frames_to_beats([frame], self.beat_bytes) {
                let last = !beat["last"].is_zero();
                beat.insert("poisoned".into(), Bits::new(1, u128::from(poisoned && last)));
                self.source[0].push(with_owner(&self.cfg, beat, 0, 0, false));
            }
        }

        fn beats(&self, frame: &[u8]) -> u64 {
            frame.len().div_ceil(self.beat_bytes as usize) as u64
        }
    }

    #[test]
    fn icrc_of_the_golden_frames_is_filled_in() {
        let golden = sample::golden().into_iter().map(|(_, frame)| frame);
        let right = |f: &Vec<u8>| ferrowire_spec::wire::icrc::check(&f[sample::l3(f)..]).is_ok();
        let frames: Vec<_> = golden.filter(right).collect();
        for beat_bytes in WIDTHS {
            bench(beat_bytes).send(&frames, &mut Random::new(1), 0.0);
        }
    }

    #[test]
    fn icrc_is_filled_in_under_random_stalls() {
        for beat_bytes in WIDTHS {
            for (seed, stall) in [0.0, 0.2, 0.5, 0.8].into_iter().enumerate() {
                let mut random = Random::new(200 + seed as u64);
                let frames: Vec<_> = (0..150).map(|_| sample::of_groups(&mut random)).collect();
                bench(beat_bytes).send(&frames, &mut random, stall);
            }
        }
    }

    /// A reset takes two cycles, however long a frame's CRC is under way.
    #[test]
    fn a_reset_forgets_the_frame_whose_crc_is_under_way() {
        for beat_bytes in WIDTHS {
            for after in 0..30 {
                let mut random = Random::new(9);
                let frame =
                    || sample::frame(&mut Random::new(4), Kind { ipv6: false, vlan: false, body: 72 });
                let mut bench = bench(beat_bytes);
                bench.push(&frame(), false);
                for _ in 0..bench.beats(&frame()) + after {
                    step(&mut bench.sim, &mut bench.source, &mut bench.sink, &mut random, 0.0);
                }
                assert_eq!(bench.source[0].left(), 0);
                bench.sim.reset();
                bench.sink = [Sink::new("out", &Beat::of(beat_bytes))];
                let frames: Vec<_> = (0..6).map(|_| sample::of_groups(&mut random)).collect();
                bench.send(&frames, &mut random, 0.0);
            }
        }
    }

    #[test]
    fn icrc_lies_anywhere_in_the_last_two_beats() {
        for beat_bytes in WIDTHS {
            let mut random = Random::new(3);
            let mut frames = Vec::new();
            for (ipv6, vlan) in [(false, false), (false, true), (true, false), (true, true)] {
                let bodies = (0..140).step_by(4).chain([4096, 4096 + 28]);
                frames.extend(bodies.map(|body| sample::frame(&mut random, Kind { ipv6, vlan, body })));
            }
            bench(beat_bytes).send(&frames, &mut random, 0.05);
        }
    }

    #[test]
    fn icrc_append_sends_small_frames_back_to_back() {
        for beat_bytes in WIDTHS {
            let mut random = Random::new(4);
            // The smallest frame there is: one beat of 64 bytes.
            let kind = Kind { ipv6: false, vlan: false, body: 0 };
            let frames: Vec<_> = (0..200).map(|_| sample::frame(&mut random, kind)).collect();
            let mut bench = bench(beat_bytes);
            bench.send(&frames, &mut random, 0.0);
            let each = bench.beats(&frames[0]);
            let (came, left) = (&bench.source[0].cycles, &bench.sink[0].cycles);
            assert_eq!(came[came.len() - 1] - came[0], 200 * each - 1);
            assert_eq!(left[0], came[each as usize - 1] + u64::from(latency(each as u32)));
            assert_eq!(left[left.len() - 1] - left[0], 200 * each - 1, "{beat_bytes} bytes a beat");
        }
    }

    #[test]
    fn icrc_append_sends_the_largest_frames_back_to_back() {
        for beat_bytes in WIDTHS {
            let mut random = Random::new(5);
            let kind = Kind { ipv6: true, vlan: true, body: 4096 + 16 };
            let frames: Vec<_> = (0..20).map(|_| sample::frame(&mut random, kind)).collect();
            let mut bench = bench(beat_bytes);
            bench.send(&frames, &mut random, 0.0);
            let each = bench.beats(&frames[0]);
            let (came, left) = (&bench.source[0].cycles, &bench.sink[0].cycles);
            assert_eq!(came[came.len() - 1] - came[0], 20 * each - 1);
            assert_eq!(left[0], came[each as usize - 1] + u64::from(latency(each as u32)));
            assert_eq!(left[left.len() - 1] - left[0], 20 * each - 1);
        }
    }

    #[test]
    fn icrc_buffer_fills_up_and_empties_without_loss() {
        for beat_bytes in WIDTHS {
            let mut random = Random::new(6);
            let mut bench = bench(beat_bytes);
            let frames: Vec<_> = (0..80)
                .map(|_| {
                    let body = if random.rng.random() { 4096 } else { 4 * random.rng.random_range(0..16) };
                    sample::frame(&mut random, Kind { ipv6: false, vlan: true, body })
                })
                .collect();
            bench.source[0].stall = Some(0.0);
            bench.send(&frames, &mut random, 0.6);
        }
    }

    /// A frame with its owner, and where it stands among those of its ring.
    struct Sent {
        frame: Vec<u8>,
        priority: u8,
        aside: bool,
    }

    impl Bench {
        fn push_of(&mut self, sent: &Sent, qp: u32) {
            let mut bare = sent.frame.clone();
            let n = bare.len();
            bare[n - 4..].fill(0);
            for mut beat in frames_to_beats([&bare[..]], self.beat_bytes) {
                beat.insert("poisoned".into(), Bits::zero(1));
                self.source[0].push(with_owner(&self.cfg, beat, qp, sent.priority, sent.aside));
            }
        }

        /// The frames that came, each with the cycle of its first beat.
        fn came(&self) -> Vec<(u64, Vec<u8>)> {
            let sink = &self.sink[0];
            let lasts = sink.items.iter().map(|beat| !beat["last"].is_zero());
            let firsts = sink.cycles.iter().zip(std::iter::once(true).chain(lasts));
            firsts.filter(|(_, first)| *first).map(|(cycle, _)| *cycle).zip(sink.frames()).collect()
        }
    }

    /// Priorities that may have to stand aside.
    const ASIDE: u8 = 0b1010_1000;

    fn any_sent(random: &mut Random) -> Sent {
        let (frame, priority) = (sample::of_groups(random), random.rng.random_range(0..8));
        Sent { frame, priority, aside: ASIDE >> priority & 1 == 1 }
    }

    #[test]
    fn frames_of_priorities_that_stand_wait_in_order_and_none_is_lost() {
        // Cycles until a change is seen: the choice, and two registers.
        const SOON: u64 = 5;
        for (seed, beat_bytes) in [(10, 8), (11, 64), (12, 64)] {
            let mut random = Random::new(seed);
            let mut bench = bench(beat_bytes);
            bench.source[0].stall = Some(0.1);
            let sent: Vec<Sent> = (0..300).map(|_| any_sent(&mut random)).collect();
            sent.iter().for_each(|s| bench.push_of(s, 1));
            // When a change came, and what stood from then on.
            let mut changes = vec![(0u64, 0u8)];
            let mut steps = 0;
            while bench.sink[0].frames_seen() < sent.len() {
                if random.chance(0.01) {
                    let stands = match random.rng.random_range(0..4) {
                        0 => 0,
                        1 => 0xff,
                        _ => random.rng.random::<u8>() & ASIDE,
                    };
                    bench.sim.set("stands", stands.into());
                    changes.push((bench.sim.cycles(), stands));
                }
                let Bench { sim, source, sink, .. } = &mut bench;
                crate::testing::step(sim, source, sink, &mut random, 0.0);
                steps += 1;
                assert!(steps < 200_000, "seed {seed}: frames do not come");
            }
            assert_eq!(bench.sink[0].gaps, 0, "seed {seed}: a gap inside a frame");
            let came = bench.came();
            let stood = |cycle: u64, priority: u8| {
                let at = changes.iter().rposition(|(from, _)| from + SOON <= cycle).expect("the first");
                let until = changes.get(at + 1).map_or(u64::MAX, |next| next.0);
                changes[at].1 >> priority & 1 == 1 && cycle <= until
            };
            for aside in [false, true] {
                let mut of = came.iter().filter(|(_, frame)| {
                    let found = sent.iter().find(|s| s.frame == *frame).expect("one that was sent");
                    found.aside == aside
                });
                for s in sent.iter().filter(|s| s.aside == aside) {
                    let (cycle, frame) = of.next().expect("all came");
                    assert!(*frame == s.frame, "seed {seed}: another order");
                    assert!(!stood(*cycle, s.priority), "seed {seed}, cycle {cycle}: {} stands", s.priority);
                }
            }
        }
    }

    #[test]
    fn others_go_past_those_that_stand() {
        for beat_bytes in [8, 64] {
            let mut random = Random::new(13);
            let mut bench = bench(beat_bytes);
            // Not more of those that stand than there is room for.
            let mut frames = Vec::new();
            for i in 0..200 {
                let priority = if i % 8 == 0 { 3 } else { 0 };
                let kind = Kind { ipv6: false, vlan: true, body: 4 * (i % 25) };
                let frame = sample::frame(&mut random, kind);
                frames.push(Sent { frame, priority, aside: priority == 3 });
            }
            bench.sim.set("stands", 1 << 3);
            frames.iter().enumerate().for_each(|(i, s)| bench.push_of(s, i as u32 % 16));
            let n = frames.iter().filter(|s| s.priority == 0).count();
            let Bench { sim, source, sink, .. } = &mut bench;
            run(sim, source, sink, &mut random, 0.0, 10_000, |s| s[0].frames_seen() == n);
            let wanted = frames.iter().filter(|s| s.priority == 0).map(|s| &s.frame);
            assert!(sink[0].frames().iter().eq(wanted), "seed {}: others first", random.seed);
            sim.set("stands", 0);
            run(sim, source, sink, &mut random, 0.2, 10_000, |s| s[0].frames_seen() == frames.len());
            assert_eq!(sink[0].gaps, 0);
        }
    }

    #[test]
    fn raw_frames_leave_as_they_came_between_those_with_an_icrc() {
        for beat_bytes in WIDTHS {
            let mut random = Random::new(14);
            let mut bench = bench(beat_bytes);
            let mut sent = Vec::new();
            for bytes in (14..160).chain([1514, 4096]) {
                let frame = random.bytes(bytes);
                for mut beat in frames_to_beats([&frame[..]], beat_bytes) {
                    beat.insert("poisoned".into(), Bits::zero(1));
                    let mut beat = with_owner(&bench.cfg, beat, 0, 0, false);
                    beat.insert("of_raw".into(), Bits::new(1, 1));
                    bench.source[0].push(beat);
                }
                sent.push(frame);
                let sealed = sample::of_groups(&mut random);
                bench.push_of(&Sent { frame: sealed.clone(), priority: 0, aside: false }, 1);
                sent.push(sealed);
            }
            let Bench { sim, source, sink, .. } = &mut bench;
            let cycles = 20 * source[0].left() as u64 + 1000;
            run(sim, source, sink, &mut random, 0.2, cycles, |s| s[0].frames_seen() == sent.len());
            assert!(sink[0].frames() == sent, "seed {}: {beat_bytes} bytes a beat", random.seed);
            assert_eq!(sink[0].gaps, 0, "seed {}: a gap inside a frame", random.seed);
        }
    }

    /// Where a frame of the next test goes.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Way {
        Wire,
        Loop,
        RawWire,
        RawLoop,
    }

    #[test]
    fn what_loops_has_its_icrc_and_leaves_beside_the_wire_whoever_stands_still() {
        for (seed, beat_bytes) in [(21, 8), (22, 16), (23, 64), (24, 64)] {
            let mut random = Random::new(seed);
            let mut bench = bench(beat_bytes);
            bench.sim.set("departed_ready", 1);
            let mut sinks =
                [Sink::new("out", &Beat::of(beat_bytes)), Sink::new("looped", &Beat::of(beat_bytes))];
            let mut sent = [Vec::new(), Vec::new()];
            // The loop's frames come with their room, so no more are under way than it has.
            let most = u64::from(loopback::beats(&bench.cfg) / 2);
            let (mut under_way, mut back, mut pushed) = (0, 0, 0);
            let (mut steps, mut paused) = (0, false);
            while sent[0].len() + sent[1].len() < 300
                || sinks.iter().map(Sink::frames_seen).sum::<usize>() < pushed
            {
                if bench.source[0].left() == 0
                    && pushed < 300
                    && under_way + 80 * 64 / u64::from(beat_bytes) < most
                {
                    let way =
                        [Way::Wire, Way::Loop, Way::RawWire, Way::RawLoop][random.rng.random_range(0..4)];
                    // While the wire stands still its ring must not fill up.
                    let way = if paused { Way::Loop } else { way };
                    let frame = match way {
                        Way::Wire | Way::Loop => sample::frame(
                            &mut random,
                            Kind { ipv6: false, vlan: false, body: 12 + 4 * (pushed % 23) },
                        ),
                        Way::RawWire | Way::RawLoop => random.bytes(60 + pushed % 90),
                    };
                    let raw = matches!(way, Way::RawWire | Way::RawLoop);
                    let own = matches!(way, Way::Loop | Way::RawLoop);
                    let beats = u64::from(loopback::largest(&bench.cfg)).min(80);
                    let reserves = way != Way::Wire;
                    let mut bare = frame.clone();
                    let n = bare.len();
                    if !raw {
                        bare[n - 4..].fill(0);
                    }
                    for mut beat in frames_to_beats([&bare[..]], beat_bytes) {
                        beat.insert("poisoned".into(), Bits::zero(1));
                        let mut beat = with_owner(&bench.cfg, beat, 1, 0, false);
                        let mut set = |name: &str, value: u64| {
                            let width = beat[name].width();
                            beat.insert(name.into(), Bits::new(width, value.into()));
                        };
                        set("of_raw", raw.into());
                        set("of_loops", own.into());
                        set("of_reserved", if reserves { beats } else { 0 });
                        bench.source[0].push(beat);
                    }
                    under_way += if reserves { beats } else { 0 };
                    sent[usize::from(own)].push(frame);
                    pushed += 1;
                }
                if steps % 400 == 0 {
                    paused = random.chance(0.4);
                    bench.sim.set("stands", if paused { 0xff } else { 0 });
                }
                crate::testing::step(&mut bench.sim, &mut bench.source, &mut sinks, &mut random, 0.2);
                let gone = bench.sim.get("loop_left_beats") + bench.sim.get("raw");
                under_way -= gone;
                back += gone;
                steps += 1;
                assert!(steps < 100_000, "seed {seed}: {} of {pushed}", sinks[1].frames_seen());
            }
            (0..20).for_each(|_| {
                crate::testing::step(&mut bench.sim, &mut bench.source, &mut sinks, &mut random, 0.0);
                under_way -= bench.sim.get("loop_left_beats") + bench.sim.get("raw");
            });
            assert!(sinks[0].frames() == sent[0], "seed {seed}: the wire's");
            assert!(sinks[1].frames() == sent[1], "seed {seed}: those that loop");
            assert!(under_way == 0 && back > 0, "seed {seed}: {under_way} beats never came back");
            assert_eq!(sinks[0].gaps, 0, "seed {seed}: a gap inside a frame");
        }
    }

    #[test]
    fn what_loops_does_not_wait_for_a_wire_that_stands_still() {
        for beat_bytes in [8, 64] {
            let mut random = Random::new(25);
            let mut bench = bench(beat_bytes);
            bench.sim.set("departed_ready", 1);
            bench.sim.set("stands", 0xff);
            let mut sinks =
                [Sink::new("out", &Beat::of(beat_bytes)), Sink::new("looped", &Beat::of(beat_bytes))];
            let kind = Kind { ipv6: false, vlan: false, body: 64 };
            let mut looped = Vec::new();
            for i in 0..40 {
                let frame = sample::frame(&mut random, kind);
                let mut bare = frame.clone();
                let n = bare.len();
                bare[n - 4..].fill(0);
                for mut beat in frames_to_beats([&bare[..]], beat_bytes) {
                    beat.insert("poisoned".into(), Bits::zero(1));
                    let mut beat = with_owner(&bench.cfg, beat, 1, 0, false);
                    beat.insert("of_loops".into(), Bits::new(1, (i % 4 != 0).into()));
                    bench.source[0].push(beat);
                }
                if i % 4 != 0 {
                    looped.push(frame);
                }
            }
            let Bench { sim, source, .. } = &mut bench;
            run(sim, source, &mut sinks, &mut random, 0.0, 5_000, |s| s[1].frames_seen() == looped.len());
            assert!(sinks[1].frames() == looped);
            assert_eq!(sinks[0].frames_seen(), 0);
            sim.set("stands", 0);
            run(sim, source, &mut sinks, &mut random, 0.0, 5_000, |s| s[0].frames_seen() == 10);
        }
    }

    #[test]
    fn poisoned_frames_never_leave_and_cost_the_others_nothing() {
        for beat_bytes in WIDTHS {
            for stall in [0.0, 0.4] {
                let mut random = Random::new(7);
                let mut bench = bench(beat_bytes);
                let mut sent = Vec::new();
                for i in 0..150 {
                    let frame = sample::of_groups(&mut random);
                    let poisoned = random.chance(0.4) || (60..80).contains(&i);
                    let mut bare = frame.clone();
                    let n = bare.len();
                    bare[n - 4..].fill(0);
                    bench.push(&bare, poisoned);
                    if !poisoned {
                        sent.push(frame);
                    }
                }
                let beats = bench.source[0].left() as u64;
                let Bench { sim, source, sink, .. } = &mut bench;
                run(sim, source, sink, &mut random, stall, 20 * beats + 1000, |s| {
                    s[0].frames_seen() >= sent.len()
                });
                crate::testing::drain(sim, source, sink, &mut random, 0.0, 20 * beats, 1000);
                assert!(sink[0].frames() == sent, "seed {}: {beat_bytes} bytes a beat", random.seed);
                assert_eq!(sink[0].gaps, 0, "seed {}: a gap inside a frame", random.seed);
                let ends = (sim.get("left"), sim.get("dropped"));
                assert_eq!(ends, (sent.len() as u64, 150 - sent.len() as u64), "seed {}", random.seed);
            }
        }
    }
}
