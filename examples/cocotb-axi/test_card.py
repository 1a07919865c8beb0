# SPDX-License-Identifier: MIT OR Apache-2.0
"""A card from reset to its first WRITE, and back: see README.md."""

import logging
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

import card as host
from card import FW, Card
from peer import ACK, RETH, Peer, parse, payload
from stream import Mac


async def start(dut):
    """Clock, reset, the models around the card, and a connection between the card and the peer."""
    for bus in ("m_axi", "s_axil"):
        logging.getLogger(f"cocotb.{dut._name}.{bus}").setLevel(logging.WARNING)  # INFO shows every burst
    dut.rst.value = 1
    cocotb.start_soon(Clock(dut.clk, 16, "ns").start())
    ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, size=1 << 20)
    axil = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
    mac = Mac(dut)
    dut.link_up.value, dut.link_speed.value = 1, 10
    # As long as the card needs it at least.
    await ClockCycles(dut.clk, 3)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 1)
    card, peer = Card(dut.clk, axil, ram), Peer(host.MAC, host.IP, Card.QPN, host.PKEY)
    await card.bring_up(peer)
    return card, peer, mac


async def frame_of(mac):
    return parse(await with_timeout(mac.from_card.get(), 100, "us"))


def check_ack(packet, peer, psn, msn):
    assert packet[BTH].opcode == FW["OPCODE_RC_ACKNOWLEDGE"]
    assert (packet[BTH].dqpn, packet[BTH].psn) == (peer.qpn, psn)
    assert packet[AETH].syndrome & 0xE0 == 0, f"a NAK: syndrome {packet[AETH].syndrome:#x}"
    assert packet[AETH].msn == msn


@cocotb.test(timeout_time=500, timeout_unit="us")
async def a_write_leaves_and_a_write_and_a_send_arrive(dut):
    random.seed(1)
    card, peer, mac = await start(dut)
    log = dut._log.info
    log("the queue pair is in RTS")

    # The card WRITEs into the peer's memory.
    data, va, rkey = random.randbytes(333), 0x1234_5678_9ABC, 0xCAFE_BABE
    card.ram.write(card.buffer + 5, data)
    await card.post_write(5, len(data), va, rkey)
    frame = await frame_of(mac)
    log(frame.summary())
    assert (frame[Ether].src, frame[Ether].dst) == (host.MAC, peer.mac)
    assert (frame[IP].src, frame[IP].dst, str(frame[IP].flags)) == (host.IP, peer.ip, "DF")
    assert frame[UDP].sport == host.SPORT
    assert frame[BTH].opcode == FW["OPCODE_RC_WRITE_ONLY"]
    assert (frame[BTH].dqpn, frame[BTH].psn, frame[BTH].ackreq) == (peer.qpn, card.psn, 1)
    assert (frame[RETH].va, frame[RETH].rkey, frame[RETH].dmalen) == (va, rkey, len(data))
    assert payload(frame) == data
    await ClockCycles(dut.clk, 500)
    assert card.cq.taken == 0 and mac.from_card.empty(), "nothing may be completed before the ACK"
    mac.to_card.put_nowait(peer.acknowledge(card.psn))
    cqe = await card.completion()
    assert cqe["status"] == FW["WC_STATUS_SUCCESS"], FW.name("WC_STATUS", cqe["status"])
    assert (cqe["qpn"], cqe["opcode"], cqe["wqe_index"]) == (card.QPN, FW["CQE_OPCODE_WRITE"], 0)
    log("the card's WRITE is complete")

    # The peer WRITEs into the card's memory.
    data, old = random.randbytes(250), b"\xa5" * 400
    card.ram.write(card.buffer + 900, old)
    request, psn = peer.write(card.buffer + 1003, card.KEY, data)
    mac.to_card.put_nowait(request)
    check_ack(await frame_of(mac), peer, psn, msn=1)
    # The ACK may leave before the AXI write reaches memory; only a CQE says that all data are in memory.
    while card.ram.read(card.buffer + 1003, len(data)) != data:
        await ClockCycles(dut.clk, 1)
    expected = old[:103] + data + old[103 + len(data) :]
    assert card.ram.read(card.buffer + 900, len(old)) == expected, "bytes beside the WRITE have changed"
    log("the peer's WRITE is in memory")

    # The peer SENDs. A frame whose ICRC is wrong changes nothing.
    await card.post_receive(2001, 500)
    data = random.randbytes(99)
    request, psn = peer.send(data)
    mac.to_card.put_nowait(request[:-1] + bytes([request[-1] ^ 1]))
    mac.to_card.put_nowait(request)
    cqe = await card.completion()
    assert card.ram.read(card.buffer + 2001, len(data)) == data, "the CQE came before the data"
    assert cqe["status"] == FW["WC_STATUS_SUCCESS"], FW.name("WC_STATUS", cqe["status"])
    assert (cqe["qpn"], cqe["opcode"], cqe["receive"]) == (card.QPN, FW["CQE_OPCODE_RECV"], 1)
    assert (cqe["byte_len"], cqe["wqe_index"]) == (len(data), 0)
    check_ack(await frame_of(mac), peer, psn, msn=2)
    assert await card.count("DROPS_DROP_ICRC") == 1
    assert await card.count("HW_COUNTERS_RX_WRITE_REQUESTS") == 1
    log("the peer's SEND is complete")

    await ClockCycles(dut.clk, 500)
    assert mac.from_card.empty(), "the card sends a frame without a reason"
