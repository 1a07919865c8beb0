// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of devices: which cards a process may use, and which of them it has.
//!
//! A process has one card. The first call of `ibv_get_device_list` claims it and lists only that one:
//!
//! | environment | candidates |
//! |---|---|
//! | `FERROWIRE_DEVICE` names cards, with commas between them (`\,` is a comma in a name) | those |
//! | it is not set | those that `ferrowire list` shows: sockets here and in `$XDG_RUNTIME_DIR/ferrowire`, cards on the PCI bus |
//!
//! The process gets the first candidate that is free, and keeps it until it ends. If all are in use, the list has all of them, and
//! `ibv_open_device` fails with `EBUSY`. With `FERROWIRE_OBSERVE` the list has all candidates, none is claimed, and contexts can only be
//! queried. A forked child has nothing of this: it makes a list of its own.

use core::ffi::{c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrowire::spec::csr::port;
use ferrowire::Bus;
use ferrowire_cards::{find, gids, split_names, OpenError, Place};
use rustix::io::Errno;

use crate::abi::*;
use crate::card::{self, Card};
use crate::failure::{pointer, report, Failure, Result};
use crate::fork::{self, Files};
use crate::log::say;
use crate::query::text;
use crate::raw::{object, Raw};
use crate::tap::Interface;

/// The environment variable that names the candidates.
pub const DEVICE: &str = "FERROWIRE_DEVICE";
/// The environment variable with which a process only observes.
pub const OBSERVE: &str = "FERROWIRE_OBSERVE";

/// Whether the process only observes.
pub fn observing() -> bool {
    std::env::var_os(OBSERVE).is_some_and(|value| !value.is_empty() && value != "0")
}

/// A candidate. It lives as long as the process, for programs keep its pointer after they have freed the list.
#[repr(C)]
pub struct Device {
    base: Raw<ibv_device>,
    /// Which card.
    pub place: Place,
    index: usize,
    /// The process whose list it is of: see [`fork::generation`].
    born: u32,
    state: Mutex<State>,
}

object!(Device, ibv_device);

/// How far this process has the card.
enum State {
    /// Not at all.
    Listed,
    /// Other programs are kept away. A forked child does not keep the files.
    Claimed(Box<dyn Bus>, Files),
    /// It is open, until the process ends.
    Open(&'static Card),
}

impl State {
    fn claimed(bus: Box<dyn Bus>) -> Self {
        let files = Files::of(bus.as_ref());
        State::Claimed(bus, files)
    }
}

/// What a process knows of cards.
#[derive(Default)]
struct Registry {
    devices: Vec<&'static Device>,
    /// Those that the program sees.
    listed: Vec<&'static Device>,
    /// One is claimed, so the list stays.
    claimed: bool,
}

impl Registry {
    /// The device of a card, which is made if it is new.
    fn device(&mut self, place: &Place, index: usize) -> &'static Device {
        let known = self.devices.iter().find(|known| known.place == *place && known.index == index);
        if let Some(known) = known {
            return known;
        }
        let new = Device::new(place.clone(), index);
        self.devices.push(new);
        new
    }
}

static REGISTRY: AtomicPtr<Mutex<Registry>> = AtomicPtr::new(ptr::null_mut());

/// This process's registry.
fn registry() -> MutexGuard<'static, Registry> {
    fork::init();
    fork::made_once(&REGISTRY).lock().unwrap_or_else(PoisonError::into_inner)
}

/// In a forked child: what the parent has is not the child's. It stays in memory, for another thread of the parent may have used it.
pub fn forget_parent() {
    crate::cm::forget_parent();
    REGISTRY.store(ptr::null_mut(), Ordering::Release);
}

