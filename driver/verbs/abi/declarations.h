/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Written from the Rust declarations by tests/c_header.rs; see measure.sh. */
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <linux/types.h>

typedef unsigned int ibv_gid_type;
typedef unsigned int ibv_mtu;
typedef unsigned int ibv_port_state;
typedef unsigned int ibv_port_cap_flags;
typedef unsigned int ibv_port_cap_flags2;
typedef int ibv_node_type;
typedef int ibv_transport_type;
typedef unsigned int ibv_device_cap_flags;
typedef unsigned int ibv_fork_status;
typedef unsigned int ibv_atomic_cap;
typedef unsigned int ibv_odp_general_caps;
typedef unsigned int ibv_odp_transport_cap_bits;
typedef unsigned int ibv_rx_hash_function_flags;
typedef unsigned int ibv_rx_hash_fields;
typedef unsigned int ibv_raw_packet_caps;
typedef unsigned int ibv_tm_cap_flags;
typedef unsigned int ibv_pci_atomic_op_size;
typedef unsigned int ibv_event_type;
typedef unsigned int ibv_xrcd_init_attr_mask;
typedef unsigned int ibv_parent_domain_init_attr_mask;
typedef unsigned int ibv_access_flags;
typedef unsigned int ibv_rereg_mr_flags;
typedef int ibv_rereg_mr_err_code;
typedef unsigned int ibv_mr_init_attr_mask;
typedef unsigned int ibv_advise_mr_advice;
typedef unsigned int ibv_mw_type;
typedef unsigned int ibv_dm_mask;
typedef unsigned int ibv_tph_mem_type;
typedef unsigned int ibv_dmah_init_attr_mask;
typedef unsigned int ibv_rate;
typedef unsigned int ibv_wc_status;
typedef unsigned int ibv_wc_opcode;
typedef unsigned int ibv_create_cq_wc_flags;
typedef unsigned int ibv_wc_flags;
typedef unsigned int ibv_cq_attr_mask;
typedef unsigned int ibv_cq_init_attr_mask;
typedef unsigned int ibv_create_cq_attr_flags;
typedef unsigned int ibv_srq_attr_mask;
typedef unsigned int ibv_srq_type;
typedef unsigned int ibv_srq_init_attr_mask;
typedef unsigned int ibv_wq_type;
typedef unsigned int ibv_wq_init_attr_mask;
typedef unsigned int ibv_wq_flags;
typedef unsigned int ibv_wq_state;
typedef unsigned int ibv_wq_attr_mask;
typedef unsigned int ibv_ind_table_init_attr_mask;
typedef unsigned int ibv_wr_opcode;
typedef unsigned int ibv_send_flags;
typedef unsigned int ibv_placement_type;
typedef unsigned int ibv_selectivity_level;
typedef unsigned int ibv_ops_wr_opcode;
typedef unsigned int ibv_ops_flags;
typedef unsigned int ibv_qp_type;
typedef unsigned int ibv_qp_state;
typedef unsigned int ibv_mig_state;
typedef unsigned int ibv_qp_init_attr_mask;
typedef unsigned int ibv_qp_create_flags;
typedef unsigned int ibv_qp_create_send_ops_flags;
typedef unsigned int ibv_qp_open_attr_mask;
typedef unsigned int ibv_qp_attr_mask;
typedef unsigned int ibv_query_qp_data_in_order_flags;
typedef unsigned int ibv_query_qp_data_in_order_caps;
typedef unsigned int ibv_flow_flags;
typedef unsigned int ibv_flow_attr_type;
typedef unsigned int ibv_flow_spec_type;
typedef unsigned int ibv_flow_action_esp_mask;
typedef unsigned int ibv_flow_action_esp_keymat;
typedef unsigned int ibv_flow_action_esp_keymat_aes_gcm_iv_algo;
typedef unsigned int ibv_flow_action_esp_replay;
typedef unsigned int ibv_flow_action_esp_flags;
typedef unsigned int ibv_counter_description;
typedef unsigned int ibv_read_counters_flags;
typedef unsigned int ibv_qp_attach_comp_cntr_op;
typedef unsigned int ibv_comp_cntr_type;
typedef unsigned int ibv_values_mask;
typedef unsigned int ibv_tmh_op;
typedef unsigned int rdma_cm_event_type;
typedef unsigned int rdma_port_space;
typedef unsigned int rdma_cm_join_mc_attr_mask;
typedef unsigned int rdma_cm_mc_join_flags;
#define IBV_GID_TYPE_IB 0
#define IBV_GID_TYPE_ROCE_V1 1
#define IBV_GID_TYPE_ROCE_V2 2
#define IBV_MTU_256 1
#define IBV_MTU_512 2
#define IBV_MTU_1024 3
#define IBV_MTU_2048 4
#define IBV_MTU_4096 5
#define IBV_PORT_NOP 0
#define IBV_PORT_DOWN 1
#define IBV_PORT_INIT 2
#define IBV_PORT_ARMED 3
#define IBV_PORT_ACTIVE 4
#define IBV_PORT_ACTIVE_DEFER 5
#define IBV_PORT_SM 2
#define IBV_PORT_NOTICE_SUP 4
#define IBV_PORT_TRAP_SUP 8
#define IBV_PORT_OPT_IPD_SUP 16
#define IBV_PORT_AUTO_MIGR_SUP 32
#define IBV_PORT_SL_MAP_SUP 64
#define IBV_PORT_MKEY_NVRAM 128
#define IBV_PORT_PKEY_NVRAM 256
#define IBV_PORT_LED_INFO_SUP 512
#define IBV_PORT_SYS_IMAGE_GUID_SUP 2048
#define IBV_PORT_PKEY_SW_EXT_PORT_TRAP_SUP 4096
#define IBV_PORT_EXTENDED_SPEEDS_SUP 16384
#define IBV_PORT_CAP_MASK2_SUP 32768
#define IBV_PORT_CM_SUP 65536
#define IBV_PORT_SNMP_TUNNEL_SUP 131072
#define IBV_PORT_REINIT_SUP 262144
#define IBV_PORT_DEVICE_MGMT_SUP 524288
#define IBV_PORT_VENDOR_CLASS_SUP 1048576
#define IBV_PORT_DR_NOTICE_SUP 2097152
#define IBV_PORT_CAP_MASK_NOTICE_SUP 4194304
#define IBV_PORT_BOOT_MGMT_SUP 8388608
#define IBV_PORT_LINK_LATENCY_SUP 16777216
#define IBV_PORT_CLIENT_REG_SUP 33554432
#define IBV_PORT_IP_BASED_GIDS 67108864
#define IBV_PORT_SET_NODE_DESC_SUP 1
#define IBV_PORT_INFO_EXT_SUP 2
#define IBV_PORT_VIRT_SUP 4
#define IBV_PORT_SWITCH_PORT_STATE_TABLE_SUP 8
#define IBV_PORT_LINK_WIDTH_2X_SUP 16
#define IBV_PORT_LINK_SPEED_HDR_SUP 32
#define IBV_PORT_LINK_SPEED_NDR_SUP 1024
#define IBV_PORT_LINK_SPEED_XDR_SUP 4096
#define IBV_LINK_LAYER_UNSPECIFIED 0
#define IBV_LINK_LAYER_INFINIBAND 1
#define IBV_LINK_LAYER_ETHERNET 2
#define IBV_QPF_GRH_REQUIRED 1
#define ETHERNET_LL_SIZE 6
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MIN 49152
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MAX 65535
#define IB_GRH_FLOWLABEL_MASK 1048575
#define IBV_NODE_UNKNOWN -1
#define IBV_NODE_CA 1
#define IBV_NODE_SWITCH 2
#define IBV_NODE_ROUTER 3
#define IBV_NODE_RNIC 4
#define IBV_NODE_USNIC 5
#define IBV_NODE_USNIC_UDP 6
#define IBV_NODE_UNSPECIFIED 7
#define IBV_TRANSPORT_UNKNOWN -1
#define IBV_TRANSPORT_IB 0
#define IBV_TRANSPORT_IWARP 1
#define IBV_TRANSPORT_USNIC 2
#define IBV_TRANSPORT_USNIC_UDP 3
#define IBV_TRANSPORT_UNSPECIFIED 4
#define IBV_DEVICE_RESIZE_MAX_WR 1
#define IBV_DEVICE_BAD_PKEY_CNTR 2
#define IBV_DEVICE_BAD_QKEY_CNTR 4
#define IBV_DEVICE_RAW_MULTI 8
#define IBV_DEVICE_AUTO_PATH_MIG 16
#define IBV_DEVICE_CHANGE_PHY_PORT 32
#define IBV_DEVICE_UD_AV_PORT_ENFORCE 64
#define IBV_DEVICE_CURR_QP_STATE_MOD 128
#define IBV_DEVICE_SHUTDOWN_PORT 256
#define IBV_DEVICE_INIT_TYPE 512
#define IBV_DEVICE_PORT_ACTIVE_EVENT 1024
#define IBV_DEVICE_SYS_IMAGE_GUID 2048
#define IBV_DEVICE_RC_RNR_NAK_GEN 4096
#define IBV_DEVICE_SRQ_RESIZE 8192
#define IBV_DEVICE_N_NOTIFY_CQ 16384
#define IBV_DEVICE_MEM_WINDOW 131072
#define IBV_DEVICE_UD_IP_CSUM 262144
#define IBV_DEVICE_XRC 1048576
#define IBV_DEVICE_MEM_MGT_EXTENSIONS 2097152
#define IBV_DEVICE_MEM_WINDOW_TYPE_2A 8388608
#define IBV_DEVICE_MEM_WINDOW_TYPE_2B 16777216
#define IBV_DEVICE_RC_IP_CSUM 33554432
#define IBV_DEVICE_RAW_IP_CSUM 67108864
#define IBV_DEVICE_MANAGED_FLOW_STEERING 536870912
#define IBV_FORK_DISABLED 0
#define IBV_FORK_ENABLED 1
#define IBV_FORK_UNNEEDED 2
#define IBV_ATOMIC_NONE 0
#define IBV_ATOMIC_HCA 1
#define IBV_ATOMIC_GLOB 2
#define IBV_ODP_SUPPORT 1
#define IBV_ODP_SUPPORT_IMPLICIT 2
#define IBV_ODP_SUPPORT_SEND 1
#define IBV_ODP_SUPPORT_RECV 2
#define IBV_ODP_SUPPORT_WRITE 4
#define IBV_ODP_SUPPORT_READ 8
#define IBV_ODP_SUPPORT_ATOMIC 16
#define IBV_ODP_SUPPORT_SRQ_RECV 32
#define IBV_ODP_SUPPORT_FLUSH 64
#define IBV_ODP_SUPPORT_ATOMIC_WRITE 128
#define IBV_RX_HASH_FUNC_TOEPLITZ 1
#define IBV_RX_HASH_SRC_IPV4 1
#define IBV_RX_HASH_DST_IPV4 2
#define IBV_RX_HASH_SRC_IPV6 4
#define IBV_RX_HASH_DST_IPV6 8
#define IBV_RX_HASH_SRC_PORT_TCP 16
#define IBV_RX_HASH_DST_PORT_TCP 32
#define IBV_RX_HASH_SRC_PORT_UDP 64
#define IBV_RX_HASH_DST_PORT_UDP 128
#define IBV_RX_HASH_IPSEC_SPI 256
#define IBV_RX_HASH_INNER 2147483648U
#define IBV_RAW_PACKET_CAP_CVLAN_STRIPPING 1
#define IBV_RAW_PACKET_CAP_SCATTER_FCS 2
#define IBV_RAW_PACKET_CAP_IP_CSUM 4
#define IBV_RAW_PACKET_CAP_DELAY_DROP 8
#define IBV_TM_CAP_RC 1
#define IBV_PCI_ATOMIC_OPERATION_4_BYTE_SIZE_SUP 1
#define IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP 2
#define IBV_PCI_ATOMIC_OPERATION_16_BYTE_SIZE_SUP 4
#define IBV_EVENT_CQ_ERR 0
#define IBV_EVENT_QP_FATAL 1
#define IBV_EVENT_QP_REQ_ERR 2
#define IBV_EVENT_QP_ACCESS_ERR 3
#define IBV_EVENT_COMM_EST 4
#define IBV_EVENT_SQ_DRAINED 5
#define IBV_EVENT_PATH_MIG 6
#define IBV_EVENT_PATH_MIG_ERR 7
#define IBV_EVENT_DEVICE_FATAL 8
#define IBV_EVENT_PORT_ACTIVE 9
#define IBV_EVENT_PORT_ERR 10
#define IBV_EVENT_LID_CHANGE 11
#define IBV_EVENT_PKEY_CHANGE 12
#define IBV_EVENT_SM_CHANGE 13
#define IBV_EVENT_SRQ_ERR 14
#define IBV_EVENT_SRQ_LIMIT_REACHED 15
#define IBV_EVENT_QP_LAST_WQE_REACHED 16
#define IBV_EVENT_CLIENT_REREGISTER 17
#define IBV_EVENT_GID_CHANGE 18
#define IBV_EVENT_WQ_FATAL 19
#define IBV_EVENT_DEVICE_SPEED_CHANGE 20
#define IBV_DEVICE_RAW_SCATTER_FCS 17179869184LL
#define IBV_DEVICE_PCI_WRITE_END_PADDING 68719476736LL
#define IBV_DEVICE_CC_DMA_BOUNCE 2199023255552LL
#define IBV_SYSFS_NAME_MAX 64
#define IBV_SYSFS_PATH_MAX 256
#define IBV_XRCD_INIT_ATTR_FD 1
#define IBV_XRCD_INIT_ATTR_OFLAGS 2
#define IBV_XRCD_INIT_ATTR_RESERVED 4
#define IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS 1
#define IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT 2
#define IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC 4
#define IBV_ALLOCATOR_USE_DEFAULT 18446744073709551615ULL
#define IBV_ACCESS_LOCAL_WRITE 1
#define IBV_ACCESS_REMOTE_WRITE 2
#define IBV_ACCESS_REMOTE_READ 4
#define IBV_ACCESS_REMOTE_ATOMIC 8
#define IBV_ACCESS_MW_BIND 16
#define IBV_ACCESS_ZERO_BASED 32
#define IBV_ACCESS_ON_DEMAND 64
#define IBV_ACCESS_HUGETLB 128
#define IBV_ACCESS_FLUSH_GLOBAL 256
#define IBV_ACCESS_FLUSH_PERSISTENT 512
#define IBV_ACCESS_RELAXED_ORDERING 1048576
#define IBV_REREG_MR_CHANGE_TRANSLATION 1
#define IBV_REREG_MR_CHANGE_PD 2
#define IBV_REREG_MR_CHANGE_ACCESS 4
#define IBV_REREG_MR_FLAGS_SUPPORTED 7
#define IBV_REREG_MR_ERR_INPUT -1
#define IBV_REREG_MR_ERR_DONT_FORK_NEW -2
#define IBV_REREG_MR_ERR_DO_FORK_OLD -3
#define IBV_REREG_MR_ERR_CMD -4
#define IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW -5
#define IBV_REG_MR_MASK_IOVA 1
#define IBV_REG_MR_MASK_ADDR 2
#define IBV_REG_MR_MASK_FD 4
#define IBV_REG_MR_MASK_FD_OFFSET 8
#define IBV_REG_MR_MASK_DMAH 16
#define IBV_REG_MR_MASK_BUF 32
#define IBV_ADVISE_MR_ADVICE_PREFETCH 0
#define IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE 1
#define IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT 2
#define IBV_MW_TYPE_1 1
#define IBV_MW_TYPE_2 2
#define IBV_DM_MASK_HANDLE 1
#define IBV_TPH_MEM_TYPE_VM 0
#define IBV_TPH_MEM_TYPE_PM 1
#define IBV_DMAH_INIT_ATTR_MASK_CPU_ID 1
#define IBV_DMAH_INIT_ATTR_MASK_PH 2
#define IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE 4
#define IBV_ACCESS_OPTIONAL_FIRST 1048576
#define IBV_ACCESS_OPTIONAL_RANGE 1072693248
#define IBV_ADVISE_MR_FLAG_FLUSH 1
#define IBV_RATE_MAX 0
#define IBV_RATE_2_5_GBPS 2
#define IBV_RATE_5_GBPS 5
#define IBV_RATE_10_GBPS 3
#define IBV_RATE_20_GBPS 6
#define IBV_RATE_30_GBPS 4
#define IBV_RATE_40_GBPS 7
#define IBV_RATE_60_GBPS 8
#define IBV_RATE_80_GBPS 9
#define IBV_RATE_120_GBPS 10
#define IBV_RATE_14_GBPS 11
#define IBV_RATE_56_GBPS 12
#define IBV_RATE_112_GBPS 13
#define IBV_RATE_168_GBPS 14
#define IBV_RATE_25_GBPS 15
#define IBV_RATE_100_GBPS 16
#define IBV_RATE_200_GBPS 17
#define IBV_RATE_300_GBPS 18
#define IBV_RATE_28_GBPS 19
#define IBV_RATE_50_GBPS 20
#define IBV_RATE_400_GBPS 21
#define IBV_RATE_600_GBPS 22
#define IBV_RATE_800_GBPS 23
#define IBV_RATE_1200_GBPS 24
#define IBV_WC_SUCCESS 0
#define IBV_WC_LOC_LEN_ERR 1
#define IBV_WC_LOC_QP_OP_ERR 2
#define IBV_WC_LOC_EEC_OP_ERR 3
#define IBV_WC_LOC_PROT_ERR 4
#define IBV_WC_WR_FLUSH_ERR 5
#define IBV_WC_MW_BIND_ERR 6
#define IBV_WC_BAD_RESP_ERR 7
#define IBV_WC_LOC_ACCESS_ERR 8
#define IBV_WC_REM_INV_REQ_ERR 9
#define IBV_WC_REM_ACCESS_ERR 10
#define IBV_WC_REM_OP_ERR 11
#define IBV_WC_RETRY_EXC_ERR 12
#define IBV_WC_RNR_RETRY_EXC_ERR 13
#define IBV_WC_LOC_RDD_VIOL_ERR 14
#define IBV_WC_REM_INV_RD_REQ_ERR 15
#define IBV_WC_REM_ABORT_ERR 16
#define IBV_WC_INV_EECN_ERR 17
#define IBV_WC_INV_EEC_STATE_ERR 18
#define IBV_WC_FATAL_ERR 19
#define IBV_WC_RESP_TIMEOUT_ERR 20
#define IBV_WC_GENERAL_ERR 21
#define IBV_WC_TM_ERR 22
#define IBV_WC_TM_RNDV_INCOMPLETE 23
#define IBV_WC_SEND 0
#define IBV_WC_RDMA_WRITE 1
#define IBV_WC_RDMA_READ 2
#define IBV_WC_COMP_SWAP 3
#define IBV_WC_FETCH_ADD 4
#define IBV_WC_BIND_MW 5
#define IBV_WC_LOCAL_INV 6
#define IBV_WC_TSO 7
#define IBV_WC_FLUSH 8
#define IBV_WC_ATOMIC_WRITE 9
#define IBV_WC_RECV 128
#define IBV_WC_RECV_RDMA_WITH_IMM 129
#define IBV_WC_TM_ADD 130
#define IBV_WC_TM_DEL 131
#define IBV_WC_TM_SYNC 132
#define IBV_WC_TM_RECV 133
#define IBV_WC_TM_NO_TAG 134
#define IBV_WC_DRIVER1 135
#define IBV_WC_DRIVER2 136
#define IBV_WC_DRIVER3 137
#define IBV_WC_EX_WITH_BYTE_LEN 1
#define IBV_WC_EX_WITH_IMM 2
#define IBV_WC_EX_WITH_QP_NUM 4
#define IBV_WC_EX_WITH_SRC_QP 8
#define IBV_WC_EX_WITH_SLID 16
#define IBV_WC_EX_WITH_SL 32
#define IBV_WC_EX_WITH_DLID_PATH_BITS 64
#define IBV_WC_EX_WITH_COMPLETION_TIMESTAMP 128
#define IBV_WC_EX_WITH_CVLAN 256
#define IBV_WC_EX_WITH_FLOW_TAG 512
#define IBV_WC_EX_WITH_TM_INFO 1024
#define IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK 2048
#define IBV_WC_GRH 1
#define IBV_WC_WITH_IMM 2
#define IBV_WC_IP_CSUM_OK 4
#define IBV_WC_WITH_INV 8
#define IBV_WC_TM_SYNC_REQ 16
#define IBV_WC_TM_MATCH 32
#define IBV_WC_TM_DATA_VALID 64
#define IBV_CQ_ATTR_MODERATE 1
#define IBV_CQ_ATTR_RESERVED 2
#define IBV_CQ_INIT_ATTR_MASK_FLAGS 1
#define IBV_CQ_INIT_ATTR_MASK_PD 2
#define IBV_CREATE_CQ_ATTR_SINGLE_THREADED 1
#define IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN 2
#define IBV_WC_IP_CSUM_OK_SHIFT 2
#define IBV_WC_STANDARD_FLAGS 127
#define IBV_CREATE_CQ_SUP_WC_FLAGS 4095
#define IBV_SRQ_MAX_WR 1
#define IBV_SRQ_LIMIT 2
#define IBV_SRQT_BASIC 0
#define IBV_SRQT_XRC 1
#define IBV_SRQT_TM 2
#define IBV_SRQ_INIT_ATTR_TYPE 1
#define IBV_SRQ_INIT_ATTR_PD 2
#define IBV_SRQ_INIT_ATTR_XRCD 4
#define IBV_SRQ_INIT_ATTR_CQ 8
#define IBV_SRQ_INIT_ATTR_TM 16
#define IBV_SRQ_INIT_ATTR_RESERVED 32
#define IBV_WQT_RQ 0
#define IBV_WQ_INIT_ATTR_FLAGS 1
#define IBV_WQ_INIT_ATTR_RESERVED 2
#define IBV_WQ_FLAGS_CVLAN_STRIPPING 1
#define IBV_WQ_FLAGS_SCATTER_FCS 2
#define IBV_WQ_FLAGS_DELAY_DROP 4
#define IBV_WQ_FLAGS_PCI_WRITE_END_PADDING 8
#define IBV_WQ_FLAGS_RESERVED 16
#define IBV_WQS_RESET 0
#define IBV_WQS_RDY 1
#define IBV_WQS_ERR 2
#define IBV_WQS_UNKNOWN 3
#define IBV_WQ_ATTR_STATE 1
#define IBV_WQ_ATTR_CURR_STATE 2
#define IBV_WQ_ATTR_FLAGS 4
#define IBV_WQ_ATTR_RESERVED 8
#define IBV_CREATE_IND_TABLE_RESERVED 1
#define IBV_WR_RDMA_WRITE 0
#define IBV_WR_RDMA_WRITE_WITH_IMM 1
#define IBV_WR_SEND 2
#define IBV_WR_SEND_WITH_IMM 3
#define IBV_WR_RDMA_READ 4
#define IBV_WR_ATOMIC_CMP_AND_SWP 5
#define IBV_WR_ATOMIC_FETCH_AND_ADD 6
#define IBV_WR_LOCAL_INV 7
#define IBV_WR_BIND_MW 8
#define IBV_WR_SEND_WITH_INV 9
#define IBV_WR_TSO 10
#define IBV_WR_DRIVER1 11
#define IBV_WR_FLUSH 14
#define IBV_WR_ATOMIC_WRITE 15
#define IBV_SEND_FENCE 1
#define IBV_SEND_SIGNALED 2
#define IBV_SEND_SOLICITED 4
#define IBV_SEND_INLINE 8
#define IBV_SEND_IP_CSUM 16
#define IBV_FLUSH_GLOBAL 1
#define IBV_FLUSH_PERSISTENT 2
#define IBV_FLUSH_RANGE 0
#define IBV_FLUSH_MR 1
#define IBV_WR_TAG_ADD 0
#define IBV_WR_TAG_DEL 1
#define IBV_WR_TAG_SYNC 2
#define IBV_OPS_SIGNALED 1
#define IBV_OPS_TM_SYNC 2
#define IBV_QPT_RC 2
#define IBV_QPT_UC 3
#define IBV_QPT_UD 4
#define IBV_QPT_RAW_PACKET 8
#define IBV_QPT_XRC_SEND 9
#define IBV_QPT_XRC_RECV 10
#define IBV_QPT_DRIVER 255
#define IBV_QPS_RESET 0
#define IBV_QPS_INIT 1
#define IBV_QPS_RTR 2
#define IBV_QPS_RTS 3
#define IBV_QPS_SQD 4
#define IBV_QPS_SQE 5
#define IBV_QPS_ERR 6
#define IBV_QPS_UNKNOWN 7
#define IBV_MIG_MIGRATED 0
#define IBV_MIG_REARM 1
#define IBV_MIG_ARMED 2
#define IBV_QP_INIT_ATTR_PD 1
#define IBV_QP_INIT_ATTR_XRCD 2
#define IBV_QP_INIT_ATTR_CREATE_FLAGS 4
#define IBV_QP_INIT_ATTR_MAX_TSO_HEADER 8
#define IBV_QP_INIT_ATTR_IND_TABLE 16
#define IBV_QP_INIT_ATTR_RX_HASH 32
#define IBV_QP_INIT_ATTR_SEND_OPS_FLAGS 64
#define IBV_QP_CREATE_BLOCK_SELF_MCAST_LB 2
#define IBV_QP_CREATE_SCATTER_FCS 256
#define IBV_QP_CREATE_CVLAN_STRIPPING 512
#define IBV_QP_CREATE_SOURCE_QPN 1024
#define IBV_QP_CREATE_PCI_WRITE_END_PADDING 2048
#define IBV_QP_EX_WITH_RDMA_WRITE 1
#define IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM 2
#define IBV_QP_EX_WITH_SEND 4
#define IBV_QP_EX_WITH_SEND_WITH_IMM 8
#define IBV_QP_EX_WITH_RDMA_READ 16
#define IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP 32
#define IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD 64
#define IBV_QP_EX_WITH_LOCAL_INV 128
#define IBV_QP_EX_WITH_BIND_MW 256
#define IBV_QP_EX_WITH_SEND_WITH_INV 512
#define IBV_QP_EX_WITH_TSO 1024
#define IBV_QP_EX_WITH_FLUSH 2048
#define IBV_QP_EX_WITH_ATOMIC_WRITE 4096
#define IBV_QP_OPEN_ATTR_NUM 1
#define IBV_QP_OPEN_ATTR_XRCD 2
#define IBV_QP_OPEN_ATTR_CONTEXT 4
#define IBV_QP_OPEN_ATTR_TYPE 8
#define IBV_QP_OPEN_ATTR_RESERVED 16
#define IBV_QP_STATE 1
#define IBV_QP_CUR_STATE 2
#define IBV_QP_EN_SQD_ASYNC_NOTIFY 4
#define IBV_QP_ACCESS_FLAGS 8
#define IBV_QP_PKEY_INDEX 16
#define IBV_QP_PORT 32
#define IBV_QP_QKEY 64
#define IBV_QP_AV 128
#define IBV_QP_PATH_MTU 256
#define IBV_QP_TIMEOUT 512
#define IBV_QP_RETRY_CNT 1024
#define IBV_QP_RNR_RETRY 2048
#define IBV_QP_RQ_PSN 4096
#define IBV_QP_MAX_QP_RD_ATOMIC 8192
#define IBV_QP_ALT_PATH 16384
#define IBV_QP_MIN_RNR_TIMER 32768
#define IBV_QP_SQ_PSN 65536
#define IBV_QP_MAX_DEST_RD_ATOMIC 131072
#define IBV_QP_PATH_MIG_STATE 262144
#define IBV_QP_CAP 524288
#define IBV_QP_DEST_QPN 1048576
#define IBV_QP_RATE_LIMIT 33554432
#define IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS 1
#define IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY 2
#define IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG 1
#define IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES 2
#define IBV_FLOW_ATTR_FLAGS_DONT_TRAP 2
#define IBV_FLOW_ATTR_FLAGS_EGRESS 4
#define IBV_FLOW_ATTR_NORMAL 0
#define IBV_FLOW_ATTR_ALL_DEFAULT 1
#define IBV_FLOW_ATTR_MC_DEFAULT 2
#define IBV_FLOW_ATTR_SNIFFER 3
#define IBV_FLOW_SPEC_ETH 32
#define IBV_FLOW_SPEC_IPV4 48
#define IBV_FLOW_SPEC_IPV6 49
#define IBV_FLOW_SPEC_IPV4_EXT 50
#define IBV_FLOW_SPEC_ESP 52
#define IBV_FLOW_SPEC_TCP 64
#define IBV_FLOW_SPEC_UDP 65
#define IBV_FLOW_SPEC_VXLAN_TUNNEL 80
#define IBV_FLOW_SPEC_GRE 81
#define IBV_FLOW_SPEC_MPLS 96
#define IBV_FLOW_SPEC_INNER 256
#define IBV_FLOW_SPEC_ACTION_TAG 4096
#define IBV_FLOW_SPEC_ACTION_DROP 4097
#define IBV_FLOW_SPEC_ACTION_HANDLE 4098
#define IBV_FLOW_SPEC_ACTION_COUNT 4099
#define IBV_FLOW_ACTION_ESP_MASK_ESN 1
#define IBV_FLOW_ACTION_ESP_KEYMAT_AES_GCM 0
#define IBV_FLOW_ACTION_IV_ALGO_SEQ 0
#define IBV_FLOW_ACTION_ESP_REPLAY_NONE 0
#define IBV_FLOW_ACTION_ESP_REPLAY_BMP 1
#define IBV_FLOW_ACTION_ESP_FLAGS_INLINE_CRYPTO 0
#define IBV_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD 1
#define IBV_FLOW_ACTION_ESP_FLAGS_TUNNEL 0
#define IBV_FLOW_ACTION_ESP_FLAGS_TRANSPORT 2
#define IBV_FLOW_ACTION_ESP_FLAGS_DECRYPT 0
#define IBV_FLOW_ACTION_ESP_FLAGS_ENCRYPT 4
#define IBV_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW 8
#define IBV_COUNTER_PACKETS 0
#define IBV_COUNTER_BYTES 1
#define IBV_READ_COUNTERS_ATTR_PREFER_CACHED 1
#define IBV_QP_ATTACH_COMP_CNTR_OP_SEND 1
#define IBV_QP_ATTACH_COMP_CNTR_OP_RECV 2
#define IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ 4
#define IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ 8
#define IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE 16
#define IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE 32
#define IBV_COMP_CNTR_TYPE_WRS 0
#define IBV_COMP_CNTR_TYPE_BYTES 1
#define IBV_VALUES_MASK_RAW_CLOCK 1
#define IBV_VALUES_MASK_RESERVED 2
#define __VERBS_ABI_IS_EXTENDED 18446744073709551615ULL
#define IBV_TMH_NO_TAG 0
#define IBV_TMH_RNDV 1
#define IBV_TMH_FIN 2
#define IBV_TMH_EAGER 3
#define IBV_PATH_RECORD_REVERSIBLE 128
#define IBV_PATH_FLAG_GMP 1
#define IBV_PATH_FLAG_PRIMARY 2
#define IBV_PATH_FLAG_ALTERNATE 4
#define IBV_PATH_FLAG_OUTBOUND 8
#define IBV_PATH_FLAG_INBOUND 16
#define IBV_PATH_FLAG_INBOUND_REVERSE 32
#define IBV_PATH_FLAG_BIDIRECTIONAL 40
#define IBV_OPCODE_RC 0
#define IBV_OPCODE_UC 32
#define IBV_OPCODE_RD 64
#define IBV_OPCODE_UD 96
#define IBV_OPCODE_SEND_FIRST 0
#define IBV_OPCODE_SEND_MIDDLE 1
#define IBV_OPCODE_SEND_LAST 2
#define IBV_OPCODE_SEND_LAST_WITH_IMMEDIATE 3
#define IBV_OPCODE_SEND_ONLY 4
#define IBV_OPCODE_SEND_ONLY_WITH_IMMEDIATE 5
#define IBV_OPCODE_RDMA_WRITE_FIRST 6
#define IBV_OPCODE_RDMA_WRITE_MIDDLE 7
#define IBV_OPCODE_RDMA_WRITE_LAST 8
#define IBV_OPCODE_RDMA_WRITE_LAST_WITH_IMMEDIATE 9
#define IBV_OPCODE_RDMA_WRITE_ONLY 10
#define IBV_OPCODE_RDMA_WRITE_ONLY_WITH_IMMEDIATE 11
#define IBV_OPCODE_RDMA_READ_REQUEST 12
#define IBV_OPCODE_RDMA_READ_RESPONSE_FIRST 13
#define IBV_OPCODE_RDMA_READ_RESPONSE_MIDDLE 14
#define IBV_OPCODE_RDMA_READ_RESPONSE_LAST 15
#define IBV_OPCODE_RDMA_READ_RESPONSE_ONLY 16
#define IBV_OPCODE_ACKNOWLEDGE 17
#define IBV_OPCODE_ATOMIC_ACKNOWLEDGE 18
#define IBV_OPCODE_COMPARE_SWAP 19
#define IBV_OPCODE_FETCH_ADD 20
#define IBV_OPCODE_RC_SEND_FIRST 0
#define IBV_OPCODE_RC_SEND_MIDDLE 1
#define IBV_OPCODE_RC_SEND_LAST 2
#define IBV_OPCODE_RC_SEND_LAST_WITH_IMMEDIATE 3
#define IBV_OPCODE_RC_SEND_ONLY 4
#define IBV_OPCODE_RC_SEND_ONLY_WITH_IMMEDIATE 5
#define IBV_OPCODE_RC_RDMA_WRITE_FIRST 6
#define IBV_OPCODE_RC_RDMA_WRITE_MIDDLE 7
#define IBV_OPCODE_RC_RDMA_WRITE_LAST 8
#define IBV_OPCODE_RC_RDMA_WRITE_LAST_WITH_IMMEDIATE 9
#define IBV_OPCODE_RC_RDMA_WRITE_ONLY 10
#define IBV_OPCODE_RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE 11
#define IBV_OPCODE_RC_RDMA_READ_REQUEST 12
#define IBV_OPCODE_RC_RDMA_READ_RESPONSE_FIRST 13
#define IBV_OPCODE_RC_RDMA_READ_RESPONSE_MIDDLE 14
#define IBV_OPCODE_RC_RDMA_READ_RESPONSE_LAST 15
#define IBV_OPCODE_RC_RDMA_READ_RESPONSE_ONLY 16
#define IBV_OPCODE_RC_ACKNOWLEDGE 17
#define IBV_OPCODE_RC_ATOMIC_ACKNOWLEDGE 18
#define IBV_OPCODE_RC_COMPARE_SWAP 19
#define IBV_OPCODE_RC_FETCH_ADD 20
#define IBV_OPCODE_UC_SEND_FIRST 32
#define IBV_OPCODE_UC_SEND_MIDDLE 33
#define IBV_OPCODE_UC_SEND_LAST 34
#define IBV_OPCODE_UC_SEND_LAST_WITH_IMMEDIATE 35
#define IBV_OPCODE_UC_SEND_ONLY 36
#define IBV_OPCODE_UC_SEND_ONLY_WITH_IMMEDIATE 37
#define IBV_OPCODE_UC_RDMA_WRITE_FIRST 38
#define IBV_OPCODE_UC_RDMA_WRITE_MIDDLE 39
#define IBV_OPCODE_UC_RDMA_WRITE_LAST 40
#define IBV_OPCODE_UC_RDMA_WRITE_LAST_WITH_IMMEDIATE 41
#define IBV_OPCODE_UC_RDMA_WRITE_ONLY 42
#define IBV_OPCODE_UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE 43
#define IBV_OPCODE_RD_SEND_FIRST 64
#define IBV_OPCODE_RD_SEND_MIDDLE 65
#define IBV_OPCODE_RD_SEND_LAST 66
#define IBV_OPCODE_RD_SEND_LAST_WITH_IMMEDIATE 67
#define IBV_OPCODE_RD_SEND_ONLY 68
#define IBV_OPCODE_RD_SEND_ONLY_WITH_IMMEDIATE 69
#define IBV_OPCODE_RD_RDMA_WRITE_FIRST 70
#define IBV_OPCODE_RD_RDMA_WRITE_MIDDLE 71
#define IBV_OPCODE_RD_RDMA_WRITE_LAST 72
#define IBV_OPCODE_RD_RDMA_WRITE_LAST_WITH_IMMEDIATE 73
#define IBV_OPCODE_RD_RDMA_WRITE_ONLY 74
#define IBV_OPCODE_RD_RDMA_WRITE_ONLY_WITH_IMMEDIATE 75
#define IBV_OPCODE_RD_RDMA_READ_REQUEST 76
#define IBV_OPCODE_RD_RDMA_READ_RESPONSE_FIRST 77
#define IBV_OPCODE_RD_RDMA_READ_RESPONSE_MIDDLE 78
#define IBV_OPCODE_RD_RDMA_READ_RESPONSE_LAST 79
#define IBV_OPCODE_RD_RDMA_READ_RESPONSE_ONLY 80
#define IBV_OPCODE_RD_ACKNOWLEDGE 81
#define IBV_OPCODE_RD_ATOMIC_ACKNOWLEDGE 82
#define IBV_OPCODE_RD_COMPARE_SWAP 83
#define IBV_OPCODE_RD_FETCH_ADD 84
#define IBV_OPCODE_UD_SEND_ONLY 100
#define IBV_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE 101
#define RDMA_CM_EVENT_ADDR_RESOLVED 0
#define RDMA_CM_EVENT_ADDR_ERROR 1
#define RDMA_CM_EVENT_ROUTE_RESOLVED 2
#define RDMA_CM_EVENT_ROUTE_ERROR 3
#define RDMA_CM_EVENT_CONNECT_REQUEST 4
#define RDMA_CM_EVENT_CONNECT_RESPONSE 5
#define RDMA_CM_EVENT_CONNECT_ERROR 6
#define RDMA_CM_EVENT_UNREACHABLE 7
#define RDMA_CM_EVENT_REJECTED 8
#define RDMA_CM_EVENT_ESTABLISHED 9
#define RDMA_CM_EVENT_DISCONNECTED 10
#define RDMA_CM_EVENT_DEVICE_REMOVAL 11
#define RDMA_CM_EVENT_MULTICAST_JOIN 12
#define RDMA_CM_EVENT_MULTICAST_ERROR 13
#define RDMA_CM_EVENT_ADDR_CHANGE 14
#define RDMA_CM_EVENT_TIMEWAIT_EXIT 15
#define RDMA_CM_EVENT_ADDRINFO_RESOLVED 16
#define RDMA_CM_EVENT_ADDRINFO_ERROR 17
#define RDMA_CM_EVENT_USER 18
#define RDMA_CM_EVENT_INTERNAL 19
#define RDMA_PS_IPOIB 2
#define RDMA_PS_TCP 262
#define RDMA_PS_UDP 273
#define RDMA_PS_IB 319
#define RDMA_CM_JOIN_MC_ATTR_ADDRESS 1
#define RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS 2
#define RDMA_CM_JOIN_MC_ATTR_RESERVED 4
#define RDMA_MC_JOIN_FLAG_FULLMEMBER 0
#define RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER 1
#define RDMA_MC_JOIN_FLAG_RESERVED 2
#define RDMA_IB_IP_PS_MASK 18446744073709486080ULL
#define RDMA_IB_IP_PORT_MASK 65535
#define RDMA_IB_IP_PS_TCP 17170432
#define RDMA_IB_IP_PS_UDP 17891328
#define RDMA_IB_PS_IB 20905984
#define RDMA_UDP_QKEY 19088743
#define RDMA_MAX_RESP_RES 255
#define RDMA_MAX_INIT_DEPTH 255
#define RAI_PASSIVE 1
#define RAI_NUMERICHOST 2
#define RAI_NOROUTE 4
#define RAI_FAMILY 8
#define RAI_SA 16
#define RAI_DNS 32
#define RDMA_OPTION_ID 0
#define RDMA_OPTION_IB 1
#define RDMA_OPTION_ID_TOS 0
#define RDMA_OPTION_ID_REUSEADDR 1
#define RDMA_OPTION_ID_AFONLY 2
#define RDMA_OPTION_ID_ACK_TIMEOUT 3
#define RDMA_OPTION_IB_PATH 1
#define SOL_RDMA 65536
#define RDMA_SQSIZE 0
#define RDMA_RQSIZE 1
#define RDMA_INLINE 2
#define RDMA_IOMAPSIZE 3
#define RDMA_ROUTE 4
typedef struct ibv_gid_global ibv_gid_global;
typedef union ibv_gid ibv_gid;
typedef struct ibv_gid_entry ibv_gid_entry;
typedef struct ibv_port_attr ibv_port_attr;
typedef struct _ibv_device_ops _ibv_device_ops;
typedef struct ibv_device ibv_device;
typedef struct ibv_device_attr ibv_device_attr;
typedef struct ibv_query_device_ex_input ibv_query_device_ex_input;
typedef struct ibv_odp_transport_caps ibv_odp_transport_caps;
typedef struct ibv_odp_caps ibv_odp_caps;
typedef struct ibv_tso_caps ibv_tso_caps;
typedef struct ibv_rss_caps ibv_rss_caps;
typedef struct ibv_packet_pacing_caps ibv_packet_pacing_caps;
typedef struct ibv_tm_caps ibv_tm_caps;
typedef struct ibv_cq_moderation_caps ibv_cq_moderation_caps;
typedef struct ibv_pci_atomic_caps ibv_pci_atomic_caps;
typedef struct ibv_device_attr_ex ibv_device_attr_ex;
typedef union ibv_async_event_element ibv_async_event_element;
typedef struct ibv_async_event ibv_async_event;
typedef struct ibv_fd_arr ibv_fd_arr;
typedef struct ibv_pd ibv_pd;
typedef struct ibv_td_init_attr ibv_td_init_attr;
typedef struct ibv_td ibv_td;
typedef struct ibv_xrcd_init_attr ibv_xrcd_init_attr;
typedef struct ibv_xrcd ibv_xrcd;
typedef struct ibv_parent_domain_init_attr ibv_parent_domain_init_attr;
typedef struct ibv_mr ibv_mr;
typedef struct ibv_mr_init_attr ibv_mr_init_attr;
typedef struct ibv_mw ibv_mw;
typedef struct ibv_mw_bind_info ibv_mw_bind_info;
typedef struct ibv_mw_bind ibv_mw_bind;
typedef struct ibv_alloc_dm_attr ibv_alloc_dm_attr;
typedef struct ibv_dm ibv_dm;
typedef struct ibv_dmah ibv_dmah;
typedef struct ibv_dmah_init_attr ibv_dmah_init_attr;
typedef struct ibv_global_route ibv_global_route;
typedef struct ibv_grh ibv_grh;
typedef struct ibv_ah_attr ibv_ah_attr;
typedef struct ibv_ah ibv_ah;
typedef union ibv_wc_imm ibv_wc_imm;
typedef struct ibv_wc ibv_wc;
typedef struct ibv_comp_channel ibv_comp_channel;
typedef struct ibv_cq ibv_cq;
typedef struct ibv_poll_cq_attr ibv_poll_cq_attr;
typedef struct ibv_wc_tm_info ibv_wc_tm_info;
typedef struct ibv_cq_ex ibv_cq_ex;
typedef struct ibv_moderate_cq ibv_moderate_cq;
typedef struct ibv_modify_cq_attr ibv_modify_cq_attr;
typedef struct ibv_cq_init_attr_ex ibv_cq_init_attr_ex;
typedef struct ibv_srq_attr ibv_srq_attr;
typedef struct ibv_srq_init_attr ibv_srq_init_attr;
typedef struct ibv_tm_cap ibv_tm_cap;
typedef struct ibv_srq_init_attr_ex ibv_srq_init_attr_ex;
typedef struct ibv_srq ibv_srq;
typedef struct ibv_wq_init_attr ibv_wq_init_attr;
typedef struct ibv_wq_attr ibv_wq_attr;
typedef struct ibv_wq ibv_wq;
typedef struct ibv_rwq_ind_table ibv_rwq_ind_table;
typedef struct ibv_rwq_ind_table_init_attr ibv_rwq_ind_table_init_attr;
typedef struct ibv_data_buf ibv_data_buf;
typedef struct ibv_sge ibv_sge;
typedef union ibv_send_wr_imm ibv_send_wr_imm;
typedef struct ibv_send_wr_rdma ibv_send_wr_rdma;
typedef struct ibv_send_wr_atomic ibv_send_wr_atomic;
typedef struct ibv_send_wr_ud ibv_send_wr_ud;
typedef union ibv_send_wr_wr ibv_send_wr_wr;
typedef struct ibv_send_wr_xrc ibv_send_wr_xrc;
typedef union ibv_send_wr_qp_type ibv_send_wr_qp_type;
typedef struct ibv_send_wr_bind_mw ibv_send_wr_bind_mw;
typedef struct ibv_send_wr_tso ibv_send_wr_tso;
typedef union ibv_send_wr_op ibv_send_wr_op;
typedef struct ibv_send_wr ibv_send_wr;
typedef struct ibv_recv_wr ibv_recv_wr;
typedef struct ibv_ops_wr_add ibv_ops_wr_add;
typedef struct ibv_ops_wr_tm ibv_ops_wr_tm;
typedef struct ibv_ops_wr ibv_ops_wr;
typedef struct ibv_qp_cap ibv_qp_cap;
typedef struct ibv_qp_init_attr ibv_qp_init_attr;
typedef struct ibv_rx_hash_conf ibv_rx_hash_conf;
typedef struct ibv_qp_init_attr_ex ibv_qp_init_attr_ex;
typedef struct ibv_qp_open_attr ibv_qp_open_attr;
typedef struct ibv_qp_attr ibv_qp_attr;
typedef struct ibv_qp_rate_limit_attr ibv_qp_rate_limit_attr;
typedef struct ibv_qp ibv_qp;
typedef struct ibv_ece ibv_ece;
typedef struct ibv_qp_ex ibv_qp_ex;
typedef struct ibv_flow_eth_filter ibv_flow_eth_filter;
typedef struct ibv_flow_spec_eth ibv_flow_spec_eth;
typedef struct ibv_flow_ipv4_filter ibv_flow_ipv4_filter;
typedef struct ibv_flow_spec_ipv4 ibv_flow_spec_ipv4;
typedef struct ibv_flow_ipv4_ext_filter ibv_flow_ipv4_ext_filter;
typedef struct ibv_flow_spec_ipv4_ext ibv_flow_spec_ipv4_ext;
typedef struct ibv_flow_ipv6_filter ibv_flow_ipv6_filter;
typedef struct ibv_flow_spec_ipv6 ibv_flow_spec_ipv6;
typedef struct ibv_flow_esp_filter ibv_flow_esp_filter;
typedef struct ibv_flow_spec_esp ibv_flow_spec_esp;
typedef struct ibv_flow_tcp_udp_filter ibv_flow_tcp_udp_filter;
typedef struct ibv_flow_spec_tcp_udp ibv_flow_spec_tcp_udp;
typedef struct ibv_flow_gre_filter ibv_flow_gre_filter;
typedef struct ibv_flow_spec_gre ibv_flow_spec_gre;
typedef struct ibv_flow_mpls_filter ibv_flow_mpls_filter;
typedef struct ibv_flow_spec_mpls ibv_flow_spec_mpls;
typedef struct ibv_flow_tunnel_filter ibv_flow_tunnel_filter;
typedef struct ibv_flow_spec_tunnel ibv_flow_spec_tunnel;
typedef struct ibv_flow_spec_action_tag ibv_flow_spec_action_tag;
typedef struct ibv_flow_spec_action_drop ibv_flow_spec_action_drop;
typedef struct ibv_flow_spec_action_handle ibv_flow_spec_action_handle;
typedef struct ibv_flow_spec_counter_action ibv_flow_spec_counter_action;
typedef struct ibv_flow_spec_hdr ibv_flow_spec_hdr;
typedef union ibv_flow_spec ibv_flow_spec;
typedef struct ibv_flow_attr ibv_flow_attr;
typedef struct ibv_flow ibv_flow;
typedef struct ibv_flow_action ibv_flow_action;
typedef struct ibv_flow_action_esp_keymat_aes_gcm ibv_flow_action_esp_keymat_aes_gcm;
typedef struct ibv_flow_action_esp_replay_bmp ibv_flow_action_esp_replay_bmp;
typedef struct ibv_flow_action_esp_encap ibv_flow_action_esp_encap;
typedef struct ibv_flow_action_esp ibv_flow_action_esp;
typedef struct ibv_flow_action_esp_attr ibv_flow_action_esp_attr;
typedef struct ibv_counters_init_attr ibv_counters_init_attr;
typedef struct ibv_counters ibv_counters;
typedef struct ibv_counter_attach_attr ibv_counter_attach_attr;
typedef struct ibv_comp_cntr_caps ibv_comp_cntr_caps;
typedef struct ibv_comp_cntr ibv_comp_cntr;
typedef struct ibv_comp_cntr_init_attr ibv_comp_cntr_init_attr;
typedef struct ibv_qp_attach_comp_cntr_attr ibv_qp_attach_comp_cntr_attr;
typedef struct ibv_context_ops ibv_context_ops;
typedef struct ibv_context ibv_context;
typedef struct ibv_values_ex ibv_values_ex;
typedef struct verbs_context verbs_context;
typedef struct ibv_tmh ibv_tmh;
typedef struct ibv_rvh ibv_rvh;
typedef struct ibv_sa_path_rec ibv_sa_path_rec;
typedef struct ibv_sa_mcmember_rec ibv_sa_mcmember_rec;
typedef struct ibv_sa_service_rec ibv_sa_service_rec;
typedef struct ibv_path_record ibv_path_record;
typedef struct ibv_path_data ibv_path_data;
typedef struct rdma_ib_addr rdma_ib_addr;
typedef union rdma_addr_src rdma_addr_src;
typedef union rdma_addr_dst rdma_addr_dst;
typedef union rdma_addr_addr rdma_addr_addr;
typedef struct rdma_addr rdma_addr;
typedef struct rdma_route rdma_route;
typedef struct rdma_event_channel rdma_event_channel;
typedef struct rdma_cm_id rdma_cm_id;
typedef struct rdma_conn_param rdma_conn_param;
typedef struct rdma_ud_param rdma_ud_param;
typedef union rdma_cm_event_param rdma_cm_event_param;
typedef struct rdma_cm_event rdma_cm_event;
typedef struct rdma_addrinfo rdma_addrinfo;
typedef struct rdma_cm_join_mc_attr_ex rdma_cm_join_mc_attr_ex;
struct pollfd;
struct timeval;
struct msghdr;
struct iovec;
struct epoll_event;
struct _compat_ibv_port_attr;
struct ibv_buf;
struct verbs_ex_private;
struct ib_uverbs_qp_attr;
struct ib_uverbs_ah_attr;
struct ib_user_path_rec;
struct ibv_gid_global {
	__be64 subnet_prefix;
	__be64 interface_id;
};
struct ibv_port_attr {
	ibv_port_state state;
	ibv_mtu max_mtu;
	ibv_mtu active_mtu;
	int gid_tbl_len;
	uint32_t port_cap_flags;
	uint32_t max_msg_sz;
	uint32_t bad_pkey_cntr;
	uint32_t qkey_viol_cntr;
	uint16_t pkey_tbl_len;
	uint16_t lid;
	uint16_t sm_lid;
	uint8_t lmc;
	uint8_t max_vl_num;
	uint8_t sm_sl;
	uint8_t subnet_timeout;
	uint8_t init_type_reply;
	uint8_t active_width;
	uint8_t active_speed;
	uint8_t phys_state;
	uint8_t link_layer;
	uint8_t flags;
	uint16_t port_cap_flags2;
	uint32_t active_speed_ex;
};
struct _ibv_device_ops {
	__typeof__(ibv_context * (*)(ibv_device *, int)) _dummy1;
	__typeof__(void (*)(ibv_context *)) _dummy2;
};
struct ibv_device_attr {
	__typeof__(char[64]) fw_ver;
	__be64 node_guid;
	__be64 sys_image_guid;
	uint64_t max_mr_size;
	uint64_t page_size_cap;
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int max_qp;
	int max_qp_wr;
	unsigned int device_cap_flags;
	int max_sge;
	int max_sge_rd;
	int max_cq;
	int max_cqe;
	int max_mr;
	int max_pd;
	int max_qp_rd_atom;
	int max_ee_rd_atom;
	int max_res_rd_atom;
	int max_qp_init_rd_atom;
	int max_ee_init_rd_atom;
	ibv_atomic_cap atomic_cap;
	int max_ee;
	int max_rdd;
	int max_mw;
	int max_raw_ipv6_qp;
	int max_raw_ethy_qp;
	int max_mcast_grp;
	int max_mcast_qp_attach;
	int max_total_mcast_qp_attach;
	int max_ah;
	int max_fmr;
	int max_map_per_fmr;
	int max_srq;
	int max_srq_wr;
	int max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay;
	uint8_t phys_port_cnt;
};
struct ibv_query_device_ex_input {
	uint32_t comp_mask;
};
struct ibv_odp_transport_caps {
	uint32_t rc_odp_caps;
	uint32_t uc_odp_caps;
	uint32_t ud_odp_caps;
};
struct ibv_tso_caps {
	uint32_t max_tso;
	uint32_t supported_qpts;
};
struct ibv_rss_caps {
	uint32_t supported_qpts;
	uint32_t max_rwq_indirection_tables;
	uint32_t max_rwq_indirection_table_size;
	uint64_t rx_hash_fields_mask;
	uint8_t rx_hash_function;
};
struct ibv_packet_pacing_caps {
	uint32_t qp_rate_limit_min;
	uint32_t qp_rate_limit_max;
	uint32_t supported_qpts;
};
struct ibv_tm_caps {
	uint32_t max_rndv_hdr_size;
	uint32_t max_num_tags;
	uint32_t flags;
	uint32_t max_ops;
	uint32_t max_sge;
};
struct ibv_cq_moderation_caps {
	uint16_t max_cq_count;
	uint16_t max_cq_period;
};
struct ibv_pci_atomic_caps {
	uint16_t fetch_add;
	uint16_t swap;
	uint16_t compare_swap;
};
union ibv_async_event_element {
	ibv_cq * cq;
	ibv_qp * qp;
	ibv_srq * srq;
	ibv_wq * wq;
	int port_num;
};
struct ibv_fd_arr {
	int * arr;
	uint32_t count;
};
struct ibv_pd {
	ibv_context * context;
	uint32_t handle;
};
struct ibv_td_init_attr {
	uint32_t comp_mask;
};
struct ibv_td {
	ibv_context * context;
};
struct ibv_xrcd_init_attr {
	uint32_t comp_mask;
	int fd;
	int oflags;
};
struct ibv_xrcd {
	ibv_context * context;
};
struct ibv_parent_domain_init_attr {
	ibv_pd * pd;
	ibv_td * td;
	uint32_t comp_mask;
	__typeof__(void * (*)(ibv_pd *, void *, size_t, size_t, uint64_t)) alloc;
	__typeof__(void (*)(ibv_pd *, void *, void *, uint64_t)) free;
	void * pd_context;
};
struct ibv_mr {
	ibv_context * context;
	ibv_pd * pd;
	void * addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};
