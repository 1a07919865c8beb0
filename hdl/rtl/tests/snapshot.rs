// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Verilog of a small design, compared with a checked-in copy: it must stay readable. After a change that is meant,
//! `FERROWIRE_BLESS=1 cargo test -p ferrowire-rtl --test all snapshot::` writes the copy anew; look at the difference.

use ferrowire_rtl::{bits, build, clog2, module, Bundle, Collision, Fsm, Interface, Scope, Sig, Stream};
use std::path::Path;

#[derive(Clone, Bundle)]
struct Beat {
    data: Sig,
    last: Sig,
}

#[derive(Clone, Copy, Fsm)]
enum Output {
    Empty,
    Full,
}

/// A FIFO on a memory with clocked reads.
#[module]
fn fifo<T: Bundle + Interface>(m: &Scope, #[param] depth: u32, input: Stream<T>) -> (Stream<T>, Sig) {
    let width = clog2(depth.into());
    let mem = m.mem("words", depth, &input.payload).build();
    let head = m.reg("head", width).reset(0);
    let tail = m.reg("tail", width).reset(0);
    let level = m.reg("level", width + 1).reset(0);
    let state = m.fsm("state", Output::Empty);

    let push = input.fire();
    input.accept(level.ne(1u64 << width));
    mem.write(push, head, &input.payload);

    let pop = m.wire("pop", 1);
    let word = mem.read(m, pop, tail, Collision::New);
    let output = Stream::new(m, "output", state.is(Output::Full), word);
    m.drive(&pop, level.ne(0) & (state.is(Output::Empty) | output.ready));

    m.when(push, |m| m.set(&head, head + 1));
    m.when(pop, |m| {
        m.set(&tail, tail + 1);
        m.set(&state, Output::Full);
    })
    .otherwise_when(output.ready, |m| m.set(&state, Output::Empty));
    m.when(push & !pop, |m| m.set(&level, level + 1))
        .otherwise_when(!push & pop, |m| m.set(&level, level - 1));
    m.assert(level.le(1u64 << width), "the level stays within the depth");
    (output, level)
}

fn verilog() -> String {
    let netlist = build("top", |m| {
        let beat = Beat { data: bits(32), last: bits(1) };
        let first = m.stream_in("in", &beat);
        let (middle, level) = fifo(m, 16, first);
        let (last, _) = fifo(&m.label("second"), 16, middle);
        m.output("level", &level);
        m.stream_out("out", last);
    });
    netlist.unwrap().verilog()
}

#[test]
fn the_verilog_of_a_fifo_is_as_checked_in() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/fifo.v");
    let header = "// SPDX-License-Identifier: MIT OR Apache-2.0\n";
    let now = format!("{header}{}", verilog());
    if std::env::var_os("FERROWIRE_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    for (n, (now, expected)) in now.lines().zip(expected.lines()).enumerate() {
        assert_eq!(now, expected, "line {} of {}: bless it if the change is meant", n + 1, path.display());
    }
    assert_eq!(now.lines().count(), expected.lines().count());
}

#[test]
fn printing_is_repeatable() {
    assert_eq!(verilog(), verilog());
}
