// SPDX-License-Identifier: MIT OR Apache-2.0
//! The binding to a compiled model: the only module with `unsafe`.
//!
//! Verilator keeps each port in a plain integer, or an array of 32-bit words above 64 bits. Their addresses are asked
//! for once, so that reading or writing a port is an indexed access to memory.

use std::collections::HashMap;
use std::ffi::{c_char, c_void, CStr, CString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::{rust_line, BuildError, PortError};
use crate::{shim, PortSpec, Source};

/// A port of a model: good for every model of the same library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(u32);

/// `struct Status` of the shim.
#[repr(C)]
struct Status {
    finished: u32,
    stopped: u32,
    message: [c_char; 1024],
}

type Raw = *mut c_void;

struct Functions {
    create: unsafe extern "C" fn() -> Raw,
    destroy: unsafe extern "C" fn(Raw),
    port: unsafe extern "C" fn(Raw, u32) -> *mut u8,
    status: unsafe extern "C" fn(Raw) -> *mut Status,
    eval: unsafe extern "C" fn(Raw, u64),
    fst_open: unsafe extern "C" fn(Raw, *const c_char) -> u32,
    fst_dump: unsafe extern "C" fn(Raw, u64) -> u32,
    fst_flush: unsafe extern "C" fn(Raw) -> u32,
    fst_close: unsafe extern "C" fn(Raw),
}

struct Inner {
    functions: Functions,
    path: PathBuf,
    source: Source,
    names: HashMap<String, PortId>,
    trace: bool,
    cached: bool,
    // Last, and never before a model is gone: every model holds the Arc.
    _object: libloading::Library,
}

/// A compiled design, ready to be instantiated. Clones are cheap and the same library.
#[derive(Clone)]
pub struct Library(Arc<Inner>);

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("top", &self.0.source.top).field("path", &self.0.path).finish()
    }
}

impl Library {
    pub(crate) fn load(path: &Path, source: &Source, trace: bool, cached: bool) -> Result<Self, BuildError> {
        // SAFETY: the file came from `compile`, whose initialisers are those of Verilator's runtime: they touch nothing
        // outside the object. It opens with RTLD_LOCAL, and exports only `fw_*`. The symbols have the types given, as
        // the shim is part of the file's key. The function pointers live beside the object they point into.
        let opened = unsafe {
            libloading::Library::new(path).and_then(|object| {
                let functions = Functions {
                    create: *object.get(b"fw_create\0")?,
                    destroy: *object.get(b"fw_destroy\0")?,
                    port: *object.get(b"fw_port\0")?,
                    status: *object.get(b"fw_status\0")?,
                    eval: *object.get(b"fw_eval\0")?,
                    fst_open: *object.get(b"fw_fst_open\0")?,
                    fst_dump: *object.get(b"fw_fst_dump\0")?,
                    fst_flush: *object.get(b"fw_fst_flush\0")?,
                    fst_close: *object.get(b"fw_fst_close\0")?,
                };
                Ok((object, functions))
            })
        };
        let (object, functions) =
            opened.map_err(|e| BuildError::Load { path: path.to_path_buf(), message: e.to_string() })?;
        let names = source.ports.iter().zip(0..).map(|(p, i)| (p.name.clone(), PortId(i))).collect();
        let path = path.to_path_buf();
        let inner = Inner { functions, path, source: source.clone(), names, trace, cached, _object: object };
        Ok(Self(Arc::new(inner)))
    }

    /// A model in its initial state: inputs 0, `initial` blocks run, settled, at time 0.
    ///
    /// # Panics
    ///
    /// If the design stops while it starts.
    pub fn instantiate(&self) -> Model {
        let functions = &self.0.functions;
        // SAFETY: no arguments.
        let raw = NonNull::new(unsafe { (functions.create)() })
            .unwrap_or_else(|| panic!("model `{}` does not start", self.0.source.top));
        let slot = |(port, index): (&PortSpec, u32)| {
            // SAFETY: `raw` is a live instance and `index` one of its ports.
            let place = unsafe { (functions.port)(raw.as_ptr(), index) };
            let bytes = shim::storage_bytes(port.width);
            Slot { place: NonNull::new(place).expect("the shim knows its ports"), width: port.width, bytes }
        };
        let slots = self.0.source.ports.iter().zip(0..).map(slot).collect();
        // SAFETY: `raw` is a live instance.
        let status = unsafe { (functions.status)(raw.as_ptr()) };
        let mut model = Model {
            library: self.clone(),
            raw,
            slots,
            status: NonNull::new(status).expect("points into the instance"),
            time: 0,
            half_period: 500,
            waves: false,
            dumped: None,
            panic_on_stop: true,
        };
        model.eval();
        model
    }

