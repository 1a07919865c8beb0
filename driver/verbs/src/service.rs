// SPDX-License-Identifier: MIT OR Apache-2.0
//! The service thread of a card: it reads the card's event queue.
//!
//! ```text
//!  card -> event queue -> service thread -+-> asynchronous events of contexts (`async_fd`)
//!                             ^           +-> completion channels (`fd`)
//!                             |           +-> frames of the raw Ethernet queue pair: ARP, neighbour discovery, echoes
//!                             |           +-> messages of QP1: the thread of the connection manager is woken
//!                    end of the connection, frames and addresses of the TAP interface
//! ```
//!
//! The thread sleeps until the card raises the queue's interrupt. It is no part of the data path: posting and polling go from the program's threads to
//! the card. When the connection to the card's server ends, each context gets `IBV_EVENT_DEVICE_FATAL`, and calls that wait end.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use ferrowire::{Event, EventKind};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{shutdown, Shutdown};

use crate::card::Card;
use crate::events;
use crate::failure::{Failure, Result};
use crate::log::say;
use crate::neighbour::Waits;
use crate::sys::without_signals;

/// Between two looks at a card that cannot raise interrupts.
const LOOK: Duration = Duration::from_millis(1);

/// Starts the thread, which waits for the card that is to be served: it is handed over by what this returns. So a card whose thread cannot be started is
/// not kept.
pub fn prepare(lifeline: Option<OwnedFd>) -> Result<impl FnOnce(&'static Card)> {
    let (give, get) = std::sync::mpsc::sync_channel::<&'static Card>(1);
    let thread = std::thread::Builder::new().name("ferrowire".into());
    let serve = move || {
        // It fails if the card is not handed over: then there is nothing to do.
        if let Ok(card) = get.recv() {
            run(card, lifeline.as_ref());
        }
    };
    match without_signals(|| thread.spawn(serve)) {
        Ok(_) => Ok(move |card| {
            // The thread waits for it, so this does not fail.
            let _ = give.send(card);
        }),
        Err(error) => {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
            Err(Failure::text(errno, format!("start the thread that reads the card's events: {error}")))
        }
    }
}

fn run(card: &'static Card, lifeline: Option<&OwnedFd>) {
    let why = loop {
        match turn(card, lifeline) {
            Ok(true) => {}
            Ok(false) => break "the server of the card is gone; start it again".into(),
            Err(error) => break error.to_string(),
        }
    };
    bury(card, &why);
    // A connection that another failure has left ends here, so that the card can be opened again. Then no forked child can keep the card.
    if lifeline.is_some_and(ends) {
        card.forget_files();
    }
}

/// Ends the connection to a server. Whether it has ended, now or before.
fn ends(lifeline: &OwnedFd) -> bool {
    matches!(shutdown(lifeline, Shutdown::Both), Ok(()) | Err(Errno::NOTCONN))
}

/// Marks the card as gone, and wakes all that wait for it.
fn bury(card: &Card, why: &str) {
    // First, for the program may open the card again as soon as it is marked.
    card.neighbours.release_interface();
    if !events::tell_end(card) {
        return;
    }
    say!("{why}; this program's objects are of no more use");
    card.cm.remove(why);
    let objects = card.objects();
    for channel in &objects.channels {
        // SAFETY: it is in the table, whose lock this thread has.
        unsafe { &**channel }.events.end(Errno::IO);
    }
}

/// Waits for events and hands them on; `false` when the connection has ended.
fn turn(card: &Card, lifeline: Option<&OwnedFd>) -> ferrowire::Result<bool> {
    let mut events = [Event::default(); 16];
    // Armed before the look: what comes after the look raises an interrupt.
    let armed = card.events.acknowledge().and_then(|()| card.events.request_interrupt());
    let count = card.events.poll(&mut events)?;
    for event in &events[..count] {
        hand_on(card, event);
    }
    // Frames of the interface have their turn however many events there are.
    let waits = card.neighbours.waits();
    if waits.is_some() {
        card.neighbours.turn();
        card.follow();
    }
    let again = waits.as_ref().is_some_and(Waits::are_over);
    if count > 0 || again {
        return Ok(true);
    }
    // Of a server that is gone, events that are there already are handed on first.
    armed?;
    let Some(interrupt) = card.events.interrupt_file() else {
        card.neighbours.turn();
        std::thread::sleep(LOOK);
        return Ok(true);
    };
    let mut files = vec![PollFd::from_borrowed_fd(interrupt, PollFlags::IN)];
    if let Some(lifeline) = lifeline {
        files.push(PollFd::from_borrowed_fd(lifeline.as_fd(), PollFlags::RDHUP));
    }
    let mut limit = None;
    if let Some(waits) = &waits {
        files.extend(waits.files().map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)));
        limit = waits.limited().then(|| Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) });
    }
    // A failure of the call, such as EINTR, only costs a look.
    let _ = poll(&mut files, limit.as_ref());
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    Ok(lifeline.is_none() || !files[1].revents().intersects(gone))
}

fn hand_on(card: &Card, event: &Event) {
    if event.kind != EventKind::Completion {
        events::deliver(card, event);
        return;
    }
    let objects = card.objects();
    let Some(cq) = objects.cqs.get(&event.object) else {
        drop(objects);
        card.neighbours.turn();
        card.cm.wake();
        return;
    };
    // SAFETY: it is in the table, whose lock this thread has.
    let cq = unsafe { &**cq };
    if let Some(channel) = cq.channel() {
        channel.events.push(cq.pointer());
    }
}
