// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Pcie4Block`]: the user side of AMD's UltraScale+ PCIe4 integrated block at 512 bits, with a root complex behind it.
//!
//! ```text
//!           +-----------------------------------------------+
//!   RQ ---->| descriptor --> header ---> +--------------+   |
//!   RC <----| descriptor <-- header <--- |              |   |
//!           |  table of what was asked   | RootComplex  |   |
//!   CQ <----| descriptor <-- header <--- |              |   |
//!   CC ---->| descriptor --> header ---> +--------------+   |
//!           +-----------------------------------------------+
//! ```
//!
//! It is configured so: data follows descriptors at once, the card chooses its tags, packets may straddle on RC if that is asked
//! for and nowhere else, no parity, memory requests only, `pcie_cq_np_req` always 1. [`ferrowire_spec::pcie::pcie4`] has descriptors and
//! side signals, and says where the guide has them.
//!
//! Like the block, it keeps `tvalid` from the first beat of a packet to its last, and wants the same of the card. What the card does wrong is
//! a violation of the root complex behind it: there is one judge. A completion that is malformed is thrown away, as the block does; its read,
//! and one that is never answered, ends when its time is over, if there is such a time.

mod axis;
mod split;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use axis::AxisBeat;
use axis::{Gatherer, Packer, Packet};
use ferrowire_spec::pcie::pcie4::{
    cc, rq, CcDescriptor, CcUser, CqDescriptor, CqUser, RcUser, RequestType, RqDescriptor, RqUser,
};
use ferrowire_spec::pcie::{kind, Completion, CompletionStatus};
use split::Outstanding;

use super::request::Request;
use super::{RootComplex, RootSettings, CC, CQ, RC, RQ};

/// Double words that follow a completion with an error, with what the block logs of its request
/// (PG213, "Completions with Error Status (UR and CA)").
const ERROR_DWORDS: usize = 5;

/// How the block is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcie4Settings {
    /// Whether completions may begin on RC where another one ended in the same beat.
    pub straddle: bool,
    /// Cycles after which a read ends that has not been answered. `None`: it never does.
    pub completion_timeout: Option<u64>,
    /// Address bits of BAR 0.
    pub bar0_bits: u8,
}

impl Default for Pcie4Settings {
    fn default() -> Self {
        Self { straddle: false, completion_timeout: None, bar0_bits: 16 }
    }
}

/// The block, and the root complex that it is connected to.
pub struct Pcie4Block {
    /// Memory, interrupts, CPU, faults and violations. Its own four streams have nothing on them.
    pub root: RootComplex,
    settings: Pcie4Settings,
    rq: Gatherer<RqUser>,
    cc: Gatherer<CcUser>,
    rc: Packer,
    cq: Packer,
    outstanding: Outstanding,
    seq_nums: VecDeque<u8>,
    /// A read that waits for a credit, and holds up all behind it; how many there were.
    held: Option<(Vec<u8>, RqUser)>,
    held_reads: u64,
    /// Reads taken in this cycle and in the two before.
    lately: [u32; 3],
    /// The cycle that has begun.
    now: Option<u64>,
    malformed: u64,
}

impl Pcie4Block {
    /// A block whose link is up.
    ///
    /// # Panics
    /// As [`RootComplex::new`].
    pub fn new(settings: Pcie4Settings, root: RootSettings) -> Self {
        Self {
            root: RootComplex::new(64, root),
            settings,
            rq: Gatherer::new(),
            cc: Gatherer::new(),
            rc: Packer::new(settings.straddle),
            cq: Packer::new(false),
            outstanding: Outstanding::new(settings.completion_timeout),
            seq_nums: VecDeque::new(),
            held: None,
            held_reads: 0,
            lately: [0; 3],
            now: None,
            malformed: 0,
        }
    }

    /// Whether nothing is under way.
    pub fn idle(&self) -> bool {
        let streams =
            !self.rq.open() && self.held.is_none() && !self.cc.open() && self.rc.idle() && self.cq.idle();
        streams && self.outstanding.idle() && self.root.idle()
    }

    /// Completions that were thrown away because they are malformed.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Reads that came without a credit: each held up what was behind it.
    pub fn held_reads(&self) -> u64 {
        self.held_reads
    }

    /// Whether RQ takes a beat in this cycle. A read without a credit is taken, and then nothing until there is one.
    pub fn rq_ready(&mut self, cycle: u64) -> bool {
        self.begin(cycle);
        !self.root.stalled[RQ] && (self.rq.open() || self.held.is_none())
    }

