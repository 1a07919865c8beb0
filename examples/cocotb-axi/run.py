#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compile a card's Verilog with Icarus and run test_card.py on it.

    python3 run.py RTL [--build DIR] [--waves]

RTL is a folder written by ferrowire-rtl-gen; README.md shows the command. Exit code: 0 if the test passes.
"""

import argparse
import json
from pathlib import Path

from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

HERE = Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rtl", type=Path, help="folder of ferrowire-rtl-gen --out")
    parser.add_argument("--build", type=Path, default=HERE / "sim_build", help="folder for what is built")
    parser.add_argument("--waves", action="store_true", help="write the signals to BUILD/rnic.fst")
    args = parser.parse_args()

    top = json.loads((args.rtl / "manifest.json").read_text())["top"]
    sources = [args.rtl / name for name in (args.rtl / "files.f").read_text().split()]
    runner = get_runner("icarus")
    runner.build(
        sources=[source.resolve() for source in sources],
        hdl_toplevel=top,
        build_dir=args.build,
        build_args=["-g2012", "-Wall"],
        timescale=("1ns", "1ps"),
        always=True,
        waves=args.waves,
    )
    results = runner.test(
        test_module="test_card",
        hdl_toplevel=top,
        build_dir=args.build,
        test_dir=HERE,
        waves=args.waves,
        results_xml=str(args.build.resolve() / "results.xml"),
        # cocotbext-axi calls cocotb by names that are deprecated.
        extra_env={"PYTHONWARNINGS": "ignore::DeprecationWarning"},
    )
    tests, failed = get_results(Path(results))
    print(f"{tests} tests, {failed} failed")
    return 0 if tests and not failed else 1


if __name__ == "__main__":
    raise SystemExit(main())
