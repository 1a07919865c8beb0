// SPDX-License-Identifier: MIT OR Apache-2.0
//! Structures of the kernel's interface (`rdma/ib_user_verbs.h`, `rdma/ib_user_sa.h`), and the functions that translate them.
//!
//! Nothing of this library uses them. They are exported for programs that speak to the kernel's connection manager by themselves.

use crate::abi::undeclared::{self, ib_user_path_rec, ib_uverbs_ah_attr, ib_uverbs_qp_attr};
use crate::abi::*;

/// `struct ib_uverbs_ah_attr`, with its `struct ib_uverbs_global_route`.
#[repr(C)]
#[derive(Clone, Copy)]
struct AhAttr {
    dgid: [u8; 16],
    flow_label: u32,
    sgid_index: u8,
    hop_limit: u8,
    traffic_class: u8,
    reserved0: u8,
    dlid: u16,
    sl: u8,
    src_path_bits: u8,
    static_rate: u8,
    is_global: u8,
    port_num: u8,
    reserved1: u8,
}

/// `struct ib_uverbs_qp_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
struct QpAttr {
    qp_attr_mask: u32,
    qp_state: u32,
    cur_qp_state: u32,
    path_mtu: u32,
    path_mig_state: u32,
    qkey: u32,
    rq_psn: u32,
    sq_psn: u32,
    dest_qp_num: u32,
    qp_access_flags: u32,
    ah_attr: AhAttr,
    alt_ah_attr: AhAttr,
    cap: [u32; 5],
    pkey_index: u16,
    alt_pkey_index: u16,
    en_sqd_async_notify: u8,
    sq_draining: u8,
    max_rd_atomic: u8,
    max_dest_rd_atomic: u8,
    min_rnr_timer: u8,
    port_num: u8,
    timeout: u8,
    retry_cnt: u8,
    rnr_retry: u8,
    alt_port_num: u8,
    alt_timeout: u8,
    reserved: [u8; 5],
}

/// `struct ib_user_path_rec`.
#[repr(C)]
#[derive(Clone, Copy)]
struct PathRec {
    dgid: [u8; 16],
    sgid: [u8; 16],
    dlid: be16,
    slid: be16,
    raw_traffic: u32,
    flow_label: be32,
    reversible: u32,
    mtu: u32,
    pkey: be16,
    hop_limit: u8,
    traffic_class: u8,
    numb_path: u8,
    sl: u8,
    mtu_selector: u8,
    rate_selector: u8,
    rate: u8,
    packet_life_time_selector: u8,
    packet_life_time: u8,
    preference: u8,
}

const _: () = assert!(size_of::<AhAttr>() == 32 && size_of::<QpAttr>() == 144 && size_of::<PathRec>() == 64);

fn address(from: &AhAttr) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: from.dgid },
            flow_label: from.flow_label,
            sgid_index: from.sgid_index,
            hop_limit: from.hop_limit,
            traffic_class: from.traffic_class,
        },
        dlid: from.dlid,
        sl: from.sl,
        src_path_bits: from.src_path_bits,
        static_rate: from.static_rate,
        is_global: from.is_global,
        port_num: from.port_num,
    }
}

/// From the kernel's address attributes.
///
/// # Safety
/// Both are valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_copy_ah_attr_from_kern(dst: *mut ibv_ah_attr, src: *mut ib_uverbs_ah_attr) {
    // SAFETY: as promised.
    unsafe { *dst = address(&*src.cast::<AhAttr>()) };
}

/// From the kernel's attributes of a queue pair.
///
/// # Safety
/// Both are valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_copy_qp_attr_from_kern(dst: *mut ibv_qp_attr, src: *mut ib_uverbs_qp_attr) {
    // SAFETY: as promised.
    let from = unsafe { *src.cast::<QpAttr>() };
    let [max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data] = from.cap;
    let to = ibv_qp_attr {
        qp_state: from.qp_state,
        cur_qp_state: from.cur_qp_state,
        path_mtu: from.path_mtu,
        path_mig_state: from.path_mig_state,
        qkey: from.qkey,
        rq_psn: from.rq_psn,
        sq_psn: from.sq_psn,
        dest_qp_num: from.dest_qp_num,
        qp_access_flags: from.qp_access_flags,
        cap: ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data },
        ah_attr: address(&from.ah_attr),
        alt_ah_attr: address(&from.alt_ah_attr),
        pkey_index: from.pkey_index,
        alt_pkey_index: from.alt_pkey_index,
        en_sqd_async_notify: from.en_sqd_async_notify,
        sq_draining: from.sq_draining,
        max_rd_atomic: from.max_rd_atomic,
        max_dest_rd_atomic: from.max_dest_rd_atomic,
        min_rnr_timer: from.min_rnr_timer,
        port_num: from.port_num,
        timeout: from.timeout,
        retry_cnt: from.retry_cnt,
        rnr_retry: from.rnr_retry,
        alt_port_num: from.alt_port_num,
        alt_timeout: from.alt_timeout,
        // The kernel has no rate limit there.
        rate_limit: 0,
    };
    // SAFETY: as promised.
    unsafe { *dst = to };
}

