// SPDX-License-Identifier: MIT OR Apache-2.0
//! The top of an Alveo card: AMD's blocks and cells, and the logic as a core. Wires only.

use ferrowire_rtl::{cat, lit, Netlist, Scope, Sig};
use std::collections::BTreeMap;

use super::logic::DEVICE_CONTROL;
use super::vendor::{BUFGCE_DIV, CMAC, FDPE, IBUFDS, IBUFDS_GTE4, PCIE4, SRLC32E};
use super::{AlveoShell, ETHERNET, INSIDE, PCIE};

/// Gives of an instance by name.
type Outs = BTreeMap<&'static str, Sig>;

pub(super) fn top(m: &Scope, shell: &AlveoShell, logic: &Netlist) {
    let on = lit(1, 1);
    let off = lit(1, 0);
    let (init_clk, power_up) = init(m, shell);

    // The logic comes first in this text, so its inputs are wires to be driven.
    let ports = logic.ports();
    let given: BTreeMap<String, Sig> = ports
        .iter()
        .filter(|port| port.input)
        .map(|port| (port.name.clone(), m.wire(&format!("in_{}", port.name), port.width)))
        .collect();
    let inputs: Vec<(&str, Sig)> = given.iter().map(|(name, sig)| (name.as_str(), *sig)).collect();
    let outputs: Vec<(&str, u32)> =
        ports.iter().filter(|port| !port.input).map(|port| (port.name.as_str(), port.width)).collect();
    let sigs = m.label(INSIDE).black_box(&shell.logic_name(), &[], &[], &inputs, &outputs);
    let inside: BTreeMap<&str, Sig> = outputs.iter().map(|(name, _)| *name).zip(sigs).collect();

    let pcie = pcie(m, shell, &inside);
    let ethernet = ethernet(m, shell, &inside, init_clk, power_up);

    let reset = |name: &str, clock: Sig| {
        let flop = |place: &str, input: Sig| {
            let inputs = [("C", clock), ("CE", on), ("D", input), ("PRE", pcie["user_reset"])];
            FDPE.place(m, &format!("{name}_{place}"), "FDPE", &[("INIT", "1'b1")], &inputs)["Q"]
        };
        flop("reset", flop("reset_meta", off))
    };
    let axis = |prefix: &str, field: &str| pcie[format!("m_axis_{prefix}_t{field}").as_str()];
    for (name, wire) in &given {
        let of_stream = |prefix: &str| name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_'));
        let value = match name.as_str() {
            "clk" => pcie["user_clk"],
            "rst" => reset("core", pcie["user_clk"]),
            "cmac_clk" => ethernet["gt_txusrclk2"],
            "cmac_rst" => reset("cmac", ethernet["gt_txusrclk2"]),
            // All four bits say the same (PG213, Requester Request Interface).
            "rq_ready" => pcie["s_axis_rq_tready"].bit(0),
            "cc_ready" => pcie["s_axis_cc_tready"].bit(0),
            "rq_seq_valid" => cat(&[pcie["pcie_rq_seq_num_vld0"], pcie["pcie_rq_seq_num_vld1"]]),
            "rq_seq_number0" => pcie["pcie_rq_seq_num0"],
            "rq_seq_number1" => pcie["pcie_rq_seq_num1"],
            "tfc_nph_av" => pcie["pcie_tfc_nph_av"],
            "pcie_flr" => pcie["cfg_flr_in_process"].bit(0),
            "cfg_bus_number" => pcie["cfg_bus_number"],
            "cfg_function_status" => pcie["cfg_function_status"].trunc(4),
            "cfg_max_payload" => pcie["cfg_max_payload"],
            "cfg_max_read_req" => pcie["cfg_max_read_req"],
            "cfg_msix_enable" => pcie["cfg_interrupt_msix_enable"].bit(0),
            "cfg_msix_mask" => pcie["cfg_interrupt_msix_mask"].bit(0),
            "cfg_mgmt_read_data" => pcie["cfg_mgmt_read_data"],
            "cfg_mgmt_read_write_done" => pcie["cfg_mgmt_read_write_done"],
            "tx_axis_ready" => ethernet["tx_axis_tready"],
            "stat_aligned" => ethernet["stat_rx_aligned"],
            "stat_remote_fault" => ethernet["stat_rx_remote_fault"],
            "stat_rx_reset" => ethernet["usr_rx_reset"],
            "stat_tx_reset" => ethernet["usr_tx_reset"],
            "stat_local_fault" => ethernet["stat_rx_local_fault"],
            "stat_high_ber" => ethernet["stat_rx_hi_ber"],
            "stat_fec_corrected" => ethernet["stat_rx_rsfec_corrected_cw_inc"],
            "stat_fec_uncorrected" => ethernet["stat_rx_rsfec_uncorrected_cw_inc"],
            "cfg_ltssm_state" => pcie["cfg_ltssm_state"],
            _ => match (of_stream("rc"), of_stream("cq"), of_stream("rx_axis")) {
                (Some(field), ..) => axis("rc", field),
                (_, Some(field), _) => axis("cq", field),
                (.., Some(field)) => ethernet[format!("rx_axis_t{field}").as_str()],
                _ => panic!("the logic has an input {name}, which nothing gives"),
            },
        };
        m.drive(wire, value);
    }

    if shell.board.link_led.is_some() {
        m.output("link_led", &inside["link_up"]);
    }
    if shell.board.hbm_cattrip.is_some() {
        // Nothing uses HBM; high would cut the power.
        m.output("hbm_cattrip", &off);
    }
    if shell.board.qsfp[0].control.is_some() {
        // The module is on and in high power; nobody speaks to it over the two-wire bus.
        m.output("qsfp0_modsell", &on);
        m.output("qsfp0_resetl", &on);
        m.output("qsfp0_lpmode", &off);
    }
}

