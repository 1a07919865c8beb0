// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the command processor keeps of objects, and the write ports of the tables that it owns.

use crate::rx::address::gid_bits;
use crate::types::{AddressVector, TableWrite};
use ferrowire_rtl::{bits, Bundle, Mem, Scope, Sig};

/// What is kept of a completion queue.
#[derive(Clone, Bundle)]
pub(super) struct OwnedCq {
    pub(super) owned: Owned,
    pub(super) eqn: Sig,
}

/// Something that others refer to.
#[derive(Clone, Bundle)]
pub(super) struct Owned {
    pub(super) exists: Sig,
    pub(super) users: Sig,
}

/// What is kept of a shared receive queue beside its users.
#[derive(Clone, Bundle)]
pub(super) struct OwnedSrq {
    pub(super) pd: Sig,
    pub(super) log2: Sig,
}

/// What is kept of a key.
#[derive(Clone, Bundle)]
pub(super) struct OwnedKey {
    pub(super) exists: Sig,
    pub(super) tag: Sig,
    pub(super) pd: Sig,
    pub(super) window: Sig,
    /// A region's page table entries: the first, and the one behind the last.
    pub(super) first: Sig,
    pub(super) end: Sig,
}

/// Of the address vector that the next MODIFY_QP puts into effect: what SET_AV says.
#[derive(Clone, Bundle)]
pub(super) struct Network {
    pub(super) gid: Sig,
    pub(super) dst_mac: Sig,
    pub(super) src_mac: Sig,
    pub(super) ipv6: Sig,
    pub(super) dst_ip: Sig,
    pub(super) src_ip: Sig,
    pub(super) vlan: Sig,
    pub(super) vlan_tci: Sig,
    pub(super) traffic_class: Sig,
    pub(super) hop_limit: Sig,
    pub(super) flow_label: Sig,
}

impl Network {
    pub(super) fn of() -> Network {
        let of = AddressVector::of();
        Network {
            gid: bits(gid_bits()),
            dst_mac: of.dst_mac,
            src_mac: of.src_mac,
            ipv6: of.ipv6,
            dst_ip: of.dst_ip,
            src_ip: of.src_ip,
            vlan: of.vlan,
            vlan_tci: of.vlan_tci,
            traffic_class: of.traffic_class,
            hop_limit: of.hop_limit,
            flow_label: of.flow_label,
        }
    }

    /// The whole address vector.
    pub(super) fn with(&self, ports: &Ports) -> AddressVector {
        AddressVector {
            dst_mac: self.dst_mac,
            src_mac: self.src_mac,
            ipv6: self.ipv6,
            dst_ip: self.dst_ip,
            src_ip: self.src_ip,
            vlan: self.vlan,
            vlan_tci: self.vlan_tci,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            flow_label: self.flow_label,
            udp_sport: ports.udp_sport,
            dest_qpn: ports.dest_qpn,
            pkey: ports.pkey,
        }
    }
}

/// What MODIFY_QP itself says of an address vector, and whether SET_AV has come.
#[derive(Clone, Bundle)]
pub(super) struct Ports {
    pub(super) given: Sig,
    pub(super) dest_qpn: Sig,
    pub(super) udp_sport: Sig,
    pub(super) pkey: Sig,
}

impl Ports {
    pub(super) fn of() -> Ports {
        let of = AddressVector::of();
        Ports { given: bits(1), dest_qpn: of.dest_qpn, udp_sport: of.udp_sport, pkey: of.pkey }
    }
}

/// The single write port of a table, to be driven once all is known.
pub(super) fn write_port<T: Bundle>(
    m: &Scope,
    name: &str,
    table: &Mem<T>,
    index: u32,
    shape: &T,
) -> TableWrite<T> {
    let port = m.wire_of(name, &TableWrite { enable: bits(1), index: bits(index), entry: shape.clone() });
    table.write(port.enable, port.index, &port.entry);
    port
}
