// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection manager, and the options of `rsocket`.

use core::ffi::{c_char, c_int, c_uint, c_void};

use super::layout::*;
use super::{
    be16, ibv_ah_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_gid, ibv_pd, ibv_qp, ibv_qp_type,
    ibv_sa_path_rec, ibv_srq, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t,
};

constants! {
    /// Kind of an event.
    enum rdma_cm_event_type: c_uint {
        RDMA_CM_EVENT_ADDR_RESOLVED = 0,
        RDMA_CM_EVENT_ADDR_ERROR = 1,
        RDMA_CM_EVENT_ROUTE_RESOLVED = 2,
        RDMA_CM_EVENT_ROUTE_ERROR = 3,
        RDMA_CM_EVENT_CONNECT_REQUEST = 4,
        RDMA_CM_EVENT_CONNECT_RESPONSE = 5,
        RDMA_CM_EVENT_CONNECT_ERROR = 6,
        RDMA_CM_EVENT_UNREACHABLE = 7,
        RDMA_CM_EVENT_REJECTED = 8,
        RDMA_CM_EVENT_ESTABLISHED = 9,
        RDMA_CM_EVENT_DISCONNECTED = 10,
        RDMA_CM_EVENT_DEVICE_REMOVAL = 11,
        RDMA_CM_EVENT_MULTICAST_JOIN = 12,
        RDMA_CM_EVENT_MULTICAST_ERROR = 13,
        RDMA_CM_EVENT_ADDR_CHANGE = 14,
        RDMA_CM_EVENT_TIMEWAIT_EXIT = 15,
        [since 65] RDMA_CM_EVENT_ADDRINFO_RESOLVED = 16,
        [since 65] RDMA_CM_EVENT_ADDRINFO_ERROR = 17,
        [since 65] RDMA_CM_EVENT_USER = 18,
        [since 65] RDMA_CM_EVENT_INTERNAL = 19,
    }

    /// Port space of an identifier.
    enum rdma_port_space: c_uint {
        RDMA_PS_IPOIB = 0x0002,
        RDMA_PS_TCP = 0x0106,
        RDMA_PS_UDP = 0x0111,
        RDMA_PS_IB = 0x013f,
    }

    /// Bits of `rdma_cm_join_mc_attr_ex.comp_mask`.
    enum rdma_cm_join_mc_attr_mask: c_uint {
        RDMA_CM_JOIN_MC_ATTR_ADDRESS = 1 << 0,
        RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS = 1 << 1,
        RDMA_CM_JOIN_MC_ATTR_RESERVED = 1 << 2,
    }

    /// How a member joins a multicast group.
    enum rdma_cm_mc_join_flags: c_uint {
        RDMA_MC_JOIN_FLAG_FULLMEMBER = 0,
        RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER = 1,
        RDMA_MC_JOIN_FLAG_RESERVED = 2,
    }

    values u64 {
        RDMA_IB_IP_PS_MASK = 0xffff_ffff_ffff_0000,
        RDMA_IB_IP_PORT_MASK = 0xffff,
        RDMA_IB_IP_PS_TCP = 0x0106_0000,
        RDMA_IB_IP_PS_UDP = 0x0111_0000,
        RDMA_IB_PS_IB = 0x013f_0000,
    }

    values c_uint {
        RDMA_UDP_QKEY = 0x0123_4567,
    }

    values c_int {
        RDMA_MAX_RESP_RES = 0xff,
        RDMA_MAX_INIT_DEPTH = 0xff,
        RAI_PASSIVE = 1 << 0,
        RAI_NUMERICHOST = 1 << 1,
        RAI_NOROUTE = 1 << 2,
        RAI_FAMILY = 1 << 3,
        [since 65] RAI_SA = 1 << 4,
        [since 65] RAI_DNS = 1 << 5,
        RDMA_OPTION_ID = 0,
        RDMA_OPTION_IB = 1,
        RDMA_OPTION_ID_TOS = 0,
        RDMA_OPTION_ID_REUSEADDR = 1,
        RDMA_OPTION_ID_AFONLY = 2,
        RDMA_OPTION_ID_ACK_TIMEOUT = 3,
        RDMA_OPTION_IB_PATH = 1,
        SOL_RDMA = 0x10000,
        RDMA_SQSIZE = 0,
        RDMA_RQSIZE = 1,
        RDMA_INLINE = 2,
        RDMA_IOMAPSIZE = 3,
        RDMA_ROUTE = 4,
    }
}

