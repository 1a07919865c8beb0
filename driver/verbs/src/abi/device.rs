// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices, their attributes and their asynchronous events.

use core::ffi::{c_char, c_int, c_uint};

use super::layout::*;
use super::{be64, ibv_context, ibv_cq, ibv_qp, ibv_srq, ibv_wq};

constants! {
    /// Kind of a node.
    enum ibv_node_type: c_int {
        IBV_NODE_UNKNOWN = -1,
        IBV_NODE_CA = 1,
        IBV_NODE_SWITCH = 2,
        IBV_NODE_ROUTER = 3,
        IBV_NODE_RNIC = 4,
        IBV_NODE_USNIC = 5,
        IBV_NODE_USNIC_UDP = 6,
        IBV_NODE_UNSPECIFIED = 7,
    }

    /// Transport of a device. RoCE devices report `IBV_TRANSPORT_IB`.
    enum ibv_transport_type: c_int {
        IBV_TRANSPORT_UNKNOWN = -1,
        IBV_TRANSPORT_IB = 0,
        IBV_TRANSPORT_IWARP = 1,
        IBV_TRANSPORT_USNIC = 2,
        IBV_TRANSPORT_USNIC_UDP = 3,
        IBV_TRANSPORT_UNSPECIFIED = 4,
    }

    /// Bits of `ibv_device_attr.device_cap_flags`.
    enum ibv_device_cap_flags: c_uint {
        IBV_DEVICE_RESIZE_MAX_WR = 1 << 0,
        IBV_DEVICE_BAD_PKEY_CNTR = 1 << 1,
        IBV_DEVICE_BAD_QKEY_CNTR = 1 << 2,
        IBV_DEVICE_RAW_MULTI = 1 << 3,
        IBV_DEVICE_AUTO_PATH_MIG = 1 << 4,
        IBV_DEVICE_CHANGE_PHY_PORT = 1 << 5,
        IBV_DEVICE_UD_AV_PORT_ENFORCE = 1 << 6,
        IBV_DEVICE_CURR_QP_STATE_MOD = 1 << 7,
        IBV_DEVICE_SHUTDOWN_PORT = 1 << 8,
        IBV_DEVICE_INIT_TYPE = 1 << 9,
        IBV_DEVICE_PORT_ACTIVE_EVENT = 1 << 10,
        IBV_DEVICE_SYS_IMAGE_GUID = 1 << 11,
        IBV_DEVICE_RC_RNR_NAK_GEN = 1 << 12,
        IBV_DEVICE_SRQ_RESIZE = 1 << 13,
        IBV_DEVICE_N_NOTIFY_CQ = 1 << 14,
        IBV_DEVICE_MEM_WINDOW = 1 << 17,
        IBV_DEVICE_UD_IP_CSUM = 1 << 18,
        IBV_DEVICE_XRC = 1 << 20,
        IBV_DEVICE_MEM_MGT_EXTENSIONS = 1 << 21,
        IBV_DEVICE_MEM_WINDOW_TYPE_2A = 1 << 23,
        IBV_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24,
        IBV_DEVICE_RC_IP_CSUM = 1 << 25,
        IBV_DEVICE_RAW_IP_CSUM = 1 << 26,
        IBV_DEVICE_MANAGED_FLOW_STEERING = 1 << 29,
    }

    /// Result of `ibv_is_fork_initialized`.
    enum ibv_fork_status: c_uint {
        IBV_FORK_DISABLED = 0,
        IBV_FORK_ENABLED = 1,
        IBV_FORK_UNNEEDED = 2,
    }

    /// With which accesses an atomic operation is atomic.
    enum ibv_atomic_cap: c_uint {
        IBV_ATOMIC_NONE = 0,
        IBV_ATOMIC_HCA = 1,
        IBV_ATOMIC_GLOB = 2,
    }

    /// Bits of `ibv_odp_caps.general_caps`.
    enum ibv_odp_general_caps: c_uint {
        IBV_ODP_SUPPORT = 1 << 0,
        IBV_ODP_SUPPORT_IMPLICIT = 1 << 1,
    }

    /// Bits of on-demand paging for each transport.
    enum ibv_odp_transport_cap_bits: c_uint {
        IBV_ODP_SUPPORT_SEND = 1 << 0,
        IBV_ODP_SUPPORT_RECV = 1 << 1,
        IBV_ODP_SUPPORT_WRITE = 1 << 2,
        IBV_ODP_SUPPORT_READ = 1 << 3,
        IBV_ODP_SUPPORT_ATOMIC = 1 << 4,
        IBV_ODP_SUPPORT_SRQ_RECV = 1 << 5,
        [since 65] IBV_ODP_SUPPORT_FLUSH = 1 << 6,
        [since 65] IBV_ODP_SUPPORT_ATOMIC_WRITE = 1 << 7,
    }

    /// Hash functions of receive-side scaling.
    enum ibv_rx_hash_function_flags: c_uint {
        IBV_RX_HASH_FUNC_TOEPLITZ = 1 << 0,
    }

    /// Packet fields that a receive hash may cover.
    enum ibv_rx_hash_fields: c_uint {
        IBV_RX_HASH_SRC_IPV4 = 1 << 0,
        IBV_RX_HASH_DST_IPV4 = 1 << 1,
        IBV_RX_HASH_SRC_IPV6 = 1 << 2,
        IBV_RX_HASH_DST_IPV6 = 1 << 3,
        IBV_RX_HASH_SRC_PORT_TCP = 1 << 4,
        IBV_RX_HASH_DST_PORT_TCP = 1 << 5,
        IBV_RX_HASH_SRC_PORT_UDP = 1 << 6,
        IBV_RX_HASH_DST_PORT_UDP = 1 << 7,
        IBV_RX_HASH_IPSEC_SPI = 1 << 8,
        IBV_RX_HASH_INNER = 1 << 31,
    }

    /// Bits of `ibv_device_attr_ex.raw_packet_caps`.
    enum ibv_raw_packet_caps: c_uint {
        IBV_RAW_PACKET_CAP_CVLAN_STRIPPING = 1 << 0,
        IBV_RAW_PACKET_CAP_SCATTER_FCS = 1 << 1,
        IBV_RAW_PACKET_CAP_IP_CSUM = 1 << 2,
        IBV_RAW_PACKET_CAP_DELAY_DROP = 1 << 3,
    }

    /// Bits of `ibv_tm_caps.flags`.
    enum ibv_tm_cap_flags: c_uint {
        IBV_TM_CAP_RC = 1 << 0,
    }

    /// Sizes of PCI atomic operations.
    enum ibv_pci_atomic_op_size: c_uint {
        IBV_PCI_ATOMIC_OPERATION_4_BYTE_SIZE_SUP = 1 << 0,
        IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP = 1 << 1,
        IBV_PCI_ATOMIC_OPERATION_16_BYTE_SIZE_SUP = 1 << 2,
    }

    /// Kind of an asynchronous event.
    enum ibv_event_type: c_uint {
        IBV_EVENT_CQ_ERR = 0,
        IBV_EVENT_QP_FATAL = 1,
        IBV_EVENT_QP_REQ_ERR = 2,
        IBV_EVENT_QP_ACCESS_ERR = 3,
        IBV_EVENT_COMM_EST = 4,
        IBV_EVENT_SQ_DRAINED = 5,
        IBV_EVENT_PATH_MIG = 6,
        IBV_EVENT_PATH_MIG_ERR = 7,
        IBV_EVENT_DEVICE_FATAL = 8,
        IBV_EVENT_PORT_ACTIVE = 9,
        IBV_EVENT_PORT_ERR = 10,
        IBV_EVENT_LID_CHANGE = 11,
        IBV_EVENT_PKEY_CHANGE = 12,
        IBV_EVENT_SM_CHANGE = 13,
        IBV_EVENT_SRQ_ERR = 14,
        IBV_EVENT_SRQ_LIMIT_REACHED = 15,
        IBV_EVENT_QP_LAST_WQE_REACHED = 16,
        IBV_EVENT_CLIENT_REREGISTER = 17,
        IBV_EVENT_GID_CHANGE = 18,
        IBV_EVENT_WQ_FATAL = 19,
        [since 65] IBV_EVENT_DEVICE_SPEED_CHANGE = 20,
    }

    values u64 {
        IBV_DEVICE_RAW_SCATTER_FCS = 1 << 34,
        IBV_DEVICE_PCI_WRITE_END_PADDING = 1 << 36,
        [since 65] IBV_DEVICE_CC_DMA_BOUNCE = 1 << 41,
    }

    values c_int {
        IBV_SYSFS_NAME_MAX = 64,
        IBV_SYSFS_PATH_MAX = 256,
    }
}

