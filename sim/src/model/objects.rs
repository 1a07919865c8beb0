// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects of an engine: made, asked for and removed.

use std::collections::BTreeMap;

use ferrowire_spec::csr::TrafficCounter;
use ferrowire_spec::qp_state::RAW_QPN;
use ferrowire_spec::wire::opcode::Service;
use rand::Rng as _;

use super::cq::Cq;
use super::engine::{unknown, Engine};
use super::keys::{KeyStatus, RegionAttr};
use super::qp::{Qp, QpInit};
use super::raw::RawFilter;
use super::srq::Srq;
use super::types::{AddressVector, Error, WindowType};

fn add<T>(table: &mut BTreeMap<u32, T>, what: &'static str, number: u32, new: T) -> Result<(), Error> {
    if table.contains_key(&number) {
        return Err(Error::Exists { what, number });
    }
    table.insert(number, new);
    Ok(())
}

impl Engine {
    fn number(&mut self) -> u32 {
        self.next_number += 1;
        self.next_number
    }

    /// Registers a region, with a key of the caller's or a random tag. Gives the key, local and remote.
    ///
    /// # Errors
    /// `Exists` when the key's index is in use.
    pub fn register(&mut self, attr: RegionAttr, key: Option<u32>) -> Result<u32, Error> {
        let tag = self.rng.random();
        self.node.keys.register(attr, key, tag)
    }

    /// Makes a window, not bound. Gives its key; a bind may choose another tag.
    ///
    /// # Errors
    /// `Exists` when the key's index is in use.
    pub fn alloc_window(&mut self, pd: u32, kind: WindowType, key: Option<u32>) -> Result<u32, Error> {
        let tag = self.rng.random();
        self.node.keys.window(pd, kind, key, tag)
    }

    /// Removes a region or a window.
    ///
    /// # Errors
    /// `Unknown` when there is none by that key, `Busy` when windows are bound to it.
    pub fn deregister(&mut self, key: u32) -> Result<(), Error> {
        self.node.keys.remove(key)
    }

    /// Whether a key's index is taken, and by whom.
    pub fn key(&self, index: u32) -> Option<KeyStatus> {
        self.node.keys.status(index)
    }

    /// Whether something belongs to a protection domain.
    pub fn uses_pd(&self, pd: u32) -> bool {
        let node = &self.node;
        node.keys.uses_pd(pd)
            || node.srqs.values().any(|srq| srq.pd == pd)
            || node.ahs.values().any(|(owner, _)| *owner == pd)
            || self.qps.values().any(|qp| qp.pd == pd)
    }

    /// Whether a queue pair completes into a completion queue.
    pub fn uses_cq(&self, cq: u32) -> bool {
        self.qps.values().any(|qp| qp.send_cq == cq || qp.recv_cq == cq)
    }

    /// Whether a queue pair has its receives from a shared queue.
    pub fn uses_srq(&self, srq: u32) -> bool {
        self.qps.values().any(|qp| qp.rq.srq == Some(srq))
    }

    /// Makes a completion queue. Gives its number.
    pub fn create_cq(&mut self, entries: usize) -> u32 {
        let number = self.number();
        self.node.cqs.insert(number, Cq::new(entries));
        number
    }

    /// The same with a number of the caller's. Who uses this makes all queues and handles so.
    ///
    /// # Errors
    /// `Exists`.
    pub fn add_cq(&mut self, number: u32, entries: usize) -> Result<(), Error> {
        add(&mut self.node.cqs, "cq", number, Cq::new(entries))
    }

    /// Gives a completion queue room for `entries` completions, those that are in it included. Places of [`Engine::take_completion`] that are not free yet are of the host's old
    /// ring: they do not count any more.
    ///
    /// # Errors
    /// `Unknown`; `Full` for fewer than are in it, which changes nothing.
    pub fn resize_cq(&mut self, number: u32, entries: usize) -> Result<(), Error> {
        let cq = self.node.cqs.get_mut(&number).ok_or(unknown("cq", number))?;
        cq.resize(entries).then_some(()).ok_or(Error::Full)
    }

