// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys and page tables: from a key and a virtual address to a bus address, or a refusal.
//!
//! ```text
//!  client 0 --+            +-----+   entry   +---------+  page    +------+
//!  client 1 --+-> choose ->| key |-> first ->| compare |--------->| page |--> answer to the client
//!  client n --+            | RAM |  compares | 65 bits |   index  | RAM  |
//!                          +-----+           +---------+          +------+
//!      cycle 0                 1     2         3                    4         5
//! ```
//!
//! One question a cycle. Where several wait, the first client has every other one, for what the wire brings cannot wait, and the others share the
//! rest round robin. The answer comes 5 cycles later as a pulse that its client must take:
//! a client asks only for what it has room for. Answers to one client come in the order of its questions. The longest
//! path is the 65-bit sum and comparison of the range check. It has a cycle of its own, and so have the key RAM's read and the first comparisons.
//! In a cycle in which `operate` reads an entry no question is taken.
//!
//! A question is refused when the key's index is past the table, its entry is not valid, tag or protection domain
//! differ, an access bit is missing, or the range does not lie inside the region; nothing wraps, for the sums have 65
//! bits (IBTA volume 1, 10.6.3). A window's entry is that of a region of its own; it is granted to peers alone, never to the card's own
//! work requests (10.6.7). A window of type 1 serves every QP of its protection domain (10.6.7.2.1); one of type 2B serves the QP that
//! bound it (10.6.7.2.4), as long as that QP has not been in RESET since. A key that is invalidated refuses from the next question on.
//!
//! Reset: nothing in flight. The tables keep their contents; entries start as not valid.

use crate::config::RnicConfig;
use crate::memory::operate::KeyRead;
use crate::types::{KeyEntry, TableWrite, LIFE_BITS};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::cqe::LocalCause;
use ferrowire_spec::queue::Access;

/// Rights of peers. Who asks for one of these asks for a peer, others for a work request of the QP.
pub(super) const REMOTE: u32 =
    Access::RemoteWrite as u32 | Access::RemoteRead as u32 | Access::RemoteAtomic as u32;

/// Bytes of the smallest page.
pub(crate) const PAGE: u32 = 4096;

/// Bytes from an address to the end of its page of 4 KiB, 1 to 4,096: as far as an answer's address goes on.
pub(crate) fn to_page_end(va: Sig) -> Sig {
    lit(13, PAGE) - va.trunc(12).zext(13)
}

/// The address behind that end.
pub(crate) fn next_page(va: Sig) -> Sig {
    cat(&[lit(12, 0), va.slice(12, 52) + 1])
}

/// A question.
#[derive(Clone, Bundle)]
pub struct Lookup {
    /// Local or remote key: index in bits 31:8, tag below.
    pub key: Sig,
    /// The QP's protection domain.
    pub pd: Sig,
    /// The QP.
    pub qpn: Sig,
    /// Access bits that must be granted.
    pub access: Sig,
    /// First byte.
    pub va: Sig,
    /// Bytes that must lie in the region from there on.
    pub length: Sig,
}

impl Lookup {
    /// The shape.
    pub fn of() -> Self {
        Lookup { key: bits(32), pd: bits(24), qpn: bits(24), access: bits(8), va: bits(64), length: bits(32) }
    }
}

/// An answer.
#[derive(Clone, Bundle)]
pub struct Translation {
    /// The answer to the client's oldest question comes in this cycle.
    pub valid: Sig,
    /// Granted.
    pub ok: Sig,
    /// If not, why: a `LocalCause`, the first that holds.
    pub cause: Sig,
    /// Bus address of the first byte; it goes on to the next multiple of 4 KiB at least.
    pub address: Sig,
    /// The region's writes may pass others.
    pub relaxed: Sig,
}

impl Translation {
    /// The shape.
    pub fn of() -> Self {
        Translation { valid: bits(1), ok: bits(1), cause: bits(8), address: bits(64), relaxed: bits(1) }
    }
}

/// Bits of a page number: bus addresses have 64 bits, pages at least 4 KiB.
pub const PAGE_BITS: u32 = 52;

/// What the stages hand on.
#[derive(Clone, Bundle)]
struct Flow {
    client: Sig,
    ask: Lookup,
}

/// What is compared.
#[derive(Clone, Bundle)]
struct Found {
    one: Flow,
    entry: KeyEntry,
    life: Sig,
}