/// A clock that always runs, and a reset behind configuration: the initial ones of a shift register.
fn init(m: &Scope, shell: &AlveoShell) -> (Sig, Sig) {
    let (on, off) = (lit(1, 1), lit(1, 0));
    let (p, n) = (m.input("clock_p", 1), m.input("clock_n", 1));
    let clock = IBUFDS.place(m, "clock_buffer", "IBUFDS", &[], &[("I", p), ("IB", n)])["O"];
    let divide = shell.board.clock.divide.to_string();
    let params = [("BUFGCE_DIVIDE", divide.as_str())];
    let inputs = [("I", clock), ("CE", on), ("CLR", off)];
    let clock = BUFGCE_DIV.place(m, "init_clock", "BUFGCE_DIV", &params, &inputs)["O"];
    let params = [("INIT", "32'hffffffff")];
    let inputs = [("A", lit(5, 31)), ("CE", on), ("CLK", clock), ("D", off)];
    (clock, SRLC32E.place(m, "power_up", "SRLC32E", &params, &inputs)["Q"])
}

fn pcie(m: &Scope, shell: &AlveoShell, inside: &BTreeMap<&str, Sig>) -> Outs {
    let lanes = shell.board.pcie.lanes;
    let off = lit(1, 0);
    let (p, n) = (m.input("pcie_refclk_p", 1), m.input("pcie_refclk_n", 1));
    let refclk =
        IBUFDS_GTE4.place(m, "pcie_refclk_buffer", "IBUFDS_GTE4", &[], &[("I", p), ("IB", n), ("CEB", off)]);
    let done = inside["pcie_flr_done"].zext(4);
    let mut inputs = vec![
        ("sys_clk", refclk["ODIV2"]),
        ("sys_clk_gt", refclk["O"]),
        // Low resets, whatever its name.
        ("sys_reset", m.input("pcie_perst_n", 1)),
        ("pci_exp_rxp", m.input("pcie_rx_p", lanes)),
        ("pci_exp_rxn", m.input("pcie_rx_n", lanes)),
        // A credit for a request of the CPU whenever there is room for one.
        ("pcie_cq_np_req", lit(2, 1)),
        ("cfg_mgmt_addr", lit(10, DEVICE_CONTROL)),
        ("cfg_mgmt_byte_enable", lit(4, 15)),
        ("cfg_mgmt_read", inside["cfg_mgmt_read"]),
        ("cfg_power_state_change_ack", lit(1, 1)),
        ("cfg_flr_done", done),
        ("cfg_link_training_enable", lit(1, 1)),
        ("cfg_config_space_enable", lit(1, 1)),
        ("m_axis_rc_tready", inside["rc_ready"]),
        ("m_axis_cq_tready", inside["cq_ready"]),
        ("s_axis_rq_tvalid", inside["rq_valid"]),
        ("s_axis_rq_tdata", inside["rq_data"]),
        ("s_axis_rq_tkeep", inside["rq_keep"]),
        ("s_axis_rq_tlast", inside["rq_last"]),
        ("s_axis_rq_tuser", inside["rq_user"]),
        ("s_axis_cc_tvalid", inside["cc_valid"]),
        ("s_axis_cc_tdata", inside["cc_data"]),
        ("s_axis_cc_tkeep", inside["cc_keep"]),
        ("s_axis_cc_tlast", inside["cc_last"]),
        ("s_axis_cc_tuser", inside["cc_user"]),
    ];
    let named: Vec<&str> = inputs.iter().map(|(name, _)| *name).collect();
    inputs.extend(PCIE4.zeros(&named));
    let pcie = PCIE4.place(m, "pcie", PCIE, &[], &inputs);
    m.output("pcie_tx_p", &pcie["pci_exp_txp"]);
    m.output("pcie_tx_n", &pcie["pci_exp_txn"]);
    pcie
}

