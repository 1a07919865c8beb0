// SPDX-License-Identifier: MIT OR Apache-2.0
//! AMD's blocks and cells, by their ports: one table for each, of which both the instance in a top and the stub that stands for it in lint are made.
//!
//! An instance gives each input, of the width in the table, and nothing else: [`Vendor::place`] stops otherwise. So a table that agrees with the product guide is all that has to be looked at.

use ferrowire_rtl::{lit, Scope, Sig};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Which way a port goes, as the block sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the block.
    In,
    /// From it.
    Out,
}
use Way::{In, Out};

/// A block or a cell.
#[derive(Clone, Copy, Debug)]
pub struct Vendor {
    /// Its ports, each with its width.
    pub ports: &'static [(Way, &'static str, u32)],
    /// Its parameters that are set somewhere, with what they are otherwise.
    pub params: &'static [(&'static str, &'static str)],
    /// Where the ports are described.
    pub document: &'static str,
}

/// The PCIe4 block at 512 bits, x16, with the MSI-X table in the user's logic. The IP of the PCIE4C block has the same ports.
pub const PCIE4: Vendor = Vendor { ports: PCIE4_PORTS, params: &[], document: "PG213, Port Descriptions" };

/// The 100 Gb/s Ethernet block with AXI4-Stream, RS-FEC and its transceivers; without AXI4-Lite, flow control, OTN and time stamps. Of the statistics those are here that tell of the link: some 250 outputs more are not read.
pub const CMAC: Vendor = Vendor { ports: CMAC_PORTS, params: &[], document: "PG203, Port Descriptions" };

/// A differential clock at a transceiver's pins.
pub const IBUFDS_GTE4: Vendor = Vendor {
    ports: &[(In, "I", 1), (In, "IB", 1), (In, "CEB", 1), (Out, "O", 1), (Out, "ODIV2", 1)],
    params: &[],
    document: "UG578, Reference Clock Input/Output Structure",
};

/// A differential input.
pub const IBUFDS: Vendor =
    Vendor { ports: &[(In, "I", 1), (In, "IB", 1), (Out, "O", 1)], params: &[], document: "UG974, IBUFDS" };

/// A clock buffer that divides.
pub const BUFGCE_DIV: Vendor = Vendor {
    ports: &[(In, "I", 1), (In, "CE", 1), (In, "CLR", 1), (Out, "O", 1)],
    params: &[("BUFGCE_DIVIDE", "1")],
    document: "UG974, BUFGCE_DIV",
};

/// A flip-flop that is set at once.
pub const FDPE: Vendor = Vendor {
    ports: &[(In, "C", 1), (In, "CE", 1), (In, "D", 1), (In, "PRE", 1), (Out, "Q", 1)],
    params: &[("INIT", "1'b1")],
    document: "UG974, FDPE",
};

/// Thirty-two flip-flops in a row.
pub const SRLC32E: Vendor = Vendor {
    ports: &[(In, "A", 5), (In, "CE", 1), (In, "CLK", 1), (In, "D", 1), (Out, "Q", 1), (Out, "Q31", 1)],
    params: &[("INIT", "32'h00000000")],
    document: "UG974, SRLC32E",
};

impl Vendor {
    /// The width of a port.
    pub fn width(&self, name: &str) -> Option<u32> {
        self.ports.iter().find(|(_, port, _)| *port == name).map(|(_, _, width)| *width)
    }

    /// Inputs that are tied to zero, but for those that are named.
    pub fn zeros(&self, but: &[&str]) -> Vec<(&'static str, Sig)> {
        let inputs = self.ports.iter().filter(|(way, name, _)| *way == In && !but.contains(name));
        inputs.map(|(_, name, width)| (*name, lit(*width, 0))).collect()
    }

