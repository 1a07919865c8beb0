// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`RnicConfig`]: every width and depth of a card, read from TOML and checked once.

use crate::types::extension_bytes;
use ferrowire_rtl::{clog2, lit, Bundle, Scope, Sig, Style, Value};
use ferrowire_spec::queue::SendOpcode;
use ferrowire_spec::wire::opcode::{Ext, Service};
use ferrowire_spec::wire::Opcode;
use serde::{Deserialize, Serialize};

/// What a card is built with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RnicConfig {
    /// Bytes a beat on the wire and towards host memory: 8, 16, 32 or 64.
    pub beat_bytes: u32,
    /// Clock of the pipeline.
    pub clock_khz: u32,
    /// Queue pairs.
    pub qps: u32,
    /// Completion queues.
    pub cqs: u32,
    /// Shared receive queues, at most as many as queue pairs; 0: none.
    pub srqs: u32,
    /// Address handles of datagrams.
    pub ahs: u32,
    /// Event queues; 0 is not given out.
    pub eqs: u32,
    /// Memory keys.
    pub keys: u32,
    /// Page-table entries on the card, shared by all memory regions.
    pub page_entries: u32,
    /// Messages under way, all queue pairs together, beside the first of each queue pair.
    pub outstanding: u32,
    /// Messages under way of one queue pair.
    pub outstanding_per_qp: u32,
    /// Units of 64 bytes fetched at once from a queue; a WQE at least.
    pub fetch_batch: u32,
    /// Receive packet buffer.
    pub rx_buffer_bytes: u32,
    /// Buffer for payload on its way out; it bounds the reads under way.
    pub payload_buffer_bytes: u32,
    /// Doorbell pages of 4 KiB.
    pub doorbell_pages: u32,
    /// Tags of PCIe, hence reads of host memory under way; 0: the card has no PCIe, and its DMA streams are its ports.
    #[serde(default)]
    pub pcie_tags: u32,
    /// Buffer in which completions of PCIe wait for those before them. Looked at only with PCIe, as all that follows.
    #[serde(default)]
    pub pcie_read_bytes: u32,
    /// After how many microseconds a read of host memory is given up: 1 to 50,000. PCIe wants 50 at least (2.8); fewer are for simulations.
    #[serde(default)]
    pub pcie_timeout_us: u32,
    /// The card is before the PCIe4 block of AMD's UltraScale+ devices at 512 bits, not before plain packets.
    #[serde(default)]
    pub pcie4: bool,
    /// The card is on AXI4 in place of PCIe.
    #[serde(default)]
    pub axi: bool,
    /// Longest burst, in beats. Looked at only with AXI, as the next one.
    #[serde(default)]
    pub axi_burst_beats: u32,
    /// `AxCACHE` of all bursts. Where bit 0 is set, responses may come from a buffer before memory: then that must be as good as memory for the CPU.
    #[serde(default)]
    pub axi_cache: u32,
    /// Bits of a bus address. Those above are 0: queues, page lists and pages that need more are refused. 32 to 64; all, unless said.
    #[serde(default = "whole_bus")]
    pub bus_bits: u32,
    /// The card can answer ARP and neighbour solicitations itself: for boards without a host.
    #[serde(default)]
    pub neighbour_responder: bool,
    /// The card tells peers of congestion, and slows queue pairs down that are told of it.
    #[serde(default = "yes")]
    pub congestion: bool,
    /// Queue pairs may be of unreliable connections.
    #[serde(default = "yes")]
    pub uc: bool,
    /// Queue pairs may be of unreliable datagrams. Without, there are no address handles, and QP1 is nobody's.
    #[serde(default = "yes")]
    pub ud: bool,
    /// There is a raw Ethernet queue pair.
    #[serde(default = "yes")]
    pub raw_ethernet: bool,
    /// Atomics, of both sides.
    #[serde(default = "yes")]
    pub atomics: bool,
    /// Memory windows: they are bound, and invalidated by both sides.
    #[serde(default = "yes")]
    pub memory_windows: bool,
    /// IPv6 beside IPv4.
    #[serde(default = "yes")]
    pub ipv6: bool,
    /// VLAN tags.
    #[serde(default = "yes")]
    pub vlan: bool,
    /// Frames to the port's own MAC address return inside the card. Without, they go to the wire: for switches that reflect.
    #[serde(default = "yes")]
    pub loopback: bool,
    /// Reliable connections can have selective retransmission (`docs/src/selective.md`).
    #[serde(default)]
    pub selective: bool,
    /// Where packets that come too early are kept: 4,096 beats hold what one queue pair of the largest path MTU may have under way. Looked at only with `selective`.
    #[serde(default)]
    pub keep_bytes: u32,
    /// Places for WQEs that the host writes to the card rather than have them fetched: 2, 4 or 8; 0: none.
    #[serde(default)]
    pub push_slots: u32,
    /// Large tables are in UltraRAM, for parts that have it; without, all of them are in block RAM.
    #[serde(default)]
    pub ultra_ram: bool,
}

