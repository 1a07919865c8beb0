// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's side of a card that faces AXI4: a subordinate before its memory, and a CPU on AXI4-Lite.

use std::collections::VecDeque;

use ferrowire_verilator::{Library, Model, PortError, PortId};

use super::ports::{channel, Handshake};
use super::{CsrAccess, Interrupt};
use crate::axi::{
    Address, AxiSettings, Cpu, LiteSubordinate, Manager, Offers, Response, Subordinate, WriteBeat,
};
use crate::wire::MAX_BEAT;

/// AW or AR of the manager.
#[derive(Clone, Copy)]
struct AddressPorts {
    handshake: Handshake,
    id: PortId,
    address: PortId,
    len: PortId,
    size: PortId,
    burst: PortId,
    cache: PortId,
    prot: PortId,
}

impl AddressPorts {
    fn of(library: &Library, name: &str) -> Result<Self, PortError> {
        let port = |field: &str| library.port(&format!("{name}{field}"));
        Ok(Self {
            handshake: channel(library, name)?,
            id: port("id")?,
            address: port("addr")?,
            len: port("len")?,
            size: port("size")?,
            burst: port("burst")?,
            cache: port("cache")?,
            prot: port("prot")?,
        })
    }

    fn get(&self, model: &Model) -> Option<Address> {
        (model.get_u64(self.handshake.valid) == 1).then(|| Address {
            id: model.get_u64(self.id) as u8,
            address: model.get_u64(self.address),
            len: model.get_u64(self.len) as u8,
            size: model.get_u64(self.size) as u8,
            burst: model.get_u64(self.burst) as u8,
            cache: model.get_u64(self.cache) as u8,
            prot: model.get_u64(self.prot) as u8,
        })
    }
}

/// The manager's ports.
#[derive(Clone, Copy)]
struct ManagerPorts {
    aw: AddressPorts,
    w: Handshake,
    w_data: PortId,
    w_strobe: PortId,
    w_last: PortId,
    b: Handshake,
    b_id: PortId,
    b_response: PortId,
    ar: AddressPorts,
    r: Handshake,
    r_id: PortId,
    r_data: PortId,
    r_response: PortId,
    r_last: PortId,
}

impl ManagerPorts {
    fn of(library: &Library) -> Result<Self, PortError> {
        let port = |name: &str| library.port(&format!("m_axi_{name}"));
        Ok(Self {
            aw: AddressPorts::of(library, "m_axi_aw")?,
            w: channel(library, "m_axi_w")?,
            w_data: port("wdata")?,
            w_strobe: port("wstrb")?,
            w_last: port("wlast")?,
            b: channel(library, "m_axi_b")?,
            b_id: port("bid")?,
            b_response: port("bresp")?,
            ar: AddressPorts::of(library, "m_axi_ar")?,
            r: channel(library, "m_axi_r")?,
            r_id: port("rid")?,
            r_data: port("rdata")?,
            r_response: port("rresp")?,
            r_last: port("rlast")?,
        })
    }

    fn set(&self, model: &mut Model, offers: &Offers, width: usize) {
        model.set_u64(self.aw.handshake.ready, offers.aw_ready.into());
        model.set_u64(self.w.ready, offers.w_ready.into());
        model.set_u64(self.ar.handshake.ready, offers.ar_ready.into());
        if let Some(b) = &offers.b {
            model.set_u64(self.b_id, b.id.into());
            model.set_u64(self.b_response, b.response as u64);
        }
        model.set_u64(self.b.valid, offers.b.is_some().into());
        if let Some(r) = &offers.r {
            model.set_u64(self.r_id, r.id.into());
            model.set_bytes(self.r_data, &r.data[..width]);
            model.set_u64(self.r_response, r.response as u64);
            model.set_u64(self.r_last, r.last.into());
        }
        model.set_u64(self.r.valid, offers.r.is_some().into());
    }

    fn get(&self, model: &Model, width: usize) -> Manager {
        let w = (model.get_u64(self.w.valid) == 1).then(|| {
            let mut data = [0; MAX_BEAT];
            model.get_bytes(self.w_data, &mut data[..width]);
            WriteBeat { data, strobe: model.get_u64(self.w_strobe), last: model.get_u64(self.w_last) == 1 }
        });
        Manager {
            aw: self.aw.get(model),
            w,
            ar: self.ar.get(model),
            b_ready: model.get_u64(self.b.ready) == 1,
            r_ready: model.get_u64(self.r.ready) == 1,
        }
    }
}

/// The ports of the registers' interface.
#[derive(Clone, Copy)]
struct LitePorts {
    aw: Handshake,
    aw_address: PortId,
    w: Handshake,
    w_data: PortId,
    w_strobe: PortId,
    b: Handshake,
    b_response: PortId,
    ar: Handshake,
    ar_address: PortId,
    r: Handshake,
    r_data: PortId,
    r_response: PortId,
}

