// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program writes into the memory of another one, which does nothing for it.
//!
//! ```text
//! cargo run -p ferrowire-sim -- up
//! cargo run -p ferrowire --example hello_write -- sim:ferrowire0.sock listen 127.0.0.1:7471
//! cargo run -p ferrowire --example hello_write -- sim:ferrowire1.sock connect 127.0.0.1:7471
//! ```

pub mod common;

use common::{barrier, good, Args, Result};
use ferrowire::*;

const TEXT: &[u8] = b"hello from the other card";

fn main() -> std::process::ExitCode {
    common::start(common::USAGE, run)
}

/// Does all of it, and says what happened.
pub fn run(args: &[String]) -> Result<String> {
    let args = Args::parse(args)?;
    let stream = args.meet()?;
    let context = args.open()?;
    let pd = context.alloc_pd()?;
    let cq = context.create_cq(16)?;
    let qp = pd.create_qp(&QpInitAttr::rc(&cq, &cq))?;
    let memory = context.alloc(4096, 4096)?;
    let access = AccessFlags::LOCAL_READ | AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    let region = pd.register(&memory, access, PageSize::Size4K)?;
    // The other program says where its memory is, and hears where this one's is.
    let (mut qp, remote) = args.connect(&context, qp, &stream, region.remote(0))?;

    if args.listens {
        // Here nothing is done until the other program says that the bytes are there.
        barrier(&stream)?;
        let mut text = [0; TEXT.len()];
        memory.read(0, &mut text);
        return Ok(format!("my memory says: {}", String::from_utf8_lossy(&text)));
    }

    // These lines write into the other card's memory.
    memory.write(0, TEXT);
    let mut batch = qp.start_post_send();
    batch.post(&SendWr::write(1, &[region.sge(0, TEXT.len() as u32)], remote).signaled())?;
    batch.ring()?;
    let mut done = [Completion::default(); 1];
    while cq.poll(&mut done)? == 0 {}
    good(done[0])?;

    barrier(&stream)?;
    Ok(format!("{} bytes written", TEXT.len()))
}
