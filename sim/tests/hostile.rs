// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hostile peer: a few thousand of its packets, and that what is wrong would be found.

use crate::tier::number;
use ferrowire::{
    AccessFlags, AddressVector, CompletionQueue, Context, ContextOptions, DropReason, InitAttributes,
    MemoryRegion, PageSize, PathMtu, ProtectionDomain, Psn, Qp, QpInitAttr, RemoteAddress, Rtr,
    RtrAttributes,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::bus::{SharedWorld, World};
use ferrowire_sim::card::{all_face_pcie, CardModel};
use ferrowire_sim::hostile::attack::MOODS;
use ferrowire_sim::hostile::forge::{ip_between, mac_number, Packet, CARD, FOE, FRIEND};
use ferrowire_sim::hostile::{run_case, Case, Outcome};
use ferrowire_sim::pair::bytes;
use ferrowire_sim::soak::ends::{ip, mac};
use ferrowire_spec::wire::{AtomicEth, Bth, Extensions, Ip, Opcode, Reth};

fn run(config: &str, seed: u64, packets: u64) -> Outcome {
    let model = CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap();
    let case = Case { seed, config: config.into(), packets };
    println!("{}", case.rerun());
    let outcome = run_case(&model, &case, None).unwrap();
    assert_eq!(outcome.difference, None, "{:#?}\nwaves, frames: {}", outcome.diagnosis, case.rerun());
    outcome
}

/// Memory, answers, innocents, liveness and counters, whatever is sent (IBTA 9.6.1, 9.7.4, 10.6.3).
#[test]
fn nothing_that_a_hostile_peer_sends_reaches_what_it_was_not_granted() {
    let seed = std::env::var("FERROWIRE_SEED").ok().map(|text| text.parse::<u64>().expect("a number"));
    let first = seed.unwrap_or(1);
    let all: Vec<Outcome> =
        (0..if seed.is_some() { 1 } else { 2 }).map(|i| run("generic-8b", first + i, 3_000)).collect();
    let packets: u64 = all.iter().map(|outcome| outcome.packets).sum();
    let compared: u64 = all.iter().map(|outcome| outcome.compared).sum();
    let completions: u64 = all.iter().map(|outcome| outcome.completions).sum();
    println!("{packets} packets, {compared} accesses and answers, {completions} completions of innocents");
    // Over DMA streams an access is a beat of 8 bytes, over PCIe a packet.
    let least = if all_face_pcie() { packets / 8 } else { packets / 4 };
    assert!(compared > least && completions > 100, "{all:#?}");
    if seed.is_none() {
        let met = |mood: &str| all.iter().any(|outcome| outcome.moods.contains_key(mood));
        let moods = MOODS.iter().filter(|(mood, _)| met(mood)).count();
        assert!(moods >= 6, "{moods} of {} moods", MOODS.len());
        for reason in ["drop_icrc", "drop_pkey", "drop_source_address", "drop_ghost_ack", "drop_ip_fragment"]
        {
            assert!(
                all.iter().any(|outcome| outcome.drops.contains_key(reason)),
                "nothing counts as {reason}"
            );
        }
        assert!(all.iter().all(|outcome| outcome.lives > 10), "queue pairs were lost and came back");
    }
}

/// With the same seed everything happens in the same cycle.
#[test]
fn a_seed_repeats_its_case() {
    let [one, other] = [(); 2].map(|()| run("generic-8b", 5, 300));
    assert_eq!((one.cycles, one.kinds, one.compared), (other.cycles, other.kinds, other.compared));
}

/// A card without a peer, whose frames are made here.
struct Alone {
    world: SharedWorld,
    context: Context,
    pd: ProtectionDomain,
    cq: CompletionQueue,
}

const OWN: u32 = 0x40_0000;
const PSN: u32 = 100;

impl Alone {
    fn new(config: &str, host_latency: u64) -> Self {
        let model = CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap();
        let world = World::single(&model, host_latency).unwrap().share();
        let options = ContextOptions { seed: Some(1), ..ContextOptions::default() };
        let context = Context::open_with(world.bus(0), options).unwrap();
        context.set_mac(mac(CARD)).unwrap();
        context.add_gid(ip(CARD, false), None).unwrap();
        let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(256).unwrap());
        Self { world, context, pd, cq }
    }

    /// A queue pair that answers the foe.
    fn answers(&self) -> Qp<Rtr> {
        let init = InitAttributes::new().access(AccessFlags::REMOTE).pkey(0xffff);
        let rtr = RtrAttributes::new()
            .av(AddressVector::new(mac(CARD), ip(CARD, false), mac(FOE), ip(FOE, false)))
            .path_mtu(PathMtu::B1024)
            .dest_qpn(OWN)
            .rq_psn(Psn::new(PSN))
            .max_dest_rd_atomic(4)
            .min_rnr_timer(1);
        let qp = self.pd.create_qp(&QpInitAttr::rc(&self.cq, &self.cq)).unwrap();
        qp.init(init).unwrap().rtr(rtr).unwrap()
    }

    fn region(&self, bytes: usize) -> MemoryRegion {
        let memory = self.context.alloc(bytes, 4096).unwrap();
        self.pd.register(&memory, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE, PageSize::Size4K).unwrap()
    }

    fn inject(&self, bytes: Vec<u8>) {
        self.world.lock().inject(1, bytes);
    }
}

