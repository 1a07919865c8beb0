// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which bytes of a frame the ICRC covers, and what they count as.
//!
//! ```text
//!  beat --> reg --------------> reg -----------------> or ones, and keep, xor seed --> reg --> CRC beat
//!       \-> EtherType, length   end = l3 + length      place in the frame, end              \-> covered
//!           of the right place  (only for PacketEnd::IpLength)
//! ```
//!
//! Bytes before the IP header and behind the packet become zero; the variant fields become ones: IPv4 type of
//! service, time to live and checksum; IPv6 traffic class, flow label and hop limit; UDP checksum; fifth byte of the
//! BTH (A17.3.3). [`seed`] is added to the first four bytes of the IP header.
//!
//! The EtherTypes and the length are picked from their fixed places as they come by and kept to the end of the frame;
//! the masks are constants, chosen by the beat's number in the frame, VLAN tag and IP version. It makes no difference
//! whether a decision and what it decides upon are in one beat or in several.
//!
//! One beat a cycle, never stalls. Latency [`MASK_LATENCY_FRAME`] or [`MASK_LATENCY_IP`].
//!
//! Bad input, for `IpLength`: frames that are not IP, that end before the IP length says, or whose IP length does not
//! cover the headers and an ICRC are not `whole`; their data mean nothing. What follows the packet is not live.
//! IPv4 options are not looked for: fields behind them are masked at the wrong places, and the ICRC will not fit.

use super::ends::seed;
use crate::stream::Beat;
use ferrowire_rtl::{bits, cat, clog2, lit, lit_bits, module, Bits, Bundle, Scope, Sig};
use ferrowire_spec::wire::eth::ethertype;
use ferrowire_spec::wire::icrc::{BYTES, MASKED_BTH, MASKED_IPV4, MASKED_IPV6, MASKED_UDP};
use ferrowire_spec::wire::{bth, ipv4, ipv6, udp};
use ferrowire_spec::{Field, Order};

/// Where the packet ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketEnd {
    /// With the frame: what we send has no padding.
    Frame,
    /// Where its IP header says: what comes from a wire may be padded.
    IpLength,
}

/// Cycles from a beat of a frame to its CRC beat, for [`PacketEnd::Frame`].
pub const MASK_LATENCY_FRAME: u32 = 2;
/// Cycles from a beat of a frame to its CRC beat, for [`PacketEnd::IpLength`].
pub const MASK_LATENCY_IP: u32 = 3;

/// A beat for the CRC.
#[derive(Clone, Bundle)]
pub struct CrcBeat {
    /// There is one.
    pub valid: Sig,
    /// The bytes, masked.
    pub data: Sig,
    /// First of its frame.
    pub first: Sig,
    /// It holds bytes of the packet; otherwise the state stays.
    pub live: Sig,
    /// Last of its frame.
    pub last: Sig,
}

impl CrcBeat {
    /// The shape.
    pub fn of(beat_bytes: u32) -> CrcBeat {
        CrcBeat { valid: bits(1), data: bits(8 * beat_bytes), first: bits(1), live: bits(1), last: bits(1) }
    }
}

/// What is known of the packet with the last beat of its frame.
#[derive(Clone, Bundle)]
pub struct Covered {
    /// Zero bytes behind the packet in its last beat.
    pub empty: Sig,
    /// The frame holds an IP packet to its end.
    pub whole: Sig,
}

/// The places of the IP header, without and with a VLAN tag.
const L3: [usize; 2] = [14, 18];
/// Behind the last byte that any mask touches: tagged, IPv6, UDP, BTH.
const HEAD_BYTES: usize = 18 + ipv6::BYTES + udp::BYTES + bth::BYTES;

/// The constants of one kind of frame, for its first bytes.
struct Template {
    ones: Vec<u8>,
    keep: Vec<u8>,
    seed: Vec<u8>,
}

