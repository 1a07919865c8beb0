// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cards, links and host memory around a small design with the ports of the RNIC: it copies host memory on a register
//! write, and sends back what it receives.

use ferrowire::{Bus, BusError};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_hdl::stream::{fifo, Beat};
use ferrowire_hdl::types::{DmaReadData, DmaReadRequest, DmaWrite};
use ferrowire_rtl::{bits, build, cat, lit, Bundle, Netlist, Sig, Stream};
use ferrowire_sim::bus::{SharedWorld, World};
use ferrowire_sim::card::CardModel;
use ferrowire_sim::wire::read_frames;

const SOURCE: u32 = 0x00;
const TARGET: u32 = 0x08;
const GO: u32 = 0x10;
const COPIES: u32 = 0x18;
const ERRORS: u32 = 0x1c;

#[derive(Clone, Bundle)]
struct Access {
    address: Sig,
    write: Sig,
    wide: Sig,
    data: Sig,
}

#[derive(Clone, Bundle)]
struct Response {
    data: Sig,
}

/// Copies `length` bytes from `source` to `target`, which lie at the same place of a beat.
fn copier(cfg: &RnicConfig) -> Netlist {
    let lanes = cfg.beat_bytes;
    build("copier", |m| {
        let csr =
            m.stream_in("csr", &Access { address: bits(24), write: bits(1), wide: bits(1), data: bits(64) });
        let (source, target) = (m.reg("source", 64).reset(0), m.reg("target", 64).reset(0));
        let (length, left) = (m.reg("length", 13).reset(0), m.reg("left", 14).reset(0));
        let (asked, first) = (m.reg("asked", 1).reset(0), m.reg("first", 1).reset(0));
        let (copies, errors) = (m.reg("copies", 32).reset(0), m.reg("errors", 32).reset(0));
        let (answer, answer_valid) = (m.reg("answer", 64).reset(0), m.reg("answer_valid", 1).reset(0));
        let lane = target.trunc(cfg.lane_bits()).zext(14);

        let read = Stream::new(m, "read", asked, DmaReadRequest { address: source, length });
        m.when(read.fire(), |m| m.set(&asked, 0));
        csr.accept(!answer_valid);
        m.discard(&csr.wide);
        let written = csr.fire() & csr.write;
        m.when(written & csr.address.eq(SOURCE), |m| m.set(&source, csr.data));
        m.when(written & csr.address.eq(TARGET), |m| m.set(&target, csr.data));
        m.when(written & csr.address.eq(GO), |m| {
            m.set(&length, csr.data.trunc(13));
            m.set(&left, csr.data.trunc(14) + lane);
            m.set(&asked, 1);
            m.set(&first, 1);
        });
        let response = Stream::new(m, "response", answer_valid, Response { data: answer });
        m.when(response.fire(), |m| m.set(&answer_valid, 0));
        m.when(csr.fire() & !csr.write, |m| {
            m.set(&answer_valid, 1);
            m.set(&answer, csr.address.eq(COPIES).then(copies, errors).zext(64));
        });

        let data = m.stream_in("dma_data", &DmaReadData::of(cfg));
        let strobes: Vec<Sig> =
            (0..lanes).map(|i| (!first | lit(14, i).ge(lane)) & lit(14, i).lt(left)).collect();
        let write = DmaWrite {
            address: target,
            length,
            data: data.data,
            strobe: cat(&strobes),
            last: data.last,
            order: lit(2, 0),
        };
        let write = Stream::new(m, "write", data.valid & !data.error, write);
        data.accept(data.error | write.ready);
        m.when(data.fire(), |m| {
            m.set(&first, 0);
            m.set(&left, left - lanes);
            m.when(data.last & !data.error, |m| m.set(&copies, copies + 1));
            m.when(data.last & data.error, |m| m.set(&errors, errors + 1));
        });

        let rx = m.stream_in("rx", &Beat::of(lanes));
        let tx = fifo(m, 4, rx);
        m.stream_out("tx", tx);
        m.stream_out("dma_read", read);
        m.stream_out("dma_write", write);
        m.stream_out("csr_response", response);
    })
    .unwrap_or_else(|errors| panic!("{errors}"))
}

fn model(name: &str) -> CardModel {
    let cfg = RnicConfig::named(name).unwrap();
    CardModel::of(&copier(&cfg), cfg.beat_bytes, cfg.clock_khz, false).unwrap()
}

fn world(name: &str, latency: u64) -> SharedWorld {
    World::single(&model(name), latency).unwrap().share()
}