layout! {
    /// First member of a device. No program calls these functions.
    struct _ibv_device_ops {
        _dummy1: Option<unsafe extern "C" fn(device: *mut ibv_device, cmd_fd: c_int) -> *mut ibv_context>,
        _dummy2: Option<unsafe extern "C" fn(context: *mut ibv_context)>,
    }

    /// A device of the list. Programs read the names; perftest and UCX open files under `ibdev_path`.
    struct ibv_device {
        _ops: _ibv_device_ops,
        node_type: ibv_node_type,
        transport_type: ibv_transport_type,
        name: [c_char; 64],
        dev_name: [c_char; 64],
        dev_path: [c_char; 256],
        ibdev_path: [c_char; 256],
    }

    /// Limits and properties of a device.
    struct ibv_device_attr {
        fw_ver: [c_char; 64],
        node_guid: be64,
        sys_image_guid: be64,
        max_mr_size: u64,
        page_size_cap: u64,
        vendor_id: u32,
        vendor_part_id: u32,
        hw_ver: u32,
        max_qp: c_int,
        max_qp_wr: c_int,
        device_cap_flags: c_uint,
        max_sge: c_int,
        max_sge_rd: c_int,
        max_cq: c_int,
        max_cqe: c_int,
        max_mr: c_int,
        max_pd: c_int,
        max_qp_rd_atom: c_int,
        max_ee_rd_atom: c_int,
        max_res_rd_atom: c_int,
        max_qp_init_rd_atom: c_int,
        max_ee_init_rd_atom: c_int,
        atomic_cap: ibv_atomic_cap,
        max_ee: c_int,
        max_rdd: c_int,
        max_mw: c_int,
        max_raw_ipv6_qp: c_int,
        max_raw_ethy_qp: c_int,
        max_mcast_grp: c_int,
        max_mcast_qp_attach: c_int,
        max_total_mcast_qp_attach: c_int,
        max_ah: c_int,
        max_fmr: c_int,
        max_map_per_fmr: c_int,
        max_srq: c_int,
        max_srq_wr: c_int,
        max_srq_sge: c_int,
        max_pkeys: u16,
        local_ca_ack_delay: u8,
        phys_port_cnt: u8,
    }

    /// Input of `ibv_query_device_ex`; `comp_mask` must be zero.
    struct ibv_query_device_ex_input {
        comp_mask: u32,
    }

    /// Bits of on-demand paging of RC, UC and UD.
    struct ibv_odp_transport_caps as "ibv_odp_caps.per_transport_caps" {
        rc_odp_caps: u32,
        uc_odp_caps: u32,
        ud_odp_caps: u32,
    }

    /// On-demand paging.
    struct ibv_odp_caps {
        general_caps: u64,
        per_transport_caps: ibv_odp_transport_caps,
    }

    /// TCP segmentation; `max_tso` is in bytes.
    struct ibv_tso_caps {
        max_tso: u32,
        supported_qpts: u32,
    }

    /// Receive-side scaling.
    struct ibv_rss_caps {
        supported_qpts: u32,
        max_rwq_indirection_tables: u32,
        max_rwq_indirection_table_size: u32,
        rx_hash_fields_mask: u64,
        rx_hash_function: u8,
    }

    /// Rate limits of a QP in kbit/s.
    struct ibv_packet_pacing_caps {
        qp_rate_limit_min: u32,
        qp_rate_limit_max: u32,
        supported_qpts: u32,
    }

    /// Tag matching.
    struct ibv_tm_caps {
        max_rndv_hdr_size: u32,
        max_num_tags: u32,
        flags: u32,
        max_ops: u32,
        max_sge: u32,
    }

    /// Completion moderation; `max_cq_period` is in microseconds.
    struct ibv_cq_moderation_caps {
        max_cq_count: u16,
        max_cq_period: u16,
    }

    /// PCI atomic operations, as bits of `ibv_pci_atomic_op_size`.
    struct ibv_pci_atomic_caps {
        fetch_add: u16,
        swap: u16,
        compare_swap: u16,
    }

    /// Extended properties of a device. A program passes the size that its headers give it.
    struct ibv_device_attr_ex {
        orig_attr: ibv_device_attr,
        comp_mask: u32,
        odp_caps: ibv_odp_caps,
        completion_timestamp_mask: u64,
        hca_core_clock: u64,
        device_cap_flags_ex: u64,
        tso_caps: ibv_tso_caps,
        rss_caps: ibv_rss_caps,
        max_wq_type_rq: u32,
        packet_pacing_caps: ibv_packet_pacing_caps,
        raw_packet_caps: u32,
        tm_caps: ibv_tm_caps,
        cq_mod_caps: ibv_cq_moderation_caps,
        max_dm_size: u64,
        pci_atomic_caps: ibv_pci_atomic_caps,
        xrc_odp_caps: u32,
        phys_port_cnt_ex: u32,
    }

    /// The object of an asynchronous event, or the number of its port.
    union ibv_async_event_element as "ibv_async_event.element" {
        cq: *mut ibv_cq,
        qp: *mut ibv_qp,
        srq: *mut ibv_srq,
        wq: *mut ibv_wq,
        port_num: c_int,
    }

    /// An asynchronous event.
    struct ibv_async_event {
        element: ibv_async_event_element,
        event_type: ibv_event_type,
    }

    /// Array of descriptors. No function of the headers takes it.
    [since 65]
    struct ibv_fd_arr {
        arr: *mut c_int,
        count: u32,
    }
}
