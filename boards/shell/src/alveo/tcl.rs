// SPDX-License-Identifier: MIT OR Apache-2.0
//! The script for Vivado: AMD's blocks as IP, synthesis, placement, routing, bitstream and flash image.

use std::fmt::Write;

use ferrowire_spec::csr::{MSIX_PBA, MSIX_TABLE};
use ferrowire_spec::pci;

use super::{AlveoShell, ETHERNET, PCIE};

/// Properties of the PCIe block's IP (PG213). What the adapter wants of it is in `ferrowire_hdl::host::pcie4`.
fn pcie(shell: &AlveoShell) -> Vec<(&'static str, String)> {
    let hex = |value: u64, digits: usize| format!("{value:0digits$X}");
    let words = [
        ("mode_selection", "Advanced"),
        ("PL_LINK_CAP_MAX_LINK_SPEED", "8.0_GT/s"),
        ("PL_LINK_CAP_MAX_LINK_WIDTH", "X16"),
        ("axisten_if_width", "512_bit"),
        ("axisten_freq", "250"),
        // CC and RC follow these two.
        ("AXISTEN_IF_RQ_ALIGNMENT_MODE", "DWORD_Aligned"),
        ("AXISTEN_IF_CQ_ALIGNMENT_MODE", "DWORD_Aligned"),
        ("AXISTEN_IF_EXT_512_RQ_STRADDLE", "false"),
        ("AXISTEN_IF_EXT_512_CC_STRADDLE", "false"),
        ("AXISTEN_IF_EXT_512_CQ_STRADDLE", "false"),
        ("AXISTEN_IF_EXT_512_RC_4TLP_STRADDLE", "true"),
        ("axisten_if_enable_client_tag", "true"),
        ("extended_tag_field", "true"),
        ("pf0_dev_cap_max_payload", "1024_bytes"),
        ("pf0_bar0_64bit", "true"),
        ("pf0_bar0_prefetchable", "false"),
        ("pf0_bar0_scale", "Megabytes"),
        ("pf0_msi_enabled", "false"),
        ("pf0_msix_enabled", "true"),
        ("MSI_X_OPTIONS", "MSI-X_External"),
        ("PF0_MSIX_CAP_TABLE_BIR", "BAR_1:0"),
        ("PF0_MSIX_CAP_PBA_BIR", "BAR_1:0"),
        ("PF0_Use_Class_Code_Lookup_Assistant", "false"),
    ];
    let numbers = [
        ("vendor_id", hex(pci::VENDOR.into(), 4)),
        ("PF0_DEVICE_ID", hex(pci::DEVICE.into(), 4)),
        ("PF0_SUBSYSTEM_VENDOR_ID", hex(pci::SUBSYSTEM_VENDOR.into(), 4)),
        ("PF0_SUBSYSTEM_ID", hex(pci::SUBSYSTEM.into(), 4)),
        ("PF0_REVISION_ID", hex(pci::REVISION.into(), 2)),
        ("PF0_CLASS_CODE", hex(pci::CLASS.into(), 6)),
        ("pf0_bar0_size", (pci::BAR_BYTES >> 20).to_string()),
        // One less than there are.
        ("PF0_MSIX_CAP_TABLE_SIZE", hex(u64::from(shell.card.eqs) - 1, 3)),
        ("PF0_MSIX_CAP_TABLE_OFFSET", hex(MSIX_TABLE.into(), 8)),
        ("PF0_MSIX_CAP_PBA_OFFSET", hex(MSIX_PBA.into(), 8)),
    ];
    words.into_iter().map(|(name, value)| (name, value.to_string())).chain(numbers).collect()
}

/// Properties of the Ethernet block's IP (PG203).
fn ethernet(shell: &AlveoShell) -> Vec<(&'static str, String)> {
    const LANES: [&str; 4] = ["LANE1_GT_LOC", "LANE2_GT_LOC", "LANE3_GT_LOC", "LANE4_GT_LOC"];
    let qsfp = &shell.board.qsfp[0];
    let gts = qsfp.gts();
    let words = [
        ("CMAC_CAUI4_MODE", "1"),
        ("NUM_LANES", "4x25"),
        ("USER_INTERFACE", "AXIS"),
        ("ENABLE_AXI_INTERFACE", "0"),
        ("INCLUDE_STATISTICS_COUNTERS", "0"),
        ("INCLUDE_AUTO_NEG_LT_LOGIC", "0"),
        ("INCLUDE_RS_FEC", "1"),
        ("ENABLE_PIPELINE_REG", "1"),
        // The loss of the card's wires and the cage, in dB at the Nyquist frequency: with it the receivers' equalisers are set.
        ("INS_LOSS_NYQ", "20"),
        ("TX_FLOW_CONTROL", "0"),
        ("RX_FLOW_CONTROL", "0"),
        ("RX_FORWARD_CONTROL_FRAMES", "1"),
        ("TX_OTN_INTERFACE", "0"),
        ("TX_FRAME_CRC_CHECKING", "Enable FCS Insertion"),
        ("RX_FRAME_CRC_CHECKING", "Enable FCS Stripping"),
        ("RX_MIN_PACKET_LEN", "64"),
        ("ETHERNET_BOARD_INTERFACE", "Custom"),
        ("DIFFCLK_BOARD_INTERFACE", "Custom"),
    ];
    let drp = f64::from(shell.board.clock.divided_khz()) / 1000.0;
    let own = [
        ("RX_MAX_PACKET_LEN", shell.mac.max_frame.to_string()),
        ("GT_REF_CLK_FREQ", qsfp.refclk_mhz.clone()),
        ("GT_DRP_CLK", format!("{drp:.2}")),
        ("CMAC_CORE_SELECT", qsfp.cmac.clone()),
        ("GT_GROUP_SELECT", format!("{}~{}", gts[0], gts[3])),
    ];
    let lanes = LANES.into_iter().zip(gts);
    words.into_iter().map(|(name, value)| (name, value.to_string())).chain(own).chain(lanes).collect()
}