/// A request of the foe.
fn request(qp: &Qp<Rtr>, opcode: Opcode, psn: u32, to: RemoteAddress, payload: &[u8], len: u32) -> Packet {
    let bth =
        Bth { opcode: opcode as u8, psn, destqp: qp.number(), pkey: 0xffff, ackreq: true, ..Bth::default() };
    let atomic = matches!(opcode, Opcode::RcFetchAdd | Opcode::RcCompareSwap);
    let reth = (!atomic).then_some(Reth { va: to.address, rkey: to.rkey, len });
    let atomic = atomic.then_some(AtomicEth { va: to.address, rkey: to.rkey, swap: 1, compare: 2 });
    Packet::new(false, bth).with(&Extensions { reth, atomic, ..Extensions::default() }, payload)
}

/// What is not for this card does nothing, whoever sent it (IBTA 9.6.1.2: the GID of the destination is the port's).
#[test]
fn a_packet_for_another_address_is_dropped_and_counted() {
    let card = Alone::new("generic-8b", 0);
    let (qp, region) = (card.answers(), card.region(4096));
    let write = || request(&qp, Opcode::RcWriteOnly, PSN, region.remote(0), &[7; 16], 16);
    let mut to_other_ip = write();
    to_other_ip.ip = ip_between(FOE, FRIEND, false);
    let mut to_other_mac = write();
    to_other_mac.eth.dst = mac_number(FRIEND);
    for (i, packet) in [to_other_ip, to_other_mac].into_iter().enumerate() {
        card.inject(packet.frame());
        card.world.lock().run(2_000);
        assert_eq!(bytes(region.memory())[..16], [0; 16], "packet {i} is executed");
        assert_eq!(card.context.drop_counter(DropReason::Destination).unwrap(), 1 + i as u64);
    }
}

/// A connection's packets come to its own GID, in its VLAN; a priority alone is no VLAN (IBTA 9.6.1.2, IEEE 802.1Q 6.9.1).
#[test]
fn a_packet_for_another_vlan_or_gid_of_the_port_is_dropped_and_counted() {
    let card = Alone::new("generic-8b", 0);
    let other = std::net::IpAddr::from([10, 0, 0, 77]);
    card.context.add_gid(other, None).unwrap();
    card.context.add_gid(ip(CARD, false), Some(7)).unwrap();
    let (qp, region) = (card.answers(), card.region(4096));
    let write = |psn| request(&qp, Opcode::RcWriteOnly, psn, region.remote(0), &[7; 16], 16);
    // The tag stands before the ethertype, which is then its own.
    let tagged = |packet: &Packet, tci: Option<u16>| {
        let mut bytes = packet.frame();
        if let Some(tci) = tci {
            let [high, low] = tci.to_be_bytes();
            bytes.splice(12..12, [0x81, 0x00, high, low]);
        }
        bytes
    };
    // Of the port, but not the queue pair's; of nobody.
    let mut to_other_gid = write(PSN);
    let Ip::V4(header) = &mut to_other_gid.ip else { unreachable!("IPv4") };
    header.dst = 0x0a00_004d;
    let all = [(to_other_gid, None), (write(PSN), Some(7)), (write(PSN), Some(8))];
    for (i, (packet, tci)) in all.into_iter().enumerate() {
        card.inject(tagged(&packet, tci));
        card.world.lock().run(2_000);
        assert_eq!(bytes(region.memory())[..16], [0; 16], "packet {i} is executed");
        assert_eq!(card.context.drop_counter(DropReason::Destination).unwrap(), 1 + i as u64);
    }
    for (i, tci) in [Some(0xe000), None].into_iter().enumerate() {
        card.inject(tagged(&write(PSN + i as u32), tci));
        card.world.lock().run(2_000);
        assert_eq!(card.world.lock().link(0).frames(), 1 + i as u64, "it is acknowledged");
    }
    assert_eq!(bytes(region.memory())[..16], [7; 16]);
    card.context.remove_gid(ip(CARD, false), None).unwrap();
    card.inject(write(PSN + 2).frame());
    card.world.lock().run(2_000);
    assert_eq!(card.context.drop_counter(DropReason::Destination).unwrap(), 4);
}

