// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Link`]: a way for Ethernet frames; [`RawLink`]: that of a card's raw Ethernet queue pair.

use std::time::Duration;

use ferrowire::{
    AccessFlags, Completion, CompletionQueue, Context, EventQueue, InitAttributes, MemoryRegion, PageSize,
    ProtectionDomain, QpInitAttr, QueuePair, RawFilter, RecvWr, RtrAttributes, RtsAttributes, SendWr,
};

/// Bytes of a frame's place in memory; the longest frame of the card.
const PLACE: usize = 4096;

/// A way for Ethernet frames, both directions, without frame check sequences.
pub trait Link: Send {
    /// Takes the next frame that has come into `frame`, and its length. `None`: there is none, and a simulated card has run for a while.
    ///
    /// # Errors
    /// The card fails.
    fn receive(&mut self, frame: &mut [u8]) -> ferrowire::Result<Option<usize>>;

    /// Whether a frame can be sent now.
    ///
    /// # Errors
    /// The card fails.
    fn has_room(&mut self) -> ferrowire::Result<bool>;

    /// How many frames can be sent now, as far as the link knows.
    ///
    /// # Errors
    /// The card fails.
    fn room(&mut self) -> ferrowire::Result<usize> {
        self.has_room().map(usize::from)
    }

    /// Sends a frame; it is copied.
    ///
    /// # Errors
    /// There is no room, or the card fails.
    fn send(&mut self, frame: &[u8]) -> ferrowire::Result<()>;

    /// Asks for an event for the next frame that comes, where the link has events.
    ///
    /// # Errors
    /// The card fails.
    fn arm(&mut self) -> ferrowire::Result<()> {
        Ok(())
    }

    /// Does what the link has to do beside. The stack calls it once each time that it is polled, after it has taken and sent what it could.
    ///
    /// # Errors
    /// The card fails.
    fn turn(&mut self) -> ferrowire::Result<()> {
        Ok(())
    }

    /// The longest frame it takes.
    fn max_frame(&self) -> usize {
        PLACE
    }

    /// The clock, from any start.
    fn now(&self) -> Duration;
}

/// The raw Ethernet queue pair of a card, with a place in registered memory for each work request.
///
/// Each frame is copied once: out of the place that it came to, or into that from which it leaves. A place is posted again as soon as its frame is
/// copied. When all places for sending are under way, [`has_room`](Link::has_room) says so until the card has completed one; nothing is overwritten,
/// and nothing is lost.
pub struct RawLink {
    context: Context,
    sends: CompletionQueue,
    receives: CompletionQueue,
    qp: QueuePair,
    inbox: MemoryRegion,
    outbox: MemoryRegion,
    /// Places that are under way.
    sending: u64,
    next: u64,
    places: u64,
    /// Its receives raise events.
    events: bool,
}

impl RawLink {
    /// Takes the card's raw Ethernet queue pair, with `places` frames each way, and opens the card's filter for the port's frames.
    ///
    /// # Errors
    /// The card has none, or it is in use, or there is no memory.
    pub fn new(context: &Context, pd: &ProtectionDomain, places: u32) -> ferrowire::Result<Self> {
        Self::with_events(context, pd, places, None)
    }

    /// The same. Frames that come raise events of that queue once [`arm`](Link::arm) has asked for one.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_events(
        context: &Context,
        pd: &ProtectionDomain,
        places: u32,
        events: Option<&EventQueue>,
    ) -> ferrowire::Result<Self> {
        let places = places.clamp(2, 1024).next_power_of_two();
        let sends = context.create_cq(places)?;
        let receives = match events {
            Some(events) => context.create_cq_with_events(places, events)?,
            None => context.create_cq(places)?,
        };
        let mut attr = QpInitAttr::raw(&sends, &receives);
        (attr.max_send_wr, attr.max_recv_wr, attr.sq_sig_all) = (places, places, true);
        let mut qp = pd.create_qp(&attr)?.init(InitAttributes::default())?;
        let region = |access| {
            let memory = context.alloc(places as usize * PLACE, PLACE)?;
            pd.register(&memory, access, PageSize::Size4K)
        };
        let (inbox, outbox) = (region(AccessFlags::LOCAL_WRITE)?, region(AccessFlags::LOCAL_READ)?);
        let mut batch = qp.start_post_recv();
        for place in 0..places as usize {
            batch.post(&RecvWr::new(place as u64, &[inbox.sge(place * PLACE, PLACE as u32)]))?;
        }
        batch.ring()?;
        let qp = qp.rtr(RtrAttributes::default())?.rts(RtsAttributes::default())?;
        context.set_raw_filter(&RawFilter::port())?;
        let context = context.clone();
        let (places, events) = (places.into(), events.is_some());
        Ok(Self { context, sends, receives, qp, inbox, outbox, sending: 0, next: 0, places, events })
    }

    /// Takes the places of frames that have left.
    fn reap(&mut self) -> ferrowire::Result<()> {
        let mut some = [Completion::default(); 16];
        let n = self.sends.poll(&mut some)?;
        self.sending -= n as u64;
        some[..n].iter().try_for_each(|done| check("send frame", RAW, done))
    }
}

/// The work requests of the raw queue pair and of QP1 are the driver's own: one fails only with its queue pair, and then all others do, too.
pub(crate) fn check(operation: &'static str, queue_pair: &str, done: &Completion) -> ferrowire::Result<()> {
    match done.is_success() {
        true => Ok(()),
        false => Err(ferrowire::Error::Attribute {
            operation,
            attribute: "status",
            value: done.syndrome().into(),
            fix: format!("the {queue_pair} is in error ({}); make the network anew", done.status()),
        }),
    }
}

const RAW: &str = "raw queue pair";

impl Link for RawLink {
    fn receive(&mut self, frame: &mut [u8]) -> ferrowire::Result<Option<usize>> {
        let mut one = [Completion::default()];
        if self.receives.poll(&mut one)? == 0 {
            return Ok(None);
        }
        check("receive frame", RAW, &one[0])?;
        let (place, bytes) = (one[0].wr_id(), one[0].byte_len() as usize);
        let (at, bytes) = (place as usize * PLACE, bytes.min(frame.len()));
        self.inbox.memory().read(at, &mut frame[..bytes]);
        self.qp.start_post_recv().post(&RecvWr::new(place, &[self.inbox.sge(at, PLACE as u32)]))?;
        Ok(Some(bytes))
    }

    fn has_room(&mut self) -> ferrowire::Result<bool> {
        if self.sending == self.places {
            self.reap()?;
        }
        Ok(self.sending < self.places)
    }

    fn room(&mut self) -> ferrowire::Result<usize> {
        if self.sending > 0 {
            self.reap()?;
        }
        Ok((self.places - self.sending) as usize)
    }

    fn send(&mut self, frame: &[u8]) -> ferrowire::Result<()> {
        // Places complete in the order in which they were posted.
        let at = (self.next % self.places) as usize * PLACE;
        let bytes = frame.len().min(PLACE);
        self.outbox.memory().write(at, &frame[..bytes]);
        let mut batch = self.qp.start_post_send();
        batch.post(&SendWr::send(self.next, &[self.outbox.sge(at, bytes as u32)]))?;
        batch.ring()?;
        (self.next, self.sending) = (self.next + 1, self.sending + 1);
        Ok(())
    }

    fn arm(&mut self) -> ferrowire::Result<()> {
        match self.events {
            true => self.receives.request_notify(false),
            false => Ok(()),
        }
    }

    fn now(&self) -> Duration {
        self.context.now()
    }
}
