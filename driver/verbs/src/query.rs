// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a device and its port are: attributes, GIDs, partition keys.

use core::ffi::{c_char, c_int, c_uint};

use ferrowire::spec::csr::port::GIDS;
use ferrowire::spec::pci;
use ferrowire::{Capabilities, Coded, DropReason, Identity, PathMtu, PortStatus};
use ferrowire_cards::attributes::{self, Link};
use ferrowire_cards::gids;
use rustix::io::Errno;

use crate::abi::*;
use crate::context::Context;
use crate::failure::{number, report, signed, Failure, Result};
use crate::lids;

/// The partition key of the only entry: the default partition, as a full member (IBTA 10.9.2).
pub const PKEY: u16 = 0xffff;

/// Longest message (IBTA 9.7.7).
const MAX_MESSAGE: u32 = 1 << 31;

/// The only port.
pub fn check_port(port: u32) -> Result<()> {
    match port {
        1 => Ok(()),
        port => Err(Failure::text(Errno::INVAL, format!("port {port}: the card has port 1"))),
    }
}

/// Text of a C structure.
pub fn text<const N: usize>(from: &str) -> [c_char; N] {
    let mut text = [0; N];
    for (to, from) in text[..N - 1].iter_mut().zip(from.bytes()) {
        *to = from as c_char;
    }
    text
}

fn int(value: impl Into<u64>) -> c_int {
    c_int::try_from(value.into()).unwrap_or(c_int::MAX)
}

/// A device's attributes, which `ferrowire info` prints, too.
pub fn device_attr(card: &Identity, mac: [u8; 6], can: &Capabilities) -> ibv_device_attr {
    let guid = u64::from_ne_bytes(gids::guid(mac));
    let has_srq = can.max_srq > 0;
    // As much as the page table has entries for, with the largest pages.
    let largest = can.page_shifts.checked_ilog2().unwrap_or(0);
    ibv_device_attr {
        fw_ver: text(&format!("{}.{}", card.version.0, card.version.1)),
        node_guid: guid,
        sys_image_guid: guid,
        max_mr_size: u64::from(can.mtt_entries) << largest,
        page_size_cap: can.page_shifts.into(),
        vendor_id: pci::VENDOR.into(),
        vendor_part_id: pci::DEVICE.into(),
        hw_ver: pci::REVISION.into(),
        max_qp: int(can.max_qp),
        max_qp_wr: 1 << can.max_sq_log2.min(can.max_rq_log2),
        device_cap_flags: attributes::device_flags(can),
        max_sge: int(can.max_send_sge.min(can.max_recv_sge)),
        max_sge_rd: int(can.max_send_sge),
        max_cq: int(can.max_cq),
        max_cqe: int(can.max_cqe()),
        max_mr: int(can.max_mr),
        max_pd: int(can.max_pd),
        max_qp_rd_atom: int(can.max_dest_rd_atomic),
        max_res_rd_atom: int(u64::from(can.max_dest_rd_atomic) * u64::from(can.max_qp)),
        max_qp_init_rd_atom: int(can.max_rd_atomic),
        atomic_cap: if can.atomics { IBV_ATOMIC_HCA } else { IBV_ATOMIC_NONE },
        max_mw: if can.memory_windows { int(can.max_mr) } else { 0 },
        max_raw_ethy_qp: can.raw_ethernet.into(),
        max_ah: int(can.max_ah),
        max_srq: int(can.max_srq),
        max_srq_wr: if has_srq { 1 << can.max_rq_log2 } else { 0 },
        max_srq_sge: if has_srq { int(can.max_recv_sge) } else { 0 },
        max_pkeys: attributes::PKEYS,
        phys_port_cnt: 1,
        ..ibv_device_attr::zeroed()
    }
}

