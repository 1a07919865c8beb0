// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the ends' memory holds before a case, and what it must hold after it.

use std::ops::Range;

use ferrowire_spec::wire::{ipv4, Frame, Ip};

use super::compare::{Difference, Place};
use super::log::Line;
use super::scenario::{Case, Role};
use super::trace::{Captured, Trace};

/// The responder's bytes that `head` sums.
pub const HEAD: Range<usize> = 0..4096;

/// The responder's bytes that `recv` sums.
pub const RECV: Range<usize> = 8192..24576;

/// The responder's memory before a case.
pub fn responder(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (0xa0 ^ i ^ (i >> 8)) as u8).collect()
}

/// The requester's memory before a case.
pub fn requester(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (7 * i + (i >> 8) + 3) as u8).collect()
}

/// The 32-bit FNV-1a sum.
pub fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Bytes that the requester's memory must have.
pub fn requester_bytes(case: &Case) -> usize {
    (case.work.local_offset + case.work.bytes).max(1 + case.work.bytes).max(8)
}

/// Bytes before a datagram's payload.
const GRH: usize = 40;

/// The 40 bytes before the payload of each datagram in a capture: the IPv6 header, or 20 zeros and the IPv4 header (IBTA A17.4.5.2).
pub fn headers(trace: &Trace) -> Vec<[u8; GRH]> {
    let of = |captured: &Captured| {
        let frame = Frame::parse(&captured.bytes).ok().filter(|frame| frame.ext.deth.is_some())?;
        let mut header = [0; GRH];
        match &frame.ip {
            Ip::V4(ip) => ip.emit(&mut header[GRH - ipv4::BYTES..]).ok()?,
            Ip::V6(ip) => ip.emit(&mut header).ok()?,
        }
        Some(header)
    };
    trace.frames.iter().filter_map(of).collect()
}

/// The memory of an end after a case whose work has succeeded; `None` when the case names no such places, or work that is not
/// known. `headers`: those of datagrams.
pub fn after(case: &Case, role: Role, headers: &[[u8; GRH]]) -> Option<Vec<u8>> {
    let work = &case.work;
    let (mut far, mut near) = (responder(case.region.bytes), requester(requester_bytes(case)));
    let local = work.local_offset..work.local_offset + work.bytes;
    for i in 0..work.count {
        let place = |bytes: usize| -> Option<Range<usize>> {
            let start = work.remote_va?.checked_sub(case.region.va?)?;
            let moved = work.remote_stride.checked_mul(i as u64)?;
            let at = usize::try_from(start.checked_add(moved)?).ok()?;
            Some(at..at.checked_add(bytes)?)
        };
        match &work.verb[..] {
            "SEND" | "SEND_WITH_IMM" | "SEND_WITH_INV" => {
                let mut at = case.receives.get(i)?.offset;
                if case.service == "UD" {
                    far.get_mut(at..at + GRH)?.copy_from_slice(headers.get(i)?);
                    at += GRH;
                }
                let to = far.get_mut(at..)?.get_mut(..work.bytes)?;
                to.copy_from_slice(near.get(local.clone())?);
            }
            "RDMA_WRITE" | "RDMA_WRITE_WITH_IMM" if work.bytes == 0 => {}
            "RDMA_WRITE" | "RDMA_WRITE_WITH_IMM" => {
                far.get_mut(place(work.bytes)?)?.copy_from_slice(near.get(local.clone())?);
            }
            "RDMA_READ" if work.bytes == 0 => {}
            "RDMA_READ" => near.get_mut(local.clone())?.copy_from_slice(far.get(place(work.bytes)?)?),
            "COMPARE_AND_SWAP" | "FETCH_AND_ADD" => {
                let cell = far.get_mut(place(8)?)?;
                near.get_mut(local.clone())?.copy_from_slice(cell);
                let old = u64::from_le_bytes(*cell.first_chunk()?);
                let new = match (work.compare_add?, &work.verb[..]) {
                    (add, "FETCH_AND_ADD") => old.wrapping_add(add),
                    (compare, _) if compare == old => work.swap?,
                    _ => old,
                };
                cell.copy_from_slice(&new.to_le_bytes());
            }
            _ => return None,
        }
    }
    Some(match role {
        Role::Responder => far,
        Role::Requester => near,
    })
}

