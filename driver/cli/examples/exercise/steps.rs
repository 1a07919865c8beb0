// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of steps: what is asked of whom, and how it ends.

use ferrowire::{AccessFlags, Service, WcStatus};

/// What a request does. Where in the peer's memory, follows from its place in the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// SEND.
    Send,
    /// SEND with immediate.
    SendImm,
    /// Invalidates the key of the window that the peer has bound.
    SendInv,
    /// RDMA WRITE.
    Write,
    /// The same with immediate.
    WriteImm,
    /// RDMA READ.
    Read,
    /// Compare and swap.
    CompareSwap {
        /// With the value that is there.
        hits: bool,
    },
    /// Fetch and add.
    FetchAdd,
}

impl What {
    /// Takes a receive of the peer.
    pub fn takes_receive(self) -> bool {
        matches!(self, What::Send | What::SendImm | What::SendInv | What::WriteImm)
    }

    /// Its bytes go to that receive.
    pub fn is_send(self) -> bool {
        matches!(self, What::Send | What::SendImm | What::SendInv)
    }
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// All is right.
    Nothing,
    /// The key has another tag.
    Key,
    /// The last byte is behind the peer's memory.
    Bounds,
    /// The address of an atomic is odd.
    Unaligned,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What it does.
    pub what: What,
    /// Bytes of each piece of its own memory.
    pub pieces: Vec<u32>,
    /// These are those of the request before it.
    pub same: bool,
    /// As those of [`Request`](crate::side::Request), and so the three behind it.
    pub inline: bool,
    /// See there.
    pub signaled: bool,
    /// See there.
    pub solicited: bool,
    /// See there.
    pub fence: bool,
    /// By the key of the window that the peer has bound.
    pub window: bool,
    /// What the peer finds wrong with it.
    pub wrong: Wrong,
}

impl Ask {
    /// Its length.
    pub fn bytes(&self) -> u32 {
        self.pieces.iter().sum()
    }
}

/// How a request ends that cannot end well, and its queue pairs.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The first that fails; those behind it are flushed.
    pub at: usize,
    /// How that one ends.
    pub status: WcStatus,
    /// How the first receive of the peer ends that no request has taken before.
    pub receive: WcStatus,
    /// Whether the peer's queue pair is then in error, too.
    pub both: bool,
}

/// What comes of a step.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    /// All requests do what they say.
    Well,
    /// As the specification has it.
    Fails(Failure),
    /// Where soft-RoCE answers, it is the second: why is in docs/src/interop.md.
    FailsOtherwiseByLinux(Failure, Failure),
    /// Where libibverbs asks, it does not take the request that fails, nor what is behind it.
    NotPostedByLinux(Failure),
}

/// A step: requests of one side, and what the other one is like.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its name, which no other one has.
    pub name: String,
    /// Of both queue pairs.
    pub service: Service,
    /// Path MTU in bytes.
    pub mtu: u32,
    /// The requests, in their order.
    pub asks: Vec<Ask>,
    /// Receives of the peer, each with the bytes of its pieces. Of datagrams they do not count the GRH.
    pub receives: Vec<Vec<u32>>,
    /// Posted only when the requests have met none.
    pub late: bool,
    /// What the peer's queue pair allows.
    pub qp_rights: AccessFlags,
    /// What its memory allows.
    pub mr_rights: AccessFlags,
    /// Retries of the requester where there is no receive; 7: for ever.
    pub rnr_retry: u8,
    /// The peer's queue pair is another one.
    pub nobody: bool,
    /// The peer takes the window's rights back before the requests.
    pub taken_back: bool,
    /// The peer waits for an event of a solicited message.
    pub event: bool,
    /// What comes of it.
    pub ending: Ending,
}

/// Everything that peers may do.
const ALL: AccessFlags = AccessFlags::REMOTE;

