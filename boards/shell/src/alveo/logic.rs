// SPDX-License-Identifier: MIT OR Apache-2.0
//! All logic of an Alveo card: the RNIC, the adapter to the Ethernet block, and what reads the PCIe block's configuration space.
//!
//! The RNIC and the adapter are modules of their own, `card` and `cmac`, so that each can be given a place. Where the device has several dies, the streams between the two cross from one to
//! another: they have a register slice at both ends, and two more in each die between, in an instance `slr1_die` for die 1.
//!
//! ```text
//!   card's die        die between            cmac's die
//!   card <-- skid <-- skid <-- skid <------- skid <-- crossing
//!        --> skid --> skid --> skid -------> skid --> crossing
//! ```

use ferrowire_cmac::link::Status;
use ferrowire_cmac::receive::Received;
use ferrowire_cmac::{Clocks, MacConfig};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_hdl::host::csr::{Link, MacStatus, Phy};
use ferrowire_hdl::host::pcie::PcieSettings;
use ferrowire_hdl::host::pcie4::{Axis, SeqNums, CREDITS};
use ferrowire_hdl::stream::{skid, Beat};
use ferrowire_rtl::{bits, cat, lit, module, Bundle, Interface, Pins, Scope, Sig, Stream};

/// Double word of the configuration space with device control and status: the PCI Express capability is at 0x70 (PG213, Configuration Space), these are 8 bytes behind (PCIe 7.5.3.4).
pub const DEVICE_CONTROL: u32 = (0x70 + 8) / 4;

/// Speed of the link while it is up, in units of 100 Mb/s.
const LINK_SPEED: u32 = 1000;

/// What the RNIC gives.
#[derive(Interface)]
struct CardOut {
    rq: Stream<Axis>,
    cc: Stream<Axis>,
    tx: Stream<Beat>,
    flr_done: Sig,
}

fn give_axis(pins: &Pins, name: &str, stream: Stream<Axis>) {
    let port = |field: &str| format!("{name}_{field}");
    pins.drive(&port("valid"), stream.valid);
    for (field, sig) in
        [("data", stream.data), ("keep", stream.keep), ("last", stream.last), ("user", stream.user)]
    {
        pins.drive(&port(field), sig);
    }
    stream.accept(pins.get(&port("ready")));
}

fn take_axis(m: &Scope, pins: &Pins, name: &str) -> Stream<Axis> {
    let get = |field: &str| pins.get(&format!("{name}_{field}"));
    let axis = Axis { data: get("data"), keep: get("keep"), last: get("last"), user: get("user") };
    let stream = Stream::new(m, name, get("valid"), axis);
    pins.drive(&format!("{name}_ready"), stream.ready);
    stream
}

/// The RNIC, with register slices towards the MAC.
#[module]
#[allow(clippy::too_many_arguments)]
fn card(
    m: &Scope,
    cfg: &RnicConfig,
    settings: PcieSettings,
    flr: Sig,
    rc: Stream<Axis>,
    cq: Stream<Axis>,
    sent: SeqNums,
    credits: Sig,
    rx: Stream<Beat>,
    ltssm: Sig,
    told: Told,
) -> CardOut {
    let rx = skid(&m.label("rx_skid"), rx);
    let pins = m.enclosed(|m| ferrowire_hdl::top::card(m, cfg));
    let link = Link::at(told.link_up, LINK_SPEED);
    pins.drive("link_up", link.up);
    pins.drive("link_speed", link.speed);
    for (name, sig) in (Phy { ltssm, mac: told.health }).fields() {
        pins.drive(&format!("phy_{name}"), sig);
    }
    for (name, sig) in [
        ("requester", settings.requester),
        ("bus_master", settings.bus_master),
        ("max_payload", settings.max_payload),
        ("max_read_request", settings.max_read_request),
        ("extended_tags", settings.extended_tags),
        ("relaxed_ordering", settings.relaxed_ordering),
        ("msix_enable", settings.msix_enable),
        ("msix_mask", settings.msix_mask),
        ("flr", flr),
    ] {
        pins.drive(&format!("pcie_{name}"), sig);
    }
    give_axis(&pins, "rc", rc);
    give_axis(&pins, "cq", cq);
    pins.drive("rq_seq_valid", sent.valid);
    pins.drive("rq_seq_number0", sent.number0);
    pins.drive("rq_seq_number1", sent.number1);
    pins.drive("tfc_nph_av", credits);
    pins.drive("rx_valid", rx.valid);
    pins.drive("rx_data", rx.data);
    pins.drive("rx_last", rx.last);
    pins.drive("rx_empty", rx.empty);
    rx.accept(pins.get("rx_ready"));
    let beat = Beat { data: pins.get("tx_data"), last: pins.get("tx_last"), empty: pins.get("tx_empty") };
    let tx = Stream::new(m, "tx", pins.get("tx_valid"), beat);
    pins.drive("tx_ready", tx.ready);
    CardOut {
        rq: take_axis(m, &pins, "rq"),
        cc: take_axis(m, &pins, "cc"),
        tx: skid(&m.label("tx_skid"), tx),
        flr_done: pins.get("pcie_flr_done"),
    }
}

