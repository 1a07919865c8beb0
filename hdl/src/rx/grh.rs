// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts the header that a datagram came with where its receiver looks for it: in the 40 bytes before the payload.
//!
//! ```text
//!             bytes before: 28 or 32 bytes further up
//!  frame --+--> the last 32 bytes --+--> near --+
//!          |                        +--> far ---+--> byte by byte --> out
//!          +-------------------- as it is ------+
//!  packet -+--> where does the payload begin? -----------^    zero --^
//! ```
//!
//! The receiver of a datagram finds a GRH before the payload (IBTA volume 1, 10.3.1 and 11.4.1.2): of IPv6 the IP header, of IPv4 20
//! zeros and then the IP header (A17.4.5.2). In the frame the IP header ends 28 bytes before the payload, 32 where there is an immediate, for UDP,
//! BTH, DETH and ImmDt stand between. So moving it is a choice of four for each byte: itself, the byte 28 or 32 places
//! before it, or zero. The 40 bytes and the payload are then one run of bytes for those behind. What stands before the 40
//! bytes means nothing any more.
//!
//! One beat a cycle, no latency: a LUT a bit, of the lanes only where such bytes can lie. Behind the check of the
//! ICRC, which is to see what was sent. The choice is made from two or three bits of the packet and the number of the beat.
//!
//! Frames of other packets pass as they are. Any sequence of beats is good. Reset: a frame begins.

use crate::stream::Beat;
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Scope, Sig, Stream};
use ferrowire_spec::wire::{bth, deth, eth, imm_dt, ipv4, ipv6, udp, vlan};

/// Bytes before a datagram's payload in the memory of its receive.
pub const GRH_BYTES: u32 = ipv6::BYTES as u32;

/// From the end of an IP header to the payload.
const NEAR: u32 = (udp::BYTES + bth::BYTES + deth::BYTES) as u32;
/// The same with an immediate.
const FAR: u32 = NEAR + imm_dt::BYTES as u32;
/// The payload begins here, and some groups of four bytes further on: one with a tag, one with an immediate, five with IPv6.
const FIRST: u32 = (eth::BYTES + ipv4::BYTES) as u32 + NEAR;
/// The last place where it begins.
const LAST: u32 = LAST_V4 + LONGER;
/// Of IPv4.
const LAST_V4: u32 = FIRST + vlan::BYTES as u32 + FAR - NEAR;
/// What an IPv6 header is longer by.
const LONGER: u32 = (ipv6::BYTES - ipv4::BYTES) as u32;
/// The width of a group. Payloads begin, and headers too, where a group does.
const GROUP: u32 = 4;
const _: () =
    assert!(FIRST % GROUP == 2 && FAR % GROUP == 0 && NEAR % GROUP == 0 && LAST - FIRST < 8 * GROUP);
/// Groups from the start of an IPv4 header to the payload's, once it is moved.
const V4_GROUPS: u32 = ipv4::BYTES as u32 / GROUP;

/// Whether a datagram's packet was of IPv4, from the place in its frame at which the GRH begins now: the parser tells where the payload
/// is, and an IPv6 header is longer than an IPv4 header with all that may come besides.
pub fn is_ipv4(grh_offset: Sig) -> Sig {
    const { assert!(LAST_V4 < FIRST + LONGER) };
    grh_offset.lt(FIRST + LONGER - GRH_BYTES)
}

/// What is known of a frame.
#[derive(Clone, Bundle)]
pub struct Datagram {
    /// It is a datagram: its header is moved.
    pub moves: Sig,
    /// It has an immediate.
    pub imm: Sig,
    /// Groups of four bytes from the first place where a payload may begin to where it does.
    pub groups: Sig,
}

impl Datagram {
    /// The shape.
    pub fn of() -> Self {
        Datagram { moves: bits(1), imm: bits(1), groups: bits(3) }
    }

    /// Of a packet whose payload is there.
    pub fn new(moves: Sig, imm: Sig, payload_offset: Sig) -> Self {
        Datagram { moves, imm, groups: (payload_offset - FIRST).slice(GROUP.ilog2(), 3) }
    }
}