layout! {
    /// InfiniBand address of a path.
    struct rdma_ib_addr {
        sgid: ibv_gid,
        dgid: ibv_gid,
        pkey: be16,
    }

    /// Source address.
    [in rdma_addr.src]
    union rdma_addr_src {
        src_addr: sockaddr,
        src_sin: sockaddr_in,
        src_sin6: sockaddr_in6,
        src_storage: sockaddr_storage,
    }

    /// Destination address.
    [in rdma_addr.dst]
    union rdma_addr_dst {
        dst_addr: sockaddr,
        dst_sin: sockaddr_in,
        dst_sin6: sockaddr_in6,
        dst_storage: sockaddr_storage,
    }

    /// Address of the transport.
    union rdma_addr_addr as "rdma_addr.addr" {
        ibaddr: rdma_ib_addr,
    }

    /// Addresses of both ends.
    struct rdma_addr {
        [hidden] src: rdma_addr_src,
        [hidden] dst: rdma_addr_dst,
        addr: rdma_addr_addr,
    }

    /// Addresses and paths.
    struct rdma_route {
        addr: rdma_addr,
        path_rec: *mut ibv_sa_path_rec,
        num_paths: c_int,
    }

    /// A channel of events. Programs poll `fd` and change its flags.
    struct rdma_event_channel {
        fd: c_int,
    }

    /// A communication identifier. Programs read all members and may write `context`, `qp`, `pd` and the CQs.
    struct rdma_cm_id {
        verbs: *mut ibv_context,
        channel: *mut rdma_event_channel,
        context: *mut c_void,
        qp: *mut ibv_qp,
        route: rdma_route,
        ps: rdma_port_space,
        port_num: u8,
        event: *mut rdma_cm_event,
        send_cq_channel: *mut ibv_comp_channel,
        send_cq: *mut ibv_cq,
        recv_cq_channel: *mut ibv_comp_channel,
        recv_cq: *mut ibv_cq,
        srq: *mut ibv_srq,
        pd: *mut ibv_pd,
        qp_type: ibv_qp_type,
    }

    /// Parameters of a connection.
    struct rdma_conn_param {
        private_data: *const c_void,
        private_data_len: u8,
        responder_resources: u8,
        initiator_depth: u8,
        flow_control: u8,
        retry_count: u8,
        rnr_retry_count: u8,
        srq: u8,
        qp_num: u32,
    }

    /// Parameters of a datagram service.
    struct rdma_ud_param {
        private_data: *const c_void,
        private_data_len: u8,
        ah_attr: ibv_ah_attr,
        qp_num: u32,
        qkey: u32,
    }

    /// Parameters of an event, by the port space and the kind of event.
    union rdma_cm_event_param as "rdma_cm_event.param" {
        conn: rdma_conn_param,
        ud: rdma_ud_param,
        [since 65] arg: u64,
    }

    /// An event.
    struct rdma_cm_event {
        id: *mut rdma_cm_id,
        listen_id: *mut rdma_cm_id,
        event: rdma_cm_event_type,
        status: c_int,
        param: rdma_cm_event_param,
    }

    /// Addresses that `rdma_getaddrinfo` resolves.
    struct rdma_addrinfo {
        ai_flags: c_int,
        ai_family: c_int,
        ai_qp_type: c_int,
        ai_port_space: c_int,
        ai_src_len: socklen_t,
        ai_dst_len: socklen_t,
        ai_src_addr: *mut sockaddr,
        ai_dst_addr: *mut sockaddr,
        ai_src_canonname: *mut c_char,
        ai_dst_canonname: *mut c_char,
        ai_route_len: usize,
        ai_route: *mut c_void,
        ai_connect_len: usize,
        ai_connect: *mut c_void,
        ai_next: *mut rdma_addrinfo,
    }

    /// Attributes of `rdma_join_multicast_ex`.
    struct rdma_cm_join_mc_attr_ex {
        comp_mask: u32,
        join_flags: u32,
        addr: *mut sockaddr,
    }
}