fn template(bytes: usize, vlan: bool, is_v6: bool) -> Template {
    let l3 = L3[usize::from(vlan)];
    let (ip_bytes, ip_fields) = if is_v6 { (ipv6::BYTES, MASKED_IPV6) } else { (ipv4::BYTES, MASKED_IPV4) };
    let mut ones = vec![0; bytes];
    let mut mark = |at: usize, fields: &[Field]| {
        fields.iter().for_each(|field| field.set(Order::Network, &mut ones[at..], field.max()));
    };
    mark(l3, ip_fields);
    mark(l3 + ip_bytes, MASKED_UDP);
    mark(l3 + ip_bytes + udp::BYTES, MASKED_BTH);
    let keep = (0..bytes).map(|i| if i < l3 { 0 } else { 0xff }).collect();
    let mut added = vec![0; bytes];
    added[l3..l3 + 4].copy_from_slice(&seed().to_le_bytes());
    Template { ones, keep, seed: added }
}

/// The masked beat, in a register. The mask depends on the number of the beat (`head`, which stops after the headers), on the
/// VLAN tag and on the IP version. `ended` has a bit for each lane after the packet's end. The reset of the flip-flops clears
/// these lanes, which costs a LUT for each lane instead of one for each bit.
fn masked_register(m: &Scope, data: Sig, ended: &[Sig], head: Sig, vlan: Sig, is_v6: Sig) -> Sig {
    let beat_bytes = data.width() as usize / 8;
    let beats = HEAD_BYTES.div_ceil(beat_bytes) + 1;
    let kinds = [(false, false), (false, true), (true, false), (true, true)];
    let templates = kinds.map(|(vlan, is_v6)| template(beats * beat_bytes, vlan, is_v6));
    let table = |pick: fn(&Template) -> &[u8]| {
        let entries = (0..beats).flat_map(|beat| {
            templates.iter().map(move |t| {
                let part = &pick(t)[beat * beat_bytes..][..beat_bytes];
                lit_bits(&Bits::from_bytes(8 * beat_bytes as u32, part))
            })
        });
        let entries: Vec<Sig> = entries.collect();
        m.select(cat(&[is_v6, vlan, head]), &entries)
    };
    let ones = table(|t| &t.ones).named("ones");
    let keep = table(|t| &t.keep).named("keep");
    let added = table(|t| &t.seed).named("added");
    let whole = ((data | ones) & keep) ^ added;
    let byte = |s: Sig, lane: usize| s.slice(8 * lane as u32, 8);
    // The seed is added even where the packet ends before it.
    let lanes = ended.iter().enumerate().map(|(i, ended)| ended.then(byte(added, i), byte(whole, i)));
    m.delay("masked_data", &cat(&lanes.collect::<Vec<_>>()))
}

/// A bit for each lane: the packet ends in this beat, and its `last` lane is a lower one.
fn lanes_behind(ends: Sig, last: Sig) -> Vec<Sig> {
    (0..1u32 << last.width()).map(|lane| ends & last.lt(lane)).collect()
}

