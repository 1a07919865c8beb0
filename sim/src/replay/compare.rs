// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a frame of the card with the captured one, field by field.
//!
//! Every field of every header counts, and every byte of payload and padding. Three kinds of exceptions, see [`rule`]:
//! what is free to the sender; where the specification leaves a choice that Linux always takes in the same way; and
//! where Linux is not the specification, which then says what is right.

use std::fmt;

use ferrowire_spec::wire::frame::{Frame, FrameError, Ip};
use ferrowire_spec::wire::opcode::{Ext, Operation};
use ferrowire_spec::wire::syndrome::Syndrome;
use ferrowire_spec::wire::{bth, eth, ipv4, ipv6, udp, vlan, Aeth, Opcode};
use ferrowire_spec::{Field, Layout, Order, Psn};
use serde::{Serialize, Serializer};

use crate::wire::encoded;

/// Shortest frame without FCS: a shorter packet may be padded with zeros up to it.
const MIN_FRAME: usize = 60;

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A frame of the card: its number in the capture, and among those that the card sent, each from 1.
    Frame {
        /// In the capture; `None` when that has none more.
        captured: Option<usize>,
        /// Of the card; `None` when it sent none more.
        sent: Option<usize>,
    },
    /// A completion, from 1.
    Completion(usize),
    /// The memory of the card's host.
    Memory,
    /// The card or its driver as a whole.
    Card,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Frame { captured: Some(number), .. } => write!(f, "frame {number}"),
            Place::Frame { sent: Some(number), .. } => write!(f, "frame {number} of the card"),
            Place::Frame { .. } => write!(f, "frames"),
            Place::Completion(number) => write!(f, "completion {number}"),
            Place::Memory => write!(f, "memory"),
            Place::Card => write!(f, "card"),
        }
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Where.
    pub place: Place,
    /// Field, or what else it is.
    pub field: String,
    /// What the capture, the log or the specification say.
    pub expected: String,
    /// What the card did.
    pub got: String,
}

impl Difference {
    /// A difference.
    pub fn new(place: Place, field: &str, expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self { place, field: field.to_string(), expected: expected.into(), got: got.into() }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: expected {}, got {}", self.place, self.field, self.expected, self.got)
    }
}

/// What a case says beyond its capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Flow label that the card was told to send.
    pub flow_label: u32,
    /// A message is longer than the receive that it meets.
    pub short_receive: bool,
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It has the value of the capture.
    Same,
    /// Any value; one that follows from others has been checked by the specification's parser.
    Free,
    /// It has this value, which is not that of the capture.
    Is(u128),
}

/// How field `field` of header `header` is compared, where the capture has `captured`.
pub fn rule(header: &str, field: &str, captured: u128, context: &Context) -> Rule {
    match (header, field) {
        // Free to the sender (RFC 6864 4.1; A17.9.1); the IPv4 checksum covers the identification, and the parser has
        // checked it, as it has a UDP checksum that is not zero, for none.
        ("ipv4", "id" | "checksum") | ("udp", "sport" | "checksum") => Rule::Free,
        // Linux sends 0 whatever it is asked for.
        ("ipv6", "flow_label") => Rule::Is(context.flow_label.into()),
        // Linux sends 0. A connection without an alternate path is in state Migrated, and says so in each packet (IBTA
        // 9.2.4, 17.2.8); the header's table holds the value.
        ("bth", "migreq") => Rule::Is(bth::MIGREQ.reset.into()),
        // Linux takes what is an invalid request (IBTA 9.7.5.2.8) for an operational error.
        ("aeth", "syndrome") if context.short_receive && captured == 0x63 => Rule::Is(0x61),
        _ => Rule::Same,
    }
}

/// A captured frame as it would be by the specification, where no rule of a field says so: a READ that is asked for from its
/// middle on is answered from FIRST on (IBTA 9.7.5.1.5), and Linux goes on with MIDDLE. `before`: the captured frames before it.
pub fn specified(bytes: &[u8], before: &[&[u8]]) -> Vec<u8> {
    resumed(bytes, before).unwrap_or_else(|| bytes.to_vec())
}