/// Rows from which on a table is a large one: a quarter of those of an UltraRAM.
const LARGE: u32 = 1024;

/// Bytes of the longest extension headers of the opcodes for which `holds` does.
fn longest_extensions(holds: impl Fn(Opcode) -> bool) -> usize {
    let opcodes = Opcode::ALL.iter().filter(|o| holds(**o));
    opcodes.map(|o| extension_bytes(*o)).max().unwrap_or(0)
}

fn yes() -> bool {
    true
}

fn whole_bus() -> u32 {
    64
}

/// A value that a card cannot be built with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No configuration of that name is built in.
    #[error("no configuration `{0}`; there are {1}")]
    Unknown(String, String),
    /// The text is not a configuration.
    #[error("configuration: {0}")]
    Parse(String),
    /// A field lies outside its range.
    #[error("{field} = {value}: must be {allowed}")]
    Range {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u32,
        /// What is allowed.
        allowed: String,
    },
}

/// The configurations that come with the project, by name.
pub const BUILT_IN: &[(&str, &str)] = &[
    (
        "axi-64b",
        concat!(include_str!("../configs/generic-64b.toml"), include_str!("../configs/axi-64b.toml")),
    ),
    ("axi-8b", concat!(include_str!("../configs/generic-8b.toml"), include_str!("../configs/axi-8b.toml"))),
    ("generic-64b", include_str!("../configs/generic-64b.toml")),
    ("generic-8b", include_str!("../configs/generic-8b.toml")),
    (
        "pcie-64b",
        concat!(include_str!("../configs/generic-64b.toml"), include_str!("../configs/pcie-64b.toml")),
    ),
    (
        "pcie4-64b",
        concat!(
            include_str!("../configs/generic-64b.toml"),
            include_str!("../configs/pcie-64b.toml"),
            include_str!("../configs/pcie4-64b.toml")
        ),
    ),
    ("pcie-8b", concat!(include_str!("../configs/generic-8b.toml"), include_str!("../configs/pcie-8b.toml"))),
];

impl RnicConfig {
    /// A built-in configuration.
    ///
    /// # Errors
    /// The name is not one of [`BUILT_IN`].
    pub fn named(name: &str) -> Result<Self, ConfigError> {
        match BUILT_IN.iter().find(|(n, _)| *n == name) {
            Some((_, text)) => Self::from_toml(text),
            None => {
                let names: Vec<&str> = BUILT_IN.iter().map(|(n, _)| *n).collect();
                Err(ConfigError::Unknown(name.into(), names.join(", ")))
            }
        }
    }

    /// What takes each function of the transport out of a card.
    pub const WITHOUT: [fn(&mut Self); 8] = [
        |card| card.srqs = 0,
        |card| card.uc = false,
        |card| card.ud = false,
        |card| card.raw_ethernet = false,
        |card| card.atomics = false,
        |card| card.memory_windows = false,
        |card| card.ipv6 = false,
        |card| card.vlan = false,
    ];

