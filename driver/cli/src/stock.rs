// SPDX-License-Identifier: MIT OR Apache-2.0
//! The other side is `ibv_rc_pingpong`, `ibv_uc_pingpong`, `ibv_ud_pingpong` or `ibv_srq_pingpong` of rdma-core: what these tell each other beside the wire, and who they are on it.
//!
//! Each side tells LID, QP number, PSN and GID, the client first, as 52 bytes of text with a zero at the end; the server answers when it can receive, and the
//! client says `done` behind that. With a shared receive queue each tells 256 ends, of which those of its queue pairs come first. Neither tells its MAC address, sizes or counts, nor when it is through: it closes the connection and goes on.

use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use ferrowire_cards::gids::as_v6;
use ferrowire_net::{Config, Net};

use crate::card::Card;
use crate::failure::Failure;
use crate::side::{Channel, PATIENCE};

/// Bytes of an end as text, the zero among them.
const BYTES: usize = 52;
/// Ends that each side tells where receives are shared, however many queue pairs there are.
pub const SHARED_ENDS: usize = 256;
/// What the client says last, with a zero.
const DONE: &[u8; 5] = b"done\0";
/// How long this side stays when it has all: the card may owe an acknowledgement of the last message.
const LINGER: Duration = Duration::from_millis(200);
/// Between two looks at whether something came.
const LOOK: Duration = Duration::from_micros(200);

/// An end of a connection, as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// QP number.
    pub qpn: u32,
    /// First PSN.
    pub psn: u32,
    /// The address.
    pub ip: IpAddr,
}

impl End {
    fn to_bytes(self) -> [u8; BYTES] {
        let gid = as_v6(self.ip);
        let text = format!("{:04x}:{:06x}:{:06x}:{:032x}", 0, self.qpn, self.psn, u128::from(gid));
        let mut bytes = [0; BYTES];
        bytes[..BYTES - 1].copy_from_slice(text.as_bytes());
        bytes
    }

    fn parse(bytes: &[u8; BYTES]) -> Option<End> {
        let text = std::str::from_utf8(&bytes[..BYTES - 1]).ok()?;
        let mut fields = text.split(':');
        let mut field = |digits: usize| {
            let field = fields.next().filter(|field| field.len() == digits)?;
            u128::from_str_radix(field, 16).ok()
        };
        let (_lid, qpn, psn, gid) = (field(4)?, field(6)?, field(6)?, field(32)?);
        let ip = Ipv6Addr::from(gid).to_canonical();
        (bytes[BYTES - 1] == 0 && fields.next().is_none()).then_some(End {
            qpn: qpn as u32,
            psn: psn as u32,
            ip,
        })
    }
}

/// Whether what the client begins with is such an end, and no message of `ferrowire`: these have a length there that is no text.
///
/// # Errors
/// It says nothing, or is gone.
pub fn speaks(channel: &mut Channel) -> Result<bool, Failure> {
    let begin = channel.first_bytes(PATIENCE)?;
    Ok(begin.iter().all(u8::is_ascii_hexdigit))
}

/// The conversation with such a peer.
pub struct Stock<'a> {
    channel: &'a mut Channel,
    /// Answers who asks for this side's MAC address, and asks for the peer's.
    net: Net,
    /// Ends that each side tells.
    ends: usize,
}

impl<'a> Stock<'a> {
    /// At its beginning.
    ///
    /// # Errors
    /// The card has no raw Ethernet queue pair, or it is in use.
    pub fn new(card: &Card, channel: &'a mut Channel, shared: bool) -> Result<Self, Failure> {
        channel.treat_as_foreign();
        let ends = if shared { SHARED_ENDS } else { 1 };
        let config = Config { vlan: card.vlan, ..Config::default() };
        Ok(Self { channel, net: Net::new(&card.context, &card.pd, config)?, ends })
    }

    /// The connection, for waits.
    pub fn channel(&mut self) -> &mut Channel {
        self.channel
    }

    /// Is there for the peer's questions.
    ///
    /// # Errors
    /// The card fails.
    pub fn poll(&self) -> Result<(), Failure> {
        Ok(self.net.poll()?)
    }

    /// The MAC address of the peer.
    ///
    /// # Errors
    /// It does not answer.
    pub fn mac(&self, ip: IpAddr) -> Result<[u8; 6], Failure> {
        self.net.resolve(ip).map_err(|error| {
            let fix = "see whether the peer's GID (-g) is of the network that the cards' wire leads to";
            Failure::failed(format!("nobody on the wire is {ip}: {error}"), fix)
        })
    }