fn resumed(bytes: &[u8], before: &[&[u8]]) -> Option<Vec<u8>> {
    let mut frame = Frame::parse(bytes).ok()?;
    let last = before.iter().rev().find_map(|frame| Frame::parse(frame).ok().filter(|f| is_response(f)))?;
    let goes_back = Psn::new(frame.bth.psn) != Psn::new(last.bth.psn).next();
    if frame.bth.opcode != Opcode::RcReadResponseMiddle as u8 || !goes_back {
        return None;
    }
    let msn = before.iter().rev().find_map(|frame| Frame::parse(frame).ok()?.ext.aeth)?.msn;
    frame.bth.opcode = Opcode::RcReadResponseFirst as u8;
    frame.ext.aeth = Some(Aeth { syndrome: Syndrome::ACK.encode(), msn });
    frame.seal().ok()?;
    encoded(&frame).ok()
}

fn is_response(frame: &Frame<'_>) -> bool {
    frame.opcode().is_ok_and(|opcode| opcode.operation() == Operation::ReadResponse)
}

/// Whether two syndromes are both acknowledgements: the credits may be real, Linux gives none.
fn both_ack(expected: u128, got: u128) -> bool {
    let is_ack = |value: u128| matches!(Syndrome::decode(value as u8), Syndrome::Ack { .. });
    is_ack(expected) && is_ack(got)
}

/// Compares a frame of the card with the captured one.
pub fn frames(place: Place, expected: &[u8], got: &[u8], context: &Context) -> Vec<Difference> {
    let one = |field: &str, expected: String, got: String| vec![Difference::new(place, field, expected, got)];
    let want = match Frame::parse(expected) {
        Ok(frame) => frame,
        Err(error) => return one("capture", "a sound frame".into(), error.to_string()),
    };
    let have = match Frame::parse(got) {
        Ok(frame) => frame,
        Err(FrameError::BadIcrc { want, have }) => {
            return one(
                "icrc",
                format!("{want:#010x}, which is right for this frame"),
                format!("{have:#010x}"),
            )
        }
        Err(error) => return one("frame", "a sound frame".into(), error.to_string()),
    };
    let mut found = Vec::new();
    // Headers stand where those before them end; both frames have been parsed, so they are whole.
    fields(place, &eth::LAYOUT, expected, got, context, &mut found);
    let (mut at, mut at_got) = (eth::BYTES, eth::BYTES);
    match (want.vlan.is_some(), have.vlan.is_some()) {
        (true, true) => {
            fields(place, &vlan::LAYOUT, &expected[at..], &got[at_got..], context, &mut found);
        }
        (false, false) => {}
        (expected, got) => {
            let text = |tagged| if tagged { "a tag" } else { "none" };
            found.push(Difference::new(place, "vlan", text(expected), text(got)));
        }
    }
    at += if want.vlan.is_some() { vlan::BYTES } else { 0 };
    at_got += if have.vlan.is_some() { vlan::BYTES } else { 0 };
    let (rest, rest_got) = (&expected[at..], &got[at_got..]);
    match (&want.ip, &have.ip) {
        (Ip::V4(_), Ip::V4(_)) => fields(place, &ipv4::LAYOUT, rest, rest_got, context, &mut found),
        (Ip::V6(_), Ip::V6(_)) => fields(place, &ipv6::LAYOUT, rest, rest_got, context, &mut found),
        (expected, got) => {
            let text = |ip: &Ip| if matches!(ip, Ip::V4(_)) { "IPv4" } else { "IPv6" };
            found.push(Difference::new(place, "ip", text(expected), text(got)));
        }
    }
    let (rest, rest_got) = (&rest[want.ip.bytes()..], &rest_got[have.ip.bytes()..]);
    fields(place, &udp::LAYOUT, rest, rest_got, context, &mut found);
    let (rest, rest_got) = (&rest[udp::BYTES..], &rest_got[udp::BYTES..]);
    fields(place, &bth::LAYOUT, rest, rest_got, context, &mut found);
    let (mut rest, mut rest_got) = (&rest[bth::BYTES..], &rest_got[bth::BYTES..]);
    // With another opcode, other headers follow; that is told by the opcode.
    if want.bth.opcode == have.bth.opcode {
        let extensions: &[Ext] = Opcode::from_code(want.bth.opcode).map_or(&[], Opcode::extensions);
        for ext in extensions {
            fields(place, ext.layout(), rest, rest_got, context, &mut found);
            (rest, rest_got) = (&rest[ext.bytes()..], &rest_got[ext.bytes()..]);
        }
    }
    payload(place, &want, &have, &mut found);
    trailer(place, &have, got.len(), &mut found);
    found
}