impl Device {
    fn new(place: Place, index: usize) -> &'static Self {
        let name = format!("ferrowire{index}");
        let base = ibv_device {
            node_type: IBV_NODE_CA,
            transport_type: IBV_TRANSPORT_IB,
            name: text(&name),
            dev_name: text(&format!("uverbs{index}")),
            // There is no entry in sysfs. Programs that open files there go on without them.
            dev_path: text(&format!("/sys/class/infiniband_verbs/{name}")),
            ibdev_path: text(&format!("/sys/class/infiniband/{name}")),
            ..ibv_device::zeroed()
        };
        let (born, state) = (fork::generation(), Mutex::new(State::Listed));
        Box::leak(Box::new(Self { base: Raw::new(base), place, index, born, state }))
    }

    /// Itself; or, if it is of the parent's list, that of the same card in this process's.
    fn own(&'static self) -> &'static Self {
        match self.born == fork::generation() {
            true => self,
            false => registry().device(&self.place, self.index),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps other programs away from the card, unless one has it.
    fn claim(&self) -> Result<(), OpenError> {
        let mut state = self.state();
        if matches!(*state, State::Listed) {
            *state = State::claimed(self.place.open()?);
        }
        Ok(())
    }

    /// Opens the card, or gives the one that is open.
    pub fn card(&'static self) -> Result<&'static Card> {
        let mut state = self.state();
        if let State::Open(card) = &*state {
            if !card.is_dead() {
                return Ok(card);
            }
        }
        // First, for a card without its interface stays claimed.
        let interface = Interface::wanted()?;
        let (bus, files) = match std::mem::replace(&mut *state, State::Listed) {
            State::Claimed(bus, files) => (bus, files),
            // A card that is gone may be back.
            State::Listed | State::Open(_) => {
                let bus = self.place.open().map_err(|error| opened(&self.place, error))?;
                let files = Files::of(bus.as_ref());
                (bus, files)
            }
        };
        let card = Card::open(bus, files, &self.place, interface)?;
        *state = State::Open(card);
        Ok(card)
    }

    /// The GUID of the node, made of the card's MAC address; 0 if the card cannot be asked.
    fn guid(&self) -> u64 {
        let mac = match &mut *self.state() {
            State::Open(card) => Some(card.mac),
            State::Claimed(bus, _) => mac_of(bus.as_mut()),
            State::Listed => self.place.observe().ok().and_then(|mut card| Some(card.port().ok()?.mac)),
        };
        // It has the address that the card gets when it is opened, so that the GUID stays.
        let mac = mac.map(|mac| card::address(mac, &self.place).unwrap_or(mac));
        mac.map_or(0, |mac| u64::from_ne_bytes(gids::guid(mac)))
    }
}

/// The MAC address of a card that is not open.
fn mac_of(bus: &mut dyn Bus) -> Option<[u8; 6]> {
    let mut read = |register| bus.csr_read32(port::BLOCK.address(register)).ok();
    let (low, high) = (read(&port::MAC_LO)?, read(&port::MAC_HI)?);
    let [_, _, mac @ ..] = (u64::from(high & 0xffff) << 32 | u64::from(low)).to_be_bytes();
    Some(mac)
}

/// Why a card cannot be opened.
pub fn opened(place: &Place, error: OpenError) -> Failure {
    let errno = match &error {
        error if error.is_in_use() => Errno::BUSY,
        OpenError::Socket(ferrowire::vfio_user::SocketError::Connect { source, .. }) => {
            Errno::from_io_error(source).unwrap_or(Errno::NODEV)
        }
        OpenError::Vfio(ferrowire::vfio::VfioError::Permission { .. }) => Errno::PERM,
        OpenError::Vfio(ferrowire::vfio::VfioError::NoDevice { .. }) => Errno::NODEV,
        _ => Errno::IO,
    };
    Failure::text(errno, format!("{place}: {error}"))
}

/// The cards that this process may take.
fn candidates() -> Vec<Place> {
    if let Some(named) = std::env::var_os(DEVICE).filter(|named| !named.is_empty()) {
        let names = split_names(&named.to_string_lossy());
        let parsed = names.iter().filter_map(|name| match name.parse::<Place>() {
            Ok(place) => Some(place.absolute()),
            Err(why) => {
                say!("{DEVICE}: {why}");
                None
            }
        });
        return parsed.collect();
    }
    let (places, unread) = find::usable();
    for (folder, error) in unread {
        say!("list {}: {error}", folder.display());
    }
    places
}

/// What a program sees.
fn list(registry: &mut Registry) {
    if registry.claimed {
        return;
    }
    let places = candidates();
    if places.is_empty() {
        say!(
            "no cards are here: start two with `ferrowire sim up`, or name one with `ferrowire run -d CARD`"
        );
    }
    registry.listed.clear();
    for (index, place) in places.into_iter().enumerate() {
        let device = registry.device(&place, index);
        if observing() {
            registry.listed.push(device);
            continue;
        }
        match device.claim() {
            Ok(()) => {
                say!("this process has {} as ferrowire{index}", device.place);
                registry.listed = vec![device];
                registry.claimed = true;
                return;
            }
            Err(error) if error.is_in_use() => {
                say!("{}: {error}", device.place);
                registry.listed.push(device);
            }
            Err(error) => say!("{}: {error}", device.place),
        }
    }
}

/// The device that this process has or may open, as the first of its list.
pub fn first() -> Result<&'static Device> {
    let mut registry = registry();
    list(&mut registry);
    registry.listed.first().copied().ok_or(Failure::new(
        Errno::NODEV,
        "no card is here: start two with `ferrowire sim up`, or name one with `ferrowire run -d CARD`",
    ))
}

/// Lists the devices.
///
/// # Safety
/// `num_devices` is null or valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device {
    let mut registry = registry();
    list(&mut registry);
    let pointers = registry.listed.iter().map(|device| device.pointer());
    let pointers: Box<[_]> = pointers.chain([ptr::null_mut()]).collect();
    if !num_devices.is_null() {
        // SAFETY: as promised.
        unsafe { *num_devices = pointers.len() as c_int - 1 };
    }
    Box::into_raw(pointers).cast()
}

/// Frees a list. Its devices stay.
///
/// # Safety
/// The list is null, or came from `ibv_get_device_list` and was not freed.
#[no_mangle]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    if list.is_null() {
        return;
    }
    let mut entries = 1;
    // SAFETY: a null pointer ends the list.
    while !unsafe { *list.add(entries - 1) }.is_null() {
        entries += 1;
    }
    // SAFETY: it was made of a box with this number of entries.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(list, entries)) });
}

