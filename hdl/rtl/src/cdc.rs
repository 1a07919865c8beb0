// SPDX-License-Identifier: MIT OR Apache-2.0
//! From one clock to another: [`async_fifo`]. A single bit goes through [`Scope::synchronise`].

use crate::bundle::{Bundle, Interface};
use crate::scope::{DomainId, Scope};
use crate::sig::{clog2, lit, Sig};
use crate::stream::Stream;
use crate::Collision;

/// A FIFO of `depth` beats, a power of two, whose input runs in domain `from` and whose output in domain `to`.
///
/// ```text
///   from:  input --> write at `head` --> [memory] --> read at `tail` --> output  :to
///                    head, Gray coded ---- two flops ----> empty?
///               full? <---- two flops ---- tail, Gray coded
/// ```
///
/// The clocks need not be related. Only Gray-coded pointers cross, each through two flops, so that whatever a flop
/// catches of a change is the pointer before or after it. The output is a register or the memory's own.
///
/// - Latency: a beat is on offer 3 edges of `to` after the edge of `from` that took it (4 where the first flop misses it).
/// - Rate: a beat a cycle of the slower clock with 8 beats of depth or more; the way of the pointers and back takes that
///   long.
/// - Reset: both domains together. Each reset is held until both clocks have seen it; what was inside is lost.
///
/// # Panics
/// If `depth` is no power of two or below 2.
#[crate::module]
pub fn async_fifo<T: Bundle + Interface>(
    m: &Scope,
    #[param] depth: u32,
    #[param] from: DomainId,
    #[param] to: DomainId,
    input: Stream<T>,
) -> Stream<T> {
    let mem = m.mem("words", depth, &input.payload).build();
    mem.allow_crossing();
    // One bit more than an address: it tells a full memory from an empty one.
    let width = clog2(depth.into()) + 1;

    let head = m.in_domain(from, |m| pointer(m, "head", width));
    let tail = m.in_domain(to, |m| pointer(m, "tail", width));

    m.in_domain(from, |m| {
        let seen = m.synchronise("tail", tail.gray);
        // A whole round ahead: in Gray code the top two bits differ and no other.
        let full = head.gray.eq(seen ^ (lit(width, 3) << (width - 2)));
        let push = (input.valid & !full).named("push");
        mem.write(push, head.count.trunc(width - 1), &input.payload);
        head.step(m, push);
        input.accept(!full);
    });
    m.in_domain(to, |m| {
        let seen = m.synchronise("head", head.gray);
        let valid = m.reg("output_valid", 1).reset(0);
        let take = m.wire("take", 1);
        let payload = mem.read(m, take, tail.count.trunc(width - 1), Collision::Old);
        let output = Stream::new(m, "output", valid, payload);
        m.drive(&take, tail.gray.ne(seen) & (!valid | output.ready));
        m.set(&valid, take | (valid & !output.ready));
        tail.step(m, take);
        output
    })
}

/// A counter with its Gray code, both registers.
struct Pointer {
    count: Sig,
    gray: Sig,
}

fn pointer(m: &Scope, name: &str, width: u32) -> Pointer {
    let count = m.reg(name, width).reset(0);
    let gray = m.reg(&format!("{name}_gray"), width).reset(0);
    Pointer { count, gray }
}

impl Pointer {
    fn step(&self, m: &Scope, on: Sig) {
        let next = self.count + 1;
        m.when(on, |m| {
            m.set(&self.count, next);
            m.set(&self.gray, next ^ (next >> 1));
        });
    }
}
