// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Bench`]: a bridge with all that it is connected to.

use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;

use ferrowire::HostMemory;
use ferrowire_rtl::{Netlist, Sim};
use ferrowire_serial::line::{Driver, Reader};
use ferrowire_serial::{bridge, SerialConfig};
use ferrowire_sim::axi::{Address, AxiSettings, Manager, Offers, Subordinate, WriteBeat};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Where memory is, and its bytes.
pub const BASE: u64 = 0x10_0000;
pub const BYTES: usize = 1 << 16;

/// A register that tells how often it was read.
pub const COUNTER: u32 = 0x100;
/// Accesses there and behind are answered with SLVERR.
pub const REFUSED: u32 = 0x80_0000;

/// 80 cycles a byte.
pub fn config() -> SerialConfig {
    let memory_bytes = BYTES as u64;
    SerialConfig { clock_khz: 8_000, baud: 1_000_000, memory_bytes, memory_base: BASE, beat_bytes: 8 }
}

/// The bridge, made once.
fn netlist() -> &'static Netlist {
    static NETLIST: OnceLock<Netlist> = OnceLock::new();
    NETLIST.get_or_init(|| bridge::engine(&config()).unwrap())
}

/// Registers on AXI4-Lite, which answer when they like.
#[derive(Default)]
pub struct Registers {
    pub words: BTreeMap<u32, u64>,
    /// Address, data and strobes of each write.
    pub writes: Vec<(u32, u64, u8)>,
    pub reads: u64,
    aw: Option<u32>,
    w: Option<(u64, u8)>,
    b: VecDeque<u64>,
    r: VecDeque<(u64, u64)>,
    offered: [bool; 2],
    stall: f64,
    /// They never answer.
    pub stuck: bool,
}

impl Registers {
    fn cycle(&mut self, sim: &mut Sim, rng: &mut SmallRng) {
        let mut goes = |some: bool| some && !(self.stall > 0.0 && rng.random_bool(self.stall));
        let ready =
            [goes(self.aw.is_none()), goes(self.w.is_none()), goes(true)].map(|ready| ready && !self.stuck);
        self.offered[0] |= goes(!self.b.is_empty());
        self.offered[1] |= goes(!self.r.is_empty());
        for (name, ready) in ["aw", "w", "ar"].iter().zip(ready) {
            sim.set(&format!("m_axil_{name}ready"), ready.into());
        }
        sim.set("m_axil_bvalid", self.offered[0].into());
        sim.set("m_axil_bresp", self.b.front().copied().unwrap_or(0));
        sim.set("m_axil_rvalid", self.offered[1].into());
        let (data, resp) = self.r.front().copied().unwrap_or((0, 0));
        sim.set("m_axil_rdata", data);
        sim.set("m_axil_rresp", resp);

        let refused = |address: u32| if address >= REFUSED { 2 } else { 0 };
        if ready[0] && sim.get("m_axil_awvalid") == 1 {
            self.aw = Some(sim.get("m_axil_awaddr") as u32);
        }
        if ready[1] && sim.get("m_axil_wvalid") == 1 {
            self.w = Some((sim.get("m_axil_wdata"), sim.get("m_axil_wstrb") as u8));
        }
        if self.offered[0] && sim.get("m_axil_bready") == 1 {
            self.b.pop_front();
            self.offered[0] = false;
        }
        if self.offered[1] && sim.get("m_axil_rready") == 1 {
            self.r.pop_front();
            self.offered[1] = false;
        }
        if let (Some(address), Some((data, strobe))) = (self.aw, self.w) {
            (self.aw, self.w) = (None, None);
            self.b.push_back(refused(address));
            if refused(address) == 0 {
                self.writes.push((address, data, strobe));
                let lanes = (0..8).filter(|lane| strobe >> lane & 1 == 1);
                let mask = lanes.fold(0u64, |mask, lane| mask | 0xff << (8 * lane));
                let word = self.words.entry(address & !7).or_default();
                *word = *word & !mask | data & mask;
            }
        }
        if ready[2] && sim.get("m_axil_arvalid") == 1 {
            let address = sim.get("m_axil_araddr") as u32;
            self.reads += 1;
            let data = if address == COUNTER {
                self.reads
            } else {
                self.words.get(&(address & !7)).copied().unwrap_or(0)
            };
            self.r.push_back((data, refused(address)));
        }
    }
}

