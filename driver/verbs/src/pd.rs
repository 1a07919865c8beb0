// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Pd`]: protection domains.

use core::ffi::c_int;

use ferrowire::ProtectionDomain;

use crate::abi::*;
use crate::context::Context;
use crate::count::Users;
use crate::failure::{number, pointer, report, Result};
use crate::null::Null;
use crate::parent::Td;
use crate::raw::{object, Raw};

/// A protection domain, or a parent domain of one.
#[repr(C)]
pub struct Pd {
    base: Raw<ibv_pd>,
    kind: Kind,
    /// Objects in it.
    pub users: Users,
    null: Null,
}

object!(Pd, ibv_pd);

enum Kind {
    /// The domain itself.
    Domain(ProtectionDomain),
    /// A parent domain.
    Parent {
        /// Of this domain, which outlives it.
        pd: *const Pd,
        /// With this thread domain, which outlives it, too.
        td: Option<*const Td>,
    },
}

// SAFETY: the pointers are to objects that outlive it and may be used from any thread.
unsafe impl Send for Pd {}
// SAFETY: as above.
unsafe impl Sync for Pd {}

impl Pd {
    fn new(context: *mut ibv_context, handle: u32, kind: Kind) -> Box<Self> {
        let base = ibv_pd { context, handle };
        Box::new(Self { base: Raw::new(base), kind, users: Users::default(), null: Null::default() })
    }

    /// A parent domain of a domain, with a thread domain or without.
    ///
    /// # Safety
    /// Both live; the new user is counted here.
    pub unsafe fn parent(pd: *mut ibv_pd, td: *mut ibv_td) -> Box<Self> {
        // SAFETY: as promised.
        let of = unsafe { Pd::of(pd) };
        of.users.add();
        // SAFETY: as promised.
        let td = (!td.is_null()).then(|| unsafe { Td::of(td) });
        if let Some(td) = td {
            td.users.add();
        }
        let kind = Kind::Parent { pd: of, td: td.map(core::ptr::from_ref) };
        Self::new(of.context_pointer(), of.handle(), kind)
    }

    /// The context's pointer.
    pub fn context_pointer(&self) -> *mut ibv_context {
        // SAFETY: the program does not change it.
        unsafe { (*self.base.get()).context }
    }

    /// The context.
    pub fn context(&self) -> &Context {
        // SAFETY: a context outlives its domains.
        unsafe { Context::of(self.context_pointer()) }
    }

    fn handle(&self) -> u32 {
        // SAFETY: the program does not change it.
        unsafe { (*self.base.get()).handle }
    }

    /// The domain of a parent domain; any other one itself.
    pub fn domain_of(&self) -> &Self {
        match &self.kind {
            Kind::Domain(_) => self,
            // SAFETY: it outlives its parent domains.
            Kind::Parent { pd, .. } => unsafe { &**pd },
        }
    }

    /// The domain as the driver has it.
    pub fn domain(&self) -> &ProtectionDomain {
        match &self.kind {
            Kind::Domain(domain) => domain,
            Kind::Parent { .. } => self.domain_of().domain(),
        }
    }

    /// Its null regions, if it has any.
    pub fn null(&self) -> &Null {
        &self.domain_of().null
    }

    /// Whether this is a parent domain.
    pub fn is_parent(&self) -> bool {
        matches!(self.kind, Kind::Parent { .. })
    }

    /// Whether objects made in it are used in one thread at a time.
    pub fn single_threaded(&self) -> bool {
        matches!(self.kind, Kind::Parent { td: Some(_), .. })
    }
}

fn alloc(context: &Context) -> Result<*mut ibv_pd> {
    let domain = context.card()?.context.alloc_pd()?;
    context.users.add();
    let number = domain.number();
    Ok(Pd::new(context.pointer(), number, Kind::Domain(domain)).give())
}

/// Allocates a protection domain.
///
/// # Safety
/// The context is open.
#[no_mangle]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    // SAFETY: as promised.
    pointer("ibv_alloc_pd", alloc(unsafe { Context::of(context) }))
}

/// Frees a protection domain or a parent domain.
///
/// # Safety
/// The domain lives, and is not used any more if this succeeds.
#[no_mangle]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    const CALL: &str = "ibv_dealloc_pd";
    // SAFETY: as promised.
    let shared = unsafe { Pd::of(pd) };
    if shared.context().is_inherited() {
        return 0;
    }
    if let Err(failure) = shared.users.none("protection domain") {
        return number(CALL, Err(failure));
    }
    // SAFETY: nothing uses it.
    let Pd { base, kind, null, .. } = *unsafe { Pd::back(pd) };
    // Its regions hold the domain.
    drop(null);
    match kind {
        Kind::Domain(domain) => {
            // SAFETY: a context outlives its domains.
            let context = unsafe { Context::of((*base.get()).context) };
            context.users.remove();
            if let Err(error) = domain.destroy() {
                // The number stays with the driver, and the program has no use for the domain.
                report(CALL, &error.into());
            }
        }
        Kind::Parent { pd, td } => {
            // SAFETY: both outlive their parent domains.
            unsafe {
                (*pd).users.remove();
                if let Some(td) = td {
                    (*td).users.remove();
                }
            }
        }
    }
    0
}

const _: functions::ibv_alloc_pd = ibv_alloc_pd;
const _: functions::ibv_dealloc_pd = ibv_dealloc_pd;
