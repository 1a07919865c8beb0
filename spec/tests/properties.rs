// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for any input.

use ferrowire_spec::wire::{
    icrc, Aeth, AtomicAckEth, AtomicEth, Cnp, Deth, Eth, Ieth, ImmDt, Ipv4, Ipv6, Reth, Udp, Vlan,
};
use ferrowire_spec::wire::{Bth, Frame};
use ferrowire_spec::{pcie, queue, Order, Psn, PsnClass, ALL_LAYOUTS};
use proptest::prelude::*;
use std::sync::LazyLock;

static FRAMES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let all = crate::common::captured().into_iter().filter(|c| c.is_roce());
    all.filter(|c| c.folder != "tools" || c.number % 50 == 1).map(|c| c.bytes).collect()
});

/// Whatever parses also encodes, to the same bytes.
fn survive(bytes: &[u8]) {
    if let Ok(frame) = Frame::parse(bytes) {
        let mut out = vec![0; bytes.len()];
        assert_eq!(frame.emit(&mut out), Ok(bytes.len()));
        assert_eq!(out, bytes);
    }
    let _ = icrc::check(bytes);
    let _ = icrc::icrc(bytes);
}

/// Recompute IPv4 checksum and ICRC, so that damage reaches the later checks.
fn reseal(frame: &mut [u8]) {
    if frame.len() < 58 || frame[12..14] != [0x08, 0x00] {
        return;
    }
    frame[24..26].fill(0);
    let sum = ferrowire_spec::wire::checksum::ipv4(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    let total = u16::from_be_bytes([frame[16], frame[17]]) as usize;
    let Some(packet) = frame.get_mut(14..14 + total).filter(|p| p.len() >= 44) else { return };
    let body = packet.len() - 4;
    if let Ok(icrc) = icrc::icrc(&packet[..body]) {
        packet[body..].copy_from_slice(&icrc.to_le_bytes());
    }
}

macro_rules! structs_survive {
    ($data:expr; $($path:path)+) => {$({
        type S = $path;
        if let Ok(value) = S::parse($data) {
            let bytes = value.to_bytes().unwrap();
            assert_eq!(bytes[..], $data[..bytes.len()], stringify!($path));
            assert_eq!(S::parse(&bytes), Ok(value));
            assert!(S::parse(&bytes[..bytes.len() - 1]).is_err());
            let mut short = vec![0; bytes.len() - 1];
            assert!(value.emit(&mut short).is_err());
        } else {
            panic!("{} is longer than the data", stringify!($path));
        }
    })+};
}

/// The words of a structure are its bytes, whatever the values of its fields.
macro_rules! words_are_the_bytes {
    ($data:expr; $($path:path)+) => {$({
        type S = $path;
        let value = S::parse($data).unwrap();
        let bytes = value.to_bytes().unwrap();
        let words = value.to_words().unwrap();
        let mut joined: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(joined.split_off(bytes.len()), vec![0; words.len() * 8 - bytes.len()]);
        assert_eq!(joined, bytes, stringify!($path));
        assert_eq!(S::from_words(&words), value);
    })+};
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survive(&bytes);
    }

    #[test]
    fn random_bytes_behind_a_sound_beginning_never_panic(
        which in any::<prop::sample::Index>(),
        keep in 12usize..60,
        tail in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let mut frame = which.get(&FRAMES[..]).clone();
        frame.truncate(keep);
        frame.extend(tail);
        survive(&frame);
        reseal(&mut frame);
        survive(&frame);
    }

    #[test]
    fn truncated_captured_frames_are_refused(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        let frame = which.get(&FRAMES[..]);
        let cut = &frame[..at.index(frame.len())];
        prop_assert!(Frame::parse(cut).is_err());
    }

    #[test]
    fn mutated_captured_frames_never_panic(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        seal in any::<bool>(),
    ) {
        let mut frame = which.get(&FRAMES[..]).clone();
        let headers = frame.len().min(100);
        for (at, byte) in damage {
            frame[at.index(headers)] = byte;
        }
        if seal {
            reseal(&mut frame);
        }
        survive(&frame);
    }

    #[test]
    fn every_structure_encodes_what_it_decoded(data in prop::collection::vec(any::<u8>(), 64)) {
        structs_survive! { &data[..];
            Eth Vlan Ipv4 Ipv6 Udp Bth Deth Reth AtomicEth Aeth AtomicAckEth ImmDt Ieth Cnp
            queue::SendWqe queue::send_wqe::ud::SendWqeUd queue::send_wqe::bind::SendWqeBind
            queue::send_wqe::sges::SendWqeSges queue::send_wqe::sge::Sge queue::RecvWqe queue::Cqe queue::Event
            queue::doorbell::sq::SqDoorbell queue::doorbell::rq::RqDoorbell queue::doorbell::cq::CqDoorbell
            queue::doorbell::eq::EqDoorbell queue::command::Command queue::command::create_cq::CreateCq
            queue::command::modify_cq::ModifyCq
            queue::command::resize_cq::ResizeCq
            queue::command::reg_mr::RegMr queue::command::create_qp::CreateQp
            queue::command::modify_qp::ModifyQp queue::command::set_av::SetAv
            queue::command::create_ah::CreateAh queue::command::create_srq::CreateSrq
            queue::command::modify_srq::ModifySrq queue::command::alloc_mw::AllocMw
            queue::command::create_eq::CreateEq queue::CommandCompletion
            queue::command_completion::qp_summary::QpSummary
            queue::command_completion::srq_summary::SrqSummary
            queue::command_completion::cq_summary::CqSummary
        }
    }

    #[test]
    fn the_words_of_every_host_structure_are_its_bytes(data in prop::collection::vec(any::<u8>(), 64)) {
        words_are_the_bytes! { &data[..];
            queue::SendWqe queue::send_wqe::ud::SendWqeUd queue::send_wqe::bind::SendWqeBind
            queue::send_wqe::sges::SendWqeSges queue::send_wqe::sge::Sge queue::RecvWqe queue::Cqe queue::Event
            queue::doorbell::sq::SqDoorbell queue::doorbell::rq::RqDoorbell queue::doorbell::cq::CqDoorbell
            queue::doorbell::eq::EqDoorbell queue::command::Command queue::command::create_cq::CreateCq
            queue::command::modify_cq::ModifyCq
            queue::command::resize_cq::ResizeCq
            queue::command::reg_mr::RegMr queue::command::create_qp::CreateQp
            queue::command::modify_qp::ModifyQp queue::command::set_av::SetAv
            queue::command::create_ah::CreateAh queue::command::create_srq::CreateSrq
            queue::command::modify_srq::ModifySrq queue::command::alloc_mw::AllocMw
            queue::command::create_eq::CreateEq queue::CommandCompletion
            queue::command_completion::qp_summary::QpSummary
            queue::command_completion::srq_summary::SrqSummary
            queue::command_completion::cq_summary::CqSummary
        }
        // Fields over the edges of words, and a size that is no multiple of 8.
        words_are_the_bytes! { &data[..];
            pcie::pcie4::cq_user::CqUser pcie::pcie4::rc_user::RcUser pcie::pcie4::rq_user::RqUser
        }
    }

    #[test]
    fn a_value_too_wide_for_its_field_has_no_words(dest_qpn in any::<u32>(), rsvd1 in any::<u64>(), push_slot in any::<u8>()) {
        let wqe = queue::send_wqe::ud::SendWqeUd { dest_qpn, ..Default::default() };
        prop_assert_eq!(wqe.to_words().map(|_| ()), wqe.to_bytes().map(|_| ()));
        let wqe = queue::SendWqe { rsvd1, ..Default::default() };
        prop_assert_eq!(wqe.to_words().map(|_| ()), wqe.to_bytes().map(|_| ()));
        let bell = queue::doorbell::sq::SqDoorbell { push_slot, ..Default::default() };
        prop_assert_eq!(bell.to_words().map(|_| ()), bell.to_bytes().map(|_| ()));
    }

    #[test]
    fn a_field_of_one_word_is_composed_and_read_in_that_word(data in prop::collection::vec(any::<u8>(), 64), value in any::<u64>()) {
        let words: Vec<u64> = data.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        for layout in ALL_LAYOUTS.iter().filter(|layout| layout.order == Order::Little) {
            for field in layout.fields.iter().filter(|field| field.offset / 64 == (field.end() as u16 - 1) / 64) {
                let at = field.word();
                prop_assert_eq!(u128::from(field.of_word(words[at])), field.get(layout.order, &data));
                let value = value & field.max() as u64;
                let mut written = vec![0; 64];
                field.set(layout.order, &mut written, value.into());
                prop_assert_eq!(&field.to_word(value).to_le_bytes()[..], &written[8 * at..][..8]);
            }
        }
    }

    #[test]
    fn a_field_is_the_bits_that_bus_bit_says(data in prop::collection::vec(any::<u8>(), 64), value in any::<u128>()) {
        for layout in ALL_LAYOUTS {
            for field in layout.fields {
                let bit = |bytes: &[u8], at: usize| u128::from(bytes[at / 8] >> (at % 8) & 1);
                let by_hand = |bytes: &[u8]| {
                    (0..field.width as usize)
                        .map(|i| bit(bytes, field.bus_bit(layout.order, i)) << i)
                        .sum::<u128>()
                };
                prop_assert_eq!(field.get(layout.order, &data), by_hand(&data));
                let mut written = data.clone();
                field.set(layout.order, &mut written, value & field.max());
                prop_assert_eq!(by_hand(&written), value & field.max());
                field.set(layout.order, &mut written, by_hand(&data));
                prop_assert_eq!(&written, &data, "{}.{}: other bits moved", layout.name, field.name);
            }
            let _ = Order::Network;
        }
    }

    #[test]
    fn psns_wrap_and_compare_in_their_window(start in 0u32..1 << 24, steps in 0u32..1 << 24) {
        let a = Psn::new(start);
        let b = a + steps;
        prop_assert_eq!(b.distance_from(a), steps);
        prop_assert_eq!(b - steps, a);
        prop_assert_eq!(a.next().previous(), a);
        prop_assert_eq!(a + 1, a.next());
        prop_assert_eq!(b.is_within(a, steps), false);
        prop_assert_eq!(b.is_within(a, steps + 1), true);
        let want = match steps {
            0 => PsnClass::Expected,
            1..0x80_0000 => PsnClass::Ahead,
            _ => PsnClass::Duplicate,
        };
        prop_assert_eq!(a.classify(b), want);
        prop_assert_eq!(b.is_before(a), want == PsnClass::Duplicate);
        let signed = if steps < Psn::WINDOW { steps as i32 } else { steps as i32 - (1 << 24) };
        prop_assert_eq!(b - a, signed);
    }
}

#[test]
fn a_psn_wraps_from_ffffff_to_zero() {
    assert_eq!(Psn::MAX.next(), Psn::new(0));
    assert_eq!(Psn::new(0).previous(), Psn::MAX);
    assert_eq!(Psn::new(0x0100_0005), Psn::new(5));
    assert_eq!(Psn::new(0).classify(Psn::new(0x80_0000)), PsnClass::Duplicate);
    assert_eq!(Psn::new(0).classify(Psn::new(0x7f_ffff)), PsnClass::Ahead);
    assert_eq!(Psn::new(1).to_string(), "0x000001");
}

#[test]
fn a_value_too_wide_for_its_field_is_refused_and_nothing_is_written() {
    let mut bytes = [0xaa; 12];
    let error = Bth { psn: 1 << 24, ..Bth::default() }.emit(&mut bytes).unwrap_err();
    assert_eq!(error.to_string(), "bth.psn: 0x1000000 does not fit in 24 bits");
    assert_eq!(bytes, [0xaa; 12]);
}
