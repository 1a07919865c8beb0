// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two stacks on a cable in memory, each in its thread, with a clock that passes only while both are polled.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrowire::{PathMtu, Psn, RemoteAddress};
use ferrowire_net::{exchange, Config, Error, Link, LocalEnd, Net, TcpListener, TcpStream};

/// What passes while a side is polled once.
const TICK: Duration = Duration::from_micros(500);
const LIMIT: Duration = Duration::from_secs(60);

type Filter = Box<dyn FnMut(usize, &[u8]) -> bool + Send>;

struct Cable {
    /// On the way to each side.
    way: [VecDeque<Vec<u8>>; 2],
    polls: [u64; 2],
    /// Whether a frame of a side gets through.
    passes: Filter,
    sent: [usize; 2],
}

/// One side's end.
struct End {
    cable: Arc<Mutex<Cable>>,
    side: usize,
    /// Frames that it takes before it has no room, until it is polled next.
    room: usize,
    left: usize,
}

impl Link for End {
    fn receive(&mut self, frame: &mut [u8]) -> ferrowire::Result<Option<usize>> {
        let mut cable = self.cable.lock().unwrap();
        let came = cable.way[self.side].pop_front();
        if came.is_none() {
            cable.polls[self.side] += 1;
            self.left = self.room;
        }
        Ok(came.map(|came| {
            frame[..came.len()].copy_from_slice(&came);
            came.len()
        }))
    }

    fn has_room(&mut self) -> ferrowire::Result<bool> {
        if self.left == 0 {
            // The card has sent what there was.
            self.left = self.room;
            return Ok(false);
        }
        Ok(true)
    }

    fn send(&mut self, frame: &[u8]) -> ferrowire::Result<()> {
        assert!(self.left > 0, "nothing is sent without room");
        self.left -= 1;
        let mut cable = self.cable.lock().unwrap();
        cable.sent[self.side] += 1;
        if (cable.passes)(self.side, frame) {
            // As Ethernet has it, padded.
            let mut frame = frame.to_vec();
            frame.resize(frame.len().max(60), 0);
            cable.way[1 - self.side].push_back(frame);
        }
        Ok(())
    }

    fn now(&self) -> Duration {
        let cable = self.cable.lock().unwrap();
        TICK * cable.polls[0].min(cable.polls[1]).try_into().unwrap()
    }
}

/// Who has gone does not hold the clock.
impl Drop for End {
    fn drop(&mut self) {
        self.cable.lock().unwrap().polls[self.side] = 1 << 31;
    }
}

fn ip(side: usize, ipv6: bool) -> IpAddr {
    match ipv6 {
        false => [10, 0, 0, 1 + side as u8].into(),
        true => [0xfd00, 0, 0, 0, 0, 0, 0, 1 + side as u16].into(),
    }
}

fn mac(side: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, side as u8]
}

fn pair_with(room: usize, config: &Config, passes: Filter) -> ([Net; 2], Arc<Mutex<Cable>>) {
    let cable = Cable { way: Default::default(), polls: [0; 2], passes, sent: [0; 2] };
    let cable = Arc::new(Mutex::new(cable));
    let net = |side| {
        let end = End { cable: Arc::clone(&cable), side, room, left: room };
        let own = [ip(side, false), ip(side, true)];
        Net::over(Box::new(end), mac(side), &own, 77 + side as u64, config.clone()).unwrap()
    };
    ([net(0), net(1)], Arc::clone(&cable))
}

/// Runs both sides until each has ended; who has ended first still answers.
fn run<A: Send, B: Send>(
    [a, b]: [Net; 2],
    here: impl FnOnce(Net) -> A + Send,
    there: impl FnOnce(Net) -> B + Send,
) -> (A, B) {
    let left = Arc::new(Mutex::new(2));
    let ended = |net: Net, left: Arc<Mutex<u32>>| {
        *left.lock().unwrap() -= 1;
        while *left.lock().unwrap() > 0 {
            net.poll().unwrap();
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        let other = Arc::clone(&left);
        let b = scope.spawn(move || {
            let done = there(b.clone());
            ended(b, other);
            done
        });
        let done = here(a.clone());
        ended(a, left);
        (done, b.join().unwrap())
    })
}

fn pair() -> [Net; 2] {
    pair_with(16, &Config::default(), Box::new(|_, _| true)).0
}

#[test]
fn neighbours_are_found_and_echoes_come_back_in_both_families() {
    let here = |net: Net| {
        for ipv6 in [false, true] {
            assert_eq!(net.resolve(ip(1, ipv6)).unwrap(), mac(1));
            assert_eq!(net.resolve(ip(0, ipv6)).unwrap(), mac(0), "its own");
            let way = net.address_vector(ip(1, ipv6)).unwrap();
            assert_eq!((way.src_ip, way.dst_ip, way.dst_mac), (ip(0, ipv6), ip(1, ipv6), mac(1)));
            for bytes in [0, 1, 56, 1400] {
                let took = net.ping(ip(1, ipv6), bytes, LIMIT).unwrap();
                assert!(took > Duration::ZERO && took < Duration::from_millis(50), "{took:?}");
            }
        }
    };
    run(pair(), here, |_| ());
}