/// A port's attributes, which `ferrowire info` prints, too.
pub fn port_attr(port: &PortStatus, can: &Capabilities, pkeys: u64, qkeys: u64) -> ibv_port_attr {
    let mtu = match can.max_mtu {
        Coded::Known(mtu) => mtu_code(mtu),
        Coded::Unknown(_) => IBV_MTU_256,
    };
    let link = Link::of(port.speed);
    ibv_port_attr {
        state: if port.up { IBV_PORT_ACTIVE } else { IBV_PORT_DOWN },
        max_mtu: mtu,
        active_mtu: mtu,
        gid_tbl_len: GIDS as c_int,
        port_cap_flags: attributes::PORT_FLAGS,
        max_msg_sz: MAX_MESSAGE,
        bad_pkey_cntr: pkeys as u32,
        qkey_viol_cntr: qkeys as u32,
        pkey_tbl_len: attributes::PKEYS,
        max_vl_num: attributes::MAX_VL,
        active_width: link.width,
        active_speed: link.speed,
        // IBTA PortPhysicalState: link up, disabled.
        phys_state: if port.up { 5 } else { 3 },
        link_layer: IBV_LINK_LAYER_ETHERNET as u8,
        flags: IBV_QPF_GRH_REQUIRED as u8,
        active_speed_ex: link.speed.into(),
        ..ibv_port_attr::zeroed()
    }
}

/// A path MTU as verbs have it.
pub fn mtu_code(mtu: PathMtu) -> ibv_mtu {
    match mtu {
        PathMtu::B256 => IBV_MTU_256,
        PathMtu::B512 => IBV_MTU_512,
        PathMtu::B1024 => IBV_MTU_1024,
        PathMtu::B2048 => IBV_MTU_2048,
        PathMtu::B4096 => IBV_MTU_4096,
    }
}

/// The path MTU of a code of verbs.
pub fn mtu_of(code: ibv_mtu) -> Option<PathMtu> {
    PathMtu::ALL.iter().copied().find(|mtu| mtu_code(*mtu) == code)
}

/// Copies the first `bytes` of a structure to a program whose own may be shorter or longer.
///
/// # Safety
/// `to` has room for `bytes`.
unsafe fn copy_out<T>(from: &T, to: *mut u8, bytes: usize) {
    let common = bytes.min(size_of::<T>());
    // SAFETY: both have `common` bytes.
    unsafe {
        core::ptr::copy_nonoverlapping(core::ptr::from_ref(from).cast::<u8>(), to, common);
        core::ptr::write_bytes(to.add(common), 0, bytes - common);
    }
}

fn device(context: &Context) -> Result<ibv_device_attr> {
    Ok(device_attr(&context.identity()?, context.mac()?, &context.capabilities()?))
}

fn port(context: &Context, number: u8) -> Result<ibv_port_attr> {
    check_port(number.into())?;
    let (pkeys, qkeys) = (context.drops(DropReason::Pkey)?, context.drops(DropReason::Qkey)?);
    let found = port_attr(&context.port()?, &context.capabilities()?, pkeys, qkeys);
    Ok(ibv_port_attr { lid: lids::own(&context.gids()?), ..found })
}

/// Attributes of a device.
///
/// # Safety
/// The context is open, `attr` is valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    // SAFETY: as promised.
    let result = device(unsafe { Context::of(context) });
    // SAFETY: as promised.
    number("ibv_query_device", result.map(|found| unsafe { *attr = found }))
}

/// Further attributes of a device. The program says how long its structure is.
///
/// # Safety
/// The context is open, `attr` has `size` bytes.
pub unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    size: usize,
) -> c_int {
    const CALL: &str = "ibv_query_device_ex";
    // SAFETY: as promised.
    if !input.is_null() && unsafe { (*input).comp_mask } != 0 {
        return number(CALL, Err(Failure::invalid("comp_mask of the input must be 0")));
    }
    // SAFETY: as promised.
    let context = unsafe { Context::of(context) };
    let found = || -> Result<ibv_device_attr_ex> {
        let orig_attr = device(context)?;
        Ok(ibv_device_attr_ex {
            orig_attr,
            hca_core_clock: context.identity()?.clock_khz.into(),
            device_cap_flags_ex: orig_attr.device_cap_flags.into(),
            phys_port_cnt_ex: 1,
            // As wide as the fields of the command.
            cq_mod_caps: ibv_cq_moderation_caps { max_cq_count: u16::MAX, max_cq_period: u16::MAX },
            ..ibv_device_attr_ex::zeroed()
        })
    };
    // SAFETY: as promised.
    number(CALL, found().map(|found| unsafe { copy_out(&found, attr.cast(), size) }))
}

