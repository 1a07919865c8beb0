// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire info`: what a card is, with the keys and the order of `ibv_devinfo -v`.

use clap::Args;
use ferrowire::spec::csr::{capabilities, port};
use ferrowire::spec::pci;
use ferrowire::spec::Register;
use ferrowire::{Capabilities, DropReason, Identity, Monitor, PathMtu, PortStatus};
use ferrowire_cards::attributes::{self, Link, DEVICE_FLAGS};
use ferrowire_cards::gids;
use serde_json::{Map, Value};

use crate::args::Common;
use crate::failure::Failure;
use crate::out;

/// Prints what a card is and can do, as `ibv_devinfo -v`
///
/// Values are the card's own. What it does not have is 0. GIDs are those that `gids` lists: the card's table cannot be read. GUIDs are made of the
/// MAC address, as RoCE has them. The card is not disturbed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    ferrowire -d sim:ferrowire0.sock info\n  \
    ferrowire -d sim:ferrowire0.sock info --json")]
pub struct InfoArgs {}

/// A line, or a heading: how deep, its name, and what stands there.
struct Line {
    depth: usize,
    key: &'static str,
    value: String,
    /// For programs; text where there is nothing better.
    json: Option<Value>,
}

/// All that is printed.
#[derive(Default)]
struct Lines(Vec<Line>);

impl Lines {
    fn put(&mut self, depth: usize, key: &'static str, value: String, json: Option<Value>) {
        self.0.push(Line { depth, key, value, json });
    }

    fn number(&mut self, key: &'static str, value: u64) {
        self.put(1, key, value.to_string(), Some(value.into()));
    }

    fn hex(&mut self, key: &'static str, value: u64) {
        self.put(1, key, format!("{value:#x}"), Some(value.into()));
    }

    fn text(&mut self, key: &'static str, value: impl Into<String>) {
        let value = value.into();
        self.put(1, key, value.clone(), Some(value.into()));
    }

    fn at_port(&mut self, key: &'static str, value: impl Into<String>, json: impl Into<Value>) {
        self.put(3, key, value.into(), Some(json.into()));
    }
}

/// The names of the features that are set in the card's register, in its order.
fn features(register: &Register, value: u64) -> Vec<&'static str> {
    let there = |offset: u16| value >> offset & 1 == 1;
    register.fields.iter().filter(|field| there(field.offset)).map(|field| field.name).collect()
}

/// A GUID of a MAC address, as `ibv_devinfo` prints it.
fn guid(mac: [u8; 6]) -> String {
    let bytes = gids::guid(mac);
    bytes.chunks(2).map(|two| format!("{:02x}{:02x}", two[0], two[1])).collect::<Vec<_>>().join(":")
}

