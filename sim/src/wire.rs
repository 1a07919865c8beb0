// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Link`]: one direction of a wire, what it does to frames, and the files that hold them.
//!
//! ```text
//!  tx --> [ queue: latency, two beats of slack ] ------------------> rx     as long as there is no filter
//!  tx --> [ frame ] --> filter --> [ frames ] --+
//!                         injected frames ------+---> beats -------> rx     between the frames of the above
//! ```
//!
//! Without a filter, a beat passes from the sender to the receiver in the cycle in which it is sent (and `latency` cycles
//! later, if that is not 0). With one, frames are stored whole and go on as the filter says, some of them late.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::{bail, Context as _, Result};
pub use faults::{mark_congestion, Delivery, Faults, TimedFilter};
use ferrowire_spec::wire::frame::{Frame, FrameError};
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgBlock, PcapNgReader, PcapNgWriter};
use pcap_file::DataLink;

mod faults;
#[cfg(test)]
mod tests;

/// Bytes of the widest beat.
pub const MAX_BEAT: usize = 64;

/// Bytes that Ethernet puts round a frame without FCS: preamble and start 8, FCS 4, gap 12.
pub const FRAME_OVERHEAD: u64 = 24;

/// Shortest frame without FCS.
pub const MIN_FRAME: u64 = 60;

/// Bytes that a frame takes on the wire, with all that belongs to it.
pub fn wire_bytes(frame: u64) -> u64 {
    frame.max(MIN_FRAME) + FRAME_OVERHEAD
}

/// A cycle's worth of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The bytes: as many as the card's beats have.
    pub data: [u8; MAX_BEAT],
    /// The frame ends with it.
    pub last: bool,
    /// Bytes at its top that are not the frame's.
    pub empty: u8,
}

impl Beat {
    /// Zeros.
    pub const EMPTY: Beat = Beat { data: [0; MAX_BEAT], last: false, empty: 0 };

    /// Beat `at / width` of a frame.
    pub(crate) fn of(frame: &[u8], at: usize, width: usize) -> Beat {
        let bytes = (frame.len() - at).min(width);
        let mut beat = Beat::EMPTY;
        beat.data[..bytes].copy_from_slice(&frame[at..at + bytes]);
        beat.last = at + bytes == frame.len();
        beat.empty = (width - bytes) as u8;
        beat
    }
}

/// What becomes of a frame: the frames that are delivered in its place.
pub type Filter = Box<dyn FnMut(&[u8]) -> Vec<Vec<u8>> + Send>;

/// A frame that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFrame {
    /// Cycle of its first beat.
    pub first: u64,
    /// Cycle of its last beat.
    pub last: u64,
    /// The frame.
    pub bytes: Vec<u8>,
    /// What the wire made of it, if that is not the frame itself.
    pub note: Option<String>,
}

/// When a frame was sent, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Cycle of its first beat.
    pub first: u64,
    /// Cycle of its last beat.
    pub last: u64,
    /// Bytes, without FCS.
    pub bytes: u64,
}

/// The bytes of a frame, as it stands but for its ICRC.
///
/// # Errors
/// As [`Frame::emit`].
pub fn encoded(frame: &Frame<'_>) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; frame.len()];
    frame.emit(&mut bytes)?;
    Ok(bytes)
}

/// One direction of a wire.
pub struct Link {
    width: usize,
    latency: u64,
    /// Bytes of the wire in a cycle, and when it is free again.
    rate: Option<f64>,
    free_at: f64,
    queue: VecDeque<(u64, Beat)>,
    filter: Option<TimedFilter>,
    /// What takes its place when the frame that is passing has ended.
    next_filter: Option<Option<TimedFilter>>,
    /// In the order of their times.
    stored: VecDeque<Stored>,
    sending: usize,
    /// A frame has been delivered in part, from the queue.
    open: bool,
    started: Option<u64>,
    length: u64,
    frame: Vec<u8>,
    keep: bool,
    next_keep: Option<bool>,
    sent: Vec<SentFrame>,
    marking: bool,
    marks: Vec<Mark>,
    frames: u64,
    /// What this cycle's beat came from.
    source: Source,
}

/// A whole frame on its way.
struct Stored {
    /// When it may begin.
    due: u64,
    /// Frames still to come before it; when they have, it is due.
    behind: u32,
    frame: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    None,
    Stored,
    Queue,
    Sender,
}

