// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command processor: takes commands from the ring in host memory, one at a time, and alone writes the tables.
//!
//! ```text
//!  producer --> fetch --> look --> check --> decide --+--> page list --> execute --> references --> complete
//!                 |         |                         |       |            |                          |
//!                DMA    own tables,                refused   DMA      table writes                   DMA
//!                       QP context                    +--------------------------------------------> write
//! ```
//!
//! *Look* reads what the command names: its protection domain, queues, key, address vector, and the QP's
//! record, which the context holds still until this command is done. *Check* evaluates every condition of
//! [`Checks`]; *decide* takes the first that failed. Until then nothing has changed, so a refused command changes
//! nothing. REG_MR looks at all keys for one that has its page table entries already, fetches its page list in pieces of up to [`PIECE`] bytes
//! and writes the key last: a registration that fails half way leaves page entries that no key names.
//!
//! A command takes 13 to 24 cycles and one DMA read; RESIZE_CQ waits for the doorbells before it and for the completion writer, MODIFY_CQ for that; REG_MR a cycle a key and a cycle an entry more and a DMA read a piece. Commands end
//! in order. After reset, that by the host too, and with RESET_ALL all tables are cleared, a QP in 6 cycles.
//!
//! RESET_ALL asks for a [`reset`](super::reset) of the card's core (`reclaims`): what is under way ends, nothing else begins, the core begins anew. The command outlives that, for
//! nothing of it has a reset but `consumer`, which no restart takes back; behind the tables, where all else ends, it is completed.
//!
//! Bad input: refused with status and attribute. A command ring that cannot be read stops everything until a reset
//! (`fatal`). Queues in the last 128 MiB of the bus's address space are refused, so that no queue wraps.

use super::dma::{write_entry, EntryWrite, Order};
use super::{
    pds, AhEntry, CommandControl, CommandProgress, CqEntry, CqLimits, CqResize, EqEntry, SrqControl,
    SrqEntry, SrqStatus, MAX_CQ_LOG2,
};
use crate::config::RnicConfig;
use crate::context::{QpFound, QpRecord, QpUpdate};
use crate::fields::{assemble, field};
use crate::memory::{Done, Operation, OperationKind};
use crate::rx::peer::{Address, PEER_BITS};
use crate::stream::{half, spare_fifo};
use crate::types::{
    is_connectionless, priority_of, AddressVector, DmaReadData, DmaReadRequest, DmaWrite, KeyEntry,
    QpAttributes, QpPsns, TableWrite,
};
use ferrowire_rtl::{
    bits, cat, clog2, lit, module, Bundle, Collision, Fsm, Interface, Scope, Sig, Stream, Style,
};
use ferrowire_spec::qp_state::{AttributeBit, GSI_QKEY, GSI_QPN, RAW_QPN};
use ferrowire_spec::queue::command::{
    self as spec, alloc_mw, create_ah, create_cq, create_eq, create_qp, create_srq, modify_cq, modify_qp,
    modify_srq, reg_mr, resize_cq, set_av, PathMtu,
};
use ferrowire_spec::queue::command_completion::{self as completion, cq_summary, qp_summary, srq_summary};
use ferrowire_spec::queue::{
    Access, CommandAttribute as Attribute, CommandOpcode as Op, CommandStatus as Status,
};
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::{Field, Layout, QpState};

mod checks;
mod tables;

use checks::{lowest_code, reserved_is_used, transition, Checks};
use tables::{write_port, Network, Owned, OwnedCq, OwnedKey, OwnedSrq, Ports};

/// Bytes of a page list that are asked for at once; a piece ends where a multiple of this does.
pub const PIECE: u32 = 512;

/// Bits of a page's number: pages have at least 4 KiB.
const PAGE_BITS: u32 = 52;

/// Bits of a page table index.
fn page_bits(cfg: &RnicConfig) -> u32 {
    clog2(u64::from(cfg.page_entries))
}

/// What leaves the command processor.
#[derive(Interface)]
pub struct CommandProcessor {
    /// For the registers.
    pub progress: CommandProgress,
    /// A command was taken in this cycle.
    pub taken: Sig,
    /// Reads of commands and page lists.
    pub read: Stream<DmaReadRequest>,
    /// Completions.
    pub write: Stream<DmaWrite>,
    /// Asks for a QP's record.
    pub query: Stream<Sig>,
    /// What becomes of it.
    pub update: Stream<QpUpdate>,
    /// Address vectors in effect, those of handles behind those of QPs.
    pub vectors: TableWrite<AddressVector>,
    /// Addresses of the queue pairs' peers: told before the attributes that they come with.
    pub peers: TableWrite<Address>,
    /// Address handles.
    pub ahs: TableWrite<AhEntry>,
    /// Keys.
    pub keys: TableWrite<KeyEntry>,
    /// Keys to be removed.
    pub removals: Stream<Operation>,
    /// Page numbers.
    pub pages: TableWrite<Sig>,
    /// Completion queues.
    pub cqs: TableWrite<CqEntry>,
    /// How their events are moderated; with each that begins or ends its life: not.
    pub cq_limits: TableWrite<CqLimits>,
    /// Event queues.
    pub eqs: TableWrite<EqEntry>,
    /// A completion queue is to have another ring: taken when it has.
    pub resize: Stream<CqResize>,
    /// Asks whether the doorbells that came before this command have acted.
    pub fences: Sig,
    /// Shared receive queues.
    pub srqs: SrqControl,
    /// Whose PSNs are asked for.
    pub asked_qp: Sig,
    /// Everything is to be taken back.
    pub reclaims: Sig,
}

#[derive(Clone, Copy, Fsm)]
enum State {
    /// A row of every table is cleared.
    Clear,
    Idle,
    /// The command is asked for.
    Fetch,
    /// It comes.
    Receive,
    /// Its opcode is told apart.
    Decode,
    /// Tables are read.
    Look,
    /// The QP's record is asked for.
    Query,
    /// It comes.
    Reply,
    /// The second completion queue is read.
    LookAgain,
    /// All conditions are evaluated.
    Check,
    /// The first that failed is found.
    Judge,
    /// The command goes on, or ends here.
    Decide,
    /// The address vector of a handle goes through the row of the raw queue pair, which has none of its own.
    Handle,
    /// It is read there.
    HandleRead,
    /// All keys are looked at: nobody else has the page table entries.
    Overlap,
    /// A piece of the page list is asked for.
    PageAsk,
    /// It is written to the page table.
    PageTake,
    /// What is left of it is forgotten.
    PageDrain,
    /// A key is removed by its owner, if nothing depends on it.
    Remove,
    /// It has answered.
    Removed,
    /// Doorbells that came before the command act.
    Fence,
    /// A completion queue goes to its new ring.
    Resize,
    /// Tables are written.
    Execute,
    /// References are counted: read and write for the protection domain and both completion queues.
    ReadPd,
    WritePd,
    ReadSend,
    WriteSend,
    ReadRecv,
    WriteRecv,
    ReadShared,
    WriteShared,
    /// The same for the event queue of a completion queue.
    ReadEvent,
    WriteEvent,
    /// No shared receive queue that is gone is read any more.
    Settle,
    /// An event queue, or another queue that has events, is gone when the event writer has nothing of it in its hands; and the completion writer
    /// goes by a completion queue's new limits.
    Quiet,
    /// The card's core is to begin anew, and this with it.
    Reclaim,
    /// The QP's record is written or let go.
    Release,
    /// The completion is written.
    Complete,
    /// The ring is broken.
    Fatal,
}

/// What can be commanded.
const KNOWN: [Op; 24] = [
    Op::CreateCq,
    Op::ModifyCq,
    Op::DestroyCq,
    Op::ResizeCq,
    Op::RegMr,
    Op::DeregMr,
    Op::AllocMw,
    Op::FreeMw,
    Op::CreateQp,
    Op::ModifyQp,
    Op::SetAv,
    Op::QueryQp,
    Op::DestroyQp,
    Op::AllocPd,
    Op::FreePd,
    Op::CreateEq,
    Op::DestroyEq,
    Op::CreateSrq,
    Op::ModifySrq,
    Op::DestroySrq,
    Op::QuerySrq,
    Op::CreateAh,
    Op::DestroyAh,
    Op::ResetAll,
];

/// What of it this card has.
fn known(cfg: &RnicConfig) -> Vec<Op> {
    let has = |op: &Op| match op {
        Op::AllocMw | Op::FreeMw => cfg.memory_windows,
        Op::CreateSrq | Op::ModifySrq | Op::DestroySrq | Op::QuerySrq => cfg.has_srqs(),
        Op::CreateAh | Op::DestroyAh => cfg.ud,
        _ => true,
    };
    KNOWN.into_iter().filter(has).collect()
}