/// Compares two headers of one layout.
fn fields(
    place: Place,
    layout: &Layout,
    expected: &[u8],
    got: &[u8],
    context: &Context,
    found: &mut Vec<Difference>,
) {
    for field in layout.fields {
        let (captured, got) = (field.get(layout.order, expected), field.get(layout.order, got));
        let expected = match rule(layout.name, field.name, captured, context) {
            Rule::Free => continue,
            Rule::Is(value) => value,
            Rule::Same => captured,
        };
        let credits = layout.name == "aeth" && field.name == "syndrome" && both_ack(expected, got);
        if expected != got && !credits {
            let name = format!("{}.{}", layout.name, field.name);
            found.push(Difference::new(
                place,
                &name,
                value(layout, field, expected),
                value(layout, field, got),
            ));
        }
    }
}

/// As people write it.
fn value(layout: &Layout, field: &Field, value: u128) -> String {
    debug_assert_eq!(layout.order, Order::Network);
    match (layout.name, field.name) {
        ("eth", "dst" | "src") => {
            let bytes: Vec<String> =
                value.to_be_bytes()[10..].iter().map(|byte| format!("{byte:02x}")).collect();
            bytes.join(":")
        }
        ("ipv4", "src" | "dst") => std::net::Ipv4Addr::from(value as u32).to_string(),
        ("ipv6", "src" | "dst") => std::net::Ipv6Addr::from(value).to_string(),
        ("bth", "opcode") => match Opcode::from_code(value as u8) {
            Some(opcode) => format!("{value:#04x} {opcode}"),
            None => format!("{value:#04x}"),
        },
        _ if field.width == 1 => value.to_string(),
        _ => format!("{value:#x}"),
    }
}

fn payload(place: Place, want: &Frame<'_>, have: &Frame<'_>, found: &mut Vec<Difference>) {
    if want.payload.len() != have.payload.len() {
        let text = |frame: &Frame<'_>| format!("{} bytes", frame.payload.len());
        found.push(Difference::new(place, "payload", text(want), text(have)));
    }
    let mut differ =
        want.payload.iter().zip(have.payload).enumerate().filter(|(_, (want, have))| want != have);
    if let Some((at, (want, have))) = differ.next() {
        let name = format!("payload byte {at}, {} in all", 1 + differ.count());
        found.push(Difference::new(place, &name, format!("{want:#04x}"), format!("{have:#04x}")));
    }
    if want.pad != have.pad {
        let text = |pad: [u8; 3]| format!("{pad:02x?}");
        found.push(Difference::new(place, "pad", text(want.pad), text(have.pad)));
    }
}

/// Behind the packet there may be nothing but zeros, up to the shortest frame.
fn trailer(place: Place, have: &Frame<'_>, bytes: usize, found: &mut Vec<Difference>) {
    if !have.trailer.is_empty() && (bytes > MIN_FRAME || have.trailer.iter().any(|byte| *byte != 0)) {
        let expected = "at most zeros up to the shortest frame";
        found.push(Difference::new(place, "trailer", expected, format!("{:02x?}", have.trailer)));
    }
}

#[cfg(test)]
mod tests {
    use ferrowire_spec::wire::Vlan;

    use super::super::packet::tests::{ack, emit, write};
    use super::*;

    const PLACE: Place = Place::Frame { captured: Some(3), sent: Some(1) };

    fn compare(expected: &[u8], got: &[u8]) -> Vec<Difference> {
        frames(PLACE, expected, got, &Context::default())
    }

    /// What the card would send for the captured frame.
    fn of_card(captured: &Frame<'_>) -> Vec<u8> {
        let mut frame = *captured;
        frame.bth.migreq = true;
        emit(&frame)
    }

