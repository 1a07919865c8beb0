// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Switch`]: a learning Ethernet switch (IEEE 802.1D 7), which stores and forwards whole frames.
//!
//! ```text
//!  port --> learn source --> look up destination --> egress queue of each port that gets it --> port
//!                                  |                          full: the frame is lost there, and counted
//!                                  +--> own port, or reserved for the switch: filtered
//! ```
//!
//! | destination | goes to |
//! |---|---|
//! | learned at another port | that port |
//! | learned at the port where the frame came in | no port |
//! | group, broadcast, or not learned | all other ports |
//! | 01:80:c2:00:00:00 to 0f (802.1D 7.12.6), and EtherType 0x8808 (MAC control) | no port; PAUSE is not obeyed |
//!
//! Frames between two ports keep their order. VLAN tags have no meaning here. The switch has no clock: the caller takes a frame from a
//! queue when the port's cable is free.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bus::Peer;

/// Addresses that a port may have: a card that invents sources takes no room from other ports.
const ADDRESSES: usize = 256;

/// Bytes of an Ethernet header without a tag.
const HEADER: usize = 14;

/// EtherType of MAC control frames (IEEE 802.3 31).
const MAC_CONTROL: [u8; 2] = [0x88, 0x08];

/// What a port has done with frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Frames that came in.
    pub received: u64,
    /// Of these, frames that went to no port.
    pub filtered: u64,
    /// Of these, frames that went to all other ports.
    pub flooded: u64,
    /// Frames that left.
    pub sent: u64,
    /// Frames that were to leave, and were lost as the queue was full.
    pub lost: u64,
}

#[derive(Debug, Default)]
struct Port {
    queue: VecDeque<Vec<u8>>,
    counts: PortCounts,
    /// Addresses that were learned here.
    addresses: usize,
}

/// A learning switch.
#[derive(Debug)]
pub struct Switch {
    ports: Vec<Port>,
    table: HashMap<[u8; 6], usize>,
    /// Frames that a port's queue holds at most.
    depth: usize,
    /// Frames lost at all ports.
    lost: u64,
}

impl Switch {
    /// A switch with that many ports, whose egress queues hold `depth` frames each.
    pub fn new(ports: usize, depth: usize) -> Self {
        let ports = (0..ports).map(|_| Port::default()).collect();
        Self { ports, table: HashMap::new(), depth, lost: 0 }
    }

    /// Ports that it has.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// What a port has done.
    pub fn counts(&self, port: usize) -> PortCounts {
        self.ports[port].counts
    }

    /// The port where an address was learned.
    pub fn port_of(&self, address: [u8; 6]) -> Option<usize> {
        self.table.get(&address).copied()
    }

    /// A frame has come in at a port.
    pub fn take(&mut self, from: usize, frame: Vec<u8>) {
        self.ports[from].counts.received += 1;
        let Some((destination, source, kind)) = header(&frame) else {
            self.ports[from].counts.filtered += 1;
            return;
        };
        self.learn(from, source);
        let reserved = destination[..5] == [0x01, 0x80, 0xc2, 0, 0] && destination[5] < 0x10;
        let known = self.table.get(&destination).copied();
        match known {
            _ if reserved || kind == MAC_CONTROL => self.ports[from].counts.filtered += 1,
            Some(to) if to == from => self.ports[from].counts.filtered += 1,
            Some(to) => self.queue(to, frame),
            None => {
                self.ports[from].counts.flooded += 1;
                for to in (0..self.ports.len()).filter(|to| *to != from) {
                    self.queue(to, frame.clone());
                }
            }
        }
    }

    /// An address that sends from a port is reached there, and no longer where it was before.
    fn learn(&mut self, from: usize, source: [u8; 6]) {
        // A group sends no frame, and no station has the address zero.
        if source[0] & 1 == 1 || source == [0; 6] || self.table.get(&source) == Some(&from) {
            return;
        }
        if let Some(before) = self.table.remove(&source) {
            self.ports[before].addresses -= 1;
        }
        if self.ports[from].addresses < ADDRESSES {
            self.ports[from].addresses += 1;
            self.table.insert(source, from);
        }
    }