impl Link {
    /// A link of `width` bytes a beat.
    pub fn new(width: usize, latency: u64) -> Self {
        Self {
            width,
            latency,
            rate: None,
            free_at: 0.0,
            queue: VecDeque::new(),
            filter: None,
            next_filter: None,
            stored: VecDeque::new(),
            sending: 0,
            open: false,
            started: None,
            length: 0,
            frame: Vec::new(),
            keep: false,
            next_keep: None,
            sent: Vec::new(),
            marking: false,
            marks: Vec::new(),
            frames: 0,
            source: Source::None,
        }
    }

    /// Bytes of a beat.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Takes frames no faster than a wire of so many bytes a cycle, with preamble, FCS and gap; a sender waits meanwhile.
    /// Without a rate, a beat a cycle.
    pub fn set_rate(&mut self, bytes_per_cycle: Option<f64>) {
        self.rate = bytes_per_cycle;
    }

    /// Lets `filter` decide what becomes of each frame from the next one on, or nobody.
    pub fn set_filter(&mut self, filter: Option<Filter>) {
        self.set_timed_filter(filter.map(|mut filter| -> TimedFilter {
            Box::new(move |frame| filter(frame).into_iter().map(Delivery::at_once).collect())
        }));
    }

    /// The same for a filter that also says when.
    pub fn set_timed_filter(&mut self, filter: Option<TimedFilter>) {
        self.next_filter = Some(filter);
        self.change();
    }

    /// Keeps the frames that are sent from the next one on, or keeps them no more.
    pub fn keep_frames(&mut self, keep: bool) {
        self.next_keep = Some(keep);
        self.change();
    }

    /// What was asked for takes effect between frames.
    fn change(&mut self) {
        if self.started.is_none() {
            self.filter = self.next_filter.take().unwrap_or_else(|| self.filter.take());
            self.keep = self.next_keep.take().unwrap_or(self.keep);
        }
    }

    /// The frames that were kept, the oldest first; they are forgotten here.
    pub fn take_frames(&mut self) -> Vec<SentFrame> {
        std::mem::take(&mut self.sent)
    }

    /// The frames that were kept.
    pub fn sent(&self) -> &[SentFrame] {
        &self.sent
    }

    /// Keeps the cycles of the frames that are sent from now on, and forgets those of before; or keeps them no more.
    pub fn mark(&mut self, marking: bool) {
        self.marking = marking;
        self.marks.clear();
    }

    /// When frames were sent, since [`mark`](Self::mark).
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// When the frame that is being sent began.
    pub fn started(&self) -> Option<u64> {
        self.started
    }

    /// Frames that were sent.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Delivers a frame that nobody sent, behind those that wait for the receiver.
    pub fn inject(&mut self, cycle: u64, frame: Vec<u8>) {
        if self.keep {
            let note = Some("injected".to_string());
            self.sent.push(SentFrame { first: cycle, last: cycle, bytes: frame.clone(), note });
        }
        self.store(Stored { due: cycle, behind: 0, frame });
    }

    /// A whole frame from a sender that has no beats. What a sender with beats meets, it meets too: rate and filter.
    pub fn send(&mut self, cycle: u64, frame: Vec<u8>) {
        self.length = frame.len() as u64;
        self.frame = frame;
        if self.filter.is_none() {
            let frame = self.frame.clone();
            self.store(Stored { due: cycle + 1 + self.latency, behind: 0, frame });
        }
        self.end_frame(cycle, cycle);
    }

    /// The next frame that is due, whole: for a receiver that has no beats. Only senders of whole frames get along with it.
    pub fn arrived(&mut self, cycle: u64) -> Option<Vec<u8>> {
        match self.due() {
            Some(due) if due <= cycle => self.stored.pop_front().map(|stored| stored.frame),
            _ => None,
        }
    }

    /// When the next frame is due.
    pub fn due(&self) -> Option<u64> {
        self.stored.front().map(|stored| stored.due)
    }

    /// The first cycle in which it takes a frame again.
    pub fn free_at(&self) -> u64 {
        match self.rate {
            Some(_) => self.free_at.ceil() as u64,
            None => 0,
        }
    }

    /// The sender is there no more: what of a frame it has sent is forgotten.
    pub fn end_sender(&mut self) {
        self.frame.clear();
        self.started = None;
        self.length = 0;
        self.change();
    }

