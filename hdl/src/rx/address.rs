// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a packet is for this port: its destination among the port's GIDs (IBTA volume 1, 9.6.1.2; A17.4.3).
//!
//! ```text
//!           fold      times salt       slots, block RAM        entries, block RAM
//!  key --> [ ^ ] --> [    x    ] --> [slot: valid, index] --> [index: address, kind] --> = --> ours, gid
//!    \________________________________________________________________________________/
//!                                     clear, gid_write ----^------------^
//! ```
//!
//! Address, family and VLAN of a packet are folded to 26 bits, and the product of these and a salt makes a slot; what lies there names
//! the only entry that the packet may be for, and one comparison of all its bits says whether it is. So the price does not
//! grow with the entries. Two of them in one slot cannot be; the driver then takes another salt
//! ([`GidEntry::slot`](ferrowire_spec::csr::port::GidEntry)).
//!
//! **Throughput:** a packet a cycle. **Latency:** [`LATENCY`]. **Reset,** and that of the card by the host: the table is empty 256
//! cycles behind it; the register of the reset says so, and nothing is written before. What is set for the port outlives the objects of a process, hence no restart
//! of the card's core empties it. **Bad input:** a packet that is looked
//! up while the table is written is for nobody.

use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Scope, Sig, Style};
use ferrowire_spec::csr::port::{GIDS, GID_FOLD, GID_SLOTS};

/// Cycles from a key to what is known of it.
pub const LATENCY: u32 = 5;
/// Bits of the salt.
pub const SALT: u32 = 16;

/// Bits of an entry's number.
pub fn gid_bits() -> u32 {
    clog2(GIDS.into())
}

/// Where packets go to.
#[derive(Clone, Bundle)]
pub struct GidKey {
    /// Address; IPv4 in the low 32 bits.
    pub ip: Sig,
    /// VLAN identifier; 0 without one.
    pub vid: Sig,
    /// There is one.
    pub tagged: Sig,
    /// The address is IPv6.
    pub ipv6: Sig,
}

impl GidKey {
    /// The shape.
    pub fn of() -> Self {
        GidKey { ip: bits(128), vid: bits(12), tagged: bits(1), ipv6: bits(1) }
    }
}

/// A write of the table.
#[derive(Clone, Bundle)]
pub struct GidWrite {
    /// In this cycle.
    pub enable: Sig,
    /// Which entry.
    pub index: Sig,
    /// Its slot.
    pub slot: Sig,
    /// There is such an entry.
    pub valid: Sig,
    /// What it says.
    pub entry: GidKey,
}

impl GidWrite {
    /// The shape.
    pub fn of() -> Self {
        let slot = bits(clog2(GID_SLOTS.into()));
        GidWrite { enable: bits(1), index: bits(gid_bits()), slot, valid: bits(1), entry: GidKey::of() }
    }
}

/// Which frames that are not RoCE the raw Ethernet queue pair takes, by their destination.
#[derive(Clone, Bundle)]
pub struct RawFilter {
    /// Those to the port's own address.
    pub unicast: Sig,
    /// Those to the broadcast address.
    pub broadcast: Sig,
    /// Those to any other group.
    pub multicast: Sig,
    /// Those to groups whose bit is set.
    pub hash: Sig,
}

impl RawFilter {
    /// The shape.
    pub fn of() -> Self {
        RawFilter { unicast: bits(1), broadcast: bits(1), multicast: bits(1), hash: bits(64) }
    }

    /// Whether a frame to this address passes; `own`: it is the port's, or the port takes any.
    pub fn passes(&self, mac: Sig, own: Sig) -> Sig {
        let group = mac.bit(40);
        let fold = mac.chunks(6).into_iter().reduce(|a, b| a ^ b).expect("eight parts");
        let by_hash = self.hash.bit_at(fold);
        let of_group = mac.all().then(self.broadcast, self.multicast | by_hash);
        (own & self.unicast) | (group & of_group)
    }
}

/// What the host set of the port's addresses.
#[derive(Clone, Bundle)]
pub struct Addresses {
    /// MAC address.
    pub mac: Sig,
    /// Any MAC address will do.
    pub promiscuous: Sig,
    /// What of all else is taken.
    pub raw: RawFilter,
    /// Neighbours that ask for the port's MAC address are answered.
    pub respond: Sig,
    /// How slots follow from addresses.
    pub salt: Sig,
    /// The table is written.
    pub write: GidWrite,
    /// The table is emptied.
    pub clear: Sig,
}