/// Attributes of a port, for programs whose structure ends before `port_cap_flags2`.
///
/// # Safety
/// The context is open, `attr` has [`COMPAT_PORT_ATTR_BYTES`] bytes.
#[no_mangle]
pub unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    port_num: u8,
    attr: *mut _compat_ibv_port_attr,
) -> c_int {
    // SAFETY: as promised.
    let result = port(unsafe { Context::of(context) }, port_num);
    // SAFETY: as promised.
    let copied = result.map(|found| unsafe { copy_out(&found, attr.cast(), COMPAT_PORT_ATTR_BYTES) });
    number("ibv_query_port", copied)
}

/// The same. The program says how long its structure is.
///
/// # Safety
/// The context is open, `attr` has `size` bytes.
pub unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port_num: u8,
    attr: *mut ibv_port_attr,
    size: usize,
) -> c_int {
    // SAFETY: as promised.
    let result = port(unsafe { Context::of(context) }, port_num);
    // SAFETY: as promised.
    number("ibv_query_port", result.map(|found| unsafe { copy_out(&found, attr.cast(), size) }))
}

/// The speed of the port in units of 100 Mb/s.
///
/// # Safety
/// The context is open, `speed` is valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_query_port_speed(
    context: *mut ibv_context,
    port_num: u32,
    speed: *mut u64,
) -> c_int {
    // SAFETY: as promised.
    let context = unsafe { Context::of(context) };
    let result = check_port(port_num).and_then(|()| context.port());
    // SAFETY: as promised.
    number("ibv_query_port_speed", result.map(|port| unsafe { *speed = port.speed.into() }))
}

/// Whether there is such an index in the table of GIDs.
fn check_gid(index: u32) -> Result<()> {
    match index < GIDS {
        true => Ok(()),
        false => Err(Failure::text(Errno::INVAL, format!("GID index {index}: the port has {GIDS} entries"))),
    }
}

/// A GID; zeros for an entry that is empty.
///
/// # Safety
/// The context is open, `gid` is valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    // SAFETY: as promised.
    let context = unsafe { Context::of(context) };
    let found = || -> Result<ibv_gid> {
        check_port(port_num.into())?;
        check_gid(index as u32)?;
        let raw = context.gids()?.get(index as usize).map_or([0; 16], |ip| ip.octets());
        Ok(ibv_gid { raw })
    };
    let result = found().map(|found| {
        // SAFETY: as promised.
        unsafe { *gid = found };
        0
    });
    signed("ibv_query_gid", result)
}

/// The entry of a GID: all have the type RoCE v2. No network device of the kernel has them.
fn entry(index: usize, ip: std::net::Ipv6Addr) -> ibv_gid_entry {
    ibv_gid_entry {
        gid: ibv_gid { raw: ip.octets() },
        gid_index: index as u32,
        port_num: 1,
        gid_type: IBV_GID_TYPE_ROCE_V2,
        ndev_ifindex: 0,
    }
}

/// An entry of the table of GIDs. The program says how long its structure is.
///
/// # Safety
/// The context is open, `out` has `entry_size` bytes.
#[no_mangle]
pub unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    out: *mut ibv_gid_entry,
    flags: u32,
    entry_size: usize,
) -> c_int {
    // SAFETY: as promised.
    let context = unsafe { Context::of(context) };
    let found = || -> Result<ibv_gid_entry> {
        if flags != 0 {
            return Err(Failure::unsupported("flags must be 0"));
        }
        check_port(port_num)?;
        check_gid(gid_index)?;
        match context.gids()?.get(gid_index as usize) {
            Some(ip) => Ok(entry(gid_index as usize, *ip)),
            // An entry that is empty, as the kernel says it.
            None => Err(Failure::new(Errno::NODATA, "the entry is empty")),
        }
    };
    // SAFETY: as promised.
    number("ibv_query_gid_ex", found().map(|found| unsafe { copy_out(&found, out.cast(), entry_size) }))
}

