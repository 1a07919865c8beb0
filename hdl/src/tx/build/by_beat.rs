// SPDX-License-Identifier: MIT OR Apache-2.0
//! Headers where beats are narrow: they leave a beat after the other, from where they are stored.
//!
//! ```text
//!  av_write --> [reg] --> in its form --> [ images: a beat of a header a row ] --+
//!                 +-----> sum ----------> [ briefs ] --> plan                    OR --> beat
//!                                    length, checksum, where they belong --------+
//!  planned --> UDP, BTH, extension headers --> shifted by a beat, rotated -------+
//! ```
//!
//! What stands before UDP is stored as it stands in the frame, but for length and checksum, so that nobody needs it whole. What follows is
//! shifted down by a beat whenever one leaves, and begins in one of two lanes. The plan stays until its header has left.
//!
//! A vector takes a cycle for each beat of its image, in cycles in which none is read, and counts with the last.

use super::*;
use ferrowire_rtl::Mem;

/// The headers' forms: neither tag nor IPv6, a tag, IPv6, both.
const FORMS: usize = 4;

/// Address vectors as headers.
pub(super) struct Images {
    rows: Mem<Sig>,
    /// One is read in this cycle.
    reads: Sig,
}

/// Bytes of each form.
fn lengths() -> [usize; FORMS] {
    [(0, ipv4::BYTES), (vlan::BYTES, ipv4::BYTES), (0, ipv6::BYTES), (vlan::BYTES, ipv6::BYTES)]
        .map(|(tag, ip)| eth::BYTES + tag + ip)
}

/// Log2 of the rows of an image.
fn row_bits(cfg: &RnicConfig) -> u32 {
    let most = lengths().into_iter().max().expect("four forms");
    clog2(most.div_ceil(cfg.beat_bytes as usize) as u64)
}

/// Rows of each form's image.
fn rows(cfg: &RnicConfig, forms: [Sig; FORMS]) -> [Vec<Sig>; FORMS] {
    let beat = 8 * cfg.beat_bytes;
    forms.map(|form| form.zext(beat << row_bits(cfg)).chunks(beat))
}

/// One row of the form that it is.
fn row_of(m: &Scope, brief: &Brief, rows: &[Vec<Sig>; FORMS], at: Sig) -> Sig {
    let form = cat(&[brief.vlan, brief.ipv6]);
    let of = |k: usize| m.select(form, &rows.each_ref().map(|rows| rows[k]));
    m.select(at, &(0..rows[0].len()).map(of).collect::<Vec<_>>())
}

/// The address vectors: what of that of a packet its plan needs is read where `en` holds.
pub(super) fn vectors(
    m: &Scope,
    cfg: &RnicConfig,
    write: TableWrite<AddressVector>,
    en: Sig,
    packet: &TxPacket,
) -> (Brief, Ports, Images) {
    let row_bits = row_bits(cfg);
    let index = m.reg("write_index", write.index.width()).no_reset();
    let vector = m.reg_of("write_vector", &write.entry);
    let row = m.reg("write_row", row_bits).reset(0);
    let valid = m.reg("write_valid", 1).reset(0);
    let reads = m.wire("image_reads", 1);
    let last = row.all();
    let writes = (valid & !reads & !(last & en)).named("write_goes");
    let ends = writes & last;
    m.assert(!write.enable | !valid, "vectors come a command apart");
    m.when(write.enable, |m| {
        m.set(&index, write.index);
        m.set_all(&vector, &write.entry);
    });
    m.when(write.enable, |m| m.set(&valid, 1)).otherwise_when(ends, |m| m.set(&valid, 0));
    m.when(writes, |m| m.set(&row, row + 1));

    // The sum is known long before it is written.
    let network = Network::of(&vector);
    let [low, high] = header_sums(&network);
    let sums = [m.delay("write_low_sum", &low), m.delay("write_high_sum", &high)];
    let brief = network.brief(m.delay("write_sum", &fold(sum(20, &sums))));
    let briefs = m.mem("briefs", 1 << cfg.av_bits(), &brief).style(Style::Block).build();
    briefs.write(ends, index, &brief);
    let ports = ports_of(m, cfg, TableWrite { enable: ends, index, entry: vector }, en, packet.qp);

    let nothing = lit(16, 0);
    let forms = rows(cfg, network_headers(&network, [nothing; 2], nothing));
    let image = row_of(m, &brief, &forms, row);
    let images = m.mem("images", 1 << (cfg.av_bits() + row_bits), &image).style(Style::Block).build();
    images.write(writes, cat(&[row, index]), &image);
    (briefs.read(m, en, vector_of(cfg, packet), Collision::Never), ports, Images { rows: images, reads })
}

