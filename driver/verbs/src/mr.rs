// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Mr`]: memory regions. Any memory of the program can be one.

use core::ffi::{c_int, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrowire::{AccessFlags, HostMemory, MemoryRegion, PageSize};
use rustix::io::Errno;

use crate::abi::*;
use crate::failure::{number, pointer, report, Failure, Result};
use crate::fork::Excluded;
use crate::memory;
use crate::null;
use crate::pd::Pd;
use crate::raw::{object, Raw};

/// A memory region.
#[repr(C)]
pub struct Mr {
    base: Raw<ibv_mr>,
    kind: Mutex<Kind>,
}

object!(Mr, ibv_mr);

enum Kind {
    /// Memory of the program.
    Region {
        region: Registered,
        /// As it was asked for, for `ibv_rereg_mr`.
        access: c_uint,
        iova: u64,
    },
    /// A null region.
    Null,
    /// It is being destroyed.
    Gone,
}

/// Memory that the card may reach, until this is dropped.
pub struct Registered {
    region: Option<MemoryRegion>,
    /// Its pages are excluded from forks as long as this is there, which is longer than the region.
    _excluded: Option<Excluded>,
}

impl Registered {
    fn region(&self) -> Option<&MemoryRegion> {
        self.region.as_ref()
    }

    /// Takes the rights back. If windows are bound, the region stays, and comes back.
    fn end(mut self) -> Result<(), (Failure, Option<Box<Self>>)> {
        let Some(region) = self.region.take() else { return Ok(()) };
        region.try_destroy().map_err(|(error, region)| match region {
            Some(region) => {
                self.region = Some(*region);
                (error.into(), Some(Box::new(self)))
            }
            None => (error.into(), None),
        })
    }

    /// Takes the key of another one, which ends. It comes back if the card does not give it up.
    fn take_over(mut self, mut old: Self) -> core::result::Result<Self, (Failure, Option<Box<Self>>)> {
        let (Some(own), Some(other)) = (self.region.take(), old.region.take()) else {
            return Err((Failure::invalid("the region is being destroyed"), None));
        };
        match own.take_over(other) {
            Ok(region) => {
                self.region = Some(region);
                Ok(self)
            }
            Err((error, Some(other))) => {
                old.region = Some(*other);
                Err((error.into(), Some(Box::new(old))))
            }
            Err((error, None)) => Err((error.into(), None)),
        }
    }
}

/// Rights that a card knows, by the bits of verbs.
const RIGHTS: [(c_uint, AccessFlags); 6] = [
    (IBV_ACCESS_LOCAL_WRITE, AccessFlags::LOCAL_WRITE),
    (IBV_ACCESS_REMOTE_WRITE, AccessFlags::REMOTE_WRITE),
    (IBV_ACCESS_REMOTE_READ, AccessFlags::REMOTE_READ),
    (IBV_ACCESS_REMOTE_ATOMIC, AccessFlags::REMOTE_ATOMIC),
    (IBV_ACCESS_MW_BIND, AccessFlags::MW_BIND),
    (IBV_ACCESS_RELAXED_ORDERING, AccessFlags::RELAXED_ORDERING),
];

/// The rights of a registration.
pub fn rights(access: c_uint) -> Result<AccessFlags> {
    let known = RIGHTS.iter().fold(IBV_ACCESS_HUGETLB | IBV_ACCESS_ZERO_BASED, |all, (bit, _)| all | bit);
    // What is optional may be ignored (`ibv_reg_mr(3)`).
    let unknown = access & !known & !IBV_ACCESS_OPTIONAL_RANGE;
    if unknown & IBV_ACCESS_ON_DEMAND != 0 {
        return Err(Failure::unsupported("the card has no on-demand paging; leave IBV_ACCESS_ON_DEMAND out"));
    }
    if unknown != 0 {
        return Err(Failure::text(Errno::OPNOTSUPP, format!("access {unknown:#x} is unknown")));
    }
    let given = RIGHTS.iter().filter(|(bit, _)| access & bit != 0);
    Ok(given.fold(AccessFlags::LOCAL_READ, |all, (_, right)| all | *right))
}

/// The largest pages of the card that the region fills, in which memory and region have the same places.
fn page_size(shifts: u32, start: u64, iova: u64, bytes: usize) -> PageSize {
    let fits = |page: &PageSize| {
        shifts >> page.shift() & 1 == 1
            && bytes as u64 >= page.bytes()
            && (start ^ iova) & (page.bytes() - 1) == 0
    };
    [PageSize::Size1G, PageSize::Size2M].into_iter().find(fits).unwrap_or(PageSize::Size4K)
}

/// Registers memory in a domain, under addresses that begin at `iova`.
pub fn register(pd: &Pd, addr: *mut c_void, length: usize, iova: u64, access: c_uint) -> Result<Registered> {
    let card = pd.context().card()?;
    let mut flags = rights(access)?;
    let Some(start) = NonNull::new(addr.cast::<u8>()) else {
        return Err(Failure::new(Errno::FAULT, "addr is null"));
    };
    if length == 0 {
        return Err(Failure::invalid("length is 0; a region has at least one byte"));
    }
    let address = start.as_ptr() as u64;
    let iova = match access & IBV_ACCESS_ZERO_BASED {
        0 => iova,
        // Translation is by pages, so a byte keeps its place in the page.
        _ if address % PageSize::Size4K.bytes() == 0 => 0,
        _ => return Err(Failure::unsupported("a zero-based region must begin at a page of 4096 bytes")),
    };
    if flags.intersects(AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC)
        && !flags.contains(AccessFlags::LOCAL_WRITE)
    {
        return Err(Failure::invalid("remote write and remote atomic need IBV_ACCESS_LOCAL_WRITE"));
    }
    if (address ^ iova) % PageSize::Size4K.bytes() != 0 {
        return Err(Failure::text(
            Errno::INVAL,
            format!(
                "iova {iova:#x} and the memory at {address:#x} have different places in a page of 4096 bytes"
            ),
        ));
    }
    let write = flags.contains(AccessFlags::LOCAL_WRITE);
    memory::check(start.as_ptr() as usize, length, write).map_err(|errno| {
        let right = if write { "written" } else { "read" };
        Failure::text(errno, format!("{length} bytes at {address:#x} are not mapped, or may not be {right}"))
    })?;
    let excluded = Excluded::new(start.as_ptr() as usize, length)?;
    if !card.context.capabilities().memory_windows {
        // Nothing can be bound, so the right means nothing.
        flags = flags.without(AccessFlags::MW_BIND);
    }
    // SAFETY: the memory is the program's, which leaves its contents to the card until it deregisters the region (`ibv_reg_mr(3)`). The library itself
    // reads and writes none of it. Where the program unmaps it all the same, the card's accesses fail.
    let memory = unsafe { HostMemory::from_raw(start, length, Box::new(())) };
    let page = page_size(card.context.capabilities().page_shifts, address, iova, length);
    let region = pd.domain().register_at(&memory, iova, flags, page)?;
    Ok(Registered { region: Some(region), _excluded: excluded })
}

impl Mr {
    fn kind(&self) -> MutexGuard<'_, Kind> {
        self.kind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The domain.
    fn pd<'a>(&self) -> &'a Pd {
        // SAFETY: the program does not change it, and a domain outlives its regions.
        unsafe { Pd::of((*self.base.get()).pd) }
    }

    /// The first address by which work requests name the region, its bytes, and whether windows may be bound.
    pub fn window_base(&self) -> Option<(u32, AccessFlags)> {
        match &*self.kind() {
            Kind::Region { region, .. } => region.region().map(|region| (region.lkey(), region.access())),
            _ => None,
        }
    }

    /// What the program sees of a region.
    fn base(pd: &Pd, addr: *mut c_void, length: usize, key: u32) -> ibv_mr {
        ibv_mr {
            context: pd.context_pointer(),
            pd: pd.pointer(),
            addr,
            length,
            handle: key >> 8,
            lkey: key,
            rkey: key,
        }
    }
}

fn make(pd: *mut ibv_pd, addr: *mut c_void, length: usize, iova: u64, access: c_uint) -> Result<*mut ibv_mr> {
    // SAFETY: the callers' programs have promised it.
    let pd = unsafe { Pd::of(pd) };
    let region = register(pd, addr, length, iova, access)?;
    let key = region.region().map_or(0, MemoryRegion::lkey);
    let base = Raw::new(Mr::base(pd, addr, length, key));
    pd.users.add();
    Ok(Box::new(Mr { base, kind: Mutex::new(Kind::Region { region, access, iova }) }).give())
}

/// Registers memory.
///
/// # Safety
/// The domain lives. The memory is left to the card until the region is deregistered.
#[no_mangle]
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    pointer("ibv_reg_mr", make(pd, addr, length, addr as u64, access as c_uint))
}

