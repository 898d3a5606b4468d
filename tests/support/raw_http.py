"""A request written by hand, byte for byte, as no client library would send it."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def send(url: str, method: str, path: str, *headers: str, host: str = "127.0.0.1", body: bytes = b"") -> Answer:
    """The answer to a request with these header lines, and a Host that has nothing to do with where it goes."""
    parts = urlsplit(url)
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    with socket.create_connection((parts.hostname, parts.port or 80), timeout=60) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        said = b""
        while part := connection.recv(65536):
            said += part
    head, _, content = said.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    found = {name.lower(): value for name, value in (line.split(": ", 1) for line in rest)}
    return Answer(int(first.split()[1]), found, content)