fn device_lines(lines: &mut Lines, name: &str, card: &Identity, mac: [u8; 6], can: &Capabilities) {
    lines.put(0, "hca_id", name.into(), Some(name.into()));
    lines.text("transport", "InfiniBand (0)");
    lines.text("fw_ver", format!("{}.{}", card.version.0, card.version.1));
    lines.text("node_guid", guid(mac));
    lines.text("sys_image_guid", guid(mac));
    lines.put(1, "vendor_id", format!("{:#06x}", pci::VENDOR), Some(pci::VENDOR.into()));
    lines.number("vendor_part_id", pci::DEVICE.into());
    lines.hex("hw_ver", pci::REVISION.into());
    lines.number("phys_port_cnt", 1);
    // As much as the page table has entries for, with the largest pages.
    let largest = can.page_shifts.checked_ilog2().unwrap_or(0);
    lines.hex("max_mr_size", u64::from(can.mtt_entries) << largest);
    lines.hex("page_size_cap", can.page_shifts.into());
    lines.number("max_qp", can.max_qp.into());
    lines.number("max_qp_wr", 1 << can.max_sq_log2.min(can.max_rq_log2));
    let flags = attributes::device_flags(can);
    lines.put(1, "device_cap_flags", format!("{flags:#010x}"), Some(flags.into()));
    for (_, flag) in DEVICE_FLAGS.iter().filter(|(bit, _)| flags & bit != 0) {
        lines.put(5, "", (*flag).into(), None);
    }
    lines.number("max_sge", can.max_send_sge.min(can.max_recv_sge).into());
    lines.number("max_sge_rd", can.max_send_sge.into());
    lines.number("max_cq", can.max_cq.into());
    lines.number("max_cqe", can.max_cqe().into());
    lines.number("max_mr", can.max_mr.into());
    lines.number("max_pd", can.max_pd.into());
    lines.number("max_qp_rd_atom", can.max_dest_rd_atomic.into());
    lines.number("max_ee_rd_atom", 0);
    lines.number("max_res_rd_atom", u64::from(can.max_dest_rd_atomic) * u64::from(can.max_qp));
    lines.number("max_qp_init_rd_atom", can.max_rd_atomic.into());
    lines.number("max_ee_init_rd_atom", 0);
    lines.text("atomic_cap", if can.atomics { "ATOMIC_HCA (1)" } else { "ATOMIC_NONE (0)" });
    lines.number("max_ee", 0);
    lines.number("max_rdd", 0);
    lines.number("max_mw", if can.memory_windows { can.max_mr.into() } else { 0 });
    lines.number("max_raw_ipv6_qp", 0);
    lines.number("max_raw_ethy_qp", can.raw_ethernet.into());
    for key in ["max_mcast_grp", "max_mcast_qp_attach", "max_total_mcast_qp_attach"] {
        lines.number(key, 0);
    }
    lines.number("max_ah", can.max_ah.into());
    lines.number("max_fmr", 0);
    lines.number("max_srq", can.max_srq.into());
    lines.number("max_srq_wr", if can.max_srq > 0 { 1 << can.max_rq_log2 } else { 0 });
    lines.number("max_srq_sge", if can.max_srq > 0 { can.max_recv_sge.into() } else { 0 });
    lines.number("max_pkeys", attributes::PKEYS.into());
    lines.number("local_ca_ack_delay", 0);
    lines.put(1, "general_odp_caps", String::new(), Some(Value::Array(Vec::new())));
    for key in ["rc_odp_caps", "uc_odp_caps", "ud_odp_caps", "xrc_odp_caps"] {
        lines.put(1, key, String::new(), Some("NO SUPPORT".into()));
        lines.put(5, "", "NO SUPPORT".into(), None);
    }
    lines.put(1, "", "completion_timestamp_mask not supported".into(), None);
    match card.clock_khz {
        0 => lines.put(1, "", "core clock not supported".into(), None),
        khz => lines.put(1, "hca_core_clock", format!("{khz}kHZ"), Some(khz.into())),
    }
    lines.put(1, "device_cap_flags_ex", format!("{flags:#X}").replace("0X", "0x"), Some(flags.into()));
    lines.put(1, "tso_caps", String::new(), None);
    lines.put(2, "max_tso", "0".into(), Some(0.into()));
    lines.put(1, "rss_caps", String::new(), None);
    lines.put(2, "max_rwq_indirection_tables", "0".into(), Some(0.into()));
    lines.put(2, "max_rwq_indirection_table_size", "0".into(), Some(0.into()));
    lines.put(2, "rx_hash_function", "0x0".into(), Some(0.into()));
    lines.put(2, "rx_hash_fields_mask", "0x0".into(), Some(0.into()));
    lines.number("max_wq_type_rq", 0);
    lines.put(1, "packet_pacing_caps", String::new(), None);
    lines.put(2, "qp_rate_limit_min", "0kbps".into(), Some(0.into()));
    lines.put(2, "qp_rate_limit_max", "0kbps".into(), Some(0.into()));
    lines.put(1, "", "tag matching not supported".into(), None);
    // Event queue 0 is none.
    lines.number("num_comp_vectors", can.max_eq.saturating_sub(1).into());
}