/// The name.
///
/// # Safety
/// The device is of a list.
#[no_mangle]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: as promised.
    unsafe { ptr::addr_of!((*device).name).cast() }
}

/// The index, which is that of the name.
///
/// # Safety
/// The device is of a list.
#[no_mangle]
pub unsafe extern "C" fn ibv_get_device_index(device: *mut ibv_device) -> c_int {
    // SAFETY: as promised.
    unsafe { Device::of(device) }.index as c_int
}

/// The GUID of the node.
///
/// # Safety
/// The device is of a list.
#[no_mangle]
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> be64 {
    // SAFETY: as promised; devices live as long as the process.
    let device: &'static Device = unsafe { Device::of(device) };
    device.own().guid()
}

/// Opens a device.
///
/// # Safety
/// The device is of a list.
#[no_mangle]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: as promised; devices live as long as the process.
    let device: &'static Device = unsafe { Device::of(device) };
    pointer("ibv_open_device", crate::context::open(device.own()))
}

/// Closes a device. The card stays this process's.
///
/// # Safety
/// The context came from `ibv_open_device` and was not closed.
#[no_mangle]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: as promised.
    match unsafe { crate::context::close(context) } {
        Ok(()) => 0,
        Err(failure) => {
            report("ibv_close_device", &failure);
            -1
        }
    }
}

/// A context over a bus, which is in no list: for this crate's own tests.
#[doc(hidden)]
pub fn over(bus: Box<dyn Bus>) -> *mut ibv_context {
    let device = Device::new(Place::Socket("test".into()), 0);
    *device.state() = State::claimed(bus);
    pointer("open a bus", crate::context::open(device))
}

const _: functions::ibv_get_device_list = ibv_get_device_list;
const _: functions::ibv_free_device_list = ibv_free_device_list;
const _: functions::ibv_get_device_name = ibv_get_device_name;
const _: functions::ibv_get_device_index = ibv_get_device_index;
const _: functions::ibv_get_device_guid = ibv_get_device_guid;
const _: functions::ibv_open_device = ibv_open_device;
const _: functions::ibv_close_device = ibv_close_device;
