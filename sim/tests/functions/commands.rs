// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands for what is not there, by registers and rings alone.

use crate::tier::number;
use std::collections::BTreeMap;

use ferrowire::{AccessFlags, Bus, QpState};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::bus::{SharedWorld, World};
use ferrowire_sim::hostile::forge::{mac_number, CARD, FOE};
use ferrowire_spec::qp_state::{AttributeBit, Attributes, GSI_QPN, RAW_QPN};
use ferrowire_spec::queue::command::alloc_mw::AllocMw;
use ferrowire_spec::queue::command::create_ah::CreateAh;
use ferrowire_spec::queue::command::create_cq::CreateCq;
use ferrowire_spec::queue::command::create_qp::CreateQp;
use ferrowire_spec::queue::command::create_srq::CreateSrq;
use ferrowire_spec::queue::command::modify_qp::{self, ModifyQp};
use ferrowire_spec::queue::command::modify_srq::ModifySrq;
use ferrowire_spec::queue::command::reg_mr::RegMr;
use ferrowire_spec::queue::command::set_av::SetAv;
use ferrowire_spec::queue::command::{self, Command};
use ferrowire_spec::queue::command_completion::qp_summary::QpSummary;
use ferrowire_spec::queue::{CommandAttribute, CommandOpcode, CommandStatus};
use ferrowire_spec::wire::opcode::Service;
use rand::rngs::SmallRng;
use rand::SeedableRng;

use super::{full, model, rights, small};
use crate::emulated::random::{self, Queue};

/// A card's command queue, and pages for its queues.
fn queue(config: &RnicConfig) -> (SharedWorld, Queue<Box<dyn Bus>>, u64) {
    let world = World::single(&model(config), 0).unwrap().share();
    let mut queue = Queue::new(Box::new(world.bus(0)) as Box<dyn Bus>);
    let buffer = queue.bus.dma_alloc(1 << 16, 4096).unwrap();
    // Pages that every size has, where it is read as a page list.
    (0..512).for_each(|entry| buffer.memory().store_word(8 * entry, (1 + entry as u64) << 30));
    (world, queue, buffer.bus_address())
}

/// What became of a command: status, attribute, value.
type Said = (CommandStatus, CommandAttribute, u64);

fn give(queue: &mut Queue<Box<dyn Bus>>, bytes: &[u8; command::BYTES]) -> Said {
    let completion = queue.give(bytes);
    let status = CommandStatus::from_code(completion.status).expect("a status");
    (status, CommandAttribute::from_code(completion.attribute).expect("an attribute"), completion.value)
}

fn plain(opcode: u8, object: u32) -> [u8; command::BYTES] {
    Command { opcode, token: 7, object, ..Command::default() }.to_bytes().unwrap()
}

fn simple(opcode: CommandOpcode, object: u32) -> [u8; command::BYTES] {
    plain(opcode.code(), object)
}

/// A code that is no card's command.
const NO_COMMAND: u8 = 0x77;

/// Objects of the commands below.
const PD: u32 = 1;
const QPN: u32 = 2;
const KEY: u32 = 5 << 8 | 1;

fn create_qp(object: u32, service: Service, base: u64) -> CreateQp {
    let (sq_base, rq_base) = (base, base + 0x8000);
    CreateQp { token: 7, object, pd: PD, service: service.code(), sq_base, rq_base, ..CreateQp::default() }
}

fn reg_mr(object: u32, access: AccessFlags, base: u64) -> [u8; command::BYTES] {
    let (access, length, page_list_addr, page_count) = (access.bits(), 4096, base, 1);
    RegMr { token: 7, object, pd: PD, access, length, page_list_addr, page_count, ..RegMr::default() }
        .to_bytes()
        .unwrap()
}

fn to_init(access: AccessFlags) -> [u8; command::BYTES] {
    let attr_mask = Attributes::of(&[AttributeBit::Access, AttributeBit::Pkey]).0;
    let (state, access) = (QpState::Init.code(), access.bits());
    ModifyQp { token: 7, object: QPN, attr_mask, state, access, ..ModifyQp::default() }.to_bytes().unwrap()
}

fn set_av(ipv6: bool, vlan: bool) -> [u8; command::BYTES] {
    let (dst_mac, src_mac, dst_ip, src_ip) = (mac_number(FOE), mac_number(CARD), 0x0a00_0002, 0x0a00_0001);
    SetAv { token: 7, object: QPN, dst_mac, src_mac, ipv6, vlan, dst_ip, src_ip, ..SetAv::default() }
        .to_bytes()
        .unwrap()
}

/// What a card without the function makes of a command that the one with it carries out.
enum Refusal {
    /// As of a code that is no command at all.
    Unknown,
    /// For this attribute.
    For(CommandAttribute),
}