fn ip(text: &mut String, name: &str, ip: &str, properties: &[(&str, String)]) {
    let _ = writeln!(text, "make_ip {ip} {name} {{");
    for (property, value) in properties {
        let _ = writeln!(text, "    {property} {{{value}}}");
    }
    text.push_str("}\n");
}

/// Makes one of AMD's blocks as IP. A property that Vivado does not know, or answers with another value, ends the script: the block would be another one.
const MAKE_IP: &str = r#"
# Whether Vivado's value is the wanted one; it may write a number in another way.
proc same {now value} {
    if {[string equal -nocase $now $value]} { return 1 }
    return [expr {[string is double -strict $now] && [string is double -strict $value] && $now == $value}]
}

# A block as IP. A property that this Vivado does not know or does not take ends the script, for the block would be another one.
proc make_ip {ip name properties} {
    global out
    create_ip -vendor xilinx.com -library ip -name $ip -module_name $name -dir $out -force
    set made [get_ips $name]
    set known [list_property $made]
    set settings {}
    foreach {property value} $properties {
        if {"CONFIG.$property" ni $known} { error "$ip has no property $property in this Vivado" }
        lappend settings CONFIG.$property $value
    }
    set_property -dict $settings $made
    set refused {}
    foreach {property value} $properties {
        set now [get_property CONFIG.$property $made]
        if {![same $now $value]} { lappend refused "$property is $now, not $value" }
    }
    if {$refused ne ""} { error "$ip does not take what was set: [join $refused {; }]" }
}

# The Ethernet block needs a licence key, which costs nothing. With a Design_Linking licence alone everything passes but write_bitstream, hours later.
proc check_licence {} {
    foreach line [split [report_ip_status -license_status -return_string] "\n"] {
        if {[string match -nocase "*Design_Linking*" $line]} {
            error "no licence for the 100 Gb/s Ethernet block, cmac_usplus: get the no-charge key \"UltraScale+ Integrated 100G Ethernet\" at https://www.xilinx.com/getlicense, load it in Vivado's licence manager, and start again"
        }
    }
}
"#;

pub(super) fn build(shell: &AlveoShell) -> String {
    let board = &shell.board;
    let (top, part) = (&board.name, &board.part);
    let mut text = format!(
        r#"# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes {top}.bit and {top}.mcs with Vivado:
#   vivado -mode batch -source build.tcl [-tclargs FOLDER]
# FOLDER is where everything goes; without it that is this folder's name with .build behind it. It fails where anything does, and where a path is too slow.
# summary.txt, timing.rpt and utilization.rpt are there afterwards, also where a path is too slow.
set here [file dirname [file normalize [info script]]]
set out "$here.build"
if {{$argc > 0}} {{ set out [file normalize [lindex $argv 0]] }}
file mkdir $out
cd $out
# What an earlier run has left is not this one's.
file delete {top}.bit {top}.mcs {top}.prm summary.txt timing.rpt utilization.rpt
create_project -in_memory -part {part}
set_property target_language Verilog [current_project]
{MAKE_IP}
# Both blocks and the licence are checked before anything takes long.
"#
    );
    ip(&mut text, ETHERNET, "cmac_usplus", &ethernet(shell));
    text.push_str("check_licence\n");
    ip(&mut text, PCIE, board.pcie.block.ip(), &pcie(shell));
    let (mib, offset) = (board.flash.mcs_mib, board.flash.offset);
    let _ = write!(
        text,
        r#"
foreach name {{{ETHERNET} {PCIE}}} {{
    generate_target all [get_ips $name]
    synth_ip [get_ips $name]
}}

set list [open $here/files.f]
foreach name [split [string trim [read $list]] "\n"] {{ read_verilog $here/$name }}
close $list
read_xdc -unmanaged $here/{top}.xdc
# It names clocks and cells of blocks that are not there before.
set_property used_in_synthesis false [get_files $here/{top}.xdc]

# Modules are there again afterwards, for constraints name their cells.
synth_design -top {top} -part {part} -flatten_hierarchy rebuilt
write_checkpoint -force synthesised.dcp
opt_design
place_design -directive Explore
phys_opt_design -directive AggressiveExplore
route_design -directive Explore
phys_opt_design -directive AggressiveExplore
write_checkpoint -force routed.dcp
report_utilization -file utilization.rpt
report_utilization -hierarchical -file hierarchy.rpt
report_timing_summary -file timing.rpt
report_cdc -details -file cdc.rpt
report_methodology -file methodology.rpt
report_route_status -file route.rpt
set summary [open summary.txt w]
puts $summary "board {top}, part {part}, Vivado [version -short]"
set worst {{}}
foreach delay {{max min}} {{
    set slack [get_property SLACK [lindex [get_timing_paths -delay_type $delay] 0]]
    puts $summary "$delay: slack $slack ns"
    if {{$slack eq "" || $slack < 0}} {{ lappend worst "$delay: slack $slack ns" }}
}}
close $summary
if {{$worst ne ""}} {{ error "a path is too slow or too fast: [join $worst {{; }}], see $out/timing.rpt" }}
# Under names of their own until both are whole.
write_bitstream -force written.bit
write_cfgmem -force -format mcs -interface SPIx4 -size {mib} -loadbit "up {offset:#010x} written.bit" -file written.mcs
file rename written.bit {top}.bit
file rename written.mcs {top}.mcs
# What Vivado tells of the image.
if {{[file exists written.prm]}} {{ file rename -force written.prm {top}.prm }}
puts "$out/{top}.bit"
puts "report what came of it: summary.txt, timing.rpt and utilization.rpt (docs/src/boards.md says where)"
"#
    );
    text
}

