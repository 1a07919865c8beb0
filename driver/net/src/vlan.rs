// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Tagged`]: a VLAN of a link (IEEE 802.1Q): frames to it get the tag, and only those with it come from it, without.

use std::time::Duration;

use ferrowire_spec::wire::{eth, vlan};

use crate::link::Link;

/// Where a tag stands: behind both MAC addresses.
const AT: usize = eth::BYTES - 2;
/// Of a tag's control information the VLAN.
pub(crate) const VID: u16 = 0xfff;

/// A VLAN of a link.
pub(crate) struct Tagged {
    link: Box<dyn Link>,
    /// Tag control information: priority and VLAN.
    tci: u16,
    frame: Vec<u8>,
}

impl Tagged {
    /// In the VLAN, and with the priority, of a tag.
    pub(crate) fn new(link: Box<dyn Link>, tci: u16) -> Self {
        let longest = link.max_frame();
        Self { link, tci, frame: vec![0; longest] }
    }

    /// What a frame of this VLAN is without its tag: the bytes before it and those behind.
    fn untagged(&self, bytes: usize) -> Option<(&[u8], &[u8])> {
        let (front, rest) = self.frame[..bytes].split_at_checked(AT)?;
        let (tag, rest) = rest.split_at_checked(vlan::BYTES)?;
        let word = |at: usize| u16::from_be_bytes([tag[at], tag[at + 1]]);
        (word(0) == eth::ethertype::VLAN && (word(2) ^ self.tci) & VID == 0).then_some((front, rest))
    }
}

impl Link for Tagged {
    fn receive(&mut self, frame: &mut [u8]) -> ferrowire::Result<Option<usize>> {
        while let Some(bytes) = self.link.receive(&mut self.frame)? {
            if let Some((front, rest)) = self.untagged(bytes) {
                let rest = &rest[..rest.len().min(frame.len() - front.len())];
                frame[..AT].copy_from_slice(front);
                frame[AT..AT + rest.len()].copy_from_slice(rest);
                return Ok(Some(AT + rest.len()));
            }
        }
        Ok(None)
    }

    fn has_room(&mut self) -> ferrowire::Result<bool> {
        self.link.has_room()
    }

    fn room(&mut self) -> ferrowire::Result<usize> {
        self.link.room()
    }

    fn send(&mut self, frame: &[u8]) -> ferrowire::Result<()> {
        let (front, rest) = frame.split_at(AT.min(frame.len()));
        let tag = [eth::ethertype::VLAN.to_be_bytes(), self.tci.to_be_bytes()].concat();
        self.link.send(&[front, &tag, rest].concat())
    }

    fn arm(&mut self) -> ferrowire::Result<()> {
        self.link.arm()
    }

    fn turn(&mut self) -> ferrowire::Result<()> {
        self.link.turn()
    }

    fn max_frame(&self) -> usize {
        self.link.max_frame() - vlan::BYTES
    }

    fn now(&self) -> Duration {
        self.link.now()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What is sent comes back behind what is there already.
    #[derive(Clone, Default)]
    struct Loop(Arc<Mutex<VecDeque<Vec<u8>>>>);

    impl Link for Loop {
        fn receive(&mut self, frame: &mut [u8]) -> ferrowire::Result<Option<usize>> {
            let next = self.0.lock().unwrap().pop_front();
            Ok(next.map(|bytes| {
                frame[..bytes.len()].copy_from_slice(&bytes);
                bytes.len()
            }))
        }
        fn has_room(&mut self) -> ferrowire::Result<bool> {
            Ok(true)
        }
        fn send(&mut self, frame: &[u8]) -> ferrowire::Result<()> {
            self.0.lock().unwrap().push_back(frame.to_vec());
            Ok(())
        }
        fn now(&self) -> Duration {
            Duration::ZERO
        }
    }

    #[test]
    fn frames_have_the_tag_on_the_link_alone_and_those_of_others_do_not_come() {
        let wire = Loop::default();
        let mut tagged = Tagged::new(Box::new(wire.clone()), 0x6005);
        let frame: Vec<u8> = (0..60).collect();
        tagged.send(&frame).unwrap();
        let sent = wire.0.lock().unwrap()[0].clone();
        assert_eq!(
            (&sent[..12], &sent[12..16], &sent[16..]),
            (&frame[..12], &[0x81, 0, 0x60, 5][..], &frame[12..])
        );
        let with = |tag: [u8; 4]| [&frame[..12], &tag, &frame[12..]].concat();
        // Another VLAN, none, one of the service provider's tags, too short; then this one with another priority.
        let others =
            [with([0x81, 0, 0x60, 6]), frame.clone(), with([0x88, 0xa8, 0x60, 5]), sent[..15].to_vec()];
        others.into_iter().rev().for_each(|other| wire.0.lock().unwrap().push_front(other));
        wire.0.lock().unwrap().push_back(with([0x81, 0, 0, 5]));
        let mut taken = [0; 100];
        for _ in 0..2 {
            assert_eq!(tagged.receive(&mut taken).unwrap(), Some(60));
            assert_eq!(taken[..60], frame);
        }
        assert_eq!(tagged.receive(&mut taken).unwrap(), None);
        assert_eq!(tagged.max_frame(), wire.max_frame() - 4);
    }
}
