// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a path's MTU and partition key mean, the same for all engines.

use ferrowire_rtl::{cat, lit, Scope, Sig};

/// Bytes of a path MTU; 1 is 256 bytes, 5 is 4,096.
pub(crate) fn mtu_bytes(code: Sig) -> Sig {
    lit(13, 128).shl_by(code)
}

/// How many whole path MTUs are in so many bytes; less one for the packets of a message, of its last byte's number.
pub(crate) fn whole_mtus(m: &Scope, bytes: Sig, code: Sig) -> Sig {
    let shifts: Vec<Sig> = (0..8).map(|mtu| bytes.slice(7 + mtu, 24.min(25 - mtu)).zext(24)).collect();
    m.select(code, &shifts)
}

/// Whether there is any, by the bits that count: a number of bytes of 32 bits is known late.
pub(crate) fn any_whole_mtu(bytes: Sig, code: Sig) -> Sig {
    let of_some: Vec<Sig> = (0..7).map(|mtu: u32| bytes.bit(7 + mtu) & code.le(mtu)).collect();
    cat(&of_some).any() | bytes.slice(14, 18).any()
}

/// Bytes of so many packets of a path MTU each.
pub(crate) fn bytes_of_packets(packets: Sig, code: Sig) -> Sig {
    (packets.zext(32) << 7).shl_by(code)
}

/// Whether two partition keys match: the same partition, and one of both a full member (IBTA volume 1, 10.9.3).
pub(crate) fn same_partition(a: Sig, b: Sig) -> Sig {
    a.trunc(15).eq(b.trunc(15)) & (a.bit(15) | b.bit(15))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;

    #[test]
    fn they_agree_with_plain_arithmetic() {
        let netlist = build("bench", |m| {
            let (code, bytes, packets) = (m.input("code", 3), m.input("bytes", 32), m.input("packets", 24));
            m.output("mtu", &mtu_bytes(code));
            m.output("whole", &whole_mtus(m, bytes, code));
            m.output("any", &any_whole_mtu(bytes, code));
            m.output("of_packets", &bytes_of_packets(packets, code));
            m.output("same", &same_partition(m.input("a", 16), m.input("b", 16)));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        let mut random = Random::new(1);
        let rng = &mut random.rng;
        for turn in 0..2000u64 {
            let code = 1 + turn % 5;
            let mtu = 128 << code;
            let bytes = rng.random_range(0..1u64 << 31);
            let packets = rng.random_range(0..=bytes / mtu);
            let a: u16 = rng.random();
            let b = if rng.random() { a ^ (rng.random_range(0..2) << 15) } else { rng.random() };
            for (port, value) in
                [("code", code), ("bytes", bytes), ("packets", packets), ("a", a.into()), ("b", b.into())]
            {
                sim.set(port, value);
            }
            assert_eq!((sim.get("mtu"), sim.get("whole")), (mtu, bytes / mtu));
            assert_eq!(sim.get("any"), u64::from(bytes >= mtu));
            assert_eq!(sim.get("of_packets"), packets * mtu);
            let same = a << 1 == b << 1 && (a | b) >> 15 == 1;
            assert_eq!(sim.get("same"), u64::from(same), "{a:#x} {b:#x}");
        }
    }
}
