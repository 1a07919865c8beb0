// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates at the end of the way: how fast payload comes to host memory.
//!
//! Of what was placed, the cycles between a quarter and three quarters of the bytes count. So frames of the other direction on the
//! same wire do not matter, and a receiver that is too slow for its sender is measured by what it takes.

use std::collections::HashSet;

use anyhow::{anyhow, bail, ensure, Result};
use ferrowire::{
    AccessFlags, AddressVector, DropReason, InitAttributes, MemoryRegion, Psn, QpInitAttr, QueuePair, RecvWr,
    RtrAttributes, RtsAttributes, SendOpcode, SendWr, Service,
};

use super::{Load, STUCK};
use crate::host::AccessKind;
use crate::pair::{bytes, Node, Pair};

/// What a receiver took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    /// Cycles a packet, steady.
    pub cycles_per_packet: f64,
    /// Packets whose payload came to host memory.
    pub packets: f64,
}

/// The bytes that a card placed in a region: the rate, in packets of `size` bytes. What was kept of its accesses is forgotten.
fn placed(pair: &Pair, card: usize, region: &MemoryRegion, size: usize) -> Result<Placed> {
    let (start, length) = (region.memory().address(), region.memory().len() as u64);
    let mut world = pair.world.lock();
    let host = world.card_mut(card).host_mut();
    let pages: HashSet<u64> = (start >> 12..=(start + length - 1) >> 12)
        .filter_map(|page| host.bus_address((page << 12).max(start)))
        .map(|address| address >> 12)
        .collect();
    let accesses = host.take_accesses();
    host.keep_accesses(false);
    drop(world);
    let mut total = 0;
    let mut marks = Vec::new();
    for access in accesses {
        if let AccessKind::Write(data) = &access.kind {
            if pages.contains(&(access.address >> 12)) {
                total += data.len();
                marks.push((access.cycle, total));
            }
        }
    }
    let at = |bytes: usize| marks.iter().find(|mark| mark.1 >= bytes).copied();
    let (Some(from), Some(to)) = (at(total / 4), at(total / 4 * 3)) else {
        bail!("nothing was placed by card {card}{}", pair.diagnose())
    };
    ensure!(to.1 > from.1, "too little was placed by card {card}: {total} bytes");
    let packets = (to.1 - from.1) as f64 / size as f64;
    Ok(Placed { cycles_per_packet: (to.0 - from.0) as f64 / packets, packets: total as f64 / size as f64 })
}

/// One direction of a load.
struct Way<'a> {
    node: &'a Node,
    peer: &'a Node,
    /// The sender's memory and its peer's.
    own: MemoryRegion,
    far: MemoryRegion,
    data: Vec<u8>,
}

/// Cycles after which so many bytes should have come, at any width.
fn patience(bytes: usize) -> u64 {
    4 * STUCK + bytes as u64 / 4
}

/// The same load in both directions at once, with all frames arriving: cycles a packet of the slower one.
///
/// # Errors
/// As [`super::rate`].
pub fn both_ways(pair: &Pair, load: &Load) -> Result<f64> {
    let Load { verb, bytes: size, mtu, qps, messages, .. } = *load;
    let sends = verb == SendOpcode::Send;
    let reads = verb == SendOpcode::Read;
    ensure!(sends || reads || verb == SendOpcode::Write, "a load of {verb} both ways is not known here");
    let each = messages / qps;
    ensure!(size > 0 && each > 0, "a load needs messages with bytes");
    let connection = load.connection(each);
    let mut ends: [Vec<QueuePair>; 2] = [Vec::new(), Vec::new()];
    let mut connect = || -> Result<()> {
        let (a, b) = pair.connect(&connection)?;
        ends[0].push(a);
        ends[1].push(b);
        Ok(())
    };
    pair.prepare(|| (0..qps).try_for_each(|_| connect()))?;
    let mut ways = Vec::new();
    let mut batches = Vec::new();
    let nodes = [&pair.a, &pair.b];
    for (node, peer) in [(nodes[0], nodes[1]), (nodes[1], nodes[0])] {
        let own = node.region(0, size, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE)?;
        let far = peer.region(0, size, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE)?;
        let data: Vec<u8> = (0..size).map(|i| (i * 31 + i / 251 + size + node.card) as u8).collect();
        let from = if reads { &far } else { &own };
        from.memory().write(0, &data);
        if sends {
            for qp in &mut ends[peer.card] {
                let mut batch = qp.start_post_recv();
                for i in 0..each {
                    batch.post(&RecvWr::new(i as u64, &[far.sge(0, size as u32)]))?;
                }
                batch.ring()?;
            }
        }
        ways.push(Way { node, peer, own, far, data });
    }
    for (qps, way) in ends.iter_mut().zip(&ways) {
        let (sge, remote) = ([way.own.sge(0, size as u32)], way.far.remote(0));
        for qp in qps {
            let mut batch = qp.start_post_send();
            for i in 0..each {
                batch.post(&match verb {
                    SendOpcode::Send => SendWr::send(i as u64, &sge),
                    SendOpcode::Read => SendWr::read(i as u64, &sge, remote),
                    _ => SendWr::write(i as u64, &sge, remote),
                })?;
            }
            batches.push(batch);
        }
    }
    for card in [0, 1] {
        pair.world.lock().card_mut(card).host_mut().keep_accesses(true);
    }
    // The two cards' doorbells take turns.
    let mut second = batches.split_off(batches.len() / 2);
    for (a, b) in batches.into_iter().zip(second.drain(..)) {
        a.ring()?;
        b.ring()?;
    }
    for way in &ways {
        let count = each * qps * if sends { 2 } else { 1 };
        let done = way.node.wait(&pair.world, count, patience(each * qps * size));
        let done = done.map_err(|why| anyhow!("{why:#}{}", pair.diagnose()))?;
        if let Some(bad) = done.iter().find(|completion| !completion.is_success()) {
            bail!(
                "message {} of queue pair {:#x}: {}{}",
                bad.wr_id(),
                bad.qpn(),
                bad.status(),
                pair.diagnose()
            );
        }
    }
    let mut slower: f64 = 0.0;
    for way in &ways {
        let (target, taker) = if reads { (&way.own, way.node) } else { (&way.far, way.peer) };
        ensure!(bytes(target.memory()) == way.data, "the bytes that arrived are not those that were sent");
        let placed = placed(pair, taker.card, target, size.min(mtu.bytes()))?;
        let packets = each * qps * size.div_ceil(mtu.bytes());
        let again = placed.packets - packets as f64;
        ensure!(again < 0.5, "{again} packets were sent again{}", pair.diagnose());
        slower = slower.max(placed.cycles_per_packet);
    }
    // A SEND that was lost is placed once, when it comes again.
    for node in nodes {
        let lost = node.context.drop_counter(DropReason::Overrun)?;
        ensure!(lost == 0, "card {} had no room for {lost} frames{}", node.card, pair.diagnose());
    }
    Ok(slower)
}

