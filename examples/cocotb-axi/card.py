# SPDX-License-Identifier: MIT OR Apache-2.0
"""A minimal driver: brings up a Ferrowire card and uses one queue pair.

The names are those of docs/src/registers.md. Each ring fits into one page. The driver chooses the number of
each object.
"""

from cocotb.triggers import ClockCycles, with_timeout

from header import Header

FW = Header()
PAGE = 4096
# What the two sides of the connection agree on.
MAC, IP = "02:00:00:00:00:01", "10.0.0.1"
PKEY, SPORT = 0xFFFF, 0xC123


def mac_number(text):
    return int(text.replace(":", ""), 16)


def ip_number(text):
    return int.from_bytes(bytes(int(part) for part in text.split(".")), "big")


def gid_slot(ip, kind, salt):
    """The slot of an entry in the table of GIDs: `GidEntry::slot` of spec/src/csr/port.rs."""
    fold = FW["GID_FOLD"]
    word = (1 << fold) - 1
    both = kind << 128 | ip
    value = 0
    while both:
        value ^= both & word
        both >>= fold
    product = value * salt
    return (product >> 8 ^ product >> fold) & (FW["GID_SLOTS"] - 1)


class Ring:
    """A ring that the card writes. The phase bit says which entries are new."""

    def __init__(self, card, layout, log2):
        self.card, self.layout, self.log2 = card, layout, log2
        self.base, self.taken = card.allocate(FW[f"{layout}_BYTES"] << log2), 0

    async def next(self):
        """Wait for the next entry."""
        size = FW[f"{self.layout}_BYTES"]
        at = self.base + self.taken % (1 << self.log2) * size
        phase = 1 - (self.taken >> self.log2) % 2
        while FW.get(self.layout, "phase", entry := self.card.ram.read(at, size)) != phase:
            await ClockCycles(self.card.clock, 8)
        self.taken += 1
        return entry


