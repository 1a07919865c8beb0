// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instructions of posting and polling through the functions of C, counted by callgrind: `cargo bench -p ferrowire-verbs`. See [`counting`] for `--check` and
//! `--record`.

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../../benches/counting/mod.rs"]
mod counting;

use std::ffi::c_int;
use std::hint::black_box;
use std::process::ExitCode;
use std::ptr::null_mut;

use common::mapped::{Completer, Mapped};
use counting::{counted, Bench};
use ferrowire_verbs::abi::*;

/// Rounds of a case, each of which is counted once.
const ROUNDS: u64 = 1000;

/// Entries of the queues.
const ENTRIES: usize = 64;

extern "C" {
    fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    fn ibv_create_cq(
        context: *mut ibv_context,
        cqe: c_int,
        cq_context: *mut std::ffi::c_void,
        channel: *mut ibv_comp_channel,
        vector: c_int,
    ) -> *mut ibv_cq;
    fn ibv_reg_mr(pd: *mut ibv_pd, addr: *mut std::ffi::c_void, length: usize, access: c_int) -> *mut ibv_mr;
    fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int;
    fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex;
}

/// A queue pair that is up, as a program has it.
struct Rig {
    card: Completer,
    context: *mut ibv_context,
    cq: *mut ibv_cq,
    qp: *mut ibv_qp,
    ex: *mut ibv_qp_ex,
    sge: ibv_sge,
    wrs: Vec<ibv_send_wr>,
    receives: Vec<ibv_recv_wr>,
    done: Vec<ibv_wc>,
}

type Round = fn(&mut Rig);
type Case = counting::Case<Round>;

const CASES: &[Case] = &[
    Case {
        name: "post-send-1",
        what: "`ibv_post_send` of a WRITE of one SGE",
        each: 1,
        run: sends::<1, false>,
    },
    Case {
        name: "post-send-32",
        what: "`ibv_post_send` of a list of 32: each",
        each: 32,
        run: sends::<32, false>,
    },
    Case {
        name: "post-inline-1",
        what: "`ibv_post_send` of a WRITE of 16 bytes inline",
        each: 1,
        run: sends::<1, true>,
    },
    Case {
        name: "wr-1",
        what: "`ibv_wr_start`, `_rdma_write`, `_set_sge`, `_complete`",
        each: 1,
        run: series::<1>,
    },
    Case { name: "wr-32", what: "the same with 32 WRITEs: each", each: 32, run: series::<32> },
    Case { name: "post-recv-1", what: "`ibv_post_recv` of one SGE", each: 1, run: receives::<1> },
    Case {
        name: "post-recv-32",
        what: "`ibv_post_recv` of a list of 32: each",
        each: 32,
        run: receives::<32>,
    },
    Case { name: "poll-0", what: "`ibv_poll_cq`, which finds nothing", each: 1, run: polls::<0, 1> },
    Case { name: "poll-1", what: "`ibv_poll_cq` of one", each: 1, run: polls::<1, 1> },
    Case { name: "poll-16", what: "`ibv_poll_cq` of 16: each", each: 16, run: polls::<16, 16> },
];

fn rig() -> Rig {
    let (bus, doorbells) = Mapped::new();
    let context = ferrowire_verbs::over(Box::new(bus));
    assert!(!context.is_null());
    let memory = Vec::leak(vec![0u64; 512]);
    // SAFETY: as the manual pages say; all objects live as long as the process.
    unsafe {
        let pd = ibv_alloc_pd(context);
        let mr = ibv_reg_mr(pd, memory.as_mut_ptr().cast(), 4096, IBV_ACCESS_LOCAL_WRITE as c_int);
        let cq = ibv_create_cq(context, 2 * ENTRIES as c_int, null_mut(), null_mut(), 0);
        assert!(!pd.is_null() && !mr.is_null() && !cq.is_null());
        let cap = ibv_qp_cap {
            max_send_wr: ENTRIES as u32,
            max_recv_wr: ENTRIES as u32,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 16,
        };
        let mut attr = ibv_qp_init_attr_ex {
            send_cq: cq,
            recv_cq: cq,
            cap,
            qp_type: IBV_QPT_RC,
            comp_mask: IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
            pd,
            send_ops_flags: IBV_QP_EX_WITH_RDMA_WRITE.into(),
            ..ibv_qp_init_attr_ex::zeroed()
        };
        let verbs = context.byte_sub(std::mem::offset_of!(verbs_context, context)).cast::<verbs_context>();
        let qp = (*verbs).create_qp_ex.unwrap()(context, &mut attr);
        assert!(!qp.is_null());
        connect(qp);
        let sge = ibv_sge { addr: memory.as_ptr() as u64, length: 8, lkey: (*mr).lkey };
        let card = doorbells.completer(0, (*qp).qp_num, (*cq).handle);
        let (wrs, receives) = (vec![ibv_send_wr::zeroed(); ENTRIES], vec![ibv_recv_wr::zeroed(); ENTRIES]);
        let done = vec![ibv_wc::zeroed(); ENTRIES];
        Rig { card, context, cq, qp, ex: ibv_qp_to_qp_ex(qp), sge, wrs, receives, done }
    }
}

