// SPDX-License-Identifier: MIT OR Apache-2.0
//! A key-value store: GETs are READs of the server's memory, of which its processor knows nothing; PUTs are messages to it.
//!
//! ```text
//! cargo run -p ferrowire-sim -- up
//! cargo run -p ferrowire --example kv_store -- sim:ferrowire0.sock listen 127.0.0.1:7471
//! cargo run -p ferrowire --example kv_store -- sim:ferrowire1.sock connect 127.0.0.1:7471 put colour green get colour
//! ```
//!
//! A READ may come while the server writes the slot. So each slot has a checksum: who reads a torn one reads again. The server writes a
//! slot by plain stores in any order.

pub mod common;

use std::net::TcpStream;

use common::{good, is_gone, Args, Result};
use ferrowire::*;

const SLOTS: usize = 64;
const KEY: usize = 16;
const VALUE: usize = 32;

/// A slot as it is in memory: version (8 bytes; 0: empty), key, value, checksum (8 bytes) of all before it.
const SLOT: usize = 8 + KEY + VALUE + 8;
/// A PUT: key and value.
const PUT: usize = KEY + VALUE;
/// Where the receive buffers begin, behind the table.
const BUFFERS: usize = SLOTS * SLOT;
/// PUTs that may be under way.
const WINDOW: u64 = 8;

/// What is in a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// How many PUTs it has seen.
    pub version: u64,
    /// Padded with zeros.
    pub key: [u8; KEY],
    /// Padded with zeros.
    pub value: [u8; VALUE],
}

impl Slot {
    /// An empty one.
    pub const EMPTY: Slot = Slot { version: 0, key: [0; KEY], value: [0; VALUE] };

    /// As it is in memory.
    pub fn to_bytes(&self) -> [u8; SLOT] {
        let mut bytes = [0; SLOT];
        bytes[..8].copy_from_slice(&self.version.to_le_bytes());
        bytes[8..][..KEY].copy_from_slice(&self.key);
        bytes[8 + KEY..][..VALUE].copy_from_slice(&self.value);
        let sum = checksum(&bytes[..SLOT - 8]);
        bytes[SLOT - 8..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// From memory; `None` when it is torn: read while it was written.
    pub fn parse(bytes: &[u8; SLOT]) -> Option<Self> {
        let (body, sum) = bytes.split_at(SLOT - 8);
        let slot = Slot {
            version: u64::from_le_bytes(body[..8].try_into().ok()?),
            key: body[8..][..KEY].try_into().ok()?,
            value: body[8 + KEY..].try_into().ok()?,
        };
        (sum == checksum(body).to_le_bytes()).then_some(slot)
    }
}

/// FNV-1a: it finds what is torn, not who forges.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// A text of at most `N` bytes, padded with zeros.
fn padded<const N: usize>(text: &str) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let room = bytes.get_mut(..text.len()).ok_or(format!("`{text}` has more than {N} bytes"))?;
    room.copy_from_slice(text.as_bytes());
    Ok(bytes)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').into()
}

/// The slots in which a key may be, in the order in which to look.
fn places(key: &[u8; KEY]) -> impl Iterator<Item = usize> {
    let first = checksum(key) as usize;
    (0..SLOTS).map(move |i| (first.wrapping_add(i)) % SLOTS)
}

fn main() -> std::process::ExitCode {
    common::start("CARD listen|connect HOST:PORT [put KEY VALUE | get KEY]...", run)
}

/// Does all of it, and says what happened.
pub fn run(args: &[String]) -> Result<String> {
    let args = Args::parse(args)?;
    let stream = args.meet()?;
    let context = args.open()?;
    let pd = context.alloc_pd()?;
    let mut cq = context.create_cq(64)?;
    let qp = pd.create_qp(&QpInitAttr::rc(&cq, &cq))?;
    let memory = context.alloc(8192, 4096)?;
    (0..SLOTS).for_each(|i| memory.write(i * SLOT, &Slot::EMPTY.to_bytes()));
    // The server's table may be read by its peer, and by no means written.
    let access = AccessFlags::LOCAL_READ | AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ;
    let region = pd.register(&memory, access, PageSize::Size4K)?;
    let (mut qp, table) = args.connect(&context, qp, &stream, region.remote(0))?;
    for id in 0..WINDOW {
        qp.start_post_recv().post(&RecvWr::new(id, &[buffer(&region, id)]))?;
    }
    common::barrier(&stream)?;
    // From here on the connection says one thing only: whether the other program is there still.
    stream.set_nonblocking(true)?;
    match args.listens {
        true => serve(&mut qp, &mut cq, &region, &stream),
        false => Client { qp, cq, region, table, stream, acknowledged: 0, sent: 0, torn: 0 }.play(&args.more),
    }
}

/// The receive buffer of a work request.
fn buffer(region: &MemoryRegion, id: u64) -> Sge {
    region.sge(BUFFERS + id as usize * PUT, PUT as u32)
}

/// Takes PUTs until the client is gone.
fn serve(
    qp: &mut QueuePair,
    cq: &mut CompletionQueue,
    region: &MemoryRegion,
    stream: &TcpStream,
) -> Result<String> {
    let memory = region.memory();
    let (mut puts, mut done) = (0u64, [Completion::default(); 16]);
    loop {
        let n = cq.poll(&mut done)?;
        if n == 0 && is_gone(stream) {
            return Ok(format!("{puts} PUTs"));
        }
        for completion in &done[..n] {
            let id = good(*completion)?.wr_id();
            if completion.kind() == WorkKind::Send {
                continue;
            }
            let mut put = [0; PUT];
            memory.read(BUFFERS + id as usize * PUT, &mut put);
            let (key, value) = (put[..KEY].try_into()?, put[KEY..].try_into()?);
            let mut found = None;
            for at in places(&key) {
                let mut bytes = [0; SLOT];
                memory.read(at * SLOT, &mut bytes);
                let slot = Slot::parse(&bytes).ok_or("the server's own table is torn")?;
                if slot.version == 0 || slot.key == key {
                    found = Some((at, slot.version + 1));
                    break;
                }
            }
            let (at, version) = found.ok_or("the table is full")?;
            memory.write(at * SLOT, &Slot { version, key, value }.to_bytes());
            puts += 1;
            // The buffer is free again, and the client is told so.
            qp.start_post_recv().post(&RecvWr::new(id, &[buffer(region, id)]))?;
            let mut batch = qp.start_post_send();
            batch.post(&SendWr::send_imm(id, &[], puts as u32).signaled())?;
            batch.ring()?;
        }
    }
}

struct Client {
    qp: QueuePair,
    cq: CompletionQueue,
    region: MemoryRegion,
    /// The server's table.
    table: RemoteAddress,
    stream: TcpStream,
    sent: u64,
    acknowledged: u64,
    /// READs that had to be repeated.
    torn: u64,
}

impl Client {
    /// Carries out `put KEY VALUE`, `get KEY`, and `race KEY N`: N PUTs of the numbers 1 to N, with GETs in between that do not wait.
    fn play(&mut self, commands: &[String]) -> Result<String> {
        let mut out = Vec::new();
        let mut words = commands.iter().map(String::as_str);
        while let Some(command) = words.next() {
            let key = words.next().ok_or(format!("{command} what?"))?;
            match command {
                "get" => {
                    let value = self.get(key)?;
                    out.push(
                        value.map_or(format!("{key}: none"), |value| format!("{key}: {}", text(&value))),
                    );
                }
                "put" => {
                    self.put(key, words.next().ok_or(format!("put {key} what?"))?)?;
                    self.wait_for_puts(self.sent)?;
                }
                "race" => {
                    let count: u64 = words.next().ok_or("race how often?")?.parse()?;
                    let mut last = 0;
                    for number in 1..=count {
                        self.put(key, &format!("{number:032}"))?;
                        let Some(value) = self.get(key)? else { continue };
                        let seen = text(&value).parse()?;
                        if seen < last || seen > number {
                            return Err(format!("{seen} behind {last}, of {number}").into());
                        }
                        last = seen;
                    }
                    self.wait_for_puts(self.sent)?;
                    out.push(format!("{key}: {}", text(&self.get(key)?.ok_or("lost")?)));
                }
                other => return Err(format!("`{other}`; give get, put or race").into()),
            }
        }
        out.push(format!("{} READs were torn and repeated", self.torn));
        Ok(out.join("\n"))
    }

