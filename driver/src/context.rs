// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Context`]: an open card.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferrowire_spec::csr::{capabilities as cap, identity, timers, DropReason, HwCounter, TrafficCounter};
use ferrowire_spec::qp_state::{GSI_QPN, RAW_QPN};
use ferrowire_spec::queue::command::PathMtu;
use ferrowire_spec::queue::doorbell::{self, PUSH_SLOTS};
use ferrowire_spec::{Field, Psn, Register, LAYOUT_HASH};

use crate::bus::Bus;
use crate::command::{self, CommandQueue};
use crate::eq::Asynchronous;
use crate::error::{Coded, Error, Result};
use crate::handle::{Bell, BusHandle};
use crate::mr::PageLists;
use crate::port::Port;
use crate::random::Random;
use crate::sys::HostMemory;
use crate::tables::{Keys, Numbers, Ranges};

/// How a card is opened.
#[derive(Debug, Clone)]
pub struct ContextOptions {
    /// Longest wait for a reset or a command, by the clock of the bus.
    pub command_timeout: Duration,
    /// Doorbell page of all queues.
    pub doorbell_page: u16,
    /// Seed of key tags and first PSNs, so that a test repeats. Without one the operating system's random numbers are
    /// taken; with one, **peers can guess keys**.
    pub seed: Option<u64>,
}

impl Default for ContextOptions {
    fn default() -> Self {
        Self { command_timeout: Duration::from_secs(10), doorbell_page: 0, seed: None }
    }
}

/// How much the card holds and what it can do: its registers of the same names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Queue pairs; QPNs are below it.
    pub max_qp: u32,
    /// Completion queues.
    pub max_cq: u32,
    /// Regions and windows together; key indices are below it.
    pub max_mr: u32,
    /// Page table entries.
    pub mtt_entries: u32,
    /// Shared receive queues; 0: none.
    pub max_srq: u32,
    /// Address handles of datagrams; 0: none.
    pub max_ah: u32,
    /// Protection domains.
    pub max_pd: u32,
    /// Event queues; their numbers are below it, and 0 is none.
    pub max_eq: u32,
    /// Doorbell pages.
    pub doorbell_pages: u32,
    /// Largest path MTU.
    pub max_mtu: Coded<PathMtu>,
    /// Page sizes a region may have: bit `n` set says 2^n bytes.
    pub page_shifts: u32,
    /// WQEs of the largest send queue, as a power of two.
    pub max_sq_log2: u8,
    /// WQEs of the largest receive queue, as a power of two.
    pub max_rq_log2: u8,
    /// Entries of the largest completion queue, as a power of two.
    pub max_cq_log2: u8,
    /// Entries of the largest command queue, as a power of two.
    pub max_cmdq_log2: u8,
    /// SGEs of a send WQE.
    pub max_send_sge: u8,
    /// SGEs of a receive WQE.
    pub max_recv_sge: u8,
    /// Bytes of inline data of a send WQE.
    pub max_inline: u16,
    /// Largest `max_rd_atomic` of a queue pair.
    pub max_rd_atomic: u8,
    /// Largest `max_dest_rd_atomic` of a queue pair.
    pub max_dest_rd_atomic: u8,
    /// Reliable connections.
    pub rc: bool,
    /// Unreliable connections.
    pub uc: bool,
    /// Unreliable datagrams.
    pub ud: bool,
    /// Atomics.
    pub atomics: bool,
    /// Memory windows.
    pub memory_windows: bool,
    /// Shared receive queues.
    pub srq: bool,
    /// Congestion control by CNP.
    pub congestion: bool,
    /// Raw Ethernet queue pair.
    pub raw_ethernet: bool,
    /// Selective retransmission.
    pub selective: bool,
    /// IPv6.
    pub ipv6: bool,
    /// VLAN tags.
    pub vlan: bool,
    /// Command completions and events raise MSI-X.
    pub msix: bool,
    /// The card can answer ARP requests and neighbour solicitations itself.
    pub neighbour_responder: bool,
    /// Queue pairs can push WQEs: [`QpInitAttr::push`](crate::QpInitAttr::push).
    pub wqe_push: bool,
    /// Frames to the port's own MAC address return inside the card.
    pub loopback: bool,
}