/// What comes out.
#[derive(Interface)]
pub struct Translated {
    /// Answers, for each client.
    pub answers: Vec<Translation>,
    /// The entry that `read` asked for in the cycle before.
    pub entry: KeyEntry,
}

/// The key and page tables, with a port for each client; `read`: an entry that `operate` needs; `lives`: those that QPs begin.
#[module]
pub fn translate(
    m: &Scope,
    cfg: &RnicConfig,
    ask: Vec<Stream<Lookup>>,
    key_write: TableWrite<KeyEntry>,
    lives: TableWrite<Sig>,
    page_write: TableWrite<Sig>,
    read: KeyRead,
) -> Translated {
    let clients = ask.len() as u32;
    let client_bits = clog2(u64::from(clients));
    let key_bits = clog2(u64::from(cfg.keys));
    let entry_bits = clog2(u64::from(cfg.page_entries));

    // Cycle 0: the first client every other time, the others in turns.
    let waiting: Vec<Sig> = ask.iter().map(|a| a.valid).collect();
    let after_first = m.reg("after_first", 1).reset(0);
    let turn = m.reg("turn", client_bits).reset(1);
    m.discard(&turn);
    let others_wait = cat(&waiting[1..]).any();
    let first = waiting[0] & !(after_first & others_wait);
    // The table has other business: an entry is read for an operation, or written, which comes so seldom that a way around the table is not worth it.
    let away = read.enable | key_write.enable;
    m.assert(!(read.enable & key_write.enable), "an operation reads while no entry is written");
    // The client that goes if the table is free. Its lookup is chosen before that is known.
    let mut wins = vec![first];
    for i in 1..clients {
        // Client i goes when no one with a better place in this turn waits.
        let mut blocked = first;
        for j in (1..clients).filter(|j| *j != i) {
            let place = |c: u32| (lit(client_bits, c) - turn).trunc(client_bits);
            blocked = blocked | (waiting[j as usize] & place(j).lt(place(i)));
        }
        wins.push((waiting[i as usize] & !blocked).named(&format!("wins_{i}")));
    }
    let granted: Vec<Sig> =
        (0..).zip(&wins).map(|(i, wins)| (*wins & !away).named(&format!("grant_{i}"))).collect();
    let mut chosen = Lookup::of().zeros();
    let mut client = lit(client_bits, 0);
    for (i, (port, (grant, wins))) in ask.iter().zip(granted.iter().zip(&wins)).enumerate() {
        port.accept(*grant);
        chosen = m.mux(*wins, &port.payload, &chosen);
        client = m.mux(*wins, &lit(client_bits, i as u32), &client);
        if i > 0 {
            let next = if i as u32 + 1 == clients { 1 } else { i as u32 + 1 };
            m.when(*grant, |m| m.set(&turn, lit(client_bits, next)));
        }
    }
    let asked = cat(&granted).any().named("asked");
    m.when(asked, |m| m.set(&after_first, granted[0]));

    // Cycle 1: the entry.
    let table = m.mem("key_table", cfg.keys, &KeyEntry::of(cfg)).style(Style::Block).build();
    table.write(key_write.enable, key_write.index, &key_write.entry);
    let at = m.mux(read.enable, &read.index, &chosen.key.slice(8, key_bits));
    // The table is read as soon as a client waits, because the grant is late. A granted lookup meets no write.
    m.assert(!(asked & key_write.enable), "a lookup is granted while no entry is written");
    let reads = cat(&waiting).any() | read.enable;
    let found = table.read(m, reads, at, Collision::Any);
    let born = m.mem("lives", cfg.qps, &bits(LIFE_BITS)).style(Style::Block).build();
    born.write(lives.enable, lives.index, &lives.entry);
    let life = born.read(m, reads, chosen.qpn.trunc(cfg.qp_bits()), Collision::Old);
    let one_valid = m.reg("one_valid", 1).reset(0);
    let one = m.reg_of("one", &flow(client_bits));
    m.discard(&one);
    m.set(&one_valid, asked);
    m.set(&one.client, client);
    m.set_all(&one.ask, &chosen);
    let of_read = Found { one, entry: found.clone(), life };
    let Found { one, entry, life } = m.delay("looked", &of_read);
    m.discard(&entry);
    let looks = m.reg("looks", 1).reset(0);
    m.set(&looks, one_valid);
    let one_valid = looks;
    let in_table = match key_bits {
        24 => lit(1, 1),
        _ => one.ask.key.slice(8 + key_bits, 24 - key_bits).eq(0),
    };
    let granted_access = (entry.access & one.ask.access).eq(one.ask.access);
    let there = in_table & entry.valid;
    let (fits_tag, fits_pd) = (entry.tag.eq(one.ask.key.trunc(8)), entry.pd.eq(one.ask.pd));
    let by_peer = (one.ask.access & REMOTE).any();
    let owner = entry.qp.zext(24).eq(one.ask.qpn) & entry.life.eq(life);
    let usable = !entry.window | (by_peer & entry.bound & (entry.type_1 | owner));
    let right = there & fits_tag & fits_pd & granted_access & usable;

    // Cycle 2: the range, and the page's place in the table.
    let two_valid = m.reg("two_valid", 1).reset(0);
    // A reset keeps the tools from making shift registers of what passes all stages, which are LUTs.
    let packed = one.pack();
    let two = m.reg("two", packed.width()).reset(0);
    m.set(&two, packed);
    let two = one.unpack(two);
    m.discard(&two);
    m.set(&two_valid, one_valid);
    let two_right = m.delay("two_right", &right);
    let two_above = m.delay("two_above", &one.ask.va.ge(entry.va));
    // The causes differ in their low bits.
    const { assert!(LocalCause::KeyBounds as u8 - LocalCause::KeyIndex as u8 == 4) };
    let mut why = lit(3, 4);
    for (fine, code) in [(granted_access, 3), (fits_pd, 2), (usable, 3), (fits_tag, 1), (there, 0)] {
        why = m.mux(fine, &why, &lit(3, code));
    }
    let two_why = m.delay("two_why", &why);
    let rest = m.delay("rest", &(one.ask.va - entry.va));
    let region = m.delay("region", &entry.length);
    let page_size = m.delay("page_size", &entry.page_size);
    let relaxed = entry.access.bit(Access::RelaxedOrdering.code().trailing_zeros());
    let two_relaxed = m.delay("two_relaxed", &relaxed);
    let page_of = |va: Sig| {
        let of = |shift: u32| va.slice(shift, entry_bits.min(64 - shift)).zext(entry_bits);
        m.select(entry.page_size, &[of(12), of(21), of(30)])
    };
    let index = m.delay("page_index", &(page_of(one.ask.va) - page_of(entry.va) + entry.first_entry));
    let inside = (rest.zext(65) + two.ask.length.zext(65)).le(region.zext(65)).named("inside");

    // Cycle 3: the page.
    let rows = cfg.page_entries;
    let pages = m.mem("page_table", rows, &bits(PAGE_BITS)).style(cfg.large(rows)).build();
    pages.write(page_write.enable, page_write.index, &page_write.entry);
    // Pages are written before the keys that have them, so a lookup that finds one of them in that cycle is refused.
    let page = pages.read(m, two_valid, index, Collision::Any);
    let three_valid = m.reg("three_valid", 1).reset(0);
    let three = m.reg_of("three", &flow(client_bits));
    m.discard(&three);
    m.set(&three_valid, two_valid);
    m.set_all(&three, &two);
    let ok = m.delay("three_ok", &(two_right & two_above & inside));
    let three_why = m.delay("three_why", &two_why);
    let three_size = m.delay("three_size", &page_size);
    let three_relaxed = m.delay("three_relaxed", &two_relaxed);

    // Cycle 4: the address, to its client.
    let va = three.ask.va;
    let small = cat(&[va.trunc(12), page]);
    let medium = cat(&[va.trunc(21), page.slice(9, PAGE_BITS - 9)]);
    let large = cat(&[va.trunc(30), page.slice(18, PAGE_BITS - 18)]);
    let address = m.delay("address", &m.select(three_size, &[small, medium, large]));
    let answer_ok = m.delay("answer_ok", &ok);
    let relaxed = m.delay("relaxed", &three_relaxed);
    let why = m.delay("why", &three_why);
    let cause = cat(&[why, lit(5, u32::from(LocalCause::KeyIndex.code()) >> 3)]);
    let answers = (0..clients)
        .map(|i| {
            let valid = m.reg(&format!("answer_{i}"), 1).reset(0);
            m.set(&valid, three_valid & three.client.eq(i));
            Translation { valid, ok: answer_ok, cause, address, relaxed }
        })
        .collect();
    Translated { answers, entry: found }
}

