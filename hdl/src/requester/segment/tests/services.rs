// SPDX-License-Identifier: MIT OR Apache-2.0
//! UC, UD and raw Ethernet: what they have, and what a datagram's WQE says.

use super::*;
use crate::types::RAW_OPCODE;
use ferrowire_spec::queue::send_wqe::ud::SendWqeUd;
use ferrowire_spec::wire::opcode::Service;

const PD: u64 = 0x12_3456;
const QKEY: u64 = 0x8765_4321;
const MODULUS: u32 = 1 << 24;

/// A segmenter with a QP of the service, in its queue the WQEs in their order.
struct Alone {
    bench: Bench,
    index: u16,
    psn: u32,
}

impl Alone {
    fn new(seed: u64, service: Service) -> Alone {
        let mut alone = Alone { bench: Bench::new(seed, 64), index: 0, psn: 0xff_fffe };
        let fields = [("service", service.code().into()), ("pd", PD), ("qkey", QKEY)];
        let mtu = if matches!(service, Service::Ud | Service::Raw) { 5 } else { 1 };
        for (name, value) in [&fields[..], &[("mtu", mtu), ("sq_sig_all", 0), ("max_rd_atomic", 0)]].concat()
        {
            alone.bench.sim.set(&format!("broadcast_attributes_entry_{name}"), value);
        }
        alone.bench.sim.set("broadcast_attributes_index", 0);
        alone.bench.sim.set("broadcast_attributes_enable", 1);
        alone.step();
        alone.bench.sim.set("broadcast_attributes_enable", 0);
        alone.oldest();
        // Of the QP's domain, of another, and none.
        for (number, valid, pd) in [(5, 1, PD), (6, 1, PD + 1), (7, 0, PD)] {
            alone.bench.sim.set("handles_enable", 1);
            alone.bench.sim.set("handles_index", number);
            alone.bench.sim.set("handles_entry_valid", valid);
            alone.bench.sim.set("handles_entry_pd", pd);
            alone.step();
        }
        alone.bench.sim.set("handles_enable", 0);
        alone.start(false);
        alone
    }

    fn step(&mut self) {
        let b = &mut self.bench;
        step(&mut b.sim, &mut b.sources, &mut b.sinks, &mut b.random, 0.2);
    }

    fn oldest(&mut self) {
        let sim = &mut self.bench.sim;
        sim.set("oldest_index", 0);
        sim.set("oldest_entry_index", self.index.into());
        sim.set("oldest_entry_psn", self.psn.into());
        sim.set("oldest_entry_first_psn", self.psn.into());
        sim.set("oldest_enable", 1);
        self.step();
        self.bench.sim.set("oldest_enable", 0);
    }

    fn start(&mut self, recovers: bool) {
        self.bench.sim.set("starting_psn", if recovers { 0x77 } else { self.psn.into() });
        self.bench.sim.set("starting_recovers", recovers.into());
        let fields = [("start", 1), ("index", self.index.into())];
        let (packets, resumes) =
            (self.bench.sinks[CANDIDATE].items.len(), self.bench.sinks[RESUME].items.len());
        self.bench.sources[FETCHED].push_values(&fields);
        while self.bench.sources[FETCHED].left() > 0 {
            self.step();
        }
        let token = &self.bench.sinks[CANDIDATE].items[packets];
        let of = |name: &str| token[&*format!("packet_{name}")].to_u64();
        assert_eq!((of("start"), of("last_psn")), (1, self.psn.into()));
        let resume = &self.bench.sinks[RESUME].items[resumes];
        let of = |name: &str| resume[name].to_u64();
        // One that goes on keeps what the scheduler has been told.
        assert_eq!((of("index"), of("start")), (self.index.into(), u64::from(!recovers)));
    }

    /// The packets of a WQE.
    fn packets(&mut self, unit: &[u8; 64], total: u64) -> Vec<Item> {
        let mut wqe =
            item(&Wqe::of(&self.bench.cfg), &[("index", self.index.into()), ("total", total.into())]);
        wqe.insert("unit".into(), Bits::from_bytes(512, unit));
        let before = self.bench.sinks[CANDIDATE].items.len();
        self.bench.sources[FETCHED].push(wqe);
        while self.bench.sources[FETCHED].left() > 0 {
            self.step();
        }
        (0..5).for_each(|_| self.step());
        let packets = self.bench.sinks[CANDIDATE].items[before..].to_vec();
        for packet in &packets {
            let of = |name: &str| packet[&*format!("packet_{name}")].to_u64();
            assert_eq!((of("index"), of("psn"), of("ack_req")), (self.index.into(), self.psn.into(), 0));
            // What is executed here is no packet.
            let local = [SendOpcode::LocalInv, SendOpcode::BindMw].map(|o| u64::from(o.code()));
            let executed = local.contains(&of("wqe_opcode")) && of("status") == 0;
            self.psn = (self.psn + u32::from(!executed)) & 0xff_ffff;
        }
        self.index = self.index.wrapping_add(1);
        packets
    }