    /// Reads for which there is a credit, 15 of them or more: `pcie_tfc_nph_av`. Those of the last two cycles have theirs yet (PG213, "Transmit Flow
    /// Control Interface").
    pub fn nph_av(&mut self, cycle: u64) -> u8 {
        self.begin(cycle);
        let credits = self.root.credits().map_or(15, |credits| credits + self.lately[1] + self.lately[2]);
        credits.min(15) as u8
    }

    /// A beat of RQ was taken.
    pub fn rq_beat(&mut self, cycle: u64, beat: &AxisBeat<RqUser>) {
        self.begin(cycle);
        let sent = match self.rq.beat(cycle, beat, beat.user.discontinue) {
            Ok(None) => Ok(()),
            Ok(Some((packet, user))) if is_read(&packet) && !self.root.has_credit() => {
                self.held_reads += 1;
                self.held = Some((packet, user));
                Ok(())
            }
            Ok(Some((packet, user))) => self.request(cycle, &packet, &user),
            Err(what) => Err(what),
        };
        self.root.judge(cycle, "RQ", sent);
    }

    /// The next number that came back: `pcie_rq_seq_num0`.
    pub fn rq_seq_num(&mut self) -> Option<u8> {
        self.seq_nums.pop_front()
    }

    /// The beat of RC on offer in this cycle.
    pub fn rc(&mut self, cycle: u64) -> Option<AxisBeat<RcUser>> {
        self.begin(cycle);
        let (root, outstanding, malformed) = (&mut self.root, &mut self.outstanding, &mut self.malformed);
        let stall = root.stalled[RC];
        let lanes = self.rc.offer(stall, || {
            if let Some(over) = outstanding.expired(cycle) {
                return Some(over);
            }
            loop {
                let packet = root.rc_packet(cycle)?;
                if let Some(told) = outstanding.describe(&packet) {
                    return Some(told);
                }
                *malformed += 1;
            }
        })?;
        let (is_sop, is_eop) = lanes.counts();
        let user = RcUser {
            byte_en: lanes.byte_en,
            is_sop,
            sop0_ptr: lanes.sop(0),
            sop1_ptr: lanes.sop(1),
            sop2_ptr: lanes.sop(2),
            sop3_ptr: lanes.sop(3),
            is_eop,
            eop0_ptr: lanes.eop(0),
            eop1_ptr: lanes.eop(1),
            eop2_ptr: lanes.eop(2),
            eop3_ptr: lanes.eop(3),
            ..RcUser::default()
        };
        Some(AxisBeat { data: lanes.bytes(), keep: lanes.keep, last: lanes.last, user })
    }

    /// The beat of RC on offer was taken.
    pub fn rc_taken(&mut self, cycle: u64) {
        self.begin(cycle);
        if let Some(lanes) = self.rc.taken() {
            self.root.stats.rc_beats += 1;
            lanes.ends.iter().for_each(|tag| self.outstanding.remove(*tag));
        }
    }

    /// The beat of CQ on offer in this cycle.
    pub fn cq(&mut self, cycle: u64) -> Option<AxisBeat<CqUser>> {
        self.begin(cycle);
        let (root, bits) = (&mut self.root, self.settings.bar0_bits);
        let (stall, card) = (root.stalled[CQ], root.settings().requester);
        let lanes = self.cq.offer(stall, || loop {
            let packet = root.cq_packet()?;
            match described(&packet, bits, card) {
                Described::Told(told) => return Some(told),
                Described::Refused(answer) => root.cc_packet(cycle, &answer),
                Described::Dropped => {}
            }
        })?;
        let (is_sop, is_eop) = lanes.counts();
        let user = CqUser {
            first_be: lanes.enables.0,
            last_be: lanes.enables.1,
            byte_en: lanes.byte_en,
            is_sop,
            is_eop,
            eop0_ptr: lanes.eop(0),
            ..CqUser::default()
        };
        Some(AxisBeat { data: lanes.bytes(), keep: lanes.keep, last: lanes.last, user })
    }

    /// The beat of CQ on offer was taken.
    pub fn cq_taken(&mut self, cycle: u64) {
        self.begin(cycle);
        if self.cq.taken().is_some_and(|lanes| lanes.writes > 0) {
            self.root.cpu.writes_taken += 1;
            self.root.cpu.writes_taken_at = cycle;
        }
    }

    /// Whether CC takes a beat in this cycle.
    pub fn cc_ready(&mut self, cycle: u64) -> bool {
        self.begin(cycle);
        !self.root.stalled[CC]
    }

