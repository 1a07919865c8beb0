// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lanes of UC and UD: nobody answers, and what the wire loses stays lost.
//!
//! One side sends, the other has a full receive queue of its own. The sender goes on only while receives are left for what it
//! has sent and the peer has not told of, or when for a long while nothing came: then that was lost. What must come of it:
//!
//! - sends end well, all of them, in their order;
//! - receives are completed in the order in which they were posted, each with the whole of a message that was sent: its bytes,
//!   length, immediate and mark; of a datagram, with its source and the IP header before it. Half a message completes nothing;
//! - on a wire that keeps the order, messages come in theirs; on one that repeats nothing, each comes once at most (a repeated
//!   ONLY of a connection is a message again, IBTA volume 1, 9.8.2);
//! - on a wire that does nothing, all of them come;
//! - where a WRITE with immediate has come, its bytes are in the target;
//! - between and behind receives nothing changes. In a receive that is not completed there may be anything of the messages that were
//!   dropped.

use std::collections::VecDeque;

use anyhow::{anyhow, bail, ensure, Context as _, Result};
use ferrowire::PathMtu;
use ferrowire_spec::queue::cqe::{CqeOpcode, WcStatus};
use ferrowire_spec::queue::send_wqe::SendOpcode;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::QpState;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use super::ends::{ip, Done, Path, Receive, Region, Request, Rights, Room, RECEIVE_PIECES};
use super::generate::region;
use super::program::Limits;
use super::run::{Play, USED};

/// Lanes of a program, at most.
pub const LANES: usize = 3;

/// Bytes before the payload of a datagram.
const GRH: usize = 40;

/// Steps without anything new after which what has been sent is lost, on a wire that holds nothing back.
const LOST: u64 = 400;

/// Cycles of a step, as a rule.
const STEP: u64 = 80;

/// Of the seeds of these lanes: so the others are what they were.
const SALT: u64 = 0x51_5749_4554;

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// SEND, with immediate or without, or a WRITE with immediate.
    pub verb: SendOpcode,
    /// Its place in source and target.
    pub at: usize,
    /// Bytes. A SEND without immediate has at least four, which are its number.
    pub len: usize,
    /// The bytes stand in the request.
    pub inline: bool,
    /// Solicited event bit.
    pub solicited: bool,
}

/// A queue pair at each end.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Its number in the program, also when it runs alone.
    pub number: usize,
    /// Who sends.
    pub side: usize,
    /// Path MTU.
    pub mtu: PathMtu,
    /// Service, and what the queues have room for.
    pub room: Room,
    /// First PSN of each side.
    pub psns: [u32; 2],
    /// In order.
    pub messages: Vec<Message>,
    /// Bytes of a receive.
    pub slot: usize,
    /// What it is sent from.
    pub source: Region,
    /// Where WRITEs go.
    pub target: Region,
    /// Receives, with a byte between any two.
    pub inbox: Region,
    /// Of what the messages hold, and of when things happen.
    pub seed: u64,
}

impl Lane {
    /// The bytes of a message.
    fn data(&self, number: usize) -> Vec<u8> {
        let mut data = vec![0; self.messages[number].len];
        SmallRng::seed_from_u64(self.seed.wrapping_add(number as u64)).fill_bytes(&mut data);
        if let Some(head) = data.first_chunk_mut() {
            *head = (number as u32).to_le_bytes();
        }
        data
    }

    /// Bytes in a receive before the message.
    fn front(&self) -> usize {
        if self.room.service == Service::Ud {
            GRH
        } else {
            0
        }
    }
}

/// The lanes of a program's seed; those of RC are before them.
pub(super) fn lanes(seed: u64, limits: &Limits, before: usize) -> Vec<Lane> {
    let mut rng = SmallRng::seed_from_u64(seed ^ SALT);
    let count = rng.random_range(0..=limits.quiet);
    (0..count).map(|i| lane(&mut SmallRng::seed_from_u64(rng.random()), limits, before + i)).collect()
}