/// The device at the end of a JTAG cable, and the folder of what `build.tcl` has made.
const JTAG: &str = r#"set here [file dirname [file normalize [info script]]]
set out "$here.build"
if {$argc > 0} { set out [file normalize [lindex $argv 0]] }
foreach file $files {
    if {![file exists $out/$file]} { error "no $out/$file: run build.tcl first, or name its folder: -tclargs FOLDER" }
}
open_hw_manager
connect_hw_server
open_hw_target
set devices [get_hw_devices]
if {$argc > 1} { set devices [get_hw_devices [lindex $argv 1]] }
if {[llength $devices] != 1} {
    error "[llength $devices] devices at the cable: [join $devices {, }]; name one: -tclargs FOLDER DEVICE"
}
set device [lindex $devices 0]
current_hw_device $device
refresh_hw_device -update_hw_probes false $device
"#;

/// A script that loads the bitstream into the device by JTAG.
pub(super) fn program(shell: &AlveoShell) -> String {
    let top = &shell.board.name;
    format!(
        r#"# SPDX-License-Identifier: MIT OR Apache-2.0
# Loads {top}.bit into the device by JTAG; it is gone with the power:
#   vivado -mode batch -source program.tcl [-tclargs FOLDER [DEVICE]]
# FOLDER is that of build.tcl. A host that is up has to look for the card again afterwards (a warm reboot).
set files {{{top}.bit}}
{JTAG}set_property PROGRAM.FILE $out/{top}.bit $device
program_hw_devices $device
refresh_hw_device -update_hw_probes false $device
puts "loaded $out/{top}.bit into $device"
"#
    )
}

/// A script that writes the image into the card's flash by JTAG.
pub(super) fn flash(shell: &AlveoShell) -> String {
    let (top, flash) = (&shell.board.name, &shell.board.flash);
    let (part, offset) = (&flash.part, flash.offset);
    format!(
        r#"# SPDX-License-Identifier: MIT OR Apache-2.0
# Writes {top}.mcs into the card's flash, from {offset:#010x} on, by JTAG; the card starts with it from its next power cycle on:
#   vivado -mode batch -source flash.tcl [-tclargs FOLDER [DEVICE]]
# FOLDER is that of build.tcl. Only what the image covers is erased and written.
set files {{{top}.mcs}}
{JTAG}set part [lindex [get_cfgmem_parts {{{part}}}] 0]
if {{$part eq ""}} {{ error "this Vivado knows no flash {part}" }}
create_hw_cfgmem -hw_device $device $part
set memory [get_property PROGRAM.HW_CFGMEM $device]
set_property PROGRAM.FILES [list $out/{top}.mcs] $memory
set_property PROGRAM.ADDRESS_RANGE {{use_file}} $memory
set_property PROGRAM.UNUSED_PIN_TERMINATION {{pull-none}} $memory
foreach step {{ERASE CFG_PROGRAM VERIFY}} {{ set_property PROGRAM.$step 1 $memory }}
foreach step {{BLANK_CHECK CHECKSUM}} {{ set_property PROGRAM.$step 0 $memory }}
# The flash is reached through a design of Vivado's own in the device.
create_hw_bitstream -hw_device $device [get_property PROGRAM.HW_CFGMEM_BITFILE $device]
program_hw_devices $device
refresh_hw_device $device
program_hw_cfgmem -hw_cfgmem $memory
puts "wrote $out/{top}.mcs into the flash of $device; switch the power off and on"
"#
    )
}
