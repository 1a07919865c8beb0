// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two programs send each other messages, and sleep while they wait: the card wakes them by an event file.
//!
//! ```text
//! cargo run -p ferrowire-sim -- up
//! cargo run -p ferrowire --example ping_pong -- sim:ferrowire0.sock listen 127.0.0.1:7471 100
//! cargo run -p ferrowire --example ping_pong -- sim:ferrowire1.sock connect 127.0.0.1:7471 100
//! ```

pub mod common;

use std::time::Duration;

use common::{barrier, good, Args, Result};
use ferrowire::*;

const BYTES: u32 = 64;

fn main() -> std::process::ExitCode {
    common::start("CARD listen|connect HOST:PORT [ROUNDS]", run)
}

/// Does all of it, and says what happened.
pub fn run(args: &[String]) -> Result<String> {
    let args = Args::parse(args)?;
    let rounds: u64 = args.more.first().map_or(Ok(100), |rounds| rounds.parse())?;
    let stream = args.meet()?;
    let context = args.open()?;
    let pd = context.alloc_pd()?;
    // Completions are told to an event queue, which raises an interrupt.
    let events = context.create_eq(16)?;
    let mut cq = context.create_cq_with_events(16, &events)?;
    let qp = pd.create_qp(&QpInitAttr::rc(&cq, &cq))?;
    let memory = context.alloc(4096, 4096)?;
    let access = AccessFlags::LOCAL_READ | AccessFlags::LOCAL_WRITE;
    let region = pd.register(&memory, access, PageSize::Size4K)?;
    let (mut qp, _) = args.connect(&context, qp, &stream, region.remote(0))?;

    // The first receive is there before the other program may send.
    let (ping, pong) = (region.sge(0, BYTES), region.sge(2048, BYTES));
    qp.start_post_recv().post(&RecvWr::new(0, &[pong]))?;
    barrier(&stream)?;
    let mut waiter = Waiter { cq: &mut cq, events: &events, sleeps: 0 };
    for round in 0..rounds {
        if !args.listens {
            send(&mut qp, ping, &memory, round)?;
        }
        let message = waiter.receive()?;
        let mut number = [0; 8];
        memory.read(2048, &mut number);
        if u64::from_le_bytes(number) != round || message.byte_len() != BYTES {
            return Err(format!("round {round}: message {}", u64::from_le_bytes(number)).into());
        }
        qp.start_post_recv().post(&RecvWr::new(round + 1, &[pong]))?;
        if args.listens {
            send(&mut qp, ping, &memory, round)?;
        }
    }
    barrier(&stream)?;
    Ok(format!("{rounds} rounds, slept {} times", waiter.sleeps))
}

fn send(qp: &mut QueuePair, from: Sge, memory: &HostMemory, round: u64) -> Result<()> {
    memory.write(0, &round.to_le_bytes());
    let mut batch = qp.start_post_send();
    batch.post(&SendWr::send(round, &[from]).signaled())?;
    Ok(batch.ring()?)
}

struct Waiter<'a> {
    cq: &'a mut CompletionQueue,
    events: &'a EventQueue,
    sleeps: u32,
}

impl Waiter<'_> {
    /// The next completion of a receive; those of sends are looked at and passed over.
    fn receive(&mut self) -> Result<Completion> {
        let mut done = [Completion::default(); 1];
        loop {
            while self.cq.poll(&mut done)? > 0 {
                if good(done[0])?.kind() == WorkKind::Receive {
                    return Ok(done[0]);
                }
            }
            // Ask for an event and for an interrupt of it. What has come since the look raises them at once, so nothing is missed.
            self.cq.request_notify(false)?;
            self.events.request_interrupt()?;
            // The file is one for poll(2), epoll or an async runtime, beside any others. A card without interrupts moves while it is polled.
            if let Some(file) = self.events.interrupt_file() {
                self.sleeps += 1;
                ferrowire::sys::wait_readable(file, Duration::from_secs(10))?;
                self.events.acknowledge()?;
            }
            self.events.poll(&mut [Event::default(); 4])?;
        }
    }
}