impl LitePorts {
    fn of(library: &Library) -> Result<Self, PortError> {
        let port = |name: &str| library.port(&format!("s_axil_{name}"));
        let channel = |name: &str| channel(library, &format!("s_axil_{name}"));
        Ok(Self {
            aw: channel("aw")?,
            aw_address: port("awaddr")?,
            w: channel("w")?,
            w_data: port("wdata")?,
            w_strobe: port("wstrb")?,
            b: channel("b")?,
            b_response: port("bresp")?,
            ar: channel("ar")?,
            ar_address: port("araddr")?,
            r: channel("r")?,
            r_data: port("rdata")?,
            r_response: port("rresp")?,
        })
    }

    fn set(&self, model: &mut Model, cpu: &mut Cpu, cycle: u64) {
        let offers = cpu.offers(cycle);
        if let Some(address) = offers.aw {
            model.set_u64(self.aw_address, address.into());
        }
        model.set_u64(self.aw.valid, offers.aw.is_some().into());
        if let Some((data, strobe)) = offers.w {
            model.set_u64(self.w_data, data);
            model.set_u64(self.w_strobe, strobe.into());
        }
        model.set_u64(self.w.valid, offers.w.is_some().into());
        if let Some(address) = offers.ar {
            model.set_u64(self.ar_address, address.into());
        }
        model.set_u64(self.ar.valid, offers.ar.is_some().into());
        model.set_u64(self.b.ready, offers.b_ready.into());
        model.set_u64(self.r.ready, offers.r_ready.into());
    }

    fn get(&self, model: &Model) -> LiteSubordinate {
        let is = |port: PortId| model.get_u64(port) == 1;
        let response = |port: PortId| Response::from_code(model.get_u64(port));
        LiteSubordinate {
            aw_ready: is(self.aw.ready),
            w_ready: is(self.w.ready),
            ar_ready: is(self.ar.ready),
            b: is(self.b.valid).then(|| response(self.b_response)),
            r: is(self.r.valid).then(|| (model.get_u64(self.r_data), response(self.r_response))),
        }
    }
}

/// The subordinate, the CPU, and what the card drove before its inputs were set.
pub struct AxiSide {
    manager: ManagerPorts,
    lite: LitePorts,
    interrupt: [PortId; 3],
    width: usize,
    pub memory: Subordinate,
    pub cpu: Cpu,
    before: (Manager, LiteSubordinate),
}

impl AxiSide {
    pub fn new(library: &Library, width: usize, settings: AxiSettings) -> Result<Self, PortError> {
        let port = |name: &str| library.port(&format!("interrupt_{name}"));
        Ok(Self {
            manager: ManagerPorts::of(library)?,
            lite: LitePorts::of(library)?,
            interrupt: [port("valid")?, port("eqn")?, port("vector")?],
            width,
            cpu: Cpu::new(settings.clone()),
            memory: Subordinate::new(width, settings),
            before: Default::default(),
        })
    }

    /// Looks at the outputs during reset.
    pub fn in_reset(&mut self, model: &Model) {
        self.memory.in_reset(&self.manager.get(model, self.width));
        self.cpu.in_reset(&self.lite.get(model));
    }

    /// How the card broke a rule of either interface, the first time.
    pub fn violation(&self) -> Option<&str> {
        let own = self.memory.violation().or_else(|| self.cpu.violation());
        own.or_else(|| self.memory.host().violation())
    }

    pub fn csr(&mut self, access: CsrAccess) {
        self.cpu.access(access);
    }

    /// Sets the inputs.
    pub fn drive(&mut self, model: &mut Model, cycle: u64) {
        self.before = (self.manager.get(model, self.width), self.lite.get(model));
        let offers = self.memory.offers(cycle);
        self.manager.set(model, &offers, self.width);
        self.lite.set(model, &mut self.cpu, cycle);
    }

    /// Takes what passes.
    pub fn take(&mut self, model: &Model, cycle: u64, interrupts: &mut VecDeque<Interrupt>) {
        let (manager, lite) = (self.manager.get(model, self.width), self.lite.get(model));
        if manager != self.before.0 {
            self.memory.depends(cycle);
        }
        if lite != self.before.1 {
            self.cpu.depends(cycle);
        }
        self.memory.take(cycle, &manager);
        self.cpu.take(cycle, &lite);
        let [valid, eqn, vector] = self.interrupt;
        if model.get_u64(valid) == 1 {
            let (eqn, vector) = (model.get_u64(eqn) as u8, model.get_u64(vector) as u8);
            interrupts.push_back(Interrupt { cycle, eqn, vector });
        }
    }
}
