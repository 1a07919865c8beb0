// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a service asks for, against what Linux asks for.

use std::fs::File;
use std::path::Path;

use ferrowire_net::cm::machine::Timing;
use ferrowire_net::mad::{IpCm, Mad, Message, PortSpace, Req};
use ferrowire_net::rdma::{ConnParam, EventKind, Id, ServiceConfig};
use pcap_file::pcapng::{Block, PcapNgReader};

use crate::rig::*;

/// The request of `rping` on Linux, from 10.0.0.2 to 10.0.0.1.
fn linux() -> Req {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sim/golden/tools/rdma_cm.pcap");
    let mut reader = PcapNgReader::new(File::open(path).unwrap()).unwrap();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            let mad = Mad::parse(&packet.data[62..packet.data.len() - 4]).unwrap();
            if let Message::Req(req) = mad.message {
                if PortSpace::of_service_id(req.service_id) == Some((PortSpace::Tcp, 7174)) {
                    return req;
                }
            }
        }
    }
    panic!("rping asks");
}

#[test]
fn a_service_asks_for_a_connection_as_linux_does() {
    let linux = linux();
    let wire = Wire::new(2);
    let mut config = ServiceConfig::default();
    config.timing = Timing { response: 20, ..Timing::default() };
    let (server, client) = (Host::new(&wire, 0), Host::with(&wire, 1, config, 1));
    let _listener = server.listen(PortSpace::Tcp, 7174);
    let id: Id = client.id();
    id.set_options(|options| options.ack_timeout = linux.primary_local_ack_timeout);
    let ip = IpCm::parse(&linux.private_data).unwrap();
    id.resolve_address(Some((ip.source, ip.source_port).into()), (ip.destination, 7174).into(), RESOLVE)
        .unwrap();
    client.expect(EventKind::AddressResolved);
    id.resolve_route().unwrap();
    client.expect(EventKind::RouteResolved);
    let param = ConnParam {
        private_data: linux.private_data[IpCm::BYTES..].to_vec(),
        responder_resources: linux.responder_resources,
        initiator_depth: linux.initiator_depth,
        retry_count: 7,
        rnr_retry_count: 7,
        qp_num: linux.local_qpn,
        ..ConnParam::default()
    };
    id.connect(&param).unwrap();
    let asked = wire.sent().into_iter().find_map(|(_, mad)| match mad.message {
        Message::Req(req) => Some(req),
        _ => None,
    });
    // Numbers that each chooses for itself, and the flow label, from which Linux has its UDP port.
    let asked = asked.unwrap();
    let same = Req {
        local_comm_id: linux.local_comm_id,
        local_ca_guid: linux.local_ca_guid,
        starting_psn: linux.starting_psn,
        primary_flow_label: linux.primary_flow_label,
        ..asked
    };
    assert_eq!(same, linux);
}