/// A request that goes well.
pub fn ask(what: What, pieces: &[u32]) -> Ask {
    Ask {
        what,
        pieces: pieces.to_vec(),
        same: false,
        inline: false,
        signaled: true,
        solicited: false,
        fence: false,
        window: false,
        wrong: Wrong::Nothing,
    }
}

/// A step that ends well, with the receives that its requests take.
pub fn step(name: impl Into<String>, service: Service, mtu: u32, asks: Vec<Ask>) -> Step {
    let takes = asks.iter().filter(|ask| ask.what.takes_receive());
    let receives = takes.map(|ask| if ask.what.is_send() { vec![ask.bytes()] } else { Vec::new() });
    Step {
        name: name.into(),
        service,
        mtu,
        receives: receives.collect(),
        asks,
        late: false,
        qp_rights: ALL,
        mr_rights: AccessFlags::LOCAL_WRITE | AccessFlags::MW_BIND | ALL,
        rnr_retry: 7,
        nobody: false,
        taken_back: false,
        event: false,
        ending: Ending::Well,
    }
}

impl Step {
    /// Ends with a message that takes a receive: when that is complete, all before it can be seen (IBTA 10.8.5).
    fn told(mut self) -> Step {
        self.asks.push(ask(What::Send, &[]));
        self.receives.push(Vec::new());
        self
    }

    fn received_in(self, receives: &[&[u32]]) -> Step {
        Step { receives: receives.iter().map(|pieces| pieces.to_vec()).collect(), ..self }
    }

    /// The same for a wire that loses frames: a READ or atomic of which the answer is lost comes again, and needs its key until it is answered.
    pub fn lossy(mut self) -> Step {
        let ends_a_key = self.asks.iter_mut().filter(|ask| ask.what == What::SendInv);
        ends_a_key.for_each(|ask| ask.fence = true);
        self
    }

    /// The request at `at` fails, and what is behind it is flushed; so is what the peer has posted, whose queue pair is in error.
    fn fails(self, at: usize, status: WcStatus) -> Step {
        let failure = Failure { at, status, receive: WcStatus::WrFlushErr, both: true };
        Step { ending: Ending::Fails(failure), ..self }
    }
}

/// The steps of one direction.
pub fn steps() -> Vec<Step> {
    let mut all = Vec::new();
    messages(&mut all);
    pieces(&mut all);
    flags(&mut all);
    windows(&mut all);
    not_ready(&mut all);
    refused(&mut all);
    all
}

/// Every verb, with lengths round the path MTU.
fn messages(all: &mut Vec<Step>) {
    use What::*;
    let rc: &[(&str, What)] =
        &[("send", Send), ("send-imm", SendImm), ("write", Write), ("write-imm", WriteImm), ("read", Read)];
    let (uc, ud) = (&rc[..4], &rc[..2]);
    for (service, word, verbs) in [(Service::Rc, "rc", rc), (Service::Uc, "uc", uc), (Service::Ud, "ud", ud)]
    {
        for mtu in [256, 1024, 4096] {
            let mut lengths = vec![0, 1, mtu - 1, mtu];
            match service {
                // A datagram's MTU is the port's (IBTA 9.8.3).
                Service::Ud if mtu != 4096 => continue,
                Service::Ud => {}
                _ => lengths.extend([mtu + 1, 3 * mtu - 5]),
            }
            for (verb, what) in verbs {
                let asks = lengths.iter().map(|bytes| ask(*what, &[*bytes])).collect();
                let step = step(format!("{word}-{verb}-{mtu}"), service, mtu, asks);
                all.push(if what.is_send() { step } else { step.told() });
            }
        }
    }
    let swaps = [CompareSwap { hits: true }, CompareSwap { hits: false }];
    all.push(
        step("rc-compare-swap", Service::Rc, 1024, swaps.iter().map(|what| ask(*what, &[8])).collect())
            .told(),
    );
    all.push(step("rc-fetch-add", Service::Rc, 1024, vec![ask(FetchAdd, &[8]), ask(FetchAdd, &[8])]).told());
    let mixed = [Write, Read, Send, FetchAdd, WriteImm, CompareSwap { hits: true }, Read, SendImm];
    let bytes = |what| if matches!(what, FetchAdd | CompareSwap { .. }) { 8 } else { 700 };
    let asks = mixed.iter().map(|what| ask(*what, &[bytes(*what)])).collect();
    all.push(step("rc-mixed", Service::Rc, 512, asks));
}

