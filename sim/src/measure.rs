// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a pair of cards does, in cycles: rates in the steady state, and the way of one message.
//!
//! - A **rate** is taken on the wire: from the first beat of request packet `N` to that of packet `M`, which lie a quarter
//!   and three quarters into the run, so that neither the fetch of the first work requests nor the drain at the end counts.
//! - **Doorbell to wire** counts from the cycle in which the card takes the doorbell to the one in which the first beat
//!   of the packet leaves it.
//! - **Doorbell to memory** counts from there to the cycle in which the peer writes the last byte to its host's memory.
//! - Of READs and atomics the answers are counted: the frames that come back. **Doorbell to completion** counts to the cycle in which the
//!   CQE is written behind the last byte.
//! - A rate of **both directions** at once, and that of what a receiver takes of UC and UD, is that at which payload comes to host
//!   memory.
//! - The **wire limit** is what Ethernet carries of a message's payload at the configuration's line rate (see [`line_gbps`]):
//!   payload bytes over the bytes on the wire, which are the frame, at least 60 bytes, and 24 bytes for preamble, FCS and
//!   gap.

use anyhow::{anyhow, bail, ensure, Result};
use ferrowire::{
    AccessFlags, AddressVector, InitAttributes, PathMtu, Psn, QpInitAttr, QueuePair, RecvWr, RemoteAddress,
    RtrAttributes, RtsAttributes, SendOpcode, SendWr, Service, SrqInitAttr,
};

use crate::card::datapath_gbps;
use crate::pair::{bytes, Connection, Node, Pair};
use crate::wire::{wire_bytes, Mark};

mod placed;

pub use placed::{both_ways, unreliable, Placed};

/// Cycles without a packet after which a run has failed.
const STUCK: u64 = 60_000;

/// A QPN that no card has, and a queue key.
const NOBODY: u32 = 0x7f_ffff;

/// Messages of each kind, over some queue pairs.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// WRITE, SEND to receives that were posted before, READ, or an atomic of 8 bytes.
    pub verb: SendOpcode,
    /// Bytes a message.
    pub bytes: usize,
    /// Path MTU.
    pub mtu: PathMtu,
    /// Queue pairs.
    pub qps: usize,
    /// Messages of all of them together.
    pub messages: usize,
    /// SENDs take the receives of one shared queue.
    pub shared: bool,
}

impl Load {
    /// READs and atomics, whose answers bring something.
    fn is_answered(&self) -> bool {
        matches!(self.verb, SendOpcode::Read | SendOpcode::FetchAdd)
    }

    /// Connections of RC on which each queue pair holds all of its `each` messages.
    fn connection(&self, each: usize) -> Connection {
        let wrs = each.next_power_of_two() as u32;
        Connection {
            mtu: self.mtu,
            signal_all: true,
            send_wr: wrs,
            recv_wr: if self.verb == SendOpcode::Send { wrs } else { 1 },
            rd_atomic: if self.is_answered() { 16 } else { 0 },
            access: AccessFlags::REMOTE,
            ..Connection::default()
        }
    }
}

/// What a load came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Cycles a packet, steady.
    pub cycles_per_packet: f64,
    /// Cycles a message, steady.
    pub cycles_per_message: f64,
    /// Bytes a message on the wire, all of Ethernet's included.
    pub wire_bytes_per_message: f64,
    /// Payload, in Gb/s at the clock of the card.
    pub gbps: f64,
    /// What the wire can carry of that payload, in Gb/s.
    pub limit_gbps: f64,
}

/// The way of one message, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// From the doorbell to the first beat on the wire.
    pub wire: u64,
    /// From the doorbell to the last byte in the peer's memory.
    pub memory: u64,
    /// From the host's first store into the card to the first beat on the wire.
    pub posted: u64,
}

/// The way of one READ, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLatency {
    /// From the doorbell to the request's first beat on the wire.
    pub wire: u64,
    /// From the doorbell to the completion.
    pub completion: u64,
}

