#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes abi/symbols/ and abi/*.map from the unpacked packages of headers/x and headers/ctl."""
import os, re, subprocess, glob, collections, tempfile
root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
H, OUT = os.path.join(root, "headers"), os.path.join(root, "abi", "symbols")
os.makedirs(OUT + "/imports", exist_ok=True)
SUITES = {"bullseye": 33, "bookworm": 44, "trixie": 56, "sid": 65}
def natural(text): return [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", text)]
def order(symbol): return (natural(symbol.split("@")[-1]), symbol)
def write(name, lines, head):
    with open(os.path.join(OUT, name), "w") as f:
        f.write("".join(f"# {line}\n" for line in head) + "".join(line + "\n" for line in lines))
def nm(path, *flags):
    text = subprocess.run(["nm", "-D", "--with-symbol-versions", *flags, path], capture_output=True, text=True).stdout
    return [line.split()[-2:] for line in text.splitlines()]
def lib(suite, name): return [p for p in glob.glob(f"{H}/x/{suite}/usr/lib/x86_64-linux-gnu/{name}.so.1.*") if not os.path.islink(p)][0]
def exports(suite, name): return {s: k for k, s in nm(lib(suite, name), "--defined-only") if k != "A" and "@" in s}
# Debian's symbols files: first release of each name.
def since(suite, package):
    result = {}
    for line in open(f"{H}/ctl/{suite}/{package}/symbols"):
        m = re.match(r" (\S+)@(\S+) (\S+)", line)
        if m and m[1] != m[2]: result[f"{m[1]}@{m[2]}"] = int(m[3].split(".")[0])
    return result
MEASURED = "Names that {0} of rdma-core {1} exports (Debian {2}), from the library: @@ marks a default version."
DERIVED = "Names that {0} of rdma-core {1} exports, derived from the first releases in Debian's symbols file: @@ marks a default version."
for name, package in (("libibverbs", "libibverbs1"), ("librdmacm", "librdmacm1t64")):
    first = since("sid", package)
    newest = [s for s in exports("sid", name) if "PRIVATE" not in s]
    for release in (33, 39, 44, 50, 56, 65):
        suite = {v: k for k, v in SUITES.items()}.get(release)
        derived = sorted((s for s in newest if first[s.replace("@@", "@")] <= release), key=order)
        if suite:
            found = sorted((s for s in exports(suite, name) if "PRIVATE" not in s), key=order)
            assert found == derived, (name, release, set(found) ^ set(derived))
        write(f"{name}-{release}.txt", derived, [(MEASURED if suite else DERIVED).format(name, release, suite)])
for suite, version in (("bullseye", 33), ("trixie", 34), ("sid", 65)):
    first = since(suite, "libibverbs1")
    lines = []
    for symbol, kind in sorted(exports(suite, "libibverbs").items(), key=lambda kv: order(kv[0])):
        if "PRIVATE" in symbol:
            lines.append(f"{symbol} {'data' if kind in 'BD' else 'function'} {first[symbol.replace('@@', '@')]}")
    write(f"libibverbs-private-{version}.txt", lines, ["Private names: symbol, kind, first release of rdma-core."])
# Imports.
packages = ["perftest", "libucx0", "libfabric1", "rdmacm-utils", "ibverbs-utils", "qperf", "python3-pyverbs", "librdmacm1"]
want = re.compile(r"@(MLX5|EFA|HNS|MLX4|MANA|IBVERBS|RDMACM)_")
imports = collections.defaultdict(lambda: collections.defaultdict(set))
for suite in SUITES:
    for deb in glob.glob(f"{H}/debs/{suite}/*.deb"):
        package = os.path.basename(deb).split("_")[0].replace("librdmacm1t64", "librdmacm1")
        if package not in packages: continue
        listing = subprocess.run(["dpkg", "-c", deb], capture_output=True, text=True).stdout
        for line in listing.splitlines():
            if not line.startswith("-"): continue
            path = f"{H}/x/{suite}/{line.split()[5].removeprefix('./')}"
            if open(path, "rb").read(4) != b"\x7fELF": continue
            for _, symbol in nm(path, "-u"):
                if want.search(symbol): imports[package][symbol].add(suite)
for package, symbols in imports.items():
    lines = [f"{s} {' '.join(x for x in SUITES if x in symbols[s])}" for s in sorted(symbols, key=order)]
    write(f"imports/{package}.txt", lines, [f"What the programs and libraries of {package} import: symbol, releases of Debian."])
# Results of the functions of the stubs.
inc = f"{H}/x/sid/usr/include"
work = tempfile.mkdtemp(); src = work + "/dv.c"
open(src, "w").write("#include <stdbool.h>\n#include <infiniband/mlx5dv.h>\n#include <infiniband/efadv.h>\n#include <infiniband/hnsdv.h>\n")
subprocess.run(["cc", "-std=gnu11", "-isystem", inc, "-aux-info", work + "/dv.aux", "-c", src, "-o", work + "/dv.o"], check=True)
results = {}
for line in open(work + "/dv.aux"):
    m = re.match(r"/\* (\S+?):\d+:\w+ \*/ extern (.*?)(\w+) \(", line)
    if m:
        r = m[2].strip()
        results[m[3]] = "pointer" if r.endswith("*") else r
def maps(name, nodes, text, chain=True):
    with open(os.path.join(root, "abi", name), "w") as f:
        f.write("/* SPDX-License-Identifier: MIT OR Apache-2.0 */\n" + text)
        before = ""
        for i, node in enumerate(sorted(nodes, key=natural)):
            names = "".join(f"        {s};\n" for s in sorted(nodes[node]))
            f.write(f"\n{node} {{\n" + ("    global:\n" + names if names else ""))
            if i == 0: f.write("    local:\n        *;\n")
            f.write(f"}}{before};\n")
            if chain and "PRIVATE" not in node: before = " " + node
stubs = {"libmlx5": "MLX5", "libefa": "EFA", "libhns": "HNS"}
for library, prefix in stubs.items():
    users = collections.defaultdict(set)
    for package, symbols in imports.items():
        for s in symbols:
            if re.search(f"@{prefix}_", s): users[s].add(package)
    lines = []
    nodes = collections.defaultdict(list)
    for s in sorted(users, key=order):
        n, v = s.split("@")
        lines.append(f"{s} {results.get(n, results.get('__' + n, 'unknown')).replace(' ', '_')} {' '.join(sorted(users[s]))}")
        nodes[v].append(n)
    write(f"{library}.txt", lines, [f"What stock programs import from {library}.so.1: symbol, result, packages."])
    maps(f"{library}.map", nodes, f"/* A stub of {library}.so.1: the names in symbols/{library}.txt. */\n")
# Our own libraries.
for name in ("libibverbs", "librdmacm"):
    nodes = collections.defaultdict(list)
    for s in exports("sid", name):
        if "@@" in s and "PRIVATE" not in s:
            n, v = s.split("@@"); nodes[v].append(n)
    text = f"/* Names of {name}.so.1 in their default versions, up to rdma-core 65. */\n"
    if name == "libibverbs":
        nodes["IBVERBS_1.1"].append("ibv_register_driver")
        nodes["IBVERBS_PRIVATE_34"] = ["ibv_query_gid_type", "ibv_wr_opcode_str"]
        text = """/* Names of libibverbs.so.1 in their default versions, up to rdma-core 65.

   The 33 names that stock libraries also export with version IBVERBS_1.0 and the structures of 2006 are absent.
   Programs import ibv_query_gid_type and ibv_wr_opcode_str with the private version of the release that they
   were built with: 33, 34 (releases 34 to 56), 57, 59, 64 or 65. A script gives a name one version only: private.S
   gives these two the others. Stock libraries hide ibv_register_driver from the linker; nothing imports it. */
"""
        for v in (33, 57, 59, 64, 65): nodes[f"IBVERBS_PRIVATE_{v}"] = []
    maps(name + ".map", nodes, text)