/// What the adapter says of the link.
#[derive(Clone, Bundle)]
struct Told {
    link_up: Sig,
    health: MacStatus,
}

impl Told {
    fn of() -> Self {
        Told { link_up: bits(1), health: MacStatus::of() }
    }
}

/// What crosses a die.
#[derive(Interface)]
struct Crossing {
    rx: Stream<Beat>,
    tx: Stream<Beat>,
    told: Told,
}

/// Two register slices in each direction, one near each side of a die that lies between the RNIC's and the adapter's: a beat a cycle, latency 2.
#[module]
fn die(m: &Scope, rx: Stream<Beat>, tx: Stream<Beat>, told: Told) -> Crossing {
    let twice = |name: &str, stream: Stream<Beat>| {
        let first = skid(&m.label(&format!("{name}_in")), stream);
        skid(&m.label(&format!("{name}_out")), first)
    };
    // With a reset, so that these are two flip-flops and no shift register in one place.
    let later = |name: &str, value: Told| {
        let reg = m.reg_zero(name, &value);
        m.set_all(&reg, &value);
        reg
    };
    let told = later("told_out", later("told_in", told));
    Crossing { rx: twice("rx", rx), tx: twice("tx", tx), told }
}

/// What the parts in a die are called by, and the instance of [`die`] in it.
pub(super) fn die_name(slr: u32) -> (String, String) {
    (format!("slr{slr}"), format!("slr{slr}_die"))
}

/// What the block says of its configuration space by wires of its own.
#[derive(Clone, Bundle)]
struct Config {
    /// `cfg_bus_number`: of the device and the function below it a card has the first.
    bus_number: Sig,
    /// `cfg_function_status`, of the first function: bit 2 is the bus master's right.
    function_status: Sig,
    /// `cfg_max_payload`.
    max_payload: Sig,
    /// `cfg_max_read_req`.
    max_read_req: Sig,
    /// `cfg_interrupt_msix_enable`, of the first function.
    msix_enable: Sig,
    /// `cfg_interrupt_msix_mask`, likewise.
    msix_mask: Sig,
}

impl Config {
    fn of() -> Self {
        Config {
            bus_number: bits(8),
            function_status: bits(4),
            max_payload: bits(2),
            max_read_req: bits(3),
            msix_enable: bits(1),
            msix_mask: bits(1),
        }
    }
}

/// What device control says that the block has no wires for.
#[derive(Interface)]
struct DeviceControl {
    read: Sig,
    relaxed_ordering: Sig,
    extended_tags: Sig,
}

/// Cycles between two looks.
const PAUSE_BITS: u32 = 8;

/// Looks at device control now and then, by the block's management interface: a request stays until it is done (PG213, Configuration Management Interface).
#[module]
fn device_control(m: &Scope, data: Sig, done: Sig) -> DeviceControl {
    let reading = m.reg("reading", 1).reset(0);
    let pause = m.reg("pause", PAUSE_BITS).reset((1u32 << PAUSE_BITS) - 1);
    let flag = |name: &str, bit: u32| {
        let flag = m.reg(name, 1).reset(0);
        m.when(reading & done, |m| m.set(&flag, data.bit(bit)));
        flag
    };
    // PCIe 7.5.3.4.
    let (relaxed_ordering, extended_tags) = (flag("relaxed_ordering", 4), flag("extended_tags", 8));
    m.when(reading & done, |m| m.set(&reading, 0))
        .otherwise_when(!reading & pause.eq(0), |m| m.set(&reading, 1));
    m.when(!reading, |m| m.set(&pause, pause - 1));
    DeviceControl { read: reading, relaxed_ordering, extended_tags }
}

