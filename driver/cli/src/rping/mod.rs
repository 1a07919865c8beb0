// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire rping`: rdma-core's `rping`, to which it speaks. The connection is made by the RDMA communication manager; all goes over the cards' wire.
//!
//! ```text
//!  client                                  server
//!    | --- SEND: where its data are ------> |
//!    | <-- RDMA READ of them -------------- |
//!    | <-- SEND: go on -------------------- |
//!    | --- SEND: where they shall go -----> |
//!    | <-- RDMA WRITE of what was read ---- |
//!    | <-- SEND: go on -------------------- |     and again, until the client disconnects
//! ```

mod talk;
mod words;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use ferrowire::{AccessFlags, MemoryRegion, PathMtu};
use ferrowire_net::cm::machine::Timing;
use ferrowire_net::mad::RejectReason;
use ferrowire_net::{Cm, CmConnection, CmListener, CmOptions, CmRequest, Config, Error, Net, RcOptions};
use serde_json::json;

use self::talk::{linger, End, Made, Talk};
use self::words::{difference, pattern, shown, Place, LEAST, MOST};
use crate::args::{parse_mtu, parse_size, Common};
use crate::card::{say_go_back_n, AddressArgs, Card, Clock};
use crate::device::Device;
use crate::failure::Failure;
use crate::twosided::Progress;
use crate::{inproc, out, stop};

/// Reads and writes back what the other side has, as rping, to which it speaks
///
/// Without an address it is the server, and waits for a client; with one it is the client. In each round the client tells where its data are, the server READs
/// them, the client tells where they shall go, and the server WRITEs them there.
///
/// The connection is made by the RDMA communication manager over the cards' wire, so the other side may be `rping` of rdma-core, unmodified, on a machine whose RDMA
/// device is on that wire; no other network is needed. Times of a simulated card are by the clock of that card.
#[derive(Args, Debug)]
#[command(after_help = "Examples, each on its side:\n  \
    ferrowire -d sim:ferrowire0.sock rping --ip 10.0.0.1 -V\n  \
    ferrowire -d sim:ferrowire1.sock rping --ip 10.0.0.2 10.0.0.1 -V -C 5 -S 5000\n\n\
    The other side is Linux, 10.0.0.2:\n  \
    ferrowire -d sim:card.sock rping --ip 10.0.0.1 -v -V              with: rping -c -a 10.0.0.1 -v -V -C 5\n  \
    ferrowire -d sim:card.sock rping --ip 10.0.0.1 10.0.0.2 -V -C 5   with: rping -s -a 10.0.0.2 -v")]
pub struct RpingArgs {
    /// Address of the server on the card's wire, IPv4 or IPv6; without it, this is the server
    #[arg(value_name = "ADDRESS")]
    server: Option<IpAddr>,
    /// Port of the communication manager (RDMA_PS_TCP); it is no TCP port of the host
    #[arg(short, long, visible_alias = "cm-port", default_value_t = 7174, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Rounds, 0: until a signal comes; 10 without it. A server that is told takes no other number for right
    #[arg(short = 'C', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(0..=i32::MAX as u64))]
    count: Option<u64>,
    /// Bytes of data in each round, 26 to 65535; 64 without it. Of a server: the most that it takes
    #[arg(short = 'S', long, value_name = "BYTES", value_parser = parse_bytes)]
    size: Option<u64>,
    /// Compare every byte: a client what came back, a server what it has read with rping's pattern
    #[arg(short = 'V', long)]
    validate: bool,
    /// Print the data of each round
    #[arg(short, long)]
    verbose: bool,
    /// Path MTU in bytes; the client's counts
    #[arg(short, long, default_value = "1024", value_parser = parse_mtu)]
    mtu: PathMtu,
    /// ACK time-out, 4.096 us times 2 to that power; the client's counts
    #[arg(short = 'u', long = "qp-timeout", value_name = "CODE", default_value_t = 14, value_parser = clap::value_parser!(u8).range(0..=31))]
    qp_timeout: u8,
    /// Send lost packets alone again, if both sides have this option and cards with the feature `selective`; go-back-N otherwise, and with rdma-core's rping
    #[arg(long)]
    selective: bool,
    /// Seconds that the other side may say nothing
    #[arg(short = 'W', long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    timeout: u32,
    /// The port's addresses.
    #[command(flatten)]
    addresses: AddressArgs,
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes @ LEAST..=MOST => Ok(bytes),
        bytes => Err(format!("{bytes} bytes: rping takes {LEAST} to {MOST}")),
    }
}

