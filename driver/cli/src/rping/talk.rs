// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Talk`]: a connected queue pair with rping's messages, waited at together with the communication manager.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ferrowire::{
    AccessFlags, Completion, CompletionQueue, Init, InitAttributes, MemoryRegion, Qp, QpInitAttr, RecvWr,
    SendWr, WorkKind,
};
use ferrowire_net::cm::machine::State;
use ferrowire_net::{Cm, CmConnection};

use super::words::{Place, BYTES};
use crate::card::{self, Card};
use crate::failure::Failure;
use crate::stop;

/// Work requests under way at once.
const SENDS: usize = 8;
/// Receives that are posted.
const RECEIVES: usize = 4;
/// How long a side whose work request has failed listens for the other one's end, which explains it.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long who was told of the end stays: when its answer gets lost it is told again.
const LINGER: Duration = Duration::from_millis(200);
/// How long the other side may take to confirm the end.
const PARTING: Duration = Duration::from_secs(3);

/// What ends a conversation.
pub enum End {
    /// The other side, while this was done.
    Peer(&'static str),
    /// A failure.
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for End {
    fn from(error: E) -> Self {
        End::Failed(error.into())
    }
}

/// A queue pair that has its receives, before it is connected.
pub struct Made {
    cq: CompletionQueue,
    letters: MemoryRegion,
}

impl Made {
    /// Makes one; peers may do so much.
    ///
    /// # Errors
    /// The card refuses.
    pub fn new(card: &Card, access: AccessFlags) -> Result<(Self, Qp<Init>), Failure> {
        let cq = card.context.create_cq((SENDS + RECEIVES) as u32)?;
        let letters = card.region((SENDS + RECEIVES) * BYTES, AccessFlags::LOCAL_WRITE)?;
        let mut attr = QpInitAttr::rc(&cq, &cq);
        (attr.max_send_wr, attr.max_recv_wr) = (SENDS as u32, RECEIVES as u32);
        let init = InitAttributes::new().access(access).pkey(0xffff);
        let mut qp = card.pd.create_qp(&attr)?.init(init).map_err(ferrowire::Error::from)?;
        // Who is connected may send at once.
        let mut batch = qp.start_post_recv();
        for place in 0..RECEIVES {
            batch.post(&RecvWr::new(place as u64, &[letters.sge(place * BYTES, BYTES as u32)]))?;
        }
        batch.ring()?;
        Ok((Self { cq, letters }, qp))
    }
}

/// A connection, and what came over it.
pub struct Talk<'a> {
    cm: &'a Cm,
    connection: CmConnection,
    cq: CompletionQueue,
    /// Places of receives, then those of sends.
    letters: MemoryRegion,
    posted: u64,
    done: u64,
    came: VecDeque<Place>,
    heard: bool,
    silence: Duration,
    last: Instant,
    /// A signal ends nothing here.
    to_the_end: bool,
}

impl<'a> Talk<'a> {
    /// Over a connection. `silence` is how long the other side may say nothing; `to_the_end`: a signal ends no round.
    pub fn new(
        cm: &'a Cm,
        connection: CmConnection,
        made: Made,
        silence: Duration,
        to_the_end: bool,
    ) -> Self {
        let Made { cq, letters } = made;
        Self {
            cm,
            connection,
            cq,
            letters,
            posted: 0,
            done: 0,
            came: VecDeque::new(),
            heard: false,
            silence,
            last: Instant::now(),
            to_the_end,
        }
    }

    /// The other side.
    pub fn peer(&self) -> IpAddr {
        self.connection.peer()
    }

    /// Whether the other side has ended it, or does not answer.
    fn is_over(&self) -> Result<bool, Failure> {
        Ok(!matches!(self.connection.state()?, Some(State::RepSent | State::Established)))
    }

    /// Looks once what has come.
    fn look(&mut self, doing: &'static str) -> Result<(), End> {
        let mut some = [Completion::default(); SENDS + RECEIVES];
        let mut taken = self.cq.poll(&mut some)?;
        if taken == 0 && self.is_over()? {
            // What came before the end is not lost by it.
            taken = self.cq.poll(&mut some)?;
            if taken == 0 {
                return Err(End::Peer(doing));
            }
        }
        if taken == 0 {
            return Ok(self.idle(doing)?);
        }
        self.last = Instant::now();
        for done in &some[..taken] {
            if !done.is_success() {
                return Err(self.broken(done, doing));
            }
            match done.kind() {
                WorkKind::Send => self.done += 1,
                WorkKind::Receive => self.receive(done)?,
            }
        }
        Ok(())
    }

