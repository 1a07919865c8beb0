// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages to and fro in an async runtime: one thread waits for completions and for the other program at once, by tokio's `AsyncFd`.
//!
//! ```text
//! cargo run -p ferrowire-sim -- up
//! cargo run -p ferrowire --example async_wait -- sim:ferrowire0.sock listen 127.0.0.1:7471
//! cargo run -p ferrowire --example async_wait -- sim:ferrowire1.sock connect 127.0.0.1:7471
//! ```

pub mod common;

use std::future::{pending, poll_fn, Future};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::task::Poll;

use common::{barrier, good, Args, Result};
use ferrowire::*;
use tokio::io::unix::AsyncFd;

/// Bytes of a message: its number.
const BYTES: u32 = 8;

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
    let events = context.create_eq(16)?;
    let cq = context.create_cq_with_events(16, &events)?;
    let qp = pd.create_qp(&QpInitAttr::rc(&cq, &cq))?;
    let memory = context.alloc(4096, 4096)?;
    let access = AccessFlags::LOCAL_READ | AccessFlags::LOCAL_WRITE;
    let region = pd.register(&memory, access, PageSize::Size4K)?;
    let (mut qp, _) = args.connect(&context, qp, &stream, region.remote(0))?;
    // The first receive is there before the other program may send.
    let (ping, pong) = (region.sge(0, BYTES), region.sge(2048, BYTES));
    qp.start_post_recv().post(&RecvWr::new(0, &[pong]))?;
    barrier(&stream)?;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let waits = runtime.block_on(async {
        let mut completions = Completions::new(cq, events)?;
        stream.set_nonblocking(true)?;
        let peer = tokio::net::TcpStream::from_std(stream.try_clone()?)?;
        let mut sent = true;
        for round in 0..rounds {
            for receives in [args.listens, !args.listens] {
                if !receives {
                    memory.write(0, &round.to_le_bytes());
                    let mut batch = qp.start_post_send();
                    batch.post(&SendWr::send(round, &[ping]).signaled())?;
                    batch.ring()?;
                    sent = false;
                    continue;
                }
                // Its completion may come before or after that of the message sent.
                let message = loop {
                    let done = good(first(completions.next(), gone(&peer)).await?)?;
                    match done.kind() {
                        WorkKind::Send => sent = true,
                        WorkKind::Receive => break done,
                    }
                };
                let mut number = [0; BYTES as usize];
                memory.read(2048, &mut number);
                if u64::from_le_bytes(number) != round || message.byte_len() != BYTES {
                    return Err(format!("round {round}: message {}", u64::from_le_bytes(number)).into());
                }
                qp.start_post_recv().post(&RecvWr::new(round + 1, &[pong]))?;
            }
        }
        while !sent {
            sent = good(first(completions.next(), gone(&peer)).await?)?.kind() == WorkKind::Send;
        }
        Result::Ok(completions.waits)
    })?;
    stream.set_nonblocking(false)?;
    barrier(&stream)?;
    Ok(format!("{rounds} rounds, waited {waits} times"))
}

/// A completion queue whose completions are awaited.
struct Completions {
    cq: CompletionQueue,
    events: EventQueue,
    /// The file that the card's interrupts make readable.
    file: AsyncFd<OwnedFd>,
    waits: u32,
}

impl Completions {
    fn new(cq: CompletionQueue, events: EventQueue) -> Result<Self> {
        let file =
            events.interrupt_file().ok_or("the card has no interrupts to wait for; take sim: or PCI")?;
        // Newer versions of tokio call this deprecated, for files that may become others while they are waited for. An `OwnedFd` does not.
        #[allow(deprecated)]
        let file = AsyncFd::new(file.try_clone_to_owned()?)?;
        Ok(Self { cq, events, file, waits: 0 })
    }

    /// The next completion. It may be dropped while it waits: nothing is lost.
    async fn next(&mut self) -> Result<Completion> {
        let mut done = [Completion::default(); 1];
        while self.cq.poll(&mut done)? == 0 {
            // An event for the next completion, and an interrupt for that event. What has come since the look raises them at once.
            self.cq.request_notify(false)?;
            self.events.request_interrupt()?;
            self.waits += 1;
            self.file.readable().await?.clear_ready();
            self.events.acknowledge()?;
            self.events.poll(&mut [Event::default(); 4])?;
        }
        Ok(done[0])
    }
}

/// Ends with an error when the other program has ended: its end of the TCP connection is closed then. A queue pair notices that late, or never,
/// when it only waits.
async fn gone(stream: &tokio::net::TcpStream) -> Result<Completion> {
    match stream.peek(&mut [0; 1]).await {
        // It is at the barrier: the code after this reads the byte.
        Ok(1..) => pending().await,
        _ => Err("the other program is gone".into()),
    }
}

/// What the first of two futures says that has something to say.
async fn first<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Pending => other.as_mut().poll(context),
        ready => ready,
    })
    .await
}