/// The Ethernet rate that a datapath is for, in Gb/s: the largest that it can fill.
pub fn line_gbps(beat_bytes: u32, clock_khz: u32) -> f64 {
    let datapath = datapath_gbps(beat_bytes, clock_khz);
    [400.0, 200.0, 100.0, 50.0, 40.0, 25.0, 10.0, 1.0]
        .into_iter()
        .find(|rate| *rate <= datapath)
        .unwrap_or(datapath)
}

/// Beat and clock of the pair's cards.
pub(crate) fn shape(pair: &Pair) -> (u32, u32) {
    let world = pair.world.lock();
    (world.card(0).beat_bytes() as u32, world.clock_khz())
}

/// Sends a load from card 0 to card 1, checks what arrived, and measures the steady state.
///
/// # Errors
/// A card fails or stops, a message fails, or the bytes are not those that were sent.
pub fn rate(pair: &Pair, load: &Load) -> Result<Rate> {
    let Load { verb, bytes: size, mtu, qps, messages, shared } = *load;
    let sends = verb == SendOpcode::Send;
    let answered = load.is_answered();
    ensure!(sends || answered || verb == SendOpcode::Write, "a load of {verb} is not known here");
    ensure!(verb != SendOpcode::FetchAdd || size == 8, "an atomic has 8 bytes");
    let each = messages / qps;
    ensure!(size > 0 && each > 0, "a load needs messages with bytes");
    let connection = load.connection(each);
    let mut connected: Vec<(QueuePair, QueuePair)> = Vec::new();
    let mut attr = SrqInitAttr::default();
    attr.max_wr = (each * qps) as u32;
    let mut srq = (sends && shared).then(|| pair.b.pd.create_srq(&attr)).transpose()?;
    let mut connect = || -> Result<()> {
        connected.push(pair.connect_sharing(&connection, srq.as_ref())?);
        Ok(())
    };
    pair.prepare(|| (0..qps).try_for_each(|_| connect()))?;
    let source = pair.a.region(0, size, AccessFlags::LOCAL_WRITE)?;
    let target = pair.b.region(0, size, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE)?;
    let data: Vec<u8> = (0..size).map(|i| (i * 31 + i / 251 + size) as u8).collect();
    let (sender, taker) = if answered { (&target, &source) } else { (&source, &target) };
    sender.memory().write(0, &data);

    let (from, into) = ([source.sge(0, size as u32)], [target.sge(0, size as u32)]);
    let mut batches = Vec::new();
    for (qp, peer) in &mut connected {
        if sends {
            let mut batch = match &mut srq {
                Some(srq) => srq.start_post_recv(),
                None => peer.start_post_recv(),
            };
            for i in 0..each {
                batch.post(&RecvWr::new(i as u64, &into))?;
            }
            batch.ring()?;
        }
        let mut batch = qp.start_post_send();
        for i in 0..each {
            batch.post(&match verb {
                SendOpcode::Send => SendWr::send(i as u64, &from),
                SendOpcode::Read => SendWr::read(i as u64, &from, target.remote(0)),
                // Nothing is added, so that all find the same.
                SendOpcode::FetchAdd => SendWr::fetch_add(i as u64, &from, target.remote(0), 0),
                _ => SendWr::write(i as u64, &from, target.remote(0)),
            })?;
        }
        batches.push(batch);
    }
    let link = usize::from(answered);
    pair.world.lock().link_mut(link).mark(true);
    for batch in batches {
        batch.ring()?;
    }
    let packets = each * qps * size.div_ceil(mtu.bytes());
    let mut before = 0;
    loop {
        let mut world = pair.world.lock();
        world.run_until(STUCK, |world| world.link(link).marks().len() >= packets.min(before + 64));
        world.check()?;
        let now = world.link(link).marks().len();
        if now >= packets {
            break;
        }
        if now == before {
            drop(world);
            bail!(
                "only {now} of {packets} packets of {messages} messages of {size} bytes were sent: the card stands still{}",
                pair.diagnose()
            );
        }
        before = now;
    }
    let all = |node: &Node| {
        node.wait(&pair.world, each * qps, STUCK).map_err(|why| anyhow!("{why:#}{}", pair.diagnose()))
    };
    let mut done = all(&pair.a)?;
    if sends {
        done.extend(all(&pair.b)?);
    }
    if let Some(bad) = done.iter().find(|completion| !completion.is_success()) {
        bail!("message {} of queue pair {:#x}: {}{}", bad.wr_id(), bad.qpn(), bad.status(), pair.diagnose());
    }
    ensure!(bytes(taker.memory()) == data, "the bytes that arrived are not those that were sent");
    let marks = pair.world.lock().link(link).marks().to_vec();
    pair.world.lock().link_mut(link).mark(false);
    Ok(steady(&marks[..packets], packets / (each * qps), size, shape(pair)))
}

