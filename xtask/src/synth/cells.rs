// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which outputs of UltraScale+ cells depend on which inputs.

/// The number in `S[3]`.
pub fn index(pin: &str) -> Option<u32> {
    pin.split_once('[')?.1.strip_suffix(']')?.parse().ok()
}

/// Bit `i` of the sum depends on `S[i]`, and on `S` and `DI` below it; bit `i` of the carry also on `DI[i]`.
pub fn carry(pin: &str, out: &str) -> bool {
    let Some(bit) = index(out).filter(|_| out.starts_with("O[") || out.starts_with("CO[")) else {
        return false;
    };
    match index(pin) {
        Some(at) if pin.starts_with("S[") => at <= bit,
        Some(at) if pin.starts_with("DI[") => at < bit || at == bit && out.starts_with("CO["),
        None => pin == "CI" || pin == "CYINIT" || pin == "CI_TOP" && bit >= 4,
        _ => false,
    }
}

/// Reading at an address, port by port: `DOA` by `ADDRA`, `DPO` by `DPRA`, `SPO` and `O` by `A`.
pub fn lut_ram(pin: &str, out: &str) -> bool {
    let plain = |name: &str| {
        name.split('[').next().unwrap_or(name).trim_end_matches(|c: char| c.is_ascii_digit()).to_string()
    };
    let (pin, out) = (plain(pin), plain(out));
    match out.as_str() {
        "SPO" | "O" => pin == "A",
        "DPO" => pin == "DPRA",
        _ => out.strip_prefix("DO").is_some_and(|port| pin.strip_prefix("ADDR") == Some(port)),
    }
}