/// Field `$name` of the capability register `$register`, from its value.
macro_rules! field {
    ($register:ident, $name:literal, $value:expr) => {{
        const FIELD: Field = crate::csr::field(&cap::$register, $name);
        crate::csr::get(&FIELD, $value)
    }};
}

impl Capabilities {
    /// The most entries that a completion queue may be asked for. One less than the largest ring has: the card hears after the program which entries
    /// were taken.
    pub fn max_cqe(&self) -> u32 {
        (1 << self.max_cq_log2) - 1
    }

    pub(crate) fn read(bus: &mut dyn Bus) -> Result<Self> {
        let mut read = |register: &Register| bus.csr_read32(cap::BLOCK.address(register));
        let log = read(&cap::LOG_LIMITS)?;
        let wqe = read(&cap::WQE_LIMITS)?;
        let rd = read(&cap::READ_LIMITS)?;
        let can = read(&cap::FEATURES)?;
        Ok(Self {
            max_qp: read(&cap::MAX_QP)?,
            max_cq: read(&cap::MAX_CQ)?,
            max_mr: read(&cap::MAX_MR)?,
            mtt_entries: read(&cap::MTT_ENTRIES)?,
            max_srq: read(&cap::MAX_SRQ)?,
            max_ah: read(&cap::MAX_AH)?,
            max_pd: read(&cap::MAX_PD)?,
            max_eq: read(&cap::MAX_EQ)?,
            doorbell_pages: read(&cap::DOORBELL_PAGES)?,
            max_mtu: Coded::from(field!(MAX_MTU, "code", read(&cap::MAX_MTU)?) as u8),
            page_shifts: read(&cap::PAGE_SHIFTS)?,
            max_sq_log2: (field!(LOG_LIMITS, "max_sq_log2", log) as u8).min(MAX_WQ_LOG2),
            max_rq_log2: (field!(LOG_LIMITS, "max_rq_log2", log) as u8).min(MAX_WQ_LOG2),
            max_cq_log2: (field!(LOG_LIMITS, "max_cq_log2", log) as u8).min(MAX_CQ_LOG2),
            max_cmdq_log2: field!(LOG_LIMITS, "max_cmdq_log2", log) as u8,
            max_send_sge: field!(WQE_LIMITS, "max_send_sge", wqe) as u8,
            max_recv_sge: field!(WQE_LIMITS, "max_recv_sge", wqe) as u8,
            max_inline: field!(WQE_LIMITS, "max_inline", wqe) as u16,
            max_rd_atomic: field!(READ_LIMITS, "max_rd_atomic", rd) as u8,
            max_dest_rd_atomic: field!(READ_LIMITS, "max_dest_rd_atomic", rd) as u8,
            rc: field!(FEATURES, "rc", can) == 1,
            uc: field!(FEATURES, "uc", can) == 1,
            ud: field!(FEATURES, "ud", can) == 1,
            atomics: field!(FEATURES, "atomics", can) == 1,
            memory_windows: field!(FEATURES, "memory_windows", can) == 1,
            srq: field!(FEATURES, "srq", can) == 1,
            congestion: field!(FEATURES, "congestion", can) == 1,
            raw_ethernet: field!(FEATURES, "raw_ethernet", can) == 1,
            selective: field!(FEATURES, "selective", can) == 1,
            ipv6: field!(FEATURES, "ipv6", can) == 1,
            vlan: field!(FEATURES, "vlan", can) == 1,
            msix: field!(FEATURES, "msix", can) == 1,
            neighbour_responder: field!(FEATURES, "neighbour_responder", can) == 1,
            wqe_push: field!(FEATURES, "wqe_push", can) == 1,
            loopback: field!(FEATURES, "loopback", can) == 1,
        })
    }
}

/// Work queues are counted in 16 bits, of which one tells full from empty.
const MAX_WQ_LOG2: u8 = 15;