/// Compares memory with the sums of log lines. A sum over bytes that the memory does not have is a difference.
pub fn check_sums(lines: &[Line], case: &Case, memory: &[u8]) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut sum = |field: &str, range: Range<usize>, expected: u32| {
        let got = memory.get(range.clone()).map(fnv1a);
        if got != Some(expected) {
            let got = got.map_or("memory that ends before".to_string(), |got| format!("{got:08x}"));
            let what = format!("{field} (FNV-1a of bytes {}..{})", range.start, range.end);
            found.push(Difference::new(Place::Memory, &what, format!("{expected:08x}"), got));
        }
    };
    let mut firsts = Vec::new();
    for line in lines {
        match line {
            Line::Local { sum: expected, first } => {
                sum("local sum", 1..1 + case.work.bytes, *expected);
                firsts.push(*first);
            }
            Line::Buffers { head, recv, first } => {
                sum("head", HEAD, *head);
                sum("recv", RECV, *recv);
                firsts.push(*first);
            }
            _ => {}
        }
    }
    let got = memory.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    for expected in firsts.into_iter().filter(|expected| got != Some(*expected)) {
        let got = got.map_or("less than 8 bytes".to_string(), |got| format!("{got:016x}"));
        found.push(Difference::new(Place::Memory, "first 8 bytes", format!("{expected:016x}"), got));
    }
    found
}

/// Compares memory byte for byte; tells the first difference and how many there are.
pub fn check_bytes(what: &str, expected: &[u8], got: &[u8]) -> Option<Difference> {
    let first = expected.iter().zip(got).position(|(expected, got)| expected != got)?;
    let count = expected.iter().zip(got).filter(|(expected, got)| expected != got).count();
    Some(Difference::new(
        Place::Memory,
        &format!("byte {first} {what}, {count} in all"),
        format!("{:#04x}", expected[first]),
        format!("{:#04x}", got[first]),
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::scenario::read;
    use super::super::{load, Loaded, Roles};
    use super::*;

    #[test]
    fn what_work_leaves_behind_has_the_logged_sums() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/v4");
        let mut checked = 0;
        for Loaded { case, traces } in load(&golden, None, Roles::Both).unwrap() {
            let headers = headers(&traces[0].1);
            let lines =
                |role| case.log(role).iter().map(|line| Line::parse(&case.name, line)).collect::<Vec<_>>();
            let well = |line: &Line| match line {
                Line::Completion(wc) => Some(wc.status == 0),
                _ => None,
            };
            let failed = lines(Role::Requester).iter().filter_map(well).any(|well| !well);
            for role in [Role::Responder, Role::Requester] {
                let memory = match (failed, role) {
                    (false, role) => after(&case, role, &headers).unwrap(),
                    (true, Role::Responder) => responder(case.region.bytes),
                    (true, Role::Requester) => requester(requester_bytes(&case)),
                };
                assert_eq!(check_sums(&lines(role), &case, &memory), [], "{} as {role}", case.name);
                checked += 1;
            }
        }
        assert!(checked >= 90, "{checked} ends");
    }

    #[test]
    fn a_changed_byte_is_found_by_its_sum_and_by_its_place() {
        let case = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/v4"), Some("write_big"))
            .unwrap()
            .remove(0);
        let lines: Vec<Line> =
            case.log(Role::Responder).iter().map(|line| Line::parse(&case.name, line)).collect();
        let good = after(&case, Role::Responder, &[]).unwrap();
        for (at, sums) in [(0, 2), (4095, 1), (4096, 0), (8192, 1), (60_000, 0)] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(check_sums(&lines, &case, &bad).len(), sums, "byte {at}");
            let found = check_bytes("of it", &good, &bad).unwrap();
            assert_eq!(found.field, format!("byte {at} of it, 1 in all"));
        }
        assert_eq!(check_sums(&lines, &case, &good[..5000]).len(), 1, "memory that ends before a sum");
    }

    #[test]
    fn the_sum_is_fnv_1a() {
        // The offset basis, and the published vector of one letter.
        assert_eq!((fnv1a(b""), fnv1a(b"a")), (0x811c_9dc5, 0xe40c_292c));
    }
}