    fn queue(&mut self, to: usize, frame: Vec<u8>) {
        let port = &mut self.ports[to];
        match port.queue.len() < self.depth {
            true => port.queue.push_back(frame),
            false => {
                port.counts.lost += 1;
                self.lost += 1;
            }
        }
    }

    /// The next frame that leaves by a port.
    pub fn give(&mut self, port: usize) -> Option<Vec<u8>> {
        let port = &mut self.ports[port];
        let frame = port.queue.pop_front()?;
        port.counts.sent += 1;
        Some(frame)
    }

    /// Whether frames wait at a port.
    pub fn waits(&self, port: usize) -> bool {
        !self.ports[port].queue.is_empty()
    }

    /// Forgets the addresses of a port, as when its link goes down. Frames in its queue stay.
    pub fn forget(&mut self, port: usize) {
        self.table.retain(|_, at| *at != port);
        self.ports[port].addresses = 0;
    }

    /// Frames lost at all ports.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Frames lost at each port, as a message; `None` if there are none.
    pub fn losses(&self) -> Option<String> {
        let lossy = self.ports.iter().enumerate().filter(|(_, port)| port.counts.lost > 0);
        let each: Vec<String> = lossy.map(|(i, port)| format!("{} at port {i}", port.counts.lost)).collect();
        let depth = self.depth;
        (!each.is_empty()).then(|| {
            format!(
                "the switch has lost frames at ports whose queue of {depth} was full: {}",
                each.join(", ")
            )
        })
    }
}

/// Destination, source and EtherType.
fn header(frame: &[u8]) -> Option<([u8; 6], [u8; 6], [u8; 2])> {
    let (destination, rest) = frame.get(..HEADER)?.split_first_chunk()?;
    let (source, rest) = rest.split_first_chunk()?;
    Some((*destination, *source, *rest.first_chunk()?))
}

/// A switch whose ports are ends of wires of a [`World`](crate::bus::World).
#[derive(Clone, Debug)]
pub struct SharedSwitch(Arc<Mutex<Switch>>);

impl SharedSwitch {
    /// To be shared.
    pub fn new(switch: Switch) -> Self {
        Self(Arc::new(Mutex::new(switch)))
    }

    /// The switch, while its ports wait.
    pub fn lock(&self) -> MutexGuard<'_, Switch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A port.
    pub fn port(&self, port: usize) -> SwitchPort {
        SwitchPort { switch: self.clone(), port }
    }
}

/// A port of a switch, at the end of a wire.
#[derive(Debug)]
pub struct SwitchPort {
    switch: SharedSwitch,
    port: usize,
}

impl Peer for SwitchPort {
    fn take(&mut self, _: u64, frame: Vec<u8>) {
        self.switch.lock().take(self.port, frame);
    }

    fn give(&mut self, _: u64) -> Option<Vec<u8>> {
        self.switch.lock().give(self.port)
    }

    fn waits(&self) -> bool {
        self.switch.lock().waits(self.port)
    }