struct ibv_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void * addr;
	int fd;
	uint64_t fd_offset;
	ibv_dmah * dmah;
	struct ibv_buf * buf;
};
struct ibv_mw {
	ibv_context * context;
	ibv_pd * pd;
	uint32_t rkey;
	uint32_t handle;
	ibv_mw_type type;
};
struct ibv_mw_bind_info {
	ibv_mr * mr;
	uint64_t addr;
	uint64_t length;
	unsigned int mw_access_flags;
};
struct ibv_alloc_dm_attr {
	size_t length;
	uint32_t log_align_req;
	uint32_t comp_mask;
};
struct ibv_dm {
	ibv_context * context;
	__typeof__(int (*)(ibv_dm *, uint64_t, void const *, size_t)) memcpy_to_dm;
	__typeof__(int (*)(void *, ibv_dm *, uint64_t, size_t)) memcpy_from_dm;
	uint32_t comp_mask;
	uint32_t handle;
};
struct ibv_dmah {
	ibv_context * context;
};
struct ibv_dmah_init_attr {
	uint32_t comp_mask;
	uint32_t cpu_id;
	uint8_t ph;
	uint8_t tph_mem_type;
};
struct ibv_ah {
	ibv_context * context;
	ibv_pd * pd;
	uint32_t handle;
};
union ibv_wc_imm {
	__be32 imm_data;
	uint32_t invalidated_rkey;
};
struct ibv_comp_channel {
	ibv_context * context;
	int fd;
	int refcnt;
};
struct ibv_cq {
	ibv_context * context;
	ibv_comp_channel * channel;
	void * cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
};
struct ibv_poll_cq_attr {
	uint32_t comp_mask;
};
struct ibv_wc_tm_info {
	uint64_t tag;
	uint32_t priv;
};
struct ibv_cq_ex {
	ibv_context * context;
	ibv_comp_channel * channel;
	void * cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
	uint32_t comp_mask;
	ibv_wc_status status;
	uint64_t wr_id;
	__typeof__(int (*)(ibv_cq_ex *, ibv_poll_cq_attr *)) start_poll;
	__typeof__(int (*)(ibv_cq_ex *)) next_poll;
	__typeof__(void (*)(ibv_cq_ex *)) end_poll;
	__typeof__(ibv_wc_opcode (*)(ibv_cq_ex *)) read_opcode;
	__typeof__(uint32_t (*)(ibv_cq_ex *)) read_vendor_err;
	__typeof__(uint32_t (*)(ibv_cq_ex *)) read_byte_len;
	__typeof__(__be32 (*)(ibv_cq_ex *)) read_imm_data;
	__typeof__(uint32_t (*)(ibv_cq_ex *)) read_qp_num;
	__typeof__(uint32_t (*)(ibv_cq_ex *)) read_src_qp;
	__typeof__(unsigned int (*)(ibv_cq_ex *)) read_wc_flags;
	__typeof__(uint32_t (*)(ibv_cq_ex *)) read_slid;
	__typeof__(uint8_t (*)(ibv_cq_ex *)) read_sl;
	__typeof__(uint8_t (*)(ibv_cq_ex *)) read_dlid_path_bits;
	__typeof__(uint64_t (*)(ibv_cq_ex *)) read_completion_ts;
	__typeof__(uint16_t (*)(ibv_cq_ex *)) read_cvlan;
	__typeof__(uint32_t (*)(ibv_cq_ex *)) read_flow_tag;
	__typeof__(void (*)(ibv_cq_ex *, ibv_wc_tm_info *)) read_tm_info;
	__typeof__(uint64_t (*)(ibv_cq_ex *)) read_completion_wallclock_ns;
};
struct ibv_moderate_cq {
	uint16_t cq_count;
	uint16_t cq_period;
};
struct ibv_cq_init_attr_ex {
	uint32_t cqe;
	void * cq_context;
	ibv_comp_channel * channel;
	uint32_t comp_vector;
	uint64_t wc_flags;
	uint32_t comp_mask;
	uint32_t flags;
	ibv_pd * parent_domain;
};
struct ibv_srq_attr {
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t srq_limit;
};
struct ibv_tm_cap {
	uint32_t max_num_tags;
	uint32_t max_ops;
};
struct ibv_srq {
	ibv_context * context;
	void * srq_context;
	ibv_pd * pd;
	uint32_t handle;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};
