// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of a lane of windows, right and wrong, and what is noted of each.

use ferrowire_spec::queue::cqe::CqeOpcode;
use ferrowire_spec::queue::send_wqe::SendOpcode;
use rand::Rng;

use super::super::compare::{completed_as, Effect};
use super::super::ends::{Bind, Request};
use super::super::post::new_value;
use super::super::program::{is_answered, is_atomic};
use super::super::run::Play;
use super::play::{Fate, Mark, Open, Run, Sent, Stage};
use super::{Grant, Misuse, Round, Tell, Use, PART, READ_ONLY, SPARE};

impl Play<'_> {
    pub(super) fn request_lent(&mut self, opcode: SendOpcode) -> Request {
        self.next_id += 1;
        Request {
            id: self.next_id,
            opcode,
            local: Vec::new(),
            inline: None,
            remote: (0, 0),
            imm: 0,
            operands: (0, 0),
            signaled: true,
            solicited: false,
            fence: false,
            key: 0,
            bind: None,
        }
    }

    /// Notes what a request is, and what must come of it.
    pub(super) fn note(
        &mut self,
        at: usize,
        side: usize,
        window: usize,
        request: &Request,
        fate: Fate,
        mark: Mark,
    ) {
        let flow = &mut self.windows[at].flows[side];
        flow.wrong |= fate == Fate::Denied;
        flow.fails |= matches!(fate, Fate::Refused | Fate::Local);
        flow.answered |= is_answered(request.opcode);
        flow.open.push_back(Open {
            id: request.id,
            window,
            fate,
            mark,
            signaled: request.signaled,
            opcode: completed_as(request.opcode),
            answer: None,
            source: (0, 0),
            takes: false,
        });
    }

    /// Lets a request send so many bytes of a side's source; those.
    fn take_source(
        &mut self,
        at: usize,
        side: usize,
        request: &mut Request,
        (from, len): (usize, usize),
    ) -> Vec<u8> {
        let area = &self.areas[self.windows[at].places.sources[side]];
        request.local = vec![(area.region.address + from as u64, area.key, len as u32)];
        let start = area.region.front() + from;
        if let Some(open) = self.windows[at].flows[side].open.back_mut() {
            open.source = (from, len);
        }
        area.bytes.want()[start..start + len].to_vec()
    }

    fn message(&mut self, at: usize, side: usize, sent: Sent) {
        let flow = &mut self.windows[at].flows[side];
        if let Some(open) = flow.open.back_mut() {
            open.takes = true;
        }
        flow.sent.push_back(sent);
    }

    /// The address by which the peer names a byte of the window, which may lie outside.
    fn address(&self, at: usize, number: usize, round: &Round, offset: i64) -> u64 {
        let Run { lane, places, .. } = &self.windows[at];
        let start = self.areas[places.lent].region.address + (number * PART + round.at) as u64;
        let base = if round.zero_based { self.ends[lane.owner].zero_base(start) } else { start };
        base.wrapping_add_signed(offset)
    }

    /// To what the window is bound in a round.
    pub(super) fn binding(&self, at: usize, number: usize, round: &Round) -> Bind {
        let Run { places, windows, .. } = &self.windows[at];
        let area = &self.areas[places.lent];
        let Grant { read, write, atomic } = round.grant;
        Bind {
            key: windows[number].key,
            region: area.key,
            address: area.region.address + (number * PART + round.at) as u64,
            bytes: round.len as u64,
            rights: [read, write, atomic],
            zero_based: round.zero_based,
        }
    }

    /// Another tag.
    pub(super) fn renew_tag(&mut self, at: usize, number: usize) {
        let Run { windows, rng, .. } = &mut self.windows[at];
        let key = &mut windows[number].key;
        let tag = (*key as u8).wrapping_add(rng.random_range(1..=60));
        *key = *key & !0xff | u32::from(tag);
    }

    pub(super) fn bind_window(
        &mut self,
        at: usize,
        number: usize,
        round: &Round,
        requests: &mut Vec<Request>,
    ) {
        self.renew_tag(at, number);
        let owner = self.windows[at].lane.owner;
        let mut bind = self.request_lent(SendOpcode::BindMw);
        bind.bind = Some(self.binding(at, number, round));
        bind.fence = round.fence;
        bind.signaled = round.tell == Tell::Ended || self.windows[at].rng.random_bool(0.5);
        let mark = if round.tell == Tell::Ended { Mark::Bound } else { Mark::None };
        self.note(at, owner, number, &bind, Fate::Well, mark);
        requests.push(bind);
        if let Tell::Message(from, len) = round.tell {
            let mut send = self.request_lent(SendOpcode::SendImm);
            send.imm = send.id as u32;
            self.note(at, owner, number, &send, Fate::Well, Mark::None);
            let data = self.take_source(at, owner, &mut send, (from, len));
            let (id, imm) = (send.id, Some(send.imm));
            let (opcode, mark, invalidated) = (CqeOpcode::RecvImm, Mark::Bound, None);
            let sent = Sent { id, window: number, mark, denied: false, opcode, imm, invalidated, len, data };
            self.message(at, owner, sent);
            requests.push(send);
        }
        self.windows[at].windows[number].stage = Stage::Binding;
        self.count("windows: bound");
    }

    /// Something that the peer does by the window; `fate`: that it must be denied.
    pub(super) fn use_window(
        &mut self,
        at: usize,
        number: usize,
        round: &Round,
        one: &Use,
        fate: Fate,
    ) -> Request {
        let key = self.windows[at].windows[number].key;
        let address = self.address(at, number, round, one.at as i64);
        self.access(at, number, one, (address, key), Some(number * PART + round.at + one.at), fate)
    }

    /// An access of the peer to `remote`, which is that byte of the region, if it is one.
    fn access(
        &mut self,
        at: usize,
        number: usize,
        one: &Use,
        remote: (u64, u32),
        place: Option<usize>,
        fate: Fate,
    ) -> Request {
        let peer = 1 - self.windows[at].lane.owner;
        let mut request = self.request_lent(one.verb);
        (request.remote, request.fence, request.signaled) = (remote, one.fence, one.signaled);
        request.imm = request.id as u32;
        self.note(at, peer, number, &request, fate, Mark::None);
        self.windows[at].windows[number].uses += 1;
        let front = self.areas[self.windows[at].places.lent].region.front();
        let place = place.filter(|_| fate != Fate::Denied).map(|place| front + place);
        if is_answered(one.verb) {
            let area = &self.areas[self.windows[at].places.answers];
            request.local = vec![(area.region.address + one.from as u64, area.key, one.len as u32)];
            let run = &mut self.windows[at];
            let got = place.map_or_else(Vec::new, |place| run.image[place..place + one.len].to_vec());
            let old = got.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            if is_atomic(one.verb) {
                let compare = if one.hits { old } else { !old };
                let first = if one.verb == SendOpcode::FetchAdd { one.operand } else { compare };
                request.operands = (first, !one.operand);
                if let Some(to) = place {
                    let data = new_value(one.verb, request.operands, old).to_le_bytes().to_vec();
                    run.image[to..to + 8].copy_from_slice(&data);
                    run.effects.push_back(Effect { id: request.id, to, data, held: false });
                }
            }
            if let Some(open) = run.flows[peer].open.back_mut() {
                open.answer = Some((one.from, got));
            }
            return request;
        }
        let data = self.take_source(at, peer, &mut request, (one.from, one.len));
        let run = &mut self.windows[at];
        if let Some(to) = place.filter(|_| !data.is_empty()) {
            run.image[to..to + data.len()].copy_from_slice(&data);
            run.effects.push_back(Effect { id: request.id, to, data, held: false });
        }
        if one.verb == SendOpcode::WriteImm {
            let (id, opcode, imm) = (request.id, CqeOpcode::RecvWriteImm, Some(request.imm));
            let (mark, invalidated, data, len) = (Mark::None, None, Vec::new(), one.len);
            let denied = fate == Fate::Denied;
            self.message(
                at,
                peer,
                Sent { id, window: number, mark, denied, opcode, imm, invalidated, len, data },
            );
        }
        request
    }

    /// The peer's SEND with invalidate, of the window's key or of another one, which must be denied.
    pub(super) fn send_inv(
        &mut self,
        at: usize,
        number: usize,
        source: (usize, usize),
        wrong: Option<u32>,
    ) -> Request {
        let peer = 1 - self.windows[at].lane.owner;
        let mut send = self.request_lent(SendOpcode::SendInv);
        send.key = wrong.unwrap_or(self.windows[at].windows[number].key);
        // A READ that is asked for again would find the window gone.
        send.fence = true;
        let fate = if wrong.is_some() { Fate::Denied } else { Fate::Well };
        self.note(at, peer, number, &send, fate, Mark::None);
        let data = self.take_source(at, peer, &mut send, source);
        let (id, len, denied, imm) = (send.id, source.1, wrong.is_some(), None);
        let (opcode, invalidated) = (CqeOpcode::RecvInv, Some(send.key));
        let sent = Sent { id, window: number, mark: Mark::Back, denied, opcode, imm, invalidated, len, data };
        self.message(at, peer, sent);
        self.count("windows: SEND with invalidate");
        send
    }

    /// Something wrong.
    pub(super) fn misuse(&mut self, at: usize, number: usize, round: &Round, misuse: Misuse) -> Request {
        use Misuse as M;
        self.windows[at].windows[number].stage = Stage::Ruined;
        self.count(format!("windows: {misuse:?}"));
        let lane = self.windows[at].lane;
        let key = self.windows[at].windows[number].key;
        let lent = self.areas[self.windows[at].places.lent].key;
        // Of sources and answers there are a few bytes behind what is used.
        let len = self.windows[at].rng.random_range(1..=round.len.min(SPARE));
        let spare = |area: usize| self.areas[area].region.len - SPARE;
        let peer = 1 - lane.owner;
        let source = spare(self.windows[at].places.sources[peer]);
        let answers = spare(self.windows[at].places.answers);
        let some = |verb| {
            let from = if is_answered(verb) { answers } else { source };
            let len = if is_atomic(verb) { SPARE } else { len };
            Use { verb, at: 0, len, from, operand: 5, hits: true, fence: false, signaled: true }
        };
        let one = some(match round.grant {
            Grant { write: true, .. } => SendOpcode::Write,
            Grant { read: true, .. } => SendOpcode::Read,
            _ => SendOpcode::FetchAdd,
        });
        let to = |offset: usize| self.address(at, number, round, offset as i64);
        // An atomic needs a place that is a multiple of 8.
        let first = to(if is_atomic(one.verb) { round.at.next_multiple_of(8) - round.at } else { 0 });
        let below = self.address(
            at,
            number,
            round,
            if is_atomic(one.verb) { -8 } else { -1 }
                - (round.at % 8) as i64 * i64::from(is_atomic(one.verb)),
        );
        let behind = match is_atomic(one.verb) {
            true => to((round.at + round.len).next_multiple_of(8) - round.at),
            false => to(round.len + 1 - len),
        };
        match misuse {
            M::Below => self.access(at, number, &one, (below, key), None, Fate::Denied),
            M::Above => self.access(at, number, &one, (behind, key), None, Fate::Denied),
            M::Tag => self.access(at, number, &one, (first, key ^ 0x80), None, Fate::Denied),
            M::Gone => self.access(at, number, &one, (first, key), None, Fate::Denied),
            M::Right => {
                let one = some(match round.grant {
                    Grant { write: false, .. } => SendOpcode::Write,
                    Grant { read: false, .. } => SendOpcode::Read,
                    _ => SendOpcode::FetchAdd,
                });
                let aligned = to(round.at.next_multiple_of(8) - round.at);
                let remote = if is_atomic(one.verb) { aligned } else { to(0) };
                self.access(at, number, &one, (remote, key), None, Fate::Denied)
            }
            M::InvTag => self.send_inv(at, number, (source, 1), Some(key ^ 0x80)),
            M::InvRegion => self.send_inv(at, number, (source, 1), Some(lent)),
            M::InvGone => self.send_inv(at, number, (source, 1), Some(key)),
            M::AsLocal => {
                let mut send = self.request_lent(SendOpcode::Send);
                send.local = vec![(first, key, 1)];
                self.note(at, lane.owner, number, &send, Fate::Local, Mark::None);
                send
            }
            M::LocalInvGone | M::LocalInvRegion => {
                let mut inv = self.request_lent(SendOpcode::LocalInv);
                inv.key = if misuse == M::LocalInvGone { key } else { lent };
                self.note(at, lane.owner, number, &inv, Fate::Refused, Mark::None);
                inv
            }
            M::BindBound | M::BindBeyond | M::BindForbidden | M::BindReadOnly => {
                self.renew_tag(at, number);
                let mut to = self.binding(at, number, round);
                match misuse {
                    M::BindBeyond => {
                        let region = &self.areas[self.windows[at].places.lent].region;
                        to.bytes = region.address + region.len as u64 + 1 - to.address;
                    }
                    M::BindForbidden => {
                        let closed = &self.areas[self.closed[lane.owner]];
                        (to.region, to.address, to.bytes) = (closed.key, closed.region.address, 8);
                        to.rights = [true, false, false];
                    }
                    M::BindReadOnly => {
                        let area = &self.areas[self.windows[at].places.read_only];
                        (to.region, to.address) = (area.key, area.region.address);
                        (to.bytes, to.rights) =
                            (READ_ONLY as u64, [true, round.grant.write, !round.grant.write]);
                    }
                    _ => {}
                }
                let mut bind = self.request_lent(SendOpcode::BindMw);
                bind.bind = Some(to);
                self.note(at, lane.owner, number, &bind, Fate::Refused, Mark::None);
                bind
            }
        }
    }
}
