// SPDX-License-Identifier: MIT OR Apache-2.0
//! Posting and polling do not allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::common::*;
use ferrowire::*;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is handed to the system's allocator; counting touches a thread-local without a destructor only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(f: impl FnOnce()) -> usize {
    let before = COUNT.with(Cell::get);
    f();
    COUNT.with(Cell::get) - before
}

#[test]
fn posting_and_polling_do_not_allocate() {
    let mut b = bench(16, 16);
    let sges = [b.source.sge(0, 8); 6];
    let inline = [0x55; 100];
    let remote = b.target.remote(0);
    let mut done = [Completion::default(); 16];
    assert_ne!(allocations(|| drop(std::hint::black_box(vec![1]))), 0, "the counter counts");
    for round in 0..100 {
        let posting = allocations(|| {
            let mut batch = b.qp.start_post_send();
            batch.post(&SendWr::write(round, &sges, remote)).unwrap();
            batch.post(&SendWr::write(round, Payload::Inline(&inline), remote)).unwrap();
            batch.post(&SendWr::write(round, &sges[..1], remote).signaled()).unwrap();
            batch.ring().unwrap();
        });
        // The card itself may allocate.
        (0..3).for_each(|_| b.mock.step());
        let mut n = 0;
        let polling = allocations(|| n = b.cq.poll(&mut done).unwrap());
        assert_eq!((posting, polling, n), (0, 0, 1));
        assert_eq!(done[0].wr_id(), round);
    }
}

#[test]
fn posting_and_polling_do_not_allocate_where_doorbells_are_mapped() {
    no_allocation(crate::common::mapped::rig(16), false);
}

#[test]
fn posting_and_polling_do_not_allocate_where_wqes_are_pushed() {
    no_allocation(crate::common::mapped::pushing(16), true);
}

fn no_allocation(mut rig: crate::common::mapped::Rig, pushes: bool) {
    let sges = [rig.region.sge(0, 8)];
    let remote = RemoteAddress { address: 0, rkey: 0 };
    let mut done = [Completion::default(); 16];
    for round in 0..100 {
        let mut taken = 0;
        let count = allocations(|| {
            let mut batch = rig.qp.start_post_send();
            batch.post(&SendWr::write(round, &sges, remote).signaled()).unwrap();
            batch.ring().unwrap();
            rig.qp.start_post_recv().post(&RecvWr::new(round, &sges)).unwrap();
            rig.cq.request_notify(true).unwrap();
            rig.card.complete(false);
            rig.card.complete(true);
            taken = rig.cq.poll(&mut done).unwrap() + rig.cq.poll(&mut done[2..]).unwrap();
        });
        assert_eq!(
            (count, taken),
            (0, 2),
            "round {round}, and also in the poll after the queue pair was made"
        );
        assert_eq!((done[0].wr_id(), done[1].kind()), (round, WorkKind::Receive));
        assert_eq!(rig.card.pushed().is_some(), pushes);
    }
}
