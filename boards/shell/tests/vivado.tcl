# SPDX-License-Identifier: MIT OR Apache-2.0
# Stand-ins for Vivado's commands, for tclsh. What is called is listed in calls.txt of the working folder at the start; the environment says how Vivado answers:
#   KNOWN    properties of all IP        REFUSED  a property that stays 0
#   LICENCE  report_ip_status's text     SLACK    of every path
#   DEVICES  at the JTAG cable
set calls [open [file join [pwd] calls.txt] w]
proc note {args} { global calls; puts $calls $args; flush $calls }
proc unknown {args} { note {*}$args }
proc create_ip {args} { note create_ip {*}$args; global env; foreach name $env(KNOWN) { set ::property(CONFIG.$name) 0 } }
proc get_ips {name} { return $name }
proc list_property {object} { global env; lmap name $env(KNOWN) { string cat CONFIG. $name } }
proc set_property {args} {
    note set_property {*}$args
    if {[lindex $args 0] ne "-dict"} { return }
    foreach {name value} [lindex $args 1] {
        if {$name eq "CONFIG.$::env(REFUSED)"} { set value 0 }
        # Vivado may write a number in another way.
        if {$name eq "CONFIG.GT_DRP_CLK"} { set value [expr {$value}] }
        set ::property($name) $value
    }
}
proc get_property {name args} {
    switch -glob $name {
        CONFIG.* { return $::property($name) }
        SLACK { return $::env(SLACK) }
        default { return $name }
    }
}
proc get_timing_paths {args} { return path }
proc report_ip_status {args} { note report_ip_status; return $::env(LICENCE) }
proc version {args} { return 2099.1 }
proc write_bitstream {args} { note write_bitstream; close [open [lindex $args end] w] }
proc write_cfgmem {args} { note write_cfgmem {*}$args; close [open [lindex $args end] w] }
proc get_hw_devices {args} { return [expr {[llength $args] ? $args : $::env(DEVICES)}] }
proc get_cfgmem_parts {name} { return $name }
set script [lindex $argv 0]
set argv [lrange $argv 1 end]
incr argc -1
info script $script
source $script