/// What the card was built with, by the names of its register: of some, `ibv_devinfo` has nothing.
fn feature_lines(lines: &mut Lines, features: &[&'static str]) {
    lines.put(1, "features", String::new(), Some(features.into()));
    for feature in features {
        lines.put(5, "", (*feature).into(), None);
    }
}

/// What the card tells of its port beside its state.
struct PortCounts {
    bad_pkeys: u64,
    bad_qkeys: u64,
    gids: u64,
}

fn port_lines(lines: &mut Lines, port: &PortStatus, counts: &PortCounts, can: &Capabilities) {
    let mtu = match can.max_mtu.known() {
        Some(mtu) => format!("{} ({})", PathMtu::bytes(mtu), mtu.code()),
        None => "invalid MTU (0)".into(),
    };
    let (state, phys) = match port.up {
        true => ("PORT_ACTIVE (4)", "LINK_UP (5)"),
        false => ("PORT_DOWN (1)", "DISABLED (3)"),
    };
    lines.put(2, "port", "1".into(), Some(1.into()));
    lines.at_port("state", state, state);
    lines.at_port("max_mtu", mtu.clone(), mtu.clone());
    lines.at_port("active_mtu", mtu.clone(), mtu);
    lines.at_port("sm_lid", "0", 0);
    lines.at_port("port_lid", "0", 0);
    lines.at_port("port_lmc", "0x00", 0);
    lines.at_port("link_layer", "Ethernet", "Ethernet");
    // IBTA 9.7.7.
    lines.at_port("max_msg_sz", "0x80000000", 0x8000_0000u64);
    lines.at_port("port_cap_flags", format!("{:#010x}", attributes::PORT_FLAGS), attributes::PORT_FLAGS);
    lines.at_port("port_cap_flags2", "0x0000", 0);
    lines.at_port("max_vl_num", format!("{0} ({0})", attributes::MAX_VL), attributes::MAX_VL);
    lines.at_port("bad_pkey_cntr", format!("{:#x}", counts.bad_pkeys), counts.bad_pkeys);
    lines.at_port("qkey_viol_cntr", format!("{:#x}", counts.bad_qkeys), counts.bad_qkeys);
    lines.at_port("sm_sl", "0", 0);
    lines.at_port("pkey_tbl_len", attributes::PKEYS.to_string(), attributes::PKEYS);
    lines.at_port("gid_tbl_len", counts.gids.to_string(), counts.gids);
    lines.at_port("subnet_timeout", "0", 0);
    lines.at_port("init_type_reply", "0", 0);
    let link = Link::of(port.speed);
    let width = format!("{}X ({})", link.lanes, link.width);
    let speed = format!("{:.1} Gbps ({})", f64::from(link.lane) / 10.0, link.speed);
    lines.at_port("active_width", width.clone(), width);
    lines.at_port("active_speed", speed.clone(), speed);
    lines.at_port("phys_state", phys, phys);
}

fn gather(monitor: &mut Monitor, device: &crate::device::Device) -> Result<(Lines, Vec<String>), Failure> {
    let (card, status, can) = (monitor.identity()?, monitor.port()?, monitor.capabilities().clone());
    let counts = PortCounts {
        bad_pkeys: monitor.drop_counter(DropReason::Pkey)?,
        bad_qkeys: monitor.drop_counter(DropReason::Qkey)?,
        gids: monitor.register(&capabilities::BLOCK, &capabilities::MAX_GID)?,
    };
    let value = monitor.register(&capabilities::BLOCK, &capabilities::FEATURES)?;
    debug_assert!(counts.gids <= u64::from(port::GIDS));
    let mut lines = Lines::default();
    device_lines(&mut lines, &device.to_string(), &card, status.mac, &can);
    feature_lines(&mut lines, &features(&capabilities::FEATURES, value));
    port_lines(&mut lines, &status, &counts, &can);
    let gids = gids::of(&device.key(), status.mac, monitor.addresses(), can.ipv6)?;
    Ok((lines, gids.into_iter().map(gids::as_gid).collect()))
}

/// Carries it out.
pub fn run(common: &Common, InfoArgs {}: &InfoArgs) -> Result<(), Failure> {
    let device = common.device()?;
    let (lines, gids) = gather(&mut device.observe()?, &device)?;
    if common.json {
        let mut whole = Map::new();
        let mut port = Map::new();
        for Line { depth, key, json, .. } in lines.0 {
            let Some(json) = json.filter(|_| !key.is_empty()) else { continue };
            let into = if depth == 3 || key == "port" { &mut port } else { &mut whole };
            into.insert(key.into(), json);
        }
        port.insert("GID".into(), gids.into());
        whole.insert("ports".into(), vec![Value::from(port)].into());
        return out::json(&whole);
    }
    let mut text = String::new();
    for Line { depth, key, value, .. } in &lines.0 {
        let tabs = "\t".repeat(*depth);
        text += &match (key.is_empty(), value.is_empty()) {
            (true, _) => format!("{tabs}{value}\n"),
            (_, true) => format!("{tabs}{key}:\n"),
            _ if *depth == 0 || *key == "port" => format!("{tabs}{key}:\t{value}\n"),
            // Values stand below each other: 32 columns behind the key's first, 24 at the port.
            _ => {
                let columns = if *depth == 3 { 24 } else { 32 };
                let gap = (columns - (key.len() + 1).min(columns - 1)).div_ceil(8);
                format!("{tabs}{key}:{}{value}\n", "\t".repeat(gap))
            }
        };
    }
    for (i, gid) in gids.iter().enumerate() {
        text += &format!("\t\t\tGID[{i:>3}]:\t\t{gid}, RoCE v2\n");
    }
    out::text(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_is_made_of_the_mac_address() {
        assert_eq!(guid([2, 0xfe, 0, 0, 0, 1]), "00fe:00ff:fe00:0001");
        assert_eq!(guid([0; 6]), "0000:0000:0000:0000");
    }

    #[test]
    fn features_have_the_names_and_the_order_of_the_register() {
        let register = &capabilities::FEATURES;
        let bit = |name| 1 << register.field(name).unwrap().offset;
        assert_eq!(features(register, bit("vlan") | bit("rc") | bit("srq")), ["rc", "srq", "vlan"]);
        assert_eq!(features(register, bit("wqe_push")), ["wqe_push"]);
        assert!(features(register, 0).is_empty());
    }
}
