# SPDX-License-Identifier: MIT OR Apache-2.0
"""The macros of `ferrowire_regs.h`: all offsets, fields and codes of the card, so that no number is typed twice."""

import re
from pathlib import Path

HEADER = Path(__file__).resolve().parents[2] / "driver/include/ferrowire_regs.h"


class Header:
    """`Header()["CQE_BYTES"]` is the value of `FW_CQE_BYTES`."""

    def __init__(self, path=HEADER):
        found = re.findall(r"^#define FW_(\w+) (0x[0-9a-f]+|\d+)u(?:ll)?\b", path.read_text(), re.MULTILINE)
        self.macros = {name: int(value, 0) for name, value in found}

    def __getitem__(self, name):
        return self.macros[name]

    def pack(self, layout, **fields):
        """Encode a queue entry or a doorbell, for instance `pack("SQ_DOORBELL", qpn=2, producer=1)`.

        Fields that are not given are 0. A field of 128 bits has no mask in C: give its value as `bytes`.
        """
        entry = bytearray(self[f"{layout}_BYTES"])
        for name, value in fields.items():
            field = f"{layout}_{name.upper()}"
            at = self[f"{field}_BYTE"]
            if not isinstance(value, bytes):
                size, mask = self[f"{field}_SIZE"], self[f"{field}_MASK"]
                placed = value << self[f"{field}_SHIFT"]
                assert placed & ~mask == 0, f"{name} = {value:#x} does not fit into its field"
                # Other fields may share these bytes.
                value = (int.from_bytes(entry[at : at + size], "little") | placed).to_bytes(size, "little")
            entry[at : at + len(value)] = value
        return bytes(entry)

    def get(self, layout, name, entry):
        """Decode one field of a queue entry."""
        field = f"{layout}_{name.upper()}"
        at, size = self[f"{field}_BYTE"], self[f"{field}_SIZE"]
        return (int.from_bytes(entry[at : at + size], "little") & self[f"{field}_MASK"]) >> self[f"{field}_SHIFT"]

    def name(self, enumeration, value):
        """The name of a code, for messages: `name("WC_STATUS", 0)` is `SUCCESS`."""
        prefix = f"{enumeration}_"
        names = (n.removeprefix(prefix) for n, v in self.macros.items() if n.startswith(prefix) and v == value)
        return next(names, f"{value:#x}")
