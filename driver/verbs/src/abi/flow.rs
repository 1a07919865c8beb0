// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flow steering: rules, specifications and actions.

use core::ffi::c_void;

use super::layout::*;
use super::{aligned_u64, ibv_context, ibv_counters};

constants! {
    /// Bits of `ibv_flow_attr.flags`.
    enum ibv_flow_flags: c_uint {
        IBV_FLOW_ATTR_FLAGS_DONT_TRAP = 1 << 1,
        IBV_FLOW_ATTR_FLAGS_EGRESS = 1 << 2,
    }

    /// Kind of a rule.
    enum ibv_flow_attr_type: c_uint {
        IBV_FLOW_ATTR_NORMAL = 0,
        IBV_FLOW_ATTR_ALL_DEFAULT = 1,
        IBV_FLOW_ATTR_MC_DEFAULT = 2,
        IBV_FLOW_ATTR_SNIFFER = 3,
    }

    /// Kind of a specification.
    enum ibv_flow_spec_type: c_uint {
        IBV_FLOW_SPEC_ETH = 0x20,
        IBV_FLOW_SPEC_IPV4 = 0x30,
        IBV_FLOW_SPEC_IPV6 = 0x31,
        IBV_FLOW_SPEC_IPV4_EXT = 0x32,
        IBV_FLOW_SPEC_ESP = 0x34,
        IBV_FLOW_SPEC_TCP = 0x40,
        IBV_FLOW_SPEC_UDP = 0x41,
        IBV_FLOW_SPEC_VXLAN_TUNNEL = 0x50,
        IBV_FLOW_SPEC_GRE = 0x51,
        IBV_FLOW_SPEC_MPLS = 0x60,
        IBV_FLOW_SPEC_INNER = 0x100,
        IBV_FLOW_SPEC_ACTION_TAG = 0x1000,
        IBV_FLOW_SPEC_ACTION_DROP = 0x1001,
        IBV_FLOW_SPEC_ACTION_HANDLE = 0x1002,
        IBV_FLOW_SPEC_ACTION_COUNT = 0x1003,
    }

    /// Bits of `ibv_flow_action_esp_attr.comp_mask`.
    enum ibv_flow_action_esp_mask: c_uint {
        IBV_FLOW_ACTION_ESP_MASK_ESN = 1 << 0,
    }

    /// Cipher of an ESP action.
    enum ibv_flow_action_esp_keymat: c_uint {
        IBV_FLOW_ACTION_ESP_KEYMAT_AES_GCM = 0,
    }

    /// Initialization vectors of AES-GCM.
    enum ibv_flow_action_esp_keymat_aes_gcm_iv_algo: c_uint {
        IBV_FLOW_ACTION_IV_ALGO_SEQ = 0,
    }

    /// Replay protection of an ESP action.
    enum ibv_flow_action_esp_replay: c_uint {
        IBV_FLOW_ACTION_ESP_REPLAY_NONE = 0,
        IBV_FLOW_ACTION_ESP_REPLAY_BMP = 1,
    }

    /// Bits of `ibv_flow_action_esp.flags`.
    enum ibv_flow_action_esp_flags: c_uint {
        IBV_FLOW_ACTION_ESP_FLAGS_INLINE_CRYPTO = 0,
        IBV_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD = 1 << 0,
        IBV_FLOW_ACTION_ESP_FLAGS_TUNNEL = 0,
        IBV_FLOW_ACTION_ESP_FLAGS_TRANSPORT = 1 << 1,
        IBV_FLOW_ACTION_ESP_FLAGS_DECRYPT = 0,
        IBV_FLOW_ACTION_ESP_FLAGS_ENCRYPT = 1 << 2,
        IBV_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW = 1 << 3,
    }
}

