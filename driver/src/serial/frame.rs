// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames of a serial line: marks, escapes, check.

use crate::spec::serial::{
    Command, Reason, Status, ANSWER, ANSWER_HEAD, BLOCK, CHECK, END, ESC, ESC_END, ESC_ESC, HEAD, INTERRUPTS,
    NOTICE,
};

/// What is asked of a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub command: Command,
    /// Bytes that it is about.
    pub length: u16,
    /// Where.
    pub address: u32,
    /// What is written.
    pub data: Vec<u8>,
}

impl Request {
    /// One without data: a read of `length` bytes, or 0 for what has none.
    pub fn read(command: Command, address: u32, length: u16) -> Self {
        Self { command, length, address, data: Vec::new() }
    }

    /// A write.
    ///
    /// # Panics
    /// `data` is longer than a block.
    pub fn write(command: Command, address: u32, data: &[u8]) -> Self {
        assert!(data.len() <= BLOCK as usize, "{} bytes in a block of {BLOCK}", data.len());
        Self { command, length: data.len() as u16, address, data: data.to_vec() }
    }

    /// Its frame, marks included.
    pub fn frame(&self, sequence: u8) -> Vec<u8> {
        let mut body = Vec::with_capacity(HEAD as usize + self.data.len() + CHECK as usize);
        body.extend([self.command as u8, sequence]);
        body.extend(self.length.to_le_bytes());
        body.extend(self.address.to_le_bytes());
        body.extend(&self.data);
        frame(body)
    }
}

/// A frame of any bytes, with its check and marks.
pub fn frame(mut body: Vec<u8>) -> Vec<u8> {
    body.extend(crc32fast::hash(&body).to_le_bytes());
    let mut line = vec![END];
    for byte in body {
        match byte {
            END => line.extend([ESC, ESC_END]),
            ESC => line.extend([ESC, ESC_ESC]),
            byte => line.push(byte),
        }
    }
    line.push(END);
    line
}

/// What a board says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// An answer to a request.
    Answer {
        /// Command of the request.
        command: u8,
        /// Its number.
        sequence: u8,
        /// What became of it, or a code that is not known.
        status: Result<Status, u8>,
        /// What was read.
        data: Vec<u8>,
        /// Interrupts wait to be read.
        interrupts: bool,
    },
    /// A notice.
    Notice {
        /// The number that is expected.
        expected: u8,
        /// Why, or a code that is not known.
        reason: Result<Reason, u8>,
        /// Interrupts wait to be read.
        interrupts: bool,
    },
}

/// Finds frames among bytes, whatever else these are.
#[derive(Debug, Default)]
pub struct Decoder {
    body: Vec<u8>,
    escaped: bool,
    broken: bool,
    /// Frames that were dropped.
    pub dropped: u64,
}

impl Decoder {
    /// The most bytes of a frame without its marks.
    const MOST: usize = (ANSWER_HEAD + BLOCK + CHECK) as usize;

    /// The next byte; what ends with it.
    pub fn byte(&mut self, byte: u8) -> Option<Said> {
        let escaped = std::mem::take(&mut self.escaped);
        match (escaped, byte) {
            (_, END) => return self.end(escaped),
            (false, ESC) => self.escaped = true,
            (false, byte) => self.push(byte),
            (true, ESC_END) => self.push(END),
            (true, ESC_ESC) => self.push(ESC),
            (true, _) => self.broken = true,
        }
        None
    }

    fn push(&mut self, byte: u8) {
        match self.body.len() < Self::MOST {
            true => self.body.push(byte),
            false => self.broken = true,
        }
    }

    fn end(&mut self, escaped: bool) -> Option<Said> {
        let body = std::mem::take(&mut self.body);
        let broken = std::mem::take(&mut self.broken) || escaped;
        if body.is_empty() && !broken {
            return None;
        }
        let said = if broken { None } else { parse(&body) };
        self.dropped += u64::from(said.is_none());
        said
    }
}

/// A frame without its marks and escapes, if it is whole and an answer.
fn parse(body: &[u8]) -> Option<Said> {
    let (body, check) = body.split_last_chunk::<{ CHECK as usize }>()?;
    if crc32fast::hash(body) != u32::from_le_bytes(*check) {
        return None;
    }
    let ([command, sequence, code, flags], data) = body.split_first_chunk::<{ ANSWER_HEAD as usize }>()?;
    let (sequence, code, interrupts) = (*sequence, *code, flags & INTERRUPTS != 0);
    if *command == NOTICE {
        return Some(Said::Notice {
            expected: sequence,
            reason: Reason::from_code(code).ok_or(code),
            interrupts,
        });
    }
    let command = command.checked_sub(ANSWER)?;
    let status = Status::from_code(code).ok_or(code);
    Some(Said::Answer { command, sequence, status, data: data.to_vec(), interrupts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(line: &[u8]) -> Vec<Said> {
        let mut decoder = Decoder::default();
        line.iter().filter_map(|byte| decoder.byte(*byte)).collect()
    }

    #[test]
    fn an_answer_comes_out_of_any_bytes_around_it_and_no_part_of_one_does() {
        let line = frame(vec![ANSWER | 4, 7, 0, 1, END, ESC, ESC_END, 0]);
        let answer = Said::Answer {
            command: 4,
            sequence: 7,
            status: Ok(Status::Okay),
            data: vec![END, ESC, ESC_END, 0],
            interrupts: true,
        };
        assert_eq!(decode(&line), std::slice::from_ref(&answer));
        for at in 0..line.len() {
            // Half a frame, then a whole one, whose first mark ends the other: then that was whole but for its mark.
            let cut = [&line[..at], &line[..]].concat();
            let wanted = if at + 1 == line.len() { 2 } else { 1 };
            assert_eq!(decode(&cut), vec![answer.clone(); wanted], "{at}");
            let mut broken = line.clone();
            broken[at] ^= 0x10;
            assert_eq!(decode(&[&broken[..], &line[..]].concat()).last(), Some(&answer), "{at}");
            assert!(at == 0 || at + 1 == line.len() || decode(&broken).is_empty(), "{at}");
        }
    }

    #[test]
    fn a_frame_that_never_ends_takes_no_more_memory_than_the_longest() {
        let mut decoder = Decoder::default();
        (0..100_000).for_each(|_| assert_eq!(decoder.byte(1), None));
        assert!(decoder.body.len() <= Decoder::MOST);
        assert_eq!((decoder.byte(END), decoder.dropped), (None, 1));
    }
}
