// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of codes, and rates.

use core::ffi::{c_char, c_int, CStr};

use crate::abi::*;

/// Declares a function from a code to its name.
macro_rules! names {
    ($(
        $(#[doc = $doc:literal])+
        fn $name:ident($ty:ty) else $other:literal { $( $code:ident => $text:literal, )+ }
    )+) => {$(
        $(#[doc = $doc])+
        ///
        /// # Safety
        /// None is needed.
        #[no_mangle]
        pub unsafe extern "C" fn $name(code: $ty) -> *const c_char {
            let text: &'static CStr = match code {
                $( $code => $text, )+
                _ => $other,
            };
            text.as_ptr()
        }
    )+};
}

names! {
    /// The name of a completion's status.
    fn ibv_wc_status_str(ibv_wc_status) else c"unknown status" {
        IBV_WC_SUCCESS => c"success",
        IBV_WC_LOC_LEN_ERR => c"local length error",
        IBV_WC_LOC_QP_OP_ERR => c"local QP operation error",
        IBV_WC_LOC_EEC_OP_ERR => c"local EE context operation error",
        IBV_WC_LOC_PROT_ERR => c"local protection error",
        IBV_WC_WR_FLUSH_ERR => c"work request flushed",
        IBV_WC_MW_BIND_ERR => c"memory window bind error",
        IBV_WC_BAD_RESP_ERR => c"bad response error",
        IBV_WC_LOC_ACCESS_ERR => c"local access error",
        IBV_WC_REM_INV_REQ_ERR => c"remote invalid request error",
        IBV_WC_REM_ACCESS_ERR => c"remote access error",
        IBV_WC_REM_OP_ERR => c"remote operation error",
        IBV_WC_RETRY_EXC_ERR => c"transport retries exceeded",
        IBV_WC_RNR_RETRY_EXC_ERR => c"RNR retries exceeded",
        IBV_WC_LOC_RDD_VIOL_ERR => c"local RDD violation",
        IBV_WC_REM_INV_RD_REQ_ERR => c"remote invalid RD request",
        IBV_WC_REM_ABORT_ERR => c"remote abort",
        IBV_WC_INV_EECN_ERR => c"invalid EE context number",
        IBV_WC_INV_EEC_STATE_ERR => c"invalid EE context state",
        IBV_WC_FATAL_ERR => c"fatal error",
        IBV_WC_RESP_TIMEOUT_ERR => c"response timeout",
        IBV_WC_GENERAL_ERR => c"general error",
        IBV_WC_TM_ERR => c"tag matching error",
        IBV_WC_TM_RNDV_INCOMPLETE => c"tag matching rendezvous incomplete",
    }

    /// The name of a work request's operation.
    fn ibv_wr_opcode_str(ibv_wr_opcode) else c"unknown opcode" {
        IBV_WR_RDMA_WRITE => c"RDMA write",
        IBV_WR_RDMA_WRITE_WITH_IMM => c"RDMA write with immediate",
        IBV_WR_SEND => c"send",
        IBV_WR_SEND_WITH_IMM => c"send with immediate",
        IBV_WR_RDMA_READ => c"RDMA read",
        IBV_WR_ATOMIC_CMP_AND_SWP => c"atomic compare and swap",
        IBV_WR_ATOMIC_FETCH_AND_ADD => c"atomic fetch and add",
        IBV_WR_LOCAL_INV => c"local invalidate",
        IBV_WR_BIND_MW => c"bind memory window",
        IBV_WR_SEND_WITH_INV => c"send with invalidate",
        IBV_WR_TSO => c"TCP segmentation",
        IBV_WR_DRIVER1 => c"driver operation",
        IBV_WR_FLUSH => c"flush",
        IBV_WR_ATOMIC_WRITE => c"atomic write",
    }

    /// The name of a kind of node.
    fn ibv_node_type_str(ibv_node_type) else c"unknown" {
        IBV_NODE_CA => c"InfiniBand channel adapter",
        IBV_NODE_SWITCH => c"InfiniBand switch",
        IBV_NODE_ROUTER => c"InfiniBand router",
        IBV_NODE_RNIC => c"iWARP NIC",
        IBV_NODE_USNIC => c"usNIC",
        IBV_NODE_USNIC_UDP => c"usNIC UDP",
        IBV_NODE_UNSPECIFIED => c"unspecified",
    }

    /// The name of a port's state.
    fn ibv_port_state_str(ibv_port_state) else c"unknown" {
        IBV_PORT_NOP => c"no state change (NOP)",
        IBV_PORT_DOWN => c"down",
        IBV_PORT_INIT => c"init",
        IBV_PORT_ARMED => c"armed",
        IBV_PORT_ACTIVE => c"active",
        IBV_PORT_ACTIVE_DEFER => c"active defer",
    }

    /// The name of an asynchronous event.
    fn ibv_event_type_str(ibv_event_type) else c"unknown" {
        IBV_EVENT_CQ_ERR => c"CQ error",
        IBV_EVENT_QP_FATAL => c"local work queue catastrophic error",
        IBV_EVENT_QP_REQ_ERR => c"invalid request local work queue error",
        IBV_EVENT_QP_ACCESS_ERR => c"local access violation work queue error",
        IBV_EVENT_COMM_EST => c"communication established",
        IBV_EVENT_SQ_DRAINED => c"send queue drained",
        IBV_EVENT_PATH_MIG => c"path migrated",
        IBV_EVENT_PATH_MIG_ERR => c"path migration request error",
        IBV_EVENT_DEVICE_FATAL => c"local catastrophic error",
        IBV_EVENT_PORT_ACTIVE => c"port active",
        IBV_EVENT_PORT_ERR => c"port error",
        IBV_EVENT_LID_CHANGE => c"LID change",
        IBV_EVENT_PKEY_CHANGE => c"P_Key change",
        IBV_EVENT_SM_CHANGE => c"SM change",
        IBV_EVENT_SRQ_ERR => c"SRQ catastrophic error",
        IBV_EVENT_SRQ_LIMIT_REACHED => c"SRQ limit reached",
        IBV_EVENT_QP_LAST_WQE_REACHED => c"last WQE reached",
        IBV_EVENT_CLIENT_REREGISTER => c"client reregistration",
        IBV_EVENT_GID_CHANGE => c"GID table change",
        IBV_EVENT_WQ_FATAL => c"WQ fatal",
        IBV_EVENT_DEVICE_SPEED_CHANGE => c"device speed change",
    }
}

const _: functions::ibv_wc_status_str = ibv_wc_status_str;
const _: functions::ibv_wr_opcode_str = ibv_wr_opcode_str;
const _: functions::ibv_node_type_str = ibv_node_type_str;
const _: functions::ibv_port_state_str = ibv_port_state_str;
const _: functions::ibv_event_type_str = ibv_event_type_str;

/// Rates: the multiple of 2.5 Gb/s, if there is one, and Mb/s.
const RATES: [(ibv_rate, c_int, c_int); 23] = [
    (IBV_RATE_2_5_GBPS, 1, 2500),
    (IBV_RATE_5_GBPS, 2, 5000),
    (IBV_RATE_10_GBPS, 4, 10_000),
    (IBV_RATE_20_GBPS, 8, 20_000),
    (IBV_RATE_30_GBPS, 12, 30_000),
    (IBV_RATE_40_GBPS, 16, 40_000),
    (IBV_RATE_60_GBPS, 24, 60_000),
    (IBV_RATE_80_GBPS, 32, 80_000),
    (IBV_RATE_120_GBPS, 48, 120_000),
    (IBV_RATE_14_GBPS, -1, 14_062),
    (IBV_RATE_56_GBPS, -1, 56_250),
    (IBV_RATE_112_GBPS, -1, 112_500),
    (IBV_RATE_168_GBPS, -1, 168_750),
    (IBV_RATE_25_GBPS, 10, 25_781),
    (IBV_RATE_100_GBPS, 40, 103_125),
    (IBV_RATE_200_GBPS, 80, 206_250),
    (IBV_RATE_300_GBPS, 120, 309_375),
    (IBV_RATE_28_GBPS, 11, 28_125),
    (IBV_RATE_50_GBPS, 20, 53_125),
    (IBV_RATE_400_GBPS, 160, 425_000),
    (IBV_RATE_600_GBPS, 240, 637_500),
    (IBV_RATE_800_GBPS, 320, 850_000),
    (IBV_RATE_1200_GBPS, 480, 1_275_000),
];

fn find<T>(
    by: impl Fn(&(ibv_rate, c_int, c_int)) -> bool,
    give: impl Fn(&(ibv_rate, c_int, c_int)) -> T,
) -> Option<T> {
    RATES.iter().find(|rate| by(rate)).map(give)
}

/// The multiple of 2.5 Gb/s of a rate; -1 if there is none.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn ibv_rate_to_mult(rate: ibv_rate) -> c_int {
    find(|known| known.0 == rate, |known| known.1).unwrap_or(-1)
}

