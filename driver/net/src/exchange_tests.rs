// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exchanges over streams of the host.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use super::*;

fn end(qpn: u32, ip: IpAddr) -> End {
    End {
        qpn,
        psn: Psn::new(0xff_fffe),
        ip,
        memory: RemoteAddress { address: 0x0102_0304_0506_0708, rkey: 0xa1b2_c3d4 },
        bytes: 1 << 33,
        path_mtu: PathMtu::B2048,
        rd_atomic: 16,
        selective: SELECTIVE,
    }
}

/// What exchange says when the other side has sent these bytes and no more.
fn against(bytes: &[u8]) -> Result<RemoteEnd, ExchangeError> {
    let (mut here, mut there) = UnixStream::pair().unwrap();
    there.write_all(bytes).unwrap();
    there.shutdown(std::net::Shutdown::Write).unwrap();
    exchange(&mut here, &end(1, [10, 0, 0, 1].into()))
}

#[test]
fn two_programs_tell_each_other_their_ends_over_a_stream_of_the_host() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let (a, b) = (end(2, [10, 0, 0, 1].into()), end(0xff_ffff, "fd00::2".parse().unwrap()));
    let other = std::thread::spawn(move || exchange(&mut TcpStream::connect(at).unwrap(), &b).unwrap());
    let here = exchange(&mut listener.accept().unwrap().0, &a).unwrap();
    assert_eq!((here, other.join().unwrap()), (b, a));
}

#[test]
fn what_is_none_of_ours_is_named() {
    let good = end(5, [10, 0, 0, 2].into()).to_bytes();
    assert_eq!(against(&good).unwrap().qpn, 5);
    let with = |at: usize, bytes: &[u8]| {
        let mut message = good;
        message[at..at + bytes.len()].copy_from_slice(bytes);
        against(&message).unwrap_err()
    };
    assert!(matches!(with(0, b"GET "), ExchangeError::Magic { found } if found == *b"GET "));
    assert!(matches!(with(4, &[0, 0]), ExchangeError::Version { found: 0 }));
    assert!(matches!(with(6, &[0, 63]), ExchangeError::Length { found: 63 }));
    assert!(matches!(with(6, &[0, 65]), ExchangeError::Length { found: 65 }));
    assert!(matches!(with(4, &[0, 2, 0xff, 0xff]), ExchangeError::Length { found: 0xffff }));
    assert!(matches!(with(8, &[1]), ExchangeError::Field { field: "queue pair", value: 0x0100_0005 }));
    assert!(matches!(with(12, &[1]), ExchangeError::Field { field: "PSN", .. }));
    assert!(matches!(with(52, &[9]), ExchangeError::Field { field: "path MTU", value: 9 }));
    for cut in [0, 7, 8, 63] {
        assert!(matches!(against(&good[..cut]), Err(ExchangeError::Stream { .. })), "{cut} bytes");
    }
}

#[test]
fn ends_agree_on_selective_retransmission_if_both_name_the_same_version() {
    let naming = |selective| End { selective, ..end(5, [10, 0, 0, 2].into()) };
    for (own, other, agreed) in
        [(1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 0), (1, 2, 0), (2, 1, 0), (1, 0xff, 0)]
    {
        let found = against(&naming(other).to_bytes()).unwrap();
        assert_eq!(found.selective, other);
        assert_eq!(naming(own).agreed_selective(&found), agreed, "{own} and {other}");
    }
}

#[test]
fn a_program_that_does_not_know_selective_retransmission_sends_0_there() {
    let mut old = end(5, [10, 0, 0, 2].into()).to_bytes();
    assert_eq!((old.len(), old[54]), (64, SELECTIVE));
    old[54..].fill(0);
    let found = against(&old).unwrap();
    assert_eq!(found, End { selective: 0, ..end(5, [10, 0, 0, 2].into()) });
    assert_eq!(end(1, [10, 0, 0, 1].into()).agreed_selective(&found), 0);
}

#[test]
fn a_wish_that_the_own_card_cannot_fulfil_is_refused_with_what_to_do() {
    for (wish, card) in [(false, false), (false, true), (true, true)] {
        check_selective("connect_exchange", wish, card).unwrap();
    }
    let error = check_selective("connect_exchange", true, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "connect_exchange: the options wish selective retransmission, which the card does not have; set `selective` to false for go-back-N, or take a card with the feature `selective`"
    );
    assert_eq!(error.errno(), rustix::io::Errno::OPNOTSUPP);
    assert!(!RcOptions::default().selective);
}

#[test]
fn a_later_version_may_say_more() {
    let mut later = end(5, [10, 0, 0, 2].into()).to_bytes().to_vec();
    later[4..8].copy_from_slice(&[0, 2, 0, 80]);
    later.extend([0xee; 16]);
    assert_eq!(against(&later).unwrap(), end(5, [10, 0, 0, 2].into()));
    assert!(matches!(against(&later[..79]), Err(ExchangeError::Stream { .. })));
}
