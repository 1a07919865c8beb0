// SPDX-License-Identifier: MIT OR Apache-2.0
// Written from the Rust declarations by tests/c_source.rs; see measure.sh.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <sys/epoll.h>
#include <infiniband/opcode.h>
#include <infiniband/sa.h>
#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>

#define SAME(a, b, what) _Static_assert(__builtin_types_compatible_p(__typeof__(a), __typeof__(b)), what)
#define AT(type, member) (((__typeof__(type) *)0)->member)

#define STRUCT(name, ...) printf("struct %s %zu %zu\n", name, sizeof(__VA_ARGS__), _Alignof(__VA_ARGS__))
#define FIELD(name, type, member, ...) do { \
	SAME(AT(type, member), __VA_ARGS__, name); \
	printf("%s %zu %zu\n", name, (size_t)&AT(type, member), sizeof(AT(type, member))); \
} while (0)
#define ENUM(name, ...) \
	printf("enum %s %zu %s\n", #name, sizeof(__VA_ARGS__), (__VA_ARGS__)-1 < 0 ? "signed" : "unsigned")
#define CONST(name) do { \
	if ((name) < 0) \
		printf("const %s %lld\n", #name, (long long)(name)); \
	else \
		printf("const %s %llu\n", #name, (unsigned long long)(name)); \
} while (0)
#define ADDRESS(name) printf("const %s %llu\n", #name, (unsigned long long)(uintptr_t)(name))
#define FUNCTION(name, result, ...) do { \
	extern result (name)(__VA_ARGS__); \
	printf("function %s\n", #name); \
} while (0)

static void verbs(void)
{
	STRUCT("pthread_mutex_t", pthread_mutex_t);
	STRUCT("pthread_cond_t", pthread_cond_t);
	STRUCT("timespec", struct timespec);
	FIELD("timespec.tv_sec", struct timespec, tv_sec, int64_t);
	FIELD("timespec.tv_nsec", struct timespec, tv_nsec, int64_t);
	STRUCT("sockaddr", struct sockaddr);
	FIELD("sockaddr.sa_family", struct sockaddr, sa_family, uint16_t);
	FIELD("sockaddr.sa_data", struct sockaddr, sa_data, __typeof__(char[14]));
	STRUCT("in_addr", struct in_addr);
	FIELD("in_addr.s_addr", struct in_addr, s_addr, __be32);
	STRUCT("sockaddr_in", struct sockaddr_in);
	FIELD("sockaddr_in.sin_family", struct sockaddr_in, sin_family, uint16_t);
	FIELD("sockaddr_in.sin_port", struct sockaddr_in, sin_port, __be16);
	FIELD("sockaddr_in.sin_addr", struct sockaddr_in, sin_addr, struct in_addr);
	FIELD("sockaddr_in.sin_zero", struct sockaddr_in, sin_zero, __typeof__(uint8_t[8]));
	STRUCT("in6_addr", struct in6_addr);
	STRUCT("sockaddr_in6", struct sockaddr_in6);
	FIELD("sockaddr_in6.sin6_family", struct sockaddr_in6, sin6_family, uint16_t);
	FIELD("sockaddr_in6.sin6_port", struct sockaddr_in6, sin6_port, __be16);
	FIELD("sockaddr_in6.sin6_flowinfo", struct sockaddr_in6, sin6_flowinfo, __be32);
	FIELD("sockaddr_in6.sin6_addr", struct sockaddr_in6, sin6_addr, struct in6_addr);
	FIELD("sockaddr_in6.sin6_scope_id", struct sockaddr_in6, sin6_scope_id, uint32_t);
	STRUCT("sockaddr_storage", struct sockaddr_storage);
	FIELD("sockaddr_storage.ss_family", struct sockaddr_storage, ss_family, uint16_t);
	STRUCT("ibv_gid.global", __typeof__(((union ibv_gid *)0)->global));
	FIELD("ibv_gid.global.subnet_prefix", __typeof__(((union ibv_gid *)0)->global), subnet_prefix, __be64);
	FIELD("ibv_gid.global.interface_id", __typeof__(((union ibv_gid *)0)->global), interface_id, __be64);
	STRUCT("ibv_gid", union ibv_gid);
	FIELD("ibv_gid.raw", union ibv_gid, raw, __typeof__(uint8_t[16]));
	FIELD("ibv_gid.global", union ibv_gid, global, __typeof__(((union ibv_gid *)0)->global));
	STRUCT("ibv_gid_entry", struct ibv_gid_entry);
	FIELD("ibv_gid_entry.gid", struct ibv_gid_entry, gid, union ibv_gid);
	FIELD("ibv_gid_entry.gid_index", struct ibv_gid_entry, gid_index, uint32_t);
	FIELD("ibv_gid_entry.port_num", struct ibv_gid_entry, port_num, uint32_t);
	FIELD("ibv_gid_entry.gid_type", struct ibv_gid_entry, gid_type, uint32_t);
	FIELD("ibv_gid_entry.ndev_ifindex", struct ibv_gid_entry, ndev_ifindex, uint32_t);
	STRUCT("ibv_port_attr", struct ibv_port_attr);
	FIELD("ibv_port_attr.state", struct ibv_port_attr, state, enum ibv_port_state);
	FIELD("ibv_port_attr.max_mtu", struct ibv_port_attr, max_mtu, enum ibv_mtu);
	FIELD("ibv_port_attr.active_mtu", struct ibv_port_attr, active_mtu, enum ibv_mtu);
	FIELD("ibv_port_attr.gid_tbl_len", struct ibv_port_attr, gid_tbl_len, int);
	FIELD("ibv_port_attr.port_cap_flags", struct ibv_port_attr, port_cap_flags, uint32_t);
	FIELD("ibv_port_attr.max_msg_sz", struct ibv_port_attr, max_msg_sz, uint32_t);
	FIELD("ibv_port_attr.bad_pkey_cntr", struct ibv_port_attr, bad_pkey_cntr, uint32_t);
	FIELD("ibv_port_attr.qkey_viol_cntr", struct ibv_port_attr, qkey_viol_cntr, uint32_t);
	FIELD("ibv_port_attr.pkey_tbl_len", struct ibv_port_attr, pkey_tbl_len, uint16_t);
	FIELD("ibv_port_attr.lid", struct ibv_port_attr, lid, uint16_t);
	FIELD("ibv_port_attr.sm_lid", struct ibv_port_attr, sm_lid, uint16_t);
	FIELD("ibv_port_attr.lmc", struct ibv_port_attr, lmc, uint8_t);
	FIELD("ibv_port_attr.max_vl_num", struct ibv_port_attr, max_vl_num, uint8_t);
	FIELD("ibv_port_attr.sm_sl", struct ibv_port_attr, sm_sl, uint8_t);
	FIELD("ibv_port_attr.subnet_timeout", struct ibv_port_attr, subnet_timeout, uint8_t);
	FIELD("ibv_port_attr.init_type_reply", struct ibv_port_attr, init_type_reply, uint8_t);
	FIELD("ibv_port_attr.active_width", struct ibv_port_attr, active_width, uint8_t);
	FIELD("ibv_port_attr.active_speed", struct ibv_port_attr, active_speed, uint8_t);
	FIELD("ibv_port_attr.phys_state", struct ibv_port_attr, phys_state, uint8_t);
	FIELD("ibv_port_attr.link_layer", struct ibv_port_attr, link_layer, uint8_t);
	FIELD("ibv_port_attr.flags", struct ibv_port_attr, flags, uint8_t);
	FIELD("ibv_port_attr.port_cap_flags2", struct ibv_port_attr, port_cap_flags2, uint16_t);
#if RELEASE >= 56
	FIELD("ibv_port_attr.active_speed_ex", struct ibv_port_attr, active_speed_ex, uint32_t);
#endif
	STRUCT("_ibv_device_ops", struct _ibv_device_ops);
	FIELD("_ibv_device_ops._dummy1", struct _ibv_device_ops, _dummy1, __typeof__(struct ibv_context * (*)(struct ibv_device *, int)));
	FIELD("_ibv_device_ops._dummy2", struct _ibv_device_ops, _dummy2, __typeof__(void (*)(struct ibv_context *)));
	STRUCT("ibv_device", struct ibv_device);
	FIELD("ibv_device._ops", struct ibv_device, _ops, struct _ibv_device_ops);
	FIELD("ibv_device.node_type", struct ibv_device, node_type, enum ibv_node_type);
	FIELD("ibv_device.transport_type", struct ibv_device, transport_type, enum ibv_transport_type);
	FIELD("ibv_device.name", struct ibv_device, name, __typeof__(char[64]));
	FIELD("ibv_device.dev_name", struct ibv_device, dev_name, __typeof__(char[64]));
	FIELD("ibv_device.dev_path", struct ibv_device, dev_path, __typeof__(char[256]));
	FIELD("ibv_device.ibdev_path", struct ibv_device, ibdev_path, __typeof__(char[256]));
	STRUCT("ibv_device_attr", struct ibv_device_attr);
	FIELD("ibv_device_attr.fw_ver", struct ibv_device_attr, fw_ver, __typeof__(char[64]));
	FIELD("ibv_device_attr.node_guid", struct ibv_device_attr, node_guid, __be64);
	FIELD("ibv_device_attr.sys_image_guid", struct ibv_device_attr, sys_image_guid, __be64);
	FIELD("ibv_device_attr.max_mr_size", struct ibv_device_attr, max_mr_size, uint64_t);
	FIELD("ibv_device_attr.page_size_cap", struct ibv_device_attr, page_size_cap, uint64_t);
	FIELD("ibv_device_attr.vendor_id", struct ibv_device_attr, vendor_id, uint32_t);
	FIELD("ibv_device_attr.vendor_part_id", struct ibv_device_attr, vendor_part_id, uint32_t);
	FIELD("ibv_device_attr.hw_ver", struct ibv_device_attr, hw_ver, uint32_t);
	FIELD("ibv_device_attr.max_qp", struct ibv_device_attr, max_qp, int);
	FIELD("ibv_device_attr.max_qp_wr", struct ibv_device_attr, max_qp_wr, int);
	FIELD("ibv_device_attr.device_cap_flags", struct ibv_device_attr, device_cap_flags, unsigned int);
	FIELD("ibv_device_attr.max_sge", struct ibv_device_attr, max_sge, int);
	FIELD("ibv_device_attr.max_sge_rd", struct ibv_device_attr, max_sge_rd, int);
	FIELD("ibv_device_attr.max_cq", struct ibv_device_attr, max_cq, int);
	FIELD("ibv_device_attr.max_cqe", struct ibv_device_attr, max_cqe, int);
	FIELD("ibv_device_attr.max_mr", struct ibv_device_attr, max_mr, int);
	FIELD("ibv_device_attr.max_pd", struct ibv_device_attr, max_pd, int);
	FIELD("ibv_device_attr.max_qp_rd_atom", struct ibv_device_attr, max_qp_rd_atom, int);
	FIELD("ibv_device_attr.max_ee_rd_atom", struct ibv_device_attr, max_ee_rd_atom, int);
	FIELD("ibv_device_attr.max_res_rd_atom", struct ibv_device_attr, max_res_rd_atom, int);
	FIELD("ibv_device_attr.max_qp_init_rd_atom", struct ibv_device_attr, max_qp_init_rd_atom, int);
	FIELD("ibv_device_attr.max_ee_init_rd_atom", struct ibv_device_attr, max_ee_init_rd_atom, int);
	FIELD("ibv_device_attr.atomic_cap", struct ibv_device_attr, atomic_cap, enum ibv_atomic_cap);
	FIELD("ibv_device_attr.max_ee", struct ibv_device_attr, max_ee, int);
	FIELD("ibv_device_attr.max_rdd", struct ibv_device_attr, max_rdd, int);
	FIELD("ibv_device_attr.max_mw", struct ibv_device_attr, max_mw, int);
	FIELD("ibv_device_attr.max_raw_ipv6_qp", struct ibv_device_attr, max_raw_ipv6_qp, int);
	FIELD("ibv_device_attr.max_raw_ethy_qp", struct ibv_device_attr, max_raw_ethy_qp, int);
	FIELD("ibv_device_attr.max_mcast_grp", struct ibv_device_attr, max_mcast_grp, int);
	FIELD("ibv_device_attr.max_mcast_qp_attach", struct ibv_device_attr, max_mcast_qp_attach, int);
	FIELD("ibv_device_attr.max_total_mcast_qp_attach", struct ibv_device_attr, max_total_mcast_qp_attach, int);
	FIELD("ibv_device_attr.max_ah", struct ibv_device_attr, max_ah, int);
	FIELD("ibv_device_attr.max_fmr", struct ibv_device_attr, max_fmr, int);
	FIELD("ibv_device_attr.max_map_per_fmr", struct ibv_device_attr, max_map_per_fmr, int);
	FIELD("ibv_device_attr.max_srq", struct ibv_device_attr, max_srq, int);
	FIELD("ibv_device_attr.max_srq_wr", struct ibv_device_attr, max_srq_wr, int);
	FIELD("ibv_device_attr.max_srq_sge", struct ibv_device_attr, max_srq_sge, int);
	FIELD("ibv_device_attr.max_pkeys", struct ibv_device_attr, max_pkeys, uint16_t);
	FIELD("ibv_device_attr.local_ca_ack_delay", struct ibv_device_attr, local_ca_ack_delay, uint8_t);
	FIELD("ibv_device_attr.phys_port_cnt", struct ibv_device_attr, phys_port_cnt, uint8_t);
	STRUCT("ibv_query_device_ex_input", struct ibv_query_device_ex_input);
	FIELD("ibv_query_device_ex_input.comp_mask", struct ibv_query_device_ex_input, comp_mask, uint32_t);
	STRUCT("ibv_odp_caps.per_transport_caps", __typeof__(((struct ibv_odp_caps *)0)->per_transport_caps));
	FIELD("ibv_odp_caps.per_transport_caps.rc_odp_caps", __typeof__(((struct ibv_odp_caps *)0)->per_transport_caps), rc_odp_caps, uint32_t);
	FIELD("ibv_odp_caps.per_transport_caps.uc_odp_caps", __typeof__(((struct ibv_odp_caps *)0)->per_transport_caps), uc_odp_caps, uint32_t);
	FIELD("ibv_odp_caps.per_transport_caps.ud_odp_caps", __typeof__(((struct ibv_odp_caps *)0)->per_transport_caps), ud_odp_caps, uint32_t);
	STRUCT("ibv_odp_caps", struct ibv_odp_caps);
	FIELD("ibv_odp_caps.general_caps", struct ibv_odp_caps, general_caps, uint64_t);
	FIELD("ibv_odp_caps.per_transport_caps", struct ibv_odp_caps, per_transport_caps, __typeof__(((struct ibv_odp_caps *)0)->per_transport_caps));
	STRUCT("ibv_tso_caps", struct ibv_tso_caps);
	FIELD("ibv_tso_caps.max_tso", struct ibv_tso_caps, max_tso, uint32_t);
	FIELD("ibv_tso_caps.supported_qpts", struct ibv_tso_caps, supported_qpts, uint32_t);
	STRUCT("ibv_rss_caps", struct ibv_rss_caps);
	FIELD("ibv_rss_caps.supported_qpts", struct ibv_rss_caps, supported_qpts, uint32_t);
	FIELD("ibv_rss_caps.max_rwq_indirection_tables", struct ibv_rss_caps, max_rwq_indirection_tables, uint32_t);
	FIELD("ibv_rss_caps.max_rwq_indirection_table_size", struct ibv_rss_caps, max_rwq_indirection_table_size, uint32_t);
	FIELD("ibv_rss_caps.rx_hash_fields_mask", struct ibv_rss_caps, rx_hash_fields_mask, uint64_t);
	FIELD("ibv_rss_caps.rx_hash_function", struct ibv_rss_caps, rx_hash_function, uint8_t);
	STRUCT("ibv_packet_pacing_caps", struct ibv_packet_pacing_caps);
	FIELD("ibv_packet_pacing_caps.qp_rate_limit_min", struct ibv_packet_pacing_caps, qp_rate_limit_min, uint32_t);
	FIELD("ibv_packet_pacing_caps.qp_rate_limit_max", struct ibv_packet_pacing_caps, qp_rate_limit_max, uint32_t);
	FIELD("ibv_packet_pacing_caps.supported_qpts", struct ibv_packet_pacing_caps, supported_qpts, uint32_t);
	STRUCT("ibv_tm_caps", struct ibv_tm_caps);
	FIELD("ibv_tm_caps.max_rndv_hdr_size", struct ibv_tm_caps, max_rndv_hdr_size, uint32_t);
	FIELD("ibv_tm_caps.max_num_tags", struct ibv_tm_caps, max_num_tags, uint32_t);
	FIELD("ibv_tm_caps.flags", struct ibv_tm_caps, flags, uint32_t);
	FIELD("ibv_tm_caps.max_ops", struct ibv_tm_caps, max_ops, uint32_t);
	FIELD("ibv_tm_caps.max_sge", struct ibv_tm_caps, max_sge, uint32_t);
	STRUCT("ibv_cq_moderation_caps", struct ibv_cq_moderation_caps);
	FIELD("ibv_cq_moderation_caps.max_cq_count", struct ibv_cq_moderation_caps, max_cq_count, uint16_t);
	FIELD("ibv_cq_moderation_caps.max_cq_period", struct ibv_cq_moderation_caps, max_cq_period, uint16_t);
	STRUCT("ibv_pci_atomic_caps", struct ibv_pci_atomic_caps);
	FIELD("ibv_pci_atomic_caps.fetch_add", struct ibv_pci_atomic_caps, fetch_add, uint16_t);
	FIELD("ibv_pci_atomic_caps.swap", struct ibv_pci_atomic_caps, swap, uint16_t);
	FIELD("ibv_pci_atomic_caps.compare_swap", struct ibv_pci_atomic_caps, compare_swap, uint16_t);
	STRUCT("ibv_device_attr_ex", struct ibv_device_attr_ex);
	FIELD("ibv_device_attr_ex.orig_attr", struct ibv_device_attr_ex, orig_attr, struct ibv_device_attr);
	FIELD("ibv_device_attr_ex.comp_mask", struct ibv_device_attr_ex, comp_mask, uint32_t);
	FIELD("ibv_device_attr_ex.odp_caps", struct ibv_device_attr_ex, odp_caps, struct ibv_odp_caps);
	FIELD("ibv_device_attr_ex.completion_timestamp_mask", struct ibv_device_attr_ex, completion_timestamp_mask, uint64_t);
	FIELD("ibv_device_attr_ex.hca_core_clock", struct ibv_device_attr_ex, hca_core_clock, uint64_t);
	FIELD("ibv_device_attr_ex.device_cap_flags_ex", struct ibv_device_attr_ex, device_cap_flags_ex, uint64_t);
	FIELD("ibv_device_attr_ex.tso_caps", struct ibv_device_attr_ex, tso_caps, struct ibv_tso_caps);
	FIELD("ibv_device_attr_ex.rss_caps", struct ibv_device_attr_ex, rss_caps, struct ibv_rss_caps);
	FIELD("ibv_device_attr_ex.max_wq_type_rq", struct ibv_device_attr_ex, max_wq_type_rq, uint32_t);
	FIELD("ibv_device_attr_ex.packet_pacing_caps", struct ibv_device_attr_ex, packet_pacing_caps, struct ibv_packet_pacing_caps);
	FIELD("ibv_device_attr_ex.raw_packet_caps", struct ibv_device_attr_ex, raw_packet_caps, uint32_t);
	FIELD("ibv_device_attr_ex.tm_caps", struct ibv_device_attr_ex, tm_caps, struct ibv_tm_caps);
	FIELD("ibv_device_attr_ex.cq_mod_caps", struct ibv_device_attr_ex, cq_mod_caps, struct ibv_cq_moderation_caps);
	FIELD("ibv_device_attr_ex.max_dm_size", struct ibv_device_attr_ex, max_dm_size, uint64_t);
	FIELD("ibv_device_attr_ex.pci_atomic_caps", struct ibv_device_attr_ex, pci_atomic_caps, struct ibv_pci_atomic_caps);
	FIELD("ibv_device_attr_ex.xrc_odp_caps", struct ibv_device_attr_ex, xrc_odp_caps, uint32_t);
	FIELD("ibv_device_attr_ex.phys_port_cnt_ex", struct ibv_device_attr_ex, phys_port_cnt_ex, uint32_t);
	STRUCT("ibv_async_event.element", __typeof__(((struct ibv_async_event *)0)->element));
	FIELD("ibv_async_event.element.cq", __typeof__(((struct ibv_async_event *)0)->element), cq, struct ibv_cq *);
	FIELD("ibv_async_event.element.qp", __typeof__(((struct ibv_async_event *)0)->element), qp, struct ibv_qp *);
	FIELD("ibv_async_event.element.srq", __typeof__(((struct ibv_async_event *)0)->element), srq, struct ibv_srq *);
	FIELD("ibv_async_event.element.wq", __typeof__(((struct ibv_async_event *)0)->element), wq, struct ibv_wq *);
	FIELD("ibv_async_event.element.port_num", __typeof__(((struct ibv_async_event *)0)->element), port_num, int);
	STRUCT("ibv_async_event", struct ibv_async_event);
	FIELD("ibv_async_event.element", struct ibv_async_event, element, __typeof__(((struct ibv_async_event *)0)->element));
	FIELD("ibv_async_event.event_type", struct ibv_async_event, event_type, enum ibv_event_type);
#if RELEASE >= 65
	STRUCT("ibv_fd_arr", struct ibv_fd_arr);
#endif
#if RELEASE >= 65
	FIELD("ibv_fd_arr.arr", struct ibv_fd_arr, arr, int *);
#endif
#if RELEASE >= 65
	FIELD("ibv_fd_arr.count", struct ibv_fd_arr, count, uint32_t);
#endif
	STRUCT("ibv_pd", struct ibv_pd);
	FIELD("ibv_pd.context", struct ibv_pd, context, struct ibv_context *);
	FIELD("ibv_pd.handle", struct ibv_pd, handle, uint32_t);
	STRUCT("ibv_td_init_attr", struct ibv_td_init_attr);
	FIELD("ibv_td_init_attr.comp_mask", struct ibv_td_init_attr, comp_mask, uint32_t);
	STRUCT("ibv_td", struct ibv_td);
	FIELD("ibv_td.context", struct ibv_td, context, struct ibv_context *);
	STRUCT("ibv_xrcd_init_attr", struct ibv_xrcd_init_attr);
	FIELD("ibv_xrcd_init_attr.comp_mask", struct ibv_xrcd_init_attr, comp_mask, uint32_t);
	FIELD("ibv_xrcd_init_attr.fd", struct ibv_xrcd_init_attr, fd, int);
	FIELD("ibv_xrcd_init_attr.oflags", struct ibv_xrcd_init_attr, oflags, int);
	STRUCT("ibv_xrcd", struct ibv_xrcd);
	FIELD("ibv_xrcd.context", struct ibv_xrcd, context, struct ibv_context *);
	STRUCT("ibv_parent_domain_init_attr", struct ibv_parent_domain_init_attr);
	FIELD("ibv_parent_domain_init_attr.pd", struct ibv_parent_domain_init_attr, pd, struct ibv_pd *);
	FIELD("ibv_parent_domain_init_attr.td", struct ibv_parent_domain_init_attr, td, struct ibv_td *);
	FIELD("ibv_parent_domain_init_attr.comp_mask", struct ibv_parent_domain_init_attr, comp_mask, uint32_t);
	FIELD("ibv_parent_domain_init_attr.alloc", struct ibv_parent_domain_init_attr, alloc, __typeof__(void * (*)(struct ibv_pd *, void *, size_t, size_t, uint64_t)));
	FIELD("ibv_parent_domain_init_attr.free", struct ibv_parent_domain_init_attr, free, __typeof__(void (*)(struct ibv_pd *, void *, void *, uint64_t)));
	FIELD("ibv_parent_domain_init_attr.pd_context", struct ibv_parent_domain_init_attr, pd_context, void *);
	STRUCT("ibv_mr", struct ibv_mr);
	FIELD("ibv_mr.context", struct ibv_mr, context, struct ibv_context *);
	FIELD("ibv_mr.pd", struct ibv_mr, pd, struct ibv_pd *);
	FIELD("ibv_mr.addr", struct ibv_mr, addr, void *);
	FIELD("ibv_mr.length", struct ibv_mr, length, size_t);
	FIELD("ibv_mr.handle", struct ibv_mr, handle, uint32_t);
	FIELD("ibv_mr.lkey", struct ibv_mr, lkey, uint32_t);
	FIELD("ibv_mr.rkey", struct ibv_mr, rkey, uint32_t);
#if RELEASE >= 65
	STRUCT("ibv_mr_init_attr", struct ibv_mr_init_attr);
#endif
#if RELEASE >= 65
	FIELD("ibv_mr_init_attr.length", struct ibv_mr_init_attr, length, size_t);
#endif
#if RELEASE >= 65
	FIELD("ibv_mr_init_attr.access", struct ibv_mr_init_attr, access, int);
#endif
#if RELEASE >= 65
	FIELD("ibv_mr_init_attr.comp_mask", struct ibv_mr_init_attr, comp_mask, uint64_t);
#endif
#if RELEASE >= 65
	FIELD("ibv_mr_init_attr.iova", struct ibv_mr_init_attr, iova, uint64_t);
#endif
#if RELEASE >= 65
	FIELD("ibv_mr_init_attr.addr", struct ibv_mr_init_attr, addr, void *);
#endif
#if RELEASE >= 65
	FIELD("ibv_mr_init_attr.fd", struct ibv_mr_init_attr, fd, int);
#endif
#if RELEASE >= 65
	FIELD("ibv_mr_init_attr.fd_offset", struct ibv_mr_init_attr, fd_offset, uint64_t);
#endif
#if RELEASE >= 65
	FIELD("ibv_mr_init_attr.dmah", struct ibv_mr_init_attr, dmah, struct ibv_dmah *);
#endif
#if RELEASE >= 65
	FIELD("ibv_mr_init_attr.buf", struct ibv_mr_init_attr, buf, struct ibv_buf *);
#endif
	STRUCT("ibv_mw", struct ibv_mw);
	FIELD("ibv_mw.context", struct ibv_mw, context, struct ibv_context *);
	FIELD("ibv_mw.pd", struct ibv_mw, pd, struct ibv_pd *);
	FIELD("ibv_mw.rkey", struct ibv_mw, rkey, uint32_t);
	FIELD("ibv_mw.handle", struct ibv_mw, handle, uint32_t);
	FIELD("ibv_mw.type", struct ibv_mw, type, enum ibv_mw_type);
	STRUCT("ibv_mw_bind_info", struct ibv_mw_bind_info);
	FIELD("ibv_mw_bind_info.mr", struct ibv_mw_bind_info, mr, struct ibv_mr *);
	FIELD("ibv_mw_bind_info.addr", struct ibv_mw_bind_info, addr, uint64_t);
	FIELD("ibv_mw_bind_info.length", struct ibv_mw_bind_info, length, uint64_t);
	FIELD("ibv_mw_bind_info.mw_access_flags", struct ibv_mw_bind_info, mw_access_flags, unsigned int);
	STRUCT("ibv_mw_bind", struct ibv_mw_bind);
	FIELD("ibv_mw_bind.wr_id", struct ibv_mw_bind, wr_id, uint64_t);
	FIELD("ibv_mw_bind.send_flags", struct ibv_mw_bind, send_flags, unsigned int);
	FIELD("ibv_mw_bind.bind_info", struct ibv_mw_bind, bind_info, struct ibv_mw_bind_info);
	STRUCT("ibv_alloc_dm_attr", struct ibv_alloc_dm_attr);
	FIELD("ibv_alloc_dm_attr.length", struct ibv_alloc_dm_attr, length, size_t);
	FIELD("ibv_alloc_dm_attr.log_align_req", struct ibv_alloc_dm_attr, log_align_req, uint32_t);
	FIELD("ibv_alloc_dm_attr.comp_mask", struct ibv_alloc_dm_attr, comp_mask, uint32_t);
	STRUCT("ibv_dm", struct ibv_dm);
	FIELD("ibv_dm.context", struct ibv_dm, context, struct ibv_context *);
	FIELD("ibv_dm.memcpy_to_dm", struct ibv_dm, memcpy_to_dm, __typeof__(int (*)(struct ibv_dm *, uint64_t, void const *, size_t)));
	FIELD("ibv_dm.memcpy_from_dm", struct ibv_dm, memcpy_from_dm, __typeof__(int (*)(void *, struct ibv_dm *, uint64_t, size_t)));
	FIELD("ibv_dm.comp_mask", struct ibv_dm, comp_mask, uint32_t);
	FIELD("ibv_dm.handle", struct ibv_dm, handle, uint32_t);
#if RELEASE >= 65
	STRUCT("ibv_dmah", struct ibv_dmah);
#endif
#if RELEASE >= 65
	FIELD("ibv_dmah.context", struct ibv_dmah, context, struct ibv_context *);
#endif
#if RELEASE >= 65
	STRUCT("ibv_dmah_init_attr", struct ibv_dmah_init_attr);
#endif
#if RELEASE >= 65
	FIELD("ibv_dmah_init_attr.comp_mask", struct ibv_dmah_init_attr, comp_mask, uint32_t);
#endif
#if RELEASE >= 65
	FIELD("ibv_dmah_init_attr.cpu_id", struct ibv_dmah_init_attr, cpu_id, uint32_t);
#endif
#if RELEASE >= 65
	FIELD("ibv_dmah_init_attr.ph", struct ibv_dmah_init_attr, ph, uint8_t);
#endif
#if RELEASE >= 65
	FIELD("ibv_dmah_init_attr.tph_mem_type", struct ibv_dmah_init_attr, tph_mem_type, uint8_t);
#endif
	STRUCT("ibv_global_route", struct ibv_global_route);
	FIELD("ibv_global_route.dgid", struct ibv_global_route, dgid, union ibv_gid);
	FIELD("ibv_global_route.flow_label", struct ibv_global_route, flow_label, uint32_t);
	FIELD("ibv_global_route.sgid_index", struct ibv_global_route, sgid_index, uint8_t);
	FIELD("ibv_global_route.hop_limit", struct ibv_global_route, hop_limit, uint8_t);
	FIELD("ibv_global_route.traffic_class", struct ibv_global_route, traffic_class, uint8_t);
	STRUCT("ibv_grh", struct ibv_grh);
	FIELD("ibv_grh.version_tclass_flow", struct ibv_grh, version_tclass_flow, __be32);
	FIELD("ibv_grh.paylen", struct ibv_grh, paylen, __be16);
	FIELD("ibv_grh.next_hdr", struct ibv_grh, next_hdr, uint8_t);
	FIELD("ibv_grh.hop_limit", struct ibv_grh, hop_limit, uint8_t);
	FIELD("ibv_grh.sgid", struct ibv_grh, sgid, union ibv_gid);
	FIELD("ibv_grh.dgid", struct ibv_grh, dgid, union ibv_gid);
	STRUCT("ibv_ah_attr", struct ibv_ah_attr);
	FIELD("ibv_ah_attr.grh", struct ibv_ah_attr, grh, struct ibv_global_route);
	FIELD("ibv_ah_attr.dlid", struct ibv_ah_attr, dlid, uint16_t);
	FIELD("ibv_ah_attr.sl", struct ibv_ah_attr, sl, uint8_t);
	FIELD("ibv_ah_attr.src_path_bits", struct ibv_ah_attr, src_path_bits, uint8_t);
	FIELD("ibv_ah_attr.static_rate", struct ibv_ah_attr, static_rate, uint8_t);
	FIELD("ibv_ah_attr.is_global", struct ibv_ah_attr, is_global, uint8_t);
	FIELD("ibv_ah_attr.port_num", struct ibv_ah_attr, port_num, uint8_t);
	STRUCT("ibv_ah", struct ibv_ah);
	FIELD("ibv_ah.context", struct ibv_ah, context, struct ibv_context *);
	FIELD("ibv_ah.pd", struct ibv_ah, pd, struct ibv_pd *);
	FIELD("ibv_ah.handle", struct ibv_ah, handle, uint32_t);
	FIELD("ibv_wc.imm_data", struct ibv_wc, imm_data, __be32);
	FIELD("ibv_wc.invalidated_rkey", struct ibv_wc, invalidated_rkey, uint32_t);
	STRUCT("ibv_wc", struct ibv_wc);
	FIELD("ibv_wc.wr_id", struct ibv_wc, wr_id, uint64_t);
	FIELD("ibv_wc.status", struct ibv_wc, status, enum ibv_wc_status);
	FIELD("ibv_wc.opcode", struct ibv_wc, opcode, enum ibv_wc_opcode);
	FIELD("ibv_wc.vendor_err", struct ibv_wc, vendor_err, uint32_t);
	FIELD("ibv_wc.byte_len", struct ibv_wc, byte_len, uint32_t);
	FIELD("ibv_wc.qp_num", struct ibv_wc, qp_num, uint32_t);
	FIELD("ibv_wc.src_qp", struct ibv_wc, src_qp, uint32_t);
	FIELD("ibv_wc.wc_flags", struct ibv_wc, wc_flags, unsigned int);
	FIELD("ibv_wc.pkey_index", struct ibv_wc, pkey_index, uint16_t);
	FIELD("ibv_wc.slid", struct ibv_wc, slid, uint16_t);
	FIELD("ibv_wc.sl", struct ibv_wc, sl, uint8_t);
	FIELD("ibv_wc.dlid_path_bits", struct ibv_wc, dlid_path_bits, uint8_t);
	STRUCT("ibv_comp_channel", struct ibv_comp_channel);
	FIELD("ibv_comp_channel.context", struct ibv_comp_channel, context, struct ibv_context *);
	FIELD("ibv_comp_channel.fd", struct ibv_comp_channel, fd, int);
	FIELD("ibv_comp_channel.refcnt", struct ibv_comp_channel, refcnt, int);
	STRUCT("ibv_cq", struct ibv_cq);
	FIELD("ibv_cq.context", struct ibv_cq, context, struct ibv_context *);
	FIELD("ibv_cq.channel", struct ibv_cq, channel, struct ibv_comp_channel *);
	FIELD("ibv_cq.cq_context", struct ibv_cq, cq_context, void *);
	FIELD("ibv_cq.handle", struct ibv_cq, handle, uint32_t);
	FIELD("ibv_cq.cqe", struct ibv_cq, cqe, int);
	FIELD("ibv_cq.mutex", struct ibv_cq, mutex, pthread_mutex_t);
	FIELD("ibv_cq.cond", struct ibv_cq, cond, pthread_cond_t);
	FIELD("ibv_cq.comp_events_completed", struct ibv_cq, comp_events_completed, uint32_t);
	FIELD("ibv_cq.async_events_completed", struct ibv_cq, async_events_completed, uint32_t);
	STRUCT("ibv_poll_cq_attr", struct ibv_poll_cq_attr);
	FIELD("ibv_poll_cq_attr.comp_mask", struct ibv_poll_cq_attr, comp_mask, uint32_t);
	STRUCT("ibv_wc_tm_info", struct ibv_wc_tm_info);
	FIELD("ibv_wc_tm_info.tag", struct ibv_wc_tm_info, tag, uint64_t);
	FIELD("ibv_wc_tm_info.priv", struct ibv_wc_tm_info, priv, uint32_t);
	STRUCT("ibv_cq_ex", struct ibv_cq_ex);
	FIELD("ibv_cq_ex.context", struct ibv_cq_ex, context, struct ibv_context *);
	FIELD("ibv_cq_ex.channel", struct ibv_cq_ex, channel, struct ibv_comp_channel *);
	FIELD("ibv_cq_ex.cq_context", struct ibv_cq_ex, cq_context, void *);
	FIELD("ibv_cq_ex.handle", struct ibv_cq_ex, handle, uint32_t);
	FIELD("ibv_cq_ex.cqe", struct ibv_cq_ex, cqe, int);
	FIELD("ibv_cq_ex.mutex", struct ibv_cq_ex, mutex, pthread_mutex_t);
	FIELD("ibv_cq_ex.cond", struct ibv_cq_ex, cond, pthread_cond_t);
	FIELD("ibv_cq_ex.comp_events_completed", struct ibv_cq_ex, comp_events_completed, uint32_t);
	FIELD("ibv_cq_ex.async_events_completed", struct ibv_cq_ex, async_events_completed, uint32_t);
	FIELD("ibv_cq_ex.comp_mask", struct ibv_cq_ex, comp_mask, uint32_t);
	FIELD("ibv_cq_ex.status", struct ibv_cq_ex, status, enum ibv_wc_status);
	FIELD("ibv_cq_ex.wr_id", struct ibv_cq_ex, wr_id, uint64_t);
	FIELD("ibv_cq_ex.start_poll", struct ibv_cq_ex, start_poll, __typeof__(int (*)(struct ibv_cq_ex *, struct ibv_poll_cq_attr *)));
	FIELD("ibv_cq_ex.next_poll", struct ibv_cq_ex, next_poll, __typeof__(int (*)(struct ibv_cq_ex *)));
	FIELD("ibv_cq_ex.end_poll", struct ibv_cq_ex, end_poll, __typeof__(void (*)(struct ibv_cq_ex *)));
	FIELD("ibv_cq_ex.read_opcode", struct ibv_cq_ex, read_opcode, __typeof__(enum ibv_wc_opcode (*)(struct ibv_cq_ex *)));
	FIELD("ibv_cq_ex.read_vendor_err", struct ibv_cq_ex, read_vendor_err, __typeof__(uint32_t (*)(struct ibv_cq_ex *)));
	FIELD("ibv_cq_ex.read_byte_len", struct ibv_cq_ex, read_byte_len, __typeof__(uint32_t (*)(struct ibv_cq_ex *)));
	FIELD("ibv_cq_ex.read_imm_data", struct ibv_cq_ex, read_imm_data, __typeof__(__be32 (*)(struct ibv_cq_ex *)));
	FIELD("ibv_cq_ex.read_qp_num", struct ibv_cq_ex, read_qp_num, __typeof__(uint32_t (*)(struct ibv_cq_ex *)));
	FIELD("ibv_cq_ex.read_src_qp", struct ibv_cq_ex, read_src_qp, __typeof__(uint32_t (*)(struct ibv_cq_ex *)));
	FIELD("ibv_cq_ex.read_wc_flags", struct ibv_cq_ex, read_wc_flags, __typeof__(unsigned int (*)(struct ibv_cq_ex *)));
	FIELD("ibv_cq_ex.read_slid", struct ibv_cq_ex, read_slid, __typeof__(uint32_t (*)(struct ibv_cq_ex *)));
	FIELD("ibv_cq_ex.read_sl", struct ibv_cq_ex, read_sl, __typeof__(uint8_t (*)(struct ibv_cq_ex *)));
	FIELD("ibv_cq_ex.read_dlid_path_bits", struct ibv_cq_ex, read_dlid_path_bits, __typeof__(uint8_t (*)(struct ibv_cq_ex *)));
	FIELD("ibv_cq_ex.read_completion_ts", struct ibv_cq_ex, read_completion_ts, __typeof__(uint64_t (*)(struct ibv_cq_ex *)));
	FIELD("ibv_cq_ex.read_cvlan", struct ibv_cq_ex, read_cvlan, __typeof__(uint16_t (*)(struct ibv_cq_ex *)));
	FIELD("ibv_cq_ex.read_flow_tag", struct ibv_cq_ex, read_flow_tag, __typeof__(uint32_t (*)(struct ibv_cq_ex *)));
	FIELD("ibv_cq_ex.read_tm_info", struct ibv_cq_ex, read_tm_info, __typeof__(void (*)(struct ibv_cq_ex *, struct ibv_wc_tm_info *)));
	FIELD("ibv_cq_ex.read_completion_wallclock_ns", struct ibv_cq_ex, read_completion_wallclock_ns, __typeof__(uint64_t (*)(struct ibv_cq_ex *)));
	STRUCT("ibv_moderate_cq", struct ibv_moderate_cq);
	FIELD("ibv_moderate_cq.cq_count", struct ibv_moderate_cq, cq_count, uint16_t);
	FIELD("ibv_moderate_cq.cq_period", struct ibv_moderate_cq, cq_period, uint16_t);
	STRUCT("ibv_modify_cq_attr", struct ibv_modify_cq_attr);
	FIELD("ibv_modify_cq_attr.attr_mask", struct ibv_modify_cq_attr, attr_mask, uint32_t);
	FIELD("ibv_modify_cq_attr.moderate", struct ibv_modify_cq_attr, moderate, struct ibv_moderate_cq);
	STRUCT("ibv_cq_init_attr_ex", struct ibv_cq_init_attr_ex);
	FIELD("ibv_cq_init_attr_ex.cqe", struct ibv_cq_init_attr_ex, cqe, uint32_t);
	FIELD("ibv_cq_init_attr_ex.cq_context", struct ibv_cq_init_attr_ex, cq_context, void *);
	FIELD("ibv_cq_init_attr_ex.channel", struct ibv_cq_init_attr_ex, channel, struct ibv_comp_channel *);
	FIELD("ibv_cq_init_attr_ex.comp_vector", struct ibv_cq_init_attr_ex, comp_vector, uint32_t);
	FIELD("ibv_cq_init_attr_ex.wc_flags", struct ibv_cq_init_attr_ex, wc_flags, uint64_t);
	FIELD("ibv_cq_init_attr_ex.comp_mask", struct ibv_cq_init_attr_ex, comp_mask, uint32_t);
	FIELD("ibv_cq_init_attr_ex.flags", struct ibv_cq_init_attr_ex, flags, uint32_t);
	FIELD("ibv_cq_init_attr_ex.parent_domain", struct ibv_cq_init_attr_ex, parent_domain, struct ibv_pd *);
	STRUCT("ibv_srq_attr", struct ibv_srq_attr);
	FIELD("ibv_srq_attr.max_wr", struct ibv_srq_attr, max_wr, uint32_t);
	FIELD("ibv_srq_attr.max_sge", struct ibv_srq_attr, max_sge, uint32_t);
	FIELD("ibv_srq_attr.srq_limit", struct ibv_srq_attr, srq_limit, uint32_t);
	STRUCT("ibv_srq_init_attr", struct ibv_srq_init_attr);
	FIELD("ibv_srq_init_attr.srq_context", struct ibv_srq_init_attr, srq_context, void *);
	FIELD("ibv_srq_init_attr.attr", struct ibv_srq_init_attr, attr, struct ibv_srq_attr);
	STRUCT("ibv_tm_cap", struct ibv_tm_cap);
	FIELD("ibv_tm_cap.max_num_tags", struct ibv_tm_cap, max_num_tags, uint32_t);
	FIELD("ibv_tm_cap.max_ops", struct ibv_tm_cap, max_ops, uint32_t);
	STRUCT("ibv_srq_init_attr_ex", struct ibv_srq_init_attr_ex);
	FIELD("ibv_srq_init_attr_ex.srq_context", struct ibv_srq_init_attr_ex, srq_context, void *);
	FIELD("ibv_srq_init_attr_ex.attr", struct ibv_srq_init_attr_ex, attr, struct ibv_srq_attr);
	FIELD("ibv_srq_init_attr_ex.comp_mask", struct ibv_srq_init_attr_ex, comp_mask, uint32_t);
	FIELD("ibv_srq_init_attr_ex.srq_type", struct ibv_srq_init_attr_ex, srq_type, enum ibv_srq_type);
	FIELD("ibv_srq_init_attr_ex.pd", struct ibv_srq_init_attr_ex, pd, struct ibv_pd *);
	FIELD("ibv_srq_init_attr_ex.xrcd", struct ibv_srq_init_attr_ex, xrcd, struct ibv_xrcd *);
	FIELD("ibv_srq_init_attr_ex.cq", struct ibv_srq_init_attr_ex, cq, struct ibv_cq *);
	FIELD("ibv_srq_init_attr_ex.tm_cap", struct ibv_srq_init_attr_ex, tm_cap, struct ibv_tm_cap);
	STRUCT("ibv_srq", struct ibv_srq);
	FIELD("ibv_srq.context", struct ibv_srq, context, struct ibv_context *);
	FIELD("ibv_srq.srq_context", struct ibv_srq, srq_context, void *);
	FIELD("ibv_srq.pd", struct ibv_srq, pd, struct ibv_pd *);
	FIELD("ibv_srq.handle", struct ibv_srq, handle, uint32_t);
	FIELD("ibv_srq.mutex", struct ibv_srq, mutex, pthread_mutex_t);
	FIELD("ibv_srq.cond", struct ibv_srq, cond, pthread_cond_t);
	FIELD("ibv_srq.events_completed", struct ibv_srq, events_completed, uint32_t);
	STRUCT("ibv_wq_init_attr", struct ibv_wq_init_attr);
	FIELD("ibv_wq_init_attr.wq_context", struct ibv_wq_init_attr, wq_context, void *);
	FIELD("ibv_wq_init_attr.wq_type", struct ibv_wq_init_attr, wq_type, enum ibv_wq_type);
	FIELD("ibv_wq_init_attr.max_wr", struct ibv_wq_init_attr, max_wr, uint32_t);
	FIELD("ibv_wq_init_attr.max_sge", struct ibv_wq_init_attr, max_sge, uint32_t);
	FIELD("ibv_wq_init_attr.pd", struct ibv_wq_init_attr, pd, struct ibv_pd *);
	FIELD("ibv_wq_init_attr.cq", struct ibv_wq_init_attr, cq, struct ibv_cq *);
	FIELD("ibv_wq_init_attr.comp_mask", struct ibv_wq_init_attr, comp_mask, uint32_t);
	FIELD("ibv_wq_init_attr.create_flags", struct ibv_wq_init_attr, create_flags, uint32_t);
	STRUCT("ibv_wq_attr", struct ibv_wq_attr);
	FIELD("ibv_wq_attr.attr_mask", struct ibv_wq_attr, attr_mask, uint32_t);
	FIELD("ibv_wq_attr.wq_state", struct ibv_wq_attr, wq_state, enum ibv_wq_state);
	FIELD("ibv_wq_attr.curr_wq_state", struct ibv_wq_attr, curr_wq_state, enum ibv_wq_state);
	FIELD("ibv_wq_attr.flags", struct ibv_wq_attr, flags, uint32_t);
	FIELD("ibv_wq_attr.flags_mask", struct ibv_wq_attr, flags_mask, uint32_t);
	STRUCT("ibv_wq", struct ibv_wq);
	FIELD("ibv_wq.context", struct ibv_wq, context, struct ibv_context *);
	FIELD("ibv_wq.wq_context", struct ibv_wq, wq_context, void *);
	FIELD("ibv_wq.pd", struct ibv_wq, pd, struct ibv_pd *);
	FIELD("ibv_wq.cq", struct ibv_wq, cq, struct ibv_cq *);
	FIELD("ibv_wq.wq_num", struct ibv_wq, wq_num, uint32_t);
	FIELD("ibv_wq.handle", struct ibv_wq, handle, uint32_t);
	FIELD("ibv_wq.state", struct ibv_wq, state, enum ibv_wq_state);
	FIELD("ibv_wq.wq_type", struct ibv_wq, wq_type, enum ibv_wq_type);
	FIELD("ibv_wq.post_recv", struct ibv_wq, post_recv, __typeof__(int (*)(struct ibv_wq *, struct ibv_recv_wr *, struct ibv_recv_wr * *)));
	FIELD("ibv_wq.mutex", struct ibv_wq, mutex, pthread_mutex_t);
	FIELD("ibv_wq.cond", struct ibv_wq, cond, pthread_cond_t);
	FIELD("ibv_wq.events_completed", struct ibv_wq, events_completed, uint32_t);
	FIELD("ibv_wq.comp_mask", struct ibv_wq, comp_mask, uint32_t);
	STRUCT("ibv_rwq_ind_table", struct ibv_rwq_ind_table);
	FIELD("ibv_rwq_ind_table.context", struct ibv_rwq_ind_table, context, struct ibv_context *);
	FIELD("ibv_rwq_ind_table.ind_tbl_handle", struct ibv_rwq_ind_table, ind_tbl_handle, int);
	FIELD("ibv_rwq_ind_table.ind_tbl_num", struct ibv_rwq_ind_table, ind_tbl_num, int);
	FIELD("ibv_rwq_ind_table.comp_mask", struct ibv_rwq_ind_table, comp_mask, uint32_t);
	STRUCT("ibv_rwq_ind_table_init_attr", struct ibv_rwq_ind_table_init_attr);
	FIELD("ibv_rwq_ind_table_init_attr.log_ind_tbl_size", struct ibv_rwq_ind_table_init_attr, log_ind_tbl_size, uint32_t);
	FIELD("ibv_rwq_ind_table_init_attr.ind_tbl", struct ibv_rwq_ind_table_init_attr, ind_tbl, struct ibv_wq * *);
	FIELD("ibv_rwq_ind_table_init_attr.comp_mask", struct ibv_rwq_ind_table_init_attr, comp_mask, uint32_t);
	STRUCT("ibv_data_buf", struct ibv_data_buf);
	FIELD("ibv_data_buf.addr", struct ibv_data_buf, addr, void *);
	FIELD("ibv_data_buf.length", struct ibv_data_buf, length, size_t);
	STRUCT("ibv_sge", struct ibv_sge);
	FIELD("ibv_sge.addr", struct ibv_sge, addr, uint64_t);
	FIELD("ibv_sge.length", struct ibv_sge, length, uint32_t);
	FIELD("ibv_sge.lkey", struct ibv_sge, lkey, uint32_t);
	FIELD("ibv_send_wr.imm_data", struct ibv_send_wr, imm_data, __be32);
	FIELD("ibv_send_wr.invalidate_rkey", struct ibv_send_wr, invalidate_rkey, uint32_t);
	STRUCT("ibv_send_wr.wr.rdma", __typeof__(((struct ibv_send_wr *)0)->wr.rdma));
	FIELD("ibv_send_wr.wr.rdma.remote_addr", __typeof__(((struct ibv_send_wr *)0)->wr.rdma), remote_addr, uint64_t);
	FIELD("ibv_send_wr.wr.rdma.rkey", __typeof__(((struct ibv_send_wr *)0)->wr.rdma), rkey, uint32_t);
	STRUCT("ibv_send_wr.wr.atomic", __typeof__(((struct ibv_send_wr *)0)->wr.atomic));
	FIELD("ibv_send_wr.wr.atomic.remote_addr", __typeof__(((struct ibv_send_wr *)0)->wr.atomic), remote_addr, uint64_t);
	FIELD("ibv_send_wr.wr.atomic.compare_add", __typeof__(((struct ibv_send_wr *)0)->wr.atomic), compare_add, uint64_t);
	FIELD("ibv_send_wr.wr.atomic.swap", __typeof__(((struct ibv_send_wr *)0)->wr.atomic), swap, uint64_t);
	FIELD("ibv_send_wr.wr.atomic.rkey", __typeof__(((struct ibv_send_wr *)0)->wr.atomic), rkey, uint32_t);
	STRUCT("ibv_send_wr.wr.ud", __typeof__(((struct ibv_send_wr *)0)->wr.ud));
	FIELD("ibv_send_wr.wr.ud.ah", __typeof__(((struct ibv_send_wr *)0)->wr.ud), ah, struct ibv_ah *);
	FIELD("ibv_send_wr.wr.ud.remote_qpn", __typeof__(((struct ibv_send_wr *)0)->wr.ud), remote_qpn, uint32_t);
	FIELD("ibv_send_wr.wr.ud.remote_qkey", __typeof__(((struct ibv_send_wr *)0)->wr.ud), remote_qkey, uint32_t);
	STRUCT("ibv_send_wr.wr", __typeof__(((struct ibv_send_wr *)0)->wr));
	FIELD("ibv_send_wr.wr.rdma", __typeof__(((struct ibv_send_wr *)0)->wr), rdma, __typeof__(((struct ibv_send_wr *)0)->wr.rdma));
	FIELD("ibv_send_wr.wr.atomic", __typeof__(((struct ibv_send_wr *)0)->wr), atomic, __typeof__(((struct ibv_send_wr *)0)->wr.atomic));
	FIELD("ibv_send_wr.wr.ud", __typeof__(((struct ibv_send_wr *)0)->wr), ud, __typeof__(((struct ibv_send_wr *)0)->wr.ud));
	STRUCT("ibv_send_wr.qp_type.xrc", __typeof__(((struct ibv_send_wr *)0)->qp_type.xrc));
	FIELD("ibv_send_wr.qp_type.xrc.remote_srqn", __typeof__(((struct ibv_send_wr *)0)->qp_type.xrc), remote_srqn, uint32_t);
	STRUCT("ibv_send_wr.qp_type", __typeof__(((struct ibv_send_wr *)0)->qp_type));
	FIELD("ibv_send_wr.qp_type.xrc", __typeof__(((struct ibv_send_wr *)0)->qp_type), xrc, __typeof__(((struct ibv_send_wr *)0)->qp_type.xrc));
	STRUCT("ibv_send_wr.bind_mw", __typeof__(((struct ibv_send_wr *)0)->bind_mw));
	FIELD("ibv_send_wr.bind_mw.mw", __typeof__(((struct ibv_send_wr *)0)->bind_mw), mw, struct ibv_mw *);
	FIELD("ibv_send_wr.bind_mw.rkey", __typeof__(((struct ibv_send_wr *)0)->bind_mw), rkey, uint32_t);
	FIELD("ibv_send_wr.bind_mw.bind_info", __typeof__(((struct ibv_send_wr *)0)->bind_mw), bind_info, struct ibv_mw_bind_info);
	STRUCT("ibv_send_wr.tso", __typeof__(((struct ibv_send_wr *)0)->tso));
	FIELD("ibv_send_wr.tso.hdr", __typeof__(((struct ibv_send_wr *)0)->tso), hdr, void *);
	FIELD("ibv_send_wr.tso.hdr_sz", __typeof__(((struct ibv_send_wr *)0)->tso), hdr_sz, uint16_t);
	FIELD("ibv_send_wr.tso.mss", __typeof__(((struct ibv_send_wr *)0)->tso), mss, uint16_t);
	FIELD("ibv_send_wr.bind_mw", struct ibv_send_wr, bind_mw, __typeof__(((struct ibv_send_wr *)0)->bind_mw));
	FIELD("ibv_send_wr.tso", struct ibv_send_wr, tso, __typeof__(((struct ibv_send_wr *)0)->tso));
	STRUCT("ibv_send_wr", struct ibv_send_wr);
	FIELD("ibv_send_wr.wr_id", struct ibv_send_wr, wr_id, uint64_t);
	FIELD("ibv_send_wr.next", struct ibv_send_wr, next, struct ibv_send_wr *);
	FIELD("ibv_send_wr.sg_list", struct ibv_send_wr, sg_list, struct ibv_sge *);
	FIELD("ibv_send_wr.num_sge", struct ibv_send_wr, num_sge, int);
	FIELD("ibv_send_wr.opcode", struct ibv_send_wr, opcode, enum ibv_wr_opcode);
	FIELD("ibv_send_wr.send_flags", struct ibv_send_wr, send_flags, unsigned int);
	FIELD("ibv_send_wr.wr", struct ibv_send_wr, wr, __typeof__(((struct ibv_send_wr *)0)->wr));
	FIELD("ibv_send_wr.qp_type", struct ibv_send_wr, qp_type, __typeof__(((struct ibv_send_wr *)0)->qp_type));
	STRUCT("ibv_recv_wr", struct ibv_recv_wr);
	FIELD("ibv_recv_wr.wr_id", struct ibv_recv_wr, wr_id, uint64_t);
	FIELD("ibv_recv_wr.next", struct ibv_recv_wr, next, struct ibv_recv_wr *);
	FIELD("ibv_recv_wr.sg_list", struct ibv_recv_wr, sg_list, struct ibv_sge *);
	FIELD("ibv_recv_wr.num_sge", struct ibv_recv_wr, num_sge, int);
	STRUCT("ibv_ops_wr.tm.add", __typeof__(((struct ibv_ops_wr *)0)->tm.add));
	FIELD("ibv_ops_wr.tm.add.recv_wr_id", __typeof__(((struct ibv_ops_wr *)0)->tm.add), recv_wr_id, uint64_t);
	FIELD("ibv_ops_wr.tm.add.sg_list", __typeof__(((struct ibv_ops_wr *)0)->tm.add), sg_list, struct ibv_sge *);
	FIELD("ibv_ops_wr.tm.add.num_sge", __typeof__(((struct ibv_ops_wr *)0)->tm.add), num_sge, int);
	FIELD("ibv_ops_wr.tm.add.tag", __typeof__(((struct ibv_ops_wr *)0)->tm.add), tag, uint64_t);
	FIELD("ibv_ops_wr.tm.add.mask", __typeof__(((struct ibv_ops_wr *)0)->tm.add), mask, uint64_t);
	STRUCT("ibv_ops_wr.tm", __typeof__(((struct ibv_ops_wr *)0)->tm));
	FIELD("ibv_ops_wr.tm.unexpected_cnt", __typeof__(((struct ibv_ops_wr *)0)->tm), unexpected_cnt, uint32_t);
	FIELD("ibv_ops_wr.tm.handle", __typeof__(((struct ibv_ops_wr *)0)->tm), handle, uint32_t);
	FIELD("ibv_ops_wr.tm.add", __typeof__(((struct ibv_ops_wr *)0)->tm), add, __typeof__(((struct ibv_ops_wr *)0)->tm.add));
	STRUCT("ibv_ops_wr", struct ibv_ops_wr);
	FIELD("ibv_ops_wr.wr_id", struct ibv_ops_wr, wr_id, uint64_t);
	FIELD("ibv_ops_wr.next", struct ibv_ops_wr, next, struct ibv_ops_wr *);
	FIELD("ibv_ops_wr.opcode", struct ibv_ops_wr, opcode, enum ibv_ops_wr_opcode);
	FIELD("ibv_ops_wr.flags", struct ibv_ops_wr, flags, int);
	FIELD("ibv_ops_wr.tm", struct ibv_ops_wr, tm, __typeof__(((struct ibv_ops_wr *)0)->tm));
	STRUCT("ibv_qp_cap", struct ibv_qp_cap);
	FIELD("ibv_qp_cap.max_send_wr", struct ibv_qp_cap, max_send_wr, uint32_t);
	FIELD("ibv_qp_cap.max_recv_wr", struct ibv_qp_cap, max_recv_wr, uint32_t);
	FIELD("ibv_qp_cap.max_send_sge", struct ibv_qp_cap, max_send_sge, uint32_t);
	FIELD("ibv_qp_cap.max_recv_sge", struct ibv_qp_cap, max_recv_sge, uint32_t);
	FIELD("ibv_qp_cap.max_inline_data", struct ibv_qp_cap, max_inline_data, uint32_t);
	STRUCT("ibv_qp_init_attr", struct ibv_qp_init_attr);
	FIELD("ibv_qp_init_attr.qp_context", struct ibv_qp_init_attr, qp_context, void *);
	FIELD("ibv_qp_init_attr.send_cq", struct ibv_qp_init_attr, send_cq, struct ibv_cq *);
	FIELD("ibv_qp_init_attr.recv_cq", struct ibv_qp_init_attr, recv_cq, struct ibv_cq *);
	FIELD("ibv_qp_init_attr.srq", struct ibv_qp_init_attr, srq, struct ibv_srq *);
	FIELD("ibv_qp_init_attr.cap", struct ibv_qp_init_attr, cap, struct ibv_qp_cap);
	FIELD("ibv_qp_init_attr.qp_type", struct ibv_qp_init_attr, qp_type, enum ibv_qp_type);
	FIELD("ibv_qp_init_attr.sq_sig_all", struct ibv_qp_init_attr, sq_sig_all, int);
	STRUCT("ibv_rx_hash_conf", struct ibv_rx_hash_conf);
	FIELD("ibv_rx_hash_conf.rx_hash_function", struct ibv_rx_hash_conf, rx_hash_function, uint8_t);
	FIELD("ibv_rx_hash_conf.rx_hash_key_len", struct ibv_rx_hash_conf, rx_hash_key_len, uint8_t);
	FIELD("ibv_rx_hash_conf.rx_hash_key", struct ibv_rx_hash_conf, rx_hash_key, uint8_t *);
	FIELD("ibv_rx_hash_conf.rx_hash_fields_mask", struct ibv_rx_hash_conf, rx_hash_fields_mask, uint64_t);
	STRUCT("ibv_qp_init_attr_ex", struct ibv_qp_init_attr_ex);
	FIELD("ibv_qp_init_attr_ex.qp_context", struct ibv_qp_init_attr_ex, qp_context, void *);
	FIELD("ibv_qp_init_attr_ex.send_cq", struct ibv_qp_init_attr_ex, send_cq, struct ibv_cq *);
	FIELD("ibv_qp_init_attr_ex.recv_cq", struct ibv_qp_init_attr_ex, recv_cq, struct ibv_cq *);
	FIELD("ibv_qp_init_attr_ex.srq", struct ibv_qp_init_attr_ex, srq, struct ibv_srq *);
	FIELD("ibv_qp_init_attr_ex.cap", struct ibv_qp_init_attr_ex, cap, struct ibv_qp_cap);
	FIELD("ibv_qp_init_attr_ex.qp_type", struct ibv_qp_init_attr_ex, qp_type, enum ibv_qp_type);
	FIELD("ibv_qp_init_attr_ex.sq_sig_all", struct ibv_qp_init_attr_ex, sq_sig_all, int);
	FIELD("ibv_qp_init_attr_ex.comp_mask", struct ibv_qp_init_attr_ex, comp_mask, uint32_t);
	FIELD("ibv_qp_init_attr_ex.pd", struct ibv_qp_init_attr_ex, pd, struct ibv_pd *);
	FIELD("ibv_qp_init_attr_ex.xrcd", struct ibv_qp_init_attr_ex, xrcd, struct ibv_xrcd *);
	FIELD("ibv_qp_init_attr_ex.create_flags", struct ibv_qp_init_attr_ex, create_flags, uint32_t);
	FIELD("ibv_qp_init_attr_ex.max_tso_header", struct ibv_qp_init_attr_ex, max_tso_header, uint16_t);
	FIELD("ibv_qp_init_attr_ex.rwq_ind_tbl", struct ibv_qp_init_attr_ex, rwq_ind_tbl, struct ibv_rwq_ind_table *);
	FIELD("ibv_qp_init_attr_ex.rx_hash_conf", struct ibv_qp_init_attr_ex, rx_hash_conf, struct ibv_rx_hash_conf);
	FIELD("ibv_qp_init_attr_ex.source_qpn", struct ibv_qp_init_attr_ex, source_qpn, uint32_t);
	FIELD("ibv_qp_init_attr_ex.send_ops_flags", struct ibv_qp_init_attr_ex, send_ops_flags, uint64_t);
	STRUCT("ibv_qp_open_attr", struct ibv_qp_open_attr);
	FIELD("ibv_qp_open_attr.comp_mask", struct ibv_qp_open_attr, comp_mask, uint32_t);
	FIELD("ibv_qp_open_attr.qp_num", struct ibv_qp_open_attr, qp_num, uint32_t);
	FIELD("ibv_qp_open_attr.xrcd", struct ibv_qp_open_attr, xrcd, struct ibv_xrcd *);
	FIELD("ibv_qp_open_attr.qp_context", struct ibv_qp_open_attr, qp_context, void *);
	FIELD("ibv_qp_open_attr.qp_type", struct ibv_qp_open_attr, qp_type, enum ibv_qp_type);
	STRUCT("ibv_qp_attr", struct ibv_qp_attr);
	FIELD("ibv_qp_attr.qp_state", struct ibv_qp_attr, qp_state, enum ibv_qp_state);
	FIELD("ibv_qp_attr.cur_qp_state", struct ibv_qp_attr, cur_qp_state, enum ibv_qp_state);
	FIELD("ibv_qp_attr.path_mtu", struct ibv_qp_attr, path_mtu, enum ibv_mtu);
	FIELD("ibv_qp_attr.path_mig_state", struct ibv_qp_attr, path_mig_state, enum ibv_mig_state);
	FIELD("ibv_qp_attr.qkey", struct ibv_qp_attr, qkey, uint32_t);
	FIELD("ibv_qp_attr.rq_psn", struct ibv_qp_attr, rq_psn, uint32_t);
	FIELD("ibv_qp_attr.sq_psn", struct ibv_qp_attr, sq_psn, uint32_t);
	FIELD("ibv_qp_attr.dest_qp_num", struct ibv_qp_attr, dest_qp_num, uint32_t);
	FIELD("ibv_qp_attr.qp_access_flags", struct ibv_qp_attr, qp_access_flags, unsigned int);
	FIELD("ibv_qp_attr.cap", struct ibv_qp_attr, cap, struct ibv_qp_cap);
	FIELD("ibv_qp_attr.ah_attr", struct ibv_qp_attr, ah_attr, struct ibv_ah_attr);
	FIELD("ibv_qp_attr.alt_ah_attr", struct ibv_qp_attr, alt_ah_attr, struct ibv_ah_attr);
	FIELD("ibv_qp_attr.pkey_index", struct ibv_qp_attr, pkey_index, uint16_t);
	FIELD("ibv_qp_attr.alt_pkey_index", struct ibv_qp_attr, alt_pkey_index, uint16_t);
	FIELD("ibv_qp_attr.en_sqd_async_notify", struct ibv_qp_attr, en_sqd_async_notify, uint8_t);
	FIELD("ibv_qp_attr.sq_draining", struct ibv_qp_attr, sq_draining, uint8_t);
	FIELD("ibv_qp_attr.max_rd_atomic", struct ibv_qp_attr, max_rd_atomic, uint8_t);
	FIELD("ibv_qp_attr.max_dest_rd_atomic", struct ibv_qp_attr, max_dest_rd_atomic, uint8_t);
	FIELD("ibv_qp_attr.min_rnr_timer", struct ibv_qp_attr, min_rnr_timer, uint8_t);
	FIELD("ibv_qp_attr.port_num", struct ibv_qp_attr, port_num, uint8_t);
	FIELD("ibv_qp_attr.timeout", struct ibv_qp_attr, timeout, uint8_t);
	FIELD("ibv_qp_attr.retry_cnt", struct ibv_qp_attr, retry_cnt, uint8_t);
	FIELD("ibv_qp_attr.rnr_retry", struct ibv_qp_attr, rnr_retry, uint8_t);
	FIELD("ibv_qp_attr.alt_port_num", struct ibv_qp_attr, alt_port_num, uint8_t);
	FIELD("ibv_qp_attr.alt_timeout", struct ibv_qp_attr, alt_timeout, uint8_t);
	FIELD("ibv_qp_attr.rate_limit", struct ibv_qp_attr, rate_limit, uint32_t);
	STRUCT("ibv_qp_rate_limit_attr", struct ibv_qp_rate_limit_attr);
	FIELD("ibv_qp_rate_limit_attr.rate_limit", struct ibv_qp_rate_limit_attr, rate_limit, uint32_t);
	FIELD("ibv_qp_rate_limit_attr.max_burst_sz", struct ibv_qp_rate_limit_attr, max_burst_sz, uint32_t);
	FIELD("ibv_qp_rate_limit_attr.typical_pkt_sz", struct ibv_qp_rate_limit_attr, typical_pkt_sz, uint16_t);
	FIELD("ibv_qp_rate_limit_attr.comp_mask", struct ibv_qp_rate_limit_attr, comp_mask, uint32_t);
	STRUCT("ibv_qp", struct ibv_qp);
	FIELD("ibv_qp.context", struct ibv_qp, context, struct ibv_context *);
	FIELD("ibv_qp.qp_context", struct ibv_qp, qp_context, void *);
	FIELD("ibv_qp.pd", struct ibv_qp, pd, struct ibv_pd *);
	FIELD("ibv_qp.send_cq", struct ibv_qp, send_cq, struct ibv_cq *);
	FIELD("ibv_qp.recv_cq", struct ibv_qp, recv_cq, struct ibv_cq *);
	FIELD("ibv_qp.srq", struct ibv_qp, srq, struct ibv_srq *);
	FIELD("ibv_qp.handle", struct ibv_qp, handle, uint32_t);
	FIELD("ibv_qp.qp_num", struct ibv_qp, qp_num, uint32_t);
	FIELD("ibv_qp.state", struct ibv_qp, state, enum ibv_qp_state);
	FIELD("ibv_qp.qp_type", struct ibv_qp, qp_type, enum ibv_qp_type);
	FIELD("ibv_qp.mutex", struct ibv_qp, mutex, pthread_mutex_t);
	FIELD("ibv_qp.cond", struct ibv_qp, cond, pthread_cond_t);
	FIELD("ibv_qp.events_completed", struct ibv_qp, events_completed, uint32_t);
	STRUCT("ibv_ece", struct ibv_ece);
	FIELD("ibv_ece.vendor_id", struct ibv_ece, vendor_id, uint32_t);
	FIELD("ibv_ece.options", struct ibv_ece, options, uint32_t);
	FIELD("ibv_ece.comp_mask", struct ibv_ece, comp_mask, uint32_t);
	STRUCT("ibv_qp_ex", struct ibv_qp_ex);
	FIELD("ibv_qp_ex.qp_base", struct ibv_qp_ex, qp_base, struct ibv_qp);
	FIELD("ibv_qp_ex.comp_mask", struct ibv_qp_ex, comp_mask, uint64_t);
	FIELD("ibv_qp_ex.wr_id", struct ibv_qp_ex, wr_id, uint64_t);
	FIELD("ibv_qp_ex.wr_flags", struct ibv_qp_ex, wr_flags, unsigned int);
	FIELD("ibv_qp_ex.wr_atomic_cmp_swp", struct ibv_qp_ex, wr_atomic_cmp_swp, __typeof__(void (*)(struct ibv_qp_ex *, uint32_t, uint64_t, uint64_t, uint64_t)));
	FIELD("ibv_qp_ex.wr_atomic_fetch_add", struct ibv_qp_ex, wr_atomic_fetch_add, __typeof__(void (*)(struct ibv_qp_ex *, uint32_t, uint64_t, uint64_t)));
	FIELD("ibv_qp_ex.wr_bind_mw", struct ibv_qp_ex, wr_bind_mw, __typeof__(void (*)(struct ibv_qp_ex *, struct ibv_mw *, uint32_t, struct ibv_mw_bind_info const *)));
	FIELD("ibv_qp_ex.wr_local_inv", struct ibv_qp_ex, wr_local_inv, __typeof__(void (*)(struct ibv_qp_ex *, uint32_t)));
	FIELD("ibv_qp_ex.wr_rdma_read", struct ibv_qp_ex, wr_rdma_read, __typeof__(void (*)(struct ibv_qp_ex *, uint32_t, uint64_t)));
	FIELD("ibv_qp_ex.wr_rdma_write", struct ibv_qp_ex, wr_rdma_write, __typeof__(void (*)(struct ibv_qp_ex *, uint32_t, uint64_t)));
	FIELD("ibv_qp_ex.wr_rdma_write_imm", struct ibv_qp_ex, wr_rdma_write_imm, __typeof__(void (*)(struct ibv_qp_ex *, uint32_t, uint64_t, __be32)));
	FIELD("ibv_qp_ex.wr_send", struct ibv_qp_ex, wr_send, __typeof__(void (*)(struct ibv_qp_ex *)));
	FIELD("ibv_qp_ex.wr_send_imm", struct ibv_qp_ex, wr_send_imm, __typeof__(void (*)(struct ibv_qp_ex *, __be32)));
	FIELD("ibv_qp_ex.wr_send_inv", struct ibv_qp_ex, wr_send_inv, __typeof__(void (*)(struct ibv_qp_ex *, uint32_t)));
	FIELD("ibv_qp_ex.wr_send_tso", struct ibv_qp_ex, wr_send_tso, __typeof__(void (*)(struct ibv_qp_ex *, void *, uint16_t, uint16_t)));
	FIELD("ibv_qp_ex.wr_set_ud_addr", struct ibv_qp_ex, wr_set_ud_addr, __typeof__(void (*)(struct ibv_qp_ex *, struct ibv_ah *, uint32_t, uint32_t)));
	FIELD("ibv_qp_ex.wr_set_xrc_srqn", struct ibv_qp_ex, wr_set_xrc_srqn, __typeof__(void (*)(struct ibv_qp_ex *, uint32_t)));
	FIELD("ibv_qp_ex.wr_set_inline_data", struct ibv_qp_ex, wr_set_inline_data, __typeof__(void (*)(struct ibv_qp_ex *, void *, size_t)));
	FIELD("ibv_qp_ex.wr_set_inline_data_list", struct ibv_qp_ex, wr_set_inline_data_list, __typeof__(void (*)(struct ibv_qp_ex *, size_t, struct ibv_data_buf const *)));
	FIELD("ibv_qp_ex.wr_set_sge", struct ibv_qp_ex, wr_set_sge, __typeof__(void (*)(struct ibv_qp_ex *, uint32_t, uint64_t, uint32_t)));
	FIELD("ibv_qp_ex.wr_set_sge_list", struct ibv_qp_ex, wr_set_sge_list, __typeof__(void (*)(struct ibv_qp_ex *, size_t, struct ibv_sge const *)));
	FIELD("ibv_qp_ex.wr_start", struct ibv_qp_ex, wr_start, __typeof__(void (*)(struct ibv_qp_ex *)));
	FIELD("ibv_qp_ex.wr_complete", struct ibv_qp_ex, wr_complete, __typeof__(int (*)(struct ibv_qp_ex *)));
	FIELD("ibv_qp_ex.wr_abort", struct ibv_qp_ex, wr_abort, __typeof__(void (*)(struct ibv_qp_ex *)));
	FIELD("ibv_qp_ex.wr_atomic_write", struct ibv_qp_ex, wr_atomic_write, __typeof__(void (*)(struct ibv_qp_ex *, uint32_t, uint64_t, void const *)));
#if RELEASE >= 56
	FIELD("ibv_qp_ex.wr_flush", struct ibv_qp_ex, wr_flush, __typeof__(void (*)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t)));
#endif
	STRUCT("ibv_flow_eth_filter", struct ibv_flow_eth_filter);
	FIELD("ibv_flow_eth_filter.dst_mac", struct ibv_flow_eth_filter, dst_mac, __typeof__(uint8_t[6]));
	FIELD("ibv_flow_eth_filter.src_mac", struct ibv_flow_eth_filter, src_mac, __typeof__(uint8_t[6]));
	FIELD("ibv_flow_eth_filter.ether_type", struct ibv_flow_eth_filter, ether_type, uint16_t);
	FIELD("ibv_flow_eth_filter.vlan_tag", struct ibv_flow_eth_filter, vlan_tag, uint16_t);
	STRUCT("ibv_flow_spec_eth", struct ibv_flow_spec_eth);
	FIELD("ibv_flow_spec_eth.type", struct ibv_flow_spec_eth, type, enum ibv_flow_spec_type);
	FIELD("ibv_flow_spec_eth.size", struct ibv_flow_spec_eth, size, uint16_t);
	FIELD("ibv_flow_spec_eth.val", struct ibv_flow_spec_eth, val, struct ibv_flow_eth_filter);
	FIELD("ibv_flow_spec_eth.mask", struct ibv_flow_spec_eth, mask, struct ibv_flow_eth_filter);
	STRUCT("ibv_flow_ipv4_filter", struct ibv_flow_ipv4_filter);
	FIELD("ibv_flow_ipv4_filter.src_ip", struct ibv_flow_ipv4_filter, src_ip, uint32_t);
	FIELD("ibv_flow_ipv4_filter.dst_ip", struct ibv_flow_ipv4_filter, dst_ip, uint32_t);
	STRUCT("ibv_flow_spec_ipv4", struct ibv_flow_spec_ipv4);
	FIELD("ibv_flow_spec_ipv4.type", struct ibv_flow_spec_ipv4, type, enum ibv_flow_spec_type);
	FIELD("ibv_flow_spec_ipv4.size", struct ibv_flow_spec_ipv4, size, uint16_t);
	FIELD("ibv_flow_spec_ipv4.val", struct ibv_flow_spec_ipv4, val, struct ibv_flow_ipv4_filter);
	FIELD("ibv_flow_spec_ipv4.mask", struct ibv_flow_spec_ipv4, mask, struct ibv_flow_ipv4_filter);
	STRUCT("ibv_flow_ipv4_ext_filter", struct ibv_flow_ipv4_ext_filter);
	FIELD("ibv_flow_ipv4_ext_filter.src_ip", struct ibv_flow_ipv4_ext_filter, src_ip, uint32_t);
	FIELD("ibv_flow_ipv4_ext_filter.dst_ip", struct ibv_flow_ipv4_ext_filter, dst_ip, uint32_t);
	FIELD("ibv_flow_ipv4_ext_filter.proto", struct ibv_flow_ipv4_ext_filter, proto, uint8_t);
	FIELD("ibv_flow_ipv4_ext_filter.tos", struct ibv_flow_ipv4_ext_filter, tos, uint8_t);
	FIELD("ibv_flow_ipv4_ext_filter.ttl", struct ibv_flow_ipv4_ext_filter, ttl, uint8_t);
	FIELD("ibv_flow_ipv4_ext_filter.flags", struct ibv_flow_ipv4_ext_filter, flags, uint8_t);
	STRUCT("ibv_flow_spec_ipv4_ext", struct ibv_flow_spec_ipv4_ext);
	FIELD("ibv_flow_spec_ipv4_ext.type", struct ibv_flow_spec_ipv4_ext, type, enum ibv_flow_spec_type);
	FIELD("ibv_flow_spec_ipv4_ext.size", struct ibv_flow_spec_ipv4_ext, size, uint16_t);
	FIELD("ibv_flow_spec_ipv4_ext.val", struct ibv_flow_spec_ipv4_ext, val, struct ibv_flow_ipv4_ext_filter);
	FIELD("ibv_flow_spec_ipv4_ext.mask", struct ibv_flow_spec_ipv4_ext, mask, struct ibv_flow_ipv4_ext_filter);
	STRUCT("ibv_flow_ipv6_filter", struct ibv_flow_ipv6_filter);
	FIELD("ibv_flow_ipv6_filter.src_ip", struct ibv_flow_ipv6_filter, src_ip, __typeof__(uint8_t[16]));
	FIELD("ibv_flow_ipv6_filter.dst_ip", struct ibv_flow_ipv6_filter, dst_ip, __typeof__(uint8_t[16]));
	FIELD("ibv_flow_ipv6_filter.flow_label", struct ibv_flow_ipv6_filter, flow_label, uint32_t);
	FIELD("ibv_flow_ipv6_filter.next_hdr", struct ibv_flow_ipv6_filter, next_hdr, uint8_t);
	FIELD("ibv_flow_ipv6_filter.traffic_class", struct ibv_flow_ipv6_filter, traffic_class, uint8_t);
	FIELD("ibv_flow_ipv6_filter.hop_limit", struct ibv_flow_ipv6_filter, hop_limit, uint8_t);
	STRUCT("ibv_flow_spec_ipv6", struct ibv_flow_spec_ipv6);
	FIELD("ibv_flow_spec_ipv6.type", struct ibv_flow_spec_ipv6, type, enum ibv_flow_spec_type);
	FIELD("ibv_flow_spec_ipv6.size", struct ibv_flow_spec_ipv6, size, uint16_t);
	FIELD("ibv_flow_spec_ipv6.val", struct ibv_flow_spec_ipv6, val, struct ibv_flow_ipv6_filter);
	FIELD("ibv_flow_spec_ipv6.mask", struct ibv_flow_spec_ipv6, mask, struct ibv_flow_ipv6_filter);
	STRUCT("ibv_flow_esp_filter", struct ibv_flow_esp_filter);
	FIELD("ibv_flow_esp_filter.spi", struct ibv_flow_esp_filter, spi, uint32_t);
	FIELD("ibv_flow_esp_filter.seq", struct ibv_flow_esp_filter, seq, uint32_t);
	STRUCT("ibv_flow_spec_esp", struct ibv_flow_spec_esp);
	FIELD("ibv_flow_spec_esp.type", struct ibv_flow_spec_esp, type, enum ibv_flow_spec_type);
	FIELD("ibv_flow_spec_esp.size", struct ibv_flow_spec_esp, size, uint16_t);
	FIELD("ibv_flow_spec_esp.val", struct ibv_flow_spec_esp, val, struct ibv_flow_esp_filter);
	FIELD("ibv_flow_spec_esp.mask", struct ibv_flow_spec_esp, mask, struct ibv_flow_esp_filter);
	STRUCT("ibv_flow_tcp_udp_filter", struct ibv_flow_tcp_udp_filter);
	FIELD("ibv_flow_tcp_udp_filter.dst_port", struct ibv_flow_tcp_udp_filter, dst_port, uint16_t);
	FIELD("ibv_flow_tcp_udp_filter.src_port", struct ibv_flow_tcp_udp_filter, src_port, uint16_t);
	STRUCT("ibv_flow_spec_tcp_udp", struct ibv_flow_spec_tcp_udp);
	FIELD("ibv_flow_spec_tcp_udp.type", struct ibv_flow_spec_tcp_udp, type, enum ibv_flow_spec_type);
	FIELD("ibv_flow_spec_tcp_udp.size", struct ibv_flow_spec_tcp_udp, size, uint16_t);
	FIELD("ibv_flow_spec_tcp_udp.val", struct ibv_flow_spec_tcp_udp, val, struct ibv_flow_tcp_udp_filter);
	FIELD("ibv_flow_spec_tcp_udp.mask", struct ibv_flow_spec_tcp_udp, mask, struct ibv_flow_tcp_udp_filter);
	STRUCT("ibv_flow_gre_filter", struct ibv_flow_gre_filter);
	FIELD("ibv_flow_gre_filter.c_ks_res0_ver", struct ibv_flow_gre_filter, c_ks_res0_ver, uint16_t);
	FIELD("ibv_flow_gre_filter.protocol", struct ibv_flow_gre_filter, protocol, uint16_t);
	FIELD("ibv_flow_gre_filter.key", struct ibv_flow_gre_filter, key, uint32_t);
	STRUCT("ibv_flow_spec_gre", struct ibv_flow_spec_gre);
	FIELD("ibv_flow_spec_gre.type", struct ibv_flow_spec_gre, type, enum ibv_flow_spec_type);
	FIELD("ibv_flow_spec_gre.size", struct ibv_flow_spec_gre, size, uint16_t);
	FIELD("ibv_flow_spec_gre.val", struct ibv_flow_spec_gre, val, struct ibv_flow_gre_filter);
	FIELD("ibv_flow_spec_gre.mask", struct ibv_flow_spec_gre, mask, struct ibv_flow_gre_filter);
	STRUCT("ibv_flow_mpls_filter", struct ibv_flow_mpls_filter);
	FIELD("ibv_flow_mpls_filter.label", struct ibv_flow_mpls_filter, label, uint32_t);
	STRUCT("ibv_flow_spec_mpls", struct ibv_flow_spec_mpls);
	FIELD("ibv_flow_spec_mpls.type", struct ibv_flow_spec_mpls, type, enum ibv_flow_spec_type);
	FIELD("ibv_flow_spec_mpls.size", struct ibv_flow_spec_mpls, size, uint16_t);
	FIELD("ibv_flow_spec_mpls.val", struct ibv_flow_spec_mpls, val, struct ibv_flow_mpls_filter);
	FIELD("ibv_flow_spec_mpls.mask", struct ibv_flow_spec_mpls, mask, struct ibv_flow_mpls_filter);
	STRUCT("ibv_flow_tunnel_filter", struct ibv_flow_tunnel_filter);
	FIELD("ibv_flow_tunnel_filter.tunnel_id", struct ibv_flow_tunnel_filter, tunnel_id, uint32_t);
	STRUCT("ibv_flow_spec_tunnel", struct ibv_flow_spec_tunnel);
	FIELD("ibv_flow_spec_tunnel.type", struct ibv_flow_spec_tunnel, type, enum ibv_flow_spec_type);
	FIELD("ibv_flow_spec_tunnel.size", struct ibv_flow_spec_tunnel, size, uint16_t);
	FIELD("ibv_flow_spec_tunnel.val", struct ibv_flow_spec_tunnel, val, struct ibv_flow_tunnel_filter);
	FIELD("ibv_flow_spec_tunnel.mask", struct ibv_flow_spec_tunnel, mask, struct ibv_flow_tunnel_filter);
	STRUCT("ibv_flow_spec_action_tag", struct ibv_flow_spec_action_tag);
	FIELD("ibv_flow_spec_action_tag.type", struct ibv_flow_spec_action_tag, type, enum ibv_flow_spec_type);
	FIELD("ibv_flow_spec_action_tag.size", struct ibv_flow_spec_action_tag, size, uint16_t);
	FIELD("ibv_flow_spec_action_tag.tag_id", struct ibv_flow_spec_action_tag, tag_id, uint32_t);
	STRUCT("ibv_flow_spec_action_drop", struct ibv_flow_spec_action_drop);
	FIELD("ibv_flow_spec_action_drop.type", struct ibv_flow_spec_action_drop, type, enum ibv_flow_spec_type);
	FIELD("ibv_flow_spec_action_drop.size", struct ibv_flow_spec_action_drop, size, uint16_t);
	STRUCT("ibv_flow_spec_action_handle", struct ibv_flow_spec_action_handle);
	FIELD("ibv_flow_spec_action_handle.type", struct ibv_flow_spec_action_handle, type, enum ibv_flow_spec_type);
	FIELD("ibv_flow_spec_action_handle.size", struct ibv_flow_spec_action_handle, size, uint16_t);
	FIELD("ibv_flow_spec_action_handle.action", struct ibv_flow_spec_action_handle, action, struct ibv_flow_action const *);
	STRUCT("ibv_flow_spec_counter_action", struct ibv_flow_spec_counter_action);
	FIELD("ibv_flow_spec_counter_action.type", struct ibv_flow_spec_counter_action, type, enum ibv_flow_spec_type);
	FIELD("ibv_flow_spec_counter_action.size", struct ibv_flow_spec_counter_action, size, uint16_t);
	FIELD("ibv_flow_spec_counter_action.counters", struct ibv_flow_spec_counter_action, counters, struct ibv_counters *);
	STRUCT("ibv_flow_spec.hdr", __typeof__(((struct ibv_flow_spec *)0)->hdr));
	FIELD("ibv_flow_spec.hdr.type", __typeof__(((struct ibv_flow_spec *)0)->hdr), type, enum ibv_flow_spec_type);
	FIELD("ibv_flow_spec.hdr.size", __typeof__(((struct ibv_flow_spec *)0)->hdr), size, uint16_t);
	STRUCT("ibv_flow_spec", struct ibv_flow_spec);
	FIELD("ibv_flow_spec.hdr", struct ibv_flow_spec, hdr, __typeof__(((struct ibv_flow_spec *)0)->hdr));
	FIELD("ibv_flow_spec.eth", struct ibv_flow_spec, eth, struct ibv_flow_spec_eth);
	FIELD("ibv_flow_spec.ipv4", struct ibv_flow_spec, ipv4, struct ibv_flow_spec_ipv4);
	FIELD("ibv_flow_spec.tcp_udp", struct ibv_flow_spec, tcp_udp, struct ibv_flow_spec_tcp_udp);
	FIELD("ibv_flow_spec.ipv4_ext", struct ibv_flow_spec, ipv4_ext, struct ibv_flow_spec_ipv4_ext);
	FIELD("ibv_flow_spec.ipv6", struct ibv_flow_spec, ipv6, struct ibv_flow_spec_ipv6);
	FIELD("ibv_flow_spec.esp", struct ibv_flow_spec, esp, struct ibv_flow_spec_esp);
	FIELD("ibv_flow_spec.tunnel", struct ibv_flow_spec, tunnel, struct ibv_flow_spec_tunnel);
	FIELD("ibv_flow_spec.gre", struct ibv_flow_spec, gre, struct ibv_flow_spec_gre);
	FIELD("ibv_flow_spec.mpls", struct ibv_flow_spec, mpls, struct ibv_flow_spec_mpls);
	FIELD("ibv_flow_spec.flow_tag", struct ibv_flow_spec, flow_tag, struct ibv_flow_spec_action_tag);
	FIELD("ibv_flow_spec.drop", struct ibv_flow_spec, drop, struct ibv_flow_spec_action_drop);
	FIELD("ibv_flow_spec.handle", struct ibv_flow_spec, handle, struct ibv_flow_spec_action_handle);
	FIELD("ibv_flow_spec.flow_count", struct ibv_flow_spec, flow_count, struct ibv_flow_spec_counter_action);
	STRUCT("ibv_flow_attr", struct ibv_flow_attr);
	FIELD("ibv_flow_attr.comp_mask", struct ibv_flow_attr, comp_mask, uint32_t);
	FIELD("ibv_flow_attr.type", struct ibv_flow_attr, type, enum ibv_flow_attr_type);
	FIELD("ibv_flow_attr.size", struct ibv_flow_attr, size, uint16_t);
	FIELD("ibv_flow_attr.priority", struct ibv_flow_attr, priority, uint16_t);
	FIELD("ibv_flow_attr.num_of_specs", struct ibv_flow_attr, num_of_specs, uint8_t);
	FIELD("ibv_flow_attr.port", struct ibv_flow_attr, port, uint8_t);
	FIELD("ibv_flow_attr.flags", struct ibv_flow_attr, flags, uint32_t);
	STRUCT("ibv_flow", struct ibv_flow);
	FIELD("ibv_flow.comp_mask", struct ibv_flow, comp_mask, uint32_t);
	FIELD("ibv_flow.context", struct ibv_flow, context, struct ibv_context *);
	FIELD("ibv_flow.handle", struct ibv_flow, handle, uint32_t);
	STRUCT("ibv_flow_action", struct ibv_flow_action);
	FIELD("ibv_flow_action.context", struct ibv_flow_action, context, struct ibv_context *);
	STRUCT("ibv_flow_action_esp_keymat_aes_gcm", struct ibv_flow_action_esp_keymat_aes_gcm);
	FIELD("ibv_flow_action_esp_keymat_aes_gcm.iv", struct ibv_flow_action_esp_keymat_aes_gcm, iv, __aligned_u64);
	FIELD("ibv_flow_action_esp_keymat_aes_gcm.iv_algo", struct ibv_flow_action_esp_keymat_aes_gcm, iv_algo, uint32_t);
	FIELD("ibv_flow_action_esp_keymat_aes_gcm.salt", struct ibv_flow_action_esp_keymat_aes_gcm, salt, uint32_t);
	FIELD("ibv_flow_action_esp_keymat_aes_gcm.icv_len", struct ibv_flow_action_esp_keymat_aes_gcm, icv_len, uint32_t);
	FIELD("ibv_flow_action_esp_keymat_aes_gcm.key_len", struct ibv_flow_action_esp_keymat_aes_gcm, key_len, uint32_t);
	FIELD("ibv_flow_action_esp_keymat_aes_gcm.aes_key", struct ibv_flow_action_esp_keymat_aes_gcm, aes_key, __typeof__(uint32_t[8]));
	STRUCT("ibv_flow_action_esp_replay_bmp", struct ibv_flow_action_esp_replay_bmp);
	FIELD("ibv_flow_action_esp_replay_bmp.size", struct ibv_flow_action_esp_replay_bmp, size, uint32_t);
	STRUCT("ibv_flow_action_esp_encap", struct ibv_flow_action_esp_encap);
	FIELD("ibv_flow_action_esp_encap.val_ptr", struct ibv_flow_action_esp_encap, val_ptr, void *);
	FIELD("ibv_flow_action_esp_encap.next_ptr", struct ibv_flow_action_esp_encap, next_ptr, struct ibv_flow_action_esp_encap *);
	FIELD("ibv_flow_action_esp_encap.len", struct ibv_flow_action_esp_encap, len, uint16_t);
	FIELD("ibv_flow_action_esp_encap.type", struct ibv_flow_action_esp_encap, type, uint16_t);
	STRUCT("ibv_flow_action_esp", struct ibv_flow_action_esp);
	FIELD("ibv_flow_action_esp.spi", struct ibv_flow_action_esp, spi, uint32_t);
	FIELD("ibv_flow_action_esp.seq", struct ibv_flow_action_esp, seq, uint32_t);
	FIELD("ibv_flow_action_esp.tfc_pad", struct ibv_flow_action_esp, tfc_pad, uint32_t);
	FIELD("ibv_flow_action_esp.flags", struct ibv_flow_action_esp, flags, uint32_t);
	FIELD("ibv_flow_action_esp.hard_limit_pkts", struct ibv_flow_action_esp, hard_limit_pkts, __aligned_u64);
	STRUCT("ibv_flow_action_esp_attr", struct ibv_flow_action_esp_attr);
	FIELD("ibv_flow_action_esp_attr.esp_attr", struct ibv_flow_action_esp_attr, esp_attr, struct ibv_flow_action_esp *);
	FIELD("ibv_flow_action_esp_attr.keymat_proto", struct ibv_flow_action_esp_attr, keymat_proto, enum ibv_flow_action_esp_keymat);
	FIELD("ibv_flow_action_esp_attr.keymat_len", struct ibv_flow_action_esp_attr, keymat_len, uint16_t);
	FIELD("ibv_flow_action_esp_attr.keymat_ptr", struct ibv_flow_action_esp_attr, keymat_ptr, void *);
	FIELD("ibv_flow_action_esp_attr.replay_proto", struct ibv_flow_action_esp_attr, replay_proto, enum ibv_flow_action_esp_replay);
	FIELD("ibv_flow_action_esp_attr.replay_len", struct ibv_flow_action_esp_attr, replay_len, uint16_t);
	FIELD("ibv_flow_action_esp_attr.replay_ptr", struct ibv_flow_action_esp_attr, replay_ptr, void *);
	FIELD("ibv_flow_action_esp_attr.esp_encap", struct ibv_flow_action_esp_attr, esp_encap, struct ibv_flow_action_esp_encap *);
	FIELD("ibv_flow_action_esp_attr.comp_mask", struct ibv_flow_action_esp_attr, comp_mask, uint32_t);
	FIELD("ibv_flow_action_esp_attr.esn", struct ibv_flow_action_esp_attr, esn, uint32_t);
	STRUCT("ibv_counters_init_attr", struct ibv_counters_init_attr);
	FIELD("ibv_counters_init_attr.comp_mask", struct ibv_counters_init_attr, comp_mask, uint32_t);
	STRUCT("ibv_counters", struct ibv_counters);
	FIELD("ibv_counters.context", struct ibv_counters, context, struct ibv_context *);
	STRUCT("ibv_counter_attach_attr", struct ibv_counter_attach_attr);
	FIELD("ibv_counter_attach_attr.counter_desc", struct ibv_counter_attach_attr, counter_desc, enum ibv_counter_description);
	FIELD("ibv_counter_attach_attr.index", struct ibv_counter_attach_attr, index, uint32_t);
	FIELD("ibv_counter_attach_attr.comp_mask", struct ibv_counter_attach_attr, comp_mask, uint32_t);
#if RELEASE >= 65
	STRUCT("ibv_comp_cntr_caps", struct ibv_comp_cntr_caps);
#endif
#if RELEASE >= 65
	FIELD("ibv_comp_cntr_caps.max_value", struct ibv_comp_cntr_caps, max_value, uint64_t);
#endif
#if RELEASE >= 65
	FIELD("ibv_comp_cntr_caps.max_counters", struct ibv_comp_cntr_caps, max_counters, uint32_t);
#endif
#if RELEASE >= 65
	FIELD("ibv_comp_cntr_caps.supported_qp_attach_ops", struct ibv_comp_cntr_caps, supported_qp_attach_ops, uint32_t);
#endif
#if RELEASE >= 65
	STRUCT("ibv_comp_cntr", struct ibv_comp_cntr);
#endif
#if RELEASE >= 65
	FIELD("ibv_comp_cntr.context", struct ibv_comp_cntr, context, struct ibv_context *);
#endif
#if RELEASE >= 65
	FIELD("ibv_comp_cntr.handle", struct ibv_comp_cntr, handle, uint32_t);
#endif
#if RELEASE >= 65
	STRUCT("ibv_comp_cntr_init_attr", struct ibv_comp_cntr_init_attr);
#endif
#if RELEASE >= 65
	FIELD("ibv_comp_cntr_init_attr.comp_mask", struct ibv_comp_cntr_init_attr, comp_mask, uint32_t);
#endif
#if RELEASE >= 65
	FIELD("ibv_comp_cntr_init_attr.type", struct ibv_comp_cntr_init_attr, type, enum ibv_comp_cntr_type);
#endif
#if RELEASE >= 65
	FIELD("ibv_comp_cntr_init_attr.flags", struct ibv_comp_cntr_init_attr, flags, uint32_t);
#endif
#if RELEASE >= 65
	STRUCT("ibv_qp_attach_comp_cntr_attr", struct ibv_qp_attach_comp_cntr_attr);
#endif
#if RELEASE >= 65
	FIELD("ibv_qp_attach_comp_cntr_attr.comp_mask", struct ibv_qp_attach_comp_cntr_attr, comp_mask, uint32_t);
#endif
#if RELEASE >= 65
	FIELD("ibv_qp_attach_comp_cntr_attr.op_mask", struct ibv_qp_attach_comp_cntr_attr, op_mask, uint32_t);
#endif
	STRUCT("ibv_context_ops", struct ibv_context_ops);
	FIELD("ibv_context_ops._compat_query_device", struct ibv_context_ops, _compat_query_device, __typeof__(int (*)(struct ibv_context *, struct ibv_device_attr *)));
	FIELD("ibv_context_ops._compat_query_port", struct ibv_context_ops, _compat_query_port, __typeof__(int (*)(struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *)));
	FIELD("ibv_context_ops._compat_alloc_pd", struct ibv_context_ops, _compat_alloc_pd, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_dealloc_pd", struct ibv_context_ops, _compat_dealloc_pd, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_reg_mr", struct ibv_context_ops, _compat_reg_mr, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_rereg_mr", struct ibv_context_ops, _compat_rereg_mr, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_dereg_mr", struct ibv_context_ops, _compat_dereg_mr, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops.alloc_mw", struct ibv_context_ops, alloc_mw, __typeof__(struct ibv_mw * (*)(struct ibv_pd *, enum ibv_mw_type)));
	FIELD("ibv_context_ops.bind_mw", struct ibv_context_ops, bind_mw, __typeof__(int (*)(struct ibv_qp *, struct ibv_mw *, struct ibv_mw_bind *)));
	FIELD("ibv_context_ops.dealloc_mw", struct ibv_context_ops, dealloc_mw, __typeof__(int (*)(struct ibv_mw *)));
	FIELD("ibv_context_ops._compat_create_cq", struct ibv_context_ops, _compat_create_cq, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops.poll_cq", struct ibv_context_ops, poll_cq, __typeof__(int (*)(struct ibv_cq *, int, struct ibv_wc *)));
	FIELD("ibv_context_ops.req_notify_cq", struct ibv_context_ops, req_notify_cq, __typeof__(int (*)(struct ibv_cq *, int)));
	FIELD("ibv_context_ops._compat_cq_event", struct ibv_context_ops, _compat_cq_event, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_resize_cq", struct ibv_context_ops, _compat_resize_cq, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_destroy_cq", struct ibv_context_ops, _compat_destroy_cq, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_create_srq", struct ibv_context_ops, _compat_create_srq, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_modify_srq", struct ibv_context_ops, _compat_modify_srq, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_query_srq", struct ibv_context_ops, _compat_query_srq, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_destroy_srq", struct ibv_context_ops, _compat_destroy_srq, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops.post_srq_recv", struct ibv_context_ops, post_srq_recv, __typeof__(int (*)(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr * *)));
	FIELD("ibv_context_ops._compat_create_qp", struct ibv_context_ops, _compat_create_qp, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_query_qp", struct ibv_context_ops, _compat_query_qp, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_modify_qp", struct ibv_context_ops, _compat_modify_qp, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_destroy_qp", struct ibv_context_ops, _compat_destroy_qp, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops.post_send", struct ibv_context_ops, post_send, __typeof__(int (*)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr * *)));
	FIELD("ibv_context_ops.post_recv", struct ibv_context_ops, post_recv, __typeof__(int (*)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr * *)));
	FIELD("ibv_context_ops._compat_create_ah", struct ibv_context_ops, _compat_create_ah, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_destroy_ah", struct ibv_context_ops, _compat_destroy_ah, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_attach_mcast", struct ibv_context_ops, _compat_attach_mcast, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_detach_mcast", struct ibv_context_ops, _compat_detach_mcast, __typeof__(void * (*)(void)));
	FIELD("ibv_context_ops._compat_async_event", struct ibv_context_ops, _compat_async_event, __typeof__(void * (*)(void)));
	STRUCT("ibv_context", struct ibv_context);
	FIELD("ibv_context.device", struct ibv_context, device, struct ibv_device *);
	FIELD("ibv_context.ops", struct ibv_context, ops, struct ibv_context_ops);
	FIELD("ibv_context.cmd_fd", struct ibv_context, cmd_fd, int);
	FIELD("ibv_context.async_fd", struct ibv_context, async_fd, int);
	FIELD("ibv_context.num_comp_vectors", struct ibv_context, num_comp_vectors, int);
	FIELD("ibv_context.mutex", struct ibv_context, mutex, pthread_mutex_t);
	FIELD("ibv_context.abi_compat", struct ibv_context, abi_compat, void *);
	STRUCT("ibv_values_ex", struct ibv_values_ex);
	FIELD("ibv_values_ex.comp_mask", struct ibv_values_ex, comp_mask, uint32_t);
	FIELD("ibv_values_ex.raw_clock", struct ibv_values_ex, raw_clock, struct timespec);
	STRUCT("verbs_context", struct verbs_context);
#if RELEASE >= 65
	FIELD("verbs_context.free_buf", struct verbs_context, free_buf, __typeof__(void (*)(struct ibv_buf *)));
#endif
#if RELEASE >= 65
	FIELD("verbs_context.alloc_buf", struct verbs_context, alloc_buf, __typeof__(void * (*)(struct ibv_pd *, size_t, struct ibv_buf * *)));
#endif
#if RELEASE >= 65
	FIELD("verbs_context.dm_export_dmabuf_fd", struct verbs_context, dm_export_dmabuf_fd, __typeof__(int (*)(struct ibv_dm *)));
#endif
#if RELEASE >= 65
	FIELD("verbs_context.reg_mr_ex", struct verbs_context, reg_mr_ex, __typeof__(struct ibv_mr * (*)(struct ibv_pd *, struct ibv_mr_init_attr *)));
#endif
#if RELEASE >= 65
	FIELD("verbs_context.dealloc_dmah", struct verbs_context, dealloc_dmah, __typeof__(int (*)(struct ibv_dmah *)));
#endif
#if RELEASE >= 65
	FIELD("verbs_context.alloc_dmah", struct verbs_context, alloc_dmah, __typeof__(struct ibv_dmah * (*)(struct ibv_context *, struct ibv_dmah_init_attr *)));
#endif
	FIELD("verbs_context.query_port", struct verbs_context, query_port, __typeof__(int (*)(struct ibv_context *, uint8_t, struct ibv_port_attr *, size_t)));
	FIELD("verbs_context.advise_mr", struct verbs_context, advise_mr, __typeof__(int (*)(struct ibv_pd *, enum ibv_advise_mr_advice, uint32_t, struct ibv_sge *, uint32_t)));
	FIELD("verbs_context.alloc_null_mr", struct verbs_context, alloc_null_mr, __typeof__(struct ibv_mr * (*)(struct ibv_pd *)));
	FIELD("verbs_context.read_counters", struct verbs_context, read_counters, __typeof__(int (*)(struct ibv_counters *, uint64_t *, uint32_t, uint32_t)));
	FIELD("verbs_context.attach_counters_point_flow", struct verbs_context, attach_counters_point_flow, __typeof__(int (*)(struct ibv_counters *, struct ibv_counter_attach_attr *, struct ibv_flow *)));
	FIELD("verbs_context.create_counters", struct verbs_context, create_counters, __typeof__(struct ibv_counters * (*)(struct ibv_context *, struct ibv_counters_init_attr *)));
	FIELD("verbs_context.destroy_counters", struct verbs_context, destroy_counters, __typeof__(int (*)(struct ibv_counters *)));
	FIELD("verbs_context.reg_dm_mr", struct verbs_context, reg_dm_mr, __typeof__(struct ibv_mr * (*)(struct ibv_pd *, struct ibv_dm *, uint64_t, size_t, unsigned int)));
	FIELD("verbs_context.alloc_dm", struct verbs_context, alloc_dm, __typeof__(struct ibv_dm * (*)(struct ibv_context *, struct ibv_alloc_dm_attr *)));
	FIELD("verbs_context.free_dm", struct verbs_context, free_dm, __typeof__(int (*)(struct ibv_dm *)));
	FIELD("verbs_context.modify_flow_action_esp", struct verbs_context, modify_flow_action_esp, __typeof__(int (*)(struct ibv_flow_action *, struct ibv_flow_action_esp_attr *)));
	FIELD("verbs_context.destroy_flow_action", struct verbs_context, destroy_flow_action, __typeof__(int (*)(struct ibv_flow_action *)));
	FIELD("verbs_context.create_flow_action_esp", struct verbs_context, create_flow_action_esp, __typeof__(struct ibv_flow_action * (*)(struct ibv_context *, struct ibv_flow_action_esp_attr *)));
	FIELD("verbs_context.modify_qp_rate_limit", struct verbs_context, modify_qp_rate_limit, __typeof__(int (*)(struct ibv_qp *, struct ibv_qp_rate_limit_attr *)));
	FIELD("verbs_context.alloc_parent_domain", struct verbs_context, alloc_parent_domain, __typeof__(struct ibv_pd * (*)(struct ibv_context *, struct ibv_parent_domain_init_attr *)));
	FIELD("verbs_context.dealloc_td", struct verbs_context, dealloc_td, __typeof__(int (*)(struct ibv_td *)));
	FIELD("verbs_context.alloc_td", struct verbs_context, alloc_td, __typeof__(struct ibv_td * (*)(struct ibv_context *, struct ibv_td_init_attr *)));
	FIELD("verbs_context.modify_cq", struct verbs_context, modify_cq, __typeof__(int (*)(struct ibv_cq *, struct ibv_modify_cq_attr *)));
	FIELD("verbs_context.post_srq_ops", struct verbs_context, post_srq_ops, __typeof__(int (*)(struct ibv_srq *, struct ibv_ops_wr *, struct ibv_ops_wr * *)));
	FIELD("verbs_context.destroy_rwq_ind_table", struct verbs_context, destroy_rwq_ind_table, __typeof__(int (*)(struct ibv_rwq_ind_table *)));
	FIELD("verbs_context.create_rwq_ind_table", struct verbs_context, create_rwq_ind_table, __typeof__(struct ibv_rwq_ind_table * (*)(struct ibv_context *, struct ibv_rwq_ind_table_init_attr *)));
	FIELD("verbs_context.destroy_wq", struct verbs_context, destroy_wq, __typeof__(int (*)(struct ibv_wq *)));
	FIELD("verbs_context.modify_wq", struct verbs_context, modify_wq, __typeof__(int (*)(struct ibv_wq *, struct ibv_wq_attr *)));
	FIELD("verbs_context.create_wq", struct verbs_context, create_wq, __typeof__(struct ibv_wq * (*)(struct ibv_context *, struct ibv_wq_init_attr *)));
	FIELD("verbs_context.query_rt_values", struct verbs_context, query_rt_values, __typeof__(int (*)(struct ibv_context *, struct ibv_values_ex *)));
	FIELD("verbs_context.create_cq_ex", struct verbs_context, create_cq_ex, __typeof__(struct ibv_cq_ex * (*)(struct ibv_context *, struct ibv_cq_init_attr_ex *)));
	FIELD("verbs_context.priv", struct verbs_context, priv, struct verbs_ex_private *);
	FIELD("verbs_context.query_device_ex", struct verbs_context, query_device_ex, __typeof__(int (*)(struct ibv_context *, struct ibv_query_device_ex_input const *, struct ibv_device_attr_ex *, size_t)));
	FIELD("verbs_context.ibv_destroy_flow", struct verbs_context, ibv_destroy_flow, __typeof__(int (*)(struct ibv_flow *)));
	FIELD("verbs_context.ABI_placeholder2", struct verbs_context, ABI_placeholder2, __typeof__(void (*)(void)));
	FIELD("verbs_context.ibv_create_flow", struct verbs_context, ibv_create_flow, __typeof__(struct ibv_flow * (*)(struct ibv_qp *, struct ibv_flow_attr *)));
	FIELD("verbs_context.ABI_placeholder1", struct verbs_context, ABI_placeholder1, __typeof__(void (*)(void)));
	FIELD("verbs_context.open_qp", struct verbs_context, open_qp, __typeof__(struct ibv_qp * (*)(struct ibv_context *, struct ibv_qp_open_attr *)));
	FIELD("verbs_context.create_qp_ex", struct verbs_context, create_qp_ex, __typeof__(struct ibv_qp * (*)(struct ibv_context *, struct ibv_qp_init_attr_ex *)));
	FIELD("verbs_context.get_srq_num", struct verbs_context, get_srq_num, __typeof__(int (*)(struct ibv_srq *, uint32_t *)));
	FIELD("verbs_context.create_srq_ex", struct verbs_context, create_srq_ex, __typeof__(struct ibv_srq * (*)(struct ibv_context *, struct ibv_srq_init_attr_ex *)));
	FIELD("verbs_context.open_xrcd", struct verbs_context, open_xrcd, __typeof__(struct ibv_xrcd * (*)(struct ibv_context *, struct ibv_xrcd_init_attr *)));
	FIELD("verbs_context.close_xrcd", struct verbs_context, close_xrcd, __typeof__(int (*)(struct ibv_xrcd *)));
	FIELD("verbs_context._ABI_placeholder3", struct verbs_context, _ABI_placeholder3, uint64_t);
	FIELD("verbs_context.sz", struct verbs_context, sz, size_t);
	FIELD("verbs_context.context", struct verbs_context, context, struct ibv_context);
	STRUCT("ibv_tmh", struct ibv_tmh);
	FIELD("ibv_tmh.opcode", struct ibv_tmh, opcode, uint8_t);
	FIELD("ibv_tmh.reserved", struct ibv_tmh, reserved, __typeof__(uint8_t[3]));
	FIELD("ibv_tmh.app_ctx", struct ibv_tmh, app_ctx, __be32);
	FIELD("ibv_tmh.tag", struct ibv_tmh, tag, __be64);
	STRUCT("ibv_rvh", struct ibv_rvh);
	FIELD("ibv_rvh.va", struct ibv_rvh, va, __be64);
	FIELD("ibv_rvh.rkey", struct ibv_rvh, rkey, __be32);
	FIELD("ibv_rvh.len", struct ibv_rvh, len, __be32);
	STRUCT("ibv_sa_path_rec", struct ibv_sa_path_rec);
	FIELD("ibv_sa_path_rec.dgid", struct ibv_sa_path_rec, dgid, union ibv_gid);
	FIELD("ibv_sa_path_rec.sgid", struct ibv_sa_path_rec, sgid, union ibv_gid);
	FIELD("ibv_sa_path_rec.dlid", struct ibv_sa_path_rec, dlid, __be16);
	FIELD("ibv_sa_path_rec.slid", struct ibv_sa_path_rec, slid, __be16);
	FIELD("ibv_sa_path_rec.raw_traffic", struct ibv_sa_path_rec, raw_traffic, int);
	FIELD("ibv_sa_path_rec.flow_label", struct ibv_sa_path_rec, flow_label, __be32);
	FIELD("ibv_sa_path_rec.hop_limit", struct ibv_sa_path_rec, hop_limit, uint8_t);
	FIELD("ibv_sa_path_rec.traffic_class", struct ibv_sa_path_rec, traffic_class, uint8_t);
	FIELD("ibv_sa_path_rec.reversible", struct ibv_sa_path_rec, reversible, int);
	FIELD("ibv_sa_path_rec.numb_path", struct ibv_sa_path_rec, numb_path, uint8_t);
	FIELD("ibv_sa_path_rec.pkey", struct ibv_sa_path_rec, pkey, __be16);
	FIELD("ibv_sa_path_rec.sl", struct ibv_sa_path_rec, sl, uint8_t);
	FIELD("ibv_sa_path_rec.mtu_selector", struct ibv_sa_path_rec, mtu_selector, uint8_t);
	FIELD("ibv_sa_path_rec.mtu", struct ibv_sa_path_rec, mtu, uint8_t);
	FIELD("ibv_sa_path_rec.rate_selector", struct ibv_sa_path_rec, rate_selector, uint8_t);
	FIELD("ibv_sa_path_rec.rate", struct ibv_sa_path_rec, rate, uint8_t);
	FIELD("ibv_sa_path_rec.packet_life_time_selector", struct ibv_sa_path_rec, packet_life_time_selector, uint8_t);
	FIELD("ibv_sa_path_rec.packet_life_time", struct ibv_sa_path_rec, packet_life_time, uint8_t);
	FIELD("ibv_sa_path_rec.preference", struct ibv_sa_path_rec, preference, uint8_t);
	STRUCT("ibv_sa_mcmember_rec", struct ibv_sa_mcmember_rec);
	FIELD("ibv_sa_mcmember_rec.mgid", struct ibv_sa_mcmember_rec, mgid, union ibv_gid);
	FIELD("ibv_sa_mcmember_rec.port_gid", struct ibv_sa_mcmember_rec, port_gid, union ibv_gid);
	FIELD("ibv_sa_mcmember_rec.qkey", struct ibv_sa_mcmember_rec, qkey, uint32_t);
	FIELD("ibv_sa_mcmember_rec.mlid", struct ibv_sa_mcmember_rec, mlid, uint16_t);
	FIELD("ibv_sa_mcmember_rec.mtu_selector", struct ibv_sa_mcmember_rec, mtu_selector, uint8_t);
	FIELD("ibv_sa_mcmember_rec.mtu", struct ibv_sa_mcmember_rec, mtu, uint8_t);
	FIELD("ibv_sa_mcmember_rec.traffic_class", struct ibv_sa_mcmember_rec, traffic_class, uint8_t);
	FIELD("ibv_sa_mcmember_rec.pkey", struct ibv_sa_mcmember_rec, pkey, uint16_t);
	FIELD("ibv_sa_mcmember_rec.rate_selector", struct ibv_sa_mcmember_rec, rate_selector, uint8_t);
	FIELD("ibv_sa_mcmember_rec.rate", struct ibv_sa_mcmember_rec, rate, uint8_t);
	FIELD("ibv_sa_mcmember_rec.packet_life_time_selector", struct ibv_sa_mcmember_rec, packet_life_time_selector, uint8_t);
	FIELD("ibv_sa_mcmember_rec.packet_life_time", struct ibv_sa_mcmember_rec, packet_life_time, uint8_t);
	FIELD("ibv_sa_mcmember_rec.sl", struct ibv_sa_mcmember_rec, sl, uint8_t);
	FIELD("ibv_sa_mcmember_rec.flow_label", struct ibv_sa_mcmember_rec, flow_label, uint32_t);
	FIELD("ibv_sa_mcmember_rec.hop_limit", struct ibv_sa_mcmember_rec, hop_limit, uint8_t);
	FIELD("ibv_sa_mcmember_rec.scope", struct ibv_sa_mcmember_rec, scope, uint8_t);
	FIELD("ibv_sa_mcmember_rec.join_state", struct ibv_sa_mcmember_rec, join_state, uint8_t);
	FIELD("ibv_sa_mcmember_rec.proxy_join", struct ibv_sa_mcmember_rec, proxy_join, int);
	STRUCT("ibv_sa_service_rec", struct ibv_sa_service_rec);
	FIELD("ibv_sa_service_rec.id", struct ibv_sa_service_rec, id, uint64_t);
	FIELD("ibv_sa_service_rec.gid", struct ibv_sa_service_rec, gid, union ibv_gid);
	FIELD("ibv_sa_service_rec.pkey", struct ibv_sa_service_rec, pkey, uint16_t);
	FIELD("ibv_sa_service_rec.lease", struct ibv_sa_service_rec, lease, uint32_t);
	FIELD("ibv_sa_service_rec.key", struct ibv_sa_service_rec, key, __typeof__(uint8_t[16]));
	FIELD("ibv_sa_service_rec.name", struct ibv_sa_service_rec, name, __typeof__(uint8_t[64]));
	FIELD("ibv_sa_service_rec.data8", struct ibv_sa_service_rec, data8, __typeof__(uint8_t[16]));
	FIELD("ibv_sa_service_rec.data16", struct ibv_sa_service_rec, data16, __typeof__(uint16_t[8]));
	FIELD("ibv_sa_service_rec.data32", struct ibv_sa_service_rec, data32, __typeof__(uint32_t[4]));
	FIELD("ibv_sa_service_rec.data64", struct ibv_sa_service_rec, data64, __typeof__(uint64_t[2]));
	STRUCT("ibv_path_record", struct ibv_path_record);
	FIELD("ibv_path_record.service_id", struct ibv_path_record, service_id, __be64);
	FIELD("ibv_path_record.dgid", struct ibv_path_record, dgid, union ibv_gid);
	FIELD("ibv_path_record.sgid", struct ibv_path_record, sgid, union ibv_gid);
	FIELD("ibv_path_record.dlid", struct ibv_path_record, dlid, __be16);
	FIELD("ibv_path_record.slid", struct ibv_path_record, slid, __be16);
	FIELD("ibv_path_record.flowlabel_hoplimit", struct ibv_path_record, flowlabel_hoplimit, __be32);
	FIELD("ibv_path_record.tclass", struct ibv_path_record, tclass, uint8_t);
	FIELD("ibv_path_record.reversible_numpath", struct ibv_path_record, reversible_numpath, uint8_t);
	FIELD("ibv_path_record.pkey", struct ibv_path_record, pkey, __be16);
	FIELD("ibv_path_record.qosclass_sl", struct ibv_path_record, qosclass_sl, __be16);
	FIELD("ibv_path_record.mtu", struct ibv_path_record, mtu, uint8_t);
	FIELD("ibv_path_record.rate", struct ibv_path_record, rate, uint8_t);
	FIELD("ibv_path_record.packetlifetime", struct ibv_path_record, packetlifetime, uint8_t);
	FIELD("ibv_path_record.preference", struct ibv_path_record, preference, uint8_t);
	FIELD("ibv_path_record.reserved", struct ibv_path_record, reserved, __typeof__(uint8_t[6]));
	STRUCT("ibv_path_data", struct ibv_path_data);
	FIELD("ibv_path_data.flags", struct ibv_path_data, flags, uint32_t);
	FIELD("ibv_path_data.reserved", struct ibv_path_data, reserved, uint32_t);
	FIELD("ibv_path_data.path", struct ibv_path_data, path, struct ibv_path_record);
	ENUM(ibv_gid_type, enum ibv_gid_type);
	ENUM(ibv_mtu, enum ibv_mtu);
	ENUM(ibv_port_state, enum ibv_port_state);
	ENUM(ibv_port_cap_flags, enum ibv_port_cap_flags);
	ENUM(ibv_port_cap_flags2, enum ibv_port_cap_flags2);
	ENUM(ibv_node_type, enum ibv_node_type);
	ENUM(ibv_transport_type, enum ibv_transport_type);
	ENUM(ibv_device_cap_flags, enum ibv_device_cap_flags);
	ENUM(ibv_fork_status, enum ibv_fork_status);
	ENUM(ibv_atomic_cap, enum ibv_atomic_cap);
	ENUM(ibv_odp_general_caps, enum ibv_odp_general_caps);
	ENUM(ibv_odp_transport_cap_bits, enum ibv_odp_transport_cap_bits);
	ENUM(ibv_rx_hash_function_flags, enum ibv_rx_hash_function_flags);
	ENUM(ibv_rx_hash_fields, enum ibv_rx_hash_fields);
	ENUM(ibv_raw_packet_caps, enum ibv_raw_packet_caps);
	ENUM(ibv_tm_cap_flags, enum ibv_tm_cap_flags);
	ENUM(ibv_pci_atomic_op_size, enum ibv_pci_atomic_op_size);
	ENUM(ibv_event_type, enum ibv_event_type);
	ENUM(ibv_xrcd_init_attr_mask, enum ibv_xrcd_init_attr_mask);
	ENUM(ibv_parent_domain_init_attr_mask, enum ibv_parent_domain_init_attr_mask);
	ENUM(ibv_access_flags, enum ibv_access_flags);
	ENUM(ibv_rereg_mr_flags, enum ibv_rereg_mr_flags);
	ENUM(ibv_rereg_mr_err_code, enum ibv_rereg_mr_err_code);
#if RELEASE >= 65
	ENUM(ibv_mr_init_attr_mask, enum ibv_mr_init_attr_mask);
#endif
	ENUM(ibv_advise_mr_advice, enum ibv_advise_mr_advice);
	ENUM(ibv_mw_type, enum ibv_mw_type);
	ENUM(ibv_dm_mask, enum ibv_dm_mask);
#if RELEASE >= 65
	ENUM(ibv_tph_mem_type, enum ibv_tph_mem_type);
#endif
#if RELEASE >= 65
	ENUM(ibv_dmah_init_attr_mask, enum ibv_dmah_init_attr_mask);
#endif
	ENUM(ibv_rate, enum ibv_rate);
	ENUM(ibv_wc_status, enum ibv_wc_status);
	ENUM(ibv_wc_opcode, enum ibv_wc_opcode);
	ENUM(ibv_create_cq_wc_flags, enum ibv_create_cq_wc_flags);
	ENUM(ibv_wc_flags, enum ibv_wc_flags);
	ENUM(ibv_cq_attr_mask, enum ibv_cq_attr_mask);
	ENUM(ibv_cq_init_attr_mask, enum ibv_cq_init_attr_mask);
	ENUM(ibv_create_cq_attr_flags, enum ibv_create_cq_attr_flags);
	ENUM(ibv_srq_attr_mask, enum ibv_srq_attr_mask);
	ENUM(ibv_srq_type, enum ibv_srq_type);
	ENUM(ibv_srq_init_attr_mask, enum ibv_srq_init_attr_mask);
	ENUM(ibv_wq_type, enum ibv_wq_type);
	ENUM(ibv_wq_init_attr_mask, enum ibv_wq_init_attr_mask);
	ENUM(ibv_wq_flags, enum ibv_wq_flags);
	ENUM(ibv_wq_state, enum ibv_wq_state);
	ENUM(ibv_wq_attr_mask, enum ibv_wq_attr_mask);
	ENUM(ibv_ind_table_init_attr_mask, enum ibv_ind_table_init_attr_mask);
	ENUM(ibv_wr_opcode, enum ibv_wr_opcode);
	ENUM(ibv_send_flags, enum ibv_send_flags);
#if RELEASE >= 56
	ENUM(ibv_placement_type, enum ibv_placement_type);
#endif
#if RELEASE >= 56
	ENUM(ibv_selectivity_level, enum ibv_selectivity_level);
#endif
	ENUM(ibv_ops_wr_opcode, enum ibv_ops_wr_opcode);
	ENUM(ibv_ops_flags, enum ibv_ops_flags);
	ENUM(ibv_qp_type, enum ibv_qp_type);
	ENUM(ibv_qp_state, enum ibv_qp_state);
	ENUM(ibv_mig_state, enum ibv_mig_state);
	ENUM(ibv_qp_init_attr_mask, enum ibv_qp_init_attr_mask);
	ENUM(ibv_qp_create_flags, enum ibv_qp_create_flags);
	ENUM(ibv_qp_create_send_ops_flags, enum ibv_qp_create_send_ops_flags);
	ENUM(ibv_qp_open_attr_mask, enum ibv_qp_open_attr_mask);
	ENUM(ibv_qp_attr_mask, enum ibv_qp_attr_mask);
#if RELEASE >= 56
	ENUM(ibv_query_qp_data_in_order_flags, enum ibv_query_qp_data_in_order_flags);
#endif
#if RELEASE >= 56
	ENUM(ibv_query_qp_data_in_order_caps, enum ibv_query_qp_data_in_order_caps);
#endif
	ENUM(ibv_flow_flags, enum ibv_flow_flags);
	ENUM(ibv_flow_attr_type, enum ibv_flow_attr_type);
	ENUM(ibv_flow_spec_type, enum ibv_flow_spec_type);
	ENUM(ibv_flow_action_esp_mask, enum ibv_flow_action_esp_mask);
	ENUM(ibv_flow_action_esp_keymat, enum ibv_flow_action_esp_keymat);
	ENUM(ibv_flow_action_esp_keymat_aes_gcm_iv_algo, enum ibv_flow_action_esp_keymat_aes_gcm_iv_algo);
	ENUM(ibv_flow_action_esp_replay, enum ibv_flow_action_esp_replay);
	ENUM(ibv_flow_action_esp_flags, enum ibv_flow_action_esp_flags);
	ENUM(ibv_counter_description, enum ibv_counter_description);
	ENUM(ibv_read_counters_flags, enum ibv_read_counters_flags);
#if RELEASE >= 65
	ENUM(ibv_qp_attach_comp_cntr_op, enum ibv_qp_attach_comp_cntr_op);
#endif
#if RELEASE >= 65
	ENUM(ibv_comp_cntr_type, enum ibv_comp_cntr_type);
#endif
	ENUM(ibv_values_mask, enum ibv_values_mask);
	ENUM(ibv_tmh_op, enum ibv_tmh_op);
	CONST(IBV_GID_TYPE_IB);
	CONST(IBV_GID_TYPE_ROCE_V1);
	CONST(IBV_GID_TYPE_ROCE_V2);
	CONST(IBV_MTU_256);
	CONST(IBV_MTU_512);
	CONST(IBV_MTU_1024);
	CONST(IBV_MTU_2048);
	CONST(IBV_MTU_4096);
	CONST(IBV_PORT_NOP);
	CONST(IBV_PORT_DOWN);
	CONST(IBV_PORT_INIT);
	CONST(IBV_PORT_ARMED);
	CONST(IBV_PORT_ACTIVE);
	CONST(IBV_PORT_ACTIVE_DEFER);
	CONST(IBV_PORT_SM);
	CONST(IBV_PORT_NOTICE_SUP);
	CONST(IBV_PORT_TRAP_SUP);
	CONST(IBV_PORT_OPT_IPD_SUP);
	CONST(IBV_PORT_AUTO_MIGR_SUP);
	CONST(IBV_PORT_SL_MAP_SUP);
	CONST(IBV_PORT_MKEY_NVRAM);
	CONST(IBV_PORT_PKEY_NVRAM);
	CONST(IBV_PORT_LED_INFO_SUP);
	CONST(IBV_PORT_SYS_IMAGE_GUID_SUP);
	CONST(IBV_PORT_PKEY_SW_EXT_PORT_TRAP_SUP);
	CONST(IBV_PORT_EXTENDED_SPEEDS_SUP);
	CONST(IBV_PORT_CAP_MASK2_SUP);
	CONST(IBV_PORT_CM_SUP);
	CONST(IBV_PORT_SNMP_TUNNEL_SUP);
	CONST(IBV_PORT_REINIT_SUP);
	CONST(IBV_PORT_DEVICE_MGMT_SUP);
	CONST(IBV_PORT_VENDOR_CLASS_SUP);
	CONST(IBV_PORT_DR_NOTICE_SUP);
	CONST(IBV_PORT_CAP_MASK_NOTICE_SUP);
	CONST(IBV_PORT_BOOT_MGMT_SUP);
	CONST(IBV_PORT_LINK_LATENCY_SUP);
	CONST(IBV_PORT_CLIENT_REG_SUP);
	CONST(IBV_PORT_IP_BASED_GIDS);
	CONST(IBV_PORT_SET_NODE_DESC_SUP);
	CONST(IBV_PORT_INFO_EXT_SUP);
	CONST(IBV_PORT_VIRT_SUP);
	CONST(IBV_PORT_SWITCH_PORT_STATE_TABLE_SUP);
	CONST(IBV_PORT_LINK_WIDTH_2X_SUP);
	CONST(IBV_PORT_LINK_SPEED_HDR_SUP);
	CONST(IBV_PORT_LINK_SPEED_NDR_SUP);
#if RELEASE >= 56
	CONST(IBV_PORT_LINK_SPEED_XDR_SUP);
#endif
	CONST(IBV_LINK_LAYER_UNSPECIFIED);
	CONST(IBV_LINK_LAYER_INFINIBAND);
	CONST(IBV_LINK_LAYER_ETHERNET);
	CONST(IBV_QPF_GRH_REQUIRED);
	CONST(ETHERNET_LL_SIZE);
	CONST(IB_ROCE_UDP_ENCAP_VALID_PORT_MIN);
	CONST(IB_ROCE_UDP_ENCAP_VALID_PORT_MAX);
	CONST(IB_GRH_FLOWLABEL_MASK);
	CONST(IBV_NODE_UNKNOWN);
	CONST(IBV_NODE_CA);
	CONST(IBV_NODE_SWITCH);
	CONST(IBV_NODE_ROUTER);
	CONST(IBV_NODE_RNIC);
	CONST(IBV_NODE_USNIC);
	CONST(IBV_NODE_USNIC_UDP);
	CONST(IBV_NODE_UNSPECIFIED);
	CONST(IBV_TRANSPORT_UNKNOWN);
	CONST(IBV_TRANSPORT_IB);
	CONST(IBV_TRANSPORT_IWARP);
	CONST(IBV_TRANSPORT_USNIC);
	CONST(IBV_TRANSPORT_USNIC_UDP);
	CONST(IBV_TRANSPORT_UNSPECIFIED);
	CONST(IBV_DEVICE_RESIZE_MAX_WR);
	CONST(IBV_DEVICE_BAD_PKEY_CNTR);
	CONST(IBV_DEVICE_BAD_QKEY_CNTR);
	CONST(IBV_DEVICE_RAW_MULTI);
	CONST(IBV_DEVICE_AUTO_PATH_MIG);
	CONST(IBV_DEVICE_CHANGE_PHY_PORT);
	CONST(IBV_DEVICE_UD_AV_PORT_ENFORCE);
	CONST(IBV_DEVICE_CURR_QP_STATE_MOD);
	CONST(IBV_DEVICE_SHUTDOWN_PORT);
	CONST(IBV_DEVICE_INIT_TYPE);
	CONST(IBV_DEVICE_PORT_ACTIVE_EVENT);
	CONST(IBV_DEVICE_SYS_IMAGE_GUID);
	CONST(IBV_DEVICE_RC_RNR_NAK_GEN);
	CONST(IBV_DEVICE_SRQ_RESIZE);
	CONST(IBV_DEVICE_N_NOTIFY_CQ);
	CONST(IBV_DEVICE_MEM_WINDOW);
	CONST(IBV_DEVICE_UD_IP_CSUM);
	CONST(IBV_DEVICE_XRC);
	CONST(IBV_DEVICE_MEM_MGT_EXTENSIONS);
	CONST(IBV_DEVICE_MEM_WINDOW_TYPE_2A);
	CONST(IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	CONST(IBV_DEVICE_RC_IP_CSUM);
	CONST(IBV_DEVICE_RAW_IP_CSUM);
	CONST(IBV_DEVICE_MANAGED_FLOW_STEERING);
	CONST(IBV_FORK_DISABLED);
	CONST(IBV_FORK_ENABLED);
	CONST(IBV_FORK_UNNEEDED);
	CONST(IBV_ATOMIC_NONE);
	CONST(IBV_ATOMIC_HCA);
	CONST(IBV_ATOMIC_GLOB);
	CONST(IBV_ODP_SUPPORT);
	CONST(IBV_ODP_SUPPORT_IMPLICIT);
	CONST(IBV_ODP_SUPPORT_SEND);
	CONST(IBV_ODP_SUPPORT_RECV);
	CONST(IBV_ODP_SUPPORT_WRITE);
	CONST(IBV_ODP_SUPPORT_READ);
	CONST(IBV_ODP_SUPPORT_ATOMIC);
	CONST(IBV_ODP_SUPPORT_SRQ_RECV);
#if RELEASE >= 65
	CONST(IBV_ODP_SUPPORT_FLUSH);
#endif
#if RELEASE >= 65
	CONST(IBV_ODP_SUPPORT_ATOMIC_WRITE);
#endif
	CONST(IBV_RX_HASH_FUNC_TOEPLITZ);
	CONST(IBV_RX_HASH_SRC_IPV4);
	CONST(IBV_RX_HASH_DST_IPV4);
	CONST(IBV_RX_HASH_SRC_IPV6);
	CONST(IBV_RX_HASH_DST_IPV6);
	CONST(IBV_RX_HASH_SRC_PORT_TCP);
	CONST(IBV_RX_HASH_DST_PORT_TCP);
	CONST(IBV_RX_HASH_SRC_PORT_UDP);
	CONST(IBV_RX_HASH_DST_PORT_UDP);
	CONST(IBV_RX_HASH_IPSEC_SPI);
	CONST(IBV_RX_HASH_INNER);
	CONST(IBV_RAW_PACKET_CAP_CVLAN_STRIPPING);
	CONST(IBV_RAW_PACKET_CAP_SCATTER_FCS);
	CONST(IBV_RAW_PACKET_CAP_IP_CSUM);
	CONST(IBV_RAW_PACKET_CAP_DELAY_DROP);
	CONST(IBV_TM_CAP_RC);
	CONST(IBV_PCI_ATOMIC_OPERATION_4_BYTE_SIZE_SUP);
	CONST(IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP);
	CONST(IBV_PCI_ATOMIC_OPERATION_16_BYTE_SIZE_SUP);
	CONST(IBV_EVENT_CQ_ERR);
	CONST(IBV_EVENT_QP_FATAL);
	CONST(IBV_EVENT_QP_REQ_ERR);
	CONST(IBV_EVENT_QP_ACCESS_ERR);
	CONST(IBV_EVENT_COMM_EST);
	CONST(IBV_EVENT_SQ_DRAINED);
	CONST(IBV_EVENT_PATH_MIG);
	CONST(IBV_EVENT_PATH_MIG_ERR);
	CONST(IBV_EVENT_DEVICE_FATAL);
	CONST(IBV_EVENT_PORT_ACTIVE);
	CONST(IBV_EVENT_PORT_ERR);
	CONST(IBV_EVENT_LID_CHANGE);
	CONST(IBV_EVENT_PKEY_CHANGE);
	CONST(IBV_EVENT_SM_CHANGE);
	CONST(IBV_EVENT_SRQ_ERR);
	CONST(IBV_EVENT_SRQ_LIMIT_REACHED);
	CONST(IBV_EVENT_QP_LAST_WQE_REACHED);
	CONST(IBV_EVENT_CLIENT_REREGISTER);
	CONST(IBV_EVENT_GID_CHANGE);
	CONST(IBV_EVENT_WQ_FATAL);
#if RELEASE >= 65
	CONST(IBV_EVENT_DEVICE_SPEED_CHANGE);
#endif
	CONST(IBV_DEVICE_RAW_SCATTER_FCS);
	CONST(IBV_DEVICE_PCI_WRITE_END_PADDING);
#if RELEASE >= 65
	CONST(IBV_DEVICE_CC_DMA_BOUNCE);
#endif
	CONST(IBV_SYSFS_NAME_MAX);
	CONST(IBV_SYSFS_PATH_MAX);
	CONST(IBV_XRCD_INIT_ATTR_FD);
	CONST(IBV_XRCD_INIT_ATTR_OFLAGS);
	CONST(IBV_XRCD_INIT_ATTR_RESERVED);
	CONST(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS);
	CONST(IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT);
#if RELEASE >= 65
	CONST(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC);
#endif
	ADDRESS(IBV_ALLOCATOR_USE_DEFAULT);
	CONST(IBV_ACCESS_LOCAL_WRITE);
	CONST(IBV_ACCESS_REMOTE_WRITE);
	CONST(IBV_ACCESS_REMOTE_READ);
	CONST(IBV_ACCESS_REMOTE_ATOMIC);
	CONST(IBV_ACCESS_MW_BIND);
	CONST(IBV_ACCESS_ZERO_BASED);
	CONST(IBV_ACCESS_ON_DEMAND);
	CONST(IBV_ACCESS_HUGETLB);
#if RELEASE >= 56
	CONST(IBV_ACCESS_FLUSH_GLOBAL);
#endif
#if RELEASE >= 56
	CONST(IBV_ACCESS_FLUSH_PERSISTENT);
#endif
	CONST(IBV_ACCESS_RELAXED_ORDERING);
	CONST(IBV_REREG_MR_CHANGE_TRANSLATION);
	CONST(IBV_REREG_MR_CHANGE_PD);
	CONST(IBV_REREG_MR_CHANGE_ACCESS);
	CONST(IBV_REREG_MR_FLAGS_SUPPORTED);
	CONST(IBV_REREG_MR_ERR_INPUT);
	CONST(IBV_REREG_MR_ERR_DONT_FORK_NEW);
	CONST(IBV_REREG_MR_ERR_DO_FORK_OLD);
	CONST(IBV_REREG_MR_ERR_CMD);
	CONST(IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW);
#if RELEASE >= 65
	CONST(IBV_REG_MR_MASK_IOVA);
#endif
#if RELEASE >= 65
	CONST(IBV_REG_MR_MASK_ADDR);
#endif
#if RELEASE >= 65
	CONST(IBV_REG_MR_MASK_FD);
#endif
#if RELEASE >= 65
	CONST(IBV_REG_MR_MASK_FD_OFFSET);
#endif
#if RELEASE >= 65
	CONST(IBV_REG_MR_MASK_DMAH);
#endif
#if RELEASE >= 65
	CONST(IBV_REG_MR_MASK_BUF);
#endif
	CONST(IBV_ADVISE_MR_ADVICE_PREFETCH);
	CONST(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
	CONST(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT);
	CONST(IBV_MW_TYPE_1);
	CONST(IBV_MW_TYPE_2);
	CONST(IBV_DM_MASK_HANDLE);
#if RELEASE >= 65
	CONST(IBV_TPH_MEM_TYPE_VM);
#endif
#if RELEASE >= 65
	CONST(IBV_TPH_MEM_TYPE_PM);
#endif
#if RELEASE >= 65
	CONST(IBV_DMAH_INIT_ATTR_MASK_CPU_ID);
#endif
#if RELEASE >= 65
	CONST(IBV_DMAH_INIT_ATTR_MASK_PH);
#endif
#if RELEASE >= 65
	CONST(IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE);
#endif
	CONST(IBV_ACCESS_OPTIONAL_FIRST);
	CONST(IBV_ACCESS_OPTIONAL_RANGE);
	CONST(IBV_ADVISE_MR_FLAG_FLUSH);
	CONST(IBV_RATE_MAX);
	CONST(IBV_RATE_2_5_GBPS);
	CONST(IBV_RATE_5_GBPS);
	CONST(IBV_RATE_10_GBPS);
	CONST(IBV_RATE_20_GBPS);
	CONST(IBV_RATE_30_GBPS);
	CONST(IBV_RATE_40_GBPS);
	CONST(IBV_RATE_60_GBPS);
	CONST(IBV_RATE_80_GBPS);
	CONST(IBV_RATE_120_GBPS);
	CONST(IBV_RATE_14_GBPS);
	CONST(IBV_RATE_56_GBPS);
	CONST(IBV_RATE_112_GBPS);
	CONST(IBV_RATE_168_GBPS);
	CONST(IBV_RATE_25_GBPS);
	CONST(IBV_RATE_100_GBPS);
	CONST(IBV_RATE_200_GBPS);
	CONST(IBV_RATE_300_GBPS);
	CONST(IBV_RATE_28_GBPS);
	CONST(IBV_RATE_50_GBPS);
	CONST(IBV_RATE_400_GBPS);
	CONST(IBV_RATE_600_GBPS);
	CONST(IBV_RATE_800_GBPS);
	CONST(IBV_RATE_1200_GBPS);
	CONST(IBV_WC_SUCCESS);
	CONST(IBV_WC_LOC_LEN_ERR);
	CONST(IBV_WC_LOC_QP_OP_ERR);
	CONST(IBV_WC_LOC_EEC_OP_ERR);
	CONST(IBV_WC_LOC_PROT_ERR);
	CONST(IBV_WC_WR_FLUSH_ERR);
	CONST(IBV_WC_MW_BIND_ERR);
	CONST(IBV_WC_BAD_RESP_ERR);
	CONST(IBV_WC_LOC_ACCESS_ERR);
	CONST(IBV_WC_REM_INV_REQ_ERR);
	CONST(IBV_WC_REM_ACCESS_ERR);
	CONST(IBV_WC_REM_OP_ERR);
	CONST(IBV_WC_RETRY_EXC_ERR);
	CONST(IBV_WC_RNR_RETRY_EXC_ERR);
	CONST(IBV_WC_LOC_RDD_VIOL_ERR);
	CONST(IBV_WC_REM_INV_RD_REQ_ERR);
	CONST(IBV_WC_REM_ABORT_ERR);
	CONST(IBV_WC_INV_EECN_ERR);
	CONST(IBV_WC_INV_EEC_STATE_ERR);
	CONST(IBV_WC_FATAL_ERR);
	CONST(IBV_WC_RESP_TIMEOUT_ERR);
	CONST(IBV_WC_GENERAL_ERR);
	CONST(IBV_WC_TM_ERR);
	CONST(IBV_WC_TM_RNDV_INCOMPLETE);
	CONST(IBV_WC_SEND);
	CONST(IBV_WC_RDMA_WRITE);
	CONST(IBV_WC_RDMA_READ);
	CONST(IBV_WC_COMP_SWAP);
	CONST(IBV_WC_FETCH_ADD);
	CONST(IBV_WC_BIND_MW);
	CONST(IBV_WC_LOCAL_INV);
	CONST(IBV_WC_TSO);
#if RELEASE >= 56
	CONST(IBV_WC_FLUSH);
#endif
	CONST(IBV_WC_ATOMIC_WRITE);
	CONST(IBV_WC_RECV);
	CONST(IBV_WC_RECV_RDMA_WITH_IMM);
	CONST(IBV_WC_TM_ADD);
	CONST(IBV_WC_TM_DEL);
	CONST(IBV_WC_TM_SYNC);
	CONST(IBV_WC_TM_RECV);
	CONST(IBV_WC_TM_NO_TAG);
	CONST(IBV_WC_DRIVER1);
	CONST(IBV_WC_DRIVER2);
	CONST(IBV_WC_DRIVER3);
	CONST(IBV_WC_EX_WITH_BYTE_LEN);
	CONST(IBV_WC_EX_WITH_IMM);
	CONST(IBV_WC_EX_WITH_QP_NUM);
	CONST(IBV_WC_EX_WITH_SRC_QP);
	CONST(IBV_WC_EX_WITH_SLID);
	CONST(IBV_WC_EX_WITH_SL);
	CONST(IBV_WC_EX_WITH_DLID_PATH_BITS);
	CONST(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
	CONST(IBV_WC_EX_WITH_CVLAN);
	CONST(IBV_WC_EX_WITH_FLOW_TAG);
	CONST(IBV_WC_EX_WITH_TM_INFO);
	CONST(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	CONST(IBV_WC_GRH);
	CONST(IBV_WC_WITH_IMM);
	CONST(IBV_WC_IP_CSUM_OK);
	CONST(IBV_WC_WITH_INV);
	CONST(IBV_WC_TM_SYNC_REQ);
	CONST(IBV_WC_TM_MATCH);
	CONST(IBV_WC_TM_DATA_VALID);
	CONST(IBV_CQ_ATTR_MODERATE);
	CONST(IBV_CQ_ATTR_RESERVED);
	CONST(IBV_CQ_INIT_ATTR_MASK_FLAGS);
	CONST(IBV_CQ_INIT_ATTR_MASK_PD);
	CONST(IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	CONST(IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
	CONST(IBV_WC_IP_CSUM_OK_SHIFT);
	CONST(IBV_WC_STANDARD_FLAGS);
	CONST(IBV_CREATE_CQ_SUP_WC_FLAGS);
	CONST(IBV_SRQ_MAX_WR);
	CONST(IBV_SRQ_LIMIT);
	CONST(IBV_SRQT_BASIC);
	CONST(IBV_SRQT_XRC);
	CONST(IBV_SRQT_TM);
	CONST(IBV_SRQ_INIT_ATTR_TYPE);
	CONST(IBV_SRQ_INIT_ATTR_PD);
	CONST(IBV_SRQ_INIT_ATTR_XRCD);
	CONST(IBV_SRQ_INIT_ATTR_CQ);
	CONST(IBV_SRQ_INIT_ATTR_TM);
	CONST(IBV_SRQ_INIT_ATTR_RESERVED);
	CONST(IBV_WQT_RQ);
	CONST(IBV_WQ_INIT_ATTR_FLAGS);
	CONST(IBV_WQ_INIT_ATTR_RESERVED);
	CONST(IBV_WQ_FLAGS_CVLAN_STRIPPING);
	CONST(IBV_WQ_FLAGS_SCATTER_FCS);
	CONST(IBV_WQ_FLAGS_DELAY_DROP);
	CONST(IBV_WQ_FLAGS_PCI_WRITE_END_PADDING);
	CONST(IBV_WQ_FLAGS_RESERVED);
	CONST(IBV_WQS_RESET);
	CONST(IBV_WQS_RDY);
	CONST(IBV_WQS_ERR);
	CONST(IBV_WQS_UNKNOWN);
	CONST(IBV_WQ_ATTR_STATE);
	CONST(IBV_WQ_ATTR_CURR_STATE);
	CONST(IBV_WQ_ATTR_FLAGS);
	CONST(IBV_WQ_ATTR_RESERVED);
	CONST(IBV_CREATE_IND_TABLE_RESERVED);
	CONST(IBV_WR_RDMA_WRITE);
	CONST(IBV_WR_RDMA_WRITE_WITH_IMM);
	CONST(IBV_WR_SEND);
	CONST(IBV_WR_SEND_WITH_IMM);
	CONST(IBV_WR_RDMA_READ);
	CONST(IBV_WR_ATOMIC_CMP_AND_SWP);
	CONST(IBV_WR_ATOMIC_FETCH_AND_ADD);
	CONST(IBV_WR_LOCAL_INV);
	CONST(IBV_WR_BIND_MW);
	CONST(IBV_WR_SEND_WITH_INV);
	CONST(IBV_WR_TSO);
	CONST(IBV_WR_DRIVER1);
#if RELEASE >= 56
	CONST(IBV_WR_FLUSH);
#endif
	CONST(IBV_WR_ATOMIC_WRITE);
	CONST(IBV_SEND_FENCE);
	CONST(IBV_SEND_SIGNALED);
	CONST(IBV_SEND_SOLICITED);
	CONST(IBV_SEND_INLINE);
	CONST(IBV_SEND_IP_CSUM);
#if RELEASE >= 56
	CONST(IBV_FLUSH_GLOBAL);
#endif
#if RELEASE >= 56
	CONST(IBV_FLUSH_PERSISTENT);
#endif
#if RELEASE >= 56
	CONST(IBV_FLUSH_RANGE);
#endif
#if RELEASE >= 56
	CONST(IBV_FLUSH_MR);
#endif
	CONST(IBV_WR_TAG_ADD);
	CONST(IBV_WR_TAG_DEL);
	CONST(IBV_WR_TAG_SYNC);
	CONST(IBV_OPS_SIGNALED);
	CONST(IBV_OPS_TM_SYNC);
	CONST(IBV_QPT_RC);
	CONST(IBV_QPT_UC);
	CONST(IBV_QPT_UD);
	CONST(IBV_QPT_RAW_PACKET);
	CONST(IBV_QPT_XRC_SEND);
	CONST(IBV_QPT_XRC_RECV);
	CONST(IBV_QPT_DRIVER);
	CONST(IBV_QPS_RESET);
	CONST(IBV_QPS_INIT);
	CONST(IBV_QPS_RTR);
	CONST(IBV_QPS_RTS);
	CONST(IBV_QPS_SQD);
	CONST(IBV_QPS_SQE);
	CONST(IBV_QPS_ERR);
	CONST(IBV_QPS_UNKNOWN);
	CONST(IBV_MIG_MIGRATED);
	CONST(IBV_MIG_REARM);
	CONST(IBV_MIG_ARMED);
	CONST(IBV_QP_INIT_ATTR_PD);
	CONST(IBV_QP_INIT_ATTR_XRCD);
	CONST(IBV_QP_INIT_ATTR_CREATE_FLAGS);
	CONST(IBV_QP_INIT_ATTR_MAX_TSO_HEADER);
	CONST(IBV_QP_INIT_ATTR_IND_TABLE);
	CONST(IBV_QP_INIT_ATTR_RX_HASH);
	CONST(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
	CONST(IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
	CONST(IBV_QP_CREATE_SCATTER_FCS);
	CONST(IBV_QP_CREATE_CVLAN_STRIPPING);
	CONST(IBV_QP_CREATE_SOURCE_QPN);
	CONST(IBV_QP_CREATE_PCI_WRITE_END_PADDING);
	CONST(IBV_QP_EX_WITH_RDMA_WRITE);
	CONST(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
	CONST(IBV_QP_EX_WITH_SEND);
	CONST(IBV_QP_EX_WITH_SEND_WITH_IMM);
	CONST(IBV_QP_EX_WITH_RDMA_READ);
	CONST(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP);
	CONST(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
	CONST(IBV_QP_EX_WITH_LOCAL_INV);
	CONST(IBV_QP_EX_WITH_BIND_MW);
	CONST(IBV_QP_EX_WITH_SEND_WITH_INV);
	CONST(IBV_QP_EX_WITH_TSO);
#if RELEASE >= 56
	CONST(IBV_QP_EX_WITH_FLUSH);
#endif
	CONST(IBV_QP_EX_WITH_ATOMIC_WRITE);
	CONST(IBV_QP_OPEN_ATTR_NUM);
	CONST(IBV_QP_OPEN_ATTR_XRCD);
	CONST(IBV_QP_OPEN_ATTR_CONTEXT);
	CONST(IBV_QP_OPEN_ATTR_TYPE);
	CONST(IBV_QP_OPEN_ATTR_RESERVED);
	CONST(IBV_QP_STATE);
	CONST(IBV_QP_CUR_STATE);
	CONST(IBV_QP_EN_SQD_ASYNC_NOTIFY);
	CONST(IBV_QP_ACCESS_FLAGS);
	CONST(IBV_QP_PKEY_INDEX);
	CONST(IBV_QP_PORT);
	CONST(IBV_QP_QKEY);
	CONST(IBV_QP_AV);
	CONST(IBV_QP_PATH_MTU);
	CONST(IBV_QP_TIMEOUT);
	CONST(IBV_QP_RETRY_CNT);
	CONST(IBV_QP_RNR_RETRY);
	CONST(IBV_QP_RQ_PSN);
	CONST(IBV_QP_MAX_QP_RD_ATOMIC);
	CONST(IBV_QP_ALT_PATH);
	CONST(IBV_QP_MIN_RNR_TIMER);
	CONST(IBV_QP_SQ_PSN);
	CONST(IBV_QP_MAX_DEST_RD_ATOMIC);
	CONST(IBV_QP_PATH_MIG_STATE);
	CONST(IBV_QP_CAP);
	CONST(IBV_QP_DEST_QPN);
	CONST(IBV_QP_RATE_LIMIT);
#if RELEASE >= 56
	CONST(IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS);
#endif
#if RELEASE >= 65
	CONST(IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY);
#endif
#if RELEASE >= 56
	CONST(IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG);
#endif
#if RELEASE >= 56
	CONST(IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES);
#endif
	CONST(IBV_FLOW_ATTR_FLAGS_DONT_TRAP);
	CONST(IBV_FLOW_ATTR_FLAGS_EGRESS);
	CONST(IBV_FLOW_ATTR_NORMAL);
	CONST(IBV_FLOW_ATTR_ALL_DEFAULT);
	CONST(IBV_FLOW_ATTR_MC_DEFAULT);
	CONST(IBV_FLOW_ATTR_SNIFFER);
	CONST(IBV_FLOW_SPEC_ETH);
	CONST(IBV_FLOW_SPEC_IPV4);
	CONST(IBV_FLOW_SPEC_IPV6);
	CONST(IBV_FLOW_SPEC_IPV4_EXT);
	CONST(IBV_FLOW_SPEC_ESP);
	CONST(IBV_FLOW_SPEC_TCP);
	CONST(IBV_FLOW_SPEC_UDP);
	CONST(IBV_FLOW_SPEC_VXLAN_TUNNEL);
	CONST(IBV_FLOW_SPEC_GRE);
	CONST(IBV_FLOW_SPEC_MPLS);
	CONST(IBV_FLOW_SPEC_INNER);
	CONST(IBV_FLOW_SPEC_ACTION_TAG);
	CONST(IBV_FLOW_SPEC_ACTION_DROP);
	CONST(IBV_FLOW_SPEC_ACTION_HANDLE);
	CONST(IBV_FLOW_SPEC_ACTION_COUNT);
	CONST(IBV_FLOW_ACTION_ESP_MASK_ESN);
	CONST(IBV_FLOW_ACTION_ESP_KEYMAT_AES_GCM);
	CONST(IBV_FLOW_ACTION_IV_ALGO_SEQ);
	CONST(IBV_FLOW_ACTION_ESP_REPLAY_NONE);
	CONST(IBV_FLOW_ACTION_ESP_REPLAY_BMP);
	CONST(IBV_FLOW_ACTION_ESP_FLAGS_INLINE_CRYPTO);
	CONST(IBV_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD);
	CONST(IBV_FLOW_ACTION_ESP_FLAGS_TUNNEL);
	CONST(IBV_FLOW_ACTION_ESP_FLAGS_TRANSPORT);
	CONST(IBV_FLOW_ACTION_ESP_FLAGS_DECRYPT);
	CONST(IBV_FLOW_ACTION_ESP_FLAGS_ENCRYPT);
	CONST(IBV_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW);
	CONST(IBV_COUNTER_PACKETS);
	CONST(IBV_COUNTER_BYTES);
	CONST(IBV_READ_COUNTERS_ATTR_PREFER_CACHED);
#if RELEASE >= 65
	CONST(IBV_QP_ATTACH_COMP_CNTR_OP_SEND);
#endif
#if RELEASE >= 65
	CONST(IBV_QP_ATTACH_COMP_CNTR_OP_RECV);
#endif
#if RELEASE >= 65
	CONST(IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ);
#endif
#if RELEASE >= 65
	CONST(IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ);
#endif
#if RELEASE >= 65
	CONST(IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE);
#endif
#if RELEASE >= 65
	CONST(IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE);
#endif
#if RELEASE >= 65
	CONST(IBV_COMP_CNTR_TYPE_WRS);
#endif
#if RELEASE >= 65
	CONST(IBV_COMP_CNTR_TYPE_BYTES);
#endif
	CONST(IBV_VALUES_MASK_RAW_CLOCK);
	CONST(IBV_VALUES_MASK_RESERVED);
	ADDRESS(__VERBS_ABI_IS_EXTENDED);
	CONST(IBV_TMH_NO_TAG);
	CONST(IBV_TMH_RNDV);
	CONST(IBV_TMH_FIN);
	CONST(IBV_TMH_EAGER);
	CONST(IBV_PATH_RECORD_REVERSIBLE);
	CONST(IBV_PATH_FLAG_GMP);
	CONST(IBV_PATH_FLAG_PRIMARY);
	CONST(IBV_PATH_FLAG_ALTERNATE);
	CONST(IBV_PATH_FLAG_OUTBOUND);
	CONST(IBV_PATH_FLAG_INBOUND);
	CONST(IBV_PATH_FLAG_INBOUND_REVERSE);
	CONST(IBV_PATH_FLAG_BIDIRECTIONAL);
	CONST(IBV_OPCODE_RC);
	CONST(IBV_OPCODE_UC);
	CONST(IBV_OPCODE_RD);
	CONST(IBV_OPCODE_UD);
	CONST(IBV_OPCODE_SEND_FIRST);
	CONST(IBV_OPCODE_SEND_MIDDLE);
	CONST(IBV_OPCODE_SEND_LAST);
	CONST(IBV_OPCODE_SEND_LAST_WITH_IMMEDIATE);
	CONST(IBV_OPCODE_SEND_ONLY);
	CONST(IBV_OPCODE_SEND_ONLY_WITH_IMMEDIATE);
	CONST(IBV_OPCODE_RDMA_WRITE_FIRST);
	CONST(IBV_OPCODE_RDMA_WRITE_MIDDLE);
	CONST(IBV_OPCODE_RDMA_WRITE_LAST);
	CONST(IBV_OPCODE_RDMA_WRITE_LAST_WITH_IMMEDIATE);
	CONST(IBV_OPCODE_RDMA_WRITE_ONLY);
	CONST(IBV_OPCODE_RDMA_WRITE_ONLY_WITH_IMMEDIATE);
	CONST(IBV_OPCODE_RDMA_READ_REQUEST);
	CONST(IBV_OPCODE_RDMA_READ_RESPONSE_FIRST);
	CONST(IBV_OPCODE_RDMA_READ_RESPONSE_MIDDLE);
	CONST(IBV_OPCODE_RDMA_READ_RESPONSE_LAST);
	CONST(IBV_OPCODE_RDMA_READ_RESPONSE_ONLY);
	CONST(IBV_OPCODE_ACKNOWLEDGE);
	CONST(IBV_OPCODE_ATOMIC_ACKNOWLEDGE);
	CONST(IBV_OPCODE_COMPARE_SWAP);
	CONST(IBV_OPCODE_FETCH_ADD);
	CONST(IBV_OPCODE_RC_SEND_FIRST);
	CONST(IBV_OPCODE_RC_SEND_MIDDLE);
	CONST(IBV_OPCODE_RC_SEND_LAST);
	CONST(IBV_OPCODE_RC_SEND_LAST_WITH_IMMEDIATE);
	CONST(IBV_OPCODE_RC_SEND_ONLY);
	CONST(IBV_OPCODE_RC_SEND_ONLY_WITH_IMMEDIATE);
	CONST(IBV_OPCODE_RC_RDMA_WRITE_FIRST);
	CONST(IBV_OPCODE_RC_RDMA_WRITE_MIDDLE);
	CONST(IBV_OPCODE_RC_RDMA_WRITE_LAST);
	CONST(IBV_OPCODE_RC_RDMA_WRITE_LAST_WITH_IMMEDIATE);
	CONST(IBV_OPCODE_RC_RDMA_WRITE_ONLY);
	CONST(IBV_OPCODE_RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE);
	CONST(IBV_OPCODE_RC_RDMA_READ_REQUEST);
	CONST(IBV_OPCODE_RC_RDMA_READ_RESPONSE_FIRST);
	CONST(IBV_OPCODE_RC_RDMA_READ_RESPONSE_MIDDLE);
	CONST(IBV_OPCODE_RC_RDMA_READ_RESPONSE_LAST);
	CONST(IBV_OPCODE_RC_RDMA_READ_RESPONSE_ONLY);
	CONST(IBV_OPCODE_RC_ACKNOWLEDGE);
	CONST(IBV_OPCODE_RC_ATOMIC_ACKNOWLEDGE);
	CONST(IBV_OPCODE_RC_COMPARE_SWAP);
	CONST(IBV_OPCODE_RC_FETCH_ADD);
	CONST(IBV_OPCODE_UC_SEND_FIRST);
	CONST(IBV_OPCODE_UC_SEND_MIDDLE);
	CONST(IBV_OPCODE_UC_SEND_LAST);
	CONST(IBV_OPCODE_UC_SEND_LAST_WITH_IMMEDIATE);
	CONST(IBV_OPCODE_UC_SEND_ONLY);
	CONST(IBV_OPCODE_UC_SEND_ONLY_WITH_IMMEDIATE);
	CONST(IBV_OPCODE_UC_RDMA_WRITE_FIRST);
	CONST(IBV_OPCODE_UC_RDMA_WRITE_MIDDLE);
	CONST(IBV_OPCODE_UC_RDMA_WRITE_LAST);
	CONST(IBV_OPCODE_UC_RDMA_WRITE_LAST_WITH_IMMEDIATE);
	CONST(IBV_OPCODE_UC_RDMA_WRITE_ONLY);
	CONST(IBV_OPCODE_UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE);
	CONST(IBV_OPCODE_RD_SEND_FIRST);
	CONST(IBV_OPCODE_RD_SEND_MIDDLE);
	CONST(IBV_OPCODE_RD_SEND_LAST);
	CONST(IBV_OPCODE_RD_SEND_LAST_WITH_IMMEDIATE);
	CONST(IBV_OPCODE_RD_SEND_ONLY);
	CONST(IBV_OPCODE_RD_SEND_ONLY_WITH_IMMEDIATE);
	CONST(IBV_OPCODE_RD_RDMA_WRITE_FIRST);
	CONST(IBV_OPCODE_RD_RDMA_WRITE_MIDDLE);
	CONST(IBV_OPCODE_RD_RDMA_WRITE_LAST);
	CONST(IBV_OPCODE_RD_RDMA_WRITE_LAST_WITH_IMMEDIATE);
	CONST(IBV_OPCODE_RD_RDMA_WRITE_ONLY);
	CONST(IBV_OPCODE_RD_RDMA_WRITE_ONLY_WITH_IMMEDIATE);
	CONST(IBV_OPCODE_RD_RDMA_READ_REQUEST);
	CONST(IBV_OPCODE_RD_RDMA_READ_RESPONSE_FIRST);
	CONST(IBV_OPCODE_RD_RDMA_READ_RESPONSE_MIDDLE);
	CONST(IBV_OPCODE_RD_RDMA_READ_RESPONSE_LAST);
	CONST(IBV_OPCODE_RD_RDMA_READ_RESPONSE_ONLY);
	CONST(IBV_OPCODE_RD_ACKNOWLEDGE);
	CONST(IBV_OPCODE_RD_ATOMIC_ACKNOWLEDGE);
	CONST(IBV_OPCODE_RD_COMPARE_SWAP);
	CONST(IBV_OPCODE_RD_FETCH_ADD);
	CONST(IBV_OPCODE_UD_SEND_ONLY);
	CONST(IBV_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE);
	FUNCTION(ibv_wc_status_str, char const *, enum ibv_wc_status);
#if RELEASE >= 56
	FUNCTION(ibv_wr_opcode_str, char const *, enum ibv_wr_opcode);
#endif
	FUNCTION(ibv_rate_to_mult, int, enum ibv_rate);
	FUNCTION(mult_to_ibv_rate, enum ibv_rate, int);
	FUNCTION(ibv_rate_to_mbps, int, enum ibv_rate);
	FUNCTION(mbps_to_ibv_rate, enum ibv_rate, int);
	FUNCTION(ibv_qp_to_qp_ex, struct ibv_qp_ex *, struct ibv_qp *);
	FUNCTION(ibv_get_device_list, struct ibv_device * *, int *);
	FUNCTION(ibv_free_device_list, void, struct ibv_device * *);
	FUNCTION(ibv_get_device_name, char const *, struct ibv_device *);
	FUNCTION(ibv_get_device_index, int, struct ibv_device *);
	FUNCTION(ibv_get_device_guid, __be64, struct ibv_device *);
	FUNCTION(ibv_open_device, struct ibv_context *, struct ibv_device *);
	FUNCTION(ibv_close_device, int, struct ibv_context *);
	FUNCTION(ibv_import_device, struct ibv_context *, int);
	FUNCTION(ibv_import_pd, struct ibv_pd *, struct ibv_context *, uint32_t);
	FUNCTION(ibv_unimport_pd, void, struct ibv_pd *);
	FUNCTION(ibv_import_mr, struct ibv_mr *, struct ibv_pd *, uint32_t);
	FUNCTION(ibv_unimport_mr, void, struct ibv_mr *);
	FUNCTION(ibv_import_dm, struct ibv_dm *, struct ibv_context *, uint32_t);
	FUNCTION(ibv_unimport_dm, void, struct ibv_dm *);
	FUNCTION(ibv_get_async_event, int, struct ibv_context *, struct ibv_async_event *);
	FUNCTION(ibv_ack_async_event, void, struct ibv_async_event *);
	FUNCTION(ibv_query_device, int, struct ibv_context *, struct ibv_device_attr *);
	FUNCTION(ibv_query_port, int, struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *);
#if RELEASE >= 65
	FUNCTION(ibv_query_port_speed, int, struct ibv_context *, uint32_t, uint64_t *);
#endif
	FUNCTION(ibv_query_gid, int, struct ibv_context *, uint8_t, int, union ibv_gid *);
	FUNCTION(_ibv_query_gid_ex, int, struct ibv_context *, uint32_t, uint32_t, struct ibv_gid_entry *, uint32_t, size_t);
	FUNCTION(_ibv_query_gid_table, ssize_t, struct ibv_context *, struct ibv_gid_entry *, size_t, uint32_t, size_t);
	FUNCTION(ibv_query_pkey, int, struct ibv_context *, uint8_t, int, __be16 *);
	FUNCTION(ibv_get_pkey_index, int, struct ibv_context *, uint8_t, __be16);
	FUNCTION(ibv_alloc_pd, struct ibv_pd *, struct ibv_context *);
	FUNCTION(ibv_dealloc_pd, int, struct ibv_pd *);
	FUNCTION(ibv_reg_mr, struct ibv_mr *, struct ibv_pd *, void *, size_t, int);
	FUNCTION(ibv_reg_mr_iova, struct ibv_mr *, struct ibv_pd *, void *, size_t, uint64_t, int);
	FUNCTION(ibv_reg_mr_iova2, struct ibv_mr *, struct ibv_pd *, void *, size_t, uint64_t, unsigned int);
	FUNCTION(ibv_reg_dmabuf_mr, struct ibv_mr *, struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);
#if RELEASE >= 65
	FUNCTION(ibv_reg_mr_ex, struct ibv_mr *, struct ibv_pd *, struct ibv_mr_init_attr *);
#endif
#if RELEASE >= 65
	FUNCTION(ibv_reg_buf_mr, struct ibv_mr *, struct ibv_pd *, struct ibv_buf *, void *, size_t, int);
#endif
	FUNCTION(ibv_rereg_mr, int, struct ibv_mr *, int, struct ibv_pd *, void *, size_t, int);
	FUNCTION(ibv_dereg_mr, int, struct ibv_mr *);
#if RELEASE >= 65
	FUNCTION(ibv_dm_export_dmabuf_fd, int, struct ibv_dm *);
#endif
#if RELEASE >= 65
	FUNCTION(ibv_alloc_buf, void *, struct ibv_pd *, size_t, struct ibv_buf * *);
#endif
#if RELEASE >= 65
	FUNCTION(ibv_export_buf_dmabuf_fd, int, struct ibv_buf *);
#endif
#if RELEASE >= 65
	FUNCTION(ibv_free_buf, void, struct ibv_buf *);
#endif
#if RELEASE >= 65
	FUNCTION(ibv_alloc_dmah, struct ibv_dmah *, struct ibv_context *, struct ibv_dmah_init_attr *);
#endif
#if RELEASE >= 65
	FUNCTION(ibv_dealloc_dmah, int, struct ibv_dmah *);
#endif
	FUNCTION(ibv_create_comp_channel, struct ibv_comp_channel *, struct ibv_context *);
	FUNCTION(ibv_destroy_comp_channel, int, struct ibv_comp_channel *);
	FUNCTION(ibv_create_cq, struct ibv_cq *, struct ibv_context *, int, void *, struct ibv_comp_channel *, int);
	FUNCTION(ibv_resize_cq, int, struct ibv_cq *, int);
	FUNCTION(ibv_destroy_cq, int, struct ibv_cq *);
	FUNCTION(ibv_get_cq_event, int, struct ibv_comp_channel *, struct ibv_cq * *, void * *);
	FUNCTION(ibv_ack_cq_events, void, struct ibv_cq *, unsigned int);
	FUNCTION(ibv_create_srq, struct ibv_srq *, struct ibv_pd *, struct ibv_srq_init_attr *);
	FUNCTION(ibv_modify_srq, int, struct ibv_srq *, struct ibv_srq_attr *, int);
	FUNCTION(ibv_query_srq, int, struct ibv_srq *, struct ibv_srq_attr *);
	FUNCTION(ibv_destroy_srq, int, struct ibv_srq *);
	FUNCTION(ibv_create_qp, struct ibv_qp *, struct ibv_pd *, struct ibv_qp_init_attr *);
	FUNCTION(ibv_modify_qp, int, struct ibv_qp *, struct ibv_qp_attr *, int);
	FUNCTION(ibv_query_qp_data_in_order, int, struct ibv_qp *, enum ibv_wr_opcode, uint32_t);
	FUNCTION(ibv_query_qp, int, struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *);
	FUNCTION(ibv_destroy_qp, int, struct ibv_qp *);
	FUNCTION(ibv_set_ece, int, struct ibv_qp *, struct ibv_ece *);
	FUNCTION(ibv_query_ece, int, struct ibv_qp *, struct ibv_ece *);
	FUNCTION(ibv_attach_mcast, int, struct ibv_qp *, union ibv_gid const *, uint16_t);
	FUNCTION(ibv_detach_mcast, int, struct ibv_qp *, union ibv_gid const *, uint16_t);
	FUNCTION(ibv_create_ah, struct ibv_ah *, struct ibv_pd *, struct ibv_ah_attr *);
	FUNCTION(ibv_init_ah_from_wc, int, struct ibv_context *, uint8_t, struct ibv_wc *, struct ibv_grh *, struct ibv_ah_attr *);
	FUNCTION(ibv_create_ah_from_wc, struct ibv_ah *, struct ibv_pd *, struct ibv_wc *, struct ibv_grh *, uint8_t);
	FUNCTION(ibv_destroy_ah, int, struct ibv_ah *);
	FUNCTION(ibv_resolve_eth_l2_from_gid, int, struct ibv_context *, struct ibv_ah_attr *, uint8_t *, uint16_t *);
	FUNCTION(ibv_fork_init, int, void);
	FUNCTION(ibv_is_fork_initialized, enum ibv_fork_status, void);
	FUNCTION(ibv_node_type_str, char const *, enum ibv_node_type);
	FUNCTION(ibv_port_state_str, char const *, enum ibv_port_state);
	FUNCTION(ibv_event_type_str, char const *, enum ibv_event_type);
#if RELEASE >= 65
	FUNCTION(_ibv_query_comp_cntr_caps, int, struct ibv_context *, struct ibv_comp_cntr_caps *, size_t);
#endif
#if RELEASE >= 65
	FUNCTION(ibv_create_comp_cntr, struct ibv_comp_cntr *, struct ibv_context *, struct ibv_comp_cntr_init_attr *);
#endif
#if RELEASE >= 65
	FUNCTION(ibv_destroy_comp_cntr, int, struct ibv_comp_cntr *);
#endif
#if RELEASE >= 65
	FUNCTION(ibv_set_comp_cntr, int, struct ibv_comp_cntr *, uint64_t);
#endif
#if RELEASE >= 65
	FUNCTION(ibv_set_err_comp_cntr, int, struct ibv_comp_cntr *, uint64_t);
#endif
#if RELEASE >= 65
	FUNCTION(ibv_inc_comp_cntr, int, struct ibv_comp_cntr *, uint64_t);
#endif
#if RELEASE >= 65
	FUNCTION(ibv_inc_err_comp_cntr, int, struct ibv_comp_cntr *, uint64_t);
#endif
#if RELEASE >= 65
	FUNCTION(ibv_read_comp_cntr, int, struct ibv_comp_cntr *, uint64_t *);
#endif
#if RELEASE >= 65
	FUNCTION(ibv_read_err_comp_cntr, int, struct ibv_comp_cntr *, uint64_t *);
#endif
#if RELEASE >= 65
	FUNCTION(ibv_qp_attach_comp_cntr, int, struct ibv_qp *, struct ibv_comp_cntr *, struct ibv_qp_attach_comp_cntr_attr *);
#endif
}

static void cma(void)
{
	STRUCT("rdma_ib_addr", struct rdma_ib_addr);
	FIELD("rdma_ib_addr.sgid", struct rdma_ib_addr, sgid, union ibv_gid);
	FIELD("rdma_ib_addr.dgid", struct rdma_ib_addr, dgid, union ibv_gid);
	FIELD("rdma_ib_addr.pkey", struct rdma_ib_addr, pkey, __be16);
	FIELD("rdma_addr.src_addr", struct rdma_addr, src_addr, struct sockaddr);
	FIELD("rdma_addr.src_sin", struct rdma_addr, src_sin, struct sockaddr_in);
	FIELD("rdma_addr.src_sin6", struct rdma_addr, src_sin6, struct sockaddr_in6);
	FIELD("rdma_addr.src_storage", struct rdma_addr, src_storage, struct sockaddr_storage);
	FIELD("rdma_addr.dst_addr", struct rdma_addr, dst_addr, struct sockaddr);
	FIELD("rdma_addr.dst_sin", struct rdma_addr, dst_sin, struct sockaddr_in);
	FIELD("rdma_addr.dst_sin6", struct rdma_addr, dst_sin6, struct sockaddr_in6);
	FIELD("rdma_addr.dst_storage", struct rdma_addr, dst_storage, struct sockaddr_storage);
	STRUCT("rdma_addr.addr", __typeof__(((struct rdma_addr *)0)->addr));
	FIELD("rdma_addr.addr.ibaddr", __typeof__(((struct rdma_addr *)0)->addr), ibaddr, struct rdma_ib_addr);
	STRUCT("rdma_addr", struct rdma_addr);
	FIELD("rdma_addr.addr", struct rdma_addr, addr, __typeof__(((struct rdma_addr *)0)->addr));
	STRUCT("rdma_route", struct rdma_route);
	FIELD("rdma_route.addr", struct rdma_route, addr, struct rdma_addr);
	FIELD("rdma_route.path_rec", struct rdma_route, path_rec, struct ibv_sa_path_rec *);
	FIELD("rdma_route.num_paths", struct rdma_route, num_paths, int);
	STRUCT("rdma_event_channel", struct rdma_event_channel);
	FIELD("rdma_event_channel.fd", struct rdma_event_channel, fd, int);
	STRUCT("rdma_cm_id", struct rdma_cm_id);
	FIELD("rdma_cm_id.verbs", struct rdma_cm_id, verbs, struct ibv_context *);
	FIELD("rdma_cm_id.channel", struct rdma_cm_id, channel, struct rdma_event_channel *);
	FIELD("rdma_cm_id.context", struct rdma_cm_id, context, void *);
	FIELD("rdma_cm_id.qp", struct rdma_cm_id, qp, struct ibv_qp *);
	FIELD("rdma_cm_id.route", struct rdma_cm_id, route, struct rdma_route);
	FIELD("rdma_cm_id.ps", struct rdma_cm_id, ps, enum rdma_port_space);
	FIELD("rdma_cm_id.port_num", struct rdma_cm_id, port_num, uint8_t);
	FIELD("rdma_cm_id.event", struct rdma_cm_id, event, struct rdma_cm_event *);
	FIELD("rdma_cm_id.send_cq_channel", struct rdma_cm_id, send_cq_channel, struct ibv_comp_channel *);
	FIELD("rdma_cm_id.send_cq", struct rdma_cm_id, send_cq, struct ibv_cq *);
	FIELD("rdma_cm_id.recv_cq_channel", struct rdma_cm_id, recv_cq_channel, struct ibv_comp_channel *);
	FIELD("rdma_cm_id.recv_cq", struct rdma_cm_id, recv_cq, struct ibv_cq *);
	FIELD("rdma_cm_id.srq", struct rdma_cm_id, srq, struct ibv_srq *);
	FIELD("rdma_cm_id.pd", struct rdma_cm_id, pd, struct ibv_pd *);
	FIELD("rdma_cm_id.qp_type", struct rdma_cm_id, qp_type, enum ibv_qp_type);
	STRUCT("rdma_conn_param", struct rdma_conn_param);
	FIELD("rdma_conn_param.private_data", struct rdma_conn_param, private_data, void const *);
	FIELD("rdma_conn_param.private_data_len", struct rdma_conn_param, private_data_len, uint8_t);
	FIELD("rdma_conn_param.responder_resources", struct rdma_conn_param, responder_resources, uint8_t);
	FIELD("rdma_conn_param.initiator_depth", struct rdma_conn_param, initiator_depth, uint8_t);
	FIELD("rdma_conn_param.flow_control", struct rdma_conn_param, flow_control, uint8_t);
	FIELD("rdma_conn_param.retry_count", struct rdma_conn_param, retry_count, uint8_t);
	FIELD("rdma_conn_param.rnr_retry_count", struct rdma_conn_param, rnr_retry_count, uint8_t);
	FIELD("rdma_conn_param.srq", struct rdma_conn_param, srq, uint8_t);
	FIELD("rdma_conn_param.qp_num", struct rdma_conn_param, qp_num, uint32_t);
	STRUCT("rdma_ud_param", struct rdma_ud_param);
	FIELD("rdma_ud_param.private_data", struct rdma_ud_param, private_data, void const *);
	FIELD("rdma_ud_param.private_data_len", struct rdma_ud_param, private_data_len, uint8_t);
	FIELD("rdma_ud_param.ah_attr", struct rdma_ud_param, ah_attr, struct ibv_ah_attr);
	FIELD("rdma_ud_param.qp_num", struct rdma_ud_param, qp_num, uint32_t);
	FIELD("rdma_ud_param.qkey", struct rdma_ud_param, qkey, uint32_t);
	STRUCT("rdma_cm_event.param", __typeof__(((struct rdma_cm_event *)0)->param));
	FIELD("rdma_cm_event.param.conn", __typeof__(((struct rdma_cm_event *)0)->param), conn, struct rdma_conn_param);
	FIELD("rdma_cm_event.param.ud", __typeof__(((struct rdma_cm_event *)0)->param), ud, struct rdma_ud_param);
#if RELEASE >= 65
	FIELD("rdma_cm_event.param.arg", __typeof__(((struct rdma_cm_event *)0)->param), arg, uint64_t);
#endif
	STRUCT("rdma_cm_event", struct rdma_cm_event);
	FIELD("rdma_cm_event.id", struct rdma_cm_event, id, struct rdma_cm_id *);
	FIELD("rdma_cm_event.listen_id", struct rdma_cm_event, listen_id, struct rdma_cm_id *);
	FIELD("rdma_cm_event.event", struct rdma_cm_event, event, enum rdma_cm_event_type);
	FIELD("rdma_cm_event.status", struct rdma_cm_event, status, int);
	FIELD("rdma_cm_event.param", struct rdma_cm_event, param, __typeof__(((struct rdma_cm_event *)0)->param));
	STRUCT("rdma_addrinfo", struct rdma_addrinfo);
	FIELD("rdma_addrinfo.ai_flags", struct rdma_addrinfo, ai_flags, int);
	FIELD("rdma_addrinfo.ai_family", struct rdma_addrinfo, ai_family, int);
	FIELD("rdma_addrinfo.ai_qp_type", struct rdma_addrinfo, ai_qp_type, int);
	FIELD("rdma_addrinfo.ai_port_space", struct rdma_addrinfo, ai_port_space, int);
	FIELD("rdma_addrinfo.ai_src_len", struct rdma_addrinfo, ai_src_len, socklen_t);
	FIELD("rdma_addrinfo.ai_dst_len", struct rdma_addrinfo, ai_dst_len, socklen_t);
	FIELD("rdma_addrinfo.ai_src_addr", struct rdma_addrinfo, ai_src_addr, struct sockaddr *);
	FIELD("rdma_addrinfo.ai_dst_addr", struct rdma_addrinfo, ai_dst_addr, struct sockaddr *);
	FIELD("rdma_addrinfo.ai_src_canonname", struct rdma_addrinfo, ai_src_canonname, char *);
	FIELD("rdma_addrinfo.ai_dst_canonname", struct rdma_addrinfo, ai_dst_canonname, char *);
	FIELD("rdma_addrinfo.ai_route_len", struct rdma_addrinfo, ai_route_len, size_t);
	FIELD("rdma_addrinfo.ai_route", struct rdma_addrinfo, ai_route, void *);
	FIELD("rdma_addrinfo.ai_connect_len", struct rdma_addrinfo, ai_connect_len, size_t);
	FIELD("rdma_addrinfo.ai_connect", struct rdma_addrinfo, ai_connect, void *);
	FIELD("rdma_addrinfo.ai_next", struct rdma_addrinfo, ai_next, struct rdma_addrinfo *);
	STRUCT("rdma_cm_join_mc_attr_ex", struct rdma_cm_join_mc_attr_ex);
	FIELD("rdma_cm_join_mc_attr_ex.comp_mask", struct rdma_cm_join_mc_attr_ex, comp_mask, uint32_t);
	FIELD("rdma_cm_join_mc_attr_ex.join_flags", struct rdma_cm_join_mc_attr_ex, join_flags, uint32_t);
	FIELD("rdma_cm_join_mc_attr_ex.addr", struct rdma_cm_join_mc_attr_ex, addr, struct sockaddr *);
	ENUM(rdma_cm_event_type, enum rdma_cm_event_type);
	ENUM(rdma_port_space, enum rdma_port_space);
	ENUM(rdma_cm_join_mc_attr_mask, enum rdma_cm_join_mc_attr_mask);
	ENUM(rdma_cm_mc_join_flags, enum rdma_cm_mc_join_flags);
	CONST(RDMA_CM_EVENT_ADDR_RESOLVED);
	CONST(RDMA_CM_EVENT_ADDR_ERROR);
	CONST(RDMA_CM_EVENT_ROUTE_RESOLVED);
	CONST(RDMA_CM_EVENT_ROUTE_ERROR);
	CONST(RDMA_CM_EVENT_CONNECT_REQUEST);
	CONST(RDMA_CM_EVENT_CONNECT_RESPONSE);
	CONST(RDMA_CM_EVENT_CONNECT_ERROR);
	CONST(RDMA_CM_EVENT_UNREACHABLE);
	CONST(RDMA_CM_EVENT_REJECTED);
	CONST(RDMA_CM_EVENT_ESTABLISHED);
	CONST(RDMA_CM_EVENT_DISCONNECTED);
	CONST(RDMA_CM_EVENT_DEVICE_REMOVAL);
	CONST(RDMA_CM_EVENT_MULTICAST_JOIN);
	CONST(RDMA_CM_EVENT_MULTICAST_ERROR);
	CONST(RDMA_CM_EVENT_ADDR_CHANGE);
	CONST(RDMA_CM_EVENT_TIMEWAIT_EXIT);
#if RELEASE >= 65
	CONST(RDMA_CM_EVENT_ADDRINFO_RESOLVED);
#endif
#if RELEASE >= 65
	CONST(RDMA_CM_EVENT_ADDRINFO_ERROR);
#endif
#if RELEASE >= 65
	CONST(RDMA_CM_EVENT_USER);
#endif
#if RELEASE >= 65
	CONST(RDMA_CM_EVENT_INTERNAL);
#endif
	CONST(RDMA_PS_IPOIB);
	CONST(RDMA_PS_TCP);
	CONST(RDMA_PS_UDP);
	CONST(RDMA_PS_IB);
	CONST(RDMA_CM_JOIN_MC_ATTR_ADDRESS);
	CONST(RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS);
	CONST(RDMA_CM_JOIN_MC_ATTR_RESERVED);
	CONST(RDMA_MC_JOIN_FLAG_FULLMEMBER);
	CONST(RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
	CONST(RDMA_MC_JOIN_FLAG_RESERVED);
	CONST(RDMA_IB_IP_PS_MASK);
	CONST(RDMA_IB_IP_PORT_MASK);
	CONST(RDMA_IB_IP_PS_TCP);
	CONST(RDMA_IB_IP_PS_UDP);
	CONST(RDMA_IB_PS_IB);
	CONST(RDMA_UDP_QKEY);
	CONST(RDMA_MAX_RESP_RES);
	CONST(RDMA_MAX_INIT_DEPTH);
	CONST(RAI_PASSIVE);
	CONST(RAI_NUMERICHOST);
	CONST(RAI_NOROUTE);
	CONST(RAI_FAMILY);
#if RELEASE >= 65
	CONST(RAI_SA);
#endif
#if RELEASE >= 65
	CONST(RAI_DNS);
#endif
	CONST(RDMA_OPTION_ID);
	CONST(RDMA_OPTION_IB);
	CONST(RDMA_OPTION_ID_TOS);
	CONST(RDMA_OPTION_ID_REUSEADDR);
	CONST(RDMA_OPTION_ID_AFONLY);
	CONST(RDMA_OPTION_ID_ACK_TIMEOUT);
	CONST(RDMA_OPTION_IB_PATH);
	CONST(SOL_RDMA);
	CONST(RDMA_SQSIZE);
	CONST(RDMA_RQSIZE);
	CONST(RDMA_INLINE);
	CONST(RDMA_IOMAPSIZE);
	CONST(RDMA_ROUTE);
	FUNCTION(rdma_create_event_channel, struct rdma_event_channel *, void);
	FUNCTION(rdma_destroy_event_channel, void, struct rdma_event_channel *);
	FUNCTION(rdma_create_id, int, struct rdma_event_channel *, struct rdma_cm_id * *, void *, enum rdma_port_space);
	FUNCTION(rdma_create_ep, int, struct rdma_cm_id * *, struct rdma_addrinfo *, struct ibv_pd *, struct ibv_qp_init_attr *);
	FUNCTION(rdma_destroy_ep, void, struct rdma_cm_id *);
	FUNCTION(rdma_destroy_id, int, struct rdma_cm_id *);
	FUNCTION(rdma_bind_addr, int, struct rdma_cm_id *, struct sockaddr *);
	FUNCTION(rdma_resolve_addr, int, struct rdma_cm_id *, struct sockaddr *, struct sockaddr *, int);
	FUNCTION(rdma_resolve_route, int, struct rdma_cm_id *, int);
	FUNCTION(rdma_create_qp, int, struct rdma_cm_id *, struct ibv_pd *, struct ibv_qp_init_attr *);
	FUNCTION(rdma_create_qp_ex, int, struct rdma_cm_id *, struct ibv_qp_init_attr_ex *);
	FUNCTION(rdma_destroy_qp, void, struct rdma_cm_id *);
	FUNCTION(rdma_create_srq, int, struct rdma_cm_id *, struct ibv_pd *, struct ibv_srq_init_attr *);
	FUNCTION(rdma_create_srq_ex, int, struct rdma_cm_id *, struct ibv_srq_init_attr_ex *);
	FUNCTION(rdma_destroy_srq, void, struct rdma_cm_id *);
	FUNCTION(rdma_connect, int, struct rdma_cm_id *, struct rdma_conn_param *);
	FUNCTION(rdma_establish, int, struct rdma_cm_id *);
	FUNCTION(rdma_listen, int, struct rdma_cm_id *, int);
	FUNCTION(rdma_get_request, int, struct rdma_cm_id *, struct rdma_cm_id * *);
	FUNCTION(rdma_accept, int, struct rdma_cm_id *, struct rdma_conn_param *);
	FUNCTION(rdma_reject, int, struct rdma_cm_id *, void const *, uint8_t);
	FUNCTION(rdma_reject_ece, int, struct rdma_cm_id *, void const *, uint8_t);
	FUNCTION(rdma_notify, int, struct rdma_cm_id *, enum ibv_event_type);
	FUNCTION(rdma_disconnect, int, struct rdma_cm_id *);
	FUNCTION(rdma_join_multicast, int, struct rdma_cm_id *, struct sockaddr *, void *);
	FUNCTION(rdma_leave_multicast, int, struct rdma_cm_id *, struct sockaddr *);
	FUNCTION(rdma_join_multicast_ex, int, struct rdma_cm_id *, struct rdma_cm_join_mc_attr_ex *, void *);
	FUNCTION(rdma_get_cm_event, int, struct rdma_event_channel *, struct rdma_cm_event * *);
	FUNCTION(rdma_ack_cm_event, int, struct rdma_cm_event *);
	FUNCTION(rdma_get_src_port, __be16, struct rdma_cm_id *);
	FUNCTION(rdma_get_dst_port, __be16, struct rdma_cm_id *);
	FUNCTION(rdma_get_devices, struct ibv_context * *, int *);
	FUNCTION(rdma_free_devices, void, struct ibv_context * *);
	FUNCTION(rdma_event_str, char const *, enum rdma_cm_event_type);
	FUNCTION(rdma_set_option, int, struct rdma_cm_id *, int, int, void *, size_t);
	FUNCTION(rdma_migrate_id, int, struct rdma_cm_id *, struct rdma_event_channel *);
	FUNCTION(rdma_getaddrinfo, int, char const *, char const *, struct rdma_addrinfo const *, struct rdma_addrinfo * *);
	FUNCTION(rdma_freeaddrinfo, void, struct rdma_addrinfo *);
	FUNCTION(rdma_init_qp_attr, int, struct rdma_cm_id *, struct ibv_qp_attr *, int *);
	FUNCTION(rdma_set_local_ece, int, struct rdma_cm_id *, struct ibv_ece *);
	FUNCTION(rdma_get_remote_ece, int, struct rdma_cm_id *, struct ibv_ece *);
#if RELEASE >= 65
	FUNCTION(rdma_resolve_addrinfo, int, struct rdma_cm_id *, char const *, char const *, struct rdma_addrinfo const *);
#endif
#if RELEASE >= 65
	FUNCTION(rdma_query_addrinfo, int, struct rdma_cm_id *, struct rdma_addrinfo * *);
#endif
#if RELEASE >= 65
	FUNCTION(rdma_write_cm_event, int, struct rdma_cm_id *, enum rdma_cm_event_type, int, uint64_t);
#endif
	FUNCTION(rsocket, int, int, int, int);
	FUNCTION(rbind, int, int, struct sockaddr const *, socklen_t);
	FUNCTION(rlisten, int, int, int);
	FUNCTION(raccept, int, int, struct sockaddr *, socklen_t *);
	FUNCTION(rconnect, int, int, struct sockaddr const *, socklen_t);
	FUNCTION(rshutdown, int, int, int);
	FUNCTION(rclose, int, int);
	FUNCTION(rrecv, ssize_t, int, void *, size_t, int);
	FUNCTION(rrecvfrom, ssize_t, int, void *, size_t, int, struct sockaddr *, socklen_t *);
	FUNCTION(rrecvmsg, ssize_t, int, struct msghdr *, int);
	FUNCTION(rsend, ssize_t, int, void const *, size_t, int);
	FUNCTION(rsendto, ssize_t, int, void const *, size_t, int, struct sockaddr const *, socklen_t);
	FUNCTION(rsendmsg, ssize_t, int, struct msghdr const *, int);
	FUNCTION(rread, ssize_t, int, void *, size_t);
	FUNCTION(rreadv, ssize_t, int, struct iovec const *, int);
	FUNCTION(rwrite, ssize_t, int, void const *, size_t);
	FUNCTION(rwritev, ssize_t, int, struct iovec const *, int);
	FUNCTION(rpoll, int, struct pollfd *, nfds_t, int);
	FUNCTION(rselect, int, int, fd_set *, fd_set *, fd_set *, struct timeval *);
	FUNCTION(rgetpeername, int, int, struct sockaddr *, socklen_t *);
	FUNCTION(rgetsockname, int, int, struct sockaddr *, socklen_t *);
	FUNCTION(rsetsockopt, int, int, int, int, void const *, socklen_t);
	FUNCTION(rgetsockopt, int, int, int, int, void *, socklen_t *);
	FUNCTION(rfcntl, int, int, int, ...);
	FUNCTION(riomap, off_t, int, void *, size_t, int, int, off_t);
	FUNCTION(riounmap, int, int, void *, size_t);
	FUNCTION(riowrite, size_t, int, void const *, size_t, off_t, int);
#if RELEASE >= 65
	FUNCTION(repoll_create, int, int);
#endif
#if RELEASE >= 65
	FUNCTION(repoll_ctl, int, int, int, int, struct epoll_event *);
#endif
#if RELEASE >= 65
	FUNCTION(repoll_wait, int, int, struct epoll_event *, int, int);
#endif
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "verbs"))
		verbs();
	else if (argc == 2 && !strcmp(argv[1], "cma"))
		cma();
	else
		return 1;
	return 0;
}