/// Registers memory under other addresses.
///
/// # Safety
/// As of [`ibv_reg_mr`].
#[no_mangle]
pub unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    pointer("ibv_reg_mr_iova", make(pd, addr, length, iova, access as c_uint))
}

/// The same; what is optional of `access` may be ignored.
///
/// # Safety
/// As of [`ibv_reg_mr`].
#[no_mangle]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    pointer("ibv_reg_mr_iova2", make(pd, addr, length, iova, access))
}

/// Registers memory with attributes.
///
/// # Safety
/// As of [`ibv_reg_mr`]; `attr` is valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_reg_mr_ex(pd: *mut ibv_pd, attr: *mut ibv_mr_init_attr) -> *mut ibv_mr {
    // SAFETY: as promised.
    let attr = unsafe { *attr };
    let known = u64::from(IBV_REG_MR_MASK_IOVA | IBV_REG_MR_MASK_ADDR);
    let result = if attr.comp_mask & !known != 0 {
        Err(Failure::unsupported(
            "only memory of this process can be registered: comp_mask may have IOVA and ADDR",
        ))
    } else if attr.comp_mask & u64::from(IBV_REG_MR_MASK_ADDR) == 0 {
        Err(Failure::invalid("comp_mask lacks IBV_REG_MR_MASK_ADDR"))
    } else {
        let given = attr.comp_mask & u64::from(IBV_REG_MR_MASK_IOVA) != 0;
        let iova = if given { attr.iova } else { attr.addr as u64 };
        make(pd, attr.addr, attr.length, iova, attr.access as c_uint)
    };
    pointer("ibv_reg_mr_ex", result)
}

