// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memories: any number of ports, one-cycle or immediate reads, lane enables, stated read-during-write behaviour.

use crate::bits::Bits;
use crate::bundle::Bundle;
use crate::design::{with, Loc};
use crate::netlist::{Binary, Collision, Mem as MemInfo, MemId, Node, Op, ReadPort, Style, WritePort};
use crate::scope::Scope;
use crate::sig::{clog2, make, Sig};
use std::panic::Location;

/// A memory of `depth` words of shape `T`.
pub struct Mem<T: Bundle> {
    id: MemId,
    shape: T,
    depth: u32,
}

/// A memory being declared.
pub struct MemBuilder<'m, T: Bundle> {
    pub(crate) m: &'m Scope,
    pub(crate) name: String,
    pub(crate) depth: u32,
    pub(crate) shape: T,
    pub(crate) style: Style,
    pub(crate) init: Option<Vec<Bits>>,
}

impl<T: Bundle> MemBuilder<'_, T> {
    /// How the tools should build it.
    pub fn style(mut self, style: Style) -> Self {
        self.style = style;
        self
    }

    /// Initial contents, packed words; missing ones are zero.
    pub fn init(mut self, words: Vec<Bits>) -> Self {
        self.init = Some(words);
        self
    }

    /// Declares it.
    #[track_caller]
    pub fn build(self) -> Mem<T> {
        let loc = Location::caller();
        let (depth, width) = (self.depth, self.shape.total_width());
        assert!(
            depth >= 2 && depth.is_power_of_two(),
            "{loc}: memory `{}` has {depth} words; the depth must be a power of two, at least 2",
            self.name
        );
        if let Some(init) = &self.init {
            assert!(
                init.len() <= depth as usize && init.iter().all(|w| w.width() == width),
                "{loc}: the initial contents of `{}` must be at most {depth} words of {width} bits",
                self.name
            );
        }
        assert!(
            self.style != Style::Ultra || self.init.is_none(),
            "{loc}: `{}` is in UltraRAM, which has no initial contents",
            self.name
        );
        self.m.check_open(loc);
        let id = with(|d| {
            let name = d.unique(&self.name);
            d.net.mems.push(MemInfo {
                name,
                scope: d.scope(),
                loc,
                depth,
                width,
                style: self.style,
                init: self.init.clone(),
                reads: Vec::new(),
                writes: Vec::new(),
                crossing: false,
            });
            (d.net.mems.len() - 1) as MemId
        });
        Mem { id, shape: self.shape.shape(), depth }
    }
}

impl<T: Bundle> Mem<T> {
    /// Width of an address.
    pub fn addr_width(&self) -> u32 {
        clog2(u64::from(self.depth))
    }

    /// Number of words.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    #[track_caller]
    fn check_addr(&self, addr: Sig) {
        let loc = Location::caller();
        let need = self.addr_width();
        assert!(addr.width() == need, "{loc}: an address of {} bits where {need} are needed", addr.width());
    }

    /// A write port: at the clock's edge, where `en` and the open `when` hold.
    #[track_caller]
    pub fn write(&self, en: Sig, addr: Sig, data: &T) {
        self.write_port(en, addr, data.pack(), None);
    }

    /// A write port with one enable for each `lane` bits of the packed word.
    #[track_caller]
    pub fn write_lanes(&self, en: Sig, addr: Sig, data: &T, enables: Sig, lane: u32) {
        let loc = Location::caller();
        let width = self.shape.total_width();
        assert!(
            lane > 0 && u64::from(enables.width()) * u64::from(lane) == u64::from(width),
            "{loc}: {} enables of {lane} bits do not cover a word of {width}",
            enables.width()
        );
        self.write_port(en, addr, data.pack(), Some((enables, lane)));
    }

    #[track_caller]
    fn write_port(&self, en: Sig, addr: Sig, data: Sig, lanes: Option<(Sig, u32)>) {
        let loc = Location::caller();
        self.check_addr(addr);
        let width = self.shape.total_width();
        assert!(data.width() == width, "{loc}: a word of {} bits into a memory of {width}", data.width());
        assert!(en.width() == 1, "{loc}: an enable has one bit, not {}", en.width());
        make(loc, |d| {
            let en = d.resolve(en, loc)?;
            let en = match d.path() {
                Some(path) => d.binary(Binary::And, path, en, loc),
                None => en,
            };
            let (addr, data) = (d.resolve(addr, loc)?, d.resolve(data, loc)?);
            let lanes = match lanes {
                Some((sig, lane)) => Some((d.resolve(sig, loc)?, lane)),
                None => None,
            };
            if d.net.mems[self.id as usize].scope != d.scope() {
                return Err(format!(
                    "{loc}: this memory belongs to another module: one module owns a memory"
                ));
            }
            let domain = d.domain;
            d.net.mems[self.id as usize].writes.push(WritePort { domain, en, addr, data, lanes });
            Ok(en)
        });
    }

