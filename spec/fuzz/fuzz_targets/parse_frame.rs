// SPDX-License-Identifier: MIT OR Apache-2.0
//! No bytes make the frame parser panic, and what it takes encodes to the same bytes. Each input is tried as
//! it is and with IPv4 checksum and ICRC made right, so that the later checks are reached.
#![no_main]

use ferrowire_spec::wire::{checksum, icrc, Frame};
use libfuzzer_sys::fuzz_target;

fn survive(bytes: &[u8]) {
    if let Ok(frame) = Frame::parse(bytes) {
        let mut out = vec![0; bytes.len()];
        assert_eq!(frame.emit(&mut out), Ok(bytes.len()));
        assert_eq!(out, bytes);
    }
}

fuzz_target!(|data: &[u8]| {
    survive(data);
    let mut frame = data.to_vec();
    if frame.len() >= 34 && frame[12..14] == [0x08, 0x00] {
        frame[24..26].fill(0);
        let sum = checksum::ipv4(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    if frame.len() > 18 {
        let body = frame.len() - 4;
        if let Ok(icrc) = icrc::icrc(&frame[14..body]) {
            frame[body..].copy_from_slice(&icrc.to_le_bytes());
        }
    }
    survive(&frame);
});
