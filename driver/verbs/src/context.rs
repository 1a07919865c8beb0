// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Context`]: an open device, with the tables through which inline functions of C call this library.

use core::ffi::c_int;
use std::mem::offset_of;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use ferrowire::{Capabilities, DropReason, Identity, Monitor, PortStatus};
use ferrowire_cards::gids;
use rustix::io::Errno;

use crate::abi::*;
use crate::card::Card;
use crate::count::Users;
use crate::device::{observing, opened, Device};
use crate::events::{self, Pending};
use crate::failure::{Failure, Result};
use crate::fork::{self, Files, INHERITED};
use crate::log::say;
use crate::queue::FdQueue;
use crate::raw::Raw;
use crate::{cq, cq_ex, mr, mw, parent, post, qp, query, srq, unsupported};

/// How a context reaches its card.
pub enum Backend {
    /// The card is this process's.
    Card(&'static Card),
    /// The card is only observed.
    Observer(Box<Mutex<Observer>>),
}

/// A card that is only observed.
pub struct Observer {
    monitor: Monitor,
    gids: Vec<IpAddr>,
    /// Its files.
    _files: Files,
}

/// An open device.
#[repr(C)]
pub struct Context {
    verbs: Raw<verbs_context>,
    /// The device.
    pub device: &'static Device,
    /// The card.
    pub backend: Backend,
    /// Asynchronous events that the program has not taken; their descriptor is `async_fd`.
    pub events: FdQueue<Pending>,
    /// Objects of the context.
    pub users: Users,
    /// The process that opened it: see [`fork::generation`].
    born: u32,
}

impl Context {
    /// The context of a program's pointer.
    ///
    /// # Safety
    /// The pointer came from this library, and the context is open.
    pub unsafe fn of<'a>(context: *mut ibv_context) -> &'a Self {
        // SAFETY: the program has the last member of `verbs_context`, which is the first of the object.
        unsafe { &*context.byte_sub(offset_of!(verbs_context, context)).cast::<Self>() }
    }

    /// The pointer that programs have.
    pub fn pointer(&self) -> *mut ibv_context {
        // Of the whole object, from which `of` goes back to it.
        let whole = std::ptr::from_ref(self).cast_mut().cast::<verbs_context>();
        // SAFETY: the member is inside the first part of the object; no reference to it is made.
        unsafe { std::ptr::addr_of_mut!((*whole).context) }
    }

    /// Whether a process opened it that this one was forked from. Then nothing of it and of its objects is touched: see [`crate::fork`].
    #[inline]
    pub fn is_inherited(&self) -> bool {
        self.born != fork::generation()
    }

    /// Refuses calls for what is [inherited](Self::is_inherited).
    pub fn own(&self) -> Result<()> {
        match self.is_inherited() {
            true => Err(INHERITED),
            false => Ok(()),
        }
    }

    /// The card, for what changes it.
    pub fn card(&self) -> Result<&'static Card> {
        match &self.backend {
            Backend::Card(card) if card.is_dead() => Err(card.gone()),
            Backend::Card(card) => Ok(card),
            Backend::Observer(_) => Err(Failure::new(
                Errno::BUSY,
                "the card is only observed (FERROWIRE_OBSERVE); run the program without `--observe`",
            )),
        }
    }

    /// What the card holds and can do.
    pub fn capabilities(&self) -> Result<Capabilities> {
        self.own()?;
        Ok(match &self.backend {
            Backend::Card(card) => card.context.capabilities().clone(),
            Backend::Observer(observer) => lock(observer).monitor.capabilities().clone(),
        })
    }

    /// What the card is.
    pub fn identity(&self) -> Result<Identity> {
        self.own()?;
        Ok(match &self.backend {
            Backend::Card(card) => card.context.identity()?,
            Backend::Observer(observer) => lock(observer).monitor.identity()?,
        })
    }

    /// The port, as it is now.
    pub fn port(&self) -> Result<PortStatus> {
        self.own()?;
        match &self.backend {
            Backend::Card(card) => card.port(),
            Backend::Observer(observer) => Ok(lock(observer).monitor.port()?),
        }
    }

