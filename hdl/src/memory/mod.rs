// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only door to host memory: keys, page tables, and ranges cut at pages.
//!
//! ```text
//!  questions of the engines ---------------------------> translate --> answers
//!                                                         ^     |
//!  keys, made and cleared by commands ------+       write |     | entry
//!  binds, invalidations, removals of keys --+-> operate --+ <---+
//!                                                  +------------------> done; of removals by drain, behind what was looked up before;
//!                                                                       what was taken back is over likewise, as withdraw tells
//! ```

mod drain;
mod operate;
mod translate;
mod withdraw;

pub use drain::{drain, Drained, Passage};
pub use operate::{operate, Done, KeyRead, Operated, Operation, OperationKind};
pub(crate) use translate::{next_page, to_page_end};
pub use translate::{translate, Lookup, Translated, Translation};
pub use withdraw::{withdraw, Withdrawals, Withdrawn, WITHDRAWN_BITS};

use crate::config::RnicConfig;
use crate::stream::{fifo, half};
use crate::types::{KeyEntry, TableWrite, LIFE_BITS};
use ferrowire_rtl::{cat, Interface, Scope, Sig, Stream};
use ferrowire_spec::QpState;

/// What comes out.
#[derive(Interface)]
pub struct Memory {
    /// Answers to the questions, for each client.
    pub answers: Vec<Translation>,
    /// Ends of the operations, likewise.
    pub done: Vec<Done>,
    /// An operation on a key is under way, or a command has written a table: from now on a lookup may be answered differently. It is
    /// high some cycles before an operation writes.
    pub changed: Sig,
}

/// What is written by commands.
#[derive(Interface)]
pub struct Tables {
    /// Keys that are made, or cleared by a reset.
    pub keys: TableWrite<KeyEntry>,
    /// Page numbers.
    pub pages: TableWrite<Sig>,
    /// Protection domains of QPs.
    pub domains: TableWrite<Sig>,
    /// Their states.
    pub states: TableWrite<Sig>,
}

/// Its parts, joined.
pub fn memory(
    m: &Scope,
    cfg: &RnicConfig,
    tables: Tables,
    questions: Vec<Stream<Lookup>>,
    operations: Vec<Stream<Operation>>,
) -> Memory {
    let entry = m.wire_of("entry", &KeyEntry::of(cfg));
    let by_command = tables.keys.enable;
    let writes = cat(&[by_command, tables.pages.enable, tables.domains.enable, tables.states.enable]);
    // Lives are numbered over all QPs.
    let states = tables.states;
    let ends = states.enable & states.entry.eq(QpState::Reset.code());
    let life = m.reg("life", LIFE_BITS).reset(1);
    m.when(ends, |m| m.set(&life, life + 1));
    let lives = TableWrite { enable: ends, index: states.index, entry: life };
    // A question in this register counts as one that its client has under way. The requester asks once for each piece of a packet.
    let asked = |(i, question)| {
        let m = m.label(&format!("question_{i}"));
        if i == 1 {
            fifo(&m, 2, question)
        } else {
            half(&m, question)
        }
    };
    let questions = questions.into_iter().enumerate().map(asked).collect();
    let operated = operate(m, cfg, tables.domains, lives.clone(), tables.keys, entry.clone(), operations);
    let changed = m.reg("changed", 1).reset(1);
    m.set(&changed, operated.busy | writes.any());
    let by_operation = operated.write.enable & !by_command;
    m.assert(!by_operation | changed, "an operation is told of before it writes");
    let translated = translate(m, cfg, questions, operated.write, lives, tables.pages, operated.read);
    m.set_all(&entry, &translated.entry);
    Memory { answers: translated.answers, done: operated.done, changed }
}
