// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log lines of the program whose frames were captured.
//!
//! ```text
//! b write_small wc: status=success(0) opcode=1 len=5 imm=0x0 flags=0x0 qp=0x1a src_qp=0x0
//! b write_small local sum=f733c5f5 u64=342d261f18110a03
//! a write_small bufsum head=31315842 recv=b31cfdc5 u64=261f18110aa2a1a0
//! a bind send_inv wc: ...              a drop_all no recv completion              b nak_inv_misalign post_send err 22
//! ```

/// A completion, with the numbers of `ibv_wc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wc {
    /// Status.
    pub status: u8,
    /// Opcode.
    pub opcode: u32,
    /// Bytes.
    pub len: u32,
    /// Immediate.
    pub imm: u32,
    /// What holds of it: 1 GRH, 2 immediate, 4 invalidated.
    pub flags: u32,
    /// Queue pair of the sender; UD.
    pub src_qp: u32,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A completion of the case.
    Completion(Wc),
    /// A completion of its preparation: a window that was bound.
    Bind(Wc),
    /// Sum over the requester's bytes from 1 on, as many as the work has, and its first eight bytes.
    Local {
        /// FNV-1a.
        sum: u32,
        /// Least significant byte first.
        first: u64,
    },
    /// Sums over the responder's memory.
    Buffers {
        /// FNV-1a of [`super::memory::HEAD`].
        head: u32,
        /// FNV-1a of [`super::memory::RECV`].
        recv: u32,
        /// The first eight bytes, least significant byte first.
        first: u64,
    },
    /// No receive was completed.
    NoReceive,
    /// The work was refused where it was posted, with that error number.
    PostFailed(i32),
    /// Anything else.
    Unknown(String),
}

impl Line {
    /// The meaning of a line of the case called `name`.
    pub fn parse(name: &str, text: &str) -> Self {
        parse(name, text).unwrap_or_else(|| Line::Unknown(text.to_string()))
    }
}

fn parse(name: &str, text: &str) -> Option<Line> {
    let rest = text.strip_prefix("a ").or_else(|| text.strip_prefix("b "))?;
    if let Some(rest) = rest.strip_prefix("bind ") {
        return wc(rest.strip_prefix(name)?.strip_prefix(" wc: ")?).map(Line::Bind);
    }
    let rest = rest.strip_prefix(name)?.strip_prefix(' ')?;
    if let Some(rest) = rest.strip_prefix("wc: ") {
        return wc(rest).map(Line::Completion);
    }
    if let Some(rest) = rest.strip_prefix("local ") {
        return Some(Line::Local { sum: hex(rest, "sum")? as u32, first: hex(rest, "u64")? });
    }
    if let Some(rest) = rest.strip_prefix("bufsum ") {
        let (head, recv) = (hex(rest, "head")? as u32, hex(rest, "recv")? as u32);
        return Some(Line::Buffers { head, recv, first: hex(rest, "u64")? });
    }
    if let Some(rest) = rest.strip_prefix("post_send err ") {
        return rest.trim().parse().ok().map(Line::PostFailed);
    }
    (rest.trim() == "no recv completion").then_some(Line::NoReceive)
}

fn wc(text: &str) -> Option<Wc> {
    // The status is a text with blanks, and its number.
    let (status, rest) = text.strip_prefix("status=")?.split_once(')')?;
    let (_, status) = status.rsplit_once('(')?;
    Some(Wc {
        status: status.parse().ok()?,
        opcode: value(rest, "opcode")?.parse().ok()?,
        len: value(rest, "len")?.parse().ok()?,
        imm: hex(rest, "imm")? as u32,
        flags: hex(rest, "flags")? as u32,
        src_qp: hex(rest, "src_qp")? as u32,
    })
}

/// The value behind `key=`.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

fn hex(text: &str, key: &str) -> Option<u64> {
    let digits = value(text, key)?;
    u64::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_is_read() {
        let read = |text: &str| Line::parse("x", text);
        let wc = Wc { status: 10, opcode: 129, len: 64, imm: 0xdead_be01, flags: 3, src_qp: 0x3d };
        let text =
            "status=remote access error(10) opcode=129 len=64 imm=0xdeadbe01 flags=0x3 qp=0x1e src_qp=0x3d";
        assert_eq!(read(&format!("b x wc: {text}")), Line::Completion(wc));
        assert_eq!(read(&format!("a bind x wc: {text}")), Line::Bind(wc));
        assert_eq!(read("b x local sum=f733c5f5 u64=342d"), Line::Local { sum: 0xf733_c5f5, first: 0x342d });
        assert_eq!(
            read("a x bufsum head=31 recv=b3 u64=a0"),
            Line::Buffers { head: 0x31, recv: 0xb3, first: 0xa0 }
        );
        assert_eq!(read("a x no recv completion"), Line::NoReceive);
        assert_eq!(read("b x post_send err 22"), Line::PostFailed(22));
    }

    #[test]
    fn a_line_without_a_meaning_is_kept_as_it_is() {
        for text in ["", "b y local sum=1 u64=2", "b x wc: status=success(0) opcode=1", "b x slept 5 s"] {
            assert_eq!(Line::parse("x", text), Line::Unknown(text.to_string()));
        }
    }
}