/// The largest completion queue of which a card of any version is known.
const MAX_CQ_LOG2: u8 = 22;

/// Event queues that an EQN can name.
const MAX_EQ: u32 = 1 << 8;

/// Numbers that the driver gives out.
pub(crate) struct Tables {
    pub(crate) pds: Numbers,
    pub(crate) cqs: Numbers,
    /// By CQN: whether the card has reported an overrun.
    overruns: BTreeMap<u32, Arc<AtomicBool>>,
    pub(crate) eqs: Numbers,
    /// The event queue of what belongs to no completion queue.
    pub(crate) asynchronous: Asynchronous,
    pub(crate) qps: Numbers,
    /// Places of the doorbell page for pushed WQEs.
    pub(crate) places: Numbers,
    pub(crate) srqs: Numbers,
    pub(crate) ahs: Numbers,
    pub(crate) keys: Keys,
    pub(crate) mtt: Ranges,
    pub(crate) random: Random,
    pub(crate) port: Port,
}

impl Tables {
    /// A QPN may be used again. Those of QP0 and QP1 are nobody else's.
    pub(crate) fn give_back_qp(&mut self, qpn: u32) {
        if ![RAW_QPN, GSI_QPN].contains(&qpn) {
            self.qps.give_back(qpn);
        }
    }
}

/// What all objects of a card share.
pub(crate) struct Device {
    pub(crate) bus: Arc<BusHandle>,
    pub(crate) commands: CommandQueue,
    pub(crate) page_lists: PageLists,
    pub(crate) capabilities: Capabilities,
    pub(crate) options: ContextOptions,
    tables: Mutex<Tables>,
}

impl Device {
    /// A mark of a new completion queue, which [`mark_overrun`](Self::mark_overrun) sets.
    pub(crate) fn overrun_of(&self, cqn: u32) -> Arc<AtomicBool> {
        let mark = Arc::default();
        self.tables(|t| t.overruns.insert(cqn, Arc::clone(&mark)));
        mark
    }

    /// Notes that a completion queue was overrun.
    pub(crate) fn mark_overrun(&self, cqn: u32) {
        self.tables(|t| {
            if let Some(mark) = t.overruns.get(&cqn) {
                mark.store(true, Ordering::Relaxed);
            }
        });
    }

    /// The size of a queue that the card writes, with room for `entries`, as a power of two.
    pub(crate) fn queue_log2(&self, operation: &'static str, entries: u32) -> Result<u8> {
        let max = self.capabilities.max_cq_log2;
        match entries.checked_next_power_of_two().map(|n| n.trailing_zeros() as u8) {
            Some(log2) if entries > 0 && log2 <= max => Ok(log2),
            _ => {
                let fix = format!("choose 1 to 2^{max}");
                Err(Error::Attribute { operation, attribute: "entries", value: entries.into(), fix })
            }
        }
    }

    /// A doorbell of the context's page.
    pub(crate) fn bell(&self, offset: u32) -> Result<Bell> {
        self.bus.bell(doorbell::address(self.options.doorbell_page, offset))
    }

    pub(crate) fn tables<T>(&self, f: impl FnOnce(&mut Tables) -> T) -> T {
        f(&mut self.tables.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A number of `numbers`.
    pub(crate) fn take(
        &self,
        operation: &'static str,
        what: &'static str,
        limit: u32,
        numbers: impl FnOnce(&mut Tables) -> &mut Numbers,
    ) -> Result<u32> {
        self.tables(|t| numbers(t).take()).ok_or(Error::NoResource { operation, what, limit: limit.into() })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Every object is gone. After the reset the card touches no memory; without it, the rings stay mapped.
        if command::reset(&self.bus, self.options.command_timeout).is_err() {
            self.commands.leak();
            self.page_lists.leak();
        }
    }
}

/// An open card: the root of all other objects, which hold it.
///
/// `Send` and `Sync`; clones are the same card. When the last clone and the last object are gone, the card is reset.
#[derive(Clone)]
pub struct Context {
    pub(crate) device: Arc<Device>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("capabilities", &self.device.capabilities).finish_non_exhaustive()
    }
}

impl Context {
    /// Opens the card behind `bus` with the usual options.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn open(bus: impl Bus + 'static) -> Result<Self> {
        Self::open_with(bus, ContextOptions::default())
    }