fn lane(rng: &mut SmallRng, limits: &Limits, number: usize) -> Lane {
    let (limits, push) = &limits.for_lane(rng);
    let service = [Service::Uc, Service::Ud][rng.random_range(0..2)];
    let mtu = PathMtu::ALL[rng.random_range(0..PathMtu::ALL.len())];
    let most = if service == Service::Ud { 4096 } else { (3 * mtu.bytes()).min(5000) };
    let (mut messages, mut at, mut longest) = (Vec::new(), 0, 0);
    for _ in 0..rng.random_range(1..=24) {
        let verb = match rng.random_range(0..3) {
            0 => SendOpcode::Send,
            1 if service == Service::Uc => SendOpcode::WriteImm,
            _ => SendOpcode::SendImm,
        };
        let len: usize = match rng.random_range(0..10) {
            0 => 0,
            1..=4 => rng.random_range(1..=64),
            5 => most,
            6 => mtu.bytes() + rng.random_range(0..=1),
            _ => rng.random_range(1..=1200),
        };
        let len = len.clamp(if verb == SendOpcode::Send { 4 } else { 0 }, most);
        let inline = len <= limits.inline && rng.random_bool(0.3);
        messages.push(Message { verb, at, len, inline, solicited: rng.random_bool(0.1) });
        (at, longest) = (at + len + rng.random_range(0..8), longest.max(len));
    }
    let room = Room {
        service,
        sends: [2, 4, 8][rng.random_range(0..3)],
        send_pieces: limits.pieces as u8,
        inline: limits.inline as u16,
        receives: [4, 8][rng.random_range(0..2)],
        receive_pieces: [1, 4, 4, RECEIVE_PIECES as u8][rng.random_range(0..4)],
        shared: false,
        push: *push,
    };
    let slot = longest + if service == Service::Ud { GRH } else { 0 } + rng.random_range(0..40);
    Lane {
        number,
        side: rng.random_range(0..2),
        mtu,
        room,
        psns: [(); 2].map(|()| match rng.random_bool(0.4) {
            true => 0xff_ffff - rng.random_range(0..40),
            false => rng.random_range(0..1 << 24),
        }),
        messages,
        slot,
        source: region(rng, at + 1, Rights::Closed, None),
        target: region(rng, at + 1, Rights::Write, None),
        inbox: region(rng, room.receives as usize * (slot + 1), Rights::Local, None),
        seed: rng.random(),
    }
}

/// A lane under way.
pub(super) struct Run<'a> {
    pub(super) lane: &'a Lane,
    /// Its place among the queue pairs of the ends.
    qp: usize,
    pub(super) qpns: [u32; 2],
    /// Places of source, target and inbox among the areas.
    areas: [usize; 3],
    /// Requests posted, and not ended; and messages posted.
    open: VecDeque<u64>,
    posted: usize,
    /// Receives posted, with their slots, and slots that are free.
    receives: VecDeque<(u64, usize)>,
    free: Vec<usize>,
    /// Messages that have come, and the newest.
    came: Vec<bool>,
    count: usize,
    newest: Option<usize>,
    /// Messages that were posted, and that came, when what was under way was taken for lost.
    since: (usize, usize),
    /// The step of the last thing that happened.
    news: u64,
    rng: SmallRng,
    over: bool,
}