/// Takes it to RTS; its peer is itself.
///
/// # Safety
/// The queue pair lives.
unsafe fn connect(qp: *mut ibv_qp) {
    let mut attr = ibv_qp_attr {
        qp_state: IBV_QPS_INIT,
        port_num: 1,
        path_mtu: IBV_MTU_1024,
        // SAFETY: as promised.
        dest_qp_num: unsafe { (*qp).qp_num },
        max_dest_rd_atomic: 1,
        max_rd_atomic: 1,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        ..ibv_qp_attr::zeroed()
    };
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid.raw = std::net::Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().octets();
    for (state, mask) in [
        (IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        (
            IBV_QPS_RTR,
            IBV_QP_AV
                | IBV_QP_PATH_MTU
                | IBV_QP_DEST_QPN
                | IBV_QP_RQ_PSN
                | IBV_QP_MAX_DEST_RD_ATOMIC
                | IBV_QP_MIN_RNR_TIMER,
        ),
        (
            IBV_QPS_RTS,
            IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
        ),
    ] {
        attr.qp_state = state;
        // SAFETY: as promised.
        assert_eq!(unsafe { ibv_modify_qp(qp, &mut attr, (IBV_QP_STATE | mask) as c_int) }, 0, "{state}");
    }
}

impl Rig {
    /// Functions behind inline functions of the headers.
    fn ops(&self) -> ibv_context_ops {
        // SAFETY: the context is open.
        unsafe { (*self.context).ops }
    }

    fn post<const COUNT: usize, const INLINE: bool>(&mut self) {
        let sge = ibv_sge { length: if INLINE { 16 } else { 8 }, ..self.sge };
        let mut next = null_mut();
        for wr in self.wrs[..COUNT].iter_mut().rev() {
            *wr = ibv_send_wr::zeroed();
            (wr.sg_list, wr.num_sge, wr.next) = (&raw const self.sge as *mut _, 1, next);
            if INLINE {
                wr.sg_list = &raw const sge as *mut _;
            }
            wr.opcode = IBV_WR_RDMA_WRITE;
            wr.send_flags = IBV_SEND_SIGNALED | if INLINE { IBV_SEND_INLINE } else { 0 };
            wr.wr.rdma.remote_addr = 0x1000;
            wr.wr.rdma.rkey = 0x101;
            next = wr;
        }
        let (post, qp) = (self.ops().post_send.unwrap(), self.qp);
        let mut bad = null_mut();
        // SAFETY: the list is valid.
        assert_eq!(counted(|| unsafe { post(black_box(qp), black_box(next), &mut bad) }), 0);
    }

    /// Takes up to `most` completions.
    fn poll(&mut self, most: usize) -> c_int {
        let (poll, cq, done) = (self.ops().poll_cq.unwrap(), self.cq, self.done.as_mut_ptr());
        // SAFETY: there is room for them.
        counted(|| unsafe { poll(black_box(cq), black_box(most as c_int), done) })
    }

    fn drain(&mut self) {
        let poll = self.ops().poll_cq.unwrap();
        // SAFETY: there is room for them.
        while unsafe { poll(self.cq, ENTRIES as c_int, self.done.as_mut_ptr()) } > 0 {}
    }
}

fn sends<const COUNT: usize, const INLINE: bool>(rig: &mut Rig) {
    rig.post::<COUNT, INLINE>();
    assert_eq!(rig.card.complete(false), COUNT);
    rig.drain();
}

fn series<const COUNT: usize>(rig: &mut Rig) {
    let (ex, sge) = (rig.ex, rig.sge);
    // SAFETY: the queue pair has these functions, and no other thread.
    let failed = counted(|| unsafe {
        (*ex).wr_start.unwrap()(ex);
        for number in 0..black_box(COUNT as u64) {
            (*ex).wr_id = number;
            (*ex).wr_flags = IBV_SEND_SIGNALED;
            (*ex).wr_rdma_write.unwrap()(ex, 0x101, 0x1000);
            (*ex).wr_set_sge.unwrap()(ex, sge.lkey, sge.addr, sge.length);
        }
        (*ex).wr_complete.unwrap()(ex)
    });
    assert_eq!((failed, rig.card.complete(false)), (0, COUNT));
    rig.drain();
}

fn receives<const COUNT: usize>(rig: &mut Rig) {
    let mut next = null_mut();
    for wr in rig.receives[..COUNT].iter_mut().rev() {
        *wr = ibv_recv_wr { sg_list: &raw mut rig.sge, num_sge: 1, next, ..ibv_recv_wr::zeroed() };
        next = wr;
    }
    let (post, qp) = (rig.ops().post_recv.unwrap(), rig.qp);
    let mut bad = null_mut();
    // SAFETY: the list is valid.
    assert_eq!(counted(|| unsafe { post(black_box(qp), black_box(next), &mut bad) }), 0);
    assert_eq!(rig.card.complete(true), COUNT);
    rig.drain();
}

fn polls<const COUNT: usize, const MOST: usize>(rig: &mut Rig) {
    if COUNT > 0 {
        let sge = &raw mut rig.sge;
        let post = rig.ops().post_recv.unwrap();
        let mut bad = null_mut();
        for _ in 0..COUNT {
            let mut wr = ibv_recv_wr { sg_list: sge, num_sge: 1, ..ibv_recv_wr::zeroed() };
            // SAFETY: the list is valid.
            assert_eq!(unsafe { post(rig.qp, &mut wr, &mut bad) }, 0);
        }
        assert_eq!(rig.card.complete(true), COUNT);
    }
    assert_eq!(rig.poll(MOST), COUNT as c_int);
}

fn run(case: &Case) {
    let mut rig = rig();
    // What was made is taken over, once: one poll of it would be in the figures otherwise.
    sends::<1, false>(&mut rig);
    for _ in 0..ROUNDS {
        (case.run)(&mut rig);
    }
}

fn main() -> ExitCode {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");
    let command = "cargo bench -p ferrowire-verbs --bench instructions";
    Bench { cases: CASES, rounds: ROUNDS, recorded, command, run }.main()
}