/// Rounds of a client that is told no number.
const ROUNDS: u64 = 10;

/// A second until a message of the manager is sent again: a guest's kernel may run on a slow machine.
const TIMING: Timing = Timing { response: 18, retries: 15, time_wait: 17, service: 22 };

/// How much faster the manager's clock is than that of a card in this process.
const FASTER: u32 = 1000;

/// Seconds for which the server's MAC address is asked for, at most.
const RESOLVE: u32 = 5;

/// How often a server looks whether it is to go on.
const LOOK: Duration = Duration::from_millis(200);

/// What came of it.
struct Tally {
    peer: IpAddr,
    rounds: u64,
    /// The most of a round.
    size: u64,
    ticks: u64,
    /// Both sides have agreed on selective retransmission.
    selective: bool,
}

/// Carries it out.
pub fn run(common: &Common, args: &RpingArgs) -> Result<(), Failure> {
    stop::listen();
    let device = &common.device()?;
    if let Device::InProcess(kind) = device {
        return in_process(common, args, device, *kind);
    }
    let card = Card::open(device, device.open()?, &args.addresses)?;
    card.check_selective(args.selective)?;
    let side = Side { common, args, card, speaks: true, speed: 1 };
    let cm = side.manager()?;
    match args.server {
        Some(server) => side.client(&cm, server),
        None => side.server(&cm, &cm.listen(args.port)?, || true),
    }
}

/// Both sides.
fn in_process(common: &Common, args: &RpingArgs, device: &Device, kind: inproc::Kind) -> Result<(), Failure> {
    if args.server.is_some() {
        return Err(Failure::usage("inproc has both sides in this process", "leave the address out"));
    }
    let (there, here) = inproc::pair(kind)?;
    let card = Card::open(device, there, &AddressArgs::default())?;
    card.check_selective(args.selective)?;
    let server = Side { common, args, card, speaks: false, speed: FASTER };
    let card = Card::open(device, here, &args.addresses)?;
    let client = Side { common, args, card, speaks: true, speed: FASTER };
    let (ip, listens, asks) = (server.card.ip, server.manager()?, client.manager()?);
    // Before the client asks.
    let listener = listens.listen(args.port)?;
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ended = &ended;
        let served =
            scope.spawn(move || server.server(&listens, &listener, || !ended.load(Ordering::Acquire)));
        let asked = client.client(&asks, ip);
        ended.store(true, Ordering::Release);
        let fault = || Failure::failed("the server's thread ended", "this is a fault of the command");
        asked.and(served.join().map_err(|_| fault())?)
    })
}

/// One side of a run.
struct Side<'a> {
    common: &'a Common,
    args: &'a RpingArgs,
    card: Card,
    /// Of two sides in one process, one prints.
    speaks: bool,
    /// How much faster the manager's clock is.
    speed: u32,
}