    /// Opens the card behind `bus`: checks that it is one, of the version and layout that this driver was built
    /// for, resets it, reads what it can do and gives it a command queue.
    ///
    /// # Errors
    /// `NotFerrowire`, `UnknownVersion`, `UnknownLayout`: nothing was written to the device. `Timeout` when the reset
    /// does not end, `Attribute` when the card lacks the doorbell page, `Bus` when the bus fails.
    pub fn open_with(bus: impl Bus + 'static, options: ContextOptions) -> Result<Self> {
        let bus = Arc::new(BusHandle::new(Box::new(bus)));
        let capabilities = bus.with(|b| {
            identify(b)?;
            Capabilities::read(b)
        })?;
        if u32::from(options.doorbell_page) >= capabilities.doorbell_pages {
            return Err(Error::Attribute {
                operation: "open",
                attribute: "doorbell_page",
                value: options.doorbell_page.into(),
                fix: format!("the card has {} pages", capabilities.doorbell_pages),
            });
        }
        command::reset(&bus, options.command_timeout)?;
        let page_lists = PageLists::open(&bus)?;
        let commands = CommandQueue::open(&bus, capabilities.max_cmdq_log2, options.command_timeout)?;
        let tables = Tables {
            pds: Numbers::new(1, capabilities.max_pd),
            cqs: Numbers::new(0, capabilities.max_cq),
            overruns: BTreeMap::new(),
            eqs: Numbers::new(1, capabilities.max_eq.min(MAX_EQ)),
            asynchronous: Asynchronous::new(),
            qps: Numbers::new(GSI_QPN + 1, capabilities.max_qp),
            places: Numbers::new(0, PUSH_SLOTS),
            srqs: Numbers::new(0, capabilities.max_srq),
            ahs: Numbers::new(0, capabilities.max_ah),
            keys: Keys::new(capabilities.max_mr),
            mtt: Ranges::new(capabilities.mtt_entries.into()),
            random: options.seed.map_or(Random::Os, Random::Seeded),
            port: bus.with(Port::new)?,
        };
        let tables = Mutex::new(tables);
        let device = Device { bus, commands, page_lists, capabilities, options, tables };
        Ok(Self { device: Arc::new(device) })
    }

    /// What the card holds and can do.
    pub fn capabilities(&self) -> &Capabilities {
        &self.device.capabilities
    }

    /// Zeroed memory for data, which can be registered. Its address is a multiple of `align`.
    ///
    /// # Errors
    /// There is no such memory.
    pub fn alloc(&self, bytes: usize, align: usize) -> Result<HostMemory> {
        Ok(self.device.bus.with(|b| b.host_alloc(bytes, align))?)
    }

    /// A random first PSN. Peers that can guess it can forge packets (IBTA 9.7.2 leaves the choice to the program).
    ///
    /// # Errors
    /// The operating system has no random numbers.
    pub fn random_psn(&self) -> Result<Psn> {
        Ok(Psn::new(self.device.tables(|t| t.random.next_u32())?))
    }

    /// A counter of the transport.
    ///
    /// # Errors
    /// The bus failed.
    pub fn hw_counter(&self, counter: HwCounter) -> Result<u64> {
        Ok(self.device.bus.with(|b| b.csr_read64(counter.address()))?)
    }

    /// How many packets were dropped for a reason.
    ///
    /// # Errors
    /// The bus failed.
    pub fn drop_counter(&self, reason: DropReason) -> Result<u64> {
        Ok(self.device.bus.with(|b| b.csr_read64(reason.address()))?)
    }

    /// A counter of frames or bytes.
    ///
    /// # Errors
    /// The bus failed.
    pub fn traffic_counter(&self, counter: TrafficCounter) -> Result<u64> {
        Ok(self.device.bus.with(|b| b.csr_read64(counter.address()))?)
    }

