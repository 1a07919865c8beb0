// SPDX-License-Identifier: MIT OR Apache-2.0
//! The generated C++ between Rust and a Verilated class: nine C functions, no C++ type in sight.
//!
//! Verilator's runtime calls `vl_stop`, `vl_finish` and `vl_fatal`, whose defaults end the process. Here they note what
//! happened in the model's `Status`, which Rust reads after each `eval`. `vl_fatal` must not return, so it throws, and
//! the entry points catch.

use crate::PortSpec;

/// What the shim is made from: part of every model's key, so that a changed shim is not met with an old model.
pub(crate) const TEMPLATE: [&str; 4] = [TEXT, FST, NO_FST, EXPORTS];

/// Defines under which the runtime leaves the three functions to the shim.
pub(crate) const DEFINES: [&str; 3] = ["VL_USER_FINISH", "VL_USER_STOP", "VL_USER_FATAL"];

/// What the linker exports.
pub(crate) const EXPORTS: &str = "{ global: fw_*; local: *; };\n";

/// A port's member name in the generated class, and its Verilog name decoded from it.
pub(crate) struct Member {
    pub(crate) member: String,
    pub(crate) port: String,
    pub(crate) width: u32,
    pub(crate) input: bool,
}

/// Reads the ports out of the class's header: lines such as `VL_INW(&data,127,0,4);`.
pub(crate) fn members(header: &str) -> Vec<Member> {
    header.lines().filter_map(|line| member(line.trim())).collect()
}

fn member(line: &str) -> Option<Member> {
    let (macro_name, arguments) = line.strip_prefix("VL_")?.strip_suffix(");")?.split_once("(&")?;
    let input = macro_name.starts_with("IN");
    if !input && !macro_name.starts_with("OUT") {
        return None;
    }
    let mut parts = arguments.split(',');
    let member = parts.next()?.to_string();
    let msb: i64 = parts.next()?.trim().parse().ok()?;
    let lsb: i64 = parts.next()?.trim().parse().ok()?;
    let width = u32::try_from(msb - lsb + 1).ok()?;
    Some(Member { port: decode(&member), member, width, input })
}

