// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Rig`]: a Verilated engine with all that is round it, stepped a clock at a time.

use std::collections::{HashMap, VecDeque};

use ferrowire::HostMemory;
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::root::{Answer, RootComplex, RootSettings};
use ferrowire_sim::wire::Beat;
use ferrowire_verilator::{Model, PortId};
use rand::Rng as _;

use super::client::Client;
use super::registers::{Access, Registers};
use super::setup::{library, PORTS, REGIONS, ROOM, WINDOW};

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    pub unexpected: u64,
    pub timeout: u64,
    pub refused: u64,
}

/// A stream of packets of the engine.
#[derive(Clone, Copy)]
struct BeatPorts {
    valid: PortId,
    ready: PortId,
    data: PortId,
    last: PortId,
    empty: PortId,
}

pub struct Rig {
    model: Model,
    ports: HashMap<&'static str, PortId>,
    streams: [BeatPorts; 4],
    pub beat: usize,
    /// Number of vectors.
    pub vectors: u32,
    pub tags: usize,
    /// The time-out in cycles.
    pub timeout: u64,
    pub cycle: u64,
    pub root: RootComplex,
    pub client: Client,
    pub registers: Registers,
    pub events: Events,
    /// Vectors to be raised, one a cycle.
    pub raise: VecDeque<u8>,
    pub answers: Vec<Answer>,
    /// Interrupts that were seen: cycle, address, data.
    pub messages: Vec<(u64, u64, u32)>,
    /// The link takes nothing on rq, whatever the root complex says.
    pub standstill: bool,
    /// Beats that were taken on rq, cycles in which the last packets ended on rq, and cycles of the first and the last beat on rc.
    pub rq_beats: u64,
    pub rq_ended: Vec<u64>,
    /// Whether a packet has begun on rq and not ended.
    pub rq_open: bool,
    pub rc_cycles: Option<(u64, u64)>,
    /// What was on offer and was not taken, by output stream.
    held: [Option<Vec<u8>>; 4],
}

const RQ: usize = 0;
const RC: usize = 1;
const CQ: usize = 2;
const CC: usize = 3;

impl Rig {
    /// An engine out of reset, a master of the bus, before such a root complex with memory in [`REGIONS`].
    pub fn new(config: &RnicConfig, settings: RootSettings) -> Self {
        println!("{} bytes a beat, {} tags, {settings:?}", config.beat_bytes, config.pcie_tags);
        let library = library(config);
        let port = |name: &str| library.port(name).unwrap_or_else(|error| panic!("{error}"));
        let stream = |name: &str| {
            let port = |field: &str| port(&format!("{name}_{field}"));
            let (valid, ready) = (port("valid"), port("ready"));
            BeatPorts { valid, ready, data: port("data"), last: port("last"), empty: port("empty") }
        };
        let beat = config.beat_bytes as usize;
        let mut model = library.instantiate();
        let code = |bytes: u32| u64::from(bytes.trailing_zeros() - 7);
        model.set_u64(port("pcie_requester"), settings.requester.into());
        model.set_u64(port("pcie_max_payload"), code(settings.max_payload));
        model.set_u64(port("pcie_max_read_request"), code(settings.max_read_request));
        model.set_u64(port("pcie_extended_tags"), settings.extended_tags.into());
        let tags = settings.tags().min(config.pcie_tags as usize);
        let seed = settings.seed;
        let mut root = RootComplex::new(beat, settings);
        let mut client = Client::new(beat, seed);
        for base in REGIONS {
            let memory = HostMemory::zeroed(ROOM, 4096).unwrap();
            let mut bytes = vec![0; ROOM];
            client.random.fill(&mut bytes[..]);
            memory.write(0, &bytes);
            root.host_mut().map_mut().insert(base, memory).unwrap();
            client.shadow.regions.push((base, bytes));
        }
        root.set_interrupt_window(WINDOW..WINDOW + 0x1000);
        let mut rig = Self {
            ports: PORTS.iter().map(|name| (*name, port(name))).collect(),
            streams: ["rq", "rc", "cq", "cc"].map(stream),
            model,
            beat,
            vectors: config.eqs,
            tags,
            timeout: u64::from(config.pcie_timeout_us) * u64::from(config.clock_khz) / 1000,
            cycle: 0,
            root,
            client,
            registers: Registers::new(seed),
            events: Events::default(),
            raise: VecDeque::new(),
            answers: Vec::new(),
            messages: Vec::new(),
            standstill: false,
            rq_beats: 0,
            rq_ended: Vec::new(),
            rq_open: false,
            rc_cycles: None,
            held: [const { None }; 4],
        };
        rig.set("pcie_bus_master", 1);
        rig.set("pcie_msix_enable", 1);
        rig.reset();
        rig
    }

