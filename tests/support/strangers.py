"""Clients that mean no good: raw sockets on loopback, which send what no HTTP library would."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator

PATIENCE = 60.0
HALF_A_HEAD = b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: appl"
HALF_A_BODY = (
    b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
)


def call(port: int, sent: bytes = b"", *, address: str = "127.0.0.1") -> socket.socket:
    """A connection from this address of the machine itself, on which so much was sent."""
    client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(address, 0))
    client.sendall(sent)
    return client


def read_all(client: socket.socket) -> bytes:
    """What the server still says before it closes the connection."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            said += part
    return said


def flood(port: int, first: bytes, piece: bytes, most: int) -> tuple[bytes, int]:
    """Send `piece` again and again, until the server says something or `most` bytes are sent: its words, and how many were sent."""
    with call(port, first) as client:
        sent = len(first)
        with contextlib.suppress(ConnectionError):
            while sent < most and not select.select([client], [], [], 0)[0]:
                client.sendall(piece)
                sent += len(piece)
        return read_all(client), sent


@contextlib.contextmanager
def crowd(port: int, number: int, sent: bytes, *, addresses: int = 10) -> Iterator[list[socket.socket]]:
    """So many connections at once, from several addresses."""
    with contextlib.ExitStack() as stack:
        clients: list[socket.socket] = []
        for count in range(number):
            with contextlib.suppress(ConnectionError):  # refused at once
                clients.append(stack.enter_context(call(port, sent, address=f"127.0.0.{2 + count % addresses}")))
        yield clients