/// Moves the headers of datagrams; `packet`: of the frame that is on offer.
#[module]
pub fn grh(m: &Scope, frames: Stream<Beat>, packet: Datagram) -> Stream<Beat> {
    let lanes = frames.bytes();
    // The number of the beat in the frame; past the headers it stays.
    let beats = LAST.div_ceil(lanes);
    let at = m.reg("at", clog2(u64::from(beats) + 1)).reset(0);
    let next = at.eq(beats).then(at, at + 1);
    let fire = frames.fire();
    m.when(fire, |m| m.set(&at, frames.last.then(lit(at.width(), 0), next)));

    // The bytes before this beat, the oldest first.
    let kept = FAR.min(lanes);
    let mut earlier = Vec::new();
    let mut newer = frames.data.slice(8 * (lanes - kept), 8 * kept);
    for k in 0..FAR / kept {
        let bytes = m.reg(&format!("before{k}"), 8 * kept).no_reset();
        m.when(fire, |m| m.set(&bytes, newer));
        earlier.insert(0, bytes);
        newer = bytes;
    }
    let known = cat(earlier.iter().chain([&frames.data]));
    let byte = |at: u32| known.slice(8 * at, 8);

    // Of each group in the beat: does it lie before the payload, and before an IPv4 header there?
    let wide = |s: Sig| s.zext(7);
    let payload = (wide(packet.groups) + (FIRST + 2) / GROUP).named("payload");
    let v6 = packet.groups.ge(LONGER / GROUP);
    let groups: Vec<(Sig, Sig)> = (0..=lanes / GROUP)
        .map(|group| {
            let here = (wide(at) << (lanes / GROUP).ilog2()) + group;
            let before = packet.moves & here.lt(payload);
            let zero = before & !v6 & (here + V4_GROUPS).lt(payload);
            (before, zero)
        })
        .collect();
    let moved: Vec<Sig> = (0..lanes)
        .map(|lane| {
            // Where a byte of this lane may lie in a frame, as far as that matters.
            let may_be = |from: u32, to: u32| (0..beats).any(|k| (from..to).contains(&(k * lanes + lane)));
            let (before, zero) = groups[((lane + 2) / GROUP) as usize];
            let as_it_is = frames.data.slice(8 * lane, 8);
            let from = packet.imm.then(byte(lane), byte(FAR - NEAR + lane));
            let header = if may_be(FIRST - V4_GROUPS * GROUP, LAST) { from } else { as_it_is };
            let empty = may_be(FIRST - GRH_BYTES, LAST_V4 - V4_GROUPS * GROUP);
            let before_payload = if empty { zero.then(lit(8, 0), header) } else { header };
            before.then(before_payload, as_it_is)
        })
        .collect();
    let beat = Beat { data: cat(&moved), last: frames.last, empty: frames.empty };
    let out = Stream::new(m, "out", frames.valid, beat);
    frames.accept(out.ready);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rx::frames::{random_frame, random_frame_of, with_grh};
    use crate::testing::{drain, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use ferrowire_spec::wire::opcode::Service;
    use ferrowire_spec::wire::{Frame, Opcode};

    const WIDTHS: [u32; 4] = [8, 16, 32, 64];

    /// Sends frames through the block. What is said of each stands beside its beats, until the last of them.
    fn moves(beat_bytes: u32, frames: &[Vec<u8>], random: &mut Random, stall: f64) -> Vec<Vec<u8>> {
        let beat = Beat::of(beat_bytes);
        let netlist = build("bench", |m| {
            let packet = m.stream_in("said", &Datagram::of());
            let frames = m.stream_in("frame", &beat);
            let both = Stream::new(m, "both", frames.valid & packet.valid, frames.payload.clone());
            frames.accept(both.fire());
            packet.accept(both.fire() & frames.last);
            m.stream_out("out", grh(m, both, packet.payload.clone()));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let mut sources = [Source::new("frame", &beat), Source::new("said", &Datagram::of())];
        let mut sinks = [Sink::new("out", &beat)];
        for bytes in frames {
            let frame = Frame::parse(bytes).expect("a sound frame");
            let opcode = frame.opcode().expect("a sound frame");
            let behind = opcode.header_bytes() + udp::BYTES + frame.ip.bytes();
            let payload = eth::BYTES + frame.vlan.map_or(0, |_| vlan::BYTES) + behind;
            let datagram = opcode.service() == Service::Ud;
            let groups = (payload as u128).wrapping_sub(FIRST.into()) / u128::from(GROUP) % 8;
            let imm = opcode.has_immediate();
            sources[0].push_frame(bytes);
            sources[1].push_values(&[("moves", datagram.into()), ("imm", imm.into()), ("groups", groups)]);
        }
        drain(&mut sim, &mut sources, &mut sinks, random, stall, 200_000, 20);
        assert!(stall > 0.0 || sources[0].cycles == sinks[0].cycles, "no latency");
        let (first, last) = (sources[0].cycles[0], *sources[0].cycles.last().expect("beats"));
        assert!(stall > 0.0 || last - first + 1 == sources[0].cycles.len() as u64, "a beat a cycle");
        sinks[0].frames()
    }

    fn check(frames: &[Vec<u8>], random: &mut Random) {
        for beat_bytes in WIDTHS {
            for stall in [0.0, 0.4] {
                let out = moves(beat_bytes, frames, random, stall);
                assert_eq!(out.len(), frames.len());
                for (n, (came, out)) in frames.iter().zip(out).enumerate() {
                    let (from, wanted) = with_grh(came);
                    assert_eq!(out.len(), wanted.len());
                    let (out, wanted) = (&out[from..], &wanted[from..]);
                    assert_eq!(out, wanted, "seed {}: frame {n} at {beat_bytes}", random.seed);
                }
            }
        }
    }

    #[test]
    fn datagrams_have_their_header_before_the_payload_and_all_else_is_as_it_was() {
        let mut random = Random::new(1);
        let opcodes = [Opcode::UdSendOnly, Opcode::UdSendOnlyImm];
        let frames: Vec<_> = (0..120)
            .map(|n| match n % 3 {
                0 => random_frame(&mut random.rng),
                n => random_frame_of(&mut random.rng, opcodes[n - 1]),
            })
            .collect();
        check(&frames, &mut random);
    }

    #[test]
    fn what_came_before_does_not_matter() {
        let mut random = Random::new(2);
        // The shortest datagrams back to back, and behind frames that end anywhere.
        let frames: Vec<_> = (0..160)
            .map(|n| match n % 4 {
                0 => random_frame_of(&mut random.rng, Opcode::RcAcknowledge),
                1 => random_frame_of(&mut random.rng, Opcode::RcWriteLast),
                2 => random_frame_of(&mut random.rng, Opcode::UdSendOnlyImm),
                _ => random_frame_of(&mut random.rng, Opcode::UdSendOnly),
            })
            .collect();
        check(&frames, &mut random);
    }
}