/// A number that was never a queue pair's, and one that is not any more.
#[test]
fn a_packet_for_a_queue_pair_that_does_not_exist_says_so() {
    let card = Alone::new("generic-8b", 0);
    let (qp, region) = (card.answers(), card.region(4096));
    let mut write = request(&qp, Opcode::RcWriteOnly, PSN, region.remote(0), &[7; 16], 16);
    qp.destroy().unwrap();
    for (i, qpn) in [write.bth.destqp, write.bth.destqp + 1, 0, 0xff_ffff].into_iter().enumerate() {
        write.bth.destqp = qpn;
        card.inject(write.frame());
        card.world.lock().run(2_000);
        assert_eq!(card.context.drop_counter(DropReason::NoQp).unwrap(), 1 + i as u64, "QPN {qpn:#x}");
    }
    // One that was created and does nothing yet.
    let idle = card.pd.create_qp(&QpInitAttr::rc(&card.cq, &card.cq)).unwrap();
    write.bth.destqp = idle.number();
    card.inject(write.frame());
    card.world.lock().run(2_000);
    assert_eq!(card.context.drop_counter(DropReason::QpState).unwrap(), 1);
}

/// A compare that fails changes nothing, so what others write meanwhile stays (IBTA 9.4.5.1).
#[test]
fn a_compare_that_fails_writes_nothing() {
    let card = Alone::new("generic-8b", 250);
    let (qp, region) = (card.answers(), card.region(4096));
    card.inject(request(&qp, Opcode::RcCompareSwap, PSN, region.remote(0), &[], 8).frame());
    // It has been read, and the answer of host memory is on its way.
    card.world.lock().run(150);
    region.memory().write(0, &[0x55; 8]);
    card.world.lock().run(2_000);
    assert_eq!(card.world.lock().link(0).frames(), 1, "it is answered");
    assert_eq!(bytes(region.memory())[..8], [0x55; 8]);
}

/// When a region is deregistered, no access by its key is in progress (IBTA 11.2.8.4, 10.6.6.2.1).
#[test]
fn nothing_is_written_to_a_region_that_is_deregistered() {
    for wait in (0..1_500).step_by(number(60, 20)) {
        let card = Alone::new("generic-8b", 250);
        let (one, other) = (card.answers(), card.answers());
        let (stays, goes) = (card.region(4096), card.region(4096));
        // What is placed waits for the atomics before it, and host memory is slow.
        for i in 0..4 {
            card.inject(request(&one, Opcode::RcFetchAdd, PSN + i, stays.remote(0), &[], 8).frame());
        }
        card.inject(request(&one, Opcode::RcWriteOnly, PSN + 4, stays.remote(8), &[9; 24], 24).frame());
        card.inject(request(&other, Opcode::RcWriteOnly, PSN, goes.remote(0), &[7; 24], 24).frame());
        card.world.lock().run(wait);
        goes.destroy().unwrap();
        let answered = card.world.lock().cycle();
        card.world.lock().run(5_000);
        let stats = card.world.lock().card(0).host().stats();
        assert_eq!(
            (stats.reads_refused, stats.writes_refused),
            (0, 0),
            "answered in cycle {answered}, {wait} after the packets"
        );
    }
}