    fn datagram(&mut self, wqe: SendWqeUd, total: u64) -> Item {
        let mut packets = self.packets(&wqe.to_bytes().unwrap(), total);
        assert_eq!(packets.len(), 1, "{wqe:?}");
        packets.remove(0)
    }
}

fn of(packet: &Item, name: &str) -> u64 {
    packet[&*format!("packet_{name}")].to_u64()
}

fn ended(packet: &Item) -> (u64, u64) {
    (of(packet, "status"), of(packet, "cause"))
}

#[test]
fn unreliable_connections_have_their_own_opcodes_and_no_answers() {
    let mut alone = Alone::new(21, Service::Uc);
    for opcode in SendOpcode::ALL {
        let unit =
            SendWqe { opcode: opcode.code(), remote_va: 0x1000, rkey: 0x8000_0001, ..SendWqe::default() };
        let unit = unit.to_bytes().unwrap();
        let has = matches!(
            opcode,
            SendOpcode::Send | SendOpcode::SendImm | SendOpcode::Write | SendOpcode::WriteImm
        );
        let local = matches!(opcode, SendOpcode::LocalInv | SendOpcode::BindMw);
        let total = match (has, local) {
            (true, _) => 600,
            (_, true) => 0,
            _ => 8,
        };
        let packets = alone.packets(&unit, total);
        if local {
            assert_eq!((packets.len(), ended(&packets[0])), (1, (0, 0)), "{opcode}");
            continue;
        }
        if !has {
            let refused = (WcStatus::LocQpOpErr.code().into(), LocalCause::WqeOpcode.code().into());
            assert_eq!((packets.len(), ended(&packets[0])), (1, refused), "{opcode}");
            continue;
        }
        let found: Vec<Opcode> =
            packets.iter().map(|p| Opcode::from_code(of(p, "opcode") as u8).unwrap()).collect();
        use Opcode::*;
        let expected = match opcode {
            SendOpcode::Send => [UcSendFirst, UcSendMiddle, UcSendLast],
            SendOpcode::SendImm => [UcSendFirst, UcSendMiddle, UcSendLastImm],
            SendOpcode::Write => [UcWriteFirst, UcWriteMiddle, UcWriteLast],
            _ => [UcWriteFirst, UcWriteMiddle, UcWriteLastImm],
        };
        assert_eq!(found, expected);
        assert!(packets.iter().all(|p| ended(p) == (0, 0) && of(p, "rkey") == 0x8000_0001));
    }
}

#[test]
fn datagrams_carry_destination_handle_and_queue_key_in_the_places_of_address_and_key() {
    let mut alone = Alone::new(22, Service::Ud);
    for (opcode, packet_opcode) in
        [(SendOpcode::Send, Opcode::UdSendOnly), (SendOpcode::SendImm, Opcode::UdSendOnlyImm)]
    {
        for (total, qkey, sent) in
            [(0, 0x7000_0001, 0x7000_0001), (4096, 0x8000_0000, QKEY), (77, 0xffff_ffff, QKEY)]
        {
            let wqe = SendWqeUd {
                opcode: opcode.code(),
                dest_qpn: 0xabcdef,
                ah: 5,
                qkey,
                imm: 0x11,
                solicited: true,
                fence: true,
                ..SendWqeUd::default()
            };
            let packet = alone.datagram(wqe, total);
            assert_eq!(ended(&packet), (0, 0));
            assert_eq!(of(&packet, "opcode"), packet_opcode.code().into());
            assert_eq!((of(&packet, "remote_va"), of(&packet, "rkey")), (5 << 32 | 0xabcdef, sent));
            assert_eq!((of(&packet, "bytes"), of(&packet, "last")), (total, 1));
            assert_eq!((of(&packet, "solicited"), of(&packet, "imm")), (1, 0x11));
        }
    }
}

#[test]
fn a_datagram_that_cannot_be_sent_says_why() {
    let mut alone = Alone::new(23, Service::Ud);
    let good = SendWqeUd { opcode: SendOpcode::Send.code(), ah: 5, ..SendWqeUd::default() };
    for opcode in SendOpcode::ALL.iter().filter(|o| !matches!(o, SendOpcode::Send | SendOpcode::SendImm)) {
        let packet = alone.datagram(SendWqeUd { opcode: opcode.code(), ..good }, 8);
        let refused = (WcStatus::LocQpOpErr.code().into(), LocalCause::WqeOpcode.code().into());
        assert_eq!(ended(&packet), refused, "{opcode}");
    }
    let packet = alone.datagram(good, 4097);
    assert_eq!(ended(&packet), (WcStatus::LocLenErr.code().into(), LocalCause::Length.code().into()));
    for ah in [6, 7, 64 + 5, 1 << 31 | 5] {
        let packet = alone.datagram(SendWqeUd { ah, ..good }, 8);
        let refused = (WcStatus::LocQpOpErr.code().into(), LocalCause::AddressHandle.code().into());
        assert_eq!((ended(&packet), packet["pays"].to_u64()), (refused, 0), "handle {ah:#x}");
    }
    assert_eq!(ended(&alone.datagram(good, 4096)), (0, 0));
}