/// From the kernel's path.
///
/// # Safety
/// Both are valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_copy_path_rec_from_kern(dst: *mut ibv_sa_path_rec, src: *mut ib_user_path_rec) {
    // SAFETY: as promised.
    let from = unsafe { *src.cast::<PathRec>() };
    let to = ibv_sa_path_rec {
        dgid: ibv_gid { raw: from.dgid },
        sgid: ibv_gid { raw: from.sgid },
        dlid: from.dlid,
        slid: from.slid,
        raw_traffic: from.raw_traffic as i32,
        flow_label: from.flow_label,
        hop_limit: from.hop_limit,
        traffic_class: from.traffic_class,
        reversible: from.reversible as i32,
        numb_path: from.numb_path,
        pkey: from.pkey,
        sl: from.sl,
        mtu_selector: from.mtu_selector,
        mtu: from.mtu as u8,
        rate_selector: from.rate_selector,
        rate: from.rate,
        packet_life_time_selector: from.packet_life_time_selector,
        packet_life_time: from.packet_life_time,
        preference: from.preference,
    };
    // SAFETY: as promised.
    unsafe { *dst = to };
}

/// To the kernel's path.
///
/// # Safety
/// Both are valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_copy_path_rec_to_kern(dst: *mut ib_user_path_rec, src: *mut ibv_sa_path_rec) {
    // SAFETY: as promised; all bytes of a GID are numbers.
    let (from, dgid, sgid) = unsafe {
        let from = *src;
        (from, from.dgid.raw, from.sgid.raw)
    };
    let to = PathRec {
        dgid,
        sgid,
        dlid: from.dlid,
        slid: from.slid,
        raw_traffic: from.raw_traffic as u32,
        flow_label: from.flow_label,
        reversible: from.reversible as u32,
        mtu: from.mtu.into(),
        pkey: from.pkey,
        hop_limit: from.hop_limit,
        traffic_class: from.traffic_class,
        numb_path: from.numb_path,
        sl: from.sl,
        mtu_selector: from.mtu_selector,
        rate_selector: from.rate_selector,
        rate: from.rate,
        packet_life_time_selector: from.packet_life_time_selector,
        packet_life_time: from.packet_life_time,
        preference: from.preference,
    };
    // SAFETY: as promised.
    unsafe { *dst.cast::<PathRec>() = to };
}

const _: undeclared::ibv_copy_ah_attr_from_kern = ibv_copy_ah_attr_from_kern;
const _: undeclared::ibv_copy_qp_attr_from_kern = ibv_copy_qp_attr_from_kern;
const _: undeclared::ibv_copy_path_rec_from_kern = ibv_copy_path_rec_from_kern;
const _: undeclared::ibv_copy_path_rec_to_kern = ibv_copy_path_rec_to_kern;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_back_from_the_kernels_form() {
        let mut path = ibv_sa_path_rec {
            dlid: 1,
            flow_label: 2,
            hop_limit: 3,
            mtu: 4,
            rate: 5,
            preference: 6,
            reversible: 1,
            pkey: 0xffff,
            ..ibv_sa_path_rec::zeroed()
        };
        path.dgid = ibv_gid { raw: [9; 16] };
        let mut kernel = [0u64; 8];
        let mut back = ibv_sa_path_rec::zeroed();
        // SAFETY: the structure has 64 bytes.
        unsafe {
            ibv_copy_path_rec_to_kern(kernel.as_mut_ptr().cast(), &mut path);
            ibv_copy_path_rec_from_kern(&mut back, kernel.as_mut_ptr().cast());
            assert_eq!(back.dgid.raw, path.dgid.raw);
        }
        let some = |path: &ibv_sa_path_rec| {
            (path.dlid, path.flow_label, path.hop_limit, path.mtu, path.rate, path.preference)
        };
        assert_eq!(some(&back), some(&path));
    }
}