fn flow(client_bits: u32) -> Flow {
    Flow { client: bits(client_bits), ask: Lookup::of() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrowire_rtl::{build, Bits, Sim};

    struct Bench {
        cfg: RnicConfig,
        sim: Sim,
    }

    impl Bench {
        /// One with time for the entry's read, and one without.
        fn both() -> [Bench; 2] {
            ["generic-8b", "generic-64b"].map(Bench::new)
        }

        fn new(config: &str) -> Bench {
            let cfg = RnicConfig::named(config).unwrap();
            let net = build("bench", |m| {
                let ask = ["ask", "other", "third"].map(|name| m.stream_in(name, &Lookup::of())).to_vec();
                let key_write = TableWrite {
                    enable: m.input("kw", 1),
                    index: m.input("ki", clog2(u64::from(cfg.keys))),
                    entry: m.input_of("ke", &KeyEntry::of(&cfg)),
                };
                let lives = TableWrite {
                    enable: m.input("lw", 1),
                    index: m.input("li", cfg.qp_bits()),
                    entry: m.input("le", LIFE_BITS),
                };
                let page_write = TableWrite {
                    enable: m.input("pw", 1),
                    index: m.input("pi", clog2(u64::from(cfg.page_entries))),
                    entry: m.input("pe", PAGE_BITS),
                };
                let read = m.input_of("read", &KeyRead::of(&cfg));
                let out = translate(m, &cfg, ask, key_write, lives, page_write, read);
                m.output("answer", &out.answers[0]);
                m.output("other_answer", &out.answers[1]);
                m.output("third_answer", &out.answers[2]);
                m.output("entry", &out.entry);
            })
            .unwrap_or_else(|e| panic!("{e}"));
            let mut sim = Sim::new(&net);
            sim.reset();
            Bench { cfg, sim }
        }

        fn page(&mut self, index: u64, page: u64) {
            self.sim.set("pw", 1);
            self.sim.set("pi", index);
            self.sim.set("pe", page);
            self.sim.tick();
            self.sim.set("pw", 0);
        }

        fn key(&mut self, index: u64, fields: &[(&str, u64)]) {
            for (name, value) in fields {
                self.sim.set(&format!("ke_{name}"), *value);
            }
            self.sim.set("kw", 1);
            self.sim.set("ki", index);
            self.sim.tick();
            self.sim.set("kw", 0);
        }

        /// Asks on port 0 and gives what comes 4 cycles later, or 5.
        fn ask(&mut self, key: u64, pd: u64, access: u64, va: u64, length: u64) -> Option<u64> {
            for (name, value) in [("key", key), ("pd", pd), ("access", access), ("length", length)] {
                self.sim.set(&format!("ask_{name}"), value);
            }
            self.sim.set_bits("ask_va", &Bits::new(64, va.into()));
            self.sim.set("ask_valid", 1);
            assert_eq!(self.sim.get("ask_ready"), 1);
            self.sim.tick();
            self.sim.set("ask_valid", 0);
            let cycles = 5;
            for _ in 1..cycles {
                assert_eq!(self.sim.get("answer_valid"), 0);
                self.sim.tick();
            }
            assert_eq!(self.sim.get("answer_valid"), 1, "the answer comes after {cycles} cycles");
            (self.sim.get("answer_ok") == 1).then(|| self.sim.get("answer_address"))
        }

        /// Asks for what must be refused, and gives the cause.
        fn refusal(&mut self, key: u64, pd: u64, access: u64, va: u64, length: u64) -> LocalCause {
            assert_eq!(self.ask(key, pd, access, va, length), None);
            LocalCause::from_code(self.sim.get("answer_cause") as u8).expect("a cause")
        }
    }

    #[test]
    fn a_range_is_granted_only_with_key_domain_access_and_bounds() {
        for mut t in Bench::both() {
            let va = 0x7f00_0000_1234;
            t.page(6, 0xabc);
            t.page(7, 0x55555);
            let good = [
                ("valid", 1),
                ("tag", 0x5a),
                ("pd", 9),
                ("access", 3),
                ("va", va),
                ("length", 0x1800),
                ("first_entry", 6),
            ];
            t.key(3, &good);
            let key = 3 << 8 | 0x5a;
            assert_eq!(t.ask(key, 9, 2, va, 0x1800), Some(0xabc234));
            assert_eq!(t.ask(key, 9, 3, va + 0xdcc, 4), Some(0x5555_5000), "the second page is elsewhere");
            assert_eq!(
                t.ask(key, 9, 2, va + 0x1800, 0),
                Some(0x5555_5a34),
                "an empty range may stand at the end"
            );
            assert_eq!(t.ask(key, 9, 2, va, 0x1801), None, "one byte too long");
            assert_eq!(t.ask(key, 9, 2, va - 1, 1), None, "one byte before");
            assert_eq!(t.ask(key, 8, 2, va, 1), None, "another domain");
            assert_eq!(t.ask(key, 9, 6, va, 1), None, "no read access");
            assert_eq!(t.ask(key ^ 1, 9, 2, va, 1), None, "another tag");
            let past = key + (u64::from(t.cfg.keys) << 8);
            assert_eq!(t.ask(past, 9, 2, va, 1), None, "an index past the table");
            assert_eq!(t.ask(key, 9, 2, u64::MAX, 2), None, "a range that wraps");
            // The first of several causes.
            assert_eq!(t.refusal(key, 9, 2, va, 0x1801), LocalCause::KeyBounds);
            assert_eq!(t.refusal(key, 9, 2, va - 1, 1), LocalCause::KeyBounds);
            assert_eq!(t.refusal(key, 9, 6, va, 0x1801), LocalCause::KeyAccess);
            assert_eq!(t.refusal(key, 8, 6, va, 1), LocalCause::KeyPd);
            assert_eq!(t.refusal(key ^ 1, 8, 2, va, 1), LocalCause::KeyTag);
            assert_eq!(t.refusal(past, 9, 2, va, 1), LocalCause::KeyIndex);
            t.key(3, &[("valid", 0)]);
            assert_eq!(t.ask(key, 9, 2, va, 1), None, "no longer registered");
            assert_eq!(t.refusal(key ^ 1, 9, 2, va, 1), LocalCause::KeyIndex);
        }
    }

    #[test]
    fn a_region_up_to_the_end_of_the_address_space_does_not_wrap() {
        for mut t in Bench::both() {
            t.page(0, 7);
            t.key(
                1,
                &[("valid", 1), ("tag", 0), ("access", 2), ("va", u64::MAX - 0xfff), ("length", 0x1000)],
            );
            assert_eq!(t.ask(1 << 8, 0, 2, u64::MAX - 0xfff, 0x1000), Some(0x7000));
            assert_eq!(t.ask(1 << 8, 0, 2, u64::MAX, 2), None);
            assert_eq!(t.ask(1 << 8, 0, 2, 0, 1), None);
        }
    }

    #[test]
    fn large_pages_keep_the_offset_inside_them() {
        for mut t in Bench::both() {
            t.page(0, 0x200 << 9);
            t.page(1, 0x80_0000);
            t.key(
                2,
                &[
                    ("valid", 1),
                    ("page_size", 1),
                    ("va", 0x4012_3456),
                    ("length", 0x30_0000),
                    ("first_entry", 0),
                ],
            );
            assert_eq!(t.ask(2 << 8, 0, 0, 0x4012_3456, 16), Some((0x200 << 21) + 0x12_3456));
            assert_eq!(t.ask(2 << 8, 0, 0, 0x4020_0000, 16), Some(0x80_0000 << 12));
            t.key(2, &[("page_size", 2), ("va", 0), ("length", 1 << 31)]);
            assert_eq!(t.ask(2 << 8, 0, 0, 0x1234_5678, 16), Some(0x4000_0000 + 0x1234_5678));
        }
    }

    #[test]
    fn what_is_received_goes_every_other_time_and_the_others_take_turns() {
        for mut t in Bench::both() {
            let clients = ["ask", "other", "third"];
            // Who asks, and how often each is served in 100 cycles.
            for (asks, share) in [
                ([1, 1, 1], [50, 25, 25]),
                ([1, 0, 1], [50, 0, 50]),
                ([0, 1, 1], [0, 50, 50]),
                ([1, 0, 0], [100, 0, 0]),
                ([0, 0, 1], [0, 0, 100]),
            ] {
                for (name, valid) in clients.iter().zip(asks) {
                    t.sim.set(&format!("{name}_valid"), valid);
                }
                // The turn before is over.
                t.sim.tick();
                let mut served = [0; 3];
                for _ in 0..100 {
                    let ready = clients.map(|name| t.sim.get(&format!("{name}_ready")));
                    assert_eq!(ready.iter().sum::<u64>(), 1);
                    (0..3).for_each(|i| served[i] += ready[i]);
                    t.sim.tick();
                }
                assert_eq!(served, share);
            }
        }
    }
}