/// A bridge, and what its pins and buses are connected to.
pub struct Bench {
    pub sim: Sim,
    pub axi: Subordinate,
    pub registers: Registers,
    pub memory: HostMemory,
    pub rx: Driver,
    pub tx: Reader,
    pub cycle: u64,
    rng: SmallRng,
    /// An interrupt in the next cycle, of this queue.
    pub interrupt: Option<u8>,
    /// The card has written this block, in the next cycle.
    pub wrote: Option<u32>,
}

impl Bench {
    pub fn new(settings: AxiSettings, stall: f64) -> Self {
        let mut sim = Sim::new(netlist());
        sim.set("rx", 1);
        sim.reset();
        let memory = HostMemory::zeroed(BYTES, 4096).unwrap();
        let rng = SmallRng::seed_from_u64(settings.seed);
        let mut axi = Subordinate::new(8, AxiSettings { write_ids: 1, ..settings });
        axi.host_mut().map_mut().insert(BASE, memory.clone()).unwrap();
        let (rx, tx) = (Driver::new(8.0), Reader::new(8.0));
        let registers = Registers { stall, ..Registers::default() };
        Self { sim, axi, registers, memory, rx, tx, cycle: 0, rng, interrupt: None, wrote: None }
    }

    fn manager(&mut self) -> Manager {
        let sim = &mut self.sim;
        let mut address = |name: &str| {
            let mut get = |field: &str| sim.get(&format!("m_axi_{name}{field}"));
            (get("valid") == 1).then(|| Address {
                id: get("id") as u8,
                address: get("addr"),
                len: get("len") as u8,
                size: get("size") as u8,
                burst: get("burst") as u8,
                cache: get("cache") as u8,
                prot: get("prot") as u8,
            })
        };
        let (aw, ar) = (address("aw"), address("ar"));
        let w = (sim.get("m_axi_wvalid") == 1).then(|| {
            let mut data = [0; 64];
            data[..8].copy_from_slice(&sim.get("m_axi_wdata").to_le_bytes());
            WriteBeat { data, strobe: sim.get("m_axi_wstrb"), last: sim.get("m_axi_wlast") == 1 }
        });
        let [b_ready, r_ready] = ["m_axi_bready", "m_axi_rready"].map(|port| sim.get(port) == 1);
        Manager { aw, w, ar, b_ready, r_ready }
    }

    fn offer(&mut self, offers: &Offers) {
        let sim = &mut self.sim;
        sim.set("m_axi_awready", offers.aw_ready.into());
        sim.set("m_axi_wready", offers.w_ready.into());
        sim.set("m_axi_arready", offers.ar_ready.into());
        sim.set("m_axi_bvalid", offers.b.is_some().into());
        if let Some(b) = offers.b {
            sim.set("m_axi_bid", b.id.into());
            sim.set("m_axi_bresp", b.response as u64);
        }
        sim.set("m_axi_rvalid", offers.r.is_some().into());
        if let Some(r) = offers.r {
            sim.set("m_axi_rid", r.id.into());
            sim.set("m_axi_rdata", u64::from_le_bytes(r.data[..8].try_into().unwrap()));
            sim.set("m_axi_rresp", r.response as u64);
            sim.set("m_axi_rlast", r.last.into());
        }
    }

    /// One cycle.
    pub fn step(&mut self) {
        let cycle = self.cycle;
        self.cycle += 1;
        let level = self.rx.level();
        self.sim.set("rx", level.into());
        let eqn = self.interrupt.take();
        self.sim.set("interrupt_valid", eqn.is_some().into());
        self.sim.set("interrupt_eqn", eqn.unwrap_or(0).into());
        let block = self.wrote.take();
        self.sim.set("wrote_valid", block.is_some().into());
        self.sim.set("wrote_block", block.unwrap_or(0).into());
        let before = self.manager();
        let offers = self.axi.offers(cycle);
        self.offer(&offers);
        self.registers.cycle(&mut self.sim, &mut self.rng);
        let manager = self.manager();
        if manager != before {
            self.axi.depends(cycle);
        }
        self.axi.take(cycle, &manager);
        let tx = self.sim.get("tx") == 1;
        self.tx.take(tx);
        self.sim.tick();
    }

    pub fn run(&mut self, cycles: u64) {
        (0..cycles).for_each(|_| self.step());
    }

    /// What came since the last time.
    pub fn heard(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.tx.bytes)
    }

    /// Nothing was wrong on AXI4 and on the line.
    pub fn check(&self) {
        assert_eq!(self.axi.violation(), None);
        assert_eq!(self.tx.broken, 0);
    }
}