    fn link_down(&mut self) {
        self.switch.lock().forget(self.port);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    const BROADCAST: [u8; 6] = [0xff; 6];

    fn mac(last: u8) -> [u8; 6] {
        [2, 0, 0, 0, 0, last]
    }

    fn frame(to: [u8; 6], from: [u8; 6], tag: u32) -> Vec<u8> {
        [&to[..], &from, &[0x08, 0x00], &tag.to_le_bytes()].concat()
    }

    /// What waits at each port, which is taken.
    fn drain(switch: &mut Switch) -> Vec<Vec<Vec<u8>>> {
        (0..switch.ports()).map(|port| std::iter::from_fn(|| switch.give(port)).collect()).collect()
    }

    /// Ports that got one frame.
    fn reached(switch: &mut Switch) -> Vec<usize> {
        let all = drain(switch);
        assert!(all.iter().all(|frames| frames.len() <= 1));
        (0..all.len()).filter(|port| !all[*port].is_empty()).collect()
    }

    #[test]
    fn a_frame_goes_to_the_port_of_its_destination_and_to_all_others_before_that_is_known() {
        let mut switch = Switch::new(4, 8);
        switch.take(0, frame(mac(2), mac(1), 0));
        assert_eq!(reached(&mut switch), [1, 2, 3]);
        switch.take(2, frame(mac(1), mac(2), 0));
        assert_eq!(reached(&mut switch), [0]);
        switch.take(0, frame(mac(2), mac(1), 0));
        assert_eq!(reached(&mut switch), [2]);
        for group in [BROADCAST, [0x33, 0x33, 0, 0, 0, 1], [1, 0, 0x5e, 0, 0, 1]] {
            switch.take(1, frame(group, mac(3), 0));
            assert_eq!(reached(&mut switch), [0, 2, 3]);
        }
        // Never back to the port where it came in.
        switch.take(2, frame(mac(2), mac(9), 0));
        assert_eq!(reached(&mut switch), [0; 0]);
        assert_eq!(switch.counts(2), PortCounts { received: 2, filtered: 1, sent: 5, ..switch.counts(2) });
    }

    #[test]
    fn an_address_that_moves_is_learned_at_its_new_port() {
        let mut switch = Switch::new(3, 8);
        switch.take(0, frame(BROADCAST, mac(1), 0));
        switch.take(2, frame(BROADCAST, mac(1), 0));
        drain(&mut switch);
        switch.take(1, frame(mac(1), mac(2), 0));
        assert_eq!(reached(&mut switch), [2]);
        assert_eq!(switch.port_of(mac(1)), Some(2));
        // A link that goes down takes the addresses of its port, and no others.
        switch.forget(2);
        switch.take(0, frame(mac(1), mac(3), 0));
        assert_eq!(reached(&mut switch), [1, 2]);
        assert_eq!(switch.port_of(mac(2)), Some(1));
    }

    #[test]
    fn reserved_groups_mac_control_and_runts_end_at_the_switch() {
        let mut switch = Switch::new(3, 8);
        for last in [0, 1, 0x0e, 0x0f] {
            switch.take(0, frame([1, 0x80, 0xc2, 0, 0, last], mac(1), 0));
        }
        let mut pause = frame(mac(2), mac(1), 0);
        pause[12..14].copy_from_slice(&MAC_CONTROL);
        switch.take(0, pause);
        switch.take(0, vec![0xff; 13]);
        switch.take(0, Vec::new());
        assert_eq!(reached(&mut switch), [0; 0]);
        assert_eq!((switch.counts(0).received, switch.counts(0).filtered), (7, 7));
        switch.take(0, frame([1, 0x80, 0xc2, 0, 0, 0x10], mac(1), 0));
        assert_eq!(reached(&mut switch), [1, 2]);
    }

    #[test]
    fn groups_and_zero_are_no_sources_and_a_port_learns_256_addresses() {
        let mut switch = Switch::new(2, 8);
        for source in [BROADCAST, [1, 2, 3, 4, 5, 6], [0; 6]] {
            switch.take(0, frame(mac(1), source, 0));
            assert_eq!(switch.port_of(source), None);
        }
        let address = |n: usize| [2, 1, 0, 0, (n >> 8) as u8, n as u8];
        for n in 0..2 * ADDRESSES {
            switch.take(0, frame(BROADCAST, address(n), 0));
        }
        assert_eq!(switch.table.len(), ADDRESSES);
        // The other port has room, and what moves there leaves room here.
        switch.take(1, frame(BROADCAST, address(5), 0));
        switch.take(0, frame(BROADCAST, address(ADDRESSES), 0));
        assert_eq!((switch.port_of(address(5)), switch.port_of(address(ADDRESSES))), (Some(1), Some(0)));
        assert_eq!(switch.port_of(address(ADDRESSES + 1)), None);
    }

    #[test]
    fn a_full_queue_loses_what_comes_and_counts_it() {
        let mut switch = Switch::new(3, 4);
        assert_eq!((switch.lost(), switch.losses()), (0, None));
        for tag in 0..10 {
            switch.take(0, frame(BROADCAST, mac(1), tag));
            // Port 2 sends at once, port 1 waits.
            assert_eq!(switch.give(2), Some(frame(BROADCAST, mac(1), tag)));
        }
        assert!(switch.waits(1) && !switch.waits(0));
        let kept: Vec<Vec<u8>> = (0..4).map(|tag| frame(BROADCAST, mac(1), tag)).collect();
        assert_eq!(drain(&mut switch)[1], kept);
        let counts = [1, 2].map(|port| (switch.counts(port).sent, switch.counts(port).lost));
        assert_eq!(counts, [(4, 6), (10, 0)]);
        assert_eq!(switch.lost(), 6);
        let told = switch.losses().unwrap();
        assert!(told.ends_with("queue of 4 was full: 6 at port 1"), "{told}");
    }

    /// Random stations that move, send to each other and to groups, over queues that are often full; compared with a list of what each port is to get.
    #[test]
    fn random_traffic_is_delivered_as_the_table_says_in_order_and_every_frame_is_accounted_for() {
        for seed in 0..50 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let ports = rng.random_range(2..=64);
            let depth = rng.random_range(1..=20);
            let stations = rng.random_range(1..=40u8);
            let mut switch = Switch::new(ports, depth);
            // Where each station sent last; the frames that each port is to give; and its losses.
            let mut at = BTreeMap::new();
            let mut wanted = vec![VecDeque::new(); ports];
            let mut lost = vec![0; ports];
            let (mut taken, mut given) = (0, 0);
            for tag in 0..2000 {
                let source = rng.random_range(0..stations);
                let from = match at.get(&source) {
                    Some(port) if rng.random_bool(0.95) => *port,
                    _ => rng.random_range(0..ports),
                };
                let group = rng.random_bool(0.1);
                let destination = rng.random_range(0..=stations);
                let to = if group { [3, 0, 0, 0, 0, destination] } else { mac(destination) };
                at.insert(source, from);
                let frame = frame(to, mac(source), tag);
                let known = at.get(&destination).copied().filter(|_| !group);
                let others = (0..ports).filter(|port| *port != from);
                let goes = others.filter(|port| known.is_none_or(|known| known == *port));
                for port in goes {
                    match wanted[port].len() < depth {
                        true => wanted[port].push_back(frame.clone()),
                        false => lost[port] += 1,
                    }
                }
                switch.take(from, frame);
                taken += 1;
                for _ in 0..rng.random_range(0..4) {
                    let port = rng.random_range(0..ports);
                    let frame = switch.give(port);
                    given += u64::from(frame.is_some());
                    assert_eq!(frame, wanted[port].pop_front(), "seed {seed}, port {port}");
                }
            }
            for (port, frames) in drain(&mut switch).into_iter().enumerate() {
                given += frames.len() as u64;
                assert_eq!(wanted[port], frames, "seed {seed}, port {port}");
            }
            let all: Vec<PortCounts> = (0..ports).map(|port| switch.counts(port)).collect();
            assert_eq!(all.iter().map(|port| port.lost).collect::<Vec<_>>(), lost, "seed {seed}");
            assert_eq!(
                all.iter().map(|port| (port.received, port.sent)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
                (taken, given)
            );
            for (station, port) in at {
                assert_eq!(switch.port_of(mac(station)), Some(port), "seed {seed}");
            }
        }
    }
}