    #[track_caller]
    fn read_port(&self, en: Sig, addr: Sig, clocked: bool, collision: Collision) -> Sig {
        let loc = Location::caller();
        self.check_addr(addr);
        make(loc, |d| {
            let (en, addr) = (d.resolve(en, loc)?, d.resolve(addr, loc)?);
            let mem = &d.net.mems[self.id as usize];
            if mem.scope != d.scope() {
                return Err(format!(
                    "{loc}: this memory belongs to another module: one module owns a memory"
                ));
            }
            let index = mem.reads.len() as u32;
            let (width, scope, domain) = (mem.width, d.scope(), d.domain);
            let name =
                Some(format!("{}_q{}", mem.name, if index == 0 { String::new() } else { index.to_string() }));
            let op = Op::MemRead(self.id, index);
            let node = d.push(Node { op, width, scope, loc, name, weak: true });
            d.net.mems[self.id as usize].reads.push(ReadPort { node, domain, en, addr, clocked, collision });
            Ok(node)
        })
    }

    /// A clocked read: the word at `addr` one cycle after `en`, held until the next `en`. Within a `when` it is read
    /// only where that holds.
    #[track_caller]
    pub fn read(&self, m: &Scope, en: Sig, addr: Sig, collision: Collision) -> T {
        let loc = Location::caller();
        assert!(en.width() == 1, "{loc}: an enable has one bit, not {}", en.width());
        let en = make(loc, |d| {
            let en = d.resolve(en, loc)?;
            Ok(match d.path() {
                Some(path) => d.binary(Binary::And, path, en, loc),
                None => en,
            })
        });
        let raw = self.read_port(en, addr, true, collision);
        match collision {
            Collision::Old | Collision::Any => self.shape.unpack(raw),
            Collision::Never => {
                for (hit, _) in self.met(en, addr, loc) {
                    m.assert(!hit, "a read met a write of the same word in a memory that excludes it");
                }
                self.shape.unpack(raw)
            }
            Collision::New => {
                let mut word = raw;
                for (hit, data) in self.meets(en, addr, loc) {
                    let bypass = m.reg("bypass", 1).reset(0);
                    let held = m.reg("bypass_word", data.width()).no_reset();
                    m.when(en, |m| {
                        m.set(&bypass, hit);
                        m.set(&held, data);
                    });
                    word = m.mux(bypass, &held, &word);
                }
                self.shape.unpack(word)
            }
        }
    }

    /// For each write port declared so far: whether it meets this read, and the word written. No port has lanes.
    fn meets(&self, en: Sig, addr: Sig, loc: Loc) -> Vec<(Sig, Sig)> {
        with(|d| {
            let mem = &d.net.mems[self.id as usize];
            assert!(
                mem.writes.iter().all(|p| p.lanes.is_none()),
                "{loc}: `{}`: a read that gives what is written meets no port with lanes",
                mem.name
            );
        });
        self.met(en, addr, loc)
    }

    /// The same of ports with lanes too, whichever of them are written.
    fn met(&self, en: Sig, addr: Sig, loc: Loc) -> Vec<(Sig, Sig)> {
        let ports = with(|d| {
            let mem = &d.net.mems[self.id as usize];
            let ports = mem.writes.clone();
            assert!(
                !ports.is_empty(),
                "{loc}: `{}`: declare its write ports before a read that looks at them",
                mem.name
            );
            ports
        });
        let hits = ports.into_iter().map(|port| {
            let hit = make(loc, |d| {
                let (en, addr) = (d.resolve(en, loc)?, d.resolve(addr, loc)?);
                let both = d.binary(Binary::And, en, port.en, loc);
                let same = d.binary(Binary::Eq, port.addr, addr, loc);
                Ok(d.binary(Binary::And, both, same, loc))
            });
            (hit, with(|d| d.sig(port.data)))
        });
        hits.collect()
    }

    /// An immediate read, for LUT RAM and small tables.
    #[track_caller]
    pub fn read_now(&self, addr: Sig) -> T {
        let loc = Location::caller();
        let (name, style) = with(|d| {
            let mem = &d.net.mems[self.id as usize];
            (mem.name.clone(), mem.style)
        });
        assert!(style != Style::Ultra, "{loc}: `{name}` is in UltraRAM, which has no immediate reads");
        let always = crate::lit(1, 1);
        self.shape.unpack(self.read_port(always, addr, false, Collision::Old))
    }

    /// Allows ports in different clock domains; the design must keep them apart, as an asynchronous FIFO does.
    pub(crate) fn allow_crossing(&self) {
        with(|d| d.net.mems[self.id as usize].crossing = true);
    }

    /// Declares that nobody reads this memory yet.
    pub fn discard(&self) {
        with(|d| {
            d.discarded_mems.insert(self.id);
        });
    }
}