    /// An instance: its outputs by name.
    ///
    /// # Panics
    /// An input is missing, twice, unknown or of another width.
    pub fn place(
        &self,
        m: &Scope,
        label: &str,
        module: &str,
        params: &[(&str, &str)],
        inputs: &[(&'static str, Sig)],
    ) -> BTreeMap<&'static str, Sig> {
        let wanted: Vec<(&str, u32)> = self
            .ports
            .iter()
            .filter(|(way, ..)| *way == In)
            .map(|(_, name, width)| (*name, *width))
            .collect();
        for (name, sig) in inputs {
            match wanted.iter().find(|(port, _)| port == name) {
                Some((_, width)) if *width == sig.width() => {}
                Some((_, width)) => {
                    panic!("{module}.{name} has {width} bits ({}), not {}", self.document, sig.width())
                }
                None => panic!("{module} has no input {name} ({})", self.document),
            }
        }
        for (port, _) in &wanted {
            let given = inputs.iter().filter(|(name, _)| name == port).count();
            assert!(given == 1, "{module}.{port} is given {given} times");
        }
        for (name, _) in params {
            assert!(self.params.iter().any(|(param, _)| param == name), "{module} has no parameter {name}");
        }
        let outputs: Vec<(&str, u32)> = self
            .ports
            .iter()
            .filter(|(way, ..)| *way == Out)
            .map(|(_, name, width)| (*name, *width))
            .collect();
        let sigs = m.label(label).black_box(module, params, &[], inputs, &outputs);
        sigs.iter().for_each(|sig| m.discard(sig));
        let names = self.ports.iter().filter(|(way, ..)| *way == Out).map(|(_, name, _)| *name);
        names.zip(sigs).collect()
    }

    /// A Verilog module with these ports and nothing in it, for tools that do not have the block.
    pub fn stub(&self, module: &str) -> String {
        let ports: Vec<String> = self
            .ports
            .iter()
            .map(|(way, name, width)| {
                let way = if *way == In { "input  wire" } else { "output wire" };
                let range = if *width > 1 { format!("[{}:0] ", width - 1) } else { String::new() };
                format!("    {way} {range}{name}")
            })
            .collect();
        let params: Vec<String> =
            self.params.iter().map(|(name, value)| format!("parameter {name} = {value}")).collect();
        let params = if params.is_empty() { String::new() } else { format!(" #({})", params.join(", ")) };
        let mut text = String::new();
        let _ = writeln!(text, "// {}", self.document);
        let _ = writeln!(text, "(* blackbox *)\nmodule {module}{params} (\n{}\n);", ports.join(",\n"));
        for (_, name, width) in self.ports.iter().filter(|(way, ..)| *way == Out) {
            let _ = writeln!(text, "    assign {name} = {width}'d0;");
        }
        text.push_str("endmodule\n");
        text
    }
}

const PCIE4_PORTS: &[(Way, &str, u32)] = &[
    (In, "sys_clk", 1),
    (In, "sys_clk_gt", 1),
    (In, "sys_reset", 1),
    (In, "pci_exp_rxp", 16),
    (In, "pci_exp_rxn", 16),
    (Out, "pci_exp_txp", 16),
    (Out, "pci_exp_txn", 16),
    (Out, "user_clk", 1),
    (Out, "user_reset", 1),
    (Out, "user_lnk_up", 1),
    (Out, "phy_rdy_out", 1),
    (In, "s_axis_rq_tdata", 512),
    (In, "s_axis_rq_tkeep", 16),
    (In, "s_axis_rq_tlast", 1),
    (In, "s_axis_rq_tuser", 137),
    (In, "s_axis_rq_tvalid", 1),
    (Out, "s_axis_rq_tready", 4),
    (Out, "m_axis_rc_tdata", 512),
    (Out, "m_axis_rc_tkeep", 16),
    (Out, "m_axis_rc_tlast", 1),
    (Out, "m_axis_rc_tuser", 161),
    (Out, "m_axis_rc_tvalid", 1),
    (In, "m_axis_rc_tready", 1),
    (Out, "m_axis_cq_tdata", 512),
    (Out, "m_axis_cq_tkeep", 16),
    (Out, "m_axis_cq_tlast", 1),
    (Out, "m_axis_cq_tuser", 183),
    (Out, "m_axis_cq_tvalid", 1),
    (In, "m_axis_cq_tready", 1),
    (In, "s_axis_cc_tdata", 512),
    (In, "s_axis_cc_tkeep", 16),
    (In, "s_axis_cc_tlast", 1),
    (In, "s_axis_cc_tuser", 81),
    (In, "s_axis_cc_tvalid", 1),
    (Out, "s_axis_cc_tready", 4),
    (Out, "pcie_rq_seq_num0", 6),
    (Out, "pcie_rq_seq_num_vld0", 1),
    (Out, "pcie_rq_seq_num1", 6),
    (Out, "pcie_rq_seq_num_vld1", 1),
    (Out, "pcie_rq_tag0", 8),
    (Out, "pcie_rq_tag1", 8),
    (Out, "pcie_rq_tag_av", 4),
    (Out, "pcie_rq_tag_vld0", 1),
    (Out, "pcie_rq_tag_vld1", 1),
    (Out, "pcie_tfc_nph_av", 4),
    (Out, "pcie_tfc_npd_av", 4),
    (In, "pcie_cq_np_req", 2),
    (Out, "pcie_cq_np_req_count", 6),
    (Out, "cfg_phy_link_down", 1),
    (Out, "cfg_phy_link_status", 2),
    (Out, "cfg_negotiated_width", 3),
    (Out, "cfg_current_speed", 2),
    (Out, "cfg_max_payload", 2),
    (Out, "cfg_max_read_req", 3),
    (Out, "cfg_function_status", 16),
    (Out, "cfg_function_power_state", 12),
    (Out, "cfg_vf_status", 504),
    (Out, "cfg_vf_power_state", 756),
    (Out, "cfg_link_power_state", 2),
    (In, "cfg_mgmt_addr", 10),
    (In, "cfg_mgmt_function_number", 8),
    (In, "cfg_mgmt_write", 1),
    (In, "cfg_mgmt_write_data", 32),
    (In, "cfg_mgmt_byte_enable", 4),
    (In, "cfg_mgmt_read", 1),
    (Out, "cfg_mgmt_read_data", 32),
    (Out, "cfg_mgmt_read_write_done", 1),
    (In, "cfg_mgmt_debug_access", 1),
    (Out, "cfg_err_cor_out", 1),
    (Out, "cfg_err_nonfatal_out", 1),
    (Out, "cfg_err_fatal_out", 1),
    (Out, "cfg_local_error_valid", 1),
    (Out, "cfg_local_error_out", 5),
    (Out, "cfg_ltssm_state", 6),
    (Out, "cfg_rx_pm_state", 2),
    (Out, "cfg_tx_pm_state", 2),
    (Out, "cfg_rcb_status", 4),
    (Out, "cfg_obff_enable", 2),
    (Out, "cfg_pl_status_change", 1),
    (Out, "cfg_tph_requester_enable", 4),
    (Out, "cfg_tph_st_mode", 12),
    (Out, "cfg_vf_tph_requester_enable", 252),
    (Out, "cfg_vf_tph_st_mode", 756),
    (Out, "cfg_msg_received", 1),
    (Out, "cfg_msg_received_data", 8),
    (Out, "cfg_msg_received_type", 5),
    (In, "cfg_msg_transmit", 1),
    (In, "cfg_msg_transmit_type", 3),
    (In, "cfg_msg_transmit_data", 32),
    (Out, "cfg_msg_transmit_done", 1),
    (Out, "cfg_fc_ph", 8),
    (Out, "cfg_fc_pd", 12),
    (Out, "cfg_fc_nph", 8),
    (Out, "cfg_fc_npd", 12),
    (Out, "cfg_fc_cplh", 8),
    (Out, "cfg_fc_cpld", 12),
    (In, "cfg_fc_sel", 3),
    (In, "cfg_dsn", 64),
    (Out, "cfg_bus_number", 8),
    (In, "cfg_power_state_change_ack", 1),
    (Out, "cfg_power_state_change_interrupt", 1),
    (In, "cfg_err_cor_in", 1),
    (In, "cfg_err_uncor_in", 1),
    (Out, "cfg_flr_in_process", 4),
    (In, "cfg_flr_done", 4),
    (Out, "cfg_vf_flr_in_process", 252),
    (In, "cfg_vf_flr_func_num", 8),
    (In, "cfg_vf_flr_done", 1),
    (In, "cfg_link_training_enable", 1),
    (In, "cfg_interrupt_int", 4),
    (In, "cfg_interrupt_pending", 4),
    (Out, "cfg_interrupt_sent", 1),
    (Out, "cfg_interrupt_msix_enable", 4),
    (Out, "cfg_interrupt_msix_mask", 4),
    (Out, "cfg_interrupt_msix_vf_enable", 252),
    (Out, "cfg_interrupt_msix_vf_mask", 252),
    (In, "cfg_interrupt_msix_address", 64),
    (In, "cfg_interrupt_msix_data", 32),
    (In, "cfg_interrupt_msix_int", 1),
    (In, "cfg_interrupt_msix_vec_pending", 2),
    (Out, "cfg_interrupt_msix_vec_pending_status", 1),
    (Out, "cfg_interrupt_msi_sent", 1),
    (Out, "cfg_interrupt_msi_fail", 1),
    (In, "cfg_interrupt_msi_function_number", 8),
    (In, "cfg_pm_aspm_l1_entry_reject", 1),
    (In, "cfg_pm_aspm_tx_l0s_entry_disable", 1),
    (Out, "cfg_hot_reset_out", 1),
    (In, "cfg_config_space_enable", 1),
    (In, "cfg_req_pm_transition_l23_ready", 1),
    (In, "cfg_hot_reset_in", 1),
    (In, "cfg_ds_port_number", 8),
    (In, "cfg_ds_bus_number", 8),
    (In, "cfg_ds_device_number", 5),
];

const CMAC_PORTS: &[(Way, &str, u32)] = &[
    (In, "gt_rxp_in", 4),
    (In, "gt_rxn_in", 4),
    (Out, "gt_txp_out", 4),
    (Out, "gt_txn_out", 4),
    (In, "gt_ref_clk_p", 1),
    (In, "gt_ref_clk_n", 1),
    (In, "init_clk", 1),
    (In, "sys_reset", 1),
    (In, "gt_loopback_in", 12),
    (In, "gtwiz_reset_tx_datapath", 1),
    (In, "gtwiz_reset_rx_datapath", 1),
    (Out, "gt_txusrclk2", 1),
    (Out, "gt_rxusrclk2", 1),
    (Out, "gt_ref_clk_out", 1),
    (Out, "gt_rxrecclkout", 4),
    (Out, "gt_powergoodout", 4),
    (In, "rx_clk", 1),
    (Out, "usr_tx_reset", 1),
    (Out, "usr_rx_reset", 1),
    (In, "core_tx_reset", 1),
    (In, "core_rx_reset", 1),
    (In, "core_drp_reset", 1),
    (In, "tx_axis_tvalid", 1),
    (Out, "tx_axis_tready", 1),
    (In, "tx_axis_tdata", 512),
    (In, "tx_axis_tkeep", 64),
    (In, "tx_axis_tlast", 1),
    (In, "tx_axis_tuser", 1),
    (In, "tx_preamblein", 56),
    (Out, "tx_ovfout", 1),
    (Out, "tx_unfout", 1),
    (Out, "rx_axis_tvalid", 1),
    (Out, "rx_axis_tdata", 512),
    (Out, "rx_axis_tkeep", 64),
    (Out, "rx_axis_tlast", 1),
    (Out, "rx_axis_tuser", 1),
    (Out, "rx_preambleout", 56),
    (In, "ctl_tx_enable", 1),
    (In, "ctl_tx_test_pattern", 1),
    (In, "ctl_tx_send_idle", 1),
    (In, "ctl_tx_send_rfi", 1),
    (In, "ctl_tx_send_lfi", 1),
    (In, "ctl_tx_rsfec_enable", 1),
    (In, "ctl_rx_enable", 1),
    (In, "ctl_rx_force_resync", 1),
    (In, "ctl_rx_test_pattern", 1),
    (In, "ctl_rx_rsfec_enable", 1),
    (In, "ctl_rx_rsfec_enable_correction", 1),
    (In, "ctl_rx_rsfec_enable_indication", 1),
    (In, "ctl_rsfec_ieee_error_indication_mode", 1),
    (Out, "stat_rx_aligned", 1),
    (Out, "stat_rx_aligned_err", 1),
    (Out, "stat_rx_status", 1),
    (Out, "stat_rx_block_lock", 20),
    (Out, "stat_rx_hi_ber", 1),
    (Out, "stat_rx_local_fault", 1),
    (Out, "stat_rx_internal_local_fault", 1),
    (Out, "stat_rx_received_local_fault", 1),
    (Out, "stat_rx_remote_fault", 1),
    (Out, "stat_tx_local_fault", 1),
    (Out, "stat_rx_rsfec_corrected_cw_inc", 1),
    (Out, "stat_rx_rsfec_uncorrected_cw_inc", 1),
    (In, "drp_clk", 1),
    (In, "drp_addr", 10),
    (In, "drp_di", 16),
    (In, "drp_en", 1),
    (In, "drp_we", 1),
    (Out, "drp_do", 16),
    (Out, "drp_rdy", 1),
];