/// Rights that this card can grant.
fn rights(cfg: &RnicConfig) -> u32 {
    let has = |right: &&Access| match right {
        Access::RemoteAtomic => cfg.atomics,
        Access::MwBind => cfg.memory_windows,
        _ => true,
    };
    Access::ALL.iter().filter(has).fold(0, |all, right| all | u32::from(right.code()))
}

/// The attributes of a queue pair as this card can have them. They go round through the context's table, and nobody sees there that a bit is always 0.
fn attributes_of(cfg: &RnicConfig, a: &QpAttributes) -> QpAttributes {
    let services = cfg.services().fold(0, |all, service| all | u32::from(service.code()));
    QpAttributes {
        service: a.service & services,
        sq_base: cfg.bus(a.sq_base),
        rq_base: cfg.bus(a.rq_base),
        access: a.access & rights(cfg),
        priority: cfg.only(cfg.vlan, a.priority),
        loops: cfg.only(cfg.loopback, a.loops),
        qkey: cfg.only(cfg.ud, a.qkey),
        selective: cfg.only(cfg.selective, a.selective),
        has_srq: cfg.only(cfg.has_srqs(), a.has_srq),
        srqn: cfg.only(cfg.has_srqs(), a.srqn),
        ..a.clone()
    }
}

/// An address vector, likewise.
fn vector_of(cfg: &RnicConfig, v: &AddressVector) -> AddressVector {
    AddressVector {
        ipv6: cfg.only(cfg.ipv6, v.ipv6),
        dst_ip: cfg.ip(v.dst_ip),
        src_ip: cfg.ip(v.src_ip),
        vlan: cfg.only(cfg.vlan, v.vlan),
        vlan_tci: cfg.only(cfg.vlan, v.vlan_tci),
        flow_label: cfg.only(cfg.ipv6, v.flow_label),
        ..v.clone()
    }
}

/// A beat of a command or of a page list.
#[derive(Clone, Bundle)]
struct Incoming {
    data: Sig,
    last: Sig,
    error: Sig,
    /// For each eight bytes: no page of the size that the command names begins there, or the bus has none there.
    misaligned: Sig,
}