    /// The receiver is there no more: the frame of which it has taken a part is forgotten, and others go to whoever is next.
    pub fn end_receiver(&mut self) {
        if self.sending > 0 {
            self.stored.pop_front();
            self.sending = 0;
        }
        self.open = false;
    }

    /// Whether nothing is on its way.
    pub fn idle(&self) -> bool {
        self.queue.is_empty() && self.stored.is_empty() && self.started.is_none()
    }

    /// Whether it takes a beat in this cycle.
    #[inline]
    pub fn ready(&self, cycle: u64) -> bool {
        let free = self.started.is_some() || self.rate.is_none() || cycle as f64 >= self.free_at;
        // The slack is what a receiver that stalls leaves; the rest is on its way.
        free && self.queue.len() < self.latency as usize + 2
    }

    /// The beat that the receiver sees in this cycle, given the one that the sender offers.
    #[inline]
    pub fn deliver(&mut self, cycle: u64, tx: Option<&Beat>) -> Option<Beat> {
        self.source = Source::None;
        if self.sending > 0 || !self.open {
            if let Some(Stored { due, frame, .. }) = self.stored.front() {
                if self.sending > 0 || *due <= cycle {
                    self.source = Source::Stored;
                    return Some(Beat::of(frame, self.sending, self.width));
                }
            }
        }
        if let Some((due, beat)) = self.queue.front() {
            if *due <= cycle {
                self.source = Source::Queue;
                return Some(*beat);
            }
            return None;
        }
        if self.latency == 0 && self.filter.is_none() && self.ready(cycle) {
            if let Some(beat) = tx {
                self.source = Source::Sender;
                return Some(*beat);
            }
        }
        None
    }

    /// Ends the cycle: `tx` was sent if the link was [`ready`](Self::ready), and the receiver took the beat or not.
    #[inline]
    pub fn commit(&mut self, cycle: u64, tx: Option<&Beat>, taken: bool) {
        if taken {
            match self.source {
                Source::Stored => {
                    self.sending += self.width;
                    if self.stored.front().is_some_and(|stored| self.sending >= stored.frame.len()) {
                        self.stored.pop_front();
                        self.sending = 0;
                    }
                }
                Source::Queue => self.open = self.queue.pop_front().is_some_and(|(_, beat)| !beat.last),
                Source::Sender => self.open = tx.is_some_and(|beat| !beat.last),
                Source::None => {}
            }
        } else if matches!(self.source, Source::Queue | Source::Sender) {
            // It stays on offer: no other frame may come before it.
            self.open = true;
        }
        let Some(beat) = tx else { return };
        let bytes = self.width - usize::from(beat.empty);
        let first = *self.started.get_or_insert(cycle);
        self.length += bytes as u64;
        if self.keep || self.filter.is_some() {
            self.frame.extend_from_slice(&beat.data[..bytes]);
        }
        if self.filter.is_none() && !(taken && self.source == Source::Sender) {
            self.queue.push_back((cycle + self.latency, *beat));
        }
        if beat.last {
            self.end_frame(cycle, first);
        }
    }

    fn end_frame(&mut self, cycle: u64, first: u64) {
        self.frames += 1;
        if let Some(rate) = self.rate {
            // A frame that could not begin in the middle of a cycle does not move those behind it.
            self.free_at = self.free_at.max(first as f64 - 1.0) + wire_bytes(self.length) as f64 / rate;
        }
        if self.marking {
            self.marks.push(Mark { first, last: cycle, bytes: self.length });
        }
        let mut note = None;
        if let Some(filter) = &mut self.filter {
            let delivered = filter(&self.frame);
            note = match &delivered[..] {
                [] => Some("dropped".into()),
                [one] if one.frame != self.frame => Some("changed".into()),
                [one] => (!one.is_prompt()).then(|| "held back".into()),
                more => Some(format!("{} delivered instead", more.len())),
            };
            self.pass_on(cycle, delivered);
        }
        if self.keep {
            self.sent.push(SentFrame { first, last: cycle, bytes: self.frame.clone(), note });
        }
        self.frame.clear();
        self.started = None;
        self.length = 0;
        self.change();
    }