#[test]
fn who_is_not_there_is_asked_for_as_often_as_told() {
    let config = Config { neighbour_tries: 3, ..Config::default() };
    let (nets, cable) = pair_with(16, &config, Box::new(|_, _| true));
    let errors = run(nets, |net| [false, true].map(|ipv6| net.resolve(ip(8, ipv6)).unwrap_err()), |_| ()).0;
    for error in &errors {
        assert!(matches!(error, Error::Unresolved { tries: 3, .. }), "{error}");
    }
    assert_eq!(cable.lock().unwrap().sent, [6, 0]);
}

#[test]
fn a_lost_answer_is_asked_for_again() {
    for ipv6 in [false, true] {
        let mut answers = 0;
        let lossy = move |side: usize, _: &[u8]| {
            answers += usize::from(side == 1);
            side == 0 || answers > 2
        };
        let (nets, cable) = pair_with(16, &Config::default(), Box::new(lossy));
        run(nets, |net| assert_eq!(net.resolve(ip(1, ipv6)).unwrap(), mac(1)), |_| ());
        assert_eq!(cable.lock().unwrap().sent, [3, 3], "two answers were lost");
    }
}

#[test]
fn packets_for_others_go_to_the_gateway_and_without_one_nowhere() {
    let gateway = Config { gateway_v4: Some([10, 0, 0, 2].into()), ..Config::default() };
    let nets = pair_with(16, &gateway, Box::new(|_, _| true)).0;
    let here = |net: Net| {
        assert_eq!(net.resolve([192, 168, 7, 7].into()).unwrap(), mac(1));
        let error = net.resolve("fd77::7".parse().unwrap()).unwrap_err();
        assert!(matches!(error, Error::NoRoute { .. }), "{error}");
    };
    run(nets, here, |_| ());
}

#[test]
fn a_family_without_an_address_is_named() {
    let (_, cable) = pair_with(16, &Config::default(), Box::new(|_, _| true));
    let end = End { cable, side: 0, room: 1, left: 1 };
    let net = Net::over(Box::new(end), mac(0), &[ip(0, false)], 1, Config::default()).unwrap();
    let error = net.resolve(ip(1, true)).unwrap_err();
    assert!(matches!(error, Error::NoAddress { .. }), "{error}");
}

#[test]
fn bytes_pass_over_tcp_in_both_directions_with_little_room_and_with_loss() {
    for (room, one_in) in [(1, usize::MAX), (16, usize::MAX), (16, 41)] {
        for ipv6 in [false, true] {
            let mut n = 0;
            let lossy = move |_: usize, frame: &[u8]| {
                // What carries no TCP has retries of its own.
                let tcp = frame.len() > 60;
                n += usize::from(tcp);
                !tcp || n % one_in != 0
            };
            let nets = pair_with(room, &Config::default(), Box::new(lossy)).0;
            let data: Vec<u8> = (0..100_000usize).map(|i| (i * 7 + i / 251) as u8).collect();
            let there = |net: Net| {
                let mut stream = TcpListener::bind(&net, 4000).unwrap().accept(LIMIT).unwrap();
                stream.set_timeout(LIMIT);
                let mut came = vec![0; data.len()];
                stream.read_exact(&mut came).unwrap();
                assert!(came == data);
                came.reverse();
                stream.write_all(&came).unwrap();
                stream.flush().unwrap();
            };
            let here = |net: Net| {
                let mut stream = TcpStream::connect(&net, SocketAddr::new(ip(1, ipv6), 4000), LIMIT).unwrap();
                stream.set_timeout(LIMIT);
                stream.write_all(&data).unwrap();
                let mut back = Vec::new();
                stream.read_to_end(&mut back).unwrap();
                back.reverse();
                assert!(back == data);
            };
            run(nets, here, there);
        }
    }
}

#[test]
fn where_nobody_listens_a_connection_is_refused_and_who_says_nothing_is_not_waited_for() {
    let there = |net: Net| {
        let mut listener = TcpListener::bind(&net, 4000).unwrap();
        let error = TcpListener::bind(&net, 4000).unwrap_err();
        assert!(matches!(error, Error::PortInUse(4000)), "{error}");
        let mut stream = listener.accept(LIMIT).unwrap();
        stream.set_timeout(Duration::from_millis(100));
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let error = listener.accept(Duration::from_millis(100)).unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
    };
    let here = |net: Net| {
        let silent = TcpStream::connect(&net, SocketAddr::new(ip(1, false), 4000), LIMIT).unwrap();
        let error = TcpStream::connect(&net, SocketAddr::new(ip(1, false), 4001), LIMIT).unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error}");
        silent
    };
    run(pair(), here, there);
}

#[test]
fn ends_are_exchanged_over_the_stack() {
    let end = |side: usize| LocalEnd {
        qpn: 5 + side as u32,
        psn: Psn::new(9),
        ip: ip(side, true),
        memory: RemoteAddress { address: 1 << 40, rkey: 3 },
        bytes: 4096,
        path_mtu: PathMtu::B4096,
        rd_atomic: 1,
        selective: 0,
    };
    let there = |net: Net| {
        let mut stream = TcpListener::bind(&net, 18515).unwrap().accept(LIMIT).unwrap();
        exchange(&mut stream, &end(1)).unwrap()
    };
    let here = |net: Net| {
        let mut stream = TcpStream::connect(&net, SocketAddr::new(ip(1, true), 18515), LIMIT).unwrap();
        exchange(&mut stream, &end(0)).unwrap()
    };
    assert_eq!(run(pair(), here, there), (end(1), end(0)));
}
