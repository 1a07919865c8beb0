// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw frames of one direction: what was posted, what left, and what the wire delivered.

use std::collections::VecDeque;

use ferrowire_spec::csr::DropReason;
use ferrowire_spec::qp_state::MAX_RAW_FRAME;
use ferrowire_spec::wire::Frame;

use super::Filter;

/// A frame that was posted and has not left.
#[derive(Debug)]
struct Posted {
    id: u64,
    data: Vec<u8>,
    /// It need not leave: its queue pair was reset.
    maybe: bool,
}

/// A frame that the wire delivered and that is no RoCE packet.
#[derive(Debug)]
struct Arrival {
    data: Vec<u8>,
    /// A filter of its time lets it pass; each does; and the queue pair took frames besides.
    may: bool,
    sure: bool,
    must: bool,
    /// It has come, or nobody waits for it any more.
    taken: bool,
    step: u64,
}

/// A receive that a frame has come to, or that is next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    /// Bytes.
    pub(super) room: usize,
    /// From that step on it was surely there.
    pub(super) since: u64,
}

/// One direction.
#[derive(Debug, Default)]
pub struct Traffic {
    /// The side that it goes to.
    to: usize,
    posted: VecDeque<Posted>,
    arrivals: Vec<Arrival>,
    /// On a wire that keeps the order, those before have come or never will.
    cursor: usize,
    filter: Filter,
    /// What passes at most and at least, while the filter is changed.
    changing: Option<(Filter, Filter)>,
    /// The queue pair takes no frames.
    closed: bool,
    step: u64,
    sent: u64,
    /// Frames that passed the filter, at least and at most.
    passed: (u64, u64),
}

/// Whether a frame is for the raw Ethernet queue pair, as far as its bytes say.
pub fn is_raw(data: &[u8]) -> bool {
    let reason = Frame::parse(data).err().and_then(|error| error.drop_reason());
    let not_roce = matches!(reason, Some(DropReason::NotRoce | DropReason::IpFragment));
    not_roce && data.len() <= MAX_RAW_FRAME as usize
}

impl Traffic {
    /// To a side.
    pub(in super::super) fn to(side: usize) -> Self {
        Self { to: side, ..Self::default() }
    }

    /// A step begins.
    pub(super) fn at(&mut self, step: u64) {
        self.step = step;
    }

    pub(super) fn post(&mut self, id: u64, data: Vec<u8>) {
        self.posted.push_back(Posted { id, data, maybe: false });
    }

    /// The request has ended without its frame having left; whether it has not.
    pub(super) fn withdraw(&mut self, id: u64) -> bool {
        let before = self.posted.len();
        self.posted.retain(|posted| posted.id != id);
        self.posted.len() < before
    }

    /// The frame of a request that is under way may leave or not: its queue pair has failed.
    pub(super) fn release_one(&mut self, id: u64) {
        self.posted.iter_mut().filter(|posted| posted.id == id).for_each(|posted| posted.maybe = true);
    }

    /// What has not left may leave or not: its queue pair was reset.
    pub(super) fn release(&mut self) {
        self.posted.iter_mut().for_each(|posted| posted.maybe = true);
    }

    /// The sender's end of the wire: whether it is the frame that is next.
    pub(in super::super) fn leaves(&mut self, data: &[u8]) -> bool {
        let Some(at) = self.posted.iter().position(|posted| posted.data == data) else { return false };
        let skipped = self.posted.drain(..at).all(|posted| posted.maybe);
        self.posted.pop_front();
        self.sent += 1;
        skipped
    }

    /// The receiver's end of it.
    pub(in super::super) fn arrives(&mut self, data: &[u8]) {
        let Some(to) = data.first_chunk().copied().filter(|_| is_raw(data)) else { return };
        let (most, least) = self.changing.as_ref().map_or((&self.filter, &self.filter), |(a, b)| (a, b));
        let (may, sure) = (most.passes(to, self.to), least.passes(to, self.to));
        self.passed.0 += u64::from(sure);
        self.passed.1 += u64::from(may);
        let must = sure && !self.closed;
        self.arrivals.push(Arrival { data: data.to_vec(), may, sure, must, taken: false, step: self.step });
    }

    /// The filter is about to become another one, or has: what has not come may have been judged by either.
    pub(super) fn change(&mut self, filter: &Filter, done: bool) {
        if done {
            self.filter = filter.clone();
            self.changing = None;
            return;
        }
        let most = self.filter.or(filter);
        for arrival in self.arrivals[self.cursor..].iter_mut().filter(|arrival| !arrival.taken) {
            let Some(to) = arrival.data.first_chunk().copied() else { continue };
            let may = arrival.may || most.passes(to, self.to);
            self.passed.0 -= u64::from(arrival.sure);
            self.passed.1 += u64::from(may && !arrival.may);
            (arrival.may, arrival.sure, arrival.must) = (may, false, false);
        }
        self.changing = Some((most, Filter::default()));
    }

    /// The queue pair takes no frames any more, or does again: those under way may have found either.
    pub(super) fn close(&mut self, closed: bool) {
        self.closed = closed;
        self.arrivals[self.cursor..].iter_mut().for_each(|arrival| arrival.must = false);
    }