/// Messages of UC or UD from card 0 to card 1 as fast as they leave: what of them is taken, and how fast. Which do not arrive is nobody's
/// fault: the receiver drops what it has no room for.
///
/// # Errors
/// A card fails or stops, or a message fails.
pub fn unreliable(pair: &Pair, service: Service, load: &Load) -> Result<Placed> {
    let Load { verb, bytes: size, mtu, qps, messages, .. } = *load;
    const QKEY: u32 = 0x1234;
    let (each, sends, datagrams) = (messages / qps, verb == SendOpcode::Send, service == Service::Ud);
    ensure!(size > 0 && each > 0, "a load needs messages with bytes");
    ensure!(sends || verb == SendOpcode::Write, "a load of {verb} is not known here");
    let way = |from: &Node, to: &Node| AddressVector::new(from.mac(), from.ip(false), to.mac(), to.ip(false));
    let make = |node: &Node| {
        let mut attr = match datagrams {
            true => QpInitAttr::ud(&node.cq, &node.cq),
            false => QpInitAttr::uc(&node.cq, &node.cq),
        };
        let count = each.next_power_of_two() as u32;
        (attr.max_send_wr, attr.max_recv_wr, attr.sq_sig_all) = (count, count, true);
        node.pd.create_qp(&attr)
    };
    let mut connected: Vec<(QueuePair, QueuePair)> = Vec::new();
    let mut connect = || -> Result<()> {
        let (a, b) = (make(&pair.a)?, make(&pair.b)?);
        let numbers = [a.number(), b.number()];
        let up = |qp: ferrowire::Qp<ferrowire::Reset>, from: &Node, to: &Node, peer: u32| -> Result<_> {
            let init = InitAttributes::new()
                .access((!datagrams).then_some(AccessFlags::REMOTE_WRITE))
                .pkey(0xffff)
                .qkey(datagrams.then_some(QKEY));
            let rtr = match datagrams {
                true => RtrAttributes::default(),
                false => {
                    RtrAttributes::new().av(way(from, to)).path_mtu(mtu).dest_qpn(peer).rq_psn(Psn::new(0))
                }
            };
            let rts = RtsAttributes::new().sq_psn(Psn::new(0));
            let qp = qp.init(init).map_err(|step| step.error)?.rtr(rtr).map_err(|step| step.error)?;
            Ok(qp.rts(rts).map_err(|step| step.error)?)
        };
        connected.push((up(a, &pair.a, &pair.b, numbers[1])?, up(b, &pair.b, &pair.a, numbers[0])?));
        Ok(())
    };
    pair.prepare(|| (0..qps).try_for_each(|_| connect()))?;
    // The IP header of a datagram is placed before it (IBTA A17.4.5.2).
    let grh = if datagrams { 40 } else { 0 };
    let source = pair.a.region(0, size, AccessFlags::LOCAL_READ)?;
    let target = pair.b.region(0, grh + size, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE)?;
    let handle = pair.a.pd.create_ah(&way(&pair.a, &pair.b))?;
    let mut batches = Vec::new();
    for (qp, peer) in &mut connected {
        if sends {
            let mut batch = peer.start_post_recv();
            for i in 0..each {
                batch.post(&RecvWr::new(i as u64, &[target.sge(0, (grh + size) as u32)]))?;
            }
            batch.ring()?;
        }
        let mut batch = qp.start_post_send();
        let from = [source.sge(0, size as u32)];
        for i in 0..each {
            let wr = match sends {
                true => SendWr::send(i as u64, &from),
                false => SendWr::write(i as u64, &from, target.remote(0)),
            };
            batch.post(&if datagrams { wr.to(&handle, peer.number(), QKEY) } else { wr })?;
        }
        batches.push(batch);
    }
    pair.world.lock().card_mut(1).host_mut().keep_accesses(true);
    for batch in batches {
        batch.ring()?;
    }
    let done = pair.a.wait(&pair.world, each * qps, patience(each * qps * size));
    let done = done.map_err(|why| anyhow!("{why:#}{}", pair.diagnose()))?;
    if let Some(bad) = done.iter().find(|completion| !completion.is_success()) {
        bail!("message {} of queue pair {:#x}: {}{}", bad.wr_id(), bad.qpn(), bad.status(), pair.diagnose());
    }
    pair.world.lock().run(5000);
    pair.world.lock().check()?;
    placed(pair, 1, &target, grh + size.min(mtu.bytes()))
}