/// The header of the packet that is planned, whose address vector is the one at `at`.
pub(super) fn header(
    m: &Scope,
    cfg: &RnicConfig,
    (images, at): (Images, Sig),
    planned: &Planned,
    next: Next,
    able: Sig,
    leaves: &Leaves,
) -> Header {
    m.discard(&(leaves.free, leaves.turns, leaves.idle));
    let (bytes, beat) = (cfg.beat_bytes as usize, 8 * cfg.beat_bytes);
    let leaving = m.reg("leaving", 1).reset(0);
    let fires = leaving & leaves.fires;
    let frees = (fires & leaves.behind).named("header_ends");
    m.when(leaves.goes, |m| m.set(&leaving, 1)).otherwise_when(frees, |m| m.set(&leaving, 0));

    // The image, from which the next row is read when one leaves.
    let row_bits = row_bits(cfg);
    let form = cat(&[planned.brief.vlan, planned.brief.ipv6]);
    let of_form = |value: fn(usize, usize) -> usize| {
        m.select(form, &lengths().map(|length| lit(row_bits + 1, value(length, bytes))))
    };
    let row = m.reg("row", row_bits + 1).no_reset();
    let following = row + 1;
    m.when(leaves.goes, |m| m.set(&row, 0)).otherwise_when(fires & !row.msb(), |m| m.set(&row, following));
    let ends = of_form(usize::div_ceil);
    let asked = leaves.goes.then(lit(row_bits, 0), following.trunc(row_bits));
    let reads = leaves.goes | (fires & following.lt(ends));
    m.drive(&images.reads, reads);
    let image = images.rows.read(m, reads, cat(&[asked, at]), Collision::Never);
    let image = image & row.lt(ends).repeat(beat);

    // Length and checksum: what their frame has more than one without them. The checksum is in the third beat or behind it.
    const _: () = assert!(eth::BYTES * 8 + ipv4::CHECKSUM.offset as usize >= 2 * 64);
    let checksum = m.delay("checksum", &planned.checksum());
    let none = Network::of(&AddressVector::of().zeros());
    let lengths_now = [planned.draft.datagram_bytes + ipv4::BYTES, planned.draft.datagram_bytes];
    let nothing = lit(16, 0);
    let with = rows(cfg, network_headers(&none, lengths_now, checksum));
    let without = rows(cfg, network_headers(&none, [nothing; 2], nothing));
    let more =
        |(with, without): (Vec<Sig>, Vec<Sig>)| with.into_iter().zip(without).map(|(a, b)| a ^ b).collect();
    let mut pairs = with.into_iter().zip(without);
    let known: [Vec<Sig>; FORMS] = std::array::from_fn(|_| more(pairs.next().expect("four forms")));
    let known = row_of(m, &planned.brief, &known, row.trunc(row_bits)) & (!row.msb()).repeat(beat);

    // What is left of UDP and what follows it, and the bytes that have just left: it begins at one of a few lanes.
    let rest = planned.draft.transport;
    let last = m.reg("last_bytes", beat).no_reset();
    let begun = row.ge(of_form(|length, bytes| length / bytes));
    let lane = |length: usize| {
        let lane = 8 * (length % bytes) as u32;
        cat(&[last.slice(beat - lane, lane), rest.trunc(beat - lane)])
    };
    let behind = m.select(form, &lengths().map(lane)) & begun.repeat(beat);
    m.when(leaves.goes, |m| m.set(&last, 0));
    m.when(fires & begun & !leaves.behind, |m| {
        m.set(&last, rest.trunc(beat));
        m.set(&rest, rest.slice(beat, rest.width() - beat).zext(rest.width()));
    });
    Header { valid: able & !leaving, next, beat: (image | known | behind) & leaving.repeat(beat), frees }
}