/// The settings, from ports for the block's wires.
fn from_block(m: &Scope) -> PcieSettings {
    let config = m.input_of("cfg", &Config::of());
    let (data, done) = (m.input("cfg_mgmt_read_data", 32), m.input("cfg_mgmt_read_write_done", 1));
    let control = device_control(m, data, done);
    m.output("cfg_mgmt_read", &control.read);
    PcieSettings {
        requester: cat(&[lit(8, 0), config.bus_number]),
        bus_master: config.function_status.bit(2),
        max_payload: config.max_payload.zext(3),
        max_read_request: config.max_read_req,
        extended_tags: control.extended_tags,
        relaxed_ordering: control.relaxed_ordering,
        msix_enable: config.msix_enable,
        msix_mask: config.msix_mask,
    }
}

/// Declares the logic between ports of the module that is open. With `block` these are what the PCIe block has; otherwise the settings are ports, as the RNIC alone has them.
///
/// `between` are the dies from the RNIC's to the adapter's, without these two.
pub(super) fn parts(m: &Scope, cfg: &RnicConfig, mac: &MacConfig, between: &[u32], block: bool) {
    let clocks = Clocks { core: m.current_domain(), block: m.domain("cmac") };
    let settings = match block {
        true => from_block(m),
        false => m.input_of("pcie", &PcieSettings::of()),
    };
    let flr = m.input("pcie_flr", 1);
    let (rc, cq) = (m.stream_in("rc", &Axis::rc()), m.stream_in("cq", &Axis::cq()));
    let sent = m.input_of("rq_seq", &SeqNums::of());
    let credits = m.input("tfc_nph_av", CREDITS);
    let (rx_axis, stat) = m.in_domain(clocks.block, |m| {
        (m.input_of("rx_axis", &Received::of()), m.input_of("stat", &Status::of()))
    });

    let (rx, later_rx) = m.later("rx", &Beat::of(cfg.beat_bytes));
    let ltssm = m.input(if block { "cfg_ltssm_state" } else { "pcie_ltssm" }, 6);
    let told = m.wire_of("told", &Told::of());
    let card = card(m, cfg, settings, flr, rc, cq, sent, credits, rx, ltssm, told.clone());
    // From the card's side to the adapter's: what each die gives to the card's side comes from the next one.
    let (mut tx, mut card_side) = (card.tx, (later_rx, told));
    for slr in between {
        let (name, _) = die_name(*slr);
        let (rx, later_rx) = m.later(&format!("rx_{name}"), &Beat::of(cfg.beat_bytes));
        let told = m.wire_of(&format!("told_{name}"), &Told::of());
        let crossed = die(&m.label(&name), rx, tx, told.clone());
        card_side.0.connect(crossed.rx);
        m.drive(&card_side.1, &crossed.told);
        (tx, card_side) = (crossed.tx, (later_rx, told));
    }
    let ahead = ferrowire_cmac::ahead(cfg.clock_khz, ferrowire_hdl::tx::build::LONGEST_FRAME);
    let cmac = ferrowire_cmac::cmac(m, mac, clocks, ahead, rx_axis, stat, tx);
    card_side.0.connect(cmac.rx);
    m.drive(&card_side.1, &Told { link_up: cmac.link_up, health: cmac.health });

    m.stream_out("rq", card.rq);
    m.stream_out("cc", card.cc);
    m.output("pcie_flr_done", &card.flr_done);
    m.output("link_up", &cmac.link_up);
    m.in_domain(clocks.block, |m| {
        m.stream_out("tx_axis", cmac.tx_axis);
        m.output("ctl", &cmac.ctl);
        m.discard(&cmac.counts);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrowire_rtl::{build, Sim};

    fn sim() -> Sim {
        let netlist = build("settings", |m| {
            let settings = from_block(m);
            m.output("pcie", &settings);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|errors| panic!("{errors}")));
        sim.reset();
        sim
    }

    #[test]
    fn settings_are_those_of_the_blocks_wires() {
        let mut sim = sim();
        for (port, value) in [
            ("cfg_bus_number", 0x5a),
            ("cfg_function_status", 0b0100),
            ("cfg_max_payload", 3),
            ("cfg_max_read_req", 5),
            ("cfg_msix_enable", 1),
        ] {
            sim.set(port, value);
        }
        let wanted = [
            ("requester", 0x5a00),
            ("bus_master", 1),
            ("max_payload", 3),
            ("max_read_request", 5),
            ("msix_enable", 1),
            ("msix_mask", 0),
            ("extended_tags", 0),
            ("relaxed_ordering", 0),
        ];
        for (name, value) in wanted {
            assert_eq!(sim.get(&format!("pcie_{name}")), value, "{name}");
        }
        sim.set("cfg_function_status", 0b1011);
        assert_eq!(sim.get("pcie_bus_master"), 0);
    }

    /// Frames pass a die in order and whole, whatever either side does, both ways at once; with nobody pausing a beat leaves in every cycle.
    #[test]
    fn a_die_between_passes_every_beat_in_order_at_the_full_rate() {
        let netlist = build("between", |m| {
            let beat = Beat::of(8);
            let (rx, tx) = (m.stream_in("rx", &beat), m.stream_in("tx", &beat));
            let told = m.input_of("told", &Told::of());
            let crossed = die(m, rx, tx, told);
            m.stream_out("rx_out", crossed.rx);
            m.stream_out("tx_out", crossed.tx);
            m.output("told_out", &crossed.told);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|errors| panic!("{errors}")));
        for pauses in [false, true] {
            sim.reset();
            // Of each direction, what has gone in and come out.
            let mut passed = [(0u64, 0u64); 2];
            let mut seed = 7u64;
            for cycle in 0..400 {
                sim.set("told_link_up", cycle & 1);
                sim.set("told_health_fec_corrected", cycle);
                if cycle >= 2 {
                    assert_eq!(sim.get("told_out_link_up"), cycle & 1);
                    assert_eq!(sim.get("told_out_health_fec_corrected"), cycle - 2);
                }
                for (name, (sent, seen)) in ["rx", "tx"].into_iter().zip(&mut passed) {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let (offers, takes) = (!pauses || seed >> 60 & 1 == 1, !pauses || seed >> 61 & 1 == 1);
                    // An offer that is not taken stays: it is decided by its number, not by the cycle.
                    let offers = offers || sim.get(&format!("{name}_valid")) == 1;
                    sim.set(&format!("{name}_valid"), offers.into());
                    sim.set(&format!("{name}_data"), *sent);
                    sim.set(&format!("{name}_out_ready"), takes.into());
                    if sim.get(&format!("{name}_out_valid")) == 1 && takes {
                        assert_eq!(sim.get(&format!("{name}_out_data")), *seen, "{name}");
                        *seen += 1;
                    }
                    *sent += u64::from(offers && sim.get(&format!("{name}_ready")) == 1);
                }
                sim.tick();
            }
            for (sent, seen) in passed {
                assert!(seen > 80 && sent - seen <= 4, "{sent} {seen}");
                assert!(pauses || (sent, seen) == (400, 398), "{sent} {seen}");
            }
        }
    }

    /// Answers the next request after so many cycles; gives how many passed before it.
    fn answer(sim: &mut Sim, data: u64, after: u32) -> u32 {
        let mut waited = 0;
        while sim.get("cfg_mgmt_read") == 0 {
            sim.tick();
            waited += 1;
            assert!(waited < 1000, "nothing is asked");
        }
        for _ in 0..after {
            assert_eq!(sim.get("cfg_mgmt_read"), 1, "a request stays until it is done");
            sim.tick();
        }
        sim.set("cfg_mgmt_read_data", data);
        sim.set("cfg_mgmt_read_write_done", 1);
        sim.tick();
        sim.set("cfg_mgmt_read_write_done", 0);
        sim.set("cfg_mgmt_read_data", !data & 0xffff_ffff);
        assert_eq!(sim.get("cfg_mgmt_read"), 0, "a request that is done is asked again at once");
        waited
    }

    #[test]
    fn device_control_is_read_again_and_again_and_its_bits_are_kept() {
        let mut sim = sim();
        for (data, after, bits) in
            [(1 << 8, 0, (1, 0)), (1 << 4, 7, (0, 1)), (0x110, 1, (1, 1)), (!0x110 & 0xffff, 3, (0, 0))]
        {
            let waited = answer(&mut sim, data, after);
            assert!((200..300).contains(&waited), "{waited} cycles between two looks");
            assert_eq!((sim.get("pcie_extended_tags"), sim.get("pcie_relaxed_ordering")), bits, "{data:#x}");
        }
    }
}