    /// A frame has come to a receive. Which one before it is missing; or why it must not have come.
    pub(super) fn take(&mut self, data: &[u8], next: Next, ordered: bool) -> Result<Option<String>, String> {
        let from = if ordered { self.cursor } else { 0 };
        let mut rest = self.arrivals[from..].iter_mut();
        let found = rest.position(|arrival| !arrival.taken && arrival.data == data);
        let Some(at) = found.map(|at| from + at) else {
            return Err("it is none that the wire has delivered".into());
        };
        if !self.arrivals[at].may {
            return Err("no filter has let it pass".into());
        }
        self.arrivals[at].taken = true;
        if !ordered {
            return Ok(None);
        }
        let missing = self.missing(at, Some(next));
        self.cursor = at + 1;
        Ok(missing)
    }

    /// The first frame before that one that should have come, if that was the next receive.
    fn missing(&self, before: usize, next: Option<Next>) -> Option<String> {
        let next = next?;
        let lost = |arrival: &&Arrival| {
            !arrival.taken && arrival.must && arrival.data.len() <= next.room && arrival.step >= next.since
        };
        let arrival = self.arrivals[self.cursor..before].iter().find(lost)?;
        let (n, head) = (arrival.data.len(), &arrival.data[..14]);
        Some(format!(
            "a frame of {n} bytes, {head:02x?}..., has not come, though there was a receive of {}",
            next.room
        ))
    }

    /// Nothing is under way of what was delivered before that step: what of it has not come never will. What of that is missing; or what has not left.
    pub(super) fn calm(
        &mut self,
        before: u64,
        next: Option<Next>,
        ordered: bool,
    ) -> Result<Option<String>, String> {
        let end = self.arrivals.partition_point(|arrival| arrival.step < before).max(self.cursor);
        let missing = self.missing(end, next.filter(|_| ordered));
        self.cursor = end;
        self.posted.retain(|posted| !posted.maybe);
        match self.posted.front() {
            Some(posted) => Err(format!("the frame of request {} has not left", posted.id)),
            None => Ok(missing),
        }
    }

    /// Frames that have left.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Frames that have passed the filter, at least and at most.
    pub(super) fn passed(&self) -> (u64, u64) {
        self.passed
    }
}

#[cfg(test)]
mod tests {
    use ferrowire::RawFilter;

    use super::super::super::ends::mac;
    use super::*;

    fn frame(number: u8, len: usize) -> Vec<u8> {
        let mut frame = [&mac(1)[..], &[6, 0, 0, 0, 0, number, 8, 6]].concat();
        frame.resize(len, number);
        frame
    }

    fn open() -> Traffic {
        let mut traffic = Traffic::to(1);
        traffic.change(&Filter { raw: RawFilter::port(), promiscuous: false }, false);
        traffic.change(&Filter { raw: RawFilter::port(), promiscuous: false }, true);
        traffic
    }

    const ROOM: Next = Next { room: 100, since: 0 };

    #[test]
    fn frames_leave_in_the_order_in_which_they_were_posted() {
        let mut traffic = open();
        (1..=4).for_each(|n| traffic.post(n.into(), frame(n, 60)));
        assert!(traffic.leaves(&frame(1, 60)) && !traffic.leaves(&frame(9, 60)));
        assert!(traffic.withdraw(2) && !traffic.withdraw(1));
        assert!(!traffic.leaves(&frame(4, 60)), "3 is before it");
        traffic.post(5, frame(5, 60));
        assert!(traffic.calm(9, None, true).unwrap_err().contains("request 5"));
        traffic.release();
        traffic.post(6, frame(6, 60));
        assert!(traffic.leaves(&frame(6, 60)), "5 was reset");
    }

    #[test]
    fn a_frame_is_left_out_only_for_a_reason() {
        let missing = |change: &dyn Fn(&mut Traffic), next: Next| {
            let mut traffic = open();
            traffic.at(5);
            traffic.arrives(&frame(1, 60));
            change(&mut traffic);
            traffic.arrives(&frame(2, 60));
            traffic.take(&frame(2, 60), next, true).unwrap()
        };
        let nothing = |_: &mut Traffic| {};
        assert!(missing(&nothing, ROOM).unwrap().contains("has not come"));
        assert_eq!(missing(&nothing, Next { room: 59, since: 0 }), None, "too long");
        assert_eq!(missing(&nothing, Next { room: 100, since: 6 }), None, "no receive");
        assert_eq!(missing(&|traffic| traffic.close(false), ROOM), None, "in another state");
        let other = |traffic: &mut Traffic| {
            let filter = traffic.filter.clone();
            traffic.change(&filter, false);
            traffic.change(&filter, true);
        };
        assert_eq!(missing(&other, ROOM), None, "another filter");
    }

    #[test]
    fn what_comes_was_delivered_and_passed() {
        let mut traffic = open();
        traffic.arrives(&frame(1, 60));
        assert!(traffic.take(&frame(2, 60), ROOM, true).is_err());
        assert!(traffic.take(&frame(1, 60), ROOM, true).is_ok());
        assert!(traffic.take(&frame(1, 60), ROOM, false).is_err(), "it has come");
        let mut closed = Traffic::to(1);
        closed.arrives(&frame(1, 60));
        assert!(closed.take(&frame(1, 60), ROOM, true).unwrap_err().contains("filter"));
        assert_eq!((traffic.passed(), closed.passed()), ((1, 1), (0, 0)));
        // No RoCE packet that is broken is one.
        let mut cut = frame(1, 30);
        cut[12..14].copy_from_slice(&[8, 0]);
        traffic.arrives(&cut);
        assert!(traffic.take(&cut, ROOM, false).is_err());
    }
}
