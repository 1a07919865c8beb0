// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons to refuse a command, and the table of the states of queue pairs.

use crate::config::RnicConfig;
use ferrowire_rtl::{cat, lit, Sig};
use ferrowire_spec::qp_state::{AttributeBit, Attributes, TRANSITIONS};
use ferrowire_spec::queue::{CommandAttribute as Attribute, CommandOpcode as Op, CommandStatus as Status};
use ferrowire_spec::QpState;
use std::collections::BTreeMap;

/// Reasons to refuse, in the order in which they count.
#[derive(Default)]
pub(super) struct Checks(Vec<(Sig, Status, Attribute)>);

impl Checks {
    /// Refuses where `bad` holds.
    pub(super) fn refuse(&mut self, bad: Sig, status: Status, attribute: Attribute) {
        self.0.push((bad, status, attribute));
    }

    /// When each reason holds, in their order.
    pub(super) fn conditions(&self) -> Vec<Sig> {
        self.0.iter().map(|reason| reason.0).collect()
    }

    /// The first reason among those that `failed` holds: status and attribute, or zeros. `AttrMask` stands for `named`.
    pub(super) fn first(&self, failed: Sig, named: Sig) -> (Sig, Sig) {
        let first = lowest_alone(failed);
        let any = |holds: &dyn Fn(&(Sig, Status, Attribute)) -> bool| {
            let hits: Vec<Sig> = (0u32..)
                .zip(&self.0)
                .filter(|(_, reason)| holds(reason))
                .map(|(i, _)| first.bit(i))
                .collect();
            if hits.is_empty() {
                return lit(1, 0);
            }
            cat(&hits).any()
        };
        let status: Vec<Sig> = (0..8).map(|bit| any(&|r| r.1.code() >> bit & 1 == 1)).collect();
        let other = |r: &(Sig, Status, Attribute)| r.2 != Attribute::AttrMask;
        let attribute: Vec<Sig> =
            (0..8).map(|bit| any(&|r| other(r) && r.2.code() >> bit & 1 == 1)).collect();
        let stands = any(&|r| !other(r)).repeat(8);
        (cat(&status), cat(&attribute) | (named & stands))
    }
}

/// Whether a bit is set that is reserved in the command that it is. Bits that the same commands reserve are looked at together.
pub(super) fn reserved_is_used(known: &[Op], command: Sig, opcode: Sig) -> Sig {
    const CODES: u32 = 64;
    let mut groups: BTreeMap<u64, Vec<Sig>> = BTreeMap::new();
    let reserved: Vec<(u32, Vec<bool>)> = known
        .iter()
        .map(|op| {
            assert!(u32::from(op.code()) < CODES, "{op:?} has no place among the commands");
            let layout = op.layout();
            let mut bits = vec![false; 8 * layout.bytes];
            for field in layout.fields.iter().filter(|f| f.access == ferrowire_spec::Access::RSVD) {
                (0..usize::from(field.width)).for_each(|i| bits[field.bus_bit(layout.order, i)] = true);
            }
            (op.code().into(), bits)
        })
        .collect();
    for bit in 0..command.width() {
        let of = |(code, bits): &(u32, Vec<bool>)| u64::from(bits[bit as usize]) << *code;
        let ops = reserved.iter().map(of).fold(0, |all, one| all | one);
        groups.entry(ops).or_default().push(command.bit(bit));
    }
    let nobody = groups.remove(&0);
    debug_assert!(nobody.is_some(), "the opcode is reserved nowhere");
    let code = opcode.trunc(CODES.trailing_zeros());
    groups.iter().fold(lit(1, 0), |any, (ops, bits)| any | (cat(bits).any() & lit(CODES, *ops).bit_at(code)))
}

/// A set of attributes as a mask of 32 bits, where `here` holds.
fn mask(here: Sig, set: Attributes) -> Sig {
    here.repeat(32) & lit(32, set.0)
}

/// The table of transitions: whether this one is legal, what it requires, and what it takes.
pub(super) fn transition(cfg: &RnicConfig, service: Sig, from: Sig, to: Sig) -> (Sig, Sig, Sig) {
    let believed = Attributes::of(&[AttributeBit::CurState]);
    let is = |state: Sig, code: QpState| state.eq(code.code());
    let down = is(to, QpState::Reset) | (is(to, QpState::Err) & !is(from, QpState::Reset));
    let mut sum = (down, lit(32, 0), mask(down, believed));
    for t in TRANSITIONS.iter().filter(|t| cfg.serves(t.service)) {
        let here = service.eq(t.service.code()) & is(from, t.from) & is(to, t.to);
        sum.0 = sum.0 | here;
        sum.1 = sum.1 | mask(here, t.required);
        sum.2 = sum.2 | mask(here, t.required.with(t.optional));
    }
    sum
}

/// Number of the lowest bit set, plus one: the code of an attribute by its bit in the mask.
pub(super) fn lowest_code(set: Sig) -> Sig {
    let lowest = lowest_alone(set);
    let bit = |bit: u32| {
        let hits: Vec<Sig> = (0..32).filter(|i| (i + 1) >> bit & 1 == 1).map(|i| lowest.bit(i)).collect();
        cat(&hits).any()
    };
    let code: Vec<Sig> = (0..6).map(bit).collect();
    cat(&code).zext(8)
}

/// The lowest bit that is set, and no other: a carry chain finds it, which has no inverters where the inverted bits are in registers.
fn lowest_alone(set: Sig) -> Sig {
    set & (!set + 1)
}