impl Addresses {
    /// The shape.
    pub fn of() -> Self {
        Addresses {
            mac: bits(48),
            promiscuous: bits(1),
            raw: RawFilter::of(),
            respond: bits(1),
            salt: bits(SALT),
            write: GidWrite::of(),
            clear: bits(1),
        }
    }
}

/// What is known of a destination.
#[derive(Clone, Bundle)]
pub struct Destination {
    /// It is the port's.
    pub ours: Sig,
    /// By this entry.
    pub gid: Sig,
}

/// Looks up where packets go to: [`LATENCY`] cycles behind each key. `stays`: a key stays until it is known.
#[module]
pub fn address(m: &Scope, #[param] stays: bool, addresses: Addresses, key: GidKey) -> Destination {
    let write = &addresses.write;
    m.discard(&addresses.mac);
    m.discard(&addresses.promiscuous);
    m.discard(&addresses.raw);
    m.discard(&addresses.respond);

    let whole = cat(&[key.ip, key.vid, key.tagged, key.ipv6]);
    let words = whole.zext(whole.width().next_multiple_of(GID_FOLD)).chunks(GID_FOLD);
    let fold = m.delay("fold", &words.into_iter().reduce(|a, b| a ^ b).expect("some words"));
    let product = fold * addresses.salt;
    let slot_bits = clog2(GID_SLOTS.into());
    let slot = m.delay("slot", &(product.slice(8, slot_bits) ^ product.slice(GID_FOLD, slot_bits)));

    // All slots are emptied, one a cycle.
    let clearing = m.reg("clearing", 1).reset_once(1);
    let row = m.reg("row", slot_bits).reset_once(0);
    m.when(clearing, |m| m.set(&row, row + 1));
    m.when(row.all(), |m| m.set(&clearing, 0));
    m.when(addresses.clear, |m| {
        m.set(&clearing, 1);
        m.set(&row, 0);
    });
    m.assert(!(clearing & write.enable), "the table is written only when it is clear");

    // What is read while it is written counts as nothing.
    let changes = (clearing | write.enable).named("changes");
    let slots = m.mem("slots", GID_SLOTS, &bits(1 + gid_bits())).style(Style::Block).build();
    let filled = clearing.then(lit(1 + gid_bits(), 0), cat(&[write.index, write.valid]));
    slots.write(changes, clearing.then(row, write.slot), &filled);
    let found = slots.read(m, !changes, slot, Collision::Never);
    let missed = m.reg("missed", 1).reset(1);
    m.set(&missed, changes);
    let index = found.trunc(gid_bits());
    let entries = m.mem("entries", GIDS, &GidKey::of()).style(Style::Block).build();
    entries.write(write.enable, write.index, &write.entry);
    let entry = entries.read(m, !write.enable, index, Collision::Never);
    let there = m.reg("there", 1).reset(0);
    m.set(&there, found.msb() & !missed & !write.enable);
    let gid = m.delay("index", &index);

    // A reset keeps the tools from making shift registers of these, which are LUTs.
    let mut held = whole;
    for stage in 0..if stays { 0 } else { LATENCY - 1 } {
        let next = m.reg(&format!("key{stage}"), held.width()).reset(0);
        m.set(&next, held);
        held = next;
    }
    let same = held.eq(cat(&[entry.ip, entry.vid, entry.tagged, entry.ipv6]));
    Destination { ours: m.delay("ours", &(there & same)), gid: m.delay("gid", &gid) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use ferrowire_rtl::{build, Bits, Sim};
    use ferrowire_spec::csr::port::GidEntry;
    use rand::Rng;

    struct Bench {
        sim: Sim,
        /// What the table holds.
        table: [Option<GidEntry>; GIDS as usize],
        /// What is expected of the keys under way; none where the table was written meanwhile.
        due: Vec<Option<Option<usize>>>,
    }

    const SALT: u16 = 0x9e37;

    impl Bench {
        fn new() -> Self {
            let netlist = build("top", |m| {
                let addresses = m.input_of("addresses", &Addresses::of());
                let key = m.input_of("key", &GidKey::of());
                let restart = m.input("restart", 1);
                m.output("found", &m.restarted(restart, |m| address(m, false, addresses, key)));
            });
            let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
            sim.reset();
            sim.set("addresses_salt", SALT.into());
            (0..=GID_SLOTS).for_each(|_| sim.tick());
            Self { sim, table: [None; GIDS as usize], due: Vec::new() }
        }

        fn entry(&mut self, at: &str, entry: &GidEntry) {
            self.sim.set_bits(&format!("{at}_ip"), &Bits::new(128, entry.ip));
            self.sim.set(&format!("{at}_vid"), entry.vid.unwrap_or(0).into());
            self.sim.set(&format!("{at}_tagged"), entry.vid.is_some().into());
            self.sim.set(&format!("{at}_ipv6"), entry.ipv6.into());
        }

        /// A cycle with this key, and a write of an entry.
        fn step(&mut self, key: &GidEntry, write: Option<(usize, Option<GidEntry>)>) {
            self.entry("key", key);
            self.sim.set("addresses_write_enable", write.is_some().into());
            self.due.push(Some(self.table.iter().position(|entry| *entry == Some(*key))));
            if let Some((index, new)) = write {
                let entry = new.or(self.table[index]).expect("what is taken out is there");
                self.sim.set("addresses_write_index", index as u64);
                self.sim.set("addresses_write_slot", entry.slot(SALT).into());
                self.sim.set("addresses_write_valid", new.is_some().into());
                self.entry("addresses_write_entry", &entry);
                self.table[index] = new;
                let under_way = self.due.len().saturating_sub(LATENCY as usize);
                self.due[under_way..].iter_mut().for_each(|due| *due = None);
            }
            self.sim.tick();
            let Some(at) = self.due.len().checked_sub(LATENCY as usize) else { return };
            if let Some(expected) = self.due[at] {
                let ours = self.sim.get("found_ours") == 1;
                let found = ours.then(|| self.sim.get("found_gid") as usize);
                assert_eq!(found, expected, "key {at}");
            }
        }
    }

    #[test]
    fn a_destination_is_the_ports_when_all_of_it_is_that_of_an_entry() {
        let mut random = Random::new(11);
        let mut bench = Bench::new();
        let rng = &mut random.rng;
        let (mut hits, mut near) = (0, 0);
        for _ in 0..6_000 {
            let ipv6 = rng.random();
            let ip = if ipv6 { rng.random() } else { rng.random::<u32>().into() };
            let fresh = GidEntry { ip, ipv6, vid: rng.random_bool(0.4).then(|| rng.random_range(1..4095)) };
            let index = rng.random_range(0..GIDS as usize);
            let mut key = bench.table[index].unwrap_or(fresh);
            match rng.random_range(0..8) {
                0 => key.ip ^= 1 << rng.random_range(0..128),
                1 => key.ipv6 = !key.ipv6,
                2 => key.vid = key.vid.map_or(Some(9), |vid| (vid != 1).then_some(vid ^ 1)),
                3 => key = fresh,
                _ => {}
            }
            // No two entries share a slot.
            let slots: Vec<u8> = bench.table.iter().flatten().map(|entry| entry.slot(SALT)).collect();
            let write = match bench.table[index] {
                _ if !rng.random_bool(0.05) => None,
                Some(_) => Some((index, None)),
                None => (!slots.contains(&fresh.slot(SALT))).then_some((index, Some(fresh))),
            };
            hits += usize::from(bench.table.contains(&Some(key)));
            near += usize::from(!bench.table.contains(&Some(key)) && slots.contains(&key.slot(SALT)));
            bench.step(&key, write);
        }
        assert!(hits > 500 && near > 20, "seed {}: {hits} hits, {near} in a slot that is taken", random.seed);
    }

    #[test]
    fn a_reset_by_the_host_empties_the_table() {
        let mut bench = Bench::new();
        let entry = GidEntry { ip: 0x0a00_0001, ipv6: false, vid: None };
        bench.step(&entry, Some((5, Some(entry))));
        (0..10).for_each(|_| bench.step(&entry, None));
        bench.sim.set("addresses_clear", 1);
        (0..10).for_each(|_| bench.sim.tick());
        bench.sim.set("addresses_clear", 0);
        (0..=GID_SLOTS).for_each(|_| bench.sim.tick());
        bench.table[5] = None;
        bench.due.clear();
        (0..10).for_each(|_| bench.step(&entry, None));
    }

    #[test]
    fn the_table_outlives_a_restart_of_the_core() {
        let mut bench = Bench::new();
        let entry = GidEntry { ip: 0x0a00_0001, ipv6: false, vid: None };
        bench.step(&entry, Some((5, Some(entry))));
        bench.sim.set("restart", 1);
        (0..2).for_each(|_| bench.sim.tick());
        bench.sim.set("restart", 0);
        bench.due.clear();
        (0..10).for_each(|_| bench.step(&entry, None));
    }
}