/// Commands that the card with all functions carries out, one after the other, and what the other makes of them.
fn asked(base: u64) -> Vec<(&'static str, [u8; command::BYTES], Refusal)> {
    use CommandAttribute as A;
    use CommandOpcode as Op;
    use Refusal::{For, Unknown};
    let qp = |qpn, service| create_qp(qpn, service, base).to_bytes().unwrap();
    let srq = CreateSrq { token: 7, object: 1, pd: PD, log2_entries: 4, base, ..CreateSrq::default() };
    let limit = ModifySrq { token: 7, object: 1, limit: 2, ..ModifySrq::default() };
    let shared = CreateQp { has_srq: true, srqn: 1, rq_base: 0, ..create_qp(QPN + 3, Service::Rc, base) };
    let ah = CreateAh {
        token: 7,
        object: 1,
        pd: PD,
        dst_mac: mac_number(FOE),
        src_mac: mac_number(CARD),
        dst_ip: 0x0a00_0002,
        src_ip: 0x0a00_0001,
        ..CreateAh::default()
    };
    let window = AllocMw { token: 7, object: KEY, pd: PD, ..AllocMw::default() };
    let atomic = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC;
    vec![
        ("a window", window.to_bytes().unwrap(), Unknown),
        ("a window goes", simple(Op::FreeMw, KEY), Unknown),
        ("a shared receive queue", srq.to_bytes().unwrap(), Unknown),
        ("its limit", limit.to_bytes().unwrap(), Unknown),
        ("what is in it", simple(Op::QuerySrq, 1), Unknown),
        ("a queue pair that takes from it", shared.to_bytes().unwrap(), For(A::Srqn)),
        ("that goes", simple(Op::DestroyQp, QPN + 3), For(A::Object)),
        ("the shared queue goes", simple(Op::DestroySrq, 1), Unknown),
        ("an address handle", ah.to_bytes().unwrap(), Unknown),
        ("one of IPv6", CreateAh { object: 2, ipv6: true, ..ah }.to_bytes().unwrap(), Unknown),
        ("one in a VLAN", CreateAh { object: 3, vlan: true, ..ah }.to_bytes().unwrap(), Unknown),
        ("a handle goes", simple(Op::DestroyAh, 1), Unknown),
        ("a queue pair of UC", qp(QPN + 1, Service::Uc), For(A::Service)),
        ("one of UD", qp(QPN + 2, Service::Ud), For(A::Service)),
        ("QP1", qp(GSI_QPN, Service::Ud), For(A::Service)),
        ("the one of raw Ethernet", qp(RAW_QPN, Service::Raw), For(A::Service)),
        ("a region for atomics", reg_mr(KEY, atomic, base), For(A::MrAccess)),
        ("that goes", simple(Op::DeregMr, KEY), For(A::Object)),
        ("a region for windows", reg_mr(KEY, AccessFlags::MW_BIND, base), For(A::MrAccess)),
        ("that goes too", simple(Op::DeregMr, KEY), For(A::Object)),
        ("a way of IPv6", set_av(true, false), For(A::Ipv6)),
        ("a way in a VLAN", set_av(false, true), For(A::Vlan)),
        ("a queue pair for atomics", to_init(AccessFlags::REMOTE), For(A::QpAccess)),
    ]
}

/// A domain, a completion queue and a queue pair of RC.
fn prepare(queue: &mut Queue<Box<dyn Bus>>, base: u64) {
    let cq = CreateCq { token: 7, object: 0, base, log2_entries: 4, ..CreateCq::default() };
    let qp = create_qp(QPN, Service::Rc, base);
    for bytes in [simple(CommandOpcode::AllocPd, PD), cq.to_bytes().unwrap(), qp.to_bytes().unwrap()] {
        assert_eq!(give(queue, &bytes), (CommandStatus::Ok, CommandAttribute::None, 0));
    }
}

