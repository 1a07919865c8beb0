// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Trace`]: the frames of a capture, told apart by who sent them.

use std::path::Path;

use anyhow::{bail, ensure, Context as _, Result};
use ferrowire_spec::wire::frame::{Frame, FrameError};
use ferrowire_spec::Psn;

use super::log::Line;
use super::packet::Parts;
use super::scenario::{Case, Role};
use crate::wire::read_frames;

/// A frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Its number in the capture, from 1 as analysers count.
    pub number: usize,
    /// The end that the card plays sent it.
    pub of_card: bool,
    /// The frame.
    pub bytes: Vec<u8>,
}

/// A capture, on the wire of the end that the card plays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Its RoCE frames, in their order. Others (ARP, neighbour discovery) are left out.
    pub frames: Vec<Captured>,
}

impl Trace {
    /// Without requests that the card need not send again: those that its peer had acknowledged when they left. Linux answers a NAK
    /// some time after it came, and sends all from that PSN on, whatever was acknowledged meanwhile.
    #[must_use]
    pub fn needed(&self) -> Self {
        let (mut newest, mut acknowledged): (Option<Psn>, Option<Psn>) = (None, None);
        let mut frames = self.frames.clone();
        frames.retain(|captured| {
            let Ok(frame) = Frame::parse(&captured.bytes) else { return true };
            let psn = Psn::new(frame.bth.psn);
            if let (false, Some(aeth)) = (captured.of_card, frame.ext.aeth) {
                // An ACK of a PSN is for it too, a NAK for those before it.
                let before = if aeth.syndrome >> 5 == 0 { psn.next() } else { psn };
                if acknowledged.is_none_or(|old| old.is_before(before)) {
                    acknowledged = Some(before);
                }
                return true;
            }
            let request = frame.opcode().is_ok_and(|opcode| opcode.is_request());
            if !captured.of_card || !request {
                return true;
            }
            let again = newest.is_some_and(|newest| !newest.is_before(psn));
            if !again {
                newest = Some(psn);
            }
            !(again && acknowledged.is_some_and(|behind| psn.is_before(behind)))
        });
        Self { frames }
    }

    /// The capture of a case on the wire of `role`.
    ///
    /// # Errors
    /// The file cannot be read, or does not fit the case.
    pub fn read(folder: &Path, case: &Case, role: Role) -> Result<Self> {
        let name = case.capture(role);
        let plain = Path::new(name).file_name().is_some_and(|file| file == name);
        ensure!(
            plain,
            "case `{}`: capture `{name}` is no plain file name; put the file beside scenarios.json",
            case.name
        );
        let path = folder.join(name);
        let why = || format!("case `{}`: give the folder its capture, whole", case.name);
        let frames = read_frames(&path).with_context(why)?;
        let mut trace = Trace::default();
        for (i, frame) in frames.into_iter().enumerate() {
            let number = i + 1;
            let place = || format!("case `{}`: {} frame {number}", case.name, path.display());
            let checked = Frame::parse(&frame.bytes).map(|_| ());
            if matches!(checked, Err(FrameError::NotRoce(_))) {
                continue;
            }
            let Some(parts) = Parts::of(&frame.bytes) else {
                bail!("{}: it is not whole; capture it again without a length limit", place());
            };
            let source = parts.source(&frame.bytes);
            let of_card = source == case.end(role).ip;
            let other = [Role::Responder, Role::Requester].map(|role| case.end(role).ip);
            ensure!(
                other.contains(&source),
                "{}: it comes from {source}, which is neither end of the case; correct the addresses in scenarios.json",
                place()
            );
            if let (true, Err(error)) = (of_card, &checked) {
                bail!("{}: the {role} would send it, but {error}; capture it again", place());
            }
            trace.frames.push(Captured { number, of_card, bytes: frame.bytes });
        }
        // Nothing was posted, or a wire that loses frames lost them all on the way to the responder.
        let refused = |line: &String| matches!(Line::parse(&case.name, line), Line::PostFailed(_));
        let may_be_empty = case.log(Role::Requester).iter().any(refused)
            || (role == Role::Responder && case.responder_capture != case.capture);
        ensure!(
            may_be_empty || trace.frames.iter().any(|frame| frame.of_card == (role == Role::Requester)),
            "case `{}`: {} holds no frame of the requester; capture it again",
            case.name,
            path.display()
        );
        Ok(trace)
    }

    /// The frames that the card must send.
    pub fn of_card(&self) -> impl Iterator<Item = &Captured> {
        self.frames.iter().filter(|frame| frame.of_card)
    }
}