/// Masks the beats of frames, one in each cycle in which `enable` holds.
#[module]
pub fn mask(m: &Scope, #[param] end: PacketEnd, enable: Sig, beat: Beat) -> (CrcBeat, Covered) {
    let beat_bytes = beat.bytes();
    let lane_bits = clog2(u64::from(beat_bytes));
    let head_beats = HEAD_BYTES.div_ceil(beat_bytes as usize) as u32;

    // The number of the beat in its frame: one counter that stops behind the headers, one behind any IP packet.
    let count = |name: &str, width: u32, top: u64| {
        let counter = m.reg(name, width).reset(0);
        m.when(enable, |m| m.set(&counter, beat.last.then(0, counter.eq(top).then(counter, counter + 1))));
        counter
    };
    let head = count("head", clog2(u64::from(head_beats) + 1), u64::from(head_beats));

    // Fields at fixed places, kept from the beat that holds them on. Fields that a runt does not reach are those of
    // an earlier frame; but a frame that does not reach them is shorter than any packet.
    let word = |at: u32| beat.data.slice(8 * (at % beat_bytes), 16).swap_bytes();
    let keep = |name: &str, at: u32, value: Sig| {
        let kept = m.reg(name, value.width()).reset(0);
        m.when(enable & head.eq(at / beat_bytes), |m| m.set(&kept, value));
        kept
    };
    let vlan = keep("vlan", 12, word(12).eq(ethertype::VLAN));
    let outer_v6 = keep("outer_v6", 12, word(12).eq(ethertype::IPV6));
    let inner_v6 = keep("inner_v6", 16, word(16).eq(ethertype::IPV6));
    let is_v6 = vlan.then(inner_v6, outer_v6);

    let valid1 = m.reg("valid1", 1).reset(0);
    m.set(&valid1, enable);
    let beat1 = m.delay("beat1", &beat);
    let head1 = m.delay("head1", &head);

    let valid = m.reg("valid", 1).reset(0);
    let (crc_beat, covered) = match end {
        PacketEnd::Frame => {
            m.set(&valid, valid1);
            let ended = lanes_behind(beat1.last, !beat1.empty);
            let data = masked_register(m, beat1.data, &ended, head1, vlan, is_v6);
            let masked = CrcBeat { valid, data, first: head1.eq(0), live: lit(1, 1), last: beat1.last };
            (masked, Covered { empty: beat1.empty, whole: lit(1, 1) })
        }
        PacketEnd::IpLength => {
            let outer_v4 = keep("outer_v4", 12, word(12).eq(ethertype::IPV4));
            let inner_v4 = keep("inner_v4", 16, word(16).eq(ethertype::IPV4));
            let is_v4 = vlan.then(inner_v4, outer_v4);
            // IPv4 total length stands at l3 + 2, IPv6 payload length at l3 + 4.
            let lengths = [16, 18, 20, 22].map(|at| keep(&format!("length_at_{at}"), at, word(at)));
            let index_bits = 17 - lane_bits;
            let index = count("index", index_bits, (1 << index_bits) - 1);
            let index1 = m.delay("index1", &index);

            // The place of the packet's last byte.
            let kind = cat(&[is_v6, vlan]);
            let length = m.select(kind, &lengths);
            let before = [L3[0], L3[0] + ipv6::BYTES, L3[1], L3[1] + ipv6::BYTES].map(|n| lit(17, n - 1));
            let last_byte = m.delay("last_byte", &(length.zext(17) + m.select(kind, &before)));
            let least = (udp::BYTES + bth::BYTES + BYTES) as u64;
            let least = is_v6.then(lit(16, least), lit(16, least + ipv4::BYTES as u64));
            let packet = m.delay("packet", &((is_v4 | is_v6) & length.ge(least)));

            let valid2 = m.reg("valid2", 1).reset(0);
            m.set(&valid2, valid1);
            m.set(&valid, valid2);
            let beat2 = m.delay("beat2", &beat1);
            let head2 = m.delay("head2", &head1);
            let index2 = m.delay("index2", &index1);
            let vlan2 = m.delay("vlan2", &vlan);
            let is_v6_2 = m.delay("is_v6_2", &is_v6);

            let end_beat = last_byte.slice(lane_bits, index_bits);
            let end_empty = !last_byte.trunc(lane_bits);
            // Before the length has come by, the one in the registers is another frame's; those that pass as a
            // packet's end behind all places of the length, the others are not looked at.
            let partial = packet & index2.eq(end_beat);
            let ended = lanes_behind(partial, last_byte.trunc(lane_bits));
            let data = masked_register(m, beat2.data, &ended, head2, vlan2, is_v6_2);
            let live = !packet | index2.le(end_beat);
            // It ends before its packet does.
            let cut = index2.lt(end_beat) | (partial & beat2.empty.gt(end_empty));
            let masked = CrcBeat { valid, data, first: head2.eq(0), live, last: beat2.last };
            (masked, Covered { empty: end_empty, whole: packet & !cut })
        }
    };
    let masked = CrcBeat {
        valid: crc_beat.valid,
        data: crc_beat.data,
        first: m.delay("masked_first", &crc_beat.first),
        live: m.delay("masked_live", &crc_beat.live),
        last: m.delay("masked_last", &crc_beat.last),
    };
    let covered = m.delay("covered_reg", &covered);
    (masked, covered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icrc::sample::{self, Kind};
    use crate::testing::{frames_to_beats, Random};
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;

    fn sim_of(beat_bytes: u32, end: PacketEnd) -> Sim {
        let netlist = build("top", |m| {
            let enable = m.input("enable", 1);
            let (masked, covered) = mask(m, end, enable, m.input_of("beat", &Beat::of(beat_bytes)));
            m.output("masked", &masked);
            m.output("covered", &covered);
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        sim
    }

    /// What the CRC should see of a frame whose packet ends at `end`, from the offsets of the standard's drawings.
    fn masked(frame: &[u8], end: usize) -> Vec<u8> {
        let mut bytes = frame.to_vec();
        let l3 = sample::l3(frame);
        let udp = if frame[l3] >> 4 == 6 {
            bytes[l3] |= 0x0f;
            [1, 2, 3, 7].iter().for_each(|i| bytes[l3 + i] = 0xff);
            l3 + 40
        } else {
            [1, 8, 10, 11].iter().for_each(|i| bytes[l3 + i] = 0xff);
            l3 + 20
        };
        [udp + 6, udp + 7, udp + 8 + 4].iter().for_each(|i| bytes[*i] = 0xff);
        bytes[..l3].fill(0);
        bytes[end..].fill(0);
        seed().to_le_bytes().iter().zip(&mut bytes[l3..]).for_each(|(s, b)| *b ^= s);
        bytes
    }

    #[test]
    fn icrc_mask_leaves_what_is_covered_and_nothing_else() {
        for end in [PacketEnd::Frame, PacketEnd::IpLength] {
            for beat_bytes in [8u32, 16, 32, 64] {
                let mut sim = sim_of(beat_bytes, end);
                let mut random = Random::new(11);
                let (mut seen, mut heads, mut live) = (Vec::new(), 0, 0);
                for n in 0..120 {
                    let kind = Kind { ipv6: random.rng.random(), vlan: random.rng.random(), body: n };
                    let mut frame = sample::frame(&mut random, kind);
                    let packet_end = frame.len();
                    if end == PacketEnd::IpLength {
                        let padding = random.rng.random_range(0..2 * beat_bytes as usize);
                        frame.extend(random.bytes(padding));
                    }
                    let want = masked(&frame, packet_end);
                    // A few cycles without a beat push the last one through.
                    let beats = frames_to_beats([&frame[..]], beat_bytes).into_iter().map(Some);
                    for beat in beats.chain(vec![None; 4]) {
                        let pause = random.chance(0.2);
                        for enable in if pause { vec![false, true] } else { vec![true] } {
                            let enable = enable && beat.is_some();
                            sim.set("enable", u64::from(enable));
                            for field in ["data", "last", "empty"] {
                                if let Some(beat) = &beat {
                                    sim.set_bits(&format!("beat_{field}"), &beat[field]);
                                }
                            }
                            sim.tick();
                            if sim.get("masked_valid") == 0 {
                                continue;
                            }
                            assert_eq!(sim.get("masked_first"), u64::from(seen.is_empty()));
                            heads += sim.get("masked_first");
                            live += sim.get("masked_live");
                            if sim.get("masked_live") == 1 {
                                seen.extend(sim.get_bits("masked_data").to_bytes());
                            }
                            if sim.get("masked_last") == 1 {
                                assert_eq!(sim.get("covered_whole"), 1);
                                let empty = sim.get("covered_empty") as usize;
                                assert_eq!(
                                    seen.len() - empty,
                                    packet_end,
                                    "{end:?}, {beat_bytes}: {frame:02x?}"
                                );
                                assert!(seen[packet_end..].iter().all(|b| *b == 0));
                                assert_eq!(
                                    seen[..packet_end],
                                    want[..packet_end],
                                    "{end:?}, {beat_bytes}: {frame:02x?}"
                                );
                                assert_eq!(live, packet_end.div_ceil(beat_bytes as usize) as u64);
                                seen.clear();
                                live = 0;
                            }
                        }
                    }
                    assert_eq!(heads, n as u64 + 1);
                }
            }
        }
    }
}
