// SPDX-License-Identifier: MIT OR Apache-2.0
//! Regions with pages of 2 MiB and of 1 GiB that begin and end in the middle of a page, zero-based ones among them: what crosses from page
//! to page arrives, the last byte is within, and the one behind it is not (IBTA volume 1, 10.6.3). The pages of a region lie anywhere in bus
//! addresses, in no order. Host memory that nobody touches is never backed.

use ferrowire::{
    AccessFlags, HostMemory, LocalCause, MemoryRegion, PageSize, QueuePair, RecvWr, RemoteAddress, SendWr,
    Sge, WcStatus,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::host::{AccessKind, Host};
use ferrowire_sim::pair::{Connection, Node, Pair, PairOptions};
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

const CONFIGS: [&str; 2] = ["generic-8b", "generic-64b"];

/// Cycles for what a test waits for.
const LIMIT: u64 = 300_000;

/// How far a region reaches into its first and its last page: over several pages of 4 KiB, and no whole one.
const HEAD: usize = 12_345;
const TAIL: usize = 9_876;

/// A region of three pages, the first and the last of which it has in part.
struct Large {
    card: usize,
    memory: HostMemory,
    region: MemoryRegion,
}

impl Large {
    fn new(node: &Node, page: PageSize, zero_based: bool) -> Self {
        let bytes = page.bytes() as usize;
        // Allocated without an alignment, it is not touched.
        let all = HostMemory::zeroed(3 * bytes, 8).unwrap();
        let border = all.address().next_multiple_of(page.bytes()) - all.address();
        let border = border as usize + if (border as usize) < HEAD { bytes } else { 0 };
        let memory = all.slice(border - HEAD, HEAD + bytes + TAIL);
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE;
        let access = if zero_based { access | AccessFlags::ZERO_BASED } else { access };
        let region = node.pd.register(&memory, access, page).unwrap();
        let within = page.bytes() - HEAD as u64;
        assert_eq!(memory.address() % page.bytes(), within);
        assert_eq!(region.address(), if zero_based { within } else { memory.address() });
        Large { card: node.card, memory, region }
    }

    /// Runs that lie at the region's borders and at those of its pages, and cross them.
    fn runs(&self) -> Vec<(usize, usize)> {
        let (len, second) = (self.memory.len(), self.memory.len() - TAIL);
        let mut runs = vec![(0, 1), (0, 5000), (len - 1, 1), (len - 5000, 5000)];
        for border in [HEAD, second] {
            runs.extend([
                (border - 1, 1),
                (border, 1),
                (border - 1, 2),
                (border - 2000, 4000),
                (border - 4096, 8192),
            ]);
        }
        // In the middle of the whole page, over a border of 4 KiB.
        runs.push((HEAD + (second - HEAD) / 2 - 700, 1500));
        runs
    }

    /// Runs outside, as addresses: just behind the region, just before it, into the rest of its pages, and round the end of all addresses.
    fn outside(&self) -> Vec<(u64, u32)> {
        let (first, len) = (self.region.address(), self.memory.len() as u64);
        let end = first + len;
        vec![
            (end - 1, 2),
            (end, 1),
            (end - 3000, 3001),
            (first - 1, 1),
            (first - 1, 2),
            (end + 4096, 64),
            (first - 8192, 64),
            (!0, 2),
        ]
    }

    /// Fills a run with something new.
    fn fill(&self, (at, length): (usize, usize), rng: &mut SmallRng) -> Vec<u8> {
        let mut data = vec![0; length];
        rng.fill_bytes(&mut data);
        self.memory.write(at, &data);
        data
    }

    fn sge(&self, (at, length): (usize, usize)) -> Sge {
        self.region.sge(at, length as u32)
    }

    /// Since this was asked, the card has written these bytes to this run, each once, and apart from them just so many completions.
    #[track_caller]
    fn took(&self, pair: &Pair, (at, _): (usize, usize), data: &[u8], completions: usize, what: &str) {
        let mut world = pair.world.lock();
        world.check().unwrap();
        let host = world.card_mut(self.card).host_mut();
        assert_eq!((host.stats().reads_refused, host.stats().writes_refused), (0, 0), "{what}");
        let accesses = host.take_accesses();
        let host = world.card(self.card).host();
        let address = |at: usize| host.bus_address(self.memory.address() + at as u64).unwrap();
        let mut expected: Vec<_> = (at..).zip(data).map(|(at, byte)| (address(at), *byte)).collect();
        let mut all = Vec::new();
        for access in accesses {
            if let AccessKind::Write(data) = access.kind {
                all.extend((access.address..).zip(data));
            }
        }
        let borders = [0, HEAD, self.memory.len() - TAIL, self.memory.len()];
        let parts: Vec<_> =
            borders.windows(2).map(|part| host_run(host, &self.memory, part[0], part[1])).collect();
        let is_inside = |(address, _): &(u64, u8)| parts.iter().any(|part| part.contains(address));
        let (mut inside, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_inside);
        inside.sort_unstable();
        expected.sort_unstable();
        assert!(inside == expected, "{what}: {} bytes were written", inside.len());
        assert_eq!(others.len(), 32 * completions, "{what}: so many bytes were written elsewhere");
    }
}

/// A part of a memory that lies in one page, in bus addresses.
fn host_run(host: &Host, memory: &HostMemory, from: usize, to: usize) -> std::ops::Range<u64> {
    let first = host.bus_address(memory.address() + from as u64).unwrap();
    first..first + (to - from) as u64
}

fn connection() -> Connection {
    Connection { access: AccessFlags::REMOTE, rd_atomic: 4, ..Connection::default() }
}

fn post(qp: &mut QueuePair, wr: SendWr<'_>) {
    qp.start_post_send().post(&wr.signaled()).unwrap();
}

/// How the next request or receive of a card ended.
#[track_caller]
fn end(pair: &Pair, node: &Node, what: &str) -> (Option<WcStatus>, Option<LocalCause>) {
    match node.wait(&pair.world, 1, LIMIT) {
        Ok(done) => (done[0].status().known(), done[0].cause()),
        Err(error) => panic!("{what}: {error}{}", pair.diagnose()),
    }
}

const WELL: (Option<WcStatus>, Option<LocalCause>) = (Some(WcStatus::Success), None);
const OUTSIDE: (Option<WcStatus>, Option<LocalCause>) =
    (Some(WcStatus::LocProtErr), Some(LocalCause::KeyBounds));

fn bench(config: &str, page: PageSize, zero_based: bool) -> (Pair, Large, Large) {
    let model = CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap();
    let pair = Pair::new(&model, &PairOptions::default()).unwrap();
    let (here, there) = (Large::new(&pair.a, page, zero_based), Large::new(&pair.b, page, zero_based));
    (0..2).for_each(|card| pair.world.lock().card_mut(card).host_mut().keep_accesses(true));
    (pair, here, there)
}

/// Each configuration with each kind of region.
fn kinds() -> impl Iterator<Item = (&'static str, PageSize, bool)> {
    let pages = [PageSize::Size2M, PageSize::Size1G];
    let kinds = pages.into_iter().flat_map(|page| [(page, false), (page, true)]);
    CONFIGS.into_iter().flat_map(move |config| kinds.clone().map(move |(page, based)| (config, page, based)))
}

/// What was written until now does not count.
fn forget(pair: &Pair) {
    (0..2).for_each(|card| drop(pair.world.lock().card_mut(card).host_mut().take_accesses()));
}

#[test]
fn what_crosses_the_borders_of_large_pages_arrives() {
    for (config, page, zero_based) in kinds() {
        let (pair, here, there) = bench(config, page, zero_based);
        let mut rng = SmallRng::seed_from_u64(1);
        let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
        forget(&pair);
        for run in here.runs() {
            let what = format!("{config}, {page:?}, zero based {zero_based}, {run:?}");
            let (sges, remote) = ([here.sge(run)], there.region.remote(run.0));
            let data = here.fill(run, &mut rng);
            post(&mut qp, SendWr::write(1, &sges, remote));
            assert_eq!(end(&pair, &pair.a, &what), WELL, "{what}");
            there.took(&pair, run, &data, 0, &format!("WRITE, {what}"));
            let data = there.fill(run, &mut rng);
            forget(&pair);
            post(&mut qp, SendWr::read(2, &sges, remote));
            assert_eq!(end(&pair, &pair.a, &what), WELL, "{what}");
            here.took(&pair, run, &data, 1, &format!("READ, {what}"));
            let data = here.fill(run, &mut rng);
            forget(&pair);
            peer.start_post_recv().post(&RecvWr::new(3, &[there.sge(run)])).unwrap();
            post(&mut qp, SendWr::send(3, &sges));
            assert_eq!(end(&pair, &pair.b, &what), WELL, "{what}");
            assert_eq!(end(&pair, &pair.a, &what), WELL, "{what}");
            there.took(&pair, run, &data, 1, &format!("SEND, {what}"));
        }
    }
}

#[test]
fn what_lies_outside_a_region_of_large_pages_is_refused_though_its_page_is_not() {
    for (config, page, zero_based) in kinds() {
        let (pair, here, there) = bench(config, page, zero_based);
        let run = (HEAD - 2000, 4000);
        let refused =
            |what: &str, card: usize, use_it: &dyn Fn(&mut QueuePair, &mut QueuePair), ends: [_; 2]| {
                let what = format!("{config}, {page:?}, zero based {zero_based}: {what}");
                let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
                forget(&pair);
                use_it(&mut qp, &mut peer);
                let [a, b] = ends;
                for (node, wanted) in [(&pair.b, b), (&pair.a, a)] {
                    if let Some(wanted) = wanted {
                        assert_eq!(end(&pair, node, &what), wanted, "{what}");
                    }
                }
                pair.world.lock().run(500);
                let completions = usize::from([a, b][card].is_some());
                [&here, &there][card].took(&pair, (0, 0), &[], completions, &what);
            };
        let by_peer = (Some(WcStatus::RemAccessErr), None);
        for (address, bytes) in there.outside() {
            let (remote, sges) =
                (RemoteAddress { address, rkey: there.region.rkey() }, [here.sge((run.0, bytes as usize))]);
            let what = format!("{bytes} bytes at {address:#x} of the peer");
            let write = |qp: &mut QueuePair, _: &mut QueuePair| post(qp, SendWr::write(1, &sges, remote));
            refused(&format!("WRITE of {what}"), 1, &write, [Some(by_peer), None]);
            let read = |qp: &mut QueuePair, _: &mut QueuePair| post(qp, SendWr::read(1, &sges, remote));
            refused(&format!("READ of {what}"), 0, &read, [Some(by_peer), None]);
        }
        for (address, bytes) in here.outside() {
            let (sges, remote) =
                ([Sge { address, lkey: here.region.lkey(), bytes }], there.region.remote(run.0));
            let what = format!("{bytes} bytes at {address:#x}");
            let write = |qp: &mut QueuePair, _: &mut QueuePair| post(qp, SendWr::write(1, &sges, remote));
            refused(&format!("WRITE from {what}"), 1, &write, [Some(OUTSIDE), None]);
            let read = |qp: &mut QueuePair, _: &mut QueuePair| post(qp, SendWr::read(1, &sges, remote));
            refused(&format!("READ into {what}"), 0, &read, [Some(OUTSIDE), None]);
        }
        for (address, bytes) in there.outside() {
            let (sges, own) =
                ([Sge { address, lkey: there.region.lkey(), bytes }], [here.sge((run.0, bytes as usize))]);
            let send = |qp: &mut QueuePair, peer: &mut QueuePair| {
                peer.start_post_recv().post(&RecvWr::new(1, &sges)).unwrap();
                post(qp, SendWr::send(1, &own));
            };
            let failed = (Some(WcStatus::RemOpErr), None);
            refused(
                &format!("receive of {bytes} bytes at {address:#x}"),
                1,
                &send,
                [Some(failed), Some(OUTSIDE)],
            );
        }
    }
}