    /// A beat of CC was taken.
    pub fn cc_beat(&mut self, cycle: u64, beat: &AxisBeat<CcUser>) {
        self.begin(cycle);
        match self.cc.beat(cycle, beat, beat.user.discontinue) {
            Ok(None) => {}
            Ok(Some((packet, _))) => match answer(&packet, self.root.settings()) {
                Ok(packet) => self.root.cc_packet(cycle, &packet),
                Err(what) => {
                    self.root.judge(cycle, "CC", Err(what));
                }
            },
            Err(what) => {
                self.root.judge(cycle, "CC", Err(what));
            }
        }
    }

    /// Begins a cycle, if it has not begun.
    fn begin(&mut self, cycle: u64) {
        if self.now.is_some_and(|now| now >= cycle) {
            return;
        }
        if let Some(before) = self.now {
            for (stream, gap, index) in [("RQ", self.rq.gap(before), RQ), ("CC", self.cc.gap(before), CC)] {
                if gap && !self.root.stalled[index] {
                    let what = "tvalid falls in a packet (PG213, 512-bit interfaces)";
                    self.root.judge(before, stream, Err(what.into()));
                }
            }
        }
        let passed = self.now.map_or(1, |now| cycle - now);
        for _ in 0..passed.min(3) {
            self.lately = [0, self.lately[0], self.lately[1]];
        }
        self.now = Some(cycle);
        self.root.begin(cycle);
        if self.root.has_credit() {
            if let Some((packet, user)) = self.held.take() {
                let sent = self.request(cycle, &packet, &user);
                self.root.judge(cycle, "RQ", sent);
            }
        }
    }

    /// Sends a request of the card.
    fn request(&mut self, cycle: u64, packet: &[u8], user: &RqUser) -> Result<(), String> {
        let Ok(descriptor) = RqDescriptor::parse(packet) else {
            return Err(format!("a packet of {} bytes has no descriptor", packet.len()));
        };
        let data = &packet[rq::BYTES..];
        let formats = "(PG213, Requester Request Descriptor Formats)";
        let write = match RequestType::from_code(descriptor.request_type) {
            Some(RequestType::MemoryRead) => false,
            Some(RequestType::MemoryWrite) => true,
            _ => return Err(format!("request type {}, neither 0 nor 1 {formats}", descriptor.request_type)),
        };
        if !(1..=1024).contains(&descriptor.dwords) {
            return Err(format!("{} double words {formats}", descriptor.dwords));
        }
        if descriptor.requester_enable {
            return Err(format!("an endpoint chooses its requester {formats}"));
        }
        if user.addr_offset != 0 || user.tph_present != 0 {
            let (offset, hints) = (user.addr_offset, user.tph_present);
            return Err(format!(
                "addr_offset {offset}, tph_present {hints}: 0 here (PG213, s_axis_rq_tuser)"
            ));
        }
        let (first_be, last_be) = (user.first_be & 15, user.last_be & 15);
        let (address, dwords) = (descriptor.address << 2, descriptor.dwords.into());
        let mut request = Request::new(write, address, dwords, first_be, last_be);
        let header = &mut request.header;
        header.at = descriptor.at;
        header.ep = descriptor.poisoned;
        // Of the requester the block looks at the function alone.
        header.requester = self.root.settings().requester & !7 | descriptor.requester & 7;
        header.tag = descriptor.tag;
        header.tc = descriptor.tc;
        (header.no_snoop, header.relaxed, header.ido) =
            (descriptor.no_snoop, descriptor.relaxed, descriptor.ido);
        header.td = descriptor.force_ecrc;
        if !write && self.outstanding.is_busy(descriptor.tag) {
            return Err(format!("{}: the tag is in use (PCIe 2.2.6.2)", request.name()));
        }
        if self.root.rq_packet(cycle, &request.emit(data)) {
            self.seq_nums.push_back(user.seq_num0);
            if !write {
                self.lately[0] += 1;
                self.outstanding.add(cycle, &request);
            }
        }
        Ok(())
    }
}

fn is_read(packet: &[u8]) -> bool {
    RqDescriptor::parse(packet)
        .is_ok_and(|descriptor| descriptor.request_type == RequestType::MemoryRead.code())
}

/// What becomes of a request of the CPU.
enum Described {
    Told(Packet),
    /// The block answers for the card.
    Refused(Vec<u8>),
    Dropped,
}

