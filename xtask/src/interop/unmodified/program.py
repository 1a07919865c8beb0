# SPDX-License-Identifier: MIT OR Apache-2.0
"""A program of MPI: a ping-pong between all pairs of ranks, and an allreduce of 1 MiB, each compared with what is right."""

import array
import sys

from mpi4py import MPI

ALL = MPI.COMM_WORLD
RANK, RANKS = ALL.Get_rank(), ALL.Get_size()
# Of 8 bytes: 1 MiB.
NUMBERS = 128 * 1024


def pattern(sender, receiver, bytes_):
    """What one rank sends to another: other bytes for each pair and each size."""
    first = 16 * sender + receiver + bytes_
    return bytes((first + 7 * place) % 251 for place in range(bytes_))


def pingpong():
    """Each pair of ranks in turn: the lower one sends, and gets what the other one sends."""
    for low in range(RANKS):
        for high in range(low + 1, RANKS):
            for bytes_ in (1, 1000, 9000, 300000):
                if RANK == low:
                    ALL.Send([bytearray(pattern(low, high, bytes_)), MPI.BYTE], dest=high)
                    came = bytearray(bytes_)
                    ALL.Recv([came, MPI.BYTE], source=high)
                    if came != pattern(high, low, bytes_):
                        return False
                elif RANK == high:
                    came = bytearray(bytes_)
                    ALL.Recv([came, MPI.BYTE], source=low)
                    ALL.Send([bytearray(pattern(high, low, bytes_)), MPI.BYTE], dest=low)
                    if came != pattern(low, high, bytes_):
                        return False
    return True


def allreduce():
    """The sum over all ranks. All numbers are whole and small, so sums of floats are exact."""
    own = array.array("d", (float((RANK + 1) * (place % 1000)) for place in range(NUMBERS)))
    came = array.array("d", bytes(8 * NUMBERS))
    ALL.Allreduce([own, MPI.DOUBLE], [came, MPI.DOUBLE], op=MPI.SUM)
    factor = RANKS * (RANKS + 1) // 2
    return all(value == factor * (place % 1000) for place, value in enumerate(came))


right = True
for name, part in (("ping-pong", pingpong), ("allreduce", allreduce)):
    well = part()
    right = right and well
    # One write a line, so that ranks do not cut each other's.
    sys.stdout.write(f"rank {RANK}: {name} {'right' if well else 'WRONG'}\n")
    sys.stdout.flush()
sys.exit(0 if right else 1)