/// Undoes Verilator's name mangling: `__05F` is the character 0x5f, `__SYM__` precedes a C++ keyword.
fn decode(member: &str) -> String {
    let member = member.strip_prefix("__SYM__").unwrap_or(member);
    let mut name = String::new();
    let mut rest = member;
    while let Some(c) = rest.chars().next() {
        let code = rest
            .strip_prefix("__0")
            .and_then(|r| r.get(..2))
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code {
            Some(code) => {
                name.push(code as char);
                rest = &rest[5..];
            }
            None => {
                name.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    name
}

/// The shim's text. `members` gives the class member of each of `ports`, in the same order.
pub(crate) fn text(class: &str, ports: &[PortSpec], members: &[&str], trace: bool) -> String {
    let mut cases = String::new();
    for (index, (port, member)) in ports.iter().zip(members).enumerate() {
        let bytes = storage_bytes(port.width);
        cases += &format!("        FW_PORT({index}, {member}, {bytes})\n");
    }
    let fst = if trace { FST } else { NO_FST };
    let include = if trace { "#include \"verilated_fst_c.h\"\n" } else { "" };
    TEXT.replace("@CLASS@", class)
        .replace("@INCLUDE@", include)
        .replace("@PORTS@", &cases)
        .replace("@FST@", fst)
        .replace("@TRACE@", if trace { "true" } else { "false" })
}

/// Bytes of Verilator's storage for a port: CData, SData, IData, QData, then 32-bit words.
pub(crate) fn storage_bytes(width: u32) -> u32 {
    match width {
        0..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        33..=64 => 8,
        _ => width.div_ceil(32) * 4,
    }
}

const TEXT: &str = r#"// Binding of one Verilated model; generated.
#include "@CLASS@.h"
#include "verilated.h"
@INCLUDE@
#include <cstdint>
#include <cstdio>
#include <exception>

struct Status {
    uint32_t finished;
    uint32_t stopped;
    char message[1024];
};

struct Context : VerilatedContext {
    Status status{};
};

static void note(const char* what, const char* file, int line, const char* hier, const char* text) {
    Status& status = static_cast<Context*>(Verilated::threadContextp())->status;
    std::fflush(stdout);
    if (status.stopped) return;  // the first one is the cause
    status.stopped = 1;
    std::snprintf(status.message, sizeof status.message, "%s:%d: %s in %s%s%s", file ? file : "", line, what,
                  hier && *hier ? hier : "the model", text && *text ? ": " : "", text ? text : "");
}

struct Fatal : std::exception {};

void vl_finish(const char*, int, const char*) {
    static_cast<Context*>(Verilated::threadContextp())->status.finished = 1;
}
void vl_stop(const char* file, int line, const char* hier) { note("$stop", file, line, hier, nullptr); }
void vl_fatal(const char* file, int line, const char* hier, const char* text) {
    note("fatal", file, line, hier, text);
    throw Fatal{};
}

struct Instance {
    Context context;
    @CLASS@* top = nullptr;
    void* fst = nullptr;
};

static_assert(sizeof(Status) == 1032, "layout known to the binding");

template <class Body>
static bool guarded(Instance* self, Body body) noexcept {
    Verilated::threadContextp(&self->context);
    try {
        body();
        return true;
    } catch (const Fatal&) {
    } catch (const std::exception& e) {
        note("exception", "", 0, nullptr, e.what());
    } catch (...) {
        note("exception", "", 0, nullptr, nullptr);
    }
    return false;
}

template <unsigned bytes, class Storage>
static void* storage(Storage& port) {
    static_assert(sizeof(Storage) == bytes, "width differs from the port's description");
    return static_cast<void*>(&port);
}

#pragma GCC visibility push(default)
extern "C" {

Instance* fw_create() {
    Instance* self = new Instance;
    const bool made = guarded(self, [&] {
        self->context.traceEverOn(@TRACE@);
        self->top = new @CLASS@(&self->context, "TOP");
    });
    if (made) return self;
    delete self;
    return nullptr;
}

void* fw_port(Instance* self, uint32_t index) {
    switch (index) {
#define FW_PORT(index, member, bytes) case index: return storage<bytes>(self->top->member);
@PORTS@        default: return nullptr;
    }
}

Status* fw_status(Instance* self) { return &self->context.status; }

void fw_eval(Instance* self, uint64_t time) {
    self->context.time(time);
    guarded(self, [&] { self->top->eval(); });
}

@FST@
void fw_destroy(Instance* self) {
    fw_fst_close(self);
    guarded(self, [&] { self->top->final(); });
    guarded(self, [&] { delete self->top; });
    delete self;
}

}
#pragma GCC visibility pop
"#;

const FST: &str = r#"uint32_t fw_fst_open(Instance* self, const char* path) {
    return guarded(self, [&] {
        VerilatedFstC* fst = new VerilatedFstC;
        self->fst = fst;
        self->top->trace(fst, 99);
        fst->open(path);
    });
}

uint32_t fw_fst_dump(Instance* self, uint64_t time) {
    return guarded(self, [&] { static_cast<VerilatedFstC*>(self->fst)->dump(time); });
}

uint32_t fw_fst_flush(Instance* self) {
    return guarded(self, [&] { static_cast<VerilatedFstC*>(self->fst)->flush(); });
}

// A writer of its own for each file, as one remembers the time of its last dump.
void fw_fst_close(Instance* self) {
    VerilatedFstC* fst = static_cast<VerilatedFstC*>(self->fst);
    if (!fst) return;
    guarded(self, [&] { fst->close(); });
    guarded(self, [&] { delete fst; });
    self->fst = nullptr;
}
"#;

const NO_FST: &str = r#"uint32_t fw_fst_open(Instance*, const char*) { return 0; }
uint32_t fw_fst_dump(Instance*, uint64_t) { return 0; }
uint32_t fw_fst_flush(Instance*) { return 0; }
void fw_fst_close(Instance*) {}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_from_the_header() {
        let found = members(
            "  VL_IN8(&clk,0,0);\n VL_OUTW(&x___05Fy,127,0,4);\nVL_UNCOPYABLE(V);\nVL_IN8(&__SYM__new,6,0);",
        );
        let found: Vec<_> = found.iter().map(|m| (m.port.as_str(), m.width, m.input)).collect();
        assert_eq!(found, [("clk", 1, true), ("x__y", 128, false), ("new", 7, true)]);
    }
}