impl<'a> Run<'a> {
    pub(super) fn new(lane: &'a Lane, qp: usize, qpns: [u32; 2], areas: [usize; 3]) -> Self {
        Self {
            lane,
            qp,
            qpns,
            areas,
            open: VecDeque::new(),
            posted: 0,
            receives: VecDeque::new(),
            free: (0..lane.room.receives as usize).collect(),
            came: vec![false; lane.messages.len()],
            count: 0,
            newest: None,
            since: (0, 0),
            news: 0,
            rng: SmallRng::seed_from_u64(lane.seed),
            over: false,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn waits(&self) -> String {
        let Self { lane, posted, open, count, .. } = self;
        format!("lane {} has posted {posted}, {} are under way, {count} came", lane.number, open.len())
    }
}

impl Play<'_> {
    pub(super) fn connect_quiet(&mut self, at: usize) -> Result<()> {
        let Run { lane, qp, qpns, .. } = self.quiet[at];
        let receives = self.receives_quiet(at);
        for side in 0..2 {
            let path = Path {
                ipv6: self.program.ipv6,
                mtu: lane.mtu,
                peer: qpns[1 - side],
                sq_psn: lane.psns[side],
                rq_psn: lane.psns[1 - side],
                timeout: 0,
                retry_cnt: 0,
                rnr_retry: 0,
                min_rnr_timer: 0,
                rd_atomic: 0,
                selective: false,
            };
            let none = Vec::new();
            let receives = if side == lane.side { &none } else { &receives };
            let what = || format!("connecting lane {}", lane.number);
            self.ends[side].connect(qp, &path, receives).with_context(what)?;
        }
        Ok(())
    }

    /// Receives for all slots that are free.
    fn receives_quiet(&mut self, at: usize) -> Vec<Receive> {
        let run = &mut self.quiet[at];
        let area = &self.areas[run.areas[2]];
        let mut all = Vec::new();
        for slot in run.free.drain(..) {
            let id = self.next_id;
            self.next_id += 1;
            run.receives.push_back((id, slot));
            let (address, len) = (area.region.address + (slot * (run.lane.slot + 1)) as u64, run.lane.slot);
            let pieces = run.rng.random_range(1..=run.lane.room.receive_pieces.into());
            let each = len.div_ceil(pieces);
            let cut = |i: usize| len.min(i * each);
            let local = (0..pieces)
                .map(|i| (address.wrapping_add(cut(i) as u64), area.key, (cut(i + 1) - cut(i)) as u32))
                .collect();
            all.push(Receive { id, local });
        }
        all
    }

    pub(super) fn advance_quiet(&mut self, at: usize) -> Result<bool> {
        let steps = self.steps;
        let run = &mut self.quiet[at];
        if run.over {
            return Ok(false);
        }
        let (lane, qp, far) = (run.lane, run.qp, 1 - run.lane.side);
        if !run.open.is_empty() {
            run.news = steps;
        }
        if steps - run.news > LOST + 2 * self.program.faults[lane.side].hold / STEP {
            run.since = (run.posted, run.count);
            run.news = steps;
            run.over = run.posted == lane.messages.len();
            return Ok(false);
        }
        let mut moved = false;
        let receives = self.receives_quiet(at);
        if !receives.is_empty() {
            self.ends[far].post_receives(qp, &receives)?;
            moved = true;
        }
        // No more than there are receives for.
        let run = &mut self.quiet[at];
        let under_way = (run.posted - run.since.0).saturating_sub(run.count - run.since.1);
        let room = (lane.room.receives as usize / 2).saturating_sub(under_way);
        let most = room.min(self.ends[lane.side].free(qp)).min(lane.messages.len() - run.posted);
        if most > 0 && run.rng.random_bool(0.5) {
            let requests: Vec<Request> =
                (0..run.rng.random_range(1..=most)).map(|_| self.request_quiet(at)).collect();
            self.ends[lane.side].post(qp, &requests)?;
            moved = true;
        }
        if moved {
            self.quiet[at].news = steps;
        }
        Ok(moved)
    }

    fn request_quiet(&mut self, at: usize) -> Request {
        let run = &mut self.quiet[at];
        let (lane, number, id) = (run.lane, run.posted, self.next_id);
        let message = &lane.messages[number];
        (run.posted, self.next_id) = (number + 1, id + 1);
        run.open.push_back(id);
        let data = lane.data(number);
        let (source, target) = (&self.areas[run.areas[0]], &self.areas[run.areas[1]]);
        let place = |address: u64| address.wrapping_add(message.at as u64);
        let request = Request {
            id,
            opcode: message.verb,
            local: match message.inline {
                true => Vec::new(),
                false => vec![(place(source.region.address), source.key, message.len as u32)],
            },
            inline: message.inline.then(|| data.clone()),
            remote: (place(target.region.address), target.key),
            imm: number as u32,
            operands: (0, 0),
            signaled: true,
            solicited: message.solicited,
            fence: false,
            key: 0,
            bind: None,
        };
        let area = run.areas[0];
        self.put(area, message.at, &data);
        request
    }

    /// The program writes to a region of its own.
    pub(super) fn put(&mut self, area: usize, at: usize, bytes: &[u8]) {
        let area = &mut self.areas[area];
        let at = area.region.front() + at;
        area.bytes.set(at, bytes);
        self.ends[area.side].write(area.index, at, bytes);
    }

    pub(super) fn completed_quiet(&mut self, at: usize, side: usize, done: &Done) -> Result<()> {
        let run = &mut self.quiet[at];
        run.news = self.steps;
        ensure!(done.status == Some(WcStatus::Success), "nothing is wrong with it");
        ensure!(done.receive == (side != run.lane.side), "of the other queue");
        if done.receive {
            return self.received_quiet(at, done);
        }
        let number = run.posted - run.open.len();
        let id = run.open.pop_front().ok_or_else(|| anyhow!("nothing is under way"))?;
        ensure!(id == done.id, "request {id} is before it");
        let message = &run.lane.messages[number];
        let opcode = match message.verb {
            SendOpcode::Send => CqeOpcode::Send,
            SendOpcode::SendImm => CqeOpcode::SendImm,
            _ => CqeOpcode::WriteImm,
        };
        ensure!(done.opcode == Some(opcode), "it was {opcode}");
        // The memory is the program's again: who still reads it sends something else.
        let (area, place) = (run.areas[0], message.at);
        let used = vec![USED; message.len];
        self.put(area, place, &used);
        Ok(())
    }

    /// A message has come.
    fn received_quiet(&mut self, at: usize, done: &Done) -> Result<()> {
        let run = &mut self.quiet[at];
        let lane = run.lane;
        let (id, slot) = run.receives.pop_front().ok_or_else(|| anyhow!("nothing was posted"))?;
        ensure!(id == done.id, "receive {id} is before it");
        let [_, target, inbox] = run.areas;
        let start = self.areas[inbox].region.front() + slot * (lane.slot + 1);
        let got = self.ends[1 - lane.side].read(self.areas[inbox].index)[start..start + lane.slot].to_vec();
        let front = lane.front();
        // Which one is it?
        let number = match (done.imm, got.get(front..front + 4)) {
            (Some(imm), _) => imm as usize,
            (None, Some(head)) => u32::from_le_bytes(head.try_into()?) as usize,
            (None, None) => bail!("it is none that was sent"),
        };
        ensure!(number < run.posted, "message {number} has not been sent");
        let message = &lane.messages[number];
        let (opcode, placed) = match message.verb {
            SendOpcode::Send => (CqeOpcode::Recv, true),
            SendOpcode::SendImm => (CqeOpcode::RecvImm, true),
            _ => (CqeOpcode::RecvWriteImm, false),
        };
        let imm = (opcode != CqeOpcode::Recv).then_some(number as u32);
        ensure!((done.opcode, done.imm) == (Some(opcode), imm), "message {number} is another one");
        ensure!(done.bytes as usize == message.len + front, "message {number} has {} bytes", message.len);
        ensure!(done.solicited == message.solicited, "message {number}: the mark");
        let datagram = lane.room.service == Service::Ud;
        let source = datagram.then_some((run.qpns[lane.side], !self.program.ipv6));
        ensure!(done.source == source, "message {number} came from {source:x?}");
        let data = lane.data(number);
        if placed {
            ensure!(got[front..][..message.len] == data, "message {number} has other bytes");
        } else {
            let area = &mut self.areas[target];
            let place = area.region.front() + message.at;
            let written = &self.ends[area.side].read(area.index)[place..place + message.len];
            ensure!(written == data, "message {number} has written other bytes");
            area.bytes.set(place, &data);
        }
        if datagram {
            let addresses = [lane.side, 1 - lane.side].map(|side| ip(side, self.program.ipv6));
            ensure!(is_header(&got[..GRH], addresses), "message {number} has another header");
        }
        let faults = self.program.faults[lane.side];
        let run = &mut self.quiet[at];
        ensure!(!faults.keeps_order() || run.newest.is_none_or(|newest| newest < number), "{number} is late");
        ensure!(faults.repeats() || !run.came[number], "message {number} has come before");
        (run.newest, run.count) = (Some(number), run.count + 1);
        run.came[number] = true;
        run.free.push(slot);
        // The buffer is the program's again.
        let slot_bytes = vec![USED; lane.slot];
        self.put(inbox, slot * (lane.slot + 1), &slot_bytes);
        self.count(format!("{}: a message came", lane.room.service));
        Ok(())
    }

    /// Everything has been sent, and the wire is quiet.
    pub(super) fn finish_quiet(&mut self, at: usize) -> Result<()> {
        let Run { lane, qp, areas: [_, target, inbox], ref came, .. } = self.quiet[at];
        let faults = self.program.faults[lane.side];
        // A card whose buffer is full drops what finds no room.
        let overrun = self.ends[1 - lane.side].diagnose().contains("drop_overrun");
        if let Some(missing) =
            came.iter().position(|came| !came).filter(|_| faults.does_nothing() && !overrun)
        {
            bail!("message {missing} has not come, though the wire loses nothing");
        }
        for side in 0..2 {
            let state = self.ends[side].state(qp)?;
            ensure!(state == Some(QpState::Rts), "the queue pair of side {side} is in {state:?}");
        }
        // Whatever is in receives that are posted is of messages that were dropped.
        let area = &mut self.areas[inbox];
        let got = self.ends[area.side].read(area.index);
        let mut want = area.bytes.want().to_vec();
        for slot in 0..lane.room.receives as usize {
            let start = area.region.front() + slot * (lane.slot + 1);
            want[start..start + lane.slot].copy_from_slice(&got[start..start + lane.slot]);
        }
        area.bytes.pin(want, true);
        // And of WRITEs that were dropped there may be a part.
        for (number, message) in lane.messages.iter().enumerate() {
            let area = &mut self.areas[target];
            area.bytes.maybe(area.region.front() + message.at, &lane.data(number));
        }
        Ok(())
    }
}

/// Whether the 40 bytes before a datagram are an IP header from and to these addresses; that of IPv4 stands behind 20 zeros.
fn is_header(bytes: &[u8], addresses: [std::net::IpAddr; 2]) -> bool {
    let octets = |at: usize| match addresses[at] {
        std::net::IpAddr::V4(ip) => ip.octets().to_vec(),
        std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (from, to) = (octets(0), octets(1));
    let ends = [from, to].concat();
    match addresses[0].is_ipv4() {
        true => bytes[..20] == [0; 20] && bytes[20] == 0x45 && bytes[32..] == ends,
        false => bytes[0] >> 4 == 6 && bytes[8..] == ends,
    }
}