/// Sends messages of one packet from card 0 to nobody, over unreliable connections or as datagrams, and measures the steady state.
/// They complete without an answer, so what the peer makes of them does not count.
///
/// # Errors
/// A card fails or stops, or a message fails.
pub fn unanswered(pair: &Pair, service: Service, load: &Load) -> Result<Rate> {
    let Load { verb, bytes: size, mtu, qps, messages, .. } = *load;
    let (node, each) = (&pair.a, messages / qps);
    ensure!(size > 0 && size <= mtu.bytes() && each > 0, "a load needs messages of one packet");
    let way = AddressVector::new(node.mac(), node.ip(false), pair.b.mac(), pair.b.ip(false));
    let handle = node.pd.create_ah(&way)?;
    let source = node.region(0, size, AccessFlags::LOCAL_READ)?;
    let (from, nowhere) = ([source.sge(0, size as u32)], RemoteAddress { address: 0, rkey: 0 });
    let datagrams = service == Service::Ud;
    let mut connected = Vec::new();
    let mut connect = || -> Result<()> {
        let mut attr = match datagrams {
            true => QpInitAttr::ud(&node.cq, &node.cq),
            false => QpInitAttr::uc(&node.cq, &node.cq),
        };
        (attr.max_send_wr, attr.sq_sig_all) = (each.next_power_of_two() as u32, true);
        let init = InitAttributes::new()
            .access((!datagrams).then(AccessFlags::default))
            .pkey(0xffff)
            .qkey(datagrams.then_some(NOBODY));
        let rtr = match datagrams {
            true => RtrAttributes::default(),
            false => RtrAttributes::new().av(way).path_mtu(mtu).dest_qpn(NOBODY).rq_psn(Psn::new(0)),
        };
        let rts = RtsAttributes::new().sq_psn(Psn::new(0));
        let qp = node.pd.create_qp(&attr)?.init(init).map_err(|step| step.error)?;
        let qp = qp.rtr(rtr).map_err(|step| step.error)?;
        connected.push(qp.rts(rts).map_err(|step| step.error)?);
        Ok(())
    };
    pair.prepare(|| (0..qps).try_for_each(|_| connect()))?;
    let mut batches = Vec::new();
    for qp in &mut connected {
        let mut batch = qp.start_post_send();
        for i in 0..each {
            let wr = match verb {
                SendOpcode::Send => SendWr::send(i as u64, &from),
                SendOpcode::Write => SendWr::write(i as u64, &from, nowhere),
                _ => bail!("a load of {verb} is not known here"),
            };
            batch.post(&if datagrams { wr.to(&handle, NOBODY, NOBODY) } else { wr })?;
        }
        batches.push(batch);
    }
    pair.world.lock().link_mut(0).mark(true);
    for batch in batches {
        batch.ring()?;
    }
    let done =
        node.wait(&pair.world, each * qps, STUCK).map_err(|why| anyhow!("{why:#}{}", pair.diagnose()))?;
    if let Some(bad) = done.iter().find(|completion| !completion.is_success()) {
        bail!("message {} of queue pair {:#x}: {}{}", bad.wr_id(), bad.qpn(), bad.status(), pair.diagnose());
    }
    let mut world = pair.world.lock();
    world.run(1000);
    let marks = world.link(0).marks().to_vec();
    world.link_mut(0).mark(false);
    drop(world);
    ensure!(marks.len() == each * qps, "{} packets were sent of {} messages", marks.len(), each * qps);
    Ok(steady(&marks, 1, size, shape(pair)))
}