/// All entries of the table of GIDs that are not empty; how many there are.
///
/// # Safety
/// The context is open, `entries` has room for `max_entries` of `entry_size` bytes.
#[no_mangle]
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> ssize_t {
    const CALL: &str = "ibv_query_gid_table";
    let refuse = |failure| -(report(CALL, &failure).raw_os_error() as ssize_t);
    if flags != 0 {
        return refuse(Failure::unsupported("flags must be 0"));
    }
    // SAFETY: as promised.
    let gids = match unsafe { Context::of(context) }.gids() {
        Ok(gids) => gids,
        Err(failure) => return refuse(failure),
    };
    if gids.len() > max_entries {
        return refuse(Failure::text(
            Errno::INVAL,
            format!("the port has {} GIDs, max_entries is {max_entries}", gids.len()),
        ));
    }
    for (index, ip) in gids.iter().enumerate() {
        // SAFETY: as promised, for fewer than `max_entries`.
        unsafe { copy_out(&entry(index, *ip), entries.cast::<u8>().add(index * entry_size), entry_size) };
    }
    gids.len() as ssize_t
}

/// The type of a GID, by the numbers of sysfs.
///
/// # Safety
/// The context is open, `kind` is valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_query_gid_type(
    context: *mut ibv_context,
    port_num: u8,
    index: c_uint,
    kind: *mut undeclared::ibv_gid_type_sysfs,
) -> c_int {
    let _ = context;
    let checked = check_port(port_num.into()).and_then(|()| check_gid(index));
    let result = checked.map(|()| {
        // SAFETY: as promised.
        unsafe { *kind = undeclared::IBV_GID_TYPE_SYSFS_ROCE_V2 };
        0
    });
    signed("ibv_query_gid_type", result)
}

/// A partition key.
///
/// # Safety
/// `pkey` is valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_query_pkey(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    pkey: *mut be16,
) -> c_int {
    let _ = context;
    let checked = check_port(port_num.into()).and_then(|()| match index {
        0 => Ok(()),
        _ => Err(Failure::text(Errno::INVAL, format!("partition key index {index}: the port has index 0"))),
    });
    let result = checked.map(|()| {
        // SAFETY: as promised.
        unsafe { *pkey = PKEY.to_be() };
        0
    });
    signed("ibv_query_pkey", result)
}

/// The index of a partition key.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn ibv_get_pkey_index(context: *mut ibv_context, port_num: u8, pkey: be16) -> c_int {
    let _ = context;
    let found = check_port(port_num.into()).and_then(|()| match u16::from_be(pkey) {
        PKEY => Ok(0),
        other => {
            Err(Failure::text(Errno::NOENT, format!("partition key {other:#06x}: the port has {PKEY:#06x}")))
        }
    });
    signed("ibv_get_pkey_index", found)
}

/// Values of the device's clock, which cannot be read.
///
/// # Safety
/// None is needed.
pub unsafe extern "C" fn query_rt_values(context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int {
    let _ = (context, values);
    let why = "completions have no time stamps, and the card's clock cannot be read";
    number("ibv_query_rt_values_ex", Err(Failure::unsupported(why)))
}

const _: functions::ibv_query_device = ibv_query_device;
const _: functions::ibv_query_port = ibv_query_port;
const _: functions::ibv_query_port_speed = ibv_query_port_speed;
const _: functions::ibv_query_gid = ibv_query_gid;
const _: functions::_ibv_query_gid_ex = _ibv_query_gid_ex;
const _: functions::_ibv_query_gid_table = _ibv_query_gid_table;
const _: undeclared::ibv_query_gid_type = ibv_query_gid_type;
const _: functions::ibv_query_pkey = ibv_query_pkey;
const _: functions::ibv_get_pkey_index = ibv_get_pkey_index;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structure_is_copied_as_far_as_the_program_has_room() {
        let from = [0x0201u16, 0x0403];
        for bytes in 0..8 {
            let mut to = [0xee; 8];
            // SAFETY: there is room for eight.
            unsafe { copy_out(&from, to.as_mut_ptr(), bytes) };
            let mut expected = [0xee; 8];
            expected[..bytes].copy_from_slice(&[1, 2, 3, 4, 0, 0, 0, 0][..bytes]);
            assert_eq!(to, expected, "{bytes}");
        }
    }
}