layout! {
    /// Fields of an Ethernet header.
    struct ibv_flow_eth_filter {
        dst_mac: [u8; 6],
        src_mac: [u8; 6],
        ether_type: u16,
        vlan_tag: u16,
    }

    /// Match of an Ethernet header.
    struct ibv_flow_spec_eth {
        r#type: ibv_flow_spec_type,
        size: u16,
        val: ibv_flow_eth_filter,
        mask: ibv_flow_eth_filter,
    }

    /// Addresses of an IPv4 header.
    struct ibv_flow_ipv4_filter {
        src_ip: u32,
        dst_ip: u32,
    }

    /// Match of the addresses of an IPv4 header.
    struct ibv_flow_spec_ipv4 {
        r#type: ibv_flow_spec_type,
        size: u16,
        val: ibv_flow_ipv4_filter,
        mask: ibv_flow_ipv4_filter,
    }

    /// Fields of an IPv4 header.
    struct ibv_flow_ipv4_ext_filter {
        src_ip: u32,
        dst_ip: u32,
        proto: u8,
        tos: u8,
        ttl: u8,
        flags: u8,
    }

    /// Match of an IPv4 header.
    struct ibv_flow_spec_ipv4_ext {
        r#type: ibv_flow_spec_type,
        size: u16,
        val: ibv_flow_ipv4_ext_filter,
        mask: ibv_flow_ipv4_ext_filter,
    }

    /// Fields of an IPv6 header.
    struct ibv_flow_ipv6_filter {
        src_ip: [u8; 16],
        dst_ip: [u8; 16],
        flow_label: u32,
        next_hdr: u8,
        traffic_class: u8,
        hop_limit: u8,
    }

    /// Match of an IPv6 header.
    struct ibv_flow_spec_ipv6 {
        r#type: ibv_flow_spec_type,
        size: u16,
        val: ibv_flow_ipv6_filter,
        mask: ibv_flow_ipv6_filter,
    }

    /// Fields of an ESP header.
    struct ibv_flow_esp_filter {
        spi: u32,
        seq: u32,
    }

    /// Match of an ESP header.
    struct ibv_flow_spec_esp {
        r#type: ibv_flow_spec_type,
        size: u16,
        val: ibv_flow_esp_filter,
        mask: ibv_flow_esp_filter,
    }

    /// Ports of a TCP or UDP header.
    struct ibv_flow_tcp_udp_filter {
        dst_port: u16,
        src_port: u16,
    }

    /// Match of a TCP or UDP header.
    struct ibv_flow_spec_tcp_udp {
        r#type: ibv_flow_spec_type,
        size: u16,
        val: ibv_flow_tcp_udp_filter,
        mask: ibv_flow_tcp_udp_filter,
    }

    /// Fields of a GRE header.
    struct ibv_flow_gre_filter {
        c_ks_res0_ver: u16,
        protocol: u16,
        key: u32,
    }

    /// Match of a GRE header.
    struct ibv_flow_spec_gre {
        r#type: ibv_flow_spec_type,
        size: u16,
        val: ibv_flow_gre_filter,
        mask: ibv_flow_gre_filter,
    }

    /// An MPLS label.
    struct ibv_flow_mpls_filter {
        label: u32,
    }

    /// Match of an MPLS label.
    struct ibv_flow_spec_mpls {
        r#type: ibv_flow_spec_type,
        size: u16,
        val: ibv_flow_mpls_filter,
        mask: ibv_flow_mpls_filter,
    }

    /// Identifier of a tunnel.
    struct ibv_flow_tunnel_filter {
        tunnel_id: u32,
    }

    /// Match of a tunnel.
    struct ibv_flow_spec_tunnel {
        r#type: ibv_flow_spec_type,
        size: u16,
        val: ibv_flow_tunnel_filter,
        mask: ibv_flow_tunnel_filter,
    }

    /// Action that writes a tag into the completion.
    struct ibv_flow_spec_action_tag {
        r#type: ibv_flow_spec_type,
        size: u16,
        tag_id: u32,
    }

    /// Action that drops the packet.
    struct ibv_flow_spec_action_drop {
        r#type: ibv_flow_spec_type,
        size: u16,
    }

    /// Action that a program created before.
    struct ibv_flow_spec_action_handle {
        r#type: ibv_flow_spec_type,
        size: u16,
        action: *const ibv_flow_action,
    }

    /// Action that updates counters.
    struct ibv_flow_spec_counter_action {
        r#type: ibv_flow_spec_type,
        size: u16,
        counters: *mut ibv_counters,
    }

    /// First members of each specification; `size` is in bytes.
    struct ibv_flow_spec_hdr as "ibv_flow_spec.hdr" {
        r#type: ibv_flow_spec_type,
        size: u16,
    }

    /// Any specification.
    union ibv_flow_spec as "struct ibv_flow_spec" {
        hdr: ibv_flow_spec_hdr,
        eth: ibv_flow_spec_eth,
        ipv4: ibv_flow_spec_ipv4,
        tcp_udp: ibv_flow_spec_tcp_udp,
        ipv4_ext: ibv_flow_spec_ipv4_ext,
        ipv6: ibv_flow_spec_ipv6,
        esp: ibv_flow_spec_esp,
        tunnel: ibv_flow_spec_tunnel,
        gre: ibv_flow_spec_gre,
        mpls: ibv_flow_spec_mpls,
        flow_tag: ibv_flow_spec_action_tag,
        drop: ibv_flow_spec_action_drop,
        handle: ibv_flow_spec_action_handle,
        flow_count: ibv_flow_spec_counter_action,
    }

    /// A rule. `num_of_specs` specifications follow it in memory.
    struct ibv_flow_attr {
        comp_mask: u32,
        r#type: ibv_flow_attr_type,
        size: u16,
        priority: u16,
        num_of_specs: u8,
        port: u8,
        flags: u32,
    }

    /// A rule that is in force.
    struct ibv_flow {
        comp_mask: u32,
        context: *mut ibv_context,
        handle: u32,
    }

    /// An action.
    struct ibv_flow_action {
        context: *mut ibv_context,
    }

    /// Key and parameters of AES-GCM.
    struct ibv_flow_action_esp_keymat_aes_gcm {
        iv: aligned_u64,
        iv_algo: u32,
        salt: u32,
        icv_len: u32,
        key_len: u32,
        aes_key: [u32; 8],
    }

    /// Size of a replay window.
    struct ibv_flow_action_esp_replay_bmp {
        size: u32,
    }

    /// A filter of the header that encapsulates an ESP payload, and the next of them.
    struct ibv_flow_action_esp_encap {
        val_ptr: *mut c_void,
        next_ptr: *mut ibv_flow_action_esp_encap,
        len: u16,
        r#type: u16,
    }

    /// Parameters of an ESP action.
    struct ibv_flow_action_esp {
        spi: u32,
        seq: u32,
        tfc_pad: u32,
        flags: u32,
        hard_limit_pkts: aligned_u64,
    }

    /// Attributes of an ESP action.
    struct ibv_flow_action_esp_attr {
        esp_attr: *mut ibv_flow_action_esp,
        keymat_proto: ibv_flow_action_esp_keymat,
        keymat_len: u16,
        keymat_ptr: *mut c_void,
        replay_proto: ibv_flow_action_esp_replay,
        replay_len: u16,
        replay_ptr: *mut c_void,
        esp_encap: *mut ibv_flow_action_esp_encap,
        comp_mask: u32,
        esn: u32,
    }
}