/// The steady state of a run of equal messages.
fn steady(marks: &[Mark], packets_per_message: usize, size: usize, (beat, clock_khz): (u32, u32)) -> Rate {
    // Whole messages, so that long and short packets count as often as they come.
    let messages = marks.len() / packets_per_message;
    let (n, m) = (messages / 4 * packets_per_message, (messages * 3 / 4) * packets_per_message);
    let (n, m) = if m > n { (n, m) } else { (0, marks.len() - 1) };
    let cycles = (marks[m].first - marks[n].first) as f64;
    let per_packet = cycles / (m - n) as f64;
    let on_wire: u64 = marks[n..m].iter().map(|mark| wire_bytes(mark.bytes)).sum();
    let wire_bytes_per_message = on_wire as f64 / (m - n) as f64 * packets_per_message as f64;
    let cycles_per_message = per_packet * packets_per_message as f64;
    let bits = size as f64 * 8.0;
    Rate {
        cycles_per_packet: per_packet,
        cycles_per_message,
        wire_bytes_per_message,
        gbps: bits * f64::from(clock_khz) / cycles_per_message / 1e6,
        limit_gbps: line_gbps(beat, clock_khz) * size as f64 / wire_bytes_per_message,
    }
}

/// Sends single messages of `size` bytes with idle cards, and takes the middle one's way.
///
/// # Errors
/// As [`rate`].
pub fn latency(pair: &Pair, size: usize, mtu: PathMtu) -> Result<Latency> {
    way(pair, size, &Connection { mtu, ..Connection::default() })
}

/// The same on queue pairs of some other kind: those that push their WQEs, as an example.
///
/// # Errors
/// As [`rate`].
pub fn way(pair: &Pair, size: usize, connection: &Connection) -> Result<Latency> {
    const TIMES: usize = 5;
    let (mut qp, _peer) = pair.connect(&Connection { signal_all: true, ..*connection })?;
    let source = pair.a.region(0, size, AccessFlags::LOCAL_READ)?;
    let target = pair.b.region(0, size, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE)?;
    let mut all = Vec::new();
    for time in 0..TIMES {
        source.memory().fill(0, size, time as u8 + 1);
        let mut batch = qp.start_post_send();
        batch.post(&SendWr::write(0, &[source.sge(0, size as u32)], target.remote(0)))?;
        {
            let mut world = pair.world.lock();
            world.run(200);
            let host = world.card_mut(1).host_mut();
            let last = target.memory().address() + size as u64 - 1;
            let Some(at) = host.bus_address(last) else { bail!("the target is not mapped") };
            host.watch(at);
            world.link_mut(0).mark(true);
        }
        let begun = pair.world.lock().cycle();
        batch.ring()?;
        {
            let mut world = pair.world.lock();
            let rung = world.card(0).csr_taken_at();
            world.run_until(STUCK, |world| world.card(1).host().seen().is_some());
            world.check()?;
            let Some(seen) = world.card(1).host().seen() else {
                drop(world);
                bail!("a message of {size} bytes did not reach the peer's memory{}", pair.diagnose())
            };
            let sent = world.link(0).marks().first().map_or(seen, |mark| mark.first);
            world.link_mut(0).mark(false);
            all.push(Latency { wire: sent - rung, memory: seen - rung, posted: sent - begun });
        }
        let done = pair.a.wait(&pair.world, 1, STUCK)?;
        ensure!(done[0].is_success(), "a message of {size} bytes: {}", done[0].status());
        ensure!(bytes(target.memory()) == vec![time as u8 + 1; size], "other bytes arrived than were sent");
    }
    all.sort_by_key(|latency| latency.memory);
    Ok(all[TIMES / 2])
}