    /// Removes a completion queue, with what is in it: no queue pair uses it any more.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn remove_cq(&mut self, number: u32) -> Result<(), Error> {
        self.node.moderated.remove(&number);
        self.node.cqs.remove(&number).map(|_| ()).ok_or(unknown("cq", number))
    }

    /// Makes a shared receive queue. Gives its number.
    pub fn create_srq(&mut self, pd: u32, entries: usize) -> u32 {
        let number = self.number();
        self.node.srqs.insert(number, Srq::new(pd, entries));
        number
    }

    /// The same with a number of the caller's.
    ///
    /// # Errors
    /// `Exists`.
    pub fn add_srq(&mut self, number: u32, pd: u32, entries: usize) -> Result<(), Error> {
        add(&mut self.node.srqs, "srq", number, Srq::new(pd, entries))
    }

    /// Removes a shared receive queue, with what is in it: no queue pair uses it any more.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn remove_srq(&mut self, number: u32) -> Result<(), Error> {
        self.node.srqs.remove(&number).map(|_| ()).ok_or(unknown("srq", number))
    }

    /// Receives that no message has taken from a shared queue, and its armed limit.
    pub fn srq_left(&self, srq: u32) -> Option<(usize, usize)> {
        self.node.srqs.get(&srq).map(|srq| (srq.len(), srq.limit()))
    }

    /// A shared receive queue cannot be relied upon any more: whoever has or takes a receive of it from now on fails. Whether that is new.
    pub fn fail_srq(&mut self, srq: u32) -> bool {
        self.node.srqs.get_mut(&srq).is_some_and(|srq| !std::mem::replace(&mut srq.failed, true))
    }

    /// Asks for one event when a shared receive queue holds fewer than `limit`.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn arm_srq(&mut self, srq: u32, limit: usize) -> Result<(), Error> {
        self.node.srqs.get_mut(&srq).ok_or(unknown("srq", srq))?.arm(limit);
        Ok(())
    }

    /// Makes an address handle. Gives its number.
    pub fn create_ah(&mut self, pd: u32, av: AddressVector) -> u32 {
        let number = self.number();
        self.node.ahs.insert(number, (pd, av));
        number
    }

    /// The same with a number of the caller's.
    ///
    /// # Errors
    /// `Exists`.
    pub fn add_ah(&mut self, number: u32, pd: u32, av: AddressVector) -> Result<(), Error> {
        add(&mut self.node.ahs, "address handle", number, (pd, av))
    }

    /// Whether there is an address handle of that number.
    pub fn has_ah(&self, number: u32) -> bool {
        self.node.ahs.contains_key(&number)
    }

    /// Removes an address handle.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn remove_ah(&mut self, number: u32) -> Result<(), Error> {
        self.node.ahs.remove(&number).map(|_| ()).ok_or(unknown("address handle", number))
    }

    /// Sets which frames the raw Ethernet queue pair gets.
    pub fn set_raw_filter(&mut self, filter: RawFilter) {
        self.node.raw_filter = filter;
    }

    /// Sets whether the raw Ethernet queue pair may send what a receiver takes for RoCE.
    pub fn set_raw_roce(&mut self, allowed: bool) {
        self.node.raw_roce = allowed;
    }

    /// Raw frames that came and passed the filter, and raw frames that were sent.
    pub fn raw_frames(&self) -> [u64; 2] {
        [TrafficCounter::RxRaw, TrafficCounter::TxRaw].map(|counter| self.node.counters.traffic(counter))
    }

    /// Makes a queue pair, in RESET. Gives its number, which is 0 for raw Ethernet and for nothing else.
    ///
    /// # Errors
    /// `Exists`, or `Unknown` for a queue that it names; `BadAttribute` when the number is another service's.
    pub fn create_qp(&mut self, init: QpInit) -> Result<u32, Error> {
        for cq in [init.send_cq, init.recv_cq] {
            self.node.cqs.get(&cq).ok_or(unknown("cq", cq))?;
        }
        if let Some(srq) = init.srq {
            self.node.srqs.get(&srq).ok_or(unknown("srq", srq))?;
        }
        let raw = init.service == Service::Raw;
        if init.qpn.is_some_and(|qpn| (qpn == RAW_QPN) != raw) {
            return Err(Error::BadAttribute("qpn"));
        }
        let qpn = init.qpn.unwrap_or_else(|| {
            if raw {
                return RAW_QPN;
            }
            while self.qps.contains(self.next_qpn) {
                self.next_qpn += 1;
            }
            self.next_qpn
        });
        if self.qps.contains(qpn) || qpn >= 1 << 24 {
            return Err(Error::Exists { what: "qp", number: qpn });
        }
        self.qps.insert(Qp::new(qpn, &init));
        Ok(qpn)
    }
}