/// Deregisters memory.
///
/// # Safety
/// The region lives, and is not used any more if this succeeds.
#[no_mangle]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    const CALL: &str = "ibv_dereg_mr";
    // SAFETY: as promised.
    let shared = unsafe { Mr::of(mr) };
    if shared.pd().context().is_inherited() {
        return 0;
    }
    let kind = std::mem::replace(&mut *shared.kind(), Kind::Gone);
    if let Kind::Region { region, access, iova } = kind {
        match region.end() {
            Err((failure, Some(region))) => {
                *shared.kind() = Kind::Region { region: *region, access, iova };
                return number(CALL, Err(failure));
            }
            Err((failure, None)) => {
                report(CALL, &failure);
            }
            Ok(()) => {}
        }
    }
    shared.pd().users.remove();
    // SAFETY: as promised.
    drop(unsafe { Mr::back(mr) });
    0
}

/// Changes memory, domain or rights of a region. Its keys are others afterwards.
///
/// # Safety
/// The region lives; what `flags` names is valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    // SAFETY: as promised.
    match rereg(unsafe { Mr::of(mr) }, flags as c_uint, pd, addr, length, access as c_uint) {
        Ok(()) => 0,
        Err((failure, code)) => {
            report("ibv_rereg_mr", &failure);
            code
        }
    }
}

fn rereg(
    mr: &Mr,
    flags: c_uint,
    new_pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_uint,
) -> core::result::Result<(), (Failure, c_int)> {
    let kept = |failure: Failure| (failure, IBV_REREG_MR_ERR_INPUT);
    mr.pd().context().own().map_err(kept)?;
    let mut kind = mr.kind();
    let Asked { to, addr, length, iova, access } =
        asked(mr, &kind, flags, new_pd, addr, length, access).map_err(kept)?;
    let new = register(to, addr, length, iova, access).map_err(kept)?;
    let old_pd = mr.pd();
    let Kind::Region { region: old, access: old_access, iova: old_iova } =
        std::mem::replace(&mut *kind, Kind::Gone)
    else {
        return Err(kept(Failure::invalid("the region is being destroyed")));
    };
    match new.take_over(old) {
        Ok(region) => *kind = Kind::Region { region, access, iova },
        // The region is as it was.
        Err((failure, Some(old))) => {
            *kind = Kind::Region { region: *old, access: old_access, iova: old_iova };
            return Err(kept(failure));
        }
        // The program has to deregister it all the same.
        Err((failure, None)) => return Err((failure, IBV_REREG_MR_ERR_CMD)),
    }
    to.users.add();
    old_pd.users.remove();
    // SAFETY: the program does not use the members meanwhile.
    unsafe {
        let key = (*mr.base.get()).lkey;
        *mr.base.get() = Mr::base(to, addr, length, key);
    }
    Ok(())
}