fn ethernet(
    m: &Scope,
    shell: &AlveoShell,
    inside: &BTreeMap<&str, Sig>,
    init_clk: Sig,
    power_up: Sig,
) -> Outs {
    let (on, fec) = (lit(1, 1), lit(1, shell.board.rs_fec));
    let rx_clk = m.wire("ethernet_rx_clk", 1);
    let mut inputs = vec![
        ("gt_rxp_in", m.input("qsfp0_rx_p", 4)),
        ("gt_rxn_in", m.input("qsfp0_rx_n", 4)),
        ("gt_ref_clk_p", m.input("qsfp0_refclk_p", 1)),
        ("gt_ref_clk_n", m.input("qsfp0_refclk_n", 1)),
        ("init_clk", init_clk),
        ("sys_reset", power_up),
        ("drp_clk", init_clk),
        ("rx_clk", rx_clk),
        ("tx_axis_tvalid", inside["tx_axis_valid"]),
        ("tx_axis_tdata", inside["tx_axis_data"]),
        ("tx_axis_tkeep", inside["tx_axis_keep"]),
        ("tx_axis_tlast", inside["tx_axis_last"]),
        ("tx_axis_tuser", inside["tx_axis_user"]),
        ("ctl_tx_enable", inside["ctl_tx_enable"]),
        ("ctl_tx_send_rfi", inside["ctl_tx_send_rfi"]),
        ("ctl_tx_send_idle", inside["ctl_tx_send_idle"]),
        ("ctl_rx_enable", on),
        ("gtwiz_reset_rx_datapath", inside["ctl_rx_datapath_reset"]),
        // IEEE 802.3 clause 91: 100GBASE-CR4 and SR4 have it, and both ends must. The block takes these while it is in reset.
        ("ctl_tx_rsfec_enable", fec),
        ("ctl_rx_rsfec_enable", fec),
        ("ctl_rx_rsfec_enable_correction", fec),
        ("ctl_rx_rsfec_enable_indication", fec),
    ];
    let named: Vec<&str> = inputs.iter().map(|(name, _)| *name).collect();
    inputs.extend(CMAC.zeros(&named));
    let ethernet = CMAC.place(m, "ethernet", ETHERNET, &[], &inputs);
    m.drive(&rx_clk, ethernet["gt_txusrclk2"]);
    m.output("qsfp0_tx_p", &ethernet["gt_txp_out"]);
    m.output("qsfp0_tx_n", &ethernet["gt_txn_out"]);
    ethernet
}