    /// Stores what a filter made of a frame, and lets those go that have been overtaken often enough.
    fn pass_on(&mut self, cycle: u64, delivered: Vec<Delivery>) {
        let due = cycle + 1 + self.latency;
        let mut released = Vec::new();
        if delivered.iter().any(Delivery::is_prompt) {
            for stored in self.stored.iter_mut().filter(|stored| stored.behind > 0) {
                stored.behind -= 1;
                if stored.behind == 0 && stored.due > due {
                    released.push(Stored { due, behind: 0, frame: std::mem::take(&mut stored.frame) });
                }
            }
            self.stored.retain(|stored| !stored.frame.is_empty());
        }
        for Delivery { frame, delay, behind } in delivered {
            if !frame.is_empty() {
                self.store(Stored { due: due.saturating_add(delay), behind, frame });
            }
        }
        for stored in released {
            self.store(stored);
        }
    }

    /// One that is on offer or in progress is due, and no later one gets before it.
    fn store(&mut self, stored: Stored) {
        let at = self.stored.partition_point(|other| other.due <= stored.due);
        self.stored.insert(at, stored);
    }
}

/// Writes frames to a pcapng file: Ethernet without FCS, times in nanoseconds.
pub struct Capture {
    writer: PcapNgWriter<BufWriter<File>>,
    clock_khz: u32,
}

impl Capture {
    /// A new file with an interface for each of `names`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path, names: &[&str], clock_khz: u32) -> Result<Self> {
        let failed = || format!("writing {}", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(failed)?;
        }
        let file = File::create(path).with_context(failed)?;
        let mut writer = PcapNgWriter::new(BufWriter::new(file)).with_context(failed)?;
        for name in names {
            let options = vec![
                InterfaceDescriptionOption::IfName((*name).into()),
                InterfaceDescriptionOption::IfTsResol(9),
                InterfaceDescriptionOption::IfFcsLen(0),
            ];
            let interface = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
            writer.write_block(&interface.into_block()).with_context(failed)?;
        }
        Ok(Self { writer, clock_khz })
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, interface: u32, frame: &SentFrame) -> Result<()> {
        let comment = frame.note.as_deref().map(|note| EnhancedPacketOption::Comment(note.into()));
        let packet = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: time(frame.first, self.clock_khz),
            original_len: frame.bytes.len() as u32,
            data: (&frame.bytes[..]).into(),
            options: comment.into_iter().collect(),
        };
        self.writer.write_block(&packet.into_block()).context("writing a captured frame")?;
        Ok(())
    }
}

/// The time of a cycle.
pub fn time(cycle: u64, clock_khz: u32) -> Duration {
    let nanos = u128::from(cycle) * 1_000_000 / u128::from(clock_khz);
    Duration::from_nanos(nanos as u64)
}

/// A frame of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedFrame {
    /// When it was captured, from the file's own start.
    pub time: Duration,
    /// On which interface; 0 in a pcap file.
    pub interface: u32,
    /// The frame.
    pub bytes: Vec<u8>,
}

/// The frames of a pcap or pcapng file.
///
/// # Errors
/// The file cannot be read, is neither, or is not of Ethernet.
pub fn read_frames(path: &Path) -> Result<Vec<CapturedFrame>> {
    let failed = || format!("reading {}", path.display());
    let mut bytes = Vec::new();
    File::open(path).and_then(|f| BufReader::new(f).read_to_end(&mut bytes)).with_context(failed)?;
    let mut frames = Vec::new();
    if bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) {
        let mut reader = PcapNgReader::new(&bytes[..]).with_context(failed)?;
        while let Some(block) = reader.next_block() {
            match block.with_context(failed)? {
                Block::InterfaceDescription(i) if i.linktype != DataLink::ETHERNET => {
                    bail!("{}: interface of type {:?}, not Ethernet", path.display(), i.linktype)
                }
                Block::EnhancedPacket(packet) => frames.push(CapturedFrame {
                    time: packet.timestamp,
                    interface: packet.interface_id,
                    bytes: packet.data.into_owned(),
                }),
                _ => {}
            }
        }
        return Ok(frames);
    }
    let mut reader = PcapReader::new(&bytes[..]).with_context(failed)?;
    if reader.header().datalink != DataLink::ETHERNET {
        bail!("{}: frames of type {:?}, not Ethernet", path.display(), reader.header().datalink);
    }
    while let Some(packet) = reader.next_packet() {
        let packet = packet.with_context(failed)?;
        frames.push(CapturedFrame { time: packet.timestamp, interface: 0, bytes: packet.data.into_owned() });
    }
    Ok(frames)
}
