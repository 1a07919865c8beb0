#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Estimate the time of a flat UltraScale+ netlist before placement, as `cargo xtask synth` does, by other code.

sta.py FLAT.blif [--rows N] [--json] [--limit NS]... [--stubs STUBS.v --constraints BOARD.xdc]

FLAT.blif is what `cargo xtask synth --target xcup` leaves in target/synth/NAME-xcup. The delays are those of
xtask/src/synth/timing/delays.md. An endpoint is a cell in one of its clocks. A path that begins in one clock and ends in
another is a crossing and not among the paths. Of a board, STUBS.v says which pins of AMD's blocks are outputs, and BOARD.xdc
which resets no clock times.
"""
import argparse
import collections
import json
import math
import re
import sys
from pathlib import Path

TABLE = Path(__file__).resolve().parent.parent / "src/synth/timing/delays.md"
CONSTANTS = ("$false", "$true", "$undef")
DSP_OUTS = ("P", "PCOUT", "ACOUT", "BCOUT", "CARRYOUT", "CARRYCASCOUT", "MULTSIGNOUT", "OVERFLOW", "UNDERFLOW",
            "PATTERNDETECT", "PATTERNBDETECT", "XOROUT")
PORTS = "ports"
# AMD's blocks: the clock of most pins, and those in another one or in none.
BLOCKS = {"pcie_block": ("user_clk", "pcie", {"sys_": None, "pci_exp_": None}),
          "cmac_block": ("gt_txusrclk2", "cmac", {"gt_": None, "rx_clk": None, "init_clk": None, "drp_clk": None,
                                                  "sys_reset": "init_clk", "core_drp_reset": "drp_clk", "drp_": "drp_clk"})}


def delays():
    rows = re.findall(r"^\| `(\w+)` \| (-?[\d.]+) \|", TABLE.read_text(), re.M)
    return {name: float(ns) for name, ns in rows}


def base(pin):
    return pin.split("[")[0]


def bit(pin):
    return int(pin[pin.index("[") + 1:-1]) if "[" in pin else 0


def stem(pin):
    return re.sub(r"\d+$", "", base(pin))


class Netlist:
    """arcs: (from, to, cell's ns, whether the net is local, LUTs); starts: net -> [(ns, clock, kind)];
    ends: (net, set-up, endpoint, pin); an endpoint is (first output, clock)."""

    def __init__(self, text, stubs="", constraints=""):
        self.d = delays()
        self.outputs = {m: set(re.findall(r"output wire (?:\[\d+:0\] )?(\w+)", ports))
                        for m, ports in re.findall(r"^module (\w+)(.*?)^endmodule", stubs, re.M | re.S)}
        pins = re.findall(r"^set_false_path -to \[get_pins \{(.*?)\}\]", constraints, re.M)
        self.cut = {pin for names in pins for pin in names.split()}
        self.arcs, self.ends = [], []
        self.starts = collections.defaultdict(list)
        self.fan = collections.Counter()
        self.cells = collections.Counter()
        cell = None
        for line in text.replace("\\\n", " ").split("\n"):
            word = line.split()
            if not word:
                continue
            if word[0] in (".names", ".conn"):
                if len(word) >= 3 and word[1] not in CONSTANTS:
                    self.arcs.append((word[1], word[2], 0.0, True, 0))
            elif word[0] in (".subckt", ".gate"):
                self.take(cell)
                pins = [pin.split("=", 1) for pin in word[2:]]
                cell = word[1], [(pin, net) for pin, net in pins if net not in CONSTANTS], {}
            elif word[0] == ".param" and cell:
                cell[2][word[1]] = word[2]
        self.take(cell)

    def take(self, cell):
        if cell is None:
            return
        kind, pins, params = cell
        self.cells[kind] += 1

        def number(name):
            value = params.get(name, "0")
            return {'"TRUE"': 1, '"FALSE"': 0}.get(value) if value.startswith('"') else int(value, 2)

        net = dict(pins)
        d = self.d
        if re.fullmatch(r"LUT\d|INV", kind):
            for pin, n in pins:
                if pin != "O" and "O" in net:
                    self.arc(n, net["O"], d["lut"], luts=1)
                    self.fan[n] += 1
        elif kind.startswith("MUXF"):
            for pin, n in pins:
                if pin != "O" and "O" in net:
                    selects = pin == "S"
                    self.arc(n, net["O"], d["mux_select"] if selects else d["mux_data"], local=not selects)
                    self.fan[n] += selects
        elif kind in ("CARRY4", "CARRY8"):
            self.carry(pins)
        elif re.match(r"FD[RSCP]E", kind):
            if "Q" not in net:
                return
            self.starts[net["Q"]].append((d["ff_out"], net.get("C"), "FF"))
            for pin, n in pins:
                if f"{net['Q'].removesuffix('_Q').replace('.', '/')}/{pin}" in self.cut:
                    self.fan[n] += 1
                elif pin not in ("Q", "C"):
                    self.end(n, d["ff_data"] if pin == "D" else d["ff_control"], (net["Q"], net.get("C")), pin)
        elif kind.startswith("RAMB"):
            self.bram(kind, pins, net, number)
        elif kind.startswith("URAM"):
            self.uram(pins, net, number)
        elif kind.startswith("DSP"):
            self.dsp(pins, net, number)
        elif kind.startswith("SRL"):
            outs = [net[q] for q in ("Q", "Q15", "Q31") if q in net]
            for q in outs:
                self.starts[q].append((d["srl_out"], net.get("CLK"), "SRL"))
            for pin, n in pins:
                if pin in ("Q", "Q15", "Q31", "CLK") or not outs:
                    continue
                if pin.startswith("A"):
                    self.fan[n] += 1
                    if "Q" in net:
                        self.arc(n, net["Q"], d["lutram_read"], luts=1)
                else:
                    self.end(n, d["srl_write"], (outs[0], net.get("CLK")), "SRL " + pin)
        elif kind.startswith("RAM"):
            self.lut_ram(kind, pins, net)
        elif kind in BLOCKS:
            self.block(kind, pins, net)
        elif kind == "card" and self.cut:  # the RNIC is left out
            self.fan.update(n for _, n in pins)
        elif kind not in ("BUFG", "BUFGCE", "IBUF", "OBUF", "VCC", "GND", "IBUFDS", "IBUFDS_GTE4", "BUFGCE_DIV"):
            sys.exit(f"the cell {kind} is not known")

    def arc(self, a, b, ns, local=False, luts=0):
        self.arcs.append((a, b, ns, local, luts))

    def end(self, n, setup, point, pin):
        self.fan[n] += 1
        self.ends.append((n, setup, point, pin))

    def block(self, kind, pins, net):
        own, delay, aside = BLOCKS[kind]
        for p, n in pins:
            begins = next((b for b in aside if p.startswith(b)), None)
            clock = aside[begins] if begins else None if p == own else own
            if base(p) not in self.outputs[kind]:
                if clock:
                    self.end(n, self.d[delay + "_setup"], (kind + "." + p, net.get(clock)), "block " + base(p))
                else:
                    self.fan[n] += 1
            elif clock:
                self.starts[n].append((self.d[delay + "_out"], net.get(clock), "block"))

    def carry(self, pins):
        d = self.d
        for po, no in pins:
            if base(po) not in ("O", "CO"):
                continue
            b, carries = bit(po), base(po) == "CO"
            for p, n in pins:
                i = bit(p)
                if base(p) == "S" and i <= b:
                    self.arc(n, no, d["carry_sum"] if not carries and i == b else d["carry_across"], local=True)
                elif base(p) == "DI" and (i < b or i == b and carries):
                    self.arc(n, no, d["carry_across"])
                elif p in ("CI", "CYINIT") or p == "CI_TOP" and b >= 4:
                    self.arc(n, no, d["carry_carry"] if carries else d["carry_in_sum"], local=True)
        for p, n in pins:
            self.fan[n] += base(p) == "DI"

    def lut_ram(self, kind, pins, net):
        d = self.d
        clock = net.get("WCLK", net.get("CLK"))
        is_out = lambda p: p.startswith(("DO", "DPO", "SPO", "O"))
        outs = [(p, n) for p, n in pins if is_out(p)]
        write = "ADDRD" if kind in ("RAM32M", "RAM64M") else "ADDRH"
        for _, n in outs:
            self.starts[n].append((d["lutram_out"], clock, "LUT RAM"))
        for p, n in pins:
            if is_out(p) or p in ("WCLK", "CLK"):
                continue
            k = stem(p)
            for po, no in outs:
                o = stem(po)
                if o in ("SPO", "O") and k == "A" or o == "DPO" and k == "DPRA" or o.startswith("DO") and k == "ADDR" + o[2:]:
                    self.arc(n, no, d["lutram_read"], luts=1)
            if outs and (k.startswith("DI") or k in ("D", "WE", "A", write)):
                self.end(n, d["lutram_write"], (outs[0][1], clock), "LUT RAM " + k)
            else:
                self.fan[n] += 1

    def bram(self, kind, pins, net, number):
        d = self.d
        narrow = 18 if kind.startswith("RAMB18") else 36
        simple = number("READ_WIDTH_A") > narrow or number("WRITE_WIDTH_B") > narrow
        side_b = re.compile(r"ADDRBWRADDR|ADDRENB|ENBWREN|WEBWE|RSTREGB|RSTRAMB|REGCEB|DIN?P?B|DOU?T?P?B|CAS.*B$")
        b = lambda p: bool(side_b.match(base(p)))
        is_out = lambda p: bool(re.match(r"DO|CASDO(?!MUX)|CASOUT|CASCADEOUT|[SD]BITERR|ECCPARITY|RDADDRECC", p))

        def clock(p):
            from_b = b(p)
            if simple and is_out(p):
                from_b = False
            elif simple and p.startswith("DI"):
                from_b = True
            return net.get("CLKBWRCLK" if from_b else "CLKARDCLK")

        registered = lambda p: number("DOB_REG" if b(p) else "DOA_REG") == 1

        def passes(p, po):
            m = re.match(r"CASDIN(P?[AB])", p)
            return bool(m) and not registered(p) and bit(p) == bit(po) and po.startswith(("CASDOUT" + m[1], "DOUT" + m[1]))

        def setup(p):
            if p.startswith("ADDR") and not p.startswith("ADDREN"):
                return d["bram_address"]
            return d["bram_enable"] if p.startswith(("EN", "WE")) else d["bram_data"]

        self.memory(pins, "BRAM", is_out, clock, lambda p: d["bram_register_out" if registered(p) else "bram_out"], setup,
                    passes, d["bram_cascade"])

    def uram(self, pins, net, number):
        d = self.d
        port = lambda p: "B" if base(p).endswith("_B") else "A"
        is_out = lambda p: p.startswith(("DOUT", "CAS_OUT", "RDACCESS", "SBITERR", "DBITERR"))

        def passes(p, po):
            if not p.startswith("CAS_IN_") or number("REG_CAS_" + port(p)):
                return False
            rest = p[len("CAS_IN_"):]
            return po == "CAS_OUT_" + rest or po == rest and not number("OREG_" + port(p))

        def setup(p):
            if p.startswith("ADDR"):
                return d["uram_address"]
            return d["uram_enable"] if p.startswith(("EN", "BWE", "RDB_WR")) else d["uram_data"]

        out = lambda p: d["uram_register_out" if number("OREG_" + port(p)) else "uram_out"]
        self.memory(pins, "URAM", is_out, lambda p: net.get("CLK"), out, setup, passes, d["uram_cascade"])

    def memory(self, pins, kind, is_out, clock, out, setup, passes, cascade):
        outs = [(p, n) for p, n in pins if is_out(p)]
        for p, n in outs:
            self.starts[n].append((out(p), clock(p), kind))
        for p, n in pins:
            if is_out(p) or p.startswith("CLK"):
                continue
            through = [no for po, no in outs if passes(p, po)]
            for no in through:
                self.arc(n, no, cascade, local=True)
            if outs and not through:
                self.end(n, setup(p), (outs[0][1], clock(p)), kind + " " + base(p))
            elif not outs:
                self.fan[n] += 1

    def dsp(self, pins, net, number):
        d = self.d
        outs = [n for p, n in pins if base(p) in DSP_OUTS]
        ins = [(base(p), n) for p, n in pins if base(p) not in DSP_OUTS and p != "CLK"]
        if not outs:
            return
        clock, m, last = net.get("CLK"), number("MREG"), number("PREG")

        def own(p):
            if p.startswith(("CE", "RST")):
                return True
            return p != "PCIN" and number({"ACIN": "A", "BCIN": "B"}.get(p, p) + "REG") > 0

        begins = d["dsp_out"] if last else d["dsp_sum_out"] if m else \
            d["dsp_product_out"] if any(own(p) for p, _ in ins) else None
        if begins is not None:
            for n in outs:
                self.starts[n].append((begins, clock, "DSP"))
        for p, n in ins:
            factor = p in ("A", "B", "D", "ACIN", "BCIN", "INMODE")
            setup = d["dsp_register"] if own(p) else d["dsp_product"] if factor and m else \
                d["dsp_all" if factor else "dsp_sum"] if last else None
            if setup is not None:
                self.end(n, setup, (outs[0], clock), "DSP " + p)
                continue
            self.fan[n] += 1
            for o in outs:
                self.arc(n, o, d["dsp_through" if factor else "dsp_sum_through"])

    def net(self, n):
        return self.d["net"] + self.d["net_doubling"] * math.log2(max(1, self.fan[n]))


class Front:
    """When the paths of one clock, or of the ports, come to each net."""

    def __init__(self, netlist, order, begins):
        self.t, self.back, self.luts = dict(begins), {}, collections.Counter()
        for a, b, ns, local, luts in order:
            if a not in self.t:
                continue
            there = self.t[a] + (netlist.d["net_local"] if local else netlist.net(a)) + ns
            if there > self.t.get(b, -math.inf):
                self.t[b], self.back[b], self.luts[b] = there, a, self.luts[a] + luts

    def path(self, n):
        path = [n]
        while path[-1] in self.back:
            path.append(self.back[path[-1]])
        return path[::-1]


def ordered(arcs):
    out, waiting = collections.defaultdict(list), collections.Counter()
    for arc in arcs:
        out[arc[0]].append(arc)
        waiting[arc[1]] += 1
    ready = [n for n in out if not waiting[n]]
    order = []
    while ready:
        for arc in out.pop(ready.pop(), ()):
            order.append(arc)
            waiting[arc[1]] -= 1
            if not waiting[arc[1]]:
                ready.append(arc[1])
    if len(order) < len(arcs):
        sys.exit("a combinational loop, at or after " + next(n for n in waiting if waiting[n]))
    return order


class Estimate:
    """best: endpoint -> (ns, net, pin, front); crossings: (from, to) -> [endpoints, worst ns]."""

    def __init__(self, netlist):
        self.netlist = netlist
        order = ordered(netlist.arcs)
        driven = set(netlist.starts) | {b for _, b, *_ in netlist.arcs}
        nets = {a for a, *_ in netlist.arcs} | {n for n, *_ in netlist.ends}
        begins = collections.defaultdict(dict)
        begins[PORTS] = {n: 0.0 for n in nets - driven}
        for n, starts in netlist.starts.items():
            for ns, clock, _ in starts:
                begins[clock][n] = ns
        self.fronts = {clock: Front(netlist, order, begin) for clock, begin in begins.items()}
        self.best, crossing = {}, {}
        for n, setup, point, pin in netlist.ends:
            for clock, front in self.fronts.items():
                if n not in front.t:
                    continue
                ns = front.t[n] + netlist.net(n) + setup + netlist.d["uncertainty"]
                if clock in (point[1], PORTS):
                    if point not in self.best or ns > self.best[point][0]:
                        self.best[point] = ns, n, pin, clock
                else:
                    key = clock, point
                    crossing[key] = max(crossing.get(key, -math.inf), ns)
        self.crossings = {}
        for (clock, point), ns in crossing.items():
            pair = self.crossings.setdefault((clock, point[1]), [0, -math.inf])
            pair[0] += 1
            pair[1] = max(pair[1], ns)

    def worst(self):
        return max((b[0] for b in self.best.values()), default=0.0)

    def over(self, limit):
        return sum(1 for b in self.best.values() if b[0] > limit)


def show(path):
    shown = []
    for n in path:
        s = re.sub(r"_[A-Z].*$", "", re.sub(r"\[\d+\]$", "", n))
        if not n.startswith("$") and s not in shown[-1:]:
            shown.append(s)
    return shown


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("blif")
    parser.add_argument("--rows", type=int, default=20, help="paths that are shown")
    parser.add_argument("--json", action="store_true", help="print figures alone, as JSON")
    parser.add_argument("--limit", type=float, action="append", help="count endpoints over so many ns; may be repeated")
    parser.add_argument("--stubs", type=Path, help="Verilog of what stands in the place of AMD's blocks")
    parser.add_argument("--constraints", type=Path, help="constraints for Vivado")
    args = parser.parse_args()
    beside = [path.read_text() if path else "" for path in (args.stubs, args.constraints)]
    estimate = Estimate(Netlist(Path(args.blif).read_text(), *beside))
    limits = args.limit or [3.1, 3.5, 4.0, 4.5, 5.0, 5.5]
    if args.json:
        crossings = [[a, b, *v] for (a, b), v in sorted(estimate.crossings.items(), key=str)]
        print(json.dumps({"worst_ns": estimate.worst(), "endpoints": len(estimate.best),
                          "over": [estimate.over(limit) for limit in limits], "crossings": crossings}))
        return
    print("cells", dict(estimate.netlist.cells.most_common(20)))
    print(f"worst {estimate.worst():.3f} ns, estimated before placement; {len(estimate.best)} endpoints")
    for limit in limits:
        print(f"endpoints over {limit} ns: {estimate.over(limit)}")
    for (a, b), (count, ns) in estimate.crossings.items():
        print(f"crossing {a} -> {b}: {count} endpoints, {ns:.2f} ns")
    seen = set()
    for point, (ns, n, pin, clock) in sorted(estimate.best.items(), key=lambda kv: -kv[1][0]):
        end = re.sub(r"\[\d+\]$", "", point[0])
        if end in seen:
            continue
        seen.add(end)
        if len(seen) > args.rows:
            break
        front = estimate.fronts[clock]
        path = front.path(n)
        kind = next((kind for _, c, kind in estimate.netlist.starts.get(path[0], ()) if c == clock), "port")
        print(f"{ns:.2f} ns, {front.luts[n]} LUTs | {kind} {path[0]} -> {point[0]} [{pin}]")
        print("      ", " > ".join(show(path)))


if __name__ == "__main__":
    main()