impl Side<'_> {
    /// The communication manager of the card.
    fn manager(&self) -> Result<Cm, Failure> {
        let tries = self.args.timeout.min(RESOLVE) * 2;
        let config = Config {
            speed: self.speed,
            neighbour_tries: tries,
            stop: stop::stopped,
            vlan: self.card.vlan,
            ..Config::default()
        };
        let net = Net::new(&self.card.context, &self.card.pd, config)?;
        Ok(Cm::new(&self.card.context, &self.card.pd, &net, TIMING)?)
    }

    fn silence(&self) -> Duration {
        Duration::from_secs(self.args.timeout.into())
    }

    fn options(&self) -> Result<CmOptions, Failure> {
        let rc = RcOptions {
            timeout: self.args.qp_timeout,
            rd_atomic: 1,
            selective: self.args.selective,
            ..RcOptions::default()
        };
        Ok(CmOptions {
            rc,
            path_mtu: self.card.path_mtu(self.args.mtu.bytes() as u32)?,
            ..CmOptions::default()
        })
    }

    /// Whether both sides have agreed on selective retransmission; says so if this one wishes it in vain.
    fn selective(&self, connection: &CmConnection) -> bool {
        let agreed = connection.selective();
        if self.speaks && self.args.selective && !agreed {
            say_go_back_n(connection.peer());
        }
        agreed
    }

    /// Text, where somebody wants it.
    fn say(&self, line: &str) -> Result<(), Failure> {
        match self.speaks && !self.common.json {
            true => out::line(line),
            false => Ok(()),
        }
    }

    /// What is said before the rounds.
    fn begin(&self, line: &str) -> Result<(), Failure> {
        self.say(line)?;
        self.card.clock_note().map_or(Ok(()), |note| self.say(&note))
    }

    /// A round's data, with `-v`.
    fn show(&self, what: &str, data: &[u8]) -> Result<(), Failure> {
        match self.args.verbose {
            true => self.say(&format!("{what}: {}", shown(data))),
            false => Ok(()),
        }
    }

    /// Compares, with `-V`.
    fn check(&self, round: u64, found: &[u8], right: &[u8]) -> Result<(), Failure> {
        let Some((at, found, right)) = difference(found, right).filter(|_| self.args.validate) else {
            return Ok(());
        };
        let what = format!("byte {at} of round {round} is {found:#04x}, {right:#04x} was expected");
        let fix = "see whether the other side is rping; otherwise report it: a card or the wire loses bytes";
        Err(Failure::failed(what, fix))
    }

    /// Asks a server, and pings it.
    fn client(&self, cm: &Cm, server: IpAddr) -> Result<(), Failure> {
        let size = self.args.size.unwrap_or(64) as usize;
        let source = self.card.region(size, AccessFlags::REMOTE_READ)?;
        let sink = self.card.region(size, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE)?;
        let (made, qp) = Made::new(&self.card, AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE)?;
        let to = SocketAddr::new(server, self.args.port);
        let connection = cm.connect(to, qp, &self.options()?, self.silence()).map_err(|error| {
            // The server need not wait for what does not come.
            let _ = linger(cm);
            refused(error, self.args.port)
        })?;
        self.begin(&format!("connected with {server} port {}: {size} bytes in each round", self.args.port))?;
        let count = self.args.count.unwrap_or(ROUNDS);
        let selective = self.selective(&connection);
        let mut talk = Talk::new(cm, connection, made, self.silence(), count == 0);
        let tally = Tally { peer: server, rounds: 0, size: size as u64, ticks: 0, selective };
        let asked = self.ask(&mut talk, count, tally, &source, &sink);
        let parted = talk.part();
        let tally = asked?;
        parted?;
        self.report(&tally, "client")
    }

    /// The client's rounds.
    fn ask(
        &self,
        talk: &mut Talk<'_>,
        count: u64,
        mut tally: Tally,
        source: &MemoryRegion,
        sink: &MemoryRegion,
    ) -> Result<Tally, Failure> {
        let size = tally.size as usize;
        let place = |region: &MemoryRegion| Place {
            address: region.address(),
            rkey: region.rkey(),
            bytes: size as u32,
        };
        let silent = !self.speaks || self.common.json || self.args.verbose;
        let mut progress = Progress::new(if silent { 0 } else { count });
        let start = self.card.now()?;
        // Without a count, a signal is the end.
        while if count == 0 { !stop::stopped() } else { tally.rounds < count } {
            let round = tally.rounds;
            let data = pattern(round, size);
            source.memory().write(0, &data);
            sink.memory().fill(0, size, 0);
            let exchanged = [place(source), place(sink)].into_iter().try_for_each(|place| {
                talk.say(place, "it was told where memory is")?;
                talk.hear("its word to go on was waited for").map(drop)
            });
            exchanged.map_err(|end| ended(end, talk.peer(), round))?;
            let mut back = vec![0; size];
            sink.memory().read(0, &mut back);
            self.check(round, &back, &data)?;
            self.show("ping data", &back)?;
            tally.rounds += 1;
            progress.at(tally.rounds);
        }
        tally.ticks = self.card.now()? - start;
        Ok(tally)
    }

    /// Waits for a client, as long as it is to `go_on`, and serves it.
    fn server(&self, cm: &Cm, listener: &CmListener, go_on: impl Fn() -> bool) -> Result<(), Failure> {
        let place = format!("{} port {}", self.card.ip, self.args.port);
        self.begin(&format!("{} listens on {place}; a signal ends it", self.card.name))?;
        let request = loop {
            match listener.accept(LOOK) {
                Ok(request) => break request,
                Err(Error::Timeout { .. }) if go_on() => {}
                Err(Error::Timeout { .. }) => return Ok(()),
                Err(error) => return Err(refused(error, self.args.port)),
            }
        };
        let served = self.serve(cm, request);
        if served.is_err() {
            // Who asked is told.
            let _ = linger(cm);
        }
        self.report(&served?, "server")
    }

    /// Serves a client to its end.
    fn serve(&self, cm: &Cm, request: CmRequest) -> Result<Tally, Failure> {
        let peer = request.peer();
        if request.param().initiator_depth == 0 {
            request.reject(RejectReason::Consumer, b"rping READs")?;
            let what = format!("{peer} asks for a connection over which nothing can be READ");
            return Err(Failure::failed(what, "start `rping` or `ferrowire rping` on the other side"));
        }
        let most = self.args.size.unwrap_or(MOST) as usize;
        let memory = self.card.region(most, AccessFlags::LOCAL_WRITE)?;
        // What others do is SEND.
        let (made, qp) = Made::new(&self.card, AccessFlags::LOCAL_READ)?;
        let connection =
            request.answer(qp, &self.options()?).map_err(|error| refused(error, self.args.port))?;
        self.say(&format!("{peer} has connected"))?;
        let selective = self.selective(&connection);
        let mut talk = Talk::new(cm, connection, made, self.silence(), false);
        let mut tally = Tally { peer, rounds: 0, size: 0, ticks: 0, selective };
        let served = self.answer(&mut talk, &mut tally, most, &memory);
        let parted = talk.part();
        served?;
        parted?;
        match self.args.count {
            Some(count @ 1..) if count != tally.rounds => Err(Failure::failed(
                format!("{peer} ended after {} rounds, {count} were expected", tally.rounds),
                "see what it says, and give -C on both sides alike",
            )),
            _ => Ok(tally),
        }
    }

    /// The server's rounds, until the client disconnects between two of them.
    fn answer(
        &self,
        talk: &mut Talk<'_>,
        tally: &mut Tally,
        most: usize,
        memory: &MemoryRegion,
    ) -> Result<(), Failure> {
        let peer = talk.peer();
        let mut start = 0;
        loop {
            let round = tally.rounds;
            let source = match talk.hear("its next round was waited for") {
                Ok(source) => source,
                Err(End::Peer(_)) if round > 0 => return Ok(()),
                Err(end) => return Err(ended(end, peer, round)),
            };
            if round == 0 {
                start = self.card.now()?;
            }
            let bytes = source.bytes as usize;
            if bytes == 0 || bytes > most {
                let what =
                    format!("{peer} offers {bytes} bytes in round {round}, this side takes 1 to {most}");
                return Err(Failure::failed(what, "give -S on both sides alike"));
            }
            let of_round = |end| ended(end, peer, round);
            talk.read(memory, source, "its data were read").map_err(of_round)?;
            let mut data = vec![0; bytes];
            memory.memory().read(0, &mut data);
            self.check(round, &data, &pattern(round, bytes))?;
            self.show("server ping data", &data)?;
            talk.say(Place::default(), "it was told to go on").map_err(of_round)?;
            let sink = talk.hear("the place for its data was waited for").map_err(of_round)?;
            if sink.bytes < source.bytes {
                let what = format!("{peer} has {} bytes of room for {bytes} in round {round}", sink.bytes);
                return Err(Failure::failed(what, "start `rping` or `ferrowire rping` on the other side"));
            }
            talk.write(memory, source.bytes, sink, "its data were written back").map_err(of_round)?;
            talk.say(Place::default(), "it was told to go on").map_err(of_round)?;
            tally.rounds += 1;
            tally.size = tally.size.max(bytes as u64);
            tally.ticks = self.card.now()? - start;
        }
    }

    fn report(&self, tally: &Tally, side: &str) -> Result<(), Failure> {
        if !self.speaks {
            return Ok(());
        }
        let card = &self.card;
        let Tally { peer, rounds, size, ticks, selective } = *tally;
        let seconds = card.clock.seconds(ticks);
        let usec = seconds * 1e6 / rounds.max(1) as f64;
        if self.common.json {
            return out::json(&json!({
                "device": card.name,
                "side": side,
                "peer": peer,
                "port": self.args.port,
                "rounds": rounds,
                "size": size,
                "validated": self.args.validate,
                "selective": selective,
                "clock": card.clock_name(),
                "cycles": (card.clock != Clock::Host).then_some(ticks),
                "seconds": seconds,
                "usec_per_round": usec,
            }));
        }
        let checked = if self.args.validate { ", every byte right" } else { "" };
        let digits = if seconds < 1.0 { 6 } else { 2 };
        out::line(&format!(
            "{rounds} rounds of {size} bytes with {peer} in {seconds:.digits$} seconds = {usec:.2} usec/round{checked}"
        ))
    }
}