    /// The port called `name`.
    pub fn port(&self, name: &str) -> Result<PortId, PortError> {
        self.0.names.get(name).copied().ok_or_else(|| {
            let alike = |known: &&PortSpec| known.name.contains(name) || name.contains(known.name.as_str());
            let near = self.0.source.ports.iter().find(alike).map(|p| p.name.clone());
            PortError { top: self.0.source.top.clone(), port: name.into(), near }
        })
    }

    /// The ports, as they were given.
    pub fn ports(&self) -> &[PortSpec] {
        &self.0.source.ports
    }

    /// Name of the top module.
    pub fn top(&self) -> &str {
        &self.0.source.top
    }

    /// Whether the cache held it, so that nothing was compiled.
    pub fn cached(&self) -> bool {
        self.0.cached
    }

    /// The shared object.
    pub fn path(&self) -> &Path {
        &self.0.path
    }
}

struct Slot {
    place: NonNull<u8>,
    width: u32,
    bytes: u32,
}

/// One running instance of a design.
///
/// A port's value is settled after [`eval`](Self::eval), and what `eval` sees of an input is the last value set. Using a
/// [`PortId`] of another library reads or writes the wrong port, or panics; it is never undefined.
pub struct Model {
    library: Library,
    raw: NonNull<c_void>,
    slots: Box<[Slot]>,
    status: NonNull<Status>,
    time: u64,
    half_period: u64,
    waves: bool,
    dumped: Option<u64>,
    panic_on_stop: bool,
}

// SAFETY: an instance refers to no thread: its context is set as the current thread's at each call, and two instances
// share only the runtime's statics, which Verilator guards by mutexes. `&Model` gives only plain reads of ports, which
// cannot meet a write, for that takes `&mut Model`; Sync is not claimed all the same, as nothing needs it.
unsafe impl Send for Model {}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("top", &self.library.top()).field("time", &self.time).finish()
    }
}

impl Model {
    /// The port called `name`.
    pub fn port(&self, name: &str) -> Result<PortId, PortError> {
        self.library.port(name)
    }

    /// The library it is an instance of.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Width of a port in bits.
    pub fn width(&self, port: PortId) -> u32 {
        self.slot(port).width
    }

    #[inline]
    fn slot(&self, port: PortId) -> &Slot {
        &self.slots[port.0 as usize]
    }

    /// The value of a port, or the low 64 bits of a wider one.
    #[inline]
    pub fn get_u64(&self, port: PortId) -> u64 {
        let slot = self.slot(port);
        let place = slot.place.as_ptr();
        // SAFETY: `place` is the port's storage in this live instance, an aligned integer of `bytes` bytes or, above 8,
        // an array of at least three 32-bit words; the shim asserts the size when it is compiled.
        unsafe {
            match slot.bytes {
                1 => u64::from(place.read()),
                2 => u64::from(place.cast::<u16>().read()),
                4 => u64::from(place.cast::<u32>().read()),
                8 => place.cast::<u64>().read(),
                _ => {
                    let words = place.cast::<u32>();
                    u64::from(words.read()) | u64::from(words.add(1).read()) << 32
                }
            }
        }
    }

    /// Sets an input; bits above its width are dropped, those of a wider port cleared. Takes effect at the next
    /// [`eval`](Self::eval).
    #[inline]
    pub fn set_u64(&mut self, port: PortId, value: u64) {
        let slot = self.slot(port);
        let place = slot.place.as_ptr();
        let value = if slot.width < 64 { value & ((1 << slot.width) - 1) } else { value };
        // SAFETY: as for `get_u64`; `&mut self` makes it the only access. The casts keep what the mask left.
        unsafe {
            match slot.bytes {
                1 => place.write(value as u8),
                2 => place.cast::<u16>().write(value as u16),
                4 => place.cast::<u32>().write(value as u32),
                8 => place.cast::<u64>().write(value),
                bytes => {
                    let words = std::slice::from_raw_parts_mut(place.cast::<u32>(), bytes as usize / 4);
                    words.fill(0);
                    words[0] = value as u32;
                    words[1] = (value >> 32) as u32;
                }
            }
        }
    }

    /// Copies a port's value into little-endian 64-bit words. Words beyond the port are cleared, bits beyond `words` left
    /// out.
    #[inline]
    pub fn get_words(&self, port: PortId, words: &mut [u64]) {
        let slot = self.slot(port);
        if slot.bytes <= 8 {
            let value = self.get_u64(port);
            words.fill(0);
            if let Some(first) = words.first_mut() {
                *first = value;
            }
            return;
        }
        let from = self.wide(slot);
        let mut halves =
            from.chunks(2).map(|h| u64::from(h[0]) | u64::from(h.get(1).copied().unwrap_or(0)) << 32);
        for word in words {
            *word = halves.next().unwrap_or(0);
        }
    }