/// Lists of several pieces, none of which is even.
fn pieces(all: &mut Vec<Step>) {
    use What::*;
    for (service, word) in [(Service::Rc, "rc"), (Service::Uc, "uc")] {
        let asks = vec![ask(Send, &[1, 3, 257, 1023, 5]), ask(SendImm, &[1289]), ask(Send, &[511, 0, 7])];
        all.push(step(format!("{word}-send-pieces"), service, 256, asks).received_in(&[
            &[7, 1200, 1, 81],
            &[3, 5, 1281],
            &[1, 0, 1, 600],
        ]));
    }
    let read = vec![ask(Read, &[3, 301, 1, 1025]), ask(Write, &[1, 255, 1026, 3]), ask(WriteImm, &[9, 9])];
    all.push(step("rc-one-sided-pieces", Service::Rc, 256, read));
    let atomics = vec![ask(FetchAdd, &[3, 5]), ask(CompareSwap { hits: true }, &[1, 6, 1])];
    all.push(step("rc-atomic-pieces", Service::Rc, 1024, atomics).told());
    let datagrams = vec![ask(Send, &[1, 2, 1021]), ask(SendImm, &[77])];
    all.push(step("ud-send-pieces", Service::Ud, 4096, datagrams).received_in(&[&[1000, 1, 23], &[3, 100]]));
}

/// Inline data, fences, requests without completions, solicited events.
fn flags(all: &mut Vec<Step>) {
    use What::*;
    let inline = |what, bytes| Ask { inline: true, ..ask(what, &[bytes]) };
    let asks =
        vec![inline(Send, 1), inline(SendImm, 15), inline(Write, 33), inline(WriteImm, 128), inline(Send, 0)];
    all.push(step("rc-inline", Service::Rc, 256, asks));
    all.push(step("uc-inline", Service::Uc, 256, vec![inline(Write, 100), inline(Send, 99)]));
    all.push(step("ud-inline", Service::Ud, 4096, vec![inline(Send, 65), inline(SendImm, 128)]));
    // What is sent is what was read before it (IBTA 10.8.3.3).
    let fenced = |what| Ask { same: true, fence: true, ..ask(what, &[2000]) };
    all.push(step("rc-fence", Service::Rc, 512, vec![ask(Read, &[2000]), fenced(Send)]));
    all.push(step("rc-fence-write", Service::Rc, 512, vec![ask(Read, &[2000]), fenced(Write)]).told());
    let silent = |what, bytes| Ask { signaled: false, ..ask(what, &[bytes]) };
    let asks = vec![
        silent(Send, 300),
        silent(Write, 301),
        silent(Read, 302),
        silent(WriteImm, 303),
        ask(Send, &[304]),
    ];
    all.push(step("rc-unsignalled", Service::Rc, 256, asks));
    for (name, solicited) in [("rc-solicited", true), ("rc-not-solicited", false)] {
        let asks = vec![ask(Send, &[10]), Ask { solicited, ..ask(Send, &[20]) }];
        all.push(Step { event: true, ..step(name, Service::Rc, 256, asks) });
    }
}

/// Windows of type 2, and how their rights end: by SEND with invalidate, and by their owner.
fn windows(all: &mut Vec<Step>) {
    use What::*;
    let through = |what, bytes| Ask { window: true, ..ask(what, &[bytes]) };
    let used = vec![through(Write, 600), through(Read, 601), through(FetchAdd, 8), ask(SendInv, &[602])];
    all.push(step("rc-window-send-inv", Service::Rc, 256, used));
    let late = vec![ask(SendInv, &[0]), through(Write, 4), ask(Send, &[4])];
    all.push(step("rc-window-after-inv", Service::Rc, 256, late).fails(1, WcStatus::RemAccessErr));
    let gone = vec![through(Read, 4), ask(Send, &[4])];
    all.push(Step {
        taken_back: true,
        ..step("rc-window-taken-back", Service::Rc, 256, gone).fails(0, WcStatus::RemAccessErr)
    });
}