/// READs `size` bytes with idle cards, one after the other, and takes the middle one's way.
///
/// # Errors
/// As [`rate`].
pub fn read_latency(pair: &Pair, size: usize, mtu: PathMtu) -> Result<ReadLatency> {
    const TIMES: usize = 5;
    let rights = AccessFlags::REMOTE;
    let connection =
        Connection { mtu, signal_all: true, rd_atomic: 1, access: rights, ..Connection::default() };
    let (mut qp, _peer) = pair.connect(&connection)?;
    let into = pair.a.region(0, size, AccessFlags::LOCAL_WRITE)?;
    let from = pair.b.region(0, size, AccessFlags::LOCAL_WRITE | rights)?;
    let mut all = Vec::new();
    for time in 0..TIMES {
        from.memory().fill(0, size, time as u8 + 1);
        let mut batch = qp.start_post_send();
        batch.post(&SendWr::read(0, &[into.sge(0, size as u32)], from.remote(0)))?;
        let written = {
            let mut world = pair.world.lock();
            world.run(200);
            world.link_mut(0).mark(true);
            world.card(0).host().stats().writes
        };
        batch.ring()?;
        {
            let mut world = pair.world.lock();
            let rung = world.card(0).csr_taken_at();
            // The bytes are one write, for they lie within a page, and the CQE another.
            let ends = |writes: u64| writes == written + 2;
            world.run_until(STUCK, |world| ends(world.card(0).host().stats().writes));
            world.check()?;
            if !ends(world.card(0).host().stats().writes) {
                drop(world);
                bail!("a READ of {size} bytes does not complete{}", pair.diagnose())
            }
            let completion = world.cycle() - rung;
            let sent = world.link(0).marks().first().map_or(completion, |mark| mark.first - rung);
            world.link_mut(0).mark(false);
            all.push(ReadLatency { wire: sent, completion });
        }
        let done = pair.a.wait(&pair.world, 1, STUCK)?;
        ensure!(done[0].is_success(), "a READ of {size} bytes: {}", done[0].status());
        ensure!(bytes(into.memory()) == vec![time as u8 + 1; size], "other bytes arrived than were read");
    }
    all.sort_by_key(|latency| latency.completion);
    Ok(all[TIMES / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_rate_is_the_largest_that_the_datapath_fills() {
        assert_eq!(line_gbps(64, 250_000), 100.0);
        assert_eq!(line_gbps(8, 62_500), 1.0);
        assert_eq!(line_gbps(8, 156_250), 10.0);
    }

    #[test]
    fn the_steady_state_leaves_out_start_and_end() {
        // 8 messages of two packets, a long and a short one; 5 and 3 cycles, but slow at both ends.
        let mut at = 0;
        let mut marks = Vec::new();
        for message in 0..8 {
            for (cycles, bytes) in [(5, 100), (3, 50)] {
                marks.push(Mark { first: at, last: at, bytes });
                at += if (2..6).contains(&message) { cycles } else { 1000 };
            }
        }
        let rate = steady(&marks, 2, 80, (8, 1_000_000));
        assert_eq!(rate.cycles_per_message, 8.0);
        assert_eq!(rate.cycles_per_packet, 4.0);
        assert_eq!(rate.wire_bytes_per_message, 124.0 + 84.0);
        assert_eq!(rate.gbps, 80.0);
        assert!((rate.limit_gbps - 50.0 * 80.0 / 208.0).abs() < 1e-9);
    }
}