#[test]
fn commands_for_what_is_not_there_are_refused_and_change_nothing() {
    let (_world, mut with, base) = queue(&full());
    prepare(&mut with, base);
    for (what, bytes, _) in asked(base) {
        let said = give(&mut with, &bytes);
        assert_eq!((said.0, said.1), (CommandStatus::Ok, CommandAttribute::None), "{what}: {said:x?}");
    }
    let (_world, mut without, base) = queue(&small());
    prepare(&mut without, base);
    let mut wrong = Vec::new();
    for (what, bytes, refusal) in asked(base) {
        let head = Command::parse(&bytes).unwrap();
        let said = give(&mut without, &bytes);
        let as_expected = match refusal {
            Refusal::Unknown => {
                let unknown = give(&mut without, &plain(NO_COMMAND, head.object));
                assert_eq!((unknown.0, unknown.1), (CommandStatus::BadOpcode, CommandAttribute::Opcode));
                // The value may be the code itself.
                (said.0, said.1) == (unknown.0, unknown.1)
                    && (said.2 == unknown.2 || said.2 == u64::from(head.opcode))
            }
            // What was refused is not there.
            Refusal::For(CommandAttribute::Object) => {
                [CommandStatus::BadObject, CommandStatus::BadKey].contains(&said.0)
                    && said.1 == CommandAttribute::Object
            }
            Refusal::For(attribute) => (said.0, said.1) == (CommandStatus::BadAttribute, attribute),
        };
        if !as_expected {
            wrong.push(format!("{what}: {said:x?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    // The queue pair is what it was, and does what is there.
    let state = |queue: &mut Queue<_>| {
        let (status, _, value) = give(queue, &simple(CommandOpcode::QueryQp, QPN));
        assert_eq!(status, CommandStatus::Ok);
        QpState::from_code(QpSummary::parse(&value.to_le_bytes()).unwrap().state)
    };
    assert_eq!(state(&mut without), Some(QpState::Reset));
    for qpn in [RAW_QPN, GSI_QPN, QPN + 1, QPN + 2, QPN + 3] {
        let said = give(&mut without, &simple(CommandOpcode::QueryQp, qpn));
        assert_eq!((said.0, said.1), (CommandStatus::BadObject, CommandAttribute::Object), "{qpn}");
    }
    let good = AccessFlags::LOCAL_WRITE | rights();
    for bytes in [reg_mr(KEY, good, base), set_av(false, false), to_init(rights())] {
        assert_eq!(give(&mut without, &bytes).0, CommandStatus::Ok);
    }
    assert_eq!(state(&mut without), Some(QpState::Init));
}

/// Whether a card without functions has nothing of what a command is about.
fn is_of_a_function(bytes: &[u8; command::BYTES]) -> bool {
    use CommandOpcode as Op;
    let opcode = CommandOpcode::from_code(Command::parse(bytes).unwrap().opcode);
    match opcode {
        Some(Op::AllocMw | Op::FreeMw | Op::CreateAh | Op::DestroyAh) => true,
        Some(Op::CreateSrq | Op::ModifySrq | Op::QuerySrq | Op::DestroySrq) => true,
        Some(Op::CreateQp) => {
            let create = CreateQp::parse(bytes).unwrap();
            create.has_srq || Service::from_code(create.service) != Some(Service::Rc)
        }
        Some(Op::RegMr) => {
            let access = RegMr::parse(bytes).unwrap().access;
            access & (AccessFlags::REMOTE_ATOMIC | AccessFlags::MW_BIND).bits() != 0
        }
        Some(Op::ModifyQp) => {
            let modify = ModifyQp::parse(bytes).unwrap();
            let given = Attributes(modify.attr_mask).contains(AttributeBit::Access);
            given && modify.access & AccessFlags::REMOTE_ATOMIC.bits() != 0
        }
        Some(Op::SetAv) => {
            let av = SetAv::parse(bytes).unwrap();
            av.ipv6 || av.vlan
        }
        _ => false,
    }
}

/// Status, attribute and value of each: also what is refused for several reasons at once.
#[test]
fn a_card_without_functions_answers_all_other_commands_as_the_card_with_them() {
    const COMMANDS: usize = 6_000;
    let (mut ended, mut refused) = (BTreeMap::<String, usize>::new(), BTreeMap::<String, usize>::new());
    for seed in 1..number(2, 3) {
        let ((_one, mut with, base), (_other, mut without, same)) = (queue(&full()), queue(&small()));
        assert_eq!(base, same, "the same addresses");
        let mut rng = SmallRng::seed_from_u64(seed);
        for nth in 0..COMMANDS {
            let mut bytes = random::command(&mut rng, &[base, base + 0x8000]);
            let opcode = CommandOpcode::from_code(Command::parse(&bytes).unwrap().opcode);
            // Most of these give all rights.
            if opcode == Some(CommandOpcode::ModifyQp) && nth % 4 != 0 {
                let access = &mut bytes[modify_qp::ACCESS.offset as usize / 8];
                *access &= !AccessFlags::REMOTE_ATOMIC.bits();
            }
            let what = format!("seed {seed}, command {nth}: {opcode:?}: {bytes:x?}");
            let said = give(&mut without, &bytes);
            if is_of_a_function(&bytes) {
                assert_ne!(said.0, CommandStatus::Ok, "{what}");
                *refused.entry(format!("{opcode:?} {}", said.0)).or_default() += 1;
            } else {
                assert_eq!(said, give(&mut with, &bytes), "{what}");
                *ended.entry(format!("{opcode:?} {}", said.0)).or_default() += 1;
            }
        }
    }
    println!("{ended:?}\nrefused: {refused:?}");
    use CommandOpcode as Op;
    for opcode in [Op::AllocPd, Op::CreateCq, Op::RegMr, Op::CreateQp, Op::SetAv, Op::ModifyQp, Op::DestroyQp]
    {
        let well = format!("{:?} {}", Some(opcode), CommandStatus::Ok);
        assert!(ended.contains_key(&well), "no {opcode} went well");
        let ill = |key: &&String| key.starts_with(&format!("{:?} ", Some(opcode))) && **key != well;
        assert!(ended.keys().any(|key| ill(&key)), "no {opcode} was refused");
    }
    for opcode in [Op::AllocMw, Op::CreateSrq, Op::CreateAh, Op::CreateQp, Op::RegMr, Op::ModifyQp, Op::SetAv]
    {
        let any = refused.keys().any(|key| key.starts_with(&format!("{:?} ", Some(opcode))));
        assert!(any, "nobody asked for a function by {opcode}");
    }
}