/// Receives that come late or never, and a peer that is not there.
fn not_ready(all: &mut Vec<Step>) {
    use What::*;
    let messages = || vec![ask(Send, &[700]), ask(WriteImm, &[701]), ask(SendImm, &[702])];
    all.push(Step { late: true, ..step("rc-late-receives", Service::Rc, 256, messages()) });
    let alone = |status| Ending::Fails(Failure { at: 0, status, receive: WcStatus::WrFlushErr, both: false });
    let step = |name: &str| step(name, Service::Rc, 256, messages());
    all.push(Step {
        receives: Vec::new(),
        rnr_retry: 0,
        ending: alone(WcStatus::RnrRetryExcErr),
        ..step("rc-no-receives")
    });
    all.push(Step { nobody: true, ending: alone(WcStatus::RetryExcErr), ..step("rc-nobody") });
}

/// Requests that the peer must refuse.
fn refused(all: &mut Vec<Step>) {
    use What::*;
    let access = WcStatus::RemAccessErr;
    let verbs = [("write", Write, 300), ("read", Read, 300), ("atomic", FetchAdd, 8)];
    let requests = |what, bytes, wrong| {
        // Something before it that goes well, and something behind it that does not.
        vec![ask(Send, &[100]), Ask { wrong, ..ask(what, &[bytes]) }, ask(Send, &[100])]
    };
    for (verb, what, bytes) in verbs {
        for (word, wrong) in [("key", Wrong::Key), ("bounds", Wrong::Bounds)] {
            let asks = requests(what, bytes, wrong);
            all.push(step(format!("rc-{verb}-bad-{word}"), Service::Rc, 256, asks).fails(1, access));
        }
    }
    let rights = [AccessFlags::REMOTE_WRITE, AccessFlags::REMOTE_READ, AccessFlags::REMOTE_ATOMIC];
    for ((verb, what, bytes), right) in verbs.into_iter().zip(rights) {
        let asks = || requests(what, bytes, Wrong::Nothing);
        let closed = step(format!("rc-{verb}-closed-memory"), Service::Rc, 256, asks()).fails(1, access);
        all.push(Step { mr_rights: closed.mr_rights.without(right), ..closed });
        let closed = step(format!("rc-{verb}-closed-queue-pair"), Service::Rc, 256, asks());
        all.push(Step { qp_rights: ALL.without(right), ..closed.fails(1, WcStatus::RemInvReqErr) });
    }
    for (name, what) in [("swap", CompareSwap { hits: true }), ("add", FetchAdd)] {
        let asks = requests(what, 8, Wrong::Unaligned);
        // Such a request does not reach the wire (IBTA 9.4.5).
        let failure =
            Failure { at: 1, status: WcStatus::LocQpOpErr, receive: WcStatus::WrFlushErr, both: false };
        let ending = Ending::NotPostedByLinux(failure);
        all.push(Step { ending, ..step(format!("rc-{name}-unaligned"), Service::Rc, 256, asks) });
    }
    let long =
        step("rc-too-long", Service::Rc, 256, vec![ask(Send, &[100]), ask(Send, &[700]), ask(Send, &[5])]);
    let failure = |status, receive| Failure { at: 1, status, receive, both: true };
    let ending = Ending::FailsOtherwiseByLinux(
        failure(WcStatus::RemInvReqErr, WcStatus::LocLenErr),
        failure(WcStatus::RemOpErr, WcStatus::LocQpOpErr),
    );
    all.push(Step { ending, ..long.received_in(&[&[100], &[300, 399], &[5]]) });
}