    pub fn set(&mut self, port: &str, value: u64) {
        self.model.set_u64(self.ports[port], value);
    }

    /// Bits of a port.
    pub fn width(&self, port: &str) -> u32 {
        self.model.width(self.ports[port])
    }

    fn get(&self, port: &str) -> u64 {
        self.model.get_u64(self.ports[port])
    }

    /// Resets the engine alone.
    pub fn reset(&mut self) {
        self.set("rst", 1);
        self.model.ticks(self.ports["clk"], 8);
        self.set("rst", 0);
        self.held = [const { None }; 4];
    }

    /// Sets probabilities of stalls of everything but the root complex.
    pub fn stall(&mut self, probability: f64) {
        self.client.stall = [probability; 3];
        self.registers.stall = probability;
        self.registers.spread = (probability * 40.0) as u64;
    }

    /// One cycle.
    pub fn step(&mut self) {
        let cycle = self.cycle;
        self.cycle += 1;
        let offers = [self.root.rc(cycle), self.root.cq(cycle)];
        for (offer, stream) in offers.iter().zip([RC, CQ]) {
            let ports = self.streams[stream];
            self.model.set_u64(ports.valid, offer.is_some().into());
            if let Some(beat) = offer {
                self.model.set_bytes(ports.data, &beat.data[..self.beat]);
                self.model.set_u64(ports.last, beat.last.into());
                self.model.set_u64(ports.empty, beat.empty.into());
            }
        }
        let rq_ready = self.root.rq_ready(cycle) && !self.standstill;
        let cc_ready = self.root.cc_ready(cycle);
        self.model.set_u64(self.streams[RQ].ready, rq_ready.into());
        self.model.set_u64(self.streams[CC].ready, cc_ready.into());
        let (reads, writes) = self.drive_client();
        let csr_ready = self.registers.ready();
        self.set("csr_ready", csr_ready.into());
        let response = self.registers.offer(cycle);
        self.set("csr_response_valid", response.is_some().into());
        self.set("csr_response_data", response.unwrap_or(0));
        let raised = self.raise.pop_front();
        self.set("interrupt_valid", raised.is_some().into());
        self.set("interrupt_vector", raised.unwrap_or(0).into());
        self.set("interrupt_eqn", raised.unwrap_or(0).into());
        let data_ready = self.client.data_ready();
        self.set("data_ready", data_ready.into());

        self.model.eval();
        self.check_valids(cycle, [rq_ready, cc_ready, csr_ready, data_ready]);
        if offers[0].is_some() && self.model.get_u64(self.streams[RC].ready) == 1 {
            self.root.rc_taken(cycle);
            let first = self.rc_cycles.map_or(cycle, |(first, _)| first);
            self.rc_cycles = Some((first, cycle));
        }
        if offers[1].is_some() && self.model.get_u64(self.streams[CQ].ready) == 1 {
            self.root.cq_taken(cycle);
        }
        if let Some(beat) = self.beat(RQ, rq_ready) {
            self.root.rq_beat(cycle, &beat);
            self.rq_beats += 1;
            self.rq_open = !beat.last;
            if beat.last {
                self.rq_ended.push(cycle);
            }
        }
        if let Some(beat) = self.beat(CC, cc_ready) {
            self.root.cc_beat(cycle, &beat);
        }
        if response.is_some() && self.get("csr_response_ready") == 1 {
            self.registers.taken(cycle);
        }
        if writes && self.get("write_ready") == 1 {
            self.client.write_taken(cycle);
        }
        if reads && self.get("read_ready") == 1 {
            self.client.read_taken(cycle);
        }
        self.take_csr(csr_ready);
        self.take_data(data_ready);
        self.events.unexpected += self.get("events_unexpected");
        self.events.timeout += self.get("events_timeout");
        self.events.refused += self.get("events_refused");
        self.answers.extend(std::iter::from_fn(|| self.root.answer()));
        self.messages.extend(std::iter::from_fn(|| self.root.interrupt()));
        self.model.tick(self.ports["clk"]);
    }

