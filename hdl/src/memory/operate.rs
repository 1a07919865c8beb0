// SPDX-License-Identifier: MIT OR Apache-2.0
//! The owner of the key table: binds and unbinds windows, and takes keys away.
//!
//! ```text
//!  bind, invalidate (requester) --+
//!  invalidate (responder) --------+--> one at a time --> window --> region --> judge --> bounds --> write --> count --> done
//!  remove (command) --------------+                        |          |                              |        |
//!                                                       read of translate                            v        v
//!  commands: a key is made, or cleared -----------------------------------------------------> write port of the table
//! ```
//!
//! The rules of a bind (IBTA volume 1, 10.6.7.2, 11.2.9.1): window, region and QP are of one protection domain (C10-72); the region has
//! `MW_BIND`, and `LOCAL_WRITE` where the window lets peers write (C10-73, C10-74); the window lies in the region (C10-75). A length
//! of 0 unbinds, and changes the tag. A bind says of which type the window is; one that is wrong is refused.
//!
//! - Type 2B: the window is not bound. It is unbound only by the QP that bound it, or by its peer (10.6.7.2.5), in the incarnation in
//!   which that was. One that a QP leaves bound when it goes to RESET or is destroyed gives no access any more. It can be freed, and
//!   the next bind finds it as if it were not bound.
//! - Type 1: the window may be bound, by whichever QP of its domain. The bind takes back what it gave. No invalidation works
//!   (o10-37.2.26).
//!
//! A bind of a window that is bound passes all checks first. Then a pass before the bind (`releases`) takes the window from its old
//! region: from then on its old key is refused. A region to which windows are bound is not removed (11.2.8.5): it counts them.
//!
//! What a lookup needs of a window is worked out here, once: its entry is that of a region of its own, with the first page of it. A
//! zero based window begins at its place in its first page, as zero based regions of this card do.
//!
//! An operation takes 9 cycles, a bind that releases 22. For lookups it happens in one: that of the write of the window's entry. The region's
//! count, which no lookup looks at, follows in the next. Reads of entries take the place of a lookup each, two an operation.
//! Writes by commands go first. One that clears a key while an operation is under way belongs to a reset of all: the operation begins
//! anew, and finds what is left. Reset: nothing is under way. Longest path: the 65-bit sum and comparison of the bounds.

use crate::config::RnicConfig;
use crate::memory::translate::REMOTE;
use crate::stream::arbiter_from;
use crate::types::{KeyEntry, TableWrite, LIFE_BITS};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::cqe::LocalCause;
use ferrowire_spec::queue::Access;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// A window of type 2B is bound, or unbound with a length of 0.
    Bind,
    /// A window is unbound.
    Invalidate,
    /// A region or a window goes, whatever the key's tag.
    Remove,
    /// As `Bind`, of a window of type 1.
    Rebind,
}

impl OperationKind {
    /// Its number between the blocks.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// Whether a signal is this.
    pub fn is(self, kind: Sig) -> Sig {
        kind.eq(self.code())
    }
}

/// An operation on a key.
#[derive(Clone, Bundle)]
pub struct Operation {
    /// An [`OperationKind`].
    pub kind: Sig,
    /// On whose behalf.
    pub qp: Sig,
    /// The key; of a bind, as it shall be.
    pub key: Sig,
    /// Of a bind: key of the region.
    pub region: Sig,
    /// Its first address.
    pub va: Sig,
    /// Its bytes.
    pub length: Sig,
    /// Its rights.
    pub access: Sig,
}

impl Operation {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Operation {
            kind: bits(2),
            qp: bits(cfg.qp_bits()),
            key: bits(32),
            region: bits(32),
            va: bits(64),
            length: bits(64),
            access: bits(8),
        }
    }
}

/// The end of a client's operation.
#[derive(Clone, Bundle)]
pub struct Done {
    /// In this cycle.
    pub valid: Sig,
    /// It was done.
    pub ok: Sig,
    /// If not, why: a `LocalCause`.
    pub cause: Sig,
}

impl Done {
    /// The shape.
    pub fn of() -> Self {
        Done { valid: bits(1), ok: bits(1), cause: bits(8) }
    }
}

/// A read of an entry, which comes in the next cycle.
#[derive(Clone, Bundle)]
pub struct KeyRead {
    /// In this cycle.
    pub enable: Sig,
    /// Which entry.
    pub index: Sig,
}

