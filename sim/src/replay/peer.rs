// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Peer`]: the other end of a case, played from its capture.
//!
//! It keeps to the order of the capture: a frame goes out when the card has sent as many frames as stand before it there.
//! So an answer never comes before its request, and a retransmission not before the NAK that asked for it. It knows
//! nothing of time and wires; whoever drives it paces what it sends.

use super::trace::Trace;

/// The other end.
pub struct Peer<'a> {
    trace: &'a Trace,
    /// Next frame of the capture, of either end.
    next: usize,
    /// Frames of the card that the capture has not come to yet.
    ahead: usize,
}

impl<'a> Peer<'a> {
    /// Plays the frames of `trace` that are not the card's.
    pub fn new(trace: &'a Trace) -> Self {
        Self { trace, next: 0, ahead: 0 }
    }

    /// The card has sent another frame.
    pub fn card_sent(&mut self) {
        self.ahead += 1;
    }

    /// The next frame for the card, as captured, if its turn has come.
    pub fn send(&mut self) -> Option<&'a [u8]> {
        while let Some(frame) = self.trace.frames.get(self.next) {
            if !frame.of_card {
                self.next += 1;
                return Some(&frame.bytes);
            }
            if self.ahead == 0 {
                return None;
            }
            self.ahead -= 1;
            self.next += 1;
        }
        None
    }

    /// Whether the capture is at its end, the card's frames included.
    pub fn is_done(&self) -> bool {
        let rest = &self.trace.frames[self.next..];
        rest.len() <= self.ahead && rest.iter().all(|frame| frame.of_card)
    }

    /// Number in the capture of the frame that it waits to send.
    pub fn waits_for_turn(&self) -> Option<usize> {
        self.trace.frames[self.next..].iter().find(|frame| !frame.of_card).map(|frame| frame.number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::Captured;
    use super::*;

    /// `c` is a frame of the card, a digit one of the peer.
    fn trace(text: &str) -> Trace {
        let frame =
            |(i, c): (usize, char)| Captured { number: i + 1, of_card: c == 'c', bytes: vec![c as u8] };
        Trace { frames: text.chars().enumerate().map(frame).collect() }
    }

    #[test]
    fn frames_go_out_when_the_cards_frames_before_them_have_come() {
        let trace = trace("12cc3c4");
        let mut peer = Peer::new(&trace);
        let mut log = String::new();
        let mut drain = |peer: &mut Peer<'_>| {
            while let Some(frame) = peer.send() {
                log.push(frame[0] as char);
            }
            log.push(' ');
        };
        drain(&mut peer);
        for _ in 0..3 {
            peer.card_sent();
            drain(&mut peer);
        }
        assert!(peer.is_done());
        assert_eq!(log, "12  3 4 ");
    }

    #[test]
    fn it_is_done_only_when_the_cards_last_frame_has_come_too() {
        let trace = trace("1cc");
        let mut peer = Peer::new(&trace);
        assert!(!peer.is_done());
        assert_eq!(peer.waits_for_turn(), Some(1));
        peer.send();
        assert_eq!(peer.waits_for_turn(), None);
        peer.card_sent();
        assert!(!peer.is_done());
        peer.card_sent();
        assert!(peer.is_done());
        assert_eq!(peer.send(), None);
    }

    #[test]
    fn what_the_card_sends_early_counts_when_its_turn_comes() {
        let trace = trace("c1c2");
        let mut peer = Peer::new(&trace);
        peer.card_sent();
        peer.card_sent();
        assert_eq!((peer.send(), peer.send(), peer.send()), (Some(&b"1"[..]), Some(&b"2"[..]), None));
    }
}