struct ibv_wq_init_attr {
	void * wq_context;
	ibv_wq_type wq_type;
	uint32_t max_wr;
	uint32_t max_sge;
	ibv_pd * pd;
	ibv_cq * cq;
	uint32_t comp_mask;
	uint32_t create_flags;
};
struct ibv_wq_attr {
	uint32_t attr_mask;
	ibv_wq_state wq_state;
	ibv_wq_state curr_wq_state;
	uint32_t flags;
	uint32_t flags_mask;
};
struct ibv_wq {
	ibv_context * context;
	void * wq_context;
	ibv_pd * pd;
	ibv_cq * cq;
	uint32_t wq_num;
	uint32_t handle;
	ibv_wq_state state;
	ibv_wq_type wq_type;
	__typeof__(int (*)(ibv_wq *, ibv_recv_wr *, ibv_recv_wr * *)) post_recv;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
	uint32_t comp_mask;
};
struct ibv_rwq_ind_table {
	ibv_context * context;
	int ind_tbl_handle;
	int ind_tbl_num;
	uint32_t comp_mask;
};
struct ibv_rwq_ind_table_init_attr {
	uint32_t log_ind_tbl_size;
	ibv_wq * * ind_tbl;
	uint32_t comp_mask;
};
struct ibv_data_buf {
	void * addr;
	size_t length;
};
struct ibv_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};
union ibv_send_wr_imm {
	__be32 imm_data;
	uint32_t invalidate_rkey;
};
struct ibv_send_wr_rdma {
	uint64_t remote_addr;
	uint32_t rkey;
};
struct ibv_send_wr_atomic {
	uint64_t remote_addr;
	uint64_t compare_add;
	uint64_t swap;
	uint32_t rkey;
};
struct ibv_send_wr_ud {
	ibv_ah * ah;
	uint32_t remote_qpn;
	uint32_t remote_qkey;
};
struct ibv_send_wr_xrc {
	uint32_t remote_srqn;
};
struct ibv_send_wr_tso {
	void * hdr;
	uint16_t hdr_sz;
	uint16_t mss;
};
struct ibv_recv_wr {
	uint64_t wr_id;
	ibv_recv_wr * next;
	ibv_sge * sg_list;
	int num_sge;
};
struct ibv_ops_wr_add {
	uint64_t recv_wr_id;
	ibv_sge * sg_list;
	int num_sge;
	uint64_t tag;
	uint64_t mask;
};
struct ibv_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data;
};
struct ibv_rx_hash_conf {
	uint8_t rx_hash_function;
	uint8_t rx_hash_key_len;
	uint8_t * rx_hash_key;
	uint64_t rx_hash_fields_mask;
};
struct ibv_qp_open_attr {
	uint32_t comp_mask;
	uint32_t qp_num;
	ibv_xrcd * xrcd;
	void * qp_context;
	ibv_qp_type qp_type;
};
struct ibv_qp_rate_limit_attr {
	uint32_t rate_limit;
	uint32_t max_burst_sz;
	uint16_t typical_pkt_sz;
	uint32_t comp_mask;
};
struct ibv_qp {
	ibv_context * context;
	void * qp_context;
	ibv_pd * pd;
	ibv_cq * send_cq;
	ibv_cq * recv_cq;
	ibv_srq * srq;
	uint32_t handle;
	uint32_t qp_num;
	ibv_qp_state state;
	ibv_qp_type qp_type;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};
