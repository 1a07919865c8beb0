// SPDX-License-Identifier: MIT OR Apache-2.0
//! The longest paths in nanoseconds.
//!
//! Paths are followed from each clock apart, and from what no cell drives: ports. An endpoint has the longest path of its own clock
//! and of the ports. What comes from another clock is a crossing, which has no time to keep here.

use anyhow::Result;

use super::delays::Delays;
use super::netlist::{Arc, End, Net, Netlist};
use crate::synth::order::order;

/// When a path from one clock, or from the ports, comes to each net.
struct Front {
    /// Minus infinity where none comes.
    ns: Vec<f64>,
    /// The arc of the longest, [`NONE`] where it begins.
    before: Vec<u32>,
}

const NONE: u32 = u32::MAX;

/// The paths of a netlist.
pub struct Walk<'n, 'a> {
    pub netlist: &'n Netlist<'a>,
    pub delays: Delays,
    /// The fronts of `clocks`, and that of the ports at the end.
    fronts: Vec<Front>,
    clocks: Vec<Option<Net>>,
}

/// The longest path to an endpoint.
#[derive(Clone, Copy)]
pub struct Longest {
    /// With set-up and uncertainty.
    pub ns: f64,
    pub point: u32,
    /// The end by its number.
    pub end: u32,
    front: usize,
}

/// Paths from one clock into another.
pub struct Crossing {
    pub from: Option<Net>,
    pub to: Option<Net>,
    /// The endpoints, each with the longest path to it.
    pub ends: Vec<(u32, f64)>,
}

/// A net on a path.
pub struct Step<'n> {
    pub net: Net,
    /// When the path is there.
    pub ns: f64,
    /// How it came there; none where it begins.
    pub by: Option<&'n Arc>,
}

impl<'n, 'a> Walk<'n, 'a> {
    /// # Errors
    /// A loop.
    pub fn new(netlist: &'n Netlist<'a>, delays: Delays) -> Result<Walk<'n, 'a>> {
        let nets: Vec<(u32, u32)> = netlist.arcs.iter().map(|arc| (arc.from, arc.to)).collect();
        let order = order(&netlist.nets, &nets)?;
        let mut clocks: Vec<Option<Net>> = netlist.starts.iter().map(|start| start.clock).collect();
        clocks.sort_unstable();
        clocks.dedup();
        let mut driven = vec![false; netlist.nets.len()];
        netlist.starts.iter().for_each(|start| driven[start.net as usize] = true);
        netlist.arcs.iter().for_each(|arc| driven[arc.to as usize] = true);
        let mut walk = Walk { netlist, delays, fronts: Vec::new(), clocks };
        for index in 0..=walk.clocks.len() {
            let mut ns = vec![f64::NEG_INFINITY; netlist.nets.len()];
            match walk.clocks.get(index) {
                Some(clock) => {
                    let own = netlist.starts.iter().filter(|start| start.clock == *clock);
                    own.for_each(|start| ns[start.net as usize] = start.ns);
                }
                None => {
                    ns.iter_mut().zip(&driven).filter(|(_, driven)| !**driven).for_each(|(ns, _)| *ns = 0.0)
                }
            }
            let front = walk.front(ns, &order);
            walk.fronts.push(front);
        }
        Ok(walk)
    }

    fn front(&self, mut ns: Vec<f64>, order: &[u32]) -> Front {
        let mut before = vec![NONE; ns.len()];
        for index in order {
            let arc = &self.netlist.arcs[*index as usize];
            let there = ns[arc.from as usize] + self.way(arc) + arc.ns;
            if there > ns[arc.to as usize] {
                ns[arc.to as usize] = there;
                before[arc.to as usize] = *index;
            }
        }
        Front { ns, before }
    }

    /// Of the net in front of a cell.
    fn way(&self, arc: &Arc) -> f64 {
        if arc.local {
            self.delays.net_local
        } else {
            self.net(arc.from)
        }
    }

    fn net(&self, net: Net) -> f64 {
        self.delays.net(self.netlist.loads[net as usize])
    }

    /// When a path comes to an end, with set-up and uncertainty. Minus infinity where none comes.
    fn at(&self, front: &Front, end: &End) -> f64 {
        front.ns[end.net as usize] + self.net(end.net) + end.setup + self.delays.uncertainty
    }

    /// The endpoints that a path of their own clock or of a port comes to, each with the longest one.
    pub fn endpoints(&self) -> Vec<Longest> {
        let ports = self.fronts.len() - 1;
        let mut longest: Vec<Option<Longest>> = vec![None; self.netlist.points.len()];
        for (number, end) in self.netlist.ends.iter().enumerate() {
            let clock = self.netlist.points[end.point as usize].clock;
            let own = self.clocks.iter().position(|known| *known == clock);
            for front in own.into_iter().chain([ports]) {
                let ns = self.at(&self.fronts[front], end);
                let known = &mut longest[end.point as usize];
                if ns.is_finite() && known.is_none_or(|known| ns > known.ns) {
                    *known = Some(Longest { ns, point: end.point, end: number as u32, front });
                }
            }
        }
        longest.into_iter().flatten().collect()
    }

    /// What comes from another clock, by pairs of clocks.
    pub fn crossings(&self) -> Vec<Crossing> {
        let mut crossings = Vec::new();
        for (front, from) in self.fronts.iter().zip(&self.clocks) {
            let mut worst = vec![f64::NEG_INFINITY; self.netlist.points.len()];
            for end in &self.netlist.ends {
                let worst = &mut worst[end.point as usize];
                *worst = worst.max(self.at(front, end));
            }
            for to in self.clocks.iter().filter(|to| *to != from) {
                let points = self.netlist.points.iter().zip(&worst).enumerate();
                let reached = points.filter(|(_, (point, ns))| point.clock == *to && ns.is_finite());
                let ends: Vec<(u32, f64)> = reached.map(|(number, (_, ns))| (number as u32, *ns)).collect();
                if !ends.is_empty() {
                    crossings.push(Crossing { from: *from, to: *to, ends });
                }
            }
        }
        crossings
    }

    /// The longest path to an output port, without what is outside.
    pub fn to_ports(&self) -> Option<f64> {
        let there = |net: &Net| {
            self.fronts.iter().map(|front| front.ns[*net as usize]).fold(f64::NEG_INFINITY, f64::max)
        };
        self.netlist.outputs.iter().map(there).filter(|ns| ns.is_finite()).reduce(f64::max)
    }

    /// The nets of a path from its beginning.
    pub fn path(&self, longest: &Longest) -> Vec<Step<'n>> {
        let front = &self.fronts[longest.front];
        let mut steps = Vec::new();
        let mut net = self.netlist.ends[longest.end as usize].net;
        loop {
            let by = self.netlist.arcs.get(front.before[net as usize] as usize);
            steps.push(Step { net, ns: front.ns[net as usize], by });
            match by {
                Some(arc) => net = arc.from,
                None => break,
            }
        }
        steps.reverse();
        steps
    }

    /// Where a path begins.
    pub fn begin(&self, longest: &Longest) -> Net {
        let front = &self.fronts[longest.front];
        let mut net = self.netlist.ends[longest.end as usize].net;
        while let Some(arc) = self.netlist.arcs.get(front.before[net as usize] as usize) {
            net = arc.from;
        }
        net
    }
}