    /// Sets an input of any width from little-endian 64-bit words; missing words are 0, bits beyond the port dropped.
    #[inline]
    pub fn set_words(&mut self, port: PortId, words: &[u64]) {
        if self.slot(port).bytes <= 8 {
            return self.set_u64(port, words.first().copied().unwrap_or(0));
        }
        let (to, top) = self.wide_mut(port);
        for (index, half) in to.iter_mut().enumerate() {
            let word = words.get(index / 2).copied().unwrap_or(0);
            *half = (word >> (index % 2 * 32)) as u32;
        }
        to[to.len() - 1] &= top;
    }

    /// Copies a port's value into little-endian bytes. Bytes beyond the port are cleared, bits beyond `bytes` left out.
    #[inline]
    pub fn get_bytes(&self, port: PortId, bytes: &mut [u8]) {
        let slot = self.slot(port);
        if slot.bytes <= 8 {
            let value = self.get_u64(port).to_le_bytes();
            let n = bytes.len().min(8);
            bytes[..n].copy_from_slice(&value[..n]);
            bytes[n..].fill(0);
            return;
        }
        let mut from = self.wide(slot).iter();
        for chunk in bytes.chunks_mut(4) {
            let word = from.next().copied().unwrap_or(0);
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
    }

    /// Sets an input of any width from little-endian bytes; missing bytes are 0, bits beyond the port dropped.
    #[inline]
    pub fn set_bytes(&mut self, port: PortId, bytes: &[u8]) {
        let word = |chunk: &[u8]| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        };
        if self.slot(port).bytes <= 8 {
            return self.set_u64(port, word(&bytes[..bytes.len().min(8)]));
        }
        let (to, top) = self.wide_mut(port);
        let mut chunks = bytes.chunks(4);
        for half in to.iter_mut() {
            *half = chunks.next().map_or(0, word) as u32;
        }
        to[to.len() - 1] &= top;
    }

    #[inline]
    fn wide(&self, slot: &Slot) -> &[u32] {
        assert!(slot.bytes > 8);
        // SAFETY: a port above 64 bits is an aligned array of `bytes / 4` words in this live instance, which only
        // `&mut self` writes.
        unsafe { std::slice::from_raw_parts(slot.place.as_ptr().cast(), slot.bytes as usize / 4) }
    }

    /// The words of a wide port, and the mask of the last one.
    #[inline]
    fn wide_mut(&mut self, port: PortId) -> (&mut [u32], u32) {
        let slot = self.slot(port);
        assert!(slot.bytes > 8);
        let top = u32::MAX >> (slot.width.next_multiple_of(32) - slot.width);
        // SAFETY: as for `wide`, and `&mut self` makes it the only access.
        (unsafe { std::slice::from_raw_parts_mut(slot.place.as_ptr().cast(), slot.bytes as usize / 4) }, top)
    }

    /// Settles the design: reacts to every input set since, clock edges among them.
    ///
    /// # Panics
    ///
    /// When a `$stop` or `$fatal` is met, unless [`panic_on_stop`](Self::panic_on_stop) is off.
    #[inline]
    pub fn eval(&mut self) {
        // SAFETY: `raw` is a live instance.
        unsafe { (self.library.0.functions.eval)(self.raw.as_ptr(), self.time) };
        if self.status().stopped != 0 && self.panic_on_stop {
            self.fail();
        }
    }

    /// One period of `clock`: half a period low, the rising edge, half a period high, the falling edge. Inputs
    /// set before are what the
    /// rising edge samples; in waves they change with the falling edge before it.
    #[inline]
    pub fn tick(&mut self, clock: PortId) {
        self.advance(self.half_period);
        self.set_u64(clock, 1);
        self.eval();
        self.advance(self.half_period);
        self.set_u64(clock, 0);
        self.eval();
    }

    /// `n` periods of `clock`.
    pub fn ticks(&mut self, clock: PortId, n: u64) {
        for _ in 0..n {
            self.tick(clock);
        }
    }

    /// Half a period of [`tick`](Self::tick) in picoseconds; 500 at first.
    pub fn set_half_period(&mut self, ps: u64) {
        self.half_period = ps;
    }

    /// Time in picoseconds.
    #[inline]
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Moves time on. With waves open, the settled state of the moment left behind is written first.
    #[inline]
    pub fn advance(&mut self, ps: u64) {
        if self.waves && ps > 0 {
            self.eval();
            self.dump();
        }
        self.time += ps;
    }