#[test]
fn raw_ethernet_sends_whole_frames_and_nothing_else() {
    let mut alone = Alone::new(25, Service::Raw);
    let unit =
        |opcode: SendOpcode| SendWqe { opcode: opcode.code(), ..SendWqe::default() }.to_bytes().unwrap();
    for opcode in SendOpcode::ALL.iter().filter(|o| **o != SendOpcode::Send) {
        let packets = alone.packets(&unit(*opcode), 60);
        let refused = (WcStatus::LocQpOpErr.code().into(), LocalCause::WqeOpcode.code().into());
        assert_eq!((packets.len(), ended(&packets[0])), (1, refused), "{opcode}");
    }
    for total in [0, 13, 4097, 1 << 20] {
        let packets = alone.packets(&unit(SendOpcode::Send), total);
        let refused = (WcStatus::LocLenErr.code().into(), LocalCause::Length.code().into());
        assert_eq!((packets.len(), ended(&packets[0])), (1, refused), "{total} bytes");
    }
    for total in [14, 60, 1514, 4096] {
        let packets = alone.packets(&unit(SendOpcode::Send), total);
        assert_eq!((packets.len(), ended(&packets[0])), (1, (0, 0)), "{total} bytes");
        let packet = &packets[0];
        assert_eq!(of(packet, "opcode"), RAW_OPCODE.into());
        assert_eq!((of(packet, "bytes"), of(packet, "last"), of(packet, "ack_req")), (total, 1, 0));
    }
}

#[test]
fn a_send_queue_that_goes_on_takes_its_psns_from_where_it_was_and_its_index_from_the_start() {
    let mut alone = Alone::new(24, Service::Uc);
    let unit = SendWqe { opcode: SendOpcode::Send.code(), ..SendWqe::default() }.to_bytes().unwrap();
    for _ in 0..10 {
        assert_eq!(alone.packets(&unit, 600).len(), 3);
        alone.index = alone.index.wrapping_add(alone.bench.random.rng.random_range(1..40_000));
        alone.start(true);
        alone.oldest();
    }
}

/// Nobody acknowledges what UC sends, so it may be as far ahead as it likes; RC may not.
#[test]
fn unreliable_connections_have_no_window() {
    for ahead in [(1 << 22) - 1, 1 << 22, (1 << 22) + 77, (1 << 23) - 1, 1 << 23] {
        let mut alone = Alone::new(24, Service::Uc);
        let first = alone.psn;
        alone.psn = (first + MODULUS - ahead) % MODULUS;
        alone.oldest();
        alone.psn = first;
        let opcode = SendOpcode::Send.code();
        let unit = SendWqe { opcode, ..SendWqe::default() }.to_bytes().unwrap();
        let packets = alone.packets(&unit, 600);
        assert_eq!(packets.len(), 3, "{ahead} PSNs behind the oldest");
    }
}

/// Those to other handles go on, each in its turn.
#[test]
fn a_datagram_waits_while_the_priority_of_its_handle_stands_still() {
    let mut alone = Alone::new(27, Service::Ud);
    for (number, priority) in [(5, 6), (8, 1)] {
        let fields = [("enable", 1), ("index", number), ("entry_valid", 1), ("entry_pd", PD)];
        for (name, value) in fields.into_iter().chain([("entry_priority", priority)]) {
            alone.bench.sim.set(&format!("handles_{name}"), value);
        }
        alone.step();
    }
    alone.bench.sim.set("handles_enable", 0);
    alone.bench.sim.set("paused", 1 << 6);
    let wqe = |ah| SendWqeUd { opcode: SendOpcode::Send.code(), ah, dest_qpn: 7, ..SendWqeUd::default() };
    assert_eq!(ended(&alone.datagram(wqe(8), 0)), (0, 0));
    let (resumes, index, psn) = (alone.bench.sinks[RESUME].items.len(), alone.index, alone.psn);
    assert_eq!(alone.packets(&wqe(5).to_bytes().unwrap(), 0), []);
    // What is behind it falls out.
    assert_eq!(alone.packets(&wqe(8).to_bytes().unwrap(), 0), []);
    let told = &alone.bench.sinks[RESUME].items[resumes..];
    let of = |name: &str| told[0][name].to_u64();
    assert_eq!((told.len(), of("index"), of("stands"), of("priority")), (1, index.into(), 1, 6));
    assert_eq!((of("limited"), of("start")), (0, 0));
    alone.bench.sim.set("paused", 0);
    (alone.index, alone.psn) = (index, psn);
    assert_eq!(ended(&alone.datagram(wqe(5), 0)), (0, 0));
    assert_eq!(ended(&alone.datagram(wqe(8), 0)), (0, 0));
}
