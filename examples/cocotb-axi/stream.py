# SPDX-License-Identifier: MIT OR Apache-2.0
"""The MAC side: frames to the card's `rx` stream and from its `tx` stream.

Byte 0 of a beat is in bits 7:0, and `empty` counts the bytes at the top of a frame's last beat that are not part of the frame.
"""

import cocotb
from cocotb.queue import Queue
from cocotb.triggers import RisingEdge


class Mac:
    def __init__(self, dut):
        self.dut, self.beat = dut, len(dut.rx_data) // 8
        self.to_card, self.from_card = Queue(), Queue()
        dut.rx_valid.value = 0
        dut.tx_ready.value = 1
        cocotb.start_soon(self._drive())
        cocotb.start_soon(self._collect())

    async def _drive(self):
        dut = self.dut
        while True:
            frame = await self.to_card.get()
            for at in range(0, len(frame), self.beat):
                beat = frame[at : at + self.beat]
                dut.rx_valid.value = 1
                dut.rx_data.value = int.from_bytes(beat, "little")
                dut.rx_last.value = int(at + self.beat >= len(frame))
                dut.rx_empty.value = self.beat - len(beat)
                await RisingEdge(dut.clk)
                while not dut.rx_ready.value:
                    await RisingEdge(dut.clk)
            dut.rx_valid.value = 0

    async def _collect(self):
        dut, frame = self.dut, bytearray()
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value or not (dut.tx_valid.value and dut.tx_ready.value):
                continue
            frame += int(dut.tx_data.value).to_bytes(self.beat, "little")
            if dut.tx_last.value:
                self.from_card.put_nowait(bytes(frame[: len(frame) - int(dut.tx_empty.value)]))
                frame.clear()