    /// A GET: one READ of 64 bytes, seldom more.
    fn get(&mut self, key: &str) -> Result<Option<[u8; VALUE]>> {
        let key = padded(key)?;
        for at in places(&key) {
            let slot = loop {
                let there = RemoteAddress { address: self.table.address + (at * SLOT) as u64, ..self.table };
                let mut batch = self.qp.start_post_send();
                batch.post(&SendWr::read(READ, &[self.region.sge(0, SLOT as u32)], there).signaled())?;
                batch.ring()?;
                while !self.take()? {}
                let mut bytes = [0; SLOT];
                self.region.memory().read(0, &mut bytes);
                match Slot::parse(&bytes) {
                    Some(slot) => break slot,
                    None => self.torn += 1,
                }
            };
            match slot.version {
                0 => return Ok(None),
                _ if slot.key == key => return Ok(Some(slot.value)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Sends a PUT. The server has a buffer for each of the window.
    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        self.wait_for_puts((self.sent + 1).saturating_sub(WINDOW))?;
        let at = SLOT + (self.sent % WINDOW) as usize * PUT;
        self.region.memory().write(at, &padded::<KEY>(key)?);
        self.region.memory().write(at + KEY, &padded::<VALUE>(value)?);
        let mut batch = self.qp.start_post_send();
        batch.post(&SendWr::send(self.sent % WINDOW, &[self.region.sge(at, PUT as u32)]).signaled())?;
        batch.ring()?;
        self.sent += 1;
        Ok(())
    }

    fn wait_for_puts(&mut self, count: u64) -> Result<()> {
        while self.acknowledged < count {
            self.take()?;
        }
        Ok(())
    }

    /// Takes a completion, if there is one; whether it is of a READ.
    fn take(&mut self) -> Result<bool> {
        let mut done = [Completion::default(); 1];
        if self.cq.poll(&mut done)? == 0 {
            return if is_gone(&self.stream) { Err("the server is gone".into()) } else { Ok(false) };
        }
        let done = good(done[0])?;
        if done.kind() == WorkKind::Receive {
            self.acknowledged += 1;
            self.qp
                .start_post_recv()
                .post(&RecvWr::new(done.wr_id(), &[buffer(&self.region, done.wr_id())]))?;
        }
        Ok(done.kind() == WorkKind::Send && done.wr_id() == READ)
    }
}

/// Work request number of a READ.
const READ: u64 = u64::MAX;
