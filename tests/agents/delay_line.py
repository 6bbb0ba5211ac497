"""A path with delay between two namespaces, where the kernel has no netem.

    python delay_line.py PID ADDRESS PID ADDRESS DELAY_S

Makes a tun device in the network namespace of each process and carries every packet from one to the
other, a fixed time later. Says ``ready`` and works until it is killed; the devices go with it.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import select
import struct
import sys
import time
from contextlib import suppress

from pyroute2 import IPRoute

NAME = "slow"
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
LARGEST = 65536


def open_tun(pid: str, address: str) -> int:
    """Enter the namespace of a process and make the device there; it works from everywhere."""
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(namespace)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", NAME.encode(), IFF_TUN | IFF_NO_PI))
    with IPRoute() as ipr:
        (index,) = ipr.link_lookup(ifname=NAME)
        ipr.addr("add", index=index, address=address, prefixlen=24)
        ipr.link("set", index=index, state="up")
    return device


def carry(one: int, two: int, delay_s: float) -> None:
    """Carry packets for ever."""
    other = {one: two, two: one}
    waiting: list[tuple[float, int, int, bytes]] = []
    count = 0
    while True:
        wait_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select([one, two], [], [], wait_s)
        for device in ready:
            with suppress(BlockingIOError):
                while packet := os.read(device, LARGEST):
                    count += 1
                    heapq.heappush(
                        waiting, (time.monotonic() + delay_s, count, other[device], packet)
                    )
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, to, packet = heapq.heappop(waiting)
            with suppress(BlockingIOError):
                os.write(to, packet)


if __name__ == "__main__":
    pid_one, address_one, pid_two, address_two, delay = sys.argv[1:]
    devices = open_tun(pid_one, address_one), open_tun(pid_two, address_two)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    carry(*devices, float(delay))
