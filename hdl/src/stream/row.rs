// SPDX-License-Identifier: MIT OR Apache-2.0
//! The row of a table that belongs to what a register slice shows.
//!
//! ```text
//!  index of what enters --> table (block RAM) --+--> row
//!  writes, to the index that is shown --> newer-+
//! ```
//!
//! A table that is read at once must be LUT RAM, some 20 LUTs a bit of 1,024 rows. Where its index passes a register slice anyway
//! ([`forward`](super::forward)), block RAM is read in the same cycle, and the row is on show together with the item. What is written
//! while the item stays counts from the next cycle on, as it would in the table. No latency beside the slice's.

use crate::types::TableWrite;
use ferrowire_rtl::{Bundle, Collision, Mem, Scope, Sig};

/// The row of what is `shown`. It entered as `coming` in the last cycle in which something `enters`; `write` is the table's one writer.
pub(crate) fn row_of<R: Bundle>(
    m: &Scope,
    name: &str,
    (enters, coming, shown): (Sig, Sig, Sig),
    table: &Mem<R>,
    write: &TableWrite<R>,
) -> R {
    let stored = table.read(m, enters, coming, Collision::New);
    let changed = m.reg(&format!("{name}_changed"), 1).reset(0);
    let newer = m.reg_of(&format!("{name}_newer"), &write.entry);
    let touches = write.enable & write.index.eq(shown);
    m.when(enters, |m| m.set(&changed, 0)).otherwise_when(touches, |m| m.set(&changed, 1));
    m.when(touches, |m| m.set_all(&newer, &write.entry));
    m.mux(changed, &newer, &stored)
}

/// What `f` says of an item and its row, in a register of the slice after the one that shows the row. The item that
/// [`row_of`] has `row` of `moves` to that slice, and what is written while it stays there counts from the next cycle on.
/// The keys and the items are those of the first slice and of the second.
pub(crate) fn fact_of<R: Bundle, T>(
    m: &Scope,
    name: &str,
    (moves, key_before, key): (Sig, Sig, Sig),
    (before, item): (&T, &T),
    row: &R,
    write: &TableWrite<R>,
    f: &dyn Fn(&R, &T) -> Sig,
) -> Sig {
    let fact = m.reg(name, 1).no_reset();
    let newest = m.mux(write.enable & write.index.eq(key_before), &write.entry, row);
    m.when(moves, |m| m.set(&fact, f(&newest, before)))
        .otherwise_when(write.enable & write.index.eq(key), |m| m.set(&fact, f(&write.entry, item)));
    fact
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{forward, keyed, Keyed};
    use crate::testing::Random;
    use ferrowire_rtl::{bits, build, Sim, Style};
    use rand::Rng;
    use std::collections::VecDeque;

    #[test]
    fn the_row_on_show_is_the_tables_and_so_is_what_is_known_of_it_in_the_next_slice() {
        for behind_a_fifo in [false, true] {
            let netlist = build("bench", |m| {
                let table = m.mem("table", 4, &bits(8)).style(Style::Block).init(vec![]).build();
                let shape = TableWrite { enable: bits(1), index: bits(2), entry: bits(8) };
                let write = m.input_of("write", &shape);
                table.write(write.enable, write.index, &write.entry);
                let input = m.stream_in("in", &bits(2));
                let Keyed { out, enters, coming } = match behind_a_fifo {
                    true => keyed(m, None, 4, &|index: &Sig| *index, input),
                    false => {
                        let (enters, coming) = (input.fire(), input.payload);
                        Keyed { out: forward(m, input), enters, coming }
                    }
                };
                let row = row_of(m, "row", (enters, coming, out.payload), &table, &write);
                m.output("row", &row);
                m.output("first", &out.valid);
                m.output("first_key", &out.payload);
                let (moves, before) = (out.fire(), out.payload);
                let out = forward(&m.label("second"), out);
                let (keys, items) = ((moves, before, out.payload), (&before, &out.payload));
                let odd = |row: &Sig, key: &Sig| row.bit(3) ^ key.bit(0);
                m.output("odd", &fact_of(m, "fact", keys, items, &row, &write, &odd));
                m.stream_out("out", out);
            });
            let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
            sim.reset();
            let mut random = Random::new(1);
            let rng = &mut random.rng;
            let (mut rows, mut sent, mut seen) = ([0; 4], VecDeque::new(), 0);
            for _ in 0..3000 {
                let (enable, index, entry) = (rng.random(), rng.random_range(0..4), rng.random::<u8>());
                sim.set("write_enable", u64::from(enable));
                sim.set("write_index", index);
                sim.set("write_entry", entry.into());
                let (valid, ready) = (rng.random_range(0..2), rng.random_range(0..2));
                let key = rng.random_range(0..4);
                sim.set("in_valid", valid);
                sim.set("in", key);
                sim.set("out_ready", ready);
                if sim.get("first") == 1 {
                    assert_eq!(sim.get("row"), u64::from(rows[sim.get("first_key") as usize]));
                }
                if sim.get("out_valid") == 1 {
                    let key = sim.get("out");
                    assert_eq!(sent.front(), Some(&key));
                    assert_eq!(sim.get("odd"), u64::from(rows[key as usize] >> 3) & 1 ^ key & 1);
                    if ready == 1 {
                        sent.pop_front();
                    }
                    seen += 1;
                }
                if valid & sim.get("in_ready") == 1 {
                    sent.push_back(key);
                }
                sim.tick();
                if enable {
                    rows[index as usize] = entry;
                }
            }
            assert!(seen > 1000);
        }
    }
}