/// What the card is told of a request of the CPU. What is not of memory hits no base address register.
fn described(packet: &[u8], bar0_bits: u8, card: u16) -> Described {
    let Some(request) = Request::parse(packet) else { return Described::Dropped };
    let header = &request.header;
    let request_type = match request.kind {
        kind::READ32 | kind::READ64 => RequestType::MemoryRead,
        kind::WRITE32 | kind::WRITE64 => RequestType::MemoryWrite,
        0x01 | 0x21 => RequestType::LockedRead,
        other if matches!(other >> 3, 0b00110 | 0b01110) => return Described::Dropped,
        _ => {
            let refusal = Completion {
                fmt: 0,
                completer: card,
                status: CompletionStatus::UnsupportedRequest.code(),
                requester: header.requester,
                tag: header.tag,
                tc: header.tc,
                relaxed: header.relaxed,
                no_snoop: header.no_snoop,
                ..Completion::default()
            };
            return refusal.to_bytes().map_or(Described::Dropped, |bytes| Described::Refused(bytes.to_vec()));
        }
    };
    let data = &packet[request.header_bytes()..];
    if data.len() != if request.has_data() { 4 * request.dwords() as usize } else { 0 } {
        return Described::Dropped;
    }
    let descriptor = CqDescriptor {
        at: header.at,
        address: header.address,
        dwords: request.dwords() as u16,
        request_type: request_type.code(),
        requester: header.requester,
        tag: header.tag,
        aperture: bar0_bits,
        tc: header.tc,
        no_snoop: header.no_snoop,
        relaxed: header.relaxed,
        ido: header.ido,
        ..CqDescriptor::default()
    };
    let mut bytes = descriptor.to_bytes().expect("a descriptor whose values fit").to_vec();
    let from = bytes.len();
    bytes.extend_from_slice(data);
    let valid = Box::new(move |byte: usize| byte >= from && request.enables((byte - from) as u32));
    let enables = (header.first_be, header.last_be);
    Described::Told(Packet { bytes, valid, enables, ends: None, write: request.has_data() })
}

/// The completion of a packet of CC.
fn answer(packet: &[u8], settings: &RootSettings) -> Result<Vec<u8>, String> {
    let Ok(descriptor) = CcDescriptor::parse(packet) else {
        return Err(format!("a packet of {} bytes has no descriptor", packet.len()));
    };
    let formats = "(PG213, Completer Completion Descriptor Format)";
    let CcDescriptor { rsvd0, rsvd1, rsvd2, rsvd3, .. } = descriptor;
    if rsvd0 || rsvd1 != 0 || rsvd2 != 0 || rsvd3 {
        return Err(format!("a reserved bit is set {formats}"));
    }
    if descriptor.completer_enable {
        return Err(format!("an endpoint chooses its completer {formats}"));
    }
    let failed = descriptor.status != CompletionStatus::Success.code();
    let mut data = &packet[cc::BYTES..];
    if failed {
        if descriptor.dwords != 0 {
            return Err(format!(
                "status {}, and {} double words {formats}",
                descriptor.status, descriptor.dwords
            ));
        }
        if data.len() != 4 * ERROR_DWORDS && !data.is_empty() {
            let clause = "(PG213, Completions with Error Status)";
            return Err(format!(
                "an error with {} bytes behind it, not {} {clause}",
                data.len(),
                4 * ERROR_DWORDS
            ));
        }
        data = &[];
    }
    if descriptor.byte_count > 4096 || descriptor.dwords > 1024 {
        return Err(format!(
            "byte count {}, {} double words {formats}",
            descriptor.byte_count, descriptor.dwords
        ));
    }
    let header = Completion {
        fmt: if descriptor.dwords == 0 { 0 } else { 2 },
        kind: 10 + u8::from(descriptor.locked),
        tc: descriptor.tc,
        ido: descriptor.ido,
        relaxed: descriptor.relaxed,
        no_snoop: descriptor.no_snoop,
        td: descriptor.force_ecrc,
        ep: descriptor.poisoned,
        at: descriptor.at,
        length: descriptor.dwords % 1024,
        completer: settings.requester & !7 | descriptor.completer & 7,
        status: descriptor.status,
        byte_count: descriptor.byte_count % 4096,
        requester: descriptor.requester,
        tag: descriptor.tag,
        lower_address: descriptor.lower_address,
        ..Completion::default()
    };
    let mut packet = header.to_bytes().map_err(|error| error.to_string())?.to_vec();
    packet.extend_from_slice(data);
    Ok(packet)
}