    /// Sets what the client offers: a read, a beat of a write.
    fn drive_client(&mut self) -> (bool, bool) {
        let (model, ports) = (&mut self.model, &self.ports);
        let read = self.client.read_offer();
        model.set_u64(ports["read_valid"], read.is_some().into());
        if let Some((address, length)) = read {
            model.set_u64(ports["read_address"], address);
            model.set_u64(ports["read_length"], length);
        }
        let write = self.client.write_offer();
        model.set_u64(ports["write_valid"], write.is_some().into());
        if let Some(write) = write {
            model.set_u64(ports["write_address"], write.address);
            model.set_u64(ports["write_length"], write.length);
            model.set_bytes(ports["write_data"], &write.data);
            model.set_u64(ports["write_strobe"], write.strobe);
            model.set_u64(ports["write_last"], write.last.into());
        }
        (read.is_some(), write.is_some())
    }

    /// What is on offer does not depend on whether it is taken.
    fn check_valids(&mut self, cycle: u64, readies: [bool; 4]) {
        if cycle % 8 > 0 {
            return;
        }
        let (rq, cc) = (self.streams[RQ], self.streams[CC]);
        let readies =
            [rq.ready, cc.ready, self.ports["csr_ready"], self.ports["data_ready"]].into_iter().zip(readies);
        let valids = [rq.valid, cc.valid, self.ports["csr_valid"], self.ports["data_valid"]];
        let offers = |model: &Model| valids.map(|valid| model.get_u64(valid));
        let before = offers(&self.model);
        readies.clone().for_each(|(port, ready)| self.model.set_u64(port, (!ready).into()));
        self.model.eval();
        assert_eq!(
            offers(&self.model),
            before,
            "cycle {cycle}: valid of rq, cc, csr or data depends on ready"
        );
        readies.for_each(|(port, ready)| self.model.set_u64(port, ready.into()));
        self.model.eval();
    }

    /// What is on offer stays as it is until it is taken. Whether it is taken now.
    fn hold(&mut self, stream: usize, name: &str, valid: bool, ready: bool, payload: Vec<u8>) -> bool {
        let now = valid.then_some(payload);
        if let Some(held) = &self.held[stream] {
            assert_eq!(
                now.as_ref(),
                Some(held),
                "cycle {}, {name}: changed before it was taken",
                self.cycle - 1
            );
        }
        self.held[stream] = now.filter(|_| !ready);
        valid && ready
    }

    /// The beat of rq or cc that is taken.
    fn beat(&mut self, stream: usize, ready: bool) -> Option<Beat> {
        let ports = self.streams[stream];
        let mut beat = Beat::EMPTY;
        self.model.get_bytes(ports.data, &mut beat.data[..self.beat]);
        beat.last = self.model.get_u64(ports.last) == 1;
        beat.empty = self.model.get_u64(ports.empty) as u8;
        let valid = self.model.get_u64(ports.valid) == 1;
        // Lanes behind a packet's end mean nothing.
        let used = self.beat - usize::from(beat.empty).min(self.beat);
        let mut payload = beat.data[..used].to_vec();
        payload.push(beat.last.into());
        let (name, held) = if stream == RQ { ("rq", 0) } else { ("cc", 1) };
        self.hold(held, name, valid, ready, payload).then_some(beat)
    }

    fn take_csr(&mut self, ready: bool) {
        let access = Access {
            address: self.get("csr_address") as u32,
            write: self.get("csr_write") == 1,
            wide: self.get("csr_wide") == 1,
            data: self.get("csr_data"),
        };
        let valid = self.get("csr_valid") == 1;
        let data = if access.write { access.data } else { 0 };
        let payload = format!("{:?}", Access { data, ..access }).into_bytes();
        if self.hold(2, "csr", valid, ready, payload) {
            self.registers.access(self.cycle - 1, access);
        }
    }

    fn take_data(&mut self, ready: bool) {
        let mut data = vec![0; self.beat];
        self.model.get_bytes(self.ports["data_data"], &mut data);
        let (last, error) = (self.get("data_last") == 1, self.get("data_error") == 1);
        let valid = self.get("data_valid") == 1;
        let mut payload = vec![last.into(), error.into()];
        if !error {
            payload.extend_from_slice(&data);
        }
        if self.hold(3, "data", valid, ready, payload) {
            self.client.data(self.cycle - 1, &data, last, error);
        }
    }
}
