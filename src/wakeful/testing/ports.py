"""A loopback port for a server that a test stops and starts again."""

from __future__ import annotations

import random
import socket
from pathlib import Path


def free_port() -> int:
    """A free port below the range that the system uses for outgoing connections.

    A port in that range is unsafe while its server is down: a reconnecting client may be given this very port as its
    own end and connect to itself, and any other connection may take the port before the server is back.
    """
    try:
        first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        first_outgoing = 32768
    for _ in range(100):
        port = random.randrange(10_000, max(first_outgoing, 10_100))
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port found on 127.0.0.1 in 100 tries")