/// How a conversation ended in the middle of a round.
fn ended(end: End, peer: IpAddr, round: u64) -> Failure {
    match end {
        End::Failed(failure) => failure,
        End::Peer(doing) => Failure::failed(
            format!("{peer} ended the connection in round {round}, while {doing}"),
            "see what it says, and start both sides again, the server first",
        ),
    }
}

/// Why there is no connection, and what to do.
fn refused(error: Error, port: u16) -> Failure {
    match error {
        Error::Stopped => Failure::Stopped,
        Error::Rejected { peer, reason } => {
            let fix = match reason {
                RejectReason::InvalidServiceId => {
                    "start the other side first, as `rping -s` or `ferrowire rping`, or give its port with -p"
                }
                RejectReason::StaleConnection => "try again in some seconds",
                RejectReason::InvalidMtu => "give a smaller -m",
                RejectReason::Consumer => {
                    "see what it says; a server that has a client already takes no other"
                }
                _ => "see what the other side says",
            };
            Failure::failed(format!("{peer} rejects the connection to port {port}: {reason}"), fix)
        }
        Error::Unresolved { peer, asked, tries, after } => Failure::failed(
            format!("nobody on the wire is {peer}: {asked} did not answer {tries} questions in {after:?}"),
            "see whether the other side runs, and whether its address is of the network that the card's wire leads to",
        ),
        Error::NoAddress { peer, .. } => Failure::failed(
            format!("the card has no address of the family of {peer}"),
            "give it one with --ip, or `ferrowire gids add`",
        ),
        Error::NoRoute { peer, .. } => Failure::failed(
            format!("{peer} is not of the network of the card's addresses, in which the first 24 bits of IPv4 and 64 of IPv6 are the same"),
            "give the card another address with --ip",
        ),
        Error::Timeout { peer, after, .. } => Failure::failed(
            format!("{peer} does not answer the communication manager within {after:?}"),
            "see whether a server runs there, as `rping -s` or `ferrowire rping`; -W waits longer",
        ),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_that_rping_takes() {
        assert_eq!(
            ["26", "64", "65535", "63K"].map(|text| parse_bytes(text).unwrap()),
            [26, 64, 65535, 64512]
        );
        for bad in ["0", "25", "65536", "64K", "x"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_reason_for_no_connection_says_what_to_do() {
        let peer: IpAddr = [10, 0, 0, 9].into();
        let said = |error| refused(error, 7174).to_string();
        let rejected = |code: u16| said(Error::Rejected { peer, reason: code.into() });
        assert_eq!(
            rejected(8),
            "10.0.0.9 rejects the connection to port 7174: nobody listens there (reason 8); start the other side first, as `rping -s` or `ferrowire rping`, or give its port with -p"
        );
        for (code, word) in
            [(10, "in some seconds"), (26, "smaller -m"), (28, "what it says"), (99, "reason 99")]
        {
            assert!(rejected(code).contains(word), "{code}: {}", rejected(code));
        }
        let after = Duration::from_secs(2);
        let unresolved = said(Error::Unresolved { peer, asked: peer, tries: 4, after });
        assert!(
            unresolved.contains("nobody on the wire is 10.0.0.9") && unresolved.contains("; see whether")
        );
        for (error, word) in [
            (Error::NoAddress { operation: "resolve", peer }, "--ip"),
            (Error::NoRoute { operation: "resolve", peer }, "--ip"),
            (Error::Timeout { operation: "connect to", peer, after }, "within 2s; see whether"),
            (Error::Gone { operation: "accept", peer }, "ask again"),
            (Error::Stopped, "stopped by a signal"),
        ] {
            let text = said(error);
            assert!(text.contains(word), "{text}");
        }
    }
}
