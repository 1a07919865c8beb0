// SPDX-License-Identifier: MIT OR Apache-2.0
//! A card's side without a thread: messages of peers go in one by one.

use std::sync::{Arc, Mutex};

use super::*;
use crate::link::Link;
use crate::mad::BYTES;
use crate::stack::Config;

/// The own address of all tests here.
pub(in crate::rdma) const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// A link on which no frame comes, with a clock that the test moves. It counts the frames that are sent.
#[derive(Clone, Default)]
pub(in crate::rdma) struct Still {
    pub(in crate::rdma) now: Arc<Mutex<Duration>>,
    pub(in crate::rdma) sent: Arc<Mutex<usize>>,
}

impl Link for Still {
    fn receive(&mut self, _: &mut [u8]) -> ferrowire::Result<Option<usize>> {
        Ok(None)
    }

    fn has_room(&mut self) -> ferrowire::Result<bool> {
        Ok(true)
    }

    fn send(&mut self, _: &[u8]) -> ferrowire::Result<()> {
        *self.sent.lock().unwrap() += 1;
        Ok(())
    }

    fn now(&self) -> Duration {
        *self.now.lock().unwrap()
    }
}

/// A stack on a link.
pub(in crate::rdma) fn stack(link: &Still, prefix_v4: u8) -> Net {
    let config = Config { prefix_v4, ..Config::default() };
    Net::over(Box::new(link.clone()), [2, 0, 0, 0, 0, 1], &[OWN], 1, config).unwrap()
}

/// A stack on a link where nothing happens.
pub(in crate::rdma) fn quiet() -> Net {
    stack(&Still::default(), 24)
}

/// QP1: what the test gives it, and what it has sent.
#[derive(Clone, Default)]
pub(in crate::rdma) struct Feed {
    pub(in crate::rdma) inbox: Arc<Mutex<VecDeque<(Path, Mad)>>>,
    pub(in crate::rdma) sent: Arc<Mutex<Vec<(IpAddr, Mad)>>>,
    random: u32,
}

impl Gsi for Feed {
    fn receive(&mut self) -> ferrowire::Result<Option<(Path, [u8; BYTES])>> {
        Ok(self.inbox.lock().unwrap().pop_front().map(|(path, mad)| (path, mad.to_bytes())))
    }

    fn send(&mut self, way: &AddressVector, mad: &[u8; BYTES]) -> ferrowire::Result<bool> {
        self.sent.lock().unwrap().push((way.dst_ip, Mad::parse(mad).unwrap()));
        Ok(true)
    }

    fn is_idle(&mut self) -> ferrowire::Result<bool> {
        Ok(true)
    }

    fn random(&mut self) -> ferrowire::Result<u32> {
        self.random += 1;
        Ok(self.random)
    }

    fn limits(&self) -> Limits {
        Limits { max_rd_atomic: 16, max_dest_rd_atomic: 8, max_mtu: PathMtu::B4096, atomics: true }
    }
}
