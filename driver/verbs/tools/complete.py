#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Lists what the headers of a release have and abi/*-RELEASE.txt lacks, from the compiler's debug information.
usage: complete.py RELEASE INCLUDE"""
import re, subprocess, sys, tempfile, os
release, inc = sys.argv[1:3]
d = tempfile.mkdtemp()
src = os.path.join(d, "a.c")
heads = ["infiniband/opcode.h", "infiniband/sa.h", "infiniband/tm_types.h", "infiniband/verbs.h", "rdma/rdma_cma.h", "rdma/rdma_verbs.h", "rdma/rsocket.h"]
open(src, "w").write("#define _GNU_SOURCE\n" + "".join(f"#include <{h}>\n" for h in heads))
flags = ["-isystem", inc, "-std=gnu11"]
obj = os.path.join(d, "a.o")
subprocess.run(["cc", *flags, "-gdwarf-4", "-fno-eliminate-unused-debug-types", "-aux-info", os.path.join(d, "aux"), "-c", src, "-o", obj], check=True)
dump = subprocess.run(["readelf", "-W", "--debug-dump=info", obj], capture_output=True, text=True, check=True).stdout
# DIE tree
dies = {}; order = []; stack = []
cur = None
for line in dump.splitlines():
    m = re.match(r"\s*<(\w+)><(\w+)>: Abbrev Number: (\d+)(?: \((\w+)\))?", line)
    if m:
        level, off, num, tag = int(m[1], 16), m[2], m[3], m[4]
        if num == "0": cur = None; continue
        cur = {"tag": tag, "off": off, "kids": [], "at": {}}
        dies[off] = cur
        del stack[level:]
        if stack: stack[-1]["kids"].append(cur)
        stack.append(cur)
        continue
    m = re.match(r"\s*<\w+>\s+(DW_AT_\w+)\s*:\s*(.*)", line)
    if m and cur is not None:
        v = m[2].strip()
        v = re.sub(r"^\((strp|string|indirect string)[^)]*\) ?:? ?", "", v)
        v = re.sub(r"^\(offset: 0x\w+\): ", "", v)
        v = re.sub(r"^\((ref\w+|data\w+|flag\w*|sec_offset|sdata|udata|exprloc)\) ?", "", v)
        if m[1] == "DW_AT_type": v = v.split(",")[0]
        cur["at"][m[1]] = v
def ty(die):
    t = die["at"].get("DW_AT_type")
    if not t: return None
    return dies.get(t.strip("<>").removeprefix("0x"))
def strip(die):
    while die and die["tag"] in ("DW_TAG_const_type", "DW_TAG_typedef"): die = ty(die)
    return die
mine = re.compile(r"^(_?ibv_|verbs_|rdma_|_compat_ibv|ib_uverbs_flow_action)")
have_structs, have_fields = set(), set()
def fields(name, die):
    for k in die["kids"]:
        if k["tag"] != "DW_TAG_member": continue
        n = k["at"].get("DW_AT_name"); t = strip(ty(k))
        if n is None: fields(name, t); continue
        have_fields.add(f"{name}.{n}")
        if t and t["tag"] in ("DW_TAG_structure_type", "DW_TAG_union_type") and "DW_AT_name" not in t["at"] and not re.match("pthread|__", n):
            tn = [k2 for k2 in t["kids"]]
            have_structs.add(f"{name}.{n}")
            fields(f"{name}.{n}", t)
def alias(n): return re.sub(r"^ib_uverbs_flow_action", "ibv_flow_action", n)
opaque, enumerators, enums = set(), set(), set()
for die in dies.values():
    n = die["at"].get("DW_AT_name")
    if die["tag"] in ("DW_TAG_structure_type", "DW_TAG_union_type") and n and mine.match(n):
        if die["at"].get("DW_AT_declaration"): opaque.add(n); continue
        have_structs.add(alias(n)); fields(alias(n), die)
    if die["tag"] == "DW_TAG_enumeration_type":
        if n and mine.match(n) and n != "rdma_driver_id": enums.add(n)
        for k in die["kids"]: enumerators.add(k["at"]["DW_AT_name"])
lines = [l for f in ("verbs", "cma") for l in open(os.path.join(os.path.dirname(__file__), "..", "abi", f"{f}-{release}.txt"))]
structs = {l.split()[1] for l in lines if l.startswith("struct ")}
members = {l.split()[0] for l in lines if "." in l.split()[0]}
consts = {l.split()[1] for l in lines if l.startswith("const ")}
my_enums = {l.split()[1] for l in lines if l.startswith("enum ")}
my_funcs = {l.split()[1] for l in lines if l.startswith("function ")}
# Parts of pthread types, and the second names of pointers in RDMA_UAPI_PTR.
hidden = re.compile(r"\.(mutex|cond)$|\.(mutex|cond)\.__|_data_u64$")
def lacking(have, mine): return sorted(x for x in have - mine if not hidden.search(x) or x in mine)
print(release, "structs:", len(have_structs & structs), "lacking:", [x for x in lacking(have_structs, structs)])
print(release, "members:", len(have_fields & members), "lacking:", [x for x in lacking(have_fields, members) if x not in members])
print(release, "opaque:", sorted(opaque - structs))
mineconst = {e for e in enumerators if re.match(r"IBV_|RDMA_(?!DRIVER|NL)|RAI_", e)}
print(release, "enumerators:", len(mineconst), "lacking:", sorted(mineconst - consts))
print(release, "enums lacking:", sorted(alias(e).replace("ib_uverbs_advise_mr_advice","ibv_advise_mr_advice") for e in enums if alias(e) not in my_enums))
macros = set()
for h in ["infiniband/verbs.h", "infiniband/verbs_api.h", "infiniband/sa.h", "infiniband/tm_types.h", "infiniband/opcode.h", "rdma/rdma_cma.h", "rdma/rdma_verbs.h", "rdma/rsocket.h"]:
    for l in open(os.path.join(inc, h)):
        m = re.match(r"#\s*define\s+(\w+)(\(?)", l)
        if m and not m[2]: macros.add(m[1])
print(release, "macros lacking:", sorted(m for m in macros - consts if not m.endswith("_H") and m != "__attribute_const" and m not in structs | my_enums))
funcs = set()
for l in open(os.path.join(d, "aux")):
    m = re.match(r"/\* (\S+?):\d+:(\w+) \*/ (extern|static) (.*);", l)
    if m and m[3] == "extern" and re.search(r"/(infiniband|rdma)/", m[1]):
        funcs.add(re.search(r"(\w+) \(", m[4])[1])
print(release, "functions:", len(funcs), "lacking:", sorted(funcs - my_funcs), "extra:", sorted(my_funcs - funcs))