/// What a region is registered anew with.
struct Asked<'a> {
    to: &'a Pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
}

/// What a program asks for, of its arguments and of what the region has.
fn asked<'a>(
    mr: &'a Mr,
    kind: &Kind,
    flags: c_uint,
    new_pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_uint,
) -> Result<Asked<'a>> {
    let asked = |bit| flags & bit != 0;
    if flags == 0 || flags & !IBV_REREG_MR_FLAGS_SUPPORTED != 0 {
        return Err(Failure::invalid("flags names nothing, or something unknown"));
    }
    let Kind::Region { access: old_access, iova: old_iova, .. } = kind else {
        return Err(Failure::unsupported("a null region stays as it is"));
    };
    // SAFETY: the program does not change it meanwhile.
    let old = unsafe { *mr.base.get() };
    let old_pd = mr.pd();
    let to = match asked(IBV_REREG_MR_CHANGE_PD) {
        true if new_pd.is_null() => return Err(Failure::invalid("pd is null")),
        // SAFETY: as promised.
        true => unsafe { Pd::of(new_pd) },
        false => old_pd,
    };
    let access = if asked(IBV_REREG_MR_CHANGE_ACCESS) { access } else { *old_access };
    let (addr, length, iova) = match asked(IBV_REREG_MR_CHANGE_TRANSLATION) {
        true => (addr, length, addr as u64),
        false => (old.addr, old.length, *old_iova),
    };
    Ok(Asked { to, addr, length, iova, access })
}

/// Allocates a null region: it reads as zeros, and writes to it are discarded. Only its local key is valid.
///
/// # Safety
/// The domain lives.
pub unsafe extern "C" fn alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr {
    // SAFETY: as promised.
    let pd = unsafe { Pd::of(pd) };
    let made = pd.context().card().and_then(|_| null::key(pd)).map(|key| {
        pd.users.add();
        let base = Mr::base(pd, core::ptr::null_mut(), usize::MAX, key);
        Box::new(Mr { base: Raw::new(base), kind: Mutex::new(Kind::Null) }).give()
    });
    pointer("ibv_alloc_null_mr", made)
}

const _: functions::ibv_reg_mr = ibv_reg_mr;
const _: functions::ibv_reg_mr_iova = ibv_reg_mr_iova;
const _: functions::ibv_reg_mr_iova2 = ibv_reg_mr_iova2;
const _: functions::ibv_reg_mr_ex = ibv_reg_mr_ex;
const _: functions::ibv_dereg_mr = ibv_dereg_mr;
const _: functions::ibv_rereg_mr = ibv_rereg_mr;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_those_that_the_card_knows() {
        assert_eq!(rights(0).unwrap(), AccessFlags::LOCAL_READ);
        let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_HUGETLB;
        assert_eq!(rights(access).unwrap(), AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ);
        assert_eq!(rights(IBV_ACCESS_RELAXED_ORDERING).unwrap(), AccessFlags::RELAXED_ORDERING);
        assert_eq!(rights(1 << 25).unwrap(), AccessFlags::LOCAL_READ, "optional");
        for unknown in [IBV_ACCESS_ON_DEMAND, IBV_ACCESS_FLUSH_GLOBAL, 1 << 12, 1 << 31] {
            assert_eq!(rights(unknown).unwrap_err().errno, Errno::OPNOTSUPP, "{unknown:#x}");
        }
    }

    #[test]
    fn pages_are_as_large_as_memory_and_addresses_allow() {
        let all = 1 << 12 | 1 << 21 | 1 << 30;
        let (two, one) = (2 << 20, 1 << 30);
        assert_eq!(page_size(all, 0x1000, 0x1000, 4096), PageSize::Size4K);
        assert_eq!(page_size(all, 0x1000, 0x1000, two), PageSize::Size2M);
        assert_eq!(page_size(all, 0x1000, 0x1000, 64 * one), PageSize::Size1G);
        assert_eq!(page_size(1 << 12 | 1 << 21, 0x1000, 0x1000, 64 * one), PageSize::Size2M);
        assert_eq!(page_size(all, 0x1000, 0x40_1000, 64 * one), PageSize::Size2M, "another place in a GiB");
        assert_eq!(page_size(all, 0x1000, 0x2000, 64 * one), PageSize::Size4K);
    }
}