    fn receive(&mut self, done: &Completion) -> Result<(), Failure> {
        if !std::mem::replace(&mut self.heard, true) {
            self.connection.communication_established();
        }
        if done.byte_len() as usize != BYTES {
            let what =
                format!("{} sent {} bytes, rping's messages have {BYTES}", self.peer(), done.byte_len());
            return Err(Failure::failed(what, "start `rping` or `ferrowire rping` on the other side"));
        }
        // Each waits for an answer before it sends the next: what is kept here stays small.
        if self.came.len() == RECEIVES {
            let what = format!("{} sends more than it is asked for", self.peer());
            return Err(Failure::failed(what, "start `rping` or `ferrowire rping` on the other side"));
        }
        let at = done.wr_id() as usize * BYTES;
        let mut bytes = [0; BYTES];
        self.letters.memory().read(at, &mut bytes);
        self.came.push_back(Place::parse(bytes));
        let sges = [self.letters.sge(at, BYTES as u32)];
        let mut batch = self.connection.qp().start_post_recv();
        batch.post(&RecvWr::new(done.wr_id(), &sges))?;
        Ok(batch.ring()?)
    }

    fn idle(&self, doing: &str) -> Result<(), Failure> {
        if !self.to_the_end {
            stop::check()?;
        }
        if self.last.elapsed() > self.silence {
            let what = format!("{} says nothing for {} s while {doing}", self.peer(), self.silence.as_secs());
            let fix = "see whether it hangs or is gone, and start both sides again, the server first; -W waits longer";
            return Err(Failure::failed(what, fix));
        }
        // On a busy machine a simulated card needs the processor.
        std::thread::yield_now();
        Ok(())
    }

    /// A work request has failed, because the other side has left or by itself.
    fn broken(&self, done: &Completion, doing: &'static str) -> End {
        let until = Instant::now() + LAST_WORDS;
        while Instant::now() < until {
            match self.is_over() {
                Ok(false) => std::thread::yield_now(),
                Ok(true) => return End::Peer(doing),
                Err(failure) => return failure.into(),
            }
        }
        card::ended(done).into()
    }

    /// The number of the next work request, when there is room for it.
    fn next(&mut self, doing: &'static str) -> Result<u64, End> {
        while self.posted - self.done == SENDS as u64 {
            self.look(doing)?;
        }
        self.posted += 1;
        Ok(self.posted - 1)
    }

    fn post(&mut self, wr: &SendWr<'_>) -> Result<(), Failure> {
        let mut batch = self.connection.qp().start_post_send();
        batch.post(wr)?;
        Ok(batch.ring()?)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The card fails, or the other side has ended.
    pub fn say(&mut self, place: Place, doing: &'static str) -> Result<(), End> {
        let number = self.next(doing)?;
        let at = (RECEIVES + number as usize % SENDS) * BYTES;
        self.letters.memory().write(at, &place.to_bytes());
        let sges = [self.letters.sge(at, BYTES as u32)];
        Ok(self.post(&SendWr::send(number, &sges).signaled())?)
    }

    /// The next message.
    ///
    /// # Errors
    /// None comes: the other side has ended, or takes too long.
    pub fn hear(&mut self, doing: &'static str) -> Result<Place, End> {
        loop {
            if let Some(place) = self.came.pop_front() {
                return Ok(place);
            }
            self.look(doing)?;
        }
    }

    /// Reads a place of the other side, to its end.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&mut self, into: &MemoryRegion, from: Place, doing: &'static str) -> Result<(), End> {
        let number = self.next(doing)?;
        let sges = [into.sge(0, from.bytes)];
        self.post(&SendWr::read(number, &sges, from.remote()).signaled())?;
        self.finish(number, doing)
    }

    /// Writes so many bytes to a place of the other side, and waits until they are there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(
        &mut self,
        from: &MemoryRegion,
        bytes: u32,
        to: Place,
        doing: &'static str,
    ) -> Result<(), End> {
        let number = self.next(doing)?;
        let sges = [from.sge(0, bytes)];
        self.post(&SendWr::write(number, &sges, to.remote()).signaled())?;
        self.finish(number, doing)
    }

    fn finish(&mut self, number: u64, doing: &'static str) -> Result<(), End> {
        while self.done <= number {
            self.look(doing)?;
        }
        Ok(())
    }

    /// Ends it: tells the other side, which may be gone by then, or is there for who has told this one.
    ///
    /// # Errors
    /// The card fails.
    pub fn part(self) -> Result<(), Failure> {
        if self.is_over()? {
            return linger(self.cm);
        }
        match self.connection.disconnect(PARTING) {
            // All that was to be said was heard.
            Ok(_) | Err(ferrowire_net::Error::Timeout { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Answers what comes late, and lets the last words go.
///
/// # Errors
/// The card fails.
pub fn linger(cm: &Cm) -> Result<(), Failure> {
    let until = Instant::now() + LINGER;
    while Instant::now() < until {
        cm.poll()?;
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}
