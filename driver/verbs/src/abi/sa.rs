// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of the subnet administrator.

use core::ffi::c_int;

use super::layout::*;
use super::{be16, be32, be64, ibv_gid};

constants! {
    values c_int {
        IBV_PATH_RECORD_REVERSIBLE = 0x80,
        IBV_PATH_FLAG_GMP = 1 << 0,
        IBV_PATH_FLAG_PRIMARY = 1 << 1,
        IBV_PATH_FLAG_ALTERNATE = 1 << 2,
        IBV_PATH_FLAG_OUTBOUND = 1 << 3,
        IBV_PATH_FLAG_INBOUND = 1 << 4,
        IBV_PATH_FLAG_INBOUND_REVERSE = 1 << 5,
        IBV_PATH_FLAG_BIDIRECTIONAL = IBV_PATH_FLAG_OUTBOUND | IBV_PATH_FLAG_INBOUND_REVERSE,
    }
}

layout! {
    /// A path, with a member for each field.
    struct ibv_sa_path_rec {
        dgid: ibv_gid,
        sgid: ibv_gid,
        dlid: be16,
        slid: be16,
        raw_traffic: c_int,
        flow_label: be32,
        hop_limit: u8,
        traffic_class: u8,
        reversible: c_int,
        numb_path: u8,
        pkey: be16,
        sl: u8,
        mtu_selector: u8,
        mtu: u8,
        rate_selector: u8,
        rate: u8,
        packet_life_time_selector: u8,
        packet_life_time: u8,
        preference: u8,
    }

    /// Membership of a multicast group.
    struct ibv_sa_mcmember_rec {
        mgid: ibv_gid,
        port_gid: ibv_gid,
        qkey: u32,
        mlid: u16,
        mtu_selector: u8,
        mtu: u8,
        traffic_class: u8,
        pkey: u16,
        rate_selector: u8,
        rate: u8,
        packet_life_time_selector: u8,
        packet_life_time: u8,
        sl: u8,
        flow_label: u32,
        hop_limit: u8,
        scope: u8,
        join_state: u8,
        proxy_join: c_int,
    }

    /// A service.
    struct ibv_sa_service_rec {
        id: u64,
        gid: ibv_gid,
        pkey: u16,
        lease: u32,
        key: [u8; 16],
        name: [u8; 64],
        data8: [u8; 16],
        data16: [u16; 8],
        data32: [u32; 4],
        data64: [u64; 2],
    }

    /// A path as a MAD carries it.
    struct ibv_path_record {
        service_id: be64,
        dgid: ibv_gid,
        sgid: ibv_gid,
        dlid: be16,
        slid: be16,
        flowlabel_hoplimit: be32,
        tclass: u8,
        reversible_numpath: u8,
        pkey: be16,
        qosclass_sl: be16,
        mtu: u8,
        rate: u8,
        packetlifetime: u8,
        preference: u8,
        reserved: [u8; 6],
    }

    /// A path of `RDMA_OPTION_IB_PATH` and of `rdma_addrinfo.ai_route`.
    struct ibv_path_data {
        flags: u32,
        reserved: u32,
        path: ibv_path_record,
    }
}
