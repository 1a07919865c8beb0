// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is proven of slices and FIFOs: nothing is lost, doubled or overtaken, and what is offered stays until it is taken.

use super::*;
use crate::proof::{Order, Proof, Way};
use ferrowire_rtl::{bits, lit, Scope, Sig, Stream};

/// A block between a free source and a free sink; so many beats are within at most.
fn bench(m: &Scope, most: u32, block: &dyn Fn(&Scope, Stream<Sig>) -> Stream<Sig>) {
    let input = m.stream_in("in", &bits(1));
    let (enters, beat) = (input.fire(), input.payload);
    let out = block(m, input);
    let (valid, payload, leaves) = (out.valid, out.payload, out.fire());
    m.stream_out("out", out);
    let order = Order::new(m, "in", most, enters, &beat, leaves);
    m.assert(!valid | order.within.ne(0), "what comes out has come in");
    m.assert(!(valid & order.due) | payload.eq(order.watched), "it is the oldest that is within");
    let stays = m.reg("stays", 1).reset(0);
    m.set(&stays, valid & !leaves);
    let offered = m.delay("offered", &payload);
    m.assert(!stays | (valid & payload.eq(offered)), "what is offered stays until it is taken");
    // An empty block offers what it has within two cycles more.
    let hidden = m.reg("hidden", 2).reset(0);
    m.set(&hidden, hidden + 1);
    m.when(valid | order.within.eq(0), |m| m.set(&hidden, 0));
    m.assert(hidden.lt(3), "what is within is offered soon");
    m.discard(&(order.chooses, order.waits, order.ahead, lit(1, 0)));
}

/// All of them. The input may withdraw what it offers: no block counts on more.
pub fn proofs() -> Vec<Proof> {
    type Block<'a> = &'a dyn Fn(&Scope, Stream<Sig>) -> Stream<Sig>;
    let blocks: [(&str, u32, Block); 6] = [
        ("skid", 2, &skid),
        ("forward", 1, &forward),
        ("half", 1, &half),
        ("fifo", 2, &|m, input| fifo(m, 2, input)),
        ("deep-fifo", 3, &|m, input| deep_fifo(m, 2, input)),
        ("prompt-fifo", 3, &|m, input| prompt_fifo(m, 2, input)),
    ];
    let about = "no beat is lost, doubled or overtaken, and each stays until it is taken";
    let prove = |(name, most, block): (&str, u32, Block)| {
        let proof = Proof::new(format!("stream-{name}"), about, Way::Invariant, |m| bench(m, most, block));
        proof.with_faults(match name {
            "skid" => &[
                ("the second place is not kept", "moves", "1'b1"),
                ("it takes a third", "input_ready", "1'b1"),
            ],
            "half" => &[("it takes a second", "input_ready", "1'b1")],
            "fifo" => &[("a full one takes more", "input_ready", "1'b1")],
            _ => &[],
        })
    };
    blocks.into_iter().map(prove).collect()
}