/// Takes and executes commands. `removed`: a removal has ended; `events_busy`: an event is on its way, or new limits of a completion queue; `srq_status`: of the shared receive queue that is asked for;
/// `srqs_busy`: one that is gone may still be read; `fenced`: the answer to `fences`; `produced`: entries of the old ring, when `resize` is taken; `psns`: of the queue pair `asked_qp`; `reclaimed`: it was a command that made the core begin anew.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn command(
    m: &Scope,
    cfg: &RnicConfig,
    control: CommandControl,
    data: Stream<DmaReadData>,
    reply: Stream<QpFound>,
    removed: Done,
    events_busy: Sig,
    srq_status: SrqStatus,
    srqs_busy: Sig,
    fenced: Sig,
    produced: Sig,
    psns: QpPsns,
    reclaimed: Sig,
    own_mac: Sig,
) -> CommandProcessor {
    let (qp_bits, cq_bits, eq_bits) = (cfg.qp_bits(), cfg.cq_bits(), cfg.eq_bits());
    let (srq_bits, ah_bits, av_bits) = (cfg.srq_bits(), cfg.ah_bits(), cfg.av_bits());
    let (key_bits, pd_bits) = (clog2(u64::from(cfg.keys)), clog2(u64::from(pds(cfg))));
    let (page_bits, lanes) = (page_bits(cfg), cfg.beat_bytes / 8);
    let state = m.fsm("state", State::Clear);
    let consumer = m.reg("consumer", 16).reset_once(0);
    let command = m.reg("current", 512).no_reset();
    // What is being cleared.
    let rows = cfg.qps.max(cfg.cqs).max(cfg.eqs).max(cfg.srqs).max(cfg.ahs).max(cfg.keys).max(pds(cfg));
    let row = m.reg("row", clog2(u64::from(rows))).reset(0);
    let clearing = m.reg("clearing", 1).reset(1);
    let go = |m: &Scope, to: State| m.set(&state, to);
    // Rows are cleared by a command that is zero but for its header: RESET_ALL is, and any other is taken back.
    m.when(clearing & !reclaimed, |m| m.set(&command, 0));

    // The command's fields.
    let get = |layout: &Layout, f: &Field| field(layout, f, command);
    let opcode = get(&spec::LAYOUT, &spec::OPCODE);
    // A register an operation, set while the command is decoded.
    let known = known(cfg);
    let ops: Vec<(Op, Sig)> = known
        .iter()
        .map(|op| (*op, m.delay(&format!("is_{op:?}").to_lowercase(), &opcode.eq(op.code()))))
        .collect();
    let op = |op: Op| ops.iter().find(|known| known.0 == op).map_or_else(|| lit(1, 0), |known| known.1);
    let any_op = |ops: &[Op]| ops.iter().fold(lit(1, 0), |any, o| any | op(*o));
    let object = get(&spec::LAYOUT, &spec::OBJECT);
    let of_qp = any_op(&[Op::CreateQp, Op::ModifyQp, Op::SetAv, Op::QueryQp, Op::DestroyQp]).named("of_qp");
    let of_cq = any_op(&[Op::CreateCq, Op::DestroyCq, Op::ResizeCq]);
    let names_cq = of_cq | op(Op::ModifyCq);
    let of_eq = any_op(&[Op::CreateEq, Op::DestroyEq]);
    let of_srq = any_op(&[Op::CreateSrq, Op::ModifySrq, Op::DestroySrq, Op::QuerySrq]);
    let of_ah = any_op(&[Op::CreateAh, Op::DestroyAh]);
    let of_pd = any_op(&[Op::AllocPd, Op::FreePd]);
    let makes_key = any_op(&[Op::RegMr, Op::AllocMw]);
    let removes_key = any_op(&[Op::DeregMr, Op::FreeMw]);
    let of_window = any_op(&[Op::AllocMw, Op::FreeMw]);
    let of_key = makes_key | removes_key;
    let in_range = |value: Sig, bits: u32| (value >> bits).eq(0);
    // The domain stands at the same place wherever there is one.
    let place = |f: &Field| (f.offset, f.width);
    assert_eq!(place(&reg_mr::PD), place(&create_qp::PD));
    assert_eq!(place(&alloc_mw::PD), place(&create_qp::PD));
    assert_eq!(place(&create_srq::PD), place(&create_qp::PD));
    assert_eq!(place(&create_srq::LIMIT), place(&modify_srq::LIMIT));
    // But for an address handle, which has its address vector where SET_AV has it.
    for (ours, theirs) in [(create_ah::DST_MAC, set_av::DST_MAC), (create_ah::SRC_IP, set_av::SRC_IP)] {
        assert_eq!(place(&ours), place(&theirs));
    }
    let ah_pd = get(&create_ah::LAYOUT, &create_ah::PD);
    let pd = m.mux(op(Op::CreateAh), &ah_pd, &get(&create_qp::LAYOUT, &create_qp::PD));
    let (send_cqn, recv_cqn) =
        (get(&create_qp::LAYOUT, &create_qp::SEND_CQN), get(&create_qp::LAYOUT, &create_qp::RECV_CQN));
    let eqn = get(&create_cq::LAYOUT, &create_cq::EQN);
    let (has_srq, srqn) =
        (get(&create_qp::LAYOUT, &create_qp::HAS_SRQ), get(&create_qp::LAYOUT, &create_qp::SRQN));
    let limit = get(&create_srq::LAYOUT, &create_srq::LIMIT);
    let key_index = object.slice(8, 24);
    let key_tag = object.trunc(8);

    // Own tables: one write port each, one read port each.
    let users = clog2(u64::from((cfg.keys + 2 * cfg.qps + cfg.srqs + cfg.ahs).max(cfg.cqs))) + 1;
    let owned = Owned { exists: bits(1), users: bits(users) };
    let pd_table = m.mem("pds", pds(cfg), &owned).init(vec![]).build();
    let owned_cq = OwnedCq { owned: owned.clone(), eqn: bits(eq_bits) };
    let cq_table = m.mem("cqs", cfg.cqs, &owned_cq).init(vec![]).build();
    let eq_table = m.mem("eqs", cfg.eqs, &owned).init(vec![]).build();
    let srq_table = m.mem("srqs", cfg.srq_rows(), &owned).init(vec![]).build();
    let owned_srq = OwnedSrq { pd: bits(24), log2: bits(4) };
    let srq_facts = m.mem("srq_facts", cfg.srq_rows(), &owned_srq).init(vec![]).build();
    let owned_key = OwnedKey {
        exists: bits(1),
        tag: bits(8),
        pd: bits(24),
        window: bits(1),
        first: bits(page_bits),
        end: bits(page_bits + 1),
    };
    let key_table = m.mem("keys", cfg.keys, &owned_key).init(vec![]).build();
    let ah_table = m.mem("ahs", cfg.ahs, &AhEntry::of()).init(vec![]).build();
    let network_table =
        m.mem("networks", cfg.qps, &Network::of()).style(cfg.large_or(cfg.qps, Style::Auto)).build();
    let ports_table = m.mem("ports", cfg.qps, &Ports::of()).build();

    // Driven where the command is executed.
    let pd_port = write_port(m, "pd_port", &pd_table, pd_bits, &owned);
    let cq_port = write_port(m, "cq_port", &cq_table, cq_bits, &owned_cq);
    let eq_port = write_port(m, "eq_port", &eq_table, eq_bits, &owned);
    let srq_port = write_port(m, "srq_port", &srq_table, srq_bits, &owned);
    let fact_port = write_port(m, "fact_port", &srq_facts, srq_bits, &owned_srq);
    let key_port = write_port(m, "key_port", &key_table, key_bits, &owned_key);
    let ah_port = write_port(m, "ah_port", &ah_table, ah_bits, &AhEntry::of());
    let network_port = write_port(m, "network_port", &network_table, qp_bits, &Network::of());
    let ports_port = write_port(m, "ports_port", &ports_table, qp_bits, &Ports::of());

    let qp_reg = m.reg_of("qp", &QpRecord::of(cfg));
    let qp = QpRecord { attributes: attributes_of(cfg, &qp_reg.attributes), ..qp_reg.clone() };
    // The context keeps these itself.
    let kept = &qp_reg.attributes;
    m.discard(&vec![kept.sq_base, kept.sq_log2, kept.sq_stride, kept.sq_sig_all]);
    m.discard(&vec![kept.rq_base, kept.rq_log2, kept.rq_stride, kept.doorbell_page]);
    let draining = m.reg("draining", 1).no_reset();
    let counts_up = any_op(&[Op::CreateQp, Op::RegMr, Op::AllocMw, Op::CreateSrq, Op::CreateAh]);
    let adds = counts_up | op(Op::CreateCq);
    let at_look = state.is(State::Look);
    // Of a region, all keys are looked at as well.
    let at_overlap = state.is(State::Overlap);
    let sweep = m.reg("sweep", key_bits + 1).no_reset();
    let key_at = m.mux(at_overlap, &sweep.trunc(key_bits), &key_index.trunc(key_bits));
    let key = key_table.read(m, at_look | at_overlap, key_at, Collision::Never);
    let staged_at = object.trunc(qp_bits) & (!op(Op::CreateAh)).repeat(qp_bits);
    let reads_staged = at_look | state.is(State::HandleRead);
    let network = network_table.read(m, reads_staged, staged_at, Collision::Never);
    let ports = ports_table.read(m, at_look, object.trunc(qp_bits), Collision::Never);
    let staged = vector_of(cfg, &network.with(&ports));
    let ah = ah_table.read(m, at_look, object.trunc(ah_bits), Collision::Never);
    // A queue pair's shared receive queue, or the one that the command is about.
    let shares = op(Op::CreateQp).then(has_srq, qp.attributes.has_srq);
    let ref_srq = op(Op::CreateQp).then(srqn.trunc(srq_bits), qp.attributes.srqn);
    let srq_at = (at_look & of_srq).then(object.trunc(srq_bits), ref_srq);
    let reads_srq = at_look | state.is(State::ReadShared);
    let srq = srq_table.read(m, reads_srq, srq_at, Collision::Never);
    let srq_fact = srq_facts.read(m, reads_srq, srq_at, Collision::Never);
    let own_pd = removes_key.then(key.pd, op(Op::DestroySrq).then(srq_fact.pd, qp.attributes.pd));
    let own_pd = op(Op::DestroyAh).then(ah.pd, own_pd);
    let ref_pd = counts_up.then(pd, own_pd).trunc(pd_bits);
    let pd_at = at_look.then(of_pd.then(object.trunc(pd_bits), pd.trunc(pd_bits)), ref_pd);
    let domain = pd_table.read(m, at_look | state.is(State::ReadPd), pd_at, Collision::Never);
    let ref_send = counts_up.then(send_cqn.trunc(cq_bits), qp.attributes.send_cq);
    let ref_recv = counts_up.then(recv_cqn.trunc(cq_bits), qp.attributes.recv_cq);
    let cq_at = m.wire("cq_at", cq_bits);
    m.set(&cq_at, ref_recv);
    m.when(at_look, |m| m.set(&cq_at, names_cq.then(object.trunc(cq_bits), send_cqn.trunc(cq_bits))))
        .otherwise_when(state.is(State::LookAgain), |m| m.set(&cq_at, recv_cqn.trunc(cq_bits)))
        .otherwise_when(state.is(State::ReadSend), |m| m.set(&cq_at, ref_send));
    let reads_cq = state.is_any(&[State::Look, State::LookAgain, State::ReadSend, State::ReadRecv]);
    let OwnedCq { owned: queue, eqn: queue_eqn } = cq_table.read(m, reads_cq, cq_at, Collision::Never);
    // What the first look found: the object, or the send queue's.
    let first_queue = m.reg_of("first_queue", &owned);
    let first_eqn = m.reg("first_eqn", eq_bits).no_reset();
    m.when(state.is(State::LookAgain), |m| {
        m.set_all(&first_queue, &queue);
        m.set(&first_eqn, queue_eqn);
    });
    let ref_eq = op(Op::CreateCq).then(eqn.trunc(eq_bits), first_eqn);
    let reads_eq = at_look | state.is(State::ReadEvent);
    let eq_at = (at_look & of_eq).then(object.trunc(eq_bits), ref_eq);
    let events = eq_table.read(m, reads_eq, eq_at, Collision::Never);

    // Conditions.
    let mut checks = Checks::default();
    checks.refuse(!any_op(&known), Status::BadOpcode, Attribute::Opcode);
    checks.refuse(get(&spec::LAYOUT, &spec::FLAGS).any(), Status::BadReserved, Attribute::Flags);
    checks.refuse(reserved_is_used(&known, command, opcode), Status::BadReserved, Attribute::None);

    // Objects.
    let qp_range = in_range(object, qp_bits);
    checks.refuse(of_qp & !qp_range, Status::BadObject, Attribute::Object);
    checks.refuse(of_qp & qp.exists.eq(op(Op::CreateQp)), Status::BadObject, Attribute::Object);
    checks.refuse(names_cq & !in_range(object, cq_bits), Status::BadObject, Attribute::Object);
    checks.refuse(names_cq & first_queue.exists.eq(op(Op::CreateCq)), Status::BadObject, Attribute::Object);
    checks.refuse(op(Op::DestroyCq) & first_queue.users.any(), Status::Busy, Attribute::Object);
    let eq_range = in_range(object, eq_bits) & object.any();
    checks.refuse(of_eq & !eq_range, Status::BadObject, Attribute::Object);
    checks.refuse(of_eq & events.exists.eq(op(Op::CreateEq)), Status::BadObject, Attribute::Object);
    checks.refuse(op(Op::DestroyEq) & events.users.any(), Status::Busy, Attribute::Object);
    checks.refuse(of_srq & !in_range(object, srq_bits), Status::BadObject, Attribute::Object);
    checks.refuse(of_srq & srq.exists.eq(op(Op::CreateSrq)), Status::BadObject, Attribute::Object);
    checks.refuse(op(Op::DestroySrq) & srq.users.any(), Status::Busy, Attribute::Object);
    checks.refuse(of_ah & !in_range(object, ah_bits), Status::BadObject, Attribute::Object);
    checks.refuse(of_ah & ah.valid.eq(op(Op::CreateAh)), Status::BadObject, Attribute::Object);
    let pd_range = in_range(object, pd_bits) & object.any();
    checks.refuse(of_pd & !pd_range, Status::BadObject, Attribute::Object);
    checks.refuse(of_pd & domain.exists.eq(op(Op::AllocPd)), Status::BadObject, Attribute::Object);
    checks.refuse(op(Op::FreePd) & domain.users.any(), Status::Busy, Attribute::Object);
    let key_range = in_range(key_index, key_bits) & key_index.any();
    checks.refuse(of_key & !key_range, Status::BadObject, Attribute::Object);
    checks.refuse(of_key & key.exists.eq(makes_key), Status::BadObject, Attribute::Object);
    checks.refuse(removes_key & key.window.ne(of_window), Status::BadObject, Attribute::Object);
    checks.refuse(op(Op::DeregMr) & key.tag.ne(key_tag), Status::BadKey, Attribute::Object);
    let no_domain = !(in_range(pd, pd_bits) & pd.any() & domain.exists);
    checks.refuse(counts_up & no_domain, Status::BadAttribute, Attribute::Pd);

    // Queues.
    let unaligned = |base: Sig| base.trunc(12).any();
    // The bus has no such address.
    let beyond = |address: Sig| match address.width() - cfg.bus_bits {
        0 => lit(1, 0),
        _ => (address >> cfg.bus_bits).any(),
    };
    let wraps = |base: Sig| base.slice(27, cfg.bus_bits - 27).all() | beyond(base);
    let pages = cfg.doorbell_pages;
    let no_page = |page: Sig| page.zext(17).ge(pages);
    {
        use create_cq::*;
        let is = op(Op::CreateCq);
        let base = get(&LAYOUT, &BASE);
        // RESIZE_CQ has its ring at the same place.
        assert_eq!(place(&BASE), place(&resize_cq::BASE));
        assert_eq!(place(&LOG2_ENTRIES), place(&resize_cq::LOG2_ENTRIES));
        let rings = is | op(Op::ResizeCq);
        let size = get(&LAYOUT, &LOG2_ENTRIES);
        checks.refuse(rings & size.gt(MAX_CQ_LOG2), Status::BadSize, Attribute::Log2Entries);
        checks.refuse(rings & (unaligned(base) | wraps(base)), Status::BadAddress, Attribute::Base);
        // 0 says none.
        let no_events = eqn.any() & !(in_range(eqn, eq_bits) & events.exists);
        checks.refuse(is & no_events, Status::BadAttribute, Attribute::Eqn);
        let page = get(&LAYOUT, &DOORBELL_PAGE);
        checks.refuse(is & no_page(page), Status::BadAttribute, Attribute::DoorbellPage);
    }
    {
        use create_eq::*;
        let is = op(Op::CreateEq);
        let base = get(&LAYOUT, &BASE);
        let size = get(&LAYOUT, &LOG2_ENTRIES);
        checks.refuse(is & size.gt(MAX_CQ_LOG2), Status::BadSize, Attribute::Log2Entries);
        checks.refuse(is & (unaligned(base) | wraps(base)), Status::BadAddress, Attribute::Base);
        let vector = get(&LAYOUT, &VECTOR);
        checks.refuse(is & vector.ge(cfg.eqs), Status::BadAttribute, Attribute::Vector);
        let page = get(&LAYOUT, &DOORBELL_PAGE);
        checks.refuse(is & no_page(page), Status::BadAttribute, Attribute::DoorbellPage);
    }
    {
        use create_qp::*;
        let is = op(Op::CreateQp);
        let service = get(&LAYOUT, &SERVICE);
        let served = cfg.services().fold(lit(1, 0), |any, s| any | service.eq(s.code()));
        let other = object.eq(GSI_QPN) & service.ne(Service::Ud.code());
        let raw = service.eq(Service::Raw.code()).ne(object.eq(RAW_QPN));
        checks.refuse(is & (!served | other | raw), Status::BadAttribute, Attribute::Service);
        let page = get(&LAYOUT, &DOORBELL_PAGE);
        checks.refuse(is & no_page(page), Status::BadAttribute, Attribute::DoorbellPage);
        checks.refuse(is & get(&LAYOUT, &SQ_LOG2).gt(15), Status::BadSize, Attribute::SqLog2);
        checks.refuse(is & get(&LAYOUT, &RQ_LOG2).gt(15), Status::BadSize, Attribute::RqLog2);
        checks.refuse(is & get(&LAYOUT, &RQ_STRIDE).eq(3), Status::BadSize, Attribute::RqStride);
        for (base, attribute) in [(SQ_BASE, Attribute::SqBase), (RQ_BASE, Attribute::RqBase)] {
            let base = get(&LAYOUT, &base);
            checks.refuse(is & (unaligned(base) | wraps(base)), Status::BadAddress, attribute);
        }
        let no_send = !(in_range(send_cqn, cq_bits) & first_queue.exists);
        checks.refuse(is & no_send, Status::BadAttribute, Attribute::SendCqn);
        let no_recv = !(in_range(recv_cqn, cq_bits) & queue.exists);
        checks.refuse(is & no_recv, Status::BadAttribute, Attribute::RecvCqn);
        let no_srq = !(in_range(srqn, srq_bits) & srq.exists);
        checks.refuse(is & has_srq.then(no_srq, srqn.any()), Status::BadAttribute, Attribute::Srqn);
        // It has no receive queue beside a shared one.
        let own = |f: &Field| is & has_srq & get(&LAYOUT, f).any();
        checks.refuse(own(&RQ_LOG2), Status::BadSize, Attribute::RqLog2);
        checks.refuse(own(&RQ_STRIDE), Status::BadSize, Attribute::RqStride);
        checks.refuse(own(&RQ_BASE), Status::BadAddress, Attribute::RqBase);
    }

    {
        use create_srq::*;
        let is = op(Op::CreateSrq);
        let (base, size) = (get(&LAYOUT, &BASE), get(&LAYOUT, &LOG2_ENTRIES));
        checks.refuse(is & size.gt(15), Status::BadSize, Attribute::Log2Entries);
        checks.refuse(is & get(&LAYOUT, &create_srq::RQ_STRIDE).eq(3), Status::BadSize, Attribute::RqStride);
        checks.refuse(is & (unaligned(base) | wraps(base)), Status::BadAddress, Attribute::Base);
        let page = get(&LAYOUT, &DOORBELL_PAGE);
        checks.refuse(is & no_page(page), Status::BadAttribute, Attribute::DoorbellPage);
        let room = is.then(size.trunc(4), srq_fact.log2);
        let beyond = limit.gt(lit(16, 1).shl_by(room));
        let arms = is | op(Op::ModifySrq);
        checks.refuse(arms & beyond, Status::BadAttribute, Attribute::Limit);
    }

    // Regions.
    let (va, length) = (get(&reg_mr::LAYOUT, &reg_mr::VA), get(&reg_mr::LAYOUT, &reg_mr::LENGTH));
    let shift = get(&reg_mr::LAYOUT, &reg_mr::PAGE_SHIFT);
    let page_size = shift.eq(30).then(lit(2, 2), shift.eq(21).zext(2));
    let list = get(&reg_mr::LAYOUT, &reg_mr::PAGE_LIST_ADDR);
    let (count, first) =
        (get(&reg_mr::LAYOUT, &reg_mr::PAGE_COUNT), get(&reg_mr::LAYOUT, &reg_mr::MTT_INDEX));
    let mr_access = get(&reg_mr::LAYOUT, &reg_mr::ACCESS);
    let right = |access: Sig, bit: Access| access.bit(u32::from(bit.code()).trailing_zeros());
    // Sums in a cycle of their own: the command stands still long before they are looked at.
    let within = m.select(page_size, &[12, 21, 30].map(|shift| lit(66, (1u64 << shift) - 1)));
    let bytes = length.zext(66) + (va.zext(66) & within) + within;
    let pages = [12, 21, 30].map(|shift| (bytes >> shift).trunc(54));
    let needed = m.delay("needed", &m.select(page_size, &pages));
    let end = m.delay("end", &(va.zext(65) + length.zext(65)));
    let list_end = m.delay("list_end", &(list.zext(65) + cat([&lit(3, 0), &count]).zext(65)));
    let entries_end = m.delay("entries_end", &(first.zext(33) + count.zext(33)));
    {
        let is = op(Op::RegMr);
        let unknown = (mr_access & !lit(8, rights(cfg))).any();
        let write_less = (right(mr_access, Access::RemoteWrite) | right(mr_access, Access::RemoteAtomic))
            & !right(mr_access, Access::LocalWrite);
        checks.refuse(is & (unknown | write_less), Status::BadAttribute, Attribute::MrAccess);
        let odd = !(shift.eq(12) | shift.eq(21) | shift.eq(30));
        checks.refuse(is & odd, Status::BadAttribute, Attribute::PageShift);
        checks.refuse(is & length.eq(0), Status::BadSize, Attribute::Length);
        // The last byte may be the last of all.
        let past = end.msb() & end.trunc(64).any();
        checks.refuse(is & past, Status::BadAddress, Attribute::Va);
        let above = |shift: u32| (va >> shift).any();
        let not_zero = m.select(page_size, &[above(12), above(21), above(30)]);
        checks.refuse(is & right(mr_access, Access::ZeroBased) & not_zero, Status::BadAddress, Attribute::Va);
        let wrong_count = count.zext(54).ne(needed) | count.gt(cfg.page_entries);
        checks.refuse(is & wrong_count, Status::BadSize, Attribute::PageCount);
        checks.refuse(is & entries_end.gt(cfg.page_entries), Status::BadAttribute, Attribute::MttIndex);
        let bad_list = list.trunc(3).any() | beyond(list_end);
        checks.refuse(is & bad_list, Status::BadAddress, Attribute::PageListAddr);
    }

    // States and attributes of queue pairs.
    let modify = |f: &Field| get(&modify_qp::LAYOUT, f);
    let given_mask = modify(&modify_qp::ATTR_MASK);
    let given = |bit: AttributeBit| given_mask.bit(u32::from(bit.code()));
    let to = modify(&modify_qp::STATE);
    let offending = m.reg("offending", 8).no_reset();
    {
        use modify_qp::*;
        let is = op(Op::ModifyQp);
        let believed = given(AttributeBit::CurState) & modify(&CUR_STATE).ne(qp.state);
        checks.refuse(is & believed, Status::BadState, Attribute::CurState);
        // The record is there two cycles before this is looked at.
        let (legal, required, allowed) = transition(cfg, qp.attributes.service, qp.state, to);
        let legal = m.delay("legal", &legal);
        checks.refuse(is & !legal, Status::BadTransition, Attribute::State);
        let missing = m.delay("missing", &(required & !given_mask));
        let extra = m.delay("extra", &(given_mask & !allowed));
        m.set(&offending, missing.any().then(lowest_code(missing), lowest_code(extra)));
        // `AttrMask` stands for the attribute that `offending` names.
        checks.refuse(is & (missing | extra).any(), Status::BadAttribute, Attribute::AttrMask);
        let mut range = |bit: AttributeBit, bad: Sig, attribute: Attribute| {
            checks.refuse(is & given(bit) & bad, Status::BadAttribute, attribute);
        };
        let remote = [Access::RemoteWrite, Access::RemoteRead, Access::RemoteAtomic];
        let remote = remote.iter().fold(0, |all, a| all | u32::from(a.code())) & rights(cfg);
        range(AttributeBit::Access, (modify(&ACCESS) & !lit(8, remote)).any(), Attribute::QpAccess);
        range(AttributeBit::Av, !ports.given, Attribute::Av);
        let well_known = object.ne(GSI_QPN) | modify(&QKEY).eq(GSI_QKEY);
        range(AttributeBit::Qkey, !well_known, Attribute::Qkey);
        let mtu = modify(&PATH_MTU);
        range(AttributeBit::PathMtu, mtu.eq(0) | mtu.gt(5), Attribute::PathMtu);
        let most = super::MAX_RD_ATOMIC;
        range(AttributeBit::MaxRdAtomic, modify(&modify_qp::MAX_RD_ATOMIC).gt(most), Attribute::MaxRdAtomic);
        range(
            AttributeBit::MaxDestRdAtomic,
            modify(&MAX_DEST_RD_ATOMIC).gt(most),
            Attribute::MaxDestRdAtomic,
        );
        let refuses = lit(1, u32::from(!cfg.selective));
        range(AttributeBit::Selective, modify(&SELECTIVE) & refuses, Attribute::Selective);
    }
    let av = |f: &Field| get(&set_av::LAYOUT, f);
    {
        use set_av::*;
        // Each datagram has its own, and frames have none.
        let without_peer = is_connectionless(qp.attributes.service);
        checks.refuse(op(Op::SetAv) & without_peer, Status::BadAttribute, Attribute::Service);
        let is = op(Op::SetAv) | op(Op::CreateAh);
        // Multicast and zero are nobody's addresses. The first byte sent is the highest.
        checks.refuse(
            is & (av(&SRC_MAC).bit(40) | av(&SRC_MAC).eq(0)),
            Status::BadAttribute,
            Attribute::SrcMac,
        );
        checks.refuse(is & av(&DST_MAC).eq(0), Status::BadAttribute, Attribute::DstMac);
        checks.refuse(is & lit(1, u32::from(!cfg.ipv6)) & av(&IPV6), Status::BadAttribute, Attribute::Ipv6);
        checks.refuse(is & lit(1, u32::from(!cfg.vlan)) & av(&VLAN), Status::BadAttribute, Attribute::Vlan);
        let long = |ip: Sig| !av(&IPV6) & ip.slice(32, 96).any();
        checks.refuse(is & long(av(&SRC_IP)), Status::BadAttribute, Attribute::SrcIp);
        checks.refuse(is & long(av(&DST_IP)), Status::BadAttribute, Attribute::DstIp);
    }

    let conditions: Vec<Sig> = checks.conditions();
    let failed = !m.delay("passed", &!cat(&conditions));
    let (first_status, first_attribute) = checks.first(failed, offending);
    let (first_status, first_attribute) =
        (m.delay("first_status", &first_status), m.delay("first_attribute", &first_attribute));
    let fails = m.delay("fails", &failed.any());
    let status = m.reg("status", 8).no_reset();
    let attribute = m.reg("attribute", 8).no_reset();
    let value = m.reg("value", 64).no_reset();
    let refused = m.reg("refused", 1).no_reset();
    // A record was asked for, and must be let go.
    let held = m.reg("held", 1).reset(0);

    // DMA reads: the command, or a piece of a page list.
    // Whether the page numbers fit the pages' size is worked out in front of the FIFO, of every word that comes.
    let low = |entry: Sig, shift: u32| entry.trunc(shift).any();
    let misfit = |entry: &Sig| {
        beyond(*entry) | m.select(page_size, &[low(*entry, 12), low(*entry, 21), low(*entry, 30)])
    };
    let checked = |read: &DmaReadData| {
        let misaligned: Vec<Sig> = read.data.chunks(64).iter().map(misfit).collect();
        Incoming { data: read.data, last: read.last, error: read.error, misaligned: cat(&misaligned) }
    };
    let incoming = spare_fifo(m, PIECE / cfg.beat_bytes, cfg.unhurried(), data.map(checked));
    let incoming = half(&m.label("incoming"), incoming);
    let list_at = m.reg("list_at", 64).no_reset();
    let left = m.reg("left", page_bits + 1).no_reset();
    // It is the last one: where the command goes next depends on much else.
    let one_left = m.reg("one_left", 1).no_reset();
    let page_at = m.reg("page_at", page_bits).no_reset();
    let room = lit(10, PIECE) - list_at.trunc(9).zext(10);
    let left_bytes = cat([&lit(3, 0), &left]);
    let most = left_bytes.zext(page_bits + 16).gt(room.zext(page_bits + 16));
    let piece = most.then(room.zext(13), left_bytes.zext(page_bits + 16).trunc(13));
    let ring = |index: Sig, log2: Sig| index & !lit(16, 0xffff).shl_by(log2);
    // Where the next command and its completion lie; they stay, whatever is written to the registers meanwhile.
    let command_at = m.reg("command_at", 64).no_reset();
    let complete_at = m.reg("complete_at", 64).no_reset();
    let phase = m.reg("phase", 1).no_reset();
    m.when(state.is(State::Idle), |m| {
        let offset = |size: u32, log2: Sig| cat([&lit(size, 0), &ring(consumer, log2)]).zext(64);
        m.set(&command_at, cfg.bus(control.base + offset(6, control.log2)));
        m.set(&complete_at, cfg.bus(control.completion_base + offset(4, control.completion_log2)));
        m.set(&phase, !consumer.bit_at(control.completion_log2));
    });
    let fetching = state.is(State::Fetch);
    let request = DmaReadRequest {
        address: fetching.then(command_at, list_at),
        length: fetching.then(lit(13, spec::BYTES), piece),
    };
    let read = Stream::new(m, "read", fetching | state.is(State::PageAsk), request);

    let (entry, misaligned) = match lanes {
        1 => (incoming.data, incoming.misaligned),
        _ => {
            let lane = list_at.slice(3, clog2(lanes.into()));
            (m.select(lane, &incoming.data.chunks(64)), incoming.misaligned.bit_at(lane))
        }
    };
    let last_lane = match lanes {
        1 => lit(1, 1),
        _ => list_at.slice(3, clog2(lanes.into())).all(),
    };
    let taking = state.is(State::PageTake) & incoming.valid;
    let takes_entry = (taking & !incoming.error & !misaligned).named("takes_entry");
    let beat_ends = last_lane | one_left;
    incoming.accept(state.is_any(&[State::Receive, State::PageDrain]) | (takes_entry & beat_ends));
    let pages = TableWrite {
        enable: takes_entry,
        index: page_at,
        entry: cfg.bus(entry).slice(64 - PAGE_BITS, PAGE_BITS),
    };

    // The QP's record and its successor.
    let qp_index = clearing.then(row.zext(32).trunc(qp_bits), object.trunc(qp_bits));
    let query = Stream::new(m, "query", state.is(State::Query), qp_index);
    reply.accept(state.is(State::Reply));
    let q = |f: &Field| get(&create_qp::LAYOUT, f);
    // What came from a former queue pair's peers is not of the next one's.
    let gone = QpAttributes { peer: qp.attributes.peer, ..QpAttributes::of(cfg).zeros() };
    let created = QpAttributes {
        service: q(&create_qp::SERVICE).trunc(2),
        pd,
        send_cq: send_cqn.trunc(cq_bits),
        recv_cq: recv_cqn.trunc(cq_bits),
        sq_base: q(&create_qp::SQ_BASE),
        sq_log2: q(&create_qp::SQ_LOG2).trunc(4),
        sq_stride: q(&create_qp::SQ_STRIDE),
        sq_sig_all: q(&create_qp::SQ_SIG_ALL),
        rq_base: q(&create_qp::RQ_BASE),
        rq_log2: q(&create_qp::RQ_LOG2).trunc(4),
        rq_stride: q(&create_qp::RQ_STRIDE),
        doorbell_page: q(&create_qp::DOORBELL_PAGE),
        // Connected services have theirs from MODIFY_QP.
        mtu: lit(3, PathMtu::B4096.code()),
        has_srq,
        srqn: srqn.trunc(srq_bits),
        ..gone.clone()
    };
    let created = attributes_of(cfg, &created);
    let old = &qp.attributes;
    let priority = priority_of(staged.vlan, staged.vlan_tci);
    let staged_loops = cfg.only(cfg.loopback, staged.dst_mac.eq(own_mac));
    let changed = QpAttributes {
        access: given(AttributeBit::Access).then(modify(&modify_qp::ACCESS), old.access),
        pkey: given(AttributeBit::Pkey).then(modify(&modify_qp::PKEY), old.pkey),
        qkey: given(AttributeBit::Qkey).then(modify(&modify_qp::QKEY), old.qkey),
        mtu: given(AttributeBit::PathMtu).then(modify(&modify_qp::PATH_MTU), old.mtu),
        peer: old.peer + given(AttributeBit::Av).zext(PEER_BITS),
        gid: given(AttributeBit::Av).then(network.gid, old.gid),
        priority: given(AttributeBit::Av).then(priority, old.priority),
        loops: given(AttributeBit::Av).then(staged_loops, old.loops),
        timeout: given(AttributeBit::Timeout).then(modify(&modify_qp::TIMEOUT), old.timeout),
        retry_cnt: given(AttributeBit::RetryCnt).then(modify(&modify_qp::RETRY_CNT), old.retry_cnt),
        rnr_retry: given(AttributeBit::RnrRetry).then(modify(&modify_qp::RNR_RETRY), old.rnr_retry),
        min_rnr_timer: given(AttributeBit::MinRnrTimer)
            .then(modify(&modify_qp::MIN_RNR_TIMER), old.min_rnr_timer),
        max_rd_atomic: given(AttributeBit::MaxRdAtomic)
            .then(modify(&modify_qp::MAX_RD_ATOMIC).trunc(5), old.max_rd_atomic),
        max_dest_rd_atomic: given(AttributeBit::MaxDestRdAtomic)
            .then(modify(&modify_qp::MAX_DEST_RD_ATOMIC).trunc(5), old.max_dest_rd_atomic),
        selective: given(AttributeBit::Selective).then(modify(&modify_qp::SELECTIVE), old.selective),
        ..old.clone()
    };
    let changed = attributes_of(cfg, &changed);
    let creates = op(Op::CreateQp) & !clearing;
    let modifies = op(Op::ModifyQp) & !clearing;
    let reset_state = lit(3, QpState::Reset.code());
    // What CREATE_QP alone says is the command's: the context keeps the old one where that is MODIFY_QP. Other commands have zeros there.
    let successor = QpRecord {
        exists: creates | modifies,
        state: modifies.then(to, reset_state),
        attributes: QpAttributes {
            service: created.service,
            pd: created.pd,
            send_cq: created.send_cq,
            recv_cq: created.recv_cq,
            sq_base: created.sq_base,
            sq_log2: created.sq_log2,
            sq_stride: created.sq_stride,
            sq_sig_all: created.sq_sig_all,
            rq_base: created.rq_base,
            rq_log2: created.rq_log2,
            rq_stride: created.rq_stride,
            doorbell_page: created.doorbell_page,
            has_srq: created.has_srq,
            srqn: created.srqn,
            ..m.mux(modifies, &changed, &m.mux(creates, &created, &gone))
        },
    };
    let moves = |from: QpState, into: QpState| modifies & qp.state.eq(from.code()) & to.eq(into.code());
    let update = QpUpdate {
        qp: qp_index,
        write: clearing | (!refused & any_op(&[Op::CreateQp, Op::ModifyQp, Op::DestroyQp])),
        keeps: modifies,
        record: successor,
        responder: moves(QpState::Init, QpState::Rtr),
        requester: moves(QpState::Rtr, QpState::Rts) | moves(QpState::Sqe, QpState::Rts),
        rq_psn: modify(&modify_qp::RQ_PSN),
        sq_psn: modify(&modify_qp::SQ_PSN),
        drains: !clearing & (op(Op::DestroyQp) | (modifies & to.eq(QpState::Reset.code()))),
        event: given(AttributeBit::SqdEvent) & modify(&modify_qp::SQD_EVENT),
    };
    let update = Stream::new(m, "update", state.is(State::Release), update);

    // The completion.
    let bytes = {
        use completion::*;
        assemble(
            &LAYOUT,
            &[
                (TOKEN, get(&spec::LAYOUT, &spec::TOKEN)),
                (OPCODE, opcode),
                (STATUS, status),
                (ATTRIBUTE, attribute),
                (VALUE, value.trunc(63)),
                (PHASE, phase),
            ],
        )
    };
    let done =
        Stream::new(m, "done", state.is(State::Complete), EntryWrite { address: complete_at, entry: bytes });

    // The way through the states.
    let clear_done = (clearing & row.all()).named("clear_done");
    let next_row = |m: &Scope| {
        m.set(&row, row + 1);
        go(m, State::Clear);
        m.when(clear_done, |m| {
            m.set(&clearing, 0);
            m.when(reclaimed, |m| go(m, State::Complete)).otherwise(|m| go(m, State::Idle));
        });
    };
    let clears = |rows: u32| state.is(State::Clear) & row.zext(32).lt(rows);
    m.when(state.is(State::Clear), |m| {
        m.when(clears(cfg.qps), |m| go(m, State::Query)).otherwise(|m| next_row(m));
    });
    let idle = state.is(State::Idle);
    let forgets = m.mux(clearing, &!reclaimed, &(idle & !control.enable));
    m.when(forgets, |m| m.set(&consumer, 0));
    // A completion leaves before the next command begins, which may be one that makes the core begin anew.
    let leaves = m.wire("completion_leaves", 1);
    m.when(idle & control.enable & consumer.ne(control.producer) & !leaves, |m| go(m, State::Fetch));
    m.when(fetching & read.ready, |m| go(m, State::Receive));
    let arrived = state.is(State::Receive) & incoming.valid;
    let broken = m.reg("broken", 1).reset(0);
    m.when(arrived, |m| {
        let width = 8 * cfg.beat_bytes;
        let shifted = match width {
            512 => incoming.data,
            _ => cat([&command.slice(width, 512 - width), &incoming.data]),
        };
        m.set(&command, shifted);
        m.set(&broken, broken | incoming.error);
        m.when(incoming.last, |m| {
            m.set(&broken, 0);
            go(m, State::Decode);
            m.when(broken | incoming.error, |m| go(m, State::Fatal));
        });
    });
    m.when(state.is(State::Decode), |m| go(m, State::Look));
    m.when(at_look, |m| {
        m.set(&held, of_qp & qp_range);
        m.when(of_qp & qp_range, |m| go(m, State::Query)).otherwise(|m| go(m, State::LookAgain));
    });
    m.when(query.fire(), |m| go(m, State::Reply));
    m.when(reply.fire(), |m| {
        m.set_all(&qp_reg, &reply.record);
        m.set(&draining, reply.draining);
        m.when(clearing, |m| go(m, State::Release)).otherwise(|m| go(m, State::LookAgain));
    });
    m.when(state.is(State::LookAgain), |m| go(m, State::Check));
    m.when(state.is(State::Check), |m| go(m, State::Judge));
    m.when(state.is(State::Judge), |m| go(m, State::Decide));

    // Where a command goes when nothing is left but its record and its completion.
    let finish = |m: &Scope| m.when(held, |m| go(m, State::Release)).otherwise(|m| go(m, State::Complete));
    m.when(state.is(State::Decide), |m| {
        m.set(&status, first_status);
        m.set(&attribute, first_attribute);
        m.set(&value, 0);
        m.set(&refused, fails);
        m.set(&list_at, cfg.bus(list));
        m.set(&left, count.trunc(page_bits + 1));
        m.set(&one_left, count.trunc(page_bits + 1).eq(1));
        m.set(&page_at, first.trunc(page_bits));
        m.set(&sweep, 0);
        m.when(fails, |m| finish(m))
            .otherwise_when(op(Op::RegMr), |m| go(m, State::Overlap))
            .otherwise_when(op(Op::CreateSrq), |m| go(m, State::Settle))
            .otherwise_when(removes_key, |m| go(m, State::Remove))
            .otherwise_when(op(Op::ResizeCq), |m| go(m, State::Fence))
            .otherwise_when(op(Op::CreateAh), |m| go(m, State::Handle))
            .otherwise(|m| go(m, State::Execute));
    });
    m.when(state.is(State::Handle), |m| go(m, State::HandleRead));
    m.when(state.is(State::HandleRead), |m| go(m, State::Execute));
    // A row is there in the cycle behind its own, and what it says in the next: the sweep goes on for so long, over the first rows again.
    let overlap = key.exists & !key.window & key.first.zext(33).lt(entries_end) & first.lt(key.end.zext(32));
    let overlaps = m.delay("overlaps", &(overlap & m.delay("was_overlap", &at_overlap)));
    let swept = m.delay("swept", &(at_overlap & sweep.eq(cfg.keys)));
    m.when(at_overlap, |m| {
        m.set(&sweep, sweep + 1);
        m.when(swept, |m| go(m, State::PageAsk));
        m.when(overlaps, |m| {
            m.set(&refused, 1);
            m.set(&status, Status::BadAttribute.code());
            m.set(&attribute, Attribute::MttIndex.code());
            finish(m);
        });
    });
    m.when(state.is(State::PageAsk) & read.ready, |m| go(m, State::PageTake));
    m.when(takes_entry, |m| {
        m.set(&list_at, cfg.bus(list_at + 8));
        m.set(&left, left - 1);
        m.set(&one_left, left.eq(2));
        m.set(&page_at, page_at + 1);
        m.when(beat_ends & incoming.last, |m| go(m, State::PageAsk));
        m.when(one_left, |m| go(m, State::Execute));
    });
    m.when(taking & (incoming.error | misaligned), |m| {
        m.set(&refused, 1);
        m.set(&status, incoming.error.then(Status::DmaError.code(), lit(8, Status::BadAddress.code())));
        m.set(
            &attribute,
            incoming.error.then(Attribute::PageListAddr.code(), lit(8, Attribute::PageListEntry.code())),
        );
        m.set(&value, (count - left.zext(32)).zext(64));
        go(m, State::PageDrain);
    });
    m.when(state.is(State::PageDrain) & incoming.valid & incoming.last, |m| finish(m));

    // Windows may be bound to a region at any time (IBTA volume 1, 11.2.8.5).
    let removal =
        Operation { kind: lit(2, OperationKind::Remove.code()), key: object, ..Operation::of(cfg).zeros() };
    let removals = Stream::new(m, "removal", state.is(State::Remove), removal);
    m.when(removals.fire(), |m| go(m, State::Removed));
    m.discard(&removed.cause);
    m.when(state.is(State::Removed) & removed.valid, |m| {
        go(m, State::Execute);
        m.when(!removed.ok, |m| {
            m.set(&refused, 1);
            m.set(&status, Status::Busy.code());
            m.set(&attribute, Attribute::Object.code());
            go(m, State::Complete);
        });
    });

    // The completion writer owns what changes. Doorbells of before would be about the new ring if they came after it.
    let fences = state.is(State::Fence);
    m.when(fences & fenced, |m| go(m, State::Resize));
    let ring = CqResize {
        cq: object.trunc(cq_bits),
        base: cfg.bus(get(&resize_cq::LAYOUT, &resize_cq::BASE)),
        log2: get(&resize_cq::LAYOUT, &resize_cq::LOG2_ENTRIES).trunc(5),
    };
    let resize = Stream::new(m, "resize", state.is(State::Resize), ring);
    m.when(resize.fire(), |m| {
        m.set(&value, assemble(&cq_summary::LAYOUT, &[(cq_summary::PRODUCER, produced)]));
        go(m, State::Complete);
    });

    let here = state.is(State::Execute);
    m.when(here, |m| {
        go(m, State::Complete);
        m.when(held, |m| go(m, State::Release));
        let of_domain = [Op::CreateQp, Op::DestroyQp, Op::CreateSrq, Op::DestroySrq];
        m.when(any_op(&of_domain) | of_key | of_ah, |m| go(m, State::ReadPd));
        m.when(any_op(&[Op::DestroyCq, Op::DestroyEq, Op::ModifyCq]), |m| go(m, State::Quiet));
        m.when(of_cq & ref_eq.any(), |m| go(m, State::ReadEvent));
    });
    // Writes. What is written is the command, where it is looked at or not: each entry says whether it is valid.
    let at = |width: u32| clearing.then(row.zext(32).trunc(width), object.trunc(width));
    let makes = |o: Op| op(o) & !clearing;
    // References: the users of what is read, one more or less. What has users exists.
    let (of_pd_now, of_srq_now) = (state.is(State::WritePd), state.is(State::WriteShared));
    let (of_send, of_recv) = (state.is(State::WriteSend), state.is(State::WriteRecv));
    let of_events = state.is(State::WriteEvent);
    let of_queue = of_send | of_recv;
    let counts = of_pd_now | of_srq_now | of_events | of_queue;
    let users_now = of_srq_now.then(srq.users, of_events.then(events.users, queue.users));
    let users_now = of_pd_now.then(domain.users, users_now);
    let counted = (users_now + cat([&lit(1, 1), &(!adds).repeat(users - 1)])) & counts.repeat(users);
    let entry = |makes: Sig, counts: Sig| Owned { exists: makes | counts, users: counted };
    m.set_all(
        &pd_port,
        &TableWrite {
            enable: clears(pds(cfg)) | (here & of_pd) | of_pd_now,
            index: of_pd_now.then(ref_pd, at(pd_bits)),
            entry: entry(makes(Op::AllocPd), of_pd_now),
        },
    );
    let owned_eqn = of_queue.then(queue_eqn, ref_eq & (!clearing).repeat(eq_bits));
    m.set_all(
        &cq_port,
        &TableWrite {
            enable: clears(cfg.cqs) | (here & of_cq) | of_queue,
            index: of_send.then(ref_send, of_recv.then(ref_recv, at(cq_bits))),
            entry: OwnedCq { owned: entry(makes(Op::CreateCq), of_queue), eqn: owned_eqn },
        },
    );
    m.set_all(
        &eq_port,
        &TableWrite {
            enable: clears(cfg.eqs) | (here & of_eq) | of_events,
            index: of_events.then(ref_eq, at(eq_bits)),
            entry: entry(makes(Op::CreateEq), of_events),
        },
    );
    let of_srqs = here & any_op(&[Op::CreateSrq, Op::DestroySrq]);
    m.set_all(
        &srq_port,
        &TableWrite {
            enable: clears(cfg.srqs) | of_srqs | of_srq_now,
            index: of_srq_now.then(ref_srq, at(srq_bits)),
            entry: entry(makes(Op::CreateSrq), of_srq_now),
        },
    );
    let cqs = {
        use create_cq::*;
        let entry = CqEntry {
            valid: makes(Op::CreateCq),
            base: cfg.bus(get(&LAYOUT, &BASE)),
            log2: get(&LAYOUT, &LOG2_ENTRIES).trunc(5),
            doorbell_page: get(&LAYOUT, &DOORBELL_PAGE),
            eqn,
        };
        TableWrite { enable: clears(cfg.cqs) | (here & of_cq), index: at(cq_bits), entry }
    };
    let cq_limits = {
        use modify_cq::*;
        let given = |f: &Field| get(&LAYOUT, f) & op(Op::ModifyCq).repeat(16);
        let entry = CqLimits::new(given(&COUNT), given(&PERIOD_US));
        TableWrite { enable: clears(cfg.cqs) | (here & names_cq), index: at(cq_bits), entry }
    };
    let eqs = {
        use create_eq::*;
        let entry = EqEntry {
            valid: makes(Op::CreateEq),
            base: cfg.bus(get(&LAYOUT, &BASE)),
            log2: get(&LAYOUT, &LOG2_ENTRIES).trunc(5),
            doorbell_page: get(&LAYOUT, &DOORBELL_PAGE),
            vector: get(&LAYOUT, &VECTOR),
            asynchronous: get(&LAYOUT, &ASYNCHRONOUS),
            moderation_us: get(&LAYOUT, &MODERATION_US),
        };
        TableWrite { enable: clears(cfg.eqs) | (here & of_eq), index: at(eq_bits), entry }
    };
    let srqs = {
        use create_srq::*;
        let log2 = get(&LAYOUT, &LOG2_ENTRIES).trunc(4);
        let enable = clears(cfg.srqs) | of_srqs;
        m.set_all(&fact_port, &TableWrite { enable, index: at(srq_bits), entry: OwnedSrq { pd, log2 } });
        let entry = SrqEntry {
            valid: makes(Op::CreateSrq),
            pd,
            base: cfg.bus(get(&LAYOUT, &BASE)),
            log2,
            stride: get(&LAYOUT, &create_srq::RQ_STRIDE),
            doorbell_page: get(&LAYOUT, &DOORBELL_PAGE),
        };
        TableWrite { enable, index: at(srq_bits), entry }
    };
    let keys = {
        let at = clearing.then(row.zext(32).trunc(key_bits), key_index.trunc(key_bits));
        let (first, end) = (first.trunc(page_bits), entries_end.trunc(page_bits + 1));
        let exists = makes_key & !clearing;
        let owned = OwnedKey { exists, tag: key_tag, pd, window: of_window, first, end };
        m.set_all(
            &key_port,
            &TableWrite { enable: clears(cfg.keys) | (here & of_key), index: at, entry: owned },
        );
        let entry = KeyEntry {
            valid: !clearing,
            tag: key_tag,
            pd,
            access: mr_access & rights(cfg),
            page_size,
            va,
            length,
            first_entry: first,
            window: of_window,
            type_1: of_window & get(&alloc_mw::LAYOUT, &alloc_mw::TYPE_1),
            ..KeyEntry::of(cfg).zeros()
        };
        TableWrite { enable: clears(cfg.keys) | (here & makes_key), index: at, entry }
    };
    // What SET_AV says is kept for MODIFY_QP; of a handle for two cycles. No more than that is ever beside what is in effect.
    let set = Network {
        gid: av(&set_av::SGID_INDEX),
        dst_mac: av(&set_av::DST_MAC),
        src_mac: av(&set_av::SRC_MAC),
        ipv6: av(&set_av::IPV6),
        dst_ip: av(&set_av::DST_IP),
        src_ip: av(&set_av::SRC_IP),
        vlan: av(&set_av::VLAN),
        vlan_tci: av(&set_av::VLAN_TCI),
        traffic_class: av(&set_av::TRAFFIC_CLASS),
        hop_limit: av(&set_av::HOP_LIMIT),
        flow_label: av(&set_av::FLOW_LABEL),
    };
    let sets = clears(cfg.qps) | (here & op(Op::SetAv)) | state.is(State::Handle);
    m.set_all(
        &network_port,
        &TableWrite {
            enable: sets,
            index: clearing.then(row.zext(32).trunc(qp_bits), staged_at),
            entry: set.clone(),
        },
    );
    // What MODIFY_QP gives takes the place of what was there; a queue pair begins with its port alone.
    let applies = |bit: AttributeBit| op(Op::ModifyQp) & given(bit);
    let begins = op(Op::CreateQp);
    let kept = |of: Sig| of & (!begins).repeat(of.width());
    let sport = begins.then(lit(16, modify_qp::SPORT.reset), ports.udp_sport);
    let applied = Ports {
        given: makes(Op::SetAv) | (makes(Op::ModifyQp) & ports.given),
        dest_qpn: applies(AttributeBit::DestQpn).then(modify(&modify_qp::DEST_QPN), kept(ports.dest_qpn)),
        udp_sport: applies(AttributeBit::Sport).then(modify(&modify_qp::SPORT), sport),
        pkey: applies(AttributeBit::Pkey).then(modify(&modify_qp::PKEY), kept(ports.pkey)),
    };
    let changes = here & any_op(&[Op::CreateQp, Op::SetAv, Op::ModifyQp]);
    m.set_all(
        &ports_port,
        &TableWrite { enable: clears(cfg.qps) | changes, index: at(qp_bits), entry: applied.clone() },
    );
    let touches = [AttributeBit::Av, AttributeBit::DestQpn, AttributeBit::Sport, AttributeBit::Pkey];
    let touches = op(Op::ModifyQp) & touches.iter().fold(lit(1, 0), |any, bit| any | given(*bit));
    // A handle's UDP source port and partition key are those of the queue pair that sends to it.
    let of_handle = cat(&[object.trunc(ah_bits).zext(av_bits - 1), lit(1, 1)]);
    let vectors = TableWrite {
        enable: here & (op(Op::CreateAh) | touches),
        index: op(Op::CreateAh).then(of_handle, object.trunc(qp_bits).zext(av_bits)),
        entry: vector_of(cfg, &network.with(&applied)),
    };
    let peers = TableWrite {
        enable: here & op(Op::ModifyQp) & given(AttributeBit::Av),
        index: object.trunc(qp_bits),
        entry: Address { ipv6: staged.ipv6, ip: staged.dst_ip },
    };
    let ahs = {
        let valid = makes(Op::CreateAh);
        let (priority, loops) = (priority & valid.repeat(3), staged_loops & valid);
        let entry = AhEntry { valid, pd, priority, loops };
        TableWrite { enable: clears(cfg.ahs) | (here & of_ah), index: at(ah_bits), entry }
    };
    m.set_all(&ah_port, &TableWrite { enable: ahs.enable, index: ahs.index, entry: ahs.entry.clone() });
    m.when(here & op(Op::QuerySrq), |m| {
        use srq_summary::*;
        let SrqStatus { taken, posted, limit } = srq_status.clone();
        m.set(&value, assemble(&LAYOUT, &[(TAKEN, taken), (POSTED, posted), (LIMIT, limit)]));
    });
    m.when(here & op(Op::QueryQp), |m| {
        use qp_summary::*;
        // Of what has not started, they would be those of a former life.
        let since = |state: QpState, psn: Sig| psn & qp.state.ge(state.code()).repeat(24);
        let (sends, receives) = (since(QpState::Rts, psns.sq), since(QpState::Rtr, psns.rq));
        let fields = [(STATE, qp.state), (SQ_DRAINING, draining), (SQ_PSN, sends), (RQ_PSN, receives)];
        m.set(&value, assemble(&LAYOUT, &fields));
    });
    m.when(here & op(Op::ResetAll), |m| go(m, State::Reclaim));

    // References.
    m.when(state.is(State::ReadPd), |m| go(m, State::WritePd));
    m.when(state.is(State::WritePd), |m| {
        m.when(of_key | of_ah | op(Op::CreateSrq), |m| go(m, State::Complete))
            .otherwise_when(op(Op::DestroySrq), |m| go(m, State::Settle))
            .otherwise(|m| go(m, State::ReadSend));
    });
    m.when(state.is(State::ReadSend), |m| go(m, State::WriteSend));
    m.when(state.is(State::WriteSend), |m| {
        go(m, State::ReadRecv);
    });
    m.when(state.is(State::ReadRecv), |m| go(m, State::WriteRecv));
    m.when(state.is(State::WriteRecv), |m| {
        m.when(shares, |m| go(m, State::ReadShared)).otherwise(|m| go(m, State::Release));
    });
    m.when(state.is(State::ReadShared), |m| go(m, State::WriteShared));
    m.when(state.is(State::WriteShared), |m| {
        go(m, State::Release);
    });
    m.when(state.is(State::Settle) & !srqs_busy, |m| {
        m.when(op(Op::CreateSrq), |m| go(m, State::Execute)).otherwise(|m| go(m, State::Quiet));
    });
    m.when(state.is(State::ReadEvent), |m| go(m, State::WriteEvent));
    m.when(state.is(State::WriteEvent), |m| {
        m.when(op(Op::DestroyCq), |m| go(m, State::Quiet)).otherwise(|m| go(m, State::Complete));
    });
    m.when(state.is(State::Quiet) & !events_busy, |m| go(m, State::Complete));
    m.when(update.fire(), |m| {
        m.set(&held, 0);
        m.when(clearing, |m| next_row(m)).otherwise(|m| go(m, State::Complete));
    });
    m.when(done.fire(), |m| {
        m.set(&consumer, consumer + 1);
        go(m, State::Idle);
    });

    let progress = CommandProgress { ready: !clearing, fatal: state.is(State::Fatal), consumer };
    let taken = done.fire();
    let done = half(&m.label("done"), done);
    m.drive(&leaves, done.valid);
    let write = write_entry(m, cfg, Order::Event, done);
    let arms = here & any_op(&[Op::CreateSrq, Op::ModifySrq]);
    let limit = TableWrite { enable: arms, index: object.trunc(srq_bits), entry: limit };
    let srqs = SrqControl { entry: srqs, limit, query: object.trunc(srq_bits) };
    CommandProcessor {
        progress,
        taken,
        read,
        write,
        query,
        update,
        vectors,
        peers,
        ahs,
        keys,
        removals,
        pages,
        cqs,
        cq_limits,
        eqs,
        resize,
        fences,
        srqs,
        asked_qp: object.trunc(qp_bits),
        reclaims: state.is(State::Reclaim),
    }
}

#[cfg(test)]
mod tests;