#[test]
fn memory_is_copied_through_the_dma_streams_at_every_place_and_length() {
    for (name, latency) in [("generic-8b", 0), ("generic-64b", 250)] {
        let world = world(name, latency);
        let mut bus = world.bus(0);
        let memory = bus.dma_alloc(3 * 4096, 4096).unwrap();
        let (from, to) = (memory.bus_address(), memory.bus_address() + 4096);
        let data: Vec<u8> = (0..4096).map(|i| (i % 253 + 1) as u8).collect();
        memory.memory().write(0, &data);
        let mut copies = 0;
        for at in [0usize, 1, 7, 63, 64, 1000] {
            for bytes in [1usize, 2, 8, 63, 64, 65, 300, 3096] {
                memory.memory().fill(4096, 8192, 0);
                bus.doorbell(SOURCE, from + at as u64).unwrap();
                bus.doorbell(TARGET, to + at as u64).unwrap();
                bus.doorbell(GO, bytes as u64).unwrap();
                copies += 1;
                while bus.csr_read32(COPIES).unwrap() < copies {
                    bus.progress().unwrap();
                }
                let mut got = vec![0; 8192];
                memory.memory().read(4096, &mut got);
                let mut expected = vec![0; 8192];
                expected[at..at + bytes].copy_from_slice(&data[at..at + bytes]);
                assert_eq!(got, expected, "{name}: {bytes} bytes at {at}");
            }
        }
        let stats = world.lock().card(0).host().stats();
        assert_eq!((stats.reads, stats.writes, stats.violations), (u64::from(copies), u64::from(copies), 0));
        assert_eq!((stats.reads_refused, stats.writes_refused), (0, 0));
        bus.dma_free(memory).unwrap();
    }
}

#[test]
fn a_card_that_reads_outside_its_memory_gets_errors() {
    let world = world("generic-8b", 5);
    let mut bus = world.bus(0);
    bus.doorbell(SOURCE, 0x7000).unwrap();
    bus.doorbell(TARGET, 0x8000).unwrap();
    bus.doorbell(GO, 100).unwrap();
    while bus.csr_read32(ERRORS).unwrap() == 0 {}
    assert_eq!(world.lock().card(0).host().stats().reads_refused, 1);
    assert_eq!(world.lock().card(0).host().stats().writes, 0);
}

#[test]
fn a_card_that_breaks_the_rules_of_its_streams_is_gone() {
    let world = world("generic-8b", 0);
    let mut bus = world.bus(0);
    bus.doorbell(SOURCE, 0x7ff0).unwrap();
    bus.doorbell(GO, 100).unwrap();
    let error = bus.csr_read32(ERRORS).unwrap_err();
    assert!(matches!(&error, BusError::Gone(why) if why.contains("page of 4 KiB")), "{error}");
}

#[test]
fn host_latency_is_what_a_read_waits_longer() {
    let cycles = |latency| {
        let world = world("generic-8b", latency);
        let mut bus = world.bus(0);
        let memory = bus.dma_alloc(4096, 4096).unwrap();
        bus.doorbell(SOURCE, memory.bus_address()).unwrap();
        bus.doorbell(TARGET, memory.bus_address() + 2048).unwrap();
        bus.doorbell(GO, 64).unwrap();
        let mut world = world.lock();
        world.card_mut(0).host_mut().watch(memory.bus_address() + 2048 + 63);
        assert!(world.run_until(2000, |world| world.card(0).host().seen().is_some()));
        world.card(0).host().seen().unwrap() - world.card(0).csr_taken_at()
    };
    // The request, its data in the next cycle, and seven beats more.
    assert_eq!((cycles(0), cycles(250)), (9, 259));
}

#[test]
fn bad_registers_are_refused_without_a_cycle() {
    let world = world("generic-8b", 0);
    let mut bus = world.bus(0);
    for offset in [2, 1 << 24] {
        assert_eq!(bus.csr_read32(offset), Err(BusError::BadOffset { offset }));
    }
    assert_eq!(bus.doorbell(4, 0), Err(BusError::BadOffset { offset: 4 }));
    assert_eq!(world.lock().cycle(), 0);
}

#[test]
fn frames_go_round_between_two_cards_beat_by_beat_and_into_the_capture() {
    let path = std::env::temp_dir().join(format!("ferrowire-card-{}.pcapng", std::process::id()));
    let frame: Vec<u8> = (0..120).map(|i| i as u8).collect();
    for latency in [0, 3] {
        let mut world = World::pair(&model("generic-64b"), 0, latency).unwrap();
        world.capture(&path).unwrap();
        world.link_mut(0).mark(true);
        world.link_mut(1).mark(true);
        // Each card sends back what comes, so one frame never rests.
        world.inject(0, frame.clone());
        world.run(500);
        let (there, back) = (world.link(0).marks().to_vec(), world.link(1).marks().to_vec());
        assert!(back.len() > 10);
        assert!(there.iter().chain(&back).all(|mark| mark.bytes == 120 && mark.last == mark.first + 1));
        // A FIFO's cycle in the card, and the wire.
        assert!(
            there.iter().zip(&back).all(|(there, back)| there.first == back.first + latency + 1),
            "latency {latency}"
        );
        world.end_capture();
        let frames = read_frames(&path).unwrap();
        assert_eq!(frames.len(), there.len() + back.len() + 1);
        assert!(frames.iter().all(|f| f.bytes == frame));
        std::fs::remove_file(&path).unwrap();
    }
}