    /// What Linux would.
    fn captured<'a>(frame: &Frame<'a>) -> Frame<'a> {
        let mut frame = *frame;
        frame.bth.migreq = false;
        frame
    }

    #[test]
    fn any_changed_byte_of_a_frame_is_a_difference() {
        // Bytes of IPv4 identification and checksum, UDP source port and checksum.
        let free = [18, 19, 24, 25, 34, 35, 40, 41];
        for frame in [write(&[1, 2, 3, 4, 5], false, false), ack(7)] {
            let frame = captured(&frame);
            let (expected, good) = (emit(&frame), of_card(&frame));
            assert_eq!(compare(&expected, &good), []);
            for at in 0..good.len() {
                for bit in 0..8 {
                    let mut bad = good.clone();
                    bad[at] ^= 1 << bit;
                    assert_ne!(compare(&expected, &bad), [], "byte {at} bit {bit}");
                    // With checksums and ICRC made right, only what is free may pass.
                    let credits = frame.ext.aeth.is_some() && at == 54 && bit < 5;
                    let passes = free.contains(&at) || credits || at >= good.len() - 4;
                    let found = compare(&expected, &sealed(bad));
                    assert_eq!(found.is_empty(), passes, "byte {at} bit {bit}, sealed: {found:?}");
                }
            }
        }
    }

    /// With checksums and ICRC made right.
    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let ip = &mut bytes[eth::BYTES..];
        ip[10..12].fill(0);
        let sum = ferrowire_spec::wire::checksum::ipv4(&ip[..ipv4::BYTES]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes[40..42].fill(0);
        let end = bytes.len() - 4;
        let right = ferrowire_spec::wire::icrc::icrc(&bytes[eth::BYTES..end]).unwrap_or_default();
        bytes[end..].copy_from_slice(&right.to_le_bytes());
        bytes
    }

    #[test]
    fn a_difference_names_field_expected_and_got() {
        let frame = captured(&write(&[9; 8], false, false));
        let mut other = frame;
        other.bth.psn = 0x101;
        other.ext.reth.as_mut().unwrap().rkey = 631;
        let found: Vec<String> =
            compare(&emit(&frame), &of_card(&other)).iter().map(|d| d.to_string()).collect();
        assert_eq!(
            found,
            ["frame 3: bth.psn: expected 0x0, got 0x101", "frame 3: reth.rkey: expected 0x276, got 0x277"]
        );
    }

    #[test]
    fn a_wrong_icrc_is_told_with_the_right_one() {
        let frame = captured(&ack(1));
        let mut bad = of_card(&frame);
        *bad.last_mut().unwrap() ^= 1;
        assert_eq!(compare(&emit(&frame), &bad)[0].field, "icrc");
    }

    #[test]
    fn linux_sends_a_migration_bit_that_the_specification_does_not() {
        let frame = captured(&ack(1));
        let found = compare(&emit(&frame), &emit(&frame));
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].field[..], &found[0].expected[..]), ("bth.migreq", "1"));
    }

    #[test]
    fn credits_may_be_real_but_a_nak_is_no_acknowledgement() {
        let frame = captured(&ack(1));
        let with = |syndrome| {
            let mut other = frame;
            other.ext.aeth = Some(Aeth { syndrome, ..other.ext.aeth.unwrap() });
            compare(&emit(&frame), &of_card(&other))
        };
        assert_eq!(with(0x05), []);
        for syndrome in [0x20, 0x60, 0x62] {
            assert_eq!(with(syndrome)[0].field, "aeth.syndrome");
        }
        let mut nak = frame;
        nak.ext.aeth = Some(Aeth { syndrome: 0x63, msn: 1 });
        let mut right = nak;
        right.ext.aeth = Some(Aeth { syndrome: 0x61, msn: 1 });
        let context = Context { short_receive: true, ..Context::default() };
        assert_eq!(frames(PLACE, &emit(&nak), &of_card(&right), &context), []);
        assert_ne!(frames(PLACE, &emit(&nak), &of_card(&nak), &context), []);
        assert_ne!(compare(&emit(&nak), &of_card(&right)), []);
    }

    #[test]
    fn address_families_and_tags_are_told_apart() {
        let (v4, v6) = (captured(&write(&[9; 8], false, false)), captured(&write(&[9; 8], true, false)));
        let tagged = captured(&write(&[9; 8], true, true));
        for frame in [v4, v6, tagged] {
            assert_eq!(compare(&emit(&frame), &of_card(&frame)), []);
        }
        let names = |expected: &Frame<'_>, got: &Frame<'_>| -> Vec<String> {
            compare(&emit(expected), &of_card(got)).into_iter().map(|d| d.field).collect()
        };
        assert!(names(&v4, &v6).contains(&"ip".to_string()));
        assert!(names(&v6, &tagged).contains(&"vlan".to_string()));
        let mut other = tagged;
        other.vlan = Some(Vlan { pcp: 5, ..other.vlan.unwrap() });
        assert_eq!(names(&tagged, &other), ["vlan.pcp"]);
        let mut other = v6;
        if let Ip::V6(ip) = &mut other.ip {
            ip.flow_label = 7;
        }
        assert_eq!(names(&v6, &other), ["ipv6.flow_label"]);
    }

    #[test]
    fn padding_of_short_frames_must_be_zeros_up_to_the_shortest() {
        let frame = captured(&ack(1));
        let got = of_card(&frame);
        let mut longer = got.clone();
        longer.extend([0; 4]);
        // An ACK has 62 bytes: nothing is to be padded.
        assert_eq!(compare(&emit(&frame), &longer)[0].field, "trailer");
    }
}
