# SPDX-License-Identifier: MIT OR Apache-2.0
"""The other end of the wire: scapy builds and parses the RoCE v2 frames and computes their ICRC."""

from scapy.contrib.roce import AETH, BTH
from scapy.fields import IntField, XIntField, XLongField
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw, bind_layers

from header import Header

FW = Header()
ACK = 0x1F  # an AETH syndrome: ACK without a credit count (IBTA volume 1, 9.7.5.2.2)


class RETH(Packet):
    """RDMA extended transport header, which scapy lacks (IBTA volume 1, 9.3.3)."""

    name = "RETH"
    fields_desc = [XLongField("va", 0), XIntField("rkey", 0), IntField("dmalen", 0)]


bind_layers(BTH, RETH, opcode=FW["OPCODE_RC_WRITE_ONLY"])


class Peer:
    """Requester and responder of one connection. Every message is one packet."""

    mac, ip, sport = "02:00:00:00:00:02", "10.0.0.2", 0xC456
    qpn, psn = 0x77, 0xFFFFFF  # the second packet's PSN wraps to 0

    def __init__(self, card_mac, card_ip, card_qpn, pkey):
        self.next_psn, self.msn = self.psn, 0
        self.below = Ether(src=self.mac, dst=card_mac) / IP(src=self.ip, dst=card_ip, flags="DF", ttl=64)
        self.below /= UDP(sport=self.sport, chksum=0)
        self.dqpn, self.pkey = card_qpn, pkey

    def packet(self, opcode, psn, headers=None, payload=b"", **bth):
        """Build a frame with pad, lengths, checksum and ICRC. A UDP checksum of 0 means that there is none."""
        pad = -len(payload) % 4
        bth = BTH(opcode=FW[f"OPCODE_RC_{opcode}"], dqpn=self.dqpn, pkey=self.pkey, psn=psn, padcount=pad, **bth)
        above = bth / headers if headers else bth
        return bytes(self.below / above / Raw(payload + bytes(pad)))

    def request(self, opcode, headers=None, payload=b""):
        """The next request, and its PSN."""
        psn, self.next_psn = self.next_psn, (self.next_psn + 1) % (1 << 24)
        return self.packet(opcode, psn, headers, payload, ackreq=1), psn

    def write(self, va, rkey, payload):
        return self.request("WRITE_ONLY", RETH(va=va, rkey=rkey, dmalen=len(payload)), payload)

    def send(self, payload):
        return self.request("SEND_ONLY", None, payload)

    def acknowledge(self, psn):
        """The ACK of a message that the card sent."""
        self.msn += 1
        return self.packet("ACKNOWLEDGE", psn, AETH(syndrome=ACK, msn=self.msn))


def parse(frame):
    """Parse a frame. Its lengths, IPv4 checksum and ICRC must be those that scapy computes."""
    packet = Ether(frame)
    again = packet.copy()
    again[IP].len = again[IP].chksum = again[UDP].len = again[BTH].icrc = None
    assert bytes(again) == frame, f"scapy computes another length, checksum or ICRC:\n{packet.show(dump=True)}"
    return packet


def payload(packet):
    """A packet's payload without its pad."""
    data = bytes(packet[Raw])
    return data[: len(data) - packet[BTH].padcount]