    /// Tells this side's ends.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn tell(&mut self, ends: &[End]) -> Result<(), Failure> {
        let nobody = End { qpn: 0, psn: 0, ip: Ipv6Addr::UNSPECIFIED.into() };
        let all = ends.iter().chain(std::iter::repeat(&nobody)).take(self.ends);
        let bytes: Vec<u8> = all.flat_map(|end| end.to_bytes()).collect();
        self.channel.send_bytes(&bytes, "it was told this side's end")
    }

    /// So many of the peer's ends, the first that it tells.
    ///
    /// # Errors
    /// It tells none, or is gone.
    pub fn hear(&mut self, count: usize) -> Result<Vec<End>, Failure> {
        let mut all = vec![0; BYTES * self.ends];
        self.read(&mut all, "its end was waited for")?;
        let ends = all.chunks_exact(BYTES).take(count).map(|bytes| {
            let end = bytes.try_into().ok().and_then(End::parse).filter(|end| end.qpn != 0);
            end.ok_or_else(|| {
                let what = format!("`{}` is no end of a queue pair", bytes.escape_ascii());
                Failure::failed(what, "start ibv_rc_pingpong or one of its brothers on the other side, with as many queue pairs")
            })
        });
        ends.collect()
    }

    /// The client has heard all, and says so.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn tell_done(&mut self) -> Result<(), Failure> {
        self.channel.send_bytes(DONE, "it was told that all was heard")
    }

    /// The client says so.
    ///
    /// # Errors
    /// It does not, or is gone.
    pub fn hear_done(&mut self) -> Result<(), Failure> {
        let mut done = [0; DONE.len()];
        self.read(&mut done, "its word that it heard all was waited for")?;
        match &done == DONE {
            true => Ok(()),
            false => {
                let what = format!("`{}` came in the place of `done`", done.escape_ascii());
                Err(Failure::failed(what, "start ibv_rc_pingpong or one of its brothers on the other side"))
            }
        }
    }

    /// Stays for what the card still has to say.
    ///
    /// # Errors
    /// The card fails.
    pub fn linger(&self) -> Result<(), Failure> {
        let end = Instant::now() + LINGER;
        while Instant::now() < end {
            self.poll()?;
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn read(&mut self, into: &mut [u8], doing: &str) -> Result<(), Failure> {
        // The peer may ask on the wire before it answers here.
        let end = Instant::now() + PATIENCE;
        while !self.channel.has_word() && Instant::now() < end {
            self.channel.pulse(doing)?;
            self.poll()?;
            std::thread::sleep(LOOK);
        }
        self.channel.read_bytes(into, end.saturating_duration_since(Instant::now()), doing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_written_and_read_as_rdma_core_does() {
        let v4 = End { qpn: 0x11, psn: 0xa7_7b3a, ip: [10, 0, 0, 2].into() };
        let text = b"0000:000011:a77b3a:00000000000000000000ffff0a000002\0";
        assert_eq!(&v4.to_bytes(), text);
        let v6 = End {
            qpn: 0xff_fffe,
            psn: 0,
            ip: Ipv6Addr::new(0xfe80, 0, 0, 0, 0x54, 0xff, 0xfe12, 0x3456).into(),
        };
        assert_eq!(&v6.to_bytes(), b"0000:fffffe:000000:fe80000000000000005400fffe123456\0");
        for end in [v4, v6] {
            assert_eq!(End::parse(&end.to_bytes()), Some(end));
        }
        // What others write differs in the LID alone.
        let mut lid = *text;
        lid[..4].copy_from_slice(b"12ef");
        assert_eq!(End::parse(&lid), Some(v4));
    }

    #[test]
    fn what_is_no_end_is_refused() {
        let right = End { qpn: 1, psn: 2, ip: [10, 0, 0, 1].into() }.to_bytes();
        for (at, byte) in
            [(0, b'g'), (4, b'0'), (11, b' '), (20, b'+'), (50, b':'), (51, b'0'), (7, 0), (9, 0xff)]
        {
            let mut wrong = right;
            wrong[at] = byte;
            assert_eq!(End::parse(&wrong), None, "{at}");
        }
    }

    #[test]
    fn such_a_peer_is_not_told_why_a_side_gives_up() {
        let (mut a, mut b) = Channel::pair().unwrap();
        a.treat_as_foreign();
        a.refuse("no card");
        drop(a);
        let ended = b.read_bytes(&mut [0; 1], PATIENCE, "it was listened to").unwrap_err().to_string();
        assert!(ended.contains("ended while"), "{ended}");
    }

    #[test]
    fn a_client_of_rdma_core_is_known_by_its_first_bytes() {
        let (mut client, mut server) = Channel::pair().unwrap();
        client.send_bytes(&End { qpn: 1, psn: 2, ip: [10, 0, 0, 1].into() }.to_bytes(), "test").unwrap();
        assert!(speaks(&mut server).unwrap());
        let mut bytes = [0; BYTES];
        server.read_bytes(&mut bytes, PATIENCE, "test").unwrap();
        assert!(End::parse(&bytes).is_some(), "looking takes nothing away");
        client.tell("pingpong", &1).unwrap();
        assert!(!speaks(&mut server).unwrap());
    }
}
