// SPDX-License-Identifier: MIT OR Apache-2.0
//! What waits for the responses to writes before it.
//!
//! ```text
//!            +------------------------------+
//!  input --->| tail    cleared_k       head |---> out, while head has not come to any cleared_k
//!            +------------------------------+
//!                       ^
//!                       +-- one on where so many responses have come as were to come when the beat was taken
//! ```
//!
//! AXI promises no order in which others see writes to different addresses before their responses, and none at all between reads and writes
//! (AMBA AXI4, A6.3), so who must be seen later leaves later. Responses and what they are counted against are free-running numbers. A beat is
//! cleared as soon as its number is reached, however long it then waits for its turn, so that numbers wrap without harm.
//!
//! One beat a cycle in and out; a beat that waits for nothing leaves two cycles after it came. `ready` comes from registers alone. Reset empties.

use ferrowire_rtl::{bits, clog2, module, Bundle, Interface, Scope, Sig, Stream, Style};

/// Bits of a count of bursts.
pub const COUNT: u32 = 10;

/// Bursts of one ID that may be under way: so few that what has come and what is to come never lie half a round apart.
pub const MOST: u32 = 1 << (COUNT - 2);

/// Bursts of an ID.
#[derive(Clone, Bundle)]
pub struct Bursts {
    /// Those that were taken up to and with this cycle.
    pub taken: Sig,
    /// Those whose responses have come before this cycle.
    pub done: Sig,
}

impl Bursts {
    /// The shape.
    pub fn of() -> Self {
        Bursts { taken: bits(COUNT), done: bits(COUNT) }
    }

    /// Whether as many responses have come as `taken` was at some time.
    pub fn reached(&self, taken: Sig) -> Sig {
        !(self.done - taken).msb()
    }
}

/// Lets beats out when the bursts that were taken before them are done.
#[module]
pub fn barrier<T: Bundle + Interface>(
    m: &Scope,
    #[param] depth: u32,
    bursts: Vec<Bursts>,
    input: Stream<T>,
) -> Stream<T> {
    let address = clog2(u64::from(depth));
    let pointer = |name: &str| m.reg(name, address + 1).reset(0);
    let (head, tail) = (pointer("head"), pointer("tail"));
    let store = m.mem("store", depth, &input.payload).style(Style::Distributed).build();
    let place = tail.trunc(address);
    input.accept((tail - head).ne(depth));
    store.write(input.fire(), place, &input.payload);
    m.when(input.fire(), |m| m.set(&tail, tail + 1));

    let mut open = head.ne(tail);
    for (k, bursts) in bursts.iter().enumerate() {
        let cleared = pointer(&format!("cleared{k}"));
        let before = m.mem(&format!("before{k}"), depth, &bits(COUNT)).style(Style::Distributed).build();
        before.write(input.fire(), place, &bursts.taken);
        let clears = cleared.ne(tail) & bursts.reached(before.read_now(cleared.trunc(address)));
        m.when(clears, |m| m.set(&cleared, cleared + 1));
        open = open & head.ne(cleared);
    }
    let out = Stream::new(m, "out", open, store.read_now(head.trunc(address)));
    m.when(out.fire(), |m| m.set(&head, head + 1));
    out
}
