// SPDX-License-Identifier: MIT OR Apache-2.0
//! Responses of a READ are read from memory one by one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use ferrowire_spec::queue::event::EventKind;
use ferrowire_spec::wire::syndrome::{NakCode, Syndrome};

use super::super::memory::Lent;
use super::super::types::{SendWr, MAX_MESSAGE};
use super::*;

/// Memory of any size, all of it there, which counts the bytes that are read.
#[derive(Debug)]
struct Counted(Arc<AtomicU64>);

impl Lent for Counted {
    fn covers(&self, _: u64, _: u64) -> bool {
        true
    }

    fn read(&self, _: u64, out: &mut [u8]) -> bool {
        self.0.fetch_add(out.len() as u64, Ordering::Relaxed);
        out.fill(0x5a);
        true
    }

    fn write(&mut self, _: u64, _: &[u8]) -> bool {
        true
    }
}

#[test]
fn a_read_of_2_gib_takes_its_responder_no_more_than_a_response() {
    const BASE: u64 = 1 << 40;
    let mut p = Pair::new();
    let read = Arc::new(AtomicU64::new(0));
    p.b.engine.memory_mut().lend(BASE, Box::new(Counted(Arc::clone(&read))));
    let attr = RegionAttr { pd: PD, base: BASE, va: 0, len: MAX_MESSAGE, rights: Rights::ALL, page: 1 };
    let key = p.b.engine.register(attr, None).unwrap();
    p.a.engine.post_send(p.a.qpn, SendWr::read(1, &[p.a.sge(0, 16)], 0, key)).unwrap();
    let asked = p.a_sends().remove(0);
    let whole = changed(&asked, |frame| {
        frame.ext.reth.as_mut().unwrap().len = MAX_MESSAGE as u32;
    });
    p.b_gets(&[whole]);
    assert_eq!(read.load(Ordering::Relaxed), 0, "nothing goes yet");
    for responses in 1..=3 {
        let frame = p.b.engine.poll_transmit(0).unwrap();
        assert_eq!(Frame::parse(&frame).unwrap().payload, [0x5a; MTU]);
        assert_eq!(read.load(Ordering::Relaxed), responses * MTU as u64);
    }
}

#[test]
fn a_right_or_memory_that_goes_while_a_read_is_answered_ends_the_connection_with_a_nak() {
    for memory in [false, true] {
        let mut p = Pair::new();
        let (va, key) = (p.b.va, p.b.key);
        let reads = [(1, 3 * MTU), (2, 8)];
        for (id, len) in reads {
            p.a.engine.post_send(p.a.qpn, SendWr::read(id, &[p.a.sge(0, len)], va, key)).unwrap();
        }
        let asked = p.a_sends();
        p.b_gets(&asked);
        let first = p.b.engine.poll_transmit(0).unwrap();
        let code = match memory {
            true => {
                assert!(p.b.engine.memory_mut().unmap(0x10_0000));
                NakCode::RemoteOperational
            }
            false => {
                p.b.engine.deregister(key).unwrap();
                NakCode::RemoteAccess
            }
        };
        let rest = p.b_sends();
        assert_eq!(packets(&rest), [(Opcode::RcAcknowledge, 0x101)], "the NAK, and no answer after it");
        assert_eq!(aeth(&rest[0]).1, Syndrome::Nak(code).encode());
        assert_eq!(p.b.state(), QpState::Err);
        let told = if memory { EventKind::QpFatal } else { EventKind::QpAccessError };
        assert!(p.b.events().contains(&told));
        p.a_gets(&[first]);
        p.a_gets(&rest);
        let status = if memory { WcStatus::RemOpErr } else { WcStatus::RemAccessErr };
        assert_eq!(p.a.all_done(), [(1, status), flushed(2)]);
    }
}