struct ibv_ece {
	uint32_t vendor_id;
	uint32_t options;
	uint32_t comp_mask;
};
struct ibv_flow_eth_filter {
	__typeof__(uint8_t[6]) dst_mac;
	__typeof__(uint8_t[6]) src_mac;
	uint16_t ether_type;
	uint16_t vlan_tag;
};
struct ibv_flow_ipv4_filter {
	uint32_t src_ip;
	uint32_t dst_ip;
};
struct ibv_flow_ipv4_ext_filter {
	uint32_t src_ip;
	uint32_t dst_ip;
	uint8_t proto;
	uint8_t tos;
	uint8_t ttl;
	uint8_t flags;
};
struct ibv_flow_ipv6_filter {
	__typeof__(uint8_t[16]) src_ip;
	__typeof__(uint8_t[16]) dst_ip;
	uint32_t flow_label;
	uint8_t next_hdr;
	uint8_t traffic_class;
	uint8_t hop_limit;
};
struct ibv_flow_esp_filter {
	uint32_t spi;
	uint32_t seq;
};
struct ibv_flow_tcp_udp_filter {
	uint16_t dst_port;
	uint16_t src_port;
};
struct ibv_flow_gre_filter {
	uint16_t c_ks_res0_ver;
	uint16_t protocol;
	uint32_t key;
};
struct ibv_flow_mpls_filter {
	uint32_t label;
};
struct ibv_flow_tunnel_filter {
	uint32_t tunnel_id;
};
struct ibv_flow_spec_action_tag {
	ibv_flow_spec_type type;
	uint16_t size;
	uint32_t tag_id;
};
struct ibv_flow_spec_action_drop {
	ibv_flow_spec_type type;
	uint16_t size;
};
struct ibv_flow_spec_action_handle {
	ibv_flow_spec_type type;
	uint16_t size;
	ibv_flow_action const * action;
};
struct ibv_flow_spec_counter_action {
	ibv_flow_spec_type type;
	uint16_t size;
	ibv_counters * counters;
};
struct ibv_flow_spec_hdr {
	ibv_flow_spec_type type;
	uint16_t size;
};
struct ibv_flow_attr {
	uint32_t comp_mask;
	ibv_flow_attr_type type;
	uint16_t size;
	uint16_t priority;
	uint8_t num_of_specs;
	uint8_t port;
	uint32_t flags;
};
struct ibv_flow {
	uint32_t comp_mask;
	ibv_context * context;
	uint32_t handle;
};
struct ibv_flow_action {
	ibv_context * context;
};
struct ibv_flow_action_esp_keymat_aes_gcm {
	__aligned_u64 iv;
	uint32_t iv_algo;
	uint32_t salt;
	uint32_t icv_len;
	uint32_t key_len;
	__typeof__(uint32_t[8]) aes_key;
};
struct ibv_flow_action_esp_replay_bmp {
	uint32_t size;
};
struct ibv_flow_action_esp_encap {
	void * val_ptr;
	ibv_flow_action_esp_encap * next_ptr;
	uint16_t len;
	uint16_t type;
};
struct ibv_flow_action_esp {
	uint32_t spi;
	uint32_t seq;
	uint32_t tfc_pad;
	uint32_t flags;
	__aligned_u64 hard_limit_pkts;
};
struct ibv_flow_action_esp_attr {
	ibv_flow_action_esp * esp_attr;
	ibv_flow_action_esp_keymat keymat_proto;
	uint16_t keymat_len;
	void * keymat_ptr;
	ibv_flow_action_esp_replay replay_proto;
	uint16_t replay_len;
	void * replay_ptr;
	ibv_flow_action_esp_encap * esp_encap;
	uint32_t comp_mask;
	uint32_t esn;
};
struct ibv_counters_init_attr {
	uint32_t comp_mask;
};
struct ibv_counters {
	ibv_context * context;
};
struct ibv_counter_attach_attr {
	ibv_counter_description counter_desc;
	uint32_t index;
	uint32_t comp_mask;
};
struct ibv_comp_cntr_caps {
	uint64_t max_value;
	uint32_t max_counters;
	uint32_t supported_qp_attach_ops;
};
struct ibv_comp_cntr {
	ibv_context * context;
	uint32_t handle;
};
struct ibv_comp_cntr_init_attr {
	uint32_t comp_mask;
	ibv_comp_cntr_type type;
	uint32_t flags;
};
struct ibv_qp_attach_comp_cntr_attr {
	uint32_t comp_mask;
	uint32_t op_mask;
};
struct ibv_context_ops {
	__typeof__(int (*)(ibv_context *, ibv_device_attr *)) _compat_query_device;
	__typeof__(int (*)(ibv_context *, uint8_t, struct _compat_ibv_port_attr *)) _compat_query_port;
	__typeof__(void * (*)(void)) _compat_alloc_pd;
	__typeof__(void * (*)(void)) _compat_dealloc_pd;
	__typeof__(void * (*)(void)) _compat_reg_mr;
	__typeof__(void * (*)(void)) _compat_rereg_mr;
	__typeof__(void * (*)(void)) _compat_dereg_mr;
	__typeof__(ibv_mw * (*)(ibv_pd *, ibv_mw_type)) alloc_mw;
	__typeof__(int (*)(ibv_qp *, ibv_mw *, ibv_mw_bind *)) bind_mw;
	__typeof__(int (*)(ibv_mw *)) dealloc_mw;
	__typeof__(void * (*)(void)) _compat_create_cq;
	__typeof__(int (*)(ibv_cq *, int, ibv_wc *)) poll_cq;
	__typeof__(int (*)(ibv_cq *, int)) req_notify_cq;
	__typeof__(void * (*)(void)) _compat_cq_event;
	__typeof__(void * (*)(void)) _compat_resize_cq;
	__typeof__(void * (*)(void)) _compat_destroy_cq;
	__typeof__(void * (*)(void)) _compat_create_srq;
	__typeof__(void * (*)(void)) _compat_modify_srq;
	__typeof__(void * (*)(void)) _compat_query_srq;
	__typeof__(void * (*)(void)) _compat_destroy_srq;
	__typeof__(int (*)(ibv_srq *, ibv_recv_wr *, ibv_recv_wr * *)) post_srq_recv;
	__typeof__(void * (*)(void)) _compat_create_qp;
	__typeof__(void * (*)(void)) _compat_query_qp;
	__typeof__(void * (*)(void)) _compat_modify_qp;
	__typeof__(void * (*)(void)) _compat_destroy_qp;
	__typeof__(int (*)(ibv_qp *, ibv_send_wr *, ibv_send_wr * *)) post_send;
	__typeof__(int (*)(ibv_qp *, ibv_recv_wr *, ibv_recv_wr * *)) post_recv;
	__typeof__(void * (*)(void)) _compat_create_ah;
	__typeof__(void * (*)(void)) _compat_destroy_ah;
	__typeof__(void * (*)(void)) _compat_attach_mcast;
	__typeof__(void * (*)(void)) _compat_detach_mcast;
	__typeof__(void * (*)(void)) _compat_async_event;
};
struct ibv_values_ex {
	uint32_t comp_mask;
	struct timespec raw_clock;
};
struct ibv_tmh {
	uint8_t opcode;
	__typeof__(uint8_t[3]) reserved;
	__be32 app_ctx;
	__be64 tag;
};
struct ibv_rvh {
	__be64 va;
	__be32 rkey;
	__be32 len;
};
union rdma_addr_src {
	struct sockaddr src_addr;
	struct sockaddr_in src_sin;
	struct sockaddr_in6 src_sin6;
	struct sockaddr_storage src_storage;
};
union rdma_addr_dst {
	struct sockaddr dst_addr;
	struct sockaddr_in dst_sin;
	struct sockaddr_in6 dst_sin6;
	struct sockaddr_storage dst_storage;
};
struct rdma_event_channel {
	int fd;
};
struct rdma_conn_param {
	void const * private_data;
	uint8_t private_data_len;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t flow_control;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t srq;
	uint32_t qp_num;
};
struct rdma_addrinfo {
	int ai_flags;
	int ai_family;
	int ai_qp_type;
	int ai_port_space;
	socklen_t ai_src_len;
	socklen_t ai_dst_len;
	struct sockaddr * ai_src_addr;
	struct sockaddr * ai_dst_addr;
	char * ai_src_canonname;
	char * ai_dst_canonname;
	size_t ai_route_len;
	void * ai_route;
	size_t ai_connect_len;
	void * ai_connect;
	rdma_addrinfo * ai_next;
};
struct rdma_cm_join_mc_attr_ex {
	uint32_t comp_mask;
	uint32_t join_flags;
	struct sockaddr * addr;
};
union ibv_gid {
	__typeof__(uint8_t[16]) raw;
	ibv_gid_global global;
};
struct ibv_device {
	_ibv_device_ops _ops;
	ibv_node_type node_type;
	ibv_transport_type transport_type;
	__typeof__(char[64]) name;
	__typeof__(char[64]) dev_name;
	__typeof__(char[256]) dev_path;
	__typeof__(char[256]) ibdev_path;
};
struct ibv_odp_caps {
	uint64_t general_caps;
	ibv_odp_transport_caps per_transport_caps;
};
struct ibv_async_event {
	ibv_async_event_element element;
	ibv_event_type event_type;
};
struct ibv_mw_bind {
	uint64_t wr_id;
	unsigned int send_flags;
	ibv_mw_bind_info bind_info;
};
struct ibv_wc {
	uint64_t wr_id;
	ibv_wc_status status;
	ibv_wc_opcode opcode;
	uint32_t vendor_err;
	uint32_t byte_len;
	ibv_wc_imm imm;
	uint32_t qp_num;
	uint32_t src_qp;
	unsigned int wc_flags;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
};
struct ibv_modify_cq_attr {
	uint32_t attr_mask;
	ibv_moderate_cq moderate;
};
struct ibv_srq_init_attr {
	void * srq_context;
	ibv_srq_attr attr;
};
struct ibv_srq_init_attr_ex {
	void * srq_context;
	ibv_srq_attr attr;
	uint32_t comp_mask;
	ibv_srq_type srq_type;
	ibv_pd * pd;
	ibv_xrcd * xrcd;
	ibv_cq * cq;
	ibv_tm_cap tm_cap;
};
union ibv_send_wr_wr {
	ibv_send_wr_rdma rdma;
	ibv_send_wr_atomic atomic;
	ibv_send_wr_ud ud;
};
union ibv_send_wr_qp_type {
	ibv_send_wr_xrc xrc;
};
struct ibv_send_wr_bind_mw {
	ibv_mw * mw;
	uint32_t rkey;
	ibv_mw_bind_info bind_info;
};
struct ibv_ops_wr_tm {
	uint32_t unexpected_cnt;
	uint32_t handle;
	ibv_ops_wr_add add;
};
struct ibv_qp_init_attr {
	void * qp_context;
	ibv_cq * send_cq;
	ibv_cq * recv_cq;
	ibv_srq * srq;
	ibv_qp_cap cap;
	ibv_qp_type qp_type;
	int sq_sig_all;
};
struct ibv_qp_init_attr_ex {
	void * qp_context;
	ibv_cq * send_cq;
	ibv_cq * recv_cq;
	ibv_srq * srq;
	ibv_qp_cap cap;
	ibv_qp_type qp_type;
	int sq_sig_all;
	uint32_t comp_mask;
	ibv_pd * pd;
	ibv_xrcd * xrcd;
	uint32_t create_flags;
	uint16_t max_tso_header;
	ibv_rwq_ind_table * rwq_ind_tbl;
	ibv_rx_hash_conf rx_hash_conf;
	uint32_t source_qpn;
	uint64_t send_ops_flags;
};
struct ibv_qp_ex {
	ibv_qp qp_base;
	uint64_t comp_mask;
	uint64_t wr_id;
	unsigned int wr_flags;
	__typeof__(void (*)(ibv_qp_ex *, uint32_t, uint64_t, uint64_t, uint64_t)) wr_atomic_cmp_swp;
	__typeof__(void (*)(ibv_qp_ex *, uint32_t, uint64_t, uint64_t)) wr_atomic_fetch_add;
	__typeof__(void (*)(ibv_qp_ex *, ibv_mw *, uint32_t, ibv_mw_bind_info const *)) wr_bind_mw;
	__typeof__(void (*)(ibv_qp_ex *, uint32_t)) wr_local_inv;
	__typeof__(void (*)(ibv_qp_ex *, uint32_t, uint64_t)) wr_rdma_read;
	__typeof__(void (*)(ibv_qp_ex *, uint32_t, uint64_t)) wr_rdma_write;
	__typeof__(void (*)(ibv_qp_ex *, uint32_t, uint64_t, __be32)) wr_rdma_write_imm;
	__typeof__(void (*)(ibv_qp_ex *)) wr_send;
	__typeof__(void (*)(ibv_qp_ex *, __be32)) wr_send_imm;
	__typeof__(void (*)(ibv_qp_ex *, uint32_t)) wr_send_inv;
	__typeof__(void (*)(ibv_qp_ex *, void *, uint16_t, uint16_t)) wr_send_tso;
	__typeof__(void (*)(ibv_qp_ex *, ibv_ah *, uint32_t, uint32_t)) wr_set_ud_addr;
	__typeof__(void (*)(ibv_qp_ex *, uint32_t)) wr_set_xrc_srqn;
	__typeof__(void (*)(ibv_qp_ex *, void *, size_t)) wr_set_inline_data;
	__typeof__(void (*)(ibv_qp_ex *, size_t, ibv_data_buf const *)) wr_set_inline_data_list;
	__typeof__(void (*)(ibv_qp_ex *, uint32_t, uint64_t, uint32_t)) wr_set_sge;
	__typeof__(void (*)(ibv_qp_ex *, size_t, ibv_sge const *)) wr_set_sge_list;
	__typeof__(void (*)(ibv_qp_ex *)) wr_start;
	__typeof__(int (*)(ibv_qp_ex *)) wr_complete;
	__typeof__(void (*)(ibv_qp_ex *)) wr_abort;
	__typeof__(void (*)(ibv_qp_ex *, uint32_t, uint64_t, void const *)) wr_atomic_write;
	__typeof__(void (*)(ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t)) wr_flush;
};
struct ibv_flow_spec_eth {
	ibv_flow_spec_type type;
	uint16_t size;
	ibv_flow_eth_filter val;
	ibv_flow_eth_filter mask;
};
struct ibv_flow_spec_ipv4 {
	ibv_flow_spec_type type;
	uint16_t size;
	ibv_flow_ipv4_filter val;
	ibv_flow_ipv4_filter mask;
};
struct ibv_flow_spec_ipv4_ext {
	ibv_flow_spec_type type;
	uint16_t size;
	ibv_flow_ipv4_ext_filter val;
	ibv_flow_ipv4_ext_filter mask;
};
struct ibv_flow_spec_ipv6 {
	ibv_flow_spec_type type;
	uint16_t size;
	ibv_flow_ipv6_filter val;
	ibv_flow_ipv6_filter mask;
};
struct ibv_flow_spec_esp {
	ibv_flow_spec_type type;
	uint16_t size;
	ibv_flow_esp_filter val;
	ibv_flow_esp_filter mask;
};
struct ibv_flow_spec_tcp_udp {
	ibv_flow_spec_type type;
	uint16_t size;
	ibv_flow_tcp_udp_filter val;
	ibv_flow_tcp_udp_filter mask;
};
struct ibv_flow_spec_gre {
	ibv_flow_spec_type type;
	uint16_t size;
	ibv_flow_gre_filter val;
	ibv_flow_gre_filter mask;
};
struct ibv_flow_spec_mpls {
	ibv_flow_spec_type type;
	uint16_t size;
	ibv_flow_mpls_filter val;
	ibv_flow_mpls_filter mask;
};
struct ibv_flow_spec_tunnel {
	ibv_flow_spec_type type;
	uint16_t size;
	ibv_flow_tunnel_filter val;
	ibv_flow_tunnel_filter mask;
};
struct ibv_context {
	ibv_device * device;
	ibv_context_ops ops;
	int cmd_fd;
	int async_fd;
	int num_comp_vectors;
	pthread_mutex_t mutex;
	void * abi_compat;
};
struct ibv_gid_entry {
	ibv_gid gid;
	uint32_t gid_index;
	uint32_t port_num;
	uint32_t gid_type;
	uint32_t ndev_ifindex;
};
struct ibv_device_attr_ex {
	ibv_device_attr orig_attr;
	uint32_t comp_mask;
	ibv_odp_caps odp_caps;
	uint64_t completion_timestamp_mask;
	uint64_t hca_core_clock;
	uint64_t device_cap_flags_ex;
	ibv_tso_caps tso_caps;
	ibv_rss_caps rss_caps;
	uint32_t max_wq_type_rq;
	ibv_packet_pacing_caps packet_pacing_caps;
	uint32_t raw_packet_caps;
	ibv_tm_caps tm_caps;
	ibv_cq_moderation_caps cq_mod_caps;
	uint64_t max_dm_size;
	ibv_pci_atomic_caps pci_atomic_caps;
	uint32_t xrc_odp_caps;
	uint32_t phys_port_cnt_ex;
};
struct ibv_global_route {
	ibv_gid dgid;
	uint32_t flow_label;
	uint8_t sgid_index;
	uint8_t hop_limit;
	uint8_t traffic_class;
};
struct ibv_grh {
	__be32 version_tclass_flow;
	__be16 paylen;
	uint8_t next_hdr;
	uint8_t hop_limit;
	ibv_gid sgid;
	ibv_gid dgid;
};
union ibv_send_wr_op {
	ibv_send_wr_bind_mw bind_mw;
	ibv_send_wr_tso tso;
};
struct ibv_ops_wr {
	uint64_t wr_id;
	ibv_ops_wr * next;
	ibv_ops_wr_opcode opcode;
	int flags;
	ibv_ops_wr_tm tm;
};
union ibv_flow_spec {
	ibv_flow_spec_hdr hdr;
	ibv_flow_spec_eth eth;
	ibv_flow_spec_ipv4 ipv4;
	ibv_flow_spec_tcp_udp tcp_udp;
	ibv_flow_spec_ipv4_ext ipv4_ext;
	ibv_flow_spec_ipv6 ipv6;
	ibv_flow_spec_esp esp;
	ibv_flow_spec_tunnel tunnel;
	ibv_flow_spec_gre gre;
	ibv_flow_spec_mpls mpls;
	ibv_flow_spec_action_tag flow_tag;
	ibv_flow_spec_action_drop drop;
	ibv_flow_spec_action_handle handle;
	ibv_flow_spec_counter_action flow_count;
};
struct verbs_context {
	__typeof__(void (*)(struct ibv_buf *)) free_buf;
	__typeof__(void * (*)(ibv_pd *, size_t, struct ibv_buf * *)) alloc_buf;
	__typeof__(int (*)(ibv_dm *)) dm_export_dmabuf_fd;
	__typeof__(ibv_mr * (*)(ibv_pd *, ibv_mr_init_attr *)) reg_mr_ex;
	__typeof__(int (*)(ibv_dmah *)) dealloc_dmah;
	__typeof__(ibv_dmah * (*)(ibv_context *, ibv_dmah_init_attr *)) alloc_dmah;
	__typeof__(int (*)(ibv_context *, uint8_t, ibv_port_attr *, size_t)) query_port;
	__typeof__(int (*)(ibv_pd *, ibv_advise_mr_advice, uint32_t, ibv_sge *, uint32_t)) advise_mr;
	__typeof__(ibv_mr * (*)(ibv_pd *)) alloc_null_mr;
	__typeof__(int (*)(ibv_counters *, uint64_t *, uint32_t, uint32_t)) read_counters;
	__typeof__(int (*)(ibv_counters *, ibv_counter_attach_attr *, ibv_flow *)) attach_counters_point_flow;
	__typeof__(ibv_counters * (*)(ibv_context *, ibv_counters_init_attr *)) create_counters;
	__typeof__(int (*)(ibv_counters *)) destroy_counters;
	__typeof__(ibv_mr * (*)(ibv_pd *, ibv_dm *, uint64_t, size_t, unsigned int)) reg_dm_mr;
	__typeof__(ibv_dm * (*)(ibv_context *, ibv_alloc_dm_attr *)) alloc_dm;
	__typeof__(int (*)(ibv_dm *)) free_dm;
	__typeof__(int (*)(ibv_flow_action *, ibv_flow_action_esp_attr *)) modify_flow_action_esp;
	__typeof__(int (*)(ibv_flow_action *)) destroy_flow_action;
	__typeof__(ibv_flow_action * (*)(ibv_context *, ibv_flow_action_esp_attr *)) create_flow_action_esp;
	__typeof__(int (*)(ibv_qp *, ibv_qp_rate_limit_attr *)) modify_qp_rate_limit;
	__typeof__(ibv_pd * (*)(ibv_context *, ibv_parent_domain_init_attr *)) alloc_parent_domain;
	__typeof__(int (*)(ibv_td *)) dealloc_td;
	__typeof__(ibv_td * (*)(ibv_context *, ibv_td_init_attr *)) alloc_td;
	__typeof__(int (*)(ibv_cq *, ibv_modify_cq_attr *)) modify_cq;
	__typeof__(int (*)(ibv_srq *, ibv_ops_wr *, ibv_ops_wr * *)) post_srq_ops;
	__typeof__(int (*)(ibv_rwq_ind_table *)) destroy_rwq_ind_table;
	__typeof__(ibv_rwq_ind_table * (*)(ibv_context *, ibv_rwq_ind_table_init_attr *)) create_rwq_ind_table;
	__typeof__(int (*)(ibv_wq *)) destroy_wq;
	__typeof__(int (*)(ibv_wq *, ibv_wq_attr *)) modify_wq;
	__typeof__(ibv_wq * (*)(ibv_context *, ibv_wq_init_attr *)) create_wq;
	__typeof__(int (*)(ibv_context *, ibv_values_ex *)) query_rt_values;
	__typeof__(ibv_cq_ex * (*)(ibv_context *, ibv_cq_init_attr_ex *)) create_cq_ex;
	struct verbs_ex_private * priv;
	__typeof__(int (*)(ibv_context *, ibv_query_device_ex_input const *, ibv_device_attr_ex *, size_t)) query_device_ex;
	__typeof__(int (*)(ibv_flow *)) ibv_destroy_flow;
	__typeof__(void (*)(void)) ABI_placeholder2;
	__typeof__(ibv_flow * (*)(ibv_qp *, ibv_flow_attr *)) ibv_create_flow;
	__typeof__(void (*)(void)) ABI_placeholder1;
	__typeof__(ibv_qp * (*)(ibv_context *, ibv_qp_open_attr *)) open_qp;
	__typeof__(ibv_qp * (*)(ibv_context *, ibv_qp_init_attr_ex *)) create_qp_ex;
	__typeof__(int (*)(ibv_srq *, uint32_t *)) get_srq_num;
	__typeof__(ibv_srq * (*)(ibv_context *, ibv_srq_init_attr_ex *)) create_srq_ex;
	__typeof__(ibv_xrcd * (*)(ibv_context *, ibv_xrcd_init_attr *)) open_xrcd;
	__typeof__(int (*)(ibv_xrcd *)) close_xrcd;
	uint64_t _ABI_placeholder3;
	size_t sz;
	ibv_context context;
};
struct ibv_sa_path_rec {
	ibv_gid dgid;
	ibv_gid sgid;
	__be16 dlid;
	__be16 slid;
	int raw_traffic;
	__be32 flow_label;
	uint8_t hop_limit;
	uint8_t traffic_class;
	int reversible;
	uint8_t numb_path;
	__be16 pkey;
	uint8_t sl;
	uint8_t mtu_selector;
	uint8_t mtu;
	uint8_t rate_selector;
	uint8_t rate;
	uint8_t packet_life_time_selector;
	uint8_t packet_life_time;
	uint8_t preference;
};
struct ibv_sa_mcmember_rec {
	ibv_gid mgid;
	ibv_gid port_gid;
	uint32_t qkey;
	uint16_t mlid;
	uint8_t mtu_selector;
	uint8_t mtu;
	uint8_t traffic_class;
	uint16_t pkey;
	uint8_t rate_selector;
	uint8_t rate;
	uint8_t packet_life_time_selector;
	uint8_t packet_life_time;
	uint8_t sl;
	uint32_t flow_label;
	uint8_t hop_limit;
	uint8_t scope;
	uint8_t join_state;
	int proxy_join;
};
struct ibv_sa_service_rec {
	uint64_t id;
	ibv_gid gid;
	uint16_t pkey;
	uint32_t lease;
	__typeof__(uint8_t[16]) key;
	__typeof__(uint8_t[64]) name;
	__typeof__(uint8_t[16]) data8;
	__typeof__(uint16_t[8]) data16;
	__typeof__(uint32_t[4]) data32;
	__typeof__(uint64_t[2]) data64;
};
struct ibv_path_record {
	__be64 service_id;
	ibv_gid dgid;
	ibv_gid sgid;
	__be16 dlid;
	__be16 slid;
	__be32 flowlabel_hoplimit;
	uint8_t tclass;
	uint8_t reversible_numpath;
	__be16 pkey;
	__be16 qosclass_sl;
	uint8_t mtu;
	uint8_t rate;
	uint8_t packetlifetime;
	uint8_t preference;
	__typeof__(uint8_t[6]) reserved;
};
struct rdma_ib_addr {
	ibv_gid sgid;
	ibv_gid dgid;
	__be16 pkey;
};
struct ibv_ah_attr {
	ibv_global_route grh;
	uint16_t dlid;
	uint8_t sl;
	uint8_t src_path_bits;
	uint8_t static_rate;
	uint8_t is_global;
	uint8_t port_num;
};
struct ibv_send_wr {
	uint64_t wr_id;
	ibv_send_wr * next;
	ibv_sge * sg_list;
	int num_sge;
	ibv_wr_opcode opcode;
	unsigned int send_flags;
	ibv_send_wr_imm imm;
	ibv_send_wr_wr wr;
	ibv_send_wr_qp_type qp_type;
	ibv_send_wr_op op;
};
struct ibv_path_data {
	uint32_t flags;
	uint32_t reserved;
	ibv_path_record path;
};
union rdma_addr_addr {
	rdma_ib_addr ibaddr;
};
struct ibv_qp_attr {
	ibv_qp_state qp_state;
	ibv_qp_state cur_qp_state;
	ibv_mtu path_mtu;
	ibv_mig_state path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t dest_qp_num;
	unsigned int qp_access_flags;
	ibv_qp_cap cap;
	ibv_ah_attr ah_attr;
	ibv_ah_attr alt_ah_attr;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t port_num;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint32_t rate_limit;
};
struct rdma_addr {
	rdma_addr_src src;
	rdma_addr_dst dst;
	rdma_addr_addr addr;
};
struct rdma_ud_param {
	void const * private_data;
	uint8_t private_data_len;
	ibv_ah_attr ah_attr;
	uint32_t qp_num;
	uint32_t qkey;
};
struct rdma_route {
	rdma_addr addr;
	ibv_sa_path_rec * path_rec;
	int num_paths;
};
union rdma_cm_event_param {
	rdma_conn_param conn;
	rdma_ud_param ud;
	uint64_t arg;
};
struct rdma_cm_id {
	ibv_context * verbs;
	rdma_event_channel * channel;
	void * context;
	ibv_qp * qp;
	rdma_route route;
	rdma_port_space ps;
	uint8_t port_num;
	rdma_cm_event * event;
	ibv_comp_channel * send_cq_channel;
	ibv_cq * send_cq;
	ibv_comp_channel * recv_cq_channel;
	ibv_cq * recv_cq;
	ibv_srq * srq;
	ibv_pd * pd;
	ibv_qp_type qp_type;
};
struct rdma_cm_event {
	rdma_cm_id * id;
	rdma_cm_id * listen_id;
	rdma_cm_event_type event;
	int status;
	rdma_cm_event_param param;
};
_Static_assert(sizeof(ibv_gid_global) == 16, "ibv_gid_global");
_Static_assert(sizeof(ibv_gid) == 16, "ibv_gid");
_Static_assert(sizeof(ibv_gid_entry) == 32, "ibv_gid_entry");
_Static_assert(sizeof(ibv_port_attr) == 56, "ibv_port_attr");
_Static_assert(sizeof(_ibv_device_ops) == 16, "_ibv_device_ops");
_Static_assert(sizeof(ibv_device) == 664, "ibv_device");
_Static_assert(sizeof(ibv_device_attr) == 232, "ibv_device_attr");
_Static_assert(sizeof(ibv_query_device_ex_input) == 4, "ibv_query_device_ex_input");
_Static_assert(sizeof(ibv_odp_transport_caps) == 12, "ibv_odp_transport_caps");
_Static_assert(sizeof(ibv_odp_caps) == 24, "ibv_odp_caps");
_Static_assert(sizeof(ibv_tso_caps) == 8, "ibv_tso_caps");
_Static_assert(sizeof(ibv_rss_caps) == 32, "ibv_rss_caps");
_Static_assert(sizeof(ibv_packet_pacing_caps) == 12, "ibv_packet_pacing_caps");
_Static_assert(sizeof(ibv_tm_caps) == 20, "ibv_tm_caps");
_Static_assert(sizeof(ibv_cq_moderation_caps) == 4, "ibv_cq_moderation_caps");
_Static_assert(sizeof(ibv_pci_atomic_caps) == 6, "ibv_pci_atomic_caps");
_Static_assert(sizeof(ibv_device_attr_ex) == 400, "ibv_device_attr_ex");
_Static_assert(sizeof(ibv_async_event_element) == 8, "ibv_async_event_element");
_Static_assert(sizeof(ibv_async_event) == 16, "ibv_async_event");
_Static_assert(sizeof(ibv_fd_arr) == 16, "ibv_fd_arr");
_Static_assert(sizeof(ibv_pd) == 16, "ibv_pd");
_Static_assert(sizeof(ibv_td_init_attr) == 4, "ibv_td_init_attr");
_Static_assert(sizeof(ibv_td) == 8, "ibv_td");
_Static_assert(sizeof(ibv_xrcd_init_attr) == 12, "ibv_xrcd_init_attr");
_Static_assert(sizeof(ibv_xrcd) == 8, "ibv_xrcd");
_Static_assert(sizeof(ibv_parent_domain_init_attr) == 48, "ibv_parent_domain_init_attr");
_Static_assert(sizeof(ibv_mr) == 48, "ibv_mr");
_Static_assert(sizeof(ibv_mr_init_attr) == 72, "ibv_mr_init_attr");
_Static_assert(sizeof(ibv_mw) == 32, "ibv_mw");
_Static_assert(sizeof(ibv_mw_bind_info) == 32, "ibv_mw_bind_info");
_Static_assert(sizeof(ibv_mw_bind) == 48, "ibv_mw_bind");
_Static_assert(sizeof(ibv_alloc_dm_attr) == 16, "ibv_alloc_dm_attr");
_Static_assert(sizeof(ibv_dm) == 32, "ibv_dm");
_Static_assert(sizeof(ibv_dmah) == 8, "ibv_dmah");
_Static_assert(sizeof(ibv_dmah_init_attr) == 12, "ibv_dmah_init_attr");
_Static_assert(sizeof(ibv_global_route) == 24, "ibv_global_route");
_Static_assert(sizeof(ibv_grh) == 40, "ibv_grh");
_Static_assert(sizeof(ibv_ah_attr) == 32, "ibv_ah_attr");
_Static_assert(sizeof(ibv_ah) == 24, "ibv_ah");
_Static_assert(sizeof(ibv_wc_imm) == 4, "ibv_wc_imm");
_Static_assert(sizeof(ibv_wc) == 48, "ibv_wc");
_Static_assert(sizeof(ibv_comp_channel) == 16, "ibv_comp_channel");
_Static_assert(sizeof(ibv_cq) == 128, "ibv_cq");
_Static_assert(sizeof(ibv_poll_cq_attr) == 4, "ibv_poll_cq_attr");
_Static_assert(sizeof(ibv_wc_tm_info) == 16, "ibv_wc_tm_info");
_Static_assert(sizeof(ibv_cq_ex) == 288, "ibv_cq_ex");
_Static_assert(sizeof(ibv_moderate_cq) == 4, "ibv_moderate_cq");
_Static_assert(sizeof(ibv_modify_cq_attr) == 8, "ibv_modify_cq_attr");
_Static_assert(sizeof(ibv_cq_init_attr_ex) == 56, "ibv_cq_init_attr_ex");
_Static_assert(sizeof(ibv_srq_attr) == 12, "ibv_srq_attr");
_Static_assert(sizeof(ibv_srq_init_attr) == 24, "ibv_srq_init_attr");
_Static_assert(sizeof(ibv_tm_cap) == 8, "ibv_tm_cap");
_Static_assert(sizeof(ibv_srq_init_attr_ex) == 64, "ibv_srq_init_attr_ex");
_Static_assert(sizeof(ibv_srq) == 128, "ibv_srq");
_Static_assert(sizeof(ibv_wq_init_attr) == 48, "ibv_wq_init_attr");
_Static_assert(sizeof(ibv_wq_attr) == 20, "ibv_wq_attr");
_Static_assert(sizeof(ibv_wq) == 152, "ibv_wq");
_Static_assert(sizeof(ibv_rwq_ind_table) == 24, "ibv_rwq_ind_table");
_Static_assert(sizeof(ibv_rwq_ind_table_init_attr) == 24, "ibv_rwq_ind_table_init_attr");
_Static_assert(sizeof(ibv_data_buf) == 16, "ibv_data_buf");
_Static_assert(sizeof(ibv_sge) == 16, "ibv_sge");
_Static_assert(sizeof(ibv_send_wr_imm) == 4, "ibv_send_wr_imm");
_Static_assert(sizeof(ibv_send_wr_rdma) == 16, "ibv_send_wr_rdma");
_Static_assert(sizeof(ibv_send_wr_atomic) == 32, "ibv_send_wr_atomic");
_Static_assert(sizeof(ibv_send_wr_ud) == 16, "ibv_send_wr_ud");
_Static_assert(sizeof(ibv_send_wr_wr) == 32, "ibv_send_wr_wr");
_Static_assert(sizeof(ibv_send_wr_xrc) == 4, "ibv_send_wr_xrc");
_Static_assert(sizeof(ibv_send_wr_qp_type) == 4, "ibv_send_wr_qp_type");
_Static_assert(sizeof(ibv_send_wr_bind_mw) == 48, "ibv_send_wr_bind_mw");
_Static_assert(sizeof(ibv_send_wr_tso) == 16, "ibv_send_wr_tso");
_Static_assert(sizeof(ibv_send_wr_op) == 48, "ibv_send_wr_op");
_Static_assert(sizeof(ibv_send_wr) == 128, "ibv_send_wr");
_Static_assert(sizeof(ibv_recv_wr) == 32, "ibv_recv_wr");
_Static_assert(sizeof(ibv_ops_wr_add) == 40, "ibv_ops_wr_add");
_Static_assert(sizeof(ibv_ops_wr_tm) == 48, "ibv_ops_wr_tm");
_Static_assert(sizeof(ibv_ops_wr) == 72, "ibv_ops_wr");
_Static_assert(sizeof(ibv_qp_cap) == 20, "ibv_qp_cap");
_Static_assert(sizeof(ibv_qp_init_attr) == 64, "ibv_qp_init_attr");
_Static_assert(sizeof(ibv_rx_hash_conf) == 24, "ibv_rx_hash_conf");
_Static_assert(sizeof(ibv_qp_init_attr_ex) == 136, "ibv_qp_init_attr_ex");
_Static_assert(sizeof(ibv_qp_open_attr) == 32, "ibv_qp_open_attr");
_Static_assert(sizeof(ibv_qp_attr) == 144, "ibv_qp_attr");
_Static_assert(sizeof(ibv_qp_rate_limit_attr) == 16, "ibv_qp_rate_limit_attr");
_Static_assert(sizeof(ibv_qp) == 160, "ibv_qp");
_Static_assert(sizeof(ibv_ece) == 12, "ibv_ece");
_Static_assert(sizeof(ibv_qp_ex) == 360, "ibv_qp_ex");
_Static_assert(sizeof(ibv_flow_eth_filter) == 16, "ibv_flow_eth_filter");
_Static_assert(sizeof(ibv_flow_spec_eth) == 40, "ibv_flow_spec_eth");
_Static_assert(sizeof(ibv_flow_ipv4_filter) == 8, "ibv_flow_ipv4_filter");
_Static_assert(sizeof(ibv_flow_spec_ipv4) == 24, "ibv_flow_spec_ipv4");
_Static_assert(sizeof(ibv_flow_ipv4_ext_filter) == 12, "ibv_flow_ipv4_ext_filter");
_Static_assert(sizeof(ibv_flow_spec_ipv4_ext) == 32, "ibv_flow_spec_ipv4_ext");
_Static_assert(sizeof(ibv_flow_ipv6_filter) == 40, "ibv_flow_ipv6_filter");
_Static_assert(sizeof(ibv_flow_spec_ipv6) == 88, "ibv_flow_spec_ipv6");
_Static_assert(sizeof(ibv_flow_esp_filter) == 8, "ibv_flow_esp_filter");
_Static_assert(sizeof(ibv_flow_spec_esp) == 24, "ibv_flow_spec_esp");
_Static_assert(sizeof(ibv_flow_tcp_udp_filter) == 4, "ibv_flow_tcp_udp_filter");
_Static_assert(sizeof(ibv_flow_spec_tcp_udp) == 16, "ibv_flow_spec_tcp_udp");
_Static_assert(sizeof(ibv_flow_gre_filter) == 8, "ibv_flow_gre_filter");
_Static_assert(sizeof(ibv_flow_spec_gre) == 24, "ibv_flow_spec_gre");
_Static_assert(sizeof(ibv_flow_mpls_filter) == 4, "ibv_flow_mpls_filter");
_Static_assert(sizeof(ibv_flow_spec_mpls) == 16, "ibv_flow_spec_mpls");
_Static_assert(sizeof(ibv_flow_tunnel_filter) == 4, "ibv_flow_tunnel_filter");
_Static_assert(sizeof(ibv_flow_spec_tunnel) == 16, "ibv_flow_spec_tunnel");
_Static_assert(sizeof(ibv_flow_spec_action_tag) == 12, "ibv_flow_spec_action_tag");
_Static_assert(sizeof(ibv_flow_spec_action_drop) == 8, "ibv_flow_spec_action_drop");
_Static_assert(sizeof(ibv_flow_spec_action_handle) == 16, "ibv_flow_spec_action_handle");
_Static_assert(sizeof(ibv_flow_spec_counter_action) == 16, "ibv_flow_spec_counter_action");
_Static_assert(sizeof(ibv_flow_spec_hdr) == 8, "ibv_flow_spec_hdr");
_Static_assert(sizeof(ibv_flow_spec) == 88, "ibv_flow_spec");
_Static_assert(sizeof(ibv_flow_attr) == 20, "ibv_flow_attr");
_Static_assert(sizeof(ibv_flow) == 24, "ibv_flow");
_Static_assert(sizeof(ibv_flow_action) == 8, "ibv_flow_action");
_Static_assert(sizeof(ibv_flow_action_esp_keymat_aes_gcm) == 56, "ibv_flow_action_esp_keymat_aes_gcm");
_Static_assert(sizeof(ibv_flow_action_esp_replay_bmp) == 4, "ibv_flow_action_esp_replay_bmp");
_Static_assert(sizeof(ibv_flow_action_esp_encap) == 24, "ibv_flow_action_esp_encap");
_Static_assert(sizeof(ibv_flow_action_esp) == 24, "ibv_flow_action_esp");
_Static_assert(sizeof(ibv_flow_action_esp_attr) == 56, "ibv_flow_action_esp_attr");
_Static_assert(sizeof(ibv_counters_init_attr) == 4, "ibv_counters_init_attr");
_Static_assert(sizeof(ibv_counters) == 8, "ibv_counters");
_Static_assert(sizeof(ibv_counter_attach_attr) == 12, "ibv_counter_attach_attr");
_Static_assert(sizeof(ibv_comp_cntr_caps) == 16, "ibv_comp_cntr_caps");
_Static_assert(sizeof(ibv_comp_cntr) == 16, "ibv_comp_cntr");
_Static_assert(sizeof(ibv_comp_cntr_init_attr) == 12, "ibv_comp_cntr_init_attr");
_Static_assert(sizeof(ibv_qp_attach_comp_cntr_attr) == 8, "ibv_qp_attach_comp_cntr_attr");
_Static_assert(sizeof(ibv_context_ops) == 256, "ibv_context_ops");
_Static_assert(sizeof(ibv_context) == 328, "ibv_context");
_Static_assert(sizeof(ibv_values_ex) == 24, "ibv_values_ex");
_Static_assert(sizeof(verbs_context) == 696, "verbs_context");
_Static_assert(sizeof(ibv_tmh) == 16, "ibv_tmh");
_Static_assert(sizeof(ibv_rvh) == 16, "ibv_rvh");
_Static_assert(sizeof(ibv_sa_path_rec) == 64, "ibv_sa_path_rec");
_Static_assert(sizeof(ibv_sa_mcmember_rec) == 64, "ibv_sa_mcmember_rec");
_Static_assert(sizeof(ibv_sa_service_rec) == 176, "ibv_sa_service_rec");
_Static_assert(sizeof(ibv_path_record) == 64, "ibv_path_record");
_Static_assert(sizeof(ibv_path_data) == 72, "ibv_path_data");
_Static_assert(sizeof(rdma_ib_addr) == 40, "rdma_ib_addr");
_Static_assert(sizeof(rdma_addr_src) == 128, "rdma_addr_src");
_Static_assert(sizeof(rdma_addr_dst) == 128, "rdma_addr_dst");
_Static_assert(sizeof(rdma_addr_addr) == 40, "rdma_addr_addr");
_Static_assert(sizeof(rdma_addr) == 296, "rdma_addr");
_Static_assert(sizeof(rdma_route) == 312, "rdma_route");
_Static_assert(sizeof(rdma_event_channel) == 4, "rdma_event_channel");
_Static_assert(sizeof(rdma_cm_id) == 416, "rdma_cm_id");
_Static_assert(sizeof(rdma_conn_param) == 24, "rdma_conn_param");
_Static_assert(sizeof(rdma_ud_param) == 56, "rdma_ud_param");
_Static_assert(sizeof(rdma_cm_event_param) == 56, "rdma_cm_event_param");
_Static_assert(sizeof(rdma_cm_event) == 80, "rdma_cm_event");
_Static_assert(sizeof(rdma_addrinfo) == 96, "rdma_addrinfo");
_Static_assert(sizeof(rdma_cm_join_mc_attr_ex) == 16, "rdma_cm_join_mc_attr_ex");
extern char const * ibv_wc_status_str(ibv_wc_status);
extern char const * ibv_wr_opcode_str(ibv_wr_opcode);
extern int ibv_rate_to_mult(ibv_rate);
extern ibv_rate mult_to_ibv_rate(int);
extern int ibv_rate_to_mbps(ibv_rate);
extern ibv_rate mbps_to_ibv_rate(int);
extern ibv_qp_ex * ibv_qp_to_qp_ex(ibv_qp *);
extern ibv_device * * ibv_get_device_list(int *);
extern void ibv_free_device_list(ibv_device * *);
extern char const * ibv_get_device_name(ibv_device *);
extern int ibv_get_device_index(ibv_device *);
extern __be64 ibv_get_device_guid(ibv_device *);
extern ibv_context * ibv_open_device(ibv_device *);
extern int ibv_close_device(ibv_context *);
extern ibv_context * ibv_import_device(int);
extern ibv_pd * ibv_import_pd(ibv_context *, uint32_t);
extern void ibv_unimport_pd(ibv_pd *);
extern ibv_mr * ibv_import_mr(ibv_pd *, uint32_t);
extern void ibv_unimport_mr(ibv_mr *);
extern ibv_dm * ibv_import_dm(ibv_context *, uint32_t);
extern void ibv_unimport_dm(ibv_dm *);
extern int ibv_get_async_event(ibv_context *, ibv_async_event *);
extern void ibv_ack_async_event(ibv_async_event *);
extern int ibv_query_device(ibv_context *, ibv_device_attr *);
extern int ibv_query_port(ibv_context *, uint8_t, struct _compat_ibv_port_attr *);
extern int ibv_query_port_speed(ibv_context *, uint32_t, uint64_t *);
extern int ibv_query_gid(ibv_context *, uint8_t, int, ibv_gid *);
extern int _ibv_query_gid_ex(ibv_context *, uint32_t, uint32_t, ibv_gid_entry *, uint32_t, size_t);
extern ssize_t _ibv_query_gid_table(ibv_context *, ibv_gid_entry *, size_t, uint32_t, size_t);
extern int ibv_query_pkey(ibv_context *, uint8_t, int, __be16 *);
extern int ibv_get_pkey_index(ibv_context *, uint8_t, __be16);
extern ibv_pd * ibv_alloc_pd(ibv_context *);
extern int ibv_dealloc_pd(ibv_pd *);
extern ibv_mr * ibv_reg_mr(ibv_pd *, void *, size_t, int);
extern ibv_mr * ibv_reg_mr_iova(ibv_pd *, void *, size_t, uint64_t, int);
extern ibv_mr * ibv_reg_mr_iova2(ibv_pd *, void *, size_t, uint64_t, unsigned int);
extern ibv_mr * ibv_reg_dmabuf_mr(ibv_pd *, uint64_t, size_t, uint64_t, int, int);
extern ibv_mr * ibv_reg_mr_ex(ibv_pd *, ibv_mr_init_attr *);
extern ibv_mr * ibv_reg_buf_mr(ibv_pd *, struct ibv_buf *, void *, size_t, int);
extern int ibv_rereg_mr(ibv_mr *, int, ibv_pd *, void *, size_t, int);
extern int ibv_dereg_mr(ibv_mr *);
extern int ibv_dm_export_dmabuf_fd(ibv_dm *);
extern void * ibv_alloc_buf(ibv_pd *, size_t, struct ibv_buf * *);
extern int ibv_export_buf_dmabuf_fd(struct ibv_buf *);
extern void ibv_free_buf(struct ibv_buf *);
extern ibv_dmah * ibv_alloc_dmah(ibv_context *, ibv_dmah_init_attr *);
extern int ibv_dealloc_dmah(ibv_dmah *);
extern ibv_comp_channel * ibv_create_comp_channel(ibv_context *);
extern int ibv_destroy_comp_channel(ibv_comp_channel *);
extern ibv_cq * ibv_create_cq(ibv_context *, int, void *, ibv_comp_channel *, int);
extern int ibv_resize_cq(ibv_cq *, int);
extern int ibv_destroy_cq(ibv_cq *);
extern int ibv_get_cq_event(ibv_comp_channel *, ibv_cq * *, void * *);
extern void ibv_ack_cq_events(ibv_cq *, unsigned int);
extern ibv_srq * ibv_create_srq(ibv_pd *, ibv_srq_init_attr *);
extern int ibv_modify_srq(ibv_srq *, ibv_srq_attr *, int);
extern int ibv_query_srq(ibv_srq *, ibv_srq_attr *);
extern int ibv_destroy_srq(ibv_srq *);
extern ibv_qp * ibv_create_qp(ibv_pd *, ibv_qp_init_attr *);
extern int ibv_modify_qp(ibv_qp *, ibv_qp_attr *, int);
extern int ibv_query_qp_data_in_order(ibv_qp *, ibv_wr_opcode, uint32_t);
extern int ibv_query_qp(ibv_qp *, ibv_qp_attr *, int, ibv_qp_init_attr *);
extern int ibv_destroy_qp(ibv_qp *);
extern int ibv_set_ece(ibv_qp *, ibv_ece *);
extern int ibv_query_ece(ibv_qp *, ibv_ece *);
extern int ibv_attach_mcast(ibv_qp *, ibv_gid const *, uint16_t);
extern int ibv_detach_mcast(ibv_qp *, ibv_gid const *, uint16_t);
extern ibv_ah * ibv_create_ah(ibv_pd *, ibv_ah_attr *);
extern int ibv_init_ah_from_wc(ibv_context *, uint8_t, ibv_wc *, ibv_grh *, ibv_ah_attr *);
extern ibv_ah * ibv_create_ah_from_wc(ibv_pd *, ibv_wc *, ibv_grh *, uint8_t);
extern int ibv_destroy_ah(ibv_ah *);
extern int ibv_resolve_eth_l2_from_gid(ibv_context *, ibv_ah_attr *, uint8_t *, uint16_t *);
extern int ibv_fork_init(void);
extern ibv_fork_status ibv_is_fork_initialized(void);
extern char const * ibv_node_type_str(ibv_node_type);
extern char const * ibv_port_state_str(ibv_port_state);
extern char const * ibv_event_type_str(ibv_event_type);
extern int _ibv_query_comp_cntr_caps(ibv_context *, ibv_comp_cntr_caps *, size_t);
extern ibv_comp_cntr * ibv_create_comp_cntr(ibv_context *, ibv_comp_cntr_init_attr *);
extern int ibv_destroy_comp_cntr(ibv_comp_cntr *);
extern int ibv_set_comp_cntr(ibv_comp_cntr *, uint64_t);
extern int ibv_set_err_comp_cntr(ibv_comp_cntr *, uint64_t);
extern int ibv_inc_comp_cntr(ibv_comp_cntr *, uint64_t);
extern int ibv_inc_err_comp_cntr(ibv_comp_cntr *, uint64_t);
extern int ibv_read_comp_cntr(ibv_comp_cntr *, uint64_t *);
extern int ibv_read_err_comp_cntr(ibv_comp_cntr *, uint64_t *);
extern int ibv_qp_attach_comp_cntr(ibv_qp *, ibv_comp_cntr *, ibv_qp_attach_comp_cntr_attr *);
extern void ibv_copy_ah_attr_from_kern(ibv_ah_attr *, struct ib_uverbs_ah_attr *);
extern void ibv_copy_path_rec_from_kern(ibv_sa_path_rec *, struct ib_user_path_rec *);
extern void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *, ibv_sa_path_rec *);
extern void ibv_copy_qp_attr_from_kern(ibv_qp_attr *, struct ib_uverbs_qp_attr *);
extern int ibv_dofork_range(void *, size_t);
extern int ibv_dontfork_range(void *, size_t);
extern char const * ibv_get_sysfs_path(void);
extern int ibv_query_gid_type(ibv_context *, uint8_t, unsigned int, unsigned int *);
extern int ibv_read_sysfs_file(char const *, char const *, char *, size_t);
extern void ibv_register_driver(char const *, void *);
extern rdma_event_channel * rdma_create_event_channel(void);
extern void rdma_destroy_event_channel(rdma_event_channel *);
extern int rdma_create_id(rdma_event_channel *, rdma_cm_id * *, void *, rdma_port_space);
extern int rdma_create_ep(rdma_cm_id * *, rdma_addrinfo *, ibv_pd *, ibv_qp_init_attr *);
extern void rdma_destroy_ep(rdma_cm_id *);
extern int rdma_destroy_id(rdma_cm_id *);
extern int rdma_bind_addr(rdma_cm_id *, struct sockaddr *);
extern int rdma_resolve_addr(rdma_cm_id *, struct sockaddr *, struct sockaddr *, int);
extern int rdma_resolve_route(rdma_cm_id *, int);
extern int rdma_create_qp(rdma_cm_id *, ibv_pd *, ibv_qp_init_attr *);
extern int rdma_create_qp_ex(rdma_cm_id *, ibv_qp_init_attr_ex *);
extern void rdma_destroy_qp(rdma_cm_id *);
extern int rdma_create_srq(rdma_cm_id *, ibv_pd *, ibv_srq_init_attr *);
extern int rdma_create_srq_ex(rdma_cm_id *, ibv_srq_init_attr_ex *);
extern void rdma_destroy_srq(rdma_cm_id *);
extern int rdma_connect(rdma_cm_id *, rdma_conn_param *);
extern int rdma_establish(rdma_cm_id *);
extern int rdma_listen(rdma_cm_id *, int);
extern int rdma_get_request(rdma_cm_id *, rdma_cm_id * *);
extern int rdma_accept(rdma_cm_id *, rdma_conn_param *);
extern int rdma_reject(rdma_cm_id *, void const *, uint8_t);
extern int rdma_reject_ece(rdma_cm_id *, void const *, uint8_t);
extern int rdma_notify(rdma_cm_id *, ibv_event_type);
extern int rdma_disconnect(rdma_cm_id *);
extern int rdma_join_multicast(rdma_cm_id *, struct sockaddr *, void *);
extern int rdma_leave_multicast(rdma_cm_id *, struct sockaddr *);
extern int rdma_join_multicast_ex(rdma_cm_id *, rdma_cm_join_mc_attr_ex *, void *);
extern int rdma_get_cm_event(rdma_event_channel *, rdma_cm_event * *);
extern int rdma_ack_cm_event(rdma_cm_event *);
extern __be16 rdma_get_src_port(rdma_cm_id *);
extern __be16 rdma_get_dst_port(rdma_cm_id *);
extern ibv_context * * rdma_get_devices(int *);
extern void rdma_free_devices(ibv_context * *);
extern char const * rdma_event_str(rdma_cm_event_type);
extern int rdma_set_option(rdma_cm_id *, int, int, void *, size_t);
extern int rdma_migrate_id(rdma_cm_id *, rdma_event_channel *);
extern int rdma_getaddrinfo(char const *, char const *, rdma_addrinfo const *, rdma_addrinfo * *);
extern void rdma_freeaddrinfo(rdma_addrinfo *);
extern int rdma_init_qp_attr(rdma_cm_id *, ibv_qp_attr *, int *);
extern int rdma_set_local_ece(rdma_cm_id *, ibv_ece *);
extern int rdma_get_remote_ece(rdma_cm_id *, ibv_ece *);
extern int rdma_resolve_addrinfo(rdma_cm_id *, char const *, char const *, rdma_addrinfo const *);
extern int rdma_query_addrinfo(rdma_cm_id *, rdma_addrinfo * *);
extern int rdma_write_cm_event(rdma_cm_id *, rdma_cm_event_type, int, uint64_t);
extern int rsocket(int, int, int);
extern int rbind(int, struct sockaddr const *, socklen_t);
extern int rlisten(int, int);
extern int raccept(int, struct sockaddr *, socklen_t *);
extern int rconnect(int, struct sockaddr const *, socklen_t);
extern int rshutdown(int, int);
extern int rclose(int);
extern ssize_t rrecv(int, void *, size_t, int);
extern ssize_t rrecvfrom(int, void *, size_t, int, struct sockaddr *, socklen_t *);
extern ssize_t rrecvmsg(int, struct msghdr *, int);
extern ssize_t rsend(int, void const *, size_t, int);
extern ssize_t rsendto(int, void const *, size_t, int, struct sockaddr const *, socklen_t);
extern ssize_t rsendmsg(int, struct msghdr const *, int);
extern ssize_t rread(int, void *, size_t);
extern ssize_t rreadv(int, struct iovec const *, int);
extern ssize_t rwrite(int, void const *, size_t);
extern ssize_t rwritev(int, struct iovec const *, int);
extern int rpoll(struct pollfd *, nfds_t, int);
extern int rselect(int, fd_set *, fd_set *, fd_set *, struct timeval *);
extern int rgetpeername(int, struct sockaddr *, socklen_t *);
extern int rgetsockname(int, struct sockaddr *, socklen_t *);
extern int rsetsockopt(int, int, int, void const *, socklen_t);
extern int rgetsockopt(int, int, int, void *, socklen_t *);
extern int rfcntl(int, int, ...);
extern off_t riomap(int, void *, size_t, int, int, off_t);
extern int riounmap(int, void *, size_t);
extern size_t riowrite(int, void const *, size_t, off_t, int);
extern int repoll_create(int);
extern int repoll_ctl(int, int, int, struct epoll_event *);
extern int repoll_wait(int, struct epoll_event *, int, int);