    /// How many packets were dropped for a reason.
    pub fn drops(&self, reason: DropReason) -> Result<u64> {
        self.own()?;
        Ok(match &self.backend {
            Backend::Card(card) => card.context.drop_counter(reason)?,
            Backend::Observer(observer) => lock(observer).monitor.drop_counter(reason)?,
        })
    }

    /// The MAC address.
    pub fn mac(&self) -> Result<[u8; 6]> {
        match &self.backend {
            Backend::Card(card) => Ok(card.mac),
            Backend::Observer(_) => Ok(self.port()?.mac),
        }
    }

    /// GIDs, in the order of their indices.
    pub fn gids(&self) -> Result<Vec<Ipv6Addr>> {
        self.own()?;
        Ok(match &self.backend {
            Backend::Card(card) => card.gids().into_iter().map(gids::as_v6).collect(),
            Backend::Observer(observer) => lock(observer).gids.iter().map(|ip| gids::as_v6(*ip)).collect(),
        })
    }
}

fn lock(observer: &Mutex<Observer>) -> std::sync::MutexGuard<'_, Observer> {
    observer.lock().unwrap_or_else(PoisonError::into_inner)
}

fn observe(device: &'static Device) -> Result<Backend> {
    let mut monitor = device.place.observe().map_err(|error| opened(&device.place, error))?;
    let mac = monitor.port()?.mac;
    let key = gids::key(&device.place);
    let kept = gids::load().map(|mut kept| kept.remove(&key).unwrap_or_default()).unwrap_or_default();
    let all = gids::merged(mac, monitor.addresses(), kept, monitor.capabilities().ipv6);
    let _files = Files::note(&monitor.files());
    Ok(Backend::Observer(Box::new(Mutex::new(Observer { monitor, gids: all, _files }))))
}

/// Opens a device.
pub fn open(device: &'static Device) -> Result<*mut ibv_context> {
    let backend = match observing() {
        true => observe(device)?,
        false => Backend::Card(device.card()?),
    };
    let events =
        FdQueue::new().map_err(|error| Failure::new(error, "make an event file; raise `ulimit -n`"))?;
    let vectors = match &backend {
        Backend::Card(card) => card.context.capabilities().max_eq,
        Backend::Observer(observer) => lock(observer).monitor.capabilities().max_eq,
    };
    let mut verbs = verbs_context { context: classic(), ..extended() };
    verbs.context.device = device.pointer();
    verbs.context.async_fd = events.fd();
    let born = fork::generation();
    // Event queue 0 is none.
    verbs.context.num_comp_vectors = vectors.saturating_sub(1).max(1) as i32;
    let context =
        Box::new(Context { verbs: Raw::new(verbs), device, backend, events, users: Users::default(), born });
    let context: *mut Context = Box::into_raw(context);
    // SAFETY: it was made just now, and lives until `close`.
    let shared = unsafe { &*context };
    if let Backend::Card(card) = shared.backend {
        let mut objects = card.objects();
        objects.contexts.push(context);
        // A card that went meanwhile has told all contexts that were there.
        if card.is_dead() {
            events::tell(shared, IBV_EVENT_DEVICE_FATAL);
        }
    }
    // SAFETY: the member is inside; the pointer is that of the whole object.
    Ok(unsafe { std::ptr::addr_of_mut!((*context.cast::<verbs_context>()).context) })
}

/// Closes a device.
///
/// # Safety
/// The context came from [`open`] and was not closed.
pub unsafe fn close(context: *mut ibv_context) -> Result<()> {
    // SAFETY: as promised.
    let context = unsafe { Context::of(context) };
    if context.is_inherited() {
        return Ok(());
    }
    let own: *const Context = context;
    // Events of the port are not kept for it any more.
    if let Backend::Card(card) = context.backend {
        card.objects().contexts.retain(|other| *other != own);
    }
    if let Err(left) = context.users.none("context") {
        // As with the kernel, what is left goes with the process.
        say!("ibv_close_device: {left}");
        return Ok(());
    }
    // SAFETY: `open` made it of a box; it is in no table any more, and the program gives it back.
    drop(unsafe { Box::from_raw(own.cast_mut()) });
    Ok(())
}