    /// Moves time on to `ps`.
    ///
    /// # Panics
    ///
    /// If that is in the past.
    pub fn set_time(&mut self, ps: u64) {
        let by =
            ps.checked_sub(self.time).unwrap_or_else(|| panic!("time {ps} ps is before {} ps", self.time));
        self.advance(by);
    }

    /// Whether `$finish` was met.
    pub fn finished(&self) -> bool {
        self.status().finished != 0
    }

    /// What the first `$stop` or `$fatal` said, and where.
    pub fn stopped(&self) -> Option<String> {
        let status = self.status();
        if status.stopped == 0 {
            return None;
        }
        // SAFETY: the shim ends the message with 0 within its array, which lives as long as the instance.
        let message = unsafe { CStr::from_ptr(status.message.as_ptr()) }.to_string_lossy().into_owned();
        let line = message.split(':').nth(1).and_then(|l| l.parse().ok());
        let verilog: Vec<&str> = self.library.0.source.verilog.lines().collect();
        Some(match line.and_then(|l| rust_line(&verilog, l)) {
            Some(rust) => format!("{message}, generated by {rust}"),
            None => message,
        })
    }

    /// Whether [`eval`](Self::eval) panics at a `$stop` or `$fatal`, as it does at first; otherwise ask
    /// [`stopped`](Self::stopped).
    pub fn panic_on_stop(&mut self, on: bool) {
        self.panic_on_stop = on;
    }

    #[inline]
    fn status(&self) -> &Status {
        // SAFETY: points into the live instance, which writes to it only under calls that take `&mut self`.
        unsafe { self.status.as_ref() }
    }

    #[cold]
    fn fail(&mut self) {
        let said = self.stopped().unwrap_or_default();
        self.panic_on_stop = false; // so that the flush does not come back here
        self.flush_fst();
        panic!("model `{}` at {} ps: {said}", self.library.top(), self.time);
    }

    /// Writes waves to `path` from now on, in FST, with times in picoseconds. A file already open is closed.
    ///
    /// # Errors
    ///
    /// If the model was built without [`Options::trace`](crate::Options::trace), or the file cannot be written.
    pub fn open_fst(&mut self, path: impl AsRef<Path>) -> Result<(), BuildError> {
        let path = path.as_ref();
        let refuse = |kind, why: &str| BuildError::io("opening waves", path)(std::io::Error::new(kind, why));
        if !self.library.0.trace {
            let why = format!("model `{}` was built without `Options::trace`", self.library.top());
            return Err(refuse(std::io::ErrorKind::Unsupported, &why));
        }
        self.close_fst();
        // Verilator would only print that it cannot.
        std::fs::File::create(path).map_err(BuildError::io("opening waves", path))?;
        let bad_path = |_| refuse(std::io::ErrorKind::InvalidInput, "0 in the path");
        let c_path = CString::new(path.as_os_str().as_encoded_bytes()).map_err(bad_path)?;
        // SAFETY: a live instance, built with traces, and a string that outlives the call.
        if unsafe { (self.library.0.functions.fst_open)(self.raw.as_ptr(), c_path.as_ptr()) } == 0 {
            return Err(refuse(std::io::ErrorKind::Other, &self.stopped().unwrap_or_default()));
        }
        self.waves = true;
        self.dumped = None;
        Ok(())
    }

    /// Whether waves are being written.
    pub fn has_fst(&self) -> bool {
        self.waves
    }

    /// Writes the waves up to now to the file.
    pub fn flush_fst(&mut self) {
        if self.waves {
            self.dump();
            // SAFETY: a live instance with waves open.
            unsafe { (self.library.0.functions.fst_flush)(self.raw.as_ptr()) };
        }
    }

    /// Ends the waves; dropping the model does so too.
    pub fn close_fst(&mut self) {
        if self.waves {
            self.dump();
            self.waves = false;
            // SAFETY: a live instance with waves open.
            unsafe { (self.library.0.functions.fst_close)(self.raw.as_ptr()) };
        }
    }

    fn dump(&mut self) {
        // A second dump of one time is refused by Verilator.
        if self.dumped.is_none_or(|at| at < self.time) {
            // SAFETY: a live instance with waves open.
            unsafe { (self.library.0.functions.fst_dump)(self.raw.as_ptr(), self.time) };
            self.dumped = Some(self.time);
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.close_fst();
        // SAFETY: a live instance, not used again; the library outlives it.
        unsafe { (self.library.0.functions.destroy)(self.raw.as_ptr()) };
    }
}