    /// The same without all that a card can be without: reliable connections over IPv4, with SENDs, WRITEs and READs.
    pub fn plain(self) -> Self {
        let mut card = RnicConfig {
            congestion: false,
            selective: false,
            neighbour_responder: false,
            loopback: false,
            push_slots: 0,
            ..self
        };
        Self::WITHOUT.iter().for_each(|take| take(&mut card));
        card
    }

    /// From TOML, checked.
    ///
    /// # Errors
    /// Unknown, missing or mistyped fields, and values out of range.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|e| ConfigError::Parse(e.message().to_string()))?;
        config.validate()?;
        Ok(config)
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first field out of range, with what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let power = |field, value: u32, low: u32, high: u32| {
            if value.is_power_of_two() && (low..=high).contains(&value) {
                return Ok(());
            }
            Err(ConfigError::Range { field, value, allowed: format!("a power of two from {low} to {high}") })
        };
        power("beat_bytes", self.beat_bytes, 8, 64)?;
        if !(1_000..=1_000_000).contains(&self.clock_khz) {
            let (value, allowed) = (self.clock_khz, "from 1000 to 1000000".into());
            return Err(ConfigError::Range { field: "clock_khz", value, allowed });
        }
        power("qps", self.qps, 4, 16384)?;
        power("cqs", self.cqs, 4, 16384)?;
        if self.has_srqs() {
            power("srqs", self.srqs, 2, self.qps)?;
        }
        power("ahs", self.ahs, 2, 16384)?;
        power("eqs", self.eqs, 2, 128)?;
        power("keys", self.keys, 4, 65536)?;
        power("page_entries", self.page_entries, 16, 1 << 20)?;
        power("outstanding", self.outstanding, 16, 65536)?;
        power("outstanding_per_qp", self.outstanding_per_qp, 4, self.outstanding.min(16384))?;
        power("fetch_batch", self.fetch_batch, 1, 64)?;
        power("rx_buffer_bytes", self.rx_buffer_bytes, 16384, 1 << 20)?;
        power("payload_buffer_bytes", self.payload_buffer_bytes, 8192, 1 << 20)?;
        power("doorbell_pages", self.doorbell_pages, 1, 4096)?;
        if self.selective {
            power("keep_bytes", self.keep_bytes, 16384, 1 << 20)?;
        }
        if !(32..=64).contains(&self.bus_bits) {
            let (value, allowed) = (self.bus_bits, "from 32 to 64".into());
            return Err(ConfigError::Range { field: "bus_bits", value, allowed });
        }
        if self.push_slots > 0 {
            power("push_slots", self.push_slots, 2, 8)?;
        }
        if self.axi {
            if self.has_pcie() {
                let (value, allowed) = (self.pcie_tags, "0 with axi".into());
                return Err(ConfigError::Range { field: "pcie_tags", value, allowed });
            }
            power("axi_burst_beats", self.axi_burst_beats, 1, 256)?;
            if self.axi_cache > 15 {
                let (value, allowed) = (self.axi_cache, "from 0 to 15".into());
                return Err(ConfigError::Range { field: "axi_cache", value, allowed });
            }
        }
        if self.pcie_tags == 0 {
            return Ok(());
        }
        power("pcie_tags", self.pcie_tags, 8, 256)?;
        power("pcie_read_bytes", self.pcie_read_bytes, 8192, 1 << 18)?;
        if !(1..=50_000).contains(&self.pcie_timeout_us) {
            let (value, allowed) = (self.pcie_timeout_us, "from 1 to 50000".into());
            return Err(ConfigError::Range { field: "pcie_timeout_us", value, allowed });
        }
        if self.pcie4 && self.beat_bytes != 64 {
            let (value, allowed) = (self.beat_bytes, "64 with pcie4".into());
            return Err(ConfigError::Range { field: "beat_bytes", value, allowed });
        }
        Ok(())
    }

    /// Bits of a QP's index.
    pub fn qp_bits(&self) -> u32 {
        clog2(u64::from(self.qps))
    }

    /// Bits of a CQ's index.
    pub fn cq_bits(&self) -> u32 {
        clog2(u64::from(self.cqs))
    }

    /// Bits of a shared receive queue's index.
    pub fn srq_bits(&self) -> u32 {
        clog2(u64::from(self.srq_rows()))
    }

    /// Rows of a table of shared receive queues. Where there are none, nobody writes or reads them.
    pub fn srq_rows(&self) -> u32 {
        self.srqs.max(2)
    }

    /// There are shared receive queues.
    pub fn has_srqs(&self) -> bool {
        self.srqs > 0
    }

    /// There are queue pairs of this service, or packets that need none.
    pub fn serves(&self, service: Service) -> bool {
        match service {
            Service::Rc => true,
            Service::Uc => self.uc,
            Service::Ud => self.ud,
            Service::Raw => self.raw_ethernet,
            Service::Cnp => true,
        }
    }

    /// Services that queue pairs can have.
    pub fn services(&self) -> impl Iterator<Item = Service> + '_ {
        Service::ALL.iter().copied().filter(|service| *service != Service::Cnp && self.serves(*service))
    }

    /// Packets of this opcode can be sent and executed.
    pub fn speaks(&self, opcode: Opcode) -> bool {
        let atomic = opcode.has(Ext::AtomicEth) || opcode.has(Ext::AtomicAckEth);
        let fits = (self.atomics || !atomic) && (self.memory_windows || !opcode.has_invalidate());
        // Without selective retransmission the opcode of its report is a reserved one.
        fits && (self.selective || !opcode.has(Ext::Report)) && self.serves(opcode.service())
    }

    /// Work requests of this kind can be.
    pub fn does(&self, opcode: SendOpcode) -> bool {
        match opcode {
            SendOpcode::CmpSwap | SendOpcode::FetchAdd => self.atomics,
            SendOpcode::SendInv | SendOpcode::LocalInv | SendOpcode::BindMw => self.memory_windows,
            _ => true,
        }
    }

    /// Packets of this opcode are looked at: those that can be, and requests that are refused, of which their sender is to hear.
    pub fn hears(&self, opcode: Opcode) -> bool {
        self.speaks(opcode) || (opcode.is_request() && self.serves(opcode.service()))
    }

    /// Bytes of the longest extension headers of the packets that the card sends.
    pub fn sent_extension_bytes(&self) -> usize {
        longest_extensions(|opcode| self.speaks(opcode))
    }

    /// Bytes of the longest extension headers of the packets that the card looks at.
    pub fn heard_extension_bytes(&self) -> usize {
        longest_extensions(|opcode| self.hears(opcode))
    }

    /// What is not there reads as zeros.
    pub fn only(&self, there: bool, value: Sig) -> Sig {
        value & lit(1, u32::from(there)).repeat(value.width())
    }

    /// An IP address, of which only what IPv4 has is there where there is no IPv6.
    pub fn ip(&self, address: Sig) -> Sig {
        match self.ipv6 {
            true => address,
            false => address.trunc(32).zext(128),
        }
    }

    /// Bits of a receive queue's number: the QP's, or the shared queue's with the highest bit set.
    pub fn rq_bits(&self) -> u32 {
        self.qp_bits().max(self.srq_bits()) + 1
    }

    /// Bits of an address handle's number.
    pub fn ah_bits(&self) -> u32 {
        clog2(u64::from(self.ahs))
    }

    /// Bits of a place among all address vectors: a QP's own, or with the highest bit set a handle's.
    pub fn av_bits(&self) -> u32 {
        self.qp_bits().max(self.ah_bits()) + 1
    }

    /// Bits of an event queue's index.
    pub fn eq_bits(&self) -> u32 {
        clog2(u64::from(self.eqs))
    }

    /// Bits of the number of a place for a pushed WQE.
    pub fn push_bits(&self) -> u32 {
        clog2(u64::from(self.push_slots)).max(1)
    }

    /// The card faces PCIe.
    pub fn has_pcie(&self) -> bool {
        self.pcie_tags > 0
    }

    /// A bus address, of which only so many bits are there: what is above was refused, or is the carry of a queue or page that ends with the bus. As the
    /// bits are seen to be 0, nobody keeps them.
    pub fn bus(&self, address: Sig) -> Sig {
        if self.bus_bits == 64 {
            return address;
        }
        address.trunc(self.bus_bits).zext(64)
    }

    /// Every frame is seven beats or more: blocks may take a few cycles more for each where that shortens the longest path or saves LUTs or
    /// block RAM. Parts with beats so narrow are slow ones, and crowded.
    pub fn unhurried(&self) -> bool {
        self.beat_bytes < 16
    }

    /// Pulses once a microsecond, never after a shorter time.
    pub fn microsecond(&self, m: &Scope) -> Sig {
        let cycles = self.clock_khz.div_ceil(1000);
        let width = 32 - cycles.leading_zeros();
        let passed = m.reg("passed", width).reset(0);
        let microsecond = passed.eq(cycles - 1);
        m.set(&passed, microsecond.then(lit(width, 0), passed + 1));
        microsecond
    }

    /// What is read from block RAM, as it is looked at: a cycle later where there is time, for the read takes as long as some levels of logic.
    pub fn looked<T: Bundle + Value<T>>(&self, m: &Scope, name: &str, value: T) -> T {
        match self.unhurried() {
            true => m.delay(name, &value),
            false => value,
        }
    }

    /// A fact about what was read, in the same way, and under its name in either case.
    pub fn fact(&self, m: &Scope, name: &str, fact: Sig) -> Sig {
        match self.unhurried() {
            true => m.delay(name, &fact),
            false => fact.named(name),
        }
    }

    /// Whether somebody is there whose facts may be used: where there is time, from the second cycle on, for they come from registers that
    /// [`looked`](Self::looked) made in the first. `goes`: who is there leaves, or what is known of it is not true any more.
    pub fn known(&self, m: &Scope, name: &str, valid: Sig, goes: Sig) -> Sig {
        match self.unhurried() {
            true => valid & m.delay(name, &(valid & !goes)),
            false => valid,
        }
    }

    /// How a table of many rows and bits is built. An UltraRAM has 4,096 rows of 72 bits.
    pub fn large(&self, rows: u32) -> Style {
        self.large_or(rows, Style::Block)
    }

    /// The same of a table that is built otherwise where it has few rows.
    pub fn large_or(&self, rows: u32, few: Style) -> Style {
        match rows >= LARGE {
            true if self.ultra_ram => Style::Ultra,
            true => Style::Block,
            false => few,
        }
    }

    /// Bits of a byte's place in a beat.
    pub fn lane_bits(&self) -> u32 {
        clog2(u64::from(self.beat_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_configurations_are_valid() {
        for (name, _) in BUILT_IN {
            RnicConfig::named(name).unwrap();
        }
    }

    #[test]
    fn ultraram_changes_where_large_tables_are_and_nothing_else() {
        let verilog = |ultra_ram: bool| {
            let card = RnicConfig { ultra_ram, ..RnicConfig::named("generic-64b").unwrap() };
            crate::top::rnic(&card).unwrap().verilog()
        };
        let (with, without) = (verilog(true), verilog(false));
        assert_eq!(without.matches("\"ultra\"").count(), 0);
        assert_eq!(with.matches("\"ultra\"").count(), 10);
        assert!(with.replace("\"ultra\"", "\"block\"") == without);
    }

    #[test]
    fn a_bad_value_names_the_field_and_the_range() {
        let mut config = RnicConfig::named("generic-8b").unwrap();
        config.qps = 100;
        let message = config.validate().unwrap_err().to_string();
        assert_eq!(message, "qps = 100: must be a power of two from 4 to 16384");
        let message = RnicConfig::named("nope").unwrap_err().to_string();
        assert_eq!(
            message,
            "no configuration `nope`; there are axi-64b, axi-8b, generic-64b, generic-8b, pcie-64b, pcie4-64b, pcie-8b"
        );
    }
}