impl KeyRead {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        KeyRead { enable: bits(1), index: bits(clog2(u64::from(cfg.keys))) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Operated {
    /// For the table.
    pub write: TableWrite<KeyEntry>,
    /// Likewise.
    pub read: KeyRead,
    /// Ends of operations, for each client.
    pub done: Vec<Done>,
    /// An operation is under way, which may write.
    pub busy: Sig,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Idle,
    /// The key's entry is asked for, and comes.
    AskKey,
    Key,
    /// Likewise that of the region.
    AskRegion,
    Region,
    /// All but the bounds.
    Judge,
    Bounds,
    /// The window is bound, and may be bound anew: it is taken from its old region first, if all else is good.
    Release,
    Write,
    /// The region's windows.
    Count,
}

/// Operations on keys. `domains`: protection domains of QPs; `lives`: the lives that they begin; `given`: entries written by commands; `entry`: what was read.
#[module]
pub fn operate(
    m: &Scope,
    cfg: &RnicConfig,
    domains: TableWrite<Sig>,
    lives: TableWrite<Sig>,
    given: TableWrite<KeyEntry>,
    entry: KeyEntry,
    operations: Vec<Stream<Operation>>,
) -> Operated {
    let clients = operations.len();
    let key_bits = clog2(u64::from(cfg.keys));
    let state = m.fsm("state", State::Idle);
    let at = |s: State| state.is(s);
    let chosen = arbiter_from(m, &|_: &Operation| lit(1, 1), operations);
    let source = m.reg("source", clog2(clients as u64)).no_reset();
    let operation = m.reg_of("operation", &Operation::of(cfg));
    let takes = at(State::Idle);
    chosen.accept(takes);
    m.when(takes, |m| {
        m.set(&source, chosen.source);
        m.set_all(&operation, &chosen.item);
    });
    m.when(chosen.fire(), |m| m.set(&state, State::AskKey));
    let table = m.mem("domains", cfg.qps, &bits(24)).style(Style::Block).build();
    table.write(domains.enable, domains.index, &domains.entry);
    let domain = table.read(m, at(State::AskKey), operation.qp, Collision::New);
    let table = m.mem("lives", cfg.qps, &bits(LIFE_BITS)).style(Style::Block).build();
    table.write(lives.enable, lives.index, &lives.entry);
    // That of the QP itself, then that of the QP which bound the window.
    let key = m.reg_of("key", &entry);
    let whose = m.mux(at(State::AskKey), &operation.qp, &key.qp);
    let born = table.read(m, at(State::AskKey) | at(State::AskRegion), whose, Collision::Old);
    let life = m.reg("life", LIFE_BITS).no_reset();
    m.when(at(State::Key), |m| m.set(&life, born));
    let is = |kind: OperationKind| kind.is(operation.kind);
    let bare = operation.length.eq(0);
    // With a length, it names a region.
    let rebinds = is(OperationKind::Rebind);
    let wants = (is(OperationKind::Bind) | rebinds) & !bare;
    let releases = m.reg("releases", 1).reset(0);
    let binds = m.delay("binds", &wants) & !releases;

    // Two entries: that of the key, and that of the region which it is, or shall be, bound to.
    let region = m.reg_of("region", &entry);
    m.discard(&key);
    let index = |key: Sig| key.slice(8, key_bits);
    let region_at = m.mux(binds, &index(operation.region), &key.link.trunc(key_bits));
    // Not while a command writes one.
    let asks = !given.enable;
    let read = KeyRead {
        enable: (at(State::AskKey) | at(State::AskRegion)) & asks,
        index: m.mux(at(State::AskKey), &index(operation.key), &region_at),
    };
    m.when(at(State::AskKey) & asks, |m| m.set(&state, State::Key));
    m.when(at(State::Key), |m| {
        m.set_all(&key, &entry);
        m.set(&state, State::AskRegion);
    });
    m.when(at(State::AskRegion) & asks, |m| m.set(&state, State::Region));
    m.when(at(State::Region), |m| {
        m.set_all(&region, &entry);
        m.set(&state, State::Judge);
    });

    // Everything but the bounds; the first that fails is the cause.
    let in_table = |key: Sig| match key_bits {
        24 => lit(1, 1),
        _ => key.slice(8 + key_bits, 24 - key_bits).eq(0),
    };
    let there = in_table(operation.key) & key.valid;
    let owned = m.delay("owned", &(key.bound & !key.type_1 & key.qp.eq(operation.qp) & key.life.eq(life)));
    // It is bound, and may be bound all the same.
    let movable = m.delay("movable", &(key.bound & (key.type_1 | key.life.ne(born))));
    let (key_domain, region_domain) = (key.pd.eq(domain), region.pd.eq(domain));
    let right = |access: Sig, right: Access| access.bit(right.code().trailing_zeros());
    let writes = right(operation.access, Access::RemoteWrite) | right(operation.access, Access::RemoteAtomic);
    let allows = right(region.access, Access::MwBind) & (!writes | right(region.access, Access::LocalWrite));
    let region_there = in_table(operation.region) & region.valid;
    // The causes differ in their low bits.
    const { assert!(LocalCause::KeyBounds as u8 - LocalCause::KeyIndex as u8 == 4) };
    let low = |cause: LocalCause| lit(3, u32::from(cause.code() - LocalCause::KeyIndex.code()));
    let first = |m: &Scope, checks: &[(Sig, LocalCause)]| {
        let none = (lit(1, 1), lit(3, 0));
        checks
            .iter()
            .rev()
            .fold(none, |(fine, why), (check, cause)| (fine & *check, m.mux(*check, &why, &low(*cause))))
    };
    let bind = first(
        m,
        &[
            (there, LocalCause::KeyIndex),
            (
                key.window & key.type_1.eq(rebinds) & (!key.bound | movable | (bare & owned)),
                LocalCause::KeyAccess,
            ),
            (bare | region_there, LocalCause::KeyIndex),
            (bare | region.tag.eq(operation.region.trunc(8)), LocalCause::KeyTag),
            (bare | !region.window, LocalCause::KeyAccess),
            (key_domain & (bare | region_domain), LocalCause::KeyPd),
            (bare | allows, LocalCause::KeyAccess),
        ],
    );
    let invalidate = first(
        m,
        &[
            (there, LocalCause::KeyIndex),
            (key.tag.eq(operation.key.trunc(8)), LocalCause::KeyTag),
            (!key.window | key_domain, LocalCause::KeyPd),
            (key.window & owned, LocalCause::KeyAccess),
        ],
    );
    // Those of a window do not count the windows.
    let unused = key.window | key.link.eq(0);
    let remove = first(m, &[(there, LocalCause::KeyIndex), (unused, LocalCause::KeyAccess)]);
    let fine = m.delay("fine", &m.select(operation.kind, &[bind.0, invalidate.0, remove.0, bind.0]));
    let why = m.delay("why", &m.select(operation.kind, &[bind.1, invalidate.1, remove.1, bind.1]));
    let above = m.delay("above", &operation.va.ge(region.va));
    let rest = m.delay("rest", &(operation.va - region.va));
    let page_bits = region.first_entry.width();
    let page_of = |va: Sig| {
        let of = |shift: u32| va.slice(shift, page_bits.min(64 - shift)).zext(page_bits);
        m.select(region.page_size, &[of(12), of(21), of(30)])
    };
    let first_entry =
        m.delay("first_entry", &(page_of(operation.va) - page_of(region.va) + region.first_entry));
    m.when(at(State::Judge), |m| m.set(&state, State::Bounds));
    let inside = above & (rest.zext(65) + operation.length.zext(65)).le(region.length.zext(65));
    let inside = !binds | inside;
    let ok = m.reg("ok", 1).no_reset();
    let cause = m.reg("cause", 3).no_reset();
    m.when(at(State::Bounds), |m| {
        m.set(&ok, releases | (fine & inside));
        m.set(&cause, m.mux(fine, &low(LocalCause::KeyBounds), &why));
        m.set(&state, State::Write);
        m.when(binds & movable, |m| m.set(&state, State::Release));
    });
    m.when(at(State::Release), |m| {
        m.set(&releases, ok);
        m.set(&state, State::Write);
        m.when(ok, |m| m.set(&state, State::AskRegion));
    });

    // The entry of the key as it becomes, then that of the region.
    let zero_based = right(operation.access, Access::ZeroBased);
    let in_page = m.select(
        region.page_size,
        &[operation.va.trunc(12).zext(30), operation.va.trunc(21).zext(30), operation.va.trunc(30)],
    );
    let stays = !is(OperationKind::Remove);
    let becomes = KeyEntry {
        valid: stays,
        tag: m.mux(releases, &key.tag, &operation.key.trunc(8)),
        pd: key.pd,
        access: operation.access & (REMOTE | u32::from(Access::ZeroBased.code())),
        page_size: region.page_size,
        va: m.mux(zero_based, &in_page.zext(64), &operation.va),
        length: operation.length,
        first_entry,
        window: stays,
        type_1: stays & key.type_1,
        bound: binds,
        qp: operation.qp,
        life,
        link: index(operation.region).zext(key_bits + 1),
    };
    // A region goes with all that is known of it.
    let kept = |entry: KeyEntry| if cfg.memory_windows { entry } else { entry.zeros() };
    let one = lit(key_bits + 1, 1);
    let link = m.mux(binds, &(region.link + one), &(region.link - one));
    let counts = ok & (binds | (key.window & key.bound));
    let own = TableWrite {
        enable: (at(State::Write) & ok) | (at(State::Count) & counts),
        index: m.mux(at(State::Write), &index(operation.key), &region_at),
        entry: kept(m.mux(at(State::Write), &becomes, &KeyEntry { link, ..region.clone() })),
    };
    let write = m.mux(given.enable, &given, &own);
    m.when(at(State::Write) & !given.enable, |m| m.set(&state, State::Count));
    let clears = given.enable & !given.entry.valid;
    // The region goes, too, or has gone.
    let ends = at(State::Count) & (!given.enable | clears);
    m.when(ends, |m| {
        m.set(&releases, 0);
        m.set(&state, State::Idle);
        m.when(releases, |m| m.set(&state, State::AskKey));
    });
    m.when(clears & !at(State::Idle) & !at(State::Count), |m| {
        m.set(&releases, 0);
        m.set(&state, State::AskKey);
    });

    let cause = cat(&[cause, lit(5, u32::from(LocalCause::KeyIndex.code()) >> 3)]);
    let done =
        (0..clients as u32).map(|i| Done { valid: ends & !releases & source.eq(i), ok, cause }).collect();
    Operated { write, read, done, busy: !takes }
}

#[cfg(test)]
mod tests;