/// The rate of a multiple of 2.5 Gb/s; `IBV_RATE_MAX` if there is none.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn mult_to_ibv_rate(mult: c_int) -> ibv_rate {
    find(|known| mult > 0 && known.1 == mult, |known| known.0).unwrap_or(IBV_RATE_MAX)
}

/// The Mb/s of a rate; -1 if it is unknown.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn ibv_rate_to_mbps(rate: ibv_rate) -> c_int {
    find(|known| known.0 == rate, |known| known.2).unwrap_or(-1)
}

/// The rate of a number of Mb/s; `IBV_RATE_MAX` if there is none.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> ibv_rate {
    find(|known| known.2 == mbps, |known| known.0).unwrap_or(IBV_RATE_MAX)
}

const _: functions::ibv_rate_to_mult = ibv_rate_to_mult;
const _: functions::mult_to_ibv_rate = mult_to_ibv_rate;
const _: functions::ibv_rate_to_mbps = ibv_rate_to_mbps;
const _: functions::mbps_to_ibv_rate = mbps_to_ibv_rate;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_come_back() {
        // SAFETY: the functions need none.
        unsafe {
            for (rate, mult, mbps) in RATES {
                assert_eq!((ibv_rate_to_mult(rate), ibv_rate_to_mbps(rate)), (mult, mbps));
                assert_eq!(mbps_to_ibv_rate(mbps), rate);
                if mult > 0 {
                    assert_eq!(mult_to_ibv_rate(mult), rate);
                }
            }
            assert_eq!((mult_to_ibv_rate(-1), mult_to_ibv_rate(3)), (IBV_RATE_MAX, IBV_RATE_MAX));
            assert_eq!((ibv_rate_to_mult(99), ibv_rate_to_mbps(99)), (-1, -1));
        }
    }

    #[test]
    fn codes_have_names() {
        // SAFETY: the functions give texts that end.
        unsafe {
            let text = |text| CStr::from_ptr(text).to_str().unwrap();
            assert_eq!(text(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR)), "transport retries exceeded");
            assert_eq!(text(ibv_wc_status_str(1000)), "unknown status");
            assert_eq!(text(ibv_port_state_str(IBV_PORT_ACTIVE)), "active");
            assert_eq!(text(ibv_node_type_str(-1)), "unknown");
        }
    }
}