/// A file for programs that duplicate that of a context. It takes no commands.
fn command_file() -> c_int {
    fork::null()
}

/// The members that programs of all releases use.
fn classic() -> ibv_context {
    let ops = ibv_context_ops {
        alloc_mw: Some(mw::alloc_mw),
        bind_mw: Some(mw::bind_mw),
        dealloc_mw: Some(mw::dealloc_mw),
        poll_cq: Some(cq::poll_cq),
        req_notify_cq: Some(cq::req_notify_cq),
        post_srq_recv: Some(srq::post_srq_recv),
        post_send: Some(post::post_send),
        post_recv: Some(post::post_recv),
        ..ibv_context_ops::zeroed()
    };
    ibv_context {
        ops,
        cmd_fd: command_file(),
        abi_compat: std::ptr::without_provenance_mut(__VERBS_ABI_IS_EXTENDED),
        ..ibv_context::zeroed()
    }
}

/// The other functions. Each slot is filled: inline functions of C test some and call others without a test.
fn extended() -> verbs_context {
    verbs_context {
        free_buf: Some(unsupported::ibv_free_buf),
        alloc_buf: Some(unsupported::ibv_alloc_buf),
        dm_export_dmabuf_fd: Some(unsupported::ibv_dm_export_dmabuf_fd),
        reg_mr_ex: Some(mr::ibv_reg_mr_ex),
        dealloc_dmah: Some(unsupported::ibv_dealloc_dmah),
        alloc_dmah: Some(unsupported::ibv_alloc_dmah),
        query_port: Some(query::query_port),
        advise_mr: Some(unsupported::advise_mr),
        alloc_null_mr: Some(mr::alloc_null_mr),
        read_counters: Some(unsupported::read_counters),
        attach_counters_point_flow: Some(unsupported::attach_counters_point_flow),
        create_counters: Some(unsupported::create_counters),
        destroy_counters: Some(unsupported::destroy_counters),
        reg_dm_mr: Some(unsupported::reg_dm_mr),
        alloc_dm: Some(unsupported::alloc_dm),
        free_dm: Some(unsupported::free_dm),
        modify_flow_action_esp: Some(unsupported::modify_flow_action_esp),
        destroy_flow_action: Some(unsupported::destroy_flow_action),
        create_flow_action_esp: Some(unsupported::create_flow_action_esp),
        modify_qp_rate_limit: Some(unsupported::modify_qp_rate_limit),
        alloc_parent_domain: Some(parent::alloc_parent_domain),
        dealloc_td: Some(parent::dealloc_td),
        alloc_td: Some(parent::alloc_td),
        modify_cq: Some(cq::modify_cq),
        post_srq_ops: Some(unsupported::post_srq_ops),
        destroy_rwq_ind_table: Some(unsupported::destroy_rwq_ind_table),
        create_rwq_ind_table: Some(unsupported::create_rwq_ind_table),
        destroy_wq: Some(unsupported::destroy_wq),
        modify_wq: Some(unsupported::modify_wq),
        create_wq: Some(unsupported::create_wq),
        query_rt_values: Some(query::query_rt_values),
        create_cq_ex: Some(cq_ex::create_cq_ex),
        r#priv: std::ptr::null_mut(),
        query_device_ex: Some(query::query_device_ex),
        ibv_destroy_flow: Some(unsupported::destroy_flow),
        // Programs of 2013 call flow steering there.
        ABI_placeholder2: Some(unsupported::old_destroy_flow()),
        ibv_create_flow: Some(unsupported::create_flow),
        ABI_placeholder1: Some(unsupported::old_create_flow()),
        open_qp: Some(unsupported::open_qp),
        create_qp_ex: Some(qp::create_qp_ex),
        get_srq_num: Some(srq::get_srq_num),
        create_srq_ex: Some(srq::create_srq_ex),
        open_xrcd: Some(unsupported::open_xrcd),
        close_xrcd: Some(unsupported::close_xrcd),
        _ABI_placeholder3: 0,
        sz: size_of::<verbs_context>(),
        context: ibv_context::zeroed(),
    }
}