    /// Whether the card has given up its command queue; then only opening it again helps.
    ///
    /// # Errors
    /// The bus failed.
    pub fn is_fatal(&self) -> Result<bool> {
        self.device.commands.is_fatal()
    }

    /// Sets the unit of the transport's timers, 4.096 us by the specification, to so many cycles of the card's clock: all
    /// time-outs and RNR pauses of all queue pairs change by the same factor. 0 gives 4.096 us again. It is for simulations,
    /// where time is dear.
    ///
    /// # Errors
    /// More than 2^24 - 1 cycles; the bus failed.
    pub fn set_timer_tick(&self, cycles: u32) -> Result<()> {
        const CYCLES: Field = crate::csr::field(&timers::TICK, "cycles");
        if u128::from(cycles) > CYCLES.max() {
            return Err(Error::Attribute {
                operation: "set timer tick",
                attribute: "cycles",
                value: cycles.into(),
                fix: format!("at most {:#x} fit the register", CYCLES.max()),
            });
        }
        let at = timers::BLOCK.address(&timers::TICK);
        Ok(self.device.bus.with(|b| b.csr_write32(at, cycles))?)
    }

    /// The clock of the bus, from any start: by it, waits are bounded. Of a simulated card in this process it is simulated time.
    pub fn now(&self) -> Duration {
        self.device.bus.with(|b| b.now())
    }

    /// IP addresses that the card's owner has given it. The card has none of them before a program [adds](Self::add_gid) it: see [`Bus::addresses`].
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.device.bus.with(|b| b.addresses())
    }

    /// A file that hangs up when the card is gone, or its last object is dropped, for event loops, which ask for no events of it and never read it: see
    /// [`Bus::lifeline`].
    ///
    /// # Errors
    /// The system has no file left.
    pub fn lifeline(&self) -> Result<Option<std::os::fd::OwnedFd>> {
        Ok(self.device.bus.with(|b| b.lifeline())?)
    }

    /// Whether there is no card, but a model of the transport in the place of one: see [`Bus::is_engine`].
    pub fn is_engine(&self) -> bool {
        self.device.bus.with(|b| b.is_engine())
    }

    /// Cycles of a simulated card's clock, for who measures it; `None` for other cards: see [`Bus::card_cycles`].
    ///
    /// # Errors
    /// The bus failed.
    pub fn card_cycles(&self) -> Result<Option<u64>> {
        Ok(self.device.bus.with(|b| b.card_cycles())?)
    }

    /// The rate of the card's clock in kHz; 0: it has none.
    ///
    /// # Errors
    /// The bus failed.
    pub fn clock_khz(&self) -> Result<u32> {
        Ok(self.device.bus.with(|b| b.csr_read32(identity::BLOCK.address(&identity::CLOCK_KHZ)))?)
    }

    /// Lets a simulated card run for a while; with a real one it does nothing.
    ///
    /// # Errors
    /// The bus failed.
    pub fn progress(&self) -> Result<()> {
        self.device.bus.progress()
    }
}

/// Refuses what is not a card of ours, of this version and layout.
pub(crate) fn identify(bus: &mut dyn Bus) -> Result<()> {
    let mut read = |register: &Register| bus.csr_read32(identity::BLOCK.address(register));
    let found = read(&identity::MAGIC)?;
    if found != identity::MAGIC_VALUE {
        return Err(Error::NotFerrowire { found, expected: identity::MAGIC_VALUE });
    }
    const MAJOR: Field = crate::csr::field(&identity::VERSION, "major");
    let card = crate::csr::get(&MAJOR, read(&identity::VERSION)?) as u16;
    let driver = crate::csr::get(&MAJOR, identity::VERSION_VALUE) as u16;
    if card != driver {
        return Err(Error::UnknownVersion { card, driver });
    }
    let low = read(&identity::LAYOUT_HASH_LO)?;
    let card = u64::from(read(&identity::LAYOUT_HASH_HI)?) << 32 | u64::from(low);
    if card != LAYOUT_HASH {
        return Err(Error::UnknownLayout { card, driver: LAYOUT_HASH });
    }
    Ok(())
}