class Card:
    """The card, seen through its registers (`axil`, an AxiLiteMaster) and host memory (`ram`, an AxiRam)."""

    RING_LOG2 = 4
    # The objects' numbers. Key index 0 is reserved; QPN 0 is for raw Ethernet, QPN 1 is QP1.
    PD, CQN, QPN, PAGE_OF_DOORBELLS = 1, 1, 2, 1
    KEY = 3 << 8 | 0x5A  # index in bits 31:8, tag in bits 7:0

    def __init__(self, clock, axil, ram):
        self.clock, self.axil, self.ram = clock, axil, ram
        self.free = PAGE
        self.commands = 0

    def allocate(self, size):
        """Take zeroed pages of host memory."""
        at = self.free
        self.free += -(-size // PAGE) * PAGE
        self.ram.write(at, bytes(size))
        return at

    # Registers and doorbells.

    async def read(self, register):
        return await self.axil.read_dword(FW[f"CSR_{register}"])

    async def write(self, register, value):
        await self.axil.write_dword(FW[f"CSR_{register}"], value)

    async def count(self, counter):
        """A counter of 64 bits, for instance `DROPS_DROP_ICRC`."""
        return await self.axil.read_qword(FW[f"CSR_{counter}"])

    async def ring(self, kind, **fields):
        """Ring a doorbell: one store of 64 bits."""
        at = FW["DOORBELL_BASE"] + self.PAGE_OF_DOORBELLS * FW["DOORBELL_PAGE_BYTES"] + FW[f"DOORBELL_{kind}"]
        await self.axil.write(at, FW.pack(f"{kind}_DOORBELL", **fields))

    # Bring-up.

    async def bring_up(self, peer):
        await self.identify()
        await self.start_command_queue()
        await self.set_addresses()
        await self.create_objects()
        await self.connect(peer)

    async def identify(self):
        assert await self.read("IDENTITY_MAGIC") == int.from_bytes(b"FERW", "little")
        layout = await self.read("IDENTITY_LAYOUT_HASH_LO") | await self.read("IDENTITY_LAYOUT_HASH_HI") << 32
        assert layout == FW["LAYOUT_HASH"], "the card and ferrowire_regs.h are of different versions"

    async def start_command_queue(self):
        control = "COMMAND_QUEUE_CONTROL"
        await self.write(control, FW["CSR_COMMAND_QUEUE_CONTROL_RESET_MASK"])
        while await self.read(control) & FW["CSR_COMMAND_QUEUE_CONTROL_RESET_MASK"]:
            pass
        while not await self.read("COMMAND_QUEUE_STATUS") & FW["CSR_COMMAND_QUEUE_STATUS_READY_MASK"]:
            pass
        self.cmdq = self.allocate(FW["COMMAND_BYTES"] << self.RING_LOG2)
        self.completions = Ring(self, "COMMAND_COMPLETION", self.RING_LOG2)
        for ring, base in (("CMDQ", self.cmdq), ("COMPL", self.completions.base)):
            await self.write(f"COMMAND_QUEUE_{ring}_BASE_LO", base & 0xFFFFFFFF)
            await self.write(f"COMMAND_QUEUE_{ring}_BASE_HI", base >> 32)
            await self.write(f"COMMAND_QUEUE_{ring}_LOG2", self.RING_LOG2)
        await self.write(control, FW["CSR_COMMAND_QUEUE_CONTROL_ENABLE_MASK"])

    async def command(self, opcode, object, layout=None, **fields):
        """Post one command and wait until the card has completed it."""
        token = self.commands % (1 << 16)
        entry = FW.pack(
            layout or opcode, opcode=FW[f"COMMAND_OPCODE_{opcode}"], token=token, object=object, **fields
        )
        self.ram.write(self.cmdq + self.commands % (1 << self.RING_LOG2) * len(entry), entry)
        self.commands += 1
        await self.write("COMMAND_QUEUE_CMDQ_PRODUCER", self.commands % (1 << 16))
        done = await with_timeout(self.completions.next(), 100, "us")
        assert FW.get("COMMAND_COMPLETION", "token", done) == token
        status = FW.get("COMMAND_COMPLETION", "status", done)
        attribute = FW.get("COMMAND_COMPLETION", "attribute", done)
        assert status == FW["COMMAND_STATUS_OK"], (
            f"{opcode}: {FW.name('COMMAND_STATUS', status)}, {FW.name('COMMAND_ATTRIBUTE', attribute)}"
        )
        return FW.get("COMMAND_COMPLETION", "value", done)

    async def set_addresses(self):
        """The port's MAC address, and its IP address as GID 0."""
        await self.write("PORT_MAC_LO", mac_number(MAC) & 0xFFFFFFFF)
        await self.write("PORT_MAC_HI", mac_number(MAC) >> 32)
        kind = 0  # IPv4, no VLAN
        slot = gid_slot(ip_number(IP), kind, await self.read("PORT_GID_SALT"))
        await self.write("PORT_GID_IP0", ip_number(IP))
        for word in ("IP1", "IP2", "IP3"):
            await self.write(f"PORT_GID_{word}", 0)
        await self.write("PORT_GID_KIND", kind)
        await self.write(
            "PORT_GID_WRITE",
            slot << FW["CSR_PORT_GID_WRITE_SLOT_SHIFT"] | FW["CSR_PORT_GID_WRITE_VALID_MASK"],
        )

    async def create_objects(self):
        """A protection domain, a region of one page, a completion queue and a queue pair."""
        await self.command("ALLOC_PD", self.PD, layout="COMMAND")

        self.buffer, pages = self.allocate(PAGE), self.allocate(PAGE)
        self.ram.write(pages, self.buffer.to_bytes(8, "little"))
        await self.command(
            "REG_MR",
            self.KEY,
            pd=self.PD,
            access=FW["ACCESS_LOCAL_WRITE"] | FW["ACCESS_REMOTE_WRITE"],
            page_shift=PAGE.bit_length() - 1,
            va=self.buffer,
            length=PAGE,
            page_list_addr=pages,
            page_count=1,
            mtt_index=0,
        )

        self.cq = Ring(self, "CQE", self.RING_LOG2)
        await self.command(
            "CREATE_CQ",
            self.CQN,
            base=self.cq.base,
            log2_entries=self.RING_LOG2,
            doorbell_page=self.PAGE_OF_DOORBELLS,
        )

        self.sq = self.allocate(FW["SEND_WQE_BYTES"] << self.RING_LOG2)
        self.rq = self.allocate(FW["RECV_WQE_BYTES"] << self.RING_LOG2)
        self.sends = self.receives = 0
        await self.command(
            "CREATE_QP",
            self.QPN,
            pd=self.PD,
            service=FW["SERVICE_RC"],
            doorbell_page=self.PAGE_OF_DOORBELLS,
            sq_base=self.sq,
            sq_log2=self.RING_LOG2,
            send_cqn=self.CQN,
            rq_base=self.rq,
            rq_log2=self.RING_LOG2,
            recv_cqn=self.CQN,
        )

    async def modify_qp(self, state, given, **attributes):
        """Move the queue pair. `given` names the attributes that the command has, as bits of `attr_mask`."""
        mask = sum(1 << FW[f"QP_ATTRIBUTE_BIT_{name}"] for name in given.split())
        await self.command(
            "MODIFY_QP", self.QPN, attr_mask=mask, state=FW[f"QP_STATE_{state}"], **attributes
        )

    async def connect(self, peer):
        """RESET to INIT to RTR to RTS, with the attributes of IBTA volume 1, 11.2.5.2."""
        await self.modify_qp("INIT", "PKEY ACCESS", pkey=PKEY, access=FW["ACCESS_REMOTE_WRITE"])
        await self.command(
            "SET_AV",
            self.QPN,
            dst_mac=mac_number(peer.mac),
            src_mac=mac_number(MAC),
            dst_ip=ip_number(peer.ip).to_bytes(16, "little"),
            src_ip=ip_number(IP).to_bytes(16, "little"),
            hop_limit=64,
            sgid_index=0,
        )
        await self.modify_qp(
            "RTR",
            "AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER SPORT",
            path_mtu=FW["PATH_MTU_1024"],
            dest_qpn=peer.qpn,
            rq_psn=peer.psn,
            max_dest_rd_atomic=1,
            min_rnr_timer=12,
            sport=SPORT,
        )
        self.psn = 0x123456
        await self.modify_qp(
            "RTS",
            "SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_RD_ATOMIC",
            sq_psn=self.psn,
            timeout=14,
            retry_cnt=7,
            rnr_retry=7,
            max_rd_atomic=1,
        )

    # Work requests.

    async def post_write(self, offset, length, remote_va, rkey):
        """Post a signalled WRITE of a part of the buffer."""
        wqe = FW.pack(
            "SEND_WQE",
            opcode=FW["SEND_OPCODE_WRITE"],
            signaled=1,
            num_sge=1,
            remote_va=remote_va,
            rkey=rkey,
            sge0_addr=self.buffer + offset,
            sge0_lkey=self.KEY,
            sge0_len=length,
        )
        self.ram.write(self.sq + self.sends % (1 << self.RING_LOG2) * len(wqe), wqe)
        self.sends += 1
        await self.ring("SQ", qpn=self.QPN, producer=self.sends % (1 << 16))

    async def post_receive(self, offset, length):
        """Post a receive into a part of the buffer."""
        wqe = FW.pack("RECV_WQE", sge0_addr=self.buffer + offset, sge0_lkey=self.KEY, sge0_len=length)
        self.ram.write(self.rq + self.receives % (1 << self.RING_LOG2) * len(wqe), wqe)
        self.receives += 1
        await self.ring("RQ", qpn=self.QPN, producer=self.receives % (1 << 16))

    async def completion(self):
        """Wait for a CQE, and give its slot back."""
        cqe = await with_timeout(self.cq.next(), 100, "us")
        await self.ring("CQ", cqn=self.CQN, consumer=self.cq.taken)
        return {name: FW.get("CQE", name, cqe) for name in ("qpn", "opcode", "status", "byte_len", "wqe_index", "receive")}
